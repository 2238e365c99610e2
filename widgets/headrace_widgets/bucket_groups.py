"""The heat map's grid: threads down, groups of key buckets across."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np

from headrace.references import BUCKETS

GROUP = 16
"""Buckets in a cell's column."""
GROUPS = BUCKETS // GROUP
SPAN_S = 5.0
"""Loads are measured over about this long."""


class BucketLoads:
    """Recent load of each bucket, from counters that only grow."""

    def __init__(self, span_s: float = SPAN_S):
        self._span_s = span_s
        self._samples: deque[tuple[float, np.ndarray]] = deque()

    def add(self, at_s: float, counters: Sequence[int]) -> None:
        """Take the counters at a given time."""
        counts = np.array(counters, np.int64)
        if len(counts) != BUCKETS:
            return
        while len(self._samples) > 1 and at_s - self._samples[1][0] >= self._span_s:
            self._samples.popleft()
        self._samples.append((at_s, counts))

    @property
    def loads(self) -> np.ndarray:
        """int64[1024]; zeros before anything was counted."""
        if not self._samples:
            return np.zeros(BUCKETS, np.int64)
        newest, oldest = self._samples[-1][1], self._samples[0][1]
        lately = np.maximum(newest - oldest, 0)
        return lately if lately.any() else newest


_GROUP_OF = np.arange(BUCKETS) // GROUP


def grid(threads: int) -> dict[str, np.ndarray]:
    """Return the columns of the grid that do not change: one row for each (thread, group)."""
    return {"thread": np.repeat(np.arange(threads), GROUPS), "group": np.tile(np.arange(GROUPS), threads)}


def cells(owners: np.ndarray, loads: np.ndarray, threads: int) -> dict[str, np.ndarray]:
    """Return the columns of the grid that change: load of each cell in percent, shade from 0 to 1, number of buckets.

    The shade of a cell in which the thread owns nothing is NaN.
    """
    place = np.minimum(owners, threads - 1).astype(np.int64) * GROUPS + _GROUP_OF
    size = threads * GROUPS
    load = np.bincount(place, loads, size)
    count = np.bincount(place, minlength=size)
    most = load.max()
    shade = np.where(count > 0, load / most if most > 0 else 0.0, np.nan)
    return {"share": load / max(load.sum(), 1) * 100, "shade": shade, "buckets": count}


def buckets_of(selected: Iterable[int], owners: np.ndarray) -> list[int]:
    """Return the buckets of the selected cells: those of the group that the cell's thread owns."""
    found = []
    for cell in selected:
        thread, group = divmod(cell, GROUPS)
        inside = np.arange(group * GROUP, (group + 1) * GROUP)
        found += inside[owners[inside] == thread].tolist()
    return sorted(found)


def to_text(buckets: Iterable[int]) -> str:
    """Return a set of buckets as ``"0-15, 40"``."""
    parts: list[list[int]] = []
    for bucket in sorted(set(buckets)):
        if parts and bucket == parts[-1][1] + 1:
            parts[-1][1] = bucket
        else:
            parts.append([bucket, bucket])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def from_text(text: str) -> list[int]:
    """Return the set of buckets that ``"0-15, 40"`` means.

    Raises
    ------
    ValueError
        Says what is wrong and what form is expected.
    """
    found: set[int] = set()
    for part in text.replace(";", ",").split(","):
        if not part.strip():
            continue
        first, dash, last = part.partition("-")
        try:
            a, b = int(first), int(last if dash else first)
        except ValueError:
            raise ValueError(f"buckets: {part.strip()!r} is not a bucket; write for example 0-15, 40") from None
        if not 0 <= a <= b < BUCKETS:
            raise ValueError(
                f"buckets: {part.strip()!r}; buckets go from 0 to {BUCKETS - 1}, the smaller first"
            )
        found.update(range(a, b + 1))
    if not found:
        raise ValueError("buckets: none is chosen; select cells of the heat map or type for example 0-15, 40")
    return sorted(found)


def to_code(buckets: list[int]) -> str:
    """Return a set of buckets as a Python expression."""
    text = to_text(buckets)
    if "," in text or "-" not in text:
        return str(buckets)
    first, _, last = text.partition("-")
    return f"range({first}, {int(last) + 1})"
