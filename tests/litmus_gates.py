"""The compiled threads of the gates' litmus tests: sources and readers as the engine runs them.

A kernel can call the kernels of one gate only, so they are made once for each.
"""

from __future__ import annotations

import threading
from types import ModuleType, SimpleNamespace

import numpy as np
from numba import njit

from headrace.gates import gate_modules, reader_kernel
from headrace.gates.variants import put_on, source_kernels
from headrace.memory.atomics import CELL, fetch_add, load_acquire, nanosleep, pause, store_release
from headrace.progress import END_OF_TIME


def compile_threads(kernels: ModuleType, sources: ModuleType, readers: ModuleType) -> SimpleNamespace:
    add, await_records = sources.add, readers.await_records
    add_or_wait, heartbeat_or_wait, close_or_wait = sources.add_or_wait, sources.heartbeat_or_wait, sources.close_or_wait
    peek, advance, lane, control = kernels.peek, kernels.advance, kernels.lane, kernels.control
    open_membership, close_membership = kernels.open_membership, kernels.close_membership
    join_reader, leave_reader = kernels.join_reader, kernels.leave_reader
    add_source, remove_source = kernels.add_source, kernels.remove_source
    go_on = np.zeros(1, np.int64)
    compiled = njit(nogil=True, error_model="numpy")

    @compiled
    def feed(g, source, ts, batch, first):
        done = 0
        while done < ts.size:
            done += add_or_wait(g, source, ts, done, min(batch, ts.size - done), first + done, go_on)

    @compiled
    def source(g, s, ts, batch):
        feed(g, s, ts, batch, 0)
        while close_or_wait(g, s, go_on) == 0:
            pass

    @compiled
    def beat(g, s, ts):
        for i in range(ts.size):
            while heartbeat_or_wait(g, s, ts[i], go_on) == 0:
                pass
        while close_or_wait(g, s, go_on) == 0:
            pass

    @compiled
    def request(g, count, rest, stop):
        """Place controls, one after the other; `stop` once readers are done, which then meet none."""
        for epoch in range(1, count + 1):
            while control(g, epoch) == 0:
                if load_acquire(stop, 0) != 0:
                    return epoch - 1
                nanosleep(1)
            for _ in range(rest):
                pause()
        return count

    @compiled
    def read(g, reader, out_ts, out_ref, batch):
        """Read to the end of input. Returns how many records, the end among them."""
        position = 0
        row = lane(g, reader)
        while True:
            start, count = peek(g, reader, position, batch)
            if count == 0:
                await_records(g, reader, position, 0, go_on)
                continue
            for i in range(count):
                out_ts[position] = g.out_ts[row, start + i]
                out_ref[position] = g.out_ref[row, start + i]
                position += 1
                if out_ref[position - 1] == -1 and out_ts[position - 1] == END_OF_TIME:
                    advance(g, reader, position)
                    return position
            advance(g, reader, position)

    @compiled
    def member(g, me, words, changes, member_of, wanted, out_ts, out_ref, batch):
        """A pooled worker; see `gate_cases.member`. Marks what it read at its position in `out`."""
        activation = 0
        position = 0
        epoch = 0
        row = lane(g, me)
        epochs = changes.size
        last = 0
        for r in range(member_of.shape[1]):
            last += member_of[epochs, r]
        while load_acquire(words, 2 * CELL) < last:
            active = load_acquire(g.reading, me * CELL)
            if active == 0:
                activation = 0
                nanosleep(1)
                continue
            if active != activation:
                activation = active
                position = load_acquire(g.cursor, me * CELL)
                epoch = activation - 1
                while load_acquire(words, CELL) < epoch:
                    nanosleep(1)  # a member already, but the epoch is not in force yet
            until = changes[epoch] if epoch < epochs else wanted
            if position >= until:
                if epoch == epochs:
                    fetch_add(words, 2 * CELL, 1)
                    return
                members = 0
                for r in range(member_of.shape[1]):
                    members += member_of[epoch, r]
                if fetch_add(words, 0, 1) == members - 1:
                    store_release(words, 0, 0)
                    while not open_membership(g):
                        pause()
                    for r in range(member_of.shape[1]):
                        if member_of[epoch, r] == 0 and member_of[epoch + 1, r] != 0:
                            join_reader(g, r, position, epoch + 2)
                        if member_of[epoch, r] != 0 and member_of[epoch + 1, r] == 0:
                            leave_reader(g, r)
                    close_membership(g)
                    store_release(words, CELL, epoch + 1)
                else:
                    while load_acquire(words, CELL) <= epoch:
                        nanosleep(1)
                epoch += 1
                continue
            start, count = peek(g, me, position, min(batch, until - position))
            if count == 0:
                await_records(g, me, position, 0, go_on)
                continue
            for i in range(count):
                out_ts[position + i] = g.out_ts[row, start + i]
                out_ref[position + i] = g.out_ref[row, start + i]
            position += count
            advance(g, me, position)

    @compiled
    def come_and_go(g, s, ts, rounds, batch, gap, stop):
        """Join as a source, add, leave, again and again; times from the smallest allowed on."""
        row = 0
        times = np.empty(ts.size, np.int64)
        for _ in range(rounds):
            if load_acquire(stop, 0) != 0:
                return row
            taken = 0
            while taken == 0 and load_acquire(stop, 0) == 0:
                while not open_membership(g):
                    pause()
                taken = add_source(g, s)
                close_membership(g)
                if taken == 0:
                    nanosleep(20_000)
            if taken == 0:
                return row
            floor = load_acquire(g.mark, s * CELL)
            for i in range(ts.size):
                times[i] = floor + i * gap
            feed(g, s, times, batch, row)
            row += ts.size
            while not open_membership(g):
                pause()
            remove_source(g, s)
            close_membership(g)
        return row

    return SimpleNamespace(**locals())


_compiled: dict[str, SimpleNamespace] = {}


def threads_of(gate: str) -> SimpleNamespace:
    """The compiled threads of a gate, and its `allocate`; compiled at the first call."""
    if gate not in _compiled:
        handle, kernels = gate_modules(gate)
        _compiled[gate] = compile_threads(kernels, source_kernels(gate), put_on(reader_kernel, gate))
        _compiled[gate].allocate = handle.allocate
    return _compiled[gate]


def join_all(k, g, readers):
    assert k.open_membership(g)
    for reader in readers:
        k.join_reader(g, reader, 0, 1)
    k.close_membership(g)


def run_all(calls, seconds=300.0):
    """Run each (function, *arguments) on a thread of its own; returns their results."""
    results = [None] * len(calls)

    def run(index, function, arguments):
        results[index] = function(*arguments)

    threads = [
        threading.Thread(target=run, args=(i, call[0], call[1:]), daemon=True) for i, call in enumerate(calls)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
    return results
