"""A real JupyterLab or page of the dashboard alone, and a real Chromium, for a test, on loopback only."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, TimeoutError, sync_playwright

import open_ports
from browser.kernel import Kernel

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "build" / "screenshots"
START_S = 180
HEIGHT = 1300
NOTEBOOK = "30_elastic_reconfiguration.ipynb"
SMALL = {
    "rate": "1_666", "work": "300", "max_threads": "4", "plays": "False", "beside": "False", "most_keys": "2_000", "changes": "4",
}  # fmt: skip
"""The stream begins with 0.6 of the rate, about 1,000 posts a second."""
SLOW = 240
"""Seconds: a machine of two cores that compiles and draws at the same time."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
GET_ONE = (
    "no Chromium was found; Debian, Ubuntu: apt install chromium, or set HEADRACE_CHROMIUM=/path/to/chromium"
)
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-dev-shm-usage",
]  # fmt: skip
# No news, no update checks: the network is blocked, and what is blocked must not have been asked for.
QUIET = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": True},
}
Settings = Mapping[str, Mapping[str, Any]]
"""Of extensions of JupyterLab, by their names."""
NO_MORE: Settings = {}
TO_DASHBOARD = """() => {
    const dashboard = document.querySelector(".headrace-dashboard");
    if (dashboard) dashboard.scrollIntoView({block: "nearest"});
    else document.querySelector(".jp-NotebookPanel .jp-WindowedPanel-outer")?.scrollTo(0, 1e7);
}"""
"""Cells follow the dashboard's: the end of the notebook is not where it is."""
BESIDE = "() => document.querySelector('.jp-WindowedPanel-outer').clientHeight"
"""Of the window's height, what JupyterLab leaves to a notebook."""
HOLD = """() => {
    const make = URL.createObjectURL;
    const wait = "while (await window.headraceHolds()) await new Promise((done) => setTimeout(done, 100));\\n";
    URL.createObjectURL = (blob) => make(blob.type === "text/javascript" && !window.Bokeh && !window.headraceBokeh
        ? new Blob([wait, blob], { type: blob.type }) : blob);
}"""
"""Modules of widgets begin with a wait. BokehJS comes in the same way, but is no module; the first of them asks for it."""
LATE = "Failed to initialize model"
"""What anywidget says where a module was not loaded in two seconds, as on a busy page. It refuses the kernel's messages then,
and headrace's widgets expect none there (`headrace_widgets.page_model`)."""
_LOOPBACK = re.compile(
    r"^(https?|wss?)://(127\.0\.0\.1|localhost)(:\d+)?(/|$)|^(data|blob|about|devtools|chrome|file):"
)


def chromium() -> str | None:
    """Path of a Chromium; None where there is none."""
    asked = os.environ.get("HEADRACE_CHROMIUM")
    if asked:
        return asked
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def copy_small(notebook: str, folder: Path) -> None:
    """Put a notebook into a folder, with the parameters of `SMALL` in place of its own."""
    content = json.loads((ROOT / "notebooks" / notebook).read_text())
    (cell,) = [c for c in content["cells"] if "parameters" in c.get("metadata", {}).get("tags", ())]
    text = "".join(cell["source"])
    for name, value in SMALL.items():
        text, count = re.subn(rf"(?m)^{name} = \S+", f"{name} = {value}", text)
        assert count == 1, f"no parameter {name}"
    cell["source"] = text
    (folder / notebook).write_text(json.dumps(content))


def notebook_of(cells: Sequence[str]) -> str:
    """Cells of Python as a notebook's file has them."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = [
        {"cell_type": "code", "id": f"cell{i}", "metadata": {}, "execution_count": None, "outputs": [], "source": text}
        for i, text in enumerate(cells)
    ]
    return json.dumps({"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})


@contextmanager
def jupyter_lab(folder: Path, settings: Settings = NO_MORE) -> Iterator[str]:
    """Serve a folder; gives the address, token included. Settings and workspaces are the folder's own."""
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0",
        f"--ServerApp.root_dir={folder}", "--ServerApp.allow_root=True",
    ]  # fmt: skip
    with _serving(command, folder, settings) as server:
        yield until(lambda: _address(server, folder, "lab/tree/NOTEBOOK"), START_S)


