"""Hundreds of sources are read and fed by few threads, and give what a few sources give.

Property    any number of sources of one query: the same rows, in the same order; at most `OWN_THREADS` threads read and
            as many feed, beside those of streams, which may wait for rows and have a reader each.
Oracle      the rows sorted by (ts, source, position).
Cannot see  how fast that is.
"""

import threading
from types import SimpleNamespace

import pyarrow as pa
import pytest

import headrace as hr
from headrace.runtime import source_threads
from headrace.runtime.feeding import Stopped
from headrace.runtime.source_threads import OWN_THREADS, take_turns
from support import workloads


def tables(count, rows):
    """Table `i` has rows at times i, i + count, ...: every source has to come along, or none can go on."""
    return [pa.table({"ts": range(i, i + rows * count, count), "source": [i] * rows}) for i in range(count)]


def threads_of(what):
    return [thread.name for thread in threading.enumerate() if thread.name.endswith(what)]


@pytest.mark.parametrize("count", [OWN_THREADS, OWN_THREADS + 1, 300])
def test_oracle_every_row_in_order(count):
    run = hr.stream(tables(count, 40), event_time="ts").start(capacity=64, name="many")
    with run:
        assert len(threads_of("-reader")) <= OWN_THREADS and len(threads_of("-feeder")) <= OWN_THREADS
        assert run.wait(workloads.HANG_S)
        result = run.to_arrow()
        assert run.metrics().holds
    assert result["ts"].to_pylist() == list(range(40 * count))
    assert result["source"].to_pylist() == [ts % count for ts in range(40 * count)]


def test_example_a_stream_has_a_reader_of_its_own():
    """What has no rows yet holds nobody up: those it does not keep back are read meanwhile."""
    waiting, go_on = threading.Event(), threading.Event()

    def stream():
        yield pa.record_batch({"ts": [0], "source": [-1]})
        waiting.set()
        go_on.wait(workloads.HANG_S)
        yield pa.record_batch({"ts": [100_000], "source": [-1]})

    given = [stream(), *tables(2 * OWN_THREADS, 5)]
    with hr.stream(given, event_time="ts").start() as run:
        assert waiting.wait(workloads.HANG_S)
        workloads.eventually(lambda: run.metrics().tuples_in == 1 + 10 * OWN_THREADS)
        go_on.set()
        assert run.wait(workloads.HANG_S)
        assert run.to_arrow().num_rows == 2 + 10 * OWN_THREADS


def test_property_turns_wait_as_long_as_each_asks_for(monkeypatch):
    """A step that asks for a wait is not gone on with before; the others are. By a clock of the test's own: 0.1 s a step."""
    seen, now = [], [0.0]

    def pass_time(seconds):
        now[0] += seconds

    monkeypatch.setattr(source_threads, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=pass_time))

    def steps(name, waits):
        for wait_s in waits:
            seen.append((name, round(now[0], 3)))
            pass_time(0.1)
            yield wait_s

    take_turns([steps("slow", [1.0, 0.0]), steps("quick", [0.0] * 5)])
    assert seen == [("slow", 0.0), *(("quick", at / 10) for at in range(1, 6)), ("slow", 1.0)]


def test_example_turns_end_when_the_run_does():
    def stopped():
        yield 0.0
        raise Stopped

    def endless():
        while True:
            yield 0.0

    take_turns([endless(), stopped()])


def test_planted_a_shared_thread_that_waits_in_place(monkeypatch):
    """Patient although it serves several: the first full source holds up those it waits for."""
    turns = source_threads._in_turn

    def patient(group, what):
        return turns(group, what) if len(group) == 1 else lambda: [take_turns([getattr(s, what)(True)]) for s in group]

    monkeypatch.setattr(source_threads, "_in_turn", patient)
    with hr.stream(tables(2 * OWN_THREADS, 40), event_time="ts").start(capacity=16) as run:
        assert not run.wait(1.0), "the planted mistake makes it hang"
