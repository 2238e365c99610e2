"""Sources: disorder, lateness, idleness, filters that drop everything, unions.

Property    what the documentation of `hr.stream` says of `lateness`, `late`,
            `idle_after` and `sort`, end to end through the engine.
Oracle      the same rows sorted, or cut, by hand.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import DisorderError, InputError, LateRowError
from headrace.ingress.readers import open_input

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
        assert run.late.num_rows == (1 if late == "side" else 0)
        assert metrics.operators["aggregate"].added + metrics.dropped + metrics.set_aside == 5


def test_example_rows_beyond_lateness_are_an_error_by_default():
    table = pa.table({"ts": [0, 50, 3], "k": [1, 1, 1]}, schema=SCHEMA)
    with pytest.raises(LateRowError):
        counts(table, lateness=5).to_arrow()


def slow():
    yield pa.record_batch({"ts": [1, 2, 3], "k": [1, 1, 2]}, schema=SCHEMA)
    time.sleep(2.0)
    yield pa.record_batch({"ts": [4, 1000, 1001], "k": [1, 1, 2]}, schema=SCHEMA)


def steady():
    for i in range(40):
        yield pa.record_batch({"ts": [3 * i, 3 * i + 1], "k": [7, 8]}, schema=SCHEMA)
        time.sleep(0.01)


class TestIdle:
    def start(self, late):
        sources = [open_input(slow(), schema=SCHEMA), open_input(steady(), schema=SCHEMA)]
        return counts(sources, idle_after=0.15, late=late).start(threads=2)

    def test_example_an_idle_source_does_not_hold_back_the_others(self):
        seen = []
        sources = [open_input(slow(), schema=SCHEMA), open_input(steady(), schema=SCHEMA)]
        query = counts(sources, idle_after=0.15, late="drop")
        begin = time.monotonic()
        with query.start(threads=2, sink=lambda batch: seen.append((time.monotonic() - begin, batch))) as run:
            run.wait()
            early = [batch for at, batch in seen if at < 1.8]
            assert any(batch["ts"][-1].as_py() >= 100 for batch in early), "results waited for the idle source"
            assert run.passed_time, "what the wall clock decided is on record"

    def test_example_rows_of_a_returned_source_are_late(self):
        with self.start("side") as run:
            run.wait()
            assert run.late.to_pydict() == {"ts": [4], "k": [1]}
            assert run.metrics().set_aside == 1
        with self.start("error") as run, pytest.raises(LateRowError, match="idle_after"):
            run.wait()


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
