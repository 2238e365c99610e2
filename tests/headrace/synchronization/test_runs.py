"""Programs run by plans: what one event after another gives, whichever thread runs what.

Property    outputs, in their order, are those of a loop over all events by (event time, input, position), for any plan,
            number of leaves and threads, heartbeat, planned change of threads and of the plan, and change of the plan; with
            ``order="none"`` they are the same in any order
Oracle      loops in plain Python, one for each program
Cannot see  interleavings of the machine's that did not happen
"""

import itertools
import random
import threading

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError, ParameterError, RunFailedError, SchemaError, UnknownNameError
from headrace.synchronization.binding import bind
from support import event_window
from support.campaign import rarely
from support.program_results import as_promised
from support.workloads import Steered, eventually


def add_and_tell(state, e, emit):
    state.sum += e.x
    if e.x % 5 == 0:
        emit(sum=e.x)


WINDOW = {**event_window.WINDOW, "update": {"value": add_and_tell, "barrier": event_window.close}}


def inc(state, e, emit):
    state.counts[e.key] = state.counts.get(e.key, 0) + 1


def reset(state, e, emit):
    emit(key=e.key, count=state.counts.get(e.key, 0))
    state.counts[e.key] = 0


def split_counts(state, left, right, tags_left, tags_right):
    for key, count in state.counts.items():
        if ("reset", key) in tags_left or (("reset", key) not in tags_right and ("inc", key) in tags_left):
            left.counts[key] = count
        else:
            right.counts[key] = count


def merge_counts(into, other):
    for key, count in other.counts.items():
        into.counts[key] = into.counts.get(key, 0) + count


def counter(kind, parts=4):
    """Counts by key: resets of a key depend on its increments."""
    return hr.program(
        tags={hr.tag(name, by="key", parts=parts): {"key": kind} for name in ("inc", "reset")},
        depends=[("reset", "reset"), ("reset", "inc")],
        state={"counts": hr.map_of(kind, "int64")},
        emits={"key": kind, "count": "int64"},
        update={"inc": inc, "reset": reset},
        fork=split_counts,
        join=merge_counts,
    )


def rising(rng, count, span):
    return sorted(rng.randint(0, span) for _ in range(count))


