"""What an engine declares is shown everywhere, without a line in a shared room.

Method      an engine that does not exist (`support.made_up`), with a counter, a gauge by stage, a text, a histogram and
            shares of its own; what snapshots, tables, history, Prometheus and report then say of each
            And that the rooms which do so, and that of controllers, name no measure that only engines declare.
Planted     each place leaves one of them out; a name of an engine's
Cannot see  the dashboard; whether the plots look well
"""

import ast
import json
import math
import urllib.request
from pathlib import Path

import pytest
from bokeh.models import Label
from bokeh.plotting import figure
from prometheus_client.parser import text_string_to_metric_families

import headrace as hr
from headrace.changes import Change
from headrace.elastic.measures import MEASURES as OF_ELASTIC
from headrace.metrics import measures
from headrace.metrics.measures import NEEDED, Measure
from headrace.metrics.snapshot import OperatorMetrics
from headrace.ordering.measures import MEASURES as OF_ORDERING
from headrace.prometheus import serve
from headrace.report import Record, write_html
from headrace.report.plots import plots_of
from headrace.report.record import figures_of_measure
from headrace.synchronization.measures import MEASURES as OF_SYNCHRONIZATION
from headrace.transactions.measures import MEASURES as OF_TRANSACTIONS
from support.made_up import OWN, MadeUpRun


@pytest.fixture
def run():
    return MadeUpRun()


def close(milliseconds):
    """A histogram is known within its bins."""
    return pytest.approx(milliseconds, rel=0.05)


# -- where it is shown: each gives {measure: what is said of it}, of those that are there -------------


def in_a_dict(run):
    plain = json.loads(json.dumps(run.metrics().to_dict()))["operators"]["transact"]
    found = {m.name: plain[m.name] for m in OWN if m.name in plain}
    if "wait_ms" in plain:
        found["wait"] = plain["wait_ms"]
    assert (plain["useful_share"], plain["lock_share"]) == ([0.75, 0.75, 0.0], [0.25, 0.25, 0.0])
    return found


def in_a_table(run):
    (row,) = run.metrics().to_pandas().to_dict("records")
    found = {m.name: row[m.name] for m in OWN if m.name in row}
    if "backlog_2" in row:
        found["backlog"] = [row[f"backlog_{i}"] for i in range(3)]
    if "wait_p99_ms" in row:
        found["wait"] = row["wait_p99_ms"]
    assert row["rejected_per_s"] == pytest.approx(100)
    return found


def in_the_history(run):
    row = run.history.to_pandas().iloc[-1]
    columns = {
        "rejected": "rejected_per_s", "aborts": "aborts", "backlog": "backlog_2", "versions": "versions",
        "scheme": "scheme", "wait": "wait_p99_ms", "useful_ns": "useful_0", "lock_ns": "lock_1",
    }  # fmt: skip
    return {name: row[column] for name, column in columns.items() if column in row}


