"""What a pipeline measures: the declarations from which metrics, history, report and dashboard are made."""

from __future__ import annotations

from headrace.metrics.measures import (
    ADDED,
    HOLDS_BACK,
    LATENCY,
    LOST_WAKEUPS,
    PROCESSED,
    RESULTS,
    WATERMARK_GAP,
    WORK,
    WORK_VARIATION,
    WORKER_TIME,
    Measure,
)

PROCESSING = Measure(
    "processing", "ns", "From the first stage to the exit, of results, since the start.", "histogram",
    label="processing latency",
)  # fmt: skip
"""The paper's processing latency; `LATENCY` is end to end, from the arrival of the tuple."""
TAKEN = Measure("taken", "tuples", "Tuples that each stage has run.", "counter", by="stage", shown="column")
BACKLOG = Measure("backlog", "tuples", "Tuples that wait before each stage.", by="stage")
WAITING = Measure("waiting", "tuples", "Tuples in or after each stage whose outputs are not yet passed on.", by="stage")
AT_WORK = Measure("at_work", "workers", "Workers at each stage just now.", by="stage", label="workers")
STAGE_TIME = Measure("stage_time", "microseconds of work", "Worker time of each stage.", "counter", by="stage", label="time")
COST = Measure("cost", "ns per tuple", "Recent cost of a tuple at each stage.", by="stage", shown="column")
SELECTIVITY = Measure(
    "selectivity", "outputs per tuple", "Outputs of a tuple at each stage, since the start.", by="stage", shown="column"
)
DELEGATED = Measure(
    "delegated", "tuples", "Tuples that one worker claimed and another ran, since it held their bucket.", "counter",
    by="stage", share_of="taken", shown="column",
)  # fmt: skip
DECISIONS = Measure(
    "decisions", "decisions", "How often a worker chose a stage.", "counter", rate="decisions_per_s", shown="column"
)
FALLBACKS = Measure(
    "fallbacks", "decisions", "Of these, how often the chosen stage had no work, and the last stage with work was taken.",
    "counter", rate="fallbacks_per_s", shown="column",
)  # fmt: skip
STATE_BYTES = Measure("state_bytes", "bytes", "Memory of the stages' states.", shown="column")

MEASURES = (
    PROCESSED, LATENCY, PROCESSING, ADDED, RESULTS, DECISIONS, FALLBACKS, WORK_VARIATION, STATE_BYTES, LOST_WAKEUPS, HOLDS_BACK,
    WATERMARK_GAP, WORK, *WORKER_TIME, TAKEN, BACKLOG, WAITING, AT_WORK, STAGE_TIME, COST, SELECTIVITY, DELEGATED,
)  # fmt: skip
"""In the order in which histories show them."""
