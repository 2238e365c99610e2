"""How runs end: by themselves, by failing, by being stopped, by Ctrl-C, by the end of the process.

Property    a run that fails or is stopped says why, leaves no thread and no
            half-written file, and its counters stay readable; the engine can
            be used afterwards; a process ends soon, whatever runs in it
Oracle      thread names, exit codes, the clock (generously)
Cannot see  leaks that need days
"""

import gc
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
from contextlib import suppress

import pyarrow as pa
import pytest

import headrace as hr
from headrace.engine import AbandonedRunWarning
from headrace.errors import DisorderError, HeadraceError, NotSupportedError, RunFailedError, RunStoppedError
from headrace.runtime import registry
from support.tidiness import threads_of_ours
from support.workloads import HANG_S, Steered, eventually

TABLE = pa.table({"ts": range(1_000), "k": [i % 10 for i in range(1_000)]})


def query(source=TABLE, **options):
    return hr.stream(source, event_time="ts", **options).key_by("k").window(10).aggregate("counts", n=hr.count())


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Every test ends without a thread of ours, and with an engine that works."""
    yield
    eventually(lambda: not threads_of_ours(), 30.0)
    assert query().to_arrow(threads=2).num_rows == 1_000


# -- failing ---------------------------------------------------------------------------------------


def batches_then(error, count=3):
    yield from TABLE.to_batches(max_chunksize=100)[:count]
    raise error


def test_exception_in_the_input():
    with query(batches_then(KeyError("the disk is gone"))).start(threads=2, max_threads=4) as run:
        with pytest.raises(RunFailedError, match="KeyError.*the disk is gone") as caught:
            run.wait(10)
        assert isinstance(caught.value.__cause__, KeyError)
        assert run.state == "failed"
        assert run.metrics().tuples_in == 300
        assert run.metrics().operators["counts"].added <= 300
        with pytest.raises(RunFailedError):
            run.to_arrow()
        for steer in (run, run["counts"]):
            with pytest.raises(RunFailedError, match="KeyError.*the disk is gone"):
                steer.reconfigure(threads=4)


def test_bad_row_in_the_middle():
    table = pa.table({"ts": [*range(500), 100], "k": [1] * 501})
    with query(table, batch_rows=50).start(threads=2) as run, pytest.raises(DisorderError, match="ts.*500"):
        run.wait(10)


@pytest.mark.parametrize("when", ["write", "close", "open"])
def test_sink_that_raises(when):
    class Sink:
        aborted = 0

        def open(self, schema):
            self.fail("open")

        def write(self, batch):
            self.fail("write")

        def close(self):
            self.fail("close")

        def abort(self):
            self.aborted += 1

        def fail(self, place):
            if place == when:
                raise OSError(f"no room at {place}")

    sink = Sink()
    with pytest.raises((RunFailedError, OSError), match=f"no room at {when}"), query().start(sink=sink, threads=2) as run:
        run.wait(10)
    assert sink.aborted == (when != "open")


def test_function_as_sink_that_raises():
    def sink(batch):
        raise ZeroDivisionError("in the user's function")

    with query().start(sink=sink) as run, pytest.raises(RunFailedError, match="in the user's function"):
        run.wait(10)


def test_failed_run_leaves_no_file(tmp_path):
    path = tmp_path / "out.parquet"
    with query(batches_then(KeyError("gone"))).start(sink=hr.parquet(path)) as run, pytest.raises(RunFailedError):
        run.wait(10)
    assert list(tmp_path.iterdir()) == []


def test_failure_of_the_second_operator_stops_the_first():
    source = Steered(TABLE, [500])
    second = query(source).select("ts", "k", big=hr.col("n") * 2**61).key_by("k").window(1_000).aggregate(s=hr.sum("big"))
    with second.start(threads=2, max_threads=2) as run:
        source.let_all()
        with pytest.raises(HeadraceError, match="int64"):
            run.wait(20)
        eventually(lambda: not [n for n in threads_of_ours() if "reader" not in n])


# -- stopping --------------------------------------------------------------------------------------


def test_stop_ends_everything_and_may_be_called_twice():
    source = Steered(TABLE, [500])
    run = query(source).start(threads=2, max_threads=8)
    assert len(threads_of_ours()) >= 8
    source.let()
    eventually(lambda: run.metrics().tuples_out > 0)
    run.stop()
    run.stop()
    assert run.state == "stopped"
    assert [n for n in threads_of_ours() if not n.endswith("-reader")] == []
    assert run.metrics().state == "stopped" and run.metrics().operators["counts"].added == 500
    for call in (run.wait, run.to_arrow, run.to_pandas, lambda: run.wait(0), lambda: run.reconfigure(threads=1)):
        with pytest.raises(RunStoppedError, match=r"stop\(\) was called"):
            call()
    source.let_all()  # the reader sat in the user's own iterator; it ends when that returns


def test_context_manager_stops_on_an_exception():
    source = Steered(TABLE, [500])
    with pytest.raises(LookupError), query(source).start(threads=2) as run:
        raise LookupError("in the body")
    assert run.state == "stopped"
    source.let_all()


def test_wait_says_who_stopped_the_run():
    source = Steered(TABLE, [500])
    with query(source).start() as run:
        waiting = []

        def wait():
            try:
                run.wait()
            except RunStoppedError as error:
                waiting.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        source.let()
    thread.join(10)
    assert "its `with` block ended" in str(waiting[0]) and "run.snapshot()" in str(waiting[0])
    source.let_all()


def test_what_is_over_cannot_be_steered():
    with query().start() as run:
        run.wait(10)
        with pytest.raises(RunStoppedError, match=r"reconfigure\(\): the run is over: its input has ended"):
            run.reconfigure(threads=2)
        with pytest.raises(RunStoppedError, match=r"control\(\): the run is over: its input has ended"):
            run.control(lambda seen: None)


def test_stop_while_the_sink_holds_everything_up():
    """A sink that waits: the rings fill up, then the gate, and every thread waits for another."""
    opened = threading.Event()
    table = pa.table({"ts": range(1_000_000)})
    # A slow sink makes tuples look costly, which would lower a bound in time: only the bound in tuples is meant here.
    run = hr.stream(table, event_time="ts").forward().start(
        threads=4, capacity=64, bound_ns=0, sink=lambda batch: opened.wait(20)
    )
    try:
        eventually(lambda: run.metrics().operators["forward"].depth_tuples >= 64)
        threading.Timer(0.2, opened.set).start()
        run.stop()
        assert run.state == "stopped"
    finally:
        opened.set()  # whatever failed, what follows finds no thread of this run
        run.stop()


def test_stop_from_the_sink_itself():
    runs = []

    def sink(batch):
        eventually(lambda: runs)
        runs[0].stop()

    runs.append(query().start(sink=sink))
    eventually(lambda: runs[0].state == "stopped")


@pytest.mark.slow
def test_stop_at_random_moments():
    draw = random.Random(2)
    for _ in range(40):
        run = query(batch_rows=10).start(threads=draw.randint(1, 4), max_threads=4, rate=50_000.0)
        for _ in range(draw.randint(0, 3)):
            with suppress(RunStoppedError):  # it may be through with its input
                run.reconfigure(threads=draw.randint(1, 4))
        time.sleep(draw.uniform(0, 0.02))
        run.stop()
        assert run.state in ("stopped", "finished")
        assert all(change.is_settled for change in run.changes)


def test_start_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(HeadraceError, match="cannot be written"):
        query().start(sink=hr.parquet(tmp_path / "no" / "such" / "directory.parquet"))
    assert threads_of_ours() == []


def test_wait_with_a_timeout():
    source = Steered(TABLE)
    with query(source).start() as run:
        assert run.wait(0.05) is False
        source.let_all()
        assert run.wait(10) is True


def test_run_cannot_be_pickled():
    with query().start() as run:
        with pytest.raises(NotSupportedError, match="send its results"):
            pickle.dumps(run)
        run.wait(10)


def test_two_runs_at_once():
    with query().start(threads=2) as first, query().start(threads=3, max_threads=3) as second:
        assert first.wait(10) and second.wait(10)
        assert first.to_arrow().equals(second.to_arrow())


def test_many_runs_one_after_the_other_leave_no_files_open():
    def opened():
        return len(os.listdir("/proc/self/fd"))

    query().to_arrow()
    before = opened()
    for _ in range(30):
        query().to_arrow(threads=2, max_threads=8)
    assert opened() <= before + 2


# -- notebooks -------------------------------------------------------------------------------------


def test_running_a_cell_again_replaces_its_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    cell = compile("runs.append(query(source).start())", "<ipython-input-7-aabbcc>", "exec")
    source, runs = Steered(TABLE), []
    names = {"runs": runs, "query": query, "source": source}
    exec(cell, names)
    exec(cell, names)
    assert [run.state for run in runs] == ["stopped", "running"]
    assert registry.runs() == [runs[1]]
    exec(compile("runs.append(query(source).start())", "<ipython-input-8-ddeeff>", "exec"), names)
    assert [run.state for run in runs] == ["stopped", "running", "running"]
    for run in runs:
        run.stop()
    source.let_all()
    source.let(10)


def test_a_name_replaces_the_run_of_that_name():
    source = Steered(TABLE)
    first = query(source).start(name="the counts")
    second = query(source).start(name="the counts")
    assert (first.state, second.state) == ("stopped", "running")
    second.stop()
    source.let_all()
    source.let(10)


# -- nobody holds it -------------------------------------------------------------------------------


def endless():
    """Batches for ever, in the reader's own time."""
    for i in range(10**9):
        yield pa.record_batch({"ts": range(100 * i, 100 * i + 100), "k": [0] * 100})


