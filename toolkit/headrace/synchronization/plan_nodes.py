"""Nodes of a synchronization plan, and their places in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.errors import ParameterError
from headrace.synchronization.tags import ImplementationTag


@dataclass(frozen=True)
class PlanNode:
    """A node of a plan: which tags it processes, and between which children it forks its state.

    Parameters
    ----------
    tags : iterable of ImplementationTag, or of (name of the tag, part, stream)
        The implementation tags it owns; kept in order.
    children : iterable of PlanNode
        None for a leaf, or two for a node that joins and forks.
    state : str, optional
        The type of its state, if the program has several; by default it is inferred.

    Examples
    --------
    >>> leaves = [PlanNode([("value", 0, stream)]) for stream in (0, 1)]
    >>> root = PlanNode([("barrier", 0, 0)], leaves)
    >>> root.tags, len(root.children)
    ((ImplementationTag(tag='barrier', part=0, stream=0),), 2)
    """

    tags: tuple[ImplementationTag, ...] = ()
    children: tuple[PlanNode, ...] = ()
    state: str | None = None

    def __init__(
        self, tags: Iterable[tuple[str, int, int]] = (), children: Iterable[PlanNode] = (), state: str | None = None
    ):
        object.__setattr__(self, "tags", tuple(sorted(map(_read_tag, tags))))
        children = tuple(children)
        if any(not isinstance(child, PlanNode) for child in children):
            raise ParameterError(f"plan: children={children!r}: give nodes, PlanNode(tags, children)")
        if len(children) not in (0, 2):
            raise ParameterError(
                f"plan: a node with {len(children)} {'child' if len(children) == 1 else 'children'}: a leaf has none,"
                f" and a node that forks has two"
            )
        object.__setattr__(self, "children", children)
        if state is not None and not isinstance(state, str):
            raise ParameterError(f"plan: state={state!r}: give the name of a type of state, or leave it out")
        object.__setattr__(self, "state", state)


def _read_tag(given: object) -> ImplementationTag:
    if isinstance(given, tuple | list) and len(given) == 3:
        name, *numbers = given
        if isinstance(name, str) and all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in numbers):
            return ImplementationTag(name, *numbers)
    raise ParameterError(f"plan: tag {given!r}: give (name of the tag, part, stream), as in ('value', 0, 1)")


@dataclass(frozen=True)
class Placed:
    """A node of a plan, and its place.

    Attributes
    ----------
    index : int
        In preorder, left before right.
    parent : int
        Index of its parent, -1 for a root.
    depth : int
        0 for a root.
    leaf : int
        Number of the leaf, from the left; -1 for an inner node.
    node : PlanNode
    """

    index: int
    parent: int
    depth: int
    leaf: int
    node: PlanNode

    @property
    def name(self) -> str:
        """Its name in drawings and messages."""
        return f"node {self.index}" if self.leaf < 0 else f"leaf {self.leaf}"


def one_tree(roots: Sequence[PlanNode]) -> PlanNode:
    """Make one tree of several, by adding nodes that own nothing."""
    roots = list(roots)
    while len(roots) > 1:
        roots = [*roots[2:], PlanNode((), roots[:2])]
    return roots[0]


def placed(roots: Sequence[PlanNode]) -> Iterator[Placed]:
    """Go through all nodes in preorder."""
    waiting = [(root, -1, 0) for root in reversed(roots)]
    index = leaf = 0
    while waiting:
        node, parent, depth = waiting.pop()
        yield Placed(index, parent, depth, -1 if node.children else leaf, node)
        leaf += not node.children
        waiting.extend((child, index, depth + 1) for child in reversed(node.children))
        index += 1
