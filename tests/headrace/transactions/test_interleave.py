"""The executors' loop under every interleaving of its own text: barrier, counters, locks, versions, partitions.

Property    each event runs once; it reads what the serial order gives it, and so
            do its result and the tables; rows are given after the events ran, each
            executor's marks come to the end; changes come in order, everybody
            concerned acknowledges each; snapshots that are taken by themselves are
            the tables after so many events; nobody waits for ever
Oracle      the events one after another, in this file
Schedules   of `executor_kernel`, `whole_kernel` and all they import, as they are
            (`interleave`): two or three executors, a log that holds the whole
            input, events of which a read of all keys and the writes are two steps.
            A fifth of the sampled schedules run with store buffers
Planted     each names the failure it must cause
Cannot see  memory weaker than x86's; more executors; what waits for input (real
            threads do: test_executors.py)
"""

from textwrap import indent
from types import SimpleNamespace

import pytest

from headrace.progress import END_OF_TIME
from headrace.transactions.words import (
    CHAINS,
    LOCK,
    MVLK,
    PARTITION,
    SERIAL,
    SHARED_EVERYTHING,
    SHARED_NOTHING,
    SHARED_SOCKET,
)
from interleave import Kernels, copied, exhaustive, find_failure, sampled
from support.campaign import rarely
from support.executor_arrays import CONSTANTS, LOG, arrays, end_when_over, take_snapshots

WHOLE = "headrace.transactions.whole_kernel"
SCHEMES_OF = "headrace.transactions.schemes_kernel"
LOOP = "headrace.transactions.executor_kernel"
PHASES = "headrace.transactions.phases_kernel"
FLOW = "headrace.transactions.flow_kernel"
STEALING = "headrace.transactions.stealing_kernel"
LOCKS = "headrace.transactions.locks_kernel"
VERSIONS_OF = "headrace.transactions.versions_kernel"
PARTITIONS = "headrace.transactions.partition_kernel"
LIFE = "headrace.workers.worker_kernel"

WRITES = "        for at, value in writes_of(me, c, s, l, i):\n            c.table_rows[at] = value\n"
IN_TWO_STEPS = (
    WHOLE,
    "        run_event(me, c, x, s, l, i)\n",
    "        read_event(me, c, s, l, i)\n        cut()\n" + WRITES,
)
"""Another executor may run between what an event reads and what it writes."""
ALL_IN_TWO_STEPS = (
    WHOLE,
    "        run_events(me, c, x, s, l, l[NEXT], l[LAST])\n",
    "        for i in range(l[NEXT], l[LAST]):\n" + indent(IN_TWO_STEPS[2], "    "),
)


# -- a program: an event is ((record, is_write), ...); a record is a row of one word --------------------


def read_event(me, c, s, l, i):
    s.ran.append(i + s.seen())
    s.read[i] = [c.table_rows[s.place(me, c, l, record)] for record, _ in s.events[i + s.seen()]]


def writes_of(me, c, s, l, i):
    """What an event writes: words of the tables' memory, and values."""
    return [] if i + s.seen() in s.refused else attempted(me, c, s, l, i)


def attempted(me, c, s, l, i):
    """What it would have written, also where it is refused."""
    event = s.events[i + s.seen()]
    values = [3 * sum(s.read[i]) + 7 * n + i + s.seen() for n in range(len(event))]
    return [(s.place(me, c, l, event[n][0]), value) for n, value in enumerate(values) if event[n][1]]


def rows_of(me, c, s, l, i):
    """The rows of an event as they are."""
    places = [s.place(me, c, l, record) for record, _ in s.events[i + s.seen()]]
    return [(at, c.table_rows[at]) for at in places]


def waits_for_chain(s, i):
    """Whether a chain that the event's own depends on has not been run to its end."""
    number = i + s.seen()
    own = {record for record, is_write in s.events[number] if is_write}
    others = {record for record, _ in s.events[number]} - own
    left = [event for j, event in enumerate(s.events) if j != number and j not in s.ran]
    return any(is_write and record in others for event in left for record, is_write in event)


