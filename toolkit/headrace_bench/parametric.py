"""The parametric operators of the paper's section 7: matrix work of a given cost, selectivity, size of a tuple, of a state.

A tuple is a vector of integers, each in its own column. An operator multiplies it repeatedly by a matrix, modulo 2**16, and
emits it a number of times; both counts are columns of the rows, so one compiled module serves all costs and selectivities.
A partitioned operator also adds the vector to the state of its key and the whole state to the vector. The sizes of tuple and
state are part of a function's source text, so that text is generated here.
"""

from __future__ import annotations

import functools
import linecache
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.reference import ordering as reference
from headrace_bench.pipelined import Pipelined, check_against

KEYS = 1_000
MIDDLE = 0.3
"""Mean of the keys if they are not uniform, as a share of their range: off the centre."""
TUPLE = 4
"""Default number of elements of a tuple."""
STATE = 4
"""Default number of elements of a key's state."""
CHECKED = 200
"""Rows that the reference checks."""
_PRODUCTS, _TIMES = 1_000, 5
"""When a product is timed: products computed for each row, and twice as many; and the number of runs of each."""
OPERATORS = {
    "map": reference.Map, "flat_map": reference.FlatMap, "filter": reference.Filter, "partitioned": reference.Partitioned,
    "stateful": reference.Stateful,
}  # fmt: skip

_MASK = (1 << 16) - 1

_WORK = """\
    {names} = {columns}
    for _ in range(t.rounds):
        {names} = {products}
"""
_STATELESS = """\
def multiply(t, emit):
{work}    for k in range(t.outputs):
        emit(key=(t.key + k) % {keys}, rounds=t.rounds, outputs=1, {values})
"""
_PARTITIONED = """\
def multiply_by_key(state, t, emit):
{work}    total = 0
    for i in range({state}):
        state.cells[i] = (state.cells[i] + x0) & {mask}
        total += state.cells[i]
    x0 = (x0 + total) & {mask}
    emit(key=t.key, rounds=t.rounds, outputs=1, {values})
"""


def _work(size: int) -> str:
    """Products of a tuple with a matrix of small odd numbers."""
    names = [f"x{i}" for i in range(size)]
    sums = [" + ".join(f"{2 * ((3 * i + 5 * j) % 7) + 1} * {name}" for j, name in enumerate(names)) for i in range(size)]
    products = ", ".join(f"({one}) & {_MASK}" for one in sums)
    return _WORK.format(names=", ".join(names), columns=", ".join(f"t.{name}" for name in names), products=products)


@functools.cache
def function_of(kind: str, size: int = TUPLE, state: int = STATE) -> Callable:
    """Generate the function of a stage.

    Parameters
    ----------
    kind : {"flat_map", "partitioned"}
    size, state : int
        Number of elements of a tuple (at least 2) and of a key's state (at least 1).
    """
    names = [f"x{i}" for i in range(size)]
    text = (_PARTITIONED if kind == "partitioned" else _STATELESS).format(
        work=_work(size), keys=KEYS, state=state, mask=_MASK, values=", ".join(f"{name}={name}" for name in names),
    )  # fmt: skip
    file = f"<{kind}, {size} numbers, {state} of a key>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope)
    return scope["multiply_by_key" if kind == "partitioned" else "multiply"]


def draw_keys(rng: np.random.Generator, n: int, sigma: float) -> np.ndarray:
    """Draw `n` keys from 0 to `KEYS` - 1, int64[n]: around `MIDDLE` with a spread of `sigma`, both as fractions of their range.

    With a sigma of 0 keys are uniform.
    """
    if not sigma:
        return rng.integers(0, KEYS, n)
    return np.floor(rng.normal(MIDDLE, sigma, n) * KEYS).astype(np.int64) % KEYS


def make_rows(
    n: int, rounds: int, selectivity: float = 1.0, size: int = TUPLE, sigma: float = 0.0, seed: int = 7
) -> pa.Table:
    """Draw `n` rows.

    Parameters
    ----------
    n, rounds : int
    selectivity : float
        Mean number of outputs per tuple of the first stage; each row has one of the two nearest integers.
    size : int
        Number of elements of a tuple.
    sigma : float
        As for `draw_keys`.
    seed : int
    """
    rng = np.random.default_rng(seed)
    keys = draw_keys(rng, n, sigma)
    outputs = (np.floor(selectivity) + (rng.random(n) < selectivity % 1)).astype(np.int64)
    numbers = {f"x{i}": rng.integers(0, _MASK + 1, n) for i in range(size)}
    return pa.table({"ts": np.arange(n), "key": keys, "rounds": np.full(n, rounds), "outputs": outputs, **numbers})


