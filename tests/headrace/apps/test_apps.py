"""Every application, from file to file: the reference's rows, and one file whatever the flags.

Oracle: `headrace.reference.apps`, on small random inputs with what is easily got wrong in them:
equal and negative times, odd whitespace, nulls, zero averages, NaN, infinities, empty texts.
Cannot see: long streams, where buffers and dictionaries turn over (the engine's own tests do), and
mistakes that the reference shares.
"""

import math
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.apps import APPS
from headrace.apps.app import sources
from headrace.apps.command import run
from headrace.apps.compare import first_difference
from headrace.errors import ParameterError
from support.command_line import asked

ELASTIC = [name for name, app in APPS.items() if app.engine == "elastic"]  # the others: test_transactions.py
NAMES = [pytest.param(name, marks=pytest.mark.logic if name == "tolls" else ()) for name in ELASTIC]
"""What is made of operators that the other ones have, behind each other, runs interpreted."""
TEXTS = [
    "", " ", "a", "a b", "b  a\ta", "#a", "#A #a", "#", "## #", "#a#b", "x#a", "wide\u3000space\u00a0#no-break",
    "\U0001f600 #\U0001f389 e\u0301", "a b c d e f g h i j k l m n o", "line\nof\x1ctext", "A", "zero\u200bwidth",
]  # fmt: skip
MINUTE = 60_000
ZONE = pa.timestamp("us", tz="UTC")


def texts(draw, rows=400, minutes=40):
    """Some minutes of texts around time 0."""
    ts = sorted(draw.randrange(-5 * MINUTE, (minutes - 5) * MINUTE, 500) for _ in range(rows))
    return pa.table(
        {
            "ts": pa.array(ts, pa.int64()),
            "user": [draw.choice(["u", "v", None]) for _ in ts],
            "text": [" ".join(draw.choices(TEXTS, k=draw.randrange(4))) for _ in ts],
        }
    )


def sides(draw, rows=250):
    def times():
        return pa.array(sorted(draw.randrange(-600_000_000, 600_000_000, 10_000_000) for _ in range(rows)), ZONE)

    def numbers(kind, odd):
        values = [draw.choice(odd) if draw.random() < 0.1 else draw.uniform(0, 100) for _ in range(rows)]
        return pa.array([v if v is None or pa.types.is_floating(kind) else int(v) for v in values], kind)

    odd = [None, math.nan, math.inf, -math.inf, -0.0, 10.000001, 20.0]
    left = pa.table(
        {"ts": times(), "x": numbers(pa.int32(), [None, 0, 50]), "y": numbers(pa.float32(), odd)}
    )
    right = pa.table(
        {
            "ts": times(),
            "a": numbers(pa.int32(), [None, 0, 60]),
            "b": numbers(pa.float32(), odd),
            "c": numbers(pa.float64(), odd),
            "d": [draw.choice([True, False, None]) for _ in range(rows)],
        }
    )
    return left, right


def trades(draw, rows=300, named=False):
    ts = pa.array(sorted(draw.randrange(0, 200_000_000, 1_000_000) for _ in range(rows)), ZONE)
    names = ["A", "B", "C", None]
    ids = [draw.choice(names) if named else draw.choice([1, 2, 3, None]) for _ in range(rows)]
    average = [draw.choice([0, 1000, 1000, 2000, None]) for _ in range(rows)]
    price = [
        None if draw.random() < 0.05 else round((a or 500) * draw.choice([1, 0.95, 1.05, 0.9, 1.1, 0.948]))
        for a in average
    ]
    return pa.table(
        {
            "ts": ts,
            "id": pa.array(ids, pa.string() if named else pa.int32()),
            "price": pa.array(price, pa.int64()),
            "average": pa.array(average, pa.int64()),
        }
    )


def reports(draw, rows=400, step=500):
    """Some minutes of Linear Road around time 0: vehicles that drive on, stand, leave, come back; at one time too."""
    at: dict = {}
    columns = {name: [] for name in ("type", "vid", "xway", "lane", "dir", "seg")}
    for _ in range(rows):
        vid, road = draw.choice([-1, *range(12)]), (draw.choice([0, 0, 0, 7]), draw.choice([0, 0, 0, 1]))
        at[vid, road] = at.get((vid, road), draw.randrange(-2, 3)) + draw.choice([0, 0, 0, 1, 1, -2])
        report = {
            "type": draw.choice([0] * 9 + [2]), "vid": vid, "xway": road[0], "lane": draw.choice([0, 1, 2, 3, 3, 4]),
            "dir": road[1], "seg": at[vid, road],
        }  # fmt: skip
        if draw.random() < 0.1:
            report[draw.choice(sorted(report))] = None
        for name, value in report.items():
            columns[name].append(value)
    ts = sorted(draw.randrange(-3 * MINUTE, 4 * MINUTE, step) for _ in range(rows))
    return pa.table({"ts": pa.array(ts, pa.int64())} | {name: pa.array(values, pa.int32()) for name, values in columns.items()})


