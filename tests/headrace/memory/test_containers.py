"""Lists, sets and maps of words in an arena.

Property    an operation on a container gives what Python's gives, with keys in their order; blocks
            come back, once each, and the arena grows with what is held at one time only
Oracle      `headrace.reference.containers`, on random programs (`support/container_programs`); a
            walk over all heads and free lists, which must account for every word handed out
Cannot see  which thread owns a block while threads change: tests/headrace/elastic; what user functions are
            compiled to: tests/headrace/codegen
"""

import numpy as np
import pytest
from hypothesis import strategies as st
from numba import types
from numba.core.caching import NullCache

from headrace.kernel import JIT, kernel
from headrace.memory import arena, lists_kernel, maps_kernel
from headrace.memory.arena import CLASSES, FREE_WORDS, HANDED_OUT, HEAD, allocate_arena, used_bytes
from headrace.memory.seeded import Seed
from headrace.reference.containers import FloatList, KeyOrderedSet
from planted_mistakes import assert_found
from support.campaign import rarely
from support.container_programs import (
    APPEND,
    COME_AND_GO,
    EXTEND,
    LISTS,
    MAPS,
    ORDER,
    PUT,
    REMOVE,
    SORT,
    Memory,
    Program,
    key_of,
    word_of,
)


def check(seed, length=300):
    memory = Memory()
    program = Program(seed, memory.ids, length)
    for i, (found, wanted) in enumerate(zip(memory.run(program.operations), program.expected, strict=True)):
        assert found == wanted, f"operation {i}, {program.operations[i]}"
    memory.check_blocks()
    memory.release()


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "length"), [(range(25), 6_000), *rarely((range(25, 60), 20_000))], ids=str)
def test_oracle_random_programs(seeds, length):
    for seed in seeds:
        check(seed)
    check(1_000, length)


def check_each(seed):
    """The same operation by operation, with all that must hold between them: before a mistake makes one hang."""
    memory = Memory(seed=seed)
    program = Program(seed, memory.ids)
    for i, (operation, wanted) in enumerate(zip(program.operations, program.expected, strict=True)):
        (found,) = memory.run(operation.reshape(1, 4))
        assert found == wanted, f"operation {i}, {operation}"
        memory.check_container(operation[1])
    memory.check_blocks()
    memory.release()


def check_sort(seed):
    """Lists and maps of some hundred elements, of each order."""
    memory, drawn = Memory(seed=seed), Program(seed, {}, 0)
    for c, order in enumerate([order for order, _ in MAPS] + LISTS):
        values = [drawn.value(order) for _ in range(drawn.rng.choice([0, 1, 15, 16, 17, 33, 200]))]
        add = PUT if c < len(MAPS) else APPEND
        words = [word_of(key_of(value) if add == PUT else value, memory.ids) for value in values]
        wanted = KeyOrderedSet() if add == PUT else FloatList(values)
        wanted.update(values) if add == PUT else wanted.sort()
        last = ORDER if add == PUT else SORT
        memory.run(np.array([*((add, c, word, 0) for word in words), (last, c, 0, 0)]))
        held = memory.words(c)
        assert held == [word_of(value, memory.ids) for value in wanted], f"order {order}"
    memory.release()


def test_oracle_order():
    for seed in range(40):
        check_sort(seed)


@pytest.mark.slow
@pytest.mark.interpreted
def test_oracle_random_programs_interpreted():
    for seed in range(4):
        check_each(seed)


def test_property_keys_that_come_and_go_take_no_more_memory():
    """A million keys, a thousand at a time."""
    for c in (0, 1):
        memory = Memory()
        (result,) = memory.run(np.array([(COME_AND_GO, c, 1_000_000, 1_000)]))
        assert result[1] == 1_000
        assert used_bytes(memory.here.free, memory.here.arena) <= 8 * 4096
        assert memory.here.arena[HANDED_OUT] <= 3 * 4096
        memory.release()


@pytest.mark.slow
def test_example_a_million_values_of_one_set():
    memory = Memory(1 << 23)
    values = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 1_000_000)
    program = np.zeros((values.size, 4), np.int64)
    program[:, 0], program[:, 2] = PUT, values
    assert memory.run(program)[-1][1] == values.size
    program[:, 0] = REMOVE
    assert memory.run(program)[-1][1] == 0
    memory.release()


