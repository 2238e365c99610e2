"""Changes while transactions run, drawn: what is asked for, when, over which events; a failure is made smaller.

Property    rows and tables are those of the serial definition, whatever scheme, threads, sharing, punctuation and mapping a run
            begins with and changes to, planned before rows or asked for between batches of its source, waited for or not;
            a snapshot in between has the tables as of the position that it names
Oracle      `headrace.reference.transactions`, which runs the same functions in plain Python
Planted     a mistake that shows where events of one batch depend on each other, under one scheme
Cannot see  other functions than those of `support.nasty_shapes`, which are compiled for `test_nasty_shapes` too: test_short.py
            and test_lowering.py draw functions; large inputs: test_nasty_shapes.py
"""

import random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.control.mapping import Mapping
from headrace.references import BUCKETS
from headrace.transactions import versions_kernel
from headrace.transactions.configuration import SHARINGS
from planted_mistakes import assert_found
from support.nasty_shapes import EMITS, FUNCTIONS, ROWS, SCHEMES, cannot, carry_on
from support.transacted import in_python, plain
from support.workloads import HANG_S, Steered

MOST_THREADS = 8
KEYS = st.sampled_from([0, 1, 2, 3, 5, ROWS - 1, ROWS])
"""Few, so that events meet; the last one is in no table."""
EVENTS = st.lists(
    st.fixed_dictionaries({
        "a": KEYS, "c": KEYS, "x": st.integers(0, 2_000), "y": st.sampled_from([0, 0, 1]), "ks": st.lists(KEYS, max_size=4),
    }),
    max_size=30,
)  # fmt: skip
TYPES = {"a": pa.int64(), "c": pa.int64(), "x": pa.int64(), "y": pa.int64(), "ks": pa.list_(pa.int64())}


def wishes(function):
    """Some of what can be changed, at least one thing; the mapping by a seed, and never without threads."""
    choices = {
        "threads": st.integers(1, MOST_THREADS), "scheme": st.sampled_from([s for s in SCHEMES if not cannot(s, function)]),
        "sharing": st.sampled_from(SHARINGS), "punctuation": st.sampled_from([1, 2, 7, 60, 500, 100_000]),
    }  # fmt: skip
    mapped = st.fixed_dictionaries({"threads": choices["threads"], "mapping": st.integers(0, 99)})
    return st.one_of(st.fixed_dictionaries({}, optional=choices).filter(bool), mapped)


@st.composite
def cases(draw, functions=FUNCTIONS, schemes=SCHEMES):
    """A function, events, how often they come again, the first configuration, planned changes, and steps between batches."""
    function = draw(st.sampled_from(functions))
    wish = wishes(function)
    events, times = draw(EVENTS), draw(st.integers(1, 20))
    first = draw(st.fixed_dictionaries({}, optional={
        "threads": st.integers(1, MOST_THREADS), "sharing": st.sampled_from(SHARINGS), "punctuation": st.integers(1, 200),
    }))  # fmt: skip
    first["scheme"] = draw(st.sampled_from([s for s in schemes if not cannot(s, function)]))
    rows = st.integers(0, max(1, len(events) * times))
    planned = [(at, draw(wish)) for at in sorted(draw(st.sets(rows, max_size=3)))]
    step = st.tuples(st.integers(1, 40), st.one_of(st.just("snapshot"), st.tuples(wish, st.booleans())))
    return function, events, times, first, planned, draw(st.lists(step, max_size=5))


def table_of(events, times):
    columns = {name: pa.array([one[name] for one in events] * times, kind) for name, kind in TYPES.items()}
    return pa.table({"ts": pa.array([number // 2 for number in range(len(events) * times)], pa.int64()), **columns})


def mapped(wish):
    """The wish, with the mapping that its seed means."""
    if "mapping" not in wish:
        return wish
    rng = random.Random(wish["mapping"])
    return {**wish, "mapping": Mapping([rng.randrange(wish["threads"]) for _ in range(BUCKETS)])}


def content(tables):
    return {name: plain(rows) for name, rows in tables.items()}


def held(tables, names):
    return {name: plain(tables[name].to_arrow().to_pylist()) for name in names}


def follows_the_definition(case):
    function, events, times, first, planned, steps = case
    table = table_of(events, times)
    rows, tables = in_python([function], table, EMITS)
    taken = []
    source = Steered(table, [size for size, _ in steps])
    planned = [(at, {name: value for name, value in wish.items() if name != "mapping"}) for at, wish in planned]
    options = {"max_threads": MOST_THREADS, "max_delay": "1ms", "reconfigure": planned, **first}
    with hr.stream(source, event_time="ts").transact(function, emits=EMITS).start(**options) as run:
        for number, (_, step) in enumerate(steps):
            if number < source.batches - 1:  # its end comes when all is asked for
                source.let()
            if step == "snapshot":
                taken.append(run.snapshot())
            else:
                wish, waits = step
                change = run.reconfigure(**mapped(wish))
                if waits:
                    change.wait(HANG_S)
        source.let_all()
        assert run.wait(HANG_S), "it hangs"
        assert run.to_arrow().to_pylist() == rows, "other rows"
        assert held(run.tables, tables) == content(tables), "other tables"
    event(f"{sum(change.outcome == 'done' for change in run.changes)} changes")
    for snapshot in taken:
        if snapshot.position is not None:
            _, then = in_python([function], table.slice(0, snapshot.position), EMITS)
            assert held(snapshot, then) == content(then), f"other tables after {snapshot.position} events"


QUICK = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=QUICK)
@given(cases())
def test_oracle_any_changes_while_it_runs(case):
    follows_the_definition(case)


@pytest.mark.campaign
@settings(max_examples=5_000, derandomize=False, suppress_health_check=QUICK)
@given(cases())
def test_oracle_many_changes_while_it_runs(case):
    follows_the_definition(case)


@pytest.mark.interpreted
def test_planted_mistake_is_found():
    """A version is the row as it was before the batch, whichever event of the batch wrote it."""
    right, wrong = "c.link[o] = before if 0 <= before < c.sets.size else NOBODY", "c.link[o] = NOBODY"
    assert_found(versions_kernel, right, wrong, follows_the_definition, cases([carry_on], ["mvlk"]), "AssertionError: other rows")
