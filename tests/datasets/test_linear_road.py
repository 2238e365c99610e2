"""Linear Road: cars that report every 30 seconds, enter, travel, leave, collide, ask and come back.

Property    What the benchmark says of its input: 99 % reports, each car's 30 seconds apart, positions that
            follow from speeds, entry and exit lanes at the ends of a trip only, an accident in 20 minutes; and
            the share of new segments that Viper states.
Oracle      A plain-Python walk along each car's trips; accidents found as the benchmark defines them: two cars
            with four equal consecutive reports at one place.
Blind spot  How real drivers behave; lane changes; what a toll would be.
"""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

from headrace_datasets import linear_road
from headrace_datasets.linear_road import NAMES

HOUR_S = 3_600


def columns(**parameters) -> dict[str, np.ndarray]:
    table = linear_road(**parameters).to_arrow()
    return {name: table[name].to_numpy() for name in table.schema.names}


@pytest.fixture(scope="module")
def rows():
    """A good hour of one expressway."""
    data = columns(n=1_100_000, seed=7)
    assert data["time"][-1] >= HOUR_S
    return data


@pytest.fixture(scope="module")
def trips(rows):
    """Trips of one car in four, and of all that ever stood: lists of (time, spd, road, lane, seg, pos)."""
    stood = np.unique(rows["vid"][rows["spd"] == 0])
    reports = (rows["type"] == 0) & ((rows["vid"] % 4 == 0) | np.isin(rows["vid"], stood))
    road = rows["xway"][reports] * 2 + rows["dir"][reports]
    names = ("time", "spd", "lane", "seg", "pos")
    time, spd, lane, seg, pos = (rows[name][reports].tolist() for name in names)
    cars = defaultdict(list)
    for vid, *report in zip(
        rows["vid"][reports].tolist(), time, spd, road.tolist(), lane, seg, pos, strict=True
    ):
        cars[vid].append(tuple(report))
    found = {}
    for vid, all_reports in cars.items():
        parts = [[all_reports[0]]]
        for before, report in pairwise(all_reports):
            if report[0] - before[0] != 30:
                parts.append([])
            parts[-1].append(report)
        found[vid] = parts
    return found


def test_nearly_all_are_reports(rows):
    kinds = np.bincount(rows["type"], minlength=5) / len(rows["type"])
    assert kinds[0] == pytest.approx(0.99, abs=0.001)
    assert kinds[[1, 4]].sum() == 0
    assert kinds[2] / kinds[3] == pytest.approx(5, rel=0.1)


