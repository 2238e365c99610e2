"""README's picture of a recorded run: what is drawn of made-up figures, and that a real run can be recorded.

Cannot see: whether it looks well; look at it, in light and dark.
"""

import re
from xml.etree import ElementTree

import pytest

from headrace_bench import elasticity
from headrace_bench.elasticity import HEIGHT, LEFT, RIGHT, STRIPS, WIDTH, Recorded, draw

MADE_UP = Recorded(
    seconds=[1.0, 2.0, 3.0, 4.0],
    offered=[100.0, 100.0, 200.0, 200.0],
    processed=[100.0, 100.0, 150.0, 250.0],
    behind_s=[0.0, 0.0, 0.25, 0.0],
    added_at_s=3.0,
    took_ms=0.4,
    capacities=(150.0, 290.0),
)


def points(kind):
    """The points of a curve, and the lowest and highest place of its strip."""
    (path,) = re.findall(rf'<path class="{kind}" d="M([^"]*)"', draw(MADE_UP, "a note"))
    return [tuple(map(float, point.split())) for point in path.split("L")]


def test_example_it_is_well_formed_and_says_what_was_measured():
    text = draw(MADE_UP, "a note")
    root = ElementTree.fromstring(text)
    assert root.get("viewBox") == f"0 0 {WIDTH} {HEIGHT}"
    assert "a note" in text and "(threads=2): 0.4 ms" in text
    assert "prefers-color-scheme: dark" in text


def test_example_curves_are_where_their_numbers_are():
    top, height = STRIPS["posts"]
    done = points("done")
    assert [y for _, y in done] == pytest.approx([top + height * (1 - n / 300) for n in (100, 100, 150, 250)], abs=0.06)
    assert done[-1][0] == WIDTH - RIGHT and done[0][0] == pytest.approx(LEFT + (WIDTH - LEFT - RIGHT) / 4, abs=0.06)
    due = points("due")  # a step: up where the rate rises, not before
    assert (due[4][0], due[5][0]) == (done[2][0], done[2][0]) and due[4][1] > due[5][1]
    top, height = STRIPS["lag"]
    lag = points("lag")
    assert lag[0][1] == lag[-1][1] == top + height
    assert min(y for _, y in lag) == lag[3][1] == pytest.approx(top + height * (1 - 0.25 / 0.3), abs=0.06)


@pytest.fixture
def brief(monkeypatch):
    """A recording of five seconds."""
    for name, seconds in (("CALM_S", 1.0), ("OVERLOAD_S", 2.0), ("AFTER_S", 2.0)):
        monkeypatch.setattr(elasticity, name, seconds)


@pytest.mark.slow
def test_example_a_real_run_is_recorded_and_a_busy_machine_gives_no_picture(brief, monkeypatch, tmp_path, capfd):
    recorded = elasticity.record()
    monkeypatch.setattr(elasticity, "record", lambda: recorded)  # once is enough
    file = tmp_path / "run.svg"
    monkeypatch.setattr(elasticity, "WORTH_IT", 0.0)
    assert elasticity.main(str(file)) == 0
    assert "made by make pictures" in ElementTree.parse(file).getroot()[-1].text
    file.unlink()
    monkeypatch.setattr(elasticity, "WORTH_IT", 99.0)
    assert elasticity.main(str(file)) == 1
    assert "is the machine busy?" in capfd.readouterr().err and list(tmp_path.iterdir()) == []
