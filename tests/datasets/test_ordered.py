"""The streams of the ordered applications: clicks, store_sales, calls, item_sales and item_categories.

Property    Sessions, tickets and places hang together as they should; shares, gaps, lengths, hours and amounts are those that
            were measured on real samples, or asked for; the applications find in them what was put there, and nothing else.
Oracle      The measured quantiles; the reference of the applications; the samples themselves, where HEADRACE_DATA names them.
Planted     Rows out of order, sessions of one user at the same time, other items in the cart, places that jump.
Blind spot  Dependence between users, items and hours.
"""

import importlib
import os
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from headrace.reference.ordering_apps import (
    abandoned,
    declining,
    mobility,
    sold_together,
    viewed_before,
    viewed_together,
)
from headrace_datasets import calls, clicks, item_categories, item_sales, store_sales
from headrace_datasets.arrivals import SHOP_HOURS
from headrace_datasets.interleaved import Part, Runs, in_order
from planted_mistakes import fails, planted

N = 60_000
HOUR_S, DAY_S = 3_600, 86_400


def seconds(table):
    return table["ts"].cast(pa.int64()).to_numpy() / 1e6


def source(table):
    """Rows as the reference takes them, in microseconds."""
    ts = table["ts"].cast(pa.int64()).to_pylist()
    return [list(zip(ts, table.drop_columns("ts").to_pylist(), strict=True))]


def quantiles(values, *at):
    return np.quantile(values, at).tolist()


def by_group(table, name):
    """Groups of row numbers, in order, by the values of a column."""
    values = table[name].to_numpy()
    order = np.argsort(values, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(values[order])) + 1)


# -- rows in one order ----------------------------------------------------------------------------------------


def check_in_order():
    rng = np.random.default_rng(5)
    begin, parts = 0, []
    for _ in range(20):
        begins = begin + np.sort(rng.integers(0, 50, 30))
        sizes = rng.integers(1, 6, 30)
        runs = Runs(sizes)
        ts = runs.times(begins.astype(float), rng.integers(0, 90, len(runs.run)).astype(float)).astype(np.int64)
        assert (ts[runs.first] == begins).all(), "a run begins with its beginning"
        begin = int(begins[-1])
        parts.append(Part(begin, {"ts": ts, "row": len(parts) * 1_000 + np.arange(len(ts))}))
    rows = [np.column_stack([part.columns["ts"], part.columns["row"]]) for part in parts]
    expected = sorted(map(tuple, np.concatenate(rows).tolist()))
    found = [row for columns in in_order(iter(parts)) for row in zip(*(columns[n].tolist() for n in ("ts", "row")), strict=True)]
    assert len(found) > 1_000 and found == expected[: len(found)], "not in order"


def test_oracle_rows_of_many_at_once_are_in_order():
    check_in_order()


# -- clicks ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop():
    return clicks(n=N, seed=3, users=2_000).to_arrow()


def check_sessions(table):
    """A session is one user's; sessions of a user are two hours apart; their numbers are by their beginnings."""
    ts, user, session = seconds(table), table["user"].to_numpy(), table["session"].to_numpy()
    begins = [ts[rows[0]] for rows in by_group(table, "session")]
    assert all(len(set(user[rows])) == 1 for rows in by_group(table, "session")), "several users"
    assert begins == sorted(begins) and len(begins) == session.max() + 1, "not numbered by their beginnings"
    for rows in by_group(table, "user"):
        is_new = np.diff(session[rows]) != 0
        gaps = np.diff(ts[rows])
        assert (gaps[is_new] >= 2 * HOUR_S - 0.002).all(), "sessions of one user at the same time"
        assert (gaps[~is_new] <= 65 * 60 + 0.002).all(), "a gap beyond all pauses"


def check_carts(table):
    """What is put into the cart was viewed just before, what is bought is in the cart; a search has no item."""
    item, kind = np.array(table["item"].to_pylist(), object), np.array(table["kind"].to_pylist())
    assert set(kind) == {"view", "search", "cart", "buy"}
    assert ([one is None for one in item] == (kind == "search")).all(), "nulls"
    for rows in by_group(table, "session"):
        at = np.flatnonzero(kind[rows] == "cart")
        assert len(at) <= 1
        if len(at) and at[0] > 0:
            assert kind[rows[at[0] - 1]] == "view" and item[rows[at[0] - 1]] == item[rows[at[0]]], "another item in the cart"
        bought = np.flatnonzero(kind[rows] == "buy")
        if len(bought):
            assert len(at) and len(bought) == 1 and bought[0] > at[0], "bought without a cart"
            assert item[rows[bought[0]]] == item[rows[at[0]]], "another item bought"


