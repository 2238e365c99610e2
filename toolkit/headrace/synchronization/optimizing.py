"""Makes plans for a program: chooses the optimizer; has Appendix B's, and two fixed shapes of the tree.

The graph of implementation tags is split by removing its rarest tags: they go to a node above, and the rest is in
independent pieces (`taken_apart`). Leaves are then shared among the pieces, by their rates. Where a program has several types
of state, the tree is matched to them (`state_types`), with fewer leaves where necessary.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.arguments import is_whole_number
from headrace.errors import ParameterError
from headrace.names import instead
from headrace.synchronization.by_rates import by_rates, leaf_counts
from headrace.synchronization.definition import Definition
from headrace.synchronization.dependence import Dependence
from headrace.synchronization.exhaustive import best
from headrace.synchronization.plan_json import MOST_LEAVES
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.plans import Plan, implementation_tags
from headrace.synchronization.prediction import Model, read_costs
from headrace.synchronization.state_types import with_types
from headrace.synchronization.tag_rates import read_rates
from headrace.synchronization.tags import ImplementationTag

WAYS = ("rates", "latency", "appendix", "chain", "flat", "best")
BY_RATES = ("rates", "latency", "best")
"""Those that weigh rates and costs."""

Rates = Mapping[ImplementationTag, float]


def make_plan(
    program: Definition,
    inputs: Mapping[str, Any],
    leaves: int = 2,
    rates: Mapping[Any, Any] | None = None,
    by: str = "rates",
    costs: Any = None,
    threads: int | None = None,
) -> Plan:
    """Make a plan; see `Program.plan`."""
    if by not in WAYS:
        raise ParameterError(f"plan(by={by!r}): {instead(by, WAYS, 'the ways')}")
    _check_whole("leaves", leaves, MOST_LEAVES)
    if threads is not None:
        _check_whole("threads", threads, 4096)
    streams = streams_of(inputs) | dict.fromkeys(program.periodic, 1)
    tags = implementation_tags(program, streams)
    for name in program.tags:
        if name not in streams:
            raise ParameterError(f"plan({inputs!r:.60}): tag {name!r} is missing; give its inputs, or how many streams it has")
    known = None if rates is None else read_rates(program, tags, rates)
    if by in ("best", "latency") and known is None:
        raise ParameterError(f"plan(by={by!r}): it weighs plans by rates; give rates=, events per second of each tag")
    if not program.can_fork:
        leaves = 1
    graph = Dependence(program)
    pieces = taken_apart(graph, tags, dict.fromkeys(tags, 1.0) if known is None else known)
    roots = _first_with_types(program, (appendix(pieces, number) for number in range(leaves, 0, -1)))
    if by in ("chain", "flat"):
        roots = (chain if by == "chain" else flat)(graph, appendix(pieces, leaves), leaves)
        if (typed := with_types(program, roots)) is None:
            raise ParameterError(
                f"plan(by={by!r}, leaves={leaves}): the forks of {program.name} lead to no types of state that fit such a tree;"
                f" give fewer leaves, another by=, or the program another fork"
            )
        roots = typed
    if known is None:
        return Plan(roots, by="appendix" if by in BY_RATES else by, program=program)
    model = Model(known, read_costs(program, costs), leaves if threads is None else threads, graph.runs(known))
    if by == "best":
        roots = _first_with_types(program, [without_idle_roots(best(graph, tags, model, leaves)), roots])
    elif by in BY_RATES:
        # Plans of Appendix B with fewer leaves are candidates too: joins may cost more than a leaf saves.
        others = [appendix(pieces, number) for number in leaf_counts(leaves)[:-1]]
        found = [roots, *others, *(without_idle_roots(tree) for tree in by_rates(graph, tags, model, leaves))]
        typed = [one for one in (with_types(program, trees) for trees in found) if one is not None]
        if by == "latency":
            # The delay of plans that cannot keep up is infinite: among these, take the one of highest throughput.
            roots = min(typed, key=lambda one: (model.delay_ns(one), -(model.events_per_second(one) or math.inf)))
        else:
            roots = max(typed, key=lambda one: model.events_per_second(one) or 0.0)
    return Plan(roots, known, model.events_per_second(roots), by, program)


def _first_with_types(program: Definition, plans: Iterable[Sequence[PlanNode]]) -> tuple[PlanNode, ...]:
    """The first of some plans whose nodes can have types of state; one with a single leaf always can."""
    return next(typed for typed in (with_types(program, roots) for roots in plans) if typed is not None)


def _check_whole(label: str, given: Any, most: int) -> None:
    if not is_whole_number(given) or not 1 <= given <= most:
        raise ParameterError(f"plan({label}={given!r}): give a whole number from 1 to {most:,}")


def streams_of(inputs: Mapping[Any, Any]) -> dict[str, int]:
    """Count the streams of each tag: a number of them, a list of inputs, or one input."""
    if not isinstance(inputs, Mapping):
        raise ParameterError(f'plan({inputs!r:.60}): give a dict of tags and inputs, or numbers of streams, as in {{"value": 2}}')
    streams: dict[str, int] = {}
    for tags, given in inputs.items():
        if is_whole_number(given):
            count = int(given)
        else:
            count = sum(_streams_of_one(tags, one) for one in (given if isinstance(given, list | tuple) else [given]))
        for name in tags if isinstance(tags, tuple) else (tags,):
            streams[name] = streams.get(name, 0) + count
    return streams


def _streams_of_one(tags: Any, given: Any) -> int:
    """Count the streams of one input, as far as can be said without opening it."""
    is_path = isinstance(given, str | os.PathLike)
    if given is None or isinstance(given, numbers.Number | Mapping | Set | bytes) or (is_path and not os.path.exists(given)):
        wrong = " there is no such file;" if is_path else ""
        raise ParameterError(
            f"plan({{{tags!r}: {given!r:.60}}}):{wrong} give the inputs of a tag, as for a run, or a whole number of streams"
        )
    count = getattr(given, "streams", 1)  # of `hr.streams`
    return count if isinstance(count, int) else 1


def streams_in(plan: Plan) -> dict[str, int]:
    """Count the streams of each tag that a plan owns."""
    found: dict[str, int] = {}
    for tag in plan.tags:
        found[tag.tag] = max(found.get(tag.tag, 0), tag.stream + 1)
    return found


@dataclass(frozen=True)
class Piece:
    """A connected part of the graph, and how it is taken apart.

    Attributes
    ----------
    removed : list of ImplementationTag
        The tags that have to be removed.
    parts : tuple of Piece
        What is left then, two pieces or more; none if it cannot be split.
    rate : float
        Of all its tags.
    """

    removed: list[ImplementationTag]
    parts: tuple[Piece, ...]
    rate: float

    @cached_property
    def tags(self) -> list[ImplementationTag]:
        """All of them."""
        return self.removed + [tag for part in self.parts for tag in part.tags]

    @cached_property
    def most_leaves(self) -> int:
        """How many leaves it can have."""
        return sum(part.most_leaves for part in self.parts) or 1


def taken_apart(graph: Dependence, tags: Iterable[ImplementationTag], rates: Rates) -> tuple[Piece, ...]:
    """Split a graph until no piece can be split further: the rarest tag is removed first (Appendix B).

    Of equally rare tags, the one on which the most others depend is removed first.
    """
    return tuple(_piece(graph, component, rates) for component in graph.components(tags))


def _piece(graph: Dependence, tags: list[ImplementationTag], rates: Rates) -> Piece:
    rate = sum(rates[tag] for tag in tags)
    degrees = graph.degrees(tags)
    order = sorted(tags, key=lambda tag: (rates[tag], -degrees[tag]))
    gone = graph.removed_until_apart(order)
    if gone is None:
        return Piece(tags, (), rate)
    return Piece(order[:gone], taken_apart(graph, order[gone:], rates), rate)


def appendix(pieces: Sequence[Piece], leaves: int) -> tuple[PlanNode, ...]:
    """Make the roots of Appendix B's plan, of at most so many leaves."""
    if not pieces:
        return (PlanNode(),)
    return without_idle_roots(_tree(pieces, leaves))


