"""What O+ measures: the declarations behind metrics, history, report, Prometheus and dashboard."""

from __future__ import annotations

from headrace.metrics.by_worker import load_peak, load_variation
from headrace.metrics.measures import (
    ADDED,
    BUCKET_LOAD,
    HOLDS_BACK,
    LATENCY,
    LOAD,
    LOST_WAKEUPS,
    PROCESSED,
    RESULTS,
    WATERMARK,
    WATERMARK_GAP,
    WORKER_TIME,
    Measure,
)

UPDATES = Measure(
    "updates", "updates", "Updates of window instances; of a join: stored tuples visited.", "counter",
    rate="updates_per_s", shown="column",
)  # fmt: skip
"""(key, window) updates, of all instances."""
COMPARISONS = Measure(
    "comparisons", "pairs", "Pairs a join has looked at.", "counter", rate="comparisons_per_s", shown="column"
)

IMBALANCE_CV = Measure(
    "imbalance_cv", "fraction", "Coefficient of variation of the instances' loads, a fraction.", label="imbalance (cv)",
    shown="figure", between=load_variation,
)  # fmt: skip
"""In a snapshot: of each configuration by itself, weighted by the load during it."""
IMBALANCE_MAX_MEAN = Measure(
    "imbalance_max_mean", "ratio", "Largest load over the mean of all instances.", shown="column",
    between=load_peak,
)  # fmt: skip

DEPTH_MS = Measure(
    "depth_ms", "ms", "Work in the gate, for the slowest instance.", shown="column", exported="depth_milliseconds"
)
"""At that instance's recent speed."""
LIVE_KEYS = Measure("live_keys", "keys", "Keys in the dictionary.", shown="column")
LIVE_WINDOWS = Measure("live_windows", "windows", "Window instances; of a join: tuples it stores.", shown="column")
"""An estimate from 16,384 places on."""
STATE_BYTES = Measure("state_bytes", "bytes", "Estimated memory of the state.", shown="column")
"""Of the window instances; of a join: of the tuples it stores."""

FILTERED = Measure("filtered", "rows", "Rows removed by filters.", "counter", shown="column")
NULL_KEYS = Measure("null_keys", "keys", "Null keys ignored by policy.", "counter", shown="column")
"""Their tuples were added all the same."""

# BUCKET_LOAD is sampled (`headrace.elastic.loads`): its sum is never more than `load`, and less by at most half a millisecond's
# work of each instance.

DUPLICATION = Measure(
    "duplication", "copies", "Copies made of each tuple, for the instances that own one of its keys.", shown="snapshot"
)
"""1 under VSN: all instances read the same tuple."""
TRANSFERRED_BYTES = Measure(
    "transferred_bytes", "bytes", "State moved between instances by reconfigurations.", "counter", shown="snapshot"
)
BARRIER = Measure(
    "barrier_ns", "ns", "Part of the blocked time: waiting for other workers at a reconfiguration.", "counter", by="worker",
    shown="snapshot",
)  # fmt: skip
TRANSFERRED_NS = Measure(
    "transferred_ns", "ns", "Time spent moving state between instances.", "counter", shown="snapshot"
)
"""As TRANSFERRED_BYTES, 0 under VSN."""
LATEST_LATENCY = Measure(
    "latest_latency", "ns", "Emission minus arrival of the latest tuple in the result.", "histogram", shown="snapshot"
)
"""The papers' latency. Given for joins and `forward`, where the latest tuple is the one that made the result ready. Not given
for windows: each update would have to write the time of arrival beside the value, 8 bytes more for each key and window, where
a whole count takes 4."""

MEASURES = (
    PROCESSED,
    LATENCY,
    ADDED,
    RESULTS,
    UPDATES,
    COMPARISONS,
    IMBALANCE_CV,
    IMBALANCE_MAX_MEAN,
    DEPTH_MS,
    LIVE_KEYS,
    LIVE_WINDOWS,
    STATE_BYTES,
    FILTERED,
    NULL_KEYS,
    LOST_WAKEUPS,
    HOLDS_BACK,
    WATERMARK_GAP,
    LOAD,
    *WORKER_TIME,
    BUCKET_LOAD,
    WATERMARK,
    BARRIER,
    DUPLICATION,
    TRANSFERRED_BYTES,
    TRANSFERRED_NS,
    LATEST_LATENCY,
)
"""In the order in which histories show them."""
