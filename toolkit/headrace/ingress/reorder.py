"""Bounded repair of disorder at ingress: rows wait until no earlier row can come.

At each row the watermark is the largest event time before it minus the
lateness, or the source's last promise before it (`Reorder.promise`) if that is
greater; a row below the watermark is late. This is decided row by row, so it does not
depend on how rows were batched. Rows that are not late leave in the order of
(event time, arrival), as soon as the watermark has reached their time. Without a
lateness only promises move the watermark, and rows between two promises may come in any order.

With lateness 3, arriving from left to right::

    time         5   9   7   5   12  9
    watermark    -   2   6   6   6   9
    late                     *            (5 < 6; the last row, 9, is in time)

and 5 7 9 9 leave once the watermark is 9; 12 waits.

Waiting rows are held as sorted runs, in the order of arrival: each batch adds a run, and
the ready rows are a slice at the front of each run. So a row is sorted once, in its
batch, and merged once, when it leaves. Runs of few rows are merged with their
neighbours earlier, so that many small batches do not make many runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from headrace.errors import LateRowError, OverflowInputError, ParameterError
from headrace.expressions.rows import concat_batches, empty_batch, filter_rows, take_rows
from headrace.ingress.times import check_range, span_text, time_text
from headrace.kernel import kernel
from headrace.progress import END_OF_TIME, MIN_TIME

LATE = ("error", "drop", "side")
SHORT_RUN = 1 << 13
"""Rows below which a run is merged with its neighbour."""
_INTEGER = pa.int64()
_Run: TypeAlias = tuple[np.ndarray, np.ndarray, pa.RecordBatch]
"""Times, numbers of the rows in the input, rows: all sorted by time."""


@kernel
def find_late(ts, highest, lateness, promised, is_late):
    """Mark the rows below the watermark at their arrival; returns the largest event time so far."""
    for i in range(ts.size):
        is_late[i] = ts[i] < max(highest - lateness, promised)
        highest = max(highest, ts[i])
    return highest


@dataclass(slots=True)
class ReorderCounters:
    """Rows that came in, were released, and were late: rows = released + late + waiting."""

    rows: int = 0
    released: int = 0
    late: int = 0


class Reorder:
    """Put rows in order within a lateness.

    Parameters
    ----------
    lateness : int or None
        In the stream's unit, at least 0; None: only promises move time.
    late : {"error", "drop", "side"}
        Treatment of a row below the watermark: an error, counted, or
        counted and kept for `late_table`.
    max_waiting : int
        Rows that may wait; more are an error.
    column : str
        Of the event time, for error texts.
    window_size : int
        For the check of the range.
    kind : pa.DataType
        Of the event time, for error texts.

    Examples
    --------
    >>> reorder = Reorder(3, "drop")
    >>> ts = np.array([5, 9, 7, 5, 12, 9])
    >>> batch, times = reorder.add(pa.record_batch({"row": [0, 1, 2, 3, 4, 5]}), ts)
    >>> times.tolist(), batch["row"].to_pylist(), reorder.watermark, reorder.counters.late
    ([5, 7, 9, 9], [0, 2, 1, 5], 9, 1)
    >>> reorder.finish()[1].tolist()
    [12]
    """

    def __init__(
        self,
        lateness: int | None,
        late: str = "error",
        max_waiting: int = 1 << 22,
        column: str = "ts",
        window_size: int = 0,
        kind: pa.DataType = _INTEGER,
    ):
        if late not in LATE:
            raise ParameterError(f"late = {late!r}: give one of {', '.join(LATE)}")
        if lateness is not None and not 0 <= lateness < END_OF_TIME:
            raise ParameterError(f"lateness = {lateness}: must be from 0 to below 2**62")
        self.lateness, self.late, self.max_waiting, self.column = lateness, late, max_waiting, column
        self.window_size, self._kind = window_size, kind
        self.counters = ReorderCounters()
        self.released = np.zeros(0, np.int64)
        """Numbers, in the input, of the rows released last, in their order."""
        self._highest = self._promised = MIN_TIME
        self._runs: list[_Run] = []
        self._waiting = 0
        self._late: list[pa.RecordBatch] = []
        self._schema: pa.Schema | None = None

    @property
    def watermark(self) -> int:
        """Event time below which no row will be released any more; `MIN_TIME` before the first row."""
        implied = MIN_TIME if self.lateness is None else self._highest - self.lateness
        return max(implied, self._promised)

    @property
    def waiting(self) -> int:
        """Rows held back at present."""
        return self._waiting

    def add(self, batch: pa.RecordBatch, ts: np.ndarray) -> tuple[pa.RecordBatch, np.ndarray]:
        """Take rows with their event times; return those that are ready, in order, with theirs.

        Raises
        ------
        LateRowError
            With ``late="error"``.
        OverflowInputError
            If more than `max_waiting` rows would wait.
        """
        self._schema = batch.schema
        check_range(ts, self.column, self.window_size, self.counters.rows, self._kind)
        is_late = np.empty(ts.size, np.bool_)
        if self.lateness is None:
            is_late, highest = ts < self._promised, max(self._highest, int(ts.max(initial=MIN_TIME)))
        else:
            highest = find_late(ts, self._highest, self.lateness, self._promised, is_late)
        late_count = int(is_late.sum())
        numbers = np.arange(self.counters.rows, self.counters.rows + ts.size)
        if late_count:
            batch, ts = self._set_aside(batch, ts, is_late)
            numbers = numbers[~is_late]
        self._highest = int(highest)
        self.counters.rows += is_late.size
        self.counters.late += late_count
        if ts.size:
            self._runs.append(_sort(ts, numbers, batch))
            self._waiting += ts.size
            while len(self._runs) > 1 and self._runs[-1][0].size < SHORT_RUN:
                if self._runs[-2][0].size > 2 * self._runs[-1][0].size:
                    break
                self._runs[-2:] = [_merge(self._runs[-2:])]
        return self._release(self.watermark)

    def promise(self, ts: int) -> tuple[pa.RecordBatch | None, np.ndarray]:
        """Take the promise that rows below `ts` are late; return the rows that are ready now, None before the first batch."""
        self._promised = max(self._promised, ts)
        if self._schema is None:
            return None, np.zeros(0, np.int64)
        return self._release(self.watermark)

    def finish(self) -> tuple[pa.RecordBatch | None, np.ndarray]:
        """Return the rows that still wait, in order; None if no batch ever came."""
        if self._schema is None:
            return None, np.zeros(0, np.int64)
        return self._release(END_OF_TIME)

    def late_table(self) -> pa.Table | None:
        """Return the late rows kept so far, in order of arrival; None if no batch ever came."""
        return None if self._schema is None else pa.Table.from_batches(self._late, self._schema)

    def _set_aside(self, batch: pa.RecordBatch, ts: np.ndarray, is_late: np.ndarray):
        if self.late == "error":
            index = int(np.argmax(is_late))
            highest = max(int(ts[:index].max(initial=MIN_TIME)), self._highest)
            time, kind = int(ts[index]), self._kind
            if time < self._promised:
                raise LateRowError(
                    f"event_time column {self.column!r}, row ",
                    self.counters.rows + index,
                    f": {time_text(time, kind)} {before_watermark(self._promised, kind)}",
                )
            assert self.lateness is not None
            raise LateRowError(
                f"event_time column {self.column!r}, row ",
                self.counters.rows + index,
                f": {time_text(time, kind)} is {span_text(highest - time, kind)} behind {time_text(highest, kind)}, more than"
                f" lateness = {span_text(self.lateness, kind)}: raise lateness, or set late='drop' or late='side'",
            )
        if self.late == "side":
            self._late.append(filter_rows(batch, is_late))
        return filter_rows(batch, ~is_late), ts[~is_late]

    def _release(self, up_to: int) -> tuple[pa.RecordBatch, np.ndarray]:
        ready, rest = [], []
        for ts, numbers, rows in self._runs:
            count = int(np.searchsorted(ts, up_to, side="right"))
            if count:
                ready.append((ts[:count], numbers[:count], rows.slice(0, count)))
            if count < ts.size:
                rest.append((ts[count:], numbers[count:], rows.slice(count)))
        released = sum(ts.size for ts, _, _ in ready)
        if self._waiting - released > self.max_waiting:
            awaited, fix = "a watermark", "give watermarks more often"
            if self.lateness is not None:
                awaited = f"lateness = {span_text(self.lateness, self._kind)} to pass"
                fix = "lower lateness, or sort the input (sort=True)"
            raise OverflowInputError(
                f"{self._waiting - released} rows wait for {awaited}, more than max_waiting = {self.max_waiting}: {fix}"
            )
        self._runs = rest
        self._waiting -= released
        self.counters.released += released
        if not ready:
            self.released = np.zeros(0, np.int64)
            return empty_batch(self._schema), np.zeros(0, np.int64)
        ts, self.released, rows = ready[0] if len(ready) == 1 else _merge(ready)
        return rows, ts


def before_watermark(watermark: int, kind: pa.DataType) -> str:
    """Return the part of an error text that says a row is earlier than a watermark that its source gave before."""
    return (
        f"is before {time_text(watermark, kind)}, a watermark that the source gave already: give it later, or set late='drop' or"
        f" late='side'"
    )


def _sort(ts: np.ndarray, numbers: np.ndarray, rows: pa.RecordBatch) -> _Run:
    """Sort rows by time, stably."""
    if (ts[1:] >= ts[:-1]).all():
        return ts, numbers, rows
    order = np.argsort(ts, kind="stable")
    return ts[order], numbers[order], take_rows(rows, order)


def _merge(runs: list[_Run]) -> _Run:
    """Merge sorted runs; rows of equal times are ordered by run."""
    batches = [rows for _, _, rows in runs]
    try:
        pieces = pa.Table.from_batches(batches).combine_chunks().to_batches()
    except pa.ArrowException:  # columns that Arrow cannot concatenate
        pieces = [concat_batches(batches)]
    if len(pieces) != 1:
        raise OverflowInputError(
            "a column of the rows that wait for lateness to pass exceeds 2 GiB: lower lateness, or cast the"
            " column to large_string"
        )
    ts, numbers = (np.concatenate([run[i] for run in runs]) for i in range(2))
    return _sort(ts, numbers, pieces[0])
