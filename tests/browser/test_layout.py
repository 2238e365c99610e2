"""Method: the dashboard in a real JupyterLab, at three widths, dark and light, in each layout, after changes close together.

Everything that can be read or used must be whole, inside, and not covered; `layout` says how that is found. It finds what
is planted: a test that nothing can fail shows nothing. The tests are one visit, in the order of the file. Pictures are kept
in build/screenshots.

What this cannot see: other browsers and fonts, curves inside the plots, and whether it looks well: look at the
pictures.
"""

from __future__ import annotations

import re
import shutil

import pytest

from browser import lab
from browser.lab import ROOT, SLOW, until
from browser.layout import problems

pytestmark = pytest.mark.skipif(lab.chromium() is None, reason=lab.GET_ONE)

NOTEBOOK = "alone.ipynb"
WIDTHS = (1600, 1000, 700)
HEIGHT = 1_000


@pytest.fixture(scope="module")
def visit(tmp_path_factory):
    """The page, after four changes of which three are close together, with a draft and with unfolded parameters."""
    folder = tmp_path_factory.mktemp("layout")
    shutil.copy(ROOT / "widgets" / "headrace_widgets" / NOTEBOOK, folder)
    with lab.opened(folder, NOTEBOOK, 40) as visit:
        try:
            # Labels of changes would go out of sight after a minute, which is not long on a machine that has much to do.
            visit.dashboard.get_by_label("Show", exact=True).select_option("all")
            until(lambda: visit.kernel.ask("dashboard.view.span_s is None"), SLOW, "all of the time is shown")
            for threads in (2, 3, 4):
                visit.kernel.run(f"run.reconfigure(threads={threads}).wait()")
            seconds = visit.last("t")
            until(lambda: visit.last("t") > seconds + 4, SLOW, "some seconds later")
            visit.kernel.run("run.reconfigure(threads=2).wait()")
            visit.click_once(visit.button("Balance"))
            visit.dashboard.get_by_text(re.compile("Predicted: imbalance")).wait_for()
            visit.dashboard.get_by_text("Parameters").click()
            visit.dashboard.locator(".headrace-fields").wait_for()
            yield visit
        except BaseException:
            visit.keep_failure()
            raise


def lay_out(visit, layout, width):
    if visit.kernel.ask("dashboard.layouts.value") != layout:
        visit.arrange(layout)
    visit.page.set_viewport_size({"width": width, "height": HEIGHT})
    visit.page.evaluate("() => document.querySelector('.headrace-dashboard').scrollIntoView()")
    visit.stable(lambda: visit.dashboard.bounding_box())


PLANTS = {
    "a button that is too small for its word": ("cut off: button", """(d) => {
        const one = [...d.querySelectorAll('button')].find((b) => b.textContent === 'Stop run');
        one.style.width = '30px'; return () => one.style.width = 'auto'; }"""),
    "a control over another": ("one over the other", """(d) => {
        const one = d.querySelector('.headrace-rate'); one.style.marginLeft = '-120px';
        return () => one.style.marginLeft = ''; }"""),
    "a label of a change over an axis": ("label of a change over an axis", """(d) => {
        const one = document.createElement('style'); one.textContent = '.headrace-events span { margin-left: -300px; }';
        d.append(one); return () => one.remove(); }"""),
    "a label of a change at the edge": ("outside its panel: span", """(d) => {
        const all = d.querySelectorAll('.headrace-events');
        for (const one of all) { const extra = document.createElement('span'); extra.textContent = '12→13';
            extra.style.transform = 'translateX(-12px)'; extra.className = 'planted'; one.append(extra); }
        return () => d.querySelectorAll('.planted').forEach((one) => one.remove()); }"""),
    "lines that are too long for their boxes": ("outside its box", """(d) => {
        const one = document.createElement('style'); one.textContent = '.headrace-graph-small { font-size: 24px !important; }';
        d.append(one); return () => one.remove(); }"""),
    "an axis label that is too long": ("axis label cut off", """(d) => {
        const axis = Bokeh.index.roots.find((v) => v.model.left?.[0]?.axis_label === 'std / mean (%)').model.left[0];
        const before = axis.axis_label; axis.axis_label = 'coefficient of variation of the load of the threads (%)';
        return () => axis.axis_label = before; }"""),
    "ticks too close together": ("ticks over each other in the plot of load", """(d) => {
        const axis = Bokeh.index.roots.find((v) => v.model.left?.[0]?.axis_label === 'updates/s').model.left[0];
        axis.ticker.desired_num_ticks = 40; return () => axis.ticker.desired_num_ticks = 6; }"""),
    "seconds too close together": ("names of ticks over each other in the plot of load", """(d) => {
        const axis = Bokeh.index.roots.find((v) => v.model.left?.[0]?.axis_label === 'updates/s').model.below[0];
        axis.ticker.desired_num_ticks = 40; return () => axis.ticker.desired_num_ticks = 6; }"""),
    "a panel wider than the page": ("outside the dashboard", """(d) => {
        const one = d.querySelector('.headrace-mapping-panel'); one.style.marginLeft = '60px'; one.style.width = '100%';
        return () => one.style.marginLeft = one.style.width = ''; }"""),
}  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
def test_example_a_planted_flaw_is_found(visit, plant):
    lay_out(visit, "full", 1_600)
    assert problems(visit) == ()
    visit.kernel.run("dashboard.pause()")  # a frame would mend the labels
    wanted, script = PLANTS[plant]
    visit.dashboard.evaluate(f"(d) => {{ window.mend = ({script})(d); }}")
    try:
        assert any(wanted in one for one in problems(visit, settled_s=0))
    finally:
        visit.page.evaluate("() => { window.mend(); }")
        visit.kernel.run("dashboard.go_on()")


