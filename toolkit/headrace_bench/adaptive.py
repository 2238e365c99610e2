"""What `scheme="adaptive"` settles on, beside every scheme that it may choose: `headrace bench adaptive`.

Whole runs on two threads over an endless stream of events. Each scheme runs for some time with the default punctuation before
its rate is measured. The adaptive run tries the schemes. Its rate after it has settled is compared with the rate of
the best fixed scheme, which runs once before it and once after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace_bench.costly import WORKLOADS, with_rounds
from headrace_bench.rows import Row
from headrace_bench.speculative import lookups
from headrace_bench.transacting import cost_name, rounds_of

GOAL = 0.9
"""The goal: share of the best scheme's rate."""
SCHEMES = ("serial", "chains", "lock", "mvlk", "partition", "speculative")
EVENTS = 50_000
"""Events of the table, which is repeated endlessly, each time with later event times."""
_SETTLED = "regret"
"""Name of a figure that only the decision which ends the trials has."""
_LONGEST_S = 60.0


def _costly(name: str, cost_ns: int, **events: Any) -> tuple[Callable, pa.Table]:
    workload = WORKLOADS[name]
    return workload.build, with_rounds(workload.table(EVENTS, **events), rounds_of(cost_ns))


def _looked_up(cost_ns: int) -> tuple[Callable, pa.Table]:
    keys = np.random.default_rng(2).integers(0, 10_000, EVENTS)
    return lookups, pa.table({"ts": np.arange(EVENTS), "a": keys, "rounds": np.full(EVENTS, rounds_of(cost_ns))})


CASES: dict[str, Callable[[], tuple[Callable, pa.Table]]] = {
    f"gs, {cost_name(0)}": lambda: _costly("gs", 0),
    f"gs, {cost_name(175)}": lambda: _costly("gs", 175),
    f"gs, writes, Zipf 1.2, {cost_name(30)}": lambda: _costly("gs", 30, reads=0.0, skew=1.2),
    f"sl, {cost_name(175)}": lambda: _costly("sl", 175),
    f"lookups of keys just read, {cost_name(200)}": lambda: _looked_up(200),
}


def without_end(table: pa.Table) -> pa.RecordBatchReader:
    """Repeat the events for ever, each time with later event times."""
    ts = table["ts"].combine_chunks()
    times = ts.to_numpy().view(np.int64)
    span = int(times[-1] - times[0]) + 1

    def batches() -> Iterator[pa.RecordBatch]:
        for cycle in range(1 << 40):
            later = pa.array(times + cycle * span).cast(ts.type)
            yield from table.set_column(table.schema.get_field_index("ts"), table.schema.field("ts"), later).to_batches()

    return pa.RecordBatchReader.from_batches(table.schema, batches())


def _rate(run: Any, seconds: float) -> float:
    """M events/s of the next seconds."""
    begin, before = time.perf_counter(), run.metrics().tuples_out
    time.sleep(seconds)
    return (run.metrics().tuples_out - before) / (time.perf_counter() - begin) / 1e6


def _await(is_so: Callable[[], bool]) -> None:
    limit = time.monotonic() + _LONGEST_S
    while not is_so() and time.monotonic() < limit:
        time.sleep(0.02)


def _of_scheme(build: Callable, table: pa.Table, scheme: str, seconds: float) -> tuple[float, str]:
    """The rate, and the configuration in force at the end."""
    with build(hr.stream(without_end(table), event_time="ts")).start(sink=hr.discard(), threads=2, scheme=scheme) as run:
        _await(lambda: run.metrics().tuples_out > 0)
        if scheme == "adaptive":
            _await(lambda: any(_SETTLED in decision.figures for decision in run.decisions))
        time.sleep(seconds / 4)
        rate = _rate(run, seconds)
        (name,) = run.metrics().operators
        chosen = run[name].configuration
        run.stop()
    return rate, f"{chosen['scheme']}, punctuation {chosen['punctuation']:,}"


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M events/s of each scheme and of the adaptive run."""
    seconds = 0.05 if tiny else 2.0 if full else 0.8
    rows = []
    for name in [*CASES][-1 if tiny else 0 :]:
        build, table = CASES[name]()
        schemes = [scheme for scheme in SCHEMES if scheme in ("serial", "speculative") or not name.startswith("lookups")]
        rates = {scheme: _of_scheme(build, table, scheme, seconds)[0] for scheme in schemes}
        best = max(rates, key=lambda scheme: rates[scheme])
        rows += [Row("adaptive", f"{name}, {scheme}", rate, "M events/s") for scheme, rate in rates.items()]
        rate, chosen = _of_scheme(build, table, "adaptive", seconds)
        again = _of_scheme(build, table, best, seconds)[0]  # so that a machine that got faster is no advantage
        best_rate = (rates[best] + again) / 2
        rows.append(
            Row("adaptive", f"{name}, adaptive", rate, "M events/s", baseline=best_rate, baseline_name=best, goal=GOAL,
                goal_is_ratio=True, note=chosen)
        )  # fmt: skip
    return rows
