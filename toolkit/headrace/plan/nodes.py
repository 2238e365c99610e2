"""The nodes of a query: the meaning of a fluent expression before anything runs.

Nodes are immutable and know their result's schema, so a wrong column is an
error where it is written. What a node's operator computes, and on which engine,
is in its `Spec`, of which a plan knows only the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from headrace.errors import ParameterError
from headrace.ingress.times import check_event_time, time_unit_of
from headrace.plan.checks import check_columns, check_output_names
from headrace.plan.steps import Step
from headrace.windows import TIMESTAMP_UNIT, parse_time_unit


@dataclass(frozen=True)
class StreamType:
    """The type of a stream's tuples.

    Parameters
    ----------
    schema : pa.Schema
        Their columns.
    event_time : str
        The column that orders them.
    unit : str
        Unit of the event time as an integer inside an engine: "us" for a timestamp.
    """

    schema: pa.Schema
    event_time: str
    unit: str


class Spec(Protocol):
    """What an operator computes, as an engine, of this package or another, offers it to `Stream.through`.

    A plan asks for the result's type when the query is written, and a run for the
    options and the section when it starts; nothing else is known of the engine.
    An optional method ``describe(unit)`` describes the computation in a few words
    for the ``repr`` of a stream; `unit` is that of the event time.
    """

    @property
    def name(self) -> str:
        """Name of the operator in metrics, plots and errors, unless the user gives another."""
        ...

    @property
    def has_sides(self) -> bool:
        """Whether inputs are distinguished, as a join's left and right; else they have one schema and are merged into one."""
        ...

    def result_type(self, inputs: Sequence[StreamType]) -> StreamType:
        """Return the type of the results.

        Parameters
        ----------
        inputs : sequence of StreamType
            In the order given; only one if there are no sides.

        Raises
        ------
        HeadraceError
            The inputs are wrong; the text says how to correct them. Usually a `SchemaError`.
        """
        ...

    @property
    def options(self) -> Callable[..., Any]:
        """A callable that checks the engine's own options of `start`, beside those of every run.

        It is called with ``run``, the `headrace.runtime.options.RunOptions`, and those of its named parameters that were
        given. What it returns has ``check_operators(names)``, and is passed to `section`. An engine returns the
        same callable for all of its specifications. An optional method ``look_at(query)`` of what it returns is called first
        of all, for engines to which the rest of the query matters.
        """
        ...

    def section(self, node: OperatorNode, branches: list[Branch], options: Any) -> Any:
        """Return the part of a run that computes it: a `headrace.runtime.sections.Section`.

        Parameters
        ----------
        node : OperatorNode
        branches : list of Branch
            Its inputs, by `Branch.side` where there are sides.
        options
            The object that `options` returned.
        """
        ...


class Node:
    """A node that produces a stream: has `schema`, `event_time` (a column), `unit`."""

    schema: pa.Schema
    event_time: str
    unit: str

    @property
    def type(self) -> StreamType:
        return StreamType(self.schema, self.event_time, self.unit)


@dataclass(frozen=True, eq=False)
class SourceNode(Node):
    """External input: one or more sources, all of one schema."""

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
    is_disordered: bool = False
    """Whether only watermarks of the sources advance time, and rows between two of them may come in any order."""


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
    """Several streams of one schema; the order of the parents is that of the sources."""

    parents: tuple[Node, ...]
    schema: pa.Schema
    event_time: str
    unit: str


@dataclass(frozen=True, eq=False)
class OperatorNode(Node):
    """An operator of an engine; its parents are its inputs, those of a join (left, right)."""

    name: str
    parents: tuple[Node, ...]
    spec: Spec
    schema: pa.Schema
    event_time: str
    unit: str


def operator_node(spec: Spec, parents: Sequence[Node], name: str | None = None) -> OperatorNode:
    """Make the node of a specification, which determines the type of its results."""
    result = spec.result_type([parent.type for parent in parents])
    if not isinstance(result, StreamType):
        raise ParameterError(f"{spec!r}: result_type() gave a {type(result).__name__}; it has to give a headrace.plan.StreamType")
    return OperatorNode(name or spec.name, tuple(parents), spec, result.schema, result.event_time, result.unit)


def check_spec(spec: Any, use: str) -> None:
    """Raise `ParameterError` for anything that is no specification of an operator."""
    if isinstance(spec, type):
        raise ParameterError(f"{use}: {spec.__name__} is a class; give one of its objects, as in {spec.__name__}()")
    missing = [part for part in ("name", "has_sides", "result_type", "options", "section") if not hasattr(spec, part)]
    if missing:
        raise ParameterError(f"{use}: {spec!r} specifies no operator: it has no {', '.join(missing)}; see headrace.plan.Spec")


def check_result(node: OperatorNode, use: str) -> None:
    """Raise `ParameterError`, `SchemaError` or `EventTimeError` if an operator's results cannot be a stream."""
    use = f"{use}: the result of {node.name!r}"
    check_output_names(node.schema.names, use)
    check_columns(node.schema, [node.event_time], f"{use}, event time")
    kind = check_event_time(node.schema, node.event_time)
    parse_time_unit(node.unit, f"{use}: unit")
    if time_unit_of(kind, node.unit) != node.unit:
        raise ParameterError(f"{use}: unit = {node.unit!r}: times of type {kind} are in {TIMESTAMP_UNIT!r}; give that")


@dataclass
class Branch:
    """One input of an operator: an external source or another operator, then steps.

    `source` is the name of the external source, which is unique in the query.
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
class Output:
    """One result of a query: that of an operator, after steps.

    Parameters
    ----------
    name : str
        The user's name for it; for a query's only result, the operator's name.
    node : OperatorNode
    steps : tuple of Step
    """

    name: str
    node: OperatorNode
    steps: tuple[Step, ...]
    schema: pa.Schema = field(init=False)

    def __post_init__(self):
        schema = self.node.schema
        for step in self.steps:
            schema = step.result_schema(schema)
        self.schema = schema


@dataclass
class Query:
    """Operators in topological order, each with its branches, and the results."""

    operators: list[OperatorNode]
    branches: dict[str, list[Branch]]
    outputs: list[Output]

    @property
    def output(self) -> OperatorNode:
        """The operator whose results are the query's first result."""
        return self.outputs[0].node

    @property
    def schema(self) -> pa.Schema:
        """Schema of the first result."""
        return self.outputs[0].schema
