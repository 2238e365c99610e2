"""Functions of transactions in whole runs, under several schemes, beside the same functions in plain Python.

Property    rows and tables are those of the serial definition, for every scheme, thread and punctuation; a run that
            fails says event and line; names of columns and locals do not clash with those of the generated text
Oracle      `headrace.reference.transactions`, which runs the same function
Cannot see  machine code: these run in the process without the compiler, unless HEADRACE_COMPILED is set
"""

import os
import random
import threading
import time

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError
from headrace.transactions import arrays, binding, measuring, nulls, phases_kernel, template
from headrace.transactions.lowering import rows, statements
from planted_mistakes import fails, planted
from support.made_up_transactions import EMITS, events, program
from support.transacted import SCHEMES, agree, in_engine
from support.workloads import HANG_S, eventually

A = hr.table("A", columns={"b": "int64", "c": "int64"}, rows=8, first={"b": 5})
B = hr.table("B", columns={"n": hr.column("int64", least=0), "x": "float64", "f": "bool", "i": "int32"}, rows=8, first={"n": 3})
E = hr.table("E", columns={"b": "int64"}, rows=4, unknown="error")
V = hr.table(
    "V", columns={"v": hr.set_of("int64"), "l": hr.list_of("int64"), "m": hr.map_of("int64", "int64")}, rows=8
)
EVENTS = events(random.Random(3), 60)
R = hr.table("R", columns={"m": hr.map_of("int64", hr.record(n="int64")), "a": hr.map_of("int64", hr.array("int64", 2))}, rows=8)
RUN = {"threads": 2, "punctuation": 7}


def two_rejected_one_not(e, t):
    A[e.k].b -= 1
    A[e.j].b += 1
    if A[e.k].b < 3:
        t.reject()


def sees_the_first(e, t):
    t.emit(o=A[e.k].b)
    A[e.k].c += 1
    if e.x < 0:
        t.reject()


def least_and_kinds(e, t):
    r = B[e.k]
    r.x += e.x / 2
    r.i -= e.x
    r.f = not r.f
    r.n -= e.y
    t.emit(o=r.n, u=1 if r.f else 0)


def containers(e, t):
    r = V[e.k]
    if e.x < 0:
        t.reject()
    r.l.append(e.x)
    r.v.add(e.y)
    r.m[e.y] = e.x
    t.emit(o=len(r.l) + len(r.v), u=sum(r.l))


def records_asked_for_before_it_rejects(e, t):
    r = R[e.k]
    n = 0
    if e.y in r.m:
        n = r.m[e.y].n
        if n > 1 or (e.y in r.a and r.a[e.y][1] > 3):
            t.reject()
    A[e.j].b += 1
    r.m[e.y].n += 1
    r.a[e.x][1] += 2
    t.emit(o=n, u=r.a[e.y][1])


def null_keys(e, t):
    A[e.nk].b += 1
    if e.nk is not None:
        t.emit(o=A[e.nk + 1].b)


def null_keys_under_names(e, t):
    k = e.nk
    one = e.j if e.p else k
    A[k].b += 1
    t.emit(o=A[one].b)


def null_elements(e, t):
    total = 0
    for x in e.ns:
        total += x
    A[e.k].b += total
    for k, n in zip(e.ks, e.ns):  # noqa: B905
        A[k].c += n


def null_elements_of_read_rows(e, t):
    if A[e.j].b > 4:
        for k in e.ns:
            A[k].b += 1
    A[e.j].b += 1


def names_of_the_generated_text(e, t):
    row_0, at_1, s, c, i, me, ts, l = e.k, e.j, 3, 1, 2, 4, 5, 6
    choice_1, part_2, first_3, user_0, mask_0, c_k, note_0, find_0, rejected = 7, 8, 9, 10, 11, 12, 13, 14, 15
    next_operation, operation_1000, turn, slot, o = 16, 17, 18, 19, 20
    A[row_0].b += at_1 + s + c + i + me + ts + l + user_0 + mask_0 + c_k + note_0 + find_0 + turn + slot + o
    z = e.x > 0 and A[e.k].b > 3
    t.emit(o=choice_1 + part_2 + first_3 + rejected + next_operation + operation_1000 + (1 if z else 0))


def transfer_in_a_circle(e, t):
    for k in e.ks:
        A[k].b -= 1
        A[e.k].b += 1
    t.emit(o=A[e.k].b)


