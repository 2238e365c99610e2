"""Speculation with real threads: functions whose keys depend on what they read, beside the same functions in plain Python.

Property    rows and tables are those of the serial definition, for any threads and punctuation, under conflicts of all
            kinds, changes of threads and scheme, and where there is no room; an exception ends the run at the event that
            raises it in the order of events, and only then; what cannot be run is refused with the reason
Oracle      `headrace.reference.transactions`, which runs the same function
Cannot see  schedules that real threads do not meet: test_interleave_speculative.py
"""

import random
import sys

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError, NotSupportedError, ParameterError
from headrace.transactions import arrays, speculation_kernel
from headrace.transactions import multiversion_kernel as kernel
from headrace.transactions.fitting import KEYLESS
from support.campaign import rarely
from support.made_up_transactions import EMITS, events, program
from support.transacted import SCHEMES, agree, in_engine, in_python, same

ROWS = 60
A = hr.table(
    "A", key="id", columns={"b": "int64", "next": "int64"},
    data=pa.table({"id": range(ROWS), "b": [20] * ROWS, "next": [(7 * k + 3) % ROWS for k in range(ROWS)]}),
)  # fmt: skip
B = hr.table("B", columns={"price": "int64", "sold": "int64"}, rows=ROWS, first={"price": 3})
S = hr.table("S", columns={"s": hr.set_of("int64")}, rows=4)
I = hr.table("I", columns={"b": "int64"}, rows=4, unknown="insert", max_rows=100)


def follow(e, t):
    """The balance moves along two pointers, and the first one with it."""
    n = A[e.k].next
    m = A[n].next
    if A[m].b < e.x:
        t.reject()
    A[m].b -= e.x
    A[n].b += e.x
    A[e.k].next = (n + e.x) % e.rows
    t.emit(o=A[m].b)


def cheapest(e, t):
    """The cheapest of three is bought, and becomes dearer."""
    k = e.k
    if B[e.j].price < B[k].price:
        k = e.j
    if B[e.i].price < B[k].price:
        k = e.i
    B[k].price += 1 + e.x
    B[k].sold += 1
    if B[k].price > e.most:
        t.reject()


def transfer(e, t):
    A[e.k].b -= e.x
    A[e.j].b += e.x
    if A[e.k].b < e.least:
        t.reject()
    t.emit(o=A[e.j].b)


def drawn(seed, n, records=ROWS, most=10**9, least=0, own=False):
    """`records` of all are named; above `most` and below `least` events are rejected."""
    draw = random.Random(seed)
    keys = {name: [draw.randrange(records) for _ in range(n)] for name in "kji"}
    if own:
        keys["j"] = keys["k"]
    x = [draw.randrange(4) for _ in range(n)]
    return pa.table({"ts": range(n), **keys, "x": x, "rows": [records] * n, "most": [most] * n, "least": [least] * n})


GIVEN = {"o": "int64"}
POINTERS = [follow, cheapest]
"""Compiled once for all that needs no other function."""
SHAPES = {
    "apart": {}, "two hot keys": {"records": 2}, "one key": {"records": 1}, "to oneself": {"own": True},
    "half is rejected": {"most": 20, "least": 20}, "all is rejected": {"most": 0, "least": 10**6},
}  # fmt: skip


@pytest.mark.slow
def test_example_a_pointer_is_followed():
    rows = agree(POINTERS, drawn(0, 30), GIVEN, schemes=KEYLESS, threads=2)
    assert len({row["o"] for row in rows}) > 2


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_oracle_shapes(shape):
    given = drawn(shape, 1500, **SHAPES[shape])
    rows = agree(POINTERS, given, GIVEN, schemes=["speculative"], threads=2, punctuation=100)
    agree(transfer, given, {"o": "int64"}, schemes=["speculative"], threads=2, punctuation=100)
    rejected = sum(row["rejected"] for row in rows) / len(rows)
    assert rejected == 1 if shape == "all is rejected" else rejected < 1


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 8, *rarely(3, 4)])
def test_agree_threads_and_punctuations(threads):
    given = drawn(threads, 1200, records=15)
    expected = in_python(POINTERS, given, GIVEN)
    for punctuation in (1, 10, 300, 10_000):
        found = in_engine(
            POINTERS, given, GIVEN, scheme="speculative", threads=threads, max_threads=8, punctuation=punctuation
        )
        same(expected, found)


