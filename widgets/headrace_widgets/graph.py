"""The operators of a run as a picture: sources, gates, operators with their threads, consumers of the results.

Everything drawn comes from snapshots; a part that is not measured is left out. Positions are in pixels, from the upper left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from headrace.metrics.bottleneck import Bottleneck, is_pressed
from headrace.metrics.intervals import parts_of, shares_between
from headrace.metrics.snapshot import Metrics, OperatorMetrics
from headrace.metrics.sources import BLOCKED, FEEDING, PACED, STARVED, SourceMetrics
from headrace.summary import counted
from headrace_widgets.columns import is_work
from headrace_widgets.units import OF_A_CORE, amount, in_words, milliseconds

WIDTH, GATE, GAP, LINE, BAR = 150, 112, 38, 15, 9
"""Width of a box, and of a gate or a stage; gap between columns of boxes; height of a line of text, and of a thread's bar."""
LETTER, TITLE_LETTER = 6.1, 9
"""Width of a letter of a line, and of a title, as the page assumes it."""
MOST_BARS = 16
_HEAD, _PAD = 20, 6
_RESULTS = "results"


@dataclass
class Bar:
    """How a part of the run spends its time: shares, and their names."""

    label: str
    busy: float
    blocked: float
    about: str
    is_bottleneck: bool = False


@dataclass
class Node:
    """A box.

    Parameters
    ----------
    key : str
    kind : {"source", "gate", "operator", "stage", "results", "plan"}
    title : str
    about : str
        Shown when the mouse rests there.
    lines : list of str
        Under the title.
    bars : list of Bar
    operator : str
        The operator that a click chooses; empty: none.
    """

    key: str
    kind: str
    title: str
    about: str
    lines: list[str] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    operator: str = ""
    is_bottleneck: bool = False
    column: int = 0
    x: float = 0.0
    y: float = 0.0
    width: int = WIDTH
    height: float = 0.0


@dataclass
class Edge:
    """An arrow; `is_pressed`: the node on its left waits for room on its right (back-pressure)."""

    start: str
    end: str
    is_pressed: bool = False
    places: tuple[float, ...] = ()
    """x and y of its beginning and end."""
    about: str = "waits for room: back-pressure"
    """Description, for an arrow that is pressed."""
    has_tip: bool = True


def picture(
    now: Metrics, then: Metrics | None, found: Bottleneck | None, edges: Sequence[tuple[str, str | None]]
) -> dict[str, Any]:
    """Draw a run.

    Parameters
    ----------
    now, then : Metrics
        Shares are of the time between them; without `then`, since the start.
    found : Bottleneck or None
        The bottleneck, whose node is marked.
    edges : sequence of (str, str or None)
        Pairs of operators of which the first gives its results to the second; None: they are the results of the run.

    Returns
    -------
    dict
        Plain values: ``nodes``, ``edges``, ``width``, ``height``; ``folds``: in a narrow page columns may go on below.
    """
    nodes, arrows = [], []
    for number, source in enumerate(now.sources):
        before = then.sources[number] if then is not None and number < len(then.sources) else None
        node = _source(source, before, number, found)
        nodes.append(node)
        arrows.append(Edge(node.key, _entry(now.operators[source.operator]), is_pressed(source, before)))
    for name, operator in now.operators.items():
        if _has_gate(operator):
            nodes.append(_gate(operator))
            arrows.append(Edge(_entry(operator), _key(name)))
        before = None if then is None else then.operators.get(name)
        nodes.append(_operator(operator, before, found))
        row = _stages(operator, before)
        nodes += row
        arrows += [Edge(start.key, end.key) for start, end in pairwise([nodes[-len(row) - 1], *row])]
    nodes.append(_results(now, then, found, [start for start, end in edges if end is None]))
    for start, end in edges:
        target = _RESULTS if end is None else _entry(now.operators[end])
        waits = found is not None and found.kind == "results" and found.where == start
        arrows.append(Edge(_exit(now.operators[start]), target, waits))
    width, height = _place(nodes, arrows)
    return {
        "nodes": [asdict(n) for n in nodes], "edges": [asdict(e) for e in arrows], "width": width, "height": height,
        "folds": True,
    }  # fmt: skip


