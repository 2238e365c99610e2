"""Shared-nothing queues: routers and merging instances, under interleavings of the kernels' own text.

Property    an instance gets each tuple it owns once, in the order of the merged
            input, each control record of a configuration it is a member of in
            its place, and the end; a control record only when every router has
            prepared what follows it; before one, it is up to date in time; waits
            never time out here, so a lost wake-up, or routers that block each
            other, show as a deadlock
Schedules   of `router_kernel`, `queueing_kernel` and `instance_queues` as they are (`interleave`):
            a merged log that holds the whole input, tiny queues and lanes
Planted     what the ordering argument of `instance_queues` forbids
Cannot see  memory weaker than x86's; the copies of columns, and joining at the barrier
            (test_shared_nothing.py: real threads)
"""

import functools

import pytest

from gate_cases import LOG, READER, load, log_state
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import SOURCE_SHIFT
from interleave import TSO, Kernels, copied, exhaustive, find_failure, sampled
from interleave.models import PAUSE

ROUTER = "headrace.elastic.shared_nothing.router_kernel"
QUEUEING = "headrace.elastic.shared_nothing.queueing_kernel"
QUEUES = "headrace.elastic.shared_nothing.instance_queues"
RECORDS = ("ts", "ref", "at", "seen", "rank")
NEVER = 2**63 - 1
BUCKETS = 4
GO_ON = [0]


class Case:
    """The merged input, as (time, source) or the number of a configuration, and which instance owns which position in each.

    Parameters
    ----------
    input : list
        Tuples (time, source); whole numbers are control records.
    owners : list of list of int
        By configuration, by position modulo 4; members are those that own something, and `silent` ones.
    planned : list of (int, int)
        Tuple count and configuration.
    routers, bound, lane : int
        Sources; tuples of a queue; records of a lane (1 router: no lanes).
    """

    def __init__(self, input, owners, planned=(), silent=(), routers=2, bound=1, lane=2):
        self.input, self.owners, self.planned = input, owners, list(planned)
        self.members = [sorted({*row, *silent}) for row in owners]
        self.routers, self.bound, self.lane = routers, bound, lane
        self.instances = 1 + max(max(row) for row in self.members)

    def wanted(self, r):
        """What instance `r` gets, ("tuple", position, ref, time) or ("control", position, configuration), and if it stays."""
        got, seen, config = [], 0, 0
        rows = [0] * self.routers
        planned = list(self.planned)

        def switch(to):
            nonlocal config
            if r in self.members[config]:
                got.append(("control", seen, to))
            config = to

        for what in self.input:
            while planned and planned[0][0] == seen:
                switch(planned.pop(0)[1])
            if isinstance(what, int):
                switch(what)
                continue
            source = what[1]
            if self.owners[config][seen % BUCKETS] == r:
                got.append(("tuple", seen, source << SOURCE_SHIFT | rows[source], what[0]))
            rows[source] += 1
            seen += 1
        for _, to in planned:
            switch(to)
        return got, r in self.members[config]

    def build(self, route, read):
        """Fresh state; `route` and `read` are the kernels of either side."""
        n, instances, pairs = self.routers, self.instances, self.routers * self.instances
        log, rows = [], [0] * n
        time = MIN_TIME
        for what in self.input:
            if isinstance(what, int):
                log.append((time, -1 - what))
                continue
            time, source = what
            log.append((time, source << SOURCE_SHIFT | rows[source]))
            rows[source] += 1
        log.append((END_OF_TIME, -1))
        size = 1 << (len(log) - 1).bit_length()
        words = [0] * 48
        words[route.END] = len(log)
        g = route.LogArrays(
            words=words, event=[0] * 64, head=[0] * n, mark=[0] * n, merged=[0] * n, feeding=[1] * n,
            ring_ts=[[0]] * n, ring_ref=[[0]] * n, ring_at=[[0]] * n,
            out_ts=[[ts for ts, _ in log] + [0] * (size - len(log))],
            out_ref=[[ref for _, ref in log] + [0] * (size - len(log))],
            out_at=[[0] * size], cursor=[0] * n, reading=[1] * n, cost=[0] * n, scratch=[[0] * n] * 3, rank=[], rank_layout=[],
        )  # fmt: skip
        plan = [*self.planned, (NEVER, 0)]
        c = Bunch(
            words=[0] * 48, event=[0] * 64,
            member=[[int(r in members) for r in range(instances)] for members in self.members],
            owner=self.owners, plan_at=[at for at, _ in plan],
        )  # fmt: skip
        slots = 1 << (self.bound + 1).bit_length()  # a heartbeat and a control record beyond the bound
        words = [0] * 48
        words[read.BOUND] = self.bound
        end, taken = [0] * pairs, [0] * pairs
        queues = {f"queue_{name}": [[0] * slots for _ in range(pairs)] for name in RECORDS}
        lanes = {f"out_{name}": [[0] * self.lane for _ in range(instances)] for name in RECORDS[:4]}
        merged, cursor = [0] * instances, [0] * instances
        if n == 1:
            merged, cursor = end, taken
            lanes = {f"out_{name}": queues[f"queue_{name}"] for name in RECORDS[:4]}
        q = read.QueueArrays(
            words=words, event=[0] * 64, membership=None, gate_event=None, end=end, taken=taken, **queues, rank=[0] * n,
            merged=merged, cursor=cursor, reading=[1] * instances, cost=[0] * instances, **lanes,
        )  # fmt: skip
        prepared = [0] * n
        results = [[] for _ in range(instances)]
        threads = [routing(route, g, c, q, router(route, source, instances), prepared) for source in range(n)]
        wanted = [self.wanted(r) for r in range(instances)]
        threads += [
            reading(read, q, r, results[r], prepared, self.members, records, stays)
            for r, (records, stays) in enumerate(wanted)
        ]

        def check():
            for r in range(instances):
                assert results[r] == wanted[r][0], f"instance {r} got {results[r]}, wanted {wanted[r][0]}"
            assert end == taken and merged == cursor, "something is left"

        return threads, check


