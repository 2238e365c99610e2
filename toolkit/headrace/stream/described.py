"""How a stream describes itself: its columns, sources, and operators with keys and windows. Plans nothing."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.ingress.input_errors import numbered
from headrace.names import listed
from headrace.plan.nodes import Node, OperatorNode, SourceNode, StepNode, UnionNode

MOST = 8
"""Most columns, sources and operators that are named; of the rest only the number is given."""


def describe(*nodes: Node) -> list[tuple[str, str]]:
    """Return what streams are made of, as labels and texts."""
    first = nodes[0]
    met = list(dict.fromkeys(above for node in nodes for above in _above(node)))
    sources = [name for node in met if isinstance(node, SourceNode) for name in node.names]
    names = [numbered(name, number) for number, name in enumerate(sources, 1)]
    operators = [_operator(node) for node in met if isinstance(node, OperatorNode)]
    columns = [f"{field.name}: {field.type}" for field in first.schema]
    return [
        ("columns", listed(columns, MOST)),
        ("event time", f"{first.event_time} in {first.unit}"),
        ("from", listed(names, MOST)),
        ("operator" if len(operators) == 1 else "operators", listed(operators, MOST)),
    ]


def _above(node: Node) -> Iterator[Node]:
    """The nodes above a node, upstream first, and the node itself."""
    found: dict[Node, None] = {}
    waiting = [(node, False)]
    while waiting:
        one, is_open = waiting.pop()
        if one in found:
            continue
        if is_open:
            found[one] = None
            continue
        waiting.append((one, True))
        parents: tuple[Node, ...] = ()
        if isinstance(one, StepNode):
            parents = (one.parent,)
        elif isinstance(one, UnionNode | OperatorNode):
            parents = one.parents
        waiting += [(parent, False) for parent in reversed(parents)]
    return iter(found)


def _operator(node: OperatorNode) -> str:
    say = getattr(node.spec, "describe", None)
    what = say(node.unit) if callable(say) else type(node.spec).__name__
    return f"{node.name} ({what})"