def _entry(operator: OperatorMetrics) -> str:
    """Return the node where tuples enter: the gate, for an operator that measures one."""
    return f"gate {operator.name}" if _has_gate(operator) else _key(operator.name)


def _exit(operator: OperatorMetrics) -> str:
    """Return the node where tuples leave: the last stage, for an operator that has stages."""
    return _stage_key(operator, [*operator.stages][-1]) if operator.stages else _key(operator.name)


def _has_gate(operator: OperatorMetrics) -> bool:
    return "depth_ms" in operator.values


def _key(operator: str) -> str:
    return f"operator {operator}"


def _stage_key(operator: OperatorMetrics, stage: str) -> str:
    return f"stage {operator.name} {stage}"


def _source(source: SourceMetrics, before: SourceMetrics | None, number: int, found: Bottleneck | None) -> Node:
    share = {state: source.share(state, before) for state in (STARVED, PACED, BLOCKED, FEEDING)}
    most = max(share, key=share.__getitem__)
    words = {STARVED: "waits for rows", PACED: "waits until due", BLOCKED: "waits for room", FEEDING: "feeds"}
    about = f"{source.name}: " + ", ".join(f"{words[state]} {part:.0%}" for state, part in share.items())
    pressed = is_pressed(source, before)
    if most == BLOCKED and not pressed:
        lines = ["on time"]  # it waits for room, but no tuple is overdue yet
    else:
        lines = [f"{words[most]} {share[most]:.0%}"] if share[most] > 0 else []
    if source.counts_due and not math.isnan(source.lag_s):
        lines.append(f"{amount(source.behind)} due")
    is_it = found is not None and found.kind in ("source", "order") and found.where == source.name
    return Node(
        f"source {number}", "source", _title(source.name), about, lines,
        [Bar("", share[FEEDING], share[BLOCKED] if pressed else 0.0, about)], is_bottleneck=is_it,
    )  # fmt: skip


def _title(name: str) -> str:
    """Return the name of a source as in messages, without the parts that add nothing here.

    Examples
    --------
    >>> _title("source 1 (generator)"), _title("input 'trades.parquet'")
    ('source 1', 'trades.parquet')
    """
    return name.removeprefix("input '").removesuffix("'").partition(" (")[0]


def _gate(operator: OperatorMetrics) -> Node:
    work = operator.values["depth_ms"]
    known = work is not None and math.isfinite(work)
    tuples = "1 tuple" if operator.in_flight == 1 else f"{amount(operator.in_flight)} tuples"
    lines = [tuples, *([f"{milliseconds(work)} of work"] if known else [])]
    return Node(
        _entry(operator), "gate", "gate", f"Tuples in the gate of {operator.name} that some thread has yet to pass", lines,
        operator=operator.name,
    )  # fmt: skip


def _operator(now: OperatorMetrics, then: OperatorMetrics | None, found: Bottleneck | None) -> Node:
    names = [measure.name for measure in parts_of(now.measures)]
    shares = dict(zip(names, shares_between(now, then).tolist(), strict=True)) if names else {}
    busy, blocked = (shares.get(name, [0.0] * now.max_threads) for name in ("busy_ns", "blocked_ns"))
    is_it = found is not None and found.where == now.name and found.kind in ("worker", "workers", "cores")
    bars = [
        Bar(
            str(worker), busy[worker], blocked[worker],
            f"thread {worker}: {busy[worker]:.0%} busy, {blocked[worker]:.0%} blocked",
            is_it and found is not None and found.worker == worker,
        )
        for worker in now.members[:MOST_BARS]
    ] if shares else []  # fmt: skip
    threads = counted(now.threads, "thread")
    mean = f", {sum(busy[worker] for worker in now.members) / now.threads:.0%} busy" if bars else ""
    lines = [threads + mean, *([f"the first {MOST_BARS} of them:"] if now.threads > MOST_BARS else [])]
    title = "pipeline" if now.name in now.stages else now.name  # by default a pipeline has its last stage's name
    return Node(_key(now.name), "operator", title, f"{now.name}: {threads}{mean}", lines, bars, now.name, is_it)


