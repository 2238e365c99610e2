"""Method: what the plots of real runs are given: ranges, words, which of them are shown; and what colours mean.

What this cannot see: anything in the browser; tests/browser drives a real one.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from bokeh.models import ColorBar, HoverTool

import headrace_widgets
from headrace.report import plots
from headrace_widgets import Dashboard, palette
from headrace_widgets.heat import COLUMNS
from headrace_widgets.layouts import LAYOUTS
from headrace_widgets.panels.panel import RoundRange
from support.dashboards import TABLE, rows, shown, start
from support.workloads import Steered, eventually


def test_example_an_axis_grows_at_once_and_shrinks_where_half_of_it_would_do():
    axis = RoundRange(10.0)
    values = (3, 95, 60, 51, 40, 4, 0, float("nan"), 1e6)
    assert [axis.cover(value) for value in values] == [10, 100, 100, 100, 50, 10, 10, 10, 1.5e6]


@pytest.mark.slow
def test_example_the_axis_follows_the_rate_down():
    """Ten seconds are shown: when those of the high rate have gone by, the axis is for the low one."""
    with start(rate=20_000) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            dashboard.show_last(2)
            end = lambda: dashboard.plots.widget.frame["ranges"]["throughput"][1]  # noqa: E731
            eventually(lambda: rows(dashboard) > 3 and end() > 15_000, 180)
            run.rate = 1_000
            eventually(lambda: end() <= 3_000, 180)
        finally:
            dashboard.close()


@pytest.mark.slow
def test_example_panels_without_a_meaning_give_their_place_away(run, dashboard):
    """One source is behind no other, one thread is loaded as evenly as can be."""
    eventually(lambda: rows(dashboard) > 3, 180)
    now = lambda: set(dashboard.plots.widget.shown)  # noqa: E731
    assert {"threads", "load", "latency"} <= now() and not {"imbalance", "watermarks"} & now()
    before = dashboard.plots.widget.shown
    run.reconfigure(threads=2).wait(180)
    eventually(lambda: "imbalance" in now(), 180)
    assert dashboard.plots.widget.shown == [*before, "imbalance"], "it moves no other"
    assert dashboard.plots.widget.places >= len(before) + 1, "columns were made for it"
    assert {*dashboard.plots.widget.shown} <= {*dashboard.plots._figures.possible}
    assert "watermarks" not in dashboard.plots._figures.possible
    run.reconfigure(threads=1).wait(180)
    eventually(lambda: shown(dashboard, "threads")[-1] == 1, 180)
    dashboard.fit()
    dashboard.update()
    assert "imbalance" in now(), "what was seen there stays to be seen"
    assert "watermarks" not in now()


@pytest.mark.parametrize(("there", "chosen"), [
    (["throughput", "latency", "threads", "load", "imbalance", "depth"], ["throughput", "threads", "load", "imbalance"]),
    (["throughput", "latency", "threads", "load", "shares_of_time"], ["throughput", "threads", "load", "shares_of_time"]),
    (["a", "b"], ["a", "b"]), (["threads", *"abcde"], ["threads", "a", "b", "c"]),
])  # fmt: skip
def test_example_a_compact_page_has_four_plots(there, chosen):
    assert LAYOUTS["compact"].choose(there) == chosen
    assert LAYOUTS["full"].choose(there) == there


@pytest.mark.slow
def test_example_latency_of_all_results_as_a_heat_map():
    source = Steered(TABLE, [500])
    with start(source) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            source.let()
            eventually(lambda: "No result yet" in dashboard.plots.widget.texts.get("latency", ""), 180)
            source.let_all()
            eventually(lambda: "Half of the results" in dashboard.plots.widget.texts["latency"], 180)

            def heat():
                block = np.frombuffer(dashboard.plots.widget.get_state()["slow"]["blocks"]["heat_latency"], np.float32)
                return dict(zip(COLUMNS, block.reshape(len(COLUMNS), -1), strict=True))

            run.wait(180)
            eventually(lambda: heat()["count"].sum() == run.metrics().tuples_out > 0, 180)
            low, high = dashboard.plots.widget.frame["ranges"]["latency"]
            assert low <= heat()["bottom"].min() and heat()["top"].max() <= high
            assert low == 10 ** np.floor(np.log10(heat()["bottom"].min() * 1.001))
        finally:
            dashboard.close()
            source.let_all()


def test_example_words_and_bars_agree_when_all_is_over():
    with start(threads=2) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            run.wait(180)
            last = lambda: dashboard.plots._figures.last  # noqa: E731
            eventually(lambda: last() and dashboard.plots.widget.texts == dashboard.plots._figures.texts(last()), 180)
            bars = np.frombuffer(dashboard.plots.widget.frame["blocks"]["shares_of_time"], np.float32).reshape(6, -1)
            assert bars[0, 0] == pytest.approx(last()["busy_0"], abs=1e-6)
        finally:
            dashboard.close()


@pytest.mark.parametrize(
    ("plot", "unit", "lines"),
    [
        ("throughput", "tuples/s", {"due", "input", "processed"}),
        ("lag", "s", {"lag", "delay of results (p99)"}),
        ("latency", "ms", {"p50", "p99"}),
        ("load", "updates/s", {"0", "1", "2", "3"}),
        ("imbalance", "", {"imbalance"}),
        ("backlog", "tuples", {"Due, not admitted"}),
    ],
)
def test_example_the_mouse_reads_all_lines_of_a_plot(dashboard, plot, unit, lines):
    """At the moment under it, wherever in the plot it is, with the unit: a format of per cent has its own."""
    tools = dashboard.plots._figures.built[plot].tools
    (values,) = [tool for tool in tools if isinstance(tool, HoverTool) and tool.mode == "vline"]
    (when, at), *rest = values.tooltips
    assert (when, at) == ("time", "@t{0,0.0} s") and {word for word, _ in rest} == lines
    assert all(value.endswith(f"}} {unit}" if unit else "%}") for _, value in rest)


def test_example_the_colours_of_the_key_mapping_have_a_scale(dashboard):
    (bar,) = [one for one in dashboard.mapping.picture().figure.right if isinstance(one, ColorBar)]
    assert bar.ticker.ticks == [0, 0.5, 1] and bar.major_label_overrides == {1: "most"}


def test_example_a_colour_means_one_thing():
    meanings = [palette.IN, palette.OUT, palette.LIMIT, palette.CHANGE, palette.IDLE, palette.BLOCKED, *palette.RUNS]
    assert len({*meanings, *palette.ELEMENTS}) == len(meanings) + len(palette.ELEMENTS)
    assert (plots.ELEMENTS, plots.LIMIT, plots.MEASURED) == (palette.ELEMENTS, palette.LIMIT, palette.OUT)  # of reports
    assert not {*palette.share_colours(["busy", "idle", "blocked", "judging", "locking"])} & {*palette.ELEMENTS}
    style = (Path(headrace_widgets.__file__).parent / "live_plot.css").read_text()
    assert not {*re.findall(r"#[0-9a-f]{6}", style)} & {*palette.ELEMENTS}
