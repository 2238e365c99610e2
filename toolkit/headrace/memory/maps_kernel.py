"""Maps and sets of words: the kernels behind ``hr.map_of`` and ``hr.set_of``.

A map's entries lie densely in a block of the arena, in no particular order until
they are needed in the order of their keys. An entry is the key and `width` words of
value (for a set, none). After the entries, in the same block, comes an index of int32,
two per word: each is the number of an entry plus 1, or 0.

Most keys are small integers, so the index is used in one of two ways::

    direct   every key is in [0, slots): the key itself is its place in the index
    hashed   a key is at the place that its seeded hash gives, or after it (linear probing)

A map begins direct, becomes hashed with the first key that is out of range, and may
become direct again when it moves to a larger block. Either way an attacker cannot
choose keys that collide, and only time depends on the hash.

`free, arena, lists` give the owner of the blocks, and `heads, at` the map: see
`headrace.memory.arena`. `width` is the same in every call for a map. The address of an
entry is valid until a key is added or removed, or the entries are ordered.

State       CLASS  the block's class; HASHED is set if the index is
            STATE  IN_ORDER is set if the entries are in the order of their keys; the rest
                   counts changes of the set of keys, by NEW_KEYS
Invariants  I1  entries 0..COUNT-1 have different keys, and each is in the index once
            I2  the index has no other entries; a hashed one is at most 3/4 full, in blocks of middle size 3/8
            I3  between the place of a hashed entry and the entry itself no place is empty
Checked     tests/headrace/memory/test_containers.py
"""

from __future__ import annotations

import numpy as np

from headrace.kernel import kernel
from headrace.memory.arena import (
    CLASS,
    CLASS_MASK,
    COUNT,
    FIRST,
    STATE,
    give_block,
    release,
    seed_of,
    take_any,
)
from headrace.memory.atomics import prefetch, prefetch_for_write
from headrace.memory.lists_kernel import ORDER_INT, word_less
from headrace.memory.seeded import seeded
from headrace.memory.words import clear_words, copy_words, half, set_half

VALUE = 1
"""The value of an entry begins this many words after its key."""
LEAST_CLASS = 3
LEAST_SPARSE, MOST_SPARSE = 5, 15
"""The classes of blocks with twice as many places in the index: in a half-full index every third key is not at its place, and a
mispredicted branch takes longer than all the rest. Larger blocks wait for memory, and smaller ones are numerous."""
HASHED = 64
IN_ORDER = 1
NEW_KEYS = 2
RUN = 8
"""Entries that are sorted by insertion before such runs are merged."""


@kernel(borrows=True)
def slots_of(size_class, width):
    """How many places the index has: the least power of two that can never become more than 3/8, or 3/4, full."""
    slots = np.int64(1) << size_class
    entry_words = 3 * (width + 1) + 2
    if LEAST_SPARSE <= size_class <= MOST_SPARSE:
        entry_words = (entry_words + 2) >> 1
    while entry_words >= 8:
        slots >>= 1
        entry_words >>= 1
    return slots


@kernel(borrows=True)
def entry(heads, at, i, width):
    """Address of entry `i`, in 0..COUNT-1: the key; the words of its value follow, from VALUE on."""
    return heads[at + FIRST] + i * (width + 1)


@kernel(borrows=True)
def home_of(arena, key, slots):
    """The place where probing for a hashed key begins."""
    h = seeded(np.uint64(np.int64(key)), seed_of(arena))
    return np.int64(h & np.uint64(slots - 1))


@kernel(borrows=True)
def find_hashed(arena, first, index, slots, key, width):
    """The same as `map_find`, for a hashed index."""
    i = home_of(arena, key, slots)
    while True:
        number = half(arena, index + i)
        if number == 0:
            return np.int64(-1)
        place = first + (number - 1) * (width + 1)
        if arena[place] == key:
            return place
        i = (i + 1) & (slots - 1)


@kernel(borrows=True)
def map_find(arena, heads, at, key, width):
    """Address of the entry of a key, or -1 if there is none."""
    first = heads[at + FIRST]
    if first == 0:
        return np.int64(-1)
    size_class = heads[at + CLASS] & CLASS_MASK
    slots = slots_of(size_class, width)
    index = 2 * (first + (np.int64(1) << size_class)) - slots
    if heads[at + CLASS] & HASHED != 0:
        return find_hashed(arena, first, index, slots, key, width)
    if key < 0 or key >= slots:
        return np.int64(-1)
    number = half(arena, index + key)
    if number == 0:
        return np.int64(-1)
    return first + (number - 1) * (width + 1)


