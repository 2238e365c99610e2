"""The payload of results: columns of tuples, gathered from the batches they came in.

Numbers and times without nulls are gathered by a kernel, in one pass over the
results whatever their order and however many sources and batches they come
from; other columns batch by batch, by Arrow. (By Arrow alone, two forwarded
sources with three numbers in a row cost 58 ns a row, by the kernel 12.)
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from headrace.egress import gather_kernel
from headrace.gates.merged_log_kernel import ROW_MASK, SOURCE_SHIFT
from headrace.gates.store import Store
from headrace.ingress.columns import as_arrow

_KERNELS = {
    8: (np.dtype(np.int64), gather_kernel.gather_8_bytes),
    4: (np.dtype(np.int32), gather_kernel.gather_4_bytes),
    1: (np.dtype(np.uint8), gather_kernel.gather_1_byte),
}


class Gatherer:
    """Takes payload columns of tuples from the stores of their sources.

    Parameters
    ----------
    stores : list of Store
        By source. Its batches are looked up again only when there are others.
    """

    def __init__(self, stores: Sequence[Store]):
        self._stores = stores
        self._seen: list[tuple[int, int]] | None = None
        self._batches: list[pa.RecordBatch] = []
        self._starts = np.zeros(len(stores) + 1, np.int64)
        self._firsts = self._rows = np.zeros(1, np.int64)
        self._hints = np.empty(len(stores), np.int64)

    def compile(self) -> None:
        """Compile the kernels, so that no result waits for the compiler."""
        batch = pa.record_batch({"n": np.zeros(1), "m": np.zeros(1, np.int32), "l": np.zeros(1, np.int8)})
        store = SimpleNamespace(payload=deque([(0, 0, batch)]))
        Gatherer([store]).take(np.zeros(2, np.int64), batch.schema.names)  # type: ignore[list-item]

    def take(self, refs: np.ndarray, names: Sequence[str]) -> list[pa.Array]:
        """Return the columns named, a row for each reference, in their order.

        Parameters
        ----------
        refs : int64[n]
            Of rows that are not released; n > 0.
        """
        self._look()
        return self._neighbours(refs, names) or _Places(self, refs).columns(names)

    def _look(self) -> None:
        seen = [(len(store.payload), store.payload[-1][0] if store.payload else -1) for store in self._stores]
        if seen == self._seen:
            return
        self._seen = seen
        kept = [list(store.payload) for store in self._stores]  # a source may add one meanwhile
        self._batches = [batch for of_source in kept for _, _, batch in of_source]
        self._starts[1:] = np.cumsum([len(of_source) for of_source in kept])
        self._firsts = np.array([first for of_source in kept for first, _, _ in of_source] + [0], np.int64)
        self._rows = np.array([batch.num_rows for batch in self._batches], np.int64)

    def _neighbours(self, refs: np.ndarray, names: Sequence[str]) -> list[pa.Array] | None:
        """Rows of one batch that follow each other, as `forward` asks for, are not copied.

        A slice keeps all of its batch in memory, so few rows are.
        """
        count = len(refs)
        if refs[-1] - refs[0] != count - 1:
            return None
        source, row = int(refs[0] >> SOURCE_SHIFT), int(refs[0] & ROW_MASK)
        low, end = self._starts[source : source + 2]
        place = int(low + np.searchsorted(self._firsts[low:end], row, "right")) - 1
        first, batch = int(self._firsts[place]), self._batches[place]
        if row + count > first + batch.num_rows or batch.num_rows > 4 * count or not (refs[1:] > refs[:-1]).all():
            return None
        part = batch.slice(row - first, count)
        return [part.column(name) for name in names]


class _Places:
    """Where the rows of references lie: in which of the batches that any is in, and there in which row."""

    def __init__(self, source: Gatherer, refs: np.ndarray):
        self._rows = source._rows
        is_used = np.zeros(len(self._rows), np.bool_)
        self._batch_of = np.empty(len(refs), np.int32)
        self._row_of = np.empty(len(refs), np.int64)
        gather_kernel.locate(
            refs, source._starts, source._firsts, source._hints, self._batch_of, self._row_of, is_used
        )  # fmt: skip
        self._used = [(number, source._batches[number]) for number in np.flatnonzero(is_used).tolist()]
        self._order: tuple[list[np.ndarray], pa.Array] | None = None

    def columns(self, names: Sequence[str]) -> list[pa.Array]:
        """One array for each column, a row for each reference."""
        return [self._column([(number, batch.column(name)) for number, batch in self._used]) for name in names]

    def _column(self, parts: list[tuple[int, pa.Array]]) -> pa.Array:
        kind = parts[0][1].type
        width = _width_of(kind)
        if not width or any(part.null_count for _, part in parts):
            return self._by_arrow(parts)
        dtype, gather = _KERNELS[width]
        addresses = np.zeros(len(self._rows), np.int64)
        for number, part in parts:
            addresses[number] = part.buffers()[1].address + width * part.offset
        out = np.empty(len(self._batch_of), dtype)
        gather(addresses, self._rows, self._batch_of, self._row_of, out)
        return as_arrow(out, kind)

    def _by_arrow(self, parts: list[tuple[int, pa.Array]]) -> pa.Array:
        """Batch by batch: Arrow's take of a chunked array copies all of it first."""
        if len(parts) == 1:
            return parts[0][1].take(pa.array(self._row_of))
        if self._order is None:
            places = [np.flatnonzero(self._batch_of == number) for number, _ in parts]
            back = np.empty(len(self._batch_of), np.int64)
            back[np.concatenate(places)] = np.arange(len(back))
            self._order = places, pa.array(back)
        places, back = self._order
        taken = [part.take(pa.array(self._row_of[where])) for (_, part), where in zip(parts, places, strict=True)]
        return pa.concat_arrays(taken).take(back)


@functools.lru_cache(maxsize=64)
def _width_of(kind: pa.DataType) -> int:
    """Bytes of a value, if values lie one after the other in a width there is a kernel for, or 0."""
    if pa.types.is_boolean(kind) or not (pa.types.is_primitive(kind) or pa.types.is_temporal(kind)):
        return 0
    return kind.bit_width // 8 if kind.bit_width // 8 in _KERNELS else 0
