"""What several tests share: one Spark session for the whole run, since starting one takes seconds."""

import pytest


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
