"""The custom operator for the engine: what its functions read, its state, and why a call failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.codegen.bindings import widened
from headrace.codegen.functions import (
    FieldBinding,
    GeneratedFunction,
    ListBinding,
    Unreadable,
    explain_failure,
    specialise,
    translate_error,
)
from headrace.codegen.text import attributes, python_name
from headrace.egress.finishers import CustomResults
from headrace.engine.programs import FREE_WORD, PRIVATE_WORDS, Program
from headrace.errors import FunctionError, HeadraceError, OverflowInputError
from headrace.functions import CustomOperator
from headrace.gates.merged_log_kernel import ROW_MASK, SOURCE_SHIFT
from headrace.gates.store import CHUNK_SHIFT, Store
from headrace.ingress.columns import is_scalar, is_text, value_dtype
from headrace.ingress.encode import make_dictionary
from headrace.ingress.keys import id_capacity
from headrace.memory.cells import reserved
from headrace.operators import custom, custom_shape, membership, stored
from headrace.operators.custom_shape import Column, CustomShape, Function, Input, Stored
from headrace.query import ApplySpec, Branch, OperatorNode

_KERNEL_WORDS = tuple(custom.CALL.split(", "))

Inputs = Sequence[tuple[pa.Schema, str]]


# ------------------------------------------------------------------ binding


@dataclass(frozen=True)
class _Readable:
    """A column as the functions may see it, over all inputs."""

    kind: str
    columns: tuple[str | None, ...]
    """What each input calls it; None where it lacks it."""
    dtypes: tuple[str | None, ...]
    """As each input's store holds it."""


@dataclass(frozen=True)
class Bound:
    """The user's functions, rewritten for the kernels of one operator."""

    update: GeneratedFunction | None
    output: GeneratedFunction | None
    slide: GeneratedFunction | None
    columns: dict[str, _Readable]
    """What `update` reads, or `output` of kept tuples."""
    reads_key: bool
    stored: Stored | None

    @property
    def functions(self) -> list[GeneratedFunction]:
        return [f for f in (self.update, self.output, self.slide) if f is not None]


def bind(operator: CustomOperator, inputs: Inputs, key_types: Sequence[pa.DataType], debug: bool = False) -> Bound:
    """Rewrite the functions of an operator, once for each kind of input.

    Parameters
    ----------
    operator : CustomOperator
    inputs : sequence of (schema, event time column)
    key_types : sequence of pa.DataType
    debug : bool
        As in `start`.

    Raises
    ------
    FunctionError
        With the line of what cannot be compiled.
    """
    place = (tuple(inputs), tuple(key_types), debug)
    if place not in operator.bound:
        operator.bound[place] = _rewritten(operator, inputs, key_types, debug)
    return operator.bound[place]


