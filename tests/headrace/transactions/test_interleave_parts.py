"""Each concurrent part of the transactions' executors by itself: all schedules of a small case, store buffers included.

Property    barrier: nobody is past it before all are there, round after round. Chains: links and counters are those that one
            executor alone makes. Flow, stealing, locks, versions, partitions: each event runs once, reads what the serial
            order has it read, and so do the tables end. Parts of operation chains are run by one executor each. A snapshot
            is taken of the tables as they are between two batches
Oracle      the events one after another, in this file
Schedules   every one under x86's TSO (`interleave`) of the kernels' own text, with at most so many preemptions, of which a
            step of a store buffer is one, or any number; at least how many there are is part of each test
Planted     each names the failure it must cause, and is found by the schedules of the part's own test
Cannot see  the loop around the parts, more executors and longer cases, which test_interleave.py samples; speculation
            (test_interleave_speculative.py); memory weaker than x86's
"""

# ruff: noqa: F821  (the names are the explored kernels')

from types import SimpleNamespace

import pytest

from headrace.transactions.words import (
    CHAINS,
    LOCK,
    MVLK,
    PARTITION,
    RECORD_WORDS,
    SHARED_EVERYTHING,
    SHARED_NOTHING,
)
from interleave import TSO, FailingSchedule, Kernels, copied, exhaustive
from support.executor_arrays import CONSTANTS, shared_of, take_snapshots

SCHEMES_OF = "headrace.transactions.schemes_kernel"
PARTS = "headrace.transactions.chains_kernel"
PHASES = "headrace.transactions.phases_kernel"
FLOW = "headrace.transactions.flow_kernel"
STEALING = "headrace.transactions.stealing_kernel"
LOCKS = "headrace.transactions.locks_kernel"
VERSIONS_OF = "headrace.transactions.versions_kernel"
PARTITIONS = "headrace.transactions.partition_kernel"


# -- what executors do, as far as one part goes ---------------------------------------------------------


def meet_in_rounds(me, c, l, s):
    """In each round everybody reads what everybody wrote before."""
    for n in range(s.rounds):
        c.table_rows[2 * me + n] = 7
        if not meet(me, c, l):
            return
        s.seen[me].append([c.table_rows[2 * r + n] for r in range(s.threads)])


def make_chains(me, c, l, s):
    cut()
    deal_to_owners(me, c, 0, False)
    if meet(me, c, l):
        link_owned(me, c, 0)


def run_events(me, c, l, s):
    """Of `execute_batch` what does not belong to the program."""
    begin_taking(me, c, l, 0)
    while True:
        i = take(me, c, l, 0, s.executed)
        if i < 0:
            return
        l[CAUSE] = i
        at = [row_of(me, c, s, l, i, record) for record, _ in s.events[i]]
        read = [c.table_rows[place] for place in at]
        s.ran[me].append((i, read))
        cut()
        for n in range(len(at)):
            if s.events[i][n][1]:
                c.table_rows[at[n]] = 3 * sum(read) + 7 * n + i
        let_go(me, c, l, 0, i)


def row_of(me, c, s, l, i, record):
    return place_of(me, c, l, record) if l[VERSIONED] != 0 else record


def take_parts(me, c, l, s):
    while True:
        p = take_part(me, c, l, 0)
        if p < 0:
            return
        s.ran[me].append(p)


def take_offers(me, c, l, s):
    """One has two events on its stack, and offers one of them; all take what they get."""
    offer_one(me, c, l, 0)
    while True:
        i = c.stack[me][l[DEPTH] - 1] if l[DEPTH] > 0 else steal(me, c, 0)
        if i < 0:
            return
        l[DEPTH] = max(0, l[DEPTH] - 1)
        s.ran[me].append(i)


def run_batches(me, c, l, s):
    """Batches of one event, which writes a word of each executor; of the leader's work between two what concerns snapshots."""
    for n in range(s.rounds + 1):
        if arrive(c):
            store_release(c.words, SEEN, n)
            hold(me, c)
            if n == s.rounds:
                store_release(c.words, OVER, 1)
                signal(c.words, WATCHER_WAITING, c.event, WATCH_EVENT)
            release(c, l)
        elif not await_punctuation(me, c, l):
            return
        if n < s.rounds:
            c.table_rows[me] = n + 1


PROGRAMS = [take_offers, meet_in_rounds, make_chains, run_batches, run_events, row_of, take_parts, take_snapshots]


def kernels(*planted):
    return Kernels(
        SCHEMES_OF, PARTS, programs=PROGRAMS, planted=planted, shared=["table_rows"],
        given={"turn": lambda *_: 0}, constants={**CONSTANTS, "PARTS_EACH": 1},
    )  # fmt: skip


