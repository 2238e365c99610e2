"""What this machine can do: two cores beside one, and the transfer of a cache line between them: `headrace bench machine`.

Two figures are measured: the one-way time of a cache line that another core has just written, which threads that share data
pay; and the speedup of two threads that share nothing, which no two threads of an engine can exceed. The engines' figures
cannot be understood without both. Both differ between machines and, on a virtual one, from one second to the next. Its
processors may be two threads of one core (a line then takes 16 ns, and two threads do 1.1 to 1.3 times what one does), two
cores near each other (25 to 35 ns) or far from each other (200 ns and more), and other virtual machines use these cores, too. So
both are measured many times, and percentiles are reported.

On the machine of the kept figures a line took 25 ns for half a minute, then 185 ns for as long, and so on: the host moved one of
the processors to a core with another cache. What shares no data did not slow down, nor did one thread; but two workers of the
pipeline `sold_together` did 1.7 times what one did, and 0.6 times. Therefore benchmarks of threads that share data wait until
cores are near (`Patience`).
"""

from __future__ import annotations

import math
import threading
import time
from typing import NamedTuple

import numpy as np

from headrace.cores import usable_cores
from headrace.memory.cells import padded_cells
from headrace_bench.machine_kernel import arithmetic, pass_word
from headrace_bench.rows import Row

STEPS = 4_000_000
WARM, TURNS = 100, 10_000
MOST_NS = 1_000_000_000
"""Longest measurement of a cache line: if it takes longer, other work had one of the cores."""
LOOKS = 40
EVERY_S = 0.05
"""Time between two measurements."""
PERCENTILES = (10, 50, 90)
NEAR_NS = 60.0
"""A cache line between near cores takes less."""
PATIENCE_S = 600.0
"""How long a process waits in all until cores are near: as long as `bench ordered` runs, since they may be far for half of it."""

_LOOK_S = 0.25


class Machine(NamedTuple):
    """The measurements, as their percentiles `PERCENTILES`.

    Parameters
    ----------
    two_threads : tuple of float
        How many times as much arithmetic two threads do as one.
    line_ns : tuple of float
        Nanoseconds of a cache line from one core to another: the mean over a series of transfers between threads that do not
        sleep. NaN if there is only one core, or no series was completed in its time.
    """

    two_threads: tuple[float, ...]
    line_ns: tuple[float, ...]


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """How many times as much two threads do as one, and nanoseconds of a cache line's transfer."""
    seen = look(1, 1_000, 0.0) if tiny else look(LOOKS * 4 if full else LOOKS)
    rows = []
    for percentile, times in zip(PERCENTILES, seen.two_threads, strict=True):
        case = f"arithmetic, 2 threads over 1, percentile {percentile}"
        rows.append(Row("machine", case, times, "x"))
    for percentile, ns in zip(PERCENTILES, seen.line_ns, strict=True):
        rows.append(Row("machine", f"transfer of a cache line between cores, percentile {percentile}", ns, "ns", "lower"))
    return rows


def look(looks: int = LOOKS, steps: int = STEPS, every_s: float = EVERY_S) -> Machine:
    """Measure both in turns, `looks` times."""
    arithmetic(1, np.uint64(1))  # compiles
    pass_word(padded_cells(3), 0, 0, 0, 0)
    times, lines = [], []
    for _ in range(looks):
        times.append(2 * _seconds(1, steps) / _seconds(2, steps))
        if usable_cores() > 1:
            lines.append(line_ns())
        time.sleep(every_s)
    return Machine(_percentiles(times), _percentiles([each for each in lines if not math.isnan(each)]))


class Patience:
    """Waits until cores are near each other, but in all only so long.

    Parameters
    ----------
    seconds : float
    """

    def __init__(self, seconds: float = PATIENCE_S):
        self.left_s = seconds

    def await_near(self, threads: int = 2) -> float:
        """Return nanoseconds of a cache line between the cores when they are near, or when patience is at an end.

        At once, and NaN, for a measurement on one thread.
        """
        while True:
            found = line_ns() if min(threads, usable_cores()) > 1 else math.nan
            if self.left_s <= 0 or not found >= NEAR_NS:
                return found
            time.sleep(_LOOK_S)
            self.left_s -= _LOOK_S


_PATIENCE = Patience()


def patience_for(repetitions: int) -> Patience:
    """The patience of this process; none where nothing is repeated, as in tests."""
    return _PATIENCE if repetitions > 1 else Patience(0.0)


def _percentiles(values: list[float]) -> tuple[float, ...]:
    return tuple(float(each) for each in np.percentile(values or [math.nan], PERCENTILES))


def _seconds(threads: int, steps: int) -> float:
    workers = [threading.Thread(target=arithmetic, args=(steps, np.uint64(7)), daemon=True) for _ in range(threads)]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - begin


def line_ns() -> float:
    """Nanoseconds of a cache line from one core to another: the mean over a series of transfers."""
    words, until = padded_cells(3), time.monotonic_ns() + MOST_NS
    other = threading.Thread(target=pass_word, args=(words, 0, WARM + TURNS, 1, until), daemon=True)
    other.start()
    pass_word(words, 0, WARM, 0, until)  # until both threads are running
    begin = time.perf_counter()
    turns = pass_word(words, WARM, WARM + TURNS, 0, until)
    seconds = time.perf_counter() - begin
    other.join()
    return 1e9 * seconds / (2 * turns) if turns == TURNS else math.nan


__all__ = ["PERCENTILES", "Machine", "Patience", "line_ns", "look", "measure", "patience_for"]
