"""Rings and collector for an engine without time: results come out by the position of the tuple that caused them.

Property    workers that take tuples from one counter, as they come to it, and write
            any number of results for each: the output is that of one worker. No
            window, no watermark, no gate.
Oracle      a loop over the tuples.
Planted     a worker that promises what it has yet to write
Cannot see  interleavings of the rings' words: `tests/headrace/egress/test_rings.py`
"""

import threading

import numpy as np
import pyarrow as pa
import pytest

from headrace.egress import rings
from headrace.egress.collector import Collector
from headrace.kernel import kernel
from headrace.memory.atomics import fetch_add
from headrace.memory.cells import aligned, padded_cells
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.workers.worker_kernel import METER_WORDS
from support.workloads import eventually

CAPACITY = 64
TUPLES = 5_000
MOST_RESULTS = 3


@kernel
def results_of(position):
    """How many results a tuple has."""
    return position * 7 % (MOST_RESULTS + 1)


@kernel
def write_result(o, values, me, head, position, number):
    """Write one result; the new head, or -1 when stopped."""
    slot = rings.reserve_slot(o, me, head)
    if slot < 0:
        return -1
    o.primary[me, slot] = position
    o.a[me, slot] = number
    values[me, slot] = 10 * position + number
    return head + 1


@kernel
def work(o, values, me, counter, tuples):
    """Take tuples until there are none: first promise all before one's own, then write, from the last result to the first."""
    head = 0
    position = fetch_add(counter, 0, 1)
    while position < tuples:
        rings.publish(o, me, head, position - 1, MIN_TIME)
        for number in range(results_of(position) - 1, -1, -1):
            head = write_result(o, values, me, head, position, number)
            if head < 0:
                return
        position = fetch_add(counter, 0, 1)
    rings.publish(o, me, head, END_OF_TIME, MIN_TIME)


class ByPosition:
    """Results as (position, value), by position and number."""

    reads_b_and_c = False
    schema = pa.schema({"position": pa.int64(), "value": pa.int64()})

    def compile(self):
        pass

    def finish(self, records):
        order = np.lexsort((records.a, records.primary))
        return pa.record_batch([c[order] for c in (records.primary, records.values[0])], schema=self.schema)


class Output:
    """The rings of some workers, a collector on its thread, and what comes out."""

    def __init__(self, workers):
        meter = aligned(workers * METER_WORDS, np.int64).reshape(workers, METER_WORDS)
        self.rings = rings.allocate(workers, CAPACITY, meter)
        self.values = np.zeros((workers, CAPACITY), np.int64)
        for r in range(workers):
            rings.start_mark(self.rings, r, -1, MIN_TIME)
        self.rows, self.steps, self.is_closed = [], [], False
        self.collector = Collector(self.rings, [self.values], ByPosition(), [self])

    def write(self, batch):
        self.rows += batch.column("value").to_pylist()

    def progress(self, watermark):
        self.steps.append(watermark)

    def close(self):
        self.is_closed = True

    def __enter__(self):
        self.thread = threading.Thread(target=self.collector.run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error):
        rings.stop_output(self.rings)
        self.thread.join(180)
        assert not self.thread.is_alive()


@pytest.mark.parametrize("workers", [1, 2])
def test_oracle_results_come_by_the_position_of_their_cause(workers):
    """More results than the rings hold: a worker that is ahead waits."""
    counter = padded_cells(1)
    with Output(workers) as output:
        arguments = [(output.rings, output.values, me, counter, TUPLES) for me in range(workers)]
        threads = [threading.Thread(target=work, args=each, daemon=True) for each in arguments]
        for thread in threads:
            thread.start()
        assert output.collector.finished.wait(180)
    wanted = [10 * p + number for p in range(TUPLES) for number in range(results_of(p))]
    assert output.rows == wanted and output.is_closed
    assert output.collector.rows == len(wanted) > 2 * CAPACITY
    assert output.steps == [], "nobody said anything about time"


def later_first(ahead):
    """Tuples 0 and 1: the worker of 1 is through before that of 0 has written. `ahead`: it promises too much."""
    with Output(2) as output:
        rings.publish(output.rings, 0, 0, ahead - 1, MIN_TIME)
        write_result(output.rings, output.values, 1, 0, 1, 0)
        rings.publish(output.rings, 1, 1, END_OF_TIME, MIN_TIME)
        eventually(lambda: int(output.rings.tail[rings.CELL]) == 1)
        if ahead > 1:
            eventually(lambda: output.rows)
        write_result(output.rings, output.values, 0, 0, 0, 0)
        rings.publish(output.rings, 0, 1, END_OF_TIME, MIN_TIME)
        assert output.collector.finished.wait(180)
    assert output.rows == [0, 10], f"out of order: {output.rows}"


def test_example_a_later_result_waits_for_the_earlier_tuple():
    """
    ::

        worker 0   tuple 0   ............ writes 0
        worker 1   tuple 1   writes 10                 10 waits, since 0 has not been promised
    """
    later_first(ahead=0)


def test_planted_promise_of_what_is_yet_to_be_written():
    with pytest.raises(AssertionError, match=r"out of order: \[10, 0\]"):
        later_first(ahead=2)
