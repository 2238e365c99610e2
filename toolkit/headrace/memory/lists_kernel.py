"""Lists of words: the kernels behind ``hr.list_of``.

The elements lie one after another in a block of the arena. A full block is replaced
by one twice as large; the block is given back when the list becomes empty.
Indices are Python's: negative ones count from the end.

`free, arena, lists` give the owner of the blocks, and `heads, at` the list: see
`headrace.memory.arena`. The address of an element is valid until the list changes.

Checked     tests/headrace/memory/test_containers.py
"""

from __future__ import annotations

import numpy as np

from headrace.kernel import kernel
from headrace.memory.arena import CLASS, COUNT, FIRST, give_block, release, take_any
from headrace.memory.text_order import text_less
from headrace.memory.words import NAN_RANK, copy_words, float_rank

ORDER_INT, ORDER_FLOAT, ORDER_TEXT = 0, 1, 2
"""How words are ordered: as integers, as the floats whose bits they are (NaN last), as strings by code point."""

LEAST_CLASS = 2
RUN = 16
"""Elements that are sorted by insertion before such runs are merged."""


@kernel(borrows=True)
def class_for(least_class, words):
    """The smallest class, from `least_class` on, whose blocks have at least this many words."""
    size_class = np.int64(least_class)
    while (np.int64(1) << size_class) < words:
        size_class += 1
    return size_class


@kernel(borrows=True, seldom=True)
def enlarge(free, arena, lists, heads, at, words):
    """Move a list to a block of at least this many words. Returns 0, or -1 if there is no room."""
    size_class = class_for(max(LEAST_CLASS, heads[at + CLASS]), words)
    block = take_any(free, arena, lists, size_class)
    if block < 0:
        return -1
    old = heads[at + FIRST]
    if old != 0:
        copy_words(arena, block, arena, old, heads[at + COUNT])
        give_block(free, arena, lists, heads[at + CLASS], old)
    heads[at + FIRST] = block
    heads[at + CLASS] = size_class
    return 0


@kernel(borrows=True)
def list_append(free, arena, lists, heads, at, value):
    """Append a word. Returns 0, or -1 if there is no room."""
    count = heads[at + COUNT]
    # A list that has no block is of class 0.
    if count == (np.int64(1) << heads[at + CLASS]) & ~1:
        if enlarge(free, arena, lists, heads, at, count + 1) < 0:
            return -1
    arena[heads[at + FIRST] + count] = value
    heads[at + COUNT] = count + 1
    return 0


@kernel(borrows=True)
def list_place(heads, at, i):
    """Address of element i, or -1 if there is none."""
    count = heads[at + COUNT]
    if i < 0:
        i += count
    if i < 0 or i >= count:
        return np.int64(-1)
    return heads[at + FIRST] + i


@kernel(borrows=True)
def list_insert(free, arena, lists, heads, at, i, value):
    """Insert a word before element i, or at the nearest end. Returns 0, or -1 if there is no room."""
    count = heads[at + COUNT]
    i = slice_first(count, i)
    if list_append(free, arena, lists, heads, at, value) < 0:
        return -1
    place = heads[at + FIRST] + i
    copy_words(arena, place + 1, arena, place, count - i)
    arena[place] = value
    return 0


@kernel(borrows=True)
def list_pop(free, arena, lists, heads, at, i):
    """Remove element i; those after it move up. Returns 0, or -1 if there is no such element."""
    place = list_place(heads, at, i)
    if place < 0:
        return -1
    count = heads[at + COUNT] - 1
    heads[at + COUNT] = count
    if count == 0:
        release(free, arena, lists, heads, at)
    else:
        copy_words(arena, place, arena, place + 1, heads[at + FIRST] + count - place)
    return 0


@kernel(borrows=True)
def list_find(arena, heads, at, value, start, is_float):
    """Index of the first element from `start` (>= 0) on that equals a word, or -1.

    Floats are compared by ``==``: NaN equals nothing, -0.0 equals 0.0.
    """
    first = heads[at + FIRST]
    count = heads[at + COUNT]
    if is_float:
        rank = float_rank(value)
        if rank == NAN_RANK:
            return np.int64(-1)
        for i in range(start, count):
            if float_rank(arena[first + i]) == rank:
                return np.int64(i)
        return np.int64(-1)
    for i in range(start, count):
        if arena[first + i] == value:
            return np.int64(i)
    return np.int64(-1)


@kernel(borrows=True)
def slice_first(count, start):
    """The index at which a slice with this start (or stop) begins (or ends) in a list of `count` elements."""
    if start < 0:
        start += count
    return min(max(np.int64(0), start), count)


