"""What the kernels of an aggregate depend on, and where its state lies."""

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


def compared_texts(shape: AggregateShape) -> list[int]:
    """Columns of strings that have a min or max."""
    return sorted({a.column for a in shape.aggregates if a.is_text and a.kind in ("min", "max") and a.column is not None})


class Layout:
    """State and output arrays in the order of the kernel's tuple `s`."""

    def __init__(self, shape: AggregateShape):
        self.state: list[str] = ["uint32"]  # s[0]: tuples in the window instance
        self.columns = sorted({a.column for a in shape.aggregates if a.column is not None})
        self.nulls = {column: self._add("uint32") for column in self.columns}
        self.slots = shape.slots
        self.value = [
            self._add("int64" if a.kind == "count_distinct" else a.dtype) if a.kind != "count" else -1
            for a in shape.aggregates
        ]
        # Integers are averaged exactly: a sum in 128 bits, here its high half.
        self.high = {
            i: self._add("int64") for i, a in enumerate(shape.aggregates) if a.kind == "mean" and a.dtype == "int64"
        }
        self.opened = len(self.state)  # int64[slots]: tuples seen when the window opened
        # Sets of distinct values: three arrays of `distinct`.
        self.sets = self.opened + 1
        self.distinct = [i for i, a in enumerate(shape.aggregates) if a.kind == "count_distinct"]
        # What strings are compared by: three arrays for each column of strings that has a min or max.
        first = self.sets + (3 if self.distinct else 0)
        self.texts = {column: first + 3 * i for i, column in enumerate(compared_texts(shape))}
        first += 3 * len(self.texts)
        self.output: list[str] = []
        self.out_value = []
        for aggregate in shape.aggregates:
            self.out_value.append(first + len(self.output))
            self.output.append("int64" if aggregate.kind in ("count", "count_distinct") else aggregate.dtype)
        self.out_high = {}
        for aggregate in self.high:
            self.out_high[aggregate] = first + len(self.output)
            self.output.append("int64")
        self.out_nonnull = {}
        for column in self.columns:
            self.out_nonnull[column] = first + len(self.output)
            self.output.append("int64")

    @property
    def sets_text(self) -> str:
        """The sets of distinct values as arguments of their kernels."""
        return ", ".join(f"s[{self.sets + i}]" for i in range(3))

    def _add(self, dtype: str) -> int:
        self.state.append(dtype)
        return len(self.state) - 1
