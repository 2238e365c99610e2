"""Compiled sources and readers for benchmarks: no Python between one tuple and the next.

Written for the merged log; `headrace.gates.variants.put_on` gives the same for another gate.
"""

import numpy as np

from headrace.gates.merged_log_kernel import advance, lane, peek
from headrace.gates.reader_kernel import await_records
from headrace.gates.source_kernel import add, add_or_wait, close_or_wait
from headrace.ingress.store import CHUNK
from headrace.ingress.store_kernel import chunk_of, place_of
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire, nanosleep, now_ns, pause, view_i32, view_i64
from headrace.memory.wrapped import wrapped_product, wrapped_sum
from headrace.progress import END_OF_TIME
from headrace.references import HEARTBEAT

READ_RECORDS = 1024
FACTOR = 31


@kernel
def feed(g, source, ts, first_row, batch, spins, stop, close):
    """Add all of `ts` as fast as the gate takes it. `spins`: tries before it sleeps, 0 with more threads than cores."""
    done = 0
    tries = 0
    while done < ts.size and load_acquire(stop, 0) == 0:
        count = min(batch, ts.size - done)
        if tries < spins:
            taken = add(g, source, ts, done, count, first_row + done)
        else:
            taken = add_or_wait(g, source, ts, done, count, first_row + done, stop)
        done += taken
        tries = 0 if taken > 0 else tries + 1
        if 0 < tries <= spins:
            pause()
    if close:
        while close_or_wait(g, source, stop) == 0 and load_acquire(stop, 0) == 0:
            pass
    return done


