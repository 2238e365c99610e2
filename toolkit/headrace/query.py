"""The validated plan: what a fluent expression means, before anything runs.

Nodes are immutable and know their result's schema, so a wrong column is an
error where it is written. `plan` turns a tree of nodes into operators in
topological order, each with its branches: where its tuples come from, and the
stateless steps they pass on the way.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.errors import ParameterError, SchemaError
from headrace.expressions import Aggregate, Expression, Predicate
from headrace.expressions.rows import check_movable
from headrace.ingress.encode import KeySource
from headrace.ingress.readers import numbered
from headrace.windows import Window

if TYPE_CHECKING:
    from headrace.codegen.stateless import StatelessChain


class Step:
    """A stateless operation on batches: fused into the thread that feeds or collects them."""

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        raise NotImplementedError

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        raise NotImplementedError

    def for_run(self, stop: np.ndarray, debug: bool = False) -> Step:
        """Return the step as one run uses it; it gives up soon after word 0 of `stop` is set. `debug`: see `start`."""
        return self


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


@dataclass(frozen=True, eq=False)
class SelectStep(Step):
    """Keep, rename and compute columns: (name, expression), in this order."""

    columns: tuple[tuple[str, Expression], ...]

    def result_schema(self, schema):
        return pa.schema([pa.field(name, e.value_type(schema)) for name, e in self.columns])

    def apply(self, batch):
        arrays = [e.evaluate(batch) for _, e in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in self.columns])


@dataclass(frozen=True, eq=False)
class FunctionStep(Step):
    """A chain of user functions (map, filter, flat_map), compiled into one loop.

    Parameters
    ----------
    operations : tuple of Filter, Map, FlatMap
        Of `headrace.codegen.stateless`.
    source : pa.Schema
        Of the batches.
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
        step.__dict__["chain"] = chain
        return step


