"""User functions compile to what Python makes of them, whatever they refer to and wherever they were written.

Oracle      The user's function itself, called by the interpreter on objects with
            attributes; compiled code must leave the same state and emissions.
Cannot see  What Numba makes of library functions nobody used here. What is refused
            and what fails: test_refused.py, test_compile_time.py, test_failing.py.
"""

from __future__ import annotations

import ast
import json
import linecache
import math
import os
import random
import subprocess
import sys
import textwrap

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.codegen import functions
from headrace.codegen.capture import capture
from headrace.codegen.functions import specialise
from headrace.errors import FunctionError
from support.small_kernel import (
    PARAMETERS,
    ROWS,
    arrays,
    compiled,
    longest,
    needs_compiler,
    run_compiled,
    run_plain,
    special,
)

LIMIT = 4
WEIGHTS = (1.5, 2, 3)
SCALE = np.int32(2)


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
    assert generated.writes == {"state": ("chars", "total"), "emit": ("chars", "total")}
    assert generated.expression is None
    assert generated.signature.startswith("user_update(slot, row, ")
    first = longest.__code__.co_firstlineno
    assert generated.line_map[3] == (longest.__code__.co_filename, first + 2)
    assert generated.line_map[10] == (longest.__code__.co_filename, first + 5)


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
            timeout=180,
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
