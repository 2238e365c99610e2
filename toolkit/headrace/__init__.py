"""headrace: elastic, deterministic, stateful stream processing on a multicore machine.

>>> import headrace as hr, pyarrow as pa
>>> posts = pa.table({"ts": [0, 1, 2], "tags": [["a"], ["a", "b"], ["b"]], "chars": [5, 9, 7]})
>>> longest = (hr.stream(posts, event_time="ts")
...     .key_by(tag=hr.each("tags")).window(size=2).aggregate(chars=hr.max("chars"), n=hr.count()))
>>> longest.to_arrow(threads=2).to_pylist()[0]
{'ts': 2, 'tag': 'a', 'chars': 9, 'n': 2}

What to call, by what you want to do (``help(headrace.stream)`` and so on have the details)::

    begin                      hr.stream(source, event_time=...): a table, a file, a frame, a DataFrame, or a list of them
    row by row                 .filter  .map  .flat_map  .select
    by key and window          .key_by(...).window(...).aggregate(n=hr.count(), ...)
    ... by your functions      .key_by(...).window(...).apply(hr.operator(...))
    several streams            .union  .join  hr.inputs
    several results            hr.together(...), of one query
    shared tables              .transact(function), with hr.table
    ordered pipeline           .ordered()
    dependent events           hr.program(...), and its plans
    run it to the end          .to_pandas()  .to_arrow()  .to_spark(spark)
    run it in the background   run = .start(threads=1, max_threads=4, rate=..., sink=hr.parquet(path))
    change it while it runs    run.reconfigure(threads=2)  run.rate  run.control(hr.controllers.Threshold())
    watch it                   run.metrics()  run.bottleneck()  run.history  headrace_widgets.Dashboard(run)
    get its results            run.wait()  run.to_pandas()  run.snapshot()  run.late
    end it                     run.stop()  hr.runs()  hr.stop_all()
    buffers without a query    headrace.gates: MergedLog, ScaleGate, ReaderChannels (Viper's channels)

The path of a tuple::

    a table, a file, a DataFrame
      ingress    reads it: event times as integers, keys as dense ids, columns for kernels; the rest stays in Arrow
      gates      bring several sources into one order, for any number of readers
      elastic    processes it: threads share input and state, and each key is owned by one of them
      egress     brings the results into one order, whichever thread made them
    the next operator, or a sink: memory, Parquet, a function, a DataFrame

The packages and modules of the source, each of which imports only from those below it::

    cli                        the command `headrace`
    demo  doctor  lab  tour    one job from end to end; what works here; JupyterLab on the user's copy of the notebooks; a tour
    lesson                     the stream that the tour shows
    apps                       the papers' applications, which ``headrace run`` runs
    report  prometheus         a run as a page of plots, and as a page for Prometheus
    counterfactual             the same stream under several controllers
    controllers                the public names of the policies, and what your own controller needs

    stream                     the fluent interface: from any table to a running query

    synchronization            an engine: dependent events, and a plan of which workers synchronize (Flumina, DGS)
    ordering                   an engine: any worker at any stage of a pipeline, with the output of one (Prasaad et al.)
    transactions               an engine: many threads on shared tables, with the result of serial execution (TStream)
    elastic                    an engine: Virtual Shared-Nothing parallelism, O+ and its special cases (STRETCH)

    runtime                    the run of every engine: sources, threads, changes, results, life cycle
    control                    steers an operator of any engine: controllers, decisions, cost model, key mapping
    spark                      a session; DataFrames as sources and as results
    checkpoints                on disk, what a run needs to go on after its process has died
    egress                     result rings, their order, sinks
    gates                      the tuple buffer: a merged log, or the papers' lock-free skip list; a channel for each reader
    plan                       what a query means, before anything runs; `Spec`, the interface of an engine
    ingress                    readers, event times, key dictionary, columns, store
    workers                    the life cycle of a worker, the threads of a run
    metrics                    measures, what they count, and their history
    codegen                    compiles user functions to kernels, and caches them
    memory  expressions        atomics, cells, waiting; column expressions, aggregates, keys, predicates
    kernel                     how every kernel is compiled
    reference                  what every operator means, in plain Python: specification and oracle

    arguments caches callers changes cores errors indexing linkable loopback names newest progress rates references
    remembering summary terminal windows   leaves, which any of the above may import

Two more packages build on this one: `headrace_widgets`, the dashboard, and `headrace_bench`, the benchmarks and the
papers' experiments, which is only in the source tree. `headrace_datasets` makes input, and imports none of them.
"""

