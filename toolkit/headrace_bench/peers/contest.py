"""Contestants, and how they are run against each other.

All contestants of a workload are loaded first, run once untimed (as a
warm-up), and then take turns, so that a change of the machine's speed affects
all of them. A figure is taken over at least `LEAST_S`; a contestant so slow that the
whole input would take minutes gets only the first part of it. The digest of every result is compared. A failure of one
contestant is reported in its row and does not affect the others.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.summary import counted
from headrace_bench.peers.workloads import Work
from headrace_bench.rows import Row, median

LEAST_S = 0.5
"""A contestant that finishes sooner runs again until it has taken this long; its figure is the mean of these runs."""
MOST_RUNS = 100
BUDGET_S = 20.0
"""A contestant that has taken this long for its timed runs of one workload is not repeated."""


PACED = ("ours", "streaming")
"""Kinds of contestants whose latency is measured."""


class NotRun(Exception):
    """A peer cannot be run here; the message says what it needs."""


@dataclass(frozen=True)
class Answer:
    """The result of one run.

    Parameters
    ----------
    seconds : float
        From the first tuple to the last result, without start-up and ingestion.
    digest : int
    rows : int
        Rows of the result.
    cpu_s : float
        Processor time of all threads over that time; NaN if it cannot be determined.
    """

    seconds: float
    digest: int
    rows: int
    cpu_s: float = math.nan


@dataclass(frozen=True)
class Latency:
    """Milliseconds from the arrival of the tuple that completed a window to each of its results."""

    p50: float
    p99: float


class Contestant:
    """One peer in one configuration.

    Parameters
    ----------
    name : str
        The peer's name, with its version.
    threads : int
    kind : {"ours", "engine", "loop", "streaming", "batch"}
        "engine" is ours without ingress: on rows that were encoded beforehand, which no user has.
    given : str
        The form of its input when the clock starts.
    """

    warm_ups = 1
    """Untimed runs before the timed ones."""
    is_slow = False
    """Whether it gets only the first part of the input."""

    def __init__(self, name: str, threads: int, kind: str, given: str):
        self.name, self.threads, self.kind, self.given = name, threads, kind, given

    def install(self, work: Work) -> None:
        """Check that everything needed is present; raises `NotRun` if it is not, or if the workload is not for this peer."""

    def start(self) -> None:
        """Start the peer's process or session; its duration is the table's start-up time."""

    def load(self, work: Work) -> None:
        """Load the workload's input; its duration is the table's ingestion time."""
        raise NotImplementedError

    def run(self) -> Answer:
        """Run the loaded workload."""
        raise NotImplementedError

    def latency(self, per_second: int) -> tuple[Answer, Latency]:
        """Run the loaded workload at a given number of rows per second."""
        raise NotRun("not measured")

    def end(self) -> None:
        """Release the input, and end whatever was started."""

    @property
    def label(self) -> str:
        return f"{self.name}, {counted(self.threads, 'thread')}"


@dataclass
class Result:
    """A contestant's measurements; `failure` says why there are none."""

    contestant: Contestant
    work: Work
    start_s: float = math.nan
    ingestion_s: float = math.nan
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    half_rate: int = 0
    latencies: list[Latency] = field(default_factory=list)
    no_latency: str = ""
    failure: str = ""

    @property
    def value(self) -> float:
        """Median seconds, NaN after a failure."""
        return math.nan if self.failure or not self.seconds else median(self.seconds)

    @property
    def rate(self) -> float:
        """Units of the workload per second, NaN after a failure."""
        return self.work.amount / self.value

    @property
    def cpu_ns(self) -> float:
        """Median processor time per row of the input, in ns; NaN after a failure."""
        return math.nan if self.failure or not self.cpu_s else median(self.cpu_s) / self.work.tuples * 1e9


def compete(
    work: Work, contestants: Sequence[Contestant], repetitions: int, part: Work | None = None, least_s: float = LEAST_S
) -> list[Result]:
    """Run all contestants on a workload, in turns; slow ones only on the first `part` of it, if there is one."""
    results = [Result(each, part if part is not None and each.is_slow else work) for each in contestants]
    try:
        for result in results:
            say(f"{work.title}: {result.contestant.label} starts, loads and warms up")
            _attempt(result, lambda r=result: _prepare(r))
        for repetition in range(repetitions):
            say(f"{work.title}: round {repetition + 1} of {repetitions}")
            for result in results:
                if not result.failure and sum(result.seconds) < BUDGET_S:
                    _attempt(result, lambda r=result: _run(r, least_s))
        if work.is_paced:
            say(f"{work.title}: latency")
            _measure_latency([r for r in results if r.contestant.kind in PACED], repetitions)
    finally:
        for contestant in contestants:
            contestant.end()
    return results


def say(text: str) -> None:
    """Show the progress to the waiting user."""
    print(f"peers: {text}", file=sys.stderr, flush=True)


