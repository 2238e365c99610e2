"""``headrace run``: one application, from files to a file."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from headrace.apps import APPS
from headrace.apps.app import App, read_whole
from headrace.checkpoints.folder import Folder
from headrace.control.mapping import MOST_INSTANCES
from headrace.egress.sinks import ParquetSink, part_of
from headrace.errors import (
    CheckpointError,
    HeadraceError,
    InputError,
    NotSupportedError,
    OutputError,
    ParameterError,
    UnsafeResultsWarning,
)
from headrace.ingress.readers import no_file_at
from headrace.ordering.options import DEFAULT_BATCH as DEFAULT_CLAIM
from headrace.ordering.options import DEFAULT_SCHEDULE, OrderedOptions
from headrace.ordering.words import MOST_BATCH as MOST_CLAIM
from headrace.synchronization.options import DEFAULT_HEARTBEAT, PLANS, ProgramOptions
from headrace.synchronization.plans import MOST_LEAVES, Plan
from headrace.transactions.options import DEFAULT_PUNCTUATION, DEFAULT_SCHEME, TransactionOptions

PROGRESS_DELAY_S = 1.0
"""A run that ends sooner shows no progress bar."""

_POLL_S = 0.1
_DGS = "dependency-guided synchronization"
_MASTER = re.compile(r"local(\[(\*|[1-9]\d{0,4})( *, *[1-9]\d{0,4})?\])?|spark://\S+:\d+|yarn|k8s://\S+", re.ASCII)


ENGINE_OPTIONS = {
    "elastic": ("mode", "gate"),
    "transactions": ("scheme", "punctuation", "sharing", "chains", "unsafe"),
    "ordering": ("schedule", "queues", "reorder"),
    "synchronization": ("plan", "leaves", "heartbeat"),
}
"""By engine, the options of `start` that it has alone and the command line passes on."""

DEFAULT_EVERY = 100_000


@dataclass
class Asked:
    """What was asked for on the command line; the names are the flags'."""

    app: str
    out: str
    left: str | None = None
    right: str | None = None
    report: str | None = None
    threads: int = 1
    max_threads: int | None = None
    reconfigure: str | None = None
    mode: str | None = None
    gate: str | None = None
    sources: int | None = None
    batch: int | None = None
    rate: float | None = None
    advance: str | int | None = None
    size: str | int | None = None
    spark: str | None = None
    pin: bool = False
    scheme: str | None = None
    punctuation: int | None = None
    sharing: str | None = None
    chains: str | None = None
    unsafe: bool | None = None
    schedule: str | None = None
    queues: str | None = None
    reorder: str | None = None
    plan: str | None = None
    leaves: int | None = None
    heartbeat: int | None = None
    checkpoint: str | None = None
    every: int | None = None
    resume: str | None = None
    state: str | None = None
    options: dict[str, Any] | None = None


def parse_schedule(text: str | None) -> list[tuple[Fraction, int]]:
    """Read ``"10%:4,50%:1"``: shares of the input, strictly rising, and the threads from there on.

    Examples
    --------
    >>> parse_schedule("10%:4, 50.5%:1")
    [(Fraction(1, 10), 4), (Fraction(101, 200), 1)]
    """
    schedule: list[tuple[Fraction, int]] = []
    if text is None:
        return schedule
    for entry in text.split(","):
        share_text, _, threads_text = entry.strip().partition(":")
        number, sign, rest = share_text.strip().partition("%")
        fix = 'write shares and threads as in "10%:4,50%:1"'
        if not sign or rest or not _is_decimal(number):
            raise ParameterError(f"--reconfigure {text!r}: {entry.strip()!r} has no percentage; {fix}")
        threads = read_whole(threads_text.strip(), MOST_INSTANCES)
        if threads is None:
            raise ParameterError(
                f"--reconfigure {text!r}: {entry.strip()!r} has no number of threads from 1 to {MOST_INSTANCES}; {fix}"
            )
        share = Fraction(number) / 100
        if not 0 <= share <= 1:
            raise ParameterError(f"--reconfigure {text!r}: {share_text} is not between 0% and 100%; {fix}")
        if schedule and share <= schedule[-1][0]:
            raise ParameterError(
                f"--reconfigure {text!r}: percentages must rise, and {share_text} does not; put them in order"
            )
        schedule.append((share, threads))
    return schedule


