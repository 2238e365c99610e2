"""Sets of values for exact distinct counts: one hash table for each bucket of keys and window slot.

All keys of a bucket have one owner, and all windows of a slot expire at once.
So only one instance touches a table, single entries are never deleted, and the
table changes owner with its bucket, in place. An entry has two words: TAG, the
key's row within its bucket plus 1, and BITS, the value as 64 bits.

Tables are blocks of an arena (`memory.arena`), in which each bucket of each column
is an owner. A full table moves to a block twice as large.

The place of an entry depends on the arena's seed, so an attacker cannot choose
values that all collide. Chance puts an entry at most a few hundred entries from its
place; if one lies more than `PROBE_LIMIT` away, its table grows.

State       TABLES  FIRST word, size CLASS, entries USED of each table; one of
            size class c is a block of 2**c entries
            FREE, ARENA  of `memory.arena`
Invariants  I1  TABLES entries of a bucket are touched by its owner only
            I2  a table has a free entry: at most 3/4 are used
Ordering    The barrier between two owners (`epochs`, B1 to B5).
Checked     tests/headrace/elastic/test_distinct.py
"""

from __future__ import annotations

import numpy as np

from headrace.kernel import kernel
from headrace.memory.arena import ARENA_WORDS, CLASSES, allocate_arena, give_block, seed_of, take_block
from headrace.memory.cells import reserved
from headrace.memory.seeded import seeded_pair
from headrace.references import BUCKETS

FIRST, CLASS, USED, TABLE_WORDS = range(4)
"""Words of a table in TABLES, and how many it has."""
TAG, BITS, ENTRY_WORDS = range(3)
"""Words of an entry, and how many it has."""
LEAST_CLASS = 3
PROBE_LIMIT = 4096
"""The farthest that an entry may lie from its place before its table grows."""


def allocate(
    columns: int, slots: int, arena_words: int = ARENA_WORDS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Allocate TABLES, FREE and ARENA for `columns` distinct counts."""
    tables = reserved(columns * BUCKETS * slots * TABLE_WORDS, np.int64)
    return (tables, *allocate_arena(columns * BUCKETS, arena_words))


@kernel(borrows=True)
def place_of(arena, tag, bits, size_class):
    """The place where probing for an entry begins."""
    h = seeded_pair(np.uint64(np.int64(bits)), np.uint64(np.int64(tag)), seed_of(arena))
    return np.int64(h & np.uint64((np.int64(1) << size_class) - 1))


@kernel(borrows=True)
def put(arena, first, size_class, tag, bits):
    """Find or add an entry: 0 if it was there; else 1, or 2 if it lies more than `PROBE_LIMIT` from its place."""
    mask = (np.int64(1) << size_class) - 1
    home = place_of(arena, tag, bits, size_class)
    i = home
    while True:
        entry = first + ENTRY_WORDS * i
        held = arena[entry + TAG]
        if held == 0:
            arena[entry + TAG] = tag
            arena[entry + BITS] = bits
            return 2 if ((i - home) & mask) > PROBE_LIMIT else 1
        if held == tag and arena[entry + BITS] == bits:
            return 0
        i = (i + 1) & mask


@kernel(borrows=True)
def grow(tables, free, arena, at, lists):
    """Move a table to a larger block, or give it its first one. Returns 0, or -1 if the arena is used up."""
    old_class = tables[at + CLASS]
    new_class = max(LEAST_CLASS, old_class + 1)
    block = take_block(free, arena, lists, 1 + new_class)
    if block < 0:
        return -1
    old = tables[at + FIRST]
    if old != 0:
        for i in range(np.int64(1) << old_class):
            entry = old + ENTRY_WORDS * i
            if arena[entry + TAG] != 0:
                put(arena, block, new_class, arena[entry + TAG], arena[entry + BITS])
        give_block(free, arena, lists, 1 + old_class, old)
    tables[at + FIRST] = block
    tables[at + CLASS] = new_class
    return 0


@kernel(borrows=True)
def add_value(tables, free, arena, slots, column, key, slot, bits):
    """Add a value to the set of a key and window: 1 if it is new, 0 if not, -1 if the arena is used up.

    Parameters
    ----------
    column : int
        Which distinct count.
    key : int
        Key id.
    slot : int
        The window's slot.
    bits : int
        The value.
    """
    bucket = column * BUCKETS + (key & (BUCKETS - 1))
    at = (bucket * slots + slot) * TABLE_WORDS
    lists = bucket * CLASSES
    size_class = tables[at + CLASS]
    if size_class == 0 or 4 * (tables[at + USED] + 1) > 3 << size_class:
        if grow(tables, free, arena, at, lists) < 0:
            return -1
        size_class = tables[at + CLASS]
    new = put(arena, tables[at + FIRST], size_class, key // BUCKETS + 1, bits)
    tables[at + USED] += new
    if new == 2:
        tables[at + USED] = 3 << size_class >> 2  # full: it grows before the next value
        return 1
    return new


@kernel(borrows=True)
def forget_window(tables, free, arena, slots, columns, bucket, slot):
    """Empty the sets of one bucket and slot: their window has expired."""
    for column in range(columns):
        at = ((column * BUCKETS + bucket) * slots + slot) * TABLE_WORDS
        if tables[at + FIRST] != 0:
            lists = (column * BUCKETS + bucket) * CLASSES
            give_block(free, arena, lists, 1 + tables[at + CLASS], tables[at + FIRST])
            tables[at + FIRST] = 0
            tables[at + CLASS] = 0
            tables[at + USED] = 0


@kernel(borrows=True)
def move_bucket(tables, free, arena, new_tables, new_free, new_arena, slots, columns, bucket):
    """Move the sets of a bucket to another array set (shared-nothing mode). Returns the bytes moved, or -1 if it is full."""
    moved = 0
    for column in range(columns):
        for slot in range(slots):
            at = ((column * BUCKETS + bucket) * slots + slot) * TABLE_WORDS
            first = tables[at + FIRST]
            if first == 0:
                continue
            for i in range(np.int64(1) << tables[at + CLASS]):
                entry = first + ENTRY_WORDS * i
                if arena[entry + TAG] != 0:
                    key = (arena[entry + TAG] - 1) * BUCKETS + bucket
                    if add_value(new_tables, new_free, new_arena, slots, column, key, slot, arena[entry + BITS]) < 0:
                        return -1
                    moved += 8 * ENTRY_WORDS
    for slot in range(slots):
        forget_window(tables, free, arena, slots, columns, bucket, slot)
    return moved
