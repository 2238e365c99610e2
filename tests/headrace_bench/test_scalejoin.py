"""ScaleJoin written ad hoc: each pair once, whichever thread compares it.

Oracle: the plain loop on one thread, which has its own. Cannot see: how fast.
"""

import numpy as np
import pytest

from headrace_bench import scalejoin
from headrace_bench.join import columns_of, make_sides, plain_pairs, plain_waits


def often_near(rows, seed=7):
    """Two sides with few values, so that one pair in a hundred matches, and with times that are equal."""
    rng = np.random.default_rng(seed)
    times = [np.sort(rng.integers(0, rows, rows)) for _ in range(2)]
    values = [(rng.integers(1, 200, rows, dtype=np.int32), rng.uniform(1, 200, rows).astype(np.float32)) for _ in range(2)]
    return [times[0], *values[0], times[1], *values[1]]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("first", [0, 501, 700])
def test_oracle_it_finds_the_plain_loops_pairs(threads, first):
    """Stored tuples are fewer than a window, or more; their number is no multiple of the threads."""
    columns = often_near(3_000)
    if first:  # all that is stored comes before all that is not
        for times in (columns[0], columns[3]):
            times[:first] = np.minimum(times[:first], min(columns[0][first], columns[3][first]))
    pairs = plain_pairs(columns, 600, first)
    assert pairs[0] > 10_000
    assert scalejoin.run(columns, 600, first, threads)[1:] == pairs


@pytest.mark.slow
def test_oracle_each_pair_is_noted_once_and_not_before_its_tuples_came():
    columns, first = often_near(2_000), 400
    for times in (columns[0], columns[3]):
        times[:first] = np.minimum(times[:first], min(columns[0][first], columns[3][first]))
    wanted = plain_pairs(columns, 600, first)
    waits, pairs = scalejoin.waits(columns, 600, first, 3, 20_000)
    assert pairs == wanted
    assert wanted[0] / 2 <= len(waits) <= wanted[0] and waits.min() >= 0

    columns[0], columns[3] = columns[0] * 50, columns[3] * 50  # within a tenth of a second
    wanted = plain_pairs(columns, 30_000, 0)
    run = scalejoin.played(columns, 30_000, 2, every_s=0.005)
    due_s, latency_ms = run.due_s, run.latency_ms
    assert run.pairs == wanted and len(due_s) == wanted[0]
    assert (np.diff(due_s) >= 0).all() and set((due_s * 1e6).round().astype(int)) <= {*columns[0], *columns[3]}
    assert latency_ms.min() >= 0
    left, right = columns[0], columns[3]
    near = np.searchsorted(right, left + 30_000) - np.searchsorted(right, left - 30_000, "right")
    assert run.compared[0] == 0 and run.compared[-1] == near.sum() and (np.diff(run.compared) >= 0).all()
    assert (np.diff(run.seen_s) > 0).all() and len(run.seen_s) > 2, "it is counted while tuples come"


@pytest.mark.slow
def test_oracle_1t_at_a_rate_finds_the_plain_loops_pairs_and_notes_each():
    columns, first = often_near(2_000), 400
    for times in (columns[0], columns[3]):
        times[:first] = np.minimum(times[:first], min(columns[0][first], columns[3][first]))
    for per_second in (20_000, 10**9):  # at the second one all are there at once
        waits, pairs = plain_waits(columns, 600, first, per_second)
        wanted = plain_pairs(columns, 600, first)
        assert pairs == wanted and wanted[0] / 2 <= len(waits) <= wanted[0] and waits.min() >= 0


@pytest.mark.slow
def test_example_it_ends_where_a_thread_does_not_come(monkeypatch):
    """No wait is without a limit: what does not end is an error, and what runs is stopped."""
    monkeypatch.setattr(scalejoin, "TIMEOUT_S", 0.0)
    left, right, size = make_sides(2_000, 400_000)
    columns = [column.copy() for column in columns_of(left, right)]  # a table's own are read-only: other kernels
    with pytest.raises(RuntimeError, match="did not end within 0 s"):
        scalejoin.run(columns, size, 2_000, 2)
