"""The streams of the transactional applications: gs, sl, ob, tp, and reports of Linear Road as tp's input.

Property    Keys follow Zipf's law, within one partition or across as many as asked for; shares, ratios and lengths are
            those of the parameters; as many events are rejected as planned, and no others; reports are read as they are.
Oracle      The law's weights; counts in plain Python; the sequential reference of the applications.
Planted     Keys, partitions, shares and fields that are wrong in one place.
Blind spot  Dependence between events.
"""

import gzip
import importlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headrace.reference.transaction_apps import APPS
from headrace_datasets import gs, keys, linear_road, ob, position_reports, sl, tp
from headrace_datasets.keys import Access, Keys
from headrace_datasets.randomness import stream
from planted_mistakes import fails, planted

N = 60_000


def drawn(rows=N, operations=6, seed=3, records=1_000, skew=0.6, **access):
    return Keys(seed, Access.checked(records, skew=skew, **access)).draw(stream(1), rows, operations)


def partitions_of(touched, partitions=8):
    """How many partitions each transaction touches."""
    return 1 + np.count_nonzero(np.diff(np.sort(touched % partitions, axis=1)), axis=1)


def check_law(access, tolerance=0.1):
    """Frequencies by rank are the law's: by a fit in logarithms, and of the most frequent key."""
    skew, records = access.get("skew", 0.6), access.get("records", 1_000)
    count = np.sort(np.bincount(drawn(**access).ravel(), minlength=records))[::-1]
    assert len(count) == records, "keys beyond the records"
    weights = np.arange(1, records + 1) ** -skew
    # the first ranks by themselves, the rest in classes: of each single one the order is chance
    edges = np.unique(np.geomspace(1, records, 12).astype(int))
    middle = np.array([max(count[a:b].mean(), 1e-9) for a, b in pairwise(edges)])
    exact = np.array([weights[a:b].mean() for a, b in pairwise(edges)])
    slope = np.polyfit(np.log(exact), np.log(middle), 1)[0] if skew else 1.0
    assert slope == pytest.approx(1.0, abs=tolerance), "not Zipf's law"
    assert count[0] / count.sum() == pytest.approx(weights[0] / weights.sum(), rel=0.1), "the most frequent key"


@pytest.mark.parametrize(
    "access",
    [{"skew": 0.6}, {"skew": 1.2}, {"skew": 0.6, "multi_share": 0.25}, {"skew": 0.2, "records": 100, "multi_share": 0.0}],
    ids=str,
)
def test_keys_follow_zipfs_law(access):
    check_law(access)


def test_keys_are_equal_without_skew():
    count = np.bincount(drawn(skew=0, multi_share=0.5).ravel(), minlength=1_000)
    assert count.min() > 250 and count.max() < 480  # 360 each


def test_which_keys_are_frequent_depends_on_the_seed_and_not_on_their_number():
    first, second = (set(np.argsort(np.bincount(drawn(seed=s, skew=1.0).ravel()))[-20:].tolist()) for s in (1, 2))
    assert len(first & second) < 8
    assert np.std(sorted(first)) > 100, "frequent keys lie beside each other"


def check_partitions():
    """One partition, or exactly as many as asked for."""
    for length, share in ((4, 0.25), (2, 0.5), (6, 1.0)):
        reached = partitions_of(drawn(multi_share=share, multi_length=length))
        assert set(np.unique(reached).tolist()) <= {1, length}, "another number of partitions"
        assert (reached == length).mean() == pytest.approx(share, abs=0.01), "share"


def test_transactions_touch_one_partition_or_as_many_as_asked_for():
    check_partitions()
    assert partitions_of(drawn(multi_share=0)).max() == 1
    assert partitions_of(drawn(multi_share=1, multi_length=1)).max() == 1
    assert partitions_of(drawn(multi_share=1, operations=3)).tolist() == [3] * N, "fewer keys than partitions"
    assert partitions_of(drawn(multi_share=0.5, records=3)).max() == 3, "fewer records than partitions"
    free = partitions_of(drawn(multi_share=None))
    assert free.mean() == pytest.approx(8 * (1 - (7 / 8) ** 6), rel=0.02)


