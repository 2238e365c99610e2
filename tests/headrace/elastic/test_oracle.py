"""The engine against the reference: any input, any aggregate, any threads, batches and gate.

Property    the result is `headrace.reference`'s, the same rows in the same order,
            floats bit by bit
Oracle      `headrace.reference.aggregate` and `forward`; by hand for the examples
Cannot see  schedules the machine does not happen to take: `elasticity` and the
            interleavings of the kernels look for those

Shapes are few and their operators compiled once (`support.workloads`).
"""

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from support.workloads import (
    SCHEMA,
    SEEDED,
    SHAPE_CASES,
    SHAPES,
    Steered,
    assert_same,
    draw_workload,
    examples,
    rows_of,
    scattered,
    worked,
)

DRAWN = settings(SEEDED, max_examples=examples(25))
FLOATS = next(shape for shape in SHAPES if shape.name == "floats, three windows, sets of keys")


@pytest.mark.logic
def test_example_windows_of_negative_time():
    """Size 5, advance 2::

        time     -4 -3 -2 -1  0  1  2  3
        l = -3   ...)                          boundary -1
        l = -2   [-------------)               boundary  1
        l = -1         [-------------)         boundary  3
        l =  0               [-------------)   boundary  5
        tuple             x
    """
    table = pa.table({"ts": [-1]})
    result = hr.stream(table, event_time="ts").window(5, 2).aggregate(n=hr.count()).to_arrow()
    assert result.to_pydict() == {"ts": [1, 3], "n": [1, 1]}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPE_CASES, ids=str)
@DRAWN
@given(
    seed=st.integers(0, 2**32),
    threads=st.integers(1, 8),
    batch_rows=st.sampled_from([1, 3, 17, 1 << 16]),
    capacity=st.sampled_from([1, 16, 1 << 14]),
)
def test_oracle_aggregates(shape, seed, threads, batch_rows, capacity):
    workload = draw_workload(shape, seed)
    workload.assert_right(
        workload.query(batch_rows=batch_rows).to_arrow(
            threads=threads, max_threads=8, capacity=capacity, **workload.options
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["log", "scalegate"])
@DRAWN
@given(seed=st.integers(0, 2**32), threads=st.integers(1, 8), batch_rows=st.sampled_from([1, 5, 1 << 16]))
def test_oracle_forward(gate, seed, threads, batch_rows):
    """Every tuple once, by (ts, source, position), with all its columns."""
    workload = draw_workload(SHAPES[0], seed)
    tables = workload.tables()
    ordered = sorted(
        ((row["ts"], source, position) for source, rows in enumerate(workload.sources) for position, row in enumerate(rows))
    )
    wanted = pa.concat_tables([tables[s].slice(p, 1) for _, s, p in ordered]) if ordered else SCHEMA.empty_table()
    query = hr.stream(tables, event_time="ts", batch_rows=batch_rows).forward()
    start = scattered(random.Random(seed), threads)
    with query.start(gate=gate, **start) as run:
        assert run.wait(180)
        result = run.to_arrow()
        # Tuple number n of the merged input is its bucket's owner's.
        owners = {start["mapping"].owners[n] for n in range(len(ordered))}
        assert worked(run, "forward") == len(owners)
    assert result.schema == SCHEMA
    assert_same(rows_of(result), rows_of(wanted), str(workload))


@pytest.mark.slow
@DRAWN
@given(seed=st.integers(0, 2**32), threads=st.integers(1, 4))
def test_agree_arrival_of_sources(seed, threads):
    """Which source comes first on the clock does not show: batches are let through in a drawn order."""
    shape = SHAPES[1]
    workload = draw_workload(shape, seed)
    draw = random.Random(seed)
    inputs = [Steered(table, [draw.randint(1, 9) for _ in range(8)]) for table in workload.tables()]
    turns = [source for source in inputs for _ in range(source.batches)]
    draw.shuffle(turns)
    with workload.query(inputs).start(threads=threads, max_threads=4) as run:
        for source in turns:
            source.let()
        assert run.wait(180)
        workload.assert_right(run.to_arrow())


@pytest.mark.slow
def test_agree_large_input_crosses_chunks():
    """More rows than a chunk of the store (16,384), more records than the gate holds, ties across both."""
    draw = random.Random(3)
    rows = 40_000
    tables = []
    for _ in range(2):
        ts = sorted(draw.randrange(8_000) for _ in range(rows))
        tables.append(pa.table({"ts": ts, "tags": [[f"t{draw.randrange(500)}", f"t{t % 7}"] for t in ts]}))
    query = hr.stream(tables, event_time="ts", batch_rows=7_000).key_by(tag=hr.each("tags")).window(200, 100)
    counts: dict[tuple[int, str], int] = {}
    for table in tables:
        for ts, tags in zip(table["ts"].to_pylist(), table["tags"].to_pylist(), strict=True):
            for tag in set(tags):
                for window in ((ts - 200) // 100 + 1, ts // 100):
                    place = (window * 100 + 200, tag)
                    counts[place] = counts.get(place, 0) + 1
    wanted = [(ts, tag, n) for (ts, tag), n in sorted(counts.items())]
    for threads, gate in ((1, "log"), (3, "log"), (8, "log"), (3, "scalegate")):
        result = query.aggregate(n_tuples=hr.count()).to_arrow(threads=threads, gate=gate)
        assert_same(rows_of(result), wanted, f"{threads} threads, {gate}")


@pytest.mark.slow
def test_agree_sums_of_floats_do_not_depend_on_threads_or_batches():
    """0.1 + 1e16 - 1e16: another order of addition would give other bits."""
    draw = random.Random(5)
    values = [draw.choice([0.1, 1e16, -1e16, 3.3, 1e-9]) for _ in range(3_000)]
    table = pa.table({"ts": [i // 10 for i in range(3_000)], "x": values, "tags": [["one"]] * 3_000})

    def query(**options):
        stream = hr.stream(table, event_time="ts", **options).key_by(tag=hr.each("tags")).window(120, 40)
        return stream.aggregate(**FLOATS.built())

    first = rows_of(query().to_arrow(threads=1))
    for threads in (2, 5):
        for batch_rows in (1, 100):
            assert rows_of(query(batch_rows=batch_rows).to_arrow(threads=threads)) == first
