"""Comparisons that take time: the join they are of, and how long they take at least.

Oracle: the band join, and a plain loop; a thread cannot have made more comparisons than there was time for.
Cannot see: how much longer they take, which is the machine's.
"""

import sys
from dataclasses import replace

import pytest

import headrace as hr
from headrace.control.observation import Observation
from headrace.controllers import ProactiveJoin, Threshold
from headrace.elastic import words
from headrace.gates.log_words import END
from headrace.memory.cells import read_cell, read_cells
from headrace_bench import join
from headrace_bench.experiments import time_work
from headrace_bench.experiments.figure import Figure
from headrace_bench.rows import Row
from support.workloads import HANG_S, eventually

NS = 2_000


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 5])
def test_oracle_results_are_those_of_the_join(threads):
    left, right, size = join.make_sides(40, 300)
    wanted = join.band_join(left, right, size).to_arrow()
    changes = [(150, 3), (400, 1), (500, 6)]
    got = time_work.timed_join(left, right, size, NS).to_arrow(threads=threads, max_threads=6, reconfigure=changes)
    assert got.equals(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 8])
def test_oracle_no_thread_is_faster_than_time(threads):
    case = time_work.timed_case(200, 500, NS)
    run = case.resident(threads, threads)
    seconds = run.run()
    case.check(run)
    compared = [int(run.operator.arrays.meter[member, words.COMPARISONS]) for member in range(threads)]
    assert sum(compared) >= 2 * 200 * 500
    assert seconds >= max(compared) * NS * 1e-9


def test_example_its_kernel_is_wrapped_or_refused(monkeypatch):
    monkeypatch.setattr(time_work.CompiledJoin, "text", lambda self: "def other():\n    pass\n")
    with pytest.raises(NameError, match="'process' is not defined"):
        time_work.timed_case(16, 20, NS).resident(1, 1)


@pytest.mark.slow
def test_example_a_change_begins_behind_few_tuples():
    """The thousandth takes a millisecond; those that the gate would have let in while they were cheap wait outside."""
    left, right, size = join.make_sides(10_000, 16)
    with time_work.timed_join(left, right, size, NS).start(threads=1, max_threads=2, sink=hr.discard()) as run:
        section = run._operators["join"].section
        eventually(lambda: section.passed_tuples([0])[0] >= 1_000, HANG_S)
        end = read_cell(section.gate.words, END)
        assert end - read_cells(section.gate.cursor)[0] <= 64, "a change begins at the end of the log"
        change = run.reconfigure(threads=2)
        assert change.wait(HANG_S) and change.outcome == "done"
        assert section.inlets[0].books.added == 10_016, "the sources were slower than the join"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="nobody says what a thread needs of a core")
def test_example_a_controller_sees_that_it_leaves_the_cores_to_others():
    """Some of the time that a thread is busy it sleeps, however little of the machine is left for it."""
    left, right, size = join.make_sides(500, 200_000)
    with time_work.timed_join(left, right, size, NS).start(rate=1_000, sink=hr.discard()) as run:
        watching = run.control(None, interval_s=0.05)
        eventually(lambda: any(seen.core_share < 1 and seen.at_once(100) > seen.cores for seen in watching.observations), HANG_S)


def seen(**values):
    return Observation(at_s=1.0, interval_s=1.0, threads=4, max_threads=32, utilisation=0.01, cores=2, **values)


@pytest.mark.parametrize(("comparisons", "threads"), [(3.9e6, 6), (2.6e6, None), (1.2e6, 2)])
def test_example_load_is_the_time_of_comparisons(comparisons, threads):
    """Four threads have time for four million comparisons of a microsecond; the processor is hardly used."""
    controller = time_work.TimedThreshold(0.90, 0.70, 0.45, ns=1_000)
    observation = seen(comparisons=comparisons, arrived=100.0, processed=100.0)
    asked = [controller.decide(replace(observation, at_s=at)) for at in range(1, 60)]
    found = next((request.threads for request in asked if request is not None), None)
    assert found == threads
    by_processor = Threshold(0.90, 0.70, 0.45)
    asked = [by_processor.decide(replace(observation, at_s=at)) for at in range(1, 60)]
    assert {request.threads for request in asked if request is not None} == {1}


def test_example_work_to_come_is_the_time_of_comparisons():
    """Four threads are busy for 90 % of their time, which the processor does not see; five of them would be for 72 %."""
    controller = time_work.TimedProactive(0.80, 0.70, ns=1_000)
    observation = seen(comparisons=3.6e6, arrived=100.0, processed=100.0, offered=100.0, window_size=1_000)
    asked = [controller.decide(replace(observation, at_s=at, watermark=at * 1_000)) for at in range(1, 60)]
    assert {request.threads for request in asked if request is not None} == {5}
    by_processor = ProactiveJoin(0.80, 0.70)
    asked = [by_processor.decide(replace(observation, at_s=at, watermark=at * 1_000)) for at in range(1, 60)]
    assert {request.threads for request in asked if request is not None} == {1}


def test_example_rows_say_so():
    (row,) = time_work.marked_rows([Row("q5", "threads, mean", 3.0, "threads", note="of 4")])
    assert (row.case, row.note) == ("time work, threads, mean", f"of 4; {time_work.NOTE}")


def test_example_figures_say_so():
    figure = time_work.marked(Figure("Threads", "s", "threads", []))
    assert (figure.title, figure.note) == ("time work: threads", time_work.NOTE)
    assert time_work.marked(figure).title == figure.title
