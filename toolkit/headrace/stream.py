"""The fluent interface: from any table to a running query.

Every call returns a new object and checks what it can at once; nothing runs
before `start`, `to_arrow`, `to_pandas` or `to_spark`.
"""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from headrace.errors import ParameterError, SchemaError, UnsupportedTypeError
from headrace.expressions import (
    Aggregate,
    BandPredicate,
    Each,
    EqualPredicate,
    Expression,
    Hashtags,
    Pairs,
    Predicate,
    Words,
    col,
)
from headrace.expressions.columns import Column
from headrace.expressions.rows import check_movable
from headrace.ingress.columns import check_value_type, is_text, plain_type, value_dtype
from headrace.ingress.comparison import compare_band, compare_equal
from headrace.ingress.encode import NULLS, KeySource
from headrace.ingress.readers import MOST_BATCH_ROWS, name_of, numbered, open_input, spoken
from headrace.ingress.times import check_event_time, output_time_type, time_unit_of
from headrace.query import (
    AggregateSpec,
    ApplySpec,
    FilterStep,
    ForwardSpec,
    JoinSpec,
    Node,
    OperatorNode,
    SelectStep,
    SourceNode,
    Step,
    StepNode,
    UnionNode,
    check_columns,
    check_output_names,
    plan,
)
from headrace.windows import DEFAULT_TIME_UNIT, Window, parse_duration


def stream(
    source: Any,
    event_time: str,
    *,
    time_unit: str = DEFAULT_TIME_UNIT,
    sort: bool = False,
    lateness: str | int | None = None,
    late: str = "error",
    idle_after: str | float | None = None,
    batch_rows: int = 1 << 16,
    name: str | Sequence[str] | None = None,
) -> Stream:
    """Begin a stream.

    Parameters
    ----------
    source : DataFrame, path, Arrow table or reader, pandas frame, or a list of them
        Each is one source, sorted by event time; a list is several sources of
        one stream, merged in time order. A streaming DataFrame is read for as
        long as Spark produces it (`headrace.spark.live`).
    event_time : str
        Column: a timestamp (microseconds inside; without zone = UTC) or an
        integer in `time_unit`. Null is an error.
    time_unit : str
        Unit of an integer event time, for durations given as text.
    sort : bool
        Sort the input by event time first (a DataFrame: by Spark).
    lateness : duration, optional
        Disorder up to this is repaired on the way in. Of a streaming DataFrame
        it is the delay of its ``withWatermark``, if it has one.
    late : {"error", "drop", "side"}
        What happens to a row that comes later than that; "side" keeps it in `run.late`, a table.
    idle_after : duration or seconds, optional
        A source that gives nothing for so long no longer holds back the others. The clock on the wall
        has no time unit of the stream's: a text says its own, ``"200ms"``, and a number is seconds.
    batch_rows : int
        Rows read at a time, from 1 to 2**31 - 1.
    name : str or list of str, optional
        What metrics, plots and errors call the source; of several sources a list, one name each. By default
        a file's path, else its number in the query and what it is: ``source 1 (generator)``.

    Examples
    --------
    >>> import headrace as hr
    >>> table = pa.table({"ts": [1, 2, 61], "k": ["a", "a", "b"]})
    >>> hr.stream(table, event_time="ts", time_unit="s").key_by("k").window("1min").aggregate(
    ...     n=hr.count()).to_arrow().to_pydict()
    {'ts': [60, 120], 'k': ['a', 'b'], 'n': [2, 1]}
    """
    sources = list(source) if isinstance(source, (list, tuple)) else [source]
    if not sources:
        raise ParameterError("stream([]): give at least one source")
    if late not in ("error", "drop", "side"):
        raise ParameterError(f'late={late!r}: give "error", "drop" or "side"')
    if (
        isinstance(batch_rows, bool)
        or not isinstance(batch_rows, numbers.Integral)
        or not 1 <= batch_rows <= MOST_BATCH_ROWS
    ):
        raise ParameterError(f"batch_rows={batch_rows!r}: give a whole number from 1 to {MOST_BATCH_ROWS}")
    idle_after_s = None if idle_after is None else _seconds(idle_after, "idle_after")
    openers: list[Callable[[], Any]] = []
    readers = []
    for item, called in zip(sources, _names(sources, name), strict=True):
        reader = open_input(item, sort_by=event_time if sort else None, batch_rows=int(batch_rows), name=called)
        readers.append(reader)
        openers.append(functools.partial(_reader_of, reader))
    schema = readers[0].schema
    for reader in readers[1:]:
        if not reader.schema.equals(schema):
            raise SchemaError(
                f"{spoken(reader.name)} has schema {reader.schema.to_string()!r}, the first one"
                f" {schema.to_string()!r}; cast them to one, or use union() or join()"
            )
    kind = check_event_time(schema, event_time)
    if late == "side":
        check_movable(schema, 'late="side"')
    unit = time_unit_of(kind, time_unit)
    node = SourceNode(
        readers=tuple(openers),
        names=tuple(_names(readers, name)),
        rows=tuple(reader.rows for reader in readers),
        schema=schema,
        event_time=event_time,
        unit=unit,
        time_unit=time_unit,
        lateness=_lateness(readers, event_time) if lateness is None else parse_duration(lateness, unit, "lateness"),
        late=late,
        idle_after=idle_after_s,
    )
    return Stream(node)


