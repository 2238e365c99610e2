"""smarthome and outlier once more: said in SQL by DuckDB, counted by NumPy, and on the real samples.

Property    smarthome's rows are those of window functions over averages; outlier's those of frequencies and deviations
Oracle      DuckDB, whose sums are in input order on one thread; NumPy over all connections up to each request
Cannot see  the last bit of floats, which SQL need not add in time order (tests/headrace/apps does)
The real samples are not part of the project: they are read where ``HEADRACE_DATA`` names their folder.
"""

import csv
import gzip
import os
import random
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.apps.command import run
from headrace.apps.compare import first_difference
from headrace.reference.synchronization_apps import LEVELS, outlier, smarthome
from headrace_datasets import connections, plugs
from support.command_line import asked

HOUR, DAY = 3_600_000, 86_400_000
SMARTHOME = """
    WITH levels(level, named_by) AS (VALUES ('house', 1), ('household', 2), ('plug', 3)),
    loads AS (SELECT floor(ts / $width)::BIGINT AS slice, level, house,
        CASE WHEN named_by > 1 THEN household END AS household, CASE WHEN named_by > 2 THEN plug END AS plug, load
        FROM input, levels),
    averages AS (SELECT slice, level, house, household, plug, avg(load) AS average FROM loads GROUP BY ALL),
    found AS (SELECT a.*, (SELECT avg(b.average) FROM averages b
        WHERE b.level = a.level AND b.house = a.house AND b.household IS NOT DISTINCT FROM a.household
            AND b.plug IS NOT DISTINCT FROM a.plug AND b.slice < a.slice
            AND (b.slice - a.slice - 2) % ($day // $width) = 0) AS before FROM averages a)
    SELECT (slice + 1) * $width, level, house, household, plug,
        CASE WHEN before IS NULL THEN average ELSE (average + before) / 2 END
    FROM found ORDER BY 1, 2, 3, household NULLS FIRST, plug NULLS FIRST
"""


def sample(name):
    """Where a real sample is."""
    folder = os.environ.get("HEADRACE_DATA")
    if folder is None or not Path(folder, name).is_file():
        pytest.skip(f"needs {name} in the folder that HEADRACE_DATA names")
    return Path(folder, name)


def source(table):
    ts = table["ts"].cast(pa.int64()).to_pylist()
    return [list(zip(ts, table.drop_columns("ts").to_pylist(), strict=True))]


def in_sql(table, width, day=DAY):
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("input", table.set_column(table.column_names.index("ts"), "ts", table["ts"].cast(pa.int64())))
        return connection.execute(SMARTHOME, {"width": width, "day": day}).fetchall()


