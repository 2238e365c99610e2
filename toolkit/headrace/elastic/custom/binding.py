"""Bind the names that a custom operator's functions read and write to those of the kernels, and rewrite the functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.codegen.bindings import (
    Binding,
    ContainerBinding,
    event_time_binding,
    memory_of_workers,
    texts_in,
    unnamed,
    widened,
)
from headrace.codegen.functions import (
    FieldBinding,
    GeneratedFunction,
    ListBinding,
    Unreadable,
    specialise,
)
from headrace.codegen.kinds import Array, Kind, cannot_read
from headrace.codegen.text import attributes
from headrace.egress.containers import holds_text
from headrace.elastic.custom.operator import CustomOperator
from headrace.elastic.custom.shape import (
    LIST_FIELDS,
    Function,
    Stored,
    key_field,
    node_field,
    state_field,
)
from headrace.elastic.custom.template import CALL, EMIT, OWN, OWNER, STAGE, place_of
from headrace.ingress.columns import is_scalar, is_text, plain_type, value_dtype

_KERNEL_WORDS = tuple(CALL.split(", "))

_MEMORY = memory_of_workers(OWN, staged=STAGE)

_NO_TUPLES = Unreadable(
    "windows keep no tuples beside state= or update=, unless they are to: give hr.operator(..., keep_tuples=True)", is_absent=True
)

Inputs = Sequence[tuple[pa.Schema, str]]


@dataclass(frozen=True)
class _Readable:
    """A column that the functions may read, over all inputs."""

    kind: str
    columns: tuple[str | None, ...]
    """Its name in each input; None where an input lacks it."""
    dtypes: tuple[str | None, ...]
    """Its dtype in each input's store; None where an input lacks it."""


