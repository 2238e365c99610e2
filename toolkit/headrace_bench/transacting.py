"""What transactions cost, and what a second executor brings: the measure of `bench gs | sl | ob | tp`.

First, schemes, numbers of threads and costs of an operation are measured with the executors alone (`executed`): the events are
in the gate when the clock starts. The baseline is `serial`, one executor without any concurrency control, in the same
repetition; the baseline of `serial` is a hand-written loop (`plain_transactions`). An operation does the application's own work
and then `rounds` dependent steps (`costly`), which take the time that the case's name gives, on this machine.

Then runs are measured end to end: a table or a DataFrame in, rows out and discarded; the clock runs from before `hr.stream` to
the end.

Rows and tables of each timed run, except those of `none`, are hashed and compared with those of `serial`, and these
with the loop's.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
from headrace.control.mapping import Mapping
from headrace.references import BUCKETS
from headrace.summary import counted
from headrace.transactions.binding import Bound
from headrace.transactions.fitting import fitting
from headrace_bench.costly import WORKLOADS, Workload, with_rounds
from headrace_bench.executed import MOST_EVENTS, Executed
from headrace_bench.machine import patience_for
from headrace_bench.plain_transactions import plain_loop
from headrace_bench.rows import Row, median, repeated
from headrace_bench.taken import Watch
from headrace_bench.transactions_kernel import worked

COSTS_NS = (0, 30, 175)
ROW_GROUP = 125_000
"""Rows of a row group of the Parquet file that Spark reads, which it divides into partitions only between such groups."""
THREADS = (1, 2)
PUNCTUATION = 500
PUNCTUATIONS = (100, 5_000)
"""Measured in addition to `PUNCTUATION`, for the schemes whose executors synchronize at punctuations."""
OTHERS = ("lock", "mvlk", "partition")
BESIDE_OTHERS = 0.9
"""The goal for chains, as a multiple of the best of `OTHERS`, from 30 ns an operation on."""
LEAST_EVENTS = 5_000
OVERHEAD_NS = 15
"""Rough overhead of an operation, from which the number of events in a run is computed."""
MORPHSTREAM = "MorphStream"
MORPHSTREAM_NOTE = "MorphStream was measured in an earlier run, on a machine of this kind"


@dataclass(frozen=True)
class Goal:
    """A goal for `scheme` on two threads, when an operation costs `cost_ns`."""

    cost_ns: int
    ratio: float | None = None
    events_per_s: float | None = None
    scheme: str = "chains"


def ratio_at(cost_ns: int, goals: Sequence[Goal]) -> float:
    """The goal for chains when an operation costs `cost_ns`, as a multiple of the rate of `serial`.

    >>> ratio_at(175, (Goal(0, 0.8), Goal(175, 1.85)))
    1.85
    """
    (ratio,) = (goal.ratio for goal in goals if (goal.cost_ns, goal.scheme) == (cost_ns, "chains") and goal.ratio is not None)
    return ratio


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Parameters
    ----------
    run_ns : float
        Approximate duration of a run of `serial`.
    repetitions : int
    whole : int
        Events of a run end to end.
    """

    run_ns: float
    repetitions: int
    whole: int

    @classmethod
    def of(cls, full: bool, tiny: bool) -> Sizes:
        """Small sizes, full ones, or tiny ones that only show that it runs."""
        if tiny:
            return cls(0.0, 1, 2_000)
        return cls(400e6, 9, 4_000_000) if full else cls(100e6, 5, 2_000_000)


@functools.cache
def rounds_of(cost_ns: int) -> int:
    """The number of steps of `costly.worked` that take `cost_ns`, by the fastest of some trials: other work only adds time."""
    if not cost_ns:
        return 0
    rounds = 100_000
    worked(1, 1)
    found = []
    for _ in range(9):
        begin = time.perf_counter()
        worked(12_345, rounds)
        found.append((time.perf_counter() - begin) / rounds * 1e9)
    return max(1, round(cost_ns / min(found)))


def cost_name(cost_ns: int) -> str:
    """The name of a cost in the names of cases."""
    return f"{cost_ns} ns an operation" if cost_ns else "trivial operations"


