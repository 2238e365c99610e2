"""User functions that do not compile: what a user sees of it, through the public interface.

Property    the error is one line with the user's function, line and reason, and what Python prints has none of Numba's
            pages; all that the compiler said can be had
Oracle      by hand
Cannot see  which line, for every kind of mistake: see tests/headrace/codegen/test_functions.py
"""

import pickle
import re
import traceback
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError
from headrace.kernel import JIT

pytestmark = pytest.mark.skipif(not JIT, reason="without the compiler there is nothing to compile")

TABLE = pa.table({"ts": [1, 2], "k": [1, 1], "x": [2, 3]})
STREAM = hr.stream(TABLE, event_time="ts")


def adds_a_pair(t, emit):
    emit(y=t.x + (1, 2))  # here


def compares_a_sum(t):
    return t.x + (1, 2) > 3  # here


def updates(state, t, emit):
    state.n = t.x + (1, 2)  # here


def pairs(left, right):
    return left.x + (1, 2) > right.x  # here


def custom():
    return hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=updates)


CASES = [
    (adds_a_pair, lambda: STREAM.map(adds_a_pair, y="int64").to_arrow()),
    (adds_a_pair, lambda: STREAM.flat_map(adds_a_pair, y="int64").to_arrow()),
    (compares_a_sum, lambda: STREAM.filter(compares_a_sum).to_arrow()),
    (updates, lambda: STREAM.key_by("k").window(2).apply(custom()).to_arrow()),
    (updates, lambda: STREAM.key_by("k").window(2).apply(custom()).to_arrow(mode="sn")),
    (pairs, lambda: STREAM.join(STREAM, within=2, where=pairs).to_arrow()),
]


@pytest.mark.parametrize(("function", "call"), CASES, ids=["map", "flat_map", "filter", "apply", "apply_sn", "join"])
def test_the_users_line_and_no_pages(function, call):
    with pytest.raises(FunctionError) as caught:
        call()
    error = caught.value
    assert (error.function, error.file, error.line) == (function.__name__, __file__, function.__code__.co_firstlineno + 1)
    assert re.search(r"there is no compiled add\(int64, \w*Tuple\(", str(error)) and "\n" not in str(error)
    shown = "".join(traceback.format_exception(error))
    assert "numba" not in shown.casefold() and "Traceback" not in shown.removeprefix("Traceback")
    assert "No implementation of function" in error.compiler and error.compiler.count("\n") > 10
    assert "\x1b" not in error.compiler
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.compiler) == (str(error), error.compiler)


@pytest.mark.skipif(find_spec("scipy") is not None, reason="with it, the compiler stops at the arrays")
@pytest.mark.parametrize(
    "function",
    [
        lambda t: np.linalg.svd(np.ones((2, 2)))[1][0] * t.x,
        lambda t: np.dot(np.ones(2), np.ones(2)) * t.x,
        lambda t: (np.ones((2, 2)) @ np.ones(2))[0] * t.x,
    ],
)
def test_linear_algebra_says_what_to_do_instead(function):
    with pytest.raises(FunctionError, match=r"calls np\.linalg, np\.dot or @ on arrays.*: write the sums as loops, or") as caught:
        STREAM.map(function, y="float64").to_arrow()
    assert "scipy" not in str(caught.value) and caught.value.line == function.__code__.co_firstlineno


def test_what_fails_on_a_tuple_has_nothing_of_the_compiler():
    with pytest.raises(FunctionError, match="ZeroDivisionError") as caught:
        STREAM.map(lambda t: 1 // (t.x - 2), y="int64").to_arrow()
    assert caught.value.compiler == ""


def looks_up(state, t, emit):
    state.n += {2: 5, 3: 7}[t.x]  # here


@pytest.mark.slow
def test_a_dict_of_its_own_is_refused_as_such():
    """Numba speaks of the hash of its keys."""
    operator = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=looks_up, output=shows)
    with pytest.raises(FunctionError, match=r"makes a list, set, dict or array of its own.* hr.map_of.*looks_up"):
        STREAM.key_by("k").window(2).apply(operator).to_arrow()


def shows(key, state, emit):
    emit(n=state.n)
