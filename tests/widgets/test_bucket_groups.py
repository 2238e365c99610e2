"""Method: texts for sets of buckets are written and read back; the grid is compared with a loop over buckets.

What this cannot see: the colours on the screen; tests/browser looks there.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_widgets.bucket_groups import (
    BUCKETS,
    GROUP,
    GROUPS,
    BucketLoads,
    buckets_of,
    cells,
    from_text,
    grid,
    to_code,
    to_text,
)

SOME = st.sets(st.integers(0, BUCKETS - 1), min_size=1, max_size=60)


@given(SOME)
def test_oracle_text_and_back(buckets):
    assert from_text(to_text(buckets)) == sorted(buckets)
    assert sorted(eval(to_code(sorted(buckets)))) == sorted(buckets)


def test_example_texts():
    assert to_text([0, 1, 2, 40]) == "0-2, 40"
    assert to_code(list(range(16))) == "range(0, 16)"
    assert from_text(" 3 ;5-6,") == [3, 5, 6]


@pytest.mark.parametrize("text", ["", " , ", "a", "1-", "5-3", "-1", "0-1024", "1.5"])
def test_example_texts_that_mean_nothing(text):
    with pytest.raises(ValueError, match=r"^buckets: "):
        from_text(text)


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_oracle_cells(threads, seed):
    draw = np.random.default_rng(seed)
    owners, loads = draw.integers(0, threads, BUCKETS), draw.integers(0, 100, BUCKETS)
    columns = grid(threads) | cells(owners, loads, threads)
    for _ in range(20):
        thread, group = int(draw.integers(threads)), int(draw.integers(GROUPS))
        inside = [b for b in range(group * GROUP, (group + 1) * GROUP) if owners[b] == thread]
        row = thread * GROUPS + group
        assert (columns["thread"][row], columns["group"][row]) == (thread, group)
        assert columns["buckets"][row] == len(inside)
        assert columns["share"][row] == pytest.approx(100 * loads[inside].sum() / loads.sum())
        assert np.isnan(columns["shade"][row]) == (not inside)
        assert buckets_of([row], owners) == inside
    assert np.nanmax(columns["shade"]) == 1


def test_example_loads_are_of_late():
    loads = BucketLoads(span_s=2)
    assert not loads.loads.any()
    for second in range(10):
        counts = np.zeros(BUCKETS, int)
        counts[0], counts[1] = 1_000 + second, 0 if second < 5 else 7 * (second - 4)
        loads.add(float(second), counts.tolist())
    assert loads.loads[:2].tolist() == [2, 14]
    loads.add(11.0, ())  # an engine that does not measure it
    assert loads.loads[:2].tolist() == [2, 14]
