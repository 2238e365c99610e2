"""The specifications of this engine's operators: A and A+, O+, J and J+, Operator 15.

A specification is immutable, gives the type of its results, and makes the
compiled operator that computes them. Those import kernels, so they are imported only
when a run needs them; none of them imports this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from headrace.elastic.custom.operator import CustomOperator
from headrace.errors import SchemaError, UnsupportedTypeError
from headrace.expressions import Aggregate, BandPredicate, EqualPredicate, Predicate
from headrace.ingress.columns import check_value_type, is_text, plain_type, value_dtype
from headrace.ingress.comparison import compare_band, compare_equal
from headrace.ingress.key_sources import KeySource
from headrace.ingress.times import output_time_type, shared_time_type
from headrace.plan.checks import check_columns, check_output_names
from headrace.plan.nodes import Branch, OperatorNode, StreamType
from headrace.summary import duration_text
from headrace.windows import Window

if TYPE_CHECKING:
    from headrace.elastic.compiled import Compiled
    from headrace.elastic.options import ElasticOptions
    from headrace.elastic.section import ElasticSection


class ElasticSpec:
    """The common part of the engine's specifications."""

    may_pass_on: ClassVar[bool] = False
    """Whether some operators of this kind pass on their results without a collector (`elastic.ways`)."""
    may_take: ClassVar[bool] = False
    """Whether some operators of this kind get their input so."""

    @property
    def options(self) -> type[ElasticOptions]:
        """The class that checks this engine's options of `start`."""
        from headrace.elastic.options import ElasticOptions

        return ElasticOptions

    def section(self, node: OperatorNode, branches: list[Branch], options: ElasticOptions) -> ElasticSection:
        """Make the section of a run that computes it."""
        from headrace.elastic.ways import never_negative, upstream_of, way_in

        compiled = options.take_compiled(node, branches)
        upstream = upstream_of(branches, options)
        way = way_in(compiled, branches, upstream, options)
        if way.above is not None and way.above.compiled.ahead and options.max_threads > 1:
            compiled.take_ahead(way.above.compiled.ahead)
        parts = node, branches, options, compiled, way, never_negative(compiled, upstream)
        if options.mode == "sn":
            from headrace.elastic.shared_nothing.section import SharedNothingSection

            return SharedNothingSection(*parts)
        from headrace.elastic.routed import RoutedSection
        from headrace.elastic.section import ElasticSection

        kind = ElasticSection if way.why_shared else RoutedSection
        made = kind(*parts)
        options.sections[node.name] = made
        return made

    def describe(self, unit: str = "") -> str:
        """Describe what it computes; durations are in `unit`."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.describe()}>"


@dataclass(frozen=True, repr=False)
class AggregateSpec(ElasticSpec):
    """A and A+: aggregates of each window of each key."""

    key_names: tuple[str, ...]
    keys: tuple[KeySource, ...]
    window: Window
    aggregates: tuple[tuple[str, Aggregate], ...]
    nulls: str = "error"
    instances: str = "multi"

    may_pass_on: ClassVar[bool] = True
    may_take: ClassVar[bool] = True
    name: ClassVar[str] = "aggregate"
    has_sides: ClassVar[bool] = False

    def describe(self, unit: str = "") -> str:
        """Key, window, aggregates."""
        wanted = ", ".join(f"{name}={aggregate!r}" for name, aggregate in self.aggregates)
        return f"{_of_key(self.key_names, self.keys)}window {window_text(self.window, unit, self.instances)}, {wanted}"

    def result_type(self, inputs: Sequence[StreamType]) -> StreamType:
        """Event time (right boundary), keys, aggregates."""
        (given,) = inputs
        fields = [pa.field(name, aggregate_type(wanted, given.schema)) for name, wanted in self.aggregates]
        return _of_windows(inputs, self.key_names, self.keys, self.window, fields)

    def compiled(self, node: OperatorNode, branches: list[Branch], options: Any) -> Compiled:
        """Return what computes it in one run."""
        from headrace.elastic.aggregate.compiled import CompiledAggregate

        return CompiledAggregate(node, branches, options)


@dataclass(frozen=True, repr=False)
class ApplySpec(ElasticSpec):
    """O+: the user's functions over each window of each key; `keys` has an entry for each input."""

    key_names: tuple[str, ...]
    keys: tuple[tuple[KeySource, ...], ...]
    window: Window
    operator: CustomOperator
    nulls: str = "error"
    instances: str = "multi"

    may_pass_on: ClassVar[bool] = True
    may_take: ClassVar[bool] = True
    has_sides: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The operator's own name."""
        return self.operator.name

    def describe(self, unit: str = "") -> str:
        """Key, window, functions, inputs."""
        functions = [name for name in ("update", "output", "slide") if getattr(self.operator, name) is not None]
        key, count = _of_key(self.key_names, self.keys[0]), len(self.keys)
        inputs = f", {count} inputs" if count > 1 else ""
        window = window_text(self.window, unit, self.instances)
        return f"{key}window {window}, custom {' and '.join(functions)}{inputs}"

    def result_type(self, inputs: Sequence[StreamType]) -> StreamType:
        """Event time (right boundary), keys, the columns that the functions emit.

        Raises
        ------
        FunctionError
            A function cannot be compiled for these inputs; the text has its line.
        """
        from headrace.elastic.custom.binding import bind

        first = inputs[0]
        self.operator.check_windows(self.instances)
        bind(self.operator, [(given.schema, given.event_time) for given in inputs], key_types(self.keys[0], first.schema))
        result = _of_windows(inputs, self.key_names, self.keys[0], self.window, self.operator.output_fields)
        check_output_names(result.schema.names, "apply()")
        return result

    def compiled(self, node: OperatorNode, branches: list[Branch], options: Any) -> Compiled:
        """Return what computes it in one run."""
        from headrace.elastic.custom.compiled import CompiledCustom

        return CompiledCustom(node, branches, options)


