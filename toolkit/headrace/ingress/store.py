"""The store of one source's tuples: columns in chunks, found by row number.

The gate orders references (source, row); the columns those point to are written
once, here, and read in place by every instance. A chunk holds `CHUNK` rows.
Kernels find a column of a row in the directory of addresses (`store_kernel`).
Rows that fill a chunk by themselves are not copied: the chunk's columns are then slices of
the arrays that came, which no longer change (Arrow's never do).

Invariants  I1  a row is written before the gate's `add` publishes its reference
            I2  a published row is never changed; when a chunk's key buffer
                grows, the old buffer lives until the chunk is freed
            I3  a chunk is freed only when no instance, window or pending
                output can refer to it (`release`); only a chunk that owns its
                arrays is reused
            I4  the memory that addresses in a row's columns point into lives as long
                as the row may be read: until `release` with a horizon above the last
                ts of the rows it came with
Ordering    P1 fill a buffer, P2 publish its address (store_release); after that,
            the gate's `add` publishes references to its rows
            A1 (kernels) load the address, A2 load through it
                    new chunk: A1 comes after the load of the reference (acquire),
                    which comes after P2
                    grown key buffer, while kernels read older rows: A1 loads the
                    old address, whose buffer lives (I2), or the new one. A2 depends
                    on A1, and every processor orders a load after the load of its
                    address
                    validity mask of a column that had no nulls: if A1 still loads
                    0 (all valid), that is right for the rows that were there before
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from headrace.errors import OverflowInputError
from headrace.memory.cells import publish_cell, reserved

CHUNK_SHIFT = 14
CHUNK = 1 << CHUNK_SHIFT
DIRECTORY_CHUNKS = 1 << 16

# Directory columns of every store; value columns follow in pairs (values, validity).
TS, OFFSETS, KEYS, FIRST_VALUE = 0, 1, 2, 3


def chunk_of(row):
    """Return the number of a row's chunk, or of each row's of an array. `store_kernel` compiles it for kernels."""
    return row >> CHUNK_SHIFT


def place_of(row):
    """Return a row's place within its chunk, likewise."""
    return row & (CHUNK - 1)


def directory_width(value_columns: int) -> int:
    """Return the addresses per chunk in the directory: times, offsets, keys, then values and validity of each column."""
    return FIRST_VALUE + 2 * value_columns


class Chunk:
    """The arrays of `CHUNK` rows, and everything that must stay alive with them."""

    __slots__ = ("is_own", "keys", "keys_used", "last_ts", "offsets", "retired", "ts", "validity", "values")

    def __init__(self, dtypes, has_offsets: bool, keys_hint: int):
        self.is_own = True
        self.ts = np.empty(CHUNK, np.int64)
        self.offsets = np.zeros(CHUNK + 1, np.int32) if has_offsets else None
        self.keys = np.empty(keys_hint if has_offsets else CHUNK, np.int32)
        self.keys_used = 0
        self.values = [np.empty(CHUNK, dtype) for dtype in dtypes]
        self.validity: list[np.ndarray | None] = [None for _ in dtypes]
        self.retired: list[np.ndarray] = []
        self.last_ts = 0

    @classmethod
    def of(cls, ts: np.ndarray, keys: np.ndarray, values: list[np.ndarray], validity: list[np.ndarray | None]) -> Chunk:
        """Return a chunk with arrays that it does not own; each tuple has one key."""
        chunk = cls.__new__(cls)
        chunk.is_own, chunk.ts, chunk.keys, chunk.values, chunk.validity = False, ts, keys, values, validity
        chunk.offsets, chunk.keys_used, chunk.retired, chunk.last_ts = None, 0, [], int(ts[-1])
        return chunk


