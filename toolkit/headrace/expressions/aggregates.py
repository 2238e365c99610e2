"""Aggregates of the tuples in a window. Descriptions only: the kernels are in `headrace.elastic.aggregate`."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.arguments import is_number, is_whole_number
from headrace.errors import ParameterError
from headrace.expressions.columns import column_name
from headrace.names import explains_arguments

MOST_TOP = 1 << 20


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of the tuples in a window.

    Attributes
    ----------
    kind : str
        count, sum, min, max, mean, first, last, count_distinct, collect_list, collect_set, quantile, mode or top.
    column : str or None
        None for the count of tuples.
    ignore_nan : bool
        min, max and quantile skip NaN instead of giving NaN.
    q : float
        For quantile: which one.
    k : int
        For top: most values.
    by : str or None
        For top: the column by which tuples are ranked.
    """

    kind: str
    column: str | None = None
    ignore_nan: bool = False
    q: float = 0.5
    k: int = 0
    by: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(dict.fromkeys(name for name in (self.column, self.by) if name is not None))

    def __repr__(self):
        parts = [] if self.column is None else [repr(self.column)]
        if self.kind == "quantile" and self.q != 0.5:
            parts.append(repr(self.q))
        if self.kind == "top":
            parts = [str(self.k), *parts, *([] if self.by == self.column else [f"by={self.by!r}"])]
        if self.ignore_nan:
            parts.append("ignore_nan=True")
        kind = "median" if self.kind == "quantile" and self.q == 0.5 else self.kind
        return f"{kind}({', '.join(parts)})"


@explains_arguments()
def count(column: str | None = None) -> Aggregate:
    """Count tuples, or the non-null values of a column of any type; int64.

    Parameters
    ----------
    column : str, optional
        By default all tuples count.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> orders = hr.stream(pa.table({"ts": [1, 2, 3], "item": ["tea", None, "tea"]}), event_time="ts").window(10)
    >>> orders.aggregate(n=hr.count(), known=hr.count("item"), kinds=hr.count_distinct("item")).to_arrow().to_pylist()
    [{'ts': 10, 'n': 3, 'known': 2, 'kinds': 1}]
    """
    return Aggregate("count", None if column is None else column_name("count", column))


@explains_arguments()
def sum(column: str) -> Aggregate:
    """Add the non-null values, in input order, as int64 or durations of the column's unit, with overflow an error; or as float64.

    Dates, times of day and timestamps have no sum and are refused.

    Parameters
    ----------
    column : str
        A column of numbers or durations.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa, datetime as dt
    >>> waits = pa.table({"ts": [1, 2], "wait": [dt.timedelta(minutes=1), dt.timedelta(minutes=4)]})
    >>> calls = hr.stream(waits, event_time="ts").window(10).aggregate(all=hr.sum("wait"), mean=hr.mean("wait"))
    >>> [str(value) for value in calls.to_arrow().to_pylist()[0].values()]
    ['10', '0:05:00', '0:02:30']
    """
    return Aggregate("sum", column_name("sum", column))


@explains_arguments(skipna="ignore_nan")
def min(column: str, ignore_nan: bool = False) -> Aggregate:
    """Find the smallest non-null value, of the column's type: strings by code point.

    Parameters
    ----------
    column : str
        A column of numbers, bools, strings, dates, times or durations.
    ignore_nan : bool
        Skip NaN; by default the result is NaN if there is one.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> waits = hr.stream(pa.table({"ts": [1, 2, 3], "ms": [5.0, float("nan"), 4.0]}), event_time="ts").window(10)
    >>> waits.aggregate(least=hr.min("ms", ignore_nan=True), most=hr.max("ms")).to_arrow().to_pylist()
    [{'ts': 10, 'least': 4.0, 'most': nan}]
    """
    return Aggregate("min", column_name("min", column), bool(ignore_nan))


@explains_arguments(skipna="ignore_nan")
def max(column: str, ignore_nan: bool = False) -> Aggregate:
    """Find the largest non-null value, of the column's type: strings by code point.

    Parameters
    ----------
    column : str
        A column of numbers, bools, strings, dates, times or durations.
    ignore_nan : bool
        Skip NaN; by default the result is NaN if there is one.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> waits = hr.stream(pa.table({"ts": [1, 2, 3], "ms": [5.0, float("nan"), 4.0]}), event_time="ts").window(10)
    >>> waits.aggregate(least=hr.min("ms", ignore_nan=True), most=hr.max("ms")).to_arrow().to_pylist()
    [{'ts': 10, 'least': 4.0, 'most': nan}]
    """
    return Aggregate("max", column_name("max", column), bool(ignore_nan))


