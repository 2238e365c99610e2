"""What all tests share: one Spark session, one process without the compiler; drawn examples; tidiness."""

import gc
import itertools
import os
import re
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from llvmlite.binding import ffi

from headrace.kernel import JIT
from support.interpreter import Interpreter
from support.workloads import Steered

# How long it takes to draw is no mistake of a test: a machine with other work may stand still meanwhile.
_PATIENT: dict[str, Any] = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("check", derandomize=True, **_PATIENT)
settings.register_profile("campaign", **_PATIENT)
# What fails here fails again. `pytest --hypothesis-profile=campaign` draws other examples every time.
settings.load_profile("check")

# What a compilation makes is either kept or freed by its count of references: Python's default looks through all that is
# young 14 times as often as this, and finds next to nothing.
gc.set_threshold(10_000, 10, 10)
# Numba tells the timers of all compilations that are under way, one inside the other, when LLVM is called and when that is
# over, hundreds of thousands of times: about a tenth of what compiling takes. Nobody here asks what they found.
for _callbacks in list(ffi.lib._lock._cblist):
    ffi.unregister_lock_callback(*_callbacks)

_FROZEN_AFTER = 10
"""Tests. What is there by then stays, most of it the compiler's, and is not looked through again: every few runs that
nobody refers to any more make the next one collect all garbage (`runtime.run`), which took half of the suite's time."""
_ended = itertools.count()
_OF_A_MISTAKE = re.compile("planted|catches|mistake_is_found")
"""Names of tests that plant mistakes: some 340 small ones, that a change of the code under test does not concern."""


def pytest_runtest_logfinish():
    # Where there is no compiler, a session is one test and does not stay: `Interpreter` does it between two.
    if JIT and next(_ended) % _FROZEN_AFTER == 0:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def steered_sources_are_let_go():
    """Readers that wait for a test to let them on end with it, whatever became of it."""
    yield
    for source in list(Steered.made):
        source.let_all()


@pytest.fixture
def hangs_are_short(monkeypatch):
    """For planted mistakes that make something hang: it is given up after some seconds."""
    monkeypatch.setattr("support.workloads.HANG_S", 5.0)


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


_interpreter = Interpreter()


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job; processes of tests would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "interpreted: runs with the compiler switched off, see support/interpreter.py")
    config.addinivalue_line("markers", "logic: the same, unless HEADRACE_COMPILED is set: right in plain Python and compiled")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Have an interpreted test run in the process that does so."""
    marks = ["interpreted"] if os.environ.get("HEADRACE_COMPILED") else ["interpreted", "logic"]
    if not JIT or not any(pyfuncitem.get_closest_marker(mark) for mark in marks):
        return None
    passed, said = _interpreter.run(pyfuncitem.nodeid)
    if not passed:
        pytest.fail(f"with NUMBA_DISABLE_JIT=1:\n{said}", pytrace=False)
    return True


def pytest_unconfigure():
    _interpreter.close()


def pytest_collection_modifyitems(items):
    """Mark every test that asks for the session, so that ``-m "not spark"`` needs no Java; what waits for it is slow.

    So is what is interpreted, and what shows of a test that it can fail.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        is_planted = _OF_A_MISTAKE.search(getattr(item, "originalname", None) or item.name)
        if is_planted or item.get_closest_marker("spark") or item.get_closest_marker("logic"):
            item.add_marker(pytest.mark.slow)
