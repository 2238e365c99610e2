"""Results passed on to the next operator's gate: none is lost or late, none is overwritten unread, as instances come and go.

Property    readers get the rows of all instances in order of time, each instance's in
            its own order; a row reads as it was written; none comes before a
            heartbeat's time that came earlier; nobody waits for ever. Where a filter leaves rows out, of those that
            pass, and what was given and what was left out is counted as such. Where rows are ahead of the watermark when
            they are written, readers get them in order of arrival, but all else holds
Schedules   of the file's own text with the gate's (`interleave`), under both memory
            models: rings of two rows, a log of two records; instances that leave, join
            and come back at a barrier, while what they gave is not merged yet
Planted     each step of the file's argument, dropped or swapped; each names its failure
Cannot see  memory weaker than x86's, as of the gates: tests/litmus
"""

# ruff: noqa: F821  (the names are the explored kernels')

import itertools

import pytest

from gate_cases import ARRIVAL, LOG, READER, SOURCE, log_state
from headrace.elastic.kept_rows_kernel import EQUAL
from headrace.progress import END_OF_TIME, MIN_TIME
from interleave import TSO, Kernels, copied, exhaustive, find_failure, sampled
from support.result_rings import (
    change_instances,
    end_epoch,
    instance,
    take,
    write,
    write_ahead,
    write_together,
)

PASSING = "headrace.elastic.passing_kernel"


# -- programs ----------------------------------------------------------------------------------------


def promise_only(o, me, words, primaries, promised):
    """An instance without results, or without any that pass, which goes on only when somebody has read another one's."""
    head = write(o, me, primaries, 0)
    publish(o, me, head, promised, promised)
    while load_acquire(words, 2) == 0:
        pause()
    publish(o, me, head, END_OF_TIME, END_OF_TIME)


def write_and_wait(o, me, words, primaries):
    """An instance that ends when its first result was read."""
    head = write(o, me, primaries, 0)
    while load_acquire(words, 2) == 0:
        pause()
    publish(o, me, head, END_OF_TIME, END_OF_TIME)


PROGRAMS = (write, write_ahead, instance, end_epoch, change_instances, promise_only, write_and_wait, write_together, take)


def flags(kept):
    """What stands for the address of a column that is 1 where a row of all rings is kept: a bit for each, above the offset."""
    return sum(flag << 16 + i for i, flag in enumerate(itertools.chain.from_iterable(kept)))


def flag_of(address, count):
    """What is there."""
    return [address >> 16 + (address >> 3 & 255) & 1]


def kernels(*planted, where=PASSING):
    return Kernels(
        PASSING, LOG, ARRIVAL, SOURCE, READER, "headrace.memory.event_count", programs=PROGRAMS,
        shared={"primary", "ring_ts", "ring_ref", "out_ts", "out_ref"},
        planted=[(where, old, new) for old, new in planted], given={"GO_ON": [0], "view_i64": flag_of},
    )  # fmt: skip


