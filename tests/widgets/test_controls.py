"""Method: the controls of a real run are set as a browser would set them; what they do is read from the run.
What this cannot see: anything in the browser; tests/browser drives a real one.
"""

import ipywidgets as w
import numpy as np
import pytest

import headrace as hr
from headrace_widgets import Dashboard
from support.dashboards import TABLE, batches, problem, start
from support.workloads import Steered, eventually


def test_example_minus_plus_slider_entry(run, dashboard):
    threads = dashboard.threads
    threads.plus.click()
    eventually(lambda: run.threads == 2, 180)
    threads.plus.click()
    eventually(lambda: run.threads == 3, 180)
    eventually(lambda: (threads.slider.value, threads.entry.value) == (3, 3), 180)
    threads.slider.value = 4
    eventually(lambda: run.threads == 4, 180)
    eventually(lambda: threads.plus.disabled, 180)
    threads.entry.value = 2
    eventually(lambda: run.threads == 2, 180)
    threads.minus.click()
    eventually(lambda: run.threads == 1, 180)
    eventually(lambda: threads.minus.disabled, 180)
    assert dashboard.messages.lines == tuple(f"run.reconfigure(threads={n})" for n in (2, 3, 4, 2, 1))
    labels = ["1→2", "2→3", "3→4", "4→2", "2→1"]
    eventually(lambda: dashboard.plots.widget.labels.get("changes", {}).get("label") == labels, 180)


def test_example_a_refusal_says_why_and_the_controls_return(run, dashboard):
    dashboard.threads.entry.value = 9
    assert "threads=9" in problem(dashboard)
    assert "max_threads" in problem(dashboard)
    assert dashboard.threads.entry.value == 1
    assert run.threads == 1
    dashboard.threads.plus.click()
    assert problem(dashboard) == ""  # the next thing that works clears it


def test_example_half_a_thread_is_refused_and_not_taken_for_another_number(run, dashboard):
    """An IntText drops what it does not know: of 2.5 it leaves 25. So does a slip of the keyboard."""
    assert isinstance(dashboard.threads.entry, w.FloatText)
    for typed in (2.5, float("nan"), float("inf")):
        dashboard.threads.entry.value = typed
        assert f"threads={typed}: give a whole number" in problem(dashboard)
        assert (dashboard.threads.entry.value, run.changes) == (1, [])
    assert dashboard.messages.lines == ()


def test_example_a_call_elsewhere_moves_the_slider(run, dashboard):
    run.reconfigure(threads=3).wait(180)
    eventually(lambda: dashboard.threads.slider.value == 3, 180)
    assert dashboard.messages.lines == ()  # shown, not asked for


def test_example_rate(run, dashboard):
    dashboard.rate.entry.value = 700
    assert run.rate == 700
    run.rate = 1_500
    eventually(lambda: dashboard.rate.entry.value == 1_500, 180)
    dashboard.rate.entry.value = -1
    assert "rate" in problem(dashboard)
    assert run.rate == 1_500
    eventually(lambda: dashboard.rate.entry.value == 1_500, 180)
    assert dashboard.messages.lines == ("run.rate = 700", "run.rate = -1")


def test_example_a_rate_is_shown_as_far_as_there_is_room(run, dashboard):
    run.rate = 4_919.322065283545
    eventually(lambda: dashboard.rate.entry.value == 4_919.32, 180)
    assert run.rate == 4_919.322065283545


def test_example_a_rate_is_printed_to_the_last_digit(run, dashboard):
    dashboard.rate.entry.value = 12345678.5
    assert dashboard.messages.lines == ("run.rate = 12345678.5",)
    assert run.rate == 12345678.5


def taken_in(run, seconds=1.0):
    """Tuples per second that come in from now on."""
    first = run.metrics()
    eventually(lambda: run.metrics().seconds > first.seconds + seconds, 180)
    last = run.metrics()
    return (last.tuples_in - first.tuples_in) / (last.seconds - first.seconds)


def played(speed):
    """A run that plays its event times, a tuple each millisecond."""
    return start(batches(100, 10), rate=hr.rates.recorded(speed=speed))


@pytest.mark.slow
def test_example_the_speed_of_recorded_event_times():
    """`run.rate` is None where event times are played, and yet they are paced: how fast can be set."""
    with played(0.5) as run, played(0.5) as other:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            rate = dashboard.rate
            assert rate.is_there
            assert (rate.slider.value, rate.entry.value, rate.slider.description) == (0.5, 0.5, "Speed")
            assert rate.unit.value == "×&nbsp;recorded"
            assert rate.slider.base**rate.slider.min < 0.5 < rate.slider.base**rate.slider.max
            eventually(lambda: 250 < taken_in(run) < 1_000, 180)
            rate.slider.value = 4
            assert problem(dashboard) == ""
            assert dashboard.messages.lines == ("run.rate = hr.rates.recorded(speed=4)",)
            exec(dashboard.messages.lines[0], {"run": other, "hr": hr})
            for one in (run, other):
                eventually(lambda one=one: 2_000 < taken_in(one) < 8_000, 180)
            eventually(lambda: rate.entry.value == 4, 180)
            rate.entry.value = -1
            assert "speed=-1" in problem(dashboard)
            eventually(lambda: rate.entry.value == 4, 180)
            run.rate = hr.rates.recorded(speed=2)  # by a call
            eventually(lambda: rate.slider.value == 2, 180)
            run.rate = 700  # and now at a rate
            eventually(lambda: (rate.entry.value, rate.slider.description) == (700, "Rate"), 180)
            rate.entry.value = 900
            assert run.rate == 900
            assert dashboard.messages.lines[-1] == "run.rate = 900"
        finally:
            dashboard.close()


def test_example_times_recorded_apart_have_a_rate():
    with start(rate=hr.rates.recorded(np.arange(100_000) / 2_000)) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            assert dashboard.rate.is_there
            assert dashboard.rate.slider.description == "Rate"
            eventually(lambda: 1_000 < dashboard.rate.entry.value < 3_000, 180)
            dashboard.rate.entry.value = 500
            assert run.rate == 500
        finally:
            dashboard.close()


def test_example_no_rate_no_control():
    source = Steered(TABLE)
    with start(source) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            assert not dashboard.rate.is_there
            run.rate = 700  # by a call: from now on there is one to set
            eventually(lambda: dashboard.rate.is_there and dashboard.rate.entry.value == 700, 180)
            assert dashboard.rate.widget.layout.display != "none"
        finally:
            dashboard.close()
            source.let_all()
