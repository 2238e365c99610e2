"""The report of ``headrace run``: the figures of a finished run."""

from __future__ import annotations

from typing import Any

from headrace.apps.engines import Engine
from headrace.apps.json_numbers import finite, quantiles


def summarize(run: Any, engine: Engine, rows: int) -> dict[str, Any]:
    """Return the report of a finished run, whose input files have this many rows."""
    metrics = run.metrics()
    *_, operator = metrics.operators.values()  # its results are those of the query
    seconds = metrics.seconds
    changes = sorted(run.changes, key=lambda c: c.requested_ns if c.planned_at is None else c.planned_at)
    report = {
        "app": engine.app.name,
        "tuples_in": rows,
        "tuples_out": metrics.tuples_out,
        "dropped": metrics.dropped,
        "seconds": seconds,
        "tuples_per_s": rows / seconds if seconds > 0 else None,
        "latency_ms": _latency(operator),
        "comparisons_per_s": operator.comparisons / seconds if engine.compares and seconds > 0 else None,
        "reconfigurations": [
            {"operator": c.operator, "from": c.from_threads, "to": c.to_threads, "ms": finite(c.ms), "outcome": c.outcome}
            for c in changes
        ],
        "imbalance_cv": operator.values.get("imbalance_cv"),
        "threads": engine.asked.threads,
    }
    if len(metrics.operators) > 1:
        report["operators"] = {
            each.name: {
                "tuples_in": each.processed,
                "tuples_out": each.results,
                "latency_ms": _latency(each),
                "imbalance_cv": each.values.get("imbalance_cv"),
            }
            for each in metrics.operators.values()
        }
    return report | engine.figures(run, operator, seconds)


def _latency(operator: Any) -> dict[str, float | None]:
    """Return the latency of an operator's results, in milliseconds; None where it has none."""
    return quantiles(getattr(operator, "latency_ms", {}))
