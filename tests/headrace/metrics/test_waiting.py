"""Which thread waits, for which one, and with what.

Method: sources that the test lets through batch by batch; what the run then says of watermarks, depth, windows.
Cannot see: how long a wait takes.
"""

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic.measuring import EXACT_PLACES, count_places
from headrace.workers import worker_kernel
from support.books import check, check_end, counting
from support.workloads import Steered, eventually

SCHEMA_K = pa.schema({"ts": pa.int64(), "k": pa.int64()})


def test_example_which_source_holds_time_back():
    """Four tuples of each; then only the left one goes on::

        left    0 1 2 3 ........ 103
        right   0 1 2 3              the window that ends at 10 waits for it
    """
    left = Steered(pa.table({"ts": [0, 1, 2, 3, 100, 101, 102, 103], "k": [1] * 8}), [4])
    right = Steered(pa.table({"ts": [0, 1, 2, 3, 100, 101, 102, 103], "k": [1] * 8}), [4])
    with counting([left, right]).start(threads=2) as run:

        def now():
            return check(run.metrics()).operators["counts"]

        assert now().holds_back is None and set(now().watermark_gap.values()) == {0}
        names = list(now().watermark_gap)
        assert len(set(names)) == 2
        left.let()
        eventually(lambda: now().watermark_gap == {names[0]: 0, names[1]: 3}, 180)  # it has said nothing yet
        assert now().holds_back == names[1]
        right.let()
        eventually(lambda: now().holds_back is None, 180)
        left.let()
        eventually(lambda: now().watermark_gap == {names[0]: 0, names[1]: 100}, 180)
        assert now().holds_back == names[1]
        right.let(2)  # and its end
        eventually(lambda: now().watermark_gap[names[1]] == 0, 180)
        assert now().holds_back is None  # the left one has said as much
        left.let_all()
        assert run.wait(180)


def test_example_windows_and_depth_while_they_wait():
    """Keys 0..9 in windows [0, 10) and [10, 20); then tuples that wait for the other source."""
    first = Steered(pa.table({"ts": [*range(20), 1000], "k": [*range(10)] * 2 + [0]}), [20])
    other = Steered(pa.table({"ts": [15, 2000], "k": [0, 0]}), [1])
    with counting([first, other]).start() as run:

        def now():
            return check(run.metrics()).operators["counts"]

        first.let()
        eventually(lambda: now().added == 20, 180)
        assert now().depth_tuples == 20  # not ready: the other source may still be earlier
        other.let()
        eventually(lambda: now().processed == 17, 180)  # 0..15, and the other's 15; ties go by source
        eventually(lambda: now().depth_tuples == 4, 180)  # a source counts what it added after adding it
        assert now().live_windows == 6 and now().live_keys == 10
        first.let_all()
        other.let_all()
        assert run.wait(180)
        check_end(run.metrics(), 23)


@pytest.mark.parametrize("places", [1, 1000, EXACT_PLACES, EXACT_PLACES + 1, 300_001])
def test_oracle_places_are_counted(places):
    """Exactly while there are few; of many a part is looked at, spread over all of them."""
    present = (np.random.default_rng(places).random(places + 500) < 0.3).astype(np.uint32)
    present[: places // 2] = 1
    true = int(present[:places].sum())
    counted = count_places(present, places)
    assert counted == true if places <= EXACT_PLACES else abs(counted - true) < 0.03 * true
    assert count_places(present, 10**9) >= counted  # no more than there are


@pytest.mark.parametrize("how", ["asked for", "planned"])
def test_example_workers_spin_only_while_a_core_is_free(how, monkeypatch):
    """Two cores: one thread may spin before it sleeps, and nobody may beside another."""
    monkeypatch.setattr(worker_kernel, "usable_cores", lambda: 2)
    source = Steered(pa.table({"ts": np.arange(40), "k": np.arange(40) % 5}, SCHEMA_K), [10] * 4)
    planned = [(5, 2), (15, 1)] if how == "planned" else []
    query = hr.stream(source, event_time="ts").key_by("k", nulls="drop").window(100, 50).aggregate("first", n=hr.count())
    with query.start(threads=1, max_threads=4, reconfigure=planned) as run:

        def spins():
            return int(run._operators["first"].section.arrays.words[worker_kernel.SPIN])

        assert spins() == worker_kernel.SPINS
        for threads in (2, 1):
            if not planned:
                run.reconfigure(threads=threads)
            source.let()
            eventually(lambda threads=threads: spins() == (0 if threads == 2 else worker_kernel.SPINS))
        for _ in range(source.batches - 2):
            source.let()
        assert run.wait(180)