@functools.cache
def product_ns(shape: Shape) -> float:
    """The time of one product in the first stage: how much longer the stage takes if rows have twice as many, for each of them.

    So what else a tuple costs does not count: where nearly all keys are new, as here, most tuples of a partitioned stage make
    a state, which takes as long as a hundred products. Of some runs the shortest counts, since other work can only add to it.
    It is measured in a stage, not in a separate loop: the engine's arithmetic checks for overflow, which costs more than the
    product itself.
    """
    tables = [make_rows(CHECKED, rounds, size=shape.size, selectivity=0.0) for rounds in (_PRODUCTS, 2 * _PRODUCTS)]
    once, twice = math.inf, math.inf
    for _ in range(_TIMES):
        once, twice = (
            min(shortest, next(iter(Pipelined(shape.over(table), table, threads=1).run().stage_ns.values())))
            for shortest, table in zip((once, twice), tables, strict=True)
        )
    return max(twice - once, twice / 4) / CHECKED / _PRODUCTS  # on a busy machine, not nothing


def rounds_of(cost_ns: float, shape: Shape) -> int:
    """The number of products that take the given time in a stage."""
    return max(1, round(cost_ns / product_ns(shape))) if cost_ns else 0


@dataclass(frozen=True)
class Shape:
    """What a pipeline of parametric operators is compiled for.

    Parameters
    ----------
    kinds : tuple of str
        Kinds of its stages: "flat_map" or "partitioned".
    size, state : int
        Number of elements of a tuple and of a key's state.
    """

    kinds: tuple[str, ...]
    size: int = TUPLE
    state: int = STATE

    def stages(self) -> list[tuple[str, Callable, dict[str, Any]]]:
        """For each stage: operator, function, and the operator's other arguments."""
        emits = dict.fromkeys(["key", "rounds", "outputs", *(f"x{i}" for i in range(self.size))], "int64")
        keeps = {"by": "key", "state": {"cells": hr.array("int64", self.state)}}
        return [
            (kind, function_of(kind, self.size, self.state), {"emits": emits} | (keeps if kind == "partitioned" else {}))
            for kind in self.kinds
        ]

    def over(self, rows: pa.Table, **given: Any) -> hr.Stream:
        """The pipeline over rows; `given` are arguments of its partitioned stages, such as `buckets`."""
        stream: Any = hr.stream(rows, event_time="ts").ordered()
        for kind, function, arguments in self.stages():
            stream = getattr(stream, kind)(function, **arguments, **(given if kind == "partitioned" else {}))
        return stream

    def expected(self, rows: pa.Table) -> list[dict[str, Any]]:
        """The reference's results."""
        stages = [OPERATORS[kind](function, **arguments) for kind, function, arguments in self.stages()]
        return reference.ordered([[(row.pop("ts"), row) for row in rows.to_pylist()]], stages)

    def check(self, **rows: Any) -> None:
        """Compare the results of two workers for some rows with the reference, bit by bit."""
        table = make_rows(CHECKED, 2, size=self.size, **rows)
        found = Pipelined(self.over(table), table, threads=2).run().columns
        check_against(self.expected(table), self.over(table).schema, found, "parametric operators")


class Case:
    """Rows, and runs over them, all of which must give the same results.

    Parameters
    ----------
    shape : Shape
    table : pa.Table
        As `make_rows` draws them.
    **given
        Arguments of the partitioned stages; these may differ between runs.
    """

    def __init__(self, shape: Shape, table: pa.Table, **given: Any):
        self.shape, self.table, self._given, self.content = shape, table, given, ""
        self._streams: dict[tuple, Any] = {}

    def run(self, given: dict[str, Any] | None = None, **options: Any) -> Pipelined:
        """Run all rows through; `given` replaces the arguments of the partitioned stages."""
        arguments = self._given if given is None else given
        place = tuple(sorted((name, str(value)) for name, value in arguments.items()))
        if place not in self._streams:
            self._streams[place] = self.shape.over(self.table, **arguments)
        run = Pipelined(self._streams[place], self.table, **options).run()
        self.content = self.content or run.content
        assert run.content == self.content, f"{self.shape.kinds}, {arguments}, {options}: not what came of the first run"
        return run


__all__ = ["Case", "Shape", "draw_keys", "function_of", "make_rows", "product_ns", "rounds_of"]
