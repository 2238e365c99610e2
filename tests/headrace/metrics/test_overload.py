"""Overload: what is due and was not taken, how late it is, and what is the reason.

Method      real runs that somebody holds up for certain: a sink that waits, a source that gives nothing, an operator that
            costs more than its rate allows, one key for all tuples.
Oracle      the rate schedule itself; what was made slow.
Cannot see  how much a part was to blame where two are slow at once.
"""

import inspect
import math
import threading
import time
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic.measures import BUCKET_LOAD
from headrace.metrics.bottleneck import _saturated, _Shares, _waiting, bottleneck
from headrace.metrics.measures import BUSY, IDLE, LOAD, NEEDED
from headrace.metrics.snapshot import OperatorMetrics
from headrace.metrics.sources import STATES, SourceMetrics
from headrace.metrics.time_spent import TimeSpent
from headrace.runtime import player as player_module
from headrace.runtime.player import Origin, Player
from support.books import counting
from support.two_stages import TwoStages
from support.workloads import Steered, eventually

ROWS = 400_000


def rows(keys=100, count=ROWS):
    return pa.table({"ts": np.arange(count), "k": np.arange(count) % keys})


def labour(state, t, emit):
    """Some hundred microseconds."""
    x = t.k
    for _ in range(50_000):
        x = (x * 1103515245 + 12345) % 2147483648
    state.x = x


def give(key, state, emit):
    emit(x=state.x)


def laborious(given):
    """Far more work than its rate leaves time for."""
    operator = hr.operator(state={"x": "int64"}, emits={"x": "int64"}, update=labour, output=give)
    return hr.stream(given, event_time="ts").key_by("k").window(ROWS).apply(operator, name="labour")


# -- lag and backlog by the schedule


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def lag_by_the_schedule():
    clock = Clock()
    player = Player(hr.rates.constant(100), clock=clock)
    assert player.lag_s(0) == 0.0, "nothing is due before the first tuple is there"
    player.begin()
    clock.now += 3.0
    assert player.lag_s(0) == pytest.approx(3.0) and player.behind(0) == 300, "300 are due"
    assert player.lag_s(250) == pytest.approx(0.5), "tuple 250 was due 2.5 s after the first"
    assert player.lag_s(301) == 0.0
    assert player.lag_s(250, at_s=102.7) == pytest.approx(0.2)
    player.play(hr.rates.constant(10), added=250)
    clock.now += 1.0
    assert player.lag_s(255) == pytest.approx(0.5), "a new rate counts from when it was set"
    player.play(None, added=255)
    assert math.isnan(player.lag_s(255)), "at full speed nothing is due"


def lag_by_event_times():
    clock, origin = Clock(), Origin()
    player = Player(hr.rates.recorded(speed=2), origin, unit_ns=10**9, clock=clock)
    player.begin()
    assert player.due(0, np.array([10, 20]), 0)[0] == 1
    clock.now += 8.0  # tuple 20 was due after 5
    player.due(1, np.array([10, 20]), 1)
    assert player.lag_s(1) == pytest.approx(3.0), "recorded events are late"


def test_example_lag_by_the_schedule():
    lag_by_the_schedule()


def test_example_lag_by_event_times():
    lag_by_event_times()


@pytest.mark.parametrize(
    ("scenario", "text", "mistake", "expected"),
    [
        (lag_by_the_schedule, "- since - schedule.due_at(added - base)", "- since - schedule.due_at(added)",
         "a new rate counts from when it was set"),
        (lag_by_the_schedule, "- since - schedule.due_at(added - base)", "- schedule.due_at(added - base)", "300 are due"),
        (lag_by_event_times, "- first) * self._unit_s / schedule.speed)", "- first) * self._unit_s)", "recorded events are late"),
    ],
)
def test_planted_mistake_is_found(scenario, text, mistake, expected):
    source = inspect.getsource(player_module)
    assert source.count(text) == 1, f"{text!r}: the mistake is out of date"
    scope = dict(vars(player_module))
    exec(compile(source.replace(text, mistake), player_module.__file__, "exec"), scope)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError, match=expected):
        patch.setattr(Player, "lag_s", scope["Player"].lag_s)
        scenario()


def test_example_time_spent_is_of_one_state_at_a_time():
    now = iter(range(0, 1000, 10))
    spent = TimeSpent(("a", "b"), clock=lambda: next(now))
    assert spent.read() == {"a": 0, "b": 0}
    spent.turn("a")  # 0
    spent.turn("a")
    spent.turn("b")  # 10
    assert spent.read() == {"a": 10, "b": 10}  # looked at 20
    assert spent.read(until_ns=15) == {"a": 10, "b": 5}
    spent.stop()  # 30
    assert spent.read() == {"a": 10, "b": 20}


