"""Each benchmark at a tiny size: it runs, asserts its own results, and reports the documented fields.

Every `measure` compares results with an independent computation before it
reports; that is what runs here. Figures at these sizes mean nothing, so none
is looked at. What this cannot see: whether a benchmark measures what it says.
"""

import itertools
import json
import math
import os
import threading
import time
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from llvmlite import binding

import headrace as hr
import headrace_bench as bench
from headrace.elastic.join import all_pairs_kernel
from headrace.ingress.store import CHUNK
from headrace.kernel import JIT, kernel
from headrace.memory.cells import padded_cells
from headrace_bench import (
    api,
    gate,
    ingress,
    join,
    join_kernel,
    machine,
    machine_kernel,
    reconfigure,
    reconfigure_engines,
    resident,
    rows,
    stopping,
)
from headrace_bench.digest import mix
from headrace_bench.experiments import Experiment, Figure, Line, Paper
from headrace_bench.peers.workloads import SPAN, aggregate_query, keyed_rows
from headrace_bench.rows import Row
from headrace_bench.taken import Watch, processor_s
from support.campaign import rarely
from support.workloads import HANG_S

FIELDS = {"bench", "case", "value", "unit", "better", "goal", "baseline", "baseline_name", "ratio"}
# They take long to compile.
LONG = (
    "adaptive", "api", "arrival", "crafted", "gate", "growth", "gs", "join", "latency", "metrics", "ob", "passing",
    "reconfigure", "sl", "speculative", "state", "tp",
)  # fmt: skip
TINY = [pytest.param(name, marks=pytest.mark.campaign if name in LONG else ()) for name in bench.PARTS]
GOALS = {
    "Arrow table, integer keys, 2 threads": (120.0, "higher"),
    "Arrow table, integer keys, 2 threads, processor time": (12.0, "lower"),
    "Arrow table, integer keys, 2 threads over DuckDB's 2": (1.4, "higher"),
    "an update of 50 ns or more, 2 threads over 1": (1.6, "higher"),
    "a trivial update, 2 threads over 1": (0.95, "higher"),
}
"""Of `bench api`; no other row of it has one."""


def test_example_a_line_goes_to_and_fro():
    """Each thread takes the word when it is its turn; one that waits in vain gives up when the time is over."""
    seen = machine.look(looks=3, steps=1_000, every_s=0.0)
    assert 0 < seen.two_threads[0] <= seen.two_threads[1] <= seen.two_threads[2]
    assert len(seen.line_ns) == 3 and not any(ns <= 0 for ns in seen.line_ns)  # NaN where a core was taken away
    words = padded_cells(3)
    assert machine_kernel.pass_word(words, 0, 5, 0, 0) == 1 and words[machine_kernel.WORD] == 1
    assert machine_kernel.pass_word(words, 0, 5, 1, 0) == 1 and words[machine_kernel.WORD] == 2


def test_measurements_wait_for_near_cores_but_not_for_ever(monkeypatch):
    found = iter([185.0, 185.0, 25.0])
    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    monkeypatch.setattr(machine, "line_ns", lambda: next(found))
    patience = machine.Patience(10.0)
    assert patience.await_near() == 25.0 and 9.0 < patience.left_s < 10.0
    monkeypatch.setattr(machine, "line_ns", lambda: 185.0)
    patience = machine.Patience(0.3)
    assert patience.await_near() == 185.0 and patience.left_s <= 0.0
    assert patience.await_near() == 185.0, "the patience is that of all measurements"
    monkeypatch.setattr(machine, "line_ns", lambda: float("nan"))
    assert np.isnan(machine.Patience(10.0).await_near()), "another program has a core"
    monkeypatch.delattr(machine, "line_ns")
    assert np.isnan(machine.Patience(10.0).await_near(threads=1)), "one thread has no other core to be near"


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_example_each_benchmark_reports_rows(name):
    measured = bench.run(name, tiny=True)
    assert measured
    for row in measured:
        fields = row.to_dict()
        assert set(fields) == FIELDS
        assert fields["bench"] == name and fields["case"] and fields["unit"]
        assert fields["better"] in ("higher", "lower")
        assert isinstance(fields["value"], float)
        assert not fields["value"] < 0
        json.dumps(fields)
    assert len({row.case for row in measured}) == len(measured)
    if name == "api":
        assert {row.case: (row.goal, row.better) for row in measured if row.goal is not None} == GOALS


@pytest.mark.slow
def test_example_ingress_from_spark(spark):
    measured = {row.case: row for row in ingress.measure(False, tiny=True)}
    assert measured["Spark DataFrame, words of text"].value > 0
    assert measured["Spark DataFrame, word count end to end"].ratio > 0