from headrace import controllers, prometheus, rates, spark
from headrace.codegen.kinds import array, list_of, map_of, record, set_of
from headrace.control.mapping import Mapping
from headrace.counterfactual import compare_controllers
from headrace.egress.directory import parquet_directory
from headrace.egress.sinks import discard, parquet
from headrace.elastic.custom.operator import operator
from headrace.errors import HeadraceError
from headrace.expressions import (
    band,
    col,
    collect_list,
    collect_set,
    count,
    count_distinct,
    each,
    equal,
    first,
    hashtags,
    keys,
    last,
    lit,
    max,
    mean,
    median,
    min,
    mode,
    pairs,
    quantile,
    sum,
    top,
    words,
)
from headrace.names import missing_from_module
from headrace.ordering.ranges import ranges_of
from headrace.progress import Watermark
from headrace.runtime.registry import runs, stop_all
from headrace.stream import Stream, inputs, program, stream, streams, together
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.plans import Plan
from headrace.synchronization.tags import every, tag
from headrace.transactions.tables import column, table

__version__ = "0.2.0.dev0"

__all__ = [
    "HeadraceError",
    "Mapping",
    "Plan",
    "PlanNode",
    "Stream",
    "Watermark",
    "array",
    "band",
    "col",
    "collect_list",
    "collect_set",
    "column",
    "compare_controllers",
    "controllers",
    "count",
    "count_distinct",
    "discard",
    "each",
    "equal",
    "every",
    "first",
    "hashtags",
    "inputs",
    "keys",
    "last",
    "list_of",
    "lit",
    "map_of",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "operator",
    "pairs",
    "parquet",
    "program",
    "prometheus",
    "parquet_directory",
    "quantile",
    "ranges_of",
    "rates",
    "record",
    "runs",
    "set_of",
    "spark",
    "stop_all",
    "stream",
    "streams",
    "sum",
    "table",
    "tag",
    "together",
    "top",
    "words",
]

_ELSEWHERE = {
    "Dashboard": "headrace_widgets.Dashboard",
    "avg": "hr.mean", "average": "hr.mean", "nunique": "hr.count_distinct",
    **{name: f"hr.controllers.{name}" for name in controllers.__all__},
    **{name: f"headrace.gates.{name}" for name in ("MergedLog", "ScaleGate", "ReaderChannels")},
    **{name: f"headrace_datasets.{name}" for name in ("tweets", "trades", "joins", "linear_road", "flights")},
    **{name: f"headrace_datasets.{name}" for name in ("gs", "sl", "ob", "tp", "position_reports")},
    **{name: f"headrace_datasets.{name}" for name in ("clicks", "store_sales", "calls", "item_sales", "item_categories")},
    **{name: f"headrace_datasets.{name}" for name in ("eventwindow", "pageviews", "frauds", "keycounts", "plugs", "connections")},
    **{name: f"import headrace.{name}" for name in ("apps", "report", "errors")},
    "percentile": "hr.quantile", "collect": "hr.collect_list", "unique": "hr.collect_set",
    **dict.fromkeys(("topk", "top_k", "nlargest", "max_by", "arg_max"), "hr.top(k, column, by=...)"),
    **dict.fromkeys(("read_parquet", "scan_parquet", "from_pandas", "from_arrow"), "hr.stream(source, event_time=...)"),
    **{f"read_{kind}": f"hr.stream(pandas.read_{kind}(path), event_time=...)" for kind in ("csv", "json", "excel", "sql")},
    **dict.fromkeys(("std", "var"), ".apply(hr.operator(...)), with a function of your own"),
}  # fmt: skip


def __getattr__(name: str) -> object:
    raise missing_from_module(__name__, name, __all__, _ELSEWHERE)
