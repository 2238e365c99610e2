"""Operations of user functions on lists, sets, maps and strings: the kernels that rewritten functions call.

The kernels of `headrace.memory` find, add and remove; these raise what Python
raises where something is missing, and MemoryError where the arena is full. Each
takes a container's place as (heads, at): see `headrace.memory.lists_kernel`.
`order` is how keys are ordered (ORDER_INT, ORDER_FLOAT, ORDER_TEXT), and the three
arrays after it are those of `text_less`; without strings they can be any arrays.

Python checks bounds and keys where compiled code would read on, so none of these checks
may be left out.
"""

import numpy as np

from headrace.codegen.python_numbers.values import LEAST, MOST, TOO_LARGE
from headrace.kernel import kernel
from headrace.memory.arena import COUNT, HEAD, STATE, release
from headrace.memory.lists_kernel import (
    list_append,
    list_copy,
    list_extend,
    list_find,
    list_insert,
    list_place,
    list_pop,
    list_reverse,
    list_sort,
    slice_count,
    slice_first,
    word_less,
)
from headrace.memory.maps_kernel import VALUE, entry, map_clear, map_find, map_order, map_put, map_remove
from headrace.memory.text_order import text_less
from headrace.memory.words import NAN_RANK, float_bits, float_rank

# -- words


@kernel
def kept_float(word):
    return np.int64(word).view(np.float64)


@kernel
def kept_bits(value):
    return np.float64(value).view(np.int64)


@kernel
def kept_key_bits(value):
    """Return the word of a float as a key: equal for equal values."""
    return float_bits(value, np.float64(value).view(np.int64))


@kernel
def kept_less(prefixes, addresses, lengths, a, b):
    return text_less(prefixes, addresses, lengths, a, b)


@kernel
def kept_follows(prefixes, addresses, lengths, a, b):
    """Return a > b, with arguments evaluated in the order of the comparison's sides."""
    return text_less(prefixes, addresses, lengths, b, a)


@kernel
def kept_lesser(prefixes, addresses, lengths, a, b):
    """min(a, b) of strings."""
    return b if text_less(prefixes, addresses, lengths, b, a) else a


@kernel
def kept_greater(prefixes, addresses, lengths, a, b):
    """max(a, b) of strings."""
    return b if text_less(prefixes, addresses, lengths, a, b) else a


# -- of all containers


@kernel
def kept_count(heads, at):
    return heads[at + COUNT]


@kernel
def kept_hand_over(free, arena, lists, heads, at, given_heads, given_at):
    """Move a container's contents to another place of its kind, whose own contents are freed; nothing is copied."""
    release(free, arena, lists, heads, at)
    for word in range(HEAD):
        heads[at + word] = given_heads[given_at + word]
        given_heads[given_at + word] = 0


@kernel
def kept_in_order(arena, heads, at, width, order, prefixes, addresses, lengths):
    """Put the entries of a set or map in order; returns its place."""
    map_order(arena, heads, at, width, order, prefixes, addresses, lengths)
    return at


@kernel
def kept_begin(arena, heads, at, width, order, prefixes, addresses, lengths):
    """Begin a loop over a set or map; returns the value that `kept_more` compares with."""
    map_order(arena, heads, at, width, order, prefixes, addresses, lengths)
    return heads[at + STATE]


@kernel
def kept_more(heads, at, turn, begun):
    """Return whether a loop goes on; raise if keys were added or removed in it."""
    if heads[at + STATE] != begun:
        raise RuntimeError("keys were added or removed during a loop over them")
    return turn < heads[at + COUNT]


@kernel
def kept_entry(heads, at, turn, width):
    return entry(heads, at, turn, width)


# -- lists


@kernel
def kept_element(arena, heads, at, i):
    place = list_place(heads, at, i)
    if place < 0:
        raise IndexError("list index out of range")
    return arena[place]


@kernel
def kept_place(heads, at, i):
    """Return the place of an element that will be written."""
    place = list_place(heads, at, i)
    if place < 0:
        raise IndexError("list assignment index out of range")
    return place


