"""The TStream experiment asks for the events that section VI of the paper describes, and runs what it says over them.

Property    sizes, ratios, skew, and how many transactions reach several partitions, of the events that are drawn for a figure;
            over which of them partitions are measured, and whose they are; Toll Processing in two tables is that in one
Oracle      sections VI-A, VI-B and VI-E of the paper, written down here; `headrace.reference.transaction_apps`
Planted     Figure 8 without the paper's mix, Figure 11 without its half
Cannot see  what is measured: no benchmark is run here
"""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import headrace as hr
from headrace.apps.app import sources
from headrace.reference import transaction_apps
from headrace.transactions.configuration import SCHEMES
from headrace_bench import kept
from headrace_bench.costly import TWO_TABLES, WORKLOADS, with_rounds
from headrace_bench.experiments import tstream
from headrace_bench.experiments.tstream import _Experiment
from planted_mistakes import fails, planted

EVENTS = 4_000
KEYS = {"gs": ["keys"], "sl": ["source", "target", "source_asset", "target_asset"], "ob": ["items"]}


class Asked(_Experiment):
    """Notes what would be run, and over which events."""

    def __init__(self):
        super().__init__(full=False, tiny=False)
        self.asked = []

    def case(self, name, **events):
        table = tstream.SETUPS[name].table(EVENTS, **events)
        return SimpleNamespace(name=name, table=table, can_split=name != "sl", schemes=SCHEMES[: 4 if "tp" in name else 5])

    def medians(self, case, variants):
        self.asked.append((case, variants))
        return dict.fromkeys(["serial", *variants], 1.0)


def keys_of(case):
    """The keys of each event."""
    columns = [case.table[name].to_pylist() for name in KEYS.get(case.name, ["segment"])]
    if case.name in ("gs", "ob"):
        return columns[0]
    return [[key for key in row if key is not None] for row in zip(*columns, strict=True)]


def reaching_both(case):
    """The share of the events of several keys, these in both partitions."""
    several = [keys for keys in keys_of(case) if len(keys) > 1]
    return np.mean([len({key % 2 for key in keys}) == 2 for keys in several])


def over_partitions(variants):
    """Whether each is run by two threads, of which one has the even keys and the other the odd ones."""
    return all(each["threads"] == 2 and list(each["mapping"].owners[:4]) == [0, 1, 0, 1] for each in variants.values())


def close(share):
    return pytest.approx(share, abs=0.03)


def check_partitions_in_figure_8():
    """VI-B: "each multi-partition transaction will access four different partitions, and 25% of all transactions are" such."""
    of = Asked()
    tstream._overall(of, WORKLOADS)
    mixed = {case.name: (case, variants) for case, variants in of.asked if any("mapping" in each for each in variants.values())}
    assert list(mixed) == ["gs", "sl", "ob", "tp in two tables"]
    for name, (case, variants) in mixed.items():
        assert name == "tp in two tables" or reaching_both(case) == close(0.25), "a quarter reaches both"
        assert [each["scheme"] for each in variants.values()] == ["partition"] and over_partitions(variants)
        label = tstream.IN_TWO if "tp" in name else tstream.IN_MIX
        assert f"Fig. 8, {name[:2]}, {label}, 2 threads" in [row.case for row in of.rows]


def test_oracle_partitions_in_figure_8():
    check_partitions_in_figure_8()
    with planted(tstream, "of.case(name, **MIX)", "of.case(name)"), fails("AssertionError: a quarter reaches both"):
        check_partitions_in_figure_8()


def test_example_more_threads_than_were_measured():
    """A part that is not divided limits it; where two threads were no faster than one, more are not either."""
    for one, two, at_40 in ((100.0, 50.0, 2.5), (100.0, 60.0, 22.0), (100.0, 100.0, 100.0), (100.0, 150.0, 150.0)):
        model = tstream._beyond(one, two)
        assert (1e9 / model(2), 1e9 / model(40)) == (pytest.approx(two), pytest.approx(at_40))


def test_oracle_every_scheme_is_predicted():
    of = Asked()
    tstream._overall(of, ["gs"])
    (figure,) = of.figures
    measured, predicted = ([line.name for line in figure.lines if line.predicted is which] for which in (False, True))
    assert set(predicted) == {*of.correct, "none"} < set(measured)
    last = f"{tstream.FAR[-1]} threads, predicted"
    assert {row.case for row in of.rows if row.case.endswith(last)} == {f"Fig. 8, gs, {name}, {last}" for name in predicted}


def test_example_chains_have_the_goals_of_their_own_benchmarks():
    """On two threads, in times serial; a figure that is as fast as serial, as here, misses them."""
    of = Asked()
    tstream._overall(of, WORKLOADS)
    goals = {row.case: (row.goal, row.goal_is_ratio, row.reached) for row in of.rows if row.goal is not None}
    asked = {"gs": 1.85, "sl": 1.7, "ob": 1.7, "tp": 1.7}
    assert goals == {f"Fig. 8, {name}, chains, 2 threads": (goal, True, False) for name, goal in asked.items()}
    kept_goals = {row.case: row.goal for row in kept("tstream").experiment.rows if row.goal is not None}
    assert kept_goals == {case: goal for case, (goal, _, _) in goals.items()}