@kernel(borrows=True)
def slice_count(count, start, stop):
    """How many of `count` elements the slice ``[start:stop]`` has; for a slice without a stop, pass any stop >= count."""
    return max(np.int64(0), slice_first(count, stop) - slice_first(count, start))


@kernel(borrows=True)
def list_clear(free, arena, lists, heads, at):
    """Remove all elements."""
    release(free, arena, lists, heads, at)


@kernel(borrows=True)
def list_extend(free, arena, lists, heads, at, source_heads, source_at, first, count):
    """Append the `count` elements of a list from `first` on, all of which exist. Returns 0, or -1 if there is no room.

    Both lists are in this arena, and may be the same.
    """
    if count == 0:
        return 0
    have = heads[at + COUNT]
    if have + count > (np.int64(1) << heads[at + CLASS]) & ~1:
        if enlarge(free, arena, lists, heads, at, have + count) < 0:
            return -1
    copy_words(arena, heads[at + FIRST] + have, arena, source_heads[source_at + FIRST] + first, count)
    heads[at + COUNT] = have + count
    return 0


@kernel(borrows=True)
def list_copy(free, arena, lists, heads, at, source_heads, source_at, first, count):
    """Make a list equal to `count` elements of another one, all of which exist. Returns 0, or -1 if there is no room."""
    if count == 0:
        release(free, arena, lists, heads, at)
        return 0
    heads[at + COUNT] = 0
    return list_extend(free, arena, lists, heads, at, source_heads, source_at, first, count)


@kernel(borrows=True)
def list_reverse(arena, heads, at):
    """Reverse the elements."""
    low = heads[at + FIRST]
    high = low + heads[at + COUNT] - 1
    while low < high:
        word = arena[low]
        arena[low] = arena[high]
        arena[high] = word
        low += 1
        high -= 1


@kernel(borrows=True)
def word_less(a, b, order, prefixes, addresses, lengths):
    """Whether word `a` comes before `b`."""
    if order == ORDER_FLOAT:
        return float_rank(a) < float_rank(b)
    if order == ORDER_TEXT:
        return text_less(prefixes, addresses, lengths, a, b)
    return a < b


@kernel(borrows=True)
def list_sort(free, arena, lists, heads, at, order, prefixes, addresses, lengths):
    """Sort the elements; equal ones (0.0 and -0.0, NaNs) keep their order. Returns 0, or -1 if there is no room.

    More than `RUN` elements that are not in order yet are merged from one block into another.
    """
    first = heads[at + FIRST]
    count = heads[at + COUNT]
    in_order = np.int64(1)
    while in_order < count:
        if word_less(arena[first + in_order], arena[first + in_order - 1], order, prefixes, addresses, lengths):
            break
        in_order += 1
    if in_order >= count:
        return 0
    for begin in range(0, count, RUN):
        for i in range(max(begin + 1, in_order), min(begin + RUN, count)):
            word = arena[first + i]
            j = first + i
            while j > first + begin and word_less(word, arena[j - 1], order, prefixes, addresses, lengths):
                arena[j] = arena[j - 1]
                j -= 1
            arena[j] = word
    if count <= RUN:
        return 0
    other = take_any(free, arena, lists, heads[at + CLASS])
    if other < 0:
        return -1
    run = np.int64(RUN)
    while run < count:
        for begin in range(0, count, 2 * run):
            middle = min(begin + run, count)
            merge(
                arena, other, first, begin, middle, min(begin + 2 * run, count), order, prefixes, addresses, lengths
            )
        first, other = other, first
        run *= 2
    heads[at + FIRST] = first
    give_block(free, arena, lists, heads[at + CLASS], other)
    return 0


@kernel(borrows=True)
def merge(arena, to, first, begin, middle, end, order, prefixes, addresses, lengths):
    """Merge the runs [begin, middle) and [middle, end) of a block into another one."""
    i = begin
    j = middle
    for k in range(begin, end):
        if j == end or (
            i < middle and not word_less(arena[first + j], arena[first + i], order, prefixes, addresses, lengths)
        ):
            arena[to + k] = arena[first + i]
            i += 1
        else:
            arena[to + k] = arena[first + j]
            j += 1


@kernel(borrows=True)
def list_move(free, arena, lists, heads, at, new_free, new_arena, new_lists, new_heads, new_at):
    """Move a list to an empty one of another arena. Returns the bytes moved, or -1 if there is no room."""
    count = heads[at + COUNT]
    if count == 0:
        return np.int64(0)
    if enlarge(new_free, new_arena, new_lists, new_heads, new_at, count) < 0:
        return np.int64(-1)
    copy_words(new_arena, new_heads[new_at + FIRST], arena, heads[at + FIRST], count)
    new_heads[new_at + COUNT] = count
    release(free, arena, lists, heads, at)
    return 8 * count
