"""Whole numbers that wrap around, where Numba tells LLVM that none does.

Property    `wrapped_sum` and `wrapped_product` are Python's, cut to 64 bits, in loops that LLVM unrolls too; LLVM is not told
            that a user's sums stay in range
Oracle      Python's integers
Cannot see  what LLVM makes of a promise that is broken: that depends on what is inlined where
"""

import random

import numpy as np
import pytest

from headrace.codegen.modules import load_module
from headrace.kernel import JIT, kernel
from headrace.memory.wrapped import wrapped_product, wrapped_sum

EDGES = (0, 1, -1, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63), 0x1E3779B97F4A7C15)


def cut(number):
    return (number + 2**63) % 2**64 - 2**63


@kernel
def both(a, b):
    return wrapped_sum(a, b), wrapped_product(a, b)


@kernel
def fold_and_clear(values, factor, out):
    """In a loop like this, with ``+`` and ``*``, LLVM left out every fourth addition to `out`."""
    for k in range(values.size):
        if values[k] != 0:
            mixed = wrapped_sum(wrapped_product(values[k], factor), k)
            out[0] = wrapped_sum(out[0], wrapped_product(mixed ^ (mixed >> 29), factor))
            values[k] = 0


def test_property_of_two_numbers():
    rng = random.Random(3)
    pairs = [(a, b) for a in EDGES for b in EDGES]
    pairs += [(rng.randrange(-(2**63), 2**63), rng.randrange(-(2**63), 2**63)) for _ in range(500)]
    for a, b in pairs:
        assert tuple(map(int, both(np.int64(a), np.int64(b)))) == (cut(a + b), cut(a * b))
    assert tuple(map(int, both(np.int32(-3), np.int64(2**62)))) == (2**62 - 3, cut(-3 * 2**62))


@pytest.mark.parametrize("size", [1, 3, 4, 5, 16, 50])
def test_property_in_a_loop(size):
    values = np.random.default_rng(size).integers(0, 2**63, size) * (np.arange(size) % 3 != 1)
    expected = 0
    for k, value in enumerate(values.tolist()):
        if value:
            mixed = cut(value * EDGES[-1] + k)
            expected = cut(expected + cut((mixed ^ (mixed >> 29)) * EDGES[-1]))
    out = np.zeros(1, np.int64)
    fold_and_clear(values, EDGES[-1], out)
    assert int(out[0]) == expected and not values.any()


SOURCE = """
from headrace.codegen.modules import {decorator}

@{decorator}
def f(x, y):
    return x * 31 + y - 7
"""


@pytest.mark.skipif(not JIT, reason="there is no LLVM")
@pytest.mark.parametrize(("decorator", "promises"), [("compiled_user", False), ("compiled", True)])
def test_example_what_llvm_is_told(decorator, promises):
    f = load_module(SOURCE.format(decorator=decorator)).f
    f._cache.disable()
    assert f(2**60, 5) == cut(2**60 * 31 - 2)
    assert ("mul nsw" in f.inspect_llvm(f.signatures[0])) == promises
