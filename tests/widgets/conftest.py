"""A run at 2,000 rows a second, and its dashboard."""

import pytest

from headrace_widgets import Dashboard
from support.dashboards import start


@pytest.fixture
def run():
    with start(rate=2_000) as run:
        yield run


@pytest.fixture
def dashboard(run):
    dashboard = Dashboard(run, stop_unwatched_after=None)
    yield dashboard
    dashboard.close()
