"""Textual descriptions of a run and its operators, from counters that others write: nothing here waits or takes a lock."""

from __future__ import annotations

import os

from headrace.names import listed
from headrace.runtime.run import Execution
from headrace.runtime.steering import OperatorSteering

MOST = 8
"""Maximum number of sources or operators that are named; the others are only counted."""


def describe_run(execution: Execution) -> list[tuple[str, str]]:
    """Describe a run as pairs of label and text: state, operators with threads, rows so far, sources."""
    parts = [("number", str(execution.number)), ("state", _state(execution))]
    if _is_elsewhere(execution):
        return parts
    nodes = {node.name: node for node in execution.query.operators}
    operators = []
    for name, operator in execution.operators.items():
        node = nodes.get(name)
        say = getattr(node.spec, "describe", None) if node is not None else None
        what = f"; {say(node.unit)}" if node is not None and callable(say) else ""
        operators.append(f"{name} ({_threads(operator)}{what})")
    sources = [source.feed.inlet.branch.source for source in execution.sources]
    read = sum(source.rows for source in execution.sources)
    return [
        *parts,
        ("operator" if len(operators) == 1 else "operators", listed(operators, MOST)),
        ("rows", f"{read:,} read, {execution.rows_out:,} results"),
        ("from", listed(sources, MOST)),
        *[("now", text) for text in (execution.unfinished() if execution.state == "running" else ())],
    ]


def describe_operator(execution: Execution, operator: OperatorSteering) -> list[tuple[str, str]]:
    """Describe an operator of a run as pairs of label and text."""
    state = ("run", f"{execution.number}, {_state(execution)}")
    if _is_elsewhere(execution):
        return [("name", operator.name), state]
    return [
        ("name", operator.name),
        state,
        ("in force", _threads(operator)),
        ("controls", ", ".join(operator.capabilities)),
        ("changes", f"{operator.changes.done:,} done"),
    ]


def _is_elsewhere(execution: Execution) -> bool:
    """Whether this is a copy of the run in a forked child, where nothing is known of it."""
    return os.getpid() != execution.pid


def _state(execution: Execution) -> str:
    if _is_elsewhere(execution):
        return f"unknown: it is a run of process {execution.pid}, and its threads do not exist in this one"
    state, error = execution.state, execution.error
    if state == "failed" and error is not None:
        return f"failed: {type(error).__name__}: {error}"
    if state == "stopped":
        return f"stopped: {execution.ended_by}"
    return state


def _threads(operator: OperatorSteering) -> str:
    threads, control = operator.configuration["threads"], operator.capabilities.get("threads")
    return f"{threads} of {control.most:g} threads" if control is not None else f"{threads} threads"
