"""The reorder buffer of an ordered pipeline, its own text: every schedule of few preemptions of its smallest cases.

Property    outputs leave in the order of their records, whichever worker completes them when, and none is left in its slot
Oracle      the numbers of the records
Schedules   all of `buffer_kernel` with at most so many preemptions (`BOUNDS`), under both memory models, of which a step of a
            store buffer is one: two workers, two or three records, a ring of two; one stage, with the flag or the lock, or
            another one behind it into whose ring outputs are written at once. The campaign has one preemption more
Planted     each is found by the schedules of a case that is explored here, and names the failure. What E2 keeps apart only
            longer cases show: test_interleave.py
Cannot see  claims, more stages and workers, full rings, which test_interleave.py samples; memory weaker than x86's. All
            schedules of the buffer's model, without a bound: tests/headrace/memory/test_reorder_buffer.py
"""

# ruff: noqa: F821  (the names are the explored kernels')

import pytest

from headrace.ordering.words import FIRST_COLUMN, LOCKED, NONBLOCKING, OUT_AT, STAGE_CELLS, STATELESS
from interleave import SC, TSO, FailingSchedule, Kernels, exhaustive
from support.campaign import rarely
from support.pipeline_arrays import CONSTANTS, arrays, fresh

BUFFER = "headrace.ordering.buffer_kernel"


def complete(me, c, o, l, serials):
    """A worker that has claimed these records of the first stage: what becomes of each is its number, from 1."""
    for serial in serials:
        while serial - load_acquire(c.stage, cell(0, NEXT)) > c.form[0, MASK]:  # it is appended when there is a slot
            pause()
        open_output(me, c, l, 0, serial)
        c.arena[l[OUT_AT] + FIRST_COLUMN] = 1 + serial
        l[OUT_AT] += c.form[0, OUT_STRIDE]
        passed = close_output(me, c, o, l, 0, serial, 1)
        flush(c, o, 0, passed)


def kernels(*planted):
    return Kernels(
        BUFFER, programs=[complete], planted=planted, constants={**CONSTANTS, "LEAST_CLASS": 3, "KEPT_CLASS": 3},
        shared=("slots", "arena"),
    )  # fmt: skip


def case(k, shares, reorder=NONBLOCKING, stages=1):
    """Workers with these records each, a ring of two; with a second stage, outputs may be written into its ring at once."""
    count = sum(map(len, shares))
    sizes = {"workers": len(shares), "first": 2, "room": 4, "results": 4, "memory": 160}
    shared, out = arrays(k, [STATELESS] * stages, reorder=reorder, **sizes)
    shared.stage[k.TAIL] = count

    def build():
        c, o = fresh(k, shared, out)

        def check():
            assert c.stage[k.NEXT] == count, f"{c.stage[k.NEXT]} of {count} left"
            if stages == 1:
                rows = c.out[0][: o.head[0]]
            else:
                behind = range(c.stage[STAGE_CELLS + k.TAIL])
                rows = [c.arena[k.record_of(c, 1, serial) + FIRST_COLUMN] for serial in behind]
            assert rows == [*range(1, count + 1)], f"rows {rows}"

        return [k.complete(me, c, o, [0] * 20, share) for me, share in enumerate(shares)], check

    return build


TWO, THREE = ((0,), (1,)), ((1,), (0, 2))
"""Records of each worker: a slot each; the first slot twice."""
SHARES = {"two records": TWO, "three records": THREE}
BOUNDS = {(SC, TWO): 3, (SC, THREE): 3, (TSO, TWO): 3, (TSO, THREE): 2}
"""Preemptions at most."""


def explored(build, shares, memory, more=0):
    bound = BOUNDS[memory, shares] + more
    return exhaustive("reorder buffer's text", build, preemptions=bound, limit=1_000_000 if more > 0 else 60_000, memory=memory)


@pytest.mark.slow
@pytest.mark.parametrize("more", [0, *rarely(1)])
@pytest.mark.parametrize("memory", [SC, TSO])
@pytest.mark.parametrize("records", SHARES)
@pytest.mark.parametrize(("reorder", "stages"), [(NONBLOCKING, 1), (NONBLOCKING, 2), (LOCKED, 1)], ids=["one", "two", "lock"])
def test_interleave_every_schedule(reorder, stages, records, memory, more):
    assert explored(case(kernels(), SHARES[records], reorder, stages), SHARES[records], memory, more) > 500


# -- planted mistakes ----------------------------------------------------------------------------------

LEFT, WRONG = "left", r"rows \["
TURN = "    moved = drain_held(c, o, stage, 0, 0)\n    store_release(c.stage, cell(stage, DRAINING), ticket + 1)\n"
PLANTED = {
    # text, new text; records, how, stages, failure, memory
    "the flag is cleared plainly": (
        "        exchange(c.stage, cell(stage, DRAINING), 0)  # D6\n",
        "        store_release(c.stage, cell(stage, DRAINING), 0)  # D6\n", TWO, NONBLOCKING, 1, LEFT, TSO,
    ),
    "an output is stored, and no fence before the look": ("    fence()  # W3\n", "", TWO, NONBLOCKING, 1, LEFT, TSO),
    "nobody looks again after the flag was cleared": (
        "        if not can_drain(c, o, stage):  # D7\n", "        if moved or not moved:  # D7\n", TWO, NONBLOCKING, 1, LEFT, SC,
    ),
    "a worker that looks again does not take the flag": (
        "        if exchange(c.stage, cell(stage, DRAINING), 1) != 0:  # D1\n            return moved\n", "",
        THREE, NONBLOCKING, 1, f"{LEFT}|{WRONG}", SC,
    ),
    "a slot of the round before is taken for complete": (
        "        if load_acquire(c.slots, slot + DONE) != serial + 1:  # D2\n",
        "        if load_acquire(c.slots, slot + DONE) == 0:  # D2\n", THREE, NONBLOCKING, 1, WRONG, SC,
    ),
    "a slot is given back before its outputs are passed on": (
        "    room = room_behind(c, o, stage) - made\n",
        "    room = room_behind(c, o, stage) - made\n"
        "    while load_acquire(c.slots, slot_of(c, stage, first + passed) + DONE) == first + passed + 1:\n"
        "        passed += 1\n        store_release(c.stage, cell(stage, NEXT), first + passed)\n    passed = 0\n",
        THREE, NONBLOCKING, 1, f"{LEFT}|{WRONG}", SC,
    ),
    "what is not the first to be passed on is written in place": (
        "    if load_acquire(c.stage, cell(stage, NEXT)) != serial:  # E1\n        return False\n", "",
        TWO, NONBLOCKING, 2, f"{LEFT}|{WRONG}", SC,
    ),
    "the lock is not waited for": (
        "    while load_acquire(c.stage, cell(stage, DRAINING)) != ticket:\n", "    while ticket < 0:\n",
        TWO, LOCKED, 1, f"{LEFT}|{WRONG}", SC,
    ),
    "the lock is let go of too early": (
        TURN, "    store_release(c.stage, cell(stage, DRAINING), ticket + 1)\n    moved = drain_held(c, o, stage, 0, 0)\n",
        TWO, LOCKED, 1, f"{LEFT}|{WRONG}", SC,
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PLANTED)
def test_interleave_planted_mistake_is_found(mistake):
    """By some of the schedules that the case's own test runs: those with one preemption less."""
    text, new, shares, reorder, stages, expected, memory = PLANTED[mistake]
    build = case(kernels((BUFFER, text, new)), shares, reorder, stages)
    with pytest.raises(FailingSchedule, match=expected):
        explored(build, shares, memory, -1)