def dropped(caught):
    """The texts of the warnings about runs that nobody held, once there is one and every thread has ended."""
    eventually(lambda: not threads_of_ours(), 30.0)
    eventually(lambda: [w for w in caught if w.category is AbandonedRunWarning], 10.0)
    return [str(w.message) for w in caught if w.category is AbandonedRunWarning]


@pytest.mark.parametrize("mode", ["vsn", "sn"])
def test_a_run_that_nobody_can_reach_ends_and_says_so(mode, recwarn):
    run = query(endless()).start(threads=2, sink=hr.discard(), mode=mode)
    number = run.number
    eventually(lambda: run.metrics().tuples_out)
    assert hr.runs() == [run] and repr(run) == f"<QueryRun {number} running, threads counts: 2>"
    run = None
    (text,) = dropped(recwarn)
    assert f"run {number} (counts) was stopped" in text and "run = query.start(...)" in text
    assert hr.runs() == []


def test_a_run_in_a_circle_of_objects_ends_with_it(recwarn):
    holder = {"run": query(endless()).start(threads=2, sink=hr.discard())}
    holder["itself"] = holder
    del holder
    gc.collect()
    assert len(dropped(recwarn)) == 1


def test_the_collector_of_garbage_may_run_in_any_thread(recwarn):
    """Circles of runs become garbage while other runs' threads are the ones that allocate."""
    with query(endless()).start(threads=2, sink=hr.discard(), max_threads=4) as busy:
        for i in range(8):
            holder = {"run": query(endless()).start(threads=1 + i % 2, sink=hr.discard())}
            holder["itself"] = holder
        del holder
        before = busy.metrics().tuples_out
        eventually(lambda: hr.runs() == [busy] or gc.collect() < 0, 30.0)
        eventually(lambda: busy.metrics().tuples_out > before, 30.0)
    assert len(dropped(recwarn)) == 8


