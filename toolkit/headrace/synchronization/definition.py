"""What a program says, once it is read: tags, state, functions, and which tags depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.codegen.kinds import Kind
from headrace.codegen.state import StateField
from headrace.synchronization.tags import ImplementationTag, Tag, TagSet, part_of


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

    @property
    def periodic(self) -> dict[str, Tag]:
        """The tags whose events are made by event time."""
        return {name: tag for name, tag in self.tags.items() if tag.every is not None}

    def tag_of(self, name: str, payload: Mapping[str, Any], stream: int = 0) -> ImplementationTag:
        """Return the implementation tag of an event."""
        tag = self.tags[name]
        return ImplementationTag(name, 0 if tag.by is None else part_of(payload[tag.by], tag.parts), stream)

    def seen(self, held: Iterable[ImplementationTag]) -> TagSet:
        """Return a set of implementation tags as a fork sees it."""
        return TagSet(self.tags, held)


def dependent(program: Definition, a: ImplementationTag, b: ImplementationTag) -> bool:
    """Whether events of two implementation tags depend on each other: by tags and parts, whatever their streams."""
    return program.depends(a.tag, b.tag, a.part == b.part)


def independent(program: Definition, a: ImplementationTag, b: ImplementationTag) -> bool:
    """Whether they do not."""
    return not dependent(program, a, b)
