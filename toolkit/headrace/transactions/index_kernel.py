"""Finds the row of a key: a hash table that several threads read and extend at once.

The rows of a table have *slots*, numbered from 0. Where the keys are a range of
whole numbers, a key's slot is its distance from the least one (`find_direct`). Otherwise
there is a hash table with linear probing, at most half full, whose hash has a random
seed, so that keys cannot be chosen to collide. A key is an int64; a string is known by
its id. Keys are never removed; several threads may insert and look up at once.

Which slot a new key gets depends on which thread is first. Nothing but the place of
its row may depend on that.

State       INDEX  MASK   number of places - 1, a power of two minus 1
                   ROOM   number of slots
                   SEED   the seed of the hash, four words
                   USED   slots requested so far, on a cache line of its own; more than
                          ROOM if some were refused
                   from word PLACES on, for each place two words:
                   SLOT   EMPTY, TAKEN while its key is written, or the slot + 1
                   KEY
            KEYS   by slot: its key
Invariants  I1  a place leaves EMPTY by a compare_exchange to TAKEN, and only the thread
                that did it writes KEY and then SLOT. From TAKEN it becomes a slot, which
                stays, or EMPTY again if there is none left
            I2  no thread that inserts goes past a place that is TAKEN: so no key lies
                behind a place that is EMPTY, or becomes EMPTY again
            I3  hence a key is in one place, and has one slot
Ordering    N1 compare_exchange SLOT, N2 write KEYS and KEY, N3 store_release SLOT
            R1 load_acquire SLOT, R2 read KEY      N3 -> R1, so R2 sees N2
            A thread that has a slot from N3 or R1 may read KEYS of it.
Progress    Looking up never waits: a key that is being written is not there yet.
            Inserting waits for a thread between N1 and N3, which itself waits for none.
Checked     tests/headrace/transactions/test_index.py
"""

from __future__ import annotations

import numpy as np

from headrace.ingress.keys_kernel import UNTOUCHED
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    compare_exchange,
    fetch_add,
    load_acquire,
    load_relaxed,
    pause,
    store_relaxed,
    store_release,
)
from headrace.memory.cells import reserved
from headrace.memory.seeded import SEED_WORDS, draw_seed, seed_at, seeded

MASK, ROOM, SEED = range(3)
USED, PLACES = CELL, 2 * CELL
SLOT, KEY, PLACE_WORDS = range(3)
"""Words of a place, and how many it has."""

EMPTY, TAKEN = 0, -1
ABSENT, FULL = -1, -2


def allocate_index(room: int) -> np.ndarray:
    """Allocate INDEX for a number of slots."""
    places = 2
    while places < 2 * room:
        places *= 2
    index = reserved(PLACES + PLACE_WORDS * places, np.int64)
    index[MASK], index[ROOM] = places - 1, room
    index[SEED : SEED + SEED_WORDS] = np.array(draw_seed(), np.uint64).view(np.int64)
    return index


def used_slots(index: np.ndarray) -> int:
    """Return how many slots have a key, while no thread inserts."""
    return min(int(index[USED]), int(index[ROOM]))


@kernel(borrows=True)
def find_direct(key, least, last):
    """The slot of a key where the keys are the whole numbers from `least` to `last`, or ABSENT."""
    if key < least or key > last:
        return np.int64(ABSENT)
    return np.int64(key - least)


@kernel(borrows=True)
def home_of(index, key):
    """The number of the place where the search for a key begins."""
    return np.int64(seeded(np.uint64(np.int64(key)), seed_at(index, SEED)) & np.uint64(index[MASK]))


@kernel(borrows=True)
def find_hashed(index, key):
    """The slot of a key, or ABSENT."""
    number = home_of(index, key)
    while True:
        place = PLACES + PLACE_WORDS * number
        slot = load_acquire(index, place + SLOT)  # R1
        if slot == EMPTY or slot == TAKEN:
            return np.int64(ABSENT)
        if index[place + KEY] == key:  # R2
            return slot - 1
        number = (number + 1) & index[MASK]


@kernel(borrows=True)
def insert_hashed(index, keys, key):
    """The slot of a key, which is inserted if it is absent; FULL if no slot is left for it."""
    number = home_of(index, key)
    while True:
        place = PLACES + PLACE_WORDS * number
        slot = load_acquire(index, place + SLOT)  # R1
        if slot == EMPTY:
            if compare_exchange(index, place + SLOT, EMPTY, TAKEN):  # N1
                slot = fetch_add(index, USED, 1)
                if slot >= index[ROOM]:
                    store_release(index, place + SLOT, EMPTY)
                    return np.int64(FULL)
                keys[slot] = key  # N2
                index[place + KEY] = key
                store_release(index, place + SLOT, slot + 1)  # N3
                return slot
        elif slot == TAKEN:
            pause()
        elif index[place + KEY] == key:  # R2
            return slot - 1
        else:
            number = (number + 1) & index[MASK]


@kernel(borrows=True)
def insert_text(index, keys, held, key):
    """As `insert_hashed`, for the id of a string, which is kept until the run ends (`OrderedTexts.held`)."""
    slot = insert_hashed(index, keys, key)
    if slot >= 0 and load_relaxed(held, key) != UNTOUCHED:
        store_relaxed(held, key, UNTOUCHED)
    return slot


@kernel
def insert_all(index, keys, given):
    """Insert all of `given`, by one thread; in an empty index key i gets slot i."""
    for i in range(given.size):
        insert_hashed(index, keys, given[i])
