"""Each of the papers' experiments at a tiny size: results are checked inside, the report is written.

Figures at these sizes mean nothing, so none is looked at.
"""

import json
import math
import re
import threading
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import headrace_bench as bench
from headrace_bench import experiments
from headrace_bench.experiments import Experiment, Figure, Line, Paper, q1, q3
from headrace_bench.experiments.figure import COLORS, LEGEND_ROW, box_of, log_ticks, places_of, plot_of
from headrace_bench.experiments.kept import keep, kept, other_work
from headrace_bench.experiments.page import write_page
from headrace_bench.rows import Row

LONG = ("viper", "q1", "q3", "q4", "q5", "q6", "tstream", "ordered", "dgs")
MANY = ("viper", "tstream", "ordered", "dgs")
"""Those that have most figures, which notebook 95 draws, too."""
PAPER = Paper("A paper, Figure 1", "a machine", ["It was <b>fast</b>: 3 t/s."])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.campaign if name in LONG else ()) for name in experiments.NAMES]
)
def test_example_each_experiment_reports(name, tmp_path):
    finished = bench.experiment(name, tiny=True)
    assert finished.name == name and finished.rows and finished.figures and finished.paper.findings
    cases = [row.case for row in finished.rows]
    assert len(set(cases)) == len(cases)
    for row in finished.rows:
        assert row.bench == name and row.unit and math.isfinite(row.value) and row.value >= 0, row
    for figure in finished.figures:
        assert figure.x_label and figure.y_label and (figure.lines or figure.boxes)
    json.dumps(finished.to_dict())
    assert write_page(tmp_path / "page.html", finished).stat().st_size > 100_000


def test_example_a_page_shows_everything(tmp_path):
    lines = [Line("ours", [1, 2, 4], [1.0, 2.0, math.nan]), Line("model", [1, 72], [1.0, 50.0], predicted=True)]
    finished = Experiment(
        "q0",
        "Is it <fast>?",
        "What was run.",
        PAPER,
        [Row("q0", "ours & theirs", 2.0, "t/s", goal=3.0, baseline=1.0, baseline_name="theirs")],
        [Figure("Throughput", "threads", "t/s", lines, log_y=True, note="A note.")],
        ["Memory is fast enough."],
    )
    html = write_page(tmp_path / "page.html", finished).read_text()
    for text in ("Is it &lt;fast&gt;?", "ours &amp; theirs", "model (predicted)", "A note.", "A paper, Figure 1"):
        assert text in html, text
    assert "<b>fast</b>" not in html and "Memory is fast enough." in html and 'class="wrong"' in html
    assert '<script src=' not in html and "<link" not in html  # needs no network


def test_example_boxes_are_drawn_and_named():
    boxes = [box_of("seed 7", [3.0, 1.0, 2.0, math.nan, 40.0]), box_of("seed 8", [5.0])]
    assert boxes[0].percentiles == pytest.approx([1.03, 1.75, 2.5, 12.25, 38.89]) and boxes[0].mean == 11.5
    assert boxes[1].percentiles == [5.0] * 5
    plot = plot_of(Figure("f", "run", "ms", [], log_y=True, boxes=boxes))
    assert plot.xaxis[0].major_label_overrides == {1: "seed 7", 2: "seed 8"}
    named = plot_of(Figure("f", "application", "y", [Line("a", [1, 2], [3, 4])], x_names=["gs", "sl"]))
    assert named.xaxis[0].major_label_overrides == {1: "gs", 2: "sl"} and named.x_range.end == 2.5
    assert plot.yaxis[0].ticker.ticks[0] <= 1 and plot.yaxis[0].ticker.ticks[-1] >= 30
    with pytest.raises(ValueError, match="box 'none': no value"):
        box_of("none", [math.nan])


def test_example_a_long_title_has_two_lines():
    title = "new_seg, in a channel for each reader: CPU time per tuple"
    first, second = plot_of(Figure(title, "instances", "ns", [Line("a", [1, 2], [3, 4])])).title.text.split("\n")
    assert f"{first} {second}" == title and len(first) <= 42
    assert "\n" not in plot_of(Figure("new_seg: CPU time", "instances", "ns", [Line("a", [1], [3])])).title.text


