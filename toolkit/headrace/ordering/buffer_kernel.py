"""The rings between stages, and the reorder buffer: outputs arrive in any order, and leave in the order of the input.

A stage has a ring of input records and as many slots. A record's serial number gives
its place in the ring, and its outputs' place in the slots. A worker that has claimed
records runs the stage on them, writes the outputs into a block, puts the block into
the slot of the claim's first record, and tries to drain: to pass on what is complete,
from the first slot that has not been passed on. Consecutive records that one worker has
run are passed on as a whole (WIDTH records): a whole claim, or, at a partitioned stage, a
part of one. If those records are the next to be passed on, no worker is draining, and the
next ring has room for their outputs in one piece, the outputs skip the block: the worker
takes the right to drain first, and writes them directly into the next ring (`begin_in_place`).

State       by stage  TAIL records appended, HEAD claimed, NEXT drained; DRAINING the
                      flag; END_AT; PROGRESS (see `words`)
            by record TICKET: its bucket, and its number within the bucket
            by slot   DONE the serial number for which it is complete, + 1; WIDTH; BLOCK
                      and its CLASS (`pool_kernel`); COUNT outputs, PASSED of them
            the last stage passes on to the result ring 0 of `egress.rings`
Invariants  I1  NEXT <= HEAD <= TAIL <= NEXT + ring: a claimed record has a slot, so its
                output always fits, and no worker waits while it holds an output
            I2  only the holder of DRAINING writes NEXT, PASSED, and the TAIL, PROGRESS,
                END_AT and queues of the next stage: one producer for each ring
            I3  a slot belongs to the worker that runs its records until DONE, then to the
                holder of DRAINING, until NEXT is past it; the slots after it, up to WIDTH,
                are left as they are (I4: no worker takes them for complete)
            I4  DONE is never cleared: it is a different number in each round of the ring
            I5  a claim that is written in place uses no slot: its first slot is not DONE, and no worker
                goes past it, until its writer, which holds DRAINING, has moved NEXT past it
Ordering    W1 outputs and the slot are written, W2 store_release DONE, W3 fence, W4 check
            whether the first slot is complete, D1 exchange DRAINING 0 -> 1; D2 load_acquire
            DONE, D3 outputs are read; D4 store_release TAIL of the next stage, D5 of NEXT,
            D6 exchange DRAINING -> 0, D7 check again
                    W2 -> D2: outputs are read whole
                    Nothing is stranded (figure 4 of the paper with the fences that it
                    needs): either W3 or the drainer's D6 comes first. If D6, W4 sees the
                    drainer's NEXT, and its worker drains. If W3, D7 sees DONE. Without the
                    fences both may miss the slot
                    the collector makes room in a full result ring, but drains nothing: so D7 goes on until BLOCKED
                    says that the ring is full; a worker reads BLOCKED before it sleeps (`pipeline_kernel.await_work`).
                    Else BLOCKED would stay 0 if the slot were completed, or the end appended, between D2 and D7
                    the slot that W4 reads may be in its next round: then NEXT has
                    moved on after W3, and the drainer's D7 is still to come
                    in place: E1 load_acquire finds NEXT at the claim's first record, so D4 of all records before
                    is visible, and neither NEXT nor the next stage's TAIL moves until the claim is done; E2 exchange
                    DRAINING 0 -> 1, as D1; the outputs are written past TAIL, where no worker reads
                    before D4. What others complete meanwhile comes after the claim: D2 and D7 find it
                    D5 -> the producer's load_acquire of NEXT: a record is not
                    overwritten while it is read; D4 -> load_acquire TAIL: nor read before it is
                    written
Progress    A stage whose next ring is full is drained again by the worker that makes room there:
            `flush` goes upstream as long as something moved (D5, D6 and W4, D1 to D7 for the
            stage before: the same argument with room in place of DONE). Where the result
            ring is full, workers wait for the collector.
            With `reorder="lock"` a worker with outputs waits for its turn to drain.
Source      Prasaad, Ramalingam and Rajan, section 3.1 and figures 2 and 3 (`reorder="lock"`), section 3.2, figure 4 and theorem
            3.1 (without a lock), which assume sequential consistency
Checked     tests/headrace/ordering/test_interleave_buffer.py (every schedule of few preemptions of the smallest cases),
            test_interleave.py beside it (chains of stages, sampled), test_interleave_sleeping.py (a full result ring);
            tests/headrace/memory/test_reorder_buffer.py (a model of it, every schedule)
"""

