"""Method: a dashboard in a real JupyterLab whose kernel is made busy, stopped, and asked for a page that is not there.

Widgets have no second way into the kernel here (JupyterLab's setting is off), as in other places that show notebooks: a click
waits for the cell that runs. The test decides when that cell ends. What is waited for is what the page says.
What this cannot see: other browsers; a connection that is lost on the way.
"""

from __future__ import annotations

import os
import signal

import pytest

from browser import lab
from browser.lab import SLOW, until
from browser.layout import problems

pytestmark = pytest.mark.skipif(lab.chromium() is None, reason=lab.GET_ONE)

NOTEBOOK = "connection.ipynb"
ONE_WAY = {"apputils-extension/kernels-settings": {"commsOverSubshells": "disabled"}}
CELLS = (
    """\
import itertools, os, time
import pyarrow as pa
import headrace as hr
from headrace_widgets import Dashboard

def endless():
    for i in itertools.count():
        yield pa.record_batch({"ts": range(500 * i, 500 * (i + 1))})
""",
    """\
counts = hr.stream(endless(), event_time="ts").window(1_000).aggregate(n=hr.count())
run = counts.start(max_threads=2, rate=500, sink=hr.discard())
dashboard = Dashboard(run)
""",
)
BUSY = "while not os.path.exists('go'): time.sleep(0.05)"
WAITS, SILENT = "Waiting for the kernel", "Nothing comes from the kernel"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def visit(folder):
    (folder / NOTEBOOK).write_text(lab.notebook_of(CELLS))
    with lab.opened(folder, NOTEBOOK, 10, ONE_WAY) as visit:
        yield visit


def said(visit):
    return visit.dashboard.locator(".headrace-connection").inner_text()


def test_example_a_kernel_that_listens_has_nothing_said_of_it(visit):
    asked = until(lambda: visit.kernel.ask("dashboard.connection.seen_at"), SLOW, "the page asks")
    until(lambda: visit.kernel.ask("dashboard.connection.seen_at") > asked + 2, SLOW, "the page asks again")
    until(lambda: said(visit) == "", SLOW, "nothing is said")


def test_example_a_click_waits_for_a_cell_and_the_page_says_so(visit, folder):
    visit.run_new_cell(BUSY)
    until(lambda: visit.page.locator(".jp-InputPrompt", has_text="[*]").count(), SLOW, "the cell runs")
    visit.click_once(visit.button("+"))
    until(lambda: WAITS in said(visit), SLOW, "the page says that the kernel is busy")
    visit.shot("waiting-1600")
    at = visit.last("t")
    until(lambda: visit.last("t") > at + 2, SLOW, "the plots go on")
    assert visit.last("threads") == 1 and WAITS in said(visit)
    (folder / "go").touch()
    until(lambda: visit.last("threads") == 2, SLOW, "what was clicked takes effect")
    until(lambda: said(visit) == "", SLOW, "nobody waits any more")


def test_example_a_kernel_that_says_nothing_at_all(visit):
    process = visit.kernel.ask("os.getpid()")
    os.kill(process, signal.SIGSTOP)
    try:
        until(lambda: SILENT in said(visit), SLOW, "the page says that nothing comes")
        assert "dashboard in a new cell" in said(visit)
        visit.shot("silent-1600")
    finally:
        os.kill(process, signal.SIGCONT)
    until(lambda: said(visit) == "", SLOW, "the kernel is there again")


def test_example_a_page_that_is_busy_while_it_is_loaded_again(visit):
    """Modules of widgets are late, and anywidget gives up waiting for them: what the kernel sends must arrive all the same."""
    threads = visit.kernel.ask("run.threads")
    visit.leave(NOTEBOOK)
    with visit.modules_held():
        visit.open(NOTEBOOK)
    visit.until_rows(5, SLOW)
    visit.kernel.run(f"run.reconfigure(threads={3 - threads}).wait(60)")
    until(lambda: visit.last("threads") == 3 - threads, SLOW, "what happened since")
    visit.arrange("present")
    panels = visit.dashboard.locator(".headrace-panel:visible")
    until(lambda: panels.count() == 4, SLOW, "the layout that was chosen since")
    visit.arrange("full")
    until(lambda: panels.count() > 4, SLOW, "and the one before")
    until(lambda: said(visit) == "", SLOW, "the kernel is heard")


def test_example_a_dashboard_that_is_not_on_the_page_any_more(visit):
    """The cell is run again after the notebook was saved: the file still names the dashboard before."""
    lost = visit.page.locator(".headrace-lost")
    assert not lost.is_visible()
    visit.menu("File", "Save Notebook")
    visit.page.locator(f".jp-mod-dirty:has-text('{NOTEBOOK[:10]}')").wait_for(state="detached")
    visit.kernel.run("first = dashboard")
    cell = visit.page.locator(".jp-CodeCell").filter(has_text="dashboard = Dashboard(run)").last
    cell.locator(".cm-content").click()
    visit.page.keyboard.press("Control+Enter")
    until(lambda: visit.kernel.ask("dashboard is not first"), SLOW, "another dashboard")
    visit.page.goto("about:blank")
    visit.open(NOTEBOOK)
    lost.wait_for()
    assert "dashboard in a new cell shows it" in lost.inner_text() and visit.dashboard.count() == 0
    visit.page.screenshot(path=lab.SHOTS / "lost-1600.png")
    visit.run_new_cell("dashboard")
    visit.dashboard.wait_for()
    visit.until_rows(5, SLOW)
    until(lambda: lost.count() == 2 and not lost.last.is_visible(), SLOW, "the new one is not lost")


SIGNS = """(dashboard) => {
    const all = [dashboard, ...dashboard.querySelectorAll('*')].filter((one) => one.matches('.jupyter-widgets-disconnected'));
    return [all.length, all.filter((one) => getComputedStyle(one, '::before').display !== 'none').length];
}"""
"""How many parts JupyterLab holds to be disconnected, and at how many it draws its sign."""


def test_example_a_kernel_that_is_started_anew(visit):
    """It knows nothing of the dashboard, which says so in one line, and keeps its looks."""
    width = visit.edge("width")
    visit.forget_kernel()
    visit.menu("Kernel", "Restart Kernel…")
    visit.page.locator(".jp-Dialog .jp-mod-accept").click()
    until(lambda: SILENT in said(visit), SLOW, "the page says that nothing comes")
    assert "run the notebook's cells again" in said(visit)
    parts, signs = until(lambda: (found := visit.dashboard.evaluate(SIGNS))[0] > 20 and found, SLOW, "its parts are disconnected")
    assert signs == 0, f"of {parts}"
    assert visit.edge("width") == width and problems(visit) == ()
    visit.shot("restarted-1600")


def test_example_no_error_and_no_request_outside(visit):
    assert [problem for problem in visit.problems if "widget model not found" not in problem.lower()] == []
    assert visit.outside == []
