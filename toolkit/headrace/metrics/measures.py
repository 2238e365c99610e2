"""The measures of an operator, declared once by its engine.

Snapshots, history, reports, Prometheus and the dashboard are made from these
declarations. Measures that operators of every engine have are declared here, so
that they mean the same for all; so are measures that a controller or the
bottleneck sentence uses where an engine has them. No shared module refers to
another measure of an engine by name, except the dashboard, to draw what only one engine has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.errors import ParameterError
from headrace.metrics.by_worker import load_variation

KINDS = ("counter", "gauge", "histogram", "text")
BY = (None, "worker", "source", "bucket", "stage", "node", "tag", "size")
SHOWN = ("snapshot", "column", "figure", "plot")
"""Where a measure is shown; each level includes those before it."""

QUANTILES = ("p50", "p99", "max")

RESERVED = frozenset((
    "name", "threads", "max_threads", "members", "seconds", "balance", "measures", "values", "largest_ns",
    "in_flight", "depth_tuples", "stages", "counts", "histogram", "measure", "to_dict", "to_row",
    "tuples_in", "tuples_out", "dropped", "set_aside", "rate", "balance_holds",
))  # fmt: skip
"""Names that every operator or run has beside its measures."""


@dataclass(frozen=True)
class Measure:
    """One thing that an operator measures.

    Parameters
    ----------
    name : str
        Key in `OperatorMetrics.values`, attribute of `OperatorMetrics`, column of the history.
    unit : str
        "tuples", "ns", "bytes", "fraction", ...; in the plural.
    title : str
        One sentence that explains it.
    kind : {"gauge", "counter", "histogram", "text"}
        A counter only grows. A histogram is of durations in nanoseconds: its value is the counts of a
        `LatencyHistogram`, int64[1024], or None if nothing can be counted. A text is a few words, or None.
    by : {None, "worker", "source", "bucket", "stage", "node", "tag", "size"}
        There is one number for each of these: a list, or by "source" a dict by name. None: one number in all. By "size":
        the number of occurrences by size class, a dict by the least size of each class: {1: 7, 2: 0, 4: 3}.
    rate : str
        For a counter in all, the name of its difference per second, such as "tuples_per_s", which the history has in
        place of the total.
    part_of : str
        For counters by something that together make a whole ("time": busy, idle, blocked): its name. The history has
        the share of each.
    share_of : str
        For a counter by stage, the name of another counter, of which it counts a part. Boxes of stages show the share.
    label : str
        A word or two for legends, axes and figures; by default the name. If it is an identifier,
        the columns by worker or source begin with it, too.
    shown : {"plot", "figure", "column", "snapshot"}
        The highest level at which it is shown: a plot of its own in reports; a figure in their closing table; a column of
        the history and a family of Prometheus; or snapshots only.
    exported : str
        Name of its family in Prometheus, without prefix, if it differs from the name.
    between : callable, optional
        ``between(now, then)`` returns the value of a gauge or text for the interval between two `OperatorMetrics`, if
        it differs from the value at the end; ``then`` is None at the beginning.

    Raises
    ------
    ParameterError
        The parameters do not go together.

    Examples
    --------
    >>> rejected = Measure("rejected", "transactions", "Transactions that were rejected.", "counter", rate="rejected_per_s")
    >>> rejected.columns, rejected.derived, rejected.word
    (('rejected_per_s',), 'rejected_per_s', 'rejected')
    >>> Measure("wait", "ns", "From punctuation to punctuation.", "histogram").columns
    ('wait_p50_ms', 'wait_p99_ms', 'wait_max_ms')
    """

    name: str
    unit: str
    title: str
    kind: str = "gauge"
    by: str | None = None
    rate: str = ""
    part_of: str = ""
    share_of: str = ""
    label: str = ""
    shown: str = "plot"
    exported: str = ""
    between: Callable[[Any, Any], Any] | None = None

    def __post_init__(self):
        for given, allowed, what in ((self.kind, KINDS, "kind"), (self.by, BY, "by"), (self.shown, SHOWN, "shown")):
            if given not in allowed:
                raise ParameterError(f"Measure({self.name!r}, {what}={given!r}): give one of {allowed}")
        is_counter = self.kind == "counter"
        wrong = ""
        if not self.name.isidentifier() or self.name in RESERVED:
            wrong = "every operator has that already, or it is not a Python name: give another name"
        elif self.rate and (not is_counter or self.by is not None):
            wrong = "only a counter in all has a rate= by name"
        elif self.part_of and (not is_counter or self.by is None):
            wrong = "only counters by something are part_of= a whole"
        elif self.share_of and (not is_counter or self.by != "stage"):
            wrong = "only a counter by stage is share_of= another"
        elif self.kind == "histogram" and (self.by is not None or self.unit != "ns"):
            wrong = "a histogram is one in all, and of durations in ns"
        elif self.between is not None and (self.kind not in ("gauge", "text") or self.by is not None):
            wrong = "only a gauge or a text in all has between="
        if wrong:
            raise ParameterError(f"Measure({self.name!r}, kind={self.kind!r}, by={self.by!r}): {wrong}")

    @property
    def word(self) -> str:
        """Its name in legends."""
        return self.label or self.name

    @functools.cached_property
    def prefix(self) -> str:
        """The text before the number or name in columns by worker or source: ``load_0``."""
        return self.label if self.label.isidentifier() else self.name

    @functools.cached_property
    def derived(self) -> str:
        """Name of the snapshot attribute that is computed from it; empty if there is none."""
        if self.kind == "histogram":
            return f"{self.name}_ms"
        return f"{self.prefix}_share" if self.part_of else self.rate

    @functools.cached_property
    def columns(self) -> tuple[str, ...]:
        """Its columns in the history, if there is one number in all."""
        if self.by is not None:
            return ()
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}_ms" for part in QUANTILES)
        return (self.rate or self.name,)

    def columns_by(self, value: Any) -> tuple[str, ...]:
        """Its columns if there is one number for each worker, source and so on; `value` is that of a snapshot."""
        return tuple(f"{self.prefix}_{key}" for key in keys_of(value))

    def goes_to(self, place: str) -> bool:
        """Whether it is shown in a "snapshot", as a "column", as a "figure", as a "plot"."""
        return self._goes_to[place]

    @functools.cached_property
    def _goes_to(self) -> dict[str, bool]:
        return {place: SHOWN.index(self.shown) >= SHOWN.index(place) for place in SHOWN}


def keys_of(value: Any) -> list[Any]:
    """The keys of a value by something: names, or numbers from 0."""
    return list(value) if isinstance(value, dict) else list(range(len(value)))


ADDED = Measure(
    "added", "tuples", "Tuples that entered the operator's gate.", "counter", rate="input_per_s", shown="column"
)
PROCESSED = Measure(
    "processed", "tuples", "Tuples that every active instance has passed.", "counter", rate="tuples_per_s", shown="column"
)
RESULTS = Measure("results", "results", "Results given.", "counter", rate="output_per_s", shown="column")
NEEDED = (PROCESSED, ADDED, RESULTS)
"""What every operator measures."""

LATENCY = Measure("latency", "ns", "Of results, since the start.", "histogram", label="latency of results")
WORK = Measure("load", "microseconds of work", "Work of each worker.", "counter", by="worker", exported="worker_load")
"""The load of an engine whose workers do not own keys."""
WORK_VARIATION = Measure(
    "imbalance_cv", "fraction", "Coefficient of variation of the workers' working time.", label="imbalance (cv)",
    shown="figure", between=load_variation,
)  # fmt: skip
LOAD = Measure("load", "updates", "Load of each worker.", "counter", by="worker", exported="worker_load")
BUSY = Measure(
    "busy_ns", "ns", "Working.", "counter", by="worker", part_of="time", label="busy", shown="column"
)
IDLE = Measure(
    "idle_ns", "ns", "Waiting for input.", "counter", by="worker", part_of="time", label="idle", shown="column"
)
BLOCKED = Measure(
    "blocked_ns", "ns", "Waiting for room, or for other workers.", "counter",
    by="worker", part_of="time", label="blocked", shown="column",
)  # fmt: skip
WORKER_TIME = (BUSY, IDLE, BLOCKED)
"""How each worker spent the time it was active, what it does just now included."""

LOST_WAKEUPS = Measure(
    "lost_wakeups", "sleeps",
    "Sleeps ended only by their time-out although a wake-up was due: 0, unless threads stall for a second.", "counter",
    shown="column",
)  # fmt: skip
"""Of its sources for room and of its collector for results. A sleeper that is owed a wake-up waits a second more: so a waker that
lost its core before it signalled is not counted. Any others are a mistake in the engine, which costs time only."""

WATERMARK_GAP = Measure(
    "watermark_gap", "units of event time", "Event time behind the furthest source.",
    by="source", label="gap", shown="column",
)  # fmt: skip
HOLDS_BACK = Measure(
    "holds_back", "source", "The source that the others wait for, if one is behind.", "text", shown="column"
)

BUCKET_LOAD = Measure("bucket_load", "updates", "Load of each of the mapping's 1,024 buckets.", "counter", by="bucket")
"""Of an engine whose workers own keys."""
WATERMARK = Measure("watermark", "units of event time", "Event time up to which results are out.", shown="snapshot")
"""Of one whose results are of windows."""
SYNCHRONIZATION = Measure(
    "synchronization_ns", "ns", "Waiting for other executors, between the phases of a batch.", "counter", by="worker",
    part_of="breakdown", label="synchronization", shown="plot",
)  # fmt: skip
"""Of one whose workers wait for each other: a thread that does takes no tuple either."""