from headrace.egress.rings import publish, ring_slot
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    exchange,
    fence,
    fetch_add,
    load_acquire,
    load_relaxed,
    now_ns,
    pause,
    store_relaxed,
    store_release,
    yield_core,
)
from headrace.memory.words import copy_words
from headrace.memory.wrapped import wrapped_product
from headrace.ordering.pool_kernel import LEAST_CLASS, give_block, take_block
from headrace.ordering.words import (
    AT,
    BEGUN,
    BLOCK,
    BLOCKED,
    BUCKET_COUNT,
    BUCKETS,
    BY_PARTITION,
    CLASS,
    COUNT,
    DONE,
    DRAINING,
    END_AT,
    FIRST_COLUMN,
    GIVEN,
    HOLDS,
    KEY,
    KIND,
    LATEST,
    LOCKED,
    MASK,
    NEEDS_TIME,
    NEXT,
    NULLS,
    ORIGIN,
    OUT_AT,
    OUT_BLOCK,
    OUT_CLASS,
    OUT_LIMIT,
    OUT_OF_ORDER,
    OUT_STRIDE,
    OUTPUTS,
    OVER,
    PARTITIONED,
    PASSED,
    PROGRESS,
    QUEUE,
    QUEUES,
    RANGES,
    REF,
    REORDER,
    RING,
    SIZE,
    SLOT_WORDS,
    SLOTS,
    STAGE_CELLS,
    STATEFUL,
    STRIDE,
    TAIL,
    TICKET,
    TICKET_BITS,
    TICKETS,
    TS,
    WIDTH,
    YIELD_EVERY,
)
from headrace.progress import END_OF_TIME
from headrace.workers.worker_kernel import FAILED, fail, stopped

IN_PLACE = -1
"""The class of no block: outputs are written into the next ring."""
KEPT_CLASS = 7
"""Largest class of a block that a slot keeps from round to round: 1 KiB."""
A_PLACE = (1 << 48) - 1
"""A mask that tells the compiler that a place is not negative; else it would check each index for one counted from the end."""


@kernel
def cell(stage, what):
    """Where a word of a stage is in `c.stage`."""
    return stage * STAGE_CELLS * CELL + what


@kernel
def slot_of(c, stage, serial):
    return ((c.form[stage, SLOTS] + (serial & c.form[stage, MASK])) * SLOT_WORDS) & A_PLACE


@kernel
def labelled(bucket, ticket):
    """The word of `tickets` for a record."""
    return bucket << TICKET_BITS | ticket & TICKET


@kernel
def label_of(c, stage, serial):
    """Where a record's word of `tickets` is."""
    return (c.form[stage, SLOTS] + (serial & c.form[stage, MASK])) & A_PLACE


@kernel
def record_of(c, stage, serial):
    return (c.form[stage, RING] + (serial & c.form[stage, MASK]) * c.form[stage, STRIDE]) & A_PLACE


# -- outputs of a claim


@kernel
def class_of(words):
    """The least class of a block that holds this many words."""
    size_class = LEAST_CLASS
    while (1 << size_class) < words:
        size_class += 1
    return size_class