def departures(draw, rows=500):
    ports = ["EWR", "JFK", "LGA", "LAX", "BOS"]
    return pa.table(
        {
            "time_hour": pa.array([draw.randrange(-3, 30) * 3_600_000_000 for _ in range(rows)], ZONE),
            "minute": [draw.randrange(60) for _ in range(rows)],
            "origin": [draw.choice(ports) for _ in range(rows)],
            "dest": [draw.choice(ports) for _ in range(rows)],
            "dep_delay": pa.array([draw.choice([None, -5, 0, 7, 120]) for _ in range(rows)], pa.int64()),
            "carrier": ["AA"] * rows,
        }
    )


def inputs_of(name, seed=1):
    draw = random.Random(seed)
    if name == "scalejoin":
        return sides(draw)
    if name == "hedge":
        return (trades(draw),)
    if name == "tolls":
        return (reports(draw, 150),)  # interpreted, and by up to nine threads
    if name == "flights":
        return (departures(draw),)
    if name == "forward":
        return (texts(draw), texts(draw))
    return (texts(draw),)


def expected_rows(name, tables, unit=None, **given):
    app = APPS[name]
    if app.prepare is not None:
        tables = [app.prepare(table) for table in tables]
    columns = [None if app.prepare else app.columns(side) for side in range(len(tables))]
    parts = [sources([table], chosen) for table, chosen in zip(tables, columns, strict=True)]
    if name == "forward":
        return app.reference([part for side in parts for part in side])
    if unit is None:
        unit = "us" if pa.types.is_timestamp(tables[0].schema.field("ts").type) else "ms"
    return app.reference(*parts, unit=unit, **app.parameters(given))


class Files:
    """Runs applications on tables, each from a file to a file."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0

    def write(self, table):
        self.count += 1
        path = str(self.folder / f"in{self.count}.parquet")
        pq.write_table(table, path)
        return path

    def run(self, name, tables, **flags):
        """Return the result's path and the report."""
        self.count += 1
        out = self.folder / f"out{self.count}.parquet"
        paths = [self.write(table) for table in tables]
        paths += [None] * (2 - len(paths))
        report = run(asked(name, str(out), left=paths[0], right=paths[1], **flags))
        return out, report


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_agree_one_file_whatever_the_flags(files, name):
    tables = inputs_of(name)
    first, report = files.run(name, tables)
    wanted = expected_rows(name, tables)
    assert first_difference(pq.read_table(first), wanted) is None
    assert wanted, "a test without results shows nothing"
    assert report["tuples_in"] == sum(table.num_rows for table in tables)
    assert report["tuples_out"] == len(wanted)
    for flags in (
        {"threads": 2, "batch": 7},
        {"threads": 8, "batch": 1000},
        {"threads": 1, "reconfigure": "0%:3,10%:4,33.3%:8,50%:1,100%:2", "batch": 64},
        {"threads": 8, "reconfigure": "1%:1,2%:8,3%:1,97%:2", "max_threads": 9},
    ):
        again, report = files.run(name, tables, **flags)
        assert again.read_bytes() == first.read_bytes(), flags
        schedule = flags.get("reconfigure", "").split(",") if "reconfigure" in flags else []
        changes = [c for c in report["reconfigurations"] if name != "tolls" or c["operator"] == "before"]  # which all rows reach
        assert [c["to"] for c in changes] == [int(e.split(":")[1]) for e in schedule]
        assert all(c["ms"] is not None for c in report["reconfigurations"]), report


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["vsn", "sn"])
@pytest.mark.parametrize("gate", ["log", "scalegate"])
@pytest.mark.parametrize("name", NAMES)
def test_agree_every_mode_and_gate(files, name, gate, mode):
    tables = inputs_of(name, seed=2)
    first, _ = files.run(name, tables)
    for flags in ({"threads": 2}, {"threads": 1, "reconfigure": "10%:4,50%:1", "batch": 50}):
        again, _ = files.run(name, tables, gate=gate, mode=mode, **flags)
        assert again.read_bytes() == first.read_bytes(), flags


