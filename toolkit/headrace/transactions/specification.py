"""The specification of a transactional operator: its functions, the columns they emit, and those carried from events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from headrace.codegen.kinds import Kind, arrow_of
from headrace.codegen.state import read_emits
from headrace.errors import NotSupportedError, ParameterError, SchemaError
from headrace.plan.checks import check_columns, check_output_names
from headrace.plan.nodes import Branch, OperatorNode, StreamType

if TYPE_CHECKING:
    from headrace.transactions.binding import Bound
    from headrace.transactions.options import TransactionOptions
    from headrace.transactions.section import TransactionSection

REJECTED = "rejected"
"""The last column of the results."""


@dataclass(frozen=True, eq=False, repr=False)
class TransactSpec:
    """Functions of events over tables; made by `specify`."""

    functions: tuple[Callable, ...]
    emits: Mapping[str, Kind]
    carry: tuple[str, ...]
    bound: dict[Any, Bound] = field(default_factory=dict)
    """The functions rewritten so far, by what they are applied to."""

    has_sides: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name of the function; "transact" if there are several."""
        name = self.functions[0].__name__ if len(self.functions) == 1 else ""
        return name if name.isidentifier() else "transact"

    @property
    def options(self) -> type[TransactionOptions]:
        """The class that checks this engine's options of `start`."""
        from headrace.transactions.options import TransactionOptions

        return TransactionOptions

    def result_type(self, inputs: Sequence[StreamType]) -> StreamType:
        """Event time, carried columns, emitted columns, whether the event was rejected."""
        (given,) = inputs
        for name in self.carry:
            if name == given.event_time:
                raise ParameterError(f"carry={list(self.carry)!r}: {name!r} is the event time, which every row has; leave it out")
        check_columns(given.schema, self.carry, "carry")
        time = given.schema.field(given.event_time)
        fields = [pa.field(given.event_time, time.type)]
        fields += [given.schema.field(name) for name in self.carry]
        fields += [pa.field(name, arrow_of(kind)) for name, kind in self.emits.items()]
        fields.append(pa.field(REJECTED, pa.bool_()))
        check_output_names([one.name for one in fields], "transact")
        self.bind(given.schema, given.event_time)
        return StreamType(pa.schema(fields), given.event_time, given.unit)

    def bind(self, schema: pa.Schema, event_time: str) -> Bound:
        """Rewrite the functions for events of a schema."""
        from headrace.transactions.binding import bind

        place = (schema, event_time)
        if place not in self.bound:
            self.bound[place] = bind(self.functions, self.emits, schema, event_time)
        return self.bound[place]

    def explain(self, node: OperatorNode) -> str:
        """Explain how its functions are run."""
        from headrace.transactions.explained import explain

        (bound,) = self.bound.values()
        return explain(bound)

    def section(self, node: OperatorNode, branches: list[Branch], options: TransactionOptions) -> TransactionSection:
        """Make the part of a run that computes it."""
        from headrace.transactions.fitting import fitting
        from headrace.transactions.section import TransactionSection

        bound = self.bind(branches[0].schema, branches[0].event_time)
        options.attach(node.name, fitting(bound))
        return TransactionSection(node, branches, options)

    def describe(self, unit: str = "") -> str:
        """Describe its functions, and what they emit."""
        names = ", ".join(function.__name__ for function in self.functions)
        given = ", ".join(f"{name}: {kind}" for name, kind in self.emits.items())
        return f"{names}; emits {given}" if given else names

    def __repr__(self) -> str:
        return f"<TransactSpec {self.describe()}>"


def specify(functions: Sequence[Any], emits: Any, carry: Any) -> TransactSpec:
    """Read the arguments of ``.transact(...)``.

    Raises
    ------
    ParameterError
        An argument is invalid; the text names it.
    """
    if not functions:
        raise ParameterError("transact(): give a function of an event and its transaction, as in transact(transfer)")
    for function in functions:
        if not callable(function):
            raise ParameterError(f"transact({function!r}): give functions f(e, t)")
    columns = read_emits(emits)
    for name, kind in columns.items():
        if not isinstance(kind, str):
            raise NotSupportedError(f"emits: {name}={kind!r}: a transaction emits single values; emit its length, or an element")
        if name == REJECTED:
            raise ParameterError(f"emits: {name!r}: every row has a column of this name; rename yours")
    if isinstance(carry, str):
        raise ParameterError(f"carry={carry!r}: give a list of columns, as in carry=[{carry!r}]")
    carried = tuple(carry or ())
    for name in carried:
        if not isinstance(name, str):
            raise ParameterError(f"carry={carry!r}: give names of columns")
        if name in columns or name == REJECTED:
            raise SchemaError(f"carry={list(carried)!r}: a computed column is called {name!r}; rename one of them")
    return TransactSpec(tuple(functions), columns, carried)
