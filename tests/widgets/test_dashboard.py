"""Method: a dashboard on a real run: that it follows it, what fails, which pages look, which cell it belongs to.
What this cannot see: anything in the browser; tests/browser drives a real one.
"""

import threading

import numpy as np
import pyarrow as pa
import pytest
from IPython.core.formatters import DisplayFormatter

import headrace as hr
from headrace_widgets import Dashboard, cells, side_by_side
from support.dashboards import ROWS, TABLE, ask, controls_of, problem, rows, shown, start, two_steps
from support.workloads import Steered, eventually


def test_example_plots_follow_the_run(run, dashboard):
    eventually(lambda: rows(dashboard) > 5, 180)
    assert shown(dashboard, "threads")[-1] == 1
    assert (np.diff(shown(dashboard, "t")) > 0).all()
    eventually(lambda: 1_000 < shown(dashboard, "input_per_s")[-1] < 3_000, 180)
    eventually(
        lambda: set(dashboard.plots.widget.texts) == {p["key"] for p in dashboard.plots.widget.panels}, 180
    )
    assert "Nothing lost, order kept" in dashboard.status.badge.value
    assert problem(dashboard) == ""


def test_example_words_stand_for_it_where_no_kernel_draws_it(dashboard):
    """As in a notebook on the web; for pages with a kernel there is the widget beside them."""
    kinds, _ = DisplayFormatter().format(dashboard.widget)
    assert kinds["text/plain"].startswith("A dashboard of headrace, live where its notebook runs")
    assert kinds["application/vnd.jupyter.widget-view+json"]["model_id"] == dashboard.widget.model_id
    assert repr(dashboard).startswith("<Dashboard of <QueryRun number ")


@pytest.mark.slow
def test_example_what_was_before_is_shown():
    """A dashboard that is opened late has the history of the run."""
    with start(rate=2_000) as run:
        eventually(lambda: len(run.history) > 20, 180)
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            assert rows(dashboard) > 10
        finally:
            dashboard.close()