def case(k, sets, rows, promises, readers=1, capacity=2, idle=False, kept=(), together=0, ahead=0, **sizes):
    """Epochs of the upstream operator.

    Parameters
    ----------
    sets : list of list of int
        Its members in each.
    rows : list of dict
        In each what each of them writes.
    promises : list of int
        Of all, at the barrier behind each but the last.
    idle : bool
        Instance 0 of two only promises, beside rows that are all left out, and both end only when a row was read.
    kept : list of list of int
        Of each instance's ring, whether a filter keeps what is in each place; none: it keeps all, without looking.
    together : int
        There is one epoch, and so many rows are published at once.
    ahead : int
        By how much each row is ahead of the watermark when it is written; the gate takes rows in order of arrival then.
    """
    instances = 1 + max(max(members) for members in sets)
    sizes = {"ring": 2, "log": 4, "bound": 2, "lead": ahead} | sizes
    gate = log_state(k, instances, readers, reading=readers, **sizes)
    nothing = 2**63 - 1
    gate = gate._replace(
        mark=[MIN_TIME if r in sets[0] else nothing for r in range(instances)],
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
        gate=gate, rings=rings, row_times=[], sent=cells[:], kept_count=cells[:], left_count=cells[:],
        kept_row=ring() if kept else [], comparisons=[[flags(kept), -1, 0, EQUAL, 1, 0, -1, 1]] if kept else [],
        told=[MIN_TIME] * instances,
        keys=[[] for _ in range(instances)], ids=[], ranks=[], row_ranks=[],
        known=[], numbers=[], valid=[], latency=[[0] * 64 for _ in range(instances)],
        longest=cells[:], stop=[0],
    )  # fmt: skip
    written = [[p for epoch in rows for p in epoch.get(r, [])] for r in range(instances)]
    wanted = [[p for i, p in enumerate(each) if not kept or kept[r][i % capacity]] for r, each in enumerate(written)]

    def build():
        p = copied(template)
        p = p._replace(row_times=p.rings.primary)
        o = p.rings
        o.words[k.ELSEWHERE], o.words[k.ELSEWHERE + 1] = "take_results", p
        words = [0, 0, 0]
        outs = [[[] for _ in range(instances)] for _ in range(readers)]
        wrong = [[] for _ in range(readers)]
        threads = [k.instance(o, r, words, sets, rows, promises, ahead) for r in range(instances)]
        if idle:
            threads = [k.promise_only(o, 0, words, written[0], 5), k.write_and_wait(o, 1, words, rows[0][1])]
        if together:
            threads = [k.write_together(o, r, each, together) for r, each in enumerate(written)]
        threads += [k.take(o, p.gate, r, outs[r], wrong[r], words, ahead == 0) for r in range(readers)]

        def check():
            for out, found in zip(outs, wrong, strict=True):
                assert not found, f"wrong rows: {found}"
                assert out == wanted, f"got {out}, written {wanted}"
            if kept:
                counted = list(zip(p.sent, p.kept_count, p.left_count, strict=True))
                booked = [(len(all_), len(those), len(all_) - len(those)) for all_, those in zip(written, wanted, strict=True)]
                assert counted == booked, f"books: {counted}, written and wanted {booked}"

        return threads, check

    return build


def two(k, **sizes):
    """Two instances all the time, with ties; one has nothing for long."""
    return case(k, [[0, 1]], [{0: [1, 2], 1: [2]}], [], **sizes)


def one_for_the_other(k, leaver=1, **sizes):
    """At the barrier one leaves and the other joins, whose first result is the earliest there may be."""
    joiner = 1 - leaver
    return case(k, [[leaver], [joiner]], [{leaver: [1, 4]}, {joiner: [5, 6]}], [4], **sizes)


def one_joins(k, **sizes):
    """The joiner has the earliest result, and the other one goes on at once."""
    return case(k, [[1], [0, 1]], [{1: [4]}, {0: [5], 1: [6, 7]}], [4], **sizes)


def comes_back(k, **sizes):
    """The leaver is back at the next barrier, where what it gave may not have been merged yet."""
    return case(k, [[0, 1], [0], [0, 1]], [{0: [3], 1: [2, 3]}, {0: []}, {0: [5], 1: [5]}], [3, 3], **sizes)


def one_is_idle(k, **sizes):
    """The rows of one are ready by what the other promises, and by nothing else."""
    return case(k, [[0, 1]], [{1: [3]}], [], idle=True, **sizes)


def many_rows(k, **sizes):
    """More rows than the ring has room for: each place is used again and again."""
    return case(k, [[0, 1]], [{0: [1, 2, 3, 4], 1: [2]}], [], **{"ring": 4, "log": 16, "bound": 16, **sizes})


LONG = {"capacity": 4, "ring": 4, "log": 16, "bound": 16}


def few_gaps(k, **sizes):
    """Rows that pass between others that do not, given to the gate when the ring is full, and at the end."""
    return case(k, [[0, 1]], [{0: [1, 2, 3, 4, 5, 6, 7]}], [], kept=[[1, 0, 1, 1], [0, 0, 0, 0]], together=99, **LONG | sizes)


def gaps(k, **sizes):
    """The same of two, with promises in between; rows that pass are alone or two together, also over the end of the ring."""
    rows = {0: [1, 2, 3, 4, 5, 6, 7, 8, 9], 1: [2, 3, 3, 6, 7]}
    return case(k, [[0, 1]], [rows], [], kept=[[1, 0, 0, 1], [0, 1, 1, 0]], together=3, **LONG | sizes)


def gaps_everywhere(k, **sizes):
    """One whose rows all are left out finds its ring full like any other, and is not what the other one waits for."""
    rows = {0: [1, 2, 3, 4, 5, 6], 1: [2, 3, 4, 5, 6, 7]}
    return case(k, [[0, 1]], [rows], [], kept=[[0, 0, 0, 0], [1, 0, 1, 1]], together=5, **LONG | sizes)


