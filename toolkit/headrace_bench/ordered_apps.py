"""The six ordered applications on one and two workers, by schedule: a part of `bench ordered`.

Throughput is that of the workers alone (`pipelined`). Only one worker at a time runs a stateful stage, so two workers cannot do
twice as much: if that stage takes a fraction f of one worker's time in the stages, Amdahl's law allows 2 / (1 + f). Latency is
measured in whole runs at half of their highest rate, from the first stage to the moment when the collector has built the result
row. Both are measured from the 20th to the 80th percentile of the rows, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import headrace as hr
import headrace_datasets
from headrace.apps import APPS
from headrace.apps.app import sources
from headrace.ordering.configuration import SCHEDULES
from headrace.ordering.options import DEFAULT_SCHEDULE
from headrace.ordering.section import OUTPUT_CAPACITY
from headrace.summary import counted
from headrace_bench.machine import patience_for
from headrace_bench.marked import Markers, marked, middle
from headrace_bench.pipelined import Pipelined, check_against
from headrace_bench.rows import Row, median, repeated

OF_AMDAHL = 0.9
LEAST_RATIO = 1.6
"""Least speedup if the serial stage takes less than `SMALL`."""
SMALL = 0.25
P99_MS = 2.0
THREADS = (1, 2)
ROWS = 120_000
"""Rows of a trial run of the workers alone, from which the number of rows of the measured runs is computed."""
RUN_S = 0.3
"""Least duration of a measured run: in a shorter one, the rows that wait at the stages at its start and end dominate."""
MOST_ROWS = 12_000_000
_FASTER = 1.3
"""How much faster a longer run may be than a trial, which is short."""
_MORE = 2
"""Most results per row of a longer run, as a multiple of a trial's, whose rows are of the first windows only."""
_GUESSED = 2e6
"""Guessed rows per second of a whole run, from which the number of rows follows in runs that find its highest rate."""


@dataclass(frozen=True)
class Input:
    """The input of an application: a dataset, and the number of rows per second of event time."""

    make: Callable[..., headrace_datasets.Dataset]
    rate: float | None = None
    """Rows a second of event time; by default the dataset's own."""
    longest_s: float = math.inf
    """Longest event time that the rows span: with more rows, each second has more."""

    def table(self, n: int) -> pa.Table:
        """Make `n` rows."""
        given = {} if self.rate is None else {"rate": max(self.rate, n / self.longest_s)}
        return self.make(n=n, **given).to_arrow()


INPUTS = {
    "sold_together": Input(headrace_datasets.store_sales),
    "viewed_together": Input(headrace_datasets.clicks),
    "viewed_before": Input(headrace_datasets.clicks),
    "abandoned": Input(headrace_datasets.clicks),
    "declining": Input(headrace_datasets.item_sales, 0.02, longest_s=1e8),
    "mobility": Input(headrace_datasets.calls, 10.0),
}
"""The rates are such that the rows span several windows or days, but those of `declining` not so many days that sums of
squares of days times amounts overflow int64."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Parameters
    ----------
    names : tuple of str
    rows, checked : int
        Rows of a trial run of the workers alone, and how many of them are compared with the reference.
    run_s, most_rows : float, int
        Shortest duration of a run of the workers alone, and the most rows it may have.
    repetitions : int
    seconds : float
        Duration of a run at a given rate.
    """

    names: tuple[str, ...]
    rows: int
    checked: int
    run_s: float
    most_rows: int
    repetitions: int
    seconds: float

    @classmethod
    def of(cls, full: bool, tiny: bool) -> Sizes:
        """Small sizes, full ones, or tiny ones that only show that it runs."""
        if tiny:
            return cls(("abandoned",), 20_000, 20_000, 0.001, 40_000, 1, 0.01)
        if full:
            return cls(tuple(INPUTS), ROWS, ROWS, RUN_S, MOST_ROWS, 9, 1.0)
        return cls(tuple(INPUTS), ROWS, 40_000, RUN_S, MOST_ROWS, 3, 0.25)


