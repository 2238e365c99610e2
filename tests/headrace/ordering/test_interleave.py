"""Reorder buffer, queues, delegation and draining under every interleaving of their own text.

Property    results are those of one worker, in its order; each record is run once, those of
            a bucket or of a stateful stage one after another; everything that is done leaves:
            nobody waits for ever with outputs in a slot. Of a run that is stopped somewhere, what
            has come out is the beginning of that
Oracle      the stages one after another (`support.pipeline_arrays`)
Schedules   of `work_kernel`, `buffer_kernel` and all they import, as they are (`interleave`): two
            or three workers and a collector, a first ring that holds the whole input, rings and
            result ring of two records behind it. A fifth of the sampled schedules run with store
            buffers. Workers drain only what they have done themselves: nothing that is
            stranded is swept up. All schedules of the buffer's smallest cases: test_interleave_buffer.py;
            of its model: tests/headrace/memory/test_reorder_buffer.py. A stop comes before any step: the
            functions here, as generated ones do, begin nothing after it, and leave their outputs half
Planted     each names the failure it must cause
Cannot see  memory weaker than x86's; the way in, sleeping: test_interleave_sleeping.py
"""

# ruff: noqa: F821  (the names are the explored kernels')

from types import SimpleNamespace

import pytest

from headrace.ordering.words import (
    BUCKET_WORDS,
    BY_PARTITION,
    FIRST_COLUMN,
    HYBRID,
    LOCKED,
    NONBLOCKING,
    OUT_AT,
    PARTITIONED,
    SERVED,
    SHARED,
    STAGE_CELLS,
    STATEFUL,
    STATELESS,
    TICKET_BITS,
)
from headrace.progress import END_OF_TIME
from interleave import TSO, Kernels, find_failure, sampled
from support.campaign import rarely
from support.pipeline_arrays import CONSTANTS, STRIDE, arrays, expected_rows, fresh, odd, once, thrice, twice

WORK = "headrace.ordering.work_kernel"
BUFFER = "headrace.ordering.buffer_kernel"
POOL = "headrace.ordering.pool_kernel"
AT_END = [4, 9]
"""What a stateful stage gives when its input is over."""

IN_TWO_STEPS = (
    WORK,
    "    run_stage(me, c, s, l)\n",
    "    for serial in range(first, first + count):\n        if c.words[STOP] != 0:\n            return\n"
    "        read_record(me, c, s, stage, serial)\n        cut()\n        write_record(me, c, s, l, stage, serial)\n",
)
"""Another worker may run between what a record reads of its state and what it writes."""

ALONE_NOW_AND_THEN = (
    "headrace.ordering.schedule_kernel",
    "    if c.form[stage, MAY_BE_ALONE] == 0:\n        return False\n",
    "    c.tuning[7] += 1\n    return c.form[stage, KIND] == PARTITIONED and c.tuning[7] % 2 == 1\n",
)
"""Every second visit of a partitioned stage is alone, whatever it costs; nothing else reads that word of `tuning`."""


def serve(me, c, o, s, l, batch):
    """A worker that takes whatever there is, the last stage first."""
    last = len(c.form) - 1
    while load_acquire(c.words, OVER) == 0 and c.words[STOP] == 0:
        moved = False
        for stage in range(last, -1, -1):
            if is_schedulable(c, stage):
                done = work(me, c, o, s, l, stage, batch)
                moved = moved or done > 0
        for stage in range(last + 1):
            # Nobody has done it: the end of the stream, and what waited for the collector.
            at_end = load_acquire(c.stage, cell(stage, NEXT)) == load_acquire(c.stage, cell(stage, END_AT))
            if stage == last:
                at_end = at_end or load_acquire(c.words, BLOCKED) != 0
            if at_end and can_drain(c, o, stage):
                passed = flush(c, o, stage, False)
                moved = moved or passed
        if not moved:
            pause()


def feed(c, values):
    """The way in: appends records as there is room for them, then the end."""
    for serial in range(len(values) + 1):
        while serial - load_acquire(c.stage, cell(0, NEXT)) > c.form[0][MASK]:
            pause()
        if serial == len(values):
            append_end(c, 0, serial, 0)
        else:
            record = record_of(c, 0, serial)
            c.arena[record + FIRST_COLUMN] = values[serial]
            enqueue(c, 0, serial, serial + 1)
        store_release(c.stage, cell(0, TAIL), serial + 1)


