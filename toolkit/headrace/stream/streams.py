"""A stream: each call checks what it can, and returns a new object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.elastic.specs import ForwardSpec
from headrace.errors import ParameterError, SchemaError
from headrace.expressions import Each, Expression, Hashtags, Pairs, Predicate, Words, col
from headrace.expressions.columns import Column
from headrace.ingress.aligning import shared_schema
from headrace.names import explains_arguments, missing_attribute
from headrace.ordering.stages import Stage
from headrace.plan.checks import check_columns, check_output_names
from headrace.plan.nodes import Node, Spec, StepNode, UnionNode, check_result, check_spec, operator_node
from headrace.plan.steps import WANTED, FilterStep, SelectStep, Step, function_step
from headrace.stream.hints import OTHER_NAMES, WINDOW_WORDS, WINDOWED, WINDOWS
from headrace.stream.joins import read_join
from headrace.stream.keys import read_keys, with_key_columns
from headrace.stream.ordered import Staged, pipeline_node
from headrace.stream.running import Runnable
from headrace.stream.windowed import KeyedStream, WindowedStream
from headrace.transactions.specification import specify
from headrace.windows import Duration


class Stream(Runnable):
    """A stream of tuples, not yet running."""

    def __getattr__(self, name: str) -> Any:
        stateful = {
            "aggregate": ".key_by(...).window(...).aggregate(...)",
            "agg": ".key_by(...).window(...).aggregate(...)",
            "apply": ".key_by(...).window(...).apply(...)",
        }
        raise missing_attribute(self, name, stateful | dict.fromkeys(WINDOWS, WINDOWED) | OTHER_NAMES)

    # -- stateless

    @explains_arguments(condition=f"give {WANTED['filter']}")
    def filter(self, condition: Expression | Callable) -> Stream:
        """Keep the tuples for which a condition holds.

        Parameters
        ----------
        condition : expression of `hr.col`, or function of a tuple
            An expression is evaluated by Arrow, a function (``lambda t: t.a > 1 or t.kind == "cart"``) is compiled. What it
            can read is as in `map`.

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
        """Keep the columns named, and add computed or renamed ones.

        Parameters
        ----------
        *columns : str
            Names of columns that stay as they are.
        **computed : Expression or str
            Name -> what it is: an expression, or the name of a column that it replaces.

        Raises
        ------
        ParameterError
            Two columns of one name, or an event time that is computed.
        SchemaError
            There is no such column.
        UnsupportedTypeError
            The type of a column does not do for an expression.

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
                raise ParameterError(f"select({name}={what!r}): is no expression and no name of a column; {wanted}")
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
        """Compute new columns of each tuple with a compiled Python function.

        Parameters
        ----------
        function : function (t, emit)
            ``t.name`` are the columns of the tuple; it calls ``emit(name=value, ...)`` exactly once, or is a function
            of `t` alone that returns the value of the only column. It reads numbers, bools and strings, timestamps and
            durations as integers in the unit of their column, and the event time of a timestamp column in
            microseconds. `headrace.operator` says what can be done with strings, and where compiled functions differ
            from Python.
        **columns : str
            Columns that it computes: name -> kind ("int64", "int32", "float64", "float32", "bool", "string", or a time
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
        """Compute any number of tuples from each tuple, none included, with a compiled Python function.

        Parameters
        ----------
        function : function (t, emit)
            ``t.name`` are the columns of the tuple, ``emit(name=value, ...)`` makes a tuple; it may be called in a
            loop. What can be read and how it differs from Python is as in `map`.
        **columns : str
            Columns that it computes: name -> kind ("int64", "int32", "float64", "float32", "bool", "string", or a time
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

        At equal times the tuples of this stream come first, then those of the others as they are given.

        Parameters
        ----------
        *others : Stream

        Raises
        ------
        SchemaError
            Columns, their types, or event times differ.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> a, b = (hr.stream(pa.table({"ts": ts}), event_time="ts") for ts in ([1, 4], [2, 3]))
        >>> a.union(b).to_arrow().to_pydict()
        {'ts': [1, 2, 3, 4]}
        """
        for other in others:
            if shared_schema(self.schema, other.schema) is None:
                raise SchemaError(
                    f"union: the columns {_columns(self)} and {_columns(other)} differ; select() the same columns, cast to the"
                    f" same types"
                )
            mine, theirs = ((node.event_time, node.unit) for node in (self._node, other._node))
            if mine != theirs:
                raise SchemaError(f"union: event times (column, unit) are {mine} and {theirs}; use the same for both")
        inputs = [self, *others]
        if any(not one.schema.equals(self.schema) for one in others):
            inputs = [one.select(*one.schema.names) for one in inputs]  # any of these columns may be null
        nodes = tuple(one._node for one in inputs)
        return Stream(UnionNode(nodes, nodes[0].schema, self._node.event_time, self._node.unit))

    def forward(self, name: str = "forward") -> Stream:
        """Pass every tuple through the engine, in merged order (Operator 15 of the STRETCH paper).

        Parameters
        ----------
        name : str
            Of the operator in the query.

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
            key for each element of a list, ``word=hr.words("text")`` for each
            word, ``airport=("origin", "dest")`` for each of these columns, ``place=hr.keys(places, "string")`` for each
            that a function of the tuple emits.
        nulls : {"error", "drop"}
            What happens to a null key: an error, or it is left out and counted; the
            tuple keeps its other keys.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> flights = pa.table({"ts": [1, 2], "origin": ["JFK", "LGA"], "dest": ["LAX", "JFK"]})
        >>> airports = hr.stream(flights, event_time="ts").key_by(airport=("origin", "dest"))
        >>> airports.window(10).aggregate(n=hr.count()).to_arrow().to_pydict()
        {'ts': [10, 10, 10], 'airport': ['JFK', 'LAX', 'LGA'], 'n': [2, 1, 1]}
        """
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
            The paper's WS and WA, such as "1h", or a whole number in the unit of the event time; without `advance`
            windows do not overlap; see `KeyedStream.window`.
        instances : {"multi", "single"}
            The paper's WT: "multi" keeps a state for each window, "single" one state, which slides.
        zone : str, optional
            Windows of whole days of this time zone.
        """
        return self._without_keys().window(size, advance, instances, zone)

    def _without_keys(self) -> KeyedStream[Stream]:
        return KeyedStream(Stream, self._node, (), (), "error")

    @explains_arguments(how="where", left_on="on", right_on="on", by="on", suffixes="prefixes", tolerance="within")
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
        """Join this stream with another one, or with itself: J and J+.

        Parameters
        ----------
        other : Stream
            The right input; this stream itself for a self-join.
        within : duration
            Pairs match when their event times are less than this apart; as in `window`.
        where : predicate or function, optional
            ``hr.band("x", "a", 10) & hr.band("y", "b", 10)``, or a compiled
            Python function ``lambda l, r: ...``. It reads numbers, bools and strings,
            timestamps and durations as integers in the unit of their column,
            and the event times as ``l.ts`` and ``r.ts``, integers in the
            stream's unit; what else differs from Python is in `operator`. A tuple with a
            null in a column that the function reads matches nothing, whichever part of
            the condition reads it; it cannot be asked by ``is None``.
        on : str or (left, right), optional
            Columns that must be equal: of one kind, whose units may differ (1 s
            equals 1000 ms; a timestamp without a zone is in UTC). Infinity
            equals itself, NaN nothing. A column of one name on both sides,
            ``on="id"``, is once in the result, with the left tuple's value.
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
            where names collide that `on` does not name (or give one another name
            by `select`), ``("l_", "r_")`` for a self-join by default.

        Returns
        -------
        Stream
            Columns: event time (the later tuple's plus one unit), left ones, right ones.

        Raises
        ------
        ParameterError
            Neither `where` nor `on`, or what these cannot be.
        SchemaError
            Columns that are not there, are of different kinds, or collide; event times in different units.
        FunctionError
            Of `start`: `where` takes other parameters, or does what is not compiled; the line, and what to write.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> orders = hr.stream(pa.table({"ts": [1, 4], "id": ["a", "b"], "price": [3, 5]}), event_time="ts")
        >>> paid = hr.stream(pa.table({"ts": [2, 9], "id": ["a", "b"], "by": ["card", "cash"]}), event_time="ts")
        >>> orders.join(paid, within=10, on="id").to_arrow().to_pylist()
        [{'ts': 3, 'id': 'a', 'price': 3, 'by': 'card'}, {'ts': 10, 'id': 'b', 'price': 5, 'by': 'cash'}]
        """
        left, right = self._node, other._node
        if left.unit != right.unit:
            raise SchemaError(f"join: event times are in {left.unit!r} and {right.unit!r}; cast one")
        if prefixes is None:
            prefixes = ("l_", "r_") if left is right else ("", "")
        spec = read_join(left.unit, within, where, on, prefixes, nulls, index)
        return Stream(operator_node(spec, (left, right), name))

    # -- any engine

    @explains_arguments(output="emits", outputs="emits", columns="carry", keep="carry", tables="functions")
    def transact(
        self, *functions: Callable, emits: Mapping[str, Any] | None = None, carry: Sequence[str] = (), name: str | None = None
    ) -> Stream:
        """Run a state transaction for each event: functions that read and write shared tables (TStream).

        Any number of threads works on the tables, and the result is that of one event after another: its
        functions run in the order given; all of a function happens or, where it is rejected, nothing of it.

        Parameters
        ----------
        *functions : function (e, t)
            Plain Python, compiled as in `operator`. `e` has the event's columns, lists of numbers among them, and
            ``e.ts``. ``accounts[e.source].balance`` reads or writes a column of a row of an `hr.table` that the function
            finds by its name. ``t.reject()`` ends the function: nothing of it has happened. ``t.emit(balance=...)`` gives
            the event's row values, once; what it leaves out, or gives as None, is null. A key that the table does not have
            rejects, unless the table says otherwise; so does a null. Integers that leave their range end the run. Functions
            that it calls may do all of this, and be given rows, `e` and `t`.
        emits : dict, optional
            Name -> kind of the columns that `t.emit` gives: "int64", "int32", "float64", "float32", "bool", "string".
        carry : list of str, optional
            Columns of the event that its row keeps, rejected or not.
        name : str, optional
            Of the operator in the query; by default the function's.

        Returns
        -------
        Stream
            A row for each event, in the order of the input: its time, what it carries, what was emitted, and
            ``rejected``, whether any of its functions was.

        Raises
        ------
        FunctionError
            With the line of what cannot be part of a transaction.

        Notes
        -----
        The rows of a transaction should be known from its event alone: a key may be a column, an element of a list that is
        looped over, anything computed from them, and may stand under a condition
        (TStream, section II-B, the determined read and write sets). One that depends on what was read needs
        ``start(scheme="speculative")``, or "serial" on one thread. ``start(scheme=, punctuation=, sharing=)``
        say how transactions are run: by "chains" of operations; in the order of each record's "lock", of its versions
        ("mvlk") or of its "partition"; "speculative"; "serial", or "adaptive": schemes are tried meanwhile. Whichever it
        is, results and tables are the same. ``run.tables[name]`` is a table after the last event, ``run.snapshot()`` all
        tables as of one punctuation, while the run goes on. ``start(snapshot_every=)`` has such copies made by themselves,
        so that there are some when a run fails: ``run.snapshots``.

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
        """Begin a pipeline of stages whose outputs come in the input's order, whichever workers run them.

        Workers take whatever stage needs them; the results are those of one worker (Prasaad, Ramalingam and Rajan, "Scaling
        Ordered Stream Processing on Shared-Memory Multicores"). Stages are ``filter(f)``, ``map(f, emits=)`` and
        ``flat_map(f, emits=)`` without a state, ``partitioned(f, by=, state=, emits=)`` with one for each key, and
        ``stateful(f, state=, emits=, end=)`` with one for all. Functions are compiled, as those of `hr.operator`:
        ``f(t)`` of a filter, ``f(t, emit)``, ``f(state, t, emit)``, but for integers that leave the range of int64: these end
        the run. A stage gives the event time and what it emits.

        Returns
        -------
        OrderedStream
            `start` takes ``threads max_threads schedule queues reorder batch capacity max_state`` for it, and the parameters of
            schedules ``time_slice window most_behind least_before``. ``run["gap"]`` is the stage of that name at run time: its
            cost, selectivity, backlog, workers now.

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
        """Append an operator that a specification describes: how an engine, or an operator of your own, is used.

        `forward`, `join`, `aggregate` and `apply` do the same with the specifications of the elastic
        engine. What a specification must have is said by `headrace.plan.Spec`: a name, whether its inputs
        are told apart, the type of its results; and, for `start`, what checks the engine's options and the
        section that computes the results in a run.

        Parameters
        ----------
        spec : headrace.plan.Spec
        *others : Stream
            More inputs. Where `spec.has_sides` this stream is the first input and each of these another
            one; elsewhere all are merged into one input, as `union` does it.
        name : str, optional
            Of the operator in the query: what ``run[name]``, ``threads={name: 2}``, metrics and errors call
            it. By default `spec.name`; a name that is taken gets a number.

        Returns
        -------
        Stream
            Of what `spec.result_type` says.

        Raises
        ------
        ParameterError
            Something that specifies no operator, or no stream.
        SchemaError
            The inputs do not suit the operator, or the type it says for its results cannot be a stream's.

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
        for other in others:
            if not isinstance(other, Stream):
                raise ParameterError(f"through(): {other!r} is no stream; give what hr.stream(...) and its methods return")
        first = self if spec.has_sides or not others else self.union(*others)
        inputs = [first._node, *(other._node for other in others if spec.has_sides)]
        node = operator_node(spec, inputs, name)
        check_result(node, "through()")
        return Stream(node)


def unit_of(stream: Stream) -> str:
    """The unit of a stream's event times."""
    return stream._node.unit


def with_step(stream: Stream, step: Step) -> Stream:
    """A stream with one more step, which may be one of an application's own.

    It must leave the event time in the schema.
    """
    schema = step.result_schema(stream._node.schema)
    check_columns(schema, [stream._node.event_time], "the event time must stay")
    return Stream(StepNode(stream._node, step, schema, stream._node.event_time, stream._node.unit))


def _columns(stream: Stream) -> str:
    return ", ".join(f"{f.name}: {f.type}{'' if f.nullable else ' not null'}" for f in stream.schema)


class OrderedStream(Staged, Stream):  # type: ignore[misc]
    """What `Stream.ordered` returns: a stream to which stages are added, one after another."""

    def __init__(self, origin: Node, stages: tuple[Stage, ...] = ()):
        self._origin, self._stages = origin, stages
        Stream.__init__(self, pipeline_node(origin, stages))
