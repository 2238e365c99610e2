"""A plan as a drawing: a tree of text for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.synchronization.plan_nodes import Placed
from headrace.synchronization.tag_ranges import tags_text
from headrace.synchronization.tags import ImplementationTag

Rates = Mapping[ImplementationTag, float] | None


def plan_text(nodes: Sequence[Placed], rates: Rates = None, predicted: float | None = None) -> str:
    """Draw a tree of text: names of the nodes, their tags, events per second where they are known.

    Parameters
    ----------
    nodes : sequence of Placed
        In preorder.
    rates : mapping of ImplementationTag to float, optional
    predicted : float, optional
        Events per second.
    """
    tags = [tag for one in nodes for tag in one.node.tags]
    last = _last_children(nodes)
    lines = []
    for one in nodes:
        line = f"{_branch(one, nodes, last)}{one.name}  {tags_text(one.node.tags, tags)}"
        if rates is not None and one.node.tags:
            line += f"  {rate_text(rate_of(one, rates))}"
        lines.append(line)
    if predicted is not None:
        lines.append(f"predicted: {rate_text(predicted)}")
    return "\n".join(lines)


def _last_children(nodes: Sequence[Placed]) -> set[int]:
    """Indices of the nodes that no sibling follows."""
    last = {one.parent: one.index for one in nodes}
    return set(last.values())


def _branch(one: Placed, nodes: Sequence[Placed], last: set[int]) -> str:
    """The lines that lead to a node."""
    if one.parent < 0:
        return ""
    text = "└─ " if one.index in last else "├─ "
    above = nodes[one.parent]
    while above.parent >= 0:
        text = ("   " if above.index in last else "│  ") + text
        above = nodes[above.parent]
    return text


def rate_of(one: Placed, rates: Mapping[ImplementationTag, float]) -> float:
    """Events per second that a node owns."""
    return sum(rates.get(tag, 0.0) for tag in one.node.tags)


def rate_text(rate: float) -> str:
    """Write a rate with three digits.

    Examples
    --------
    >>> rate_text(1234567), rate_text(80000), rate_text(123), rate_text(0.25), rate_text(0)
    ('1.23 M/s', '80 k/s', '123/s', '0.25/s', '0/s')
    """
    for unit, size in ((" G", 1e9), (" M", 1e6), (" k", 1e3), ("", 1.0)):
        if rate >= 0.9995 * size or not unit:
            scaled = float(f"{rate / size:.3g}")
            return f"{scaled:g}{unit}/s"
    raise AssertionError(rate)
