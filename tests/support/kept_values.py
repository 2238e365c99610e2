"""A compiled function over a state with fields of every kind, and the same function in plain Python.

Oracle      the user's own function, called by the interpreter on `headrace.reference.containers`
"""

from __future__ import annotations

import inspect
import math
import random
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from headrace.codegen.functions import ContainerBinding, FieldBinding, Memory, Texts, specialise
from headrace.codegen.kinds import (
    Array,
    ListOf,
    MapOf,
    Record,
    SetOf,
    array,
    list_of,
    map_of,
    record,
    scalar,
    set_of,
)
from headrace.codegen.modules import load_module
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.memory.arena import CLASSES, COUNT, FIRST, HEAD, allocate_arena
from headrace.memory.bundle import named
from headrace.memory.cells import reserved
from headrace.reference.containers import first_value

KINDS = {
    "n": "int64", "x": "float64", "last": "string",
    "xs": list_of("int64"), "fs": list_of("float64"), "ws": list_of("string"), "flags": list_of("bool"),
    "si": set_of("int64"), "sf": set_of("float64"), "ss": set_of("string"),
    "mi": map_of("int64", "int64"), "ms": map_of("string", "int64"), "mf": map_of("int64", "float64"),
    "mw": map_of("string", "string"), "mr": map_of("int64", record(n="int64", x="float64")),
    "ma": map_of("string", array("int64", 3)), "a": array("int64", 4), "af": array("float64", 3),
}  # fmt: skip
COLUMNS = {"i": "int64", "j": "int64", "f": "float64", "w": "string", "v": "string"}
EMITS = {"n": "int64", "w": "string", "l": list_of("int64"), "s": list_of("string"), "m": map_of("string", "int64")}
WORDS = ["", "a", "ab", "b", "cart", "view", "héron", "heron", "\U0001f600", "￿", "zebra crossing", "zebra crossings"]
MOST = 12
MEMORY = Memory(
    arena="s.arena", free="s.arena_free", temporaries="s.temporaries", temporary_at=f"{{number}} * {HEAD}",
    temporary_lists=str(CLASSES), staged="staged(s, {heads}, {at}, {width})", most=MOST,
)  # fmt: skip
EMISSION = "emitted({n}, {w}, {l}, {s}, {m})"

HARNESS = """
import numpy as np
from headrace.codegen.modules import compiled_user
from headrace.memory.arena import COUNT, FIRST

@compiled_user
def staged(s, heads, at, width):
    first = s.copies[0]
    words = heads[at + COUNT] * (width + 1)
    for i in range(words):
        s.copies[first + i] = s.arena[heads[at + FIRST] + i]
    s.copies[0] = first + words
    return np.int64(first), np.int64(heads[at + COUNT])

@compiled_user
def emitted(s, n, w, l, xs, m):
    at = s.out[0]
    s.out[at] = n
    s.out[at + 1] = w
    s.out[at + 2] = l[0]
    s.out[at + 3] = l[1]
    s.out[at + 4] = xs[0]
    s.out[at + 5] = xs[1]
    s.out[at + 6] = m[0]
    s.out[at + 7] = m[1]
    s.out[0] = at + 8

"""


def field_of(name):
    kind = KINDS[name]
    if isinstance(kind, str):
        cell = f"s.state_{name}[0]"
        return FieldBinding(cell, cell, kind)
    return ContainerBinding(kind, f"s.state_{name}", "0", "0")


