"""Method: a dashboard on a real run, its widgets set and clicked as a browser would, without one.

The run's input comes when the test lets it (`Steered`) or at a rate; what a click does is read from the run.
What this cannot see: anything in the browser; tests/browser drives a real one.
"""

import base64
import html
import json
import re
import threading
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import ipywidgets as w
import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace_widgets import Dashboard, cells, replay
from headrace_widgets.changes_table import COLUMNS, ChangesTable
from headrace_widgets.table import Table
from support.workloads import Steered, eventually

ROWS = 200_000
TABLE = pa.table({"ts": pa.array(range(ROWS)), "k": pa.array([f"k{i % 97}" for i in range(ROWS)])})


def start(source=None, **options):
    stream = hr.stream(iter(TABLE.to_batches(500)) if source is None else source, event_time="ts")
    counts = stream.key_by("k").window(1_000).aggregate(n=hr.count())
    return counts.start(**{"threads": 1, "max_threads": 4, "sink": hr.discard()} | options)


@pytest.fixture
def run():
    with start(rate=2_000) as run:
        yield run


@pytest.fixture
def dashboard(run):
    dashboard = Dashboard(run, stop_unwatched_after=None)
    yield dashboard
    dashboard.close()


def rows(dashboard):
    return len(shown(dashboard, "t")) if dashboard.plots.widget.frame else 0


def shown(dashboard, column):
    """As a page that is opened now gets it."""
    state = dashboard.plots.widget.get_state()
    columns = state["columns"]["series"]
    block = np.frombuffer(state["frame"]["blocks"]["series"], np.float32).reshape(len(columns), -1)
    return block[columns.index(column)]


def problem(dashboard):
    return dashboard.messages.problem.value


def test_example_plots_follow_the_run(run, dashboard):
    eventually(lambda: rows(dashboard) > 5, 60)
    assert shown(dashboard, "threads")[-1] == 1
    assert (np.diff(shown(dashboard, "t")) > 0).all()
    eventually(lambda: 1_000 < shown(dashboard, "input_rate")[-1] < 3_000, 60)
    eventually(
        lambda: set(dashboard.plots.widget.texts) == {p["key"] for p in dashboard.plots.widget.panels}, 60
    )
    assert "Nothing lost, order kept" in dashboard.status.badge.value
    assert problem(dashboard) == ""


def test_example_what_was_before_is_shown():
    """A dashboard that is opened late has the history of the run."""
    with start(rate=2_000) as run:
        eventually(lambda: len(run.history) > 20, 60)
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            assert rows(dashboard) > 10
        finally:
            dashboard.close()


def test_example_minus_plus_slider_entry(run, dashboard):
    threads = dashboard.threads
    threads.plus.click()
    eventually(lambda: run.threads == 2, 60)
    threads.plus.click()
    eventually(lambda: run.threads == 3, 60)
    eventually(lambda: (threads.slider.value, threads.entry.value) == (3, 3), 60)
    threads.slider.value = 4
    eventually(lambda: run.threads == 4, 60)
    eventually(lambda: threads.plus.disabled, 60)
    threads.entry.value = 2
    eventually(lambda: run.threads == 2, 60)
    threads.minus.click()
    eventually(lambda: run.threads == 1, 60)
    eventually(lambda: threads.minus.disabled, 60)
    assert dashboard.messages.lines == tuple(f"run.reconfigure(threads={n})" for n in (2, 3, 4, 2, 1))
    labels = ["1→2", "2→3", "3→4", "4→2", "2→1"]
    eventually(lambda: dashboard.plots.widget.labels.get("changes", {}).get("label") == labels, 60)


def test_example_a_refusal_says_why_and_the_controls_return(run, dashboard):
    dashboard.threads.entry.value = 9
    assert "threads=9" in problem(dashboard)
    assert "max_threads" in problem(dashboard)
    assert dashboard.threads.entry.value == 1
    assert run.threads == 1
    dashboard.threads.plus.click()
    assert problem(dashboard) == ""  # the next thing that works clears it


def test_example_a_call_elsewhere_moves_the_slider(run, dashboard):
    run.reconfigure(threads=3).wait(60)
    eventually(lambda: dashboard.threads.slider.value == 3, 60)
    assert dashboard.messages.lines == ()  # shown, not asked for