class Bunch:
    """Named lists."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


def router(k, source, instances):
    """`router_kernel.allocate` of a router that gives each tuple to the owner of its position."""
    t = Bunch(
        words=[0] * k.WORD_COUNT, end=[0] * instances, last_ts=[MIN_TIME] * instances, last_seen=[0] * instances,
        rows=[0] * instances,
    )  # fmt: skip
    for word, value in (("SOURCE", source), ("RECIPIENTS", k.BY_POSITION), ("BY_COUNT", 1), ("TIME", MIN_TIME), ("PREPARED", -1)):
        t.words[getattr(k, word)] = value
    return t


def routing(k, g, c, q, t, prepared):
    """What `SharedNothingOperator` does between two calls of `route`; `prepared` counts the changes."""
    while (status := (yield from k.route(g, c, q, None, None, t))) != k.OVER:
        assert status == k.SWITCHES
        t.words[k.PREPARED] = t.words[k.NEXT_CONFIG]
        prepared[t.words[k.SOURCE]] += 1


def reading(k, q, r, got, prepared, members, wanted, stays):
    """An instance: note what comes, until the end of the input or the last record before it leaves for good.

    A wrong record fails where it comes, and a missing one where it ends: what follows from them differs from
    schedule to schedule, such as a router that waits for ever.
    """
    last = NEVER if stays else len(wanted)
    position, time, changes = 0, MIN_TIME, 0
    joins = r not in members[0]  # the barrier tells a joiner the time; here its first record does
    while time < END_OF_TIME and len(got) < last:
        start, count = yield from k.peek(q, r, position, 2)
        if count == 0:
            yield from k.await_records(q, r, position, 0, GO_ON)
            continue
        for i in range(start, start + count):
            ts, ref, seen = q.out_ts[r][i], q.out_ref[r][i], q.out_seen[r][i]
            if ref >= 0:
                got.append(("tuple", seen, ref, ts))
            elif ref < -1:
                got.append(("control", seen, -1 - ref))
                changes = max(changes + 1, -1 - ref)  # configurations are numbered in the order of their use here
                assert min(prepared) >= changes, f"change {changes} is merged, and the routers prepared {prepared}"
                assert joins or ts <= time, "a control record brings time forward"
            assert got == wanted[: len(got)], f"instance {r} got {got}, wanted {wanted}"
            assert ts >= time, "time goes back"
            joins = ref < -1 and r not in members[-1 - ref]
            time = ts
        position += count
        yield from k.advance(q, r, position)
    assert got == wanted, f"instance {r} got {got}, wanted {wanted}"


SMALL = {"BATCH_TUPLES": 2, "BUCKET_MASK": BUCKETS - 1, "LEAST_BOUND": 1}


def sides(in_router=(), in_queues=()):
    """The kernels of routers and of instances, with planted mistakes."""
    read = Kernels(
        QUEUES,
        READER,
        "headrace.memory.event_count",
        shared=("out_ts", "out_ref", "out_at", "out_seen"),
        planted=[(READER, LOG, QUEUES), *((QUEUES, *bug) for bug in in_queues)],  # as `elastic.build` does
        constants=SMALL,
    )
    route = Kernels(
        ROUTER,
        shared=("queue_ts", "queue_ref", "queue_at", "queue_seen", "queue_rank"),
        planted=in_router,
        constants=SMALL,
    )
    return route, read


LONG = [(i, i % 3 // 2) for i in range(14)]
ALTERNATE = [(1, 0), (1, 1), (2, 1), (2, 0), (3, 0), (3, 1)]
CASES = {
    "two routers, two instances": Case(ALTERNATE, [[0, 1, 1, 0]]),
    "all of one source first": Case([(1, 0)] * 5 + [(1, 1)] * 3, [[0, 0, 1, 1]]),
    "three routers, one instance": Case([(1, 2), (2, 1), (3, 0), (4, 2), (5, 2)], [[0, 0, 0, 0]], routers=3),
    "an instance that owns nothing": Case(ALTERNATE, [[0, 0, 0, 0]], silent=[1]),
    "a change, and back": Case([*ALTERNATE[:2], 1, *ALTERNATE[2:4], 2, *ALTERNATE[4:]], [[0] * 4, [1] * 4, [0, 1, 1, 0]]),
    "changes at one place": Case([(1, 1), 1, 2, (2, 0)], [[0, 1, 0, 1], [1] * 4, [0, 1, 0, 1]]),
    "changes before the first tuple and after the last": Case([1, *ALTERNATE[:3], 2], [[0] * 4, [0, 1, 0, 1], [1] * 4]),
    "planned changes, one never reached": Case(
        ALTERNATE[:4], [[0] * 4, [0, 1, 1, 1], [1] * 4, [0, 1, 0, 1]], planned=[(2, 1), (2, 2), (99, 3)]
    ),
    "longer queues and lanes": Case(LONG, [[0, 1, 0, 0]], bound=4, lane=8),
    "few slots": Case(LONG, [[0, 1, 0, 0]], bound=2, lane=8),
    "few slots, and no heartbeats": Case(LONG, [[0] * 4], bound=2, lane=8),
    "one router": Case([(t, 0) for t in range(6)], [[0, 1, 1, 0], [1] * 4], planned=[(3, 1)], routers=1),
}

@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_interleave_routers_and_instances(name):
    build = functools.partial(CASES[name].build, *sides())
    assert sampled("instance queues", build, 200, longest=20_000, length=600) >= 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "least"),
    [([1, (1, 0)], 1_000), ([(1, 1), 1], 5_000), pytest.param([(1, 1), 1, (2, 0)], 10_000, marks=pytest.mark.campaign)],
    ids=["a change before a tuple", "behind one", "between two"],
)
def test_interleave_every_order_in_which_threads_wait_for_each_other(given, least):
    """Every schedule in which a thread goes on until it must wait; the owner of all goes on, and another one joins."""
    small = Case(given, [[0] * 4, [0, 1, 0, 1]])
    assert exhaustive("instance queues", functools.partial(small.build, *sides()), preemptions=0, longest=6000) > least


PUBLISH = """    for r in range(t.end.size):
        own = queue_of(q, t, r)
        if load_relaxed(q.end, own * CELL) != t.end[r]:
            store_release(q.end, own * CELL, t.end[r])  # W2
