"""What orders keys that kernels know by id: a few numbers each, which tell how any two are ordered, whatever keys come later.

A column of numbers or times has one: the number, or the bits of a float so that they order as floats do. A column of strings has
three: the first eight bytes, and address and length of all, by which kernels compare what the first bytes do not tell apart
(`headrace.memory.text_order`). An address orders nothing itself.

Those of a key are written before any tuple with it is published, and never change. An id is another key's only after the last
result with the key was read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.ingress.keys import KeyDictionary
from headrace.ingress.sorting import distinct
from headrace.ingress.text_pages import TextPages
from headrace.memory.cells import reserved
from headrace.memory.words import ALL_BUT_SIGN

_OF_A_STRING = (0, 1, 0)
_OF_A_NUMBER = (0,)


def rank_layout(kinds: Sequence[str]) -> tuple[int, ...]:
    """For each rank of keys of these kinds, 1 if it is the address of a string, whose length is the next one, else 0.

    Examples
    --------
    >>> rank_layout(("int", "string", "float"))
    (0, 0, 1, 0, 0)
    """
    return tuple(part for kind in kinds for part in (_OF_A_STRING if kind == "string" else _OF_A_NUMBER))


class KeyRanks:
    """The ranks of a dictionary's keys.

    Parameters
    ----------
    dictionary : KeyDictionary
    capacity : int
        Ids are below this.

    Attributes
    ----------
    by_id : int64[ranks, capacity]
        Later ranks decide where earlier ones are equal.
    layout : tuple of int
        As from `rank_layout`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> dictionary = KeyDictionary(("int", "string"))
    >>> ids = dictionary.encode(pa.array([7, 7]), pa.array(["b", "a"]))
    >>> ranks = KeyRanks(dictionary, 1 << 16)
    >>> ranks.note(ids)
    >>> ranks.by_id[0, ids].tolist(), bool(ranks.by_id[1, ids[1]] < ranks.by_id[1, ids[0]]), ranks.by_id[3, ids].tolist()
    ([7, 7], True, [1, 1])
    """

    def __init__(self, dictionary: KeyDictionary, capacity: int):
        self._dictionary = dictionary
        self.layout = rank_layout(dictionary.kinds)
        self.by_id = reserved(len(self.layout) * capacity, np.int64).reshape(-1, capacity)
        self._first = np.cumsum([0, *(len(rank_layout([kind])) for kind in dictionary.kinds)]).tolist()
        self._texts = {
            column: TextPages(*self.by_id[self._first[column] : self._first[column + 1]])
            for column, kind in enumerate(dictionary.kinds)
            if kind == "string"
        }
        dictionary.when_recycled += [texts.free for texts in self._texts.values()]

    def note(self, ids: np.ndarray) -> None:
        """Write the ranks of these keys, int32[n], where that was not done."""
        dictionary = self._dictionary
        with dictionary.lock:
            for column, kind in enumerate(dictionary.kinds):
                first = self._first[column]
                if kind == "string":
                    texts = self._texts[column]
                    fresh = distinct(ids[~texts.is_noted(ids)])
                    if fresh.size:
                        texts.note(fresh, dictionary.decode_column(column, fresh))
                else:
                    words = dictionary.words(column, ids)
                    self.by_id[first, ids] = words if kind == "int" else np.where(words < 0, words ^ ALL_BUT_SIGN, words)


__all__ = ["KeyRanks", "rank_layout"]
