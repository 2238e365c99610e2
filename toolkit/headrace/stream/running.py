"""How a stream is run: to its end, or as a `QueryRun` to watch and steer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.elastic.specs import ForwardSpec
from headrace.errors import NotSupportedError
from headrace.names import explains_arguments
from headrace.plan.nodes import Node, Query
from headrace.plan.planning import plan
from headrace.stream.described import describe
from headrace.summary import Summarised

BY_NAME = "give each option its name, as in threads=2"


class Runnable(Summarised):
    """The results of a node of a query, not yet running."""

    def __init__(self, node: Node):
        self._node = node

    @property
    def schema(self) -> pa.Schema:
        """Columns of the tuples."""
        return self._node.schema

    def _summary(self) -> list[tuple[str, str]]:
        return describe(self._node)

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the query's operators, upstream first, as `threads=` and `controller=` of `start` take them."""
        return tuple(node.name for node in self.plan().operators)

    def plan(self) -> Query:
        """Return the validated query: its operators, upstream first, and the inputs of each (`headrace.plan`)."""
        return plan({"": self._node}, ForwardSpec())

    def explain(self) -> None:
        """Print how functions are run: for transactions their rows, operations and execution; for pipelines the stages.

        Raises
        ------
        NotSupportedError
            No operator of the stream has tables or stages.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> counts = hr.table("counts", columns={"n": "int64"}, rows=10)
        >>> def add(e, t):
        ...     for key in e.keys:
        ...         counts[key].n += 1
        >>> clicks = pa.table({"ts": [1], "keys": [[1, 2]]})
        >>> hr.stream(clicks, event_time="ts").transact(add).explain()
        add
          row counts[key] of counts: read and written
          rejected: what it wrote before is put back
          operation on counts[key] in each iteration of its loop: by itself; of several in a batch ...
        keys: known from the event alone
        scheme="chains": an operation chain for each row, chains in parallel, without waiting
          chains="skiplist": made as the paper does, not by sorting
          sharing="nothing", unless said otherwise: each thread runs the chains of its own rows
        scheme="mvlk": a version of 16 bytes for each row that a transaction writes, held until the end of the batch
        scheme="speculative": on versions of rows, before what it reads is known to be final; again where it was not
        """
        texts = [node.spec.explain(node) for node in self.plan().operators if hasattr(node.spec, "explain")]
        if not texts:
            raise NotSupportedError("explain(): no operator of this stream has tables or stages; print the stream itself")
        print("\n\n".join(texts))

    @explains_arguments(options=BY_NAME)
    def start(self, **options: Any):
        """Start the query, and return its run while that goes on.

        The first start of a kind of query compiles it, which takes ten to thirty seconds. What was compiled is kept on
        disk, and later starts, also in other processes, find it there.

        Keep a reference to the run for as long as it is to go on: a run that nothing refers to is stopped, with a warning,
        even if its results go to a file. ``with query.start(...) as run:``, a call that waits (``run.wait()``) and a
        dashboard hold a reference, too.

        Parameters
        ----------
        threads : int, list of int, or dict of operator name to either
            Active instances at the start, 1 by default. ``run.reconfigure(threads=...)`` changes them.
        max_threads : int
            Workers in the pool of each operator: the most that may be active. By default the number of cores, or the
            largest number named if that is larger.
        mapping : Mapping
            Which instance owns which bucket of keys at the start; equal ranges by default.
        reconfigure : list of (row, threads)
            Planned changes, each before the tuple of that number (from 0) of the merged input. For an engine with
            more to change, a dict in place of the threads: ``(1000, {"scheme": "lock"})``, ``(1000, {"batch": 1})``. Changes
            of a run of transactions can be repeated: ``[c.as_planned for c in run.changes if c.position is not None]``,
            as long as ``run.changes.left_out`` is 0.
        sink : sink or function of record batches
            Where results go, such as ``hr.parquet(path)``; by default they are collected, for ``run.to_arrow()``. For several
            results (`headrace.together`) a dict: name -> sink.
        rate : float or schedule of `headrace.rates`
            Tuples per second and source, to pace the input; `run.rate` changes it. By default as fast as possible.
        controller : controller, or dict of operator name to one
            Steers from the first tuple on; ``run.control`` attaches one later. In a query of several operators, name the
            operator that it steers.
        control_every : float
            Seconds between two observations by the controller, 0.2 by default.
        mode : {"vsn", "sn"}
            How the instances of an operator share the work. "vsn" (virtual shared-nothing, the default): all read one
            input and share one state, each key is owned by one instance, and a reconfiguration moves no state. "sn"
            (shared-nothing): each instance has its own queue, store and state, as in distributed
            engines; tuples are copied to every instance that needs them, and a reconfiguration moves state. The
            results are the same. Choose "sn" to measure what sharing saves.
        gate : {"log", "scalegate"}
            How tuples of several sources are merged into the one order in which the instances read them. "log" (the default):
            one thread at a time merges what the sources have published into an array. "scalegate": each source inserts
            its tuples into a lock-free skip list, as in the papers. The results are the same. Choose "scalegate"
            to repeat the papers' experiments, or to measure which one suits a machine with many cores and sources.
        input_order : {"merged", "arrival"}, or dict of operator name to either
            How an operator takes tuples of several sources. "merged" (the default): in the one order of (time, source,
            position). "arrival": as they arrive, without sorting; windows close once every source has passed their end.
            The results are the same rows in the same order. "arrival" is for aggregates that do not depend on
            the order of tuples: `hr.count`, `hr.count_distinct`, `hr.collect_set` and `hr.mode` of anything, `hr.sum`,
            `hr.mean`, `hr.min`, `hr.max`, `hr.quantile` and `hr.top` of whole numbers, times and, where these take them,
            strings. Anything else is refused with the reason. A sum overflows only if it is outside int64 at the end of its
            window, not on the way. A source may be ahead of the others by one window advance, for which each key has room
            for one more window. Choose "arrival" for several interleaved sources: ``headrace bench arrival`` measures
            the effect. A single source is in order by itself.
        passing : {"collector", "gate", "auto"}, or dict of operator name to one
            How results pass from one operator to the next; the results of the query are the same.
            "collector": one thread orders the results of all instances and makes Arrow columns of them, which are encoded again.
            "gate": each instance is a source of the next operator's gate, which reads the results where they were written.
            This is for an operator that follows one aggregate, or one custom operator that emits no lists, and from `update`
            only if its windows do not overlap (or ``instances="single"``); its key is that one's key, some columns of it, or
            none; and it reads int64, float64 and times of a custom operator, numbers and times of any type of an aggregate, but
            no means, strings or lists. With the same key as an aggregate (its columns in any order, and the windows before not
            of local days) any aggregate will do, as a key has one result at a time, and a custom operator, too, that emits from
            `output` only and uses no strings or bools. Behind such an aggregate, another key or none will do as well, and a
            custom operator may emit from `update`: each instance gives its results in order of their keys, and the gate merges
            them so. Otherwise it must not depend on the order of tuples (see `input_order`). Between the two there may be a
            `select` that chooses and renames columns, and a `filter` that takes bools, compares numbers (but for uint64), bools
            and times with constants of their type or with results of the same type, or asks whether they are null or, whole
            numbers, in a list, joined by ``&``, ``|`` and ``~``; keys of the tuples it drops still count for `max_keys` of the
            next operator. Anything else is an error with the reason.
            "auto" (the default): through the gate where that is possible, except behind a filter if the next operator has a
            key; where results would have to come in order of their keys, which a collector orders sooner; and for sums of
            numbers that may be negative: whether such a sum overflows int64 on the way, an error, may depend on the order of
            tuples with equal times, and "gate" takes them as they come.
            What several operators take goes through the gate of each, if all of them may get it so, with no filter between, and
            if no others connect them, as a join of their results would; the slowest of them then holds up the operator before.
            So joins, operators with several inputs, keys that are results, steps that compute and results of the query itself,
            also those that an operator takes as well, go through a collector.
            ``run["name"].takes`` says which way was taken, and why; ``headrace bench passing`` measures the effect.
        channel : {"reader", "shared", "auto"}, or dict of operator name to one
            What the instances of an operator read, where results are passed to it through the gate; the results are the same.
            "shared": one gate, which every instance reads in full, taking the tuples it owns. "reader": a channel for each
            instance (Viper), into which the instances before route the tuples it owns, so that no instance reads another's.
            This is for aggregates with a key, which alone take the results, as they come and not in order of their keys (see
            `passing`), without a planned change (`reconfigure=`); and not behind a filter, an operator that emits from
            `update`, or one that reads such channels itself. Anything else is an error with the reason. A change
            then takes effect where the senders meet, so it waits for their input as well as for the operator's own. "auto" (the
            default): "reader" where that is possible and there may be 16 instances or more, "shared" for fewer. That is a rule
            of thumb: two instances were measured, for which "shared" costs less. ``run["name"].takes`` says which it is;
            ``headrace bench passing`` measures both.
        scheme, sharing, punctuation, max_delay, max_operations, unsafe
            For transactions: how they are kept in order ("chains", "lock", "mvlk", "partition", "serial", "speculative",
            "adaptive"; "none" only with ``unsafe=True``); whose work an executor may take ("nothing", "everything",
            "socket"; by default "nothing" in operation chains, else "everything"); events in a batch (500); how long an event
            waits for its batch to fill ("10ms"); keys that a batch may name.
        chains : {"radix", "skiplist"}
            For transactions: how operation chains are made, if the scheme has them (see `explain()`): by sorting slices of
            a batch by parts of the rows, or, as in the paper, by inserting into a concurrent skip list for each row. The results
            are the same. Choose "skiplist" to compare.
        snapshot_every : int or duration
            For transactions: copy all tables every so many events, or at intervals such as "2s". The two newest copies
            are in ``run.snapshots``, oldest first, also when the run has failed or was stopped. Copies by count are of exactly
            ``n, 2n, ...`` events, whatever the threads, scheme and punctuation. The threads pause while the tables are copied.
        schedule, queues, reorder, batch, time_slice, window, most_behind, least_before
            For ordered pipelines: which stage a worker takes next ("ct", "lp", "et", "qst", a dict of stage to workers, or a
            function of a stage: `headrace.ordering.options` says what it reads); how workers share partitioned stages
            ("auto", "hybrid", "partitioned", "shared"); how outputs are put in order ("nonblocking", "lock"); how many tuples a
            worker claims at most (1 to 256; 128 by default, and no more than it can do in a time slice); how long a worker stays
            at a stage; and the parameters of "ct", "qst" and "lp".
        capacity : int
            Most tuples in a gate: 131,072 for one source and 16,384 for several. In an ordered pipeline, most tuples that
            wait before each stage (1024).
        bound_ns : int
            Most work in a gate, in nanoseconds of its slowest reader: 1 ms for joins by default, 0.4 ms for other operators,
            but at least `batch_ns`. Reconfiguring a saturated run takes one to eight times as long, since threads also wait for
            cores; where a tuple costs more than a sixteenth of this bound, as long as 16 tuples or 16 ms, whichever is less.
            With more threads than cores, threads wait for each other's time slice, and a longer bound wastes less: a live
            join on 2 cores, beside its sources, made 8.2 G comparisons/s with 1 ms and 11.2 with 10 ms.
        batch_ns : int
            How long an instance works on tuples before it emits their results, in nanoseconds: 0.2 ms by default, at most
            `bound_ns` if that is given. A join that compares all pairs reads its stored tuples once for several tuples of a
            batch. So, if the stored tuples exceed the caches, longer batches make more comparisons, but results come later:
            ``headrace bench q3`` measures both.
        max_keys : int
            Most keys that are live at once; also the most strings of columns that functions and aggregates know by id.
        max_state : int
            Most bytes for lists, sets and maps of an operator's live windows and keys, in addition to state of fixed size:
            32 GiB by default; with ``mode="sn"`` for each instance. Exceeding it ends the run with an error.
        pin : bool
            Pin each worker to one of the cores that the process may use, in turn, as the papers do. Linux only. Threads that
            read, feed and collect are not pinned, so pinning hurts where these need the cores, too: on 2 cores,
            2 pinned workers took 0.87 of the time for word counts, and 1.6 to 1.9 times as long for transactions.
        step_threads : int or "auto"
            Threads that apply `filter`, `select`, `map`, `flat_map` and `hr.keys` between the sources and the first operators,
            one batch each; results are the same. With 1, the reader of a source applies them, and a costly function holds up
            everything after it. With "auto" the reader applies them until they are measured to cost more than reading and
            encoding together; then as many threads do as are needed to keep up with reading, at most one for each core
            (``run.step_threads``). The reader of a source with `idle_after` always applies them itself. A number above 1 is an
            error if there are no such steps.
        passed_time : list, optional
            `run.passed_time` of an earlier run of the same input: idle sources (`idle_after`) are passed over between
            the same rows, without looking at the clock. The result is the same.
        checkpoint : path
            For programs (`hr.program`): a folder for checkpoints and the results up to each. It is created if necessary,
            and must have no checkpoints of another run. ``run.checkpoint()`` takes a checkpoint.
        checkpoint_every : int
            Take a checkpoint after every so many events, in whatever pace inputs come. Events wait while it is taken, but not
            while it is written; the next checkpoint waits until this one is on disk.
        checkpoint_when : function
            Takes the state, joined at the root, with its fields as attributes, and says whether to keep the checkpoint now due.
        resume : path or Checkpoint
            Go on from this checkpoint, or from the newest one in a folder, with the same inputs from their beginning; see
            `Program.resume`.
        replay : bool
            With `resume`: whether the sink also gets the results from before the checkpoint; True by default.
        debug : bool
            Compile with bounds checks; integers in user functions that overflow int64 raise an error instead of
            wrapping around. Slower; for finding mistakes.
        name : str
            Name of the run. A live run of the same name is stopped first.
        sample_every : float
            Seconds between samples of `run.history`, 0.1 by default; with None it stays empty.

        Returns
        -------
        QueryRun
            To wait for, watch, reconfigure and take results from.

        Raises
        ------
        ParameterError
            An option has an impossible value; an `ArgumentError` if there is no such option.
        FunctionError
            A user function does not compile; the text has its line.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
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

    @explains_arguments(options=BY_NAME)
    def to_arrow(self, **options: Any) -> pa.Table:
        """Run the query to its end and return the results as an Arrow table, in deterministic order.

        Parameters
        ----------
        **options
            Those of `start`. Rows dropped or set aside as late are reported by a `LateRowsWarning`.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> hr.stream(pa.table({"ts": [1, 2]}), event_time="ts").to_arrow(threads=2).num_rows
        2
        """
        from headrace.runtime.life import wait_for_results

        with self.start(**options) as run:
            wait_for_results(run)
            return run.to_arrow()

    @explains_arguments(options=BY_NAME)
    def to_pandas(self, **options: Any):
        """Run the query to its end and return the results as a pandas frame, in deterministic order.

        Parameters
        ----------
        **options
            Those of `start`. Rows dropped or set aside as late are reported by a `LateRowsWarning`.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> hr.stream(pa.table({"ts": [1, 2]}), event_time="ts").to_pandas().shape
        (2, 1)
        """
        return self.to_arrow(**options).to_pandas()

    @explains_arguments(options=BY_NAME, spark="give the session, as in to_spark(hr.spark.session())")
    def to_spark(self, spark: Any, **options: Any):
        """Run the query to its end and return the results as a DataFrame of a Spark session, in deterministic order.

        Parameters
        ----------
        spark : SparkSession
        **options
            Those of `start`. Rows dropped or set aside as late are reported by a `LateRowsWarning`.
        """
        from headrace.runtime.life import wait_for_results
        from headrace.spark.sink import check_session

        check_session(spark)  # before the run, whose results would be lost
        with self.start(**options) as run:
            wait_for_results(run)
            return run.to_spark(spark)
