"""Method: a dashboard on a real program, watched and steered through public names only; and drawings of made-up counters.

Property: the tree of the plan in force is drawn, with what each node owns and does; a way to make a plan that is chosen is
in force afterwards, by the line of Python that is printed; who waits for whom is what the run is made to wait for.
Oracle: the run's own plan and counters.
Cannot see: anything in the browser; tests/browser drives a real one.
"""

import contextlib
import itertools
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace_widgets import Dashboard, replay
from headrace_widgets.plan_panel import PlanPanel
from headrace_widgets.plan_tree import SAMPLES, Waits, picture
from support import event_window
from support.dashboards import problem
from support.made_up_run import Public
from support.workloads import Steered, eventually

PROGRAM = hr.program(**event_window.WINDOW)
STREAMS = {"value": 2, "barrier": 1}
COUNT = 40_000
BEFORE = 2_003
"""Events before the one that waits for the stream that is held: 1,000 of each stream of values, and three barriers."""


class Counters:
    """What a drawing asks of a snapshot."""

    def __init__(self, seconds, plan, events, busy_us, joins):
        names = [one.name for one in plan.nodes]
        self.seconds = seconds
        self.values = {
            what: dict(zip(names, values, strict=True))
            for what, values in (("events", events), ("node_time", busy_us), ("node_joins", joins), ("backlog", [0, 7, 0]))
        }


def boxes(drawing):
    return {node["title"]: node for node in drawing["nodes"]}


def test_example_a_drawing_by_hand():
    """Between two snapshots a second apart: node 0 joined 10 times, leaf 0 worked half of it, leaf 1 waited at 9 of 12 looks.

    node 0 ─┬─ leaf 0
            └─ leaf 1
    """
    plan = PROGRAM.plan(STREAMS, leaves=2)
    then = Counters(1.0, plan, [5, 100, 100], [0, 0, 0], [5, 0, 0])
    now = Counters(2.0, plan, [15, 1_100, 600], [20_000, 500_000, 100_000], [15, 0, 0])
    waits = Waits()
    for look in range(SAMPLES):
        waits.add({"node 0": "", "leaf 0": "", "leaf 1": "node 0" if look < 9 else "a thread"})
    drawing = picture(plan, now, then, waits)
    found = boxes(drawing)
    assert found["node 0"]["lines"] == ["barrier", "10/s, 2% of a core", "joins 10/s"]
    assert found["leaf 0"]["lines"] == ["value (stream 0)", "1,000/s, 50% of a core", "7 events wait here"]
    assert found["leaf 1"]["lines"] == ["value (stream 1)", "500/s, 10% of a core", "75%: waits for node 0"]
    assert [(bar["busy"], bar["blocked"]) for bar in found["leaf 1"]["bars"]] == [(0.1, 0.75)]
    edges = {(edge["start"], edge["end"]): edge["about"] for edge in drawing["edges"]}
    assert edges == {("plan node 0", "plan leaf 0"): "", ("plan node 0", "plan leaf 1"): "leaf 1 waits for node 0"}
    assert found["node 0"]["x"] < found["leaf 0"]["x"] == found["leaf 1"]["x"] and found["leaf 0"]["y"] < found["leaf 1"]["y"]
    for one in drawing["nodes"]:
        assert 0 <= one["x"] <= drawing["width"] - one["width"] and 0 <= one["y"] <= drawing["height"] - one["height"]
    first = boxes(picture(plan, now, None, Waits()))
    assert first["leaf 1"]["lines"] == ["value (stream 1)"] and first["node 0"]["lines"] == ["barrier"]  # no rates


def test_example_rates_stay_as_they_were_when_the_run_ended():
    """Its time stands still then, also where the layout changes."""
    plan = PROGRAM.plan(STREAMS, leaves=2)
    panel = PlanPanel(SimpleNamespace(handle=SimpleNamespace(plan=plan)))
    said = []
    for seconds, joins in ((1.0, 5), (2.0, 15), (2.0, 15), (2.0, 15)):
        counters = Counters(seconds, plan, [joins, 0, 0], [0, 0, 0], [joins, 0, 0])
        counters.processed, counters.joins = joins, joins
        panel.update(counters)
        said.append((boxes(panel.tree.drawing)["node 0"]["lines"][-1], panel.words.value))
    assert said[1] == said[2] == said[3] == ("joins 10/s", "2 leaves (appendix) in force; 10 events/s; 10 joins/s.")


def test_example_no_two_boxes_of_sixty_four_leaves_are_at_one_place():
    plan = PROGRAM.plan({"value": 64, "barrier": 1}, leaves=64)
    zeros = dict.fromkeys([one.name for one in plan.nodes], 0)
    counters = Counters(1.0, PROGRAM.plan(STREAMS, leaves=2), *[[0] * 3] * 3)
    counters.values = dict.fromkeys(("events", "node_time", "node_joins", "backlog"), zeros)
    drawing = picture(plan, counters, None, Waits())
    places = sorted((one["x"], one["y"], one["height"]) for one in drawing["nodes"])
    assert len(places) == 127
    for (x, y, height), (other_x, other_y, _) in itertools.pairwise(places):
        assert x != other_x or y + height < other_y


