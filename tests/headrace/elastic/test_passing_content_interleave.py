"""Results passed on in order of content: one sequence for all schedules, as instances come and go, whatever fits into the rings.

Property    readers get all rows in order of time, those of one time in order of their keys' ranks; each reads as it was
            written; nobody waits for ever, though there are more rows of one time than a ring holds
Schedules   of the text of `content_kernel` and `passing_kernel` with the gate's (`interleave`), under both memory models:
            rings of two rows, a log of two records; instances that leave, join and come back at a barrier
Planted     each step of `content_kernel`'s argument, dropped or swapped; each names its failure
Cannot see  memory weaker than x86's, as of the gates: tests/litmus; the sort of what an instance gives:
            test_passing_content.py
"""

# ruff: noqa: F821  (the names are the explored kernels')

import pytest

from gate_cases import ARRIVAL, LOG, READER, SOURCE, log_state
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import HEARTBEAT, ROW_MASK, SOURCE_SHIFT
from interleave import TSO, Kernels, copied, exhaustive, find_failure, sampled
from support.result_rings import change_instances, end_epoch

PASSING, CONTENT = "headrace.elastic.passing_kernel", "headrace.gates.content_kernel"
RANKS = [[0, 4, -1, 3, -2, -1, 5, 3, 6, -(2**63), -(2**63)], [0, 1, 2, 2, 2, 1, 0, 1, 0, 1, 2]]
"""Two by key, and the first is the same for some: keys are in the order 9, 10, 4, 5, 2, 0, 7, 3, 1, 6, 8."""


# -- programs ----------------------------------------------------------------------------------------


def give_rows(o, me, rows, head):
    """Write rows (ts, key), and promise their time when the next one is later. Returns how many there are, with those before."""
    for i in range(len(rows)):
        slot = reserve_slot(o, me, head)
        o.primary[me, slot] = rows[i][0]
        o.a[me, slot] = rows[i][1]
        head += 1
        if i + 1 < len(rows) and rows[i + 1][0] > rows[i][0]:
            publish(o, me, head, rows[i][0], rows[i][0])
    return head


def instance(o, me, words, sets, rows, promises):
    """An upstream worker: members meet at barriers, where the last one to arrive changes which they are."""
    head = 0
    for e in range(len(sets)):
        while load_acquire(words, 1) < e:
            pause()
        if me in sets[e]:
            head = give_rows(o, me, rows[e].get(me, []), head)
            end_epoch(o, me, words, sets, e, head, promises)


def take(o, g, reader, got):
    """A downstream instance: read the gate to the end, and note what each row is."""
    position = 0
    reached = MIN_TIME
    row_of = lane(g, reader)
    while reached != END_OF_TIME:
        start, count = peek(g, reader, position, 2)
        if count == 0:
            await_records(g, reader, position, 0, GO_ON)
            continue
        for i in range(count):
            cut()
            ref = g.out_ref[row_of][start + i]
            if ref == HEARTBEAT:
                reached = max(reached, g.out_ts[row_of][start + i])
            else:
                source = ref >> SOURCE_SHIFT
                got.append((o.primary[source][ref & ROW_MASK], o.a[source][ref & ROW_MASK]))
        position += count
        advance(g, reader, position)


def join_late(g):
    """Source 1 is added after a record of source 0 has come into the log."""
    add(g, 0, [5], 0, 1, 0)
    merge(g)
    while not open_membership(g):
        pause()
    add_source(g, 1)
    close_membership(g)


PROGRAMS = (give_rows, instance, end_epoch, change_instances, take, join_late)


def kernels(*planted, where=CONTENT):
    return Kernels(
        PASSING, LOG, ARRIVAL, SOURCE, READER, "headrace.memory.event_count", programs=PROGRAMS,
        shared={"primary", "a", "row_ranks", "ring_ts", "ring_ref", "out_ts", "out_ref"},
        planted=[(where, old, new) for old, new in planted], given={"GO_ON": [0]},
    )  # fmt: skip


