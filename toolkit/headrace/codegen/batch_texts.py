"""The strings of one batch as numbers, for functions that run over it.

An operator keeps strings for as long as a state holds them. A loop over a batch
needs them only for that batch, so here an id is the string's place among the distinct
strings of the batch, from all columns read and the literals. Where
functions compare the order of strings, these are sorted, so that ids order as the
strings do. Equal strings always have equal ids.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.codegen.bindings import Texts
from headrace.expressions.operands import is_text

ARRAYS = ("t_ranks", "t_points", "t_literals")
"""Parameters of a kernel that uses strings: rank and length in code points of each id, the ids of the literals."""


def reads_as_text(kind: pa.DataType) -> bool:
    """Whether functions see a column of this type as strings."""
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


def texts() -> Texts:
    """Return how functions over a batch represent strings: an id is its own prefix, so no string is ever read."""
    ranks, points, literals = ARRAYS
    return Texts(ranks, ranks, ranks, points, literal=f"{literals}[{{number}}]", literals=[""])


class BatchTexts:
    """The strings of columns, and literals.

    Parameters
    ----------
    columns : sequence of pa.Array
        Strings of any layout.
    literals : sequence of str
        The first one also stands for nulls.
    is_ordered : bool
        Ids order as the strings do, by code point.

    Attributes
    ----------
    ids : list of int64[]
        Ids of the strings of each column.
    arrays : list of int64[]
        The arrays that `ARRAYS` names.

    Examples
    --------
    >>> known = BatchTexts([pa.array(["pear", None, "fig"])], [""], is_ordered=True)
    >>> known.ids[0].tolist(), known.decode(known.ids[0]).to_pylist()
    ([2, 0, 1], ['pear', '', 'fig'])
    """

    def __init__(self, columns: Sequence[pa.Array], literals: Sequence[str], is_ordered: bool):
        parts = [pa.array(literals, pa.large_string()), *(column.cast(pa.large_string()) for column in columns)]
        encoded = pa.concat_arrays(parts).dictionary_encode()
        ids = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        self._strings = encoded.dictionary
        if is_ordered:
            order = pc.array_sort_indices(self._strings)  # by bytes, which for UTF-8 is the order of code points
            self._strings = self._strings.take(order)
            ranks = np.empty(len(order), np.int64)
            ranks[order.to_numpy()] = np.arange(len(order))
            ids = ranks[ids]
        known, *self.ids = np.split(ids, np.cumsum([len(part) for part in parts])[:-1])
        points = pc.utf8_length(self._strings).to_numpy(zero_copy_only=False).astype(np.int64)
        self.arrays = [np.arange(len(self._strings)), points, known]
        for array in (*self.ids, *self.arrays):
            array.flags.writeable = False

    def decode(self, ids: np.ndarray) -> pa.Array:
        """Return the strings of some ids.

        Raises
        ------
        ArrowInvalid
            They have more than 2 GiB.
        """
        return self._strings.take(pa.array(ids)).cast(pa.string())
