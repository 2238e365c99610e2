"""Results by (time, key), whatever the keys are.

Oracle      Python's sorted() over (time, key value), stable.
Cannot see  float keys that are NaN: the dictionary's own tests.
"""

import random

import numpy as np
import pyarrow as pa
import pytest

from headrace.egress.key_order import FEW_TIMES, arrange, key_ranks
from headrace.ingress.keys import KeyDictionary

WORDS = ["b", "", "a", "é", "ab", "a" * 12 + "b", "a" * 12 + "a", "\uffff", "\U00010000"]
NEAR = [3, 0, 7, -2, 5, 1, 4, 9, -8]
FAR = [2**62, -(2**63), 0, 2**63 - 1, -1, 7, 2**40, -(2**50), 12]
KEYS = {
    "words": [WORDS],
    "near numbers": [NEAR],
    "far numbers": [FAR],
    "floats": [[x / 2 for x in NEAR]],
    "two numbers": [[x % 3 for x in NEAR], FAR],
    "a word and a number": [[word[:1] for word in WORDS], NEAR],
    "truth values": [[x % 2 == 0 for x in NEAR]],
}


def encoded(columns):
    """A dictionary of these key columns, and the ids of their rows."""
    kinds = tuple({str: "string", float: "float"}.get(type(column[0]), "int") for column in columns)
    arrays = [pa.array(column) for column in columns]
    dictionary = KeyDictionary(kinds)
    dictionary.types[:] = [array.type for array in arrays]
    return dictionary, dictionary.encode(*arrays)


@pytest.mark.parametrize("times", [1, 2, FEW_TIMES, FEW_TIMES + 1, 1000])
@pytest.mark.parametrize("rows", [1, 40, 3000])
@pytest.mark.parametrize("keys", KEYS)
def test_oracle_by_time_and_key(keys, rows, times):
    draw = random.Random(rows * times)
    dictionary, ids = encoded(KEYS[keys])
    values = list(zip(*KEYS[keys], strict=True))
    some = [(draw.randrange(times) * 60_000 - 120_000, draw.randrange(len(values))) for _ in range(rows)]
    order, columns = arrange(dictionary, ids[[i for _, i in some]], np.array([ts for ts, _ in some]))
    assert order.tolist() == sorted(range(rows), key=lambda n: (some[n][0], values[some[n][1]]))
    found = list(zip(*(column.to_pylist() for column in columns), strict=True))
    assert found == [values[some[n][1]] for n in order]


@pytest.mark.parametrize("times", [2, 2_000])
def test_oracle_ranks_are_the_order_of_the_values(times):
    """Few of many ids, and ids that come again and again."""
    dictionary, ids = encoded([WORDS])
    ranks = key_ranks(dictionary, np.concatenate([ids] * times))
    assert ranks.tolist() == times * [sorted(WORDS).index(word) for word in WORDS]
    assert key_ranks(None, ids).tolist() == [0] * len(ids)