def test_example_looks_under_another_plan_are_forgotten():
    waits = Waits()
    waits.add({"node 0": "leaf 0", "leaf 0": ""})
    assert waits.of("node 0") == ("leaf 0", 1.0)
    waits.add({"leaf 0": ""})
    assert waits.of("node 0") == waits.of("leaf 0") == ("", 0.0)


def processed(run):
    """Events so far, whichever node processed them: a state may stay joined."""
    return sum(run["program"].metrics().events.values())


@contextlib.contextmanager
def held_run():
    """The first stream of values is held: it has given 1,000 of its values and gives no more until the test lets it."""
    tables = [pa.table({"ts": np.arange(COUNT) * 2 + s, "x": np.ones(COUNT, np.int64)}) for s in range(2)]
    held = Steered(tables[0], [1_000] * (COUNT // 1_000))
    inputs = {
        "value": [hr.stream(iter(held), event_time="ts"), tables[1]],
        "barrier": pa.table({"ts": np.arange(500, 2 * COUNT, 500) - 1}),
    }
    with PROGRAM.start(inputs, threads=2, max_threads=4, leaves=2) as run:
        held.let(1)
        try:
            yield run, held
        finally:
            held.let_all()


@pytest.fixture
def opened():
    with held_run() as (run, held):
        dashboard = Dashboard(Public(run), stop_unwatched_after=None)
        try:
            yield run, dashboard, held
        finally:
            dashboard.close()


@pytest.mark.slow
def test_example_a_plan_is_watched_and_changed(opened):
    run, dashboard, held = opened
    assert list(dashboard.settings) == ["threads", "plan"]
    panel, choice = dashboard.operator_view.plan, dashboard.settings["plan"].choice
    assert choice.options == ("auto", "chain", "flat", "rates", "latency") and choice.value == "auto"
    drawn = lambda: boxes(panel.tree.drawing) if panel.tree.drawing else {}  # noqa: E731
    eventually(lambda: set(drawn()) == {"node 0", "leaf 0", "leaf 1"}, 180)
    # The barrier after the last value that came waits for the stream that is held, and the other leaf for the barrier.
    said = lambda name: " ".join(drawn()[name]["lines"])  # noqa: E731
    eventually(lambda: "100%: waits for value (stream 0)" in said("node 0"), 180)
    eventually(lambda: "for node 0" in said("leaf 1"), 180)
    assert run["program"].metrics().waits_for["node 0"] == "value (stream 0)"
    assert processed(run) == BEFORE

    one_leaf = PROGRAM.plan(STREAMS, leaves=1)
    run.reconfigure(plan=one_leaf).wait(180)
    eventually(lambda: set(drawn()) == {"leaf 0"} and choice.value == "appendix", 180)
    assert drawn()["leaf 0"]["lines"][0] == "barrier, value"
    choice.value = "chain"
    eventually(lambda: run["program"].plan == PROGRAM.plan(STREAMS, leaves=2, by="chain"), 180)
    eventually(lambda: set(drawn()) == {"node 0", "leaf 0", "leaf 1"} and choice.value == "chain", 180)
    assert dashboard.messages.lines == ("run.reconfigure(plan='chain')",) and problem(dashboard) == ""
    eventually(lambda: "plan 1 leaf (appendix) → 2 leaves (chain)" in dashboard.changes.widget.value, 180)
    eventually(lambda: "2 leaves (chain) in force" in panel.words.value)

    held.let_all()
    assert run.wait(180)
    eventually(lambda: choice.disabled, 180)
    assert [row["sum"] for row in run.to_arrow().to_pylist()] == [500] * (2 * COUNT // 500 - 1)
    other = PROGRAM.start({"value": [pa.table({"ts": [1], "x": [1]})] * 2, "barrier": pa.table({"ts": [2]})}, leaves=2)
    assert other.wait(180)


@pytest.mark.slow
def test_example_what_cannot_be_had_is_said(opened):
    run, dashboard, held = opened
    run.reconfigure(plan=hr.Plan(PROGRAM.plan(STREAMS, leaves=2, by="flat").roots)).wait(180)
    choice = dashboard.settings["plan"].choice
    wanted = PROGRAM.plan(STREAMS, leaves=1).roots
    run.reconfigure(plan=hr.Plan(wanted)).wait(180)
    eventually(lambda: choice.value == "by hand", 180)
    choice.value = "rates"  # nothing has come for longer than rates are taken over, or the rates there were are weighed
    eventually(lambda: problem(dashboard) or run.changes[-1].is_settled, 180)
    assert dashboard.messages.lines == ("run.reconfigure(plan='rates')",)
    held.let_all()
    assert run.wait(180)


@pytest.mark.slow
def test_example_its_changes_are_made_again_on_another_run(opened):
    run, dashboard, _held = opened
    eventually(lambda: processed(run) == BEFORE, 180)
    run.reconfigure(threads=3).wait(180)
    run.reconfigure(plan=PROGRAM.plan(STREAMS, leaves=1)).wait(180)
    eventually(lambda: [one["tuples"] is None for one in dashboard.changes.records()] == [False, False], 180)
    with held_run() as (other, _):
        replay(dashboard.changes.records(), other).join(180)
        eventually(lambda: [change.outcome for change in other.changes] == ["done", "done"], 180)
        assert other.threads == 3 and other["program"].plan == run["program"].plan
