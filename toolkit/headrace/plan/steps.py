"""Stateless steps, applied to batches between operators by the thread that feeds or collects them."""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.arguments import shown
from headrace.codegen.state import named_by_python
from headrace.errors import ParameterError, SchemaError
from headrace.expressions import Expression
from headrace.expressions.rows import check_movable
from headrace.ingress.same_schema import conformed

if TYPE_CHECKING:
    from headrace.codegen.stateless import StatelessChain


class Step(ABC):
    """A stateless operation on batches: fused into the thread that feeds or collects them."""

    @abstractmethod
    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of batches after the step; raise an error if the step does not suit this schema."""

    @abstractmethod
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch after the step."""

    def for_run(self, stop: np.ndarray, debug: bool = False) -> Step:
        """Return the step bound to one run: it gives up soon after word 0 of `stop` is set. `debug`: see `start`."""
        return self

    def narrowed(self, wanted: frozenset[str] | None) -> tuple[Step, frozenset[str] | None]:
        """Return the step without what it computes for nobody, and the columns that it then needs.

        Functions need all of them, since an error shows the tuple.

        Parameters
        ----------
        wanted : frozenset of str or None
            Columns of its results that somebody reads. None, here and in what is returned: all.
        """
        return self, None


@dataclass(frozen=True, eq=False)
class FilterStep(Step):
    """Keep rows for which the condition is true."""

    condition: Expression

    def result_schema(self, schema):
        kind = self.condition.value_type(schema)
        if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise SchemaError(f"filter({self.condition!r}): gives {kind}, not a condition; add a comparison")
        check_movable(schema, f"filter({self.condition!r})")
        return schema

    def apply(self, batch):
        return self.condition.filter(batch)

    def narrowed(self, wanted):
        return self, None if wanted is None else wanted | set(self.condition.columns)


@dataclass(frozen=True, eq=False)
class SelectStep(Step):
    """Keep, rename and compute columns, given as (name, expression) in the order of the result."""

    columns: tuple[tuple[str, Expression], ...]

    def result_schema(self, schema):
        return pa.schema([pa.field(name, e.value_type(schema)) for name, e in self.columns])

    def apply(self, batch):
        arrays = [e.evaluate(batch) for _, e in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in self.columns])

    def narrowed(self, wanted):
        columns = tuple((name, e) for name, e in self.columns if wanted is None or name in wanted)
        return SelectStep(columns), frozenset(column for _, e in columns for column in e.columns)


@dataclass(frozen=True, eq=False)
class ConformStep(Step):
    """Give columns the types that streams of a union have in common, which `shared_schema` found."""

    schema: pa.Schema

    def result_schema(self, schema):
        return self.schema

    def apply(self, batch):
        return conformed(batch, self.schema)


@dataclass(frozen=True, eq=False)
class FunctionStep(Step):
    """A chain of user functions (map, filter, flat_map), compiled into one loop.

    Parameters
    ----------
    operations : tuple of Filter, Map, FlatMap
        Operations of `headrace.codegen.stateless`.
    source : pa.Schema
        Schema of the batches.
    event_time : str
    """

    operations: tuple[Any, ...]
    source: pa.Schema
    event_time: str

    @functools.cached_property
    def chain(self) -> StatelessChain:
        """The steps, checked; compiled when first applied or asked to."""
        from headrace.codegen.stateless import StatelessChain

        return StatelessChain(self.operations, self.source, self.event_time, is_compiled=False)

    def result_schema(self, schema):
        return self.chain.schema

    def apply(self, batch):
        return self.chain.apply(batch)

    def for_run(self, stop, debug=False):
        if debug:
            from headrace.codegen.stateless import StatelessChain

            chain = StatelessChain(self.operations, self.source, self.event_time, debug=True)
        else:
            chain = copy.copy(self.chain)
        chain.stop = stop
        step = FunctionStep(self.operations, self.source, self.event_time)
        vars(step)["chain"] = chain
        return step


