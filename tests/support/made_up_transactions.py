"""Random transactions: functions drawn by a random generator, over two tables or four, with helpers.

What is drawn is text, so that it is captured as a user's function is; numbers stay small, indices within bounds. A key
may depend on a value read: the test that draws such a function must reject it.
"""

import linecache
import random

import pyarrow as pa

import headrace as hr

PRELUDE = """
def give(k, x):
    A[k].b = (A[k].b + x) % 50
    return A[k].b

def look(k, least=2):
    return A[k].c + least

def stop(t, is_wrong):
    if is_wrong:
        t.reject()

def put(row, x):
    if row.c > 35 and x > 2:
        return
    row.c = (row.c + x) % 40

def seek(e, k, least=3):
    if e.nk is None:
        return least
    for n in e.ks:
        if A[n].b > least:
            return A[n].c
        A[n].b += 1
    if A[k].c > 20:
        return -1
    return A[e.nk].b

def both(e, k, x=1):
    put(A[k], x)
    y = give(k=e.j, x=x)
    return y - x

peek = lambda k: B[k].c
"""
EMITS = {"o": "int64", "u": "int64"}


def events(draw, count):
    """Rows with keys that may be unknown or null, lists of equal length, one with nulls, a string, a boolean."""
    def column(make, kind=None):
        return pa.array([make() for _ in range(count)], kind or pa.int64())

    sizes = [draw.choice([0, 1, 2, 3]) for _ in range(count)]
    lists = pa.list_(pa.int64())
    return pa.table({
        "ts": column(iter(sorted(draw.randrange(40) for _ in range(count))).__next__),
        "k": column(lambda: draw.randrange(6)), "j": column(lambda: draw.choice([0, 1, 2, 3, 3, 9])),
        "nk": column(lambda: draw.choice([None, 0, 1, 2, 3])),
        "x": column(lambda: draw.randrange(-3, 5)), "y": column(lambda: draw.randrange(4)),
        "s": column(lambda: draw.choice(["a", "b", "zz"]), pa.string()), "p": column(lambda: draw.random() < 0.5, pa.bool_()),
        "ks": pa.array([[draw.randrange(6) for _ in range(n)] for n in sizes], lists),
        "ns": pa.array([[draw.choice([None, 0, 1, 2, 3, 4, 5]) for _ in range(n)] for n in sizes], lists),
        "vs": pa.array([[draw.randrange(-2, 6) for _ in range(n)] for n in sizes], lists),
    })  # fmt: skip


def tables():
    """Names -> tables: plain, with a constraint, with strings, and one into which unknown keys are inserted."""
    strings = pa.table({"key": ["a", "b"], "b": [1, 2], "c": [3, 4]})
    kinds = {"b": "int64", "c": "int64"}
    return {
        "A": hr.table("A", columns=kinds, rows=6, first={"b": 4, "c": 1}),
        "B": hr.table("B", columns={"b": hr.column("int64", least=0), "c": "int64"}, rows=7, first={"b": 3}),
        "S": hr.table("S", data=strings, key="key"),
        "I": hr.table("I", columns=kinds, rows=2, unknown="insert", max_rows=64),
    }


