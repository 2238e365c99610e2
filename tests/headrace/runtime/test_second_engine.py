"""An engine that no shared room knows: it is run, watched, steered, and it fails and stops, as every engine's run is.

Property    `support.two_stages` brings a specification, a section and measures, and nothing else. What a run gives it is
            what it gives the elastic engine; what it declares is shown everywhere.
Oracle      the running sum of twice the column, by NumPy.
Cannot see  an engine of compiled workers: the elastic one is.
"""

import itertools
import re
import threading
import urllib.request
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from bokeh.models import Label

import headrace as hr
from headrace import prometheus
from headrace.controllers import Request
from headrace.errors import FunctionError, NotSupportedError, ParameterError, RunStoppedError
from headrace.report import Record, write_html
from headrace.report.plots import plots_of
from support import workloads
from support.two_stages import TwoStages, TwoStagesSection
from support.workloads import Steered, eventually

ROOT = Path(hr.__file__).parents[1]


def table(rows=20_000, seed=0):
    x = np.random.default_rng(seed).integers(-1000, 1000, rows)
    return pa.table({"ts": np.arange(rows), "x": x})


def sums(given):
    return np.cumsum(2 * given["x"].to_numpy()).tolist()


def query(given, **options):
    return hr.stream(given, event_time="ts").through(TwoStages("x", **options))


def endless():
    for at in itertools.count(0, 500):
        yield pa.record_batch({"ts": np.arange(at, at + 500), "x": np.ones(500, np.int64)})


@pytest.fixture
def live():
    with query(endless()).start() as run:
        eventually(lambda: run.metrics().tuples_out > 0)
        yield run


@pytest.mark.spark
def test_oracle_from_a_dataframe(spark):
    given = table(3000)
    result = query(spark.createDataFrame(given.to_pandas())).to_spark(spark).toPandas()
    assert result["total"].tolist() == sums(given)


@pytest.mark.parametrize("batch", [1, 7, 4096])
def test_oracle_any_batch(batch):
    given = table(2000, seed=batch)
    assert query(given).to_arrow(batch=batch)["total"].to_pylist() == sums(given)


def test_oracle_before_and_after_other_operators():
    """Steps before it are applied, and the elastic engine takes what it gives."""
    given = table(5000)
    kept = given.filter(pc.greater(given["x"], 0))
    after = hr.stream(given, event_time="ts").filter(hr.col("x") > 0).through(TwoStages("x"))
    assert after.to_arrow()["total"].to_pylist() == sums(kept)
    windows = after.window(1000).aggregate(n=hr.count()).to_arrow(threads=2)
    assert sum(windows["n"].to_pylist()) == kept.num_rows


