"""The output gate's rings and promises: nothing comes out too early, nothing is lost, nobody sleeps for ever.

Property    a record is drained no later than the promise that covers it is
            seen; the watermark passed on is never ahead of the promises; every
            record is drained once, in its instance's order; a place that is
            promised is taken for one of its own mark only
Schedules   of the file's own text (`interleave`), under both memory models: rings
            of two records, two instances that write at once or hand over at a
            change of members; a promise without records, that is waited for. The
            campaign has all with two preemptions of a hand over, and more samples
Planted     each ordering label of the file's argument, dropped or swapped; the
            store buffer's mistake, a promise without a fence behind it
Cannot see  memory weaker than x86's: tests/headrace/memory/test_weak_memory.py
            has a model of S1 to S3
"""

# ruff: noqa: F821  (the names are the explored kernels')


import pytest

from headrace.progress import END_OF_TIME, MIN_TIME
from interleave import SC, TSO, FailingSchedule, Kernels, copied, exhaustive, find_failure, sampled
from support.campaign import rarely
from support.result_rings import write

OUTPUT = "headrace.egress.rings"
VERSION = 0  # of `membership`
GO = 1  # another word of it, which no kernel uses


# -- programs ----------------------------------------------------------------------------------------


def write_all(o, me, primaries):
    head = write(o, me, primaries, 0)
    publish(o, me, head, END_OF_TIME, END_OF_TIME)


def hand_over(o, me, primaries, joiner, last):
    """Write, then leave while `joiner` joins: both under the membership seqlock, by index as the instance loop does."""
    write(o, me, primaries, 0)
    begin_change(o.membership, VERSION)
    for r in range(2):
        if r == joiner:
            start_mark(o, joiner, last, last)
        else:
            start_mark(o, me, END_OF_TIME, END_OF_TIME)
    end_change(o.membership, VERSION)
    store_release(o.membership, GO, 1)


def take_over(o, me, primaries):
    while load_acquire(o.membership, GO) == 0:
        pause()
    head = write(o, me, primaries, 0)
    publish(o, me, head, END_OF_TIME, END_OF_TIME)


def collect(o, got, wrong):
    """The collector: wait, drain; note what came behind a promise that covers it."""
    covered = MIN_TIME
    wanted = END_OF_TIME
    while True:
        bound, watermark = await_release(o, wanted, 0)
        if watermark > bound:
            wrong.append((watermark, bound))
        wanted = END_OF_TIME
        for r in range(len(o.head)):
            tail = load_relaxed(o.tail, r)
            head = load_acquire(o.head, r)
            while tail < head:
                p = o.primary[r][tail & 1]
                if p <= covered:
                    wrong.append((p, covered))
                got[r].append(p)
                if p > bound:
                    wanted = min(wanted, p)
                tail += 1
                drained(o, r, tail)
        covered = bound
        if bound == END_OF_TIME:
            return


def promise_and_wait(o, me, mark):
    """Promise without a record, and go on only when the collector has made use of it, as one that waits for a result."""
    publish(o, me, 0, mark, mark)
    while load_acquire(o.membership, GO) == 0:
        pause()


def await_promise(o, wanted):
    """The collector, holding back a record that waits for a promise: nothing else will wake it."""
    bound = MIN_TIME
    while bound < wanted:
        bound, _ = await_release(o, wanted, 0)
    store_release(o.membership, GO, 1)


def promise_places(o, me, steps, waits):
    """Promise places one after the other; go on from each that `waits` only when the collector has made use of it."""
    for mark, place in steps:
        publish_place(o, me, mark, place)
        while (mark, place) == waits and load_acquire(o.membership, GO) == 0:
            pause()


def await_place(o, primary, place, seen):
    """The collector, holding back a record that a place lets go: nothing else will wake it. What it takes for promised."""
    while True:
        store_release(o.words, WANTED_PLACE, place)
        bound, _ = await_release(o, primary, 0)
        upto = promised_place(o, bound)
        seen.append((bound, upto))
        if bound >= primary or (bound + 1 == primary and upto > place):
            store_release(o.membership, GO, 1)
            return


PROGRAMS = (
    write, write_all, hand_over, take_over, collect, promise_and_wait, await_promise, promise_places, await_place,
)  # fmt: skip


def kernels(planted=()):
    return Kernels(
        OUTPUT, "headrace.memory.event_count", programs=PROGRAMS, shared={"primary"}, planted=planted,
    )  # fmt: skip


