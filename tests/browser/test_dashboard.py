"""Method: the notebook is opened in a real JupyterLab in a real Chromium and used as a person would use it.

What the page shows is read from BokehJS's own models, what the engine does from the kernel, beside the
browser. Every request that leaves the machine is blocked and recorded; there must be none, and no error in the
browser's console. The tests are one visit: they run in the order of the file, on one page. Pictures are kept
in build/screenshots.

What this cannot see: other browsers, screen readers at work, and whether it looks well: look at the pictures.
"""

from __future__ import annotations

import re

import pytest

from browser import lab
from browser.lab import NOTEBOOK, SLOW, until
from browser.measure import figures

pytestmark = pytest.mark.skipif(lab.chromium() is None, reason=lab.GET_ONE)

FAILS = """\
import pyarrow as pa

def divide(state, t, emit):
    state.n += 1_000 // (t.v - 400)

def result(key, state, emit):
    emit(n=state.n)

values = pa.table({"ts": range(4_000), "v": range(4_000)})
divided = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=divide, output=result)
failing = hr.stream(values, event_time="ts").window(100).apply(divided).start(rate=200, sink=hr.discard())
Dashboard(failing)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The notebook in small size, in a folder of its own."""
    place = tmp_path_factory.mktemp("lab")
    lab.copy_small(NOTEBOOK, place)
    return place


@pytest.fixture(scope="module")
def visit(folder):
    """The page, with every cell run and the dashboard in view."""
    with lab.opened(folder, NOTEBOOK, 20) as visit:
        yield visit


def test_example_the_plots_follow_the_stream(visit):
    counted, before = visit.kernel.ask("run.metrics().tuples_in"), visit.last("t")
    until(lambda: visit.last("t") > before + 2, SLOW, "the plots go on")
    until(lambda: visit.kernel.ask("run.metrics().tuples_in") > counted, SLOW, "and so does the engine")
    until(lambda: 700 < visit.last("input_per_s") < 1_300, SLOW, "the rate is that of the player")
    assert visit.last("threads") == 1
    assert visit.panel_texts()["threads"].startswith("1 of at most 4 threads")
    # One thread is loaded evenly and one source is behind no other: these two panels come when they have a meaning.
    shown = set(visit.panel_texts())
    assert {"throughput", "lag", "latency", "threads", "load", "mapping"} <= shown and not {"imbalance", "watermarks"} & shown
    until(lambda: "Nothing lost, order kept" in visit.words(), SLOW, "the books balance")
    visit.shot("light-1600")


def test_example_what_an_update_costs_can_be_measured(visit):
    rows = {row.case: row for row in figures(visit, 3.0)}
    assert rows["updates"].value > 0
    assert rows["drawn by the page"].value > 0
    assert 0 < rows["kernel time of an update, p50"].value <= rows["kernel time of an update, p90"].value


def test_example_slider_by_keyboard(visit):
    handle = visit.dashboard.locator(".headrace-threads .noUi-handle").first
    handle.focus()
    visit.page.keyboard.press("ArrowRight")
    until(lambda: visit.kernel.ask("run.threads") == 2, SLOW, "two threads")
    # It may have been put back for a moment, while one thread was all there were.
    until(lambda: float(handle.get_attribute("aria-valuenow")) == 2, SLOW, "the slider shows two")
    handle.focus()
    visit.page.keyboard.press("ArrowRight")
    until(lambda: visit.kernel.ask("run.threads") == 3, SLOW, "three threads")
    until(lambda: visit.last("threads") == 3, SLOW, "the plot shows three")
    until(lambda: visit.bokeh("(models) => models.changes.data.label") == ["1→2", "2→3"], SLOW, "two markers")
    until(lambda: "run.reconfigure(threads=3)" in visit.dashboard.inner_text(), SLOW, "the line of Python")
    until(lambda: min(visit.last(f"load_{i}") for i in range(3)) > 0, SLOW, "three threads have work")


