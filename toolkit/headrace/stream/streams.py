"""A stream, with keys, and cut into windows: each call checks what it can, and returns a new object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.elastic.custom.operator import CustomOperator
from headrace.elastic.specs import AggregateSpec, ApplySpec, ForwardSpec, keys_text, window_text
from headrace.errors import NotSupportedError, ParameterError, SchemaError
from headrace.expressions import Aggregate, Each, Expression, Hashtags, Pairs, Predicate, Words, col
from headrace.expressions.columns import Column
from headrace.ingress.key_sources import KeySource
from headrace.names import explains_arguments, missing_attribute
from headrace.ordering.stages import Stage
from headrace.plan.checks import check_columns, check_output_names
from headrace.plan.nodes import (
    Node,
    Query,
    Spec,
    StepNode,
    UnionNode,
    check_result,
    check_spec,
    operator_node,
)
from headrace.plan.planning import plan
from headrace.plan.steps import FilterStep, SelectStep, Step, function_step
from headrace.stream.described import describe
from headrace.stream.joins import read_join
from headrace.stream.keys import read_keys, with_key_columns
from headrace.stream.ordered import Staged, pipeline_node
from headrace.summary import Summarised
from headrace.transactions.specification import specify
from headrace.windows import Duration, Window

_RUNNING = ("start", "to_arrow", "to_pandas", "to_spark", "filter", "select", "map", "join", "through")
_OTHER_NAMES = {
    "groupby": ".key_by(...)", "group_by": ".key_by(...)", "keyBy": ".key_by(...)",
    "where": ".filter(...)", "query": ".filter(...)",
    "assign": ".select(..., name=expression)", "with_column": ".select(..., name=expression)",
    "with_columns": ".select(..., name=expression)", "withColumn": ".select(..., name=expression)",
    "rename": ".select(..., new=old)", "drop": ".select(...) with the columns to keep",
    "columns": ".schema.names", "dtypes": ".schema",
    "merge": ".join(..., within=...), or .union(...)", "concat": ".union(...)",
    "run": ".start(), .to_pandas() or .to_arrow()", "execute": ".start(), .to_pandas() or .to_arrow()",
    "collect": ".to_arrow() or .to_pandas()", "compute": ".to_arrow() or .to_pandas()",
    "show": ".to_pandas()", "head": ".to_pandas().head()", "to_polars": "polars.from_arrow(stream.to_arrow())",
    "to_parquet": ".start(sink=hr.parquet(path))", "write": ".start(sink=hr.parquet(path))",
}  # fmt: skip
"""What other libraries call a method -> what to write here."""
_WINDOWS = ("size", "slide", "tumble", "tumbling", "rolling", "resample", "hop")
_AGGREGATES = (
    "count", "sum", "min", "max", "mean", "first", "last", "count_distinct",
    "collect_list", "collect_set", "median", "quantile", "mode", "top",
)  # fmt: skip
_WINDOWED = ".window(size, advance)"
WINDOW_WORDS = {
    "width": "size", "slide": "advance", "step": "advance", "every": "advance", "hop": "advance",
    "tz": "zone", "timezone": "zone", "time_zone": "zone",
} | dict.fromkeys(
    ("session", "gap"),
    "windows have a fixed size; keep a session as a state that says when its user was seen last, in"
    " stream.ordered().partitioned(f, by=..., state=...)",
)  # fmt: skip


class Stream(Summarised):
    """A stream of tuples, not yet running."""

    def __init__(self, node: Node):
        self._node = node

    @property
    def schema(self) -> pa.Schema:
        """Columns of the tuples."""
        return self._node.schema

    def _summary(self) -> list[tuple[str, str]]:
        return describe(self._node)

    def __getattr__(self, name: str) -> Any:
        stateful = {
            "aggregate": ".key_by(...).window(...).aggregate(...)",
            "agg": ".key_by(...).window(...).aggregate(...)",
            "apply": ".key_by(...).window(...).apply(...)",
        }
        raise missing_attribute(self, name, stateful | dict.fromkeys(_WINDOWS, _WINDOWED) | _OTHER_NAMES)

    # -- stateless

    def _with_step(self, step: Step) -> Stream:
        schema = step.result_schema(self._node.schema)
        check_columns(schema, [self._node.event_time], "the event time must stay")
        return Stream(StepNode(self._node, step, schema, self._node.event_time, self._node.unit))

    def filter(self, condition: Expression | Callable) -> Stream:
        """Keep the tuples for which a condition holds.

        Parameters
        ----------
        condition : expression of `hr.col`, or function of a tuple
            An expression is evaluated by Arrow, a function (``lambda t: t.a > 1 or t.kind == "cart"``) is compiled. What it
            can read is as in `map`.

        Examples
        --------
        >>> import headrace as hr
        >>> s = hr.stream(pa.table({"ts": [1, 2], "a": [2, 3]}), event_time="ts")
        >>> s.filter(hr.col("a") > 2).to_arrow().to_pydict()
        {'ts': [2], 'a': [3]}
        """
        if isinstance(condition, Expression):
            return self._with_step(FilterStep(condition))
        return self._with_step(function_step("filter", condition, self.schema, self._node.event_time, {}))

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
        >>> import headrace as hr
        >>> def add(t, emit):
        ...     emit(total=t.a + t.b)
        >>> s = hr.stream(pa.table({"ts": [1], "a": [2], "b": [3]}), event_time="ts")
        >>> s.map(add, total="int64").to_arrow().to_pydict()
        {'ts': [1], 'a': [2], 'b': [3], 'total': [5]}
        """
        return self._with_step(function_step("map", function, self.schema, self._node.event_time, columns))

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
        >>> import headrace as hr
        >>> def halves(t, emit):
        ...     for half in range(2):
        ...         emit(half=half)
        >>> s = hr.stream(pa.table({"ts": [1, 2], "a": [5, 6]}), event_time="ts")
        >>> s.flat_map(halves, half="int64").to_arrow().to_pydict()
        {'ts': [1, 1, 2, 2], 'a': [5, 5, 6, 6], 'half': [0, 1, 0, 1]}
        """
        return self._with_step(function_step("flat_map", function, self.schema, self._node.event_time, columns))

    def union(self, *others: Stream) -> Stream:
        """Merge this stream with others of the same schema, in the order of their event times.

        At equal times the tuples of this stream come first, then those of the others as they are given.

        Examples
        --------
        >>> import headrace as hr
        >>> a, b = (hr.stream(pa.table({"ts": ts}), event_time="ts") for ts in ([1, 4], [2, 3]))
        >>> a.union(b).to_arrow().to_pydict()
        {'ts': [1, 2, 3, 4]}
        """
        for other in others:
            if not other.schema.equals(self.schema):
                raise SchemaError(
                    f"union: the columns {_columns(self)} and {_columns(other)} differ; select() the same columns, cast to the"
                    f" same types"
                )
            mine, theirs = ((node.event_time, node.unit) for node in (self._node, other._node))
            if mine != theirs:
                raise SchemaError(f"union: event times (column, unit) are {mine} and {theirs}; use the same for both")
        nodes = (self._node, *(other._node for other in others))
        return Stream(UnionNode(nodes, self._node.schema, self._node.event_time, self._node.unit))

    def forward(self, name: str = "forward") -> Stream:
        """Pass every tuple through the engine, in merged order (Operator 15 of the paper)."""
        return Stream(operator_node(ForwardSpec(), (self._node,), name))

    # -- stateful

    def key_by(
        self, *columns: str | Each | Words | Hashtags | Pairs, nulls: str = "error", **named: Any
    ) -> KeyedStream:
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
        >>> import headrace as hr
        >>> flights = pa.table({"ts": [1, 2], "origin": ["JFK", "LGA"], "dest": ["LAX", "JFK"]})
        >>> airports = hr.stream(flights, event_time="ts").key_by(airport=("origin", "dest"))
        >>> airports.window(10).aggregate(n=hr.count()).to_arrow().to_pydict()
        {'ts': [10, 10, 10], 'airport': ['JFK', 'LAX', 'LGA'], 'n': [2, 1, 1]}
        """
        node, columns, named = with_key_columns(self._node, columns, named)
        names, keys = read_keys(node.schema, columns, named)
        check_output_names([node.event_time, *names], "key_by()")
        return KeyedStream(node, names, keys, nulls)

    @explains_arguments(**WINDOW_WORDS)
    def window(
        self, size: Duration, advance: Duration | None = None, instances: str = "multi", zone: str | None = None
    ) -> WindowedStream:
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

    def _without_keys(self) -> KeyedStream:
        return KeyedStream(self._node, (), (), "error")

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
            stream's unit; what else differs from Python is in `operator`.
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

        Examples
        --------
        >>> import headrace as hr
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
            rejects, unless the table says otherwise; so does a null. Integers that leave their range end the run.
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
        >>> import headrace as hr
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
        """Begin a pipeline of stages whose outputs come in the input's order, whoever runs them.

        Workers take whatever stage needs them; the results are those of one worker (Prasaad, Ramalingam and Rajan, "Scaling
        Ordered Stream Processing on Shared-Memory Multicores"). Stages are ``filter(f)``, ``map(f, emits=)`` and
        ``flat_map(f, emits=)`` without a state, ``partitioned(f, by=, state=, emits=)`` with one for each key, and
        ``stateful(f, state=, emits=, end=)`` with one for all. Functions are compiled, as those of `hr.operator`:
        ``f(t)`` of a filter, ``f(t, emit)``, ``f(state, t, emit)``. A stage gives the event time and what it emits.

        Returns
        -------
        OrderedStream
            `start` takes ``threads max_threads schedule queues reorder batch capacity`` for it. ``run["gap"]`` is the stage of
            that name at run time: its cost, selectivity, backlog, workers now.

        Examples
        --------
        >>> import headrace as hr
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
        >>> import headrace as hr
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

    def explain(self) -> None:
        """Print what becomes of functions: of transactions rows, operations, dependencies, execution; of pipelines stages.

        Examples
        --------
        >>> import headrace as hr
        >>> counts = hr.table("counts", columns={"n": "int64"}, rows=10)
        >>> def add(e, t):
        ...     for key in e.keys:
        ...         counts[key].n += 1
        >>> clicks = pa.table({"ts": [1], "keys": [[1, 2]]})
        >>> hr.stream(clicks, event_time="ts").transact(add).explain()
        add
          row counts[key] of counts: read and written
          rejected: what it wrote before is put back
          operation on counts[key] in each turn of its loop: by itself
        keys: known from the event alone
        scheme="chains": an operation chain for each row, chains side by side, nothing is waited for
        scheme="mvlk": a version of 16 bytes for each row that a transaction writes, held until the batch is over
        scheme="speculative": on versions of rows, before it is known that what it reads is final; again where it was not
        """
        texts = [node.spec.explain(node) for node in self.plan().operators if hasattr(node.spec, "explain")]
        if not texts:
            raise NotSupportedError("explain(): no operator of this stream has tables or stages; print the stream itself")
        print("\n\n".join(texts))

    # -- running

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the query's operators, upstream first: what `threads=` and `controller=` of `start` go by."""
        return tuple(node.name for node in self.plan().operators)

    def plan(self) -> Query:
        """Return the validated query: its operators, upstream first, and what leads into each (`headrace.plan`)."""
        return plan({"": self._node}, ForwardSpec())

    def start(self, **options: Any):
        """Start the query, and return its run at once.

        Keep what it returns for as long as the run is to go on: a run that nothing refers to is stopped, with a warning,
        even if its results go to a file. ``with query.start(...) as run:``, a call that waits (``run.wait()``) and a
        dashboard keep it too.

        Parameters
        ----------
        threads : int, list of int, or dict of operator name to either
            Active instances at the start, 1 by default. ``run.reconfigure(threads=...)`` changes it.
        max_threads : int
            Workers in the pool of each operator: the most that may be active. By default the number of cores, or the
            largest number named if that is larger.
        mapping : Mapping
            Which instance owns which bucket of keys at the start; equal ranges by default.
        reconfigure : list of (tuple count, threads)
            Changes planned beforehand, each before the tuple of that number (from 0) of the merged input. Where an engine has
            more to change, a dict in place of the threads: ``(1000, {"scheme": "lock"})``, ``(1000, {"batch": 1})``.
        sink : sink or function of record batches
            Where results go, such as ``hr.parquet(path)``; by default they are collected, for ``run.to_arrow()``. Of several
            results (`headrace.together`) a dict: name -> sink.
        rate : float or schedule of `headrace.rates`
            Tuples per second and source, to pace the input; `run.rate` changes it. By default as fast as possible.
        controller : controller, or dict of operator name to one
            Steers from the first tuple on, as one attached by ``run.control`` does from later on. A query of several
            operators needs to know which one it steers.
        control_every : float
            Seconds between two looks of the controller, 0.2 by default.
        mode : {"vsn", "sn"}
            How the instances of an operator share the work. "vsn" (virtual shared-nothing, the default): all read one
            input and keep one state, each key is owned by one of them, and a reconfiguration moves no state. "sn"
            (shared-nothing): each instance has a queue, a store and a state of its own, as in engines that run
            distributed; tuples are copied to every instance that needs them, and a reconfiguration moves state. The
            results are the same. Choose "sn" to compare: it measures what sharing saves.
        gate : {"log", "scalegate"}
            How tuples of several sources come into the one order in which the instances read them. "log" (the default):
            one thread at a time merges what the sources have published into an array. "scalegate": each source inserts
            its tuples into a skip list, without locks, as in the papers. The results are the same. Choose "scalegate"
            to repeat the papers' experiments, or to measure which one suits a machine with many cores and sources.
        scheme, sharing, punctuation, max_delay, max_operations, unsafe
            Of transactions: how they are kept in order ("chains", "lock", "mvlk", "partition", "serial", "speculative",
            "adaptive"; "none" only with ``unsafe=True``), whose work an executor may take ("nothing", "everything",
            "socket"; by default "nothing" in operation chains, else "everything"), events of a batch (500) and how long one
            waits for its batch to fill ("10ms"), keys of a batch.
        chains : {"radix", "skiplist"}
            Of transactions: how operation chains are made, where the scheme has such (`explain()` says): by sorting slices of
            a batch by parts of the rows, or as in the paper by inserting into a concurrent skip list for each row. The results
            are the same. Choose "skiplist" to compare.
        snapshot_every : int or duration
            Of transactions: copy all tables after so many events, again and again, or so often ("2s"). The two newest copies
            are ``run.snapshots``, oldest first, also when the run has failed or was stopped. Those by count are of exactly
            ``n, 2n, ...`` events, whatever the threads, scheme and punctuation. The threads rest while the tables are copied.
        schedule, queues, reorder, batch, time_slice, window, most_behind, least_before
            Of ordered pipelines: which stage a worker takes next ("ct", "lp", "et", "qst", a dict of stage to workers, or a
            function of a stage: `headrace.ordering.options` says what it reads), how workers share partitioned stages
            ("hybrid", "partitioned", "shared"), how outputs come into order ("nonblocking", "lock"), tuples of a claim
            (1 to 256), how long a worker stays at a stage, and the parameters of "ct", "qst" and "lp".
        capacity : int
            Tuples a gate holds at most; in an ordered pipeline, tuples that may wait before each stage (1024).
        bound_ns : int
            Work a gate holds at most, in nanoseconds of its slowest reader: 1 ms by default. A saturated run takes
            about as long to be reconfigured. Where there are more threads than cores, one waits for the other's time
            slice, and a longer bound wastes less: a live join on 2 cores, beside its sources, made 8.2 G comparisons/s
            with 1 ms and 11.2 with 10 ms.
        max_keys : int
            Keys that may be live at once; and strings of columns, that functions and aggregates know by id.
        max_state : int
            Bytes that lists, sets and maps of an operator's live windows and keys may take, beside what is of one size:
            32 GiB by default. With ``mode="sn"`` those of each instance. More end the run with an error.
        passed_time : list, optional
            `run.passed_time` of an earlier run of the same input: idle sources (`idle_after`) are passed over between
            the same rows, and the clock is not looked at. The result is the same.
        checkpoint : path
            Of programs (`hr.program`): a folder in which checkpoints are kept, and the results up to each; it is made, or has
            none of another run. ``run.checkpoint()`` takes one.
        checkpoint_every : int
            Take one about every so many events. Inputs wait while it is taken, not while it is written; the next one waits until
            this one is on disk.
        checkpoint_when : function
            Of the state, joined at the root, with its fields as attributes: whether to keep the checkpoint that is due.
        resume : path or Checkpoint
            Go on from a checkpoint, the newest one of a folder or this one, with the same inputs from their beginning; see
            `Program.resume`.
        replay : bool
            With `resume`: whether the sink gets the results that had come out before the checkpoint as well, True by default.
        debug : bool
            Compile with bounds checks; integers of user functions that leave the range of int64 raise instead of
            wrapping around. Slower; for finding mistakes.
        name : str
            Of the run. A live run of the same name is stopped first.
        sample_every : float
            Seconds between the samples of `run.history`, 0.1 by default; None: it stays empty.

        Returns
        -------
        QueryRun
            To wait for, watch, reconfigure and take results from.

        Raises
        ------
        ParameterError
            An option with a value it cannot have; an `ArgumentError` for one that there is none of.
        FunctionError
            A user function that does not compile, with its line.

        Examples
        --------
        >>> import headrace as hr
        >>> table = pa.table({"ts": [1, 2, 61], "k": ["a", "a", "b"]})
        >>> counts = hr.stream(table, event_time="ts").key_by("k").window(60).aggregate(n=hr.count())
        >>> with counts.start(threads=2, mode="sn") as run:
        ...     done = run.wait()
        ...     rows = run.to_arrow().num_rows
        >>> rows
        2
        """
        from headrace.runtime.handle import start

        return start(self.plan(), **options)

    def to_arrow(self, **options: Any) -> pa.Table:
        """Run the query to its end and return the results as an Arrow table, in deterministic order.

        Options are those of `start`. Rows dropped as late are reported by a `LateRowsWarning`.

        Examples
        --------
        >>> import headrace as hr
        >>> hr.stream(pa.table({"ts": [1, 2]}), event_time="ts").to_arrow(threads=2).num_rows
        2
        """
        with self.start(**options) as run:
            run.wait()
            return run.to_arrow()

    def to_pandas(self, **options: Any):
        """Run the query to its end and return the results as a pandas frame, in deterministic order.

        Options are those of `start`. Rows dropped as late are reported by a `LateRowsWarning`.

        Examples
        --------
        >>> import headrace as hr
        >>> hr.stream(pa.table({"ts": [1, 2]}), event_time="ts").to_pandas().shape
        (2, 1)
        """
        return self.to_arrow(**options).to_pandas()

    def to_spark(self, spark: Any, **options: Any):
        """Run the query to its end and return the results as a DataFrame of a Spark session, in deterministic order.

        Parameters
        ----------
        spark : SparkSession
        **options
            Those of `start`. Rows dropped as late are reported by a `LateRowsWarning`.
        """
        with self.start(**options) as run:
            run.wait()
            return run.to_spark(spark)


