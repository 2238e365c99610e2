"""Operation chains under interleavings of their own text: slices dealt to parts, parts claimed, barriers between the phases.

Property    each operation runs once, but for those that a later one overwrites; it finds its row as the serial order leaves it,
            and so do results and tables; rows are given after all operations ran; nobody waits for ever
Oracle      the events one after another, in this file
Schedules   of `executor_kernel`, `operations_kernel` and all they import, as they are (`interleave`): two or three executors,
            a log that holds the whole input, operations of which reading the row and writing it are two steps. A fifth of the
            sampled schedules run with store buffers
Planted     each names the failure it must cause
Cannot see  memory weaker than x86's; more executors; the generated code (real threads do: test_executors.py,
            test_combining.py); skip lists: test_skip_chains.py
"""

# ruff: noqa: F821  (the names are the explored kernels')

import inspect
from types import SimpleNamespace

import pytest

from headrace.progress import END_OF_TIME
from headrace.transactions.words import CHAINS, SHARED_EVERYTHING, SHARED_NOTHING, SHARED_SOCKET
from interleave import Kernels, copied, exhaustive, find_failure, sampled
from support.campaign import rarely
from support.executor_arrays import CONSTANTS, arrays, end_when_over

OPERATIONS = "headrace.transactions.operations_kernel"
PARTS = "headrace.transactions.chains_kernel"
COMBINING_OF = "headrace.transactions.combining_kernel"
FLOW = "headrace.transactions.flow_kernel"
LOOP = "headrace.transactions.executor_kernel"
PHASES = "headrace.transactions.phases_kernel"

LOOK, CHANGE, PUT = range(3)
"""An operation reads its row; makes more of it; gives it another value, whatever it was."""


def run_operations(me, c, x, s, l, first, last, executed):
    for k in range(first, last):
        o = c.entries[k]
        if c.link[o] >> EVENT_SHIFT >= executed:
            break
        found = c.table_rows[c.sets[o] >> 1]
        cut()
        for at, value in written(c, s, o, found):
            c.table_rows[at] = value


def operation(c, s, o):
    """Event and place in it, record, what it does."""
    number, n = (c.link[o] >> 42) + s.seen(), c.link[o] & 7
    return number, n, *s.events[number][n]


def written(c, s, o, found):
    number, n, record, does = operation(c, s, o)
    s.ran.append((number, n))
    if does != PUT:
        s.found[number, n] = found
    return [] if does == LOOK else [(record, changed(does, found, number, n))]


def changed(does, found, number, n):
    return 3 * found + 7 * n + number if does == CHANGE else 100 * number + n


def serial(events, records):
    values, found = [1] * records, {}
    for number, event in enumerate(events):
        for n, (record, does) in enumerate(event):
            if does != PUT:
                found[number, n] = values[record]
            if does != LOOK:
                values[record] = changed(does, values[record], number, n)
    return values, found


def kernels(*planted):
    holder = {}

    def prepare_operations(me, c, x, s, l, first, last):
        k = holder["k"]
        for i in range(first, last):
            k.begin_set(c, me)
            at, end = c.filling[me][k.SET_AT], c.filling[me][k.SET_END]
            for n, (record, does) in enumerate(s.events[i + s.seen()]):
                at = k.note_operation(c, me, at, end, record, i << 42 | n, does == PUT)
            if not k.end_operations(c, me, i):
                return i
            if c.filling[me][k.COMBINING] != 0:
                for o in range(c.set_at[i], c.filling[me][k.SET_AT]):
                    k.combine(c, me, o)
        return last

    given = {
        "prepare_operations": prepare_operations, "written": written, "finish_events": lambda *_: None,
        "give_events": lambda me, c, o, x, s, l, i, slot, count: s.given.extend(
            (k + s.seen(), [*s.ran]) for k in range(i, i + count)
        ),
        "executor_begins": lambda me, c, s, l: None, "turn": lambda *_: 0,
    }  # fmt: skip
    program = (OPERATIONS, "FAMILY_HERE = 1\n", "FAMILY_HERE = 1\n\n\n@kernel\n" + inspect.getsource(run_operations))
    # All operations are of one place in the text, as far as combining asks; as many parts as a few events have use for.
    holder["k"] = Kernels(
        OPERATIONS, LOOP, programs=[end_when_over], planted=[program, *planted], given=given,
        constants={**CONSTANTS, "PARTS_EACH": 2, "MOST_SITES": 1}, shared=["table_rows"],
    )  # fmt: skip
    return holder["k"]


