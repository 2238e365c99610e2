"""Results routed to their owners, while both operators change: each is read once, in order, by its owner of that time.

Property    each reader gets, in order of time, the rows whose keys it owns under the configuration in force at their time,
            and together all; of a key no row is read before an earlier one was, by any reader; a row reads as it was
            written; none comes before a heartbeat's time that came earlier; nobody waits for ever
Schedules   of the files' own text (`interleave`), under both memory models: rings of two rows, queues of two records, lanes
            of four; senders and readers that leave, join and come back
Planted     each step of the file's argument, dropped or swapped; each names its failure
Cannot see  memory weaker than x86's, as of the gates: tests/litmus
"""

# ruff: noqa: F821  (the names are the explored kernels')

import pytest

from gate_cases import NOTHING, READER, SOURCE
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import HEARTBEAT, ROW_MASK, SOURCE_SHIFT
from interleave import TSO, FailingSchedule, Kernels, copied, exhaustive, sampled
from support.result_rings import change_instances

PASSING = "headrace.elastic.passing_kernel"
ROUTING = "headrace.elastic.routing_kernel"
QUEUES = "headrace.gates.reader_queues_kernel"


# -- programs ----------------------------------------------------------------------------------------


def sender(o, me, words, epochs, rows, promises):
    """A worker of the operator before: members meet at barriers, where the last one does what the next epoch needs.

    epochs[e] = (members, configuration of the operator behind or -1), rows[e][r] = (time, key) that r writes then;
    words = [arrived, epoch].
    """
    head = 0
    for e in range(len(epochs)):
        while load_acquire(words, 1) < e:
            pause()
        if me in epochs[e][0]:
            for time, key in rows[e].get(me, []):
                slot = reserve_slot(o, me, head)
                o.primary[me, slot] = time
                o.a[me, slot] = key
                head += 1
                publish(o, me, head, time - 1, time - 1)
            if e == len(epochs) - 1:
                publish(o, me, head, END_OF_TIME, END_OF_TIME)
            else:
                publish(o, me, head, promises[e], promises[e])
                if fetch_add(words, 0, 1) == len(epochs[e][0]) - 1:
                    store_release(words, 0, 0)
                    change(o, me, epochs[e][0], epochs[e + 1], promises[e])
                    store_release(words, 1, e + 1)


def change(o, me, before, following, promised):
    members, config = following
    if config >= 0:
        switch_behind(o, me, config, promised)
    change_instances(o, before, members, promised)


def owner_of(g, config, key):
    return g.owner[config][key]


def reader(o, g, me, words, configs, read, wrong):
    """A worker of the operator behind: it reads while it is a member, and meets the others at a control record.

    configs[e] are the members of epoch e; words = [arrived, epoch, finished], then for each key the time of its latest row.
    """
    activation = 0
    position = 0
    epoch = 0
    config = 0
    reached = MIN_TIME
    while load_acquire(words, 2) < len(configs[-1]):
        active = load_acquire(g.reading, me)
        if active == 0:
            activation = 0
            pause()
            continue
        if active != activation:
            activation = active
            position = load_acquire(g.cursor, me)
            epoch = activation - 1
            while load_acquire(words, 1) < epoch:
                pause()
            config = epoch
        start, count = peek(g, me, position, 2)
        if count == 0:
            await_records(g, me, position, 0, GO_ON)
            continue
        n = 0
        while n < count and g.out_ref[me][start + n] >= 0:
            n += 1
        if n > 0:
            for i in range(n):
                cut()
                time = g.out_ts[me][start + i]
                ref = g.out_ref[me][start + i]
                source = ref >> SOURCE_SHIFT
                slot = ref & ROW_MASK
                key = o.a[source][slot]
                read.append((time, key))
                if o.primary[source][slot] != time:
                    wrong.append(("overwritten", o.primary[source][slot], time))
                if owner_of(g, config, key) != me:
                    wrong.append(("not its own", me, time, key))
                if time < reached:
                    wrong.append(("late", time, reached))
                before = exchange(words, 3 + key, time)
                if before > time:
                    wrong.append(("out of order", key, before, time))
                reached = max(reached, time)
            position += n
            advance(g, me, position)
            continue
        ref = g.out_ref[me][start]
        if ref == HEARTBEAT:
            reached = max(reached, g.out_ts[me][start])
            position += 1
            advance(g, me, position)
            if reached == END_OF_TIME:
                fetch_add(words, 2, 1)
                return
            continue
        position += 1
        advance(g, me, position)
        if g.out_ts[me][start] > MIN_TIME and reached != g.out_ts[me][start]:
            wrong.append(("another time at the barrier", reached, g.out_ts[me][start]))
        if fetch_add(words, 0, 1) == len(configs[epoch]) - 1:
            store_release(words, 0, 0)
            change_readers(g, configs[epoch], configs[epoch + 1], epoch + 2)
            store_release(words, 1, epoch + 1)
        else:
            while load_acquire(words, 1) <= epoch:
                pause()
        epoch += 1
        config = -1 - ref


