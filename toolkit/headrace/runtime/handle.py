"""The user's handle on a running query.

The run goes on for as long as this handle is reachable: by a name, in a `with`,
in a call that waits for it, in a dashboard or a page of metrics, in a controller
or sink that refers to it. The run's own threads refer to the `Execution` only.
"""

from __future__ import annotations

import weakref
from itertools import chain
from typing import Any

from headrace.errors import MissingAttributeError, NotSupportedError
from headrace.metrics.bottleneck import Bottleneck, bottleneck
from headrace.metrics.history import History
from headrace.metrics.snapshot import Metrics
from headrace.names import missing_attribute
from headrace.newest import Newest
from headrace.plan.nodes import Query
from headrace.runtime import registry
from headrace.runtime.described import describe_run
from headrace.runtime.options import checked_options
from headrace.runtime.run import Execution
from headrace.runtime.run_results import RunResults
from headrace.runtime.steered import SteeredRun

_MEANT = {
    "collect": ".to_arrow(), or .snapshot() while it runs",
    "result": ".to_arrow(), or .snapshot() while it runs",
    "join": ".wait()",
    "cancel": ".stop()",
    "close": ".stop()",
    "dashboard": "headrace_widgets.Dashboard(run)",
    **dict.fromkeys(("scale", "rescale", "resize", "set_threads", "set_parallelism", "parallelism"), ".reconfigure(threads=...)"),
    **dict.fromkeys(("start", "restart", "resume"), "query.start() to run the query again, from its first row"),
    **dict.fromkeys(("save", "write", "to_parquet"), "query.start(sink=hr.parquet(path)), or .to_pandas().to_parquet(path)"),
    "to_csv": ".to_pandas().to_csv(path)",
    **dict.fromkeys(("latency", "throughput", "lag", "lag_s"), ".metrics(), or .history.to_pandas() over time"),
    **dict.fromkeys(("stats", "statistics", "status"), ".metrics(), or .state"),
}
"""What other libraries call a method or attribute of a run -> what to write here."""