def loops_beside_other_rows(e, t):
    value_1 = V[e.k]
    other = A[e.j]
    key_1 = A[e.k]
    total = 0
    for x in value_1.l:
        for y in value_1.m:
            total += x + y
    other.b += 1
    key_1.c += total
    value_1.l.append(e.x)
    value_1.m[e.y] = e.x
    t.emit(o=other.b, u=key_1.c)


AGREE = [
    [two_rejected_one_not, sees_the_first], [least_and_kinds], [containers], [records_asked_for_before_it_rejects], [null_keys],
    [null_keys_under_names], [null_elements], [null_elements_of_read_rows], [names_of_the_generated_text],
    [transfer_in_a_circle], [loops_beside_other_rows],
]  # fmt: skip


@pytest.mark.logic
@pytest.mark.parametrize("functions", AGREE, ids=lambda functions: functions[0].__name__)
def test_example_rows_and_tables_are_those_of_the_serial_definition(functions):
    rows = agree(functions, EVENTS, EMITS, carry=["k"], schemes=SCHEMES, **RUN)
    assert any(row["rejected"] for row in rows) or functions[0] in (names_of_the_generated_text, transfer_in_a_circle)
    assert not all(row["rejected"] for row in rows)


def reads_and_writes_a_list(e, t):
    total = e.x
    for k in e.ks:
        total += A[k].b
    t.emit(o=total)
    for n, k in enumerate(e.ks):
        A[k].c = n + e.y
    if e.x < 0:
        t.reject()


def overwrites(e, t):
    A[e.k].b = e.x
    A[e.j].c += 1
    t.emit(o=A[8 - 1].c)


def follows_the_least(e, t):
    best = e.k
    for k in e.ks:
        if A[k].b < A[best].b:  # line 4
            best = k
    A[best].b += 1


def may_be_rejected(e, t):
    if A[e.k].b < e.x:  # line 2
        t.reject()
    A[e.k].b -= 1
    A[e.j].b += 1


EXPLAINED = [
    (overwrites, "row A[e.k] of A: written\n", 1), (overwrites, "row A[e.j] of A: read and written\n", 1),
    (overwrites, "row A[8 - 1] of A: read\n", 1),
    (follows_the_least, "the key of A[best] depends on what the transaction reads (A[k].b, line {line}):", 4),
    (may_be_rejected, "it runs whole, since it may be rejected by what it reads (line {line})\n", 2),
]  # fmt: skip


@pytest.mark.parametrize(("function", "said", "line"), EXPLAINED)
def test_example_explained_in_the_words_of_the_function(function, said, line, capsys):
    """No name that only the engine knows; which rows are only written, and which only read."""
    hr.stream(EVENTS, event_time="ts").transact(function, emits={"o": "int64"}).explain()
    text = capsys.readouterr().out
    assert said.format(line=function.__code__.co_firstlineno + line - 1) in text
    assert not {"\u200b", "\u200c", "@"} & {*text}


def test_example_an_operation_is_of_one_of_so_many_places(capsys, monkeypatch):
    """A function that finds rows at more places than that runs whole."""
    for most, said in ((2, "an operation chain for each row"), (1, "they find rows at 2 places, more than 1")):
        monkeypatch.setattr(binding, "MOST_SITES", most)
        hr.stream(EVENTS, event_time="ts").transact(reads_and_writes_a_list, emits={"o": "int64"}).explain()
        assert said in capsys.readouterr().out


# -- random functions


def check(seed):
    """One made-up program under drawn options."""
    functions, text = program(seed)
    draw = random.Random(seed)
    threads, punctuation = draw.choice([1, 2, 3]), draw.choice([1, 2, 7, 50])
    schemes = ["serial", *draw.sample(["chains", "lock", "mvlk", "partition"], 2)]
    given = events(draw, 50)
    for scheme in schemes:
        try:
            agree(functions, given, EMITS, ["k"], [scheme], threads=threads, max_threads=3, punctuation=punctuation)
        except FunctionError as error:
            assert "depends on what the transaction reads" in str(error), f"{seed}: {error}\n{text}"
        except Exception as error:
            raise AssertionError(f"{seed}, {scheme}, {threads} threads, {punctuation}: {error!r}\n{text}") from error


@pytest.mark.slow
@pytest.mark.interpreted
def test_made_up_functions_give_what_they_give_in_order():
    for seed in range(8):
        check(seed)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be kept on a core here")
