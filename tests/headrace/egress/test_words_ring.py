"""Lists of results on their way through the output gate: whole, in their record's place, whatever the rings hold.

Property    with a record come its words; a list may be longer than the ring; no thread
            sleeps for ever, and a stop ends all waits; what is released is
            forgotten, and nothing else
Schedules   of the file's own text (`interleave`), under both memory models: a ring
            of two words, an instance that writes lists of up to five, a collector
Oracle      the lists that were written
Planted     each ordering label of the file's argument; words forgotten too early, or
            found in another instance's ring
Cannot see  memory weaker than x86's
"""

# ruff: noqa: F821  (the names are the explored kernels')

import random
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headrace.egress import list_words, rings, words_ring
from headrace.egress.collector import Collector
from headrace.memory.atomics import CELL
from headrace.memory.cells import aligned, reserved
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.workers.worker_kernel import METER_WORDS
from interleave import TSO, Kernels, copied, exhaustive, find_failure, sampled
from planted_mistakes import fails
from support.workloads import eventually

OUTPUT, WORDS = "headrace.egress.rings", "headrace.egress.words_ring"

# -- schedules of a ring of two words


def write_lists(o, me, lists):
    """An instance: the words of each list, then its record, whose primary is its number."""
    head = 0
    for words in lists:
        position = write_words(o, me, words, 0, len(words), 1)
        slot = reserve_slot(o, me, head)
        o.primary[me, slot] = position & WORD_MASK
        head += 1
        publish(o, me, head, head, head)
    publish(o, me, head, END_OF_TIME, END_OF_TIME)


def take_lists(o, lengths, got):
    """The collector: records are looked for first, then words; a record's words have to be there."""
    taken = []
    done = False
    while not done:
        bound, _ = await_release(o, END_OF_TIME, 0)
        done = bound == END_OF_TIME
        tail = load_relaxed(o.tail, 0)
        head = load_acquire(o.head, 0)
        first = load_relaxed(o.list_tail, 0)
        last = load_acquire(o.list_head, 0)
        while first < last:
            taken.append(o.list_words[0][first & 1])
            first += 1
            words_taken(o, 0, first)
        while tail < head:
            start = o.primary[0][tail & 1]
            got.append(taken[start : start + lengths[len(got)]])
            tail += 1
            drained(o, 0, tail)


def kernels(planted=()):
    return Kernels(
        OUTPUT, WORDS, "headrace.memory.event_count", programs=(write_lists, take_lists),
        shared={"primary", "list_words"}, planted=planted,
    )  # fmt: skip


def one_writes(k, lists):
    words = [0] * k.WORD_COUNT
    words[k.WANTED] = END_OF_TIME
    template = k.OutArrays(
        words=words, event=[0] * 64, head=[0], tail=[0], mark=[MIN_TIME], mark_ts=[MIN_TIME], primary=[[0, 0]],
        a=[[0, 0]], b=[[0, 0]], c=[[0, 0]], at=[[0, 0]], meter=[[0] * 16], membership=[0, 0],
        list_words=[[0, 0]], list_head=[0], list_tail=[0],
    )  # fmt: skip

    def build():
        o, got = copied(template), []

        def check():
            assert got == lists, f"came {got}, written {lists}"

        return [k.write_lists(o, 0, lists), k.take_lists(o, [len(words) for words in lists], got)], check

    return build


LISTS = [[1], [2, 3, 4, 5, 6], [], [7, 8]]


@pytest.mark.slow
def test_interleave_every_schedule_of_few_preemptions():
    k = kernels()
    assert exhaustive("words", one_writes(k, [[1], [2, 3, 4]]), preemptions=2) > 100
    assert exhaustive("words", one_writes(k, [[2, 3, 4]]), preemptions=1, memory=TSO) > 100


def test_interleave_sampled():
    assert sampled("words", one_writes(kernels(), LISTS), 1_000, seed=5) >= 900


