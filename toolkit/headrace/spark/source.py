"""A Spark DataFrame as Arrow record batches, one partition after the other, with bounded memory here.

Of the ways from the JVM to Arrow in this process (3 M rows of timestamp, long
and string, two cores, M rows/s):

* ``toArrow()`` 2.2, and holds the whole table;
* ``RecordBatchReader.from_stream(df)`` 1.5, and fails on any TIMESTAMP column
  (it builds the Arrow schema without a time zone, which Spark asserts);
* the JVM's own Arrow batches, by ``toLocalIterator`` with the next partition
  computed meanwhile: 6.7. It is a method of the classic DataFrame that is not
  part of PySpark's public API, so where it is missing (Spark Connect) the
  batches come through ``mapInArrow``, which is public.

In either way the memory held is that of two partitions, in the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.errors import HeadraceError, InputError, ParameterError
from headrace.ingress.readers import (
    DEFAULT_BATCH_ROWS,
    Reader,
    first_line,
    open_input,
    open_stream,
    select,
    spoken,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SORTED_PARTITION_BYTES = 64 << 20
"""Size that partitions of a sorted DataFrame aim at, by Spark's own estimate."""

_MOST_SORTED_PARTITIONS = 1024


def open_dataframe(
    frame: DataFrame,
    columns: Sequence[str] | None = None,
    sort_by: str | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    name: str = "source (DataFrame)",
    validate: bool = True,
) -> Reader:
    """Return a reader of a batch DataFrame; `headrace.ingress.readers.open_input` calls it.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Its rows come in the order of its partitions. Each pass runs its plan.
    columns : sequence of str, optional
        Only these, in this order; Spark computes no others.
    sort_by : str, optional
        Have Spark sort by this column and, where it is equal, by the others that
        are asked for, in their order: the result does not depend on how Spark ran.
    batch_rows, name, validate
        As in `open_input`.

    Raises
    ------
    SchemaError
        If a column does not exist or occurs twice.
    NotSupportedError
        If a streaming DataFrame is to be sorted.
    """
    if not hasattr(frame, "schema") or not hasattr(frame, "mapInArrow"):
        raise ParameterError(f"{spoken(name)} is a {type(frame).__name__}: give a Spark DataFrame")
    if frame.isStreaming:
        from headrace.spark.streaming import LiveInput

        return open_input(LiveInput(frame), columns, sort_by, batch_rows, name, validate)
    given = frame
    with _translated_errors(name):
        schema = _arrow_schema(frame)
        select(schema.empty_table(), columns, name)
        if sort_by is not None:
            select(schema.empty_table(), [sort_by], name)
            # Only what is asked for goes through the shuffle of the sort.
            is_wanted = columns is None or sort_by in columns
            frame = _sorted(
                frame if columns is None else _project(frame, [*columns, *[sort_by][is_wanted:]]), sort_by
            )
        if columns is not None:
            frame = _project(frame, columns)
            schema = pa.schema([schema.field(column) for column in columns])

    def batches() -> Iterator[pa.RecordBatch]:
        with _translated_errors(name):
            yield from _batches(frame, schema)

    reader = open_stream(schema, batches, None, name, is_replayable=True)
    reader.is_validated, reader.batch_rows = validate, batch_rows
    reader.reopen = lambda chosen, called: open_dataframe(given, chosen, sort_by, batch_rows, called, validate)
    return reader


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _project(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    return frame.select(*[frame[_quoted(column)] for column in columns])


def _arrow_schema(frame: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    large = frame.sparkSession.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true"
    # As toArrow() does: instants, shown in UTC, whatever the session's zone.
    return to_arrow_schema(frame.schema, timezone="UTC", prefers_large_types=large).remove_metadata()


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


def _batches(frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    java_frame = getattr(frame, "_jdf", None)
    if java_frame is not None and hasattr(java_frame, "toArrowBatchRdd"):
        return _java_batches(frame, schema)
    return _python_batches(frame, schema)


def _java_batches(frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    from pyspark.serializers import FramedSerializer
    from pyspark.util import _local_iterator_from_socket

    class Messages(FramedSerializer):
        """Items as the bytes they are: each is one Arrow IPC message, without its schema."""

        def loads(self, obj):
            return obj

        def dumps(self, obj):
            return obj

    java = frame.sparkSession.sparkContext._jvm
    served = java.PythonRDD.toLocalIteratorAndServe(frame._jdf.toArrowBatchRdd(), True)
    for message in _local_iterator_from_socket(served, Messages()):
        yield pa.ipc.read_record_batch(pa.py_buffer(message), schema)


def _python_batches(frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    def to_messages(batches):
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.record_batch({"message": pa.array([sink.getvalue().to_pybytes()], pa.binary())})

    # By number: mapInArrow cannot resolve a name with a dot in it.
    numbered = frame.toDF(*map(str, range(len(schema))))
    messages = numbered.mapInArrow(to_messages, "message binary")
    for row in messages.toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(bytes(row.message)) as stream:
            for batch in stream:
                yield pa.RecordBatch.from_arrays(
                    [batch.column(i).cast(field.type) for i, field in enumerate(schema)], schema=schema
                )


class _translated_errors:
    """Turn what Spark raises into an `InputError` of one line."""

    def __init__(self, name: str):
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, traceback) -> None:
        if error is None or not isinstance(error, Exception) or isinstance(error, HeadraceError):
            return
        from py4j.protocol import Py4JError, Py4JNetworkError
        from pyspark.errors import PySparkException

        if isinstance(error, (Py4JNetworkError, ConnectionError, EOFError)):
            raise InputError(
                f"{spoken(self.name)}: the connection to Spark ended (often for lack of memory): "
                "start a session again, with more memory"
            ) from error
        if isinstance(error, (Py4JError, PySparkException)):
            java = getattr(error, "java_exception", None)
            text = first_line(error) if java is None else _java_text(java, error)
            raise InputError(f"{spoken(self.name)}: Spark could not produce its rows: {text}") from error


def _java_text(java, error: BaseException) -> str:
    try:
        while java.getCause() is not None:
            java = java.getCause()
        return str(java.toString()).splitlines()[0]
    except Exception:  # the JVM may be gone
        return first_line(error)
