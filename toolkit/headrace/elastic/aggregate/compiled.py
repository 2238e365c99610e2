"""A and A+ for the engine: which columns the kernels aggregate, in which types, and their state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.elastic import failures
from headrace.elastic.aggregate import aggregate_kernel, template
from headrace.elastic.aggregate.as_they_come import order_matters, room_ahead
from headrace.elastic.aggregate.results import AggregateResults, time_step
from headrace.elastic.aggregate.shape import COUNTED, AggregateColumn, AggregateShape, Layout, compared_texts
from headrace.elastic.compiled import Compiled, Exact
from headrace.errors import AggregateOverflowError, OverflowInputError, UnsupportedTypeError
from headrace.expressions import Aggregate
from headrace.ingress.columns import is_number, is_text, plain_type, value_dtype
from headrace.ingress.key_ranks import KeyRanks
from headrace.ingress.key_sources import make_dictionary
from headrace.ingress.key_tables import id_capacity
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.memory.arena import used_bytes
from headrace.plan.nodes import Branch, OperatorNode
from headrace.progress import END_OF_TIME
from headrace.references import BUCKETS
from headrace.workers import worker_kernel

_COLLECTING = ("collect_list", "collect_set", "quantile", "mode", "top", "count_distinct")
"""Aggregates whose state grows with the values."""
_EXACT = (*COUNTED, "sum", "min", "max", "first", "last", "quantile", "mode")
"""Results whose value in the state is the one that kernels would read from a column of them: if the column is of a narrow type
or of times, every value fits it."""


class CompiledAggregate(Compiled):
    """An aggregate operator in one run; the node's spec is a `headrace.elastic.specs.AggregateSpec`."""

    def __init__(self, node: OperatorNode, branches: list[Branch], options: Any):
        schema = branches[0].schema
        spec: Any = node.spec
        self.node, self.spec, self.given = node, spec, schema
        self.window_size = spec.window.longest
        self.nulls, self.key_names = spec.nulls, spec.key_names
        # Operators in one line may share key ids; an id stays in use while a window of any of them has the key.
        together = options.line_of(node.name)
        self.dictionary = make_dictionary(schema, spec.keys, BUCKETS, options.max_keys, together)
        self.multi_key = bool(spec.keys) and not (
            spec.nulls == "error" and all(key.is_single for key in spec.keys)
        )
        names = []
        for _, wanted in spec.aggregates:
            names += [name for name in wanted.columns if name not in names]
        self.counted = [name for name in names if _is_only_counted(name, schema.field(name).type, spec.aggregates)]
        kinds = {name: plain_type(schema.field(name).type) for name in names}
        self._kinds = kinds | dict.fromkeys(self.counted, pa.int64())
        self._columns = {name: _wide(value_dtype(kind)) for name, kind in self._kinds.items()}
        self._names = names
        self.value_columns = len(names)
        aggregates = tuple(self._aggregate(wanted) for _, wanted in spec.aggregates)
        self.order_matters = order_matters(spec.aggregates, aggregates)
        is_local, in_order = spec.window.zone is not None, not options.takes_as_they_come(node.name, len(branches))
        self.places_per_key = spec.window.open_at_once
        if not in_order and not self.order_matters:
            self.lead, self.places_per_key = room_ahead(spec.window)
        self.shape = AggregateShape(aggregates, self.places_per_key, self.multi_key, len(names), is_local, in_order)
        layout = self._lay_out()
        self.texts: dict[str, KeyDictionary] = {}
        for column, name in enumerate(names):
            if is_text(self._kinds[name]):
                if column in layout.texts:
                    self.texts[name] = OrderedTexts(options.max_keys)
                else:
                    self.texts[name] = KeyDictionary(("string",), 1, options.max_keys)
                self.texts[name].set_types([self._kinds[name]])
        self._max_state = options.max_state
        self._schema = node.schema
        self.id_capacity = BUCKETS if self.dictionary is None else id_capacity(together * options.max_keys)

    def _aggregate(self, wanted: Aggregate) -> AggregateColumn:
        """Describe an aggregate for the kernels."""

        def known(name: str | None) -> tuple[int | None, str, bool]:
            if name is None:
                return None, "int64", False
            return self._names.index(name), self._columns[name].name, is_text(self._kinds[name])

        column, dtype, text = known(wanted.column)
        step = time_step(self._kinds[wanted.column]) if wanted.kind == "quantile" else 0
        return AggregateColumn(wanted.kind, column, dtype, wanted.ignore_nan, text, step, *known(wanted.by))

    def take_ahead(self, lead: int) -> None:
        """Take tuples in order of arrival, from sources up to `lead` ahead of the watermark. To be called before `allocate`."""
        self.lead, self.places_per_key = room_ahead(self.spec.window, lead)
        self.shape = replace(self.shape, slots=self.places_per_key, in_order=False)
        self._lay_out()

    def give_by_rank(self, state):
        assert self.dictionary is not None
        self.shape = replace(self.shape, by_rank=True)
        self.ranks = KeyRanks(self.dictionary, self.id_capacity)
        instances = len(getattr(state, self.result_fields[0]))
        return template.with_ranks(state, self.ranks, instances, self.dictionary.limit)

    def note_keys(self, ids):
        """Write the ranks of keys where kernels read them. An id is another key's only after its last window was emitted."""
        if self.ranks is not None:
            self.ranks.note(ids)

    @property
    def why_not_ranked(self) -> str:
        """A window gives each key one result, and ranks tell how any two keys are ordered, whatever keys come later."""
        return "two of its windows, of local days, may end at one time" if self.spec.window.zone is not None else ""

    def _lay_out(self) -> Layout:
        """Name the fields of the state and of the results that the shape has."""
        layout = self._layout = Layout(self.shape)
        self.result_fields = list(layout.results)
        self.list_fields = [(layout.out_value[number], count) for number, count in layout.out_count.items()]
        return layout

    @property
    def layout(self) -> Layout:
        """The names of its state and result fields."""
        return self._layout

    @property
    def why_collected(self) -> str:
        """It gives lists, of any length."""
        return "it gives lists" if self.list_fields else ""

    @property
    def why_encoded(self) -> str:
        """Nothing prevents it."""
        return ""

    def exact_results(self) -> dict[str, Exact]:
        """Numbers and times that are not computed from the state when it is collected."""
        found = {}
        layout = self._layout
        for number, ((name, _), column) in enumerate(zip(self.spec.aggregates, self.shape.aggregates, strict=True)):
            value, is_counted = layout.out_value[number], column.kind in COUNTED
            if column.kind not in _EXACT or number in layout.high or (column.is_text and not is_counted):
                continue
            known = "" if is_counted or column.column is None else layout.out_known[column.column]
            found[name] = Exact(value, known, column.ignore_nan and layout.results[value] == "float64")
        return found

    def keys_of(self, side):
        return self.spec.keys

    def values_of(self, side):
        return self._names

    def columns_of(self, side):
        return self._columns

    def text(self):
        return template.generate(self.shape)

    def allocate(self, instances, capacity):
        texts = [self.texts[self._names[column]] for column in compared_texts(self.shape)]
        orders = [text.arrays for text in texts if isinstance(text, OrderedTexts)]
        aggregates = [wanted for _, wanted in self.spec.aggregates]
        return template.allocate_state(
            self.shape,
            self.id_capacity,
            instances,
            capacity,
            texts=orders,
            zone=self.spec.window.zone,
            fractions=[a.q for a in aggregates if a.kind == "quantile"],
            most=[a.k for a in aggregates if a.kind == "top"],
            arena_words=self._max_state // 8,
        )

    def counted_of(self, side):
        return self.counted

    def texts_of(self, side):
        return self.texts

    def finisher(self, stores):
        outputs = template.outputs_of(self.shape)
        texts = [self.texts.get(wanted.column or "") for _, wanted in self.spec.aggregates]
        return AggregateResults(self._schema, self.dictionary, len(self.spec.key_names), outputs, texts)

    def release(self, watermark):
        if watermark == END_OF_TIME:
            return
        for dictionary in self.texts.values():
            # Every window that holds ts ends by ts + WS.
            dictionary.expire(watermark - self.window_size + 1)

    def private(self, worker):
        words = super().private(worker)
        words[aggregate_kernel.SIZE] = self.spec.window.size
        words[aggregate_kernel.ADVANCE] = self.spec.window.advance
        words[aggregate_kernel.LEAD] = self.lead
        return words

    def state_bytes(self, id_limit):
        return id_limit * self.shape.slots * template.bytes_per_place(self.shape)

    def arena_bytes(self, state):
        layout = self._layout
        return used_bytes(*(getattr(state, name) for name in layout.arena)) if layout.heads or layout.sets else 0

    def explain(self, failure, stores, state):
        code = int(failure[worker_kernel.FAILURE_CODE])
        if code == failures.STATE_FULL:
            keeping = [f"{name}={wanted!r}" for name, wanted in self.spec.aggregates if wanted.kind in _COLLECTING]
            return OverflowInputError(
                f"{', '.join(keeping)}: the values that {self.windows_text(failure)} keep do not fit into"
                f" max_state={self._max_state} bytes; use smaller windows, or pass a larger max_state="
            )
        ts = self.time_text(int(failure[worker_kernel.FAILURE_TS]))
        if code == failures.SUM_OVERFLOW:
            sums = [f"{name}={wanted!r}" for name, wanted in self.spec.aggregates if wanted.kind == "sum"]
            return AggregateOverflowError(
                f"{', '.join(sums)}: a sum left the range of int64 at a tuple of event time {ts} or soon after;"
                f" cast the column to float64, or use smaller windows"
            )
        if code == failures.COUNT_OVERFLOW:
            return AggregateOverflowError(
                f"the window that ends at {ts} holds more than 2**32 tuples; use a smaller size="
            )
        return super().explain(failure, stores, state)


def _is_only_counted(name: str, kind: pa.DataType, aggregates: Sequence[tuple[str, Aggregate]]) -> bool:
    """Whether aggregates only count a column's non-null values, and the values are not numbers or do not fit int64."""
    asked = {wanted.kind for _, wanted in aggregates if name in wanted.columns}
    kind = plain_type(kind)
    return asked == {"count"} and (not is_number(kind) or pa.types.is_uint64(kind))


def _wide(dtype: np.dtype) -> np.dtype:
    """The type that aggregate kernels compute in: int64 or float64."""
    if dtype.kind == "f":
        return np.dtype(np.float64)
    if dtype.kind in "iub":
        return np.dtype(np.int64)
    raise UnsupportedTypeError(f"a column of {dtype} cannot be aggregated; cast it to int64 or float64")