class Case:
    """Events of one workload at one cost, and runs over them.

    Parameters
    ----------
    workload : Workload
    cost_ns : int
        Cost of an operation beyond the application's own work.
    run_ns : float
        Approximate duration of a run of `serial`.
    **events
        Arguments of the dataset that replace the workload's own.
    """

    def __init__(self, workload: Workload, cost_ns: int, run_ns: float, **events: Any):
        self.workload, self.cost_ns = workload, cost_ns
        self.rounds = rounds_of(cost_ns)
        few = workload.table(1_000, **events)
        each = workload.operations(few) / 1_000 * (cost_ns + OVERHEAD_NS)
        n = int(min(MOST_EVENTS, max(LEAST_EVENTS, run_ns / each)))
        self.table = with_rounds(workload.table(n, **events), self.rounds)
        self.operations = workload.operations(self.table)
        self._stream = workload.build(hr.stream(self.table, event_time="ts"))
        self._first: Executed | None = None
        self.content = ""
        """Hash of the results of `serial`."""

    @property
    def _bound(self) -> Bound:
        spec: Any = self._stream.plan().output.spec
        (bound,) = spec.bound.values()
        return bound

    @property
    def schemes(self) -> tuple[str, ...]:
        """Schemes that can run the workload; "none" only if none of its tables has containers."""
        bound = self._bound
        fit, has_containers = fitting(bound), any(table.containers for table in bound.tables)
        return tuple(each for each in fit if each != "none") if has_containers else fit

    @property
    def can_split(self) -> bool:
        """Whether its transactions are split into operations, which run in chains."""
        return self._bound.operations is not None

    def run(self, scheme: str, threads: int = 1, **options: Any) -> Executed:
        """Execute all events; except for `none`, the results must be those of `serial`."""
        if scheme != "serial" and not self.content:
            self.run("serial")
        options.setdefault("punctuation", PUNCTUATION)
        run = Executed(self._stream, self.table, like=self._first, scheme=scheme, threads=threads, **options)
        self._first = self._first or run
        run.run()
        if scheme == "serial" and not self.content:
            self.content = run.content
        if scheme != "none":
            assert run.content == self.content, f"{self.workload.name}, {scheme}, {threads} threads: not what serial made"
        return run


def measure_workload(name: str, goals: Sequence[Goal], full: bool, tiny: bool = False) -> list[Row]:
    """M events/s of each cost, scheme, number of threads and punctuation; then end to end from a table and a DataFrame."""
    sizes, workload = Sizes.of(full, tiny), WORKLOADS[name]
    rows: list[Row] = []
    for cost_ns in COSTS_NS[: 1 if tiny else None]:
        rows += _measured(workload, cost_ns, goals, sizes)
    if not tiny:
        rows += _by_partition(workload, sizes)
    rows += _from_outside(workload, sizes, tiny)
    return rows


def _variants(cost_ns: int, schemes: Sequence[str]) -> list[tuple[str, int, int]]:
    """Scheme, threads, punctuation."""
    others = [scheme for scheme in schemes if scheme != "serial"]
    found = [("serial", 1, PUNCTUATION)]
    found += [(scheme, threads, PUNCTUATION) for scheme in others for threads in THREADS]
    if cost_ns == COSTS_NS[1]:
        found += [(scheme, 2, punctuation) for scheme in others if scheme != "none" for punctuation in PUNCTUATIONS]
    return found


def _measured(workload: Workload, cost_ns: int, goals: Sequence[Goal], sizes: Sizes) -> list[Row]:
    name, case, label = workload.name, Case(workload, cost_ns, sizes.run_ns), cost_name(cost_ns)
    rates: dict[tuple[str, int, int], list[float]] = {}
    plain: list[float] = []
    by_hand, patience = plain_loop(name, case.table, case.rounds), patience_for(sizes.repetitions)
    for counts in repeated(sizes.repetitions):
        for variant in _variants(cost_ns, case.schemes):
            scheme, threads, punctuation = variant
            patience.await_near(threads)
            run = case.run(scheme, threads, punctuation=punctuation)
            if counts:
                rates.setdefault(variant, []).append(run.per_second / 1e6)
        seconds, content = by_hand()
        assert content == case.content, f"{name}: serial made something else than the hand-written loop"
        if counts:
            plain.append(case.table.num_rows / seconds / 1e6)
    serial = median(rates["serial", 1, PUNCTUATION])
    each_ns = 1e3 / serial * case.table.num_rows / case.operations
    rows = [
        Row(name, f"{label}, hand-written loop", median(plain), "M events/s"),
        Row(name, f"{label}, serial", serial, "M events/s", baseline=median(plain), baseline_name="hand-written loop",
            note=f"{each_ns:.3g} ns per operation in total"),
    ]  # fmt: skip
    for (scheme, threads, punctuation), values in rates.items():
        if scheme == "serial":
            continue
        text = f"{label}, {scheme}, {counted(threads, 'thread')}"
        usual = punctuation == PUNCTUATION
        text += "" if usual else f", punctuation {punctuation:,}"
        row = Row(name, text, median(values), "M events/s", baseline=serial, baseline_name="serial")
        row.note = "wrong results" if scheme == "none" and threads > 1 else ""
        for goal in goals:
            if (goal.cost_ns, goal.scheme, 2) == (cost_ns, scheme, threads) and usual:
                row.goal, row.goal_is_ratio = goal.ratio or goal.events_per_s, goal.ratio is not None
        rows.append(row)
    if cost_ns and case.can_split:
        rows.append(_beside_others(name, label, {variant: median(values) for variant, values in rates.items()}))
    return rows