def fused(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Make one loop of user functions that follow each other, and compile it."""
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


class Node:
    """Something that gives a stream: has `schema`, `event_time` (a column), `unit`."""

    schema: pa.Schema
    event_time: str
    unit: str


@dataclass(frozen=True, eq=False)
class SourceNode(Node):
    """External input: one source each, all of one schema."""

    readers: tuple[Callable[[], Any], ...]
    names: tuple[str, ...]
    rows: tuple[int | None, ...]
    schema: pa.Schema
    event_time: str
    unit: str
    time_unit: str
    lateness: int | None = None
    late: str = "error"
    idle_after: float | None = None


@dataclass(frozen=True, eq=False)
class StepNode(Node):
    """A stateless step on one stream."""

    parent: Node
    step: Step
    schema: pa.Schema
    event_time: str
    unit: str


@dataclass(frozen=True, eq=False)
class UnionNode(Node):
    """Several streams of one schema, in this order of sources."""

    parents: tuple[Node, ...]
    schema: pa.Schema
    event_time: str
    unit: str


@dataclass(frozen=True)
class AggregateSpec:
    """A and A+: what to compute over each window of each key."""

    key_names: tuple[str, ...]
    keys: tuple[KeySource, ...]
    window: Window
    aggregates: tuple[tuple[str, Aggregate], ...]
    nulls: str = "error"
    instances: str = "multi"


@dataclass(frozen=True)
class ApplySpec:
    """A custom operator: the user's functions over each window of each key, `keys` for each input."""

    key_names: tuple[str, ...]
    keys: tuple[tuple[KeySource, ...], ...]
    window: Window
    operator: Any
    nulls: str = "error"
    instances: str = "multi"


@dataclass(frozen=True)
class JoinSpec:
    """J and J+: pairs less than `within` apart that satisfy the condition."""

    within: int
    where: Predicate | Callable | None
    on: tuple[tuple[str, str], ...]
    prefixes: tuple[str, str]
    nulls: str = "error"
    index: bool = True


@dataclass(frozen=True)
class ForwardSpec:
    """Operator 15: every tuple, in merged order."""


@dataclass(frozen=True, eq=False)
class OperatorNode(Node):
    """A stateful operator; a join has (left, right) as parents, a custom one its inputs."""

    name: str
    parents: tuple[Node, ...]
    spec: AggregateSpec | ApplySpec | JoinSpec | ForwardSpec
    schema: pa.Schema
    event_time: str
    unit: str


@dataclass
class Branch:
    """One way into an operator: an external source or another operator, then steps.

    `source` is the name of the external source, which no other of the query has.
    """

    origin: SourceNode | OperatorNode
    source_index: int
    steps: tuple[Step, ...]
    side: int
    schema: pa.Schema
    event_time: str
    time_unit: str
    source: str = ""


@dataclass
class Query:
    """Operators in topological order, each with its branches."""

    operators: list[OperatorNode]
    branches: dict[str, list[Branch]]
    output_steps: tuple[Step, ...]
    output: OperatorNode
    schema: pa.Schema = field(init=False)

    def __post_init__(self):
        schema = self.output.schema
        for step in self.output_steps:
            schema = step.result_schema(schema)
        self.schema = schema


def plan(node: Node) -> Query:
    """Flatten a tree of nodes into operators and branches."""
    steps: list[Step] = []
    top = node
    while isinstance(top, StepNode):
        steps.append(top.step)
        top = top.parent
    if not isinstance(top, OperatorNode):
        # A stateless query still runs on the engine: it forwards in merged order.
        top = OperatorNode("forward", (node,), ForwardSpec(), node.schema, node.event_time, node.unit)
        steps = []
    operators: list[OperatorNode] = []
    branches: dict[str, list[Branch]] = {}
    names: dict[int, str] = {}

    def visit(operator: OperatorNode) -> None:
        if id(operator) in names:
            return
        mine: list[Branch] = []
        for side, parent in enumerate(operator.parents):
            mine += _branches(parent, (), side if isinstance(operator.spec, JoinSpec | ApplySpec) else 0)
        for branch in mine:
            if isinstance(branch.origin, OperatorNode):
                visit(branch.origin)
        name = operator.name
        suffix = 2
        while name in branches:
            name, suffix = f"{operator.name}{suffix}", suffix + 1
        names[id(operator)] = name
        if name != operator.name:
            object.__setattr__(operator, "name", name)
        operators.append(operator)
        branches[name] = mine

    visit(top)
    _name_sources([branch for mine in branches.values() for branch in mine if isinstance(branch.origin, SourceNode)])
    return Query(operators, branches, fused(steps[::-1]), top)


def _name_sources(branches: list[Branch]) -> None:
    """Give each source its name; one without, or whose name is taken, is told by its number in the query."""
    taken: set[str] = set()
    for number, branch in enumerate(branches, 1):
        assert isinstance(branch.origin, SourceNode)
        name = numbered(branch.origin.names[branch.source_index], number)
        while name in taken:
            name = f"{name} (source {number})"
        taken.add(name)
        branch.source = name


def _branches(node: Node, steps: tuple[Step, ...], side: int) -> list[Branch]:
    if isinstance(node, StepNode):
        return _branches(node.parent, (node.step, *steps), side)
    if isinstance(node, UnionNode):
        return [branch for parent in node.parents for branch in _branches(parent, steps, side)]
    schema, steps = node.schema, fused(steps)
    for step in steps:
        schema = step.result_schema(schema)
    if isinstance(node, SourceNode):
        return [
            Branch(node, i, steps, side, schema, node.event_time, node.time_unit)
            for i in range(len(node.readers))
        ]
    assert isinstance(node, OperatorNode)
    return [Branch(node, 0, steps, side, schema, node.event_time, node.unit)]


def check_columns(schema: pa.Schema, names: Sequence[str], use: str) -> None:
    """Raise `SchemaError` for the first column that is not there, or more than once."""
    for name in names:
        if name not in schema.names:
            raise SchemaError(f"{use}: there is no column {name!r}; there are {', '.join(map(repr, schema.names))}")
        if schema.names.count(name) > 1:
            raise SchemaError(f"{use}: {schema.names.count(name)} columns are called {name!r}; rename the others")


def check_output_names(names: Sequence[str], use: str) -> None:
    """Raise `ParameterError` if a result column would appear twice."""
    seen = set()
    for name in names:
        if name in seen:
            raise ParameterError(f"{use}: two result columns would be called {name!r}; rename one")
        seen.add(name)