def change_readers(g, before, after, activation):
    while not open_membership(g):
        pause()
    for r in range(len(g.reading)):
        if r in after and r not in before:
            join_reader(g, r, 0, activation)
        elif r in before and r not in after:
            leave_reader(g, r)
    close_membership(g)


PROGRAMS = (sender, change, change_instances, owner_of, reader, change_readers)


def kernels(*planted):
    return Kernels(
        PASSING, SOURCE, READER, ROUTING, QUEUES, "headrace.memory.event_count", programs=PROGRAMS,
        shared={"primary", "ring_ts", "ring_ref", "out_ts", "out_ref", "keys"},
        planted=[(QUEUES, old, new) for old, new in planted], given={"GO_ON": [0]},
    )  # fmt: skip


def case(k, epochs, rows, promises, configs, owners, senders=1, capacity=2, size=4, bound=2, lane=4):
    """Epochs of the operator before, and of the one behind.

    Parameters
    ----------
    epochs : list of (list of int, int)
        Members of the operator before in each, and the configuration that is put into force with it, or -1.
    rows : list of dict
        In each, (time, key) that each member writes.
    promises : list of int
        Of all, at the barrier behind each but the last.
    configs : list of list of int
        Members of the operator behind in each of its configurations.
    owners : list of list of int
        In each, the owner of each key.
    senders : int
        Workers of the operator before, at least.
    """
    senders = max(senders, 1 + max(max(members) for members, _ in epochs))
    readers = 1 + max(map(max, configs))
    keys = len(owners[0])

    def ring(count=senders, length=capacity):
        return [[0] * length for _ in range(count)]

    def zeros(count):
        return [0] * count

    first = epochs[0][0]
    words = zeros(k.QUEUE_WORDS)
    words[k.BOUND] = bound
    gate = k.ReaderQueues(
        words=words, event=zeros(64), head=zeros(senders),
        mark=[MIN_TIME if r in first else NOTHING for r in range(senders)], mark_at=zeros(senders),
        feeding=[int(r in first) for r in range(senders)], next=ring(senders, readers), keys=ring(),
        end=zeros(senders * readers), taken=zeros(senders * readers), tail=zeros(senders * readers),
        ring_ts=ring(senders * readers, size), ring_ref=ring(senders * readers, size), ring_at=ring(senders * readers, size),
        merged=zeros(readers), cursor=zeros(readers), reading=[int(r in configs[0]) for r in range(readers)],
        passed=zeros(readers), told=[MIN_TIME] * readers, cost=zeros(readers),
        out_ts=ring(readers, lane), out_ref=ring(readers, lane), out_at=ring(readers, lane),
        member=[[int(r in members) for r in range(readers)] for members in configs], owner=owners,
    )  # fmt: skip
    rings = k.OutArrays(
        words=zeros(k.WORD_COUNT + 8), event=zeros(64), head=zeros(senders), tail=zeros(senders), mark=zeros(senders),
        mark_ts=zeros(senders), primary=ring(), a=ring(), b=[], c=[], at=ring(),
        meter=[[0] * 16 for _ in range(senders)], membership=[0], list_words=[], list_head=[], list_tail=[],
    )  # fmt: skip
    template = k.PassingArrays(
        gate=gate, rings=rings, row_times=[], sent=zeros(senders), kept_count=[], left_count=[], kept_row=[], comparisons=[],
        told=[MIN_TIME] * senders, keys=[], ids=[], ranks=[], row_ranks=[],
        known=[], numbers=[], valid=[], latency=[[0] * 64 for _ in range(senders)],
        longest=zeros(senders), stop=[0],
    )  # fmt: skip
    wanted = sorted(row for epoch in rows for each in epoch.values() for row in each)

    def build():
        p = copied(template)
        p = p._replace(keys=p.gate.keys, row_times=p.rings.primary)
        o = p.rings
        o.words[k.ELSEWHERE], o.words[k.ELSEWHERE + 1] = "route_results", p
        sending, reading = [0, 0], [0, 0, 0] + [MIN_TIME] * keys
        read, wrong = [[] for _ in range(readers)], [[] for _ in range(readers)]
        threads = [k.sender(o, r, sending, epochs, rows, promises) for r in range(senders)]
        threads += [k.reader(o, p.gate, r, reading, configs, read[r], wrong[r]) for r in range(readers)]

        def check():
            assert not any(wrong), f"wrong rows: {wrong}"
            assert sorted(row for rows in read for row in rows) == wanted, f"got {read}, written {wanted}"

        return threads, check

    return build


