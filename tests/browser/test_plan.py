"""Method: the dashboard of a program in a real JupyterLab: the tree of its plan, in each layout at three widths, dark and
light, and another plan that is chosen from the page.

Everything that can be read must be whole, inside, and not covered (`layout`). Pictures are kept in build/screenshots.
What this cannot see: other browsers and fonts, and whether it looks well: look at the pictures.
"""

from __future__ import annotations

import pytest

from browser import lab
from browser.lab import SLOW, until
from browser.layout import SMALLEST, problems

pytestmark = pytest.mark.skipif(lab.chromium() is None, reason=lab.GET_ONE)

NOTEBOOK = "program.ipynb"
PROGRAM = """\
import numpy as np
import pyarrow as pa
import headrace as hr
from headrace_widgets import Dashboard

def add(state, e, emit):
    state.sum += e.x

def close(state, e, emit):
    emit(sum=state.sum)
    state.sum = 0

def split(state, left, right, tags_left, tags_right):
    if "barrier" in tags_right:
        right.sum = state.sum
    else:
        left.sum = state.sum

def merge(into, other):
    into.sum += other.sum

window = hr.program(
    tags={"value": {"x": "int64"}, "barrier": {}}, depends=[("barrier", "barrier"), ("barrier", "value")],
    state={"sum": "int64"}, emits={"sum": "int64"}, update={"value": add, "barrier": close}, fork=split, join=merge)
span = 1_800_000  # ms of stream, as long in real time
values = [pa.table({"ts": np.arange(span // 2) * 2, "x": np.ones(span // 2, np.int64)}) for _ in range(4)]
barriers = pa.table({"ts": np.arange(50, span, 50)})
"""
START = """\
run = window.start({"value": values, "barrier": barriers}, leaves=4, threads=2, max_threads=4, rate=hr.rates.recorded())
dashboard = Dashboard(run)
dashboard
"""
BOXES = """(tree) => Object.fromEntries([...tree.querySelectorAll('.headrace-node-plan')].map(
    (box) => [box.dataset.key.slice(5), [...box.querySelectorAll('text')].map((text) => text.textContent)]))"""
OUT_OF_ITS_BOX = """(tree) => [...tree.querySelectorAll('.headrace-node-plan')].flatMap((box) => {
    const around = box.querySelector('.headrace-box').getBoundingClientRect();
    return [...box.querySelectorAll('text')].filter((text) => {
        const own = text.getBoundingClientRect();
        return own.left < around.left || own.right > around.right || own.bottom > around.bottom + 1;
    }).map((text) => text.textContent);
})"""


@pytest.fixture(scope="module")
def visit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    (folder / NOTEBOOK).write_text(lab.notebook_of([PROGRAM, START]))
    with lab.opened(folder, NOTEBOOK, 20) as visit:
        yield visit


def boxes(visit):
    return visit.dashboard.locator(".headrace-tree").evaluate(BOXES)


def test_example_the_tree_is_drawn_and_moves(visit):
    until(lambda: len(boxes(visit)) == 7, SLOW, "four leaves and three nodes")
    until(lambda: any("/s" in line for line in boxes(visit).get("leaf 0", ())), SLOW, "a rate")
    until(lambda: boxes(visit).get("leaf 0", ())[:2] == ["leaf 0", "value (stream 0)"], SLOW, "its name and its tags")
    first = boxes(visit)
    until(lambda: boxes(visit) != first, SLOW, "other figures")


@pytest.mark.parametrize(("layout", "theme"), [("full", "Light"), ("full", "Dark"), ("compact", "Light"), ("present", "Light")])
def test_example_nothing_is_cut_off_outside_or_covered(visit, layout, theme):
    if theme == "Dark":
        visit.menu("Settings", "Theme", "JupyterLab Dark")
    visit.arrange(layout)
    try:
        for width in (1_600, 1_000, 700):
            visit.resize(width)
            visit.shot(f"plan-{theme.lower()}-{layout}-{width}")
            assert problems(visit, 15) == (), f"{width} px"
            tree = visit.dashboard.locator(".headrace-tree")
            assert tree.is_visible(), f"{width} px"
            until(lambda tree=tree: tree.evaluate(OUT_OF_ITS_BOX) == [], SLOW, f"words fit into their boxes, {width} px")
            if (layout, width) == ("present", 1_600):
                until(lambda tree=tree: tree.evaluate(SMALLEST) >= 18, SLOW, "words are large")
                until(lambda: visit.dashboard.locator(".headrace-panel").count() == 2, SLOW, "two panels")
            if layout == "present":
                visible = visit.dashboard.locator(".headrace-panel:visible")
                until(lambda visible=visible, n=2 * (width == 1_600): visible.count() == n, SLOW, f"the tree's plots, {width} px")
    finally:
        visit.arrange("full")
        visit.resize(1_600)
        if theme == "Dark":
            visit.menu("Settings", "Theme", "JupyterLab Light")


def test_example_it_fits_a_screen(visit):
    """Presented, of 1,000 px, of which JupyterLab takes its own share: the tree is whole, with words that can be read."""
    visit.arrange("present")
    for width in (1_600, 1_000):
        visit.fit(width)
        until(lambda: visit.dashboard.locator(".headrace-tree").evaluate(SMALLEST) >= 18, SLOW, f"words are large, {width} px")
    visit.arrange("full")
    visit.resize(1_600)


def test_example_event_times_are_played_at_no_rate(visit):
    """So the legend has no name for a line that is not there, and the words say why."""
    legend = visit.dashboard.locator("[data-panel=throughput] .headrace-legend")
    until(lambda: legend.inner_text().split() == ["input", "processed"], SLOW, "no rate is named")
    until(lambda: "as recorded" in visit.panel_texts()["throughput"], SLOW, "as recorded")


def test_example_another_plan_is_chosen_from_the_page(visit):
    choice = visit.dashboard.get_by_label("Plan", exact=True)
    choice.select_option("chain")
    until(lambda: visit.kernel.ask("run['program'].plan.word") == "4 leaves (chain)", SLOW, "the plan is in force")
    until(lambda: "run.reconfigure(plan='chain')" in visit.words(), SLOW, "the line of Python")
    until(lambda: "4 leaves (chain) in force" in visit.words(), SLOW, "the tree follows")
    visit.shot("plan-chain")
    assert visit.problems == [] and visit.outside == []
