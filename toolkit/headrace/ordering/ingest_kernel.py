"""The way in: a worker that finds the first ring short of work moves records there from the gate.

Invariants  I1  only the holder of INGESTING takes from the gate (its reader 0), and writes TAIL,
                PROGRESS, END_AT and the queues of stage 0
            I2  a record's serial number is its row number in the merged input
            I3  while a worker holds INGESTING and no record is in flight, no worker runs a stage: a record's outputs are
                appended downstream (D4) before it counts as passed on (D5), and its function has returned before it is
                complete
Ordering    exchange INGESTING 0 -> 1 and back: what one holder wrote, the next one reads.
            TAIL as in `buffer_kernel`, D4 and D5
            T1 store_release TAIL, T2 store_release INPUT_OVER and PLACE: a worker that sees that a record is no longer
            in the gate sees it in the first ring (S2 of `pipeline_kernel`)
Checked     tests/headrace/ordering/test_interleave_sleeping.py (sampled)
"""

from headrace.gates.merged_log_kernel import advance, lane, peek
from headrace.kernel import kernel
from headrace.memory.atomics import exchange, load_acquire, load_relaxed, store_relaxed, store_release
from headrace.ordering.buffer_kernel import append_end, cell, enqueue, is_in_flight, record_of
from headrace.ordering.words import (
    AT,
    BEGUN,
    INGESTING,
    INPUT_OVER,
    MASK,
    NEXT,
    NULLS,
    ORIGIN,
    PLACE,
    PLANNED,
    PROGRESS,
    REF,
    TAIL,
    TEXTS_ASKED,
    TEXTS_AT,
    TEXTS_TOLD,
    TS,
)
from headrace.progress import END_OF_TIME, NEVER
from headrace.references import HEARTBEAT
from headrace.workers.changes_kernel import install

PEEKED = 1024
"""Most records that are taken from the gate in one go."""


@kernel
def ingest(me, g, c, x, s, l):
    """Take records from the gate, unless another worker does. True if there were some."""
    if load_relaxed(c.words, INPUT_OVER) != 0:
        return False
    if exchange(c.words, INGESTING, 1) != 0:
        return False
    found = False
    if load_relaxed(c.words, INPUT_OVER) == 0:
        found = ingest_held(me, g, c, x, s, l)
    exchange(c.words, INGESTING, 0)
    return found


@kernel
def tell_texts(c, s, l):
    """Note which strings the states hold, if asked to. False: records are in flight, and no more may be taken yet."""
    asked = load_acquire(c.words, TEXTS_ASKED)
    if asked == load_relaxed(c.words, TEXTS_TOLD):
        return True
    if is_in_flight(c):
        return False
    ts = load_relaxed(c.stage, cell(0, PROGRESS))
    hold_texts(c, s, l, ts)
    store_relaxed(c.words, TEXTS_AT, ts)
    store_release(c.words, TEXTS_TOLD, asked)
    return True


@kernel
def ingest_held(me, g, c, x, s, l):
    """As `ingest`, when the caller holds INGESTING."""
    if not tell_texts(c, s, l):
        return False
    first = load_relaxed(c.stage, cell(0, TAIL))
    room = c.form[0, MASK] + 1 - (first - load_acquire(c.stage, cell(0, NEXT)))
    planned = load_relaxed(c.words, PLANNED)
    while c.plan_at[planned] <= first:
        install(c, planned + 1)
        planned += 1
        store_relaxed(c.words, PLANNED, planned)
    room = min(room, c.plan_at[planned] - first, PEEKED)
    if room <= 0:
        return False
    place = load_relaxed(c.words, PLACE)
    start, ready = peek(g, 0, place, room)
    if ready == 0:
        return False
    row = lane(g, 0)
    serial = first
    progress = load_relaxed(c.stage, cell(0, PROGRESS))
    ended = False
    for k in range(start, start + ready):
        ref = g.out_ref[row, k]
        ts = g.out_ts[row, k]
        if ref >= 0:
            record = record_of(c, 0, serial)
            c.arena[record + TS] = ts
            c.arena[record + ORIGIN] = ts
            c.arena[record + AT] = g.out_at[row, k]
            c.arena[record + BEGUN] = 0
            c.arena[record + REF] = ref
            c.arena[record + NULLS] = 0
            serial += 1
            progress = ts
        elif ref == HEARTBEAT:
            if ts == END_OF_TIME:
                ended = True
                break
            progress = ts
        place += 1
    fill_rows(me, c, x, s, l, first, serial)
    enqueue(c, 0, first, serial)
    if ended:
        while c.plan_at[planned] != NEVER:  # the input ended before their rows: they are applied all the same
            install(c, planned + 1)
            planned += 1
        store_relaxed(c.words, PLANNED, planned)
        append_end(c, 0, serial, progress)  # last: its slot is complete before T1, which the drainer waits for
        serial += 1
    store_release(c.stage, cell(0, TAIL), serial)  # T1
    if progress > load_relaxed(c.stage, cell(0, PROGRESS)):
        store_release(c.stage, cell(0, PROGRESS), progress)
    if ended:
        store_release(c.words, INPUT_OVER, 1)  # T2
    store_release(c.words, PLACE, place)  # T2
    advance(g, 0, place)
    return True


__all__ = ["ingest"]
