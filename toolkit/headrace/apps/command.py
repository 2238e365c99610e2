"""``headrace run``: running one application from files to a file."""

from __future__ import annotations

import json
import math
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headrace.apps import APPS
from headrace.apps.asked import Asked, parse_schedule
from headrace.apps.checked import check_flags, check_master, check_paths
from headrace.apps.engines import ENGINES, Engine
from headrace.apps.figures import summarize
from headrace.egress.part_files import PartFile
from headrace.egress.sinks import ParquetSink
from headrace.errors import (
    CheckpointError,
    HeadraceError,
    InputError,
    NotSupportedError,
    OutputError,
    ParameterError,
)

PROGRESS_DELAY_S = 1.0
"""A run that ends sooner shows no progress bar."""

COMPILING_S = 2.0
"""A start that takes longer is explained."""

COMPILING = "compiling, which takes ten to thirty seconds the first time; what is compiled is kept for the next time"

_POLL_S = 0.1


def run(request: Asked) -> dict[str, Any]:
    """Run an application to its end.

    Returns
    -------
    dict
        The report that ``--report`` writes.
    """
    app = APPS[request.app]
    schedule = parse_schedule(request.reconfigure)
    threads = max([request.threads, *(count for _, count in schedule)])
    max_threads = threads if request.max_threads is None else request.max_threads
    if max_threads < threads:
        raise ParameterError(
            f"--max-threads {max_threads}: {threads} threads are asked for; give at least that, or leave it out"
        )
    check_flags(app, request)
    engine = ENGINES[app.engine](app, request, max_threads)
    engine.check()
    check_paths(app, request, engine)
    engine.read_files()
    if request.spark is not None:
        check_master(request.spark)

    from headrace.apps.inputs import open_inputs

    sink = _Output(request.out)
    sink.check()
    with (
        _report_file(request.report) as write_report,
        sink.published_at_the_end(),
        engine.around() as complete,
        _with_the_fix_of_a_file(),
        _with_flags(engine),
    ):
        spark = _session(request.spark) if request.spark else None
        inputs = open_inputs(
            app, request.left, request.right, request.sources, engine.rows_at_a_time, spark, engine.dealing()
        )
        given = {"size": request.size, "advance": request.advance, **(request.options or {})}
        query = app.build(*inputs.given, **app.parameters(given))
        # A self-join is fed the stream twice, and counts its tuples twice.
        feeds = 2 if app.is_self_join else 1
        planned = [(feeds * math.ceil(share * inputs.rows), count) for share, count in schedule]
        rate = None if request.rate is None else request.rate / inputs.sources
        with _why_it_takes_long(app.name):
            started = query.start(
                threads=request.threads,
                max_threads=max_threads,
                reconfigure=planned,
                sink=sink,
                rate=rate,
                pin=request.pin,
                **engine.start_options(),
            )
        with started:
            _follow(started, app.name, inputs.rows, feeds)
            report = summarize(started, engine, inputs.rows)
        complete(started)
        write_report(report)
    return report


@contextmanager
def _with_the_fix_of_a_file() -> Iterator[None]:
    """Add advice on fixing a row in the file to errors: the parameters that the errors name are not flags."""
    from headrace.ingress.key_sources import NULL_FIX
    from headrace.ingress.times import NANOSECOND_FIX, SORT_FIX

    try:
        yield
    except InputError as error:
        text = str(error)
        for fix, ours in (
            (NULL_FIX, "fill it, or filter such rows out of the file"),
            (SORT_FIX, "sort the file by ts"),
            (NANOSECOND_FIX, "truncate it to microseconds"),
        ):
            text = text.replace(fix, ours)
        if text == str(error):
            raise
        raise type(error)(text) from error


@contextmanager
def _with_flags(engine: Engine) -> Iterator[None]:
    """Name flags instead of parameters in errors about what an engine writes or cannot do."""
    try:
        yield
    except (CheckpointError, OutputError) as error:
        text = str(error)
        for parameter, flag in engine.as_flags:
            text = text.replace(parameter, flag)
        if text == str(error):
            raise
        raise type(error)(text) from error
    except NotSupportedError as error:
        options = "|".join(flag.name for each in ENGINES.values() for flag in each.flags if flag.is_option)
        text = re.sub(rf"\b({options})='([^']*)'", r"--\1 \2", str(error))
        if text == str(error):
            raise
        raise NotSupportedError(text) from error


def _session(master: str) -> Any:
    from pyspark import SparkContext

    from headrace.spark.session import session

    # What Spark would log also arrives as an exception, which says it in one line.
    is_ours = SparkContext._active_spark_context is None
    try:
        return session("headrace run", master=master, config={"spark.log.level": "OFF"} if is_ours else None)
    except HeadraceError:
        raise
    except Exception as error:  # py4j's and Spark's own errors have no common class; the Java side gives the cause
        cause = str(getattr(error, "java_exception", None) or error).strip().splitlines()[0]
        raise ParameterError(
            f"--spark {master!r}: Spark does not start ({cause}); give a master that can be reached, such as local[2]"
        ) from error


@contextmanager
def _report_file(path: str | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Check now whether the report can be written; the file appears only when complete."""
    if path is None:
        yield lambda report: None
        return
    part = PartFile(path)
    try:
        part.create()
    except OSError as error:
        raise OutputError(
            f"report {path!r} cannot be written ({error.strerror}); give a file in a directory that is writable"
        ) from None

    def write(report: dict[str, Any]) -> None:
        with part.open() as file:
            file.write(json.dumps(report, indent=2, allow_nan=False).encode() + b"\n")

    try:
        yield write
        part.publish()
    finally:
        part.remove()


class _Output(ParquetSink):
    """The result's file, which appears when everything else that the command writes is complete as well."""

    def publish(self) -> None:
        """Called when the run has ended; the command goes on, so the file does not appear yet."""

    @contextmanager
    def published_at_the_end(self) -> Iterator[None]:
        """Give the file its name, unless something fails before."""
        try:
            yield
            super().publish()
        finally:
            self.abort()


@contextmanager
def _why_it_takes_long(name: str) -> Iterator[None]:
    """On a terminal, say that a query is being compiled if that takes long: nothing moves yet."""
    said = threading.Timer(COMPILING_S, lambda: print(f"headrace: {name}: {COMPILING}", file=sys.stderr))
    said.daemon = True
    if sys.stderr.isatty():
        said.start()
    try:
        yield
    finally:
        said.cancel()


def _follow(started: Any, name: str, rows: int, feeds: int) -> None:
    """Wait for the end; on a terminal, show the progress of a long run."""
    if not sys.stderr.isatty():
        started.wait()
        return
    from tqdm import tqdm

    with tqdm(total=rows, desc=name, unit=" tuples", unit_scale=True, delay=PROGRESS_DELAY_S, leave=False) as bar:
        while not started.wait(_POLL_S):
            operator = next(iter(started.metrics().operators.values()))
            bar.set_postfix(threads=operator.threads, refresh=False)
            bar.update(min(rows, operator.processed // feeds) - bar.n)
