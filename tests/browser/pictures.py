"""The dashboard as README shows it, from today's page in a real Chromium: a burst comes, + is pressed, it catches up.

``make pictures`` runs it. The other picture, of a recorded run, is `headrace_bench.elasticity`'s.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from browser import lab
from browser.lab import ROOT, SLOW, until

WIDTH, HEIGHT = 1440, 920
BEHIND_S = 2.0


def take(visit: lab.Visit) -> None:
    """Let a burst come, add a thread as a person does, and wait until what has piled up is gone."""
    lag_s = "run.metrics().lag_s"
    visit.until_rows(30, 3 * SLOW)
    visit.click_once(visit.button("Burst 3×"))
    until(lambda: visit.kernel.ask(lag_s) > BEHIND_S, SLOW, "the stream is behind")
    visit.click_once(visit.button("+"))
    until(lambda: visit.kernel.ask(lag_s) < 0.1, SLOW, "it has caught up")
    caught_up = visit.last("t")
    until(lambda: visit.last("t") > caught_up + 4, SLOW, "that can be seen")
    visit.click_once(visit.button("Present"))  # words that can be read in README's width
    visit.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    visit.page.wait_for_timeout(2_000)  # drawn anew
    visit.stable(lambda: visit.edge("height"))
    lab.SHOTS.mkdir(parents=True, exist_ok=True)
    visit.dashboard.screenshot(path=lab.SHOTS / "readme.png")


def main(path: str) -> int:
    """Take the picture and put it where README looks for it."""
    if lab.chromium() is None:
        print(lab.GET_ONE, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        notebook = Path(shutil.copy(ROOT / "widgets" / "headrace_widgets" / "alone.ipynb", folder))
        with lab.dashboard_alone(folder, notebook.name) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=lab.chromium(), args=lab.FLAGS)
            visit = lab.Visit(browser, address, folder, lab.SHOTS)
            visit.page.goto(address, timeout=3 * SLOW * 1_000)
            take(visit)
            visit.close()
            browser.close()
    shutil.copy(lab.SHOTS / "readme.png", path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
