"""Tables of transactions, written by the texts that kernels are given, and the same in plain Python.

Oracle      `headrace.reference.transactions.Table`
"""

import math
import random
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import headrace as hr
from headrace.codegen.kinds import ListOf
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.memory.lists_kernel import list_append
from headrace.memory.maps_kernel import map_put
from headrace.reference import transactions as reference
from headrace.reference.containers import as_emitted
from headrace.transactions import index_kernel, layout
from headrace.transactions.memory import TableMemory
from headrace.transactions.tables import reading

INT64 = st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]) | st.integers(-50, 50)

TEXTS = ["", "a", "b", "B", "ab", "é", "z" * 9, "z" * 9 + "a", "\U0001f40c", "￿", "a\0", "a\0b"]
VALUES = {
    "int64": INT64,
    "int32": st.sampled_from([-(2**31), 2**31 - 1]) | st.integers(-5, 5),
    "float64": st.floats(),
    "float32": st.floats(width=32),
    "bool": st.booleans(),
    "string": st.sampled_from(TEXTS),
}
KINDS = dict(zip("ijxybt", VALUES, strict=True))


def texts():
    made = OrderedTexts(1 << 12)
    made.set_types([pa.string()])
    return made


def plain(rows):
    """Rows with their values' types, so that 1, 1.0 and True differ, and NaN equals itself."""
    return [{name: (type(value), str(value)) for name, value in row.items()} for row in rows]


class Written:
    """A table memory accessed as a kernel does it: by the texts of `layout`."""

    def __init__(self, made):
        self.memory = made
        self.names = {"s": SimpleNamespace(**made.fields()), "np": np, "me": 0, **vars(index_kernel)}
        if made.texts is not None:
            self.names["s"].text_held = made.texts.held

    def slot(self, number, key):
        table = self.memory.tables[number]
        word = int(self.memory.encode(pa.array([key]))[0]) if table.is_text else key
        with np.errstate(over="ignore"):
            return int(eval(layout.find(table, number, "key"), self.names | {"key": np.int64(word)}))

    def place(self, number, key, word):
        """The place of a row's word in `table_rows`."""
        return self.names["s"].table_base[number] + self.slot(number, key) * layout.stride(self.memory.tables[number]) + word

    def write(self, number, key, column, value):
        table, s = self.memory.tables[number], self.names["s"]
        rows = s.table_reals if table.columns[column].startswith("float") else s.table_rows
        rows[self.place(number, key, layout.word(table, column))] = value

    def appear(self, number, key):
        self.names["s"].table_rows[self.place(number, key, layout.PRESENT)] = 1

    def container(self, number, key, column):
        """A container's kind, its heads, its place in them, and the owner of the free lists."""
        found = layout.container(self.memory.tables[number], number, column, "slot")
        names = self.names | {"slot": self.slot(number, key)}
        return found.kind, *(eval(text, names) for text in (found.heads, found.at, found.lists))

    def add(self, number, key, column, entry, value=()):
        """Append an element, add an element, or set a map's value."""
        kind, heads, at, lists = self.container(number, key, column)
        free, arena = self.memory.free, self.memory.arena
        with np.errstate(over="ignore"):
            if isinstance(kind, ListOf):
                assert list_append(free, arena, lists, heads, at, entry) == 0
                return
            place = map_put(free, arena, lists, heads, at, entry, len(value))
        assert place >= 0
        arena[place + 1 : place + 1 + len(value)] = value


CONTAINERS = {
    "l": hr.list_of("string"),
    "s": hr.set_of("int64"),
    "f": hr.set_of("float64"),
    "w": hr.set_of("string"),
    "m": hr.map_of("string", "float64"),
    "r": hr.map_of("int32", hr.record(n="int64", y="float64")),
    "a": hr.array("bool", 3),
}


def bits(value):
    return int(np.float64(value).view(np.int64))


def random_run(seed, steps=400):
    """The same writes to a memory, by its texts, and to reference tables."""
    rng = random.Random(seed)
    dictionary = texts()
    first = hr.table("numbers", columns={name: KINDS[name] for name in "ijxybt"}, rows=7, unknown="insert", max_rows=40)
    data = pa.table({"name": TEXTS[3:], "i": [0] * len(TEXTS[3:])})
    kept = hr.table("kept", key="name", columns=CONTAINERS | {"i": "int64"}, data=data, unknown="insert", max_rows=30)
    made = TableMemory([first, kept], dictionary)
    expected = {
        "numbers": reference.Table("numbers", dict(first.columns), {k: {} for k in range(7)}, key="id", unknown="insert"),
        "kept": reference.Table("kept", dict(kept.columns), {k: {} for k in TEXTS[3:]}, key="name", unknown="insert"),
    }
    written = Written(made)
    for _ in range(steps):
        if rng.random() < 0.4:
            key = rng.choice([*range(8), -(2**63), 2**63 - 1, 100])
            column = rng.choice("ijxybt")
            value = {
                "t": rng.choice(TEXTS),
                "i": rng.randrange(-(2**63), 2**63), "j": rng.randrange(-(2**31), 2**31), "b": rng.random() < 0.5,
                "x": rng.choice([math.nan, -0.0, 1e300, -math.inf]), "y": float(np.float32(rng.random())),
            }[column]  # fmt: skip
            written.appear(0, key)
            written.write(0, key, column, int(made.encode(pa.array([value]))[0]) if column == "t" else value)
            setattr(expected["numbers"][key], column, value)
            continue
        key, column = rng.choice(TEXTS), rng.choice(list(CONTAINERS))
        written.appear(1, key)
        row = expected["kept"][key]
        text = rng.choice(TEXTS)
        number, real = rng.randrange(-5, 200), rng.choice([math.nan, 0.0, 1.5, -1.5, -math.inf])
        word = int(made.encode(pa.array([text]))[0])
        if column == "l":
            written.add(1, key, "l", word)
            row.l.append(text)
        elif column == "s":
            written.add(1, key, "s", number)
            row.s.add(number)
        elif column == "f":
            written.add(1, key, "f", bits(real))
            row.f.add(real)
        elif column == "w":
            written.add(1, key, "w", word)
            row.w.add(text)
        elif column == "m":
            written.add(1, key, "m", word, [bits(real)])
            row.m[text] = real
        elif column == "r":
            written.add(1, key, "r", number, [number + 1, bits(real)])
            row.r[number].n, row.r[number].y = number + 1, real
        else:
            at = rng.randrange(3)
            _, heads, first, _ = written.container(1, key, "a")
            heads[first + at] = 1
            row.a[at] = True
    return made, expected


def check_written(made, expected):
    for table in made.tables:
        wanted = as_python(expected[table.name].content())
        found = as_python(made.content(table).to_pylist())
        assert plain(found) == plain(wanted), "other rows"
        assert len(made.at(3)[table.name]) == len(wanted)
        # Read the tables as a function does in plain Python.
        with reading({table: made.read(table)}):
            rows = [table[row[table.key]] for row in wanted]
            read = [{name: as_emitted(getattr(row, name)) for name in table.columns} for row in rows]
        keys = [{table.key: row[table.key]} for row in wanted]
        assert plain([key | row for key, row in zip(keys, as_python(read), strict=True)]) == plain(wanted)


def as_python(rows):
    """Turn pairs into lists and records into dicts, whichever side they come from."""

    def shown(value):
        if isinstance(value, list | tuple):
            return [shown(part) for part in value]
        return vars(value) if isinstance(value, SimpleNamespace) else value

    return [{name: shown(value) for name, value in row.items()} for row in rows]
