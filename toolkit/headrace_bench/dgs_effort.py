"""What a plan costs the author of a program: a part of `headrace bench dgs` (Table 1, and appendix A's lines of code).

The paper's platform independence principles are tested for each application. PIP1: the program does not know how
many workers there are; on one to four leaves it gives the same results. PIP2: nor does it know which worker has which rows;
dealt out to one to five streams, they give the same results. PIP3: it meets the assumptions of the interface; `check` finds no
state on which a law of fork, join and update is broken. A row says how many of the trials passed. Its note quotes what the
paper's Table 1 says of its programs for Flink, Timely and Flumina; these were not tried here, and the case studies are not in
that table.

Lines are counted in the sources of `headrace.apps`, without blank ones, comments and docstrings. Sequential code is the
updates, all functions they call, and the declarations of tags, states and outputs. Code for plans alone is
fork, join, the functions that only these call, and the dependence relation.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
import headrace_datasets
from headrace.apps import eventwindow, keycounter, modelfraud, outlier, pageview, smarthome
from headrace.apps.dealing import Deal
from headrace.errors import InconsistentProgramError
from headrace_bench.rows import Row

APPS: tuple[ModuleType, ...] = (eventwindow, pageview, modelfraud, keycounter, outlier, smarthome)
ROWS, EVERY = 2_000, 100
LEAVES, STREAMS = (1, 2, 3, 4), (1, 2, 3, 5)
SEEDS = 4
EXAMPLES = 50
UNIQUE = {"outlier": {"row": range(1 << 20)}}
"""Columns whose values should be distinct: drawn from a range so large that two are rarely equal."""
FOR_PLANS = ("fork", "join", "depends")
TABLE_1 = {
    "eventwindow": {"Flink": (1, 1, 1), "Timely": (1, 1, 1), "Flumina": (1, 1, 1)},
    "pageview": {
        "Flink": (1, 1, 1), "Flink by hand": (0, 0, 0), "Timely": (1, 1, 1), "Timely by hand": (1, 0, 1), "Flumina": (1, 1, 1),
    },
    "modelfraud": {"Flink": (1, 1, 1), "Flink by hand": (0, 0, 0), "Timely": (1, 1, 1), "Flumina": (1, 1, 1)},
}  # fmt: skip
"""Application and system -> whether its program there keeps PIP1, PIP2 and PIP3, as the DGS paper prints it (section 4.5)."""


def name_of(app: ModuleType) -> str:
    """The name of an application's module."""
    return app.__name__.rpartition(".")[2]


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """How many trials of each principle pass, and lines of code."""
    return [row for app in APPS for row in [*_principles(app, tiny), *_effort(app)]]


# -- lines


