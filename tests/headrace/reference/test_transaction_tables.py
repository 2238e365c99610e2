"""The tables that transactions are tested with have in them what they are for.

Property    Each kind of nastiness is there in every few hundred rows; the reference takes all of it; rows are rejected
            and are not, for each reason; a table is the same for its seed. Shapes are what their names say.
Oracle      Counting in plain Python.
Cannot see  Nastiness that nobody has thought of.
"""

import pyarrow as pa
import pytest

from support.transaction_tables import APPS, COLUMNS, RECORDS, SHAPES, TIMES, expected, nasty, overflowing


def elements(table, name):
    return [element for values in table[name].to_pylist() for element in values or []]


@pytest.mark.parametrize("app", APPS)
def test_property_everything_that_is_nasty_is_there(app):
    for seed in range(5):
        table = nasty(app, seed)
        assert table.equals(nasty(app, seed)) and not table.equals(nasty(app, seed + 5))
        assert table.schema.field("ts").type == TIMES[seed]
        assert set(table.schema.names) == {"ts", "note", *COLUMNS[app]}
        assert table["ts"].null_count == 0 and all(table[name].null_count > 0 for name in COLUMNS[app])
        assert table["note"].null_count > 0 and table["note"].num_chunks == 2
        ts = table["ts"].cast(pa.int64()).to_pylist()
        assert ts == sorted(ts) and ts[0] < 0 and len(set(ts)) < len(ts)
        rows, _ = expected(app, [table.slice(0, 250)])
        rejected = [row["rejected"] for row in rows]
        assert 0.1 < sum(rejected) / len(rows) < 0.8
        for name in rows[0].keys() - {"ts", "rejected"}:
            assert any(row[name] is None for row in rows) and any(row[name] is not None for row in rows), name
        for name, how in COLUMNS[app].items():
            if how == "list":
                given = [values for values in table[name].to_pylist() if values is not None]
                assert [] in given and any(None in values for values in given)
                assert any(len(set(values)) < len(values) for values in given)
            if how == "integer":
                assert any(value is not None and value < 0 for value in table[name].to_pylist())


@pytest.mark.parametrize("seed", range(3))
def test_property_of_each_application(seed):
    gs, sl, ob, tp = (nasty(app, seed) for app in ("gs", "sl", "ob", "tp"))
    unequal = [len(k) != len(v) for k, v in zip(*(gs[n].to_pylist() for n in ("keys", "values")), strict=True) if k and v]
    assert any(unequal) and not all(unequal)
    assert {-1, RECORDS["gs"]} & set(elements(gs, "keys")) and {-1, RECORDS["ob"]} & set(elements(ob, "items"))
    events = sl.to_pylist()
    rows, _ = expected("sl", [sl])
    done = [event for event, row in zip(events, rows, strict=True) if not row["rejected"]]
    itself = [event for event in done if event["kind"] == "transfer" and event["source"] == event["target"]]
    assert itself and any(event["source"] is None for event in done)
    overdrawn = [
        event
        for event, row in zip(events, rows, strict=True)
        if row["rejected"] and event["kind"] == "transfer" and None not in event.values() and event["amount"] > 2_000
    ]
    assert overdrawn
    kinds = {event["kind"] for event, row in zip(ob.to_pylist(), expected("ob", [ob])[0], strict=True) if not row["rejected"]}
    assert kinds == {"bid", "alter", "top"}
    tolls = {row["toll"] for row in expected("tp", [tp])[0]}
    assert {None, 0} < tolls and max(filter(None, tolls)) > 1_000


@pytest.mark.parametrize("app", APPS)
def test_agree_odd_types_are_the_same_events(app):
    plain, odd = nasty(app, 3), nasty(app, 3, odd_types=True)
    assert plain.schema != odd.schema or app == "tp"
    names = sorted(COLUMNS[app])
    assert plain.select(names).to_pylist() == odd.select(names).to_pylist()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("app", APPS)
def test_property_shapes_are_what_they_are_called(app, shape):
    make, records = SHAPES[shape]
    table = make(app, 1, 400)
    rows, _ = expected(app, [table], records)
    assert len(rows) == 400
    share = sum(row["rejected"] for row in rows) / len(rows)
    wanted = {"1 % rejected": 0.01, "half rejected": 0.5, "all rejected": 1.0}.get(shape, 0.0)
    assert share == pytest.approx(wanted, abs=0.08 if 0 < wanted < 1 else 0)
    if app == "sl" and shape == "with itself":
        assert table["source"].equals(table["target"]) and table["source_asset"].equals(table["target_asset"])


@pytest.mark.parametrize("app", APPS)
def test_example_overflowing(app):
    with pytest.raises(OverflowError):
        expected(app, [overflowing(app)])
    expected(app, [overflowing(app).slice(0, 1)])
