"""Method: the plots of a real run are held, moved along and saved; hostile names go into the page that is saved.
What this cannot see: anything in the browser; tests/browser drives a real one.
"""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import ipywidgets as w
import pytest

import headrace as hr
from headrace_widgets import Dashboard
from headrace_widgets.figures import Figures
from headrace_widgets.history_controls import PAUSED
from support.dashboards import TABLE, rows, shown
from support.workloads import eventually


@pytest.mark.slow
def test_example_pause_span_scrub(run, dashboard):
    eventually(lambda: rows(dashboard) > 20, 180)
    assert PAUSED not in dashboard.history.widget._dom_classes  # the slider would show a number that means nothing
    dashboard.history.pause.value = True
    assert PAUSED in dashboard.history.widget._dom_classes
    end = dashboard.plots.widget.frame["ranges"]["x"]
    eventually(lambda: dashboard.feed.tables[dashboard.operator].last["t"] > dashboard.view.end_s + 1, 180)
    dashboard.history.span.value = "10 s"
    dashboard.history.scrub.value = 1.0
    # The sample behind the end is shown, too; it comes late where the process stands still.
    eventually(lambda: (shown(dashboard, "t") > 1).sum() <= 1, 180)
    assert dashboard.plots.widget.frame["ranges"]["x"] == (0.0, 10.0)
    dashboard.history.pause.value = False
    eventually(lambda: shown(dashboard, "t")[-1] > end[0] + 1, 180)
    assert dashboard.history.scrub.disabled and PAUSED not in dashboard.history.widget._dom_classes


def test_example_a_slider_that_is_dragged_prints_one_line(run, dashboard):
    eventually(lambda: dashboard.history._now_s > 1, 180)
    dashboard.history.pause.value = True
    for end_s in (0.9, 0.8, 0.30000000000000004):
        dashboard.history.scrub.value = end_s
    assert dashboard.view.end_s == 0.3
    assert dashboard.messages.lines == ("dashboard.pause()", "dashboard.pause(0.3)")
    for part in (dashboard.threads.slider, dashboard.rate.slider):
        assert not part.continuous_update


def test_example_what_the_page_sends_back_is_no_click(run, dashboard):
    """It rounds what it was told to a step of the slider."""
    eventually(lambda: dashboard.history._now_s > 1, 180)
    dashboard.pause(0.52)
    dashboard.history.scrub.value = 0.5 + 1e-9
    assert (dashboard.view.end_s, dashboard.messages.lines) == (0.52, ())
    dashboard.history.scrub.value = 0.6
    assert (dashboard.view.end_s, dashboard.messages.lines) == (0.6, ("dashboard.pause(0.6)",))


def test_example_looking_back_by_calls(run, dashboard):
    eventually(lambda: dashboard.history._now_s > 1, 180)
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


@pytest.mark.slow
def test_example_save_one_offline_page(run, dashboard, tmp_path):
    dashboard.threads.plus.click()
    eventually(lambda: rows(dashboard) > 10 and run.threads == 2, 180)
    page = dashboard.save(tmp_path / "page.html").read_text()
    parts = ("Input rate and throughput", "Reconfigurations", "dashboard", "bokeh", "Key mapping", "thread 1: 512 buckets")
    for wanted in (*parts, "nothing here is live"):
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


@pytest.mark.slow
def test_example_names_and_texts_are_no_markup(tmp_path, monkeypatch):
    """Of operators, sources, columns and reasons, in what the dashboard shows and in the page it saves."""
    assert Markup(f"<p>{HOSTILE}").hostile == ["img", "onerror", "hit()"]
    monkeypatch.chdir(tmp_path)
    table = TABLE.rename_columns(["ts", HOSTILE])
    stream = hr.stream(iter(table.to_batches(500)), event_time="ts", name=HOSTILE).key_by(HOSTILE).window(1_000)
    with stream.aggregate(HOSTILE, n=hr.count()).start(max_threads=4, sink=hr.discard(), rate=2_000) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            run.reconfigure(threads=2, reason=HOSTILE).wait(180)
            eventually(lambda: rows(dashboard) > 5 and "changes.json" in dashboard.changes.widget.value, 180)
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


@pytest.mark.slow
def test_example_an_operator_whose_name_has_a_slash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stream = hr.stream(iter(TABLE.to_batches(500)), event_time="ts").key_by("k").window(1_000)
    with stream.aggregate("a/b", n=hr.count()).start(sink=hr.discard(), rate=2_000) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            assert re.fullmatch(r"headrace-a-b-[\d-]+\.html", dashboard.save().name)
        finally:
            dashboard.close()


def test_example_what_is_saved_is_of_one_moment(dashboard, tmp_path, monkeypatch):
    """No update comes between the plots and what is said of them."""
    held, cells, lock = [], Figures.cells, dashboard.messages.lock

    def is_free():
        return lock.acquire(blocking=False) and lock.release() is None

    def looked_at(figures, start, end):
        if threading.current_thread() is threading.main_thread():  # the dashboard's own is another
            with ThreadPoolExecutor(1) as others:
                held.append(not others.submit(is_free).result())
        return cells(figures, start, end)

    monkeypatch.setattr(Figures, "cells", looked_at)
    dashboard.save(tmp_path / "page.html")
    assert held == [True]


def test_example_save_writes_through_no_link(dashboard, tmp_path):
    """Where others can write to the directory too, they may have put one where ours would be."""
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "page.html.part").symlink_to(tmp_path / "other")
    dashboard.save(tmp_path / "page.html")
    assert (tmp_path / "other").read_text() == "theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "page.html", "page.html.part"]
    assert not (tmp_path / "page.html").is_symlink()
