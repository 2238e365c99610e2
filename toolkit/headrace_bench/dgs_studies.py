"""The two case studies of the DGS paper's appendix A, with the applications unchanged: a part of `headrace bench dgs`.

A.1, outliers among network connections: throughput on one leaf and on two. A.2, loads of smart plugs: how much faster than real
time readings are replayed; the latency of a result at half of that speed; and how many bytes of state forks and joins move, and
how many they leave in place, compared with the bytes of the readings. Runs are from tables to tables, with ingress. At a small
size results must be those of `headrace.reference`; at the size that is timed, those of one leaf.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import headrace as hr
import headrace_datasets
from headrace.apps import outlier, smarthome
from headrace.metrics.latency import LatencyHistogram
from headrace.reference import synchronization_apps as reference
from headrace_bench.rows import Row, median

HANG_S = 300
QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9}
UNIT = "us"
CHECKED = 3_000
"""Rows that the reference checks."""
READING_BYTES = 40
"""Bytes of a reading: time, house, household, plug and load."""
SLICE = "15min"
"""Slice of smarthome: short, so that the replayed part has many."""
RATE = 20.0
"""Readings a second of event time, from all `HOUSES`."""
HOUSES = 20


class Done(NamedTuple):
    """A finished run."""

    seconds: float
    table: pa.Table
    values: dict[str, Any]


def connections(rows: int) -> tuple[Any, dict[str, Any], pa.Table]:
    """The program of `outlier`, its inputs, and a table of all rows."""
    table = headrace_datasets.connections(n=rows).to_arrow()
    table = table.select(["ts", *outlier.TEXTS, *outlier.NUMBERS]).append_column("row", pa.array(np.arange(rows)))
    streams = [table.take(pa.array(np.arange(first, rows, 2))) for first in range(2)]
    return outlier.program(), {"connection": streams}, table


def readings(rows: int) -> tuple[Any, dict[str, Any], pa.Table]:
    """The program of `smarthome`, its input, and a table of all rows."""
    table = headrace_datasets.plugs(n=rows, rate=RATE, houses=HOUSES).to_arrow()
    return smarthome.program(SLICE, UNIT), {"load": table}, table


def run_on(program: Any, inputs: dict[str, Any], leaves: int, **options: Any) -> Done:
    """Run a program from start to end; `Done.seconds` is the time from its start to its last result."""
    with program.start(inputs, plan="auto", leaves=leaves, threads=leaves, max_threads=leaves, **options) as run:
        begin = time.perf_counter()
        assert run.wait(HANG_S), f"{program.name} did not come to its end within {HANG_S} s"
        seconds = time.perf_counter() - begin
        table = run.to_arrow()
        return Done(seconds, table, run.metrics().operators[program.name].values)


def as_source(table: pa.Table) -> list[list[tuple[int, dict[str, Any]]]]:
    """One input in the reference's form."""
    times = table["ts"].cast(pa.timestamp(UNIT)).cast(pa.int64()).to_pylist()
    return [list(zip(times, table.drop_columns("ts").to_pylist(), strict=True))]


def check_reference() -> None:
    """Check that the programs give what the plain definitions do."""
    for make, plain, options in (
        (connections, reference.outlier, {"slice": "10min"}), (readings, reference.smarthome, {"slice": SLICE}),
    ):  # fmt: skip
        program, inputs, table = make(CHECKED)
        wanted = plain(as_source(table), unit=UNIT, **options)
        found = run_on(program, inputs, 2).table
        rows = found.set_column(0, "ts", found["ts"].cast(pa.timestamp(UNIT)).cast(pa.int64())).to_pylist()
        assert rows == wanted and rows, f"{program.name}: other rows than the reference"


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M events/s, replay speed as a multiple of the houses' own time, milliseconds, and megabytes."""
    check_reference()
    repetitions = 1 if tiny else 5 if full else 3
    return [*_outlier(CHECKED if tiny else 400_000, repetitions), *_smarthome(CHECKED if tiny else 1_000_000, repetitions, tiny)]


def _in_turns(program: Any, inputs: dict[str, Any], repetitions: int) -> dict[int, list[Done]]:
    """Runs on one leaf and on two, alternating; the first run of each is a warm-up."""
    done: dict[int, list[Done]] = {1: [], 2: []}
    for _ in range(repetitions + 1):
        for leaves, each in done.items():
            each.append(run_on(program, inputs, leaves))
            assert each[-1].table.equals(done[1][0].table), f"{program.name}: {leaves} leaves differ"
    return {leaves: each[1:] for leaves, each in done.items()}


def _rates(name: str, rows: int, done: dict[int, list[Done]]) -> list[Row]:
    one, two = (median([rows / each.seconds / 1e6 for each in done[leaves]]) for leaves in (1, 2))
    return [
        Row("dgs", f"{name}: 1 leaf", one, "M events/s"),
        Row("dgs", f"{name}: 2 leaves", two, "M events/s", baseline=one, baseline_name="1 leaf"),
    ]


def _outlier(rows: int, repetitions: int) -> list[Row]:
    program, inputs, _ = connections(rows)
    return _rates("outlier", rows, _in_turns(program, inputs, repetitions))


def _smarthome(rows: int, repetitions: int, tiny: bool) -> list[Row]:
    program, inputs, table = readings(rows)
    done = _in_turns(program, inputs, repetitions)
    measured = _rates("smarthome", rows, done)
    span_s = rows / RATE
    speed = median([span_s / each.seconds for each in done[2]])
    measured.append(Row("dgs", "smarthome: replay speed, 2 leaves", speed, "x", note="of the houses' own time"))
    pace = hr.rates.recorded(speed=speed if tiny else speed / 2)
    paced = run_on(program, inputs, 2, rate=pace)
    assert paced.table.equals(done[1][0].table), "smarthome: at a pace results differ"
    latency = LatencyHistogram(paced.values["latency"])
    measured += [
        Row("dgs", f"smarthome: latency at half of that speed, {name}", latency.quantile_ms(quantile), "ms", better="lower")
        for name, quantile in QUANTILES.items()
    ]
    return measured + _bytes(done[2][-1].values, table.num_rows)


def _bytes(values: dict[str, Any], readings: int) -> list[Row]:
    """Megabytes of state that forks and joins copied, and that they left in place, beside those of the readings."""
    processed = readings * READING_BYTES / 1e6
    return [
        Row("dgs", f"smarthome: bytes that forks and joins {done}", values[name] / 1e6, "MB", better=better,
            baseline=processed, baseline_name="of the readings")
        for done, name, better in (("move", "copied_bytes", "lower"), ("spare", "spared_bytes", "higher"))
    ]  # fmt: skip


__all__ = ["check_reference", "measure"]
