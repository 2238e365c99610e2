"""Rows in chunks: what was appended is read by address, and what came in is neither copied without need nor written to.

Oracle      the arrays that were appended
Planted     chunks that refer to what came in, used again for rows that come later
Cannot see  when a kernel still reads: that is for `release`'s callers to know
"""

import ctypes
import inspect
import random

import numpy as np
import pytest

from headrace.ingress import store
from headrace.ingress.store import (
    CHUNK,
    DIRECTORY_CHUNKS,
    FIRST_VALUE,
    KEYS,
    TS,
    allocate_directories,
    directory_width,
)

COLUMNS = {"v": np.dtype(np.int64), "x": np.dtype(np.float32)}
WIDTH = directory_width(len(COLUMNS))


def address_of(directory, number, place):
    return int(directory[(number & (DIRECTORY_CHUNKS - 1)) * WIDTH + place])


def read(directory, number, place, dtype, count):
    """As a kernel does."""
    size = count * np.dtype(dtype).itemsize
    buffer = (ctypes.c_char * size).from_address(address_of(directory, number, place))
    return np.frombuffer(buffer, dtype)


def rows(first, count, masked=False):
    n = np.arange(first, first + count)
    valid = (n % 3 != 0).astype(np.uint8) if masked else None
    return n * 10, (n % 1000).astype(np.int32), {"v": (n * 7, None), "x": (n.astype(np.float32), valid)}


def append(stored, first, count, masked=False):
    ts, keys, columns = rows(first, count, masked)
    stored.append(ts, keys, None, columns, None)
    return ts, keys, *(array for pair in columns.values() for array in pair if array is not None)


def check_kept_rows(make_store):
    """Appended in pieces of all sizes, released now and then; nothing that came in is ever written to."""
    draw = random.Random(5)
    directory = allocate_directories(1, len(COLUMNS))[0]
    stored = make_store(COLUMNS, False, directory)
    given, first = [], 0
    for _ in range(60):
        count = draw.choice([1, 100, CHUNK - first % CHUNK, CHUNK, 2 * CHUNK, 3 * CHUNK + 7])
        given.append([(array, array.copy()) for array in append(stored, first, count, masked=draw.random() < 0.3)])
        first += count
        if draw.random() < 0.5:
            stored.release(10 * (first - draw.randrange(4 * CHUNK)))
        for number, chunk in stored.chunks.items():
            held = min(CHUNK, first - number * CHUNK)
            ts, keys, columns = rows(number * CHUNK, held, masked=True)
            assert (read(directory, number, TS, np.int64, held) == ts).all()
            assert (read(directory, number, KEYS, np.int32, held) == keys).all()
            for i, (values, valid) in enumerate(columns.values()):
                place = FIRST_VALUE + 2 * i
                assert (read(directory, number, place, values.dtype, held) == values).all()
                if address_of(directory, number, place + 1):
                    found = read(directory, number, place + 1, np.uint8, held)
                    assert chunk.validity[i] is not None and ((found == 1) | (found == valid)).all()
        assert all((array == copy).all() for arrays in given[-12:] for array, copy in arrays), "what came in was written to"


def test_oracle_rows_in_pieces():
    check_kept_rows(store.Store)


def test_planted_mistake_is_found():
    right = "if chunk is None or not chunk.is_own:"
    source = inspect.getsource(store)
    assert source.count(right) == 1
    space = {"__name__": store.__name__}
    exec(compile(source.replace(right, "if chunk is None:"), "<planted>", "exec"), space)  # our own file
    with pytest.raises(AssertionError, match="what came in was written to"):
        check_kept_rows(space["Store"])


@pytest.mark.parametrize(
    ("before", "change", "copied"),
    [
        (0, None, []),
        (5, None, [0]),  # the rest of a chunk that was begun, then a whole one
        (0, "type", [0, 1]),
        (0, "strided", [0, 1]),
    ],
)
def test_example_what_is_copied(before, change, copied):
    directory = allocate_directories(1, len(COLUMNS))[0]
    stored = store.Store(COLUMNS, False, directory)
    if before:
        append(stored, 0, before)
    ts, keys, columns = rows(before, 2 * CHUNK)
    if change == "type":
        columns["x"] = (columns["x"][0].astype(np.float64), None)
    elif change == "strided":
        ts = np.repeat(ts, 2)[::2]
    stored.append(ts, keys, None, columns, None)
    own = [number for number, chunk in stored.chunks.items() if not np.shares_memory(chunk.keys, keys)]
    assert own == (copied if not before else [0, 2])
    times = np.concatenate([chunk.ts for chunk in stored.chunks.values()])[: before + 2 * CHUNK]
    assert (times == rows(0, before + 2 * CHUNK)[0]).all()
