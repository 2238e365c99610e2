"""A plan as kernels have it: nodes in postorder, the queues of each, and which of them depend on each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.memory.atomics import CELL
from headrace.progress import MIN_TIME, NEVER
from headrace.synchronization import words
from headrace.synchronization.arrays import PlanArrays
from headrace.synchronization.definition import Definition
from headrace.synchronization.plan_nodes import PlanNode, one_tree
from headrace.synchronization.plans import Plan
from headrace.synchronization.state_types import matched
from headrace.synchronization.tags import ImplementationTag

TOP = "top"
Named = tuple[str, list["Named"]]
"""The name of a node, and what is below it."""


@dataclass
class Place:
    """A node of the tree, which is binary and has one root: several roots are joined by nodes without tags."""

    tags: tuple[ImplementationTag, ...]
    parent: int = -1
    left: int = -1
    right: int = -1
    state: int = 0
    """The number of its state's type."""
    below: int = 0
    """The nodes below, and the node, are `below` to its own number."""
    name: str = TOP
    """As the plan's drawing has it; "top" of a node that only joins several roots."""

    @property
    def is_leaf(self) -> bool:
        return self.left < 0


@dataclass
class Queue:
    """The events of one input and one tag at one node."""

    input: int
    node: int
    tag: str
    parts: set[int] = field(default_factory=set)


@dataclass
class Layout:
    """A plan in the form that kernels use.

    Attributes
    ----------
    places : list of Place
        In postorder.
    queues : list of Queue
        Those of an input follow each other.
    routes : list of list of int
        By input: queue of each of its implementation tags.
    dependents : list of list of int
        By queue: those whose events it has to keep order with.
    """

    places: list[Place]
    queues: list[Queue]
    routes: list[list[int]]
    dependents: list[list[int]]

    @property
    def leaves(self) -> list[int]:
        return [number for number, place in enumerate(self.places) if place.is_leaf]

    @property
    def names(self) -> list[str]:
        """A name for each node, in postorder; nodes that only join roots have different names too."""
        tops = itertools.count(1)
        several = sum(place.name == TOP for place in self.places) > 1
        return [f"{TOP} {next(tops)}" if several and place.name == TOP else place.name for place in self.places]

    def queues_of(self, node: int) -> list[int]:
        """The queues of a node."""
        return [number for number, queue in enumerate(self.queues) if queue.node == node]

    def queues_from(self, number: int) -> list[int]:
        """The queues of an input."""
        return [q for q, queue in enumerate(self.queues) if queue.input == number]

    def tags_below(self, node: int) -> Iterator[ImplementationTag]:
        """All implementation tags of a node and of those below."""
        for number in range(self.places[node].below, node + 1):
            yield from self.places[number].tags


def lay_out(plan: Plan, program: Definition, inputs: Sequence[Sequence[ImplementationTag]]) -> Layout:
    """Lay out a valid plan.

    Parameters
    ----------
    plan : Plan
    program : Definition
    inputs : sequence of sequence of ImplementationTag
        Of each input those that its rows may have.
    """
    root = one_tree(plan.roots)
    types = list(program.types)
    if len(types) > 1:
        root = matched(program, root)
        assert root is not None, "the plan is valid"
    places: list[Place] = []
    _add(root, types, places, _named(plan))
    owner = {tag: number for number, place in enumerate(places) for tag in place.tags}
    queues: list[Queue] = []
    routes: list[list[int]] = []
    for number, tags in enumerate(inputs):
        found: dict[tuple[int, str], int] = {}
        route = []
        for tag in tags:
            key = (owner[tag], tag.tag)
            if key not in found:
                found[key] = len(queues)
                queues.append(Queue(number, *key))
            queues[found[key]].parts.add(tag.part)
            route.append(found[key])
        routes.append(route)
    return Layout(places, queues, routes, _dependents(program, places, queues))


