"""What a user would pick instead, beside ours, in one run: `headrace bench peers`.

All peers get the same Arrow table of raw keys or texts, or its rows in files
where they do not read Arrow; ours is what a user calls, `hr.stream(table)`. All must give
the same result, which is compared by its hash in every run, and they take turns. If a peer
lacks something it needs, or fails, its row says so.

=================  ==============================================================
``workloads``      input files, the plain loop, and the result of each workload
``band_join``      one more workload: sides, the plain loop
``programs``       two more: the event window and the page-view join, as programs on plans
``sessions``       one more, for ordered pipelines
``ledger``         two more, for transactions
``sizes``          which workloads there are, and how large
``contest``        runs contestants in turns, and makes the rows
``ours``           ours as a user calls it, VSN and SN; the engine alone; the plain loop
``rescale``        changes the parallelism of a running job
``on_duckdb``      DuckDB, in this process
``on_polars``      Polars, in an environment of its own (`polars_script`)
``on_flink``       Flink: our jobs in Java (`flink/`), in a process of their own
``on_spark``       Spark Structured Streaming, in a process of its own (`spark_script`)
``process``        talks to a peer in another process
``summary``        the figures as a table in Markdown
``environment``    Python environments made on demand; javac
=================  ==============================================================
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace_bench.experiments import Experiment, Figure, Line, Paper
from headrace_bench.experiments.experiment import STRETCH_MACHINE

if TYPE_CHECKING:
    from headrace_bench.peers.contest import Contestant, Result
    from headrace_bench.peers.workloads import Work

NAME = "peers"
PAPER = Paper(
    "STRETCH, section 8.1 and Figure 6: word count and pair count, against Flink",
    STRETCH_MACHINE,
    [
        "Word count: +17 % throughput and -94 % latency against Flink.",
        "Pair count L, M and H: +137 %, +237 % and +283 % throughput, -89 %, -94 % and -94 % latency.",
    ],
)
TEXT = (
    "Same rows, same results, on this machine, in one run of the benchmark. Ours is what a user calls: an Arrow table"
    " with the raw keys or texts is given to `hr.stream`, and the sink hashes results as they come; the clock runs from the call"
    " to the end, so reading, checking and encoding are included. `Engine alone` is our engine on rows that were encoded and"
    " stored beforehand, which no user has. A rate is the number of input rows divided by the seconds from the first row to the"
    " last result: the median of runs of at least half a second each, in which all contestants take turns. Processor time is"
    " that of all threads, per row of the input. Start-up and, where a peer has to copy the rows first, ingestion are in the"
    " notes. Spark and Flink's `stock` get the first fifth of the rows. Batch engines see the whole input at once and are upper"
    " bounds. The plain loop has its columns encoded beforehand and only hashes its result, without writing it. Flink `stock`"
    " uses Flink's own windows and state; `expert` is an operator on primitive arrays whose state cannot be checkpointed."
    " Latency runs from the arrival of the tuple that completes a window to each of the window's results, at half of each"
    " contestant's highest rate, so the rates differ. Ours is compared with the best streaming peer, all others with the plain"
    " loop. Tweets of word count are texts; pairs of pair count are numbers that were made beforehand for all contestants, and no"
    " pair occurs twice in a tweet. Flink's jobs know that the keys of the aggregate are small numbers, as the loop does."
    " Comparisons of the band join are those that a join of all pairs makes for the same result. Our SN mode, our"
    " `all pairs`, the loop and Flink's `expert` make all of them; our index skips most, and so do the other peers, whose"
    " hand-written queries join on cells of the banded column. The event window and the page-view join are"
    " programs on plans with as many leaves as threads. Flink's `stock` broadcasts the barriers to the subtasks of the"
    " values, which sum in keyed state, and joins by key; its `expert` is the sequential version, one subtask that"
    " merges both inputs in order. Sessions are an ordered pipeline of ours. Flink has a"
    " keyed process function, followed by one subtask that puts closed sessions in order; a streaming query of Spark does not"
    " order rows, so Spark, like DuckDB, runs a batch query there. The ledger's transfers reach two accounts and two assets, and"
    " are rejected where a balance is too small. No key of Flink's covers all of these, so its `stock` keeps both tables in the"
    " state of one key and its `expert` in two arrays, each in one subtask; deposits alone are split by key, and put in order"
    " afterwards. DuckDB evaluates the ledger in batches, and repeats each until no verdict changes. Each operation of the ledger"
    " is only an addition: `headrace bench sl` shows the gain where operations cost something."
)


def contestants(work: Work, tiny: bool = False) -> list[Contestant]:
    """Return all contestants, in the order of the table; a tiny run starts no virtual machine and installs nothing."""
    from headrace_bench.peers.ledger import NAMES as LEDGERS
    from headrace_bench.peers.on_duckdb import Batches, DuckDB
    from headrace_bench.peers.on_flink import Flink
    from headrace_bench.peers.on_polars import Polars
    from headrace_bench.peers.on_spark import Spark, SparkBatch
    from headrace_bench.peers.ours import Engine, Loop, Ordered, Ours, Planned, Transacted

    if work.is_program:
        if tiny:
            return [Loop(), Planned(1), Planned(2), Flink(1, "stock", may_install=False)]
        flinks = [Flink(threads, version) for version in ("stock", "expert") for threads in (1, 2)]
        return [Loop(), Planned(1), Planned(2), *flinks]
    if work.name == "sessions":
        ordered: list[Contestant] = [Loop(), Ordered(1), Ordered(2)]
        if tiny:
            return [*ordered, DuckDB(1), Flink(1, "stock", may_install=False)]
        return [*ordered, *(kind(n) for kind in (_stock, SparkBatch, DuckDB) for n in (1, 2))]
    if work.name in LEDGERS:
        transacted: list[Contestant] = [Loop(), Transacted(1, "serial"), Transacted(2, "chains")]
        if tiny:
            return [*transacted, Batches(1), Flink(1, "stock", may_install=False)]
        flinks = [Flink(threads, version) for version in ("stock", "expert") for threads in (1, 2)]
        return [*transacted, Transacted(1, "chains"), *flinks, Batches(1), Batches(2)]
    all_pairs = work.name == "band join"
    if tiny:
        return [
            Loop(),
            Ours(1),
            Ours(2),
            Ours(2, index=False) if all_pairs else Ours(2, "sn"),
            Engine(1),
            DuckDB(1),
            Polars(1, may_install=False),
            Flink(1, "stock", may_install=False),
        ]
    peers: list[Contestant] = [Loop(), Ours(1), Ours(2), Ours(1, "sn"), Ours(2, "sn")]
    if all_pairs:
        peers += [Ours(1, index=False), Ours(2, index=False)]
    peers += [Engine(1), Engine(2)]
    peers += [Flink(threads, version) for version in ("stock", "expert") for threads in (1, 2)]
    for kind in (Spark, DuckDB, Polars):
        peers += [kind(1), kind(2)]
    return peers


def _stock(threads: int) -> Contestant:
    from headrace_bench.peers.on_flink import Flink

    return Flink(threads, "stock")


def measure(full: bool, tiny: bool = False) -> Experiment:
    """Run every workload with every peer."""
    from headrace_bench.peers import rescale
    from headrace_bench.peers.contest import LEAST_S, compete, rows_of
    from headrace_bench.peers.sizes import make_works
    from headrace_bench.peers.summary import markdown

    finished = Experiment(NAME, "What a user would pick instead", TEXT, PAPER)
    found: list[tuple[Work, Sequence[Result]]] = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for make in make_works(Path(folder), full, tiny):
            work, part = make()
            repetitions = 1 if tiny else 5 if full else 3
            results = compete(work, contestants(work, tiny), repetitions, part, least_s=0.0 if tiny else LEAST_S)
            found.append((work, results))
            finished.rows += rows_of(work, results)
            finished.figures.append(_figure(work, results))
            for each in (work, part):
                each.release()
            pa.default_memory_pool().release_unused()
    finished.markdown = markdown(found)
    finished.rows += rescale.measure(1 if tiny else 5 if full else 3, tiny, may_install=not tiny)
    return finished


def _figure(work: Work, results: Sequence[Result]) -> Figure:
    lines: dict[str, list[tuple[int, float]]] = {}
    for result in results:
        if not result.failure:
            of_name = lines.setdefault(result.contestant.name, [])
            of_name.append((result.contestant.threads, result.rate))
    return Figure(
        work.title,
        "threads",
        f"{work.unit}/s",
        [Line(name, *zip(*points, strict=True)) for name, points in lines.items()],
        log_y=True,
    )