def case(k, sets, rows, promises=(), readers=1, capacity=2, **sizes):
    """Epochs of the upstream operator: its members, the rows (ts, key) that each gives, and what all promise at the barrier."""
    instances = 1 + max(max(members) for members in sets)
    sizes = {"ring": 2, "log": 4, "bound": 2} | sizes
    gate = log_state(k, instances, readers, reading=readers, ranks=len(RANKS), rows=capacity, **sizes)
    gate = gate._replace(
        mark=[MIN_TIME if r in sets[0] else 2**63 - 1 for r in range(instances)],
        feeding=[int(r in sets[0]) for r in range(instances)],
    )
    cells = [0] * instances

    def ring():
        return [[0] * capacity for _ in range(instances)]

    rings = k.OutArrays(
        words=[0] * (k.WORD_COUNT + 1), event=[0] * 64, head=cells[:], tail=cells[:], mark=cells[:], mark_ts=cells[:],
        primary=ring(), a=ring(), b=[], c=[], at=ring(), meter=[[0] * 16 for _ in range(instances)], membership=[0],
        list_words=[], list_head=[], list_tail=[],
    )  # fmt: skip
    template = k.PassingArrays(
        gate=gate, rings=rings, row_times=[], sent=cells[:], kept_count=cells[:], left_count=cells[:], kept_row=[],
        comparisons=[], told=[MIN_TIME] * instances, keys=[[] for _ in range(instances)], ids=[], ranks=RANKS, row_ranks=[],
        known=[], numbers=[], valid=[], latency=[[0] * 64 for _ in range(instances)], longest=cells[:], stop=[0],
    )  # fmt: skip
    written = [row for epoch in rows for each in epoch.values() for row in each]
    wanted = sorted(written, key=lambda row: (row[0], *(ranks[row[1]] for ranks in RANKS)))

    def build():
        p = copied(template)
        p = p._replace(row_times=p.rings.primary, row_ranks=p.gate.rank)
        o = p.rings
        o.words[k.ELSEWHERE], o.words[k.ELSEWHERE + 1] = "take_results", p
        words = [0, 0]
        outs = [[] for _ in range(readers)]
        threads = [k.instance(o, r, words, sets, rows, promises) for r in range(instances)]
        threads += [k.take(o, p.gate, r, outs[r]) for r in range(readers)]

        def check():
            for out in outs:
                assert sorted(out) == sorted(wanted), f"other rows: got {out}, written {wanted}"
                assert out == wanted, f"another order: got {out}, wanted {wanted}"

        return threads, check

    return build


def ties(k, **sizes):
    """Of one time, the keys of the two alternate, and one has the last of them."""
    return case(k, [[0, 1]], [{0: [(1, 4), (1, 3)], 1: [(1, 2), (1, 1), (2, 5)]}], **sizes)


def many_ties(k, **sizes):
    """More rows of one time than a ring of results, a gate's ring and the log hold together."""
    first, second = [(1, 4), (1, 5), (1, 2), (1, 7), (1, 6)], [(1, 0), (1, 3), (1, 1), (1, 8), (2, 2)]
    return case(k, [[0, 1]], [{0: first, 1: second}], **sizes)


def more_than_fit(k, **sizes):
    """A ring of results takes two: what is merged when it is full is followed by another row of that time."""
    return case(k, [[0, 1]], [{0: [(1, 4), (1, 2), (1, 3)], 1: [(1, 5), (1, 1), (2, 2)]}], **{"log": 8, "bound": 8} | sizes)


def one_has_none(k, **sizes):
    """The rows of a time are those of one instance, and wait until the other has passed it."""
    return case(k, [[0, 1]], [{0: [(1, 4), (1, 2), (1, 3)], 1: [(2, 2)]}], **sizes)


def three(k, **sizes):
    return case(k, [[0, 1, 2]], [{0: [(1, 5)], 1: [(1, 4), (1, 1)], 2: [(1, 2), (2, 3)]}], **sizes)


def keys_change_hands(k, leaver=1, **sizes):
    """At the barrier one leaves and the other joins, whose first row is the earliest there may be."""
    joiner = 1 - leaver
    return case(k, [[leaver], [joiner]], [{leaver: [(1, 2), (4, 4), (4, 3)]}, {joiner: [(5, 2), (5, 3), (6, 1)]}], [4], **sizes)


def comes_back(k, **sizes):
    """The leaver is back at the next barrier, where what it gave may not have been merged yet."""
    rows = [{0: [(3, 3)], 1: [(2, 2), (3, 4), (3, 1)]}, {0: []}, {0: [(5, 4), (5, 3)], 1: [(5, 5), (5, 2)]}]
    return case(k, [[0, 1], [0], [0, 1]], rows, [3, 3], **sizes)


def equal_first_ranks(k, **sizes):
    return case(k, [[0, 1]], [{0: [(1, 2), (1, 3)], 1: [(1, 5), (1, 7), (2, 1)]}], **sizes)


def least_ranks(k, **sizes):
    """The first ranks are the least there may be, which counts for a source without a record, too."""
    return case(k, [[0, 1]], [{0: [(1, 10)], 1: [(0, 0), (1, 9), (2, 1)]}], **sizes)


def alone(k, **sizes):
    """One source, which writes the log itself."""
    return case(k, [[0]], [{0: [(1, 4), (1, 2), (1, 3), (2, 4)]}], **sizes)


