"""Watermarks that sources give themselves: among batches, and as rows of a table.

Property    results and late rows are those of `headrace.reference`, whatever the batches, the number of sources and of
            threads; and all results that the reference's watermark lets out are out while every source is silent.
Oracle      `reference.reorder`, `reference.watermark` and `reference.aggregate`, of the same arrivals.
Not seen    how soon a result is out: a test waits for it, with a limit.
"""

from __future__ import annotations

import datetime
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.errors import (
    DisorderError,
    EventTimeError,
    InputError,
    LateRowError,
    LateRowsWarning,
    ParameterError,
    SchemaError,
)
from headrace.ingress.readers import open_input
from headrace.windows import Window
from support.event_window import WINDOW
from support.workloads import eventually

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.int64()})
WAIT_S = 180


def batch(*times, k=1):
    return pa.record_batch({"ts": list(times), "k": [k] * len(times)}, schema=SCHEMA)


def counts(stream):
    return stream.key_by("k").window(10).aggregate(n=hr.count())


def stream(source, **options):
    return hr.stream(source, event_time="ts", **options)


class Held:
    """Gives its items up to a place, and goes on when the test lets it; an item of None is such a place."""

    def __init__(self, *items):
        self.items, self.go = items, threading.Event()

    def __iter__(self):
        return self.read()

    def read(self):
        for item in self.items:
            if item is None:
                assert self.go.wait(WAIT_S)
            else:
                yield item


def silent(query, *held, wanted, **options):
    """Run until the rows that are wanted are out while the sources are silent; all of them, in the end."""
    found = []
    with query.start(sink=lambda rows: found.extend(rows.to_pylist()), **options) as run:
        try:
            eventually(lambda: len(found) >= len(wanted), WAIT_S)
            assert found == wanted
            assert run.state == "running"
        finally:
            for one in held:
                one.go.set()
        assert run.wait(WAIT_S)
    return found


# -- windows close while a source is silent


def test_example_a_window_closes_while_its_source_is_silent():
    """``1 4 |10| ...12``: the window from 0 to 10 is over when the source says so, not when 12 comes."""
    held = Held(batch(1, 4), hr.Watermark(10), None, batch(12))
    found = silent(counts(stream(held.read())), held, wanted=[{"ts": 10, "k": 1, "n": 2}])
    assert found[1:] == [{"ts": 20, "k": 1, "n": 1}]


@pytest.mark.parametrize(("mark", "rows"), [(9, 0), (10, 1), (11, 1), (20, 2)])
def test_example_the_least_watermark_decides(mark, rows):
    """Of two sources, one is past everything, and the other says how far it is without a row of its own."""
    first, second = Held(hr.Watermark(mark), hr.Watermark(mark), None), Held(batch(3, 14), hr.Watermark(50), None)
    sources = [open_input(one.read(), schema=SCHEMA) for one in (first, second)]
    found = []
    with counts(stream(sources)).start(threads=2, sink=lambda out: found.extend(out["ts"].to_pylist())) as run:
        try:
            eventually(lambda: run.metrics().operators["aggregate"].watermark >= mark, WAIT_S)
            assert found == [10, 20][:rows]
        finally:
            first.go.set()
            second.go.set()
        assert run.wait(WAIT_S)
    assert found == [10, 20]


@pytest.mark.parametrize("lateness", [None, 0, "watermarks"])
def test_example_a_row_at_the_watermark_is_in_time(lateness):
    held = Held(batch(1), hr.Watermark(9), None, batch(9, 11))
    with counts(stream(held.read(), lateness=lateness)).start() as run:
        try:
            eventually(lambda: run.metrics().operators["aggregate"].watermark >= 9, WAIT_S)
        finally:
            held.go.set()
        assert run.wait(WAIT_S)
        assert run.to_arrow()["n"].to_pylist() == [2, 1]


def test_example_rows_that_wait_say_how_far_time_has_come():
    """``1 4 12 ...``: with a lateness of 2, 12 waits until 14, but the window from 0 to 10 is over already."""
    held = Held(batch(1, 4), batch(12), None, batch(13))
    found = silent(counts(stream(held.read(), lateness=2)), held, wanted=[{"ts": 10, "k": 1, "n": 2}])
    assert found[1:] == [{"ts": 20, "k": 1, "n": 2}]


def test_example_it_passes_steps_and_streams_that_several_take():
    held = Held(batch(1, 4), hr.Watermark(10), None, batch(12))
    both = stream(held.read())
    nothing = counts(both.filter(hr.col("k") > 1).union(both.filter(hr.col("k") == 1)))
    found = silent(nothing, held, wanted=[{"ts": 10, "k": 1, "n": 2}])
    assert len(found) == 2


