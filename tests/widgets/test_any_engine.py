"""Method: a dashboard on a run of an engine that does not exist (`support.made_up_run`), watched and steered.

It has controls and measures of its own, and lacks threads, a key mapping, load, watermarks and a rate. What is shown is
read from the widgets; what a click does, from the run. The same dashboard on a run of the elastic engine may use public
names only.
What this cannot see: anything in the browser; tests/browser drives a real one.
"""

import html
import json
import math
import threading

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.metrics.measures import NEEDED
from headrace_widgets import Dashboard, replay
from headrace_widgets.changes_table import COLUMNS
from headrace_widgets.panels.panel import RoundRange
from support.made_up_run import FILL, MEASURES, QUEUED, REJECTED, SPENT, WAIT, MadeUpRun, Public
from support.two_stages import TwoStages
from support.workloads import eventually

OWN = (WAIT, QUEUED, REJECTED, FILL)


@pytest.fixture
def run():
    with MadeUpRun() as run:
        yield run


@pytest.fixture
def dashboard(run):
    dashboard = Dashboard(Public(run), stop_unwatched_after=None)
    yield dashboard
    dashboard.close()


def panels(dashboard):
    return {panel["key"]: panel for panel in dashboard.plots.widget.panels}


def problem(dashboard):
    return dashboard.messages.problem.value


def newest(dashboard, column):
    """As a page that is opened now gets it; NaN before there is a row."""
    state = dashboard.plots.widget.get_state()
    if not state["frame"]:
        return math.nan
    columns = state["columns"]["series"]
    block = np.frombuffer(state["frame"]["blocks"]["series"], np.float32).reshape(len(columns), -1)
    return block[columns.index(column), -1]


def test_example_its_measures_have_panels(dashboard):
    """Those it shares with others the known ones, its own one each; of what it does not measure there is none."""
    found = panels(dashboard)
    assert list(found) == [
        "throughput", "threads", "shares_of_time", "depth", *(f"measure_{measure.name}" for measure in OWN),
    ]  # fmt: skip
    assert [panel["title"] for panel in found.values()] == [
        "Input rate and throughput", "Threads", "Judging, locking", "In flight", "Wait for the batch", "Queue, by stage",
        "Rejected", "Fill",
    ]  # fmt: skip
    for measure in OWN:
        assert found[f"measure_{measure.name}"]["about"] == measure.title
    assert [entry["label"] for entry in found["measure_queued"]["legend"]] == ["stage 0", "stage 1", "stage 2"]
    assert [entry["label"] for entry in found["measure_wait"]["legend"]] == ["p99", "p50", "all (stronger: more)"]
    units = [dashboard.plots._figures.built[f"measure_{measure.name}"].yaxis.axis_label for measure in OWN]
    assert units == ["ms (log)", "events", "events/s", "%"]
    assert dashboard.mapping is None and not dashboard.rate.is_there


def test_example_its_numbers_are_drawn_and_said(dashboard):
    eventually(lambda: newest(dashboard, "wait_p99_ms") > 0 and newest(dashboard, "rejected_per_s") > 0, 180)
    assert [newest(dashboard, f"queue_{stage}") for stage in range(3)] == [10, 20, 30]
    assert newest(dashboard, "fill") == 0.75
    # The thread that has it live may stand still for a while: then an interval is empty.
    waits = lambda: [newest(dashboard, f"wait_{which}_ms") for which in ("p50", "p99")]  # noqa: E731
    eventually(lambda: waits() == [pytest.approx(2, rel=0.05), pytest.approx(8, rel=0.05)], 180)
    ends = lambda: np.frombuffer(dashboard.plots.widget.frame["blocks"]["shares_of_time"], np.float32).tolist()  # noqa: E731
    eventually(lambda: ends() == [0.75, 0.75, 1, 1, 0.75, 0.75, 0.25, 0.25], 180)
    said = {
        "measure_queued": "Stage 0: 10 events; 1: 20 events; 2: 30 events.", "measure_fill": "Fill: 75.0%.",
        "shares_of_time": "Thread 0: 75% judging, 25% locking; 1: 75% judging, 25% locking.",
    }  # fmt: skip
    eventually(lambda: said.items() <= dashboard.plots.widget.texts.items(), 180)
    eventually(lambda: "Half within" in dashboard.plots.widget.texts["measure_wait"], 180)
    assert "<b>Newest verdict</b>: too &lt;late&gt;" in dashboard.operator_view.text_measures.widget.value
    assert "secret" not in dashboard.feed.columns["judge"].of
    assert problem(dashboard) == ""