ONE, TWO = [0, 0], [0, 1]
"""Owners of two keys."""


def steady(k, **sizes):
    """Two of each all the time, with ties and more of one time than a queue takes."""
    return case(k, [([0, 1], -1)], [{0: [(1, 0), (2, 1), (2, 0), (2, 0)], 1: [(2, 0), (3, 1)]}], [], [[0, 1]], [TWO], **sizes)


def owner_changes(k, **sizes):
    """The keys change owners while one sender has results beyond the change at once."""
    rows = [{0: [(1, 0), (4, 1)], 1: [(4, 0)]}, {0: [(5, 0), (6, 1)], 1: [(5, 1)]}]
    return case(k, [([0, 1], -1), ([0, 1], 1)], rows, [4], [[0, 1], [0, 1]], [TWO, [1, 0]], **sizes)


def reader_joins(k, **sizes):
    """One joins, which has nothing before."""
    rows = [{0: [(1, 0), (4, 1)]}, {0: [(5, 1), (6, 0)]}]
    return case(k, [([0], -1), ([0], 1)], rows, [4], [[0], [0, 1]], [ONE, TWO], **sizes)


def reader_comes_back(k, **sizes):
    """The leaver is back at the next change, which may be on its way before it has left."""
    rows = [{0: [(1, 0), (2, 1)], 1: [(2, 0)]}, {0: [(4, 1)], 1: [(5, 0)]}, {0: [(6, 1)], 1: [(7, 0)]}]
    epochs = [([0, 1], -1), ([0, 1], 1), ([0, 1], 2)]
    return case(k, epochs, rows, [3, 5], [[0, 1], [0], [0, 1]], [TWO, ONE, TWO], **sizes)


def before_any_promise(k, **sizes):
    """A change before anybody has promised anything."""
    rows = [{}, {0: [(1, 0), (2, 1)], 1: [(1, 1)]}]
    return case(k, [([0, 1], -1), ([0, 1], 1)], rows, [MIN_TIME], [[0], [0, 1]], [ONE, TWO], **sizes)


def sender_joins(k, **sizes):
    """A sender joins whose result is the earliest there may be, and the other one goes on at once."""
    rows = [{1: [(4, 0)]}, {0: [(5, 0)], 1: [(6, 0), (7, 1)]}]
    return case(k, [([1], -1), ([0, 1], -1)], rows, [4], [[0, 1]], [TWO], **sizes)


def one_for_the_other(k, **sizes):
    """One sender leaves and the other joins."""
    rows = [{0: [(1, 0), (4, 1)]}, {1: [(5, 0), (6, 1)]}]
    return case(k, [([0], -1), ([1], -1)], rows, [4], [[0, 1]], [TWO], **sizes)


def many_rows(k, **sizes):
    """More rows of one time than a queue takes, and more than the ring has room for: each place is used again."""
    rows = [{0: [(1, 0), (2, 0), (2, 0), (2, 0), (2, 1), (3, 0), (4, 1), (5, 0)]}]
    return case(k, [([0], -1)], rows, [], [[0]], [ONE], **{"capacity": 4, "lane": 8, **sizes})


def earliest_joiner(k):
    """As small as may be: one joins whose only result comes before that of the other one."""
    return case(k, [([1], -1), ([0, 1], -1)], [{}, {0: [(5, 0)], 1: [(6, 0)]}], [4], [[0]], [[0]])


