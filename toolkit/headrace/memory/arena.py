"""Blocks of words for state that grows: the lists, maps and sets of user functions, tables of distinct values.

An arena is a stretch of reserved memory. A block is 2**class words of it. Blocks
that are given back go to free lists, one for each class, of the *owner* that gives
them: a bucket of keys, or an instance for what lives while it handles one tuple. An
owner takes from its own lists first. So all instances share only one word, how far
the arena has been handed out, and take memory from it only when the state of an
owner becomes larger than it ever was.

A container (`lists_kernel`, `maps_kernel`) is known by a *head* of four words and
has at most one block. If all four words are zero it is empty, and has no block.

State       ARENA   word 0: words handed out, word 1: its size, from word SEED the seed
                    (a cache line of its own); blocks begin at word CELL
            FREE    by owner and class: a free block's place, 0 if there is none; its
                    first word is the next one's place. `lists` of an owner is where
                    the owner's entries begin: owner * CLASSES. Entry FREE_WORDS is how
                    many words all its free blocks have (there is no block of that class)
            HEADS   FIRST  the block, 0: none
                    CLASS  its class in the low bits; the container's flags above them
                    COUNT  elements or entries
                    STATE  a container's own; stays when its block is given back
Invariants  I1  FREE and HEADS of an owner are touched only by the instance that has it
            I2  a block is in one head or in one free list, and in each once
            I3  what was never handed out is zero
Ordering    ARENA[0] is advanced by fetch_add; the rest is ordered by the barrier at
            which an owner passes from one instance to another (`epochs`, B1 to B5).
Checked     tests/headrace/memory/test_containers.py
"""

from __future__ import annotations

import numpy as np

from headrace.kernel import kernel
from headrace.memory.atomics import CELL, fetch_add
from headrace.memory.cells import read_cell, read_cells, reserved, reserved_or_less
from headrace.memory.seeded import draw_seed, seed_at
from headrace.memory.words import clear_words

CLASSES = 48
FREE_WORDS = CLASSES - 1
HANDED_OUT, SIZE, SEED = 0, 1, 8
CUT_CLASS = 6
"""Smaller blocks are cut from one of this class: 512 bytes."""
ARENA_WORDS = 1 << 32
"""32 GiB of address space, less where the system grants less. A page is allocated when it is written."""

FIRST, CLASS, COUNT, STATE, HEAD = range(5)
CLASS_MASK = 63

_LEAST_ARENA_WORDS = 1 << 20


def allocate_arena(owners: int, limit_words: int = ARENA_WORDS) -> tuple[np.ndarray, np.ndarray]:
    """Allocate FREE for this many owners, and ARENA of at most `limit_words`."""
    arena = reserved_or_less(limit_words, min(limit_words, _LEAST_ARENA_WORDS), np.int64)
    arena[SIZE] = arena.size
    arena[SEED : SEED + 4] = np.array(draw_seed(), np.uint64).view(np.int64)
    return reserved(owners * CLASSES, np.int64), arena


def used_bytes(free: np.ndarray, arena: np.ndarray) -> int:
    """Return how many bytes are in blocks that are not free; may be called while instances work."""
    handed_out = min(int(read_cell(arena, HANDED_OUT)), arena.size - CELL)
    return 8 * max(0, handed_out - int(read_cells(free[FREE_WORDS:], CLASSES).sum()))


@kernel(borrows=True)
def seed_of(arena):
    """Return the seed of the hash tables in the arena."""
    return seed_at(arena, SEED)


@kernel(borrows=True)
def give_block(free, arena, lists, size_class, block):
    """Put a block on its owner's free list."""
    arena[block] = free[lists + size_class]
    free[lists + size_class] = block
    free[lists + FREE_WORDS] += np.int64(1) << size_class


@kernel(borrows=True)
def take_fresh(free, arena, lists, size_class):
    """Take a block that was never used. Returns its first word, or -1 if the arena is used up.

    It is zero. A small block is the first piece of a larger one, whose other pieces become free blocks of the owner: so
    small blocks of two owners are on different cache lines.
    """
    words = np.int64(1) << max(size_class, CUT_CLASS)
    block = fetch_add(arena, HANDED_OUT, words) + CELL
    if block + words > arena[SIZE]:
        return np.int64(-1)
    piece = np.int64(1) << size_class
    for free_block in range(block + words - piece, block, -piece):
        give_block(free, arena, lists, size_class, free_block)
    return block


@kernel(borrows=True)
def take_any(free, arena, lists, size_class):
    """Take a block of 2**size_class words with any content. Returns its first word, or -1 if the arena is used up."""
    block = free[lists + size_class]
    if block == 0:
        return take_fresh(free, arena, lists, size_class)
    free[lists + size_class] = arena[block]
    free[lists + FREE_WORDS] -= np.int64(1) << size_class
    return block


@kernel(borrows=True)
def take_block(free, arena, lists, size_class):
    """Take a block of 2**size_class words that are zero. Returns its first word, or -1 if the arena is used up."""
    if free[lists + size_class] == 0:
        return take_fresh(free, arena, lists, size_class)
    block = take_any(free, arena, lists, size_class)
    clear_words(arena, block, np.int64(1) << size_class)
    return block


@kernel(borrows=True)
def release(free, arena, lists, heads, at):
    """Make a container empty and give its block back."""
    block = heads[at + FIRST]
    if block != 0:
        give_block(free, arena, lists, heads[at + CLASS] & CLASS_MASK, block)
        heads[at + FIRST] = 0
        heads[at + CLASS] = 0
        heads[at + COUNT] = 0
