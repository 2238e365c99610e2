"""Cast later batches of a source to the schema of its first one, where their types are alike."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import SchemaError
from headrace.expressions.operands import is_text
from headrace.ingress.columns import plain_type


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
                cast = pc.cast(array, field.type, safe=True) if are_alike(array.type, field.type) else None
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                cast = None
            if cast is None:
                raise SchemaError(
                    f"{source}: column {field.name!r} is {array.type} in a later batch, {field.type} before: cast it"
                )
            array = cast
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def are_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of one type can be cast to the other without being made into something else.

    Examples
    --------
    >>> are_alike(pa.int8(), pa.float64()), are_alike(pa.string(), pa.int64())
    (True, False)
    >>> are_alike(pa.struct({"x": pa.int8()}), pa.struct({"x": pa.string()}))
    False
    """
    one, other = plain_type(one), plain_type(other)
    if pa.types.is_null(one):
        return True
    if _family(one) != _family(other):
        return False
    if pa.types.is_struct(one):
        return one.names == other.names and all(are_alike(one.field(i).type, other.field(i).type) for i in range(one.num_fields))
    inner = [(getattr(one, part), getattr(other, part)) for part in ("value_type", "key_type", "item_type") if hasattr(one, part)]
    return all(are_alike(mine, theirs) for mine, theirs in inner)


def _family(kind: pa.DataType) -> str:
    """Return what kind of values a type has, whatever their width, unit and layout.

    Examples
    --------
    >>> _family(pa.int8()), _family(pa.float64()), _family(pa.timestamp("s")), _family(pa.list_(pa.binary()))
    ('number', 'number', 'time', 'list')
    """
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_timestamp(kind) or types.is_date(kind):
        return "time"
    if is_text(kind) or str(kind).removeprefix("large_").startswith("binary"):
        return "text"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "list"
    return re.sub("[^a-z_].*", "", str(kind))  # the name before a unit or an inner type


__all__ = ["align", "are_alike"]