class Case:
    """One application: rows, and runs over them."""

    def __init__(self, name: str, rows: int, checked: int):
        self.name, self._app = name, APPS[name]
        self._right = [headrace_datasets.item_categories().to_arrow()] if self._app.is_right_table else []
        self.table = self.rows_of(rows)
        self.check(self.table.slice(0, checked))
        self._stream = self.stream_of(self.table)
        self._results = OUTPUT_CAPACITY
        self.content = ""

    def rows_of(self, n: int) -> pa.Table:
        """Make `n` rows with the columns that the application reads."""
        return INPUTS[self.name].table(n).select(self._app.columns(0)).combine_chunks()

    def stream_of(self, table: pa.Table, **given: Any) -> hr.Stream:
        """The application over a table; `given` are its options."""
        return self._app.build(hr.stream(table, event_time="ts"), *self._right, **self._app.parameters(given))

    def check(self, table: pa.Table) -> None:
        """Compare the results of two workers with the reference, bit by bit."""
        stream = self.stream_of(table)
        expected = self._app.reference(sources([table]), *(each.to_pylist() for each in self._right), unit="us")
        check_against(expected, stream.schema, Pipelined(stream, table, threads=2).run().columns, self.name)

    def lengthen(self, seconds: float, most: int) -> None:
        """Take enough rows, at most `most`, to keep two workers busy for `seconds`, and make room for their results."""
        found = [self.run(THREADS[-1]) for _ in range(2)]  # the first one warms up
        rows = min(most, rows_for(seconds, max(run.per_second for run in found), self.table.num_rows))
        results = len(found[-1].columns[0]) / self.table.num_rows
        self.table = self.rows_of(rows)
        self._stream = self.stream_of(self.table)
        self._results = max(OUTPUT_CAPACITY, round(_MORE * results * rows))
        self.content = ""

    def run(self, threads: int, schedule: str = DEFAULT_SCHEDULE, buckets: int | None = None, **options: Any) -> Pipelined:
        """Run all rows through, and check that the results are those of the first run."""
        stream = self._stream if buckets is None else self.stream_of(self.table, buckets=buckets)
        run = Pipelined(stream, self.table, self._results, threads=threads, schedule=schedule, **options).run()
        self.content = self.content or run.content
        assert run.content == self.content, f"{self.name}, {schedule}, {threads} threads: not what one worker made"
        return run


def rows_for(seconds: float, per_second: float, least: int) -> int:
    """Rows of a run that should take `seconds`, given the rate of a trial run; at least `least`.

    Examples
    --------
    >>> rows_for(0.5, 2e6, 120_000), rows_for(0.001, 2e6, 120_000)
    (1300000, 120000)
    """
    return max(least, round(_FASTER * seconds * per_second))


def allowed(serial_share: float, threads: int = 2) -> float:
    """The highest speedup of `threads` workers by Amdahl's law.

    Examples
    --------
    >>> allowed(0.0), allowed(0.25), allowed(1.0)
    (2.0, 1.6, 1.0)
    """
    return 1.0 / (serial_share + (1.0 - serial_share) / threads)


def goal_of(serial_share: float) -> float:
    """The goal for two threads, as a multiple of one thread's rate."""
    return max(OF_AMDAHL * allowed(serial_share), LEAST_RATIO if serial_share < SMALL else 0.0)


@dataclass
class Measured:
    """The measurements of an application.

    Parameters
    ----------
    case : Case
    serial_share : float
        The share of one worker's stage time that is spent in stages which only one worker at a time may run.
    rates : dict of (str, int) to float
        Schedule, threads -> rows/s of the workers alone.
    waits : dict of (str, int) to Markers
        Latency of whole runs, at half of the rate that whole runs reach.
    rows : list of Row
        All measurements, for the table.
    """

    case: Case
    serial_share: float
    rates: dict[tuple[str, int], float]
    waits: dict[tuple[str, int], Markers]
    rows: list[Row]