def test_example_categories_are_not_connected():
    lines = [Line("ours", [1, 2], [3.0, 4.0], deviation=[0.5, 0.0]), Line("theirs", [1, 2], [5.0, math.nan])]
    kinds = lambda plot: [type(one.glyph).__name__ for one in plot.renderers]  # noqa: E731
    bars = plot_of(Figure("f", "application", "y", lines, x_names=["gs", "sl"]))
    assert kinds(bars) == ["VBar", "Segment", "VBar"]
    ends = [(x - one.glyph.width / 2, x + one.glyph.width / 2) for one in bars.renderers if hasattr(one.glyph, "width")
            for x in one.data_source.data["x"]]  # fmt: skip
    ends.sort()
    assert all(right < left for (_, right), (left, _) in pairwise(ends)), "no bar covers another"
    assert 0.5 < ends[0][0] and ends[1][1] < 1.5 < ends[2][0], "each beside the name it belongs to"
    assert [item.label.value for item in bars.legend[0].items] == ["ours", "theirs"]
    assert set(kinds(plot_of(Figure("f", "application", "y", lines, log_y=True, x_names=["gs", "sl"])))) == {"Scatter", "Segment"}
    assert "Line" in kinds(plot_of(Figure("f", "heartbeats", "y", lines, x_names=["10", "1,000"]))), "quantities"


def test_example_axes_label_whole_threads_and_the_points():
    counted = [Line("ours", [1, 2, 4], [1, 2, 1], steps=True)]
    plot = plot_of(Figure("f", "threads", "threads", counted))
    assert plot.xaxis[0].ticker.ticks == [1, 2, 4] and plot.yaxis[0].ticker.min_interval == 1
    windows = [Line("ours", [125, 500], [3.0, 40.0])]
    plot = plot_of(Figure("f", "window", "ms", windows, log_x=True, log_y=True))
    assert plot.xaxis[0].ticker.ticks == [125, 500] and plot.yaxis[0].ticker.ticks == [1, 2, 5, 10, 20, 50, 100]
    assert log_ticks(0.02, 400) == [0.01, 0.1, 1, 10, 100, 1000]
    for low, high in ((1.3, 3.4), (2.1, 4.9), (0.51, 0.99), (8, 13)):
        assert sum(low <= tick <= high for tick in log_ticks(low, high)) >= 3, "enough to read a value in between"


def test_example_a_long_legend_takes_nothing_of_its_plot():
    def drawn(*names):
        return plot_of(Figure("f", "x", "y", [Line(name, [1], [1]) for name in names]))

    few, many = drawn("a", "b", "c"), drawn(*(f"{i} partition, a quarter" for i in range(8)))
    assert few.legend[0].ncols == 3 and many.legend[0].ncols == 2
    assert many.height == few.height + 2 * LEGEND_ROW, "four rows: two more than there is room for"


def test_example_a_legend_is_no_wider_than_its_plot():
    """The widest entries of its columns count: these were seen to be cut off, or to reach below the plot beside theirs."""

    def columns(*names):
        return plot_of(Figure("f", "x", "y", [Line(name, [1], [1]) for name in names])).legend[0].ncols

    assert columns("plan", "loop, presorted", "loop that merges", "plan (predicted)") == 2
    assert columns("compared", "70% of the threads' capacity", "80% of the threads' capacity") == 1
    assert columns("nonblocking", "nonblocking (predicted)", "lock", "lock (predicted)") == 2


def test_example_a_line_has_one_colour_in_all_figures():
    def figure(*names):
        return Figure("f", "x", "y", [Line(name, [1], [1]) for name in names])

    both, few, other = places_of([figure("chains", "lock"), figure("serial", "chains"), figure("lock", "serial", "chains")])
    assert both == {"chains": 0, "lock": 1} and few == {"chains": 0, "serial": 1}
    assert other["chains"] == 0 and len(set(other.values())) == 3  # lock and serial had the same one: one of them changes
    (many,) = places_of([figure(*map(str, range(9)))])
    assert len({place % COLORS for place in many.values()}) == COLORS
    predicted = [Line("ours", [1], [1]), Line("ours", [2], [2], predicted=True)]
    drawn = plot_of(Figure("f", "x", "y", predicted)).renderers
    assert len({each.glyph.line_color for each in drawn}) == 1


