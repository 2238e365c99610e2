"""The cost model: costs found again in intervals that were made with them.

Property    costs are never negative; predictions for a number of threads that was seen are right, and
            those for one that was not say how unsure they are; noise shows in the error
Oracle      intervals computed from known costs
Cannot see  what a real machine's costs are: they change with the batch size, and the error says so
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.control.cost_model import CostModel, Prediction
from headrace.control.observation import Observation


def interval(threads, rate, scan, update, comparison, per_tuple=(4.0, 0.0), noise=0.0, rng=None, **more):
    """What is observed of threads with these costs in ns, at these updates and comparisons per tuple.

    `rate` in tuples per second, or None for one that keeps the threads busy for half of the time.
    """
    updates, compared = per_tuple
    tuple_ns = scan + (update * updates + comparison * compared) / threads
    rate = 0.5e9 / tuple_ns if rate is None else rate
    work = tuple_ns * rate
    busy = np.full(threads, work / 1e9) * (1.0 if rng is None else rng.normal(1.0, noise, threads))
    return Observation(
        at_s=0.0, interval_s=0.5, threads=threads, max_threads=64, utilisation=float(busy.mean()),
        thread_busy=tuple(busy), thread_loads=(updates * rate / 2 / threads,) * threads, cores=64,
        arrived=rate, processed=rate, updates=updates * rate, comparisons=compared * rate, **more,
    )  # fmt: skip


def trained(costs, threads=(1, 2, 4), samples=60, noise=0.0, per_tuple=((4.0, 0.0), (1.0, 0.0))):
    model, rng = CostModel(), np.random.default_rng(1)
    for i in range(samples):
        mix = per_tuple[i // len(threads) % len(per_tuple)]
        model.add(interval(threads[i % len(threads)], None, *costs, mix, noise, rng))
    return model


def test_example_costs_are_found_again():
    model = trained((50.0, 20.0, 0.5), samples=400, per_tuple=[(4.0, 0.0), (1.0, 300.0), (2.0, 40.0)])
    assert model.costs["scan_ns"] == pytest.approx(50, rel=0.02)
    assert model.costs["update_ns"] == pytest.approx(20, rel=0.05)
    assert model.costs["comparison_ns"] == pytest.approx(0.5, rel=0.02)
    assert model.error < 0.02 and model.is_trusted


def test_example_what_n_threads_give():
    """50 ns to read a tuple and 400 ns of updates: 2 threads do not do twice as much."""
    model = trained((50.0, 100.0, 0.0))
    now = interval(1, 1e6, 50, 100, 0)
    capacity = [model.predict(now, n).capacity for n in (1, 2, 4, 1_000)]
    assert capacity == pytest.approx([1e9 / 450, 1e9 / 250, 1e9 / 150, 64e9 / 50_400], rel=0.02)
    assert model.predict(now, 2).load == pytest.approx(1e6 * 250 / 1e9, rel=0.02)


def test_example_a_prediction_can_be_read():
    said = str(Prediction(2, 3_999_999.7, 0.253, 0.104))
    assert said == "2 threads: at most 4,000,000 tuples/s, a load of 25%, give or take 10% of both"
    assert str(Prediction(1, math.inf, 0.0, 1.0)).startswith("1 thread: at most inf tuples/s, a load of 0%")


def test_example_two_cores_share_four_threads():
    model = trained((0.0, 100.0, 0.0))
    now = interval(1, 1e6, 0, 100, 0)
    two = Observation(**{**now.__dict__, "cores": 2})
    assert model.predict(two, 4).capacity == pytest.approx(model.predict(two, 2).capacity, rel=0.02)


def test_what_cannot_be_told_apart_is_unsure():
    """With one thread, reading and updating always come together: right for one thread, vague for eight."""
    alone = trained((200.0, 50.0, 0.0), threads=(1,), per_tuple=[(4.0, 0.0)])
    both = trained((200.0, 50.0, 0.0), threads=(1, 8), per_tuple=[(4.0, 0.0)])
    now = interval(1, 1e5, 200, 50, 0)
    truth = 1e9 / (200 + 200 / 8)
    assert alone.predict(now, 1).capacity == pytest.approx(1e9 / 400, rel=0.02) and alone.predict(now, 1).error < 0.1
    assert both.predict(now, 8).capacity == pytest.approx(truth, rel=0.02)
    assert alone.predict(now, 8).error > 3 * both.predict(now, 8).error
    assert alone.predict(now, 8).error > 0.2


def test_noise_shows_in_the_error():
    calm, wild = (trained((50.0, 100.0, 0.0), noise=noise, samples=300) for noise in (0.02, 0.6))
    assert calm.error == pytest.approx(0.02, abs=0.01) and calm.is_trusted
    assert wild.error > 0.3 and not wild.is_trusted


def test_it_follows_costs_that_change():
    model = trained((50.0, 100.0, 0.0))
    for _ in range(1_000):
        model.add(interval(2, None, 50, 300, 0))
    now = interval(2, 1e5, 50, 300, 0)
    assert model.predict(now, 2).capacity == pytest.approx(1e9 / (50 + 600), rel=0.05)


def test_what_it_does_not_learn_from():
    model = CostModel()
    model.add(interval(1, 1e5, 50, 100, 0, is_changing=True))
    model.add(Observation(**{**interval(4, 1e5, 50, 100, 0).__dict__, "cores": 2}))
    model.add(interval(1, 1, 50, 100, 0))  # busy for less than 0.5 %
    assert model.samples == 0 and math.isnan(model.error) and not model.is_trusted


costs = st.floats(0, 500)


@settings(deadline=None, max_examples=25)
@given(costs, costs, st.floats(0, 5), st.lists(st.sampled_from([1, 2, 3, 8]), min_size=1, max_size=3), st.floats(0, 0.5))
def test_property_never_negative_and_right_where_it_was_seen(scan, update, comparison, threads, noise):
    if update + comparison < 0.1:
        return
    model = trained((scan, update, comparison), threads, 90, noise, [(4.0, 100.0), (1.0, 200.0)])
    assert all(cost >= 0 for cost in model.costs.values())
    for n in threads:
        now = interval(n, 1e5, scan, update, comparison, (1.0, 200.0))
        prediction = model.predict(now, n)
        truth = n * 1e9 / (n * scan + update + 200 * comparison)
        if noise == 0:
            assert prediction.capacity == pytest.approx(truth, rel=0.1)
        assert prediction.error >= 0 and prediction.capacity > 0
