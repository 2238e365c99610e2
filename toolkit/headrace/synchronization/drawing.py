"""Draws a plan: as a tree of text for the terminal, and in SVG for a notebook. Types of state are named if there are several.

In SVG, in the colours of JupyterLab's theme, the roots are on the left and the leaves on the right, one below the other, each
in a row of its own: a tree of 64 leaves is as legible as one of two. A node that owns tags is a box with them; a bar beside a
leaf is its share of the events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from headrace.synchronization.plan_nodes import Placed
from headrace.synchronization.tag_ranges import tags_text
from headrace.synchronization.tags import ImplementationTag

Rates = Mapping[ImplementationTag, float] | None

_ROW, _EDGE, _BAR = 24.0, 12.0, 110.0
"""Height of a row, the margin, and the longest bar."""
_LETTER = 6.3
"""Width of one, about, at 12 pixels."""
_MOST_LETTERS = 64
_INK, _SOFT = "var(--jp-content-font-color1,#1a1a1a)", "var(--jp-content-font-color2,#5a6570)"
_PAPER, _LINE = "var(--jp-layout-color0,#ffffff)", "#8795a3"
"""After the comma: where the page has no such theme."""
_INNER, _LEAF, _SHARE = "#b97f00", "#0072b2", "#8795a3"
"""Edges, filled palely, which is legible on light and on dark paper."""


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
        line = f"{_branch(one, nodes, last)}{_typed(one.name, one)}  {tags_text(one.node.tags, tags)}"
        if rates is not None and one.node.tags:
            line += f"  {rate_text(rate_of(one, rates))}"
        lines.append(line)
    if predicted is not None:
        lines.append(_predicted_text(predicted))
    return "\n".join(lines)


def _predicted_text(rate: float) -> str:
    """Write a rate of events of all tags, which are another thing than those of one tag beside it."""
    return f"predicted: {rate_text(rate).removesuffix('/s')} events/s"


def _typed(text: str, one: Placed) -> str:
    """A text about a node, with the type of its state where a program has several."""
    return text if one.node.state is None else f"{text} ({one.node.state})"


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


def plan_svg(nodes: Sequence[Placed], rates: Rates = None, predicted: float | None = None) -> str:
    """Draw a tree in SVG; as `plan_text`."""
    all_tags = [tag for one in nodes for tag in one.node.tags]
    leaves = [one for one in nodes if one.leaf >= 0]
    labels = {one.index: _shortened(_label(one, all_tags)) for one in nodes}
    rows = _rows(nodes)
    columns = _columns(nodes, labels)
    right = columns[-1] + _width(max((labels[one.index] for one in leaves), key=len))
    top = 34.0 if predicted is not None else _EDGE
    most = max((rate_of(one, rates) for one in leaves), default=0.0) if rates is not None else 0.0
    drawn, boxes = [], []
    for one in nodes:
        x = columns[-1] if one.leaf >= 0 else columns[one.depth]
        y = top + _ROW * (rows[one.index] + 0.5)
        if one.parent >= 0:
            above = nodes[one.parent]
            start = columns[above.depth] + (_width(labels[above.index]) if above.node.tags else 3)
            turn = columns[above.depth + 1] - 8 if above.depth + 2 < len(columns) else columns[-1] - 14
            y_above = top + _ROW * (rows[above.index] + 0.5)
            drawn.append(f'<path d="M{start:g} {y_above:g}H{turn:g}V{y:g}H{x:g}"/>')
        boxes.append(_box(one, labels[one.index], tags_text(one.node.tags, all_tags, most=1000), x, y))
        if rates is not None and (one.leaf >= 0 or one.node.tags):
            boxes.append(_rate(one, rates, x, y, right, most))
    width = right + (_BAR + 90 if rates is not None else 0) + _EDGE
    height = top + _ROW * len(leaves) + _EDGE
    title = _predicted_text(predicted) if predicted is not None else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
        f' font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="synchronization plan">'
        f'<rect width="{width:g}" height="{height:g}" rx="6" fill="{_PAPER}"/>'
        f'<text x="{_EDGE:g}" y="20" fill="{_INK}" font-weight="600">{escape(title)}</text>'
        f'<g fill="none" stroke="{_LINE}" stroke-width="1.5">{"".join(drawn)}</g>{"".join(boxes)}</svg>'
    )


def _label(one: Placed, all_tags: Sequence[ImplementationTag]) -> str:
    tags = tags_text(one.node.tags, all_tags) if one.node.tags else ""
    if one.leaf < 0:
        return _typed(tags, one) if tags else ""
    return f"{_typed(one.name, one)}: {tags or 'nothing'}"


def _shortened(label: str) -> str:
    return label if len(label) <= _MOST_LETTERS else f"{label[: _MOST_LETTERS - 1]}…"


def _width(label: str) -> float:
    return len(label) * _LETTER + 14


def _rows(nodes: Sequence[Placed]) -> dict[int, float]:
    """Row of each node: a leaf has a row of its own, an inner node is in the middle between its two children."""
    below: dict[int, list[float]] = {}
    rows: dict[int, float] = {}
    for one in reversed(nodes):
        rows[one.index] = float(one.leaf) if one.leaf >= 0 else sum(below[one.index]) / 2
        below.setdefault(one.parent, []).append(rows[one.index])
    return rows


def _columns(nodes: Sequence[Placed], labels: Mapping[int, str]) -> list[float]:
    """Where the nodes of each depth begin, and last the leaves: as wide as the widest box, or narrow where none owns anything."""
    depths = 1 + max((one.depth for one in nodes if one.leaf < 0), default=-1)
    free = 26.0 if depths <= 12 else 12.0
    columns = [_EDGE]
    for depth in range(depths):
        boxes = [_width(labels[one.index]) for one in nodes if one.depth == depth and one.leaf < 0 and one.node.tags]
        columns.append(columns[-1] + (max(boxes) + 24 if boxes else free))
    return columns


def _box(one: Placed, label: str, whole: str, x: float, y: float) -> str:
    """A box with the tags of a node; a dot where it has none."""
    said = f"<title>{escape(f'{_typed(one.name, one)}: {whole}')}</title>"
    if one.leaf < 0 and not one.node.tags:
        return f'<g>{said}<circle cx="{x:g}" cy="{y:g}" r="3" fill="{_LINE}"/></g>'
    edge = _LEAF if one.leaf >= 0 else _INNER
    dash = "" if one.node.tags else ' stroke-dasharray="4 3"'
    return (
        f'<g>{said}<rect x="{x:g}" y="{y - 10:g}" width="{_width(label):g}" height="20" rx="4" fill="{edge}"'
        f' fill-opacity=".15" stroke="{edge}"{dash}/>'
        f'<text x="{x + 7:g}" y="{y + 4:g}" fill="{_INK}">{escape(label)}</text></g>'
    )


def _rate(one: Placed, rates: Mapping[ImplementationTag, float], x: float, y: float, right: float, most: float) -> str:
    """The rate of a node: below its box, or beside a leaf, with a bar."""
    rate = rate_of(one, rates)
    if one.leaf < 0:
        return f'<text x="{x + 7:g}" y="{y + 22:g}" fill="{_SOFT}" font-size="10.5">{rate_text(rate)}</text>'
    bar = _BAR * rate / most if most else 0.0
    return (
        f'<rect x="{right + 10:g}" y="{y - 6:g}" width="{bar:g}" height="12" rx="2" fill="{_SHARE}"/>'
        f'<text x="{right + 16 + bar:g}" y="{y + 4:g}" fill="{_SOFT}">{rate_text(rate)}</text>'
    )