# -- what a user calls


def test_example_api_beside_spark(spark, monkeypatch, tmp_path):
    """Processor time is that of Spark's virtual machine too, so it is told where that is ours to look at."""
    monkeypatch.setattr(api, "THREADS", (1,))
    table = keyed_rows(4_000, keys=50, per_span=500)
    source, count = api.forms_of(table, tmp_path, "integer", spark)["Spark DataFrame"]
    truth = api.wanted(table.slice(0, count))
    measured = api._compare("Spark DataFrame", "integer keys", source, count, truth, 1, {})
    assert [row.unit for row in measured] == ["M rows/s", "ns/row"]
    assert all(row.value > 0 and row.baseline > 0 and row.baseline_name == "Spark's own" for row in measured)


def test_example_wrong_rows_are_noticed():
    table = keyed_rows(2_000, keys=50, per_span=500)
    truth = api.wanted(table)
    assert truth.num_rows == 4 * 50
    api._check(table, truth)
    with pytest.raises(AssertionError, match="ours: other rows"):
        api._check(table, truth.set_column(2, "sum", pc.add(truth["sum"], 1)))
    with pytest.raises(AssertionError, match="DuckDB, .*: other rows"):
        api._compare("Arrow table", "integer keys", table, 2_000, truth.set_column(3, "count", truth["sum"]), 1, {})


def test_example_processor_time_of_a_process():
    """Of this one, read as of another; the kernel counts in ticks."""
    before = time.process_time()
    read = processor_s(os.getpid())
    assert before - 0.1 <= read <= time.process_time() + 0.1
    assert math.isnan(processor_s(0)) and math.isnan(Watch(0).taken().cpu_s)


# -- the rows themselves


def test_example_goal_on_the_ratio():
    row = Row("b", "c", 9.0, "x", "higher", goal=0.9, baseline=10.0, baseline_name="plain", goal_is_ratio=True)
    assert row.reached and row.ratio == 0.9
    assert row.to_dict()["goal"] == 9.0
    assert Row("b", "c", 2.0, "ms", "lower", goal=1.0).reached is False
    assert Row("b", "c", math.nan, "ms", "lower", goal=1.0).reached is None


def test_example_table_marks_what_misses():
    lines = []
    measured = [Row("b", "slow", 2.0, "ms", "lower", 1.0), Row("b", "quick", 0.5, "ms", "lower", 1.0)]
    rows.print_rows(measured, lines.append)
    assert [line.endswith("MISSES") for line in lines] == [False, False, True, False]


def test_example_main_writes_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "NAMES", bench.PARTS)
    monkeypatch.setattr(bench, "run", lambda name, full: [Row(name, "case", 1.0, "s", baseline=2.0)])
    path = tmp_path / "rows.json"
    assert bench.main("gate", json_path=str(path)) == 0
    assert json.loads(path.read_text()) == [
        {"bench": "gate", "case": "case", "value": 1.0, "unit": "s", "better": "higher", "goal": None,
         "baseline": 2.0, "baseline_name": None, "ratio": 0.5}
    ]  # fmt: skip
    assert bench.main("all", json_path=str(path)) == 0
    assert [row["bench"] for row in json.loads(path.read_text())] == list(bench.PARTS)
    assert bench.main("gates") == 2
    assert bench.main("gate", json_path=str(tmp_path / "nowhere" / "rows.json")) == 2
    assert "nowhere" in capsys.readouterr().err


def test_example_main_goes_on_when_one_fails(tmp_path, monkeypatch, capsys):
    def measure(name, full):
        if name == "join":
            raise AssertionError("other pairs")
        return [Row(name, "case", 1.0, "s")]

    figure = Figure("f", "x", "y", [Line("l", [1], [1])])
    finished = Experiment("q1", "t", "t", Paper("p", "m", ()), [Row("q1", "case", 1.0, "s")], [figure])
    monkeypatch.setattr(bench, "NAMES", ("gate", "join", "q1", "idle"))
    monkeypatch.setattr(bench, "run", measure)
    monkeypatch.setattr(bench, "experiment", lambda name, full: finished)
    path = tmp_path / "rows.json"
    assert bench.main("all", json_path=str(path), folder=str(tmp_path)) == 1
    assert [row["bench"] for row in json.loads(path.read_text())] == ["gate", "q1", "idle"]
    said = capsys.readouterr().err.splitlines()
    assert said[:3] == ["bench gate ... 0 s", "bench join ... FAILED: AssertionError: other pairs", "bench q1 ... 0 s"]
    assert said[3].startswith("report: ") and (tmp_path / "q1.html").exists()
    with pytest.raises(AssertionError, match="other pairs"):
        bench.main("join")


