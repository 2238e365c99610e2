"""The collector by itself: fed through the output gate's own rings by this test, as instances would.

Property    records come out ordered by content, not by instance; none before all
            active instances have promised; time is passed on behind the records
Oracle      the records themselves, sorted in Python
Cannot see  interleavings of the rings' words: `tests/headrace/egress/test_rings.py`
"""

import random
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.egress import collector, held_records, rings
from headrace.egress.collector import Collector
from headrace.egress.held_records import Held
from headrace.memory.cells import aligned, reserved
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.workers.worker_kernel import METER_WORDS
from support.workloads import eventually

CAPACITY = 8


class ByPrimary:
    """Results (primary, a, value), by primary and a."""

    reads_b_and_c = False
    schema = pa.schema({"primary": pa.int64(), "a": pa.int64(), "value": pa.int64()})

    def finish(self, records):
        order = np.lexsort((records.a, records.primary))
        return pa.record_batch([c[order] for c in (records.primary, records.a, records.values[0])], schema=self.schema)


class Seen:
    """What a consumer is told, in order: rows, ("to", watermark), "closed"."""

    def __init__(self):
        self.said = []

    def write(self, batch):
        self.said += [tuple(row.values()) for row in batch.to_pylist()]

    def progress(self, watermark):
        self.said.append(("to", watermark))

    def close(self):
        self.said.append("closed")

    @property
    def rows(self):
        return [entry for entry in self.said if isinstance(entry, tuple) and entry[0] != "to"]


def meter(workers):
    """Where workers book how they spend their time."""
    return aligned(workers * METER_WORDS, np.int64).reshape(workers, METER_WORDS)


