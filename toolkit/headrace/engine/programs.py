"""What an operator of a plan is to the engine: kernel text, columns, state, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from headrace.egress.finishers import AggregateResults, ForwardResults
from headrace.errors import (
    AggregateOverflowError,
    HeadraceError,
    OverflowInputError,
    RunFailedError,
    UnsupportedTypeError,
)
from headrace.gates.store import Store
from headrace.ingress.columns import is_text, plain_type, value_dtype
from headrace.ingress.encode import KeySource, make_dictionary
from headrace.ingress.keys import KeyDictionary, id_capacity
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.operators import aggregate, distinct, forward, membership
from headrace.operators.aggregate_shape import AggregateColumn, AggregateShape, compared_texts
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.query import AggregateSpec, ApplySpec, Branch, ForwardSpec, JoinSpec, OperatorNode

PRIVATE_WORDS = 64
FREE_WORD = 11
"""First free word of the instance loop's `l`."""
_LEAST_RECYCLED = 1 << 14
"""Ids of fewer strings are not worth recycling."""


class Program:
    """Base of what is the same for most operators. One per operator and run."""

    dictionary: KeyDictionary | None = None
    multi_key = False
    value_columns = 0
    retention = 0
    """Event time a stored tuple is still needed after it was processed."""
    window_size = 0
    nulls = "error"
    id_capacity = membership.BUCKETS
    first_output = 0
    """Index in the state tuple of the first value column of the output."""
    first_promise = MIN_TIME
    load_meter = membership.UPDATES
    """Counter that says how much an instance has had to do."""
    load_by_key = True
    """It is for the buckets of the tuples' keys, not for all buckets in turn."""
    places_per_key = 0
    """Window instances a key may have at once; the first array of the state is non-zero where one is."""
    latest_is_ready = False
    """The tuple that makes a result ready is the latest one in it."""
    texts: Mapping[str, KeyDictionary] = MappingProxyType({})
    """Text columns whose strings kernels know by id."""
    time_value = ""
    """Name of the value column that is the event time in the stream's unit, where kernels read it."""

    def keys_of(self, side: int) -> Sequence[KeySource]:
        return ()

    def equal_columns_of(self, side: int) -> Sequence[str]:
        """Columns that a join wants equal, whether kernels know them by id or by value."""
        return ()

    def values_of(self, side: int) -> Sequence[str]:
        return ()

    def narrow_values_of(self, side: int) -> Sequence[str]:
        return ()

    def forms_of(self, side: int) -> Mapping[str, tuple[str, int]]:
        """Values that are no columns: name -> (column, divisor); what is not divisible is null."""
        return {}

    def carried_of(self, side: int) -> Sequence[str]:
        return ()

    def columns_of(self, side: int) -> dict[str, np.dtype]:
        return {}

    def multi_key_of(self, side: int) -> bool:
        """Whether a tuple of this input has any number of keys."""
        return self.multi_key

    def note_keys(self, ids: np.ndarray) -> None:
        """Keys of tuples that are about to be published."""

    def text(self) -> str:
        raise NotImplementedError

    def allocate(self, instances: int, capacity: int) -> tuple[np.ndarray, ...]:
        raise NotImplementedError

    def finisher(self, stores: list[Store]) -> Any:
        raise NotImplementedError

    def private(self, worker: int) -> np.ndarray:
        """The instance's own words."""
        return np.zeros(PRIVATE_WORDS, np.int64)

    def scratch(self) -> Any:
        """The instance's own scratch memory, as its kernels expect it."""
        return np.empty(1 << 14, np.int32)

    def state_bytes(self, id_limit: int) -> int:
        return 0

    def stored_tuples(self, state: tuple[np.ndarray, ...], member: int) -> int:
        """Tuples an instance keeps, where it keeps no windows."""
        return 0

    def release(self, watermark: int) -> None:
        """No window that ends at or before `watermark` is open, and its results were built."""

    def explain_compile_error(self, error: BaseException, module: Any) -> HeadraceError | None:
        """Say what a compiler's error in the generated module means; None if it is not a user function's."""
        return None

    def explain_exception(
        self, error: BaseException, words: np.ndarray, stores: list[Store]
    ) -> HeadraceError | None:
        """Say what a user function's exception in a kernel means; None if it was none."""
        return None

    def explain(self, failure: np.ndarray, stores: list[Store], state: tuple) -> HeadraceError:
        """Turn a worker's failure record into an error."""
        code = int(failure[membership.FAILURE_CODE])
        return RunFailedError(f"an instance failed with code {code}; please report this")


