"""Sources: disorder, lateness, idleness, filters that drop everything, unions.

Property    what the documentation of `hr.stream` says of `lateness`, `late`,
            `idle_after` and `sort`, end to end through the engine.
Oracle      the same rows sorted, or cut, by hand.
"""

from __future__ import annotations

import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import DisorderError, InputError, LateRowError, ParameterError
from headrace.ingress.readers import open_input
from headrace.newest import Newest
from support.workloads import HANG_S, Steered, eventually

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.int64()})


def counts(source, **options):
    return hr.stream(source, event_time="ts", **options).key_by("k").window(10).aggregate(n=hr.count())


def shuffled(n=5000, reach=40, seed=3):
    rng = np.random.default_rng(seed)
    ts = np.arange(n)
    order = np.argsort(ts + rng.integers(0, reach, n), kind="stable")
    return pa.table({"ts": ts[order], "k": rng.integers(0, 5, n)[order]}, schema=SCHEMA)


def test_agree_disorder_within_lateness_is_repaired():
    table = shuffled()
    ordered = table.sort_by("ts")
    assert counts(table, lateness=50).to_arrow(threads=2).equals(counts(ordered).to_arrow())
    assert counts(table, sort=True).to_arrow(threads=2).equals(counts(ordered).to_arrow())


def test_example_unsorted_input_is_an_error_that_says_what_to_do():
    with pytest.raises(DisorderError, match="lateness"):
        counts(shuffled()).to_arrow()


@pytest.mark.parametrize("late", ["drop", "side"])
def test_example_rows_beyond_lateness_follow_the_policy(late):
    table = pa.table({"ts": [0, 50, 3, 51, 49], "k": [1, 1, 1, 1, 1]}, schema=SCHEMA)
    with counts(table, lateness=5, late=late).start() as run:
        run.wait()
        assert run.to_arrow().to_pydict() == {"ts": [10, 50, 60], "k": [1, 1, 1], "n": [1, 1, 2]}
        metrics = run.metrics()
        assert (metrics.dropped, metrics.set_aside) == ((1, 0) if late == "drop" else (0, 1))
        assert metrics.tuples_in == 5
        assert run.late is None if late == "drop" else run.late.to_pydict() == {"ts": [3], "k": [1]}
        assert metrics.operators["aggregate"].added + metrics.dropped + metrics.set_aside == 5


@pytest.mark.parametrize("options", [{"lateness": 5}, {"idle_after": "10s"}], ids=str)
def test_example_late_rows_are_a_table_wherever_they_are_set_aside(options):
    """Maybe an empty one, before the first batch too; None where they go elsewhere."""
    table = pa.table({"ts": [0, 50], "k": [1, 1]}, schema=SCHEMA)
    for late in ("error", "drop", "side"):
        with counts(table, late=late, **options).start() as run:
            seen = [run.late]
            run.wait(180)
            for found in [*seen, run.late]:
                assert found is None if late != "side" else (found.num_rows, found.schema) == (0, SCHEMA)


def test_example_late_rows_of_two_streams_are_one_table():
    left = hr.stream(pa.table({"ts": [9, 1], "x": [1, 2]}), event_time="ts", lateness=2, late="side")
    right = hr.stream(pa.table({"ts": [9, 3], "a": [5, 6]}), event_time="ts", lateness=2, late="side")
    with left.join(right, 5, hr.band("x", "a", 1), index=False).start() as run:  # that of metrics/test_books.py
        run.wait(180)
        assert run.late.to_pydict() == {"ts": [1, 3], "x": [2, None], "a": [None, 6]}


@pytest.mark.parametrize("late", ["drop", "side"])
def test_example_a_policy_for_late_rows_without_lateness_is_an_error(late):
    """It would never be asked: without lateness no row is late, and one out of order is an error."""
    with pytest.raises(ParameterError, match=f"late='{late}': without lateness= .* lateness=0"):
        counts(shuffled(), late=late)
    assert counts(shuffled(), late="drop", lateness=0).to_arrow().num_rows > 0


def test_example_rows_beyond_lateness_are_an_error_by_default():
    table = pa.table({"ts": [0, 50, 3], "k": [1, 1, 1]}, schema=SCHEMA)
    with pytest.raises(LateRowError):
        counts(table, lateness=5).to_arrow()


