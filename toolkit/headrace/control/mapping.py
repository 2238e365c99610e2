"""f_mu: which instance owns which bucket of keys."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from headrace.arguments import is_whole_number
from headrace.control import balancing
from headrace.errors import ReconfigurationError
from headrace.metrics.by_worker import coefficient_of_variation
from headrace.references import BUCKETS

MOST_INSTANCES = 1024
GOOD_ENOUGH = 0.05


class Mapping:
    """An immutable table from key buckets to instances.

    A key's bucket is a stable hash of its value, so a mapping can be saved and
    used in another run.

    Parameters
    ----------
    owners : sequence of int
        For each of the 1,024 buckets, the number of the instance that owns it.

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
        if table.min() < 0 or table.max() >= MOST_INSTANCES:
            wrong = int(np.flatnonzero((table < 0) | (table >= MOST_INSTANCES))[0])
            raise ReconfigurationError(
                f"mapping: bucket {wrong} has owner {int(table[wrong])}; owners are numbered 0 to {MOST_INSTANCES - 1}"
            )
        self._owners = table.astype(np.int16)
        self._owners.flags.writeable = False

    @classmethod
    def even(cls, instances: int | Iterable[int]) -> Mapping:
        """Give each instance an equal, contiguous range of buckets.

        Parameters
        ----------
        instances : int or iterable of int
            How many instances, from 1 to 1,024, or which.

        Raises
        ------
        ReconfigurationError
            There is no instance, or something that is none.

        Examples
        --------
        >>> Mapping.even([0, 5]).ranges()
        {0: (0, 512), 5: (512, 512)}
        """
        given: Any = instances
        if is_whole_number(given):
            if given > MOST_INSTANCES:
                raise ReconfigurationError(f"Mapping.even({given}): give {MOST_INSTANCES:,} instances at most")
            given = range(given)
        members = list(given) if isinstance(given, Iterable) else [None]
        if not all(map(is_whole_number, members)):
            raise ReconfigurationError(f"Mapping.even({instances!r}): give how many instances, or a list of their numbers")
        return cls._even(tuple(sorted({int(member) for member in members})))

    @classmethod
    @functools.lru_cache(256)
    def _even(cls, members: tuple[int, ...]) -> Mapping:
        # Kept: a reconfiguration's time counts from the call.
        if not members or members[0] < 0:
            raise ReconfigurationError(f"mapping: instances {list(members)}; at least one is needed, from 0")
        return cls(np.asarray(members)[np.arange(BUCKETS) * len(members) // BUCKETS])

    @classmethod
    def balanced(
        cls,
        loads: Sequence[float] | np.ndarray,
        instances: int | Iterable[int],
        *,
        start: Mapping | None = None,
        contiguous: bool | None = None,
        slack: float = GOOD_ENOUGH,
    ) -> Mapping:
        """Share measured loads as equally as whole buckets allow.

        Parameters
        ----------
        loads : sequence of float, 1,024 of them
            What each bucket costs, in any unit: ``bucket_load`` of an operator's metrics.
        instances : int or iterable of int
            How many instances, or which.
        start : Mapping, optional
            The mapping in force. It is kept if it is within `slack`; otherwise as few
            buckets as possible move.
        contiguous : bool, optional
            True gives each instance one range of buckets, which is the cheapest to test for. False places
            buckets singly, the heaviest first (LPT). By default ranges, unless they leave the heaviest
            instance more than `slack` above the mean and single buckets do better.
        slack : float
            How far, as a fraction, the heaviest instance may be above the mean before buckets move
            away from it.

        Raises
        ------
        ReconfigurationError
            There are not 1,024 loads, one is negative or infinite, or there is no instance.

        Examples
        --------
        >>> loads = [0] * 1024
        >>> loads[:4] = [30, 10, 10, 10]
        >>> mapping = Mapping.balanced(loads, 2)
        >>> mapping.predicted_imbalance(loads), mapping.owners[:4].tolist()
        ((0.0, 1.0), [0, 1, 1, 1])
        """
        weights = check_loads(loads)
        members = cls.even(instances).instances
        kept = None
        if start is not None and set(start.instances) <= set(members):
            kept = start if contiguous is not True or start.ranges() is not None else None
        if weights.sum() == 0:
            return cls.even(members) if kept is None else kept
        candidates = [] if kept is None else [kept]
        old = None if start is None else start.owners
        if contiguous is not False:
            candidates.append(cls(balancing.contiguous(weights, members, old, slack)))
        if contiguous is not True:
            candidates.append(cls(balancing.placed(weights, members, old, slack)))

        def rank(mapping: Mapping) -> tuple[float, int]:
            excess = max(slack, balancing.heaviest(weights, mapping.owners, members) - 1)
            return excess, 0 if start is None else start.differing(mapping)

        return min(candidates, key=rank)  # of equal ones the first: the mapping in force, then ranges

    @property
    def owners(self) -> np.ndarray:
        """The owner of each bucket: int16[1024], read-only."""
        return self._owners

    @property
    def instances(self) -> tuple[int, ...]:
        """Instances that own at least one bucket, ascending."""
        return tuple(int(i) for i in np.unique(self._owners))

    @property
    def shares(self) -> tuple[int, ...]:
        """Number of buckets that each of `instances` owns."""
        return tuple(int(n) for n in np.unique(self._owners, return_counts=True)[1])

    def ranges(self) -> dict[int, tuple[int, int]] | None:
        """Return (first bucket, count) of each instance, or None unless every share is contiguous."""
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
        """Return the mapping in which instance `to` owns these buckets.

        Parameters
        ----------
        buckets : iterable of int
            Each from 0 to 1,023.
        to : int

        Raises
        ------
        ReconfigurationError
            A bucket is outside 0 to 1,023, or the instance is impossible.

        Examples
        --------
        >>> Mapping.even(2).move([0, 1, 2], to=1).shares
        (509, 515)
        """
        # For a number within the table, the new mapping says which bucket it would own.
        if not (is_whole_number(to) and abs(int(to)) < 2**62):
            raise ReconfigurationError(
                f"move: to={to!r}: there is no such instance; instances are numbered 0 to {MOST_INSTANCES - 1}"
            )
        if not isinstance(buckets, Iterable):
            raise ReconfigurationError(f"move({buckets!r}): give the buckets as a list or a range")
        chosen = list(buckets)
        wrong = [bucket for bucket in chosen if not (is_whole_number(bucket) and 0 <= bucket < BUCKETS)]
        if wrong:
            raise ReconfigurationError(f"move: there is no bucket {wrong[0]!r}; buckets are numbered 0 to {BUCKETS - 1}")
        table = self._owners.astype(np.int64)
        table[chosen] = to
        return Mapping(table)

    def predicted_imbalance(
        self, loads: Sequence[float] | np.ndarray, instances: int | Iterable[int] | None = None
    ) -> tuple[float, float]:
        """Predict how uneven the instances would be if buckets keep these loads: a dry run.

        Parameters
        ----------
        loads : sequence of float, 1,024 of them
            What each bucket costs, in any unit.
        instances : int or iterable of int, optional
            The active instances, of which some may own nothing; by default those that own something.

        Returns
        -------
        cv, max_over_mean : float
            Coefficient of variation, a fraction, and the heaviest instance over the mean; 0 and 1 if even.

        Raises
        ------
        ReconfigurationError
            There are not 1,024 loads, one is negative or infinite, or an owner is not among `instances`.

        Examples
        --------
        >>> Mapping.even(2).predicted_imbalance([3] * 512 + [1] * 512)
        (0.5, 1.5)
        """
        weights = check_loads(loads)
        members = self.instances if instances is None else Mapping.even(instances).instances
        absent = sorted(set(self.instances) - set(members))
        if absent:
            raise ReconfigurationError(
                f"predicted_imbalance: instances={instances!r}: instance {absent[0]} owns buckets but is not one of them; add it,"
                f" or move its buckets"
            )
        totals = np.bincount(self._owners, weights, minlength=members[-1] + 1)[list(members)]
        return coefficient_of_variation(totals), balancing.heaviest(weights, self._owners, members)

    def differing(self, other: Mapping) -> int:
        """Return the buckets that have another owner in `other`."""
        return int((self._owners != other._owners).sum())

    def to_list(self) -> list[int]:
        """Return the owners as plain integers, for JSON."""
        return [int(owner) for owner in self._owners]

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Mapping) and bool((self._owners == other._owners).all())

    def __hash__(self) -> int:
        return hash(self._owners.tobytes())

    def __repr__(self) -> str:
        shares = ", ".join(f"{i}: {n}" for i, n in zip(self.instances, self.shares, strict=True))
        return f"Mapping({{{shares}}} buckets)"


def check_loads(loads: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return loads of buckets as float64[1024], or say what is wrong with them."""
    weights = np.asarray(loads, np.float64)
    if weights.shape != (BUCKETS,):
        raise ReconfigurationError(f"loads: {BUCKETS} numbers are needed, one for each bucket; got shape {weights.shape}")
    if not np.isfinite(weights).all() or weights.min() < 0:
        wrong = int(np.flatnonzero(~np.isfinite(weights) | (weights < 0))[0])
        raise ReconfigurationError(f"loads: bucket {wrong} has load {weights[wrong]}; give finite numbers from 0")
    return weights