class Instances:
    """The other side: instances that this test lets write and promise."""

    def __init__(self, active, most=4, **options):
        self.out = rings.allocate(most, CAPACITY, meter(most))
        self.values = reserved(most * CAPACITY, np.int64).reshape(most, CAPACITY)
        self.heads = [0] * most
        self.seen, self.freed = Seen(), []
        self.sources_wait = False
        self.collector = Collector(
            self.out, [self.values], ByPrimary(), [self.seen], self.freed.append, is_saturated=lambda: self.sources_wait,
            **options,
        )
        for r in active:
            rings.start_mark(self.out, r, MIN_TIME, MIN_TIME)
        self.thread = threading.Thread(target=self.collector.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        rings.stop_output(self.out)
        self.thread.join(180)
        assert not self.thread.is_alive()

    def write(self, r, primary, a):
        """Write a record; it waits for room as an instance does. Its value says which one wrote it."""
        slot = rings.reserve_slot(self.out, r, self.heads[r])
        assert slot >= 0
        self.out.primary[r, slot], self.out.a[r, slot] = primary, a
        self.values[r, slot] = 100 * r + a
        self.heads[r] += 1

    def promise(self, r, mark, watermark=None):
        rings.publish(self.out, r, self.heads[r], mark, mark if watermark is None else watermark)

    def end(self, *members):
        for r in members:
            self.promise(r, END_OF_TIME)
        assert self.collector.finished.wait(180)


def test_example_what_one_has_not_promised_is_held_back():
    """
    ::

        instance 0   writes 3 5 9     promises 9
        instance 1   writes 4         promises 4     3 4 may go, 5 9 may not
    """
    with Instances([0, 1]) as instances:
        for primary in (3, 5, 9):
            instances.write(0, primary, 0)
        instances.promise(0, 9)
        instances.write(1, 4, 0)
        instances.promise(1, 4)
        eventually(lambda: len(instances.seen.rows) == 2)
        instances.promise(1, 5)
        eventually(lambda: len(instances.seen.rows) == 3)
        assert [row[0] for row in instances.seen.rows] == [3, 4, 5]
        instances.end(0, 1)
        assert [row[0] for row in instances.seen.rows] == [3, 4, 5, 9]
        assert instances.seen.said[-1] == "closed"
        assert instances.collector.rows == 4


def test_example_time_is_passed_on_behind_the_records_it_covers():
    with Instances([0, 1]) as instances:
        instances.write(0, 7, 1)
        instances.promise(0, 7)
        instances.promise(1, 20)
        eventually(lambda: ("to", 7) in instances.seen.said)
        assert instances.seen.said == [(7, 1, 1), ("to", 7)]
        assert instances.freed == [7]
        # The smallest watermark, though the promise is ahead of it: promises may be positions.
        instances.promise(0, 90, 8)
        eventually(lambda: ("to", 8) in instances.seen.said)
        instances.end(1, 0)  # the one that is behind ends last
        # The end is no time: it is said by closing.
        assert instances.seen.said == [(7, 1, 1), ("to", 7), ("to", 8), "closed"]
        assert instances.freed == [7, 8, END_OF_TIME]


def test_example_an_instance_that_is_not_active_holds_nothing():
    with Instances([2]) as instances:
        instances.write(2, 1, 1)
        instances.promise(2, 1)
        eventually(lambda: instances.seen.rows == [(1, 1, 201)])
        instances.end(2)


@pytest.mark.parametrize("seed", range(8))
def test_oracle_any_instances_give_the_same_sequence(seed):
    """More records than the rings hold; which instance writes what is drawn."""
    draw = random.Random(seed)
    records = [(draw.randrange(60), a) for a in range(200)]
    members = sorted(draw.sample(range(4), draw.randint(1, 4)))
    with Instances(members) as instances:
        owner = {record: draw.choice(members) for record in records}
        for now in range(60):
            # In any order within a time: the content decides.
            for record in draw.sample(records, len(records)):
                if record[0] == now:
                    instances.write(owner[record], *record)
                    if draw.random() < 0.5:
                        instances.promise(owner[record], now - 1)
            for r in draw.sample(members, len(members)):
                instances.promise(r, now)
        instances.end(*members)
        assert [row[:2] for row in instances.seen.rows] == sorted(records)
        assert all(row[2] == 100 * owner[row[:2]] + row[1] for row in instances.seen.rows)
        steps = [entry[1] for entry in instances.seen.said if entry[0] == "to"]
        assert steps == sorted(set(steps)) and all(step < END_OF_TIME for step in steps)
        # Behind a time that was passed on, no earlier record.
        reached = MIN_TIME
        for entry in instances.seen.said:
            if entry[0] == "to":
                reached = entry[1]
            elif entry != "closed":
                assert entry[0] > reached


def test_example_a_stop_ends_it_without_an_end_of_results():
    instances = Instances([0, 1])
    with instances:
        instances.write(0, 3, 0)
        instances.promise(0, 3)
        eventually(lambda: int(instances.out.tail[0]) == 1)
    assert instances.seen.said == [] and not instances.collector.finished.is_set()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    steps=st.lists(st.tuples(
        st.lists(st.integers(0, 40), min_size=1, max_size=1500), st.integers(-1, 41), st.integers(0, 4000)
    ), max_size=8),
    by_place=st.booleans(),
)  # fmt: skip
def test_oracle_what_is_held_goes_once_its_time_has_come(monkeypatch, steps, by_place):
    """Any parts and any bounds, beside a list of rows; with places within a time, or without."""
    monkeypatch.setattr(held_records, "_ROOM", 1024)
    dtypes = [*[np.dtype(np.int64)] * 3, None, np.dtype(np.int64), np.dtype(float)]
    held, kept, number = Held(dtypes, by_place=by_place), [], 0
    for part, bound, drawn in steps:
        rows = [(primary, number + i, (number + i) / 2) for i, primary in enumerate(part)]
        number += len(rows)
        kept += rows
        place = 0
        if by_place:  # of a row that is held, which has to wait
            bound, place = kept[drawn % len(kept)][0] - 1, kept[drawn % len(kept)][1]
        primary, numbers, halves = (np.array(column) for column in zip(*rows, strict=True))
        held.add([primary, numbers, -numbers, None, numbers + 7, halves])
        assert (held.count, held.earliest) == (len(kept), min(primary for primary, *_ in kept))
        if by_place:
            assert held.first_place == min(kept)[1]
        due = [row for row in kept if row[0] <= bound or (row[0] == bound + 1 and row[1] < place)]
        assert held.is_due(bound, place) == bool(due)
        with held.release(bound, place) as ready:
            got = list(zip(ready.primary.tolist(), ready.a.tolist(), ready.values[0].tolist(), strict=True))
            assert got == due
            assert (ready.b == -ready.a).all() and ready.c is None and (ready.at == ready.a + 7).all()
            places = np.arange(len(ready)) if ready.index is None else ready.index
            backwards = ready.at_places(places[::-1])
            assert backwards.primary.tolist() == ready.primary.tolist()[::-1] and backwards.c is None
            assert backwards.values[0].tolist() == ready.values[0].tolist()[::-1]
        gone = set(due)
        kept = [row for row in kept if row not in gone]
        assert held.earliest == min([END_OF_TIME, *(primary for primary, *_ in kept)])