def _beside_others(name: str, label: str, rates: dict[tuple[str, int, int], float]) -> Row:
    """Chains on two threads, and the best of the schemes that take locks or partitions, where no operation depends on another."""
    best = max(OTHERS, key=lambda scheme: rates[scheme, 2, PUNCTUATION])
    return Row(
        name, f"{label}, chains beside the best of {', '.join(OTHERS)}, 2 threads", rates["chains", 2, PUNCTUATION],
        "M events/s", baseline=rates[best, 2, PUNCTUATION], baseline_name=best, goal=BESIDE_OTHERS, goal_is_ratio=True,
    )  # fmt: skip


def split_evenly(threads: int) -> Mapping:
    """The mapping in which executor k % threads owns key k: the datasets' partitions, for this number of threads."""
    return Mapping(np.arange(BUCKETS) % threads)


def _by_partition(workload: Workload, sizes: Sizes) -> list[Row]:
    """The mix that partitions are made for: a quarter of the events reach both, the others one."""
    if "multi_share" not in workload.events:
        return []
    case = Case(workload, COSTS_NS[1], sizes.run_ns, multi_share=0.25, partitions=2, multi_length=2)
    rates: dict[str, list[float]] = {}
    patience = patience_for(sizes.repetitions)
    for _ in range(sizes.repetitions):
        for scheme in case.schemes:
            threads = 1 if scheme == "serial" else 2
            patience.await_near(threads)
            run = case.run(scheme, threads, **({} if threads == 1 else {"mapping": split_evenly(2)}))
            rates.setdefault(scheme, []).append(run.per_second / 1e6)
    serial = median(rates.pop("serial"))
    label = f"{cost_name(COSTS_NS[1])}, a quarter in two partitions"
    rows = [Row(workload.name, f"{label}, serial", serial, "M events/s")]
    for scheme, values in rates.items():
        case_name = f"{label}, {scheme}, 2 threads"
        rows.append(Row(workload.name, case_name, median(values), "M events/s", baseline=serial, baseline_name="serial"))
    return rows


def call(workload: Workload, source: Any, **options: Any) -> tuple[float, int, dict[str, pa.Table]]:
    """Run the workload as a user does. Returns seconds, number of rows, and tables."""
    watch = Watch()
    with workload.build(hr.stream(source, event_time="ts")).start(sink=hr.discard(), **options) as run:
        run.wait()
    seconds = watch.taken().seconds
    return seconds, run.metrics().tuples_out, {name: run.tables[name].to_arrow() for name in run.tables}


def _from_outside(workload: Workload, sizes: Sizes, tiny: bool) -> list[Row]:
    from headrace_bench.ingress import has_session

    table = with_rounds(workload.table(sizes.whole), 0)
    spark = hr.spark.session() if not tiny or has_session() else None
    baseline = workload.morphstream
    rows = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        forms: dict[str, Any] = {"Arrow table": table}
        if spark is not None:
            path = Path(folder) / "events.parquet"
            pq.write_table(table, path, row_group_size=ROW_GROUP)
            forms["Spark DataFrame"] = spark.read.parquet(str(path))
        for form, source in forms.items():
            truth = None
            for scheme, threads in (("serial", 1), ("chains", 2)):
                rates = []
                for counts in repeated(sizes.repetitions):
                    seconds, found, tables = call(workload, source, scheme=scheme, threads=threads)
                    assert found == table.num_rows, f"{workload.name}, {form}: {found} rows of {table.num_rows}"
                    truth = truth or tables
                    assert tables == truth, f"{workload.name}, {form}, {scheme}: other tables than of serial"
                    if counts:
                        rates.append(found / seconds / 1e6)
                row = Row(workload.name, f"{form}, end to end, {scheme}, {counted(threads, 'thread')}",
                          median(rates), "M events/s")  # fmt: skip
                if baseline is not None:
                    row.baseline, row.baseline_name, row.note = baseline / 1e6, MORPHSTREAM, MORPHSTREAM_NOTE
                    if form == "Spark DataFrame" and scheme == "chains":
                        row.goal, row.goal_is_ratio = 100.0, True
                rows.append(row)
    return rows
