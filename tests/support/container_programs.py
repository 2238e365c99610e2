"""Random programs over lists, sets and maps of words, and the same programs over Python's own.

A program is a table of operations on a few containers of different kinds. `run` does them with the kernels, in one
call, `expected` with `headrace.reference.containers`; each operation gives a number, and the two must agree. The
content of a container is given as a number that depends on every word and its place.
"""

from __future__ import annotations

import functools
import random
import struct

import numpy as np
import pyarrow as pa

from headrace.ingress.ordered_texts import OrderedTexts
from headrace.kernel import kernel
from headrace.memory.arena import (
    CLASS,
    CLASS_MASK,
    CLASSES,
    COUNT,
    FIRST,
    FREE_WORDS,
    HANDED_OUT,
    HEAD,
    SEED,
    STATE,
    allocate_arena,
    release,
    used_bytes,
)
from headrace.memory.atomics import CELL
from headrace.memory.bundle import named
from headrace.memory.lists_kernel import (
    ORDER_FLOAT,
    ORDER_INT,
    ORDER_TEXT,
    list_append,
    list_clear,
    list_copy,
    list_extend,
    list_find,
    list_insert,
    list_move,
    list_place,
    list_pop,
    list_reverse,
    list_sort,
    slice_count,
    slice_first,
)
from headrace.memory.maps_kernel import (
    HASHED,
    NEW_KEYS,
    entry,
    home_of,
    map_clear,
    map_find,
    map_move,
    map_order,
    map_put,
    map_remove,
    slots_of,
)
from headrace.reference.containers import FloatList, KeyOrderedMap, KeyOrderedSet

(
    PUT, REMOVE, FIND, ORDER, CLEAR, MOVE, COME_AND_GO,
    APPEND, INSERT, POP, PLACE, INDEX, COPY, SORT, REVERSE, EXTEND, LIST_CLEAR, LIST_MOVE, CONTENT,
) = range(19)  # fmt: skip
MODULUS = 2**31 - 1

MAPS = [(ORDER_INT, 0), (ORDER_INT, 1), (ORDER_INT, 4), (ORDER_FLOAT, 0), (ORDER_FLOAT, 1), (ORDER_TEXT, 1)]
"""Order of the keys, and words of a value, of each map of a program; then its lists."""
LISTS = [ORDER_INT, ORDER_FLOAT, ORDER_TEXT]
CONTAINERS = len(MAPS) + len(LISTS)
TEMPORARY = CONTAINERS

FLOATS = [0.0, -0.0, 0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), 5e-324, -1e300, float("nan"), float("-nan"), 2.0, 3.25]
TEXTS = sorted({"", "a", "a\0", "ä", "eightlet", "eightlets", "eightlet\0", "\uffff", "\U00010000", *map(str, range(40))})


@kernel
def content(s, at, width):
    """A number that depends on which words are in a container, and where."""
    told = 0
    first = s.heads[at + FIRST]
    for i in range(s.heads[at + COUNT] * (width + 1)):
        told = (told * 31 + s.arena[first + i] % MODULUS + 1) % MODULUS
    return told


