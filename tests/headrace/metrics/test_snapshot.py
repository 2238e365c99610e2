"""A snapshot: as a table, as JSON, by attribute; and of a run that is paced, fails, or ends meanwhile.

Oracle      arithmetic by hand
Planted     an input rate of what was read
Cannot see  whether the engine counts what happens: the other files here do
"""

import copy
import json
import pickle

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic.measures import MEASURES
from headrace.errors import HeadraceError, ParameterError
from headrace.metrics.balance import Balance, Conserved
from headrace.metrics.latency import LatencyHistogram
from headrace.metrics.measures import Measure
from headrace.metrics.snapshot import Metrics, OperatorMetrics
from headrace.runtime.sources import Source
from headrace.transactions.measures import MEASURES as LEDGER
from support.books import check, counting
from support.workloads import eventually

LATENCY = LatencyHistogram()
LATENCY.add(np.array([1_000_000, 1_000_000, 3_000_000]))


def operator(name="counts", threads=2, **more):
    values = {
        "added": 10, "processed": 8, "results": 3, "updates": 20, "comparisons": 0, "watermark": 7, "live_keys": 5,
        "state_bytes": 100, "load": [12, 8], "imbalance_cv": 0.2, "imbalance_max_mean": 1.2,
        "latency": LATENCY.counts(), "latest_latency": None, "filtered": 0, "null_keys": 0, "duplication": 1.0,
        "transferred_bytes": 0, "transferred_ns": 0, "busy_ns": [50, 0], "idle_ns": [30, 0], "blocked_ns": [20, 0],
        "barrier_ns": [0, 0],
        "bucket_load": [20] + [0] * 1023, "depth_ms": 0.5, "watermark_gap": {"left": 0, "right": 4},
        "holds_back": "right", "live_windows": 5, "lost_wakeups": 0,
    }  # fmt: skip
    books = Balance(10, 0, 8, 0, 2, 0, 0, 0)
    largest = {"latency": LATENCY.largest_ns}
    return OperatorMetrics(name, threads, 4, [0, 1][:threads], 2.0, books, MEASURES, values | more, largest)


def test_example_a_snapshot_says_in_a_line_what_its_engine_counts():
    values = dict.fromkeys((measure.name for measure in LEDGER), 0) | {"added": 9, "processed": 9, "results": 9}
    of_ledger = OperatorMetrics("pay", 1, 2, [0], 1.0, None, LEDGER, values | {"transactions": 9, "rejected": 4})
    counts = "added=9, processed=9, results=9, transactions=9, rejected=4"
    assert repr(of_ledger) == f"OperatorMetrics('pay', 1 of 2 threads, {counts})"
    assert repr(operator()) == "OperatorMetrics('counts', 2 of 4 threads, added=10, processed=8, results=3)"


def test_example_a_snapshot_as_a_table_and_as_json():
    metrics = Metrics("running", 2.0, 10, 3, operators={"counts": operator(), "next": operator("next", threads=1)})
    frame = metrics.to_pandas().set_index("operator")
    assert list(frame.index) == ["counts", "next"] and list(frame["threads"]) == [2, 1]
    row = frame.loc["counts"]
    assert (row["in_flight"], row["input_per_s"], row["output_per_s"]) == (2, 5.0, 1.5)
    assert (row["latency_max_ms"], row["gap_right"], row["holds_back"]) == (3.0, 4, "right")
    assert row["balance"] == "10 arrived = 8 processed + 2 in flight" and row["balance_holds"]
    plain = json.loads(json.dumps(metrics.to_dict()))
    assert plain["operators"]["counts"]["balance"] == {
        "arrived": 10, "gained": 0, "processed": 8, "waiting": 0, "in_gate": 2, "dropped": 0, "set_aside": 0,
        "filtered": 0, "faults": [], "in_flight": 2, "read_ahead": 0, "holds": True, "unreleased": 0, "is_stopped": False,
        "discarded": {"in_flight": 0, "read_ahead": 0, "results": 0}, "conserved": [],
    }  # fmt: skip
    assert sum(plain["operators"]["counts"]["bucket_load"]) == 20
    assert metrics.holds and metrics.input_per_s == 5.0 and Metrics("running", 0.0, 0, 0).output_per_s == 0.0
    metrics.operators["next"].balance = Balance(10, 0, 8, 0, 1, 0, 0, 0)
    assert not metrics.holds


