"""Full validation of Arrow batches, at a cost proportional to their rows.

Arrow's own ``validate(full=True)`` checks everything an array refers to, for each
batch again: in a slice all values of its lists, in a dictionary array all entries.
A table in one chunk that is read in slices would be checked completely
once for each slice. Here lists are followed only to the values of the slice, and a
dictionary that batches share is checked once.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


class Validator:
    """Validates the batches of one pass over a source, in their order.

    Examples
    --------
    >>> Validator().check(pa.record_batch({"x": [1, 2]}))
    """

    def __init__(self):
        self._dictionaries: dict[str, pa.Array] = {}  # by column: its last dictionary, known to be valid

    def check(self, batch: pa.RecordBatch) -> None:
        """Raise `pyarrow.ArrowInvalid` if a kernel could not read the batch safely."""
        batch.validate()  # lengths and buffer sizes, which the checks below rely on
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            _check(self._dictionaries, name, array)


def _check(dictionaries: dict[str, pa.Array], name: str, array: pa.Array) -> None:
    kind = array.type
    if pa.types.is_dictionary(kind):
        _check_dictionary(dictionaries, name, array)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        _check(dictionaries, name, _values_of(array))
    else:
        array.validate(full=True)


def _check_dictionary(dictionaries: dict[str, pa.Array], name: str, array: pa.DictionaryArray) -> None:
    dictionary = array.dictionary
    known = dictionaries.get(name)
    if known is None or not is_same_memory(known, dictionary):
        dictionary.validate(full=True)
        dictionaries[name] = dictionary  # the reference keeps its memory from being reused
    indices = array.indices
    indices.validate(full=True)
    limits = pc.min_max(indices)
    least, most = limits["min"].as_py(), limits["max"].as_py()
    if least is not None and not 0 <= least <= most < len(dictionary):
        raise pa.ArrowInvalid(
            f"column {name!r}: dictionary index {least if least < 0 else most} is out of bounds"
            f" (the dictionary has {len(dictionary)} entries)"
        )


def _values_of(lists: pa.ListArray) -> pa.Array:
    """Check the offsets of a slice, and return the values they lead to."""
    values, offset = lists.values, lists.offset
    kind = pa.large_list(pa.null()) if pa.types.is_large_list(lists.type) else pa.list_(pa.null())
    layout = type(lists).from_buffers(
        kind, len(lists), lists.buffers()[:2], offset=offset, children=[pa.nulls(len(values))]
    )
    layout.validate(full=True)
    if len(lists) == 0:
        return values.slice(0, 0)
    offsets = lists.offsets
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    return values.slice(first, last - first)


def is_same_memory(one: pa.Array, other: pa.Array) -> bool:
    """Whether two arrays use the same memory, which both keep alive."""
    if one.type != other.type or len(one) != len(other) or one.offset != other.offset:
        return False
    pairs = zip(one.buffers(), other.buffers(), strict=True)
    return all(
        (a is None) == (b is None) and (a is None or (a.address == b.address and a.size == b.size)) for a, b in pairs
    )
