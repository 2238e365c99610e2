"""Method: what `bench dgs` compares plans with, beside the plain definitions; and a result that is wrong, which it must not time.

Property: the loops give what `headrace.reference` does, and a run whose results differ in one place is not the same. Lines of
an application are those counted by hand; so is a prediction. The plots have the figures that the paper has, and what the table
says. Oracle: the reference. Cannot see: whether the figures mean what they say.
"""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from headrace.apps import eventwindow, keycounter
from headrace_bench import dgs, dgs_apps, dgs_effort, dgs_latency, dgs_rates, dgs_studies
from headrace_bench.dgs_latency import Events
from headrace_bench.event_window import WINDOW
from headrace_bench.experiments.dgs import figures_of
from headrace_bench.rows import Row

PREDICTED = [f"{leaves} leaves, predicted" for leaves in (2, *dgs.BEYOND)]


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


@pytest.mark.slow
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


@pytest.mark.parametrize("leaves", [2, 4])
def test_example_a_prediction_counted_by_hand(leaves):
    """1,000 values of 100 ns for a barrier, which is one, too: it waits for its leaf, and for a join and a fork a level."""
    model = dgs.Model(WINDOW, "value", "barrier", 1_000)
    rows = {row.case: row for row in dgs.predicted(model, "a name", 10.0, 15.0, joined_ns=200.0)}
    assert list(rows) == [f"a name: {each} leaves, predicted" for each in (2, 4, 8, 16)]
    height = {2: 1, 4: 2}[leaves]
    busy_ns = 1_000 / leaves * 100 + 100 + height * 200
    row = rows[f"a name: {leaves} leaves, predicted"]
    assert row.value == pytest.approx(1_001 / busy_ns * 1e3) and row.note == "predicted, not measured"
    assert (row.baseline, row.baseline_name) == ((15.0, "measured") if leaves == 2 else (None, None))


def test_example_a_barrier_counted_by_hand():
    """80 barriers more take 16 us more on one leaf, and 20 us on two: 50 ns each, however few of them are joined."""
    few, some = dgs.Runs(1.0, 0.6, 10, 10), dgs.Runs(1.000_016, 0.600_020, 90, 50)
    row = dgs.extra("a case", {100_000: [few] * 3, 100: [some] * 3}, goal=200.0)
    assert row.case == "a case" and row.note == "50 joins at 90 barriers"
    assert row.value == pytest.approx(50.0) and row.goal == 200.0 and row.better == "lower"
    joined = [Row("dgs", case, value, "ns") for case, value in ((dgs.STAYS, 50.0), (dgs.JOIN, 700.0), (dgs.JOIN_ALONE, 600.0))]
    assert dgs.joined_ns(joined) == 700.0


@pytest.mark.slow
def test_property_every_barrier_joins_and_forks_where_that_is_timed(monkeypatch):
    """What `TRIVIAL_FORKED` is for. A barrier at which the state stays joined must not pass for a join."""
    rows = dgs._forked(40_000, 10_000, 1)
    assert [(row.case, row.goal, row.note) for row in rows] == [
        (dgs.JOIN, 200.0, "400 joins at 400 barriers"), (dgs.JOIN_ALONE, None, "400 joins at 400 barriers"),
    ]  # fmt: skip
    planned = dgs.Case.planned

    def stays_joined_once(*given):
        run, sums = planned(*given)
        run.joins = max(0, run.joins - 1)
        return run, sums

    monkeypatch.setattr(dgs.Case, "planned", stays_joined_once)
    with pytest.raises(AssertionError, match="399 joins at 400 barriers"):
        dgs._forked(40_000, 10_000, 1)


@pytest.mark.parametrize("cost", [0, 30])
def test_example_both_loops_do_the_same_work(cost, monkeypatch):
    """Where a value costs nothing, neither loop calls what makes it cost something."""
    given = []
    for loop in ("presorted", "merging"):
        right = getattr(dgs, loop)
        monkeypatch.setattr(dgs, loop, lambda *arguments, right=right: given.append(arguments[-2]) or right(*arguments))
    case = dgs.Case(100, 4, cost)
    assert (case.presorted()[1] == case.merging()[1]).all()
    assert given == [cost or None] * 2