class AggregateProgram(Program):
    """A and A+."""

    def __init__(self, node: OperatorNode, spec: AggregateSpec, branches: list[Branch], options: Any):
        schema = branches[0].schema
        self.node, self.spec = node, spec
        self.window_size = spec.window.size
        self.nulls = spec.nulls
        self.dictionary = make_dictionary(schema, spec.keys, membership.BUCKETS, options.max_keys)
        self.multi_key = bool(spec.keys) and not (
            spec.nulls == "error" and all(key.is_single for key in spec.keys)
        )
        names = []
        for _, wanted in spec.aggregates:
            if wanted.column is not None and wanted.column not in names:
                names.append(wanted.column)
        self._columns = {name: _wide(value_dtype(schema.field(name).type)) for name in names}
        self.texts = {}
        for name in names:
            kind = plain_type(schema.field(name).type)
            if is_text(kind):
                compared = any(w.column == name and w.kind in ("min", "max") for _, w in spec.aggregates)
                if compared:
                    self.texts[name] = OrderedTexts(options.max_keys)
                else:
                    self.texts[name] = KeyDictionary(("string",), 1, options.max_keys)
                self.texts[name].set_types([kind])
        self._recycle_at = dict.fromkeys(self.texts, _LEAST_RECYCLED)
        self._names = names
        self.value_columns = len(names)
        aggregates = []
        for _, wanted in spec.aggregates:
            column = None if wanted.column is None else names.index(wanted.column)
            dtype = "int64" if wanted.column is None else self._columns[wanted.column].name
            compared = wanted.column in self.texts
            aggregates.append(AggregateColumn(wanted.kind, column, dtype, wanted.ignore_nan, compared))
        slots = spec.window.open_at_once
        self.places_per_key = slots
        self.shape = AggregateShape(tuple(aggregates), slots, self.multi_key, len(names))
        self._schema = node.schema
        self.id_capacity = membership.BUCKETS if self.dictionary is None else id_capacity(options.max_keys)

    def keys_of(self, side):
        return self.spec.keys

    def values_of(self, side):
        return self._names

    def columns_of(self, side):
        return self._columns

    def text(self):
        return aggregate.generate(self.shape)

    def allocate(self, instances, capacity):
        texts = [self.texts[self._names[column]] for column in compared_texts(self.shape)]
        orders = [text.arrays for text in texts if isinstance(text, OrderedTexts)]
        state = aggregate.allocate_state(self.shape, self.id_capacity, instances, capacity, orders)
        outputs = aggregate.output_columns(self.shape)
        self.first_output = outputs[0][1]
        return state

    def finisher(self, stores):
        outputs = [
            (column, *(None if place is None else place - self.first_output for place in places))
            for column, *places in aggregate.output_columns(self.shape)
        ]
        texts = [self.texts.get(wanted.column or "") for _, wanted in self.spec.aggregates]
        return AggregateResults(self._schema, self.dictionary, len(self.spec.key_names), outputs, texts)

    def release(self, watermark):
        for name, dictionary in self.texts.items():
            if watermark == END_OF_TIME:
                continue
            # Every window that holds ts ended by ts + WS.
            dictionary.horizon = watermark - self.window_size + 1
            if dictionary.size > self._recycle_at[name]:
                dictionary.recycle(dictionary.horizon)
                self._recycle_at[name] = max(_LEAST_RECYCLED, 2 * dictionary.size)

    def private(self, worker):
        words = np.zeros(PRIVATE_WORDS, np.int64)
        words[FREE_WORD] = self.spec.window.size
        words[FREE_WORD + 1] = self.spec.window.advance
        return words

    def state_bytes(self, id_limit):
        return id_limit * self.shape.slots * aggregate.bytes_per_place(self.shape)

    def explain(self, failure, stores, state):
        code = int(failure[membership.FAILURE_CODE])
        ts = int(failure[membership.FAILURE_TS])
        if code == membership.SUM_OVERFLOW:
            sums = [f"{name}={wanted!r}" for name, wanted in self.spec.aggregates if wanted.kind == "sum"]
            return AggregateOverflowError(
                f"{', '.join(sums)}: a sum left the range of int64 at a tuple of event time {ts} or soon after;"
                f" cast the column to float64, or use smaller windows"
            )
        if code == membership.COUNT_OVERFLOW:
            return AggregateOverflowError(
                f"the window that ends at {ts} holds more than 2**32 tuples; use a smaller size="
            )
        if code == distinct.DISTINCT_FULL:
            return OverflowInputError(
                f"count_distinct: the windows open at event time {ts} hold more different values than fit into"
                f" {8 * distinct.ARENA_WORDS >> 30} GiB of addresses; use smaller windows"
            )
        return super().explain(failure, stores, state)


class ForwardProgram(Program):
    """Operator 15."""

    multi_key = False
    load_by_key = False
    latest_is_ready = True
    first_promise = -1

    def __init__(self, node: OperatorNode, spec: ForwardSpec, branches: list[Branch], options: Any):
        self._schema = node.schema

    def carried_of(self, side):
        return self._schema.names

    def text(self):
        return forward.TEXT

    def allocate(self, instances, capacity):
        return (np.zeros(1, np.int64),)

    first_output = 1

    def finisher(self, stores):
        return ForwardResults(self._schema, stores)


def _wide(dtype: np.dtype) -> np.dtype:
    """int64 or float64: what aggregate kernels compute in."""
    if dtype.kind == "f":
        return np.dtype(np.float64)
    if dtype.kind in "iub":
        return np.dtype(np.int64)
    raise UnsupportedTypeError(f"a column of {dtype} cannot be aggregated; cast it to int64 or float64")


def program_of(node: OperatorNode, branches: list[Branch], options: Any) -> Program:
    """Choose the program for an operator of a plan."""
    spec = node.spec
    if isinstance(spec, AggregateSpec):
        return AggregateProgram(node, spec, branches, options)
    if isinstance(spec, ForwardSpec):
        return ForwardProgram(node, spec, branches, options)
    if isinstance(spec, JoinSpec):
        from headrace.engine.join_program import JoinProgram

        return JoinProgram(node, spec, branches, options)
    assert isinstance(spec, ApplySpec)
    from headrace.engine.custom_program import CustomProgram

    return CustomProgram(node, spec, branches, options)


__all__ = ["Program", "program_of"]
