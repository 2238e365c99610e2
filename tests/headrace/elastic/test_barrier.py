"""The barrier between two configurations, under every interleaving of the loop's own text.

Property    each tuple is processed once, by the owner that the configuration at
            its position names; each planned change is an epoch of its own, and
            everybody concerned acknowledges it; all members see the end
Schedules   of `instance_loop`, `epochs` and `rings` as they are
            (`interleave`): three workers, a log that holds the whole input
Planted     waits and identities whose lack shows only when a worker is awake at
            the wrong moment
Cannot see  memory weaker than x86's; more than three workers
"""

# ruff: noqa: F821  (the names are the explored kernels')

from collections import namedtuple

import pytest

from headrace.elastic import instance_loop
from headrace.elastic.arrays import InstanceArrays
from headrace.progress import END_OF_TIME, MIN_TIME
from interleave import Kernels, copied, exhaustive, find_failure, sampled

LOOP = "headrace.elastic.instance_loop"
EPOCHS = "headrace.elastic.epochs"
LIFE = "headrace.workers.worker_kernel"
NEVER_PLANNED = 2**63 - 1
WORKERS = 3
Shared = namedtuple("Shared", InstanceArrays._fields)


# -- an operator that only notes which instance processed what -----------------------------------------


def process_batch(me, g, c, o, x, s, l, buffer, row, start, count):
    check_membership(c, l, me)
    for i in range(count):
        at = l[instance_loop.SEEN] + i
        if c.owner[l[instance_loop.IN_FORCE]][at] == me:
            s.append((at, me))
    l[instance_loop.WATERMARK] = g.out_ts[row][start + count - 1]
    return 0


def finish(me, g, c, o, x, s, l, buffer):
    check_membership(c, l, me)
    return 0


def check_membership(c, l, me):
    """Fail where a worker goes on that has left, or not joined yet: what follows differs from schedule to schedule."""
    assert c.member[l[instance_loop.IN_FORCE]][me] == 1, f"worker {me} goes on, and is no member"


OPERATOR = {
    "promise": lambda l: l[instance_loop.WATERMARK],
    "begin": lambda c, l, s, buffer: None,
    "hand_over": lambda l, s, me, joiner: None,
    "process_batch": process_batch,
    "tuples_before": lambda g, l, row, start: l[instance_loop.SEEN],
    "transfer": lambda *_: None,
    "advance_time": lambda *_: 0,
    "finish": finish,
    # Only counts, each worker for itself.
    "turn": lambda *_: 0,
    "note_load": lambda *_: None,
    "settle_load": lambda *_: None,
}


def end_when_over(c, expected):
    """The collector's part: when all members are through, stop everybody."""
    while load_acquire(c.words, FINISHED) < expected:
        pause()
    stop_workers(c)


def kernels(planted=()):
    return Kernels(LOOP, programs=[end_when_over], planted=planted, given=OPERATOR)


def case(k, tuples, initial, plan):
    """`plan` is (tuple count, members), rising; bucket `at` of a configuration is owned by members in turn."""
    sets = [initial, *(members for _, members in plan)]
    log = 8
    template = k.LogArrays(
        words=[0] * 48, event=[0] * 64, head=[tuples + 1], mark=[END_OF_TIME + 1], merged=[tuples + 1],
        feeding=[1], ring_ts=[[0]], ring_ref=[[0]], ring_at=[[0]],
        out_ts=[[*range(tuples), END_OF_TIME] + [0] * (log - tuples - 1)],
        out_ref=[[*range(tuples), -1] + [0] * (log - tuples - 1)],
        out_at=[[0] * log], cursor=[0] * WORKERS, reading=[int(r in initial) for r in range(WORKERS)],
        cost=[0] * WORKERS, scratch=[[0], [0], [0]], rank=[], rank_layout=[],
    )  # fmt: skip
    template.words[k.END] = tuples + 1
    ring = len(plan) + 2
    shared = Shared(
        words=[0] * 48, event=[0] * (64 + 32 * WORKERS),
        member=[[int(r in members) for r in range(WORKERS)] for members in sets],
        low=[[0] * WORKERS for _ in sets], width=[[0] * WORKERS for _ in sets], contiguous=[0] * len(sets),
        owner=[[members[at % len(members)] for at in range(tuples)] for members in sets],
        start_seen=[0] * WORKERS, start_watermark=[MIN_TIME] * WORKERS, start_planned=[0] * WORKERS,
        plan_at=[*(at for at, _ in plan), NEVER_PLANNED],
        pending=[0] * ring, met_at=[0] * ring, reached_at=[0] * ring, installed=[[0, 0] for _ in range(ring)],
        load_at=[[0] * WORKERS for _ in range(ring)],
        done_at=[0] * ring, acknowledged=[0] * WORKERS, failure=[0] * 16,
        meter=[[0] * 16 for _ in range(WORKERS)], load=[[0] for _ in range(WORKERS)], layout=[[0, 0, 0]],
    )  # fmt: skip
    mark = [MIN_TIME if r in initial else END_OF_TIME for r in range(WORKERS)]

    def rings():
        return [[0, 0] for _ in range(WORKERS)]

    out = k.OutArrays(
        words=[0] * 8, event=[0] * 64, head=[0] * WORKERS, tail=[0] * WORKERS, mark=mark, mark_ts=mark[:],
        primary=rings(), a=rings(), b=rings(), c=rings(), at=rings(), meter=shared.meter, membership=[0],
        list_words=[[] for _ in range(WORKERS)], list_head=[], list_tail=[],
    )  # fmt: skip

    def wanted_owner(at):
        in_force = sum(1 for place, _ in plan if place <= at)
        return sets[in_force][at % len(sets[in_force])]

    wanted = [(at, wanted_owner(at)) for at in range(tuples)]

    def build():
        g, c, o = copied(template), copied(shared), copied(out)
        s = []
        threads = [k.run_instance(me, g, c, o, None, s, [0] * 16, None) for me in range(WORKERS)]
        threads.append(k.end_when_over(c, len(sets[-1])))

        def check():
            assert sorted(s) == wanted, f"processed {sorted(s)}, wanted {wanted}"
            assert c.words[k.EPOCH] == len(plan), f"{c.words[k.EPOCH]} epochs of {len(plan)}"
            assert c.pending == [0] * ring, f"acknowledgements missing: {c.pending}"
            assert c.words[k.FINISHED] == len(sets[-1])
            assert o.mark == [END_OF_TIME] * WORKERS
            for epoch in range(1, len(plan) + 1):
                assert c.installed[epoch] == [epoch - 1, epoch]

        return threads, check

    return build