def test_example_plus_and_a_refusal_in_words(visit):
    visit.click_once(visit.button("+"))
    until(lambda: visit.kernel.ask("run.threads") == 4, SLOW, "four threads")
    until(lambda: visit.last("threads") == 4, SLOW, "the plot shows four")
    entry = visit.dashboard.locator(".headrace-threads input[type=number]")
    alert = visit.dashboard.get_by_role("alert")
    visit.enter(entry, "9", lambda: alert.count() and "threads=9" in alert.inner_text())
    assert "max_threads=4" in alert.inner_text()
    assert visit.kernel.ask("run.threads") == 4
    until(lambda: entry.input_value() == "4", SLOW, "the entry shows what is")
    entry.fill("")
    entry.press_sequentially("2.5")
    assert entry.input_value() == "2.5"
    entry.press("Enter")
    until(lambda: "threads=2.5: give a whole number" in alert.inner_text(), SLOW, "the refusal of half a thread")
    until(lambda: entry.input_value() == "4", SLOW, "the entry shows what is")
    until(lambda: "imbalance" in visit.panel_texts(), SLOW, "the panel of several threads")  # its words come every few seconds


def test_example_move_buckets_in_the_heat_map(visit):
    owner = visit.kernel.ask("int(run.mapping.owners[200])")
    to = (owner + 1) % 4
    field = visit.dashboard.get_by_role("textbox", name="Buckets")

    def drag_selects():  # again where the page moved under the mouse
        visit.drag_over_cells("mapping", (12, owner), (13, owner))
        return lab.soon(lambda: field.input_value() == "192-223")

    until(drag_selects, SLOW, "dragging selects two cells")
    visit.dashboard.get_by_label("to thread").select_option(str(to))
    visit.click_once(visit.button("Move"))
    predicted = visit.dashboard.get_by_text(re.compile("Predicted: imbalance"))
    predicted.wait_for()
    assert "32 buckets move" in predicted.inner_text()
    assert visit.kernel.ask("int(run.mapping.owners[200])") == owner, "a draft changes nothing"
    visit.shot("draft-1600")
    visit.click_once(visit.button("Apply"))
    until(
        lambda: visit.kernel.ask("set(run.mapping.owners[192:224].tolist())") == {to},
        SLOW,
        "the buckets moved",
    )
    wanted = f"run.reconfigure(mapping=run.mapping.move(range(192, 224), to={to}))"
    until(lambda: wanted in visit.dashboard.inner_text(), SLOW, "the line of Python")
    shade = "(models, at) => Number.isFinite(models.selectable.data.shade[at])"
    until(lambda: visit.bokeh(shade, to * 64 + 12), SLOW, "the heat map shows the new owner")
    until(lambda: not visit.bokeh(shade, owner * 64 + 12), SLOW, "and not the old one")

    def click_selects():
        visit.click_on_cell("mapping", (13, to))
        return lab.soon(lambda: field.input_value() == "208-223")

    until(click_selects, SLOW, "a click selects one cell")


def test_example_balance_and_discard(visit):
    before = visit.kernel.ask("run.mapping.to_list()")
    visit.click_once(visit.button("Balance"))
    visit.dashboard.get_by_text(re.compile("Predicted: imbalance")).wait_for()
    visit.click_once(visit.button("Discard"))
    visit.dashboard.get_by_text(re.compile("Predicted: imbalance")).wait_for(state="detached")
    assert visit.kernel.ask("run.mapping.to_list()") == before


def test_example_rate_by_hand(visit):
    entry = visit.dashboard.locator(".headrace-rate input[type=number]")
    visit.enter(entry, "400", lambda: visit.kernel.ask("run.rate") == 400)
    until(lambda: 250 < visit.last("input_per_s") < 550, SLOW, "the plot shows it")


def test_example_a_controller_explains_itself(visit):
    visit.dashboard.get_by_label("Controller").select_option("Threshold")
    visit.click_once(visit.button("Start"))
    until(lambda: visit.kernel.ask("run.threads") < 4, SLOW, "too many threads for 400 tuples/s")
    log = visit.dashboard.get_by_role("log", name="Last decisions")
    until(lambda: "the load of 4 threads was" in log.inner_text(), SLOW, "the decision in words")
    visit.click_once(visit.button("Stop", exact=True))
    until(lambda: visit.kernel.ask("run.decisions[-1].kind") == "released", SLOW, "the controller is gone")
    until(
        lambda: "Threshold" in visit.dashboard.locator(".headrace-table").inner_text(),
        SLOW,
        "what asked for it",
    )


