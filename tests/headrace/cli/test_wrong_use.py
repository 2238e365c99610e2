"""Every wrong use has its status, one line that names the fault and the fix, and leaves no file.

Method: in this process, arguments first and then inputs. Cannot see: how it feels at a terminal.
"""

import errno
import importlib
import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import cli
from headrace.errors import ParameterError
from support.command_line import left_behind, run, words


def wrong(capfd, *arguments, status=2):
    """Run it; assert the status, one line on stderr, and nothing written; return the line."""
    assert cli.main([str(a) for a in arguments]) == status
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("headrace: ") and captured.err.count("\n") == 1, captured.err
    assert left_behind(".") == []
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "required"),
        (["walk"], "'walk': there is no such command; the commands are demo, run, bench, tour, lab, doctor"),
        (["rnu"], "did you mean run?"),
        (["--verison"], "--verison: headrace has no such option; did you mean --version?"),
        (["run"], "required"),
        (["run", "nothing", "--out", "o.parquet"], "there is no such application; the applications are wordcount"),
        (["run", "wordcont", "--out", "o.parquet"], "did you mean wordcount?"),
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
        (["run", "tolls", "--in", "words.parquet", "--out", "o.parquet", "--free", "-1"], "--free"),
        (["run", "tolls", "--in", "words.parquet", "--out", "o.parquet", "--free", "x"], "a whole number from 0 to 2147483647"),
        (["run", "tolls", "--in", "words.parquet", "--out", "o.parquet", "--schedule", "lp"], "tolls is not an ordered pipeline"),
        (["run", "tolls", "--in", "words.parquet", "--out", "o.parquet"],
         "no column 'type'; tolls needs ts (timestamp or integer), type (integer), vid (integer), xway (integer)"),
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
        (["run", "wordcount", "--in", "words.parquet", "--out", "-"], "--out -: files are not read from or written to a term"),
        (["run", "wordcount", "--in", "-", "--out", "o.parquet"], "--in -: files are not read"),
        (["run", "sl", "--in", "words.parquet", "--out", "o.parquet", "--mode", "sn"], "--mode sn: sl is transactional, and"),
        (["run", "gs", "--in", "words.parquet", "--out", "o.parquet", "--gate", "log"], "--gate log: gs is transactional, and"),
        (["run", "tp", "--in", "words.parquet", "--out", "o.parquet", "--size", "3s"], "no window size"),
        (["run", "ob", "--in", "words.parquet", "--out", "o.parquet", "--right", "words.parquet"], "ob has one input"),
        (["run", "forward", "--in", "words.parquet", "--out", "o.parquet", "--scheme", "lock"], "--scheme lock: forward runs no"),
        (["run", "hedge", "--in", "words.parquet", "--out", "o.parquet", "--unsafe"], "--unsafe: hedge runs no transactions"),
        (["run", "flights", "--out", "o.parquet", "--state", "s"], "--state s: flights runs no transactions"),
        (["run", "forward", "--in", "words.parquet", "--out", "o.parquet", "--records", "3"], "an option of gs, sl, ob, tp"),
        (["run", "sl", "--in", "words.parquet", "--out", "o.parquet", "--records", "0"], "of records from 1 to"),
        (["run", "sl", "--in", "words.parquet", "--out", "o.parquet", "--scheme", "lok"], "did you mean lock?"),
        (["run", "sl", "--in", "words.parquet", "--out", "o.parquet", "--scheme", "none"], "add --unsafe"),
        (["run", "sl", "--in", "words.parquet", "--out", "o.parquet", "--sharing", "all"], "everything"),
        (["run", "sl", "--in", "words.parquet", "--out", "o.parquet", "--chains", "lists"], "skiplist"),
        (["run", "abandoned", "--in", "words.parquet", "--out", "o.parquet", "--chains", "radix"], "abandoned runs no trans"),
        (["run", "sl", "--in", "words.parquet", "--out", "o.parquet", "--punctuation", "0"], "of events from 1 to 131072"),
        (["run", "sl", "--in", "words.parquet", "--out", "o.parquet", "--state", ""], "--state '': an empty path"),
        (["run", "sl", "--in", "words.parquet", "--out", "o.parquet", "--state", "words.parquet"], "is a file"),
        (["run", "sl", "--in", "words.parquet", "--out", "o.parquet", "--state", "/proc/s"], "'/proc/s' cannot be made"),
        (["run", "sl", "--in", "words.parquet", "--out", "assets.parquet", "--state", "."], "is also"),
        (["run", "sl", "--in", "words.parquet", "--out", "o.parquet", "--state", "a/b/c"], "no column 'kind'; sl needs ts"),
        (["run", "abandoned", "--in", "words.parquet", "--out", "o.parquet", "--mode", "sn"], "abandoned is an ordered pipe"),
        (["run", "mobility", "--in", "words.parquet", "--out", "o.parquet", "--gate", "log"], "mobility is an ordered pipeline"),
        (["run", "declining", "--in", "words.parquet", "--right", "words.parquet", "--out", "o.parquet", "--advance", "1h"],
         "declining has no window advance"),
        (["run", "declining", "--in", "words.parquet", "--right", "words.parquet", "--out", "o.parquet", "--size", "1h"],
         "declining has no window size"),
        (["run", "declining", "--in", "words.parquet", "--out", "o.parquet"], "--right"),
        (["run", "abandoned", "--in", "words.parquet", "--out", "o.parquet", "--right", "words.parquet"], "abandoned has one"),
        (["run", "abandoned", "--in", "words.parquet", "--out", "o.parquet", "--scheme", "lock"], "abandoned runs no trans"),
        (["run", "abandoned", "--in", "words.parquet", "--out", "o.parquet", "--punctuation", "5"], "abandoned runs no trans"),
        (["run", "abandoned", "--in", "words.parquet", "--out", "o.parquet", "--sharing", "socket"], "abandoned runs no trans"),
        (["run", "abandoned", "--in", "words.parquet", "--out", "o.parquet", "--unsafe"], "abandoned runs no transactions"),
        (["run", "abandoned", "--in", "words.parquet", "--out", "o.parquet", "--state", "s"], "has no tables; leave it out"),
        (["run", "abandoned", "--in", "words.parquet", "--out", "o.parquet", "--records", "5"], "an option of gs, sl, ob, tp"),
        (["run", "abandoned", "--in", "words.parquet", "--out", "o.parquet", "--top", "5"],
         "--top is an option of sold_together, viewed_together, viewed_before, not of abandoned"),
        (["run", "sold_together", "--in", "words.parquet", "--out", "o.parquet", "--timeout", "5"], "not of sold_together"),
        (["run", "viewed_together", "--in", "words.parquet", "--out", "o.parquet", "--last", "5"], "an option of viewed_before"),
        (["run", "viewed_together", "--in", "words.parquet", "--out", "o.parquet", "--area", "5"], "an option of mobility"),
        (["run", "sold_together", "--in", "words.parquet", "--out", "o.parquet", "--top", "0"], "number from 1 to 2147483647"),
        (["run", "sold_together", "--in", "words.parquet", "--out", "o.parquet", "--buckets", "65537"], "from 1 to 65536"),
        (["run", "sold_together", "--in", "words.parquet", "--out", "o.parquet", "--schedule", "cp"], "are qst, lp, et, ct"),
        (["run", "sold_together", "--in", "words.parquet", "--out", "o.parquet", "--queues", "x"], "hybrid"),
        (["run", "sold_together", "--in", "words.parquet", "--out", "o.parquet", "--reorder", "x"], "nonblocking"),
        (["run", "sold_together", "--in", "words.parquet", "--out", "o.parquet"],
         "no column 'ticket'; sold_together needs ts (timestamp or integer), ticket (integer), item (integer)"),
        (["run", "mobility", "--in", "words.parquet", "--out", "o.parquet", "--area", "1.5"], "the number of an area"),
        (["run", "mobility", "--in", "words.parquet", "--out", "o.parquet", "--area", str(2**63)], "within int64"),
        (["run", "mobility", "--in", "words.parquet", "--out", "o.parquet", "--speed", "nan"], "km/h, from 0 on"),
        (["run", "mobility", "--in", "words.parquet", "--out", "o.parquet", "--speed=-1"], "km/h, from 0 on"),
        (["run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--schedule", "ct"],
         "--schedule ct: wordcount is not an ordered pipeline"),
        (["run", "sl", "--in", "words.parquet", "--out", "o.parquet", "--queues", "shared"],
         "--queues shared: sl is not an ordered"),
        (["run", "flights", "--out", "o.parquet", "--reorder", "lock"], "--reorder lock: flights is not an ordered"),
        (["run", "tp", "--in", "words.parquet", "--out", "o.parquet", "--buckets", "3"], "is an option of sold_together"),
        (["bench", "nothing"], "gate"),
        (["lab", "now"], "now"),
        (["lab", "--here", "--folder", "f"], "--folder 'f' and --here"),
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