class Store:
    """The rows of one source.

    Parameters
    ----------
    columns : dict of str to dtype
        The columns that kernels read.
    multi_key : bool
        A tuple has any number of keys (offsets and keys), not exactly one.
    directory : ndarray
        int64[DIRECTORY_CHUNKS * directory_width]: this source's part, written here.
    """

    def __init__(self, columns: dict[str, np.dtype], multi_key: bool, directory: np.ndarray):
        self.names = list(columns)
        self.dtypes = list(columns.values())
        self.multi_key = multi_key
        self.directory = directory
        self.width = directory_width(len(columns))
        self.rows = 0
        self.chunks: dict[int, Chunk] = {}
        self.first_chunk = 0
        self._spare: list[Chunk] = []
        self._keys_hint = CHUNK
        self.payload: deque[tuple[int, int, pa.RecordBatch]] = deque()
        """(first row, last ts, columns carried by reference), oldest first."""
        self._elements: deque[tuple[int, tuple[np.ndarray, ...]]] = deque()
        """(last ts, memory that addresses in columns point into), oldest first."""

    def append(
        self, ts, keys, offsets, columns, payload: pa.RecordBatch | None, elements: tuple[np.ndarray, ...] = ()
    ) -> int:
        """Write rows; they become visible when the gate adds their references.

        Parameters
        ----------
        elements : tuple of ndarray
            Kept alive with the rows, for columns that are addresses.

        Returns
        -------
        int
            Row number of the first.
        """
        first = self.rows
        count = len(ts)
        done = 0
        can_refer = count >= CHUNK and self._can_refer(ts, keys, columns)
        while done < count:
            number, at = divmod(self.rows, CHUNK)
            part = min(count - done, CHUNK - at)
            if can_refer and part == CHUNK:
                self._refer(number, done, ts, keys, columns)
            else:
                if at == 0 or number not in self.chunks:
                    self._open(number)
                self._fill(number, at, part, done, ts, keys, offsets, columns)
            self.rows += part
            done += part
        if payload is not None and count:
            self.payload.append((first, int(ts[-1]), payload))
        if elements and count:
            self._elements.append((int(ts[-1]), elements))
        return first

    def _can_refer(self, ts, keys, columns) -> bool:
        """Whether kernels can read the arrays as they are, without a copy."""
        if self.multi_key or keys is None:
            return False
        kept = [(ts, np.int64), (keys, np.int32)]
        for name, dtype in zip(self.names, self.dtypes, strict=True):
            values, valid = columns[name]
            kept += [(values, dtype)] if valid is None else [(values, dtype), (valid, np.uint8)]
        return all(a.dtype == dtype and a.flags.c_contiguous and a.flags.aligned for a, dtype in kept)

    def _refer(self, number: int, done: int, ts, keys, columns) -> None:
        """Make a chunk of the rows from `done` on without copying them."""
        self._check_room(number)
        rows = slice(done, done + CHUNK)
        given = [columns[name] for name in self.names]
        chunk = Chunk.of(
            ts[rows], keys[rows], [values[rows] for values, _ in given],
            [None if valid is None else valid[rows] for _, valid in given],
        )  # fmt: skip
        self.chunks[number] = chunk
        self._publish(number, chunk)

    def _check_room(self, number: int) -> None:
        if number - self.first_chunk >= DIRECTORY_CHUNKS:
            raise OverflowInputError(
                f"a window holds more than {DIRECTORY_CHUNKS * CHUNK:,} tuples of one source; use a smaller size="
            )

    def _open(self, number: int) -> None:
        self._check_room(number)
        chunk = (
            self._spare.pop() if self._spare else Chunk(self.dtypes, self.multi_key, self._keys_hint)
        )
        chunk.keys_used = 0
        self.chunks[number] = chunk
        self._publish(number, chunk)

    def _publish(self, number: int, chunk: Chunk) -> None:
        base = (number & (DIRECTORY_CHUNKS - 1)) * self.width
        entry = self.directory
        publish_cell(entry, base + TS, chunk.ts.ctypes.data)
        publish_cell(entry, base + OFFSETS, chunk.offsets.ctypes.data if chunk.offsets is not None else 0)
        publish_cell(entry, base + KEYS, chunk.keys.ctypes.data)
        for i, values in enumerate(chunk.values):
            publish_cell(entry, base + FIRST_VALUE + 2 * i, values.ctypes.data)
            valid = chunk.validity[i]
            publish_cell(entry, base + FIRST_VALUE + 2 * i + 1, valid.ctypes.data if valid is not None else 0)

    def _fill(self, number, at, part, done, ts, keys, offsets, columns) -> None:
        chunk = self.chunks[number]
        chunk.ts[at : at + part] = ts[done : done + part]
        changed = False
        if self.multi_key:
            low, high = int(offsets[done]), int(offsets[done + part])
            need = chunk.keys_used + high - low
            if need > chunk.keys.size:
                grown = np.empty(max(need, 2 * chunk.keys.size), np.int32)
                grown[: chunk.keys_used] = chunk.keys[: chunk.keys_used]
                chunk.retired.append(chunk.keys)  # a kernel may still read it
                chunk.keys = grown
                self._keys_hint = max(self._keys_hint, grown.size)
                changed = True
            chunk.keys[chunk.keys_used : need] = keys[low:high]
            if at == 0:
                chunk.offsets[0] = 0
            chunk.offsets[at + 1 : at + part + 1] = (
                offsets[done + 1 : done + part + 1] + (chunk.keys_used - low)
            )
            chunk.keys_used = need
        elif keys is not None:
            chunk.keys[at : at + part] = keys[done : done + part]
        for i, name in enumerate(self.names):
            values, valid = columns[name]
            chunk.values[i][at : at + part] = values[done : done + part]
            if valid is not None and chunk.validity[i] is None:
                chunk.validity[i] = np.ones(CHUNK, np.uint8)
                changed = True
            if chunk.validity[i] is not None:
                chunk.validity[i][at : at + part] = 1 if valid is None else valid[done : done + part]
        chunk.last_ts = int(ts[done + part - 1])
        if changed:
            self._publish(number, chunk)

    def release(self, horizon: int) -> None:
        """Free every chunk, payload and memory of addresses whose last ts is below `horizon`."""
        current = chunk_of(self.rows)
        while self.first_chunk < current:
            chunk = self.chunks.get(self.first_chunk)
            if chunk is not None and chunk.last_ts >= horizon:
                break
            self._free_first()
        while self.payload and self.payload[0][1] < horizon:
            self.payload.popleft()
        while self._elements and self._elements[0][0] < horizon:
            self._elements.popleft()

    def release_rows(self, row: int) -> None:
        """Free every chunk with only rows before this one, in a store without payload and addresses."""
        while self.first_chunk < chunk_of(row):
            self._free_first()

    def _free_first(self) -> None:
        """Free the chunk numbered `first_chunk`, if there is one, and advance the number."""
        chunk = self.chunks.pop(self.first_chunk, None)
        self.first_chunk += 1
        if chunk is None or not chunk.is_own:
            return
        chunk.retired.clear()
        chunk.validity = [None for _ in self.dtypes]
        if len(self._spare) < 8:
            self._spare.append(chunk)

    @property
    def held_bytes(self) -> int:
        """Memory of the chunks that are kept, counting one key for each row."""
        return len(self.chunks) * CHUNK * (12 + sum(dtype.itemsize for dtype in self.dtypes))

    def ts_of(self, row: int) -> int:
        """The event time of a live row."""
        return int(self.chunks[chunk_of(row)].ts[place_of(row)])

    def column(self, name: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Gather a kernel column of live rows (with its validity)."""
        index = self.names.index(name)
        out = np.empty(len(rows), self.dtypes[index])
        valid = None
        numbers = chunk_of(rows)
        inside = place_of(rows)
        for number in np.unique(numbers):
            chunk = self.chunks[int(number)]
            where = numbers == number
            out[where] = chunk.values[index][inside[where]]
            mask = chunk.validity[index]
            if mask is not None:
                if valid is None:
                    valid = np.ones(len(rows), np.uint8)
                valid[where] = mask[inside[where]]
        return out, valid


def allocate_directories(sources: int, value_columns: int) -> np.ndarray:
    """Return int64[sources, DIRECTORY_CHUNKS * width], reserved only, so that unused chunks cost nothing."""
    width = directory_width(value_columns)
    return reserved(sources * DIRECTORY_CHUNKS * width, np.int64).reshape(sources, -1)
