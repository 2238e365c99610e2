"""Keyed programs as people write them, drawn: updates by key, forks and joins, a total of all; run under random plans.

Each of three tags changes what several maps hold for its event's key. A fork distributes entries by the tags that each
side will see, with locals, helpers or whole maps handed over, and a join merges them again. A total depends on everything.

Oracle      `headrace.reference` with the same functions
"""

from __future__ import annotations

import random
import re

import pyarrow as pa

import headrace as hr
from headrace.codegen.kinds import arrow_of
from headrace.reference import synchronization
from headrace.synchronization.binding import bind
from headrace.synchronization.plans import implementation_tags
from support.natural_functions import HELPERS, Natural, accepted, row
from support.natural_runs import compared
from support.random_programs import random_plan

COLUMNS = {
    "i": "int64", "j": "int64", "f": "float64", "w": "string", "v": "string", "p": "bool", "nx": "int64", "nw": "string",
}  # fmt: skip
EMITS = {"n": "int64", "x": "float64", "w": "string", "p": "bool"}
OWN_HELPERS = """
def note(state, e, by=1):
    if e.k in state.counts:
        state.counts[e.k] += by
        return state.counts[e.k] % 50
    state.counts[e.k] = by % 50
    return by
def drop(state, k):
    state.counts.pop(k, 0)
    if k in state.words:
        return state.words.pop(k)
    return "gone"
def bump(d, k, by=1):
    if k in d:
        d[k] += by
    else:
        d[k] = by
    return d[k] % 30
def first_above(r, least):
    for i, v in enumerate(r):
        if v > least:
            return i
    return -1
def turn(state, k):
    state.arr[k][0], state.arr[k][-1] = state.arr[k][-1], state.arr[k][0]
    return state.arr[k][1]
def tell(emit, e, n, w="told"):
    if n > 3:
        emit(k=e.k, n=n, w=w)
        return
    emit(k=e.k, p=n % 2 == 0)
def tidy(state, e):
    if e.k in state.counts:
        state.counts[e.k] %= 100
    if state.seen[e.k].n > 100:
        state.seen[e.k].n, state.seen[e.k].x = 0, 0.5
    for i in range(3):
        state.arr[e.k][i] %= 90
"""
EXPRESSIONS = {
    "J": [
        "e.i", "e.j", "2", "-3", "LIMIT", "e.ts", "state.seen[e.k].n", "state.arr[e.k][0]",
    ],
    "I": [
        "{J}", "{J}", "state.counts.get(e.k, {I})", "state.arr[e.k][{J} % 3]", "({I} + {I})", "({I} - {J})",
        "({I} % 7)", "({I} // -2)", "clamp({I})", "clamp({J}, high={I})", "split({I})[0]", "({I} if {B} else {I})",
        "min({I}, {J})", "abs({I})", "note(state, e)", "note(state, e, by={J})",
        "(state.counts[e.k] if e.k in state.counts else {I})", "len(e.w)", "int({B})", "state.counts.pop(e.k, {I})",
        "state.counts.setdefault(e.k, {I})", "max(state.arr[e.k])", "sum(state.arr[e.k])", "turn(state, e.k)",
        "rank({S}, e.v)", "bump(state.counts, e.k)", "bump(state.counts, e.k, by={J})", "pick({B}, {I}, {J})",
        "len({S})", "STEPS[{J} % 3]",
    ],
    "F": [
        "e.f", "0.5", "state.seen[e.k].x", "{J} / 2", "({F} if {B} else {J})", "max({F}, 0.0)", "abs({F})",
        "float({J} % 8)",
    ],
    "S": [
        "e.w", "e.v", "state.words.get(e.k, {S})", "(state.words[e.k] if e.k in state.words else {S})",
        "state.seen[e.k].w", "max({S}, {S})", "word({B}, {S})", "word({B}, {S}, {S})", "drop(state, e.k)",
        "(e.w or {S})", "NAMES[{J} % 2]", "state.words.setdefault(e.k, {S})", "state.words.pop(e.k, {S})",
    ],
    "B": [
        "{J} {C} {J}", "{I} {C} {I}", "{J} {C} {J} {C} {J}", "{S} {C} {S}", "e.p", "not e.p", "e.w in NAMES", "e.w",
        "e.k in state.counts", "e.k not in state.words", "e.k in state.seen", "state.seen[e.k].p", "({B} and {B})",
        "({B} or not {B})", "{I} % 2", "{F} {C} {J}", "{J} in (1, 2, {I})", "{J} in state.arr[e.k]",
        "state.words.get(e.k, 'm') {C} {S}",
    ],
    "C": [
        "<", "<=", ">", ">=", "==", "!=",
    ],
}  # fmt: skip
STATEMENTS = [
    "state.counts[e.k] = ({I}) % 97", "state.counts[e.k] = {I}", "state.counts[e.k] = state.counts.get(e.k, 0) + 1",
    "state.seen[e.k].n += {I}", "state.seen[e.k].n = {I} % 50", "state.seen[e.k].x = {F}", "state.seen[e.k].w = {S}",
    "state.seen[e.k].p = {B} or 1 > 2", "state.seen[e.k].p = not state.seen[e.k].p", "state.arr[e.k][{J} % 3] = {I}",
    "state.arr[e.k][{J} % 3] += {I}", "state.arr[e.k][state.seen[e.k].n % 3] += turn(state, e.k)",
    "state.words[e.k] = {S}", "drop(state, e.k)", "if e.k in state.counts: state.counts[e.k] -= {I}",
    "note(state, e, {J})", "turn(state, e.k)", "if e.k in state.seen: state.seen.pop(e.k)",
    "if e.k in state.arr: state.arr.pop(e.k)", "state.arr[e.k][0], state.arr[e.k][1] = state.arr[e.k][1], {I}",
    "state.seen[e.k].n, state.counts[e.k] = {I} % 90, state.seen[e.k].n % 90", "if {B}: return",
    "tell(emit, e, {J})", "tell(emit, e, {I}, {S})", "if e.nx is not None: state.counts[e.k] = e.nx",
    "state.seen[e.k].n += 0 if e.nx is None else e.nx",
    "if e.nw is not None and e.nw > state.words.get(e.k, ''): state.words[e.k] = e.nw", "state.counts[e.k] += 1",
    "if {B}: return",
]  # fmt: skip
LOOPS = [
    ("for {i} in range({J} % 4):", "i"),
    ("for {i}, {x} in enumerate(state.arr[e.k]):", "ix"),
    ("for {i} in (e.i, {J}, 2):", "i"),
    ("for {i}, {x} in PAIRS:", "ix"),
    ("for {w} in NAMES:", "w"),
    ("for {i} in STEPS:", "i"),
    ("for {i} in state.arr[e.k]:", "i"),
    ("for {w} in (e.w, {S}):", "w"),
    ("for {i} in reversed(state.arr[e.k]):", "i"),
]  # fmt: skip

