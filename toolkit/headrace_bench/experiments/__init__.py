"""The papers' experiments: `headrace bench q1 ... q6, viper, tstream, ordered, dgs`.

Each module has `measure(full, tiny=False) -> Experiment`: it checks results
before it times anything, measures ours beside what it is compared with in one
run, and returns rows for the table and figures laid out as in the paper. What
the paper measured stands beside ours as context; machines are not compared.
"""

from headrace_bench.experiments.experiment import Experiment, Paper
from headrace_bench.experiments.figure import Figure, Line

NAMES: tuple[str, ...] = ("q1", "q2", "q3", "q4", "q5", "q6", "viper", "tstream", "ordered", "dgs")

__all__ = ["NAMES", "Experiment", "Figure", "Line", "Paper"]
