"""Arrays laid out for sharing: aligned, padded, or reserved without using memory yet.

Python reads a word that a compiled thread writes by `read_cell` or `read_cells`,
and writes a word that such a thread reads by `publish_cell`: these have the
ordering that the header of the file concerned claims. ``array[index]`` is a plain
load or store, which is enough on x86-64 but not on other machines.
"""

from __future__ import annotations

import contextlib
import mmap
import platform
import sys

import numpy as np

from headrace.kernel import kernel
from headrace.memory.atomics import CELL, compare_exchange, load_acquire, store_release

CACHE_LINE = 64
HUGE_PAGE = 1 << 21
"""Bytes."""

# Python names this flag from 3.13 on. Without it Linux refuses to reserve more than there is memory.
_IS_LINUX = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if _IS_LINUX else 0)


def aligned(count: int, dtype, alignment: int = 128) -> np.ndarray:
    """Allocate a zeroed one-dimensional array that begins on `alignment` bytes, and shares none of these with other data.

    Parameters
    ----------
    count : int
        Number of elements.
    dtype : dtype
        Element type.
    alignment : int
        In bytes, a power of two.

    Returns
    -------
    ndarray
        Shape ``(count,)``. It keeps its buffer alive.
    """
    dtype = np.dtype(dtype)
    size = -(-max(1, count) * dtype.itemsize // alignment) * alignment
    raw = np.zeros(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size].view(dtype)[:count]


def padded_cells(count: int) -> np.ndarray:
    """Allocate `count` shared int64 words, each alone on its cache lines.

    Word k lives at index ``k * CELL``.
    """
    return aligned(count * CELL, np.int64)


def reserved(count: int, dtype, huge_pages: bool = False) -> np.ndarray:
    """Reserve zeroed memory that costs nothing until it is touched.

    The operators' dense state is indexed by key id, and it is not known in advance
    how many keys are live at once. The address space is reserved once; the operating
    system supplies a page when its first cell is written, so state never has to be
    moved under running threads.

    Parameters
    ----------
    count : int
        Number of elements reserved.
    dtype : dtype
        Element type.
    huge_pages : bool
        Ask for pages of 2 MiB, where the system has them: for large arrays
        that are accessed at random. The TLB covers few small pages.

    Returns
    -------
    ndarray
        Shape ``(count,)``, zero, page aligned; on `HUGE_PAGE` bytes if pages of that size are asked for.
    """
    dtype = np.dtype(dtype)
    size = max(1, count) * dtype.itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    if not huge_pages:
        return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype, count)
    # Begin where such a page can begin: before that, all pages would be small.
    memory = mmap.mmap(-1, size + HUGE_PAGE, flags=flags)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without such pages: this is only advice
            memory.madvise(mmap.MADV_HUGEPAGE)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % HUGE_PAGE
    return np.frombuffer(memory, dtype, count, offset=start)


def reserved_or_less(count: int, least: int, dtype) -> np.ndarray:
    """Reserve `count` elements; where the system does not grant them, half as many, and so on down to `least`.

    Raises
    ------
    OSError
        The system does not grant `least` either.

    Examples
    --------
    >>> reserved_or_less(1000, 10, np.int64).size
    1000
    """
    while True:
        try:
            return reserved(count, dtype)
        except OSError:
            if count <= least:
                raise
            count = max(least, count // 2)


def touch(array: np.ndarray) -> None:
    """Have the system supply the pages of reserved memory now, so that no worker waits for them in the middle of a stream.

    (A page of 2 MiB may take 20 ms where memory is fragmented.)

    Parameters
    ----------
    array : ndarray
        Contiguous, its size a multiple of 8 bytes. Its values stay.
    """
    if array.size:
        _touch(array.reshape(-1).view(np.int64), mmap.PAGESIZE // 8)


@kernel
def _touch(words, step):
    # Read and write at once: after a mere read the system would supply a read-only page.
    for i in range(0, words.size, step):
        compare_exchange(words, i, 0, 0)


@kernel(keep_gil=True)
def read_cell(array, index):
    """Read one word with acquire: everything its writer did before it published the value is visible afterwards.

    Parameters
    ----------
    array : ndarray
        One-dimensional, contiguous, of integers.
    index : int
        Not checked.
    """
    return load_acquire(array, index)


@kernel(keep_gil=True)
def publish_cell(array, index, value):
    """Write one word with release: a thread that reads it with acquire sees everything that was done before."""
    store_release(array, index, value)


@kernel(keep_gil=True)
def _read_every(array, step, out):
    for i in range(out.size):
        out[i] = load_acquire(array, i * step)


def read_cells(array: np.ndarray, step: int = CELL) -> np.ndarray:
    """Copy every `step`-th word, each read with acquire, in order; by default those of `padded_cells`.

    Parameters
    ----------
    array : ndarray
        Contiguous, of integers. With ``step=1`` it may have several dimensions, and the copy has its shape.
    step : int

    Examples
    --------
    >>> cells = padded_cells(3)
    >>> publish_cell(cells, 2 * CELL, 7)
    >>> read_cells(cells).tolist(), int(read_cell(cells, 2 * CELL))
    ([0, 0, 7], 7)
    """
    words = array.reshape(-1)
    out = np.empty(-(-words.size // step), array.dtype)
    _read_every(words, step, out)
    return out.reshape(array.shape) if step == 1 else out
