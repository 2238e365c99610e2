"""A join whose work is sleeping: each comparison takes its thread a fixed time, most of it asleep.

A sleeping thread needs no core. So 32 threads do 32 times what one does, even on a laptop, and the shapes that the
papers measured on 36 cores (throughput over threads, reconfigurations, imbalance) can be seen there. The engine around the join
is the real one: gate, epochs, owners, results. The join cannot show the effect of what cores share: caches, memory, clock rates.
Every figure made with it says so.

The comparisons are also made, so results are those of the join. A thread sleeps for `ns` per comparison, less the time that
it was at work; if a sleep was too long, the excess is taken from the next one, up to `MOST_EARLY_NS`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

import headrace as hr
from headrace.control.observation import Observation
from headrace.control.requests import Request
from headrace.controllers import ProactiveJoin, Threshold
from headrace.elastic import words
from headrace.elastic.instance_loop import PRIVATE_WORDS
from headrace.elastic.join.compiled import CompiledJoin
from headrace.elastic.specs import JoinSpec
from headrace.metrics.by_worker import coefficient_of_variation
from headrace.summary import counted
from headrace_bench import join
from headrace_bench.experiments.figure import Figure, Line
from headrace_bench.join_kernel import WIDTH
from headrace_bench.reconfigure import Case
from headrace_bench.rows import Row

MARK = "time work"
"""The mark of each figure made with such an operator."""
NOTE = "A comparison is a sleep here: threads need no cores, and share no caches."
MOST_EARLY_NS = 20_000_000
"""A thread that is kept off its core for longer than this does not make up for the excess."""

_TIMED = """
from headrace.memory.atomics import nanosleep, now_ns

process_at_once = process


@kernel
def process(me, g, c, o, x, s, l, buffer, row, start, count):
    begun, before = now_ns(), c.meter[me, COMPARISONS]
    outcome = process_at_once(me, g, c, o, x, s, l, buffer, row, start, count)
    owed = l[{word}] + (c.meter[me, COMPARISONS] - before) * {ns} - (now_ns() - begun)
    if owed > 0:
        begun = now_ns()
        nanosleep(owed)
        owed -= now_ns() - begun
    l[{word}] = max(owed, -{most_early})
    return outcome
