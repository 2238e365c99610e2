"""The two operators of Linear Road, their data, and the work of a sink: the same for all sides.

Tuples are stored in columns, written before the start; a channel carries times and references to them. An operator
writes its results as rows of its own and sends their references on. All sides call `apply` and `fold_one`,
so that they differ only in how tuples travel.

State       ``clock[0]`` is the start time, set by the first injector, and 0 before: all injectors count from it
Invariants  I1  a car belongs to one instance; only this instance accesses the car's cell of `last`
            I2  row r of an instance's results is written before a channel publishes its reference
"""

from typing import NamedTuple

import numpy as np

from headrace.gates.merged_log_kernel import CONTROL_RESERVE
from headrace.kernel import kernel
from headrace.memory.atomics import compare_exchange, load_acquire, nanosleep, now_ns
from headrace.memory.bundle import by_reference
from headrace.memory.wrapped import wrapped_product, wrapped_sum

POS_REP, NEW_SEG = 0, 1
SEGMENTS = 100

BATCH = 128  # tuples that an injector hands over at once by default
READ = 1024  # tuples that a reader takes at once
CAPACITY = (1 << 13) - CONTROL_RESERVE  # tuples between one stage and the next

_A, _B, _FACTOR = 0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 31


@by_reference
class Work(NamedTuple):
    """Inputs of all injectors, operator state, and results of all instances; every thread reads them in place."""

    ts: np.ndarray  # int64[injectors, rows]: microseconds, no two equal
    kind: np.ndarray  # int32[injectors, rows], like the seven that follow: the benchmark's type
    vid: np.ndarray
    spd: np.ndarray
    xway: np.ndarray
    lane: np.ndarray
    dir: np.ndarray
    seg: np.ndarray
    pos: np.ndarray
    order: np.ndarray  # int64[injectors, rows]: where the tuple stands among those of all injectors
    instance: np.ndarray  # uint8[injectors, rows]: whose car it is
    last: np.ndarray  # int32[vehicles]: the segment a car was last seen in, -1 = none
    first: np.ndarray  # int64[instances, results]: car and segment
    second: np.ndarray  # int64[instances, results]: what else the operator reports
    born: np.ndarray  # int64[instances, results]: when the tuple it stems from was injected, monotonic ns
    sink: np.ndarray  # uint8[instances, results]: which sink gets it, by segment


@kernel
def apply(w, operator, source, row, born, instance, made):
    """Apply an operator to one tuple, and write a result to row `made` of the instance. Returns 1 if there is a result."""
    if w.kind[source, row] != 0:
        return 0
    vid = np.int64(w.vid[source, row])
    segment = (np.int64(w.xway[source, row]) * 2 + w.dir[source, row]) * SEGMENTS + w.seg[source, row]
    if operator == NEW_SEG:
        second = np.int64(w.last[vid])
        if second == segment:
            return 0
        w.last[vid] = segment  # I1
    else:
        second = (np.int64(w.spd[source, row]) << 8 | w.lane[source, row]) << 32 | w.pos[source, row]
    w.first[instance, made] = vid << 32 | segment
    w.second[instance, made] = second
    w.born[instance, made] = born
    w.sink[instance, made] = segment % w.first.shape[0]
    return 1


@kernel
def begin_all(clock):
    """Return the start time of all injectors: the time at which the first of them called this."""
    if load_acquire(clock, 0) == 0:
        compare_exchange(clock, 0, 0, now_ns())
    return load_acquire(clock, 0)


@kernel
def due_in_order(order, done, begin, per_second, batch):
    """Sleep until more than `done` of an injector's tuples are due, at a steady total rate, and return how many are.

    So tuples of all injectors come nearly in the order of their event times, and latency does not include differences
    between injectors. At most `batch` more become due at once; at rate 0, `batch` more are always due.
    """
    end = min(order.size, done + batch)
    if per_second == 0:
        return end
    while True:
        reached = (now_ns() - begin) * per_second // 1_000_000_000 + 1
        due = done
        while due < end and order[due] < reached:
            due += 1
        if due > done:
            return due
        nanosleep(max(50_000, begin + order[done] * 1_000_000_000 // per_second - now_ns()))


@kernel
def fold_one(folded, ts, first, second):
    """Add a result to the hash of all earlier results; the hash depends on their order."""
    return wrapped_sum(wrapped_product(folded, _FACTOR), ts ^ wrapped_product(first, _A) ^ wrapped_product(second, _B))


@kernel
def fold(ts, first, second):
    """The hash of a whole sequence."""
    folded = np.int64(0)
    for i in range(ts.size):
        folded = fold_one(folded, ts[i], first[i], second[i])
    return folded
