"""What a run that is over and dropped leaves in memory: nothing, at once.

Property    once nothing refers to a run that is over, its arrays (rings, gate, stores, state) are freed, though the collector
            of cycles does not run; what a user took from it before goes on working. A run that failed, whose error keeps the
            frames it went through, goes with the next collection
Oracle      weak references to the arrays
Cannot see  what else is freed, and when: the parts are objects in circles, small ones
"""

from __future__ import annotations

import gc
import time
import weakref

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import HeadraceError
from headrace.runtime import handle
from headrace.runtime import run as run_module
from headrace.runtime.run import Execution
from planted_mistakes import planted
from support.workloads import HANG_S

ROWS = 2_000
TABLE = pa.table({"ts": np.arange(ROWS) // 10, "k": np.arange(ROWS) % 7, "x": np.arange(ROWS)})


@pytest.fixture(autouse=True)
def no_collector():
    """A run before: of one for which something is compiled, the compiler keeps what it was called with until a collection."""
    ended(counted(), threads=1)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def counted():
    return hr.stream(TABLE, event_time="ts").key_by("k").window(100).aggregate(n=hr.count(), s=hr.sum("x"))


def arrays_of(run):
    """Weak references to the large arrays of a run, by where they are."""
    found = {}
    for name, section in run._execution.sections.items():
        for group in ("out", "arrays", "gate"):
            held = getattr(section, group)
            for field, value in [*getattr(held, "_asdict", dict)().items(), *getattr(held, "__dict__", {}).items()]:
                if isinstance(value, np.ndarray):
                    found[name, group, field] = weakref.ref(value)
        for number, inlet in enumerate(section.inlets):
            found[name, "store", number] = weakref.ref(inlet.store)
        found[name, "section"] = weakref.ref(section)
    return found


def left(refs):
    return [where for where, ref in refs.items() if ref() is not None]


def assert_freed(refs):
    end = time.monotonic() + HANG_S
    while left(refs) and time.monotonic() < end:  # its last threads end
        time.sleep(0.01)
    assert not left(refs)


def ended(query, **options):
    run = query.start(**options)
    run.wait()
    return run


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"threads": 2}, {"threads": 1, "mode": "sn"}], ids=["vsn", "sn"])
def test_property_arrays_are_freed_with_the_run(options):
    ended(counted(), **options)
    gc.collect()
    run = ended(counted(), **options)
    result, history, keys = run.to_arrow(), run.history, run["aggregate"].hot_keys
    refs = arrays_of(run)
    assert len(refs) > 10 and left(refs) == list(refs)
    del run, keys
    assert_freed(refs)
    assert result.num_rows == 14 and len(history) >= 0


def test_property_arrays_are_freed_if_the_run_is_dropped_before_its_threads_end():
    run = counted().start(threads=2)
    refs = arrays_of(run)
    run.wait()
    del run
    assert_freed(refs)


def test_property_arrays_of_a_run_that_was_stopped_are_freed():
    with counted().start(threads=2) as run:
        refs = arrays_of(run)
    del run
    assert_freed(refs)


def refs_of_a_run_that_fails():
    """Whatever raises, and whatever catches it, lets go of it."""
    stream = hr.stream(TABLE, event_time="ts").map(lambda t: 1 // (t.x - 1_500), k="int64")
    run = stream.key_by("k").window(100).aggregate(n=hr.count()).start(threads=2)
    refs = arrays_of(run)
    try:
        run.wait()
    except HeadraceError as error:
        assert "ZeroDivisionError" in str(error)
    else:
        raise AssertionError("it did not fail")
    return refs


def assert_freed_by_a_collection(refs):
    end = time.monotonic() + HANG_S
    while left(refs) and time.monotonic() < end:  # its last threads end
        gc.collect()
        time.sleep(0.01)
    assert not left(refs)


def test_property_a_run_that_failed_is_freed_by_the_next_collection():
    assert_freed_by_a_collection(refs_of_a_run_that_fails())


def test_planted_mistake_a_failed_run_that_is_held_by_its_own_end_is_seen():
    """What is to be told that the handle has gone holds the run, whose error holds the handle."""
    with planted(handle, "_abandon, weakref.ref(execution)", "_abandon, lambda: execution"):
        refs = refs_of_a_run_that_fails()
    time.sleep(0.3)
    gc.collect()
    assert left(refs)


def test_agree_runs_that_go_by_themselves_leave_nothing_to_collect(monkeypatch):
    collected = []
    monkeypatch.setattr(gc, "collect", lambda *generation: collected.append(1))
    for _ in range(2 * run_module._MOST_LEFT):
        run = ended(counted(), threads=1)
        refs = arrays_of(run)
        del run
        assert_freed(refs)
    assert not collected


def test_example_what_was_taken_from_a_run_goes_on_working():
    run = ended(counted(), threads=1)
    keys, metrics = run["aggregate"].hot_keys, run.metrics()
    shown = keys()
    refs = arrays_of(run)
    del run
    assert keys().equals(shown) and metrics.tuples_in == ROWS
    del keys
    assert_freed(refs)


def test_planted_circle_is_seen(monkeypatch):
    monkeypatch.setattr(Execution, "_let_go_if_left", lambda self: None)
    run = ended(counted(), threads=1)
    refs = arrays_of(run)
    run.to_arrow()
    del run
    time.sleep(0.1)
    assert left(refs) == list(refs)
    assert_freed_by_a_collection(refs)
