"""Merge several rings into one, in the order (ts, source, position): those of a gate's sources, or of a reader's own queues.

The caller owns what is read and written: it is the holder of FLAG in `merged_log_kernel`, the reader in `channels_kernel`.
`g` has the rings (``ring_*``), what they are merged into (``out_*[0]``), and in `scratch`, for each ring: NEXT_AT, its next
record; UNTIL, the end of the records that may be moved; NEXT_TS, the ts of the next record, NOTHING if there is none. (The
other rows are for `content_kernel`, which merges by content.)

Records before (`limit_ts`, `limit_source`) are moved, since no earlier record than these can come; they are written from `end`
on, up to `stop`. Both kernels return the new end, and the source of the last record.

Checked     tests/headrace/gates (test_gates, test_interleave, test_channels)
"""

from headrace.gates.membership_kernel import NOTHING
from headrace.kernel import kernel
from headrace.memory.atomics import prefetch, prefetch_for_write

NEXT_AT, UNTIL, NEXT_TS, NEXT_RANK, NEXT_ROW, NEXT_MARK, SCRATCH_ROWS = range(7)
"""Rows of `scratch`, and how many there are."""
RUN = 8
"""Records of one source that are moved without comparing them with others, once the last of them is known to come first."""
LINE = 8
"""int64 words in a cache line."""


@kernel
def move_two(g, limit_ts, limit_source, end, stop):
    """Merge two rings without a branch that depends on which record comes first.

    With two randomly interleaved sources this takes 6 ns a record, where choosing by a branch takes 12.
    """
    at, until, next_ts = g.scratch[NEXT_AT], g.scratch[UNTIL], g.scratch[NEXT_TS]
    ring_ts, ring_ref, ring_at = g.ring_ts, g.ring_ref, g.ring_at
    out_ts, out_ref, out_at = g.out_ts, g.out_ref, g.out_at
    mask = ring_ts.shape[1] - 1
    log_mask = out_ts.shape[1] - 1
    at_0, at_1 = at[0], at[1]
    until_0, until_1 = until[0], until[1]
    ts_0, ts_1 = next_ts[0], next_ts[1]
    last_source = 0
    while end < stop:
        second = ts_1 < ts_0
        ts = ts_1 if second else ts_0
        best = 1 if second else 0
        if ts >= limit_ts and (ts == NOTHING or ts > limit_ts or best > limit_source):
            break
        p = at_1 if second else at_0
        slot = p & mask
        to = end & log_mask
        out_ts[0, to] = ts
        out_ref[0, to] = ring_ref[best, slot]
        out_at[0, to] = ring_at[best, slot]
        end += 1
        p += 1
        following = ring_ts[best, p & mask]
        if p >= (until_1 if second else until_0):
            following = NOTHING
        ts_1 = following if second else ts_1
        ts_0 = ts_0 if second else following
        at_1 = p if second else at_1
        at_0 = at_0 if second else p
        last_source = best
    at[0], at[1] = at_0, at_1
    return end, last_source


@kernel
def move_many(g, limit_ts, limit_source, end, stop):
    """Merge any number of rings: find the first of their next records, and move it and the run that follows it."""
    at, until, next_ts = g.scratch[NEXT_AT], g.scratch[UNTIL], g.scratch[NEXT_TS]
    ring_ts, ring_ref, ring_at = g.ring_ts, g.ring_ref, g.ring_at
    out_ts, out_ref, out_at = g.out_ts, g.out_ref, g.out_at
    mask = ring_ts.shape[1] - 1
    log_mask = out_ts.shape[1] - 1
    last_source = 0
    while end < stop:
        best = 0
        ts = next_ts[0]
        second_ts = limit_ts
        for s in range(1, at.size):
            other = next_ts[s]
            is_less = other < ts
            second_ts = min(second_ts, ts if is_less else other)
            ts = other if is_less else ts
            best = s if is_less else best
        if ts >= limit_ts and (ts == NOTHING or ts > limit_ts or best > limit_source):
            break
        p = at[best]
        slot = p & mask
        to = end & log_mask
        out_ts[0, to] = ts
        out_ref[0, to] = ring_ref[best, slot]
        out_at[0, to] = ring_at[best, slot]
        p += 1
        end += 1
        last = min(until[best], p + stop - end)
        while p + RUN <= last and ring_ts[best, (p + RUN - 1) & mask] < second_ts:
            for _ in range(RUN):
                slot = p & mask
                to = end & log_mask
                out_ts[0, to] = ring_ts[best, slot]
                out_ref[0, to] = ring_ref[best, slot]
                out_at[0, to] = ring_at[best, slot]
                p += 1
                end += 1
        following = ring_ts[best, p & mask]
        at[best] = p
        next_ts[best] = following if p < until[best] else NOTHING
        last_source = best
    return end, last_source


@kernel
def fetch_lines(g, end, stop):
    """Prefetch the cache lines that a merge will touch: other cores have written the rings, and read what they are merged into.

    Fetched together they arrive in the time of a few; fetched one by one they cost 13 % of a 2x2 gate's throughput.
    """
    at, until = g.scratch[NEXT_AT], g.scratch[UNTIL]
    mask = g.ring_ts.shape[1] - 1
    each = 2 * (stop - end) // at.size
    for s in range(at.size):
        for p in range(at[s], min(until[s], at[s] + each), LINE):
            prefetch(g.ring_ts[s], p & mask)
            prefetch(g.ring_ref[s], p & mask)
            prefetch(g.ring_at[s], p & mask)
    log_mask = g.out_ts.shape[1] - 1
    for p in range(end, stop, LINE):
        prefetch_for_write(g.out_ts[0], p & log_mask)
        prefetch_for_write(g.out_ref[0], p & log_mask)
        prefetch_for_write(g.out_at[0], p & log_mask)


__all__ = [
    "NEXT_AT", "NEXT_MARK", "NEXT_RANK", "NEXT_ROW", "NEXT_TS", "SCRATCH_ROWS", "UNTIL",
    "fetch_lines", "move_many", "move_two",
]  # fmt: skip