def test_example_shares_of_a_source():
    then = SourceMetrics("s", "o", 10, 10, spent_ns=dict(zip(STATES, (5, 5, 0, 0), strict=True)))
    now = SourceMetrics("s", "o", 20, 18, spent_ns=dict(zip(STATES, (5, 10, 15, 0), strict=True)))
    assert (now.waiting, now.share("blocked", then), now.share("paced"), then.share("feeding")) == (2, 0.75, 1 / 3, 0)


# -- runs that somebody holds up


def found_to_be(run, *kinds):
    """What is said of a run, once it is of one of these kinds: the next look may say something else."""

    def is_said():
        found = run.bottleneck(0.2)
        return found.kind in kinds and found

    return eventually(is_said)


def test_example_a_sink_that_waits():
    """Backlog and lag grow while it does, and are gone at the end."""
    opened = threading.Event()
    run = hr.stream(rows(), event_time="ts").forward().start(
        rate=ROWS, capacity=1 << 12, sink=lambda batch: opened.wait(180)
    )
    with run:
        try:
            eventually(lambda: run.metrics().lag_s > 0.3 and run.metrics().behind > 0.2 * ROWS)
            first = run.metrics()
            eventually(lambda: run.metrics().lag_s > first.lag_s + 0.1)

            def blocked():
                then = run.metrics()
                time.sleep(0.1)  # an interval to look at
                (source,), (before,) = run.metrics().sources, then.sources
                return source.share("blocked", before)

            eventually(lambda: blocked() > 0.9)
            found = found_to_be(run, "results")
            assert found.is_pressed and found.where == "forward" and "are not taken" in found.sentence
            frame = run.history.to_pandas
            eventually(lambda: frame()["lag_s"].max() > 0.2 and frame()["behind"].max() > 0)
        finally:
            opened.set()
        assert run.wait(180)
        end = run.metrics()
        assert (end.behind, end.lag_s, bottleneck(end).kind) == (0, 0.0, "over")


def test_example_a_source_that_gives_nothing():
    source = Steered(rows(count=2_000), [1_000])
    with counting(source).start(rate=2_000) as run:
        source.let()
        found = found_to_be(run, "source")
        assert "is too slow" in found.sentence and not found.is_pressed
        eventually(lambda: run.metrics().lag_s > 0.1)
        assert run.metrics().sources[0].share("starved") > 0
        source.let_all()
        assert run.wait(180)


def test_example_a_source_whose_time_is_behind():
    """The others' tuples fill the gate, and threads wait for it."""
    first, second = Steered(rows(), [10, ROWS - 10]), Steered(rows(), [10])
    with counting([first, second]).start(capacity=1 << 10) as run:
        first.let(2)
        second.let()
        found = found_to_be(run, "order")
        assert found.where == list(run.metrics().operators["counts"].watermark_gap)[1] and found.is_pressed
        first.let_all()
        second.let_all()
        assert run.wait(180)


def test_example_a_source_that_is_silent_while_another_gives_little():
    """No source waits for room, and yet nothing goes on."""
    first, second = Steered(rows(), [10] * 4), Steered(rows(), [10])
    with counting([first, second]).start() as run:
        first.let(2)
        second.let()
        eventually(lambda: run.metrics().operators["counts"].processed == 20)
        then = run.metrics()
        first.let()
        found = eventually(lambda: (found := bottleneck(run.metrics(), then)).kind == "order" and found)
        silent = list(run.metrics().operators["counts"].watermark_gap)[1]
        assert found.where == silent and not found.is_pressed
        assert f"wait for {silent}, which gives nothing" in found.sentence and "idle_after=" in found.sentence
        second.let_all()
        eventually(lambda: bottleneck(run.metrics(), then).kind == "none")
        first.let_all()
        assert run.wait(180)


def test_example_an_engine_that_says_only_when_it_is_busy():
    """Of the time that has passed, not of the time it has told of."""
    source = Steered(pa.table({"ts": range(2_000), "x": [1] * 2_000}), [1_000])
    with hr.stream(source, event_time="ts").through(TwoStages("x")).start() as run:
        source.let()
        eventually(lambda: run.metrics().operators["total"].processed == 1_000)
        eventually(lambda: "busy 100%" not in bottleneck(run.metrics()).sentence, 180)
        source.let_all()
        assert run.wait(180)


@pytest.mark.slow
def test_example_threads_that_have_too_much_to_do():
    with laborious(rows()).start(rate=ROWS, threads=1, max_threads=2) as run:
        found = found_to_be(run, "workers", "cores")
        assert found.where == "labour" and found.is_pressed and run.metrics().lag_s > 0


