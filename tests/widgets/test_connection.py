"""Property    a page that asks is answered at once; the view's own thread says that the kernel is there, while anybody looks
Oracle      what the connection sends
Cannot see  what the page makes of it: tests/browser/test_connection.py
"""

import pytest

from headrace_widgets import connection, side_by_side
from support.dashboards import ask, start
from support.workloads import eventually


@pytest.fixture
def sent(dashboard, monkeypatch):
    """What the dashboard's connection sends from now on, with a pulse ten times a second."""
    sent = []
    monkeypatch.setattr(connection, "PULSE_S", 0.1)
    monkeypatch.setattr(dashboard.connection, "send", lambda content: sent.append(content["kind"]))
    return sent


def test_example_a_question_is_answered_and_remembered(dashboard, sent):
    assert dashboard.connection.seen_at is None
    ask(dashboard)
    assert sent.count("answer") == 1 and dashboard.connection.seen_at is not None
    dashboard.connection._handle_custom_msg({"kind": "something else"}, [])
    assert sent.count("answer") == 1


@pytest.mark.slow
def test_example_the_pulse_goes_on_by_itself_until_nobody_looks(dashboard, sent):
    eventually(lambda: sent.count("pulse") > 3, 180)
    dashboard.watchdog.rest_after_s = 0.5
    ask(dashboard)
    eventually(lambda: dashboard.watchdog.is_resting, 180)
    rests_since = len(sent)
    eventually(lambda: ask(dashboard) or "pulse" in sent[rests_since + 1 :], 180)  # it may rest again before the pulse


def test_example_the_pulse_is_seldom(dashboard, monkeypatch):
    eventually(lambda: dashboard.connection._pulse_at is not None, 180)
    monkeypatch.setattr(connection, "PULSE_S", 1e9)
    sent = []
    monkeypatch.setattr(dashboard.connection, "send", sent.append)
    for _ in range(3):
        dashboard.connection.pulse()
    assert sent == []


def test_example_an_update_that_fails_is_no_silence(dashboard, sent, monkeypatch):
    monkeypatch.setattr(dashboard.feed, "poll", lambda: 1 // 0)
    eventually(lambda: "ZeroDivisionError" in dashboard.messages.problem.value, 180)
    before = len(sent)
    eventually(lambda: len(sent) > before + 2, 180)


def test_example_two_runs_side_by_side_have_one_too():
    with start(rate=2_000) as vsn, start(rate=2_000, mode="sn") as sn:
        both = side_by_side(vsn, sn, stop_unwatched_after=None)
        try:
            ask(both)
            assert both.connection.seen_at is not None and both.connection.view in both.widget.children
            assert both.connection.called == "both"
        finally:
            both.close()