def _named(plan: Plan) -> Named:
    """The names of the nodes in the plan's drawing, as one tree; see `one_tree`."""
    names = (one.name for one in plan.nodes)  # in preorder

    def named(node: PlanNode) -> Named:
        return next(names), [named(child) for child in node.children]

    trees = [named(root) for root in plan.roots]
    while len(trees) > 1:
        trees = [*trees[2:], (TOP, trees[:2])]
    return trees[0]


def _add(node: PlanNode, types: Sequence[str], places: list[Place], named: Named) -> int:
    """Add a node after those below it; return its number."""
    below = len(places)
    name, names = named
    children = [_add(child, types, places, each) for child, each in zip(node.children, names, strict=True)]
    left, right = children or (-1, -1)
    for child in children:
        places[child].parent = len(places)
    state = 0 if node.state is None else types.index(node.state)
    places.append(Place(tuple(node.tags), left=left, right=right, state=state, below=below, name=name))
    return len(places) - 1


def _dependents(program: Definition, places: Sequence[Place], queues: Sequence[Queue]) -> list[list[int]]:
    def is_within(m: int, n: int) -> bool:
        return places[n].below <= m <= n

    def are_related(a: Queue, b: Queue) -> bool:
        return is_within(a.node, b.node) or is_within(b.node, a.node)

    def depend(a: Queue, b: Queue) -> bool:
        if program.depends(a.tag, b.tag, same_part=True) and a.parts & b.parts:
            return True
        return program.depends(a.tag, b.tag, same_part=False) and len(a.parts | b.parts) > 1

    return [
        [j for j, b in enumerate(queues) if j != i and are_related(a, b) and depend(a, b)] for i, a in enumerate(queues)
    ]


def write_plan(
    c: PlanArrays, layout: Layout, tags: Sequence[str], by_entry: Sequence[str] = (), may_stay: bool = False
) -> None:
    """Write a plan into the arrays, with all of its state at the root. No node is run, no input publishes, queues are empty.

    Events of tags in `by_entry` take only the entries of their own key. Where states `may_stay` joined, events of leaves
    may be processed on the state of a node above.
    """
    places, queues = layout.places, layout.queues
    c.node[words.STATE :: words.NODE_CELLS * CELL] = words.AT_REST  # also of leaves of an earlier plan: no worker takes one
    c.shape[[words.NODES, words.LEAVES, words.QUEUES, words.ROOT, words.STAYS]] = (
        len(places), len(layout.leaves), len(queues), len(places) - 1, may_stay
    )  # fmt: skip
    c.leaves[: len(layout.leaves)] = layout.leaves
    owned = 0
    for number, place in enumerate(places):
        own = layout.queues_of(number)
        c.owned[owned : owned + len(own)] = own
        c.tree[number, : words.END_OWN + 1] = (
            place.parent, place.left, place.right, place.below, owned, owned + len(own)
        )  # fmt: skip
        owned += len(own)
        cell = number * words.NODE_CELLS * CELL
        c.node[cell + words.STATE], c.node[cell + words.RESTING], c.node[cell + words.JOINED] = words.AT_REST, 2, 1
    at = 0
    for number, queue in enumerate(queues):
        dependents = layout.dependents[number]
        c.dependents[at : at + len(dependents)] = dependents
        tag = tags.index(queue.tag)
        c.form[number, : words.ENTRY_TAG + 1] = (
            queue.input, queue.node, tag, at, at + len(dependents), len(tags) + tag if queue.tag in by_entry else -1
        )  # fmt: skip
        at += len(dependents)
        cell = number * words.QUEUE_CELLS * CELL
        c.queue[cell : cell + words.QUEUE_CELLS * CELL] = 0
        c.queue[cell + words.DONE_TS], c.queue[cell + words.WAKE_AT] = MIN_TIME, NEVER
    for number in range(len(c.given)):
        own = layout.queues_from(number)
        c.given[number, [words.FIRST_QUEUE, words.END_QUEUE]] = own[0], own[-1] + 1
