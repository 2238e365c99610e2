"""The pipeline that `bench ordered` measures: stateless, partitioned, a filter that drops half, stateful.

A tuple takes eight units of work, or seven if it is dropped: two in the first stage, four in the second, one in each of the
others. So the stateful stage, the only one that one worker at a time runs, has a fifteenth of the work. A unit is a number of
dependent steps (`costly`), which is a column of the rows, so one compiled module serves all costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace_bench import ordered_kernel
from headrace_bench.costly import worked
from headrace_bench.executed import hash_of
from headrace_bench.ordered_kernel import TOTALS_EVERY
from headrace_bench.parametric import KEYS, draw_keys
from headrace_bench.pipelined import Pipelined
from headrace_bench.transacting import rounds_of

UNITS = 7.5
"""Mean units of work of a tuple."""


def mix(t, emit):
    emit(key=t.key, v=worked(t.v, 2 * t.rounds), rounds=t.rounds)


def by_key(state, t, emit):
    v = worked(t.v, 4 * t.rounds)
    state.n += v & 7
    emit(v=v ^ state.n, rounds=t.rounds)


def half(t):
    return worked(t.v, t.rounds) & 1 == 0


def total(state, t, emit):
    state.seen += 1
    state.total += worked(t.v, t.rounds)
    if state.seen % TOTALS_EVERY == 0:
        emit(seen=state.seen, total=state.total)


STAGES: tuple[tuple[str, Callable, dict[str, Any]], ...] = (
    ("map", mix, {"emits": {"key": "int64", "v": "int64", "rounds": "int64"}}),
    ("partitioned", by_key, {"by": "key", "state": {"n": "int64"}, "emits": {"v": "int64", "rounds": "int64"}}),
    ("filter", half, {}),
    ("stateful", total, {"state": {"seen": "int64", "total": "int64"}, "emits": {"seen": "int64", "total": "int64"}}),
)
"""Operator, function, other arguments; operators of `headrace.Stream` and of `headrace.reference.ordering`, named alike."""


def pipeline_of(rows: pa.Table) -> hr.Stream:
    """The pipeline of `STAGES` over rows."""
    stream: Any = hr.stream(rows, event_time="ts").ordered()
    for operator, function, given in STAGES:
        stream = getattr(stream, operator)(function, **given)
    return stream


def make_rows(n: int, rounds: int, sigma: float = 0.0, seed: int = 7) -> pa.Table:
    """Draw `n` rows: ts, key, v, rounds.

    Parameters
    ----------
    n, rounds : int
    sigma : float
        As for `parametric.draw_keys`.
    seed : int
    """
    rng = np.random.default_rng(seed)
    return pa.table({
        "ts": np.arange(n), "key": draw_keys(rng, n, sigma), "v": rng.integers(0, 1 << 32, n),
        "rounds": np.full(n, rounds, np.int64),
    })  # fmt: skip


class Case:
    """Rows at one cost, and runs over them.

    Parameters
    ----------
    n : int
    cost_ns : int
        Time of a tuple's steps over all stages.
    sigma : float
        As for `make_rows`.
    """

    def __init__(self, n: int, cost_ns: int, sigma: float = 0.0):
        self.rounds = round(rounds_of(cost_ns) / UNITS)
        self.table = make_rows(n, self.rounds, sigma)
        self._stream = pipeline_of(self.table)
        _, self.content = self.by_hand()

    def by_hand(self) -> tuple[float, str]:
        """Run the hand-written loop: seconds, and the hash of its results."""
        ts, keys, values = (self.table[name].to_numpy() for name in ("ts", "key", "v"))
        of_key, out = np.zeros(KEYS, np.int64), [np.zeros(len(ts) // TOTALS_EVERY + 1, np.int64) for _ in range(3)]
        begin = time.perf_counter()
        results = ordered_kernel.four_stages(ts, keys, values, self.rounds, of_key, *out)
        seconds = time.perf_counter() - begin
        return seconds, hash_of([np.arange(results), *(column[:results] for column in out)], [])

    def run(self, **options: Any) -> Pipelined:
        """Run all rows through, and check that the results are those of the loop."""
        run = Pipelined(self._stream, self.table, **options).run()
        assert run.content == self.content, f"ordered, {options}: not what the hand-written loop made"
        return run


__all__ = ["STAGES", "Case", "make_rows", "pipeline_of"]