def test_example_executors_are_kept_on_cores(monkeypatch):
    """Executor k on core k, in turn: the rows are the same, and no other thread is kept anywhere."""
    before, kept = os.sched_getaffinity(0), {}
    keep = os.sched_setaffinity

    def noted(process, cores):
        keep(process, cores)
        kept[threading.current_thread().name] = process, sorted(os.sched_getaffinity(0))

    monkeypatch.setattr(os, "sched_setaffinity", noted)
    wanted = in_engine([two_rejected_one_not], EVENTS, EMITS, **RUN)
    assert not kept
    assert in_engine([two_rejected_one_not], EVENTS, EMITS, pin=True, max_threads=3, **RUN) == wanted
    cores = sorted(before)
    assert sorted(kept.values()) == sorted((0, [cores[k % len(cores)]]) for k in range(3)) and len(kept) == 3
    assert os.sched_getaffinity(0) == before


@pytest.mark.campaign
@pytest.mark.interpreted
@pytest.mark.parametrize("first", range(0, 4000, 100))
def test_many_made_up_functions_give_what_they_give_in_order(first):
    for seed in range(first, first + 100):
        check(seed)




# -- runs that fail


def overflow(e, t):
    A[e.k].b = 2**62
    A[e.k].b += e.x + 2**62


def divides(e, t):
    if e.y == 0:
        t.reject()
    A[e.k].b += 6 // (e.y - 1)


def unknown_is_an_error(e, t):
    E[e.j].b += 1


def emits_twice(e, t):
    t.emit(o=1)
    A[e.k].b += 1
    t.emit(o=2)


FAIL = [(overflow, 2, "int64"), (divides, 3, "ZeroDivisionError"), (emits_twice, 3, "emit was called before")]


