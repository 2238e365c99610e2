"""`hr.stream`: from any table, or several, to a stream."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from headrace.arguments import shown, whole
from headrace.errors import ParameterError, SchemaError
from headrace.expressions.rows import check_movable
from headrace.ingress.input_errors import display_name, numbered
from headrace.ingress.readers import DEFAULT_BATCH_ROWS, MOST_BATCH_ROWS, check_no_index, name_of, open_input
from headrace.ingress.same_schema import read_as, shared_schema, told_apart
from headrace.ingress.times import check_event_time, time_unit_of
from headrace.ingress.watermarks import check_column, with_watermarks
from headrace.names import explains_arguments
from headrace.plan.nodes import SourceNode
from headrace.progress import Watermark
from headrace.stream.streams import Stream
from headrace.windows import DEFAULT_TIME_UNIT, Duration, parse_duration, parse_seconds, parse_time_unit


@explains_arguments(
    time="event_time", timestamp="event_time", ts="event_time", time_column="event_time", unit="time_unit",
    watermark="lateness", delay="lateness", allowed_lateness="lateness", batch_size="batch_rows", names="name",
    event_time="say which column has the times of the rows, as in event_time='ts'",
)  # fmt: skip
def stream(
    source: Any,
    event_time: str,
    *,
    time_unit: str = DEFAULT_TIME_UNIT,
    sort: bool = False,
    lateness: Duration | None = None,
    watermarks: str | None = None,
    late: str = "error",
    idle_after: Duration | float | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    name: str | Sequence[str] | None = None,
) -> Stream:
    """Begin a stream.

    Parameters
    ----------
    source : DataFrame, path, Arrow table or reader, pandas frame, or a list of them
        Each is one source, sorted by event time; the sources in a list are merged into
        one stream in event-time order. A streaming DataFrame is read for as long as
        Spark produces rows (`headrace.spark.live`).
    event_time : str
        Name of the column: a timestamp (kept in microseconds, so nanoseconds must be whole
        microseconds; without a zone it is UTC) or an integer in `time_unit`. A null is an error.
        In a pandas frame, too, it must be a column and not the index: ``frame.reset_index()``.
    time_unit : str
        What an integer event time counts, for durations given as text: "ms" by default, or "ns", "us", "s", "min", "h" or
        "d". A timestamp has its own unit.
    sort : bool
        Sort the input by event time first (a DataFrame is sorted by Spark).
    lateness : duration, optional
        Disorder of up to this much is repaired on input: a text such as ``"10s"`` or
        ``"5 minutes"``, a timedelta (Python's, pandas' or NumPy's), or an integer in
        the unit of the event time. For a streaming DataFrame the default is the delay of its
        ``withWatermark``, if it has one. ``"watermarks"``: rows may come in any order, and wait for a watermark
        of their source.
    watermarks : str, optional
        A bool column that is true in rows that are watermarks and not tuples: no row earlier than this row's event time
        will follow, so windows close even while the source is silent. An iterable of record batches needs no such
        column: it may yield ``hr.Watermark(time)`` between its batches.
    late : {"error", "drop", "side"}
        What happens to a late row: one that exceeds `lateness`, follows a watermark with a later time, or is earlier than
        the time passed while its source was idle (`idle_after`). "side" keeps it in the table `run.late`. Without any of
        these no row is late, and a row out of order is an error.
    idle_after : duration or seconds, optional
        A source that gives nothing for this long no longer holds back the others. This is wall-clock time, which does not
        use the stream's time unit: a text such as ``"200ms"`` or a timedelta has its own unit, and a number is in seconds.
    batch_rows : int
        Rows read at a time, from 1 to 2**31 - 1; 131,072 by default.
    name : str or list of str, optional
        What metrics, plots and errors call the source; for several sources, a list of one name each. By default
        the path of a file, otherwise the source's number in the query and its kind: ``source 1 (generator)``.

    Raises
    ------
    ParameterError
        An argument has an impossible value, or does not go with the others.
    InputError
        The file does not exist or cannot be read.
    SchemaError
        There is no such event-time column, or the sources have different columns. Errors in rows are raised by the run.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": [1, 2, 61], "k": ["a", "a", "b"]})
    >>> hr.stream(table, event_time="ts", time_unit="s").key_by("k").window("1min").aggregate(
    ...     n=hr.count()).to_arrow().to_pydict()
    {'ts': [60, 120], 'k': ['a', 'b'], 'n': [2, 1]}
    """
    sources = list(source) if isinstance(source, (list, tuple)) else [source]
    if not sources:
        raise ParameterError("stream([]): give at least one source")
    if any(isinstance(one, Watermark) for one in sources):
        raise ParameterError(
            f"stream([{', '.join(map(shown, sources))}]): a list is several sources; one that gives watermarks among its batches"
            f" is iter([...]), or a generator"
        )
    if not isinstance(event_time, str):
        raise ParameterError(f"event_time={shown(event_time)}: give the name of the column of event times")
    if not isinstance(sort, bool):
        raise ParameterError(f"sort={shown(sort)}: give a bool: True sorts by event time")
    if watermarks is not None:
        check_column(watermarks)
    if late not in ("error", "drop", "side"):
        raise ParameterError(f'late={late!r}: give "error", "drop" or "side"')
    rows = whole("batch_rows", batch_rows, 1, MOST_BATCH_ROWS)
    idle_after_s = None if idle_after is None else parse_seconds(idle_after, "idle_after")
    readers = []
    for item, called in zip(sources, _names(sources, name), strict=True):
        check_no_index(item, event_time)
        reader = open_input(item, sort_by=event_time if sort else None, batch_rows=rows, name=called)
        if watermarks is not None:
            reader = with_watermarks(reader, event_time, watermarks)
        readers.append(reader)
    schema = readers[0].schema
    for reader in readers[1:]:
        both = shared_schema(schema, reader.schema)
        if both is None:
            theirs, first = told_apart(reader.schema, schema)
            raise SchemaError(
                f"{display_name(reader.name)} has the columns {theirs}, the first one {first}; cast them to one schema, in one"
                f" order, or use join()"
            )
        schema = both
    openers = tuple(functools.partial(_reader_of, read_as(reader, schema)) for reader in readers)
    kind = check_event_time(schema, event_time)
    if late == "side":
        check_movable(schema, 'late="side"')
    unit = time_unit_of(kind, parse_time_unit(time_unit))
    is_disordered, allowed = lateness == "watermarks", None
    if lateness is None:
        allowed = _lateness(readers, event_time)
    elif not is_disordered:
        allowed = parse_duration(lateness, unit, "lateness")
    if late != "error" and allowed is None and idle_after_s is None and watermarks is None and not is_disordered:
        raise ParameterError(
            f"late={late!r}: without lateness= a row out of order is an error, and none is late; say how much disorder is"
            f' repaired, as in lateness="10s", or lateness=0 for none'
        )
    node = SourceNode(
        readers=openers,
        names=tuple(_names(readers, name)),
        rows=tuple(reader.rows for reader in readers),
        schema=schema,
        event_time=event_time,
        unit=unit,
        time_unit=time_unit,
        lateness=allowed,
        late=late,
        idle_after=idle_after_s,
        is_disordered=is_disordered,
    )
    return Stream(node)


def _names(sources: list[Any], name: str | Sequence[str] | None) -> list[str]:
    """What the sources are called, as far as this is known before there is a query."""
    if name is None:
        return [numbered(name_of(source), i) for i, source in enumerate(sources, 1)]
    names = list(name) if isinstance(name, Sequence) and not isinstance(name, str) else [name]
    if len(names) != len(sources) or not all(isinstance(one, str) and one for one in names):
        raise ParameterError(f"name={name!r}: give a text for each of the {len(sources)} sources, in a list if there are several")
    return names


def _reader_of(reader):
    return reader


def _lateness(readers, event_time: str) -> int | None:
    """The lateness that the sources declare: the delay of a streaming DataFrame's ``withWatermark``, in microseconds."""
    delays = [reader.delay_us(event_time) for reader in readers if reader.delay_us is not None]
    return max((delay for delay in delays if delay is not None), default=None)
