"""The inputs of the band join: uniform values, and one output per 250,000 comparisons.

Oracle      The chances worked out by hand from the stated distributions; for pairs, a count of all.
Blind spot  Dependence between rows further apart than neighbours.
"""

import numpy as np
import pytest

from headrace_datasets import joins

N = 60_000


def columns(side: str, **parameters) -> dict[str, np.ndarray]:
    table = joins(n=N, side=side, **parameters).to_arrow()
    return {name: table[name].to_numpy() for name in table.schema.names}


@pytest.fixture(scope="module")
def left():
    return columns("left")


@pytest.fixture(scope="module")
def right():
    return columns("right")


def test_values_are_uniform(left, right):
    for values in (left["x"], left["y"], right["a"], right["b"]):
        assert values.min() >= 1
        assert values.max() <= 10_000
        share = np.histogram(values, bins=20, range=(1, 10_000))[0] / N
        assert share == pytest.approx(np.full(20, 0.05), rel=0.1)
    for integers in (left["x"], right["a"]):
        assert {1, 10_000} <= set(integers.tolist())  # both ends are drawn
    assert right["c"].mean() == pytest.approx(0.5, rel=0.02)
    assert right["d"].mean() == pytest.approx(0.5, rel=0.02)


def test_sides_and_columns_are_independent(left, right):
    pairs = [
        (left["x"], left["y"]),
        (right["a"], right["b"]),
        (left["x"], right["a"]),
        (left["x"][1:], left["x"][:-1]),
    ]
    for one, other in pairs:
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.02


def test_selectivity(left, right):
    # P(|x - a| <= 10) = (21 * 10_000 - 2 * (1 + ... + 10)) / 10_000**2
    # P(|y - b| <= 10) = 1 - (1 - 10 / 9_999)**2
    exact = (21 * 10_000 - 110) / 10_000**2 * (1 - (1 - 10 / 9_999) ** 2)
    assert exact == pytest.approx(1 / 250_000, rel=0.05)

    order = np.argsort(right["a"])
    a, b = right["a"][order], right["b"][order].astype(np.float64)
    begin = np.searchsorted(a, left["x"] - 10, side="left")
    count = np.searchsorted(a, left["x"] + 10, side="right") - begin
    near = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(begin, count)
    matches = (np.abs(np.repeat(left["y"].astype(np.float64), count) - b[near]) <= 10).sum()
    assert matches / N**2 == pytest.approx(exact, rel=0.05)  # about 15,000 pairs: 0.8 % is one deviation


@pytest.mark.parametrize("rate", [50.0, 1_000.0, 100_000.0])
def test_rate_and_gaps(rate):
    ts = columns("left", rate=rate)["ts"].astype(np.int64)
    assert (ts % 1_000 == 0).all()
    assert N / ((ts[-1] - ts[0]) / 1e6) == pytest.approx(rate, rel=0.03)
    # exponential gaps: neighbours in the same millisecond
    assert (np.diff(ts) == 0).mean() == pytest.approx(
        1 - (1 - np.exp(-rate / 1_000)) / (rate / 1_000), abs=0.01
    )


def test_both_sides_start_together(left, right):
    assert abs(left["ts"][0] - right["ts"][0]) < np.timedelta64(1, "s")
    assert not np.array_equal(left["ts"], right["ts"])
