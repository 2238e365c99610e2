"""Method: changes of real runs, and of a made-up one with known numbers, in the table, in files, and made again.
What this cannot see: anything in the browser; tests/browser drives a real one.
"""

import csv
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

import headrace as hr
from headrace.changes import Change
from headrace_widgets import Dashboard, replay
from headrace_widgets.changes_table import COLUMNS, MOST_LINKED, ChangesTable
from headrace_widgets.markers import label_of
from headrace_widgets.table import Table
from support.dashboards import start
from support.workloads import eventually


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"owners": [[0, 10**10]]}, "owners of 10,000,000,000 buckets, and there are 1,024"),
     ({"owners": [[0, 2], [1, -1]]}, "not a list of"), ({"owners": [[0]] * 1_024}, "not a list of"),
     ({"owners": None}, "not a list of"), ({"owners": "x" * 10**6}, "not a list of"),
     ({"tuples": "7"}, "tuples '7'"), ({"tuples": -1}, "tuples -1"), ({"members": [0, True]}, "members"),
     ({"members": []}, "members"), ({"operator": "nobody"}, "operator 'nobody', and this run has"),
     ({"operator": ["x"]}, "operator")],
)  # fmt: skip
def test_example_replay_checks_before_it_expands(run, changed, told):
    name = next(iter(run.metrics().operators))
    good = {"operator": name, "members": [0], "owners": [[0, 1_024]], "tuples": 0, "outcome": "done"}
    with pytest.raises(ValueError, match="change 2 of those done has") as caught:
        replay([good, good | changed], run)
    assert told in str(caught.value) and len(str(caught.value)) < 300
    assert run.changes == []


def test_example_the_table_and_replay_on_another_run(run, dashboard, tmp_path):
    run.reconfigure(threads=3, reason="=SUM(A1)").wait(180)
    run.reconfigure(mapping=run.mapping.move(range(10), to=2)).wait(180)
    eventually(lambda: all(one["tuples"] is not None for one in dashboard.changes.records()), 180)
    first, second = dashboard.changes.records()
    assert (first["from_threads"], first["to_threads"], first["by"], first["reason"]) == (
        1,
        3,
        "call",
        "=SUM(A1)",
    )
    assert second["buckets_moved"] == run.changes[1].buckets_moved > 0
    assert sum(count for _, count in second["owners"]) == 1_024
    assert "'=SUM(A1)" in dashboard.changes.to_csv()
    eventually(lambda: "changes.json" in dashboard.changes.widget.value, 180)
    file = tmp_path / "changes.json"
    file.write_text(json.dumps([first, second]))
    with start(rate=5_000) as other:
        replay(file, other).join(180)
        assert [(c.to_threads, c.outcome) for c in other.changes] == [(3, "done"), (3, "done")]
        assert other.mapping == run.mapping
    with pytest.raises(ValueError, match="export one from the dashboard"):
        replay([{"a": 1}], run)


@pytest.mark.slow
def test_example_the_table_says_what_a_change_did_to_the_imbalance():
    """One of two threads has all the buckets: a coefficient of variation of 100%. Then each has half of them."""
    lopsided = hr.Mapping.even(2).move(range(1_024), to=0)
    with start(threads=2, rate=2_000) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            run.reconfigure(mapping=lopsided).wait(180)
            seconds = run.metrics().seconds
            # Two seconds before a change count, and the loads of half a second more.
            eventually(lambda: run.metrics().seconds > seconds + 3, 180)
            run.reconfigure(mapping=hr.Mapping.even(2)).wait(180)
            loads = np.array(run.metrics().operators[dashboard.operator].bucket_load)
            expected, _ = hr.Mapping.even(2).predicted_imbalance(loads)

            def known():
                with dashboard.messages.lock:
                    last = dashboard.changes.records()[-1]
                return last if dashboard.feed.newest_s > last["at_s"] + 3 else None

            last = eventually(known, 180)
            assert last["imbalance_before"] == pytest.approx(1.0, abs=0.1)
            assert last["imbalance_after"] == pytest.approx(expected, abs=0.1)
            assert last["imbalance_after"] < 0.4
            assert last["p99_before_ms"] > 0
            assert last["p99_after_ms"] > 0
            eventually(
                lambda: f'"imbalance">{last["imbalance_before"]:.1%} →' in dashboard.changes.widget.value, 180
            )
        finally:
            dashboard.close()


def test_example_before_and_after_in_the_table():
    """A change at second 10 that takes one; the columns below are known, so are their means.

    t     5 .. 7.9   8 .. 10   10.1 .. 11.4   11.5 .. 13.5   13.6 ..
    cv    0.9        0.5       0.7            0.1            0.9
    p99   99         8         50             2              99
    """
    table = Table(("t", "imbalance_cv", "latency_p99_ms"))
    for i in range(50, 200):
        t = i / 10
        if t < 8 or t > 13.55:
            row = 0.9, 99.0
        elif t <= 10:
            row = 0.5, 8.0
        else:
            row = (0.7, 50.0) if t < 11.45 else (0.1, 2.0)
        table.append((t, *row))
    same = {"threads": 2, "members": (0, 1)}
    times = {"requested_ns": 10 * 10**9, "started_ns": 10 * 10**9, "completed_ns": 11 * 10**9}
    change = Change("op", same, same, "done", **times, reason="a test", effects={"buckets_moved": 512})
    feed = SimpleNamespace(tables={"op": table}, metrics=None, newest_s=20.0, seconds_of=lambda ns: ns / 1e9)
    run = SimpleNamespace(changes=[change], capabilities={"threads", "mapping"})
    changes = ChangesTable(run, feed)
    (record,) = changes.records()
    measured = [record[field] for title in ("imbalance", "p99 latency") for field in COLUMNS[title]]
    assert measured == pytest.approx([0.5, 0.1, 8.0, 2.0])
    changes.show([change])
    heads = re.findall("<th scope[^>]*>(.*?)</th>", changes.widget.value)
    given = dict(zip(COLUMNS, re.findall("<td [^>]*>(.*?)</td>", changes.widget.value), strict=True))
    assert heads == list(COLUMNS)
    assert (given["change"], given["threads"]) == ("512 key buckets move", "2")
    assert given["imbalance"].split() == ["50.0%", "→", "10.0%"]
    assert re.sub(r"\.0+", "", given["p99 latency"]).split() == ["8", "ms", "→", "2", "ms"]
    written = dict(zip(*csv.reader(changes.to_csv().splitlines()), strict=True))
    assert (written["from_threads"], written["to_threads"]) == ("2", "2")
    assert float(written["imbalance_after"]) == pytest.approx(0.1)
    assert label_of(change) == "512 buckets"
    # A long run knows its newest changes only, so their number stays.
    newer = [Change("op", same, {"threads": 3}, "done", **times, reason=f"no. {i}") for i in range(MOST_LINKED + 1)]
    changes.show(newer[:-1])
    changes.show(newer[1:])
    assert "no. 200" in changes.widget.value and "no. 180<" not in changes.widget.value
    assert "the newest" not in changes.widget.value
    changes.show(newer)
    assert "changes.json</a> (the newest 200); in Python" in changes.widget.value
    change.effects["buckets_moved"] = 1
    assert (label_of(change), change.describe()) == ("1 bucket", "1 key bucket moves")
    change.settle("failed", change.completed_ns)
    (record,) = changes.records()
    assert record["imbalance_after"] is record["p99_before_ms"] is None  # it did nothing to the stream