def give_events(me, c, o, x, s, l, i, slot, count):
    s.given += [(k + s.seen(), s.read[k]) for k in range(i, i + count)]


def serial(events, records, refused=()):
    values, read = [1] * records, []
    for i, event in enumerate(events):
        read.append([values[record] for record, _ in event])
        for n, (record, is_write) in enumerate(event):
            if is_write and i not in refused:
                values[record] = 3 * sum(read[-1]) + 7 * n + i
    return values, read


def kernels(*planted, **more):
    holder = {}

    def prepare_events(me, c, x, s, l, first, last):
        k = holder["k"]
        for i in range(first, last):
            k.begin_set(c, me)
            for record, is_write in s.events[i + s.seen()]:
                k.note(c, me, record, is_write)
            if not k.end_set(c, me, i):
                return i
        return last

    program = {
        "prepare_events": prepare_events, "read_event": read_event, "writes_of": writes_of, "give_events": give_events,
        "attempted": attempted, "rows_of": rows_of, "waits_for_chain": waits_for_chain,
        "executor_begins": lambda me, c, s, l: s.begun.append(me), "turn": lambda *_: 0, **more,
    }  # fmt: skip
    holder["k"] = Kernels(
        WHOLE, LOOP, programs=[end_when_over, take_snapshots], planted=[IN_TWO_STEPS, ALL_IN_TWO_STEPS, *planted], given=program,
        constants=CONSTANTS, shared=["table_rows"],
    )  # fmt: skip
    return holder["k"]


def case(k, events, configurations, plan=(), operations=16, workers=2, refused=(), snapshot_every=0):
    """`configurations` are (threads, scheme, sharing, punctuation), the first in force, the others by `plan`.

    Events that are `refused` write nothing.
    """
    n, records, ring = len(events), 1 + max((record for event in events for record, _ in event), default=0), len(plan) + 2
    gate, shared, out = arrays(k, n, records, configurations, plan, operations, workers, snapshot_every)
    values, read = serial(events, records, refused)

    def build():
        g, c, o = copied(gate), copied(shared), copied(out)
        s = SimpleNamespace(
            events=events, refused=refused, read=[None] * LOG, ran=[], given=[], begun=[], seen=lambda: c.words[k.SEEN],
            place=lambda me, c, l, record: k.place_of(me, c, l, record) if l[k.VERSIONED] else record,
        )  # fmt: skip
        threads = [k.run_executor(me, g, c, o, None, s, [0] * 16) for me in range(workers)]
        threads.append(k.end_when_over(c, configurations[-1][0]))
        taken = []
        if snapshot_every:
            threads.append(k.take_snapshots(c, snapshot_every, records, taken))

        def check():
            assert sorted(s.ran) == list(range(n)), f"events ran: {sorted(s.ran)}"
            assert sorted(s.given) == list(enumerate(read)), f"events read {sorted(s.given)}, wanted {read}"
            assert c.table_rows[:records] == values, f"tables are {c.table_rows[:records]}, wanted {values}"
            assert o.mark == [END_OF_TIME] * workers, f"marks {o.mark}"
            ends = range(snapshot_every, n + 1, snapshot_every) if snapshot_every else ()
            copies = [(end, serial(events[:end], records)[0]) for end in ends]
            assert taken == copies, f"snapshots {taken}, wanted {copies}"
            assert c.words[k.CHANGE] == len(plan) and c.unsettled == [0] * ring, f"not acknowledged: {c.unsettled}"
            for change, at in enumerate(plan, start=1):
                assert c.installed[change] == [change - 1, change, min(at, n)]
            assert g.cursor[0] == n or n == 0

        return threads, check

    return build


def ops(*words):
    """Events from words: ``"a B"`` reads a and writes b."""
    return [tuple((ord(key.lower()) - ord("a"), key.isupper()) for key in word.split()) for word in words]


