"""Latency: what the histogram makes of durations, and from when to when a run counts.

Oracle      numpy's quantiles of the same durations; the clock beside a sink that waits
Planted     a latency from the first tuple of a window on
Cannot see  the largest duration of an interval, but within its bin
"""

import math
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.metrics.latency import LatencyHistogram
from support.books import assert_found
from support.workloads import Steered, eventually

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


def test_example_the_largest_is_given_with_the_counts():
    """Of counts alone the largest is known within its bin."""
    histogram = LatencyHistogram()
    histogram.add(np.array([1_000, 1_234_567]))
    again = LatencyHistogram(histogram.counts(), histogram.largest_ns)
    assert again.summary() == histogram.summary() and again.max_ms == 1.234567
    within = LatencyHistogram(histogram.counts()).max_ms
    assert within != 1.234567 and within == pytest.approx(1.234567, rel=WITHIN**2 - 1)


# -- of a run ----------------------------------------------------------------------------------------


def latency_of_two_results():
    """A window that waits half a second for the tuple that closes it, and a result that waits for the sink."""
    source = Steered(pa.table({"ts": [0, 1, 2, 10, 20], "k": ["a"] * 5}), [3, 1, 1])
    is_taken, may_go_on = threading.Event(), threading.Event()

    def sink(batch):
        is_taken.set()
        assert may_go_on.wait(180)

    query = hr.stream(source, event_time="ts").key_by("k").window(10).aggregate("counts", n=hr.count())
    with query.start(threads=1, sink=sink) as run:
        try:
            source.let()
            eventually(lambda: run.metrics().operators["counts"].processed == 3)
            time.sleep(0.5)
            before = time.monotonic()
            source.let()
            assert is_taken.wait(180)
            at_most = time.monotonic() - before
            first = run.metrics().operators["counts"].latency_ms["max"]
            source.let()
            eventually(lambda: run.metrics().operators["counts"].processed == 5)
            since = time.monotonic()
            time.sleep(0.3)
            at_least = time.monotonic() - since
        finally:
            may_go_on.set()
            source.let_all()
        assert run.wait(180)
        second = run.metrics().operators["counts"].latency_ms["max"]
    # Bins of the histogram are a few per cent wide.
    assert 0 < first <= 1e3 * at_most * 1.1 + 0.1, "not from the tuple that made the result ready"
    assert second >= 1e3 * at_least * 0.9, "not until the result is given out"


def test_example_latency_is_from_the_tuple_that_made_a_result_ready():
    latency_of_two_results()


MISTAKES = {
    "latency from the first tuple of a window on": (
        latency_of_two_results,
        [("l[ARRIVAL] = g.out_at[row, start + i]", "l[ARRIVAL] = g.out_at[row, 0]")],
        "not from the tuple",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistake_is_found(monkeypatch, hangs_are_short, mistake):
    assert_found(monkeypatch, *MISTAKES[mistake])
