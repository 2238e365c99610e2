"""Running a stage: what a worker claims, in which order, and what it does with it.

How workers share a partitioned stage (section 4 of the paper)::

    HYBRID        the ring is a master queue, and each record has a ticket: its number within
                  its bucket. A worker that claims records adds 1 to CLAIMED of each one's bucket. If that
                  was 0, it runs the bucket, record after record, until the count is 0
                  again; otherwise the worker that runs the bucket runs this record too, and the
                  claimer goes on to its next. Records of its claim that a worker runs
                  one after another have one output, in the slot of the first of them; records of other
                  claims, and its own after one that another worker runs, have an output each
    BY_PARTITION  a worker takes a bucket that no other has, and runs what waits there
    SHARED        a worker runs what it claims, and waits for its turn in the bucket
    ALONE         with HYBRID, where that is faster (`schedule_kernel.goes_alone`): a worker keeps out all others,
                  claims and runs as at a stateless stage, and notes how far each bucket is

Invariants  I1  records are claimed once: HEAD moves by compare_exchange, or its mover is
                alone at the stage (STATEFUL: WORKERS lets one in)
            I2  a bucket is run by one worker at a time, in the order of its tickets
            I3  SERVED of a bucket is written by the worker that runs it
            I4  a worker has one output open at a time; it closes it before it runs a record
                that does not follow the one before it
            I5  a run that is stopped gives a prefix of its results: an output that a function may have
                left unfinished when it saw STOP is never closed
Ordering    H1 the tickets of the records are copied, H2 compare_exchange HEAD, H3 fetch_add
            CLAIMED + 1; the runner: H4 SERVED and the tickets are read, H5 the record is run, H6
            SERVED is written, H7 fetch_add CLAIMED - 1
                    between H2 and H3 a delegate may run the record, and it may be drained and
                    overwritten; so nothing of it but what to prefetch is read after H2 (at H1 it is safe: TAIL has
                    published it, and NEXT cannot pass HEAD, which H2 checks), unless H3
                    says that no worker runs the bucket, and H4 that this record is next: then
                    it is the worker's until H7
                    NEXT has not passed the record that is run next, so its word of `tickets` stays;
                    words that the search for it passes may be of the next round, where the
                    word, which combines bucket and ticket, is a different one
                    H7 -> H3 of the next runner: it sees SERVED and the states of the keys
            of STATEFUL  fetch_add WORKERS + 1, fetch_add WORKERS - 1: the same
            of SHARED    store_release SERVED, load_acquire SERVED
            of ALONE     compare_exchange WORKERS 0 -> ALONE, fetch_add WORKERS - ALONE: the same. Workers that share a stage
                    leave it when their buckets' counts are 0, so CLAIMED of every bucket is 0; A1 the record is run,
                    A2 its ticket is read and SERVED written, A3 it is complete: until then its word of `tickets` stays
            S1 a function, or the loop that calls it (`template`), loads STOP and leaves, S2 STOP is loaded and the output is
                    not closed: STOP is never cleared. The next worker to run a bucket or a stateful stage sees STOP too, by
                    H7 -> H3 and its counterparts, so that nothing that a half-run function left in a state comes out
Progress    A hybrid runner goes on past its time slice, until the count is 0: no other worker
            will. Meanwhile it drains once for every batch, so that others find room. A SHARED
            waiter waits for a record that was claimed before its own, by a worker that
            runs or waits for an earlier one.
            After STOP each worker ends the function it is in, whose loops check STOP where they may be long, and begins
            no other; it goes through the rest of its claim without running it. Outputs that are not closed are never used
Source      Prasaad, Ramalingam and Rajan, section 4.1 and figure 5 (SHARED), 4.2 and figure 6 (BY_PARTITION), 4.3 and figure
            7 (HYBRID); theorem 4.1 is I1 and I2. ALONE is not in the paper
Checked     tests/headrace/ordering/test_interleave.py (sampled)
"""

from headrace.kernel import kernel
from headrace.memory.atomics import (
    compare_exchange,
    exchange,
    fetch_add,
    load_acquire,
    load_relaxed,
    now_ns,
    pause,
    store_relaxed,
    store_release,
    yield_core,
)
from headrace.ordering.buffer_kernel import (
    cell,
    close_output,
    flush,
    label_of,
    labelled,
    open_block,
    open_output,
    record_of,
)
from headrace.ordering.schedule_kernel import TIME_SLICE, claim_of, goes_alone
from headrace.ordering.words import (
    ALONE,
    BATCHES,
    BEGUN,
    BUCKET_COUNT,
    BUCKET_WORDS,
    BUCKETS,
    BUSY,
    BY_PARTITION,
    CLAIMED,
    CLAIMED_NS,
    COST,
    COST_UNIT,
    DELEGATED,
    END_AT,
    FIRST,
    HEAD,
    HYBRID,
    KIND,
    LAST,
    MADE,
    MASK,
    MOST,
    NEXT,
    OUTPUTS,
    POSITION,
    QUEUE,
    QUEUES,
    SERVED,
    SPENT_NS,
    STAGE,
    STATEFUL,
    STATELESS,
    TAIL,
    TAKEN,
    TICKET,
    TICKET_BITS,
    TICKETS_COPIED,
    TUPLES,
    TURN,
    WINDOW_NS,
    WORKERS,
    YIELD_EVERY,
)
from headrace.workers.worker_kernel import stopped