def test_example_what_it_measures_is_shown_everywhere(tmp_path):
    given = table()
    source = Steered(given, [len(given) // 2])
    with query(source).start(sample_every=0.01) as run:
        source.let()
        eventually(lambda: len(run.history) > 3 and run.metrics().tuples_out > 0)
        change = run["total"].reconfigure(batch=10).wait(workloads.HANG_S)
        source.let_all()
        assert run.wait(workloads.HANG_S)
        metrics = run.metrics()
        with prometheus.serve(run) as endpoint:
            page = urllib.request.urlopen(endpoint.url).read().decode()
        frame = run.history.to_pandas("total")
        record = Record("two stages", "", run.history, len(given), [change])
        page_of_plots = write_html(tmp_path / "report.html", "Two stages", [record]).read_text()
    total = metrics.operators["total"]
    assert total.processed == total.added == len(given) and total.backlog == [0, 0]
    assert total.wait_ms["p99"] >= total.wait_ms["p50"] > 0
    assert {"wait_p50_ms", "backlog_0", "backlog_1", "busy_0", "tuples_per_s"} <= set(frame.columns)
    assert 'headrace_processed_total{operator="total"} 20000.0' in page and "headrace_backlog" in page
    assert "headrace_wait" in page and "From the moment a row came" in page
    assert "Backlog of each stage" in page_of_plots or "not drawn: backlog" in page_of_plots  # if no sample saw any
    assert re.fullmatch(r"batch 100→10: \d+\.\d\d", record.figures()["reconfigurations (ms)"])
    assert "<td>batch 100 → 10</td>" in page_of_plots and "key buckets" not in page_of_plots
    (mark,) = {label.text for label in plots_of(record, "plots").references() if isinstance(label, Label)}
    assert mark == "batch 100 → 10"
    assert run["total"].sum == sums(given)[-1]


def test_example_steered_by_hand(live):
    change = live["double"].reconfigure(batch=10)
    assert change.wait(workloads.HANG_S).outcome == "done"
    assert change.describe() == "batch 100 → 10" and live["double"].configuration["batch"] == 10
    assert live["double"].reconfigure(batch=10).outcome == "no change"
    assert [c.outcome for c in live["double"].changes] == ["done", "no change"]
    with pytest.raises(ParameterError, match=r"reconfigure\(batch=0\): give a whole number from 1 to 4096"):
        live["double"].reconfigure(batch=0)


def test_example_what_it_cannot_do_is_said_with_the_reason(live):
    assert set(live.capabilities) == {"batch"}
    assert live.capabilities.absent["threads"] == "the pool has 3 workers"
    with pytest.raises(NotSupportedError, match="the pool has 3 workers; what can be changed at 'double': batch"):
        live["double"].reconfigure(threads=2)
    with pytest.raises(NotSupportedError, match="no key has an owner"):
        _ = live["double"].mapping
    with pytest.raises(NotSupportedError, match="there is no such control"):
        live["double"].reconfigure(speed=2)


def test_example_why_it_takes_no_checkpoints_is_what_it_says(live, monkeypatch, tmp_path):
    assert live.capabilities.absent["checkpoint"].startswith("only programs")
    monkeypatch.setattr(TwoStagesSection, "lacks_checkpoints", "sums are gone with the process", raising=False)
    assert live.capabilities.absent["checkpoint"] == "sums are gone with the process"
    with pytest.raises(NotSupportedError, match=r"checkpoint\(\): sums are gone with the process"):
        live.checkpoint()
    with pytest.raises(NotSupportedError, match="checkpoint='.*': sums are gone with the process; leave it out"):
        query(table(10)).start(checkpoint=tmp_path / "kept")


def test_example_steered_by_a_controller(live):
    def smaller(observation):
        return Request(controls={"batch": 50}, reason="smaller tasks") if observation.processed > 0 else None

    live.control(smaller, operator="double", interval_s=0.02)
    (decision,) = eventually(lambda: live.decisions.of_kind("request"))
    assert decision.change.wait(workloads.HANG_S).outcome == "done"
    assert live["double"].configuration["batch"] == 50
    assert "smaller tasks [batch 100 → 50: done" in str(decision) and decision.what == "batch 100 → 50"
    live["double"].reconfigure(batch=20)
    held = live.decisions.of_kind("held")[-1]
    assert held.what == "batch 50 → 20" and "a manual reconfiguration (batch 50 → 20) suspends it" in held.reason
    asked = live.decisions.to_pandas().query("kind == 'request'").iloc[0]
    assert (asked["what"], asked["from_threads"], asked["to_threads"]) == ("batch 100 → 50", 3, 3)


def test_example_fails_as_every_run_does():
    given = pa.table({"ts": range(3000), "x": range(3000)})
    with query(given, poison=2500).start() as run:
        with pytest.raises(FunctionError, match="poison"):
            run.wait(workloads.HANG_S)
        assert run.state == "failed"
        before = run.snapshot()["total"].to_pylist()
    assert before == sums(given)[: len(before)]
    assert query(table(100)).to_arrow().num_rows == 100, "the next run is fine"


def test_example_stops_as_every_run_does(live):
    live.stop()
    assert live.state == "stopped"
    with pytest.raises(RunStoppedError):
        live.reconfigure(batch=5)
    assert not [t.name for t in threading.enumerate() if t.name.startswith("headrace-stages")]


def test_agree_a_replay_of_passed_time_names_the_node():
    """A section of two operators has one input: what was passed over is said by the name of the query's node."""
    given = table(1000)
    stream = hr.stream(given, event_time="ts", idle_after=60).through(TwoStages("x"), name="stages")
    with stream.start(passed_time=[("stages", 0, 500, 400)]) as run:
        assert run.wait(workloads.HANG_S)
        assert run.passed_time == [("stages", 0, 500, 400)] and run.to_arrow()["total"].to_pylist() == sums(given)
    with pytest.raises(ParameterError, match=r"passed_time=\[\('double', 0, 500, 400\)\]: the operators are stages"):
        stream.start(passed_time=[("double", 0, 500, 400)])


def test_example_an_option_of_another_engine_is_refused():
    with pytest.raises(ParameterError, match="gate='log': there is no such argument; the arguments are batch=, sink="):
        query(table(10)).start(gate="log")
    with pytest.raises(ParameterError, match=r"batch=5000\): give a whole number from 1 to 4096"):
        query(table(10)).start(batch=5000)


def test_example_no_shared_room_knows_it():
    engine = ROOT.parent / "tests" / "support" / "two_stages.py"
    assert len(engine.read_text().splitlines()) < 200
    for file in [*ROOT.rglob("*.py"), *(ROOT.parent / "widgets").rglob("*.py")]:
        assert "two_stages" not in file.read_text() and "TwoStages" not in file.read_text()
