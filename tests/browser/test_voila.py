"""Method: `make dashboard`'s own command serves the dashboard, on another port; a real Chromium looks at it.

What the page shows is read from BokehJS's models. No request leaves the machine: what Voila's own page asks for, a style
sheet and MathJax, the page's policy refuses, and it does without.
What this cannot see: the controls, which are the same widgets as in JupyterLab; test_dashboard uses them there.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from browser import lab
from browser.lab import ROOT, SLOW, until
from browser.layout import problems

INK = """(models) => [...models.series.document._all_models.values()]
    .filter((m) => m.type?.endsWith('Axis')).map((m) => m.axis_label_text_color)"""
BRIGHT = """(colours) => colours.map((colour) => {
    const pen = document.createElement('canvas').getContext('2d');
    pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return a ? (r + g + b) / 765 : null;
})"""
ARROWS = """() => [...document.querySelectorAll('.headrace-dashboard select')].map((one) => getComputedStyle(one))
    .map((style) => style.appearance === 'none' && style.backgroundImage.includes(style.color) ? style.color : 'magenta')"""
PAPER = """() => ['body', '.headrace-dashboard', '.headrace-panel'].map((one) =>
    getComputedStyle(document.querySelector(one)).backgroundColor)"""
PLACES = """(d) => Object.fromEntries([...d.querySelectorAll('.headrace-panel, button, .headrace-rate')].flatMap((one) => {
    const { x, y, width, height } = one.getBoundingClientRect();
    const name = one.dataset.panel ?? (one.matches('button') ? one.textContent : 'rate');
    return one.checkVisibility() ? [[name, [x, y + window.scrollY, width, height].map(Math.round)]] : [];
}))"""
EMPTY = """() => window.innerHeight - window.scrollY
    - document.querySelector('.headrace-dashboard').getBoundingClientRect().bottom"""
HIGH = 1_000
REFUSED = ("/@fortawesome/fontawesome-free@", "/libs/mathjax/")

pytestmark = pytest.mark.skipif(lab.chromium() is None, reason=lab.GET_ONE)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Address and folder of a dashboard that is dark unless an address asks for something else."""
    folder = tmp_path_factory.mktemp("alone")
    notebook = shutil.copy(ROOT / "widgets" / "headrace_widgets" / "alone.ipynb", folder)
    with lab.dashboard_alone(folder, Path(notebook).name, "--dark") as address:
        yield address, folder


def colours_are(visit, papers, inks):
    """Look at what the page and its plots are drawn with: how bright, from 0 to 1."""
    found = ((papers, PAPER, 3), (inks, ARROWS, 2))
    seen = [(limits, visit.page.evaluate(script), least) for limits, script, least in found] + [(inks, visit.bokeh(INK), 3)]
    for (low, high), colours, least in seen:
        assert len(colours) >= least
        assert all(low <= bright <= high for bright in visit.page.evaluate(BRIGHT, colours)), colours


def places(visit):
    """Where plots and buttons are: left, top, width and height, by name."""
    return visit.stable(lambda: visit.dashboard.evaluate(PLACES))


def opened_on_a_busy_page(visit, address):
    """Open it, with modules of widgets late: what the kernel sent meanwhile is shown, and what comes later, too."""
    with visit.modules_held():
        visit.page.goto(address, timeout=3 * SLOW * 1_000)
        visit.dashboard.wait_for(timeout=3 * SLOW * 1_000)
        visit.arrange("compact")
    visit.until_rows(5, 3 * SLOW)
    panels = visit.dashboard.locator(".headrace-panel:visible")
    until(lambda: panels.count() == 5, SLOW, "plots of the layout that was chosen meanwhile")
    visit.arrange("full")
    until(lambda: panels.count() > 5, SLOW, "and of the next")
    until(lambda: visit.dashboard.locator(".headrace-graph .headrace-node").count() > 1, SLOW, "the graph is drawn")
    assert visit.dashboard.locator(".headrace-connection").inner_text() == ""


def test_example_the_dashboard_alone(served):
    address, folder = served
    with lab.visiting(address, folder) as visit:
        opened_on_a_busy_page(visit, address + "&theme=light")
        colours_are(visit, (0.9, 1), (0, 0.3))
        before = visit.last("t")
        until(lambda: visit.last("t") > before + 2, SLOW, "the plots go on")
        assert {"throughput", "lag", "latency", "threads", "load", "mapping"} <= set(visit.panel_texts())
        until(lambda: "lag" in places(visit), SLOW, "the lag is known")
        before = places(visit)
        visit.click_once(visit.button("Burst 3×"))
        until(lambda: "back-pressure" in visit.dashboard.locator(".headrace-notes").inner_text(), SLOW, "one thread has too much")
        assert places(visit) == before, "the first burst moves something under the mouse"
        visit.click_once(visit.button("+"))
        until(lambda: visit.last("threads") == 2, SLOW, "one thread more")
        until(lambda: "imbalance" in places(visit), SLOW, "there is something more to be seen")
        assert before.items() <= places(visit).items(), "the first change moves something under the mouse"
        until(lambda: "Nothing lost, order kept" in visit.dashboard.inner_text(), SLOW, "the books balance")
        letters = visit.dashboard.locator(".headrace-code").evaluate("(e) => getComputedStyle(e).fontFamily")
        assert "monospace" in letters, "lines of Python are written as code"
        shown = visit.page.locator("body").inner_text()
        assert "Exercises" not in shown and "import headrace" not in shown, "more than the dashboard is shown"
        visit.shot("voila-1600")
        visit.arrange("compact")
        for width in (1_600, 1_000):
            visit.page.set_viewport_size({"width": width, "height": HIGH})
            until(lambda: 0 <= visit.page.evaluate(EMPTY) < HIGH / 10, SLOW, f"compact fills the window, {width} px")
            assert problems(visit) == ()
            visit.page.screenshot(path=lab.SHOTS / f"voila-compact-{width}.png")
    assert visit.outside == []
    assert [problem for problem in visit.problems if not any(part in problem for part in REFUSED)] == []


def test_example_the_page_and_its_plots_are_dark_where_that_was_asked_for(served):
    address, folder = served
    with lab.visiting(address, folder) as visit:
        visit.page.goto(address, timeout=3 * SLOW * 1_000)
        visit.until_rows(5, 3 * SLOW)
        colours_are(visit, (0, 0.25), (0.75, 1))
