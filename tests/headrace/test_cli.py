"""The command line: what scripts depend on.

Method: in this process where the answer is enough, in one of its own where exit status, standard
error, signals or files left behind are the point. Every wrong use must give its status, one line
that names the fault and the fix, and no file. Results themselves: tests/headrace/apps.
Cannot see: how it feels at a terminal.
"""

import contextlib
import errno
import fcntl
import importlib
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import urllib.error
import urllib.request
import uuid
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace import cli
from headrace.apps import APPS
from headrace.apps.command import parse_schedule
from headrace.errors import ParameterError
from open_ports import open_ports
from support.workloads import eventually

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "headrace.cli"]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(str(ROOT / room) for room in ("toolkit", "datasets", "widgets")),
}
REPORT_KEYS = {
    "tuples_in", "tuples_out", "dropped", "seconds", "tuples_per_s", "latency_ms", "comparisons_per_s",
    "reconfigurations", "imbalance_cv", "threads",
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own for each test, with some inputs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_TRACEBACK", raising=False)
    pq.write_table(words(300), "words.parquet")
    return tmp_path


def words(rows):
    return pa.table({"ts": list(range(0, rows * 1000, 1000)), "text": [f"a w{i % 7} #t{i % 3}" for i in range(rows)]})


def left_behind(folder):
    """Names in the folder that are not inputs, hidden ones too."""
    return sorted(set(os.listdir(folder)) - {"words.parquet", "in.parquet", "right.parquet"})


def wrong(capfd, *arguments, status=2):
    """Run it; assert the status, one line on stderr, and nothing written; return the line."""
    assert cli.main([str(a) for a in arguments]) == status
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("headrace: ") and captured.err.count("\n") == 1, captured.err
    assert left_behind(".") == []
    return captured.err


def run(*arguments):
    return cli.main(["run", *map(str, arguments)])


# -- the outline


def test_example_help_and_version(capfd):
    assert cli.main(["--version"]) == 0
    assert capfd.readouterr().out == f"headrace {headrace.__version__}\n"
    assert cli.main(["--help"]) == 0
    text = capfd.readouterr().out
    assert all(command in text for command in ("demo", "run", "bench", "lab", "doctor"))
    assert cli.main(["run", "--help"]) == 0
    text = capfd.readouterr().out
    for flag in (
        "--in", "--right", "--out", "--report", "--threads", "--max-threads", "--reconfigure", "--mode", "--gate",
        "--sources", "--batch", "--rate", "--advance", "--size", "--spark", "--distance", "--band",
    ):  # fmt: skip
        assert flag in text
    assert all(name in text for name in APPS)


def test_example_help_needs_neither_spark_nor_plots():
    code = (
        "import sys; from headrace import cli; assert cli.main(['--help']) == 0;"
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'pyspark', 'bokeh', 'tqdm', 'headrace_datasets'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert done.stdout.endswith("[]\n"), done.stdout + done.stderr


# -- run


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


# -- wrong use


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "required"),
        (["walk"], "invalid choice"),
        (["run"], "required"),
        (["run", "nothing", "--out", "o.parquet"], "invalid choice"),
        (["run", "wordcount", "--in", "words.parquet"], "--out"),
        (["run", "wordcount", "--out", "o.parquet"], "--in FILE.parquet"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--thread", "2"], "--thread"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--threads", "0"], "from 1"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--threads", "two"], "from 1"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--threads", "5000"], "1024"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--sources", "0"], "from 1"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--batch", "-5"], "--batch"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--rate", "0"], "above 0"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--rate", "nan"], "above 0"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--gate", "x"], "scalegate"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--mode", "x"], "vsn"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--size", "soon"], "'soon'"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--size", "30s"], "size >= advance"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--advance", "0"], "at least 1"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--band", "3"], "option of scalejoin"),
        (["run", "forward", "--in", "words.parquet", "--out", "o.parquet", "--size", "3s"], "no window size"),
        (["run", "hedge", "--in", "words.parquet", "--out", "o.parquet", "--advance", "3s"], "no window advance"),
        (["run", "paircount", "--in", "words.parquet", "--out", "o.parquet", "--distance", "0"], "inf"),
        (["run", "scalejoin", "--in", "words.parquet", "--out", "o.parquet"], "--right"),
        (["run", "scalejoin", "--in", "words.parquet", "--right", "words.parquet", "--out", "o.parquet", "--band", "-1"],
         "from 0"),
        (["run", "wordcount", "--in", "words.parquet", "--right", "words.parquet", "--out", "o.parquet"], "--right"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--threads", "4", "--max-threads", "3"],
         "4 threads"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--max-threads", "3", "--reconfigure",
          "10%:4"], "4 threads"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--reconfigure", "4"], "10%:4,50%:1"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--threads", "1025"],
         "--threads: '1025': give a whole number of threads from 1 to 1024"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--max-threads", "1025"], "--max-threads"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--reconfigure", "10%:1025"], "'10%:1025' has"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--reconfigure", "10%:" + "9" * 5000],
         "from 1 to 1024"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--sources", "1025"], "from 1 to 1024"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--batch", "99999999999999999999"],
         "--batch: '99999999999999999999': give a whole number of rows from 1 to 2147483647"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--batch", "9" * 5000], "to 2147483647"),
        (["run", "paircount", "--in", "words.parquet", "--out", "o.parquet", "--distance", "9" * 24],
         "words from 1 to 2147483647, or inf"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--size", "-5s"], "begins with '-': --size=..."),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--size=-5s"], "size = '-5s'"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--reconfigure", "-1%:2"], "--reconfigure=..."),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--reconfigure=-1%:2"], "10%:4,50%:1"),
        (["run", "wordcount", "--in", "", "--out", "o.parquet"], "--in '': an empty path"),
        (["run", "forward", "--in", "words.parquet", "--right", "", "--out", "o.parquet"], "--right '': an empty path"),
        (["run", "wordcount", "--in", "words.parquet", "--out", ""], "--out '': an empty path"),
        (["bench", "nothing"], "gate"),
        (["lab", "now"], "now"),
    ],
)  # fmt: skip
def test_example_wrong_use(capfd, arguments, text):
    assert text in wrong(capfd, *arguments)


