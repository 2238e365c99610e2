"""Runs and the process they are in: Ctrl-C, the end of the interpreter, a fork, the hook for exceptions.

Property    a process ends soon, whatever runs in it, and says nothing that its program did not; a child of a fork has
            none of its parent's runs and can start its own
Oracle      exit codes, standard output and error, the clock (generously)
Cannot see  platforms without signals and fork
"""

import os
import select
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from support.workloads import HANG_S

PREFACE = """
import os, signal, sys, threading, time
import pyarrow as pa
import headrace as hr
from headrace.errors import RunStoppedError

def forever():
    yield pa.record_batch({"ts": [0], "k": [0]})
    for i in range(1, 10**9):
        time.sleep(0.001)
        yield pa.record_batch({"ts": [i], "k": [i % 10]})

def blocked():
    yield pa.record_batch({"ts": [0], "k": [0]})
    threading.Event().wait()

def query(source):
    return hr.stream(source, event_time="ts").key_by("k").window(10).aggregate("counts", n=hr.count())
"""


def script(text):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(
        [sys.executable, "-c", PREFACE + textwrap.dedent(text)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def next_line(process):
    """What it says next; one that says nothing is given up, as where interrupts are ignored by what started the tests."""
    if not select.select([process.stdout], [], [], HANG_S)[0]:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f"the process says nothing: {process.communicate()}")
    return process.stdout.readline()


def outcome(process, seconds=HANG_S):
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its own session: the child of a fork ends with it
        raise AssertionError(f"the process does not end: {process.communicate()}") from None
    return process.returncode, out, err


@pytest.mark.slow
@pytest.mark.parametrize("source", ["forever", "blocked"])
def test_ctrl_c_is_answered_within_a_second(source):
    process = script(
        f"""
        run = query({source}()).start(threads=2, max_threads=8)
        print("started", flush=True)
        try:
            with run:
                run.wait()
        except KeyboardInterrupt:
            print("interrupted", run.state, flush=True)
            sys.exit(130)
        """
    )
    assert next_line(process) == "started\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    line = next_line(process)
    code, _, err = outcome(process)
    assert (line, code) == ("interrupted stopped\n", 130), err


@pytest.mark.slow
@pytest.mark.parametrize("source", ["forever", "blocked"])
def test_interpreter_exits_with_a_run_alive(source):
    process = script(
        f"""
        run = query({source}()).start(threads=2, max_threads=8)
        time.sleep(0.2)
        print("leaving", flush=True)
        """
    )
    assert next_line(process) == "leaving\n"
    code, _, err = outcome(process)
    assert code == 0, err
    assert err == ""


@pytest.mark.slow
def test_fork_after_start():
    """The child has none of the threads: it is told so, and can start runs of its own."""
    code, out, err = outcome(
        script(
            """
            run = query(forever()).start(threads=2, max_threads=4)
            child = os.fork()
            if child == 0:
                try:
                    run.wait(1)
                except RunStoppedError as error:
                    print(error, flush=True)
                try:
                    run.reconfigure(threads=1)
                except RunStoppedError:
                    run.stop()
                    table = pa.table({"ts": [1], "k": [1]})
                    print(query(table).to_arrow(threads=2).to_pydict(), flush=True)
                os._exit(7)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            with run:
                print(status, run.state, run.reconfigure(threads=3).wait(180).outcome, flush=True)
            """
        )
    )
    lines = out.splitlines()
    assert code == 0, err
    assert "belongs to process" in lines[0] and "start the run after the fork" in lines[0]
    assert lines[1:] == ["{'ts': [10], 'k': [1], 'n': [1]}", "7 running done"]


@pytest.mark.slow
def test_exception_hook_is_not_reached():
    """A failing run reports to its caller, and prints nothing by itself."""
    code, out, err = outcome(
        script(
            """
            def failing():
                yield pa.record_batch({"ts": [0], "k": [0]})
                raise KeyError("gone")
            with query(failing()).start(threads=2) as run:
                try:
                    run.wait()
                except Exception as error:
                    print(type(error).__name__)
            """
        )
    )
    assert (code, out, err) == (0, "RunFailedError\n", "")


@pytest.mark.slow
def test_a_child_that_drops_the_run_of_its_parent_does_not_stop_it():
    code, out, err = outcome(
        script(
            """
            run = query(forever()).start(threads=2, max_threads=4)
            child = os.fork()
            if child == 0:
                del run
                print(hr.runs(), flush=True)
                os._exit(7)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            with run:
                print(status, run.state, run.reconfigure(threads=3).wait(180).outcome, flush=True)
            """
        )
    )
    assert (code, out, err) == (0, "[]\n7 running done\n", "")
