"""Periodic tags: events that event time makes.

Property    each slice that has had an event of any input ends with one tick, at its right boundary: after all of the slice,
            before all else of that ts, in the order in which periodic tags are declared; the last one at the end of the
            inputs. Whatever the plan, threads, heartbeat and changes of the plan
Oracle      small examples by hand; `headrace.reference.synchronization.ticked`, which knows all rows beforehand
Planted     a slice that is not noted; a tick one late; a promise that goes too far; an input that is not waited for
Cannot see  interleavings of the machine's that did not happen
"""

import random
from dataclasses import replace

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import CheckpointError, ParameterError
from headrace.reference import synchronization as reference
from headrace.synchronization import ticks
from planted_mistakes import planted
from support import event_window
from support.workloads import HANG_S, Steered, eventually

SHORT, LONG = 10, 30


def tell(state, e, emit):
    emit(every=e.every, sum=state.sum)
    if e.every == SHORT:
        state.sum = 0


def split(state, left, right, tags_left, tags_right):
    if "short" in tags_right or "long" in tags_right:
        right.sum = state.sum
    else:
        left.sum = state.sum


PROGRAM = hr.program(
    tags={"short": hr.every(SHORT), "value": {"x": "int64"}, "long": hr.every(LONG)},
    depends=[(tag, other) for tag in ("short", "long") for other in ("short", "long", "value")],
    state={"sum": "int64"},
    emits={"every": "int64", "sum": "int64"},
    update={"short": tell, "value": event_window.add, "long": tell},
    fork=split,
    join=event_window.merge,
)


def table(rows):
    return pa.table({"ts": pa.array([ts for ts, _ in rows], pa.int64()), "x": pa.array([x for _, x in rows], pa.int64())})


def expected(streams):
    inputs = [("value", [(ts, {"x": x}) for ts, x in rows]) for rows in streams]
    return reference.run(PROGRAM, reference.ticked(inputs, {"short": SHORT, "long": LONG}))


def computed(streams, **options):
    with PROGRAM.start({"value": [table(rows) for rows in streams]}, **options) as run:
        assert run.wait(HANG_S)
        metrics = run.metrics().operators["program"]
        assert (metrics.added, metrics.processed) == (sum(map(len, streams)),) * 2  # ticks are no rows
        return run.to_arrow().to_pylist()


def case(seed):
    """One to three streams: equal times, slices that end with a row exactly, gaps, none."""
    draw, streams = random.Random(seed), []
    for _ in range(draw.randint(1, 3)):
        ts, rows = draw.choice([-65, 0, 1_000_000]), []
        for _ in range(draw.choice([0, 1, 40, 3_000])):
            ts += draw.choice([0, 0, 1, 1, SHORT - ts % SHORT, 7, 5 * LONG if draw.random() < 0.1 else 0])
            rows.append((ts, draw.randint(-9, 9)))
        streams.append(rows)
    options = {
        "threads": draw.randint(1, 3), "max_threads": 3, "leaves": draw.randint(1, 5),
        "heartbeat": draw.choice(["off", 1, 7, 1024]), "plan": draw.choice(["auto", "chain", "flat"]),
    }  # fmt: skip
    return streams, options


def rows_of(*lines):
    return [dict(zip(("ts", "every", "sum"), line, strict=True)) for line in lines]


@pytest.mark.slow
def test_example_slices_end_with_a_tick():
    """
    values    1 (-1)  |  2 (0)  4 (9)  |  8 (10)   ...   16 (1000)
    ticks            0               10         20                1010
    long             0                                 30             1020
    """
    streams = [[(-1, 1), (9, 4), (10, 8)], [(0, 2), (1000, 16)]]
    lines = [(0, 10, 1), (0, 30, 0), (10, 10, 6), (20, 10, 8), (30, 30, 0), (1010, 10, 16), (1020, 30, 0)]
    assert computed(streams) == expected(streams) == rows_of(*lines)
    assert computed([[], []]) == []


@pytest.mark.parametrize("seed", range(25))
def test_oracle_any_plan(seed):
    streams, options = case(seed)
    assert computed(streams, **options) == expected(streams)


@pytest.mark.slow
def test_agree_more_ticks_than_a_mailbox_holds():
    streams = [[(ts, 1) for ts in range(0, 700_000, SHORT)], [(699_995, 1)]]
    assert computed(streams, heartbeat=64, leaves=2, threads=2) == expected(streams)


def test_example_a_tick_comes_while_the_inputs_go_on():
    source, got = Steered(table([(1, 2), (9, 3), (11, 5), (31, 7)]), [2, 1]), []
    with PROGRAM.start({"value": [hr.stream(source, event_time="ts")]}, sink=got.append) as run:
        source.let(2)
        eventually(lambda: got)
        assert [row for batch in got for row in batch.to_pylist()] == rows_of((10, 10, 5))
        source.let_all()
        assert run.wait(HANG_S)
    assert [row for batch in got for row in batch.to_pylist()] == expected([[(1, 2), (9, 3), (11, 5), (31, 7)]])


