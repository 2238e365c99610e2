"""A small query that counts by key, for tests of how runs end, and what must be true after each."""

from __future__ import annotations

import pyarrow as pa

import headrace as hr
from support.tidiness import threads_of_ours
from support.workloads import eventually

TABLE = pa.table({"ts": range(1_000), "k": [i % 10 for i in range(1_000)]})


def query(source=TABLE, **options):
    return hr.stream(source, event_time="ts", **options).key_by("k").window(10).aggregate("counts", n=hr.count())


def check_nothing_is_left() -> None:
    """Check that a test leaves no thread of ours behind, and that the engine still works."""
    eventually(lambda: not threads_of_ours(), 180)
    assert query().to_arrow(threads=2).num_rows == 1_000