@kernel
def begin_in_place(me, c, l, stage, serial):
    """Begin to write a claim's outputs into the next ring, if they are next to be passed on and fit. True if it did."""
    after = stage + 1
    if after == c.form.shape[0] or c.form[stage, REORDER] == LOCKED:
        return False
    if load_acquire(c.stage, cell(stage, NEXT)) != serial:  # E1
        return False
    tail, mask, stride = load_relaxed(c.stage, cell(after, TAIL)), c.form[after, MASK], c.form[after, STRIDE]
    room = mask + 1 - max(tail & mask, tail - load_acquire(c.stage, cell(after, NEXT)))
    if room * stride < 1 << max(LEAST_CLASS, c.work[me, stage, SIZE]):
        return False
    if exchange(c.stage, cell(stage, DRAINING), 1) != 0:  # E2
        return False
    l[HOLDS] = 1
    l[OUT_CLASS] = IN_PLACE
    l[OUT_BLOCK] = record_of(c, after, tail)
    l[OUT_AT] = l[OUT_BLOCK]
    l[OUT_LIMIT] = l[OUT_BLOCK] + room * stride
    return True


@kernel(borrows=True)
def open_block(me, c, l, stage, serial):
    """Begin to write a claim's outputs into a block of its slot. False if there is no memory."""
    slot = slot_of(c, stage, serial)
    block = c.slots[slot + BLOCK]
    size_class = c.slots[slot + CLASS]
    if block == 0:
        size_class = max(LEAST_CLASS, c.work[me, stage, SIZE])
        block = take_block(c, size_class)
        if block < 0:
            return False
    l[HOLDS] = 0
    l[OUT_BLOCK] = block
    l[OUT_CLASS] = size_class
    l[OUT_AT] = block
    l[OUT_LIMIT] = block + (1 << size_class)
    return True


@kernel
def open_output(me, c, l, stage, serial):
    """Begin to write a claim's outputs, in place or into a block. False if there is no memory."""
    return begin_in_place(me, c, l, stage, serial) or open_block(me, c, l, stage, serial)


@kernel(borrows=True)
def grow_output(c, l, words):
    """Make room for this many more words. Returns where they go, or -1 if there is no memory."""
    used = l[OUT_AT] - l[OUT_BLOCK]
    size_class = max(LEAST_CLASS, l[OUT_CLASS])
    while (1 << size_class) < used + words:
        size_class += 1
    block = take_block(c, size_class)
    if block < 0:
        return -1
    copy_words(c.arena, block, c.arena, l[OUT_BLOCK], used)
    if l[OUT_CLASS] != IN_PLACE:
        give_block(c, l[OUT_CLASS], l[OUT_BLOCK])
    l[OUT_BLOCK] = block
    l[OUT_CLASS] = size_class
    l[OUT_AT] = block + used
    l[OUT_LIMIT] = block + (1 << size_class)
    return block + used


@kernel
def close_output(me, c, o, l, stage, serial, width):
    """Complete a claim (W1, W2); the holder of DRAINING passes it on at once. True if something was passed on."""
    words = l[OUT_AT] - l[OUT_BLOCK]
    count = words // c.form[stage, OUT_STRIDE]
    c.work[me, stage, OUTPUTS] += count
    c.work[me, stage, SIZE] = class_of(words)
    if l[OUT_CLASS] == IN_PLACE:
        tail = load_relaxed(c.stage, cell(stage + 1, TAIL))
        enqueue(c, stage + 1, tail, tail + count)
        return drain_on(c, o, stage, width, count)
    slot = slot_of(c, stage, serial)
    outgrown = c.slots[slot + BLOCK]
    if l[HOLDS] != 0 and outgrown != 0:  # it began in place, so the slot's own block was not used
        give_block(c, c.slots[slot + CLASS], outgrown)
    c.slots[slot + BLOCK] = l[OUT_BLOCK]
    c.slots[slot + CLASS] = l[OUT_CLASS]
    c.slots[slot + COUNT] = count
    c.slots[slot + PASSED] = 0
    c.slots[slot + WIDTH] = width
    store_release(c.slots, slot + DONE, serial + 1)
    return l[HOLDS] != 0 and drain_on(c, o, stage, 0, 0)