def test_agree_the_plan_changes():
    rows = [(ts, ts % 7) for ts in range(0, 6_000, 3)]
    source = Steered(table(rows), [200] * 9)
    with PROGRAM.start({"value": [hr.stream(source, event_time="ts"), table([])]}, threads=2, leaves=2) as run:
        for number in range(9):
            source.let(1)
            plan = PROGRAM.plan({"value": 2}, leaves=1 + number % 3, by=("appendix", "chain", "flat")[number % 3])
            assert run.reconfigure(plan=plan).wait(HANG_S)
        source.let_all()
        assert run.wait(HANG_S)
        assert run.to_arrow().to_pylist() == expected([rows, []])


MISTAKES = {
    "a slice that is not noted": ("self._due.update(", "set().update("),
    "a tick one late": ("ts <= reached)", "ts < reached)"),
    "a promise that goes too far": ("(reached // self.width + 1) * self.width)", "(reached // self.width + 2) * self.width)"),
    "an input that is not waited for": ("return min(read_cell", "return max(read_cell"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_are_found(mistake):
    """Input ends are held back, so that what comes too early has come."""
    streams = [[(ts, 1) for ts in range(0, 400, 5)], [(ts, 1) for ts in range(0, 400, 10)]]
    with planted(ticks, *MISTAKES[mistake]):
        assert any(_differs(streams, heartbeat) for heartbeat in (1, 3, 1024)), "it is not found"


def _differs(streams, heartbeat):
    sources = [Steered(table(rows), [7] * 5) for rows in streams]
    with PROGRAM.start({"value": [hr.stream(one, event_time="ts") for one in sources]}, heartbeat=heartbeat) as run:
        sources[0].let(4)
        eventually(lambda: run.metrics().operators["program"].added >= 28)
        for one in sources:
            one.let_all()
        assert run.wait(HANG_S)
        return run.to_arrow().to_pylist() != expected(streams)


def test_agree_nothing_differs_without_a_mistake():
    streams = [[(ts, 1) for ts in range(0, 400, 5)], [(ts, 1) for ts in range(0, 400, 10)]]
    assert not any(_differs(streams, heartbeat) for heartbeat in (1, 3, 1024))


# -- what cannot be meant


@pytest.mark.parametrize("duration", [0, "0s", -1, "often", None, 1.5])
def test_example_durations_that_cannot_be(duration):
    with pytest.raises(ParameterError, match="every"):
        hr.every(duration)


def _program(tags):
    return hr.program(tags=tags, emits={"n": "int64"}, update=dict.fromkeys(("a", "b"), tell))


def test_example_programs_that_cannot_be():
    with pytest.raises(ParameterError, match="nothing would come"):
        _program({"a": hr.every("1h"), "b": hr.every("2h")})
    with pytest.raises(ParameterError, match="'a' is periodic, and its events have no key; leave out by='x'"):
        _program({hr.tag("a", by="x"): hr.every("1h"), "b": {}})


def test_example_inputs_that_cannot_be():
    with pytest.raises(ParameterError, match="'short' is periodic: event time makes its events, and no input; leave"):
        PROGRAM.over({"value": table([]), "short": table([])})
    fine = hr.program(
        tags={"value": {"x": "int64"}, "tick": hr.every("1us")}, emits={"every": "int64", "sum": "int64"},
        state={"sum": "int64"}, update={"value": event_window.add, "tick": tell},
    )  # fmt: skip
    with pytest.raises(ParameterError, match="tick: every"):
        fine.over({"value": table([(1, 1)])})  # in milliseconds


def test_a_checkpoint_of_other_slices_is_refused(tmp_path):
    """Nothing else tells: functions are the same, inputs too, and ticks that come again are known by their number alone."""
    inputs = {"value": table([(ts, 1) for ts in range(100)])}
    with PROGRAM.start(inputs, checkpoint=tmp_path / "kept", checkpoint_every=40) as run:
        assert run.wait(HANG_S)
        rows = run.to_arrow()
    other = replace(PROGRAM, tags=PROGRAM.tags | {"short": replace(PROGRAM.tags["short"], every=SHORT // 2)})
    with pytest.raises(CheckpointError, match="is of ticks every 10, 30, and this is 5, 30; resume what was started"):
        other.resume(tmp_path / "kept", inputs)
    with PROGRAM.resume(tmp_path / "kept", inputs) as run:
        assert run.wait(HANG_S) and run.to_arrow().equals(rows)


def test_example_times_without_room_for_a_slice():
    with pytest.raises(hr.HeadraceError, match="must be below 2\\*\\*62"):
        computed([[(2**62 - 5, 1)]])
    last = (2**62 - 1 - LONG) // LONG * LONG
    assert computed([[(last - 1, 1)]]) == rows_of((last, SHORT, 1), (last, LONG, 0))


def test_example_plans_know_them():
    plan = PROGRAM.plan({"value": 2}, leaves=2)
    assert {tag.tag for tag in plan.roots[0].tags} == {"short", "long"}
    assert repr(PROGRAM).startswith("<Program 'program': tags short every 10, value(x: int64), long every 30;")
    assert PROGRAM.check(examples=50)
