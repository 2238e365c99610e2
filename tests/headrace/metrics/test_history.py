"""The history of a run: what its samples say, how many there are, and that they leave nothing behind.

Property    differences of samples add up to what the run did; the number of samples is bounded; the thread that takes
            them ends with the run, however it ends, and never ends it
Oracle      the run's own counters at its end; thread names; exit codes
Cannot see  what sampling costs: `headrace bench metrics` measures that
"""

import gc
import os
import subprocess
import sys
import textwrap
import weakref
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic.measures import MEASURES
from headrace.errors import ParameterError, RunFailedError
from headrace.metrics.history import History
from headrace.metrics.intervals import Columns, shares_between
from headrace.metrics.snapshot import Metrics
from headrace.runtime.run import AbandonedRunWarning
from support.tidiness import threads_of_ours
from support.workloads import Steered, eventually

ROWS = 20_000
COLUMNS = (
    "seconds", "tuples_in", "tuples_out", "added", "processed", "depth_tuples", "threads", "tuples_per_s",
    "latency_p50_ms", "latency_p99_ms", "latency_max_ms", "input_per_s", "output_per_s", "updates_per_s",
    "comparisons_per_s", "imbalance_cv", "imbalance_max_mean", "depth_ms", "live_keys", "live_windows", "state_bytes",
    "dropped", "set_aside", "filtered", "null_keys", "lost_wakeups", "rate", "holds_back", "balance_holds",
    "behind", "lag_s",
)  # fmt: skip
"""Of windows and joins, before those of each source and each worker: scripts know them, and their order."""
TABLE = pa.table({"ts": np.arange(ROWS), "k": np.arange(ROWS) % 50})


def counting(source=TABLE, **options):
    return hr.stream(source, event_time="ts", **options).key_by("k").window(100).aggregate("counts", n=hr.count())


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    eventually(lambda: not threads_of_ours(), 180)


