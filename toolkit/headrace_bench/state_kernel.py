"""The inner loops of `state`: operations of user functions on our containers and on Numba's own.

`s` holds the arrays as an operator's state does: in a bundle, which carries no reference counts.
"""

from __future__ import annotations

from headrace.kernel import kernel
from headrace.memory.arena import COUNT
from headrace.memory.lists_kernel import list_append, list_clear, list_pop
from headrace.memory.maps_kernel import VALUE, entry, map_clear, map_order, map_put, map_remove
from headrace.memory.text_order import text_less


@kernel
def count_ours(s, at, keys, times):
    """Do ``d[k] += 1`` for each key, `times` times over."""
    for _ in range(times):
        for i in range(keys.size):
            place = map_put(s.free, s.arena, 0, s.heads, at, keys[i], 1)
            if place < 0:
                return -1
            s.arena[place + VALUE] += 1
    return s.heads[at + COUNT]


@kernel
def count_typed(counts, keys, times):
    """The same with a typed dict."""
    for _ in range(times):
        for i in range(keys.size):
            key = keys[i]
            counts[key] = counts.get(key, 0) + 1
    return len(counts)


@kernel
def add_ours(s, at, values, times):
    """Do ``s.add(v)`` for each value, `times` times over."""
    for _ in range(times):
        for i in range(values.size):
            if map_put(s.free, s.arena, 0, s.heads, at, values[i], 0) < 0:
                return -1
    return s.heads[at + COUNT]


@kernel
def add_set(values, times):
    """The same with Numba's set."""
    held = {values[0]}
    for _ in range(times):
        for i in range(values.size):
            held.add(values[i])
    return len(held)


@kernel
def fill_ours(s, at, values, times):
    """Fill an empty set with all values, `times` times over."""
    found = 0
    for _ in range(times):
        map_clear(s.free, s.arena, 0, s.heads, at)
        for i in range(values.size):
            if map_put(s.free, s.arena, 0, s.heads, at, values[i], 0) < 0:
                return -1
        found += s.heads[at + COUNT]
    return found


@kernel
def fill_set(values, times):
    """The same with Numba's set."""
    found = 0
    for _ in range(times):
        held = {values[0]}
        for i in range(values.size):
            held.add(values[i])
        found += len(held)
    return found


@kernel
def come_and_go_ours(s, at, keys, live):
    """Add each key, and remove it after `live` more have been added."""
    for i in range(keys.size):
        if map_put(s.free, s.arena, 0, s.heads, at, keys[i], 1) < 0:
            return -1
        if i >= live:
            map_remove(s.free, s.arena, 0, s.heads, at, keys[i - live], 1)
    return s.heads[at + COUNT]


@kernel
def come_and_go_typed(counts, keys, live):
    """The same with a typed dict."""
    for i in range(keys.size):
        counts[keys[i]] = 0
        if i >= live:
            del counts[keys[i - live]]
    return len(counts)


@kernel
def sum_in_order_ours(s, at, times):
    """Iterate ``for k, v in d.items()`` in the order of the keys, `times` times over."""
    total = 0
    for _ in range(times):
        map_order(s.arena, s.heads, at, 1, 0, s.none, s.none, s.none)
        for i in range(s.heads[at + COUNT]):
            place = entry(s.heads, at, i, 1)
            total += s.arena[place] ^ s.arena[place + VALUE]
    return total


@kernel
def sum_typed(counts, times):
    """The same with a typed dict, without ordering its keys."""
    total = 0
    for _ in range(times):
        for key, value in counts.items():
            total += key ^ value
    return total


@kernel
def append_ours(s, at, values, times):
    """Append all values to an empty list, `times` times over."""
    total = 0
    for _ in range(times):
        list_clear(s.free, s.arena, 0, s.heads, at)
        for i in range(values.size):
            if list_append(s.free, s.arena, 0, s.heads, at, values[i]) < 0:
                return -1
        total += s.heads[at + COUNT]
    return total


@kernel
def append_typed(held, values, times):
    """The same with a typed list."""
    total = 0
    for _ in range(times):
        held.clear()
        for i in range(values.size):
            held.append(values[i])
        total += len(held)
    return total


@kernel
def last_ours(s, at, values, kept):
    """Do ``l.append(v)``, and ``l.pop(0)`` if the list has more than `kept` elements."""
    for i in range(values.size):
        if list_append(s.free, s.arena, 0, s.heads, at, values[i]) < 0:
            return -1
        if s.heads[at + COUNT] > kept:
            list_pop(s.free, s.arena, 0, s.heads, at, 0)
    return s.heads[at + COUNT]


@kernel
def last_typed(held, values, kept):
    """The same with a typed list."""
    for i in range(values.size):
        held.append(values[i])
        if len(held) > kept:
            held.pop(0)
    return len(held)


@kernel
def compare_ours(s, left, right, times):
    """Compare ``a < b`` for pairs of strings given by their ids, `times` times over."""
    less = 0
    for _ in range(times):
        for i in range(left.size):
            less += text_less(s.prefixes, s.addresses, s.lengths, left[i], right[i])
    return less


@kernel
def compare_typed(texts, left, right, times):
    """The same with a typed list of Numba's strings."""
    less = 0
    for _ in range(times):
        for i in range(left.size):
            less += texts[left[i]] < texts[right[i]]
    return less

