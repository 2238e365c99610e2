"""How many schedules the interleaving tests have run: this file comes after all of them.

Property    a run of the whole suite explores at least 1,000,000 complete schedules.
"""

import pytest

from interleave import EXPLORED

STRUCTURES = {"event count", "log", "ring", "scalegate", "stack"}
LEAST = 1_000_000


def test_interleave_a_million_schedules():
    if not set(EXPLORED) >= STRUCTURES:
        pytest.skip("only a part of the suite has run")
    if sum(EXPLORED.values()) < LEAST:
        pytest.fail(f"only {sum(EXPLORED.values()):,} schedules: {dict(EXPLORED)}")