def _is_decimal(text: str) -> bool:
    whole, _, decimals = text.strip().partition(".")
    digits = whole + decimals
    return digits.isascii() and digits.isdecimal() and bool(whole)


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
    _check_engine(app, request)
    _check_paths(app, request)
    plan = read_plan(request.plan)
    if request.spark is not None:
        _check_master(request.spark)

    from headrace.apps.inputs import open_inputs
    from headrace.apps.state import state_files

    sink = _Output(request.out)
    sink.check()
    with (
        _report_file(request.report) as write_report,
        sink.published_at_the_end(),
        state_files(request.state, app.tables) as write_state,
        _with_the_fix_of_a_file(),
        _with_flags(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UnsafeResultsWarning)  # `_check_engine` has said it
        spark = _session(request.spark) if request.spark else None
        # A pipeline's batch is what a worker claims, which is not what the source gives at a time.
        rows = None if app.engine == "ordering" else request.batch
        leaves = min(max_threads, MOST_LEAVES) if request.leaves is None else request.leaves
        inputs = open_inputs(
            app, request.left, request.right, request.sources, rows, spark, leaves, plan if isinstance(plan, Plan) else None
        )
        given = {"size": request.size, "advance": request.advance, **(request.options or {})}
        query = app.build(*inputs.given, **app.parameters(given))
        # A self-join is fed the stream twice, and counts its tuples so.
        feeds = 2 if app.is_self_join else 1
        planned = [(feeds * math.ceil(share * inputs.rows), count) for share, count in schedule]
        own = {name: value for name in ENGINE_OPTIONS[app.engine] if (value := getattr(request, name)) is not None}
        if app.engine == "ordering":
            own["batch"] = claim_of(request)
        if app.tags:
            own |= {"plan": plan, "leaves": leaves, **checkpoint_options(request)}
        rate = None if request.rate is None else request.rate / inputs.sources
        with query.start(
            threads=request.threads,
            max_threads=max_threads,
            reconfigure=planned,
            sink=sink,
            rate=rate,
            pin=request.pin,
            **own,
        ) as started:
            _follow(started, app.name, inputs.rows, feeds)
            report = summarize(started, app, inputs.rows, request)
        write_state(started)
        write_report(report)
    return report


def claim_of(request: Asked) -> int:
    """Tuples of a pipeline that a worker claims at a time: what is asked for, as far as it goes."""
    return DEFAULT_CLAIM if request.batch is None else min(request.batch, MOST_CLAIM)


def checkpoint_options(request: Asked) -> dict[str, Any]:
    """What `start` is told of checkpoints: where a run has died before its first one, it begins again."""
    folder, resume = request.checkpoint, request.resume
    if folder is None and resume is not None and request.every is not None:
        folder = (os.path.dirname(resume) or ".") if os.path.isfile(resume) else resume
    if resume is not None and os.path.isdir(resume) and not Folder(resume).numbers():
        said = (
            f"--resume {resume}: the run before was over, or killed, before its first checkpoint, so all is read from the"
            f" beginning; the result is the same"
        )
        print(f"headrace: {said}", file=sys.stderr, flush=True)
        resume = None
    given: dict[str, Any] = {} if resume is None else {"resume": resume}
    if folder is not None:
        given |= {"checkpoint": folder, "checkpoint_every": request.every or DEFAULT_EVERY}
    return given


def read_plan(text: str | None) -> str | Plan:
    """Read ``--plan``: the name of a kind of plans, or the file of one."""
    if text is None or text in PLANS:
        return text or PLANS[0]
    try:
        content = Path(text).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ParameterError(
            f"--plan {text!r} cannot be read ({said}); give a file that has a plan as JSON, or one of {', '.join(PLANS)}"
        ) from None
    try:
        return Plan.from_json(content)
    except ParameterError as error:
        raise ParameterError(f"--plan {text!r}: {error}") from None


def _check_engine(app: App, request: Asked) -> None:
    """Refuse what only another engine's applications have."""
    for engine, names in ENGINE_OPTIONS.items():
        for name in names:
            value = getattr(request, name)
            if value is not None and engine != app.engine:
                what = f"--{name}" if value is True else f"--{name} {value}"
                raise ParameterError(f"{what}: {_why_not(app, engine, name)}; leave it out")
    if request.state is not None and not app.tables:
        raise ParameterError(f"--state {request.state}: {_why_not(app, 'transactions', 'state')}; leave it out")
    for name in ("checkpoint", "every", "resume"):
        if (value := getattr(request, name)) is not None and not app.tags:
            raise ParameterError(f"--{name} {value}: {app.name} is no program of {_DGS}, and takes no checkpoints; leave it out")
    if request.every is not None and request.checkpoint is None and request.resume is None:
        raise ParameterError(f"--every {request.every}: where are checkpoints to be kept? Give --checkpoint DIR")
    if request.scheme == "none" and not request.unsafe:
        raise ParameterError(
            "--scheme none takes no locks and keeps no order, so its results are wrong; add --unsafe if that is what you"
            " want to see, or give another scheme"
        )
    if request.scheme == "none":
        print("headrace: --scheme none takes no locks and keeps no order: THE RESULTS ARE WRONG", file=sys.stderr, flush=True)


def _why_not(app: App, engine: str, name: str) -> str:
    """Why an application has no use for an option of another engine."""
    if engine == "transactions":
        return f"{app.name} runs no transactions, and has no tables"
    if engine == "ordering":
        return f"{app.name} is no ordered pipeline, and has no stages"
    if engine == "synchronization":
        return f"{app.name} is no program of {_DGS}, and has no plan"
    if app.tables:
        return f"{app.name} is transactional, and {TransactionOptions.lacks[name]}"
    if app.tags:
        return f"{app.name} runs by a plan: {ProgramOptions.lacks[name]}"
    return f"{app.name} is an ordered pipeline: {OrderedOptions.lacks[name]}"


def _check_paths(app: App, request: Asked) -> None:
    if request.left is None and app.default_input is None:
        raise ParameterError(f"{app.name} needs an input; give --in FILE.parquet")
    if app.has_right and request.right is None:
        raise ParameterError(f"{app.name} joins two inputs; give the second one with --right FILE.parquet")
    if app.has_right is False and request.right is not None:
        raise ParameterError(f"{app.name} has one input; leave out --right {request.right}")
    for flag, path in (("--in", request.left), ("--right", request.right), ("--out", request.out), ("--report", request.report)):
        if path == "":
            raise ParameterError(f"{flag} '': an empty path; give the path of a file")
        if path == "-":
            raise ParameterError(
                f"{flag} -: files are not read from or written to a terminal or a pipe; give the path of a file (./- if it is"
                f" called so)"
            )
    for flag, path in (("--checkpoint", request.checkpoint), ("--resume", request.resume)):
        if path == "":
            raise ParameterError(f"{flag} '': an empty path; give the path of a folder")

    of_plan = None if request.plan in PLANS else request.plan
    inputs = [os.path.realpath(path) for path in (request.left, request.right, of_plan) if path]
    for flag, path in (("--out", request.out), ("--report", request.report)):
        if path is not None and (kind := no_file_at(path) or ("" if os.path.basename(path) else "a directory")):
            raise OutputError(f"{flag} {path!r} is {kind}; give the path of a file")
    out = os.path.realpath(request.out)
    if out in inputs:
        raise OutputError(f"--out {request.out} is also an input; give another path")
    if request.report is not None and os.path.realpath(request.report) in [out, *inputs]:
        raise OutputError(f"--report {request.report} is also the output or an input; give another path")
    if request.state is not None:
        from headrace.apps.state import check_folder

        check_folder(request.state, app.tables, [out, *inputs, *filter(None, [request.report])])


def _check_master(master: str) -> None:
    """Find out here what Java would say on a hundred lines."""
    if not _MASTER.fullmatch(master):
        raise ParameterError(
            f"--spark {master!r}: no such master; give local, local[2], local[*], spark://HOST:PORT, yarn or k8s://ADDRESS"
        )
    if master == "yarn" and not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
        raise ParameterError("--spark 'yarn': set HADOOP_CONF_DIR or YARN_CONF_DIR, or give a master such as local[2]")


@contextmanager
def _with_the_fix_of_a_file() -> Iterator[None]:
    """Say of a row what to do about it in the file: the parameters that the errors name are no flags."""
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
def _with_flags() -> Iterator[None]:
    """Name flags where an error about checkpoints, or about what an engine cannot do, names parameters."""
    try:
        yield
    except (CheckpointError, OutputError) as error:
        text = str(error)
        for parameter, flag in (
            ("resume='", "--resume '"),
            ("checkpoint='", "--checkpoint '"),
            ("give the one that a run had as checkpoint=", "give the folder that a run had as --checkpoint"),
            ("without resume", "without --resume"),
        ):
            text = text.replace(parameter, flag)
        if text == str(error):
            raise
        raise type(error)(text) from error
    except NotSupportedError as error:
        options = "|".join(name for names in ENGINE_OPTIONS.values() for name in names)
        text = re.sub(rf"\b({options})='([^']*)'", r"--\1 \2", str(error))
        if text == str(error):
            raise
        raise NotSupportedError(text) from error


def _session(master: str) -> Any:
    from pyspark import SparkContext

    from headrace.spark.session import session

    # What Spark would log arrives as an exception too, and that says it in one line.
    is_ours = SparkContext._active_spark_context is None
    try:
        return session("headrace run", master=master, config={"spark.log.level": "OFF"} if is_ours else None)
    except HeadraceError:
        raise
    except Exception as error:  # py4j's and Spark's own have no common class; the Java side says the cause
        cause = str(getattr(error, "java_exception", None) or error).strip().splitlines()[0]
        raise ParameterError(
            f"--spark {master!r}: Spark does not start ({cause}); give a master that can be reached, such as local[2]"
        ) from error


@contextmanager
def _report_file(path: str | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Find out now whether the report can be written; it appears only when complete."""
    if path is None:
        yield lambda report: None
        return
    target, part = part_of(path)
    try:
        part.touch()
    except OSError as error:
        raise OutputError(
            f"report {path!r} cannot be written ({error.strerror}); give a file in a directory that is writable"
        ) from None

    def write(report: dict[str, Any]) -> None:
        part.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n")

    try:
        yield write
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


class _Output(ParquetSink):
    """The result's file: it appears when all else that the command writes is complete, too."""

    def publish(self) -> None:
        """The run has ended, and the command goes on."""

    @contextmanager
    def published_at_the_end(self) -> Iterator[None]:
        """Give the file its name, unless something fails before."""
        try:
            yield
            super().publish()
        finally:
            self.abort()


def _follow(started: Any, name: str, rows: int, feeds: int) -> None:
    """Wait for the end; on a terminal, show how far a long run has come."""
    if not sys.stderr.isatty():
        started.wait()
        return
    from tqdm import tqdm

    with tqdm(total=rows, desc=name, unit=" tuples", unit_scale=True, delay=PROGRESS_DELAY_S, leave=False) as bar:
        while not started.wait(_POLL_S):
            operator = next(iter(started.metrics().operators.values()))
            bar.set_postfix(threads=operator.threads, refresh=False)
            bar.update(min(rows, operator.processed // feeds) - bar.n)


def summarize(started: Any, app: App, rows: int, request: Asked) -> dict[str, Any]:
    """Make the report of a finished run."""
    metrics = started.metrics()
    *_, operator = metrics.operators.values()  # whose results those of the query are
    seconds = metrics.seconds
    is_join = app.engine == "elastic" and (app.has_right is True or app.is_self_join)
    changes = sorted(started.changes, key=lambda c: c.requested_ns if c.planned_at is None else c.planned_at)
    report = {
        "app": app.name,
        "tuples_in": rows,
        "tuples_out": metrics.tuples_out,
        "dropped": metrics.dropped,
        "seconds": seconds,
        "tuples_per_s": rows / seconds if seconds > 0 else None,
        "latency_ms": _latency(operator),
        "comparisons_per_s": operator.comparisons / seconds if is_join and seconds > 0 else None,
        "reconfigurations": [
            {"operator": c.operator, "from": c.from_threads, "to": c.to_threads, "ms": _finite(c.ms), "outcome": c.outcome}
            for c in changes
        ],
        "imbalance_cv": operator.values.get("imbalance_cv"),
        "threads": request.threads,
    }
    if len(metrics.operators) > 1:
        report["operators"] = {
            each.name: {
                "tuples_in": each.processed,
                "tuples_out": each.results,
                "latency_ms": _latency(each),
                "imbalance_cv": each.values.get("imbalance_cv"),
            }
            for each in metrics.operators.values()
        }
    if app.tables:
        report |= {
            "rejected": operator.rejected,
            "transactions_per_s": operator.transactions / seconds if seconds > 0 else None,
            "scheme": request.scheme or DEFAULT_SCHEME,
            "punctuation": request.punctuation or DEFAULT_PUNCTUATION,
        }
    if app.tags:
        report |= {
            "plan": request.plan or PLANS[0],
            "leaves": len(started.plan.leaves),
            "heartbeat": request.heartbeat or DEFAULT_HEARTBEAT,
            "joins": operator.joins,
        }
        if request.checkpoint is not None or request.resume is not None:
            report["checkpoints"] = len(started.checkpoints)
    if app.stages:
        processing = operator.processing_ms
        report |= {
            "processing_ms": {name: _finite(processing.get(name)) for name in ("p50", "p99", "max")},
            "schedule": request.schedule or DEFAULT_SCHEDULE,
            "batch": claim_of(request),
        }
    return report


def _latency(operator: Any) -> dict[str, float | None]:
    """The latency of an operator's results, in milliseconds; None where it has none."""
    latency = getattr(operator, "latency_ms", {})
    return {name: _finite(latency.get(name)) for name in ("p50", "p99", "max")}


def _finite(value: float | None) -> float | None:
    """JSON has no NaN."""
    return value if value is not None and math.isfinite(value) else None