@kernel(borrows=True)
def fetch_index(arena, heads, at, key, width):
    """Prefetch the place in the index where the search for a key begins. Another thread may change the map meanwhile."""
    prefetch(arena, first_looked_at(arena, heads, at, key, width) >> 1)


@kernel(borrows=True)
def fetch_entry(arena, heads, at, key, width):
    """Prefetch the entry of a key, to write it, if it is where the search begins. Another thread may change the map meanwhile."""
    place = first_looked_at(arena, heads, at, key, width)
    if place < 0 or place >> 1 >= arena.size:
        return  # fields of the head of before and after a change
    found = heads[at + FIRST] + (half(arena, place) - 1) * (width + 1)
    prefetch_for_write(arena, found)
    prefetch_for_write(arena, found + width)


@kernel(borrows=True)
def first_looked_at(arena, heads, at, key, width):
    """The place in the index where the search for a key begins, in half words of the arena; anything while the map changes."""
    size_class = heads[at + CLASS] & CLASS_MASK
    slots = slots_of(size_class, width)
    index = 2 * (heads[at + FIRST] + (np.int64(1) << size_class)) - slots
    return index + (home_of(arena, key, slots) if heads[at + CLASS] & HASHED != 0 else key)


@kernel(inline=True, borrows=True)
def map_put(free, arena, lists, heads, at, key, width):
    """Address of the entry of a key, which is added with a zero value if it is new; -1 if there is no room."""
    place = map_find(arena, heads, at, key, width)
    if place >= 0:
        return place
    return map_add(free, arena, lists, heads, at, key, width)


@kernel(borrows=True, seldom=True)
def map_add(free, arena, lists, heads, at, key, width):
    """Add a key that the map does not have; returns as `map_put`."""
    count = heads[at + COUNT]
    size_class = heads[at + CLASS] & CLASS_MASK
    slots = slots_of(size_class, width)
    first = heads[at + FIRST]
    if first == 0 or (count + 1) * (width + 1) > (np.int64(1) << size_class) - (slots >> 1):
        if enlarge(free, arena, lists, heads, at, count + 1, key, width) < 0:
            return np.int64(-1)
        size_class = heads[at + CLASS] & CLASS_MASK
        slots = slots_of(size_class, width)
        first = heads[at + FIRST]
    elif heads[at + CLASS] & HASHED == 0 and (key < 0 or key >= slots):
        heads[at + CLASS] |= HASHED
        make_index(arena, heads, at, width)
    place = first + count * (width + 1)
    arena[place] = key
    for i in range(place + VALUE, place + VALUE + width):
        arena[i] = 0
    heads[at + COUNT] = count + 1
    heads[at + STATE] = (heads[at + STATE] + NEW_KEYS) & ~IN_ORDER
    set_half(arena, empty_place(arena, heads, at, key, first, size_class, slots), count + 1)
    return place


@kernel(borrows=True)
def empty_place(arena, heads, at, key, first, size_class, slots):
    """The place in the index, in half words of the arena, for a key that the map does not have."""
    index = 2 * (first + (np.int64(1) << size_class)) - slots
    if heads[at + CLASS] & HASHED == 0:
        return index + key
    i = home_of(arena, key, slots)
    while half(arena, index + i) != 0:
        i = (i + 1) & (slots - 1)
    return index + i


@kernel(borrows=True)
def make_index(arena, heads, at, width):
    """Rebuild the index."""
    first = heads[at + FIRST]
    size_class = heads[at + CLASS] & CLASS_MASK
    slots = slots_of(size_class, width)
    clear_words(arena, first + (np.int64(1) << size_class) - (slots >> 1), slots >> 1)
    for i in range(heads[at + COUNT]):
        key = arena[first + i * (width + 1)]
        set_half(arena, empty_place(arena, heads, at, key, first, size_class, slots), i + 1)


@kernel(borrows=True)
def enlarge(free, arena, lists, heads, at, count, key, width):
    """Move a map to a block for at least `count` entries, this key among them. Returns 0, or -1 if there is no room."""
    size_class = max(np.int64(LEAST_CLASS), heads[at + CLASS] & CLASS_MASK)
    # At least two entries: a block for a single one would soon be replaced.
    words = max(count, 2) * (width + 1)
    while words > (np.int64(1) << size_class) - (slots_of(size_class, width) >> 1):
        size_class += 1
    block = take_any(free, arena, lists, size_class)
    if block < 0:
        return -1
    old = heads[at + FIRST]
    have = heads[at + COUNT]
    if old != 0:
        copy_words(arena, block, arena, old, have * (width + 1))
        give_block(free, arena, lists, heads[at + CLASS] & CLASS_MASK, old)
    heads[at + FIRST] = block
    index_anew(arena, heads, at, size_class, key, width)
    return 0