@pytest.mark.parametrize(
    ("out", "text"),
    [
        ("nowhere/o.parquet", "nowhere"),
        (".", "directory"),
        ("words.parquet", "also an input"),
        ("./sub/../words.parquet", "also an input"),
        ("/proc/o.parquet", "/proc/o.parquet"),
    ],
)
def test_example_outputs_that_cannot_be_written(capfd, out, text):
    assert text in wrong(capfd, "run", "wordcount", "--in", "words.parquet", "--out", out)
    # Found before the input is looked at.
    if "words" not in out:
        assert text in wrong(capfd, "run", "wordcount", "--in", "missing.parquet", "--out", out)


@pytest.mark.parametrize("report", ["nowhere/r.json", ".", "o.parquet", "words.parquet"])
def test_example_reports_that_cannot_be_written(capfd, report):
    assert "report" in wrong(
        capfd, "run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--report", report
    )


@pytest.mark.parametrize("flag", ["--out", "--report"])
@pytest.mark.parametrize("kind", ["a pipe", "a device", "a link to a pipe"])
def test_example_what_is_no_file_is_not_replaced(capfd, monkeypatch, flag, kind):
    replaced = []
    monkeypatch.setattr(os, "replace", lambda part, target: replaced.append(target))
    os.mkfifo("in.parquet")
    os.symlink("in.parquet", "right.parquet")
    path = {"a pipe": "in.parquet", "a device": "/dev/null", "a link to a pipe": "right.parquet"}[kind]
    flags = ["--out", path] if flag == "--out" else ["--out", "o.parquet", "--report", path]
    # Found before the input is looked at.
    text = wrong(capfd, "run", "wordcount", "--in", "missing.parquet", *flags)
    assert f"{flag} {path!r} is {kind.removeprefix('a link to ')}; give the path of a file" in text
    assert not replaced and Path("in.parquet").is_fifo() and Path("right.parquet").is_symlink()


def test_example_links_are_followed(folder):
    (folder / "elsewhere").mkdir()
    os.symlink("elsewhere/real.parquet", "o.parquet")
    os.symlink("elsewhere/real.json", "r.json")
    for _ in range(2):  # nothing is behind the links, then something
        assert run("wordcount", "--in", "words.parquet", "--out", "o.parquet", "--report", "r.json") == 0
        assert os.path.islink("o.parquet") and os.path.islink("r.json")
        assert sorted(os.listdir("elsewhere")) == ["real.json", "real.parquet"]
        assert left_behind(".") == ["elsewhere", "o.parquet", "r.json"]
    rows = pq.read_table("elsewhere/real.parquet").num_rows
    assert json.loads(Path("elsewhere/real.json").read_text())["tuples_out"] == rows > 0


