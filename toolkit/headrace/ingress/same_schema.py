"""Sources that differ only in which columns may be null, or in the layout of texts: how they are read as one stream.

pandas gives ``large_string``, Parquet and Spark give ``string``, and polars ``string_view``; categories are dictionaries. To
their user they are all texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from headrace.expressions.operands import is_text
from headrace.expressions.rows import cast, plain
from headrace.ingress.columns import plain_type
from headrace.ingress.readers import Item, Reader


def shared_schema(one: pa.Schema, other: pa.Schema) -> pa.Schema | None:
    """Return the common schema of two that differ at most in which columns may be null, and in how texts lie in memory.

    None where they differ in more.

    Examples
    --------
    >>> strict = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    >>> shared_schema(strict, pa.schema([("n", pa.int64())]))
    n: int64
    >>> shared_schema(strict, pa.schema([("n", pa.int32())])) is None
    True
    >>> shared_schema(pa.schema([("name", pa.large_string())]), pa.schema([("name", pa.string())]))
    name: large_string
    """
    kinds = [shared_type(a, b) for a, b in zip(one.types, other.types, strict=False)]
    if one.names != other.names or None in kinds:
        return None
    return pa.schema([
        f.with_type(kind).with_nullable(f.nullable or g.nullable) for f, g, kind in zip(one, other, kinds, strict=True)
    ])


def shared_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type of values of two types; None if there is none."""
    if one.equals(other):
        return one
    plain_types = plain_type(one), plain_type(other)
    if not all(map(is_text, plain_types)):
        return None
    return pa.string() if all(map(pa.types.is_string, plain_types)) else pa.large_string()


def told_apart(one: pa.Schema, other: pa.Schema) -> tuple[str, str]:
    """Return how two schemas without a common one differ, for an error: the columns of other types, or else all columns.

    Examples
    --------
    >>> told_apart(pa.schema([("ts", pa.int64()), ("n", pa.int64())]), pa.schema([("ts", pa.int64()), ("n", pa.bool_())]))
    ('n: int64', 'n: bool')
    """
    pairs = list(zip(one, other, strict=False))
    if one.names == other.names:
        pairs = [(f, g) for f, g in pairs if shared_type(f.type, g.type) is None]
        one, other = pa.schema([f for f, _ in pairs]), pa.schema([g for _, g in pairs])
    first, second = (", ".join(of.remove_metadata().to_string().splitlines()) for of in (one, other))
    return first, second


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a valid batch in a schema that `shared_schema` gave for it and another."""
    arrays = [
        array if array.type.equals(field.type) else cast(plain(array), field.type)
        for field, array in zip(schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def read_as(reader: Reader, schema: pa.Schema) -> Reader:
    """Return a reader of the same rows in batches of this schema, which `shared_schema` gave for it and another."""
    if reader.schema.equals(schema):
        return reader
    if reader.schema.types != schema.types:
        return _cast_to(reader, schema)

    def renamed(items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            if not isinstance(item, pa.RecordBatch):
                yield item  # a watermark
                continue
            fields = [field.with_type(column.type) for field, column in zip(schema, item.columns, strict=True)]  # or codes of it
            yield pa.RecordBatch.from_arrays(item.columns, schema=pa.schema(fields))

    changed = replace(reader, schema=schema, batches=lambda: renamed(reader.batches()))
    if (coded := reader.coded) is not None:
        changed.coded = lambda columns: renamed(coded(columns))
    if (reopen := reader.reopen) is not None:
        changed.reopen = lambda columns, name: read_as(reopen(columns, name), pa.schema([schema.field(one) for one in columns]))
    return changed


def _cast_to(reader: Reader, schema: pa.Schema) -> Reader:
    """Return a reader that gives texts in another layout."""

    def batches() -> Iterator[Item]:
        reader.name = changed.name
        for item in reader:  # validated, and cut into pieces that are bounded even where dictionaries are decoded
            yield conformed(item, schema) if isinstance(item, pa.RecordBatch) else item

    changed = replace(reader, schema=schema, batches=batches, is_validated=False, coded=None, is_started=False)
    if (reopen := reader.reopen) is not None:
        changed.reopen = lambda columns, name: read_as(reopen(columns, name), pa.schema([schema.field(one) for one in columns]))
    return changed


__all__ = ["conformed", "read_as", "shared_schema", "shared_type", "told_apart"]
