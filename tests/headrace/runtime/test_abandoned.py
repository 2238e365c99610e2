"""Runs that nobody holds any more end by themselves; runs that somebody holds do not.

Property    a run that cannot be reached is stopped, says so once, and gives its memory back; a handle, a method, a
            controller or a call that waits keeps its run, and what a run leaves stays usable without it
Oracle      thread names, warnings, what the collector of garbage finds
Cannot see  objects of the user's that hold a run for ever
"""

import gc
import threading

import pyarrow as pa
import pytest

import headrace as hr
from headrace.runtime.run import _MOST_LEFT, AbandonedRunWarning, _left
from support.counting import TABLE, check_nothing_is_left, query
from support.tidiness import threads_of_ours
from support.workloads import Steered, eventually


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    check_nothing_is_left()


def endless():
    """Batches for ever, in the reader's own time."""
    for i in range(10**9):
        yield pa.record_batch({"ts": range(100 * i, 100 * i + 100), "k": [0] * 100})


def dropped(caught):
    """The texts of the warnings about runs that nobody held, once there is one and every thread has ended."""
    eventually(lambda: not threads_of_ours(), 180)
    eventually(lambda: [w for w in caught if w.category is AbandonedRunWarning], 180)
    return [str(w.message) for w in caught if w.category is AbandonedRunWarning]


@pytest.mark.parametrize("mode", ["vsn", pytest.param("sn", marks=pytest.mark.campaign)])
def test_a_run_that_nobody_can_reach_ends_and_says_so(mode, recwarn):
    run = query(endless()).start(threads=2, sink=hr.discard(), mode=mode)
    number = run.number
    eventually(lambda: run.metrics().tuples_out)
    assert hr.runs() == [run] and repr(run).startswith(f"<QueryRun number {number}; state running; ")
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
        eventually(lambda: hr.runs() == [busy] or gc.collect() < 0, 180)
        eventually(lambda: busy.metrics().tuples_out > before, 180)
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


def left_after(count, is_so):
    """Which ended runs wait for the collector of cycles, after so many that were dropped, once that is so: threads end later."""
    gc.collect()
    _left.clear()
    gc.disable()
    try:
        for _ in range(count):
            query().to_arrow()
        eventually(lambda: is_so(len(_left)))
        return len(_left)
    finally:
        gc.enable()


def test_dropped_runs_give_their_memory_back():
    """Tens of megabytes each, in few objects: the collector of cycles would not come by for a hundred of them."""
    assert left_after(10, lambda left: left == 0) == 0


def test_runs_with_circles_of_their_own_are_collected(monkeypatch):
    monkeypatch.setattr("headrace.runtime.collected_section.CollectedSection.let_go", lambda self: None)
    assert left_after(10, lambda left: left >= 2) <= _MOST_LEFT


def test_planted_dropped_runs_that_wait(monkeypatch):
    monkeypatch.setattr("headrace.runtime.collected_section.CollectedSection.let_go", lambda self: None)
    monkeypatch.setattr("headrace.runtime.run._MOST_LEFT", 1000)
    assert left_after(10, lambda left: left > 5) > 5


def test_what_still_refers_to_a_run_keeps_it(recwarn):
    source, seen = Steered(TABLE, [500]), []

    def keeps(run):
        """A controller that knows its run; nobody else does."""
        run.control(lambda observation: seen.append(run.threads), interval_s=0.01)

    keeps(query(source).start(threads=2))
    gc.collect()
    source.let()
    eventually(lambda: len(seen) > 2, 180)
    (run,) = hr.runs()
    handle, stop = run["counts"], run.stop
    run.release()
    del run
    seen.clear()
    gc.collect()
    source.let_all()
    eventually(lambda: handle.metrics().results == 1_000, 180)
    stop()
    assert not [w for w in recwarn if w.category is AbandonedRunWarning]


@pytest.mark.slow
def test_a_call_that_waits_keeps_its_run(recwarn):
    assert query().start(threads=2).wait(180) is True
    with query().start(threads=2):
        gc.collect()
    source = Steered(TABLE)
    threading.Timer(0.2, lambda: (gc.collect(), source.let_all())).start()
    assert query(source).to_arrow().num_rows == 1_000
    assert not [w for w in recwarn if w.category is AbandonedRunWarning]


def test_what_a_run_leaves_stays_usable_without_it():
    run = query().start(threads=2)
    run.wait(180)
    history, metrics, table = run.history, run.metrics(), run.to_arrow()
    del run
    gc.collect()
    assert history.to_pandas()["processed"].iloc[-1] == metrics.operators["counts"].processed == 1_000
    assert table.num_rows == 1_000


def test_running_another_line_drops_the_run_of_the_one_before(recwarn):
    for option in ({}, {"max_threads": 3}):
        run = query(endless()).start(threads=2, sink=hr.discard(), **option)
    eventually(lambda: hr.runs() == [run], 180)
    hr.stop_all()
    assert run.state == "stopped" and hr.runs() == []
    assert len(dropped(recwarn)) == 1
