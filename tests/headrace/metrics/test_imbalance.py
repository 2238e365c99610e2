"""Imbalance: the numbers themselves, and that each configuration of a run is judged by itself.

Oracle      arithmetic by hand; keys that are spread evenly, and one key alone
Planted     loads that nobody notes when the configuration changes
"""

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic.reconfiguration import Reconfiguration
from headrace.metrics.by_worker import coefficient_of_variation, max_over_mean, shares_of
from support.campaign import rarely


def test_example_imbalance():
    assert coefficient_of_variation(np.array([1, 3])) == 0.5
    assert max_over_mean(np.array([1, 3])) == 1.5
    for idle in ([], [0, 0], [7]):
        assert coefficient_of_variation(np.array(idle)) == 0.0
        assert max_over_mean(np.array(idle)) == 1.0


def test_example_shares():
    assert shares_of(np.array([[1, 0], [3, 0]])).tolist() == [[0.25, 0], [0.75, 0]]


def balanced_load_and_changes(mode="vsn"):
    """Keys spread evenly, and instances that come and go: the imbalance is that of each configuration."""
    n = 120_000
    table = pa.table({"ts": np.arange(n) // 10, "k": np.random.default_rng(3).integers(0, 20_000, n)})
    query = hr.stream(table, event_time="ts").key_by("k").window(1000).aggregate("counts", n=hr.count())
    for changes in ([(n // 2, 2)], [(n - n // 100, 1)], [(n // 3, 4), (n // 2, 2)]):
        with query.start(threads=4 if changes[0][1] == 1 else 1, max_threads=4, mode=mode, reconfigure=changes) as run:
            assert run.wait(180)
            counts = run.metrics().operators["counts"]
            said = f"uneven although the keys are even: {changes}, {counts.imbalance_cv}, {counts.imbalance_max_mean}"
            assert counts.imbalance_cv < 0.1 and 1 <= counts.imbalance_max_mean < 1.2, said
    one_key = pa.table({"ts": np.arange(n) // 10, "k": np.zeros(n, np.int64)})
    query = hr.stream(one_key, event_time="ts").key_by("k").window(1000).aggregate("counts", n=hr.count())
    with query.start(threads=1, max_threads=2, mode=mode, reconfigure=[(n // 2, 2)]) as run:
        assert run.wait(180)
        # Half of the load alone, where nothing can be uneven; half with an instance that gets nothing.
        assert run.metrics().operators["counts"].imbalance_cv == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("mode", ["vsn", *rarely("sn")])
def test_example_imbalance_is_of_each_configuration(mode):
    balanced_load_and_changes(mode)


def test_planted_loads_that_are_not_noted_at_a_change(monkeypatch):
    monkeypatch.setattr(Reconfiguration, "_note_loads", lambda self: None)
    with pytest.raises(AssertionError, match="uneven although the keys are even"):
        balanced_load_and_changes()
