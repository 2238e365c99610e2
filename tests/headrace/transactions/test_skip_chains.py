"""Operation chains as concurrent skip lists.

Property    under every interleaving of executors that insert their slices: each record's chain has all its operations in the
            order of events, levels are parts of those below, one executor begins it. In whole runs: results, rejections and
            tables are those of one event after another, whatever threads, sharing, punctuation and changes; heads are empty
            between batches, also where no event fitted
Oracle      sorting; `support.executors.Events.serial`; `headrace.reference.transactions`
Schedules   of `skip_chains_kernel` as it is (`interleave`): of small cases every one with few preemptions and store buffers;
            of larger ones a sample, a fifth of it with store buffers
Planted     each names the failure it must cause
"""

import random
from collections import namedtuple

import pytest

import headrace as hr
from headrace.errors import NotSupportedError
from headrace.gates.skip_list_kernel import LEVELS, levels_of
from headrace.transactions.configuration import SHARINGS
from headrace.transactions.words import SHARED_EVERYTHING, SHARED_NOTHING
from interleave import TSO, FailingSchedule, Kernels, copied, exhaustive, find_failure, sampled
from support.executors import LOOK, PUT, Executors, configuration, draw
from support.made_up_transactions import EMITS, events
from support.transacted import agree

KERNEL = "headrace.transactions.skip_chains_kernel"
MIX = 2654435761
Shared = namedtuple("Shared", "sets link_2 heads links fingers filling part_at rows owner")


# -- every interleaving ------------------------------------------------------------------------------


def insert_own(me, c, l):
    """What an executor does when it prepares a batch, as far as chains go."""
    insert_slice(me, c, l, 0)  # noqa: F821  (the explored kernel's)


def kernels(*planted):
    return Kernels(KERNEL, programs=[insert_own], planted=planted, shared=["links"])


def case(k, slices, first=0, sharing=SHARED_EVERYTHING):
    """`slices` are the records of each executor's operations; the first operation has number `first`, for other heights."""
    workers, count = len(slices), first + sum(map(len, slices))
    records = 1 + max(record for one in slices for record in one)
    starts = [first + sum(map(len, slices[:me])) for me in range(workers)]
    filled = [[0] * 16 for _ in slices]
    for me, one in enumerate(slices):
        filled[me][k.FIRST_OPERATION], filled[me][k.SET_AT] = starts[me], starts[me] + len(one)
    arrays = Shared(
        sets=[0] * first + [record << 1 for one in slices for record in one], link_2=[0] * count, heads=[0] * records,
        links=[0] * (LEVELS * (records + count)), fingers=[[0] * (8 * records) for _ in slices], filling=filled,
        part_at=[[7] * 65 for _ in slices], rows=[[workers, 0, sharing, 0, 0]], owner=[[b % workers for b in range(1024)]],
    )  # fmt: skip

    def build():
        c = copied(arrays)
        notes = []
        for _ in slices:
            notes.append([0] * 16)
            notes[-1][k.AT_PHASE] = 5
        threads = [k.insert_own(me, c, notes[me]) for me in range(workers)]

        def chain(record, level):
            found, at = [], c.links[record * LEVELS + level]
            while at:
                found.append(at - 1)
                assert len(found) <= count, "a chain has no end"
                at = c.links[(records + at - 1) * LEVELS + level]
            return found

        def check():
            begun = []
            for row in c.part_at:
                for at in row[: 64 if sharing else workers]:
                    while at:
                        begun.append(c.sets[at - 1] >> 1)
                        at = c.link_2[at - 1]
            for record in range(records):
                whole = [o for o in range(first, count) if c.sets[o] >> 1 == record]
                assert chain(record, 0) == whole, f"record {record}: chain {chain(record, 0)}, wanted {whole}"
                for level in range(1, LEVELS):
                    tall = [o for o in whole if levels_of(o * MIX >> 16) > level]
                    assert chain(record, level) == tall, f"level {level}: {chain(record, level)}, wanted {tall}"
                assert begun.count(record) == (1 if whole else 0), f"record {record} was begun {begun.count(record)} times"

        return threads, check

    return build


