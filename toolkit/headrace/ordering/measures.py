"""What a pipeline measures: the declarations from which metrics, history, report and dashboard are made.

The two latencies are those of Prasaad, Ramalingam and Rajan, section 2.1: "processing" from the first stage to the exit,
"latency" from the arrival, which their text calls end-to-end. What a stage's schedule needs (section 2.2) is measured too:
cost and selectivity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def busiest_of(spent: Mapping[str, int]) -> tuple[str | None, float]:
    """The stage that took the most time, and its share of the time of all; none, and 0, if there was no work.

    Examples
    --------
    >>> busiest_of({"parse": 100, "match": 300, "count": 0}), busiest_of({"parse": 0})
    (('match', 0.75), (None, 0.0))
    """
    stage = max(spent, key=lambda name: spent[name])
    return (stage, spent[stage] / sum(spent.values())) if spent[stage] > 0 else (None, 0.0)


def _busiest_between(now: Any, then: Any) -> tuple[str | None, float]:
    """The same between two `OperatorMetrics`; `then` is None at the beginning."""
    before = {} if then is None else then.values["stage_time"]
    return busiest_of({stage: time - before.get(stage, 0) for stage, time in now.values["stage_time"].items()})


PROCESSING = Measure(
    "processing", "ns", "From the first stage to the exit, of results, since the start.", "histogram",
    label="processing latency",
)  # fmt: skip
"""The paper's processing latency; `LATENCY` is end to end, from the arrival of the tuple."""
TAKEN = Measure("taken", "tuples", "Tuples that each stage has run.", "counter", by="stage", shown="column")
BACKLOG = Measure("backlog", "tuples", "Tuples that wait before each stage.", by="stage")
WAITING = Measure(
    "waiting", "tuples", "Tuples claimed at each stage and not yet passed on: at work, or their outputs wait for earlier ones.",
    by="stage",
)  # fmt: skip
"""The records that are being run are among them: with idle workers it is what waits in the reorder buffer."""
AT_WORK = Measure("at_work", "workers", "Workers at each stage just now.", by="stage", label="workers")
STAGE_TIME = Measure("stage_time", "microseconds of work", "Worker time of each stage.", "counter", by="stage", label="time")
BUSIEST_STAGE = Measure(
    "busiest_stage", "stage", "The stage that takes the most worker time: since the start, in a history since the row before.",
    "text", label="busiest stage", between=lambda now, then: _busiest_between(now, then)[0],
)  # fmt: skip
BUSIEST_SHARE = Measure(
    "busiest_share", "fraction", "Share of the stages' worker time that the busiest stage takes.",
    label="busiest stage's share", between=lambda now, then: _busiest_between(now, then)[1],
)  # fmt: skip
"""How unevenly the stages use the workers. A stage that only one worker at a time may run holds up n workers once it has more
than one nth of their time."""
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
    PROCESSED, LATENCY, PROCESSING, ADDED, RESULTS, DECISIONS, FALLBACKS, WORK_VARIATION, BUSIEST_STAGE, BUSIEST_SHARE,
    STATE_BYTES, LOST_WAKEUPS, HOLDS_BACK, WATERMARK_GAP, WORK, *WORKER_TIME, TAKEN, BACKLOG, WAITING, AT_WORK, STAGE_TIME, COST,
    SELECTIVITY, DELEGATED,
)  # fmt: skip
"""In the order in which histories show them."""