def without_idle_roots(root: PlanNode) -> tuple[PlanNode, ...]:
    """Leave out roots that own nothing and so never join their children."""
    if root.tags or not root.children:
        return (root,)
    return tuple(each for child in root.children for each in without_idle_roots(child))


def _tree(pieces: Sequence[Piece], leaves: int) -> PlanNode:
    if len(pieces) == 1:
        (piece,) = pieces
        if leaves == 1 or not piece.parts:
            return PlanNode(piece.tags)
        return PlanNode(piece.removed, _tree(piece.parts, leaves).children)
    if leaves == 1:
        return PlanNode(tag for piece in pieces for tag in piece.tags)
    left, right = _halves(pieces, leaves)
    for_left = _share(left, right, leaves)
    return PlanNode((), (_tree(left, for_left), _tree(right, leaves - for_left)))


def _halves(pieces: Sequence[Piece], leaves: int) -> tuple[list[Piece], list[Piece]]:
    """Share pieces between two sides, the largest first, to fit a number of leaves that may be odd."""
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    filled = [0.0, 0.0]
    room = (leaves - leaves // 2, leaves // 2)
    for piece in sorted(pieces, key=lambda piece: -piece.rate):
        side = min((0, 1), key=lambda side: (filled[side] / room[side], len(sides[side])))
        sides[side].append(piece)
        filled[side] += piece.rate
    return sides


def _share(left: Sequence[Piece], right: Sequence[Piece], leaves: int) -> int:
    """Return how many leaves the left side gets: by its rate, and no more than either side can use."""
    most_left, most_right = (sum(piece.most_leaves for piece in side) for side in (left, right))
    rate_left, rate_right = (sum(piece.rate for piece in side) for side in (left, right))
    total = rate_left + rate_right
    wanted = round(leaves * rate_left / total) if total else leaves - leaves // 2
    least = max(1, leaves - most_right)
    return max(min(wanted, most_left, leaves - 1), min(least, most_left))


def chain(graph: Dependence, roots: Sequence[PlanNode], leaves: int) -> tuple[PlanNode, ...]:
    """Hang the leaves of a plan on a chain of inner nodes, one on each; tags above them go down as far as they may.

    Leaves that are left over are empty.
    """
    leaf_tags, above = _leaves_and_above(roots, leaves)
    if leaves == 1:
        return (PlanNode(above + leaf_tags[0]),)
    spine: list[list[ImplementationTag]] = [[] for _ in range(leaves - 1)]
    # A tag has to be above, or at, the first leaf that has a tag which depends on it.
    parts = [_parts_of(tags) for tags in leaf_tags]
    for tag in above:
        own = _parts_of([tag])
        first = next((i for i, there in enumerate(parts) if graph.conflict(own, there)), leaves)
        spine[min(first, leaves - 2)].append(tag)
    tree = PlanNode(leaf_tags[-1])
    for tags, leaf in zip(reversed(spine), reversed(leaf_tags[:-1]), strict=True):
        tree = PlanNode(tags, (PlanNode(leaf), tree))
    return (tree,)


def flat(graph: Dependence, roots: Sequence[PlanNode], leaves: int) -> tuple[PlanNode, ...]:
    """Put all tags above the leaves into one root, and a balanced tree below it. Leaves left over are empty."""
    leaf_tags, above = _leaves_and_above(roots, leaves)
    if leaves == 1:
        return (PlanNode(above + leaf_tags[0]),)
    return (PlanNode(above, balanced([PlanNode(tags) for tags in leaf_tags]).children),)


def balanced(nodes: Sequence[PlanNode]) -> PlanNode:
    """Join nodes by a balanced tree of nodes that own nothing."""
    if len(nodes) == 1:
        return nodes[0]
    half = (len(nodes) + 1) // 2
    return PlanNode((), (balanced(nodes[:half]), balanced(nodes[half:])))


def _leaves_and_above(
    roots: Sequence[PlanNode], leaves: int
) -> tuple[list[list[ImplementationTag]], list[ImplementationTag]]:
    nodes = Plan(tuple(roots)).nodes
    leaf_tags = [list(one.node.tags) for one in nodes if one.leaf >= 0]
    above = [tag for one in nodes if one.leaf < 0 for tag in one.node.tags]
    return leaf_tags + [[] for _ in range(leaves - len(leaf_tags))], above


def _parts_of(tags: Iterable[ImplementationTag]) -> dict[str, set[int]]:
    parts: dict[str, set[int]] = {}
    for tag in tags:
        parts.setdefault(tag.tag, set()).add(tag.part)
    return parts
