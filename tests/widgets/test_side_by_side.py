"""Method: two real runs of one query, VSN and SN, with one set of controls; what a click does is read from both.

What this cannot see: anything in the browser.
"""

import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from bokeh.models import HoverTool

import headrace as hr
from headrace.errors import ArgumentError
from headrace_widgets import palette, side_by_side
from headrace_widgets.layouts import LAYOUTS
from headrace_widgets.markers import markers_of_two
from headrace_widgets.status import discarded
from support.dashboards import TABLE, controls_of, start, two_steps
from support.workloads import eventually


@pytest.fixture
def runs():
    with start(rate=2_000) as vsn, start(rate=2_000, mode="sn") as sn:
        yield vsn, sn


@pytest.fixture
def both(runs):
    both = side_by_side(*runs, stop_unwatched_after=None)
    yield both
    both.close()


def drawn(both, source):
    columns = both.plot.columns[source]
    return np.frombuffer(both.plot.frame["blocks"][source], np.float32).reshape(len(columns), -1)


def test_example_one_click_steers_both_and_what_it_cost_is_drawn(runs, both):
    eventually(lambda: all(run.metrics().operators[both.operator].added > 1_000 for run in runs), 180)
    both.settings["threads"].plus.click()
    assert both.messages.lines == ("for run in runs: run.reconfigure(threads=2)",)
    for i, run in enumerate(runs):
        eventually(lambda run=run: run.threads == 2, 180)
        eventually(lambda i=i: drawn(both, f"changes{i}")[1][0] > 0, 180)
        eventually(lambda i=i: 1_000 < drawn(both, f"series{i}")[1][-1] < 3_000, 180)
        (change,) = run.changes
        assert drawn(both, f"changes{i}")[1:3, 0] == pytest.approx([change.ms, change.transferred_bytes], rel=1e-4)
    moved = [drawn(both, f"changes{i}")[2, 0] for i in range(2)]
    assert moved[0] == 0 < moved[1], "shared-nothing moves state, and the other moves none"
    assert drawn(both, "changes0")[0, 0] < 1 < drawn(both, "changes1")[0, 0], "beside one another"
    (at, *others), labels = drawn(both, "changes0")[3], both.plot.labels["changes"]["label"]
    assert at > 0 and others == [], "when it was"
    assert set(labels) == {"1→2"} and both.plot.labels["changes"]["t"][0] == pytest.approx(at, abs=1), "and a marker there"
    eventually(lambda: "VSN: 0 B in 1 change; SN: " in both.plot.texts["moved"], 180)
    assert "its threads have waited" in both.plot.texts["pause"]
    both.rate.entry.value = 3_000
    both.burst.button.click()
    assert [run.rate for run in runs] == [9_000, 9_000]
    names = {"runs": runs, "hr": hr}
    exec(both.messages.lines[1], names)
    assert both.messages.lines[1:] == (
        "for run in runs: run.rate = 3000", "for run in runs: run.rate = hr.rates.phases([(5, 9000), (1, 3000)])",
    ) and [run.rate for run in runs] == [3_000, 3_000]  # fmt: skip
    assert both.messages.problem.value == ""
    both.stop.click()
    assert [run.state for run in runs] == ["stopped", "stopped"]
    assert both.messages.lines[-1] == "for run in runs: run.stop()"
    eventually(lambda: "Stopped:</b> run the cell again for two others" in both.over.value, 180)
    both.update()
    assert [one for one in controls_of(both.widget) if not one.disabled] == [both.presented], "they stay off"
    lost = [discarded(run.metrics()) for run in runs]
    assert all(lost), "what was read ahead, at least"
    eventually(lambda: all(f"{rows:,} tuples discarded." in both.words.value for rows in lost), 180)


def test_example_its_plots_say_their_values_and_a_run_has_a_colour_of_its_own(both):
    figures = {one.key: one.figure for one in both._figures()}
    for key, mode in (("throughput", "vline"), ("lag", "vline"), ("pause", "mouse"), ("moved", "mouse")):
        said = [tool for tool in figures[key].tools if isinstance(tool, HoverTool) and tool.mode == mode]
        said = [tool for tool in said if tool.renderers[0].data_source.name != "changes"]
        names = [word for tool in said for word, _ in tool.tooltips if word in ("VSN", "SN")]
        assert names == ["VSN", "SN"], "each run has a box"
        assert [colour_of(tool.renderers[0].glyph) for tool in said] == [*palette.RUNS]
    for key in ("throughput", "lag"):
        marks = [one for one in figures[key].renderers if one.data_source.name == "changes"]
        assert [mark.glyph.line_color for mark in marks] == [palette.CHANGE]


def test_example_it_is_presented_by_a_click_and_by_a_line_of_python(both):
    def looks():
        return "headrace-present" in both.widget._dom_classes, both.plot.look

    as_it_was = looks()
    assert as_it_was == (False, {})
    both.presented.value = True  # as a click does
    presented = looks()
    assert presented == (True, LAYOUTS["present"].look) and both.messages.lines == ("both.present()",)
    both.present(False)
    assert (looks(), both.presented.value) == (as_it_was, False)
    exec(both.messages.lines[-1], {"both": both})
    assert (looks(), both.presented.value) == (presented, True)
    assert both.messages.lines == ("both.present()",), "what is written is not said again"
    both.presented.value = False
    assert looks() == as_it_was and both.messages.lines[1:] == ("both.present(False)",)