@pytest.mark.parametrize(
    "master", ["foo", "", "local[", "local[0]", "local[x]", "local[2]x", "Local[2]", "spark://", "spark://host", "k8s://", "yarn"]
)
def test_example_masters_that_are_none(capfd, monkeypatch, master):
    from headrace.apps import command

    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):  # without one, yarn is none
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(command, "_session", lambda master: pytest.fail("Spark is started"))
    text = wrong(capfd, "run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--spark", master)
    assert f"--spark {master!r}" in text and "local[2]" in text


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*]", "local[2,3]", "local[*, 2]", "spark://a:7077,b:7077", "yarn", "k8s://https://h:1"]
)
def test_example_masters_that_may_be(capfd, monkeypatch, master):
    from headrace.apps import command

    def asked(master):
        raise ParameterError(f"asked for {master}")

    monkeypatch.setattr(command, "_session", asked)
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    text = wrong(capfd, "run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--spark", master)
    assert f"asked for {master}" in text


BAD_INPUTS = {
    "no column 'text'": pa.table({"ts": [1], "words": ["a"]}),
    "no column 'ts'": pa.table({"time": [1], "text": ["a"]}),
    "'text' is int64": pa.table({"ts": [1], "text": [5]}),
    "'ts' is string": pa.table({"ts": ["1"], "text": ["a"]}),
    "'ts' is double": pa.table({"ts": [1.5], "text": ["a"]}),
    "null at row 1": pa.table({"ts": [1, None], "text": ["a", "b"]}),
    "text": pa.table({"ts": [1, 2], "text": ["a", None]}),
    "sort": pa.table({"ts": [2, 1], "text": ["a", "b"]}),
    "2**62": pa.table({"ts": [2**62], "text": ["a"]}),
}


@pytest.mark.parametrize("fault", BAD_INPUTS)
def test_example_bad_inputs(capfd, fault):
    pq.write_table(BAD_INPUTS[fault], "in.parquet")
    for flags in ([], ["--threads", 2, "--sources", 2]) if fault != "sort" else ([],):
        text = wrong(capfd, "run", "wordcount", "--in", "in.parquet", "--out", "o.parquet", "--report", "r.json", *flags)
        if fault != "null at row 1" or not flags:
            assert fault in text


@pytest.mark.parametrize("flags", [[], ["--threads", 2, "--sources", 2]])
@pytest.mark.parametrize(
    ("table", "fix"),
    [
        (pa.table({"ts": [1, 2], "text": ["a", None]}), "fill it, or filter such rows out of the file"),
        (pa.table({"ts": [2, 3, 1, 1], "text": ["a"] * 4}), "sort the file by ts"),
        (pa.table({"ts": pa.array([0, 1, 1, 1], pa.timestamp("ns")), "text": ["a"] * 4}), "truncate it to microseconds"),
        (pa.table({"ts": pa.array([1, 2**63 + 5], pa.uint64()), "text": ["a", "b"]}), "coarser time unit"),
    ],
)
def test_example_the_fix_is_one_that_a_command_has(capfd, table, fix, flags):
    pq.write_table(table, "in.parquet")
    text = wrong(capfd, "run", "wordcount", "--in", "in.parquet", "--out", "o.parquet", *flags)
    assert text.endswith(f"{fix}\n")
    assert not re.search(r"nulls=|sort=|lateness=|time_unit=", text)


def test_example_what_an_application_needs_is_listed(capfd):
    pq.write_table(pa.table({"ts": [1], "x": ["a"], "y": [1.0]}), "in.parquet")
    text = wrong(capfd, "run", "scalejoin", "--in", "in.parquet", "--right", "in.parquet", "--out", "o.parquet")
    assert "'x' is string" in text and "x (integer), y (float)" in text
    pq.write_table(pa.table({"ts": [1], "x": [1], "y": [1.0]}), "in.parquet")
    text = wrong(capfd, "run", "scalejoin", "--in", "in.parquet", "--right", "in.parquet", "--out", "o.parquet")
    assert "no column 'a'" in text and "d (bool)" in text
    pq.write_table(pa.table({"ts": [1], "v": ["a"]}), "right.parquet")
    text = wrong(capfd, "run", "forward", "--in", "in.parquet", "--right", "right.parquet", "--out", "o.parquet")
    assert "'right.parquet' has columns ts (int64), v (string)" in text and "one schema" in text


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, "No such file"), (b"", "neither"), (b"a,b\n1,2\n", "neither"), (b"PAR1 and then nothing", "cannot be read")],
)
def test_example_files_that_are_no_tables(capfd, content, text):
    if content is not None:
        Path("in.parquet").write_bytes(content)
    assert text in wrong(capfd, "run", "wordcount", "--in", "in.parquet", "--out", "o.parquet")