@explains_arguments()
def mean(column: str) -> Aggregate:
    """Average the non-null values; float64, or a time or duration of the column's unit, rounded half away from zero.

    Integers, times and durations are added exactly (in 128 bits), and floats in input order.

    Parameters
    ----------
    column : str
        A column of numbers, dates, times or durations.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa, datetime as dt
    >>> waits = pa.table({"ts": [1, 2], "wait": [dt.timedelta(minutes=1), dt.timedelta(minutes=4)]})
    >>> calls = hr.stream(waits, event_time="ts").window(10).aggregate(all=hr.sum("wait"), mean=hr.mean("wait"))
    >>> [str(value) for value in calls.to_arrow().to_pylist()[0].values()]
    ['10', '0:05:00', '0:02:30']
    """
    return Aggregate("mean", column_name("mean", column))


@explains_arguments()
def first(column: str) -> Aggregate:
    """Keep the first non-null value, of the column's type, in the order of the stream.

    Parameters
    ----------
    column : str

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> prices = hr.stream(pa.table({"ts": [1, 2, 3], "price": [None, 5, 4]}), event_time="ts").window(10)
    >>> prices.aggregate(opened=hr.first("price"), closed=hr.last("price")).to_arrow().to_pylist()
    [{'ts': 10, 'opened': 5, 'closed': 4}]
    """
    return Aggregate("first", column_name("first", column))


@explains_arguments()
def last(column: str) -> Aggregate:
    """Keep the last non-null value, of the column's type, in the order of the stream.

    Parameters
    ----------
    column : str

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> prices = hr.stream(pa.table({"ts": [1, 2, 3], "price": [None, 5, 4]}), event_time="ts").window(10)
    >>> prices.aggregate(opened=hr.first("price"), closed=hr.last("price")).to_arrow().to_pylist()
    [{'ts': 10, 'opened': 5, 'closed': 4}]
    """
    return Aggregate("last", column_name("last", column))


@explains_arguments()
def count_distinct(column: str) -> Aggregate:
    """Count distinct non-null values, as int64; NaN equals NaN, and -0.0 equals 0.0.

    Parameters
    ----------
    column : str

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> orders = hr.stream(pa.table({"ts": [1, 2, 3], "item": ["tea", None, "tea"]}), event_time="ts").window(10)
    >>> orders.aggregate(n=hr.count(), known=hr.count("item"), kinds=hr.count_distinct("item")).to_arrow().to_pylist()
    [{'ts': 10, 'n': 3, 'known': 2, 'kinds': 1}]
    """
    return Aggregate("count_distinct", column_name("count_distinct", column))


@explains_arguments()
def collect_list(column: str) -> Aggregate:
    """List the non-null values in the order of the stream: by event time, source, position in the source.

    The list is empty if there are none. Its values have the column's type.

    Parameters
    ----------
    column : str

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> orders = hr.stream(pa.table({"ts": [1, 2, 3], "item": ["tea", "milk", "tea"]}), event_time="ts").window(10)
    >>> orders.aggregate(items=hr.collect_list("item"), kinds=hr.collect_set("item")).to_arrow().to_pylist()
    [{'ts': 10, 'items': ['tea', 'milk', 'tea'], 'kinds': ['milk', 'tea']}]
    """
    return Aggregate("collect_list", column_name("collect_list", column))


@explains_arguments()
def collect_set(column: str) -> Aggregate:
    """List the distinct non-null values in ascending order, strings by code point.

    NaN equals NaN and comes last, and -0.0 equals 0.0. The list is empty if there are none.

    Parameters
    ----------
    column : str

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> orders = hr.stream(pa.table({"ts": [1, 2, 3], "item": ["tea", "milk", "tea"]}), event_time="ts").window(10)
    >>> orders.aggregate(items=hr.collect_list("item"), kinds=hr.collect_set("item")).to_arrow().to_pylist()
    [{'ts': 10, 'items': ['tea', 'milk', 'tea'], 'kinds': ['milk', 'tea']}]
    """
    return Aggregate("collect_set", column_name("collect_set", column))


