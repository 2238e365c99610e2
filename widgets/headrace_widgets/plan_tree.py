"""A picture of a synchronization plan and its nodes: what each owns, how busy each is, and which waits for which.

Drawn by `graph_widget` from the plan and the engine's measures by node, with roots on the left. Anything not measured is
left out. Positions are in pixels, from the upper left.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headrace.metrics.snapshot import OperatorMetrics
from headrace_widgets.graph import Bar, Edge, Node
from headrace_widgets.units import in_words

GAP, SPACE, HEAD = 28, 8, 34
"""Gap between columns, and between boxes of a column; height of a title and a bar."""
MOST_LINES = 16
"""Up to this many leaves, boxes show everything; with more, what nodes own and how busy they are."""


@dataclass(frozen=True)
class Look:
    """The size of boxes: their width, and the number, height and font size of their lines."""

    width: int
    lines: int
    line: int
    font: int


FULL = Look(226, 4, 15, 11)
LARGE = Look(154, 2, 18, 14)
"""For a lecture hall: what a node owns and its rate, in narrow boxes, since the page enlarges all alike. The bar shows how busy
a node is, and the branches what it waits for."""
SAMPLES = 12
"""Number of samples over which it is counted which node waits for which."""
MUCH = 0.5
"""A branch on which a node waits in at least this share of the samples is marked."""


class Waits:
    """Counts which node waited for which in the last samples."""

    def __init__(self) -> None:
        self._samples: deque[Mapping[str, str]] = deque(maxlen=SAMPLES)

    def add(self, waits: Mapping[str, str]) -> None:
        """Take one sample; samples under another plan are dropped."""
        if self._samples and self._samples[-1].keys() != waits.keys():
            self._samples.clear()
        self._samples.append(waits)

    def of(self, node: str) -> tuple[str, float]:
        """Return what a node waited for most often, and in which share of the samples; ("", 0.0) if for nothing."""
        found = Counter(sample[node] for sample in self._samples if sample.get(node))
        if not found:
            return "", 0.0
        whom, count = found.most_common(1)[0]
        return whom, count / len(self._samples)


def picture(
    plan: Any, now: OperatorMetrics, then: OperatorMetrics | None, waits: Waits, is_large: bool = False
) -> dict[str, Any]:
    """Draw a plan.

    Parameters
    ----------
    plan : Plan
        The plan in force.
    now, then : OperatorMetrics
        Rates are of the time between them; without `then` there are none.
    waits : Waits
    is_large : bool
        For a lecture hall: with less text.

    Returns
    -------
    dict
        As of `headrace_widgets.graph.picture`, with the size of text.
    """
    look = LARGE if is_large else FULL
    placed, labels = plan.nodes, plan.labels
    is_brief = len(plan.leaves) > MOST_LINES
    seconds = 0.0 if then is None else now.seconds - then.seconds
    columns = 1 + max((one.depth for one in placed if one.leaf < 0), default=-1)
    rows: dict[int, float] = {}
    below: dict[int, list[float]] = {}
    nodes: list[Node] = []
    lines = 1 if is_brief else look.lines
    height = HEAD + look.line * lines
    for one, label in zip(reversed(placed), reversed(labels), strict=True):
        rows[one.index] = float(one.leaf) if one.leaf >= 0 else sum(below[one.index]) / len(below[one.index])
        below.setdefault(one.parent, []).append(rows[one.index])
        column = columns if one.leaf >= 0 else one.depth
        node = _node(one, label, now, then, seconds, waits, is_large)
        node.lines = node.lines[:lines]
        node.column, node.width, node.height = column, look.width, HEAD + look.line * len(node.lines)
        node.x = 4 + column * (look.width + GAP)
        node.y = 4 + rows[one.index] * (height + SPACE) + (height - node.height) / 2
        nodes.insert(0, node)
    marked = _marked(placed, waits)
    edges = [_edge(nodes[one.parent], nodes[one.index], marked.get(one.index, "")) for one in placed if one.parent >= 0]
    return {
        "nodes": [asdict(node) for node in nodes], "edges": [asdict(edge) for edge in edges], "label": "Plan of the program",
        "width": 8 + columns * (look.width + GAP) + look.width, "height": 8 + len(plan.leaves) * (height + SPACE) - SPACE,
        "line": look.line, "font": look.font,
    }  # fmt: skip


def _node(
    one: Any, label: str, now: OperatorMetrics, then: OperatorMetrics | None, seconds: float, waits: Waits, is_large: bool
) -> Node:
    name = one.name
    rate = {what: _gained(now, then, what, name, seconds) for what in ("events", "node_joins", "node_time")}
    busy = None if rate["node_time"] is None else min(1.0, rate["node_time"] / 1e6)
    whom, share = waits.of(name)
    own = label or ("nothing" if one.leaf >= 0 else "")
    state = getattr(one.node, "state", None)
    if isinstance(state, str) and state:
        own = f"{own}; state {state}" if own else f"state {state}"
    lines = [own] if own else []
    said = [] if rate["events"] is None or not label else [f"{in_words(rate['events'], '')}/s"]
    if busy is not None and not is_large:
        said.append(f"{busy:.0%} of a core")
    if said:
        lines.append(", ".join(said))
    if one.leaf < 0:
        lines += [] if rate["node_joins"] is None else [f"joins {in_words(rate['node_joins'], '')}/s"]
    elif backlog := now.values.get("backlog", {}).get(name):
        lines.append("1 event waits here" if backlog == 1 else f"{in_words(backlog, '')} events wait here")
    if share:
        lines.append(f"{share:.0%}: waits for {whom}")
    about = "; ".join([name, *lines]) + (f" (of the last {SAMPLES} samples)" if share else "")
    return Node(f"plan {name}", "plan", name, about, lines, [Bar("", busy or 0.0, min(share, 1 - (busy or 0.0)), about)])


def _gained(now: OperatorMetrics, then: OperatorMetrics | None, what: str, name: str, seconds: float) -> float | None:
    """Return what a node did per second; None if that is unknown, under another plan or in too short an interval."""
    after = now.values.get(what, {}).get(name)
    before = None if then is None else then.values.get(what, {}).get(name)
    if after is None or before is None or after < before or seconds <= 0:
        return None
    return (after - before) / seconds


def _marked(placed: Sequence[Any], waits: Waits) -> dict[int, str]:
    """Return, by node, the wait as text ("a waits for b") whose path in the tree uses the branch above that node."""
    by_name = {one.name: one for one in placed}
    marked: dict[int, str] = {}
    for one in placed:
        whom, share = waits.of(one.name)
        other = by_name.get(whom)
        if other is None or share < MUCH:
            continue
        ends = [one, other]
        while ends[0] is not ends[1]:
            deeper = max(ends, key=lambda end: end.depth)
            if deeper.parent < 0:
                break  # they are in different trees
            marked.setdefault(deeper.index, f"{one.name} waits for {whom}")
            ends[ends.index(deeper)] = placed[deeper.parent]
    return marked


def _edge(above: Node, below: Node, about: str) -> Edge:
    places = above.x + above.width, above.y + above.height / 2, below.x, below.y + below.height / 2
    return Edge(above.key, below.key, bool(about), places, about, has_tip=False)


__all__ = ["SAMPLES", "Waits", "picture"]