LOST = r"came \[.*\], written"
ASLEEP = "deadlock"
PLANTED = {
    "P2 after the record: it comes without its words": (
        WORDS,
        "    store_release(o.list_head, me * CELL, head)  # P2\n    return position",
        "    return position",
        f"{LOST}|{ASLEEP}",
    ),
    "the ring takes a word too many": (
        WORDS, "        room = capacity - (head", "        room = 1 + capacity - (head", LOST,
    ),
    "a full ring shows nothing of what it holds": (
        OUTPUT,
        "    store_release(heads, me * CELL, head)  # as W2, or P2 of `words_ring`\n    signal(",
        "    signal(",
        ASLEEP,
    ),
    "taking words wakes nobody": (
        WORDS,
        "# P5\n    signal(o.words, INSTANCES_WAITING, o.event, DRAINED_EVENT)\n",
        "# P5\n",
        ASLEEP,
    ),
    "a full ring does not look again before it sleeps": (
        OUTPUT,
        "        if head - load_acquire(tails, me * CELL) < capacity:  # P0\n"
        "            cancel(o.words, INSTANCES_WAITING)\n            break\n",
        "",
        ASLEEP,
    ),
}
LOOK = (
    "    for r in range(o.list_head.size // CELL):  # whoever waits for room for words\n"
    "        if load_acquire(o.list_head, r * CELL) != load_relaxed(o.list_tail, r * CELL):\n"
    "            ready = True\n"
)


@pytest.mark.parametrize("bug", PLANTED)
def test_interleave_planted_bug_is_found(bug):
    module, old, new, expected = PLANTED[bug]
    find_failure("words", one_writes(kernels([(module, old, new)]), LISTS), expected)


def test_interleave_a_collector_that_does_not_look_for_words_sleeps_on():
    find_failure("words", one_writes(kernels([(OUTPUT, LOOK, "")]), LISTS), ASLEEP)


# -- the real collector

CAPACITY = 8
LIST_WORDS = 16


class Lists:
    """Results (primary, a, list), by primary and a."""

    reads_b_and_c = False
    schema = pa.schema({"primary": pa.int64(), "a": pa.int64(), "one": pa.list_(pa.int64()), "two": pa.list_(pa.int64())})

    def finish(self, records):
        order = np.lexsort((records.a, records.primary))
        columns = [pa.array(c[order]) for c in (records.primary, records.a)]
        for position in (0, 2):
            words, offsets = records.words.take(records.values[position][order], records.values[position + 1][order])
            columns.append(pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(words)))
        return pa.record_batch(columns, schema=self.schema)


class Instances:
    """The other side, and a consumer: each instance writes rows of two lists, every 10th promised."""

    def __init__(self, rows):
        self.rows, self.seen = rows, []
        most = len(rows)
        meter = aligned(most * METER_WORDS, np.int64).reshape(most, METER_WORDS)
        self.out = rings.allocate(most, CAPACITY, meter, list_words=LIST_WORDS)
        self.values = [reserved(most * CAPACITY, np.int64).reshape(most, CAPACITY) for _ in range(4)]
        self.collector = Collector(self.out, self.values, Lists(), [self], lists=[(0, 1), (2, 3)])
        for r in range(most):
            rings.start_mark(self.out, r, MIN_TIME, MIN_TIME)
        self.threads = [threading.Thread(target=self.collector.run, daemon=True)]
        self.threads += [threading.Thread(target=self.instance, args=(r,), daemon=True) for r in range(most)]

    def write(self, batch):
        self.seen += [tuple(row.values()) for row in batch.to_pylist()]

    def progress(self, watermark):
        pass

    def close(self):
        pass

    def instance(self, r):
        head = 0
        for primary, *lists in self.rows[r]:
            positions = []
            for words in lists:
                spread = np.repeat(np.array(words, np.int64), 3)  # every third word, from the second one on
                positions.append(words_ring.write_words(self.out, r, np.append([0], spread), 1, len(words), 3))
                if positions[-1] < 0:
                    return
            slot = rings.reserve_slot(self.out, r, head)
            if slot < 0:
                return
            self.out.primary[r, slot], self.out.a[r, slot] = primary, r
            for i, (position, words) in enumerate(zip(positions, lists, strict=True)):
                self.values[2 * i][r, slot], self.values[2 * i + 1][r, slot] = position, len(words)
            head += 1
            if head % 10 == 0:
                rings.publish(self.out, r, head, primary - 1, primary - 1)
        rings.publish(self.out, r, head, END_OF_TIME, END_OF_TIME)

    def run(self):
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join(180)
            assert not thread.is_alive()
        return self.seen


def drawn_rows(seed, instances=3, rows=60):
    draw = random.Random(seed)

    def words():
        longest = draw.choice([0, 1, 5, LIST_WORDS, 5 * LIST_WORDS])
        return [draw.randrange(-(2**63), 2**63) for _ in range(draw.randint(0, longest))]

    return [
        [(primary, words(), words()) for primary in sorted(draw.randrange(200) for _ in range(rows))]
        for _ in range(instances)
    ]


