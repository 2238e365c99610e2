"""Rows of one source on their way into its inlet: late rows set apart, the others encoded, and rows named in errors.

Both sides of a source use this. Rows below a watermark are found late where they are read; rows earlier than the time
that passed while the source was idle, where they are fed. The side that knows when rows may be encoded encodes them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.errors import InputError, LateRowError
from headrace.expressions.rows import filter_rows, take_rows
from headrace.ingress.input_errors import display_name
from headrace.ingress.readers import Reader
from headrace.ingress.times import event_times, time_text
from headrace.plan.nodes import SourceNode
from headrace.runtime.feeding import Feeder
from headrace.runtime.input_rows import row_before
from headrace.runtime.step_threads import Job, StepCosts


class SourceRows:
    """What both sides of a source do with its rows.

    Parameters
    ----------
    node : SourceNode
    feed : Feeder
    reader : Reader
        Knows what the user calls a row.
    costs : StepCosts, optional
        Told the cost of reading and encoding, if the cost of the steps is to be compared with it.
    """

    def __init__(self, node: SourceNode, feed: Feeder, reader: Reader, costs: StepCosts | None):
        self.node, self._feed, self._reader, self._costs = node, feed, reader, costs
        self.time_type = node.schema.field(node.event_time).type
        self._encoded = 0
        self.late_count = 0
        """Rows found late here."""
        self.set_aside: list[pa.Table] = []
        """The late rows that are kept."""
        self._counting_late = threading.Lock()
        """A lock, because both sides find late rows."""

    # -- late or in time

    def in_time(
        self, batch: pa.RecordBatch, numbers: Sequence[int], late: np.ndarray, earliest: int, why: str
    ) -> tuple[pa.RecordBatch, Any]:
        """Return the rows without the late ones, which are counted, and kept if asked; or raise `LateRowError`.

        Parameters
        ----------
        numbers : sequence of int
            Numbers of the rows among those that were read.
        late : int64[1 or more]
            Positions of the late rows in the batch.
        earliest : int
            Event time of the first of them; `why` says what it is earlier than.
        """
        if self.node.late == "error":
            text = f": {time_text(earliest, self.time_type)} {why}"
            error = LateRowError(f"event_time column {self.node.event_time!r}, row ", int(late[0]), text)
            self.name_row(error, lambda row: numbers[row])
            raise error
        table = pa.Table.from_batches([take_rows(batch, late)]) if self.node.late == "side" else None
        with self._counting_late:
            self.late_count += len(late)
            if table is not None:
                self.set_aside.append(table)
        is_in_time = np.ones(batch.num_rows, np.bool_)
        is_in_time[late] = False
        return filter_rows(batch, is_in_time), np.asarray(numbers)[is_in_time]

    # -- encoded

    def pieces(
        self, batch: pa.RecordBatch, numbers: Sequence[int], encode: Callable[[], Iterable[Any]]
    ) -> Iterator[Any]:
        """Encode rows; an error names the row of the input."""
        books, steps = self._feed.books, self._feed.steps
        before = self._encoded - books.filtered + books.gained
        self._encoded += batch.num_rows
        pieces = encode()
        try:
            yield from pieces
        except InputError as error:
            self.name_row(error, lambda row: numbers[row_before(steps, batch, row - before) if steps else row - before])
            raise

    def name_row(self, error: InputError, number_of: Callable[[int], int]) -> None:
        """Put into an error what the user calls the row with this number, and which source of the run it is in."""
        if error.row is None or isinstance(error.row, str):
            return
        error.row = self._reader.row_name(int(number_of(error.row)))
        text, *rest = error.args
        error.args = (f"{display_name(self._feed.inlet.branch.source)}, {text}", *rest)

    def time_behind_steps(self, batch: pa.RecordBatch) -> int | None:
        """Event time of a batch's last row, which advances time even if a step filters it out; None without steps or times."""
        if not self._feed.steps:
            return None
        times = column_of_times(batch, self.node).drop_null()  # a step has filtered out the nulls
        return int(event_times(times.slice(len(times) - 1), self.node.event_time)[0]) if len(times) else None

    def encoded_of(self, job: Job) -> Iterable[Any]:
        """Encode what the steps made of a batch. The reader calls it; from the first job handed over on, only the feeder."""
        applied, rows = job.result(), job.batch.num_rows
        return self.costed(self.pieces(job.batch, job.numbers, lambda: self._feed.encode_applied(rows, applied)))

    def costed(self, items: Iterable[Any]) -> Iterable[Any]:
        """Yield these items, noting the cost of getting them if the cost of the steps is to be compared with it."""
        return items if self._costs is None else _timed(items, self._costs)


def column_of_times(batch: pa.RecordBatch, node: SourceNode) -> pa.Array:
    return batch.column(batch.schema.get_field_index(node.event_time))


def _timed(items: Iterable[Any], costs: StepCosts) -> Iterator[Any]:
    each = iter(items)
    while True:
        begun = time.thread_time_ns()
        try:
            item = next(each)
        except StopIteration:
            return
        finally:
            costs.note_rest(time.thread_time_ns() - begun)
        yield item
