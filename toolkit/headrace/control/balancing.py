"""Share measured bucket loads among instances: how `Mapping.balanced` decides.

There are two ways. Either cut the row of buckets into contiguous ranges, the best
cut found by bisection on the heaviest range: such a mapping costs the instances one
comparison per key. Or place single buckets, heaviest first, each with the least
loaded instance (LPT), which a skewed load may need.

Both stay near given owners: a bucket whose move gains nothing stays where it is.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

_BISECTIONS = 60


def heaviest(loads: np.ndarray, owners: np.ndarray, members: Sequence[int]) -> float:
    """Load of the most loaded instance divided by the mean of all; 1.0 without load."""
    totals = np.bincount(owners, loads, minlength=max(members) + 1)[list(members)]
    return float(totals.max() / totals.mean()) if totals.sum() > 0 else 1.0


def contiguous(loads: np.ndarray, members: Sequence[int], near: np.ndarray | None, slack: float) -> np.ndarray:
    """Give each member a range of buckets, in the order of `members`.

    Parameters
    ----------
    loads : float64[buckets]
    members : sequence of int
    near : int[buckets], optional
        Owners to stay near: a cut stays where it is as long as no range exceeds the
        best possible one by more than `slack`.
    slack : float
        As a fraction.
    """
    upto = np.concatenate(([0.0], np.cumsum(loads)))
    low, high = max(loads.max(), upto[-1] / len(members)), upto[-1]
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _fits(upto, len(members), middle):
            high = middle
        else:
            low = middle
    if near is None:
        # Where several cuts divide the load equally, prefer equal counts: aim at the even cuts.
        near = np.asarray(members)[np.arange(loads.size) * len(members) // loads.size]
    bound = max(high, (1 + slack) * upto[-1] / len(members))
    bound *= 1 + 1e-12  # makes up for rounding in the prefix sums
    wanted = _cuts_of(near, members)
    earliest = _earliest_cuts(upto, len(members), bound)
    cuts = [0]
    for k in range(1, len(members)):
        latest = int(np.searchsorted(upto, upto[cuts[-1]] + bound, side="right")) - 1
        cuts.append(int(min(max(wanted[k - 1], earliest[k - 1], cuts[-1]), latest)))
    cuts.append(loads.size)
    return np.repeat(np.asarray(members), np.diff(cuts))


def _fits(upto: np.ndarray, parts: int, bound: float) -> bool:
    at = 0
    for _ in range(parts):
        at = int(np.searchsorted(upto, upto[at] + bound, side="right")) - 1
        if at == upto.size - 1:
            return True
    return False


def _earliest_cuts(upto: np.ndarray, parts: int, bound: float) -> list[int]:
    """For each cut, the first position at which the ranges after it can still hold the rest."""
    cuts, at = [], upto.size - 1
    for _ in range(parts - 1):
        at = int(np.searchsorted(upto, upto[at] - bound, side="left"))
        cuts.append(at)
    return cuts[::-1]


def _cuts_of(owners: np.ndarray, members: Sequence[int]) -> list[int]:
    counts = [int((owners == member).sum()) for member in members]
    return [int(cut) for cut in np.cumsum(counts)[:-1]]


def placed(loads: np.ndarray, members: Sequence[int], start: np.ndarray | None, slack: float) -> np.ndarray:
    """Place single buckets so that no member has more than (1 + `slack`) times the mean, if possible.

    Parameters
    ----------
    start : int[buckets], optional
        Owners to begin with. Buckets of instances that are not members are placed first;
        then as few others move as bring the heaviest member within the slack.
        Without it every bucket is placed from scratch.
    """
    owners = np.full(loads.size, -1) if start is None else np.where(np.isin(start, members), start, -1)
    totals = {m: float(loads[owners == m].sum()) for m in members}
    counts = {m: int((owners == m).sum()) for m in members}
    # Buckets without load so far are dealt out by count, so that their keys do not all meet in one place.
    queue = [(totals[m], counts[m], m) for m in members]
    heapq.heapify(queue)
    homeless = np.flatnonzero(owners < 0)
    for bucket in homeless[np.argsort(-loads[homeless], kind="stable")]:
        total, count, member = heapq.heappop(queue)
        owners[bucket] = member
        totals[member] = total + float(loads[bucket])
        heapq.heappush(queue, (totals[member], count + 1, member))
    _relieve(loads, owners, totals, slack)
    return owners


def _relieve(loads: np.ndarray, owners: np.ndarray, totals: dict[int, float], slack: float) -> None:
    """Move buckets from the heaviest member to the lightest while that helps, each time the one nearest to half the gap."""
    allowed = (1 + slack) * sum(totals.values()) / len(totals)
    for _ in range(loads.size):
        top, bottom = max(totals, key=totals.__getitem__), min(totals, key=totals.__getitem__)
        gap = totals[top] - totals[bottom]
        if totals[top] <= allowed:
            return
        own = np.flatnonzero((owners == top) & (loads > 0) & (loads < gap))
        if own.size == 0:
            return
        bucket = own[np.argmin(np.abs(loads[own] - gap / 2))]
        owners[bucket] = bottom
        totals[top] -= float(loads[bucket])
        totals[bottom] += float(loads[bucket])
