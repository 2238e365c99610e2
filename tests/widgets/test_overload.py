"""Method: runs that something holds up for certain, and what the dashboard says of them: lag, backlog, bottleneck, graph.

A sink that waits makes the backlog, and its end drains it: no clock, no guess at how fast this machine is. The picture of
the operators is also drawn from the snapshots of a second engine and of one that does not exist.
What this cannot see: colours, and whether the picture looks well; tests/browser and its screenshots do.
"""

import math
import re
import threading
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.metrics.bottleneck import Bottleneck
from headrace.metrics.sources import SourceMetrics
from headrace_widgets import Dashboard, graph
from headrace_widgets.controls.rate import RateControl
from headrace_widgets.feed import due_rate
from headrace_widgets.graph_widget import chain
from headrace_widgets.messages import Messages
from headrace_widgets.pressure import look_of
from headrace_widgets.target import Target
from support.dashboards import problem, shown, start, two_steps
from support.made_up_run import MadeUpRun
from support.pipelines import SHAPES, some_rows
from support.two_stages import TwoStages
from support.workloads import Steered, eventually

RATE = 10_000
ROWS = 200 * RATE
"""It takes minutes until all is due: until then what is due grows with the lag."""


@pytest.fixture
def opened():
    return threading.Event()


@pytest.fixture
def run(opened):
    """What is due piles up outside until `opened` is set."""
    rows = hr.stream(pa.table({"ts": np.arange(ROWS)}), event_time="ts")
    with rows.forward().start(rate=RATE, capacity=1 << 12, sink=lambda batch: opened.wait(180)) as run:
        yield run
        opened.set()


@pytest.fixture
def dashboard(run):
    dashboard = Dashboard(run, stop_unwatched_after=None)
    yield dashboard
    dashboard.close()


def words(widget):
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", widget.value))


def nodes(dashboard):
    return {node["key"]: node for node in dashboard.graph.widget.drawing.get("nodes", ())}


@pytest.mark.slow
def test_example_lag_and_backlog_rise_and_fall(run, dashboard, opened):
    line = dashboard.pressure.widget
    eventually(lambda: "headrace-error" in line.value and "back-pressure" in line.value, 180)
    assert re.search(r"✖ [\d.]+ s behind", words(line))
    eventually(lambda: "Results of forward are not taken" in words(line), 180)
    eventually(lambda: nodes(dashboard)["results"]["is_bottleneck"], 180)

    def grows():
        with dashboard.messages.lock:  # of one update
            lag_s, behind = shown(dashboard, "lag_s"), shown(dashboard, "behind")
        return lag_s[-1] > 1 and (np.diff(lag_s[-3:]) > 0).all() and behind[-1] == pytest.approx(lag_s[-1] * RATE, rel=0.1)

    eventually(grows, 180)
    eventually(lambda: "s behind:" in dashboard.plots.widget.texts["lag"], 180)
    assert "Due but not yet admitted" in dashboard.plots.widget.texts["backlog"]
    opened.set()
    eventually(lambda: "✔ on time" in words(line) and "headrace-error" not in line.value, 180)
    eventually(lambda: shown(dashboard, "lag_s")[-1] < 0.1, 180)
    assert problem(dashboard) == ""


@pytest.mark.slow
def test_example_the_set_rate_is_on_the_plot(run, dashboard):
    """Nothing comes while the sink waits: the axis follows what is set."""
    run.rate = 200 * RATE
    eventually(lambda: shown(dashboard, "rate")[-1] == 200 * RATE, 180)
    eventually(lambda: dashboard.plots.widget.frame["ranges"]["throughput"][1] > 200 * RATE, 180)
    eventually(lambda: "of 2.0 M due" in dashboard.plots.widget.texts["throughput"], 180)


@pytest.mark.slow
def test_example_the_delay_of_results_includes_the_wait_outside(run, dashboard, opened):
    eventually(lambda: shown(dashboard, "lag_s").max(initial=0) > 0.5, 180)
    opened.set()
    eventually(lambda: (shown(dashboard, "delay_s") > 0.5).any(), 180)
    with dashboard.messages.lock:  # of one update
        lag_s, delay_s = shown(dashboard, "lag_s"), shown(dashboard, "delay_s")
        latency_s = shown(dashboard, "latency_p99_ms") / 1e3
    known = ~np.isnan(delay_s)
    assert delay_s[known] == pytest.approx((lag_s + latency_s)[known], rel=1e-4, abs=1e-6)


