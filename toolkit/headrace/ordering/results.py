"""Rows of a pipeline: what its last stage emitted, in the order in which a single worker would have emitted it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.egress.collector import Consumer
from headrace.egress.emitted import emitted_column
from headrace.egress.gather import Gatherer
from headrace.egress.records import Records
from headrace.errors import EventTimeError
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.store import Store
from headrace.ingress.times import restore_times, time_text
from headrace.metrics.latency import LatencyHistogram
from headrace.ordering.binding import Bound


class OrderedResults:
    """Time, then columns.

    `primary` numbers the results, `a` is the tuple of the input, `b` the time, `c` when the first stage took it. Where all
    stages are filters, the columns are the input's; otherwise the values are words.
    """

    reads_b_and_c = True

    def __init__(
        self, name: str, schema: pa.Schema, event_time: str, bound: Bound, stores: Sequence[Store],
        texts: KeyDictionary | None, is_last: bool = True,
    ):  # fmt: skip
        self.name, self.schema, self._event_time, self._bound, self._texts = name, schema, event_time, bound, texts
        self._payload = Gatherer(stores) if bound.passes_input else None
        self.is_last = is_last
        """No operator follows, which would need times that do not go back."""
        self.latest: int | None = None
        """The time of the newest result, if an operator follows."""
        self.processing = LatencyHistogram()
        """From the first stage to the exit, in nanoseconds: processing latency."""

    def compile(self) -> None:
        if self._payload is not None:
            self._payload.compile()
        if self._texts is not None:
            self._texts.compile_results()
        self.processing.add(np.zeros(0, np.int64))

    def finish(self, records: Records) -> pa.RecordBatch:
        # The result ring has one writer: they are in order.
        self.processing.add(time.monotonic_ns() - records.c)
        if not self.is_last:
            self._check_times(records.b)
        if self._payload is not None:
            columns = self._payload.take(records.a, self.schema.names)
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)
        # A copy: Arrow would refer to the collector's array, which the collector overwrites.
        arrays = [restore_times(records.b.copy(), self.schema.field(0).type)]
        emitted = self._bound.stages[-1].emitted
        for field, column, words in zip(list(self.schema)[1:], emitted, records.values, strict=True):
            arrays.append(emitted_column(words, field.type, column.is_float, self._texts))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _check_times(self, times: np.ndarray) -> None:
        """Raise `EventTimeError` if an operator follows, and time goes back."""
        before = times[0] if self.latest is None else self.latest
        falls = np.flatnonzero(np.diff(times, prepend=before) < 0)
        self.latest = int(times[-1])
        if falls.size:
            at, kind = int(falls[0]), self.schema.field(0).type
            earlier = int(times[at - 1]) if at else int(before)
            raise EventTimeError(
                f"{self.name}: emit(ts={time_text(int(times[at]), kind)}) after {time_text(earlier, kind)}: an operator follows,"
                f" for which times must not go back"
            )


class InTimeOfResults:
    """A consumer of a pipeline whose functions give times: its watermark follows the results, not the input.

    A given time may be earlier than the input's by any amount, but not earlier than that of the output before. If the
    consumer were told of the input's progress, windows downstream would close before all their rows had come, and when
    they closed would depend on the timing of threads.

    Parameters
    ----------
    consumer : Consumer
    results : OrderedResults
        What made the batches that it receives.
    """

    def __init__(self, consumer: Consumer, results: OrderedResults):
        self._consumer, self._results = consumer, results
        self.close = consumer.close

    def write(self, batch: pa.RecordBatch) -> None:
        """Hand on results, and the promise that none earlier than the last one will follow."""
        self._consumer.write(batch)
        assert self._results.latest is not None
        self._consumer.progress(self._results.latest - 1)

    def progress(self, watermark: int) -> None:
        """How far the input has come."""


__all__ = ["InTimeOfResults", "OrderedResults"]
