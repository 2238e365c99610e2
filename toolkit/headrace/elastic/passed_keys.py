"""Key ids of the downstream operator by those of the upstream one, where its key is made of some of the upstream key's columns.

Results carry the id of their key in the dictionary of the operator that made them (upstream). The operator that takes them
(downstream) has another key, made of some of these columns, maybe in another order, and so a dictionary of its own. IDS maps
each upstream id to the downstream id of its key. The writer of results reads IDS (`passing_kernel.ready_rows`), and no values.

State       IDS[i], an id of the downstream dictionary, for upstream id i; KNOWN[i]: whether it is valid
Invariants  I1  IDS[i] is written before a tuple with key i is published, so a thread that has such a tuple may read it
            I2  KNOWN[i] is cleared when i, or IDS[i], is recycled; i is looked up again at its next use
            I3  IDS[i] changes only after that, when no window upstream or downstream has a tuple of either
                key: the recycler waits until all windows, upstream and downstream, that an id was in are over
                (`ElasticSection.release`), and each use of an upstream id counts as a use of its downstream id
Ordering    IDS is published by the same store as the tuples: the gate's
Locks       the upstream dictionary, then the downstream one; the recycler of either holds its lock
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
    """The downstream ids of keys, by their upstream ids.

    Parameters
    ----------
    before, behind : KeyDictionary
        The upstream and the downstream dictionary.
    places : sequence of int
        For each column of the downstream key, its place in the upstream one.
    types : sequence of pa.DataType
        Types of these columns, as they are given to the downstream dictionary.
    capacity : int
        Upstream ids are below it.
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
        """No id from here on has been looked up yet."""
        before.when_recycled.append(self._forget_before)
        behind.when_recycled.append(self._forget_behind)

    def note(self, ids: np.ndarray) -> np.ndarray:
        """Look up the keys of tuples that are about to be published; returns int32[n], their downstream ids.

        Raises
        ------
        KeyLimitError
            The downstream dictionary has no room for them until some keys expire.
        """
        if not ids.size:
            return ids
        before, behind = self._before, self._behind
        with before.lock, behind.lock:
            used = before.last_use(ids)
            is_known = self._known[ids] != 0
            self._touch(ids[is_known], used)  # before `_look_up`, which may recycle ids to make room
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
        """Remove the references to this object."""
        self._before.when_recycled.remove(self._forget_before)
        self._behind.when_recycled.remove(self._forget_behind)


__all__ = ["PassedKeys"]
