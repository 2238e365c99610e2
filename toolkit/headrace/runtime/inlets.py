"""The interface of an input of a section: rows are held, then offered, and no call waits longer than a moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from headrace.metrics.sources import feeding_time
from headrace.metrics.time_spent import TimeSpent
from headrace.plan.nodes import Branch


@dataclass
class Books:
    """Counters of what came into an inlet. Each is written by one thread, where the counted thing happens, and only grows."""

    added: int = 0
    """Rows that the section has taken."""
    adding: int = 0
    """Upper bound of the rows that it has taken already beyond `added`."""
    filtered: int = 0
    gained: int = 0
    """Additional rows made by a flat_map before the inlet."""
    first_ts: int | None = None
    closed_at: int | None = None
    """The inlet's promise when it ended; None before that."""
    arrived: Callable[[], int] | None = None
    """Rows given by the source or operator upstream; None if they are not counted."""
    late: Callable[[str], int] = field(default=lambda policy: 0)
    """Late rows that were treated with this policy."""
    behind: Callable[[float | None], int] = field(default=lambda at_s: 0)
    """Rows due by the rate schedule but not yet taken, at a moment (None: now)."""
    lag_s: Callable[[float | None], float] = field(default=lambda at_s: math.nan)
    """How long the oldest of them has been due; NaN where nothing is ever due."""
    rate: Callable[[], float | None] = field(default=lambda: None)
    """Rows per second that the schedule gives now; None without one."""
    known: Callable[[int], int] = field(default=lambda start: 0)
    """How many rows of the held piece, from this one on, an earlier run has processed; no schedule paces them."""
    spent: TimeSpent = field(default_factory=feeding_time)
    """How the thread that feeds the inlet spends its time."""


class Inlet(Protocol):
    """One input of a section. One thread at a time gives it rows; any thread may encode."""

    branch: Branch
    books: Books
    columns_used: Sequence[str]
    """The columns of the branch that the section reads."""
    codable: Sequence[str]
    """Those of them that it takes as texts or as dictionary codes, whatever the schema says."""
    retention: int
    """Event time for which an encoded key may still be wanted: what `lateness` must hold back."""

    def encode(self, batch: pa.RecordBatch, ts: np.ndarray | None = None) -> Iterable[Any]:
        """Turn rows into pieces, each with a length and `ts` (int64[n]). Safe from any thread."""
        ...

    def hold(self, piece: Any) -> None:
        """Store a piece: `offer` gives its rows from now on."""
        ...

    def offer(self, ts: np.ndarray, start: int, stop: int, patient: bool) -> int:
        """Give rows `start` to `stop` of the piece that is held; returns how many were taken.

        None may be. A patient caller is put to sleep for a moment first, until there may be room.
        """
        ...

    def promise(self, ts: int, patient: bool) -> bool:
        """No later row will be earlier than `ts`; False if that could not be noted just now."""
        ...

    def close(self, patient: bool) -> bool:
        """No row will follow; False as for `promise`."""
        ...

    @property
    def mark(self) -> int:
        """The promise in force."""
        ...


def reached(inlet: Inlet) -> int:
    """The promise of an input; after its end, the last promise before the end."""
    closed_at = inlet.books.closed_at
    return inlet.mark if closed_at is None else closed_at
