"""A small kernel around a user's function: state of two keys, three columns, an output; and the same in plain Python."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from headrace.codegen.functions import FieldBinding, GeneratedFunction, Unreadable, specialise
from headrace.codegen.modules import load_module
from headrace.kernel import JIT

needs_compiler = pytest.mark.skipif(not JIT, reason="without the compiler there is nothing to compile")

BINDINGS = {
    "state": {
        "chars": FieldBinding("s_chars[slot]", "s_chars[slot]", kind="int64"),
        "total": FieldBinding("s_total[slot]", "s_total[slot]", kind="float64"),
        "seen": FieldBinding("s_seen[slot] != 0", "s_seen[slot]", kind="bool"),
        "small": FieldBinding("s_small[slot]", "s_small[slot]", kind="int32"),
    },
    "t": {
        "ts": "c_ts[row]",
        "chars": "c_chars[row]",
        "price": FieldBinding("c_price[row]", valid="c_price_valid[row] != 0"),
        "text": Unreadable("a string column cannot be read by a compiled function"),
    },
    "key": "key_id",
}
PARAMETERS = (
    "slot",
    "row",
    "key_id",
    "s_chars",
    "s_total",
    "s_seen",
    "s_small",
    "c_ts",
    "c_chars",
    "c_price",
    "c_price_valid",
    "out",
    "out_count",
    "stop",
)
EMIT = "out[out_count[0], 0] = {chars}\nout[out_count[0], 1] = {total}\nout_count[0] += 1"
I64, F64, U8, I32 = np.int64, np.float64, np.uint8, np.int32


def special(function, **changes) -> GeneratedFunction:
    options = {
        "name": "user_update",
        "arguments": ("state", "t", "emit"),
        "bindings": BINDINGS,
        "parameters": PARAMETERS,
        "emits": {"chars": "int64", "total": "float64"},
        "emit": EMIT,
        "poll": "load_acquire(stop, 0) != 0",
    }
    return specialise(function, **(options | changes))


ATOMICS = "from headrace.memory.atomics import load_acquire\n"


def compiled(generated, debug=False):
    source = f"{generated.preamble}{ATOMICS}\n\n{generated.source}\n"
    return getattr(load_module(source, generated.name, debug=debug), generated.name)


def arrays(rows):
    """State of two keys, columns of the given (ts, chars, price) rows, output."""
    return {
        "key_id": 0,
        "s_chars": np.zeros(2, I64),
        "s_total": np.zeros(2, F64),
        "s_seen": np.zeros(2, U8),
        "s_small": np.zeros(2, I32),
        "c_ts": np.array([row[0] for row in rows], I64),
        "c_chars": np.array([row[1] for row in rows], I64),
        "c_price": np.array([row[2] or 0.0 for row in rows], F64),
        "c_price_valid": np.array([row[2] is not None for row in rows], U8),
        "out": np.zeros((100, 2), F64),
        "out_count": np.zeros(1, I64),
        "stop": np.zeros(16, I64),
    }


def run_compiled(function, rows, **changes):
    call = compiled(special(function, **changes))
    a = arrays(rows)
    for row in range(len(rows)):
        call(1, row, *a.values())
    state = {
        "chars": int(a["s_chars"][1]),
        "total": float(a["s_total"][1]),
        "seen": bool(a["s_seen"][1]),
        "small": int(a["s_small"][1]),
    }
    emitted = [tuple(pair) for pair in a["out"][: a["out_count"][0]]]
    return state, emitted


class Plain:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def run_plain(function, rows):
    state = Plain(chars=0, total=0.0, seen=False, small=0)
    emitted = []

    def emit(chars, total):
        emitted.append((float(chars), float(total)))

    for ts, chars, price in rows:
        function(state, Plain(ts=ts, chars=chars, price=price), emit)
    return state.__dict__, emitted


def line_of(function) -> int:
    """The line marked `# here` in a function of a test."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if "# here" in line)

ROWS = [(0, 5, 1.5), (1, 3, None), (2, 8, -2.0), (2, 0, 0.25)]


def longest(state, t, emit):
    """Keep the largest."""
    if t.chars > state.chars:
        state.chars = t.chars
        state.total += t.chars / 2
        emit(chars=state.chars, total=state.total)
