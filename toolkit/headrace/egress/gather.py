"""The payload of results: columns of tuples, gathered from the batches they came in.

Numbers, times and truth values without nulls are gathered by a kernel, whatever
their order and however many sources and batches they come from; other columns
batch by batch, by Arrow. (Two forwarded sources with three numbers in a row take
58 ns a row by Arrow alone, and 12 by the kernel.) One call serves all columns,
and the addresses of a batch's columns are looked up once: a join gives a few dozen rows
at a time, so fixed work for each column would cost more than the rows.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from headrace.egress import gather_kernel
from headrace.errors import OutputError
from headrace.expressions.rows import concat, take
from headrace.ingress.input_errors import first_line
from headrace.ingress.store import Store
from headrace.references import row_of, source_of

_WIDTHS = (8, 4, 1)
_BY_ARROW = -1
_ALIGNED = 64
"""Bytes: the alignment that Arrow recommends for buffers."""


class Gatherer:
    """Takes payload columns of tuples from the stores of their sources.

    Parameters
    ----------
    stores : list of Store
        By source. The batches of a store are looked up again only when they have changed.
    """

    def __init__(self, stores: Sequence[Store]):
        self._stores = stores
        self._seen: list[tuple[int, int]] | None = None
        self._batches: list[pa.RecordBatch] = []
        self._starts = np.zeros(len(stores) + 1, np.int64)
        self._firsts = self._rows = np.zeros(1, np.int64)
        self._hints = np.empty(len(stores), np.int64)
        self._tables: dict[tuple[str, ...], _Table] = {}

    def compile(self) -> None:
        """Compile the kernels, so that no result waits for the compiler."""
        batch = pa.record_batch({"n": np.zeros(1)})
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
        return self._neighbours(refs, names) or self._gathered(refs, tuple(names))

    def _look(self) -> None:
        seen = [(len(store.payload), store.payload[-1][0] if store.payload else -1) for store in self._stores]
        if seen == self._seen:
            return
        self._seen = seen
        self._tables.clear()
        kept = [list(store.payload) for store in self._stores]  # a source may add one meanwhile
        self._batches = [batch for of_source in kept for _, _, batch in of_source]
        self._starts[1:] = np.cumsum([len(of_source) for of_source in kept])
        self._firsts = np.array([first for of_source in kept for first, _, _ in of_source] + [0], np.int64)
        self._rows = np.array([batch.num_rows for batch in self._batches], np.int64)

    def _neighbours(self, refs: np.ndarray, names: Sequence[str]) -> list[pa.Array] | None:
        """Return consecutive rows of one batch, as `forward` asks for, without a copy.

        A slice keeps all of its batch in memory, so a few rows of a large batch are copied all the same.
        """
        count = len(refs)
        if refs[-1] - refs[0] != count - 1:
            return None
        source, row = source_of(int(refs[0])), row_of(int(refs[0]))
        low, end = self._starts[source : source + 2]
        place = int(low + np.searchsorted(self._firsts[low:end], row, "right")) - 1
        first, batch = int(self._firsts[place]), self._batches[place]
        if row + count > first + batch.num_rows or batch.num_rows > 4 * count or not (refs[1:] > refs[:-1]).all():
            return None
        part = batch.slice(row - first, count)
        return [part.column(name) for name in names]

    def _gathered(self, refs: np.ndarray, names: tuple[str, ...]) -> list[pa.Array]:
        is_used = np.zeros(len(self._rows), np.bool_)
        batch_of, row_of = np.empty(len(refs), np.int32), np.empty(len(refs), np.int64)
        gather_kernel.locate(refs, self._starts, self._firsts, self._hints, batch_of, row_of, is_used)
        table = self._tables.get(names)
        if table is None:
            table = self._tables[names] = _Table(names, self._batches[int(batch_of[0])].schema, len(self._batches))
        for number in np.flatnonzero(is_used > table.is_known).tolist():
            table.note(number, self._batches[number])
        widths = table.widths
        if table.has_nulls.any():
            widths = np.where(table.has_nulls[:, is_used].any(axis=1), _BY_ARROW, widths)
        # The columns lie in one piece of memory, each with the space that its values need.
        sizes = np.where(widths == gather_kernel.BITS, (len(refs) + 7) // 8, widths * len(refs))
        ends = np.cumsum((np.maximum(sizes, 0) + _ALIGNED - 1) // _ALIGNED * _ALIGNED)
        starts = np.concatenate(([0], ends[:-1]))
        memory = np.empty(int(ends[-1]), np.uint8)
        gather_kernel.gather(
            table.addresses, table.offsets, self._rows, widths, starts, batch_of, row_of, memory.ctypes.data
        )
        block, arrays = pa.py_buffer(memory), []
        by_arrow = _ByArrow(batch_of, row_of, is_used, self._batches)
        for name, kind, width, start, size in zip(
            names, table.kinds, widths.tolist(), starts.tolist(), sizes.tolist(), strict=True
        ):
            if width == _BY_ARROW:
                arrays.append(by_arrow.column(name))
            else:
                arrays.append(pa.Array.from_buffers(kind, len(refs), [None, block.slice(start, size)], 0))
        return arrays


class _Table:
    """Addresses of the values of some columns, batch by batch, for the batches that were asked for.

    Parameters
    ----------
    names : sequence of str
    schema : Schema
        Of one of the batches that have these columns.
    batches : int
        Their number.
    """

    def __init__(self, names: Sequence[str], schema: pa.Schema, batches: int):
        self._names = names
        self.kinds = [schema.field(name).type for name in names]
        self.widths = np.array([_width_of(kind) for kind in self.kinds], np.int64)
        self.addresses = np.zeros((len(names), batches), np.int64)
        self.offsets = np.zeros((len(names), batches), np.int64)
        self.has_nulls = np.zeros((len(names), batches), np.bool_)
        self.is_known = np.zeros(batches, np.bool_)

    def note(self, number: int, batch: pa.RecordBatch) -> None:
        """Note where the columns of a batch lie."""
        self.is_known[number] = True
        for i, width in enumerate(self.widths.tolist()):
            if width == _BY_ARROW:
                continue
            values = batch.column(self._names[i])
            self.has_nulls[i, number] = values.null_count > 0
            self.addresses[i, number] = values.buffers()[1].address + width * values.offset
            self.offsets[i, number] = values.offset


class _ByArrow:
    """Gathers other columns by Arrow, batch by batch, because Arrow's take of a chunked array copies all of it first."""

    def __init__(
        self, batch_of: np.ndarray, row_of: np.ndarray, is_used: np.ndarray, batches: Sequence[pa.RecordBatch]
    ):
        self._batch_of, self._row_of, self._is_used, self._batches = batch_of, row_of, is_used, batches

    def column(self, name: str) -> pa.Array:
        """Return the column with a row for each reference."""
        if len(self._used) == 1:
            return take(self._used[0][1].column(name), self._row_of)
        places, back = self._order
        taken = [
            take(batch.column(name), self._row_of[where])
            for (_, batch), where in zip(self._used, places, strict=True)
        ]
        try:
            return take(concat(taken), back)
        except pa.ArrowException as error:
            raise OutputError(
                f"column {name!r} of {taken[0].type}: its batches cannot be put together ({first_line(error)});"
                f" cast it to plain values, or to dictionaries with wider indices"
            ) from None

    @functools.cached_property
    def _used(self) -> list[tuple[int, pa.RecordBatch]]:
        """The batches that some reference points into, with their numbers."""
        return [(number, self._batches[number]) for number in np.flatnonzero(self._is_used).tolist()]

    @functools.cached_property
    def _order(self) -> tuple[list[np.ndarray], pa.Array]:
        """The positions of the results that come from each batch, and the indices that restore the order of the results."""
        places = [np.flatnonzero(self._batch_of == number) for number, _ in self._used]
        back = np.empty(len(self._batch_of), np.int64)
        back[np.concatenate(places)] = np.arange(len(back))
        return places, pa.array(back)


@functools.lru_cache(maxsize=64)
def _width_of(kind: pa.DataType) -> int:
    """Return the bytes of a value if values are contiguous and of a width that the kernel knows, else `_BY_ARROW`."""
    if pa.types.is_boolean(kind):
        return gather_kernel.BITS
    if not (pa.types.is_primitive(kind) or pa.types.is_temporal(kind)):
        return _BY_ARROW
    return kind.bit_width // 8 if kind.bit_width // 8 in _WIDTHS else _BY_ARROW