def test_example_the_axis_of_a_share_ends_at_the_whole(dashboard):
    (fill,) = [panel for panel in dashboard.plots._figures.panels if panel.key == "measure_fill"]
    ends = [RoundRange(fill.least).cover(fill.top({"fill": most})) for most in (0.4, 0.93, 1.0, 1.2)]
    assert ends == [0.5, 1.0, 1.0, 1.5]


def test_example_its_controls_steer_it(run, dashboard):
    assert list(dashboard.settings) == ["batch", "patience", "scheme"]
    batch, patience, scheme = dashboard.settings.values()
    assert (batch.entry.value, patience.slider.value, scheme.choice.value) == (64, 1.0, "chains")
    batch.entry.value = 200
    batch.slider.value = 1_234.5  # a slider has three digits
    patience.slider.value = 0.75
    scheme.choice.value = "locks"
    in_force = run["judge"].configuration
    assert (in_force["batch"], in_force["patience"], in_force["scheme"]) == (1_230, 0.75, "locks")
    assert (batch.entry.value, batch.slider.value, patience.entry.value) == (1_230, 1_230, 0.75)
    assert problem(dashboard) == ""
    lines = dashboard.messages.lines
    assert lines == tuple(
        f"run.reconfigure({wish})" for wish in ("batch=200", "batch=1230", "patience=0.75", "scheme='locks'")
    )
    with MadeUpRun() as other:
        for line in lines:  # what is printed does the same
            exec(line, {"run": other})
        assert other["judge"].configuration == in_force


def test_example_a_refusal_says_why_and_the_controls_return(run, dashboard):
    batch = dashboard.settings["batch"]
    batch.entry.value = 5_000
    assert "batch=5000): give a number from 1 to 4096" in problem(dashboard)
    assert (batch.entry.value, batch.slider.value, run.changes) == (64, 64, [])
    batch.entry.value = 65
    assert problem(dashboard) == ""


def test_example_a_call_elsewhere_moves_the_controls(run, dashboard):
    run.reconfigure(batch=300, scheme="locks")
    batch, _, scheme = dashboard.settings.values()
    eventually(lambda: (batch.slider.value, scheme.choice.value) == (300, "locks"), 180)
    assert dashboard.messages.lines == ()  # shown, not asked for


def test_example_what_it_lacks_is_said_with_the_reason(dashboard):
    said = dashboard.operator_view.absent.value
    assert "<b>threads</b>: its workers are those of a pool" in said
    assert "<b>mapping</b>: its state has &lt;no&gt; keys" in said
    assert "<b>plan</b>: who judges what; by a call only: run.reconfigure(plan=...)" in said
    assert not dashboard.controller.is_there and dashboard.threads is None
    with pytest.raises(ValueError, match="the key mapping of 'judge' cannot be changed"):
        _ = dashboard.bucket_loads


@pytest.mark.slow
def test_example_its_changes_are_marked_listed_and_replayed(run, dashboard, tmp_path):
    eventually(lambda: newest(dashboard, "fill") == 0.75, 180)
    dashboard.settings["batch"].entry.value = 128
    run.reconfigure(batch=256, scheme="locks", reason="by call")
    labels = lambda: dashboard.plots.widget.labels.get("changes", {})  # noqa: E731
    eventually(lambda: labels().get("label") == ["batch 64→128", "batch 128→256 …"], 180)
    assert labels()["what"] == ["batch 64 → 128", "batch 128 → 256, scheme chains → locks"]
    eventually(lambda: ">batch 64 → 128</td>" in dashboard.changes.widget.value, 180)
    assert set(dashboard.changes.columns) == set(COLUMNS) - {"threads", "buckets moved", "imbalance", "p99 latency"}
    eventually(lambda: all(one["tuples"] is not None for one in dashboard.changes.records()), 180)
    file = dashboard.export(tmp_path / "changes.json")
    assert [one["settings"] for one in json.loads(file.read_text())] == [
        {"batch": 128}, {"batch": 256, "scheme": "locks"},
    ]  # fmt: skip
    with MadeUpRun() as other:
        replay(file, other).join(180)
        assert other["judge"].configuration == run["judge"].configuration
        with pytest.raises(ValueError, match="settings {'burst': 1}: not values of batch"):
            replay([dashboard.changes.records()[0] | {"settings": {"burst": 1}}], other)


