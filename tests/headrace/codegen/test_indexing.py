"""Indices of the package's kernels: places, never negative; those of users' functions: as in Python."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import njit

from headrace.codegen.modules import load_module
from headrace.indexing import DirectCompiler
from headrace.kernel import kernel
from headrace.linkable import LibraryCompiler
from headrace.remembering import QuickCompiler

TEXT = '''
from headrace.codegen.modules import compiled, compiled_user

@compiled_user
def from_the_end(a, i):
    return a[i]

@compiled
def entry(a, i):
    return from_the_end(a, i) + a[-1]
'''

PROGRAM = """
import numpy as np
from test_indexing import at, made
try:
    made(at)(np.arange(5), -1)
except IndexError:
    print("refused")
"""


def at(a, i):
    return a[i]


def add(a, i, j):
    a[i, j] += 1
    return a[i, j]


def ends(a):
    a[-1] += 1
    return a[-1] + a[1:][-1]


def in_front(a, i):
    a[i, -1] = 7
    return a[i, -1]


def made(function):
    """The function, compiled as kernels are."""
    return kernel(function)


@pytest.mark.parametrize("index", (3, np.int32(3), np.uint8(3)))
def test_an_index_of_any_type_finds_its_place(index):
    assert made(at)(np.arange(5), index) == int(index)


def test_places_of_two_dimensions_are_found_and_written():
    a = np.zeros((2, 3), np.int64)
    assert made(add)(a, 1, np.int32(2)) == 1
    assert a.tolist() == [[0, 0, 0], [0, 0, 1]]


def test_a_constant_still_counts_from_the_end():
    assert made(ends)(np.arange(5)) == 10
    a = np.zeros((2, 3), np.int64)
    assert made(in_front)(a, 1) == 7
    assert a.tolist() == [[0, 0, 0], [0, 0, 7]]


def test_no_index_is_compared_with_zero():
    assert not looks_at_sign(DirectCompiler)
    assert looks_at_sign(QuickCompiler)  # so it would be seen


def looks_at_sign(compiler):
    function = njit(at, pipeline_class=compiler)  # not kept on disk: what is, has no text
    function(np.arange(5), 3)
    return any("icmp slt" in text or "ashr" in text for text in function.inspect_llvm().values())


def test_functions_of_users_are_compiled_without_it():
    assert not issubclass(LibraryCompiler, DirectCompiler)
    module = load_module(TEXT, "indexing", entry="entry")
    assert module.entry(np.arange(5), -2) == 3 + 4


def test_with_bounds_checks_a_negative_index_is_an_error():
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout == "refused\n", ran.stderr
