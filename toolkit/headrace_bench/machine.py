"""What this machine can do at all: two cores beside one, and a cache line from one to the other: `headrace bench machine`.

Where threads work on what is in the caches of each other, a line that another one has just written takes as long as it takes
here, in one direction; the engines' figures with two threads cannot be understood without it. It differs by a factor of five
and more between machines, and on one of several cores by which two run the threads: on a virtual machine from one second to
the next. So it is looked at many times, and its percentiles are told.
"""

from __future__ import annotations

import math
import threading
import time

import numpy as np

from headrace.cores import usable_cores
from headrace.memory.cells import padded_cells
from headrace_bench.machine_kernel import arithmetic, hand_over
from headrace_bench.rows import Row, median

STEPS = 20_000_000
WARM, HAND_OVERS = 100, 10_000
MOST_NS = 1_000_000_000
"""Of a look: after that, some other work had one of the cores."""
LOOKS = 60
EVERY_S = 0.05
"""Between two looks."""
PERCENTILES = (10, 50, 90)


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Times that two threads do what one does, and nanoseconds of a cache line's way."""
    steps, repetitions, looks = (1_000, 1, 1) if tiny else (STEPS, 11 if full else 5, LOOKS * 4 if full else LOOKS)
    rows = [Row("machine", "arithmetic in registers, two threads beside one", _scaling(steps, repetitions), "times")]
    for percentile, ns in zip(PERCENTILES, hand_over_ns(looks, 0.0 if tiny else EVERY_S), strict=True):
        rows.append(Row("machine", f"a cache line from core to core, percentile {percentile}", ns, "ns", "lower"))
    return rows


def _scaling(steps: int, repetitions: int) -> float:
    arithmetic(1, np.uint64(1))  # compiles

    def seconds(threads: int) -> float:
        workers = [threading.Thread(target=arithmetic, args=(steps, np.uint64(7))) for _ in range(threads)]
        begin = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return time.perf_counter() - begin

    return median([2 * seconds(1) / seconds(2) for _ in range(repetitions)])


def hand_over_ns(looks: int = LOOKS, every_s: float = EVERY_S) -> tuple[float, ...]:
    """Percentiles `PERCENTILES` of what a cache line takes from one core to another, in nanoseconds.

    Each look is the mean of so many in a row, between threads that do not sleep; NaN where there is one core only, or none of
    them got so far before its time was over.
    """
    found = [_hand_over_ns() for _ in range(looks) if not time.sleep(every_s)] if usable_cores() > 1 else []
    known = [each for each in found if not math.isnan(each)]
    return tuple(float(each) for each in np.percentile(known or [math.nan], PERCENTILES))


def _hand_over_ns() -> float:
    words, until = padded_cells(3), time.monotonic_ns() + MOST_NS
    other = threading.Thread(target=hand_over, args=(words, 0, WARM + HAND_OVERS, 1, until), daemon=True)
    other.start()
    hand_over(words, 0, WARM, 0, until)  # until both are there
    begin = time.perf_counter()
    turns = hand_over(words, WARM, WARM + HAND_OVERS, 0, until)
    seconds = time.perf_counter() - begin
    other.join()
    return 1e9 * seconds / (2 * turns) if turns == HAND_OVERS else math.nan


__all__ = ["PERCENTILES", "hand_over_ns", "measure"]