def lines_of(app: ModuleType) -> tuple[int, int]:
    """Lines of sequential code, and lines needed for plans alone."""
    source = inspect.getsource(app)
    tree = ast.parse(source)
    functions = {one.name: one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
    call = next(one for one in ast.walk(tree) if isinstance(one, ast.Call) and ast.unparse(one.func) == "hr.program")
    said = {one.arg: one.value for one in call.keywords}
    updates = _reached(functions, [said["update"]])
    others = _reached(functions, [said["fork"], said["join"]]) - updates
    text = source.splitlines()
    sequential = {line for name in updates for line in _code(functions[name], text)}
    sequential |= {line for name, value in said.items() if name not in FOR_PLANS for line in _code(value, text)}
    plans = {line for name in others for line in _code(functions[name], text)}
    plans |= {line for name in FOR_PLANS for line in _code(said[name], text)}
    return len(sequential), len(plans)


def _reached(functions: dict[str, ast.FunctionDef], begin: Iterable[ast.AST]) -> set[str]:
    """Functions that these nodes name, and those that they name in turn."""
    found: set[str] = set()
    waiting = list(begin)
    while waiting:
        named = {one.id for one in ast.walk(waiting.pop()) if isinstance(one, ast.Name) and one.id in functions} - found
        found |= named
        waiting += [functions[name] for name in named]
    return found


def _code(node: Any, text: list[str]) -> Iterator[int]:
    """Numbers of the node's lines that are neither blank nor comment nor docstring."""
    docstring = range(0)
    if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
        first: Any = node.body[0]
        docstring = range(first.lineno, first.end_lineno + 1)
    for number in range(node.lineno, node.end_lineno + 1):
        line = text[number - 1].strip()
        if line and not line.startswith("#") and number not in docstring:
            yield number


def _effort(app: ModuleType) -> list[Row]:
    sequential, plans = lines_of(app)
    name = name_of(app)
    return [
        Row("dgs", f"{name}: sequential code", float(sequential), "lines", better="lower"),
        Row("dgs", f"{name}: fork, join and dependence", float(plans), "lines", better="lower", baseline=float(sequential),
            baseline_name="sequential"),
    ]  # fmt: skip


# -- principles


def tables_of(app: ModuleType, rows: int) -> list[pa.Table]:
    """The application's input, or both of its inputs."""
    data: Any = headrace_datasets
    match name_of(app):
        case "eventwindow" | "pageview" | "modelfraud" as name:
            make = {"eventwindow": data.eventwindow, "pageview": data.pageviews, "modelfraud": data.frauds}[name]
            left = make(n=rows, side="left", every=EVERY).to_arrow()
            right = make(n=rows // EVERY, side="right", every=EVERY).to_arrow()
            return [left.drop_columns("stream") if "stream" in left.column_names else left, right]
        case "keycounter":
            return [data.keycounts(n=rows).to_arrow()]
        case "outlier":
            table = data.connections(n=rows).to_arrow()
            return [table.append_column("row", pa.array(np.arange(table.num_rows)))]
        case _:
            return [data.plugs(n=rows, rate=0.1).to_arrow()]


def results(app: ModuleType, tables: list[pa.Table], streams: int, leaves: int) -> pa.Table:
    """The application's results, with its first input dealt out to `streams` streams."""
    options = {option.name: option.default for option in app.APP.options}
    query = app.APP.build(Deal(streams), *(hr.stream(table, event_time="ts") for table in tables), **options)
    return query.to_arrow(leaves=leaves, threads=min(2, leaves), max_threads=2)


def _is_consistent(app: ModuleType, seed: int) -> bool:
    program = app.PROGRAM if hasattr(app, "PROGRAM") else app.program()
    try:
        program.check(seed, EXAMPLES, UNIQUE.get(name_of(app)))
    except InconsistentProgramError:
        return False
    return True


def _principles(app: ModuleType, tiny: bool) -> list[Row]:
    tables = tables_of(app, ROWS)
    first = results(app, tables, 1, 1)
    assert first.num_rows, f"{name_of(app)}: no results say nothing"
    few = 2 if tiny else None
    trials = {
        "PIP1, results are the same on 1 to 4 leaves": [results(app, tables, 4, n).equals(first) for n in LEAVES[:few]],
        "PIP2, results are the same with 1 to 5 streams": [results(app, tables, n, 2).equals(first) for n in STREAMS[:few]],
        "PIP3, no law is broken": [_is_consistent(app, seed) for seed in range(SEEDS)[:few]],
    }
    return [
        Row("dgs", f"{name_of(app)}: {principle}", float(sum(held)), "trials", goal=1.0, baseline=float(len(held)),
            baseline_name="tried", goal_is_ratio=True, note=_quoted(name_of(app), number))
        for number, (principle, held) in enumerate(trials.items())
    ]  # fmt: skip


def _quoted(name: str, number: int) -> str:
    """Quote what Table 1 says of a principle for an application, if it says anything."""
    if name not in TABLE_1:
        return "not in the paper's Table 1"
    sides = [[system for system, kept in TABLE_1[name].items() if bool(kept[number]) == is_kept] for is_kept in (True, False)]
    said = [f"{word} {', '.join(systems)}" for word, systems in zip(("yes:", "no:"), sides, strict=True) if systems]
    return f"paper's Table 1 {'; '.join(said)}"


__all__ = ["lines_of", "measure", "results", "tables_of"]