def test_example_the_view_moves_while_a_cell_is_busy_and_a_click_counts_or_is_said_to_wait(visit, folder):
    # What the controller asked for last is over, and the page shows it: the click is one more than that.
    until(lambda: visit.kernel.ask("all(change.is_settled for change in run.changes)"), SLOW, "no change is open")
    threads = visit.kernel.ask("run.threads")
    entry = visit.dashboard.locator(".headrace-threads input[type=number]")
    until(lambda: entry.input_value() == str(threads), SLOW, "the entry shows what is")
    visit.kernel.begin("import os as _o\nwhile not _o.path.exists('go'): pass")
    try:
        before = visit.last("t")
        visit.page.wait_for_function(
            "() => document.querySelector('[data-status=busy], .jp-Notebook-ExecutionIndicator[data-status=busy]') !== null"
        )
        until(lambda: visit.last("t") > before + 2, SLOW, "the plots move while the kernel is busy")
        visit.click_once(visit.button("+"))
        waits = visit.dashboard.locator(".headrace-connection", has_text="Waiting for the kernel")
        until(
            lambda: visit.last("threads") == threads + 1 or waits.count(),
            SLOW,
            "one thread more, or a word why not",
        )
    finally:
        (folder / "go").touch()
    visit.until_idle()
    until(lambda: visit.kernel.ask("run.threads") == threads + 1, SLOW, "it was not lost")
    until(lambda: waits.count() == 0, SLOW, "nothing waits any more")


def test_example_pause_scrub_and_save(visit, folder):
    visit.click_once(visit.button("Pause"))
    visit.button("Go on").wait_for()
    end = visit.kernel.ask("dashboard.view.range(1e9)[1]")
    until(
        lambda: visit.bokeh("(models) => models.x.end") == pytest.approx(end),
        SLOW,
        "the plots end where they were",
    )
    counted = visit.kernel.ask("run.metrics().tuples_in")
    until(lambda: visit.kernel.ask("run.metrics().tuples_in") > counted + 400, SLOW, "the stream goes on")
    assert visit.bokeh("(models) => models.x.end") == pytest.approx(end)
    visit.dashboard.get_by_label("Show", exact=True).select_option("10 s")
    until(
        lambda: visit.bokeh("(models) => models.x.end - models.x.start") == pytest.approx(10),
        SLOW,
        "ten seconds",
    )
    scrub = visit.dashboard.locator(".headrace-scrub .noUi-handle")
    scrub.focus()
    visit.page.keyboard.press("Home")
    until(lambda: visit.bokeh("(models) => models.x.start") == 0, SLOW, "back at the beginning")
    visit.click_once(visit.button("Go on"))
    visit.dashboard.get_by_label("Show", exact=True).select_option("all")
    until(
        lambda: visit.bokeh("(models) => models.x.start") == 0 and visit.series("t")[-1:] > [end],
        SLOW,
        "all of it",
    )
    visit.click_once(visit.button("Save page"))
    saved = until(lambda: next(folder.glob("headrace-score-*.html"), None), SLOW, "the page is written")
    visit.look_at(saved, "saved-page")


def test_example_layouts_by_their_buttons(visit):
    panels = visit.dashboard.locator(".headrace-panel:visible")
    for word, layout, line in (
        ("Compact", "compact", "dashboard.arrange('compact')"),
        ("Present", "present", "dashboard.present()"),
        ("All", "full", "dashboard.arrange('full')"),
    ):
        visit.click_once(visit.button(word))
        until(lambda of=f"headrace-{layout}": visit.dashboard.evaluate("(e, of) => e.classList.contains(of)", of), SLOW, word)
        until(lambda line=line: line in visit.dashboard.inner_text(), SLOW, "the line of Python")
        wanted = {"compact": 5, "present": 4}.get(layout)  # the key mapping is the fifth
        until(lambda n=wanted: panels.count() == n if n else panels.count() > 5, SLOW, f"the plots of {word}")