"""


@dataclass(frozen=True, repr=False)
class TimedJoin(JoinSpec):
    """A join without an index in which each comparison takes a thread `ns` nanoseconds: for `Stream.through`."""

    ns: int = 1_000

    def compiled(self, node, branches, options):
        """Return the operator that computes the join in one run."""
        return _CompiledTimed(node, branches, options)


class _CompiledTimed(CompiledJoin):
    def text(self) -> str:
        """A `process` around that of joins, behind it in the same module: what comes later there calls this one."""
        return super().text() + _TIMED.format(word=PRIVATE_WORDS - 1, ns=self.spec.ns, most_early=MOST_EARLY_NS)


def as_time(observation: Observation, ns: int) -> Observation:
    """Return the observation with a load of `ns` of thread time per comparison: a sleep shows no load, and needs no core.

    Other costs of tuples are left out, and so is the cost model, which knows processor time only.
    """
    share = min(1.0, observation.comparisons * ns / 1e9 / max(1, observation.threads))
    return replace(observation, utilisation=share, busiest=share, cores=observation.max_threads, cost=None)


@dataclass
class TimedThreshold(Threshold):
    """`Threshold` with load counted as `ns` per comparison, as if each thread had a core."""

    ns: int = 1_000

    def decide(self, observation: Observation) -> Request | None:
        """Decide from the observation that `as_time` returns."""
        return super().decide(as_time(observation, self.ns))


@dataclass
class TimedProactive(ProactiveJoin):
    """`ProactiveJoin` with load counted as `ns` per comparison, as if each thread had a core."""

    ns: int = 1_000

    def decide(self, observation: Observation) -> Request | None:
        """Decide from the observation that `as_time` returns."""
        return super().decide(as_time(observation, self.ns))


def timed_join(left: pa.Table, right: pa.Table, size: int, ns: int) -> hr.Stream:
    """The band join of `join.make_sides`, all pairs compared, each in `ns` nanoseconds."""
    where = hr.band("x", "a", WIDTH) & hr.band("y", "b", WIDTH)
    spec = TimedJoin(size, where, (), ("", ""), index=False, ns=ns)
    return hr.stream(left, event_time="ts").through(spec, hr.stream(right, event_time="ts"))


def timed_band_join(left: pa.Table, right: pa.Table, size_s: float, ns: int) -> hr.Stream:
    """The join of `live_stream.band_join`, with times in microseconds, each comparison in `ns` nanoseconds."""
    return timed_join(left, right, round(size_s * 1e3) * 1_000, ns)


def marked_rows(rows: list[Row]) -> list[Row]:
    """The rows with the mark in their names, and with the note."""
    return [replace(row, case=f"{MARK}, {row.case}", note=f"{row.note}; {NOTE}" if row.note else NOTE) for row in rows]


def marked(figure: Figure) -> Figure:
    """The figure with the mark in its title, and with the note if it has none."""
    title = figure.title if figure.title.startswith(MARK) else f"{MARK}: {figure.title[0].lower()}{figure.title[1:]}"
    return replace(figure, title=title, note=figure.note or NOTE)


def timed_case(pairs: int, window: int, ns: int) -> Case:
    """A case of `pairs` tuples of each side, compared with full windows; expected results are the plain loop's."""
    left, right, size = join.make_sides(window, pairs)
    wanted = join.plain_pairs(join.columns_of(left, right), size, window)
    return Case(MARK, timed_join(left, right, size, ns), [left, right], stored=window, results=wanted)


@dataclass(frozen=True)
class Scaled:
    """Throughput of `threads` threads, in tuples per second of each side, and the imbalance of their comparisons."""

    threads: int
    per_second: float
    imbalance: float


def measure_scaling(counts: tuple[int, ...], each_s: float, window: int, ns: int) -> list[Scaled]:
    """Measure throughput over threads; without losses each run takes `each_s`."""
    scaled = []
    for threads in counts:
        case = timed_case(max(16, round(each_s * threads * 1e9 / ns / window / 2)), window, ns)
        run = case.resident(threads, threads)
        seconds = run.run()
        case.check(run)
        compared = [int(run.operator.arrays.meter[member, words.COMPARISONS]) for member in range(threads)]
        per_second = (len(run.ts[0]) - window) / seconds
        scaled.append(Scaled(threads, per_second, coefficient_of_variation(compared)))
    return scaled


def rows_and_figure(scaled: list[Scaled], window: int, ns: int) -> tuple[list[Row], Figure]:
    """Rows and a figure for the report, compared with the threads' throughput without any loss."""
    rows = []
    wanted = [2e-3 * window * each.per_second * 1e-3 for each in scaled]
    ideal = [each.threads * 1e3 / ns for each in scaled]
    for each, rate, best in zip(scaled, wanted, ideal, strict=True):
        case = f"{MARK}, {counted(each.threads, 'thread')}"
        rows.append(
            Row("q4", case, rate, "M comparisons/s", baseline=best, baseline_name="threads without any loss", note=NOTE)
        )
        rows.append(Row("q4", f"{case}, imbalance", 100 * each.imbalance, "%", "lower", 2.0, note=NOTE))
    counts = [each.threads for each in scaled]
    figure = Figure(
        f"{MARK}: throughput over threads", "threads", "M comparisons/s",
        [Line("measured", counts, wanted), Line("without any loss", counts, ideal, predicted=True)],
        log_x=True, log_y=True, note=f"{NOTE} {ns:,} ns each, windows of {window:,}.",
    )  # fmt: skip
    return rows, figure
