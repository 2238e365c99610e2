"""Programs of dependency-guided synchronization: what their plans must be equal to (Kallas et al., section 2).

`run` is the sequential specification: one event after another, in the order (event time, input, position in that input).
`evaluate` is Definition 2.2, independent of it: a wire diagram in which states are forked, updated on parallel wires and
joined. By Theorem 2.4 both give the same outputs if the program is consistent. A program is anything that has `state`,
`emits`, `update`, `fork` and `join`, as `hr.program` returns. One with several types of state has `states` (the first is
that of a root), `processes` (the tags that each may process), `forks` and `joins` by the types of a wire and of its two
sides, and in `update`, for each tag, a function for each type that may process it.

>>> from types import SimpleNamespace
>>> def add(state, e, emit):
...     state.sum += e.x
>>> def close(state, e, emit):
...     emit(sum=state.sum)
...     state.sum = 0
>>> def split(state, left, right, tags_left, tags_right):
...     if "barrier" in tags_right:
...         right.sum = state.sum
...     else:
...         left.sum = state.sum
>>> def merge(into, other):
...     into.sum += other.sum
>>> window = SimpleNamespace(
...     state={"sum": "int64"}, emits={"sum": "int64"}, update={"value": add, "barrier": close}, fork=split, join=merge
... )
>>> one, two = [(0, {"x": 1}), (5, {"x": 2})], [(3, {"x": 10}), (9, {"x": 20})]
>>> inputs = [("value", one), ("value", two), ("barrier", [(4, {}), (9, {})])]
>>> run(window, inputs)
[{'ts': 4, 'sum': 11}, {'ts': 9, 'sum': 22}]

As a diagram: the first two values on parallel wires, and one after the other what follows::

    --fork---- x=1 -----join-- barrier -- x=2 -- x=20 -- barrier --
         \\---- x=10 ---/

>>> e = [Update(position, event) for position, event in enumerate(merged(inputs))]
>>> evaluate(window, Sequence((Parallel({"value"}, {"value"}, e[0], e[1]), *e[2:])))
[{'ts': 4, 'sum': 11}, {'ts': 9, 'sum': 22}]
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Sequence as Listed
from copy import deepcopy
from dataclasses import dataclass
from itertools import groupby
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, cast

from headrace.errors import ParameterError
from headrace.reference.order import Payload, Source, merge
from headrace.reference.ordering import Emitter, State

AnyTag = Any
"""The name of a tag, or an implementation tag: a tuple whose first element is that name."""
Input = tuple[AnyTag, Source] | Listed[tuple[int, AnyTag, Payload]]
"""A stream of one tag, or rows that say their tag."""
Depends = Callable[[AnyTag, AnyTag], bool]
See = Callable[[Collection[AnyTag]], Any]
"""What a fork is given of a set of tags."""


class Program(Protocol):
    """What is asked of a program here; the values of `state` are kinds, first values, or have both."""

    @property
    def state(self) -> Mapping[str, Any]: ...
    @property
    def emits(self) -> Mapping[str, Any]: ...
    @property
    def update(self) -> Mapping[str, Callable]: ...
    @property
    def fork(self) -> Callable | None: ...
    @property
    def join(self) -> Callable | None: ...


Signature = tuple[str, str, str]
"""Types of state: of a wire, of the left and of the right one that it is forked into."""


class Typed(State):
    """A state that knows its type."""

    __slots__ = ("__type",)

    def __init__(self, fields: Mapping[str, Any], of: str):
        super().__init__(fields)
        object.__setattr__(self, "_Typed__type", of)


class Event(NamedTuple):
    """An event of the merged inputs."""

    ts: int
    tag: AnyTag
    payload: Payload


# -- one event after another ----------------------------------------------------------------------------------


def run(program: Program, inputs: Listed[Input]) -> list[Payload]:
    """Apply the updates in the order of events.

    Parameters
    ----------
    program : Program
    inputs : sequence
        Each is a tag and its rows ``(ts, payload)``, or a list of rows ``(ts, tag, payload)``, sorted by ts.

    Returns
    -------
    list of dict
        ts and columns, in the order of the events and of their emissions.

    Raises
    ------
    DisorderError, EventTimeError
        As of `merge`.
    """
    state, rows = first_state(program), []
    for event in merged(inputs):
        rows += updated(program, state, event)
    return rows


def merged(inputs: Listed[Input]) -> list[Event]:
    """Bring the events of all inputs into their order: (ts, input, position in that input)."""
    sources = [_with_tags(given) for given in inputs]
    return [Event(t.ts, t.payload["tag"], t.payload["payload"]) for t in merge(sources)]


def ticked(inputs: Listed[Input], every: Mapping[AnyTag, int]) -> list[Input]:
    """Add the events of periodic tags to the inputs: for each tag, one at the end of each slice with events.

    Parameters
    ----------
    inputs : sequence
        As of `run`.
    every : mapping of tag to int
        Periodic tags, and how long their slices are in the inputs' time unit; their events come before others with the
        same ts, in the order given.

    Examples
    --------
    >>> ticked([("value", [(-1, {}), (4, {}), (5, {}), (23, {})])], {"tick": 5})[0]
    ('tick', [(0, {'every': 5}), (5, {'every': 5}), (10, {'every': 5}), (25, {'every': 5})])
    """
    times = {row[0] for given in inputs for row in _with_tags(given)}
    ends = {tag: sorted({(ts // width + 1) * width for ts in times}) for tag, width in every.items()}
    return [*((tag, [(ts, {"every": every[tag]}) for ts in own]) for tag, own in ends.items()), *inputs]


def _with_tags(given: Input) -> Source:
    if isinstance(given, tuple):
        tag, rows = given
        given = [(ts, tag, payload) for ts, payload in cast(Source, rows)]
    return [(ts, {"tag": tag, "payload": payload}) for ts, tag, payload in given]


# -- the functions of a program -------------------------------------------------------------------------------


def name_of(tag: AnyTag) -> str:
    """Return the name of a tag, or of an implementation tag."""
    return tag if isinstance(tag, str) else tag[0]


def state_types(program: Program) -> Mapping[str, Mapping[str, Any]]:
    """Return the types of state and their fields, that of a root first; if there is only one, its name is empty."""
    return getattr(program, "states", None) or {"": program.state}


def type_of(state: State) -> str:
    """Return the type of a state."""
    return object.__getattribute__(state, "_Typed__type")


def first_state(program: Program, of: str | None = None) -> State:
    """Return the state before any event, of a type; by default that of a root."""
    types = state_types(program)
    of = next(iter(types)) if of is None else of
    return Typed({name: _first(field) for name, field in types[of].items()}, of)


def fork_of(program: Program, of: str, left: Collection[AnyTag], right: Collection[AnyTag]) -> Signature | None:
    """Choose how a state of a type is forked: by the first fork whose sides may process these tags; None if there is none."""
    if len(state_types(program)) == 1:
        return None if program.fork is None else (of, of, of)
    names = [{name_of(tag) for tag in side} for side in (left, right)]
    typed: Any = program
    for signature in typed.forks:
        if signature[0] == of and all(own <= {*typed.processes[to]} for own, to in zip(names, signature[1:], strict=True)):
            return signature
    return None


def _first(field: Any) -> Any:
    """Of a field that has both a kind and a first value, the one that implies the other."""
    if not hasattr(field, "first"):
        return field
    return field.first if field.kind in ("int64", "float64", "bool") else field.kind


def updated(program: Program, state: State, event: Event) -> list[Payload]:
    """Apply the update of an event to a state; return what it emits."""
    out = Emitter(program.emits, event.ts, {})

    def emit(**values: Any) -> None:
        if "ts" in values:
            raise ParameterError("emit(ts=...): an output has the event time of its event")
        out.emit(**values)

    function: Any = program.update[name_of(event.tag)]
    if isinstance(function, Mapping):
        if type_of(state) not in function:
            raise ParameterError(f"a state of type {type_of(state)!r} may not process {name_of(event.tag)!r}")
        function = function[type_of(state)]
    function(state, SimpleNamespace(**event.payload | {"ts": event.ts}), emit)
    return [{"ts": ts} | payload for ts, payload in out.emitted]


def forked(program: Program, state: State, left: Any, right: Any) -> tuple[State, State]:
    """Fork a state for two sets of tags, as the fork sees them; the state stays as it is."""
    signature = fork_of(program, type_of(state), left, right)
    if signature is None:
        raise ParameterError(f"there is no fork of a state of type {type_of(state)!r} for {left!r} and {right!r}")
    sides = first_state(program, signature[1]), first_state(program, signature[2])
    function: Any = program.fork if len(state_types(program)) == 1 else cast(Any, program).forks[signature]
    function(copied(program, state), *sides, left, right)
    return copied(program, sides[0]), copied(program, sides[1])


def joined(program: Program, left: State, right: State, into: str | None = None) -> State:
    """Join two states, to one of a type; they stay as they are."""
    if len(state_types(program)) > 1:
        assert into is not None
        both = first_state(program, into)
        cast(Any, program).joins[into, type_of(left), type_of(right)](both, copied(program, left), copied(program, right))
        return copied(program, both)
    assert program.join is not None
    both = copied(program, left)
    program.join(both, copied(program, right))
    return copied(program, both)


def copied(program: Program, state: State) -> State:
    """Copy a state, with containers of its own."""
    copy = first_state(program, type_of(state))
    for name, value in content(program, state).items():
        setattr(copy, name, value)
    return copy


def content(program: Program, state: State) -> dict[str, Any]:
    """Return what a state holds, by field; later changes do not reach it."""
    return {name: deepcopy(getattr(state, name)) for name in state_types(program)[type_of(state)]}


# -- wire diagrams --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Update:
    """One event on a wire: rule (2)."""

    position: int
    event: Event


@dataclass(frozen=True)
class Sequence:
    """Diagrams one after the other on a wire: rule (3); of none, nothing happens: rule (1)."""

    parts: tuple[Diagram, ...]


@dataclass(frozen=True)
class Parallel:
    """A wire forked, two diagrams, and their wires joined: rule (4)."""

    left_tags: Collection[AnyTag]
    right_tags: Collection[AnyTag]
    left: Diagram
    right: Diagram


Diagram = Update | Sequence | Parallel


def evaluate(program: Program, diagram: Diagram, see: See = frozenset) -> list[Payload]:
    """Say what a wire diagram gives.

    Parameters
    ----------
    program : Program
    diagram : Diagram
    see : callable, optional
        Makes what a fork is given of a set of tags.

    Returns
    -------
    list of dict
        In the order of the events; the semantics leaves the order of parallel ones open.
    """
    outputs: list[tuple[int, list[Payload]]] = []
    follow(program, first_state(program), diagram, see, outputs)
    return [row for _, rows in sorted(outputs, key=lambda output: output[0]) for row in rows]


def follow(program: Program, state: State, diagram: Diagram, see: See, outputs: list[tuple[int, list[Payload]]]) -> State:
    """Let a state go through a diagram, and return what it has become; outputs are added with their positions.

    The state given must not be used afterwards.
    """
    if isinstance(diagram, Update):
        outputs.append((diagram.position, updated(program, state, diagram.event)))
    elif isinstance(diagram, Sequence):
        for part in diagram.parts:
            state = follow(program, state, part, see, outputs)
    else:
        left, right = forked(program, state, see(diagram.left_tags), see(diagram.right_tags))
        left = follow(program, left, diagram.left, see, outputs)
        right = follow(program, right, diagram.right, see, outputs)
        state = joined(program, left, right, type_of(state))
    return state


class Node(Protocol):
    """A node of a plan: the tags it owns, and no children or two."""

    @property
    def tags(self) -> Collection[AnyTag]: ...
    @property
    def children(self) -> Listed[Node]: ...


def planned(events: Iterable[Event], node: Node) -> Diagram:
    """Draw what a plan does: a wire is forked where events of a node's children come, and joined for its own.

    Parameters
    ----------
    events : iterable of Event
        As `merged` gives them, with tags as nodes own them.
    node : Node
        The root; of a forest, one without tags above all roots.
    """
    return _planned([Update(position, event) for position, event in enumerate(events)], node)


def _planned(updates: list[Update], node: Node) -> Diagram:
    if not node.children:
        return Sequence(tuple(updates))
    left, right = node.children
    sides = _tags_below(left), _tags_below(right)
    return _in_turns(updates, *sides, lambda part: _planned(part, left), lambda part: _planned(part, right))


def _tags_below(node: Node) -> frozenset[AnyTag]:
    return frozenset(node.tags).union(*map(_tags_below, node.children))


def drawn(
    events: Iterable[Event], tags: Collection[AnyTag], depends: Depends, random: random.Random, depth: int = 4
) -> Diagram:
    """Draw a random diagram of events: different forks every time, on wires that may run in parallel.

    Parameters
    ----------
    events : iterable of Event
    tags : collection
        All tags, in an order that is the same every time.
    depends : function of two tags
    random : random.Random
    depth : int, optional
        Forks within forks, at most.
    """
    updates = [Update(position, event) for position, event in enumerate(events)]
    return _drawn(updates, tuple(tags), depends, random, depth)


def _drawn(updates: list[Update], tags: tuple[AnyTag, ...], depends: Depends, random: random.Random, depth: int) -> Diagram:
    if depth == 0 or random.random() < 0.2:
        return Sequence(tuple(updates))
    if len(updates) > 1 and random.random() < 0.3:
        cut = random.randrange(1, len(updates))
        return Sequence(
            tuple(_drawn(part, tags, depends, random, depth - 1) for part in (updates[:cut], updates[cut:]))
        )
    left, right = drawn_sides(tags, depends, random)

    def within(side: tuple[AnyTag, ...]) -> Callable[[list[Update]], Diagram]:
        return lambda part: _drawn(part, side, depends, random, depth - 1)

    return _in_turns(updates, left, right, within(left), within(right))


def drawn_sides(
    tags: Collection[AnyTag], depends: Depends, random: random.Random
) -> tuple[tuple[AnyTag, ...], tuple[AnyTag, ...]]:
    """Draw two sets of tags that are disjoint and pairwise independent; either may be empty."""
    left: list[AnyTag] = []
    right: list[AnyTag] = []
    above = random.random()  # the share of tags that stay above both
    for tag in random.sample(tags := list(tags), len(tags)):
        sides = [(left, right), (right, left)] if random.random() < 0.5 else [(right, left), (left, right)]
        for side, other in sides:
            if random.random() >= above and not any(depends(tag, one) for one in other):
                side.append(tag)
                break
    return tuple(left), tuple(right)


def _in_turns(
    updates: list[Update],
    left: Collection[AnyTag],
    right: Collection[AnyTag],
    on_left: Callable[[list[Update]], Diagram],
    on_right: Callable[[list[Update]], Diagram],
) -> Diagram:
    """Fork for each run of events that go left or right, and join for what comes between."""
    parts: list[Diagram] = []
    for is_apart, run_of in groupby(updates, lambda one: one.event.tag in left or one.event.tag in right):
        together = list(run_of)
        if is_apart:
            sides = ([one for one in together if one.event.tag in side] for side in (left, right))
            parts.append(Parallel(left, right, on_left(next(sides)), on_right(next(sides))))
        else:
            parts += together
    return Sequence(tuple(parts))
