"""abandoned: sessions that put something into the cart and buy nothing (TPCx-BB query 4; Table 1 of the paper).

SL complete rows; PS by user: a session, once the user's next click has closed it; SL: abandoned sessions;
SF: their number so far, and their mean number of clicks.
"""

from collections.abc import Callable

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.apps.pipeline_options import BUCKETS, in_unit, timeout_option
from headrace.reference import ordering_apps as reference


def close_after(longest: int) -> Callable:
    """What closes a session whose last click is longer ago than this, in the unit of the event time."""

    def close(state, t, emit):
        if state.clicks > 0 and t.ts - state.last > longest:
            emit(clicks=state.clicks, has_cart=state.has_cart, has_bought=state.has_bought)
            state.clicks = 0
            state.has_cart = False
            state.has_bought = False
        state.last = t.ts
        state.clicks += 1
        if t.kind == "cart":
            state.has_cart = True
        if t.kind == "buy":
            state.has_bought = True

    return close


def was_abandoned(t):
    return t.has_cart and not t.has_bought


SESSION = {"last": "int64", "clicks": "int64", "has_cart": "bool", "has_bought": "bool"}
"""What is known of an open session."""
CLOSED = {"clicks": "int64", "has_cart": "bool", "has_bought": "bool"}
"""And of one that was closed."""


def build(clicks: hr.Stream, timeout: str, buckets: int) -> hr.Stream:
    longest = in_unit(clicks, timeout, "timeout")

    def whole(t):
        return t.user is not None and t.kind is not None

    def average(state, t, emit):
        state.sessions += 1
        state.pages += t.clicks
        emit(sessions=state.sessions, mean_pages=float(state.pages) / float(state.sessions))

    return (
        clicks.ordered()
        .filter(whole)
        .partitioned(close_after(longest), by="user", state=SESSION, emits=CLOSED, buckets=buckets)
        .filter(was_abandoned)
        .stateful(
            average, state={"sessions": "int64", "pages": "int64"}, emits={"sessions": "int64", "mean_pages": "float64"}
        )
    )


APP = App(
    name="abandoned",
    help="count the sessions that end with something in the cart, and their clicks",
    left=(TIME, ("user", "integer"), ("kind", "text")),
    build=build,
    reference=reference.abandoned,
    options=[timeout_option("60min"), BUCKETS],
    stages="SL PS SL SF",
)