@contextmanager
def dashboard_alone(folder: Path, notebook: str, *options: str) -> Iterator[str]:
    """Serve a notebook of a folder as `make dashboard` does, on a free port; gives the address, token included."""
    assert "$(BIN)/python -m headrace_widgets.serve $(ARGS)" in (ROOT / "Makefile").read_text()
    command = [sys.executable, "-m", "headrace_widgets.serve", str(folder / notebook), "--no-browser", "--port=0", *options]
    with _serving(command, folder) as server:
        yield until(lambda: _address(server, folder, f"voila/render/{notebook}"), START_S)


@contextmanager
def _serving(command: list[str], folder: Path, settings: Settings = NO_MORE) -> Iterator[subprocess.Popen]:
    """Run a server until the test is over."""
    state = folder / ".jupyter"
    for name, values in {**QUIET, **settings}.items():
        file = state / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    environ = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(state / "config"),
        "JUPYTERLAB_SETTINGS_DIR": str(state / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(state / "workspaces"),
        "JUPYTER_RUNTIME_DIR": str(state / "runtime"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    log = os.open(folder / "server.log", os.O_CREAT | os.O_WRONLY)
    server = subprocess.Popen(
        command, cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield server
    finally:
        _end(server)
        os.close(log)


def _check(server: subprocess.Popen, folder: Path) -> None:
    if server.poll() is not None:
        raise RuntimeError(f"the server ended at once:\n{(folder / 'server.log').read_text()[-3000:]}")


def _address(server: subprocess.Popen, folder: Path, page: str) -> str | None:
    _check(server, folder)
    for file in (folder / ".jupyter" / "runtime").glob("jpserver-*.json"):
        try:
            known = json.loads(file.read_text())
            urllib.request.urlopen(f"{known['url']}api/status?token={known['token']}", timeout=5).close()
        except (ValueError, OSError, urllib.error.URLError):
            return None
        return f"{known['url']}{page}?token={known['token']}"
    return None


def _end(server: subprocess.Popen) -> None:
    """Stop the server with its kernels, by their process numbers."""
    members = open_ports.family(server.pid)
    server.terminate()
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait(10)
    for process in members - {server.pid}:
        try:
            os.kill(process, 9)
        except (ProcessLookupError, PermissionError):
            continue


def until(condition: Callable[[], Any], seconds: float, what: str = "") -> Any:
    """Wait for a condition and return its value; say what was waited for if it does not come."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"still not so after {seconds} s: {what or condition}")
        time.sleep(0.1)


def soon(condition: Callable[[], Any]) -> bool:
    """Whether a condition holds within a moment, after which what was done for it is to be done again."""
    with suppress(AssertionError):
        return bool(until(condition, 2.0))
    return False


def measure(part: Any, which: str) -> float:
    """A measure of an element; waits in the moment in which the page is laid out anew, and it has none."""
    return until(part.bounding_box, SLOW, f"{part} is on the page")[which]


class Visit:
    """A notebook in JupyterLab, its dashboard, its kernel, and what went wrong in the browser meanwhile.

    Parameters
    ----------
    browser : Browser
    address : str
        Of the server, with the word NOTEBOOK in it.
    folder : Path
        What the server serves.
    shots : Path
        Where pictures go.
    """

    def __init__(self, browser: Any, address: str, folder: Path, shots: Path):
        self._address, self._folder, self._shots = address, folder, shots
        self.outside: list[str] = []
        self.late = 0
        """How many widgets had to wait too long for their modules."""
        self.problems: list[str] = []
        self._context = browser.new_context(viewport={"width": 1600, "height": HEIGHT})
        self._context.set_default_timeout(SLOW * 1_000)
        self._context.route(re.compile(".*"), self._let_loopback)
        self.page = self._new_page()
        self._kernel: Kernel | None = None

    def _new_page(self) -> Any:
        page = self._context.new_page()
        page.on("console", self._note)
        page.on("pageerror", lambda error: self._note_problem(f"uncaught: {error}"))
        page.on("dialog", lambda dialog: dialog.accept())
        return page

    def _let_loopback(self, route: Any) -> None:
        if _LOOPBACK.match(route.request.url):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def _note(self, message: Any) -> None:
        if message.type == "error":
            self._note_problem(f"{message.text} ({message.location.get('url', '')})")

    def _note_problem(self, problem: str) -> None:
        if LATE in problem:
            self.late += 1
        else:
            self.problems.append(problem)

    @contextmanager
    def modules_held(self) -> Iterator[None]:
        """Widgets on pages that are opened meanwhile get their modules only after it, and after anywidget gave up waiting."""
        holds = [True]
        self.page.expose_function("headraceHolds", lambda: bool(holds))
        self.page.add_init_script(f"({HOLD})()")
        late = self.late
        yield
        until(lambda: self.page.evaluate("1") and self.late > late, SLOW, "anywidget gave up")
        holds.clear()

    def close(self) -> None:
        """Let go of the kernel and the page."""
        self.forget_kernel()
        self._context.close()

    def forget_kernel(self) -> None:
        """It is about to end, or to be replaced by another."""
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    # -- JupyterLab

    def open(self, notebook: str) -> None:
        """Open a notebook and wait for its kernel."""
        self.page.goto(self._address.replace("NOTEBOOK", notebook))
        self.until_idle()
        self._collapse_side_bar()

    def _collapse_side_bar(self) -> None:
        bar = self.page.locator("#jp-left-stack")
        if bar.is_visible():
            self.page.keyboard.press("Control+b")
            bar.wait_for(state="hidden")

    def until_idle(self) -> None:
        """The kernel is there and has nothing to do: before that a click on Run All is lost without a word."""
        self.page.get_by_text(re.compile(r"ipykernel\) \| Idle")).first.wait_for()

    def leave(self, notebook: str) -> None:
        """Save, as a person would, and go elsewhere; the kernel stays."""
        self.menu("File", "Save Notebook")
        self.page.locator(f".jp-mod-dirty:has-text('{notebook[:10]}')").wait_for(state="detached")
        self.page.goto("about:blank")

    def come_back(self, notebook: str) -> None:
        """Open the notebook again, with its dashboard in view."""
        self.open(notebook)
        self._scroll_to_dashboard()

    def run_new_cell(self, code: str) -> None:
        """Write a cell after the last one and run it. Its editor comes when it comes: what is typed before that is lost."""
        cells = self.page.locator(".jp-Notebook .jp-Cell")
        count = cells.count()
        cells.last.locator(".jp-InputPrompt, .jp-InputArea-prompt").first.click()
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("b")
        until(lambda: cells.count() > count, SLOW, "one cell more")
        self.page.keyboard.press("Enter")
        editor = self.page.locator(".jp-Notebook .jp-Cell.jp-mod-active .cm-content")
        until(lambda: editor.count() and editor.evaluate("(e) => e.contains(document.activeElement)"), SLOW, "its editor")
        self.page.keyboard.insert_text(code)
        written = code.strip().splitlines()[-1]
        until(lambda: written in editor.inner_text(), SLOW, "what was typed")
        self.page.keyboard.press("Control+Enter")

    def _scroll_to_dashboard(self) -> None:
        self._until_drawn(
            lambda: self.dashboard.count() == 1 and len(self.series("t")) > 0, SLOW, "the dashboard is on the page again, drawn"
        )

    def _until_drawn(self, condition: Callable[[], Any], seconds: float, what: str) -> None:
        """JupyterLab draws a cell's output only while the cell is in view: go there until the condition holds."""

        def holds() -> Any:
            self.page.evaluate(TO_DASHBOARD)
            return condition()

        try:
            until(holds, seconds, what)
        except AssertionError:
            self.keep_failure()
            raise

    def menu(self, *names: str) -> None:
        """Choose from JupyterLab's menus."""
        self.page.locator("#jp-MainMenu").get_by_text(names[0], exact=True).click()
        for depth, name in enumerate(names[1:]):
            items = self.page.locator(".lm-Menu").nth(depth).locator(".lm-Menu-itemLabel")
            item = items.get_by_text(name, exact=True)
            if depth == len(names) - 2:
                item.click()
            else:
                item.hover()
                self.page.locator(".lm-Menu").nth(depth + 1).wait_for()

    def run_all(self) -> None:
        """Run every cell; a click that came too early for JupyterLab, and was lost, is made again."""
        begun = self.page.locator(".jp-InputPrompt", has_text=re.compile(r"\[[*\d]"))

        def begins() -> bool:
            self.menu("Run", "Run All Cells")
            try:
                begun.first.wait_for(timeout=60_000)
            except TimeoutError:
                return False
            return True

        until(begins, SLOW, "the first cell runs")

    @property
    def kernel(self) -> Kernel:
        """The notebook's kernel, asked beside the browser."""
        if self._kernel is None:
            self._kernel = Kernel(self._folder / ".jupyter" / "runtime")
        return self._kernel

    # -- the dashboard

    @property
    def dashboard(self) -> Any:
        return self.page.locator(".headrace-dashboard")

    def words(self) -> str:
        """What the dashboard says, brought into view: of what is out of sight the browser gives no text."""
        self.page.evaluate(TO_DASHBOARD)
        return self.dashboard.inner_text()

    def button(self, name: str, exact: bool = True) -> Any:
        """A button of the dashboard."""
        return self.dashboard.get_by_role("button", name=name, exact=exact)

    def bokeh(self, script: str, argument: Any = None) -> Any:
        """Evaluate a function of (models, argument): all models BokehJS shows on the page, by name."""
        return self.page.evaluate(
            """([script, argument]) => {
                const models = {};
                for (const view of window.Bokeh?.index?.roots ?? [])
                    for (const model of view.model.document?._all_models.values() ?? [])
                        if (model.name) models[model.name] = model;
                return models.series ? eval(script)(models, argument) : null;
            }""",
            [script, argument],
        )

    def series(self, column: str) -> list[float]:
        """A column of the time plots."""
        values = self.bokeh("(models, name) => Array.from(models.series.data[name] ?? [])", column) or []
        return [] if len(values) == 1 else values

    @contextmanager
    def other_plots(self, seconds: float) -> Iterator[None]:
        """What is done within makes a dashboard that takes the place of this one: wait until its plots are drawn."""
        until(lambda: self.bokeh("(models) => (models.series.isOld = true)"), SLOW, "plots to be replaced")
        yield

        def are_drawn() -> bool:
            return bool(self.bokeh("(models) => !models.series.isOld && (models.series.data.t ?? []).length > 1"))

        self._until_drawn(are_drawn, seconds, "the plots of another dashboard")

    def last(self, column: str) -> float:
        """The newest value of a column; the plots are waited for, which have none while the page is laid out anew."""
        return until(lambda: self.series(column), SLOW, f"the plots have {column}")[-1]

    def until_rows(self, count: int, seconds: float) -> None:
        """The plots have so many rows; a cell that fails ends the wait."""

        def enough() -> bool:
            self.page.evaluate(TO_DASHBOARD)
            failed = self.page.locator(
                ".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']"
            )
            for text in failed.all_inner_texts():
                assert "Error" not in text, f"a cell failed: {text[-2_000:]}"
            return len(self.series("t")) >= count

        until(enough, seconds, f"{count} rows in the plots; {self.problems}")

    def panel_texts(self) -> dict[str, str]:
        """What each plot says in words."""
        panels = self.dashboard.locator(".headrace-panel")
        return panels.evaluate_all(
            "(all) => Object.fromEntries(all.map((p) => [p.dataset.panel, p.querySelector('[role=status]').textContent]))"
        )

    def place_in(self, panel: str, *points: tuple[float, float]) -> list[list[float]]:
        """Where points of a plot's data, (x, y) each, are on the page, in pixels."""
        plot = self.dashboard.locator(f"[data-panel={panel}] .headrace-plot")
        plot.scroll_into_view_if_needed()
        place = """(plot, points) => {
            const view = window.Bokeh.index.roots.find((one) => plot.contains(one.el));
            const box = view.el.getBoundingClientRect();
            return points.map(([x, y]) =>
                [box.x + view.frame.x_scale.compute(x), box.y + view.frame.y_scale.compute(y)]);
        }"""
        return plot.evaluate(place, [list(point) for point in points])

    def click_on_cell(self, panel: str, cell: tuple[float, float]) -> None:
        """Click on a cell of a plot, by its data."""
        (at,) = self.place_in(panel, cell)
        self.page.mouse.click(*at)

    def click_once(self, button: Any) -> None:
        """Click until the button got a click: one that moves away while the mouse is down gets none."""

        def got_it() -> bool:
            one = button.element_handle()  # the click may change its word, by which it was found, or put another in its place
            one.evaluate("(b) => b.addEventListener('click', () => { b.isClicked = true; }, {once: true})")
            with suppress(Error):
                one.click()
            return bool(one.evaluate("(b) => b.isClicked === true"))

        until(got_it, SLOW, "the button got the click")

    def enter(self, entry: Any, text: str, is_taken: Callable[[], Any]) -> None:
        """Enter something until it is taken: what the kernel says of the value before may come between it and Enter."""

        def enters() -> Any:
            entry.fill(text)
            entry.press("Enter")
            with suppress(AssertionError):
                return until(is_taken, SLOW / 4)
            return False

        until(enters, 2 * SLOW, f"{text} is taken")

    def arrange(self, layout: str) -> None:
        """Give the dashboard a layout, and wait until the page has heard of it."""
        self.kernel.run(f"dashboard.arrange({layout!r})")
        layouts = "(e) => ['compact', 'present'].find((name) => e.classList.contains(`headrace-${name}`)) ?? 'full'"
        until(lambda: self.dashboard.evaluate(layouts) == layout, SLOW, f"the layout is {layout}")

    def drag_over_cells(self, panel: str, first: tuple[float, float], last: tuple[float, float]) -> None:
        """Select cells of a plot with the mouse, from one (x, y) of its data to another, both inside."""
        a, b = self.place_in(panel, (first[0] - 0.3, first[1] - 0.3), (last[0] + 0.3, last[1] + 0.3))
        self.page.mouse.move(*a)
        self.page.mouse.down()
        self.page.mouse.move((a[0] + b[0]) / 2, (a[1] + b[1]) / 2, steps=4)
        self.page.mouse.move(*b, steps=4)
        self.page.mouse.up()

    def stable(self, value: Callable[[], Any]) -> Any:
        """Wait until two looks, half a second apart, see the same value, and no None; return it."""

        def same() -> tuple | None:
            before = value()
            self.page.wait_for_timeout(500)
            return (before,) if before is not None and value() == before else None

        return until(same, SLOW, "a value that stands still")[0]

    def edge(self, which: str) -> float | None:
        """An edge or a measure of the dashboard; None in the moment in which the page is laid out anew."""
        box = self.dashboard.bounding_box()
        return box[which] if box else None

    def resize(self, width: int) -> None:
        """Make the window so wide and wait until the plots have followed."""
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        self.stable(lambda: self.edge("width"))

    def fit(self, width: int) -> None:
        """Make the window so wide and 1,000 px high, and wait until the dashboard fits into what JupyterLab leaves of it."""
        self.page.set_viewport_size({"width": width, "height": 1_000})
        self.stable(lambda: self.dashboard.bounding_box())
        room = self.page.evaluate(BESIDE)
        until(lambda: (self.edge("height") or HEIGHT) <= room, SLOW, f"it fits, {width} px")

    def shot(self, name: str) -> None:
        """Keep a picture of the whole dashboard: the window is made as high as it takes."""
        self._shots.mkdir(parents=True, exist_ok=True)
        width = self.page.viewport_size["width"]
        box = self.dashboard.bounding_box()
        self.page.set_viewport_size({"width": width, "height": int(box["height"]) + 250})
        self.dashboard.scroll_into_view_if_needed()
        self.stable(lambda: self.edge("y"))
        self.dashboard.screenshot(path=self._shots / f"{name}.png")
        self.page.set_viewport_size({"width": width, "height": HEIGHT})

    def keep_failure(self) -> None:
        """Keep a picture of the page as it is."""
        self._shots.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=self._shots / "failed.png")

    def look_at(self, file: Path, name: str) -> None:
        """Open a saved page by itself, from disk; its plots must draw, without errors and without a network."""
        page = self._new_page()
        page.set_viewport_size({"width": 1200, "height": HEIGHT})
        page.goto(file.as_uri())
        page.wait_for_function("() => window.Bokeh?.documents?.[0]?.is_idle")
        page.screenshot(path=self._shots / f"{name}.png", full_page=True)
        page.close()


@contextmanager
def visiting(address: str, folder: Path) -> Iterator[Visit]:
    """A page of Chromium for an address; a picture of it is kept if something fails."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        visit = Visit(browser, address, folder, SHOTS)
        try:
            yield visit
        except BaseException:
            visit.keep_failure()
            raise
        finally:
            visit.close()
            browser.close()


@contextmanager
def opened(folder: Path, notebook: str, rows: int, settings: Settings = NO_MORE) -> Iterator[Visit]:
    """A notebook of a folder in JupyterLab and Chromium: every cell run, so many rows in the plots of its dashboard."""
    with jupyter_lab(folder, settings) as address, visiting(address, folder) as visit:
        visit.open(notebook)
        visit.run_all()
        visit.until_rows(rows, 3 * SLOW)
        yield visit