def ops(*words):
    """Events from words: ``"a B"`` reads a and writes b."""
    return [tuple((ord(key.lower()) - ord("a"), key.isupper()) for key in word.split()) for word in words]


def serial(events, records):
    values, read = [1] * records, []
    for i, event in enumerate(events):
        read.append([values[record] for record, _ in event])
        for n, (record, is_write) in enumerate(event):
            if is_write:
                values[record] = 3 * sum(read[-1]) + 7 * n + i
    return values, read


def run_through(steps):
    """What is done before the executors begin, by one."""
    for _ in steps or ():
        pass


def prepared(k, events, scheme, sharing, threads=2, arranged=True):
    """The arrays of a batch of all events, whose key sets are there; notes of each executor."""
    records = 1 + max(record for event in events for record, _ in event)
    c = shared_of(k, records, [(threads, scheme, sharing, 8)], workers=threads)
    at, notes = 0, []
    for me in range(threads):
        first, last = len(events) * me // threads, len(events) * (me + 1) // threads
        c.filling[me][k.FIRST_OPERATION] = at
        for i in range(first, last):
            c.set_at[i], c.set_size[i] = at, len(events[i])
            for record, is_write in events[i]:
                c.sets[at], c.event_of[at] = record << 1 | is_write, i
                at += 1
        c.filling[me][k.SET_AT] = at
        notes.append([0] * 64)
        notes[me][k.AT_PHASE] = 1
        notes[me][k.PART] = -1
        if arranged and scheme == PARTITION:
            run_through(k.number_slice(me, c, 0, first, last))
    c.words[k.FIT] = c.words[k.COUNT] = len(events)
    for me in range(threads if arranged else 0):
        if scheme == PARTITION:
            run_through(k.start_slices(me, c, 0))
        if scheme == CHAINS:
            run_through(k.deal_to_owners(me, c, 0, False))
    for me in range(threads if arranged and scheme == CHAINS else 0):
        run_through(k.link_owned(me, c, 0))
    return c, notes, records


def runs(k, events, scheme, sharing=SHARED_NOTHING, threads=2):
    """The events of a batch, prepared; executors run them."""
    made, notes, records = prepared(k, events, scheme, sharing, threads)
    values, read = serial(events, records)

    def build():
        c, own = copied(made), [one[:] for one in notes]
        s = SimpleNamespace(events=events, executed=len(events), ran=[[] for _ in own])

        def check():
            ran = sorted(each for one in s.ran for each in one)
            assert [i for i, _ in ran] == list(range(len(events))), f"events ran: {ran}"
            assert ran == list(enumerate(read)), f"events read {ran}, wanted {read}"
            for me in range(threads):
                if scheme == MVLK:
                    first, last = len(events) * me // threads, len(events) * (me + 1) // threads
                    run_through(k.write_back(c, first, last))
            assert c.table_rows[:records] == values, f"tables are {c.table_rows[:records]}, wanted {values}"

        return [k.run_events(me, c, own[me], s) for me in range(threads)], check

    return build


def barrier(k, rounds=2, threads=2):
    made, notes, _ = prepared(k, ops(*"ABC"[:threads]), CHAINS, SHARED_NOTHING, threads, arranged=False)

    def build():
        c, own = copied(made), [one[:] for one in notes]
        s = SimpleNamespace(threads=threads, rounds=rounds, seen=[[] for _ in own])

        def check():
            assert s.seen == [[[7] * threads] * rounds] * threads, f"seen {s.seen}"
            assert c.words[k.ARRIVED] == 0 and c.words[k.PHASE] == 1 + rounds

        return [k.meet_in_rounds(me, c, own[me], s) for me in range(threads)], check

    return build


def snapshots(k, rounds=1):
    """One executor, and the thread that copies the tables after each batch."""
    made, notes, _ = prepared(k, ops("A"), CHAINS, SHARED_NOTHING, 1, arranged=False)
    made.words[k.SNAPSHOT_AT], made.table_rows[0] = 1, 0

    def build():
        c, own, taken = copied(made), notes[0][:], []

        def check():
            wanted = [(at, [at]) for at in range(1, rounds + 1)]
            assert taken == wanted, f"snapshots {taken}, wanted {wanted}"

        return [k.run_batches(0, c, own, SimpleNamespace(rounds=rounds)), k.take_snapshots(c, 1, 1, taken)], check

    return build


