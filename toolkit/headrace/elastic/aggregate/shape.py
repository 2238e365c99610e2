"""What the kernels of an aggregate depend on, and the names of its state."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AggregateColumn:
    """One aggregate as the kernel computes it.

    Parameters
    ----------
    kind : str
        count, sum, min, max, mean, first, last, count_distinct.
    column : int or None
        Index of the value column in the store; None for `count()` of tuples.
    dtype : str
        int64 or float64, of the value column.
    ignore_nan : bool
        min and max skip NaN.
    is_text : bool
        The values are ids of strings.
    """

    kind: str
    column: int | None = None
    dtype: str = "int64"
    ignore_nan: bool = False
    is_text: bool = False


@dataclass(frozen=True)
class AggregateShape:
    """What the generated text depends on; window sizes are not part of it."""

    aggregates: tuple[AggregateColumn, ...]
    slots: int
    multi_key: bool
    value_columns: int
    is_local: bool = False
    """Windows are of days of a time zone."""


def compared_texts(shape: AggregateShape) -> list[int]:
    """Columns of strings that have a min or max."""
    return sorted({a.column for a in shape.aggregates if a.is_text and a.kind in ("min", "max") and a.column is not None})


class Layout:
    """Fields of the state, by the names that kernels write, ``s.counts``: what they hold, and their dtypes.

    Attributes
    ----------
    by_key : dict of str to str
        Arrays by key id and window slot, of which `counts`, the tuples of a window
        instance, comes first: where it is 0 there is no window instance.
    nulls : dict of int to str
        Null values, by column.
    value : list of str
        What each aggregate keeps; of `count` nothing, "".
    high : dict of int to str
        The high half of a sum in 128 bits, by number of the aggregate: integers are averaged exactly.
    distinct : list of int
        Aggregates that keep a set of values; the sets of all are in `sets`.
    texts : dict of int to tuple of str
        By column of strings: what they are compared by, as of `memory.text_order`.
    results : dict of str to str
        Columns of the results, in each an instance's ring.
    out_value, out_high, out_known : list of str, dict of int to str, dict of int to str
        Of them, each aggregate's result, the high half of its sum, and how many values of a column were not null.
    """

    opened = "opened"
    """Tuples seen when a window opened, by slot."""

    def __init__(self, shape: AggregateShape):
        aggregates = list(enumerate(shape.aggregates))
        self.columns = sorted({a.column for a in shape.aggregates if a.column is not None})
        self.slots = shape.slots
        self.nulls = {column: f"nulls_{column}" for column in self.columns}
        self.value = ["" if a.kind == "count" else f"{a.kind}_{i}" for i, a in aggregates]
        self.high = {i: f"high_{i}" for i, a in aggregates if a.kind == "mean" and a.dtype == "int64"}
        self.by_key = {"counts": "uint32", **dict.fromkeys(self.nulls.values(), "uint32")}
        self.by_key |= {name: _kept_as(a) for (_, a), name in zip(aggregates, self.value, strict=True) if name}
        self.by_key |= dict.fromkeys(self.high.values(), "int64")
        self.distinct = [i for i, a in aggregates if a.kind == "count_distinct"]
        self.sets = ("tables", "free", "arena") if self.distinct else ()
        self.texts = {
            column: (f"prefixes_{column}", f"addresses_{column}", f"lengths_{column}")
            for column in compared_texts(shape)
        }
        self.out_value = [f"out_{a.kind}_{i}" for i, a in aggregates]
        self.out_high = {i: f"out_high_{i}" for i in self.high}
        self.out_known = {column: f"out_known_{column}" for column in self.columns}
        self.results = {name: _kept_as(a) for (_, a), name in zip(aggregates, self.out_value, strict=True)}
        self.results |= dict.fromkeys([*self.out_high.values(), *self.out_known.values()], "int64")

    @property
    def sets_text(self) -> str:
        """The sets of distinct values as arguments of their kernels."""
        return ", ".join(f"s.{name}" for name in self.sets)


def _kept_as(aggregate: AggregateColumn) -> str:
    """Dtype of an aggregate's value."""
    return "int64" if aggregate.kind in ("count", "count_distinct") else aggregate.dtype
