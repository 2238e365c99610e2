"""What can be changed at an operator while it runs: its controls, and what an engine does to change them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from headrace.arguments import is_number, is_whole_number
from headrace.errors import ParameterError, ReconfigurationError

C = TypeVar("C")
"""A configuration: the values of all controls in force at an operator."""


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


def checked_threads(threads: Any, max_threads: int) -> int:
    """Return a requested number of threads, or raise `ReconfigurationError`.

    Examples
    --------
    >>> checked_threads(2, 4)
    2
    """
    if not is_whole_number(threads) or not 1 <= threads <= max_threads:
        raise ReconfigurationError(
            f"threads={threads!r}: give a whole number from 1 to max_threads={max_threads}; start the run with a larger"
            f" max_threads= to go beyond"
        )
    return int(threads)


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


class Completion(NamedTuple):
    """A configuration that has come into force."""

    token: object
    """What `place` returned for this configuration; None if it was planned."""
    before: Any
    after: Any
    begun_ns: int
    """When the first worker reached the boundary."""
    done_ns: int
    """When the last worker concerned had passed it."""
    epoch: int
    planned_at: int | None = None
    effects: Mapping[str, int] = {}
    position: int | None = None
    """Rows of the input before the boundary, if the engine counts them."""


class Steerable(Protocol[C]):
    """What an engine implements so that one operator can be changed; `runtime.changes` does the rest."""

    capabilities: Capabilities

    @property
    def current(self) -> C:
        """The configuration in force."""
        ...

    def resolve(self, requested: Mapping[str, Any], newest: C) -> C:
        """Complete a request against the newest configuration known; raise a `HeadraceError` if it is impossible."""
        ...

    def describe(self, configuration: C) -> dict[str, Any]:
        """Return control -> value, including "threads", which a `Change` holds and controllers see."""
        ...

    def effects(self, before: C, after: C) -> dict[str, int]:
        """The effects of this change, in numbers, as far as they are known beforehand."""
        ...

    def place(self, target: C) -> object | None:
        """Try to place a change in the stream; returns a token for it, or None if there is no room at present."""
        ...

    def completed(self) -> Completion | None:
        """Return the next configuration that has come into force, each once, in order; None if there is none."""
        ...

    @property
    def is_completing(self) -> bool:
        """Whether a configuration is in force that some worker has not acknowledged yet."""
        ...

    @property
    def planned_left(self) -> int:
        """Number of planned changes that have not come yet."""
        ...

    def await_completion(self, timeout_ns: int) -> None:
        """Sleep until there may be a completion, or the run stops."""
        ...
