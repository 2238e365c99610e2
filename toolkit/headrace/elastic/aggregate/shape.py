"""What the kernels of an aggregate depend on, and the names of its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class AggregateColumn:
    """One aggregate as the kernel computes it.

    Parameters
    ----------
    kind : str
        count, sum, min, max, mean, first, last, count_distinct, collect_list, collect_set, quantile, mode, top.
    column : int or None
        Index of the value column in the store; None for `count()` of tuples.
    dtype : str
        int64 or float64, of the value column.
    ignore_nan : bool
        min, max and quantile skip NaN.
    is_text : bool
        The values are ids of strings.
    time_step : int
        Not 0: the values are times or durations, and so is their quantile; all are multiples of this.
    by, by_dtype, by_is_text : int or None, str, bool
        For top: the column by which it ranks.
    """

    kind: str
    column: int | None = None
    dtype: str = "int64"
    ignore_nan: bool = False
    is_text: bool = False
    time_step: int = 0
    by: int | None = None
    by_dtype: str = "int64"
    by_is_text: bool = False

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that it reads."""
        return tuple(dict.fromkeys(column for column in (self.column, self.by) if column is not None))


class Output(NamedTuple):
    """An aggregate, and which value columns of the result records are its own."""

    aggregate: AggregateColumn
    value: int
    """Its result; for a list, the position."""
    known: int | None = None
    """How many values are not null; None for a count of tuples."""
    high: int | None = None
    """The high half of a sum in 128 bits, if it has one."""
    length: int | None = None
    """The number of words of a list, if it gives one."""


COUNTED = ("count", "count_distinct")
"""Kinds that count values, and are never null."""
LISTS = ("collect_list", "collect_set", "top")
"""Kinds whose results are lists."""


@dataclass(frozen=True)
class AggregateShape:
    """What the generated text depends on; window sizes, the q of quantiles and the k of tops are not part of it."""

    aggregates: tuple[AggregateColumn, ...]
    slots: int
    multi_key: bool
    value_columns: int
    is_local: bool = False
    """Windows are of days of a time zone."""
    in_order: bool = True
    """Tuples come in event-time order, not in order of arrival."""
    by_rank: bool = False
    """Each instance gives the results of a window in order of their keys, by `s.ranks`."""


def compared_texts(shape: AggregateShape) -> list[int]:
    """Columns of strings that aggregates compare."""
    ordered = ("min", "max", "collect_set", "mode", "top")
    columns = {a.column for a in shape.aggregates if a.is_text and a.kind in ordered and a.column is not None}
    return sorted(columns | {a.by for a in shape.aggregates if a.by_is_text and a.by is not None})


def dtype_of(shape: AggregateShape, column: int) -> str:
    """Dtype of a value column."""
    found = {a.dtype for a in shape.aggregates if a.column == column}
    found |= {a.by_dtype for a in shape.aggregates if a.by == column}
    (dtype,) = found
    return dtype


