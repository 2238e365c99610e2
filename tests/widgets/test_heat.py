"""Method: durations with known counts, and the cells that they are in.

What this cannot see: how the cells look; tests/browser keeps pictures.
"""

import itertools

import numpy as np
import pytest

from headrace.metrics.latency import LatencyHistogram
from headrace_widgets.heat import COLUMNS, Heat


def filled(*moments, limit=1_000):
    """Each moment (seconds, milliseconds of durations) counted when it comes."""
    heat, histogram = Heat(limit), LatencyHistogram()
    for at_s, durations in moments:
        histogram.add((np.array(durations, float) * 1e6).astype(np.int64))
        heat.add(at_s, histogram.counts())
    return heat


def cells(heat, start, end, most=60):
    """A dict for each cell."""
    return [dict(zip(COLUMNS, one, strict=True)) for one in heat.cells(start, end, most).T]


def test_example_every_duration_is_in_a_cell():
    """Two of 3 ms and one of 40 ms in the first half second, nothing in the second, one of 3 ms in the third."""
    heat = filled((0.2, [3, 40]), (0.3, [3]), (0.7, []), (1.1, [3]))
    found = cells(heat, 0, 10)
    assert [(one["left"], one["right"], one["count"]) for one in found] == [(0, 0.5, 2), (0, 0.5, 1), (1, 1.5, 1)]
    for one, duration in zip(found, (3, 40, 3), strict=True):
        assert one["bottom"] <= duration < one["top"] == pytest.approx(one["bottom"] * 2**0.5)
    assert found[0]["shade"] == pytest.approx(1)
    assert 0.9 > found[1]["shade"] == found[2]["shade"] > 0
    assert cells(heat, 20, 30) == [] == cells(Heat(), 0, 10)
    assert [one["left"] for one in cells(heat, 0.9, 10)] == [1]


def test_example_a_long_span_has_wide_cells_that_stay_in_place():
    heat = filled(*[(second + 0.1, [5]) for second in range(600)])
    found = cells(heat, 0, 600)
    assert {one["right"] - one["left"] for one in found} == {16}
    assert sum(one["count"] for one in found) == 600
    later = cells(heat, 3, 603)
    assert [one["left"] for one in later] == [one["left"] for one in found]  # 603 s are no more than 600 in slots of 16


def test_example_memory_is_bounded_and_nothing_is_forgotten():
    heat = filled(*[(i / 2, [1 + i % 7]) for i in range(500)], limit=64)
    found = cells(heat, 0, 250, most=10_000)
    assert sum(one["count"] for one in found) == 500
    assert len({one["left"] for one in found}) <= 64
    assert found[-1]["right"] - found[-1]["left"] == 0.5 < found[0]["right"] - found[0]["left"]
    edges = sorted({(one["left"], one["right"]) for one in found})
    assert all(right <= left for (_, right), (left, _) in itertools.pairwise(edges))