@kernel(often=True)
def kept_append(free, arena, lists, heads, at, word):
    if list_append(free, arena, lists, heads, at, word) < 0:
        raise MemoryError


@kernel
def kept_extend(free, arena, lists, heads, at, source_heads, source_at):
    count = source_heads[source_at + COUNT]
    if list_extend(free, arena, lists, heads, at, source_heads, source_at, 0, count) < 0:
        raise MemoryError


@kernel
def kept_insert(free, arena, lists, heads, at, i, word):
    if list_insert(free, arena, lists, heads, at, i, word) < 0:
        raise MemoryError


@kernel
def kept_take(free, arena, lists, heads, at, i):
    """``pop(i)``."""
    place = list_place(heads, at, i)
    if place < 0:
        raise IndexError("pop index out of range")
    word = arena[place]
    list_pop(free, arena, lists, heads, at, i)
    return word


@kernel
def kept_find(arena, heads, at, word, is_float):
    return list_find(arena, heads, at, word, 0, is_float)


@kernel
def kept_index(arena, heads, at, word, is_float):
    found = list_find(arena, heads, at, word, 0, is_float)
    if found < 0:
        raise ValueError("is not in list")
    return found


@kernel
def kept_remove(free, arena, lists, heads, at, word, is_float):
    found = list_find(arena, heads, at, word, 0, is_float)
    if found < 0:
        raise ValueError("list.remove(x): x not in list")
    list_pop(free, arena, lists, heads, at, found)


@kernel
def kept_times(arena, heads, at, word, is_float):
    """``count(x)``."""
    times = 0
    found = list_find(arena, heads, at, word, 0, is_float)
    while found >= 0:
        times += 1
        found = list_find(arena, heads, at, word, found + 1, is_float)
    return times


@kernel
def kept_clear(free, arena, lists, heads, at):
    release(free, arena, lists, heads, at)


@kernel
def kept_reverse(arena, heads, at):
    list_reverse(arena, heads, at)


@kernel
def kept_sort(free, arena, lists, heads, at, is_reversed, order, prefixes, addresses, lengths):
    """Sort a list; returns its place. Equal elements keep their order also in a reversed sort, as in Python."""
    if is_reversed:
        list_reverse(arena, heads, at)
    if list_sort(free, arena, lists, heads, at, order, prefixes, addresses, lengths) < 0:
        raise MemoryError
    if is_reversed:
        list_reverse(arena, heads, at)
    return at


@kernel
def kept_slice(free, arena, lists, heads, at, source_heads, source_at, start, stop):
    """Make a list a slice of another list or of itself; returns its place."""
    have = source_heads[source_at + COUNT]
    first = slice_first(have, start)
    count = slice_count(have, start, stop)
    if list_copy(free, arena, lists, heads, at, source_heads, source_at, first, count) < 0:
        raise MemoryError
    return at


@kernel
def kept_array_slice(free, arena, lists, heads, at, words, place, size, start, stop):
    """Make a list a slice of an array; returns its place."""
    release(free, arena, lists, heads, at)
    first = place + slice_first(np.int64(size), start)
    for i in range(first, first + slice_count(np.int64(size), start, stop)):
        if list_append(free, arena, lists, heads, at, words[i]) < 0:
            raise MemoryError
    return at


@kernel
def kept_listed(
    free, arena, lists, heads, at, map_heads, map_at, width, offset, order, prefixes, addresses, lengths
):
    """Make a list the keys (`offset` 0) or values (1) of a set or map in the order of its keys; returns its place."""
    map_order(arena, map_heads, map_at, width, order, prefixes, addresses, lengths)
    release(free, arena, lists, heads, at)
    for i in range(map_heads[map_at + COUNT]):
        if list_append(free, arena, lists, heads, at, arena[entry(map_heads, map_at, i, width) + offset]) < 0:
            raise MemoryError
    return at


# -- arrays


@kernel
def kept_at(place, size, i):
    """Return the place of an element of an array."""
    if i < 0:
        i += size
    if i < 0 or i >= size:
        raise IndexError("array index out of range")
    return place + i


