"""List columns as kernels read them: for each row the address of its elements, their number, and how many are null.

The elements of a batch lie in one buffer of int64 or float64: Arrow's own where it
has that type, a copy otherwise. For strings it holds the ids. A row's list is three values in the store, which
are kept and found like those of any column (`names_of`)::

    x        address of the first element; the column's validity says whether the list is null
    x.size   number of elements, 0 of a null list
    x.nulls  how many of them are null; those are 0 in the buffer

Addresses do not keep memory alive: `NumberLists.elements` must live as long as a
kernel may read the rows, so the store keeps them (`Store.append`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.errors import OverflowInputError, UnsupportedTypeError
from headrace.ingress import columns
from headrace.ingress.keys import KeyDictionary

_INT64_MAX = 2**63 - 1


class NumberLists(NamedTuple):
    """The lists of some rows.

    Parameters
    ----------
    addresses, sizes, nulls : int64[n]
    valid : uint8[n] or None
        0 where a list is null; None if none is.
    elements : int64[k] or float64[k]
        The memory that the addresses point into; empty where no row has an element. Read only.
    """

    addresses: np.ndarray
    sizes: np.ndarray
    nulls: np.ndarray
    valid: np.ndarray | None
    elements: np.ndarray


def names_of(name: str) -> tuple[str, str, str]:
    """Return the names of a list column's three columns in the store: addresses, sizes, nulls.

    Examples
    --------
    >>> names_of("items")
    ('items', 'items.size', 'items.nulls')
    """
    return name, f"{name}.size", f"{name}.nulls"


def element_dtype(kind: pa.DataType) -> np.dtype:
    """Return the dtype in which kernels read a list column's elements: float64 for floats, int64 for all else (string ids too).

    Examples
    --------
    >>> element_dtype(pa.list_(pa.float32())), element_dtype(pa.list_(pa.bool_()))
    (dtype('float64'), dtype('int64'))
    """
    return np.dtype(np.float64 if pa.types.is_floating(columns.plain_type(kind.value_type)) else np.int64)


def check_list_type(name: str, kind: pa.DataType, is_text: bool = False) -> None:
    """Raise `UnsupportedTypeError`, with what to do, unless `number_lists`, or `text_lists`, can read the column.

    Elements may be integers, floats, bools, times, dates and durations (as integers
    of their unit), or only nulls; or strings, where `is_text`.
    """
    if not columns.is_list(kind):
        raise UnsupportedTypeError(
            f"column {name!r} has type {kind}, which is not a list: cast it to list<int64> or list<float64>, or read it as a"
            f" single value"
        )
    element = columns.plain_type(kind.value_type)
    if columns.is_text(element) if is_text else pa.types.is_null(element) or columns.is_number(element):
        return
    if columns.is_string(element):
        fix = "cast its elements to int64 or float64 (ids instead of texts), or use it as a key with hr.each(...)"
    elif columns.is_list(element):
        fix = "flatten it, so that its elements are numbers"
    else:
        fix = "cast its elements to int64 or float64"
    raise UnsupportedTypeError(f"column {name!r} has type {kind}, of which kernels cannot read the elements: {fix}")


def number_lists(array: pa.Array, name: str, first_row: int = 0) -> NumberLists:
    """Find the lists of a column that `check_list_type` has let through.

    Parameters
    ----------
    array : pa.Array
        In any of Arrow's layouts of lists.
    name : str
        Name of the column, and `first_row` the number of its first row, for errors.

    Raises
    ------
    OverflowInputError
        If an unsigned element is beyond int64.

    Examples
    --------
    >>> lists = number_lists(pa.array([[1, 2], None, [], [3, None]]), "items")
    >>> lists.sizes.tolist(), lists.nulls.tolist(), lists.valid.tolist(), lists.elements.tolist()
    ([2, 0, 0, 2], [0, 0, 0, 1], [1, 0, 1, 1], [1, 2, 3, 0])
    """
    elements, offsets = columns.list_parts(array)
    elements = columns.plain(elements)
    if pa.types.is_uint64(elements.type):
        _check_width(elements, name, offsets, first_row)
    if pa.types.is_null(elements.type):
        numbers = np.zeros(len(elements), np.int64)
    else:
        # Bools come as bytes.
        numbers = columns.values(elements, name).astype(element_dtype(array.type), copy=False)
    return _lists(array, elements, offsets, numbers)


def text_lists(dictionary: KeyDictionary, array: pa.Array, ts: np.ndarray) -> NumberLists:
    """Find the lists of a column of strings: their elements are ids, whose use is noted at the time of their row.

    Parameters
    ----------
    dictionary : KeyDictionary
        Of the strings.
    array : pa.Array
        A column that `check_list_type` has let through.
    ts : int64[n]
        Of the rows, sorted.

    Examples
    --------
    >>> texts = KeyDictionary(("string",), 1)
    >>> lists = text_lists(texts, pa.array([["a", "b"], [], ["b", None]]), np.array([1, 2, 2]))
    >>> lists.sizes.tolist(), lists.nulls.tolist(), lists.elements.tolist()
    ([2, 0, 2], [0, 0, 1], [0, 1, 1, 0])
    """
    elements, offsets = columns.list_parts(array)
    elements = columns.plain(elements)
    ids = text_ids(dictionary, elements, np.repeat(ts, np.diff(offsets)))
    return _lists(array, elements, offsets, ids)


def text_ids(dictionary: KeyDictionary, texts: pa.Array, ts: np.ndarray) -> np.ndarray:
    """Return int64[n] ids of strings, 0 at nulls; their use is noted at the times `ts`, which are sorted."""
    valid = columns.validity(texts)
    # As for keys: no thread may recycle ids between encoding and touching.
    with dictionary.lock:
        ids = dictionary.encode(columns.drop_null(texts))
        dictionary.touch(ids, ts if valid is None else ts[valid.view(np.bool_)])
    if valid is None:
        return ids.astype(np.int64)
    out = np.zeros(len(texts), np.int64)
    out[valid.view(np.bool_)] = ids
    return out


def _lists(array: pa.Array, elements: pa.Array, offsets: np.ndarray, numbers: np.ndarray) -> NumberLists:
    """Return the lists whose elements are these numbers."""
    nulls = np.zeros(len(array), np.int64)
    if elements.null_count:
        places = np.flatnonzero(columns.validity(elements) == 0)
        nulls = np.bincount(_rows_of(places, offsets), minlength=len(array))
    addresses = numbers.ctypes.data + 8 * offsets[:-1]
    return NumberLists(addresses, np.diff(offsets), nulls, columns.validity(array), numbers)


def _rows_of(places, offsets):
    """Return the rows that elements lie in."""
    return np.searchsorted(offsets, places, side="right") - 1


def _check_width(elements: pa.Array, name: str, offsets: np.ndarray, first_row: int) -> None:
    """Raise for an integer beyond int64 with its row, where `columns.integers` would name the element's position."""
    numbers = columns.view_buffer(elements.buffers()[1], elements.offset, len(elements), np.uint64)
    too_large = numbers > _INT64_MAX
    valid = columns.validity(elements)
    if valid is not None:
        too_large &= valid.view(np.bool_)  # the value under a null is undefined
    if too_large.any():
        place = int(np.argmax(too_large))
        row = int(_rows_of(place, offsets))
        raise OverflowInputError(
            f"column {name!r} has the element {numbers[place]} at row ",
            first_row + row,
            ", above the range of int64; cast its elements to int64 or float64",
        )
