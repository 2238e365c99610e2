"""Property    no message ever goes to a model of anywidget: it may have refused all since the page was busy for two seconds
Oracle      what the views' comms are sent while a dashboard is watched, steered and arranged
Planted     a class that is added to a view after it was made
Cannot see  what the page makes of it: tests/browser/test_connection.py, test_voila.py
"""

import pytest

from headrace_widgets import Dashboard, side_by_side
from headrace_widgets.page_model import ModuleView, PageModel
from headrace_widgets.plan_panel import PlanPanel
from support.dashboards import rows, start, two_steps
from support.workloads import eventually


@pytest.fixture
def sent(monkeypatch):
    """To views and to their models, from now on."""
    sent = {ModuleView: [], PageModel: []}
    for kind, messages in sent.items():

        def note(self, message, buffers=None, kind=kind, messages=messages):
            if self.comm is not None:  # before that it is being made
                messages.append(message)
            super(kind, self)._send(message, buffers)

        monkeypatch.setattr(kind, "_send", note, raising=False)
    return sent


def test_example_a_dashboard_of_two_operators(sent):
    with two_steps() as run:
        dashboard = Dashboard(run, stop_unwatched_after=None)
        try:
            eventually(lambda: rows(dashboard) > 2, 180)
            dashboard.present()
            dashboard.show_operator("second")
            dashboard.arrange("full")
            dashboard.show_timeline()
            eventually(lambda: any("frame" in one.get("state", ()) for one in sent[PageModel]), 180)
            assert sent[ModuleView] == []
            dashboard.plots.widget.view.add_class("planted")
            assert len(sent[ModuleView]) == 1
        finally:
            dashboard.close()


def test_example_the_tree_of_a_plan(sent):
    assert "headrace-tree" in PlanPanel(None).tree.view._dom_classes and sent[ModuleView] == []


def test_example_two_runs_side_by_side(sent):
    with start(rate=2_000) as vsn, start(rate=2_000, mode="sn") as sn:
        both = side_by_side(vsn, sn, stop_unwatched_after=None)
        try:
            both.present()
            eventually(lambda: sent[PageModel], 180)
            assert sent[ModuleView] == []
        finally:
            both.close()