def test_example_at_full_speed_nothing_is_due():
    with start(iter(pa.table({"ts": range(300), "k": ["a"] * 300}).to_batches(10))) as run:
        run.wait(180)
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            assert "behind" not in dashboard.pressure.text() and "due" not in dashboard.pressure.text()
            drawn = dashboard.plots.widget.shown
            assert "throughput" in drawn and not {"lag", "backlog"} & set(drawn), "what has no meaning has no panel"
        finally:
            dashboard.close()


@pytest.mark.slow
def test_example_event_times_are_played_at_no_rate_and_late(opened, tmp_path):
    """They are late while the sink waits; how many are due by then is not known, so nothing says that none is."""
    rows = hr.stream(pa.table({"ts": np.arange(ROWS)}), event_time="ts")
    with rows.forward().start(rate=hr.rates.recorded(speed=100), capacity=1 << 12, sink=lambda _: opened.wait(60)) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            eventually(lambda: shown(dashboard, "lag_s").max(initial=0) > 0.5, 60)
            assert np.isnan(shown(dashboard, "rate")).all() and np.isnan(shown(dashboard, "behind")).all()
            line, plots = dashboard.pressure.widget, dashboard.plots.widget
            eventually(lambda: " s behind" in words(line) or " ms behind" in words(line), 60)
            # Texts of plots come less often than what is drawn.
            eventually(lambda: "tuples/s as recorded, processed" in plots.texts["throughput"], 60)
            eventually(lambda: re.match(r"[\d.]+ m?s behind\.", plots.texts["lag"]), 60)
            said = words(line) + plots.texts["lag"] + " ".join(nodes(dashboard)["source 0"]["lines"])
            assert "due" not in said.replace("waits until due", "")  # as it did before the sink waited
            assert "backlog" not in dashboard.plots.widget.shown and not run.metrics().counts_due
            assert ">due<" not in (page := dashboard.save(tmp_path / "page.html").read_text()) and "</span>input<" in page
        finally:
            opened.set()
            dashboard.close()


def test_example_times_recorded_apart_are_due_at_a_rate(tmp_path):
    """Nobody has set it; the legend does not say so."""
    times = np.arange(2_000) / 2_000
    with start(pa.table({"ts": range(2_000), "k": ["a"] * 2_000}), rate=hr.rates.recorded(times)) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            run.wait(60)
            (entry,) = [one for one in dashboard.plots.widget.panels[0]["legend"] if one["column"]]
            assert (entry["label"], entry["source"], entry["column"]) == ("due", "series", "rate")
            eventually(lambda: np.nanmax(shown(dashboard, "rate"), initial=0) > 500, 60)
            assert "</span>due<" in dashboard.save(tmp_path / "page.html").read_text()
        finally:
            dashboard.close()


def test_example_the_rate_that_is_set_is_of_all_sources_of_an_operator():
    rows = [pa.table({"ts": range(1_000), "k": [0] * 1_000}) for _ in range(2)]
    stream = hr.stream([iter(each.to_batches(10)) for each in rows], event_time="ts").key_by("k").window(100)
    counts = stream.aggregate("first", n=hr.count()).key_by("k").window(100).aggregate("second", n=hr.sum("n"))
    with counts.start(rate=300, sink=hr.discard()) as run:
        assert due_rate(run.metrics(), "first") == 600
        assert math.isnan(due_rate(run.metrics(), "second")), "its input comes at no rate that is set"
        control = RateControl(Target(run, "first"), Messages())
        assert (control.entry.value, control.unit.value) == (300, "tuples/s each")


@pytest.mark.parametrize(("lag_s", "look"), [(0, "good"), (0.05, "good"), (0.5, "warning"), (1, "error"), (math.nan, "good")])
def test_example_the_colour_of_a_lag(lag_s, look):
    assert look_of(lag_s) == look


