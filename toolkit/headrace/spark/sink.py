"""Results as a Spark DataFrame: in memory if they are small, through Parquet if they are large."""

from __future__ import annotations

import atexit
import itertools
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.arguments import shown
from headrace.egress.sinks import ROW_GROUP
from headrace.errors import OutputError, ParameterError, UnsupportedTypeError
from headrace.ingress.columns import plain_type
from headrace.ingress.input_errors import first_line
from headrace.spark.arrow import is_stopped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

IN_MEMORY_BYTES = 128 << 20
"""Above this size a local session reads Parquet (6.7 against 3.5 M rows/s, and no copy in the JVM's heap)."""
_MOST_DIGITS = 38
"""Of Spark's decimals."""
_LACKING = (
    pa.types.is_union, pa.types.is_run_end_encoded, pa.types.is_interval, pa.types.is_decimal256,
    pa.types.is_list_view, pa.types.is_large_list_view,  # pyarrow 26 casts them to invalid lists
)  # fmt: skip


def check_session(spark: Any) -> None:
    """Raise `ParameterError` where no DataFrame can be made: of what is no session, or of one that was stopped."""
    if not hasattr(spark, "createDataFrame"):
        raise ParameterError(f"to_spark({shown(spark)}): give a Spark session, as of hr.spark.session()")
    if is_stopped(spark):
        raise ParameterError(f"to_spark({shown(spark)}): this Spark session was stopped; make a new one, hr.spark.session()")


def to_dataframe(
    spark: SparkSession,
    result: pa.Table | Iterable[pa.RecordBatch],
    schema: pa.Schema | None = None,
    in_memory_bytes: int = IN_MEMORY_BYTES,
) -> DataFrame:
    """Return a DataFrame of an Arrow table or of record batches, with the rows in their order.

    Parameters
    ----------
    spark : SparkSession
    result : pa.Table or iterable of pa.RecordBatch
        Read once, and held in memory only up to `in_memory_bytes` if executors see
        this machine's files.
    schema : pa.Schema, optional
        Schema of the batches; needed if there may be none.
    in_memory_bytes : int
        Beyond this size the rows go to a temporary Parquet file, which is removed when
        this process exits.

    Raises
    ------
    ParameterError
        That is no session, or one that was stopped.
    UnsupportedTypeError
        Spark has no such type.
    OutputError
        The temporary file cannot be written.
    """
    check_session(spark)
    if isinstance(result, pa.Table):
        schema, batches = result.schema, iter(result.to_batches())
    else:
        batches = iter(result)
    held: deque[pa.RecordBatch] = deque()
    size = 0
    for batch in batches:
        schema = schema or batch.schema
        held.append(_for_spark(batch))
        size += batch.nbytes
        if size > in_memory_bytes and _is_local(spark) and not any(map(_needs_memory, batch.schema.types)):
            return _through_parquet(spark, held, batches)
    if schema is None:
        raise OutputError("no batch and no schema: give schema=...")
    from pyspark.sql.pandas.types import from_arrow_schema

    table = pa.Table.from_batches(held, pa.schema([_for_field(field) for field in schema]))
    # Otherwise Spark takes times without a zone for times of its session's zone.
    kinds = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    return spark.createDataFrame(table, kinds) if table.num_rows else spark.createDataFrame([], kinds)


def _is_local(spark: SparkSession) -> bool:
    context = getattr(spark, "_jsc", None)
    return context is not None and spark.sparkContext.master.startswith("local")


def _through_parquet(
    spark: SparkSession, held: deque[pa.RecordBatch], rest: Iterator[pa.RecordBatch]
) -> DataFrame:
    folder = Path(tempfile.mkdtemp(prefix="headrace-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # One file: Spark reads several in the order of their sizes.
    path = folder / "result.parquet"
    try:
        with pq.ParquetWriter(path, held[0].schema) as writer:
            for group in _grouped(itertools.chain(_taken_out(held), map(_for_spark, rest))):
                writer.write_table(group, row_group_size=ROW_GROUP)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)  # otherwise it would fill the disk for as long as the process lives
        if isinstance(error, OutputError) or not isinstance(error, (OSError, pa.ArrowException)):
            raise
        raise OutputError(
            f"temporary result {path} cannot be written: {first_line(error)}; free space or set TMPDIR"
        ) from error
    return spark.read.parquet(path.as_uri())


def _taken_out(held: deque[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give what is held, and hold it no longer."""
    while held:
        yield held.popleft()


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Put batches of few rows together: a join gives some dozens at a time, and each would be a row group of the file."""
    group: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        group.append(batch)
        rows += batch.num_rows
        if rows >= ROW_GROUP:
            yield pa.Table.from_batches(group)
            group, rows = [], 0
    if group:
        yield pa.Table.from_batches(group)


def _for_field(field: pa.Field) -> pa.Field:
    return field.with_type(_for_type(field.name, field.type)).remove_metadata()


def _for_type(name: str, kind: pa.DataType) -> pa.DataType:
    """Return the type that Spark has for an Arrow type, the next wider one where it has none of that kind."""
    kind = plain_type(kind)
    if pa.types.is_unsigned_integer(kind):
        return pa.int64() if kind.bit_width >= 32 else pa.int32() if kind.bit_width == 16 else pa.int16()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_time(kind):
        return pa.time64("us")
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal256(kind) and kind.precision <= _MOST_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_for_inner(name, kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_for_inner(name, kind.field(i)) for i in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(_for_inner(name, kind.key_field), _for_inner(name, kind.item_field))
    if any(lacks(kind) for lacks in _LACKING):
        raise UnsupportedTypeError(f"column {name!r} has type {kind}, which Spark lacks: cast it")
    return kind


def _for_inner(name: str, field: pa.Field) -> pa.Field:
    """A field within a column of this name."""
    return field.with_type(_for_type(name, field.type))


def _needs_memory(kind: pa.DataType) -> bool:
    """Whether Spark takes a type, or one within it, from memory only: in Parquet, times of day are refused, durations numbers."""
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return True
    return any(_needs_memory(kind.field(i).type) for i in range(kind.num_fields))


def _for_spark(batch: pa.RecordBatch) -> pa.RecordBatch:
    schema = pa.schema([_for_field(field) for field in batch.schema])
    if schema.equals(batch.schema):
        return batch.replace_schema_metadata(None)
    arrays = []
    for field, array in zip(schema, batch.columns, strict=True):
        try:
            arrays.append(array.cast(field.type))
        except pa.ArrowException as error:
            raise OutputError(
                f"column {field.name!r} does not fit Spark's {field.type}: {first_line(error)}; cast it"
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