def _columns(stream: Stream) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in stream.schema)


class OrderedStream(Staged, Stream):  # type: ignore[misc]
    """What `Stream.ordered` returns: a stream to which stages are added, one after another."""

    def __init__(self, origin: Node, stages: tuple[Stage, ...] = ()):
        self._origin, self._stages = origin, stages
        Stream.__init__(self, pipeline_node(origin, stages))


class KeyedStream(Summarised):
    """A stream whose tuples have keys."""

    def __init__(self, node: Node, names: tuple[str, ...], keys: tuple[KeySource, ...], nulls: str):
        self._node, self._names, self._keys, self._nulls = node, names, keys, nulls

    def _summary(self) -> list[tuple[str, str]]:
        return [("key", keys_text(self._names, self._keys)), *describe(self._node)]

    def __getattr__(self, name: str) -> Any:
        stateful = {
            "aggregate": ".window(...).aggregate(...)",
            "agg": ".window(...).aggregate(...)",
            "apply": ".window(...).apply(...)",
        }
        first = dict.fromkeys([*_RUNNING, *_OTHER_NAMES], ".window(...).aggregate(...) first")
        raise missing_attribute(self, name, stateful | dict.fromkeys(_WINDOWS, _WINDOWED) | first)

    @explains_arguments(**WINDOW_WORDS)
    def window(
        self, size: Duration, advance: Duration | None = None, instances: str = "multi", zone: str | None = None
    ) -> WindowedStream:
        """Cut each key's tuples into windows [l * advance, l * advance + size).

        Parameters
        ----------
        size, advance : duration
            The paper's WS and WA; without `advance` windows do not overlap. A text such as
            ``"30min"`` or ``"1 hour"``, a timedelta (Python's, pandas' or NumPy's),
            or an integer in the unit of the event time.
        instances : {"multi", "single"}
            The paper's WT: "multi" keeps a state for each window, "single" one for each key, which slides.
        zone : str, optional
            Windows of whole days of this time zone, from midnight to midnight:
            a day has 23 or 25 hours where clocks are set. The event time has to be
            a timestamp; its own zone, or none, makes no difference.

        Examples
        --------
        >>> import headrace as hr, datetime as dt
        >>> hours = pa.array([dt.datetime(2026, 3, 29, hour) for hour in range(24)], pa.timestamp("us", "UTC"))
        >>> days = hr.stream(pa.table({"ts": hours}), event_time="ts").window("1d", zone="Europe/Paris")
        >>> [(str(row["ts"]), row["n"]) for row in days.aggregate(n=hr.count()).to_arrow().to_pylist()]
        [('2026-03-29 22:00:00+00:00', 22), ('2026-03-30 22:00:00+00:00', 2)]
        """
        if instances not in ("multi", "single"):
            raise ParameterError(f'instances={instances!r}: give "multi" or "single"')
        kind = self._node.schema.field(self._node.event_time).type
        if zone is not None and not pa.types.is_timestamp(kind):
            raise ParameterError(f"zone={zone!r}: the event time {self._node.event_time!r} is {kind}; cast it to timestamp")
        window = Window.parse(size, advance, self._node.unit, zone)
        if instances == "multi":
            window.check_open()
        return WindowedStream(self, window, instances)


