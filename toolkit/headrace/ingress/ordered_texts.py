"""Strings by id whose order kernels can compare, as min and max of a text column need, and user functions.

The ids of a `KeyDictionary` say whether strings are equal but nothing about their
order. Here the bytes of every live string lie where kernels find them by id
(`text_pages`). They never move, so an instance may compare strings while new ones come in.
Ids of strings that are no longer used are recycled.

A string is used by a tuple, at its event time (`touch`), or by a state that outlives
the window of the tuple it took the string from. An instance with such states writes
into HELD the event time at which it still has a string; for `recycle` that is a use
like any other.

Invariants  I1  an id's entries are written before any tuple with it is published,
                and not again while the id is live
            I2  HELD[id] is written by `_note`, before the id is published, and after
                that only by instances that hold the id, which stays live meanwhile
Ordering    An instance writes HELD before it publishes the watermark that `recycle`
            is given (`rings`, W4), so `recycle` reads nothing older than that
            watermark. Instances at different event times may write HELD of the same
            id: the latest time stays (`hold_text`).
Checked     tests/headrace/elastic/test_texts.py, test_distinct.py
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import OverflowInputError
from headrace.ingress import columns
from headrace.ingress.key_tables import KeyLimitError
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.keys_kernel import FREE, UNTOUCHED
from headrace.ingress.sorting import distinct
from headrace.ingress.text_pages import TextPages
from headrace.memory.cells import reserved

MAX_TEXTS = 1 << 24
"""Strings that may be in use at one time in an engine that has no `max_keys`."""


class OrderedTexts(KeyDictionary):
    """A dictionary of strings, with arrays by id that kernels read.

    Parameters
    ----------
    limit : int
        Strings that may be live at one time (``max_keys``).
    too_many : str, optional
        Error text for more strings than that, with advice; by default that of an operator with `max_keys`.

    Attributes
    ----------
    prefixes : int64[capacity]
        The first eight bytes as a number that orders like them, padded with zeros.
    addresses : int64[capacity]
        Of the string's bytes.
    lengths : int64[capacity]
        In bytes.
    points : int64[capacity]
        In code points.
    held : int64[capacity]
        Event time at which a state last held the string; kernels write it through `hold_text`.

    Notes
    -----
    UTF-8 bytes order as code points do.
    """

    def __init__(self, limit: int, too_many: str = ""):
        super().__init__(("string",), 1, limit)
        self._too_many = too_many or (
            f"more than max_keys = {limit} strings are live at one time: raise max_keys, or use a smaller window"
        )
        capacity = max(1 << 16, 2 * limit)
        self.prefixes, self.addresses, self.lengths = (reserved(capacity, np.int64) for _ in range(3))
        self.points, self.held = (reserved(capacity, np.int64) for _ in range(2))
        self._pages = TextPages(*self.arrays)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The arrays that kernels compare by; see `headrace.memory.text_order`."""
        return self.prefixes, self.addresses, self.lengths

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes, not counting the arrays by id."""
        with self.lock:
            return super().nbytes + self._pages.nbytes

    def keep(self, strings: Sequence[str]) -> np.ndarray:
        """Return int32[n] ids of strings that are never recycled.

        Examples
        --------
        >>> texts = OrderedTexts(100)
        >>> texts.keep(["", "cart"]).tolist(), texts.recycle(10), texts.points[:2].tolist()
        ([0, 1], 0, [0, 4])
        """
        with self.lock:
            ids = self.encode(pa.array(strings, pa.string()))
            self.held[ids] = UNTOUCHED
            return ids

    def encode(self, *arrays):
        with self.lock:
            try:
                ids = super().encode(*arrays)
            except KeyLimitError:
                raise KeyLimitError(self._too_many) from None
            if ids.size and int(ids.max()) >= self._pages.capacity:
                raise OverflowInputError(self._too_many)
            fresh = distinct(ids[~self._pages.is_noted(ids)])
            if fresh.size:
                self._note(fresh)
            return ids

    def _note(self, ids: np.ndarray) -> None:
        (strings,) = self.decode(ids)
        self._pages.note(ids, strings)
        if columns.is_text(strings.type):  # else it is bytes
            self.points[ids] = pc.utf8_length(strings.cast(pa.large_string())).to_numpy(zero_copy_only=False)
        else:
            self.points[ids] = self.lengths[ids]
        self.held[ids] = FREE

    def recycle(self, horizon_ts: int) -> int:
        with self.lock:
            last = self._table.last
            old = np.flatnonzero((last < horizon_ts) & (last != FREE))
            last[old] = np.maximum(last[old], self.held[old])
            freed = super().recycle(horizon_ts)
            if freed:
                self._pages.free(np.flatnonzero(last == FREE))
            return freed
