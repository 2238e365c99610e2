"""Sorting by several columns, stably.

Property    the order is that of np.lexsort, which sorts stably by the last key
Oracle      np.lexsort
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headrace.ingress import sorting
from headrace.ingress.sorting import argsort, distinct, fits, ranks

small = st.integers(-3, 3)


@pytest.fixture(params=["a few by merging", "few by NumPy", "all by digits"], autouse=True)
def few(request, monkeypatch):
    if request.param != "a few by merging":
        monkeypatch.setattr(sorting, "FEW", -1)
    if request.param == "all by digits":
        monkeypatch.setattr(sorting, "MANY", 1)


@given(arrays(np.int32, st.integers(0, 40), elements=small))
def test_oracle_different_ones(numbers):
    assert distinct(numbers).tolist() == sorted(set(numbers.tolist()))


@given(st.lists(st.integers(0, 9) | st.sampled_from([70_000, 3_000_000]), max_size=40), st.randoms())
def test_oracle_ranks(ids, draw):
    """Near each other or far apart: the order of what they stand for."""
    stands_for = {i: place for place, i in enumerate(draw.sample(sorted(set(ids)), len(set(ids))))}
    found = ranks(np.array(ids, np.int32), lambda some: np.argsort([stands_for[int(i)] for i in some]).astype(np.int64))
    assert found.tolist() == [stands_for[i] for i in ids]


@given(st.integers(0, 60).flatmap(lambda n: st.tuples(*[arrays(np.int64, n, elements=small)] * 3)))
def test_oracle_columns(columns):
    first, second, third = columns
    assert argsort(first).tolist() == np.lexsort((first,)).tolist()
    assert argsort(first, second, third).tolist() == np.lexsort((third, second, first)).tolist()


KINDS = (np.int64, np.uint64, np.int32, np.int8, np.float64)


@st.composite
def mixed_columns(draw):
    """One to four columns of any kind, few or many bits apart, so that all, some or none fit into a word."""
    n, columns = draw(st.integers(1, 40)), []
    for _ in range(draw(st.integers(1, 4))):
        kind = np.dtype(draw(st.sampled_from(KINDS)))
        low, high = (-1e300, 1e300) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
        near = draw(st.integers(0, 100)) if kind.kind != "f" else 0.5
        some = [near, near + draw(st.sampled_from([0, 1, 9])), *draw(st.lists(st.integers(0, 120), max_size=2))]
        some += [low, high] if draw(st.booleans()) else []
        columns.append(np.array(draw(st.lists(st.sampled_from(some), min_size=n, max_size=n)), kind))
    return columns


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(mixed_columns())
def test_oracle_columns_of_any_kind(columns):
    assert argsort(*columns).tolist() == np.lexsort(columns[::-1]).tolist()


@pytest.mark.parametrize("bits", [30, 46, 47, 48, 62, 63])
def test_oracle_numbers_that_just_fit_into_a_word_or_just_do_not(bits):
    """65,536 positions take 16 bits."""
    rng = np.random.default_rng(bits)
    first = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), 65_536)
    first[:2] = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    second = rng.integers(0, 2, first.size)
    first[100:900] = first[7]
    assert (argsort(first, second) == np.lexsort((second, first))).all()


@given(arrays(np.float64, st.integers(0, 60), elements=st.sampled_from([0.0, 1.5, -2.5, np.inf, -np.inf, np.nan])))
def test_oracle_floats(values):
    assert argsort(values).tolist() == np.argsort(values, kind="stable").tolist()


@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 300])
@pytest.mark.parametrize("runs", [1, 2, 3, 7, 256])
def test_oracle_runs_of_several_instances(count, runs):
    """As few rows as the kernel takes, and one more: each instance's are in order."""
    rng = np.random.default_rng(1000 * count + runs)
    first, second = rng.integers(0, 40, count), rng.integers(0, 3, count)
    for part in np.array_split(np.arange(count), runs):
        order = part[np.lexsort((second[part], first[part]))]
        first[part], second[part] = first[order], second[order]
    third = rng.integers(-2, 2, count)
    assert (argsort(first, second, third) == np.lexsort((third, second, first))).all()
    assert (argsort(first, second) == np.lexsort((second, first))).all()


@pytest.mark.parametrize("distinct", [1, 2, 100, 50_000])
def test_oracle_large(distinct):
    """Sizes at which NumPy sorts by other means."""
    rng = np.random.default_rng(distinct)
    values = rng.integers(0, 2**64, distinct, dtype=np.uint64)[rng.integers(0, distinct, 40_000)]
    assert (argsort(values) == np.argsort(values, kind="stable")).all()


@pytest.mark.parametrize("rows", [257, 300, 40_000])
@pytest.mark.parametrize("widths", [(17,), (63,), (17, 29), (1, 54), (1, 53), (2, 2, 2, 2), (2, 2, 2, 2, 2), (64, 1)], ids=str)
def test_agree_what_is_said_to_fit_is_sorted_at_once(rows, widths):
    rng = np.random.default_rng(sum(widths) + rows)
    columns = [rng.integers(0, 2 ** (width - 1), rows, np.uint64) for width in widths]
    for column, width in zip(columns, widths, strict=True):
        column[:2] = 0, 2**width - 1
    packed = sorting._pack(columns)
    assert fits(*columns) == (packed is not None and packed[3] == len(columns))
    assert not fits(columns[0], np.zeros(rows))