def test_example_rate(run, dashboard):
    dashboard.rate.entry.value = 700
    assert run.rate == 700
    run.rate = 1_500
    eventually(lambda: dashboard.rate.entry.value == 1_500, 60)
    dashboard.rate.entry.value = -1
    assert "rate" in problem(dashboard)
    assert run.rate == 1_500
    eventually(lambda: dashboard.rate.entry.value == 1_500, 60)
    assert dashboard.messages.lines == ("run.rate = 700", "run.rate = -1")


def test_example_a_rate_is_printed_to_the_last_digit(run, dashboard):
    dashboard.rate.entry.value = 12345678.5
    assert dashboard.messages.lines == ("run.rate = 12345678.5",)
    assert run.rate == 12345678.5


def taken_in(run, seconds=1.0):
    """Tuples per second that come in from now on."""
    first = run.metrics()
    eventually(lambda: run.metrics().seconds > first.seconds + seconds, 60)
    last = run.metrics()
    return (last.tuples_in - first.tuples_in) / (last.seconds - first.seconds)


def played(speed):
    """A run that plays its event times, a tuple each millisecond."""
    return start(iter(TABLE.to_batches(10)), rate=hr.rates.recorded(speed=speed))


def test_example_the_speed_of_recorded_event_times():
    """`run.rate` is None where event times are played, and yet they are paced: how fast can be set."""
    with played(0.5) as run, played(0.5) as other:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            rate = dashboard.rate
            assert rate.is_there
            assert (rate.slider.value, rate.entry.value, rate.slider.description) == (0.5, 0.5, "Speed")
            assert "as recorded" in rate.unit.value
            assert rate.slider.base**rate.slider.min < 0.5 < rate.slider.base**rate.slider.max
            eventually(lambda: 250 < taken_in(run) < 1_000, 60)
            rate.slider.value = 4
            assert problem(dashboard) == ""
            assert dashboard.messages.lines == ("run.rate = hr.rates.recorded(speed=4)",)
            exec(dashboard.messages.lines[0], {"run": other, "hr": hr})
            for one in (run, other):
                eventually(lambda one=one: 2_000 < taken_in(one) < 8_000, 60)
            eventually(lambda: rate.entry.value == 4, 60)
            rate.entry.value = -1
            assert "speed=-1" in problem(dashboard)
            eventually(lambda: rate.entry.value == 4, 60)
            run.rate = hr.rates.recorded(speed=2)  # by a call
            eventually(lambda: rate.slider.value == 2, 60)
            run.rate = 700  # and now at a rate
            eventually(lambda: (rate.entry.value, rate.slider.description) == (700, "Rate"), 60)
            rate.entry.value = 900
            assert run.rate == 900
            assert dashboard.messages.lines[-1] == "run.rate = 900"
        finally:
            dashboard.close()


def test_example_times_recorded_apart_have_a_rate():
    with start(rate=hr.rates.recorded(np.arange(100_000) / 2_000)) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            assert dashboard.rate.is_there
            assert dashboard.rate.slider.description == "Rate"
            eventually(lambda: 1_000 < dashboard.rate.entry.value < 3_000, 60)
            dashboard.rate.entry.value = 500
            assert run.rate == 500
        finally:
            dashboard.close()


def test_example_no_rate_no_control():
    source = Steered(TABLE)
    with start(source) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            assert not dashboard.rate.is_there
        finally:
            dashboard.close()
            source.let_all()


def test_example_move_predict_apply(run, dashboard):
    panel = dashboard.mapping
    run.reconfigure(threads=2).wait(60)
    eventually(lambda: panel.to.options == (0, 1), 60)
    before = run.mapping
    panel.plot.selected = [0, 1]  # the first two groups of thread 0
    assert panel.buckets.value == "0-31"
    panel.to.value = 1
    panel.move.click()
    assert run.mapping == before
    assert "32 buckets move" in panel.prediction.value
    panel.apply.click()
    eventually(lambda: run.mapping == before.move(range(32), to=1), 60)
    assert dashboard.messages.lines == (
        "draft = run.mapping.move(range(0, 32), to=1)",
        "run.reconfigure(mapping=run.mapping.move(range(0, 32), to=1))",
    )
    assert panel.apply.disabled
    assert panel.prediction.value == "" or eventually(lambda: panel.prediction.value == "", 60)


