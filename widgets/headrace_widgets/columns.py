"""An operator's measures as columns of numbers over time.

    counter      its difference per second, named by `Measure.rate`
    gauge        its value, or its value for the interval (`Measure.between`)
    histogram    p50 and p99 of recent durations, in milliseconds
    part_of      shares of the whole: how each worker spent its time

They are named as in `run.history.to_pandas()`, with one column for each element where a measure is `by` something:
``load_0``, ``gap_SOURCE``. Texts and buckets have no columns: texts are shown as text, and buckets in the heat map.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from headrace.metrics.latency import LatencyHistogram
from headrace.metrics.measures import Measure, keys_of
from headrace.metrics.snapshot import OperatorMetrics
from headrace_widgets.units import OF_A_CORE

MOST_DRAWN = 16
"""Most elements of a measure that have columns."""
NAN = math.nan
_ELEMENT_WORDS = {"worker": "thread"}

Values = Callable[[OperatorMetrics, OperatorMetrics, float], Sequence[float]]
"""Values computed from a snapshot, the previous one, and the seconds between them."""


class OperatorColumns:
    """The columns of one operator, and their values.

    Parameters
    ----------
    operator : OperatorMetrics
        Any snapshot: it has the number of workers, and the sources.
    is_wanted : function of Measure, optional
        Whether a measure is to have columns; by default those that the history has.

    Attributes
    ----------
    measures : dict of name to Measure
    names : list of str
        All columns.
    of : dict of measure's name to tuple of str
        Its columns; for a histogram (p50, p99).
    elements : dict of measure's name to tuple of str
        Names of the elements that it is `by`; the first `MOST_DRAWN`.
    wholes : dict of `part_of` to tuple of Measure
        The measures that are shown as shares.
    """

    def __init__(self, operator: OperatorMetrics, is_wanted: Callable[[Measure], bool] | None = None):
        is_wanted = is_wanted or (lambda measure: measure.goes_to("column"))
        self.measures: dict[str, Measure] = {measure.name: measure for measure in operator.measures}
        self.names: list[str] = []
        self.of: dict[str, tuple[str, ...]] = {}
        self.elements: dict[str, tuple[str, ...]] = {}
        self.wholes: dict[str, tuple[Measure, ...]] = {}
        self._values: list[Values] = []
        for measure in operator.measures:
            if measure.kind == "text" or measure.by == "bucket" or not is_wanted(measure):
                continue
            if measure.part_of:
                self.wholes[measure.part_of] = (*self.wholes.get(measure.part_of, ()), measure)
            else:
                self._open(measure, operator)
        for parts in self.wholes.values():
            self._open_shares(parts, operator)

    def row(self, now: OperatorMetrics, then: OperatorMetrics, seconds: float) -> list[float]:
        """Return the values of all columns, from two snapshots and the seconds between them."""
        row: list[float] = []
        for values in self._values:
            row += values(now, then, seconds)
        return row

    def _open(self, measure: Measure, operator: OperatorMetrics) -> None:
        name, is_counter = measure.name, measure.kind == "counter"
        if measure.kind == "histogram":
            columns, values = tuple(f"{name}_{part}_ms" for part in ("p50", "p99")), Quantiles(name)
        elif measure.by is not None:
            elements = elements_of(operator.values[name])
            keys = keys_of(operator.values[name])[: len(elements)]
            self.elements[name] = elements
            columns = measure.columns_by(operator.values[name])[:MOST_DRAWN]
            values = rates(name, keys) if is_counter else levels(name, keys)
        elif is_counter:
            columns, values = (measure.rate or f"{name}_per_s",), rate(name)
        else:
            columns, values = measure.columns, lately(measure.between) if measure.between else level(name)
        if measure.unit == "ns" and measure.kind != "histogram":
            columns, values = tuple(f"{column}_in_ms" for column in columns), scaled(values, 1e-6)
        elif is_work(measure):
            columns, values = tuple(f"{column}_of_a_core" for column in columns), scaled(values, 1e-6)
        self.of[name] = columns
        self.names += columns
        self._values.append(values)

    def _open_shares(self, parts: tuple[Measure, ...], operator: OperatorMetrics) -> None:
        elements = elements_of(operator.values[parts[0].name])
        for measure in parts:
            self.elements[measure.name] = elements
            self.of[measure.name] = measure.columns_by(operator.values[measure.name])[:MOST_DRAWN]
            self.names += self.of[measure.name]
        self._values.append(shares([measure.name for measure in parts], len(elements)))


def key_of(measure: Measure) -> str:
    """Return the key of a panel made for a measure, with a prefix that no other panel's key has."""
    return f"measure_{measure.name}"


