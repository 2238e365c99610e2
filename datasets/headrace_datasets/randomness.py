"""Random streams, and draws by Zipf's law."""

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def stream(seed: int, *path: int) -> np.random.Generator:
    """Return the random stream at `path` under `seed`.

    Streams with different paths are independent. A generator gives each block of rows a stream of its own, so
    that a block is the same whatever was generated before it.
    """
    return np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=path))


class Choice:
    """Draws indices with given weights, in constant time each: Walker's alias method.

    Parameters
    ----------
    weights : float64[k]
        Not negative, at least one above zero; their sum need not be one.

    Attributes
    ----------
    probability : float64[k]
        The chance of each index.

    Notes
    -----
    A draw picks one of k equally likely columns and then either the column's own index, with probability
    ``_keep``, or the other index that shares the column, ``_alias`` (Vose 1991). Searching a table of
    cumulative weights instead costs about five times as much for 20,000 words.
    """

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self.probability = weights / weights.sum()
        k = len(weights)
        height = (self.probability * k).tolist()
        alias = list(range(k))
        low = [i for i in range(k) if height[i] < 1.0]
        high = [i for i in range(k) if height[i] >= 1.0]
        while low and high:
            i, j = low.pop(), high[-1]
            alias[i] = j  # column i: its own height, filled up to 1 from j
            height[j] -= 1.0 - height[i]
            if height[j] < 1.0:
                low.append(high.pop())
        for i in low + high:  # whole columns, up to rounding
            height[i] = 1.0
        self._keep = np.array(height)
        self._alias = np.array(alias, dtype=np.int32)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int32]:
        """Return `count` independent indices, int32."""
        # one random number serves twice: its integer part is the column, the rest decides within it
        place = rng.random(count)
        place *= len(self._keep)
        column = place.astype(np.int32)
        place -= column
        return np.where(place < self._keep[column], column, self._alias[column])


class Choices:
    """Draws indices where each draw may have other weights: some `Choice` to choose from.

    Parameters
    ----------
    weights : sequence of float64[k]
        The weights of each `Choice`, of any length.
    """

    def __init__(self, weights: Sequence[NDArray[np.float64]]) -> None:
        made = [Choice(one) for one in weights]
        self._keep = np.concatenate([one._keep for one in made])
        self._alias = np.concatenate([one._alias for one in made])
        self._count = np.array([len(one._keep) for one in made])
        self._first = np.cumsum(self._count) - self._count

    def draw(self, rng: np.random.Generator, which: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return an index for each of `which`, by the weights it says."""
        place = rng.random(which.shape)
        place *= self._count[which]
        column = place.astype(np.int64)
        place -= column
        at = self._first[which] + column
        return np.where(place < self._keep[at], column, self._alias[at])


@functools.lru_cache(maxsize=8)
def zipf(count: int, exponent: float, shift: float = 0.0) -> Choice:
    """Return draws of ranks 0..count-1 with weights ``1 / (rank + 1 + shift) ** exponent``.

    Zipf's law; with a `shift` it is Mandelbrot's form of it, flatter among the most frequent.
    """
    ranks = np.arange(1, count + 1, dtype=np.float64)
    return Choice((ranks + shift) ** -exponent)
