"""The applications of dependency-guided synchronization: each sentence of their table by hand.

Property    ties, what comes before the first and after the last barrier, negative values, nulls, overflow, slices and days
Oracle      small examples worked out by hand
Cannot see  what comes of many rows: there the programs are compared with these (tests/headrace/apps); files and types
"""

import pytest

from headrace.errors import InputError, ParameterError
from headrace.reference.synchronization_apps import (
    eventwindow,
    keycounter,
    modelfraud,
    outlier,
    pageview,
    smarthome,
)

HOUR, DAY = 3_600_000, 86_400_000


def table(names, *lines):
    """One source: lines of ts and values."""
    return [[(ts, dict(zip(names.split(), values, strict=True))) for ts, *values in lines]]


def values(rows):
    return [tuple(row.values()) for row in rows]


# -- eventwindow ----------------------------------------------------------------------------------------------


def test_example_eventwindow():
    #   ts        0   1   5   5   7   8   9
    #   values    1   2   4       8       16
    #   barriers  |           |       |
    left = table("x stream", (0, 1, 0), (1, 2, 1), (5, 4, 0), (7, -8, 1), (9, 16, 0))
    rows = eventwindow(left, table("", (0,), (5,), (8,)))
    assert list(rows[0]) == ["ts", "sum"]
    # left before right: the value at 0 is in the first window, that at 5 in the second
    assert values(rows) == [(0, 1), (5, 6), (8, -8)]
    assert values(eventwindow(left, table("", (-3,), (-3,)))) == [(-3, 0), (-3, 0)]
    assert eventwindow(left, []) == []


def test_example_eventwindow_overflow_is_that_of_a_window():
    most = 2**63 - 1
    left = table("x stream", (0, most, 0), (1, 1, 0), (2, -1, 0))
    assert values(eventwindow(left, table("", (2,)))) == [(2, most)]
    with pytest.raises(OverflowError):
        eventwindow(left, table("", (1,)))


def test_example_nulls():
    with pytest.raises(InputError, match="x is null at event time 3"):
        eventwindow(table("x stream", (3, None, 0)), [])
    with pytest.raises(InputError, match="info is null at event time 4"):
        pageview(table("page user", (3, 1, 1)), table("page info", (4, 1, None)))


# -- pageview -------------------------------------------------------------------------------------------------


def test_example_pageview():
    left = table("page user", (0, 1, 10), (2, 1, 11), (2, 2, 12), (4, 1, 13))
    rows = pageview(left, table("page info", (1, 1, 70), (2, 1, 71), (3, 2, 80)))
    assert list(rows[0]) == ["ts", "kind", "page", "user", "info"]
    assert values(rows) == [
        (0, "view", 1, 10, 0),
        (1, "update", 1, None, 0),
        (2, "view", 1, 11, 70),
        (2, "view", 2, 12, 0),
        (2, "update", 1, None, 70),
        (3, "update", 2, None, 0),
        (4, "view", 1, 13, 71),
    ]


# -- modelfraud -----------------------------------------------------------------------------------------------


def test_example_modelfraud():
    left = table("value", (0, 0), (0, 5), (1, -1_000), (3, 5), (4, -994), (5, 1_006), (8, 3))
    rows = modelfraud(left, table("value", (2, 1_001), (6, -17), (7, -4)))
    assert list(rows[0]) == ["ts", "kind", "value"]
    assert values(rows) == [
        (0, "fraud", 0),  # aggregate and rule are 0 at first
        (1, "fraud", -1_000),  # the remainder is not negative
        (2, "rule", -995),  # 0 + 5 - 1000; the model is (-995 + 1001) mod 1000 = 6
        (4, "fraud", -994),
        (5, "fraud", 1_006),
        (6, "rule", 17),  # 5 - 994 + 1006; the model is 0
        (7, "rule", 0),  # the model is 996
    ]


# -- keycounter -----------------------------------------------------------------------------------------------


def test_example_keycounter():
    source = table(
        "key kind", (0, 1, "inc"), (0, 2, "inc"), (1, 1, "inc"), (1, 1, "reset"), (2, 1, "reset"), (3, 1, "inc"), (4, 2, "reset")
    )
    rows = keycounter(source)
    assert list(rows[0]) == ["ts", "key", "count"]
    assert values(rows) == [(1, 1, 2), (2, 1, 0), (4, 2, 1)]
    with pytest.raises(InputError, match="'dec'"):
        keycounter(table("key kind", (0, 1, "dec")))
    with pytest.raises(InputError, match="kind is null"):
        keycounter(table("key kind", (0, 1, None)))


