"""Say at the end how many schedules were explored, by all test processes together."""

import pytest

from interleave import EXPLORED


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # one of several processes: pass it on to the one that reports
        session.config.workeroutput["explored"] = dict(EXPLORED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    for name, count in getattr(node, "workeroutput", {}).get("explored", {}).items():
        EXPLORED[name] += count


def pytest_terminal_summary(terminalreporter):
    if EXPLORED:
        parts = ", ".join(f"{name} {count:,}" for name, count in sorted(EXPLORED.items()))
        terminalreporter.write_line(f"complete schedules explored: {sum(EXPLORED.values()):,} ({parts})")
