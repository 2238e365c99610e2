"""Cast later batches of a source to the schema of its first one."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import SchemaError
from headrace.expressions.operands import is_text


def align(batch: pa.RecordBatch, schema: pa.Schema, source: str) -> pa.RecordBatch:
    """Bring a batch to the first one's schema by casts that keep values; additional columns are left out.

    Parameters
    ----------
    batch : pa.RecordBatch
    schema : pa.Schema
    source : str
        Name of the source in error texts.

    Raises
    ------
    SchemaError
        A column is missing, or has values that the first batch's type cannot hold.
    """
    arrays = []
    for field in schema:
        if len(batch.schema.get_all_field_indices(field.name)) != 1:
            raise SchemaError(f"{source}: column {field.name!r} is missing in a later batch: add it")
        array = batch.column(field.name)
        if not array.type.equals(field.type):
            try:
                # Between unlike types, Arrow would read a text as a number, and a number as a time in whatever unit.
                cast = pc.cast(array, field.type, safe=True) if _are_alike(array.type, field.type) else None
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                cast = None
            if cast is None:
                raise SchemaError(
                    f"{source}: column {field.name!r} is {array.type} in a later batch, {field.type} before: cast it"
                )
            array = cast
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _are_alike(one: pa.DataType, other: pa.DataType) -> bool:
    return pa.types.is_null(one) or _family(one) == _family(other)


def _family(kind: pa.DataType) -> str:
    """Return what kind of values a type has, whatever their width, unit and layout.

    Examples
    --------
    >>> _family(pa.int8()), _family(pa.float64()), _family(pa.timestamp("s")), _family(pa.list_(pa.binary()))
    ('number', 'number', 'time', 'list of text')
    """
    types = pa.types
    if types.is_dictionary(kind):
        return _family(kind.value_type)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_timestamp(kind) or types.is_date(kind):
        return "time"
    if is_text(kind) or str(kind).removeprefix("large_").startswith("binary"):
        return "text"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return f"list of {_family(kind.value_type)}"
    return re.sub("[^a-z_].*", "", str(kind))  # the name before a unit or an inner type
