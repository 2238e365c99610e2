"""Cast later batches of a source to the schema of its first one; see that files of a folder can be read as the first one."""

from __future__ import annotations

import re
from collections.abc import Container

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import SchemaError
from headrace.expressions.operands import is_text
from headrace.ingress.input_errors import display_name


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


def check_file_of_folder(
    path: str, schema: pa.Schema, named: Container[str], *, wanted: pa.Schema, name: str
) -> None:
    """Raise `SchemaError` for a file of a folder that Arrow would read as something else than it has.

    Arrow fills a column that is missing with nulls, and reads texts as numbers.

    Parameters
    ----------
    path : str
        Of the file.
    schema : pa.Schema
        Its columns.
    named : container of str
        Columns that are in no file: the names of folders say them.
    wanted : pa.Schema
        The columns to be read, as in the first file.
    name : str
        Name of the folder in error texts.
    """
    for field in wanted:
        if field.name in named:
            continue
        if field.name not in schema.names:
            raise SchemaError(
                f"{display_name(name)}: column {field.name!r} is missing in {path!r}: add it, or leave it out with select()"
            )
        kind = schema.field(schema.get_field_index(field.name)).type
        if not _are_alike(kind, field.type):
            raise SchemaError(
                f"{display_name(name)}: column {field.name!r} is {kind} in {path!r}, {field.type} in the first file: cast it"
            )


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


__all__ = ["align", "check_file_of_folder"]
