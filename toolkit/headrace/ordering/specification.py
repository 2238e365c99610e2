"""What an ordered pipeline is asked for: its stages, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.ordering.stages import Stage
from headrace.plan.checks import check_output_names
from headrace.plan.nodes import Branch, OperatorNode, StreamType
from headrace.windows import parse_duration

if TYPE_CHECKING:
    from headrace.ordering.binding import Bound
    from headrace.ordering.options import OrderedOptions
    from headrace.ordering.section import OrderedSection


@dataclass(frozen=True, eq=False, repr=False)
class OrderedSpec:
    """A chain of stages."""

    stages: tuple[Stage, ...]
    bound: dict[Any, Bound] = field(default_factory=dict)
    """The functions as rewritten so far, by what they are applied to."""

    has_sides: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """That of the last stage."""
        return self.stages[-1].name

    @property
    def options(self) -> type[OrderedOptions]:
        """What checks this engine's options of `start`."""
        from headrace.ordering.options import OrderedOptions

        return OrderedOptions

    def result_type(self, inputs: Sequence[StreamType]) -> StreamType:
        """What the last stage gives."""
        (given,) = inputs
        schema = given.schema
        for stage in self.stages:
            schema = stage.result_schema(schema, given.event_time)
            if stage.forget is not None:
                parse_duration(stage.forget, given.unit, "forget")
            check_output_names(schema.names, f"{stage.kind}({stage.name})")
        self.bind(given)
        return StreamType(schema, given.event_time, given.unit)

    def bind(self, given: StreamType, debug: bool = False) -> Bound:
        """Rewrite the functions for tuples of a type."""
        from headrace.ordering.binding import bind

        place = (given.schema, given.event_time, debug)
        if place not in self.bound:
            self.bound[place] = bind(self.stages, given.schema, given.event_time, debug)
        return self.bound[place]

    def section(self, node: OperatorNode, branches: list[Branch], options: OrderedOptions) -> OrderedSection:
        """Make the part of a run that computes it."""
        from headrace.ordering.section import OrderedSection

        return OrderedSection(node, branches, options)

    def explain(self, node: OperatorNode) -> str:
        """Say what each stage reads, keeps and gives, and how many workers it may have."""
        bound = next(iter(self.bound.values()))  # any of them: they differ only in what their text checks
        return "\n".join(line for one in bound.stages for line in one.explain())

    def describe(self, unit: str = "") -> str:
        """The stages in their order."""
        return " -> ".join(stage.describe() for stage in self.stages)

    def __repr__(self) -> str:
        return f"<OrderedSpec {self.describe()}>"
