"""The Viper experiment: two operators of Linear Road, determinism in the channel and in the operator layer.

Property    For any number of injectors and instances, at full speed and paced, each sink of either side gets
            the sequence that the plain definition gives, ties in time included. A thread that fails or hangs
            ends the run with all its threads.
Oracle      The definitions of `viper_roads`, one tuple after the other in plain Python; for equal times a sort
            by (time, injector, position), then by (time, instance, position).
Blind spot  Memory ordering on other processors; whether the figures are right.
"""

import time

import numpy as np
import pyarrow as pa
import pytest

from headrace.memory.cells import padded_cells
from headrace_bench.experiments import viper, viper_trial
from headrace_bench.experiments.viper_energy import EnergyCounters
from headrace_bench.experiments.viper_kernel import NEW_SEG, POS_REP, due_in_order
from headrace_bench.experiments.viper_roads import (
    COLUMNS,
    OPERATORS,
    define,
    expected,
    make_roads,
    plain_new_seg,
    plain_pos_rep,
    share_roads,
    sink_of,
)
from support.campaign import rarely
from support.tidiness import threads_of_ours
from support.workloads import HANG_S

ROWS = 60_000
SHAPES = [(1, 1), (2, 1), (1, 3), (2, 2), (5, 4)]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return make_roads(ROWS, seed=11)


@pytest.fixture(scope="module")
def defined(table):
    return {operator: define(table, operator) for operator in OPERATORS.values()}


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert threads_of_ours() == []


def test_example_new_seg():
    """Car 1 drives on, a query between; car 2 changes its direction at one place.

        time      1   2   3   4   5   6   7
        car 1    s4  s4   ?  s5          s4     -> 1, 4, 7
        car 2                    s9  w9         -> 5, 6
    """
    def report(ts, vid, direction, seg, kind=0):
        return ts, kind, vid, 50, 0, 1, direction, seg, seg * 5_280

    rows = [report(1, 1, 0, 4), report(2, 1, 0, 4), report(3, 1, -1, -1, kind=2), report(4, 1, 0, 5),
            report(5, 2, 0, 9), report(6, 2, 1, 9), report(7, 1, 0, 4)]  # fmt: skip
    one, two = 1 << 32, 2 << 32
    assert list(plain_new_seg(rows)) == [
        (1, one + 4, -1), (4, one + 5, 4), (5, two + 9, -1), (6, two + 109, 9), (7, one + 4, 5),
    ]  # fmt: skip
    assert [ts for ts, _, _ in plain_pos_rep(rows)] == [1, 2, 4, 5, 6, 7]
    assert list(plain_pos_rep(rows))[3] == (5, two + 9, (50 << 8 | 1) << 32 | 9 * 5_280)


def test_selectivities_are_the_papers(table, defined):
    assert len(defined[POS_REP][0]) / ROWS == pytest.approx(0.99, abs=0.003)
    assert len(defined[NEW_SEG][0]) / ROWS == pytest.approx(0.34, abs=0.05)  # many cars have only just entered
    assert (np.diff(table["ts"].to_numpy()) > 0).all()