@kernel
def kept_array_find(words, place, size, word, is_float):
    if is_float and float_rank(word) == NAN_RANK:
        return -1
    for i in range(size):
        if is_float:
            if float_rank(words[place + i]) == float_rank(word):
                return i
        elif words[place + i] == word:
            return i
    return -1


# -- maps and sets


@kernel(often=True)
def kept_has(arena, heads, at, key, width):
    return map_find(arena, heads, at, key, width) >= 0


@kernel(often=True)
def kept_value(arena, heads, at, key, width):
    """Return the place of the value of a key."""
    found = map_find(arena, heads, at, key, width)
    if found < 0:
        raise KeyError
    return found + VALUE


@kernel(often=True)
def kept_made(free, arena, lists, heads, at, key, width):
    """Return the place of the value of a key; a new key gets zeros."""
    found = map_put(free, arena, lists, heads, at, key, width)
    if found < 0:
        raise MemoryError
    return found + VALUE


@kernel
def kept_or(arena, heads, at, key, width, word):
    """``get(key, default)``."""
    found = map_find(arena, heads, at, key, width)
    return word if found < 0 else arena[found + VALUE]


@kernel
def kept_first(free, arena, lists, heads, at, key, width, word):
    """``setdefault(key, default)``."""
    found = map_find(arena, heads, at, key, width)
    if found < 0:
        found = map_put(free, arena, lists, heads, at, key, width)
        if found < 0:
            raise MemoryError
        arena[found + VALUE] = word
    return arena[found + VALUE]


@kernel
def kept_pop(free, arena, lists, heads, at, key, width):
    found = map_find(arena, heads, at, key, width)
    if found < 0:
        raise KeyError
    word = arena[found + VALUE]
    map_remove(free, arena, lists, heads, at, key, width)
    return word


@kernel
def kept_pop_or(free, arena, lists, heads, at, key, width, word):
    found = map_find(arena, heads, at, key, width)
    if found >= 0:
        word = arena[found + VALUE]
        map_remove(free, arena, lists, heads, at, key, width)
    return word


@kernel
def kept_drop(free, arena, lists, heads, at, key, width):
    """``pop(key)`` of a map of arrays or records, and ``remove`` of a set."""
    if map_remove(free, arena, lists, heads, at, key, width) == 0:
        raise KeyError


@kernel
def kept_discard(free, arena, lists, heads, at, key, width):
    map_remove(free, arena, lists, heads, at, key, width)


@kernel(often=True)
def kept_add(free, arena, lists, heads, at, key):
    if map_put(free, arena, lists, heads, at, key, 0) < 0:
        raise MemoryError


@kernel
def kept_clear_keys(free, arena, lists, heads, at):
    map_clear(free, arena, lists, heads, at)


# -- sums and extremes of words, given as (first place, distance to the next, count)


@kernel
def kept_sum(words, first, step, count):
    total = np.int64(0)
    for i in range(count):
        total += words[first + i * step]
    return total


@kernel
def kept_exact_sum(words, first, step, count):
    """The same sum where an integer must not wrap around; a partial sum out of range is refused as well."""
    total = np.int64(0)
    for i in range(count):
        word = words[first + i * step]
        if (word > 0 and total > MOST - word) or (word < 0 and total < LEAST - word):
            raise OverflowError(TOO_LARGE)
        total += word
    return total


@kernel
def kept_float_sum(words, first, step, count):
    total = 0.0
    for i in range(count):
        total += np.int64(words[first + i * step]).view(np.float64)
    return total


@kernel
def kept_extreme(words, first, step, count, sign, order, prefixes, addresses, lengths):
    """Return the word of the smallest (`sign` -1) or largest (1) element, as Python's min and max find it."""
    if count == 0:
        raise ValueError("min() or max() of nothing")
    best = words[first]
    for i in range(1, count):
        word = words[first + i * step]
        one, other = (best, word) if sign > 0 else (word, best)
        if word_less(one, other, order, prefixes, addresses, lengths):
            best = word
    return best


@kernel
def kept_first_entry(heads, at, width):
    return entry(heads, at, 0, width)


@kernel
def kept_first_element(heads, at):
    return max(list_place(heads, at, 0), 0)
