"""A real JupyterLab and a real Chromium for a test, on loopback only."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import open_ports

START_S = 90
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
_LOOPBACK = re.compile(
    r"^(https?|wss?)://(127\.0\.0\.1|localhost)(:\d+)?(/|$)|^(data|blob|about|devtools|chrome):"
)


def chromium() -> str | None:
    """Path of a Chromium; None where there is none."""
    asked = os.environ.get("HEADRACE_CHROMIUM")
    if asked:
        return asked
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


@contextmanager
def jupyter_lab(folder: Path, program: str = "jupyterlab", *arguments: str) -> Iterator[str]:
    """Serve a folder; gives the address, token included. Settings and workspaces are the folder's own."""
    token = secrets.token_hex(16)
    state = folder / ".jupyter"
    for name, settings in QUIET.items():
        file = state / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))
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
        [sys.executable, "-m", program, "--no-browser", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0",
         f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}", "--ServerApp.allow_root=True",
         *arguments],
        cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield until(lambda: _address(state / "runtime", token, server, folder), START_S)
    finally:
        _end(server)
        os.close(log)


def _address(runtime: Path, token: str, server: subprocess.Popen, folder: Path) -> str | None:
    if server.poll() is not None:
        raise RuntimeError(f"JupyterLab ended at once:\n{(folder / 'server.log').read_text()[-3000:]}")
    for file in runtime.glob("jpserver-*.json"):
        try:
            url = json.loads(file.read_text())["url"]
            urllib.request.urlopen(f"{url}api/status?token={token}", timeout=5).close()
        except (ValueError, OSError, urllib.error.URLError):
            return None
        return f"{url}lab/tree/NOTEBOOK?token={token}"
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


class Page:
    """A notebook in JupyterLab, and what went wrong in the browser meanwhile."""

    def __init__(self, browser: Any, shots: Path, width: int = 1600, height: int = 1200):
        self.context = browser.new_context(viewport={"width": width, "height": height})
        self.outside: list[str] = []
        self.problems: list[str] = []
        self.context.route(re.compile(".*"), self._let_loopback)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        self._shots = shots

    def _let_loopback(self, route: Any) -> None:
        if _LOOPBACK.match(route.request.url):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def _note(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(f"{message.text} ({message.location.get('url', '')})")

    def open(self, address: str) -> None:
        """Open the notebook and wait for its kernel."""
        self.page.goto(address)
        self.until_idle()

    def until_idle(self, seconds: float = 120) -> None:
        """The kernel is there and has nothing to do: before that a click on Run All is lost without a word."""
        self.page.get_by_text(re.compile(r"ipykernel\) \| Idle")).first.wait_for(timeout=seconds * 1000)

    def menu(self, *names: str) -> None:
        """Choose from JupyterLab's menus."""
        self.page.locator("#jp-MainMenu").get_by_text(names[0], exact=True).click()
        for depth, name in enumerate(names[1:], start=1):
            item = (
                self.page.locator(".lm-Menu")
                .nth(depth - 1)
                .locator(".lm-Menu-itemLabel")
                .get_by_text(name, exact=True)
            )
            item.hover()
            if depth == len(names) - 1:
                item.click()
            else:
                self.page.keyboard.press("ArrowRight")

    def shot(self, name: str) -> None:
        """Keep a picture of the dashboard."""
        self._shots.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=self._shots / f"{name}.png")

    def bokeh(self, script: str, argument: Any = None) -> Any:
        """Evaluate a function of (models, argument): all models BokehJS shows on the page, by name."""
        return self.page.evaluate(
            """([script, argument]) => {
                const models = {};
                for (const view of window.Bokeh?.index?.roots ?? [])
                    for (const model of view.model.document._all_models.values())
                        if (model.name) models[model.name] = model;
                return eval(script)(models, argument);
            }""",
            [script, argument],
        )

    def series(self, column: str) -> list[float]:
        """A column of the time plots."""
        return self.bokeh("(models, name) => Array.from(models.series?.data?.[name] ?? [])", column)