def test_example_it_passes_a_chain_of_operators():
    """A result at 10 falls into the second window, which ends at 20."""
    held = Held(batch(1, 4), hr.Watermark(20), None, batch(32))
    chain = counts(stream(held.read())).key_by("k").window(10).aggregate(s=hr.sum("n"))
    silent(chain, held, wanted=[{"ts": 20, "k": 1, "s": 2}])


def test_example_an_ordered_pipeline_gives_what_is_before_a_watermark():
    """A pipeline behind two sources: rows of one wait for the other, which says that it has none."""
    first, second = Held(hr.Watermark(9), None), Held(batch(3, 8, 14), None)
    sources = [open_input(one.read(), schema=SCHEMA) for one in (first, second)]
    query = stream(sources).ordered().filter(lambda t: t.k == 1)
    found = []
    with query.start(threads=2, sink=lambda rows: found.extend(rows["ts"].to_pylist())) as run:
        try:
            eventually(lambda: len(found) == 2, WAIT_S)
        finally:
            first.go.set()
            second.go.set()
        assert run.wait(WAIT_S)
    assert found == [3, 8, 14]


def test_example_a_transaction_happens_before_a_watermark():
    accounts = hr.table("accounts", columns={"n": "int64"}, rows=2)

    def count(e, t):
        accounts[e.k].n += 1
        t.emit(n=accounts[e.k].n)

    first, second = Held(hr.Watermark(9), None), Held(batch(3, 8, 14), None)
    sources = [open_input(one.read(), schema=SCHEMA) for one in (first, second)]
    found = []
    query = stream(sources).transact(count, emits={"n": "int64"})
    with query.start(punctuation=1, sink=lambda rows: found.extend(rows["n"].to_pylist())) as run:
        try:
            eventually(lambda: len(found) >= 2, WAIT_S)
        finally:
            first.go.set()
            second.go.set()
        assert run.wait(WAIT_S)
    assert found == [1, 2, 3]


def test_example_an_event_of_a_program_waits_no_longer_than_a_watermark():
    """A barrier waits for the values before it, and the input of values says that there are no more."""
    values = Held(pa.record_batch({"ts": [1, 4], "x": [10, 20]}), hr.Watermark(10), None, pa.record_batch({"ts": [12], "x": [1]}))
    ends = pa.table({"ts": [6, 20]})
    found = []
    inputs = {"value": stream(values.read()), "barrier": stream(ends)}
    with hr.program(**WINDOW).start(inputs, threads=2, sink=lambda rows: found.extend(rows["sum"].to_pylist())) as run:
        try:
            eventually(lambda: found, WAIT_S)
            assert found == [30]
        finally:
            values.go.set()
        assert run.wait(WAIT_S)
    assert found == [30, 1]


# -- results and late rows are the reference's


@st.composite
def arrivals(draw):
    """Sources in order, or as disordered as rows may be between watermarks that rise."""
    lateness = draw(st.sampled_from([0, 3, None]))
    sources = []
    for _ in range(draw(st.integers(1, 3))):
        mark, source = -5, []
        for _ in range(draw(st.integers(0, 12))):
            if draw(st.integers(0, 3)) == 0:
                mark += draw(st.integers(0, 15))
                source.append((mark, None))
            else:
                source.append((draw(st.integers(-5, 40)), {"k": draw(st.integers(0, 2))}))
        sources.append(source)
    return lateness, sources


def batches_of(source, size):
    """Cut rows, which a watermark ends too, into batches of at most so many."""
    rows = []
    for ts, payload in [*source, (None, None)]:
        if rows and (payload is None or len(rows) == size):
            yield pa.record_batch({"ts": [t for t, _ in rows], "k": [p["k"] for _, p in rows]}, schema=SCHEMA)
            rows = []
        if payload is not None:
            rows.append((ts, payload))
        elif ts is not None:
            yield hr.Watermark(ts)


def rows_of(source):
    return pa.table(
        {
            "ts": [ts for ts, _ in source],
            "k": pa.array([None if payload is None else payload["k"] for _, payload in source], pa.int64()),
            "said": [payload is None for _, payload in source],
        },
        schema=pa.schema({"ts": pa.int64(), "k": pa.int64(), "said": pa.bool_()}),
    )


def expected_of(sources, lateness):
    repaired = [reference.reorder(source, lateness, "side") for source in sources]
    rows = reference.aggregate([kept for kept, _ in repaired], Window(10, 10), reference.column("k"), {"n": ("count", None)})
    late = [ts for _, set_aside in repaired for ts, _ in set_aside]
    return [(row.ts, row.key, row.values["n"]) for row in rows], late