def test_example_quantiles_have_the_colour_of_what_they_are_of():
    lines = [Line(name, [1, 2], [1, 2]) for name in ("ours, p50", "ours, p99", "theirs, p50", "theirs, p99")]
    rate, latency = Figure("r", "x", "y", [Line("theirs", [1], [1]), Line("ours", [1], [1])]), Figure("l", "x", "y", lines)
    _, places = places_of([rate, latency])
    assert places == {"ours, p50": 1, "ours, p99": 1, "theirs, p50": 0, "theirs, p99": 0}
    drawn = [each.glyph for each in plot_of(latency, places=places).renderers]
    curves = [(each.line_color, each.line_dash) for each in drawn if type(each).__name__ == "Line"]
    assert [bool(dash) for _, dash in curves] == [False, True, False, True]
    assert curves[0][0] == curves[1][0] != curves[2][0] == curves[3][0]


def test_example_a_kept_experiment_is_read_as_it_was(tmp_path):
    ours = Line("ours", [1, np.int64(2)], [np.float64(0.123456789), math.nan])
    lines = [ours, Line("model", range(1, 2), [2.0], predicted=True)]
    rows = [
        Row("q0", "with a goal", 2.0, "t/s", goal=3.0, baseline=1.0, baseline_name="theirs", goal_is_ratio=True),
        Row("q0", "without", math.nan, "s", note="too slow"),
    ]
    finished = Experiment("q0", "t", "x", PAPER, rows, [Figure("f", "x", "y", lines, log_y=True, note="n")], ["a"])
    path = keep(finished, "small", 0.25, tmp_path)
    again = kept("q0", tmp_path)
    assert again.experiment.to_pandas().equals(finished.to_pandas())
    first = again.experiment.figures[0]
    assert first.lines[0].y[0] == 0.12346 and math.isnan(first.lines[0].y[1]) and first.lines[0].x == [1, 2]
    assert (first.log_y, first.note, first.lines[1].predicted) == (True, "n", True)
    assert again.experiment.paper == Paper(PAPER.source, PAPER.machine, list(PAPER.findings))
    assert str(again).startswith("small size, measured on 20") and str(again).endswith("was quiet")
    assert "NaN" not in path.read_text()
    keep(finished, "small", 0.25, tmp_path, seen={"two_threads": (1.14, 1.9, 1.96), "line_ns": (16.4, 35.0, 240.2)})
    said = str(kept("q0", tmp_path))
    assert said.endswith(
        "was quiet; two independent threads did 1.1 to 2.0 times what one did, and a cache line took 16 to 240 ns from"
        " one core to the other"
    )
    keep(finished, "small", 0.25, tmp_path, seen={"two_threads": (1.0, 1.0, 1.0), "line_ns": (math.nan,) * 3})  # one core only
    assert str(kept("q0", tmp_path)).endswith("did 1.0 to 1.0 times what one did")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.campaign if name in MANY else ()) for name in experiments.NAMES]
)
def test_example_figures_of_each_experiment_are_kept(name):
    """What notebook 95 shows: a real run, and not a tiny one."""
    found = kept(name)
    assert found.experiment.name == name and found.size in ("small", "full") and found.date and found.machine
    assert found.experiment.rows and found.experiment.plots() and found.experiment.paper.findings
    read = [text for each in found.experiment.figures for text in (each.title, each.x_label, each.y_label, each.note)]
    read += [text for row in found.experiment.rows for text in (row.case, row.unit, row.note)]
    assert not [text for text in read if re.search(r"\bus\b", text)], "microseconds are µs"


def test_example_work_of_others_is_seen():
    before = other_work(looks=1)
    stop = threading.Event()
    busy = [threading.Thread(target=spin, args=(stop,), daemon=True) for _ in range(3)]
    for thread in busy:
        thread.start()
    seen = []
    while not seen or (max(seen) < 1 and len(seen) < 200):  # the system counts those that want a core just then
        seen.append(other_work(looks=1))
    stop.set()
    for thread in busy:
        thread.join()
    assert before >= 0 and max(seen) >= 1


def spin(stop):
    array = np.zeros(1 << 20)
    while not stop.is_set():
        np.sqrt(array, array)  # without the interpreter's lock