def wanted_of(rows):
    found = [(primary, r, one, two) for r, of_one in enumerate(rows) for primary, one, two in of_one]
    return sorted(found, key=lambda row: row[:2])


@pytest.mark.parametrize("seed", range(6))
def test_oracle_lists_come_with_their_records(seed):
    rows = drawn_rows(seed)
    instances = Instances(rows)
    assert instances.run() == wanted_of(rows)
    taken = instances.collector._list_words._taken
    assert [one.words.size for one in taken] == [0, 0, 0], "what was released is still kept"


def test_example_room_for_released_words_is_used_again():
    """A thousand lists of 100 words, of which at most ten are held at a time."""
    rows = [[(primary, [primary] * 100, []) for primary in range(1_000)]]
    instances = Instances(rows)
    assert len(instances.run()) == 1_000
    assert instances.collector._list_words._taken[0]._memory.size < 100 * 1_000 // 2


def test_example_a_stop_ends_a_wait_for_room():
    """Nobody collects."""
    instances = Instances([[(1, list(range(100)), [])]])
    writer = instances.threads[1]
    writer.start()
    eventually(lambda: instances.out.list_head[0] == LIST_WORDS)
    rings.stop_output(instances.out)
    writer.join(180)
    assert not writer.is_alive()


# -- what is kept between them, step by step


def check_steps(kept_by, seed):
    """Three instances write when their ring has room, and show records later; some are released, and read back."""
    draw = random.Random(seed)
    meter = aligned(3 * METER_WORDS, np.int64).reshape(3, METER_WORDS)
    out = rings.allocate(3, CAPACITY, meter, list_words=LIST_WORDS)
    kept = kept_by(out, [(0, 1)])
    written = [[], [], []]  # records that are not shown yet: (position, words)
    held = []
    for step in range(300):
        r = draw.randrange(3)
        room = LIST_WORDS - int(out.list_head[r * CELL] - out.list_tail[r * CELL])
        words = np.array([1_000 * step + i for i in range(draw.randint(0, room))], np.int64)
        written[r].append((words_ring.write_words(out, r, words, 0, len(words), 1), words.tolist()))
        kept.drain(r)
        shown = written[r][: draw.randint(0, len(written[r]))]
        written[r] = written[r][len(shown) :]
        if shown:
            positions = np.array([position for position, _ in shown])
            kept.note(r, [positions, np.array([len(words) for _, words in shown])])
            held += shown
        released = held[: draw.randint(0, len(held))]
        held = held[len(released) :]
        found, offsets = kept.take(
            np.array([position for position, _ in released], np.int64), np.array([len(words) for _, words in released], np.int64)
        )
        assert found.tolist() == [word for _, words in released for word in words], "other words"
        assert offsets.tolist() == np.cumsum([0, *(len(words) for _, words in released)]).tolist()
        kept.forget([np.array([position for position, _ in held], np.int64), np.array([len(words) for _, words in held])])
    # Nothing is kept that no record needs, beside what waits in front of one that does.
    live = sum(len(words) for _, words in held) + sum(len(words) for records in written for _, words in records)
    assert live <= sum(one.words.size for one in kept._taken) <= 300 * LIST_WORDS // 2, "words that no record needs"


@pytest.mark.parametrize("seed", range(10))
def test_oracle_words_are_kept_until_their_record_is_released(seed):
    check_steps(list_words.ListWords, seed)


LIST_BUGS = {
    "words of held records are forgotten": ("range(len(needed)) if len(numbers) else ()", "()", "IndexError: "),
    "positions do not say whose they are": ("whose == r", "whose == 0", "IndexError: "),
    "words of a record that is still to come are forgotten": (
        "self._behind[r] = max(ends)", "self._behind[r] = self._taken[r].first + self._taken[r].words.size", "IndexError: ",
    ),
    "nothing is forgotten": ("            taken.forget(before)", "            pass",
                             "AssertionError: words that no record needs"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize("bug", LIST_BUGS)
def test_planted_bug_is_found(bug):
    old, new, expected = LIST_BUGS[bug]
    text = Path(list_words.__file__).read_text()
    assert text.count(old) == 1, "the bug is out of date"
    space = {"__name__": "planted"}
    exec(compile(text.replace(old, new), "planted", "exec"), space)  # our own file, in a test
    with fails(expected):
        for seed in range(10):
            check_steps(space["ListWords"], seed)