def next_tuple(k):
    """As small as may be: what comes behind a change is right behind what was before it."""
    return case(k, [([0], -1), ([0], 1)], [{0: [(4, 0)]}, {0: [(5, 0)]}], [4], [[0], [0]], [[0], [0]], senders=2)


CASES = [steady, owner_changes, reader_joins, reader_comes_back, before_any_promise, sender_joins, one_for_the_other, many_rows]


@pytest.mark.campaign
def test_interleave_every_schedule_of_few_preemptions():
    k = kernels()
    for make in (reader_joins, sender_joins):
        assert exhaustive("routed", make(k), preemptions=1) > 100
        assert exhaustive("routed", make(k), preemptions=1, memory=TSO) > 100


@pytest.mark.slow
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_interleave_sampled(make):
    sampled("routed", make(kernels()), 100 if make is steady else 300, longest=20_000)


WRONG = "wrong rows: "
PLANTED = {
    "the end of a queue is read again, after the control record's queue was": (
        "        ready = min(best_end - at, until - end)\n",
        "        ready = min(load_acquire(g.end, best * CELL) - at, until - end)\n", next_tuple, WRONG,
    ),
    "promises as of different moments": (
        "    if limit == NOTHING or not is_whole(g.words, VERSION, before):\n", "    if limit == NOTHING:\n",
        earliest_joiner, "wrong rows|got",
    ),
    "a promise before what it covers": (
        "    for r in range(g.reading.size // CELL):\n        q = r * sources + source\n        if load_relaxed(g.end",
        "    give_promise(g, source, max(mark, ts[start + count - 1] + 1))\n"
        "    for r in range(g.reading.size // CELL):\n        q = r * sources + source\n        if load_relaxed(g.end",
        owner_changes, WRONG,
    ),
    "what is in a lane counts as read": (
        "    if position != load_relaxed(g.merged, reader * CELL):\n        return\n", "",
        lambda k: many_rows(k, bound=4, size=8), WRONG,
    ),
    "rows are free once they are in a lane": (
        "        tail = load_acquire(g.tail, q * CELL)\n        end = g.next",
        "        tail = load_acquire(g.taken, q * CELL)\n        end = g.next", steady, WRONG,
    ),
    "the control record before tuples of its time": ("    last = sources - 1\n", "    last = 0\n", owner_changes, WRONG),
    "no heartbeat before the control record: all are elsewhere in time": (
        "            if ref < HEARTBEAT and ts > reached:\n", "            if False:\n", reader_comes_back, "the barrier",
    ),
    "what has the time of the promise waits for more": (
        "                if ts > limit or (ts == limit and s > limit_source):\n", "                if ts >= limit:\n",
        many_rows, "deadlock",
    ),
    "a heartbeat before what has not found room in the lane": (
        "    if end < until and limit - 1 > reached:\n", "    if limit - 1 > reached:\n",
        lambda k: many_rows(k, bound=4, size=8, lane=4), "wrong rows|got",
    ),
    "a heartbeat at the promise": (
        "        put_in_lane(g, reader, end, limit - 1, HEARTBEAT, limit_at)\n",
        "        put_in_lane(g, reader, end, limit + 1, HEARTBEAT, limit_at)\n", owner_changes, "wrong rows|deadlock",
    ),
    "a switch is not told": (
        "        g.next[last, r] = end + 1\n        store_release(g.end, q * CELL, end + 1)  # W2\n", "", owner_changes, WRONG,
    ),
    "a joiner feeds before it has promised what the others have": (
        "        store_release(g.mark, source * CELL, MIN_TIME)\n        store_release(g.feeding",
        "        store_release(g.feeding", sender_joins, WRONG,
    ),
    "a queue takes more than it has room for": (
        "            room = min(room, allowed - waiting)\n", "            room = min(room, allowed - waiting + 3)\n",
        lambda k: many_rows(k, size=2), "wrong rows|got|deadlock",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", PLANTED)
def test_interleave_planted_bug_is_found(bug):
    old, new, make, expected = PLANTED[bug]
    with pytest.raises(FailingSchedule, match=expected):
        sampled("routed (planted)", make(kernels((old, new))), 20_000, longest=20_000)
