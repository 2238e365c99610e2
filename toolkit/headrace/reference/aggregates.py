"""Aggregates A and A+: what a window is, said once, without any incremental state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import ParameterError
from headrace.reference import values
from headrace.reference.days import to_time, to_units
from headrace.reference.keys import KeyFunction, key_set, no_key
from headrace.reference.order import Payload, Row, Source, key_order, merge
from headrace.windows import Window, earliest_index, latest_index, right_boundary


def aggregate(
    sources: Sequence[Source],
    window: Window,
    keys: KeyFunction = no_key,
    aggregates: Mapping[str, tuple] | None = None,
    *,
    null_keys: str = "error",
    ignore_nan: bool = False,
) -> list[Row]:
    """Aggregate each window of each key.

    Parameters
    ----------
    sources : list of Source
    window : Window
        A tuple falls into every window that contains its event time.
    keys : function
        Payload -> keys (`headrace.reference.keys`).
    aggregates : dict
        Name of the result -> (function of `values.FUNCTIONS`, column). The
        column is None for a count of tuples. Behind the column the q of a
        ``"quantile"``, or the k of ``"top"`` and the column it goes by.
    null_keys : str
        ``"error"`` or ``"drop"``.
    ignore_nan : bool
        Whether min, max and quantile skip NaN; otherwise one NaN makes them NaN.

    Returns
    -------
    list of Row
        One for each window and key with at least one tuple, by (right boundary, key).

    Raises
    ------
    ParameterError
        There is no such function, or it has no column.
    KeyNullError
        A key is null, and `null_keys` is "error".

    Notes
    -----
    STRETCH (Gulisano et al.), section 2.1: A; Definition 5: A+, with f_MK.

    Examples
    --------
    >>> source = [(1, {"x": 3}), (4, {"x": 7}), (12, {"x": 5})]
    >>> [(row.ts, row.values) for row in aggregate([source], Window(10, 10), aggregates={"total": ("sum", "x")})]
    [(10, {'total': 10}), (20, {'total': 5})]
    """
    aggregates = aggregates or {"count": ("count", None)}
    for name, (function, column, *more) in aggregates.items():
        if function not in values.FUNCTIONS or (column is None and function != "count"):
            raise ParameterError(f"aggregate {name} = {(function, column, *more)!r}: give (function, column)")

    contents: dict[tuple[int, Any], list[Payload]] = {}
    for t in merge(sources):
        units = to_units(window, t.ts)
        earliest = earliest_index(units, window.size, window.advance)
        latest = latest_index(units, window.advance)
        for key in key_set(keys, t.payload, null_keys):
            for index in range(earliest, latest + 1):
                contents.setdefault((index, key), []).append(t.payload)

    def boundary(index: int) -> int:
        return to_time(window, right_boundary(index, window.size, window.advance))

    def evaluate(tuples: list[Payload]) -> Payload:
        return {name: evaluate_one(tuples, *wanted) for name, wanted in aggregates.items()}

    def evaluate_one(tuples: list[Payload], function: str, column: str | None, *more: Any) -> Any:
        if column is None:
            return len(tuples)
        if function == "top":
            k, by = more
            return values.top([(payload[column], payload[by]) for payload in tuples], k)
        return values.apply(function, [payload[column] for payload in tuples], ignore_nan, *more)

    # Windows that end at the same time, as before a day that the zone skips, come in their order.
    ordered = sorted(contents, key=lambda place: (boundary(place[0]), key_order(place[1]), place[0]))
    return [Row(boundary(index), key, evaluate(contents[index, key])) for index, key in ordered]
