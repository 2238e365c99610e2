"""Rate schedules: when each tuple is due.

Property    due_by and due_at say the same: tuple n is due from due_at(n) on and not before;
            both rise; over any stretch as many tuples are due as the rate times its length
Oracle      the schedules' definitions, added up by hand
Cannot see  how well a thread keeps the deadlines: tests/headrace/runtime/test_rate_player.py
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import rates
from headrace.errors import NotSupportedError, ParameterError

lengths = st.floats(0.01, 50)
speeds = st.floats(0.5, 5_000)


@st.composite
def schedules(draw):
    kind = draw(st.sampled_from(["constant", "phases", "repeated", "bursts", "abrupt", "recorded"]))
    if kind == "constant":
        return rates.constant(draw(speeds))
    if kind == "bursts":
        every = draw(st.floats(0.5, 20))
        return rates.bursts(draw(speeds | st.just(0.0)), draw(speeds), every, every * draw(st.floats(0.05, 0.95)))
    if kind == "abrupt":
        return rates.abrupt(1, 500, 0.5, 3, 12, seed=draw(st.integers(0, 99)))
    if kind == "recorded":
        gaps = draw(st.lists(st.floats(0, 3), min_size=2, max_size=40))
        return rates.recorded(np.cumsum([1e6, *gaps, 0.25]), speed=draw(st.floats(0.1, 10)))
    steps = draw(st.lists(st.tuples(lengths, speeds | st.just(0.0)), max_size=5))
    return rates.phases([*steps, (draw(lengths), draw(speeds))], repeat=kind == "repeated")


# -- examples ------------------------------------------------------------------


def test_example_phases():
    #  rate   100  0  400 400 ...
    #  s       0 1 2 3
    steps = rates.phases([(2, 100), (1, 0), (2, 400)])
    assert [steps.due_by(s) for s in (-1, 0, 1, 1.999, 2, 2.9, 3, 4, 9)] == [0, 1, 101, 200, 200, 200, 201, 601, 2601]
    assert [steps.due_at(n) for n in (0, 100, 200, 600)] == [0.0, 1.0, 3.0, 4.0]
    assert [steps.rate_at(s) for s in (0, 2.5, 3, 100)] == [100, 0, 400, 400]


def test_example_bursts_begin_again():
    #  rate  10 ......... 110 . 10 ......... 110 .
    #  s     0            9     10          19
    waves = rates.bursts(10, 110, every_s=10, length_s=1)
    assert [waves.due_by(s) for s in (9, 10, 19, 20)] == [91, 201, 291, 401]
    assert [waves.rate_at(s) for s in (8.5, 9.5, 18.5, 19.5)] == [10, 110, 10, 110]
    assert waves.due_at(200) == pytest.approx(10) and waves.due_at(310) == pytest.approx(19 + 20 / 110)


def test_example_recorded_times():
    twice = rates.recorded([5.0, 5.5, 5.5, 7.0], speed=2)
    assert [twice.due_at(n) for n in range(4)] == [0.0, 0.25, 0.25, 1.0]
    assert [twice.due_by(s) for s in (0, 0.24, 0.25, 0.99, 1.0, 2.0)] == [1, 1, 3, 3, 4, 7]
    stamps = np.array(["2026-01-01T00:00:00", "2026-01-01T00:00:04"], "M8[us]")
    assert rates.recorded(stamps, speed=4).due_at(1) == 1.0
    assert rates.recorded([3.0]).due_by(0) > 10**9  # one moment is no rate: all at once


def test_example_the_papers_phases():
    """Section 8.5: 20 minutes of phases of 100 to 300 s with rates of 500 to 8,000 t/s; a seed gives them again."""
    schedule = rates.abrupt(seed=3)
    assert repr(schedule) == repr(rates.abrupt(seed=3)) != repr(rates.abrupt(seed=4))
    assert sum(s for s, _ in schedule.phases) == pytest.approx(1_200)
    assert all(500 <= r <= 8_000 for _, r in schedule.phases)


@pytest.mark.parametrize(("shortest", "longest", "total"), [(100, 300, 1_200), (9, 14, 43), (5, 5, 20), (3, 9, 2)])
def test_no_phase_is_shorter_than_the_paper_has_them_the_last_one_neither(shortest, longest, total):
    """Windows are to fill up at each rate. Two seconds cannot be divided into phases of three."""
    for seed in range(100):
        lengths = [s for s, _ in rates.abrupt(1, 9, shortest, longest, total, seed=seed).phases]
        assert sum(lengths) == pytest.approx(total)
        assert all(min(shortest, total) - 1e-9 <= each <= longest + 1e-9 for each in lengths), (seed, lengths)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rates.constant(0), "rate=0"),
        (lambda: rates.constant(math.inf), "infinity"),
        (lambda: rates.phases([]), "at least one"),
        (lambda: rates.phases([(0, 5)]), "seconds=0"),
        (lambda: rates.phases([(1, -5)]), "rate=-5"),
        (lambda: rates.phases([(1, 5), (1, 0)]), "above 0"),
        (lambda: rates.phases([(1, 0), (2, 0)], repeat=True), "above 0"),
        (lambda: rates.phases([(math.inf, 1)], repeat=True), "cannot be repeated"),
        (lambda: rates.bursts(1, 2, every_s=3, length_s=3), "length_s=3"),
        (lambda: rates.abrupt(lowest=9, highest=1), "lowest=9"),
        (lambda: rates.recorded([]), "at least one"),
        (lambda: rates.recorded("abc"), "at least one"),
        (lambda: rates.recorded([True]), "at least one"),
        (lambda: rates.recorded([2.0, 1.0]), "none before"),
        (lambda: rates.recorded([1.0], speed=0), "speed=0"),
        (lambda: rates.schedule_of("fast"), "rate='fast'"),
        (lambda: rates.schedule_of(-1), "rate=-1"),
        (lambda: rates.schedule_of(True), "rate=True"),
    ],
)
def test_what_cannot_be_meant(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_event_times_are_not_counted():
    with pytest.raises(NotSupportedError, match="recorded"):
        rates.recorded(speed=2).due_by(1.0)


# -- properties ----------------------------------------------------------------


@settings(deadline=None, max_examples=120)
@given(schedules(), st.integers(0, 20_000))
def test_property_due_by_and_due_at_agree(schedule, number):
    at = schedule.due_at(number)
    assert math.isfinite(at) and at >= 0
    later = at + max(1e-6, 1e-6 * at)
    assert schedule.due_by(later) > number
    if at > 1e-3:
        assert schedule.due_by(at - 1e-6 * max(1.0, at)) <= number + 1e-6 * max(1.0, at) * 6_000


@settings(deadline=None, max_examples=120)
@given(schedules(), st.floats(0, 100), st.floats(0, 100))
def test_property_more_is_due_later(schedule, first, second):
    early, late = sorted((first, second))
    assert schedule.due_by(early) <= schedule.due_by(late)


@settings(deadline=None, max_examples=120)
@given(st.lists(st.tuples(lengths, speeds), min_size=1, max_size=5), st.booleans(), st.floats(0, 200))
def test_oracle_phases_added_up(steps, repeat, until):
    """The integral of the rate, walked phase by phase."""
    total, left, i = 0.0, until, 0
    while left > 0:
        seconds, rate = steps[i % len(steps)] if repeat else steps[min(i, len(steps) - 1)]
        if not repeat and i >= len(steps) - 1:
            seconds = left
        total += min(left, seconds) * rate
        left -= seconds
        i += 1
    assert abs(rates.phases(steps, repeat).due_by(until) - (total + 1)) <= 1 + 1e-6 * total