class QueryRun(SteeredRun, RunResults):
    """A running query: watch it, reconfigure it, wait for it, take its results.

    It is stopped, with a warning, once nothing refers to it.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": [1, 2, 61], "k": ["a", "a", "b"]})
    >>> counts = hr.stream(table, event_time="ts").key_by("k").window(60).aggregate(n=hr.count())
    >>> with counts.start(threads=1, max_threads=4, reconfigure=[(2, 2)]) as run:
    ...     done = run.wait()
    ...     rows = run.to_arrow().num_rows
    >>> done, rows, run.changes[0].outcome
    (True, 2, 'done')
    """

    def __init__(self, execution: Execution):
        super().__init__(execution)
        # Weak: the error of a failed run keeps the frames it passed through, and one of them refers to this handle.
        weakref.finalize(self, _abandon, weakref.ref(execution)).atexit = False  # at exit the registry stops the remaining runs

    def _summary(self) -> list[tuple[str, str]]:
        return describe_run(self._execution)

    def __getattr__(self, name: str) -> Any:
        """What an engine provides beside results, such as ``tables``, if just one operator has it."""
        if not name.startswith("_"):  # not set yet, as in a copy
            found = {each: op.section.extras() for each, op in self._execution.operators.items()}
            having = [each for each, extras in found.items() if name in extras]
            if len(having) == 1:
                return found[having[0]][name]
            if having:
                raise missing_attribute(self, name, {name: f"run[{having[0]!r}].{name}: several operators have it"})
            if name == "tables" and any("snapshot" in extras for extras in found.values()):
                raise MissingAttributeError(self._why_no_tables(), name=name)
        raise missing_attribute(self, name, _MEANT)

    def _why_no_tables(self) -> str:
        if not self._execution.over.is_set():
            return "run.tables: the run goes on; write run.snapshot() for the tables as of now, or wait() for the end"
        error = self._execution.error
        how = "was stopped" if error is None else f"failed with {type(error).__name__}: {error}"
        taken = [op.section.extras().get("snapshots") for op in self._execution.operators.values()]
        kept = "".join(f": run.snapshots[-1] is {snapshots[-1]!r}" for snapshots in taken if snapshots)
        return f"run.tables: the run {how}, and its tables are of no one moment; snapshots taken before stay valid{kept}"

    @property
    def time_unit(self) -> str:
        """Unit of event times and watermarks, such as "us"."""
        return self._query.output.unit

    def metrics(self) -> Metrics:
        """Take a snapshot of the run's counters."""
        return self._execution.metrics()

    def bottleneck(self, seconds: float = 1.0) -> Bottleneck:
        """Find what holds the run up: a source, a thread, an operator, the cores, the consumer of the results, or nothing.

        Parameters
        ----------
        seconds : float
            Look at this many last seconds, as far as `history` has them; else at the whole run.

        Returns
        -------
        Bottleneck
            ``kind``, ``where``, ``sentence``.
        """
        now = self.metrics()
        before = self._execution.history.since(now.at_ns - round(seconds * 1e9))
        then = before[0].metrics if before and before[0].at_ns < now.at_ns else None
        return bottleneck(now, then)

    @property
    def history(self) -> History:
        """Samples of `metrics()` over time; empty with ``start(sample_every=None)``."""
        registry.check_process(self._execution.pid)
        if self._execution.over.is_set() and self._execution.options.sample_every is not None:
            self._execution.history.complete()
        return self._execution.history

    @property
    def step_threads(self) -> int:
        """Threads that now apply the steps of sources; 0: each source's reader does. See `start(step_threads=)`."""
        step_threads = self._execution.step_threads
        return 0 if step_threads is None else step_threads.count

    @property
    def passed_time(self) -> Newest[tuple[str, int, int, int]]:
        """What the wall clock decided (`idle_after`): (operator, source, its rows before, event time it was advanced to).

        `start(passed_time=...)` replays it. Of each source the newest 100,000 are kept; with more of them, `left_out` says how
        many, and a replay is refused.
        """
        found = [source.passed_time for source in self._sources]
        return Newest(chain.from_iterable(found), sum(of_one.left_out for of_one in found))

    def __reduce__(self):
        raise NotSupportedError(
            "a run cannot be pickled or sent to Spark executors: it lives in this process; send its results"
        )


def start(query: Query, **options: Any) -> QueryRun:
    """Start a planned query.

    Keep a reference to the run for as long as it is to go on: a run that nothing refers to is stopped, with a
    warning, even if its results go to a file. ``with query.start(...) as run:``, a call that waits
    (``run.wait()``) and a dashboard hold a reference, too.

    Parameters
    ----------
    query : Query
        What `headrace.Stream.plan` returns.
    **options
        Those of `headrace.Stream.start`, and those of the engines in the query.

    Raises
    ------
    ParameterError
        An option has a wrong value; an `ArgumentError` if there is no such option.
    """
    engines = {node.name: node.spec.options for node in query.operators}
    checked, by_engine = checked_options(list(dict.fromkeys(engines.values())), options)
    for engine in by_engine.values():
        if hasattr(engine, "look_at"):
            engine.look_at(query)
        engine.check_operators([node.name for node in query.operators])
    sections = {
        node.name: node.spec.section(node, query.branches[node.name], by_engine[engines[node.name]])
        for node in query.operators
    }
    key = checked.name or registry.cell_key()
    registry.make_way(key)
    run = QueryRun(Execution(query, checked, sections))
    registry.register(run, key)
    return run


def _abandon(execution: weakref.ref[Execution]) -> None:
    """Tell a run that goes on, or has threads left, that it is unreachable; any other run is freed with the handle."""
    found = execution()
    if found is not None:
        found.abandon()
