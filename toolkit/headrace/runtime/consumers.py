"""Where an operator's results go: the sink, or the inlets that follow."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.egress.sink import PublishedSink, Sink
from headrace.errors import HeadraceError, RunFailedError
from headrace.memory.cells import read_cell
from headrace.runtime.feeding import Feed, Stopped

_RELAYED = 8
_POLL_S = 0.1


class Relay:
    """Feeds one of several consumers of an operator from a thread of its own.

    Two consumers may meet again in one gate. Fed one after the other, the first
    could fill its buffer there and wait for the second, which would wait for it.
    """

    def __init__(self, consumer: Feed, stop_word: np.ndarray):
        self._consumer, self._stop_word = consumer, stop_word
        self._waiting: queue.Queue[tuple[Callable, tuple]] = queue.Queue(_RELAYED)

    def write(self, batch: pa.RecordBatch) -> None:
        self._put(self._consumer.write, batch)

    def progress(self, watermark: int) -> None:
        self._put(self._consumer.progress, watermark)

    def close(self) -> None:
        self._put(self._consumer.close)

    def _put(self, action: Callable, *arguments: Any) -> None:
        while True:
            if read_cell(self._stop_word, 0):
                raise Stopped
            try:
                self._waiting.put((action, arguments), timeout=_POLL_S)
                return
            except queue.Full:
                continue

    def run(self) -> None:
        """Hand on until the consumer is closed or the run stops."""
        action = None
        while action != self._consumer.close:
            try:
                action, arguments = self._waiting.get(timeout=_POLL_S)
            except queue.Empty:
                if read_cell(self._stop_word, 0):
                    return
                continue
            try:
                action(*arguments)
            except Stopped:
                return


class SinkConsumer:
    """An end of the query: output steps, what keeps results for checkpoints, then the user's sink.

    A `PublishedSink` is completed when its own result has ended, and published when all have, so that its file and
    theirs appear together; any other is closed when its own has.

    A sink need not be safe for two threads: an abort while a thread is in it, with a
    batch, is left to that thread.
    """

    def __init__(
        self, sink: Sink, steps: Sequence[Any], on_closed: Callable[[], None],
        keep: Callable[[pa.RecordBatch], None] | None = None,
    ):  # fmt: skip
        self._sink, self._steps, self._on_closed, self._keep = sink, steps, on_closed, keep
        self._in_use = threading.Lock()
        self._is_aborted = False
        self._is_over = False
        self.is_closed = False
        """It has all results."""
        self.is_final = False
        """The sink was closed or published: what it has stays, whatever becomes of the run."""
        self.rows = 0

    @property
    def _sink_name(self) -> str:
        function = getattr(self._sink, "function", None)
        return type(self._sink).__name__ if function is None else getattr(function, "__qualname__", repr(function))

    def write(self, batch: pa.RecordBatch) -> None:
        for step in self._steps:
            batch = step.apply(batch)
        if batch.num_rows:
            self.rows += batch.num_rows
            self._use(self._write, batch)

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._keep is not None:
            self._keep(batch)
        self._sink.write(batch)

    def replay(self, batch: pa.RecordBatch) -> None:
        """Results that came out in an earlier run, which this one goes on from."""
        self.rows += batch.num_rows
        self._use(self._sink.write, batch)

    def progress(self, watermark: int) -> None:
        pass

    def close(self) -> None:
        self._use(self._close)
        self.is_closed = True
        self._on_closed()

    def _close(self) -> None:
        if isinstance(self._sink, PublishedSink):
            self._sink.complete()
        else:
            self._sink.close()
            self._is_over = self.is_final = True

    def publish(self) -> None:
        """All results of the run have ended."""
        self._use(self._publish)

    def _publish(self) -> None:
        if isinstance(self._sink, PublishedSink):
            self._sink.publish()
            self._is_over = self.is_final = True

    def _use(self, action: Callable, *arguments: Any) -> None:
        try:
            with self._in_use:
                if self._is_aborted:
                    raise Stopped
                self._call(action, *arguments)
        finally:
            if self._is_aborted:
                self.abort()

    def _call(self, action: Callable, *arguments: Any) -> None:
        """Call the sink, or what leads to it: what fails there is the sink's failure."""
        try:
            action(*arguments)
        except HeadraceError:
            raise
        except Exception as error:
            raise RunFailedError(f"the sink ({self._sink_name}) failed: {type(error).__name__}: {error}") from error

    def abort(self) -> None:
        """The run failed or was stopped. Safe from any thread, and twice."""
        self._is_aborted = True
        if self._in_use.acquire(blocking=False):
            try:
                if not self._is_over:
                    self._is_over = True
                    self._call(self._sink.abort)
            finally:
                self._in_use.release()
