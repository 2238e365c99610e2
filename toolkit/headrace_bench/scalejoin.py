"""ScaleJoin written ad hoc, for any number of threads, as a baseline for the engine's join.

Sources, gate and waiting are the engine's, comparisons those of 1T (`join_kernel`); the rest of an operator is left out.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.gates import gate_modules
from headrace.kernel import compile_now
from headrace.memory.cells import aligned, publish_cell, read_cells
from headrace_bench.feeding_kernel import feed, feed_paced, feed_when_due
from headrace_bench.join import MOST_WAITS, late_waits, pairs_in
from headrace_bench.scalejoin_kernel import COMPARED, NOTED, join_share

CAPACITY = 1 << 14
BATCH = 128
TIMEOUT_S = 120.0
START_NS = 50_000_000
"""Time until sources with a given pace begin: by then all threads have started."""


def run(columns: Sequence[np.ndarray], size: int, first: int, threads: int) -> tuple[float, int, int]:
    """Join both sides from tuple `first` of each on; the tuples before it are stored beforehand.

    Parameters
    ----------
    columns : sequence of arrays
        As by `join.columns_of`.
    size, first : int
        As for `join_kernel.join_loop`.
    threads : int

    Returns
    -------
    seconds, pairs, digest
        The last two as by `join.plain_pairs`.
    """
    spins = 200 if threads + 2 <= (os.cpu_count() or 1) else 0
    seconds, out, _, _ = _run(columns, size, first, threads, spins, (feed, (first, BATCH, spins)))
    return seconds, *pairs_in(out)


def waits(
    columns: Sequence[np.ndarray], size: int, first: int, threads: int, per_second: int
) -> tuple[np.ndarray, tuple[int, int]]:
    """Join as `run`, at a steady rate of each side, and measure the latency of pairs from the later tuple's arrival.

    Returns
    -------
    int64[n]
        Nanoseconds, of the later half of the pairs.
    (int, int)
        Pairs and digest.
    """
    begin = np.zeros(1, np.int64)
    lasts_s = (len(columns[0]) - first) / per_second
    _, out, noted, _ = _run(columns, size, first, threads, 0, (feed_paced, (first, per_second, begin)), begin, lasts_s)
    return late_waits(noted), pairs_in(out)


@dataclass(frozen=True)
class Played:
    """What a run over a live stream was like. Seconds are since its first tuple.

    Parameters
    ----------
    due_s, latency_ms : float64[n]
        For each pair: when its later tuple was due, and how long after that it had been compared.
    seen_s : float64[k]
        When the comparisons were counted.
    compared : int64[k]
        How many all threads had made by then.
    pairs : (int, int)
        Pairs and digest.
    """

    due_s: np.ndarray
    latency_ms: np.ndarray
    seen_s: np.ndarray
    compared: np.ndarray
    pairs: tuple[int, int]


def played(columns: Sequence[np.ndarray], size: int, threads: int, every_s: float = 0.1) -> Played:
    """Join both sides, with each tuple fed at its event time, in microseconds from the start.

    Parameters
    ----------
    columns, size, threads
        As for `run`.
    every_s : float
        Time between two counts of the comparisons.
    """
    begin = np.zeros(1, np.int64)
    lasts_s = max(int(times[-1]) for times in (columns[0], columns[3])) / 1e6
    _, out, noted, seen = _run(columns, size, 0, threads, 0, (feed_when_due, (0, begin)), begin, lasts_s, every_s)
    noted = noted[np.argsort(noted[:, 0], kind="stable")]
    due_ns = noted[:, 0] * 1_000
    latency_ms = (noted[:, 2] - begin[0] - due_ns) / 1e6
    return Played(due_ns / 1e9, latency_ms, (seen[:, 0] - begin[0]) / 1e9, seen[:, 1], pairs_in(out))


def _run(
    columns: Sequence[np.ndarray],
    size: int,
    first: int,
    threads: int,
    spins: int,
    way: tuple[Callable[..., Any], tuple[Any, ...]],
    begin: np.ndarray | None = None,
    lasts_s: float = 0.0,
    every_s: float = TIMEOUT_S,
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Seconds, the sum of all threads' `out`, what the threads noted, and int64[k, 2]: times and comparisons made by then.

    Parameters
    ----------
    way : (function, arguments)
        How each side is fed: the loop, and its arguments after the gate, the source and its times.
    begin : int64[1], optional
        Written once all is compiled: when tuples begin to come. If given, the latency of pairs is noted.
    lasts_s : float
        For how long tuples come.
    every_s : float
        Time between two counts of the comparisons.
    """
    handle, kernels = gate_modules("log")
    g = handle.allocate(2, threads, CAPACITY)
    for reader in range(threads):
        kernels.join_reader(g, reader, 0, 1)
    stop, out = np.zeros(16, np.int64), np.zeros((threads, 16), np.int64)
    room = -(-len(columns[0]) // threads)
    kept = [np.zeros((0 if begin is None else MOST_WAITS // threads, 3), np.int64) for _ in range(threads)]
    calls = [(way[0], (g, source, columns[3 * source][first:], *way[1], stop, True)) for source in (0, 1)]
    for me in range(threads):
        own = [aligned(room, column.dtype) for column in columns]
        for mine, column in zip(own, columns, strict=True):
            stored = column[me:first:threads]
            mine[: len(stored)] = stored
        calls.append((join_share, (g, me, threads, *columns, *own, size, first, spins, out[me], kept[me], stop)))
    for function, arguments in calls:
        compile_now(function, arguments)
    if begin is not None:
        begin[0] = time.monotonic_ns() + START_NS
    workers = [threading.Thread(target=function, args=arguments, daemon=True) for function, arguments in calls]
    count = lambda: (time.monotonic_ns(), int(read_cells(out, 1)[:, COMPARED].sum()))  # noqa: E731
    seen = [count()]
    begun = time.perf_counter()
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            while worker.is_alive():
                left_s = begun + lasts_s + TIMEOUT_S - time.perf_counter()
                if left_s <= 0:
                    raise RuntimeError(f"ScaleJoin on {threads} threads did not end within {TIMEOUT_S:g} s")
                worker.join(min(left_s, every_s))
                seen.append(count())
        seconds = time.perf_counter() - begun
        seen[max(1, len(seen) - 1) :] = [count()]  # the latest may have been taken just before the last comparisons
    finally:
        publish_cell(stop, 0, 1)
    written = [mine[: int(one[NOTED])] for mine, one in zip(kept, out, strict=True)]
    return seconds, out.sum(axis=0), np.concatenate(written), np.array(seen, np.int64)