def _names(sources: list[Any], name: str | Sequence[str] | None) -> list[str]:
    """What the sources are called, as far as is known before the query is."""
    if name is None:
        return [numbered(name_of(source), i) for i, source in enumerate(sources, 1)]
    names = [name] if isinstance(name, str) else list(name)
    if len(names) != len(sources) or not all(isinstance(one, str) and one for one in names):
        raise ParameterError(f"name={name!r}: give a text for each of the {len(sources)} sources, in a list if there are several")
    return names


def _reader_of(reader):
    return reader


def _lateness(readers, event_time: str) -> int | None:
    """What the sources themselves say: the delay of a streaming DataFrame's ``withWatermark``, in microseconds."""
    delays = [reader.delay_us(event_time) for reader in readers if reader.delay_us is not None]
    return max((delay for delay in delays if delay is not None), default=None)


def _seconds(duration: Any, name: str) -> float:
    """Return a duration of the wall clock in seconds: a text with its unit, or a number of them."""
    seconds = -1.0
    if isinstance(duration, numbers.Real) and not isinstance(duration, bool):
        seconds = float(duration) if abs(duration) < 2**62 else -1.0
    elif isinstance(duration, str) and duration.strip()[-1:].isalpha():
        with suppress(ParameterError):  # which would speak of integers in a unit
            seconds = parse_duration(duration, "ns", name) / 1e9
    if not 0 <= seconds < math.inf:
        raise ParameterError(f"{name}={duration!r}: give a duration with its unit, such as '200ms', or seconds, from 0")
    return seconds


_RUNNING = ("start", "to_arrow", "to_pandas", "to_spark", "filter", "select", "map", "join")


def _missing(of: Any, name: str, hints: dict[str, str]) -> AttributeError:
    """What to say of an attribute that is not there: what has to come before it, where that is known."""
    kind = type(of).__name__
    hint = f"; write {hints[name]}" if name in hints else ""
    return AttributeError(f"a {kind} has no {name!r}{hint}", name=name, obj=of)


