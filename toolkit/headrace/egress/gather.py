"""The payload of results: columns of tuples, gathered from the batches they came in.

Numbers and times without nulls are gathered by a kernel, in one pass over the
results whatever their order and however many sources and batches they come
from; other columns batch by batch, by Arrow. (By Arrow alone, two forwarded
sources with three numbers in a row cost 58 ns a row, by the kernel 12.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.egress import gather_kernel
from headrace.gates.merged_log_kernel import ROW_MASK
from headrace.gates.store import Store

_KERNELS = {
    8: (np.dtype(np.int64), gather_kernel.gather_8_bytes),
    4: (np.dtype(np.int32), gather_kernel.gather_4_bytes),
    1: (np.dtype(np.uint8), gather_kernel.gather_1_byte),
}


def compile_gather() -> None:
    """Compile the kernels, so that no result waits for the compiler."""
    one = pa.record_batch({"n": np.zeros(1), "m": np.zeros(1, np.int32), "l": np.zeros(1, np.int8)})
    _Places([[(0, one)]], np.zeros(2, np.int64)).columns(one.schema.names)


def take_rows(
    stores: Sequence[Store], refs: np.ndarray, names: Sequence[str], schema: pa.Schema | None = None
) -> pa.RecordBatch:
    """Gather payload columns of tuples from the stores of their sources, in the order of `refs`.

    Parameters
    ----------
    refs : int64[n]
        Of rows that are not released.
    """
    kept = [[(first, batch) for first, _, batch in list(store.payload)] for store in stores]
    arrays = _neighbours(kept, refs, names)
    if arrays is None:
        arrays = _Places(kept, refs).columns(names)
    if schema is None:
        return pa.RecordBatch.from_arrays(arrays, names=list(names))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _neighbours(kept, refs: np.ndarray, names: Sequence[str]) -> list[pa.Array] | None:
    """Rows of one batch that follow each other, as `forward` asks for, are not copied.

    A slice keeps all of its batch in memory, so few rows are.
    """
    if not len(refs) or refs[-1] - refs[0] != len(refs) - 1:
        return None
    source, row = int(refs[0] >> gather_kernel.SOURCE_SHIFT), int(refs[0] & ROW_MASK)
    for first, batch in kept[source]:
        if first <= row and row + len(refs) <= first + batch.num_rows <= first + 4 * len(refs):
            if not (refs[1:] > refs[:-1]).all():
                return None
            part = batch.slice(row - first, len(refs))
            return [part.column(name) for name in names]
    return None


class _Places:
    """Where the rows of references lie: in which of the batches that any is in, and there in which row."""

    def __init__(self, kept: list[list[tuple[int, pa.RecordBatch]]], refs: np.ndarray):
        batches = [batch for of_source in kept for _, batch in of_source]
        starts = np.cumsum([0, *map(len, kept)])
        firsts = np.array([first for of_source in kept for first, _ in of_source] + [0], np.int64)
        is_used = np.zeros(len(batches), np.bool_)
        self._batch_of = np.empty(len(refs), np.int32)
        self._row_of = np.empty(len(refs), np.int64)
        gather_kernel.locate(
            refs, starts, firsts, np.empty(len(kept), np.int64), self._batch_of, self._row_of, is_used
        )  # fmt: skip
        self._used = {int(number): batches[number] for number in np.flatnonzero(is_used)}
        self._rows = np.array([batch.num_rows for batch in batches], np.int64)
        self._order: tuple[list[np.ndarray], pa.Array] | None = None

    def columns(self, names: Sequence[str]) -> list[pa.Array]:
        """One array for each column, a row for each reference."""
        return [self._column({number: batch.column(name) for number, batch in self._used.items()}) for name in names]

    def _column(self, parts: dict[int, pa.Array]) -> pa.Array:
        kind = next(iter(parts.values())).type
        if not _is_number(kind) or any(part.null_count for part in parts.values()):
            return self._by_arrow(parts)
        width = kind.bit_width // 8
        dtype, gather = _KERNELS[width]
        addresses = np.zeros(len(self._rows), np.int64)
        for number, part in parts.items():
            addresses[number] = part.buffers()[1].address + width * part.offset
        out = np.empty(len(self._batch_of), dtype)
        gather(addresses, self._rows, self._batch_of, self._row_of, out)
        return pa.Array.from_buffers(kind, len(out), [None, pa.py_buffer(out)])

    def _by_arrow(self, parts: dict[int, pa.Array]) -> pa.Array:
        """Batch by batch: Arrow's take of a chunked array copies all of it first."""
        if len(parts) == 1:
            return next(iter(parts.values())).take(pa.array(self._row_of))
        if self._order is None:
            places = [np.flatnonzero(self._batch_of == number) for number in parts]
            back = np.empty(len(self._batch_of), np.int64)
            back[np.concatenate(places)] = np.arange(len(back))
            self._order = places, pa.array(back)
        places, back = self._order
        taken = [part.take(pa.array(self._row_of[where])) for part, where in zip(parts.values(), places, strict=True)]
        return pa.concat_arrays(taken).take(back)


def _is_number(kind: pa.DataType) -> bool:
    """Whether its values lie one after the other, in a width there is a kernel for."""
    if pa.types.is_boolean(kind) or pa.types.is_dictionary(kind) or pa.types.is_nested(kind):
        return False
    return (pa.types.is_primitive(kind) or pa.types.is_temporal(kind)) and kind.bit_width // 8 in _KERNELS
