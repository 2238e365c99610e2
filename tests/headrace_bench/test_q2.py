"""What q2 is fed.

Oracle: when a tuple is ready, by Definition 3 and the place of each tuple of the other source; a sort. Cannot see: how fast.
"""

import numpy as np
import pytest

from headrace_bench.experiments import q2


def longest_wait(tables):
    """Fed by position: how many tuples of the other source come after a tuple's own place until it is ready, at most."""
    times = [table["ts"].to_numpy() for table in tables]
    waits = []
    for source, other in ((0, 1), (1, 0)):
        # Ready by (time, source): of equal times the first source's tuple waits for an equal one, the second's for a later one.
        side = "left" if source < other else "right"
        waits.append((np.searchsorted(times[other], times[source], side=side) - np.arange(len(times[source]))).max())
    return max(waits)


def test_latency_is_not_how_far_one_source_is_ahead_of_the_other():
    """At 10,000 tuples a second of each, what random times wait for is several milliseconds, whatever merges them."""
    tables, _ = q2.make_sources(40_000, paced=True)
    assert longest_wait(tables) <= 1
    assert longest_wait(q2.make_sources(40_000)[0]) > 50
    first, second = (table["ts"].to_numpy() for table in tables)
    assert (np.diff(first) > 0).all() and 0.4 < (first == second).mean() < 0.6, "ties, so that sources are told apart"


@pytest.mark.parametrize("paced", [False, True])
def test_oracle_the_hash_is_of_the_merged_order(paced):
    tables, truth = q2.make_sources(600, paced=paced)
    rows = [(row["ts"], source, row["row"]) for source, table in enumerate(tables) for row in table.to_pylist()]
    folded = 0
    for _, _, row in sorted(rows):
        folded = (folded * 6364136223846793005 + row) % 2**64
    assert truth == folded
