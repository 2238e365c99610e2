"""Results passed on to the gates of two operators: no row's place is used again unread, and nobody waits for ever.

Property    readers of both gates get the rows of all instances, each as it was written, in order of time, or of content
            where gates have ranks; each row is made ready once for each taker; nobody waits for ever, though
            instances give more than the gates hold, and whatever instances come and go
Schedules   of the file's own text with `passing_kernel` and two gates (`interleave`), under both memory models: rings of two
            rows, logs of two records
Planted     places freed by the readers of the first gate; all rows to one gate before the next one gets any; two gates that
            merge in different orders; changes and promises that only the first gate gets; rows made ready again
Cannot see  memory weaker than x86's, as of the gates: tests/litmus; operators whose results come together again: `ways` refuses
            them
"""

import pytest

from gate_cases import ARRIVAL, LOG, READER, SOURCE, log_state
from headrace.progress import MIN_TIME
from interleave import SC, Kernels, copied, models, sampled
from interleave.execution import Execution
from interleave.strategies import Random
from support.result_rings import change_instances, end_epoch, instance, take, write_ahead, write_together

SEVERAL = "headrace.elastic.several_takers_kernel"
TAKERS = 2
PROGRAMS = (write_ahead, write_together, instance, end_epoch, change_instances, take)


def kernels(*planted):
    return Kernels(
        SEVERAL, "headrace.elastic.passing_kernel", LOG, ARRIVAL, SOURCE, READER, "headrace.memory.event_count",
        programs=PROGRAMS, shared={"primary", "row_ranks", "ring_ts", "ring_ref", "out_ts", "out_ref"},
        planted=[(SEVERAL, old, new) for old, new in planted], given={"GO_ON": [0]},
    )  # fmt: skip


def case(k, sets, rows, promises=(), ranks=(), ahead=0, together=0, capacity=2, **sizes):
    """Epochs of the upstream operator: its members, what each of them writes, what all promise at the barrier.

    Parameters
    ----------
    sets, rows, promises, ahead
        As in test_passing_interleave.py.
    ranks : list of list of int
        By the place of a row in its ring, which must have room for all rows, the ranks that each gate orders it by, if any.
    together : int
        There is one epoch, and so many rows are published at once.
    """
    instances = 1 + max(max(members) for members in sets)
    sizes = {"ring": 2, "log": 4, "bound": 2, "lead": ahead} | sizes
    cells, nothing = [0] * instances, 2**63 - 1

    def ring(fill=0):
        return [[fill] * capacity for _ in range(instances)]

    rings = k.OutArrays(
        words=[0] * (k.WORD_COUNT + 1), event=[0] * 64, head=cells[:], tail=cells[:], mark=cells[:], mark_ts=cells[:],
        primary=ring(), a=[list(range(capacity)) for _ in cells], b=[], c=[], at=ring(), meter=[[0] * 16 for _ in cells],
        membership=[0], list_words=[], list_head=[], list_tail=[],
    )  # fmt: skip

    def taker(number):
        of_gate = ranks[number : number + 1] if ranks else []
        gate = log_state(k, instances, 1, ranks=len(of_gate), rows=capacity, **sizes)
        return k.PassingArrays(
            gate=gate._replace(
                mark=[MIN_TIME if r in sets[0] else nothing for r in range(instances)],
                feeding=[int(r in sets[0]) for r in range(instances)],
            ),
            rings=rings, row_times=[], sent=cells[:], kept_count=[], left_count=[], kept_row=[], comparisons=[],
            told=[MIN_TIME] * instances, keys=[[] for _ in cells], ids=[], ranks=of_gate, row_ranks=[], known=[], numbers=[],
            valid=[], latency=[[0] * 64 for _ in cells], longest=cells[:], stop=[0],
        )  # fmt: skip

    templates = [taker(number) for number in range(TAKERS)]
    written = [[p for epoch in rows for p in epoch.get(r, [])] for r in range(instances)]

    def build():
        o = copied(rings)
        takers = []
        for template in templates:
            p = copied(template)
            own = o._replace(tail=cells[:])
            p = p._replace(rings=own, row_times=o.primary, row_ranks=p.gate.rank)
            takers.append(k.TakerArrays(passing=p, ready=cells[:]))
        everything = k.SeveralArrays(rings=o, takers=[["take_share", t] for t in takers], stop=[0])
        o.words[k.ELSEWHERE], o.words[k.ELSEWHERE + 1] = "take_for_all", everything
        words = [0, 0, 0]
        outs = [[[] for _ in range(instances)] for _ in takers]
        wrong = [[] for _ in takers]
        threads = [k.instance(o, r, words, sets, rows, promises, ahead) for r in range(instances)]
        if together:
            threads = [k.write_together(o, r, each, together) for r, each in enumerate(written)]
        for number, t in enumerate(takers):
            threads.append(k.take(o, t.passing.gate, 0, outs[number], wrong[number], words, ahead == 0))

        def check():
            for t, out, found in zip(takers, outs, wrong, strict=True):
                assert not found, f"wrong rows: {found}"
                assert out == written, f"got {out}, written {written}"
                counted = [sum(each) for each in t.passing.latency]
                assert counted == [len(each) for each in written], f"made ready: {counted}, written {written}"

        return threads, check

    return build