@pytest.mark.slow
@pytest.mark.parametrize("room", [8, 30, 200])
def test_agree_what_has_no_room_is_executed_alone(room):
    agree(POINTERS, drawn(room, 600), GIVEN, schemes=["speculative"], threads=3, punctuation=100, max_operations=room)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_agree_changes_while_it_runs(seed):
    draw = random.Random(seed)
    for functions, schemes in ((POINTERS, KEYLESS), (transfer, (*SCHEMES, "speculative"))):
        at = sorted(draw.randrange(1500) for _ in range(12))
        changes = [
            (row, {"scheme": draw.choice(schemes), "threads": draw.randrange(1, 5), "punctuation": draw.choice([5, 50, 500])})
            for row in at
        ]
        agree(
            functions, drawn(seed, 1500, records=20), GIVEN, schemes=["speculative"], threads=2, max_threads=4,
            reconfigure=changes,
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize("seeds", [range(12), *rarely(range(12, 300))], ids=str)
def test_made_up_functions_give_what_they_give_in_order(seeds):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    ran = 0
    try:
        for seed in seeds:
            functions, text = program(seed)
            draw = random.Random(seed)
            threads, punctuation = draw.choice([2, 3]), draw.choice([2, 7, 50])
            try:
                agree(
                    functions, events(draw, 50), EMITS, ["k"], ["speculative"], threads=threads, punctuation=punctuation
                )
                ran += 1
            except NotSupportedError as error:
                assert "unknown='insert'" in str(error), f"{seed}: {error}\n{text}"
            except Exception as error:
                raise AssertionError(f"{seed}, {threads} threads, {punctuation}: {error!r}\n{text}") from error
    finally:
        sys.setswitchinterval(interval)
    assert ran > len(seeds) / 2


# -- exceptions


def balanced(e, t):
    """Two rows always have 40 together; an event that sees half of a change divides by zero, or turns for ever."""
    a = A[e.k]
    b = A[e.j]
    if e.k == e.j:
        t.reject()
    both = a.b + b.b
    while a.b + b.b != 40:
        both += 0
    t.emit(o=7 // (41 - both))
    a.b -= e.x
    b.b += e.x


def fails_late(e, t):
    n = A[e.k].next
    A[n].b += 1
    t.emit(o=6 // (A[n].b - e.most))


@pytest.mark.slow
def test_example_an_event_that_turns_in_a_loop_by_what_holds_no_longer_leaves_it():
    c, rows = arrays.allocate(2, 4, 16, 64, copies=range(4, 104)), np.zeros(104, np.int64)
    for me in range(2):
        speculation_kernel.prepare_speculation(me, c, me, me + 1, 7, 2)
    kernel.begin_execution(0, c)
    assert kernel.touch_row(0, c, rows, 1, 3, 3, 1, False) == 3
    turns = 2 * kernel.LOOKED_AFTER
    assert not any(kernel.is_doomed(0, c, 1) for _ in range(turns))
    kernel.begin_execution(1, c)
    rows[kernel.touch_row(1, c, rows, 0, 3, 3, 1, True)] = 5
    assert kernel.end_execution(1, c, rows, 0) == kernel.WROTE_NEW
    assert any(kernel.is_doomed(0, c, 1) for _ in range(turns))
    assert kernel.end_execution(0, c, rows, 1) == kernel.DOOMED


@pytest.mark.slow
def test_agree_what_is_seen_too_early_ends_no_run():
    given = drawn(5, 4000, records=2)
    agree(balanced, given, {"o": "int64"}, schemes=["speculative"], threads=4, punctuation=1000)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
def test_example_an_exception_ends_the_run_at_its_event(threads):
    given = drawn(2, 400, records=5, most=60)
    rows, balances = [], dict.fromkeys(range(ROWS), 20)
    for row in given.to_pylist():
        n = (7 * row["k"] + 3) % ROWS
        balances[n] += 1
        if balances[n] == 60:
            break
        rows.append(row)
    assert 100 < len(rows) < 400
    with pytest.raises(FunctionError, match="ZeroDivisionError") as caught:
        in_engine([fails_late], given, {"o": "int64"}, scheme="speculative", threads=threads, punctuation=50)
    assert caught.value.tuple["ts"] == len(rows)
    assert caught.value.line == fails_late.__code__.co_firstlineno + 3


# -- what is refused


def of_a_set(e, t):
    S[e.k].s.add(e.x)


def of_a_set_that_is_pointed_to(e, t):
    S[A[e.k].next].s.add(e.x)


def of_new_rows(e, t):
    I[A[e.k].next].b += 1


def of_new_rows_determined(e, t):
    I[e.k].b += 1
    t.emit(o=I[e.k].b)


def start(function, **options):
    return in_engine([function], drawn(0, 20, records=4), {"o": "int64"}, **options)


@pytest.mark.parametrize("scheme", ["chains", "lock", "partition"])
def test_example_other_schemes_say_line_and_way_out(scheme):
    with pytest.raises(FunctionError, match=r'depends on what .* reads .*start\(scheme="speculative"\)') as caught:
        start(follow, scheme=scheme)
    assert caught.value.line == follow.__code__.co_firstlineno + 3


def test_example_what_cannot_be_run_on_versions():
    with pytest.raises(NotSupportedError, match="'s' of table 'S' is a list, set, map or array, .*: use another scheme"):
        start(of_a_set, scheme="speculative")
    with pytest.raises(NotSupportedError, match="'s' of table 'S' .*: use scheme='serial', since a key depends on what is"):
        start(of_a_set_that_is_pointed_to, scheme="speculative")
    with pytest.raises(NotSupportedError, match="could insert keys into table 'I'"):
        start(of_new_rows, scheme="speculative")
    with pytest.raises(FunctionError, match="depends on what"):
        start(follow, scheme="serial", reconfigure=[(5, {"scheme": "lock"})])


@pytest.mark.slow
def test_agree_rows_that_come_to_be():
    agree(of_new_rows_determined, drawn(3, 300), {"o": "int64"}, schemes=["speculative"], threads=3, punctuation=40)


@pytest.mark.slow
def test_example_only_what_can_be_run_can_be_asked_for():
    query = hr.stream(drawn(0, 20), event_time="ts").transact(*POINTERS, emits=GIVEN)
    with query.start(scheme="serial", threads=1, rate=0.1) as run:
        assert run.capabilities["scheme"].choices == KEYLESS
        with pytest.raises(ParameterError, match="lock"):
            run.reconfigure(scheme="lock")


@pytest.mark.slow
def test_example_adaptive_tries_what_can_run_it():
    agree(POINTERS, drawn(1, 3000), GIVEN, schemes=["adaptive"], threads=2, rate=4000)


@pytest.mark.slow
def test_example_what_is_measured():
    query = hr.stream(drawn(0, 4000), event_time="ts").transact(transfer, emits={"o": "int64"})
    with query.start(scheme="speculative", threads=2, punctuation=500) as run:
        run.wait()
    now = run["transfer"].metrics()
    assert now.executions + now.alone >= 4000 and now.validations + now.alone >= 4000
    assert now.aborts <= now.validations and now.operations == 0
    assert run.history.to_pandas()["executions_per_s"].max() > 0


@pytest.mark.slow
def test_example_independent_events_are_executed_and_validated_once():
    """No two events of a batch have a row in common, so nothing is ever executed, or validated, again."""
    n = 3000
    keys = pa.array([i % ROWS for i in range(n)])
    given = drawn(0, n, own=True)
    given = given.set_column(1, "k", keys).set_column(2, "j", keys)
    query = hr.stream(given, event_time="ts").transact(transfer, emits=GIVEN)
    with query.start(scheme="speculative", threads=2, punctuation=ROWS) as run:
        run.wait()
    now = run["transfer"].metrics()
    assert now.executions + now.alone == n and now.validations == now.executions
    assert now.aborts == 0 and now.alone < n


def test_example_explained(capsys):
    hr.stream(drawn(0, 20), event_time="ts").transact(follow, emits={"o": "int64"}).explain()
    text = capsys.readouterr().out
    assert "keys: some depend on what is read" in text
    first = follow.__code__.co_firstlineno
    read = f"depends on what the transaction reads (A[e.k].next, line {first + 2})"
    assert f"line {first + 3} of follow: the key of A[n] {read}" in text
    assert 'scheme="speculative": on versions of rows' in text
    hr.stream(drawn(0, 20), event_time="ts").transact(of_a_set).explain()
    assert "keeps versions of rows" in capsys.readouterr().out
