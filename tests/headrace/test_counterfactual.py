"""Counterfactual replay: the same stream under several plans.

Property    each plan runs the whole stream and gives the same number of results; threads used, changes
            and regret are those of the plan; controllers start anew in each replay
Oracle      plans whose threads are known beforehand; figures added up by hand
Cannot see  which controller is better: a busy machine decides that
"""

import itertools
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace as hr
from headrace.changes import Change
from headrace.controllers import DecisionLog, Observation, Request, Threshold
from headrace.counterfactual import COLUMNS, Comparison, Replay, _delays_ms
from headrace.errors import ParameterError
from support.workloads import eventually

ROWS = 12_000
TABLE = pa.table({"ts": range(ROWS), "k": [i % 11 for i in range(ROWS)]})


def counts(source=TABLE):
    return hr.stream(source, event_time="ts").key_by("k").window(100).aggregate("counts", n=hr.count())


class Wishes:
    """Asks for each number of threads once, when it has the one before; once in its life."""

    def __init__(self, *threads):
        self.left, self.had = list(threads), 1

    def decide(self, observation):
        if not self.left or observation.is_changing or observation.threads != self.had:
            return None
        self.had = self.left.pop(0)
        return Request(threads=self.had, reason="wished")


@pytest.mark.slow
def test_plans_side_by_side():
    steps = hr.rates.phases([(0.5, 4_000), (0.5, 16_000), (1, 4_000)])
    once = Wishes(2)
    plans = {
        "one": 1, "two": 2, "by hand": [(0.0, 2)], "once": once, "back": Wishes(2, 1), "threshold": Threshold(),
    }  # fmt: skip
    asked = {"by hand": [2], "once": [2], "back": [2, 1]}

    def compared():
        """All that was asked for was done: a controller that is kept from its core sees a run of 2 s too seldom for that."""
        found = hr.compare_controllers(counts(), plans, rate=steps, max_threads=2, interval_s=0.05)
        done = {name: [change.to_threads for change in found.replays[name].changes] for name in asked}
        return found if done == asked else None

    found = eventually(compared)
    table = found.table
    assert list(table.index) == list(plans) and tuple(table.columns) == COLUMNS
    assert table["results"].nunique() == 1 and table["results"].iloc[0] == 11 * ROWS // 100
    assert table.loc["one", "mean_threads"] == pytest.approx(1) and table.loc["two", "mean_threads"] == pytest.approx(2)
    assert table.loc["one", "changes"] == table.loc["two", "changes"] == 0
    for name, threads in asked.items():
        assert 1 < table.loc[name, "mean_threads"] < 2 and table.loc[name, "turns"] == len(threads) - 1
    assert once.left == [2], "a copy was at work"
    assert (table["seconds"] >= steps.due_at(ROWS - 1) - 0.01).all(), "played at the given rate"
    assert (table["regret"] >= 0).all() and (table["regret"] == 0).sum() >= 1
    assert table["in_target"].between(0, 1).all() and (table["delay_p99_ms"] > 0).all()
    assert len(found.replays["once"].decisions.of_kind("request")) == 1
    assert found.replays["two"].quality.thread_seconds > 0
    assert "by hand" in str(found)


def test_what_cannot_be_compared():
    with pytest.raises(ParameterError, match="plans"):
        hr.compare_controllers(counts(), {}, rate=1_000)
    with pytest.raises(ParameterError, match="rate=None"):
        hr.compare_controllers(counts(), {"fixed": None}, rate=None)


# -- the figures ---------------------------------------------------------------


def observed(processed, interval_s=1.0):
    return Observation(at_s=0.0, interval_s=interval_s, threads=1, max_threads=4, utilisation=0.5, processed=processed)


def replay(seconds, thread_seconds, delays, processed=None, sizes=()):
    changes = [Change("counts", {"threads": a}, {"threads": b}) for a, b in itertools.pairwise(sizes)]
    processed = processed or [100.0] * len(delays)
    return Replay(
        seconds, thread_seconds, changes, DecisionLog(), [observed(n) for n in processed], np.array(delays),
        {"p50": 1.0, "p99": 2.0, "max": 3.0}, 7,
    )  # fmt: skip


def test_example_regret():
    #  cheap     1 thread,  4 s, half of it outside the target:   4 + 4 x 2 = 12
    #  generous  2 threads, 4 s, never outside:                   8 + 0     =  8
    found = Comparison(
        {"cheap": replay(4.0, 4.0, [5, 90, 90, 5]), "generous": replay(4.0, 8.0, [5, 5, 5, 5], sizes=(1, 3, 2, 4))},
        target_ms=50,
        penalty=4,
    )
    table = found.table
    assert table["cost"].tolist() == [12, 8] and table["regret"].tolist() == [4, 0]
    assert table["in_target"].tolist() == [0.5, 1.0] and table["mean_threads"].tolist() == [1, 2]
    assert table["turns"].tolist() == [0, 2] and table["changes"].tolist() == [0, 3]
    assert isinstance(table, pd.DataFrame)


def test_example_delay_counts_tuples_not_intervals():
    """An interval in which 3 % of the tuples came is in the 99th percentile, one with half a percent is not."""
    assert replay(3, 3, [5, 80, 6], [960, 30, 10]).delay_p99_ms == 80
    assert replay(3, 3, [5, 80, 6], [960, 5, 35]).delay_p99_ms == 6
    assert math.isnan(replay(1, 1, [], []).delay_p99_ms) and math.isnan(replay(1, 1, []).in_target(5))


def interval(at_s, interval_s, processed, pending):
    return Observation(
        at_s=at_s, interval_s=interval_s, threads=1, max_threads=2, utilisation=1.0, processed=processed, pending=pending
    )


def test_example_delay_of_an_interval_in_which_nothing_went_on():
    """What waits has waited for that interval more; it does not wait for ever."""
    seen = [interval(i, 0.5, *rate) for i, rate in enumerate([(1_000.0, 100), (0.0, 600), (0.0, 900), (1_000.0, 50)])]
    assert _delays_ms(seen) == [100.0, 600.0, 1_100.0, 50.0]


def test_example_no_delay_is_longer_than_what_is_left_of_the_run():
    """The process stood still for four seconds, in which next to nothing was processed; then it worked off what had piled up."""
    seen = [interval(1.0, 0.5, 1_000.0, 5), interval(5.0, 4.0, 20.0, 4_000), interval(5.5, 0.5, 8_000.0, 0)]
    assert _delays_ms(seen) == [5.0, 4_500.0, 0.0]
