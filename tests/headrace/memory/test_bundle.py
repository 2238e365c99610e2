"""Bundles: arrays under names, which kernels take by reference.

Oracle      the arrays themselves
Cannot see  whether reading a field stays out of loops; `headrace bench` does
"""

import numpy as np
import pytest

from headrace.kernel import JIT, kernel
from headrace.memory.bundle import BundleType, named


@kernel
def difference(pair):
    return pair.high[1] - pair.low[1]


def test_example_fields_are_read_by_name():
    """Whatever their order: each order is a type of its own."""
    high, low = np.array([0, 7]), np.array([0, 3], np.int32)
    assert difference(named(high=high, low=low)) == difference(named(low=low, high=high)) == 4
    assert difference(named(high=low, low=high)) == -4


def test_example_python_sees_a_named_tuple():
    state = named(counts=np.zeros(4), count=np.ones(2), index=np.ones(3))
    assert state._fields == ("counts", "count", "index") and [a.size for a in state] == [4, 2, 3]
    assert named() == () and named()._fields == ()


@pytest.mark.skipif(not JIT, reason="there are no types without the compiler")
def test_example_types_are_told_apart():
    """By names, order, dtypes and dimensions: machine code for one of them is wrong for another."""
    from numba import typeof

    a, b = np.zeros(4), np.zeros(4, np.int32)
    types = [typeof(named(**fields)) for fields in (
        {"a": a, "b": b}, {"b": b, "a": a}, {"a": b, "b": a}, {"a": a, "c": b}, {"a": a}, {"a": a.reshape(2, 2), "b": b}, {},
    )]  # fmt: skip
    assert len(set(types)) == len({str(each) for each in types}) == len(types)
    assert all(isinstance(each, BundleType) for each in types)
    assert typeof(named(a=a + 1, b=b)) == types[0]


@kernel
def of_letters(state):
    return state.state_µs[0] + state.state_ı[0]


def test_example_names_of_any_letters():
    assert of_letters(named(state_μs=np.array([5]), state_ı=np.array([2]))) == 7


def test_example_what_lies_apart_is_refused():
    with pytest.raises(ValueError, match="contiguous"):
        named(a=np.zeros(10)[::2])
