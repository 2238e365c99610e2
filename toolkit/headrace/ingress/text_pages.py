"""The bytes of strings where kernels find them by id, in pages that do not move.

Strings that are noted in one call share pages, up to `PAGE` strings in each. A page is freed when none of its strings is live, so
the memory that one long-lived string keeps is bounded.

Invariant   an id's entries are written before kernels know the id, and not again while it is live
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.ingress import columns
from headrace.memory.cells import reserved

PAGE = 256
"""Maximum number of strings in a page."""

_SIGN = np.uint64(1 << 63)


class TextPages:
    """Strings by id, as `headrace.memory.text_order` compares them.

    Parameters
    ----------
    prefixes, addresses, lengths : int64[capacity]
        By id, written here: the first eight bytes as a number that orders like them, padded with zeros; the address of
        all bytes; their number.

    Examples
    --------
    >>> pages = TextPages(*(np.zeros(8, np.int64) for _ in range(3)))
    >>> pages.note(np.array([5, 2]), pa.array(["b", "a long string"]))
    >>> pages.is_noted(np.array([2, 3, 5])).tolist(), bool(pages.prefixes[2] < pages.prefixes[5]), pages.lengths[[5, 2]].tolist()
    ([True, False, True], True, [1, 13])
    >>> pages.free(np.array([2, 3])), pages.is_noted(np.array([2, 5])).tolist(), pages.nbytes
    (None, [False, True], 14)
    """

    def __init__(self, prefixes: np.ndarray, addresses: np.ndarray, lengths: np.ndarray):
        self.prefixes, self.addresses, self.lengths = prefixes, addresses, lengths
        self._page_of = reserved(prefixes.size, np.int64)  # 0: no string is noted for the id
        self._pages: dict[int, tuple[np.ndarray, int]] = {}  # number -> (bytes, how many strings are live)
        self._next_page = 1

    @property
    def capacity(self) -> int:
        """Ids are below this."""
        return self._page_of.size

    @property
    def nbytes(self) -> int:
        """Bytes of all pages, not counting the arrays by id."""
        return sum(page.nbytes for page, _ in self._pages.values())

    def is_noted(self, ids: np.ndarray) -> np.ndarray:
        """bool[n]: whether a string is noted for each id."""
        return self._page_of[ids] != 0

    def note(self, ids: np.ndarray, strings: pa.Array) -> None:
        """Write the strings, or bytes, of distinct ids."""
        data, starts, ends = columns.string_spans(strings)
        starts, lengths = starts.astype(np.int64), (ends - starts).astype(np.int64)
        padded = np.zeros(data.size + 8, np.uint8)
        padded[: data.size] = data
        # The eight bytes from the start of each string; those beyond its end are then cleared.
        words = np.ndarray(padded.size - 7, "<u8", padded, strides=(1,))[starts]
        is_short = lengths < 8
        words[is_short] &= (np.uint64(1) << (8 * lengths[is_short]).astype(np.uint64)) - np.uint64(1)
        self.prefixes[ids] = (words.byteswap().astype(np.uint64) ^ _SIGN).view(np.int64)
        self.lengths[ids] = lengths
        for first in range(0, ids.size, PAGE):
            some = slice(first, first + PAGE)
            low, high = starts[first], ends[some][-1]
            page = data[low:high].copy()
            self.addresses[ids[some]] = page.ctypes.data + (starts[some] - low)
            self._page_of[ids[some]] = self._next_page
            self._pages[self._next_page] = page, ids[some].size
            self._next_page += 1

    def free(self, ids: np.ndarray) -> None:
        """Forget the strings of distinct ids, as far as any are noted; no kernel may know these ids."""
        gone = ids[self.is_noted(ids)]
        for page, count in zip(*np.unique(self._page_of[gone], return_counts=True), strict=True):
            data, live = self._pages.pop(int(page))
            if live > count:
                self._pages[int(page)] = data, live - int(count)
        self._page_of[gone] = 0


__all__ = ["PAGE", "TextPages"]
