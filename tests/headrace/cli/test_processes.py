"""The command line as a process: exit status, standard error, signals, terminals, and what is left behind.

Method: a process of its own for each. Cannot see: how it feels at a terminal.
"""

import contextlib
import fcntl
import gc
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from llvmlite.binding.ffi import OutputString

import headrace as hr
from headrace import cli
from headrace.apps import command
from support.command_line import COMMAND, ENVIRONMENT, left_behind, run, start, words
from support.workloads import eventually


@pytest.mark.campaign
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
    out, err = process.communicate(timeout=180)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1), err
    assert "missing.parquet" in err
    assert left_behind(".") == []


@pytest.mark.slow
def test_example_nothing_is_said_when_piped():
    process = start("run", "forward", "--in", "words.parquet", "--out", "o.parquet", "--rate", 200)
    out, err = process.communicate(timeout=180)
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
    assert process.wait(180) == 0
    assert b"forward:" in shown and b"/300" in shown and b"threads=1" in shown
    assert re.search(rb"headrace: forward: 300 rows in, 300 rows out, in \d+\.\d\d s; written: o\.parquet\r\n$", shown), shown


class Screen(io.StringIO):
    is_terminal = True

    def isatty(self):
        return self.is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_example_a_long_start_is_explained_on_a_terminal(monkeypatch, is_terminal):
    screen = Screen()
    screen.is_terminal = is_terminal
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(command, "COMPILING_S", 0.0)
    with command._why_it_takes_long("longest"):
        if is_terminal:
            assert eventually(lambda: screen.getvalue().endswith("\n"))
    assert screen.getvalue() == (f"headrace: longest: {command.COMPILING}\n" if is_terminal else "")


@pytest.mark.parametrize("is_compilers", [True, False])
def test_example_what_an_interrupt_leaves_half_made_is_not_printed(monkeypatch, capfd, is_compilers):
    """The compiler's objects fail in their ``__del__`` if their constructor was interrupted; what else fails is printed."""

    class Other:
        def __del__(self):
            raise AttributeError("not of the compiler")

    monkeypatch.setattr(sys, "unraisablehook", cli._interrupt_again)
    half_made = OutputString.__new__(OutputString) if is_compilers else Other()
    del half_made
    gc.collect()
    assert ("Traceback" in capfd.readouterr().err) != is_compilers


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_example_interrupted_while_running(folder, number):
    before = signal.signal(number, signal.SIG_DFL)  # what started the tests may ignore it, as nohup does: that is inherited
    try:
        process = start("run", "forward", "--in", "words.parquet", "--out", "o.parquet", "--report", "r.json", "--rate", 5)
    finally:
        signal.signal(number, before)
    end = time.monotonic() + 180
    while not any(name.startswith(".o.parquet") for name in os.listdir(folder)):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(number)
    _, err = process.communicate(timeout=180)
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    assert left_behind(folder) == []


@pytest.mark.slow
def test_example_what_a_killed_run_leaves_is_removed_by_the_next(folder):
    """Nobody is told of SIGKILL. The files of a run that is still going on stay."""
    flags = ["forward", "--in", "words.parquet", "--out", "o.parquet", "--report", "r.json"]
    processes = [start("run", *flags, "--rate", 5) for _ in range(2)]
    end, seen = time.monotonic() + 180, []
    while len(seen) < 4:
        assert time.monotonic() < end and all(process.poll() is None for process in processes)
        time.sleep(0.02)
        seen = [name for name in left_behind(folder) if name.startswith((".o.parquet.", ".r.json."))]
    processes[0].kill()
    processes[0].communicate(timeout=180)
    assert len(left_behind(folder)) == 4
    assert run(*flags) == 0
    assert [name.partition(".part")[0][:8] for name in left_behind(folder)] == [".o.parqu", ".r.json.", "o.parque", "r.json"]
    processes[1].kill()
    processes[1].communicate(timeout=180)
    assert run(*flags) == 0
    assert left_behind(folder) == ["o.parquet", "r.json"]


def test_example_interrupted_in_a_destructor():
    """Python prints what is raised there and forgets it; compiling has many."""
    script = """
import signal, sys, time
from headrace import cli
class Kept:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def command(asked):
    kept = Kept()
    del kept
    for _ in range(18_000):
        time.sleep(0.01)
cli._COMMANDS["doctor"] = command
sys.exit(cli.main(["doctor"]))
"""
    ended = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, timeout=180)
    assert (ended.returncode, ended.stderr) == (130, "headrace: interrupted\n")


def test_example_a_file_is_removed_where_a_run_cannot_end_in_time(tmp_path, monkeypatch, capfd):
    """As while it is compiled: nobody knows the run yet, and the thread that does is not to be had."""
    ends = []
    monkeypatch.setattr(os, "_exit", ends.append)
    (folder := tmp_path / "out").mkdir()
    sink = hr.parquet(folder / "o.parquet")
    sink.open(pa.schema([("x", pa.int64())]))
    assert len(list(folder.iterdir())) == 1
    cli._end_now(130)
    assert (ends, list(folder.iterdir()), capfd.readouterr().err) == ([130], [], "headrace: interrupted\n")


def handles(process, number):
    """Whether a process has said what is to happen at a signal; Python itself says so of SIGINT only."""
    (caught,) = re.findall(r"SigCgt:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text())
    return bool(int(caught, 16) >> (number - 1) & 1)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks for the handlers of signals where Linux lists them")
def test_example_interrupted_while_compiling(folder):
    """A cold cache: the compiler holds the main thread for seconds."""
    process = subprocess.Popen(
        [*COMMAND, "run", "wordcount", "--in", "words.parquet", "--out", "o.parquet", "--rate", "5"],
        env={**ENVIRONMENT, "XDG_CACHE_HOME": str(folder / "right.parquet")}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    eventually(lambda: handles(process, signal.SIGTERM))  # before that it is Python's own matter
    time.sleep(3.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=180)
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
    end = time.monotonic() + 180
    while not any("spark" in line and line.split()[0].endswith("java") for line in processes_marked(mark).values()):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    time.sleep(wait_s)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=180)
    assert process.returncode == 130, err
    assert err.strip().splitlines()[-1:] == ["headrace: interrupted"] and "Traceback" not in err, err
    end = time.monotonic() + 180
    while left := processes_marked(mark):
        assert time.monotonic() < end, left
        time.sleep(0.1)
    assert left_behind(folder) == []


def test_example_a_reader_that_goes_away():
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen([*COMMAND, "bench", "list"], env=ENVIRONMENT, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    _, err = process.communicate(timeout=180)
    assert "Traceback" not in err
