"""Page views and frauds with threads that synchronize by hand: a part of `headrace bench dgs` (Figure 6).

The paper synchronizes a plan's instances by hand, in Flink, and gives up the separation of a program from its plan: each thread
knows how many threads there are, which events are its own, and before which of them it has to synchronize with the others. Here
each thread is one compiled loop over presorted events, without mailboxes or ingress, and results have no order.

By hand, the threads of page views synchronize for each update, whatever its page, because each thread's stream has views of all
pages. The plans of `dgs_apps` avoid this: an update depends only on views of its own page, so each of two leaves has one page,
with its views from all streams, and they never synchronize. The version by hand pays a synchronization for every 10,000 views;
the planned one pays for dealing rows out by page.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np

from headrace.memory.atomics import CELL
from headrace_bench.dgs_by_hand_kernel import SUMS, frauds_by_hand, joined_by_hand

LOOPS = {"page views": (joined_by_hand, "page", "user", "info"), "frauds": (frauds_by_hand, "value", "value", "value")}


Columns = dict[str, np.ndarray]


def run(name: str, parts: list[Columns], rare: Columns, rounds: int) -> tuple[float, list[np.ndarray]]:
    """Run threads, each over its own events, that synchronize at the rare ones.

    Returns
    -------
    float
        Seconds.
    list of ndarray
        Results by column, one thread after another.
    """
    loop, first, second, what = LOOPS[name]
    threads = len(parts)
    words = np.zeros(SUMS + threads * CELL, np.int64)
    info = np.zeros(1024, np.int64)
    outs = [np.zeros((3, len(part["ts"]) + len(rare["ts"])), np.int64) for part in parts]
    ends = [np.searchsorted(part["ts"], rare["ts"], side="right") for part in parts]

    def work(me: int) -> int:
        part = parts[me]
        return loop(
            me, threads, words, ends[me], part[first], part[second], rare[first], rare[what], info, rounds, outs[me]
        )  # fmt: skip

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(abs, range(threads)))  # starts the threads
        begin = perf_counter()
        counts = list(pool.map(work, range(threads)))
        seconds = perf_counter() - begin
    return seconds, list(np.concatenate([out[:, :count] for out, count in zip(outs, counts, strict=True)], axis=1))


__all__ = ["run"]