def test_example_a_file_with_a_broken_page(capfd):
    pq.write_table(words(50_000), "in.parquet", row_group_size=5_000, write_page_checksum=True, compression="none")
    content = bytearray(Path("in.parquet").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(64)
    Path("in.parquet").write_bytes(content)
    assert "in.parquet" in wrong(capfd, "run", "wordcount", "--in", "in.parquet", "--out", "o.parquet")


def test_example_a_failure_while_running_is_status_1(capfd, monkeypatch):
    from headrace import errors
    from headrace.apps import command

    def fails(request):
        raise errors.FunctionError("it failed", "is_hedge")

    monkeypatch.setattr(command, "run", fails)
    assert "is_hedge" in wrong(capfd, "run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", status=1)
    monkeypatch.setattr(command, "run", lambda request: 1 / 0)
    text = wrong(capfd, "run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", status=1)
    assert "ZeroDivisionError" in text and "HEADRACE_TRACEBACK" in text


def test_example_no_memory_is_status_1(capfd, monkeypatch):
    from headrace import errors
    from headrace.apps import command

    def failing(error, cause=None):
        def run(request):
            raise error from cause

        return run

    nothing_left = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    for run in (failing(nothing_left), failing(MemoryError()), failing(errors.RunFailedError("it failed"), nothing_left)):
        monkeypatch.setattr(command, "run", run)
        text = wrong(capfd, "run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", status=1)
        assert "memory ran out" in text and "--batch" in text and "path" not in text
    monkeypatch.setattr(command, "run", failing(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    assert "space left" in wrong(capfd, "run", "wordcount", "--in", "words.parquet", "--out", "o.parquet")


def test_example_no_memory_is_no_fault_of_the_input(capfd, monkeypatch):
    from headrace.ingress import readers

    def no_room(*arguments, **named):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(readers, "_open_path", no_room)
    assert "memory ran out" in wrong(capfd, "run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", status=1)


def test_example_a_traceback_on_request(capfd, monkeypatch):
    monkeypatch.setenv("HEADRACE_TRACEBACK", "1")
    assert run("wordcount", "--in", "missing.parquet", "--out", "o.parquet") == 2
    assert "Traceback" in capfd.readouterr().err


def test_example_without_java(capfd, monkeypatch):
    from pyspark import SparkContext

    from headrace.errors import NotSupportedError

    def none():
        raise NotSupportedError("Spark needs Java 17 or later and there is none: nothing; install one")

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(importlib.import_module("headrace.spark.session"), "find_java", none)
    assert "install" in wrong(
        capfd, "run", "forward", "--in", "words.parquet", "--out", "o.parquet", "--spark", "local[1]"
    )


# -- processes: signals, pipes, terminals


def start(*arguments, **options):
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)], env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    )


@pytest.mark.slow
@pytest.mark.spark
def test_example_what_spark_cannot_read_is_one_line(folder):
    pq.write_table(words(50_000), "in.parquet", row_group_size=5_000)
    content = bytearray(Path("in.parquet").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4_000] = b"\xff" * 4_000
    Path("in.parquet").write_bytes(content)
    process = start("run", "wordcount", "--in", "in.parquet", "--out", "o.parquet", "--spark", "local[2]")
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1), err
    assert "'in.parquet': Spark could not" in err and "check the file" in err
    assert left_behind(folder) == []


def test_example_wrong_use_as_a_process():
    process = start("run", "wordcount", "--in", "missing.parquet", "--out", "o.parquet")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1), err
    assert "missing.parquet" in err
    assert left_behind(".") == []


@pytest.mark.slow
def test_example_nothing_is_said_when_piped():
    process = start("run", "forward", "--in", "words.parquet", "--out", "o.parquet", "--rate", 200)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.slow
def test_example_progress_on_a_terminal():
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, "run", "forward", "--in", "words.parquet", "--out", "o.parquet", "--rate", "100"],
        env=ENVIRONMENT, stderr=theirs, stdout=subprocess.PIPE,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            if not (part := os.read(ours, 4096)):
                break
        except OSError:  # the other end was closed
            break
        shown += part
    os.close(ours)
    assert process.wait(60) == 0
    assert b"forward:" in shown and b"/300" in shown and b"threads=1" in shown


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_example_interrupted_while_running(folder, number):
    process = start("run", "forward", "--in", "words.parquet", "--out", "o.parquet", "--report", "r.json", "--rate", 5)
    end = time.monotonic() + 60
    while not any(name.startswith(".o.parquet") for name in os.listdir(folder)):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else 143), err
    assert "Traceback" not in err
    assert left_behind(folder) == []


