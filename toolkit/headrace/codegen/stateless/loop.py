"""Compiling the functions of consecutive steps into one loop over a batch."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.codegen import batch_texts
from headrace.codegen.batch_texts import BatchTexts, reads_as_text
from headrace.codegen.bindings import Texts, unnamed, widened
from headrace.codegen.functions import FieldBinding, GeneratedFunction, Unreadable, translate_error
from headrace.codegen.kinds import Scalar
from headrace.codegen.modules import load_module
from headrace.codegen.stateless.columns import (
    as_column,
    enlarged,
    seen_value,
    unreadable,
    validity_of,
    values_of,
)
from headrace.codegen.stateless.failures import explain
from headrace.codegen.stateless.steps import Step, check_step, computed_by, function_of, name_of
from headrace.codegen.stateless.template import COUNT, EMITTED, ROW, Template
from headrace.codegen.text import attributes
from headrace.errors import FunctionError, RunStoppedError, SchemaError
from headrace.expressions.rows import empty_batch, take_rows
from headrace.kernel import JIT
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell


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
        """Whether a function compares the order of strings."""
        return any(re.search(r"kept_(less|follows|greater)", function.source) for function in self.generated)


@dataclass
class Loop:
    """Consecutive steps with user functions."""

    schema: pa.Schema
    event_time: str
    debug: bool
    steps: list[Step] = field(default_factory=list)
    variants: dict[bool, _Variant] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        check_step(step, self.event_time)
        self.steps.append(step)

    @property
    def computed(self) -> dict[str, Scalar]:
        """Columns of the results that are not carried."""
        return computed_by(self.steps)

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
            reason = unreadable(kind)
            if reason is not None:
                bindings[name] = Unreadable(reason)
                continue
            read = widened(f"c_{name}[row]", {pa.int32(): "int32", pa.float32(): "float32"}.get(kind, ""))
            read += " != 0" if pa.types.is_boolean(kind) else ""
            valid = f"v_{name}[row] != 0" if nullable and column != self.event_time else None
            bindings[name] = FieldBinding(read, kind="string" if reads_as_text(kind) else None, valid=valid)
        return bindings | unnamed(self.schema.names, self.event_time)

    @functools.cached_property
    def _attributes(self) -> dict[str, str]:
        """Attribute that a function may write after ``t.`` -> column; ``ts`` is the event time, unless a column has this name."""
        return {"ts": self.event_time} | attributes(self.schema.names)

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        return batch.column(self.schema.get_field_index(self._attributes[name]))

    def check(self) -> None:
        """Rewrite the functions, which finds the errors in most functions that have any."""
        bindings = self._bindings(nullable=False)
        offered = tuple(name for name, binding in bindings.items() if isinstance(binding, FieldBinding))
        self._template(offered, nullable=False, texts=batch_texts.texts()).functions(bindings)

    def _template(self, columns: tuple[str, ...], nullable: bool, texts: Texts | None) -> Template:
        return Template(self.steps, columns, nullable, texts, self.debug)

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
        _, read = self._template(offered, nullable, texts).functions(bindings)
        columns = tuple(name for name in offered if name in read)
        if not self._has_texts(read, texts):
            texts = None
        template = self._template(columns, nullable, texts)
        generated, _ = template.functions(bindings)
        module = load_module(template.module(generated), "stateless_" + name_of(function_of(self.steps[0])), debug=self.debug)
        variant = _Variant(module.run, columns, generated, tuple(texts.literals) if texts is not None else ())
        if JIT:
            empty = empty_batch(self.schema)
            inputs, outputs = self._inputs(empty, variant, nullable, self._texts(empty, variant)), self._outputs(0)
            try:
                module.run(0, 0, *inputs, *outputs, self._loop_words(), np.zeros(CELL, np.int64))
            except Exception as error:
                raise translate_error(error, generated, module) from None
        return variant

    # -- running

    def _loop_words(self) -> np.ndarray:
        return np.zeros(EMITTED + len(self.steps), np.int64)

    def _outputs(self, room: int) -> list[np.ndarray]:
        return [np.empty(room, np.int64), *(np.empty(room, kind.dtype) for kind in self.computed.values())]

    def _texts(self, batch: pa.RecordBatch, variant: _Variant) -> BatchTexts | None:
        """Return the strings of a batch; None for functions that use no strings."""
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
            next(ids) if reads_as_text(column.type) else values_of(column, self._attributes[name] == self.event_time)
            for name, column in columns.items()
        ]
        if nullable:
            values += map(validity_of, columns.values())
        return values if texts is None else values + texts.arrays

    def apply(self, batch: pa.RecordBatch, stop: np.ndarray) -> pa.RecordBatch:
        return self._collect(batch, *self.run(batch, stop))

    def run(self, batch: pa.RecordBatch, stop: np.ndarray) -> tuple[list[np.ndarray], BatchTexts | None]:
        """Return the row of each result, the values computed for it, and the strings that they refer to."""
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
        outputs, loop_words = self._outputs(rows), self._loop_words()
        row = 0
        while row < rows:
            try:
                row = int(variant.run(row, rows, *inputs, *outputs, loop_words, stop))
            except Exception as error:
                if read_cell(stop, 0):
                    raise RunStoppedError("stopped within a user function") from error
                raise self._explain(batch, int(loop_words[ROW]), error) from error
            if read_cell(stop, 0):
                raise RunStoppedError("stopped within a user function")
            if row < rows:
                room = 2 * outputs[0].size + 1
                outputs = [enlarged(output, room) for output in outputs]
        return [output[: loop_words[COUNT]] for output in outputs], texts

    def _collect(self, batch: pa.RecordBatch, outputs: list[np.ndarray], texts: BatchTexts | None) -> pa.RecordBatch:
        source, *values = outputs
        kinds = self.computed.items()
        computed = {name: as_column(array, kind, texts) for (name, kind), array in zip(kinds, values, strict=True)}
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
        whole = {name: batch.column(i)[row].as_py() for i, name in enumerate(batch.schema.names)}
        seen = {
            name: seen_value(self._column(batch, name)[row], self._attributes[name] == self.event_time)
            for name, binding in self._bindings(False).items()
            if isinstance(binding, FieldBinding)
        }
        times = {}
        if pa.types.is_timestamp(self.schema.field(self.event_time).type):
            times = {name: str(whole[self.event_time]) for name, column in self._attributes.items() if column == self.event_time}
        return explain(self.steps, whole, seen, times, cause)