class Stream:
    """A stream of tuples, not yet running."""

    def __init__(self, node: Node):
        self._node = node

    @property
    def schema(self) -> pa.Schema:
        """Columns of the tuples."""
        return self._node.schema

    def __repr__(self) -> str:
        columns = ", ".join(f"{f.name}: {f.type}" for f in self.schema)
        return f"<{type(self).__name__} {columns}>"

    def __getattr__(self, name: str) -> Any:
        raise _missing(self, name, {
            "aggregate": ".key_by(...).window(...).aggregate(...)",
            "apply": ".key_by(...).window(...).apply(...)",
            "groupby": ".key_by(...)", "group_by": ".key_by(...)", "groupBy": ".key_by(...)",
        })  # fmt: skip

    # -- stateless

    def _with_step(self, step: Step) -> Stream:
        schema = step.result_schema(self._node.schema)
        check_columns(schema, [self._node.event_time], "the event time must stay")
        return Stream(StepNode(self._node, step, schema, self._node.event_time, self._node.unit))

    def filter(self, condition: Expression | Callable) -> Stream:
        """Keep tuples for which a condition holds: an expression of `hr.col`, or a function of a tuple."""
        if isinstance(condition, Expression):
            return self._with_step(FilterStep(condition))
        return self._with_step(self._function_step("filter", condition))

    def select(self, *columns: str, **computed: Expression | str) -> Stream:
        """Keep the columns named, and add computed or renamed ones.

        Examples
        --------
        >>> import headrace as hr
        >>> s = hr.stream(pa.table({"ts": [1], "a": [2], "b": [3]}), event_time="ts")
        >>> s.select("ts", total=hr.col("a") + hr.col("b")).to_arrow().to_pydict()
        {'ts': [1], 'total': [5]}
        """
        check_columns(self._node.schema, columns, "select()")
        pairs = [(name, col(name)) for name in columns]
        pairs += [(name, col(e) if isinstance(e, str) else e) for name, e in computed.items()]
        check_output_names([name for name, _ in pairs], "select()")
        time = self._node.event_time
        kept = dict(pairs).get(time)
        if kept is not None and not (isinstance(kept, Column) and kept.name == time):
            raise ParameterError(
                f"select({time}={computed[time]!r}): {time!r} is the event time, which orders the stream and cannot be"
                f" computed; give the result another name, or change it before hr.stream()"
            )
        return self._with_step(SelectStep(tuple(pairs)))

    def map(self, function: Callable, **columns: str) -> Stream:
        """Compute new columns with a compiled Python function: ``f(t, emit)`` emits one tuple.

        It reads numbers and bools, timestamps and durations as integers in the unit of their column, and
        the event time of a timestamp column in microseconds. `operator` says where it differs from Python.
        """
        return self._with_step(self._function_step("map", function, columns))

    def flat_map(self, function: Callable, **columns: str) -> Stream:
        """Compute tuples from each one with a compiled Python function: ``f(t, emit)`` emits any number; see `map`."""
        return self._with_step(self._function_step("flat_map", function, columns))

    def _function_step(self, kind: str, function: Callable, columns: dict[str, str] | None = None) -> Step:
        from headrace.functions import function_step

        return function_step(kind, function, self._node.schema, self._node.event_time, columns or {})

    def union(self, *others: Stream) -> Stream:
        """Merge streams of one schema in time order; at equal times this stream comes first."""
        for other in others:
            if not other.schema.equals(self.schema):
                raise SchemaError(f"union: {self!r} and {other!r} differ; select() the same columns, cast to the same types")
            mine, theirs = ((node.event_time, node.unit) for node in (self._node, other._node))
            if mine != theirs:
                raise SchemaError(f"union: event times (column, unit) are {mine} and {theirs}; use the same for both")
        nodes = (self._node, *(other._node for other in others))
        return Stream(UnionNode(nodes, self._node.schema, self._node.event_time, self._node.unit))

    def forward(self, name: str = "forward") -> Stream:
        """Pass every tuple through the engine, in merged order (Operator 15 of the paper)."""
        node = self._node
        return Stream(OperatorNode(name, (node,), ForwardSpec(), node.schema, node.event_time, node.unit))

    # -- stateful

    def key_by(
        self, *columns: str | Each | Words | Hashtags | Pairs, nulls: str = "error", **named: Any
    ) -> KeyedStream:
        """Say which keys a tuple has: f_MK, a set.

        Parameters
        ----------
        *columns : str
            Columns whose values together are the key.
        **named : str or key specification
            The same with names for the result: ``tag=hr.each("tags")`` gives one
            key for each element of a list, ``word=hr.words("text")`` for each
            word, ``airport=("origin", "dest")`` for each of these columns.
        nulls : {"error", "drop"}
            What a null key is; a dropped one is counted, its tuple stays.
        """
        parts = [(None, c) for c in columns] + list(named.items())
        if not parts:
            raise ParameterError("key_by(): name at least one column")
        keys, names = [], []
        for name, part in parts:
            source, own = _key_source(part)
            for column in source.columns:
                check_columns(self._node.schema, [column], "key_by()")
            source.key_type(self._node.schema)
            keys.append(source)
            if source.width == 2:
                names += ["first", "second"] if name is None else [f"{name}_first", f"{name}_second"]
            else:
                names.append(name or own)
        check_output_names([self._node.event_time, *names], "key_by()")
        return KeyedStream(self._node, tuple(names), tuple(keys), nulls)

    def window(self, size: str | int, advance: str | int | None = None, instances: str = "multi") -> WindowedStream:
        """Cut the whole stream into windows: one key for all tuples."""
        return KeyedStream(self._node, (), (), "error").window(size, advance, instances)

    def join(
        self,
        other: Stream,
        within: str | int,
        where: Predicate | Callable | None = None,
        on: str | tuple[str, str] | list | None = None,
        prefixes: tuple[str, str] | None = None,
        nulls: str = "error",
        index: bool = True,
        name: str = "join",
    ) -> Stream:
        """Join with another stream: J and J+.

        Parameters
        ----------
        other : Stream
            The right input; this stream itself for a self-join.
        within : duration
            Pairs match when their event times are less than this apart.
        where : predicate or function, optional
            ``hr.band("x", "a", 10) & hr.band("y", "b", 10)``, or a compiled
            Python function ``lambda l, r: ...``. It reads numbers and bools,
            timestamps and durations as integers in the unit of their column,
            and the event times as ``l.ts`` and ``r.ts``, integers in the
            stream's unit; what else differs from Python is in `operator`.
        on : str or (left, right), optional
            Columns that must be equal: of one kind, whose units may differ (1 s
            equals 1000 ms; a timestamp without a zone is in UTC). Infinity
            equals itself, NaN nothing.
        nulls : {"error", "drop"}
            What a null in such a column is, as in `key_by`: an error, or a tuple
            that matches nothing and is counted in the metrics' ``null_keys``.
        index : bool
            Keep stored tuples in cells by the first two conditions that equal
            columns and bands give, so that a tuple meets only those that can
            match; the result is the same. The work is divided among threads by
            cell: False, which compares all pairs and divides them evenly, is
            better where a band covers most of the values there are.
            ``mode="sn"`` always compares all pairs.
        prefixes : (str, str)
            Put before the left and right columns' names in the result; needed
            where names collide, ``("l_", "r_")`` for a self-join by default.

        Returns
        -------
        Stream
            Columns: event time (the later tuple's plus one unit), left ones, right ones.
        """
        left, right = self._node, other._node
        if left.unit != right.unit:
            raise SchemaError(f"join: event times are in {left.unit!r} and {right.unit!r}; cast one")
        units = parse_duration(within, left.unit, "within")
        if units < 1:
            raise ParameterError(f"within={within!r}: must be at least one time unit")
        pairs = _join_columns(on)
        if nulls not in NULLS:
            raise ParameterError(f"nulls={nulls!r}: give one of {', '.join(NULLS)}")
        if not isinstance(index, bool):
            raise ParameterError(f"index={index!r}: give True or False")
        if where is None and not pairs:
            raise ParameterError("join(): give where= (a predicate), on= (columns that must be equal), or both")
        parts = where.parts if isinstance(where, Predicate) else ()
        for part in parts:
            check_columns(left.schema, [part.left], "join(where=), left stream")
            check_columns(right.schema, [part.right], "join(where=), right stream")
            kinds = left.schema.field(part.left).type, right.schema.field(part.right).type
            if isinstance(part, BandPredicate):
                compare_band(part.left, kinds[0], part.right, kinds[1], part.width)
            else:
                compare_equal(part.left, kinds[0], part.right, kinds[1], f"join(where={part!r})")
        for a, b in pairs:
            check_columns(left.schema, [a], "join(on=), left stream")
            check_columns(right.schema, [b], "join(on=), right stream")
            kinds = left.schema.field(a).type, right.schema.field(b).type
            compare_equal(a, kinds[0], b, kinds[1], f"join(on={(a, b)!r})")
        if where is not None and not isinstance(where, Predicate) and not callable(where):
            raise ParameterError(f"where={where!r}: give hr.band(...), hr.equal(...) or a function of two tuples")
        if prefixes is None:
            prefixes = ("l_", "r_") if left is right else ("", "")
        # One unit later than the later tuple: a time in seconds cannot say that.
        fields = [pa.field(left.event_time, output_time_type(left.schema.field(left.event_time).type))]
        for node, prefix in ((left, prefixes[0]), (right, prefixes[1])):
            fields += [pa.field(prefix + f.name, f.type) for f in node.schema if f.name != node.event_time]
        names = [f.name for f in fields]
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise SchemaError(f'join: column {twice!r} is on both sides; pass prefixes=("l_", "r_") or rename it')
        spec = JoinSpec(units, where, pairs, prefixes, nulls, index)
        return Stream(OperatorNode(name, (left, right), spec, pa.schema(fields), left.event_time, left.unit))

    # -- running

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the query's operators, upstream first: what `threads=` and `controller=` of `start` go by."""
        return tuple(node.name for node in plan(self._node).operators)

    def start(self, **options: Any):
        """Start the query and return its `Run` at once; options: see `headrace.engine.start`."""
        from headrace.engine import start

        return start(plan(self._node), **options)

    def to_arrow(self, **options: Any) -> pa.Table:
        """Run to the end and return the results."""
        with self.start(**options) as run:
            run.wait()
            return run.to_arrow()

    def to_pandas(self, **options: Any):
        """Run to the end and return the results as a pandas frame."""
        return self.to_arrow(**options).to_pandas()

    def to_spark(self, spark: Any, **options: Any):
        """Run to the end and return the results as a DataFrame, in deterministic order."""
        with self.start(**options) as run:
            run.wait()
            return run.to_spark(spark)