class Compiled:
    """A function over a state with one place, and that state."""

    def __init__(self, function, debug=False):
        self.texts = OrderedTexts(10_000)
        self.texts.set_types([pa.string()])
        points = reserved(20_000, np.int64)
        texts = Texts(
            "s.text_prefixes", "s.text_addresses", "s.text_lengths", "s.text_points", "s.text_literals[{number}]"
        )
        generated = specialise(
            function,
            name="user_update",
            arguments=("state", "t", "emit"),
            bindings={
                "state": {name: field_of(name) for name in KINDS},
                "t": {name: FieldBinding(f"c_{name}", kind=kind) for name, kind in COLUMNS.items()},
            },
            parameters=("s", *(f"c_{name}" for name in COLUMNS)),
            emits=EMITS,
            emit=EMISSION.replace("(", "(s, ", 1),
            memory=MEMORY,
            texts=texts,
            debug=debug,
        )
        self.generated = generated
        self.ids = {}
        for word in ["", *texts.literals, *WORDS]:
            self.ids[word] = int(self.texts.encode(pa.array([word]))[0])
            points[self.ids[word]] = len(word)
        self.words = {number: word for word, number in self.ids.items()}
        free, arena = allocate_arena(2, 1 << 16)
        fields = {"arena": arena, "arena_free": free, "temporaries": reserved(MOST * HEAD, np.int64)}
        for name, kind in KINDS.items():
            if isinstance(kind, str):
                fields[f"state_{name}"] = np.zeros(1, scalar(kind).dtype)
            else:
                fields[f"state_{name}"] = np.zeros(kind.size if isinstance(kind, Array) else HEAD, np.int64)
        fields["state_last"][0] = self.ids[""]
        prefixes, addresses, lengths = self.texts.arrays
        fields |= {"text_prefixes": prefixes, "text_addresses": addresses, "text_lengths": lengths}
        fields |= {"text_points": points, "out": np.ones(1 << 12, np.int64), "copies": np.ones(1 << 16, np.int64)}
        literals = [self.ids[text] for text in texts.literals]
        fields["text_literals"] = np.array([*literals, 0], np.int64)
        self.s = named(**fields)
        self.fields = fields
        self.module = load_module(f"{generated.preamble}{HARNESS}{generated.source}\n", "kept", debug=debug)

    def __call__(self, t):
        arguments = [self.ids[t[name]] if kind == "string" else t[name] for name, kind in COLUMNS.items()]
        self.fields["out"][0] = self.fields["copies"][0] = 1
        self.module.user_update(self.s, *arguments)

    # the content of the state, as Python objects

    def word(self, kind, word):
        kind = scalar(kind).in_functions
        if kind == "string":
            return self.words[int(word)]
        if kind.startswith("float"):
            return float(np.int64(word).view(np.float64))
        return bool(word) if kind == "bool" else int(word)

    def listed(self, kind, first, count, words="arena"):
        return [self.word(kind, word) for word in self.fields[words][first : first + count]]

    def value(self, kind, words):
        if isinstance(kind, Record):
            return {name: self.word(part, word) for (name, part), word in zip(kind.fields, words, strict=True)}
        if isinstance(kind, Array):
            return [self.word(kind.kind, word) for word in words]
        return self.word(kind, words[0])

    def mapped(self, kind, first, count, words="arena"):
        arena, step = self.fields[words], 1 + kind.width
        entries = [arena[first + i * step : first + (i + 1) * step] for i in range(count)]
        return [(self.word(kind.key, entry[0]), self.value(kind.value, entry[1:])) for entry in entries]

    def field(self, name):
        kind, array_ = KINDS[name], self.fields[f"state_{name}"]
        if isinstance(kind, str):
            return self.words[int(array_[0])] if kind == "string" else array_[0].item()
        if isinstance(kind, Array):
            return self.value(kind, array_)
        first, count = int(array_[FIRST]), int(array_[COUNT])
        if isinstance(kind, MapOf):
            return sorted(self.mapped(kind, first, count), key=lambda pair: ordered(pair[0]))
        found = self.listed(kind.kind, first, count)
        return sorted(found, key=ordered) if isinstance(kind, SetOf) else found

    def emitted(self):
        rows, out = [], self.fields["out"]
        for at in range(1, int(out[0]), 8):
            n, w, l, l_count, s, s_count, m, m_count = map(int, out[at : at + 8])
            rows.append((
                n, self.words[w], self.listed("int64", l, l_count, "copies"),
                self.listed("string", s, s_count, "copies"), self.mapped(EMITS["m"], m, m_count, "copies"),
            ))  # fmt: skip
        return rows


def ordered(value):
    return (value != value, 0.0) if isinstance(value, float) and value != value else (False, value)


def plain(kind, value):
    """A field of the oracle in the form that `Compiled.field` returns."""
    if isinstance(kind, MapOf):
        inner = [(key, plain(kind.value, held)) for key, held in value.items()]
        return sorted(inner, key=lambda pair: ordered(pair[0]))
    if isinstance(kind, Record):
        return {name: getattr(value, name) for name, _ in kind.fields}
    if isinstance(kind, SetOf):
        return sorted(value, key=ordered)
    return list(value) if isinstance(kind, ListOf | Array) else value


def drawn_tuple(draw):
    return {
        "i": draw.randint(-3, 6), "j": draw.choice([0, 1, 2, 5, 1_000, -(2**40)]),
        "f": draw.choice([0.0, -0.0, 0.5, 1.0, -2.25, math.inf, math.nan, 3.0]),
        "w": draw.choice(WORDS), "v": draw.choice(WORDS),
    }  # fmt: skip


def agree(function, seed, steps=60):
    """Call both functions on drawn tuples until one raises; the other must raise the same."""
    draw = random.Random(seed)
    compiled = Compiled(function)
    state = SimpleNamespace(**{name: first_value(kind) for name, kind in KINDS.items()})
    for _ in range(steps):
        t = drawn_tuple(draw)
        rows = []

        def emit(n, w, l, s, m, rows=rows):
            rows.append((n, w, list(l), list(s), list(m.items())))

        errors = []
        with np.errstate(all="ignore"):
            for call in (lambda t=t, emit=emit: function(state, SimpleNamespace(**t), emit), lambda t=t: compiled(t)):
                try:
                    call()
                    errors.append(None)
                except Exception as error:
                    errors.append(type(error))
        text = f"{inspect.getsource(function)}\n{compiled.generated.source}\n{t}"
        assert errors[0] == errors[1], text
        for name, kind in KINDS.items():
            expected, found = plain(kind, getattr(state, name)), compiled.field(name)
            assert repr(found) == repr(expected), f"state.{name} = {found}, not {expected}\n{text}"
        if errors[0] is not None:
            return errors[0]
        assert repr(compiled.emitted()) == repr(rows), text
    return None
