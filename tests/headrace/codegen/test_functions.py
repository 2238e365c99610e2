"""User functions compile to what Python makes of them, and fail with the user's own line.

Oracle      The user's function itself, called by the interpreter on objects with
            attributes; compiled code must leave the same state and emissions.
Errors      Each case that cannot be compiled, with a part of its text. Expected
            lines are found by a comment `# here` in this file.
Cannot see  What Numba makes of library functions nobody used here.
"""

from __future__ import annotations

import ast
import inspect
import json
import linecache
import math
import os
import random
import subprocess
import sys
import textwrap
import threading
import time

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.codegen import functions
from headrace.codegen.capture import capture
from headrace.codegen.functions import (
    FieldBinding,
    GeneratedFunction,
    Unreadable,
    check_compiles,
    explain_failure,
    specialise,
    translate_error,
)
from headrace.codegen.modules import load_module
from headrace.errors import FunctionError
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
    """The line marked `# here` in a function of this file."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if "# here" in line)


ROWS = [(0, 5, 1.5), (1, 3, None), (2, 8, -2.0), (2, 0, 0.25)]

LIMIT = 4
WEIGHTS = (1.5, 2, 3)
SCALE = np.int32(2)


def longest(state, t, emit):
    """Keep the largest."""
    if t.chars > state.chars:
        state.chars = t.chars
        state.total += t.chars / 2
        emit(chars=state.chars, total=state.total)


def twice(x, factor=2):
    return x * factor


def price_or(t, default):
    if t.price is None:
        return default
    return t.price


def bump(state, by, emit):
    state.chars += by
    if state.chars > LIMIT:
        emit(total=state.total, chars=state.chars)


def everything(state, t, emit):
    slot = twice(t.chars) + twice(x=t.chars, factor=LIMIT)  # a local named as a parameter of the kernel
    state.seen = not state.seen and slot > 3
    for weight in WEIGHTS:
        state.total += weight * SCALE
    state.total, state.small = state.total + price_or(t, 10.0), t.chars % 7
    left = t.chars
    while left > 0:
        left -= 2
        if left == 4:
            continue
        bump(state, left, emit)
    out: int = math.floor(abs(state.total)) + max(state.small, 1)
    half = out // 2
    if half > 3 and t.price is not None:
        return emit(half, -math.inf)
    emit(out, np.sqrt(4.0))


# ------------------------------------------------------------------- agreement


@pytest.mark.parametrize("function", [longest, everything])
def test_example_compiled_equals_plain(function):
    assert run_compiled(function, ROWS) == run_plain(function, ROWS)


ROW = st.tuples(st.integers(0, 9), st.integers(-20, 20), st.one_of(st.none(), st.floats(-8, 8, width=16)))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, max_size=4))
def test_oracle_compiled_equals_plain(rows):
    assert run_compiled(everything, rows) == run_plain(everything, rows)


def test_example_generated_text():
    generated = special(longest, poll=None)
    assert generated.source == textwrap.dedent(
        f"""\
        @compiled_user
        def user_update({", ".join(PARAMETERS)}):  # user_update:1
            if c_chars[row] > s_chars[slot]:  # user_update:3
                s_chars[slot] = checked_int64(c_chars[row])  # user_update:4
                s_total[slot] = checked_float64(s_total[slot] + c_chars[row] / 2)  # user_update:5
                emit_1 = checked_int64(s_chars[slot])  # user_update:6
                emit_2 = checked_float64(s_total[slot])  # user_update:6
                out[out_count[0], 0] = emit_1  # user_update:6
                out[out_count[0], 1] = emit_2  # user_update:6
                out_count[0] += 1  # user_update:6"""
    )
    assert generated.reads == {"state": ("chars", "total"), "t": ("chars",)}
    assert generated.writes == {"state": ("chars", "total")}
    assert generated.expression is None
    assert generated.signature.startswith("user_update(slot, row, ")
    first = longest.__code__.co_firstlineno
    assert generated.line_map[3] == (__file__, first + 2)
    assert generated.line_map[10] == (__file__, first + 5)


