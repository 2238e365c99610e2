"""What the compiler refuses is told with the user's own line, and one line of the compiler's text.

Errors      Each case, with a part of its text. Expected lines are found by a comment `# here` in this file.
"""

from __future__ import annotations

import math

import numba
import pytest

from headrace.codegen.functions import check_compiles, translate_error
from headrace.codegen.modules import load_module
from headrace.errors import FunctionError
from support.small_kernel import ATOMICS, PARAMETERS, ROWS, arrays, line_of, longest, needs_compiler, special

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


def wrong_math(state, t):
    state.chars = math.comb(t.chars, 2)  # here


def wrong_pair(state, t):
    state.chars = (t.chars, 1)  # here


def wrong_none(state, t):
    most = None
    if t.chars > 3:
        most = t.chars
    state.chars = most  # here


@needs_compiler
@pytest.mark.parametrize(
    ("function", "text"),
    [
        (wrong_math, "there is no compiled math.comb"),
        (wrong_none, "None \\(on some path\\) is given where int64 is declared; give it a value of that kind on every path"),
        (wrong_pair, "a tuple is given where int64 is declared; give one of its elements"),
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