def window_case(rng, as_given=lambda table: table):
    streams, count = rng.randint(1, 4), rng.choice([0, 3, 50, 2_000])
    values = [
        [(ts, rng.randint(-50, 50)) for ts in rising(rng, count, count // rng.choice([1, 3, 10]) + 3)] for _ in range(streams)
    ]
    barriers = [rising(rng, rng.choice([0, 1, 5, 100]), count + 3) for _ in range(rng.randint(1, 2))]
    events = [(ts, i, row, x) for i, own in enumerate(values) for row, (ts, x) in enumerate(own)]
    events += [(ts, streams + i, row, None) for i, own in enumerate(barriers) for row, ts in enumerate(own)]
    expected, total = [], 0
    for ts, _, _, x in sorted(events, key=lambda event: event[:3]):
        if x is None:
            expected.append({"ts": ts, "sum": total})
            total = 0
        else:
            total += x
            if x % 5 == 0:
                expected.append({"ts": ts, "sum": x})
    schema = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
    tables = [pa.Table.from_pylist([{"ts": ts, "x": x} for ts, x in own], schema) for own in values]
    ends = [pa.table({"ts": pa.array(own, pa.int64())}) for own in barriers]
    return hr.program(**WINDOW), {"value": [as_given(tables[0]), *tables[1:]], "barrier": ends}, expected


def counter_case(rng, as_given=lambda table: table):
    count, keys = rng.choice([0, 5, 300, 3_000]), rng.choice([1, 3, 20])
    as_text = rng.random() < 0.5
    name = (lambda key: f"page {key}") if as_text else (lambda key: key)
    rows = [
        {"ts": ts, "key": name(rng.randint(0, keys)), "kind": "reset" if rng.random() < 0.1 else "inc", "by": rng.randint(-9, 9)}
        for ts in rising(rng, count, count)
    ]
    counts, expected = {}, []
    for row in rows:
        if row["kind"] == "inc":
            counts[row["key"]] = counts.get(row["key"], 0) + 1
        else:
            expected.append({"ts": row["ts"], "key": row["key"], "count": counts.pop(row["key"], 0)})
    kind = pa.string() if as_text else pa.int64()
    schema = pa.schema([("ts", pa.int64()), ("key", kind), ("kind", pa.string()), ("by", pa.int64())])
    table = pa.Table.from_pylist(rows, schema)
    given = hr.streams(as_given(table), rng.randint(1, 5), by=rng.choice([None, "by"]), tag="kind")
    return counter("string" if as_text else "int64"), {("inc", "reset"): given}, expected


TEXTS = {5, 7, 9, 19, 23, 25, 27}
"""Seeds below 30 that count by strings: a compilation of its own, of what test_entries.py has every day, too."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*sorted({*range(30)} - TEXTS), *rarely(*TEXTS, *range(30, 60))])
def test_property_outputs_are_those_of_one_event_after_another(seed):
    rng = random.Random(seed)
    program, inputs, expected = (window_case, counter_case)[seed % 2](rng)
    options = {
        "threads": rng.randint(1, 4), "max_threads": 4, "plan": rng.choice(["auto", "chain", "flat"]),
        "leaves": rng.choice([1, 2, 3, 8]), "heartbeat": rng.choice(["off", 1, 7, 1024, "off"]),
    }  # fmt: skip
    if rng.random() < 0.4:
        options["reconfigure"] = [(at, rng.randint(1, 4)) for at in rising(rng, 3, 100)]
    if rng.random() < 0.3:
        wishes = [{"plan": rng.choice(["auto", "chain", "flat"])}, {"plan": "flat", "threads": rng.randint(1, 4)}]
        options["reconfigure"] = [(at, rng.choice(wishes)) for at in rising(rng, 4, 100)]
    options["order"] = rng.choice(["events", "events", "none"])
    with program.start(inputs, **options) as run:
        assert run.wait(120)
        found = run.to_arrow().to_pylist()
        assert as_promised(options, found) == as_promised(options, expected)
        metrics = run.metrics().operators["program"]
    assert metrics.balance.faults == ()
    assert metrics.lost_wakeups == 0
    assert len(run.changes) == len(options.get("reconfigure", ()))


@pytest.mark.parametrize("order", ["events", "none"])
def test_where_little_comes_between_barriers_the_state_stays_joined(order):
    count = 2_000
    values = [pa.table({"ts": range(0, 3 * count, 3), "x": [5 * i + stream for i in range(count)]}) for stream in range(2)]
    inputs = {"value": values, "barrier": pa.table({"ts": range(1, 3 * count, 3)})}
    expected = [row for i in range(count) for row in ({"ts": 3 * i, "sum": 5 * i}, {"ts": 3 * i + 1, "sum": 10 * i + 1})]
    stays = 0
    while not stays:  # whether a second barrier is there when one is processed is up to the threads
        with hr.program(**WINDOW).start(inputs, threads=2, leaves=2, order=order) as run:
            assert run.wait(120)
            found = run.to_arrow().to_pylist()
            metrics = run.metrics().operators["program"]
        assert sorted(found, key=lambda row: row["ts"]) == expected
        assert order == "none" or found == expected
        assert metrics.balance.faults == ()
        stays = metrics.stays
        assert stays == sum(metrics.node_stays.values())


@pytest.mark.parametrize(
    ("state", "may_stay"),
    [
        ({"sum": "int64", "at": "timestamp[us]", "last": "string", "three": hr.array("int32", 3)}, True),
        ({"sum": "int64", "mean": "float64"}, False),
        ({"sum": "int64", "few": hr.array("float32", 3)}, False),
        ({"sum": "int64", "seen": hr.set_of("int64")}, False),
        ({"sum": "int64", "counts": hr.map_of("int64", "int64")}, False),
    ],
)
def test_no_sum_of_floats_depends_on_whether_a_state_stays_joined(state, may_stay):
    assert bind(hr.program(**{**WINDOW, "state": state})).may_stay_joined == may_stay


def streams_of(inputs):
    """How many streams each tag has."""
    return {
        name: len(given) if isinstance(given, list) else given.streams
        for names, given in inputs.items()
        for name in (names if isinstance(names, tuple) else (names,))
    }


class Held:
    """A table that is given in so many parts, each when it is let go: the run cannot end before."""

    def __init__(self, parts):
        self._parts, self._next = parts, threading.Semaphore(0)

    def __call__(self, table):
        return hr.stream(pa.RecordBatchReader.from_batches(table.schema, self._batches(table)), event_time="ts")

    def _batches(self, table):
        ends = [table.num_rows * part // self._parts for part in range(self._parts + 1)]
        for begin, end in itertools.pairwise(ends):
            assert self._next.acquire(timeout=120)
            yield from table.slice(begin, end - begin).to_batches()

    def let_go(self):
        self._next.release()


@pytest.mark.parametrize("seed", [*sorted({*range(16)} - {1, 5, 9}), *rarely(1, 5, 9)])  # those count by strings
def test_property_no_event_is_lost_or_repeated_when_the_plan_changes(seed):
    rng = random.Random(seed)
    changes = rng.choice([1, 5, 20])
    held = Held(changes + 1)
    program, inputs, expected = (window_case, counter_case)[seed % 2](rng, held)
    with program.start(inputs, threads=rng.randint(1, 4), max_threads=4, heartbeat=rng.choice([1, 7, 1024])) as run:
        for _ in range(changes):
            plan = program.plan(streams_of(inputs), leaves=rng.choice([1, 2, 3, 8]), by=rng.choice(["appendix", "chain", "flat"]))
            held.let_go()
            run.reconfigure(plan=plan, threads=rng.choice([None, rng.randint(1, 4)]))
        held.let_go()
        assert run.wait(120)
        assert run.to_arrow().to_pylist() == expected
        assert run.metrics().operators["program"].balance.faults == ()


def test_a_plan_that_changes_is_recorded_and_a_wrong_one_is_refused():
    program = hr.program(**WINDOW)
    held, streams = Held(2), {"value": 2, "barrier": 1}
    table = pa.table({"ts": range(2_000), "x": [1] * 2_000})
    inputs = {"value": [held(table), table], "barrier": pa.table({"ts": [1_999]})}
    with program.start(inputs, threads=2) as run:
        held.let_go()
        with pytest.raises(ParameterError, match="no node owns"):
            run.reconfigure(plan=program.plan({"value": 1, "barrier": 1}))
        with pytest.raises(ParameterError, match="did you mean 'flat'"):
            run.reconfigure(plan="flad")
        change = run.reconfigure(plan=program.plan(streams, leaves=1))
        assert change.wait(180).describe() == "plan 2 leaves (auto) → 1 leaf (appendix)"
        assert run["program"].plan == program.plan(streams, leaves=1)
        change = run.reconfigure(plan=program.plan(streams, leaves=4, by="chain").to_json())
        assert change.wait(180).describe() == "plan 1 leaf (appendix) → 4 leaves"
        run.reconfigure(plan="flat").wait(180)
        assert run["program"].plan == program.plan(streams, leaves=2, by="flat")
        held.let_go()
        assert run.wait(120)
        assert run.to_arrow().to_pylist() == [{"ts": 1_999, "sum": 4_000}]


@pytest.mark.parametrize("by", ["rates", "latency"])
def test_a_plan_by_the_rates_and_costs_measured_comes_into_force(by):
    """It is asked for while events come, until there are rates; what is left is processed under it."""
    count, between = 40_000, 100
    tables = [pa.table({"ts": range(stream, 2 * count, 2), "x": [stream + 1] * count}) for stream in range(2)]
    held = [Steered(table, [200] * (count // 200)) for table in tables]
    inputs = {
        "value": [hr.stream(iter(each), event_time="ts") for each in held],
        "barrier": pa.table({"ts": range(between - 1, 2 * count, between)}),
    }
    program = hr.program(**event_window.WINDOW)
    with program.start(inputs, plan="chain", leaves=4, threads=2, max_threads=2) as run:

        def asked():
            for each in held:
                each.let(1)
            try:
                return run.reconfigure(plan=by)
            except ParameterError as error:
                assert "so there are no rates to weigh" in str(error)

        change = eventually(asked).wait(180)
        plan = run["program"].plan
        assert change.outcome == "done" and change.after["plan"] == plan and plan.by == by
        assert change.describe() == f"plan 4 leaves (chain) → {plan.word}" and len(plan.leaves) <= 2
        assert sum(plan.rates.values()) > 0 and plan.predicted > 0
        for each in held:
            each.let_all()
        assert run.wait(120)
        assert run.to_arrow()["sum"].to_pylist() == [between // 2 * 3] * (2 * count // between)
        metrics = run.metrics().operators["program"]
        assert metrics.balance.faults == ()
        assert sum(metrics.events.values()) > 0 and metrics.events.keys() == {one.name for one in plan.nodes}


def test_sixty_four_leaves_on_two_threads():
    rng = random.Random(64)
    rows = [{"ts": ts, "x": rng.randint(1, 4)} for ts in rising(rng, 4_000, 4_000)]
    table = pa.Table.from_pylist(rows)
    ends = pa.table({"ts": [1_000, 2_000, 5_000]})
    program = hr.program(**WINDOW)
    found = program.over({"value": hr.streams(table, 64), "barrier": ends}).to_arrow(threads=2, leaves=64).to_pylist()
    spans = ((-1, 1_000), (1_000, 2_000), (2_000, 5_000))
    assert found == [{"ts": last, "sum": sum(row["x"] for row in rows if first < row["ts"] <= last)} for first, last in spans]


@pytest.mark.slow
def test_thousands_of_implementation_tags_on_sixty_four_leaves_and_two_threads():
    """2 x 1,000 parts x 3 streams, and a plan that changes from 64 leaves to one, and to others, while they run."""
    rng = random.Random(6_000)
    rows = [
        {"ts": ts, "key": rng.randint(0, 5_000), "kind": "reset" if rng.random() < 0.2 else "inc"}
        for ts in rising(rng, 20_000, 20_000)
    ]
    counts, expected = dict.fromkeys(range(5_001), 0), []
    for row in rows:
        if row["kind"] == "inc":
            counts[row["key"]] += 1
        else:
            expected.append({"ts": row["ts"], "key": row["key"], "count": counts[row["key"]]})
            counts[row["key"]] = 0
    program = counter("int64", parts=1_000)
    streams = {"inc": 3, "reset": 3}
    plans = [program.plan(streams, leaves=leaves, by="flat") for leaves in (64, 1, 64)]
    assert len(plans[0].leaves) == 64 and len(plans[0].tags) == 6_000
    assert sum(bool(leaf.node.tags) for leaf in plans[0].leaves) == 64
    plans[2] = hr.Plan(tuple(mirrored(root) for root in plans[0].roots))
    stream = program.over({("inc", "reset"): hr.streams(pa.Table.from_pylist(rows), 3, tag="kind")})
    for changes in ((), ((5_000, {"plan": plans[1]}), (12_000, {"plan": plans[2]}))):
        found = stream.to_arrow(threads=2, plan=plans[0], reconfigure=changes)
        assert found.to_pylist() == expected


def mirrored(node):
    """A plan's node with left and right exchanged, everywhere below it."""
    return hr.PlanNode(node.tags, [mirrored(child) for child in reversed(node.children)])


def tell(state, e, emit):
    if e.x > 0:
        emit(number=e.x, text="many", share=0.5)
    else:
        emit(e.x, is_odd=e.x % 2 != 0)


def test_what_an_emission_leaves_out_is_null():
    program = hr.program(
        tags={"value": {"x": "int64"}},
        emits={"number": "int64", "text": "string", "share": "float64", "is_odd": "bool"},
        update={"value": tell},
    )
    table = pa.table({"ts": [1, 2, 3], "x": [7, -1, -2]})
    found = program.over({"value": table}).to_arrow()
    assert found.to_pylist() == [
        {"ts": 1, "number": 7, "text": "many", "share": 0.5, "is_odd": None},
        {"ts": 2, "number": -1, "text": None, "share": None, "is_odd": True},
        {"ts": 3, "number": -2, "text": None, "share": None, "is_odd": False},
    ]
    assert [str(kind) for kind in found.schema.types] == ["int64", "int64", "string", "double", "bool"]
    assert program.over({"value": table.slice(0, 0)}).to_arrow().schema == found.schema


def fails_to_tell(state, e, emit):
    emit(number=10 // e.x)


def test_a_function_that_leaves_something_out_is_named_where_it_fails():
    program = hr.program(
        tags={"value": {"x": "int64"}}, emits={"number": "int64", "text": "string"}, update={"value": fails_to_tell}
    )
    with pytest.raises(FunctionError, match="ZeroDivisionError") as caught:
        program.over({"value": pa.table({"ts": [1], "x": [0]})}).to_arrow()
    assert caught.value.tuple == {"ts": 1, "x": 0}


def broken(state, e, emit):
    state.sum += 10 // e.x


@pytest.mark.campaign  # every day: test_liveness.py, with another window
def test_a_function_that_raises_is_named_with_its_event():
    program = hr.program(**{**WINDOW, "update": {"value": broken, "barrier": event_window.close}})
    values = pa.table({"ts": [1, 2, 3], "x": [5, 0, 1]})
    with pytest.raises((FunctionError, RunFailedError), match="ZeroDivisionError") as caught:
        program.over({"value": values, "barrier": pa.table({"ts": [9]})}).to_arrow(threads=2)
    assert "'x': 0" in str(caught.value) or "x=0" in str(caught.value)


def test_bad_inputs_are_refused_by_name():
    program = hr.program(**WINDOW)
    values, barriers = pa.table({"ts": [1], "x": [1]}), pa.table({"ts": [2]})
    with pytest.raises(UnknownNameError, match="valeu"):
        program.over({"valeu": values, "barrier": barriers})
    with pytest.raises(ParameterError, match="tag 'barrier' has no input; give it one"):
        program.over({"value": values})
    with pytest.raises(SchemaError, match="'x'"):
        program.over({"value": barriers, "barrier": barriers})
    when = pa.table({"when": [1], "x": [1]})
    with pytest.raises(SchemaError, match=r"inputs: 'value': .*does not exist.*hr.stream\(table, event_time="):
        program.over({"value": when, "barrier": barriers})
    with pytest.raises(SchemaError, match=r"'x' is double"):
        program.over({"value": pa.table({"ts": [1], "x": [1.5]}), "barrier": barriers})
    with pytest.raises(ParameterError, match="plan='trees'"):
        program.over({"value": values, "barrier": barriers}).to_arrow(plan="trees")
    table = pa.table({"ts": [1, 2], "key": [1, 2], "kind": ["inc", "set"]})
    with pytest.raises(SchemaError, match="'set' in row 1"):
        counter("int64").over({("inc", "reset"): hr.streams(table, tag="kind")}).to_arrow()