@pytest.mark.parametrize(
    ("layout", "theme"),
    [
        ("full", "Light"),
        ("full", "Dark"),
        ("compact", "Light"),
        ("present", "Light"),
        *(pytest.param(layout, "Dark", marks=pytest.mark.campaign) for layout in ("compact", "present")),
    ],
)
def test_example_nothing_is_cut_off_outside_or_covered(visit, theme, layout):
    visit.page.set_viewport_size({"width": 1_600, "height": HEIGHT})
    if theme == "Dark":
        visit.menu("Settings", "Theme", "JupyterLab Dark")
    try:
        for width in WIDTHS:
            lay_out(visit, layout, width)
            visit.page.screenshot(path=lab.SHOTS / f"{theme.lower()}-{layout}-{width}.png")
            assert problems(visit) == (), f"{width} px"
            assert visit.dashboard.locator(".headrace-rate").get_by_text("tuples/s").is_visible(), f"the rate's unit, {width} px"
            changes = visit.dashboard.locator(".headrace-scroll")
            if layout == "full":
                assert changes.evaluate("(e) => e.scrollWidth <= e.clientWidth + 1"), f"the table of changes fits, {width} px"
    finally:
        visit.page.set_viewport_size({"width": 1_600, "height": HEIGHT})
        if theme == "Dark":
            visit.menu("Settings", "Theme", "JupyterLab Light")


@pytest.mark.parametrize("layout", ["compact", "present"])
def test_example_it_fits_a_screen(visit, layout):
    """Of 1,000 px, of which JupyterLab takes its own share."""
    for width in (1_600, 1_000):
        lay_out(visit, layout, width)
        until(lambda: (visit.edge("height") or lab.HEIGHT) <= visit.page.evaluate(lab.BESIDE), SLOW, f"it fits, {width} px")
    shown = {key for key in visit.panel_texts() if visit.dashboard.locator(f"[data-panel={key}]").is_visible()}
    assert {"threads", "load"} <= shown
    assert len(shown - {"mapping"}) == 4 and ("mapping" in shown) == (layout == "compact")


EDGES = """(d) => {
    const found = [];
    const walk = (node) => node.querySelectorAll('*').forEach((one) => {
        if (one.shadowRoot) walk(one.shadowRoot);
        if (one.tagName !== 'CANVAS' || !one.width || !one.checkVisibility()) return;
        const [pen, { width, height }] = [one.getContext('2d'), one];
        const shown = ([w, h]) => pen.getImageData(0, 0, w, h).data.some((value, i) => i % 4 === 3 && value > 0);
        found.push([[width, 1], [1, height]].some(shown));
    });
    d.querySelectorAll('.headrace-plot').forEach(walk);
    return found;
}"""


def test_example_nothing_stays_of_what_an_earlier_layout_drew(visit):
    """Bokeh clears neither the first row nor the first column of a canvas; words of a layout that is being left reach them.

    Also where no frame comes, as in a run that is over.
    """
    visit.kernel.run("dashboard.pause()")
    for layout, width in (("present", 1_600), ("compact", 1_600), ("full", 1_600), ("full", 1_000)):
        lay_out(visit, layout, width)
    until(lambda: len(visit.dashboard.evaluate(EDGES)) >= 4, SLOW, "plots")
    until(lambda: not any(visit.dashboard.evaluate(EDGES)), SLOW, "the first rows and columns are empty")
    visit.kernel.run("dashboard.go_on()")


def test_example_presented_lines_begin_at_one_edge(visit):
    """What the layout leaves out takes no room, either."""
    lay_out(visit, "present", 1_600)
    left = lambda part: lab.measure(visit.dashboard.locator(part).first, "x")  # noqa: E731
    until(lambda: abs(left(".headrace-chip") - left(".headrace-state")) < 5, SLOW, "lag and state, one below the other")


def test_example_presented_words_are_large(visit):
    lay_out(visit, "present", 1_600)
    sizes = """(d) => [...d.querySelectorAll('*')]
        .filter((e) => e.checkVisibility() && !e.closest('.headrace-plot > :not(.headrace-events)'))
        .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
        .map((e) => [parseFloat(getComputedStyle(e).fontSize), e.textContent.slice(0, 30)])"""

    def are_large():
        found = visit.dashboard.evaluate(sizes)
        return len(found) > 15 and all(size >= 18 for size, _ in found)

    until(are_large, SLOW, "all words are large")
    fonts = """(models) => [...models.series.document._all_models.values()]
        .filter((m) => m.type?.endsWith('Axis'))
        .flatMap((m) => [m.axis_label_text_font_size, m.major_label_text_font_size])"""
    until(lambda: set(visit.bokeh(fonts) or ()) == {"18px"}, SLOW, "and those of plots")
    visit.arrange("full")
    until(lambda: set(visit.bokeh(fonts) or ()) == {"11px"}, SLOW, "as before")


def test_example_no_error_in_the_browser(visit):
    assert visit.problems == []
    assert visit.outside == []
