"""SASO figures: stability, accuracy, settling time, overshoot.

Oracle      traces drawn by hand, figures read off them
Cannot see  whether a target is a good one
"""

import math
from dataclasses import replace

import pytest

from headrace.control.observation import Observation
from headrace.control.quality import quality


def trace(rows, interval_s=1.0, max_threads=8):
    """Observations of (threads, load, tuples per second)."""
    return [
        Observation(
            at_s=(i + 1) * interval_s, interval_s=interval_s, threads=threads, max_threads=max_threads,
            utilisation=min(1.0, load), busiest=min(1.0, load), processed=rate / max(1.0, load), arrived=rate, cores=64,
        )
        for i, (threads, load, rate) in enumerate(rows)
    ]  # fmt: skip


def test_example_one_step_well_answered():
    #  rate     100 100 100 | 300 300 300 300 300 300
    #  threads    1   1   1 |   1   1   5   4   4   4
    #  load      .6  .6  .6 | 1.8 1.8  .6  .7  .7  .8
    rows = [(1, 0.6, 100)] * 3 + [(1, 1.8, 300)] * 2 + [(5, 0.6, 300), (4, 0.7, 300), (4, 0.7, 300), (4, 0.8, 300)]
    found = quality(trace(rows))
    assert found.disturbances == 1
    assert found.reversals == 1, "five, then four: it went too far and came back"
    assert not found.is_stable
    assert found.overshoot == pytest.approx(5 / 4 - 1)
    assert found.settling_s == pytest.approx((0 + 2) / 2)
    assert found.in_band == pytest.approx(7 / 9)
    assert found.accuracy == pytest.approx((3 * 0.1 + 0.1 + 0 + 0 + 0.1) / 7)
    assert found.thread_seconds == 3 + 2 + 5 + 12
    assert str(found).startswith("1 reversal,") and "overshoot 25%" in str(found)


def test_example_flapping():
    rows = [(n, 0.6, 100) for n in (2, 3, 2, 3, 2, 3)]
    found = quality(trace(rows))
    assert (found.disturbances, found.reversals) == (0, 4)


def test_example_up_and_down_with_the_load_is_stable():
    rows = [(1, 0.7, 100)] * 4 + [(3, 0.7, 300)] * 4 + [(1, 0.7, 100)] * 4
    found = quality(trace(rows))
    assert found.is_stable and found.disturbances == 2 and found.in_band == 1 and found.settling_s == 0
    assert found.accuracy == pytest.approx(0, abs=1e-9) and str(found).startswith("stable")


def test_example_never_settled():
    found = quality(trace([(2, 1.5, 100)] * 5))
    assert found.settling_s == math.inf and math.isnan(found.accuracy) and found.in_band == 0
    assert ", never settled, " in str(found)
    assert "70% from the target once settled, not settled after every disturbance, " in str(replace(found, accuracy=0.7))


def test_limits_count_as_good():
    """One thread cannot be fewer, and eight of eight not more."""
    assert quality(trace([(1, 0.05, 5)] * 3)).in_band == 1
    assert quality(trace([(8, 1.4, 900)] * 3)).in_band == 1
    assert quality(trace([(2, 0.05, 5)] * 3)).in_band == 0


def test_one_odd_interval_is_no_disturbance():
    rows = [(1, 0.7, rate) for rate in (100, 100, 400, 100, 100)]
    assert quality(trace(rows)).disturbances == 0


def test_nothing_seen():
    assert quality([]).thread_seconds == 0 and math.isnan(quality([]).in_band)