def arrays(k, active):
    def ring():
        return [[0, 0], [0, 0]]

    mark = [MIN_TIME if r in active else END_OF_TIME for r in range(2)]
    words = [0] * k.WORD_COUNT
    words[k.WANTED] = END_OF_TIME
    return k.OutArrays(
        words=words, event=[0] * 64, head=[0, 0], tail=[0, 0], mark=mark, mark_ts=mark[:],
        primary=ring(), a=ring(), b=ring(), c=ring(), at=ring(), meter=[[0] * 16, [0] * 16],
        membership=[0, 0], list_words=[[], []], list_head=[], list_tail=[],
    )  # fmt: skip


def both_write(k, first, second):
    template = arrays(k, (0, 1))

    def build():
        o = copied(template)
        got, wrong = [[], []], []
        threads = [k.write_all(o, 0, first), k.write_all(o, 1, second), k.collect(o, got, wrong)]
        return threads, lambda: check(got, wrong, [first, second])

    return build


def one_hands_over(k, first, second, leaver=1):
    """One instance leaves and the other joins: a scan of both could see neither."""
    template = arrays(k, (leaver,))

    def build():
        o = copied(template)
        got, wrong = [[], []], []
        threads = [
            k.hand_over(o, leaver, first, 1 - leaver, first[-1]),
            k.take_over(o, 1 - leaver, second),
            k.collect(o, got, wrong),
        ]
        return threads, lambda: check(got, wrong, [first, second] if leaver == 0 else [second, first])

    return build


def waited_for(k):
    """Nobody writes records: the promise alone must wake the collector."""
    template = arrays(k, (0, 1))

    def build():
        o = copied(template)
        threads = [k.promise_and_wait(o, 0, 5), k.promise_and_wait(o, 1, 7), k.await_promise(o, 5)]
        return threads, lambda: None

    return build


def place_waited_for(k, steps, primary, place):
    """Nobody writes records: the last place alone lets the record go that is held back."""
    template = arrays(k, (1,))

    def build():
        o = copied(template)
        seen = []
        threads = [k.promise_places(o, 1, steps, steps[-1]), k.await_place(o, primary, place, seen)]
        allowed = {(MIN_TIME, 0), *steps, *((mark, 0) for mark, _ in steps)}
        return threads, lambda: check_places(seen, allowed)

    return build


def check_places(seen, allowed):
    assert set(seen) <= allowed, f"taken for promised: {sorted(set(seen) - allowed)}"


PLACES = [(3, 9), (3, 4), (5, 2), (5, 7)]
"""What is less than before says nothing. What comes of (6, 9) if 9 is taken for a place of 5?"""


def check(got, wrong, wanted):
    assert not wrong, f"behind a promise that covers it: {wrong}"
    assert got == wanted, f"drained {got}, written {wanted}"


# -- every schedule, and many --------------------------------------------------------------------------


@pytest.mark.slow
def test_interleave_every_schedule_of_few_preemptions():
    k = kernels()
    assert exhaustive("output rings", both_write(k, [5], [7]), preemptions=2) > 500
    for leaver in (0, 1):
        case = one_hands_over(k, [5], [7], leaver)
        assert exhaustive("output rings", case, preemptions=1) > 500
        assert exhaustive("output rings", case, preemptions=1, memory=TSO) > 500
    assert exhaustive("output rings", both_write(k, [5], [7]), preemptions=1, memory=TSO) > 500
    assert exhaustive("output rings", waited_for(k), preemptions=1, memory=TSO) > 500


@pytest.mark.campaign
def test_interleave_a_hand_over_in_every_schedule_of_two_preemptions():
    assert exhaustive("output rings", one_hands_over(kernels(), [5], [7], 0), preemptions=2) > 50_000


FENCE = "        fence()  # W5\n"


def test_interleave_catches_a_promise_without_a_fence_behind_it():
    """MARK lies in the store buffer while WANTED is read: the collector sleeps on. SC knows nothing of it."""
    k = kernels([(OUTPUT, FENCE, "")])
    exhaustive("output rings", waited_for(k), preemptions=1)
    find_failure("output rings", waited_for(k), r"deadlock: threads \[0, 1\] wait, \[2\] sleep", memory=TSO)


def test_interleave_places_in_every_schedule_of_few_preemptions():
    k = kernels()
    for held in ((6, 6), (6, 1), (4, 8)):
        assert exhaustive("places", place_waited_for(k, PLACES, *held), preemptions=2) > 50
        assert exhaustive("places", place_waited_for(k, PLACES, *held), preemptions=1, memory=TSO) > 50


