"""Speculation under interleavings of its own text: versions, estimates, validation, the counters that say when all is done.

Property    what the last execution of each event has read, and so its result and the tables, are those of the serial
            order; rows are given after all is settled; nobody waits for ever
Oracle      the events one after another, in this file
Schedules   of `executor_kernel`, `speculative_kernel` and all they import, as they are (`interleave`): two or three
            executors, blocks of one event, each touch of a row a step of its own. A fifth of the sampled schedules run
            with store buffers; of one batch of two events all with few preemptions
Planted     each names the failure it must cause
Cannot see  memory weaker than x86's; more executors; the generated code (real threads do: test_speculative.py)
"""

# ruff: noqa: F821  (the names are the explored kernels')

import inspect
from types import SimpleNamespace

import pytest

from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.transactions.arrays import ExecutorArrays
from headrace.transactions.words import SHARED_NOTHING, SPECULATIVE
from interleave import SC, TSO, FailingSchedule, Kernels, copied, exhaustive, find_failure, sampled
from support.campaign import rarely
from support.executor_arrays import LOG, NEVER, Shared, end_when_over, gate_of

FAMILY = "headrace.transactions.speculative_kernel"
SCHEDULER = "headrace.transactions.speculation_kernel"
MEMORY = "headrace.transactions.multiversion_kernel"
LOOP = "headrace.transactions.executor_kernel"
RECORDS = 4

READ, WRITE, FOLLOW, SURE = range(4)
"""What an event does with a record: adds it up; changes it; changes the one that its value names; raises an exception if its
value is one that it never has in the order of events."""


def run_event(me, c, x, s, l, i):
    number = i + s.seen()
    total = 0
    for record, does in s.events[number]:
        at = touch_row(me, c, s.rows, i, record, record, 1, True)
        if at < 0:
            return
        cut()
        value = s.rows[at]
        total += value
        if does == FOLLOW:
            record = value % s.records
            at = touch_row(me, c, s.rows, i, record, record, 1, True)
            if at < 0:
                return
            value = s.rows[at]
        if does == SURE and value != s.sure[number]:
            s.raised.append(number)
            raised(me, c)
            return
        if does in (WRITE, FOLLOW):
            s.rows[at] = 3 * value + total + number
    s.found[number] = total


def attempt(me, c, x, s, l, i):
    begin_execution(me, c)
    run_event(me, c, x, s, l, i)
    return end_execution(me, c, s.rows, i)


def write_versions(me, c, s, l, stop):
    write_back(me, c, s.rows, stop)


def give_events(me, c, o, x, s, l, i, slot, count):
    s.given += [(k, s.found[k]) for k in range(i + s.seen(), i + s.seen() + count)]