def test_example_moving_a_function_does_not_change_its_text():
    text = "def f(state, t):\n    state.chars = t.chars\n"
    first, second = in_notebook(text, "f", 1), in_notebook("\n\n\n" + text, "f", 2)
    assert special(first).source == special(second).source


def test_example_predicate_is_an_expression():
    width = 10
    bindings = {"l": {"x": "l_x"}, "r": {"a": "r_a"}}
    generated = specialise(
        lambda l, r: abs(l.x - r.a) <= width,
        name="where",
        arguments=("l", "r"),
        bindings=bindings,
        parameters=("l_x", "r_a"),
        returns="any",
    )
    assert generated.expression == "abs(l_x - r_a) <= 10"
    call = compiled(generated)
    assert [call(5, 15), call(5, 16)] == [True, False]


def test_example_conditions_stay_expressions():
    def text(function):
        return special(function, arguments=("t",), returns="truth").expression

    assert text(lambda t: t.chars > 1 and not t.ts) == "c_chars[row] > 1 and (not c_ts[row])"
    assert text(lambda t: (t.chars > 1) & (t.ts < 2)) == "(c_chars[row] > 1) & (c_ts[row] < 2)"
    assert text(lambda t: t.chars) == "checked_truth(c_chars[row])"
    assert text(lambda t: t.chars and t.ts > 3) == "checked_truth(c_chars[row] and c_ts[row] > 3)"


def test_example_key_function_emits_by_position():
    roles = {"arguments": ("t", "emit"), "emits": ["key"], "emit": "found({key})"}
    generated = special(lambda t, emit: emit(t.chars % 3), **roles)
    assert "found(emit_1)" in generated.source


def test_example_value_roles():
    def output(key, state, emit):
        emit(chars=key + 1, total=state.chars)

    generated = special(output, arguments=("key", "state", "emit"))
    assert "emit_1 = checked_int64(key_id + 1)" in generated.source


def test_example_emit_may_be_left_out_and_named_freely():
    def update(z, tup):
        z.chars = tup.chars

    assert run_compiled(update, [(0, 7, None)])[0]["chars"] == 7


def test_example_null_tests_compile_to_the_validity():
    generated = special(everything)
    assert "c_price_valid[row] != 0" in generated.source

    def constant(state, t):
        if t.chars is None:
            state.chars = 1
        if t.chars is not None:
            state.chars += 2

    assert run_compiled(constant, [(0, 7, None)])[0]["chars"] == 2


# --------------------------------------------------------- closures and sources


def make(factor, offsets):
    def update(state, t):
        state.chars = t.chars * factor + offsets[1]

    return update


def test_example_closures_are_frozen():
    assert run_compiled(make(3, (1, 2)), [(0, 7, None)])[0]["chars"] == 23
    assert run_compiled(make(5, (1, 4)), [(0, 7, None)])[0]["chars"] == 39


def test_example_lambdas_on_one_line():
    pair = [lambda t: t.chars + 1, lambda t: t.chars + 2]; nested = lambda t: (lambda u: u)(t)  # noqa: E702, E731
    texts = [special(f, arguments=("t",), returns="any").expression for f in pair]
    assert texts == ["c_chars[row] + 1", "c_chars[row] + 2"]
    with pytest.raises(FunctionError, match="lambda inside"):
        special(nested, arguments=("t",), returns="any")


def test_example_lambda_over_several_lines_and_defaults():
    made = [
        special(
            lambda t, k=k: (
                t.chars
                + k
            ),
            arguments=("t",),
            returns="any",
        ).expression
        for k in (1, 2)
    ]  # fmt: skip
    assert made == ["c_chars[row] + 1", "c_chars[row] + 2"]


def test_example_same_lambda_twice_on_a_line_by_closure():
    made = [lambda t: t.chars + k for k in (1,)]  # noqa: B023
    assert special(made[0], arguments=("t",), returns="any").expression == "c_chars[row] + 1"


