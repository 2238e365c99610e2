"""Tolls by transactions, and by keys alone: Toll Processing as queries of the elastic engine.

An event of Toll Processing accesses only the record of its segment, so the thread that owns the segment can answer it without a
transaction. An operator keyed by segment, with sum, count and set in the state of a window that does not end, gives each
report its toll; a plain window aggregate gives each segment's speeds and vehicles once, at its end. Before anything is timed,
the first is compared with the transactions' rows and the second with their table. Transactions are for what neither can do:
an event that accesses two segments.

Viper's query on the same reports, new_seg of `bench viper`, gives a car's previous segment and not a segment's toll, so it is no
alternative to these.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

import headrace as hr
import headrace_datasets
from headrace.apps.tp import FREE_FROM, FREE_UP_TO, build
from headrace_bench.costly import SEGMENTS
from headrace_bench.rows import Row, median, repeated
from headrace_bench.taken import Watch

FOREVER = 1 << 40
"""Milliseconds; longer than any input here, so that there is only one window."""
EMITTED = ("vehicle", "segment", "average", "vehicles", "toll")
SOURCES: dict[str, Callable[[int], headrace_datasets.Dataset]] = {
    "reports made up": lambda n: headrace_datasets.tp(n=n),
    "Linear Road": lambda n: headrace_datasets.position_reports(headrace_datasets.linear_road(n=n)),
}


def reports(name: str, n: int) -> pa.Table:
    """Make at most `n` reports with distinct event times: engines may order equal times differently, but rows must be equal."""
    made = SOURCES[name](n).to_arrow().combine_chunks()
    return made.set_column(0, "ts", pa.array(np.arange(made.num_rows))).select(["ts", "vehicle", "segment", "speed"])


def by_transactions(stream: hr.Stream) -> hr.Stream:
    """Toll Processing by transactions: the application of the command line."""
    return build(stream, SEGMENTS)


def note(state, t, emit):
    state.sum += t.speed
    state.number += 1
    state.seen.add(t.vehicle)
    average = state.sum / state.number
    vehicles = len(state.seen)
    toll = 0
    if average < FREE_FROM and vehicles > FREE_UP_TO:
        toll = 2 * (vehicles - FREE_UP_TO) ** 2
    emit(at=t.ts, vehicle=t.vehicle, average=average, vehicles=vehicles, toll=toll)


def by_keys(stream: hr.Stream) -> hr.Stream:
    """Toll Processing by an operator keyed by segment: a row for each report, as from transactions."""
    emits = {"at": "int64", "vehicle": "int64", "average": "float64", "vehicles": "int64", "toll": "int64"}
    state = {"sum": "int64", "number": "int64", "seen": hr.set_of("int64")}
    return stream.key_by("segment").window(FOREVER).apply(hr.operator(state=state, emits=emits, update=note))


def by_window(stream: hr.Stream) -> hr.Stream:
    """Toll Processing by a window aggregate: a row for each segment, at the end."""
    return (
        stream.key_by("segment")
        .window(FOREVER)
        .aggregate(sum=hr.sum("speed"), number=hr.count(), vehicles=hr.count_distinct("vehicle"))
    )


WAYS: dict[str, tuple[Callable[[hr.Stream], hr.Stream], dict[str, object]]] = {
    "transactions, serial, 1 thread": (by_transactions, {"threads": 1, "scheme": "serial"}),
    "transactions, chains, 2 threads": (by_transactions, {"threads": 2, "scheme": "chains"}),
    "an operator keyed by segment, 1 thread": (by_keys, {"threads": 1}),
    "an operator keyed by segment, 2 threads": (by_keys, {"threads": 2}),
    "a window's aggregates, 1 thread": (by_window, {"threads": 1}),
    "a window's aggregates, 2 threads": (by_window, {"threads": 2}),
}


def check(table: pa.Table) -> None:
    """Check that all implementations give the same results.

    Raises
    ------
    AssertionError
        If one differs; the message names it.
    """
    stream = hr.stream(table, event_time="ts")
    with by_transactions(stream).start(threads=1, scheme="serial") as run:
        run.wait()
        rows = run.to_arrow().select(["ts", *EMITTED])
        segments = [
            (row["segment"], row["sum"], row["number"], len(row["vehicles"]))
            for row in run.tables["segments"].to_arrow().to_pylist()
            if row["number"]
        ]
    for name, (way, options) in WAYS.items():
        found = way(hr.stream(table, event_time="ts")).to_arrow(**options)
        if way is by_window:
            columns = (found[each].to_pylist() for each in ("segment", "sum", "number", "vehicles"))
            assert sorted(zip(*columns, strict=True)) == segments, f"{name}: not what is in the transactions' table"
            continue
        if way is by_keys:
            found = found.drop_columns(["ts"]).rename_columns({"at": "ts"}).sort_by("ts")
        assert found.select(["ts", *EMITTED]).equals(rows), f"{name}: not the rows of the transactions"


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M events/s of each implementation, from an Arrow table to the last row."""
    n, repetitions = (2_000, 1) if tiny else (2_000_000, 7) if full else (400_000, 5)
    rows = []
    for source in SOURCES:
        table = reports(source, n)
        check(table.slice(0, n // 4))
        rates: dict[str, list[float]] = {}
        for counts in repeated(repetitions):
            for name, (way, options) in WAYS.items():
                watch = Watch()
                with way(hr.stream(table, event_time="ts")).start(sink=hr.discard(), **options) as run:
                    run.wait()
                if counts:
                    rates.setdefault(name, []).append(table.num_rows / watch.taken().seconds / 1e6)
        serial = next(iter(rates))
        for name, values in rates.items():
            row = Row("tp", f"tolls, {source}, {name}", median(values), "M events/s")
            if name != serial:
                row.baseline, row.baseline_name = median(rates[serial]), serial
            row.note = "one row per segment, at the end" if WAYS[name][0] is by_window else ""
            rows.append(row)
    return rows
