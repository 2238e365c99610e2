"""The definition of a program, once it is read: tags, state, functions, and which tags depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.codegen.kinds import Kind, MapOf
from headrace.codegen.state import StateField
from headrace.reference.synchronization import Signature, state_types
from headrace.synchronization.tags import ImplementationTag, Tag, TagSet


@dataclass(frozen=True, eq=False, repr=False)
class Definition:
    """A DGS program (the paper's Definition 2.1).

    Attributes
    ----------
    name : str
    tags : mapping of str to Tag
        In the order given.
    state : mapping of str to StateField
        State of a root: the first type of state, and mostly the only one.
    emits : mapping of str to kind
    update : mapping of str to function (state, e, emit)
        Update function of each tag; with several types of state, by the types that may process the tag.
    fork : function (state, left, right, tags_left, tags_right), or None
        Writes two new states; without it there is one leaf.
    join : function (into, other), or None
        Adds one state to another.
    completed : tuple of (str, str)
        Pairs that `depends` did not name and that hold, since dependence is symmetric.
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
    states: Mapping[str, Mapping[str, StateField]] = field(default_factory=dict)
    """Where there are several types of state: name -> fields; the first is that of a root, and may process every tag."""
    processes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Type of state -> names of the tags that it may process."""
    forks: Mapping[Signature, Callable] = field(default_factory=dict)
    """Types of a state and of both sides -> function (state, left, right, tags_left, tags_right)."""
    joins: Mapping[Signature, Callable] = field(default_factory=dict)
    """The same types -> function (into, left, right)."""

    @property
    def types(self) -> Mapping[str, Mapping[str, StateField]]:
        """The types of state and their fields; a single type has no name."""
        return state_types(self)

    @property
    def by(self) -> str | None:
        """The column by whose keys the whole state is kept: all fields are ``hr.map_of(..., by=)``; None if there is none."""
        return next((field.kind.by for field in self.state.values() if isinstance(field.kind, MapOf)), None)

    def is_by_entry(self, name: str) -> bool:
        """Whether an event of a tag needs the entries of its own key alone."""
        return self.by is not None and self.tags[name].by == self.by

    @property
    def can_fork(self) -> bool:
        """Whether there may be several leaves."""
        return self.fork is not None or bool(self.forks)

    def may_process(self, of: str, names: Iterable[str]) -> bool:
        """Whether a type of state may process events of all these tags."""
        return of not in self.processes or self.processes[of].issuperset(names)

    def update_of(self, tag: str, of: str) -> Callable:
        """The function of a tag, for a type of state that may process it."""
        function: Any = self.update[tag]
        return function[of] if isinstance(function, Mapping) else function

    def depends(self, a: str, b: str, same_part: bool = True) -> bool:
        """Whether events of two tags depend on each other; of tags that both have keys, in one part or in two."""
        same, other = self.dependence[a, b]
        return same if same_part else other

    @property
    def periodic(self) -> dict[str, Tag]:
        """The tags whose events are made by event time."""
        return {name: tag for name, tag in self.tags.items() if tag.every is not None}

    def seen(self, held: Iterable[ImplementationTag]) -> TagSet:
        """Return a set of implementation tags as a fork sees it."""
        return TagSet(self.tags, held)


def dependent(program: Definition, a: ImplementationTag, b: ImplementationTag) -> bool:
    """Whether events of two implementation tags depend on each other: by tags and parts, whatever their streams."""
    return program.depends(a.tag, b.tag, a.part == b.part)


def independent(program: Definition, a: ImplementationTag, b: ImplementationTag) -> bool:
    """Whether they do not."""
    return not dependent(program, a, b)
