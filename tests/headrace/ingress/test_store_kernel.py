"""Where kernels find the columns of a tuple.

Oracle      the arrays of the store's own chunks
Planted     each piece of the arithmetic wrong
"""

import ctypes
import inspect

import numpy as np
import pytest

from headrace.ingress import store_kernel
from headrace.ingress.store import (
    CHUNK,
    DIRECTORY_CHUNKS,
    FIRST_VALUE,
    KEYS,
    TS,
    Store,
    allocate_directories,
    directory_width,
)
from headrace.references import tuple_reference
from planted_mistakes import fails

ROWS = 2 * CHUNK + 100


def stored():
    """Two sources of two columns; the second has several keys a tuple, and nulls in its second column."""
    directories = allocate_directories(2, 2)
    columns = {"v": np.dtype(np.int64), "x": np.dtype(np.float64)}
    made = [Store(columns, several, directories[source]) for source, several in enumerate((False, True))]
    for source, store in enumerate(made):
        n = np.arange(ROWS)
        offsets = np.arange(ROWS + 1, dtype=np.int32) * 2 if source else None
        keys = np.repeat(n, 2).astype(np.int32) * 3 if source else n.astype(np.int32)
        valid = (n % 3 != 0).astype(np.uint8) if source else None
        store.append(n * 10 + source, keys, offsets, {"v": (n * 7, None), "x": (n / 4, valid)}, None)
    return directories, made


DIRECTORIES, STORES = stored()  # their chunks live as long as they do
WIDTH = directory_width(2)


def view_i32(address, count):
    assert address, "no address"
    return np.ctypeslib.as_array((ctypes.c_int32 * int(count)).from_address(int(address)))


def view_i64(address, count):
    return view_i32(address, 2 * count).view(np.int64)


def view_f64(address, count):
    return view_i32(address, 2 * count).view(np.float64)


def check(kernels):
    x = DIRECTORIES
    for source in (0, 1):
        for row in (0, 1, CHUNK - 1, CHUNK, 2 * CHUNK + 99):
            found, entry, at = kernels["locate"](tuple_reference(source, row), WIDTH)
            assert found == source, "another source"
            assert view_i64(x[source, entry + TS], CHUNK)[at] == row * 10 + source, "another time"
            assert view_i64(x[source, entry + kernels["values_at"](0)], CHUNK)[at] == row * 7, "first column"
            assert view_f64(x[source, entry + kernels["values_at"](1)], CHUNK)[at] == row / 4, "second column"
            assert x[source, entry + kernels["validity_at"](0)] == 0, "validity"
            assert (x[source, entry + kernels["validity_at"](1)] != 0) == (source == 1), "validity"
            assert kernels["rest_of_chunk"](row) == CHUNK - row % CHUNK
            first, end = at, at + 1
            if source == 1:
                first, end = kernels["keys_between"](x, source, entry, at, at + 1)
            keys = view_i32(x[source, entry + KEYS], end)[first:end]
            assert keys.tolist() == ([3 * row, 3 * row] if source else [row]), "other keys"
    far = DIRECTORY_CHUNKS * CHUNK  # the directory goes round
    assert kernels["entry_of"](far + 5 * CHUNK + 3, WIDTH) == 5 * WIDTH, "the directory goes round"


def test_oracle_every_column_of_a_row_is_found():
    check(vars(store_kernel))


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("& (DIRECTORY_CHUNKS - 1)", "& (DIRECTORY_CHUNKS * 2 - 1)", "AssertionError: the directory goes round"),
        ("kernel(_chunk_of)", "kernel(lambda row: _chunk_of(row) >> 1)", "AssertionError: another time"),
        ("kernel(_place_of)", "kernel(lambda row: row)", "IndexError: "),
        ("return FIRST_VALUE + 2 * column\n", "return FIRST_VALUE + column\n", "AssertionError: no address"),
        ("return FIRST_VALUE + 2 * column + 1", "return FIRST_VALUE + 2 * column + 2", "AssertionError: validity"),
        ("return ref >> SOURCE_SHIFT,", "return ref >> SOURCE_SHIFT - 1,", "AssertionError: another source"),
        ("offsets[last]", "offsets[first]", "AssertionError: other keys"),
    ],
)
def test_planted_mistakes_are_found(right, wrong, expected):
    source = inspect.getsource(store_kernel)
    assert source.count(right) == 1, f"{right!r} occurs {source.count(right)} times"
    text = source.replace(right, wrong).replace("from headrace.kernel import kernel", "kernel = lambda function: function")
    space = {}
    exec(compile(text, "<planted>", "exec"), space)  # our own file
    space["view_i32"] = view_i32  # outside of kernels
    with fails(expected):
        check(space)


def test_example_the_store_and_its_kernels_agree_on_the_width():
    assert [directory_width(n) for n in range(3)] == [FIRST_VALUE + 2 * n for n in range(3)]