HOT, CROSSED, THREE = [[0] * 3, [0] * 3], [[0, 1, 0, 1], [1, 0, 0, 1]], [[0, 0], [0], [0, 0]]
HALVES = (0, 1, 2), (3, 4, 5)
TALL = next(o for o in range(1000) if all(max(levels_of((o + n) * MIX >> 16) for n in half) > 1 for half in HALVES))
"""From here on, there are tall nodes among the first three operations, and among the next three."""


@pytest.mark.parametrize("slices", [HOT, CROSSED, THREE], ids=["hot", "crossed", "three"])
@pytest.mark.parametrize("first", [0, TALL])
def test_interleave_inserting(slices, first):
    sampled("skip chains", case(kernels(), slices, first), 400, longest=4000)


EVERY = {
    # slices, the first operation's number, preemptions at most, how many schedules there are at least
    "two and one on a record": ([[0, 0], [0]], 0, 3, 4900),
    "two and one, tall": ([[0, 0], [0]], TALL, 3, 2600),
    "crossed": ([[0, 1], [1, 0]], 0, 2, 1000),
    "three executors": ([[0], [0], [0]], 0, 2, 4800),
    "three executors, tall": ([[0], [0], [0]], TALL, 1, 150),
}


def every_schedule(name, k):
    slices, first, preemptions, least = EVERY[name]
    found = exhaustive("skip chains", case(k, slices, first), preemptions=preemptions, longest=4000, limit=20_000, memory=TSO)
    return found, least


@pytest.mark.parametrize("name", EVERY)
def test_interleave_every_schedule(name):
    """Of each case in `EVERY` with at most so many preemptions, of which a step of a store buffer is one: 14,000 in all."""
    found, least = every_schedule(name, kernels())
    assert found >= least


def test_interleave_inserting_where_nothing_is_shared():
    sampled("skip chains", case(kernels(), CROSSED, sharing=SHARED_NOTHING), 200, longest=4000)


