"""What a program says, once it is read: tags, state, functions, and which tags depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.codegen.kinds import Kind
from headrace.codegen.state import StateField
from headrace.synchronization.tags import ImplementationTag, Tag


@dataclass(frozen=True, eq=False, repr=False)
class Definition:
    """A DGS program (the paper's Definition 2.1), with one type of state.

    Attributes
    ----------
    name : str
    tags : mapping of str to Tag
        In the order given.
    state : mapping of str to StateField
    emits : mapping of str to kind
    update : mapping of str to function (state, e, emit)
        Of each tag.
    fork : function (state, left, right, tags_left, tags_right), or None
        Writes two new states; without it there is one leaf.
    join : function (into, other), or None
        Adds one state to another.
    completed : tuple of (str, str)
        What `depends` did not say and holds, since dependence is symmetric.
    """

    name: str
    tags: Mapping[str, Tag]
    state: Mapping[str, StateField]
    emits: Mapping[str, Kind]
    update: Mapping[str, Callable]
    fork: Callable | None
    join: Callable | None
    completed: tuple[tuple[str, str], ...] = ()
    dependence: Mapping[tuple[str, str], tuple[bool, bool]] = field(default_factory=dict)
    """Two tags -> whether they depend in the same part, and in different parts."""

    def depends(self, a: str, b: str, same_part: bool = True) -> bool:
        """Whether events of two tags depend on each other; of tags that both have keys, in one part or in two."""
        same, other = self.dependence[a, b]
        return same if same_part else other


def dependent(program: Definition, a: ImplementationTag, b: ImplementationTag) -> bool:
    """Whether events of two implementation tags depend on each other: by tags and parts, whatever their streams."""
    return program.depends(a.tag, b.tag, a.part == b.part)


def independent(program: Definition, a: ImplementationTag, b: ImplementationTag) -> bool:
    """Whether they do not."""
    return not dependent(program, a, b)
