"""What can be changed at an operator while it runs, and the record of one requested change, which is also its caller's handle."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.arguments import is_number, is_whole_number, timeout_of
from headrace.errors import NotSupportedError, ParameterError


@dataclass(frozen=True)
class Control:
    """One setting of an operator that can be changed while it runs: ``run.reconfigure(name=value)``.

    Parameters
    ----------
    kind : {"count", "mapping", "choice", "number", "plan"}
        A whole number of workers, a `headrace.Mapping`, one of `choices`, a number, or a `headrace.Plan`.
    title : str
        What it is, in a few words.
    least, most : float
        Bounds of a count or a number.
    choices : tuple of str
    scale : {"linear", "log"}
        Scale of a count or a number: whether steps add to it or multiply it.
    only_with : (str, tuple of str), optional
        Another control, and the values of it with which this one has an effect.
    """

    kind: str
    title: str
    least: float = 0
    most: float = 0
    choices: tuple[str, ...] = ()
    scale: str = "linear"
    only_with: tuple[str, tuple[str, ...]] | None = None

    def unused(self, configuration: Mapping[str, Any]) -> str:
        """Return why it has no effect in a configuration; an empty text if it has one.

        Examples
        --------
        >>> sharing = Control("choice", "whose work may be taken", choices=("no", "all"), only_with=("scheme", ("chains",)))
        >>> sharing.unused({"scheme": "lock"}), sharing.unused({"scheme": "chains"})
        ('no effect with scheme lock: only with chains', '')
        """
        if self.only_with is None:
            return ""
        name, values = self.only_with
        now = configuration.get(name)
        return "" if now in values else f"no effect with {name} {now}: only with {' or '.join(values)}"

    def check(self, name: str, value: Any) -> Any:
        """Return the value if it is possible; else raise `ParameterError`.

        Examples
        --------
        >>> Control("number", "rows of a task", 1, 100).check("batch", 10)
        10
        """
        if self.kind == "choice":
            if value not in self.choices:
                raise ParameterError(f"reconfigure({name}={value!r}): give one of {', '.join(map(repr, self.choices))}")
            return value
        whole = self.kind == "count"
        if not (is_whole_number(value) if whole else is_number(value)) or not self.least <= value <= self.most:
            kind = "a whole number" if whole else "a number"
            raise ParameterError(f"reconfigure({name}={value!r}): give {kind} from {self.least:g} to {self.most:g}")
        return value


class Capabilities(Mapping[str, Control]):
    """The controls of an operator or a run, by name, and the reasons why others are absent.

    Examples
    --------
    >>> can = Capabilities({"threads": Control("count", "active instances", 1, 8)}, {"plan": "this engine has no plan"})
    >>> "threads" in can, can.absent["plan"]
    (True, 'this engine has no plan')
    """

    def __init__(self, controls: Mapping[str, Control], absent: Mapping[str, str] | None = None):
        self._controls = dict(controls)
        self.absent: dict[str, str] = dict(absent or {})
        """Absent control -> one sentence with the reason."""

    def __getitem__(self, name: str) -> Control:
        return self._controls[name]

    def __iter__(self):
        return iter(self._controls)

    def __len__(self) -> int:
        return len(self._controls)

    def __repr__(self) -> str:
        return f"Capabilities({', '.join(self._controls)})"


@dataclass(eq=False, repr=False)
class Change:
    """A change of one operator's configuration, from its request to its outcome.

    Parameters
    ----------
    operator : str
        Name of the operator it concerns.
    before, after : dict
        The configuration before and after: the name of a control -> its value, such as ``{"threads": 2, "members":
        (0, 1), "mapping": Mapping}``. ``run[operator].controls`` lists the controls.
    outcome : str
        "pending" (behind another change), "in flight", then one of "done",
        "no change" (it asked for the present configuration), "superseded" (a newer request
        took its place), "unneeded" (the input ended first), "failed" (the run ended).
    requested_ns, started_ns, completed_ns : int
        Monotonic clock; 0 before it has happened. Started: the boundary was
        placed in the stream. Completed: the last thread concerned runs in the new
        configuration (or has left because of it).
    epoch : int
        Number of completed changes of this operator, this one included; 0 until it is done.
    planned_at : int or None
        Tuple count it was planned for; None for a request.
    position : int or None
        For transactions: the number of events before it came into force; None before that, and for other engines.
    reason : str
    effects : dict
        Its effects, in numbers. For the elastic engine: ``buckets_moved`` (key buckets whose owner changes),
        ``transferred_bytes`` and ``transferred_ns`` (state moved between instances: 0 under VSN).

    Examples
    --------
    >>> change = Change("count", {"threads": 1}, {"threads": 4})
    >>> change.describe(), change.outcome
    ('threads 1 → 4', 'pending')
    >>> change
    <Change of count: threads 1 → 4; pending>
    """

    operator: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    outcome: str = "pending"
    requested_ns: int = field(default_factory=time.monotonic_ns)
    started_ns: int = 0
    completed_ns: int = 0
    epoch: int = 0
    planned_at: int | None = None
    position: int | None = None
    reason: str = ""
    effects: dict[str, int] = field(default_factory=dict)
    _settled: threading.Event = field(default_factory=threading.Event)

    def __repr__(self) -> str:
        # Whole configurations would fill a screen; they are in `before` and `after`.
        parts = [f"{self.outcome} in {self.ms:.2f} ms" if self.outcome == "done" else self.outcome]
        parts += [f"planned at {self.planned_at:,}"] if self.planned_at is not None else []
        parts += [f"reason: {self.reason}"] if self.reason else []
        return f"<Change of {self.operator}: {'; '.join([self.describe(), *parts])}>"

    def describe(self) -> str:
        """Describe the change: the controls that differ and whose values are plain, or have a `word` as a plan has."""
        parts = [
            f"{name} {self.before.get(name)} → {value}"
            for name, value in self.after.items()
            if (isinstance(value, (int, float, str)) or hasattr(value, "word")) and self.before.get(name) != value
        ]
        if self.buckets_moved and not parts:
            parts = ["1 key bucket moves" if self.buckets_moved == 1 else f"{self.buckets_moved:,} key buckets move"]
        return ", ".join(parts) or "no change"

    @property
    def as_planned(self) -> tuple[int, dict[str, Any]]:
        """What ``start(reconfigure=[...])`` takes to have this change again, at the same position of the same input.

        Examples
        --------
        >>> Change("pay", {"threads": 1, "scheme": "lock"}, {"threads": 1, "scheme": "mvlk"}, position=500).as_planned
        (500, {'scheme': 'mvlk'})
        """
        if self.position is None:
            raise NotSupportedError(
                f"as_planned: no position is known of the {self!r}: only those of transactions that are done have one; leave it"
                " out, as in [c.as_planned for c in run.changes if c.position is not None]"
            )
        differ = {name: value for name, value in self.after.items() if self.before.get(name) != value}
        return self.position, {name: value for name, value in differ.items() if name != "members"}

    @property
    def from_threads(self) -> int:
        """Active threads before the change; 0 if the engine does not report them."""
        return self.before.get("threads", 0)

    @property
    def to_threads(self) -> int:
        """Active threads after the change; 0 if the engine does not report them."""
        return self.after.get("threads", 0)

    @property
    def members(self) -> tuple[int, ...]:
        """The instances that are active after the change."""
        return self.after.get("members", ())

    @property
    def mapping(self) -> Any:
        """Which instance owns which bucket after the change; None if there is no mapping."""
        return self.after.get("mapping")

    @property
    def buckets_moved(self) -> int:
        """Key buckets whose owner changes."""
        return self.effects.get("buckets_moved", 0)

    @property
    def transferred_bytes(self) -> int:
        """State moved between instances, in bytes."""
        return self.effects.get("transferred_bytes", 0)

    @property
    def transferred_ns(self) -> int:
        """Nanoseconds that moving state between instances took."""
        return self.effects.get("transferred_ns", 0)

    @property
    def ms(self) -> float:
        """Milliseconds from the call (for a planned change: from the first thread at the boundary) to completion."""
        if not self.completed_ns:
            return float("nan")
        return (self.completed_ns - self.requested_ns) / 1e6

    def settle(self, outcome: str, completed_ns: int = 0) -> None:
        """Set the outcome and wake those waiting. The engine calls this."""
        self.outcome = outcome
        self.completed_ns = completed_ns
        self._settled.set()

    @property
    def is_settled(self) -> bool:
        """Whether the outcome is final."""
        return self._settled.is_set()

    def wait(self, timeout: float | None = None) -> Change:
        """Wait for the outcome.

        Parameters
        ----------
        timeout : float, optional
            Seconds. If they pass first, the outcome is still "pending" or "in flight".
        """
        self._settled.wait(timeout_of(timeout))
        return self
