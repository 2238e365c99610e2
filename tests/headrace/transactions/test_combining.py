"""Hot rows: operations that overwrite a row, or add to it, leave out those before them, and nobody can tell.

Property    rows and tables are those of the serial definition however many operations of a batch overwrite each other,
            with reads and other writes between them, rejected events, events that do not fit, nulls and any threads,
            punctuation and sharing; an operation is left out only if it can neither fail nor be asked for; an error is
            that of the event that it is of in the serial order
Oracle      `headrace.reference.transactions`, which runs the same function
Cannot see  what it is worth: `headrace bench gs`
"""

import random
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError
from headrace.transactions import combining_kernel, overwriting, template, words
from headrace.transactions.key_sets_kernel import FIRST_OPERATION, SET_AT
from planted_mistakes import fails, planted
from support.campaign import rarely
from support.transacted import agree

hot = hr.table("hot", columns={"v": "int64", "w": "int64", "x": "float64", "name": "string", "i": "int32"}, rows=4)
EMITS = {"sum": "int64"}


def events(draw, rows=300, nulls=True):
    def lists(of):
        return [[of() for _ in range(draw.randrange(6))] for _ in range(rows)]

    def some(values):
        return [None if nulls and draw.random() < 0.05 else draw.choice(values) for _ in range(rows)]

    key = lambda: draw.choice([0, 0, 0, 1, 2, 3, *([9] if draw.random() < 0.1 else [])])  # noqa: E731
    keys = lists(key)
    return pa.table(
        {
            "ts": pa.array(range(rows), pa.int64()),
            "keys": pa.array(keys, pa.list_(pa.int64())),
            "values": pa.array([[draw.randrange(1_000) for _ in each] for each in keys], pa.list_(pa.int64())),
            "kind": pa.array([draw.choice(["write", "write", "write", "read", "add"]) for _ in range(rows)]),
            "number": pa.array(range(100, 100 + rows), pa.int64()),
            "key": pa.array([key() for _ in range(rows)], pa.int64()),
            "a": pa.array(some(range(50)), pa.int64()),
            "b": pa.array(some([0.5, 1.5, -2.0]), pa.float64()),
            "name": pa.array(some(["ann", "bob", ""]), pa.string()),
        }
    )  # fmt: skip


EVENTS = events(random.Random(2))
configured = pytest.mark.parametrize(
    ("threads", "punctuation", "sharing"), [(2, 40, "everything"), (3, 300, "nothing"), *rarely((1, 20, "nothing"))]
)


def grep(e, t):
    if e.kind == "read":
        total = 0
        for key in e.keys:
            total += hot[key].v
        t.emit(sum=total)
    elif e.kind == "write":
        for key, value in zip(e.keys, e.values):  # noqa: B905 (of one length)
            hot[key].v = value
    else:
        for key in e.keys:
            hot[key].v += 1


def sets_columns(e, t):
    if e.a is None or e.b is None or e.name is None:
        t.reject()
    row = hot[e.key]
    row.w = e.a
    row.x = e.b
    row.name = e.name


def marks(e, t):
    hot[e.key].v = e.number


@pytest.mark.logic
@pytest.mark.parametrize("functions", [[grep], [sets_columns, grep], [marks, sets_columns]], ids=lambda given: given[0].__name__)
@configured
def test_example_rows_and_tables_are_those_of_the_serial_definition(functions, threads, punctuation, sharing):
    agree(functions, EVENTS, EMITS, schemes=["chains"], threads=threads, punctuation=punctuation, sharing=sharing)


@pytest.mark.logic
def test_example_events_that_do_not_fit_leave_nothing_out():
    agree([grep, sets_columns], EVENTS, EMITS, schemes=["chains"], threads=2, punctuation=300, max_operations=48)
    agree([grep], EVENTS, EMITS, schemes=["chains"], threads=2, punctuation=50, chains="skiplist")


@pytest.mark.campaign
@pytest.mark.interpreted
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_many_events_give_what_they_give_in_order(first):
    for seed in range(first, first + 20):
        draw = random.Random(seed)
        functions = draw.sample([grep, sets_columns, marks], draw.choice([1, 2, 3]))
        threads, punctuation = draw.choice([1, 2, 3]), draw.choice([1, 7, 60, 300])
        options = {"sharing": draw.choice(["nothing", "everything", "socket"]), "max_operations": draw.choice([48, 1 << 16])}
        agree(functions, events(draw), EMITS, schemes=["chains"], threads=threads, punctuation=punctuation, **options)


# -- what is left out, and what is not


def left_out(function, given, **options):
    ledger = hr.stream(given, event_time="ts").transact(function, emits=EMITS)
    with ledger.start(scheme="chains", threads=1, punctuation=100, max_delay="10min", **options) as run:
        run.wait()
    return run.metrics().operators[function.__name__].values["combined"]


WRITES = EVENTS.filter(pa.compute.equal(EVENTS["kind"], "write"))


def distinct(given, punctuation):
    batches = range(0, given.num_rows, punctuation)
    return sum(len({key for keys in given.slice(at, punctuation)["keys"].to_pylist() for key in keys}) for at in batches)