def all_left_out(k, **sizes):
    """The rows of one are ready by what the other promises, all of whose rows are left out: more than its ring has room for."""
    return case(k, [[0, 1]], [{0: [1, 2, 3], 1: [3]}], [], kept=[[0, 0], [1, 1]], idle=True, **sizes)


def gaps_and_changes(k, **sizes):
    """Who has left is back, what it gave is not merged yet, and some of it is left out."""
    rows = [{0: [3], 1: [1, 2, 3]}, {0: [4]}, {0: [5], 1: [5, 6, 7]}]
    return case(k, [[0, 1], [0], [0, 1]], rows, [3, 4], kept=[[1, 0], [0, 1]], **sizes)


def ahead(k, **sizes):
    """More rows of a window's end than the ring has room for, before it."""
    return case(k, [[0, 1]], [{0: [5, 5, 5, 10, 10], 1: [10]}], [], ahead=5, **sizes)


def ahead_of_an_idle_one(k, **sizes):
    """Rows are read although the other one, which goes on only then, has promised no more than an earlier time."""
    return case(k, [[0, 1]], [{1: [10]}], [], idle=True, ahead=5, **sizes)


def ahead_and_leaves(k, leaver=1, **sizes):
    """At the barrier one leaves whose rows are beyond the promise; the joiner's first row is of the same window's end."""
    joiner = 1 - leaver
    return case(k, [[leaver], [joiner]], [{leaver: [5, 10]}, {joiner: [10, 15]}], [6], ahead=5, **sizes)


def ahead_and_comes_back(k, **sizes):
    """Nothing but the barrier's promise lets the rest of what the leaver gave into the log before it is back."""
    rows = [{0: [5], 1: [5, 10]}, {0: []}, {0: [10], 1: [10, 15]}]
    return case(k, [[0, 1], [0], [0, 1]], rows, [6, 7], ahead=5, **sizes)


def ahead_alone(k, **sizes):
    """One source, which is in order by itself."""
    return case(k, [[0]], [{0: [5, 5, 10]}], [], ahead=5, lead=0, **sizes)


def ahead_with_gaps(k, **sizes):
    """The same with rows left out, in a ring where each place is used again."""
    rows = {0: [5, 5, 5, 10, 10, 10, 10], 1: [5, 10]}
    return case(k, [[0, 1]], [rows], [], kept=[[1, 0, 1, 1], [0, 1, 1, 1]], ahead=5, **LONG | sizes)


# -- every schedule, and many --------------------------------------------------------------------------


@pytest.mark.campaign
def test_interleave_every_schedule_of_few_preemptions():
    k = kernels()
    assert exhaustive("passing", one_is_idle(k), preemptions=1) > 100
    assert exhaustive("passing", one_is_idle(k), preemptions=1, memory=TSO) > 100


CASES = [two, one_for_the_other, one_joins, comes_back, one_is_idle, many_rows]
GAPS = [few_gaps, gaps, gaps_everywhere, gaps_and_changes, all_left_out]
AHEAD = [ahead, ahead_of_an_idle_one, ahead_and_leaves, ahead_and_comes_back, ahead_alone, ahead_with_gaps]