class WindowedStream(Summarised):
    """A keyed stream cut into windows."""

    def __init__(self, keyed: KeyedStream, window: Window, instances: str):
        self._keyed, self._window, self._instances = keyed, window, instances

    def _summary(self) -> list[tuple[str, str]]:
        window = window_text(self._window, self._keyed._node.unit, self._instances)
        return [("window", window), *self._keyed._summary()]

    def __getattr__(self, name: str) -> Any:
        hints = dict.fromkeys([*_RUNNING, *_OTHER_NAMES], ".aggregate(...) or .apply(...) first")
        hints |= {"key_by": ".key_by(...) before .window(...)", "agg": ".aggregate(name=hr.count(), ...)"}
        hints |= {name: f".aggregate({name}=hr.{name}(...))" for name in _AGGREGATES}
        raise missing_attribute(self, name, hints)

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
        if not isinstance(name, str):
            raise ParameterError(f"aggregate({name!r}): give each result a name, as in aggregate(n=hr.count(), most=hr.max('v'))")
        if not aggregates:
            raise ParameterError("aggregate(): give at least one, as in aggregate(n=hr.count())")
        for result, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise ParameterError(f"aggregate({result}={aggregate!r}): give hr.count(), hr.max(column), ...")
            check_columns(node.schema, aggregate.columns, f"aggregate({result}={aggregate!r})")
        check_output_names([node.event_time, *keyed._names, *aggregates], "aggregate()")
        self._window.check_open()
        spec = AggregateSpec(
            keyed._names, keyed._keys, self._window, tuple(aggregates.items()), keyed._nulls, self._instances
        )
        return Stream(operator_node(spec, (node,), name))

    def apply(self, operator: Any, name: str | None = None) -> Stream:
        """Run a custom operator on each window of each key: O+.

        Parameters
        ----------
        operator : CustomOperator
            What `headrace.operator` returns; its documentation has examples.
        name : str, optional
            Of the operator in the query; by default that of its function.
        """
        return applied((self._keyed,), self._window, self._instances, operator, name)


def applied(
    keyed: Sequence[KeyedStream], window: Window, instances: str, operator: Any, name: str | None
) -> Stream:
    """Run a custom operator on each window of each key of one or several inputs."""
    if not isinstance(operator, CustomOperator):
        raise ParameterError(f"apply({operator!r}): give what hr.operator(...) returns")
    first = keyed[0]
    spec = ApplySpec(first._names, tuple(k._keys for k in keyed), window, operator, first._nulls, instances)
    return Stream(operator_node(spec, [k._node for k in keyed], name))