@pytest.mark.parametrize("name", ["page views", "frauds"])
def test_example_more_leaves_are_predicted_for_both_applications(name):
    found = {"1 leaf": 8.0, "2 leaves": 13.0}
    measured = [Row("dgs", f"{name}, 30 ns: {label}", value, "M events/s") for label, value in found.items()]
    values = [row.value for row in dgs_apps.beyond(measured, 200.0)]
    assert len(values) == 4 and values == sorted(values) and 8.0 < values[0] <= 16.0 < values[-1] < 8.0 * 16


@pytest.mark.slow
def test_example_a_pace_has_the_quantiles_of_the_paper(monkeypatch):
    """Figure 6: 10th, 50th and 90th percentile at each rate, on one leaf and on two; other rows than the loop's are not timed."""
    measured = dgs_rates._rows_of("frauds", 1, 0.01, (0.5, 1.0))
    assert len(measured) == 1 + 2 * 2 * 4
    waits = [row.value for row in measured if row.unit == "ms"]
    assert all(low <= middle <= high for low, middle, high in zip(*(waits[i::3] for i in range(3)), strict=True))
    monkeypatch.setattr(dgs_rates, "same", lambda *given: False)
    with pytest.raises(AssertionError, match="frauds: 1 leaf at a pace differ"):
        dgs_rates._rows_of("frauds", 1, 0.01, (0.5,))


ADDED = "10,000 values a barrier, 0 ns: 2 leaves"
GOALS = {
    dgs: {ADDED: 0.8, f"{ADDED}, beside the loop that merges": 10, dgs.JOIN: 200},
    dgs_apps: {},  # of events that cost something: not at this size
    dgs_latency: {"change of the plan at half load, p50": 1},
}  # fmt: skip
"""Parts, and the rows of each that have a goal."""


@pytest.mark.slow
@pytest.mark.parametrize("part", GOALS, ids=lambda part: part.__name__.rpartition(".")[2])
def test_property_each_part_measures(part):
    """At a tiny size: results are compared inside, and the figures mean nothing."""
    rows = part.measure(False, tiny=True)
    assert len({row.case for row in rows}) == len(rows) >= 10
    assert all(row.bench == "dgs" and row.unit and math.isfinite(row.value) and row.value >= 0 for row in rows)
    assert {row.case: row.goal for row in rows if row.goal is not None} == GOALS[part]


def rows_of_all_parts():
    """One row for each case that the parts measure, each of another value."""
    cases = [f"{between:,} values a barrier, {cost} ns: " for between in dgs.BETWEEN for cost in dgs.COSTS_NS]
    applications = [f"{name}, {cost} ns: " for name in dgs_apps.PROGRAMS for cost in dgs_apps.COSTS_NS]
    loops = {"one loop, presorted": (*cases, *applications), "one loop that merges": cases}
    loops |= {dgs_apps.ANY_ORDER: applications, dgs_apps.BY_HAND: applications}
    names = [head + label for head in (*cases, *applications) for label in (*dgs.LEAVES.values(), *PREDICTED)]
    names += [head + label for label, heads in loops.items() for head in heads]
    for name in dgs_apps.PROGRAMS:
        for share in dgs_rates.SHARES:
            for leaves in dgs.LEAVES.values():
                what = f"{name}, 1,000 ns, offered {share:g} of one leaf's rate: {leaves}"
                names += [what, *(f"{what}, latency, {part}" for part in dgs_rates.QUANTILES)]
    for part in ("p50", "p99"):
        names += [f"latency, {beats:,} heartbeats a barrier, {part}" for beats in dgs_latency.BEATS]
        names += [f"latency, {between:,} values a barrier, {by} plan of {leaves} leaves, depth 1, {part}"
                  for between in dgs_latency.RATIOS for by in ("flat", "chain") for leaves in dgs_latency.LEAVES]  # fmt: skip
        names += [f"latency, {rate} k values/s, optimizer for {by}: 1 leaf, {part}"
                  for rate in (20, 500) for by in ("rates", "latency")]  # fmt: skip
    names += [f"8 streams, {between:,} values a barrier: plan by {by}, 8 leaves"
              for between in (10_000, 1_000, 100) for by in dgs_latency.SHAPES]  # fmt: skip
    names += [f"{name}: {leaves}" for name in ("outlier", "smarthome") for leaves in dgs.LEAVES.values()]
    names += [f"smarthome: latency at half of that speed, {part}" for part in dgs_studies.QUANTILES]
    names += ["smarthome: replay speed, 2 leaves", dgs.BARRIER]
    return [Row("dgs", name, 1.0 + number, "a unit", baseline=1_000.0 + number) for number, name in enumerate(names)]