@pytest.mark.parametrize("count", [100, pytest.param(300, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("make", CASES + GAPS + AHEAD, ids=lambda make: make.__name__)
def test_interleave_sampled(make, count):
    sampled("passing", make(kernels()), 3 * count, longest=20_000)
    sampled("passing", make(kernels(), readers=2), count, longest=20_000)


WRONG = "wrong rows: "
PLANTED = {
    "the ring takes one row too many": (
        "    while head - note_read(p, me) >= capacity:\n", "    while head - note_read(p, me) > capacity:\n", many_rows, WRONG,
    ),
    "a heartbeat beyond the promise": (
        "    single[0] = promised\n", "    single[0] = promised + 2\n", one_for_the_other, WRONG,
    ),
    "a leaver stays a source": (
        "            remove_source(p.gate, me)\n", "", one_for_the_other, "deadlock",
    ),
    "a joiner is no source": (
        "        elif add_source(p.gate, me) != 0:\n", "        elif True:\n", one_joins, WRONG,
    ),
    "a returning instance is added whatever is left of it": (
        "            is_done = True\n        close_membership(p.gate)\n",
        "            is_done = True\n        else:\n            is_done = True\n"
        "        close_membership(p.gate)\n",
        comes_back, "wrong rows|deadlock|got",
    ),
    "heartbeats are left out: time stands still": (
        "and tell(p, me, promised) == 0:\n            tell_waiting(p, me, promised)\n", "and False:\n            pass\n",
        one_is_idle, "deadlock",
    ),
    "a heartbeat behind rows that are later": (
        "        if promised >= load_relaxed(p.gate.mark, me * CELL) and tell(", "        if tell(", ahead_alone, WRONG,
    ),
    "what is written is not given to the gate before the barrier": (
        "    if not send(p, me, head):\n        return\n    if promised >= END_OF_TIME:\n",
        "    if promised >= END_OF_TIME and not send(p, me, head):\n        return\n    if promised >= END_OF_TIME:\n",
        one_for_the_other, "wrong rows|got",
    ),
    "with gaps as many rows are unread as records are": (
        "max(before, first_unread(p, me, unread))", "max(before, load_relaxed(p.sent, me * CELL) - unread)", few_gaps, WRONG,
    ),
    "the row of the earliest unread record is taken to be read": (
        "return p.kept_row[me, ring_slot(", "return 1 + p.kept_row[me, ring_slot(", few_gaps, WRONG,
    ),
    "the row of the record behind the earliest unread one is taken": (
        "ring_slot(p.rings, kept - unread)", "ring_slot(p.rings, kept - unread + 1)", few_gaps, WRONG,
    ),
    "rows that follow each other are noted as the first of them": (
        "= at + until\n", "= at + count\n", few_gaps, WRONG,
    ),
    "of more records unread than there are notes an old note is read": (
        "    if unread > min(kept, p.rings.primary.shape[1]):\n", "    if unread > 999:\n", few_gaps, WRONG,
    ),
    "what is left out is counted as given": (
        "            done += 1  # this one is left out\n", "            done += 1\n            kept += 1\n", few_gaps, "books: ",
    ),
    "what is left out is counted twice": (
        "p.left_count, me * CELL, at + done - kept)", "p.left_count, me * CELL, at + count - kept + done)", few_gaps, "books: ",
    ),
    "what does not pass is given all the same": (
        "        while until < count and is_kept(p.comparisons, p.valid, first_row + until):\n", "        while until < count:\n",
        few_gaps, "got ",
    ),
    "where all rows are left out time stands still": (
        "    elif promised > MIN_TIME and", "    elif load_relaxed(p.kept_count, me * CELL) > 0 and", all_left_out, "deadlock",
    ),
    "of rows left out behind the last one given none is free": (
        "    if unread == 0:\n        return load_relaxed(p.sent, me * CELL)\n", "", few_gaps, "deadlock",
    ),
}  # fmt: skip


IN_THE_GATE = {
    "rows are free once they are merged": (
        "(head - merged) + max(0, end - smallest)\n", "head - merged\n", many_rows, WRONG,
    ),
    "U2 before U1: the end of the log is an old one": (
        "    merged = load_acquire(g.merged, source * CELL)  # U1\n    end = load_acquire(g.words, END)  # U2\n",
        "    end = load_acquire(g.words, END)  # U2\n    merged = load_acquire(g.merged, source * CELL)  # U1\n",
        many_rows, WRONG,
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", PLANTED | IN_THE_GATE)
def test_interleave_planted_bug_is_found(bug):
    old, new, make, expected = (PLANTED | IN_THE_GATE)[bug]
    find_failure("passing", make(kernels((old, new), where=LOG if bug in IN_THE_GATE else PASSING)), expected)


def test_interleave_planted_gate_that_waits_for_the_order_of_what_is_ahead_is_found():
    find_failure("passing", ahead_of_an_idle_one(kernels(), lead=0), "deadlock")


def test_interleave_planted_promise_that_lets_a_row_at_it_come_is_found():
    """What a leaver gave at the promise waits for promises beyond it, and the returning instance waits for that: for ever."""
    k = kernels(("single, 0, 1, HEARTBEAT, 0, promised + 1)", "single, 0, 1, HEARTBEAT, 0, promised)"))
    with pytest.raises(AssertionError, match="only 0 of .* come to an end"):
        sampled("passing (planted)", comes_back(k), 100)