def chains(k, events, threads=2):
    made, notes, records = prepared(k, events, CHAINS, SHARED_NOTHING, threads, arranged=False)
    alone, _, _ = prepared(k, events, CHAINS, SHARED_NOTHING, 1)

    def build():
        c, own = copied(made), [one[:] for one in notes]

        def check():
            for name in ("link", "link_2", "pending"):
                found, wanted = getattr(c, name), getattr(alone, name)
                assert found == wanted, f"{name} is {found}, wanted {wanted}"
            for record in range(records):
                at = slice(record * RECORD_WORDS, record * RECORD_WORDS + RECORD_WORDS)
                assert c.tails[at] == alone.tails[at], f"record {record} ends as {c.tails[at]}, wanted {alone.tails[at]}"

        return [k.make_chains(me, c, own[me], None) for me in range(threads)], check

    return build


def claims(k, parts=2):
    made, notes, _ = prepared(k, ops(*"ABC"), CHAINS, SHARED_EVERYTHING, 3, arranged=False)

    def build():
        c, own = copied(made), [one[:] for one in notes]
        s = SimpleNamespace(ran=[[] for _ in own])

        def check():
            ran = sorted(p for one in s.ran for p in one)
            assert ran == list(range(parts)), f"parts were run: {ran}"

        return [k.take_parts(me, c, own[me], s) for me in range(3)], check

    return build


def offers(k):
    made, notes, _ = prepared(k, ops(*"ABC"), CHAINS, SHARED_EVERYTHING, 3, arranged=False)
    made.words[k.HUNGRY], notes[0][k.DEPTH], made.stack[0][:2] = 1, 2, [3, 4]

    def build():
        c, own = copied(made), [one[:] for one in notes]
        s = SimpleNamespace(ran=[[] for _ in own])

        def check():
            ran = sorted(i for one in s.ran for i in one)
            assert ran == [3, 4], f"events ran: {ran}"

        return [k.take_offers(me, c, own[me], s) for me in range(2)], check  # the third one is at work elsewhere

    return build


JOINED = ops("A", "B", "A B")
TO_AND_FRO = ops("a B", "b A", "A")
READERS = ops("A", "a", "a", "A")
HOT = ops("A", "A", "A")
FAN = ops("A", "a B", "a C")
TWO, THREE = ops("A", "A"), ops("A B", "a", "B A")
EVERYTHING = SHARED_EVERYTHING
SMALL = {
    # what is built; preemptions at most, None: any; how many schedules there are at least
    "barrier, one round": (lambda k: barrier(k, 1), 3, 1000),
    "barrier, three executors": (lambda k: barrier(k, 1, 3), 1, 1000),
    "chains, one record": (lambda k: chains(k, HOT), 3, 500),
    "chains, two owners": (lambda k: chains(k, JOINED), 3, 500),
    "chains, reads": (lambda k: chains(k, READERS), 3, 500),
    "claims of parts": (claims, None, 50),
    "flow": (lambda k: runs(k, JOINED, CHAINS), None, 200),
    "flow, to and fro": (lambda k: runs(k, TO_AND_FRO, CHAINS), 3, 300),
    "stealing, one chain": (lambda k: runs(k, TWO, CHAINS, EVERYTHING), 3, 3000),
    "offers": (offers, 3, 500),
    "stealing, a fan": (lambda k: runs(k, FAN, CHAINS, EVERYTHING), 2, 800),
    "locks, one record": (lambda k: runs(k, TWO, LOCK), 3, 3000),
    "locks, crossed": (lambda k: runs(k, THREE, LOCK), 2, 1000),
    "versions, crossed": (lambda k: runs(k, THREE, MVLK), 2, 1000),
    "partitions, one record": (lambda k: runs(k, TWO, PARTITION), None, 20),
    "partitions, crossed": (lambda k: runs(k, THREE, PARTITION), 2, 800),
    "flow, three executors": (lambda k: runs(k, JOINED, CHAINS, threads=3), 2, 700),
    "stealing, three executors": (lambda k: runs(k, TWO, CHAINS, EVERYTHING, threads=3), 1, 1000),
    "locks, three executors": (lambda k: runs(k, HOT, LOCK, threads=3), 1, 500),
    "versions, three executors": (lambda k: runs(k, HOT, MVLK, threads=3), 1, 700),
    "partitions, three executors": (lambda k: runs(k, HOT, PARTITION, threads=3), 1, 100),
    "snapshots, one batch": (snapshots, 2, 3000),
    "snapshots, two batches": (lambda k: snapshots(k, 2), 1, 150),
}
LARGER = {
    "barrier, two rounds": (lambda k: barrier(k, 2), 3, 10_000),
    "versions, one record": (lambda k: runs(k, TWO, MVLK), 3, 5000),
}


def explored(part, k):
    make, preemptions, least = (SMALL | LARGER)[part]
    return exhaustive(part, make(k), preemptions=preemptions, longest=4000, limit=50_000, memory=TSO), least