LINKED = "            if compare_exchange(c.links, before, after, o + 1):  # A2\n"
PLANTED = {
    "what others insert meanwhile is lost": (
        (LINKED, "            store_relaxed(c.links, before, o + 1)\n            if True:\n"), HOT, "chain|level|begun"),
    "the link is written when the node can be found": (
        ("            store_relaxed(c.links, own, after)  # A1\n" + LINKED + "                break\n",
         LINKED + "                store_relaxed(c.links, own, after)\n                break\n"), HOT, "chain|level|begun"),
    "what was inserted since the look is passed over": (
        ("            if after != 0 and after <= o:\n                continue\n", ""), HOT, "chain|level"),
    "the first in the order of events begins the chain": (
        ("            begins = at == 0 and after == 0\n", "            begins = at == 0\n"), HOT, "begun 2 times"),
    "levels are not linked": (("    for level in range(height):\n", "    for level in range(1):\n"), HOT, "level"),
    "a chain of the part is forgotten": (("            c.link_2[o] = c.part_at[me, p]\n", ""), [[0, 64], [1]], "begun 0 times"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PLANTED)
def test_interleave_planted_mistake_is_found(mistake):
    (right, wrong), slices, expected = PLANTED[mistake]
    find_failure("skip chains", case(kernels((KERNEL, right, wrong)), slices, TALL), expected, count=3000, longest=4000)


FOUND_BY_EVERY = {
    "what others insert meanwhile is lost": "two and one on a record",
    "the first in the order of events begins the chain": "two and one on a record",
    "levels are not linked": "two and one, tall",
}


@pytest.mark.parametrize("mistake", FOUND_BY_EVERY)
def test_interleave_planted_mistake_is_among_all_schedules(mistake):
    (right, wrong), _, expected = PLANTED[mistake]
    with pytest.raises(FailingSchedule, match=expected):
        every_schedule(FOUND_BY_EVERY[mistake], kernels((KERNEL, right, wrong)))


# -- whole runs --------------------------------------------------------------------------------------


def cleared(run):
    """Assert that no chain is left over."""
    assert not run.c.links[: LEVELS * len(run.events.values)].any()


@pytest.mark.slow
@pytest.mark.parametrize("sharing", SHARINGS)
def test_oracle_random_cases(sharing):
    rng = random.Random(sharing)
    for _ in range(15):
        threads, punctuation = rng.choice([1, 2, 2, 3, 4, 8]), rng.choice([1, 2, 7, 60, 500, 5000])
        n = rng.choice([0, 1, 5, 300, 1500]) if punctuation > 2 else rng.choice([0, 1, 5, 100])
        drawn = draw(
            rng.randrange(1 << 30), n, rng.choice([2, 20, 3000]), longest=12, kinds=rng.choice([(PUT,), (LOOK, PUT)]),
            hot=rng.choice([0, 0.1, 0.9]),
        )  # fmt: skip
        planned = [(rng.randrange(n + 1), configuration(rng.choice([1, 2, 3]), rng.choice(["chains", "lock"]), sharing, 40))]
        run = Executors(
            drawn, configuration(threads, "chains", sharing, punctuation), planned=planned, operations=rng.choice([0, 0, 40]),
            can_split=True, skip_lists=True,
        ).run()  # fmt: skip
        run.check()
        cleared(run)


def test_oracle_one_hot_key():
    """Chains as long as batches, in several pieces; each counts by its length."""
    run = Executors(
        draw(3, 4000, 40, longest=2, kinds=(PUT,), hot=0.95), configuration(3, "chains", "everything", 2000), can_split=True,
        skip_lists=True,
    ).run()  # fmt: skip
    run.check()
    cleared(run)
    assert run.c.lengths.sum(axis=0)[11] > 0, "no chain of 1,024 and more was counted"


def test_oracle_where_no_event_fits():
    """The first event of a batch has more operations than its slice has room for, those behind it do not."""
    drawn = draw(4, 50, 9, longest=16, kinds=(PUT,))
    drawn.size[:] = 1
    drawn.size[0] = 16
    run = Executors(
        drawn, configuration(2, "chains", "nothing", 50), operations=24, can_split=True, skip_lists=True, max_delay_ns=10**10,
    ).run()  # fmt: skip
    run.check()
    cleared(run)


A = hr.table("A", columns={"b": "int64", "x": "float64"}, rows=8, first={"b": 5})


def one_row_before(e, t):
    if A[e.k].b + e.x < 0:
        t.reject()
    A[e.k].b += e.x
    A[e.k].x = A[e.k].x / 3 + e.y
    t.emit(o=A[e.k].b)


def lists(e, t):
    for k in e.ks:
        A[k].b += e.x


@pytest.mark.logic
@pytest.mark.parametrize("functions", [[one_row_before], [one_row_before, lists]], ids=["one", "two"])
def test_agree_functions(functions):
    for threads, punctuation, sharing in ((2, 7, "nothing"), (3, 30, "everything"), (1, 9, "socket")):
        agree(
            functions, events(random.Random(threads), 80), EMITS, schemes=["chains"], threads=threads, punctuation=punctuation,
            sharing=sharing, chains="skiplist",
        )  # fmt: skip


def pays(e, t):
    if A[e.k].b < 3:
        t.reject()
    A[e.k].b -= 1
    A[e.j].b += 1


def test_bad_input_transactions_that_run_whole(capsys):
    stream = hr.stream(events(random.Random(1), 5), event_time="ts").transact(pays)
    with pytest.raises(NotSupportedError, match="chains='skiplist' keeps single operations .* run whole, since") as caught:
        stream.start(chains="skiplist")
    assert "\n" not in str(caught.value)
    stream.explain()
    assert 'chains="skiplist"' not in capsys.readouterr().out
    hr.stream(events(random.Random(1), 5), event_time="ts").transact(lists).explain()
    assert 'chains="skiplist"' in capsys.readouterr().out
