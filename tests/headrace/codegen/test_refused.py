"""What cannot be a user function is refused with the user's own line, before the compiler sees it.

Errors      Each case, with a part of its text. Expected lines are found by a comment `# here` in this file.
"""

from __future__ import annotations

import os
import pdb  # noqa: T100
import time

import numpy as np
import pytest

from headrace.errors import FunctionError
from support.small_kernel import Plain, line_of, special

WEIGHTS = (1.5, 2, 3)
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


def refuse_breakpoint(state, t):
    breakpoint()  # here  # noqa: T100


def refuse_debugger(state, t):
    pdb.set_trace()  # here  # noqa: T100


def refuse_input(state, t):
    state.chars = input()  # here


def refuse_with_open(state, t):
    with open("/etc/passwd"):  # here
        pass


def refuse_eval(state, t):
    state.chars = eval("1")  # here


def refuse_next(state, t):
    state.chars = next((t.chars, 2))  # here


def refuse_power(state, t):
    state.chars = pow(t.chars, 3, 7)  # here


def refuse_str(state, t):
    state.chars = len(str(t.chars))  # here


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


def refuse_hour(state, t):
    state.chars = t.ts.hour  # here


def refuse_subscript(state, t):
    state.chars = t["chars"]  # here


def refuse_subscript_of_no_name(state, t):
    state.chars = t["two words"]  # here


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
    (refuse_open, r"open\(...\) cannot be compiled: read the file beforehand, .*hr.stream takes Parquet and Arrow files"),
    (refuse_breakpoint, r"breakpoint\(...\) cannot be compiled: print\(...\) shows numbers .* call the function yourself"),
    (refuse_debugger, "'pdb' is the debugger pdb: print.* call the function yourself"),
    (refuse_input, r"input\(...\) cannot be compiled: a run cannot wait for an answer; ask before it starts"),
    (refuse_with_open, "uses with: it cannot be compiled; read files beforehand"),
    (refuse_eval, "'eval' is a"),
    (refuse_next, r"next\(...\) cannot be compiled: give it a comprehension and a default"),
    (refuse_power, r"pow\(t.chars, 3, 7\) cannot be compiled: write t.chars \*\* 3 % 7 where"),
    (refuse_str, r"str\(...\) cannot be compiled: do it before, in Spark or in an expression"),
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
    (refuse_hour, "t.ts.hour: times are integers here, .* t.ts // 3_600_000_000 % 24 is the hour"),
    (refuse_subscript, r"t\['chars'\]: write t.chars"),
    (refuse_subscript_of_no_name, r"'two words' is no name in Python; rename it before, as in select\(..., x='two words'\)"),
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
        (lambda state, t: 3, r"emit\(...\), a parameter that it lacks: it is called with \(state, t, emit\)"),
        (lambda state, t, emit: 3, "must call emit"),
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
