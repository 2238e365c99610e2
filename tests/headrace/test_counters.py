"""What the numbers about a run mean, by themselves: histograms, imbalance, books, tables of them.

Oracle      numpy's quantiles of the same durations; arithmetic by hand
Cannot see  whether the engine counts what happens: `engine/test_metrics.py` does
"""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.counters import (
    Balance,
    LatencyHistogram,
    Metrics,
    OperatorMetrics,
    coefficient_of_variation,
    max_over_mean,
)

DURATIONS = st.lists(st.integers(1, 10**12), min_size=1, max_size=300)
WITHIN = 2 ** (1 / 32) * (1 + 1e-9)
"""Half of a bin of 1/16 of a power of two."""


@settings(deadline=None)
@given(DURATIONS, st.floats(0.01, 1.0))
def test_oracle_quantiles(durations, q):
    histogram = LatencyHistogram()
    histogram.add(np.array(durations))
    wanted = np.quantile(durations, q, method="inverted_cdf") / 1e6
    assert wanted / WITHIN <= histogram.quantile_ms(q) <= wanted * WITHIN
    assert histogram.max_ms == max(durations) / 1e6
    summary = histogram.summary()
    assert (summary["p50"], summary["p99"]) == (histogram.quantile_ms(0.5), histogram.quantile_ms(0.99))
    assert summary["p50"] <= summary["p99"] <= summary["max"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**12), st.integers(1, 5)), min_size=1, max_size=50))
def test_agree_equal_neighbours_and_one_by_one(runs):
    together, alone = LatencyHistogram(), LatencyHistogram()
    together.add(np.array([duration for duration, times in runs for _ in range(times)]))
    for duration, times in runs:
        for _ in range(times):
            alone.add(np.array([duration]))
    assert (together.counts() == alone.counts()).all()
    assert together.max_ms == alone.max_ms


@settings(deadline=None)
@given(DURATIONS, DURATIONS)
def test_oracle_the_difference_of_two_histograms_is_what_came_between(first, second):
    histogram = LatencyHistogram()
    histogram.add(np.array(first))
    before = histogram.counts()
    histogram.add(np.array(second))
    between = LatencyHistogram(histogram.counts() - before)
    alone = LatencyHistogram()
    alone.add(np.array(second))
    assert between.count == len(second)
    assert (between.counts() == alone.counts()).all()
    assert alone.max_ms / WITHIN**2 <= between.max_ms <= alone.max_ms * WITHIN**2
    assert between.quantile_ms(0.5) == pytest.approx(alone.quantile_ms(0.5), rel=WITHIN - 1)


def test_example_a_histogram_of_nothing():
    for histogram in (LatencyHistogram(), LatencyHistogram(np.zeros(1024, np.int64))):
        assert all(math.isnan(value) for value in histogram.summary().values())
        histogram.add(np.zeros(0))
        assert histogram.count == 0


def test_example_imbalance():
    assert coefficient_of_variation(np.array([1, 3])) == 0.5
    assert max_over_mean(np.array([1, 3])) == 1.5
    for idle in ([], [0, 0], [7]):
        assert coefficient_of_variation(np.array(idle)) == 0.0
        assert max_over_mean(np.array(idle)) == 1.0


def test_example_books():
    books = Balance(arrived=100, gained=5, processed=60, waiting=7, in_gate=8, dropped=10, set_aside=9, filtered=11)
    assert books.holds and bool(books) and books.in_flight == 15
    assert str(books) == (
        "100 arrived + 5 gained = 60 processed + 15 in flight + 10 dropped + 9 set aside + 11 filtered"
    )
    assert not Balance(100, 5, 61, 7, 8, 10, 9, 11)
    wrong = Balance(10, 0, 11, -1, 0, 0, 0, 0, ("1 rows were counted that never arrived",))
    assert not wrong.holds and str(wrong).endswith("; 1 rows were counted that never arrived")


def operator(name="counts", **more):
    values = {
        "threads": 2, "max_threads": 4, "added": 10, "processed": 8, "results": 3, "updates": 20, "comparisons": 0,
        "watermark": 7, "depth_tuples": 2, "live_keys": 5, "state_bytes": 100, "busy_share": [0.5, 0.25],
        "load": [12, 8], "imbalance_cv": 0.2, "imbalance_max_mean": 1.2,
        "latency_ms": {"p50": 1.0, "p99": 2.0, "max": 3.0}, "seconds": 2.0, "watermark_gap": {"left": 0, "right": 4},
        "holds_back": "right", "bucket_load": [20] + [0] * 1023, "balance": Balance(10, 0, 8, 0, 2, 0, 0, 0),
    }  # fmt: skip
    return OperatorMetrics(name=name, **(values | more))


def test_example_a_snapshot_as_a_table_and_as_json():
    metrics = Metrics("running", 2.0, 10, 3, operators={"counts": operator(), "next": operator("next", threads=1)})
    frame = metrics.to_pandas().set_index("operator")
    assert list(frame.index) == ["counts", "next"] and list(frame["threads"]) == [2, 1]
    row = frame.loc["counts"]
    assert (row["in_flight"], row["input_per_s"], row["output_per_s"]) == (2, 5.0, 1.5)
    assert (row["latency_p99_ms"], row["gap_right"], row["holds_back"]) == (2.0, 4, "right")
    assert row["balance"] == "10 arrived = 8 processed + 2 in flight" and row["balance_holds"]
    plain = json.loads(json.dumps(metrics.to_dict()))
    assert plain["operators"]["counts"]["balance"] == {
        "arrived": 10, "gained": 0, "processed": 8, "waiting": 0, "in_gate": 2, "dropped": 0, "set_aside": 0,
        "filtered": 0, "faults": [], "in_flight": 2, "holds": True,
    }  # fmt: skip
    assert sum(plain["operators"]["counts"]["bucket_load"]) == 20
    assert metrics.holds and metrics.input_per_s == 5.0 and Metrics("running", 0.0, 0, 0).output_per_s == 0.0
    metrics.operators["next"].balance = Balance(10, 0, 8, 0, 1, 0, 0, 0)
    assert not metrics.holds