def test_hot_keys_take_their_share():
    for share, hot in ((0.5, 1), (0.9, 3), (1.0, 2)):
        touched = drawn(skew=0, hot_share=share, hot_keys=hot)
        top = np.sort(np.bincount(touched.ravel(), minlength=1_000))[::-1]
        expected = share / hot + (1 - share) / 1_000
        assert top[:hot] / touched.size == pytest.approx(np.full(hot, expected), rel=0.03)
        assert (top[hot:] > 0).any() == (share < 1)
    touched = drawn(skew=0, hot_share=0.5, multi_share=0.25)  # and in partitions
    assert np.bincount(touched.ravel()).max() / touched.size == pytest.approx(0.5, abs=0.12)
    drawn(hot_share=1.0, multi_share=1.0)  # partitions without weight are drawn all the same


@pytest.mark.parametrize(
    ("text", "mistake", "check", "expected"),
    [
        ("** -access.skew", "** -(access.skew + 0.3)", lambda: check_law({}), "not Zipf's law"),
        ("within * self._partitions + part", "within + part", lambda: check_law({"multi_share": 0.25}), "not Zipf's law"),
        ("within * self._partitions + part", "within * self._partitions", check_partitions, "share"),
        ("chosen[:, np.arange(operations) % length]", "chosen[:, np.arange(operations) // length]", check_partitions,
         "another number of partitions"),
        ("np.argsort(-score, axis=1)[:, :length]", "np.argsort(-score, axis=1)[:, :length] % 3", check_partitions,
         "another number of partitions"),
        ("rng.random(rows) < self._multi_share", "rng.random(rows) > self._multi_share", check_partitions, "share"),
    ],
)
def test_planted_mistakes_are_found(text, mistake, check, expected, monkeypatch):
    source = Path(keys.__file__).read_text()
    assert source.count(text) == 1, text
    space = {"__name__": keys.__name__}
    exec(compile(source.replace(text, mistake), "<planted>", "exec"), space)  # our own file
    monkeypatch.setitem(globals(), "Keys", space["Keys"])
    with fails(f"AssertionError: {expected}"):
        check()


# -- the applications -----------------------------------------------------------------------------------


def run(name, table, **options):
    """Rows and tables by the reference."""
    payload = table.drop_columns("ts").to_pylist()
    ts = table["ts"].cast(pa.int64()).to_pylist()
    return APPS[name]([list(zip(ts, payload, strict=True))], **options)


def test_gs_has_lists_of_one_length_and_reads_without_values():
    table = gs(n=N, seed=3, reads=0.3, operations=7).to_arrow()
    touched = table["keys"].combine_chunks()
    assert set(touched.value_lengths().to_pylist()) == {7}
    assert touched.values.to_numpy().min() == 0 and touched.values.to_numpy().max() == 9_999
    values = table["values"].combine_chunks()
    assert values.null_count / N == pytest.approx(0.3, abs=0.01)
    assert set(values.drop_null().value_lengths().to_pylist()) == {7}
    assert 0 <= values.values.to_numpy().min() and values.values.to_numpy().max() <= 1_000_000
    reached = partitions_of(touched.values.to_numpy().reshape(-1, 7))
    assert (reached == 4).mean() == pytest.approx(0.25, abs=0.01) and set(reached) == {1, 4}
    for reads, nulls in ((0, 0), (1, 1_000)):
        assert gs(n=1_000, reads=reads).to_arrow()["values"].null_count == nulls
    rows, _ = run("gs", gs(n=500, records=50).to_arrow(), records=50)
    assert not any(row["rejected"] for row in rows)