# IN stands for whether a key's entries go to the right.
IN = '("a", k) in tags_right or ("b", k) in tags_right or ("c", k) in tags_right'
FORKS = [
"""
def fork(state, left, right, tags_left, tags_right):
    for k, v in state.counts.items():
        if IN:
            right.counts[k] = v
        else:
            left.counts[k] = v
    for k, w in state.words.items():
        if IN:
            right.words[k] = w
        else:
            left.words[k] = w
    for k, r in state.seen.items():
        to_right = IN
        if to_right:
            right.seen[k].n, right.seen[k].x = r.n, r.x
            right.seen[k].w = r.w
            right.seen[k].p = r.p
            continue
        left.seen[k].n, left.seen[k].x, left.seen[k].w, left.seen[k].p = r.n, r.x, r.w, r.p
    for k, row in state.arr.items():
        if IN:
            for i, v in enumerate(row): right.arr[k][i] = v
        else:
            for i in range(3): left.arr[k][i] = row[i]
""",
"""
def copy_row(to, k, row):
    for i, v in enumerate(row):
        to[k][i] = v
def give(to, k, r_n, r_x, r_w, r_p):
    to[k].n = r_n
    to[k].x, to[k].w = r_x, r_w
    to[k].p = r_p
def fork(state, left, right, tags_left, tags_right):
    for k in state.counts:
        if IN: right.counts[k] = state.counts[k]
    for k in state.counts:
        if k not in right.counts: left.counts[k] = state.counts[k]
    for k, w in state.words.items():
        is_right = IN
        if not is_right:
            left.words[k] = w
        else:
            right.words[k] = w
    for k, r in state.seen.items():
        if IN: give(right.seen, k, r.n, r.x, r.w, r.p)
        else: give(left.seen, k, r.n, r.x, r.w, r.p)
    for k, row in state.arr.items():
        if IN: copy_row(right.arr, k, row)
        else: copy_row(left.arr, k, row)
""",
]
JOINS = [
"""
def join(into, other):
    for k, v in other.counts.items(): into.counts[k] = v
    for k, w in other.words.items(): into.words[k] = w
    for k, r in other.seen.items():
        into.seen[k].n = r.n
        into.seen[k].x = r.x
        into.seen[k].w, into.seen[k].p = r.w, r.p
    for k, r2 in other.arr.items():
        for i, v in enumerate(r2):
            into.arr[k][i] = v
""",
"""
def add_all(to, of):
    for k, v in of.items():
        to[k] = v
def join(into, other):
    if len(into.counts) == 0:
        into.counts = other.counts
    else:
        add_all(into.counts, other.counts)
    if not into.words:
        into.words = other.words
    else:
        for k in other.words: into.words[k] = other.words[k]
    if len(into.seen) == 0:
        into.seen = other.seen
    else:
        for k, r in other.seen.items():
            into.seen[k].n, into.seen[k].x, into.seen[k].w, into.seen[k].p = r.n, r.x, r.w, r.p
    for k, row in other.arr.items():
        into.arr[k][0], into.arr[k][1], into.arr[k][2] = row[0], row[1], row[2]
""",
]
TOTAL = """
def total(state, e, emit):
    n, x, w, p = 0, 0.0, "", False
    for k, v in state.counts.items():
        n += v * VAL
    for k, r in state.seen.items():
        n += r.n
        x += r.x
        p = p or r.p
        w = max(w, r.w)
    for row in state.arr.values():
        n += row[0] * 3 + row[-1] + sum(row)
    for one in state.words.values():
        w = max(w, one)
    emit(k=NONE, n=n, x=x, w=w, p=len(state.counts) > 2 or p)
"""