"""
RANK = "    store_release(q.rank, t.words[SOURCE] * CELL, t.words[SEEN] + t.words[SWITCHED])  # W3\n"
ASLEEP = r"deadlock: threads \[\] wait, \[[\d, ]+\] sleep"
WRONG = r"instance \d got .*, wanted"
BACK = "time goes back"
UNPREPARED = r"change \d is merged, and the routers prepared"

ROUTERS = {
    "the rank before the records below it": (
        QUEUEING,
        PUBLISH + RANK,
        RANK + PUBLISH,
        "longer queues and lanes",
        WRONG,
    ),
    "a rank that one tuple is not yet below": (
        QUEUEING,
        RANK,
        RANK.replace("[SEEN] +", "[SEEN] + 1 +"),
        "all of one source first",
        WRONG,
    ),
    "a change is no place of its own": (QUEUEING, "    w[SWITCHED] += 1\n", "", "a change, and back", ASLEEP),
    "a change is passed before it is prepared": (
        ROUTER,
        "                w[NEXT_CONFIG] = next_config\n                return SWITCHES\n",
        "                w[NEXT_CONFIG] = next_config\n                w[SWITCHED] += 1\n"
        "                publish_queues(q, t)\n                w[SWITCHED] -= 1\n                return SWITCHES\n",
        "a change, and back",
        UNPREPARED,
    ),
    "every router writes the control records": (
        QUEUEING,
        "    if w[SOURCE] == 0:\n        member",
        "    if w[SOURCE] >= 0:\n        member",
        "changes at one place",
        UNPREPARED,
    ),
    "no heartbeat after a batch": (
        ROUTER,
        "            bring_up_to_date(c, q, t)\n            publish_queues(q, t)\n            advance(g, me, w[POSITION])\n",
        "            publish_queues(q, t)\n            advance(g, me, w[POSITION])\n",
        "changes at one place",
        "a control record brings time forward",
    ),
    "one slot too many": (QUEUEING, "taken - t.end[r])", "taken - t.end[r] + 4)", "all of one source first", WRONG),
    "instances are not woken": (
        QUEUEING,
        "    signal(q.words, READERS_WAITING, q.event, DATA_EVENT)\n",
        "",
        "two routers, two instances",
        ASLEEP,
    ),
    "a router does not look again before it sleeps": (
        QUEUEING,
        "    if stopped(c) or queue_room(c, q, t) > 0:\n",
        "    if stopped(c):\n",
        "all of one source first",
        ASLEEP,
    ),
    "a heartbeat overtakes the tuple it comes after": (
        QUEUEING,
        "t.words[SWITCHED] - (ref == HEARTBEAT)\n",
        "t.words[SWITCHED] - 2 * (ref == HEARTBEAT)\n",
        "two routers, two instances",
        BACK,
    ),
}
INSTANCES = {
    "the smallest rank is not waited for": (
        "        passed = min(passed, load_acquire(g.rank, s * CELL))  # R0\n",
        "        passed = load_acquire(g.rank, s * CELL)  # R0\n",
        "all of one source first",
        WRONG,
    ),
    "a whole queue is given back before it is read": (
        "        moved = 0\n",
        "        moved = 0\n        store_release(g.taken, best * CELL, at + size)\n",
        "few slots, and no heartbeats",
        WRONG,
    ),
    "what is behind another queue's record is skipped": (
        "at + moved)  # R3",
        "at + ready)  # R3",
        "longer queues and lanes",
        WRONG,
    ),
    "runs that do not stop at another queue's record": (
        "            if moved > 0 and g.queue_rank[best, i] >= until:\n",
        "            if moved > 0 and g.queue_rank[best, i] >= passed:\n",
        "longer queues and lanes",
        f"{WRONG}|{BACK}",  # by what comes too early: a tuple or a heartbeat
    ),
    "of one rank, the heartbeat first": (
        "rank < best_rank or (rank == best_rank and best >= 0)",
        "rank < best_rank",
        "two routers, two instances",
        WRONG,
    ),
    "a full lane is overwritten": (
        "    free = lane_size\n",
        "    free = 2 * lane_size\n",
        "longer queues and lanes",
        ASLEEP,
    ),
    "routers are not woken": (
        "        wake_routers(g)\n    return end\n",
        "        pass\n    return end\n",
        "all of one source first",
        ASLEEP,
    ),
    "with one router, it is not woken": (
        "    if g.rank.size == CELL:\n        wake_routers(g)\n",
        "",
        "one router",
        ASLEEP,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUTERS)
def test_interleave_catches_in_routers(name):
    file, old, new, case, expected = ROUTERS[name]
    build = functools.partial(CASES[case].build, *sides(in_router=[(file, old, new)]))
    find_failure("instance queues", build, expected, count=2_000, longest=20_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTANCES)
def test_interleave_catches_in_instances(name):
    old, new, case, expected = INSTANCES[name]
    build = functools.partial(CASES[case].build, *sides(in_queues=[(old, new)]))
    find_failure("instance queues", build, expected, count=2_000, longest=20_000)


# -- the membership of the input gate --------------------------------------------------------------------


def change_behind_a_full_gate(k, read):
    """While instances change membership, a source finds no room: the scan of the readers is refused.

    It fills the log, which a router empties before the change begins and not again: only the end of the change
    can wake the source.
    """
    template = log_state(k, 1, 1, ring=1, log=8, bound=2)

    def build():
        g = copied(template)
        q = Bunch(membership=g.words, gate_event=g.event)
        taken = []

        def source():
            for row in range(3):
                while (yield from k.add_or_wait(g, 0, [row], 0, 1, row, [0])) == 0:
                    pass
                taken.append(row)

        def router_and_instances():
            while len(taken) < 2:
                yield PAUSE
            assert (yield from read.open_membership(q))
            yield from k.advance(g, 0, 2)
            yield from read.close_membership(q)

        return [source(), router_and_instances()], lambda: None

    return build


CLOSE = """    signal(g.membership, READERS_WAITING, g.gate_event, DATA_EVENT)
    signal(g.membership, SOURCES_WAITING, g.gate_event, SPACE_EVENT)
"""


@pytest.mark.slow
@pytest.mark.parametrize("preemptions", [2, pytest.param(3, marks=pytest.mark.campaign)])
def test_interleave_the_end_of_a_change_of_instances_wakes_sources(preemptions):
    _, read = sides()
    k = load("log")
    assert exhaustive("instance queues", change_behind_a_full_gate(k, read), preemptions=preemptions) > 20
    assert exhaustive("instance queues", change_behind_a_full_gate(k, read), preemptions=2, memory=TSO) > 20
    for planted in ("", CLOSE.splitlines(keepends=True)[0]):
        _, read = sides(in_queues=[(CLOSE, planted)])
        lost = r"deadlock: threads \[\] wait, \[0\] sleep"
        find_failure("instance queues", change_behind_a_full_gate(k, read), lost)