@kernel
def step(s, t, operation, c, x, y):
    """One operation on container `c`, whose owner has the same number; `t` has another arena."""
    at = c * HEAD
    lists = c * CLASSES
    order = s.orders[c]
    width = s.widths[c]
    if operation == PUT:
        place = map_put(s.free, s.arena, lists, s.heads, at, x, width)
        if place < 0:
            return -1
        told = s.arena[place + width] if width > 0 else 0
        for i in range(place + 1, place + 1 + width):
            s.arena[i] += y
        return told
    if operation == REMOVE:
        return map_remove(s.free, s.arena, lists, s.heads, at, x, width)
    if operation == FIND:
        place = map_find(s.arena, s.heads, at, x, width)
        if place < 0:
            return -1
        return s.arena[place + width] if width > 0 else 0
    if operation == ORDER:
        map_order(s.arena, s.heads, at, width, order, s.prefixes, s.addresses, s.lengths)
        if s.heads[at + COUNT] > 0:  # also look up the last entry by itself
            return content(s, at, width) ^ (s.arena[entry(s.heads, at, s.heads[at + COUNT] - 1, width)] % MODULUS)
        return 0
    if operation == CLEAR:
        map_clear(s.free, s.arena, lists, s.heads, at)
        return 0
    if operation == MOVE:  # there and back
        moved = map_move(s.free, s.arena, lists, s.heads, at, t.free, t.arena, lists, t.heads, at, width)
        if map_move(t.free, t.arena, lists, t.heads, at, s.free, s.arena, lists, s.heads, at, width) != moved:
            return -1
        return moved
    if operation == COME_AND_GO:
        for key in range(x):
            if map_put(s.free, s.arena, lists, s.heads, at, key * 7919, width) < 0:
                return -1
            if key >= y and map_remove(s.free, s.arena, lists, s.heads, at, (key - y) * 7919, width) != 1:
                return -1
        return s.heads[at + COUNT]
    if operation == APPEND:
        return list_append(s.free, s.arena, lists, s.heads, at, x)
    if operation == INSERT:
        return list_insert(s.free, s.arena, lists, s.heads, at, y, x)
    if operation == POP:
        return list_pop(s.free, s.arena, lists, s.heads, at, y)
    if operation == PLACE:
        place = list_place(s.heads, at, y)
        return -1 if place < 0 else s.arena[place] % MODULUS
    if operation == INDEX:
        return list_find(s.arena, s.heads, at, x, y, order == ORDER_FLOAT)
    if operation in (COPY, EXTEND):
        first = slice_first(s.heads[at + COUNT], x)
        count = slice_count(s.heads[at + COUNT], x, y)
        if operation == EXTEND:
            return list_extend(s.free, s.arena, lists, s.heads, at, s.heads, at, first, count)
        list_copy(s.free, s.arena, TEMPORARY * CLASSES, s.heads, TEMPORARY * HEAD, s.heads, at, first, count)
        return content(s, TEMPORARY * HEAD, 0)
    if operation == SORT:
        return list_sort(s.free, s.arena, lists, s.heads, at, order, s.prefixes, s.addresses, s.lengths)
    if operation == REVERSE:
        list_reverse(s.arena, s.heads, at)
        return 0
    if operation == LIST_CLEAR:
        list_clear(s.free, s.arena, lists, s.heads, at)
        return 0
    if operation == LIST_MOVE:
        moved = list_move(s.free, s.arena, lists, s.heads, at, t.free, t.arena, lists, t.heads, at)
        if list_move(t.free, t.arena, lists, t.heads, at, s.free, s.arena, lists, s.heads, at) != moved:
            return -1
        return moved
    return content(s, at, 0)


@kernel
def run(s, t, program, results):
    """Do the operations one after another: note for each its result, the number of elements, and the state word."""
    for i in range(program.shape[0]):
        c = program[i, 1]
        results[i, 0] = step(s, t, program[i, 0], c, program[i, 2], program[i, 3])
        results[i, 1] = s.heads[c * HEAD + COUNT]
        results[i, 2] = s.heads[c * HEAD + STATE] // NEW_KEYS


@kernel
def release_all(s):
    """Give every block back."""
    for c in range(CONTAINERS + 1):
        release(s.free, s.arena, c * CLASSES, s.heads, c * HEAD)


@functools.cache
def texts() -> tuple[OrderedTexts, dict[str, int]]:
    """The strings in the form that kernels use, and their ids."""
    dictionary = OrderedTexts(1000)
    return dictionary, dict(zip(TEXTS, dictionary.encode(pa.array(TEXTS)).tolist(), strict=True))


