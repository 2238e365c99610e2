"""Watermarks that a source gives itself: their conversion to event times, and rows of a table that are watermarks.

A source that has no rows can say by a watermark how far event time has come (`headrace.progress.Watermark`).
An iterable gives watermarks among its batches. A source that only has rows marks them in a bool column: where it is
true, the row's event time is a watermark, and the row is not a tuple.
"""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.arguments import is_whole_number
from headrace.errors import EventTimeError, InputError, ParameterError, SchemaError
from headrace.ingress.columns import first_null
from headrace.ingress.input_errors import display_name
from headrace.ingress.readers import Item, Reader
from headrace.ingress.times import event_times, field_type, span_text
from headrace.progress import END_OF_TIME, Watermark

_PLACES = 1 << 16
"""Minimum number of watermarks whose positions are remembered."""


def watermark_time(mark: Watermark, kind: pa.DataType, window_size: int = 0, source: str = "") -> int:
    """Return a watermark in the stream's unit.

    Parameters
    ----------
    mark : Watermark
    kind : pa.DataType
        Of the event time.
    window_size : int
        For the check of the range, as of event times.
    source : str
        For error texts.

    Raises
    ------
    InputError
        If it is not a time of that type, or out of range.

    Examples
    --------
    >>> watermark_time(Watermark(7), pa.int64())
    7
    >>> watermark_time(Watermark(datetime.datetime(1970, 1, 1, 0, 0, 1)), pa.timestamp("ms"))
    1000000
    """
    value, where = mark.time, f"{display_name(source)} gives" if source else "given"
    if is_whole_number(value):
        ts = int(value)
    elif pa.types.is_timestamp(kind) and isinstance(value, (datetime.datetime, np.datetime64)):
        ts = _instant(value, f"{where} {mark!r}")
    else:
        fix = "a datetime, or a number of microseconds" if pa.types.is_timestamp(kind) else f"a number, as its {kind} column has"
        raise InputError(f"{where} {mark!r}: not an event time of this stream; give {fix}")
    if abs(ts) >= END_OF_TIME - window_size:
        raise EventTimeError(
            f"{where} {mark!r}: |event time| + window size ({span_text(window_size, kind)}) must be below 2**62; it says that all"
            f" before it has come, so the end of the stream needs none"
        )
    return ts


def _instant(value: Any, told: str) -> int:
    if isinstance(value, np.datetime64) and np.datetime_data(value.dtype)[0] not in ("s", "ms", "us", "ns"):
        value = value.astype("datetime64[us]")
    try:
        array = pa.array([value])
        return int(event_times(array, "watermark")[0])
    except (InputError, pa.ArrowException) as error:
        raise InputError(f"{told}: not a time in whole microseconds ({error})") from None


def with_watermarks(reader: Reader, event_time: str, column: str) -> Reader:
    """Return a reader of the rows that are tuples, with the other rows as watermarks at their position.

    Parameters
    ----------
    reader : Reader
    event_time : str
        Column.
    column : str
        A bool column: true where a row is a watermark. The reader returned does not have it.

    Examples
    --------
    >>> from headrace.ingress.readers import open_input
    >>> table = pa.table({"ts": [1, 5, 6], "x": [1, None, 2], "done": [False, True, False]})
    >>> list(with_watermarks(open_input(table), "ts", "done"))[1]
    Watermark(time=5)
    """
    kind = field_type(reader.schema, column, "watermarks")
    if not pa.types.is_boolean(kind):
        raise SchemaError(f"watermarks column {column!r} has type {kind}: make it bool, true where a row is a watermark")
    return _selected(reader, event_time, column, [name for name in reader.schema.names if name != column], reader.name)


def _selected(reader: Reader, event_time: str, column: str, columns: Sequence[str], name: str) -> Reader:
    wanted = list(columns)
    inner = reader.select([*wanted, *(one for one in (event_time, column) if one not in wanted)], name)
    indices = [inner.schema.get_field_index(one) for one in wanted]
    known = _Places()

    def batches() -> Iterator[Item]:
        nonlocal known
        known, rows = _Places(), 0
        for batch in inner:
            if isinstance(batch, Watermark):
                yield batch
                continue
            flags, start = batch.column(inner.schema.get_field_index(column)).fill_null(False), 0
            marks = np.flatnonzero(flags.to_numpy(zero_copy_only=False))
            times = _times(batch.column(inner.schema.get_field_index(event_time)), marks, event_time, inner, rows + known.count)
            chosen = batch.select(indices)
            for mark, ts in zip(marks.tolist(), times, strict=True):
                if mark > start:
                    yield chosen.slice(start, mark - start)
                rows += mark - start
                known.add(rows)
                yield Watermark(ts)
                start = mark + 1
            rows += batch.num_rows - start
            if start < batch.num_rows:
                yield chosen.slice(start)

    return Reader(
        pa.schema([inner.schema.field(i) for i in indices]),
        name,
        None,  # how many of its rows are tuples is not known in advance
        batches,
        reader.is_replayable,
        False,
        reader.batch_rows,
        reopen=None if reader.reopen is None else lambda chosen, called: _selected(reader, event_time, column, chosen, called),
        stop=reader.stop,
        delay_us=reader.delay_us,
        files=reader.files,
        row_name=lambda row: known.row_name(row, inner),
    )


class _Places:
    """The positions of watermarks among tuples, to name the row of a tuple; for an endless stream, only the newest."""

    def __init__(self):
        # (watermarks forgotten, tuples before the last of these, tuples before each of the others). Replaced as a
        # whole, because other threads read it when they word errors.
        self._known: tuple[int, int, list[int]] = 0, 0, []

    @property
    def count(self) -> int:
        """Number of watermarks so far."""
        forgotten, _, newest = self._known
        return forgotten + len(newest)

    def add(self, tuples: int) -> None:
        """Note a watermark that has this many tuples before it."""
        forgotten, _, newest = self._known
        newest.append(tuples)
        if len(newest) == 2 * _PLACES:
            self._known = forgotten + _PLACES, newest[_PLACES - 1], newest[_PLACES:]

    def row_name(self, tuples: int, reader: Reader) -> str:
        """Name the row of the tuple that has this many tuples before it."""
        forgotten, before, newest = self._known
        if tuples < before:
            return f"{tuples}, watermarks not counted"
        return reader.row_name(tuples + forgotten + bisect_right(newest, tuples))


def _times(column: pa.Array, marks: np.ndarray, name: str, reader: Reader, first_row: int) -> list[int]:
    """Return the event times of the rows that are watermarks."""
    taken = column.take(pa.array(marks))
    if taken.null_count:
        row = first_row + int(marks[first_null(taken)])
        raise EventTimeError(
            f"{display_name(reader.name)}, event_time column {name!r} is null at row ", reader.row_name(row),
            ", a watermark: say what time it is",
        )  # fmt: skip
    return event_times(taken, name).tolist()


def check_column(column: Any) -> None:
    """Raise `ParameterError` unless ``watermarks=`` is the name of a column."""
    if not isinstance(column, str) or not column:
        raise ParameterError(f"watermarks={column!r}: give the name of a bool column, true where a row is a watermark")


__all__ = ["check_column", "watermark_time", "with_watermarks"]