@pytest.mark.parametrize("said", ["among batches", "by rows"])
@settings(deadline=None, max_examples=12)
@given(arrivals(), st.integers(1, 5), st.integers(1, 2))
def test_oracle_results_and_late_rows(said, case, size, threads):
    lateness, sources = case
    options = {"lateness": "watermarks" if lateness is None else lateness, "late": "side"}
    if said == "by rows":
        given, options["watermarks"] = [rows_of(source) for source in sources], "said"
    else:
        given = [open_input(batches_of(source, size), schema=SCHEMA) for source in sources]
    expected, late = expected_of(sources, lateness)
    with counts(stream(given, batch_rows=size, **options)).start(threads=threads) as run:
        assert run.wait(WAIT_S)
        assert [tuple(row.values()) for row in run.to_arrow().to_pylist()] == expected
        assert run.late.column("ts").to_pylist() == late


@settings(deadline=None, max_examples=10)
@given(arrivals())
def test_oracle_what_is_before_the_watermark_is_out(case):
    """Of each source the first half comes; then all are silent."""
    lateness, sources = case
    sources = [source for source in sources if source]
    halves = [source[: max(1, len(source) // 2)] for source in sources]
    expected, _ = expected_of(sources, lateness)
    reached = reference.watermark(halves, lateness) if sources else None
    if reached is None:
        return
    wanted = [row for row in expected if row[0] <= reached]
    rests = [source[len(half) :] for half, source in zip(halves, sources, strict=True)]
    held = [Held(*batches_of(half, 3), None, *batches_of(rest, 3)) for half, rest in zip(halves, rests, strict=True)]
    given = [open_input(one.read(), schema=SCHEMA) for one in held]
    options = {"lateness": "watermarks" if lateness is None else lateness, "late": "side"}
    found = []

    def take(rows):
        found.extend(tuple(row.values()) for row in rows.to_pylist())

    with counts(stream(given, **options)).start(sink=take) as run:
        try:
            eventually(lambda: len(found) >= len(wanted), WAIT_S)
        finally:
            for one in held:
                one.go.set()
        assert run.wait(WAIT_S)
    assert found == expected


# -- every kind of source


ROWS = {"ts": [3, 5, 8, 12], "k": [1, None, 1, 1], "said": [False, True, False, None]}
MARKED = [{"ts": 10, "k": 1, "n": 2}, {"ts": 20, "k": 1, "n": 1}]


@pytest.mark.parametrize("kind", ["table", "pandas", "parquet", "folder", "arrow file", "reader", "generator"])
def test_example_rows_of_any_source_may_be_watermarks(kind, tmp_path):
    table = pa.table(ROWS, schema=pa.schema({"ts": pa.int64(), "k": pa.int64(), "said": pa.bool_()}))
    path = tmp_path / "rows"
    if kind in ("parquet", "folder"):
        path.mkdir()
        pq.write_table(table, path / "0.parquet")
    elif kind == "arrow file":
        with pa.ipc.new_file(path, table.schema) as file:
            file.write(table)
    source = {
        "table": lambda: table,
        "pandas": lambda: pd.DataFrame(ROWS).astype({"k": "Int64", "said": "boolean"}),
        "parquet": lambda: path / "0.parquet",
        "folder": lambda: path,
        "arrow file": lambda: path,
        "reader": lambda: pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
        "generator": lambda: iter(table.to_batches()),
    }[kind]()
    query = stream(source, watermarks="said")
    assert query.schema.names == ["ts", "k"]
    assert counts(query).to_arrow().to_pylist() == MARKED


def test_example_a_live_stream_of_spark_says_by_a_row_how_far_it_is(spark, tmp_path):
    folder = tmp_path / "incoming"
    folder.mkdir()
    (folder / "0.json").write_text('{"ts": 3, "k": 1}\n{"ts": 8, "k": 1}\n{"ts": 10, "said": true}\n')
    frame = spark.readStream.schema("ts long, k long, said boolean").json(str(folder))
    found = []
    with counts(stream(frame, watermarks="said")).start(sink=lambda rows: found.extend(rows.to_pylist())) as run:
        eventually(lambda: found, WAIT_S)
        assert found == [{"ts": 10, "k": 1, "n": 2}]
        run.stop()


@pytest.mark.parametrize(
    "said",
    [
        datetime.datetime(2026, 1, 1, 0, 0, 10),
        datetime.datetime(2026, 1, 1, 1, 0, 10, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
        pd.Timestamp("2026-01-01 00:00:10"),
        np.datetime64("2026-01-01T00:00:10"),
        1_767_225_610_000_000,
    ],
    ids=lambda said: type(said).__name__,
)
def test_example_a_watermark_is_a_time_as_python_has_it(said):
    times = pa.array([datetime.datetime(2026, 1, 1, 0, 0, 2)], pa.timestamp("ms"))
    held = Held(pa.record_batch({"ts": times, "k": [1]}), hr.Watermark(said), None)
    query = stream(held.read()).key_by("k").window("10s").aggregate(n=hr.count())
    silent(query, held, wanted=[{"ts": datetime.datetime(2026, 1, 1, 0, 0, 10), "k": 1, "n": 1}])


# -- what is wrong is named


def fails(error, message, *items, **options):
    with pytest.raises(error, match=message):
        counts(stream(iter(items), **options)).to_arrow()


def test_example_a_watermark_does_not_go_back():
    fails(DisorderError, r"source 1 \(\w+\) gives the watermark 7 after 9", batch(1), hr.Watermark(9), hr.Watermark(7))
    fails(DisorderError, "the watermark 7 after 9", batch(1), hr.Watermark(9), hr.Watermark(7), lateness=50)
    assert counts(stream(iter([batch(1), hr.Watermark(9), hr.Watermark(9)]))).to_arrow().num_rows == 1
    # One that says less than the rows do is no step back.
    assert counts(stream(iter([batch(30), hr.Watermark(9)]))).to_arrow().num_rows == 1


@pytest.mark.parametrize("options", [{}, {"lateness": 50}, {"lateness": "watermarks"}, {"idle_after": 60}], ids=str)
def test_example_a_row_before_a_watermark_is_late(options):
    items = batch(1), hr.Watermark(9), batch(9, 9, 8 if options.get("lateness") else 20), batch(30)
    if not options.get("lateness"):
        items = batch(1), hr.Watermark(9), batch(8, 20), batch(30)
    row = 3 if options.get("lateness") else 1
    fails(LateRowError, f"'ts', row {row}: 8 is before 9, a watermark that the source gave already", *items, **options)
    if options:
        with counts(stream(iter(items), late="side", **options)).start() as run:
            assert run.wait(WAIT_S)
            assert run.late.to_pydict() == {"ts": [8], "k": [1]}
            assert run.metrics().set_aside == 1


def test_example_rows_are_named_as_they_are_counted_in_the_table():
    table = pa.table({"ts": [1, 5, 3], "k": [1, 1, 1], "said": [False, True, False]})
    with pytest.raises(LateRowError, match="row 2: 3 is before 5"):
        counts(stream(table, watermarks="said")).to_arrow()
    with pytest.warns(LateRowsWarning, match=r"1 of 2 rows were late and set aside \(1 from source 1 \(Table\)\)"):
        assert counts(stream(table, watermarks="said", late="side")).to_arrow().num_rows == 1
    frame = table.to_pandas().set_index(pd.Index(["a", "b", "c"]))
    with pytest.raises(LateRowError, match=r"row 2 \(index 'c'\)"):
        counts(stream(frame, watermarks="said")).to_arrow()
    with pytest.raises(DisorderError, match=r"gives the watermark 2 after 5"):
        counts(stream(pa.table({"ts": [1, 5, 2], "k": [1, 1, 1], "said": [False, True, True]}), watermarks="said")).to_arrow()
    empty = pa.table({"ts": pa.array([1, None], pa.int64()), "k": [1, 1], "said": [False, True]})
    with pytest.raises(EventTimeError, match="'ts' is null at row 1, a watermark"):
        counts(stream(empty, watermarks="said")).to_arrow()


def test_example_a_watermark_that_is_no_time_of_the_stream():
    for said in ("10s", None, 1.5, datetime.datetime(2026, 1, 1), True):
        why = r"gives Watermark\(time=.*not an event time of this stream; give a number"
        fails(InputError, why, batch(1), hr.Watermark(said))
    fails(EventTimeError, r"gives Watermark\(time=4611686018427387904\)", batch(1), hr.Watermark(2**62))
    fails(InputError, "it must yield Arrow record batches, and may yield hr.Watermark among them", batch(1), 10)
    fails(InputError, "sort=True reads all rows", batch(1), hr.Watermark(9), sort=True)


def test_example_what_hr_stream_refuses():
    table = pa.table({"ts": [1], "k": [1], "said": ["yes"]})
    with pytest.raises(SchemaError, match="watermarks column 'said' has type string: make it bool"):
        stream(table, watermarks="said")
    with pytest.raises(SchemaError, match="watermarks column 'done' does not exist"):
        stream(table, watermarks="done")
    with pytest.raises(ParameterError, match="watermarks=True: give the name of a bool column"):
        stream(table, watermarks=True)
    with pytest.raises(ParameterError, match=r"a list is several sources; one that gives watermarks .* iter\(\[...\]\)"):
        stream([batch(1), hr.Watermark(9)])
    with pytest.raises(InputError, match="a table has no event time"):
        hr.table("t", data=iter([pa.record_batch({"id": [1]}), hr.Watermark(1)]), key="id")
