"""Assigning the rows of a program's input to streams: by their column ``stream``, or in turn.

Streams determine which worker may process an event, never when: the order of events is that of the rows, and so the result
does not depend on the streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.apps.app import App
from headrace.errors import InputError
from headrace.ingress.readers import Reader, open_input
from headrace.stream import Stream
from headrace.stream.programs import Streams, streams
from headrace.synchronization.plans import MOST_LEAVES, MOST_STREAMS, Plan

STREAM = "stream"
ROW = "row"


@dataclass(frozen=True)
class Deal:
    """How many streams an input has, and the column that gives them; None: rows are dealt out in turn."""

    count: int
    by: str | None = None

    def __call__(self, source: Stream, tag: str | None = None) -> Streams:
        """Assign the rows of an input to streams and tags."""
        return streams(source, self.count, by=self.by, tag=tag)


class Dealing:
    """The inputs of a program: each is read as a whole, and every row belongs to a stream.

    Parameters
    ----------
    app : App
    sources : int or None
        Number of streams of the left input that was asked for.
    leaves : int
        Number of streams if nothing else determines it.
    plan : Plan or None
        The user's own plan, which names streams, some of which may have no rows.
    """

    def __init__(self, app: App, sources: int | None, leaves: int, plan: Plan | None):
        self._app, self._sources, self._leaves, self._plan = app, sources, leaves, plan
        self.deal: Deal | None = None

    def columns(self, schema: pa.Schema, side: int) -> list[str]:
        """Return the columns of an input that are read beside those that the application names."""
        return [STREAM] if not side and _says_streams(schema) else []

    def opened(self, reader: Reader, side: int, path: str | None) -> Reader:
        """Return the reader of an input's rows; for the left input, which comes first, also determine its streams."""
        if self.deal is None:
            numbers = open_input(path, columns=[STREAM]) if _says_streams(reader.schema) else None
            self.deal = self._deal(numbers)
        return _whole(reader, self._app, side, self.deal)

    def _deal(self, numbers: Reader | None) -> Deal:
        """Determine how many streams there are; `numbers` is the column that gives them, where there is one.

        Its numbers are those of the streams; if they are below 0, or exceed the leaves that any plan can have, they are
        taken modulo the leaves.
        """
        named = [] if self._plan is None else [1 + tag.stream for tag in self._plan.tags if tag.tag in self._app.tags]
        planned = max(named, default=0)
        if numbers is None:
            return Deal(self._sources or planned or self._leaves)
        low, high = _range(numbers)
        most = MOST_LEAVES if self._plan is None else MOST_STREAMS
        found = high + 1 if low >= 0 and high < most else self._leaves
        return Deal(max(found, planned, 1), STREAM)


def _says_streams(schema: pa.Schema) -> bool:
    """Whether the rows have a column that gives their stream."""
    found = schema.get_all_field_indices(STREAM)
    return len(found) == 1 and pa.types.is_integer(schema.field(found[0]).type)


def _range(numbers: Reader) -> tuple[int, int]:
    """Return the least and the greatest number; 0 and -1 if there are none."""
    low, high = 0, -1
    for batch in numbers:
        found = pc.min_max(batch.column(0)).as_py()
        if found["min"] is not None:
            low, high = min(low, found["min"]), max(high, found["max"])
    return low, high


def _whole(reader: Reader, app: App, side: int, deal: Deal) -> Reader:
    """Refuse rows with a null in a required column, bring stream numbers into their range, and number the rows."""
    needed = [name for name, _ in app.needs(side) if name in reader.schema.names]
    place = reader.schema.get_field_index(STREAM) if side == 0 and deal.by else -1
    schema = reader.schema if place < 0 else reader.schema.set(place, pa.field(STREAM, pa.int64()))
    is_numbered = side == 0 and bool(app.row_column)
    if is_numbered:
        schema = schema.append(pa.field(app.row_column, pa.int64()))

    def batches() -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in reader:
            for name in needed:
                column = batch.column(batch.schema.get_field_index(name))
                if column.null_count:
                    at = row + pc.index(column.is_null(), True).as_py()
                    raise InputError(
                        f"input {reader.name!r}: {name} is null in row {at:,}; fill it, or filter such rows out of the file"
                    )
            columns = [*batch.columns]
            if place >= 0:
                numbers = pc.fill_null(batch.column(place), 0).to_numpy(zero_copy_only=False) % deal.count
                columns[place] = pa.array(numbers, pa.int64())
            if is_numbered:
                columns.append(pa.array(np.arange(row, row + batch.num_rows)))
            row += batch.num_rows
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return Reader(schema, reader.name, reader.rows, batches, is_validated=False)
