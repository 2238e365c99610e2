"""Blocks of memory for outputs that wait their turn: one worker allocates them, the one that drains frees them.

Unlike in `memory.arena`, the worker that frees a block need not be the one that allocated
it, so no worker owns a free list: each class has one, a stack whose head is changed by
compare-and-swap.

State       ARENA  word 0: words handed out; from word CELL on: what was handed out, the rings between stages first
            POOL   a cell for each class: a free block's place in the low 32 bits, 0: none,
                   above them how often the head was changed
Invariants  I1  a block is in one slot, with one worker, or in one free list
            I2  the first word of a free block is the place of the next one
Ordering    P1 (give) the next block's place is written, P2 compare_exchange of the head;
            T1 (take) load_acquire of the head, T2 the next one's place is read, T3
            compare_exchange of the head
                    P1 -> P2 -> T1 -> T2: T2 reads what P1 wrote, unless another worker took
                    the block in between and overwrote it; then the head has changed, and with it
                    the count, and T3 fails (no ABA before 2^32 changes between T1 and T3)
Progress    Lock-free: a compare_exchange fails only because another one succeeded.
Checked     tests/headrace/ordering/test_interleave.py (sampled)
"""

from __future__ import annotations

from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    compare_exchange,
    fetch_add,
    load_acquire,
    load_relaxed,
    store_relaxed,
)

HANDED_OUT = 0
CLASSES = 40
LEAST_CLASS = 4
_PLACE = (1 << 32) - 1
_CHANGE = 1 << 32


@kernel
def take_block(c, size_class):
    """Take a block of 2**size_class words, not cleared. Returns its first word, or -1 if the arena is used up."""
    while True:
        head = load_acquire(c.pool, size_class * CELL)  # T1
        block = head & _PLACE
        if block == 0:
            break
        following = load_relaxed(c.arena, block) & _PLACE  # T2
        if compare_exchange(c.pool, size_class * CELL, head, (head & ~_PLACE) + _CHANGE + following):  # T3
            return block
    words = 1 << size_class
    if load_relaxed(c.arena, HANDED_OUT) + words + CELL > c.arena.size:
        return -1
    block = fetch_add(c.arena, HANDED_OUT, words) + CELL
    return block if block + words <= c.arena.size else -1


@kernel
def give_block(c, size_class, block):
    """Put a block on the free list of its class."""
    while True:
        head = load_acquire(c.pool, size_class * CELL)
        store_relaxed(c.arena, block, head & _PLACE)  # P1
        if compare_exchange(c.pool, size_class * CELL, head, (head & ~_PLACE) + _CHANGE + block):  # P2
            return


__all__ = ["CLASSES", "HANDED_OUT", "LEAST_CLASS", "give_block", "take_block"]