def test_example_main_keeps_an_experiment(tmp_path, monkeypatch, capsys):
    row = Row("q0", "case", 1.0, "s")
    finished = Experiment("q0", "t", "t", PAPER, [row], [Figure("f", "x", "y", [Line("l", [1], [1])])])
    monkeypatch.setattr(bench, "NAMES", (*bench.NAMES, "q0"))
    monkeypatch.setattr(experiments, "NAMES", ("q0",))
    monkeypatch.setattr(bench, "experiment", lambda name, full: finished)
    assert bench.main("q0", folder=str(tmp_path / "reports")) == 0
    assert json.loads((tmp_path / "reports" / "q0.json").read_text())["rows"][0]["case"] == "case"
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == ["q0.html", "q0.json"]
    finished.markdown = "| a table |\n"
    assert bench.main("q0", folder=str(tmp_path / "reports")) == 0
    assert (tmp_path / "reports" / "q0.md").read_text() == finished.markdown
    (tmp_path / "file").write_text("")
    assert bench.main("q0", folder=str(tmp_path / "file")) == 2
    assert "--out" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("per_second", [0, 1_000_000])
def test_oracle_the_sources_map_makes_a_tuple_of_each_key(per_second):
    """Q1's third side: the store's memory is blank before the Map writes it, also in a second run on the same memory."""
    tweets = q1.Tweets("wordcount, few words", 40_000)
    table = tweets.tables()["SN"]
    wanted = q1.query("SN", table).to_arrow()
    first = None
    for threads in (1, 2):
        kept = Kept()
        first = run = q1.Mapped(tweets, table, threads, like=first, collect=kept)
        run.run(per_second=per_second)
        assert pa.Table.from_batches(kept.batches).equals(wanted)


class Kept:
    """A consumer of results that keeps them."""

    def __init__(self):
        self.rows, self.batches = 0, []

    def write(self, batch):
        self.rows += batch.num_rows
        self.batches.append(batch)

    def progress(self, watermark):
        pass

    def close(self):
        pass


def test_line_of_unequal_lengths_is_refused():
    with pytest.raises(ValueError, match="line 'a': 2 x for 1 y"):
        Line("a", [1, 2], [1])
    with pytest.raises(ValueError, match="line 'a': 1 deviations for 2 y"):
        Line("a", [1, 2], [1, 2], deviation=[0.5])


def test_example_deviations_are_bars(tmp_path):
    finished = Experiment("q0", "t", "x", PAPER)
    finished.figures.append(Figure("f", "threads", "t/s", [Line("ours", [1, 2], [10.0, 20.0], deviation=[1.0, 2.5])]))
    keep(finished, "small", 0.0, tmp_path)
    for figure in (*finished.figures, *kept("q0", tmp_path).experiment.figures):
        (bars,) = [each for each in plot_of(figure).renderers if type(each.glyph).__name__ == "Segment"]
        assert [list(bars.data_source.data[name]) for name in ("y0", "y1")] == [[9.0, 17.5], [11.0, 22.5]]
        assert bars.glyph.line_color == plot_of(figure).renderers[0].glyph.line_color


def test_example_the_rate_that_is_sustained_and_its_deviation():
    """Figure 8: 6e9 comparisons a second are 3,162 tuples a second of each side that meet 5 minutes of the other."""
    names = [*q3.WAYS[:2], q3.ADHOC]
    spread = {(way, n): [n * 60e3, n * 60e3, n * 240e3] for way in names for n in (1, 4)}
    drawn = q3._sustained_figure(100_000, (1, 4), 6e9, spread)
    one, band = drawn.lines[:2]
    assert (one.name, list(one.y)) == ("1T", [pytest.approx(3162.28, abs=0.01)])
    rates = [[math.sqrt(n * 60e3 * 1e5 / 600), math.sqrt(n * 240e3 * 1e5 / 600)] for n in (1, 4)]
    assert band.y == pytest.approx([low for low, _ in rates])
    assert band.deviation == pytest.approx([(high - low) * math.sqrt(2) / 3 for low, high in rates])
    assert [line.name for line in drawn.lines] == ["1T", *names] and drawn.x_label == "threads"
