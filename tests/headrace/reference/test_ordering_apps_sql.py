"""The ordered applications against DuckDB: the same said in SQL, on random rows and on real samples.

Property    rows are those of window functions, joins and regressions
Oracle      DuckDB; `viewed_before`, whose ranks are those of the moment, has none here
Cannot see  what only a table of many hours shows; ties of floats
The real samples are not part of the project: they are read where ``HEADRACE_DATA`` names their folder.
"""

import random

import duckdb
import pyarrow as pa
import pytest

from headrace.reference.ordering_apps import (
    abandoned,
    declining,
    mobility,
    sold_together,
    viewed_before,
    viewed_together,
)
from support.ordered_samples import sample

HOUR, DAY = 3_600_000, 86_400_000
HAVERSINE = """
    2.0 * 6371.0088 * asin(sqrt(least(1.0, power(sin(radians(lat - lat_0) / 2), 2)
        + cos(radians(lat_0)) * cos(radians(lat)) * power(sin(radians(lon - lon_0) / 2), 2))))
"""

SOLD_TOGETHER = """
    WITH of AS (SELECT DISTINCT ts // $size - (ts % $size < 0)::BIGINT AS h, ticket, item FROM input
                WHERE ticket IS NOT NULL AND item IS NOT NULL),
    pairs AS (SELECT l.h, l.item AS a, r.item AS b, count(*) AS n FROM of l JOIN of r
              ON l.h = r.h AND l.ticket = r.ticket AND l.item < r.item GROUP BY ALL),
    ranked AS (SELECT *, row_number() OVER (PARTITION BY h ORDER BY n DESC, a, b) AS rank FROM pairs)
    SELECT (h + 1) * $size, rank, a, b, n FROM ranked WHERE rank <= $top ORDER BY h, rank
"""
SESSIONS = """
    WITH gaps AS (SELECT *, ts - lag(ts) OVER (PARTITION BY "user" ORDER BY p) AS gap FROM input WHERE {whole}),
    sessions AS (SELECT *, sum(coalesce((gap > $timeout)::INT, 0)) OVER (PARTITION BY "user" ORDER BY p) AS s FROM gaps)
"""
VIEWED_TOGETHER = (
    SESSIONS.format(whole='"user" IS NOT NULL AND item IS NOT NULL')
    + """,
    met AS (SELECT "user", s, item, min(p) AS p, arg_min(ts, p) AS ts FROM sessions GROUP BY ALL),
    pairs AS (SELECT r.ts // $size - (r.ts % $size < 0)::BIGINT AS h, least(l.item, r.item) AS a, greatest(l.item, r.item) AS b,
              count(*) AS n FROM met l JOIN met r ON l."user" = r."user" AND l.s = r.s AND l.p < r.p GROUP BY ALL),
    ranked AS (SELECT *, row_number() OVER (PARTITION BY h ORDER BY n DESC, a, b) AS rank FROM pairs)
    SELECT (h + 1) * $size, rank, a, b, n FROM ranked WHERE rank <= $top ORDER BY h, rank
"""
)
ABANDONED = (
    SESSIONS.format(whole='"user" IS NOT NULL AND kind IS NOT NULL')
    + """,
    whole AS (SELECT "user", s, count(*) AS clicks, bool_or(kind = 'cart') AND NOT bool_or(kind = 'buy') AS lost,
              min(p) AS first_p, min(ts) AS first_ts FROM sessions GROUP BY ALL),
    closed AS (SELECT clicks, lost, lead(first_p) OVER w AS p, lead(first_ts) OVER w AS ts FROM whole
               WINDOW w AS (PARTITION BY "user" ORDER BY s))
    SELECT ts, row_number() OVER (ORDER BY p) AS n, sum(clicks) OVER (ORDER BY p)::DOUBLE / n
    FROM closed WHERE lost AND p IS NOT NULL ORDER BY p
"""
)
DECLINING = """
    WITH sold AS (SELECT ts, p, category, ts // $day - (ts % $day < 0)::BIGINT AS d, amount
                  FROM input JOIN categories USING (item) WHERE amount IS NOT NULL AND category IS NOT NULL),
    daily AS (SELECT category, d, min(p) AS p, min(ts) AS ts, sum(amount) AS total FROM sold GROUP BY ALL),
    moved AS (SELECT *, d - min(d) OVER (PARTITION BY category) AS x FROM daily),
    sums AS (SELECT category, count(*) OVER w AS n, sum(x) OVER w AS sx, sum(total) OVER w AS sy, sum(x * x) OVER w AS sxx,
             sum(x * total) OVER w AS sxy, lead(ts) OVER (PARTITION BY category ORDER BY d) AS ts,
             lead(p) OVER (PARTITION BY category ORDER BY d) AS p FROM moved
             WINDOW w AS (PARTITION BY category ORDER BY d))
    SELECT ts, category, n, (n * sxy - sx * sy)::BIGINT::DOUBLE / (n * sxx - sx * sx)::BIGINT::DOUBLE AS slope
    FROM sums WHERE p IS NOT NULL AND n >= 2 AND slope <= 0 ORDER BY p
"""
MOBILITY = f"""
    WITH places AS (SELECT ts, 2 * p AS p, caller AS phone, caller_lat AS lat, caller_lon AS lon FROM calls
                    UNION ALL SELECT ts, 2 * p + 1, callee, callee_lat, callee_lon FROM calls),
    moves AS (SELECT *, lag(ts) OVER w AS ts_0, lag(lat) OVER w AS lat_0, lag(lon) OVER w AS lon_0 FROM places
              WINDOW w AS (PARTITION BY phone ORDER BY p)),
    speeds AS (SELECT ts, CASE WHEN ts > ts_0 THEN ({HAVERSINE}) / ((ts - ts_0) / $hour::DOUBLE)
               WHEN lat = lat_0 AND lon = lon_0 THEN 0 ELSE 'inf'::DOUBLE END AS speed FROM moves WHERE ts_0 IS NOT NULL)
    SELECT (h + 1) * $size, count(*) FROM (SELECT ts // $size - (ts % $size < 0)::BIGINT AS h FROM speeds WHERE speed > $speed)
    GROUP BY h ORDER BY h
"""


