"""The merged log in order of arrival: for readers that depend on watermarks, and not on the order of tuples.

`merged_log_kernel.merge` uses this where LEAD is above 0. Nothing is sorted: runs of each source are moved as they
are, with watermarks between them that no later record precedes.

State       LEAD      how far a record may be ahead of the last watermark in the log
            LAST_TS   that watermark (holder of FLAG)
            MOVED_FIRST  the source whose records are moved first the next time (holder of FLAG)
Invariants  U1  after a watermark W in the log no record has ts < W; the last watermark is `END_OF_TIME`, and comes once
            U2  a record has ts < W + LEAD for the last watermark W before it: readers need room for the windows that
                begin before that, and for no others
            U3  records of one source keep their order; a source's own heartbeats are not put into the log: they count
                by its MARK
Ordering    M1 load_acquire all MARKs, M2 load_acquire all HEADs, M3 read rings
                    a thread that sees a promise sees the data it covers (as where records are merged): the watermark is
                    the least of the first times in the rings, and of the promises of sources with an empty ring
            M4 write log, the watermark last, M5 store_release END; M6 store_release MERGED, as where records are merged
Progress    The source that holds time back can go on: the first record in its ring is the watermark, or its ring is
            empty, and the watermark moves with its promise. The others wait for it once they are LEAD ahead. A log with
            room for a single record takes the watermark first, else nothing would show that it moved.
Source      Li et al., "Out-of-Order Processing" (PVLDB 2008); explicit watermarks, STRETCH, section 2.3.
Checked     tests/headrace/gates/test_arrival.py
"""

from headrace.gates.log_words import END, LAST_TS, LEAD, MOVED_FIRST
from headrace.gates.membership_kernel import NOTHING
from headrace.gates.merging_kernel import NEXT_AT, NEXT_TS, UNTIL
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire, load_relaxed, now_ns, store_relaxed, store_release
from headrace.progress import END_OF_TIME
from headrace.references import HEARTBEAT

PROMISED = NEXT_TS
"""The row of `scratch` for the promises, which is free because records' times are not compared here."""


@kernel
def _move_run(g, s, until_ts, end, stop):
    """Move waiting records of source `s` before `until_ts` into the log, from `end` on, up to `stop`. Returns its new end."""
    ring_ts, ring_ref, ring_at = g.ring_ts, g.ring_ref, g.ring_at
    out_ts, out_ref, out_at = g.out_ts, g.out_ref, g.out_at
    mask, log_mask = ring_ts.shape[1] - 1, out_ts.shape[1] - 1
    p, last = g.scratch[NEXT_AT, s], g.scratch[UNTIL, s]
    while p < last:
        slot = p & mask
        ref = ring_ref[s, slot]
        if ref != HEARTBEAT:  # U3
            if end == stop or ring_ts[s, slot] >= until_ts:  # U2
                break
            to = end & log_mask
            out_ts[0, to] = ring_ts[s, slot]
            out_ref[0, to] = ref
            out_at[0, to] = ring_at[s, slot]
            end += 1
        p += 1
    g.scratch[NEXT_AT, s] = p
    return end


@kernel
def move_as_they_come(g, room):
    """Move at most `room` waiting records from the rings into the log, the last a watermark if it has risen.

    The caller holds FLAG, and frees the slots in the rings (M6).

    Returns
    -------
    int
        Records that came into the log.
    """
    sources = g.head.size // CELL
    at, until, promised = g.scratch[NEXT_AT], g.scratch[UNTIL], g.scratch[PROMISED]
    capacity = g.ring_ts.shape[1]
    for s in range(sources):  # M1
        promised[s] = load_acquire(g.mark, s * CELL)
    for s in range(sources):  # M2
        at[s] = load_relaxed(g.merged, s * CELL)
        until[s] = load_acquire(g.head, s * CELL)
    first = load_relaxed(g.words, END)
    reached = load_relaxed(g.words, LAST_TS)
    turn = load_relaxed(g.words, MOVED_FIRST)
    end = first
    stop = first + room - (1 if room > 1 else 0)  # and one slot for a watermark
    for i in range(sources):
        end = _move_run(g, (turn + i) % sources, reached + load_relaxed(g.words, LEAD), end, stop)
    store_relaxed(g.words, MOVED_FIRST, (turn + 1) % sources)
    watermark, slowest = NOTHING, 0
    for s in range(sources):
        earliest = g.ring_ts[s, at[s] & (capacity - 1)] if at[s] < until[s] else promised[s]
        if earliest < watermark:
            watermark, slowest = earliest, s
    if reached < watermark < NOTHING and reached < END_OF_TIME and end < first + room:  # U1
        to = end & (g.out_ts.shape[1] - 1)
        g.out_ts[0, to] = min(watermark, END_OF_TIME)
        g.out_ref[0, to] = HEARTBEAT
        g.out_at[0, to] = _came_at(g, slowest)
        store_relaxed(g.words, LAST_TS, min(watermark, END_OF_TIME))
        end += 1
    if end > first:
        store_release(g.words, END, end)  # M5
    return end - first


@kernel
def _came_at(g, s):
    """Arrival time of the record of source `s` that determines the watermark; the present time if it is no longer known."""
    at, mask = g.scratch[NEXT_AT, s], g.ring_at.shape[1] - 1
    if at < g.scratch[UNTIL, s]:
        return g.ring_at[s, at & mask]
    if at > load_relaxed(g.merged, s * CELL):  # its slot is free for others from M6 on
        return g.ring_at[s, (at - 1) & mask]
    return now_ns()


__all__ = ["move_as_they_come"]
