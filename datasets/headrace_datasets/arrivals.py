"""When rows arrive: rates that change from slot to slot, and event times drawn from them.

Arrivals at a changing rate are arrivals at rate one on a stretched clock. The expected number of arrivals up
to time t grows with t; a process of rate one is drawn (which is cheap, for any number of rows at once) and
mapped to times through the inverse of that function. So each block has exactly the rows asked for, and they
come out sorted.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


def autoregressive(innovations: NDArray[np.float64], decay: float, previous: float) -> NDArray[np.float64]:
    """Return ``x[t] = decay * x[t-1] + innovations[t]``, with ``x[-1] = previous``."""
    # a plain loop: it takes one step per second or minute of the stream, which has hundreds of rows in that time
    steps = itertools.accumulate(innovations.tolist(), lambda x, e: decay * x + e, initial=previous)
    return np.fromiter(steps, np.float64, len(innovations) + 1)[1:]


class Clock:
    """Turns unit arrivals into times, for a rate that is constant within each slot.

    Parameters
    ----------
    expected : iterator of float64[k]
        Expected arrivals in each slot, all above zero, some slots at a time, without end. Read as time goes
        on.
    slot_s : float
        The length of a slot in seconds.
    """

    def __init__(self, expected: Iterator[NDArray[np.float64]], slot_s: float) -> None:
        self._expected = expected
        self._slot_s = slot_s
        self._slot_count = 0  # slots asked for so far
        self._arrived = 0.0  # unit time at the last arrival
        self._edges_s: NDArray[np.floating] = np.zeros(
            1
        )  # slot boundaries, from the one at or before the last arrival on
        self._growth: NDArray[np.floating] = np.zeros(1)  # expected arrivals up to each boundary

    def after(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the times of the next arrivals, in seconds since the start, non-decreasing.

        Parameters
        ----------
        gaps : float64[n]
            Gaps of the unit process, with mean one, at least zero.
        """
        at = np.cumsum(gaps)
        at += self._arrived
        if not len(at):
            return at
        while self._growth[-1] <= at[-1]:
            self._extend()
        seconds = np.interp(at, self._growth, self._edges_s)
        self._arrived = float(at[-1])
        passed = max(int(np.searchsorted(self._growth, self._arrived, side="right")) - 1, 0)
        self._edges_s, self._growth = self._edges_s[passed:], self._growth[passed:]
        # interpolation may err by one unit in the last place where two slots meet
        return np.maximum.accumulate(seconds)

    def _extend(self) -> None:
        parts: list[NDArray[np.floating]] = [self._growth]
        edges: list[NDArray[np.floating]] = [self._edges_s]
        # double the slots, so that a block that spans many of them does not take quadratic time
        wanted = self._slot_count + max(len(self._growth), 1)
        total = float(self._growth[-1])
        while self._slot_count < wanted:
            expected = next(self._expected)
            parts.append(np.cumsum(expected) + total)
            total = float(parts[-1][-1])
            edges.append(np.arange(self._slot_count + 1, self._slot_count + len(expected) + 1) * self._slot_s)
            self._slot_count += len(expected)
        self._growth = np.concatenate(parts)
        self._edges_s = np.concatenate(edges)


SHOP_HOURS = (*[1] * 8, 1120, 2389, 3165, 2046, 2312, 2467, 3405, 903, 1150, 3272, 2345, 2031, 955, *[1] * 3)
"""Sales in each hour of the day (UTC): the store sales of TPC-DS, scale factor 0.01, and next to none at night."""


def daily(hours: Sequence[float], rate: float) -> Clock:
    """Return a clock that starts at midnight and repeats each day: weights of 24 hours, `rate` arrivals a second on average."""
    weights = np.asarray(hours, np.float64)
    return Clock(itertools.repeat(weights / weights.mean() * (rate * 3_600.0)), slot_s=3_600.0)


def milliseconds_as_us(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return times in microseconds, cut to whole milliseconds as such sources do, so that equal times occur."""
    return np.floor(seconds * 1_000.0).astype(np.int64) * 1_000
