"""The six ordered applications as chains of stages of the reference, in the manner of the paper's Table 1.

Written independently of `headrace.reference.ordering_apps`, which has no stages, so that each confirms the other. A chain
takes the width of its windows in the unit of the event times; items are 0 to 999, so that a pair is one number.
"""

from __future__ import annotations

import math

import headrace as hr
from headrace.reference.ordering import Filter, FlatMap, Map, Partitioned, Stateful, ordered
from headrace.reference.ordering_apps import haversine

ITEMS = 1_000
INTS = hr.map_of("int64", "int64")


def whole(*names):
    return Filter(lambda t: all(getattr(t, name) is not None for name in names))


def _ranked(top, width):
    """SF of queries 1 and 2: the highest count of each pair, for each window; emitted when the window is over."""

    def tell(state, emit):
        order = sorted((-n, pair) for pair, n in state.counts.items())[:top]
        for at, (n, pair) in enumerate(order, start=1):
            emit(ts=(state.window + 1) * width, rank=at, a=pair // ITEMS, b=pair % ITEMS, count=-n)

    def update(state, t, emit):
        if t.window != state.window:
            tell(state, emit)
            state.counts.clear()
            state.window = t.window
        state.counts[t.pair] = t.n

    return Stateful(update, {"window": "int64", "counts": INTS}, ["rank", "a", "b", "count"], end=tell)


def _counted():
    """PS of queries 1 and 2: counts a pair within its window."""

    def update(state, t, emit):
        if t.window != state.window:
            state.window, state.n = t.window, 0
        state.n += 1
        emit(window=t.window, pair=t.pair, n=state.n)

    return Partitioned(update, "pair", {"window": "int64", "n": "int64"}, ["window", "pair", "n"])


def sold_together(sources, top, width):
    def pairs(state, t, emit):
        if t.window != state.window:
            state.window = t.window
            state.items.clear()
        if t.item not in state.items:
            for one in state.items:
                emit(window=t.window, pair=min(one, t.item) * ITEMS + max(one, t.item))
            state.items.add(t.item)

    state = {"window": "int64", "items": hr.set_of("int64")}
    stages = [
        whole("ticket", "item"),
        Map(lambda t: t.ts // width, ["window"], carry=["ticket", "item"]),
        Partitioned(pairs, "ticket", state, ["window", "pair"]),
        _counted(),
        _ranked(top, width),
    ]
    return ordered(sources, stages)


def viewed_together(sources, top, width, timeout):
    def click(state, t, emit):
        if state.items and t.ts - state.last > timeout:
            state.items.clear()
        state.last = t.ts
        if t.item not in state.items:
            for one in state.items:
                emit(one=one, item=t.item)
            state.items.add(t.item)

    stages = [
        whole("user", "item"),
        Partitioned(click, "user", {"last": "int64", "items": hr.set_of("int64")}, ["one", "item"]),
        FlatMap(
            lambda t, emit: emit(window=t.ts // width, pair=min(t.one, t.item) * ITEMS + max(t.one, t.item)), ["window", "pair"]
        ),
        _counted(),
        _ranked(top, width),
    ]
    return ordered(sources, stages)


def viewed_before(sources, top, last, within):
    def click(state, t, emit):
        if t.kind == "view":
            state.items.append(t.item)
            state.times.append(t.ts)
            if len(state.items) > last:
                state.items.pop(0)
                state.times.pop(0)
            return
        found = {item for item, ts in zip(state.items, state.times, strict=True) if t.ts - ts <= within and item != t.item}
        for viewed in sorted(found):
            emit(item=t.item, viewed=viewed)

    def count(state, t, emit):
        state.views[t.viewed] = state.views.get(t.viewed, 0) + 1
        ranked = sorted((-n, viewed) for viewed, n in state.views.items())[:top]
        mine = (-state.views[t.viewed], t.viewed)
        if mine in ranked:
            emit(item=t.item, viewed=t.viewed, views=-mine[0], rank=ranked.index(mine) + 1)

    numbers = hr.list_of("int64")
    stages = [
        Filter(lambda t: None not in (t.user, t.item) and t.kind in ("view", "buy")),
        Partitioned(click, "user", {"items": numbers, "times": numbers}, ["item", "viewed"]),
        Partitioned(count, "item", {"views": INTS}, ["item", "viewed", "views", "rank"]),
    ]
    return ordered(sources, stages)


def abandoned(sources, timeout):
    def click(state, t, emit):
        if state.clicks > 0 and t.ts - state.last > timeout:
            emit(clicks=state.clicks, has_cart=state.has_cart, has_bought=state.has_bought)
            state.clicks, state.has_cart, state.has_bought = 0, False, False
        state.last = t.ts
        state.clicks += 1
        state.has_cart = state.has_cart or t.kind == "cart"
        state.has_bought = state.has_bought or t.kind == "buy"

    def mean(state, t, emit):
        state.sessions += 1
        state.pages += t.clicks
        emit(sessions=state.sessions, mean_pages=state.pages / state.sessions)

    stages = [
        whole("user", "kind"),
        Partitioned(
            click,
            "user",
            {"last": "int64", "clicks": "int64", "has_cart": "bool", "has_bought": "bool"},
            ["clicks", "has_cart", "has_bought"],
        ),
        Filter(lambda t: t.has_cart and not t.has_bought),
        Stateful(mean, {"sessions": "int64", "pages": "int64"}, ["sessions", "mean_pages"]),
    ]
    return ordered(sources, stages)


def declining(sources, right, width):
    category_of = {row["item"]: row["category"] for row in right if None not in (row["item"], row["category"])}

    def regress(state, t, emit):
        day = t.ts // width
        if not state.has_first:
            state.has_first, state.first, state.day = True, day, day
        if day > state.day:
            x, y = state.day - state.first, state.sum
            state.n, state.sx, state.sy = state.n + 1, state.sx + x, state.sy + y
            state.sxx, state.sxy = state.sxx + x * x, state.sxy + x * y
            state.day, state.sum = day, 0
            if state.n >= 2:
                above, below = state.n * state.sxy - state.sx * state.sy, state.n * state.sxx - state.sx * state.sx
                if above <= 0:
                    emit(category=t.category, days=state.n, slope=above / below)
        state.sum += t.amount

    numbers = dict.fromkeys(("first", "day", "sum", "n", "sx", "sy", "sxx", "sxy"), "int64")
    stages = [
        whole("item", "amount"),
        FlatMap(
            lambda t, emit: emit(category=category_of[t.item], amount=t.amount) if t.item in category_of else None,
            ["category", "amount"],
        ),
        Partitioned(regress, "category", {"has_first": "bool"} | numbers, ["category", "days", "slope"]),
    ]
    return ordered(sources, stages)


def mobility(sources, area, speed, width, hour):
    place = ("phone", "lat", "lon")

    def ends(t, emit):
        emit(phone=t.caller, lat=t.caller_lat, lon=t.caller_lon)
        emit(phone=t.callee, lat=t.callee_lat, lon=t.callee_lon)

    def measure(state, t, emit):
        if state.is_known:
            km = haversine(state.lat, state.lon, t.lat, t.lon)
            if t.ts > state.ts:
                emit(speed=km / ((t.ts - state.ts) / hour))
            else:
                emit(speed=0.0 if (state.lat, state.lon) == (t.lat, t.lon) else math.inf)
        state.is_known, state.ts, state.lat, state.lon = True, t.ts, t.lat, t.lon

    def tell(state, emit):
        if state.frauds:
            emit(ts=(state.window + 1) * width, frauds=state.frauds)

    def count(state, t, emit):
        if t.ts // width != state.window:
            tell(state, emit)
            state.window, state.frauds = t.ts // width, 0
        state.frauds += 1

    read = ("caller", "callee", "area", "caller_lat", "caller_lon", "callee_lat", "callee_lon")
    stages = [
        Filter(lambda t: all(getattr(t, name) is not None for name in read) and area in (None, t.area)),
        FlatMap(ends, place),
        Partitioned(measure, "phone", {"is_known": "bool", "ts": "int64", "lat": "float64", "lon": "float64"}, ["speed"]),
        Filter(lambda t: t.speed > speed),
        Stateful(count, {"window": "int64", "frauds": "int64"}, ["frauds"], end=tell),
    ]
    return ordered(sources, stages)
