"""The laws of a consistent program (the paper's Definition 2.3, as it must be read), and the evaluation of both sides of one.

C1    for states a, b that came from a fork for the tags p1 and p2, and an event of p1: joining after the update equals
      updating after the join, with the same outputs; and the same for an event of p2 (the mirrored law). As printed, for any
      two states, the law would refuse the paper's own event window: only states that a fork may leave behind count
C2    joining what was just forked gives the state back, whatever tags it was forked for
C3    two events that do not depend on each other may change places: the state is the same, and so are the outputs of each
C4    for a state by key: joining the entries of the event's key from both sides, updating them and giving them back equals
      updating after the join

A `Case` says how a state is reached from the first one, through updates, forks and joins, and which law is tried there.
"""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Collection
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from headrace.reference.ordering import State
from headrace.reference.synchronization import (
    Diagram,
    Event,
    Parallel,
    Sequence,
    Update,
    content,
    copied,
    first_state,
    follow,
    fork_of,
    forked,
    joined,
    type_of,
    updated,
)
from headrace.synchronization.definition import Definition, dependent, independent
from headrace.synchronization.tags import ImplementationTag

Tags = tuple[ImplementationTag, ...]
NOTHING = Sequence(())
AGREE, ROUNDING, DIFFERENT = "agree", "rounding", "different"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_CLOSE = 1e-6


@dataclass(frozen=True)
class Side:
    """One wire of a fork, and the steps on it."""

    tags: Tags
    diagram: Diagram = NOTHING


@dataclass(frozen=True)
class Descent:
    """The steps on a wire, and the fork whose side is followed from there."""

    before: Diagram
    tags: Tags
    other_tags: Tags
    is_right: bool

    @property
    def sides(self) -> tuple[Tags, Tags]:
        """Tags of the left and of the right wire."""
        return (self.other_tags, self.tags) if self.is_right else (self.tags, self.other_tags)


@dataclass(frozen=True)
class Case:
    """A law, where it is tried.

    Attributes
    ----------
    law : {"C1", "C2", "C3", "C4"}
    descents : tuple of Descent
        From the first state to the wire.
    before : Diagram
        What happened on it.
    left, right : Side
        The fork of C1, C2 and C4, and for C1 and C4 what happened on both wires.
    events : tuple of Event
        C1 and C4 update with one, C3 with two.
    is_right : bool
        Of C1: the event is of the right side.
    """

    law: str
    descents: tuple[Descent, ...] = ()
    before: Diagram = NOTHING
    left: Side = Side(())
    right: Side = Side(())
    events: tuple[Event, ...] = ()
    is_right: bool = False


@dataclass(frozen=True)
class Outcome:
    """The outcome of one side of a law: state by field, outputs of each event; or the error that ended it."""

    state: dict[str, Any]
    outputs: tuple[list[dict[str, Any]], ...] = ()
    error: str = ""
    where: str = field(default="", compare=False)
    """The user's function that raised the error, and its line."""


@dataclass(frozen=True)
class Sides:
    """Both sides of a law: the execution that it allows, and the one without a fork or in the other order."""

    one: Outcome
    other: Outcome

    @property
    def verdict(self) -> str:
        """Whether they agree, differ by rounding, or differ."""
        if bool(self.one.error) != bool(self.other.error):  # where both fail, it may be at another event, with another text
            return DIFFERENT
        found = {_compared(self.one.state, self.other.state), _compared(self.one.outputs, self.other.outputs)}
        return next(verdict for verdict in (DIFFERENT, ROUNDING, AGREE) if verdict in found)


# -- both sides -----------------------------------------------------------------------------------------------


def reached(program: Definition, case: Case) -> State:
    """Return the state of the wire where the law is tried."""
    state = first_state(program)
    for descent in case.descents:
        state = follow(program, state, descent.before, program.seen, [])
        state = forked(program, state, *map(program.seen, descent.sides))[descent.is_right]
    return follow(program, state, case.before, program.seen, [])