def test_oracle_toll_processing_has_two_tables_in_two_partitions():
    """VI-B: "Toll Notification of TP accesses one record from two tables, and it hence always accesses two partitions"."""
    stream = TWO_TABLES.build(hr.stream(with_rounds(TWO_TABLES.table(10), 0), event_time="ts"))
    (bound,) = stream.plan().output.spec.bound.values()
    # their records are numbered in this order
    assert [(table.name, table.rows.count) for table in bound.tables] == [("speeds", 100), ("counts", 100)]
    owners = tstream.APART.owners
    assert (owners[:100] != owners[100:200]).all() and abs(owners[:100].mean() - 0.5) < 0.01


@pytest.mark.interpreted
@pytest.mark.parametrize("rounds", [0, 2])
def test_oracle_toll_processing_in_two_tables(rounds):
    table = TWO_TABLES.table(400, vehicles=150, records=3)
    rows, _ = transaction_apps.tp(sources([table]), records=100)
    stream = TWO_TABLES.build(hr.stream(with_rounds(table, rounds), event_time="ts"))
    found = stream.to_arrow(threads=2, scheme="partition", punctuation=50, mapping=tstream.APART)
    assert found.set_column(0, "ts", found["ts"].cast("int64")).to_pylist() == rows
    assert max(row["toll"] for row in rows) > 0


def test_oracle_events_of_figure_8():
    """VI-A, and the skew of VI-B."""
    of = Asked()
    tstream._overall(of, WORKLOADS)
    first = {}
    for case, _ in of.asked:
        first.setdefault(case.name, case)
    assert first.pop("tp in two tables").table.equals(first["tp"].table)
    assert list(first) == ["gs", "sl", "ob", "tp"]
    sizes = {name: [len(keys) for keys in keys_of(case)] for name, case in first.items()}
    assert set(sizes["gs"]) == {10} and set(sizes["sl"]) == {2, 4} and set(sizes["ob"]) == {1, 20} and set(sizes["tp"]) == {1}
    assert first["gs"].table["values"].null_count / EVENTS == close(1 / 2)
    kinds = {name: first[name].table["kind"].to_pylist() for name in ("sl", "ob")}
    assert kinds["sl"].count("transfer") / EVENTS == close(1 / 2)
    assert [kinds["ob"].count(kind) / EVENTS for kind in ("bid", "alter", "top")] == [close(6 / 8), close(1 / 8), close(1 / 8)]
    for name, case in first.items():
        records, skew = (100, 0.2) if name == "tp" else (10_000, 0.6)
        keys = np.concatenate(keys_of(case))
        assert keys.min() >= 0 and keys.max() < records
        weights = np.arange(1, records + 1) ** -skew
        often = np.sort(np.bincount(keys, minlength=records))[::-1]
        assert often[:10].sum() / keys.size == pytest.approx(weights[:10].sum() / weights.sum(), rel=0.3)


def test_oracle_partitions_in_figure_10():
    of = Asked()
    tstream._partitions(of)
    shares, lengths = of.asked[:5], of.asked[5:]
    assert [reaching_both(case) for case, _ in shares] == [close(share) for share in (0, 0.25, 0.5, 0.75, 1)]
    assert [reaching_both(case) for case, _ in lengths] == [close(0.5)] * 4
    assert [len(keys_of(case)[0]) for case, _ in lengths] == [2, 4, 10, 20]
    for _, variants in of.asked:
        assert {each["scheme"] for each in variants.values()} == {"chains", "lock", "mvlk", "partition"}
        assert over_partitions(variants)


def check_reads_and_skew():
    """VI-E: no skew and a share of reads; writes only and skew; "we set the multi-partition ratio to 50% under PAT"."""
    of = Asked()
    tstream._reads_and_skew(of)
    reads, skews = of.asked[:5], of.asked[5:]
    for case, variants in of.asked:
        assert reaching_both(case) == close(0.5), "half reach both"
        assert over_partitions(variants)
    assert [case.table["values"].null_count / EVENTS for case, _ in reads] == [close(s) for s in (0, 0.25, 0.5, 0.75, 1)]
    assert [case.table["values"].null_count for case, _ in skews] == [0] * 4
    most = [np.bincount(np.concatenate(keys_of(case))).max() for case, _ in of.asked]
    assert max(most[:6]) < 30 and most[5:] == sorted(most[5:]) and most[-1] > 1_000, "no skew, then more and more"


def test_oracle_reads_and_skew_in_figure_11():
    check_reads_and_skew()
    with planted(tstream, "reads=share, skew=0.0, **HALF", "reads=share, skew=0.0"), fails("AssertionError: half reach both"):
        check_reads_and_skew()


def test_example_each_figure_of_the_measurements_is_drawn():
    """Figures 8 to 14 and 1, as plots; Figure 13 has the values of its rows."""
    found = kept("tstream").experiment
    assert {f"Fig. {number}" for number in (1, *range(8, 15))} <= {re.match(r"[^:ab]*", f.title).group() for f in found.figures}
    (drawn,) = (figure for figure in found.figures if figure.title.startswith("Fig. 13"))
    waits = {row.case: row.value for row in found.rows}
    assert [line.name for line in drawn.lines] == ["chains", "lock", "mvlk", "partition"] and drawn.x_names == list(WORKLOADS)
    for line in drawn.lines:
        assert line.y == [waits[f"Fig. 13, {name}, {line.name}, p99"] for name in drawn.x_names]
    assert drawn.lines == tstream._schemes_compared(found.rows).lines