def test_example_its_page_is_saved(dashboard, tmp_path):
    eventually(lambda: newest(dashboard, "fill") == 0.75, 180)
    page = dashboard.save(tmp_path / "page.html").read_text()
    for wanted in ("Wait for the batch", f'title="{html.escape(WAIT.title)}"', "Judging, locking", "Fill: 75.0%."):
        assert wanted in page


@pytest.mark.parametrize(
    ("left_out", "panel"),
    [(SPENT, "shares_of_time"), ((WAIT,), "measure_wait"), ((QUEUED,), "measure_queued")],
)
def test_example_what_is_not_measured_has_no_panel(left_out, panel):
    with MadeUpRun(tuple(measure for measure in MEASURES if measure not in left_out)) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            assert panel not in panels(dashboard)
            assert len(panels(dashboard)) == 7
            eventually(lambda: newest(dashboard, "rejected_per_s") > 0, 180)
        finally:
            dashboard.close()


def test_example_several_operators_and_few_measures():
    with MadeUpRun(NEEDED, ("first", "second")) as run:
        dashboard = Dashboard(Public(run), stop_unwatched_after=None)
        try:
            assert list(panels(dashboard)) == ["throughput", "threads", "depth"]
            dashboard.choice.value = "second"
            dashboard.settings["batch"].entry.value = 7
            assert (run["first"].configuration["batch"], run["second"].configuration["batch"]) == (64, 7)
            assert dashboard.messages.lines == (
                "dashboard.show_operator('second')",
                "run['second'].reconfigure(batch=7)",
            )
            eventually(lambda: newest(dashboard, "input_per_s") > 0, 180)
        finally:
            dashboard.close()


def test_example_a_run_of_a_second_engine():
    """`support.two_stages` is a real engine: what a run of it declares is what the dashboard shows."""

    def endless():
        while not stop.is_set():
            yield pa.record_batch({"ts": np.zeros(500, np.int64), "x": np.ones(500, np.int64)})

    stop = threading.Event()
    rows = hr.stream(pa.RecordBatchReader.from_batches(next(endless()).schema, endless()), event_time="ts")
    with rows.through(TwoStages("x")).start(rate=5_000, sink=hr.discard()) as run:
        dashboard = Dashboard(Public(run), stop_unwatched_after=None)
        try:
            assert {"throughput", "measure_wait", "measure_backlog"} < set(panels(dashboard))
            assert list(dashboard.settings) == ["batch"]
            eventually(lambda: newest(dashboard, "wait_p99_ms") > 0, 180)
            dashboard.settings["batch"].minus.click()
            dashboard.choice.value = "total"
            dashboard.settings["batch"].entry.value = 50
            assert problem(dashboard) == ""
            eventually(lambda: [run[name].configuration["batch"] for name in run.operators] == [99, 50], 180)
            eventually(lambda: newest(dashboard, "tuples_per_s") > 0, 180)
            assert "the pool has 3 workers" in dashboard.operator_view.absent.value
        finally:
            stop.set()
            dashboard.close()


@pytest.mark.slow
def test_example_the_elastic_engine_is_asked_for_public_names_only(tmp_path):
    """Every part of the dashboard is built, updated and used once."""
    table = pa.table({"ts": range(200_000), "k": [f"k{i % 97}" for i in range(200_000)]})
    stream = hr.stream(iter(table.to_batches(500)), event_time="ts").key_by("k").window(1_000)
    counts = stream.aggregate(n=hr.count())
    with counts.start(threads=1, max_threads=4, sink=hr.discard(), rate=hr.rates.recorded(speed=2)) as run:
        dashboard = Dashboard(Public(run), stop_unwatched_after=None)
        try:
            assert dashboard.rate.entry.value == 2
            dashboard.rate.entry.value = 3
            dashboard.threads.plus.click()
            eventually(lambda: run.threads == 2, 180)
            dashboard.mapping.buckets.value, dashboard.mapping.to.value = "0-3", 0
            dashboard.mapping.move.click()
            dashboard.mapping.apply.click()
            dashboard.controller.start.click()
            dashboard.controller.stop.click()
            dashboard.operator_view.timeline.button.value = True
            dashboard.operator_view.hot_keys.button.click()
            eventually(lambda: dashboard.graph.widget.drawing, 180)
            eventually(lambda: newest(dashboard, "threads") == 2, 180)
            dashboard.save(tmp_path / "page.html")
            dashboard.update()
            assert problem(dashboard) == ""
        finally:
            dashboard.close()
