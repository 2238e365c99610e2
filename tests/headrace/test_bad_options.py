"""Threads, mappings, changes and options that cannot be: the documented error, through the public interface.

Property    an error is of the documented type, one line, and names the parameter, the value and the fix; the engine
            works afterwards
Oracle      by hand
"""

import math

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InputError, ParameterError, ReconfigurationError, RunStoppedError
from support.refusals import GOOD, counts, engine_works_afterwards, fails  # noqa: F401  a fixture of every test here
from support.workloads import HANG_S, Steered


@pytest.mark.parametrize("threads", [0, -1, 2.5, "two", True, None, [], [0, 9], [-1]])
def test_threads_that_cannot_be(threads):
    with fails(ReconfigurationError, "threads=", repr(threads)):
        counts(GOOD).start(threads=threads, max_threads=4)


@pytest.mark.parametrize("threads", [5, 0, -3, 1.0, "2", True, [], [4]])
def test_requests_that_cannot_be(threads):
    source = Steered(GOOD)
    with counts(source).start(threads=2, max_threads=4) as run:
        with fails(ReconfigurationError, "threads"):
            run.reconfigure(threads=threads)
        assert run.threads == 2 and run.changes == []
        source.let_all()
        assert run.wait(HANG_S)


@pytest.mark.parametrize("maximum", [0, -1, 1.5, "3", True, 100_000])
def test_max_threads_that_cannot_be(maximum):
    with fails(ParameterError, "max_threads", repr(maximum)):
        counts(GOOD).start(max_threads=maximum)


def test_planned_changes_that_cannot_be():
    for plan, words in (
        ([(0, 5)], ["threads", 5]),
        ([(0, 0)], ["threads", 0]),
        ([(5, 2), (3, 1)], ["reconfigure", 3]),
        ([(-1, 2)], ["reconfigure", -1]),
        ([(1.5, 2)], ["reconfigure", 1.5]),
        ([(2**70, 2)], ["reconfigure", 2**70, "2**62"]),
        (5, ["reconfigure=5", "(row, threads)"]),
        ([5], ["reconfigure=[5]", "(row, threads)"]),
        ([(1, 2, 3)], ["reconfigure=[(1, 2, 3)]", "(row, threads)"]),
        ([(1, {"scheme": "lock"})], ["reconfigure=[(1, {'scheme': 'lock'})]", "the controls are 'threads', 'mapping'"]),
        ([(1, {"mapping": hr.Mapping.even(2)})], ["reconfigure=[(1, {'mapping'", "say threads="]),
        ([(1, {"threads": 5})], ["threads=5"]),
    ):
        with fails(InputError, *words):
            counts(GOOD).start(max_threads=4, reconfigure=plan)


def test_planned_changes_as_dicts():
    planned = [(1, {"threads": 2}), (2, {"threads": 3, "mapping": hr.Mapping.even([0, 2])})]
    with counts(GOOD).start(threads=1, max_threads=4, reconfigure=planned) as run:
        assert run.wait(HANG_S)
        assert [change.after["threads"] for change in run.changes] == [2, 3]
        assert run.changes[1].after["mapping"] == hr.Mapping.even([0, 2])


def test_threads_of_an_operator_that_is_not_there():
    with fails(ParameterError, "'total'", "aggregate"):
        counts(GOOD).start(threads={"total": 2})
    with counts(GOOD).start() as run:
        with fails(ParameterError, "'total'", "aggregate"):
            run["total"]
        assert run.wait(HANG_S)


def test_mappings_that_cannot_be():
    source = Steered(GOOD)
    with counts(source).start(threads=2, max_threads=4) as run:
        with fails(ReconfigurationError, "mapping", "instance 3", "threads="):
            run.reconfigure(mapping=hr.Mapping([3] * 1024))
        for owners in ([0] * 1023, [0.5] * 1024, [-1] * 1024, "zero", [[0] * 1024]):
            with fails(ReconfigurationError, "mapping"):
                run.reconfigure(mapping=owners)
        with fails(ReconfigurationError, "threads=", "mapping="):
            run.reconfigure()
        assert run.threads == 2 and run.changes == []
        source.let_all()
        assert run.wait(HANG_S)
    for call, words in (
        (lambda: hr.Mapping.even(2).move([1], to="x"), ["move", "to='x'", "0 to 1023"]),
        (lambda: hr.Mapping.even(2).move([1], to=2**70), ["move", f"to={2**70}", "0 to 1023"]),
        (lambda: hr.Mapping.even(2).move([1], to=1.5), ["move", "to=1.5", "0 to 1023"]),
        (lambda: hr.Mapping.even(2).move(["y"], to=1), ["move", "bucket 'y'", "0 to 1023"]),
        (lambda: hr.Mapping.even(2).move(5, to=1), ["move(5)", "list"]),
    ):
        with fails(ReconfigurationError, *words):
            call()
    with fails(ReconfigurationError, "mapping", "instance 1"):
        counts(GOOD).start(threads=1, mapping=hr.Mapping.even(2))


def test_reconfigure_after_the_end():
    with counts(GOOD).start(max_threads=4) as run:
        assert run.wait(HANG_S)
        for steer in (run, run["aggregate"]):
            with fails(RunStoppedError, "reconfigure()", "its input has ended"):
                steer.reconfigure(threads=4)


@pytest.mark.parametrize("timeout", ["1s", math.nan, True])
def test_timeouts_that_cannot_be(timeout):
    source = Steered(GOOD)
    with counts(source).start(threads=1, max_threads=2) as run:
        change = run.reconfigure(threads=2)
        for waits in (run, change):
            with fails(ParameterError, f"timeout={timeout!r}", "seconds"):
                waits.wait(timeout)
        source.let_all()
        assert run.wait(math.inf) and change.wait(math.inf).is_settled


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("gate", "door"), ("mode", "turbo"), ("capacity", 0), ("capacity", 1.5), ("max_keys", 0), ("rate", 0),
        ("rate", -1.0), ("rate", math.nan), ("sink", "discard"), ("sink", 3), ("sample_every", "x"), ("sample_every", 1e300),
        ("bound_ns", "x"), ("bound_ns", -1), ("bound_ns", 2**63), ("capacity", 2**40), ("max_keys", 2**40), ("passed_time", 5),
        ("max_state", 0), ("max_state", 0.5), ("passed_time", [("aggregate", 0, 2**70, 1)]),
    ],
)  # fmt: skip
def test_options_that_cannot_be(option, value):
    with fails(ParameterError, option, repr(value)):
        counts(GOOD).start(**{option: value})


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("idle_after", -1), ("idle_after", "-1s"), ("idle_after", "5"), ("idle_after", "soon"), ("idle_after", math.nan),
        ("idle_after", math.inf), ("idle_after", 10**400), ("idle_after", True), ("idle_after", [1]), ("batch_rows", 0),
        ("batch_rows", "x"), ("batch_rows", 10**30), ("batch_rows", True), ("batch_rows", 1.5),
        ("sort", "ts"), ("sort", 1), ("name", 3), ("name", ["a", "b"]),
    ],
)  # fmt: skip
def test_parameters_of_a_stream_that_cannot_be(parameter, value):
    with fails(ParameterError, parameter, repr(value), "give a"):
        counts(GOOD, **{parameter: value})


@pytest.mark.parametrize("value", ["250ms", 0.25, np.float32(0.25)])
def test_idle_after_is_a_duration_or_seconds(value):
    assert counts(GOOD, idle_after=value)._node.parents[0].idle_after == 0.25
    assert counts(GOOD, idle_after=np.int64(2))._node.parents[0].idle_after == 2.0
