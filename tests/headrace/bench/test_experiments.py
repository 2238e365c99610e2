"""Each of the papers' experiments at a tiny size: results are checked inside, the report is written.

Figures at these sizes mean nothing, so none is looked at.
"""

import json
import math

import pytest

from headrace import bench
from headrace.bench import experiments
from headrace.bench.experiments import Experiment, Figure, Line, Paper
from headrace.bench.experiments.page import write_page
from headrace.bench.rows import Row

PAPER = Paper("A paper, Figure 1", "a machine", ["It was <b>fast</b>: 3 t/s."])


@pytest.mark.slow
@pytest.mark.parametrize("name", experiments.NAMES)
def test_example_each_experiment_reports(name, tmp_path):
    finished = bench.experiment(name, tiny=True)
    assert finished.name == name and finished.rows and finished.figures and finished.paper.findings
    cases = [row.case for row in finished.rows]
    assert len(set(cases)) == len(cases)
    for row in finished.rows:
        assert row.bench == name and row.unit and math.isfinite(row.value) and row.value >= 0, row
    for figure in finished.figures:
        assert figure.x_label and figure.y_label and figure.lines
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


def test_line_of_unequal_lengths_is_refused():
    with pytest.raises(ValueError, match="line 'a': 2 x for 1 y"):
        Line("a", [1, 2], [1])
