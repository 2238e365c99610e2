"""The tables that ordered applications are tested with have in them what they are for.

Property    Each kind of nastiness is there in every few hundred rows; the reference takes all of it and gives rows; a table is
            the same for its seed; time-outs, hours and days are met exactly; in `overflowing` a sum leaves int64.
Oracle      Counting in plain Python; a reference whose boundary is off by one gives other rows.
Cannot see  Nastiness that nobody has thought of.
"""

import pyarrow as pa
import pytest

from headrace.reference import ordering_apps
from planted_mistakes import planted
from support.ordered_tables import COLUMNS, DAY, HOUR, TIMES, expected, nasty, overflowing, right

LEAST_ROWS = {"sold_together": 50, "viewed_together": 50, "viewed_before": 20, "abandoned": 10, "declining": 3, "mobility": 10}


def rows_of(app, seed, **given):
    return expected(app, [nasty(app, seed, **given)], right(seed) if app == "declining" else None)


@pytest.mark.parametrize("app", COLUMNS)
def test_property_everything_that_is_nasty_is_there(app):
    for seed in range(5):
        table = nasty(app, seed)
        first, again, other = (str(one.to_pydict()) for one in (table, nasty(app, seed), nasty(app, seed + 5)))  # NaN is not NaN
        assert first == again != other
        assert table.schema.field("ts").type == TIMES[seed]
        assert set(table.schema.names) == {"ts", "note", *COLUMNS[app]}
        assert table["ts"].null_count == 0 and all(table[name].null_count > 0 for name in COLUMNS[app])
        whole = table["ts"] if seed == 0 else table["ts"].cast(pa.timestamp("ms", table.schema.field("ts").type.tz))
        ts = whole.cast(pa.int64()).to_pylist()
        assert ts == sorted(ts) and ts[0] < -DAY and ts[-1] > 3 * DAY and len(set(ts)) < len(ts)
        assert any(one % HOUR == 0 for one in ts) and any(one % DAY == DAY - 1 for one in ts)
        rows = rows_of(app, seed)
        assert len(rows) >= LEAST_ROWS[app], seed
        assert any(row["ts"] <= 0 for row in rows) or app in ("declining", "viewed_before")


@pytest.mark.parametrize("app", COLUMNS)
def test_agree_odd_types_are_the_same_rows(app):
    plain, odd = nasty(app, 3), nasty(app, 3, odd_types=True)
    names = sorted(COLUMNS[app])
    columns = [[str(value) for value in table[name].to_pylist()] for table in (plain, odd) for name in names]
    assert columns[: len(names)] == columns[len(names) :]
    assert rows_of(app, 3) == rows_of(app, 3, odd_types=True)


@pytest.mark.parametrize(
    "app, text, mistake",
    [
        ("sold_together", "t.ts // width, {}).setdefault", "int(t.ts / width), {}).setdefault"),
        ("viewed_together", "t.ts - last[user] > longest", "t.ts - last[user] >= longest"),
        ("viewed_together", "days.setdefault(t.ts // width", "days.setdefault(-(-t.ts // width)"),
        ("viewed_before", "sorted(recent - {item})", "sorted(recent)"),
        ("viewed_before", 'kind == "view"', 'kind != "buy"'),
        ("abandoned", "t.ts - last > longest", "t.ts - last >= longest"),
        ("declining", "open_day - first", "open_day - first + (day > 2 * open_day)"),
        ("mobility", 'for who in ("caller", "callee")', 'for who in ("callee", "caller")'),
        ("mobility", "frauds[t.ts // width]", "frauds[-(-t.ts // width)]"),
    ],
)
def test_planted_mistakes_show_in_these_tables(app, text, mistake):
    right_ones = [rows_of(app, seed) for seed in range(3)]
    with planted(ordering_apps, text, mistake):
        wrong = [rows_of(app, seed) for seed in range(3)]
    assert wrong != right_ones


def test_example_right_has_no_item_twice():
    for seed in range(20):
        items = right(seed)["item"].drop_null().to_pylist()
        assert len(items) == len(set(items)) == 12 and right(seed)["category"].null_count + right(seed)["item"].null_count > 1


def test_example_overflowing():
    for seed in range(5):
        with pytest.raises(OverflowError):
            expected("declining", [overflowing()], right(seed))
        expected("declining", [overflowing().slice(0, 1)], right(seed))