@pytest.mark.parametrize("transfers, rejected", [(0.5, 0.01), (1.0, 0.2), (0.2, 0.2), (0.0, 0.0)])
def test_sl_has_its_shares_and_exactly_the_planned_overdrafts(transfers, rejected):
    table = sl(n=5_000, seed=5, transfers=transfers, rejected=rejected, records=100).to_arrow()
    kind = np.array(table["kind"].to_pylist())
    assert (kind == "transfer").mean() == pytest.approx(transfers, abs=0.03)
    assert set(kind) <= {"deposit", "transfer"}
    for name in ("source", "source_asset"):
        assert (table[name].is_null().to_numpy() == (kind == "deposit")).all()
    amount, quantity = (table[name].to_numpy() for name in ("amount", "quantity"))
    planned = np.maximum(amount, quantity) >= 10**12
    assert planned.mean() == pytest.approx(rejected, abs=0.02)
    assert (amount[planned] < 100).any() == (quantity[planned] < 100).any() == (rejected > 0)
    rows, tables = run("sl", table, records=100)
    assert [row["rejected"] for row in rows] == planned.tolist()
    deposited = amount[kind == "deposit"].sum()
    assert sum(row["balance"] for row in tables["accounts"]) == 100 * 10_000 + deposited


def test_sl_reaches_partitions_with_all_keys_of_an_event():
    table = sl(n=N, seed=3, multi_share=0.4).to_arrow()
    is_transfer = np.array(table["kind"].to_pylist()) == "transfer"
    four = [table[name].fill_null(-1).to_numpy() for name in ("source", "target", "source_asset", "target_asset")]
    transfer = partitions_of(np.column_stack(four)[is_transfer])
    deposit = partitions_of(np.column_stack([four[1], four[3]])[~is_transfer])
    assert set(transfer) == {1, 4} and (transfer == 4).mean() == pytest.approx(0.4, abs=0.01)
    assert set(deposit) == {1, 2} and (deposit == 2).mean() == pytest.approx(0.4, abs=0.01)


def test_ob_has_its_ratio_and_exactly_the_planned_low_bids():
    table = ob(n=3_000, seed=5, rejected=0.05, records=2_000).to_arrow()
    events = table.drop_columns("ts").to_pylist()
    kinds = np.array([event["kind"] for event in events])
    for kind, share in (("bid", 6 / 8), ("alter", 1 / 8), ("top", 1 / 8)):
        assert (kinds == kind).mean() == pytest.approx(share, abs=0.03)
    for event in events:
        size = 1 if event["kind"] == "bid" else 20
        assert len(event["items"]) == size
        assert event["prices"] is None if event["kind"] == "top" else len(event["prices"]) == size
        assert event["quantities"] is None if event["kind"] == "alter" else len(event["quantities"]) == size
    planned = [event["kind"] == "bid" and event["prices"][0] < 50 for event in events]
    assert np.mean(planned) == pytest.approx(0.05, abs=0.015)
    rows, _ = run("ob", table, records=2_000)
    assert [row["rejected"] for row in rows] == planned
    reached = partitions_of(np.array([event["items"] for event in events if event["kind"] != "bid"]))
    assert set(reached) == {1, 4} and (reached == 4).mean() == pytest.approx(0.25, abs=0.06)


def test_ob_takes_any_ratio():
    for ratio, kinds in (((1, 0, 0), {"bid"}), ((0, 1, 0), {"alter"}), ((0, 0, 2), {"top"}), ((0, 1, 1), {"alter", "top"})):
        table = ob(n=500, ratio=ratio, rejected=0, items=2).to_arrow()
        assert set(table["kind"].to_pylist()) == kinds


def test_tp_has_segments_by_the_law_and_tolls_on_some_of_them():
    table = tp(n=N, seed=3).to_arrow()
    vehicle, segment, speed = (table[name].to_numpy() for name in ("vehicle", "segment", "speed"))
    share = np.sort(np.bincount(segment, minlength=100))[::-1] / N
    weights = np.arange(1, 101) ** -0.2
    assert len(share) == 100 and share == pytest.approx(weights / weights.sum(), rel=0.15)
    assert 0 <= speed.min() and speed.max() <= 100
    assert vehicle.min() == 0 and vehicle.max() == 9_999
    few = tp(n=1_500, seed=3, records=10, vehicles=150).to_arrow()
    rows, tables = run("tp", few, records=10)
    free = np.mean([row["toll"] == 0 for row in rows[1_000:]])
    assert 0.2 < free < 0.8 and not any(row["rejected"] for row in rows)
    assert min(row["vehicles"] for row in tables["segments"]) > 50


# -- position reports -----------------------------------------------------------------------------------