def in_prometheus(run):
    with serve(run) as endpoint:
        text = urllib.request.urlopen(endpoint.url, timeout=30).read().decode()
    page = {
        (sample.name.removeprefix("headrace_"), *(v for k, v in sorted(sample.labels.items()) if k != "operator")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    keys = {
        "rejected": ("rejected_total",), "aborts": ("aborts_total",), "backlog": ("backlog", "2"),
        "versions": ("versions",), "scheme": ("scheme", "chains"), "wait": ("wait_milliseconds", "p99"),
        "useful_ns": ("worker_work_seconds_total", "useful", "0"), "lock_ns": ("worker_work_seconds_total", "lock", "1"),
    }  # fmt: skip
    return {name: page[key] for name, key in keys.items() if key in page}


def in_the_figures(run):
    figures = Record("made up", "", run.history, 500).figures()
    names = {
        "rejected": "rejected transactions per second", "versions": "versions", "scheme": "scheme",
        "wait": "wait p99 (ms)",
    }  # fmt: skip
    return {name: figures[key] for name, key in names.items() if key in figures}


def in_the_plots(run):
    grid = plots_of(Record("made up", "", run.history, 500), "made up")
    plots = {plot.title.text: plot for plot in grid.select({"type": figure})}
    titles = {
        "rejected": "Rejected transactions", "backlog": "Backlog of each stage", "versions": "Versions",
        "wait": "Wait for the punctuation, each interval", "useful_ns": "Useful: share of each thread's time",
        "lock_ns": "Lock: share of each thread's time",
    }  # fmt: skip
    return {name: plots[title].yaxis[0].axis_label for name, title in titles.items() if title in plots}


EVERYWHERE = {
    in_a_dict: {
        "rejected": 50, "aborts": 15, "backlog": [7, 2, 5], "versions": 5_000, "scheme": "chains",
        "wait": {"p50": close(1), "p99": close(1), "max": close(8)},
        "useful_ns": [300_000_000, 150_000_000, 0], "lock_ns": [100_000_000, 50_000_000, 0],
    },
    # What there is for each worker is not in a table of operators.
    in_a_table: {
        "rejected": 50, "aborts": 15, "backlog": [7, 2, 5], "versions": 5_000, "scheme": "chains", "wait": close(1),
    },
    in_the_history: {
        "rejected": pytest.approx(100), "aborts": 15, "backlog": 5, "versions": 5_000, "scheme": "chains",
        "wait": close(1), "useful_ns": 0.75, "lock_ns": 0.25,
    },
    in_prometheus: {
        "rejected": 50, "aborts": 15, "backlog": 5, "versions": 5_000, "scheme": 1, "wait": close(1),
        "useful_ns": 0.3, "lock_ns": 0.05,
    },
    in_the_figures: {"rejected": "100", "versions": "5,000", "scheme": "chains", "wait": "0.98"},
    in_the_plots: {
        "rejected": "transactions per second", "backlog": "tuples", "versions": "versions", "wait": "milliseconds",
        "useful_ns": "share of the time", "lock_ns": "share of the time",
    },
}  # fmt: skip


def look(place, run):
    found, wanted = place(run), EVERYWHERE[place]
    left_out = [name for name in wanted if name not in found]
    assert not left_out, f"left out: {left_out}"
    assert found == wanted


@pytest.mark.parametrize("place", EVERYWHERE)
def test_example_what_is_declared_is_shown(place, run):
    look(place, run)


def test_example_what_every_operator_has(run):
    """Without windows, buckets, event time: tables, plots and figures have what there is, and nothing else."""
    frame = run.history.to_pandas()
    assert (frame["tuples_per_s"].round(6) == 900).all() and (frame["threads"] == 2).all()
    assert list(frame["busy_0"]) == [1.0] * 5 and list(frame["busy_2"]) == [0.0] * 5  # nothing else is counted
    assert list(frame["scheme"].fillna("none yet")) == ["none yet", *["chains"] * 4]
    assert not [name for name in frame if name.startswith(("load", "gap", "latency", "imbalance", "live"))]
    assert run.history.bucket_loads().shape == (5, 0)
    plots = plots_of(Record("made up", "", run.history, 500), "made up").select({"type": figure})
    titles = [plot.title.text for plot in plots]
    assert {"Throughput", "Threads"} < set(titles) and len(titles) == 8
    assert "Aborts" not in titles  # declared to be a column at most
    figures = Record("made up", "", run.history, 500).figures()
    assert figures["throughput (tuples/s)"] == "1,000" and not [name for name in figures if "latency" in name]


@pytest.mark.parametrize(
    ("unit", "value", "figure"),
    [
        ("versions", 0.0, {"versions held": "none"}), ("versions", 0, {"versions held": "none"}),
        ("versions", 2.5, {"versions held": "2.50"}), ("bytes", 0, {"versions held (bytes)": "0"}),
    ],
)  # fmt: skip
def test_example_a_figure_of_what_there_is_none_of(unit, value, figure):
    held = Measure("held", unit, "Versions held.", label="versions held")
    values = {**dict.fromkeys(("added", "processed", "results"), 0), "held": value}
    assert figures_of_measure(OperatorMetrics("transact", 1, 1, [0], 1.0, None, (*NEEDED, held), values), held) == figure


def test_example_a_change_of_what_is_not_threads(run):
    """The plots are marked by what it was, and the threads are those that were sampled."""
    change = Change("transact", {"batch": 64}, {"batch": 128}, "done", completed_ns=10**9 + 2 * 10**8)
    plots = list(plots_of(Record("made up", "", run.history, 500, [change]), "made up").select({"type": figure}))
    for plot in plots:
        assert [label.text for label in plot.center if isinstance(label, Label)] == ["batch 64 → 128"]
    (threads,) = (plot for plot in plots if plot.title.text == "Threads")
    assert list(threads.renderers[0].data_source.data["y"]) == [2, 2]


def test_example_a_report_of_two_engines(run, tmp_path):
    """Each run has its own figures; where another has none, there is a dash."""
    other = MadeUpRun()
    for sample in other.history.samples:
        own = sample.metrics.operators["transact"]
        kept = [m for m in own.measures if m.name != "wait"]
        values = {m.name: own.values[m.name] for m in kept}
        sample.metrics.operators["transact"] = OperatorMetrics(
            "transact", 2, 3, [0, 1], own.seconds, None, tuple(kept), values
        )
    records = [Record("without", "", other.history, 500), Record("with", "", run.history, 500)]
    text = write_html(tmp_path / "report.html", "Two engines", records).read_text()
    assert "<td>wait p99 (ms)</td><td>-</td><td>0.98</td>" in text
    assert text.index("<td>wait p99 (ms)</td>") < text.index("<td>identical to the reference</td>")


def test_example_what_was_zero_throughout_is_said_and_not_drawn(run, tmp_path):
    for sample in run.history.samples:
        values = sample.metrics.operators["transact"].values
        values["versions"], values["backlog"] = 0, [0, 0, 0]
    record = Record("idle", "A run.", run.history, 500)
    text = write_html(tmp_path / "report.html", "Idle", [record]).read_text()
    assert "<p>A run. Zero throughout, and not drawn: backlog, versions.</p>" in text
    titles = {plot.title.text for plot in plots_of(record, "idle").select({"type": figure})}
    assert "Rejected transactions" in titles and not titles & {"Versions", "Backlog of each stage"}


def test_example_nothing_was_counted_yet(run):
    """A histogram that nobody has filled is no number anywhere."""
    empty = MadeUpRun(1)
    sample = empty.history.samples[0]
    own = sample.metrics.operators["transact"]
    sample.metrics.operators["transact"] = OperatorMetrics(
        "transact", 2, 3, [0, 1], own.seconds, None, own.measures, {**own.values, "wait": None}
    )
    assert math.isnan(empty.history.to_pandas()["wait_p99_ms"].iloc[0])
    assert sample.metrics.operators["transact"].wait_ms == {}
    assert Record("made up", "", empty.history, 100).figures()["wait p99 (ms)"] == "-"


# -- planted mistakes --------------------------------------------------------------------------------


def forget_in(method):
    """A method of a snapshot that leaves the backlog out."""
    whole = getattr(OperatorMetrics, method)

    def forgetful(metrics):
        return {name: value for name, value in whole(metrics).items() if not name.startswith("backlog")}

    return OperatorMetrics, method, forgetful


def shown_less(name):
    """A measure that is taken for one of those that are in snapshots only."""
    whole = Measure.goes_to

    def goes_to(measure, place):
        return place == "snapshot" if measure.name == name else whole(measure, place)

    return Measure, "goes_to", goes_to


@pytest.mark.parametrize(
    ("place", "mistake", "name"),
    [
        (in_a_dict, forget_in("to_dict"), "backlog"),
        (in_a_table, forget_in("to_row"), "backlog"),
        *[(in_the_history, shown_less(m.name), m.name) for m in OWN],
        *[(in_prometheus, shown_less(name), name) for name in ("rejected", "backlog", "scheme", "wait", "useful_ns")],
        *[(in_the_figures, shown_less(name), name) for name in ("rejected", "scheme", "wait")],
        *[(in_the_plots, shown_less(name), name) for name in ("rejected", "backlog", "wait", "lock_ns")],
    ],
)
def test_planted_a_measure_is_left_out(place, mistake, name, run, monkeypatch):
    monkeypatch.setattr(*mistake)
    with pytest.raises(AssertionError, match=f"left out: \\['{name}'\\]"):
        look(place, run)


SHARED = ("metrics", "control", "prometheus.py", "report")
OTHER_THINGS = {"filtered", "waiting", "updates"}
"""Names of measures that are words of the books (rows filtered, rows waiting) and a unit, too."""


def measures_named(root):
    """File and name of each string that is the name of a measure which only engines declare."""
    common = {one.name for one in vars(measures).values() if isinstance(one, Measure)}
    declared = {one.name for each in (OF_ELASTIC, OF_TRANSACTIONS, OF_ORDERING, OF_SYNCHRONIZATION) for one in each}
    assert len(declared - common) > 30
    files = [file for room in SHARED for file in ((root / room).rglob("*.py") if "." not in room else [root / room])]
    return [
        (file.name, node.value)
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        and node.value in declared - common - OTHER_THINGS
    ]  # fmt: skip


def test_example_no_shared_room_names_a_measure_of_an_engine():
    assert measures_named(Path(hr.__file__).parent) == []


def test_planted_a_name_is_found(tmp_path):
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "observation.py").write_text('after = new.values["depth_ms"]\n')
    (tmp_path / "prometheus.py").write_text("")
    assert measures_named(tmp_path) == [("observation.py", "depth_ms")]
