"""The ordered applications: each sentence of their table by hand.

Property    nulls, ties, boundaries, times below zero, options; planted mistakes fail
Oracle      small examples worked out by hand
Cannot see  what comes of many rows: test_ordering_apps_chains.py and test_ordering_apps_sql.py; files and types, which are the
            command line's
"""

import math
from pathlib import Path

import pytest

from headrace.errors import ParameterError
from headrace.reference import ordering_apps
from headrace.reference.ordering_apps import (
    abandoned,
    declining,
    haversine,
    mobility,
    sold_together,
    viewed_before,
    viewed_together,
)
from planted_mistakes import fails, planted

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def table(names, *lines):
    """One source: lines of ts and values."""
    return [[(ts, dict(zip(names.split(), values, strict=True))) for ts, *values in lines]]


def values(rows):
    return [tuple(row.values()) for row in rows]


# -- sold_together --------------------------------------------------------------------------------------------


def sales(*lines):
    return table("ticket item", *lines)


def test_example_sold_together():
    # hour 0: ticket 1 has 3 2 3 (again), ticket 2 has 2 3 and what has no number; hour 1: ticket 1 goes on with 3 4
    source = sales(
        (0, 1, 3), (1, 1, 2), (1, 2, 2), (2, 2, None), (3, 1, 3), (4, None, 9), (5, 2, 3), (HOUR - 1, 2, 9),
        (HOUR, 1, 3), (HOUR + 1, 1, 4), (5 * HOUR, 7, 8),
    )  # fmt: skip
    rows = sold_together(source)
    assert list(rows[0]) == ["ts", "rank", "a", "b", "count"]
    assert values(rows) == [
        (HOUR, 1, 2, 3, 2),  # once a ticket, though ticket 1 has 3 twice
        (HOUR, 2, 2, 9, 1),
        (HOUR, 3, 3, 9, 1),
        (2 * HOUR, 1, 3, 4, 1),  # of ticket 1, whose 2 lies in the hour before
    ]
    assert sold_together([]) == sold_together(sales((0, 1, 1), (1, 2, 2))) == []


def test_example_sold_together_ties_and_top():
    # (0, 9) twice, the others once: by count, then a, then b; items may be below zero
    source = sales((0, 1, 9), (0, 1, 0), (1, 2, 0), (2, 2, 9), (3, 2, -5), (4, 3, 9), (5, 3, 4), (6, 4, 4), (6, 4, 5))
    assert [(row["a"], row["b"]) for row in sold_together(source)] == [(0, 9), (-5, 0), (-5, 9), (4, 5), (4, 9)], "ties of pairs"
    assert [row["rank"] for row in sold_together(source)] == [1, 2, 3, 4, 5]
    assert values(sold_together(source, top=2)) == values(sold_together(source))[:2]


def test_example_hours_below_zero_and_other_sizes():
    source = sales((-HOUR - 1, 1, 1), (-HOUR - 1, 1, 2), (-HOUR, 1, 3), (-1, 1, 4), (0, 1, 5), (0, 1, 6))
    assert values(sold_together(source)) == [(-HOUR, 1, 1, 2, 1), (0, 1, 3, 4, 1), (HOUR, 1, 5, 6, 1)], "the hours of pairs"
    assert [row["ts"] for row in sold_together(source, size="2h")] == [0] * 6 + [2 * HOUR]
    micro = [[(ts * 1_000, payload) for ts, payload in source[0]]]
    assert [row["ts"] for row in sold_together(micro, unit="us")] == [-HOUR * 1_000, 0, HOUR * 1_000]
    with pytest.raises(ParameterError):
        sold_together(source, size=0)


# -- viewed_together ------------------------------------------------------------------------------------------


def views(*lines):
    return table("user item", *lines)


