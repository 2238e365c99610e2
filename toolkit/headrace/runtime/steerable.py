"""What an engine does so that one operator can be changed while it runs; `headrace.changes` has what users see of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from headrace.arguments import is_whole_number
from headrace.changes import Capabilities
from headrace.errors import ReconfigurationError

C = TypeVar("C")
"""A configuration: the values of all controls in force at an operator."""


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