@kernel
def due_tuples(begin, done, total, per_second):
    """Sleep until more than `done` tuples are due at a steady rate, and return how many of `total` are due.

    A sleep takes some 100 us, so tuples become due in batches. The wait never
    spins: there may be more threads than cores.
    """
    while True:
        due = min(total, (now_ns() - begin) * per_second // 1_000_000_000 + 1)
        if due > done:
            return due
        nanosleep(max(50_000, begin + (done * 1_000_000_000) // per_second - now_ns()))


@kernel
def feed_paced(g, source, ts, first_row, per_second, begin_at, stop, close):
    """Add all of `ts` at a steady rate without drift, in batches as small as the clock allows.

    Merged sources begin at the same time of the monotonic clock,
    ``begin_at[0]``: otherwise the tuples of one source would always wait for those of another.
    """
    begin = begin_at[0]
    done = 0
    while done < ts.size and load_acquire(stop, 0) == 0:
        due = due_tuples(begin, done, ts.size, per_second)
        done += add_or_wait(g, source, ts, done, due - done, first_row + done, stop)
    if close:
        while close_or_wait(g, source, stop) == 0 and load_acquire(stop, 0) == 0:
            pass
    return done


@kernel
def feed_when_due(g, source, ts, first_row, begin_at, stop, close):
    """Add each tuple at its own time, in microseconds from ``begin_at[0]`` on, in batches as small as the clock allows."""
    begin = begin_at[0]
    done = 0
    while done < ts.size and load_acquire(stop, 0) == 0:
        now = now_ns()
        due = done
        while due < ts.size and begin + ts[due] * 1_000 <= now:
            due += 1
        if due == done:
            nanosleep(max(50_000, begin + ts[done] * 1_000 - now))
            continue
        while done < due and load_acquire(stop, 0) == 0:
            done += add_or_wait(g, source, ts, done, due - done, first_row + done, stop)
    if close:
        while close_or_wait(g, source, stop) == 0 and load_acquire(stop, 0) == 0:
            pass
    return done


@kernel
def feed_mapped(g, source, times, offsets, keys, ts_at, keys_at, per_second, begin_at, batch, stop):
    """Run a Map that makes a tuple for each key of each tuple that comes, and add these as they are made.

    Parameters
    ----------
    times : int64[tuples]
        Event times of the tuples that come.
    offsets, keys : int64[tuples + 1], int32[keys]
        Their keys: those of tuple i are ``keys[offsets[i]:offsets[i + 1]]``.
    ts_at, keys_at : int64[chunks]
        Addresses of the arrays that the Map's tuples are written to, those of the source's store.
    per_second : int
        How many tuples a second it makes; 0: as fast as it can.
    """
    begin = begin_at[0]
    done = tweet = 0
    while done < keys.size and load_acquire(stop, 0) == 0:
        chunk, place = chunk_of(done), place_of(done)
        until = min(keys.size, done + min(batch, CHUNK - place))
        if per_second > 0:
            until = min(until, due_tuples(begin, done, keys.size, per_second))
        out_ts, out_keys = view_i64(ts_at[chunk], CHUNK), view_i32(keys_at[chunk], CHUNK)
        for row in range(done, until):
            while offsets[tweet + 1] <= row:
                tweet += 1
            out_ts[place_of(row)], out_keys[place_of(row)] = times[tweet], keys[row]
        while done < until and load_acquire(stop, 0) == 0:
            done += add_or_wait(g, source, out_ts, place_of(done), until - done, done, stop)
    while close_or_wait(g, source, stop) == 0 and load_acquire(stop, 0) == 0:
        pass
    return done


@kernel
def feed_cycles(g, source, ts, period, per_second, begin_at, batch, enough, stop):
    """Add the same rows in cycles, ``enough[0]`` times, each cycle `period` later in event time.

    ``enough[0]`` may be lowered during the run; a cycle that has begun is finished.
    `per_second` = 0: as fast as the gate takes it. Returns the number of cycles.
    """
    shifted = np.empty(batch, np.int64)
    begin = begin_at[0]
    cycles = 0
    while load_acquire(stop, 0) == 0 and (cycles == 0 or cycles < load_acquire(enough, 0)):
        row = 0
        while row < ts.size and load_acquire(stop, 0) == 0:
            n = min(batch, ts.size - row)
            if per_second > 0:
                fed = cycles * ts.size + row
                n = min(n, due_tuples(begin, fed, fed + n, per_second) - fed)
            for i in range(n):
                shifted[i] = ts[row + i] + cycles * period
            done = 0
            while done < n and load_acquire(stop, 0) == 0:
                done += add_or_wait(g, source, shifted, done, n - done, row + done, stop)
            row += done
        cycles += 1
    while close_or_wait(g, source, stop) == 0 and load_acquire(stop, 0) == 0:
        pass
    return cycles


@kernel
def feed_ticks(g, source, ticks, period_ns, begin, stop):
    """Add one tuple at each tick of the clock; sources of one gate tick together."""
    ts = np.empty(1, np.int64)
    for tick in range(ticks):
        due = begin + tick * period_ns
        wait = due - now_ns()
        while wait > 0:
            nanosleep(wait)
            wait = due - now_ns()
        ts[0] = tick
        while add_or_wait(g, source, ts, 0, 1, tick, stop) == 0 and load_acquire(stop, 0) == 0:
            pass
    while close_or_wait(g, source, stop) == 0 and load_acquire(stop, 0) == 0:
        pass


@kernel
def read_all(g, reader, spins, waits, out, stop):
    """Read to the end of the input. Fold the tuples into ``out[reader, 0]``, count them in ``out[reader, 1]``.

    `waits` is filled with the nanoseconds from each tuple's `add` to its arrival here, as far as it has room.
    """
    row = lane(g, reader)
    position = load_acquire(g.cursor, reader * CELL)
    folded = np.int64(0)
    tuples = 0
    done = False
    while not done and load_acquire(stop, 0) == 0:
        start, count = peek(g, reader, position, READ_RECORDS)
        if count == 0:
            await_records(g, reader, position, spins, stop)
            continue
        ts = g.out_ts[row, start : start + count]
        refs = g.out_ref[row, start : start + count]
        if waits.size > 0:
            now = now_ns()
            for i in range(count):
                if refs[i] >= 0 and tuples + i < waits.size:
                    waits[tuples + i] = now - g.out_at[row, start + i]
        taken = 0
        for i in range(count):
            if refs[i] >= 0:
                folded = wrapped_sum(wrapped_product(folded, FACTOR), ts[i] ^ refs[i])
                taken += 1
            elif refs[i] == HEARTBEAT and ts[i] == END_OF_TIME:
                done = True
                break
        tuples += taken
        position += count
        advance(g, reader, position)
    out[reader, 0] = folded
    out[reader, 1] = tuples
