"""What the elasticity experiments are built of: sizes by the paper's rule, live event times, plain answers, figures.

Oracle: the paper's Table IV, `headrace.reference`, and sums written out by hand. The experiments themselves run in
`test_experiments`. Cannot see: whether what is measured means anything on the machine at hand.
"""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from headrace.control.quality import quality
from headrace.controllers import DecisionLog
from headrace.reference import apps as reference
from headrace_bench import kept
from headrace_bench.experiments import live_stream, q4, q5, q6


def test_example_provisioning_gives_table_iv():
    assert [q4.after_provisioning(n) for n in (1, 5, 9, 18, 30, 40)] == [2, 9, 16, 31, 52, 69]


@pytest.mark.parametrize("threads", range(1, 100))
def test_sizes_are_the_fewest_that_keep_to_the_target(threads):
    for after, load in ((q4.after_provisioning(threads), 12), (q4.after_decommissioning(threads), 3)):
        assert load * threads <= 7 * after  # in tenths: 7 * 1.2 / 0.7 is 12, and not a rounding error more
        assert load * threads > 7 * (after - 1)


def test_example_times_follow_the_rates():
    """Two a second for a second, none for half of one, four a second for half of one."""
    assert live_stream.due_times([(1.0, 2.0), (0.5, 0.0), (0.5, 4.0)]).tolist() == [0, 500_000, 1_500_000, 1_750_000]


def test_example_desired_threads_of_a_rate():
    """At 100 t/s of each side, and 2 s, 40,000 comparisons a second: a thread that makes 20,000 may make 16,000 of them."""
    assert [q5.desired_threads(rate, 2.0, 20_000, 8) for rate in (10, 63, 64, 100, 1_000)] == [1, 1, 2, 3, 8]
    line = q5.desired_line([(10.0, 10.0), (5.0, 100.0), (1.0, 64.0)], 2.0, 20_000, 8)
    assert list(line.x) == [0.0, 10.0, 10.0, 12.0, 15.0, 15.0, 16.0, 16.0, 16.0]
    assert [line.y[i] for i in (0, 1, 3, 4, 6, 7)] == [1, 1, 3, 3, 2, 2] and all(math.isnan(each) for each in line.y[2::3])
    times = np.array([-1.0, 5.0, 11.0, 12.0, 14.0, 15.5])
    assert str(q5._at(line, times)) == "[nan, 1.0, nan, 3.0, 3.0, nan]"


def test_rate_makes_the_comparisons():
    rate = live_stream.rate_for(8e9, 5.0)
    assert 2 * rate * (rate * 5.0) == pytest.approx(8e9)  # tuples of both sides x a window of the other


def test_oracle_plain_band_join_is_the_reference():
    """Few values, so that many pairs match; WS short, so that many do not; times that are equal."""
    rng = np.random.default_rng(7)
    n, size_s = 300, 0.02
    times = {side: np.sort(rng.integers(0, 60, n)) * 1_000 for side in ("left", "right")}
    left = pa.table({
        "ts": pa.array(times["left"]).cast(pa.timestamp("us")),
        "x": rng.integers(1, 40, n, dtype=np.int32),
        "y": rng.uniform(1, 40, n).astype(np.float32),
    })
    right = pa.table({
        "ts": pa.array(times["right"]).cast(pa.timestamp("us")),
        "a": rng.integers(1, 40, n, dtype=np.int32),
        "b": rng.uniform(1, 40, n).astype(np.float32),
        "c": rng.random(n),
        "d": rng.random(n) < 0.5,
    })
    sources = [
        [list(zip(times[side].tolist(), table.to_pylist(), strict=True))]
        for side, table in (("left", left), ("right", right))
    ]
    wanted = reference.scalejoin(*sources, live_stream.WIDTH, "20ms", "us")
    assert 1_000 < len(wanted) < n * n / 4
    assert live_stream.plain_band_join(left, right, size_s) == sorted((m["ts"], m["x"], m["c"]) for m in wanted)


