"""The band join in one compiled loop on one thread: 1T of STRETCH, section 8.3, and the plain loop of the peers.

It compares as the engine's kernel does, so that the ratio of the two shows what the engine adds: narrow columns,
blocks of `BLOCK` rows in the first-level cache, vectors as wide as is worthwhile, and `PROBES` tuples compared in one pass
over a block. A pass may give false positives. A block with any hit is scanned again, `FINE` rows at a time, and in pieces
with a hit each pair is evaluated exactly.

Up to `PROBES` tuples of each side are taken in time order, and then compared. Rows in the windows of all of them are
compared with all at once; the few rows that are in the windows of only some are compared pair by pair. So one pass over the
stored rows serves four tuples. With one tuple a pass, the loop would be bound by memory, not by comparisons.
"""

from __future__ import annotations

import numpy as np

from headrace.codegen.parts import EntryCompiler
from headrace.kernel import kernel
from headrace.memory.wrapped import wrapped_sum
from headrace.references import SOURCE_SHIFT
from headrace_bench.digest import mix
from headrace_bench.resident import digest_one

WIDTH = 10
LEFT, RIGHT = 0, 1 << SOURCE_SHIFT
BLOCK = 256
FINE = 32
PROBES = 4

COUNT, REFERENCES, ROWS = range(3)
"""Results of `join_loop`: number of pairs; their hash as the engine's results (`digest_one`), and as the peers' rows (`mix`)."""


@kernel(pipeline=EntryCompiler)
def join_loop(ts, x, y, other_ts, a, b, size, first, out):
    """Compare each tuple with the earlier ones of the other side that are less than `size` older.

    Parameters
    ----------
    ts, other_ts : int64[n]
        Times of the left and the right side, each in order; of two equal times the left one comes first.
    x, a : int32[n]
    y, b : float32[n]
    size : int
        WS.
    first : int
        Tuples of each side that are stored beforehand: later tuples are compared with them, but they are not with each other.
    out : int64[3]
        Added to: see `COUNT`.
    """
    i = j = first
    left_from = right_from = 0  # the first that is less than `size` older
    starts = np.zeros((2, PROBES), np.int64)
    stops = np.zeros((2, PROBES), np.int64)
    while i < ts.size or j < other_ts.size:
        lefts = rights = 0
        while True:
            if i < ts.size and (j == other_ts.size or ts[i] <= other_ts[j]):
                if lefts == PROBES:
                    break
                while right_from < j and ts[i] - other_ts[right_from] >= size:
                    right_from += 1
                starts[0, lefts] = right_from
                stops[0, lefts] = j
                lefts += 1
                i += 1
            elif j < other_ts.size:
                if rights == PROBES:
                    break
                while left_from < i and other_ts[j] - ts[left_from] >= size:
                    left_from += 1
                starts[1, rights] = left_from
                stops[1, rights] = i
                rights += 1
                j += 1
            else:
                break
        if lefts > 0:
            compare(a, b, x, y, ts, i - lefts, lefts, starts[0], stops[0], False, 1, 0, out)
        if rights > 0:
            compare(x, y, a, b, other_ts, j - rights, rights, starts[1], stops[1], True, 1, 0, out)


@kernel(pipeline=EntryCompiler)
def compare(xs, ys, probe_x, probe_y, probe_ts, first, count, starts, stops, is_right, share, me, out):
    """Compare `count` tuples, from number `first` on, each with the other side's rows in its window.

    Row r is tuple ``r * share + me`` of its side: all tuples are here with a `share` of 1, else every `share`-th.
    """
    common = starts[count - 1]  # windows only move forward
    until = max(common, stops[0])
    for q in range(count):
        k = first + q
        confirm(xs, ys, starts[q], min(common, stops[q]), probe_x[k], probe_y[k], probe_ts[k], k, is_right, share, me, out)
        confirm(xs, ys, until, stops[q], probe_x[k], probe_y[k], probe_ts[k], k, is_right, share, me, out)
    k0, k1, k2, k3 = first, first + min(1, count - 1), first + min(2, count - 1), first + count - 1
    low0, low1 = np.int32(probe_x[k0] - WIDTH), np.int32(probe_x[k1] - WIDTH)
    low2, low3 = np.int32(probe_x[k2] - WIDTH), np.int32(probe_x[k3] - WIDTH)
    y0, y1, y2, y3 = probe_y[k0], probe_y[k1], probe_y[k2], probe_y[k3]
    for start in range(common, until, BLOCK):
        stop = min(until, start + BLOCK)
        if not any_near(xs[start:stop], ys[start:stop], low0, low1, low2, low3, y0, y1, y2, y3):
            continue
        for fine in range(start, stop, FINE):
            end = min(stop, fine + FINE)
            if any_near(xs[fine:end], ys[fine:end], low0, low1, low2, low3, y0, y1, y2, y3):
                for k in range(first, first + count):
                    confirm(xs, ys, fine, end, probe_x[k], probe_y[k], probe_ts[k], k, is_right, share, me, out)


@kernel(pipeline=EntryCompiler)
def any_near(xs, ys, low0, low1, low2, low3, y0, y1, y2, y3):
    """Whether any row may match any of four probes, each given by the lower end of its band in x and by its y."""
    width = np.float32(WIDTH + 0.01)
    span = np.uint32(2 * WIDTH)
    found = False
    for i in range(xs.size):
        # One comparison of integers: the unsigned distance from the lower end.
        found = found | (
            ((np.uint32(xs[i] - low0) <= span) & (abs(ys[i] - y0) <= width))
            | ((np.uint32(xs[i] - low1) <= span) & (abs(ys[i] - y1) <= width))
            | ((np.uint32(xs[i] - low2) <= span) & (abs(ys[i] - y2) <= width))
            | ((np.uint32(xs[i] - low3) <= span) & (abs(ys[i] - y3) <= width))
        )
    return found


@kernel(pipeline=EntryCompiler)
def confirm(xs, ys, start, stop, x, y, ts, number, is_right, share, me, out):
    """Evaluate the condition exactly for rows `start` to `stop`, and fold the pairs that meet it."""
    for row in range(start, stop):
        if x - WIDTH <= xs[row] <= x + WIDTH and abs(np.float64(ys[row]) - np.float64(y)) <= WIDTH:
            out[COUNT] += 1
            other = row * share + me
            if is_right:
                out[REFERENCES] = wrapped_sum(out[REFERENCES], digest_one(RIGHT + number, LEFT + other, ts))
                out[ROWS] = wrapped_sum(out[ROWS], mix(ts + 1, other, number, 0, 0))
            else:
                out[REFERENCES] = wrapped_sum(out[REFERENCES], digest_one(LEFT + number, RIGHT + other, ts))
                out[ROWS] = wrapped_sum(out[ROWS], mix(ts + 1, number, other, 0, 0))
