"""A batch DataFrame as the source of a run: its columns, its order, its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.errors import InputError, ParameterError
from headrace.ingress.input_errors import display_name
from headrace.ingress.readers import DEFAULT_BATCH_ROWS, Reader, open_input, open_stream, select
from headrace.spark.arrow import arrow_schema, is_stopped, read_batches, translated_spark_errors
from headrace.spark.streaming import LiveInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SORTED_PARTITION_BYTES = 64 << 20
"""Target size of the partitions of a sorted DataFrame, by Spark's own estimate."""

_MOST_SORTED_PARTITIONS = 1024


def open_dataframe(
    frame: DataFrame,
    columns: Sequence[str] | None = None,
    sort_by: str | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    name: str = "source (DataFrame)",
    validate: bool = True,
) -> Reader:
    """Return a reader of a DataFrame; registered with `headrace.ingress.readers.open_input`, which calls it.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Its rows come in the order of its partitions. Each pass runs its plan.
    columns : sequence of str, optional
        Read only these, in this order; Spark computes no others.
    sort_by : str, optional
        Have Spark sort by this column and, where it is equal, by the other columns read,
        in their order: the result does not depend on how Spark ran.
    batch_rows, name, validate
        As in `open_input`.

    Raises
    ------
    SchemaError
        A column does not exist or occurs twice.
    NotSupportedError
        A streaming DataFrame is to be sorted.
    """
    if not hasattr(type(frame), "schema") or not hasattr(type(frame), "mapInArrow"):
        raise ParameterError(f"{display_name(name)} is of type {type(frame).__name__}: give a Spark DataFrame")
    if frame.isStreaming:
        return open_input(LiveInput(frame), columns, sort_by, batch_rows, name, validate)
    _check_running(frame, name)
    with translated_spark_errors(name):
        schema = arrow_schema(frame)
        select(schema.empty_table(), columns, name)
        if sort_by is not None:
            select(schema.empty_table(), [sort_by], name)
        if columns is not None:
            schema = pa.schema([schema.field(column) for column in columns])

    def batches() -> Iterator[pa.RecordBatch]:
        _check_running(frame, name)
        with translated_spark_errors(name):
            read = frame
            if sort_by is not None:  # only now: Spark computes constants of columns that it plans for, and logs what fails
                # Only the wanted columns go through the shuffle of the sort.
                is_wanted = columns is None or sort_by in columns
                read = _sorted(
                    frame if columns is None else _project(frame, [*columns, *[sort_by][is_wanted:]]), sort_by
                )
            yield from read_batches(read if columns is None else _project(read, columns), schema)

    reader = open_stream(schema, batches, None, name, is_replayable=True)
    reader.is_validated, reader.batch_rows = validate, batch_rows
    if sort_by is not None:
        reader.row_name = lambda row: f"{row} of those sorted by {sort_by!r}"
    reader.reopen = lambda chosen, called: open_dataframe(frame, chosen, sort_by, batch_rows, called, validate)
    return reader


def _check_running(frame: DataFrame, name: str) -> None:
    if is_stopped(frame.sparkSession):
        raise InputError(
            f"{display_name(name)}: its Spark session was stopped; make a new one, hr.spark.session(), and the DataFrame again"
        )


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _project(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    return frame.select(*[frame[_quoted(column)] for column in columns])


def _sorted(frame: DataFrame, column: str) -> DataFrame:
    key = frame[_quoted(column)]
    # Spark's sort is not stable, and rows of a shuffle come in any order: the other columns break
    # ties, so that only equal rows can change places from one run to the next.
    others = [
        frame[_quoted(field.name)]
        for field in frame.schema
        if field.name != column and frame.columns.count(field.name) == 1 and _is_orderable(field.dataType)
    ]
    partitions = _partitions_for(frame)
    if partitions is None:
        return frame.orderBy(key, *others)
    # As orderBy, with as many partitions as keep each one small: equal keys stay in one of them.
    return frame.repartitionByRange(partitions, key).sortWithinPartitions(key, *others)


def _is_orderable(kind) -> bool:
    from pyspark.sql import types

    if isinstance(kind, types.ArrayType):
        return _is_orderable(kind.elementType)
    if isinstance(kind, types.StructType):
        return all(_is_orderable(field.dataType) for field in kind)
    atomic = (types.NumericType, types.StringType, types.BinaryType, types.BooleanType, types.DatetimeType)
    return isinstance(kind, atomic)


def _partitions_for(frame: DataFrame) -> int | None:
    try:
        size = int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes().longValue())
    except Exception:  # private API: any failure means only that there is no estimate
        return None
    at_least = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions", "2"))
    if size < 0 or size > _MOST_SORTED_PARTITIONS * SORTED_PARTITION_BYTES:
        # Without statistics Spark says 2**63 - 1.
        return max(at_least, 16)
    return max(at_least, -(-size // SORTED_PARTITION_BYTES))