class KeyedStream:
    """A stream whose tuples have keys."""

    def __init__(self, node: Node, names: tuple[str, ...], keys: tuple[KeySource, ...], nulls: str):
        self._node, self._names, self._keys, self._nulls = node, names, keys, nulls

    def __getattr__(self, name: str) -> Any:
        missing = {"aggregate": ".window(...).aggregate(...)", "apply": ".window(...).apply(...)"}
        raise _missing(self, name, missing | dict.fromkeys(_RUNNING, ".window(...).aggregate(...) first"))

    def window(self, size: str | int, advance: str | int | None = None, instances: str = "multi") -> WindowedStream:
        """Cut each key's tuples into windows [l*WA, l*WA + WS).

        Parameters
        ----------
        size, advance : duration
            WS and WA; without `advance` windows do not overlap.
        instances : {"multi", "single"}
            WT: one state per window, or one per key that slides.
        """
        if instances not in ("multi", "single"):
            raise ParameterError(f'instances={instances!r}: give "multi" or "single"')
        window = Window.parse(size, advance, self._node.unit)
        if instances == "multi":
            window.check_open()
        return WindowedStream(self, window, instances)


class WindowedStream:
    """A keyed stream cut into windows."""

    def __init__(self, keyed: KeyedStream, window: Window, instances: str):
        self._keyed, self._window, self._instances = keyed, window, instances

    def __getattr__(self, name: str) -> Any:
        raise _missing(self, name, dict.fromkeys(_RUNNING, ".aggregate(...) or .apply(...) first"))

    def aggregate(self, name: str = "aggregate", **aggregates: Aggregate) -> Stream:
        """Compute aggregates of each window of each key: A and A+.

        Examples
        --------
        >>> import headrace as hr
        >>> table = pa.table({"ts": [1, 2, 61], "tags": [["a", "b"], ["a"], []]})
        >>> tags = hr.stream(table, event_time="ts").key_by(tag=hr.each("tags")).window(60)
        >>> tags.aggregate(n=hr.count()).to_arrow().to_pydict()
        {'ts': [60, 60], 'tag': ['a', 'b'], 'n': [2, 1]}
        """
        keyed, node = self._keyed, self._keyed._node
        if not aggregates:
            raise ParameterError("aggregate(): give at least one, as in aggregate(n=hr.count())")
        for result, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise ParameterError(f"aggregate({result}={aggregate!r}): give hr.count(), hr.max(column), ...")
            if aggregate.column is not None:
                check_columns(node.schema, [aggregate.column], f"aggregate({result}={aggregate!r})")
        check_output_names([node.event_time, *keyed._names, *aggregates], "aggregate()")
        self._window.check_open()
        schema = self._schema([
            pa.field(result, result_type(aggregate, node.schema)) for result, aggregate in aggregates.items()
        ])
        spec = AggregateSpec(
            keyed._names, keyed._keys, self._window, tuple(aggregates.items()), keyed._nulls, self._instances
        )
        return Stream(OperatorNode(name, (node,), spec, schema, node.event_time, node.unit))

    def apply(self, operator: Any, name: str | None = None) -> Stream:
        """Run a custom operator (`hr.operator`) on each window of each key: O+."""
        return _apply((self._keyed,), self._window, self._instances, operator, name)

    def _schema(self, fields: list[pa.Field]) -> pa.Schema:
        return _keyed_schema(self._keyed, self._window, fields)


