"""Words that kernels take by their address.

Oracle      the array itself
Cannot see  what it costs; `headrace bench ordered` does
"""

import sys

import numpy as np
import pytest
from numba import TypingError

from headrace.kernel import JIT, kernel
from headrace.memory.own_words import Words, own_words


@kernel
def double(l, at):
    l[at] = 2 * l[at - 1]
    return l[at]


@kernel
def outer(l):
    return double(l, 1) + double(l, np.int32(2))


def test_example_kernels_and_python_see_the_same_words():
    l = own_words(4)
    assert isinstance(l, Words) and l.tolist() == [0, 0, 0, 0]
    l[0] = 2**40
    assert outer(l) == 6 * 2**40
    assert l.tolist() == [2**40, 2**41, 2**42, 0]


@pytest.mark.skipif(not JIT, reason="the interpreter counts references to everything")
def test_kernels_count_no_references():
    l = own_words(4)
    before = sys.getrefcount(l)
    outer(l)
    assert sys.getrefcount(l) == before
    assert "NRT_incref" not in next(iter(outer.inspect_llvm().values()))


@pytest.mark.skipif(not JIT, reason="there are no types without the compiler")
@pytest.mark.parametrize("other", [np.zeros(4), np.zeros((2, 2), np.int64), np.arange(8)[::2]], ids=["floats", "rows", "gaps"])
def test_what_is_no_row_of_words_is_refused(other):
    with pytest.raises(TypingError, match="without gaps"):
        double(other.view(Words), 1)