@kernel(borrows=True)
def index_anew(arena, heads, at, size_class, key, width):
    """Build the index of a map that has moved to another block: direct, if its keys and this one allow it."""
    slots = slots_of(size_class, width)
    first = heads[at + FIRST]
    is_direct = 0 <= key < slots
    for i in range(heads[at + COUNT]):
        held = arena[first + i * (width + 1)]
        if held < 0 or held >= slots:
            is_direct = False
            break
    heads[at + CLASS] = size_class if is_direct else size_class | HASHED
    make_index(arena, heads, at, width)


@kernel(borrows=True)
def index_place(arena, heads, at, key, number, first, size_class, slots):
    """The place in the index, in half words of the arena, of an entry that the map has."""
    index = 2 * (first + (np.int64(1) << size_class)) - slots
    if heads[at + CLASS] & HASHED == 0:
        return index + key
    i = home_of(arena, key, slots)
    while half(arena, index + i) != number:
        i = (i + 1) & (slots - 1)
    return index + i


@kernel(borrows=True)
def map_remove(free, arena, lists, heads, at, key, width):
    """Remove a key; the last entry takes its place. Returns 1, or 0 if the map does not have the key."""
    place = map_find(arena, heads, at, key, width)
    if place < 0:
        return 0
    first = heads[at + FIRST]
    last = heads[at + COUNT] - 1
    heads[at + STATE] += NEW_KEYS
    if last == 0:
        release(free, arena, lists, heads, at)
        return 1
    size_class = heads[at + CLASS] & CLASS_MASK
    slots = slots_of(size_class, width)
    number = (place - first) // (width + 1) + 1
    hole = index_place(arena, heads, at, key, number, first, size_class, slots)
    set_half(arena, hole, 0)
    if heads[at + CLASS] & HASHED != 0:
        close_hole(arena, hole, first, size_class, slots, width)
    end = first + last * (width + 1)
    if place != end:
        moved = arena[end]
        set_half(arena, index_place(arena, heads, at, moved, last + 1, first, size_class, slots), number)
        copy_words(arena, place, arena, end, width + 1)
        heads[at + STATE] &= ~IN_ORDER
    heads[at + COUNT] = last
    return 1


@kernel(borrows=True)
def close_hole(arena, hole, first, size_class, slots, width):
    """Move entries of a hashed index back after a place before them became empty, so that each can still be found (I3)."""
    index = 2 * (first + (np.int64(1) << size_class)) - slots
    mask = slots - 1
    i = hole - index
    j = i
    while True:
        j = (j + 1) & mask
        number = half(arena, index + j)
        if number == 0:
            return
        home = home_of(arena, arena[first + (number - 1) * (width + 1)], slots)
        # It may stay where it is only if its home is after the hole.
        if ((j - home) & mask) >= ((j - i) & mask):
            set_half(arena, index + i, number)
            set_half(arena, index + j, 0)
            i = j


@kernel(borrows=True)
def map_clear(free, arena, lists, heads, at):
    """Remove all keys."""
    if heads[at + COUNT] != 0:
        heads[at + STATE] += NEW_KEYS
        release(free, arena, lists, heads, at)