def test_example_viewed_together():
    # user 1 meets 5 3 5 7: pairs 3-5, 5-7 and 3-7; user 2 meets 3 5; nulls are nobody's click
    source = views((0, 1, 5), (1, 1, 3), (2, 2, 3), (3, 1, 5), (4, 2, None), (4, None, 8), (5, 1, 7), (6, 2, 5))
    rows = viewed_together(source)
    assert list(rows[0]) == ["ts", "rank", "a", "b", "count"]
    assert values(rows) == [(DAY, 1, 3, 5, 2), (DAY, 2, 3, 7, 1), (DAY, 3, 5, 7, 1)]
    assert values(viewed_together(source, top=1)) == [(DAY, 1, 3, 5, 2)]


@pytest.mark.parametrize("gap, together", [(HOUR, True), (HOUR + 1, False)])
def test_example_exactly_the_time_out_later_is_the_same_session(gap, together):
    assert bool(viewed_together(views((0, 1, 1), (gap, 1, 2)))) is together, "the end of the time-out"
    assert bool(viewed_together(views((0, 1, 1), (gap // 2, 1, 1), (gap // 2 + gap, 1, 2)))) is together, "since the last click"
    assert bool(viewed_together(views((0, 1, 1), (gap, 1, 2)), timeout=gap)) is True
    # a click without an item is none: the session does not go on by it
    assert viewed_together(views((0, 1, 1), (gap, 1, None), (gap + gap // 2, 1, 2))) == []


def check_time_out():
    test_example_exactly_the_time_out_later_is_the_same_session(HOUR, True)


def test_example_a_pair_counts_for_the_day_of_its_later_click():
    source = views((DAY - 2, 1, 1), (DAY - 1, 1, 2), (DAY, 1, 3), (DAY + 1, 1, 2))
    assert values(viewed_together(source)) == [(DAY, 1, 1, 2, 1), (2 * DAY, 1, 1, 3, 1), (2 * DAY, 2, 2, 3, 1)]
    again = views((0, 1, 1), (1, 1, 2), (2 * HOUR, 1, 2), (2 * HOUR, 1, 1))
    assert values(viewed_together(again)) == [(DAY, 1, 1, 2, 2)], "two sessions of one user count twice"
    assert [row["ts"] for row in viewed_together(again, size="1h")] == [HOUR, 3 * HOUR]


# -- viewed_before --------------------------------------------------------------------------------------------


def clicks(*lines):
    return table("user item kind", *lines)


def test_example_viewed_before():
    source = clicks(
        (0, 1, 5, "view"), (1, 1, 3, "view"), (2, 2, 9, "view"), (3, 1, 7, "view"), (4, 1, 5, "view"),
        (5, 1, 7, "buy"),    # 3 and 5, 5 once; not 7 itself
        (6, 1, 7, "buy"),    # a buy takes no view away
        (7, 2, 7, "buy"), (8, 3, 7, "buy"), (8, 3, 3, "cart"), (9, 3, None, "view"), (9, 2, 1, None), (10, 1, 3, "buy"),
    )  # fmt: skip
    rows = viewed_before(source)
    assert list(rows[0]) == ["ts", "item", "viewed", "views", "rank"]
    assert values(rows) == [
        (5, 7, 3, 1, 1), (5, 7, 5, 1, 2), (6, 7, 3, 2, 1), (6, 7, 5, 2, 2),
        (7, 7, 9, 1, 3), (10, 3, 5, 1, 1), (10, 3, 7, 1, 2),
    ], "views before"  # fmt: skip
    # after 3 is counted, 3 has one view more than 5; when 5 is, both have two: the lower number first
    assert values(viewed_before(source, top=1)) == [(5, 7, 3, 1, 1), (6, 7, 3, 2, 1), (10, 3, 5, 1, 1)], "the first one alone"


def test_example_the_last_views_are_views_and_not_items():
    seen = [(i, 1, item, "view") for i, item in enumerate([1, 2, 3, 3, 3, 3])]
    assert [row["viewed"] for row in viewed_before(clicks(*seen, (9, 1, 8, "buy")))] == [2, 3], "the last five"
    assert [row["viewed"] for row in viewed_before(clicks(*seen, (9, 1, 8, "buy")), last=4)] == [3]
    assert [row["viewed"] for row in viewed_before(clicks(*seen, (9, 1, 8, "buy")), last=6)] == [1, 2, 3]
    # of the last five, one of 8 itself takes a place
    mixed = [(i, 1, item, "view") for i, item in enumerate([1, 8, 2, 2, 2, 2])]
    assert [row["viewed"] for row in viewed_before(clicks(*mixed, (9, 1, 8, "buy")))] == [2]


def test_example_both_ends_of_the_time_count():
    ten = 10 * DAY
    source = clicks((-1, 1, 1, "view"), (0, 1, 2, "view"), (ten, 1, 3, "view"), (ten, 1, 8, "buy"), (ten, 1, 4, "view"))
    assert [row["viewed"] for row in viewed_before(source)] == [2, 3], "ten days before, and at the same time but earlier"
    assert [row["viewed"] for row in viewed_before(source, within="1d")] == [3]


def test_example_the_rank_is_that_of_the_moment():
    source = clicks(
        (0, 1, 4, "view"), (1, 1, 8, "buy"), (2, 1, 8, "buy"),  # 4 twice
        (3, 2, 6, "view"), (4, 2, 8, "buy"), (5, 2, 8, "buy"), (6, 2, 8, "buy"),  # 6: second, second (a tie), first
        (7, 1, 8, "buy"),
    )  # fmt: skip
    assert [(row["viewed"], row["views"], row["rank"]) for row in viewed_before(source)] == [
        (4, 1, 1), (4, 2, 1), (6, 1, 2), (6, 2, 2), (6, 3, 1), (4, 3, 1)
    ]  # fmt: skip


# -- abandoned ------------------------------------------------------------------------------------------------


def kinds(*lines):
    return table("user kind", *lines)


def test_example_abandoned():
    source = kinds(
        (0, 1, "view"), (1, 1, "cart"), (2, 2, "cart"), (3, 2, "buy"), (4, 3, "view"), (5, 4, "cart"), (6, 1, "help"),
        (7, 1, None), (8, None, "buy"),
        (2 * HOUR, 1, "view"),  # closes three clicks with a cart
        (2 * HOUR, 2, "view"), (2 * HOUR, 3, "view"),  # bought; no cart
        (2 * HOUR + 1, 1, "cart"), (5 * HOUR, 1, "buy"),  # a buy in the next session does not save this one
        (9 * HOUR, 1, "view"), (9 * HOUR, 4, "view"),  # only a buy; one click with a cart
    )  # fmt: skip
    rows = abandoned(source)
    assert list(rows[0]) == ["ts", "sessions", "mean_pages"]
    assert values(rows) == [(2 * HOUR, 1, 3.0), (5 * HOUR, 2, 2.5), (9 * HOUR, 3, 2.0)], "carts of hours"
    assert abandoned(kinds((0, 1, "cart"), (1, 2, "view"))) == [], "open at the end: not counted"
    assert values(abandoned(kinds((0, 1, "buy"), (0, 1, "cart"), (HOUR, 1, "view"), (3 * HOUR, 1, "view")))) == []


@pytest.mark.parametrize("gap, expected", [(MINUTE, []), (MINUTE + 1, [(MINUTE + 1, 1, 1.0)])])
def test_example_the_time_out_of_a_cart(gap, expected):
    assert values(abandoned(kinds((0, 1, "cart"), (gap, 1, "view")), timeout="1min")) == expected, "a cart's time-out"
    third = abandoned(kinds(*((i, i, "cart") for i in range(3)), (0 + DAY, 0, "x"), (1 + DAY, 1, "x"), (2 + DAY, 2, "x")))
    assert [row["mean_pages"] for row in third] == [1.0] * 3


# -- declining ------------------------------------------------------------------------------------------------


def amounts(*lines):
    return table("item amount", *lines)


SHOP = [{"item": 1, "category": 7}, {"item": 2, "category": 7}, {"item": 3, "category": 8}, {"item": 4, "category": None}]


def test_example_declining():
    source = amounts(
        (0, 1, 10), (1, 2, 20), (2, 3, 5), (3, 4, 99), (4, 9, 99), (5, None, 1), (6, 1, None),  # day 0: 30 of 7, 5 of 8
        (DAY, 1, 25), (2 * DAY - 1, 3, 5),     # day 1: 25 of 7, 5 of 8; one finished day is no slope
        (3 * DAY, 2, 1), (3 * DAY + 1, 1, 4),  # days 0 and 1 of 7: (0, 30) (1, 25)
        (5 * DAY, 3, 9),                       # days 0 and 1 of 8: flat
        (5 * DAY + 1, 2, 0),                   # days 0, 1, 3 of 7: (0, 30) (1, 25) (3, 5); a day without rows is none
        (6 * DAY, 3, 0),                       # days 0, 1, 5 of 8: grows
    )  # fmt: skip
    rows = declining(source, SHOP)
    assert list(rows[0]) == ["ts", "category", "days", "slope"]
    slope = (3 * (25 + 15) - 4 * 60) / (3 * 10 - 16)
    assert values(rows) == [(3 * DAY, 7, 2, -5.0), (5 * DAY, 8, 2, 0.0), (5 * DAY + 1, 7, 3, slope)], "categories that decline"
    assert declining(source, []) == declining([], SHOP) == []
    assert declining(source, SHOP, unit="us") == [], "all one day"


def test_example_a_slope_is_rounded_once():
    """As floats, both numbers would be rounded before the division: -3710521298401958.5."""
    days = {0: 8681534006414405, 1: -3, 2: 0, 5: -11528076721599536, 6: 0}
    rows = declining(amounts(*((day * DAY, 1, amount) for day, amount in days.items())), SHOP)
    assert rows[-1] == {"ts": 6 * DAY, "category": 7, "days": 4, "slope": -3710521298401958.0}


def test_example_days_below_zero():
    source = amounts((-2 * DAY - 1, 1, 3), (-2 * DAY, 1, 2), (-1, 1, 1), (0, 1, 0))
    # days -3, -2, -1: at 0 three are finished; at -1 two
    assert values(declining(source, SHOP)) == [(-1, 7, 2, -1.0), (0, 7, 3, -1.0)]


def test_example_items_of_the_shop():
    with pytest.raises(ParameterError, match="item 3 is there twice"):
        declining([], [*SHOP, {"item": 3, "category": 8}])
    with pytest.raises(ParameterError, match="item 4 is there twice"):
        declining([], [*SHOP, {"item": 4, "category": 1}])
    nulls = [{"item": None, "category": 1}, {"item": None, "category": 2}]
    assert declining([], SHOP + nulls) == [], "a row without an item is none"


@pytest.mark.parametrize(
    "numbers",
    [
        [2**63 - 1, 1],  # the sum of a day
        [-(2**63), -1],
    ],
)
def test_example_a_daily_sum_beyond_int64(numbers):
    source = amounts(*((i, 1, number) for i, number in enumerate(numbers)))
    with pytest.raises(OverflowError):
        declining(source, SHOP)
    declining([source[0][:1]], SHOP)


def test_example_a_regression_beyond_int64():
    far = amounts((0, 1, 2**62), (DAY, 1, 2**61), (2 * DAY, 1, 0))  # n * Sxy is 2**62, Sy does not fit: 2**62 + 2**61 does
    assert declining(far, SHOP)[0]["slope"] == -(2.0**61)
    with pytest.raises(OverflowError):
        declining(amounts((0, 1, 2**62), (DAY, 1, 2**62), (2 * DAY, 1, 0)), SHOP)  # Sy
    with pytest.raises(OverflowError):
        declining(amounts((0, 1, 1), (4 * DAY, 1, 2**61), (5 * DAY, 1, 0)), SHOP)  # x * y


def test_example_days_count_from_the_first_of_the_category():
    """The slope is the same from whatever day one counts, but large sums leave int64 sooner from a far one."""
    today = 20_000 * DAY
    source = amounts((0, 3, 1), (today, 1, 2**52), (today + DAY, 1, 2**51), (today + 2 * DAY, 1, 0))
    assert values(declining(source, SHOP)) == [(today + 2 * DAY, 7, 2, -(2.0**51))]


# -- mobility -------------------------------------------------------------------------------------------------

HOME, FAR = (45.0, 9.0), (45.0, 19.0)
KM = haversine(*HOME, *FAR)


def calls(*lines):
    """Lines of ts, caller, its place, callee, its place, and the area (1 if not said)."""
    names = "caller callee area caller_lat caller_lon callee_lat callee_lon"
    return table(names, *((ts, a, b, *(rest or (1,)), *at, *to) for ts, a, at, b, to, *rest in lines))


def test_example_mobility():
    assert 785 < KM < 786
    source = calls(
        (0, 1, HOME, 2, FAR),
        (1, 1, FAR, 3, HOME),              # 1 is in another place a millisecond later
        (2, 2, HOME, 2, HOME),             # 2 too; then it stays
        (HOUR - 1, 1, HOME, 3, HOME),      # 786 km in an hour and a bit less: not over 900
        (3 * HOUR, 4, HOME, 5, HOME), (3 * HOUR, 6, FAR, 4, FAR),  # at the same time, as callee: infinite
        (4 * HOUR, 5, HOME, 6, FAR),       # the same places at another time
    )  # fmt: skip
    rows = mobility(source)
    assert rows == [{"ts": HOUR, "frauds": 2}, {"ts": 4 * HOUR, "frauds": 1}], "frauds of hours"
    assert list(rows[0]) == ["ts", "frauds"]
    assert mobility(source, size="1d") == [{"ts": DAY, "frauds": 3}]
    assert mobility(source, speed=math.inf) == []
    assert mobility(calls((0, 1, HOME, 1, FAR))) == [{"ts": HOUR, "frauds": 1}], "caller first, then callee, be they one"
    assert mobility(calls((-1, 1, HOME, 1, FAR))) == [{"ts": 0, "frauds": 1}]


def test_example_only_what_is_over_the_speed():
    took = 2 * HOUR
    source = calls((0, 1, HOME, 2, HOME), (took, 1, FAR, 2, HOME))
    exactly = KM / 2.0
    assert mobility(source, speed=exactly) == [], "exactly the speed"
    assert mobility(source, speed=math.nextafter(exactly, 0)) == [{"ts": 3 * HOUR, "frauds": 1}]
    micro = [[(ts * 1_000, payload) for ts, payload in source[0]]]
    assert mobility(micro, speed=exactly, unit="us") == []
    assert mobility(micro, speed=math.nextafter(exactly, 0), unit="us") == [{"ts": 3 * HOUR * 1_000, "frauds": 1}]


def test_example_areas_and_nulls():
    there_and_back = [(0, 1, HOME, 2, HOME, 1), (1, 1, FAR, 2, HOME, 2), (2, 1, HOME, 2, HOME, 1)]
    assert mobility(calls(*there_and_back)) == [{"ts": HOUR, "frauds": 2}]
    assert mobility(calls(*there_and_back), area=1) == [], "calls of other areas are not seen"
    assert mobility(calls(*there_and_back), area=2) == mobility(calls(*there_and_back), area=3) == []
    for name in ("caller", "callee", "area", "caller_lat", "caller_lon", "callee_lat", "callee_lon"):
        source = calls(*there_and_back)
        source[0][1][1][name] = None
        assert mobility(source) == [], name


@pytest.mark.parametrize(
    "a, b, km",
    [
        ((0, 0), (0, 0), 0),
        ((0, 0), (0, 180), math.pi * 6371.0088),
        ((90, 0), (-90, 77), math.pi * 6371.0088),
        ((0, 0), (1, 0), math.pi * 6371.0088 / 180),
        ((90, 10), (90, -170), 0),
        ((10, 190), (10, -170), 0),
        ((math.nan, 0), (0, 0), math.nan),
        ((0, math.inf), (0, 0), math.nan),
        ((0, 1e308), (0, -1e308), math.nan),
        ((200, 0), (0, 0), math.pi * 6371.0088 * 160 / 180),
    ],
)
def test_example_haversine(a, b, km):
    assert haversine(*a, *b) == pytest.approx(km, abs=1e-3, nan_ok=True)


def test_example_places_that_are_no_numbers():
    nowhere = (math.nan, 9.0)
    assert mobility(calls((0, 1, HOME, 2, HOME), (1, 1, nowhere, 2, HOME), (2, 1, FAR, 2, HOME))) == []
    assert mobility(calls((0, 1, nowhere, 1, nowhere))) == [{"ts": HOUR, "frauds": 1}], "not the same place"


# -- planted mistakes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, mistake, failing, expected",
    [
        ("-entry[1], entry[0]", "-entry[1], (entry[0][1], entry[0][0])", test_example_sold_together_ties_and_top,
         "ties of pairs"),
        ("t.ts // width, {}).setdefault", "int(t.ts / width), {}).setdefault", test_example_hours_below_zero_and_other_sizes,
         "the hours of pairs"),
        ("t.ts - last[user] > longest", "t.ts - last[user] >= longest", check_time_out, "the end of the time-out"),
        ("last[user] = t.ts", "last.setdefault(user, t.ts)", check_time_out, "since the last click"),
        ("ts >= t.ts - span", "ts > t.ts - span", test_example_both_ends_of_the_time_count, "ten days before"),
        ("sorted(recent - {item})", "sorted(recent)", test_example_viewed_before, "views before"),
        ("deque(maxlen=last)", "deque(maxlen=last + 1)", test_example_the_last_views_are_views_and_not_items, "the last five"),
        ("if rank <= top", "if rank < top", test_example_viewed_before, "the first one alone"),
        ("t.ts - last > longest", "t.ts - last >= longest", lambda: test_example_the_time_out_of_a_cart(MINUTE, []),
         "a cart's time-out"),
        ('and "buy" not in kinds', "", test_example_abandoned, "carts of hours"),
        ("if len(days) >= 2 and", "if len(days) >= 3 and", test_example_declining, "categories that decline"),
        ("<= 0:", "< 0:", test_example_declining, "categories that decline"),
        ("open_day - first", "open_day", test_example_days_count_from_the_first_of_the_category,
         r"OverflowError: an integer: \d+ is beyond int64"),
        ('for who in ("caller", "callee")', 'for who in ("callee", "caller")', lambda: check_mobility_order(),
         "the caller comes first"),
        ("0.0 if lat_1 == lat_2", "math.inf if lat_1 == lat_2", test_example_mobility, "frauds of hours"),
        ("hour) > speed", "hour) >= speed", test_example_only_what_is_over_the_speed, "exactly the speed"),
    ],
)  # fmt: skip
def test_planted_mistakes_are_found(text, mistake, failing, expected):
    assert Path(ordering_apps.__file__).read_text().count(text) == 1, text
    with planted(ordering_apps, text, mistake), fails(f"AssertionError: {expected}|{expected}"):
        failing()


def check_mobility_order():
    """At one time the caller's place comes first: 1 was at home, is at home and then far away, or far away and then at home."""
    source = calls((0, 1, HOME, 2, HOME), (1, 1, HOME, 1, FAR), (2, 1, FAR, 2, HOME))
    assert mobility(source) == [{"ts": HOUR, "frauds": 1}], "the caller comes first"


def test_example_the_caller_comes_first():
    check_mobility_order()
