"""Clicks in an online shop, in sessions: the input of queries 2 to 4 of TPCx-BB, run as ordered pipelines (Prasaad et al.).

Fitted to a real click stream of 31,106 clicks (retentioneering's e-commerce sample): clicks in a session mean 8.6, median 8,
95 % up to 19, 26 at most; gaps within a session median 86 s, quartiles 36 and 179 s, 95 % up to 444 s; a cart in 33.6 % of the
sessions, a purchase in 13 %; hours from 8 to 22. That stream names no items, and 22 % of its clicks view a product; here more
do, so that pairs of items are not rare. Users are skewed here; in that stream they are not.
"""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace_datasets.arrivals import daily, milliseconds_as_us
from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.events import call_of, stream_of
from headrace_datasets.interleaved import Columns, Part, Runs, first_rows
from headrace_datasets.keys import STEEPEST
from headrace_datasets.parameters import explains_arguments, number, share, whole_number
from headrace_datasets.randomness import stream, zipf

SCHEMA = pa.schema(
    {"ts": TIME, "user": pa.int64(), "session": pa.int64(), "item": pa.int64(), "kind": pa.string()}
)
KINDS = ("view", "search", "cart", "buy")
VIEW, SEARCH, CART, BUY = range(4)

START = np.datetime64("2024-01-01T00:00:00", "us").astype(np.int64)
HOURS = (*[2] * 8, 1788, 2489, 2179, 2220, 2509, 2328, 2284, 2252, 2168, 2174, 2204, 2071, 2034, 2124, 282, 2)
SESSIONS = 8_192  # in a part
MOST_CLICKS = 26
CLICKS_SHAPE, CLICKS_SCALE = 2.2, 3.7  # of a gamma distribution; a session has its whole part plus one
MEAN_CLICKS = 8.7  # including those that a cart adds
GAP_SHAPE, GAP_SCALE_S = 0.92, 128.0  # of a Weibull distribution
PAUSE_S = (3_300.0, 3_900.0)  # around an hour, the usual time-out
REST_S = 7_200.0  # a user's sessions are further apart than any pause within one
NEAR = 0.5  # share of the views that are near the item that the session is about
CANDIDATES = 8  # users drawn for a session: rarely are all of them in a session already
MOST = 1_000_000
USERS_PER_RATE = 2_000  # so that most users have no session at any time


@explains_arguments
def clicks(
    n: int = 1_000_000,
    seed: int = 7,
    rate: float = 0.1,
    *,
    users: int = 10_000,
    items: int = 1_000,
    skew: float = 0.6,
    views: float = 0.55,
    carts: float = 0.336,
    buys: float = 0.13,
    pauses: float = 0.02,
) -> Dataset:
    """Clicks of an online shop's users, in sessions that may be abandoned.

    Parameters
    ----------
    n : int
        Rows.
    seed : int
        Another seed gives other clicks.
    rate : float
        Clicks a second, on average; fewer at night. At the default, a million clicks take 116 days.
    users : int
        Users are numbered 0 to users - 1. At least 2,000 for each click a second, since no user has two sessions within two
        hours.
    items : int
        Items are numbered 0 to items - 1. Half of the views in a session are near one item.
    skew : float
        Zipf's exponent of users and items, of which low numbers are frequent; 0: all equally frequent. Few users come very
        often, since a user's sessions are hours apart.
    views : float
        Share of the clicks that view an item. Except for carts and purchases, the other clicks search, and have no item.
    carts, buys : float
        Share of the sessions that put the item just viewed into the cart, and share of the sessions that then buy it.
    pauses : float
        Share of the gaps within a session that last 55 to 65 minutes, around the usual time-out.

    Returns
    -------
    Dataset
        ts; user, session (numbered in the order in which sessions begin), int64; item, int64 or null; kind, "view", "search",
        "cart" or "buy". Event times are whole milliseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import clicks
    >>> clicks(n=1_000).schema.names
    ['ts', 'user', 'session', 'item', 'kind']
    """
    made = stream_of(n, seed, rate)
    for name, value in (("users", users), ("items", items)):
        made[name] = whole_number(name, value, minimum=1)
        if made[name] > MOST:
            raise ValueError(f"{name} is {value}; give at most {MOST}")
    if made["users"] < USERS_PER_RATE * made["rate"]:
        raise ValueError(
            f"rate is {rate}: that many clicks a second need more than users={users}; give at least"
            f" users={int(np.ceil(USERS_PER_RATE * made['rate']))}, or a rate of at most {made['users'] / USERS_PER_RATE:g}"
        )
    made["skew"] = number("skew", skew, 0.0, STEEPEST)
    made |= {name: share(name, value) for name, value in (("views", views), ("carts", carts), ("buys", buys), ("pauses", pauses))}
    if made["buys"] > made["carts"]:
        raise ValueError(f"buys is {buys}, more than carts={carts}, and every session that buys had a cart; give at most as much")
    return Dataset(call_of("clicks", **made), SCHEMA, partial(_blocks, **made))