def test_expected_tells_orders_apart(defined):
    ts, first, second = (column.copy() for column in defined[POS_REP])
    before = expected((ts, first, second), 2)
    owner = sink_of(first, 2)
    i, j = np.flatnonzero(owner == 1)[[100, 101]]
    for column in (ts, first, second):
        column[[i, j]] = column[[j, i]]
    after = expected((ts, first, second), 2)
    assert (before[0] == after[0]).all() and before[1, 1] == after[1, 1] and before[1, 0] != after[1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
@pytest.mark.parametrize("side", viper_trial.SIDES)
def test_oracle_any_numbers_of_injectors_and_instances(table, defined, side, operator):
    for injectors, instances in SHAPES:
        roads = share_roads(table, injectors, instances)
        outcome = viper_trial.run(side, roads, operator)
        truth = expected(defined[operator], instances)
        assert (outcome.ended == truth).all(), (injectors, instances)
        assert outcome.seconds > 0 and outcome.cpu_s > 0 and outcome.waits_us.size == 0


@pytest.mark.parametrize("side", viper_trial.SIDES)
@pytest.mark.slow
def test_oracle_paced(table, defined, side):
    """Batches as small as the clock makes them; each result has its latency."""
    roads = share_roads(table, 3, 2)
    truth = expected(defined[NEW_SEG], 2)
    outcome = viper_trial.run(side, roads, NEW_SEG, per_second=200_000, results=truth[:, 1])
    assert (outcome.ended == truth).all()
    assert outcome.seconds >= 0.9 * ROWS / 200_000
    assert outcome.waits_us.size == sum(n - n // 4 for n in truth[:, 1])
    assert (outcome.waits_us > 0).all() and outcome.waits_us.max() < outcome.seconds * 1e6


@pytest.mark.parametrize("side", viper_trial.SIDES)
@pytest.mark.parametrize("injectors, instances", [*rarely((2, 2)), (4, 3)])
@pytest.mark.slow
def test_oracle_equal_times(table, side, injectors, instances):
    """All tuples of a second at once: injectors, then instances, decide."""
    roads = share_roads(table, injectors, instances)
    for ts in roads.ts:
        ts //= 1_000_000
    w = roads.work
    merged = sorted(
        (int(t), s, row) for s, ts in enumerate(roads.ts) for row, t in enumerate(ts.tolist())
    )
    rows = [
        (t, *(int(getattr(w, name)[s, row]) for name in ("kind", *COLUMNS)), int(w.instance[s, row]))
        for t, s, row in merged
    ]
    results = [
        (ts, k, n, first, second)
        for k in range(instances)
        for n, (ts, first, second) in enumerate(plain_new_seg(row[:-1] for row in rows if row[-1] == k))
    ]
    results.sort()
    ts, _, _, first, second = (np.array(column) for column in zip(*results, strict=True))
    outcome = viper_trial.run(side, roads, NEW_SEG)
    assert (outcome.ended == expected((ts, first, second), instances)).all()


def test_a_car_with_two_instances_is_noticed(table, defined):
    """Planted: each instance would remember another segment of the same car."""
    roads = share_roads(table, 2, 2)
    viper.measure_cell(roads, NEW_SEG, defined[NEW_SEG], 1)
    roads = share_roads(table, 2, 2)
    roads.work.instance[:, ::2] ^= 1
    with pytest.raises(AssertionError, match="another sequence than the definition"):
        viper.measure_cell(roads, NEW_SEG, defined[NEW_SEG], 1)


def test_a_wrong_order_is_noticed(table, defined):
    ts, first, second = (column.copy() for column in defined[POS_REP])
    second[[500, 501]] = second[[501, 500]]
    with pytest.raises(AssertionError, match="2 injectors, 1 instances"):
        viper.measure_cell(share_roads(table, 2, 1), POS_REP, (ts, first, second), 1)


@pytest.mark.parametrize("side", viper_trial.SIDES)
def test_a_thread_that_fails_ends_the_run(table, side):
    roads = share_roads(table, 2, 2)
    stop, ended = padded_cells(1), np.zeros((2, 2), np.int64)
    calls = viper_trial.SIDES[side](roads, POS_REP, 0, [np.zeros(0, np.int64)] * 2, ended, stop)

    def fail():
        raise ValueError("the bridge is out")

    calls[1] = ("injector-1", fail, ())  # the others wait for it
    with pytest.raises(RuntimeError, match="the bridge is out"):
        viper_trial.run_threads(calls, stop)


@pytest.mark.parametrize("side", viper_trial.SIDES)
def test_a_run_without_end_is_given_up(table, side):
    roads = share_roads(table, 2, 2)
    stop, ended = padded_cells(1), np.zeros((2, 2), np.int64)
    calls = viper_trial.SIDES[side](roads, POS_REP, 0, [np.zeros(0, np.int64)] * 2, ended, stop)
    del calls[0]  # an injector that never says anything
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="hanging: .*instance-0"):
        viper_trial.run_threads(calls, stop, timeout_s=0.3)
    assert time.monotonic() - begin < HANG_S and stop[0] == 1


def test_no_thread_is_left_if_one_cannot_start(table, monkeypatch):
    roads = share_roads(table, 2, 1)
    start = viper_trial.WorkerPool.start

    def refuse(pool, name, body):
        if name == "viper-sink-0":
            raise RuntimeError("can't start new thread")
        start(pool, name, body)

    monkeypatch.setattr(viper_trial.WorkerPool, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        viper_trial.run("operators", roads, POS_REP)


def write_domain(folder, name, joules, span=None):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "energy_uj").write_text(f"{round(joules * 1e6)}\n")
    if span is not None:
        (folder / name / "max_energy_range_uj").write_text(f"{round(span * 1e6)}\n")


def test_energy_counters(tmp_path):
    write_domain(tmp_path, "intel-rapl:0", 10.0, 100.0)
    write_domain(tmp_path, "intel-rapl:0:0", 5.0, 100.0)  # a part of the package
    write_domain(tmp_path, "intel-rapl:1", 99.0, 100.0)
    counters = EnergyCounters(tmp_path)
    assert counters.available
    before = counters.read()
    write_domain(tmp_path, "intel-rapl:0", 12.5)
    write_domain(tmp_path, "intel-rapl:1", 1.0)  # once around
    assert counters.joules_since(before) == pytest.approx(4.5)


def test_no_energy_counters(tmp_path):
    (tmp_path / "intel-rapl:0").mkdir()  # one that cannot be read
    counters = EnergyCounters(tmp_path)
    assert not counters.available and np.isnan(counters.joules_since(counters.read()))


def test_energy_is_told_where_it_is_counted(table, defined, monkeypatch):
    one = {measure: {"readers": 1.5, "channel": 1.0, "operators": 2.0} for measure in viper.MEASURES}
    figures = {(name, 1, k): one for name in OPERATORS for k in (1, 2)}
    monkeypatch.setattr(EnergyCounters, "available", False)
    without = viper._experiment(table, figures, "")
    assert "CPU time stands for energy" in without.text
    assert not any("energy" in row.case for row in without.rows)
    monkeypatch.setattr(EnergyCounters, "available", True)
    counted = viper._experiment(table, figures, "")
    assert "RAPL" in counted.text and "stands for" not in counted.text
    assert {row.unit for row in counted.rows if "energy" in row.case} == {"uJ"}
    assert {row.unit for row in counted.rows if row.case.endswith("power")} == {"W"}
    assert not any(row.unit == "W" for row in without.rows)
    assert len(without.figures) == 18 and len(counted.figures) == 24
    assert {figure.y_label for figure in counted.figures if "power" in figure.title} == {"power (W)"}, "the paper's axis"
    medians = [row for row in counted.rows if "median of cells" in row.case]
    assert [(row.value, row.goal) for row in medians] == [(0.75, 1.1), (0.5, None)]
    merging = [row for row in counted.rows if "1x2" in row.case and row.goal is not None]
    assert merging and all(row.baseline_name == "merge operators" for row in merging)
    assert all(row.goal is None and row.baseline_name == "queues" for row in counted.rows if "1x1" in row.case)


def test_power_is_energy_over_time(table, defined, monkeypatch):
    """100 J in 2 s are 50 W; the sides take 2, 4 and 8 s for it."""
    seconds, truth = dict(zip(viper_trial.SIDES, (2.0, 4.0, 8.0), strict=True)), expected(defined[POS_REP], 1)

    def run(side, *_):
        return viper_trial.Outcome(truth, seconds[side], 1.0, 100.0, np.ones(8))

    monkeypatch.setattr(viper, "run", run)
    found = viper.measure_cell(share_roads(table, 1, 1), POS_REP, defined[POS_REP], 3)
    assert list(found["power"].values()) == [50.0, 25.0, 12.5]
    assert list(found["energy per tuple"].values()) == pytest.approx([100 / ROWS * 1e6] * 3)


def test_the_papers_16_cells_and_three_batches():
    assert len(set(viper.CELLS)) == 16 and {i for cell in viper.CELLS for i in cell} == {1, 2, 4, 6}
    assert {*viper.BATCHES, viper.BATCH} == {1, 16, 128} and set(viper.BATCHED) <= set(viper.CELLS)


@pytest.mark.parametrize("side", viper_trial.SIDES)
@pytest.mark.slow
def test_oracle_tuples_handed_over_one_at_a_time(table, defined, side):
    """The sequence is the same, at full speed and paced; `due_in_order` never gives more than it was told to."""
    roads, truth = share_roads(table, 2, 2), expected(defined[NEW_SEG], 2)
    for per_second in (0, 400_000):
        outcome = viper_trial.run(side, roads, NEW_SEG, per_second, truth[:, 1] if per_second else None, batch=1)
        assert (outcome.ended == truth).all()
    order = np.arange(1_000)
    for batch in (1, 16, 128):
        assert due_in_order(order, 10, 0, 0, batch) == 10 + batch
        assert due_in_order(order, 10, 0, 1_000_000_000, batch) == 10 + batch  # all are due long since
        assert due_in_order(order, 990, 0, 0, batch) == min(1_000, 990 + batch)


def test_figures_over_tuples_at_once_have_all_sides_and_the_default(table):
    one = {measure: dict.fromkeys(viper_trial.SIDES, 1.0) for measure in viper.MEASURES}
    figures = {(name, 2, 2): one for name in OPERATORS}
    batched = {(name, 2, 2, batch): one for name in OPERATORS for batch in viper.BATCHES}
    drawn = [each for each in viper._experiment(table, figures, "", batched).figures if "at once" in each.title]
    assert len(drawn) == 2 and all([line.x for line in each.lines] == [[1, 16, 128]] * 3 for each in drawn)


def test_example_each_side_comes_first_in_its_turn():
    rounds = [viper.in_turns(number) for number in range(6)]
    assert all(sorted(each) == sorted(viper_trial.SIDES) for each in rounds)
    assert sorted(each[0] for each in rounds) == sorted(2 * list(viper_trial.SIDES))
