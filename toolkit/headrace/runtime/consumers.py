"""The consumers of an operator's results: the sink, or the inlets downstream."""

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
from headrace.runtime.feeding import Feeder, Stopped

_RELAYED = 8
_POLL_S = 0.1


class Relay:
    """Feeds one of several consumers of an operator from a thread of its own.

    The paths of two consumers may meet again in one gate. If one thread fed both in turn, it
    could block on the first one's full buffer there while the gate waits for the second.
    """

    def __init__(self, consumer: Feeder, stop_word: np.ndarray):
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
        """Pass on what is given until the consumer is closed or the run stops."""
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
    """An output of the query: output steps, the results log of checkpoints, then the user's sink.

    A `PublishedSink` is completed when its own result has ended, and published when all results have, so that the files
    of all results appear together. Any other sink is closed when its own result has ended.

    A sink need not be thread-safe: an abort that comes while a thread is inside it with
    a batch is left to that thread.
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
        """Whether it has all results."""
        self.is_final = False
        """Whether the sink was closed or published: its contents then stay, however the run ends."""
        self.rows = 0

    @property
    def is_in_use(self) -> bool:
        """Whether a thread is inside the sink."""
        return self._in_use.locked()

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
        """Take results that came out in an earlier run, from whose checkpoint this one goes on."""
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
        """All results of the run have ended: publish a `PublishedSink`."""
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
        """Run an action on the sink; an exception in it is reported as the sink's failure."""
        try:
            action(*arguments)
        except HeadraceError:
            raise
        except Exception as error:
            raise RunFailedError(f"the sink ({self._sink_name}) failed: {type(error).__name__}: {error}") from error

    def abort(self) -> None:
        """The run failed or was stopped: abort the sink. Safe from any thread, and more than once."""
        self._is_aborted = True
        if self._in_use.acquire(blocking=False):
            try:
                if not self._is_over:
                    self._is_over = True
                    self._call(self._sink.abort)
            finally:
                self._in_use.release()