def measure_apps(full: bool, tiny: bool = False) -> Iterator[Measured]:
    """M rows/s and processing latency of each application, schedule and number of threads."""
    sizes = Sizes.of(full, tiny)
    for name in sizes.names:
        case = Case(name, sizes.rows, sizes.checked)
        case.lengthen(sizes.run_s, sizes.most_rows)
        share, rates, rows = _throughput(case, sizes)
        waits = _latency(case, sizes, rows)
        yield Measured(case, share, rates, waits, rows)


def _throughput(case: Case, sizes: Sizes) -> tuple[float, dict[tuple[str, int], float], list[Row]]:
    measured: dict[tuple[str, int], list[float]] = {}
    shares, lines, patience = [], [], patience_for(sizes.repetitions)
    for counts in repeated(sizes.repetitions):
        for schedule in (DEFAULT_SCHEDULE, *(s for s in SCHEDULES if s != DEFAULT_SCHEDULE)):
            for threads in THREADS:
                if threads > 1:
                    lines.append(patience.await_near())
                run = case.run(threads, schedule)
                if not counts:
                    continue
                measured.setdefault((schedule, threads), []).append(run.steady_per_second)
                if threads == 1:
                    shares.append(run.serial_share)
    share, rates = median(shares), {variant: median(values) for variant, values in measured.items()}
    serial = f"serial stage {100 * share:.3g} % of one thread's work" if share else "no serial stage"
    note = f"{serial}: Amdahl allows {allowed(share):.3g}x; a cache line took {median(lines):.3g} ns"
    rows = []
    for (schedule, threads), rate in rates.items():
        row = Row("ordered", f"{case.name}, {schedule}, {counted(threads, 'thread')}", rate / 1e6, "M rows/s")
        if threads > 1:
            row.baseline, row.baseline_name = rates[schedule, 1] / 1e6, "1 thread"
            row.goal, row.goal_is_ratio, row.note = goal_of(share), True, note
        rows.append(row)
    return share, rates, rows


def _latency(case: Case, sizes: Sizes, rows: list[Row]) -> dict[tuple[str, int], Markers]:
    results, patience = set(), patience_for(sizes.repetitions)

    def call(rows: int, stream: hr.Stream, threads: int, schedule: str, rate: float | None = None) -> Markers:
        """A whole run, while cores are near."""
        patience.await_near(threads)
        found = marked(stream, rows, threads=threads, max_threads=threads, schedule=schedule, rate=rate)
        results.add((rows, found.results))
        return found

    def prepared(seconds: float, rate: float) -> tuple[int, hr.Stream]:
        """Rows for so long at this rate, and the application over them."""
        rows = int(min(sizes.most_rows, max(sizes.rows, seconds * rate)))
        return rows, case.stream_of(case.rows_of(rows))

    # One rate for all schedules: their latencies are compared.
    given = prepared(sizes.seconds, _GUESSED)
    half = {t: median([call(*given, t, DEFAULT_SCHEDULE).per_second for _ in range(sizes.repetitions)]) / 2 for t in THREADS}
    given = prepared(sizes.seconds, max(half.values()))
    runs: dict[tuple[str, int], list[Markers]] = {(s, t): [] for s in SCHEDULES for t in THREADS}
    for _ in range(sizes.repetitions):
        for (schedule, threads), found in runs.items():
            found.append(call(*given, threads, schedule, half[threads]))
    assert len(results) == len({rows for rows, _ in results}), f"{case.name}, whole runs, rows and results: {sorted(results)}"
    waits = {variant: middle(found) for variant, found in runs.items()}
    for (schedule, threads), wait in waits.items():
        where = f"{case.name}, {schedule}, {counted(threads, 'thread')}, half load"
        note = f"{half[threads] / 1e6:.3g} M rows/s"
        for name, value, goal in (("mean", wait.mean_ms, None), ("p50", wait.p50_ms, None), ("p99", wait.p99_ms, P99_MS)):
            rows.append(Row("ordered", f"{where}, {name}", value, "ms", "lower", goal, note=note))
    return waits


__all__ = ["INPUTS", "Case", "Measured", "allowed", "goal_of", "measure_apps"]