def joins_late(k):
    """What is known of the ranks of a time is over: the first record of a new source comes after it."""

    def build():
        g = log_state(k, 2, 1, reading=1, feeding=1, ranks=1, rows=2)

        def check():
            assert g.mark[1] == 6, f"begins at {g.mark[1]}"

        return [k.join_late(g)], check

    return build


CASES = [
    ties, many_ties, more_than_fit, one_has_none, three, keys_change_hands, comes_back, equal_first_ranks, least_ranks, alone,
]  # fmt: skip


@pytest.mark.campaign
def test_interleave_every_schedule_of_few_preemptions():
    for memory in ({}, {"memory": TSO}):
        assert exhaustive("passing", ties(kernels()), preemptions=1, **memory) > 100


@pytest.mark.parametrize("count", [100, pytest.param(300, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_interleave_sampled(make, count):
    sampled("passing", make(kernels()), 3 * count, longest=20_000)
    sampled("passing", make(kernels(), readers=2), count, longest=20_000)


ORDER = "another order: "
AT_MARK = "    g.scratch[NEXT_TS, s] = g.scratch[NEXT_MARK, s]\n"
M1 = """    for s in range(sources):  # M1
        g.scratch[NEXT_MARK, s] = load_acquire(g.mark, s * CELL)
"""
M2 = """    for s in range(sources):  # M2
        at[s] = load_relaxed(g.merged, s * CELL)
        until[s] = load_acquire(g.head, s * CELL)
        waiting += until[s] - at[s]
"""
PLANTED = {
    "a source without a record holds nobody back": (
        AT_MARK, AT_MARK.replace("g.scratch[NEXT_MARK, s]", "2**63 - 1"), ties, "other rows: |" + ORDER,
    ),
    "a promise of a time is taken for one beyond it": (
        AT_MARK, AT_MARK.replace("\n", " + 1\n"), least_ranks, ORDER,
    ),
    "a source without a record has passed all ranks of its time": (
        "    g.scratch[NEXT_RANK, s] = LEAST_RANK\n", "    g.scratch[NEXT_RANK, s] = 2**63 - 1\n", least_ranks, ORDER,
    ),
    "of one time, the source decides": (
        "        elif next_rank[s] != next_rank[best]:\n            best = s if next_rank[s] < next_rank[best] else best\n", "",
        ties, ORDER,
    ),
    "of one first rank, the source decides": (
        "            return rank < other_rank\n", "            return False\n", equal_first_ranks, ORDER,
    ),
    "a row precedes what a source without a record may still give": (
        "        return other_row >= 0\n", "        return other_row < 0\n", least_ranks, ORDER,
    ),
    "M2 before M1: a promise covers what was not seen": (
        M1 + "    waiting = 0\n" + M2, "    waiting = 0\n" + M2 + M1, ties, "other rows: |" + ORDER,
    ),
    "a source that is added begins at the last time": (
        "LAST_SOURCE, sources)  # C3\n", "LAST_SOURCE, 0)\n", joins_late, "begins at 5",
    ),
}  # fmt: skip
IN_PASSING = {
    "ranks are written after the rows are given": (
        "        ready_rows(p, me, slot, count)  # A1\n"
        "        done = give(p, me, slot, count) if p.comparisons.size == 0 else give_kept(p, me, at, slot, count)\n",
        "        done = give(p, me, slot, count)\n        ready_rows(p, me, slot, count)\n", ties, ORDER,
    ),
}  # fmt: skip


def test_interleave_a_source_is_added():
    assert exhaustive("passing", joins_late(kernels()), preemptions=0) == 1


@pytest.mark.parametrize("bug", PLANTED | IN_PASSING)
def test_interleave_planted_bug_is_found(bug):
    old, new, make, expected = (PLANTED | IN_PASSING)[bug]
    find_failure("passing", make(kernels((old, new), where=PASSING if bug in IN_PASSING else CONTENT)), expected)


def test_interleave_planted_rows_of_an_instance_in_order_of_key_numbers_are_found():
    unsorted = [{0: [(1, 3), (1, 4)], 1: [(1, 1), (1, 2), (2, 5)]}]
    find_failure("passing", case(kernels(), [[0, 1]], unsorted), ORDER)


def test_interleave_planted_merge_that_waits_for_promises_beyond_a_time_is_found():
    """A source whose ring is full of records of one time cannot give that promise: nobody goes on."""
    old = "        if at[s] >= until[s]:\n"
    k = kernels((old, "        if at[s] >= until[s] or min(g.scratch[NEXT_MARK]) <= g.scratch[NEXT_TS, s]:\n"))
    with pytest.raises(AssertionError, match="only 0 of .* come to an end"):
        sampled("passing (planted)", many_ties(k), 100)
