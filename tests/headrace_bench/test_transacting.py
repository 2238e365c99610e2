"""The benchmarks of transactions measure what they say.

Property    hand-written loops, the applications with operations that cost something, and the executors alone give
            the rows and tables of the reference; what an operation costs changes neither; a run whose content is
            another one is not timed
Oracle      `headrace.reference.transaction_apps`
Cannot see  whether a figure is right: no clock is looked at
"""

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.apps.app import sources
from headrace.errors import ParameterError
from headrace.reference import transaction_apps
from headrace.transactions.build import Built
from headrace.transactions.configuration import SCHEMES
from headrace_bench import costly, transactions_kernel
from headrace_bench import transacting as bench
from headrace_bench.costly import RECORDS, SEGMENTS, WORKLOADS, with_rounds
from headrace_bench.executed import MOST_EVENTS, Executed, hash_of
from headrace_bench.plain_transactions import plain_loop
from headrace_bench.transacting import Case
from headrace_bench.unmetered import Unmetered
from support.campaign import rarely

EVENTS = 600
LONG = [pytest.param(name, marks=pytest.mark.slow if name == "gs" else pytest.mark.campaign) for name in WORKLOADS]


def wanted(name, table):
    """Rows and tables by the reference."""
    records = SEGMENTS if name == "tp" else RECORDS
    return getattr(transaction_apps, name)(sources([table]), records=records)