@explains_arguments(skipna="ignore_nan")
def median(column: str, ignore_nan: bool = False) -> Aggregate:
    """Find the middle of the non-null values, exactly: `quantile` of 0.5.

    Parameters
    ----------
    column : str
        A column of numbers, times or durations.
    ignore_nan : bool
        Skip NaN; by default the result is NaN if there is one.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> delays = hr.stream(pa.table({"ts": [1, 2, 3, 4], "ms": [3, 1, 2, 10]}), event_time="ts").window(10)
    >>> delays.aggregate(half=hr.median("ms"), most=hr.quantile("ms", 0.75)).to_arrow().to_pylist()
    [{'ts': 10, 'half': 2.5, 'most': 4.75}]
    """
    return quantile(column, 0.5, ignore_nan)


@explains_arguments(p="q", skipna="ignore_nan")
def quantile(column: str, q: float, ignore_nan: bool = False) -> Aggregate:
    """Find the value below which a fraction of the non-null values lies, exactly.

    It is interpolated between two values, as by DuckDB's ``quantile_cont`` and pandas: of n values
    in ascending order it is the one at ``q * (n - 1)``. float64; a time or duration stays one, rounded to its unit, a
    date to whole days.

    Parameters
    ----------
    column : str
        A column of numbers, times or durations.
    q : float
        From 0, the smallest value, to 1, the largest.
    ignore_nan : bool
        Skip NaN; by default the result is NaN if there is one, as for `min`.

    Raises
    ------
    ParameterError
        `q` is no number from 0 to 1.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> delays = hr.stream(pa.table({"ts": [1, 2, 3, 4], "ms": [3, 1, 2, 10]}), event_time="ts").window(10)
    >>> delays.aggregate(half=hr.median("ms"), most=hr.quantile("ms", 0.75)).to_arrow().to_pylist()
    [{'ts': 10, 'half': 2.5, 'most': 4.75}]
    """
    name = column_name("quantile", column)
    if not is_number(q) or not 0 <= q <= 1:
        raise ParameterError(f"quantile({name!r}, {q!r}): give a number from 0 to 1, such as 0.9")
    return Aggregate("quantile", name, bool(ignore_nan), q=float(q))


@explains_arguments()
def mode(column: str) -> Aggregate:
    """Find the most frequent non-null value, and the smallest of equally frequent ones; of the column's type.

    All zeros are one value, 0.0. All NaN are one value, too, which is larger than all numbers.

    Parameters
    ----------
    column : str

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": [1, 2, 3, 4], "item": ["tea", "milk", "tea", "milk"]})
    >>> hr.stream(table, event_time="ts").window(10).aggregate(most=hr.mode("item")).to_arrow().to_pylist()
    [{'ts': 10, 'most': 'milk'}]
    """
    return Aggregate("mode", column_name("mode", column))


@explains_arguments(n="k")
def top(k: int, column: str, by: str | None = None) -> Aggregate:
    """List the values of a column in the `k` tuples where column `by` is largest, the largest first.

    Of tuples that are equal in `by` those with smaller values come first. A tuple in which either column is null is left
    out; NaN is larger than all numbers, as for `max`.

    Parameters
    ----------
    k : int
        Most values, from 1 to 1,048,576.
    column : str
    by : str, optional
        By default the column itself, for its largest values.

    Raises
    ------
    ParameterError
        `k` is out of its range.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": [1, 2, 3], "word": ["ox", "horse", "zebra"], "chars": [2, 5, 5]})
    >>> words = hr.stream(table, event_time="ts").window(10)
    >>> words.aggregate(longest=hr.top(2, "word", by="chars")).to_arrow().to_pylist()
    [{'ts': 10, 'longest': ['horse', 'zebra']}]
    """
    name = column_name("top", column)
    if not is_whole_number(k) or not 1 <= k <= MOST_TOP:
        raise ParameterError(f"top({k!r}, {name!r}): give how many values, a whole number from 1 to {MOST_TOP:,}")
    return Aggregate("top", name, k=int(k), by=name if by is None else column_name("top", by))