def _rewritten(operator: CustomOperator, inputs: Inputs, key_types: Sequence[pa.DataType], debug: bool) -> Bound:
    state: dict[str, FieldBinding | ListBinding] = {
        name: FieldBinding(
            f"s.f{place}[p] != 0"
            if operator.state[name].kind == "bool"
            else widened(f"s.f{place}[p]", operator.state[name].kind),
            f"s.f{place}[p]",
            operator.state[name].kind,
        )
        for name, place in zip(operator.state, range(custom_shape.FIRST_FIELD, 1000), strict=False)
    }
    options: dict[str, Any] = {"poll": "stopped(c)", "emits": operator.emits, "emit": custom.EMIT, "debug": debug}
    readable, fields = _fields(inputs)

    def update_of(names: Sequence[str]) -> GeneratedFunction:
        values = [f"{part}_{name}" for name in names for part in ("c", "n")]
        assert operator.update is not None
        return specialise(
            operator.update,
            name="user_update",
            arguments=("state", "t", "emit"),
            bindings={"state": state, "t": fields},
            parameters=(*_KERNEL_WORDS, "ts", "source_input", *values),
            **options,
        )

    def output_of(kept: Stored | None) -> GeneratedFunction:
        known = state if kept is None else {"tuples": _kept_tuples(kept, fields)}
        assert operator.output is not None
        return specialise(
            operator.output,
            name="user_output",
            arguments=("key", "state", "emit"),
            bindings={"key": _key_binding(key_types, first_key), "state": known},
            parameters=_KERNEL_WORDS,
            **options,
        )

    update = output = slide = kept = None
    names: list[str] = []
    first_key = custom_shape.FIRST_FIELD + len(operator.state)
    # What a function reads is known once it is rewritten; the second time only that is passed, or kept.
    if operator.update is not None:
        read = update_of(list(readable)).reads.get("t", ())
        names = [name for name in readable if name in read]
        update = update_of(names)
    elif operator.keeps_tuples:
        every = Stored(tuple((name, column.kind) for name, column in readable.items()), len(inputs) > 1)
        read = output_of(every).reads
        if "tuples" in read:
            names = [name for name in readable if name in read["tuples"]]
            kept = Stored(tuple((name, readable[name].kind) for name in names), len(inputs) > 1)
            first_key = custom_shape.FIRST_OF_NODE + len(kept.arrays())
    if operator.output is not None:
        output = output_of(kept)
    if operator.slide is not None:
        slide = specialise(
            operator.slide,
            name="user_slide",
            arguments=("key", "state", "left"),
            bindings={"key": _key_binding(key_types, first_key), "state": state, "left": "left"},
            parameters=(*_KERNEL_WORDS, "left"),
            poll="stopped(c)",
            debug=debug,
        )
    reads_key = any(f is not None and f"s.f{first_key}[key]" in f.source for f in (output, slide))
    return Bound(update, output, slide, {name: readable[name] for name in names}, reads_key, kept)


def _kept_tuples(kept: Stored, fields: dict[str, FieldBinding | Unreadable]) -> ListBinding:
    """`state.tuples`: what ``t`` has in `update`, read from the nodes."""
    places = custom_shape.node_places(kept)
    source = f"s.f{places['input']}[{{node}}]" if kept.with_input else "0"
    here: dict[str, FieldBinding | Unreadable] = {}
    for name, field in fields.items():
        if isinstance(field, Unreadable):
            here[name] = field
        elif field.read == "ts":
            here[name] = FieldBinding(f"s.f{places['ts']}[{{node}}]")
        elif field.read == "source_input":
            here[name] = FieldBinding(source)
        elif name in dict(kept.columns):
            value = f"s.f{places[f'c_{name}']}[{{node}}]"
            if dict(kept.columns)[name] == "bool":
                value = f"({value} != 0)"
            here[name] = FieldBinding(value, valid=f"s.f{places[f'n_{name}']}[{{node}}] != 0")
    first, _, count = (f"s.f{custom_shape.FIRST_FIELD + i}[p]" for i in range(len(custom_shape.LIST)))
    return ListBinding("tuples", first, f"s.f{custom_shape.FOLLOWING}[{{node}}]", count, here)


def _key_binding(types: Sequence[pa.DataType], first: int) -> str | Unreadable:
    if not types:
        return Unreadable("the stream has no key: add key_by() before the window")
    parts = []
    for i, kind in enumerate(types):
        if pa.types.is_boolean(kind):
            parts.append(f"(s.f{first + i}[key] != 0)")
        elif is_scalar(kind):
            parts.append(f"s.f{first + i}[key]")
        else:
            return Unreadable(
                f"a key of type {kind} cannot be read by a compiled function; every result has the key columns,"
                " so leave it out"
            )
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _fields(inputs: Inputs) -> tuple[dict[str, _Readable], dict[str, FieldBinding | Unreadable]]:
    """What ``t`` has: columns that may be read, and the binding of every name."""
    readable: dict[str, _Readable] = {}
    fields: dict[str, FieldBinding | Unreadable] = {"input": FieldBinding("source_input")}
    of_inputs = [attributes(schema.names) for schema, _ in inputs]
    for name in dict.fromkeys(name for named in of_inputs for name in named):
        columns = tuple(named.get(name) for named in of_inputs)
        kinds = [None if c is None else schema.field(c).type for (schema, _), c in zip(inputs, columns, strict=True)]
        present = [kind for kind in kinds if kind is not None]
        is_time = {c == time for (_, time), c in zip(inputs, columns, strict=True) if c is not None}
        if is_time == {True}:
            fields[name] = FieldBinding("ts")
            continue
        if True in is_time:
            fields[name] = Unreadable("it is the event time of one input and a column of another; use t.ts")
            continue
        reason = next((r for r in map(_unreadable, present) if r is not None), None)
        if reason is not None:
            fields[name] = Unreadable(reason)
            continue
        dtypes = tuple(None if kind is None else value_dtype(kind).name for kind in kinds)
        known = {dtype for dtype in dtypes if dtype is not None}
        kind = "float64" if "float64" in known else "int64" if "int64" in known else "bool"
        readable[name] = _Readable(kind, columns, dtypes)
        fields[name] = FieldBinding(f"c_{name}", valid=f"n_{name}")
    fields["ts"] = FieldBinding("ts")
    readable.pop("ts", None)
    if "input" in readable:
        fields["input"] = FieldBinding("c_input", valid="n_input")
    return readable, fields