@pytest.mark.parametrize("name", [name for name in ELASTIC if name != "tolls"])  # where a vehicle was before depends on it
def test_agree_sources_change_the_order_of_equal_times_only(files, name):
    tables = inputs_of(name, seed=3)
    one, _ = files.run(name, tables)
    three, _ = files.run(name, tables, sources=3, threads=2)

    def grouped(path):
        rows = pq.read_table(path).to_pylist()
        return [row["ts"] for row in rows], sorted(map(repr, rows))

    assert grouped(three) == grouped(one)
    if not APPS[name].is_self_join and name not in ("scalejoin", "forward"):
        assert three.read_bytes() == one.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_example_an_empty_input_gives_an_empty_file(files, name):
    tables = [table.slice(0, 0) for table in inputs_of(name)]
    out, report = files.run(name, tables, threads=2, reconfigure="0%:1,100%:2")
    assert pq.read_metadata(out).num_rows == 0
    assert pq.read_schema(out).names[0] == "ts"
    assert report["tuples_in"] == report["tuples_out"] == 0


COLUMNS = {
    "wordcount": {"ts": "int64", "word": "string", "count": "int64"},
    "paircount": {"ts": "int64", "first": "string", "second": "string", "count": "int64"},
    "longest": {"ts": "int64", "hashtag": "string", "chars": "int64"},
    "forward": {"ts": "int64", "user": "string", "text": "string"},
    "scalejoin": {
        "ts": "timestamp[us, tz=UTC]", "x": "int32", "y": "float", "a": "int32", "b": "float", "c": "double", "d": "bool"
    },
    "hedge": {
        "ts": "timestamp[us, tz=UTC]", "l_id": "int32", "l_price": "int64", "r_id": "int32", "r_price": "int64"
    },
    "tolls": {"ts": "int64", "xway": "int32", "dir": "int32", "seg": "int64", "vehicles": "int64", "toll": "int64"},
    "flights": {"ts": "timestamp[us, tz=UTC]", "airport": "string", "flights": "int64", "worst_delay": "int64"},
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_example_columns_and_types(files, name):
    out, _ = files.run(name, inputs_of(name))
    assert {field.name: str(field.type) for field in pq.read_schema(out)} == COLUMNS[name]


@pytest.mark.parametrize(
    "kind",
    [pa.int32(), *(pa.timestamp(unit, tz) for unit in ("s", "ms", "us", "ns") for tz in (None, "Europe/Stockholm"))],
    ids=str,
)
@pytest.mark.parametrize("name", ["wordcount", "forward"])
def test_oracle_the_event_time_keeps_its_type(files, name, kind):
    table = texts(random.Random(4), rows=60)
    whole = pa.array([ts // 1000 for ts in table["ts"].to_pylist()], pa.int64())
    if pa.types.is_timestamp(kind):
        ts = whole.cast(pa.timestamp("s", kind.tz)).cast(kind)
    else:
        ts = whole.cast(kind)
    table = table.set_column(0, "ts", ts)
    out, _ = files.run(name, [table])
    result = pq.read_table(out)
    # Parquet has no seconds: Arrow stores them as milliseconds, and so is such an input read.
    stored = pq.read_schema(files.write(table)).field("ts").type
    assert result.schema.field("ts").type == stored
    unit = "us" if pa.types.is_timestamp(kind) else "ms"
    assert first_difference(result, expected_rows(name, [table], unit)) is None


@pytest.mark.slow
def test_example_times_a_type_cannot_hold_come_as_microseconds(files):
    """A result of a join is one microsecond later than its later tuple; windows may end within a second."""
    left, right = (
        table.set_column(0, "ts", table["ts"].cast(pa.timestamp("ms", "UTC"))) for table in sides(random.Random(11), 60)
    )
    out, _ = files.run("scalejoin", [left, right])
    assert pq.read_schema(out).field("ts").type == ZONE
    assert first_difference(pq.read_table(out), expected_rows("scalejoin", [left, right])) is None
    table = pa.table({"ts": pa.array([0, 1], pa.timestamp("ms")), "text": ["a", "b"]})
    out, _ = files.run("wordcount", [table], size=1500, advance=500)
    assert pq.read_schema(out).field("ts").type == pa.timestamp("us")
    assert first_difference(pq.read_table(out), expected_rows("wordcount", [table], size=1500, advance=500)) is None


@pytest.mark.parametrize("distance", [1, 10, math.inf])
def test_oracle_paircount_distances(files, distance):
    tables = [texts(random.Random(5), rows=80)]
    out, _ = files.run("paircount", tables, options={"distance": distance}, size="5min", advance="2min")
    wanted = expected_rows("paircount", tables, distance=distance, size="5min", advance="2min")
    assert first_difference(pq.read_table(out), wanted) is None


@pytest.mark.parametrize("band", [2.5])  # each width is compiled anew
def test_oracle_scalejoin_bands(files, band):
    tables = sides(random.Random(6), rows=100)
    out, report = files.run("scalejoin", tables, options={"band": band}, size="1min")
    assert first_difference(pq.read_table(out), expected_rows("scalejoin", tables, band=band, size="1min")) is None
    assert report["comparisons_per_s"] > 0


@pytest.mark.campaign  # a compilation; other types of columns: hedge, of floats and of names
def test_oracle_scalejoin_wide_types(files):
    tables = [
        table.cast(pa.schema([pa.field(f.name, {"int32": pa.int64(), "float": pa.float64()}.get(str(f.type), f.type))
                              for f in table.schema]))
        for table in sides(random.Random(7), rows=100)
    ]  # fmt: skip
    out, _ = files.run("scalejoin", tables, threads=2)
    assert first_difference(pq.read_table(out), expected_rows("scalejoin", tables)) is None


@pytest.mark.slow
def test_oracle_hedge_of_named_stocks(files):
    tables = [trades(random.Random(8), named=True)]
    out, _ = files.run("hedge", tables, threads=2)
    assert first_difference(pq.read_table(out), expected_rows("hedge", tables)) is None


def test_oracle_hedge_of_float_prices(files):
    table = trades(random.Random(9))
    table = table.set_column(2, "price", table["price"].cast(pa.float64()))
    table = table.set_column(3, "average", table["average"].cast(pa.float64()))
    out, _ = files.run("hedge", [table])
    assert first_difference(pq.read_table(out), expected_rows("hedge", [table])) is None


def test_example_forward_keeps_the_order_of_columns(files):
    table = pa.table({"z": [1.5, None], "ts": [1, 2], "tags": [["a"], []]})
    out, _ = files.run("forward", [table])
    assert pq.read_table(out).equals(table)


def test_example_forward_prefers_the_left_at_equal_times(files):
    left, right = pa.table({"ts": [1, 2], "v": ["l1", "l2"]}), pa.table({"ts": [1, 2], "v": ["r1", "r2"]})
    out, _ = files.run("forward", [left, right], threads=2)
    assert pq.read_table(out)["v"].to_pylist() == ["l1", "r1", "l2", "r2"]


@pytest.mark.logic
@pytest.mark.parametrize(("seed", "kind"), [(0, pa.int64()), (1, pa.timestamp("ms", "Europe/Rome"))], ids=str)
def test_oracle_tolls(files, seed, kind):
    """Any options and event times, several sources, also where reports of one vehicle have one time."""
    draw = random.Random(seed)
    given = {
        "free": draw.choice([0, 2, 5]), "timeout": draw.choice(["0", "20s", "20500ms", "1min"]),
        "size": draw.choice(["1min", "150s"]), "advance": draw.choice(["1min", "17s"]),
    }  # fmt: skip
    table, seen = reports(draw, 250, step=500 if seed else 10_000), []
    if pa.types.is_timestamp(kind):
        table = table.set_column(0, "ts", table["ts"].cast(kind))
    unit = "us" if pa.types.is_timestamp(kind) else "ms"
    for count in (1, 3):
        parts = [part for s in range(count) for part in sources([table.take(list(range(s, table.num_rows, count)))])]
        wanted = APPS["tolls"].reference(parts, unit=unit, **given)
        assert len(wanted) > 20 and any(row["toll"] > 0 for row in wanted)
        seen.append(wanted)
        for flags in ({}, {"threads": 2, "reconfigure": "20%:3,60%:1"}, {"threads": 2, "mode": "sn", "gate": "scalegate"}):
            options = {name: given[name] for name in ("free", "timeout")}
            windows = {name: given[name] for name in ("size", "advance")}
            out, report = files.run("tolls", [table], options=options, sources=count, **windows, **flags)
            assert first_difference(pq.read_table(out), wanted) is None, (given, flags)
            assert list(report["operators"]) == ["before", "vehicles"]
            assert report["operators"]["vehicles"]["tuples_out"] == report["tuples_out"] == len(wanted)
    assert seed or seen[0] != seen[1], "the order of reports of one time shows"


@pytest.mark.parametrize(("timeout", "said"), [("25h", "give at most 1d"), ("soon", "timeout = 'soon'"), ("-5s", "negative")])
def test_example_tolls_refuse_a_timeout(files, timeout, said):
    """Of any length, the windows would move on for ever."""
    with pytest.raises(ParameterError, match=said):
        files.run("tolls", [reports(random.Random(1), rows=9)], options={"timeout": timeout})


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str)
@pytest.mark.parametrize("name", ["wordcount", "longest", "forward", "hedge", "flights"])
def test_oracle_every_kind_of_text(files, name, kind):
    draw = random.Random(12)
    table = {"hedge": lambda: trades(draw, 80, named=True), "flights": lambda: departures(draw, 80)}.get(
        name, lambda: texts(draw, 80)
    )()
    column = {"hedge": "id", "flights": "dest"}.get(name, "text")
    place = table.schema.get_field_index(column)
    encoded = table[column].dictionary_encode() if pa.types.is_dictionary(kind) else table[column].cast(kind)
    out, _ = files.run(name, [table.set_column(place, column, encoded)], threads=2)
    assert first_difference(pq.read_table(out), expected_rows(name, [table])) is None


def test_example_flights_as_pandas_writes_them(files):
    """One missing value makes a pandas column float, and the file's times are text."""
    table = departures(random.Random(10), rows=50)
    times = [t.strftime("%Y-%m-%dT%H:%M:%SZ") for t in table["time_hour"].to_pylist()]
    written = table.set_column(0, "time_hour", [times]).set_column(
        4, "dep_delay", table["dep_delay"].cast(pa.float64())
    )
    out, _ = files.run("flights", [table])
    again, _ = files.run("flights", [written])
    assert again.read_bytes() == out.read_bytes()


def test_oracle_the_real_flights(files):
    """Without --in: every flight that left New York in 2013, counted by pandas as well."""
    out = files.folder / "flights.parquet"
    report = run(asked("flights", str(out), threads=2, reconfigure="50%:1"))
    assert report["tuples_in"] == 336_776
    result = pq.read_table(out).to_pandas()
    rows = APPS["flights"].prepare(APPS["flights"].default_input()).to_pandas()
    import pandas as pd

    # No flight has one airport at both ends, so each counts once at either.
    ends = pd.concat([rows.assign(airport=rows[end])[["ts", "airport", "dep_delay"]] for end in ("origin", "dest")])
    ends["ts"] = ends["ts"].dt.floor("h") + pd.Timedelta("1h")
    wanted = ends.groupby(["ts", "airport"], as_index=False).agg(
        flights=("dep_delay", "size"), worst_delay=("dep_delay", "max")
    )
    assert result["airport"].tolist() == wanted["airport"].tolist()
    assert result["flights"].tolist() == wanted["flights"].tolist()
    assert result["worst_delay"].fillna(-999).tolist() == wanted["worst_delay"].fillna(-999).tolist()


# -- the comparison


def test_example_a_wrong_result_is_found(files):
    tables = inputs_of("longest")
    out, _ = files.run("longest", tables)
    result, wanted = pq.read_table(out), expected_rows("longest", tables)
    assert first_difference(result, wanted) is None
    row = len(wanted) // 2
    for mistake in (
        lambda rows: rows[row].update(chars=rows[row]["chars"] + 1),
        lambda rows: rows[row].update(hashtag=rows[row]["hashtag"] + "x"),
        lambda rows: rows[row].update(ts=rows[row]["ts"] - 1),
        lambda rows: rows[row].update(chars=None),
        lambda rows: rows.pop(),
        lambda rows: rows.append(dict(rows[0])),
        lambda rows: rows.insert(0, rows.pop(row)),
    ):
        wrong = [dict(r) for r in wanted]
        mistake(wrong)
        assert first_difference(result, wrong) is not None


def test_example_floats_are_compared_to_the_bit():
    table = pa.table({"ts": [1, 2, 3], "v": [0.0, math.nan, None]})
    rows = [{"ts": 1, "v": 0.0}, {"ts": 2, "v": math.nan}, {"ts": 3, "v": None}]
    assert first_difference(table, rows) is None
    rows[0]["v"] = -0.0
    assert first_difference(table, rows) == "row 0, column 'v': 0.0, but the reference has -0.0"
    rows[0]["v"], rows[2]["v"] = 0.0, math.nan
    assert "row 2" in first_difference(table, rows)