AHEAD = 8
"""Buckets, records and states are prefetched for so many records at a time, before those that come before them are run: two
workers did 8.3 M rows/s of `mobility`, and 7.7 without."""
COST_TUPLES = 256
"""A visit with this many tuples makes up half of the new estimate of a stage's cost."""
NO_MEMORY = "outputs that wait"
"""The text of a kernel's MemoryError about them."""


@kernel
def claim(c, l, stage, batch, copies):
    """Claim the next records of a stage. Returns the first one and how many; `copies`: their words of `tickets` too."""
    if stage == 0:
        l[CLAIMED_NS] = now_ns()
    while True:
        first = load_acquire(c.stage, cell(stage, HEAD))
        last = min(load_acquire(c.stage, cell(stage, TAIL)), load_relaxed(c.stage, cell(stage, END_AT)))
        count = min(batch, last - first)
        if count <= 0:
            return first, 0
        if copies:
            for k in range(count):
                l[TICKETS_COPIED + k] = load_relaxed(c.tickets, label_of(c, stage, first + k))  # H1
        if compare_exchange(c.stage, cell(stage, HEAD), first, first + count):  # H2
            return first, count


@kernel
def begin_output(me, c, l, stage, serial):
    """Open the output of a record; the records run next write their outputs there."""
    if not open_output(me, c, l, stage, serial):
        raise MemoryError(NO_MEMORY)


@kernel
def run_opened(me, c, s, l, stage, first, count):
    """Run records; their outputs are appended to the open output."""
    if stage == 0:
        for serial in range(first, first + count):
            c.arena[record_of(c, stage, serial) + BEGUN] = l[CLAIMED_NS]
    l[STAGE] = stage
    l[FIRST] = first
    l[LAST] = first + count
    run_stage(me, c, s, l)


@kernel
def end_output(me, c, o, l, stage, first, last):
    """Close the output of records `first` to before `last`, if there are any. True if something was passed on."""
    if first >= last or stopped(c):  # S2
        return False
    c.work[me, stage, TUPLES] += last - first
    return close_output(me, c, o, l, stage, first, last - first)


@kernel
def run_records(me, c, o, s, l, stage, first, count):
    """Run claimed records, with one output in the slot of the first. True if something was passed on."""
    begin_output(me, c, l, stage, first)
    run_opened(me, c, s, l, stage, first, count)
    return end_output(me, c, o, l, stage, first, first + count)


@kernel
def take_stateless(me, c, o, s, l, stage, batch):
    """Claim a batch and run it. Returns how many records were taken."""
    first, count = claim(c, l, stage, batch, False)
    if count > 0:
        flush(c, o, stage, run_records(me, c, o, s, l, stage, first, count))
    return count


@kernel
def take_stateful(me, c, o, s, l, stage, batch):
    """As `take_stateless`, by the only worker at the stage; the end of the stream is a record of its own."""
    first = load_relaxed(c.stage, cell(stage, HEAD))
    tail = load_acquire(c.stage, cell(stage, TAIL))
    end = load_relaxed(c.stage, cell(stage, END_AT))
    count = min(batch, min(tail, end) - first)
    has_passed = False
    if count > 0:
        if stage == 0:
            l[CLAIMED_NS] = now_ns()
        store_release(c.stage, cell(stage, HEAD), first + count)
        has_passed = run_records(me, c, o, s, l, stage, first, count)
    elif first == end and first < tail:
        store_release(c.stage, cell(stage, HEAD), first + 1)
        if not open_block(me, c, l, stage, first):  # the drainer adds the end to the next ring
            raise MemoryError(NO_MEMORY)
        l[STAGE] = stage
        l[POSITION] = -1
        if not stopped(c):
            end_stage(me, c, s, l, stage, first)
        if not stopped(c):  # S2
            close_output(me, c, o, l, stage, first, 1)
        count = 1
    if count <= 0:  # it is below 0 once the end of the stream is claimed
        return 0
    flush(c, o, stage, has_passed)
    return count


