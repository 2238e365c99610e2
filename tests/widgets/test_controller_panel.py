"""Method: controllers are chosen, set and started as a browser would; what they do is read from the run.
What this cannot see: anything in the browser; tests/browser drives a real one.
"""

import ipywidgets as w
import pytest

import headrace as hr
from headrace_widgets import Dashboard
from support.dashboards import controls_of, problem, start
from support.workloads import eventually


def test_example_controller(run, dashboard):
    panel = dashboard.controller
    panel.choice.value = "Threshold"
    assert panel.parameters["upper"].value == 0.9
    panel.parameters["upper"].value = 0.1  # below lower
    panel.start.click()
    assert "upper" in problem(dashboard)
    panel.parameters["upper"].value = 0.95
    panel.start.click()
    eventually(lambda: "attached" in [one.kind for one in run.decisions], 180)
    eventually(lambda: not panel.stop.disabled, 180)
    eventually(lambda: "Threshold" in panel.words.value, 180)
    panel.stop.click()
    eventually(lambda: panel.stop.disabled, 180)
    assert dashboard.messages.lines[-2:] == (
        "run.control(hr.controllers.Threshold(upper=0.95, target=0.7, lower=0.45))",
        "run.release()",
    )


def test_example_the_fields_are_folded_away_until_somebody_wants_them(run, dashboard):
    panel = dashboard.controller
    (fold,) = (child for child in panel.widget.children if isinstance(child, w.Accordion))
    for name in ("Threshold", "ProactiveJoin"):
        panel.choice.value = name
        assert fold.selected_index is None and fold.titles == ("Parameters",)
        assert panel.parameters and controls_of(fold) == set(panel.parameters.values()), "all of them, and nothing else"
    assert panel.start not in controls_of(fold) and panel.choice not in controls_of(fold)


def test_example_damping_of_a_controller(run, dashboard):
    panel = dashboard.controller
    panel.choice.value = "ProactiveJoin"
    assert panel.parameters["cooldown_s"].value == 0.6  # its own default
    panel.parameters["cooldown_s"].value = -1
    panel.start.click()
    assert "cooldown_s=-1" in problem(dashboard)
    panel.parameters["cooldown_s"].value = 3
    panel.start.click()
    assert problem(dashboard) == ""
    assert dashboard.messages.lines[-1] == (
        "run.control(hr.controllers.ProactiveJoin(upper=0.8, lower=0.7, horizon_s=2, drain_s=1,"
        " damping=hr.controllers.Damping(up_after_s=0.2, down_after_s=1, cooldown_s=3)))"
    )
    eval(dashboard.messages.lines[-1], {"run": run, "hr": hr})  # the line is Python that does the same
    eventually(lambda: [one.kind for one in run.decisions].count("attached") == 2, 180)


@pytest.mark.slow
def test_example_the_largest_step_of_a_controller(run, dashboard):
    """Four threads have next to nothing to do: without a limit all that are too many would go at once."""
    panel = dashboard.controller
    run.reconfigure(threads=4).wait(180)
    panel.choice.value = "Threshold"
    assert panel.parameters["max_step"].value == 0  # any number
    panel.parameters["max_step"].value = -1
    panel.start.click()
    assert "max_step=-1" in problem(dashboard)
    for name, value in (("max_step", 1), ("down_after_s", 0.2), ("cooldown_s", 0.2)):
        panel.parameters[name].value = value
    panel.start.click()
    assert problem(dashboard) == ""
    line = dashboard.messages.lines[-1]
    assert (
        "damping=hr.controllers.Damping(up_after_s=0.5, down_after_s=0.2, cooldown_s=0.2, max_step=1)" in line
    )
    eventually(lambda: run.threads == 1, 180)
    steps = [(c.from_threads, c.to_threads) for c in run.changes[1:]]
    assert steps[0] == (4, 3) and {abs(before - after) for before, after in steps} == {1}  # it may go up once in between
    panel.stop.click()
    eval(line, {"run": run, "hr": hr})
    panel.parameters["max_step"].value = 0  # back to any number
    panel.start.click()
    assert "max_step" not in dashboard.messages.lines[-1]


@pytest.mark.slow
def test_example_a_schedule_as_text(run, dashboard):
    panel = dashboard.controller
    panel.choice.value = "Schedule"
    for text in ("", "0", "0: a", "x: 1", "0: 1.5", "5: 1, 2: 1", "0: 0"):
        panel.parameters["steps"].value = text
        panel.start.click()
        assert "steps" in problem(dashboard), text
    assert not run.decisions
    panel.parameters["steps"].value = "0: 3, 0.5: 2"
    panel.start.click()
    assert dashboard.messages.lines[-1] == "run.control(hr.controllers.Schedule(steps=[(0.0, 3), (0.5, 2)]))"
    eventually(lambda: run.threads == 2, 180)
    eventually(lambda: "the schedule says 2 threads" in panel.words.value, 180)


@pytest.mark.slow
def test_example_one_clock_for_everything(run, dashboard):
    """A controller's own clock begins when it is attached; what is shown begins with the first tuple, as the plots do."""
    eventually(lambda: dashboard.feed.newest_s > 2, 180)
    dashboard.controller.start.click()
    eventually(lambda: run.decisions, 180)
    first = run.decisions[0]
    since_first_tuple = dashboard.feed.seconds_of(first.at_ns)
    assert since_first_tuple - first.at_s > 2
    eventually(lambda: f"{since_first_tuple:.2f} s" in dashboard.controller.words.value, 180)


def test_example_a_controller_of_the_users():
    def none_ever(observation):
        return None

    with start(rate=2_000) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None, controllers={"none_ever": none_ever})
        try:
            dashboard.controller.choice.value = "none_ever"
            dashboard.controller.start.click()
            assert dashboard.messages.lines == ("run.control(none_ever)",)
            eventually(lambda: len(run.decisions) == 1, 180)
        finally:
            dashboard.close()