def ties(k, **sizes):
    """More rows of one time than a ring of results, a gate's ring and its log hold together."""
    return case(k, [[0, 1]], [{0: [1, 1, 1, 1, 1], 1: [1, 1, 1, 1, 1]}], capacity=8, **sizes)


def together(k, **sizes):
    """Rows that are given when the ring is full, before any promise."""
    return case(k, [[0, 1]], [{0: [1] * 6, 1: [1] * 6}], together=6, capacity=4, **sizes)


def many_rows(k, **sizes):
    """More rows than the ring has room for: each place is used again and again."""
    return case(k, [[0, 1]], [{0: [1, 2, 3, 4], 1: [2]}], **{"ring": 4, "log": 16, "bound": 16, **sizes})


def alone(k, **sizes):
    """One source, which writes both logs itself."""
    return case(k, [[0]], [{0: [1, 2, 3, 4]}], **sizes)


def one_for_the_other(k, **sizes):
    """At the barrier one leaves and the other joins, whose first result is the earliest there may be."""
    return case(k, [[1], [0]], [{1: [1, 4]}, {0: [5, 6]}], [4], **sizes)


def one_joins(k, **sizes):
    """The joiner has the earliest result, and the other one goes on at once."""
    return case(k, [[1], [0, 1]], [{1: [4]}, {0: [5], 1: [6, 7]}], [4], **sizes)


def comes_back(k, **sizes):
    """The leaver is back at the next barrier, where what it gave may not have been merged yet by one of the gates."""
    return case(k, [[0, 1], [0], [0, 1]], [{0: [3], 1: [2, 3]}, {0: []}, {0: [5], 1: [5]}], [3, 3], **sizes)


def by_content(k, ranks=((0, 1, 2, 3, 4, 5, 6, 7),) * TAKERS, **sizes):
    """The ties of two instances alternate, in both gates."""
    return ties(k, ranks=[list(each) for each in ranks], **sizes)


def ahead(k, **sizes):
    """More rows of a window's end than the ring has room for, before it."""
    return case(k, [[0, 1]], [{0: [5, 5, 5, 10, 10], 1: [10]}], ahead=5, **sizes)


CASES = [ties, many_rows, alone, one_for_the_other, one_joins, comes_back, by_content, ahead]


@pytest.mark.parametrize("count", [60, pytest.param(600, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_interleave_sampled(make, count):
    sampled("several takers", make(kernels()), count, longest=40_000)


GIVE_ALL = """        if ask(q, taker, me, FOR_ROWS, head, promised) == 0:
            left += 1
            last = taker
"""
GIVE_IN_TURN = """        while ask(q, taker, me, FOR_ROWS, head, promised) == 0:
            nanosleep(NAP_NS)
"""
PLANTED = {
    "places are free once the readers of the first gate have passed them": (
        "        free = min(free, ask(q, taker, me, FOR_ROOM, head, 0))  # T1\n",
        "        free = min(free, ask(q, 0, me, FOR_ROOM, head, 0))\n",
        many_rows, {"wrong rows"},
    ),
    "one gate gets everything before the next one gets any": (GIVE_ALL, GIVE_IN_TURN, together, {"never ends", "deadlock"}),
    "only the first gate's sources change": (
        "            ask(q, taker, me, FOR_MARK, 0, mark)\n", "            ask(q, 0, me, FOR_MARK, 0, mark)\n",
        one_joins, {"never ends", "deadlock", "wrong rows"},
    ),
    "only the last gate is waited for": (
        "    return left, last\n", "    return left if last == q.takers.shape[0] - 1 else 0, last\n",
        ties, {"never ends", "deadlock"},
    ),
    "rows are made ready again": (
        "            store_relaxed(t.ready, me * CELL, ready)\n", "", ties, {"made ready"},
    ),
}  # fmt: skip
FEW_STEPS = 10_000
"""Three times what the longest of so many schedules takes where nobody waits for ever."""


def failures(build):
    """What goes wrong under some random schedules."""
    strategy, found = Random(0), set()
    with models.under(SC):
        while strategy.seed < 40 and not found:
            x = Execution(build, None)
            try:
                if strategy.run(x, FEW_STEPS):
                    x.finish()
                else:
                    found.add("never ends")
            except AssertionError as error:
                found.add(str(error).split(":")[0])
            strategy.following()
    return found


@pytest.mark.parametrize("bug", PLANTED)
def test_interleave_planted_bug_is_found(bug):
    old, new, make, expected = PLANTED[bug]
    assert not failures(make(kernels()))
    found = failures(make(kernels((old, new))))
    assert found and found <= expected, found


def test_interleave_planted_gates_that_order_ties_differently_are_found():
    """One instance waits at the first gate for the other, which waits at the second one for the first."""
    assert not failures(by_content(kernels()))
    found = failures(by_content(kernels(), ranks=(range(8), [-i for i in range(8)])))
    assert found and found <= {"never ends", "deadlock"}, found
