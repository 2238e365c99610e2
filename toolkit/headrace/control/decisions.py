"""Decisions of controllers, with their reasons and outcomes."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from headrace.changes import Change
from headrace.newest import MOST_KEPT, Record

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("attached", "request", "held", "error", "released")


@dataclass(eq=False)
class Decision:
    """One entry of the log.

    Parameters
    ----------
    kind : str
        "request": the engine was asked for `change`. "held": a manual reconfiguration keeps the
        controller off, or its request is impossible. "attached", "released" and "error" (its function
        failed, so it was detached).
    at_s : float
        Seconds since the controller was attached; `at_ns` on the monotonic clock.
    operator, controller : str
    reason : str
        One sentence.
    metric, value, threshold : str, float, float
        The metric that decided, its value, and the threshold.
    what : str
        The change: "threads 1 → 4", "batch 100 → 10"; empty if there is none.
    from_threads, to_threads : int or None
        None if the operator's engine does not report its threads.
    buckets_moved : int
    predicted, realised : dict of str to float
        Load, imbalance and so on: as expected, and as measured once the change had settled (empty
        until then).
    change : Change or None
        The reconfiguration, with its `outcome` and `ms`.
    error : BaseException or None
    figures : dict of str to float
        Other numbers that the controller computed, by its own names, such as the "regret" of `AdaptiveScheme`.

    Examples
    --------
    >>> print(Decision("released", 2.5, 0, "counts", "Threshold", "released by hand"))
        2.50 s  Threshold on counts: released by hand
    """

    kind: str
    at_s: float
    at_ns: int
    operator: str
    controller: str
    reason: str
    metric: str = ""
    value: float = math.nan
    threshold: float = math.nan
    what: str = ""
    from_threads: int | None = 0
    to_threads: int | None = 0
    buckets_moved: int = 0
    predicted: dict[str, float] = field(default_factory=dict)
    realised: dict[str, float] = field(default_factory=dict)
    change: Change | None = None
    error: BaseException | None = None
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """What became of the request ("done", "superseded", ...); empty for other kinds."""
        return "" if self.change is None else self.change.outcome

    def __str__(self) -> str:
        text = f"{self.at_s:8.2f} s  {self.controller} on {self.operator}: {self.reason}"
        if self.change is not None:
            text += f" [{self.what}: {self.outcome}"
            text += f", {self.change.ms:.2f} ms" if self.outcome == "done" else ""
            text += "".join(
                f"; {name} predicted {expected:.2f}"
                + (f", was {self.realised[name]:.2f}" if name in self.realised else "")
                for name, expected in self.predicted.items()
            )
            text += "]"
        return text


class DecisionLog(Sequence[Decision]):
    """Decisions, oldest first; any thread may read while others write.

    Parameters
    ----------
    limit : int
        Most decisions kept; older ones are forgotten, and `left_out` says how many.

    Examples
    --------
    >>> log = DecisionLog()
    >>> log.add(Decision("attached", 0.0, 0, "counts", "Threshold", "looks every 0.2 s"))
    >>> len(log), log[0].reason, log.of_kind("request")
    (1, 'looks every 0.2 s', [])
    """

    def __init__(self, limit: int = MOST_KEPT):
        self._lock = threading.Lock()
        self._entries = Record[Decision](limit)

    def add(self, decision: Decision) -> None:
        """Append a decision; the oldest one is forgotten if there are too many."""
        with self._lock:
            self._entries.add(decision)

    @overload
    def __getitem__(self, index: int) -> Decision: ...
    @overload
    def __getitem__(self, index: slice) -> list[Decision]: ...
    def __getitem__(self, index):
        return self._entries.newest()[index]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self):
        return iter(self._entries.newest())

    @property
    def left_out(self) -> int:
        """How many older decisions were forgotten."""
        return self._entries.newest().left_out

    def of_kind(self, kind: str) -> list[Decision]:
        """Entries of one kind, such as "request"."""
        return [decision for decision in self if decision.kind == kind]

    @property
    def prediction_error(self) -> dict[str, float]:
        """Mean distance of predictions from the measured values, by metric, in the metric's unit."""
        misses: dict[str, list[float]] = {}
        for decision in self:
            for name, expected in decision.predicted.items():
                if not math.isnan(decision.realised.get(name, math.nan)):
                    misses.setdefault(name, []).append(abs(decision.realised[name] - expected))
        return {name: float(sum(found) / len(found)) for name, found in misses.items()}

    def __repr__(self) -> str:
        before = f", after {self.left_out:,} that were forgotten" if self.left_out else ""
        return f"<{type(self).__name__} of {len(self):,} decisions{before}; print() shows them>"

    def __str__(self) -> str:
        return "\n".join(str(decision) for decision in self)

    def to_pandas(self) -> pd.DataFrame:
        """One row for each decision.

        Returns
        -------
        DataFrame
            at_s, kind, operator, controller, reason, metric, value, threshold, what, from_threads,
            to_threads, buckets_moved, outcome, ms; predicted_* and realised_* for each metric
            that was predicted, NaN where it was not; and figure_* for each of `Decision.figures`,
            such as figure_regret.
        """
        import pandas as pd

        columns = (
            "at_s", "kind", "operator", "controller", "reason", "metric", "value", "threshold",
            "what", "from_threads", "to_threads", "buckets_moved", "outcome",
        )  # fmt: skip
        rows = [
            {name: getattr(entry, name) for name in columns}
            | {"ms": math.nan if entry.change is None else entry.change.ms}
            | {f"predicted_{name}": value for name, value in entry.predicted.items()}
            | {f"realised_{name}": value for name, value in entry.realised.items()}
            | {f"figure_{name}": value for name, value in entry.figures.items()}
            for entry in self
        ]
        return pd.DataFrame(rows, columns=None if rows else [*columns, "ms"])
