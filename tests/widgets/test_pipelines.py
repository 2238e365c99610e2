"""Method: a dashboard on a real ordered pipeline, watched through public names only.

Property: which stage takes most of the workers' time, and how much of it, is shown under the names of these measures.
Oracle: the run's own metrics; one of two stages has nearly all the work.
Cannot see: anything in the browser; tests/browser drives a real one.
"""

import html
import itertools

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace_widgets import Dashboard
from support.made_up_run import Public
from support.workloads import eventually


def rows_without_end():
    for first in itertools.count(step=100):
        at = np.arange(first, first + 100)
        yield pa.record_batch({"ts": at, "x": at % 7})


def heavy(t, emit):
    x = t.x
    for i in range(10_000):
        x = (x * 5 + i) % 1_009
    emit(v=x)


def light(t):
    return t.v >= 0


@pytest.mark.slow
def test_example_the_busiest_stage_and_its_share():
    stream = hr.stream(rows_without_end(), event_time="ts").ordered().flat_map(heavy, emits={"v": "int64"}).filter(light)
    with stream.start(threads=1, max_threads=2, sink=hr.discard()) as run:
        dashboard = Dashboard(Public(run), stop_unwatched_after=None)
        headings = {panel["key"]: panel["title"] for panel in dashboard.plots.widget.panels}
        assert headings["measure_busiest_share"] == "Busiest stage's share"
        texts = dashboard.operator_view.text_measures.widget
        eventually(lambda: "<b>Busiest stage</b>: heavy</div>" in html.unescape(texts.value))

        def share():
            said = html.unescape(dashboard.plots.widget.texts.get("measure_busiest_share", ""))
            return "%" in said and float(said.split("%")[0].split()[-1]) > 60

        eventually(share)
        dashboard.close()
        run.stop()
