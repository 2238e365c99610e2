"""A generator of small functions over fields of every kind, those of `kept_values`."""

from __future__ import annotations

import linecache
import random


class Programs:
    """Draws functions: statements over the fields, made of expressions of the kind that each needs."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.locals: list[tuple[str, str]] = []
        self.loops = 0

    def one(self, *choices):
        return self.draw.choice(choices)

    def int(self, depth=2):
        own = [name for name, kind in self.locals if kind == "int"]
        simple = ["t.i", "t.j", str(self.draw.randint(-2, 4)), "state.n", "len(state.xs)", *own, *own]
        if depth == 0:
            return self.one(*simple)
        deep = [
            f"({self.int(depth - 1)} {self.one('+', '-')} {self.int(depth - 1)})", f"({self.int(0)} % 5)",
            f"len({self.one('t.w', 'state.last', 'state.ss', 'state.ms', 'state.mr', 'state.a')})",
            f"state.mi.get({self.int(0)}, {self.int(0)})", f"state.ms.get({self.string(0)}, 0)",
            f"state.a[{self.int(0)} % 4]", f"sum(state.{self.one('xs', 'a', 'mi', 'si')})",
            f"state.mr[{self.int(0)} % 7].n", f"state.ma[{self.string(0)}][{self.int(0)} % 3]",
            f"state.xs.count({self.int(0)})", f"({self.int(0)} if {self.condition(0)} else {self.int(0)})",
            "(max(state.xs) if state.xs else 0)", "(min(state.mi.values()) if state.mi else 1)",
            f"state.mi.setdefault({self.int(0)}, {self.int(0)})", f"state.mi.pop({self.int(0)}, {self.int(0)})",
            f"state.xs[{self.int(0)}]", f"state.mi[{self.int(0)}]", f"state.xs.index({self.int(0)})", "state.xs.pop()",
        ]  # fmt: skip
        # Expressions that may raise are rare: an error ends the program.
        return self.one(*simple, *deep[:-4], *deep[:-4], self.one(*deep[-4:]))

    def float(self):
        return self.one(
            "t.f", "state.x", "1.5", "state.af[0]", "state.af[-1]", f"state.mf.get({self.int(0)}, 0.25)",
            f"state.mr[{self.int(0)} % 7].x", "sum(state.af)",
        )  # fmt: skip

    def string(self, depth=1):
        own = [name for name, kind in self.locals if kind == "string"]
        simple = ["t.w", "t.v", "state.last", "'cart'", "'ab'", *own, *own]
        if depth == 0:
            return self.one(*simple)
        return self.one(
            *simple, f"state.mw.get({self.string(0)}, {self.string(0)})", f"max({self.string(0)}, {self.string(0)})",
            f"min({self.string(0)}, {self.string(0)})", f"({self.string(0)} if {self.condition(0)} else {self.string(0)})",
            "(max(state.ss) if state.ss else '')", "(state.ws[-1] if state.ws else t.v)",
        )  # fmt: skip

    def condition(self, depth=1):
        compare = self.one("==", "!=", "<", "<=", ">", ">=")
        simple = [
            f"{self.string(0)} {compare} {self.string(0)}", f"t.i {compare} {self.draw.randint(-1, 3)}",
            "t.w in state.ss", "t.i not in state.si", "t.f in state.sf", "t.i in state.xs", "t.w in state.ms",
            "state.ws", "not state.last", "t.w in ('a', 'cart', '')", "t.i in state.a", "t.f in state.fs",
            "t.i in state.mi.keys()",
        ]  # fmt: skip
        if depth == 0:
            return self.one(*simple)
        both = f"({self.condition(0)}) {self.one('and', 'or')} ({self.condition(0)})"
        return self.one(*simple, both, f"not ({self.condition(0)})", f"{self.string()} {compare} {self.string()} < 'm'")

    def list(self, kind):
        fields = {"int": ["state.xs"], "string": ["state.ws"]}[kind]
        sources = {"int": ["state.xs", "state.si", "state.mi", "state.mi.values()", "state.a"],
                   "string": ["state.ws", "state.ss", "state.ms", "state.mw.values()"]}[kind]  # fmt: skip
        made = f"{self.one('sorted', 'list')}({self.one(*sources)})"
        return self.one(
            f"{self.one(*fields)}[{self.one('', '-3', '1')}:{self.one('', '4', '-1')}]", made,
            f"{made}[{self.one(':3', '1:', '-2:')}]", f"sorted({self.one(*sources)}, reverse=True)",
        )  # fmt: skip

    def loop(self, indent, depth):
        before = list(self.locals)
        self.loops += 1
        name, other = f"a{self.loops}", f"b{self.loops}"
        header, new = self.one(
            (f"for {name} in state.xs[:5]:", [(name, "int")]),
            (f"for {name} in sorted(state.ss)[:4]:", [(name, "string")]),
            (f"for {name}, {other} in state.ms.items():", [(name, "string"), (other, "int")]),
            (f"for {name} in state.mi:", [(name, "int")]),
            (f"for {name} in state.mw.values():", [(name, "string")]),
            (f"for {name}, {other} in enumerate(state.ws[-4:]):", [(name, "int"), (other, "string")]),
            (f"for {name} in reversed(state.a):", [(name, "int")]),
            (f"for {name} in ('a', 'zebra crossing'):", [(name, "string")]),
            (f"for {name} in range(3):", [(name, "int")]),
        )
        self.locals += new
        body = self.block(indent + 1, depth - 1)
        if self.draw.random() < 0.3:
            body.append("    " * (indent + 1) + f"if {self.condition(0)}:")
            body.append("    " * (indent + 2) + self.one("break", "continue"))
        self.locals = before
        return ["    " * indent + header, *body]

    def statement(self, indent, depth):
        lead = "    " * indent
        if depth > 0 and self.draw.random() < 0.3:
            if self.draw.random() < 0.5:
                return self.loop(indent, depth)
            before = list(self.locals)
            lines = [f"{lead}if {self.condition()}:", *self.block(indent + 1, depth - 1)]
            self.locals = list(before)
            if self.draw.random() < 0.5:
                lines += [f"{lead}else:", *self.block(indent + 1, depth - 1)]
            self.locals = before
            return lines
        return [lead + self.one(
            f"state.n = {self.int()}", f"state.x += {self.float()}", f"state.last = {self.string()}",
            f"state.xs.append({self.int()})", f"state.fs.append({self.float()})", f"state.ws.append({self.string()})",
            f"state.flags.append(t.i < {self.int(0)})",
            f"state.si.add({self.int()})", f"state.sf.add({self.float()})", f"state.ss.add({self.string()})",
            f"state.si.discard({self.int(0)})", f"state.ss.discard({self.string(0)})",
            f"state.mi[{self.int(1)}] = {self.int(1)}", f"state.ms[{self.string()}] = {self.int(1)}",
            f"state.mf[{self.int(0)}] = {self.float()}", f"state.mw[{self.string(0)}] = {self.string()}",
            f"state.mr[{self.int(0)} % 7].n += {self.int(1)}", f"state.mr[{self.int(0)} % 7].x = {self.float()}",
            f"state.mi[{self.int(0)}] += {self.int(1)}",
            f"state.ma[{self.string(0)}][{self.int(0)} % 3] = {self.int(1)}",
            f"state.a[{self.int(0)} % 4] += {self.int(1)}", f"state.af[{self.int(0)} % 3] = {self.float()}",
            "state.xs.sort()", "state.ws.reverse()", "state.fs.sort(reverse=True)",
            f"state.xs = {self.list('int')}", f"state.ws = {self.list('string')}",
            f"state.xs.insert({self.int(0)}, {self.int(0)})", "state.xs.extend(state.xs[:2])",
            self.one("state.si.clear()", "state.xs = []", "state.mi = {}", "state.ss = set()", "state.ws.clear()"),
            f"state.ms.pop({self.string(0)}, 0)", "state.mr.clear()",
            f"emit({self.int()}, {self.string()}, {self.list('int')}, {self.list('string')}, state.ms)",
            f"if {self.string(0)} in state.ms: state.ms[{self.string(0)}] += {self.int(0)}",
        )]  # fmt: skip

    def block(self, indent, depth):
        return [line for _ in range(self.draw.randint(1, 3)) for line in self.statement(indent, depth)]

    def function(self, name):
        lines = []
        for number in range(self.draw.randint(0, 2)):
            kind = self.one("int", "string")
            lines.append(f"    v{number} = {self.int() if kind == 'int' else self.string()}")
            self.locals.append((f"v{number}", kind))
        while len(lines) < 6:
            lines += self.statement(1, 2)
        return f"def {name}(state, t, emit):\n" + "\n".join(lines) + "\n"


def made(text, name):
    """A function from its text, whose source can be found."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict = {}
    exec(compile(text, file, "exec"), scope)
    return scope[name]