class KeyedInputs:
    """Several keyed streams, the inputs of one operator; see `inputs`."""

    def __init__(self, keyed: tuple[KeyedStream, ...]):
        self._keyed = keyed

    def window(self, size: str | int, advance: str | int | None = None, instances: str = "multi") -> WindowedInputs:
        """Cut each key's tuples, of all inputs together, into windows; see `KeyedStream.window`."""
        windowed = self._keyed[0].window(size, advance, instances)
        return WindowedInputs(self._keyed, windowed._window, instances)


class WindowedInputs:
    """Several keyed streams cut into common windows."""

    def __init__(self, keyed: tuple[KeyedStream, ...], window: Window, instances: str):
        self._keyed, self._window, self._instances = keyed, window, instances

    def apply(self, operator: Any, name: str | None = None) -> Stream:
        """Run a custom operator on each window of each key; `t.input` tells whose tuple it is."""
        return _apply(self._keyed, self._window, self._instances, operator, name)


def inputs(*streams: KeyedStream | Stream) -> KeyedInputs:
    """Give one operator several inputs, each with its own columns: O+ with I > 1.

    Parameters
    ----------
    *streams : KeyedStream or Stream
        All with keys of the same names and types, or all without. At equal
        times the tuples of an earlier input come first.

    Examples
    --------
    >>> import headrace as hr
    >>> def update(state, t, emit):
    ...     if t.input == 0:
    ...         state.sold += t.amount
    ...     else:
    ...         state.returned += 1
    >>> def output(key, state, emit):
    ...     emit(sold=state.sold, returned=state.returned)
    >>> both = hr.operator(state={"sold": "int64", "returned": "int64"},
    ...     emits={"sold": "int64", "returned": "int64"}, update=update, output=output)
    >>> sales = hr.stream(pa.table({"ts": [0, 5], "shop": [1, 1], "amount": [3, 4]}), event_time="ts")
    >>> returns = hr.stream(pa.table({"ts": [2], "shop": [1]}), event_time="ts")
    >>> hr.inputs(sales.key_by("shop"), returns.key_by("shop")).window(10).apply(both).to_arrow().to_pylist()
    [{'ts': 10, 'shop': 1, 'sold': 7, 'returned': 1}]
    """
    keyed = tuple(KeyedStream(s._node, (), (), "error") if isinstance(s, Stream) else s for s in streams)
    if not keyed:
        raise ParameterError("inputs(): give at least one keyed stream")
    first = keyed[0]
    types = _key_types(first)
    for other in keyed[1:]:
        if other._node.unit != first._node.unit:
            raise SchemaError(
                f"inputs(): event times are in {first._node.unit!r} and {other._node.unit!r}; cast one"
            )
        if other._names != first._names or _key_types(other) != types:
            raise SchemaError(
                f"inputs(): keys {_named_types(first)} and {_named_types(other)} differ; name and cast them alike,"
                f" as in key_by(name=column)"
            )
        if other._nulls != first._nulls:
            raise ParameterError(f"inputs(): nulls={first._nulls!r} and {other._nulls!r}; give all key_by() the same")
    return KeyedInputs(keyed)


