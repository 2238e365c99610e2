"""map, filter and flat_map: user functions fused into one compiled loop over a batch.

Each step is a function that hands its tuple to the next one; the last one stores
it. LLVM inlines the chain, so between the steps a tuple is a few registers:

    run -> step_0 (filter) -> step_1 (flat_map) -> user_1 -> emit = step_2 (store)

Functions see numbers, bools and strings (`batch_texts`), timestamps and durations as
integers in the unit of their column, and the event time, of whatever unit, as the
engine has it: of a timestamp column in microseconds.
Everything else is carried by reference: the loop writes, beside the computed
columns, the row each result comes from, and Arrow takes these rows. Conditions
made of `hr.col` are evaluated by Arrow between the loops, in the order written,
so that a function never sees a row that an earlier condition removed.
"""

from __future__ import annotations

import functools
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.codegen import batch_texts
from headrace.codegen.batch_texts import BatchTexts, reads_as_text
from headrace.codegen.bindings import Texts, widened
from headrace.codegen.functions import (
    FieldBinding,
    GeneratedFunction,
    Unreadable,
    call_plain,
    explain_failure,
    specialise,
    translate_error,
)
from headrace.codegen.kinds import SCALAR_NAMES, Scalar, scalar
from headrace.codegen.modules import load_module
from headrace.codegen.text import attributes
from headrace.errors import FunctionError, ParameterError, RunStoppedError, SchemaError
from headrace.expressions import Expression
from headrace.expressions.rows import check_movable, empty_batch, take_rows
from headrace.kernel import JIT
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell
from headrace.names import instead

__all__ = ["Filter", "FlatMap", "Map", "StatelessChain"]

_COUNT, _FULL, _ROW, _EMITTED = 0, 1, 2, 3
"""Words of `control`: results stored, whether there was no room, the row at work, and from
the last one on, how often each map emitted for it."""


@dataclass(frozen=True)
class Filter:
    """Keep tuples for which the condition holds: an expression, or a function of a tuple."""

    condition: Expression | Callable


@dataclass(frozen=True)
class Map:
    """Add columns to each tuple, or replace them.

    ``f(t, emit)`` emits once; ``f(t)`` returns the value of the only column.
    """

    function: Callable
    columns: Mapping[str, str]


@dataclass(frozen=True)
class FlatMap:
    """Replace each tuple by as many as ``f(t, emit)`` emits; columns not emitted are repeated."""

    function: Callable
    columns: Mapping[str, str]