def test_example_a_failure_in_a_worker_is_seen():
    def broken(t, emit):
        emit(v=1 // (t.v - 3))

    table = pa.table({"ts": pa.array(range(100)), "v": pa.array([5] * 50 + [3] + [5] * 49)})
    source = Steered(table, [40])
    run = hr.stream(source, event_time="ts").map(broken, v="int64").forward().start()
    dashboard = Dashboard(run, stop_unwatched_after=None)
    try:
        source.let_all()
        eventually(lambda: "The run failed" in dashboard.status.failure.value, 180)
        assert "broken" in dashboard.status.failure.value
        assert "failed" in dashboard.status.widget.value
        assert "✖ Ended by an error" in dashboard.status.badge.value
    finally:
        dashboard.close()
        run.stop()


def test_example_an_exception_in_a_callback_is_seen(run, dashboard, monkeypatch):
    def refuse(**_):
        raise OSError("<b>no</b>")

    monkeypatch.setattr(dashboard.threads._target, "reconfigure", refuse)
    dashboard.threads.plus.click()
    assert "OSError: &lt;b&gt;no&lt;/b&gt;" in problem(dashboard)


def test_example_an_exception_while_updating_is_seen(run, dashboard, monkeypatch):
    monkeypatch.setattr(dashboard.feed, "poll", lambda: 1 // 0)
    eventually(lambda: "ZeroDivisionError" in problem(dashboard), 180)


def test_example_several_operators():
    with two_steps() as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            dashboard.choice.value = "second"
            assert problem(dashboard) == ""
            dashboard.threads.plus.click()
            eventually(lambda: run["second"].threads == 2, 180)
            assert run["first"].threads == 1
            assert dashboard.messages.lines == (
                "dashboard.show_operator('second')",
                "run['second'].reconfigure(threads=2)",
            )
            eventually(lambda: rows(dashboard) > 3, 180)
        finally:
            dashboard.close()


@pytest.mark.parametrize("end", ["stopped", "finished"])
def test_example_controls_are_off_when_the_run_is_over(end):
    table = TABLE.slice(0, 20_000 if end == "finished" else ROWS)
    with start(iter(table.to_batches(500)), threads=2, rate=None if end == "finished" else 2_000) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            eventually(lambda: rows(dashboard) > 1 or run.state == "finished", 180)
            if end == "stopped":
                dashboard.stop.click()
            eventually(lambda: f"{end.capitalize()}:</b> run the cell again" in dashboard.status.over.value, 180)
            view = dashboard.operator_view
            looks = {dashboard.layouts, view.timeline.button, view.hot_keys.button}  # they change nothing
            goes_on = controls_of(dashboard.history.widget) | looks
            live = {one for one in controls_of(dashboard.widget) if not one.disabled}
            assert live <= goes_on and dashboard.layouts in live and not dashboard.history.save.disabled
            dashboard.update()
            assert {one for one in controls_of(dashboard.widget) if not one.disabled} == live, "they stay off"
        finally:
            dashboard.close()


@pytest.mark.slow
def test_example_the_watchdog(run, dashboard):
    dashboard.watchdog.after_s = 0.3
    eventually(lambda: rows(dashboard) > 10, 180)
    assert run.state == "running"  # no page has ever looked
    ask(dashboard)
    eventually(lambda: run.state == "stopped", 180)
    eventually(lambda: "nobody watched" in problem(dashboard))


@pytest.mark.slow
def test_example_nothing_is_drawn_while_nobody_looks_and_all_of_it_when_somebody_does_again(run, dashboard):
    eventually(lambda: rows(dashboard) > 5, 180)
    dashboard.watchdog.rest_after_s = 1.0
    ask(dashboard)
    eventually(lambda: dashboard.watchdog.is_resting, 180)
    with dashboard.messages.lock:  # an update under way has ended
        frame, heat_map = dashboard.plots.widget.frame, dashboard.mapping.plot.frame
    sampled = len(run.history)
    eventually(lambda: len(run.history) > sampled + 20, 180)
    assert dashboard.plots.widget.frame is frame
    assert dashboard.mapping.plot.frame is heat_map
    last, now = shown(dashboard, "t")[-1], run.history.seconds_of(run.history.samples[-1].at_ns)
    eventually(lambda: ask(dashboard) or shown(dashboard, "t")[-1] > now, 180)  # it may rest again before it has drawn
    times = shown(dashboard, "t")
    assert ((times > last) & (times < now)).sum() >= 3  # what was missed meanwhile is there
    assert run.state == "running"


@pytest.mark.slow
def test_example_silence_in_a_busy_kernel_is_no_silence(run, dashboard):
    dashboard.watchdog._begin()
    dashboard.watchdog.after_s = 0.01
    ask(dashboard)
    dashboard.watchdog.check()
    eventually(lambda: rows(dashboard) > 10, 180)
    assert run.state == "running"
    dashboard.watchdog._end()
    eventually(lambda: run.state == "stopped", 180)


@pytest.mark.slow
def test_example_a_cell_run_again_replaces_both(run, monkeypatch):
    monkeypatch.setattr(cells, "this_cell", lambda: "cell 7")
    first = Dashboard(run, stop_unwatched_after=None)
    with start(rate=2_000) as another:
        second = Dashboard(another, stop_unwatched_after=None)
        assert run.state == "stopped"
        assert another.state == "running"
        assert not first._thread.is_alive()
        third = Dashboard(another, stop_unwatched_after=None)  # the same run once more: it goes on
        assert another.state == "running"
        assert not second._thread.is_alive()
        third.close()


def test_example_nothing_is_left_behind(run):
    dashboard = Dashboard(run, stop_unwatched_after=None)
    dashboard.close()
    dashboard.close()
    assert "headrace-dashboard" not in [thread.name for thread in threading.enumerate()]
    assert run.state == "running"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"refresh_s": 0}, "refresh_s"),
        ({"imbalance_limit": -1}, "imbalance_limit"),
        ({"stop_unwatched_after": 0}, "stop_unwatched_after"),
        ({"operator": "nobody"}, "operator='nobody'"),
        ({"layout": "large"}, "layout='large'"),
        ({"laout": "full"}, r"^Dashboard\(laout='full'\): there is no such argument; did you mean layout=\?"),
    ],
)
def test_example_parameters(run, options, named):
    with pytest.raises(ValueError, match=named):
        Dashboard(run, **options)
    assert "headrace-dashboard" not in [thread.name for thread in threading.enumerate()]


def test_example_a_query_that_was_not_started():
    query = hr.stream(TABLE, event_time="ts").key_by("k").window(10).aggregate(n=hr.count())
    for show in (lambda: Dashboard(query), lambda: side_by_side(query, query)):
        with pytest.raises(ValueError, match=r"^a Stream is not a run: give what start\(\) returns, as in query\.start\("):
            show()
