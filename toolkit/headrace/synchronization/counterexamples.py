"""A case in which a law fails, which can be printed and run again."""

from __future__ import annotations

from collections.abc import Sequence as Listed
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from headrace.reference.ordering import State
from headrace.reference.synchronization import Diagram, Event, Sequence, Update, content
from headrace.synchronization.definition import Definition
from headrace.synchronization.laws import ROUNDING, Case, Outcome, Sides, apart, both_sides, reached
from headrace.synchronization.tag_ranges import tags_text

LINE = "─"


@dataclass(frozen=True, eq=False, repr=False)
class Counterexample:
    """A case in which a law does not hold; its printed form draws both sides.

    Attributes
    ----------
    program : Definition
    case : Case
    verdict : str
        ``"different"``, or ``"rounding"`` if floats differ by no more than that.
    """

    program: Definition
    case: Case
    verdict: str

    @property
    def law(self) -> str:
        """"C1", "C2", "C3" or "C4"; "C1 mirrored" for an event of the right side."""
        return "C1 mirrored" if self.case.law == "C1" and self.case.is_right else self.case.law

    @property
    def tags(self) -> tuple[str, ...]:
        """Names of the tags whose events update both sides."""
        return tuple(event.tag[0] for event in self.case.events)

    def run(self, program: Definition | None = None) -> Sides:
        """Run both sides again, with the present functions or with those of another program.

        Parameters
        ----------
        program : Program, optional
            A program with the same tags and fields; for a corrected one ``counterexample.run(corrected).verdict`` is "agree".

        Returns
        -------
        Sides
            ``one`` and ``other``, each with ``state`` and ``outputs``, and ``verdict``.
        """
        return both_sides(program or self.program, self.case)

    @property
    def summary(self) -> str:
        """Which law fails, of what, and what to do; one line."""
        name, tags = self.program.name, " and ".join(map(repr, self.tags))
        if self.case.law == "C1":
            side = "right" if self.case.is_right else "left"
            text = f"{self.law} fails: updating the {side} side with {tags} and joining differs from joining and updating"
            remedy = "what the event needs must be forked to its side, and what it changes must survive the join"
        elif self.case.law == "C2":
            text = "C2 fails: the join of a fork is not the state that was forked"
            remedy = "fork must keep everything, once or in a way that join undoes"
        elif self.case.law == "C4":
            text = f"C4 fails: updating only the entries of its key with {tags} differs from updating everything"
            remedy = "what this event needs, and changes, must be the entry of its own key; else leave by= out of the state"
        else:
            text = f"C3 fails: swapping events of {tags} changes the state or what is emitted"
            remedy = "make these tags depend on each other"
        sides = self.run()
        if failed := next((each for each in (sides.one, sides.other) if each.error), None):
            text += f" ({failed.error}{failed.where and f', in {failed.where}'})"
        if self.verdict == ROUNDING:
            text += ", by rounding alone: floats are added in another order"
            remedy = "sum fixed-point integers, or make the result independent of the order"
        return f"program {name!r} is not consistent: {text}; {remedy}"

    def __str__(self) -> str:
        return "\n".join(self._drawing())

    def __repr__(self) -> str:
        return f"<Counterexample of {self.law}, program {self.program.name!r}; print it for the drawing>\n{self}"

    # -- drawing ----------------------------------------------------------------------------------------------

    def _drawing(self) -> list[str]:
        case, sides = self.case, self.run()
        state = reached(self.program, case)
        lines = [
            f"state     {self._content(state)}",
            f"reached   {f' {LINE} '.join(self._way()) or 'it is the first one'}",
        ]
        if case.law == "C3":
            first, second = map(self._event, case.events)
            lines += ["", "in one order"]
            lines += self._wire([first, second], sides.one)
            lines += ["in the other"]
            lines += self._wire([second, first], sides.other)
            return lines
        lines += [f"left      {self._tags(case.left.tags)}", f"right     {self._tags(case.right.tags)}"]
        before = self._steps(case.left.diagram), self._steps(case.right.diagram)
        if case.law == "C2":
            lines += ["", "forked and joined"]
            lines += self._fork(*before, [], sides.one)
            lines += ["as it was"]
            lines += self._wire([], sides.other)
            return lines
        event = self._event(case.events[0])
        if case.law == "C4":
            lines += ["", "join, update"]
            lines += self._fork(*before, [event], sides.other)
            lines += ["the entries of its key alone"]
            lines += self._fork(*before, [event], sides.one)
            return lines
        with_event = [*before]
        with_event[case.is_right] = [*before[case.is_right], event]
        left, right = map(self._content, apart(self.program, case, state))
        lines += [f"          {left} on the left and {right} on the right, before {event}"]
        lines += ["", "update, join"]
        lines += self._fork(*with_event, [], sides.one)
        lines += ["join, update"]
        lines += self._fork(*before, [event], sides.other)
        return lines

    def _fork(self, left: Listed[str], right: Listed[str], after: Listed[str], outcome: Outcome) -> list[str]:
        wires = [LINE.join(["", *(f" {step} " for step in side), ""]) for side in (left, right)]
        width = max(map(len, wires)) + 1
        top, bottom = (wire.ljust(width, LINE) for wire in wires)
        rest = "".join(f"{LINE} {step} " for step in after)
        return [f"  {LINE}┬{top}┬{rest}{LINE}> {self._result(outcome)}", f"   └{bottom}┘"]

    def _wire(self, steps: Listed[str], outcome: Outcome) -> list[str]:
        return [f"  {LINE}{''.join(f'{LINE} {step} ' for step in steps)}{LINE}> {self._result(outcome)}"]

    def _result(self, outcome: Outcome) -> str:
        if outcome.error:
            return outcome.error
        # The outputs of each event, in the order in which both sides are compared.
        said = [self._emitted(event, rows) for event, rows in zip(self.case.events, outcome.outputs, strict=True)]
        return "; ".join([self._named(outcome.state), *said])

    def _emitted(self, event: Event, rows: list[dict[str, Any]]) -> str:
        given = " and ".join(self._named({k: v for k, v in row.items() if k != "ts" and v is not None}) for row in rows)
        return f"{event.tag[0]} emits {given or 'nothing'}"

    def _way(self) -> list[str]:
        steps: list[str] = []
        for descent in self.case.descents:
            tags = " | ".join(map(self._tags, descent.sides))
            steps += [*self._steps(descent.before), f"fork ({tags}), {'right' if descent.is_right else 'left'}"]
        return [*steps, *self._steps(self.case.before)]

    def _steps(self, diagram: Diagram) -> list[str]:
        if isinstance(diagram, Update):
            return [self._event(diagram.event)]
        if isinstance(diagram, Sequence):
            return [step for part in diagram.parts for step in self._steps(part)]
        sides = (f" {LINE} ".join(self._steps(side)) or "nothing" for side in (diagram.left, diagram.right))
        tags = f"{self._tags(diagram.left_tags)} | {self._tags(diagram.right_tags)}"
        return [f"fork ({tags})", f"({' | '.join(sides)})", "join"]

    def _event(self, event: Event) -> str:
        return f"{event.tag[0]}({', '.join(f'{name}={value!r}' for name, value in event.payload.items())})"

    def _tags(self, tags: Any) -> str:
        return tags_text(tags)

    def _content(self, state: State) -> str:
        return self._named(content(self.program, state))

    def _named(self, values: dict[str, Any]) -> str:
        return ", ".join(f"{name}={written(value)}" for name, value in values.items()) or "no fields"


def written(value: Any) -> str:
    """Write a field's value as it is read in a function: a record by its fields, in containers too.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> written({"h1": SimpleNamespace(sum=1.5, n=2)}), written({3: [1, 2]}), written(0.5)
    ("{'h1': record(sum=1.5, n=2)}", '{3: [1, 2]}', '0.5')
    """
    if isinstance(value, SimpleNamespace):
        return f"record({', '.join(f'{name}={written(part)}' for name, part in vars(value).items())})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(key)}: {written(part)}" for key, part in value.items()) + "}"
    return repr(value)
