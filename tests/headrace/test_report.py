"""The history of a run and the report made of it.

Method: a real run that is paced and reconfigured, sampled; then what the samples and the page must
say, read from the page's own text and from Bokeh's models. Cannot see: how it looks (look at it:
``headrace demo --fast`` and a browser).
"""

import math
import re

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.changes import Change
from headrace.errors import OutputError
from headrace.report import Record, describe, write_html
from headrace.report.plots import LEAST_LAG_S, _figure, plots_of
from support.workloads import Steered, eventually

ROWS = 20_000


@pytest.fixture(scope="module")
def record():
    """A run of about a second: half of the input on 1 thread, the other half on 3."""
    table = pa.table({"ts": range(ROWS), "k": [f"k{i % 50}" for i in range(ROWS)]})
    source = Steered(table, [ROWS // 2])
    query = hr.stream(source, event_time="ts").key_by("k").window(100).aggregate(n=hr.count())
    with query.start(threads=1, max_threads=3, rate=ROWS, sample_every=0.02) as run:
        try:
            source.let()
            eventually(lambda: run.metrics().operators["aggregate"].processed == ROWS // 2, 180)
            eventually(lambda: len(run.history) > 0, 180)  # a sample with one thread
            assert run.reconfigure(threads=3).wait(180).outcome == "done"
            sampled = len(run.history)
            eventually(lambda: len(run.history) > max(sampled, 10), 180)
        finally:
            source.let_all()
        assert run.wait(180)
        return Record("counting", "Count & compare <rows>.", run.history, ROWS, run.changes)


def test_example_history_adds_up(record):
    frame = record.history.to_pandas()
    assert len(frame) > 10
    assert frame["processed"].iloc[-1] == ROWS
    assert (frame[["seconds", "processed", "tuples_out"]].diff().dropna() >= 0).all(axis=None)
    intervals = frame["seconds"].diff().fillna(frame["seconds"].iloc[0])
    assert (frame["tuples_per_s"] * intervals).sum() == pytest.approx(ROWS)
    loads = frame[[c for c in frame if c.startswith("load_")]].mul(intervals, axis=0).sum()
    assert loads.sum() == pytest.approx(ROWS)
    assert loads["load_1"] > 0
    assert set(frame["threads"]) == {1, 3}
    latency = frame[["latency_p50_ms", "latency_p99_ms"]].dropna()
    assert len(latency) and (latency["latency_p50_ms"] <= latency["latency_p99_ms"]).all()
    assert 0.5 < frame["seconds"].iloc[-1]


def test_example_a_history_of_nothing():
    table = pa.table({"ts": pa.array([], pa.int64()), "k": pa.array([], pa.string())})
    with hr.stream(table, event_time="ts").key_by("k").window(10).aggregate(n=hr.count()).start() as run:
        run.wait()
    assert len(run.history.to_pandas()) == 0
    assert plots_of(Record("empty", "", run.history, 0), "empty").name == "empty"


def test_example_figures(record):
    figures = record.figures()
    assert figures["rows in"] == "20,000"
    assert figures["identical to the reference"] == "yes"
    assert re.fullmatch(r"1→3: \d+\.\d\d", figures["reconfigurations (ms)"])
    assert 0 < float(figures["latency p50 (ms)"]) <= float(figures["latency p99 (ms)"])
    record = Record("x", "", record.history, ROWS, [], "row 3, column 'n': 1, but the reference has 2")
    assert record.figures()["identical to the reference"].startswith("NO: row 3")
    assert describe(Change("a", {"threads": 2}, {"threads": 1}, outcome="superseded")) == "2→1: superseded"
    assert describe(Change("a", {"threads": 2}, {"threads": 2}, outcome="no change", completed_ns=1)) == "no change"
    moved = Change("a", {"threads": 2}, {"threads": 2}, outcome="unneeded", effects={"buckets_moved": 512})
    assert describe(moved) == "512 key buckets move: unneeded"
    moved.effects["buckets_moved"] = 1
    assert describe(moved) == "1 key bucket moves: unneeded"


def test_example_page_stands_alone(record, tmp_path):
    path = write_html(tmp_path / "report.html", "A <report>", [record, record])
    text = path.read_text()
    assert "<h1>A &lt;report&gt;</h1>" in text and "Count &amp; compare &lt;rows&gt;." in text
    # Scripts and styles are in the page: nothing is fetched when it is opened.
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", text)
    assert text.count("<h2>counting</h2>") == 2
    for word in ("Throughput", "Lag behind the rate", "longest lag (s)", "Latency of results",
                 "Load of each thread", "tuples per second", "milliseconds",
                 "updates per second", "active threads", "seconds since the first tuple", "1 → 3"):  # fmt: skip
        assert word in text or word.encode("ascii", "backslashreplace").decode() in text


def test_example_plots_mark_the_change(record):
    from bokeh.models import Label, Span
    from bokeh.plotting import figure

    grid = plots_of(record, "plots")
    plots = list(grid.select({"type": figure}))
    assert len(plots) == 5
    change = record.changes[0]
    at = record.history.seconds_of(change.completed_ns)
    for plot in plots:
        spans = [span for span in plot.center if isinstance(span, Span)]
        labels = [label for label in plot.center if isinstance(label, Label)]
        assert [span.location for span in spans] == [at]
        assert [label.text for label in labels] == ["1 → 3"]
        assert plot.y_range.start <= labels[0].y <= plot.y_range.end
        assert plot.xaxis[0].axis_label and plot.yaxis[0].axis_label
        assert math.isfinite(plot.y_range.end)
    assert np.isclose(at, record.history.seconds_of(change.completed_ns))
    assert 0 < at < record.history.to_pandas()["seconds"].max()


def test_example_no_line_is_drawn_over_a_label():
    from bokeh.models import Label, Range1d, Span

    marks = [(1.0, "scheme chains → lock"), (1.5, "2 → 3")]
    parts = _figure("Throughput", "tuples per second", Range1d(0, 10), (0.0, 1.0), marks, 10.0).center
    drawn = [part for part in parts if isinstance(part, Label | Span)]
    assert [type(part) for part in drawn] == [Span, Span, Label, Label], "labels come last"
    assert {part.background_fill_color for part in drawn[2:]} == {"white"}


def test_example_the_lag_is_drawn_as_it_was():
    """Far more is due than the one thread takes; then the run is as fast as it can be, and nothing is ever due."""
    table = pa.table({"ts": range(ROWS), "k": [f"k{i % 50}" for i in range(ROWS)]})
    source = Steered(table, [ROWS // 2])
    query = hr.stream(source, event_time="ts").key_by("k").window(100).aggregate(n=hr.count())
    with query.start(rate=1_000_000, sample_every=0.02) as run:
        try:
            source.let()
            eventually(lambda: run.history.to_pandas()["lag_s"].max() > 2 * LEAST_LAG_S, 180)
        finally:
            source.let_all()
        assert run.wait(180)
        held_up = Record("held up", "", run.history, ROWS)
    plot = lag_plot(held_up)
    frame = held_up.history.to_pandas()
    (area, line, late) = (one.data_source.data for one in plot.renderers)
    assert list(line["lag_s"]) == pytest.approx(list(frame["lag_s"])) and area is line
    known = frame.dropna(subset=["latency_p99_ms"])
    assert list(late["delay_s"]) == pytest.approx(list(known["lag_s"] + known["latency_p99_ms"] / 1e3))
    assert plot.y_range.start == 0 and plot.y_range.end > frame["lag_s"].max()
    assert float(held_up.figures()["longest lag (s)"]) == pytest.approx(frame["lag_s"].max(), abs=0.01)

    with hr.stream(table, event_time="ts").key_by("k").window(100).aggregate(n=hr.count()).start() as run:
        run.wait()
        unpaced = Record("unpaced", "", run.history, ROWS)
    assert lag_plot(unpaced) is None and "longest lag (s)" not in unpaced.figures()


def lag_plot(record):
    """The plot of the lag; None where there is none."""
    from bokeh.plotting import figure

    plots = plots_of(record, "plots").select({"type": figure})
    return next((plot for plot in plots if plot.title.text == "Lag behind the rate"), None)


def test_example_a_page_that_cannot_be_written(record, tmp_path):
    with pytest.raises(OutputError, match="writable"):
        write_html(tmp_path / "nowhere" / "report.html", "x", [record])