def test_example_threads_that_lose_time_to_waking_up():
    """Nearly always somebody waits for them, and yet they count as busy a little less often than that."""
    some = [SimpleNamespace(name=name, busy=busy, operator=SimpleNamespace(values={}), mean=lambda _: 0.0)
            for name, busy in (("cheap", [0.1]), ("score", [0.8, 0.83]))]  # fmt: skip
    found = _waiting(some, {}, 2, 0.98, {"source"})
    assert (found.kind, found.where, found.is_pressed) == ("workers", "score", True)
    assert found.sentence == (
        "score has too much to do: tuples wait for room 98% of the time, though its threads are busy only 83% of it."
    )
    assert _waiting(some, {}, 2, 0.3, {"source"}).kind == "none"


@pytest.mark.parametrize(("pressed", "kind"), [({"left"}, "order"), ({"left", "right"}, "workers")])
def test_example_a_source_that_waits_for_room_holds_nobody_back(pressed, kind):
    """Of two sources that both wait for room, one is always a little behind the other in event time."""
    operator = SimpleNamespace(values={"holds_back": "right"})
    score = SimpleNamespace(name="score", busy=[0.7], operator=operator, mean={"idle_ns": 0.3, "blocked_ns": 0.0}.get)
    found = _waiting([score], {}, 2, 0.98, pressed)
    assert (found.kind, found.where) == (kind, "right" if kind == "order" else "score")


def test_example_one_thread_that_owns_all_keys():
    with laborious(rows(keys=1)).start(rate=ROWS, threads=2) as run:
        eventually(lambda: len(run["labour"].hot_keys()))
        owner = run.mapping.owners[int(run["labour"].hot_keys().loc[0, "bucket"])]

        def is_named():
            """Not in an interval in which a thread is kept from its core: then its load seems small, or the other one busy."""
            found = run.bottleneck(0.2)
            says = found.sentence.startswith(f"Thread {owner} of labour") and "for one bucket of keys" in found.sentence
            return found.kind == "worker" and found.worker == owner and says

        eventually(is_named)


def counted(load, buckets, busy=(950, 200), idle=(50, 800)):
    """An operator of two workers, of which the first is busy all the time."""
    values = {"added": 9, "processed": 9, "results": 0, "busy_ns": list(busy), "idle_ns": list(idle)}
    measures = [*NEEDED, BUSY, IDLE]
    if load:
        values |= {"load": load, "bucket_load": buckets}
        measures += [LOAD, BUCKET_LOAD]
    return OperatorMetrics("score", 2, 2, [0, 1], 1.0, None, tuple(measures), values)


@pytest.mark.parametrize(
    ("load", "buckets", "advice"),
    [
        ([900, 100], [450, 450, 100], "give some of its keys to them (Balance)"),
        ([900, 100], [880, 20, 100], "one bucket of keys, which they cannot share"),
        ([500, 500], [250, 250, 500], "its load is not larger than theirs"),
        (None, None, "more threads will not help while they have so little to do"),
    ],
)
def test_example_what_would_help_the_only_busy_thread(load, buckets, advice):
    """Another mapping where keys are owned, and where it would change something."""
    begun = counted(load and [0, 0], buckets and [0] * len(buckets), (0, 0), (0, 0))
    found = _saturated(_Shares(counted(load, buckets), begun, 1.0), {}, 2)
    assert (found.kind, found.worker) == ("worker", 0)
    assert advice in found.sentence and found.sentence.startswith("Thread 0 of score has too much to do: it is busy 95%")


def test_example_the_keys_behind_the_load():
    """Of a table that comes in one piece, they are those of the whole table."""
    given = pa.table({"ts": range(1000), "k": ["a"] * 600 + ["b"] * 300 + ["c"] * 100})
    with counting(given).start(threads=2) as run:
        assert run.wait(180)
        hot = run["counts"].hot_keys(2)
        assert hot["k"].tolist() == ["a", "b"] and hot["share"].tolist() == [0.6, 0.3]
        assert hot["thread"].tolist() == [run.mapping.owners[bucket] for bucket in hot["bucket"]]
    with hr.stream(given, event_time="ts").forward().start() as run, pytest.raises(AttributeError, match="hot_keys"):
        run["forward"].hot_keys()


def test_example_at_full_speed_nothing_is_due():
    with counting(rows(count=1000)).start() as run:
        assert run.wait(180)
        metrics = run.metrics()
        assert metrics.behind == 0 and math.isnan(metrics.lag_s) and metrics.to_dict()["lag_s"] is None
        used = metrics.cpu_ns
        assert {"counts-0", "counts-collector", "counts-source0-reader", "counts-source0-feeder"} <= set(used)
        assert used["counts-0"] > 0
        run.stop()  # waits until its threads have ended
        assert run.metrics().cpu_ns == run.metrics().cpu_ns