@pytest.mark.slow
def test_example_interrupted_while_compiling(folder):
    """A cold cache: the compiler holds the main thread for seconds."""
    process = subprocess.Popen(
        [*COMMAND, "run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--rate", "5"],
        env={**ENVIRONMENT, "XDG_CACHE_HOME": str(folder / "right.parquet")}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(3.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert left_behind(folder) == []


def processes_marked(mark):
    """Command lines of the processes whose environment has a word."""
    found = {}
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdecimal() and mark.encode() in (process / "environ").read_bytes():
                found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes where Linux lists them")
@pytest.mark.parametrize("wait_s", [0.0, 0.5, 4.0])
def test_example_interrupted_while_spark_starts(folder, wait_s):
    """No virtual machine is left, whether it was connected yet or not, and one line says what happened."""
    mark = f"HEADRACE_MARK={uuid.uuid4().hex}"
    process = subprocess.Popen(
        [*COMMAND, "run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--rate", "5", "--spark", "local[1]"],
        env={**ENVIRONMENT, **dict([mark.split("=")])}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    end = time.monotonic() + 60
    while not any("spark" in line and line.split()[0].endswith("java") for line in processes_marked(mark).values()):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    time.sleep(wait_s)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.strip().splitlines()[-1:] == ["headrace: interrupted"] and "Traceback" not in err, err
    end = time.monotonic() + 30
    while left := processes_marked(mark):
        assert time.monotonic() < end, left
        time.sleep(0.1)
    assert left_behind(folder) == []


def test_example_a_reader_that_goes_away():
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen([*COMMAND, "bench", "list"], env=ENVIRONMENT, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err


# -- the other commands


def test_example_bench_is_dispatched(capfd, monkeypatch):
    from headrace import bench

    asked = []
    monkeypatch.setattr(bench, "main", lambda name, full, json_path, folder: asked.append((name, full, json_path)) or 0)
    assert cli.main(["bench", "gate", "--full", "--json", "g.json"]) == 0
    assert cli.main(["bench", "all"]) == 0
    assert asked == [("gate", True, "g.json"), ("all", False, None)]
    assert cli.main(["bench", "list"]) == 0
    assert capfd.readouterr().out.split() == [*bench.NAMES, bench.PEERS, "all"]


def test_example_lab_listens_on_loopback_and_keeps_its_token(monkeypatch):
    executed = []
    monkeypatch.setattr(os, "execv", lambda program, arguments: executed.append(arguments))
    assert cli.main(["lab"]) in (0, None)
    assert "--ServerApp.ip=127.0.0.1" in executed[0]
    assert not any("token" in argument for argument in executed[0])


@pytest.mark.slow
def test_example_lab_opens_on_the_notebooks_for_this_machine_only(tmp_path):
    """The real thing: it comes up, lists the notebooks to whoever has the token, and listens on loopback."""
    state = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    server = subprocess.Popen(
        [*COMMAND, "lab"], cwd=tmp_path, env={**ENVIRONMENT, **state, "BROWSER": "true"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    stuck = threading.Timer(120, server.kill)
    stuck.start()
    try:
        said, address = "", None
        for line in server.stdout:
            said += line
            if address := re.search(r"http://(127\.0\.0\.1:\d+)/lab\?token=(\w{20,})", line):
                break
        assert address, said
        place, token = address.groups()
        listing = f"http://{place}/api/contents"

        def names():
            try:
                with urllib.request.urlopen(f"{listing}?token={token}", timeout=30) as answer:
                    return {entry["name"] for entry in json.load(answer)["content"]}
            except urllib.error.URLError:
                return set()  # it says its address a moment before it listens

        eventually(lambda: "00_first_stream.ipynb" in names(), 60)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(listing, timeout=30)
        inside, outside = open_ports(server.pid)
        assert len(inside) == 1 and outside == []
    finally:
        stuck.cancel()
        server.kill()
        server.wait(30)
        server.stdout.close()


def test_example_notebooks_are_found(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    found = cli.notebooks()
    assert found.name == "notebooks" or found == ROOT


def test_example_doctor(capfd):
    assert cli.main(["doctor"]) in (0, 1)
    assert "Python" in capfd.readouterr().out
