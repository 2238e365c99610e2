"""A stream: each call checks what it can, and returns a new object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.arguments import shown
from headrace.elastic.specs import ForwardSpec
from headrace.errors import ArgumentError, ParameterError, SchemaError
from headrace.expressions import Each, Expression, Hashtags, Pairs, Predicate, Words, col
from headrace.expressions.columns import Column
from headrace.ingress.key_sources import check_nulls
from headrace.ingress.same_schema import shared_schema, told_apart
from headrace.names import explains_arguments, missing_attribute
from headrace.ordering.stages import Stage
from headrace.plan.checks import check_columns, check_output_names
from headrace.plan.nodes import Node, Spec, StepNode, UnionNode, check_result, check_spec, operator_node
from headrace.plan.steps import WANTED, ConformStep, FilterStep, SelectStep, Step, function_step
from headrace.stream.hints import (
    AGGREGATES,
    OTHER_NAMES,
    WINDOW_NAMES,
    WINDOW_WORDS,
    instead_of_brackets,
    warn_of_microseconds,
)
from headrace.stream.joins import read_join
from headrace.stream.keys import read_keys, with_key_columns
from headrace.stream.ordered import Staged, pipeline_node
from headrace.stream.running import Runnable
from headrace.stream.windowed import KeyedStream, WindowedStream
from headrace.transactions.specification import specify
from headrace.windows import Duration


class Stream(Runnable):
    """A stream of tuples, not yet running; `headrace.stream` makes one.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> hr.stream(pa.table({"ts": [1, 2], "x": [3, 4]}), event_time="ts").filter(hr.col("x") > 3).to_arrow().to_pylist()
    [{'ts': 2, 'x': 4}]
    """

    def __getattr__(self, name: str) -> Any:
        stateful = {
            "aggregate": ".key_by(...).window(...).aggregate(...)",
            "agg": ".key_by(...).window(...).aggregate(...)",
            "apply": ".key_by(...).window(...).apply(...)",
        }
        stateful |= {name: f".key_by(...).window(...).aggregate({name}=hr.{name}(...))" for name in AGGREGATES}
        node = vars(self).get("_node")  # not there yet in an object that is being unpickled
        columns = {column: f"hr.col({column!r})" for column in node.schema.names} if node is not None else {}
        raise missing_attribute(self, name, columns | stateful | WINDOW_NAMES | OTHER_NAMES)

    def __getitem__(self, asked: object) -> Any:
        raise ArgumentError(f"stream[{shown(asked)}]: {instead_of_brackets(asked)}")

    __iter__ = None  # with brackets alone, Python would take it for a sequence

    # -- stateless

    @explains_arguments(condition=f"give {WANTED['filter']}")
    def filter(self, condition: Expression | Callable) -> Stream:
        """Keep the tuples for which a condition holds.

        Parameters
        ----------
        condition : expression of `hr.col`, or function of a tuple
            An expression is evaluated by Arrow; a function (``lambda t: t.a > 1 or t.kind == "cart"``) is compiled, and can
            read what a function of `map` can.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> s = hr.stream(pa.table({"ts": [1, 2], "a": [2, 3]}), event_time="ts")
        >>> s.filter(hr.col("a") > 2).to_arrow().to_pydict()
        {'ts': [2], 'a': [3]}
        """
        if isinstance(condition, Expression):
            return with_step(self, FilterStep(condition))
        return with_step(self, function_step("filter", condition, self.schema, self._node.event_time, {}))

    def select(self, *columns: str, **computed: Expression | str) -> Stream:
        """Keep the named columns, and add computed or renamed ones.

        Parameters
        ----------
        *columns : str
            Columns that stay as they are.
        **computed : Expression or str
            New name -> an expression, or the name of the column to rename.

        Raises
        ------
        ParameterError
            Two columns have one name, or the event time is computed.
        SchemaError
            There is no such column.
        UnsupportedTypeError
            An expression cannot take the type of a column.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> s = hr.stream(pa.table({"ts": [1], "a": [2], "b": [3]}), event_time="ts")
        >>> s.select("ts", total=hr.col("a") + hr.col("b")).to_arrow().to_pydict()
        {'ts': [1], 'total': [5]}
        """
        check_columns(self._node.schema, columns, "select()")
        for name, what in computed.items():
            if not isinstance(what, Expression | str):
                wanted = "use map(), which takes functions" if callable(what) else f"write hr.lit({what!r})"
                raise ParameterError(f"select({name}={what!r}): is neither an expression nor the name of a column; {wanted}")
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
        return with_step(self, SelectStep(tuple(pairs)))

    @explains_arguments(function=f"give {WANTED['map']}")
    def map(self, function: Callable, **columns: str) -> Stream:
        """Compute new columns for each tuple with a compiled Python function.

        Parameters
        ----------
        function : function (t, emit)
            Reads columns of the tuple as ``t.name`` and calls ``emit(name=value, ...)`` exactly once; or takes
            `t` alone and returns the value of the only new column. It can read numbers, bools and strings. Timestamps and
            durations are integers in the unit of their column, and an event time that is a timestamp is in
            microseconds; ``t.ts`` is the event time, unless another column has this name. `headrace.operator` says what can
            be done with strings, and where compiled functions differ from Python.
        **columns : str
            Computed columns: name -> kind ("int64", "int32", "float64", "float32", "bool", "string", or a time
            such as "timestamp[us]"). The other columns of the tuple stay as they are.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> def add(t, emit):
        ...     emit(total=t.a + t.b)
        >>> s = hr.stream(pa.table({"ts": [1], "a": [2], "b": [3]}), event_time="ts")
        >>> s.map(add, total="int64").to_arrow().to_pydict()
        {'ts': [1], 'a': [2], 'b': [3], 'total': [5]}
        """
        return with_step(self, function_step("map", function, self.schema, self._node.event_time, columns))

    @explains_arguments(function=f"give {WANTED['flat_map']}")
    def flat_map(self, function: Callable, **columns: str) -> Stream:
        """Make zero, one or more tuples from each tuple with a compiled Python function.

        Parameters
        ----------
        function : function (t, emit)
            Reads columns of the tuple as ``t.name``; each call of ``emit(name=value, ...)``, which may be in a loop, makes
            a tuple. What it can read, and how it differs from Python, is as in `map`.
        **columns : str
            Computed columns: name -> kind ("int64", "int32", "float64", "float32", "bool", "string", or a time
            such as "timestamp[us]"). The other columns of the tuple stay as they are.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> def halves(t, emit):
        ...     for half in range(2):
        ...         emit(half=half)
        >>> s = hr.stream(pa.table({"ts": [1, 2], "a": [5, 6]}), event_time="ts")
        >>> s.flat_map(halves, half="int64").to_arrow().to_pydict()
        {'ts': [1, 1, 2, 2], 'a': [5, 5, 6, 6], 'half': [0, 1, 0, 1]}
        """
        return with_step(self, function_step("flat_map", function, self.schema, self._node.event_time, columns))

    def union(self, *others: Stream) -> Stream:
        """Merge this stream with others of the same schema, in the order of their event times.

        At equal times the tuples of this stream come first, then those of the others in the order given. Texts may lie in memory
        in different ways (``string``, ``large_string``, categories).

        Parameters
        ----------
        *others : Stream

        Raises
        ------
        SchemaError
            Columns, their types, or event-time columns differ.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> a, b = (hr.stream(pa.table({"ts": ts}), event_time="ts") for ts in ([1, 4], [2, 3]))
        >>> a.union(b).to_arrow().to_pydict()
        {'ts': [1, 2, 3, 4]}
        """
        _check_streams("union", *others)
        shared = self.schema
        for other in others:
            both = shared_schema(shared, other.schema)
            if both is None:
                ours, theirs = told_apart(shared, other.schema)
                raise SchemaError(
                    f"union: the columns {ours} and {theirs} differ; select() the same columns, cast to the same types"
                )
            mine, theirs = ((node.event_time, node.unit) for node in (self._node, other._node))
            if mine != theirs:
                raise SchemaError(f"union: event times (column, unit) are {mine} and {theirs}; use the same for both")
            shared = both
        inputs = [one if one.schema.equals(shared) else with_step(one, ConformStep(shared)) for one in (self, *others)]
        nodes = tuple(one._node for one in inputs)
        return Stream(UnionNode(nodes, nodes[0].schema, self._node.event_time, self._node.unit))

    def forward(self, name: str = "forward") -> Stream:
        """Pass every tuple through the engine, in merged order (Operator 15 of the STRETCH paper).

        Parameters
        ----------
        name : str
            Name of the operator in the query.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> early, late = (pa.table({"ts": [ts]}) for ts in (1, 2))
        >>> hr.stream([late, early], event_time="ts").forward().to_arrow(threads=2).to_pydict()
        {'ts': [1, 2]}
        """
        return Stream(operator_node(ForwardSpec(), (self._node,), name))

    # -- stateful

    def key_by(
        self, *columns: str | Each | Words | Hashtags | Pairs, nulls: str = "error", **named: Any
    ) -> KeyedStream[Stream]:
        """Give each tuple its keys: the paper's f_MK. A tuple may have several, or none.

        Parameters
        ----------
        *columns : str
            Columns whose values together are the key.
        **named : str or key specification
            Keys with a name for the result: ``tag=hr.each("tags")`` gives one
            key for each element of a list, ``word=hr.words("text")`` one for each
            word, ``airport=("origin", "dest")`` one for each of these columns, and ``place=hr.keys(places, "string")`` one
            for each key that a function of the tuple emits.
        nulls : {"error", "drop"}
            Whether a null key is an error, or is dropped and counted; the tuple then
            keeps its other keys.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> flights = pa.table({"ts": [1, 2], "origin": ["JFK", "LGA"], "dest": ["LAX", "JFK"]})
        >>> airports = hr.stream(flights, event_time="ts").key_by(airport=("origin", "dest"))
        >>> airports.window(10).aggregate(n=hr.count()).to_arrow().to_pydict()
        {'ts': [10, 10, 10], 'airport': ['JFK', 'LAX', 'LGA'], 'n': [2, 1, 1]}
        """
        check_nulls(nulls)
        node, columns, named = with_key_columns(self._node, columns, named)
        names, keys = read_keys(node.schema, columns, named)
        check_output_names([node.event_time, *names], "key_by()")
        return KeyedStream(Stream, node, names, keys, nulls)

    @explains_arguments(**WINDOW_WORDS)
    def window(
        self, size: Duration, advance: Duration | None = None, instances: str = "multi", zone: str | None = None
    ) -> WindowedStream[Stream]:
        """Cut the whole stream into windows, without keys: each window gives one result.

        Parameters
        ----------
        size, advance : duration
            The paper's WS and WA: a text such as "1h", or a whole number in the unit of the event time. Without `advance`
            windows do not overlap. See `KeyedStream.window`.
        instances : {"multi", "single"}
            The paper's WT: "multi" keeps a state for each window, "single" one state, which slides.
        zone : str, optional
            Windows of whole days of this time zone.
        """
        return self._without_keys().window(size, advance, instances, zone)

    def _without_keys(self) -> KeyedStream[Stream]:
        return KeyedStream(Stream, self._node, (), (), "error")

    @explains_arguments(
        how="tuples that match nothing have no result, as in an inner join; where= is the condition of a match",
        within="say how far apart in time two tuples may be that match, as in within='5min'",
        left_on="on", right_on="on", by="on", suffixes="prefixes", tolerance="within",
    )  # fmt: skip
    def join(
        self,
        other: Stream,
        within: Duration,
        where: Predicate | Callable | None = None,
        on: str | tuple[str, str] | list | None = None,
        prefixes: tuple[str, str] | None = None,
        nulls: str = "error",
        index: bool = True,
        name: str = "join",
    ) -> Stream:
        """Join this stream with another stream or with itself. Tuples that match nothing have no result.

        Parameters
        ----------
        other : Stream
            The right input; this stream itself for a self-join.
        within : duration
            Tuples match only if their event times are less than this apart; given as in `window`.
        where : predicate or function, optional
            ``hr.band("x", "a", 10) & hr.band("y", "b", 10)``, or a compiled
            Python function ``lambda l, r: ...``. It reads numbers, bools and strings,
            timestamps and durations as integers in the unit of their column,
            and the event times as ``l.ts`` and ``r.ts``, integers in the
            stream's unit; `operator` lists the other differences from Python. A tuple with a
            null in a column that the function reads matches nothing, whichever part of
            the condition reads it; ``is None`` cannot test for it.
        on : str, (left, right), or a list of these, optional
            Columns that must be equal. They are of one kind, but their units may differ (1 s
            equals 1000 ms; a timestamp without a zone is in UTC). Infinity
            equals itself, NaN equals nothing. A column with the same name on both sides,
            ``on="id"``, appears once in the result, with the left tuple's value; twice if there are `prefixes`.
        nulls : {"error", "drop"}
            Whether a null in a column of `on` is an error, as in `key_by`, or makes the tuple
            match nothing and count in the metrics' ``null_keys``.
        index : bool
            Keep stored tuples in cells, by the first two equalities or
            bands, so that a tuple is compared only with those that can
            match; the result is the same. The work is divided among threads by
            cell. False compares all pairs and divides them evenly, which is
            better where a band covers most of the values.
            ``mode="sn"`` always compares all pairs.
        prefixes : (str, str)
            Put before the names of the left and right columns in the result. They are needed
            where names that are not in `on` collide (unless `select` renames one);
            ``("l_", "r_")`` by default for a self-join.
        name : str
            Name of the operator in the query.

        Returns
        -------
        Stream
            Columns: event time (the later tuple's plus one unit), left columns, right columns.

        Raises
        ------
        ParameterError
            Neither `where` nor `on` is given, or one of them is invalid.
        SchemaError
            Columns do not exist, are of different kinds, or collide; or event times are in different units.
        FunctionError
            By `start`: `where` takes other parameters, or cannot be compiled; the text has the line, and what to write.

        Notes
        -----
        STRETCH: J with WA = delta, whose keys are the columns of `on`; without `on` it is ScaleJoin (Operator 10), whose keys
        only divide the work. To join by several keys of a tuple (J+ with f_MK), or what shares a window of a larger WA, apply a
        `headrace.operator` that keeps tuples to `headrace.inputs`.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> orders = hr.stream(pa.table({"ts": [1, 4], "id": ["a", "b"], "price": [3, 5]}), event_time="ts")
        >>> paid = hr.stream(pa.table({"ts": [2, 9], "id": ["a", "b"], "by": ["card", "cash"]}), event_time="ts")
        >>> orders.join(paid, within=10, on="id").to_arrow().to_pylist()
        [{'ts': 3, 'id': 'a', 'price': 3, 'by': 'card'}, {'ts': 10, 'id': 'b', 'price': 5, 'by': 'cash'}]
        """
        _check_streams("join", other)
        left, right = self._node, other._node
        if left.unit != right.unit:
            raise SchemaError(f"join: event times are in {left.unit!r} and {right.unit!r}; cast one")
        if prefixes is None:
            prefixes = ("l_", "r_") if left is right else ("", "")
        spec = read_join(left.unit, within, where, on, prefixes, nulls, index)
        warn_of_microseconds("within", within, left.schema.field(left.event_time).type)
        return Stream(operator_node(spec, (left, right), name))

    # -- any engine

    @explains_arguments(output="emits", outputs="emits", columns="carry", keep="carry", tables="functions")
    def transact(
        self, *functions: Callable, emits: Mapping[str, Any] | None = None, carry: Sequence[str] = (), name: str | None = None
    ) -> Stream:
        """Run a state transaction for each event: functions that read and write shared tables (TStream).

        Any number of threads works on the tables, and the result is as if events were processed one after another. The
        functions of an event run in the order given; a function takes effect as a whole or, if it is rejected, not at all.

        Parameters
        ----------
        *functions : function (e, t)
            Plain Python, compiled as in `operator`. `e` has the event's columns, lists of numbers among them, and
            ``e.ts``. ``accounts[e.source].balance`` reads or writes one column of one row of an `hr.table`, which the function
            refers to by a variable. ``t.reject()`` ends the function and undoes it. ``t.emit(balance=...)``, called at most
            once, sets values of the event's row; those left out, or given as None, are null. A key that is not in the table
            rejects, unless the table says otherwise; so does a null. Integer overflow ends the run. Functions
            that it calls may do all of this, and take rows, `e` and `t` as arguments.
        emits : dict, optional
            Columns that `t.emit` sets: name -> kind, "int64", "int32", "float64", "float32", "bool" or "string".
        carry : list of str, optional
            Columns of the event that its row keeps, rejected or not.
        name : str, optional
            Name of the operator in the query; by default that of the function.

        Returns
        -------
        Stream
            A row for each event, in input order: its time, the columns of `carry`, the emitted values, and
            ``rejected``, whether any of its functions was rejected.

        Raises
        ------
        FunctionError
            Something cannot be part of a transaction; the text has its line.

        Notes
        -----
        The rows of a transaction should be known from its event alone: a key may be a column, an element of a list that is
        looped over, or anything computed from these, and may depend on a condition
        (TStream, section II-B, the determined read and write sets). A key that depends on what was read needs
        ``start(scheme="speculative")``, or "serial" on one thread. ``start(scheme=, punctuation=, sharing=)``
        choose how transactions are run: by "chains" of operations; ordered by each record's "lock", its versions
        ("mvlk") or its "partition"; "speculative"; "serial"; or "adaptive", which tries schemes during the run. Results and
        tables are the same with each. ``run.tables[name]`` is a table after the last event. ``run.snapshot()`` copies all
        tables as of one punctuation while the run goes on; ``start(snapshot_every=)`` makes such copies regularly,
        so that ``run.snapshots`` has some if the run fails.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> accounts = hr.table("accounts", columns={"balance": "int64"}, rows=3, first={"balance": 10})
        >>> def transfer(e, t):
        ...     if accounts[e.source].balance < e.amount:
        ...         t.reject()
        ...     accounts[e.source].balance -= e.amount
        ...     accounts[e.target].balance += e.amount
        ...     t.emit(balance=accounts[e.target].balance)
        >>> orders = pa.table({"ts": [1, 2, 3], "source": [0, 0, 1], "target": [1, 2, 2], "amount": [8, 5, 18]})
        >>> ledger = hr.stream(orders, event_time="ts").transact(transfer, emits={"balance": "int64"})
        >>> with ledger.start(threads=2) as run:
        ...     ended = run.wait()
        >>> run.to_arrow().to_pydict()
        {'ts': [1, 2, 3], 'balance': [18, None, 28], 'rejected': [False, True, False]}
        >>> run.tables["accounts"].to_arrow()["balance"].to_pylist()
        [2, 0, 28]
        """
        return self.through(specify(functions, emits, carry), name=name)

    def ordered(self) -> OrderedStream:
        """Begin a pipeline of stages whose outputs come in input order, whichever workers run them.

        Workers go to whichever stage needs them; the results are those of one worker (Prasaad, Ramalingam and Rajan, "Scaling
        Ordered Stream Processing on Shared-Memory Multicores"). Stateless stages are ``filter(f)``, ``map(f, emits=)`` and
        ``flat_map(f, emits=)``; ``partitioned(f, by=, state=, emits=)`` has a state for each key, and
        ``stateful(f, state=, emits=, end=)`` one state for all tuples. Functions (``f(t)`` for a filter, ``f(t, emit)``, or
        ``f(state, t, emit)``) are compiled as for `hr.operator`, except that an overflow of int64 ends
        the run. The output of a stage has the event time and the columns it emits.

        Returns
        -------
        OrderedStream
            Its `start` takes ``threads max_threads schedule queues reorder batch capacity max_state``, and the parameters of
            schedules ``time_slice window most_behind least_before``. ``run["gap"]`` is the stage of that name at run time: its
            cost, selectivity, backlog, and current workers.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> clicks = pa.table({"ts": [1, 2, 5, 9], "user": [7, 8, 7, 8]})
        >>> def gap(state, t, emit):
        ...     if state.seen:
        ...         emit(user=t.user, gap=t.ts - state.last)
        ...     state.seen = True
        ...     state.last = t.ts
        >>> gaps = hr.stream(clicks, event_time="ts").ordered().partitioned(
        ...     gap, by="user", state={"seen": "bool", "last": "int64"}, emits={"user": "int64", "gap": "int64"})
        >>> gaps.filter(lambda t: t.gap > 3).to_arrow(threads=2).to_pylist()
        [{'ts': 5, 'user': 7, 'gap': 4}, {'ts': 9, 'user': 8, 'gap': 7}]
        """
        return OrderedStream(self._node)

    def through(self, spec: Spec, *others: Stream, name: str | None = None) -> Stream:
        """Append the operator that a specification describes, of any engine or your own.

        `forward`, `join`, `aggregate` and `apply` do this with the specifications of the elastic
        engine. `headrace.plan.Spec` documents what a specification must have: a name, whether its inputs
        are distinguished, and the type of its results; and, for `start`, a check of the engine's options and the
        section that computes the results in a run.

        Parameters
        ----------
        spec : headrace.plan.Spec
        *others : Stream
            More inputs. If `spec.has_sides`, this stream is the first input and each of these is a further
            one; otherwise all are merged into one input, as by `union`.
        name : str, optional
            Name of the operator in the query: what ``run[name]``, ``threads={name: 2}``, metrics and errors call
            it. By default `spec.name`; a name that is taken gets a number.

        Returns
        -------
        Stream
            Its type is that of `spec.result_type`.

        Raises
        ------
        ParameterError
            `spec` specifies no operator, or one of `others` is no stream.
        SchemaError
            The inputs do not suit the operator, or its result type cannot be a stream's.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> from headrace.plan import StreamType
        >>> class Numbered:
        ...     "Gives each tuple its number in the stream."
        ...     name, has_sides = "numbered", False
        ...     def result_type(self, inputs):
        ...         (given,) = inputs
        ...         return StreamType(given.schema.append(pa.field("number", pa.int64())), given.event_time, given.unit)
        ...     def options(self, run): ...
        ...     def section(self, node, branches, options): ...
        >>> posts = hr.stream(pa.table({"ts": [3, 5], "text": ["a", "b"]}), event_time="ts")
        >>> numbered = posts.filter(hr.col("text") > "a").through(Numbered())
        >>> numbered.schema.names, numbered.operators
        (['ts', 'text', 'number'], ('numbered',))
        """
        check_spec(spec, "through()")
        _check_streams("through", *others)
        first = self if spec.has_sides or not others else self.union(*others)
        inputs = [first._node, *(other._node for other in others if spec.has_sides)]
        node = operator_node(spec, inputs, name)
        check_result(node, "through()")
        return Stream(node)


def unit_of(stream: Stream) -> str:
    """The unit of a stream's event times."""
    return stream._node.unit


def with_step(stream: Stream, step: Step) -> Stream:
    """Return a stream with one more step, which may be an application's own.

    It must leave the event time in the schema.
    """
    schema = step.result_schema(stream._node.schema)
    check_columns(schema, [stream._node.event_time], "the event time must stay")
    return Stream(StepNode(stream._node, step, schema, stream._node.event_time, stream._node.unit))


def _check_streams(called: str, *others: Any) -> None:
    for other in others:
        if not isinstance(other, Stream):
            wanted = "give what hr.stream(table, event_time=...) and its methods return"
            raise ParameterError(f"{called}({shown(other)}): is not a stream; {wanted}")


class OrderedStream(Staged, Stream):  # type: ignore[misc]
    """What `Stream.ordered` returns: a stream to which stages are added, one after another."""

    def __init__(self, origin: Node, stages: tuple[Stage, ...] = ()):
        self._origin, self._stages = origin, stages
        Stream.__init__(self, pipeline_node(origin, stages))
