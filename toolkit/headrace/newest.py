"""The newest entries of a record that grows as long as a run lives, and how many older ones were forgotten."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

Entry = TypeVar("Entry")

MOST_KEPT = 10_000
"""Of a run's changes, decisions and checkpoints each. A change that moves buckets takes 4 kB: a run of months keeps 40 MB."""


class Newest(list[Entry]):
    """A list of the newest entries, oldest first.

    Parameters
    ----------
    entries : iterable
    left_out : int
        How many older entries there were, which are forgotten.

    Examples
    --------
    >>> found = Newest(["b", "c"], left_out=1)
    >>> found[0], len(found), found.left_out
    ('b', 2, 1)
    """

    def __init__(self, entries: Iterable[Entry] = (), left_out: int = 0):
        super().__init__(entries)
        self.left_out = left_out


class Record(Generic[Entry]):
    """Entries as they come, of which the newest are kept. One thread at a time adds; any may read, and nobody waits.

    Parameters
    ----------
    most : int
        Most entries kept.

    Examples
    --------
    >>> record = Record(most=2)
    >>> for entry in "abc":
    ...     record.add(entry)
    >>> record.newest(), record.newest().left_out, record.last
    (['b', 'c'], 1, 'c')
    """

    def __init__(self, most: int = MOST_KEPT):
        # Each with its number: so one copy, which no other thread can interrupt, also says how many came before.
        self._entries: deque[tuple[int, Entry]] = deque(maxlen=most)
        self._added = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def last(self) -> Entry | None:
        """The newest entry; None if there is none yet."""
        return self._entries[-1][1] if self._entries else None

    def add(self, entry: Entry) -> None:
        """Append an entry; the oldest one is forgotten if there are too many."""
        self._entries.append((self._added, entry))
        self._added += 1

    def replace_last(self, entry: Entry) -> None:
        """Put an entry in place of the newest one."""
        self._entries[-1] = (self._added - 1, entry)

    def newest(self) -> Newest[Entry]:
        """Return a copy of what is kept, oldest first."""
        entries = list(self._entries)
        return Newest([entry for _, entry in entries], entries[0][0] if entries else 0)


__all__ = ["MOST_KEPT", "Newest", "Record"]
