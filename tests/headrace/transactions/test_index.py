"""Where the rows of keys are: against a dict, with threads that put in at once, under every schedule of small cases.

Property    a key has one slot, whichever thread puts it in; different keys have different ones; KEYS says whose a slot is;
            looking up finds a key that was put in before, and none that never was; where no slot is left, a new key
            is refused, and nobody waits for ever
Oracle      a dict
Cannot see  memory weaker than x86's: the written argument in `index_kernel`
"""

# ruff: noqa: F821

import random
import threading

import numpy as np
import pytest

from headrace.ingress.keys_kernel import UNTOUCHED
from headrace.transactions import index_kernel
from headrace.transactions.index_kernel import ABSENT, FULL
from interleave import TSO, Kernels, exhaustive, find_failure, sampled
from support.campaign import rarely
from support.workloads import HANG_S

ENDS = [-(2**63), -1, 0, 1, 2**63 - 1]


def made(room):
    return index_kernel.allocate_index(room), np.zeros(max(1, room), np.int64)


def put_all(index, keys, given):
    with np.errstate(over="ignore"):
        index_kernel.insert_all(index, keys, np.array(given, np.int64))


def find(index, key):
    with np.errstate(over="ignore"):
        return int(index_kernel.find_hashed(index, np.int64(key)))


def put(index, keys, key):
    with np.errstate(over="ignore"):
        return int(index_kernel.insert_hashed(index, keys, np.int64(key)))


@pytest.mark.parametrize("room", [0, 1, 2, 3, 64, 1000])
def test_oracle_against_a_dict(room):
    rng = random.Random(room)
    index, keys = made(room)
    slots = {}
    for _ in range(4 * room + 4):
        key = rng.choice(ENDS) if rng.random() < 0.1 else rng.randrange(-room, room + 1)
        assert find(index, key) == slots.get(key, ABSENT)
        wanted = slots.get(key, len(slots) if len(slots) < room else FULL)
        assert put(index, keys, key) == wanted
        if wanted != FULL:
            slots[key] = wanted
    assert index_kernel.used_slots(index) == len(slots)
    assert [int(keys[slot]) for slot in slots.values()] == list(slots)
    assert index[index_kernel.MASK] + 1 >= 2 * room


def test_example_keys_in_an_empty_index_have_the_slots_of_their_order():
    index, keys = made(5)
    put_all(index, keys, [7, -3, 2**62, 0, 9])
    assert [find(index, key) for key in (7, -3, 2**62, 0, 9, 8)] == [0, 1, 2, 3, 4, ABSENT]


def test_example_a_range_of_numbers():
    """Also at the ends of int64, where a difference of two keys is none."""
    assert [index_kernel.find_direct(key, 5, 7) for key in (4, 5, 7, 8)] == [ABSENT, 0, 2, ABSENT]
    assert [index_kernel.find_direct(key, 0, -1) for key in ENDS] == [ABSENT] * 5  # no rows
    least = -(2**63)
    assert [index_kernel.find_direct(np.int64(key), least, least + 1) for key in ENDS] == [0, *[ABSENT] * 4]


def test_example_a_string_that_was_put_in_is_held():
    index, keys = made(1)
    held = np.zeros(8, np.int64)
    with np.errstate(over="ignore"):
        assert [int(index_kernel.insert_text(index, keys, held, np.int64(key))) for key in (3, 3, 5)] == [0, 0, FULL]
    assert held.tolist() == [0, 0, 0, UNTOUCHED, 0, 0, 0, 0]


