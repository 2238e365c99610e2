"""f_mu and requests: who owns what, what a request resolves to, what becomes of it.

Property    a mapping is a total function from 1,024 buckets to members; a request
            is completed against the newest configuration known
Oracle      by hand
"""

import random

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.control.mapping import Mapping
from headrace.elastic import arrays
from headrace.elastic.configuration import Configuration, check_threads, resolve, write_configuration
from headrace.errors import ReconfigurationError
from headrace.ingress.keys import KeyDictionary
from headrace.references import BUCKETS
from support.workloads import Steered, eventually, is_stuck


def test_example_even_shares():
    mapping = Mapping.even(3)
    assert mapping.instances == (0, 1, 2) and mapping.shares == (342, 341, 341)
    assert mapping.ranges() == {0: (0, 342), 1: (342, 341), 2: (683, 341)}
    assert Mapping.even([1, 3]).instances == (1, 3)
    assert Mapping.even(2) == Mapping([0] * 512 + [1] * 512) != Mapping.even(3)
    assert len({Mapping.even(2), Mapping.even([0, 1]), Mapping.even(3)}) == 2
    assert Mapping.even(np.int64(3)) == Mapping.even(np.arange(3)) == Mapping.even(3)


@pytest.mark.parametrize("given", [0, [], -1, [-1], [5000], 10**12, 2.0, "two", [0, 1.5], None])
def test_what_cannot_be_shares_is_refused(given):
    with pytest.raises(ReconfigurationError):
        Mapping.even(given)


def test_example_scattered_shares_have_no_ranges():
    assert Mapping([i % 2 for i in range(BUCKETS)]).ranges() is None
    assert Mapping([0] * 10 + [1] * 1_000 + [0] * 14).ranges() is None
    assert Mapping([7] * BUCKETS).ranges() == {7: (0, BUCKETS)}


def test_example_move_and_differ():
    mapping = Mapping.even(2)
    moved = mapping.move([0, 1, 1023], to=5)
    assert mapping.differing(moved) == 3 and mapping.owners[0] == 0
    assert moved.to_list()[:3] == [5, 5, 0]
    with pytest.raises(ValueError):
        moved.owners[0] = 1


def test_oracle_tables_of_the_workers():
    """low and width say the same as the owners' table, for every instance."""
    draw = random.Random(1)
    c = arrays.allocate(6)
    for _ in range(100):
        members = tuple(sorted(draw.sample(range(6), draw.randint(1, 6))))
        if draw.random() < 0.5:
            mapping = Mapping.even(draw.sample(members, draw.randint(1, len(members))))
        else:
            mapping = Mapping([draw.choice(members) for _ in range(BUCKETS)])
        write_configuration(c, 1, Configuration(members, mapping))
        assert tuple(np.flatnonzero(c.member[1])) == members
        assert (c.owner[1] == mapping.owners).all()
        if c.contiguous[1]:
            owners = np.full(BUCKETS, -1)
            for member in range(6):
                low, width = c.low[1, member], c.width[1, member]
                owners[low : low + width] = member
            assert (owners == mapping.owners).all()


def test_a_bucket_is_a_hash_of_the_value_not_of_its_arrival():
    words = [f"word {i}" for i in range(500)]
    one, other = KeyDictionary(("string",)), KeyDictionary(("string",))
    first = one.encode(pa.array(words)) & (BUCKETS - 1)
    other.encode(pa.array(["something", "else"]))
    second = other.encode(pa.array(words[::-1])) & (BUCKETS - 1)
    assert (first == second[::-1]).all()


def test_example_resolve():
    now = Configuration((0, 1), Mapping.even(2))
    assert resolve(3, None, now, 4) == Configuration.even(3)
    assert resolve([0, 1], None, now, 4) is now
    scattered = Mapping([i % 2 for i in range(BUCKETS)])
    assert resolve(None, scattered, now, 4) == Configuration((0, 1), scattered)
    # The same threads asked for again keep a mapping that was chosen.
    kept = Configuration((0, 1), scattered)
    assert resolve(2, None, kept, 4) is kept
    assert resolve(3, Mapping.even(2), now, 4) == Configuration((0, 1, 2), Mapping.even(2))
    with pytest.raises(ReconfigurationError, match="instance 2"):
        resolve(2, Mapping.even(3), now, 4)


def test_example_check_threads():
    assert check_threads(3, 4) == (0, 1, 2)
    assert check_threads(np.int64(2), 4) == (0, 1)
    assert check_threads([3, 1, 3], 4) == (1, 3)
    assert check_threads(range(2), 4) == (0, 1)


def test_superseded_requests_are_told_so():
    """A sink that waits keeps the first request in flight; of those behind it only the newest is done."""
    import threading

    opened = threading.Event()
    table = pa.table({"ts": range(200_000)})
    with hr.stream(table, event_time="ts").forward().start(
        threads=1, max_threads=8, capacity=64, sink=lambda batch: opened.wait(180)
    ) as run:
        eventually(lambda: is_stuck(run), 180)
        first = run.reconfigure(threads=2, reason="the first")
        second, third = run.reconfigure(threads=3), run.reconfigure(threads=4)
        assert (second.outcome, second.is_settled) == ("superseded", True)
        # Each is resolved against the newest known: 4 threads is what is already asked for.
        again = run.reconfigure(threads=4)
        assert again.outcome == "no change"
        assert not first.is_settled and not third.is_settled
        opened.set()
        assert third.wait(180).outcome == "done" and first.outcome == "done"
        assert (first.from_threads, first.to_threads, first.reason) == (1, 2, "the first")
        assert (third.from_threads, third.to_threads) == (2, 4)
        assert 0 < first.epoch < third.epoch
        assert first.completed_ns <= third.completed_ns and first.ms > 0
        assert run.threads == 4
        assert run.wait(180)


def test_back_to_where_it_was_while_in_flight():
    """1 -> 2 in flight, then 1 again: resolved against 2, so it is a change of its own."""
    source = Steered(pa.table({"ts": range(10)}))
    with hr.stream(source, event_time="ts").forward().start(threads=1, max_threads=2) as run:
        changes = [run.reconfigure(threads=n) for n in (2, 1, 2, 1)]
        changes[-1].wait(180)
        eventually(lambda: run.threads == 1)
        assert all(change.outcome in ("done", "superseded", "no change") for change in changes)
        source.let_all()
        assert run.wait(180)


def test_changes_of_each_operator_and_of_the_run():
    table = pa.table({"ts": range(100), "k": [i % 5 for i in range(100)]})
    source = Steered(table)
    counts = hr.stream(source, event_time="ts").key_by("k").window(10).aggregate("counts", n=hr.count())
    with counts.forward("last").start(threads={"counts": 2, "last": 1}, max_threads=4) as run:
        assert (run["counts"].threads, run["last"].threads) == (2, 1)
        change = run["last"].reconfigure(threads=3).wait(180)
        assert change.operator == "last" and run["last"].threads == 3 and run["counts"].threads == 2
        with pytest.raises(ReconfigurationError, match=r"give run\['last'\].reconfigure\(threads=1\)"):
            run["counts"].reconfigure(threads={"last": 1})
        run["counts"].reconfigure(mapping=Mapping([1] * BUCKETS)).wait(180)
        assert run["counts"].mapping == Mapping([1] * BUCKETS)
        assert [c.operator for c in run.changes] == ["last", "counts"]
        assert [c.operator for c in run["last"].changes] == ["last"]
        source.let_all()
        assert run.wait(180)