def stop(c, steps):
    """The thread that stops the run, at some time."""
    for _ in range(steps):
        cut()
    store_release(c.words, STOP, 1)


def collect(c, o, s):
    """The collector: takes rows in their order, and makes room."""
    tail = 0
    while True:
        over = load_acquire(c.words, OVER) + load_acquire(c.words, STOP)
        head = load_acquire(o.head, 0)
        if tail < head:
            at = tail & (len(o.primary[0]) - 1)
            s.rows.append(c.out[0][at])
            tail += 1
            store_release(o.tail, 0, tail)
        elif over != 0:
            return
        else:
            pause()


# -- stages: `s.outputs` of a value, states are sums ----------------------------------------------------


def kernels(*planted, in_place=True, alone=False):
    holder = {}

    def read_record(me, c, s, stage, serial):
        k = holder["k"]
        value = c.arena[k.record_of(c, stage, serial) + FIRST_COLUMN]
        kind = c.form[stage][k.KIND]
        key = (stage, value % 2 if kind == PARTITIONED else 0)
        s.ran.append((stage, serial))
        s.held[me] = value, key, s.sums.get(key, 0)

    def write_record(me, c, s, l, stage, serial):
        value, key, before = s.held[me]
        if c.form[stage][holder["k"].KIND] != STATELESS:
            s.sums[key] = before * 3 + value
            value = value + 10 * before
        write_outputs(c, l, s.outputs[stage](value))

    def write_outputs(c, l, outputs):
        k = holder["k"]
        if c.words[k.STOP] != 0:
            outputs = outputs[:-1]  # the function saw it
        for output in outputs:
            at = l[OUT_AT]
            if at + STRIDE > l[k.OUT_LIMIT]:
                at = at_once(k.grow_output(c, l, STRIDE))
            c.arena[at : at + STRIDE] = [0] * FIRST_COLUMN + [output]
            l[OUT_AT] = at + STRIDE

    def end_stage(me, c, s, l, stage, serial):
        write_outputs(c, l, AT_END)

    program = {
        "read_record": read_record, "write_record": write_record, "end_stage": end_stage, "fetch_states": lambda *_: 0,
    }  # fmt: skip
    constants = {**CONSTANTS, "LEAST_CLASS": 3 if in_place else 5, "KEPT_CLASS": 3}
    planted = (IN_TWO_STEPS, *([ALONE_NOW_AND_THEN] if alone else []), *planted)
    holder["k"] = Kernels(
        WORK, BUFFER, programs=[serve, feed, stop, collect], planted=list(planted), given=program, constants=constants,
        shared=("queue", "slots", "tickets", "arena"),
    )  # fmt: skip
    return holder["k"]


