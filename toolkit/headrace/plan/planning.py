"""Turning a tree of nodes into operators in topological order, each with its branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.ingress.input_errors import numbered
from headrace.plan.nodes import (
    Branch,
    Node,
    OperatorNode,
    Output,
    Query,
    SourceNode,
    Spec,
    StepNode,
    UnionNode,
    operator_node,
)
from headrace.plan.steps import Step, fused


def plan(ends: Mapping[str, Node], forward: Spec) -> Query:
    """Flatten nodes into operators and branches. An operator that several ends lead back to occurs once.

    Parameters
    ----------
    ends : dict
        The results of the query: name -> node. The name of an only result may be "".
    forward : Spec
        Specification of the operator added to an end without one: it passes every tuple on, in merged order.
    """
    operators: list[OperatorNode] = []
    branches: dict[str, list[Branch]] = {}
    planned: dict[int, OperatorNode] = {}

    def visit(operator: OperatorNode) -> OperatorNode:
        if id(operator) in planned:
            return planned[id(operator)]
        mine: list[Branch] = []
        for side, parent in enumerate(operator.parents):
            mine += _branches(parent, (), side if operator.spec.has_sides else 0)
        for branch in mine:
            if isinstance(branch.origin, OperatorNode):
                branch.origin = visit(branch.origin)
        name = operator.name
        suffix = 2
        while name in branches:
            name, suffix = f"{operator.name}{suffix}", suffix + 1
        # A copy: the node may be in other queries, too, where its name is free.
        found = planned[id(operator)] = operator if name == operator.name else replace(operator, name=name)
        operators.append(found)
        branches[name] = mine
        return found

    outputs = []
    for name, node in ends.items():
        top, steps = _top(node, forward)
        found = visit(top)
        outputs.append(Output(name or found.name, found, steps))
    _name_sources([branch for mine in branches.values() for branch in mine if isinstance(branch.origin, SourceNode)])
    return Query(operators, branches, outputs)


def _top(node: Node, forward: Spec) -> tuple[OperatorNode, tuple[Step, ...]]:
    """Return the last operator before a node, and the steps that follow it."""
    steps: list[Step] = []
    top = node
    while isinstance(top, StepNode):
        steps.append(top.step)
        top = top.parent
    if not isinstance(top, OperatorNode):
        # A stateless query still runs on an engine: it forwards in merged order.
        return operator_node(forward, (node,)), ()
    return top, fused(steps[::-1])


def _name_sources(branches: list[Branch]) -> None:
    """Name each source; a source without a name, or whose name is taken, gets its number in the query added."""
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
