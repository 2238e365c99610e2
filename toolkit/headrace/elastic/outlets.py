"""Which operators take each operator's results, and the possible ways there; `ways` decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.plan.nodes import OperatorNode, Query

WAYS = ("collector", "gate", "auto")
"""Through a collector; through the gate, or an error says why not; through the gate unless `ways.why_not` says why not."""

READER = "reader"
CHANNELS = (READER, "shared", "auto")
"""A channel for each instance, with what it owns; one channel that all read; the first if there are many instances."""


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


def meeting(query: Query, name: str, takers: Sequence[str]) -> tuple[str, str] | None:
    """Find two of the operators that take an operator's results which are connected by others, too; None if none are.

    Without the operator itself, a taker and whatever sends it anything, or gets anything from it, directly or not, would then
    include another taker: it might have to wait for that one.
    """
    group: dict[str | int, str | int] = {}

    def found(one: str | int) -> str | int:
        while group.setdefault(one, one) != one:
            one = group[one]
        return one

    for node in query.operators:
        for branch in query.branches[node.name]:
            origin = branch.origin.name if isinstance(branch.origin, OperatorNode) else id(branch.origin)
            if name not in (node.name, origin):
                group[found(node.name)] = found(origin)
    of_groups: dict[str | int, str] = {}
    for taker in takers:
        other = of_groups.setdefault(found(taker), taker)
        if other != taker:
            return other, taker
    return None


def lines(
    query: Query, taken: Mapping[str, Sequence[str]], may_pass: Callable[[OperatorNode, OperatorNode], bool]
) -> dict[str, int]:
    """Count, for each operator, the operators in lines with it, itself included: those that one line branches into all count.

    Parameters
    ----------
    query : Query
    taken : dict of str to list of str
        The `outlets` of the query.
    may_pass : function of two nodes
        Whether the second may get the results of the first directly, where these are its only input and only operators take
        them.
    """
    found: dict[str, list[str]] = {}
    for node in query.operators:
        branches = query.branches[node.name]
        origin = branches[0].origin if len(branches) == 1 else None
        is_next = isinstance(origin, OperatorNode) and "" not in taken[origin.name] and may_pass(origin, node)
        line = found[node.name] = found[origin.name] if is_next else []
        line.append(node.name)
    return {name: len(line) for name, line in found.items()}


__all__ = ["CHANNELS", "READER", "WAYS", "lines", "meeting", "outlets"]
