"""Tests whether a program is consistent: random cases of the laws, on states that plans can reach."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headrace.arguments import is_whole_number
from headrace.codegen.written import values_written
from headrace.errors import FunctionError, InconsistentProgramError, ParameterError, UnknownNameError
from headrace.names import instead
from headrace.reference.synchronization import Diagram, Event, drawn, drawn_sides
from headrace.synchronization.counterexamples import Counterexample
from headrace.synchronization.definition import Definition, dependent, independent
from headrace.synchronization.laws import (
    DIFFERENT,
    ROUNDING,
    Case,
    Descent,
    Side,
    Tags,
    both_sides,
    has_types,
    is_valid,
)
from headrace.synchronization.shrinking import smallest
from headrace.synchronization.tags import ImplementationTag, Tag, part_of
from headrace.windows import TIMESTAMP_UNIT, parse_duration

EXAMPLES = 300
"""Cases of each law, if not said otherwise."""
_STREAMS = 2
"""Of each tag."""
_TRIALS = 200
"""To draw a case whose wires have types of state that fit."""
_INTEGERS = (0, 1, 2, 3, -1, -2, 5, 10, 999, 1_000, -1_000, 1 << 33)
_VALUES: dict[str, tuple] = {
    "float64": (0.0, 0.5, 1.0, -1.5, 0.1, 0.2, 0.3, 0.7, 10.1),
    "bool": (False, True),
    "string": ("", "a", "b", "ab", "ä"),
}
"""What columns hold, by kind; of all other kinds, integers. And what updates compare them with."""


@dataclass(frozen=True)
class Checked:
    """What `check` returns: the laws that were tested, and the number of cases in which each held."""

    held: Mapping[str, int]

    def __repr__(self) -> str:
        said = ", ".join(f"{law} in {count:,}" for law, count in self.held.items())
        return f"<consistent as far as was tried: {said} cases>"


def check(
    program: Definition, seed: int = 0, examples: int = EXAMPLES, values: Mapping[str, Iterable[Any]] | None = None
) -> Checked:
    """Try the laws; see `Program.check`."""
    if not is_whole_number(examples) or examples < 1:
        raise ParameterError(f"check(examples={examples!r}): give a whole number of cases, 1 or more")
    cases = _Cases(program, random.Random(seed), _read_values(program, values))
    # One law after the other: a mistake that breaks several is reported by the one easiest to understand.
    laws = ("C2", "C3", "C1") if program.can_fork else ("C3",)
    if program.by is not None and program.can_fork:
        laws = (*laws, "C4")
    held = dict.fromkeys(laws, 0)
    tried, failure, rounded = 0, "", None
    for law in (law for law in laws for _ in range(examples)):
        case = cases.draw_typed(law)
        program = cases.program
        if case is None:
            continue
        tried += 1
        try:
            sides = both_sides(program, case)
        except Exception as error:  # a user function that rejects what was drawn says nothing about a law
            failure = f"{type(error).__name__}: {error}"
            continue
        if sides.verdict == DIFFERENT:
            raise _refusal(program, case, DIFFERENT, cases.tags)
        if sides.verdict == ROUNDING:
            rounded = rounded or case  # a mistake beyond rounding is reported first
        elif sides.one.error:
            failure = sides.one.error
        else:
            held[law] += 1
    if rounded is not None:
        raise _refusal(program, rounded, ROUNDING, cases.tags)
    if sum(held.values()) * 2 < tried:
        raise ParameterError(
            f"check(): the functions fail on most of what is drawn ({failure}); fix them, or say what columns may hold, as in"
            f' values={{"x": [1, 2, 3]}}'
        )
    return Checked(held)


def _refusal(program: Definition, case: Case, verdict: str, tags: Tags) -> InconsistentProgramError:
    def fails(smaller: Case) -> bool:
        try:
            return is_valid(program, smaller, tags) and both_sides(program, smaller).verdict == verdict
        except Exception:  # it fails before the law is tested
            return False

    counterexample = Counterexample(program, smallest(program, case, fails), verdict)
    return InconsistentProgramError(f"{counterexample.summary}\n\n{counterexample}", counterexample)


def _read_values(program: Definition, given: Mapping[str, Iterable[Any]] | None) -> dict[str, tuple]:
    columns = {name for tag in program.tags.values() for name in tag.columns}
    values = {}
    for name, some in (given or {}).items():
        if name not in columns:
            raise UnknownNameError(f"check(values=): no tag has {name!r}; {instead(name, sorted(columns), 'the columns')}")
        if isinstance(some, str) or not isinstance(some, Iterable) or not (listed := tuple(some)):
            raise ParameterError(f"check(values=): {name}={some!r}: give a list of values that it may hold")
        values[name] = listed
    return values


@dataclass
class _Cases:
    """Draws cases."""

    program: Definition
    random: random.Random
    values: Mapping[str, tuple]
    written: dict[str, tuple] = field(init=False)
    """Kind of column -> values near those in the text of updates, whose branches would otherwise hardly be tried."""
    keys: dict[str, dict[int, list[Any]]] = field(init=False)
    """Name of a keyed tag -> part -> some keys of that part."""
    tags: Tags = field(init=False)
    ts: int = 0

    def __post_init__(self) -> None:
        self.written = _written(self.program)
        keyed = {name: tag for name, tag in self.program.tags.items() if tag.by is not None}
        self.keys = {name: _some_keys(tag, self.values.get(tag.by or "")) for name, tag in keyed.items()}
        self.tags = tuple(
            ImplementationTag(name, part, stream)
            for name in self.program.tags
            for part in self.keys.get(name, (0,))
            for stream in range(_STREAMS)
        )

    def draw_typed(self, law: str) -> Case | None:
        """Draw a case whose wires have types of state; where several forks would do, each is tried first at times."""
        if len(self.program.types) == 1:
            return self.draw(law)
        signatures = list(self.program.forks)
        self.random.shuffle(signatures)
        self.program = replace(self.program, forks={one: self.program.forks[one] for one in signatures})
        for _ in range(_TRIALS):
            case = self.draw(law)
            if case is not None and has_types(self.program, case):
                return case
        return None

    def draw(self, law: str) -> Case | None:
        """Draw a case of a law; None if the law does not apply to the wire that was drawn."""
        self.ts = 0
        tags, descents = self.tags, []
        while self.program.can_fork and len(descents) < 2 and self.random.random() < 0.4:
            sides = self._sides(tags)
            is_right = not sides[0] or (bool(sides[1]) and self.random.random() < 0.5)
            if not sides[is_right]:
                break
            descents.append(Descent(self._history(tags, 3), sides[is_right], sides[not is_right], is_right))
            tags = sides[is_right]
        case = Case(law, tuple(descents), self._history(tags, 5))
        if law == "C3":
            return self._two_events(case, tags)
        left, right = self._sides(tags)
        if law == "C2":
            return Case(law, case.descents, case.before, Side(left), Side(right))
        while not (left or right):
            left, right = self._sides(tags)
        if law == "C4":
            keyed = tuple(tag for tag in tags if self.program.is_by_entry(tag.tag))
            sides = Side(left, self._history(left, 3)), Side(right, self._history(right, 3))
            return Case(law, case.descents, case.before, *sides, (self._event(keyed),)) if keyed else None
        is_right = not left or (bool(right) and self.random.random() < 0.5)
        sides = Side(left, self._history(left, 3)), Side(right, self._history(right, 3))
        return Case(law, case.descents, case.before, *sides, (self._event(sides[is_right].tags),), is_right)

    def _two_events(self, case: Case, tags: Tags) -> Case | None:
        apart = {tag: tuple(other for other in tags if independent(self.program, tag, other)) for tag in tags}
        if not (with_others := tuple(tag for tag, others in apart.items() if others)):
            return None
        first = self._tag(with_others)
        others = apart[first]
        return Case("C3", case.descents, case.before, events=(self._event((first,)), self._event(others)))

    def _sides(self, tags: Tags) -> tuple[Tags, Tags]:
        return drawn_sides(tags, self._depends, self.random)

    def _history(self, tags: Tags, most: int) -> Diagram:
        events = [self._event(tags) for _ in range(self.random.randrange(most + 1))] if tags else []
        return drawn(events, tags, self._depends, self.random, 2 if self.program.can_fork else 0)

    def _depends(self, a: ImplementationTag, b: ImplementationTag) -> bool:
        return dependent(self.program, a, b)

    def _tag(self, tags: Tags) -> ImplementationTag:
        # All names equally often: laws fail on the few events that synchronize.
        name = self.random.choice(sorted({tag.tag for tag in tags}))
        return self.random.choice([tag for tag in tags if tag.tag == name])

    def _event(self, tags: Sequence[ImplementationTag]) -> Event:
        of = self._tag(tuple(tags))
        tag = self.program.tags[of.tag]
        self.ts += self.random.randrange(3)
        if tag.every is not None:  # at the end of a slice, of which some events may have come
            width = parse_duration(tag.every, TIMESTAMP_UNIT)
            self.ts = (self.ts // width + 1) * width
            return Event(self.ts, of, {"every": width})
        payload = {
            name: self.random.choice(self.values.get(name) or (*_values_of(kind), *self.written.get(kind, ())))
            for name, kind in tag.columns.items()
        }
        if tag.by is not None:
            payload[tag.by] = self.random.choice(self.keys[of.tag][of.part])
        return Event(self.ts, of, payload)


def _values_of(kind: str) -> tuple:
    return _VALUES.get(kind, _INTEGERS)


def _written(program: Definition) -> dict[str, tuple]:
    updates = [program.update_of(tag, of) for tag in program.tags for of in program.types if program.may_process(of, [tag])]
    found: set[Any] = set()
    for function in updates:
        with suppress(FunctionError):  # its text is not at hand
            found |= set(values_written(function))
    numbers = {one for one in found if isinstance(one, int | float) and not isinstance(one, bool)}
    near = {near for one in numbers if isinstance(one, int) for near in (one - 1, one, one + 1) if abs(near) < 1 << 62}
    by_kind = {
        "int64": near - set(_INTEGERS),
        "float64": {float(one) for one in numbers} - set(_VALUES["float64"]),
        "string": {one for one in found if isinstance(one, str)} - set(_VALUES["string"]),
    }
    return {kind: tuple(sorted(some)) for kind, some in by_kind.items()}


def _some_keys(tag: Tag, given: tuple | None) -> dict[int, list[Any]]:
    """Return a few keys by part: two of one part and one of another, where they exist; or those given."""
    kind = tag.columns[tag.by or ""]
    if given is None:
        numbers = np.arange(2 if kind == "bool" else 4 * tag.parts + 8)
        every = numbers.astype(bool) if kind == "bool" else numbers.astype(str) if kind == "string" else numbers
        parts = part_of(every, tag.parts)
        chosen = [0, *np.flatnonzero(parts == parts[0])[1:2], *np.flatnonzero(parts != parts[0])[:1]]
        given = tuple(every[at].item() for at in chosen)
    keys: dict[int, list[Any]] = {}
    for key in given:
        keys.setdefault(part_of(key, tag.parts), []).append(key)
    return keys
