"""The custom operator for the engine: its state, and the explanation of failed calls."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.codegen.functions import explain_failure, translate_error
from headrace.codegen.kinds import Array, Container, cells_of, scalar
from headrace.codegen.text import python_name
from headrace.egress.containers import as_object, holds_text, stride_of
from headrace.elastic import failures, local_days
from headrace.elastic.compiled import Compiled, Exact
from headrace.elastic.custom import custom_kernel
from headrace.elastic.custom.binding import bind, is_time, pasted
from headrace.elastic.custom.results import CustomResults
from headrace.elastic.custom.shape import (
    Column,
    CustomShape,
    Input,
    counts_field,
    node_field,
    out_field,
    state_field,
)
from headrace.elastic.custom.template import allocate_state, bytes_per_place, generate
from headrace.elastic.instance_loop import PRIVATE_WORDS
from headrace.errors import FunctionError, HeadraceError, OverflowInputError
from headrace.ingress.columns import is_text
from headrace.ingress.key_sources import make_dictionary
from headrace.ingress.key_tables import KeyLimitError, id_capacity
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.ingress.sorting import distinct
from headrace.ingress.store import Store
from headrace.memory import stored
from headrace.memory.arena import COUNT, FIRST, used_bytes
from headrace.memory.cells import read_cell, reserved
from headrace.memory.own_words import own_words
from headrace.plan.nodes import Branch, OperatorNode
from headrace.progress import END_OF_TIME
from headrace.references import BUCKETS, row_of, source_of
from headrace.workers import worker_kernel

_MOST_SHOWN = 20
"""Of a container with more elements than this, an error shows only the size."""
_SIZES_HELD = 3
"""For so many window sizes after its last recorded use, a string may still be in the state of a sliding instance: uses are
recorded once per window size, rounded up to advances (`texts_kernel`)."""


class CompiledCustom(Compiled):
    """A custom operator in one run; the node's spec is a `headrace.elastic.specs.ApplySpec`."""

    order_matters = "its functions see one tuple after the other"
    time_field = "boundary"

    def __init__(self, node: OperatorNode, branches: list[Branch], options: Any):
        spec: Any = node.spec
        self.node, self.spec = node, spec
        self._branches = branches
        self.window_size = spec.window.longest
        self.nulls, self.key_names = spec.nulls, spec.key_names
        sides = range(len(spec.keys))
        firsts = [next(b for b in branches if b.side == side) for side in sides]
        self._times = [branch.event_time for branch in firsts]
        schemas = [branch.schema for branch in firsts]
        self._carried = [schema.names for schema in schemas]
        key_types = [kind for key in spec.keys[0] for kind in [key.key_type(schemas[0])] * key.width]
        operator = spec.operator
        self._operator = operator
        self.bound = bind(operator, list(zip(schemas, self._times, strict=True)), key_types, options.debug)
        # For each input: attribute of t -> column, and column -> dtype.
        self._read: list[dict[str, str]] = []
        self._dtypes: list[dict[str, np.dtype]] = []
        for side in sides:
            found = {a: (r.columns[side], r.dtypes[side]) for a, r in self.bound.columns.items()}
            self._read.append({a: column for a, (column, _) in found.items() if column is not None})
            self._dtypes.append({c: np.dtype(dtype) for c, dtype in found.values() if c is not None})
        self.value_columns = max(map(len, self._read))
        literals = self.bound.literals
        self._texts = OrderedTexts(options.max_keys) if literals else None
        self._text_columns: dict[str, OrderedTexts] = {}
        if self._texts is not None:
            self._texts.set_types([pa.string()])
            self._texts.keep(literals)
            named = [(a, column) for read in self._read for a, column in read.items()]
            self._text_columns = {column: self._texts for a, column in named if self.bound.columns[a].kind == "string"}
        self._multi_key = [
            bool(keys) and not (spec.nulls == "error" and all(key.is_single for key in keys))
            for keys in spec.keys
        ]
        is_single = spec.instances == "single"
        slots = 1 if is_single else spec.window.open_at_once
        self.places_per_key = slots
        key_arrays = tuple("float64" if pa.types.is_floating(kind) else "int64" for kind in key_types)
        kinds = [field.kind for field in operator.state.values()]
        if self.bound.stored is not None and not operator.purges:
            kinds += [kind for _, kind in self.bound.stored.columns]
        holds = is_single and any(map(holds_text, kinds))
        self.shape = CustomShape(
            state=tuple((name, field.kind, field.first) for name, field in operator.state.items()),
            emits=tuple(operator.emits.items()),
            inputs=tuple(self._input(side) for side in sides),
            slots=slots,
            is_single=is_single,
            update=pasted(self.bound.update),
            output=pasted(self.bound.output),
            slide=pasted(self.bound.slide),
            key_arrays=key_arrays if self.bound.reads_key else (),
            stored=self.bound.stored,
            purges=operator.purges,
            is_local=spec.window.zone is not None,
            holds_texts=holds,
            has_arena=self.bound.has_arena,
        )
        self._max_state = options.max_state
        self._held_for = self.window_size * (_SIZES_HELD if holds else 1)
        # As for aggregates: operators in one line may share key ids.
        together = options.line_of(node.name)
        self.dictionary = make_dictionary(schemas[0], spec.keys[0], BUCKETS, options.max_keys, together)
        self.id_capacity = BUCKETS if self.dictionary is None else id_capacity(together * options.max_keys)
        self.result_fields = list(self.shape.results)
        self.list_fields = [(out_field(name), counts_field(name)) for name, _ in self.shape.lists]
        self._key_values = [reserved(self.id_capacity + BUCKETS, d) for d in self.shape.key_arrays]
        self._state: Any = None

    def _input(self, side: int) -> Input:
        read = list(self._read[side])
        columns = tuple(
            Column(
                name,
                read.index(name) if name in read else None,
                column.dtypes[side] or "",
                column.kind,
            )
            for name, column in self.bound.columns.items()
        )
        return Input(columns, len(read), self._multi_key[side])

    @property
    def why_collected(self) -> str:
        """It gives lists, or emits from `update` for several windows at once, the earliest of them again at the next tuple."""
        if self.list_fields:
            return "it gives lists"
        if self.shape.emits_on_tuple and self.shape.is_held_back:
            return "its update= emits, and its windows overlap"
        return "its update= emits, and its windows are days of a time zone" if self.ahead and self.shape.is_local else ""

    @property
    def ahead(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What `update` emits carries the end of its window: the first end after the tuple, if windows do not overlap."""
        return self.spec.window.advance if self.shape.emits_on_tuple else 0

    @property
    def order_shows(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What `update` emits is in the order of its input."""
        return "its update= emits, in the order of its input" if self.shape.emits_on_tuple else ""

    @property
    def why_encoded(self) -> str:
        """Strings have ids of its own, and bools are kept in bytes."""
        if self._texts is not None:
            return "its functions use strings"
        bools = [name for name, dtype in self._dtypes[0].items() if dtype == np.uint8]
        return f"its functions read {bools[0]!r}, a bool" if bools else ""

    def exact_results(self) -> dict[str, Exact]:
        """Columns of single numbers, bools and times; those in 64 bits are as kernels read them."""
        kinds = {name: scalar(kind) for name, kind in self.shape.emits}
        known = {name: kind for name, kind in kinds.items() if kind is not None and kind.in_functions != "string"}
        return {name: Exact(out_field(name), is_wide=kind.dtype in ("int64", "float64")) for name, kind in known.items()}

    def keys_of(self, side):
        return self.spec.keys[side]

    def multi_key_of(self, side):
        return self._multi_key[side]

    def values_of(self, side):
        return list(self._read[side].values())

    def texts_of(self, side):
        return self._text_columns

    def carried_of(self, side):
        return self._carried[side]

    def columns_of(self, side):
        return self._dtypes[side]

    def note_keys(self, ids):
        """Write the values of keys where kernels read them.

        An id gets another value only after its last window has been emitted.
        """
        if not self._key_values or self.dictionary is None or not ids.size:
            return
        unique = distinct(ids)
        for array, part in zip(self._key_values, self.dictionary.decode(unique), strict=True):
            if is_text(part.type):
                array[unique] = self._ids_of_keys(part, self.dictionary.last_use(unique))
            else:
                array[unique] = part.cast(pa.from_numpy_dtype(array.dtype)).to_numpy(zero_copy_only=False)

    def _ids_of_keys(self, keys: pa.Array, ts: int) -> np.ndarray:
        """Return the ids of strings that are keys of tuples up to `ts`."""
        texts = self._texts
        assert texts is not None
        with texts.lock:
            try:
                ids = texts.encode(keys)
            except KeyLimitError:
                if not texts.recycle(texts.horizon):
                    raise
                ids = texts.encode(keys)
            texts.touch(ids, np.full(ids.size, ts))
            return ids

    def release(self, watermark):
        texts = self._texts
        if texts is None or watermark == END_OF_TIME:
            return
        # Every window that holds ts ends by ts + WS.
        texts.expire(watermark - self._held_for + 1)

    def text(self):
        return generate(self.shape)

    def allocate(self, instances, capacity):
        sides = [branch.side for branch in self._branches]
        self._state = allocate_state(
            self.shape, sides, self._key_values, self.id_capacity, instances, capacity, self._operator.max_tuples,
            self._max_state, self.spec.window.zone, self._texts, self.bound.literals,
        )  # fmt: skip
        return self._state

    def look_at(self, state: Any) -> None:
        """Use this state to explain failures: an instance may have its own."""
        self._state = state

    def finisher(self, stores):
        return CustomResults(self.node.schema, self.dictionary, len(self.spec.key_names), self.shape, self._texts)

    def private(self, worker):
        words = own_words(PRIVATE_WORDS + len(self.shape.state))
        words[custom_kernel.SIZE] = self.spec.window.size
        words[custom_kernel.ADVANCE] = self.spec.window.advance
        return words

    def state_bytes(self, id_limit):
        places = id_limit * self.shape.slots * bytes_per_place(self.shape)
        if self.shape.stored is None or self._state is None:
            return places
        return places + int(read_cell(self._state.pool, stored.USED)) * self.shape.stored.bytes_per_node

    def arena_bytes(self, state):
        return used_bytes(state.arena_free, state.arena) if self.shape.has_arena else 0

    # -- failures

    def _state_full(self, windows: str) -> OverflowInputError:
        return OverflowInputError(
            f"{self.node.name}: the lists, sets and maps of {windows} take more than"
            f" max_state={self._max_state} bytes; pass a larger max_state=, use smaller windows, or keep less in them"
        )

    def explain(self, failure, stores, state):
        if int(failure[worker_kernel.FAILURE_CODE]) == failures.STATE_FULL:
            return self._state_full(self.windows_text(failure))
        if int(failure[worker_kernel.FAILURE_CODE]) == failures.STORED_FULL:
            return OverflowInputError(
                f"{self.node.name}: {self.windows_text(failure)} keep more than"
                f" max_tuples={self._operator.max_tuples} tuples; pass operator() a larger max_tuples=, use smaller"
                f" windows, or sum them up in update="
            )
        return super().explain(failure, stores, state)

    def explain_compile_error(self, error: BaseException, module: ModuleType) -> HeadraceError | None:
        """Explain in the user's terms why the kernels do not compile."""
        return translate_error(error, self.bound.functions, module)

    def explain_exception(
        self, error: BaseException, words: np.ndarray, stores: list[Store]
    ) -> HeadraceError | None:
        """Explain a user function's exception by calling it again in plain Python, on the state it found."""
        stage = int(words[custom_kernel.STAGE])
        if stage == 0:
            return None
        key_id, boundary = (int(words[at]) for at in (custom_kernel.CAUSE_KEY, custom_kernel.CAUSE_BOUNDARY))
        if isinstance(error, MemoryError) and self.shape.has_arena:
            is_update = stage == custom_kernel.UPDATE
            ts = self._row_of(int(words[custom_kernel.CAUSE_REF]), stores)["ts"] if is_update else boundary
            return self._state_full(f"the windows open at event time {self.time_text(ts)}")
        operator, emits = self._operator, list(self.shape.emits)
        values: dict[str, Any] = {"state": self._state_before(words, stage, key_id, boundary)}
        key = self._key_of(key_id)
        if stage == custom_kernel.UPDATE:
            row = self._row_of(int(words[custom_kernel.CAUSE_REF]), stores)
            values["t"] = row
            function, roles = operator.update, operator.update_arguments
        elif stage == custom_kernel.OUTPUT:
            function, roles = operator.output, ("key", "state", "emit")
        else:
            function, roles = operator.slide, ("key", "state", "left")
            left, zone = (self._window_before(boundary) + 1) * self.spec.window.advance, self.spec.window.zone
            values["left"] = left if zone is None else local_days.start_of(zone, left)
        values["key"] = key
        explained = explain_failure(function, roles, values, [name for name, _ in emits], error)
        is_timestamp = pa.types.is_timestamp(self.node.schema.field(0).type)
        if stage == custom_kernel.UPDATE:
            if is_timestamp:
                time = python_name(self._times[values["t"]["input"]])
                explained.times = dict.fromkeys((time, "ts"), self.time_text(values["t"]["ts"]))
            return explained
        # At expiry there is no tuple to show: the error shows the window instance.
        found = {name: _shown(value) for name, value in values["state"].items() if name != "tuples"}
        if self.shape.stored is not None:
            found["tuples"] = f"{len(values['state']['tuples'])} of them"
        window = {"ts": boundary, "key": key, **{f"state.{n}": v for n, v in found.items()}}
        error = FunctionError(explained.args[0], explained.function, explained.file, explained.line, window)
        error.times = {"ts": self.time_text(boundary)} if is_timestamp else {}
        return error

    def _window_before(self, boundary: int) -> int:
        """The number of the window that ends at this time."""
        window = self.spec.window
        units = boundary if window.zone is None else local_days.day_of(window.zone, boundary)
        return (units - window.size) // window.advance

    def _state_before(self, words: np.ndarray, stage: int, key_id: int, boundary: int) -> dict[str, Any]:
        """The state fields as they were before the failed call, which may have changed some of them."""
        shape = self.shape
        window = self._window_before(boundary)
        place = key_id if shape.is_single else key_id * shape.slots + window % shape.slots
        functions = {custom_kernel.UPDATE: shape.update, custom_kernel.OUTPUT: shape.output}
        function = functions.get(stage, shape.slide)
        assert function is not None
        first = custom_kernel.SNAPSHOT
        fields: dict[str, Any] = {} if shape.stored is None else {"tuples": self._tuples_at(place)}
        for i, (name, kind, _) in enumerate(shape.state):
            if not isinstance(kind, str):
                saved = int(words[first + i]) if name in function.saves else None
                fields[name] = self._container_at(name, kind, place, saved)
                continue
            if name in function.saves:
                value = words.view(np.float64)[first + i] if kind.startswith("float") else words[first + i]
            else:
                value = getattr(self._state, state_field(name))[place]
            fields[name] = self._as_python(value, kind)
        return fields

    def _container_at(self, name: str, kind: Container, place: int, count: int | None) -> Any:
        """A container of a window instance as plain Python, without elements that the failed call added after the first `count`.

        Other changes that the call made in it before it failed remain.
        """
        cells = cells_of(kind)
        field = getattr(self._state, state_field(name))[place * cells : (place + 1) * cells]
        if isinstance(kind, Array):
            return as_object(field, kind, self._texts)
        held = int(field[COUNT]) if count is None else min(int(field[COUNT]), count)
        start = int(field[FIRST])
        return as_object(self._state.arena[start : start + held * stride_of(kind)], kind, self._texts)

    def _as_python(self, value: Any, kind: str) -> Any:
        """Convert a value from the kernels' form to what functions see."""
        if kind == "string":
            assert self._texts is not None
            (strings,) = self._texts.decode(np.array([value], np.int32))
            return strings[0].as_py()
        return bool(value) if kind == "bool" else value.item()

    def _tuples_at(self, place: int) -> list[SimpleNamespace]:
        """The kept tuples of a window instance, with the columns that functions read."""
        kept = self.shape.stored
        assert kept is not None
        state = self._state
        tuples = []
        node = int(state.list_first[place])
        while node != 0:
            part = {name: getattr(state, node_field(name))[node] for name, _ in kept.arrays()}
            values: dict[str, Any] = {"input": int(part["input"]) if kept.with_input else 0}
            for name, kind in kept.columns:
                values[name] = None if part[f"n_{name}"] == 0 else self._as_python(part[f"c_{name}"], kind)
            ts = int(part["ts"])
            tuples.append(SimpleNamespace(**values | dict.fromkeys(map(python_name, self._times), ts) | {"ts": ts}))
            node = int(state.following[node])
        return tuples

    def _key_of(self, key_id: int) -> Any:
        if self.dictionary is None:
            return ()
        decoded = self.dictionary.decode(np.array([key_id], np.int32))
        parts = [(part.view(pa.int64()) if is_time(part.type) else part)[0].as_py() for part in decoded]
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _row_of(self, ref: int, stores: list[Store]) -> dict[str, Any]:
        """The whole tuple as Python values, with times as functions see them."""
        source, row = source_of(ref), row_of(ref)
        # Where another operator passes its results on, each of its instances is a source of the only input.
        side = self._branches[min(source, len(self._branches) - 1)].side
        values: dict[str, Any] = {}
        for name, column in self._read[side].items():
            found, valid = stores[source].column(column, np.array([row]))
            missing = valid is not None and valid[0] == 0
            values[name] = None if missing else self._as_python(found[0], self.bound.columns[name].kind)
        whole: dict[str, Any] = {}
        for first, _, batch in list(stores[source].payload):
            if first <= row < first + batch.num_rows:
                whole = batch.slice(row - first, 1).to_pylist()[0]
        ts = stores[source].ts_of(row)
        absent = dict.fromkeys(self.bound.columns)
        return {"input": side} | absent | whole | values | {python_name(self._times[side]): ts, "ts": ts}


def _shown(value: Any) -> Any:
    """A state value for an error message; of a large container only the size, as it may have millions of elements."""
    return f"{len(value)} of them" if isinstance(value, list | set | dict) and len(value) > _MOST_SHOWN else value