def test_a_run_without_a_handle_writes_no_file(tmp_path, recwarn):
    query(endless()).start(sink=hr.parquet(tmp_path / "out.parquet"))
    assert len(dropped(recwarn)) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_chain_of_operators_that_nobody_holds_ends(recwarn):
    last = query(endless()).key_by("k").window(100).aggregate("last", n=hr.sum("n"))
    last.start(threads=2, sink=lambda batch: None)
    assert "(counts, last)" in dropped(recwarn)[0]


def test_what_still_refers_to_a_run_keeps_it(recwarn):
    source, seen = Steered(TABLE, [500]), []

    def keeps(run):
        """A controller that knows its run; nobody else does."""
        run.control(lambda observation: seen.append(run.threads), interval_s=0.01)

    keeps(query(source).start(threads=2))
    gc.collect()
    source.let()
    eventually(lambda: len(seen) > 2, 30.0)
    (run,) = hr.runs()
    handle, stop = run["counts"], run.stop
    run.release()
    del run
    seen.clear()
    gc.collect()
    source.let_all()
    eventually(lambda: handle.metrics().results == 1_000, 30.0)
    stop()
    assert not [w for w in recwarn if w.category is AbandonedRunWarning]


@pytest.mark.slow
def test_a_call_that_waits_keeps_its_run(recwarn):
    assert query().start(threads=2).wait(30) is True
    with query().start(threads=2):
        gc.collect()
    source = Steered(TABLE)
    threading.Timer(0.2, lambda: (gc.collect(), source.let_all())).start()
    assert query(source).to_arrow().num_rows == 1_000
    assert not [w for w in recwarn if w.category is AbandonedRunWarning]


def test_what_a_run_leaves_stays_usable_without_it():
    run = query().start(threads=2)
    run.wait(30)
    history, metrics, table = run.history, run.metrics(), run.to_arrow()
    del run
    gc.collect()
    assert history.to_pandas()["processed"].iloc[-1] == metrics.operators["counts"].processed == 1_000
    assert table.num_rows == 1_000


def test_running_another_line_drops_the_run_of_the_one_before(recwarn):
    for option in ({}, {"max_threads": 3}):
        run = query(endless()).start(threads=2, sink=hr.discard(), **option)
    eventually(lambda: hr.runs() == [run], 30.0)
    hr.stop_all()
    assert run.state == "stopped" and hr.runs() == []
    assert len(dropped(recwarn)) == 1


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
                print(status, run.state, run.reconfigure(threads=3).wait(5).outcome, flush=True)
            """
        )
    )
    assert (code, out, err) == (0, "[]\n7 running done\n", "")


# -- the process -----------------------------------------------------------------------------------

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


def outcome(process, seconds=30):
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
    assert process.stdout.readline() == "started\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    line = process.stdout.readline()
    code, _, err = outcome(process, HANG_S)
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
    assert process.stdout.readline() == "leaving\n"
    code, _, err = outcome(process, HANG_S)
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
                print(status, run.state, run.reconfigure(threads=3).wait(5).outcome, flush=True)
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


# -- idling ----------------------------------------------------------------------------------------


def test_idle_run_uses_little_processor_time():
    """Eight active workers without input for a second: they sleep (DESIGN asks for 0.02 core; asserted loosely)."""
    source = Steered(TABLE)
    with query(source).start(threads=8, max_threads=8) as run:
        time.sleep(0.2)
        before = time.process_time()
        time.sleep(1.0)
        used = time.process_time() - before
        source.let_all()
        run.wait(10)
    assert used < 0.2