@pytest.mark.slow
def test_example_what_was_read_and_not_processed_is_discarded(run, dashboard):
    eventually(lambda: run.metrics().operators["forward"].balance.read_ahead > 0, 180)
    dashboard.stop.click()
    lost = run.metrics().operators["forward"].balance.discarded.rows
    assert lost > 0
    eventually(lambda: f"Stopped: {lost:,} tuples discarded" in dashboard.status.badge.value, 180)
    eventually(lambda: "Discarded" in words(dashboard.operator_view.numbers.widget), 180)
    eventually(lambda: "The run was stopped" in words(dashboard.pressure.widget), 180)
    assert "behind" not in words(dashboard.pressure.widget)


def test_example_late_rows_and_the_size_of_the_state():
    ts = [*range(2_000), 0, 1, 2, *range(2_000, 3_000)]
    table = pa.table({"ts": ts, "k": [f"k{i % 7}" for i in range(len(ts))]})
    source = Steered(table, [2_503])  # in the middle of a window
    stream = hr.stream(source, event_time="ts", lateness=10, late="drop")
    with stream.key_by("k").window(1_000).aggregate(n=hr.count()).start(sink=hr.discard(), rate=20_000) as run:
        source.let()
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            row = dashboard.operator_view.numbers.widget
            eventually(lambda: "Late, dropped 3" in words(row) and "Live keys 7" in words(row), 180)
            assert re.search(r"State bytes [\d.]+", words(row)) and "Late, set aside 0" in words(row)
            assert "Lost wakeups" not in words(row), "what was never counted is left out"
        finally:
            dashboard.close()


# -- the picture of the operators


def check(drawing):
    """Boxes lie inside and not over each other, arrows go to the right, from box to box."""
    boxes = {node["key"]: node for node in drawing["nodes"]}
    for node in boxes.values():
        assert 0 <= node["x"] and node["x"] + node["width"] <= drawing["width"], node["key"]
        assert 0 <= node["y"] and node["y"] + node["height"] <= drawing["height"], node["key"]
    for a in boxes.values():
        for b in boxes.values():
            beside = max(a["x"], b["x"]) >= min(a["x"] + a["width"], b["x"] + b["width"])
            above = max(a["y"], b["y"]) >= min(a["y"] + a["height"], b["y"] + b["height"])
            assert a is b or beside or above, (a["key"], b["key"])
    for edge in drawing["edges"]:
        x, _, to, _ = edge["places"]
        assert x == boxes[edge["start"]]["x"] + boxes[edge["start"]]["width"] < to < boxes[edge["end"]]["x"]
    return [(edge["start"], edge["end"]) for edge in drawing["edges"]]


@pytest.mark.slow
def test_example_two_operators_and_a_click(opened):
    with two_steps() as run:
        assert run.edges == [("first", "second"), ("second", None)] == chain(run.operators)
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            eventually(lambda: nodes(dashboard) and nodes(dashboard)["operator first"]["bars"][0]["busy"] > 0, 180)
            assert check(dashboard.graph.widget.drawing) == [
                ("source 0", "gate first"), ("gate first", "operator first"), ("gate second", "operator second"),
                ("operator first", "gate second"), ("operator second", "results"),
            ]  # fmt: skip
            assert dashboard.graph.widget.chosen == "first"
            dashboard.graph.widget._handle_custom_msg({"kind": "choose", "operator": "second"}, [])
            assert (dashboard.operator, dashboard.choice.value, dashboard.graph.widget.chosen) == ("second",) * 3
            assert dashboard.messages.lines == ("dashboard.show_operator('second')",)
            dashboard.threads.plus.click()
            eventually(lambda: len(nodes(dashboard)["operator second"]["bars"]) == 2, 180)
            dashboard.graph.widget._handle_custom_msg({"kind": "choose", "operator": "nobody"}, [])
            assert dashboard.operator == "second" and problem(dashboard) == ""
        finally:
            dashboard.close()


