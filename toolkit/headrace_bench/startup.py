"""How long a user waits until the first tuple moves: import, start and compilation, each in a fresh process.

An operator's shape is new when the machine code of its generated module is not
cached: processes that measure a new shape get an XDG_CACHE_HOME with all machine code but
that of generated modules. The kernels that are part of headrace are compiled once per machine; the
last row is the cost of the very first run, when these are not compiled either.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import headrace
from headrace_bench.rows import Row, median

SCRIPT = """
import json, sys, time
begin = time.perf_counter()
import headrace as hr
imported = time.perf_counter() - begin
import pyarrow as pa
if sys.argv[1] == "aggregate":
    table = pa.table({"ts": [1, 2, 61], "k": ["a", "a", "b"], "v": [1, 2, 3]})
    stream = hr.stream(table, event_time="ts").key_by("k").window(60).aggregate(n=hr.count(), v=hr.max("v"))
    rows = 2
else:
    x = pa.array([1, 12, 50], pa.int32())
    left, right = pa.table({"ts": [1, 2, 3], "x": x}), pa.table({"ts": [1, 2, 3], "a": x})
    stream = hr.stream(left, event_time="ts").join(
        hr.stream(right, event_time="ts"), within=60, where=hr.band("x", "a", 10))
    rows = 3
begin = time.perf_counter()
with stream.start(threads=2) as run:
    started = time.perf_counter() - begin
    run.wait()
    assert run.to_arrow().num_rows == rows
print(json.dumps({"import": imported, "start": started, "result": time.perf_counter() - begin}))
"""


def run_once(shape: str, **environment: str) -> dict[str, float]:
    """Run a small query in a new process. Returns the seconds of import, start and result."""
    rooms = os.pathsep.join([str(Path(headrace.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    completed = subprocess.run(
        [sys.executable, "-c", SCRIPT, shape],
        env={**os.environ, "PYTHONPATH": rooms, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if completed.returncode:
        raise RuntimeError(f"the process that starts a query failed: {completed.stderr.strip()[-2000:]}")
    return json.loads(completed.stdout.splitlines()[-1])


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Seconds of import, of the start of a cached and of a new shape, and of the very first run."""
    repetitions, fewer = (9, 9) if full else (3, 2)
    shapes = ("aggregate", "join")
    compiler = {}
    if tiny:
        repetitions, fewer, shapes = 1, 1, ("aggregate",)
        compiler = {"NUMBA_DISABLE_JIT": "1"}
    rows, imports = [], []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for shape in shapes:
            warm = {"XDG_CACHE_HOME": f"{folder}/warm", **compiler}
            run_once(shape, **warm)  # headrace's own kernels are compiled from here on
            new = []
            for i in range(fewer):
                without = f"{folder}/{shape}-{i}"
                shutil.copytree(warm["XDG_CACHE_HOME"], without, ignore=shutil.ignore_patterns("op_*"))
                new.append(run_once(shape, **{**warm, "XDG_CACHE_HOME": without}))
            cached = [run_once(shape, **warm) for _ in range(repetitions)]
            imports += [times["import"] for times in cached]
            for label, times, goal in (("cached", cached, 0.2), ("new", new, 3.0)):
                value = median([t["start"] for t in times])
                rows.append(Row("startup", f"start, {shape}, {label} shape", value, "s", "lower", goal))
            value = median([t["result"] for t in cached])
            rows.append(Row("startup", f"start to result, {shape}, cached shape", value, "s", "lower"))
        rows.insert(0, Row("startup", "import headrace", median(imports), "s", "lower", 0.6))
        if not tiny:
            first = run_once("aggregate", XDG_CACHE_HOME=f"{folder}/empty")
            rows.append(
                Row("startup", "start to result, first run after installation", first["result"], "s", "lower")
            )
    return rows
