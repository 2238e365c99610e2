"""How long a reconfiguration takes: from the call to the last thread that runs in the new epoch.

While a stream runs, the number of threads alternates between two values.
Saturated: the source adds as fast as the gate accepts tuples, so a request waits
behind as much work as the gate may hold. Half load: half the rate that the
saturated run reached. Every run's results must be those of one thread.
For transactions, ordered pipelines and programs see `reconfigure_engines`; `stopping` has the time
that a busy run of each engine takes to stop.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import headrace as hr
from headrace_bench import join, reconfigure_engines, stopping
from headrace_bench.reconfigure_engines import GAP_S, MAX_RUNS
from headrace_bench.resident import Resident
from headrace_bench.rows import Row
from headrace_bench.wordcount import PERIOD, make_tweets


@dataclass
class Case:
    """A query, and its expected results."""

    name: str
    stream: Any
    tables: list
    stored: int = 0
    period: int = 0
    results: tuple[int, int] = (0, 0)
    per_cycle: tuple[int, int] = (0, 0)
    first: Resident | None = None

    def resident(self, threads: int, max_threads: int) -> Resident:
        run = Resident(
            self.stream, self.tables, threads, max_threads, like=self.first, stored=self.stored
        )
        self.first = self.first or run
        return run

    def check(self, run: Resident) -> None:
        """Compare number and content of the results."""
        cycles = max(0, run.cycles - 1) if self.period else 0
        wanted = self.results[0] + cycles * self.per_cycle[0]
        assert run.results == wanted, f"{self.name}: {run.results} results instead of {wanted}"
        folded = (self.results[1] + cycles * self.per_cycle[1]) & (2**64 - 1)
        assert run.digest == folded, f"{self.name}: other results than without reconfigurations"


def word_count(n: int) -> Case:
    """Word count of tweets in cycles, each of which adds the same windows ten minutes later. WA 10, WS 20 minutes."""
    table = make_tweets(n)
    keyed = hr.stream(table, event_time="ts").key_by(word=hr.each("words"))
    stream = keyed.window(2 * PERIOD, PERIOD).aggregate(n=hr.count())
    case = Case("word count", stream, [table], period=PERIOD)
    measured = []
    for cycles in (1, 2):
        run = case.resident(1, 1)
        run.start(period=case.period, cycles=cycles)
        run.wait()
        assert run.cycles == cycles
        measured.append((run.results, run.digest))
    once, twice = measured
    case.results, case.per_cycle = once, (twice[0] - once[0], twice[1] - once[1])
    return case


def band_join(n: int, window: int = 20_000) -> Case:
    """The band join; its expected results are those of the plain loop."""
    left, right, size = join.make_sides(window, n)
    results = join.plain_pairs(join.columns_of(left, right), size, window)
    return Case("join", join.band_join(left, right, size), [left, right], stored=window, results=results)


def alternate(case: Case, low: int, high: int, count: int, per_second: int) -> tuple[list, list, float]:
    """Alternate between `low` and `high` threads until there are `count` changes each way.

    Returns
    -------
    up, down : list of float
        Milliseconds from call to completion.
    rate : float
        Tuples per second of each source that were accepted.
    """
    times: tuple[list[float], list[float]] = ([], [])
    fed = seconds = 0.0
    for _ in range(MAX_RUNS):
        run = case.resident(low, high)
        run.start(per_second=per_second, period=case.period)
        time.sleep(GAP_S)
        up = True
        while not run.drained.is_set() and min(map(len, times)) < count:
            change = run.reconfigure(high if up else low)
            if change.outcome != "done":
                break
            times[0 if up else 1].append(change.ms)
            up = not up
            time.sleep(GAP_S)
        seconds += run.wait()
        fed += sum(len(ts) - case.stored for ts in run.ts) / len(run.ts) * (run.cycles if case.period else 1)
        case.check(run)
        if min(map(len, times)) >= count:
            break
    return *times, fed / seconds


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Milliseconds, p50 and p99, for each pair of thread numbers, load and query."""
    tweets, pairs, count = (2_000_000, 2_000_000, 120) if full else (300_000, 150_000, 30)
    window = 20_000
    if tiny:
        tweets, pairs, count, window = 20_000, 20_000, 2, 500
    rows = []
    for case in (word_count(tweets), band_join(pairs, window)):
        for low, high in ((1, 2), (2, 8)):
            up, down, rate = alternate(case, low, high, count, 0)
            loads = [("saturated", (up, down), 1.0)]
            half = max(1, int(rate / 2))
            up, down, _ = alternate(case, low, high, count, half)
            loads.append((f"half load ({half / 1e6:.2g} M tuples/s)", (up, down), 0.1 if high == 2 else 0.3))
            for load, both, goal in reversed(loads):
                for values, change in zip(both, (f"{low} to {high}", f"{high} to {low}"), strict=True):
                    name = f"{case.name}, {load}, {change}"
                    p50, p99 = np.percentile(values or [np.nan], (50, 99)).tolist()
                    rows.append(Row("reconfigure", f"{name}, p50 of {len(values)}", p50, "ms", "lower", goal))
                    rows.append(Row("reconfigure", f"{name}, p99", p99, "ms", "lower", 5.0))
    return rows + reconfigure_engines.measure(full, tiny) + stopping.measure(full, tiny)
