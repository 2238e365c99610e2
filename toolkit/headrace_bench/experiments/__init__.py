"""The papers' experiments: `headrace bench q1 ... q6, viper, tstream, ordered, dgs`.

Each module has `measure(full, tiny=False) -> Experiment`. It checks results
before it times anything, measures ours and what it is compared with in the same
run, and returns rows for the table and figures laid out as in the paper. The
paper's own figures are given as context; machines are not compared.
"""

from headrace_bench.experiments.experiment import Experiment, Paper
from headrace_bench.experiments.figure import Figure, Line

NAMES: tuple[str, ...] = ("q1", "q2", "q3", "q4", "q5", "q6", "viper", "tstream", "ordered", "dgs")

__all__ = ["NAMES", "Experiment", "Figure", "Line", "Paper"]