CROSSED = ops("A B", "B A", "A B")
"""Transfers to and fro: a cycle, for a scheme that goes by chains."""
READERS = ops("A", "a", "a", "A")
CHAIN = ops("A", "B", "A B", "a", "B")
FAN = ops("A", "a B", "a C", "a D", "a E", "B")
"""What the first event lets go one executor alone has on its stack."""
TO_AND_FRO = ops("a B", "b A")
JOINED = CHAIN[:3]
"""Two executors count the last one down: the later one has to see what the other one wrote."""
SCHEMES = {
    "chains": (CHAINS, SHARED_NOTHING), "chains, shared": (CHAINS, SHARED_EVERYTHING),
    "chains, two sockets": (CHAINS, SHARED_SOCKET),
    "lock": (LOCK, SHARED_NOTHING), "mvlk": (MVLK, SHARED_NOTHING), "partition": (PARTITION, SHARED_NOTHING),
    "serial": (SERIAL, SHARED_NOTHING),
}  # fmt: skip


@pytest.mark.parametrize("count", [160, *rarely(400)])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("events", [CROSSED, READERS, CHAIN], ids=["crossed", "readers", "chain"])
def test_interleave_two_executors(scheme, events, count):
    sampled("transactions", case(kernels(), events, [(2, *SCHEMES[scheme], 8)]), count, longest=8000)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["chains, shared", "chains, two sockets"])
def test_interleave_stealing(scheme):
    """Of the events that one lets go others take some, in some schedules at least."""
    taken = []
    found = "                fetch_add(c.words, HUNGRY, -1)\n"
    k = kernels((STEALING, found, found + "                note_taken(i)\n"), note_taken=taken.append)
    workers = 4 if "sockets" in scheme else 2
    build = case(k, FAN, [(workers, *SCHEMES[scheme], 8)], workers=workers)
    sampled("transactions", build, 400, longest=16_000)
    assert taken


@pytest.mark.parametrize("scheme", ["chains, shared", "lock", "mvlk"])
def test_interleave_rejected(scheme):
    """What a rejected event was to write, others must not wait for in vain."""
    sampled("transactions", case(kernels(), CHAIN, [(2, *SCHEMES[scheme], 8)], refused=(0, 2)), 300, longest=8000)


@pytest.mark.slow
@pytest.mark.parametrize("count", [120, *rarely(300)])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_interleave_three_executors_and_short_batches(scheme, count):
    sampled("transactions", case(kernels(), CHAIN, [(3, *SCHEMES[scheme], 3)], workers=3), count, longest=12_000)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["chains, shared", "lock", "mvlk"])
def test_interleave_every_order_in_which_executors_wait_for_each_other(scheme):
    build = case(kernels(), CROSSED[:2], [(2, *SCHEMES[scheme], 8)])
    assert exhaustive("transactions", build, preemptions=0, longest=8000) > 20


