"""The stages of an ordered pipeline: the user's arguments for each, checked, and the schema of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.arguments import is_whole_number
from headrace.codegen.kinds import Kind, arrow_of
from headrace.codegen.state import StateField, read_emits, read_state
from headrace.errors import NotSupportedError, ParameterError, SchemaError
from headrace.expressions import Expression
from headrace.ingress.columns import is_scalar, is_text, plain_type
from headrace.ordering.ranges import check_ranges
from headrace.plan.checks import check_columns
from headrace.windows import Duration

DEFAULT_BUCKETS = 100
MOST_BUCKETS = 1 << 16

OWN_TIME = "ts"
"""Name of an output's event time in ``emit(ts=...)``."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage of a pipeline.

    Parameters
    ----------
    kind : {"filter", "map", "flat_map", "partitioned", "stateful"}
    name : str
    function : callable
    emits : dict
        Columns of its results beside the event time; empty for a filter.
    state : dict
    by : str
        Key column of a partitioned stage.
    buckets : int
    ranges : tuple of int
        First keys of all buckets but the first one; empty if keys are hashed.
    end : callable, optional
    forget : duration, optional
        A key of a partitioned stage that was not seen for longer starts anew.
    """

    kind: str
    name: str
    function: Callable
    emits: Mapping[str, Kind] = field(default_factory=dict)
    state: Mapping[str, StateField] = field(default_factory=dict)
    by: str = ""
    buckets: int = 0
    ranges: tuple[int, ...] = ()
    end: Callable | None = None
    forget: Duration | None = None

    @property
    def roles(self) -> tuple[str, ...]:
        """Parameters of the function."""
        if self.kind == "filter":
            return ("t",)
        return ("state", "t", "emit") if self.is_kept else ("t", "emit")

    @property
    def is_kept(self) -> bool:
        """Whether it has a state."""
        return self.kind in ("partitioned", "stateful")

    def result_schema(self, schema: pa.Schema, event_time: str) -> pa.Schema:
        """Check the stage against the schema of its input, and return that of its results."""
        if self.kind == "partitioned":
            check_columns(schema, [self.by], f"partitioned(by={self.by!r})")
            kind = plain_type(schema.field(self.by).type)
            if pa.types.is_floating(kind) or not (is_scalar(kind) or is_text(kind)):
                raise SchemaError(f"partitioned(by={self.by!r}): the column is {kind}; a key is an integer, a bool or a string")
            if self.ranges and not pa.types.is_integer(kind):
                raise SchemaError(f"partitioned(by={self.by!r}, ranges=): the column is {kind}; only integers have ranges")
        if self.kind == "filter":
            return schema
        taken = [name for name in self.emits if name == event_time]
        if taken:
            raise ParameterError(f"emits: {taken[0]!r} is the event time, which every output has; give it as emit(ts=...)")
        fields = [schema.field(event_time).with_nullable(True)]
        return pa.schema([*fields, *(pa.field(name, arrow_of(kind)) for name, kind in self.emits.items())])

    def describe(self) -> str:
        """Describe the stage: its kind and its parts."""
        by = f" by {self.by}" if self.by else ""
        given = f": {', '.join(self.emits)}" if self.emits else ""
        return f"{self.name} ({self.kind}{by}{given})"


_FUNCTIONS = {
    "filter": "of a tuple, as in filter(lambda t: t.speed > 1)",
    "map": "(t, emit) that calls emit(column=...) once",
    "flat_map": "(t, emit) that calls emit(column=...) for each result",
    "partitioned": "(state, t, emit)",
    "stateful": "(state, t, emit)",
}
"""The function of a stage of each kind, for errors about other arguments."""


def make_stage(kind: str, function: Any, taken: Sequence[str], **given: Any) -> Stage:
    """Read the arguments of a stage of a pipeline.

    Parameters
    ----------
    kind : str
    function : callable
    taken : sequence of str
        Names of the stages before it.
    **given
        Its other arguments, as the user wrote them.

    Raises
    ------
    ParameterError
        An argument is invalid; the text names it.
    """
    if isinstance(function, Expression):
        raise ParameterError(f"{kind}({function!r}): a stage is a function of a tuple; use expressions before ordered()")
    if not callable(function):
        raise ParameterError(f"{kind}({function!r}): give a function {_FUNCTIONS[kind]}")
    emits: Mapping[str, Kind] = {}
    if kind != "filter":
        emits = read_emits(given.get("emits"))
        if not emits:
            raise ParameterError(f'{kind}(): name what it emits and the kinds, as in emits={{"speed": "float64"}}')
        for name, value in emits.items():
            if not isinstance(value, str):
                raise NotSupportedError(f"emits: {name}={value!r}: stages emit single values; emit them one by one")
            if name == OWN_TIME:
                raise ParameterError(f"emits: {name!r}: emit(ts=...) is the event time of an output; rename yours")
    name = given.get("name") or getattr(function, "__name__", kind)
    name = name if str(name).isidentifier() else kind
    base, number = name, 2
    while name in taken:
        name, number = f"{base}{number}", number + 1
    buckets, by, end, ranges = given.get("buckets", 0), given.get("by", ""), given.get("end"), ()
    if kind == "partitioned":
        if not isinstance(by, str):
            raise ParameterError(f"partitioned(by={by!r}): give the name of a column")
        if given.get("ranges") is not None:
            ranges = check_ranges(given["ranges"])
            if buckets is not None:
                raise ParameterError(f"buckets={buckets!r}: ranges= says how many there are; leave one of them out")
            buckets = len(ranges) + 1
        buckets = DEFAULT_BUCKETS if buckets is None else buckets
        if not is_whole_number(buckets) or not 1 <= buckets <= MOST_BUCKETS:
            raise ParameterError(f"buckets={buckets!r}: give a whole number from 1 to {MOST_BUCKETS:,}")
        buckets = int(buckets)
    if end is not None and not callable(end):
        raise ParameterError(f"end={end!r}: give a function end(state, emit)")
    return Stage(kind, name, function, emits, read_state(given.get("state")), by, buckets, ranges, end, given.get("forget"))