@pytest.mark.parametrize("part", SMALL)
def test_interleave_every_schedule(part):
    """Of each part in `SMALL`, with two executors and with three: 28,000 in all."""
    found, least = explored(part, kernels())
    assert found >= least


@pytest.mark.slow
@pytest.mark.parametrize("part", LARGER)
def test_interleave_every_schedule_of_what_has_more(part):
    found, least = explored(part, kernels())
    assert found >= least


# -- planted mistakes ----------------------------------------------------------------------------------

ALONE = "events ran"
READ = "(events read|tables are)"
ASLEEP = "deadlock"
PLANTED = {
    "a round is passed by one executor only": (
        PHASES, "if fetch_add(c.words, ARRIVED, 1) == threads - 1:  # W2", "if fetch_add(c.words, ARRIVED, 1) >= 0:  # W2",
        "barrier, one round", "seen",
    ),
    "an arrival is forgotten when others have gone on": (
        PHASES, "    store_release(c.words, PHASE, l[AT_PHASE])  # W4\n",
        "    store_release(c.words, PHASE, l[AT_PHASE])  # W4\n    cut()\n    store_relaxed(c.words, ARRIVED, 0)\n",
        "barrier, two rounds", ASLEEP,
    ),
    "the barrier does not look again before it sleeps": (
        PHASES, "        over = stopped(c)\n        if load_acquire(c.words, PHASE) >= phase:  # R1\n"
        "            cancel(c.words, BARRIER_WAITING)\n            return True\n", "        over = stopped(c)\n",
        "barrier, one round", ASLEEP,
    ),
    "counters are raised in two steps": (
        FLOW, "        c.link[write] = i\n        fetch_add(c.pending, i, EDGE + WAITING)  # L1\n",
        "        c.link[write] = i\n        edges = load_relaxed(c.pending, i)\n        cut()\n"
        "        store_relaxed(c.pending, i, edges + EDGE + WAITING)\n",
        "chains, two owners", "pending is",
    ),
    "operations are linked before all are dealt": (
        PHASES, "    if arrive(c):\n", "    if True:\n", "chains, one record", "(link|link_2|pending|record)",
    ),
    "a part is claimed twice": (
        PARTS, "    p = fetch_add(c.words, CURSOR, 1)\n",
        "    p = load_relaxed(c.words, CURSOR)\n    cut()\n    store_relaxed(c.words, CURSOR, p + 1)\n",
        "claims of parts", "parts were run",
    ),
    "a counter is lowered in two steps": (
        FLOW, "    if fetch_add(c.pending, i, -WAITING) & EDGE - 1 == WAITING:  # E2",
        "    left = load_relaxed(c.pending, i)\n    store_release(c.pending, i, left - WAITING)\n"
        "    if left & EDGE - 1 == WAITING:", "flow", ALONE,
    ),
    "an offer is taken in two steps": (
        STEALING, "if offered != 0 and compare_exchange(c.offers, e * CELL, offered, 0):  # O2\n",
        "if offered != 0:\n        store_release(c.offers, e * CELL, 0)\n", "offers", ALONE,
    ),
    "places are drawn by the executor that comes first": (
        LOCKS, "    if not await_value(me, c, c.words, TURN, first):  # L0", "    if stopped(c):",
        "locks, one record", f"{READ}|{ASLEEP}",
    ),
    "a write does not wait for the write before it": (
        LOCKS, "        if not await_value(me, c, c.locks, t + WRITES_OVER, c.link[o]):", "        if stopped(c):",
        "locks, one record", READ,
    ),
    "a version is not waited for": (
        VERSIONS_OF, "        if not await_value(me, c, c.table_rows, stamp, batch):  # R1", "        if stopped(c):",
        "versions, one record", READ,
    ),
    "the executors go on though a snapshot is due": (
        PHASES, " & 1 == 1 or is_snapshot_due(c)\n", " & 1 == 1\n", "snapshots, two batches", "snapshots",
    ),
    "the executors are not woken when the copy is made": (
        PHASES,
        "    store_release(c.words, SNAPSHOT_AT, following)\n    signal(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT)\n",
        "    store_release(c.words, SNAPSHOT_AT, following)\n", "snapshots, one batch", ASLEEP,
    ),
    "a partition is entered out of turn": (
        PARTITIONS, "                if not await_value(me, c, c.served, p * CELL, number):  # T1",
        "                if stopped(c):",
        "partitions, crossed", READ,
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PLANTED)
def test_interleave_planted_mistake_is_found(mistake):
    """By the schedules that the part's own test runs."""
    *planted, part, expected = PLANTED[mistake]
    with pytest.raises(FailingSchedule, match=expected):
        explored(part, kernels(tuple(planted)))
