"""Benchmarks of the parts, and the papers' experiments: `headrace bench NAME`.

Each asserts that its results are correct before it times anything, compares
with the simplest thing that does the same in the same run, and reports medians
of several repetitions. Figures are for the machine they were taken on.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

from headrace.bench import experiments
from headrace.bench.experiments import Experiment
from headrace.bench.rows import Row, print_rows, write_json

PARTS = ("gate", "wordcount", "join", "reconfigure", "latency", "idle", "startup", "ingress", "memory", "metrics", "growth")
PEERS = "peers"
"""By its name only, not with `all`: it makes environments of its own."""
NAMES = (*PARTS, *experiments.NAMES)


def run(name: str, full: bool = False, tiny: bool = False) -> list[Row]:
    """Measure one part and return its rows; `tiny` only shows that it runs, its figures mean nothing."""
    module = importlib.import_module(f"headrace.bench.{name}")
    measure: Callable[..., list[Row]] = module.measure
    return measure(full, tiny=True) if tiny else measure(full)


def experiment(name: str, full: bool = False, tiny: bool = False) -> Experiment:
    """Run one of the papers' experiments; `tiny` as for `run`."""
    module = importlib.import_module(f"headrace.bench.{'' if name == PEERS else 'experiments.'}{name}")
    measure: Callable[..., Experiment] = module.measure
    return measure(full, tiny=tiny)


def main(name: str, full: bool = False, json_path: str | None = None, folder: str = "out/bench") -> int:
    """Run one benchmark, or all; print the table; write JSON. Returns the exit status.

    An experiment also writes ``NAME.json`` and ``NAME.html`` into `folder`.
    """
    names = NAMES if name == "all" else (name,)
    if name not in ("all", PEERS, *NAMES):
        print(f"headrace: bench {name!r}: give one of {', '.join((*NAMES, PEERS))}, or all", file=sys.stderr)
        return 2
    rows: list[Row] = []
    reports: list[Experiment] = []
    try:
        for each in names:
            if len(names) > 1:
                print(f"bench {each} ...", file=sys.stderr, flush=True)
            if each not in (*experiments.NAMES, PEERS):
                rows += run(each, full)
                continue
            reports.append(experiment(each, full))
            rows += reports[-1].rows
    finally:  # what was measured is shown, whatever became of the rest
        if rows:
            print_rows(rows)
    if not all(_keep(finished, folder) for finished in reports):
        return 2
    if json_path:
        try:
            write_json(rows, json_path)
        except OSError as error:
            print(f"headrace: bench: --json {json_path}: {error.strerror}; give a writable path", file=sys.stderr)
            return 2
    return 0


def _keep(finished: Experiment, folder: str) -> bool:
    from headrace.bench.experiments.page import write_page

    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page = write_page(Path(folder) / f"{finished.name}.html", finished)
        (Path(folder) / f"{finished.name}.json").write_text(json.dumps(finished.to_dict(), indent=1) + "\n")
    except OSError as error:
        print(f"headrace: bench: --out {folder}: {error.strerror}; give a folder that can be written", file=sys.stderr)
        return False
    print(f"report: {page}", file=sys.stderr)
    return True
