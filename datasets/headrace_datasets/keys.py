"""Which records the transactions of a stream touch: by Zipf's law, within one partition or across several.

TStream (Zhang et al., ICDE 2020), sections VI-A and VI-B: keys are skewed by Zipf's law, factor 0.6. Records lie in partitions
by their keys (key modulo the number of partitions). A share of the transactions is multi-partition: each of them touches a
given number of different partitions. All other transactions touch a single one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace_datasets.parameters import number, share, whole_number
from headrace_datasets.randomness import Choice, Choices, stream

STEEPEST = 10.0
MOST_RECORDS = 1_000_000
MOST_PARTITIONS = 64
KEYS = 1  # random stream; `events` uses 0


@dataclass(frozen=True)
class Access:
    """How keys are chosen; each parameter is also one of the generators that draw keys.

    Parameters
    ----------
    records : int
        Keys 0 to records - 1.
    skew : float
        Zipf's exponent: the k-th most frequent key has a weight of 1 / k ** skew. Which key that is depends on the seed.
    hot_share, hot_keys : float, int
        This share of the drawn keys goes to the `hot_keys` most frequent keys only, in equal parts.
    multi_share : float or None
        Share of the transactions that touch several partitions. None: keys are drawn whatever their partitions.
    multi_length : int
        How many different partitions these touch; fewer if they have fewer keys.
    partitions : int
        Key k lies in partition k % partitions; not more partitions than records.
    """

    records: int
    skew: float
    hot_share: float = 0.0
    hot_keys: int = 1
    multi_share: float | None = None
    multi_length: int = 4
    partitions: int = 8

    @classmethod
    def checked(cls, records: Any, records_name: str = "records", **given: Any) -> "Access":
        """Return the parameters as numbers, or raise ValueError for the first that is not valid."""
        records = whole_number(records_name, records, minimum=1)
        if records > MOST_RECORDS:
            raise ValueError(f"{records_name} is {records}; give at most {MOST_RECORDS}")
        made = cls(records, **given)
        multi = made.multi_share if made.multi_share is None else share("multi_share", made.multi_share)
        hot_keys = whole_number("hot_keys", made.hot_keys, minimum=1)
        if hot_keys > records:
            raise ValueError(f"hot_keys is {hot_keys}, more than {records_name}={records}; give at most as many")
        partitions = whole_number("partitions", made.partitions, minimum=1)
        if partitions > MOST_PARTITIONS:
            raise ValueError(f"partitions is {partitions}; give at most {MOST_PARTITIONS}")
        length = whole_number("multi_length", made.multi_length, minimum=1)
        if multi is not None and length > partitions:
            raise ValueError(f"multi_length is {length}, more than partitions={partitions}; give at most as many")
        skew, hot = number("skew", made.skew, 0.0, STEEPEST), share("hot_share", made.hot_share)
        return cls(records, skew, hot, hot_keys, multi, length, partitions)


class Keys:
    """Draws the keys of transactions.

    Parameters
    ----------
    seed : int
        Decides which keys are frequent.
    access : Access

    Notes
    -----
    Partition p has the ranks p, p + P, p + 2 P ... of Zipf's law. A transaction within one partition draws the partition in
    proportion to the sum of its weights, and keys by the weights there: so all keys together follow the law. A transaction
    across several draws different partitions, in proportion as far as different ones can be; a partition with one very hot key
    then gets less than its share.
    """

    def __init__(self, seed: int, access: Access) -> None:
        self._access = access
        is_free = access.multi_share is None
        self._partitions = 1 if is_free else min(access.partitions, access.records)
        self._multi_share = 0.0 if is_free else access.multi_share or 0.0
        weights = np.arange(1, access.records + 1, dtype=np.float64) ** -access.skew
        weights *= (1.0 - access.hot_share) / weights.sum()
        weights[: access.hot_keys] += access.hot_share / access.hot_keys
        parts = [weights[p :: self._partitions] for p in range(self._partitions)]
        mass = np.array([part.sum() for part in parts])
        self._home = Choice(mass)
        with np.errstate(divide="ignore"):
            self._log_mass = np.log(mass)
        # a partition without weight may still be one of several that a transaction touches
        self._within = Choices([part if total > 0 else np.ones(len(part)) for part, total in zip(parts, mass, strict=True)])
        rng = stream(seed, KEYS)  # frequent keys are scattered, not adjacent
        self._scattered = np.concatenate([rng.permutation(len(part)) for part in parts])
        sizes = np.array([len(part) for part in parts])
        self._first = np.cumsum(sizes) - sizes

    def draw(self, rng: np.random.Generator, rows: int, operations: int) -> NDArray[np.int64]:
        """Return int64[rows, operations], the keys of each transaction; a key may occur twice."""
        part = np.repeat(self._home.draw(rng, rows).astype(np.int64)[:, None], operations, axis=1)
        length = min(self._access.multi_length, operations, self._partitions)
        if self._multi_share > 0 and length > 1:
            several = np.flatnonzero(rng.random(rows) < self._multi_share)
            # the largest values of log weight + Gumbel noise: a draw without replacement
            score = rng.gumbel(size=(len(several), self._partitions)) + self._log_mass
            chosen = np.argsort(-score, axis=1)[:, :length]
            part[several] = chosen[:, np.arange(operations) % length]
        within = self._scattered[self._first[part] + self._within.draw(rng, part)]
        return within * self._partitions + part
