"""Aggregates over tuples in order of arrival: which have the same results as in order, and how far ahead a source may be.

A window's result is emitted when the watermark, a lower bound of all event times still to come, has passed its end.
Until then, tuples of all sources are folded into the window in the order in which they are read. So the result must be
a function of the multiset of values. A count is, and so are integers added in 128 bits, the least and the greatest
value, and the set of distinct values. These are not: sums of floats, which are rounded at every step; the first value,
the last value and lists; and for floats, any aggregate that picks one of several equal values, since 0.0 equals -0.0
and the result is the one that comes first.

A source that is ahead of the others opens windows while the others still fill earlier ones. It may be one window
advance ahead, so a key needs room for one more window. The instances of an operator whose `update` emits are such sources of
the next operator, if they pass their results on: these are ahead of the watermark by up to that operator's window advance.

Source      STRETCH, section 2.3 (explicit watermarks); Li et al., "Out-of-Order Processing" (PVLDB 2008).
Checked     tests/headrace/elastic/test_as_they_come.py
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.elastic.aggregate.shape import AggregateColumn
from headrace.expressions import Aggregate
from headrace.windows import NANOSECONDS, TIMESTAMP_UNIT, Window

_POSITIONS = {
    "first": "the first value is that of the first tuple in order",
    "last": "the last value is that of the last tuple in order",
    "collect_list": "its values are in the order of tuples",
}
_ADDED = ("sum", "mean")
_PICKED = ("min", "max", "quantile", "top")
_OF_FLOATS = {
    **dict.fromkeys(_ADDED, "floats are rounded at every step, so their sum depends on the order"),
    **dict.fromkeys(_PICKED, "0.0 and -0.0 are equal, and the one that comes first is given"),
}


def order_matters(aggregates: Sequence[tuple[str, Aggregate]], columns: Sequence[AggregateColumn]) -> str:
    """Say why the results depend on the order of tuples; "" if they do not.

    Parameters
    ----------
    aggregates : sequence of (str, Aggregate)
        The aggregates, by name of the result.
    columns : sequence of AggregateColumn
        The same aggregates as kernels compute them.
    """
    for (name, wanted), column in zip(aggregates, columns, strict=True):
        why = _POSITIONS.get(wanted.kind, "")
        if "float64" in (column.dtype, column.by_dtype):
            why = why or _OF_FLOATS.get(wanted.kind, "")
        if why:
            return f"{name}={wanted!r}: {why}"
    return ""


def room_ahead(window: Window, lead: int = 0) -> tuple[int, int]:
    """By how much event time a source may be ahead of the watermark, and how many windows a key may then have.

    Parameters
    ----------
    window : Window
    lead : int
        By how much it has to be, if windows have no time zone; 0: one window advance.

    Examples
    --------
    >>> room_ahead(Window(10, 10)), room_ahead(Window(60, 20)), room_ahead(Window(5, 2))
    ((10, 2), (20, 4), (2, 4))
    >>> room_ahead(Window(60, 20), 100)
    (100, 8)
    >>> room_ahead(Window(1, 1, "Europe/Paris"))  # a day may have 23 hours, and 24 reach over the end of the next one
    (86400000000, 3)
    """
    lead = ahead = lead or window.advance
    if window.zone is not None:
        lead, ahead = window.advance * (NANOSECONDS["d"] // NANOSECONDS[TIMESTAMP_UNIT]), window.advance + 1
    return lead, -(-(window.size + ahead) // window.advance)


__all__ = ["order_matters", "room_ahead"]