class TestIdle:
    """One source gives three rows and is silent until it is let go; the other one goes on meanwhile."""

    ROWS = pa.table({"ts": [1, 2, 3, 4, 1000, 1001], "k": [1, 1, 2, 1, 1, 2]}, schema=SCHEMA)
    # From 3 on: its reader may get its first turn so late that it is passed over itself.
    STEADY = pa.table({"ts": [3 + 3 * (i // 2) + i % 2 for i in range(80)], "k": [7, 8] * 40}, schema=SCHEMA)

    def start(self, late, sink=None):
        self.silent = Steered(self.ROWS, [3])
        self.silent.let()
        sources = [open_input(self.silent, schema=SCHEMA), open_input(iter(self.STEADY.to_batches(2)), schema=SCHEMA)]
        return counts(sources, idle_after=0.05, late=late).start(threads=2, sink=sink)

    @pytest.mark.slow
    def test_example_an_idle_source_does_not_hold_back_the_others(self):
        seen = []
        with self.start("drop", seen.append) as run:
            eventually(lambda: any(batch["ts"][-1].as_py() >= 100 for batch in seen))
            eventually(lambda: run.passed_time)  # what the wall clock decided is on record once it has been decided
            self.silent.let_all()
            assert run.wait(HANG_S)

    @pytest.mark.slow
    def test_example_rows_of_a_returned_source_are_late(self):
        def returned(run):
            eventually(lambda: any(ts > 4 for _, _, _, ts in run.passed_time))
            # The other one has no row left that could be late when time goes on to 1001.
            eventually(lambda: run.metrics().operators["aggregate"].added == 3 + self.STEADY.num_rows)
            self.silent.let_all()

        with self.start("side") as run:
            returned(run)
            assert run.wait(HANG_S)
            assert run.late.to_pydict() == {"ts": [4], "k": [1]}
            assert run.metrics().set_aside == 1
        with self.start("error") as run, pytest.raises(LateRowError, match="idle_after"):
            returned(run)
            run.wait(HANG_S)


class TestReplay:
    """What the clock decided is replayed: source 0 pauses, is passed over, and comes back with rows that are late.

    Its batches are cut elsewhere and come without a pause the second time::

        source 0    1 2 3  ~idle~  4 60  ~idle~  61 90 1000
        source 1    4 .......... 78 ........ 118, step by step

    Source 1 begins behind what source 0 gives at first, so that it is not late itself when its reader gets its turn late.
    """

    ROWS = (1, 2, 3, 4, 60, 61, 90, 1000)
    CUTS = (0, 3, 5, 8)

    def query(self, first, second, late="side"):
        sources = [open_input(batches, schema=SCHEMA) for batches in (first, second)]
        stream = hr.stream(sources, event_time="ts", idle_after=0.05, late=late)
        # Filtered rows count as well: a replay counts the rows of the source, not those that are left.
        return stream.filter(hr.col("ts") != 90).key_by("k").window(10).aggregate(n=hr.count())

    def recorded(self):
        """Let the clock pass source 0 over twice, each time to where source 1 is."""
        turns = [threading.Event() for _ in range(6)]

        def paused():
            for i, turn in enumerate((None, turns[1], turns[3])):
                if turn is not None:
                    assert turn.wait(180)
                low, high = self.CUTS[i : i + 2]
                yield pa.record_batch({"ts": self.ROWS[low:high], "k": [1] * (high - low)}, schema=SCHEMA)

        def other():
            for turn, low, high in ((turns[0], 2, 20), (turns[5], 20, 40), (turns[2], 40, 60)):
                assert turn.wait(180)
                yield pa.record_batch({"ts": [2 * i for i in range(low, high)], "k": [7] * (high - low)}, schema=SCHEMA)
            assert turns[4].wait(180)

        with self.query(paused(), other()).start(threads=2) as run:
            turns[0].set()
            eventually(lambda: (0, 3, 38) in {entry[1:] for entry in run.passed_time}, 180)
            turns[5].set()
            eventually(lambda: (0, 3, 78) in {entry[1:] for entry in run.passed_time}, 180)
            assert [entry[2] for entry in run.passed_time if entry[1] == 0] == [3], "one entry, however long it is silent"
            turns[1].set()
            eventually(lambda: run.metrics().set_aside == 2, 180)
            turns[2].set()
            eventually(lambda: (0, 5, 118) in {entry[1:] for entry in run.passed_time}, 180)
            turns[3].set()
            turns[4].set()
            assert run.wait(180)
            return run.passed_time, run.to_arrow(), run.late

    def test_agree_a_replay_of_an_idle_source_gives_the_same_bytes(self):
        entries, result, late = self.recorded()
        assert late.column("ts").to_pylist() == [4, 60, 61, 90]
        second = pa.table({"ts": [2 * i for i in range(2, 60)], "k": [7] * 58}, schema=SCHEMA)
        first = pa.table({"ts": self.ROWS, "k": [1] * 8}, schema=SCHEMA)
        for rows in (1, 2, 8):
            query = self.query(first.to_batches(rows), second.to_batches(rows))
            with query.start(threads=1, passed_time=entries) as run:
                assert run.wait(180)
                assert run.to_arrow().equals(result)
                assert run.late.equals(late)
                assert [entry for entry in run.passed_time if entry[1] == 0] == [e for e in entries if e[1] == 0]
        # Without the record nothing is late: the rows come without a pause.
        assert not self.query(first.to_batches(), second.to_batches()).to_arrow(passed_time=[]).equals(result)

    def test_example_a_replay_does_not_look_at_the_clock(self):
        """A source that is idle again, for long enough to be passed over, is waited for."""
        first = pa.table({"ts": self.ROWS, "k": [1] * 8}, schema=SCHEMA)
        read = threading.Event()

        def paused():
            yield from first.slice(0, 3).to_batches()
            assert read.wait(180)
            time.sleep(0.5)  # ten times idle_after; were it looked at, later rows would be late
            yield from first.slice(3).to_batches()

        def other():
            yield pa.record_batch({"ts": [0, 500], "k": [7, 7]}, schema=SCHEMA)
            read.set()

        with self.query(paused(), other(), late="error").start(threads=2, passed_time=[]) as run:
            assert run.wait(180)
            assert run.passed_time == []
            assert run.to_arrow().column("ts").to_pylist() == [10, 10, 70, 510, 1010]

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            (("aggregate", 0, 3), "give the run.passed_time"),
            (("aggregate", 0, -1, 78), "give the run.passed_time"),
            (("other", 0, 3, 78), "the operators are aggregate"),
        ],
    )
    def test_example_what_cannot_be_replayed(self, entry, message):
        with pytest.raises(ParameterError, match=message):
            self.query(iter([]), iter([])).start(passed_time=[entry])

    def test_example_a_record_that_has_forgotten_its_beginning_is_not_replayed(self):
        kept = Newest([("aggregate", 0, 3, 78)], left_out=1_200)
        with pytest.raises(ParameterError, match="let time pass 1,200 times before the 1 that it kept"):
            self.query(iter([]), iter([])).start(passed_time=kept)

    def test_example_a_query_without_idle_after_has_nothing_to_replay(self):
        table = pa.table({"ts": [1], "k": [1]}, schema=SCHEMA)
        with pytest.raises(ParameterError, match="has no idle_after here"):
            counts(table).start(passed_time=[("aggregate", 0, 1, 5)])


def test_example_a_filter_that_drops_everything_still_moves_time():
    left = pa.table({"ts": [0, 5, 100, 2000], "k": [1, 1, 1, 1]}, schema=SCHEMA)
    nothing = hr.stream(left, event_time="ts").filter(hr.col("k") > 1)
    right = hr.stream(pa.table({"ts": [1, 2, 3], "k": [1, 2, 3]}, schema=SCHEMA), event_time="ts")
    table = nothing.union(right).key_by("k").window(10).aggregate(n=hr.count()).to_arrow(threads=2)
    assert table.to_pydict() == {"ts": [10, 10, 10], "k": [1, 2, 3], "n": [1, 1, 1]}


def test_agree_a_union_is_sources_in_order():
    rng = np.random.default_rng(0)
    tables = [
        pa.table({"ts": np.sort(rng.integers(0, 300, 400)), "k": rng.integers(0, 9, 400)}, schema=SCHEMA)
        for _ in range(3)
    ]
    streams = [hr.stream(t, event_time="ts") for t in tables]
    merged = streams[0].union(*streams[1:]).forward().to_arrow(threads=3)
    assert merged.equals(hr.stream(tables, event_time="ts").forward().to_arrow())
    assert merged.equals(pa.concat_tables(tables).sort_by("ts"))


def test_example_a_stream_that_was_read_is_not_silently_empty_the_second_time():
    query = counts(open_input(iter([pa.record_batch({"ts": [1], "k": [1]}, schema=SCHEMA)]), schema=SCHEMA))
    assert query.to_arrow().num_rows == 1
    with pytest.raises(InputError, match="open it again"):
        query.to_arrow()
