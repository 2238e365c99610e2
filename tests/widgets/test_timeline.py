"""Method: the timeline of threads and the names of hot keys, asked for by clicks on real runs.

What this cannot see: anything in the browser; tests/browser drives a real one.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace as hr
from headrace_widgets import Dashboard, timeline
from headrace_widgets.hot_keys import table
from headrace_widgets.timeline import COLUMNS, STATES, block_of, words_of
from support.dashboards import problem, start
from support.made_up_run import MadeUpRun
from support.workloads import eventually


def test_example_spans_as_columns():
    """thread 0  |process 2 s|wait 1 s|, thread 1 |room 3 s|, thread 2 parked."""
    frame = pd.DataFrame(
        [(0, "process", 10.0, 12.0), (0, "wait", 12.0, 13.0), (1, "room", 10.0, 13.0), (2, "parked", 0.0, 13.0)],
        columns=["thread", "state", "begin_s", "end_s"],
    )
    block = block_of(frame)
    assert block.tolist() == [
        [0, 0, 1, 2], [1, 2, 3, 0], [-3, -1, -3, -13], [-1, 0, 0, 0], [2_000, 1_000, 3_000, 13_000],
    ]  # fmt: skip
    assert words_of(block) == "Thread 0: 67% processing, 33% waiting for input; 1: 100% waiting for room."
    short = frame.assign(begin_s=frame["begin_s"] / 10, end_s=frame["end_s"] / 10)
    assert words_of(block_of(short)).endswith("1: 100% waiting for room. Only the last 0.30 s are known.")
    assert words_of(block_of(frame.iloc[:0])).startswith("No timeline yet")


@pytest.mark.slow
def test_example_it_is_drawn_while_it_is_shown(run, dashboard, monkeypatch):
    monkeypatch.setattr(timeline, "EVERY_S", 0.0)
    panel = dashboard.operator_view.timeline
    assert panel.plot is None, "nothing is made before it is asked for"
    panel.button.value = True
    assert dashboard.messages.lines == ("dashboard.show_timeline(True)",)
    eventually(lambda: "Thread 0" in panel.plot.texts["timeline"], 180)

    def drawn():
        return np.frombuffer(panel.plot.frame["blocks"]["spans"], np.float32).reshape(len(COLUMNS), -1)

    run.reconfigure(threads=2).wait(180)
    eventually(lambda: {0, 1} <= set(drawn()[0][drawn()[1] > 0].tolist()), 180)
    block = drawn()
    assert set(block[1].tolist()) <= set(range(len(STATES))) and (block[2] <= block[3]).all() and block[3].max() == 0
    panel.button.value = False
    assert dashboard.messages.lines[-1] == "dashboard.show_timeline(False)" and panel.plot.view not in panel.widget.children
    with dashboard.messages.lock:  # no update is under way
        frame, counted = panel.plot.frame, dashboard.feed.newest_s
    eventually(lambda: dashboard.feed.newest_s > counted + 1.5, 180)
    assert panel.plot.frame is frame, "what nobody sees is not drawn"
    dashboard.show_timeline()
    assert panel.button.value and panel.plot.view in panel.widget.children and len(dashboard.messages.lines) == 2
    assert problem(dashboard) == ""


def test_example_an_engine_without_a_timeline_or_keys():
    with MadeUpRun() as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            view = dashboard.operator_view
            assert not view.timeline.is_there and not view.hot_keys.is_there
            with pytest.raises(ValueError, match="the engine of 'judge' keeps no timeline"):
                dashboard.show_timeline()
        finally:
            dashboard.close()


@pytest.mark.slow
def test_example_hot_keys_by_name():
    keys = ["<b>hot</b>"] * 70 + ["warm"] * 20 + ["cold"] * 10
    given = pa.table({"ts": range(100_000), "k": keys * 1_000})
    with start(iter(given.to_batches(100)), rate=2_000) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            hot = dashboard.operator_view.hot_keys
            eventually(lambda: run.metrics().tuples_in > 500, 180)
            hot.button.click()
            name = run.operators[0]
            assert dashboard.messages.lines == (f"run[{name!r}].hot_keys(10)",)
            said = hot.words.value
            assert "<b>" not in said and "<th>k</th>" in said
            first, second = said.split("<tr>")[2:4]
            bucket = run[name].hot_keys(1).loc[0, "bucket"]
            assert f"<td>&lt;b&gt;hot&lt;/b&gt;</td><td>70.0%</td><td>{bucket}</td><td>0</td>" in first
            assert "<td>warm</td><td>20.0%</td>" in second
            moved = run.mapping.move([int(bucket)], to=1)
            run.reconfigure(threads=2, mapping=moved).wait(180)
            eventually(lambda: f"<td>70.0%</td><td>{bucket}</td><td>1</td>" in hot.words.value, 180)
            assert problem(dashboard) == ""
        finally:
            dashboard.close()
    assert table(pd.DataFrame({"k": []})) == "No key has come yet."
    stream = hr.stream(iter(given.to_batches(100)), event_time="ts").forward()
    with stream.start(rate=2_000, sink=hr.discard()) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            assert not dashboard.operator_view.hot_keys.is_there and dashboard.operator_view.timeline.is_there
        finally:
            dashboard.close()