@pytest.fixture(scope="module")
def finished():
    """Half of the input on 1 thread of 4, then the other half on 3."""
    source = Steered(TABLE, [ROWS // 2])
    with counting(source).start(threads=1, max_threads=4, rate=2 * ROWS, sample_every=0.02) as run:
        try:
            source.let()
            eventually(lambda: run.metrics().operators["counts"].processed == ROWS // 2, 180)
            eventually(lambda: len(run.history) > 0, 180)  # a sample with one thread
            assert run.reconfigure(threads=3).wait(180).outcome == "done"
            sampled = len(run.history)
            eventually(lambda: len(run.history) > sampled + 3, 180)
        finally:
            source.let_all()
        assert run.wait(180)
        return run


# -- what it says ------------------------------------------------------------------------------------


def test_example_differences_add_up(finished):
    frame = finished.history.to_pandas()
    assert finished.history.failure is None
    assert len(frame) > 5 and tuple(frame.columns[: len(COLUMNS)]) == COLUMNS
    assert (frame["processed"].iloc[-1], frame["tuples_in"].iloc[-1]) == (ROWS, ROWS)
    intervals = frame["seconds"].diff().fillna(frame["seconds"].iloc[0])
    assert (intervals > 0).all()
    for rate in ("tuples_per_s", "input_per_s", "updates_per_s"):
        assert (frame[rate] * intervals).sum() == pytest.approx(ROWS)
    assert (frame["output_per_s"] * intervals).sum() == pytest.approx(finished.metrics().tuples_out)
    loads = frame[[f"load_{i}" for i in range(4)]].mul(intervals, axis=0).sum()
    assert loads.sum() == pytest.approx(ROWS) and loads["load_1"] > 0 and loads["load_3"] == 0
    assert set(frame["threads"]) == {1, 3} and frame["balance_holds"].all()
    assert (frame["rate"] == 2 * ROWS).all()
    latency = frame[["latency_p50_ms", "latency_p99_ms", "latency_max_ms"]].dropna()
    assert len(latency) and (latency.diff(axis=1).iloc[:, 1:] >= -1e-9).all(axis=None)


def test_example_columns(finished):
    (source,) = finished.metrics().operators["counts"].watermark_gap
    workers = [f"{kind}_{i}" for kind in ("load", "busy", "idle", "blocked") for i in range(4)]
    assert list(finished.history.to_pandas().columns) == [*COLUMNS, f"gap_{source}", *workers]
    assert Columns(MEASURES).names == COLUMNS


def test_example_shares_of_each_interval(finished):
    frame = finished.history.to_pandas()
    for i, active in enumerate(("always", "later", "later", "never")):
        shares = frame[[f"busy_{i}", f"idle_{i}", f"blocked_{i}"]]
        assert (shares >= 0).all(axis=None)
        total = shares.sum(axis=1)
        if active == "never":
            assert (total == 0).all()
        elif active == "always":
            done_before = frame["processed"].shift(fill_value=0) == ROWS  # results may take longer: it has nothing to do
            assert total[~done_before].to_numpy() == pytest.approx(1.0) and set(total.round(9)) <= {0, 1}
        else:
            assert total.iloc[0] == 0 and set(total.round(9)) == {0, 1}
    imbalance = frame[frame["threads"] == 1]["imbalance_cv"]
    assert (imbalance == 0).all() and (frame["imbalance_max_mean"] >= 1).all()


def test_example_loads_of_buckets(finished):
    loads = finished.history.bucket_loads()
    assert loads.shape == (len(finished.history), 1024) and (loads.to_numpy() >= 0).all()
    assert loads.to_numpy().sum() == ROWS
    assert (loads.sum() > 0).sum() <= 50  # there are fifty keys
    assert loads.index.is_monotonic_increasing and loads.index.name == "seconds"


def test_example_since_gives_what_is_new(finished):
    history = finished.history
    samples = history.samples
    assert history.since(0) == samples and history.since(samples[-1].at_ns) == []
    assert history.since(samples[2].at_ns) == samples[3:]
    assert [s.at_ns for s in samples] == sorted({s.at_ns for s in samples})
    assert history.seconds_of(samples[-1].at_ns) == pytest.approx(finished.metrics().seconds)
    assert samples[-1].metrics.state == "finished"


@pytest.mark.slow
def test_example_of_several_operators():
    query = counting().key_by("n").window(1000).aggregate("second", m=hr.count())
    with query.start(sample_every=0.01) as run:
        assert run.wait(180)
        first, second = run.history.to_pandas(), run.history.to_pandas("second")
        assert first["processed"].iloc[-1] == ROWS
        assert second["processed"].iloc[-1] == run.metrics().operators["counts"].results
        last = run.history.samples[-1].metrics.operators
        assert [last[name].counts("latency").sum() for name in ("counts", "second")] == [
            run.metrics().operators["counts"].results, run.metrics().tuples_out,
        ]  # fmt: skip


def test_example_a_run_of_nothing():
    with counting(TABLE.slice(0, 0)).start() as run:
        assert run.wait(180)
        frame = run.history.to_pandas()
        assert len(frame) == 0 and tuple(frame.columns) == COLUMNS
        assert run.history.bucket_loads().to_numpy().sum() == 0


def test_example_shares_between():
    metrics = []
    for busy, idle in ((10, 0), (40, 70)):
        with counting(TABLE.slice(0, 1)).start(max_threads=2) as run:
            assert run.wait(180)
            operator = run.metrics().operators["counts"]
        spent = {"busy_ns": [busy, 0], "idle_ns": [idle, 0], "blocked_ns": [0, 0]}
        metrics.append(replace(operator, values={**operator.values, **spent}))
    assert shares_between(metrics[1], metrics[0]).tolist() == [[0.3, 0], [0.7, 0], [0, 0]]
    assert shares_between(metrics[0], None).tolist() == [[1, 0], [0, 0], [0, 0]]


# -- how much it keeps -------------------------------------------------------------------------------


def fake(times):
    moments = iter(times)

    def take():
        return Metrics("running", 1.0, 0, 0, at_ns=next(moments))

    return take


def test_property_a_long_history_becomes_coarser():
    """Never more than the limit; the first stays, and of the newest half nothing is missing."""
    history = History(fake(range(1, 2000)), every_s=0.5, limit=10)
    for count in range(1, 500):
        history.sample()
        assert len(history) <= 10
        kept = [sample.at_ns for sample in history.samples]
        assert kept[0] == 1 and kept == sorted(set(kept))
        newest = min(count, 5)
        assert kept[-newest:] == list(range(count - newest + 1, count + 1))
    assert history.every_s == 0.5


def test_example_the_end_is_sampled_once():
    history = History(fake([1, 5, 5, 9]))
    history.sample()
    history.sample()
    history.complete()
    history.complete()
    assert [sample.at_ns for sample in history.samples] == [1, 5]


# -- how it is switched ------------------------------------------------------------------------------


def test_example_off():
    with counting().start(sample_every=None) as run:
        assert "headrace-history" not in threads_of_ours()
        assert run.wait(180)
        assert run.history.samples == [] and len(run.history.to_pandas()) == 0
        assert tuple(run.history.to_pandas().columns) == COLUMNS


@pytest.mark.parametrize("wrong", [0, -1.0, True, float("nan")])
def test_example_wrong_intervals(wrong):
    with pytest.raises(ParameterError, match=r"sample_every=.*give seconds"):
        counting().start(sample_every=wrong)


def test_example_always_on():
    """By default, while the run goes on, without being asked."""
    source = Steered(TABLE, [ROWS // 2])
    with counting(source).start() as run:
        try:
            source.let()
            eventually(lambda: len(run.history) >= 3, 180)
            assert run.history.every_s == 0.1
        finally:
            source.let_all()
        assert run.wait(180)


# -- how it ends -------------------------------------------------------------------------------------


def test_example_a_failed_run_keeps_its_history():
    def batches():
        yield TABLE.to_batches()[0]
        raise KeyError("gone")

    with counting(batches()).start(sample_every=0.005) as run:
        with pytest.raises(RunFailedError):
            run.wait(180)
        last = run.history.samples[-1].metrics
        assert last.state == "failed" and last.tuples_in == ROWS
        assert run.history.to_pandas() is not None


def test_example_stop_ends_the_thread():
    source = Steered(TABLE, [ROWS // 2])
    run = counting(source).start(sample_every=0.005)
    source.let()
    eventually(lambda: len(run.history) > 2, 180)
    run.stop()
    assert "headrace-history" not in threads_of_ours()
    assert run.history.samples[-1].metrics.state == "stopped"
    source.let_all()


def test_example_a_dropped_run_is_collected():
    """Nobody holds it any more: although its input goes on, its threads end, that of the history too, and it goes."""
    source = Steered(TABLE, [ROWS // 2])
    with pytest.warns(AbandonedRunWarning, match="nothing refers to it any more") as caught:
        run = counting(source).start(sample_every=0.005)
        reference = weakref.ref(run)
        del run
        eventually(lambda: gc.collect() >= 0 and reference() is None, 180)
        eventually(lambda: list(caught), 180)
        source.let_all()  # else its reader would be left
        eventually(lambda: not threads_of_ours(), 180)


def test_example_sampling_that_fails_does_not_end_the_run(monkeypatch):
    whole = History.sample

    def sample(history):
        whole(history)
        raise ZeroDivisionError("in the sampler")

    monkeypatch.setattr(History, "sample", sample)
    with counting().start(rate=4 * ROWS, sample_every=0.005) as run:
        assert run.wait(180) and run.to_arrow().num_rows > 0
        assert isinstance(run.history.failure, ZeroDivisionError)


def script(text):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    preface = """
        import os, sys, time
        import pyarrow as pa
        import headrace as hr
        from headrace.errors import RunStoppedError

        def forever():
            for i in range(10**9):
                time.sleep(0.001)
                yield pa.record_batch({"ts": [i], "k": [i % 10]})

        run = hr.stream(forever(), event_time="ts").key_by("k").window(10).aggregate(n=hr.count()).start(sample_every=0.001)
        while len(run.history) < 3:
            time.sleep(0.001)
        """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(preface) + textwrap.dedent(text)],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.slow
def test_example_the_interpreter_exits():
    done = script("print('leaving', flush=True)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")


@pytest.mark.slow
def test_example_a_fork_has_no_history():
    done = script(
        """
        child = os.fork()
        if child == 0:
            try:
                run.history
            except RunStoppedError as error:
                print("belongs to process" in str(error), flush=True)
            os._exit(5)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(run.history) > 2, flush=True)
        run.stop()
        """
    )
    assert (done.returncode, done.stdout) == (0, "True\n5 True\n"), done.stderr


def test_example_metrics_as_a_frame(finished):
    frame = finished.metrics().to_pandas()
    assert isinstance(frame, pd.DataFrame) and list(frame["operator"]) == ["counts"]
    assert frame["balance"][0] == f"{ROWS:,} arrived = {ROWS:,} processed + 0 in flight"