TAKEN = r"taken for promised: \[\(5, 9\)"
PLACES_PLANTED = {
    "a place is left to the mark that follows": ("        store_release(o.words, PLACE_MARK, 0)  # P1\n", "", SC, TAKEN),
    "a place is taken for one of the mark before": (
        "    return place if promised(o)[0] == bound else 0\n", "    return place\n", SC, r"taken for promised: \[\(3, 7\)",
    ),
    "a place wakes nobody": (
        "or (mark + 1 == wanted and place > load_relaxed(o.words, WANTED_PLACE)):\n", "or False:\n", SC, "deadlock",
    ),
    "no fence behind a place": (
        "    fence()  # W5\n    wanted = load_relaxed(o.words, WANTED)  # P4\n",
        "    wanted = load_relaxed(o.words, WANTED)\n", TSO, "deadlock",
    ),
    "a waiting collector does not look at the place": (
        "    if wanted == bound + 1 and promised_place(o, bound) >", "    if False and promised_place(o, bound) >", SC,
        "deadlock",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", PLACES_PLANTED)
def test_interleave_planted_bug_of_places_is_found(bug):
    old, new, memory, expected = PLACES_PLANTED[bug]
    k = kernels([(OUTPUT, old, new)])
    with pytest.raises(FailingSchedule, match=expected):
        for held in ((6, 6), (4, 8)):
            exhaustive("places (planted)", place_waited_for(k, PLACES, *held), preemptions=2, memory=memory)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, *rarely(2, 3)])
def test_interleave_sampled(seed):
    k = kernels()
    assert sampled("output rings", both_write(k, [1, 2, 3, 9], [2, 4, 5]), 4_000, seed=seed * 100_000) >= 3_900
    case = one_hands_over(k, [1, 2, 3], [4, 5, 8], leaver=seed % 2)
    assert sampled("output rings", case, 4_000, seed=seed * 100_000) >= 3_900


EARLY = r"behind a promise that covers it: \[\(\d, \d\)"
AHEAD = r"behind a promise that covers it: \[\(4611686018427387904, \d\)"
"""The watermark, END_OF_TIME, and the promise."""
WRONG = r"drained \[.*\], written"
ASLEEP = r"deadlock: threads \[\] wait, \[0, 1, 2\] sleep"

PLANTED = {
    "W2 after W3: a promise without its records": (
        "    if fresh:\n        store_release(o.head, me * CELL, head)  # W2\n    if mark > before:\n"
        "        store_release(o.mark, me * CELL, mark)  # W3\n",
        "    if mark > before:\n        store_release(o.mark, me * CELL, mark)  # W3\n"
        "    if fresh:\n        store_release(o.head, me * CELL, head)  # W2\n",
        EARLY,
    ),
    "W4 before W3: the watermark runs ahead": (
        "    if mark > before:\n        store_release(o.mark, me * CELL, mark)  # W3\n"
        "    if watermark > load_relaxed(o.mark_ts, me * CELL):\n"
        "        store_release(o.mark_ts, me * CELL, watermark)  # W4\n",
        "    if watermark > load_relaxed(o.mark_ts, me * CELL):\n"
        "        store_release(o.mark_ts, me * CELL, watermark)  # W4\n"
        "    if mark > before:\n        store_release(o.mark, me * CELL, mark)  # W3\n",
        AHEAD,
    ),
    "C1 before C0: the watermark is read last": (
        "            watermark = min(watermark, load_acquire(o.mark_ts, r * CELL))  # C0\n"
        "            smallest = min(smallest, load_acquire(o.mark, r * CELL))  # C1\n",
        "            smallest = min(smallest, load_acquire(o.mark, r * CELL))  # C1\n"
        "            watermark = min(watermark, load_acquire(o.mark_ts, r * CELL))  # C0\n",
        AHEAD,
    ),
    "no seqlock: half of a change of members is seen": (
        "        if is_whole(o.membership, 0, before):\n",
        "        if True:\n",
        f"{AHEAD}|{WRONG}",
    ),
    "the ring takes one record too many": (
        "    if head - load_acquire(o.tail, me * CELL) >= capacity and not",
        "    if head - load_acquire(o.tail, me * CELL) > capacity and not",
        WRONG,
    ),
    "a full ring does not look again before it sleeps": (
        "        if head - load_acquire(tails, me * CELL) < capacity:  # P0\n"
        "            cancel(o.words, INSTANCES_WAITING)\n            break\n",
        "        if False:\n            break\n",
        ASLEEP,
    ),
    "draining a full ring wakes nobody": (
        "    store_release(o.tail, me * CELL, tail)\n    signal(o.words, INSTANCES_WAITING, o.event, DRAINED_EVENT)\n",
        "    store_release(o.tail, me * CELL, tail)\n",
        ASLEEP,
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_interleave_planted_bug_is_found(bug):
    old, new, expected = PLANTED[bug]
    k = kernels([(OUTPUT, old, new)])
    cases = [both_write(k, [1, 2, 3, 9], [2, 4, 5])]
    if "seqlock" in bug:
        cases = [one_hands_over(k, [1, 2, 3], [4, 5, 8], leaver) for leaver in (0, 1)]
    for case in cases:
        find_failure("output rings", case, expected)
