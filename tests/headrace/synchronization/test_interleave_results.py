"""An input that waits for results to be released, beside a thread that releases them or catches up, in all schedules.

Property    an input that waits although there is room is woken: no thread sleeps for ever
Oracle      a lost wake-up is a deadlock, since time-outs do not happen
Schedules   of `mailbox_kernel` as it is, of these words alone: FRONTIER, RESULTS, RELEASED, SPACE_WAITING. Two threads:
            an input that is given one row, and what else happens in a run, in the one order that matters. All schedules
            with at most three preemptions, with store buffers and without: no draw decides what is found
Planted     the two fences G2, a G3 left out, and what S2 reads first; whole runs (test_interleave.py) do not meet these by chance
Cannot see  what else moves in a whole run, memory weaker than x86's
"""

# ruff: noqa: F821  (the names are the explored kernels')

from collections import namedtuple

import pytest

from headrace.progress import MIN_TIME
from interleave import SC, TSO, FailingSchedule, Kernels, copied, exhaustive

MAILBOX = "headrace.synchronization.mailbox_kernel"
NEVER = 2**63 - 1
MOST = 4
AHEAD, BEHIND = 5, 1
"""How far two inputs are: the first one waits, while too many results are held back, until the other is as far."""
PREEMPTIONS = 3
Shared = namedtuple("Shared", "words signals input given queue runs plan_at")


def give(c, counted):
    """The input that is ahead has one row more; workers have counted so many results before it looks."""
    if counted:
        fetch_add(c.words, RESULTS, counted)
    while add_or_wait(c, 0, [AHEAD], [0], 0, 1, 0, 1, c.words) == 0:
        pass


def catch_up(c):
    """The other input is as far."""
    promise(c, 1, AHEAD)


def release(c, counts, counted):
    """The collector releases results up to each of `counts`; then workers count so many more."""
    for count in counts:
        release_results(c, count)
    if counted:
        fetch_add(c.words, RESULTS, counted)


def built(name, *planted):
    before, rest, arguments = SCENARIOS[name]
    results, counted = before
    k = Kernels(
        MAILBOX, programs=[give, catch_up, release], planted=planted, shared=("runs",),
        # A cell is one word here, so what lies beside one needs a place of its own.
        constants={
            "DONE_TS": 3, "PASSED": 4, "AT": 5, "COUNTED": 6, "WAKE_AT": 7, "QUEUE_CELLS": 8, "MERGED": 2, "INPUT_CELLS": 3,
            "FEW": 1, "BLOCK": 2,
            "CAPACITY": 4, "RUNS": 4, "SPAN": 6, "MOST_RESULTS": MOST,
        },
    )  # fmt: skip
    shared = Shared(
        words=[0] * 48, signals=[0] * 64, input=[0] * (2 * k.INPUT_CELLS), given=[[1, 0, 1, 1], [1, 1, 2, 1]],
        queue=[0] * (2 * k.QUEUE_CELLS), runs=[0] * (2 * k.RUNS * k.RUN_WORDS), plan_at=[NEVER],
    )  # fmt: skip
    shared.words[k.RESULTS] = results
    for i, frontier in enumerate((AHEAD, BEHIND)):
        shared.input[i * k.INPUT_CELLS + k.FRONTIER] = frontier
        shared.queue[i * k.QUEUE_CELLS + k.DONE_TS] = MIN_TIME
        shared.queue[i * k.QUEUE_CELLS + k.WAKE_AT] = NEVER

    def build():
        c = copied(shared)

        def check():
            assert c.input[k.ADMITTED] == 1, "the row was not taken"

        return [k.give(c, counted), getattr(k, rest)(c, *arguments)], check

    return build


SCENARIOS = {
    # Results at first, and counted just before the input looks; what else happens.
    "the other input catches up": ((MOST, 1), "catch_up", ()),
    "results are released": ((MOST, 1), "release", ([2], 0)),
    "results are released, and more come": ((MOST + 1, 0), "release", ([1, 2], 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("memory", [SC, TSO])
@pytest.mark.parametrize("name", SCENARIOS)
def test_interleave_an_input_that_waits_for_results_is_woken(name, memory):
    assert exhaustive("results", built(name), preemptions=PREEMPTIONS, memory=memory) > 100


PLANTED = {
    "nobody says that an input is not ahead any more": (
        "the other input catches up", SC,
        (MAILBOX, "        if load_acquire(c.words, RESULTS) - load_acquire(c.words, RELEASED) > MOST_RESULTS:\n"
         "            signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)  # G3\n        return True\n",
         "        return True\n"),
    ),
    "no fence between how far an input is and the wait for it": (
        "the other input catches up", TSO,
        (MAILBOX, "ts)  # F3, G1\n        fence()  # G2\n", "ts)\n"),
    ),
    "no fence between what is released and the wait for it": (
        "results are released", TSO,
        (MAILBOX, "count)  # G1\n    fence()  # G2\n", "count)\n"),
    ),
    "a waiting input looks at the results last": (
        "results are released, and more come", SC,
        (MAILBOX, "    results = load_acquire(c.words, RESULTS)  # first: who moves RELEASED after this look at it sees"
         " as many, or more\n    if results - load_acquire(c.words, RELEASED) > MOST_RESULTS and",
         "    released = load_acquire(c.words, RELEASED)\n"
         "    if load_acquire(c.words, RESULTS) - released > MOST_RESULTS and"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PLANTED)
def test_interleave_planted_mistake_is_found(mistake):
    name, memory, *planted = PLANTED[mistake]
    with pytest.raises(FailingSchedule, match="deadlock"):
        exhaustive("results (planted)", built(name, *planted), preemptions=PREEMPTIONS, memory=memory)
