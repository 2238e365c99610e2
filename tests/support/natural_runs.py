"""Runs of drawn functions as people write them (`natural_functions`): ordered pipelines, and programs of one leaf.

Oracle      `headrace.reference` with the same functions; where they raise, the run raises the same. It may also report, at
            the user's line, a null that is read, an integer out of range or a number kept as a bool, which Python allows
"""

from __future__ import annotations

import random
import re

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.codegen.kinds import arrow_of, scalar
from headrace.errors import FunctionError
from headrace.ordering.binding import bind as bind_stages
from headrace.reference import ordering, synchronization
from headrace.synchronization.binding import bind as bind_program
from support.natural_functions import (
    EMITS,
    EXPRESSIONS,
    HELPERS,
    LOOPS,
    STATE,
    STATEMENTS,
    Natural,
    accepted,
    row,
)

COLUMNS = {
    "ts": pa.int64(), "k": pa.int64(), "i": pa.int32(), "j": pa.int64(), "f": pa.float32(), "w": pa.string(), "v": pa.string(),
    "p": pa.bool_(), "at": pa.timestamp("us"), "nx": pa.int64(), "nw": pa.string(),
}  # fmt: skip
"""Columns of a pipeline's input."""
SPREAD = {
    "k": "int64", "i": "int32", "j": "int64", "f": "float32", "w": "string", "v": "string", "p": "bool", "at": "timestamp[us]",
}  # fmt: skip
"""What a stage before the one with a state emits: the same, except what may be null."""
EVENTS = {
    "k": "int64", "i": "int64", "j": "int64", "f": "float64", "w": "string", "v": "string", "p": "bool", "at": "timestamp[us]",
    "nx": "int64", "nw": "string",
}  # fmt: skip
RESULTS = {"ts": "int64", **EMITS}
ELSEWHERE = re.compile("null value|range of int64|in int32|bits|where bool is declared")
"""Errors that a run may report where Python goes on."""
TELL = """
def tell(state, emit):
    for k, r in state.mr.items():
        emit(ts=1000 + k, n=r.n, m=k, x=r.x, g=0.5, p=r.p, w=r.w, d=len(state.xs))
    if state.n % 2:
        return
    emit(ts=2000, n=state.n + sum(state.xs), m=state.m, x=state.x, g=state.g, p=state.p, w=state.last, d=state.at)
"""
QUIET = "\n".join([
    "def c(state, e, emit):", "    emit(n=state.n, m=state.m, x=state.x, g=state.g, p=state.p, w=state.last, d=state.at)",
    "    if e.i > 4:", "        state.n, state.x = 0, 0.5", "",
])  # fmt: skip


class Spreading(Natural):
    """A stage that emits what `SPREAD` says."""

    def emit(self):
        of = {"i": "{I} % 7", "j": "{I} % 100", "f": "T.f", "w": "{S}", "v": "{S}", "p": "{J} {C} {J}", "at": "{J}", "k": "T.k"}
        items = [f"{name}={self.text(of[name])}" for name in SPREAD]
        self.draw.shuffle(items)
        return f"emit({', '.join(items)})"


class Silent(Natural):
    """An update of numbers that emits nothing: it may run in registers."""

    def emit(self):
        return self.text(self.draw.choice(self.statements))

    def local(self):
        while re.search(r"state\.(xs|ws|mi|si|ss)|\{|^pass", (lines := super().local())[0]):
            pass
        return lines


def _plain(rows, results):
    """Rows of the reference, with numbers of the columns' kinds."""
    of = {"bool": bool, "int64": int, "int32": int, "float64": float, "float32": lambda x: float(np.float32(x)), "string": str}
    return [
        repr({name: None if one[name] is None else of[scalar(kind).in_functions](one[name]) for name, kind in results.items()})
        for one in rows
    ]


def _found(table, results):
    columns = [table[name].cast(pa.int64()) if pa.types.is_temporal(table[name].type) else table[name] for name in results]
    return [repr(dict(zip(results, values, strict=True))) for values in zip(*(one.to_pylist() for one in columns), strict=True)]


