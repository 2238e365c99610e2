"""Finds the best plan by the model by trying all of them: the bound for optimizers, on small programs.

Three things keep the search short. A set of tags has the same best trees wherever it stands in a plan, so they are kept by
set, as bits. Of two trees for one set with equally many leaves, one that is better in no respect is dropped. And a tag need
not be above two trees if it depends on only one of them: in that tree's root it costs no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.errors import ParameterError
from headrace.synchronization.dependence import Dependence
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.prediction import Load, Model
from headrace.synchronization.tags import ImplementationTag

MOST_TAGS = 10


class _Tree(NamedTuple):
    load: Load
    node: PlanNode


def best(graph: Dependence, tags: Sequence[ImplementationTag], model: Model, leaves: int) -> PlanNode:
    """Find the tree of at most so many leaves that takes the most events per second."""
    if len(tags) > MOST_TAGS:
        raise ParameterError(
            f"plan(by='best'): {len(tags):,} implementation tags: all plans are tried for at most {MOST_TAGS}; take by='rates'"
        )
    search = _Search(graph, tags, model)
    trees = [tree for found in search.trees((1 << len(tags)) - 1, leaves) for tree in found]
    return min(trees, key=lambda tree: (model.seconds(tree.load.busy, tree.load.work), tree.load.forks)).node


class _Search:
    def __init__(self, graph: Dependence, tags: Sequence[ImplementationTag], model: Model):
        self.tags, self.model = tags, model
        self.touching = [
            sum(1 << j for j, other in enumerate(tags) if i != j and len(graph.components([tag, other])) == 1)
            for i, tag in enumerate(tags)
        ]
        self.found: dict[tuple[int, int], list[list[_Tree]]] = {}

    def trees(self, mask: int, leaves: int) -> list[list[_Tree]]:
        """Trees for a set of tags, none dominated by another: by number of leaves, from 1 on."""
        leaves = max(1, min(leaves, mask.bit_count()))
        if (mask, leaves) in self.found:
            return self.found[mask, leaves]
        own = self.members(mask)
        found: list[list[_Tree]] = [[] for _ in range(leaves)]
        found[0].append(_Tree(self.model.leaf(own), PlanNode(own)))
        if leaves > 1:
            for above, left, right in self.splits(mask):
                above_tags = self.members(above)
                for i, lefts in enumerate(self.trees(left, leaves - 1), 1):
                    for j, rights in enumerate(self.trees(right, leaves - i), 1):
                        for a in lefts:
                            for b in rights:
                                load = self.model.above(above_tags, a.load, b.load)
                                _keep(found[i + j - 1], _Tree(load, PlanNode(above_tags, (a.node, b.node))))
        self.found[mask, leaves] = found
        return found

    def splits(self, mask: int) -> Iterator[tuple[int, int, int]]:
        """Ways to put some tags above two independent sets of the others."""
        above = mask
        while above:
            above = (above - 1) & mask  # all proper subsets, the empty one last
            pieces = self.pieces(mask & ~above)
            for choice in range(0, (1 << len(pieces)) - 1, 2):  # the first piece is always on the right
                left = sum(piece for i, piece in enumerate(pieces) if choice >> i & 1)
                right = mask & ~above & ~left
                if left and all(self.touching[i] & left and self.touching[i] & right for i in _bits(above)):
                    yield above, left, right

    def pieces(self, mask: int) -> list[int]:
        """Connected sets."""
        pieces = []
        while mask:
            piece, border = 0, mask & -mask
            while border:
                piece |= border
                border = mask & ~piece & self._touched(border)
            pieces.append(piece)
            mask &= ~piece
        return pieces

    def _touched(self, mask: int) -> int:
        touched = 0
        for i in _bits(mask):
            touched |= self.touching[i]
        return touched

    def members(self, mask: int) -> list[ImplementationTag]:
        return [self.tags[i] for i in _bits(mask)]


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _keep(trees: list[_Tree], new: _Tree) -> None:
    """Add a tree, unless another is at least as good in all that matters further up; drop the trees that it dominates."""

    def serves(one: Load, other: Load) -> bool:
        return one.busy <= other.busy and one.height <= other.height and one.work <= other.work

    if not any(serves(one.load, new.load) for one in trees):
        trees[:] = [one for one in trees if not serves(new.load, one.load)] + [new]
