"""A finished run as a report shows it, and its figures as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.changes import Change
from headrace.metrics.history import History
from headrace.metrics.measures import Measure
from headrace.metrics.snapshot import OperatorMetrics


@dataclass
class Record:
    """A finished run as a report shows it.

    Parameters
    ----------
    title, text : str
        What was run, in a word and in a sentence.
    history : History
        Samples of the run; the last one was taken after its end.
    rows_in : int
        Rows of the input.
    changes : list of Change
    difference : str or None
        How the results differ from the reference; None: not at all.
    """

    title: str
    text: str
    history: History
    rows_in: int
    changes: list[Change] = field(default_factory=list)
    difference: str | None = None

    def figures(self) -> dict[str, str]:
        """Return the figures of the closing table by name, in order."""
        metrics = self.history.samples[-1].metrics
        operator = next(iter(metrics.operators.values()))
        figures = {
            "rows in": f"{self.rows_in:,}",
            "rows out": f"{metrics.tuples_out:,}",
            "seconds": f"{metrics.seconds:.2f}",
            "throughput (tuples/s)": f"{self.rows_in / metrics.seconds:,.0f}" if metrics.seconds else "-",
        }
        lags = [sample.metrics.lag_s for sample in self.history.samples]
        if not np.isnan(lags).all():
            figures["longest lag (s)"] = f"{np.nanmax(lags):.2f}"
        for measure in operator.measures:
            if measure.by is None and measure.goes_to("figure"):
                figures |= figures_of_measure(operator, measure)
        return figures | {
            "reconfigurations (ms)": ", ".join(describe(change) for change in self.changes) or "none",
            "identical to the reference": "yes" if self.difference is None else f"NO: {self.difference}",
        }


def figures_of_measure(operator: OperatorMetrics, measure: Measure) -> dict[str, str]:
    """Return the figures of one measure: two for a histogram, the rate for a counter with a rate."""
    value = operator.values[measure.name]
    if measure.kind == "histogram":
        found = getattr(operator, measure.derived)
        return {f"{spaced(measure.name)} {part} (ms)": number(found.get(part)) for part in ("p50", "p99")}
    name = spaced(measure.word)
    says_unit = measure.unit in name.split()
    if measure.rate:
        named = f"{name} per second" if says_unit else f"{name} ({measure.unit}/s)"
        return {named: f"{getattr(operator, measure.rate):,.0f}"}
    if measure.kind == "text" or value is None:
        return {name: "-" if value is None else str(value)}
    if measure.unit == "fraction":
        return {name: f"{100 * value:.1f} %"}
    if value == 0 and says_unit and measure.kind == "gauge":
        return {name: "none"}  # the run's configuration may not have it, as a scheme without versions
    name += "" if says_unit else f" ({measure.unit})"
    return {name: f"{value:,}" if isinstance(value, int) else number(value)}


def spaced(name: str) -> str:
    """Return a measure's name in words."""
    return name.replace("_", " ")


def describe(change: Change) -> str:
    """Describe a reconfiguration, with the milliseconds it took, in a few characters.

    Parameters
    ----------
    change : Change

    Examples
    --------
    >>> done = Change("count", {"threads": 1}, {"threads": 4}, requested_ns=0, outcome="done", completed_ns=412_000)
    >>> describe(done), describe(Change("count", {"threads": 4}, {"threads": 2}, outcome="unneeded"))
    ('1→4: 0.41', '4→2: unneeded')
    >>> describe(Change("total", {"batch": 100}, {"batch": 10}, requested_ns=0, outcome="done", completed_ns=250_000))
    'batch 100→10: 0.25'
    """
    if change.outcome == "no change":
        return change.outcome
    took = f"{change.ms:.2f}" if change.completed_ns else change.outcome
    return f"{short(change).replace(' → ', '→')}: {took}"


def short(change: Change) -> str:
    """Shorten changes of threads, the most frequent ones, by leaving out the word."""
    return change.describe().removeprefix("threads ")


def number(value: float | None) -> str:
    """Format a number with two decimals, or a dash where there is none."""
    return "-" if value is None or not np.isfinite(value) else f"{value:.2f}"


def figures_of(records: Sequence[Record]) -> dict[str, list[str]]:
    """Return the figures of several runs side by side: name -> one for each run, "-" where a run has none.

    A figure that only some runs have keeps its position among their figures.

    Parameters
    ----------
    records : sequence of Record

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> per_window = hr.stream(pa.table({"ts": [1, 2]}), event_time="ts").window(10).aggregate(n=hr.count())
    >>> with per_window.start() as run:
    ...     ended = run.wait()
    >>> figures_of([Record("once", "a window", run.history, 2), Record("again", "the same", run.history, 2)])["rows in"]
    ['2', '2']
    """
    columns = [record.figures() for record in records]
    names: list[str] = []
    for figures in columns:
        at = 0
        for name in figures:
            if name not in names:
                names.insert(at, name)
            at = names.index(name) + 1
    return {name: [figures.get(name, "-") for figures in columns] for name in names}