def test_example_balance_predicts_what_it_does(run, dashboard):
    panel = dashboard.mapping
    run.reconfigure(threads=2, mapping=hr.Mapping.even(2).move(range(1_000), to=0)).wait(60)
    eventually(lambda: panel.to.options == (0, 1), 60)
    eventually(lambda: panel._loads.loads.sum() > 2_000, 60)
    loads, before = panel._loads.loads, run.mapping
    assert before.predicted_imbalance(loads)[0] > 0.5
    panel.balance.click()
    panel.apply.click()
    eventually(lambda: run.mapping != before, 60)
    assert run.mapping.predicted_imbalance(loads)[0] < 0.2
    draft = "hr.Mapping.balanced(dashboard.bucket_loads, [0, 1], start=run.mapping)"
    assert dashboard.messages.lines == (f"draft = {draft}", f"run.reconfigure(mapping={draft})")


def test_example_bad_buckets_and_discard(run, dashboard):
    panel = dashboard.mapping
    panel.buckets.value = "7-3"
    panel.move.click()
    assert "buckets" in problem(dashboard)
    panel.buckets.value = "0-3"
    panel.move.click()
    panel.discard.click()
    assert panel.apply.disabled
    assert panel.shown == run.mapping


def test_example_a_draft_is_dropped_when_the_mapping_changes(run, dashboard):
    panel = dashboard.mapping
    panel.buckets.value = "0-3"
    panel.move.click()
    run.reconfigure(threads=3).wait(60)
    eventually(lambda: panel.apply.disabled, 60)
    eventually(lambda: "discarded" in problem(dashboard), 60)


def test_example_controller(run, dashboard):
    panel = dashboard.controller
    panel.choice.value = "Threshold"
    assert panel.parameters["upper"].value == 0.9
    panel.parameters["upper"].value = 0.1  # below lower
    panel.start.click()
    assert "upper" in problem(dashboard)
    panel.parameters["upper"].value = 0.95
    panel.start.click()
    eventually(lambda: "attached" in [one.kind for one in run.decisions], 60)
    eventually(lambda: not panel.stop.disabled, 60)
    eventually(lambda: "Threshold" in panel.words.value, 60)
    panel.stop.click()
    eventually(lambda: panel.stop.disabled, 60)
    assert dashboard.messages.lines[-2:] == (
        "run.control(hr.controllers.Threshold(upper=0.95, target=0.7, lower=0.45))",
        "run.release()",
    )


def test_example_damping_of_a_controller(run, dashboard):
    panel = dashboard.controller
    panel.choice.value = "ProactiveJoin"
    assert panel.parameters["cooldown_s"].value == 0.6  # its own default
    panel.parameters["cooldown_s"].value = -1
    panel.start.click()
    assert "cooldown_s=-1" in problem(dashboard)
    panel.parameters["cooldown_s"].value = 3
    panel.start.click()
    assert problem(dashboard) == ""
    assert dashboard.messages.lines[-1] == (
        "run.control(hr.controllers.ProactiveJoin(upper=0.8, lower=0.7, horizon_s=2, drain_s=1,"
        " damping=hr.controllers.Damping(up_after_s=0.2, down_after_s=1, cooldown_s=3)))"
    )
    eval(dashboard.messages.lines[-1], {"run": run, "hr": hr})  # the line is Python that does the same
    eventually(lambda: [one.kind for one in run.decisions].count("attached") == 2, 60)


def test_example_the_largest_step_of_a_controller(run, dashboard):
    """Four threads have next to nothing to do: without a limit all that are too many would go at once."""
    panel = dashboard.controller
    run.reconfigure(threads=4).wait(60)
    panel.choice.value = "Threshold"
    assert panel.parameters["max_step"].value == 0  # any number
    panel.parameters["max_step"].value = -1
    panel.start.click()
    assert "max_step=-1" in problem(dashboard)
    for name, value in (("max_step", 1), ("down_after_s", 0.2), ("cooldown_s", 0.2)):
        panel.parameters[name].value = value
    panel.start.click()
    assert problem(dashboard) == ""
    line = dashboard.messages.lines[-1]
    assert (
        "damping=hr.controllers.Damping(up_after_s=0.5, down_after_s=0.2, cooldown_s=0.2, max_step=1)" in line
    )
    eventually(lambda: run.threads == 1, 60)
    assert [(c.from_threads, c.to_threads) for c in run.changes[1:]] == [(4, 3), (3, 2), (2, 1)]
    panel.stop.click()
    eval(line, {"run": run, "hr": hr})
    panel.parameters["max_step"].value = 0  # back to any number
    panel.start.click()
    assert "max_step" not in dashboard.messages.lines[-1]


