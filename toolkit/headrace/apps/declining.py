"""declining: categories whose daily sums do not grow (TPCx-BB query 15; Table 1 of the paper).

SL items that have a category; SL: its day; PS by category: the sum of a day, and when a later one begins, the
regression of all finished days. The categories are a table, not a stream: they are added to the rows as a column where
these are read, so the stages have nothing to look up.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.apps.pipeline_options import BUCKETS, in_unit
from headrace.errors import ParameterError
from headrace.plan.steps import Step
from headrace.reference import ordering_apps as reference
from headrace.stream.streams import with_step


def build(sales: hr.Stream, categories: pa.Table, buckets: int) -> hr.Stream:
    width = in_unit(sales, "1d", "day")

    def known(t):
        return t.category is not None and t.amount is not None

    def daily(t, emit):
        emit(category=t.category, day=t.ts // width, amount=t.amount)

    def regress(state, t, emit):
        if not state.is_open:
            state.is_open = True
            state.first = t.day
            state.day = t.day
        if t.day > state.day:
            x = state.day - state.first
            y = state.sum
            state.days += 1
            state.sx += x
            state.sy += y
            state.sxx += x * x
            state.sxy += x * y
            state.day = t.day
            state.sum = 0
            if state.days >= 2:
                above = state.days * state.sxy - state.sx * state.sy
                below = state.days * state.sxx - state.sx * state.sx
                slope = quotient(above, below)
                if slope <= 0:
                    emit(category=t.category, days=state.days, slope=slope)
        state.sum += t.amount

    numbers = ("first", "day", "sum", "days", "sx", "sy", "sxx", "sxy")
    return (
        with_step(sales, Categorized.of(categories))
        .ordered()
        .filter(known)
        .map(daily, emits={"category": "int64", "day": "int64", "amount": "int64"})
        .partitioned(
            regress,
            by="category",
            state={"is_open": "bool"} | dict.fromkeys(numbers, "int64"),
            emits={"category": "int64", "days": "int64", "slope": "float64"},
            buckets=buckets,
        )
    )


EXACT, ENOUGH = 2**53, 2**54
"""Whole numbers up to the first are floats; from the second on they have two bits more than a float."""


def quotient(above, below):
    """Divide by a positive number, and round only once, as Python divides integers: as floats, both would be rounded first."""
    if above == 0 or (-EXACT <= above <= EXACT and below <= EXACT):
        return float(above) / float(below)
    whole = above // below
    rest = above % below
    scale = 1.0
    while -ENOUGH < whole < ENOUGH:
        whole += whole
        if rest >= below - rest:
            rest -= below - rest
            whole += 1
        else:
            rest += rest
        scale /= 2.0
    if rest > 0:
        whole |= 1  # all between two even numbers is rounded alike
    return float(whole) * scale


@dataclass(frozen=True, eq=False)
class Categorized(Step):
    """Adds the category of each row's item, null where it has none."""

    items: pa.Array
    categories: pa.Array

    @classmethod
    def of(cls, table: pa.Table) -> Categorized:
        """Read the table; `ParameterError` for an item that has two rows, be it without a category."""
        table = table.filter(pc.is_valid(table["item"])).combine_chunks()
        counts = table.group_by("item", use_threads=False).aggregate([([], "count_all")])
        twice = counts.filter(pc.greater(counts["count_all"], 1))
        if twice.num_rows:
            raise ParameterError(
                f"--right: item {twice['item'][0]} occurs {twice['count_all'][0]} times, but has one category; keep one row"
            )
        table = table.filter(pc.is_valid(table["category"]))
        items, categories = (pa.array(table[name].to_numpy(), pa.int64()) for name in ("item", "category"))
        return cls(items, categories)

    def result_schema(self, schema):
        return schema.append(pa.field("category", pa.int64()))

    def apply(self, batch):
        found = pc.index_in(batch.column(batch.schema.get_field_index("item")), self.items, skip_nulls=True)
        columns = [*batch.columns, self.categories.take(found)]
        return pa.RecordBatch.from_arrays(columns, schema=self.result_schema(batch.schema))


APP = App(
    name="declining",
    help="find the categories of items whose daily sums do not grow",
    left=(TIME, ("item", "integer"), ("amount", "integer")),
    right=(("item", "integer"), ("category", "integer")),
    has_right=True,
    is_right_table=True,
    build=build,
    reference=reference.declining,
    options=[BUCKETS],
    stages="SL SL PS",
)