@pytest.mark.parametrize(
    ("flag", "place"),
    [("--json", "nowhere/rows.json"), ("--json", "."), ("--json", ""), ("--out", "a_file"), ("--out", "a_file/below"),
     ("--out", "/proc/below")],
)  # fmt: skip
def test_example_main_finds_out_first_what_cannot_be_written(tmp_path, monkeypatch, capsys, flag, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").write_text("kept")
    measured = []
    monkeypatch.setattr(bench, "run", lambda name, full: measured.append(name) or [])
    monkeypatch.setattr(bench, "experiment", lambda name, full: measured.append(name))
    for name in ("q1", "all", bench.PEERS):
        assert bench.main(name, **{"json_path" if flag == "--json" else "folder": place}) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"headrace: bench: {flag} {place}: ") and said.count("\n") == 1
    assert measured == []
    assert (tmp_path / "a_file").read_text() == "kept" and len(list(tmp_path.iterdir())) == 1


def test_example_main_leaves_nothing_where_it_only_looked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.json").write_text("old")

    def measure(name, full):
        assert (tmp_path / "old.json").read_text() == "old"
        assert [p.name for p in tmp_path.iterdir()] == ["old.json"]
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run", measure)
    monkeypatch.setattr(bench, "experiment", measure)
    for name, json_path in (("gate", "new.json"), ("gate", "old.json"), ("q1", "new.json")):
        with pytest.raises(KeyboardInterrupt):
            bench.main(name, json_path=json_path, folder="a/new/folder")


# -- what the benchmarks compare with


@pytest.mark.slow
@pytest.mark.parametrize("times", ["alternating", "bursts", "far apart"])
@pytest.mark.parametrize("first", [0, 50])
def test_oracle_plain_join_loop(times, first):
    """Windows of more than `join_kernel.BLOCK` rows; equal times, many tuples of one side in a row; few rows a window."""
    left, right, size = join.make_sides(300, 40, seed=3)
    rng = np.random.default_rng(5)
    ts, x, y, other_ts, a, b = (column.copy() for column in join.columns_of(left, right))
    if times == "bursts":
        ts, other_ts = (np.sort(rng.integers(1, 60, column.size) * 20) for column in (ts, other_ts))
        ts[:first] = other_ts[:first] = 0  # what is there already came before all others
    few = times == "far apart"
    size = 5 if few else size
    # Matches are rare enough that most have a pass to themselves: one probe left out of it is noticed.
    for column in (x, a, y, b):
        column %= column.dtype.type(40 if few else 400)
    found = np.zeros(3, np.int64)
    join_kernel.join_loop(ts, x, y, other_ts, a, b, size, first, found)
    count = references = rows = 0
    for i, left_ts in enumerate(ts.tolist()):
        for j, right_ts in enumerate(other_ts.tolist()):
            is_right_later = right_ts >= left_ts
            if (j if is_right_later else i) < first or abs(left_ts - right_ts) >= size:
                continue
            if abs(int(x[i]) - int(a[j])) <= 10 and abs(float(y[i]) - float(b[j])) <= 10:
                count += 1
                refs = (join_kernel.LEFT + i, join_kernel.RIGHT + j)
                later = max(left_ts, right_ts)
                references += int(resident.digest_one(*(refs[::-1] if is_right_later else refs), later))
                rows += int(mix(later + 1, i, j, 0, 0))
    assert count > 100
    assert found[0] == count
    assert (found.astype(np.uint64)[1:] == np.array([references % 2**64, rows % 2**64], np.uint64)).all()