def test_example_jitted_functions_are_taken_apart():
    @numba.njit
    def helper(x):
        return x + 1

    def update(state, t):
        state.chars = helper(t.chars)

    assert run_compiled(update, [(0, 7, None)])[0]["chars"] == 8
    assert special(numba.njit(longest)).reads == special(longest).reads


def test_example_helpers_of_one_name_stay_apart():
    def scaled(by):
        def helper(x):
            return x * by

        return helper

    three, five = scaled(3), scaled(5)

    def update(state, t):
        state.chars = three(t.chars) + five(t.chars)

    assert run_compiled(update, [(0, 7, None)])[0]["chars"] == 56


def in_notebook(text, name, number):
    """Define a function as IPython does: from a cell whose lines linecache has, compiled statement by statement."""
    file = f"/tmp/ipykernel_1/{number}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict = {}
    for statement in ast.parse(text, file).body:
        exec(compile(ast.Module([statement], []), file, "exec"), namespace)
    return namespace[name]


def test_example_notebook_cell():
    cell = "import math\nlimit = 2.5\ndef f(state, t):\n    state.total = math.floor(limit) + t.text\n"
    with pytest.raises(FunctionError, match="string column") as caught:
        special(in_notebook(cell, "f", 3))
    assert (caught.value.file, caught.value.line) == ("/tmp/ipykernel_1/3.py", 4)
    good = in_notebook(cell.replace("t.text", "t.chars"), "f", 4)
    assert run_compiled(good, [(0, 7, None)])[0]["total"] == 9.0


@pytest.mark.parametrize("lines_of_another", [False, True])
def test_example_no_source(monkeypatch, lines_of_another):
    if lines_of_another:  # as Python 3.13 remembers those of `python -c`
        lines = ["import sys\n", "sys.exit(0)\n"]
        monkeypatch.setitem(linecache.cache, "<string>", (sum(map(len, lines)), None, lines, "<string>"))
    namespace: dict = {}
    exec("def f(state, t): pass", namespace)
    with pytest.raises(FunctionError, match="source is not available"):
        special(namespace["f"])


def test_example_edited_source_is_not_compiled():
    f = in_notebook("def f(state, t):\n    state.chars = t.chars + 1\n", "f", 5)
    in_notebook("def f(state, t):\n    state.chars = t.chars - 1\n", "f", 5)
    with pytest.raises(FunctionError, match="edited after it was loaded"):
        special(f)


