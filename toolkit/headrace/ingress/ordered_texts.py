"""Strings known by id whose order kernels can ask for: what min and max of a text column need.

The ids of a `KeyDictionary` say whether strings are equal and nothing about their
order. Here the bytes of every live string lie where kernels find them, by id; they
never move, so an instance may compare while new strings come in. Ids of strings
that are used no more are given to others, and the bytes of a batch of new strings
are freed when none of them is live.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.errors import OverflowInputError
from headrace.ingress import columns
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.keys_kernel import FREE
from headrace.memory.cells import reserved

_SIGN = np.uint64(1 << 63)


class OrderedTexts(KeyDictionary):
    """A dictionary of strings, and three arrays by id that kernels read.

    Parameters
    ----------
    limit : int
        Strings that may be live at one time (``max_keys``).

    Attributes
    ----------
    prefixes : int64[capacity]
        The first eight bytes as a number that orders like them, zeros after a shorter string.
    addresses : int64[capacity]
        Of the string's bytes.
    lengths : int64[capacity]
        In bytes.

    Notes
    -----
    UTF-8 bytes order as code points do. An id's entries are written before any
    tuple with it is published, and not again while the id is live.
    """

    def __init__(self, limit: int):
        super().__init__(("string",), 1, limit)
        capacity = max(1 << 16, 2 * limit)
        self.prefixes, self.addresses, self.lengths = (reserved(capacity, np.int64) for _ in range(3))
        self._page_of = reserved(capacity, np.int64)  # 0: the id is not known here
        self._pages: dict[int, tuple[pa.Array, int]] = {}  # number -> (strings, how many are live)
        self._next_page = 1

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What kernels compare by: see `headrace.memory.text_order`."""
        return self.prefixes, self.addresses, self.lengths

    def encode(self, *arrays):
        with self.lock:
            ids = super().encode(*arrays)
            if ids.size and int(ids.max()) >= self._page_of.size:
                raise OverflowInputError(
                    f"more strings are live at once than max_keys={self.limit} allows: pass a larger max_keys=, or"
                    f" use smaller windows"
                )
            fresh = np.unique(ids[self._page_of[ids] == 0])
            if fresh.size:
                self._note(fresh)
            return ids

    def _note(self, ids: np.ndarray) -> None:
        (strings,) = self.decode(ids)
        data, starts, ends = columns.string_spans(strings)
        starts, lengths = starts.astype(np.int64), (ends - starts).astype(np.int64)
        within = np.arange(8) < lengths[:, None]
        words = np.zeros((ids.size, 8), np.uint8)
        words[within] = data[(starts[:, None] + np.arange(8))[within]]
        self.prefixes[ids] = (words.view(">u8")[:, 0].astype(np.uint64) ^ _SIGN).view(np.int64)
        self.addresses[ids] = data.ctypes.data + starts
        self.lengths[ids] = lengths
        self._page_of[ids] = self._next_page
        self._pages[self._next_page] = strings, ids.size
        self._next_page += 1

    def recycle(self, horizon_ts: int) -> int:
        with self.lock:
            freed = super().recycle(horizon_ts)
            if freed:
                last = self._table.last
                gone = np.flatnonzero((last == FREE) & (self._page_of[: last.size] != 0))
                for page, count in zip(*np.unique(self._page_of[gone], return_counts=True), strict=True):
                    strings, live = self._pages.pop(int(page))
                    if live > count:
                        self._pages[int(page)] = strings, live - int(count)
                self._page_of[gone] = 0
            return freed
