"""What other libraries have -> what to write here: for the errors of `Stream` and the like about missing methods."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa

from headrace.callers import depth_of_caller
from headrace.errors import DurationWarning
from headrace.expressions import Expression

RUNNING = ("start", "to_arrow", "to_pandas", "to_spark", "filter", "select", "map", "join", "through")
OTHER_NAMES = {
    "groupby": ".key_by(...)", "group_by": ".key_by(...)", "keyBy": ".key_by(...)",
    "where": ".filter(...)", "query": ".filter(...)",
    "assign": ".select(..., name=expression)", "with_column": ".select(..., name=expression)",
    "with_columns": ".select(..., name=expression)", "withColumn": ".select(..., name=expression)",
    "rename": ".select(..., new=old)", "drop": ".select(...) with the columns to keep",
    "columns": ".schema.names", "dtypes": ".schema",
    "merge": ".join(..., within=...), or .union(...)", "concat": ".union(...)",
    "run": ".start(), .to_pandas() or .to_arrow()", "execute": ".start(), .to_pandas() or .to_arrow()",
    "collect": ".to_arrow() or .to_pandas()", "compute": ".to_arrow() or .to_pandas()",
    "show": ".to_pandas()", "head": ".to_pandas().head()", "to_polars": "polars.from_arrow(stream.to_arrow())",
    **dict.fromkeys(("to_parquet", "write", "write_parquet", "save"), ".start(sink=hr.parquet(path))"),
    **dict.fromkeys(("sort", "sort_by", "sort_values", "order_by"), "hr.stream(..., sort=True), for rows in the order of time"),
    "to_csv": ".to_pandas().to_csv(path)", "to_json": ".to_pandas().to_json(path)",
    "to_dict": ".to_pandas().to_dict(...)", "to_list": ".to_arrow().to_pylist()", "to_pylist": ".to_arrow().to_pylist()",
}  # fmt: skip
"""What other libraries call a method -> what to write here."""
WINDOWS = ("size", "slide", "tumble", "tumbling", "rolling", "resample", "hop")
AGGREGATES = (
    "count", "sum", "min", "max", "mean", "first", "last", "count_distinct",
    "collect_list", "collect_set", "median", "quantile", "mode", "top",
)  # fmt: skip
WINDOWED = ".window(size, advance)"
SESSIONS = (
    ".window(..., instances='single').apply(hr.operator(...)), as in the notebook 20_windows_and_joins, or keep a session as a"
    " state, in stream.ordered().partitioned(f, by=..., state=...)"
)
WINDOW_NAMES = dict.fromkeys(WINDOWS, WINDOWED) | dict.fromkeys(("session", "sessions", "session_window"), SESSIONS)
"""What other libraries call their ways to cut windows -> what to write here."""
WINDOW_WORDS = {
    "width": "size", "slide": "advance", "step": "advance", "every": "advance", "hop": "advance",
    "tz": "zone", "timezone": "zone", "time_zone": "zone",
} | dict.fromkeys(("session", "gap"), f"windows have a fixed size; find sessions with {SESSIONS}")


def instead_of_brackets(asked: object) -> str:
    """Say what to write here for what pandas gives with brackets: a column, several, some rows."""
    if isinstance(asked, str):
        return f"write hr.col({asked!r}) for the column, or .select(...) for some of the columns"
    if isinstance(asked, list) and all(isinstance(name, str) for name in asked):
        return f"write .select({', '.join(map(repr, asked))})"
    if isinstance(asked, Expression):
        return "write .filter(...)"
    return "a stream has no rows before it runs; .to_arrow() and .to_pandas() run it"


MEANT = 1_000
"""Microseconds from which on a whole number is taken to be meant as such."""


def warn_of_microseconds(name: str, duration: Any, event_time: pa.DataType) -> None:
    """Warn where a duration has no unit and is shorter than a millisecond of timestamps: seconds are meant more often."""
    is_number = isinstance(duration, int) or (isinstance(duration, str) and duration.strip().isdecimal())
    if is_number and pa.types.is_timestamp(event_time) and 0 < (count := int(duration)) < MEANT:
        warnings.warn(
            f"{name}={duration!r}: {count} microseconds, since event times are timestamps; write {name}='{count}s' for seconds,"
            f" or '{count}us' if microseconds are meant",
            DurationWarning, stacklevel=depth_of_caller(),
        )  # fmt: skip