class Keyed(Natural):
    """An update that keeps to the entries of its event's key."""

    def emit(self, more=""):
        of = {"n": "{I}", "x": "{F}", "w": "{S}", "p": "{J} {C} {J}"}
        names = self.draw.sample(list(of), self.draw.randint(1, 4))
        return f"emit({', '.join(['k=e.k', *(f'{name}={self.text(of[name])}' for name in names)])}{more})"

    def local(self):
        foreign = r"state\.(xs|ws|mi|si|ss|a\b)|\[1:3\]|^[LMW]\d|^[lmw]\d|^pass|\{"
        while re.search(foreign, (lines := super().local())[0]):
            pass
        return lines


def _text(draw, has_words):
    """The functions: updates, a fork, a join, a total."""
    common = HELPERS[: HELPERS.index("def first_above")]
    text = common + OWN_HELPERS
    for name in "abc":
        drawn = Keyed(draw, "e", emits=("k", *EMITS), expressions=EXPRESSIONS, statements=STATEMENTS, loops=LOOPS)
        parameters = draw.choice(["state, e, emit", "state, e, emit, limit=3"])
        text += drawn.function(name, parameters, count=draw.randint(3, 9), first=["tidy(state, e)"])
    turns = draw.choice(FORKS) + draw.choice(JOINS)
    text += turns.replace("IN:", f"{IN}:").replace("= IN\n", f"= {IN}\n")
    weight, nobody = ("len(k)", '"-"') if has_words else ("k", "-1")
    return text + TOTAL.replace("VAL", weight).replace("NONE", nobody), len(common + OWN_HELPERS)


def _program(functions, key, parts, is_by_key):
    by = {"by": "k"} if is_by_key else {}
    record = hr.record(n="int64", x="float64", w="string", p="bool")
    program = hr.program(
        tags={**{hr.tag(name, by="k", parts=parts): {"k": key, **COLUMNS} for name in "abc"}, "total": {}},
        depends=[(a, b) for i, a in enumerate("abc") for b in "abc"[i:]] + [("total", name) for name in ("a", "b", "c", "total")],
        state={
            "counts": hr.map_of(key, "int64", **by), "words": hr.map_of(key, "string", **by),
            "seen": hr.map_of(key, record, **by), "arr": hr.map_of(key, hr.array("int64", 3), **by),
        },
        emits={"k": key, **EMITS}, update={name: functions[name] for name in ("a", "b", "c", "total")},
        fork=functions["fork"], join=functions["join"],
    )  # fmt: skip
    bind(program)
    return program


def check_keyed(seed):
    """Run one drawn program. Returns the outcome."""
    draw = random.Random(seed)
    has_words = draw.random() < 0.4
    text, before = _text(draw, has_words)
    ts, rows = 0, []
    for _ in range(50):
        ts += draw.randint(0, 2)
        of = {"k": draw.choice(["", "a", "bb", "é"]) if has_words else draw.randrange(5), "s": draw.randrange(3)}
        rows.append({"ts": ts, "tag": draw.choice([*"aaabbbcc", "total"]), **row(draw), **of})
    key = "string" if has_words else "int64"
    parts, is_by_key = draw.choice([1, 3, 8]), draw.random() < 0.5
    built = accepted(text, f"keyed {seed}", lambda functions: _program(functions, key, parts, is_by_key))
    if built is None:
        return "refused"
    text, _, program = built
    options = {"threads": draw.randint(1, 3), "heartbeat": draw.choice([1, 7, 1024])}
    if draw.random() < 0.7:
        options["plan"] = random_plan(draw, program, implementation_tags(program, dict.fromkeys(program.tags, 3)))
    else:
        options["leaves"] = draw.choice([2, 4])
    kinds = {"ts": "int64", "tag": "string", "k": key, **COLUMNS, "s": "int64"}

    def found(given):
        table = pa.table({name: pa.array([one[name] for one in given], arrow_of(kind)) for name, kind in kinds.items()})
        streams = hr.streams(table, 3, by="s", tag="tag")
        return program.over({("a", "b", "c", "total"): streams}).to_arrow(**options)

    return compared(
        seed, f"{options} parts={parts} by={is_by_key}\n{text[before:]}", rows,
        lambda given: synchronization.run(program, [[(one["ts"], one["tag"], one) for one in given]]), found,
        {"ts": "int64", "k": key, **EMITS},
    )  # fmt: skip


__all__ = ["check_keyed"]