def as_content(rows, tables, emits):
    """The hash of `Executed.content`, of what the reference gives."""
    mask = [int(row["rejected"]) + 2 * any(row[name] is not None for name in emits) for row in rows]
    mask = [m + sum(4 << k for k, name in enumerate(emits) if row[name] is not None) for m, row in zip(mask, rows, strict=True)]
    columns = [[row["ts"] for row in rows], mask, *([row[name] or 0 for row in rows] for name in emits)]
    kinds = [np.float64 if name == "average" else np.int64 for name in ("ts", "mask", *emits)]
    arrays = [np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return hash_of(arrays, [pa.Table.from_pylist(each) for each in tables.values()])


@pytest.mark.parametrize("rounds", [0, 1, 12])
def test_example_steps_leave_the_value_as_it_is(rounds):
    for value in (0, 1, -5, 2**32, 2**62 + 7):
        assert costly.worked(value, rounds) == transactions_kernel.worked(value, rounds) == value


LOOPS = {"gs": ["sum"], "sl": ["balance", "quantity"], "ob": ["quantity"], "tp": ["average", "vehicles", "toll"]}


@pytest.mark.parametrize("name", LOOPS)
def test_oracle_hand_written_loops(name):
    table = WORKLOADS[name].table(3_000)
    rows, tables = wanted(name, table)
    if name == "tp":  # the reference counts them
        seen = {each: set() for each in range(SEGMENTS)}
        for row in table.to_pylist():
            seen[row["segment"]].add(row["vehicle"])
        tables = {"segments": [row | {"vehicles": sorted(seen[row["segment"]])} for row in tables["segments"]]}
    content = as_content(rows, tables, LOOPS[name])
    for rounds in (0, 3):
        assert plain_loop(name, table, rounds)()[1] == content


def test_example_operations_are_counted():
    tables = {name: workload.table(1_000) for name, workload in WORKLOADS.items()}
    counts = {name: WORKLOADS[name].operations(table) for name, table in tables.items()}
    kinds = tables["ob"]["kind"].to_pylist()
    transfers = tables["sl"]["kind"].to_pylist().count("transfer")
    assert counts == {"gs": 10_000, "sl": 2_000 + 2 * transfers, "ob": 1_000 + 19 * (1_000 - kinds.count("bid")), "tp": 3_000}


def test_example_costs_become_rounds():
    assert bench.rounds_of(0) == 0
    assert 0 < bench.rounds_of(30) < bench.rounds_of(175)


def test_example_a_hash_of_everything():
    columns, table = [np.arange(3)], pa.table({"id": [1, 2], "held": [[1], [2, 3]]})
    first = hash_of(columns, [table])
    assert hash_of([np.arange(3)], [pa.table({"id": [1, 2], "held": [[1], [2, 3]]})]) == first
    others = [
        hash_of([np.arange(1, 4)], [table]), hash_of(columns, []), hash_of(columns, [table.slice(1)]),
        hash_of(columns, [pa.table({"id": [1, 2], "held": [[1, 2], [3]]})]),
    ]  # fmt: skip
    assert first not in others and len(set(others)) == len(others)


def test_example_more_events_than_the_gate_takes():
    table = with_rounds(WORKLOADS["tp"].table(10), 0)
    stream = WORKLOADS["tp"].build(hr.stream(table, event_time="ts"))
    many = pa.concat_tables([table] * (MOST_EVENTS // 10 + 1))
    with pytest.raises(ParameterError, match="at most 240000"):
        Executed(stream, many)


@pytest.mark.parametrize("name", LONG)
def test_oracle_executors_alone(name):
    """What `bench` times: all schemes, two costs."""
    table = WORKLOADS[name].table(EVENTS)
    rows, tables = wanted(name, table)
    for rounds in (0, 2):
        events = with_rounds(table, rounds)
        stream = WORKLOADS[name].build(hr.stream(events, event_time="ts"))
        results = stream.to_arrow(threads=2, punctuation=50)
        assert results.set_column(0, "ts", results["ts"].cast("int64")).to_pylist() == rows
        first = Executed(stream, events, scheme="serial").run()
        assert first.rejected == sum(row["rejected"] for row in rows)
        for scheme in SCHEMES:
            if scheme != "none" and (scheme, name) != ("speculative", "tp"):  # its table has a set
                run = Executed(stream, events, like=first, scheme=scheme, threads=2, punctuation=50).run()
                assert run.content == first.content, scheme
                assert run.seconds > 0 and set(run.breakdown) == {"useful", "synchronization", "lock", "other"}
        memory = first.operator.compiled.memory
        found = {one.name: memory.content(one).to_pylist() for one in memory.tables}
        if name == "tp":
            found = {"segments": [row | {"vehicles": len(row["vehicles"])} for row in found["segments"]]}
        assert found == tables


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [*rarely("chains"), "mvlk"])
def test_oracle_records_of_so_many_bytes(scheme):
    """They take as much in the table's memory, and nobody reads it."""
    table = with_rounds(WORKLOADS["gs"].table(EVENTS), 0)
    rows, tables = wanted("gs", table)
    with costly.gs(hr.stream(table, event_time="ts"), record_bytes=128).start(threads=2, scheme=scheme, punctuation=50) as run:
        run.wait()
        found, content = run.to_arrow(), run.tables["records"].to_arrow()
    assert found.set_column(0, "ts", found["ts"].cast("int64")).to_pylist() == rows
    assert content.select(["key", "value"]).to_pylist() == tables["records"]
    assert content.drop_columns("key").nbytes == 128 * RECORDS


@pytest.mark.slow
def test_example_other_content_is_not_timed():
    case = Case(WORKLOADS["gs"], 0, 0.0)
    case.run("serial")
    case.run("chains", threads=2)
    case.content = "another"
    with pytest.raises(AssertionError, match="gs, chains, 2 threads: not what serial made"):
        case.run("chains", threads=2)
    case.run("none", threads=2)  # is not compared


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "threads"), [("chains", 2), *rarely(("lock", 2))])
def test_example_executors_without_a_clock_book_no_time(scheme, threads):
    case = Case(WORKLOADS["gs"], 0, 0.0)
    booked, bare = (case.run(scheme, threads, built=built).breakdown for built in (Built, Unmetered))
    assert sum(booked.values()) > 0.99 and booked["useful"] > 0 and booked["other"] > 0
    assert not any(bare.values())


def test_example_chains_beside_the_best_of_the_others():
    rates = {("chains", 2, 500): 4.0, ("lock", 2, 500): 3.0, ("mvlk", 2, 500): 5.0, ("partition", 2, 500): 1.0}
    rates |= {("lock", 1, 500): 9.0, ("lock", 2, 100): 9.0, ("none", 2, 500): 9.0}
    row = bench._beside_others("gs", "30 ns an operation", rates)
    assert (row.value, row.baseline, row.baseline_name, row.reached) == (4.0, 5.0, "mvlk", False)
    assert bench._beside_others("gs", "", {**rates, ("chains", 2, 500): 4.6}).reached
