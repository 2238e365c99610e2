"""The order in which results are released: merged runs, counted digits, or neither.

Property    places come out in the order of (time, input and row, number), what is equal in all as it came, however many runs
            there are, also of places that are some of all; where it is left to another sort no place is lost
Oracle      `numpy.lexsort`, which is stable
Cannot see  how long it takes
"""

import numpy as np
import pytest

from headrace.synchronization.order_kernel import DIGIT, MOST_BITS, MOST_RUNS, put_in_order


def ordered(primary, a, b, places):
    given = places.copy()
    counts, starts = np.zeros(1 << DIGIT, np.int64), np.zeros(MOST_RUNS, np.int64)
    return put_in_order(primary, a, b, given, np.empty_like(given), counts, starts), given


def runs(rng, count, each, span, ties):
    """Times, inputs with rows, and numbers of results: so many runs in order, each over all of the span."""
    primary, a, b = (np.concatenate(parts) for parts in zip(*(
        (np.sort(rng.integers(0, span, each)), rng.integers(0, ties, each), rng.integers(0, 2, each)) for _ in range(count)
    ), strict=True))  # fmt: skip
    for begin in range(0, count * each, each):
        own = slice(begin, begin + each)
        order = np.lexsort((b[own], a[own], primary[own]))
        primary[own], a[own], b[own] = primary[own][order], a[own][order], b[own][order]
    return primary, a, b


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, MOST_RUNS - 1, MOST_RUNS, MOST_RUNS + 1, 60])
@pytest.mark.parametrize(("span", "ties"), [(1 << 20, 5), (40, 9), (1, 1 << 30), (1 << (MOST_BITS + 3), 2)])
def test_oracle_runs_are_merged_or_counted(count, span, ties):
    rng = np.random.default_rng(count * span)
    primary, a, b = runs(rng, count, 37, span, ties)
    some = np.flatnonzero(rng.random(len(primary)) < 0.7)
    for places in (np.arange(len(primary)), some, some[:1]):
        is_done, found = ordered(primary, a, b, places)
        wanted = places[np.lexsort((b[places], a[places], primary[places]))]
        if count <= MOST_RUNS:
            assert is_done, "few runs are always merged"
        if is_done:
            assert found.tolist() == wanted.tolist()
        else:
            assert sorted(found) == places.tolist()


def test_example_what_is_too_far_apart_or_too_often_equal_is_left_to_another_sort():
    backwards = np.arange(60)[::-1].copy()
    zeros = np.zeros(60, np.int64)
    assert ordered(backwards, zeros, zeros, np.arange(60))[0]
    assert not ordered(backwards << MOST_BITS, zeros, zeros, np.arange(60))[0]
    assert not ordered(zeros, backwards, zeros, np.arange(60))[0]