def _stages(now: OperatorMetrics, then: OperatorMetrics | None) -> list[Node]:
    """Return a box for each stage with what its operator measures by stage, counters per second or as a share."""
    nodes = []
    seconds = now.seconds - (0.0 if then is None else then.seconds)
    for name, stage in now.stages.items():
        earlier = {} if then is None or name not in then.stages else then.stages[name].values
        lines, about = [], [name]
        for measure in stage.measures:
            value = stage.values[measure.name]
            if measure.kind == "counter":
                value -= earlier.get(measure.name, 0)
                whole = seconds
                if measure.share_of:
                    whole = stage.values[measure.share_of] - earlier.get(measure.share_of, 0)
                value = value / whole if whole > 0 else 0.0
            if not value and measure.kind == "counter":
                continue  # nothing of the kind happens in this stage
            if measure.share_of:
                # The claiming thread counts a tuple at once, the running thread counts it later.
                short = long = in_words(min(1.0, value), "fraction")
            elif is_work(measure):
                short = long = in_words(value / 1e6, OF_A_CORE)
            else:
                per = "/s" if measure.kind == "counter" else ""
                unit = measure.unit.removesuffix(" per tuple")
                short = in_words(value, unit if unit in ("ns", "ms", "bytes") else "") + per
                long = in_words(value, measure.unit) + per
            lines.append(f"{measure.word} {short}")
            about.append(f"{measure.title.rstrip('.')}: {long}")
        nodes.append(Node(_stage_key(now, name), "stage", name, "\n".join(about), lines, operator=now.name))
    return nodes


def _results(now: Metrics, then: Metrics | None, found: Bottleneck | None, givers: list[str]) -> Node:
    seconds = (now.at_ns - then.at_ns) / 1e9 if then is not None else now.seconds
    lines = [f"{amount((now.tuples_out - (then.tuples_out if then else 0)) / seconds)}/s"] if seconds > 0 else []
    bars = []
    for name in givers:
        thread = f"{name}-collector"
        if thread in now.cpu_ns and seconds > 0:
            used = (now.cpu_ns[thread] - (then.cpu_ns.get(thread, 0) if then else 0)) / 1e9 / seconds
            about = f"The thread that puts the results in order uses {used:.0%} of a core"
            lines.append(f"sorts: {used:.0%} of a core")
            bars.append(Bar("", min(1.0, max(0.0, used)), 0.0, about))
    is_it = found is not None and found.kind == "results" and found.where in givers
    return Node(_RESULTS, "results", "results", "Consumers of the run's results", lines, bars, is_bottleneck=is_it)


def _wide(node: Node) -> int:
    """Return the width for title and lines in the widest font that a page may have; the page cuts what is longer."""
    line = math.ceil(LETTER * max(map(len, node.lines), default=0))
    return min(WIDTH, max(GATE, 16 + line, 14 + TITLE_LETTER * len(node.title)))


def _place(nodes: list[Node], arrows: list[Edge]) -> tuple[float, float]:
    """Place nodes in columns by their longest path from a source, one below another; returns width and height."""
    by_key = {node.key: node for node in nodes}
    for _ in nodes:
        for arrow in arrows:
            end = by_key[arrow.end]
            end.column = max(end.column, by_key[arrow.start].column + 1)
    columns: dict[int, list[Node]] = {}
    for node in nodes:
        node.width = _wide(node) if node.kind in ("gate", "stage") else WIDTH
        node.height = _HEAD + LINE * len(node.lines) + (BAR + 2) * len(node.bars) + _PAD
        columns.setdefault(node.column, []).append(node)
    height = max(sum(node.height + 10 for node in column) for column in columns.values()) + 6
    x = 4.0
    for number in sorted(columns):
        column = columns[number]
        y = (height - sum(node.height + 10 for node in column) + 10) / 2
        for node in column:
            node.x, node.y = x, y
            y += node.height + 10
        x += max(node.width for node in column) + GAP
    for arrow in arrows:
        start, end = by_key[arrow.start], by_key[arrow.end]
        arrow.places = start.x + start.width, start.y + start.height / 2, end.x - 5, end.y + end.height / 2
    return x - GAP + 4, height
