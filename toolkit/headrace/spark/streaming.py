"""A streaming DataFrame as the source of a run: Spark's micro-batches, one after another, for as long as they come.

A streaming query of Spark hands each micro-batch to `foreachBatch`; its rows
go as Arrow into a short queue, from which the run reads. A full queue keeps
`foreachBatch` waiting, so back-pressure reaches Spark: it starts no further
batch and, with a limit such as ``maxFilesPerTrigger``, holds no more of them.

Restarts. A batch is handed over as a whole or not at all, and batches are
numbered. A query that fails is started again from its checkpoint
(`restarts` times), while the run goes on; Spark then repeats the batch it had
not noted as done, and a batch whose number was handed over already is skipped. So
within one run nothing is lost or repeated.

A later run with the same checkpoint goes on after the last noted batch. Spark notes a
batch when it is handed over, not when its results are out. Tuples that the earlier
run had taken, but whose results it had not emitted, are therefore lost: those in open windows, held back
for `lateness`, or waiting in the queue or the gate (some batches, with a slow
engine). If a run is stopped after a batch was handed over and before Spark
noted it, the next run sees that batch again. Without your own
checkpoint every run begins where Spark's source begins.

Memory      two micro-batches, and what the run holds
Time        rows come in the order in which Spark read them; ``withWatermark`` on the
            frame bounds their disorder, and becomes the stream's `lateness`
"""

from __future__ import annotations

import queue
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.arguments import is_whole_number
from headrace.errors import InputError, ParameterError
from headrace.ingress.input_errors import display_name, first_line
from headrace.ingress.readers import Reader, open_stream
from headrace.spark.arrow import arrow_schema, connection_ended, read_batches, translated_spark_errors
from headrace.spark.session import has_died

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_QUEUED = 1
_POLL_S = 0.1
_DELAY_KEY = "spark.watermarkDelayMs"
_STREAMING_LOGGER = "org.apache.spark.sql.execution.streaming"


class LiveInput:
    """A streaming DataFrame that a run reads while Spark produces it.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        A streaming DataFrame without an aggregation of its own.
    checkpoint : str, optional
        Directory in which Spark notes the batches it has done; by default a
        temporary one.
    trigger : dict, optional
        For ``writeStream.trigger``: ``{"processingTime": "1 second"}``, or
        ``{"availableNow": True}`` (read the data present, then end the input); by
        default each batch follows the last as soon as there is data.
    restarts : int
        How often a failed query is started again.

    Attributes
    ----------
    query : pyspark.sql.streaming.StreamingQuery or None
        Spark's query, once the run has started, with its ``lastProgress`` and ``status``.
    last_batch : int
        Number of the newest batch that was handed over; -1 before the first.

    Examples
    --------
    >>> frame = spark.readStream.schema("ts long, k string").json("incoming")  # doctest: +SKIP
    >>> live = hr.spark.live(frame, trigger={"availableNow": True})  # doctest: +SKIP
    >>> hr.stream(live, event_time="ts", lateness=500).key_by("k")  # doctest: +SKIP
    """

    kind_in_words = "streaming DataFrame"

    def __init__(
        self,
        frame: DataFrame,
        checkpoint: str | None = None,
        trigger: dict[str, Any] | None = None,
        restarts: int = 0,
    ):
        if not getattr(frame, "isStreaming", False):
            raise ParameterError(
                f"frame = {type(frame).__name__}: not a streaming DataFrame; give one of spark.readStream, or hand a"
                " batch DataFrame to hr.stream itself"
            )
        if not is_whole_number(restarts) or restarts < 0:
            raise ParameterError(f"restarts = {restarts!r}: give a whole number from 0")
        self.frame, self.checkpoint, self.trigger, self.restarts = frame, checkpoint, trigger, restarts
        self.query: StreamingQuery | None = None
        self.last_batch = -1
        self.restarted = 0
        with translated_spark_errors("source (streaming DataFrame)"):
            self.schema = arrow_schema(frame)
        self._queue: queue.Queue[list[pa.RecordBatch]] = queue.Queue(_QUEUED)
        self._stopped = threading.Event()
        self._temporary: str | None = None
        self._cause: Exception | None = None
        self._reader: Reader | None = None
        self._hushed: _HushedLog | None = None

    @property
    def _name(self) -> str:
        """What errors call it: its reader knows once the run has numbered its sources."""
        return "source (streaming DataFrame)" if self._reader is None else self._reader.name

    def delay_us(self, column: str) -> int | None:
        """Delay of the frame's ``withWatermark`` on this column, in microseconds; None without one."""
        for field in self.frame.schema:
            if field.name == column and field.metadata and _DELAY_KEY in field.metadata:
                return int(field.metadata[_DELAY_KEY]) * 1000
        return None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Start Spark's query and give its rows until it ends, fails for good, or is stopped."""
        try:
            self._start()
            while not self._stopped.is_set():
                try:
                    batches = self._queue.get(timeout=_POLL_S)
                except queue.Empty:
                    if self._has_ended():
                        break
                    continue
                yield from batches
        finally:
            self._end()

    def stop(self) -> None:
        """End the input at once for the run; Spark's query ends a moment later. May be called repeatedly, by any thread."""
        self._stopped.set()

    def open_reader(self, columns: Sequence[str] | None, batch_rows: int, name: str, validate: bool) -> Reader:
        """Return the reader of this input; `headrace.ingress.readers.open_input` calls it."""
        reader = open_stream(self.schema, lambda: self, columns, name)
        reader.is_validated, reader.batch_rows = validate, batch_rows
        reader.stop, reader.delay_us = self.stop, self.delay_us
        self._reader = reader
        return reader

    def _end(self) -> None:
        self._stopped.set()
        is_alive = not has_died()
        if self.query is not None and is_alive:
            with _quietly():
                self.query.stop()
        if self._hushed is not None:
            self._hushed.end(is_alive)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def _start(self) -> None:
        if self.checkpoint is None and self._temporary is None:
            self._temporary = tempfile.mkdtemp(prefix="headrace-checkpoint-")
        writer = self.frame.writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", self.checkpoint or self._temporary)
        if self.trigger is not None:
            writer = writer.trigger(**self.trigger)
        with translated_spark_errors(self._name):
            self.query = writer.start()

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        """Called by Spark, in a thread of its own, with each micro-batch in turn."""
        try:
            self._deliver(frame, batch_id)
        except Exception as error:
            self._cause = error  # Spark would return its text among those of its own layers
            raise

    def _deliver(self, frame: DataFrame, batch_id: int) -> None:
        if batch_id <= self.last_batch:
            return  # repeated after a restart
        # Collected as a whole first: a batch that breaks off is repeated from its first row.
        batches = list(read_batches(frame, self.schema))
        while not self._stopped.is_set():
            try:
                self._queue.put(batches, timeout=_POLL_S)
            except queue.Full:
                continue
            self.last_batch = batch_id
            return
        self._hushed = _HushedLog(frame.sparkSession)
        raise InputError("the run was stopped")  # so that Spark does not note the batch as done

    def _has_ended(self) -> bool:
        """Whether nothing more will come. Starts the query again where that is allowed; raises what ended it."""
        query = self.query
        if query is None:
            return False
        if has_died():  # a call now would make py4j log it in 30 lines
            raise connection_ended(self._name)
        with translated_spark_errors(self._name):
            if query.isActive:
                return False
            error = query.exception()
        if error is None or self._stopped.is_set():
            return self._queue.empty()  # what came between the two checks is still read
        if not self._queue.empty():
            return False
        if self.restarted < self.restarts:
            self.restarted += 1
            self._cause = None
            self._start()
            return False
        text = first_line(self._cause or getattr(error, "cause", None) or error)
        raise InputError(
            f"{display_name(self._name)}: Spark's query failed after batch {self.last_batch}: {text};"
            f" pass restarts= to hr.spark.live to have it started again"
        ) from (self._cause or error)