class Memory:
    """Empty containers in an arena, and a second arena with the same owners. With a seed: the same hashes each time."""

    def __init__(self, words: int = 1 << 20, seed: int | None = None):
        dictionary, self.ids = texts()
        prefixes, addresses, lengths = dictionary.arrays
        orders = np.array([order for order, _ in MAPS] + LISTS)
        widths = np.array([width for _, width in MAPS] + [0] * len(LISTS))
        self.here, self.there = (
            named(
                free=free, arena=arena, heads=np.zeros((CONTAINERS + 1) * HEAD, np.int64), orders=orders, widths=widths,
                prefixes=prefixes, addresses=addresses, lengths=lengths,
            )
            for free, arena in (allocate_arena(CONTAINERS + 1, words) for _ in range(2))
        )  # fmt: skip
        if seed is not None:
            words = random.Random(seed)
            for s in (self.here, self.there):
                s.arena[SEED : SEED + 4] = [words.randrange(2**62) * 2 + 1 for _ in range(4)]

    def run(self, program: np.ndarray) -> list[tuple[int, int, int]]:
        results = np.zeros((len(program), 3), np.int64)
        run(self.here, self.there, program, results)
        return list(map(tuple, results.tolist()))

    def words(self, c: int) -> list[int]:
        """Elements of a list or keys of a map, in the order in which they lie in memory."""
        stride = MAPS[c][1] + 1 if c < len(MAPS) else 1
        first, count = self.here.heads[c * HEAD + FIRST], self.here.heads[c * HEAD + COUNT]
        return self.here.arena[first : first + count * stride : stride].tolist()

    def check_blocks(self) -> None:
        """Check that every word handed out is in one block of one container, or in one free block."""
        for s in (self.here, self.there):
            blocks = []
            for c in range(CONTAINERS + 1):
                head = s.heads[c * HEAD : (c + 1) * HEAD]
                assert (head[FIRST] == 0) == (head[COUNT] == 0), "an empty container has a block"
                if head[FIRST] != 0:
                    blocks.append((int(head[FIRST]), 1 << int(head[CLASS] & CLASS_MASK)))
                free_words = 0
                for size_class in range(FREE_WORDS):
                    block = int(s.free[c * CLASSES + size_class])
                    while block != 0:
                        blocks.append((block, 1 << size_class))
                        free_words += 1 << size_class
                        assert len(blocks) < 10_000, "a free list is a ring"
                        block = int(s.arena[block])
                assert free_words == s.free[c * CLASSES + FREE_WORDS], "free words are counted wrongly"
            end = CELL
            for block, words in sorted(blocks):
                assert block == end, "a block is lost, or there twice"
                end = block + words
            assert end == CELL + s.arena[HANDED_OUT], "a block is lost"

    def check_container(self, c: int) -> None:
        """Check that an empty container has no block, and that a map's index has each entry once, where it is found."""
        s, at = self.here, c * HEAD
        assert (s.heads[at + FIRST] == 0) == (s.heads[at + COUNT] == 0), "an empty container has a block"
        if c >= len(MAPS):
            return
        width = MAPS[c][1]
        first, size_class, count = int(s.heads[at + FIRST]), int(s.heads[at + CLASS] & CLASS_MASK), int(s.heads[at + COUNT])
        if first == 0:
            return
        slots = int(slots_of(size_class, width))
        end = first + (1 << size_class)
        index = s.arena[end - slots // 2 : end].view(np.int32)
        (places,) = index.nonzero()
        assert sorted(index[places]) == list(range(1, count + 1)), "the index has other entries"
        for place in map(int, places):
            key = int(s.arena[first + (int(index[place]) - 1) * (width + 1)])
            if s.heads[at + CLASS] & HASHED:
                home = int(home_of(s.arena, key, slots))
                between = (home + np.arange((place - home) % slots)) % slots
                assert index[between].all(), "an entry is not reached"
            else:
                assert place == key, "an entry is not reached"

    def release(self) -> None:
        release_all(self.here)
        self.check_blocks()
        assert used_bytes(self.here.free, self.here.arena) == used_bytes(self.there.free, self.there.arena) == 0


def word_of(value, ids) -> int:
    """A value as the kernels hold it."""
    if isinstance(value, str):
        return ids[value]
    return struct.unpack("q", struct.pack("d", value))[0] if isinstance(value, float) else value


def key_of(value):
    """A float as a key: canonical bits."""
    if isinstance(value, float):
        return float("nan") if value != value else value + 0.0
    return value


def told(words) -> int:
    found = 0
    for word in words:
        found = (found * 31 + word % MODULUS + 1) % MODULUS
    return found


class Program:
    """A random program: its operations as the kernels take them, and what they must give.

    Parameters
    ----------
    seed : int
    ids : dict
        Of the strings.
    length : int
        Operations.
    """

    def __init__(self, seed: int, ids: dict[str, int], length: int = 300):
        self.rng, self.ids = random.Random(seed), ids
        self.maps = [KeyOrderedMap() if width else KeyOrderedSet() for _, width in MAPS]
        self.lists = [FloatList() if order == ORDER_FLOAT else [] for order in LISTS]
        # Few values or many, small values or any: for both a direct and a hashed index.
        span = self.rng.choice([3, 12, 100, 400])
        self.ints = self.rng.choice(
            [range(span), range(-span, span), [i << 40 for i in range(span)], [*range(span), 2**63 - 1, -(2**63)]]
        )
        self.growing = self.rng.random()
        operations, self.expected = [], []
        for _ in range(length):
            (operation, c, x, y), wanted = self.draw()
            operations.append((operation, c, x, y))
            kept = self.maps[c] if c < len(MAPS) else self.lists[c - len(MAPS)]
            self.expected.append((wanted, len(kept), getattr(kept, "changes", 0)))
        self.operations = np.array(operations, np.int64)

    def value(self, order: int):
        values = {ORDER_INT: self.ints, ORDER_FLOAT: FLOATS, ORDER_TEXT: TEXTS}[order]
        if order == ORDER_FLOAT and self.rng.random() < 0.5:
            return self.rng.choice([-1, 1]) * self.rng.random() * 10.0 ** self.rng.randrange(-5, 5)
        return self.rng.choice(values)

    def word(self, value) -> int:
        return word_of(value, self.ids)

    def draw(self):
        c = self.rng.randrange(CONTAINERS)
        return self.on_map(c) if c < len(MAPS) else self.on_list(c)

    def on_map(self, c: int):
        order, width = MAPS[c]
        kept, rng = self.maps[c], self.rng
        value, y = self.value(order), rng.randrange(100)
        x = self.word(key_of(value))
        choice = rng.choices(
            [PUT, REMOVE, FIND, ORDER, CLEAR, MOVE], [5, 1 + 4 * self.growing, 2, 1, 0.05, 0.1]
        )[0]  # fmt: skip
        wanted = 0
        if choice == PUT and width:
            wanted = kept.get(value, 0)
            kept[value] = wanted + y
        elif choice == PUT:
            kept.add(value)
        elif choice == REMOVE:
            wanted = int(value in kept)
            if wanted and width:
                del kept[value]
            else:
                kept.discard(value) if not width else None
        elif choice == FIND:
            wanted = -1 if value not in kept else kept[value] if width else 0
        elif choice == ORDER and kept:
            words = [w for key in kept for w in (self.word(key), *([kept[key]] * width if width else []))]
            wanted = told(words) ^ (self.word(list(kept)[-1]) % MODULUS)
        elif choice == CLEAR:
            kept.clear()
        elif choice == MOVE:
            wanted = 8 * (width + 1) * len(kept)
        return (choice, c, x, y), wanted

    def on_list(self, c: int):
        order = LISTS[c - len(MAPS)]
        kept, rng = self.lists[c - len(MAPS)], self.rng
        value = self.value(order)
        x, y = self.word(value), rng.randrange(-len(kept) - 3, len(kept) + 3)
        choice = rng.choices(
            [APPEND, INSERT, POP, PLACE, INDEX, COPY, SORT, REVERSE, EXTEND, LIST_CLEAR, LIST_MOVE, CONTENT],
            [8, 1, 5 * self.growing, 1, 1, 0.5, 1, 0.3, 0.2, 0.05, 0.1, 1],
        )[0]
        exists = -len(kept) <= y < len(kept)
        wanted = 0
        if choice == APPEND:
            kept.append(value)
        elif choice == INSERT:
            kept.insert(y, value)
        elif choice == POP:
            wanted = 0 if exists else -1
            if exists:
                kept.pop(y)
        elif choice == PLACE:
            wanted = self.word(kept[y]) % MODULUS if exists else -1
        elif choice == INDEX:
            y = max(0, y)
            wanted = kept.index(value, y) if value in kept[y:] else -1
        elif choice in (COPY, EXTEND):
            x = rng.randrange(-len(kept) - 3, len(kept) + 3)
            part = kept[x:y]
            if choice == COPY:
                wanted = told(map(self.word, part))
            elif len(kept) < 1000:
                kept.extend(part)
            else:
                y = x
        elif choice == SORT:
            kept.sort()
        elif choice == REVERSE:
            kept.reverse()
        elif choice == LIST_CLEAR:
            kept.clear()
        elif choice == LIST_MOVE:
            wanted = 8 * len(kept)
        elif choice == CONTENT:
            wanted = told(map(self.word, kept))
        return (choice, c, x, y), wanted