@dataclass(frozen=True, repr=False)
class JoinSpec(ElasticSpec):
    """J and J+: pairs less than `within` apart that satisfy the condition."""

    within: int
    where: Predicate | Callable | None
    on: tuple[tuple[str, str], ...]
    prefixes: tuple[str, str]
    nulls: str = "error"
    index: bool = True

    name: ClassVar[str] = "join"
    has_sides: ClassVar[bool] = True

    def describe(self, unit: str = "") -> str:
        """Distance in time and condition."""
        equal = [f"{left} = {right}" for left, right in self.on]
        where = repr(self.where) if isinstance(self.where, Predicate) else "a function" if self.where is not None else None
        condition = " and ".join([*equal, *([where] if where else [])])
        return f"pairs within {duration_text(self.within, unit)} where {condition}"

    def result_type(self, inputs: Sequence[StreamType]) -> StreamType:
        """Event time (the later one plus one unit), columns of the left, columns of the right."""
        left, right = inputs
        self._check_condition(left.schema, right.schema)
        # One unit later than the later tuple: a timestamp in seconds cannot hold that.
        fields = [pa.field(left.event_time, output_time_type(_time_type(inputs)))]
        left_out = ({left.event_time}, {right.event_time} | self.kept_once(left.event_time))
        for given, prefix, without in zip((left, right), self.prefixes, left_out, strict=True):
            fields += [pa.field(prefix + f.name, f.type) for f in given.schema if f.name not in without]
        names = [f.name for f in fields]
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            kept = ", ".join(repr(name) for name in dict.fromkeys([right.event_time, *(of_right for _, of_right in self.on)]))
            keep = f"if both are to be equal, on={twice!r} keeps one; else " if self._is_compared(twice) else ""
            raise SchemaError(
                f"join: column {twice!r} is on both sides: {keep}pass prefixes=('', 'right_') or any others, or give it"
                f" another name on one side, as in right.select({kept}, other={twice!r})"
            )
        return StreamType(pa.schema(fields), left.event_time, left.unit)

    def kept_once(self, event_time: str) -> set[str]:
        """Right columns that `on` makes equal to a left column of the same name in the result: the left one stays.

        `event_time` is the left's, which has another value in the result.
        """
        first, second = self.prefixes
        return {right for left, right in self.on if first + left == second + right and left != event_time}

    def _is_compared(self, name: str) -> bool:
        """Whether the condition requires the column of this name to be equal on both sides."""
        parts = self.where.parts if isinstance(self.where, Predicate) else ()
        return any(isinstance(part, EqualPredicate) and part.left == part.right == name for part in parts)

    def _check_condition(self, left: pa.Schema, right: pa.Schema) -> None:
        """Raise for columns that do not exist or cannot be compared."""
        for part in self.where.parts if isinstance(self.where, Predicate) else ():
            check_columns(left, [part.left], "join(where=), left stream")
            check_columns(right, [part.right], "join(where=), right stream")
            kinds = left.field(part.left).type, right.field(part.right).type
            if isinstance(part, BandPredicate):
                compare_band(part.left, kinds[0], part.right, kinds[1], part.width)
            else:
                compare_equal(part.left, kinds[0], part.right, kinds[1], f"join(where={part!r})")
        for a, b in self.on:
            check_columns(left, [a], "join(on=), left stream")
            check_columns(right, [b], "join(on=), right stream")
            compare_equal(a, left.field(a).type, b, right.field(b).type, f"join(on={(a, b)!r})")

    def compiled(self, node: OperatorNode, branches: list[Branch], options: Any) -> Compiled:
        """Return what computes it in one run."""
        from headrace.elastic.join.compiled import CompiledJoin

        return CompiledJoin(node, branches, options)


