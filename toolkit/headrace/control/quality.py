"""How good a controller is, in the field's terms: stability, accuracy, settling time, overshoot (SASO).

    load  ^        target band
          |   /\\  ............
          |__/  \\/------------      accuracy: how far from the target once settled
          |  ^   ^                  settling time: from the disturbance to the band, for good
          +--|---|----------> s     overshoot: threads beyond those it settles with

A disturbance is a lasting change of the demand. Between two disturbances the controller
should go in one direction only: each further turn is a reversal.

Source      Hellerstein, Diao, Parekh, Tilbury: Feedback Control of Computing Systems, 2004.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.control.observation import Observation
from headrace.summary import counted

STEP = 0.2
"""A change of the demand by this fraction is a disturbance."""
_CONFIRMED = 2


@dataclass(frozen=True)
class Quality:
    """Control quality over a stretch of observations.

    Parameters
    ----------
    disturbances : int
        Lasting changes of the demand.
    reversals : int
        Turns from more threads to fewer or back, without a disturbance in between: 0 is stable.
    in_band : float
        Share of the time in which the load was within the band.
    accuracy : float
        Mean distance of the load from the target once settled; NaN if it never settled.
    settling_s : float
        Mean time from a disturbance until the load stayed in the band up to the
        next disturbance; infinity if it did not settle after one of them.
    overshoot : float
        Largest excess of threads over the number it settled with, as a fraction of that number.
    thread_seconds : float
        Number of threads, summed over time.

    Examples
    --------
    >>> steady = [
    ...     Observation(at_s=at, interval_s=1, threads=2, max_threads=4, utilisation=0.7, busiest=0.7, arrived=100, processed=100)
    ...     for at in range(10)]
    >>> found = quality(steady, target=0.70, band=(0.45, 0.90))
    >>> found.is_stable, found.in_band, found.settling_s, found.thread_seconds
    (True, 1.0, 0.0, 20.0)
    """

    disturbances: int
    reversals: int
    in_band: float
    accuracy: float
    settling_s: float
    overshoot: float
    thread_seconds: float

    @property
    def is_stable(self) -> bool:
        """Whether the number of threads never turned without a disturbance."""
        return self.reversals == 0

    def __str__(self) -> str:
        settled = "never settled"
        if not math.isnan(self.accuracy):
            after = f"{self.settling_s:.1f} s"
            when = f"settled after {after}" if math.isfinite(self.settling_s) else "not settled after every disturbance"
            settled = f"{self.accuracy:.0%} from the target once settled, {when}"
        return (
            f"{'stable' if self.is_stable else counted(self.reversals, 'reversal')}, within the band {self.in_band:.0%} of"
            f" the time, {settled}, overshoot {self.overshoot:.0%}, {self.thread_seconds:.1f} thread-seconds"
        )


def quality(
    observations: Sequence[Observation], target: float = 0.70, band: tuple[float, float] = (0.45, 0.90)
) -> Quality:
    """Judge a controller by the observations made while it was attached.

    Parameters
    ----------
    observations : sequence of Observation
        In order, without gaps.
    target, band : float, (float, float)
        The load it aims at, and the band it is to stay within. A load below the band counts as within it
        if there is only one thread, and a load above if there cannot be more threads.
    """
    if not observations:
        return Quality(0, 0, math.nan, math.nan, math.nan, math.nan, 0.0)
    at = np.array([o.at_s for o in observations])
    lengths = np.array([o.interval_s for o in observations])
    loads = np.array([o.load for o in observations])
    threads = np.array([o.threads for o in observations])
    most = np.array([o.at_once(o.max_threads) for o in observations])
    inside = ((loads >= band[0]) | (threads == 1)) & ((loads <= band[1]) | (threads >= most))
    starts = [0, *_disturbances(np.array([o.coming for o in observations]))]
    reversals, settled, misses, overshoot = 0, [], [], 0.0
    for first, last in zip(starts, [*starts[1:], len(at)], strict=True):
        stretch = threads[first:last]
        turns = np.sign(np.diff(stretch))
        turns = turns[turns != 0]
        reversals += int((turns[1:] != turns[:-1]).sum())
        outside = np.flatnonzero(~inside[first:last])
        done = 0 if outside.size == 0 else int(outside[-1]) + 1
        if done == last - first:
            settled.append(math.inf)
            continue
        settled.append(float(at[first + done] - lengths[first + done] - (at[first] - lengths[first])))
        misses.append(np.abs(loads[first + done : last] - target))
        overshoot = max(overshoot, float(stretch.max() / stretch[-1]) - 1)
    return Quality(
        disturbances=len(starts) - 1,
        reversals=reversals,
        in_band=float((inside * lengths).sum() / lengths.sum()),
        accuracy=float(np.concatenate(misses).mean()) if misses else math.nan,
        settling_s=float(np.mean(settled)),
        overshoot=overshoot,
        thread_seconds=float((threads * lengths).sum()),
    )


def _disturbances(demand: np.ndarray) -> list[int]:
    """The observations at which the demand changes by more than `STEP` and stays changed for `_CONFIRMED` observations."""
    found, level, i = [], float(demand[0]), 1
    while i < len(demand):
        near = demand[i : i + _CONFIRMED]
        if (np.abs(near - level) > STEP * max(level, 1e-9)).all():
            found.append(i)
            level = float(near.mean())
            i += _CONFIRMED
        else:
            i += 1
    return found