def test_example_axes_that_are_fitted(visit):
    end = "(models) => models.throughput.end"
    visit.kernel.run("dashboard.fit()")
    before = visit.stable(lambda: visit.bokeh(end))
    visit.kernel.run("dashboard.plots._figures._ranges['throughput'].end *= 1.5")  # it shrinks by itself where half would do
    until(lambda: visit.bokeh(end) >= 1.4 * before, SLOW, "more room than it needs")
    visit.click_once(visit.button("Fit axes"))
    until(lambda: visit.bokeh(end) <= 1.2 * before, SLOW, "it is rescaled to what is shown")
    assert "dashboard.fit()" in visit.dashboard.inner_text()


def test_example_axes_say_amounts_as_texts_do(visit):
    said = """(models) => [...models.x.document._all_models.values()]
        .find((model) => model.type === "CustomJSTickFormatter").doFormat([0, 0.25, 999, 1_250, 1_500_000], {loc: 0})"""
    assert visit.bokeh(said) == ["0", "0.25", "999", "1.25k", "1.5M"]


def test_example_dark_theme(visit):
    colour = """(models) => {
        const all = [...models.x.document._all_models.values()];
        return all.find((model) => model.type === "LinearAxis").major_label_text_color;
    }"""
    light = visit.bokeh(colour)
    visit.menu("Settings", "Theme", "JupyterLab Dark")
    until(lambda: visit.bokeh(colour) != light, SLOW, "the axes follow the theme")
    grids = """(models) => [...models.x.document._all_models.values()]
        .filter((model) => model.type === "Grid").map((model) => model.grid_line_color)"""
    assert None in visit.bokeh(grids), "a figure without a grid, such as the key mapping, gets none"
    visit.shot("dark-1600")
    visit.menu("Settings", "Theme", "JupyterLab Light")
    until(lambda: visit.bokeh(colour) == light, SLOW, "and follow it back")


def test_example_a_narrow_window(visit):
    visit.resize(900)
    visit.shot("light-900")
    until(lambda: visit.dashboard.evaluate("(e) => e.scrollWidth <= e.clientWidth + 1"), SLOW, "it is as wide as the page")

    def tops():
        return [lab.measure(visit.button(word), "y") for word in ("All", "Compact", "Present", "Stop run")]

    until(lambda: max(tops()) - min(tops()) < 10, SLOW, "none of the head's buttons is below the others")
    visit.resize(700)
    row, slider = visit.dashboard.locator(".headrace-history"), visit.dashboard.locator(".headrace-scrub")
    height = visit.stable(lambda: lab.measure(row, "height"))
    until(lambda: slider.evaluate("(e) => getComputedStyle(e).display") == "none", SLOW, "no row with nothing in it")
    visit.click_once(visit.button("Pause"))
    slider.wait_for()
    line = lab.measure(visit.button("Go on"), "height")
    until(lambda: lab.measure(row, "height") > height + 0.6 * line, SLOW, "the slider has a row of its own")
    visit.click_once(visit.button("Go on"))
    slider.wait_for(state="hidden")
    visit.resize(1600)


