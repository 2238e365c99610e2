"""Method: two snapshots with known numbers, and what the columns make of them.

What this cannot see: whether an engine's own numbers are right.
"""

import math

import numpy as np
import pytest

from headrace.metrics.latency import LatencyHistogram
from headrace.metrics.measures import NEEDED, Measure
from headrace.metrics.snapshot import OperatorMetrics
from headrace_widgets.columns import MOST_DRAWN, OperatorColumns, unit_of
from headrace_widgets.units import OF_A_CORE, amount, in_words

KEPT = {"added": 0, "processed": 0, "results": 0}


def snapshot(measures, values, members=(0,)):
    return OperatorMetrics("op", len(members), 4, list(members), 1.0, None, (*NEEDED, *measures), KEPT | values)


def row(measure, now, then, members=(0,), before=(0,), seconds=0.5):
    """The columns of one measure between two snapshots."""
    measures = measure if isinstance(measure, tuple) else (measure,)
    names = [one.name for one in measures]
    now, then = (value if isinstance(measure, tuple) else (value,) for value in (now, then))
    new = snapshot(measures, dict(zip(names, now, strict=True)), members)
    old = snapshot(measures, dict(zip(names, then, strict=True)), before)
    columns = OperatorColumns(old)
    values = dict(zip(columns.names, columns.row(new, old, seconds), strict=True))
    return {name: value for name, value in values.items() if name not in ("input_per_s", "tuples_per_s", "output_per_s")}


def is_nothing(value):
    return math.isnan(value)


def test_example_a_counter_is_a_rate():
    assert row(Measure("hits", "tuples", "Hits.", "counter", rate="hits_per_s"), 30, 10) == {"hits_per_s": 40}
    assert row(Measure("hits", "tuples", "Hits.", "counter"), 30, 10) == {"hits_per_s": 40}


def test_example_a_word_is_read_by_itself_and_a_symbol_with_its_prefix():
    assert (amount(29_300, "events"), amount(29_300, "B"), amount(12, "events")) == ("29.3 k events", "29.3 kB", "12 events")
    assert (in_words(4_200, "ns"), in_words(176_600, "ns")) == ("4,200 ns", "0.177 ms")


def test_example_a_gauge_is_what_it_is():
    gauge = Measure("size", "bytes", "Size.")
    assert row(gauge, 7, 3) == {"size": 7}
    assert is_nothing(row(gauge, None, 3)["size"])
    assert row(Measure("pause", "ns", "Pause."), 2_000_000, 0) == {"pause_in_ms": 2.0}


def test_example_a_gauge_of_an_interval_says_nothing_where_threads_came_or_went():
    grown = Measure("gap", "tuples", "Gap.", between=lambda now, then: now.values["gap"] - then.values["gap"])
    assert row(grown, 7, 3) == {"gap": 4}
    assert is_nothing(row(grown, 7, 3, members=(0, 1))["gap"])


def test_example_one_column_for_each_stage_worker_source():
    stages = Measure("queue", "tuples", "Queue.", by="stage")
    assert row(stages, [1, 2], [0, 0]) == {"queue_0": 1, "queue_1": 2}
    found = row(stages, [1], [0, 0])  # the last one has gone
    assert found["queue_0"] == 1 and is_nothing(found["queue_1"])
    workers = Measure("load", "updates", "Load.", "counter", by="worker")
    assert row(workers, [30, 5], [10, 5]) == {"load_0": 40, "load_1": 0}
    work = Measure("load", "microseconds of work", "Work.", "counter", by="worker")
    assert row(work, [300_000, 0], [50_000, 0]) == {"load_0_of_a_core": 0.5, "load_1_of_a_core": 0.0}
    assert unit_of(work) == OF_A_CORE and in_words(0.5, OF_A_CORE) == "50% of a core"
    sources = Measure("watermark_gap", "ms", "Gap.", by="source", label="gap")
    assert row(sources, {"a": 3, "b": 0}, {"a": 0, "b": 0}) == {"gap_a": 3, "gap_b": 0}
    assert len(row(stages, list(range(99)), [0] * 99)) == MOST_DRAWN


def test_example_parts_of_a_whole_are_shares():
    parts = tuple(
        Measure(f"{word}_ns", "ns", "Time.", "counter", by="worker", part_of="time", label=word)
        for word in ("work", "wait")
    )
    found = row(parts, ([30, 5], [20, 5]), ([0, 5], [10, 5]))
    assert found == {"work_0": 0.75, "work_1": 0.0, "wait_0": 0.25, "wait_1": 0.0}


def test_example_a_histogram_is_two_quantiles_of_what_came_lately():
    measure = Measure("wait", "ns", "Wait.", "histogram")
    histogram = LatencyHistogram()
    counts = [histogram.counts()]
    for _ in range(2):
        histogram.add(np.array([1_000_000] * (len(counts) * 98) + [64_000_000] * 2))
        counts.append(histogram.counts())
    old, new, newest = (snapshot((measure,), {"wait": one}) for one in counts)
    columns = OperatorColumns(old)
    p50, p99 = columns.names.index("wait_p50_ms"), columns.names.index("wait_p99_ms")
    for then, now in ((old, new), (new, newest)):
        values = columns.row(now, then, 0.5)
        assert values[p50] == pytest.approx(1, rel=0.05)
    assert values[p99] == pytest.approx(64, rel=0.05)
    assert columns.row(newest, newest, 0.5)[p50] == values[p50]  # nothing came: as before
    nothing = snapshot((measure,), {"wait": None})
    assert is_nothing(OperatorColumns(nothing).row(nothing, nothing, 0.5)[p50])


def test_example_texts_buckets_and_what_is_for_snapshots_only_have_no_columns():
    hidden = (
        Measure("word", "words", "Word.", "text"),
        Measure("bucket_load", "updates", "Load.", "counter", by="bucket"),
        Measure("watermark", "ms", "Watermark.", shown="snapshot"),
    )
    assert row(hidden, ("a", [0] * 4, 7), ("b", [0] * 4, 5)) == {}
