"""Opening the files named on the command line as the streams that an application is built on.

A file is read through Arrow, or through Spark, as one source or as several:
row i goes to source ``i % S``, so each source is sorted if the file is. With Spark
the rows come back in the file's own types, so that both ways give the same result.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.apps.app import App
from headrace.apps.dealing import Dealing
from headrace.errors import InputError, OverflowInputError, SchemaError
from headrace.ingress.input_errors import first_line
from headrace.ingress.readers import DEFAULT_BATCH_ROWS, Reader, open_input
from headrace.ingress.same_schema import shared_schema
from headrace.ingress.times import check_event_time
from headrace.stream import Stream, stream


@dataclass
class Inputs:
    """The opened inputs: the streams, how many rows their files have, and the input that is a table."""

    streams: list[Stream]
    rows: int
    sources: int
    tables: list[pa.Table]
    dealing: Dealing | None = None

    @property
    def given(self) -> list[Any]:
        """The inputs that the application's `build` takes."""
        return [*([] if self.dealing is None else [self.dealing.deal]), *self.streams, *self.tables]


def open_inputs(
    app: App,
    left: str | None,
    right: str | None = None,
    source_count: int | None = None,
    batch_rows: int | None = None,
    spark: Any = None,
    dealing: Dealing | None = None,
) -> Inputs:
    """Open the inputs of an application, check their columns, and cut them into sources.

    Parameters
    ----------
    left, right : path or None
        Files; `left` may be left out where the application has a data set of its own.
    source_count : int, optional
        S, for each input; 1 by default.
    batch_rows : int, optional
        Rows in a batch that the engine is given.
    spark : SparkSession, optional
        Session to read files through.
    dealing : Dealing, optional
        Inputs stay whole, as one source each, and it assigns their rows to streams.
    """
    opened: list[list[Reader]] = []
    tables: list[pa.Table] = []
    for side, path in enumerate((left, right) if app.has_right is not False and right is not None else (left,)):
        reader = _open(app, side, path, spark, dealing)
        if side and app.is_right_table:
            tables.append(pa.Table.from_batches(reader, reader.schema))
            continue
        if dealing is not None:
            reader = dealing.opened(reader, side, path)
        if side and app.right is None and shared_schema(first := opened[0][0].schema, reader.schema) is None:
            raise SchemaError(
                f"input {reader.name!r} has columns {_columns(reader.schema)}, the first input {_columns(first)};"
                f" {app.name} needs two files of one schema"
            )
        opened.append(_sources(reader, source_count or 1 if dealing is None else 1, batch_rows))
    streams = [stream(readers, event_time="ts") for readers in opened]
    rows = sum(reader.rows for readers in opened for reader in readers)
    return Inputs(streams, rows, sum(map(len, opened)), tables, dealing)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


def _open(app: App, side: int, path: str | None, spark: Any, dealing: Dealing | None) -> Reader:
    if path is None:
        assert app.default_input is not None, "the command asks for --in where there is no default"
        return _held(app.default_input(), app, "flights of 2013", spark)
    reader = open_input(path)
    app.check(reader.schema, side, reader.name)
    columns = app.columns(side, reader.schema)
    if columns is not None and dealing is not None:
        columns += [name for name in dealing.columns(reader.schema, side) if name not in columns]
    if app.prepare is not None:
        reader = open_input(path, columns=columns)
        return _held(pa.Table.from_batches(reader, reader.schema), app, reader.name, spark)
    reader = open_input(path, columns=columns)
    if not (side and app.is_right_table):
        check_event_time(reader.schema, "ts")
    schema = pa.schema([field.with_type(app.read_as(field, side)) for field in reader.schema])
    if spark is not None:
        return _through_spark(reader, schema, path, spark)
    return reader if schema.equals(reader.schema) else _cast(reader, schema, reader.rows)


def _held(table: pa.Table, app: App, name: str, spark: Any) -> Reader:
    """Hold a prepared input in memory; with Spark, the prepared rows pass through it and back."""
    if app.prepare is not None:
        table = app.prepare(table)
    if spark is None:
        return open_input(table, name=name)
    return _cast(open_input(spark.createDataFrame(table), name=name), table.schema, table.num_rows)


def _through_spark(reader: Reader, schema: pa.Schema, path: str, spark: Any) -> Reader:
    # Spark has no nanoseconds; as integers they survive.
    spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    # The Java virtual machine has a working folder of its own, and reads some characters as patterns.
    frame = spark.read.parquet(re.sub(r"([\\\[\]{}*?])", r"\\\1", os.path.abspath(path)))
    given = _cast(open_input(frame, columns=reader.schema.names, name=reader.name), schema, reader.rows)
    given.batches = partial(_from_spark, given.batches)
    return given


def _from_spark(batches: Callable[[], Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Add advice to an error that Spark reports for a file."""
    try:
        yield from batches()
    except InputError as error:
        raise type(error)(f"{error}; check the file or write it again, or leave out --spark") from error


def _cast(reader: Reader, schema: pa.Schema, rows: int | None) -> Reader:
    """Cast batches to these types: those of a DataFrame back to the types of the file."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            arrays = [_as(column, field, reader.name) for column, field in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return Reader(schema, reader.name, rows, batches, is_validated=False)


def _as(column: pa.Array, field: pa.Field, name: str) -> pa.Array:
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise OverflowInputError(
            f"input {name!r}: column {field.name!r} of {column.type} does not fit {field.type} ({first_line(error)});"
            f" filter such rows out of the file"
        ) from None


def _sources(reader: Reader, count: int, batch_rows: int | None) -> list[Reader]:
    rows = DEFAULT_BATCH_ROWS if batch_rows is None else batch_rows
    if count == 1:
        reader.batch_rows = rows
        return [reader]
    return [
        Reader(
            reader.schema,
            f"{reader.name} (source {k})",
            max(0, -(-(reader.rows - k) // count)),
            partial(_every, reader, k, count),
            is_validated=False,
            batch_rows=rows,
            row_name=partial(_row_of_every, k, count),
        )
        for k in range(count)
    ]


def _row_of_every(first: int, count: int, row: int) -> str:
    return str(first + count * row)


def _every(batches: Iterable[pa.RecordBatch], first: int, count: int) -> Iterator[pa.RecordBatch]:
    """Yield row `first` and every `count`-th row after it."""
    row = 0
    for batch in batches:
        chosen = np.arange((first - row) % count, batch.num_rows, count)
        row += batch.num_rows
        yield batch.take(pa.array(chosen))
