"""The rate player: a schedule kept without drift, live changes, sources that play their event times.

Property    at no moment was more added than was due; whatever the thread oversleeps is made up
            for; a new rate counts from the moment it was set; pacing changes no result
Oracle      `due_by` of the schedule, on a clock that the test moves; in real runs only the
            upper bound, which holds on the slowest machine
Cannot see  how late a tuple is on a busy machine: the benchmarks measure it
"""

import random
import time

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import ParameterError, RunStoppedError
from headrace.runtime.player import REST_S, Origin, Player
from support.workloads import eventually

ROWS = 4_000
TABLE = pa.table({"ts": range(ROWS), "k": [i % 7 for i in range(ROWS)]})


def counts(source=TABLE, **options):
    return hr.stream(source, event_time="ts", **options).key_by("k").window(100).aggregate("counts", n=hr.count())


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def played(player, clock, ts, oversleep):
    """Add a batch as a port does, every wait a little too long; the moment at which each tuple was added."""
    moments, done = [], 0
    player.begin()
    while done < len(ts):
        due, wait_s = player.due(done, ts, done)
        if due:
            moments += [clock.now] * due
            done += due
        else:
            clock.now += wait_s + oversleep()
    return np.asarray(moments) - 1_000.0


@pytest.mark.parametrize(
    "schedule",
    [
        hr.rates.constant(977),
        hr.rates.phases([(1, 200), (0.5, 0), (2, 3_000), (1, 100)]),
        hr.rates.bursts(50, 4_000, every_s=0.7, length_s=0.1),
        hr.rates.recorded(np.cumsum(np.random.default_rng(5).exponential(1e-3, 500)), speed=0.5),
    ],
    ids=repr,
)
def test_oversleeping_does_not_add_up(schedule):
    draw, clock = random.Random(2), Clock()
    moments = played(Player(schedule, clock=clock), clock, np.arange(5_000), lambda: draw.uniform(0, 0.004))
    late = moments - [schedule.due_at(n) for n in range(5_000)]
    assert late.min() > -1e-6, "never early"
    assert late.max() < 0.005, "never later than one oversleep"


def test_a_new_rate_counts_from_when_it_was_set():
    clock = Clock()
    player = Player(hr.rates.constant(100), clock=clock)
    ts = np.arange(10_000)
    player.begin()
    clock.now += 1.0
    assert player.due(0, ts, 0) == (101, 0.0) and player.rate == 100 and player.behind(0) == 100
    player.play(hr.rates.constant(10), added=101)
    due, wait_s = player.due(101, ts, 101)
    assert (due, player.rate, player.behind(102)) == (1, 10, 0)
    assert player.due(102, ts, 102) == (0, pytest.approx(0.1)) and wait_s == 0.0
    player.play(None, added=102)
    assert player.due(102, ts, 102)[0] == 10_000 - 102 and player.rate is None and player.behind(102) == 0


def test_at_any_rate_what_is_due_is_granted_at_once_and_then_the_source_rests():
    # 30 tuples are due in the time that one addition takes: a feeder that may always add some never sleeps.
    clock, step_s, pieces, room = Clock(), 10e-6, 1_000, 600
    player = Player(hr.rates.constant(3e6), clock=clock)
    player.begin()
    added, additions, naps = 0, 0, []
    while clock.now < 1_000.1:
        due, wait_s = player.due(added, np.arange(pieces), added % pieces)  # at most to the end of a piece
        if due:
            added += min(due, room)
            additions += 1
            clock.now += step_s
        else:
            naps.append(wait_s)
            clock.now += wait_s
    assert abs(added - 3e6 * 0.1) < 3e6 * 2 * REST_S
    assert len(naps) <= 0.1 / REST_S and sum(naps) > 0.08
    assert additions <= 5 * len(naps)  # 1,500 tuples of two or three pieces, and no rest between them

    clock = Clock()
    player = Player(hr.rates.recorded(speed=3e6), unit_ns=10**9, clock=clock)
    ts = np.arange(300_000)
    done, naps = 0, 0
    while done < len(ts):
        due, wait_s = player.due(done, ts, done)
        done += min(due, room)
        naps += due == 0
        clock.now += step_s if due else wait_s
    assert naps <= 0.1 / REST_S


