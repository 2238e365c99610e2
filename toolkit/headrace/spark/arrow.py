"""Spark's rows as Arrow: the schema, the batches, and errors of Spark.

The ways from the JVM to Arrow in this process (3 M rows of timestamp, long
and string, two cores, M rows/s):

* ``toArrow()`` 2.2, but it holds the whole table;
* ``RecordBatchReader.from_stream(df)`` 1.5, but it fails on any TIMESTAMP column
  (it builds the Arrow schema without a time zone, which Spark asserts);
* the JVM's own Arrow batches, by ``toLocalIterator`` with the next partition
  computed meanwhile: 6.7. This is a method of the classic DataFrame that is not
  part of PySpark's public API, so where it is missing (Spark Connect) the
  batches come through ``mapInArrow``, which is public.

Either way, the memory held is that of two partitions, in the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.errors import HeadraceError, InputError
from headrace.ingress.input_errors import display_name, first_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the schema of the batches that `read_batches` yields."""
    from pyspark.sql.pandas.types import to_arrow_schema

    large = frame.sparkSession.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true"
    # As toArrow() does: instants, shown in UTC, whatever the session's zone.
    return to_arrow_schema(frame.schema, timezone="UTC", prefers_large_types=large).remove_metadata()


def read_batches(frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Run a batch DataFrame's plan and yield its rows, partition by partition."""
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


def is_stopped(session: Any) -> bool:
    """Whether a session in this process was stopped; False where that cannot be known."""
    context = getattr(session, "_sc", None)
    return context is not None and getattr(context, "_jsc", context) is None


def connection_ended(name: str) -> InputError:
    """Return the error that an input's virtual machine has ended."""
    return InputError(
        f"{display_name(name)}: the connection to Spark ended (often for lack of memory): start a session again, with more"
        " memory, hr.spark.session(memory=...)"
    )


class translated_spark_errors:
    """Turn errors of Spark into an `InputError` of one line."""

    def __init__(self, name: str):
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, traceback) -> None:
        if error is None or not isinstance(error, Exception) or isinstance(error, HeadraceError):
            return
        from py4j.protocol import Py4JError, Py4JNetworkError
        from pyspark.errors import PySparkException

        # A call that was under way when the virtual machine died fails without an error from Java.
        is_cut_off = type(error) is Py4JError and "Trace:" not in str(error)
        if is_cut_off or isinstance(error, (Py4JNetworkError, ConnectionError, EOFError)):
            raise connection_ended(self.name) from error
        if isinstance(error, (Py4JError, PySparkException)):
            java = getattr(error, "java_exception", None)
            text = first_line(error) if java is None else _java_text(java, error)
            raise InputError(f"{display_name(self.name)}: Spark could not produce its rows: {text}") from error


def _java_text(java, error: BaseException) -> str:
    try:
        while java.getCause() is not None:
            java = java.getCause()
        return _one_line(str(java.toString()))
    except Exception:  # the JVM may be gone
        return first_line(error)


def _one_line(text: str) -> str:
    """Return the first line; of a traceback of a user's function in Python the exception, too.

    Examples
    --------
    >>> _one_line("PythonException: Traceback (most recent call last):\\n  File ...\\nZeroDivisionError: division by zero\\n")
    'PythonException: ZeroDivisionError: division by zero'
    """
    first, *others = text.splitlines()
    before, traceback, _ = first.partition("Traceback (most recent call last):")
    raised = next((line for line in others if line[:1].strip()), "")
    return before + raised if traceback and raised else first
