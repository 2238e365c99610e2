"""Method: every control of one dashboard is used, and the line that it prints is run for another one alike.
What this cannot see: anything in the browser; tests/browser drives a real one.
"""

import base64
import html
import re
from pathlib import Path

import pytest

import headrace as hr
from headrace_widgets import Dashboard
from support.dashboards import controls_of, problem, two_steps
from support.workloads import eventually


@pytest.mark.slow
def test_example_every_control_prints_one_line_that_does_the_same(tmp_path, monkeypatch):
    """Each control is used on the first of two dashboards alike, and what it prints is run for the second."""
    monkeypatch.chdir(tmp_path)
    with two_steps() as run, two_steps() as other:
        mine, its = (Dashboard(each, stop_unwatched_after=None) for each in (run, other))
        names = {"run": other, "dashboard": its, "hr": hr}
        used = set()

        def use(control, value=None):
            before = len(mine.messages.lines)
            if value is None:
                control.click()
            else:
                control.value = value
            assert problem(mine) == ""
            assert len(mine.messages.lines) == before + 1, "one line"
            used.add(control)
            return mine.messages.lines[-1]

        def use_and_run(control, value=None):
            line = use(control, value)
            exec(line, names)
            return line

        try:
            use_and_run(mine.choice, "second")
            assert (mine.operator, its.operator, its.choice.value) == ("second",) * 3

            threads = mine.threads
            for control, value, wanted in (
                (threads.plus, None, 2), (threads.slider, 3, 3), (threads.entry, 1, 1), (threads.plus, None, 2),
                (threads.minus, None, 1), (threads.plus, None, 2),
            ):  # fmt: skip
                use_and_run(control, value)
                for each in (run, other):
                    eventually(lambda each=each, wanted=wanted: each["second"].threads == wanted, 180)

            use_and_run(mine.operator_view.burst.button)
            assert repr(run.schedule) == repr(other.schedule) and run.rate == 6_000
            for control, value in ((mine.rate.slider, 3_000), (mine.rate.entry, 2_500.5)):
                use_and_run(control, value)
                assert run.rate == other.rate == value

            for is_on in (True, False):
                use_and_run(mine.operator_view.timeline.button, is_on)
                assert its.operator_view.timeline.button.value is is_on
            use_and_run(mine.operator_view.hot_keys.button)

            mine.controller.choice.value = "Threshold"
            mine.controller.parameters["cooldown_s"].value = 30
            use_and_run(mine.controller.start)
            for each in (run, other):
                eventually(lambda each=each: [one.kind for one in each.decisions][:1] == ["attached"], 180)
                assert each.decisions[0].operator == "second"
            eventually(lambda: not mine.controller.stop.disabled, 180)
            use_and_run(mine.controller.stop)
            for each in (run, other):
                eventually(lambda each=each: each.decisions[-1].kind == "released", 180)

            for each in (mine, its):
                eventually(lambda each=each: each.history._now_s > 2 and each.plots._figures._highest, 180)
            use_and_run(mine.history.span, "10 s")
            assert mine.view.span_s == its.view.span_s == 10
            assert its.history.span.value == "10 s"
            use_and_run(mine.history.span, "all")
            assert mine.view.span_s is its.view.span_s is None
            use_and_run(mine.history.pause, True)
            assert 2 < its.view.end_s <= its.history._now_s
            assert (its.history.pause.value, its.history.scrub.disabled) == (True, False)
            use_and_run(mine.history.scrub, 1.2)
            assert mine.view.end_s == its.view.end_s == its.history.scrub.value == 1.2
            use_and_run(mine.history.pause, False)
            assert mine.view.end_s is its.view.end_s is None
            assert (its.history.pause.value, its.history.scrub.disabled) == (False, True)
            with mine.messages.lock, its.messages.lock:  # an update would cover anew what is shown
                use_and_run(mine.history.fit)
                assert mine.plots._figures._highest == its.plots._figures._highest == []

            for name, line in (("compact", "dashboard.arrange('compact')"), ("present", "dashboard.present()")):
                assert use_and_run(mine.layouts, name) == line
                assert its.layouts.value == name and f"headrace-{name}" in its.widget._dom_classes
                assert its.plots.widget.look == mine.plots.widget.look != {}
            use_and_run(mine.layouts, "full")
            assert its.plots.widget.look == {}

            line = use(mine.history.save)
            (page,) = tmp_path.glob("headrace-second-*.html")
            page.unlink()
            exec(line, names)
            assert page.exists()

            mapping = mine.mapping
            for each in (run, other):
                each["second"].reconfigure(threads=2, mapping=hr.Mapping.even(2)).wait(180)
            eventually(lambda: mapping.to.options == (0, 1) and its.mapping.to.options == (0, 1), 180)
            mapping.buckets.value, mapping.to.value = "0-31", 1
            use_and_run(mapping.move)
            assert names["draft"] == mapping.shown == hr.Mapping.even(2).move(range(32), to=1)
            mapping.buckets.value = "40, 50"
            use_and_run(mapping.move)
            assert names["draft"] == mapping.shown == hr.Mapping.even(2).move([*range(32), 40, 50], to=1)
            use_and_run(mapping.discard)
            assert names["draft"] == mapping.shown == other["second"].mapping == hr.Mapping.even(2)
            mapping.buckets.value = "0-499"
            use(mapping.move)
            use_and_run(mapping.apply)
            for each in (run, other):
                moved = hr.Mapping.even(2).move(range(500), to=1)
                eventually(lambda each=each, moved=moved: each["second"].mapping == moved, 180)
            eventually(lambda: mapping.bucket_loads.any(), 180)
            with mine.messages.lock:  # the same loads for both
                line = use(mapping.balance)
                exec(line, here := {"run": run, "dashboard": mine, "hr": hr})
                assert here["draft"] == mapping.shown != run["second"].mapping

            with mine.messages.lock:
                mine.changes._drawn = None
                mine.changes.show(run.changes)
                shown = mine.changes.widget.value
                for name in ("changes.csv", "changes.json"):
                    (linked,) = re.findall(f'download="{name}" href="data:[^,]*,([^"]*)"', shown)
                    line = f'dashboard.export("{name}")'
                    assert f"<code>{line}</code>" in html.unescape(shown)
                    exec(line, {"dashboard": mine})
                    assert Path(name).read_bytes() == base64.b64decode(linked)

            use_and_run(mine.stop)
            eventually(lambda: run.state == other.state == "stopped", 180)
            # What is called prints nothing, and of what prints nothing all is only chosen for a button beside it.
            assert its.messages.lines == ()
            chosen = {
                mapping.buckets,
                mapping.to,
                mine.controller.choice,
                *mine.controller.parameters.values(),
            }
            assert controls_of(mine.widget) - used == chosen
        finally:
            mine.close()
            its.close()
