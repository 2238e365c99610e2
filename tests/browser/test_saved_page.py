"""Method: a page that the dashboard saved is opened in a real Chromium, and the mouse rests on a marker.

Names and reasons are markup and scripts; what they would do if they were taken for it is to set `window.hit`.
What this cannot see: other browsers.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import headrace as hr
from browser import lab
from browser.lab import SLOW, until
from headrace_widgets import Dashboard
from support.workloads import eventually

HOSTILE = "<img src=x onerror=\"window.hit='img'\"><script>window.hit='script'</script>$$x$$ @{t}{safe} \"'&lt;b&gt;"

PLACE = """() => {
    for (const view of window.Bokeh?.index?.roots ?? []) {
        const marker = view.model.renderers?.find((one) => one.data_source.data.reason?.length);
        if (!marker) continue;
        const box = view.el.getBoundingClientRect();
        const t = Array.from(marker.data_source.data.t)[0];
        return [box.x + view.frame.x_scale.compute(t), box.y + view.frame.bbox.vcenter];
    }
}"""
TOOLTIP = """() => {
    const inside = (node) => [node, ...[...node.querySelectorAll("*")]
        .flatMap((one) => one.shadowRoot ? inside(one.shadowRoot) : [])];
    return inside(document).flatMap((root) => [...root.querySelectorAll("[class*=tooltip-row-value]")])
        .map((one) => one.textContent.trim());
}"""

pytestmark = pytest.mark.skipif(lab.chromium() is None, reason=lab.GET_ONE)


def test_example_hostile_names_stay_text(tmp_path):
    from playwright.sync_api import sync_playwright

    table = pa.table({"ts": range(200_000), "k": [f"k{i % 97}" for i in range(200_000)]})
    stream = hr.stream(iter(table.to_batches(500)), event_time="ts", name=HOSTILE).key_by("k").window(1_000)
    with stream.aggregate(HOSTILE, n=hr.count()).start(max_threads=4, sink=hr.discard(), rate=2_000) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            # The plots' time begins with the first tuple, which may be late where nothing is compiled yet.
            eventually(lambda: dashboard.feed.newest_s > 0.5)
            run.reconfigure(threads=2, reason=HOSTILE).wait(60)
            at = dashboard.feed.newest_s
            eventually(lambda: dashboard.feed.newest_s > 2 * at)
            page = dashboard.save(tmp_path / "page.html")
        finally:
            dashboard.close()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=lab.chromium(), args=lab.FLAGS)
        visit = lab.Visit(browser, "", tmp_path, lab.SHOTS)
        try:
            visit.page.goto(page.as_uri())
            x, y = until(lambda: visit.page.evaluate(PLACE), SLOW, "the plots are drawn")

            def tooltip():
                visit.page.mouse.move(x + 30, y)
                visit.page.mouse.move(x, y)
                return visit.page.evaluate(TOOLTIP)

            said = until(tooltip, SLOW, "the marker's tooltip")
            assert HOSTILE in said
            assert HOSTILE in visit.page.locator("body").inner_text()
            assert visit.page.evaluate("() => window.hit") is None
            assert visit.page.locator("img").count() == 0
        except BaseException:
            visit.keep_failure()
            raise
        finally:
            visit.close()
            browser.close()
    assert visit.outside == [] and visit.problems == []
