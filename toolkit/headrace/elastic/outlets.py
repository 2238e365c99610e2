"""What takes each operator's results, and by which ways they may get there; `passing` sets one of them up."""

from __future__ import annotations

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


__all__ = ["CHANNELS", "READER", "WAYS", "outlets"]
