"""Snapshots: the counters of a run and its operators at one moment.

Each number is written by one thread and may be read by any: a reader sees a value
that was true a moment ago. Numbers that belong together (`Balance`) are read in an order
that makes them comparable all the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import MissingAttributeError, ParameterError
from headrace.metrics.balance import Balance, Discarded
from headrace.metrics.by_worker import shares_of
from headrace.metrics.latency import LatencyHistogram
from headrace.metrics.measures import NEEDED, QUANTILES, RESERVED, Measure
from headrace.metrics.sources import SourceMetrics
from headrace.names import closest

if TYPE_CHECKING:
    import pandas as pd

_NEEDED = {measure.name for measure in NEEDED}


@dataclass(frozen=True, repr=False)
class StageMetrics:
    """A snapshot of one stage of an operator: each measure that its operator has by stage is an attribute.

    Parameters
    ----------
    name : str
    operator : str
        Name of its operator.
    measures : tuple of Measure
        What is measured.
    values : dict
        Measure -> number.

    Examples
    --------
    >>> waiting = Measure("backlog", "tuples", "Tuples that wait.", by="stage")
    >>> StageMetrics("speed", "frauds", (waiting,), {"backlog": 7}).backlog
    7
    """

    name: str
    operator: str
    measures: tuple[Measure, ...]
    values: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # not set yet: a copy is being made
            raise MissingAttributeError(name, name=name)
        if name not in self.values:
            near = closest(name, self.values)
            meant = f"did you mean .{near}? " if near else ""
            raise MissingAttributeError(
                f"the stage {self.name!r} does not measure {name!r}; {meant}there is {', '.join(self.values)}", name=name
            )
        return self.values[name]

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.values]

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value:,.6g}" for name, value in self.values.items())
        return f"StageMetrics({self.name!r} of {self.operator!r}, {said})"


@dataclass(slots=True, eq=False, repr=False)
class OperatorMetrics:
    """A snapshot of one operator, of any engine.

    Each measure is an attribute, such as ``metrics.added``; ``metrics.measures`` lists them, and the `title`
    of each says what it means. Counts are since the start of the run; `headrace.metrics.history` has them by interval.
    Lists by worker have one entry for each of `max_threads`, whether it is active or not.

    Some attributes are computed from the measures. A histogram NAME gives ``NAME_ms``, a dict of p50, p99 and max in
    milliseconds, which is empty if nothing can be counted. A counter with a rate gives the rate since the first tuple, such
    as ``input_per_s``. Parts of a whole give shares, such as ``busy_share``, which sum to 1 (or are 0 as long as there is
    nothing).

    Parameters
    ----------
    name : str
    threads, max_threads : int
        Active workers, and their maximum.
    members : list of int
        Which workers are active.
    seconds : float
        Time since the first tuple of the run.
    balance : Balance or None
        Whether arrived = processed + in flight + read ahead + dropped + set aside, with all these numbers; None if
        nobody counts arriving tuples.
    measures : tuple of Measure
        The measures; `added`, `processed` and `results` are among them.
    values : mapping of str to object
        The value of each measure: a number, a text or None; a list by worker, bucket, stage or node; a dict by name of
        the source; for a histogram its counts, int64[1024], or None.
    largest_ns : mapping of str to int
        The largest duration, for histograms for which it is known exactly.

    Raises
    ------
    ParameterError
        There is not one value for each measure.
    MissingAttributeError
        The operator does not have a measure; the text lists those it has. Also an AttributeError.

    Examples
    --------
    >>> from headrace.metrics.measures import NEEDED
    >>> counts = OperatorMetrics("n", 1, 2, [0], 2.0, None, NEEDED, {"added": 10, "processed": 8, "results": 3})
    >>> counts.added, counts.in_flight, counts.input_per_s
    (10, 2, 5.0)
    """

    name: str
    threads: int
    max_threads: int
    members: list[int]
    seconds: float
    balance: Balance | None
    measures: tuple[Measure, ...]
    values: Mapping[str, Any]
    largest_ns: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self):
        if len(self.values) != len(self.measures) or not self.values.keys() >= _NEEDED:
            wanted, given = {measure.name for measure in self.measures} | _NEEDED, set(self.values)
            raise ParameterError(
                f"metrics of {self.name!r}: give one value for each measure; {sorted(wanted - given)} have none,"
                f" {sorted(given - wanted)} are no measures"
            )

    @property
    def in_flight(self) -> int:
        """Added tuples that the slowest active worker has not passed yet."""
        return self.values["added"] - self.values["processed"]

    @property
    def depth_tuples(self) -> int:
        """Added tuples that the slowest active worker has not passed yet; another name for `in_flight`."""
        return self.in_flight

    @property
    def stages(self) -> dict[str, StageMetrics]:
        """Snapshots of the operator's stages, if it has any, by name, in the order in which tuples pass them."""
        measures = tuple(each for each in self.measures if each.by == "stage" and isinstance(self.values[each.name], dict))
        names = self.values[measures[0].name] if measures else ()
        return {
            name: StageMetrics(name, self.name, measures, {each.name: self.values[each.name][name] for each in measures})
            for name in names
        }

    def counts(self, name: str) -> np.ndarray | None:
        """Return the counts of a histogram, int64[1024]; None if it has none, or if there is no such histogram."""
        return self.values.get(name)

    def histogram(self, name: str) -> LatencyHistogram:
        """Return a histogram as it was."""
        return LatencyHistogram(self.counts(name), self.largest_ns.get(name, 0))

    def measure(self, name: str) -> Measure | None:
        """Return the declaration of a measure; None if the operator does not have it."""
        return next((measure for measure in self.measures if measure.name == name), None)

    def __getattr__(self, name: str) -> Any:
        # Called for names that are no fields: a measure, or a value computed from one.
        if name.startswith("_") or name in RESERVED:
            raise MissingAttributeError(name, name=name)  # not set yet: a copy is being made
        if name in self.values:
            return self.values[name]
        for measure in self.measures:
            if measure.derived == name:
                return self._derive(measure)
        there = sorted({*self.values, *filter(None, (m.derived for m in self.measures))})
        near = closest(name, [*there, *self.__slots__])
        meant = f"did you mean .{near}? " if near else ""
        raise MissingAttributeError(
            f"the operator {self.name!r} does not measure {name!r}; {meant}there is {', '.join(there)}", name=name
        )

    def __dir__(self) -> list[str]:
        derived = [measure.derived for measure in self.measures if measure.derived]
        return [*object.__dir__(self), *self.values, *derived]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OperatorMetrics):
            return NotImplemented
        fixed = ("name", "threads", "max_threads", "members", "seconds", "balance", "measures", "largest_ns")
        return all(getattr(self, part) == getattr(other, part) for part in fixed) and all(
            _are_same(value, other.values[name]) for name, value in self.values.items()
        )

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in sorted(_NEEDED)}
        own = [m for m in self.measures if m.kind == "counter" and m.by is None and m.goes_to("figure")]
        values |= {m.name: count for m in own if (count := self.values[m.name])}  # such as rejected transactions
        said = ", ".join(f"{name}={value:,}" for name, value in values.items())
        return f"OperatorMetrics({self.name!r}, {self.threads} of {self.max_threads} threads, {said})"

    def _derive(self, measure: Measure) -> Any:
        if measure.kind == "histogram":
            return {} if self.values[measure.name] is None else self.histogram(measure.name).summary()
        if measure.part_of:
            parts = [part for part in self.measures if (part.part_of, part.by) == (measure.part_of, measure.by)]
            shares = shares_of(np.array([self.values[part.name] for part in parts]))
            return shares[parts.index(measure)].tolist()
        return _rate(self.values[measure.name], self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON; p50, p99 and max of histograms."""
        plain: dict[str, Any] = {part: _plain(getattr(self, part)) for part in _HEAD}
        for measure in self.measures:
            if measure.kind != "histogram":
                plain[measure.name] = _plain(self.values[measure.name])
            if measure.derived and not measure.rate:
                plain[measure.derived] = self._derive(measure)
        return plain | {"balance": None if self.balance is None else self.balance.to_dict()}

    def to_row(self) -> dict[str, Any]:
        """A row of `Metrics.to_pandas`: the values it has once, or for each source, stage or node, by column."""
        row: dict[str, Any] = {"operator": self.name} | {part: getattr(self, part) for part in _HEAD[1:]}
        row.pop("members")
        for measure in self.measures:
            value = self.values[measure.name]
            if measure.kind == "histogram":
                found = self._derive(measure)
                parts = [found.get(part, float("nan")) for part in QUANTILES]
                row |= zip(measure.columns, parts, strict=True)
            elif measure.by is None:
                row[measure.name] = value
            elif measure.by not in ("worker", "bucket"):
                numbers = value.values() if isinstance(value, dict) else value
                row |= zip(measure.columns_by(value), numbers, strict=True)
        row |= {"balance": str(self.balance), "balance_holds": self.balance is None or self.balance.holds}
        row["in_flight"] = self.in_flight
        return row | {measure.rate: self._derive(measure) for measure in self.measures if measure.rate}


_HEAD = ("name", "threads", "max_threads", "members", "seconds", "depth_tuples")


@dataclass(repr=False)
class Metrics:
    """A snapshot of a run.

    `tuples_in` counts rows from the sources, each once, however many operators take it. Of these, `dropped` and
    `set_aside` were late; the others were filtered or entered an operator.

    Parameters
    ----------
    state : {"running", "finished", "stopped", "failed"}
    seconds : float
        Since the first tuple.
    tuples_in, tuples_out, dropped, set_aside : int
    operators : dict of str to OperatorMetrics

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": range(1000), "k": ["a", "b"] * 500})
    >>> with hr.stream(table, event_time="ts").key_by("k").window(10).aggregate("n", n=hr.count()).start() as run:
    ...     done = run.wait()
    ...     metrics = run.metrics()
    >>> metrics.tuples_in, str(metrics.operators["n"].balance)
    (1000, '1,000 arrived = 1,000 processed + 0 in flight')
    >>> print(Metrics("running", 1.5, 1000, 3))
    Metrics('running', after 1.50 s, tuples_in=1,000, tuples_out=3)
    """

    state: str
    seconds: float
    tuples_in: int
    tuples_out: int
    dropped: int = 0
    set_aside: int = 0
    operators: dict[str, OperatorMetrics] = field(default_factory=dict)
    rate: float | None = None
    """Present tuples per second and source; None at full speed."""
    at_ns: int = 0
    """Monotonic time of the snapshot."""
    waiting: int = 0
    """Tuples of `tuples_in` that were read, and not yet taken by an operator, filtered, or found late."""
    sources: list[SourceMetrics] = field(default_factory=list)
    """Metrics of each source; those of the first operator first."""
    cpu_ns: dict[str, int] = field(default_factory=dict)
    """Nanoseconds of processor time that each thread of the run has used, by its name without ``headrace-``: of workers
    (``count-0``), collectors (``count-collector``), readers and feeders of sources (``count-source0-feeder``), ..."""

    def __repr__(self) -> str:
        # What each source and thread did is long: it is in the attributes.
        counts = {"tuples_in": self.tuples_in, "tuples_out": self.tuples_out}
        counts |= {name: count for name in ("dropped", "set_aside", "waiting", "behind") if (count := getattr(self, name))}
        parts = [f"after {self.seconds:.2f} s", *(f"{name}={count:,}" for name, count in counts.items())]
        return f"Metrics({', '.join([repr(self.state), *parts, *map(repr, self.operators.values())])})"

    @property
    def behind(self) -> int:
        """Tuples of all sources that are due by the rate schedule and were not taken: the backlog outside the run."""
        return sum(source.behind for source in self.sources)

    @property
    def counts_due(self) -> bool:
        """Whether `behind` can be counted: not if recorded event times are played."""
        return all(source.counts_due for source in self.sources)

    @property
    def lag_s(self) -> float:
        """How long the oldest tuple of `behind` has been due, in seconds; NaN at full speed, as then nothing is ever due."""
        known = [source.lag_s for source in self.sources if not math.isnan(source.lag_s)]
        return max(known, default=math.nan)

    @property
    def input_per_s(self) -> float:
        """Rows taken from the sources per second, since the first."""
        return _rate(self.tuples_in - self.waiting, self.seconds)

    @property
    def output_per_s(self) -> float:
        """Results of the query per second, since the first tuple."""
        return _rate(self.tuples_out, self.seconds)

    @property
    def discarded(self) -> Discarded:
        """What a stop or a failure discarded at all operators; zeros while the run goes on, and once it has finished."""
        each = [operator.balance.discarded for operator in self.operators.values() if operator.balance is not None]
        return Discarded(*map(sum, zip(*each, strict=True)))

    @property
    def holds(self) -> bool:
        """Whether the books of every operator balance."""
        return all(operator.balance is None or operator.balance.holds for operator in self.operators.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        plain = {part.name: getattr(self, part.name) for part in fields(self)}
        return plain | {
            "operators": {name: operator.to_dict() for name, operator in self.operators.items()},
            "sources": [source.to_dict() for source in self.sources],
            "behind": self.behind,
            "lag_s": None if math.isnan(self.lag_s) else self.lag_s,
            "discarded": self.discarded._asdict(),
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return one row for each operator.

        Columns are the values that an operator has once, or for each source, stage or node (not for each worker or
        bucket), and the balance in words.
        """
        import pandas as pd

        return pd.DataFrame([operator.to_row() for operator in self.operators.values()])


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _are_same(value: Any, other: Any) -> bool:
    is_array = isinstance(value, np.ndarray) or isinstance(other, np.ndarray)
    return np.array_equal(value, other) if is_array else value == other


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, str) or not isinstance(value, Sequence):
        return value
    return [_plain(part) for part in value]