@kernel
def empty_slot(c, slot):
    """Leave only a small block in a slot that was passed on."""
    if c.slots[slot + CLASS] > KEPT_CLASS:
        give_block(c, c.slots[slot + CLASS], c.slots[slot + BLOCK])
        c.slots[slot + BLOCK] = 0
        c.slots[slot + CLASS] = 0


# -- appending to a ring, by its only producer


@kernel
def bucket_of(key, buckets):
    """The bucket of a key, a number or the id of a string."""
    h = wrapped_product(key ^ (key >> 32), 0x9E3779B97F4A7C1)
    return (((h >> 20) & 0x7FFFFFFF) * buckets) >> 31


@kernel
def range_of(c, first, buckets, key):
    """The bucket of a key at a stage with ranges: how many of its boundaries, from `first` on, are not above the key."""
    low, high = first, first + buckets - 1
    while low < high:
        middle = (low + high) // 2
        if c.bounds[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low - first


@kernel
def note_time(c, stage, record):
    """At a stage that needs time: fail if it goes back with this record."""
    ts, latest = c.arena[record + TS], load_relaxed(c.stage, cell(stage, LATEST))
    if ts < latest:
        fail(c, OUT_OF_ORDER, 0, c.arena[record + REF], ts, latest, stage)
    store_relaxed(c.stage, cell(stage, LATEST), max(ts, latest))


@kernel
def enqueue(c, stage, first, last):
    """Where the stage has buckets, note the bucket of each record and its ticket there; TAIL makes them visible."""
    if c.form[stage, KIND] != PARTITIONED:
        return
    mask, stride, ring = c.form[stage, MASK], c.form[stage, STRIDE], c.form[stage, RING]
    slots, queue, key = c.form[stage, SLOTS], c.form[stage, QUEUE], c.form[stage, KEY]
    buckets, bucket_count = c.form[stage, BUCKETS], c.form[stage, BUCKET_COUNT]
    has_queues = c.form[stage, QUEUES] == BY_PARTITION
    needs_time, ranges = c.form[stage, NEEDS_TIME] != 0, c.form[stage, RANGES]
    for serial in range(first, last):
        at = serial & mask
        record = ring + at * stride
        if needs_time:
            note_time(c, stage, record)
        if ranges != 0:
            own = range_of(c, ranges - 1, bucket_count, c.arena[record + key])
        else:
            own = bucket_of(c.arena[record + key], bucket_count)
        bucket = buckets + own
        ticket = load_relaxed(c.bucket_tail, bucket)
        c.tickets[slots + at] = labelled(bucket, ticket)
        if has_queues:
            c.queue[queue + own * (mask + 1) + (ticket & mask)] = serial
        store_release(c.bucket_tail, bucket, ticket + 1)


@kernel
def append_end(c, stage, serial, progress):
    """Append the end of the stream as a record: a stateful stage claims it; at other stages it is complete at once."""
    record = record_of(c, stage, serial)
    c.arena[record + TS] = progress
    c.arena[record + ORIGIN] = progress
    c.arena[record + AT] = now_ns()
    c.arena[record + BEGUN] = c.arena[record + AT]
    c.arena[record + REF] = -1
    c.arena[record + NULLS] = 0
    store_relaxed(c.stage, cell(stage, END_AT), serial)
    if c.form[stage, KIND] != STATEFUL:
        slot = slot_of(c, stage, serial)
        c.slots[slot + COUNT] = 0
        c.slots[slot + PASSED] = 0
        c.slots[slot + WIDTH] = 1
        store_release(c.slots, slot + DONE, serial + 1)


# -- passing on


@kernel
def room_behind(c, o, stage):
    """How many records there is room for in the ring after a stage."""
    if stage + 1 == c.form.shape[0]:
        return o.primary.shape[1] - (load_relaxed(c.words, GIVEN) - load_acquire(o.tail, 0))
    after = stage + 1
    used = load_relaxed(c.stage, cell(after, TAIL)) - load_acquire(c.stage, cell(after, NEXT))
    return c.form[after, MASK] + 1 - used


@kernel
def pass_on(c, stage, slot, tail, room):
    """Append the outputs of a slot to the next ring, as many as there is room for. Returns the new tail."""
    passed, block = c.slots[slot + PASSED], c.slots[slot + BLOCK]
    stride, mask = c.form[stage, OUT_STRIDE], c.form[stage + 1, MASK]
    last = tail + min(c.slots[slot + COUNT] - passed, room)
    c.slots[slot + PASSED] = passed + last - tail
    first = tail
    while tail < last:
        count = min(last - tail, mask + 1 - (tail & mask))  # up to the end of the ring
        copy_words(c.arena, record_of(c, stage + 1, tail), c.arena, block + passed * stride, count * stride)
        tail += count
        passed += count
    enqueue(c, stage + 1, first, last)
    return last


@kernel
def pass_out(c, o, stage, slot, head, room):
    """Write the outputs of a slot of the last stage into the result ring. Returns the new head."""
    passed, stride = c.slots[slot + PASSED], c.form[stage, OUT_STRIDE]
    last = head + min(c.slots[slot + COUNT] - passed, room)
    place = c.slots[slot + BLOCK] + passed * stride
    c.slots[slot + PASSED] = passed + last - head
    while head < last:
        at = ring_slot(o, head)
        o.primary[0, at] = head
        o.a[0, at] = c.arena[place + REF]
        o.b[0, at] = c.arena[place + TS]
        o.c[0, at] = c.arena[place + BEGUN]
        o.at[0, at] = c.arena[place + AT]
        for column in range(stride - FIRST_COLUMN):
            c.out[column, at] = c.arena[place + FIRST_COLUMN + column]
        head += 1
        place += stride
    return last


@kernel
def drain_held(c, o, stage, passed, made):
    """D2 to D5: pass on what is complete, in order. True if something was. The caller holds DRAINING.

    `passed` records are passed on already, and their `made` outputs are in the next ring; neither is published yet.
    """
    is_last = stage + 1 == c.form.shape[0]
    first = load_relaxed(c.stage, cell(stage, NEXT))
    # Read before TAIL, which then includes every record appended before this PROGRESS was published.
    progress = load_acquire(c.stage, cell(stage, PROGRESS))
    appended = load_acquire(c.stage, cell(stage, TAIL))
    if is_last:
        begin = load_relaxed(c.words, GIVEN)
    else:
        begin = load_relaxed(c.stage, cell(stage + 1, TAIL))
    room = room_behind(c, o, stage) - made
    tail = begin + made
    serial = first + passed
    is_full = False
    is_over = False
    while serial < appended:
        slot = slot_of(c, stage, serial)
        if load_acquire(c.slots, slot + DONE) != serial + 1:  # D2
            break
        before = tail
        if is_last:
            tail = pass_out(c, o, stage, slot, tail, room)
        else:
            tail = pass_on(c, stage, slot, tail, room)
        room -= tail - before
        if c.slots[slot + PASSED] < c.slots[slot + COUNT]:
            is_full = True
            break
        if serial == load_relaxed(c.stage, cell(stage, END_AT)):
            if is_last:
                is_over = True
            elif room == 0:
                is_full = True
                break
            else:
                append_end(c, stage + 1, tail, progress)
                tail += 1
                room -= 1
        empty_slot(c, slot)
        serial += c.slots[slot + WIDTH]
    if serial < appended:
        progress = c.arena[record_of(c, stage, serial) + ORIGIN]
    if is_last:
        store_relaxed(c.words, GIVEN, tail)
        store_relaxed(c.words, BLOCKED, 1 if is_full else 0)
        if is_over and load_acquire(c.words, FAILED) == 0:  # a record found to be out of order was passed on like all others
            publish(o, 0, tail, END_OF_TIME, END_OF_TIME)
            store_release(c.words, OVER, 1)
        else:
            publish(o, 0, tail, tail - 1, progress - 1)
    else:
        if tail != begin:
            store_release(c.stage, cell(stage + 1, TAIL), tail)  # D4
        if progress > load_relaxed(c.stage, cell(stage + 1, PROGRESS)):
            store_release(c.stage, cell(stage + 1, PROGRESS), progress)
    if serial != first:
        store_release(c.stage, cell(stage, NEXT), serial)  # D5
    return serial != first or tail != begin


@kernel
def is_in_flight(c):
    """Whether any stage has a record that it has not passed on.

    Stages are checked first to last: a record's outputs are appended to the next stage before it counts as passed on.
    """
    for stage in range(c.form.shape[0]):
        if load_acquire(c.stage, cell(stage, NEXT)) != load_acquire(c.stage, cell(stage, TAIL)):
            return True
    return False


@kernel
def is_complete(c, stage):
    """W4: whether the first slot that has not been passed on is complete."""
    serial = load_acquire(c.stage, cell(stage, NEXT))
    return load_acquire(c.slots, slot_of(c, stage, serial) + DONE) == serial + 1


@kernel
def can_drain(c, o, stage):
    """D7: whether the first slot is complete, and its outputs have room or BLOCKED does not yet say that they have none."""
    if not is_complete(c, stage):
        return False
    if room_behind(c, o, stage) > 0:
        return True
    return stage + 1 == c.form.shape[0] and load_relaxed(c.words, BLOCKED) == 0


@kernel
def drain(c, o, stage):
    """Pass on what is complete, unless another worker is draining. True if something was."""
    if c.form[stage, REORDER] == LOCKED:
        return drain_in_turn(c, o, stage)
    return exchange(c.stage, cell(stage, DRAINING), 1) == 0 and drain_on(c, o, stage, 0, 0)  # D1


@kernel
def drain_on(c, o, stage, passed, made):
    """As `drain`, when the caller holds DRAINING, which is released. `passed` and `made` as for `drain_held`."""
    moved = False
    while True:
        moved = drain_held(c, o, stage, passed, made) or moved
        exchange(c.stage, cell(stage, DRAINING), 0)  # D6
        if not can_drain(c, o, stage):  # D7
            return moved
        if exchange(c.stage, cell(stage, DRAINING), 1) != 0:  # D1
            return moved
        passed = 0
        made = 0


@kernel
def drain_in_turn(c, o, stage):
    """As `drain`, with a lock: each worker waits for its turn."""
    ticket = fetch_add(c.stage, cell(stage, TICKETS), 1)
    spins = 0
    while load_acquire(c.stage, cell(stage, DRAINING)) != ticket:
        spins += 1
        if spins % YIELD_EVERY == 0:
            yield_core()
            if stopped(c):
                return False
        pause()
    moved = drain_held(c, o, stage, 0, 0)
    store_release(c.stage, cell(stage, DRAINING), ticket + 1)
    return moved


@kernel
def flush(c, o, stage, has_passed):
    """After DONE: drain, then drain the stages upstream that wait for the room this made. True if something moved.

    `has_passed`: something was passed on since the stage was last drained, and the stages upstream were not checked since.
    """
    fence()  # W3
    any_moved = False
    while stage >= 0:
        is_ready = c.form[stage, REORDER] == LOCKED or is_complete(c, stage)  # W4
        if not (is_ready and drain(c, o, stage)) and not has_passed:
            break
        has_passed = False
        any_moved = True
        stage -= 1
    return any_moved


@kernel
def sweep(c, o):
    """Drain every stage, first to last, so that event time, the end of the stream and what now has room pass through."""
    moved = False
    for stage in range(c.form.shape[0]):
        moved = drain(c, o, stage) or moved
    return moved


__all__ = [
    "append_end",
    "cell",
    "close_output",
    "enqueue",
    "flush",
    "is_in_flight",
    "grow_output",
    "label_of",
    "labelled",
    "open_block",
    "open_output",
    "record_of",
    "room_behind",
    "slot_of",
    "sweep",
]
