"""Executors of transactions on a hand-written program: real gate, real rings, real threads.

Records hold an int64 each. An event has a kind, keys, an amount; what it does depends on the order of events:

=======  ========================================================================================
transfer  rejected if the first key's value is below the amount; else moves the amount to the second key
look      the sum of all keys' values
mix       adds up the first half of its keys, and computes each other key from its own value and that sum
put       computes each of its keys from its own value: like a look, it can be split into operations
=======  ========================================================================================
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import numpy as np

from headrace.control.mapping import Mapping
from headrace.egress import rings
from headrace.gates import merged_log, merged_log_kernel, source_kernel
from headrace.memory.atomics import CELL
from headrace.memory.bundle import named
from headrace.memory.cells import read_cell, reserved
from headrace.memory.event_count import signal
from headrace.memory.own_words import own_words
from headrace.progress import END_OF_TIME, NEVER
from headrace.transactions import arrays, words
from headrace.transactions.build import Built
from headrace.transactions.configuration import (
    Configuration,
    family_in_force,
    plan_configuration,
    write_configuration,
)
from headrace.workers import worker_kernel

HANG_S = 180.0
PRIME = 1_000_003
TRANSFER, LOOK, MIX, PUT = range(4)

COMMON = """
from headrace.codegen.modules import compiled as kernel
from headrace.references import ROW_MASK
from headrace.transactions.key_sets_kernel import SET_AT, SET_END, begin_set, end_operations, end_set, note, note_operation
from headrace.transactions.versions_kernel import place_of
from headrace.transactions.words import EVENT_SHIFT, VERSIONED

PRIME = 1_000_003


@kernel
def executor_begins(me, c, s, l):
    s.begun[me] += 1


@kernel
def spend(s, i):
    word = i + 1
    for _ in range(s.work[0]):
        word ^= word << 13
        word ^= word >> 7
        word ^= word << 17
    return word & 1


@kernel
def give_event(me, c, o, x, s, l, i, slot):
    s.result[me, slot] = s.out[i]
    s.result_rejected[me, slot] = s.rejected[i]
"""

PROGRAM = """
@kernel
def place(me, c, l, record):
    return place_of(me, c, l, record) if l[VERSIONED] != 0 else record


@kernel
def prepare_events(me, c, x, s, l, first, last):
    for i in range(first, last):
        e = c.refs[i] & ROW_MASK
        begin_set(c, me)
        kind, size = s.kind[e], s.size[e]
        for j in range(size):
            note(c, me, s.keys[e, j], kind == 0 or kind == 3 or (kind == 2 and 2 * j >= size))
        if not end_set(c, me, i):
            return i
    return last


@kernel
def run_event(me, c, x, s, l, i):
    e = c.refs[i] & ROW_MASK
    kind, size, amount = s.kind[e], s.size[e], s.amount[e]
    s.times[e] += 1
    s.waste[me * 16] ^= spend(s, e)
    s.rejected[i] = 0
    if kind == 0:
        a, b = place(me, c, l, s.keys[e, 0]), place(me, c, l, s.keys[e, 1])
        s.rejected[i] = 1 if s.values[a] < amount else 0
        if s.rejected[i] == 0:
            s.values[a] -= amount
            s.values[b] += amount
        s.out[i] = s.values[b]
        return
    total = 0
    for j in range(size):
        if kind == 1 or (kind == 2 and 2 * j < size):
            total += s.values[place(me, c, l, s.keys[e, j])]
    s.out[i] = total
    if kind == 2:
        for j in range(size):
            if 2 * j >= size:
                k = place(me, c, l, s.keys[e, j])
                s.values[k] = (s.values[k] * 3 + total + j) % PRIME
    if kind == 3:
        for j in range(size):
            k = place(me, c, l, s.keys[e, j])
            s.values[k] = (s.values[k] * 3 + amount + j) % PRIME
            s.out[i] = s.values[k]
"""

SPLIT_PROGRAM = """
@kernel
def prepare_operations(me, c, x, s, l, first, last):
    for i in range(first, last):
        e = c.refs[i] & ROW_MASK
        begin_set(c, me)
        for j in range(s.size[e]):
            at, end = c.filling[me, SET_AT], c.filling[me, SET_END]
            note_operation(c, me, at, end, s.keys[e, j], i << EVENT_SHIFT | j, False)
        if not end_operations(c, me, i):
            return i
    return last


@kernel
def run_operations(me, c, x, s, l, first, last, executed):
    for n in range(first, last):
        o = c.entries[n]
        i, j = c.link[o] >> EVENT_SHIFT, c.link[o] & (1 << EVENT_SHIFT) - 1
        if i >= executed:
            break
        e, k = c.refs[i] & ROW_MASK, c.sets[o] >> 1
        s.waste[me * 16] ^= spend(s, e)
        if s.kind[e] == 3:
            s.values[k] = (s.values[k] * 3 + s.amount[e] + j) % PRIME
        s.blotter[i, j] = s.values[k]