def test_example_file_on_disk_and_helpers_in_another_module(tmp_path, monkeypatch):
    (tmp_path / "their_helpers.py").write_text("BASE = 100\ndef shifted(x):\n    return x + BASE\n")
    (tmp_path / "their_query.py").write_text(
        "from their_helpers import shifted\ndef update(state, t):\n    state.chars = shifted(t.chars)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import their_query

    assert run_compiled(their_query.update, [(0, 7, None)])[0]["chars"] == 107


# ------------------------------------------------------------ refused, with line

some_list = [1, 2]
no_kernel_array = np.zeros(3)


def refuse_unknown_field(state, t):
    state.chars = t.char  # here


def refuse_unknown_state(state, t):
    state.charrs = 1  # here


def refuse_string(state, t):
    if (
        t.chars > 2
        and t.text == "x"  # here
    ):
        state.chars = 1


def wrong_string(state, t):
    state.chars = t.chars + "a"  # here


def refuse_assigning_input(state, t):
    t.chars = 3  # here


def refuse_assigning_parameter(state, t):
    t = 3  # here  # noqa: F841


def refuse_bare_parameter(state, t):
    other = t  # here
    state.chars = other.chars


def refuse_list(state, t):
    state.chars = some_list[0]  # here


def refuse_array(state, t):
    state.chars = no_kernel_array[0]  # here


def refuse_module(state, t):
    state.chars = os.getpid()  # here


def refuse_time(state, t):
    state.total = time.time()  # here


def refuse_open(state, t):
    open("/etc/passwd")  # here  # noqa: SIM115


def refuse_eval(state, t):
    state.chars = eval("1")  # here


def refuse_undefined(state, t):
    state.chars = undefined_name  # here  # noqa: F821


def refuse_emit_missing(state, t, emit):
    emit(chars=1)  # here


def refuse_emit_unknown(state, t, emit):
    emit(
        chars=1,
        total=2.0,
        count=3,  # here
    )


def refuse_emit_twice(state, t, emit):
    emit(1, 2.0, chars=3)  # here


def refuse_emit_too_many(state, t, emit):
    emit(1, 2.0, 3)  # here


def refuse_emit_stars(state, t, emit):
    emit(*WEIGHTS)  # here


def refuse_emit_value(state, t, emit):
    x = emit(chars=1, total=2.0)  # here  # noqa: F841


def refuse_emit_elsewhere(state, t, emit):
    x = emit  # here  # noqa: F841


def refuse_recursion(state, t):
    state.chars = fibonacci(t.chars)


def fibonacci(n):  # reported where it is defined
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def refuse_try(state, t):
    try:  # here  # noqa: SIM105
        state.chars = 1
    except ValueError:
        pass


def refuse_inner_function(state, t):
    def inner():  # here
        pass


def refuse_import(state, t):
    import math as m  # here

    state.total = m.pi


def refuse_global(state, t):
    global LIMIT  # here
    LIMIT = 3


def refuse_return_value(state, t):
    return t.chars  # here


def refuse_yield(state, t):
    yield t.chars  # here


def refuse_with(state, t):
    with t:  # here
        pass


def refuse_walrus(state, t):
    if (x := t.chars) > 3 and t.ts > 2:  # here
        state.chars = x


def refuse_none_equality(state, t):
    if t.price == None:  # here  # noqa: E711
        state.chars = 1


def refuse_helper_field(state, t):
    state.total = wrong_helper(t, 1)


def wrong_helper(tup, x):
    return tup.prize + x  # here


REFUSED = [
    (refuse_unknown_field, r"t has no field 'char'; did you mean t.chars\? it has ts, chars, price, text"),
    (refuse_unknown_state, r"state has no field 'charrs'; did you mean state.chars\? it has chars, total, seen, small"),
    (refuse_string, "string column"),
    (wrong_string, "is a string, which cannot be used here; for other text work, do it before"),
    (refuse_assigning_input, "cannot be changed"),
    (refuse_assigning_parameter, "another name"),
    (refuse_bare_parameter, "can only be used as t.field"),
    (refuse_list, "'some_list' is a list"),
    (refuse_array, "'no_kernel_array' is a ndarray"),
    (refuse_module, "'os' is the module os"),
    (refuse_time, "'time' is the module time"),
    (refuse_open, "'open' is a"),
    (refuse_eval, "'eval' is a"),
    (refuse_undefined, "'undefined_name' is not defined"),
    (refuse_emit_missing, "total is missing; the output fields are chars, total"),
    (refuse_emit_unknown, r"count=...\): there is no such output field"),
    (refuse_emit_twice, "given twice"),
    (refuse_emit_too_many, "3 values"),
    (refuse_emit_stars, "by name"),
    (refuse_emit_value, "statement of its own"),
    (refuse_emit_elsewhere, "can only be called"),
    (refuse_try, "uses try"),
    (refuse_inner_function, "function inside"),
    (refuse_import, "import at the top"),
    (refuse_global, "keep the value in state"),
    (refuse_return_value, "returns a value"),
    (refuse_yield, "call emit"),
    (refuse_with, "uses with"),
    (refuse_walrus, "uses :="),
    (refuse_none_equality, "write `is None`"),
]


@pytest.mark.parametrize(("function", "text"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_example_refused_with_the_users_line(function, text):
    with pytest.raises(FunctionError, match=text) as caught:
        special(function)
    assert (caught.value.function, caught.value.file) == (function.__name__, __file__)
    assert caught.value.line == line_of(function)


def test_example_errors_in_helpers_name_the_helper():
    with pytest.raises(FunctionError, match="no field 'prize'") as caught:
        special(refuse_helper_field)
    assert (caught.value.function, caught.value.line) == ("wrong_helper", line_of(wrong_helper))
    with pytest.raises(FunctionError, match="calls itself") as caught:
        special(refuse_recursion)
    assert (caught.value.function, caught.value.line) == ("fibonacci", fibonacci.__code__.co_firstlineno)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (max, "not a function written in Python"),
        (3, "is a int, not a function"),
        (Plain(), "not a function written in Python"),
        ([].append, "not a function written in Python"),
        (lambda *rows: None, r"\*args"),
        (lambda state, *, t: None, "keyword-only"),
        (lambda state: None, "takes 1 parameters"),
        (lambda a, b, c, d: None, "takes 4 parameters"),
        (lambda state, t: 3, "must call emit"),
        (lambda state, t, k=some_list: None, "default of 'k' is a list"),
    ],
)
def test_example_not_usable_as_a_function(value, text):
    with pytest.raises(FunctionError, match=text):
        special(value)


def test_example_missing_return():
    def sometimes(t):
        if t.chars > 3:
            return t.chars

    with pytest.raises(FunctionError, match="every path"):
        special(sometimes, arguments=("t",), returns="int64")


def test_example_too_large_constant():
    big = 2**70
    with pytest.raises(FunctionError, match="64 bits"):
        special(lambda t: t.chars + big, arguments=("t",), returns="any")


def test_example_random_is_allowed_and_said():
    def update(state, t):
        state.total = random.random() + np.random.random()  # noqa: NPY002

    generated = special(update)
    assert generated.impure == ("np.random.random", "random.random")
    assert 0 <= compiled_state(generated)["total"] < 2


def compiled_state(generated):
    a = arrays(ROWS)
    compiled(generated)(1, 0, *a.values())
    return {"total": float(a["s_total"][1]), "chars": int(a["s_chars"][1])}


# ------------------------------------------------------------ compile-time check

TYPES = tuple(numba.typeof(value) for value in (1, 1, *arrays(ROWS).values()))


def wrong_float_to_int(state, t):
    state.seen = True
    state.chars = t.chars / 2  # here


def wrong_emit_type(state, t, emit):
    emit(
        chars=0.5,  # in this statement; Numba knows no finer place
        total=0.5,
    )


def wrong_bool(state, t):
    state.seen = 1  # here


def wrong_unification(state, t):
    x = 1
    if t.chars > 3:
        x = (1, 2)
    state.chars = x  # here


def wrong_method(state, t):
    state.chars = t.chars.bit_count_of_them()  # here


@needs_compiler
@pytest.mark.parametrize(
    ("function", "text"),
    [
        (wrong_float_to_int, "a float64 is given where int64 is declared"),
        (wrong_bool, "where bool is declared"),
        (wrong_method, "bit_count_of_them"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_example_compile_errors_have_the_users_line(function, text):
    generated = special(function)
    with pytest.raises(FunctionError, match=text) as caught:
        check_compiles(generated, TYPES, ATOMICS)
    assert (caught.value.function, caught.value.file) == (function.__name__, __file__)
    assert caught.value.line == line_of(function)
    assert "\n" not in caught.value.args[0]


@needs_compiler
def test_example_compile_error_without_a_single_place():
    first = wrong_unification.__code__.co_firstlineno
    with pytest.raises(FunctionError, match="unify") as caught:
        check_compiles(special(wrong_unification), TYPES, ATOMICS)
    assert first <= caught.value.line <= first + 4


@needs_compiler
def test_example_compile_error_in_an_emission():
    with pytest.raises(FunctionError, match="int64 is declared") as caught:
        check_compiles(special(wrong_emit_type), TYPES, ATOMICS)
    assert caught.value.line == wrong_emit_type.__code__.co_firstlineno + 1


def wrong_inside(x):
    return x + "a"  # here


@needs_compiler
def test_example_compile_error_in_a_helper():
    def update(state, t):
        state.chars = wrong_inside(t.chars)

    with pytest.raises(FunctionError) as caught:
        check_compiles(special(update), TYPES, ATOMICS)
    assert (caught.value.function, caught.value.line) == ("wrong_inside", line_of(wrong_inside))


@needs_compiler
def test_example_compile_error_through_the_kernel_it_is_pasted_in():
    generated = special(wrong_float_to_int)
    rest = ", ".join(PARAMETERS[1:])
    source = (
        f"{generated.preamble}{ATOMICS}from headrace.codegen.modules import compiled\n\n\n"
        f"{generated.source}\n\n\n"
        f"@compiled\ndef kernel({rest}):\n    for i in range(2):\n        {generated.name}(i, {rest})\n"
    )
    module = load_module(source, "kernel")
    with pytest.raises(numba.TypingError) as caught:
        module.kernel(0, *arrays(ROWS).values())
    error = translate_error(caught.value, [special(longest, name="other"), generated], module)
    assert (error.function, error.line) == ("wrong_float_to_int", line_of(wrong_float_to_int))


@needs_compiler
def test_example_error_of_ours_names_no_line_of_the_user():
    source = "from headrace.codegen.modules import compiled\n@compiled\ndef kernel(x):\n    return x + 'a'\n"
    module = load_module(source, "ours")
    with pytest.raises(numba.TypingError) as caught:
        module.kernel(1)
    error = translate_error(caught.value, [special(longest)], module)
    assert error.function == "longest"


@needs_compiler
def test_example_good_functions_pass():
    assert check_compiles(special(longest), TYPES, ATOMICS) == numba.types.none
    returns = special(lambda t: t.chars * 2.5, arguments=("t",), returns="float64", name="user_map")
    assert check_compiles(returns, TYPES) == numba.types.float64


# --------------------------------------------------------------------- failing


def divide(state, t):
    share = (
        1
        + t.chars // (t.ts - 2)  # here
    )
    state.chars = share


@pytest.mark.parametrize("debug", [False, True])
def test_example_division_by_zero_raises(debug):
    a = arrays(ROWS)
    call = compiled(special(divide), debug=debug)
    with pytest.raises(ZeroDivisionError):
        call(1, 2, *a.values())
    call(1, 0, *a.values())


def test_example_failure_is_explained_with_line_and_tuple():
    t = {"ts": 2, "chars": 8, "price": None}
    error = explain_failure(divide, ("state", "t", "emit"), {"state": {"chars": 0}, "t": t}, ["chars"])
    assert (error.function, error.file, error.line) == ("divide", __file__, line_of(divide))
    assert error.tuple == t
    assert "ZeroDivisionError" in str(error)
    assert "'chars': 8" in str(error)


def test_example_failure_in_a_helper_and_by_raise():
    def check(x):
        if x > 7:
            raise ValueError("too long")  # here
        return x

    def update(state, t):
        state.chars = check(t.chars)

    with pytest.raises(ValueError, match="too long"):
        run_compiled(update, ROWS)
    error = explain_failure(update, ("state", "t", "emit"), {"state": {"chars": 0}, "t": {"chars": 8}})
    assert (error.function, error.line, error.args[0]) == ("check", line_of(check), "ValueError: too long")


def test_example_null_used_without_a_test():
    def update(state, t):
        state.total += t.price  # here

    with pytest.raises(ValueError, match="null"):
        run_compiled(update, ROWS)
    error = explain_failure(update, ("state", "t"), {"state": {"total": 0.0}, "t": {"price": None}})
    assert error.line == line_of(update)
    assert "NoneType" in error.args[0]


def test_example_int32_overflow_is_an_error():
    def update(state, t):
        state.small = t.chars * 10**9

    with pytest.raises(OverflowError):
        run_compiled(update, [(0, 5, None)])
    cause = OverflowError("a value does not fit in int32")
    error = explain_failure(update, ("state", "t"), {"state": {"small": 0}, "t": {"chars": 5}}, cause=cause)
    assert "does not fit in int32" in error.args[0]


def test_example_failure_of_a_join_names_both_tuples():
    error = explain_failure(lambda a, b: a.x / b.y, ("l", "r"), {"l": {"x": 1}, "r": {"y": 0}})
    assert error.tuple == {"l.x": 1, "r.y": 0}


def test_example_explaining_an_endless_function_ends():
    def update(state, t):
        while True:
            state.chars += 1

    before = sys.gettrace()
    error = explain_failure(update, ("state", "t"), {"state": {"chars": 0}, "t": {}})
    assert "does not end" in error.args[0]
    assert sys.gettrace() is before


@needs_compiler
def test_example_debug_finds_an_index_out_of_bounds():
    def update(state, t):
        state.total = WEIGHTS[0] + table_value(t.chars)

    generated = special(update, bindings=BINDINGS | {"t": {"chars": "c_chars[row + 100]"}})
    with pytest.raises(IndexError):
        compiled(generated, debug=True)(1, 0, *arrays(ROWS).values())


def table_value(i):
    return (10, 20, 30)[i % 3]


# ------------------------------------------------------------------- stopping


def endless(state, t):
    while True:
        state.chars += 1


def endless_for(state, t):
    for i in range(10**15):
        state.chars += i % 3


def endless_value(t):
    x = 0
    while x < 1:
        x *= 2
    return x


def endless_in_helper(state, t):
    state.chars = endless_value(t)


@needs_compiler
@pytest.mark.parametrize("function", [endless, endless_for, endless_in_helper])
def test_example_a_function_that_never_returns_can_be_stopped(function):
    call = compiled(special(function))
    a = arrays(ROWS)
    done = []

    def work():
        try:
            call(1, 0, *a.values())
        except RuntimeError as error:
            assert "stopped" in str(error)
        done.append(True)

    a["stop"][0] = 1
    call_once = threading.Thread(target=work)
    call_once.start()  # compiles, then stops at once
    call_once.join(60)
    assert done.pop()
    a["stop"][0] = 0
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(0.05)
    assert not done
    a["stop"][0] = 1
    thread.join(5)
    assert done


def test_example_short_loops_are_not_polled():
    def short(state, t):
        for _ in WEIGHTS:
            for i in range(LIMIT):
                state.chars += i

    assert "load_acquire" not in special(short).source
    assert special(endless_for).source.count("load_acquire(stop, 0)") == 1


# ----------------------------------------------------------------------- cache

CHILD = """
import json, numba, sys
sys.path.insert(0, sys.argv[1])
from their_function import update
from headrace.codegen.functions import specialise
from headrace.codegen.modules import load_module
import numpy as np
generated = specialise(update, name="user_update", arguments=("state", "t"), parameters=("s", "c", "i"),
    bindings={"state": {"x": "s[0]"}, "t": {"y": "c[i]"}})
module = load_module(generated.preamble + generated.source, "user")
state = np.zeros(1)
module.user_update(state, np.arange(5.0), 3)
hits, misses = (sum(counts.values()) for counts in module.user_update.stats[1:3])
print(json.dumps([state[0], hits, misses, module.__name__]))
"""


@pytest.mark.slow
@needs_compiler
def test_example_second_process_compiles_nothing_even_if_the_file_moved(tmp_path):
    def child(directory, text):
        directory.mkdir()
        (directory / "their_function.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(directory)],
            env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    text = (
        "FACTOR = 2\ndef half(x):\n    return x / 2\n"
        "def update(state, t):\n    state.x += FACTOR * half(t.y)\n"
    )
    first = child(tmp_path / "a", text)
    second = child(tmp_path / "b", '"""Moved."""\n\n' + text)
    third = child(tmp_path / "c", text.replace("FACTOR = 2", "FACTOR = 4"))
    fourth = child(tmp_path / "d", text.replace("x / 2", "x / 3"))
    assert first[:3] == [3.0, 0, 1]
    assert second[:3] == [3.0, 1, 0]
    assert second[3] == first[3]
    assert third[:3] == [6.0, 0, 1]  # a changed global
    assert fourth[:3] == [2.0, 0, 1]  # a changed helper


def test_example_captured_text_has_no_addresses():
    captured = capture(everything)
    assert captured.name == "everything"
    assert set(captured.helpers) == {"twice", "price_or", "bump"}
    assert functions.specialise is specialise
