"""Checks of the command line before anything is opened: flags of other engines, paths, the master of Spark."""

from __future__ import annotations

import os
import re

from headrace.apps.app import App
from headrace.apps.asked import Asked
from headrace.apps.engines import ENGINES, Engine
from headrace.errors import OutputError, ParameterError
from headrace.ingress.input_errors import no_file_at

_MASTER = re.compile(r"local(\[(\*|[1-9]\d{0,4})( *, *[1-9]\d{0,4})?\])?|spark://\S+:\d+|yarn|k8s://\S+", re.ASCII)


def check_flags(app: App, asked: Asked) -> None:
    """Refuse flags that only another engine's applications have."""
    own = ENGINES[app.engine]
    others = [(engine, flag) for engine in ENGINES.values() for flag in engine.flags if engine is not own]
    # If there are several, name the one that `start` of the other engine takes.
    for engine, flag in sorted(others, key=lambda each: not each[1].is_option):
        value = asked.flags.get(flag.name)
        if value is not None:
            what = f"--{flag.name}" if value is True else f"--{flag.name} {value}"
            why = flag.refusal or engine.refusal or own.lacking + own.lacks[flag.name]
            raise ParameterError(f"{what}: {app.name} {why}; leave it out")


def check_paths(app: App, asked: Asked, engine: Engine) -> None:
    """Refuse paths that are missing, do not lead to a file, or are named twice."""
    if asked.left is None and app.default_input is None:
        raise ParameterError(f"{app.name} needs an input; give --in FILE.parquet")
    if app.has_right and asked.right is None:
        raise ParameterError(f"{app.name} joins two inputs; give the second one with --right FILE.parquet")
    if app.has_right is False and asked.right is not None:
        raise ParameterError(f"{app.name} has one input; leave out --right {asked.right}")
    for flag, path in (("--in", asked.left), ("--right", asked.right), ("--out", asked.out), ("--report", asked.report)):
        if path == "":
            raise ParameterError(f"{flag} '': an empty path; give the path of a file")
        if path == "-":
            raise ParameterError(
                f"{flag} -: files are not read from or written to a terminal or a pipe; give the path of a file (./- if it is"
                f" called so)"
            )

    inputs = [os.path.realpath(path) for path in (asked.left, asked.right, *engine.files_read) if path]
    for flag, path in (("--out", asked.out), ("--report", asked.report)):
        if path is not None and (kind := no_file_at(path) or ("" if os.path.basename(path) else "a directory")):
            raise OutputError(f"{flag} {path!r} is {kind}; give the path of a file")
    out = os.path.realpath(asked.out)
    if out in inputs:
        raise OutputError(f"--out {asked.out} is also an input; give another path")
    if asked.report is not None and os.path.realpath(asked.report) in [out, *inputs]:
        raise OutputError(f"--report {asked.report} is also the output or an input; give another path")
    engine.check_paths([out, *inputs, *filter(None, [asked.report])])


def check_master(master: str) -> None:
    """Check Spark's master here, where Java would report an error in a hundred lines."""
    if not _MASTER.fullmatch(master):
        raise ParameterError(
            f"--spark {master!r}: no such master; give local, local[2], local[*], spark://HOST:PORT, yarn or k8s://ADDRESS"
        )
    if master == "yarn" and not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
        raise ParameterError("--spark 'yarn': set HADOOP_CONF_DIR or YARN_CONF_DIR, or give a master such as local[2]")
