"""Both gates on real threads, more of them than cores.

Property    as in tests/headrace/gates: the one order, each tuple once, to every
            reader; controls at one position; members of an epoch read all of it.
Oracle      `numpy.lexsort`.
Outcomes    ACCEPTABLE: the merged sequence. FORBIDDEN: any other, or a thread
            that waits for ever.
Cannot see  what did not happen this time: rare schedules are for test_interleave.py.

The campaign (`pytest -m campaign tests/litmus`) runs each of them many times.
"""

import itertools
import time

import numpy as np
import pytest

from headrace.memory.cells import padded_cells
from headrace.references import SOURCE_SHIFT
from litmus_gates import join_all, run_all, threads_of

pytestmark = pytest.mark.stress
both = pytest.mark.parametrize("gate", ["log", "scalegate"])
rounds = pytest.mark.parametrize("seconds", [1.0, pytest.param(120.0, marks=pytest.mark.campaign)])
SEED = 7


def seeds(seconds):
    """Seeds until the time is over, at least three."""
    end = time.monotonic() + seconds
    for seed in itertools.count(SEED):
        if seed >= SEED + 3 and time.monotonic() > end:
            return
        yield seed


def streams(draw, sources, count):
    """Times with many ties, and sources that run ahead of each other."""
    return [np.sort(draw.integers(0, max(2, count // draw.integers(1, 6)), count)) for _ in range(sources)]


def merged(times):
    ts = np.concatenate(times)
    source = np.repeat(np.arange(len(times)), [t.size for t in times])
    row = np.concatenate([np.arange(t.size) for t in times])
    order = np.lexsort((row, source, ts))
    return ts[order], (source << SOURCE_SHIFT | row)[order]


def reading(k, g, out, batch, stop):
    """One call per reader for `run_all`; the first reader to finish sets `stop`."""

    def read(reader):
        count = k.read(g, reader, *out[reader], batch)
        stop[0] = 1
        return count

    return [(read, reader) for reader in range(len(out))]


def outputs(readers, size):
    return [(np.zeros(size, np.int64), np.zeros(size, np.int64)) for _ in range(readers)]


@both
@rounds
@pytest.mark.parametrize(
    "sources, readers, capacity, batch",
    [(1, 1, 4096, 64), (2, 2, 1024, 128), (4, 4, 256, 7), (3, 3, 16, 5), (2, 4, 1, 1), (6, 2, 64, 300)],
)
def test_litmus_every_reader_gets_the_merged_sequence(gate, sources, readers, capacity, batch, seconds):
    k = threads_of(gate)
    for seed in seeds(seconds):
        draw = np.random.default_rng(seed)
        times = streams(draw, sources, 300 if capacity == 1 else 20 * capacity if capacity < 1024 else 30_000)
        g = k.allocate(sources, readers, capacity)
        join_all(k, g, range(readers))
        out = outputs(readers, sum(t.size for t in times) + 2 * sources)
        calls = [(k.source, g, s, t, batch) for s, t in enumerate(times)]
        calls += [(k.read, g, r, *out[r], int(draw.integers(1, 2 * batch + 1))) for r in range(readers)]
        counts = run_all(calls)[sources:]
        ts, ref = merged(times)
        for (got_ts, got_ref), count in zip(out, counts, strict=True):
            assert count == ts.size + 1, f"seed {seed}"
            assert np.array_equal(got_ts[: ts.size], ts), f"seed {seed}"
            assert np.array_equal(got_ref[: ts.size], ref), f"seed {seed}"


@both
@rounds
def test_litmus_an_idle_source_and_controls(gate, seconds):
    """One of three sources only sends heartbeats; every reader meets each control at one position."""
    k = threads_of(gate)
    for seed in seeds(seconds):
        draw = np.random.default_rng(seed)
        times = streams(draw, 2, 5_000)
        beats = np.unique(draw.integers(0, 5_000, 500))
        g = k.allocate(3, 3, 128)
        join_all(k, g, range(3))
        out = outputs(3, 13_000)
        calls = [(k.source, g, 0, times[0], 16), (k.beat, g, 1, beats), (k.source, g, 2, times[1], 50)]
        stop = np.zeros(1, np.int64)
        calls += [(k.request, g, 200, 50, stop), *reading(k, g, out, 32, stop)]
        counts = run_all(calls)[4:]
        ts, ref = merged([times[0], np.zeros(0, np.int64), times[1]])
        shortest = min(counts) - 1
        for (got_ts, got_ref), count in zip(out, counts, strict=True):
            data = got_ref[:count] >= 0
            assert np.array_equal(got_ts[:count][data], ts) and np.array_equal(got_ref[:count][data], ref)
            epochs = -1 - got_ref[:count][got_ref[:count] < -1]
            assert np.array_equal(epochs, np.arange(1, epochs.size + 1)), f"seed {seed}"
            assert np.array_equal(got_ref[:shortest], out[0][1][:shortest]), f"seed {seed}"


@both
@rounds
def test_litmus_a_control_behind_a_full_gate(gate, seconds):
    """Every reader stands still and the gate is full: the control is placed even so."""
    k = threads_of(gate)
    for seed in seeds(seconds):
        times = streams(np.random.default_rng(seed), 2, 2_000)
        g = k.allocate(2, 3, 32)
        join_all(k, g, range(3))
        out = outputs(3, 5_000)
        for s in (0, 1):
            while k.add(g, s, times[s], 0, 1, 0):
                pass
        assert run_all([(k.request, g, 3, 0, np.zeros(1, np.int64))]) == [3]
        g = k.allocate(2, 3, 32)
        join_all(k, g, range(3))
        calls = [(k.source, g, s, times[s], 500) for s in (0, 1)]
        stop = np.zeros(1, np.int64)
        calls += [(k.request, g, 20, 5, stop), *reading(k, g, out, 9, stop)]
        counts = run_all(calls)[3:]
        ts, ref = merged(times)
        shortest = min(counts) - 1
        for (got_ts, got_ref), count in zip(out, counts, strict=True):
            data = got_ref[:count] >= 0
            assert np.array_equal(got_ts[:count][data], ts) and np.array_equal(got_ref[:count][data], ref)
            assert np.array_equal(got_ref[:shortest], out[0][1][:shortest]), f"seed {seed}"


@both
@rounds
@pytest.mark.parametrize("capacity", [8, 512])
def test_litmus_readers_come_and_go(gate, capacity, seconds):
    """Five workers on two cores; membership changes every few dozen records, sometimes back at once."""
    k = threads_of(gate)
    workers = 5
    for seed in seeds(seconds):
        draw = np.random.default_rng(seed)
        times = streams(draw, 2, 3_000)
        ts, ref = merged(times)
        epochs = 100
        changes = np.sort(draw.integers(0, ts.size, epochs))
        member_of = (draw.random((epochs + 1, workers)) < 0.5).astype(np.int64)
        member_of[:, 0] |= member_of.sum(1) == 0
        g = k.allocate(2, workers, capacity)
        join_all(k, g, np.flatnonzero(member_of[0]))
        out = [(np.full(ts.size, -1), np.full(ts.size, -1)) for _ in range(workers)]
        words = padded_cells(3)
        calls = [(k.source, g, s, t, 20) for s, t in enumerate(times)]
        calls += [(k.member, g, r, words, changes, member_of, ts.size, *out[r], 33) for r in range(workers)]
        run_all(calls)
        epoch_of = np.searchsorted(changes, np.arange(ts.size), side="right")
        for r in range(workers):
            mine = member_of[epoch_of, r] != 0
            assert np.array_equal(out[r][0], np.where(mine, ts, -1)), f"seed {seed}, reader {r}"
            assert np.array_equal(out[r][1], np.where(mine, ref, -1)), f"seed {seed}, reader {r}"


@both
@rounds
def test_litmus_sources_come_and_go(gate, seconds):
    """Two sources feed; two more join, add and leave again and again, each from the time that it is given."""
    k = threads_of(gate)
    for seed in seeds(seconds):
        draw = np.random.default_rng(seed)
        times = [np.sort(draw.integers(0, 40_000, 4_000)) for _ in range(2)]
        g = k.allocate(4, 2, 64)
        for s in (2, 3):
            assert k.open_membership(g)
            k.remove_source(g, s)
            k.close_membership(g)
        join_all(k, g, range(2))
        out = outputs(2, 20_000)
        stop = np.zeros(1, np.int64)
        calls = [(k.source, g, s, t, 10) for s, t in enumerate(times)]
        calls += [(k.come_and_go, g, s, np.arange(11), 60, 4, 3, stop) for s in (2, 3)]
        results = run_all([*calls, *reading(k, g, out, 25, stop)])
        assert results[4] == results[5]
        count = results[4]
        assert np.array_equal(out[0][1][:count], out[1][1][:count]), f"seed {seed}"
        data = out[0][1][:count] >= 0
        ts, ref = out[0][0][:count][data], out[0][1][:count][data]
        source, row = ref >> SOURCE_SHIFT, ref & ((1 << SOURCE_SHIFT) - 1)
        order = np.lexsort((row, source, ts))
        assert np.array_equal(order, np.arange(ts.size)), f"not in order, seed {seed}"
        for s in range(2):
            assert np.array_equal(ts[source == s], times[s])
        for s in (2, 3):
            assert np.array_equal(row[source == s], np.arange((source == s).sum())), f"seed {seed}"
