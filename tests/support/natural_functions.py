"""Functions as people write them, drawn: for stages of ordered pipelines and updates of programs.

`drawn_programs` has single statements over the fields of a state. Here they are put together as a user would: early
returns, names for containers, helpers that have defaults, return out of loops, change what they are given or emit; swaps,
counters that a call changes while an expression reads them, loops that end with `break` and `else`.

A statement that is refused is left out (`accepted`): a user would read why, and write it another way.
"""

from __future__ import annotations

import linecache
import re

import headrace as hr
from headrace.errors import FunctionError

STATE = {
    "n": 3, "m": "int32", "x": "float64", "g": "float32", "p": "bool", "last": "string", "at": "timestamp[us]",
    "a": hr.array("int64", 3), "af": hr.array("float64", 2), "xs": hr.list_of("int64"), "fs": hr.list_of("float64"),
    "ws": hr.list_of("string"), "si": hr.set_of("int64"), "ss": hr.set_of("string"), "mi": hr.map_of("int64", "int64"),
    "ms": hr.map_of("string", "int64"), "mw": hr.map_of("int64", "string"),
    "mr": hr.map_of("int64", hr.record(n="int64", x="float64", w="string", p="bool")),
    "ma": hr.map_of("string", hr.array("int64", 2)),
}  # fmt: skip
EMITS = {"n": "int64", "m": "int32", "x": "float64", "g": "float32", "p": "bool", "w": "string", "d": "duration[us]"}
WORDS = ("", "a", "ab", "cart", "h", "zebra crossing", "é")

MOST_REFUSED = 40
"""How many statements of a function may be left out."""

HELPERS = '''
LIMIT, RATE, NAMES, PAIRS, STEPS = 3, 0.5, ("a", "cart"), ((1, 2), (3, -4)), (1, -2, 5)
def clamp(x, low=-9, high=40):
    if x < low:
        return low
    elif x > high:
        return high
    return x
def split(a, b=7):
    q = a // (abs(b) + 1)
    return q, a - q * (abs(b) + 1)
def pick(p, a, b):
    return a if p else b
def word(p, a, b="none"):
    if not p:
        return b
    return a
def rank(w, v):
    return 0 if w == v else 1 if w < v else -1
square = lambda x: x * x % 1000
def first_above(xs, least, otherwise=-1):
    for i, x in enumerate(xs):
        if x > least:
            return i
    return otherwise
def total(xs, limit=4):
    s = 0
    for i, x in enumerate(xs):
        if i >= limit:
            break
        s += x
    else:
        s += 1
    return s
def push(xs, x, most=5):
    xs.append(x)
    if len(xs) > most:
        return xs.pop(0)
    return len(xs)
def bump(d, k, by=1):
    if k in d:
        d[k] += by
    else:
        d[k] = by
    return d[k]
def step(state, by=1):
    state.n = (state.n + by) % 50
    return state.n
def take(state):
    n = state.n
    state.n = 0
    return n
def flip(state):
    state.p = not state.p
    return state.p
def weigh(state, x):
    if x in state.si:
        return state.mi.get(x, 1)
    state.si.add(x)
    return 0
def swap(state):
    state.a[0], state.a[-1] = state.a[-1], state.a[0]
    state.n, state.m = state.m, state.n % 1000
def restart(state):
    state.xs = []
    state.last = ""
def trim(state):
    if len(state.xs) > 9:
        state.xs = state.xs[-4:]
    while len(state.fs) > 6:
        state.fs.pop(0)
    if len(state.ws) > 6:
        state.ws.clear()
    if len(state.si) > 8:
        state.si.clear()
    if len(state.ss) > 5:
        state.ss = set()
    if len(state.mi) + len(state.mw) > 12:
        state.mi = {}
        state.mw.clear()
    if len(state.mr) > 6:
        state.mr.clear()
    if len(state.ms) > 5:
        state.ms.clear()
    state.n %= 1000
    if not -1e6 < state.x < 1e6:
        state.x = 0.0
    for i, v in enumerate(state.a):
        state.a[i] = v % 1000
    state.af[0], state.af[1] = state.af[1] % 100, 0.5
    for k, r in state.mr.items():
        r.n %= 100
        r.x = 0.25
    for k in sorted(state.mi):
        state.mi[k] = state.mi[k] % 500
    for w, both in state.ma.items():
        both[0] = both[1] % 99
'''