@pytest.mark.skipif(not JIT, reason="there is no machine code without the compiler")
def test_example_1t_compares_with_the_engine_s_vectors(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # what is loaded from a cache cannot be read
    near = kernel(join_kernel.any_near.py_func, pipeline=join_kernel.any_near._compiler.pipeline_class)
    rows = np.zeros(1_000, np.int32), np.zeros(1_000, np.float32)
    assert near(*rows, *[np.int32(-10)] * 4, *[np.float32(0)] * 4) and not near(*rows, *[np.int32(1)] * 4, *[np.float32(0)] * 4)
    (code,) = near.inspect_asm().values()
    assert ("zmm" in code) == bool(binding.get_host_cpu_features().get("avx512vbmi2", False))
    assert join_kernel.PROBES == all_pairs_kernel.PROBES


def test_oracle_order_of_the_gate():
    times = [np.array([1, 3, 3]), np.array([2, 3])]
    refs = [0, 1 << 48, 1, 2, (1 << 48) + 1]
    folded = 0
    for ts, ref in zip([1, 2, 3, 3, 3], refs, strict=True):
        folded = (folded * 31 + (ts ^ ref)) % 2**64
    assert gate.expected_fold(times) % 2**64 == folded


@pytest.mark.slow
def test_example_wrong_results_are_noticed():
    case = reconfigure.band_join(2000, window=200)
    case.results = (case.results[0] + 1, case.results[1])
    with pytest.raises(AssertionError, match="results instead of"):
        reconfigure.alternate(case, 1, 2, 1, 0)


@pytest.mark.slow
def test_example_results_that_a_change_made_wrong_are_noticed():
    _, pipeline, _ = reconfigure_engines.engines(2000)
    wrong = pipeline.stream.to_arrow().slice(1)
    with pytest.raises(AssertionError, match="pipeline: other results than without changes"):
        reconfigure_engines.alternate(pipeline, ({"threads": 2}, {"threads": 1}), 1, 100_000, wrong)


@pytest.mark.slow
def test_example_threads_of_a_program_change_while_it_runs():
    """The sums between barriers, on two leaves that one thread runs, or two; others are noticed."""
    rows = 20 * (reconfigure_engines.BETWEEN + 1)
    window = reconfigure_engines.engines(rows)[-1]
    expected = window.stream.to_arrow()
    sums = (np.arange(rows) % 100).reshape(20, -1)[:, :-1].sum(axis=1)
    assert expected["sum"].to_pylist() == sums.tolist()
    with window.start(threads=1) as run:
        assert len(run["program"].plan.leaves) == 2
        run.wait()
    ((control, requests),) = window.requests
    times = reconfigure_engines.alternate(window, requests, 3, 100_000, expected)
    assert control == "threads" and len(times) == 3 and all(ms > 0 for ms in times)
    with pytest.raises(AssertionError, match="event window: other results than without changes"):
        reconfigure_engines.alternate(window, requests, 1, 100_000, expected.slice(1))


def test_example_a_run_is_over_when_its_last_thread_is(monkeypatch):
    """A thread that goes on after `stop` has returned is waited for."""
    ends, is_stopped, looks = threading.Event(), threading.Event(), threading.Semaphore(0)
    clock = SimpleNamespace(perf_counter=time.perf_counter, sleep=lambda seconds: looks.release() or time.sleep(seconds))
    monkeypatch.setattr(stopping, "time", clock)

    class Made:
        state = "running"

        def start(self, **options):
            threading.Thread(target=ends.wait, daemon=True).start()
            return self

        def metrics(self):
            return SimpleNamespace(tuples_in=7)

        def stop(self):
            is_stopped.set()

    taken = []
    measuring = threading.Thread(target=lambda: taken.append(stopping.stop_s(Made(), 7)), daemon=True)
    measuring.start()
    assert is_stopped.wait(HANG_S)
    assert all(looks.acquire(timeout=HANG_S) for _ in range(3)) and not taken
    ends.set()
    measuring.join(HANG_S)
    assert taken and taken[0] > 0


def test_example_rows_without_end_go_on_in_time():
    table = pa.table({"x": [1, 2, 3], "ts": pa.array([5, 5, 9], pa.timestamp("us"))})
    batches = list(itertools.islice(stopping.Endless(table), 3))
    assert pa.Table.from_batches(batches)["ts"].cast(pa.int64()).to_pylist() == [5, 5, 9, 10, 10, 14, 15, 15, 19]
    assert {batch.schema for batch in batches} == {table.schema} and batches[2]["x"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("mode", ["vsn", *rarely("sn")])
def test_example_a_collected_run_leaves_the_stored_rows_to_the_next(mode):
    """Time passes every chunk of rows but the last; the second run reads them all the same."""
    n = 3 * CHUNK
    numbers = np.arange(n)
    table = pa.table({"ts": numbers * (SPAN // 10), "key": numbers % 50_000, "value": numbers})
    stream = aggregate_query(hr.stream(table, event_time="ts"))  # ten rows in a window; a shape that peers compile too
    first = resident.Resident(stream, [table], 2, collect=True, mode=mode)
    first.run()
    store = first.operator.inlets[0].store
    assert sorted(store.chunks) == [0, 1, 2]
    second = resident.Resident(stream, [table], 2, like=first, collect=True, mode=mode)
    second.run()
    assert first.results == second.results == n
    assert first.operator.dictionary.size == n