def case(k, events, sharing=SHARED_EVERYTHING, threads=2, punctuation=8):
    n, records = len(events), 1 + max(record for event in events for record, _ in event)
    gate, shared, out = arrays(k, n, records, [(threads, CHAINS, sharing, punctuation)], operations=16, workers=threads)
    shared.rows[0][k.FAMILY] = k.FAMILY_HERE
    values, found = serial(events, records)
    puts = {(number, i) for number, event in enumerate(events) for i, (_, does) in enumerate(event) if does == PUT}

    def build():
        g, c, o = copied(gate), copied(shared), copied(out)
        s = SimpleNamespace(events=events, found={}, ran=[], given=[], seen=lambda: c.words[k.SEEN])
        workers = [k.run_executor(me, g, c, o, None, s, [0] * 16) for me in range(threads)]
        workers.append(k.end_when_over(c, threads))

        def check():
            ran = [each for each in s.ran if each not in puts]
            assert sorted(ran) == sorted(found), f"operations ran: {sorted(ran)}"
            assert len({*s.ran}) == len(s.ran), f"operations ran: {sorted(s.ran)}"
            assert s.found == found, f"operations found {s.found}, wanted {found}"
            assert c.table_rows[:records] == values, f"tables are {c.table_rows[:records]}, wanted {values}"
            early = [i for i, done in s.given if not {each for each in found if each[0] == i} <= {*done}]
            assert not early, f"rows of events {early} were given before their operations ran"
            assert sorted(i for i, _ in s.given) == list(range(n)), f"rows were given of {s.given}"
            assert o.mark == [END_OF_TIME] * threads, f"marks {o.mark}"

        return workers, check

    return build


def ops(*texts):
    """Events from texts: ``"a B =c"`` reads a, changes b, puts a value into c."""
    kinds = {True: CHANGE, False: LOOK}
    return [
        [("abcd".index(word[-1].lower()), PUT if word[0] == "=" else kinds[word.isupper()]) for word in text.split()]
        for text in texts
    ]


HOT = ops("A", "a A", "A", "a")
CROSSED = ops("A B", "B A", "a B", "b A")
PUTS = ops("=a =b", "a b =a", "=b =a", "a =b", "=b A")
CASES = {"hot": HOT, "crossed": CROSSED, "puts": PUTS}
SHARINGS = {"nothing": (SHARED_NOTHING, 2), "everything": (SHARED_EVERYTHING, 2), "socket": (SHARED_SOCKET, 3)}


@pytest.mark.parametrize("count", [100, *rarely(250)])
@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("name", CASES)
def test_interleave_executors(name, sharing, count):
    sampled("operations", case(kernels(), CASES[name], *SHARINGS[sharing]), count, longest=12_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_interleave_three_executors_and_short_batches(name):
    sampled("operations", case(kernels(), CASES[name], threads=3, punctuation=3), 250, longest=16_000)


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["nothing", "everything"])
def test_interleave_every_order_in_which_executors_wait_for_each_other(sharing):
    build = case(kernels(), CROSSED[:2], *SHARINGS[sharing])
    assert exhaustive("operations", build, preemptions=0, longest=8000) > 20


TWICE = "operations ran"
WRONG = "(operations found|tables are)"
PLANTED = {
    "a part is claimed twice": (
        (PARTS, "    p = fetch_add(c.words, CURSOR, 1)\n",
         "    p = load_relaxed(c.words, CURSOR)\n    store_relaxed(c.words, CURSOR, p + 1)\n"),
        CROSSED, SHARED_EVERYTHING, TWICE,
    ),
    "later slices come first in a chain": (
        (OPERATIONS, "        for slice_of in range(threads):\n            begin, end",
         "        for slice_of in range(threads - 1, -1, -1):\n            begin, end"),
        HOT, SHARED_EVERYTHING, WRONG,
    ),
    "a chain is two executors'": (
        (FLOW, "        r = c.owner[config, c.sets[o] >> 1 & BUCKET_MASK]\n", "        r = (c.sets[o] >> 1) + me & 1\n"),
        HOT, SHARED_NOTHING, WRONG,
    ),
    "chains are run before all of them are there": (
        (LOOP, "        if not meet(me, c, l):\n            return False\n        if not arrange", "        if not arrange"),
        CROSSED, SHARED_EVERYTHING, f"{TWICE}|{WRONG}|rows of events",
    ),
    "rows are given before all operations ran": (
        (LOOP, "        if threads > 1 and not meet(me, c, l):", "        if threads > 2 and not meet(me, c, l):"),
        CROSSED, SHARED_NOTHING, "rows of events .* were given before|" + TWICE,
    ),
    "a punctuation is passed by one executor only": (
        (PHASES, "if fetch_add(c.words, ARRIVED, 1) == threads - 1:  # W2", "if fetch_add(c.words, ARRIVED, 1) >= 0:  # W2"),
        CROSSED, SHARED_NOTHING, TWICE,
    ),
    "what was read in between is left out": (
        (COMBINING_OF, "        both = c.sets[before] & c.sets[o] & 1\n", "        both = c.sets[o] & 1\n"),
        PUTS, SHARED_NOTHING, TWICE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PLANTED)
def test_interleave_planted_mistake_is_found(mistake):
    planted, events, sharing, expected = PLANTED[mistake]
    find_failure("operations", case(kernels(planted), events, sharing), expected, count=6000, longest=12_000)