# -- smarthome ------------------------------------------------------------------------------------------------


def plugs(*lines):
    return table("house household plug load", *lines)


def test_example_smarthome_one_slice():
    rows = smarthome(plugs((-1, 1, 7, 3, 2.0), (-1, 1, 7, 3, 4.0), (-1, 0, 7, 3, 10.0), (-1, 1, 8, 1, 6.0)))
    assert list(rows[0]) == ["ts", "level", "house", "household", "plug", "prediction"]
    assert values(rows) == [
        (0, "house", 0, None, None, 10.0),
        (0, "house", 1, None, None, 4.0),
        (0, "household", 0, 7, None, 10.0),
        (0, "household", 1, 7, None, 3.0),
        (0, "household", 1, 8, None, 6.0),
        (0, "plug", 0, 7, 3, 10.0),
        (0, "plug", 1, 7, 3, 3.0),
        (0, "plug", 1, 8, 1, 6.0),
    ]


def test_example_smarthome_takes_the_slice_after_next_of_days_before():
    hours = [(0, 2.0), (2 * HOUR, 8.0), (DAY, 4.0), (DAY + 2 * HOUR, 16.0), (2 * DAY, 6.0)]
    rows = smarthome(plugs(*((ts, 1, 1, 1, load) for ts, load in hours)))
    of_house = [(row["ts"], row["prediction"]) for row in rows if row["level"] == "house"]
    assert of_house == [
        (HOUR, 2.0),  # nothing is known of hour 2
        (3 * HOUR, 8.0),
        (DAY + HOUR, (4.0 + 8.0) / 2),  # hour 2 of the day before
        (DAY + 3 * HOUR, 16.0),  # nothing is known of hour 4
        (2 * DAY + HOUR, (6.0 + 12.0) / 2),  # the mean of 8 and 16
    ]


def test_example_smarthome_where_the_slice_after_next_is_the_same_one():
    rows = smarthome(plugs((0, 1, 1, 1, 2.0), (DAY, 1, 1, 1, 4.0)), slice="1d")
    # each slice is the only one of its day, and those before it count
    assert [row["prediction"] for row in rows if row["level"] == "plug"] == [2.0, (4.0 + 2.0) / 2]
    with pytest.raises(ParameterError, match="must divide a day"):
        smarthome(plugs(), slice="7h")


# -- outlier --------------------------------------------------------------------------------------------------

TEN_MINUTES = 600_000


def connections(*lines):
    return table("protocol service flag duration src_bytes dst_bytes", *lines)


def usual(ts):
    return (ts, "tcp", "http", "SF", 0, 200, 1000)


def test_example_outlier_needs_both_models():
    rare = ("udp", "ntp", "SF", 0, 200, 1000)
    many = [usual(0)] * 300
    rows = outlier(connections(*many, (5, *rare)))
    assert list(rows[0]) == ["ts", "row", "protocol", "service", "flag", "duration", "src_bytes", "dst_bytes", "score"]
    # before the first request there is no model: the one after decides alone
    assert values(rows) == [(TEN_MINUTES, 300, *rare, 2)]
    # in the second slice it is a candidate; by then ten in 610 have it, and it is told no more
    later = [(TEN_MINUTES, *rare)] * 10
    assert values(outlier(connections(*many, *later))) == []
    assert [row["row"] for row in outlier(connections(*many, (TEN_MINUTES, *rare)))] == [300]
    # one in a hundred is not rare yet: fewer than that are
    assert outlier(connections(*[usual(0)] * 99, (1, *rare))) == []
    assert len(outlier(connections(*[usual(0)] * 100, (1, *rare)))) == 1


def test_example_outlier_numbers():
    far = ("tcp", "http", "SF", 500, 2**63 - 1, 1000)
    rows = outlier(connections(*[usual(0)] * 50, (TEN_MINUTES - 1, *far), usual(9 * TEN_MINUTES)))
    assert values(rows) == [(TEN_MINUTES, 50, *far, 2)]
    # all alike: nothing deviates; in a slice of its own
    assert outlier(connections(*[usual(0)] * 50)) == [] == outlier([])
    with pytest.raises(InputError, match="flag is null"):
        outlier(connections((0, "tcp", "http", None, 0, 0, 0)))
    with pytest.raises(ParameterError, match="above 0"):
        outlier(connections(), slice=0)
