"""External sources at run time: the handle of one, and the side that reads and encodes; `source_feeding` is the other.

Encoding the next batch overlaps with feeding this one; the queue between the
two is short, so back-pressure reaches the reader. Both sides are generators whose
steps do not wait but yield how long to wait, so that one thread can serve
several sources (`source_threads`); a thread with one source waits in place.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.errors import DisorderError, HeadraceError, InputError, ParameterError, RunFailedError
from headrace.ingress.input_errors import display_name
from headrace.ingress.readers import Reader, check_same_types
from headrace.ingress.reorder import Reorder, before_watermark
from headrace.ingress.times import event_times, time_text
from headrace.ingress.watermarks import watermark_time
from headrace.memory.cells import read_cell
from headrace.metrics.sources import SourceMetrics
from headrace.newest import Newest
from headrace.plan.nodes import SourceNode
from headrace.progress import END_OF_TIME, MIN_TIME, Watermark
from headrace.rates import RateSchedule
from headrace.runtime.feeding import Feeder, Stopped
from headrace.runtime.options import PassedTime
from headrace.runtime.source_feeding import POLL_S, SHARED_POLL_S, SourceFeeder
from headrace.runtime.source_rows import SourceRows, column_of_times
from headrace.runtime.step_threads import Job, StepCosts, StepThreads

_QUEUED_BATCHES = 2


class Source:
    """One external source of a run, and the inlet it goes into.

    Parameters
    ----------
    operator : str
        Section that the inlet belongs to; `number` is the inlet's number in it.
    enters : str
        Operator of the section that it feeds.
    feed : Feeder
    siblings : sequence of Feeder
        All inputs of that operator, this one included.
    passed_time : list, optional
        What the clock decided in an earlier run.
    fail : callable
        Called with an error of reading.
    stop_word : int64[...]
        Word 0 is not 0 once the run is over.
    shared : Reader, optional
        What to read instead of what the node opens, for a stream that other operators read as well.
    step_threads : StepThreads, optional
        Threads that apply the steps; without them the reading thread does.
    """

    def __init__(
        self,
        operator: str,
        enters: str,
        number: int,
        feed: Feeder,
        siblings: Sequence[Feeder],
        passed_time: PassedTime | None,
        fail: Callable[[BaseException], None],
        stop_word: np.ndarray,
        shared: Reader | None = None,
        step_threads: StepThreads | None = None,
    ):
        branch = feed.inlet.branch
        assert isinstance(branch.origin, SourceNode)
        self.operator, self.enters, self.number, self.feed = operator, enters, number, feed
        self.node = node = branch.origin
        self.name = f"{operator}-source{number}"
        self._fail, self._stop_word = fail, stop_word
        feed.books.arrived = lambda: self.rows
        feed.books.late = lambda policy: self.late_rows if node.late == policy else 0
        self.rows = 0
        recorded = self._recorded_times(passed_time)
        reader = node.readers[branch.source_index]() if shared is None else shared
        columns = self._columns_read(reader)
        self._reader: Reader = reader.select(columns, branch.source)
        if self._reader.files:
            check_same_types(self._reader.schema, node.schema.empty_table().select(columns).schema, branch.source)
        # Where a source may be idle, a row is known to be late only where it meets the inlet.
        self._step_threads = step_threads if feed.has_free_steps else None
        self._costs = StepCosts(step_threads.most) if self._step_threads is not None and step_threads.is_auto else None
        self._is_given = self._step_threads is not None and self._costs is None
        """Whether the feeder encodes what the steps made of a batch, whichever thread applies them."""
        under_way = 0 if self._step_threads is None else 2 * self._step_threads.most  # each batch, and its event time
        self._queue: queue.Queue[Any] = queue.Queue(_QUEUED_BATCHES + under_way)
        self._reorder: Reorder | None = None
        self._promised = self._told = MIN_TIME
        if node.lateness is not None or node.is_disordered:
            self._reorder = Reorder(
                node.lateness,
                node.late,
                column=node.event_time,
                window_size=feed.inlet.retention,
                kind=node.schema.field(node.event_time).type,
            )
        elif not branch.steps and node.late != "side":
            self._reader = self._reader.with_codes(feed.inlet.codable)
        self._source_rows = SourceRows(node, feed, self._reader, self._costs)
        self._feeder = SourceFeeder(self._source_rows, feed, siblings, (operator, number), recorded, self._queue, stop_word)

    def _columns_read(self, reader: Reader) -> Sequence[str]:
        """Those that the steps need, or without steps the inlet; all of them where late rows are kept."""
        feed, node = self.feed, self.node
        if node.late == "side" or feed.columns_read is None:
            return reader.schema.names
        if not feed.steps:
            return feed.inlet.columns_used
        return [name for name in reader.schema.names if name in feed.columns_read or name == node.event_time]

    def _recorded_times(self, entries: PassedTime | None) -> deque[tuple[int, int]] | None:
        """What the clock decided in an earlier run for this source: (rows before, time passed to); None: it decides now."""
        if entries is None:
            return None
        mine = [(rows, ts) for name, source, rows, ts in entries if (name, source) == (self.operator, self.number)]
        if mine and self.node.idle_after is None:
            raise ParameterError(
                f"passed_time: time passed for source {self.number} of {self.operator!r}, which has no"
                f" idle_after here; replay the query that was recorded"
            )
        return deque(mine)

    @property
    def may_wait(self) -> bool:
        """Whether reading may wait for rows that do not exist yet, as with a stream."""
        return not self._reader.is_replayable

    @property
    def late_rows(self) -> int:
        """Rows that came too late and were dropped or set aside."""
        return self._source_rows.late_count + (self._reorder.counters.late if self._reorder else 0)

    @property
    def late_tables(self) -> list[pa.Table]:
        """Late rows kept so far, in order of arrival, the first table maybe empty; no table where they are not set aside."""
        if self.node.late != "side":
            return []
        table = self._reorder.late_table() if self._reorder else None
        return [self._reader.schema.empty_table() if table is None else table, *self._source_rows.set_aside]

    @property
    def taken(self) -> int:
        """Rows that were added, filtered or late."""
        books = self.feed.books
        return books.added - books.gained + books.filtered + self.late_rows

    @property
    def schedule(self) -> RateSchedule | None:
        """The schedule that paces it; None at full speed."""
        return self.feed.player.schedule

    @property
    def rate(self) -> float | None:
        """Tuples per second at present; None at full speed and where event times are played."""
        return self.feed.player.rate

    def play(self, schedule: RateSchedule | None) -> None:
        """Follow another schedule from now on."""
        self.feed.play(schedule)

    def metrics(self, at_s: float | None) -> SourceMetrics:
        """Take a snapshot; `at_s` is when a run that is over ended."""
        books, branch = self.feed.books, self.feed.inlet.branch
        return SourceMetrics(
            name=display_name(branch.source),
            operator=self.enters,
            taken=self.taken,  # before `rows`, which may not be less
            rows=self.rows,
            behind=books.behind(at_s),
            lag_s=books.lag_s(at_s),
            rate=self.rate,
            spent_ns=books.spent.read(round((at_s or 0) * 1e9)),
        )

    def stop(self) -> None:
        """The run is over, as STOP says: end a reader that waits for more, and wake both sides if they wait for each other."""
        try:
            if self._reader.stop is not None:
                self._reader.stop()
        finally:
            with suppress(queue.Empty):
                while True:
                    self._queue.get_nowait()
            with suppress(queue.Full):  # then something came that wakes the feeder as well
                self._queue.put_nowait(None)

    @property
    def first_add_ns(self) -> int:
        """Monotonic time when it began to give rows; 0 before."""
        return self._feeder.first_add_ns

    @property
    def passed_time(self) -> Newest[tuple[str, int, int, int]]:
        """What the wall clock decided so far: (section, inlet, rows before, time passed to)."""
        return self._feeder.passed_time.newest()

    def feeding(self, patient: bool) -> Iterator[float]:
        """Feed to the end, in steps that each yield seconds to wait; a patient caller waits in place for batches and room."""
        return self._feeder.feeding(patient)

    # -- reading and encoding

    def reading(self, patient: bool) -> Iterator[float]:
        """Read to the end, in steps that each yield seconds to wait; a patient caller waits in place for room."""
        try:
            for batch in self._source_rows.costed(self._reader):
                if isinstance(batch, Watermark):
                    yield from self._promise(batch, patient)
                    continue
                self.rows += batch.num_rows
                ts, numbers = None, range(self.rows - batch.num_rows, self.rows)
                if self._reorder is not None:
                    batch, ts = self._reordered(self._reorder, batch)
                    numbers = self._reorder.released
                elif self._promised > MIN_TIME:
                    batch, numbers = self._in_time(batch, numbers)
                yield from self._hand_over(batch, ts, numbers, patient)
                if self._reorder is not None:
                    yield from self._tell(self._reorder.watermark, patient)
                yield 0.0
            if self._reorder is not None:
                batch, ts = self._reorder.finish()
                if batch is not None:
                    yield from self._hand_over(batch, ts, self._reorder.released, patient)
            yield from self._put(None, patient)
            if self._step_threads is not None:
                self._step_threads.leave()
        except (Stopped, GeneratorExit):
            raise
        except (HeadraceError, KeyboardInterrupt) as error:
            self._fail(error)
        except BaseException as error:
            name = display_name(self.feed.inlet.branch.source)
            failed = RunFailedError(f"reading {name} failed: {type(error).__name__}: {error}")
            failed.__cause__ = error
            self._fail(failed)

    def _hand_over(
        self, batch: pa.RecordBatch, ts: np.ndarray | None, numbers: Sequence[int], patient: bool
    ) -> Iterator[float]:
        """Pass rows on to the feeder; `numbers` are their numbers among the rows that were read."""
        if self.node.idle_after is not None:
            # Whether a row is late is known only when it meets the inlet: encode there.
            yield from self._put((batch, numbers), patient)
            return
        if self._step_threads is not None:
            yield from self._apply_steps(self._step_threads, batch, numbers, patient)
        else:
            for piece in self._source_rows.pieces(batch, numbers, lambda: self.feed.encode(batch, ts)):
                yield from self._put(piece, patient)
        last = self._source_rows.time_behind_steps(batch)
        if last is not None:
            yield from self._put(last, patient)

    def _apply_steps(
        self, step_threads: StepThreads, batch: pa.RecordBatch, numbers: Sequence[int], patient: bool
    ) -> Iterator[float]:
        """Apply the steps to rows, in step threads or here."""
        job, are_others = Job(self.feed.apply, batch, numbers, self._costs), True
        if self._costs is not None:
            threads = self._costs.threads()
            step_threads.ask(self, threads)
            are_others = threads > 1
            self._is_given |= are_others
        if are_others:
            step_threads.give(job)
        else:
            job.run()
        if self._is_given:
            yield from self._put(job, patient)
            return
        for piece in self._source_rows.encoded_of(job):
            yield from self._put(piece, patient)

    def _promise(self, mark: Watermark, patient: bool) -> Iterator[float]:
        """Pass on a watermark of the source, which says how far event time has come even when no rows come."""
        source, kind, ready = self.feed.inlet.branch.source, self._source_rows.time_type, None
        ts = watermark_time(mark, kind, self.feed.inlet.retention, source)
        if ts < self._promised:
            raise DisorderError(
                f"{display_name(source)} gives the watermark {time_text(ts, kind)} after"
                f" {time_text(self._promised, kind)}: a watermark cannot go back; give watermarks that rise"
            )
        self._promised = ts
        if self._reorder is not None:
            ready, times = self._reorder.promise(ts)
            ts = self._told = self._reorder.watermark
            if ready is not None:
                yield from self._hand_over(ready, times, self._reorder.released, patient)
        yield from self._put(ts, patient)
        yield 0.0

    def _tell(self, ts: int, patient: bool) -> Iterator[float]:
        """Pass on how far event time has come: further than to the last row that left, if those that wait are later."""
        if ts > self._told and abs(ts) < END_OF_TIME - self.feed.inlet.retention:
            self._told = ts
            yield from self._put(ts, patient)

    def _in_time(self, batch: pa.RecordBatch, numbers: Sequence[int]) -> tuple[pa.RecordBatch, Any]:
        """Return the rows of a source that needs no reordering, without those below its watermark."""
        column = column_of_times(batch, self.node)
        there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))  # nulls are filtered out by a step, or an error
        try:
            ts = event_times(column.drop_null(), self.node.event_time)
        except InputError as error:
            self._source_rows.name_row(error, lambda row: numbers[int(there[row])])
            raise
        late = there[ts < self._promised]
        if not len(late):
            return batch, numbers
        why = before_watermark(self._promised, self._source_rows.time_type)
        return self._source_rows.in_time(batch, numbers, late, ts[ts < self._promised][0], why)

    def _reordered(self, reorder: Reorder, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray]:
        try:
            ts = event_times(column_of_times(batch, self.node), self.node.event_time, reorder.counters.rows)
            return reorder.add(batch, ts)
        except InputError as error:
            self._source_rows.name_row(error, lambda row: row)
            raise

    def _put(self, item: Any, patient: bool) -> Iterator[float]:
        while True:
            if read_cell(self._stop_word, 0):
                raise Stopped
            try:
                self._queue.put(item, block=patient, timeout=POLL_S)
            except queue.Full:
                yield 0.0 if patient else SHARED_POLL_S
                continue
            if read_cell(self._stop_word, 0):  # it may be `stop` that made room
                raise Stopped
            return


def by_stream(sources: Sequence[Source]) -> list[list[Source]]:
    """Group the sources that read the same stream for different operators of the query."""
    groups: dict[tuple[int, int], list[Source]] = {}
    for source in sources:
        groups.setdefault((id(source.node), source.feed.inlet.branch.source_index), []).append(source)
    return list(groups.values())


def with_most_late(sources: Sequence[Source]) -> list[Source]:
    """Return for each stream the source that found the most late rows, since each operator that reads it finds them anew."""
    return [max(group, key=lambda source: source.late_rows) for group in by_stream(sources)]