def test_agree_threads_put_in_at_once():
    """Four threads, the same keys in other orders: each key has one slot, and all slots are used."""
    count = 100_000
    index, keys = made(count)
    rng = np.random.default_rng(3)
    given = rng.choice(2**62, count, replace=False) - 2**61
    orders = [rng.permutation(given) for _ in range(4)]
    put_all(*made(1), given[:1])  # compiled before
    threads = [threading.Thread(target=put_all, args=(index, keys, order), daemon=True) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
        assert not thread.is_alive()
    assert index_kernel.used_slots(index) == count
    assert np.array_equal(np.sort(keys), np.sort(given))
    assert all(find(index, key) == slot for slot, key in enumerate(keys[:2000].tolist()))


# ------------------------------------------------------- interleaved

INDEX = "headrace.transactions.index_kernel"
PLACES = 3
"""In the explored case MASK, ROOM and USED come first, and keys begin to look at the place of their last bits."""
WORDS = {
    "MASK": 0, "ROOM": 1, "USED": 2, "PLACES": PLACES, "SLOT": 0, "KEY": 1, "PLACE_WORDS": 2, "EMPTY": 0, "TAKEN": -1,
    "ABSENT": ABSENT, "FULL": FULL, "home_of": lambda index, key: key & index[0],
}  # fmt: skip


def puts(index, keys, given, found):
    for key in given:
        slot = insert_hashed(index, keys, key)
        found.append((key, slot))


def looks(index, given, found):
    for key in given:
        slot = find_hashed(index, key)
        found.append((key, slot))


def kernels(*planted):
    return Kernels(
        taken=[(INDEX, "insert_hashed"), (INDEX, "find_hashed")],
        programs=[puts, looks],
        shared=("index", "keys"),
        planted=[(INDEX, *bug) for bug in planted],
        given=WORDS,
    )


def case(k, room, given, looked_up=()):
    """Threads put in the keys of `given`, others look up."""
    places = 2
    while places < 2 * room:
        places *= 2
    names = {key for keys in given for key in keys}

    def build():
        index, keys = [places - 1, room, 0] + [0, 0] * places, [0] * room
        put_in, looked = [[] for _ in given], [[] for _ in looked_up]
        threads = [k.puts(index, keys, these, into) for these, into in zip(given, put_in, strict=True)]
        threads += [k.looks(index, these, into) for these, into in zip(looked_up, looked, strict=True)]

        def check():
            held = [(index[at + 1], index[at] - 1) for at in range(PLACES, len(index), 2) if index[at] != 0]
            slots = dict(held)
            assert len(slots) == len(held), "a key is in two places"
            assert len(slots) == min(room, len(names)), "slots are left and keys refused, or the other way round"
            assert sorted(slots.values()) == list(range(len(slots))), "a slot has two keys, or none"
            assert all(keys[slot] == key for key, slot in held), "KEYS says something else"
            for key, slot in [pair for pairs in put_in for pair in pairs]:
                assert slot == slots.get(key, FULL), "a key has another slot"
            for pairs in looked:
                assert all(slot in (ABSENT, slots.get(key, ABSENT)) for key, slot in pairs), "a key was found elsewhere"
                for key in dict(pairs):
                    of_key = [slot != ABSENT for one, slot in pairs if one == key]
                    assert of_key == sorted(of_key), "a key that was there is gone"
            for key, slot in held:  # it is reached from its home
                place = key & index[0]
                while index[PLACES + 2 * place + 1] != key or index[PLACES + 2 * place] != slot + 1:
                    assert index[PLACES + 2 * place] != 0, "a key cannot be reached"
                    place = (place + 1) & index[0]

        return threads, check

    return build


SAME = (2, [[1], [1]], [[1]])
COLLIDING = (2, [[1, 5], [5, 1]])
FEW = (1, [[1, 3], [3]], [[3]])
CASES = [SAME, COLLIDING, FEW, pytest.param((2, [[1], [5], [5]]), marks=pytest.mark.slow)]


@pytest.mark.parametrize("shape", CASES, ids=str)
def test_interleave_every_schedule(shape):
    bound = None if shape is SAME else 3
    assert exhaustive("index of keys", case(kernels(), *shape), preemptions=bound) > 30
    assert exhaustive("index of keys", case(kernels(), *shape), preemptions=3, memory=TSO) > 30


@pytest.mark.parametrize("count", [3_000, *rarely(8_000)])
def test_interleave_larger_cases(count):
    sampled("index of keys", case(kernels(), 4, [[1, 9, 2], [9, 1, 8], [2, 1, 9]], [[9, 9, 1]]), count)
    sampled("index of keys", case(kernels(), 2, [[1, 9, 2], [2, 9], [1, 9]], [[9, 9]]), count)


PUBLISHED = (
    "                keys[slot] = key  # N2\n"
    "                index[place + KEY] = key\n"
    "                store_release(index, place + SLOT, slot + 1)  # N3\n"
)
EARLY = (
    "                store_release(index, place + SLOT, slot + 1)  # N3\n"
    "                keys[slot] = key  # N2\n"
    "                index[place + KEY] = key\n"
)
CLAIM = "            if compare_exchange(index, place + SLOT, EMPTY, TAKEN):  # N1\n"
MISTAKES = {
    "published before the key is written": (SAME, (PUBLISHED, EARLY), "a key|KEYS|slots"),
    "claimed twice": (
        COLLIDING,
        (CLAIM, "            if True:\n                store_release(index, place + SLOT, TAKEN)\n"),
        "a key|a slot|slots|KEYS",
    ),
    "past a place that is being written": (
        SAME,
        ("            pause()\n", "            number = (number + 1) & index[MASK]\n"),
        "a key is in two places|a key has another slot",
    ),
    "refused and not given back": (FEW, ("store_release(index, place + SLOT, EMPTY)", "pass"), "deadlock|slots"),
    "looked up while it is written": (
        SAME,
        ("if slot == EMPTY or slot == TAKEN:", "if slot == EMPTY:"),
        "a key was found elsewhere",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_interleave_planted_mistakes_are_found(mistake):
    shape, bug, expected = MISTAKES[mistake]
    find_failure("index of keys", case(kernels(bug), *shape), expected)
