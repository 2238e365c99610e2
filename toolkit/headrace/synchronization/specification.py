"""A program over its inputs, as an operator of a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from headrace.codegen.kinds import arrow_of
from headrace.errors import ParameterError, SchemaError
from headrace.ingress.times import output_time_type, shared_time_type
from headrace.plan.nodes import Branch, OperatorNode, StreamType
from headrace.synchronization.definition import Definition
from headrace.synchronization.inputs import Input
from headrace.windows import parse_duration

if TYPE_CHECKING:
    from headrace.synchronization.binding import Bound
    from headrace.synchronization.options import ProgramOptions
    from headrace.synchronization.section import ProgramSection


@dataclass(frozen=True, eq=False, repr=False)
class ProgramSpec:
    """A program, and what each of its inputs brings."""

    program: Definition
    inputs: tuple[Input, ...]
    bound: dict[bool, Bound] = field(default_factory=dict)
    """The functions as rewritten so far, by whether they are debugged."""

    has_sides: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """That of the program."""
        return self.program.name

    @property
    def options(self) -> type[ProgramOptions]:
        """What checks this engine's options of `start`."""
        from headrace.synchronization.options import ProgramOptions

        return ProgramOptions

    def result_type(self, inputs: Sequence[StreamType]) -> StreamType:
        """The event time, and what is emitted."""
        first = inputs[0]
        for number, (given, one) in enumerate(zip(inputs, self.inputs, strict=True)):
            use = f"{self.program.name}: input {number + 1}"
            if given.unit != first.unit:
                raise SchemaError(
                    f"{use}: its event times are in {given.unit!r}, those of the first input in {first.unit!r}; cast one"
                )
            one.check(self.program, given.schema, use)
        for name in self.program.emits:
            if name == first.event_time:
                raise ParameterError(f"emits: {name!r} is the event time, which every output has; rename yours")
        # Outputs have the times of events: those of any input, and those of ticks, which end a slice.
        kind = shared_time_type([given.schema.field(given.event_time).type for given in inputs])
        for tag in self.program.periodic.values():
            assert tag.every is not None
            every = parse_duration(tag.every, first.unit, f"tags: {tag.name}: every")
            if every == 0:
                raise ParameterError(
                    f"tags: {tag.name}: every={tag.every!r} is less than the inputs' time unit; give '1{first.unit}' or more"
                )
            kind = output_time_type(kind, every)
        self.bind()
        time = first.schema.field(first.event_time).with_nullable(True).with_type(kind)
        emitted = [pa.field(name, arrow_of(kind)) for name, kind in self.program.emits.items()]
        return StreamType(pa.schema([time, *emitted]), first.event_time, first.unit)

    def bind(self, debug: bool = False) -> Bound:
        """Rewrite the functions."""
        from headrace.synchronization.binding import bind

        if debug not in self.bound:
            self.bound[debug] = bind(self.program, debug)
        return self.bound[debug]

    def section(self, node: OperatorNode, branches: list[Branch], options: ProgramOptions) -> ProgramSection:
        """Make the part of a run that computes it."""
        from headrace.synchronization.section import ProgramSection

        return ProgramSection(node, branches, options)

    def explain(self, node: OperatorNode) -> str:
        """Say what each tag's function reads of an event."""
        lines = [repr(self.program)]
        for one in self.bind().tags:
            times = ["ts" for update in one.updates.values() if "ts" in update.reads.get("e", ())]
            read = dict.fromkeys([*times, *(column.name for column in one.columns)])
            lines.append(f"{one.tag.name}: reads {', '.join(read) or 'no column'}")
        return "\n".join(lines)

    def describe(self, unit: str = "") -> str:
        """The tags, and the inputs that bring them."""
        return f"{self.program.name}: " + ", ".join("/".join(one.tags) for one in self.inputs)

    def __repr__(self) -> str:
        return f"<ProgramSpec {self.describe()}>"