@dataclass(frozen=True, repr=False)
class ForwardSpec(ElasticSpec):
    """Operator 15: every tuple, in merged order."""

    name: ClassVar[str] = "forward"
    has_sides: ClassVar[bool] = False

    def describe(self, unit: str = "") -> str:
        """What it does, in a few words."""
        return "every tuple, in merged order"

    def result_type(self, inputs: Sequence[StreamType]) -> StreamType:
        """The type of the input."""
        (given,) = inputs
        return given

    def compiled(self, node: OperatorNode, branches: list[Branch], options: Any) -> Compiled:
        """Return what computes it in one run."""
        from headrace.elastic.forward import CompiledForward

        return CompiledForward(node, branches, options)


def keys_text(names: Sequence[str], keys: Sequence[KeySource]) -> str:
    """Write keys as in `key_by`: each name, and what it is made of if that is not the column of this name."""
    texts = []
    rest = list(names)
    for source in keys:
        own, rest = rest[: source.width], rest[source.width :]
        given = " or ".join(source.columns)
        how = given if source.how in ("value", "any") else f"{source.how}({given})"
        texts.append(how if own == [how] else f"{' and '.join(own)} = {how}")
    return ", ".join(texts) or "none"


def _of_key(names: Sequence[str], keys: Sequence[KeySource]) -> str:
    return f"key {keys_text(names, keys)}, " if names else ""


def window_text(window: Window, unit: str, instances: str = "multi") -> str:
    """Write a window: its size, its advance if windows overlap, and whether there is one instance per key."""
    advance = f" every {duration_text(window.advance, unit)}" if window.is_overlapping else ""
    single = ", one instance per key" if instances == "single" else ""
    return f"{duration_text(window.size, unit)}{advance}{single}"


def key_types(keys: Sequence[KeySource], schema: pa.Schema) -> list[pa.DataType]:
    """Return the types of the key columns of a result, one for each name."""
    return [kind for source in keys for kind in [source.key_type(schema)] * source.width]


def aggregate_type(aggregate: Aggregate, schema: pa.Schema) -> pa.DataType:
    """Return the type of an aggregate's result: one of the values, or a list of them, keeps their type."""
    if aggregate.kind == "count":
        return pa.int64()
    for name in aggregate.columns:
        if not is_text(plain_type(schema.field(name).type)):
            try:
                check_value_type(name, schema.field(name).type)
            except UnsupportedTypeError as error:
                raise UnsupportedTypeError(f"{aggregate!r}: {error}") from None
    if aggregate.kind == "count_distinct":
        return pa.int64()
    kind = schema.field(aggregate.column).type
    plain = plain_type(kind)
    if aggregate.kind in ("first", "last", "min", "max", "mode"):
        return plain
    if aggregate.kind in ("collect_list", "collect_set", "top"):
        return pa.list_(plain)
    if is_text(plain):
        raise UnsupportedTypeError(
            f"{aggregate!r}: the column is {kind}; strings can be counted and collected, or the first, last, least,"
            f" greatest or most frequent one kept; cast it to a number"
        )
    if aggregate.kind in ("quantile", "mean"):
        return plain if pa.types.is_temporal(plain) else pa.float64()
    if pa.types.is_temporal(plain) and not pa.types.is_duration(plain):
        raise UnsupportedTypeError(
            f"{aggregate!r}: the column is {kind}, and points in time have no sum; hr.min, hr.max, hr.mean and hr.median give"
            f" one of them; durations, such as the difference of two times, can be added"
        )
    return plain if pa.types.is_duration(plain) else pa.float64() if value_dtype(kind).kind == "f" else pa.int64()


def _time_type(inputs: Sequence[StreamType]) -> pa.DataType:
    """The type that holds the event times of all inputs."""
    return shared_time_type([given.schema.field(given.event_time).type for given in inputs])


def _of_windows(
    inputs: Sequence[StreamType], names: Sequence[str], keys: Sequence[KeySource], window: Window, fields: list[pa.Field]
) -> StreamType:
    """The type of window results: the right boundary, the keys, and these fields."""
    # Right boundaries are multiples of this.
    step = math.gcd(window.size, window.advance) if window.zone is None else 1_000_000
    given = inputs[0]
    time = pa.field(given.event_time, output_time_type(_time_type(inputs), step))
    kinds = [pa.field(name, kind) for name, kind in zip(names, key_types(keys, given.schema), strict=True)]
    return StreamType(pa.schema([time, *kinds, *fields]), given.event_time, given.unit)
