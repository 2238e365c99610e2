"""Each benchmark at a tiny size: it runs, asserts its own results, and reports the documented fields.

Every `measure` compares results with an independent computation before it
reports; that is what runs here. Figures at these sizes mean nothing, so none
is looked at. What this cannot see: whether a benchmark measures what it says.
"""

import json
import math

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace import bench
from headrace.bench import gate, ingress, join, reconfigure, resident, rows
from headrace.bench.experiments import Experiment, Figure, Line, Paper
from headrace.bench.rows import Row
from headrace.gates.store import CHUNK

FIELDS = {"bench", "case", "value", "unit", "better", "goal", "baseline", "baseline_name", "ratio"}
TINY = [name for name in bench.PARTS if name != "wordcount"]


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


def test_example_ingress_from_spark(spark):
    measured = {row.case: row for row in ingress.measure(False, tiny=True)}
    assert measured["Spark DataFrame, words of text"].value > 0
    assert measured["Spark DataFrame, word count end to end"].ratio > 0


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


def test_oracle_plain_join_loop():
    left, right, size = join.make_sides(50, 40, seed=3)
    # A narrow range of values, so that there are matches.
    x, a = (t[c].to_numpy() % 40 for t, c in ((left, "x"), (right, "a")))
    y, b = (t[c].to_numpy() % np.float32(40) for t, c in ((left, "y"), (right, "b")))
    found = np.zeros(2, np.int64)
    join.plain_loop(x, y, a, b, 50, found)
    count, folded = 0, 0
    for i, left_ts in enumerate(left["ts"].to_pylist()):
        for j, right_ts in enumerate(right["ts"].to_pylist()):
            later = max((i, 0), (j, 1), key=lambda at: 2 * at[0] + at[1])
            if later[0] < 50 or abs(left_ts - right_ts) >= size:
                continue
            if abs(int(x[i]) - int(a[j])) <= 10 and abs(float(y[i]) - float(b[j])) <= 10:
                count += 1
                refs = (join.LEFT + i, join.RIGHT + j)
                folded += int(resident.digest_one(*(refs if later == (i, 0) else refs[::-1]), max(left_ts, right_ts)))
    assert count > 100
    assert found[0] == count
    assert int(found[1]) % 2**64 == folded % 2**64


def test_oracle_order_of_the_gate():
    times = [np.array([1, 3, 3]), np.array([2, 3])]
    refs = [0, 1 << 48, 1, 2, (1 << 48) + 1]
    folded = 0
    for ts, ref in zip([1, 2, 3, 3, 3], refs, strict=True):
        folded = (folded * 31 + (ts ^ ref)) % 2**64
    assert gate.expected_fold(times) % 2**64 == folded


def test_example_wrong_results_are_noticed():
    case = reconfigure.band_join(2000, window=200)
    case.results = (case.results[0] + 1, case.results[1])
    with pytest.raises(AssertionError, match="results instead of"):
        reconfigure.alternate(case, 1, 2, 1, 0)


@pytest.mark.parametrize("mode", ["vsn", "sn"])
def test_example_a_collected_run_leaves_the_stored_rows_to_the_next(mode):
    """Time passes every chunk of rows but the last; the second run reads them all the same."""
    n = 3 * CHUNK
    table = pa.table({"ts": np.arange(n), "key": np.arange(n) % 50_000})
    stream = hr.stream(table, event_time="ts").key_by("key").window(10).aggregate(n=hr.count())
    first = resident.Resident(stream, [table], 2, collect=True, mode=mode)
    first.run()
    store = first.operator.ports[0].store
    assert sorted(store.chunks) == [0, 1, 2]
    second = resident.Resident(stream, [table], 2, like=first, collect=True, mode=mode)
    second.run()
    assert first.results == second.results == n
    assert first.operator.dictionary.size == n