@dataclass(frozen=True, eq=False)
class KeysStep(Step):
    """Add a list column: the keys that a user function gives each tuple, the paper's f_MK.

    Parameters
    ----------
    function : callable
        ``f(t, emit)``, which emits each key; compiled.
    kind : str
        Kind of the keys.
    column : str
        Name of the list column.
    source : pa.Schema
        Schema of the batches.
    event_time : str
    """

    function: Callable
    kind: str
    column: str
    source: pa.Schema
    event_time: str

    @functools.cached_property
    def chain(self) -> StatelessChain:
        """The function, checked and compiled."""
        return self._chain(False)

    @functools.cached_property
    def _emitted(self) -> str:
        """Name of the emitted value, which no column has."""
        return "key" + "_" * sum(name.startswith("key") for name in self.source.names)

    def _chain(self, debug: bool) -> StatelessChain:
        from headrace.codegen.stateless import FlatMap, StatelessChain

        return StatelessChain([FlatMap(self.function, {self._emitted: self.kind})], self.source, self.event_time, debug)

    def result_schema(self, schema):
        kind = self.chain.schema.field(self._emitted).type
        return schema.append(pa.field(self.column, pa.large_list(kind)))

    def apply(self, batch):
        return batch.append_column(self.column, self.chain.lists(batch))

    def for_run(self, stop, debug=False):
        chain = self._chain(True) if debug else copy.copy(self.chain)
        chain.stop = stop
        step = copy.copy(self)
        vars(step)["chain"] = chain
        return step


WANTED = {
    "filter": 'an expression, as in hr.col("a") > 1, or a function of a tuple',
    "map": 'a function of a tuple; columns computed by expressions are for select(), as in select(..., y=hr.col("a") + 1)',
    "flat_map": "a function of a tuple, f(t, emit)",
}
"""What steps take, where something else is given."""


def function_step(
    kind: str, function: Callable, schema: pa.Schema, event_time: str, columns: Mapping[str, str]
) -> FunctionStep:
    """Make a stateless step; it is compiled when the query starts, together with its neighbours.

    Parameters
    ----------
    kind : {"filter", "map", "flat_map"}
    function : callable
        A condition of a tuple, or ``f(t, emit)``.
    schema : pa.Schema
        Schema of the tuples.
    event_time : str
    columns : dict
        Name -> kind of the columns that map and flat_map compute.

    Raises
    ------
    FunctionError
        The function cannot be compiled; the text has the line.
    """
    from headrace.codegen.stateless import Filter, FlatMap, Map  # imports the compiler

    if not callable(function):
        raise ParameterError(f"{kind}({shown(function)}): give {WANTED[kind]}")
    columns = named_by_python(kind, columns)
    operations = {
        "filter": lambda: Filter(function),
        "map": lambda: Map(function, dict(columns)),
        "flat_map": lambda: FlatMap(function, dict(columns)),
    }
    return FunctionStep((operations[kind](),), schema, event_time)


def narrowed(steps: Sequence[Step], wanted: Iterable[str]) -> tuple[tuple[Step, ...], frozenset[str] | None]:
    """Return steps without what they compute for nobody, and the columns that the first one needs; None: all.

    Examples
    --------
    >>> from headrace.expressions import col
    >>> steps, columns = narrowed([FilterStep(col("a") > 0), SelectStep((("x", col("b")), ("y", col("c"))))], ["x"])
    >>> sorted(columns), [name for name, _ in steps[1].columns]
    (['a', 'b'], ['x'])
    """
    result: list[Step] = []
    needed: frozenset[str] | None = frozenset(wanted)
    for step in reversed(steps):
        narrow, needed = step.narrowed(needed)
        result.append(narrow)
    return tuple(result[::-1]), needed


def fused(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Fuse consecutive user functions into one loop, and compile it."""
    result: list[Step] = []
    for step in steps:
        last = result[-1] if result else None
        if isinstance(step, FunctionStep) and isinstance(last, FunctionStep):
            result[-1] = FunctionStep(last.operations + step.operations, last.source, last.event_time)
        else:
            result.append(step)
    for step in result:
        if isinstance(step, FunctionStep):
            step.chain.compile()
    return tuple(result)
