"""What takes each operator's results, and by which ways they may get there; `ways` decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.plan.nodes import OperatorNode, Query

WAYS = ("collector", "gate", "auto")
"""Through a collector; through the gate, or an error says why not; through the gate where that is possible and no order shows."""

READER = "reader"
CHANNELS = (READER, "shared", "auto")
"""One for each instance, which gets what it owns; one that all read; by what it costs."""


def outlets(query: Query) -> dict[str, list[str]]:
    """Give the names of the operators that take the results of each; "" stands for the end of the query."""
    found: dict[str, list[str]] = {node.name: [] for node in query.operators}
    for name, branches in query.branches.items():
        for branch in branches:
            if isinstance(branch.origin, OperatorNode):
                found[branch.origin.name].append(name)
    for output in query.outputs:
        found[output.node.name].append("")
    return found


def lines(
    query: Query, taken: Mapping[str, Sequence[str]], may_pass: Callable[[OperatorNode, OperatorNode], bool]
) -> dict[str, int]:
    """Count, for each operator, those that are in one line with it, itself included.

    Parameters
    ----------
    query : Query
    taken : dict of str to list of str
        Its `outlets`.
    may_pass : function of two nodes
        Whether the second, which takes the results of the first and of nothing else, and alone, may get them directly.
    """
    found: dict[str, list[str]] = {}
    for node in query.operators:
        branches = query.branches[node.name]
        origin = branches[0].origin if len(branches) == 1 else None
        is_next = isinstance(origin, OperatorNode) and len(taken[origin.name]) == 1 and may_pass(origin, node)
        line = found[node.name] = found[origin.name] if is_next else []
        line.append(node.name)
    return {name: len(line) for name, line in found.items()}


__all__ = ["CHANNELS", "READER", "WAYS", "lines", "outlets"]
