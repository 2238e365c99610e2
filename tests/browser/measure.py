"""What the dashboard costs and how often it moves, on a live stream in a real JupyterLab and Chromium.

`make bench-dashboard` prints it. It is not among `headrace bench`, which knows no dashboard.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from browser import lab
from headrace_bench.rows import Row, print_rows

SECONDS = 15.0
SATURATE = "run.reconfigure(threads=max_threads).wait(60); run.rate = 10_000_000"
DRAWN = """async (seconds) => {
    const names = () => window.Bokeh.index.roots
        .map((view) => view.model.document?.get_model_by_name("series")).filter((source) => source);
    const [series] = names();
    let drawn = 0, last = series.data;
    const end = performance.now() + 1000 * seconds;
    while (performance.now() < end) {
        await new Promise(requestAnimationFrame);
        if (series.data !== last) { last = series.data; drawn += 1; }
    }
    return drawn;
}"""


def figures(visit: lab.Visit, seconds: float, case: str = "") -> list[Row]:
    """Updates and drawings per second, and the processor time that the kernel's thread takes for an update."""
    visit.kernel.run("dashboard.costs_ms.clear()")
    drawn = visit.page.evaluate(DRAWN, seconds)
    costs = visit.kernel.ask("list(dashboard.costs_ms)")
    p50, p90 = np.quantile(costs, [0.5, 0.9])
    return [
        Row("dashboard", f"updates{case}", len(costs) / seconds, "1/s", goal=5),
        Row("dashboard", f"drawn by the page{case}", drawn / seconds, "1/s", goal=5),
        Row("dashboard", f"kernel time of an update, p50{case}", float(p50), "ms", "lower", 2),
        Row("dashboard", f"kernel time of an update, p90{case}", float(p90), "ms", "lower", 2),
    ]


def main() -> int:
    """Open the notebook, run it, and measure its dashboard."""
    if lab.chromium() is None:
        print(lab.GET_ONE, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lab.copy_small(lab.NOTEBOOK, folder)
        with lab.jupyter_lab(folder) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=lab.chromium(), args=lab.FLAGS)
            visit = lab.Visit(browser, address, folder, lab.SHOTS)
            visit.open(lab.NOTEBOOK)
            visit.run_all()
            visit.until_rows(60, 3 * lab.SLOW)
            rows = figures(visit, SECONDS)
            visit.kernel.run(SATURATE)
            lab.until(lambda: visit.kernel.ask("run.metrics().lag_s") > 1, lab.SLOW, "more comes than all threads can take")
            rows += figures(visit, SECONDS, f"; {visit.kernel.ask('run.threads')} threads saturated")
            print_rows(rows)
            print(f"on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, browser and engine on the same")
            visit.close()
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
