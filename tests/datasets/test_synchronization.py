"""The streams of synchronization plans: eventwindow, pageviews, frauds, keycounts, plugs, connections.

Property    The two sides of a stream belong together: one event of the right after every so many of the left, at the time of
            the last of these. Shares and loads are those that were asked for, or measured on a real sample.
Oracle      The left side's own times; the reference of the applications; the sample itself, where HEADRACE_DATA names it.
Planted     A right side that is one event late.
Blind spot  Whether plugs resemble real ones over a day: the sample has 84 seconds.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from headrace.reference.synchronization_apps import keycounter, modelfraud
from headrace_datasets import connections, eventwindow, frauds, keycounts, occasional, pageviews, plugs
from planted_mistakes import planted

N = 100_000


def times(data):
    return data.to_arrow()["ts"].cast(pa.int64()).to_numpy()


def source(table):
    """Rows as the reference takes them, in microseconds."""
    ts = table["ts"].cast(pa.int64()).to_pylist()
    return [list(zip(ts, table.drop_columns("ts").to_pylist(), strict=True))]


def check_sides(make, every):
    """The right side has the times of the last of each `every` events of the left."""
    left = times(make(n=N, seed=3, every=every))
    right = times(make(n=N // every, seed=3, every=every, side="right"))
    assert (right == left[every - 1 :: every][: N // every]).all(), "the sides are not together"


@pytest.mark.parametrize("make", [eventwindow, pageviews, frauds])
@pytest.mark.parametrize("every", [1, 7, 10_000, 70_000])
def test_oracle_the_right_side_comes_after_every_so_many(make, every):
    check_sides(make, every)


def test_planted_mistake_is_found():
    with planted(occasional, "(every - 1 - block", "(every - block"), pytest.raises(AssertionError, match="together"):
        check_sides(eventwindow, 7)


def test_values_are_in_all_streams_alike():
    table = eventwindow(n=N, streams=4).to_arrow()
    assert np.bincount(table["stream"].to_numpy()) / N == pytest.approx([0.25] * 4, abs=0.01)
    assert table["x"].to_numpy().mean() == pytest.approx(500, abs=5)
    assert (times(eventwindow(n=N))[-1] - times(eventwindow(n=1))[0]) / 1e6 == pytest.approx(1, rel=0.02)  # the rate


@pytest.mark.parametrize("side", ["left", "right"])
def test_two_pages_are_hot(side):
    page = pageviews(n=N, side=side, every=1, hot_share=0.8, pages=50).to_arrow()["page"].to_numpy()
    share = np.bincount(page, minlength=50) / N
    assert share[:2] == pytest.approx([0.404, 0.404], abs=0.01) and share[2:] == pytest.approx([0.004] * 48, abs=0.002)
    assert set(pageviews(n=1_000, pages=1).to_arrow()["page"].to_pylist()) == {0}


def test_one_transaction_in_a_thousand_is_fraudulent():
    rows = modelfraud(source(frauds(n=N).to_arrow()), source(frauds(n=N // 10_000, side="right").to_arrow()))
    kinds = [row["kind"] for row in rows]
    assert kinds.count("rule") == 10 and kinds.count("fraud") / N == pytest.approx(0.001, abs=0.0005)


def test_counters_are_reset_now_and_then():
    table = keycounts(n=N, keys=20, skew=1.0, resets=0.01).to_arrow()
    rows = keycounter(source(table))
    assert len(rows) / N == pytest.approx(0.01, abs=0.002)
    assert np.mean([row["count"] for row in rows]) == pytest.approx(99, rel=0.1)
    share = np.bincount(table["key"].to_numpy(), minlength=20) / N
    assert share[0] / share[9] == pytest.approx(10, rel=0.1)


def loads(frame):
    """Load of each plug: mean, and deviation as a share of it."""
    of_plug = frame.groupby(["house", "household", "plug"])["load"]
    mean = of_plug.mean()
    return mean, (of_plug.std() / mean)[mean > 0]


def test_plugs_are_as_measured():
    frame = plugs(n=N, seed=5, houses=100, rate=2_000).to_pandas()
    mean, deviation = loads(frame)
    assert (mean == 0).mean() == pytest.approx(0.68, abs=0.03)
    assert mean[mean > 0].quantile([0.25, 0.5, 0.75]).tolist() == pytest.approx([13, 24, 60], rel=0.25)
    assert deviation.median() == pytest.approx(0.07, abs=0.01)
    households = frame.groupby("house")["household"].nunique()
    in_household = frame.groupby(["house", "household"])["plug"].nunique()
    assert households.min() == 2 and households.max() == 14 and len(households) == 100
    assert in_household.mean() == pytest.approx(7, abs=0.4) and in_household.max() == 13
    assert not np.signbit(frame["load"]).any()
    # each plug is read as often as any other, evenly
    readings = frame.groupby(["house", "household", "plug"]).size()
    assert readings.max() - readings.min() <= 1
    assert (frame["ts"].diff().dropna().dt.total_seconds().isin([0, 1])).all()


def test_plugs_have_a_wave_over_the_day():
    frame = plugs(n=N, seed=5, houses=1, rate=1, idle=0).to_pandas()
    hourly = frame.groupby(["household", "plug", frame["ts"].dt.hour])["load"].mean().unstack()
    swing = hourly.max(axis=1) / hourly.min(axis=1)
    assert swing.median() == pytest.approx(3, rel=0.2)  # (1 + 0.5) / (1 - 0.5)


def sample(name):
    """Where a real sample is."""
    folder = os.environ.get("HEADRACE_DATA")
    if folder is None or not Path(folder, name).is_file():
        pytest.skip(f"needs {name} in the folder that HEADRACE_DATA names")
    return Path(folder, name)


def test_plugs_are_like_the_sample():
    path = sample("smartgrid-data.txt.gz")
    columns = ["ts", "load", "property", "plug", "household", "house"]
    real = pd.read_csv(path, sep=r"\s+", header=None, names=columns)
    real_mean, real_deviation = loads(real[real["property"] == 1])
    mean, deviation = loads(plugs(n=N, seed=5, houses=100, rate=2_000).to_pandas())
    assert (mean == 0).mean() == pytest.approx((real_mean == 0).mean(), abs=0.03)
    used, real_used = mean[mean > 0], real_mean[real_mean > 0]
    for at in (0.25, 0.5, 0.75):
        assert used.quantile(at) == pytest.approx(real_used.quantile(at), rel=0.35)
    assert deviation.median() == pytest.approx(real_deviation.median(), rel=0.2)


def test_connections_are_as_asked_for():
    frame = connections(n=N, seed=5, rate=1, attacks=0.01).to_pandas()
    assert frame["attack"].mean() == pytest.approx(0.01, rel=0.1)
    attacked = frame[frame["attack"]]
    assert set(attacked["service"]) == {"telnet"} and attacked["src_bytes"].min() >= 10**7 and attacked["duration"].min() >= 100
    assert frame[~frame["attack"]]["src_bytes"].max() < 10**6
    assert not connections(n=N, attacks=0).to_pandas()["attack"].any()
    assert (frame["ts"].iloc[-1] - frame["ts"].iloc[0]).total_seconds() == pytest.approx(N, rel=0.02)


def test_connections_are_like_the_sample():
    names = ["ts", "duration", "protocol", "service", "flag", "src_bytes", "dst_bytes"]
    real = pd.read_csv(sample("kdd_sample_20k_ts.csv.gz"), header=None, usecols=range(7), names=names)
    made = connections(n=N, seed=5, attacks=0).to_pandas()
    for name in ("protocol", "service", "flag"):
        shares = made[name].value_counts(normalize=True)
        for value, share in real[name].value_counts(normalize=True).items():
            assert shares.get(value, 0) == pytest.approx(share, abs=0.004), value
    assert (made["duration"] == 0).mean() == pytest.approx((real["duration"] == 0).mean(), abs=0.01)
    for name in ("src_bytes", "dst_bytes"):
        for at in (0.25, 0.5, 0.75, 0.9):
            assert made[name].quantile(at) == pytest.approx(real[name].quantile(at), rel=0.3), (name, at)