def test_example_a_page_that_is_loaded_again_has_the_history_and_nothing_is_drawn_meanwhile(visit):
    visit.dashboard.get_by_label("Show", exact=True).select_option("all")
    until(lambda: visit.bokeh("(models) => models.x.start") == 0, SLOW, "all of it is shown")
    before = visit.series("t")
    visit.kernel.run("dashboard.watchdog.rest_after_s = 5")
    drawn = "dashboard.feed.tables['score'].last['t']"
    visit.leave(NOTEBOOK)
    until(lambda: visit.kernel.ask("dashboard.watchdog.is_resting"), SLOW, "nobody looks")

    def stands_still():  # looked at again where an update was still under way
        last, counted = visit.kernel.ask(f"({drawn}, run.metrics().tuples_in)")
        until(lambda: visit.kernel.ask("run.metrics().tuples_in") > counted + 1_000, SLOW, "the stream goes on")
        return (last,) if visit.kernel.ask(drawn) == last else None

    (last,) = until(stands_still, SLOW, "nothing is drawn")
    visit.come_back(NOTEBOOK)
    visit.until_rows(len(before) // 4, SLOW)  # all of the time; how many points are drawn of it varies
    until(lambda: visit.series("t")[:1] == before[:1], SLOW, "from the beginning on")
    until(lambda: visit.series("t")[-1:] > [last + 2], SLOW, "the plots go on")
    until(lambda: any(last < t < last + 2 for t in visit.series("t")), SLOW, "what was not looked at is there")
    visit.kernel.run("dashboard.watchdog.rest_after_s = 15")
    visit.shot("reloaded-1600")


def test_example_running_the_cell_again_replaces_run_and_dashboard(visit):
    visit.kernel.run("first = run")
    cell = visit.page.locator(".jp-CodeCell").filter(has_text="dashboard = Dashboard(run)").last
    cell.locator(".cm-content").click()
    visit.page.keyboard.press("Control+Enter")
    until(
        lambda: visit.kernel.ask("run is not first and first.state") == "stopped",
        SLOW,
        "the first run was stopped",
    )
    until(lambda: visit.page.locator(".headrace-dashboard").count() == 1, SLOW, "one dashboard")
    assert visit.kernel.ask("run.state") == "running"
    visit.until_rows(5, SLOW)


def test_example_restart_of_the_kernel(visit):
    with visit.other_plots(3 * SLOW):
        visit.forget_kernel()
        visit.menu("Kernel", "Restart Kernel and Run All Cells…")
        visit.page.get_by_role("button", name="Confirm Kernel Restart").click()
    # The new kernel's dashboard takes the old one's place, and its plots go on.
    visit.until_rows(5, 3 * SLOW)
    begun = visit.last("t")
    until(lambda: visit.last("t") > begun, SLOW, "the plots go on")
    assert visit.kernel.ask("run.state") == "running"
    assert visit.dashboard.count() == 1


def test_example_a_drawing_is_stepped_through(visit):
    visit.run_new_cell("from headrace_widgets import diagrams\ndiagrams.gate()")
    drawing = visit.page.locator(".hrd")
    drawing.wait_for()
    seen = "(all) => all.flatMap((one, i) => one.checkVisibility() ? [i + 1] : [])"
    steps = drawing.locator("section")
    assert steps.evaluate_all(seen) == [1]
    for word, step in (("Next", 2), ("Next", 3), ("Prev", 2)):
        steps.nth(steps.evaluate_all(seen)[0] - 1).get_by_text(word, exact=True).click()
        until(lambda step=step: steps.evaluate_all(seen) == [step], SLOW, f"step {step}")
    drawing.get_by_text("all steps").click()
    until(lambda: steps.evaluate_all(seen) == [*range(1, steps.count() + 1)], SLOW, "all of them")


def test_example_an_exception_in_a_worker_appears_in_the_view(visit):
    visit.run_new_cell(FAILS)
    dashboard = visit.page.locator(".headrace-dashboard").last
    alert = dashboard.get_by_role("alert").filter(has_text="The run failed")
    alert.wait_for()
    assert "divide" in alert.inner_text()
    assert "by zero" in alert.inner_text()
    until(lambda: "failed" in dashboard.locator(".headrace-state").inner_text(), SLOW, "the state is failed")
    assert "✖ Ended by an error" in dashboard.locator(".headrace-badge").inner_text()
    dashboard.screenshot(path=lab.SHOTS / "failed-run-1600.png")
    assert visit.kernel.ask("run.state") == "running", "the other run goes on"


def test_example_closing_the_page_stops_the_run(visit):
    assert visit.kernel.ask("run.state") == "running"
    visit.kernel.run("dashboard.watchdog.after_s = 8")
    visit.page.close()
    until(lambda: visit.kernel.ask("run.state") == "stopped", SLOW, "nobody looks, nothing runs")


def test_example_no_error_and_no_request_outside(visit):
    assert visit.problems == []
    assert visit.outside == []