def test_example_a_schedule_as_text(run, dashboard):
    panel = dashboard.controller
    panel.choice.value = "Schedule"
    for text in ("", "0", "0: a", "x: 1", "0: 1.5", "5: 1, 2: 1", "0: 0"):
        panel.parameters["steps"].value = text
        panel.start.click()
        assert "steps" in problem(dashboard), text
    assert not run.decisions
    panel.parameters["steps"].value = "0: 3, 0.5: 2"
    panel.start.click()
    assert dashboard.messages.lines[-1] == "run.control(hr.controllers.Schedule(steps=[(0.0, 3), (0.5, 2)]))"
    eventually(lambda: run.threads == 2, 60)
    eventually(lambda: "the schedule says 2 threads" in panel.words.value, 60)


def test_example_a_controller_of_the_users():
    def none_ever(observation):
        return None

    with start(rate=2_000) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None, controllers={"none_ever": none_ever})
        try:
            dashboard.controller.choice.value = "none_ever"
            dashboard.controller.start.click()
            assert dashboard.messages.lines == ("run.control(none_ever)",)
            eventually(lambda: len(run.decisions) == 1, 60)
        finally:
            dashboard.close()


def test_example_pause_span_scrub(run, dashboard):
    eventually(lambda: rows(dashboard) > 20, 60)
    dashboard.history.pause.value = True
    end = dashboard.plots.widget.frame["ranges"]["x"]
    eventually(lambda: dashboard.feed.tables[dashboard.operator].last["t"] > dashboard.view.end_s + 1, 60)
    dashboard.history.span.value = "10 s"
    dashboard.history.scrub.value = 1.0
    eventually(lambda: max(shown(dashboard, "t")) < 1.5, 60)
    assert dashboard.plots.widget.frame["ranges"]["x"] == (0.0, 10.0)
    dashboard.history.pause.value = False
    eventually(lambda: shown(dashboard, "t")[-1] > end[0] + 1, 60)
    assert dashboard.history.scrub.disabled


def test_example_a_slider_that_is_dragged_prints_one_line(run, dashboard):
    eventually(lambda: dashboard.history._now_s > 1, 60)
    dashboard.history.pause.value = True
    for end_s in (0.9, 0.8, 0.30000000000000004):
        dashboard.history.scrub.value = end_s
    assert dashboard.view.end_s == 0.3
    assert dashboard.messages.lines == ("dashboard.pause()", "dashboard.pause(0.3)")
    for part in (dashboard.threads.slider, dashboard.rate.slider):
        assert not part.continuous_update


def test_example_looking_back_by_calls(run, dashboard):
    eventually(lambda: dashboard.history._now_s > 1, 60)
    dashboard.pause(0.5)
    assert (dashboard.view.end_s, dashboard.history.scrub.value) == (0.5, 0.5)
    dashboard.pause(1e9)  # no further than there is something to see
    assert 1 < dashboard.view.end_s < 1e6
    for refused in (-1, float("nan")):
        with pytest.raises(ValueError, match="pause"):
            dashboard.pause(refused)
        with pytest.raises(ValueError, match="show_last"):
            dashboard.show_last(refused)
    dashboard.go_on()
    assert dashboard.view.end_s is None
    dashboard.show_last(45)  # a length of one's own is offered from then on
    assert (dashboard.view.span_s, dashboard.history.span.value) == (45, "45 s")
    dashboard.history.span.value = "10 s"
    dashboard.history.span.value = "45 s"
    assert dashboard.view.span_s == 45
    dashboard.show_last(None)
    assert (dashboard.view.span_s, dashboard.history.span.value) == (None, "all")
    assert dashboard.messages.lines == ("dashboard.show_last(10)", "dashboard.show_last(45)")
    with pytest.raises(ValueError, match="nobody"):
        dashboard.show_operator("nobody")
    with pytest.raises(ValueError, match=r"changes\.txt"):
        dashboard.export("changes.txt")


def test_example_save_one_offline_page(run, dashboard, tmp_path):
    dashboard.threads.plus.click()
    eventually(lambda: rows(dashboard) > 10 and run.threads == 2, 60)
    page = dashboard.save(tmp_path / "page.html").read_text()
    for wanted in ("Input rate and throughput", "Reconfigurations", "dashboard", "bokeh"):
        assert wanted in page
    tags = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert "src=" not in tags
    assert "href=" not in tags
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


HOSTILE = "<img src=x onerror=hit()>/..</script><script>hit()</script>\"' onclick=hit() {{7*7}} $$x$$ &lt;b&gt;" + "n" * 300


