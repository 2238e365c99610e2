"""Method: the dashboards of transactions and of an ordered pipeline in a real JupyterLab, in each layout, at three widths.

They have controls, measures and boxes of the picture that the elastic engine's dashboard does not have. As in
`test_layout`, which also shows that what is planted is found: all that can be read or used must be whole, inside and not
covered. Pictures are kept in build/screenshots.

What this cannot see: as there.
"""

from __future__ import annotations

import pytest

from browser import lab
from browser.layout import SMALLEST, problems

pytestmark = pytest.mark.skipif(lab.chromium() is None, reason=lab.GET_ONE)

ROWS = """
import itertools
import numpy as np, pyarrow as pa
import headrace as hr
from headrace_widgets import Dashboard

def without_end():
    for first in itertools.count(0, 1_000):
        number = np.arange(first, first + 1_000)
        yield pa.record_batch({"ts": number, "key": number % 97, "other": number % 89, "amount": number % 7})

def rows():
    batches = without_end()
    return pa.RecordBatchReader.from_batches(next(batches).schema, batches)
"""
LEDGER = """
accounts = hr.table("accounts", columns={"balance": "int64"}, rows=100, first={"balance": 1_000}, conserve="balance")

def transfer(e, t):
    if accounts[e.key].balance < e.amount:
        t.reject()
    accounts[e.key].balance -= e.amount
    accounts[e.other].balance += e.amount

ledger = hr.stream(rows(), event_time="ts").transact(transfer)
run = ledger.start(threads=2, max_threads=4, rate=100_000, sink=hr.discard())
dashboard = Dashboard(run)
"""
PIPELINE = """
def is_large_enough(t):
    return t.amount > 0

def summed(state, t, emit):
    state.sum += t.amount
    emit(key=t.key, sum=state.sum)

def greatest(state, t, emit):
    if t.sum > state.greatest:
        state.greatest = t.sum
        emit(sum=t.sum)

pipeline = (
    hr.stream(rows(), event_time="ts").ordered().filter(is_large_enough)
    .partitioned(summed, by="key", state={"sum": "int64"}, emits={"key": "int64", "sum": "int64"})
    .stateful(greatest, state={"greatest": "int64"}, emits={"sum": "int64"})
)
run = pipeline.start(threads=2, max_threads=4, rate=20_000, sink=hr.discard())
dashboard = Dashboard(run)
"""
CELLS = {"ledger": LEDGER, "pipeline": PIPELINE}


@pytest.fixture(scope="module", params=CELLS)
def visit(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "engine.ipynb").write_text(lab.notebook_of([ROWS, CELLS[request.param]]))
    with lab.opened(folder, "engine.ipynb", 20) as visit:
        visit.engine = request.param
        for threads in (3, 2):  # early in the run: seconds that other axes have places for, too
            visit.kernel.run(f"run.reconfigure(threads={threads}).wait(60)")
        lab.until(lambda: visit.dashboard.locator(".headrace-events span").count(), lab.SLOW, "labels of changes")
        yield visit


@pytest.mark.parametrize("layout", ["full", pytest.param("compact", marks=pytest.mark.campaign), "present"])
def test_example_nothing_is_cut_off_outside_or_covered(visit, layout):
    visit.arrange(layout)
    for width in (1_600, 1_000, 700):
        visit.page.set_viewport_size({"width": width, "height": 1_000})
        visit.page.evaluate("() => document.querySelector('.headrace-dashboard').scrollIntoView()")
        visit.stable(lambda: visit.dashboard.bounding_box())
        visit.page.screenshot(path=lab.SHOTS / f"{visit.engine}-{layout}-{width}.png")
        assert problems(visit) == (), f"{width} px"
        assert visit.dashboard.locator(".headrace-rate").get_by_text("tuples/s").is_visible(), f"the rate's unit, {width} px"


def test_example_words_of_the_picture_can_be_read(visit):
    """A row of many boxes goes on below before its words are small."""
    visit.arrange("full")
    picture = visit.dashboard.locator(".headrace-graph").first
    for width in (1_600, 1_000, 700):
        visit.resize(width)
        lab.until(lambda: picture.evaluate(SMALLEST) >= 9.5, lab.SLOW, f"large enough, {width} px")


def test_example_the_slider_of_the_rate_can_be_moved(visit):
    """Beside a field, a unit and a button, with as many controls in a row as there is room for."""
    for layout in ("full", "compact"):
        visit.arrange(layout)
        visit.resize(1_600)
        slider = visit.dashboard.locator(".headrace-rate .noUi-target")
        lab.until(lambda slider=slider: lab.measure(slider, "width") >= 80, lab.SLOW, f"{layout}: wide enough")


def test_example_it_fits_a_screen(visit):
    """Presented, of 1,000 px, of which JupyterLab takes its own share."""
    visit.arrange("present")
    for width in (1_600, 1_000):
        visit.fit(width)
        slider = visit.dashboard.locator(".headrace-rate .noUi-target")
        assert lab.measure(slider, "width") >= 60, f"the slider of the rate can be moved, {width} px"


CHOICES = {"ledger": ("Scheme", "lock"), "pipeline": ("Schedule", "lp")}


def test_example_a_choice_from_the_page_is_in_force(visit):
    visit.arrange("full")
    visit.resize(1_600)
    name, value = CHOICES[visit.engine]
    visit.dashboard.get_by_label(name, exact=True).select_option(value)
    done = f"run.changes[-1].outcome == 'done' and run.changes[-1].after.get({name.lower()!r}) == {value!r}"
    lab.until(lambda: visit.kernel.ask(done), lab.SLOW, "it is in force")
    line = f"run.reconfigure({name.lower()}={value!r})"
    lab.until(lambda: line in visit.words(), lab.SLOW, "the line of Python")


TWO_SETTINGS = {"ledger": "scheme='mvlk', punctuation=5_000", "pipeline": "schedule='qst', batch=1"}


def test_example_the_table_of_changes_fits(visit):
    """No column is out of sight, also where one change is of two settings."""
    visit.kernel.run(f"run.reconfigure({TWO_SETTINGS[visit.engine]}).wait(60)")
    table = visit.dashboard.locator(".headrace-changes .headrace-scroll")
    second = TWO_SETTINGS[visit.engine].split()[-1].partition("=")[0]
    lab.until(lambda: f", {second}" in table.inner_text(), lab.SLOW, "the change is listed")
    fits = "(e) => e.scrollWidth <= e.clientWidth + 1"
    for width in (1_400, 1_200):
        visit.resize(width)
        lab.until(lambda: table.evaluate(fits), lab.SLOW, f"the table of changes fits, {width} px")


def test_example_no_error_in_the_browser(visit):
    assert visit.problems == []
    assert visit.outside == []
