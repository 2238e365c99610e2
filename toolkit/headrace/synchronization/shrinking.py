"""Reduces a case in which a law fails to a minimal one: whatever else is left out of it, the law holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from headrace.reference.synchronization import Diagram, Event, Parallel, Sequence, Update
from headrace.synchronization.definition import Definition
from headrace.synchronization.laws import NOTHING, Case, Side, Tags

MOST_TRIALS = 10_000


def smallest(program: Definition, case: Case, fails: Callable[[Case], bool]) -> Case:
    """Make a case smaller, step by step, as long as it fails.

    Parameters
    ----------
    program : Definition
    case : Case
        One that fails.
    fails : function
        Whether a case is possible, and fails in the same way.
    """
    trials = 0
    goes_on = True
    while goes_on:
        goes_on = False
        for smaller in _smaller_cases(program, case):
            trials += 1
            if trials > MOST_TRIALS:
                return case
            if fails(smaller):
                case, goes_on = smaller, True
                break
    return case


def _smaller_cases(program: Definition, case: Case) -> Iterator[Case]:
    """Yield cases with something left out or made simpler, large parts first."""
    for at, descent in enumerate(case.descents):
        yield replace(case, descents=_without(case.descents, at))
        for before in _smaller_diagrams(program, descent.before):
            yield replace(case, descents=_with(case.descents, at, replace(descent, before=before)))
        for tags in _fewer(descent.tags):
            yield replace(case, descents=_with(case.descents, at, replace(descent, tags=tags)))
        for tags in _fewer(descent.other_tags):
            yield replace(case, descents=_with(case.descents, at, replace(descent, other_tags=tags)))
    for before in _smaller_diagrams(program, case.before):
        yield replace(case, before=before)
    if case.law == "C1":
        yield from _earlier(case)
    for side in _smaller_sides(program, case.left):
        yield replace(case, left=side)
    for side in _smaller_sides(program, case.right):
        yield replace(case, right=side)
    for at, event in enumerate(case.events):
        for simpler in _simpler_events(program, event):
            yield replace(case, events=_with(case.events, at, simpler))


def _earlier(case: Case) -> Iterator[Case]:
    """Yield the case whose event is the one before, on the same side."""
    side = case.right if case.is_right else case.left
    match side.diagram:
        case Sequence(parts=(*others, Update(event=event))):
            shorter = replace(side, diagram=Sequence(tuple(others)))
            yield replace(case, events=(event,), **{"right" if case.is_right else "left": shorter})


def _smaller_sides(program: Definition, side: Side) -> Iterator[Side]:
    for diagram in _smaller_diagrams(program, side.diagram):
        yield replace(side, diagram=diagram)
    for tags in _fewer(side.tags):
        yield replace(side, tags=tags)


def _smaller_diagrams(program: Definition, diagram: Diagram) -> Iterator[Diagram]:
    if isinstance(diagram, Update):
        for event in _simpler_events(program, diagram.event):
            yield replace(diagram, event=event)
    elif isinstance(diagram, Parallel):
        yield Sequence((diagram.left, diagram.right))
        for left in _smaller_diagrams(program, diagram.left):
            yield replace(diagram, left=left)
        for right in _smaller_diagrams(program, diagram.right):
            yield replace(diagram, right=right)
        for tags in _fewer(tuple(diagram.left_tags)):
            yield replace(diagram, left_tags=tags)
        for tags in _fewer(tuple(diagram.right_tags)):
            yield replace(diagram, right_tags=tags)
    elif diagram.parts:
        yield NOTHING
        for at, part in enumerate(diagram.parts):
            yield Sequence(_without(diagram.parts, at))
            if isinstance(part, Sequence):
                yield Sequence((*diagram.parts[:at], *part.parts, *diagram.parts[at + 1 :]))
            for smaller in _smaller_diagrams(program, part):
                yield Sequence(_with(diagram.parts, at, smaller))


def _fewer(tags: Tags) -> Iterator[Tags]:
    for at in range(len(tags)):
        yield _without(tags, at)


def _simpler_events(program: Definition, event: Event) -> Iterator[Event]:
    """Yield the event with one value nearer to zero; its key stays, since another key may be of another part."""
    tag = program.tags[event.tag[0]]
    for name, value in event.payload.items():
        if name == tag.by:
            continue
        simple = [type(value)(), *([type(value)(1), type(value)(value // 2)] if isinstance(value, int | float) else [])]
        for simpler in simple:
            if (abs(simpler) < abs(value)) if isinstance(value, int | float) else simpler != value:
                yield event._replace(payload=event.payload | {name: simpler})


def _without(items: tuple, at: int) -> tuple:
    return (*items[:at], *items[at + 1 :])


def _with(items: tuple, at: int, item: object) -> tuple:
    return (*items[:at], item, *items[at + 1 :])