@pytest.mark.logic
def test_example_one_write_of_a_row_is_left_in_a_batch():
    given = WRITES.filter(np.array([9 not in keys for keys in WRITES["keys"].to_pylist()]))
    count = sum(map(len, given["keys"].to_pylist()))
    assert left_out(marks, EVENTS) > 0 and left_out(sets_columns, EVENTS) > 0
    assert left_out(grep, given) == count - distinct(given, 100) > count // 2


def adds(e, t):
    hot[e.key].v += 1


def asks(e, t):
    t.emit(sum=hot[e.key].v)
    hot[e.key].w = 3


def narrows(e, t):
    hot[e.key].i = e.a


def works_out(e, t):
    hot[e.key].v = e.a * 2


def from_another(e, t):
    hot[e.key].v = hot[e.key].w


def adds_and_asks(e, t):
    hot[e.key].v += 1
    t.emit(sum=hot[e.key].v)


def adds_to_less(e, t):
    hot[e.key].i += 1


def adds_itself(e, t):
    hot[e.key].v += hot[e.key].v % 3


def adds_real(e, t):
    hot[e.key].x += 0.1


LASTING = EVENTS.filter(pa.compute.is_valid(EVENTS["a"]))


@pytest.mark.logic
@pytest.mark.parametrize(
    "function", [asks, narrows, works_out, from_another, adds_and_asks, adds_to_less, adds_itself, adds_real],
    ids=lambda value: value.__name__,
)  # fmt: skip
def test_example_what_can_fail_or_is_asked_for_is_not_left_out(function):
    assert left_out(function, LASTING) == 0


@pytest.mark.logic
def test_example_it_rests_where_it_does_not_pay():
    c = SimpleNamespace(filling=np.zeros((1, words.FILLING_WORDS), np.int64))
    looked = []
    for left in [0, *[5] * 20]:
        combining_kernel.begin_combining(c, 0, True)
        c.filling[0, FIRST_OPERATION], c.filling[0, SET_AT] = 10, 20
        looked.append(bool(c.filling[0, words.COMBINING]))
        c.filling[0, words.COMBINED] += left * looked[-1]
        combining_kernel.end_combining(c, 0)
    assert looked == [True, *[False] * combining_kernel.BATCHES_WITHOUT, *[True] * 5]


def counts(e, t):
    """Two columns, a helper, what is worked out before, a column that may be null, a loop, a row of its own that is asked for."""
    doubled = twice(e.number) - 7
    row = hot[e.key]
    row.v += doubled
    row.w -= e.number // 3
    for key, value in zip(e.keys, e.values):  # noqa: B905 (of one length)
        hot[key].v += value


def twice(value):
    return value * 2


def mixes(e, t):
    if e.kind == "read":
        t.emit(sum=hot[e.key].v + hot[e.key].w)
    elif e.kind == "write":
        hot[e.key].v += e.number
    else:
        hot[e.key].v = e.number


@pytest.mark.logic
@configured
def test_example_sums_are_those_of_the_serial_definition(threads, punctuation, sharing):
    for functions in ([counts, mixes], [adds, grep, counts]):
        agree(functions, EVENTS, EMITS, schemes=["chains"], threads=threads, punctuation=punctuation, sharing=sharing)
    agree([counts, mixes], EVENTS, EMITS, schemes=["chains"], threads=2, punctuation=300, max_operations=48)


@pytest.mark.logic
def test_example_one_sum_of_a_row_is_left_in_a_batch():
    given = EVENTS.filter(pa.compute.not_equal(EVENTS["key"], 9))
    batches = range(0, given.num_rows, 100)
    assert left_out(adds, given) == given.num_rows - sum(len({*given.slice(at, 100)["key"].to_pylist()}) for at in batches)
    assert left_out(counts, EVENTS) > EVENTS.num_rows


# -- sums at the end of int64: each event as if it were alone

full = hr.table("full", columns={"v": "int64", "w": "int64"}, rows=2, first={"v": 2**63 - 100, "w": -(2**63) + 50})


def fills(e, t):
    full[e.key].v += e.a
    full[e.key].w += e.b


def filled(a, b, key=None):
    n = len(a)
    return pa.table({"ts": range(n), "key": key or [0] * n, "a": pa.array(a, pa.int64()), "b": pa.array(b, pa.int64())})


@pytest.mark.logic
@pytest.mark.parametrize("threads", [1, 2])
def test_example_a_row_that_leaves_int64_ends_the_run_at_that_event(threads):
    within = filled([99, -50, 40, -99, 10] * 4, [-10, 10, -50, 50, 0] * 4)
    agree([fills], within, schemes=["serial", "chains"], threads=threads, punctuation=20)
    for a, b, wrong in (([60, 30, 20, -50], [0] * 4, 2), ([0] * 4, [-40, -5, -20, 40], 2), ([99, 1, 1, 1], [0, 0, 0, -60], 1)):
        for scheme in ("serial", "chains"):
            run = hr.stream(filled(a, b), event_time="ts").transact(fills).start(scheme=scheme, threads=threads, punctuation=20)
            with pytest.raises(FunctionError, match=f"'ts': {wrong}"):
                run.wait()