def _run(result: Result, least_s: float) -> None:
    answers = [_checked(result.contestant.run(), result.work)]
    while sum(each.seconds for each in answers) < least_s and len(answers) < MOST_RUNS:
        answers.append(_checked(result.contestant.run(), result.work))
    result.seconds.append(sum(each.seconds for each in answers) / len(answers))
    result.cpu_s.append(sum(each.cpu_s for each in answers) / len(answers))


def _prepare(result: Result) -> None:
    contestant, work = result.contestant, result.work
    contestant.install(work)
    begin = time.perf_counter()
    contestant.start()
    started = time.perf_counter()
    contestant.load(work)
    result.start_s, result.ingestion_s = started - begin, time.perf_counter() - started
    for _ in range(contestant.warm_ups):
        _checked(contestant.run(), work)


def _measure_latency(results: Sequence[Result], repetitions: int) -> None:
    for _ in range(repetitions):
        for result in results:
            if result.failure or result.no_latency:
                continue
            result.half_rate = int(result.work.tuples / result.value / 2)
            result.no_latency = failure_of(lambda r=result: _add_latency(r))


def _add_latency(result: Result) -> None:
    answer, latency = result.contestant.latency(result.half_rate)
    _checked(answer, result.work)
    result.latencies.append(latency)


def _attempt(result: Result, action: Callable[[], object]) -> None:
    result.failure = failure_of(action)


def failure_of(action: Callable[[], object]) -> str:
    """Call a function; return a description of its failure, or an empty string."""
    try:
        action()
    except NotRun as error:
        return f"not run: {error}"
    except Exception as error:  # a peer's failure, of whatever kind, is its result
        lines = str(error).strip().splitlines() or [""]
        return f"FAILED: {type(error).__name__}: {lines[0][:200]}"
    return ""


def _checked(answer: Answer, work: Work) -> Answer:
    if (answer.rows, answer.digest) != (work.rows, work.digest):
        raise ValueError(
            f"wrong result: {answer.rows} rows, hash {answer.digest:016x},"
            f" instead of {work.rows} rows, hash {work.digest:016x}"
        )
    return answer


def rows_of(work: Work, results: Sequence[Result]) -> list[Row]:
    """Make the table's rows: ours against the best streaming peer, the others against the plain loop."""
    rates = [result.rate for result in results]
    of_kind = {
        kind: [
            (rate, result.contestant.label)
            for rate, result in zip(rates, results, strict=True)
            if result.contestant.kind == kind and not math.isnan(rate)
        ]
        for kind in ("streaming", "loop")
    }
    loop = max(of_kind["loop"], default=(math.nan, ""))
    best = max(of_kind["streaming"], default=(math.nan, ""))
    rows = []
    for rate, result in zip(rates, results, strict=True):
        contestant = result.contestant
        is_ours = contestant.kind == "ours" and not math.isnan(best[0])
        base, base_name = best if is_ours else loop
        is_compared = contestant.kind != "loop" and not math.isnan(base)
        repeated = f"{len(result.seconds)} runs" if len(result.seconds) != 1 else "1 run"
        before = f"start-up {result.start_s:.1f} s, ingestion {result.ingestion_s:.2f} s"
        given = contestant.given if result.work is work else f"{contestant.given}, the first {result.work.tuples:,} rows"
        note = result.failure or f"given {given}; {before}; {repeated}"
        rows.append(
            Row(
                "peers",
                f"{work.title}: {contestant.label}",
                rate,
                f"{work.unit}/s",
                goal=1.0 if is_ours else None,
                baseline=base if is_compared else None,
                baseline_name=base_name if is_compared else None,
                goal_is_ratio=is_ours,
                note=note,
            )
        )
        if not math.isnan(result.cpu_ns):
            case = f"{work.title}: {contestant.label}, processor time"
            rows.append(Row("peers", case, result.cpu_ns, f"ns/{work.row}", "lower"))
    return rows + (_latency_rows(work, results) if work.is_paced else [])


def _latency_rows(work: Work, results: Sequence[Result]) -> list[Row]:
    """Ours against the streaming peer with the lowest latency, each at half of its own rate."""
    rows = []
    best = {
        quantile: min(
            (
                (median([getattr(each, quantile) for each in result.latencies]), result.contestant.label)
                for result in results
                if result.contestant.kind == "streaming" and result.latencies and not result.failure
            ),
            default=None,
        )
        for quantile in ("p50", "p99")
    }
    for result in results:
        contestant = result.contestant
        if contestant.kind not in PACED:
            continue
        failure = result.failure or result.no_latency
        note = failure or f"at {result.half_rate:,} {work.unit}/s"
        for quantile, fastest in best.items():
            value = math.nan if failure else median([getattr(each, quantile) for each in result.latencies])
            case = f"{work.title}, latency at half of its rate: {contestant.label}, {quantile}"
            row = Row("peers", case, value, "ms", "lower", note=note)
            if contestant.kind == "ours" and fastest is not None:
                row.baseline, row.baseline_name = fastest
                row.goal, row.goal_is_ratio = 1.0, True
            rows.append(row)
    return rows
