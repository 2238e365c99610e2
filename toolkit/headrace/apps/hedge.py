"""hedge: pairs of trades that cancel each other out (STRETCH, section 8.6, query Q6).

A self-join. ND = (price - average) / average says how far a trade is from yesterday's average; two
trades of different ids hedge each other when their NDs are opposite within 5 %. Where the average
is 0, ND is infinite or no number, and then no quotient lies in the band; neither does one by 0.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace.apps.app import TIME, App, is_text_kind
from headrace.plan.steps import Step
from headrace.reference import apps as reference
from headrace.stream.streams import with_step


def may_hedge(l, r):
    """Whether ND_R lies between -1.06 and -0.94 of ND_L: no division, so millions of pairs a millisecond."""
    return (l.code != r.code) & ((r.nd + 1.06 * l.nd) * (r.nd + 0.94 * l.nd) <= 0.0)


def build(trades: hr.Stream, size: str) -> hr.Stream:
    trades = prepared(trades)
    return decided(trades.join(trades, within=size, where=may_hedge))


def prepared(trades: hr.Stream) -> hr.Stream:
    """Return trades in the form that `may_hedge` reads."""
    price, average = hr.col("price").cast("float64"), hr.col("average").cast("float64")
    trades = trades.select("ts", "id", "price", nd=(price - average) / average)
    if is_text_kind(trades.schema.field("id").type):
        return with_step(trades, Numbered("id", "code"))
    return trades.select("ts", "id", "price", "nd", code="id")


def decided(pairs: hr.Stream) -> hr.Stream:
    """Keep the pairs that hedge: the join passes pairs that are near, and the quotient itself decides."""
    ratio = hr.col("r_nd") / hr.col("l_nd")
    return pairs.filter((ratio >= -1.05) & (ratio <= -0.95)).select("ts", "l_id", "l_price", "r_id", "r_price")


@dataclass(frozen=True, eq=False)
class Numbered(Step):
    """Adds a column of numbers, equal for equal texts, because predicates compare numbers."""

    text: str
    number: str
    _numbers: dict[str | None, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def result_schema(self, schema):
        return schema.append(pa.field(self.number, pa.int64()))

    def apply(self, batch):
        encoded = pc.dictionary_encode(batch.column(batch.schema.get_field_index(self.text)))
        with self._lock:
            numbers = [self._numbers.setdefault(t, len(self._numbers)) for t in encoded.dictionary.to_pylist()]
        codes = pa.array(numbers, pa.int64()).take(encoded.indices)
        return pa.RecordBatch.from_arrays([*batch.columns, codes], schema=self.result_schema(batch.schema))


APP = App(
    name="hedge",
    help="join trades with the trades that hedge them",
    left=(TIME, ("id", "integer or text"), ("price", "number"), ("average", "number")),
    build=build,
    reference=reference.hedge,
    size="30s",
    is_self_join=True,
)