@pytest.mark.parametrize("operation", [PUT, APPEND, EXTEND])
def test_example_a_full_arena_says_so(operation):
    """What was there before stays."""
    memory = Memory(1 << 10)
    c = 1 if operation == PUT else len(MAPS)
    program = np.array([(APPEND, c, 0, 0), *((operation, c, i if operation == PUT else 0, 10**6) for i in range(600))])
    results = memory.run(program if operation != PUT else program[1:])
    gave = [result[0] for result in results]
    assert gave.count(-1) > 10 and gave[0] != -1
    first = gave.index(-1)
    assert {result[1] for result in results[first:]} == {results[first - 1][1]}


def test_example_chosen_keys_cannot_be_made_to_collide(monkeypatch):
    """Two arenas have different seeds, and the same keys lie in different places."""
    keys = np.arange(2000) << 30
    memories = [Memory(), Memory()]
    homes = [[maps_kernel.home_of(m.here.arena, key, 4096) for key in keys[:50]] for m in memories]
    assert homes[0] != homes[1]
    monkeypatch.setattr(arena, "draw_seed", lambda: Seed(*map(np.uint64, (0, 1, 1, 1))))
    assert len({maps_kernel.home_of(Memory().here.arena, key, 4096) for key in keys[:50]}) == 1


def test_example_prefetches_look_where_the_search_begins():
    """In a direct index that is the entry itself, in a hashed one it mostly is."""
    for keys, least in ((range(40), 1.0), ([key << 30 for key in range(400)], 0.6)):
        memory = Memory()
        memory.run(np.array([(PUT, 1, key, key) for key in keys]))
        s, at, width = memory.here, HEAD, MAPS[1][1]
        found = 0
        for key in keys:
            number = memory.here.arena.view(np.int32)[maps_kernel.first_looked_at(s.arena, s.heads, at, key, width)]
            entry = s.heads[at + arena.FIRST] + (int(number) - 1) * (width + 1)
            found += entry == maps_kernel.map_find(s.arena, s.heads, at, key, width)
        assert found / len(keys) >= least
        memory.release()


def test_property_prefetches_change_nothing_whatever_a_head_says():
    """They read heads that other threads change: any field of them may be of before, and any of after."""
    memory = Memory(1 << 12)
    memory.run(np.array([(PUT, 1, key << 40, key) for key in range(20)]))
    s, rng = memory.here, np.random.default_rng(3)
    before = s.arena.copy()
    for _ in range(2_000):
        head = np.zeros(HEAD, np.int64)
        head[arena.FIRST] = rng.integers(0, s.arena.size)
        head[arena.CLASS] = rng.integers(0, CLASSES) | maps_kernel.HASHED * rng.integers(0, 2)
        for key in (0, -1, -(2**63), 2**63 - 1, int(rng.integers(0, 2**40))):
            maps_kernel.fetch_index(s.arena, head, 0, key, 1)
            maps_kernel.fetch_entry(s.arena, head, 0, key, 1)
    assert (s.arena == before).all()
    memory.release()


