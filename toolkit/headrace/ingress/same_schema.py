"""Sources that differ only in which columns may be null: how they are read as one stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from headrace.ingress.readers import Item, Reader


def shared_schema(one: pa.Schema, other: pa.Schema) -> pa.Schema | None:
    """Return the common schema of two that differ at most in which columns may be null; None where they differ in more.

    Examples
    --------
    >>> strict = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    >>> shared_schema(strict, pa.schema([("n", pa.int64())]))
    n: int64
    >>> shared_schema(strict, pa.schema([("n", pa.int32())])) is None
    True
    """
    if one.names != other.names or one.types != other.types:
        return None
    return pa.schema([f.with_nullable(f.nullable or g.nullable) for f, g in zip(one, other, strict=True)])


def read_as(reader: Reader, schema: pa.Schema) -> Reader:
    """Return a reader of the same rows in batches of this schema, which may differ in which columns may be null."""
    if reader.schema.equals(schema):
        return reader

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


__all__ = ["read_as", "shared_schema"]