def colour_of(glyph):
    return glyph.fill_color if hasattr(glyph, "fill_color") else glyph.line_color


def change(started_s, threads, ms, buckets=0):
    return SimpleNamespace(
        started_ns=round(started_s * 1e9), completed_ns=round((started_s + ms / 1e3) * 1e9), ms=ms, reason="", from_threads=1,
        to_threads=threads, buckets_moved=buckets, describe=lambda: f"threads 1 → {threads}",
    )  # fmt: skip


def test_example_one_click_is_one_marker_that_says_what_it_cost_each():
    def clock(at_ns):
        return at_ns / 1e9

    first = [change(1, 2, 0.2), change(5, 3, 0.2), change(9, 4, 0.2)]
    second = [change(1.1, 2, 30), change(8, 3, 30), change(8.5, 4, 600)]
    found = markers_of_two((first, second), ("VSN", "SN"), (clock, clock))
    rows = list(zip(*(found[name] for name in ("t", "label", "what", "ms")), strict=True))
    assert rows == [
        (1, "1→2", "threads 1 → 2", "VSN: 0.20 ms, SN: 30.00 ms"),
        (5, "1→3", "VSN: threads 1 → 3", "0.20 ms"),  # too far from the other: what happened in between is not hidden
        (8, "1→3", "SN: threads 1 → 3", "30.00 ms"),
        (8.5, "1→4", "threads 1 → 4", "VSN: 0.20 ms, SN: 600.00 ms"),
    ]
    assert found["end"][0] == pytest.approx(1.13)
    alone = markers_of_two(([], second[:1]), ("VSN", "SN"), (clock, clock))
    assert alone["what"] == ["SN: threads 1 → 2"]


def test_example_both_have_one_clock():
    """The one that began later is drawn from when it began: a click is at one place in both."""
    with start(rate=2_000) as first:
        (name,) = first.operators
        eventually(lambda: first[name].metrics().added > 2_000, 180)
        with start(rate=2_000) as second:
            both = side_by_side(first, second, stop_unwatched_after=None)
            try:
                eventually(lambda: drawn(both, "series1").shape[1] > 3, 180)
                later_s = (both.feeds[1].origin_ns - both.feeds[0].origin_ns) / 1e9
                assert later_s > 0.9, "2,000 tuples before it"
                assert drawn(both, "series1")[0][0] >= later_s > drawn(both, "series0")[0][0]
            finally:
                both.close()


def test_example_what_is_no_pair_is_refused(runs):
    with pytest.raises(ValueError, match="two different names"):
        side_by_side(*runs, names=("a", "a"))
    with pytest.raises(ArgumentError, match=r"^side_by_side\(nmes=\('a', 'b'\)\): .* did you mean names="):
        side_by_side(*runs, nmes=("a", "b"))
    with two_steps() as other, pytest.raises(ValueError, match="give two runs of one query"):
        side_by_side(runs[0], other)
    runs[1].stop()
    with pytest.raises(ValueError, match=r"started in one notebook cell a name each, start\(name=\.\.\.\)"):
        side_by_side(*runs)


def test_example_a_failure_is_said_and_the_other_run_goes_on():
    def breaks_off():
        yield from TABLE.slice(0, 500).to_batches()
        raise OSError("the line is cut")

    with start(breaks_off()) as a, start(rate=2_000) as b:
        both = side_by_side(a, b, stop_unwatched_after=None)
        try:
            eventually(lambda: re.search(r"<b>VSN</b> .*The run has failed\..*<b>SN</b>|<b>VSN</b> failed", both.words.value))
            assert not both.stop.disabled and both.over.value == ""
            both.settings["threads"].plus.click()
            eventually(lambda: b.threads == 2 and both.settings["threads"].slider.value == 2, 180)
            both.rate.entry.value = 3_000
            assert both.messages.problem.value == "" and b.rate == 3_000
            both.update()
            assert both.rate.entry.value == 3_000, "it shows the one that goes on"
            both.stop.click()
            eventually(lambda: "VSN failed, SN stopped:</b>" in both.over.value, 180)
            assert "VSN: " in both.messages.problem.value and "the line is cut" in both.messages.problem.value
        finally:
            both.close()


def test_example_names_are_no_markup():
    table = pa.concat_tables([TABLE.slice(0, 5_000)])
    with start(iter(table.to_batches(500)), rate=2_000) as a, start(iter(table.to_batches(500)), rate=2_000) as b:
        both = side_by_side(a, b, names=("<img src=x>", "b"), stop_unwatched_after=None)
        try:
            eventually(lambda: "&lt;img" in both.words.value and "<img" not in both.words.value, 180)
        finally:
            both.close()
