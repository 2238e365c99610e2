"""Method: the burst button of real runs; the line it prints, run on another run, sets the same schedule."""

import pytest

import headrace as hr
from headrace_widgets import Dashboard
from headrace_widgets.controls import burst as burst_control
from support.dashboards import TABLE, problem, start
from support.workloads import eventually


@pytest.mark.slow
def test_example_three_times_the_rate_and_back(run, dashboard, monkeypatch):
    monkeypatch.setattr(burst_control, "SECONDS", 500)  # instead of 5: it lasts until all has been looked at
    burst = dashboard.operator_view.burst
    burst.button.click()
    assert problem(dashboard) == ""
    line = "run.rate = hr.rates.phases([(500, 6000), (1, 2000)])"
    assert dashboard.messages.lines == (line,)
    assert (run.rate, run.schedule.rate_at(499), run.schedule.rate_at(501)) == (6_000, 6_000, 2_000)
    eventually(lambda: dashboard.rate.entry.value == 6_000, 180)
    with start(rate=100) as other:
        exec(line, {"run": other, "hr": hr})
        assert repr(other.schedule) == repr(run.schedule)
    burst.button.click()  # in the burst: begun anew, and not three times as much again
    assert dashboard.messages.lines == (line, line)
    eventually(lambda: run.metrics().operators[run.operators[0]].added > 3_000, 180)
    dashboard.rate.entry.value = 500  # whatever is set afterwards counts
    burst.button.click()
    assert dashboard.messages.lines[-1] == "run.rate = hr.rates.phases([(500, 1500), (1, 500)])"


@pytest.mark.slow
def test_example_where_event_times_are_played_there_is_no_rate_to_multiply():
    with start(iter(TABLE.to_batches(10)), rate=hr.rates.recorded(speed=2)) as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            burst = dashboard.operator_view.burst
            assert burst.button.disabled
            run.rate = 700
            eventually(lambda: not burst.button.disabled, 180)
            run.stop()
            eventually(lambda: burst.button.disabled, 180)
        finally:
            dashboard.close()