def apart(program: Definition, case: Case, state: State) -> tuple[State, State]:
    """Fork a state, and return the states of both wires after their steps."""
    left, right = forked(program, state, program.seen(case.left.tags), program.seen(case.right.tags))
    return (
        follow(program, left, case.left.diagram, program.seen, []),
        follow(program, right, case.right.diagram, program.seen, []),
    )


def both_sides(program: Definition, case: Case) -> Sides:
    """Try a law. Exceptions of user functions on the way to the state where it is tried pass through."""
    state = reached(program, case)
    if case.law == "C2":
        as_it_was = Outcome(content(program, state))
        return Sides(
            _outcome(program, lambda: (joined(program, *apart(program, case, state), type_of(state)), [])), as_it_was
        )
    if case.law == "C3":
        first, second = case.events
        return Sides(
            _outcome(program, lambda: _in_order(program, copied(program, state), first, second)),
            _outcome(program, lambda: _in_order(program, copied(program, state), second, first, swapped=True)),
        )
    left, right = apart(program, case, state)
    (event,) = case.events

    def by_entry() -> tuple[State, list[Any]]:
        sides, outputs = _updated_by_entry(program, case, left, right, event)
        return joined(program, *sides, type_of(state)), [outputs]

    def update_and_join() -> tuple[State, list[Any]]:
        wires = copied(program, left), copied(program, right)
        outputs = updated(program, wires[case.is_right], event)
        return joined(program, *wires, type_of(state)), [outputs]

    def join_and_update() -> tuple[State, list[Any]]:
        both = joined(program, left, right, type_of(state))
        return both, [updated(program, both, event)]

    if case.law == "C4":
        return Sides(_outcome(program, by_entry), _outcome(program, join_and_update))
    return Sides(_outcome(program, update_and_join), _outcome(program, join_and_update))


def _updated_by_entry(
    program: Definition, case: Case, left: State, right: State, event: Event
) -> tuple[tuple[State, State], list[Any]]:
    """Update what an event's key has on two wires, and leave all other entries where they are."""
    key = event.payload[program.by or ""]
    sides = copied(program, left), copied(program, right)
    entries = [first_state(program), first_state(program)]
    for side, entry in zip(sides, entries, strict=True):
        _move_entry(program, key, side, entry)
    has_left, has_right = (any(content(program, entry).values()) for entry in entries)
    both = joined(program, *entries) if has_left and has_right else entries[has_right]
    outputs = updated(program, both, event)
    for name, held in content(program, both).items():
        if set(held) - {key}:
            raise LookupError(f"it touches other entries of {name} than that of its own key {key!r}")
    seen = program.seen(case.left.tags), program.seen(case.right.tags)
    needs_left, needs_right = (
        any((name, key) in tags if program.is_by_entry(name) else name in tags for name in tags) for tags in seen
    )
    parts = forked(program, both, *seen) if needs_left and needs_right else [first_state(program)] * 2
    if not (needs_left and needs_right):
        parts = (parts[0], both) if needs_right else (both, parts[1])
    for side, part in zip(sides, parts, strict=True):
        _move_entry(program, key, part, side)
    return sides, outputs


def _move_entry(program: Definition, key: Any, giver: State, taker: State) -> None:
    for name in program.state:
        if key in getattr(giver, name):
            getattr(taker, name)[key] = getattr(giver, name)[key]
            getattr(giver, name).pop(key)


def _in_order(program: Definition, state: State, *events: Event, swapped: bool = False) -> tuple[State, list[Any]]:
    outputs = [updated(program, state, event) for event in events]
    return state, outputs[::-1] if swapped else outputs


def _outcome(program: Definition, compute: Any) -> Outcome:
    try:
        state, outputs = compute()
    except Exception as error:  # whatever a user function raises is an outcome of it
        theirs = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(_PACKAGE)]
        where = f"{theirs[-1].name}, line {theirs[-1].lineno}" if theirs else ""
        return Outcome({}, (), f"{type(error).__name__}: {error}", where)
    return Outcome(content(program, state), tuple(outputs))