def test_oracle_demand_counts_each_pair_twice():
    rng = np.random.default_rng(7)
    times = np.sort(rng.integers(0, 900, 500)) * 100_000  # some are just WS apart
    wanted = np.zeros(int((times[-1] - times[0]) // 1_000_000) + 1, np.int64)
    for i, later in enumerate(times):
        pairs = sum(later - earlier < q6.SIZE_S * 1_000_000 for earlier in times[:i])
        wanted[(later - times[0]) // 1_000_000] += 2 * pairs
    assert q6.demand(times).tolist() == wanted.tolist()


def test_example_worst_stretch():
    due_s, latency_ms = np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 5.0, 3.0, 1.0])
    assert q6.worst_stretch(due_s, latency_ms, 2.0) == (1.0, 4.0)
    assert q6.worst_stretch(due_s, latency_ms, 10.0) == (0.0, 2.5)  # the run is shorter


def test_example_q6_shows_the_spread_of_its_latency_and_zooms_in():
    """Figure 13: from each second's mean a box of the whole run, of the view around the highest rate and of the worst stretch.

    The view is drawn once more, by itself; in the kept figures, too.
    """
    run = played([0.2, 0.7, 1.5, 2.5, 3.5], [1.0, 3.0, 9.0, 4.0, 1.0], [0.0, 1.4], [1, 2], 4.0)
    run.history["comparisons_per_s"] = 0.0
    rates = np.array([2, 1, 1, 5])
    drawn = q6._figures(run, rates, rates, 4.0)
    assert [(box.name, box.mean) for box in drawn[4].boxes] == [("whole run", 4.0), (q6.NEAR, 2.5), ("worst 2 s", 6.5)]
    _, threads, _, latency = drawn[5:]
    assert (threads.lines[0].x, threads.lines[0].y) == ([2, 4.0], [2, 2])
    assert (latency.lines[0].x, latency.lines[0].y) == ([2.5, 3.5], [4.0, 1.0])
    shown = kept("q6").experiment.figures
    assert [f.title for f in shown if f.boxes] == ["Latency, spread", "time work: latency, spread"]
    assert [f.title for f in shown if f.title.endswith(q6.NEAR)] == [
        f"{mark}{name} {q6.NEAR}" for mark, names in (("", FOUR), ("time work: ", map(str.lower, FOUR))) for name in names
    ]


FOUR = ("Input rate", "Threads", "Throughput", "Latency")
"""The panels of Figure 13."""


def played(due_s, latency_ms, threads_s, threads, seconds):
    return live_stream.Played(
        pd.DataFrame({"seconds": [seconds / 2, seconds]}),
        np.array(due_s),
        np.array(latency_ms),
        threads_s,
        threads,
        [],
        quality([]),
        DecisionLog(),
        0,
    )


def test_example_latency_and_threads_over_time():
    """Nothing is due in the second interval: it leaves a gap, and counts neither as within the target nor as outside."""
    run = played([0.0, 0.5, 2.0, 2.5], [10.0, 20.0, 30.0, 50.0], [0.0, 1.0], [1, 3], 3.0)
    x, means, slow = run.latencies(1.0)
    assert x.tolist() == [0.5, 1.5, 2.5]
    assert means[[0, 2]].tolist() == [15.0, 40.0] and math.isnan(means[1]) and math.isnan(slow[1])
    assert run.within(25.0, 1.0) == 0.5
    assert run.mean_threads == pytest.approx((1 * 1 + 2 * 3) / 3)
    line = run.threads_line("threads", since_s=1.0)
    assert (line.x, line.y, line.steps) == ([-1.0, 0.0, 2.0], [1.0, 3.0, 3.0], True)


@pytest.mark.slow
def test_example_what_is_sustained_by_a_run_that_is_over_in_a_moment():
    """There is no sample, or one, with full windows: of a busy machine as of a quick one."""
    for guess in (1e4, 1e6):
        assert 0 < live_stream.sustainable_comparisons(0.1, 1, guess) < 1e12


def test_example_q5_shows_every_seed_over_time():
    """As Figures 16 to 19 of Appendix F do; and work in a unit that can be seen beside the threads."""
    figures = kept("q5").experiment.figures
    assert [f.title for f in figures if "hreads" in f.title] == ["Threads", "Threads, seed 8", "time work: threads"]
    assert [f.y_label for f in figures if "hroughput" in f.title] == ["G comparisons/s", "G comparisons/s", "M comparisons/s"]
