"""Memory and buffers are bounded, and being small is only slower.

Property    stores, key ids and state are recycled: they follow what is live, not
            what has passed; a tuple larger than every buffer passes; sources
            longer than the buffers, and fed in the worst order, do not deadlock
Oracle      plain counting; the process's resident set, with room for noise
Cannot see  slow leaks: `headrace bench memory` runs for longer
"""

import gc
import itertools
import random
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic.section import ElasticSection
from headrace.errors import OverflowInputError
from headrace.ingress.store import CHUNK
from headrace.runtime import gate_inlet
from support.workloads import Steered, eventually, steer


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def stream_of_keys(batches, rows, seen):
    """Every key occurs in one batch only; event time moves by one window in each."""
    for i in range(batches):
        seen.append(resident_bytes())
        yield pa.record_batch({"ts": [i] * rows, "k": [f"a key that is longer than eight bytes {i} {r}" for r in range(rows)]})


@pytest.mark.slow
def test_state_follows_live_keys():
    """600,000 keys pass, 4,000 are live: ids, state and dictionary stay small."""
    batches, rows, seen, counts = 150, 4_000, [], []

    def sink(batch):
        counts.append((batch.num_rows, sum(batch.column("n").to_pylist())))

    query = hr.stream(stream_of_keys(batches, rows, seen), event_time="ts").key_by("k").window(1).aggregate(n=hr.count())
    with query.start(threads=2, max_threads=2, sink=sink) as run:
        assert run.wait(120)
        metrics = run.metrics().operators["aggregate"]
    assert sum(n for n, _ in counts) == sum(total for _, total in counts) == batches * rows
    assert metrics.live_keys < batches * rows / 4
    assert metrics.state_bytes < 8 * 2**20
    gc.collect()
    assert max(seen[50:]) - seen[50] < 64 * 2**20, [n >> 20 for n in seen]


