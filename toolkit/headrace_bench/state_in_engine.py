"""The cost of an operation on a container within a custom operator of a run, compared with Numba's containers and Python's.

Each tuple performs the operation `EACH` times. In turns with it, an operator that only adds up numbers runs over the same
tuples. The difference is the cost of the operations; everything else (reading, windows, the call) is in both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numba import typed, types

import headrace as hr
from headrace_bench import state_kernel as loops
from headrace_bench.rows import Row, median, repeated

KEYS, EACH, STEP = 1_000, 50, 37


def counts(state, t):
    if t.x < 0:
        for k in range(KEYS):
            state.held[k] = 0
    else:
        for i in range(EACH):
            state.held[(t.x + i * STEP) % KEYS] += 1


def adds(state, t):
    for i in range(EACH):
        state.held.add((t.x + i * STEP) % KEYS)


def appends(state, t):
    state.held.clear()
    for i in range(EACH):
        state.held.append((t.x + i * STEP) % KEYS)


def sums(state, t):
    for i in range(EACH):
        state.n += (t.x + i * STEP) % KEYS


def gives(key, state, emit):
    emit(n=len(state.held))


def gives_sum(key, state, emit):
    emit(n=state.n)


@dataclass
class Case:
    """One operation within an operator, and with Numba's and Python's containers, over the same keys."""

    name: str
    goal: float
    kind: Any
    update: Callable
    typed: Callable[[np.ndarray], int]
    python: Callable[[list[int]], int]
    typed_name: str


def _counted(keys: list[int]) -> int:
    held = dict.fromkeys(range(KEYS), 0)
    for key in keys:
        held[key] += 1
    return len(held)


def _added(keys: list[int]) -> int:
    held = set()
    for key in keys:
        held.add(key)
    return len(held)


def _appended(keys: list[int]) -> int:
    held: list[int] = []
    for i, key in enumerate(keys):
        if i % EACH == 0:
            held.clear()
        held.append(key)
    return len(held)


def _appended_typed(keys: np.ndarray) -> int:
    times = keys.size // EACH
    return loops.append_typed(typed.List.empty_list(types.int64), keys[:EACH], times) // times


CASES = [
    Case(
        f"d[k] += 1, {KEYS:,} int keys", 15.0, hr.map_of("int64", "int64"), counts,
        lambda keys: loops.count_typed(typed.Dict.empty(types.int64, types.int64), keys, 1), _counted, "typed.Dict",
    ),
    Case(
        f"set.add, {KEYS:,} ints", 12.0, hr.set_of("int64"), adds,
        lambda keys: loops.add_set(keys, 1), _added, "Numba's set",
    ),
    Case(
        f"append, {EACH} to an empty list", 3.0, hr.list_of("int64"), appends,
        _appended_typed, _appended, "typed.List",
    ),
]  # fmt: skip


def _query(rows: int, kind: Any, update: Callable, output: Callable) -> Any:
    state = {"n": "int64"} if kind is None else {"held": kind}
    xs = np.arange(rows, dtype=np.int64)
    xs[0] = -1
    table = pa.table({"ts": np.arange(rows), "x": xs})
    operator = hr.operator(state=state, emits={"n": "int64"}, update=update, output=output)
    return hr.stream(table, event_time="ts").window(1 << 40).apply(operator)


def _seconds(query: Any) -> tuple[float, int]:
    begin = time.perf_counter()
    (n,) = query.to_arrow(threads=1).column("n").to_pylist()
    return time.perf_counter() - begin, n


def _measured(case: Case, rows: int, repetitions: int) -> Row:
    ours, plain = _query(rows, case.kind, case.update, gives), _query(rows, None, sums, gives_sum)
    keys = (np.arange(1, rows)[:, None] + np.arange(EACH) * STEP).reshape(-1) % KEYS
    some = keys[: 2_000 * EACH].tolist()
    with_it, without, beside, interpreted = [], [], [], []
    for counts in repeated(repetitions):
        took, n = _seconds(ours)
        spared, _ = _seconds(plain)
        begin = time.perf_counter()
        same = case.typed(keys)
        middle = time.perf_counter()
        assert case.python(some) == same == n, (case.name, n, same)
        end = time.perf_counter()
        if counts:
            with_it.append(took)
            without.append(spared)
            beside.append((middle - begin) / keys.size)
            interpreted.append((end - middle) / len(some))
    differences = [(a - b) / keys.size * 1e9 for a, b in zip(with_it, without, strict=True)]
    return Row(
        "state", f"in a run: {case.name}", max(median(differences), 0.0), "ns", "lower", case.goal,
        baseline=median(beside) * 1e9, baseline_name=case.typed_name, note=f"Python {median(interpreted) * 1e9:.3g} ns",
    )  # fmt: skip


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Nanoseconds of one operation within a run on one thread."""
    rows, repetitions = (2_100, 1) if tiny else (400_000, 21 if full else 7)
    return [_measured(case, rows, repetitions) for case in CASES]