def test_example_plots_show_what_the_table_says():
    """All figures of the paper, axes with units, and each point a row's value or ratio."""
    rows = rows_of_all_parts()
    figures = figures_of(rows)
    wanted = [f"Fig. 4 and 8: event window, {cost} ns an event" for cost in (0, 30)]
    wanted += [f"Fig. 4 and 8: {name}, {cost} ns an event" for name in ("page views", "frauds") for cost in (0, 30, 100)]
    wanted += ["Event window: values a barrier", "Fig. 6: page views, 1 µs an event", "Fig. 6: frauds, 1 µs an event"]
    wanted += ["Fig. 10a: latency over leaves", "Fig. 10b: latency over heartbeats", "Two optimizers: latency"]
    wanted += ["Plan against plan, 8 streams on two threads", "Appendix A: the case studies", "A.2: latency of predictions"]
    assert [figure.title for figure in figures] == wanted
    said = {row.value for row in rows} | {row.ratio for row in rows}
    for figure in figures:
        assert figure.lines and figure.y_label in ("M events/s", "ms", "p50, ms", "times the presorted loop"), figure.title
        for line in figure.lines:
            assert line.x and list(line.x) == sorted(line.x), (figure.title, line.name)
            assert set(line.y) <= said, (figure.title, line.name)
    by_title = {figure.title: figure for figure in figures}
    first = by_title["Fig. 4 and 8: page views, 30 ns an event"]
    assert [(line.name, list(line.x), line.predicted) for line in first.lines] == [
        ("plan", [1, 2], False), ("plan, in any order", [2], False), ("by hand, in any order", [2], False),
        ("loop, presorted", [1], False), ("plan", [2, 4, 8, 16], True),
    ]  # fmt: skip
    assert by_title["Fig. 10b: latency over heartbeats"].x_names == ["0", "1", "10", "100", "1,000"]
    assert {line.name for line in by_title["Fig. 6: frauds, 1 µs an event"].lines} == {
        f"{leaves}, {part}" for leaves in ("1 leaf", "2 leaves") for part in ("p50", "p90")
    }


@pytest.mark.slow
def test_oracle_the_case_studies_give_the_reference(monkeypatch):
    dgs_studies.check_reference()
    plain = dgs_studies.reference.outlier
    monkeypatch.setattr(dgs_studies.reference, "outlier", lambda *given, **options: plain(*given, **options)[1:])
    with pytest.raises(AssertionError, match="outlier: other rows than the reference"):
        dgs_studies.check_reference()


def test_example_bytes_that_forks_and_joins_move_and_spare_counted_by_hand():
    """A million readings are 40 MB."""
    rows = dgs_studies._bytes({"copied_bytes": 500_000, "spared_bytes": 2_000_000}, 1_000_000)
    assert [(row.case, row.value, row.baseline, row.better) for row in rows] == [
        ("smarthome: bytes that forks and joins move", 0.5, 40.0, "lower"),
        ("smarthome: bytes that forks and joins spare", 2.0, 40.0, "higher"),
    ]


@pytest.mark.slow
def test_example_smarthome_reports_bytes_moved_and_spared():
    """Forks hand over the averages as a whole, and joins leave the left side in place; what is on the right they copy."""
    rows = {row.case: row.value for row in dgs_studies._smarthome(dgs_studies.CHECKED, 1, tiny=True)}
    assert rows["smarthome: bytes that forks and joins move"] > 0
    assert rows["smarthome: bytes that forks and joins spare"] > 0


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