def _is_time(kind: pa.DataType) -> bool:
    """Whether functions see it as an integer of its unit."""
    return pa.types.is_timestamp(kind) or pa.types.is_duration(kind)


def _unreadable(kind: pa.DataType) -> str | None:
    """Why a function cannot read such a column; None if it can."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if is_scalar(plain):
        return None
    if is_text(plain):
        return (
            "a string column, which a compiled function cannot read; compute a number from it before, as in"
            " .select(..., chars=hr.col(...).length())"
        )
    return (
        f"a column of type {kind}, which a compiled function cannot read; cast it to int64 or float64 before"
    )


# ------------------------------------------------------------------ program


class CustomProgram(Program):
    """One custom operator of one run."""

    def __init__(self, node: OperatorNode, spec: ApplySpec, branches: list[Branch], options: Any):
        self.node, self.spec = node, spec
        self._branches = branches
        self.window_size = spec.window.size
        self.nulls = spec.nulls
        sides = range(len(spec.keys))
        firsts = [next(b for b in branches if b.side == side) for side in sides]
        self._times = [branch.event_time for branch in firsts]
        schemas = [branch.schema for branch in firsts]
        self._carried = [schema.names for schema in schemas]
        key_types = [kind for key in spec.keys[0] for kind in [key.key_type(schemas[0])] * key.width]
        operator = spec.operator
        self._operator = operator
        self.bound = bind(operator, list(zip(schemas, self._times, strict=True)), key_types, options.debug)
        # Attribute of t -> column, and what its values are.
        self._read: list[dict[str, str]] = []
        self._dtypes: list[dict[str, np.dtype]] = []
        for side in sides:
            found = {a: (r.columns[side], r.dtypes[side]) for a, r in self.bound.columns.items()}
            self._read.append({a: column for a, (column, _) in found.items() if column is not None})
            self._dtypes.append({c: np.dtype(dtype) for c, dtype in found.values() if c is not None})
        self.value_columns = max(map(len, self._read))
        self._multi_key = [
            bool(keys) and not (spec.nulls == "error" and all(key.is_single for key in keys))
            for keys in spec.keys
        ]
        is_single = spec.instances == "single"
        slots = 1 if is_single else spec.window.open_at_once
        self.places_per_key = slots
        key_arrays = tuple("float64" if pa.types.is_floating(kind) else "int64" for kind in key_types)
        self.shape = CustomShape(
            state=tuple((name, field.kind, field.first) for name, field in operator.state.items())
            if self.bound.stored is None
            else custom_shape.LIST,
            emits=tuple(operator.emits.items()),
            inputs=tuple(self._input(side) for side in sides),
            slots=slots,
            is_single=is_single,
            update=_pasted(self.bound.update),
            output=_pasted(self.bound.output),
            slide=_pasted(self.bound.slide),
            key_arrays=key_arrays if self.bound.reads_key else (),
            stored=self.bound.stored,
        )
        self.dictionary = make_dictionary(schemas[0], spec.keys[0], membership.BUCKETS, options.max_keys)
        self.id_capacity = membership.BUCKETS if self.dictionary is None else id_capacity(options.max_keys)
        self._key_values = [reserved(self.id_capacity + membership.BUCKETS, d) for d in self.shape.key_arrays]
        self.first_output = custom_shape.first_output(self.shape)
        self._state: tuple[np.ndarray, ...] = ()

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

    def keys_of(self, side):
        return self.spec.keys[side]

    def multi_key_of(self, side):
        return self._multi_key[side]

    def values_of(self, side):
        return list(self._read[side].values())

    def carried_of(self, side):
        return self._carried[side]

    def columns_of(self, side):
        return self._dtypes[side]

    def note_keys(self, ids):
        """Write the values of keys where kernels read them.

        An id gets another value only after its last window has been emitted.
        """
        if self._key_values and self.dictionary is not None:
            unique = np.unique(ids)
            for array, part in zip(self._key_values, self.dictionary.decode(unique), strict=True):
                array[unique] = part.cast(pa.from_numpy_dtype(array.dtype)).to_numpy(zero_copy_only=False)

    def text(self):
        return custom.generate(self.shape)

    def allocate(self, instances, capacity):
        sides = [branch.side for branch in self._branches]
        self._state = custom.allocate_state(
            self.shape, sides, self._key_values, self.id_capacity, instances, capacity, self._operator.max_tuples
        )
        return self._state

    def look_at(self, state: tuple[np.ndarray, ...]) -> None:
        """Explain failures from this state: an instance may have its own."""
        self._state = state

    def finisher(self, stores):
        return CustomResults(self.node.schema, self.dictionary, len(self.spec.key_names))

    def private(self, worker):
        words = np.zeros(PRIVATE_WORDS + len(self.shape.state), np.int64)
        words[FREE_WORD + custom.SIZE] = self.spec.window.size
        words[FREE_WORD + custom.ADVANCE] = self.spec.window.advance
        return words

    def scratch(self):
        return np.zeros(1, np.int32)

    def state_bytes(self, id_limit):
        places = id_limit * self.shape.slots * custom.bytes_per_place(self.shape)
        if self.shape.stored is None or not self._state:
            return places
        return places + int(self._state[custom_shape.POOL][stored.USED]) * self.shape.stored.bytes_per_node

    # -- failures

    def explain(self, failure, stores, state):
        if int(failure[membership.FAILURE_CODE]) == stored.STORED_FULL:
            return OverflowInputError(
                f"{self.node.name}: the windows open at event time {int(failure[membership.FAILURE_TS])} keep more"
                f" than max_tuples={self._operator.max_tuples} tuples; pass operator(..., max_tuples=) a larger one,"
                f" use smaller windows, or sum them up in update="
            )
        return super().explain(failure, stores, state)

    def explain_compile_error(self, error: BaseException, module: ModuleType) -> HeadraceError | None:
        """Say in the user's words why the kernels do not compile."""
        return translate_error(error, self.bound.functions, module)

    def explain_exception(
        self, error: BaseException, words: np.ndarray, stores: list[Store]
    ) -> HeadraceError | None:
        """A user function raised: call it again in plain Python, on the state it found."""
        stage = int(words[FREE_WORD + custom.STAGE])
        if stage == 0:
            return None
        key_id, boundary = (int(words[FREE_WORD + at]) for at in (custom.CAUSE_KEY, custom.CAUSE_BOUNDARY))
        operator, emits = self._operator, list(self.shape.emits)
        values: dict[str, Any] = {"state": self._state_before(words, stage, key_id, boundary)}
        key = self._key_of(key_id)
        if stage == custom.UPDATE:
            row = self._row_of(int(words[FREE_WORD + custom.CAUSE_REF]), stores)
            values["t"] = row
            function, roles = operator.update, ("state", "t", "emit")
        elif stage == custom.OUTPUT:
            function, roles = operator.output, ("key", "state", "emit")
        else:
            function, roles = operator.slide, ("key", "state", "left")
            values["left"] = boundary - self.spec.window.size + self.spec.window.advance
        values["key"] = key
        explained = explain_failure(function, roles, values, [name for name, _ in emits], error)
        if stage == custom.UPDATE:
            return explained
        # There is no tuple at expiry: the window instance is what it failed on.
        found = values["state"]
        if self.shape.stored is not None:
            found = {"tuples": f"{len(found['tuples'])} of them"}  # there may be millions
        window = {"ts": boundary, "key": key, **{f"state.{n}": v for n, v in found.items()}}
        return FunctionError(explained.args[0], explained.function, explained.file, explained.line, window)

    def _state_before(self, words: np.ndarray, stage: int, key_id: int, boundary: int) -> dict[str, Any]:
        """The fields as the failed call found them: it may have changed some before it failed."""
        shape = self.shape
        window = (boundary - self.spec.window.size) // self.spec.window.advance
        place = key_id if shape.is_single else key_id * shape.slots + window % shape.slots
        if shape.stored is not None:
            return {"tuples": self._tuples_at(place)}
        function = {custom.UPDATE: shape.update, custom.OUTPUT: shape.output, custom.SLIDE: shape.slide}[
            stage
        ]
        assert function is not None
        first = FREE_WORD + custom.SNAPSHOT
        fields = {}
        for i, (name, kind, _) in enumerate(shape.state):
            if name in function.saves:
                value = words.view(np.float64)[first + i] if kind.startswith("float") else words[first + i]
            else:
                value = self._state[custom_shape.FIRST_FIELD + i][place]
            fields[name] = bool(value) if kind == "bool" else value.item()
        return fields

    def _tuples_at(self, place: int) -> list[SimpleNamespace]:
        """The tuples of a window instance, with what the function reads of them."""
        kept = self.shape.stored
        assert kept is not None
        state, places = self._state, custom_shape.node_places(kept)
        tuples = []
        node = int(state[custom_shape.FIRST_FIELD][place])
        while node != 0:
            ts = int(state[places["ts"]][node])
            values: dict[str, Any] = {"input": int(state[places["input"]][node]) if kept.with_input else 0}
            for name, kind in kept.columns:
                value = state[places[f"c_{name}"]][node]
                values[name] = bool(value) if kind == "bool" else value.item()
                if state[places[f"n_{name}"]][node] == 0:
                    values[name] = None
            tuples.append(SimpleNamespace(**values | dict.fromkeys(map(python_name, self._times), ts) | {"ts": ts}))
            node = int(state[custom_shape.FOLLOWING][node])
        return tuples

    def _key_of(self, key_id: int) -> Any:
        if self.dictionary is None:
            return ()
        decoded = self.dictionary.decode(np.array([key_id], np.int32))
        parts = [(part.view(pa.int64()) if _is_time(part.type) else part)[0].as_py() for part in decoded]
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _row_of(self, ref: int, stores: list[Store]) -> dict[str, Any]:
        """The whole tuple, as Python values, times as the function sees them."""
        source, row = ref >> SOURCE_SHIFT, ref & ROW_MASK
        side = self._branches[source].side
        values: dict[str, Any] = {}
        for name, column in self._read[side].items():
            found, valid = stores[source].column(column, np.array([row]))
            missing = valid is not None and valid[0] == 0
            kind = self.bound.columns[name].kind
            values[name] = None if missing else bool(found[0]) if kind == "bool" else found[0].item()
        whole: dict[str, Any] = {}
        for first, _, batch in list(stores[source].payload):
            if first <= row < first + batch.num_rows:
                whole = batch.slice(row - first, 1).to_pylist()[0]
        chunk = stores[source].chunks[row >> CHUNK_SHIFT]
        ts = int(chunk.ts[row & (chunk.ts.size - 1)])
        absent = dict.fromkeys(self.bound.columns)
        return {"input": side} | absent | whole | values | {python_name(self._times[side]): ts, "ts": ts}


def _pasted(generated: GeneratedFunction | None) -> Function | None:
    """What the template needs to know of a rewritten function."""
    if generated is None:
        return None
    saves = generated.writes.get("state", ()) if generated.may_raise else ()
    return Function(generated.preamble + generated.source, "emit_row(" in generated.source, tuple(saves))