def test_example_room_for_many_stays_while_it_is_wanted():
    """A window's results come again with the next window, small releases between; room for what came once goes."""
    now = [100.0]
    held = Held([np.dtype(np.int64)] * 5, clock=lambda: now[0])
    room = len(held._columns[0])
    many, few = np.arange(5 * room), np.arange(10)

    def pass_through(rows, later=()):
        held.add([np.concatenate([rows, later]).astype(np.int64)] * 5)
        with held.release(10**9) as ready:
            assert ready.a.tolist() == rows.tolist()
        assert held.count == len(later)
        return held._columns[0]

    wide = pass_through(many)
    for _ in range(3):
        assert all(pass_through(few) is wide for _ in range(50)) and pass_through(many) is wide
        now[0] += 0.9 * held_records.KEPT_S
    rooms = []
    for _ in range(6):
        now[0] += 1.1 * held_records.KEPT_S
        rooms.append(len(pass_through(few)))
    assert rooms == [max(room, len(wide) // 2**halved) for halved in range(1, 7)] and rooms[-1] == room
    # The same while something is always held back.
    wide = pass_through(many, later=[10**9 + 1])
    for _ in range(6):
        now[0] += 1.1 * held_records.KEPT_S
        held.add([few] * 5)
        with held.release(10**9) as ready:
            assert len(ready) == len(few)
        assert held.count == 1
    assert len(wide) > len(held._columns[0]) == room
    with held.release(END_OF_TIME) as ready:
        assert ready.a.tolist() == [10**9 + 1]


def rests_of(monkeypatch, waiting, **options):
    """How long the collector rests in three releases of one row, while sources wait for room or do not."""
    rests, sleep = [], time.sleep

    def noted(seconds):
        if threading.current_thread() is instances.thread:
            rests.append(seconds)
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", noted)
    with Instances([0], **options) as instances:
        instances.sources_wait = waiting
        for i in range(3):
            instances.write(0, i, 0)
            instances.promise(0, i)
            eventually(lambda i=i: len(instances.seen.rows) == i + 1)
        instances.end(0)
    return rests


def test_example_it_rests_while_sources_wait_for_room(monkeypatch):
    rests = rests_of(monkeypatch, waiting=True)
    assert len(rests) == 3 and all(0 < rest <= collector.MOST_REST_S for rest in rests)


def test_example_an_unsaturated_run_gets_its_results_at_once(monkeypatch):
    assert rests_of(monkeypatch, waiting=False) == []


def test_example_it_does_not_rest_after_a_release_of_many_rows(monkeypatch):
    monkeypatch.setattr(collector, "FEW_ROWS", 1)
    assert rests_of(monkeypatch, waiting=True) == []


def test_example_it_rests_in_any_case_where_that_is_asked_for(monkeypatch):
    """After each release of a row, and after turns that release none; never for less."""
    rests = rests_of(monkeypatch, waiting=False, least_rest_s=0.003)
    assert len(rests) >= 3 and set(rests) == {0.003}
    assert min(rests_of(monkeypatch, waiting=True, least_rest_s=0.003)) == 0.003
