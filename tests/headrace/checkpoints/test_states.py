"""States in words of an arena, saved and restored in another one.

Property    whatever numbers, strings and containers a state has, it reads the same in another arena with other strings before
            them, and what is added to it there is found
Oracle      the state as Python's own objects (`egress.containers.state_objects`)
"""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.checkpoints.placed_state import SavedTexts, known_again, restore_state, save_state
from headrace.codegen.placed import offsets, words_of
from headrace.codegen.state import read_state
from headrace.egress.containers import state_objects
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.memory.arena import CLASSES, HANDED_OUT, allocate_arena
from headrace.memory.atomics import CELL
from headrace.memory.lists_kernel import list_append
from headrace.memory.maps_kernel import map_find, map_put

STATE = read_state({
    "n": "int64", "x": "float64", "y": "float32", "ok": "bool", "word": "string", "five": hr.array("float64", 5),
    "list": hr.list_of("string"), "set": hr.set_of("int64"), "map": hr.map_of("string", hr.record(n="int64", word="string")),
    "empty": hr.map_of("int64", "int64"),
})  # fmt: skip
INT, WORD = st.integers(-(2**63), 2**63 - 1), st.text("aé\0b", max_size=4)
FLOAT = st.floats(width=32)
VALUES = st.fixed_dictionaries({
    "n": INT, "x": st.floats(), "y": FLOAT, "ok": st.booleans(), "word": WORD,
    "five": st.lists(st.floats(), min_size=5, max_size=5),
    "list": st.lists(WORD, max_size=40), "set": st.sets(INT | st.integers(0, 40), max_size=60),
    "map": st.dictionaries(WORD, st.tuples(INT, WORD), max_size=20),
})  # fmt: skip
OWNER = 3


def fresh(words_before):
    texts = OrderedTexts(1 << 10)
    texts.set_types([pa.string()])
    texts.keep(words_before)
    free, arena = allocate_arena(8, 1 << 16)
    place = int(arena[HANDED_OUT]) + CELL
    arena[HANDED_OUT] += 64 * CELL
    assert words_of(STATE) < 64 * CELL
    return texts, free, arena, place


def written(values, texts, free, arena, place):
    at, lists = {name: place + offset for name, offset in offsets(STATE).items()}, OWNER * CLASSES

    def known(word):
        return int(texts.keep([word])[0])

    arena[at["n"]], arena[at["ok"]], arena[at["word"]] = values["n"], values["ok"], known(values["word"])
    arena.view(np.float64)[at["x"]] = values["x"]
    arena.view(np.float32)[2 * at["y"]] = values["y"]
    arena.view(np.float64)[at["five"] : at["five"] + 5] = values["five"]
    for word in values["list"]:
        list_append(free, arena, lists, arena, at["list"], known(word))
    for key in values["set"]:
        map_put(free, arena, lists, arena, at["set"], key, 0)
    for key, (n, word) in values["map"].items():
        entry = map_put(free, arena, lists, arena, at["map"], known(key), 2)
        arena[entry + 1], arena[entry + 2] = n, known(word)


@settings(max_examples=25)
@given(VALUES, st.lists(WORD, max_size=5))
def test_property_a_state_reads_the_same_in_another_arena(values, others):
    texts, free, arena, place = fresh([""])
    written(values, texts, free, arena, place)
    saved_texts = SavedTexts(texts)
    saved = save_state(STATE, arena, place, saved_texts)
    before = state_objects(STATE, arena, place, texts)
    texts, free, arena, place = fresh(["something else", *others])
    ids = known_again(texts, saved_texts.strings)
    restore_state(saved, STATE, free, arena, OWNER * CLASSES, place, ids)
    assert repr(state_objects(STATE, arena, place, texts)) == repr(before)
    at = place + offsets(STATE)["set"]
    for key in values["set"]:
        assert map_find(arena, arena, at, key, 0) >= 0
    assert map_put(free, arena, OWNER * CLASSES, arena, place + offsets(STATE)["empty"], 7, 1) >= 0