@pytest.mark.parametrize(("now", "holds"), [(1_000, True), (990, False)])
def test_example_books_hold_only_while_sums_are_as_at_the_start(now, holds):
    books = Balance(10, 0, 10, 0, 0, 0, 0, 0, conserved=(Conserved("accounts.balance", 1_000, now, 8, 0.25),))
    assert (books.holds, bool(books)) == (holds, holds)
    assert json.loads(json.dumps(books.to_dict()))["conserved"] == [
        {"name": "accounts.balance", "first": 1_000, "now": now, "at_tuple": 8, "age_s": 0.25}
    ]
    assert f"accounts.balance sums to {now:,} " in str(books)


def test_example_nothing_of_a_snapshot_is_lost():
    """Scripts know these names."""
    plain = operator().to_dict()
    assert set(plain) == {
        "name", "threads", "max_threads", "added", "processed", "results", "updates", "comparisons", "watermark",
        "depth_tuples", "live_keys", "state_bytes", "busy_share", "load", "imbalance_cv", "imbalance_max_mean",
        "latency_ms", "filtered", "null_keys", "duplication", "transferred_bytes", "transferred_ns", "seconds",
        "members", "busy_ns", "idle_ns", "blocked_ns", "idle_share", "blocked_share", "bucket_load", "depth_ms",
        "watermark_gap", "holds_back", "live_windows", "latest_latency_ms", "lost_wakeups", "balance",
        "barrier_ns",
    }  # fmt: skip
    assert plain["latency_ms"]["max"] == 3.0 and plain["latest_latency_ms"] == {}
    assert (plain["busy_share"], plain["blocked_share"]) == ([0.5, 0.0], [0.2, 0.0])
    row = Metrics("running", 2.0, 10, 3, operators={"counts": operator()}).to_pandas().columns
    assert {
        "operator", "threads", "max_threads", "added", "processed", "results", "updates", "comparisons", "watermark",
        "depth_tuples", "live_keys", "state_bytes", "imbalance_cv", "imbalance_max_mean", "latency_p50_ms",
        "latency_p99_ms", "latency_max_ms", "filtered", "null_keys", "duplication", "transferred_bytes",
        "transferred_ns", "seconds", "depth_ms", "gap_left", "gap_right", "holds_back", "live_windows",
        "latest_latency_p50_ms", "latest_latency_p99_ms", "latest_latency_max_ms", "lost_wakeups", "balance",
        "balance_holds", "in_flight", "input_per_s", "output_per_s", "comparisons_per_s",
    } <= set(row)  # fmt: skip


def test_example_measures_are_attributes():
    counts = operator()
    assert (counts.added, counts.in_flight, counts.depth_tuples) == (10, 2, 2)
    assert (counts.input_per_s, counts.tuples_per_s, counts.updates_per_s) == (5.0, 4.0, 10.0)
    assert counts.latency_ms["p50"] == pytest.approx(1.0, rel=0.05) and counts.latency_ms["max"] == 3.0
    assert counts.counts("latency").sum() == 3 and counts.counts("latest_latency") is None
    assert {"added", "latency_ms", "busy_share", "input_per_s"} <= set(dir(counts))
    with pytest.raises(AttributeError, match=r"'counts' does not measure 'rejected'; there is added, .*busy_share"):
        _ = counts.rejected
    with pytest.raises(AttributeError):
        counts.added = 11  # would hide what was measured


def test_example_copies_and_equality():
    counts = operator()
    for other in (copy.copy(counts), copy.deepcopy(counts), pickle.loads(pickle.dumps(operator(latency=None)))):
        assert (other == counts) == (other.counts("latency") is not None)
    assert counts != operator(added=11) and counts != operator(latency=2 * LATENCY.counts())


