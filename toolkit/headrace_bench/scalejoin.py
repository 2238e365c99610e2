"""ScaleJoin written ad hoc, of any number of threads, to stand beside the engine's join.

Sources, gate and waits are the engine's, comparisons those of 1T (`join_kernel`); the rest of an operator is left out.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence

import numpy as np

from headrace.gates import gate_modules
from headrace.kernel import compile_now
from headrace.memory.cells import aligned, publish_cell
from headrace_bench.feeding_kernel import feed
from headrace_bench.join_kernel import COUNT, REFERENCES
from headrace_bench.scalejoin_kernel import join_share

CAPACITY = 1 << 14
BATCH = 128
TIMEOUT_S = 120.0


def run(columns: Sequence[np.ndarray], size: int, first: int, threads: int) -> tuple[float, int, int]:
    """Join both sides from tuple `first` of each on, those before it being stored.

    Parameters
    ----------
    columns : sequence of arrays
        Of `join.columns_of`.
    size, first : int
        As of `join_kernel.join_loop`.
    threads : int

    Returns
    -------
    seconds, pairs, digest
        The last two as of `join.plain_pairs`.
    """
    handle, kernels = gate_modules("log")
    g = handle.allocate(2, threads, CAPACITY)
    for reader in range(threads):
        kernels.join_reader(g, reader, 0, 1)
    stop, out = np.zeros(16, np.int64), np.zeros((threads, 16), np.int64)
    spins = 200 if threads + 2 <= (os.cpu_count() or 1) else 0
    room = -(-len(columns[0]) // threads)
    calls = [(feed, (g, source, columns[3 * source][first:], first, BATCH, spins, stop, True)) for source in (0, 1)]
    for me in range(threads):
        own = [aligned(room, column.dtype) for column in columns]
        for kept, column in zip(own, columns, strict=True):
            stored = column[me:first:threads]
            kept[: len(stored)] = stored
        calls.append((join_share, (g, me, threads, *columns, *own, size, first, spins, out[me], stop)))
    for function, arguments in calls:
        compile_now(function, arguments)
    workers = [threading.Thread(target=function, args=arguments, daemon=True) for function, arguments in calls]
    begin = time.perf_counter()
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(max(0.0, begin + TIMEOUT_S - time.perf_counter()))
        seconds = time.perf_counter() - begin
        if any(worker.is_alive() for worker in workers):
            raise RuntimeError(f"ScaleJoin on {threads} threads did not end within {TIMEOUT_S:g} s")
    finally:
        publish_cell(stop, 0, 1)
    total = out.sum(axis=0)
    return seconds, int(total[COUNT]), int(total[REFERENCES]) & (2**64 - 1)
