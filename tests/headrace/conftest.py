"""Count the schedules that all test processes explored together, say how many, and ask for a million.

Property    a run of the whole suite explores at least 1,000,000 complete schedules; a part of it is asked nothing.
"""

import pytest

from interleave import EXPLORED, are_too_few


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    for name, count in getattr(node, "workeroutput", {}).get("explored", {}).items():
        EXPLORED[name] += count


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # one of several processes: pass it on to the one that reports
        session.config.workeroutput["explored"] = dict(EXPLORED)
    elif _is_too_little(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_too_little(config):
    """`make check` leaves out what is slow: a part, though every structure is in it."""
    return "slow" not in config.option.markexpr and are_too_few(EXPLORED)


def pytest_terminal_summary(terminalreporter):
    if EXPLORED:
        parts = ", ".join(f"{name} {count:,}" for name, count in sorted(EXPLORED.items()))
        short = "TOO FEW " if _is_too_little(terminalreporter.config) else ""
        terminalreporter.write_line(f"{short}complete schedules explored: {sum(EXPLORED.values()):,} ({parts})")
