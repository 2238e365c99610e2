"""The merged log in order of content: records of equal event time come by ranks that their sources give them.

`merged_log_kernel.merge` uses this where a gate has ranks. Each source adds its own records in order of (ts, ranks), and the
merge always takes the first of the sources' next records. The ranks of a record lie where its row does, since that row is not
used again before all have read it; the records in the rings are those of every gate.

State       RANK[s * R + i, row] rank i of R of a row, written before the row is added; later ranks decide where earlier
            ones are equal. Where RANK_LAYOUT[i] is 1, rank i is the address of a string, rank i + 1 its length, and rank
            i - 1 its first eight bytes; the others are numbers (`ingress.key_ranks`). A heartbeat has none, and comes
            before all rows of its time: it says that none earlier will follow, so it need not come after any
Invariants  C1  the log is sorted by (ts, ranks), controls aside, if each source's records are, and no two rows of one time have
                the same ranks: the next record of the log is the least of the sources' next ones, and a source whose
                ring is empty counts with (MARK, before all rows), which no record that it still adds precedes. So a
                record waits until each other source has a record in its ring, or has promised more than its time
            C2  no comparison looks at the number of a source: the log's tuples are the same sequence however the rows
                are distributed over the sources
            C3  a source that is added begins after the time of the last record in the log, whose ranks it may not know
            C4  the strings of a row lie where its ranks say until the log has the row: the key of a result keeps its id, and so
                its string, until all results of its time were read
Ordering    M1 load_acquire all MARKs, M2 load_acquire all HEADs, M3 read rings and RANK
                    as where records are merged by source: what M2 does not see of a source is not before the MARK that
                    M1 saw. RANK is written before A2, so M3 sees it
            M4 write log, M5 store_release END; M6 store_release MERGED, as there
Progress    A source that cannot add a record because its ring is full has one in it, so no other source waits for it: the
            first in order can always be taken. (To wait for promises beyond a time, and then to sort, would stand
            still: with more records of one time than its ring holds, a source cannot give its promise.) A source whose
            ring is empty holds the others back until it adds something, or promises more.
Source      STRETCH, section 5 (TB_out).
Checked     tests/headrace/elastic/test_passing_content_interleave.py, test_passing_content.py
"""

from headrace.gates.log_words import END, LAST_SOURCE, LAST_TS
from headrace.gates.merging_kernel import NEXT_AT, NEXT_MARK, NEXT_RANK, NEXT_ROW, NEXT_TS, UNTIL, fetch_lines
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire, load_relaxed, store_relaxed, store_release
from headrace.memory.text_order import order_behind_prefix
from headrace.references import ROW_MASK

LEAST_RANK = -(2**63)
NO_ROW = -1


@kernel
def look_at_next(g, s):
    """Note time, first rank and row of the next record of source `s`; if it has none, what no record of it can precede."""
    p = g.scratch[NEXT_AT, s]
    g.scratch[NEXT_TS, s] = g.scratch[NEXT_MARK, s]
    g.scratch[NEXT_RANK, s] = LEAST_RANK
    g.scratch[NEXT_ROW, s] = NO_ROW
    if p < g.scratch[UNTIL, s]:
        slot = p & (g.ring_ts.shape[1] - 1)
        ref = g.ring_ref[s, slot]
        g.scratch[NEXT_TS, s] = g.ring_ts[s, slot]
        if ref >= 0:
            row = ref & ROW_MASK
            g.scratch[NEXT_ROW, s] = row
            g.scratch[NEXT_RANK, s] = g.rank[s * (g.rank.shape[0] // g.scratch.shape[1]), row]


@kernel
def has_lower_ranks(g, s, other):
    """Whether the next record of source `s` comes before that of another one, which has the same time and first rank."""
    row, other_row = g.scratch[NEXT_ROW, s], g.scratch[NEXT_ROW, other]
    if row < 0 or other_row < 0:
        return other_row >= 0
    ranks = g.rank.shape[0] // g.scratch.shape[1]
    at, other_at = s * ranks, other * ranks
    i = 1
    while i < ranks:
        rank, other_rank = g.rank[at + i, row], g.rank[other_at + i, other_row]
        if g.rank_layout[i] != 0:  # C4
            order = order_behind_prefix(rank, g.rank[at + i + 1, row], other_rank, g.rank[other_at + i + 1, other_row])
            if order != 0:
                return order < 0
            i += 2
        elif rank != other_rank:
            return rank < other_rank
        else:
            i += 1
    return False


@kernel
def first_of_all(g):
    """The source whose next record is the first in order."""
    next_ts, next_rank = g.scratch[NEXT_TS], g.scratch[NEXT_RANK]
    best = 0
    for s in range(1, g.head.size // CELL):
        if next_ts[s] != next_ts[best]:
            best = s if next_ts[s] < next_ts[best] else best
        elif next_rank[s] != next_rank[best]:
            best = s if next_rank[s] < next_rank[best] else best
        elif has_lower_ranks(g, s, best):
            best = s
    return best


@kernel
def move_by_content(g, room):
    """Move at most `room` ready records from the rings into the log. The caller holds FLAG, and frees their slots (M6).

    Returns
    -------
    int
        Records that came into the log.
    """
    sources = g.head.size // CELL
    at, until = g.scratch[NEXT_AT], g.scratch[UNTIL]
    for s in range(sources):  # M1
        g.scratch[NEXT_MARK, s] = load_acquire(g.mark, s * CELL)
    waiting = 0
    for s in range(sources):  # M2
        at[s] = load_relaxed(g.merged, s * CELL)
        until[s] = load_acquire(g.head, s * CELL)
        waiting += until[s] - at[s]
    first = load_relaxed(g.words, END)
    stop = first + min(waiting, room)
    fetch_lines(g, first, stop)
    for s in range(sources):
        look_at_next(g, s)
    mask, log_mask = g.ring_ts.shape[1] - 1, g.out_ts.shape[1] - 1
    end = first
    while end < stop:
        s = first_of_all(g)
        if at[s] >= until[s]:
            break  # C1: what it adds next may be the first
        slot, to = at[s] & mask, end & log_mask
        g.out_ts[0, to] = g.ring_ts[s, slot]
        g.out_ref[0, to] = g.ring_ref[s, slot]
        g.out_at[0, to] = g.ring_at[s, slot]
        end += 1
        at[s] += 1
        look_at_next(g, s)
    if end > first:
        store_relaxed(g.words, LAST_TS, g.out_ts[0, (end - 1) & log_mask])
        store_relaxed(g.words, LAST_SOURCE, sources)  # C3
        store_release(g.words, END, end)  # M5
    return end - first


__all__ = ["move_by_content"]
