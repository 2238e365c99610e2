"""Benchmarks of the parts, and the papers' experiments: `headrace bench NAME`.

Each benchmark checks its results before it times anything, compares with the
simplest program that does the same work, in the same run, and reports medians of
several repetitions. Figures hold for the machine on which they were taken.
"""

from __future__ import annotations

import ast
import errno
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path

from headrace.errors import HeadraceError
from headrace_bench import experiments
from headrace_bench.experiments import Experiment
from headrace_bench.experiments.kept import kept as kept
from headrace_bench.rows import Row, print_rows, write_json

PARTS = (
    "machine", "gate", "wordcount", "join", "reconfigure", "latency", "idle", "startup", "ingress", "crafted", "memory",
    "metrics", "growth", "api", "state", "arrival", "passing", "gs", "sl", "ob", "tp", "speculative", "adaptive",
)  # fmt: skip
PEERS = "peers"
"""Runs only when named, not with `all`: it creates Python environments."""
NAMES = (*PARTS, *experiments.NAMES)


def subjects(names: Iterable[str] = NAMES) -> dict[str, str]:
    """Say what each benchmark measures: the first line of its module's docstring, read without an import."""
    found = {}
    for name in names:
        spec = find_spec(f"headrace_bench.{'experiments.' if name in experiments.NAMES else ''}{name}")
        lines = ast.get_docstring(ast.parse(Path(spec.origin).read_text())) if spec is not None and spec.origin else None
        first = (lines or "").partition("\n")[0].partition(". See ")[0]
        found[name] = first.removesuffix(".").removesuffix(f": `headrace bench {name}`")
    return found


def run(name: str, full: bool = False, tiny: bool = False) -> list[Row]:
    """Measure one part and return its rows; `tiny` only shows that it runs, and its figures mean nothing."""
    module = importlib.import_module(f"headrace_bench.{name}")
    measure: Callable[..., list[Row]] = module.measure
    return measure(full, tiny=True) if tiny else measure(full)


def experiment(name: str, full: bool = False, tiny: bool = False) -> Experiment:
    """Run one of the papers' experiments; `tiny` as for `run`."""
    module = importlib.import_module(f"headrace_bench.{'' if name == PEERS else 'experiments.'}{name}")
    measure: Callable[..., Experiment] = module.measure
    return measure(full, tiny=tiny)


def main(name: str, full: bool = False, json_path: str | None = None, folder: str = "out/bench") -> int:
    """Run one benchmark, or all; print the table; write JSON. Returns the exit status.

    An experiment also writes ``NAME.json`` and ``NAME.html`` into `folder`, and ``NAME.md`` where it has a table to be
    pasted elsewhere. When all are run and one fails, it is named, the others still run, and the status is 1.
    """
    names = NAMES if name == "all" else (name,)
    if name not in ("all", PEERS, *NAMES):
        print(f"headrace: bench {name!r}: give one of {', '.join((*NAMES, PEERS))}, or all", file=sys.stderr)
        return 2
    # Checked here, before minutes of measuring.
    has_reports = any(map(_has_report, names))
    if not (_can_write("--json", json_path) and _can_write("--out", folder if has_reports else None, is_folder=True)):
        return 2
    rows: list[Row] = []
    status = 0
    try:
        for each in names:
            begin = time.monotonic()
            if name == "all":
                print(f"bench {each} ...", end=" ", file=sys.stderr, flush=True)
            try:
                measured, finished = _measured(each, full)
            except (AssertionError, HeadraceError) as error:
                if name != "all":
                    raise
                print(f"FAILED: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                status = max(status, 1)
                continue
            rows += measured
            if name == "all":
                print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
            if finished is not None and not _keep(finished, folder):
                status = 2
    finally:  # what was measured is shown even if the rest fails
        if rows:
            print_rows(rows)
    if json_path is not None:
        try:
            write_json(rows, json_path)
        except OSError as error:
            print(f"headrace: bench: --json {json_path}: {error.strerror}; give a writable path", file=sys.stderr)
            return 2
    return status


def _has_report(name: str) -> bool:
    return name in (*experiments.NAMES, PEERS)


def _measured(name: str, full: bool) -> tuple[list[Row], Experiment | None]:
    """Rows of a benchmark, and its experiment, if it is one."""
    if not _has_report(name):
        return run(name, full), None
    finished = experiment(name, full)
    return finished.rows, finished


def _can_write(flag: str, path: str | None, is_folder: bool = False) -> bool:
    """Say on standard error if a file, or files in a folder, cannot be written; nothing is left behind."""
    if path is None:
        return True
    target = Path(path)
    try:
        if target.is_dir() and not is_folder:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not is_folder:
            if target.is_file():  # a pipe is not tried: its reader would take the close for the end of the data
                target.open("ab").close()
            return True
        # Missing parts of a folder's path are created later.
        place = target if is_folder else target.parent
        while is_folder and not place.exists():
            place = place.parent
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError as error:
        wanted = "a folder that can be written" if is_folder else "a writable path"
        print(f"headrace: bench: {flag} {path}: {error.strerror}; give {wanted}", file=sys.stderr)
        return False


def _keep(finished: Experiment, folder: str) -> bool:
    from headrace_bench.experiments.page import write_page

    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page = write_page(Path(folder) / f"{finished.name}.html", finished)
        (Path(folder) / f"{finished.name}.json").write_text(json.dumps(finished.to_dict(), indent=1) + "\n")
        if finished.markdown:
            (Path(folder) / f"{finished.name}.md").write_text(finished.markdown)
    except OSError as error:
        print(f"headrace: bench: --out {folder}: {error.strerror}; give a folder that can be written", file=sys.stderr)
        return False
    print(f"report: {page}", file=sys.stderr)
    return True