@pytest.mark.logic
@pytest.mark.parametrize(("function", "line", "text"), FAIL, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("scheme", ["serial", "chains", "mvlk"])
def test_example_a_run_that_fails_says_event_and_line(function, line, text, scheme):
    with pytest.raises(FunctionError, match=text) as caught:
        in_engine([function], EVENTS, EMITS, scheme=scheme, **RUN)
    assert "on tuple {'ts': " in str(caught.value)
    assert caught.value.line == function.__code__.co_firstlineno + line


N = hr.table("N", columns={"b": "int64"}, rows=0, unknown="insert", max_rows=8)


def counts_down(e, t):
    if e.is_look:
        t.emit(o=12 // A[e.k].b)
    else:
        A[e.k].b -= 1


def counts_down_what_is_new(e, t):
    if e.is_look:
        t.emit(o=12 // (N[e.k].b - 6))
    else:
        N[e.k].b = e.ts // 2


def fails_on_what_the_batch_wrote(function, scheme):
    """The text of the error of a run whose last look finds a zero, which earlier events of its batch have made."""
    n = range(10 if function is counts_down else 14)
    rows = pa.table({"ts": n, "k": [3] * len(n), "is_look": [k % 2 == 1 for k in n]})
    with pytest.raises(FunctionError, match="ZeroDivisionError") as caught:
        in_engine([function], rows, {"o": "int64"}, scheme=scheme, threads=2, punctuation=100, max_delay="10min")
    assert caught.value.line == function.__code__.co_firstlineno + 2, "another line than that of the look"
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize("function", [counts_down, counts_down_what_is_new])
def test_example_a_run_that_fails_finds_the_versions_that_the_event_saw(function):
    assert fails_on_what_the_batch_wrote(function, "mvlk") == fails_on_what_the_batch_wrote(function, "serial")
    with planted(arrays, "if not private[VERSIONED]:", "if True:"), fails("AssertionError: another line than that of the look"):
        fails_on_what_the_batch_wrote(function, "mvlk")


def check_parts_of_the_time(scheme, threads):
    """TStream, section VI-D: useful, and what is spent at barriers, waiting for other transactions, and otherwise."""
    ledger = hr.stream(EVENTS, event_time="ts").transact(two_rejected_one_not, emits=EMITS)
    with ledger.start(scheme=scheme, threads=threads, punctuation=7, max_delay="10min") as run:
        run.wait()
    seen = run["two_rejected_one_not"].metrics()
    worked = [sum(parts) for parts in zip(seen.useful_ns, seen.lock_ns, seen.other_ns, strict=True)]
    assert worked == seen.busy_ns and sum(seen.useful_ns) > 0 and sum(seen.other_ns) > 0, "the parts of what executors work"
    assert seen.synchronization_ns == seen.blocked_ns and sum(seen.blocked_ns) > 0, "what they wait for; there is room for rows"
    assert scheme == "lock" or sum(seen.lock_ns) == 0, "chains wait for no other transaction"


@pytest.mark.interpreted
@pytest.mark.parametrize(("scheme", "threads"), [("chains", 1), ("chains", 2), ("lock", 1), ("lock", 2)])
def test_example_the_parts_of_the_time(scheme, threads):
    check_parts_of_the_time(scheme, threads)


@pytest.mark.interpreted
def test_planted_parts_of_the_time_that_are_mixed_up():
    mistake = '"synchronization_ns": barrier', '"synchronization_ns": other'
    with planted(measuring, *mistake), fails("AssertionError: what they wait for"):
        check_parts_of_the_time("chains", 2)
    with planted(measuring, '"lock_ns": lock', '"lock_ns": barrier'), fails("AssertionError: the parts of what"):
        check_parts_of_the_time("chains", 2)


def counted(rows):
    """A query that counts rows by key; `rows` gives (ts, k), each as a batch of its own, and may wait in between."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    batches = (pa.record_batch({"ts": [ts], "k": [k]}, schema=schema) for ts, k in rows)

    def count(e, t):
        A[e.k].c += 1

    return hr.stream(pa.RecordBatchReader.from_batches(schema, batches), event_time="ts").transact(count)


def check_that_waiting_for_input_is_no_synchronization():
    """A batch comes in twenty pieces, each of which the leader waits for, while the other executor waits for the leader."""

    def slowly():
        for ts in range(100):
            time.sleep(0.002)
            yield ts, ts % 8

    said = []
    while len(said) < 5:  # an executor that is kept from its core while the other waits for it makes a run say too much
        with counted(slowly()).start(scheme="lock", threads=2, punctuation=20, max_delay="10min") as run:
            run.wait()
        seen = run["count"].metrics()
        waited, idle = sum(seen.synchronization_ns), sum(seen.idle_ns)
        if waited < idle / 4:
            return
        said.append(f"{waited / 1e6:.0f} ms of synchronization, {idle / 1e6:.0f} ms without input")
    raise AssertionError(said)


@pytest.mark.interpreted
def test_example_waiting_for_input_is_no_synchronization():
    check_that_waiting_for_input_is_no_synchronization()


def check_that_executors_are_idle_while_there_is_no_input(seconds=HANG_S):
    go_on = threading.Event()

    def then_silent():
        yield 1, 1
        go_on.wait(HANG_S)

    with counted(then_silent()).start(scheme="lock", threads=2) as run:
        try:
            eventually(lambda: min(run["count"].metrics().idle_ns[:2]) > 100_000_000, seconds)
        finally:
            go_on.set()
        run.wait()


@pytest.mark.interpreted
def test_example_executors_are_idle_while_there_is_no_input():
    check_that_executors_are_idle_while_there_is_no_input()


@pytest.mark.interpreted
def test_planted_waiting_for_input_is_synchronization_until_it_ends():
    mistake = "rest_with_leader(me, c)  # at once", "pass  # at once"
    with planted(phases_kernel, *mistake), fails("AssertionError"):
        check_that_executors_are_idle_while_there_is_no_input(seconds=3)


@pytest.mark.interpreted
def test_planted_only_the_last_wait_for_input_of_a_batch_is_known():
    mistake = "    if load_relaxed(c.words, RESTING) == 0:\n", "    if True:\n"
    with planted(phases_kernel, *mistake), fails("AssertionError: .* ms of synchronization"):
        check_that_waiting_for_input_is_no_synchronization()


MEASURED = [(two_rejected_one_not, "mvlk"), (two_rejected_one_not, "lock"), (containers, "mvlk")]


@pytest.mark.interpreted
@pytest.mark.parametrize(("function", "scheme"), MEASURED)
def test_example_versions_are_measured_and_explained(function, scheme, capsys):
    ledger = hr.stream(EVENTS, event_time="ts").transact(function, emits=EMITS)
    with ledger.start(scheme=scheme, threads=2, punctuation=7, max_delay="10min") as run:
        run.wait()
    seen = run[function.__name__].metrics()
    made = 2 * sum(0 <= j < 8 for j in EVENTS["j"].to_pylist()) + sum(not 0 <= j < 8 for j in EVENTS["j"].to_pylist())
    made -= sum(k == j for k, j in zip(EVENTS["k"].to_pylist(), EVENTS["j"].to_pylist(), strict=True))
    wanted = made if (function, scheme) == (two_rejected_one_not, "mvlk") else 0
    assert (seen.versions, seen.batches, seen.versions_held) == (wanted, 9, wanted / 9)
    ledger.explain()
    said = capsys.readouterr().out
    if function is containers:
        assert 'scheme="mvlk": in the order of locks, since V.v has one version only' in said
    else:
        assert 'scheme="mvlk": a version of 24 bytes for each row that a transaction writes' in said


@pytest.mark.logic
def test_example_an_unknown_key_may_end_the_run():
    with pytest.raises(FunctionError, match="E has no key 9"):
        in_engine([unknown_is_an_error], EVENTS, {}, scheme="serial")


# -- planted mistakes


def undone_in_order(e, t):
    A[e.k].b += 1
    A[e.k + 0].b += 2
    if e.x > 0:
        t.reject()


def emits_and_is_rejected(e, t):
    t.emit(o=A[e.k].b)
    if e.x > 0:
        t.reject()


def planted_text(monkeypatch, name, right, wrong):
    """A mistake in kernels that become part of the generated module."""
    included = template.included

    def changed(module):
        text = included(module)
        assert right in text or not module.__name__.endswith(name), right
        return text.replace(right, wrong)

    monkeypatch.setattr(template, "included", changed)


@pytest.mark.interpreted
def test_undo_in_the_wrong_order_is_found(monkeypatch):
    agree(undone_in_order, EVENTS, schemes=["serial"])
    # The row as it was first is kept by what is put back before: a row that was kept twice has a value of in between.
    planted_text(
        monkeypatch, "undo_kernel", "s.table_rows[at + k] = s.undo[me, used + k]",
        "s.table_rows[at + k] = s.undo[me, used + k] if used > 0 else s.table_rows[at + k]",
    )  # fmt: skip
    with pytest.raises(AssertionError, match="table A differs"):
        agree(undone_in_order, EVENTS, schemes=["serial"])


MISTAKES = {
    "emit of a rejected function kept": (
        template, 'undo.append(f"s.{mask_field(number)}[i] = 0")', "pass", emits_and_is_rejected),
    "null key looked up": (rows, "ast.Compare(copy.deepcopy(key), [ast.IsNot()], [ast.Constant(None)])",
                           "ast.Constant(True)", null_keys),
    "null key under a name": (nulls, "stored.count(name) == 1 and", "False and", null_keys_under_names),
    "null elements looped over": (statements, "for each in self._looped_over(node.iter)", "for each in ()", null_elements),
    "rows not kept": (binding, "if row.is_written and lowered.must_undo:", "if False:", undone_in_order),
}  # fmt: skip


def one_row_before(e, t):
    A[e.k].c += e.x


OF_OPERATIONS = {
    "columns of another event": ("if i != event:", "if event < 0:"),
    "the turn of a loop forgotten": ("turn = word >> TURN_SHIFT & MOST_TURNS - 1", "turn = 0"),
    "operations begin with those of another function": (
        "next_operation = s.fate_{number}[i] >> FATE_BITS", "next_operation = c.set_at[i]"),
    "operations of events that are not executed": ("            if i >= executed:\n                break\n", ""),
}  # fmt: skip


@pytest.mark.interpreted
@pytest.mark.parametrize("name", OF_OPERATIONS)
def test_planted_mistakes_of_operations_are_found(name, monkeypatch):
    functions, more = [one_row_before, reads_and_writes_a_list], {**RUN, "punctuation": 30, "max_operations": 24}
    agree(functions, EVENTS, EMITS, schemes=["chains"], **more)
    right, wrong = OF_OPERATIONS[name]
    texts = {part: getattr(template, part) for part in ("_OPERATIONS", "_POST")}
    assert sum(text.count(right) for text in texts.values()) == 1
    for part, text in texts.items():
        monkeypatch.setattr(template, part, text.replace(right, wrong))
    with pytest.raises(AssertionError, match="other results|table A differs"):
        agree(functions, EVENTS, EMITS, schemes=["chains"], **more)


@pytest.mark.interpreted
@pytest.mark.parametrize("name", MISTAKES)
def test_planted_mistakes_of_the_generated_text_are_found(name):
    module, text, mistake, function = MISTAKES[name]
    agree(function, EVENTS, EMITS, schemes=["serial"])
    expected = "a null value is used|and 'NoneType'" if "null" in name else "other results|table A differs"
    with planted(module, text, mistake), pytest.raises((AssertionError, FunctionError), match=expected):
        agree(function, EVENTS, EMITS, schemes=["serial"])