class _HushedLog:
    """From here to `end` Spark's streaming queries write nothing to its log.

    If a run is stopped while Spark waits for it, the batch must fail, or
    Spark would note it as done; Spark would log this failure as an error of 70 lines.
    """

    _lock = threading.Lock()
    _count = 0
    _level: Any = None

    def __init__(self, spark: Any):
        self._is_on = False
        with self._lock, _quietly():
            self._logging = spark._jvm.org.apache.logging.log4j
            if _HushedLog._count == 0:
                _HushedLog._level = self._logging.LogManager.getLogger(_STREAMING_LOGGER).getLevel()
                self._set(self._logging.Level.OFF)
            _HushedLog._count += 1
            self._is_on = True

    def end(self, is_alive: bool) -> None:
        """Let Spark write again; a virtual machine that has died is asked nothing, but counts no longer."""
        with self._lock, _quietly():
            _HushedLog._count -= self._is_on
            if self._is_on and is_alive and _HushedLog._count == 0:
                self._set(_HushedLog._level)

    def _set(self, level: Any) -> None:
        self._logging.core.config.Configurator.setLevel(_STREAMING_LOGGER, level)


class _quietly:
    """Suppress the errors of a query that has ended, or whose JVM is gone, before it is stopped."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind, error, traceback) -> bool:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        return isinstance(error, (Py4JError, PySparkException, ConnectionError, EOFError))


def live(
    frame: DataFrame,
    *,
    checkpoint: str | None = None,
    trigger: dict[str, Any] | None = None,
    restarts: int = 0,
) -> LiveInput:
    """Make a streaming DataFrame the source of a run; ``hr.stream(frame, ...)`` does the same with the defaults.

    Parameters
    ----------
    frame, checkpoint, trigger, restarts
        As of `LiveInput`.

    Examples
    --------
    >>> frame = spark.readStream.schema("ts long, k string").json("incoming")  # doctest: +SKIP
    >>> live = hr.spark.live(frame, trigger={"availableNow": True})  # doctest: +SKIP
    """
    return LiveInput(frame, checkpoint, trigger, restarts)
