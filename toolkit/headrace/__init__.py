"""headrace: elastic, deterministic, stateful stream processing on a multicore machine.

A tuple crosses the house in this order::

    stream  query              the fluent interface, and the plan it makes
    spark                      sessions; DataFrames in and out
    ingress                    any table -> event times, dense key ids, columns
    gates                      the tuple buffer: merges sources, feeds instances
    operators                  O+ and its specialisations: kernels, one loop for all
    egress                     the output gate: order by content, then the sink
    engine                     starts it all and is the run a user holds

beside it::

    elasticity                 who owns which keys, changing that while running; policies that do
    codegen  expressions       user functions and column expressions
    runtime  memory            threads, changes, sinks; atomics, cells, waiting
    reference                  what every operator means, in plain Python: the oracle
    apps  bench  cli           the papers' applications and experiments (`headrace.bench.experiment`), the command
    demo  report  doctor       the main job, its page of plots; what works on a machine
    functions                  custom operators: `hr.operator`
    controllers                the public names of the policies, and what one of your own needs
    rates                      how fast a source is played
    counterfactual             the same stream under several controllers
    history  prometheus        what a run's counters said over time; a page for Prometheus
    tuples windows progress errors counters kernel     the leaves

Examples
--------
>>> import headrace as hr, pyarrow as pa
>>> posts = pa.table({"ts": [0, 1, 2], "tags": [["a"], ["a", "b"], ["b"]], "chars": [5, 9, 7]})
>>> longest = (hr.stream(posts, event_time="ts")
...     .key_by(tag=hr.each("tags")).window(size=2).aggregate(chars=hr.max("chars"), n=hr.count()))
>>> longest.to_arrow(threads=2).to_pylist()[0]
{'ts': 2, 'tag': 'a', 'chars': 9, 'n': 2}
"""

from headrace import controllers, prometheus, rates, spark
from headrace.counterfactual import compare_controllers
from headrace.egress.directory import parquet_directory
from headrace.egress.sinks import discard, parquet
from headrace.elasticity.mapping import Mapping
from headrace.errors import HeadraceError
from headrace.expressions import (
    band,
    col,
    count,
    count_distinct,
    each,
    equal,
    first,
    hashtags,
    last,
    lit,
    max,
    mean,
    min,
    pairs,
    sum,
    words,
)
from headrace.functions import operator
from headrace.runtime.registry import runs, stop_all
from headrace.stream import Stream, inputs, stream

__version__ = "0.1.0"

__all__ = [
    "HeadraceError",
    "Mapping",
    "Stream",
    "band",
    "col",
    "compare_controllers",
    "controllers",
    "count",
    "count_distinct",
    "discard",
    "each",
    "equal",
    "first",
    "hashtags",
    "inputs",
    "last",
    "lit",
    "max",
    "mean",
    "min",
    "operator",
    "pairs",
    "parquet",
    "prometheus",
    "parquet_directory",
    "rates",
    "runs",
    "spark",
    "stop_all",
    "stream",
    "sum",
    "words",
]
