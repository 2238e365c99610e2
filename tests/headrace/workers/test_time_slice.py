"""Short time slices: what the kernel says of a thread after it has asked for one.

Property    the thread's slice is the one that was asked for, and its nice value and scheduling policy are what they were; where
            the answer is False, nothing has changed.
Cannot see  systems other than Linux, and Linux before 6.12, which do not grant slices.
"""

import os
import re
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import headrace as hr
from headrace.workers import time_slice
from headrace.workers.time_slice import SLICE_NS, shorten_time_slice
from support.workloads import HANG_S, eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has time slices that a thread may ask for")


def slice_ns(thread=None):
    """The time slice of a thread, the caller by default, as the kernel shows it; None if it does not."""
    try:
        shown = Path(f"/proc/self/task/{thread or threading.get_native_id()}/sched").read_text()
    except OSError:
        return None
    found = re.search(r"^se\.slice\s*:\s*(\d+)", shown, re.MULTILINE)
    return int(found[1]) if found else None


def in_a_thread(body):
    """What `body` returns on a thread of its own, whose attributes end with it."""
    found = []
    thread = threading.Thread(target=lambda: found.append(body()), daemon=True)
    thread.start()
    thread.join(HANG_S)
    return found[0]


def test_example_the_kernel_shows_the_slice_that_was_asked_for():
    def ask():
        return slice_ns(), shorten_time_slice(), slice_ns()

    before, granted, after = in_a_thread(ask)
    if before is None:
        pytest.skip("this kernel does not show the time slices of threads")
    assert after == (SLICE_NS if granted else before)


def test_example_a_thread_keeps_its_nice_value_and_policy():
    def ask():
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        shorten_time_slice()
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), os.sched_getscheduler(0)

    assert in_a_thread(ask) == (5, os.SCHED_BATCH)


def test_example_a_thread_that_runs_only_when_no_other_does_is_left_alone():
    def ask():
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return shorten_time_slice(), os.sched_getscheduler(0)

    assert in_a_thread(ask) == (False, os.SCHED_IDLE)


def test_example_an_unknown_machine_is_no_error(monkeypatch):
    monkeypatch.setattr(time_slice, "_CALLS", {})
    assert not in_a_thread(shorten_time_slice)


def test_example_workers_of_a_pipeline_have_short_slices():
    if not in_a_thread(lambda: shorten_time_slice() and slice_ns()):
        pytest.skip("this system does not grant time slices, or does not show them")
    rows = pa.table({"ts": range(100_000)})

    def slices():
        threads = [thread for thread in threading.enumerate() if re.fullmatch(r"headrace-kept-\d", thread.name)]
        return [slice_ns(thread.native_id) for thread in threads]

    kept = hr.stream(rows, event_time="ts").ordered().filter(lambda t: t.ts >= 0, name="kept")
    with kept.start(threads=1, max_threads=2, rate=1_000) as run:
        eventually(lambda: slices() == [SLICE_NS] * 2, HANG_S)
        run.stop()
