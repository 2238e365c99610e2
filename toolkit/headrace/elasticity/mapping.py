"""f_mu: which instance owns which bucket of keys."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from headrace.errors import ReconfigurationError

BUCKETS = 1024


class Mapping:
    """A table from key buckets to instances; immutable.

    A key's bucket is a stable hash of its value, so a mapping can be saved and
    used again in another run.

    Parameters
    ----------
    owners : sequence of int
        For each of the 1,024 buckets the number of the instance that owns it.

    Examples
    --------
    >>> mapping = Mapping.even(4)
    >>> mapping.instances, mapping.shares
    ((0, 1, 2, 3), (256, 256, 256, 256))
    >>> mapping.move(range(256), to=3).instances
    (1, 2, 3)
    """

    def __init__(self, owners: Sequence[int] | np.ndarray):
        table = np.asarray(owners)
        if table.shape != (BUCKETS,) or table.dtype.kind not in "iu":
            raise ReconfigurationError(
                f"mapping: a table of {BUCKETS} integers is needed, got shape {table.shape} of {table.dtype};"
                f" start from Mapping.even(n)"
            )
        if table.min() < 0:
            raise ReconfigurationError(
                f"mapping: bucket {int(table.argmin())} has owner {int(table.min())}; owners count from 0"
            )
        self._owners = table.astype(np.int16)
        self._owners.flags.writeable = False

    @classmethod
    def even(cls, instances: int | Iterable[int]) -> Mapping:
        """Give each instance an equal, contiguous range of buckets."""
        return cls._even(tuple(sorted(set(range(instances) if isinstance(instances, int) else instances))))

    @classmethod
    @functools.lru_cache(256)
    def _even(cls, members: tuple[int, ...]) -> Mapping:
        # Kept: a reconfiguration's time counts from the call.
        if not members or members[0] < 0:
            raise ReconfigurationError(f"mapping: instances {list(members)}; at least one is needed, from 0")
        return cls(np.asarray(members)[np.arange(BUCKETS) * len(members) // BUCKETS])

    @property
    def owners(self) -> np.ndarray:
        """int16[1024], read-only."""
        return self._owners

    @property
    def instances(self) -> tuple[int, ...]:
        """Instances that own at least one bucket, ascending."""
        return tuple(int(i) for i in np.unique(self._owners))

    @property
    def shares(self) -> tuple[int, ...]:
        """Buckets of each of `instances`."""
        return tuple(int(n) for n in np.unique(self._owners, return_counts=True)[1])

    def ranges(self) -> dict[int, tuple[int, int]] | None:
        """(first bucket, count) of each instance, or None unless every share is contiguous."""
        return self._ranges

    @functools.cached_property
    def _ranges(self) -> dict[int, tuple[int, int]] | None:
        starts = np.flatnonzero(np.diff(self._owners, prepend=-1))
        if len(starts) != len(self.instances):
            return None
        ends = [*starts[1:], BUCKETS]
        return {
            int(self._owners[a]): (int(a), int(b - a)) for a, b in zip(starts, ends, strict=True)
        }

    def move(self, buckets: Iterable[int], to: int) -> Mapping:
        """Return the mapping in which instance `to` owns these buckets."""
        table = self._owners.copy()
        table[list(buckets)] = to
        return Mapping(table)

    def differing(self, other: Mapping) -> int:
        """Buckets that have another owner in `other`."""
        return int((self._owners != other._owners).sum())

    def to_list(self) -> list[int]:
        """Plain integers, for JSON."""
        return [int(owner) for owner in self._owners]

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Mapping) and bool((self._owners == other._owners).all())

    def __hash__(self) -> int:
        return hash(self._owners.tobytes())

    def __repr__(self) -> str:
        shares = ", ".join(f"{i}: {n}" for i, n in zip(self.instances, self.shares, strict=True))
        return f"Mapping({{{shares}}} buckets)"