def test_values_are_in_range(rows):
    report, query = rows["type"] == 0, rows["type"] != 0
    limits = {"spd": (0, 100), "xway": (0, 0), "lane": (0, 4), "dir": (0, 1), "seg": (0, 99), "pos": (0, 527_999)}
    for name, (lowest, highest) in limits.items():
        values = rows[name][report]
        assert lowest <= values.min() and values.max() <= highest, name
        assert name == "xway" or values.min() < values.max()
    assert (rows["seg"][report] == rows["pos"][report] // 5_280).all()
    for name in ("s_init", "s_end", "dow", "tod"):
        assert (rows[name] == -1).all()
    for name in ("qid", "day"):
        assert (rows[name][report] == -1).all()
    for name in ("spd", "lane", "dir", "seg", "pos"):
        assert (rows[name][query] == -1).all()
    assert rows["qid"][query].tolist() == list(range(query.sum()))
    expenditure = rows["type"] == 3
    assert set(np.unique(rows["day"][expenditure])) == set(range(1, 70))
    assert (rows["xway"][expenditure] == 0).all()
    assert (rows["day"][rows["type"] == 2] == -1).all() and (rows["xway"][rows["type"] == 2] == -1).all()


def test_ts_is_the_benchmarks_time(rows):
    since = rows["ts"] - np.datetime64("2004-08-31T00:00:00")
    assert (since == rows["time"].astype("timedelta64[s]")).all()


def test_a_query_follows_its_cars_report(rows):
    query = np.flatnonzero(rows["type"] != 0)
    assert (rows["type"][query - 1] == 0).all()
    for name in ("vid", "time"):
        assert (rows[name][query] == rows[name][query - 1]).all()


@pytest.mark.parametrize("expressways", [1, 3])
def test_a_third_of_the_reports_is_from_a_new_segment(expressways):
    """From the first 200,000 rows on: the share does not hang on how far the stream has come."""
    data = columns(n=600_000, seed=5, expressways=expressways)
    last, new = {}, []
    place = (data["xway"] * 2 + data["dir"]) * 100 + data["seg"]
    for kind, vid, where in zip(*(a.tolist() for a in (data["type"], data["vid"], place)), strict=True):
        new.append(kind == 0 and last.get(vid) != where)
        if kind == 0:
            last[vid] = where
    for part in np.array_split(new, 3):
        assert part.mean() == pytest.approx(0.34, abs=0.03)


def test_trips_are_as_the_benchmark_says(trips):
    """30 seconds apart by construction of a trip; here: one road, steady progress, lanes, whole trips."""
    whole = 0
    for vid, parts in trips.items():
        for number, trip in enumerate(parts):
            for (_, _, road, lane, _, pos), (_, spd, next_road, next_lane, _, next_pos) in pairwise(trip):
                assert road == next_road
                ahead = (next_pos - pos) * (1 if road % 2 == 0 else -1)
                assert ahead >= 0 and abs(ahead - 44 * spd) <= 22, (vid, pos, next_pos, spd)  # spd is rounded
                assert lane != 4, "a report after the one from the exit lane"
                assert next_lane != 0 or lane == 0, "back on the entry lane"
            entering = [lane for *_, lane, _, _ in trip].count(0)
            if number < len(parts) - 1 or trip[-1][0] < HOUR_S - 30:
                assert trip[-1][3] == 4, (vid, trip[-1])
                assert 1 <= entering <= 3 and trip[0][3] == 0
                assert trip[-1][4] != trip[0][4]
                whole += 1
    assert whole > 2_000


def test_reports_of_a_car_are_30_seconds_apart_or_more_than_60(trips):
    breaks = []
    for parts in trips.values():
        breaks += [after[0][0] - before[-1][0] for before, after in pairwise(parts)]
    assert min(breaks) >= 61 and max(breaks) <= 1_061
    assert np.mean(breaks) == pytest.approx(561, rel=0.15)


def test_one_car_in_ten_comes_back(trips):
    came_back = [
        number + 1 < len(parts)
        for vid, parts in trips.items()
        for number, trip in enumerate(parts)
        if vid % 4 == 0 and trip[-1][0] < HOUR_S - 1_200
    ]
    assert len(came_back) > 1_000
    assert np.mean(came_back) == pytest.approx(0.1, abs=0.03)


def test_stopped_cars_are_accidents_one_in_20_minutes(trips):
    """Four equal consecutive reports; always two cars at one place, for 10 to 20 minutes."""
    accidents = defaultdict(list)
    for vid, parts in trips.items():
        for trip in parts:
            begin = 0
            for i in range(1, len(trip) + 1):
                if i == len(trip) or trip[i][2:] != trip[begin][2:]:
                    if i - begin >= 4:
                        accidents[trip[begin][2:]].append((vid, trip[begin][0], trip[i - 1][0], i == len(trip)))
                    else:
                        assert i - begin == 1, "a car stands without an accident"
                    begin = i
    assert len(accidents) in (3, 4)  # in a good hour; the last interval may have had its own or not
    starts = []
    for stopped in accidents.values():
        assert len(stopped) == 2 and stopped[0][0] != stopped[1][0]
        assert abs(stopped[0][1] - stopped[1][1]) < 30
        for _, begin, end, unfinished in stopped:
            assert unfinished or 600 <= end - begin + 30 <= 1_260
        starts.append(min(begin for _, begin, _, _ in stopped))
    assert sorted(start // 1_200 for start in starts)[:3] == [0, 1, 2]


def test_it_is_slow_behind_an_accident(rows):
    data = rows
    report = data["type"] == 0
    standing = report & (data["spd"] == 0)
    assert standing.any()
    first = np.flatnonzero(standing)[0]
    same = report & (data["dir"] == data["dir"][first]) & (np.abs(data["time"] - data["time"][first] - 150) < 120)
    way = -1 if data["dir"][first] == 0 else 1
    behind = np.isin(data["seg"], data["seg"][first] + way * np.arange(5))
    travelling = np.isin(data["lane"], (1, 2, 3)) & (data["spd"] > 0)
    assert data["spd"][same & travelling & behind].mean() < 0.6 * data["spd"][same & travelling & ~behind].mean()


def test_the_rate_rises_for_three_hours(rows):
    per_second = np.bincount(rows["time"])
    for at in (0, 600, 1_800, 3_200):
        expected = 15 + (1_700 - 15) * (at + 150) / 10_800
        assert per_second[at : at + 300].mean() == pytest.approx(expected, rel=0.15), at


def test_expressways_multiply_the_stream():
    one, four = columns(n=100_000, seed=1), columns(n=400_000, seed=1, expressways=4)
    assert set(np.unique(four["xway"])) == {-1, 0, 1, 2, 3}
    assert four["time"][-1] == pytest.approx(one["time"][-1], rel=0.1)
    shares = np.bincount(four["xway"][four["type"] == 0]) / (four["type"] == 0).sum()
    assert shares == pytest.approx(np.full(4, 0.25), abs=0.02)


def test_columns_are_the_benchmarks():
    assert len(NAMES) == 15
    assert linear_road(n=0).schema.names == ["ts", *NAMES]
