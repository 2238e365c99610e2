"""Say at the end how many schedules were explored."""

from interleave import EXPLORED


def pytest_terminal_summary(terminalreporter):
    if EXPLORED:
        parts = ", ".join(f"{name} {count:,}" for name, count in sorted(EXPLORED.items()))
        terminalreporter.write_line(f"complete schedules explored: {sum(EXPLORED.values()):,} ({parts})")
