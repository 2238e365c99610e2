"""What the head of the dashboard says of the books: of a run that was stopped, what was discarded.

Oracle      the metrics of the run
Cannot see  how it looks; the other states are seen in test_dashboard.py
"""

from types import SimpleNamespace

import pyarrow as pa

import headrace as hr
from headrace_widgets.status import verdict_of
from support.workloads import eventually

FEED = SimpleNamespace(watermarks_rose=True)


def test_a_stopped_run_says_what_was_discarded():
    table = pa.table({"ts": range(10_000)})
    with hr.stream(table, event_time="ts").forward().start(rate=10) as run:
        eventually(lambda: run.metrics().tuples_in == 10_000)
        assert verdict_of(run.metrics(), FEED)[:2] == (True, "Nothing lost, order kept")
        run.stop()
        metrics = run.metrics()
    good, verdict, books = verdict_of(metrics, FEED)
    discarded = 10_000 - metrics.operators["forward"].processed
    assert good and discarded > 9_000
    assert verdict == f"Stopped: {discarded:,} tuples discarded; until then nothing lost, order kept"
    assert "in flight +" not in books and f"+ {discarded:,} discarded; stopped: " in books
