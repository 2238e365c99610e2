"""``headrace run`` as it is meant: files, reports, rates, changes by shares of the input.

Method: in this process. Results themselves: tests/headrace/apps. Cannot see: how it feels at a terminal.
"""

import json
import os
import threading
import time
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.apps.asked import parse_schedule
from headrace.errors import ParameterError
from support.command_line import left_behind, run, words

REPORT_KEYS = {
    "tuples_in", "tuples_out", "dropped", "seconds", "tuples_per_s", "latency_ms", "comparisons_per_s",
    "reconfigurations", "imbalance_cv", "threads",
}  # fmt: skip


def test_example_a_run_with_a_report():
    flags = ["--threads", 2, "--reconfigure", "10%:4,50%:1", "--report", "report.json", "--batch", 50, "--sources", 2]
    assert run("wordcount", "--in", "words.parquet", "--out", "out.parquet", *flags) == 0
    assert left_behind(".") == ["out.parquet", "report.json"]
    result = pq.read_table("out.parquet")
    assert result.column_names == ["ts", "word", "count"]
    report = json.loads(Path("report.json").read_text())
    assert set(report) >= REPORT_KEYS
    assert (report["tuples_in"], report["tuples_out"], report["dropped"]) == (300, result.num_rows, 0)
    assert report["threads"] == 2
    assert [(c["from"], c["to"]) for c in report["reconfigurations"]] == [(2, 4), (4, 1)]
    assert all(c["ms"] >= 0 for c in report["reconfigurations"])
    assert set(report["latency_ms"]) == {"p50", "p99", "max"}
    assert report["comparisons_per_s"] is None
    assert report["seconds"] > 0 and report["tuples_per_s"] > 0


def test_example_windows_and_options_of_the_command_line():
    assert run("paircount", "--in", "words.parquet", "--out", "a.parquet", "--distance", "inf", "--size", "1min",
               "--advance", "1min") == 0  # fmt: skip
    table = pq.read_table("a.parquet")
    assert table["ts"].to_pylist()[0] == 60_000
    assert ("a", "#t0") in zip(table["first"].to_pylist(), table["second"].to_pylist(), strict=True)
    assert run("paircount", "--in", "words.parquet", "--out", "b.parquet", "--distance", "1", "--size", "60000",
               "--advance", "60000") == 0  # fmt: skip
    table = pq.read_table("b.parquet")
    assert ("a", "#t0") not in zip(table["first"].to_pylist(), table["second"].to_pylist(), strict=True)


def test_example_a_rate_paces_the_input():
    begun = time.monotonic()
    assert run("forward", "--in", "words.parquet", "--out", "out.parquet", "--rate", 300, "--sources", 3) == 0
    assert time.monotonic() - begun > 0.8
    assert pq.read_table("out.parquet").num_rows == 300


def test_example_an_older_output_is_replaced_only_by_a_complete_one(capfd):
    assert run("wordcount", "--in", "words.parquet", "--out", "out.parquet") == 0
    before = Path("out.parquet").read_bytes()
    pq.write_table(pa.table({"ts": [2, 1], "text": ["a", "b"]}), "in.parquet")
    assert run("wordcount", "--in", "in.parquet", "--out", "out.parquet") == 2
    assert Path("out.parquet").read_bytes() == before
    assert left_behind(".") == ["out.parquet"]


@pytest.mark.spark
def test_agree_spark_gives_the_same_file(spark):
    for kind in (pa.int64(), pa.int32(), pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.timestamp("ns", "Asia/Tokyo")):
        table = words(500)
        ts = table["ts"].cast(kind) if pa.types.is_integer(kind) else table["ts"].cast(pa.timestamp("ms", kind.tz)).cast(kind)
        pq.write_table(table.set_column(0, "ts", ts), "in.parquet", row_group_size=100)
        assert run("forward", "--in", "in.parquet", "--out", "a.parquet") == 0
        flags = ["--spark", spark.sparkContext.master, "--threads", 2]
        assert run("forward", "--in", "in.parquet", "--out", "b.parquet", *flags) == 0
        assert Path("a.parquet").read_bytes() == Path("b.parquet").read_bytes(), kind


# -- reconfiguration by shares of the input


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("0%:2,100%:1", [(Fraction(0), 2), (Fraction(1), 1)]),
        (" 10% : 4 , 33.3%:1", [(Fraction(1, 10), 4), (Fraction(333, 1000), 1)]),
        ("0.1%:8", [(Fraction(1, 1000), 8)]),
        (None, []),
    ],
)
def test_example_schedules(text, schedule):
    assert parse_schedule(text) == schedule


@pytest.mark.parametrize(
    "text",
    ["", "10:4", "10%", "10%:", "10%:0", "10%:-1", "10%:x", "10%:1.5", "101%:2", "-1%:2", "50%:2,50%:3", "50%:2,10%:3",
     "10%:4,", "1e1%:2", "nan%:2", ".%:1", "10%%:4"],
)  # fmt: skip
def test_example_schedules_that_are_none(text):
    with pytest.raises(ParameterError, match="--reconfigure"):
        parse_schedule(text)


def test_example_shares_become_rows_exactly(monkeypatch):
    """Before row ceil(P*n/100): 7 % of 300 is row 21, where floating point says 22."""
    from headrace.stream import Stream

    planned = []

    def stop_here(self, **options):
        planned.append(options["reconfigure"])
        raise ParameterError("enough; stop here")

    monkeypatch.setattr(Stream, "start", stop_here)
    run("forward", "--in", "words.parquet", "--out", "o.parquet", "--reconfigure", "0%:1,7%:2,33.4%:3,100%:4")
    assert planned == [[(0, 1), (21, 2), (101, 3), (300, 4)]]


INPUTS = {
    "wordcount": None,
    "gs": {"keys": [[1, 2], [3]], "values": [[5, 6], None]},
    "abandoned": {"user": [1, 1], "kind": ["cart", "view"]},
    "keycounter": {"key": [1, 1], "kind": ["inc", "reset"]},
}
"""By application, one of each engine: its columns; the first one's input is there already."""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not let a thread be kept on a core")
@pytest.mark.parametrize("app", INPUTS)
def test_example_workers_are_kept_on_cores(app, monkeypatch):
    """Each on the next one of those that there are, and no other thread; the result is the same."""
    kept, keep, name = {}, os.sched_setaffinity, "words.parquet"

    def noted(process, cores):
        keep(process, cores)
        kept[threading.current_thread().name] = process, os.sched_getaffinity(0)

    if INPUTS[app]:
        name = "pinned.parquet"
        pq.write_table(pa.table({"ts": [0, 100 * 60_000], **INPUTS[app]}), name)
    monkeypatch.setattr(os, "sched_setaffinity", noted)
    before = os.sched_getaffinity(0)
    assert run(app, "--in", name, "--out", "a.parquet", "--max-threads", 3) == 0 and not kept
    assert run(app, "--in", name, "--out", "b.parquet", "--max-threads", 3, "--pin") == 0
    cores = sorted(before)
    noted_cores = sorted((process, *cores_of) for process, cores_of in kept.values())
    assert noted_cores == sorted((0, cores[k % len(cores)]) for k in range(3)) and len(kept) == 3
    assert os.sched_getaffinity(0) == before
    assert Path("a.parquet").read_bytes() == Path("b.parquet").read_bytes()