class _Drawing:
    """One program."""

    def __init__(self, draw):
        self._draw = draw
        self._emitter = draw.randrange(2)

    def text(self):
        count = self._draw.choice([1, 1, 2])
        return PRELUDE + "".join(self._function(number) for number in range(count)), [f"f{n}" for n in range(count)]

    def _function(self, number):
        self._loops, self._helps = [], self._draw.random() < 0.5
        lines = ["u = e.x", "q = e.k", "v = 0", "n = e.nk"]
        lines.append("r = A[q] if e.p else A[e.y]" if self._draw.random() < 0.3 else "r = A[e.y]")
        for _ in range(self._draw.randrange(1, 5)):
            lines += self._statement(2)
        if self._emitter % 2 == number or (number == 0 and self._emitter == 0):
            say = f"t.emit({self._draw.choice(['o=', 'u=v, o='])}{self._number(2)})"
            lines += [f"if {self._truth(1)}:", f"    {say}"] if self._draw.random() < 0.3 else [say]
        body = "".join(f"    {line}\n" for line in lines)
        return f"\ndef f{number}(e, t):\n{body}"

    def _one_of(self, *ways):
        return self._draw.choice(ways)

    def _key(self):
        loops = [name for name, _ in self._loops]
        simple = ["e.k", "e.k", "e.j", "e.nk", "n", "e.y", "q", "3", "(e.x + e.k) % 7", "e.y + 1", *loops, *loops]
        return self._one_of(*simple)

    def _place(self):
        if self._draw.random() < 0.2:
            return f"r.{self._one_of('b', 'c')}"
        if self._draw.random() < 0.15:
            return f"S[e.s].{self._one_of('b', 'c')}"
        return f"{self._one_of('A', 'A', 'B', 'I')}[{self._key()}].{self._one_of('b', 'c')}"

    def _number(self, depth):
        leaves = ["e.x", "e.y", "u", "v", "2", "len(e.ks)", *[value for _, value in self._loops]]
        if depth == 0 or self._draw.random() < 0.3:
            return self._one_of(*leaves)
        if self._helps and self._draw.random() < 0.2:
            return self._one_of(
                f"give({self._key()}, {self._number(0)})", f"look({self._key()})", f"both(e, {self._key()})",
                f"look(least={self._number(0)}, k={self._key()})", f"peek({self._key()})", "both(e, k=e.y, x=2)",
                f"seek(e, {self._key()})",
            )  # fmt: skip
        return self._one_of(
            self._place(), self._place(), f"({self._number(depth - 1)} {self._one_of('+', '-')} {self._number(depth - 1)})",
            f"({self._number(depth - 1)} if {self._truth(depth - 1)} else {self._number(depth - 1)})",
            f"max({self._number(depth - 1)}, {self._number(depth - 1)})",
        )  # fmt: skip

    def _truth(self, depth):
        compared = f"{self._number(depth)} {self._one_of('<', '>', '==', '!=')} {self._number(0)}"
        if depth == 0 or self._draw.random() < 0.3:
            return self._one_of("e.p", 'e.s == "a"', "e.nk is not None", "e.x > 0", "e.x in e.ks", compared)
        return self._one_of(
            compared, compared, f"not ({self._truth(depth - 1)})",
            f"({self._truth(depth - 1)} and {self._truth(depth - 1)})", f"({self._truth(depth - 1)} or {self._truth(depth - 1)})",
            f"{self._number(0)} < {self._place()} < {self._place()}", "(len(e.ks) > 0 and A[e.ks[0]].b > 3)",
        )  # fmt: skip

    def _inside(self, depth):
        lines = [line for _ in range(self._draw.randrange(1, 3)) for line in self._statement(depth)]
        return [f"    {line}" for line in lines]

    def _statement(self, depth):
        if depth > 0 and self._draw.random() < 0.45:
            return self._one_of(self._branch, self._branch, self._loop)(depth - 1)
        plain = [
            lambda: [f"{self._place()} = ({self._number(2)}) % 50"],
            lambda: [f"{self._place()} += {self._number(0)}"],
            lambda: [f"{self._place()} -= 1"],
            lambda: [f"v = ({self._number(2)}) % 30"],
            lambda: ["q = (q + e.y) % 6"],
            lambda: [f"r = A[{self._key()}]"],
            lambda: [f"u = {self._one_of('e.x + e.y', 'e.k', 'u + 1')}"],
            lambda: [f"if {self._truth(2)}:", "    t.reject()"],
            lambda: [f"if {self._truth(1)}:", "    return"],
        ]
        if self._helps:
            plain += [lambda: [f"stop(t, {self._truth(1)})"], lambda: [f"put(r, {self._number(1)})"], lambda: [self._number(2)]]
        if self._loops:
            plain += [lambda: [f"if {self._truth(1)}:", f"    {self._one_of('break', 'continue')}"]] * 3
        return self._draw.choice(plain)()

    def _branch(self, depth):
        lines = [f"if {self._truth(2)}:", *self._inside(depth)]
        if self._draw.random() < 0.5:
            lines += ["else:", *self._inside(depth)]
        return lines

    def _loop(self, depth):
        number = len(self._loops)
        i, k, w = f"i{number}", f"k{number}", f"w{number}"
        head, own = self._one_of(
            (f"for {k} in e.ks:", (k, k)), (f"for {k} in e.ns:", (k, k)),
            (f"for {k}, {w} in zip(e.ks, e.vs):", (k, w)),
            (f"for {i}, {k} in enumerate(e.ks):", (k, i)),
            (f"for {i} in range(len(e.ks)):", (f"e.ks[{i}]", i)),
            (f"for {i} in range(3):", (i, i)),
        )
        self._loops.append(own)
        lines = [head, *self._inside(depth)]
        self._loops.pop()
        if self._draw.random() < 0.2:
            lines += ["else:", *self._inside(depth)]
        return lines


def program(seed):
    """Functions, and their text."""
    text, names = _Drawing(random.Random(seed)).text()
    file = f"<made-up transactions {seed}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    scope = {"__name__": "made_up_transactions", **tables()}
    exec(compile(text, file, "exec"), scope)
    return [scope[name] for name in names], text
