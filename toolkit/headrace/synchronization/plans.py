"""Synchronization plans: which node processes which implementation tags, and which nodes it joins (the paper's section 3.2).

A leaf processes its events without waiting. A node with children processes an event on the joined state of
all leaves below it, and then forks it again. So events that depend on each other must be in one node, or in nodes of which
one is above the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from headrace.arguments import is_whole_number
from headrace.errors import ParameterError
from headrace.names import instead
from headrace.summary import counted
from headrace.synchronization import plan_json
from headrace.synchronization.definition import Definition
from headrace.synchronization.dependence import Dependence
from headrace.synchronization.drawing import plan_svg, plan_text
from headrace.synchronization.plan_json import MOST_LEAVES
from headrace.synchronization.plan_nodes import Placed, PlanNode, placed
from headrace.synchronization.state_types import check_types
from headrace.synchronization.tag_ranges import tags_text
from headrace.synchronization.tags import ImplementationTag

MOST_STREAMS = plan_json.MOST_STREAMS
"""Of one tag."""


def implementation_tags(program: Definition, streams: Mapping[str, int]) -> list[ImplementationTag]:
    """List all implementation tags: each part of each tag in each of its streams.

    Parameters
    ----------
    program : Program
    streams : mapping of str to int
        Name of a tag -> number of its streams; a tag without events may be left out.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> program = SimpleNamespace(tags={"barrier": SimpleNamespace(parts=1), "inc": SimpleNamespace(parts=2)})
    >>> [tuple(one) for one in implementation_tags(program, {"inc": 1, "barrier": 1})]
    [('barrier', 0, 0), ('inc', 0, 0), ('inc', 1, 0)]
    """
    for name, number in streams.items():
        if name not in program.tags:
            raise ParameterError(f"streams: there is no tag {name!r}; {instead(name, program.tags, 'the tags')}")
        if not is_whole_number(number) or not 0 <= number <= MOST_STREAMS:
            raise ParameterError(f"streams: {name}={number!r}: give the number of its streams, from 0 to {MOST_STREAMS:,}")
    return [
        ImplementationTag(name, part, stream)
        for name, tag in program.tags.items()
        for part in range(tag.parts)
        for stream in range(streams.get(name, 0))
    ]


@dataclass(frozen=True, repr=False)
class Plan:
    """A tree of workers, or several trees side by side. Its `repr` is a drawing.

    Parameters
    ----------
    roots : iterable of PlanNode
        Trees whose events are independent of each other's; mostly one.
    rates : mapping of ImplementationTag to float, optional
        Rates it was made for, shown in the drawing.
    predicted : float, optional
        Events per second, of all tags, at which it is busy all the time.
    by : str, optional
        What made it, as named by `Program.plan`; None: it was written by hand.
    program : Program, optional
        The program for which it was made, or is in force.

    Raises
    ------
    ParameterError
        There is no root, or there are more than 64 leaves.

    Examples
    --------
    >>> values = [PlanNode([("value", 0, stream)]) for stream in (0, 1)]
    >>> plan = Plan([PlanNode([("barrier", 0, 0)], values)])
    >>> plan
    node 0  barrier
    ├─ leaf 0  value (stream 0)
    └─ leaf 1  value (stream 1)
    >>> str(plan) == repr(plan), f"a plan of {plan}"
    (True, 'a plan of 2 leaves')
    >>> Plan.from_json(plan.to_json()) == plan
    True
    """

    roots: tuple[PlanNode, ...]
    rates: Mapping[ImplementationTag, float] | None = field(default=None, compare=False)
    predicted: float | None = field(default=None, compare=False)
    by: str | None = field(default=None, compare=False)
    program: Definition | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        roots = (self.roots,) if isinstance(self.roots, PlanNode) else tuple(self.roots)
        if not roots or any(not isinstance(root, PlanNode) for root in roots):
            raise ParameterError(f"plan: roots={roots!r:.60}: give one node or more, PlanNode(tags, children)")
        object.__setattr__(self, "roots", roots)
        if len(self.leaves) > MOST_LEAVES:
            raise ParameterError(f"plan: {len(self.leaves)} leaves: give at most {MOST_LEAVES}")

    @cached_property
    def nodes(self) -> tuple[Placed, ...]:
        """All nodes in preorder, each with its place."""
        return tuple(placed(self.roots))

    @property
    def leaves(self) -> tuple[Placed, ...]:
        """Nodes without children, from the left."""
        return tuple(one for one in self.nodes if one.leaf >= 0)

    @property
    def tags(self) -> list[ImplementationTag]:
        """All implementation tags that its nodes own."""
        return [tag for one in self.nodes for tag in one.node.tags]

    @property
    def labels(self) -> tuple[str, ...]:
        """What each node owns, in words, in the order of `nodes`; "" if it owns nothing."""
        there = self.tags
        return tuple(tags_text(one.node.tags, there) if one.node.tags else "" for one in self.nodes)

    @property
    def word(self) -> str:
        """Its name in records of changes."""
        leaves = len(self.leaves)
        said = "1 leaf" if leaves == 1 else f"{leaves} leaves"
        return said if self.by is None else f"{said} ({self.by})"

    def __format__(self, spec: str) -> str:
        """Format the word: within a line of text, as in ``f"{plan}"``, there is no room for the tree that `print` shows."""
        return format(self.word, spec)

    def to_json(self) -> str:
        """Write the tree as JSON, without the rates it was made for."""
        return plan_json.to_json(self.roots)

    @classmethod
    def from_json(cls, text: str | Mapping[str, Any]) -> Plan:
        """Read a plan that `to_json` wrote, or that was written by hand.

        Parameters
        ----------
        text : str or mapping
            JSON, as text or parsed: an object with ``roots``. A node has ``tags`` and ``children`` (none or two);
            a tag has ``tag``, and ``parts`` and ``streams`` as a number or as ranges, ``"0-31, 40"``, by default 0.
            ``state`` names the node's type of state, where the program has several.

        Raises
        ------
        ParameterError
            Something is wrong; the text names the place and what should be there.

        Examples
        --------
        >>> Plan.from_json('{"roots": [{"tags": [{"tag": "inc", "parts": "0-3"}, {"tag": "reset", "parts": "0-3"}]}]}')
        leaf 0  inc, reset
        """
        return cls(plan_json.from_json(text))

    def check(self, program: Definition, tags: Iterable[ImplementationTag] | Mapping[str, int]) -> Plan:
        """Refuse a plan that would not give the program's result.

        Parameters
        ----------
        program : Program
        tags : iterable of ImplementationTag, or mapping of str to int
            All implementation tags, or the number of streams of each tag.

        Returns
        -------
        Plan
            This plan.

        Raises
        ------
        ParameterError
            An implementation tag is owned by no node or by two, or does not exist; dependent ones are in nodes of which
            neither is above the other; a program without a fork has several nodes; or a type of state may not
            process the tags of its node. The text names tags and nodes.

        Notes
        -----
        The paper's Definition 3.2: V1, and V2 with each implementation tag owned exactly once.
        """
        there = implementation_tags(program, tags) if isinstance(tags, Mapping) else list(tags)
        self._check_owners(program, there)
        if len(self.nodes) > 1 and not program.can_fork:
            raise ParameterError(
                f"plan: {len(self.nodes)} nodes: {program.name} has no fork and join, so its plan is one leaf;"
                f" give program(fork=, join=), or leaves=1"
            )
        self._check_independence(Dependence(program), there)
        check_types(program, self.roots)
        return self

    def _check_owners(self, program: Definition, there: list[ImplementationTag]) -> None:
        owners: dict[ImplementationTag, Placed] = {}
        missing = dict.fromkeys(there)
        for one in self.nodes:
            for tag in one.node.tags:
                if tag in owners:
                    twice = "twice" if owners[tag] is one else f"and so does {owners[tag].name}"
                    raise ParameterError(
                        f"plan: {one.name} owns {tags_text([tag], there)}, {twice}: each tag of each stream belongs to one node;"
                        f" leave it out of the other"
                    )
                owners[tag] = one
                if tag not in missing:
                    raise ParameterError(f"plan: {one.name} owns {tags_text([tag])}, {_absent(program, tag, there)}")
                del missing[tag]
        if missing:
            raise ParameterError(f"plan: no node owns {tags_text(missing, there)}; give it to one")

    def _check_independence(self, graph: Dependence, there: list[ImplementationTag]) -> None:
        below: list[dict[str, set[int]]] = [{} for _ in self.nodes]
        # Children come after their parents: from the end, a node is met when all of its children have been.
        beside: dict[int, dict[str, set[int]]] = {}
        for one in reversed(self.nodes):
            own = below[one.index]
            for tag in one.node.tags:
                own.setdefault(tag.tag, set()).add(tag.part)
            sibling = beside.setdefault(one.parent, {})
            if found := graph.conflict(own, sibling):
                raise self._conflict(one, *found, there)
            for name, parts in own.items():
                sibling.setdefault(name, set()).update(parts)
            if one.parent >= 0:
                below[one.parent] = sibling

    def _conflict(
        self, one: Placed, here: tuple[str, int], beside: tuple[str, int], there: list[ImplementationTag]
    ) -> ParameterError:
        """Name the nodes: one in this subtree, another in those to the right of it."""
        end = next((other.index for other in self.nodes[one.index + 1 :] if other.depth <= one.depth), len(self.nodes))
        said = []
        for (name, part), nodes in ((here, self.nodes[one.index : end]), (beside, self.nodes[end:])):
            node, tag = next((node, tag) for node in nodes for tag in node.node.tags if tag[:2] == (name, part))
            said.append(f"{tags_text([tag], there)} of {node.name}")
        return ParameterError(
            f"plan: {' and '.join(said)} depend on each other, and neither node is above the other: put both into one node,"
            f" or one of them into a node above the other"
        )

    def __repr__(self) -> str:
        return plan_text(self.nodes, self.rates, self.predicted)

    def _repr_html_(self) -> str:  # not as image/svg+xml: JupyterLab makes that an <img>, which cannot follow its theme
        return plan_svg(self.nodes, self.rates, self.predicted)


def _absent(program: Definition, tag: ImplementationTag, there: list[ImplementationTag]) -> str:
    """Say why an implementation tag is not there."""
    if tag.tag not in program.tags:
        return f"which is no tag of {program.name}; {instead(tag.tag, program.tags, 'the tags')}"
    parts = program.tags[tag.tag].parts
    if tag.part >= parts:
        return f"and {tag.tag} has {counted(parts, 'part')}, from 0 on; leave it out"
    streams = len({one.stream for one in there if one.tag == tag.tag})
    return f"and {tag.tag} has {counted(streams, 'stream')}, from 0 on; leave it out"