def test_example_inputs_that_are_no_file(capfd):
    """A pipe has no end to begin with, where Parquet says what it has; one with a name would be waited for."""
    reading, writing = os.pipe()
    os.write(writing, Path("words.parquet").read_bytes()[:4096])
    os.close(writing)
    for path, what in ((f"/dev/fd/{reading}", "a pipe"), ("/dev/zero", "a device")):
        text = wrong(capfd, "run", "forward", "--in", path, "--out", "o.parquet")
        assert text == f"headrace: input {path!r} is {what}; give the path of a file\n"
    os.close(reading)


def test_example_standard_error_may_be_closed(monkeypatch):
    """As by ``2>&-``."""
    monkeypatch.setattr("sys.stderr", None)
    assert cli.main(["run", "forward", "--in", "words.parquet", "--out", "o.parquet"]) == 0
    assert os.path.exists("o.parquet")


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


# -- inputs that cannot be read, and what fails while they are


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
    ("app", "columns", "text"),
    [
        ("gs", {"keys": [[1.5]], "values": [None]}, "column 'keys' is list<element: double>; gs needs"),
        ("gs", {"keys": [1], "values": [None]}, "column 'keys' is int64"),
        ("gs", {"keys": [["1"]], "values": [None]}, "values (list of integers)"),
        ("tp", {"vehicle": [1], "segment": [1], "speed": [1.5]}, "column 'speed' is double"),
        ("tp", {"vehicle": [1], "segment": [1]}, "no column 'speed'"),
        ("ob", {"kind": [1], "items": [[1]], "prices": [[1]], "quantities": [[1]]}, "column 'kind' is int64"),
    ],
)
def test_example_columns_of_transactional_applications(capfd, app, columns, text):
    pq.write_table(pa.table({"ts": [1], **columns}), "in.parquet")
    assert text in wrong(capfd, "run", app, "--in", "in.parquet", "--out", "o.parquet", "--state", "state")


def test_example_what_the_engine_cannot_do_names_the_flag(capfd):
    one = {name: [1] for name in ("ts", "source", "target", "source_asset", "target_asset", "amount", "quantity")}
    pq.write_table(pa.table({**one, "kind": ["deposit"]}), "in.parquet")
    run = ["run", "sl", "--in", "in.parquet", "--out", "o.parquet", "--state", "state"]
    assert "--chains skiplist keeps single operations in skip lists" in wrong(capfd, *run, "--chains", "skiplist")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "input 'in.parquet': there is no such file; check the path"),
        (b"", "input 'in.parquet' is empty; write it again, or check the path"),
        (b"a,b\n1,2\n", "neither"),
        (b"PAR1 and then nothing", "cannot be read"),
    ],
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
    for fails in (failing(nothing_left), failing(MemoryError()), failing(errors.RunFailedError("it failed"), nothing_left)):
        monkeypatch.setattr(command, "run", fails)
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
