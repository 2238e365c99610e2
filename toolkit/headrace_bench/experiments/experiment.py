"""The result of an experiment: rows for the table, figures for the report, and the paper's own findings as context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from headrace_bench.experiments.figure import Figure, places_of, plot_of
from headrace_bench.rows import Row, texts

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Paper:
    """What the paper reports for the same experiment, on its own machine.

    Parameters
    ----------
    source : str
        Paper, section and figure.
    machine : str
    findings : sequence of str
        One sentence each, with the paper's figures.
    """

    source: str
    machine: str
    findings: Sequence[str]


STRETCH_MACHINE = "2 x Intel Xeon E5-2695 at 2.1 GHz, 36 cores, 72 hardware threads, 64 GB; Java; Flink 1.6.0"


@dataclass
class Experiment:
    """A finished experiment.

    Parameters
    ----------
    name : str
        As in `headrace bench NAME`.
    title, text : str
        The question; and a few sentences on what was run and how to read the figures.
    rows : list of Row
    figures : list of Figure
        Shown two to a line in the report.
    paper : Paper
    assumptions : list of str
        Assumptions of its predictions.
    markdown : str
        Its figures as a Markdown table, to be pasted elsewhere, if it has one.
    """

    name: str
    title: str
    text: str
    paper: Paper
    rows: list[Row] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    markdown: str = ""

    def to_pandas(self) -> pd.DataFrame:
        """The table of `headrace bench`, as it is printed."""
        import pandas as pd

        return pd.DataFrame([{"case": row.case, "unit": row.unit, **texts(row)} for row in self.rows])

    def plots(self) -> list[Any]:
        """The figures as Bokeh plots, in the order of the report; their names are figure0, figure1, ..."""
        places = places_of(self.figures)
        return [plot_of(each, f"figure{i}", places[i]) for i, each in enumerate(self.figures)]

    def to_dict(self) -> dict:
        """The experiment in the form of its JSON file; `rows` as `bench --json` writes them."""
        fields = asdict(self)
        del fields["markdown"]  # it holds the same figures
        fields["rows"] = [row.to_dict() for row in self.rows]
        return fields
