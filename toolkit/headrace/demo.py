"""``headrace demo``: real data from a Spark DataFrame through the elastic engine and back.

There are two runs: the flights that left New York in 2013, while the number of threads changes from
1 to 4 to 2, and made-up tweets at full speed. Each result is compared with the reference, row by row.

With ``--transactions`` there is one run of the transactions engine: a ledger whose number of threads and
scheme change during the run. No money is lost, and rows and accounts are those of the reference.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.apps import APPS
from headrace.apps.app import App, sources
from headrace.apps.compare import first_difference
from headrace.errors import OutputError, RunStoppedError
from headrace.report import Record, figures_of, write_html
from headrace.summary import counted
from headrace.terminal import hung, width

TWEETS, FAST_TWEETS, FAST_FLIGHTS = 500_000, 20_000, 30_000
PACED_S = 4.0
"""Seconds that the run of the flights is made to take, so that the threads change in the middle of it."""
FAST_PACED_S = 1.5
_UNLESS_KEPT = "unless an earlier run did (ten to thirty seconds the first time)"
TRANSFERS, FAST_TRANSFERS, ACCOUNTS, AT_FIRST = 300_000, 30_000, 10_000, 10_000

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """One run of the demo."""

    title: str
    app: App
    rows: pa.Table
    frame: Any
    threads: int
    changes: Sequence[tuple[float, int]]
    """(share of the input, threads): requested once that share has been processed."""
    rate: float | None
    result: Path


def main(fast: bool = False, folder: str | os.PathLike[str] = "headrace-demo", transactions: bool = False) -> int:
    """Run the demo; return 0, or 1 if a result differs from the reference.

    Parameters
    ----------
    fast : bool
        Smaller inputs.
    folder : path
        For the results and the report.
    transactions : bool
        Run the ledger instead.
    """
    begun = time.monotonic()
    folder = _folder(folder)

    def say(text: str) -> None:
        print(hung(f"[{time.monotonic() - begun:5.1f} s] ", text, width() if sys.stdout.isatty() else len(text) + 20), flush=True)

    from headrace.spark.session import session

    say("starting Spark")
    spark = session("headrace demo")
    records = [_ledger(fast, folder, spark, say)] if transactions else _elastic(fast, folder, spark, say)
    report = write_html(folder / "report.html", "headrace demo", records)
    say(f"done; results in {folder}{os.sep}, report in {report}")
    print()
    print(table(records))
    print(f"\n{others()}")
    return 0 if all(record.difference is None for record in records) else 1


def others() -> str:
    """What else there is to run: the applications of each engine."""
    engines = {
        "elastic": "windows and joins", "transactions": "transactions", "ordering": "ordered pipelines",
        "synchronization": "programs by plans",
    }  # fmt: skip
    # `make demo` leaves the environment's commands off the PATH.
    beside, here = Path(sys.executable).with_name("headrace"), Path.cwd()
    path = beside.relative_to(here) if beside.is_relative_to(here) else beside
    call = "headrace" if shutil.which("headrace") else path
    there = f"`{call} run --help` lists {len(APPS)} applications, which read Parquet files and write one"
    lines = [hung("more: ", there, width())]
    for engine, what in engines.items():
        names = " ".join(app.name for app in APPS.values() if app.engine == engine)
        lines.append(hung(f"  {what + ':':<19}", names, width()))
    return "\n".join(lines)


def _folder(folder: str | os.PathLike[str]) -> Path:
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OutputError(f"folder {str(path)!r} cannot be written ({error.strerror}); give another with --out") from None
    return path


def _elastic(fast: bool, folder: Path, spark: Any, say: Say) -> list[Record]:
    from headrace_datasets import flights, tweets

    say("reading the flights that left New York in 2013 into a Spark DataFrame")
    departures = flights(FAST_FLIGHTS if fast else None)
    rows = departures.to_arrow().select(["ts", "origin", "dest", "dep_delay"])
    paced_s = FAST_PACED_S if fast else PACED_S
    job = Job(
        "flights",
        APPS["flights"],
        rows,
        spark.createDataFrame(rows),
        threads=1,
        changes=((1 / 3, 4), (2 / 3, 2)),
        rate=rows.num_rows / paced_s,
        result=folder / "flights.parquet",
    )
    records = [_run(job, spark, say)]

    count = FAST_TWEETS if fast else TWEETS
    say(f"generating {count:,} tweets, into a Spark DataFrame")
    rows = tweets(n=count, seed=7).to_arrow().select(["ts", "text"])
    job = Job(
        "longest tweet of each hashtag",
        APPS["longest"],
        rows,
        spark.createDataFrame(rows),
        threads=2,
        changes=(),
        rate=None,
        result=folder / "longest.parquet",
    )
    records.append(_run(job, spark, say))
    return records


def _run(job: Job, spark: Any, say: Say) -> Record:
    """Run one job, watch it, change its threads on the way, and compare its result with the reference."""
    import headrace as hr

    parameters = job.app.parameters({})
    query = job.app.build(hr.stream(job.frame, event_time="ts"), **parameters)
    pace = "at full speed" if job.rate is None else f"paced at {job.rate:,.0f} tuples/s so that it can be watched"
    say(f"{job.title}: compiling its operator {_UNLESS_KEPT}")
    most = max([job.threads, *(threads for _, threads in job.changes)])
    every_s = 0.05 if job.rate else 0.02
    with query.start(threads=job.threads, max_threads=most, rate=job.rate, sample_every=every_s) as run:
        say(f"{job.title}: {job.rows.num_rows:,} rows on {counted(job.threads, 'thread')}, {pace}")
        changes = [(share, {"threads": threads}) for share, threads in job.changes]
        _follow(run, job.title, job.rows.num_rows, changes, every_s, say)
        frame = run.to_spark(spark)
        changes, history = run.changes, run.history
    result = frame.toArrow()  # so the comparison includes the way through Spark and back
    pq.write_table(result, job.result)
    seconds = history.samples[-1].metrics.seconds
    say(f"{job.title}: {result.num_rows:,} results in {seconds:.2f} s, as a DataFrame again; computing the reference")
    expected = job.app.reference(sources([job.rows]), unit="us", **parameters)
    difference = first_difference(result, expected)
    say(f"{job.title}: " + ("identical to the reference" if difference is None else f"WRONG: {difference}"))
    windows = f"windows of {parameters['size']} that advance by {parameters['advance']}"
    text = f"{job.app.help[0].upper()}{job.app.help[1:]}, in {windows}; {pace}."
    return Record(job.title, text, history, job.rows.num_rows, changes, difference)


def _follow(
    run: Any,
    title: str,
    rows: int,
    changes: Sequence[tuple[float, Mapping[str, Any]]],
    every_s: float,
    say: Say,
    look: Callable[[], None] = lambda: None,
) -> None:
    """Wait for the end of a run, and change it on the way; `look` is called after each change."""
    waiting, asked = list(changes), []

    def steer(metrics: Any) -> None:
        processed = next(iter(metrics.operators.values())).processed
        for change in [c for c in asked if c.is_settled]:
            asked.remove(change)
            now = change.describe() if change.from_threads == change.to_threads else counted(change.to_threads, "thread")
            say(f"{title}: {now} after {change.ms:.2f} ms")
            look()
        if waiting and processed >= waiting[0][0] * rows:
            share, requested = waiting.pop(0)
            words = [f"from {run.threads} to {counted(requested['threads'], 'thread')}"] if "threads" in requested else []
            words += [f"to the scheme {requested['scheme']!r}"] if "scheme" in requested else []
            say(f"{title}: {share:.0%} read; {', '.join(words)}, without stopping")
            with suppress(RunStoppedError):  # the run may end at this very moment
                asked.append(run.reconfigure(**requested, reason="demo"))

    while not run.wait(every_s):
        steer(run.metrics())


def _ledger(fast: bool, folder: Path, spark: Any, say: Say) -> Record:
    """Move money and assets between accounts by transactions, change the run on the way, and count the money."""
    import headrace as hr
    from headrace.reference.transaction_apps import sl as reference
    from headrace_datasets import sl

    title, count, paced_s = "ledger", FAST_TRANSFERS if fast else TRANSFERS, FAST_PACED_S if fast else PACED_S
    say(f"generating {count:,} transfers between {ACCOUNTS:,} accounts, some for more than there is, into a Spark DataFrame")
    rows = sl(n=count, seed=7, records=ACCOUNTS, transfers=1.0, rejected=0.02).to_arrow()

    kept = {"rows": ACCOUNTS, "columns": {"balance": "int64"}, "first": {"balance": AT_FIRST}, "conserve": "balance"}
    accounts, assets = hr.table("accounts", **kept), hr.table("assets", **kept)

    def transfer(e, t):
        if accounts[e.source].balance < e.amount or assets[e.source_asset].balance < e.quantity:
            t.reject()
        accounts[e.source].balance -= e.amount
        accounts[e.target].balance += e.amount
        assets[e.source_asset].balance -= e.quantity
        assets[e.target_asset].balance += e.quantity
        t.emit(balance=accounts[e.target].balance, quantity=assets[e.target_asset].balance)

    lost: list[str] = []

    def check(tables: Any, when: str) -> None:
        sums = {name: _sum(tables[name].to_arrow()["balance"]) for name in ("accounts", "assets")}
        lost.extend(f"{name} held {held:,} {when}" for name, held in sums.items() if held != ACCOUNTS * AT_FIRST)
        say(f"{title}: {when}, all accounts together hold {sums['accounts']:,}, all assets {sums['assets']:,}")

    def look() -> None:
        with suppress(RunStoppedError):
            tables = run.snapshot()
            check(tables, "at the end" if tables.position is None else f"after {tables.position:,} transfers")

    query = hr.stream(spark.createDataFrame(rows), event_time="ts").transact(
        transfer, emits={"balance": "int64", "quantity": "int64"}
    )
    say(f"{title}: compiling its transaction {_UNLESS_KEPT}")
    changes = [(0.25, {"threads": 2}), (0.5, {"scheme": "lock"}), (0.75, {"threads": 4, "scheme": "chains"})]
    with query.start(threads=1, max_threads=4, rate=count / paced_s, sample_every=0.05) as run:
        say(f"{title}: {count:,} rows on 1 thread, paced at {count / paced_s:,.0f} a second so that it can be watched")
        _follow(run, title, count, changes, 0.05, say, look)
        frame, tables = run.to_spark(spark), run.tables
        changed, history = run.changes, run.history
        check(tables, "at the end")
        balances = tables["accounts"].to_spark(spark).toArrow()
    result = frame.toArrow()  # so the comparison includes the way through Spark and back
    pq.write_table(result, folder / "ledger.parquet")
    pq.write_table(balances, folder / "accounts.parquet")
    rejected = _sum(result["rejected"])
    say(f"{title}: {result.num_rows:,} results, {rejected:,} rejected, as a DataFrame again; computing the reference")
    expected, content = reference(sources([rows]), records=ACCOUNTS)
    difference = first_difference(result, expected) or (lost[0] if lost else None)
    if difference is None and balances.to_pylist() != content["accounts"]:
        difference = "the final balances of the accounts differ"
    say(f"{title}: " + ("identical to the reference, no money lost" if difference is None else f"WRONG: {difference}"))
    text = (
        f"{count:,} transfers of money and assets between {ACCOUNTS:,} accounts, one transaction each; {rejected:,} were"
        f" rejected, being for more than there was. All accounts together held {ACCOUNTS * AT_FIRST:,} throughout."
    )
    return Record(title, text, history, count, changed, difference)


def _sum(column: pa.ChunkedArray) -> int:
    return pc.sum(column).as_py() or 0


def table(records: Sequence[Record]) -> str:
    """Lay out the figures of all runs for a terminal, one column for each."""
    figures = figures_of(records)
    first = max(map(len, figures))
    widths = [
        max(len(record.title), *map(len, values))
        for record, values in zip(records, zip(*figures.values(), strict=True), strict=True)
    ]
    head = " " * first + "".join(f"  {r.title:>{w}}" for r, w in zip(records, widths, strict=True))
    lines = [head, "-" * len(head)]
    for name, values in figures.items():
        cells = [f"  {value:>{width}}" for value, width in zip(values, widths, strict=True)]
        lines += [f"{name:<{first}}" + "".join(cells)]
    return "\n".join(lines)