# An upper-case letter in braces stands for an expression: I an integer, J one without a call, B a condition, F a float,
# S a string, L a list of integers, M a map from integers to integers, C a comparison.
EXPRESSIONS = {
    "J": [
        "T.i", "T.j", "T.k", "2", "-1", "LIMIT", "state.n", "state.m", "len(state.xs)", "state.a[1]", "T.ts",
        "state.a[T.i]",
    ],
    "I": [
        "{J}", "{J}", "({I} + {I})", "({I} - {J})", "({J} * {J}) % 100", "({I} % 5)", "({I} // -3)", "clamp({I})",
        "clamp({J}, high={I})", "clamp(high={J}, x={I})", "split({I})[1]", "split({J}, b={I})[0]", "rank({S}, {S})",
        "min({I}, {J})", "max({I}, {J}, LIMIT)", "abs({I})", "-({I})", "({I} if {B} else {I})", "len({S})",
        "square({I})", "({I} & 7)", "({J} ^ {J})", "pick({B}, {I}, {J})", "first_above({L}, {J})", "total({L})",
        "total({L}, {J})", "push({L}, {J})", "bump({M}, {J})", "bump({M}, {J}, by={I})", "step(state)",
        "step(state, {J})", "take(state)", "weigh(state, {J})", "({L}[-1] if {L} else {J})", "{M}.get({I}, {I})",
        "{M}.setdefault({J}, {I})", "{M}.pop({J}, {I})", "sum({L})", "len({L})", "{L}.count({J})", "state.mr[{J}].n",
        "state.mr[{I} % 4].n", "state.ma[{S}][{J} % 2]", "state.a[{I} % 3]", "state.a[-1]", "sum(state.a)",
        "max(state.a)", "len(state.ss)", "(min({L}) if len({L}) > 0 else 0)", "(sum({M}.values()) - len({M}))",
        "int({F} * 2) % 100", "int({B})", "(T.i or {J})", "(T.i and {J})", "round({F}) % 50", "divmod({J}, 4)[1]",
        "STEPS[{J} % 3]", "(state.n + step(state) * state.n) % 500", "state.ms.get({S}, {J})", "bump(state.ms, {S})",
        "(T.j << 2)", "(T.i ** 2)", "~{J}", "T.at % 100", "(max({M}) if {M} else 0)", "(T.p + {J})",
        "sum(y for y in {L} if y {C} {J})", "len([y for y in {L} if y % 2 == 0])", "next((y for y in {L} if y > {J}), {J})",
        "max((y * 2 for y in {L}), default={J})", "sum(y * z for y, z in {M}.items()) % 99", "sum([y for y in {L}], {J})",
        "min((r.n for r in state.mr.values()), default=0)",
        "state.xs.pop() if state.xs else {J}", "(10 if T.w in NAMES else {J})", "len({L}[1:])",
    ],
    "F": [
        "T.f", "0.5", "RATE", "state.x", "state.g", "{J} / 2", "T.f * 2", "abs(T.f)", "float({J})", "max(T.f, 0.0)",
        "min({F}, {F})", "({F} if {B} else {F})", "({F} if {B} else {J})", "state.mr[{J} % 4].x",
        "state.af[{J} % 2]", "sum(state.fs)", "(state.fs[-1] if state.fs else {J})", "-{F}", "({F} + {J})",
        "({F} - {F})", "pick({B}, {F}, {F})", "pick({B}, {J}, {F})", "({F} // 1)", "({F} % 4)", "clamp({F})",
        "clamp({F}, low={J})", "max({F}, {J})", "sum(state.af) / 2",
        "sum(y for y in state.fs if y {C} {J})", "max((y for y in state.fs), default=0.5)", "next((y for y in state.fs), {F})",
    ],
    "S": [
        "T.w", "T.w", "T.v", "state.last", "'a'", "'cart'", "max({S}, {S})", "min(T.w, T.v, {S})",
        "({S} if {B} else {S})", "word({B}, {S})", "word({B}, {S}, {S})", "state.mw.get({J}, {S})",
        "(state.ws[-1] if state.ws else {S})", "state.mr[{J} % 4].w", "(max(state.ss) if state.ss else T.v)",
        "NAMES[{J} % 2]", "state.mw.setdefault({J}, {S})", "state.mw.pop({J}, {S})", "pick({B}, {S}, {S})",
        "(T.w or {S})", "next((y for y in state.ws if y {C} {S}), {S})", "next((y for y in reversed(state.ws)), {S})",
    ],
    "B": [
        "{J} {C} {J}", "{I} {C} {I}", "{J} {C} {I} {C} {J}", "{S} {C} {S}", "{S} {C} {S} {C} {S}", "T.p", "not T.p",
        "state.p", "T.w in NAMES", "{S} in ('a', 'h', {S})", "T.w", "not state.last", "{L}", "not {L}", "{M}",
        "{J} in {L}", "{J} not in {M}", "{S} in state.ss", "{S} not in state.ms", "({B} and {B})",
        "({B} or not {B})", "not ({B} or {B})", "{I} % 2", "{J} in (1, 2, LIMIT)", "{J} not in (T.i, {I})",
        "{F} {C} {F}", "{F} {C} {J}", "flip(state)", "{L} and {L}[0] {C} {J}", "len({L}) > 1 and {L}[1] in state.si",
        "state.mr[{J} % 4].p", "{J} in state.mr", "state.p == T.p", "(T.i > 0) != T.p", "{S} == state.mr[{J}].w",
        "0 < {I} < 5", "({B} if {B} else {B})", "{J} in state.a", "T.f in state.fs", "state.n == take(state)",
        "state.n < step(state) < 40", "bool({I})", "T.w == T.v == state.last", "{L} and state.ws", "{J} in {L}[-2:]",
        "T.p and not {B}", "T.at > state.at", "any(y {C} {J} for y in {L})", "all(y {C} {S} for y in state.ws)",
        "any(y in {M} for y in {L})", "any(r.p for r in state.mr.values())", "all([y > {J} for y in {L}])", "any({L})",
        "any(y == z for y in {L} for z in {M})", "all(y or z {C} {J} for y, z in {M}.items() if y != T.i)", "all(state.fs)",
    ],
    "C": [
        "<", "<=", ">", ">=", "==", "!=",
    ],
}  # fmt: skip
STATEMENTS = [
    "state.n = {I}", "state.n += {I}", "state.n -= {J}", "state.n = state.n + {I}", "state.m = {I} % 1000",
    "state.x = {F}", "state.x += {F}", "state.g = T.f", "state.g = float({J} % 9)", "state.p = {J} > {I}",
    "state.p = not state.p", "state.p = {J} in {M}", "state.p |= T.p", "state.last = {S}", "state.at = T.at",
    "state.at += {J}", "state.a[{I} % 3] = {I}", "state.a[{J} % 3] += {I}", "state.a[0] -= 1",
    "state.af[{J} % 2] = {F}", "{L}.append({I})", "{L}.append({J})", "state.fs.append({F})", "state.ws.append({S})",
    "state.si.add({I})", "state.ss.add({S})", "state.si.discard({J})", "state.ss.discard({S})", "{M}[{I}] = {I}",
    "{M}[{J}] = {M}.get({J}, 0) + 1", "state.ms[{S}] = {I}", "state.ms[{S}] = state.ms.get({S}, 0) + {J}",
    "state.mw[{J}] = {S}", "state.mr[{J} % 4].n += {I}", "state.mr[{J}].n = {I} % 90", "state.mr[{J} % 4].x = {F}",
    "state.mr[{J} % 4].w = {S}", "state.mr[{J}].p = {J} {C} {J}", "state.ma[{S}][{J} % 2] += {I}",
    "state.ma[{S}][0], state.ma[T.v][1] = {I}, state.ma[T.w][0]", "{M}.pop({J}, 0)",
    "if {J} in {M}: {M}[{J}] += {I}", "if state.n in {M}: {M}[state.n] += step(state)",
    "if {L}: {L}[-1] += push({L}, {J})", "if {L}: {L}[0], {L}[-1] = {L}[-1], {L}[0]",
    "state.n, state.m = state.m, state.n % 1000", "state.a[0], state.a[1] = state.a[1], {I}",

    "state.a[state.n % 3] += step(state)", "state.a[state.n % 3] += step(state)", "state.a[state.n % 3] -= step(state, {J})",
    "state.mr[state.n % 4].n += step(state)",
    "state.n, {M}[state.n] = {J} % 5, {I}", "state.last, state.ws = {S}, state.ws[-2:]", "swap(state)",
    "step(state)", "push({L}, {I})", "bump({M}, {I})", "bump({M}, {J}, {J})", "bump(state.ms, {S}, by={J})",
    "restart(state)", "{L}.sort()", "{L}.reverse()", "{L}.sort(reverse=True)", "state.xs = sorted(state.xs)",
    "state.xs = state.xs[1:]", "state.xs = state.xs[-{J} % 4:]", "state.xs = sorted(state.si)[:4]",
    "state.xs = list({M})", "state.xs = list({M}.values())", "{L}.extend({L}[:2])", "{L}.insert({J}, {I})",
    "if {L}: {L}.pop()", "if {L}: {L}.pop(0)", "if {J} in {L}: {L}.remove({J})",
    "if {J} in state.mr: state.mr.pop({J})", "state.mi = {{}}", "state.xs = []", "state.ss = set()",
    "state.ws = sorted(state.ss)", "state.fs.sort()", "while state.fs and state.fs[0] < T.f: state.fs.pop(0)",
    "while {L} and {L}[0] < {J}: {L}.pop(0)", "if T.nx is not None: state.n += T.nx",
    "if T.nx is None or T.nx > 1: state.n += 1", "state.n += 1 if T.nx is None else T.nx",
    "state.x += {J} if T.nx is not None and T.nx > 0 else {F}", "state.last = T.nw if T.nw is not None else {S}",
    "if T.nw is not None and T.nw {C} {S}: state.p = True", "if {B}: return", "if {B}: return", "state.x = {J}",
    "state.x /= 2", "state.n //= 2", "state.n %= LIMIT", "if {J} == 77: state.n = 1 // 0",
    "state.n = {L}[{J}] if len({L}) > 3 else {I}", "if {B}: state.n = {M}[{J}]",
    "state.mi[T.i], state.mi[T.j] = state.mi.get(T.j, 0), state.mi.get(T.i, 1)",
]  # fmt: skip
LOOPS = [
    ("for {i} in range({J} % 4):", "i"), ("for {i} in range(3, 0, -1):", "i"),
    ("for {i} in range(1, {I} % 5):", "i"), ("for {i} in {L}:", "i"), ("for {i}, {x} in enumerate({L}):", "ix"),
    ("for {i}, {x} in enumerate({L}, {J}):", "ix"), ("for {i}, {x} in enumerate({L}, step(state)):", "ix"),
    ("for {i}, {x} in {M}.items():", "ix"), ("for {i} in {M}:", "i"), ("for {i} in {M}.values():", "i"),
    ("for {i} in sorted({M}):", "i"), ("for {i} in list({M}):", "i"), ("for {i} in reversed({L}):", "i"),
    ("for {i} in {L}[:3]:", "i"), ("for {i} in sorted({L}, reverse=True):", "i"), ("for {i}, {x} in PAIRS:", "ix"),
    ("for {i} in STEPS:", "i"), ("for {i} in ({J}, {I}, 2):", "i"),
    ("for {i}, {x} in zip((1, T.i, 3), (T.j, 5, 6)):", "ix"), ("for {i} in state.si:", "i"),
    ("for {i} in state.a:", "i"), ("for {i}, {x} in enumerate(state.a):", "ix"), ("for {w} in state.ws:", "w"),
    ("for {w} in sorted(state.ss):", "w"), ("for {w} in NAMES:", "w"), ("for {w} in (T.w, {S}, 'h'):", "w"),
    ("for {w}, {i} in state.ms.items():", "iw"), ("for {i}, {w} in enumerate(state.ws, 1):", "iw"),
    ("for {i}, {w} in state.mw.items():", "iw"), ("for {i}, {r} in state.mr.items():", "ir"),
    ("for {r} in state.mr.values():", "r"), ("for {f} in state.fs:", "f"), ("for {w} in {W}:", "w"),
    ("for {i}, {w} in zip((1, 2), (T.w, T.v)):", "iw"), ("for {w}, {b} in state.ma.items():", "wb"),
]  # fmt: skip


