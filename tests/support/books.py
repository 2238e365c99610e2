"""What must hold of any snapshot of an O+ run, between two snapshots, and at the run's end."""

from __future__ import annotations

import time

import numpy as np
import pytest

import headrace as hr
from support.kernel_text import change_kernels
from support.workloads import HANG_S, given_meanwhile, steer


def check(metrics, before=None):
    """Check what must hold of any snapshot, and between two."""
    for name, operator in metrics.operators.items():
        assert operator.balance.holds, f"{name}: {operator.balance}"
        in_flight = f"{name}: {operator.in_flight} in flight; {operator.balance}"
        assert 0 <= operator.in_flight == operator.depth_tuples <= operator.balance.in_flight, in_flight
        assert operator.depth_ms >= 0 and operator.live_windows >= 0, operator.to_dict()
        shares = zip(operator.busy_share, operator.idle_share, operator.blocked_share, strict=True)
        for worker, three in enumerate(shares):
            assert min(three) >= 0 and sum(three) <= 1 + 1e-9, f"shares of {name}-{worker}: {three}"
            spent = operator.busy_ns[worker] + operator.idle_ns[worker] + operator.blocked_ns[worker]
            assert sum(three) == pytest.approx(1.0 if spent else 0.0), f"shares of {name}-{worker}: {three}"
        loads = f"bucket_load of {name}: {sum(operator.bucket_load)} of {sum(operator.load)}"
        assert 0 <= min(operator.bucket_load) and sum(operator.bucket_load) <= sum(operator.load), loads
        assert min(operator.watermark_gap.values()) >= 0, operator.watermark_gap
        if before is not None:
            then = before.operators[name]
            for counter in ("added", "processed", "results", "updates", "comparisons", "filtered"):
                assert getattr(operator, counter) >= getattr(then, counter), counter
            assert (np.array(operator.bucket_load) >= np.array(then.bucket_load)).all(), "bucket_load went back"
    return metrics


def check_end(metrics, rows=None):
    """Check that nothing is in flight any more, and that all load has been attributed to buckets."""
    check(metrics)
    assert metrics.state == "finished", metrics.state
    for operator in metrics.operators.values():
        books = operator.balance
        assert books.in_flight == books.read_ahead == 0 and operator.added == operator.processed, books
        loads = f"bucket_load: {sum(operator.bucket_load)} of {sum(operator.load)}"
        assert sum(operator.bucket_load) == sum(operator.load), loads
        assert operator.live_windows == 0 or operator.comparisons, f"{operator.live_windows} windows are left"
        assert operator.lost_wakeups == 0, "somebody slept until the time was over beside what it waited for"
    if rows is not None:
        first = next(iter(metrics.operators.values()))
        assert metrics.tuples_in == first.balance.arrived == rows, (metrics.tuples_in, first.balance, rows)
        counted = first.added, first.filtered, metrics.dropped, metrics.set_aside
        assert sum(counted) == rows, (counted, rows)


def watched(run, draw, most_threads=4):
    """Check snapshots again and again, and reconfigure now and then, until the run is over."""
    before = None
    while not run.wait(0):
        before = check(run.metrics(), before)
        if draw.random() < 0.2:
            steer(run, threads=draw.choice([1, 2, most_threads, [0, most_threads - 1]]))
        time.sleep(draw.choice([0, 0, 1e-4, 1e-3]))
    return run.metrics()


def changed_and_watched(run, inputs, draw):
    """Change the threads of both operators of a run while sources give batches; then check snapshots until it is over."""
    with given_meanwhile(inputs, draw):
        for _ in range(12):
            for name in ("upper", "lower"):
                change = run[name].reconfigure(threads=draw.choice([1, 2, 4, [0, 3], [2], [1, 3]]))
                assert change.wait(HANG_S).outcome in ("done", "unneeded", "no change")
    return watched(run, draw)


def counting(source):
    return hr.stream(source, event_time="ts").key_by("k").window(10).aggregate("counts", n=hr.count())


def plant(monkeypatch, changes):
    """Change the text of the instances' module."""

    def changed(text):
        for old, new in changes:
            assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times: the mistake is out of date"
            text = text.replace(old, new)
        return text

    change_kernels(monkeypatch, changed)


def assert_found(monkeypatch, scenario, changes, what):
    """Plant a mistake in the instances' text; the scenario must fail by saying `what`."""
    plant(monkeypatch, changes)
    with pytest.raises(AssertionError, match=what):
        scenario()