def test_example_small_blocks_of_two_owners_share_no_cache_line():
    free, words = allocate_arena(2, 1 << 12)
    places = [[arena.take_any(free, words, owner * CLASSES, 2) for _ in range(4)] for owner in (0, 1)]
    lines = [{place // 16 for place in of_owner} for of_owner in places]
    assert not lines[0] & lines[1]
    assert free[FREE_WORDS] == 64 - 16 and used_bytes(free, words) == 8 * 32


# ------------------------------------------------------------ planted mistakes

GIVEN_BACK = "give_block(free, arena, lists, heads[at + CLASS] & CLASS_MASK, old)"
ORDERED_INDEX = "    make_index(arena, heads, at, width)\n\n\n@kernel(borrows=True)\ndef number_less"
MAPS_TEXT = {
    "a rehash loses an entry": (
        "for i in range(heads[at + COUNT]):\n        key = arena",
        "for i in range(heads[at + COUNT] - 1):\n        key = arena",
    ),
    "a new key leaves the order flag": ("(heads[at + STATE] + NEW_KEYS) & ~IN_ORDER", "heads[at + STATE] + NEW_KEYS"),
    "a removal leaves the order flag": ("heads[at + STATE] &= ~IN_ORDER", "pass"),
    "a change is not counted": ("heads[at + STATE] += NEW_KEYS\n    if last", "if last"),
    "a removal leaves a hole": ("        close_hole(arena, hole, first, size_class, slots, width)", "        pass"),
    "a hole is closed with what belongs behind it": (">= ((j - i) & mask)", "> ((j - i) & mask)"),
    "the last entry is not renumbered": ("slots), number)\n        copy_words", "slots), last + 1)\n        copy_words"),
    "a key out of range stays direct": ("& HASHED == 0 and (key < 0 or key >= slots):", "& HASHED == 0 and key < 0:"),
    "a larger block is direct unseen": ("if held < 0 or held >= slots:", "if held < 0:"),
    "a new value is what was there": ("        arena[i] = 0\n    heads", "        pass\n    heads"),
    "order moves keys without values": ("for w in range(stride):", "for w in range(1):"),
    "order leaves the index": (ORDERED_INDEX, ORDERED_INDEX.replace("    make_index(arena, heads, at, width)", "", 1)),
    "an old block is given back twice": (GIVEN_BACK, f"{GIVEN_BACK}\n        {GIVEN_BACK}"),
    "an old block is lost": (GIVEN_BACK, "pass"),
    "a move keeps the old block too": ("    release(free, arena, lists, heads, at)\n    return 8 *", "    return 8 *"),
}
MOVED = "    copy_words(new_arena, new_heads[new_at + FIRST], arena, heads[at + FIRST], count)"
LISTS_TEXT = {
    "an insertion loses an element": ("place + 1, arena, place, count - i)", "place + 1, arena, place, count - i - 1)"),
    "NaN equals NaN": ("if rank == NAN_RANK:", "if False:"),
    "an empty list keeps its block": (
        "    if count == 0:\n        release(free, arena, lists, heads, at)\n    else:",
        "    if count > 0:",
    ),
    "a merged block is not given back": ("    give_block(free, arena, lists, heads[at + CLASS], other)\n", ""),
    "a move shares a block": (MOVED, f"{MOVED}\n    new_heads[new_at + FIRST] = heads[at + FIRST]"),
}
ARENA_TEXT = {
    "a block taken stays free": ("    free[lists + size_class] = arena[block]\n", ""),
    "free words are not counted": ("free[lists + FREE_WORDS] += np.int64(1) << size_class", "pass"),
    "pieces overlap": ("range(block + words - piece, block, -piece)", "range(block + words - piece, block - 1, -piece)"),
    "a released head keeps its block": ("        heads[at + FIRST] = 0\n", ""),
}
MISTAKES = {
    **{name: (maps_kernel, *texts) for name, texts in MAPS_TEXT.items()},
    **{name: (lists_kernel, *texts) for name, texts in LISTS_TEXT.items()},
    **{name: (arena, *texts) for name, texts in ARENA_TEXT.items()},
}
WRONG = "AssertionError|IndexError|KeyError|ValueError|OverflowError"


@pytest.mark.interpreted
@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_planted_mistakes_are_found(mistake):
    assert_found(*mistake, check_each, st.integers(0, 1 << 20), WRONG)


@pytest.mark.interpreted
def test_planted_unstable_sort_is_found():
    less = "word_less(arena[first + j], arena[first + i], order, prefixes, addresses, lengths)"
    other = "word_less(arena[first + i], arena[first + j], order, prefixes, addresses, lengths)"
    assert_found(lists_kernel, f"not {less}", other, check_sort, st.integers(0, 1 << 20), WRONG)


# ------------------------------------------------------------------ machine code


@pytest.mark.skipif(not JIT, reason="there is no machine code")
def test_property_kernels_that_borrow_arrays_count_no_references():
    """What is called for each tuple can be inlined by LLVM only so."""
    array = types.Array(types.int64, 1, "C")
    for policy, counts in (({"borrows": True}, False), ({}, True)):
        # Not the cached kernel, whose text Numba no longer has; its callees are.
        found = kernel(maps_kernel.map_find.py_func, **policy)
        found._cache = NullCache()
        found.compile((array, array, types.int64, types.int64, types.int64))
        assert ("@NRT_incref" in found.inspect_llvm(found.signatures[0])) == counts
