"""A key of some of the key columns of the operator before: ids of one for ids of the other, where results are passed on.

Results carry the id of their key as the operator that made them knows it. The one behind has another key, whose columns are
some of these, maybe in another order: it has a dictionary of its own, and IDS says, for each id of the one before, which id
the same key has there. The writer of results reads that (`passing_kernel.ready_rows`), and does not know a value.

State       IDS[i], an id of the dictionary behind, for id i of the one before; KNOWN[i]: it holds
Invariants  I1  IDS[i] is written before a tuple with key i is published, so a thread that has one may read it
            I2  KNOWN[i] ends when i, or IDS[i], is recycled; i is looked up again when it comes again
            I3  IDS[i] changes only then, when no window before or behind has a tuple of either key: the
                recycler waits for all windows that an id was in (`ElasticSection.release`), before and behind,
                and an id behind was used whenever one before was
Ordering    IDS is published by what the tuples are: the gate's
Locks       the dictionary before, then the one behind; the recycler of one holds its lock
Checked     tests/headrace/elastic/test_passing_keys.py
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.expressions.rows import cast
from headrace.ingress.key_tables import KeyLimitError
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.sorting import distinct
from headrace.memory.cells import reserved


class PassedKeys:
    """The ids that keys have behind, by their ids before.

    Parameters
    ----------
    before, behind : KeyDictionary
    places : sequence of int
        Which columns of the one before are those of the one behind.
    types : sequence of pa.DataType
        Of these columns, as the one behind is given them.
    capacity : int
        Ids of the one before are below it.
    """

    def __init__(
        self,
        before: KeyDictionary,
        behind: KeyDictionary,
        places: Sequence[int],
        types: Sequence[pa.DataType],
        capacity: int,
    ):
        self._before, self._behind = before, behind
        self._places, self._types = places, types
        self.ids = reserved(capacity, np.int32)
        self._known = reserved(capacity, np.uint8)
        self._end = 0
        """Ids from here on never came."""
        before.when_recycled.append(self._forget_before)
        behind.when_recycled.append(self._forget_behind)

    def note(self, ids: np.ndarray) -> np.ndarray:
        """Look up the keys of tuples that are about to be published; returns int32[n], their ids behind.

        Raises
        ------
        KeyLimitError
            They do not fit, until some expire.
        """
        if not ids.size:
            return ids
        before, behind = self._before, self._behind
        with before.lock, behind.lock:
            used = before.last_use(ids)
            is_known = self._known[ids] != 0
            self._touch(ids[is_known], used)  # before others need room, for which some may have to go
            if not is_known.all():
                missing = distinct(ids[~is_known])
                self._look_up(missing)
                self._touch(missing, used)
            return self.ids[ids]

    def _touch(self, ids: np.ndarray, used: int) -> None:
        if ids.size:
            self._behind.touch(self.ids[ids], np.full(ids.size, used))

    def _look_up(self, ids: np.ndarray) -> None:
        values = self._before.decode(ids)
        given = [cast(values[place], kind) for place, kind in zip(self._places, self._types, strict=True)]
        try:
            found = self._behind.encode(*given)
        except KeyLimitError:
            if not self._behind.recycle(self._behind.horizon):
                raise
            found = self._behind.encode(*given)
        self.ids[ids] = found
        self._known[ids] = 1
        self._end = max(self._end, int(ids[-1]) + 1)

    def _forget_before(self, recycled: np.ndarray) -> None:
        self._known[recycled] = 0

    def _forget_behind(self, recycled: np.ndarray) -> None:
        known = np.flatnonzero(self._known[: self._end])
        self._known[known[np.isin(self.ids[known], recycled)]] = 0

    def let_go(self) -> None:
        """Cut what refers to it."""
        self._before.when_recycled.remove(self._forget_before)
        self._behind.when_recycled.remove(self._forget_behind)


__all__ = ["PassedKeys"]