@kernel(borrows=True)
def map_order(arena, heads, at, width, order, prefixes, addresses, lengths):
    """Put the entries into the order of their keys, unless they are in it; takes no block.

    The numbers of the entries are sorted by merging, in the space of the index: at least a
    third of its places is free, and a run is copied there while it is merged with a longer one.
    """
    if heads[at + STATE] & IN_ORDER != 0:
        return
    heads[at + STATE] |= IN_ORDER
    count = heads[at + COUNT]
    stride = width + 1
    first = heads[at + FIRST]
    in_order = np.int64(1)
    while in_order < count:
        key = arena[first + in_order * stride]
        if word_less(key, arena[first + (in_order - 1) * stride], order, prefixes, addresses, lengths):
            break
        in_order += 1
    if in_order >= count:
        return
    size_class = heads[at + CLASS] & CLASS_MASK
    slots = slots_of(size_class, width)
    index = 2 * (first + (np.int64(1) << size_class)) - slots
    if heads[at + CLASS] & HASHED == 0 and order == ORDER_INT:
        found = index
        for i in range(index, index + slots):
            number = half(arena, i)
            if number != 0:
                set_half(arena, found, number - 1)
                found += 1
    else:
        for i in range(count):
            set_half(arena, index + i, i)
        # In two parts: the second one fits into the room after the numbers.
        part = max(in_order, count - count // 3)
        sort_numbers(arena, index, in_order, 0, part, index + count, first, stride, order, prefixes, addresses, lengths)
        sort_numbers(arena, index, 0, part, count, index + count, first, stride, order, prefixes, addresses, lengths)
        if part < count:  # else there is no second part, and no number at `part`
            merge_numbers(arena, index, 0, part, count, index + count, first, stride, order, prefixes, addresses, lengths)
    for i in range(count):
        follow(arena, index, i, first, stride)
    make_index(arena, heads, at, width)


@kernel(borrows=True)
def number_less(arena, a, b, first, stride, order, prefixes, addresses, lengths):
    """Whether entry number `a` comes before number `b`."""
    return word_less(arena[first + a * stride], arena[first + b * stride], order, prefixes, addresses, lengths)


@kernel(borrows=True)
def sort_numbers(arena, index, in_order, begin, end, room, first, stride, order, prefixes, addresses, lengths):
    """Sort the entry numbers [begin, end) at `index` by their entries' keys; [0, in_order) is sorted already."""
    if end <= in_order:
        return
    for low in range(begin, end, RUN):
        for i in range(max(low + 1, in_order), min(low + RUN, end)):
            number = half(arena, index + i)
            j = i
            while j > low and number_less(
                arena, number, half(arena, index + j - 1), first, stride, order, prefixes, addresses, lengths
            ):
                set_half(arena, index + j, half(arena, index + j - 1))
                j -= 1
            set_half(arena, index + j, number)
    run = np.int64(RUN)
    while run < end - begin:
        for low in range(begin, end - run, 2 * run):
            high = min(low + 2 * run, end)
            merge_numbers(arena, index, low, low + run, high, room, first, stride, order, prefixes, addresses, lengths)
        run *= 2


@kernel(borrows=True)
def merge_numbers(arena, index, low, middle, high, room, first, stride, order, prefixes, addresses, lengths):
    """Merge the runs [low, middle) and [middle, high), from the end; `room` has space for the second one."""
    if not number_less(
        arena, half(arena, index + middle), half(arena, index + middle - 1),
        first, stride, order, prefixes, addresses, lengths,
    ):  # fmt: skip
        return
    for i in range(high - middle):
        set_half(arena, room + i, half(arena, index + middle + i))
    i = middle - 1
    j = high - middle - 1
    k = high - 1
    while j >= 0:
        number = half(arena, room + j)
        if i >= low and number_less(
            arena, number, half(arena, index + i), first, stride, order, prefixes, addresses, lengths
        ):
            set_half(arena, index + k, half(arena, index + i))
            i -= 1
        else:
            set_half(arena, index + k, number)
            j -= 1
        k -= 1


@kernel(borrows=True)
def follow(arena, index, i, first, stride):
    """Move the entries of one cycle of the permutation: to place `i` the entry whose number is there, and so on."""
    here = np.int64(i)
    while True:
        source = half(arena, index + here)
        set_half(arena, index + here, here)
        if source == i:
            return
        for w in range(stride):
            a = first + here * stride + w
            b = first + source * stride + w
            word = arena[a]
            arena[a] = arena[b]
            arena[b] = word
        here = source


@kernel(borrows=True)
def map_move(free, arena, lists, heads, at, new_free, new_arena, new_lists, new_heads, new_at, width):
    """Move a map to an empty one of another arena. Returns the bytes moved, or -1 if there is no room."""
    count = heads[at + COUNT]
    if count == 0:
        return np.int64(0)
    size_class = heads[at + CLASS] & CLASS_MASK
    block = take_any(new_free, new_arena, new_lists, size_class)
    if block < 0:
        return np.int64(-1)
    first = heads[at + FIRST]
    copy_words(new_arena, block, arena, first, count * (width + 1))
    new_heads[new_at + FIRST] = block
    new_heads[new_at + COUNT] = count
    new_heads[new_at + STATE] = heads[at + STATE]
    index_anew(new_arena, new_heads, new_at, size_class, arena[first], width)
    release(free, arena, lists, heads, at)
    return 8 * (width + 1) * count