@dataclass(frozen=True)
class Bound:
    """The user's functions, rewritten for the kernels of one operator."""

    update: GeneratedFunction | None
    output: GeneratedFunction | None
    slide: GeneratedFunction | None
    columns: dict[str, _Readable]
    """The columns that `update` reads of its tuple, or any function of kept tuples."""
    reads_key: bool
    stored: Stored | None
    literals: tuple[str, ...]
    """String literals of the functions, `NO_TEXT` first; none where nothing is a string."""
    has_arena: bool
    """The state has containers, or the functions make some."""

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
        Something cannot be compiled; the error names the line.
    """
    place = (tuple(inputs), tuple(key_types), debug)
    if place not in operator.bound:
        operator.bound[place] = _rewritten(operator, inputs, key_types, debug)
    return operator.bound[place]


def _rewritten(operator: CustomOperator, inputs: Inputs, key_types: Sequence[pa.DataType], debug: bool) -> Bound:
    state: dict[str, Binding] = {
        name: _field_binding(name, field.kind) for name, field in operator.state.items()
    }
    texts = texts_in("s")
    options: dict[str, Any] = {"poll": "stopped(c)", "debug": debug, "texts": texts, "memory": _MEMORY}
    emits: dict[str, Any] = {"emits": operator.emits, "emit": EMIT}
    readable, fields = _fields(inputs)
    key_kinds = _key_kinds(key_types)
    every = Stored(tuple((name, column.kind) for name, column in readable.items()), len(inputs) > 1)

    # A function that uses containers is too large for LLVM to inline into its only caller unasked. The call, which
    # passes the operator's whole state, would cost more than the function itself.
    grows = any(not isinstance(field.kind, str | Array) for field in operator.state.values())

    def known(kept: Stored | None) -> dict[str, Binding]:
        if not operator.keeps_tuples:
            return {"tuples": _NO_TUPLES, **state}
        return state if kept is None else {**state, "tuples": _kept_tuples(kept, fields)}

    def update_of(names: Sequence[str], kept: Stored | None) -> GeneratedFunction:
        values = [f"{part}_{name}" for name in names for part in ("c", "n")]
        assert operator.update is not None
        key = {"key": _key_binding(key_types)} if "key" in operator.update_arguments else {}
        return specialise(
            operator.update,
            name="user_update",
            arguments=operator.update_arguments,
            bindings={**key, "state": known(kept), "t": fields},
            kinds=key_kinds if key else {},
            parameters=(*_KERNEL_WORDS, "ts", "source_input", *values),
            decorator="compiled_user_within" if grows else "compiled_user",
            **emits,
            **options,
        )

    def output_of(kept: Stored | None) -> GeneratedFunction:
        assert operator.output is not None
        return specialise(
            operator.output,
            name="user_output",
            arguments=("key", "state", "emit"),
            bindings={"key": _key_binding(key_types), "state": known(kept)},
            kinds=key_kinds,
            parameters=_KERNEL_WORDS,
            **emits,
            **options,
        )

    def slide_of(kept: Stored | None) -> GeneratedFunction:
        assert operator.slide is not None
        return specialise(
            operator.slide,
            name="user_slide",
            arguments=("key", "state", "left"),
            bindings={"key": _key_binding(key_types), "state": known(kept), "left": "left"},
            kinds=key_kinds,
            parameters=(*_KERNEL_WORDS, "left"),
            **options,
        )

    # What the functions read is known only after a first rewriting; the second one passes and keeps only that.
    tried = every if operator.keeps_tuples else None
    first = [] if operator.update is None else [update_of(list(readable), tried)]
    first += [] if tried is None or operator.output is None else [output_of(tried)]
    first += [] if tried is None or operator.slide is None else [slide_of(tried)]
    read = {role: {name for f in first for name in f.reads.get(role, ())} for role in ("t", "tuples")}
    kept = None
    if any("tuples" in f.reads for f in first):
        kept = Stored(tuple((name, readable[name].kind) for name in readable if name in read["tuples"]), len(inputs) > 1)
    names = [name for name in readable if name in read["t"] | read["tuples"]]
    update = None if operator.update is None else update_of(names, kept)
    output = None if operator.output is None else output_of(kept)
    slide = None if operator.slide is None else slide_of(kept)
    reads_key = any(f is not None and f"s.{key_field(0)}[key]" in f.source for f in (update, output, slide))
    columns = {name: readable[name] for name in names}
    kinds = [*(c.kind for c in columns.values()), *(f.kind for f in operator.state.values()), *operator.emits.values()]
    has_texts = len(texts.literals) > 1 or (reads_key and bool(key_kinds)) or any(map(holds_text, kinds))
    literals = tuple(texts.literals) if has_texts else ()
    written = [f.source for f in (update, output, slide) if f is not None]
    has_arena = grows or any(_MEMORY.arena in text or _MEMORY.temporaries in text for text in written)
    return Bound(update, output, slide, columns, reads_key, kept, literals, has_arena)


def _field_binding(name: str, kind: Kind) -> FieldBinding | ContainerBinding:
    """The binding of a state field of the window instance at place `p`."""
    if not isinstance(kind, str):
        return ContainerBinding(kind, f"s.{state_field(name)}", place_of(kind), OWNER)
    cell = f"s.{state_field(name)}[p]"
    return FieldBinding(f"{cell} != 0" if kind == "bool" else widened(cell, kind), cell, kind)


def _kept_tuples(kept: Stored, fields: dict[str, FieldBinding | Unreadable]) -> ListBinding:
    """The binding of `state.tuples`: tuples with the names that ``t`` has in `update`, read from the nodes."""

    def cell(name: str) -> str:
        return f"s.{node_field(name)}[{{node}}]"

    here: dict[str, FieldBinding | Unreadable] = {}
    for name, field in fields.items():
        if isinstance(field, Unreadable):
            here[name] = field
        elif field.read == "ts":
            here[name] = FieldBinding(cell("ts"))
        elif field.read == "source_input":
            here[name] = FieldBinding(cell("input") if kept.with_input else "0")
        elif name in dict(kept.columns):
            value = cell(f"c_{name}")
            if dict(kept.columns)[name] == "bool":
                value = f"({value} != 0)"
            here[name] = FieldBinding(value, kind=field.kind, valid=f"{cell(f'n_{name}')} != 0")
    first, _, count = (f"s.{name}[p]" for name in LIST_FIELDS)
    drop, give = "drop_node(s, p, {before}, {node}, {dropped})", "give_chain(s.below, s.pool, {dropped})"
    return ListBinding("tuples", first, "s.following[{node}]", count, drop, give, here)


def _key_binding(types: Sequence[pa.DataType]) -> str | Unreadable:
    if not types:
        return Unreadable("the stream has no key: add key_by() before the window")
    parts = []
    for i, kind in enumerate(types):
        if pa.types.is_boolean(kind):
            parts.append(f"(s.{key_field(i)}[key] != 0)")
        elif is_scalar(kind) or is_text(kind):
            parts.append(f"s.{key_field(i)}[key]")
        else:
            return Unreadable(
                f"a key of type {kind} cannot be read by a compiled function; every result has the key columns,"
                " so leave it out"
            )
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _key_kinds(types: Sequence[pa.DataType]) -> dict[str, Any]:
    """The kind of ``key``, or of each part of it, as functions see it; empty unless a part is a string."""
    kinds = tuple("string" if is_text(kind) else "number" for kind in types)
    if "string" not in kinds:
        return {}
    return {"key": kinds[0] if len(kinds) == 1 else kinds}


def _fields(inputs: Inputs) -> tuple[dict[str, _Readable], dict[str, FieldBinding | Unreadable]]:
    """The names that ``t`` has: the columns that may be read, and the binding of every name."""
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
        texts = [is_text(plain_type(kind)) for kind in present]
        if reason is None and any(texts) and not all(texts):
            reason = "a string column of one input and a number of another; rename one of them before"
        if reason is not None:
            fields[name] = Unreadable(reason)
            continue
        if all(texts):
            readable[name] = _Readable("string", columns, tuple(None if kind is None else "int64" for kind in kinds))
            fields[name] = FieldBinding(f"c_{name}", kind="string", valid=f"n_{name}")
            continue
        dtypes = tuple(None if kind is None else value_dtype(kind).name for kind in kinds)
        known = {dtype for dtype in dtypes if dtype is not None}
        kind = "float64" if "float64" in known else "int64" if "int64" in known else "bool"
        readable[name] = _Readable(kind, columns, dtypes)
        fields[name] = FieldBinding(f"c_{name}", valid=f"n_{name}")
    for schema, time in inputs:
        fields |= unnamed(schema.names, time)
    fields["ts"] = event_time_binding(*((schema.names, time) for schema, time in inputs))
    readable.pop("ts", None)
    if len(inputs) > 1 and readable.pop("input", None) is not None:
        what = "it could be the number of the tuple's input, or the column 'input'"
        fields["input"] = Unreadable(f"{what}: rename the column before")
    return readable, fields


def is_time(kind: pa.DataType) -> bool:
    """Whether functions see a value of this type as an integer in its unit."""
    return pa.types.is_timestamp(kind) or pa.types.is_duration(kind)


def _unreadable(kind: pa.DataType) -> str | None:
    """Why a function cannot read a column of this type; None if it can."""
    plain = plain_type(kind)
    if is_scalar(plain) or is_text(plain):
        return None
    return cannot_read(kind)


def pasted(generated: GeneratedFunction | None) -> Function | None:
    """What the template needs to know of a rewritten function."""
    if generated is None:
        return None
    saves = generated.writes.get("state", ()) if generated.may_raise else ()
    return Function(generated.preamble + generated.source, "emit_row(" in generated.source, tuple(saves))
