"""Which type of state each node of a plan has: the second phase of Appendix B's optimizer, and validity V1 with types.

A node's state must be able to process the tags of the node and of all below it, and the program must have a fork from its
type into those of its children. The type of a root is the first one.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import ParameterError
from headrace.names import instead
from headrace.synchronization.definition import Definition
from headrace.synchronization.plan_nodes import PlanNode, one_tree, placed
from headrace.synchronization.tag_ranges import tags_text


def matched(program: Definition, root: PlanNode) -> PlanNode | None:
    """Choose the type of every node of a tree, for a program with several types; None if no types fit.

    Of several ways, the one whose forks were given first is taken. A type that a node names itself stays.
    """
    names: dict[int, set[str]] = {}

    def below(node: PlanNode) -> set[str]:
        if id(node) not in names:
            names[id(node)] = {tag.tag for tag in node.tags}.union(*map(below, node.children))
        return names[id(node)]

    found: dict[tuple[int, str], PlanNode | None] = {}

    def match(node: PlanNode, of: str) -> PlanNode | None:
        if (id(node), of) not in found:
            found[id(node), of] = matching(node, of)
        return found[id(node), of]

    def matching(node: PlanNode, of: str) -> PlanNode | None:
        if node.state not in (None, of) or not program.may_process(of, below(node)):
            return None
        if not node.children:
            return PlanNode(node.tags, (), of)
        for signature in program.forks:
            if signature[0] == of:
                left, right = (match(child, to) for child, to in zip(node.children, signature[1:], strict=True))
                if left is not None and right is not None:
                    return PlanNode(node.tags, (left, right), of)
        return None

    return match(root, next(iter(program.types)))


def with_types(program: Definition, roots: Sequence[PlanNode]) -> tuple[PlanNode, ...] | None:
    """Choose the types of all nodes of several trees; None if no types fit. Trees of a program with one type are unchanged."""
    if len(program.types) == 1:
        return tuple(roots)
    if (tree := matched(program, one_tree(roots))) is None:
        return None
    if len(roots) == 1:
        return (tree,)
    # Split it into the trees again, by undoing the steps of `one_tree`.
    waiting = [tree]
    for _ in range(len(roots) - 1):
        last = waiting.pop()
        waiting = [*last.children, *waiting]
    return tuple(waiting)


def check_types(program: Definition, roots: Sequence[PlanNode]) -> None:
    """Refuse a plan whose nodes cannot have types of state that process what they own and what is below."""
    for one in placed(roots):
        of, tags = one.node.state, {tag.tag for tag in one.node.tags}
        if of is None:
            continue
        if len(program.types) == 1 or of not in program.types:
            known = [name for name in program.types if name]
            raise ParameterError(
                f"plan: {one.name} has the state {of!r}: {instead(of, known, 'the types')}" if known
                else f"plan: {one.name} has the state {of!r}, and {program.name} has one type of state; leave state= out"
            )  # fmt: skip
        if not program.may_process(of, tags):
            wrong = [tag for tag in one.node.tags if not program.may_process(of, [tag.tag])]
            raise ParameterError(
                f"plan: {one.name} owns {tags_text(wrong)}, which a state of type {of!r} may not process; it may process"
                f" {', '.join(sorted(program.processes[of]))}"
            )
    if with_types(program, roots) is None:
        said = "; ".join(f"{a} into {b} and {c}" for a, b, c in program.forks)
        raise ParameterError(
            f"plan: no types of state fit: the forks of {program.name} are {said or 'none'}, and each state has to be allowed"
            f" all tags from its node on down; move tags to nodes above, or give the program another fork"
        )


__all__ = ["check_types", "matched", "with_types"]
