"""Sorting by several columns, stably.

Property    the order is that of np.lexsort, which sorts stably by the last key
Oracle      np.lexsort
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headrace.ingress.sorting import argsort

small = st.integers(-3, 3)


@given(st.integers(0, 60).flatmap(lambda n: st.tuples(*[arrays(np.int64, n, elements=small)] * 3)))
def test_oracle_columns(columns):
    first, second, third = columns
    assert argsort(first).tolist() == np.lexsort((first,)).tolist()
    assert argsort(first, second, third).tolist() == np.lexsort((third, second, first)).tolist()


@given(arrays(np.float64, st.integers(0, 60), elements=st.sampled_from([0.0, 1.5, -2.5, np.inf, -np.inf, np.nan])))
def test_oracle_floats(values):
    assert argsort(values).tolist() == np.argsort(values, kind="stable").tolist()


@pytest.mark.parametrize("distinct", [1, 2, 100, 50_000])
def test_oracle_large(distinct):
    """Sizes at which NumPy sorts by other means."""
    rng = np.random.default_rng(distinct)
    values = rng.integers(0, 2**64, distinct, dtype=np.uint64)[rng.integers(0, distinct, 40_000)]
    assert (argsort(values) == np.argsort(values, kind="stable")).all()