@kernel
def find_record(c, stage, bucket, served, serial, step):
    """Find the record of a bucket that is run next, searching from `serial` in one direction (H4)."""
    wanted = labelled(bucket, served)
    serial += step
    while load_relaxed(c.tickets, label_of(c, stage, serial)) != wanted:
        serial += step
    # The ring may have come round since the search began; a record not yet run is less than a ring after NEXT.
    first = load_acquire(c.stage, cell(stage, NEXT))
    return first + ((serial - first) & c.form[stage, MASK])


@kernel
def run_bucket(me, c, o, s, l, stage, bucket, batch, serial, step):
    """Run a bucket until all its claimed records are done, each with an output of its own. No output is open.

    The search for the first one begins at `serial`. True if something was passed on since the last `flush`.
    """
    at = bucket * BUCKET_WORDS
    count = 0
    has_passed = False
    while True:
        served = load_relaxed(c.bucket, at + SERVED)  # H4
        serial = find_record(c, stage, bucket, served, serial, step)
        step = 1
        has_passed = run_records(me, c, o, s, l, stage, serial, 1) or has_passed  # H5
        store_relaxed(c.bucket, at + SERVED, served + 1)  # H6
        if fetch_add(c.bucket, at + CLAIMED, -1) == 1:  # H7
            return has_passed
        count += 1
        if count % batch == 0:
            flush(c, o, stage, has_passed)
            has_passed = False
            if stage == 0:
                l[CLAIMED_NS] = now_ns()


@kernel
def fetch_ahead(me, c, s, l, stage, serial, first, last):
    """Prefetch what the group of records after the one that begins here needs; another worker may have written it last."""
    if (serial - first) % AHEAD == 0:
        if serial == first:
            fetch_states(me, c, s, l, stage, first, min(first + AHEAD, last))
        if serial + AHEAD < last:
            fetch_states(me, c, s, l, stage, serial + AHEAD, min(serial + 2 * AHEAD, last))


@kernel
def take_hybrid(me, c, o, s, l, stage, batch):
    """Claim a batch; run what no other worker will. Returns how many records were claimed."""
    first, count = claim(c, l, stage, batch, True)
    begun = first  # the records run from here on are in the open output, if there are any
    has_passed = False
    for serial in range(first, first + count):
        fetch_ahead(me, c, s, l, stage, serial, first, first + count)
        ticket = l[TICKETS_COPIED + serial - first]
        bucket = ticket >> TICKET_BITS
        at = bucket * BUCKET_WORDS
        if fetch_add(c.bucket, at + CLAIMED, 1) == 0:  # H3
            served = load_relaxed(c.bucket, at + SERVED)  # H4
            is_next = labelled(bucket, served) == ticket
            if is_next:
                if begun == serial:
                    begin_output(me, c, l, stage, serial)
                run_opened(me, c, s, l, stage, serial, 1)  # H5
                store_relaxed(c.bucket, at + SERVED, served + 1)  # H6
                if fetch_add(c.bucket, at + CLAIMED, -1) == 1:  # H7
                    continue
            has_passed = end_output(me, c, o, l, stage, begun, serial + is_next) or has_passed
            # A bucket's records are run by number: this one may have been run by a worker that claimed a later one.
            step = 1 if (served - ticket) & TICKET <= TICKET >> 1 else -1
            has_passed = run_bucket(me, c, o, s, l, stage, bucket, batch, serial, step) or has_passed
        else:
            has_passed = end_output(me, c, o, l, stage, begun, serial) or has_passed
            c.work[me, stage, DELEGATED] += 1
        begun = serial + 1
    if count > 0:
        has_passed = end_output(me, c, o, l, stage, begun, first + count) or has_passed
        flush(c, o, stage, has_passed)
    return count


@kernel
def take_alone(me, c, o, s, l, stage, batch):
    """Claim and run a batch of a partitioned stage where no other worker is. Returns how many records were taken."""
    first, count = claim(c, l, stage, batch, False)
    if count > 0:
        begin_output(me, c, l, stage, first)
        run_opened(me, c, s, l, stage, first, count)  # A1
        for serial in range(first, first + count):
            at = (load_relaxed(c.tickets, label_of(c, stage, serial)) >> TICKET_BITS) * BUCKET_WORDS + SERVED
            store_relaxed(c.bucket, at, load_relaxed(c.bucket, at) + 1)  # A2
        flush(c, o, stage, end_output(me, c, o, l, stage, first, first + count))  # A3
    return count


@kernel
def take_shared(me, c, o, s, l, stage, batch):
    """Claim a batch and run it, waiting for the turn in each bucket. Returns how many records were taken."""
    first, count = claim(c, l, stage, batch, True)
    has_passed = False
    for k in range(count):
        at = (l[TICKETS_COPIED + k] >> TICKET_BITS) * BUCKET_WORDS + SERVED
        ticket = l[TICKETS_COPIED + k] & TICKET
        spins = 0
        while load_acquire(c.bucket, at) & TICKET != ticket:
            spins += 1
            if spins % YIELD_EVERY == 0:
                yield_core()
                if stopped(c):
                    return count
            pause()
        has_passed = run_records(me, c, o, s, l, stage, first + k, 1) or has_passed
        store_release(c.bucket, at, load_relaxed(c.bucket, at) + 1)
    if count > 0:
        flush(c, o, stage, has_passed)
    return count


