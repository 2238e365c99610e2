"""An external source at run time: one thread reads and encodes, another feeds the gate.

Encoding the next batch overlaps with the gate's taking of this one; the queue
between the two is short, so back-pressure reaches the reader.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.engine.operator import Operator
from headrace.engine.options import PassedTime
from headrace.engine.port import Port, Stopped
from headrace.errors import HeadraceError, LateRowError, ParameterError, RunFailedError
from headrace.expressions.rows import filter_rows, take_rows
from headrace.ingress.readers import spoken
from headrace.ingress.reorder import Reorder
from headrace.ingress.times import event_times
from headrace.progress import MIN_TIME
from headrace.query import SourceNode
from headrace.rates import RateSchedule

_QUEUED_BATCHES = 2
_POLL_S = 0.1


class SourceThreads:
    """Reads one external source into a port.

    Parameters
    ----------
    operator : Operator
    port : Port
        Of the operator, whose branch begins at the source.
    fail : callable
        Takes what went wrong while reading.
    """

    def __init__(self, operator: Operator, port: Port, fail: Callable[[BaseException], None]):
        assert isinstance(port.branch.origin, SourceNode)
        self._operator, self._port, self._fail = operator, port, fail
        self.node = node = port.branch.origin
        self.name = f"{operator.name}-source{port.source}"
        port.giver = self
        self.rows = 0
        self.first_add_ns = 0
        self.passed_time: list[tuple[str, int, int, int]] = []
        self._recorded = self._recorded_times(operator.options.passed_time)
        self._fed = 0
        self._set_aside: list[pa.Table] = []
        self._late_rows = 0
        reader = node.readers[port.branch.source_index]()
        is_whole = port.branch.steps or node.late == "side"
        columns = reader.schema.names if is_whole else port.encoder.columns_used
        self._reader = reader.select(columns, port.branch.source)
        self._queue: queue.Queue[Any] = queue.Queue(_QUEUED_BATCHES)
        self._reorder: Reorder | None = None
        if node.lateness is not None:
            self._reorder = Reorder(
                node.lateness,
                node.late,
                column=node.event_time,
                window_size=port.encoder.window_size,
                source=port.branch.source,
            )

    def _recorded_times(self, entries: PassedTime | None) -> deque[tuple[int, int]] | None:
        """What an earlier run decided for this source: (rows before, time passed to); None: the clock decides."""
        if entries is None:
            return None
        mine = [(rows, ts) for name, source, rows, ts in entries if (name, source) == (self._operator.name, self._port.source)]
        if mine and self.node.idle_after is None:
            raise ParameterError(
                f"passed_time: time passed for source {self._port.source} of {self._operator.name!r}, which has no"
                f" idle_after here; replay the query that was recorded"
            )
        return deque(mine)

    @property
    def late_rows(self) -> int:
        """Rows that came too late and were dropped or set aside."""
        return self._late_rows + (self._reorder.counters.late if self._reorder else 0)

    @property
    def late_tables(self) -> list[pa.Table]:
        """Late rows that were kept, in order of arrival: none at first; no table where late rows are not set aside."""
        if self.node.late != "side":
            return []
        table = self._reorder.late_table() if self._reorder else None
        return [self._reader.schema.empty_table() if table is None else table, *self._set_aside]

    @property
    def taken(self) -> int:
        """Rows that were added, filtered or late."""
        return self._port.added - self._port.gained + self._port.filtered + self.late_rows

    @property
    def rate(self) -> float | None:
        """Tuples per second that are played now; None at full speed, and where event times are played."""
        return self._port.player.rate

    def play(self, schedule: RateSchedule | None) -> None:
        """Play at another rate from now on."""
        self._port.player.play(schedule, self._port.added)

    def stop(self) -> None:
        """The run is over: a reader that waits for more need not."""
        if self._reader.stop is not None:
            self._reader.stop()

    def read(self) -> None:
        """Body of the reading thread."""
        try:
            for batch in self._reader:
                self.rows += batch.num_rows
                ts = None
                if self._reorder is not None:
                    ts = event_times(_column(batch, self.node), self.node.event_time, self._reorder.counters.rows)
                    batch, ts = self._reorder.add(batch, ts)
                self._hand_over(batch, ts)
            if self._reorder is not None:
                batch, ts = self._reorder.finish()
                if batch is not None:
                    self._hand_over(batch, ts)
            self._put(None)
        except Stopped:
            pass
        except (HeadraceError, KeyboardInterrupt) as error:
            self._fail(error)
        except BaseException as error:
            failed = RunFailedError(f"reading {spoken(self._port.branch.source)} failed: {type(error).__name__}: {error}")
            failed.__cause__ = error
            self._fail(failed)

    def _hand_over(self, batch: pa.RecordBatch, ts: np.ndarray | None) -> None:
        if self.node.idle_after is not None:
            # What is late is known only when a row meets the gate: encode there.
            self._put(batch)
            return
        for encoded in self._port.encode(batch, ts):
            self._put(encoded)
        if self._port.branch.steps and batch.num_rows:
            self._put(_last_time(batch, self.node))  # filtered rows still move time

    def _put(self, item: Any) -> None:
        while True:
            if self._operator.is_stopped:
                raise Stopped
            try:
                self._queue.put(item, timeout=_POLL_S)
                return
            except queue.Full:
                continue

    def feed(self) -> None:
        """Body of the feeding thread."""
        idle = self.node.idle_after if self._recorded is None else None
        since = time.monotonic()
        try:
            while True:
                try:
                    item = self._queue.get(timeout=_POLL_S if idle is None else min(_POLL_S, idle / 2))
                except queue.Empty:
                    if self._operator.is_stopped:
                        return
                    if idle is not None and time.monotonic() - since >= idle:
                        self._pass_time()
                    continue
                if not self.first_add_ns:
                    self.first_add_ns = time.monotonic_ns()
                if item is None:
                    while self._recorded:
                        self._pass_time_to(self._recorded.popleft()[1])
                    self._port.close()
                    return
                if isinstance(item, int):
                    self._port.heartbeat(item)
                elif isinstance(item, pa.RecordBatch):
                    self._feed_in_time(item)
                else:
                    self._port.feed(item)
                since = time.monotonic()
        except Stopped:
            pass

    def _pass_time(self) -> None:
        """An idle source lets the others go on: its time follows the furthest of them."""
        others = (port.reached for port in self._operator.ports if port is not self._port)
        furthest = max(others, default=MIN_TIME)
        if furthest > self._port.mark:
            self._pass_time_to(furthest)

    def _pass_time_to(self, ts: int) -> None:
        self._port.heartbeat(ts)
        self.passed_time.append((self._operator.name, self._port.source, self._fed, ts))

    def _feed_in_time(self, batch: pa.RecordBatch) -> None:
        """Feed rows of a source that may be passed over as idle; a replay passes it over between the same rows."""
        while self._recorded and self._recorded[0][0] < self._fed + batch.num_rows:
            rows, ts = self._recorded.popleft()
            before = max(0, rows - self._fed)
            self._feed_rows(batch.slice(0, before))
            batch = batch.slice(before)
            self._pass_time_to(ts)
        self._feed_rows(batch)

    def _feed_rows(self, batch: pa.RecordBatch) -> None:
        """Feed rows; those behind the time that passed are late."""
        self._fed += batch.num_rows
        ts = event_times(_column(batch, self.node), self.node.event_time)
        late = np.flatnonzero(ts < (self._port.mark if self.passed_time else MIN_TIME))
        if len(late):
            if self.node.late == "error":
                raise LateRowError(
                    f"{spoken(self._port.branch.source)}: {len(late)} rows, the first of event time {ts[late[0]]}, are earlier"
                    f" than the time that passed while the source was idle (idle_after={self.node.idle_after} s);"
                    f" pass late='drop' or 'side', or a longer idle_after="
                )
            self._late_rows += len(late)
            if self.node.late == "side":
                self._set_aside.append(pa.Table.from_batches([take_rows(batch, late)]))
            batch = filter_rows(batch, ts >= self._port.mark)
        for encoded in self._port.encode(batch):
            self._port.feed(encoded)
        if self._port.branch.steps and batch.num_rows:
            self._port.heartbeat(_last_time(batch, self.node))


def _column(batch: pa.RecordBatch, node: SourceNode) -> pa.Array:
    return batch.column(batch.schema.get_field_index(node.event_time))


def _last_time(batch: pa.RecordBatch, node: SourceNode) -> int:
    return int(event_times(_column(batch, node).slice(batch.num_rows - 1), node.event_time)[0])