CHANGES = {
    "rapid 1-2-1-2 at one event": ([1, 2, 1, 2], (1, 1, 1)),
    "at the end": ([2, 1, 3, 1], (5, 5, 9)),
    "before any event": ([1, 3, 2], (0, 0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_interleave_changes(name):
    threads, plan = CHANGES[name]
    configurations = [(count, (MVLK, CHAINS, LOCK)[n % 3], SHARED_EVERYTHING, 2) for n, count in enumerate(threads)]
    sampled("transactions", case(kernels(), CHAIN[:3], configurations, plan, workers=3), 500, longest=20_000)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["chains, shared", "mvlk", "serial"])
@pytest.mark.parametrize("every", [1, 2])
def test_interleave_snapshots(scheme, every):
    events = [*CROSSED, ((0, True), (1, True))]
    sampled("transactions", case(kernels(), events, [(2, *SCHEMES[scheme], 3)], snapshot_every=every), 200, longest=12_000)


# -- planted mistakes ----------------------------------------------------------------------------------

TWICE = "events ran"
WRONG = "(events read|tables are)"
ASLEEP = r"deadlock"

IN_ROUNDS = (
    WHOLE,
    "        read_event(me, c, s, l, i)\n        cut()\n",
    "        while waits_for_chain(s, i):\n            pause()\n        read_event(me, c, s, l, i)\n        cut()\n",
)
"""As the paper's text has it: it ends where no chains depend on each other in a circle."""

PLANTED = {
    "a counter is decremented before the write is published": (
        (WHOLE, WRITES + "        let_go(me, c, l, config, i)\n",
         "        let_go(me, c, l, config, i)\n        cut()\n" + WRITES),
        "chains, shared", JOINED, WRONG,
    ),
    "an event that was counted down looks like one that waited for nobody": (
        (FLOW, "if load_relaxed(c.pending, i) == 0:  # S1", "if load_relaxed(c.pending, i) & EDGE - 1 == 0:  # S1"),
        "chains, shared", CROSSED, TWICE,
    ),
    "an event is claimed twice, by executors that find it counted down": (
        (FLOW, "    if fetch_add(c.pending, i, -WAITING) & EDGE - 1 == WAITING:  # E2",
         "    fetch_add(c.pending, i, -WAITING)\n    if load_relaxed(c.pending, i) & EDGE - 1 == 0:"),
        "chains, shared", JOINED, TWICE,
    ),
    "an event that waited is not told from one that waits for nobody": (
        (FLOW, "EDGE = 1 << 32\n", "EDGE = 0\n"), "chains, shared", CROSSED, TWICE,
    ),
    "a write does not wait for all reads": (
        (FLOW, "reads * (EDGE + WAITING))  # L1", "EDGE + WAITING)"),
        "chains, shared", READERS, WRONG + "|" + TWICE,
    ),
    "edges of two owners are added as if there were one": (
        (FLOW, "        c.link[write] = i\n        fetch_add(c.pending, i, EDGE + WAITING)  # L1\n",
         "        c.link[write] = i\n        edges = load_relaxed(c.pending, i)\n"
         "        store_relaxed(c.pending, i, edges + EDGE + WAITING)\n"),
        "chains, shared", JOINED, WRONG + "|" + TWICE,
    ),
    "two owners are dealt the same places": (
        (FLOW, "return owner * c.sets.size + c.filling[slice_of, FIRST_OPERATION]",
         "return c.filling[slice_of, FIRST_OPERATION]"),
        "chains, shared", CROSSED, TWICE,
    ),
    "later slices are linked first": (
        (FLOW, "    for part in range(c.rows[config, THREADS]):\n        stop", "    for part in (1, 0):\n        stop"),
        "chains, shared", CROSSED, WRONG + "|" + TWICE + "|" + ASLEEP,
    ),
    "reads wait for nothing": (
        (FLOW, "        if write != NOBODY:\n            fetch_add(c.pending, i, EDGE + WAITING)  # L1\n        return\n",
         "        return\n"),
        "chains, shared", READERS, WRONG + "|" + TWICE,
    ),
    "a transaction is rejected after a write became visible": (
        (WHOLE, WRITES + "        let_go(me, c, l, config, i)\n",
         "        kept = rows_of(me, c, s, l, i)\n" + WRITES.replace("writes_of", "attempted")
         + "        let_go(me, c, l, config, i)\n        if i + s.seen() in s.refused:\n"
         "            for at, value in kept:\n                c.table_rows[at] = value\n"),
        "chains, shared", JOINED, WRONG,
    ),
    "chains are run in rounds, each when those it depends on are at their end": (
        IN_ROUNDS, "chains, shared", TO_AND_FRO, ASLEEP,
    ),
    "a punctuation is passed by one executor only": (
        (PHASES, "if fetch_add(c.words, ARRIVED, 1) == threads - 1:  # W2", "if fetch_add(c.words, ARRIVED, 1) >= 0:  # W2"),
        "chains, shared", CROSSED, WRONG,
    ),
    "rows are given before all events ran": (
        (LOOP, "        if threads > 1 and not meet(me, c, l):", "        if threads > 2 and not meet(me, c, l):"),
        "chains, shared", CROSSED, WRONG,
    ),
    "an offer is claimed twice": (
        (STEALING, "if offered != 0 and compare_exchange(c.offers, e * CELL, offered, 0):  # O2\n",
         "if offered != 0:\n        store_release(c.offers, e * CELL, 0)\n"),
        "chains, shared", FAN, TWICE,
    ),
    "what is offered stays on the stack": (
        (STEALING, "        l[DEPTH] -= 1\n        store_release(c.offers, me * CELL, i + 1)  # O1\n",
         "        store_release(c.offers, me * CELL, i + 1)  # O1\n"),
        "chains, shared", FAN, TWICE + "|" + WRONG,
    ),
    "what nobody took is left behind": (
        (STEALING, "    i = take_offer(c, me)\n    if i >= 0:\n        return i\n", ""),
        "chains, shared", FAN, TWICE,
    ),
    "an offer is made over another one": (
        (STEALING, "    if load_relaxed(c.offers, me * CELL) == 0:\n", "    if True:\n"),
        "chains, shared", FAN, TWICE,
    ),
    "links are followed before they are complete": (
        (SCHEMES_OF, "        return meet(me, c, l)\n", "        return True\n"),
        "chains, shared", CROSSED, WRONG + "|" + TWICE + "|" + ASLEEP,
    ),
    "locks are queued for in the order of arrival": (
        (LOCKS, "    if not await_value(me, c, c.words, TURN, first):  # L0", "    if stopped(c):"),
        "lock", CROSSED, WRONG + "|" + ASLEEP,
    ),
    "the turn is passed on before the places are drawn": (
        (LOCKS, "            draw_places(c, i)\n        store_release(c.words, TURN, l[LAST])  # L2\n",
         "            store_release(c.words, TURN, l[LAST])  # L2\n            cut()\n            draw_places(c, i)\n"),
        "lock", CROSSED, WRONG + "|" + ASLEEP,
    ),
    "a write does not wait for the reads before it": (
        (LOCKS, "if c.sets[o] & 1 and not await_value(", "if c.sets[o] & 2 and not await_value("),
        "lock", READERS, WRONG,
    ),
    "a version is published before it is written": (
        (WHOLE, WRITES + "        let_go(me, c, l, config, i)\n", "        let_go(me, c, l, config, i)\n" + WRITES),
        "mvlk", CROSSED, WRONG,
    ),
    "a version is stamped as of the batch before": (
        (VERSIONS_OF, "            store_release(c.table_rows, versions + o * size, batch)  # W2\n",
         "            store_release(c.table_rows, versions + o * size, batch - 1)  # W2\n"),
        "mvlk", CROSSED, ASLEEP,
    ),
    "a rejected transaction publishes nothing": (
        (WHOLE, "        let_go(me, c, l, config, i)\n",
         "        if not (l[VERSIONED] and i + s.seen() in s.refused):\n            let_go(me, c, l, config, i)\n"),
        "mvlk", CROSSED, ASLEEP,
    ),
    "a version does not begin as the one before": (
        (VERSIONS_OF, "            copy_row(c, own, place, c.table_places[table, ROW_SIZE])  # W1\n", ""),
        "mvlk", CROSSED, WRONG,
    ),
    "the last version is not written back": (
        (VERSIONS_OF, "copy_row(c, row if last_write == number + o else own, own,", "copy_row(c, own, own,"),
        "mvlk", CROSSED, WRONG,
    ),
    "a version that is not the last is written back": (
        (VERSIONS_OF, "copy_row(c, row if last_write == number + o else own, own,", "copy_row(c, row, own,"),
        "mvlk", CROSSED, WRONG,
    ),
    "versions are written back while events run": (
        (WHOLE, "        let_go(me, c, l, config, i)\n",
         "        let_go(me, c, l, config, i)\n        if l[VERSIONED]:\n            write_back(c, i, i + 1)\n"),
        "mvlk", ops("a", "A", "a"), WRONG,
    ),
    "a read takes a newer version than its own": (
        (VERSIONS_OF, "        before, record = c.link[o], c.sets[o] >> 1\n",
         "        before, record = c.link[o], c.sets[o] >> 1\n        if c.sets[o] & 1 == 0:\n"
         "            newer = c.tails[record * RECORD_WORDS + LAST_WRITE] - first_number(c)\n"
         "            before = newer if c.table_rows[versions + newer * size] == batch else before\n"),
        "mvlk", READERS, WRONG,
    ),
    "links are drawn in the order of arrival": (
        (LOCKS, "    if not await_value(me, c, c.words, TURN, first):  # L0", "    if stopped(c):"),
        "mvlk", CROSSED, WRONG + "|" + ASLEEP,
    ),
    "a read does not wait for its version": (
        (VERSIONS_OF, "        if not await_value(me, c, c.table_rows, stamp, batch):  # R1", "        if stopped(c):"),
        "mvlk", CROSSED, WRONG,
    ),
    "a transaction enters its first partition only in order": (
        (PARTITIONS, "                if not await_value(", "                if o == c.set_at[i] and not await_value("),
        "partition", ops("A", "B A", "A"), WRONG,
    ),
    "the barrier does not look again before it sleeps": (
        (PHASES, "        over = stopped(c)\n        if load_acquire(c.words, PHASE) >= phase:  # R1\n"
         "            cancel(c.words, BARRIER_WAITING)\n            return True\n", "        over = stopped(c)\n"),
        "chains, shared", CROSSED, ASLEEP,
    ),
}  # fmt: skip


REFUSING = (
    "a transaction is rejected after a write became visible", "a rejected transaction publishes nothing",
    "a version does not begin as the one before",
)  # fmt: skip


@pytest.mark.parametrize("mistake", PLANTED)
def test_interleave_planted_mistake_is_found(mistake):
    planted, scheme, events, expected = PLANTED[mistake]
    refused = (1,) if mistake in REFUSING else ()
    build = case(kernels(planted), events, [(2, *SCHEMES[scheme], 8)], refused=refused)
    find_failure("transactions", build, expected, count=6000, longest=8000)


def test_interleave_rounds_are_wrong_in_circles_only():
    """So it is the circle that the planted rounds die of."""
    sampled("transactions", case(kernels(IN_ROUNDS), ops("A", "a B", "a B", "b C"), [(2, *SCHEMES["chains, shared"], 8)]), 200)


ACCEPTING = "headrace.transactions.accept_kernel"
UNLIMITED = (ACCEPTING, "        limit = min(limit, snapshot_at - seen)\n", "        pass\n")
PLANTED_IN_SNAPSHOTS = {
    "a batch goes on behind the position": [UNLIMITED],
    "the leader does not wait for the copy": [
        UNLIMITED, (PHASES, "    while is_held(c) and not stopped(c):", "    while load_acquire(c.words, PAUSE) & 1 == 1:"),
    ],
    "it is not looked at again before the leader sleeps": [
        (PHASES, "!= asked or not is_held(c) or stopped(c)", "!= asked or stopped(c)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("mistake", PLANTED_IN_SNAPSHOTS)
def test_interleave_planted_mistake_of_snapshots_is_found(mistake):
    build = case(kernels(*PLANTED_IN_SNAPSHOTS[mistake]), CROSSED, [(2, *SCHEMES["chains, shared"], 3)], snapshot_every=2)
    find_failure("transactions", build, "snapshots|" + ASLEEP, count=6000, longest=8000)