@pytest.mark.slow
def test_agree_recycled_ids_under_reconfiguration():
    """Ids are given to new keys while ownership moves: no count is inherited, none is lost."""
    draw = random.Random(8)
    rows, results = 120_000, []
    ts = [i // 40 for i in range(rows)]
    keys = [i if draw.random() < 0.9 else draw.randrange(50) for i in range(rows)]
    table = pa.table({"ts": ts, "k": keys})
    wanted: dict[tuple[int, int], int] = {}
    for t, k in zip(ts, keys, strict=True):
        for window in ((t - 20) // 10 + 1, t // 10):
            place = (window * 10 + 20, k)
            wanted[place] = wanted.get(place, 0) + 1
    expected = [(t, k, n) for (t, k), n in sorted(wanted.items())]
    query = hr.stream(table, event_time="ts", batch_rows=2_000).key_by("k").window(20, 10).aggregate(n=hr.count())
    plan = [(i * 2_000, 1 + (i * 7) % 4) for i in range(1, 60)]
    result = query.to_arrow(threads=3, max_threads=4, reconfigure=plan)
    results = list(zip(*(column.to_pylist() for column in result.columns), strict=True))
    assert results == expected


def test_stores_are_freed_behind_the_watermark():
    """Two sources, ten chunks each pass; what no window needs is not kept."""
    rows = 10 * CHUNK
    tables = [pa.table({"ts": range(rows), "v": range(rows)}) for _ in range(2)]
    with hr.stream(tables, event_time="ts", batch_rows=4_096).window(100).aggregate(s=hr.sum("v")).start(threads=2) as run:
        assert run.wait(180)
        operator = run._operators["aggregate"].section
        assert [len(inlet.store.chunks) <= 9 for inlet in operator.inlets] == [True, True]
        assert sum(run.to_arrow()["s"].to_pylist()) == rows * (rows - 1)


def test_tuple_with_more_keys_than_any_buffer():
    tags = [f"t{i}" for i in range(100_000)]
    table = pa.table({"ts": [0, 1, 2], "tags": [["t5"], tags, ["t5", "t6"]]})
    query = hr.stream(table, event_time="ts").key_by(tag=hr.each("tags")).window(10).aggregate(n=hr.count())
    for threads in (1, 3):
        result = query.to_arrow(threads=threads, capacity=1)
        assert result.num_rows == 100_000
        counts = dict(zip(result["tag"].to_pylist(), result["n"].to_pylist(), strict=True))
        assert (counts["t5"], counts["t6"], counts["t7"]) == (3, 2, 1)
        assert result["tag"].to_pylist() == sorted(tags)


def test_tuple_with_too_many_keys_is_named():
    numbers = pa.array(range(2**20 + 2), pa.int64())
    tags = pa.ListArray.from_arrays(pa.array([0, 1, 2**20 + 2]), numbers)
    query = hr.stream(pa.table({"ts": [0, 1], "tags": tags}), event_time="ts").key_by(tag=hr.each("tags")).window(10)
    with pytest.raises(OverflowInputError, match=r"row 1\b.*1,048,576"):
        query.aggregate(n=hr.count()).to_arrow()


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["log", "scalegate"])
@pytest.mark.parametrize("order", ["forward", "backward"])
def test_eight_overlapping_sources_longer_than_the_buffers(gate, order):
    """One source after the other is let through; each is longer than all buffers together."""
    rows = 2_000
    tables = [pa.table({"ts": range(s, s + rows), "k": [s] * rows}) for s in range(8)]
    sources = [Steered(table, [rows // 2]) for table in tables]
    query = hr.stream(sources, event_time="ts").key_by("k").window(500).aggregate(n=hr.count())
    with query.start(threads=3, max_threads=4, capacity=32, gate=gate) as run:
        for source in sources if order == "forward" else reversed(sources):
            source.let_all()
            steer(run, threads=1 + (run.threads % 4))
        assert run.wait(180)
        assert sum(run.to_arrow()["n"].to_pylist()) == 8 * rows


def test_too_many_live_keys_is_an_error():
    table = pa.table({"ts": [0] * 200_000, "k": range(200_000)})
    query = hr.stream(table, event_time="ts").key_by("k").window(10).aggregate(n=hr.count())
    with pytest.raises(OverflowInputError, match="max_keys"):
        query.to_arrow(max_keys=1_000)
    assert query.to_arrow(max_keys=200_000).num_rows == 200_000


def few_at_a_time(windows: int, keys: int) -> hr.Stream:
    """Each window has keys of its own: 0 to keys - 1 in the first, the next ones in the second."""
    table = pa.table({"ts": np.repeat(np.arange(windows) * 10, keys), "k": np.arange(windows * keys)})
    return hr.stream(table, event_time="ts").key_by("k").window(10).aggregate(n=hr.count())


@pytest.mark.parametrize("keys", [3, 26, 49])
def test_example_max_keys_counts_the_live_ones(keys):
    """2,000 keys in one batch, at most 49 to a window: the first row of the next one closes it, and needs room before."""
    result = few_at_a_time(2000 // keys, keys).to_arrow(max_keys=50, threads=2)
    assert result["k"].to_pylist() == list(range(2000 // keys * keys))


def test_example_a_window_with_too_many_keys_is_refused():
    with pytest.raises(OverflowInputError, match=r"more than max_keys = 50 .*raise max_keys"):
        few_at_a_time(5, 51).to_arrow(max_keys=50, threads=2)


def test_agree_keys_are_waited_for_however_long_the_process_stands_still(monkeypatch):
    """Whenever the clock is looked at, an hour is over; keys expire some looks later than they could."""
    hours, release = itertools.count(0, 3_600), ElasticSection.release

    def late(section, watermark):
        time.sleep(0.005)
        release(section, watermark)

    monkeypatch.setattr(gate_inlet, "time", SimpleNamespace(**{**vars(time), "monotonic": lambda: next(hours)}))
    monkeypatch.setattr(ElasticSection, "release", late)
    result = few_at_a_time(40, 49).to_arrow(max_keys=50, threads=2)
    assert result["k"].to_pylist() == list(range(40 * 49))


def test_agree_keys_are_waited_for_while_the_sink_takes_results(monkeypatch):
    """Keys of the first window expire when its results are out; until then they are looked for in vain."""
    looks, found = [], []

    def sleep(seconds):
        looks.append(seconds)
        time.sleep(seconds)

    def sink(batch):
        if not found:
            eventually(lambda: len(looks) > 2 * gate_inlet._KEYS_LOOKS)
        found.append(batch)

    monkeypatch.setattr(gate_inlet, "time", SimpleNamespace(**{**vars(time), "sleep": sleep}))
    with few_at_a_time(40, 49).start(max_keys=50, threads=2, sink=sink) as run:
        assert run.wait(180)
    assert pa.Table.from_batches(found)["k"].to_pylist() == list(range(40 * 49))
