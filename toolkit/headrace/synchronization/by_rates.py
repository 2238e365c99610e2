"""Makes plans from rates and costs: which tags go up the tree, and how many leaves each part gets, by the cost model.

It goes beyond Appendix B. Tags that need not have gone up for the rest to be in pieces are taken down again. Other orders
than that of the rates are tried, and separators that are small or that stay deep in the tree. More leaves are given where
that relieves the busiest leaf, and the other pieces are packed. Nothing is split where joins would cost more than they
save. The search is a heuristic: it looks at some plans, not at all.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headrace.synchronization.dependence import Dependence
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.prediction import Load, Model
from headrace.synchronization.tags import ImplementationTag

_HALVINGS = 24
"""Of the interval in which the shortest time is looked for."""
_MANY_LEAVES = 8
"""Above that, not every number of leaves is tried."""

Tags = Sequence[ImplementationTag]


class Tree(NamedTuple):
    """A tree of workers and what it has to do."""

    load: Load
    node: PlanNode


def leaf_counts(leaves: int) -> list[int]:
    """Return numbers of leaves to try: few of the large ones.

    Examples
    --------
    >>> leaf_counts(40)
    [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 40]
    """
    return [n for n in range(1, leaves + 1) if n <= _MANY_LEAVES or n == leaves or n & (n - 1) == 0]


def by_rates(graph: Dependence, tags: Tags, model: Model, leaves: int) -> list[PlanNode]:
    """Make trees for all tags: one for each number of leaves tried, up to the given maximum."""
    return [tree.node for tree in _Planner(graph, model, leaves).side_by_side(tags)]


class _Planner:
    def __init__(self, graph: Dependence, model: Model, leaves: int):
        self.graph, self.model, self.leaves = graph, model, leaves
        self.steps = leaf_counts(leaves)
        self.known: dict[frozenset, tuple[int | None, list[Tree]]] = {}

    def side_by_side(self, tags: Tags) -> list[Tree]:
        """Trees for tags in independent pieces, by number of leaves."""
        return self.arranged((), [self.trees(piece) for piece in self.graph.components(tags)])

    def trees(self, piece: Tags) -> list[Tree]:
        """Trees for a connected piece, by number of leaves: the best of the ways to take it apart."""
        # Pieces that differ only in their part of the keys have the same trees.
        own = {tag.part for tag in piece}
        part = own.pop() if len(own) == 1 else None
        key = frozenset(piece if part is None else map(self.alike, piece))
        if key not in self.known:
            found = [self.leaf(piece)]
            if len(piece) > 1 and self.leaves > 1:
                for removed in self.separators(piece):
                    rest = [tag for tag in piece if tag not in removed]
                    parts = [self.trees(part) for part in self.graph.components(rest)]
                    found.extend(self.arranged([tag for tag in piece if tag in removed], parts))
            self.known[key] = part, _best_of_each(found)
        known_part, trees = self.known[key]
        if part is None or part == known_part:
            return trees
        return [Tree(tree.load, _of_part(tree.node, part)) for tree in trees]

    def alike(self, tag: ImplementationTag) -> tuple:
        """What a tag has in common with those of other parts that cost as much."""
        return tag.tag, tag.stream, self.model.rates[tag], self.model.updates([tag])

    def leaf(self, tags: Tags) -> Tree:
        """A leaf of some tags."""
        return Tree(self.model.leaf(tags), PlanNode(tags))

    # Which tags go up

    def separators(self, piece: Tags) -> list[frozenset[ImplementationTag]]:
        """Separators: sets of tags without which a piece falls apart."""
        degrees, rates = self.graph.degrees(piece), self.model.rates
        weights: list[Callable[[ImplementationTag], tuple[float, float]]] = [
            lambda tag: (rates[tag], -degrees[tag]),
            lambda tag: (rates[tag] / max(1, degrees[tag]), rates[tag]),
            lambda tag: (-degrees[tag], rates[tag]),
        ]
        found: dict[frozenset[ImplementationTag], None] = {}
        for weight in weights:
            order = sorted(piece, key=weight)
            gone = self.graph.removed_until_apart(order)
            if gone is None:
                continue
            for least_pieces in (len(self.graph.components(order[gone:])), 2):
                found[self.taken_down(order[:gone], order[gone:], least_pieces)] = None
        return list(found)

    def taken_down(self, removed: Tags, rest: Tags, least_pieces: int) -> frozenset[ImplementationTag]:
        """Take tags down again, the most frequent first, while the number of pieces stays; return those that stay up."""
        # The pieces that each part of each name is in; pieces connected by a tag count as one from then on.
        piece_of: list[int] = []
        index: dict[str, dict[int, set[int]]] = {}
        for number, piece in enumerate(self.graph.components(rest)):
            piece_of.append(number)
            for tag in piece:
                index.setdefault(tag.tag, {}).setdefault(tag.part, set()).add(number)

        def find(number: int) -> int:
            while piece_of[number] != number:
                number = piece_of[number]
            return number

        pieces, staying = len(piece_of), []
        for tag in sorted(removed, key=lambda tag: -self.model.rates[tag]):
            touched = {find(n) for name, parts in self.graph.neighbours(tag, index) for part in parts for n in index[name][part]}
            if pieces - max(0, len(touched) - 1) < least_pieces:
                staying.append(tag)
                continue
            number = min(touched, default=len(piece_of))
            if not touched:
                piece_of.append(number)
                pieces += 1
            for other in touched - {number}:
                piece_of[other] = number
                pieces -= 1
            index.setdefault(tag.tag, {}).setdefault(tag.part, set()).add(number)
        return frozenset(staying)

    # How many leaves each part gets

    def arranged(self, above: Tags, parts: list[list[Tree]]) -> list[Tree]:
        """Trees with some tags above parts that are independent of each other, by number of leaves."""
        if len(parts) < 2:
            return parts[0] if parts else [self.leaf(())]
        found = [self.leaf([*above, *(tag for part in parts for tag in part[0].node.tags)])]
        most = sum(part[-1].load.forks + 1 for part in parts)
        for leaves in sorted({min(step, most) for step in self.steps if step > 1}):
            shared = self.shared_out(parts, leaves)
            if len(shared) > 1:
                left, right = _joined(self.model, shared)
                load = self.model.above(above, left.load, right.load)
                found.append(Tree(load, PlanNode(above, (left.node, right.node))))
        return _best_of_each(found)

    def shared_out(self, parts: list[list[Tree]], leaves: int) -> list[Tree]:
        """Share leaves among parts so that the busiest leaf has little to do: some parts get several, others share one."""
        low, high = 0.0, sum(part[0].load.busy for part in parts)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self.fitting(parts, leaves, middle) is None:
                low = middle
            else:
                high = middle
        # All parts fit into one leaf, if it may be as busy as all of them together.
        split, shared = self.fitting(parts, leaves, high) or ([], [[part[0] for part in parts]])
        return split + [self.leaf([tag for tree in trees for tag in tree.node.tags]) for trees in shared]

    def fitting(
        self, parts: list[list[Tree]], leaves: int, longest: float
    ) -> tuple[list[Tree], list[list[Tree]]] | None:
        """Give each part a tree of its own, or a share of a leaf, none busier than `longest`; None if leaves are too few."""
        split, small = [], []
        for part in parts:
            fits = next((tree for tree in part if tree.load.busy <= longest), None)
            if fits is None:
                return None
            if fits.load.forks:
                split.append(fits)
                leaves -= fits.load.forks + 1
            else:
                small.append(fits)
        if leaves < min(1, len(small)):
            return None
        # The busiest first, each to the least busy leaf.
        shared: list[list[Tree]] = [[] for _ in range(min(leaves, len(small)))]
        filled = [(0.0, i) for i in range(len(shared))]
        for tree in sorted(small, key=lambda tree: -tree.load.busy):
            busy, number = filled[0]
            if busy + tree.load.busy > longest * (1 + 1e-9):
                return None
            shared[number].append(tree)
            heapq.heapreplace(filled, (busy + tree.load.busy, number))
        return split, shared


def _joined(model: Model, trees: list[Tree]) -> tuple[Tree, Tree]:
    """Join trees by nodes that own nothing, the two lowest first, until two are left: so the result is as low as possible."""
    order = itertools.count()
    heap = [(tree.load.height, next(order), tree) for tree in trees]
    heapq.heapify(heap)
    while len(heap) > 2:
        (_, _, left), (_, _, right) = heapq.heappop(heap), heapq.heappop(heap)
        load = model.above((), left.load, right.load)
        heapq.heappush(heap, (load.height, next(order), Tree(load, PlanNode((), (left.node, right.node)))))
    (_, _, left), (_, _, right) = heap
    return left, right


def _of_part(node: PlanNode, part: int) -> PlanNode:
    """The same tree for another part of the keys."""
    return PlanNode([tag._replace(part=part) for tag in node.tags], [_of_part(child, part) for child in node.children])


def _best_of_each(trees: list[Tree]) -> list[Tree]:
    """Keep the least busy tree of each number of leaves, and of these only those less busy than all with fewer leaves."""
    best: list[Tree] = []
    for tree in sorted(trees, key=lambda tree: (tree.load.forks, tree.load.busy, tree.load.height, tree.load.work)):
        if not best or tree.load.busy < best[-1].load.busy:
            best.append(tree)
    return best