def _key_types(keyed: KeyedStream) -> list[pa.DataType]:
    return [k for source in keyed._keys for k in [source.key_type(keyed._node.schema)] * source.width]


def _named_types(keyed: KeyedStream) -> str:
    return ", ".join(f"{n}: {k}" for n, k in zip(keyed._names, _key_types(keyed), strict=True)) or "none"


def _keyed_schema(keyed: KeyedStream, window: Window, fields: list[pa.Field]) -> pa.Schema:
    node = keyed._node
    # Right boundaries are multiples of this.
    step = math.gcd(window.size, window.advance)
    time = pa.field(node.event_time, output_time_type(node.schema.field(node.event_time).type, step))
    keys = [pa.field(name, kind) for name, kind in zip(keyed._names, _key_types(keyed), strict=True)]
    return pa.schema([time, *keys, *fields])


def _apply(
    keyed: tuple[KeyedStream, ...], window: Window, instances: str, operator: Any, name: str | None
) -> Stream:
    from headrace.functions import CustomOperator

    if not isinstance(operator, CustomOperator):
        raise ParameterError(f"apply({operator!r}): give what hr.operator(...) returns")
    first = keyed[0]
    nodes = tuple(k._node for k in keyed)
    operator.check([(node.schema, node.event_time) for node in nodes], _key_types(first), instances)
    schema = _keyed_schema(first, window, operator.output_fields)
    check_output_names(schema.names, "apply()")
    spec = ApplySpec(first._names, tuple(k._keys for k in keyed), window, operator, first._nulls, instances)
    return Stream(OperatorNode(name or operator.name, nodes, spec, schema, nodes[0].event_time, nodes[0].unit))


