"""External sources at run time: reading and encoding, and giving what was encoded to an inlet in time.

Encoding the next batch overlaps with the taking of this one; the queue between the
two is short, so back-pressure reaches the reader. Both sides are written as steps
that never wait (generators that say how long to wait), so that one thread can serve
several sources (`source_threads`); a thread that has one source waits in place.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.errors import (
    DisorderError,
    HeadraceError,
    InputError,
    LateRowError,
    ParameterError,
    RunFailedError,
)
from headrace.expressions.rows import filter_rows, take_rows
from headrace.ingress.readers import Reader, check_same_types, display_name
from headrace.ingress.reorder import Reorder, before_watermark
from headrace.ingress.times import event_times, time_text
from headrace.ingress.watermarks import watermark_time
from headrace.memory.cells import read_cell
from headrace.metrics.sources import FEEDING, STARVED, SourceMetrics
from headrace.plan.nodes import SourceNode
from headrace.progress import MIN_TIME, Watermark
from headrace.rates import RateSchedule
from headrace.runtime.feeding import Feed, Stopped
from headrace.runtime.input_rows import row_before
from headrace.runtime.options import PassedTime
from headrace.runtime.step_threads import Job, StepCosts, StepThreads

_QUEUED_BATCHES = 2
_POLL_S = 0.1
_SHARED_POLL_S = 1e-3


class Source:
    """One external source of a run, and the inlet it goes into.

    Parameters
    ----------
    operator : str
        Which section the inlet belongs to; `number` is the inlet's in it.
    enters : str
        Which operator of the section it feeds.
    feed : Feed
    siblings : sequence of Feed
        All ways into that operator, this one included.
    passed_time : list, optional
        What an earlier run decided by the clock.
    fail : callable
        Takes what went wrong while reading.
    stop_word : int64[...]
        Word 0 is not 0 once the run is over.
    shared : Reader, optional
        What to read in place of what the node opens: of a stream that others take, too.
    step_threads : StepThreads, optional
        Threads that apply the steps; without them the thread that reads does.
    """

    def __init__(
        self,
        operator: str,
        enters: str,
        number: int,
        feed: Feed,
        siblings: Sequence[Feed],
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
        self._siblings, self._fail, self._stop_word = siblings, fail, stop_word
        feed.books.arrived = lambda: self.rows
        feed.books.late = lambda policy: self.late_rows if node.late == policy else 0
        self.rows = 0
        self.first_add_ns = 0
        self.passed_time: list[tuple[str, int, int, int]] = []
        self._recorded = self._recorded_times(passed_time)
        self._fed = 0
        self._encoded = 0
        self._set_aside: list[pa.Table] = []
        self._late_rows = 0
        self._counting_late = threading.Lock()
        """The reader finds rows before a watermark, the feeder rows before the time that passed."""
        self._time_type = node.schema.field(node.event_time).type
        reader = node.readers[branch.source_index]() if shared is None else shared
        is_whole = branch.steps or node.late == "side"
        columns = reader.schema.names if is_whole else feed.inlet.columns_used
        self._reader: Reader = reader.select(columns, branch.source)
        if self._reader.files:
            check_same_types(self._reader.schema, node.schema.empty_table().select(columns).schema, branch.source)
        # Rows of a source that may be passed over as idle are known to be late only where they meet the inlet.
        self._step_threads = step_threads if feed.has_free_steps else None
        self._costs = StepCosts(step_threads.most) if self._step_threads is not None and step_threads.is_auto else None
        self._is_given = self._step_threads is not None and self._costs is None
        """The feeder encodes what the steps made of a batch, whichever thread applies them."""
        under_way = 0 if self._step_threads is None else 2 * self._step_threads.most  # a batch, and its time
        self._queue: queue.Queue[Any] = queue.Queue(_QUEUED_BATCHES + under_way)
        self._reorder: Reorder | None = None
        self._promised = MIN_TIME
        if node.lateness is not None or node.is_disordered:
            self._reorder = Reorder(
                node.lateness,
                node.late,
                column=node.event_time,
                window_size=feed.inlet.retention,
                kind=self._time_type,
            )
        elif not is_whole:
            self._reader = self._reader.with_codes(feed.inlet.codable)

    def _recorded_times(self, entries: PassedTime | None) -> deque[tuple[int, int]] | None:
        """What an earlier run decided for this source: (rows before, time passed to); None: the clock decides."""
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
        """Whether reading may wait for rows that are not there yet: of a stream."""
        return not self._reader.is_replayable

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
        books = self.feed.books
        return books.added - books.gained + books.filtered + self.late_rows

    @property
    def schedule(self) -> RateSchedule | None:
        """What paces it; None at full speed."""
        return self.feed.player.schedule

    @property
    def rate(self) -> float | None:
        """Tuples per second that are played now; None at full speed, and where event times are played."""
        return self.feed.player.rate

    def play(self, schedule: RateSchedule | None) -> None:
        """Play at another rate from now on."""
        self.feed.play(schedule)

    def metrics(self, at_s: float | None) -> SourceMetrics:
        """Take a snapshot; `at_s` is when a run that is over ended."""
        books, branch = self.feed.books, self.feed.inlet.branch
        return SourceMetrics(
            name=display_name(branch.source),
            operator=self.enters,
            taken=self.taken,  # before what was read
            rows=self.rows,
            behind=books.behind(at_s),
            lag_s=books.lag_s(at_s),
            rate=self.rate,
            spent_ns=books.spent.read(round((at_s or 0) * 1e9)),
        )

    def stop(self) -> None:
        """The run is over: a reader that waits for more need not."""
        if self._reader.stop is not None:
            self._reader.stop()

    # -- reading and encoding

    def reading(self, patient: bool) -> Iterator[float]:
        """Read to the end, in steps that each give seconds to wait; a patient one waits in place for room."""
        try:
            for batch in self._costed(self._reader):
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
        """Pass rows on to the feeder; `numbers` are theirs among those that were read."""
        if self.node.idle_after is not None:
            # What is late is known only when a row meets the inlet: encode there.
            yield from self._put((batch, numbers), patient)
            return
        if self._step_threads is not None:
            yield from self._apply_steps(self._step_threads, batch, numbers, patient)
        else:
            for piece in self._pieces(batch, numbers, lambda: self.feed.encode(batch, ts)):
                yield from self._put(piece, patient)
        last = self._time_behind_steps(batch)
        if last is not None:
            yield from self._put(last, patient)

    def _apply_steps(
        self, step_threads: StepThreads, batch: pa.RecordBatch, numbers: Sequence[int], patient: bool
    ) -> Iterator[float]:
        """Have steps applied to rows, by other threads or here."""
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
        for piece in self._encoded_of(job):
            yield from self._put(piece, patient)

    def _encoded_of(self, job: Job) -> Iterable[Any]:
        """Encode what the steps made of a batch. The reader's, and from the first job that it gave away on the feeder's."""
        applied, rows = job.result(), job.batch.num_rows
        return self._costed(self._pieces(job.batch, job.numbers, lambda: self.feed.encode_applied(rows, applied)))

    def _costed(self, items: Iterable[Any]) -> Iterable[Any]:
        """These, and what it costs to come by them is noted, if it is to be known what steps are worth beside it."""
        return items if self._costs is None else _timed(items, self._costs)

    def _promise(self, mark: Watermark, patient: bool) -> Iterator[float]:
        """The source says how far time has come, whether rows come or not."""
        source, ready = self.feed.inlet.branch.source, None
        ts = watermark_time(mark, self._time_type, self.feed.inlet.retention, source)
        if ts < self._promised:
            raise DisorderError(
                f"{display_name(source)} gives the watermark {time_text(ts, self._time_type)} after"
                f" {time_text(self._promised, self._time_type)}: what was said not to come any more cannot come; give watermarks"
                f" that rise"
            )
        self._promised = ts
        if self._reorder is not None:
            ready, times = self._reorder.promise(ts)
            ts = self._reorder.watermark
            if ready is not None:
                yield from self._hand_over(ready, times, self._reorder.released, patient)
        yield from self._put(ts, patient)
        yield 0.0

    def _in_time(self, batch: pa.RecordBatch, numbers: Sequence[int]) -> tuple[pa.RecordBatch, Any]:
        """Of a source that is in order by itself, the rows that are not before its watermark."""
        column = _column(batch, self.node)
        there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))  # what is null a step filters out, or an error
        try:
            ts = event_times(column.drop_null(), self.node.event_time)
        except InputError as error:
            self._name_row(error, lambda row: numbers[int(there[row])])
            raise
        late = there[ts < self._promised]
        if not len(late):
            return batch, numbers
        if self.node.late == "error":
            error = LateRowError(
                f"event_time column {self.node.event_time!r}, row ",
                int(late[0]),
                f": {time_text(ts[ts < self._promised][0], self._time_type)} {before_watermark(self._promised, self._time_type)}",
            )
            self._name_row(error, lambda row: numbers[row])
            raise error
        self._late(batch, late)
        is_in_time = np.ones(batch.num_rows, np.bool_)
        is_in_time[late] = False
        return filter_rows(batch, is_in_time), np.asarray(numbers)[is_in_time]

    def _late(self, batch: pa.RecordBatch, rows: np.ndarray) -> None:
        """Count late rows, and keep them if they are to be."""
        table = pa.Table.from_batches([take_rows(batch, rows)]) if self.node.late == "side" else None
        with self._counting_late:
            self._late_rows += len(rows)
            if table is not None:
                self._set_aside.append(table)

    def _reordered(self, reorder: Reorder, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray]:
        try:
            ts = event_times(_column(batch, self.node), self.node.event_time, reorder.counters.rows)
            return reorder.add(batch, ts)
        except InputError as error:
            self._name_row(error, lambda row: row)
            raise

    def _pieces(
        self, batch: pa.RecordBatch, numbers: Sequence[int], encode: Callable[[], Iterable[Any]]
    ) -> Iterator[Any]:
        """Have rows encoded; an error names the row of the input."""
        books, steps = self.feed.books, self.feed.inlet.branch.steps
        before = self._encoded - books.filtered + books.gained
        self._encoded += batch.num_rows
        pieces = encode()
        try:
            yield from pieces
        except InputError as error:
            self._name_row(error, lambda row: numbers[row_before(steps, batch, row - before) if steps else row - before])
            raise

    def _name_row(self, error: InputError, number_of: Callable[[int], int]) -> None:
        """Say in an error what the user calls the row that has this number here, and in which source of the run it is."""
        if error.row is None or isinstance(error.row, str):
            return
        error.row = self._reader.row_name(int(number_of(error.row)))
        text, *rest = error.args
        error.args = (f"{display_name(self.feed.inlet.branch.source)}, {text}", *rest)

    def _time_behind_steps(self, batch: pa.RecordBatch) -> int | None:
        """The time of a batch's last row, which moves time even if a step filters it out; None where nothing is to be said."""
        if not self.feed.inlet.branch.steps:
            return None
        times = _column(batch, self.node).drop_null()  # what is null a step has filtered out
        return int(event_times(times.slice(len(times) - 1), self.node.event_time)[0]) if len(times) else None

    def _put(self, item: Any, patient: bool) -> Iterator[float]:
        while True:
            if read_cell(self._stop_word, 0):
                raise Stopped
            try:
                self._queue.put(item, block=patient, timeout=_POLL_S)
                return
            except queue.Full:
                yield 0.0 if patient else _SHARED_POLL_S

    # -- feeding

    def feeding(self, patient: bool) -> Iterator[float]:
        """Feed to the end, in steps that each give seconds to wait; a patient one waits in place for batches and room."""
        idle = self.node.idle_after if self._recorded is None else None
        since, spent = time.monotonic(), self.feed.books.spent
        while True:
            spent.turn(STARVED)
            try:
                item = self._queue.get(block=patient, timeout=_POLL_S if idle is None else min(_POLL_S, idle / 2))
            except queue.Empty:
                if read_cell(self._stop_word, 0):
                    return
                if idle is not None and time.monotonic() - since >= idle:
                    yield from self._pass_time(patient)
                yield 0.0 if patient else _SHARED_POLL_S
                continue
            spent.turn(FEEDING)
            if not self.first_add_ns:
                self.first_add_ns = time.monotonic_ns()
            if item is None:
                while self._recorded:
                    yield from self._pass_time_to(self._recorded.popleft()[1], patient)
                yield from self.feed.closing(patient)
                spent.stop()
                return
            if isinstance(item, Job):
                yield from item.waiting(self._stop_word, patient)
                yield from self._feed_applied(item, patient)
            elif isinstance(item, int):
                yield from self.feed.promising(item, patient)
            elif isinstance(item, tuple):
                yield from self._feed_in_time(*item, patient)
            else:
                yield from self.feed.feeding(item, patient)
            since = time.monotonic()
            yield 0.0

    def _feed_applied(self, job: Job, patient: bool) -> Iterator[float]:
        """Feed what the steps made of a batch."""
        for piece in self._encoded_of(job):
            yield from self.feed.feeding(piece, patient)

    def _pass_time(self, patient: bool) -> Iterator[float]:
        """An idle source lets the others go on: its time follows the furthest of them."""
        others = (feed.reached for feed in self._siblings if feed is not self.feed)
        furthest = max(others, default=MIN_TIME)
        if furthest > self.feed.inlet.mark:
            yield from self._pass_time_to(furthest, patient)

    def _pass_time_to(self, ts: int, patient: bool) -> Iterator[float]:
        yield from self.feed.promising(ts, patient)
        self.passed_time.append((self.operator, self.number, self._fed, ts))

    def _feed_in_time(self, batch: pa.RecordBatch, numbers: Sequence[int], patient: bool) -> Iterator[float]:
        """Feed rows of a source that may be passed over as idle; a replay passes it over between the same rows."""
        while self._recorded and self._recorded[0][0] < self._fed + batch.num_rows:
            rows, ts = self._recorded.popleft()
            before = max(0, rows - self._fed)
            yield from self._feed_rows(batch.slice(0, before), numbers[:before], patient)
            batch, numbers = batch.slice(before), numbers[before:]
            yield from self._pass_time_to(ts, patient)
        yield from self._feed_rows(batch, numbers, patient)

    def _feed_rows(self, batch: pa.RecordBatch, numbers: Sequence[int], patient: bool) -> Iterator[float]:
        """Feed rows; those behind the time that passed are late."""
        self._fed += batch.num_rows
        try:
            ts = event_times(_column(batch, self.node), self.node.event_time)
        except InputError as error:
            self._name_row(error, lambda row: numbers[row])
            raise
        late = np.flatnonzero(ts < (self.feed.inlet.mark if self.passed_time else MIN_TIME))
        if len(late):
            if self.node.late == "error":
                others = f", as are {len(late) - 1} rows behind it" if len(late) > 1 else ""
                error = LateRowError(
                    f"event_time column {self.node.event_time!r}, row ",
                    int(late[0]),
                    f": {time_text(ts[late[0]], self._time_type)} is earlier than the time that passed while the source was idle"
                    f" (idle_after={self.node.idle_after} s){others}; pass late='drop' or 'side', or a longer idle_after=",
                )
                self._name_row(error, lambda row: numbers[row])
                raise error
            self._late(batch, late)
            is_in_time = ts >= self.feed.inlet.mark
            batch, numbers = filter_rows(batch, is_in_time), np.asarray(numbers)[is_in_time]
        for piece in self._pieces(batch, numbers, lambda: self.feed.encode(batch)):
            yield from self.feed.feeding(piece, patient)
        last = self._time_behind_steps(batch)
        if last is not None:
            yield from self.feed.promising(last, patient)


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


def by_stream(sources: Sequence[Source]) -> list[list[Source]]:
    """Group those that read the same stream, each for another operator of the query."""
    groups: dict[tuple[int, int], list[Source]] = {}
    for source in sources:
        groups.setdefault((id(source.node), source.feed.inlet.branch.source_index), []).append(source)
    return list(groups.values())


def with_most_late(sources: Sequence[Source]) -> list[Source]:
    """Of each stream the source that found most late rows: each operator that takes it finds them anew."""
    return [max(group, key=lambda source: source.late_rows) for group in by_stream(sources)]


def _column(batch: pa.RecordBatch, node: SourceNode) -> pa.Array:
    return batch.column(batch.schema.get_field_index(node.event_time))