def generate(n: int, seed: int, rate: float = 0.1, **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `clicks`, with its parameters, in blocks."""
    return clicks(n, seed, rate, **parameters).batches()


def _blocks(n: int, seed: int, **parameters: Any) -> Iterator[pa.RecordBatch]:
    kinds = pa.array(KINDS)

    def arrays(columns: Columns) -> list[pa.Array]:
        user, session, item, kind = (columns[name] for name in ("user", "session", "item", "kind"))
        return [pa.array(user), pa.array(session), pa.array(item, mask=kind == SEARCH), kinds.take(pa.array(kind))]

    return first_rows(n, _parts(seed, **parameters), SCHEMA, arrays)


def _parts(
    seed: int, rate: float, users: int, items: int, skew: float, views: float, carts: float, buys: float, pauses: float
) -> Iterator[Part]:
    clock = daily(HOURS, rate / MEAN_CLICKS)
    by_user, by_item = zipf(users, skew), zipf(items, skew)
    free_s = [0.0] * users
    session_count = 0
    for part in itertools.count():
        rng = stream(seed, part)
        begins_s = clock.after(rng.standard_exponential(SESSIONS))
        lot = rng.random(SESSIONS)
        has_bought, has_cart = lot < buys, lot < carts
        sizes = _sizes(rng, has_cart, has_bought)
        runs = Runs(sizes)
        gaps_s = GAP_SCALE_S * rng.weibull(GAP_SHAPE, len(runs.run))
        is_pause = rng.random(len(runs.run)) < pauses
        gaps_s[is_pause] = rng.uniform(*PAUSE_S, int(is_pause.sum()))
        seconds = runs.times(begins_s, gaps_s)
        ends_s = seconds[runs.first + sizes - 1]
        user = _of_free_users(by_user.draw(rng, SESSIONS * CANDIDATES), begins_s, ends_s, free_s)

        wanted = by_item.draw(rng, SESSIONS).astype(np.int64)
        item = by_item.draw(rng, len(runs.run)).astype(np.int64)
        near = (wanted[runs.run] + rng.geometric(0.2, len(runs.run)) - 1) % items
        item = np.where(rng.random(len(runs.run)) < NEAR, near, item)
        kind = np.where(rng.random(len(runs.run)) < views, VIEW, SEARCH).astype(np.int8)
        # the item put into the cart is that of the click before; the item bought is the one in the cart
        cart = 1 + _below(rng, np.maximum(sizes - 1 - has_bought, 1))
        bought = cart + 1 + _below(rng, np.maximum(sizes - 1 - cart, 1))
        at, buying = (runs.first + cart)[has_cart], (runs.first + bought)[has_bought]
        kind[at - 1], kind[at], kind[buying] = VIEW, CART, BUY
        item[at] = item[at - 1]
        item[buying] = item[(runs.first + cart)[has_bought]]

        is_there = user >= 0
        session = session_count + np.cumsum(is_there) - 1
        session_count += int(is_there.sum())
        rows = is_there[runs.run]
        yield Part(
            int(START + milliseconds_as_us(begins_s[-1:])[0]),
            {
                "ts": (START + milliseconds_as_us(seconds))[rows],
                "user": user[runs.run][rows],
                "session": session[runs.run][rows],
                "item": item[rows],
                "kind": kind[rows],
            },
        )


def _sizes(rng: np.random.Generator, has_cart: NDArray[np.bool_], has_bought: NDArray[np.bool_]) -> NDArray[np.int64]:
    drawn = 1 + rng.gamma(CLICKS_SHAPE, CLICKS_SCALE, len(has_cart)).astype(np.int64)
    return np.clip(drawn, 1 + has_cart + has_bought, MOST_CLICKS)  # a view, a cart, a purchase


def _below(rng: np.random.Generator, count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each count a random whole number from 0 to count - 1."""
    return (rng.random(len(count)) * count).astype(np.int64)


def _of_free_users(
    drawn: NDArray[np.int32], begins_s: NDArray[np.float64], ends_s: NDArray[np.float64], free_s: list[float]
) -> NDArray[np.int64]:
    """Give each session its first candidate who is free then, else the next free user after them; -1 if none is.

    Parameters
    ----------
    drawn : int32[sessions * CANDIDATES]
    free_s : list of float
        When each user may come again. Updated here.
    """
    chosen = np.full(len(begins_s), -1, np.int64)
    users = len(free_s)
    # a plain loop: which users are free depends on all earlier sessions, and there are eight times as many rows
    for at, (candidates, begin, end) in enumerate(
        zip(drawn.reshape(-1, CANDIDATES).tolist(), begins_s.tolist(), ends_s.tolist(), strict=True)
    ):
        others = (user % users for user in range(candidates[-1] + 1, candidates[-1] + users))
        user = next((user for user in itertools.chain(candidates, others) if free_s[user] <= begin), None)
        if user is not None:
            free_s[user] = end + REST_S
            chosen[at] = user
    return chosen