def at_once(steps):
    """What comes of steps between which nobody else runs."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value


def case(
    k, values, stages, *, batch=1, queues=HYBRID, reorder=NONBLOCKING, workers=2, first=8, room=2, results=16, stop_after=None,
    tickets=0,
):  # fmt: skip
    """`stages` are (kind, outputs of a value), `first` and `room` what the first ring and the others hold.

    `stop_after`: the run is stopped, after so many steps of the thread that does it. `tickets`: so many records of each bucket
    came before these.
    """
    sizes = {"workers": workers, "first": first, "room": room, "results": results}
    shared, out = arrays(k, [kind for kind, _ in stages], batch=batch, queues=queues, reorder=reorder, **sizes)
    for bucket in range(len(shared.bucket_tail)):
        shared.bucket_tail[bucket] = shared.bucket[bucket * BUCKET_WORDS + SERVED] = tickets
    rows = expected_rows(values, stages, AT_END)

    def build():
        c, o = fresh(k, shared, out)
        s = SimpleNamespace(ran=[], rows=[], held={}, sums={}, outputs=[outputs for _, outputs in stages])
        threads = [k.serve(me, c, o, s, [0] * 1100, batch) for me in range(workers)]
        if len(values) < first:  # the whole input is there
            for _ in k.feed(c, values):
                pass
        else:
            threads.append(k.feed(c, values))
        threads.append(k.collect(c, o, s))
        if stop_after is not None:
            threads.append(k.stop(c, stop_after))

        def check():
            if c.words[k.STOP] != 0:
                left = [c.out[0][at & (results - 1)] for at in range(len(s.rows), o.head[0])]
                wanted = rows if o.mark == [END_OF_TIME] else rows[: o.head[0]]
                assert s.rows + left == wanted, f"rows {s.rows + left} of a stopped run, wanted first {rows}"
                return
            assert s.rows == rows, f"rows {s.rows}, wanted {rows}"
            assert len(set(s.ran)) == len(s.ran), f"run twice: {sorted(s.ran)}"
            assert o.mark == [END_OF_TIME]
            assert all(c.stage[j * STAGE_CELLS + k.WORKERS] == 0 for j in range(len(stages))), "workers are booked at a stage"

        return threads, check

    return build


SL = [(STATELESS, once), (STATELESS, odd)]
MANY = [(STATELESS, twice), (STATELESS, once)]
MORE = [(STATELESS, thrice), (STATELESS, once)]
PS = [(PARTITIONED, once), (STATELESS, once)]
PAIRS = [(PARTITIONED, once), (STATELESS, twice)]
SF = [(STATELESS, once), (STATEFUL, twice)]
ALL = [(STATELESS, twice), (PARTITIONED, odd), (STATEFUL, once)]
CHAINS = {"stateless": SL, "many outputs": MANY, "more than fit": MORE, "partitioned": PS, "stateful": SF, "all kinds": ALL}


@pytest.mark.parametrize("count", [120, *rarely(300)])
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("reorder", [NONBLOCKING, LOCKED], ids=["nonblocking", "lock"])
def test_interleave_two_workers(chain, reorder, count):
    sampled("pipeline", case(kernels(), [1, 3, 2, 5], CHAINS[chain], reorder=reorder), count, longest=20_000)


@pytest.mark.parametrize("count", [60, *rarely(150)])
@pytest.mark.parametrize("room", [4, 8])
def test_interleave_outputs_in_place(room, count):
    for chain in CHAINS.values():
        sampled("pipeline", case(kernels(), [1, 3, 2, 5, 7], chain, batch=2, room=room), count, longest=20_000)


@pytest.mark.parametrize("count", [80, *rarely(200)])
@pytest.mark.parametrize("queues", [HYBRID, BY_PARTITION, SHARED], ids=["hybrid", "partitioned", "shared"])
def test_interleave_queues(queues, count):
    for batch in (1, 2):
        build = case(kernels(), [1, 3, 2, 5, 7], ALL, batch=batch, queues=queues)
        sampled("pipeline", build, count, longest=20_000)


def test_interleave_a_worker_alone_and_workers_together():
    for chain, batch in ((PS, 1), (ALL, 2), (PAIRS, 2)):
        sampled("pipeline", case(kernels(alone=True), [1, 3, 2, 5, 7], chain, batch=batch), 250, longest=20_000)


TURNS_OVER = (1 << TICKET_BITS) - 1
"""So many records of a bucket have come that the next but one has ticket 0 again."""


@pytest.mark.parametrize("count", [60, *rarely(300)])
@pytest.mark.parametrize("queues", [HYBRID, BY_PARTITION, SHARED], ids=["hybrid", "partitioned", "shared"])
def test_interleave_tickets_turn_over(queues, count):
    """In both buckets; with a worker alone at times, too."""
    for chain in (PS, ALL):
        build = case(kernels(), [1, 3, 2, 4, 5, 6], chain, batch=2, queues=queues, tickets=TURNS_OVER)
        sampled("pipeline", build, count, longest=20_000)
    if queues == HYBRID:
        build = case(kernels(alone=True), [1, 3, 2, 4, 5, 6], PAIRS, batch=2, tickets=TURNS_OVER)
        sampled("pipeline", build, count, longest=20_000)


@pytest.mark.slow
def test_interleave_three_workers_and_a_full_result_ring():
    for chain in (ALL, PS):
        build = case(kernels(), [1, 3, 2, 5], chain, workers=3, results=2, batch=2)
        sampled("pipeline", build, 200, longest=40_000)


STOPPED = [
    ([(STATELESS, thrice)], HYBRID, NONBLOCKING), (PAIRS, HYBRID, NONBLOCKING), (PAIRS, SHARED, LOCKED),
    ([(PARTITIONED, twice)], HYBRID, NONBLOCKING), ([(PARTITIONED, twice)], BY_PARTITION, LOCKED),
    ([(PARTITIONED, twice)], SHARED, NONBLOCKING), ([(STATEFUL, twice)], HYBRID, NONBLOCKING),
]  # fmt: skip
"""What half an output shows in: its stage is the last one, and gives several."""


@pytest.mark.parametrize("count", [100, *rarely(500)])
@pytest.mark.parametrize("stop_after", [10, 40, 100, 200])
def test_interleave_a_stop(stop_after, count):
    for chain, queues, reorder in STOPPED:
        build = case(kernels(), [1, 3, 2, 5, 7], chain, batch=2, queues=queues, reorder=reorder, stop_after=stop_after)
        sampled("pipeline", build, count, longest=20_000)


# -- planted mistakes ----------------------------------------------------------------------------------

WRONG = r"rows \["
ASLEEP = "deadlock"

PLANTED = {
    "the flag is cleared plainly": (
        (BUFFER, "        exchange(c.stage, cell(stage, DRAINING), 0)  # D6\n",
         "        store_release(c.stage, cell(stage, DRAINING), 0)  # D6\n"),
        [(STATELESS, once)], HYBRID, ASLEEP, TSO,
    ),
    "an output is stored, and no fence before the look": (
        (BUFFER, "    fence()  # W3\n", ""), [(STATELESS, once)], HYBRID, ASLEEP, TSO,
    ),
    "nobody looks again after the flag was cleared": (
        (BUFFER, "        if not can_drain(c, o, stage):  # D7\n", "        if moved or not moved:  # D7\n"),
        [(STATELESS, once)], HYBRID, ASLEEP, "SC",
    ),
    "bucket ids are read after the head moved": (
        (WORK, "        if copies:\n            for k in range(count):\n"
         "                l[TICKETS_COPIED + k] = load_relaxed(c.tickets, label_of(c, stage, first + k))  # H1\n"
         "        if compare_exchange(c.stage, cell(stage, HEAD), first, first + count):  # H2\n"
         "            return first, count\n",
         "        if compare_exchange(c.stage, cell(stage, HEAD), first, first + count):  # H2\n"
         "            for _ in range(20):\n"  # so long that the ring comes round
         "                pause()\n"
         "            for k in range(count):\n"
         "                l[TICKETS_COPIED + k] = load_relaxed(c.tickets, label_of(c, stage, first + k))\n"
         "            return first, count\n"),
        [(PARTITIONED, once)], HYBRID, ASLEEP, "SC",
    ),
    "a worker back after the ring has come round does not see it": (
        [(WORK, "    return first + ((serial - first) & c.form[stage, MASK])\n", "    return serial\n"),
         (WORK, "        if fetch_add(c.bucket, at + CLAIMED, 1) == 0:  # H3\n",
          "        for _ in range(30 * me):\n"  # so long
          "            pause()\n"
          "        if fetch_add(c.bucket, at + CLAIMED, 1) == 0:  # H3\n")],
        [(PARTITIONED, once)], HYBRID, ASLEEP, "SC",
    ),
    "a ticket is told by its bucket alone": (
        (WORK, "    while load_relaxed(c.tickets, label_of(c, stage, serial)) != wanted:\n",
         "    while load_relaxed(c.tickets, label_of(c, stage, serial)) >> TICKET_BITS != bucket:\n"),
        PAIRS, HYBRID, f"{ASLEEP}|{WRONG}", "SC",
    ),
    "the count is tested before it is lowered": (
        (WORK, "        if fetch_add(c.bucket, at + CLAIMED, -1) == 1:  # H7\n            return has_passed\n",
         "        left = load_acquire(c.bucket, at + CLAIMED)\n        fetch_add(c.bucket, at + CLAIMED, -1)\n"
         "        if left == 1:\n            return has_passed\n"),
        PS, HYBRID, ASLEEP, "SC",
    ),
    "a record is visible before it has its ticket": (
        (BUFFER, "    enqueue(c, stage + 1, first, last)\n",
         "    store_release(c.stage, cell(stage + 1, TAIL), last)\n    enqueue(c, stage + 1, first, last)\n"),
        [(STATELESS, once), (PARTITIONED, once)], HYBRID, ASLEEP, "SC",
    ),
    "more is passed on than there is room for": (
        (BUFFER, "    return c.form[after, MASK] + 1 - used\n", "    return c.form[after, MASK] + 2 - used\n"),
        MANY, HYBRID, f"{ASLEEP}|{WRONG}", "SC",
    ),
    "what is not the first to be passed on is written in place": (
        (BUFFER, "    if load_acquire(c.stage, cell(stage, NEXT)) != serial:  # E1\n        return False\n", ""),
        SL, HYBRID, f"{ASLEEP}|{WRONG}", "SC",
    ),
    "writing in place does not keep others from draining": (
        (BUFFER, "    if exchange(c.stage, cell(stage, DRAINING), 1) != 0:  # E2\n        return False\n", ""),
        MANY, HYBRID, WRONG, "SC",
    ),
    "nobody looks upstream after outputs were written in place": (
        (BUFFER, " and not has_passed:\n", ":\n"), [(STATELESS, once)] * 3, HYBRID, ASLEEP, "SC",
    ),
    "the next ring is taken for a block": (
        (BUFFER, "    if l[OUT_CLASS] != IN_PLACE:\n        give_block(c, l[OUT_CLASS], l[OUT_BLOCK])\n",
         "    give_block(c, max(LEAST_CLASS, l[OUT_CLASS]), l[OUT_BLOCK])\n"),
        MORE, HYBRID, WRONG, "SC",
    ),
    "a full stage is not drained again": (
        (BUFFER, "        any_moved = True\n        stage -= 1\n", "        return True\n"), MANY, HYBRID, ASLEEP, "SC",
    ),
    "a worker that finds a stage full stays booked there": (
        (WORK, "        fetch_add(c.stage, cell(stage, WORKERS), -1)\n        return 0\n", "        return 0\n"),
        SF, HYBRID, f"{ASLEEP}|workers are booked", "SC",
    ),
    "two workers at a stateful stage": (
        (WORK, ">= c.form[stage, MOST]:", "> c.form[stage, MOST]:"), SF, HYBRID, f"{WRONG}|run twice", "SC",
    ),
    "a block is taken by two": (
        (POOL, "        if compare_exchange(c.pool, size_class * CELL, head, (head & ~_PLACE) + _CHANGE + following):  # T3\n",
         "        if exchange(c.pool, size_class * CELL, (head & ~_PLACE) + _CHANGE + following) >= 0:  # T3\n"),
        MANY, HYBRID, WRONG, "SC",
    ),
    "a shared worker does not wait for its turn": (
        (WORK, "        while load_acquire(c.bucket, at) & TICKET != ticket:\n",
         "        while load_acquire(c.bucket, at) > ticket:\n"),
        PS, SHARED, WRONG, "SC",
    ),
    "a partition is taken by two": (
        (WORK, "        if exchange(c.bucket, at + BUSY, 1) != 0:\n", "        if exchange(c.bucket, at + BUSY, 1) > 1:\n"),
        PS, BY_PARTITION, f"{ASLEEP}|{WRONG}|run twice", "SC",
    ),
    "a worker is alone where others are": (
        (WORK, "        if not compare_exchange(c.stage, cell(stage, WORKERS), 0, ALONE):\n",
         "        if fetch_add(c.stage, cell(stage, WORKERS), ALONE) < 0:\n"),
        PS, HYBRID, f"{ASLEEP}|{WRONG}", "SC",
    ),
    "others come to a worker that is alone": (
        (WORK, "    elif fetch_add(c.stage, cell(stage, WORKERS), 1) >= c.form[stage, MOST]:\n",
         "    elif fetch_add(c.stage, cell(stage, WORKERS), 1) % ALONE >= c.form[stage, MOST]:\n"),
        PS, HYBRID, ASLEEP, "SC",
    ),
    "a worker that was alone does not say how far buckets are": (
        (WORK, "            store_relaxed(c.bucket, at, load_relaxed(c.bucket, at) + 1)  # A2\n", "            pause()\n"),
        PS, HYBRID, ASLEEP, "SC",
    ),
    "it says so after its records are passed on": (
        (WORK, "        for serial in range(first, first + count):\n"
         "            at = (load_relaxed(c.tickets, label_of(c, stage, serial)) >> TICKET_BITS) * BUCKET_WORDS + SERVED\n"
         "            store_relaxed(c.bucket, at, load_relaxed(c.bucket, at) + 1)  # A2\n"
         "        flush(c, o, stage, end_output(me, c, o, l, stage, first, first + count))  # A3\n",
         "        flush(c, o, stage, end_output(me, c, o, l, stage, first, first + count))\n"
         "        for _ in range(20):\n"
         "            pause()\n"
         "        for serial in range(first, first + count):\n"
         "            at = (load_relaxed(c.tickets, label_of(c, stage, serial)) >> TICKET_BITS) * BUCKET_WORDS + SERVED\n"
         "            store_relaxed(c.bucket, at, load_relaxed(c.bucket, at) + 1)\n"),
        [(PARTITIONED, once)], HYBRID, ASLEEP, "SC",
    ),
}  # fmt: skip
ALONE_AT_TIMES = {
    "a worker is alone where others are", "others come to a worker that is alone",
    "a worker that was alone does not say how far buckets are", "it says so after its records are passed on",
}  # fmt: skip


IN_BLOCKS = {"the count is tested before it is lowered", "a record is visible before it has its ticket"}
"""Mistakes that show where outputs are put aside: blocks are larger than rings here."""
IN_ONE_BUCKET = {"the count is tested before it is lowered"}
"""Mistakes that show soonest where all records are of one bucket."""


@pytest.mark.parametrize("mistake", PLANTED)
def test_interleave_planted_mistake_is_found(mistake):
    planted, chain, queues, expected, memory = PLANTED[mistake]
    values = [1, 3] if chain == [(STATELESS, once)] else [1, 3, 2, 5, 7]
    first = 8
    if chain == [(PARTITIONED, once)]:
        first, values = 2, [1, 3, 2, 4, 5, 7, 1, 3]
    if mistake in IN_ONE_BUCKET:
        values = [1, 3, 5, 7]
    edits = planted if isinstance(planted, list) else [planted]
    k = kernels(*edits, in_place=mistake not in IN_BLOCKS, alone=mistake in ALONE_AT_TIMES)
    build = case(k, values, chain, queues=queues, first=first, batch=2 if chain == PAIRS else 1)
    find_failure("pipeline", build, expected, count=4000, longest=20_000, memory=memory)


OVERFLOWN = {
    "a ticket that has turned over changes the bucket": (
        BUFFER, "    return bucket << TICKET_BITS | ticket & TICKET\n", "    return bucket << TICKET_BITS | ticket\n",
    ),
    "a turn that has turned over is waited for by its lower bits": (
        WORK, "        while load_acquire(c.bucket, at) & TICKET != ticket:\n",
        "        while load_acquire(c.bucket, at) != ticket:\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", OVERFLOWN)
def test_interleave_planted_mistake_of_tickets_that_turn_over_is_found(mistake):
    """By workers that wait for their turn; elsewhere one that looks for a record would look for ever, as no schedule shows."""
    build = case(kernels(OVERFLOWN[mistake]), [1, 3, 2, 4], PS, queues=SHARED, tickets=TURNS_OVER)
    find_failure("pipeline", build, ASLEEP, count=4000, longest=20_000)


HALF = {
    "what a function left half is passed on": (
        (WORK, "    if first >= last or stopped(c):  # S2\n", "    if first >= last:\n"), [(STATELESS, thrice)],
    ),
    "so is what one at the end of the stream left half, and as the last there is": (
        (WORK, "        if not stopped(c):  # S2\n            close_output(", "        if True:\n            close_output("),
        [(STATEFUL, once)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", HALF)
def test_interleave_planted_half_outputs_of_a_stopped_run_are_found(mistake):
    planted, chain = HALF[mistake]
    build = case(kernels(planted), [1, 3], chain, batch=2, stop_after=100)
    find_failure("pipeline", build, WRONG + ".* of a stopped run", count=4000, longest=20_000)