def test_example_the_picture_of_a_join_and_of_many_threads():
    left, right = (pa.table({"ts": range(100), "k": range(100), side: range(100)}) for side in "lr")
    a, b = (hr.stream(iter(t.to_batches(10)), event_time="ts").forward(name) for t, name in ((left, "a"), (right, "b")))
    with a.join(b, within=10, on="k", prefixes=("l_", "r_")).start(max_threads=20, threads=20) as run:
        run.wait(180)
        now, (join,) = run.metrics(), set(run.operators) - {"a", "b"}
        found = Bottleneck("worker", join, "", worker=3)
        drawing = graph.picture(now, None, found, run.edges)
        ways = {("operator a", f"gate {join}"), ("operator b", f"gate {join}"), (f"operator {join}", "results")}
        assert ways <= set(check(drawing))
        boxes = {node["key"]: node for node in drawing["nodes"]}
        box = boxes[f"operator {join}"]
        assert box["lines"][1] == "the first 16 of them:"
        assert len(box["bars"]) == graph.MOST_BARS and box["is_bottleneck"] and box["lines"][0].startswith("20 threads")
        assert [bar["label"] for bar in box["bars"] if bar["is_bottleneck"]] == ["3"]
        assert not boxes["operator a"]["is_bottleneck"]


def test_example_a_source_on_time_is_not_drawn_as_one_that_is_blocked():
    spent = {"starved": 0, "paced": 10, "blocked": 60, "feeding": 30}
    drawn = {
        lag_s: graph._source(SourceMetrics("posts", "count", 900, 800, 50, lag_s, 100.0, spent), None, 0, None)
        for lag_s in (0.05, 0.5, math.nan)
    }
    assert {lag_s: (node.lines[0], node.bars[0].blocked) for lag_s, node in drawn.items() if lag_s == lag_s} == {
        0.05: ("on time", 0.0), 0.5: ("waits for room 60%", 0.6),
    }  # fmt: skip
    (at_full_speed,) = (node for lag_s, node in drawn.items() if lag_s != lag_s)
    assert (at_full_speed.lines, at_full_speed.bars[0].blocked) == (["waits for room 60%"], 0.6)


def test_example_the_picture_of_other_engines():
    """One without gates, of two operators in a section; and one whose run says nothing of sources."""
    rows = hr.stream(pa.table({"ts": range(1_000), "x": range(1_000)}), event_time="ts")
    with rows.through(TwoStages("x")).start(sink=hr.discard()) as run:
        run.wait(180)
        assert run.edges == [("double", "total"), ("total", None)]
        assert run.metrics().sources[0].operator == "double"
        drawing = graph.picture(run.metrics(), None, None, run.edges)
        assert check(drawing) == [
            ("source 0", "operator double"), ("operator double", "operator total"), ("operator total", "results"),
        ]  # fmt: skip
    pipeline = SHAPES["figure 1"].on(hr.stream(some_rows(np.random.default_rng(2), 3_000, 20), event_time="ts"))
    with pipeline.start(sink=hr.discard()) as run:
        run.wait(180)
        drawing = graph.picture(run.metrics(), None, None, run.edges)
        keys = [f"stage running {name}" for name in ("whole", "spread", "gap", "is_large", "running")]
        assert check(drawing) == [*pairwise(["source 0", "operator running", *keys, "results"])]
        boxes = {node["key"]: node for node in drawing["nodes"]}
        assert [boxes[key]["x"] for key in keys] == sorted({boxes[key]["x"] for key in keys}), "in a row"
        lines = boxes["stage running is_large"]["lines"]
        is_large = run["is_large"].metrics()
        assert any(line.startswith("cost ") and line.endswith((" ns", " µs", " ms")) and " k " not in line for line in lines)
        assert f"selectivity {is_large.selectivity:.3g}" in lines and "backlog 0" in lines
        assert any(line.startswith("taken ") and line.endswith("/s") for line in lines)
        before, after = run.metrics(), run.metrics()
        for metrics, taken, delegated in ((before, 1_000, 10), (after, 1_400, 110)):
            metrics.operators["running"].values["taken"]["gap"] = taken
            metrics.operators["running"].values["delegated"]["gap"] = delegated
        boxes = {node["key"]: node for node in graph.picture(after, before, None, run.edges)["nodes"]}
        assert "delegated 25.0%" in boxes["stage running gap"]["lines"], "a share of those that were taken since then"
        again = graph.picture(run.metrics(), run.metrics(), None, run.edges)
        assert not any("taken" in line for node in again["nodes"] for line in node["lines"]), "nothing since then"
    with MadeUpRun(operators=("first", "second")) as run:
        drawing = graph.picture(run.metrics(), None, None, chain(run.operators))
        assert check(drawing) == [("operator first", "operator second"), ("operator second", "results")]