def asked(query, source, **parameters):
    """The rows of a query over `source`, whose rows have a place `p`; other tables by their name."""
    tables = {name: table for name, table in parameters.items() if isinstance(table, pa.Table)}
    with duckdb.connect() as database:
        database.register("input", pa.Table.from_pylist([{"p": p, "ts": ts} | row for p, (ts, row) in enumerate(source)]))
        for name, table in tables.items():
            database.register(name, table)
        wanted = {name: value for name, value in parameters.items() if name not in tables and f"${name}" in query}
        return database.execute(query, wanted).fetchall()


def values(rows):
    return [tuple(row.values()) for row in rows]


def drawn(seed, rows, most_ms, **columns):
    """Rows at times that begin below zero, with columns drawn from what is given; now and then null."""
    draw, ts, source = random.Random(seed), -50 * most_ms, []
    for _ in range(rows):
        ts += draw.choice([0, draw.randrange(most_ms)])
        source.append((ts, {name: None if draw.random() < 0.03 else draw.choice(of) for name, of in columns.items()}))
    return source


@pytest.mark.parametrize("seed, top", [(1, 100), (2, 3)])
def test_oracle_sold_together(seed, top):
    source = drawn(seed, 1_500, HOUR // 40, ticket=range(40), item=range(-5, 30))
    found = values(sold_together([source], top=top))
    assert found == asked(SOLD_TOGETHER, source, size=HOUR, top=top) and len(found) > 25
    assert found[0][0] < 0


@pytest.mark.parametrize("seed, top", [(1, 30), (2, 3)])
def test_oracle_viewed_together(seed, top):
    source = drawn(seed, 1_500, HOUR // 2, user=range(5), item=range(20))
    found = values(viewed_together([source], top=top))
    assert found == asked(VIEWED_TOGETHER, source, size=DAY, top=top, timeout=HOUR) and len(found) > 25


@pytest.mark.parametrize("seed", [1, 2])
def test_oracle_abandoned(seed):
    source = drawn(seed, 2_000, HOUR // 2, user=range(6), kind=["view"] * 12 + ["cart", "buy"])
    found = values(abandoned([source]))
    assert found == asked(ABANDONED, source, timeout=HOUR) and len(found) > 50


@pytest.mark.parametrize("seed", [1, 2])
def test_oracle_declining(seed):
    source = drawn(seed, 2_000, DAY // 20, item=range(12), amount=range(-100, 5_000))
    right = [{"item": item, "category": None if item == 3 else item} for item in range(10)]
    found = values(declining([source], right))
    assert found == asked(DECLINING, source, categories=pa.Table.from_pylist(right), day=DAY) and len(found) > 20


def calls_of(source):
    whole = [row for row in source if None not in row[1].values()]
    return pa.Table.from_pylist([{"p": p, "ts": ts} | row for p, (ts, row) in enumerate(whole)])


@pytest.mark.parametrize("seed", [1, 2])
def test_oracle_mobility(seed):
    places = {f"{who}_{what}": (-60.0, 0.0, 0.0, 2.5, 70.0) for who in ("caller", "callee") for what in ("lat", "lon")}
    source = drawn(seed, 2_000, HOUR // 3, caller=range(6), callee=range(9), area=range(3), **places)
    found = values(mobility([source]))
    assert found == asked(MOBILITY, [(0, {})], calls=calls_of(source), size=HOUR, hour=HOUR, speed=900) and len(found) > 50


# -- real samples ---------------------------------------------------------------------------------------------


def rows_of(table):
    return [(row.pop("ts"), row) for row in table.to_pylist()]


@pytest.mark.slow
def test_oracle_real_clicks():
    source = rows_of(sample("clicks"))
    assert len(source) == 31_106
    found = values(abandoned([source]))
    assert found == asked(ABANDONED, source, timeout=HOUR) and len(found) > 400
    found = values(viewed_together([source]))  # of pages, for want of items
    assert found == asked(VIEWED_TOGETHER, source, size=DAY, top=30, timeout=HOUR) and len(found) > 3_000
    of_last_buy = viewed_before([[(ts, row | {"kind": "view" if row["kind"] != "buy" else "buy"}) for ts, row in source]])
    assert len(of_last_buy) > 400


@pytest.mark.slow
def test_oracle_real_sales():
    source = rows_of(sample("sales"))
    right = sample("items").to_pylist()
    assert len(source) > 26_000 and len(right) == 180
    found = values(sold_together([source]))
    assert found == asked(SOLD_TOGETHER, source, size=HOUR, top=100) and len(found) > 50_000
    found = values(declining([source], right))
    assert found == asked(DECLINING, source, categories=pa.Table.from_pylist(right), day=DAY) and len(found) > 1_000
    assert {row[1] for row in found} <= set(range(1, 11))


def test_oracle_real_calls():
    source = rows_of(sample("calls"))
    assert len(source) == 500
    for speed in (900, 20):
        found = values(mobility([source], speed=speed))
        assert found == asked(MOBILITY, [(0, {})], calls=calls_of(source), size=HOUR, hour=HOUR, speed=speed)
    assert mobility([source]) == [] and len(found) > 50
