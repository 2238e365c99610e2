"""Page views and frauds at given rates, on one leaf and on two: latency as the rate rises, a part of `headrace bench dgs`.

Figure 6 of the DGS paper compares what a system does with these two programs by itself with a synchronization plan. Without a
plan, frauds run on one leaf, and so do page views where all are of one page. Rates are fractions of the full speed of one leaf.
An event takes a microsecond, as far as two cores leave room for the threads that feed events, order results and measure.
Latency runs from an event's entry into its mailbox to its result at the collector (`paced`): above the capacity of the leaves,
latency grows until the run ends or mailboxes are full; only then do the inputs fall behind. All results must be
those of the loop.
"""

from __future__ import annotations

from typing import Any

from headrace_bench.dgs import LEAVES
from headrace_bench.dgs_apps import PROGRAMS, Case, same
from headrace_bench.event_window import rounds_for
from headrace_bench.paced import Paced
from headrace_bench.rows import Row, median

COST_NS = 1_000
SHARES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
"""Offered rates, as shares of one leaf's capacity."""
QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9}
BEATS = 1_000
"""Heartbeats between two rare events: one for every ten of the others."""


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M events/s processed at each offered rate, and milliseconds of latency."""
    repetitions, seconds = (1, 0.02) if tiny else (5, 1.0) if full else (3, 0.3)
    return [row for name in PROGRAMS for row in _rows_of(name, repetitions, seconds, SHARES[:1] if tiny else SHARES)]


def _rows_of(name: str, repetitions: int, seconds: float, shares: tuple[float, ...]) -> list[Row]:
    rounds = rounds_for(COST_NS)
    probe = Case(name, int(1e9 / COST_NS * seconds), rounds)
    capacity = median([probe.planned(1).per_second for _ in range(repetitions + 1)][1:])
    rows = [Row("dgs", f"{name}, {COST_NS:,} ns: 1 leaf, as fast as it can", capacity / 1e6, "M events/s")]
    for share in shares:
        offered = share * capacity
        case = Case(name, int(offered * seconds), rounds)
        expected = case.serial()[1]
        for leaves, label in LEAVES.items():
            runs = [_paced(case, offered, leaves, expected) for _ in range(repetitions)]
            what = f"{name}, {COST_NS:,} ns, offered {share:g} of one leaf's rate: {label}"
            rows.append(Row("dgs", what, median([run.per_second / 1e6 for run in runs]), "M events/s", baseline=offered / 1e6,
                            baseline_name="offered"))  # fmt: skip
            for part, quantile in QUANTILES.items():
                waits = [run.operator.collector.latency.quantile_ms(quantile) for run in runs]
                rows.append(Row("dgs", f"{what}, latency, {part}", median(waits), "ms", better="lower"))
    return rows


def _paced(case: Case, per_second: float, leaves: int, expected: list[Any]) -> Paced:
    run = Paced(case.program, case.inputs, per_second, BEATS, threads=leaves, leaves=leaves, max_threads=leaves).run()
    assert same(run, expected), f"{case.name}: {LEAVES[leaves]} at a pace differ"
    return run


__all__ = ["COST_NS", "QUANTILES", "SHARES", "measure"]
