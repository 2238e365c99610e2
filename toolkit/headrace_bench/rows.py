"""What a benchmark reports, and how it is printed."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np


@dataclass
class Row:
    """One figure.

    Parameters
    ----------
    bench, case : str
    value : float
    unit : str
    better : {"higher", "lower"}
    goal : float or None
        The goal for `value`, or for `ratio` if `goal_is_ratio`.
    baseline, baseline_name
        The same figure of something simpler, measured in the same run, and its name.
    goal_is_ratio : bool
    note : str
        A few words for the table and the page: the conditions, or why there is no value (NaN).
    """

    bench: str
    case: str
    value: float
    unit: str
    better: str = "higher"
    goal: float | None = None
    baseline: float | None = None
    baseline_name: str | None = None
    goal_is_ratio: bool = False
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """value / baseline."""
        if not self.baseline or (self.note and math.isnan(self.value)):
            return None
        return self.value / self.baseline

    @property
    def reached(self) -> bool | None:
        """Whether the goal is met; None without a goal or a value."""
        measured = self.ratio if self.goal_is_ratio else self.value
        if self.goal is None or measured is None or math.isnan(measured):
            return None
        return measured >= self.goal if self.better == "higher" else measured <= self.goal

    def to_dict(self) -> dict:
        """The fields of ``bench --json``; a goal on the ratio is given in the unit of `value`."""
        fields = asdict(self)
        is_ratio = fields.pop("goal_is_ratio")
        if fields.pop("note") and math.isnan(self.value):
            fields["value"] = None  # there is no value, and the note says why
        if is_ratio and self.goal is not None and self.baseline:
            fields["goal"] = self.goal * self.baseline
        fields["ratio"] = self.ratio
        return fields


def repeated(repetitions: int) -> Iterator[bool]:
    """Yield for each round of a measurement whether it counts: the first, which compiles and fills caches, does not.

    Examples
    --------
    >>> list(repeated(3))
    [False, True, True, True]
    """
    yield False
    yield from itertools.repeat(True, repetitions)


def median(values: Sequence[float]) -> float:
    """Median of repetitions."""
    return float(np.median(values))


def number(value: float | None) -> str:
    """Format a figure in few characters; None gives an empty string."""
    if value is None:
        return ""
    if value != value:
        return "nan"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def texts(row: Row) -> dict[str, str]:
    """The texts of a row's figures in a table."""
    goal = ""
    if row.goal is not None:
        goal = f"{'>=' if row.better == 'higher' else '<='} {number(row.goal)}{' x' if row.goal_is_ratio else ''}"
    return {
        "value": "" if row.note and math.isnan(row.value) else number(row.value),
        "goal": goal,
        "baseline": "" if row.baseline is None else f"{number(row.baseline)} {row.baseline_name or ''}".strip(),
        "ratio": number(row.ratio),
    }


def print_rows(rows: Sequence[Row], write: Callable[[str], object] = print) -> None:
    """Print a table; a row that misses its goal is marked."""
    head = ("bench", "case", "value", "unit", "goal", "baseline", "ratio", "", "")
    lines = [head]
    for row in rows:
        cells = texts(row)
        mark = {True: "", False: "MISSES", None: ""}[row.reached]
        lines.append(
            (row.bench, row.case, cells["value"], row.unit, cells["goal"], cells["baseline"], cells["ratio"], mark, row.note)
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for i, line in enumerate(lines):
        write("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        if i == 0:
            write("  ".join("-" * width for width in widths))


def write_json(rows: Sequence[Row], path: str) -> None:
    """Write the rows as a list of objects."""
    Path(path).write_text(json.dumps([row.to_dict() for row in rows], indent=1, allow_nan=True) + "\n")