def test_example_one_value_for_each_measure():
    values = dict(operator().values)
    del values["updates"]
    with pytest.raises(ParameterError, match=r"one value for each measure; \['updates'\] have none"):
        OperatorMetrics("counts", 1, 1, [0], 0.0, None, MEASURES, values)
    with pytest.raises(ParameterError, match=r"\['wait'\] are no measures"):
        operator(wait=1)
    with pytest.raises(ParameterError, match=r"\['added', 'processed', 'results'\] have none"):
        OperatorMetrics("counts", 1, 1, [0], 0.0, None, (), {})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "meter"}, "give one of .*counter"),
        ({"by": "core"}, "give one of .*worker"),
        ({"shown": "nowhere"}, "give one of .*plot"),
        ({"name": "threads"}, "every operator has that already"),
        ({"name": "two words"}, "not a Python name"),
        ({"rate": "x_per_s"}, "only a counter in all"),
        ({"kind": "counter", "by": "worker", "rate": "x_per_s"}, "only a counter in all"),
        ({"part_of": "time"}, "only counters by something"),
        ({"share_of": "taken"}, "only a counter by stage is share_of= another"),
        ({"kind": "histogram", "by": "stage"}, "a histogram is one in all"),
        ({"kind": "counter", "between": max}, "only a gauge or a text in all"),
    ],
)
def test_example_declarations_that_do_not_go_together(wrong, said):
    with pytest.raises(ParameterError, match=said):
        Measure(**{"name": "x", "unit": "ns", "title": "What it says."} | wrong)


# -- of a run ----------------------------------------------------------------------------------------


def test_example_a_failed_run_stays_readable():
    def batches():
        yield pa.record_batch({"ts": list(range(100)), "k": [1] * 100})
        raise KeyError("gone")

    with counting(batches()).start(threads=2) as run:
        with pytest.raises(HeadraceError, match="gone"):
            run.wait(180)
        metrics = check(run.metrics())
        assert metrics.state == "failed" and metrics.tuples_in == 100
        assert metrics.operators["counts"].balance.arrived == 100
        assert metrics.to_pandas()["balance_holds"].all()


def test_example_a_handle_gives_its_operators_metrics():
    with counting(pa.table({"ts": range(50), "k": [1] * 50})).start() as run:
        assert run.wait(180)
        assert run["counts"].metrics() == run.metrics().operators["counts"]


def paced():
    """Rows that were read count as input when they are taken, not before."""
    table = pa.table({"ts": range(10_000)})
    rate = hr.rates.phases([(0.3, 400), (600, 0), (1, 400)])  # 120 tuples, and no more however long this process stands still
    with hr.stream(table, event_time="ts").forward().start(rate=rate, sink=hr.discard()) as run:
        eventually(lambda: run.metrics().tuples_out >= 100)
        metrics = run.metrics()
        assert metrics.tuples_in == 10_000
        assert metrics.waiting >= 9_000, "rows that wait count as taken"
        # The player keeps its rate from the first tuple on; it may be as late as it likes.
        assert metrics.input_per_s <= 1_000, metrics.input_per_s
        assert metrics.input_per_s == pytest.approx((10_000 - metrics.waiting) / metrics.seconds) and metrics.waiting <= 9_900


def test_example_input_rate_of_a_paced_run():
    paced()


def test_example_a_snapshot_in_which_the_run_ends_is_of_its_end(monkeypatch):
    """Else the next one would find that no time had passed for the workers."""
    with counting(pa.table({"ts": range(1000), "k": [0] * 1000})).start(rate=1.0) as run:
        measured = type(run["counts"]._operator.section).metrics

        def ends_meanwhile(operator, *arguments):
            found = measured(operator, *arguments)
            run.stop()
            return found

        monkeypatch.setattr(type(run["counts"]._operator.section), "metrics", ends_meanwhile)
        metrics = run.metrics()
        assert metrics.state == "stopped"
        later = run.metrics()
        assert metrics.at_ns == later.at_ns and metrics.seconds == later.seconds
        assert metrics.operators["counts"].idle_ns == later.operators["counts"].idle_ns


def test_planted_an_input_rate_of_what_was_read(monkeypatch):
    monkeypatch.setattr(Source, "taken", property(lambda self: self.rows))
    with pytest.raises(AssertionError, match="rows that wait count as taken"):
        paced()