def run_batch(me, c, l, s, executed):
    """An executor's part of one batch: events are there already, rows are given later."""
    prepare_speculation(me, c, executed * me // 2, executed * (me + 1) // 2, 1, 2)
    if meet(me, c, l):
        execute_batch(me, c, None, s, l, 0)


def serial(events):
    rows, found, sure = [1] * RECORDS, [], {}
    for number, event in enumerate(events):
        total = 0
        for record, does in event:
            total += rows[record]
            if does == SURE:
                sure[number] = rows[record]
            if does == FOLLOW:
                record = rows[record] % RECORDS
            if does in (WRITE, FOLLOW):
                rows[record] = 3 * rows[record] + total + number
        found.append(total)
    return rows, found, sure


def kernels(*planted, **constants):
    given = {
        "give_events": give_events, "executor_begins": lambda me, c, s, l: None, "turn": lambda *_: 0,
        "READ": READ, "WRITE": WRITE, "FOLLOW": FOLLOW, "SURE": SURE,
    }  # fmt: skip
    constants = {"PHASE_YIELDS": 1, "LEAST_SPINS": 1, "LONG": 3, "EVENTS_TAKEN": 1, "FAR": 1} | constants
    text = "\n\n".join("@kernel\n" + inspect.getsource(each) for each in (run_event, attempt, write_versions))
    program = (FAMILY, "FAMILY_HERE = 2\n", "FAMILY_HERE = 2\n\n\n" + text)
    imports = (FAMILY, "    NO_ROOM,\n", "    begin_execution, end_execution, raised, touch_row, write_back, NO_ROOM,\n")
    return Kernels(
        FAMILY, LOOP, programs=[end_when_over, run_batch], planted=[program, imports, *planted], given=given, constants=constants
    )


def case(k, events, threads=2, punctuation=8, operations=64, nodes=40, alone=False):
    """`alone`: one batch, without the loop around it."""
    n = len(events)
    gate = gate_of(k, n)

    def table(width):
        return [[0] * width for _ in range(threads)]

    copies = 160
    fields = {name: [0] * LOG for name in ExecutorArrays._fields} | {
        "words": [0] * 64, "event": [0] * (64 + 32 * threads), "meter": table(16), "failure": [0] * 16, "reading": [1] * threads,
        "sets": [0] * operations, "event_of": [0] * operations, "link": [0] * operations, "link_2": [0] * operations,
        "entries": [0] * operations, "heads": [0] * RECORDS, "nodes": [0] * (4 * nodes), "filling": table(32),
        "known": table(4 * operations), "stack": table(LOG), "lengths": table(64), "served": [0] * threads,
        "offers": [0] * threads,
        "rows": [[threads, SPECULATIVE, SHARED_NOTHING, punctuation, k.FAMILY_HERE, 0, 0, 0]], "owner": [[0] * 1024],
        "plan_at": [NEVER], "unsettled": [0, 0], "met_at": [0, 0], "installed": [[0, 0, 0]] * 2,
        "done_at": [0, 0],
    }  # fmt: skip
    shared = Shared(**fields)
    shared.words[k.PHASE] = 1
    shared.words[k.COPIES_FROM], shared.words[k.COPIES_TO] = RECORDS, RECORDS + copies
    out = k.OutArrays(
        words=[0] * 8, event=[0] * 64, head=[0] * threads, tail=[0] * threads, mark=[-1] * threads, mark_ts=[MIN_TIME] * threads,
        primary=table(LOG), a=table(LOG), b=table(LOG), c=table(LOG), at=table(LOG), meter=shared.meter, membership=[0],
        list_words=[[] for _ in range(threads)], list_head=[], list_tail=[],
    )  # fmt: skip
    rows, found, sure = serial(events)

    def program(c):
        return SimpleNamespace(
            events=events, rows=[1] * RECORDS + [0] * copies, records=RECORDS, found=[None] * LOG, given=[], sure=sure, raised=[],
            seen=lambda: c.words[k.SEEN],
        )  # fmt: skip

    def build_batch():
        c = copied(shared)
        s = program(c)
        c.words[k.FIT] = n
        notes = [[0] * 16 for _ in range(threads)]
        for own in notes:
            own[k.AT_PHASE] = 1
        workers = [k.run_batch(me, c, notes[me], s, n) for me in range(threads)]

        def check():
            assert s.found[:n] == found, f"events read {s.found[:n]}, wanted {found}"
            assert s.rows[:RECORDS] == rows, f"tables are {s.rows[:RECORDS]}, wanted {rows}"

        return workers, check

    if alone:
        return build_batch

    def build():
        g, c, o = copied(gate), copied(shared), copied(out)
        s = program(c)
        workers = [k.run_executor(me, g, c, o, None, s, [0] * 16) for me in range(threads)]
        workers.append(k.end_when_over(c, threads))

        def check():
            assert sorted(s.given) == list(enumerate(found)), f"events read {sorted(s.given)}, wanted {found}"
            assert s.rows[:RECORDS] == rows, f"tables are {s.rows[:RECORDS]}, wanted {rows}"
            assert o.mark == [END_OF_TIME] * threads, f"marks {o.mark}"

        return workers, check

    return build


def ops(*texts):
    """Events from texts: ``"a B *c !d"`` reads a, changes b and what c names, and is sure of d."""
    kinds = {"*": FOLLOW, "!": SURE}
    return [
        [("abcd".index(word[-1].lower()), kinds.get(word[0], WRITE if word.isupper() else READ)) for word in text.split()]
        for text in texts
    ]


CROSSED = ops("A B", "B A", "A B")
READERS = ops("A", "a", "a b", "A")
POINTERS = ops("*a", "A", "*a b", "*b")
APART = ops("A", "B", "C")
NEW_TARGET = ops("A", "*a", "a")
"""The second one names another record once it has read what the first one writes."""
SURE_OF = ops("A", "A !a", "!a B", "b A")
CASES = {"crossed": CROSSED, "readers": READERS, "pointers": POINTERS, "apart": APART, "new target": NEW_TARGET, "sure": SURE_OF}


@pytest.mark.parametrize("count", [120, *rarely(300)])
@pytest.mark.parametrize("name", CASES)
def test_interleave_two_executors(name, count):
    sampled("speculation", case(kernels(), CASES[name]), count, longest=20_000)


@pytest.mark.slow
@pytest.mark.parametrize("count", [80, *rarely(200)])
@pytest.mark.parametrize("name", CASES)
def test_interleave_three_executors_and_short_batches(name, count):
    sampled("speculation", case(kernels(), CASES[name], threads=3, punctuation=3), count, longest=30_000)


@pytest.mark.slow
@pytest.mark.parametrize("room", [{"operations": 6}, {"nodes": 4}], ids=["accesses", "versions"])
def test_interleave_what_has_no_room_is_executed_alone(room):
    sampled("speculation", case(kernels(), POINTERS, **room), 300, longest=20_000)


@pytest.mark.parametrize("name", ["crossed", "pointers"])
def test_interleave_where_too_many_are_not_valid_the_rest_is_executed_alone(name):
    sampled("speculation", case(kernels(LEAST_ABORTS=1), CASES[name]), 300, longest=20_000)


@pytest.mark.slow
def test_interleave_every_order_in_which_executors_wait_for_each_other():
    assert exhaustive("speculation", case(kernels(), CROSSED[:2]), preemptions=0, longest=20_000) > 1


def alone(k, events, memory, preemptions):
    """All schedules of one batch, without the loop around it."""
    return exhaustive(
        "speculation", case(k, events, alone=True), preemptions=preemptions, longest=4000, limit=30_000, memory=memory
    )


PAIRS = {"one record": ops("A", "A"), "new target": NEW_TARGET[:2], "crossed": CROSSED[:2]}


@pytest.mark.parametrize("name", PAIRS)
def test_interleave_every_schedule_with_one_preemption(name):
    """Of which a step of a store buffer is one."""
    assert alone(kernels(), PAIRS[name], TSO, 1) > 200


@pytest.mark.slow
def test_interleave_every_schedule_with_two_preemptions():
    assert alone(kernels(), PAIRS["new target"], SC, 2) > 10_000


# -- planted mistakes

WRONG = "(events read|tables are)"

PLANTED = {
    "a validation that skips what was written since": (
        (MEMORY, "        if version != c.link[o]:", "        if version == 0 and c.link[o] != 0:"),
        CROSSED, WRONG,
    ),
    "an estimate passes for a value": (
        (MEMORY, "        if version != c.link[o]:", "        if version >> STATE_BITS != c.link[o] >> STATE_BITS:"),
        CROSSED, WRONG,
    ),
    "an estimate is read as a value": (
        (MEMORY, "        if version & 3 == ESTIMATE:\n            c.filling[me, BLOCKER]",
         "        if False:\n            c.filling[me, BLOCKER]"),
        CROSSED, WRONG,
    ),
    "the last version is not written back": (
        (MEMORY, "                if node == c.entries[o]:", "                if node == c.entries[o] and i == 0:"),
        CROSSED, WRONG,
    ),
    "every version is written back": (
        (MEMORY, "                if node == c.entries[o]:", "                if node >= 0:"),
        READERS, WRONG,
    ),
    "the counter of executions is lowered too little": (
        (SCHEDULER, "        lower_counter(c, EXECUTE_AT, least)", "        lower_counter(c, EXECUTE_AT, least + 1)"),
        CROSSED, "deadlock",
    ),
    "the counter of validations is not lowered": (
        (SCHEDULER, "    lower_counter(c, VALIDATE_AT, i + 1)\n", ""),
        CROSSED, WRONG,
    ),
    "new versions are not validated against": (
        (SCHEDULER, "    lower_counter(c, VALIDATE_AT, i)\n    return False", "    return True"), NEW_TARGET, WRONG,
    ),
    "nobody looks again after it began to wait": (
        (SCHEDULER, "    if load_acquire(c.pending, blocker) & 3 == EXECUTED:  # D3\n        wake_dependents(c, blocker)\n", ""),
        CROSSED, WRONG,
    ),
    "all is settled while somebody has a task": (
        (SCHEDULER, "load_acquire(c.words, TASKS) == 0 and", "load_acquire(c.words, TASKS) >= 0 and"),
        CROSSED, WRONG,
    ),
    "what is not written any more stays a version": (
        (MEMORY, "store_release(c.nodes, node * NODE_WORDS + VERSION, version | GONE)",
         "store_release(c.nodes, node * NODE_WORDS + VERSION, version - ESTIMATE + WRITTEN)"),
        POINTERS, WRONG,
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PLANTED)
def test_interleave_planted_mistake_is_found(mistake):
    """In sequential consistency."""
    planted, events, expected = PLANTED[mistake]
    find_failure("speculation", case(kernels(planted), events), expected, count=6000, longest=20_000)


FOUND_AT_ONCE = (
    "a validation that skips what was written since", "the last version is not written back", "every version is written back",
)  # fmt: skip


@pytest.mark.parametrize("mistake", FOUND_AT_ONCE)
def test_interleave_planted_mistake_is_among_all_schedules_with_one_preemption(mistake):
    planted, _, expected = PLANTED[mistake]
    with pytest.raises(FailingSchedule, match=expected):
        alone(kernels(planted), PAIRS["crossed"], TSO, 1)


@pytest.mark.slow
def test_interleave_a_counter_found_low_before_what_it_is_for_is_visible():
    """A mistake that only a store buffer shows."""
    build = case(kernels((SCHEDULER, "    fence()  # L2\n", "")), POINTERS)
    find_failure("speculation", build, f"{WRONG}|deadlock", count=6000, longest=20_000, memory=TSO)