def close(rows, others):
    """Whether these are the same rows, but for the rounding of predictions."""
    given = [tuple(row.values()) for row in rows]
    assert [row[:-1] for row in given] == [row[:-1] for row in others]
    return [row[-1] for row in given] == pytest.approx([row[-1] for row in others], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_oracle_smarthome_is_what_sql_says(seed):
    draw, ts, rows = random.Random(seed), -3 * DAY, []
    for _ in range(400):
        ts += draw.choice([0, 1, HOUR // 3, HOUR - ts % HOUR, 5 * HOUR, DAY, 9 * DAY if draw.random() < 0.05 else 0])
        ids = (draw.choice([-1, 0, 2**40]) for _ in LEVELS)
        rows.append((ts, *ids, draw.choice([0.0, 0.25, 3.5, 7.1])))
    names = ("ts", "house", "household", "plug", "load")
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    for width in (HOUR, 6 * HOUR, DAY):
        assert close(smarthome(source(table), f"{width}ms"), in_sql(table, width))


def smart_plugs():
    names = ("ts", "value", "property", "plug", "household", "house")
    with gzip.open(sample("smartgrid-data.txt.gz"), "rt") as lines:
        rows = [line.split() for line in lines]
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    is_load = [value == "1" for value in columns["property"]]
    ids = {name: pa.array(map(int, columns[name]), pa.int64()) for name in ("house", "household", "plug")}
    times = pa.array([1_000 * int(ts) for ts in columns["ts"]], pa.int64())
    table = pa.table({"ts": times, **ids, "load": pa.array(map(float, columns["value"]))})
    return table.filter(pa.array(is_load)).sort_by("ts")


def kdd():
    with gzip.open(sample("kdd_sample_20k_ts.csv.gz"), "rt") as lines:
        rows = list(csv.reader(lines))
    places = {"protocol": 2, "service": 3, "flag": 4, "duration": 1, "src_bytes": 5, "dst_bytes": 6}
    texts = ("protocol", "service", "flag")
    columns = {name: [row[at] if name in texts else int(row[at]) for row in rows] for name, at in places.items()}
    return pa.table({"ts": [int(row[0]) for row in rows], **columns, "label": [row[-1] for row in rows]})


def from_file_to_file(name, table, folder, **flags):
    pq.write_table(table, folder / "in.parquet")
    contents = []
    for more in ({}, {"threads": 2, "leaves": 2}, {"leaves": 3, "plan": "chain", "sources": 4, "heartbeat": 7}):
        run(asked(name, str(folder / "out.parquet"), left=str(folder / "in.parquet"), options=flags, **more))
        contents.append((folder / "out.parquet").read_bytes())
    assert contents[0] == contents[1] == contents[2]
    return pq.read_table(folder / "out.parquet")


@pytest.mark.slow
def test_oracle_smarthome_on_the_real_sample(tmp_path):
    table = smart_plugs()
    assert table.num_rows > 16_000
    result = from_file_to_file("smarthome", table, tmp_path, slice="10s")
    expected = smarthome(source(table), "10s")
    assert first_difference(result, expected) is None
    assert close(expected, in_sql(table, 10_000))


@pytest.mark.campaign
def test_oracle_smarthome_on_generated_plugs(tmp_path):
    table = plugs(n=20_000, rate=0.5, houses=2).to_arrow()  # half a day
    result = from_file_to_file("smarthome", table, tmp_path)
    expected = smarthome(source(table), "1h", unit="us")
    assert len(expected) > 1_000 and first_difference(result, expected) is None
    assert close(expected, in_sql(table, 1_000 * HOUR, 1_000 * DAY))


# -- outlier


def counted(table, every):
    """Rows and scores of outliers, by NumPy: once over all connections before each request."""
    ts = table["ts"].cast(pa.int64()).to_numpy()
    columns = [table[name].to_numpy(zero_copy_only=False) for name in ("protocol", "service", "flag")]
    texts = [np.unique(column, return_inverse=True)[1] for column in columns]
    numbers = [sixteenths(table[name].to_numpy()) for name in ("duration", "src_bytes", "dst_bytes")]

    def scores(of, model):
        n, total = model.stop, np.zeros(of.stop - of.start, np.int64)
        if n == 0:
            return total + 6
        for column in texts:
            total += np.bincount(column[model], minlength=column.max() + 1)[column[of]] / n < 0.01
        for column in numbers:
            off = np.abs(column[of] - column[model].mean())
            total += off > 3 * column[model].std() + 1e-9
        return total

    ends = np.flatnonzero(np.diff(ts // every, append=ts[-1] // every + 1)) + 1
    found, before = [], 0
    for end in ends.tolist():
        of = slice(before, end)
        last, now = scores(of, slice(0, before)), scores(of, slice(0, end))
        is_told = (last >= 2) & (now >= 2)
        found += zip((np.flatnonzero(is_told) + before).tolist(), now[is_told].tolist(), strict=True)
        before = end
    return found


def sixteenths(values):
    bits = np.floor(np.log2(np.maximum(values, 1))).astype(np.int64)
    return np.where(values == 0, 0, 16 * bits + values * 16 // 2**bits)


@pytest.mark.slow
@pytest.mark.parametrize("table", [kdd, lambda: connections(n=8_000, attacks=0.001).to_arrow()], ids=["real", "generated"])
def test_oracle_outlier(table, tmp_path):
    given = table()
    result = from_file_to_file("outlier", given, tmp_path)
    is_real = "label" in given.column_names
    expected = outlier(source(given), unit="ms" if is_real else "us")
    assert first_difference(result, expected) is None
    assert [(row["row"], row["score"]) for row in expected] == counted(given, 600_000 if is_real else 600_000_000)
    labels = given["label" if is_real else "attack"].to_numpy(zero_copy_only=False)
    is_attack = labels != "normal." if is_real else labels
    told = {row["row"] for row in expected}
    assert {*np.flatnonzero(is_attack).tolist()} <= told and 2 <= is_attack.sum() < len(told) < 800
