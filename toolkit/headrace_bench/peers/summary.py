"""The figures of all workloads as one table in Markdown, such as BENCHMARKS.md has.

The table has a line for each contestant and a column for each workload. A cell has the rates of 1 thread / 2 threads, and in
brackets the processor time per row of the input. If both figures are missing, the cell is empty; if one is, it is a dash.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from headrace_bench.peers.contest import Result
from headrace_bench.peers.workloads import Work
from headrace_bench.rows import number

SCALES = ((1e6, "M "), (1e3, "k "), (1.0, ""))


def markdown(found: Sequence[tuple[Work, Sequence[Result]]]) -> str:
    """Make the table."""
    names = list(dict.fromkeys(result.contestant.name for _, results in found for result in results))
    lines = {name: [name] for name in names}
    head = [""]
    for work, results in found:
        best = max((result.rate for result in results if not math.isnan(result.rate)), default=1.0)
        scale, prefix = next(((scale, prefix) for scale, prefix in SCALES if best >= scale), SCALES[-1])
        head.append(f"{work.title}, {prefix}{work.unit}/s (ns/{work.row})")
        for name in names:
            cells = [_cell(result, scale) for result in results if result.contestant.name == name]
            lines[name].append(" / ".join(cell or "–" for cell in cells) if any(cells) else "")
    rows = [head, ["---"] * len(head), *lines.values()]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _cell(result: Result, scale: float) -> str:
    if math.isnan(result.rate):
        return ""
    cost = "" if math.isnan(result.cpu_ns) else f" ({number(float(f'{result.cpu_ns:.3g}'))})"
    return number(float(f"{result.rate / scale:.3g}")) + cost