def heading_of(measure: Measure) -> str:
    """Return the name of a measure in headings."""
    words = measure.word.replace("_", " ")
    return words[:1].upper() + words[1:]


def is_work(measure: Measure) -> bool:
    """Whether a measure counts microseconds of work, which per second are a share of a core."""
    return measure.kind == "counter" and measure.unit.startswith("microseconds")


def unit_of(measure: Measure) -> str:
    """Return the unit of a measure's columns."""
    if is_work(measure):
        return OF_A_CORE
    unit = "ms" if measure.unit == "ns" else measure.unit
    return f"{unit}/s" if measure.kind == "counter" else unit


def element_word(by: str | None) -> str:
    """Return the word for the elements that a measure is by."""
    return _ELEMENT_WORDS.get(by or "", by or "")


def elements_of(value: Any) -> tuple[str, ...]:
    """Return the names of the elements of a measure's value."""
    names = value if isinstance(value, dict) else range(len(value))
    return tuple(str(name) for name in list(names)[:MOST_DRAWN])


# The functions below are plain Python: on a handful of numbers, NumPy spends most of its time on call overhead.


def level(name: str) -> Values:
    """Return the value of a gauge; NaN where there is none."""

    def values(now: OperatorMetrics, _then: OperatorMetrics, _seconds: float) -> Sequence[float]:
        value = now.values[name]
        return (NAN if value is None else value,)

    return values


def lately(between: Callable[[Any, Any], Any]) -> Values:
    """Return a gauge's value for the interval; NaN where threads came or went in it, as these had less time than others."""

    def values(now: OperatorMetrics, then: OperatorMetrics, _seconds: float) -> Sequence[float]:
        value = between(now, then) if now.members == then.members else None
        return (NAN if value is None else value,)

    return values


def rate(name: str) -> Values:
    """Return the difference of a counter per second."""

    def values(now: OperatorMetrics, then: OperatorMetrics, seconds: float) -> Sequence[float]:
        return ((now.values[name] - then.values[name]) / seconds,)

    return values


def levels(name: str, keys: Sequence[Any]) -> Values:
    """Return the values of a gauge by element; NaN for an element that does not exist at present."""

    def values(now: OperatorMetrics, _then: OperatorMetrics, _seconds: float) -> Sequence[float]:
        new = now.values[name]
        return [found(new, key) for key in keys]

    return values


def rates(name: str, keys: Sequence[Any]) -> Values:
    """Return the differences of a counter per second, by element; NaN for an element that does not exist at present."""

    def values(now: OperatorMetrics, then: OperatorMetrics, seconds: float) -> Sequence[float]:
        new, old = now.values[name], then.values[name]
        return [(found(new, key) - found(old, key)) / seconds for key in keys]

    return values


def found(values: Any, key: Any) -> float:
    """Return the value of an element; NaN where there is none."""
    try:
        value = values[key]
    except (KeyError, IndexError):
        return NAN
    return NAN if value is None else value


def scaled(plain: Values, factor: float) -> Values:
    """Return values in a larger unit: nanoseconds, or microseconds of work per second, are unreadable on an axis."""

    def values(now: OperatorMetrics, then: OperatorMetrics, seconds: float) -> Sequence[float]:
        return [value * factor for value in plain(now, then, seconds)]

    return values


class Quantiles:
    """Median and 99th percentile of the durations between two snapshots; where there were none, the previous values."""

    def __init__(self, name: str):
        self._name = name
        self._newest: tuple[float, float] = (NAN, NAN)

    def __call__(self, now: OperatorMetrics, then: OperatorMetrics, _seconds: float) -> Sequence[float]:
        new, old = now.counts(self._name), then.counts(self._name)
        if new is not None and old is not None:
            between = LatencyHistogram(new - old).summary()
            if between["p50"] == between["p50"]:
                self._newest = between["p50"], between["p99"]
        return self._newest


def shares(names: Sequence[str], elements: int) -> Values:
    """Return shares of a whole between two snapshots: those of all elements for the first part, then for the next part."""

    def values(now: OperatorMetrics, then: OperatorMetrics, _seconds: float) -> Sequence[float]:
        pairs = [(now.values[name][:elements], then.values[name]) for name in names]
        parts = [[max(a - b, 0) for a, b in zip(new, old, strict=False)] for new, old in pairs]
        wholes = [max(sum(each), 1) for each in zip(*parts, strict=True)]
        return [amount / whole for part in parts for amount, whole in zip(part, wholes, strict=True)]

    return values