class Natural:
    """Draws one function.

    Parameters
    ----------
    draw : random.Random
    tuple_name : str
    has_state : bool
    emits : sequence of str
        Names of what it emits.
    expressions, statements, loops : optional
        What is drawn from instead of this file's own; without a state, only what does not name the state.
    """

    def __init__(self, draw, tuple_name="t", has_state=True, emits=tuple(EMITS), expressions=None, statements=None, loops=None):
        self.draw, self.tuple, self.emits = draw, tuple_name, emits
        given = {key: list(choices) for key, choices in (expressions or EXPRESSIONS).items()}
        self.statements, self.loops = list(statements or STATEMENTS), list(loops or LOOPS)
        if not has_state:
            of_state = re.compile(r"state|\{[LMW]\}|weigh|step|take|flip")
            given = {key: [one for one in choices if not of_state.search(one)] for key, choices in given.items()}
            self.statements, self.loops = ["if {B}: return"], [one for one in self.loops if not of_state.search(one[0])]
        self.expressions = given
        self.names = {kind: [] for kind in "IFSLMWR"}
        self.count = 0

    def fresh(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def text(self, template, depth=2, names=None):
        """Fill in a template."""

        def fill(match):
            key = match[1]
            if names and key in names:
                return names[key]
            own = self.names.get("I" if key == "J" else key, [])
            if own and self.draw.random() < 0.4:
                return self.draw.choice(own)
            if key in "LMW":
                return {"L": "state.xs", "M": "state.mi", "W": "state.ws"}[key]
            choices = self.expressions[key]
            if depth <= 0:  # the simplest choices
                choices = [one for one in choices if "{" not in one] or choices
            return self.text(self.draw.choice(choices), depth - 1)

        return re.sub(r"\{([A-Za-z])\}", fill, template).replace("T.", f"{self.tuple}.").replace("{{", "{").replace("}}", "}")

    def emit(self, more=""):
        of = {"n": "{I}", "m": "{I} % 999", "x": "{F}", "g": "T.f", "p": "{J} {C} {J}", "w": "{S}", "d": "{J}", "k": "T.k"}
        items = [f"{name}={self.text(of[name])}" for name in self.emits]
        self.draw.shuffle(items)
        return f"emit({', '.join(items)}{more})"

    def block(self, count, depth):
        before = {kind: list(own) for kind, own in self.names.items()}
        lines = ["    " + line for _ in range(count) for line in self.statement(depth)]
        self.names = before
        return lines

    def statement(self, depth):
        chance = self.draw.random()
        if depth and chance < 0.22:
            lines = [self.text("if {B}:"), *self.block(self.draw.randint(1, 2), depth - 1)]
            for _ in range(self.draw.choice([0, 0, 1])):
                lines += [self.text("elif {B}:"), *self.block(1, depth - 1)]
            if self.draw.random() < 0.5:
                lines += ["else:", *self.block(self.draw.randint(1, 2), depth - 1)]
            return lines
        if depth and chance < 0.36:
            return self.loop(depth)
        if chance < 0.5:
            return self.local()
        if chance < 0.6:
            return [self.emit()]
        return [self.text(self.draw.choice(self.statements))]

    def local(self):
        kind = self.draw.choice("IIIFSLMW2rt")
        if kind == "2":
            one, other = self.fresh("v"), self.fresh("v")
            pair = self.draw.choice(["split({I})", "{I}, {J}", "divmod({J}, 3)", "split({J}, {I})"])
            line = self.text(f"{one}, {other} = {pair}")
            self.names["I"] += [one, other]
            return [line]
        if kind == "t":
            both = [one for one in self.names["I"] if one.startswith("v")]
            if len(both) > 1:
                one, other = self.draw.sample(both, 2)
                values = self.draw.choice([f"{other}, {one}", f"{other} + 1, {one} - {{J}}", f"{one} + {other}, {{J}}"])
                return [self.text(f"{one}, {other} = {values}")]
            kind = "I"
        if kind == "r":
            again = [one for one in self.names["I"] if one.startswith("v")]
            if again:
                name = self.draw.choice(again)
                return [self.text(self.draw.choice([f"{name} = {{I}}", f"{name} += {{I}}", f"if {{B}}: {name} = {{I}}"]))]
            kind = "I"
        name = self.fresh("v" if kind == "I" else kind.lower())
        value = {"L": "state.xs", "M": "state.mi", "W": "state.ws"}.get(kind, f"{{{kind}}}")
        if kind in "LW" and self.draw.random() < 0.5:
            value = {"L": ["sorted(state.si)", "state.xs[:]", "list({M}.values())", "{L}[1:3]", "state.xs.copy()"],
                     "W": ["sorted(state.ss)", "state.ws[-3:]"]}[kind]  # fmt: skip
            value = self.draw.choice(value)
        if kind in "LMW" and "state" not in self.expressions["J"][6]:
            return ["pass"]
        line = self.text(f"{name} = {value}")
        self.names[kind].append(name)
        return [line]

    def loop(self, depth):
        before = {kind: list(own) for kind, own in self.names.items()}
        if self.draw.random() < 0.2:
            name = self.fresh("v")
            head = [f"{name} = 0", self.text(f"while {name} < 4 and {{B}}:")]
            body = [f"    {name} += 1"]
            self.names["I"].append(name)
        else:
            header, what = self.draw.choice(self.loops)
            names = {key: self.fresh(key) for key in "ixwrfb"}
            head = [self.text(header, names=names)]
            over = re.search(r"in (?:\w+\()?([a-z][\w.]*)", head[0])
            body = []
            if over and re.match(r"state\.(xs|ws|fs)|[lw]\d", over[1]):
                body.append(f"    if len({over[1]}) > 12: break")
            for key in what:
                kind = {"i": "I", "x": "I", "w": "S", "f": "F", "r": "R"}.get(key)
                if kind == "R":
                    self.names["I"].append(f"{names['r']}.n")
                    self.names["F"].append(f"{names['r']}.x")
                    change = self.draw.choice([f"{names['r']}.n += {{J}}", f"{names['r']}.w = {{S}}", "pass"])
                    body.append("    " + self.text(change))
                elif kind:
                    self.names[kind].append(names[key])
                else:
                    self.names["I"].append(f"{names['b']}[0]")
        body += self.block(self.draw.randint(1, 3), depth - 1)
        if self.draw.random() < 0.45:
            body.append(self.text("    if {B}: " + self.draw.choice(["break", "continue", "break", "return"])))
        self.names = before
        tail = ["else:", *self.block(1, 0)] if self.draw.random() < 0.25 else []
        return [*head, *body, *tail]

    def function(self, name, parameters="state, t, emit", count=6, first=()):
        """The text of one function."""
        lines = list(first)
        while len(lines) < count:
            lines += self.statement(2)
        if self.emits and not any("emit(" in line for line in lines):
            lines.append(self.emit())
        return f"def {name}({parameters}):\n" + "".join(f"    {line}\n" for line in lines)

    def condition(self, name, parameters="t"):
        """The text of a function for a filter."""
        lines = []
        for _ in range(self.draw.randint(0, 2)):
            is_early = self.draw.random() < 0.5
            lines += [self.text("if {B}:"), f"    return {self.draw.random() < 0.5}"] if is_early else self.local()
        return f"def {name}({parameters}):\n" + "".join(f"    {line}\n" for line in [*lines, self.text("return {B}")])


def made(text, name):
    """Functions from their text, whose source can be found."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict = {"__name__": "natural"}
    exec(compile(text, file, "exec"), scope)
    return scope


def accepted(text, name, build, refused=None):
    """What `build` makes of functions in a text, without the refused statements; None if too many are refused.

    Returns the text, the functions by their names, and what was built. `refused` collects the refusals and their lines.
    """
    for attempt in range(MOST_REFUSED):
        scope = made(text, f"{name}.{attempt}" if attempt else name)
        try:
            return text, scope, build(scope)
        except FunctionError as error:
            lines = text.splitlines()
            line = lines[error.line - 1]
            if refused is not None:
                refused.append((str(error), line.strip()))
            lead, bare = line[: len(line) - len(line.lstrip())], line.strip()
            head = re.match(r"(if|elif|while) .*:$", bare)
            if head:
                lines[error.line - 1] = f"{lead}{head[1]} {head[1] != 'while'}:"
            elif bare.startswith(("for ", "return", "def ", "pass")):
                return None
            else:
                lines[error.line - 1] = f"{lead}pass"
            text = "\n".join(lines) + "\n"
    return None


def row(draw):
    """One tuple."""
    return {
        "k": draw.randint(0, 2), "i": draw.randint(-3, 6), "j": draw.choice([0, 1, 2, 5, 9, -4]),
        "f": draw.choice([0.0, 0.5, 1.0, -2.25, 3.0]), "w": draw.choice(WORDS), "v": draw.choice(WORDS),
        "p": draw.random() < 0.5, "at": draw.randint(-5, 500), "nx": draw.choice([None, 0, 3, -2]),
        "nw": draw.choice([None, "a", "h", ""]),
    }  # fmt: skip