class Layout:
    """Names of the state fields as kernels use them (``s.counts``), what they hold, and their dtypes.

    Attributes
    ----------
    by_key : dict of str to str
        Arrays by key id and window slot. `counts`, the number of tuples of a window
        instance, comes first: where it is 0 there is no window instance.
    nulls : dict of int to str
        By column: the number of null values.
    value : list of str
        What each aggregate keeps; "" for `count`, which keeps nothing.
    high : dict of int to str
        By number of the aggregate: the high half of a sum in 128 bits, of integers that are averaged, or that are
        summed where tuples come in any order.
    distinct : list of int
        Aggregates that count a set of values; the sets of all are in `sets`.
    collected : dict of int to str
        By column: lists of all its values, for `collect_list` and `quantile`.
    counted : dict of int to str
        By column: maps of its distinct values, for `collect_set`, with how often each occurs, for `mode`.
    best : dict of int to str
        By number of the aggregate: the list of pairs that `top` keeps.
    quantiles, tops : list of int
        The aggregates that the entries of `fractions` (q) and `most` (k) are for.
    texts : dict of int to tuple of str
        By column of strings: the fields by which they are compared, as in `memory.text_order`.
    results : dict of str to str
        Columns of the results; each holds a ring for every instance.
    out_value, out_high, out_known : list of str, dict of int to str, dict of int to str
        Result columns: each aggregate's result (for a list, its position), the high half of its sum, and the number of
        non-null values of a column.
    out_count : dict of int to str
        Result columns: by number of an aggregate that gives lists, their number of words.
    """

    opened = "opened"
    """Tuples seen when a window opened, by slot."""
    arena = ("kept_free", "kept_arena")
    """The arena in which all containers and sets of distinct values have their blocks; owners are buckets."""
    fractions, most = "fractions", "most"
    no_texts = "no_texts"
    """Stands for the fields by which texts are compared, where there are no texts."""

    def __init__(self, shape: AggregateShape):
        aggregates = list(enumerate(shape.aggregates))
        self.columns = sorted({column for a in shape.aggregates for column in a.columns})
        self.slots = shape.slots
        self.nulls = {column: f"nulls_{column}" for column in self.columns}
        whole = ("collect_list", "quantile")
        self.collected = {a.column: f"values_{a.column}" for _, a in aggregates if a.kind in whole and a.column is not None}
        different = ("collect_set", "mode")
        self.counted = {a.column: f"different_{a.column}" for _, a in aggregates if a.kind in different and a.column is not None}
        self.best = {i: f"top_{i}" for i, a in aggregates if a.kind == "top"}
        self.quantiles = [i for i, a in aggregates if a.kind == "quantile"]
        self.tops = list(self.best)
        scalar = ("sum", "min", "max", "mean", "first", "last", "count_distinct")
        self.value = [f"{a.kind}_{i}" if a.kind in scalar else "" for i, a in aggregates]
        self._frequent = {a.column for _, a in aggregates if a.kind == "mode"}
        # With tuples in order, a sum that leaves int64 is an error at once; in any order, only if its result is outside.
        exact = ("mean",) if shape.in_order else ("mean", "sum")
        self.high = {i: f"high_{i}" for i, a in aggregates if a.kind in exact and a.dtype == "int64"}
        self.by_key = {"counts": "uint32", **dict.fromkeys(self.nulls.values(), "uint32")}
        self.by_key |= {name: _kept_as(a) for (_, a), name in zip(aggregates, self.value, strict=True) if name}
        self.by_key |= dict.fromkeys(self.high.values(), "int64")
        self.distinct = [i for i, a in aggregates if a.kind == "count_distinct"]
        self.sets = ("tables", *self.arena) if self.distinct else ()
        self.texts = {
            column: (f"prefixes_{column}", f"addresses_{column}", f"lengths_{column}")
            for column in compared_texts(shape)
        }
        self.out_value = [f"out_{a.kind}_{i}" for i, a in aggregates]
        self.out_high = {i: f"out_high_{i}" for i in self.high}
        self.out_known = {column: f"out_known_{column}" for column in self.columns}
        self.out_count = {i: f"out_count_{i}" for i, a in aggregates if a.kind in LISTS}
        self.results = {name: _given_as(a) for (_, a), name in zip(aggregates, self.out_value, strict=True)}
        more = [*self.out_high.values(), *self.out_known.values(), *self.out_count.values()]
        self.results |= dict.fromkeys(more, "int64")

    @property
    def heads(self) -> dict[str, int | None]:
        """Fields of container heads, four words per place, with the words of a value for maps and None for lists."""
        lists = dict.fromkeys([*self.collected.values(), *self.best.values()])
        return {**lists, **{name: self.width(column) for column, name in self.counted.items()}}

    def width(self, column: int) -> int:
        """Words of a value in the map of a column's distinct values: one, the count, if an aggregate needs it; else none."""
        return 1 if column in self._frequent else 0

    @property
    def sets_text(self) -> str:
        """The arguments by which kernels get the sets of distinct values."""
        return ", ".join(f"s.{name}" for name in self.sets)


def _kept_as(aggregate: AggregateColumn) -> str:
    """Dtype of the value that an aggregate keeps."""
    return "int64" if aggregate.kind in COUNTED else aggregate.dtype


def _given_as(aggregate: AggregateColumn) -> str:
    """Dtype of an aggregate's result; for lists, of their position."""
    if aggregate.kind in LISTS:
        return "int64"
    if aggregate.kind == "quantile":
        return "int64" if aggregate.time_step else "float64"
    return _kept_as(aggregate)
