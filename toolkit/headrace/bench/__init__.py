"""Benchmarks of the parts: `headrace bench NAME`.

Each asserts that its results are correct before it times anything, compares
with the simplest thing that does the same in the same run, and reports medians
of several repetitions. Figures are for the machine they were taken on.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

from headrace.bench.rows import Row, print_rows, write_json

NAMES = ("gate", "wordcount", "join", "reconfigure", "latency", "idle", "startup", "ingress", "memory", "metrics")


def run(name: str, full: bool = False, tiny: bool = False) -> list[Row]:
    """Run one benchmark and return its rows; `tiny` only shows that it runs, its figures mean nothing."""
    module = importlib.import_module(f"headrace.bench.{name}")
    measure: Callable[..., list[Row]] = module.measure
    return measure(full, tiny=True) if tiny else measure(full)


def main(name: str, full: bool = False, json_path: str | None = None) -> int:
    """Run one benchmark, or all; print the table; write JSON. Returns the exit status."""
    names = NAMES if name == "all" else (name,)
    if name != "all" and name not in NAMES:
        print(f"headrace: bench {name!r}: give one of {', '.join(NAMES)}, or all", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for each in names:
        if len(names) > 1:
            print(f"bench {each} ...", file=sys.stderr, flush=True)
        rows += run(each, full)
    print_rows(rows)
    if json_path:
        try:
            write_json(rows, json_path)
        except OSError as error:
            print(f"headrace: bench: --json {json_path}: {error.strerror}; give a writable path", file=sys.stderr)
            return 2
    return 0
