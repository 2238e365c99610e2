"""Trades: a rate that changes abruptly, and prices with hedges among them.

Property    The rate has the distribution, the memory and the daily course of the day it was fitted to; trades
            come in clusters; some pairs, not many, satisfy the hedge predicate.
Oracle      Quantiles and autocorrelations measured on a day of four symbols; averages recomputed from prices.
Blind spot  How real prices move.
"""

from itertools import islice

import numpy as np
import pyarrow as pa
import pytest

from headrace_datasets import trades
from headrace_datasets.trades import MEAN_OF_PEAK, MEASURED_PEAK, SESSION_S, rate_shape


@pytest.fixture(scope="module")
def seconds():
    """Rates of 60 trading days, in trades a second as measured."""
    return MEASURED_PEAK * np.array(list(islice(rate_shape(1), 60)))


def columns(table: pa.Table) -> dict[str, np.ndarray]:
    return {name: table[name].to_numpy() for name in table.schema.names}


@pytest.fixture(scope="module")
def days():
    """A small market, in which some days go by quickly."""
    return columns(trades(n=600_000, seed=5, peak=400).to_arrow())


def test_rates_have_the_measured_distribution(seconds):
    assert seconds.mean() == pytest.approx(16.1, rel=0.1)
    assert seconds.mean() / MEASURED_PEAK == pytest.approx(MEAN_OF_PEAK, rel=0.05)
    assert seconds.max() == MEASURED_PEAK
    quantiles = np.quantile(seconds, [0.5, 0.75, 0.9, 0.99])
    assert quantiles == pytest.approx([5, 17, 42, 151], rel=0.3)
    bursts = (seconds > 10 * seconds.mean()).sum(axis=1).mean()
    assert bursts == pytest.approx(188, rel=0.25)


def test_rates_remember(seconds):
    centred = seconds - seconds.mean(axis=1, keepdims=True)
    lags = {1: 0.24, 2: 0.18, 5: 0.15, 10: 0.14, 30: 0.12, 60: 0.10, 300: 0.09}
    measured = [(centred[:, lag:] * centred[:, :-lag]).mean() / centred.var() for lag in lags]
    assert measured == pytest.approx(list(lags.values()), abs=0.04)


def test_opening_and_close_are_busy(seconds):
    half_hours = seconds.reshape(60, 13, -1).mean(axis=(0, 2))
    assert half_hours / half_hours.sum() == pytest.approx(
        np.array([15.4, 11.7, 7.2, 7.2, 5.9, 3.7, 4.7, 5.0, 4.0, 6.1, 4.6, 6.5, 18.0]) / 100, rel=0.2
    )


def test_up_to_8000_a_second_and_abruptly():
    ts = trades(n=2_000_000, seed=7).to_arrow()["ts"].cast(pa.int64()).to_numpy()
    per_second = np.bincount((ts - ts[0]) // 1_000_000)
    assert 6_000 < per_second.max() < 9_000
    assert per_second.max() > 20 * np.median(per_second)
    change = np.abs(np.diff(per_second))
    assert (change > 1_000).sum() > 50  # from one second to the next


def test_trades_come_in_clusters():
    """Half of the trades belong to the same order as the one before, at every rate."""
    ts = trades(n=300_000, seed=2, peak=100).to_arrow()["ts"].cast(pa.int64()).to_numpy()
    assert (ts % 1_000 == 0).all()
    assert (np.diff(ts) == 0).mean() == pytest.approx(0.5, rel=0.1)


def test_trading_hours(days):
    since_opening = (days["ts"].astype("datetime64[us]") - np.timedelta64(13 * 60 + 30, "m")).astype(np.int64)
    second = since_opening // 1_000_000 % 86_400
    assert second.max() < SESSION_S
    assert len(np.unique(since_opening // 86_400_000_000)) >= 2


def test_average_is_that_of_the_day_before(days):
    day = days["ts"].astype("datetime64[D]")
    known = days["average"] != 0
    for before, today in zip(np.unique(day), np.unique(day)[1:], strict=False):
        for stock in range(1, 11):
            earlier = days["price"][(day == before) & (days["id"] == stock)]
            stated = np.unique(days["average"][(day == today) & (days["id"] == stock) & known])
            if len(earlier) and len(stated):
                assert stated.tolist() == [earlier.sum() // len(earlier)]


def test_prices_are_positive_whole_cents_near_the_average(days):
    assert set(np.unique(days["id"])) == set(range(1, 11))
    assert (days["price"] > 0).all()
    assert (days["price"] % 100 == 0).all()
    known = days["average"] != 0
    assert (~known).mean() == pytest.approx(1e-4, rel=0.5)  # one in 10,000: 60 rows
    distance = days["price"][known] / days["average"][known] - 1
    assert np.abs(distance).max() < 0.1


@pytest.mark.parametrize("seed", [0, 7, 23])
def test_hedges_are_some_but_few(seed):
    """Of the pairs within the first seconds, between one in 100,000 and one in 100 is a hedge."""
    data = columns(trades(n=20_000, seed=seed).to_arrow())
    pair = np.random.default_rng(1).integers(0, 20_000, (2, 1_000_000))
    left, right = ({name: values[rows] for name, values in data.items()} for rows in pair)
    use = (left["average"] != 0) & (right["average"] != 0) & (left["id"] != right["id"])
    nd_left, nd_right = (
        (t["price"][use] - t["average"][use]) / t["average"][use].astype(np.float64) for t in (left, right)
    )
    ratio = np.divide(nd_right, nd_left, out=np.zeros(use.sum()), where=nd_left != 0)
    share = ((ratio >= -1.05) & (ratio <= -0.95)).sum() / len(use)
    assert 1e-5 < share < 1e-2


def test_a_price_may_equal_its_average():
    """The normalized distance is then 0, and may not be divided by."""
    data = columns(trades(n=1_000_000, seed=7).to_arrow())
    assert (data["price"] == data["average"]).any()
