"""A channel for each reader: what each gets, in which order, and when.

Property    each reader gets what its senders sent to it, in the order (time, source, position), as soon as nothing earlier
            can come, and never before; a sender is never ahead of a reader by more than the capacity
Oracle      a sort of what was sent
Cannot see  interleavings of kernels: tests/headrace_bench/test_viper_interleave.py runs them
"""

import random
import threading
import time

import numpy as np
import pytest

from headrace.errors import DisorderError, EventTimeError, ParameterError
from headrace.gates import ReaderChannels
from headrace.gates.channels_kernel import send
from headrace.references import ROW_MASK, SOURCE_SHIFT
from support.workloads import HANG_S


def sent_in_order(per_source, reader):
    return sorted(
        (ts, source, row) for source, rows in enumerate(per_source) for row, (ts, owner) in enumerate(rows) if owner == reader
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_oracle_each_reader_gets_its_own_in_order(seed):
    rng = random.Random(seed)
    sources, readers, capacity = rng.randint(1, 4), rng.randint(1, 4), rng.choice([2, 4, 64])
    span = rng.choice([3, 1_000])
    per_source = [
        [(ts, rng.randrange(readers)) for ts in sorted(rng.randint(-span, span) for _ in range(rng.randint(0, 60)))]
        for _ in range(sources)
    ]
    channels = ReaderChannels(sources, readers, capacity)
    done, got, open_sources = [0] * sources, [[] for _ in range(readers)], set(range(sources))
    while open_sources or not all(channels.is_over(reader) for reader in range(readers)):
        if open_sources and rng.random() < 0.5:
            source = rng.choice(sorted(open_sources))
            rows = per_source[source][done[source] : done[source] + rng.randint(1, 8)]
            if rows:
                done[source] += channels.add([ts for ts, _ in rows], [owner for _, owner in rows], source)
            elif done[source] == len(per_source[source]):
                channels.close(source)
                open_sources.discard(source)
        else:
            reader = rng.randrange(readers)
            ready = channels.get_ready(reader, rng.choice([1, 3, 1024]))
            got[reader] += [(record.ts, record.source, record.row) for record in ready]
            # Nothing that may still come is before what was given.
            later = [rows[n][0] for rows, n in zip(per_source, done, strict=True) if n < len(rows)]
            assert all(record.ts <= ts for record in ready for ts in later)
    assert got == [sent_in_order(per_source, reader) for reader in range(readers)]


@pytest.mark.parametrize("sources", [1, 2, 4])
def test_oracle_ready_is_what_the_paper_says_and_all_of_it(sources):
    """Viper's Definition 1 after each tuple: ready is what is not after the smallest of the sources' latest times.

    Of equal times: not after the first source that has it. One that has given nothing holds all back.
    """
    rng = random.Random(sources)
    channels = ReaderChannels(sources, readers=2, capacity=256)
    latest, rows, sent, got = [-1] * sources, [0] * sources, [], [[], []]
    for _ in range(80):
        source, owner = rng.randrange(sources), rng.randrange(2)
        latest[source] = max(latest[source], 0) + rng.randrange(3)
        assert channels.add([latest[source]], [owner], source) == 1
        sent.append((owner, (latest[source], source, rows[source])))
        rows[source] += 1
        limit = min((ts, number) for number, ts in enumerate(latest))
        for reader in (0, 1):
            got[reader] += [(record.ts, record.source, record.row) for record in channels.get_ready(reader)]
            assert got[reader] == sorted(each for to, each in sent if to == reader and each[:2] <= limit)
    assert all(got)


def test_a_silent_source_holds_others_back_until_it_promises():
    channels = ReaderChannels(sources=2)
    channels.add([1, 2, 9], [0, 0, 0], 0)
    assert channels.get_ready() == []
    channels.heartbeat(3, 1)
    assert [record.ts for record in channels.get_ready()] == [1, 2]
    channels.close(1)
    assert [record.ts for record in channels.get_ready()] == [9] and not channels.is_over()
    channels.close(0)
    assert channels.get_ready() == [] and channels.is_over()


def test_equal_times_come_by_source():
    channels = ReaderChannels(sources=2)
    channels.add([5, 5], [0, 0], 1)
    channels.add([5], [0], 0)
    channels.close(0)
    channels.close(1)
    assert [(record.source, record.row) for record in channels.get_ready()] == [(0, 0), (1, 0), (1, 1)]


def test_a_reader_that_is_slow_holds_up_its_senders():
    channels = ReaderChannels(readers=2, capacity=4)
    assert channels.add(range(10), [0] * 10) == 4
    assert channels.add([4], [1]) == 0  # to either reader: promises would not reach the other one
    assert len(channels.get_ready(0)) == 4
    assert channels.add([4], [1]) == 1


def test_what_is_wrong_is_refused():
    channels = ReaderChannels(sources=2, readers=2)
    channels.add([5], [0])
    for call, kind, text in (
        (lambda: channels.add([4], [0]), DisorderError, r"^ts = \[4\]: below 5, which source 0 has added or promised; sort"),
        (lambda: channels.add([6, 8, 7], [0, 0, 0]), DisorderError, r"^ts = \[6, 8, 7\]: 8 comes before 7 at source 0; sort"),
        (lambda: channels.add([5, 3], [0, 0], 1), DisorderError, r"^ts = \[5, 3\]: 5 comes before 3 at source 1; sort"),
        (lambda: channels.add([6], [2]), ParameterError, "owner = 2: out of range; give 0 to 1"),
        (lambda: channels.add([6], [0.5]), ParameterError, "owner = 0.5: must be a whole number"),
        (lambda: channels.add(6, None), ParameterError, "owner = None: must be a whole number; give an int"),
        (lambda: channels.add([6, 7], 0), ParameterError, "owners: 1 for 2 tuples; give one for each"),
        (lambda: channels.add([6.5], [0]), ParameterError, r"^ts = \[6.5\]: event times are whole numbers"),
        (lambda: channels.add([[6], [7, 8]], [0, 0]), ParameterError, r"^ts = \[\[6\], \[7, 8\]\]: event times are whole"),
        (lambda: channels.add([2**70], [0]), ParameterError, "^ts = .*: event times are whole numbers"),
        (lambda: channels.add([2**63 - 1], [0]), EventTimeError, "^ts = .*: out of range"),
        (lambda: channels.heartbeat("soon"), ParameterError, "^ts = 'soon': must be a whole number"),
        (lambda: channels.heartbeat(2**63 - 1), ParameterError, "^ts = .*: out of range"),
        (lambda: channels.add([6, 7], [0]), ParameterError, "1 for 2 tuples"),
        (lambda: channels.add([6], [0], 2), ParameterError, "source = 2"),
        (lambda: channels.get_ready(-1), ParameterError, "reader = -1"),
        (lambda: ReaderChannels(capacity=1), ParameterError, "capacity = 1"),
    ):
        with pytest.raises(kind, match=text):
            call()
    assert channels.add(6, 1) == 1  # a single tuple
    channels.close(1)
    for tuples in ([7], []):
        with pytest.raises(ParameterError, match=r"^source = 1: this source is closed; add nothing after close$"):
            channels.add(tuples, [0] * len(tuples), 1)
    with pytest.raises(ParameterError, match=r"^source = 1: this source is closed; add nothing after close$"):
        channels.heartbeat(9, 1)
    channels.close(1)  # as often as one likes
    assert (channels.close(0), [record.ts for record in channels.get_ready(0)], channels.is_over(0)) == (None, [5], True)


@pytest.mark.slow
@pytest.mark.stress
def test_senders_and_readers_on_threads_of_their_own():
    """Many tuples through few slots: a slot that is written before it is read would show."""
    sources, readers, count = 3, 2, 8_000
    channels = ReaderChannels(sources, readers, capacity=16)
    times = [np.sort(np.random.default_rng(source).integers(0, 10_000, count)) for source in range(sources)]
    owners = [np.random.default_rng(10 + source).integers(0, readers, count) for source in range(sources)]
    got = [[] for _ in range(readers)]
    stop = threading.Event()

    def feed(source):
        done, refs = 0, (source << SOURCE_SHIFT) + np.arange(count)
        heads = channels._heads[source]
        assert refs[-1] & ROW_MASK == count - 1
        while done < count and not stop.is_set():
            rows = (times[source], refs, owners[source], done, min(64, count - done))
            taken = send(channels.queues, source, sources, *rows, 0, heads)
            done += taken
            if not taken:
                time.sleep(0)
        channels.close(source)

    def read(reader):
        while not channels.is_over(reader) and not stop.is_set():
            got[reader] += channels.get_ready(reader)

    threads = [threading.Thread(target=feed, args=(source,), daemon=True) for source in range(sources)]
    threads += [threading.Thread(target=read, args=(reader,), daemon=True) for reader in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    stop.set()
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
    for reader in range(readers):
        wanted = sorted(
            (int(ts), source, row)
            for source in range(sources)
            for row, (ts, owner) in enumerate(zip(times[source], owners[source], strict=True))
            if owner == reader
        )
        assert [(record.ts, record.source, record.row) for record in got[reader]] == wanted
