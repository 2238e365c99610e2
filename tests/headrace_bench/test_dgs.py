"""Method: what `bench dgs` compares plans with, beside the plain definitions; and a result that is wrong, which it must not time.

Property: the loops give what `headrace.reference` does, and a run whose results differ in one place is not the same. Lines of
an application are those counted by hand. Oracle: the reference. Cannot see: whether the figures mean what they say.
"""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from headrace.apps import eventwindow, keycounter
from headrace_bench import dgs_apps, dgs_effort, dgs_studies
from headrace_bench.dgs_latency import Events


def test_oracle_the_loops_give_the_reference(monkeypatch):
    dgs_apps.check_reference()
    loop = dgs_apps.frauds
    monkeypatch.setattr(dgs_apps, "frauds", lambda *given: loop(*given) - 1)
    with pytest.raises(AssertionError, match="frauds: the loop differs"):
        dgs_apps.check_reference()


def test_example_one_other_value_is_not_the_same():
    expected = [np.array([1, 2, 3]), np.array([4, 5, 6])]
    table = pa.table({"ts": [0, 1, 2], "kind": expected[0], "value": expected[1]})
    assert dgs_apps.same(SimpleNamespace(table=table), expected)
    for column in range(2):
        changed = [each.copy() for each in expected]
        changed[column][1] += 1
        assert not dgs_apps.same(SimpleNamespace(table=table), changed)
        assert not dgs_apps.same(SimpleNamespace(table=table), changed, in_order=False)
    turned = table.take(pa.array(range(len(table)))[::-1])
    assert dgs_apps.same(SimpleNamespace(table=turned), expected, in_order=False)
    assert not dgs_apps.same(SimpleNamespace(table=turned), expected)
    assert not dgs_apps.same(SimpleNamespace(table=table.slice(1)), expected)


@pytest.mark.parametrize("order", ["events", "none"])
def test_oracle_page_views_through_a_run_are_those_of_the_loop(order):
    """The program that is timed, from tables to a table: inlets, mailboxes, plan, collector."""
    case = dgs_apps.Case("page views", 4_000, 0)
    found = case.program.over(case.inputs).to_arrow(threads=2, leaves=2, max_threads=2, order=order)
    expected = case.serial()[1]
    assert dgs_apps.same(SimpleNamespace(table=found), expected, order == "events")
    assert not dgs_apps.same(SimpleNamespace(table=found.slice(1)), expected, in_order=False)


@pytest.mark.parametrize("name", ["page views", "frauds"])
def test_oracle_threads_that_synchronize_by_hand_give_what_the_loop_does(name):
    case = dgs_apps.Case(name, 60_000, 0)
    expected = case.serial()[1]
    for threads in (1, 2, 3):
        found = case.by_hand(threads)[1]
        assert dgs_apps.same_columns(found, expected, in_order=False)
        found[1][-1] += 1
        assert not dgs_apps.same_columns(found, expected, in_order=False)


def test_example_the_plain_sums_are_what_runs_are_checked_with():
    events = Events(3, 1_000, 10, 0.1)
    x = np.concatenate([table["x"].to_numpy() for table in events.inputs["value"]])
    assert sum(events.sums) == x.sum() and len(events.sums) == events.inputs["barrier"].num_rows == 10
    events.check(SimpleNamespace(table=pa.table({"sum": events.sums})), "right")
    with pytest.raises(AssertionError, match="other sums"):
        events.check(SimpleNamespace(table=pa.table({"sum": events.sums[::-1]})), "wrong")


@pytest.mark.slow
def test_oracle_the_case_studies_give_the_reference(monkeypatch):
    dgs_studies.check_reference()
    plain = dgs_studies.reference.outlier
    monkeypatch.setattr(dgs_studies.reference, "outlier", lambda *given, **options: plain(*given, **options)[1:])
    with pytest.raises(AssertionError, match="outlier: other rows than the reference"):
        dgs_studies.check_reference()


def test_example_lines_of_code_counted_by_hand():
    """Updates of 1 and 2 lines, their heads, and what is said; a fork of 5 and a join of 2 lines, and theirs."""
    assert dgs_effort.lines_of(keycounter) == (13, 12)


def test_example_every_principle_can_be_seen_to_fail(monkeypatch):
    """Results that know how many leaves there are, and how many streams; a join that forgets."""
    table = pa.table({"sum": [1]})
    right = ((1, 1), (1, 2))
    monkeypatch.setattr(dgs_effort, "results", lambda app, tables, *on: table if on in right else table[:0])
    forgets = dataclasses.replace(eventwindow.PROGRAM, join=lambda into, other: None)
    monkeypatch.setattr(eventwindow, "PROGRAM", forgets)
    rows = dgs_effort._principles(eventwindow, tiny=True)
    assert [(row.value, row.baseline, row.reached) for row in rows] == [(0.0, 2.0, False), (1.0, 2.0, False), (0.0, 2.0, False)]
    assert rows[0].note == "paper's Table 1 yes: Flink, Timely, Flumina"


def test_example_what_the_papers_table_says_of_other_systems():
    """Section 4.5: by hand Flink gives up all three for page views, Timely the second alone."""
    said = [dgs_effort._quoted("pageview", number) for number in range(3)]
    assert said == [
        "paper's Table 1 yes: Flink, Timely, Timely by hand, Flumina; no: Flink by hand",
        "paper's Table 1 yes: Flink, Timely, Flumina; no: Flink by hand, Timely by hand",
        "paper's Table 1 yes: Flink, Timely, Timely by hand, Flumina; no: Flink by hand",
    ]
    assert dgs_effort._quoted("outlier", 0) == "not in the paper's Table 1"
