"""User functions that fail while they run, with the user's own line and the tuple; and those that never return.

Errors      Each case, with a part of its text. Expected lines are found by a comment `# here` in this file.
"""

from __future__ import annotations

import sys
import threading
import time

import pyarrow as pa
import pytest

import headrace as hr
from headrace.codegen.functions import explain_failure
from headrace.errors import FunctionError
from headrace.reference.containers import KeyOrderedMap
from support.small_kernel import (
    BINDINGS,
    ROWS,
    arrays,
    compiled,
    line_of,
    needs_compiler,
    run_compiled,
    special,
)
from support.workloads import HANG_S

LIMIT, WEIGHTS = 4, (1.5, 2, 3)


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


def asserts_too(state, t):
    assert t.chars < 7, f"{t.chars} of {LIMIT} characters"  # here
    state.chars = t.chars


def raises_so(state, t):
    if t.chars > 7:
        raise ValueError(f"{t.chars} of {LIMIT} characters")  # here


@pytest.mark.parametrize("function", [asserts_too, raises_so])
def test_example_what_is_raised_says_what_the_tuple_has(function):
    with pytest.raises((AssertionError, ValueError), match=r"{t\.chars} of {LIMIT} characters"):
        run_compiled(function, ROWS)  # a kernel puts no texts together: what the user sees comes from the call in Python
    error = explain_failure(function, ("state", "t"), {"state": {"chars": 0}, "t": {"chars": 8}})
    assert error.line == line_of(function)
    assert "Error: 8 of 4 characters" in error.args[0]  # pytest adds to what an assert of this file says


def refuse(state, t, emit):
    if t.n > 1:
        raise ValueError(f"{t.n:d} is too much")
    state.sum += t.n


def expect(e, t):
    assert e.n <= 1, f"{e.n} is too much"


def never(e, t):
    raise ValueError("2 is too much")


def both(left, right):
    assert left.n <= 1, f"{left.n} is too much"
    return True


@needs_compiler
@pytest.mark.parametrize("fails", [
    lambda s: s.window(9).apply(hr.operator(state={"sum": 0}, emits={"sum": "int64"}, update=refuse)),
    lambda s: s.ordered().stateful(refuse, state={"sum": 0}, emits={"sum": "int64"}),
    lambda s: hr.program(
        tags={"a": {"n": "int64"}}, state={"sum": 0}, emits={"sum": "int64"}, update={"a": refuse}).over({"a": s}),
    lambda s: s.transact(expect),
    lambda s: s.transact(never),
    lambda s: s.join(s, within=9, where=both),
], ids=["operator", "pipeline", "program", "transaction", "transaction that always fails", "join"])  # fmt: skip
def test_example_every_engine_says_what_the_tuple_has(fails):
    rows = pa.table({"ts": [0], "n": [2]})
    with pytest.raises(FunctionError, match="Error: 2 is too much"):
        fails(hr.stream(rows, event_time="ts")).to_arrow()


@needs_compiler
def test_example_a_message_has_the_text_of_a_column():
    def spell(t):
        assert t.word != "ü", f"no {t.word} here"
        if t.word:
            return t.n
        raise ValueError(f"{t.n} has no word: '{t.word}'")

    for word, said in (("ü", "no ü here"), ("", "2 has no word: ''")):
        table = pa.table({"ts": [0, 1], "n": [1, 2], "word": ["a", word]})
        with pytest.raises(FunctionError, match=said):
            hr.stream(table, event_time="ts").map(spell, m="int64").to_arrow()


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


def test_example_a_failure_after_very_many_lines_is_named():
    """It is not looked for in plain Python to the end; that the compiled function raised it is known all the same."""

    def update(state, t):
        for i in range(2_000_000):
            state.chars += i
        state.chars //= t.by

    cause = ZeroDivisionError("division by zero")
    error = explain_failure(update, ("state", "t"), {"state": {"chars": 0}, "t": {"by": 0}}, cause=cause)
    assert error.args[0].startswith("ZeroDivisionError: division by zero; the line is not known")
    assert error.tuple == {"by": 0} and error.line == update.__code__.co_firstlineno


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
    call_once = threading.Thread(target=work, daemon=True)
    call_once.start()  # compiles, then stops at once
    call_once.join(HANG_S)
    assert done.pop()
    a["stop"][0] = 0
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(0.05)
    assert not done
    a["stop"][0] = 1
    thread.join(HANG_S)
    assert done


def test_example_short_loops_are_not_polled():
    def short(state, t):
        for _ in WEIGHTS:
            for i in range(LIMIT):
                state.chars += i

    assert "load_acquire" not in special(short).source
    assert special(endless_for).source.count("load_acquire(stop, 0)") == 1


def grows(state):
    for key, n in state.counts.items():
        state.counts[key + n] = 0


def test_example_a_failure_within_pythons_library_is_at_the_users_line():
    counts = KeyOrderedMap()
    counts[1] = 1
    error = explain_failure(grows, ("state",), {"state": {"counts": counts}})
    assert (error.function, error.line) == ("grows", grows.__code__.co_firstlineno + 1)
    assert "changed during iteration" in error.args[0]
