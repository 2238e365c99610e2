"""Selecting, concatenating and casting rows of Arrow columns of any type, where Arrow alone fails or is wrong.

What pyarrow 26 lacks: `take` and `filter` of views of strings (alone, in lists
and structs) and of run-end encoded columns; concatenation of dictionaries with null
entries, of lists, of halffloat (whose numbers it silently changes).
This module mends what can be mended; `check_movable` refuses the rest before a run.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import InputError, UnsupportedTypeError


def cast(array: Any, kind: pa.DataType) -> Any:
    """Return the values as another type, the result validated as input is: kernels and users read it unchecked.

    (pyarrow 26 casts a ``list_view`` to a ``large_list`` whose last offset is wrong.)
    """
    if array.type.equals(kind):
        return array
    result = pc.cast(array, kind)
    try:
        result.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InputError(f"Arrow's cast from {array.type} to {kind} gives invalid data ({error}); cast it before") from None
    return result


def plain(array: pa.Array) -> pa.Array:
    """Return a dictionary-encoded array as plain values, any other as it is."""
    return take(array.dictionary, array.indices) if pa.types.is_dictionary(array.type) else array


def take(array: pa.Array | pa.ChunkedArray, rows: np.ndarray | pa.Array) -> Any:
    """Return the rows of these numbers, in this order; null where the number is."""
    rows = rows if isinstance(rows, pa.Array) else pa.array(rows)
    layout = _movable_as(array.type)
    return array.take(rows) if layout is None else cast(cast(array, layout).take(rows), array.type)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows. (`pa.array([], kind)` and `empty_table` do not support every type.)"""
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def concat(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return arrays of one type as one.

    Raises
    ------
    pyarrow.ArrowException
        If different dictionaries together have more entries than their index type can number.
    """
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowException:
        # Arrow cannot unify null entries, and keeps entries that nothing refers to.
        return pa.concat_arrays(_with_one_dictionary(arrays))


def _with_one_dictionary(arrays: Sequence[pa.Array]) -> list[pa.Array]:
    """Return the arrays with one common dictionary for each one within them, of the entries that are used."""
    kind = arrays[0].type
    if pa.types.is_dictionary(kind):
        whole = pa.concat_arrays([plain(array) for array in arrays]).dictionary_encode()
        indices = whole.indices.cast(kind.index_type)
        whole = pa.DictionaryArray.from_arrays(indices, whole.dictionary, ordered=kind.ordered)
        return _cut(whole, arrays)
    if pa.types.is_struct(kind):
        children = [[array.field(i) for array in arrays] for i in range(kind.num_fields)]
    elif kind.num_fields and hasattr(arrays[0], "values"):  # a list of any layout
        children = [[array.values for array in arrays]]
    else:
        return list(arrays)
    columns = [_with_one_dictionary(parts) for parts in children]
    own = 1 if pa.types.is_struct(kind) or pa.types.is_fixed_size_list(kind) else 2
    own += pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    return [
        pa.Array.from_buffers(
            kind, len(array), array.buffers()[:own], offset=array.offset, children=[column[i] for column in columns]
        )
        for i, array in enumerate(arrays)
    ]


def _cut(whole: pa.Array, like: Sequence[pa.Array]) -> list[pa.Array]:
    """Cut an array into pieces as long as other arrays."""
    starts = np.cumsum([0, *map(len, like)]).tolist()
    return [whole.slice(start, len(array)) for start, array in zip(starts, like, strict=False)]


def concat_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of one schema as one; raises `InputError`, which names the column, where `concat` would."""
    schema, arrays = batches[0].schema, []
    for field, parts in zip(schema, zip(*(batch.columns for batch in batches), strict=True), strict=True):
        try:
            arrays.append(concat(parts))
        except pa.ArrowException as error:
            raise InputError(
                f"column {field.name!r} of {field.type}: its batches cannot be put together ({error}); cast it to plain"
                f" values, or to dictionaries with wider indices"
            ) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def take_rows(batch: pa.RecordBatch, rows: np.ndarray) -> pa.RecordBatch:
    """Return the rows of these numbers, in this order."""
    numbers = pa.array(rows)
    arrays = [take(array, numbers) for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema) if arrays else batch.take(numbers)


def filter_rows(batch: pa.RecordBatch, kept: np.ndarray | pa.Array) -> pa.RecordBatch:
    """Return the rows where `kept` is true."""
    kept = kept if isinstance(kept, pa.Array) else pa.array(kept)
    if all(_movable_as(kind) is None for kind in batch.schema.types):
        return batch.filter(kept)
    return take_rows(batch, np.flatnonzero(pc.fill_null(kept, False).to_numpy(zero_copy_only=False)))


def check_movable(schema: pa.Schema, use: str) -> None:
    """Raise `UnsupportedTypeError` unless Arrow can choose rows of every column.

    Parameters
    ----------
    use : str
        What chooses rows, for the error's text.
    """
    for field in schema:
        reason = _why_fixed(field.type)
        if reason:
            is_encoded = "run_end_encoded" in str(field.type)
            hint = "decode it with pyarrow.compute.run_end_decode" if is_encoded else "cast it to a plainer type"
            raise UnsupportedTypeError(
                f"{use}: column {field.name!r} has type {field.type}, of which rows cannot be chosen ({reason});"
                f" {hint}, or leave the column out with select()"
            )


@functools.lru_cache(maxsize=256)
def _movable_as(kind: pa.DataType) -> pa.DataType | None:
    """Return the type to cast to if Arrow cannot choose rows (`take` has no kernel for views); None if it can."""
    layout = _without_views(kind)
    return None if layout.equals(kind) else layout


def _without_views(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_list(kind):
        return pa.list_(_field_without_views(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_field_without_views(kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_field_without_views(kind.value_field), kind.list_size)
    if pa.types.is_struct(kind):
        return pa.struct([_field_without_views(kind.field(i)) for i in range(kind.num_fields)])
    return kind


def _field_without_views(field: pa.Field) -> pa.Field:
    return field.with_type(_without_views(field.type))


@functools.lru_cache(maxsize=256)
def _why_fixed(kind: pa.DataType) -> str:
    """Return why rows of such a column cannot be chosen and concatenated, found by trying; empty if they can."""
    try:
        sample = pa.nulls(2, kind)
        moved = take(pa.concat_arrays([sample, sample]), np.array([3, 0]))
        _unify_dictionaries(kind)
    except pa.ArrowException as error:
        return str(error).splitlines()[0]
    except ValueError as error:
        return str(error)
    return "" if moved.type.equals(kind) else f"Arrow gives {moved.type}"


def _unify_dictionaries(kind: pa.DataType) -> None:
    """Raise if the type contains a dictionary whose entries cannot be unified across batches."""
    if pa.types.is_dictionary(kind):
        entries = kind.value_type
        if entries.num_fields or pa.types.is_dictionary(entries) or pa.types.is_float16(entries):
            # pyarrow 26 silently changes the numbers in dictionaries of halffloat.
            raise ValueError(f"dictionaries of {entries} cannot be put together")
    for i in range(kind.num_fields):
        _unify_dictionaries(kind.field(i).type)