class Markup(HTMLParser):
    """What a browser would take for markup: tags, attributes, and what scripts say."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.scripts, self.is_script = [], [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.is_script = tag == "script"

    def handle_endtag(self, tag):
        self.is_script = False

    def handle_data(self, data):
        if self.is_script:
            self.scripts.append(data)

    @property
    def hostile(self):
        return (
            [tag for tag in self.tags if tag in ("img", "b>")]
            + [name for name in self.attributes if name.startswith("on")]
            + [script for script in self.scripts if script.lstrip().startswith("hit()")]
        )


def test_example_names_and_texts_are_no_markup(tmp_path, monkeypatch):
    """Of operators, sources, columns and reasons, in what the dashboard shows and in the page it saves."""
    assert Markup(f"<p>{HOSTILE}").hostile == ["img", "onerror", "hit()"]
    monkeypatch.chdir(tmp_path)
    table = TABLE.rename_columns(["ts", HOSTILE])
    stream = hr.stream(iter(table.to_batches(500)), event_time="ts", name=HOSTILE).key_by(HOSTILE).window(1_000)
    with stream.aggregate(HOSTILE, n=hr.count()).start(max_threads=4, sink=hr.discard(), rate=2_000) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            run.reconfigure(threads=2, reason=HOSTILE).wait(60)
            eventually(lambda: rows(dashboard) > 5 and "changes.json" in dashboard.changes.widget.value, 60)
            dashboard.messages.fail(HOSTILE)
            dashboard.status.show_failure(ValueError(HOSTILE))
            dashboard.update()
            dashboard.history.save.click()
            (page,) = tmp_path.iterdir()
            assert re.fullmatch(r"headrace-[\w.-]+\.html", page.name) and page.name.startswith("headrace--img-src")
            shown = [dashboard.widget]
            for part in shown:
                shown += getattr(part, "children", ())
            texts = [part.value for part in shown if isinstance(part, w.HTML)]
            assert len(texts) > 8 and sum("hit()" in text for text in texts) >= 3
            assert "saved as" in dashboard.history.saved.value and not dashboard.messages.problem.value
            assert [Markup(text).hostile for text in texts] == [[]] * len(texts)
            assert Markup(page.read_text()).hostile == []
            assert "hit()" in page.read_text()
            named = dashboard.save(tmp_path / "<img src=x onerror=hit()>.html")
            monkeypatch.setattr(dashboard.history, "_save", lambda: named)
            dashboard.history.save.click()
            assert "hit()" in dashboard.history.saved.value and Markup(dashboard.history.saved.value).hostile == []
        finally:
            dashboard.close()


def test_example_an_operator_whose_name_has_a_slash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stream = hr.stream(iter(TABLE.to_batches(500)), event_time="ts").key_by("k").window(1_000)
    with stream.aggregate("a/b", n=hr.count()).start(sink=hr.discard(), rate=2_000) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            assert re.fullmatch(r"headrace-a-b-[\d-]+\.html", dashboard.save().name)
        finally:
            dashboard.close()


def test_example_save_writes_through_no_link(dashboard, tmp_path):
    """Where others can write to the directory too, they may have put one where ours would be."""
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "page.html.part").symlink_to(tmp_path / "other")
    dashboard.save(tmp_path / "page.html")
    assert (tmp_path / "other").read_text() == "theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "page.html", "page.html.part"]
    assert not (tmp_path / "page.html").is_symlink()


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
    with pytest.raises(ValueError, match="change 2 that was done has") as caught:
        replay([good, good | changed], run)
    assert told in str(caught.value) and len(str(caught.value)) < 300
    assert run.changes == []


def test_example_the_table_and_replay_on_another_run(run, dashboard, tmp_path):
    run.reconfigure(threads=3, reason="=SUM(A1)").wait(60)
    run.reconfigure(mapping=run.mapping.move(range(10), to=2)).wait(60)
    eventually(lambda: all(one["tuples"] is not None for one in dashboard.changes.records()), 60)
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
    eventually(lambda: "changes.json" in dashboard.changes.widget.value, 60)
    file = tmp_path / "changes.json"
    file.write_text(json.dumps([first, second]))
    with start() as other:
        replay(file, other).join(60)
        assert [(c.to_threads, c.outcome) for c in other.changes] == [(3, "done"), (3, "done")]
        assert other.mapping == run.mapping
    with pytest.raises(ValueError, match="export one from the dashboard"):
        replay([{"a": 1}], run)


def test_example_the_table_says_what_a_change_did_to_the_imbalance():
    """One of two threads has all the buckets: a coefficient of variation of 100%. Then each has half of them."""
    lopsided = hr.Mapping.even(2).move(range(1_024), to=0)
    with start(threads=2, rate=2_000) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            run.reconfigure(mapping=lopsided).wait(60)
            seconds = run.metrics().seconds
            # Two seconds before a change count, and the loads of half a second more.
            eventually(lambda: run.metrics().seconds > seconds + 3, 60)
            run.reconfigure(mapping=hr.Mapping.even(2)).wait(60)
            loads = np.array(run.metrics().operators[dashboard.operator].bucket_load)
            expected, _ = hr.Mapping.even(2).predicted_imbalance(loads)

            def known():
                with dashboard.messages.lock:
                    last = dashboard.changes.records()[-1]
                return last if dashboard.feed.newest_s > last["at_s"] + 3 else None

            last = eventually(known, 60)
            assert last["imbalance_before"] == pytest.approx(1.0, abs=0.1)
            assert last["imbalance_after"] == pytest.approx(expected, abs=0.1)
            assert last["imbalance_after"] < 0.4
            assert last["p99_before_ms"] > 0
            assert last["p99_after_ms"] > 0
            eventually(
                lambda: f"<td>{last['imbalance_before']:.1%}</td>" in dashboard.changes.widget.value, 60
            )
        finally:
            dashboard.close()


def test_example_before_and_after_in_the_table():
    """A change at second 10 that takes one; the columns below are known, so are their means.

    t     5 .. 7.9   8 .. 10   10.1 .. 11.4   11.5 .. 13.5   13.6 ..
    cv    0.9        0.5       0.7            0.1            0.9
    p99   99         8         50             2              99
    """
    table = Table(("t", "cv", "p99"))
    for i in range(50, 200):
        t = i / 10
        if t < 8 or t > 13.55:
            row = 0.9, 99.0
        elif t <= 10:
            row = 0.5, 8.0
        else:
            row = (0.7, 50.0) if t < 11.45 else (0.1, 2.0)
        table.append((t, *row))
    change = SimpleNamespace(
        operator="op", requested_ns=10 * 10**9, started_ns=10 * 10**9, completed_ns=11 * 10**9, planned_at=None,
        reason="a test", from_threads=2, to_threads=2, ms=1_000.0, buckets_moved=512, outcome="done",
        members=(0, 1), mapping=None,
    )  # fmt: skip
    feed = SimpleNamespace(tables={"op": table}, metrics=None, newest_s=20.0, seconds_of=lambda ns: ns / 1e9)
    changes = ChangesTable(SimpleNamespace(changes=[change]), feed)
    (record,) = changes.records()
    measured = [record[name] for name in COLUMNS if name.startswith(("imbalance", "p99"))]
    assert measured == pytest.approx([0.5, 0.1, 8.0, 2.0])
    changes.show([change])
    heads = re.findall("<th scope[^>]*>(.*?)</th>", changes.widget.value)
    given = dict(zip(COLUMNS, re.findall("<td>(.*?)</td>", changes.widget.value), strict=True))
    assert heads == list(COLUMNS.values())
    assert (given["imbalance_before"], given["imbalance_after"]) == ("50.0%", "10.0%")
    assert [re.sub(r"\.0+", "", given[f"p99_{when}_ms"]) for when in ("before", "after")] == ["8 ms", "2 ms"]
    refused = SimpleNamespace(**(vars(change) | {"outcome": "refused"}))
    (record,) = ChangesTable(SimpleNamespace(changes=[refused]), feed).records()
    assert record["imbalance_after"] is record["p99_before_ms"] is None  # it did nothing to the stream


def test_example_a_failure_in_a_worker_is_seen():
    def broken(t, emit):
        emit(v=1 // (t.v - 3))

    table = pa.table({"ts": pa.array(range(100)), "v": pa.array([5] * 50 + [3] + [5] * 49)})
    source = Steered(table, [40])
    run = hr.stream(source, event_time="ts").map(broken, v="int64").forward().start()
    dashboard = Dashboard(run, stop_unwatched_after=None)
    try:
        source.let_all()
        eventually(lambda: "The run failed" in dashboard.status.failure.value, 60)
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
    eventually(lambda: "ZeroDivisionError" in problem(dashboard), 60)


def two_steps():
    stream = hr.stream(iter(TABLE.to_batches(500)), event_time="ts").key_by("k").window(1_000)
    query = (
        stream.aggregate("first", n=hr.count()).key_by("k").window(1_000).aggregate("second", n=hr.sum("n"))
    )
    return query.start(threads=1, max_threads=3, rate=2_000, sink=hr.discard())


def test_example_several_operators():
    with two_steps() as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            dashboard.choice.value = "second"
            assert problem(dashboard) == ""
            dashboard.threads.plus.click()
            eventually(lambda: run["second"].threads == 2, 60)
            assert run["first"].threads == 1
            assert dashboard.messages.lines == (
                "dashboard.show_operator('second')",
                "run['second'].reconfigure(threads=2)",
            )
            eventually(lambda: rows(dashboard) > 3, 60)
        finally:
            dashboard.close()


def controls_of(widget):
    """All that can be clicked, moved or typed into."""
    if isinstance(widget, w.Box):
        return {one for child in widget.children for one in controls_of(child)}
    return (
        {widget}
        if isinstance(widget, (w.Button, w.ValueWidget)) and not isinstance(widget, w.HTML)
        else set()
    )


def test_example_every_control_prints_one_line_that_does_the_same(tmp_path, monkeypatch):
    """Each control is used on the first of two dashboards alike, and what it prints is run for the second."""
    monkeypatch.chdir(tmp_path)
    with two_steps() as run, two_steps() as other:
        mine, its = (Dashboard(each, stop_unwatched_after=None) for each in (run, other))
        names = {"run": other, "dashboard": its, "hr": hr}
        used = set()

        def use(control, value=None):
            before = len(mine.messages.lines)
            if value is None:
                control.click()
            else:
                control.value = value
            assert problem(mine) == ""
            assert len(mine.messages.lines) == before + 1, "one line"
            used.add(control)
            return mine.messages.lines[-1]

        def use_and_run(control, value=None):
            line = use(control, value)
            exec(line, names)
            return line

        try:
            use_and_run(mine.choice, "second")
            assert (mine.operator, its.operator, its.choice.value) == ("second",) * 3

            threads = mine.threads
            for control, value, wanted in (
                (threads.plus, None, 2), (threads.slider, 3, 3), (threads.entry, 1, 1), (threads.plus, None, 2),
                (threads.minus, None, 1), (threads.plus, None, 2),
            ):  # fmt: skip
                use_and_run(control, value)
                for each in (run, other):
                    eventually(lambda each=each, wanted=wanted: each["second"].threads == wanted, 60)

            for control, value in ((mine.rate.slider, 3_000), (mine.rate.entry, 2_500.5)):
                use_and_run(control, value)
                assert run.rate == other.rate == value

            mine.controller.choice.value = "Threshold"
            mine.controller.parameters["cooldown_s"].value = 30
            use_and_run(mine.controller.start)
            for each in (run, other):
                eventually(lambda each=each: [one.kind for one in each.decisions][:1] == ["attached"], 60)
                assert each.decisions[0].operator == "second"
            eventually(lambda: not mine.controller.stop.disabled, 60)
            use_and_run(mine.controller.stop)
            for each in (run, other):
                eventually(lambda each=each: each.decisions[-1].kind == "released", 60)

            for each in (mine, its):
                eventually(lambda each=each: each.history._now_s > 2 and each.plots._figures._highest, 60)
            use_and_run(mine.history.span, "10 s")
            assert mine.view.span_s == its.view.span_s == 10
            assert its.history.span.value == "10 s"
            use_and_run(mine.history.span, "all")
            assert mine.view.span_s is its.view.span_s is None
            use_and_run(mine.history.pause, True)
            assert 2 < its.view.end_s <= its.history._now_s
            assert (its.history.pause.value, its.history.scrub.disabled) == (True, False)
            use_and_run(mine.history.scrub, 1.2)
            assert mine.view.end_s == its.view.end_s == its.history.scrub.value == 1.2
            use_and_run(mine.history.pause, False)
            assert mine.view.end_s is its.view.end_s is None
            assert (its.history.pause.value, its.history.scrub.disabled) == (False, True)
            with mine.messages.lock, its.messages.lock:  # an update would cover anew what is shown
                use_and_run(mine.history.fit)
                assert mine.plots._figures._highest == its.plots._figures._highest == []

            line = use(mine.history.save)
            (page,) = tmp_path.glob("headrace-second-*.html")
            page.unlink()
            exec(line, names)
            assert page.exists()

            mapping = mine.mapping
            for each in (run, other):
                each["second"].reconfigure(threads=2, mapping=hr.Mapping.even(2)).wait(60)
            eventually(lambda: mapping.to.options == (0, 1) and its.mapping.to.options == (0, 1), 60)
            mapping.buckets.value, mapping.to.value = "0-31", 1
            use_and_run(mapping.move)
            assert names["draft"] == mapping.shown == hr.Mapping.even(2).move(range(32), to=1)
            mapping.buckets.value = "40, 50"
            use_and_run(mapping.move)
            assert names["draft"] == mapping.shown == hr.Mapping.even(2).move([*range(32), 40, 50], to=1)
            use_and_run(mapping.discard)
            assert names["draft"] == mapping.shown == other["second"].mapping == hr.Mapping.even(2)
            mapping.buckets.value = "0-499"
            use(mapping.move)
            use_and_run(mapping.apply)
            for each in (run, other):
                moved = hr.Mapping.even(2).move(range(500), to=1)
                eventually(lambda each=each, moved=moved: each["second"].mapping == moved, 60)
            eventually(lambda: mapping.bucket_loads.any(), 60)
            with mine.messages.lock:  # the same loads for both
                line = use(mapping.balance)
                exec(line, here := {"run": run, "dashboard": mine, "hr": hr})
                assert here["draft"] == mapping.shown != run["second"].mapping

            with mine.messages.lock:
                mine.changes._drawn = None
                mine.changes.show(run.changes)
                shown = mine.changes.widget.value
                for name in ("changes.csv", "changes.json"):
                    (linked,) = re.findall(f'download="{name}" href="data:[^,]*,([^"]*)"', shown)
                    line = f'dashboard.export("{name}")'
                    assert f"<code>{line}</code>" in html.unescape(shown)
                    exec(line, {"dashboard": mine})
                    assert Path(name).read_bytes() == base64.b64decode(linked)

            use_and_run(mine.stop)
            eventually(lambda: run.state == other.state == "stopped", 60)
            # What is called prints nothing, and of what prints nothing all is only chosen for a button beside it.
            assert its.messages.lines == ()
            chosen = {
                mapping.buckets,
                mapping.to,
                mine.controller.choice,
                *mine.controller.parameters.values(),
            }
            assert controls_of(mine.widget) - used == chosen
        finally:
            mine.close()
            its.close()


def test_example_the_watchdog(run, dashboard):
    dashboard.watchdog.after_s = 0.3
    eventually(lambda: rows(dashboard) > 10, 60)
    assert run.state == "running"  # no page has ever looked
    dashboard.plots.widget._handle_custom_msg({"kind": "alive"}, [])
    eventually(lambda: run.state == "stopped", 60)
    assert "nobody watched" in problem(dashboard)


def test_example_nothing_is_drawn_while_nobody_looks_and_all_of_it_when_somebody_does_again(run, dashboard):
    eventually(lambda: rows(dashboard) > 5, 60)
    dashboard.watchdog.rest_after_s = 1.0
    report = lambda: dashboard.plots.widget._handle_custom_msg({"kind": "alive"}, [])  # noqa: E731
    report()
    eventually(lambda: dashboard.watchdog.is_resting, 60)
    counted = run.metrics().tuples_in
    eventually(lambda: run.metrics().tuples_in > counted + 2_000, 60)  # an update under way has ended
    frame, heat_map = dashboard.plots.widget.frame, dashboard.mapping.plot.frame
    eventually(lambda: run.metrics().tuples_in > counted + 6_000, 60)
    assert dashboard.plots.widget.frame is frame
    assert dashboard.mapping.plot.frame is heat_map
    last = shown(dashboard, "t")[-1]
    report()
    eventually(lambda: shown(dashboard, "t")[-1] > last + 2, 60)
    times = shown(dashboard, "t")
    assert ((times > last) & (times < last + 2)).sum() >= 3  # what was missed meanwhile is there
    assert run.state == "running"


def test_example_silence_in_a_busy_kernel_is_no_silence(run, dashboard):
    dashboard.watchdog._begin()
    dashboard.watchdog.after_s = 0.01
    dashboard.plots.widget._handle_custom_msg({"kind": "alive"}, [])
    dashboard.watchdog.check()
    eventually(lambda: rows(dashboard) > 10, 60)
    assert run.state == "running"
    dashboard.watchdog._end()
    eventually(lambda: run.state == "stopped", 60)


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
    ],
)
def test_example_parameters(run, options, named):
    with pytest.raises(ValueError, match=named):
        Dashboard(run, **options)
    assert "headrace-dashboard" not in [thread.name for thread in threading.enumerate()]
