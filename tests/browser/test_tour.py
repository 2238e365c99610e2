"""Method: `headrace tour` at a terminal, as a person takes it, to its last step: Enter opens the dashboard in a browser.

The browser that the machine would start is replaced by a script that notes what it was asked to open; a real Chromium opens
that, and the tour's own page must be there, live, with a + that adds a thread. Then Ctrl-C ends it, as the tour says.
What this cannot see: which browser a person has, and the steps before, which tests/headrace/test_tour.py takes.
"""

from __future__ import annotations

import os
import signal

import pytest

import open_ports
from browser import lab
from browser.lab import SLOW, until
from support.terminal import Terminal

pytestmark = [pytest.mark.skipif(lab.chromium() is None, reason=lab.GET_ONE), pytest.mark.slow]


@pytest.fixture
def asked(tmp_path):
    """Where the script writes what it was asked to open."""
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/part && mv {tmp_path}/part {tmp_path}/asked\n')
    script.chmod(0o755)
    return tmp_path / "asked"


@pytest.fixture
def tour(tmp_path, asked):
    """The tour; what it became ends with the test, and so do its kernels."""
    folders = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "RUNTIME")}
    tour = Terminal("tour", environment={"BROWSER": str(asked.parent / "browser"), **folders})
    yield tour
    members = open_ports.family(tour.process.pid) if tour.process.poll() is None else set()
    tour.close()
    for process in members - {tour.process.pid}:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_example_enter_opens_the_dashboard(tour, asked, tmp_path):
    tour.until("Press Enter to add a thread", 3 * SLOW)
    tour.until("behind\r\n")
    tour.press_enter()
    tour.until("[Enter opens it]", 3 * SLOW)  # on a busy machine no lag drains, and the reference takes its time
    tour.press_enter()

    def opened():
        assert tour.process.poll() is None, tour.read()
        tour.read()
        return asked.exists() and asked.read_text().strip()

    address = until(opened, SLOW, "a browser is asked to open the page")
    with lab.visiting("", tmp_path) as visit:
        visit.page.goto(address)
        visit.page.wait_for_url("**/voila/render/alone.ipynb**", timeout=3 * SLOW * 1_000)
        until(lambda: tour.read() and visit.series("t")[-1:] > [2], 3 * SLOW, "the plots go on")
        visit.click_once(visit.button("+"))
        until(lambda: tour.read() and visit.series("threads")[-1:] == [2], SLOW, "one thread more")
        until(lambda: tour.read() and "Nothing lost, order kept" in visit.dashboard.inner_text(), SLOW, "the books balance")
    assert visit.outside == []
    tour.process.send_signal(signal.SIGINT)
    until(lambda: tour.read() and tour.process.poll() is not None, SLOW, "Ctrl-C ends it")