def test_sources_that_begin_within_a_second_start_together():
    clock, origin = Clock(), Origin()
    first, second, third = (Player(hr.rates.constant(100), origin, clock=clock) for _ in range(3))
    first.begin()
    clock.now += 0.5
    second.begin()
    assert [player.due(0, np.arange(1_000), 0)[0] for player in (first, second)] == [51, 51]
    clock.now += 0.75
    third.begin()  # far behind, as a live source may be: it does not catch up
    assert third.due(0, np.arange(1_000), 0) == (1, 0.0) and third.behind(0) == 0


def test_a_rate_set_before_the_first_tuple_counts_from_that_tuple():
    clock = Clock()
    player = Player(hr.rates.constant(5), clock=clock)
    player.play(hr.rates.constant(1_000), added=0)
    clock.now += 60.0
    player.begin()
    assert player.due(0, np.arange(100), 0) == (1, 0.0) and player.behind(0) == 0


def test_event_times_of_several_sources_have_one_beginning():
    #  first   10 s      20 s     at speed 2: the first source's 10 s are 5 s of the clock later
    #  second     12 s            it begins with the earliest, whichever comes first
    clock, origin = Clock(), Origin()
    fast = hr.rates.recorded(speed=2)
    later, earlier = (Player(fast, origin, unit_ns=10**9, clock=clock) for _ in range(2))
    assert later.due(0, np.array([12]), 0) == (1, 0.0)  # nobody knows of 10 yet
    assert earlier.due(0, np.array([10, 20]), 0) == (1, 0.0)
    assert earlier.due(1, np.array([10, 20]), 1) == (0, 5.0)
    assert later.due(1, np.array([12, 14]), 1) == (0, 2.0)
    clock.now += 2.0
    assert later.due(1, np.array([12, 14]), 1) == (1, 0.0) and earlier.due(1, np.array([10, 20]), 1) == (0, 3.0)


# -- real runs -------------------------------------------------------------------


def test_a_run_is_never_ahead_of_its_schedule_and_gives_the_same():
    steps = hr.rates.phases([(0.2, 2_000), (0.1, 0), (0.2, 10_000), (1, 20_000)])
    seen = []
    with counts().start(threads=2, max_threads=2, rate=steps) as run:
        while not run.wait(0.01) or not seen:
            added = run.metrics().operators["counts"].added
            seen.append((time.monotonic_ns(), added))
        result = run.to_arrow()
        first = min(source.first_add_ns for source in run._sources)
    assert result.equals(counts().to_arrow(threads=1))
    assert all(added <= steps.due_by((at_ns - first) / 1e9) for at_ns, added in seen if added)


def test_the_rate_is_read_and_set_while_it_runs():
    with counts([TABLE, TABLE]).start(threads=1, max_threads=2, rate=2.0) as run:
        assert run.rate == 2.0
        eventually(lambda: run.metrics().operators["counts"].added > 0)
        run.rate = 4.0
        assert run.rate == 4.0 and run.metrics().operators["counts"].added < ROWS
        with pytest.raises(ParameterError, match="rate=-3"):
            run.rate = -3
        assert run.rate == 4.0
        run.rate = hr.rates.phases([(60, 6.0), (1, 9.0)])
        assert run.rate == 6.0
        run.rate = None
        assert run.rate is None
        assert run.wait(180) and run.metrics().operators["counts"].added == 2 * ROWS


def test_the_rate_of_a_run_that_is_over_cannot_be_set():
    with counts().start() as run:
        assert run.wait(180)
        with pytest.raises(RunStoppedError, match=r"rate = 5: the run is over: its input has ended; start it again"):
            run.rate = 5
        assert run.rate is None
    with counts().start(rate=2.0) as run:
        run.stop()
        with pytest.raises(RunStoppedError, match="rate = None: the run is over: "):
            run.rate = None
        assert run.rate == 2.0


def test_event_times_are_played_at_a_speed():
    """4 s of event time at 10 times the speed: 0.4 s at least, and a rate that is nobody's number."""
    begun = time.monotonic()
    with counts().start(rate=hr.rates.recorded(speed=10)) as run:
        assert run.rate is None
        assert run.wait(180)
        assert run.to_arrow().num_rows == 7 * ROWS // 100
    assert time.monotonic() - begun >= 0.39


def test_a_paused_source_stops_at_once():
    with counts().start(rate=hr.rates.phases([(0.01, 1_000), (600, 0), (1, 1)])) as run:
        eventually(lambda: run.metrics().operators["counts"].added > 5)
        run.stop()
    assert run.state == "stopped"