def _table(rows, kinds):
    as_numbers = {name: pa.int64() if pa.types.is_temporal(kind) else kind for name, kind in kinds.items()}
    return pa.table({n: pa.array([one[n] for one in rows], kind).cast(kinds[n]) for n, kind in as_numbers.items()})


def compared(seed, text, rows, expected, found, results=RESULTS):
    """Compare what two functions of rows give, on all rows or as many of the first as Python takes without raising; `results`
    are the columns and their kinds."""
    for count in (len(rows), len(rows) // 2, 5, 2):
        error = None
        try:
            wanted = _plain(expected(rows[:count]), results)
            break
        except Exception as raised:
            error = raised
            if seed % 3 == 0:
                break  # rows that raise are compared, too
    try:
        given = _found(found(rows[:count]), results)
    except FunctionError as raised:
        assert ELSEWHERE.search(str(raised)) or (error is not None and type(error).__name__ in str(raised)), (raised, text)
        return "raises"
    assert error is None, f"Python raises {error!r}\n{text}"
    assert given == wanted, f"seed {seed}\n{text}"
    return "rows" if wanted else "none"


def check_pipeline(seed):
    """Run one drawn pipeline. Returns the outcome."""
    draw = random.Random(seed)
    text, stages = HELPERS, []
    if draw.random() < 0.4:
        text += Natural(draw, has_state=False).condition("keep")
        stages.append(("filter", "keep"))
    is_spread = draw.random() < 0.4
    if is_spread:
        text += Spreading(draw, has_state=False, statements=["pass"]).function("spread", "t, emit", count=4)
        stages.append(("flat_map", "spread"))
    statements = [one for one in STATEMENTS if not (is_spread and re.search(r"nx|nw", one))]
    kind = draw.choice(["partitioned", "stateful", "forget"])
    text += Natural(draw, statements=statements).function("work", count=draw.randint(4, 14), first=["trim(state)"])
    stages.append((kind, "work"))
    if kind == "stateful" and draw.random() < 0.7:
        text += TELL
    if draw.random() < 0.3:
        gone = re.compile(r"T\.(i|j|f|v|at|k)\b")
        own = {key: [one for one in choices if not gone.search(one)] for key, choices in EXPRESSIONS.items()}
        own["J"], own["F"] = [*own["J"], "T.n", "T.m", "T.d"], [*own["F"], "T.x", "T.g"]
        loops = [one for one in LOOPS if not gone.search(one[0])]
        text += Natural(draw, has_state=False, expressions=own, loops=loops).condition("late")
        stages.append(("filter", "late"))
    rows = [{"ts": ts, **row(draw)} for ts in sorted(draw.randint(-9, 30) for _ in range(draw.choice([0, 5, 40, 40, 40])))]
    options = {
        "threads": draw.randint(1, 3), "max_threads": 3, "schedule": draw.choice(["qst", "lp", "et", "ct"]),
        "queues": draw.choice(["auto", "hybrid", "partitioned", "shared"]), "reorder": draw.choice(["nonblocking", "lock"]),
        "batch": draw.choice([1, 2, 7, 64]), "capacity": draw.choice([4, 64]),
    }  # fmt: skip
    if draw.random() < 0.3:
        options["reconfigure"] = [(5, draw.randint(1, 3)), (11, {"schedule": "lp", "batch": 3})]

    def stream(functions, given):
        query = hr.stream(_table(given, COLUMNS), event_time="ts").ordered()
        for kind, name in stages:
            f = functions[name]
            if kind == "filter":
                query = query.filter(f)
            elif kind == "flat_map":
                query = query.flat_map(f, emits=SPREAD)
            elif kind == "stateful":
                query = query.stateful(f, state=STATE, emits=EMITS, end=functions.get("tell"))
            else:
                forget = {"forget": 3} if kind == "forget" else {}
                query = query.partitioned(f, by="k", state=STATE, emits=EMITS, **forget)
        return query

    def build(functions):
        bind_stages(stream(functions, [])._stages, pa.schema(COLUMNS), "ts")

    built = accepted(text, f"pipeline {seed}", build)
    if built is None:
        return "refused"
    text, functions, _ = built

    def expected(given):
        known = []
        for kind, name in stages:
            f = functions[name]
            if kind == "filter":
                known.append(ordering.Filter(f))
            elif kind == "flat_map":
                known.append(ordering.FlatMap(f, SPREAD))
            elif kind == "stateful":
                known.append(ordering.Stateful(f, state=STATE, emits=EMITS, end=functions.get("tell")))
            else:
                forget = 3 if kind == "forget" else None
                known.append(ordering.Partitioned(f, by="k", state=STATE, emits=EMITS, forget=forget))
        tuples = [(one["ts"], {name: value for name, value in one.items() if name != "ts"}) for one in given]
        return ordering.ordered([tuples], known)

    # Which of several errors comes first depends on the threads.
    one_by_one = {"threads": 1, "batch": 1} if seed % 3 == 0 else {}
    return compared(
        seed, text[len(HELPERS) :], rows, expected, lambda given: stream(functions, given).to_arrow(**options | one_by_one)
    )


def check_program(seed):
    """Run one drawn program, all of whose events depend on each other. Returns the outcome."""
    draw = random.Random(seed)
    text, state = HELPERS, STATE
    if draw.random() < 0.4:
        kept = re.compile(r"state\.(xs|fs|ws|si|ss|m[isrwa]|a\b|af)|\{[LMW]\}|weigh|push|bump|trim|swap|restart")
        own = {
            "expressions": {key: [one for one in choices if not kept.search(one)] for key, choices in EXPRESSIONS.items()},
            "statements": [one for one in STATEMENTS if not kept.search(one)],
            "loops": [one for one in LOOPS if not kept.search(one[0])],
        }
        first = ["state.n %= 1000", "if not -1e6 < state.x < 1e6: state.x = 0.0"]
        for name in "ab":
            drawn = Silent(draw, "e", emits=(), **own)
            text += drawn.function(name, "state, e, emit", count=draw.randint(2, 8), first=first)
        text += QUIET
        state = {name: kind for name, kind in STATE.items() if isinstance(kind, str | int)}
    else:
        for name in "abc":
            drawn = Natural(draw, "e", emits=draw.sample(list(EMITS), draw.randint(2, len(EMITS))))
            parameters = draw.choice(["state, e, emit", "state, e, emit, limit=3"])
            text += drawn.function(name, parameters, count=draw.randint(3, 9), first=["trim(state)"])
    ts, rows = 0, []
    for _ in range(draw.choice([5, 40, 40])):
        ts += draw.randint(0, 2)
        rows.append({"ts": ts, "tag": draw.choice("aabbc"), **row(draw), "s": draw.randrange(2)})
    options = {
        "plan": draw.choice(["auto", "chain", "flat"]), "threads": draw.randint(1, 3), "heartbeat": draw.choice([1, 7, 1024]),
    }  # fmt: skip

    def build(functions):
        program = hr.program(
            tags=dict.fromkeys("abc", EVENTS), depends=[(a, b) for a in "abc" for b in "abc"], state=state, emits=EMITS,
            update={name: functions[name] for name in "abc"},
        )  # fmt: skip
        bind_program(program)
        return program

    built = accepted(text, f"program {seed}", build)
    if built is None:
        return "refused"
    text, _, program = built
    kinds = {name: arrow_of(kind) for name, kind in {"ts": "int64", "tag": "string", **EVENTS, "s": "int64"}.items()}

    def found(given):
        return program.over({("a", "b", "c"): hr.streams(_table(given, kinds), 2, by="s", tag="tag")}).to_arrow(**options)

    return compared(
        seed, text[len(HELPERS) :], rows,
        lambda given: synchronization.run(program, [[(one["ts"], one["tag"], one) for one in given]]), found,
    )  # fmt: skip
