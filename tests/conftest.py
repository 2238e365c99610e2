"""What all tests share: one Spark session, since starting one takes seconds; drawn examples; tidiness."""

import pytest
from hypothesis import settings

from support.workloads import Steered

settings.register_profile("check", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("campaign", deadline=None, print_blob=True)
# What fails here fails again. `pytest --hypothesis-profile=campaign` draws other examples every time.
settings.load_profile("check")


@pytest.fixture(autouse=True)
def steered_sources_are_let_go():
    """Readers that wait for a test to let them on end with it, whatever became of it."""
    yield
    for source in list(Steered.made):
        source.let_all()


@pytest.fixture(scope="session")
def spark():
    """Give a session of ours, with the start-up of the Java virtual machine made short.

    Such a machine computes slowly: right for tests, wrong for anything that is timed.
    """
    from headrace.spark import session

    running = session(
        "headrace tests",
        memory="2g",
        config={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
    )
    yield running
    running.stop()


def pytest_collection_modifyitems(items):
    """Mark every test that asks for the session, so that ``-m "not spark"`` needs no Java."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
