"""The command line, called in this process or as one of its own, in a folder with inputs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace import cli
from headrace.apps.asked import Asked
from headrace.apps.engines import ENGINES

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "headrace.cli"]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(str(ROOT / room) for room in ("toolkit", "datasets", "widgets")),
}


def words(rows: int) -> pa.Table:
    return pa.table({"ts": list(range(0, rows * 1000, 1000)), "text": [f"a w{i % 7} #t{i % 3}" for i in range(rows)]})


def left_behind(folder: str | Path) -> list[str]:
    """Names in the folder that are not inputs, hidden ones too."""
    return sorted(set(os.listdir(folder)) - {"words.parquet", "in.parquet", "right.parquet"})


def asked(app: str, out: str, **given: Any) -> Asked:
    """A request as parsed, with engines' flags by their names."""
    names = {flag.name for engine in ENGINES.values() for flag in engine.flags}
    flags = {name: given.pop(name) for name in names & set(given)}
    return Asked(app, out, flags=flags, **given)


def run(*arguments: object) -> int:
    """``headrace run`` in this process; returns the status."""
    return cli.main(["run", *map(str, arguments)])


def start(*arguments: object, **options: Any) -> subprocess.Popen:
    """Start the command in a process of its own."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)], env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    )
