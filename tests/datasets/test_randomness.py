"""Draws by weight, and arrivals at a changing rate.

Oracle      The weights themselves; expected counts worked out from the rates.
Blind spot  Anything that does not show in frequencies.
"""

from itertools import repeat

import numpy as np
import pytest

from headrace_datasets.arrivals import Clock, autoregressive
from headrace_datasets.randomness import Choice, Choices, stream, zipf


def exact_chances(choice: Choice) -> np.ndarray:
    """The chance of each index as the tables say, without drawing."""
    k = len(choice._keep)
    chances = choice._keep.copy()
    np.add.at(chances, choice._alias, 1.0 - choice._keep)
    return chances / k


@pytest.mark.parametrize(
    "weights",
    [[1.0], [1.0, 1.0], [0.0, 3.0, 0.0], [1e-9, 1.0], [5, 4, 3, 2, 1], 1.0 / np.arange(1, 2_000)],
    ids=["one", "equal", "zeros", "tiny", "falling", "zipf"],
)
def test_tables_hold_exactly_the_weights(weights):
    weights = np.asarray(weights, dtype=np.float64)
    choice = Choice(weights)
    assert exact_chances(choice) == pytest.approx(weights / weights.sum(), abs=1e-12)
    drawn = choice.draw(stream(1), 20_000)
    assert drawn.dtype == np.int32
    assert set(drawn.tolist()) <= set(np.flatnonzero(weights).tolist())


def test_draws_follow_the_weights():
    choice = zipf(50, 1.0, 2.7)
    share = np.bincount(choice.draw(stream(2), 400_000), minlength=50) / 400_000
    assert share == pytest.approx(choice.probability, rel=0.06)


def test_choices_draw_by_the_weights_they_are_told():
    weights = [np.array([1.0]), np.array([1.0, 3.0]), np.arange(1.0, 6.0)]
    which = np.tile([0, 1, 2, 2], 100_000).reshape(-1, 8)
    drawn = Choices(weights).draw(stream(3), which)
    assert drawn.shape == which.shape
    for number, own in enumerate(weights):
        share = np.bincount(drawn[which == number], minlength=len(own)) / (which == number).sum()
        assert share == pytest.approx(own / own.sum(), rel=0.03)


def test_streams_differ_by_path_and_repeat():
    first = stream(7, 0, 1).random(4)
    assert (stream(7, 0, 1).random(4) == first).all()
    for other in (stream(7, 1, 0), stream(7, 0, 2), stream(8, 0, 1), stream(7)):
        assert (other.random(4) != first).all()


def test_autoregressive_is_the_recursion():
    assert autoregressive(np.array([1.0, 0.0, 2.0]), 0.5, 4.0).tolist() == [3.0, 1.5, 2.75]


#   rate     10 10 |                     |            one arrival each 0.1 s, then each 0.5 s
#             2  2 |          ___________|
#   seconds        0    1    2    3    4
def test_example_clock_stretches_time_by_the_rate():
    clock = Clock(iter([np.array([10.0, 10.0]), np.array([2.0, 2.0, 2.0])]), slot_s=1.0)
    times = clock.after(np.ones(24))
    assert times == pytest.approx([*np.arange(1, 21) / 10, 2.5, 3.0, 3.5, 4.0])


def test_clock_does_not_depend_on_how_many_are_asked_for():
    gaps = stream(3).standard_exponential(10_000)
    rates = stream(4).random(500) + 0.1

    def endless():
        return (10.0 * rates for _ in repeat(None))

    whole = Clock(endless(), 0.5).after(gaps)
    clock = Clock(endless(), 0.5)
    parts = np.concatenate([clock.after(part) for part in np.split(gaps, [0, 1, 7, 7, 5_000])])
    assert parts == pytest.approx(whole)
    assert (np.diff(parts) >= 0).all()


def test_clock_keeps_the_rate_of_each_slot():
    rates = np.array([100.0, 1.0, 400.0, 50.0])
    clock = Clock(repeat(rates), slot_s=1.0)
    slot = clock.after(stream(5).standard_exponential(200_000)).astype(np.int64)
    turns = slot[-1] // 4
    counts = np.bincount(slot % 4, minlength=4) / turns
    assert counts == pytest.approx(rates, rel=0.1)
