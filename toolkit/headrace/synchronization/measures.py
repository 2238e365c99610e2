"""What a program measures: the declarations from which metrics, history, report and dashboard are made."""

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

# Nodes change with the plan: their measures are of the present only, and the plan's drawing shows them.
EVENTS = Measure("events", "events", "Events that each node has processed under this plan.", by="node", shown="snapshot")
BACKLOG = Measure("backlog", "events", "Events that wait in each node's mailboxes.", by="node", shown="snapshot")
NODE_TIME = Measure(
    "node_time", "microseconds of work", "Worker time in which each node processed events, under this plan.", by="node",
    shown="snapshot",
)  # fmt: skip
NODE_JOINS = Measure(
    "node_joins", "joins", "How often each node's children were joined under this plan.", by="node", shown="snapshot"
)  # fmt: skip
NODE_STAYS = Measure(
    "node_stays", "turns", "How often each node's state stayed joined under this plan.", by="node", shown="snapshot"
)  # fmt: skip
WAITS_FOR = Measure(
    "waits_for", "", "What each node waits for just now: another node, an input by its tags, or a thread.", "text", by="node",
    shown="snapshot",
)  # fmt: skip
TAG_EVENTS = Measure(
    "tag_events", "events", "Events of each implementation tag that were processed; of those of one input, as they came.",
    "counter", by="tag", shown="snapshot",
)  # fmt: skip
JOINS = Measure("joins", "joins", "How often states were joined.", "counter", rate="joins_per_s", shown="column")
FORKS = Measure("forks", "forks", "How often a state was forked.", "counter", shown="column")
STAYS = Measure(
    "stays", "turns",
    "How often a state stayed joined until its node's next event, with the events in between processed on it, since a fork and "
    "a join would have cost more.", "counter", shown="snapshot",
)  # fmt: skip
COPIED = Measure(
    "copied_bytes", "bytes", "Bytes of states that forks and joins have moved.", "counter", rate="copied_bytes_per_s",
)  # fmt: skip
SPARED = Measure(
    "spared_bytes", "bytes",
    "Bytes of states that stayed in place: joined there, or of other keys than the event's.", "counter",
)  # fmt: skip
RESTS_IN_VAIN = Measure(
    "rests_in_vain", "rests", "How often leaves came to rest for an event that could not be processed yet.", "counter",
    shown="column",
)  # fmt: skip
STATE_BYTES = Measure("state_bytes", "bytes", "Memory of the nodes' states.", shown="column")

MEASURES = (
    PROCESSED, LATENCY, ADDED, RESULTS, JOINS, FORKS, STAYS, COPIED, SPARED, RESTS_IN_VAIN, WORK_VARIATION, STATE_BYTES,
    LOST_WAKEUPS, HOLDS_BACK, WATERMARK_GAP, WORK, *WORKER_TIME, EVENTS, BACKLOG, NODE_TIME, NODE_JOINS, NODE_STAYS, WAITS_FOR,
    TAG_EVENTS,
)  # fmt: skip
"""In the order in which histories show them."""