class StatelessChain:
    """Steps applied to batches of one schema.

    Parameters
    ----------
    steps : list of Filter, Map, FlatMap
    schema : pa.Schema
        Of the batches.
    event_time : str
        Carried unchanged; seen by functions as an integer, for a timestamp in
        microseconds.
    debug : bool
        Check bounds, and integers that leave the range of int64.
    is_compiled : bool
        False: check what can be checked without the compiler, which `compile`
        or the first batch runs.

    Attributes
    ----------
    schema : pa.Schema
        Of the results.
    stop : int64[CELL]
        A function that does not return does so soon after word 0 is set to 1.
        May be replaced by a run's own stop word, before the first batch.

    Raises
    ------
    FunctionError
        A function cannot be compiled for these columns.

    Examples
    --------
    >>> def halves(t, emit):
    ...     emit(part=t.x // 2)
    ...     emit(part=t.x - t.x // 2)
    >>> schema = pa.schema({"ts": pa.int64(), "x": pa.int64(), "name": pa.string()})
    >>> chain = StatelessChain([Filter(lambda t: t.x > 1), FlatMap(halves, {"part": "int64"})], schema, "ts")
    >>> chain.apply(pa.record_batch([[1, 2], [1, 5], ["a", "b"]], schema=schema)).to_pylist()
    [{'ts': 2, 'x': 5, 'name': 'b', 'part': 2}, {'ts': 2, 'x': 5, 'name': 'b', 'part': 3}]
    """

    def __init__(
        self,
        steps: Sequence[Filter | Map | FlatMap],
        schema: pa.Schema,
        event_time: str,
        debug: bool = False,
        is_compiled: bool = True,
    ):
        if event_time not in schema.names:
            raise SchemaError(f"column {event_time!r} does not exist: {instead(event_time, schema.names, 'the columns', '{}')}")
        self.stop = np.zeros(CELL, np.int64)
        self._parts: list[Expression | _Loop] = []
        for step in steps:
            if isinstance(step, Filter) and isinstance(step.condition, Expression):
                step.condition.value_type(schema)  # raises for a wrong column
                self._parts.append(step.condition)
                continue
            if not self._parts or not isinstance(self._parts[-1], _Loop):
                self._parts.append(_Loop(schema, event_time, debug))
            loop = self._parts[-1]
            assert isinstance(loop, _Loop)
            loop.add(step)
            schema = loop.result_schema
        self.schema = schema
        check_movable(schema, "map(), filter() or flat_map()")
        for part in self._parts:
            if isinstance(part, _Loop):
                part.check()
        if is_compiled:
            self.compile()

    def compile(self) -> None:
        """Compile what is not compiled yet, for columns without nulls."""
        for part in self._parts:
            if isinstance(part, _Loop):
                part.compile(nullable=False)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Apply the steps.

        Raises
        ------
        FunctionError
            A function failed: with its line and the tuple.
        RunStoppedError
            `stop` was set.
        """
        for part in self._parts:
            batch = part.filter(batch) if isinstance(part, Expression) else part.apply(batch, self.stop)
        return batch

    def lists(self, batch: pa.RecordBatch) -> pa.LargeListArray:
        """What a chain of one flat_map with one column emits, as a list for each row.

        Raises
        ------
        FunctionError, RunStoppedError
            As of `apply`.
        """
        (loop,) = self._parts
        assert isinstance(loop, _Loop)
        (source, values), texts = loop.run(batch, self.stop)
        (kind,) = loop.computed.values()
        ends = np.searchsorted(source, np.arange(batch.num_rows + 1))  # rows come in their order
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), _as_column(values, kind, texts))


# ------------------------------------------------------------------ one loop


@dataclass
class _Variant:
    """A compiled loop, for input columns with or without nulls."""

    run: Any
    columns: tuple[str, ...]
    generated: list[GeneratedFunction]
    literals: tuple[str, ...]
    """Empty: no strings."""

    @functools.cached_property
    def is_ordered(self) -> bool:
        """Whether a function asks which of two strings comes first."""
        return any("kept_less" in function.source or "kept_greater" in function.source for function in self.generated)


@dataclass
class _Loop:
    """Steps with user functions that follow each other."""

    schema: pa.Schema
    event_time: str
    debug: bool
    steps: list[Filter | Map | FlatMap] = field(default_factory=list)
    variants: dict[bool, _Variant] = field(default_factory=dict)

    def add(self, step: Filter | Map | FlatMap) -> None:
        if isinstance(step, Map | FlatMap):
            if not step.columns:
                raise ParameterError(
                    f"{type(step).__name__}({_name(step.function)}): name the columns it computes and their "
                    f"kinds, as in total='int64'"
                )
            for name, kind in step.columns.items():
                if scalar(kind) is None:
                    raise ParameterError(f"{name}={kind!r}: the kinds are {', '.join(SCALAR_NAMES)}")
                if name == self.event_time:
                    raise ParameterError(f"{name!r} is the event time: it is carried and cannot be computed")
                if not _is_usable(name):
                    raise ParameterError(f"{name!r} is not a Python name: a function cannot compute it")
        self.steps.append(step)

    @property
    def computed(self) -> dict[str, Scalar]:
        """Columns of the results that are not carried."""
        found: dict[str, Scalar] = {}
        for step in self.steps:
            for name, kind in {}.items() if isinstance(step, Filter) else step.columns.items():
                known = scalar(kind)
                assert known is not None  # as `add` has seen
                found[name] = known
        return found

    @property
    def result_schema(self) -> pa.Schema:
        schema = self.schema
        for name, kind in self.computed.items():
            new = pa.field(name, kind.arrow)
            at = schema.get_field_index(name)
            schema = schema.append(new) if at < 0 else schema.set(at, new)
        return schema

    # -- generating

    def compile(self, nullable: bool) -> _Variant:
        if nullable not in self.variants:
            self.variants[nullable] = self._compile(nullable)
        return self.variants[nullable]

    def _bindings(self, nullable: bool) -> dict[str, FieldBinding | Unreadable]:
        bindings: dict[str, FieldBinding | Unreadable] = {}
        for name, column in self._attributes.items():
            kind = self.schema.field(column).type
            reason = _unreadable(kind)
            if reason is not None:
                bindings[name] = Unreadable(reason)
                continue
            read = widened(f"c_{name}[row]", {pa.int32(): "int32", pa.float32(): "float32"}.get(kind, ""))
            read += " != 0" if pa.types.is_boolean(kind) else ""
            valid = f"v_{name}[row] != 0" if nullable and column != self.event_time else None
            bindings[name] = FieldBinding(read, kind="string" if reads_as_text(kind) else None, valid=valid)
        return bindings

    @functools.cached_property
    def _attributes(self) -> dict[str, str]:
        """What a function may write behind ``t.`` -> column."""
        return attributes(self.schema.names)

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        return batch.column(self.schema.get_field_index(self._attributes[name]))

    def check(self) -> None:
        """Rewrite the functions, which finds what is wrong with most that are."""
        bindings = self._bindings(nullable=False)
        offered = tuple(name for name, binding in bindings.items() if isinstance(binding, FieldBinding))
        self._write(bindings, offered, nullable=False, texts=batch_texts.texts())

    def _has_texts(self, read: set[str], texts: Texts) -> bool:
        return (
            len(texts.literals) > 1
            or any(kind.in_functions == "string" for kind in self.computed.values())
            or any(reads_as_text(self.schema.field(self._attributes[name]).type) for name in read)
        )

    def _compile(self, nullable: bool) -> _Variant:
        bindings = self._bindings(nullable)
        # Which columns a function reads is known only once it is rewritten, so the first
        # rewriting offers all of them and the second passes those that are read.
        offered = tuple(name for name, binding in bindings.items() if isinstance(binding, FieldBinding))
        texts = batch_texts.texts()
        _, read = self._write(bindings, offered, nullable, texts)
        columns = tuple(name for name in offered if name in read)
        if not self._has_texts(read, texts):
            texts = None
        generated, _ = self._write(bindings, columns, nullable, texts)
        source = self._module(generated, columns, nullable, texts)
        module = load_module(source, "stateless_" + _name(_function(self.steps[0])), debug=self.debug)
        variant = _Variant(module.run, columns, generated, tuple(texts.literals) if texts is not None else ())
        if JIT:
            empty = empty_batch(self.schema)
            inputs, outputs = self._inputs(empty, variant, nullable, self._texts(empty, variant)), self._outputs(0)
            try:
                module.run(0, 0, *inputs, *outputs, self._control(), np.zeros(CELL, np.int64))
            except Exception as error:
                raise translate_error(error, generated, module) from None
        return variant

    def _arrays(self, columns: tuple[str, ...], nullable: bool, texts: Texts | None) -> list[str]:
        inputs = [f"c_{name}" for name in columns]
        if nullable:
            inputs += [f"v_{name}" for name in columns]
        if texts is not None:
            inputs += batch_texts.ARRAYS
        return [*inputs, "source", *(f"o_{name}" for name in self.computed), "control", "stop"]

    def _write(
        self, bindings: dict[str, FieldBinding | Unreadable], columns: tuple[str, ...], nullable: bool, texts: Texts | None
    ) -> tuple[list[GeneratedFunction], set[str]]:
        arrays = self._arrays(columns, nullable, texts)
        current = dict(bindings)
        scalars: dict[str, str] = {}  # column -> parameter that carries its computed value
        generated: list[GeneratedFunction] = []
        read: set[str] = set()
        for index, step in enumerate(self.steps):
            options: dict[str, Any] = {"arguments": ("t",), "returns": "truth"}
            after = dict(scalars)
            if not isinstance(step, Filter):
                after.update({name: f"m{index}_{name}" for name in step.columns})
                # By position: a column may have any name, "values" too.
                place = {name: f"{{{position}}}" for position, name in enumerate(step.columns)}
                given = [place.get(name, value) for name, value in after.items()]
                emit = f"step_{index + 1}({', '.join(['row', *given, *arrays])})"
                if isinstance(step, Map):
                    emit = f"control[{_EMITTED + index}] += 1\n{emit}"
                if _returns_value(step):
                    options = {"arguments": ("t",), "returns": next(iter(step.columns.values()))}
                else:
                    options = {"arguments": ("t", "emit"), "emits": step.columns, "emit": emit}
            function = specialise(
                _function(step),
                name=f"user_{index}",
                bindings={"t": current},
                parameters=("row", *scalars.values(), *arrays),
                poll="load_acquire(stop, 0) != 0",
                debug=self.debug,
                texts=texts,
                **options,
            )
            generated.append(function)
            read |= {name for name in function.reads.get("t", ()) if name not in scalars}
            kinds = self.computed
            for name, value in after.items():
                seen = kinds[name].in_functions
                current[name] = FieldBinding(widened(value, seen), kind="string" if seen == "string" else None)
            scalars = after
        return generated, read

    def _module(
        self, generated: list[GeneratedFunction], columns: tuple[str, ...], nullable: bool, texts: Texts | None
    ) -> str:
        arrays = self._arrays(columns, nullable, texts)
        imports = {line for function in generated for line in function.imports}
        imports.add("from headrace.codegen.modules import compiled")
        imports.add("from headrace.memory.atomics import load_acquire")
        chunks = ["\n".join(sorted(imports))]
        scalars: dict[str, str] = {}
        for index, (step, function) in enumerate(zip(self.steps, generated, strict=True)):
            head = f"@compiled\ndef step_{index}({', '.join(['row', *scalars.values(), *arrays])}):\n"
            call = function.signature
            after = dict(scalars)
            if isinstance(step, Filter):
                following = ", ".join(["row", *scalars.values(), *arrays])
                body = f"    if {call}:\n        step_{index + 1}({following})\n"
            else:
                after.update({name: f"m{index}_{name}" for name in step.columns})
                if _returns_value(step):
                    value = after[next(iter(step.columns))]
                    following = ", ".join(["row", *after.values(), *arrays])
                    body = f"    {value} = {call}\n    step_{index + 1}({following})\n"
                elif isinstance(step, Map):
                    word = f"control[{_EMITTED + index}]"
                    body = f"    {word} = 0\n    {call}\n    if {word} != 1:\n"
                    body += "        raise ValueError('map must emit exactly once for each tuple')\n"
                else:
                    body = f"    {call}\n"
            chunks += [function.source, head + body.rstrip("\n")]
            scalars = after
        store = "\n".join(f"    o_{name}[count] = {value}" for name, value in scalars.items())
        names = ", ".join(["row", *scalars.values(), *arrays])
        chunks.append(
            f"@compiled\ndef step_{len(self.steps)}({names}):\n"
            f"    count = control[{_COUNT}]\n"
            f"    if count == source.size:\n"
            f"        control[{_FULL}] = 1\n"
            f"        return\n"
            f"    source[count] = row\n{store}\n"
            f"    control[{_COUNT}] = count + 1"
        )
        chunks.append(
            f"@compiled\ndef run(start, end, {', '.join(arrays)}):\n"
            f"    for row in range(start, end):\n"
            f"        control[{_ROW}] = row\n"
            f"        count = control[{_COUNT}]\n"
            f"        step_0({', '.join(['row', *arrays])})\n"
            f"        if control[{_FULL}] != 0:\n"
            f"            # No room for all of this row's results: they are made again with more.\n"
            f"            control[{_FULL}] = 0\n"
            f"            control[{_COUNT}] = count\n"
            f"            return row\n"
            f"    return end"
        )
        return "\n\n\n".join(chunks) + "\n"

    # -- running

    def _control(self) -> np.ndarray:
        return np.zeros(_EMITTED + len(self.steps), np.int64)

    def _outputs(self, room: int) -> list[np.ndarray]:
        return [np.empty(room, np.int64), *(np.empty(room, kind.dtype) for kind in self.computed.values())]

    def _texts(self, batch: pa.RecordBatch, variant: _Variant) -> BatchTexts | None:
        """The strings of a batch; None for functions that have nothing to do with any."""
        if not variant.literals:
            return None
        columns = [self._column(batch, name) for name in variant.columns]
        return BatchTexts([c for c in columns if reads_as_text(c.type)], variant.literals, variant.is_ordered)

    def _inputs(
        self, batch: pa.RecordBatch, variant: _Variant, nullable: bool, texts: BatchTexts | None
    ) -> list[np.ndarray]:
        ids = iter(() if texts is None else texts.ids)
        columns = {name: self._column(batch, name) for name in variant.columns}
        values = [
            next(ids) if reads_as_text(column.type) else _values(column, self._attributes[name] == self.event_time)
            for name, column in columns.items()
        ]
        if nullable:
            values += map(_validity, columns.values())
        return values if texts is None else values + texts.arrays

    def apply(self, batch: pa.RecordBatch, stop: np.ndarray) -> pa.RecordBatch:
        return self._collect(batch, *self.run(batch, stop))

    def run(self, batch: pa.RecordBatch, stop: np.ndarray) -> tuple[list[np.ndarray], BatchTexts | None]:
        """Return the row of each result, what was computed for it, and the strings that this refers to."""
        if not batch.schema.equals(self.schema):
            raise SchemaError(
                f"a batch has columns {batch.schema.to_string()!r}, and the stream has {self.schema.to_string()!r};"
                f" cast it first"
            )
        plain = self.compile(nullable=False)
        nullable = any(self._column(batch, name).null_count for name in plain.columns)
        variant = self.compile(nullable)
        texts = self._texts(batch, variant)
        inputs = self._inputs(batch, variant, nullable, texts)
        rows = batch.num_rows
        outputs, control = self._outputs(rows), self._control()
        row = 0
        while row < rows:
            try:
                row = int(variant.run(row, rows, *inputs, *outputs, control, stop))
            except Exception as error:
                if read_cell(stop, 0):
                    raise RunStoppedError("stopped within a user function") from error
                raise self._explain(batch, int(control[_ROW]), error) from error
            if read_cell(stop, 0):
                raise RunStoppedError("stopped within a user function")
            if row < rows:
                room = 2 * outputs[0].size + 1
                outputs = [_enlarged(output, room) for output in outputs]
        return [output[: control[_COUNT]] for output in outputs], texts

    def _collect(self, batch: pa.RecordBatch, outputs: list[np.ndarray], texts: BatchTexts | None) -> pa.RecordBatch:
        source, *values = outputs
        kinds = self.computed.items()
        computed = {name: _as_column(array, kind, texts) for (name, kind), array in zip(kinds, values, strict=True)}
        # One result for each row means that nothing moved: a filter or flat_map with that outcome
        # is unlikely, and equality is cheap to test.
        moved = source.size != batch.num_rows or not np.array_equal(source, np.arange(source.size))
        carried = [name for name in self.schema.names if name not in computed]
        kept = batch.select(carried)
        if moved:
            kept = take_rows(kept, source)
        schema = self.result_schema
        columns = [computed[name] if name in computed else kept.column(name) for name in schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _explain(self, batch: pa.RecordBatch, row: int, cause: Exception) -> FunctionError:
        """Follow the row through the steps in plain Python until one fails."""
        whole = {name: batch.column(i)[row].as_py() for i, name in enumerate(batch.schema.names)}
        seen = {
            name: _scalar(self._column(batch, name)[row], self._attributes[name] == self.event_time)
            for name, binding in self._bindings(False).items()
            if isinstance(binding, FieldBinding)
        }
        times = {}
        if pa.types.is_timestamp(self.schema.field(self.event_time).type):
            times = {name: str(whole[self.event_time]) for name, column in self._attributes.items() if column == self.event_time}
        tuples = [seen]
        try:
            for step in self.steps:
                following = []
                for t in tuples:
                    names: tuple[str, ...] = () if isinstance(step, Filter) else tuple(step.columns)
                    result, emitted = call_plain(_function(step), ("t", "emit"), {"t": t}, names)
                    if isinstance(step, Filter):
                        following += [t] if result else []
                    elif _returns_value(step):
                        following.append(t | dict.fromkeys(names, result))
                    else:
                        if isinstance(step, Map) and len(emitted) != 1:
                            text = f"must emit exactly once for each tuple, not {len(emitted)} times"
                            code = _function(step).__code__
                            raise FunctionError(text, code.co_name, code.co_filename, code.co_firstlineno, t)
                        following += [t | values for values in emitted]
                tuples = following
        except FunctionError as error:
            error.tuple, error.times = whole | (error.tuple or {}), times
            error.args = (*error.args[:4], error.tuple)
            return error
        error = explain_failure(_function(self.steps[0]), ("t", "emit"), {"t": seen}, (), cause)
        error.tuple = whole
        error.args = (*error.args[:4], whole)
        return error  # its times are dates as they are


def _function(step: Filter | Map | FlatMap) -> Any:
    return step.condition if isinstance(step, Filter) else step.function


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _returns_value(step: Map | FlatMap) -> bool:
    """Whether it is written as ``f(t)`` and not as ``f(t, emit)``."""
    if not isinstance(step, Map) or len(step.columns) != 1:
        return False
    function = getattr(step.function, "py_func", step.function)
    code = getattr(function, "__code__", None)
    return code is not None and code.co_argcount - len(function.__defaults__ or ()) == 1


# -------------------------------------------------------------------- Arrow


def _is_usable(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _unreadable(type_: pa.DataType) -> str | None:
    """Why a function cannot read such a column; None if it can."""
    if pa.types.is_boolean(type_) or type_ in (pa.float64(), pa.float32()):
        return None
    if pa.types.is_integer(type_) and type_ != pa.uint64():
        return None
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_) or reads_as_text(type_):
        return None
    return f"a column of type {type_}, which a compiled function cannot read; cast it to int64 or float64 before"


def _values(column: pa.Array, is_event_time: bool = False) -> np.ndarray:
    """The values as a read-only array; arbitrary where null. Times are integers: the event time in microseconds."""
    type_ = column.type
    if pa.types.is_timestamp(type_) and is_event_time:
        column = column.cast(pa.timestamp("us", type_.tz)).view(pa.int64())
    elif pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        column = column.view(pa.int64())
    elif pa.types.is_boolean(type_):
        column = column.cast(pa.uint8())
    elif pa.types.is_integer(type_) and type_ not in (pa.int64(), pa.int32()):
        column = column.cast(pa.int64())
    dtype = column.type.to_pandas_dtype()
    buffer = column.buffers()[1]
    if buffer is None or len(column) == 0:
        array = np.empty(0, dtype)
    else:
        array = np.frombuffer(buffer, dtype, len(column), column.offset * np.dtype(dtype).itemsize)
    # The same for every batch: a writable array would be another type to the compiler.
    array.flags.writeable = False
    return array


def _as_column(array: np.ndarray, kind: Scalar, texts: BatchTexts | None) -> pa.Array:
    """What functions computed."""
    if kind.in_functions == "string":
        assert texts is not None
        return texts.decode(array)
    if kind.in_functions == "bool":
        array = array.view(np.bool_)
    column = pa.array(array)
    return column.view(kind.arrow) if pa.types.is_temporal(kind.arrow) else column


def _validity(column: pa.Array) -> np.ndarray:
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False).view(np.uint8)
    valid.flags.writeable = False
    return valid


def _scalar(value: pa.Scalar, is_event_time: bool) -> Any:
    """The value as a function sees it."""
    if value.is_valid and (pa.types.is_timestamp(value.type) or pa.types.is_duration(value.type)):
        return (value.cast(pa.timestamp("us", value.type.tz)) if is_event_time else value).value
    return value.as_py()


def _enlarged(array: np.ndarray, room: int) -> np.ndarray:
    larger = np.empty(room, array.dtype)
    larger[: array.size] = array
    return larger
