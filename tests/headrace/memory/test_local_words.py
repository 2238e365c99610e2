"""Arrays on a kernel's stack: what is written there is read there, and LLVM keeps it in registers.

Property    words of all three kinds hold what was written, beside each other; in a loop over an array no word of the stack is
            left, and no store
Oracle      sums; the optimised LLVM IR
"""

import numpy as np
import pytest

from headrace.kernel import JIT, kernel
from headrace.memory.local_words import local_f32, local_f64, local_i64


@kernel
def mixed(x, out):
    whole, real, short = local_i64(3), local_f64(2), local_f32(2)
    whole[0], whole[2], real[1], short[0] = 1, 0, 0.5, 0.25
    for i in range(x.size):
        whole[0] += x[i]
        whole[2] += 1
        real[1] += 0.5 * x[i]
        short[0] = short[0] + np.float32(x[i])
    out[0], out[1], out[2], out[3] = whole[0], whole[2], real[1], short[0]


def test_example_words_of_three_kinds():
    """Each as wide as it is: a sum that has more digits than a float32, and one that a float64 would have exactly."""
    out = np.zeros(4)
    mixed(np.array([0, 1, 2, 3, 1 << 40]), out)
    assert out.tolist() == [(1 << 40) + 7.0, 5.0, (1 << 39) + 3.5, float(np.float32(6.25) + np.float32(1 << 40))]
    assert out[3] != (1 << 40) + 6.25


@kernel
def in_memory(words, x):
    for i in range(x.size):
        words[0] += x[i]
        words[1] = i
    return words[0] + words[1]


@kernel
def locally(x):
    words = local_i64(2)
    words[0], words[1] = 0, 0
    for i in range(x.size):
        words[0] += x[i]
        words[1] = i
    return words[0] + words[1]


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
def test_property_no_word_of_the_stack_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # what is loaded from a cache cannot be read
    x = np.arange(100)
    assert locally(x) == 4950 + 99 == in_memory(np.zeros(2, np.int64), x)

    def own_part(function):
        (text,) = function.inspect_llvm().values()
        # The function itself; what wraps it for Python has its own stack.
        return text.partition(f"{function.__name__}")[2].partition("\n}\n")[0]

    assert "alloca" not in own_part(locally)
    assert own_part(locally).count("store i64") < own_part(in_memory).count("store i64")
