"""Only the columns that somebody reads are read, and only the values that somebody uses are computed.

Property    what is wanted is the same as with all columns
Examples    whole runs on a file one of whose columns cannot be read
Planted     a filter that forgets what it reads
"""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.errors import InputError, SchemaError
from headrace.plan.steps import FilterStep, SelectStep, narrowed

NAMES = "abcde"
BATCH = pa.record_batch({name: np.random.default_rng(place).integers(0, 9, 50) for place, name in enumerate(NAMES)})


def drawn_steps(draw):
    steps, names = [], list(NAMES)
    for _ in range(draw.randrange(5)):
        one, other = draw.choice(names), draw.choice(names)
        if draw.random() < 0.5:
            steps.append(FilterStep(hr.col(one) > hr.col(other) - 6))
        else:
            kept = {name: hr.col(name) for name in draw.sample(names, draw.randint(1, len(names)))}
            computed = kept | {"n": hr.col(one) + hr.col(other)}
            steps.append(SelectStep(tuple(computed.items())))
            names = list(computed)
    return steps, names


def applied(steps, batch):
    for step in steps:
        batch = step.apply(batch)
    return batch


def check_what_is_wanted(draw):
    """Returns how many columns were left out."""
    steps, names = drawn_steps(draw)
    wanted = draw.sample(names, draw.randint(1, len(names)))
    fewer, needed = narrowed(steps, wanted)
    whole = applied(steps, BATCH)
    assert applied(fewer, BATCH.select(sorted(needed))).select(wanted).equals(whole.select(wanted))
    return len(NAMES) - len(needed)


@pytest.mark.parametrize("seed", range(5))
def test_property_what_is_wanted_is_the_same(seed):
    draw = random.Random(seed)
    assert sum(check_what_is_wanted(draw) for _ in range(100)) > 50


def test_planted_a_filter_that_forgets_what_it_reads(monkeypatch):
    monkeypatch.setattr(FilterStep, "narrowed", lambda step, wanted: (step, wanted))
    with pytest.raises(SchemaError, match="does not exist"):
        for seed in range(100):
            check_what_is_wanted(random.Random(seed))


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A Parquet file whose column "bad" cannot be read."""
    path, rows = tmp_path_factory.mktemp("damaged") / "rows.parquet", 1_000
    table = pa.table({"ts": np.arange(rows), "k": np.arange(rows) % 3, "v": np.arange(rows) % 7, "bad": np.arange(rows) ** 2})
    pq.write_table(table, path, compression="none", use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(0).column(3)
    content, begin, size = bytearray(path.read_bytes()), column.data_page_offset, column.total_compressed_size
    content[begin : begin + size] = b"\xff" * size
    path.write_bytes(content)
    return path


def counted(stream):
    return stream.key_by("k").window(100).aggregate(n=hr.count(), v=hr.sum("v")).to_arrow(threads=2)


QUERIES = {
    "filter": lambda rows: rows.filter(hr.col("v") > 2),
    "select": lambda rows: rows.select("ts", "k", v=hr.col("v") * 2),
    "a column computed for nobody": lambda rows: rows.select("ts", "k", "v", x=hr.col("bad") + 1),
    "a function behind select": lambda rows: rows.select("ts", "k", "v").map(lambda t: t.v + 1, w="int64"),
    "several": lambda rows: rows.filter(hr.col("v") > 1).select("ts", "k", "v", y="bad").filter(hr.col("k") > 0),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_example_a_column_that_nobody_reads_is_not_read(damaged, query):
    rows = {"ts": np.arange(1_000), "k": np.arange(1_000) % 3, "v": np.arange(1_000) % 7, "bad": np.zeros(1_000, int)}
    whole = hr.stream(pa.table(rows), event_time="ts")
    assert counted(query(hr.stream(damaged, event_time="ts"))).equals(counted(query(whole)))


READING = {
    "a condition": lambda rows: rows.filter(hr.col("bad") > 2),
    "a value": lambda rows: rows.select("ts", "k", v="bad"),
    "a function, whose error shows the tuple": lambda rows: rows.map(lambda t: t.v + 1, w="int64"),
}


@pytest.mark.parametrize("query", READING.values(), ids=READING)
def test_example_a_column_that_is_read_is_not_left_out(damaged, query):
    with pytest.raises(InputError):
        counted(query(hr.stream(damaged, event_time="ts")))


def test_example_late_rows_are_kept_whole(damaged):
    with pytest.raises(InputError):
        counted(hr.stream(damaged, event_time="ts", lateness="5ms", late="side").filter(hr.col("v") > 2))


def test_example_an_error_behind_steps_names_its_row():
    table = pa.table({"ts": [1, 2, 3, 4], "k": [1, 1, None, 1], "v": [5, 0, 5, 5], "x": ["a", "b", "c", "d"]})
    rows = hr.stream(table, event_time="ts").filter(hr.col("v") > 2).select("ts", "v", key="k", y="x")
    with pytest.raises(InputError, match="row 2"):
        rows.key_by("key").window(100).aggregate(n=hr.count()).to_arrow()