@kernel
def finish_event(me, c, x, s, l, i):
    e = c.refs[i] & ROW_MASK
    s.times[e] += 1
    s.rejected[i] = 0
    s.out[i] = 0
    for j in range(s.size[e]):
        s.out[i] = s.blotter[i, j] if s.kind[e] == 3 else s.out[i] + s.blotter[i, j]
"""


@dataclass
class Events:
    """A stream of events, and the values that records begin with."""

    ts: np.ndarray
    kind: np.ndarray
    size: np.ndarray
    keys: np.ndarray
    amount: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.ts)

    def serial(self):
        """Run one event after another. Returns results, rejections and values."""
        values = self.values.tolist()
        out, rejected = [], []
        for kind, size, keys, amount in zip(
            self.kind.tolist(), self.size.tolist(), self.keys.tolist(), self.amount.tolist(), strict=True
        ):
            if kind == TRANSFER:
                a, b = keys[:2]
                rejected.append(int(values[a] < amount))
                if not rejected[-1]:
                    values[a] -= amount
                    values[b] += amount
                out.append(values[b])
                continue
            rejected.append(0)
            total = sum(values[k] for j, k in enumerate(keys[:size]) if kind == LOOK or (kind == MIX and 2 * j < size))
            out.append(total)
            if kind == PUT:
                for j, k in enumerate(keys[:size]):
                    values[k] = out[-1] = (values[k] * 3 + amount + j) % PRIME
                continue
            if kind == MIX:
                for j, k in enumerate(keys[:size]):
                    if 2 * j >= size:
                        values[k] = (values[k] * 3 + total + j) % PRIME
        return out, rejected, values


def draw(
    seed: int, n: int, records: int, *, longest: int = 4, kinds=(TRANSFER, LOOK, MIX), hot: float = 0.0,
    same: float = 0.0, balance: int = 100, amount: int = 100, skew: float = 0.0,
) -> Events:  # fmt: skip
    """Draw events: `hot`, the share of keys that are record 0; `same`, the share of transfers to oneself."""
    rng = np.random.default_rng(seed)
    longest = max(2, longest)
    if skew:
        weights = 1 / np.arange(1, records + 1) ** skew
        keys = rng.choice(records, (n, longest), p=weights / weights.sum())
    else:
        keys = rng.integers(0, records, (n, longest))
    keys[rng.random((n, longest)) < hot] = 0
    is_same = rng.random(n) < same
    keys[is_same, 1] = keys[is_same, 0]
    kind = rng.choice(np.array(kinds), n)
    size = np.where(kind == TRANSFER, 2, rng.integers(0, longest + 1, n))
    return Events(
        np.sort(rng.integers(-50, 1000, n)), kind.astype(np.int64), size.astype(np.int64), keys.astype(np.int64),
        rng.integers(0, amount + 1, n), np.full(records, balance, np.int64),
    )  # fmt: skip


@dataclass
class Executors:
    """A run of executors over events.

    `planned` are (event count, configuration), in rising order.
    """

    events: Events
    initial: Configuration
    max_threads: int = 8
    planned: list = field(default_factory=list)
    capacity: int = 8192
    operations: int = 0
    ring: int = 0
    gate_capacity: int = 1 << 14
    work: int = 0
    spins: int = 0
    max_delay_ns: int = 10_000_000
    can_split: bool = False
    skip_lists: bool = False

    def __post_init__(self):
        n, threads = len(self.events), self.max_threads
        self.gate = merged_log.allocate(1, 1, self.gate_capacity)
        merged_log_kernel.join_reader(self.gate, 0, 0, 1)
        records, operations = len(self.events.values), arrays.operations_of(self.capacity, self.operations)
        rows = reserved(records + 2 + 2 * operations, np.int64)
        rows[:records], rows[records] = self.events.values, NEVER
        self.c = arrays.allocate(
            threads, records, self.capacity, operations, len(self.planned), max_delay_ns=self.max_delay_ns,
            table_rows=rows, table_places=np.array([[0, 0, 1], [records, records + 2, 2]]),
            skip_lists=self.skip_lists,
        )  # fmt: skip
        self.c.words[worker_kernel.SPIN] = self.spins
        write_configuration(self.c, 0, self.initial, self.can_split)
        for index, (at, configuration) in enumerate(self.planned):
            plan_configuration(self.c, index, at, configuration, self.can_split)
        ring = self.ring or max(2, 1 << max(1, n).bit_length())
        self.out = rings.allocate(threads, ring, self.c.meter)
        arrays.activate(self.c, self.out)
        e = self.events
        self.s = named(
            values=rows, kind=e.kind, size=e.size, keys=np.ascontiguousarray(e.keys), amount=e.amount,
            out=np.zeros(self.capacity, np.int64), rejected=np.zeros(self.capacity, np.int64),
            result=reserved(threads * ring, np.int64).reshape(threads, ring),
            result_rejected=reserved(threads * ring, np.int64).reshape(threads, ring),
            blotter=np.zeros((self.capacity, e.keys.shape[1]), np.int64),
            times=np.zeros(max(1, n), np.int64), begun=np.zeros(threads, np.int64), waste=np.zeros(threads * 16, np.int64),
            work=np.array([self.work]),
        )  # fmt: skip
        self.modules = {"whole": Built(COMMON + PROGRAM, "whole", "test_whole")}
        if self.can_split:
            self.modules["operations"] = Built(COMMON + SPLIT_PROGRAM, "operations", "test_operations")
        self.words = [own_words(words.PRIVATE_WORDS) for _ in range(threads)]
        self.rows: list[tuple] = []
        self.error: BaseException | None = None
        for module in self.modules.values():
            module.compile(self.arguments(0))

    @property
    def values(self) -> np.ndarray:
        """The records' values, now."""
        return self.s.values[: len(self.events.values)]

    def arguments(self, me: int) -> tuple:
        return me, self.gate, self.c, self.out, np.zeros((1, 1), np.int64), self.s, self.words[me]

    def _run(self, me: int) -> None:
        try:
            while self.modules[family_in_force(self.c)].run(*self.arguments(me)) == 1:
                pass
        except BaseException as error:
            self.error = error
            self.stop()

    def start(self) -> None:
        self.threads = [threading.Thread(target=self._run, args=(me,), daemon=True) for me in range(self.max_threads)]
        for thread in self.threads:
            thread.start()

    def feed(self, start: int = 0, stop: int | None = None) -> None:
        """Feed events; results are collected meanwhile."""
        stop = len(self.events) if stop is None else stop
        until = time.monotonic() + HANG_S
        while start < stop and not self.is_stopped:
            start += source_kernel.add_or_wait(self.gate, 0, self.events.ts, start, stop - start, start, self.c.words)
            if self.ring:
                self.collect()
            assert time.monotonic() < until, self.state()

    def beat(self, ts: int) -> None:
        while not source_kernel.heartbeat(self.gate, 0, ts):
            pass

    def close(self) -> None:
        while not source_kernel.close_or_wait(self.gate, 0, self.c.words) and not self.is_stopped:
            pass

    @property
    def is_stopped(self) -> bool:
        return read_cell(self.c.words, worker_kernel.STOP) != 0

    def collect(self) -> None:
        for r in range(self.max_threads):
            head, tail = read_cell(self.out.head, r * CELL), int(self.out.tail[r * CELL])
            slots = np.arange(tail, head) & (self.out.primary.shape[1] - 1)
            columns = (self.out.primary, self.out.a, self.out.b, self.s.result, self.s.result_rejected)
            self.rows += zip(*(column[r, slots].tolist() for column in columns), strict=True)
            rings.drained(self.out, r, head)

    def state(self) -> str:
        names = ("CONFIG", "PHASE", "ARRIVED", "COUNT", "FIT", "SEEN", "OVER", "FINISHED", "CHANGE", "PLANNED", "REQUEST", "TURN")
        cells = {name: int(read_cell(self.c.words, getattr(words, name))) for name in names}
        return f"hangs: {cells}, reading {self.c.reading[::CELL].tolist()}, pending {self.c.pending[:10].tolist()}"

    def wait(self) -> None:
        """Wait until the input has ended and all results have been collected."""
        until = time.monotonic() + HANG_S
        while not self.is_stopped:
            self.collect()
            threads = int(self.c.rows[read_cell(self.c.words, words.CONFIG), words.THREADS])
            if read_cell(self.c.words, words.OVER) and read_cell(self.c.words, words.FINISHED) == threads:
                break
            assert time.monotonic() < until, self.state()
            time.sleep(2e-4)
        self.collect()

    def stop(self) -> None:
        worker_kernel.stop_workers(self.c)
        rings.stop_output(self.out)
        signal(self.gate.words, merged_log_kernel.READERS_WAITING, self.gate.event, merged_log_kernel.DATA_EVENT)
        signal(self.gate.words, merged_log_kernel.SOURCES_WAITING, self.gate.event, merged_log_kernel.SPACE_EVENT)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(HANG_S)
            assert not thread.is_alive(), self.state()
        if self.error is not None:
            raise self.error

    def run(self) -> Executors:
        """Run from start to stop."""
        self.start()
        try:
            self.feed()
            self.close()
            self.wait()
        finally:
            self.stop()
        self.join()
        return self

    def check(self) -> None:
        """Check that results, their order and marks, and the values are those of running one event after another."""
        out, rejected, values = self.events.serial()
        rows = sorted(self.rows)
        assert [row[0] for row in rows] == list(range(len(self.events))), "positions"
        assert self.s.times.tolist()[: len(self.events)] == [1] * len(self.events), "an event ran twice, or not at all"
        assert [row[1] for row in rows] == list(range(len(self.events))), "refs"
        assert [row[2] for row in rows] == self.events.ts.tolist(), "event times"
        assert [row[4] for row in rows] == rejected, "rejections differ"
        assert [row[3] for row in rows] == out, "results differ"
        assert self.values.tolist() == values, "tables differ"
        assert self.out.mark[::CELL].tolist() == [END_OF_TIME] * self.max_threads, "marks"


def configuration(threads=2, scheme="serial", sharing="nothing", punctuation=100, mapping=None) -> Configuration:
    return Configuration(threads, scheme, sharing, punctuation, mapping or Mapping.even(threads))
