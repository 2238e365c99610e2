"""The nodes of a query: what a fluent expression means, before anything runs.

Nodes are immutable and know their result's schema, so a wrong column is an
error where it is written. What a node's operator computes, and on which engine,
is its `Spec`, of which a plan knows no more than the result.
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
    """What the tuples of a stream look like.

    Parameters
    ----------
    schema : pa.Schema
        Their columns.
    event_time : str
        The column that orders them.
    unit : str
        Of the event time as an integer inside an engine: "us" for a timestamp.
    """

    schema: pa.Schema
    event_time: str
    unit: str


class Spec(Protocol):
    """What an operator computes: how an engine, of this package or not, offers it to `Stream.through`.

    A plan asks for the result's type when the query is written, and a run for the
    options and the section when it starts; nothing else is known of the engine.
    A method ``describe(unit)``, which may be left out, says in a few words what is
    computed, for the ``repr`` of a stream; `unit` is that of the event time.
    """

    @property
    def name(self) -> str:
        """What metrics, plots and errors call the operator, unless the user gives it a name."""
        ...

    @property
    def has_sides(self) -> bool:
        """Whether inputs are told apart, as a join's left and right; else they are merged, of one schema, into one."""
        ...

    def result_type(self, inputs: Sequence[StreamType]) -> StreamType:
        """Say what the results look like.

        Parameters
        ----------
        inputs : sequence of StreamType
            In the order given; one if there are no sides.

        Raises
        ------
        HeadraceError
            What is wrong with the inputs, and how to put it right: a `SchemaError` as a rule.
        """
        ...

    @property
    def options(self) -> Callable[..., Any]:
        """What checks the options of `start` that the engine has beside those of every run.

        Called with ``run``, the `headrace.runtime.options.RunOptions`, and those of its named parameters that were
        given; what it returns has ``check_operators(names)``, and is what `section` is given. An engine returns the
        same for all of its specifications. A method ``look_at(query)``, which may be left out, is called first of all, where
        it matters what else is in the query.
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
            What `options` returned.
        """
        ...


class Node:
    """Something that gives a stream: has `schema`, `event_time` (a column), `unit`."""

    schema: pa.Schema
    event_time: str
    unit: str

    @property
    def type(self) -> StreamType:
        return StreamType(self.schema, self.event_time, self.unit)


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
    is_disordered: bool = False
    """Only watermarks of the sources move time, and rows between two of them come in any order."""


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
    """Make the node of a specification, which says what its results look like."""
    result = spec.result_type([parent.type for parent in parents])
    if not isinstance(result, StreamType):
        raise ParameterError(f"{spec!r}: result_type() gave a {type(result).__name__}; it has to give a headrace.plan.StreamType")
    return OperatorNode(name or spec.name, tuple(parents), spec, result.schema, result.event_time, result.unit)


def check_spec(spec: Any, use: str) -> None:
    """Raise `ParameterError` for what is no specification of an operator."""
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
        raise ParameterError(f"{use}: unit = {node.unit!r}: times of type {kind} are in {TIMESTAMP_UNIT!r}")


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
class Output:
    """One result of a query: an operator's, after steps.

    Parameters
    ----------
    name : str
        What the user calls it; of a query's only result, the operator's.
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
    """Operators in topological order, each with its branches, and what results there are."""

    operators: list[OperatorNode]
    branches: dict[str, list[Branch]]
    outputs: list[Output]

    @property
    def output(self) -> OperatorNode:
        """Whose results the query's first result is."""
        return self.outputs[0].node

    @property
    def schema(self) -> pa.Schema:
        """Of the first result."""
        return self.outputs[0].schema