def test_clicks_come_in_sessions(shop):
    check_sessions(shop)
    check_carts(shop)


def test_clicks_are_as_measured(shop):
    sizes = [len(rows) for rows in by_group(shop, "session")][:-500]  # the last ones go on after the end
    assert np.mean(sizes) == pytest.approx(8.6, rel=0.05)
    assert quantiles(sizes, 0.5, 0.95) == pytest.approx([8, 19], abs=1) and max(sizes) == 26
    ts, kind = seconds(shop), np.array(shop["kind"].to_pylist())
    gaps = np.concatenate([np.diff(ts[rows]) for rows in by_group(shop, "session")])
    assert quantiles(gaps[gaps < 3_000], 0.25, 0.5, 0.75, 0.95) == pytest.approx([36, 86, 179, 444], rel=0.1)
    paused = (gaps > 55 * 60).mean()
    assert paused == pytest.approx(0.02, abs=0.003) and ((gaps > HOUR_S).mean() / paused) == pytest.approx(0.5, abs=0.05)
    of = {name: [(kind[rows] == name).any() for rows in by_group(shop, "session")][:-500] for name in ("cart", "buy")}
    assert np.mean(of["cart"]) == pytest.approx(0.336, abs=0.02) and np.mean(of["buy"]) == pytest.approx(0.13, abs=0.015)
    assert (kind == "view").mean() == pytest.approx(0.55, abs=0.02)
    hours = np.bincount((ts % DAY_S // HOUR_S).astype(int), minlength=24) / N
    assert hours[9:22].min() > 0.05 and hours[:8].max() < 0.005 and hours[23] < 0.02
    assert ts[-1] - ts[0] == pytest.approx(N / 0.1, rel=0.05), "the rate"


def test_clicks_of_few_users_and_items():
    busy = clicks(n=N, seed=2, users=200, rate=0.1, items=5, skew=0.8).to_arrow()
    check_sessions(busy)
    assert set(busy["item"].to_pylist()) == {None, *range(5)}
    took = seconds(busy)[-1] - seconds(busy)[0]
    assert took == pytest.approx(N / 0.1, rel=0.05), "sessions were given up for want of users"
    skewed = clicks(n=N, seed=2, skew=1.2).to_arrow()
    for name, least in (("user", 0.005), ("item", 0.05)):  # nobody can come more than some times a day
        share = np.bincount(skewed[name].drop_null().to_numpy())
        assert share.argmax() < 5 and share.max() / share.sum() > least, name
    for views, expected in ((0, "search"), (1, "view")):
        assert set(clicks(n=500, views=views, carts=0, buys=0).to_arrow()["kind"].to_pylist()) == {expected}
    everyone = clicks(n=2_000, carts=1, buys=1, pauses=0).to_arrow()
    kinds = everyone["kind"].to_pylist()
    assert kinds.count("cart") > 150 and kinds.count("buy") > 150


def test_the_applications_find_sessions_in_clicks(shop):
    rows = abandoned(source(shop), timeout="90min", unit="us")
    kind = np.array(shop["kind"].to_pylist())
    lost = [("cart" in kind[rows]) and ("buy" not in kind[rows]) for rows in by_group(shop, "session")]
    user = [shop["user"][int(rows[0])].as_py() for rows in by_group(shop, "session")]
    is_last = [who not in user[at + 1 :] for at, who in enumerate(user)]
    assert len(rows) == sum(one and not last for one, last in zip(lost, is_last, strict=True)) > 500
    assert len(abandoned(source(shop), unit="us")) != len(rows), "at an hour, pauses cut some"
    few = source(shop.slice(0, 20_000))
    days = {row["ts"] for row in viewed_together(few, unit="us")}
    assert len(days) == 3 and len(viewed_before(few, unit="us")) > 100


# -- store sales ----------------------------------------------------------------------------------------------


def test_store_sales_are_as_measured():
    table = store_sales(n=N, seed=3).to_arrow()
    ts, item = seconds(table), np.array(table["item"].to_pylist(), float)
    tickets = by_group(table, "ticket")
    sizes = np.array([len(rows) for rows in tickets][:-50])
    assert sizes.min() == 8 and sizes.max() == 16 and np.bincount(sizes)[8:].min() > 0.09 * len(sizes)
    assert np.isnan(item).mean() == pytest.approx(0.01, abs=0.002)
    again = np.concatenate([np.diff(item[rows]) == 0 for rows in tickets])
    assert again.mean() == pytest.approx(0.031, abs=0.005)
    assert np.concatenate([np.diff(ts[rows]) for rows in tickets]).mean() == pytest.approx(4.0, rel=0.05)
    assert [ts[rows[0]] for rows in tickets] == sorted(ts[rows[0]] for rows in tickets)
    assert np.mean([rows[-1] - rows[0] >= len(rows) for rows in tickets]) > 0.9, "tickets do not go on at the same time"
    ts = seconds(store_sales(n=5 * N, seed=3).to_arrow())
    ts = ts[ts < ts[0] // DAY_S * DAY_S + 3 * DAY_S]  # whole days
    hours = np.bincount((ts % DAY_S // HOUR_S).astype(int), minlength=24)
    assert hours / len(ts) == pytest.approx(np.array(SHOP_HOURS) / sum(SHOP_HOURS), abs=0.01)
    counts = np.sort(np.bincount(table["item"].drop_null().to_numpy()))
    assert len(counts) == 1_000 and 3 < counts[-5] / counts[5] < 20  # there, 362 to 45


def test_store_sales_have_pairs_and_tickets_across_the_hour():
    table = store_sales(n=20_000, seed=3, items=20, twice=0.3).to_arrow()
    hour = seconds(table) // HOUR_S
    assert any(len(set(hour[rows])) == 2 for rows in by_group(table, "ticket"))
    rows = sold_together(source(table), unit="us")
    assert max(row["count"] for row in rows) > 20 and max(row["rank"] for row in rows) == 100
    assert store_sales(n=500, nulls=0).to_arrow()["item"].null_count == 0
    assert store_sales(n=500, nulls=1).to_arrow()["item"].null_count == 500


# -- calls ----------------------------------------------------------------------------------------------------


def check_calls(impossible=0.0, **given):
    """No phone jumps that was not made to; numbers and areas hang together."""
    table = calls(n=20_000, seed=3, phones=500, impossible=impossible, **given).to_arrow()
    caller, callee, area = (table[name].to_numpy() for name in ("caller", "callee", "area"))
    assert (caller != callee).all() and (caller // 10**7 == area).all(), "numbers"
    assert 200 <= area.min() and (caller < 10**10).all()
    assert len(set(caller) | set(callee)) == 500
    found = mobility(source(table), speed=20 if not impossible else 900, unit="us")
    return sum(row["frauds"] for row in found)


def test_calls_are_from_where_phones_can_be():
    assert check_calls() == 0
    assert check_calls(rate=1e6, areas=1) == 0
    assert check_calls(rate=0.5, skew=0) == 0


def test_some_calls_are_from_where_nobody_can_be():
    planned = 0.01 * 20_000
    # there and back, but for what comes long after
    assert planned < check_calls(impossible=0.01) < 2.3 * planned
    table = calls(n=N, seed=3).to_arrow()
    for name, least, most in (("caller_lat", 16, 58), ("callee_lat", 26, 48), ("caller_lon", -122, -70)):
        assert least < np.min(table[name]) and np.max(table[name]) < most, name
    spread = [np.std(table["callee_lat"].to_numpy()[table["callee"].to_numpy() // 10**7 == area]) for area in range(200, 300)]
    assert np.median(spread) == pytest.approx(0.28, rel=0.15)
    count = np.sort(np.bincount(np.unique(table["caller"].to_numpy(), return_inverse=True)[1]))[::-1]
    weights = np.arange(1, 50_001) ** -0.9
    assert count[0] / N == pytest.approx(weights[0] / weights.sum(), rel=0.1), "not Zipf's law"


# -- item sales -----------------------------------------------------------------------------------------------


def test_item_sales_are_as_measured():
    table = item_sales(n=N, seed=3, trend=0).to_arrow()
    amount, hours = table["amount"].to_numpy() / 100, np.bincount((seconds(table) % DAY_S // HOUR_S).astype(int), minlength=24)
    assert quantiles(amount, 0.25, 0.5, 0.75, 0.95) == pytest.approx([251, 908, 2_377, 6_368], rel=0.12)
    assert amount.mean() == pytest.approx(1_746, rel=0.05) and amount.min() >= 0.01 and amount.max() < 18_500
    assert hours / N == pytest.approx(np.array(SHOP_HOURS) / sum(SHOP_HOURS), abs=0.02)
    assert seconds(table)[-1] - seconds(table)[0] == pytest.approx(N / 0.1, rel=0.05)
    assert set(table["item"].to_pylist()) == set(range(1_000))


def test_categories_decline_that_were_made_to():
    shop = item_categories(n=100, seed=3, without=0.1).to_arrow()
    category = np.array(shop["category"].to_pylist(), float)
    assert np.nanmin(category) == 1 and np.nanmax(category) == 10
    sales = item_sales(n=N, seed=3, rate=0.02, items=100, trend=0.5, without=0.1).to_arrow()
    assert max(sales["item"].to_pylist()) == 99
    last_days = source(sales)[0][-1][0] - 10**6 * DAY_S
    found = {row["category"] for row in declining(source(sales), shop.to_pylist(), unit="us") if row["ts"] > last_days}
    made = {one for one in range(1, 11) if one % 4 in (0, 1)}
    assert not found & {3, 7} and made <= found
    other = item_categories(n=100, seed=4, without=0.1).to_arrow()
    assert other["category"] != shop["category"] and shop["category"].null_count in range(3, 20)
    assert np.max(shop["ts"]) < np.min(sales["ts"])


def test_amounts_have_ends():
    long = item_sales(n=N, seed=3, rate=0.001, trend=0.9, items=50).to_arrow()
    assert long["amount"].null_count == 0 and 1 == np.min(long["amount"].to_numpy()) < np.max(long["amount"].to_numpy()) < 10**10


# -- planted mistakes -----------------------------------------------------------------------------------------


def module(name):
    return importlib.import_module(f"headrace_datasets.{name}")


@pytest.mark.parametrize(
    "where, text, mistake, check, expected",
    [
        ("interleaved", "order[ready:]", "order[ready + 1 :]", check_in_order, "not in order"),
        ("interleaved", "until))", "until) + 3)", check_in_order, "not in order"),
        ("interleaved", "passed[self.first][self.run]", "passed[0]", check_in_order, "a run begins with its beginning"),
        ("clicks", "if free_s[user] <= begin)", ")", lambda: check_sessions(clicks(n=N, users=2_000).to_arrow()),
         "sessions of one user at the same time"),
        ("clicks", "= end + REST_S", "= end", lambda: check_sessions(clicks(n=N, users=2_000).to_arrow()),
         "sessions of one user at the same time"),
        ("clicks", "item[at] = item[at - 1]", "item[at] = item[at]", lambda: check_carts(clicks(n=5_000).to_arrow()),
         "another item in the cart"),
        ("clicks", "cart + 1 + _below", "cart + _below", lambda: check_carts(clicks(n=5_000).to_arrow()),
         "bought without a cart"),
        ("clicks", "sizes - 1 - has_bought", "sizes - 1", lambda: check_carts(clicks(n=5_000).to_arrow()),
         "bought without a cart"),
        ("calls", "(callee + 1) % phones", "callee", check_calls, "numbers"),
        ("calls", "np.arange(phones) * STRIDE", "np.arange(phones) * 0", check_calls, "numbers"),
        ("calls", "+ self._phase[phone]", "+ np.arange(len(phone))", lambda: check_still(), "phones that jump"),
    ],
)  # fmt: skip
def test_planted_mistakes_are_found(where, text, mistake, check, expected):
    with planted(module(where), text, mistake), fails(f"AssertionError: {expected}"):
        check()


def check_still():
    assert check_calls() == 0, "phones that jump"


# -- the samples ----------------------------------------------------------------------------------------------


def sample(query, name):
    folder = os.environ.get("HEADRACE_DATA")
    if folder is None or not Path(folder, name).is_file():
        pytest.skip(f"needs {name} in the folder that HEADRACE_DATA names")
    return duckdb.sql(query.format(file=str(Path(folder, name)))).fetchnumpy()


def shop_hours():
    """The hour of each of TPC-DS' store sales."""
    real = sample("SELECT ss_sold_time_sk AS s FROM '{file}' WHERE s IS NOT NULL", "tpcds_sf001_store_sales.parquet")
    return np.asarray(real["s"]) // HOUR_S


def counts(values):
    return np.unique(values, return_counts=True)[1]


def distance(a, b):
    """The largest difference of two distributions (Kolmogorov and Smirnov)."""
    at = np.concatenate([a, b])
    return np.abs(np.searchsorted(np.sort(a), at, "right") / len(a) - np.searchsorted(np.sort(b), at, "right") / len(b)).max()


def test_clicks_are_like_the_sample(shop):
    real = sample(
        'SELECT session_id AS s, epoch("timestamp") AS t FROM read_csv(\'{file}\') ORDER BY s, t',
        "retentioneering_ecom_clickstream.csv.gz",
    )
    is_new = real["s"][1:] != real["s"][:-1]
    sizes = np.diff(np.flatnonzero(np.concatenate([[True], is_new, [True]])))
    ours = by_group(shop, "session")[:-500]
    assert distance(sizes, np.array([len(rows) for rows in ours])) < 0.08
    ts = seconds(shop)
    gaps = np.concatenate([np.diff(ts[rows]) for rows in ours])
    assert distance(np.diff(real["t"])[~is_new], np.rint(gaps[gaps < 3_000])) < 0.05


def test_amounts_are_like_the_sample():
    real = sample("SELECT ss_net_paid::DOUBLE AS x FROM '{file}' WHERE x > 0", "tpcds_sf001_store_sales.parquet")
    ours = item_sales(n=N, seed=3, trend=0).to_arrow()["amount"].to_numpy() / 100
    assert distance(np.asarray(real["x"]), ours) < 0.05
    sales = item_sales(n=N, seed=3, rate=N / (4 * DAY_S), trend=0).to_arrow()  # whole days
    assert distance(shop_hours(), seconds(sales) % DAY_S // HOUR_S) < 0.05


def test_store_sales_are_like_the_sample():
    """Lines of a ticket, hours, and how much more often the most frequent item is sold than the least frequent one."""
    real = sample("SELECT ss_ticket_number AS ticket, ss_item_sk AS item FROM '{file}'", "tpcds_sf001_store_sales.parquet")
    table = store_sales(n=N, seed=3, rate=N / (4 * DAY_S), items=len(np.unique(real["item"])), nulls=0).to_arrow()
    lines = [len(rows) for rows in by_group(table, "ticket")][:-50]  # the last ones go on after the end
    assert distance(counts(real["ticket"]), np.array(lines)) < 0.05
    assert distance(shop_hours(), seconds(table) % DAY_S // HOUR_S) < 0.05
    ratios = [each.max() / each.min() for each in (counts(real["item"]), counts(table["item"].to_numpy()))]
    assert ratios[1] == pytest.approx(ratios[0], rel=0.5)  # a small factor: 8 there


def kurtosis(values):
    """The fourth moment over the square of the second one."""
    off = values - values.mean()
    return np.mean(off**4) / np.mean(off**2) ** 2


def test_calls_are_like_the_sample():
    """How far places are from the middle of an area, on average; that they fill a square evenly (kurtosis 1.8, and not 3 as
    of a normal distribution); hours. How a phone moves is not what is fitted."""
    real = sample(
        "SELECT epoch(column4) AS t, column6 AS lat, column7 AS lon FROM read_csv('{file}')", "bandicoot_u_test_cdr.csv"
    )
    table = calls(n=N, seed=3, rate=N / (4 * DAY_S), skew=0, impossible=0).to_arrow()  # each phone as often as the others
    area = table["callee"].to_numpy() // 10**7
    for name in ("lat", "lon"):
        places = table[f"callee_{name}"].to_numpy()
        off = np.concatenate([places[area == one] - places[area == one].mean() for one in np.unique(area)])
        assert off.std() == pytest.approx(real[name].std(), rel=0.05), name
        assert kurtosis(off) == pytest.approx(kurtosis(real[name]), rel=0.1), name
    assert distance(real["t"] % DAY_S // HOUR_S, seconds(table) % DAY_S // HOUR_S) < 0.05