def _compared(one: Any, other: Any) -> str:
    if isinstance(one, SimpleNamespace) and isinstance(other, SimpleNamespace):
        return _compared(vars(one), vars(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return _compared([*one.items()], [*other.items()])
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return DIFFERENT
        found = {_compared(*pair) for pair in zip(one, other, strict=True)}
        return next((verdict for verdict in (DIFFERENT, ROUNDING) if verdict in found), AGREE)
    if one == other or (one != one and other != other):
        return AGREE
    is_close = isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE)
    return ROUNDING if is_close else DIFFERENT


# -- what a case may be ---------------------------------------------------------------------------------------


def has_types(program: Definition, case: Case) -> bool:
    """Whether every wire has a type of state that may process its events; always so where there is one type."""
    if len(program.types) == 1:
        return True
    of = next(iter(program.types))
    for descent in case.descents:
        signature = fork_of(program, of, *descent.sides)
        if signature is None or not _is_typed(program, of, descent.before):
            return False
        of = signature[1 + descent.is_right]
    names = [event.tag[0] for event in case.events]
    if not _is_typed(program, of, case.before) or not program.may_process(of, names):
        return False
    if case.law == "C3":
        return True
    signature = fork_of(program, of, case.left.tags, case.right.tags)
    return (
        signature is not None
        and _is_typed(program, signature[1], case.left.diagram)
        and _is_typed(program, signature[2], case.right.diagram)
        and program.may_process(signature[1 + case.is_right], names)
    )


def _is_typed(program: Definition, of: str, diagram: Diagram) -> bool:
    if isinstance(diagram, Update):
        return program.may_process(of, [diagram.event.tag[0]])
    if isinstance(diagram, Sequence):
        return all(_is_typed(program, of, part) for part in diagram.parts)
    signature = fork_of(program, of, diagram.left_tags, diagram.right_tags)
    return (
        signature is not None
        and _is_typed(program, signature[1], diagram.left)
        and _is_typed(program, signature[2], diagram.right)
    )


def is_valid(program: Definition, case: Case, tags: Collection[ImplementationTag]) -> bool:
    """Whether every wire processes only what it may, and parallel wires only what is independent."""
    if not has_types(program, case):
        return False
    for descent in case.descents:
        if not (_fits(program, descent.before, tags) and _is_fork(program, *descent.sides, tags)):
            return False
        tags = descent.tags
    if not _fits(program, case.before, tags):
        return False
    if case.law == "C3":
        first, second = (event.tag for event in case.events)
        return first in tags and second in tags and independent(program, first, second)
    if case.law == "C4" and not all(event.tag in tags and program.is_by_entry(event.tag[0]) for event in case.events):
        return False
    if not _fits(program, Parallel(case.left.tags, case.right.tags, case.left.diagram, case.right.diagram), tags):
        return False
    if case.law == "C4":
        return True
    return all(event.tag in (case.right if case.is_right else case.left).tags for event in case.events)


def _fits(program: Definition, diagram: Diagram, tags: Collection[ImplementationTag]) -> bool:
    if isinstance(diagram, Update):
        return diagram.event.tag in tags
    if isinstance(diagram, Sequence):
        return all(_fits(program, part, tags) for part in diagram.parts)
    return (
        _is_fork(program, diagram.left_tags, diagram.right_tags, tags)
        and _fits(program, diagram.left, diagram.left_tags)
        and _fits(program, diagram.right, diagram.right_tags)
    )


def _is_fork(
    program: Definition,
    left: Collection[ImplementationTag],
    right: Collection[ImplementationTag],
    tags: Collection[ImplementationTag],
) -> bool:
    return {*left, *right} <= {*tags} and not any(a == b or dependent(program, a, b) for a in left for b in right)