@pytest.mark.logic
def test_example_what_is_large_is_added_by_itself():
    large = 2**40
    given = filled([-large, 1, large, -1, -5, 5, 7], [1] * 7, key=[1] * 7)
    agree([fills], given, schemes=["chains"], threads=2, punctuation=20)
    assert left_out_of_sums(given) == 3, "large ones are left out"


def left_out_of_sums(given):
    with hr.stream(given, event_time="ts").transact(fills).start(scheme="chains", threads=1, punctuation=100) as run:
        run.wait()
    return run.metrics().operators["fills"].values["combined"]


def divides(e, t):
    full[e.key].w += 100 // e.a


@pytest.mark.logic
def test_example_what_cannot_be_worked_out_ends_the_run_at_its_event():
    given = filled([5, 1, 0, 2], [0] * 4)
    with pytest.raises(FunctionError, match="'ts': 2"):
        hr.stream(given, event_time="ts").transact(divides).to_arrow(scheme="chains", threads=2, punctuation=20)


def fails_at_its_event(e, t):
    hot[e.key].v = e.a


@pytest.mark.logic
def test_example_a_null_fails_at_its_event():
    """Though a later event overwrites what it would have written."""
    given = pa.table({"ts": [1, 2, 3], "key": [0, 0, 0], "a": pa.array([1, None, 3], pa.int64())})
    with pytest.raises(FunctionError, match="'ts': 2"):
        left_out(fails_at_its_event, given)


@pytest.mark.logic
def test_example_explain_says_where(capsys):
    hr.stream(EVENTS, event_time="ts").transact(grep, emits=EMITS).explain()
    said = capsys.readouterr().out.splitlines()
    assert sum("of several in a batch with no other in between, only the last is executed" in line for line in said) == 1
    assert sum("of several in a batch with no other in between, the sum is added" in line for line in said) == 1


def check(*functions):
    agree([*functions], EVENTS, EMITS, schemes=["chains"], threads=2, punctuation=40)


def check_full():
    test_example_a_row_that_leaves_int64_ends_the_run_at_that_event(2)


def check_not_left_out():
    for function in (asks, works_out):
        assert left_out(function, LASTING) == 0, "what can fail is left out"


NOTED = "    c.link_2[o] = left_out\n    c.known[me, KNOWN_WORDS * slot + KNOWN_STAMP] = stamp\n"
IF_OVERWRITING = "    if c.sets[o] & 1 == 0:\n        return left_out\n" + NOTED
OTHER_RESULTS, ANOTHER_TABLE = "AssertionError: other results", "AssertionError: table hot differs"
NO_ERROR = "Failed: DID NOT RAISE"
MISTAKES = {
    "reads between are not seen": (combining_kernel, NOTED, IF_OVERWRITING, lambda: check(grep), OTHER_RESULTS),
    "of another place": (combining_kernel, "if both != 0 and (c.link[before] ^ c.link[o]) & MOST_SITES - 1 == 0:",
                         "if both != 0:", lambda: check(marks, sets_columns), ANOTHER_TABLE),
    "the first one is done": (combining_kernel, "c.link[before] = LEFT_OUT", "c.link[o] = LEFT_OUT", lambda: check(grep),
                          OTHER_RESULTS),
    "sums are asked for between": (combining_kernel, NOTED, IF_OVERWRITING, lambda: check(mixes), OTHER_RESULTS),
    "the last one alone": (template, "{cell}[o] += {cell}[before]", "{cell}[o] += 0 * {cell}[before]", lambda: check(counts),
                           ANOTHER_TABLE),
    "the same sum twice": (combining_kernel, "c.link[before] = LEFT_OUT", "pass", lambda: check(counts), ANOTHER_TABLE),
    "a row that is full": (combining_kernel, "return -ROOMY <= value <= ROOMY", "return True", check_full, NO_ERROR),
    "only whether all of it leaves int64": (template, "leaves_int64({place}, {cell}[k])", "leaves_int64({place}, {cell}[o])",
                                            check_full, NO_ERROR),
    "the event of another one": (combining_kernel, "while c.set_at[i] > o:", "while c.set_at[i] > o + 1:", check_full,
                                 "AssertionError: Regex pattern did not match"),
    "large numbers": (combining_kernel, "return -MOST_ADDED <= added <= MOST_ADDED", "return True",
                      test_example_what_is_large_is_added_by_itself, "AssertionError: large ones are left out"),
    "what can fail": (overwriting, "_kind(value, event, readable) != kinds[target.attr]", "False", check_not_left_out,
                      "AssertionError: what can fail is left out"),
    "a null": (overwriting, "nullable.append(value.attr)", "pass", test_example_a_null_fails_at_its_event, NO_ERROR),
}  # fmt: skip


@pytest.mark.interpreted
@pytest.mark.parametrize("name", MISTAKES)
def test_planted_mistakes_are_found(name):
    module, right, wrong, found, expected = MISTAKES[name]
    found()
    with planted(module, right, wrong), fails(expected):
        found()