TEXT = "1\t\t\t107\t32\t\t\t0\t0\t0\t53320\n1 9 20 0 2 1 5279\n520\t3\t75\t0\t4\t0\t527999\n"
REPORTS = [(1, 107, 10, 32), (1, 9, 0, 20), (520, 3, 99, 75)]


def rows_of(table):
    seconds = table["ts"].cast(pa.int64()).to_numpy() // 1_000_000 - 1_093_910_400  # since 31 August 2004
    return list(zip(seconds.tolist(), *(table[name].to_pylist() for name in ("vehicle", "segment", "speed")), strict=True))


@pytest.mark.parametrize("packed", [False, True])
def test_example_reports_of_a_file(tmp_path, packed):
    path = tmp_path / "reports.txt"
    path.write_bytes(gzip.compress(TEXT.encode()) if packed else TEXT.encode())
    data = position_reports(path)
    assert rows_of(data.to_arrow()) == REPORTS, "other reports"
    assert rows_of(position_reports(str(path), n=9).to_arrow()) == REPORTS
    assert data.schema == tp(n=0).schema
    assert rows_of(position_reports(path, n=2).to_arrow()) == REPORTS[:2]
    assert position_reports(path, n=0).to_arrow().num_rows == 0
    path.write_text("")
    assert position_reports(path).to_arrow().num_rows == 0


def test_oracle_a_file_of_several_blocks(tmp_path):
    rng = np.random.default_rng(3)
    rows = np.column_stack([np.sort(rng.integers(0, 9_000, N)), *rng.integers(0, 528_000, (6, N))])
    path = tmp_path / "reports.txt"
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows.tolist()))
    table = position_reports(path).to_arrow()
    assert table["ts"].num_chunks > 1
    assert rows_of(table) == [(row[0], row[1], row[6] // 5_280, row[2]) for row in rows.tolist()]


def test_reports_of_linear_road_are_its_reports():
    road = linear_road(n=5_000, seed=2)
    kept = road.to_arrow().to_pylist()
    expected = [(row["time"], row["vid"], row["seg"], row["spd"]) for row in kept if row["type"] == 0]
    assert rows_of(position_reports(road).to_arrow()) == expected
    assert rows_of(position_reports(road, n=70).to_arrow()) == expected[:70]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1 2 3 4 5 6\n", ["reports.txt, line 1 has 6 fields", "seconds, vehicle, speed"]),
        (TEXT + "\n", ["line 4 has 0 fields"]),
        (TEXT + "519 1 2 0 0 0 0\n", ["line 4 is earlier", "sort the file"]),
        ("-1 1 2 0 0 0 0\n", ["line 1 has a time below 0"]),
        ("1 1 2 0 0 0 -1\n", ["line 1 has a position below 0"]),
        ("1 1 2 0 0 0 0\n1 1 2.5 0 0 0 0\n", ["line 2 has a field that is not a 64-bit whole number", "2.5"]),
        ("1 99999999999999999999 2 0 0 0 0\n", ["line 1 has a field that is not a 64-bit whole number"]),
        ("4000000000 1 2 0 0 0 0\n", ["line 1 has a time above"]),
    ],
)
def test_bad_files_are_told_by_line(tmp_path, text, parts):
    path = tmp_path / "reports.txt"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:
        position_reports(path).to_arrow()
    for part in parts:
        assert part in str(caught.value)


def test_a_missing_file_is_told_at_the_call(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.txt.*which is not a file; name a text file"):
        position_reports(tmp_path / "none.txt")


def test_planted_fields_that_are_mixed_up_are_found(tmp_path):
    module = importlib.import_module("headrace_datasets.position_reports")
    for text, mistake, expected in (
        ("seconds, vehicle, speed, *_, position", "seconds, speed, vehicle, *_, position", "AssertionError: other reports"),
        ("position // SEGMENT_FEET", "position // 5_000", "AssertionError: other reports"),
        ("seconds < before", "seconds <= before", "ValueError: .* is earlier than the line before"),
    ):
        with planted(module, text, mistake), fails(expected):
            test_example_reports_of_a_file(tmp_path, False)