@kernel
def take_partition(me, c, o, s, l, stage, batch):
    """Take a bucket that no other worker has, and run what waits there. Returns how many records were run."""
    buckets = c.form[stage, BUCKET_COUNT]
    mask = c.form[stage, MASK]
    for k in range(buckets):
        own = (l[TURN] + k) % buckets
        bucket = c.form[stage, BUCKETS] + own
        at = bucket * BUCKET_WORDS
        if load_acquire(c.bucket_tail, bucket) == load_relaxed(c.bucket, at + SERVED):
            continue
        if exchange(c.bucket, at + BUSY, 1) != 0:
            continue
        served = load_relaxed(c.bucket, at + SERVED)
        waiting = min(batch, load_acquire(c.bucket_tail, bucket) - served)
        has_passed = False
        if stage == 0:
            l[CLAIMED_NS] = now_ns()
        for n in range(waiting):
            serial = c.queue[c.form[stage, QUEUE] + own * (mask + 1) + ((served + n) & mask)]
            # The worker that appended it may not have published it yet.
            while load_acquire(c.stage, cell(stage, TAIL)) <= serial and not stopped(c):
                pause()
            has_passed = run_records(me, c, o, s, l, stage, serial, 1) or has_passed
        store_relaxed(c.bucket, at + SERVED, served + waiting)
        exchange(c.bucket, at + BUSY, 0)
        l[TURN] = own + 1
        if waiting > 0:
            fetch_add(c.stage, cell(stage, HEAD), waiting)
            flush(c, o, stage, has_passed)
            return waiting
    return 0


@kernel
def take(me, c, o, s, l, stage, batch, alone):
    """Claim and run something of a stage. Returns how many records were run, 0 if there is nothing."""
    kind = c.form[stage, KIND]
    if alone:
        return take_alone(me, c, o, s, l, stage, batch)
    if kind == STATELESS:
        return take_stateless(me, c, o, s, l, stage, batch)
    if kind == STATEFUL:
        return take_stateful(me, c, o, s, l, stage, batch)
    if c.form[stage, QUEUES] == HYBRID:
        return take_hybrid(me, c, o, s, l, stage, batch)
    if c.form[stage, QUEUES] == BY_PARTITION:
        return take_partition(me, c, o, s, l, stage, batch)
    return take_shared(me, c, o, s, l, stage, batch)


@kernel
def learn_cost(c, stage, spent_ns, taken):
    """Weigh a visit by its number of tuples: with one or two it is mostly claiming, draining and reading the clock."""
    if taken > 0:
        seen = spent_ns * COST_UNIT // taken
        before = load_relaxed(c.known[stage], COST)
        store_relaxed(c.known[stage], COST, seen if before == 0 else before + (seen - before) * taken // (taken + COST_TUPLES))


@kernel
def work(me, c, o, s, l, stage, batch):
    """Work at a stage for a time slice, or until it has nothing to do. Returns how many records were run."""
    alone = goes_alone(c, stage)
    if alone:
        if not compare_exchange(c.stage, cell(stage, WORKERS), 0, ALONE):
            return 0
    elif fetch_add(c.stage, cell(stage, WORKERS), 1) >= c.form[stage, MOST]:
        fetch_add(c.stage, cell(stage, WORKERS), -1)
        return 0
    most = claim_of(c, stage, batch)
    begun = until = now_ns()
    total = 0
    tuples, outputs = c.work[me, stage, TUPLES], c.work[me, stage, OUTPUTS]
    while True:
        count = take(me, c, o, s, l, stage, most, alone)
        total += count
        now = now_ns()
        if count == 0:
            break
        until = now  # a call that finds nothing is no part of a tuple's cost
        if now - begun >= c.tuning[TIME_SLICE] or stopped(c):
            break
    fetch_add(c.stage, cell(stage, WORKERS), -ALONE if alone else -1)
    if total > 0:
        c.work[me, stage, SPENT_NS] += now - begun
        c.work[me, stage, BATCHES] += 1
        fetch_add(c.known[stage], WINDOW_NS, now - begun)
        taken = c.work[me, stage, TUPLES] - tuples
        fetch_add(c.known[stage], TAKEN, taken)
        fetch_add(c.known[stage], MADE, c.work[me, stage, OUTPUTS] - outputs)
        learn_cost(c, stage, until - begun, taken)
    return total


__all__ = ["NO_MEMORY", "work"]