def result_type(aggregate: Aggregate, schema: pa.Schema) -> pa.DataType:
    """Type of an aggregate's result: `min`, `max`, `first` and `last` keep that of their column."""
    if aggregate.column is not None and not is_text(plain_type(schema.field(aggregate.column).type)):
        try:
            check_value_type(aggregate.column, schema.field(aggregate.column).type)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(f"{aggregate!r}: {error}") from None
    if aggregate.kind in ("count", "count_distinct"):
        return pa.int64()
    kind = schema.field(aggregate.column).type
    plain = plain_type(kind)
    if aggregate.kind in ("first", "last", "min", "max"):
        return plain
    if is_text(plain):
        raise UnsupportedTypeError(
            f"{aggregate!r}: the column is {kind}; strings can be counted, or the first, last, least or greatest one"
            f" kept; cast it to a number"
        )
    return pa.float64() if aggregate.kind == "mean" or value_dtype(kind).kind == "f" else pa.int64()


def _key_source(part: Any) -> tuple[KeySource, str]:
    if isinstance(part, str):
        return KeySource((part,)), part
    if isinstance(part, tuple):
        return KeySource(part, "any"), part[0]
    if isinstance(part, Each):
        return KeySource((part.column,), "each"), part.column
    if isinstance(part, Words):
        return KeySource((part.column,), "words"), "word"
    if isinstance(part, Hashtags):
        return KeySource((part.column,), "hashtags"), "hashtag"
    if isinstance(part, Pairs):
        return KeySource((part.column,), "pairs", part.distance), "pair"
    raise ParameterError(
        f"key_by({part!r}): give a column name, a tuple of names, hr.each, hr.words, hr.hashtags or hr.pairs"
    )


def _join_columns(on: Any) -> tuple[tuple[str, str], ...]:
    if on is None:
        return ()
    items = on if isinstance(on, list) else [on]
    pairs = []
    for item in items:
        if isinstance(item, str):
            pairs.append((item, item))
        elif isinstance(item, EqualPredicate):
            pairs.append((item.left, item.right))
        elif isinstance(item, tuple) and len(item) == 2:
            pairs.append(item)
        else:
            raise ParameterError(f"on={item!r}: give a column name, or (left name, right name)")
    return tuple(pairs)
