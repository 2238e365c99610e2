"""Method: the machine code of a small module with an entry is read; a module without one is beside it.

Cannot see  whether wide vectors are faster on a given machine: `headrace bench join` does.
"""

import numpy as np
import pytest
from llvmlite import binding

from headrace.codegen.called import address_of
from headrace.codegen.modules import load_module
from headrace.kernel import JIT
from headrace.memory.arena import COUNT, allocate_arena

SUM = '''
from headrace.codegen.modules import compiled as kernel

@kernel
def near(values, low):
    found = 0
    for i in range(values.size):
        found += values[i] - low < 10
    return found

@kernel
def count(values, low):
    return near(values, low)
'''
FEATURES = binding.get_host_cpu_features()


@pytest.mark.skipif(not JIT, reason="there is no machine code without the compiler")
def test_example_vectors_as_wide_as_pays(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # what is loaded from a cache cannot be read
    values = np.arange(1000, dtype=np.int32)
    codes = {}
    for entry in ("count", None):
        function = load_module(SUM, "near", entry=entry).count
        assert function(values, np.int32(500)) == 510
        (codes[entry],) = function.inspect_asm().values()
    assert ("zmm" in codes["count"]) == bool(FEATURES.get("avx512vbmi2", False))
    if FEATURES.get("avx2", False):
        assert "ymm" in codes[None] or "zmm" in codes[None]


def test_example_a_part_is_not_for_python():
    module = load_module(SUM, "near", entry="count")
    if not JIT:
        pytest.skip("everything is Python")
    module.count(np.arange(3, dtype=np.int32), np.int32(0))
    with pytest.raises(TypeError):
        module.near(np.arange(3, dtype=np.int32), np.int32(0))


LARGE = """
from headrace.codegen.modules import compiled as kernel, {decorator}
from headrace.codegen.containers.kernel import kept_add, kept_append

@{decorator}
def user_update(free, arena, heads, word):
{body}

@kernel
def many(free, arena, heads, words):
    for i in range(words.size):
        user_update(free, arena, heads, words[i])
    return heads[2]
"""


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="nothing is compiled")
@pytest.mark.parametrize(("decorator", "calls"), [("compiled_user", True), ("compiled_user_within", False)])
def test_property_a_function_of_one_caller_is_copied_there_and_what_is_seldom_is_not(
    tmp_path, monkeypatch, decorator, calls
):
    """Rows call it, and containers make it larger than LLVM would copy; making room is a call in any case."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # what is loaded from a cache cannot be read
    body = "\n".join(
        f"    kept_append(free, arena, 0, heads, 0, word + {i})\n    kept_add(free, arena, 0, heads, 4, word % {i + 1})"
        for i in range(5)
    )
    module = load_module(LARGE.format(decorator=decorator, body=body), "large", entry="many")
    free, arena = allocate_arena(1, 1 << 12)
    heads = np.zeros(8, np.int64)
    assert module.many(free, arena, heads, np.arange(10)) == 50
    assert heads[COUNT] == 50 and heads[4 + COUNT] == 5
    (text,) = module.many.inspect_llvm().values()
    called = {line.partition("call ")[2] for line in text.splitlines() if "call " in line}
    assert any("user_update" in call for call in called) == calls
    assert any("map_add" in call for call in called) and not any("map_find" in call for call in called)


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
def test_example_a_function_that_is_called_by_its_address_is_not_for_python(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # it is compiled here, not loaded
    module = load_module(SUM, "near", entry=("count",))
    arguments = np.arange(3, dtype=np.int32), np.int32(0)
    assert address_of(module.count, arguments) != 0
    with pytest.raises(TypeError):
        module.count(*arguments)
