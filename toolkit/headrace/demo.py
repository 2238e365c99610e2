"""``headrace demo``: real data from a Spark DataFrame through the elastic engine and back.

Two runs: the flights that left New York in 2013, while the number of threads changes from 1 to 4
to 2, and made-up tweets at full speed. Each result is compared with the reference, row by row.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.apps import APPS
from headrace.apps.app import App, sources
from headrace.apps.compare import first_difference
from headrace.errors import OutputError, RunStoppedError
from headrace.report import Record, figures_of, write_html

TWEETS, FAST_TWEETS, FAST_FLIGHTS = 500_000, 20_000, 30_000
PACED_S = 4.0
"""How long the flights are made to take, so that the threads change in the middle of them."""
FAST_PACED_S = 1.5


@dataclass(frozen=True)
class Job:
    """One run of the demo."""

    title: str
    app: App
    rows: pa.Table
    frame: Any
    threads: int
    changes: Sequence[tuple[float, int]]
    """(share of the input, threads): asked for once that much was processed."""
    rate: float | None
    result: Path


def main(fast: bool = False, folder: str | os.PathLike[str] = "headrace-demo") -> int:
    """Run the demo; gives 0, or 1 where a result is not what the reference says.

    Parameters
    ----------
    fast : bool
        Smaller inputs.
    folder : path
        For the results and the report.
    """
    begun = time.monotonic()
    folder = _folder(folder)

    def say(text: str) -> None:
        print(f"[{time.monotonic() - begun:5.1f} s] {text}", flush=True)

    from headrace.spark.session import session
    from headrace_datasets import flights, tweets

    say("starting Spark")
    spark = session("headrace demo")

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
    say(f"making {count:,} tweets into a Spark DataFrame")
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

    report = write_html(folder / "report.html", "headrace demo", records)
    say(f"done; results in {folder}{os.sep}, report in {report}")
    print()
    print(table(records))
    return 0 if all(record.difference is None for record in records) else 1


def _folder(folder: str | os.PathLike[str]) -> Path:
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OutputError(f"folder {str(path)!r} cannot be written ({error.strerror}); give another with --out") from None
    return path


def _run(job: Job, spark: Any, say: Any) -> Record:
    """Run one job, watch it, change its threads on the way, and hold its result against the reference."""
    import headrace as hr

    parameters = job.app.parameters({})
    query = job.app.build(hr.stream(job.frame, event_time="ts"), **parameters)
    pace = "at full speed" if job.rate is None else f"paced at {job.rate:,.0f} tuples/s so that it can be watched"
    say(f"{job.title}: compiling its operator where no earlier run did (the first time takes half a minute)")
    most = max([job.threads, *(threads for _, threads in job.changes)])
    every_s = 0.05 if job.rate else 0.02
    with query.start(threads=job.threads, max_threads=most, rate=job.rate, sample_every=every_s) as run:
        say(f"{job.title}: {job.rows.num_rows:,} rows on {_threads(job.threads)}, {pace}")
        waiting = list(job.changes)
        asked = []

        def steer(metrics: Any) -> None:
            processed = next(iter(metrics.operators.values())).processed
            for change in [c for c in asked if c.is_settled]:
                asked.remove(change)
                say(f"{job.title}: {_threads(change.to_threads)} after {change.ms:.2f} ms")
            if waiting and processed >= waiting[0][0] * job.rows.num_rows:
                share, threads = waiting.pop(0)
                say(f"{job.title}: {share:.0%} read; from {run.threads} to {_threads(threads)}, without stopping")
                with suppress(RunStoppedError):  # it may end this very moment
                    asked.append(run.reconfigure(threads=threads, reason="demo"))

        while not run.wait(every_s):
            steer(run.metrics())
        frame = run.to_spark(spark)
        changes, history = run.changes, run.history
    result = frame.toArrow()  # the comparison covers the way through Spark and back
    pq.write_table(result, job.result)
    seconds = history.samples[-1].metrics.seconds
    say(f"{job.title}: {result.num_rows:,} results in {seconds:.2f} s, as a DataFrame again; computing the reference")
    expected = job.app.reference(sources([job.rows]), unit="us", **parameters)
    difference = first_difference(result, expected)
    say(f"{job.title}: " + ("identical to the reference" if difference is None else f"WRONG: {difference}"))
    windows = f"windows of {parameters['size']} that advance by {parameters['advance']}"
    text = f"{job.app.help[0].upper()}{job.app.help[1:]}, in {windows}; {pace}."
    return Record(job.title, text, history, job.rows.num_rows, changes, difference)


def _threads(count: int) -> str:
    return f"{count} thread" if count == 1 else f"{count} threads"


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
