"""What is described by a node of a query and can be run: to its end, or as a `QueryRun` to watch and steer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.elastic.specs import ForwardSpec
from headrace.errors import NotSupportedError
from headrace.plan.nodes import Node, Query
from headrace.plan.planning import plan
from headrace.stream.described import describe
from headrace.summary import Summarised


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
        """Names of the query's operators, upstream first: what `threads=` and `controller=` of `start` go by."""
        return tuple(node.name for node in self.plan().operators)

    def plan(self) -> Query:
        """Return the validated query: its operators, upstream first, and what leads into each (`headrace.plan`)."""
        return plan({"": self._node}, ForwardSpec())

    def explain(self) -> None:
        """Print what becomes of functions: of transactions rows, operations, dependencies, execution; of pipelines stages.

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
          operation on counts[key] in each iteration of its loop: by itself; of several of a batch, ...
        keys: known from the event alone
        scheme="chains": an operation chain for each row, chains side by side, nothing is waited for
          chains="skiplist": made as the paper does, not by sorting
          sharing="nothing", unless said: each thread runs the chains of its own rows
        scheme="mvlk": a version of 16 bytes for each row that a transaction writes, held until the batch is over
        scheme="speculative": on versions of rows, before it is known that what it reads is final; again where it was not
        """
        texts = [node.spec.explain(node) for node in self.plan().operators if hasattr(node.spec, "explain")]
        if not texts:
            raise NotSupportedError("explain(): no operator of this stream has tables or stages; print the stream itself")
        print("\n\n".join(texts))

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
        input_order : {"merged", "arrival"}, or dict of operator name to either
            How an operator takes tuples of several sources. "merged" (the default): in the one order of (time, source,
            position). "arrival": as they come, without sorting; how far time has come is known from what every source has given,
            and closes the windows. The results are the same rows in the same order, for aggregates that do not depend on
            the order of tuples: `hr.count`, `hr.count_distinct`, `hr.collect_set` and `hr.mode` of anything, `hr.sum`,
            `hr.mean`, `hr.min`, `hr.max`, `hr.quantile` and `hr.top` of whole numbers, times and, where these take them,
            strings. All else is refused with the reason. A sum is an error only if it is outside of int64 at the end of its
            window, not on the way. A source may be ahead of the others by one window advance, for which each key has room
            for one window more. Choose "arrival" where several sources come interleaved: ``headrace bench arrival`` measures
            what it brings. One source is in order by itself.
        passing : {"collector", "gate", "auto"}, or dict of operator name to one
            How the results of the operator before get to an operator; the results of the query are the same. "collector":
            one thread orders the results of all its instances and makes Arrow columns of them, which are encoded again.
            "gate": each instance is a source of the next operator's gate, which reads the results where they were written:
            for aggregates that follow one aggregate, have its key, one of some of its columns, or none, and read its numbers
            and times, of any type, but no means, strings and lists. With the same key, its columns in any order (and windows
            before that are not of local days), they may be any, as a key has one result at a time; others must not depend on
            the order of tuples (see `input_order`). In between there may be `select` that chooses and renames columns, and
            `filter` by comparisons of int64 and float64 results with constants of their type, joined by ``&``; keys of what it
            leaves out count for `max_keys` behind it all the same. All else is an error with the reason. "auto" (the default):
            through the gate where that is possible, where sums of those others are of what is never negative, such as counts
            (whether one of either sign leaves int64 on the way, which is an error, may depend on the order of equal times), and
            where no filter is before an operator with a key. ``run["name"].takes`` says which it is, and
            why. ``headrace bench passing`` measures what it brings.
            What leaves the query always goes through a collector.
        channel : {"reader", "shared", "auto"}, or dict of operator name to one
            What the instances of an operator read, where results are passed to it through the gate. "shared": one gate,
            of which each instance reads all and takes what it owns. "reader": a channel for each instance (Viper), into which
            the instances before route what it owns, so that none reads what is another one's; for operators with a key, of
            which no change is planned (`reconfigure=`), and which are behind no filter and none that reads such channels. A
            change is then put into force where the senders meet, so it waits for their input as well as for its own. All else
            is an error with the reason. "auto" (the default): "reader" where that is possible and there may be 16 instances or
            more; for fewer "shared" costs less. The results are the same. ``run["name"].takes`` says which it is;
            ``headrace bench passing`` has both.
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
            ("auto", "hybrid", "partitioned", "shared"), how outputs come into order ("nonblocking", "lock"), most
            tuples of a claim (1 to 256; 128 by default, and no more than are done in a time slice), how long a worker stays at
            a stage, and the parameters of "ct", "qst" and "lp".
        capacity : int
            Tuples a gate holds at most, 131,072 for one source and 16,384 for several; in an ordered pipeline, tuples that
            may wait before each stage (1024).
        bound_ns : int
            Work a gate holds at most, in nanoseconds of its slowest reader: 1 ms by default. A saturated run takes
            about as long to be reconfigured; where a tuple costs more than a sixteenth of it, as long as 16 of them or
            16 ms, whichever is less. Where there are more threads than cores, one waits for the other's time
            slice, and a longer bound wastes less: a live join on 2 cores, beside its sources, made 8.2 G comparisons/s
            with 1 ms and 11.2 with 10 ms.
        batch_ns : int
            How long an instance works on tuples before it gives their results, in nanoseconds: 0.2 ms by default, at most
            `bound_ns`. A join that compares all pairs reads what it keeps once for some tuples of a batch, so that longer batches
            make more comparisons where this is more than caches hold; results come later: ``headrace bench q3`` has both.
        max_keys : int
            Keys that may be live at once; and strings of columns, that functions and aggregates know by id.
        max_state : int
            Bytes that lists, sets and maps of an operator's live windows and keys may take, beside what is of one size:
            32 GiB by default. With ``mode="sn"`` those of each instance. More end the run with an error.
        pin : bool
            Keep each worker on one of the cores that the process may use, in turn, as the papers do. Linux only. Threads that
            read, feed and collect stay where the system puts them, so it hurts where these need the cores, too: on 2 cores
            2 workers kept there took 0.87 of the time for word counts, and 1.6 to 1.9 times as long for transactions.
        step_threads : int or "auto"
            Threads that apply `filter`, `select`, `map`, `flat_map` and `hr.keys` between the sources and the first operators,
            a batch each; results are the same. With 1, the reader of a source does, and a costly function there keeps all
            behind it waiting. With "auto" the reader does until steps were measured to cost more than reading and
            encoding together; then as many threads as it takes to keep up with that, at most one for each core
            (``run.step_threads``). A source with `idle_after` does it by itself. A number above 1 is an error where no such
            steps are there.
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

    def to_arrow(self, **options: Any) -> pa.Table:
        """Run the query to its end and return the results as an Arrow table, in deterministic order.

        Options are those of `start`. Rows dropped as late are reported by a `LateRowsWarning`.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
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
        >>> import headrace as hr, pyarrow as pa
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