CASES = {
    "rapid 1-2-1-2 at one tuple": (2, (0,), [(1, (0, 1)), (1, (0,)), (1, (0, 1))]),
    "rapid changes at the end": (1, (0, 1), [(5, (0,)), (5, (0, 1)), (5, (1,)), (5, (0, 1))]),
    "swap": (3, (0,), [(1, (1,)), (2, (2,))]),
    "swap of the same size": (2, (0, 1), [(1, (0, 2)), (2, (1, 2))]),
    "before any tuple": (1, (2,), [(0, (0,)), (0, (0, 1, 2)), (0, (1,))]),
    "nobody stays, at every tuple": (3, (0, 1), [(0, (2,)), (1, (0, 1)), (2, (2,)), (3, (0,))]),
}


@pytest.mark.parametrize("count", [600, pytest.param(1_600, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("name", CASES)
def test_interleave_barrier(name, count):
    assert sampled("barrier", case(kernels(), *CASES[name]), count, longest=6000, length=400) >= count


@pytest.mark.parametrize(("tuples", "initial", "plan"), [(1, (0,), [(0, (1,))]), CASES["rapid 1-2-1-2 at one tuple"]])
def test_interleave_every_order_in_which_threads_wait_for_each_other(tuples, initial, plan):
    """Every schedule in which a thread goes on until it must wait."""
    assert exhaustive("barrier", case(kernels(), tuples, initial, plan), preemptions=0, longest=6000) > 300


NO_MEMBER = "goes on, and is no member"
ASLEEP = r"deadlock: threads \[3\] wait, \[0, 1, 2\] sleep"
"""The collector, thread 3, waits for the end of the workers."""

PLANTED = {
    "a joiner does not wait for the epoch it joins": (
        LOOP,
        "            if not await_epoch(c, activation - 1):\n                break\n",
        "",
        "rapid 1-2-1-2 at one tuple",
        NO_MEMBER,
    ),
    "a leaver goes on": (
        LOOP,
        "                leave_reader(g, r)\n",
        "",
        "swap",
        NO_MEMBER,
    ),
    "at the end a leaver takes its own return for having stayed": (
        LOOP,
        "                    if load_acquire(g.reading, me * CELL) != activation:",
        "                    if load_acquire(g.reading, me * CELL) == 0:",
        "rapid changes at the end",
        ASLEEP,
    ),
    "a flag instead of an activation id": (
        LOOP,
        "        if active != activation:\n",
        "        if activation == 0:\n",
        "rapid 1-2-1-2 at one tuple",
        ASLEEP,
    ),
    "the epoch is published before the configuration": (
        LOOP,
        "        store_release(c.words, CONFIG, next_config)\n        close_membership(g)\n"
        "        store_release(c.words, EPOCH, epoch)  # B4\n",
        "        store_release(c.words, EPOCH, epoch)  # B4\n        close_membership(g)\n"
        "        store_release(c.words, CONFIG, next_config)\n",
        "swap of the same size",
        NO_MEMBER,
    ),
    "the count of arrivals is not reset": (
        LOOP,
        "        store_relaxed(c.words, BARRIER, 0)\n",
        "",
        "rapid 1-2-1-2 at one tuple",
        ASLEEP,
    ),
    "a joiner is not woken": (
        LOOP,
        "                unpark(c, r)\n",
        "                pass\n",
        "swap",
        ASLEEP,
    ),
    "a parked worker does not look again before it sleeps": (
        LIFE,
        "    if load_acquire(reading, me * CELL) == 0 and not stopped(c):\n"
        "        futex_wait(c.event, word, ticket, PARK_NS)\n",
        "    futex_wait(c.event, word, load_acquire(c.event, word), PARK_NS)\n",
        "swap",
        r"deadlock: threads \[\] wait, \[1\] sleep",
    ),
    "the barrier does not look again before it sleeps": (
        EPOCHS,
        "        if load_acquire(c.words, word) >= count:\n"
        "            cancel(c.words, BARRIER_WAITING)\n            return True\n",
        "",
        "swap of the same size",
        ASLEEP,
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_interleave_planted_bug_is_found(bug):
    module, old, new, name, expected = PLANTED[bug]
    build = case(kernels([(module, old, new)]), *CASES[name])
    find_failure("barrier", build, expected, count=6_000, longest=6000)
