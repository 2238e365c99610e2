"""The ordered applications from file to file: the reference's rows, and the same bytes whatever the flags.

Property    OUT has what the plain definition says, and not a byte differs under any flags
Oracle      `headrace.reference.ordering_apps`, which knows no stages, on rows with all in them that is easily got
            wrong (support.ordered_applications)
Cannot see  long streams and hard interleavings (tests/headrace/ordering), and
            mistakes that the reference shares

An application compiles for five seconds and more: one test has all that is asked of it, which the campaign asks for longer.
`declining` and `mobility` compile once more for event times that are integers, which they have in the campaign alone.
"""

import itertools
import json
import random
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace import cli
from headrace.apps import APPS
from headrace.apps.app import sources
from headrace.apps.command import run
from headrace.apps.compare import first_difference
from headrace.apps.declining import quotient
from headrace.errors import EventTimeError
from headrace.reference.ordering import ordered
from support import ordered_tables
from support.campaign import rarely
from support.command_line import asked
from support.ordered_applications import CATEGORIES, HOUR, LEAST, MOST, NAMES, PARAMETERS, expected, nasty
from support.ordered_samples import SAMPLE_OF, sample

UTC, MS = pa.timestamp("us", tz="UTC"), pa.timestamp("ms", tz="Europe/Rome")
PAIRS = {"ts": "int64", "rank": "int64", "a": "int64", "b": "int64", "count": "int64"}
COLUMNS = {
    "sold_together": PAIRS,
    "viewed_together": PAIRS,
    "viewed_before": {"ts": "int64", "item": "int64", "viewed": "int64", "views": "int64", "rank": "int64"},
    "abandoned": {"ts": "int64", "sessions": "int64", "mean_pages": "double"},
    "declining": {"ts": "int64", "category": "int64", "days": "int64", "slope": "double"},
    "mobility": {"ts": "int64", "frauds": "int64"},
}
LIKE_OTHERS = ("viewed_together", "viewed_before")
"""Rankings of hours or days, as `sold_together` is one, and a time-out, as `abandoned` has one."""
TOO_LARGE = "a worker claims at most 256 tuples of a pipeline at a time, and did so here"


class Application:
    """Runs one application on tables, each from a file to a file, and holds it against the reference."""

    def __init__(self, name, folder, parameters=None, right=CATEGORIES):
        self.name, self.folder = name, folder
        self.parameters = PARAMETERS[name] if parameters is None else parameters
        self._count = itertools.count()
        self.right = str(folder / "right.parquet") if APPS[name].has_right else None
        if self.right:
            pq.write_table(right, self.right)

    def run(self, table, options=None, **flags):
        """Return the bytes of the result, and the report."""
        number = next(self._count)
        given, out = (str(self.folder / f"{what}{number}.parquet") for what in ("in", "out"))
        self.last_out = out
        pq.write_table(table, given)
        options = self.parameters | (options or {})
        size = options.pop("size", None)
        report = run(asked(self.name, out, left=given, right=self.right, size=size, options=options, **flags))
        return Path(out).read_bytes(), report

    def check(self, content, tables, **given):
        """Assert that a file holds what the reference says of these sources."""
        return self.hold(content, tables, expected(self.name, tables, **given))

    def hold(self, content, tables, rows):
        """Assert that a file has these rows, in the columns that the application promises."""
        result = pq.read_table(pa.BufferReader(content))
        wanted = COLUMNS[self.name] | {"ts": str(tables[0].schema.field("ts").type)}
        assert {field.name: str(field.type) for field in result.schema} == wanted
        assert result.column_names == list(wanted) and all(field.nullable for field in result.schema)
        assert first_difference(result, rows) is None, "other results"
        return rows


def flags_of(draw):
    """Any flags that leave the file as it is."""
    flags = {
        "threads": draw.randint(1, 8),
        "schedule": draw.choice(["qst", "lp", "et", "ct", None]),
        "queues": draw.choice(["hybrid", "partitioned", "shared", None]),
        "reorder": draw.choice(["nonblocking", "lock", None]),
        "batch": draw.choice([None, 1, 2, 7, 64, 256, 100_000]),
        "max_threads": draw.choice([None, 8]),
        "options": {"buckets": draw.choice([1, 2, 7, 100, 1000])},
    }
    if draw.random() < 0.5:
        flags["reconfigure"] = draw.choice(["0%:3,10%:1,33.3%:2,100%:1", "50%:2", "1%:1,2%:8,3%:1,97%:2"])
    return flags


@pytest.mark.slow
@pytest.mark.parametrize("is_long", [False, *rarely(True)])
@pytest.mark.parametrize("name", NAMES)
def test_oracle_all_of_an_application(name, is_long, tmp_path, capfd):
    """In one test, since it takes one compilation, or two where another unit is another constant."""
    app, draw = Application(name, tmp_path), random.Random(name)
    integers = UTC if name in ("declining", "mobility") and not is_long else pa.int64()
    firsts = []
    for seed, time in enumerate([integers, integers, UTC, *([MS] if name in ("abandoned", "declining") else [])]):
        table = nasty(name, seed, time=time)
        assert table.schema.field("ts").type == time
        first, report = app.run(table, batch=1)
        rows = app.check(first, [table])
        assert len(rows) > 5, "a test without results shows little"
        firsts.append(first)
        assert (report["tuples_in"], report["tuples_out"], report["batch"]) == (600, len(rows), 1)
        for _ in range(4 if is_long else 2):
            flags = flags_of(draw)
            again, report = app.run(table, **flags)
            assert again == first, flags
            asked = [int(entry.split(":")[1]) for entry in flags.get("reconfigure", "").split(",") if entry]
            assert [change["to"] for change in report["reconfigurations"]] == asked
    # a difference would be seen
    with pytest.raises(AssertionError, match="other results"):
        app.check(firsts[1], [nasty(name, 0, time=integers)])
    _other_inputs(app, draw, firsts[0], integers)
    _times_that_are_null(app, nasty(name, 0, time=integers))
    if name == "declining":
        _beyond_int64(tmp_path, capfd)
        _rounded_once(app)
        _categories_that_cannot_be(tmp_path, capfd)
        _larger_batches_than_there_are(tmp_path, capfd)


def _other_inputs(app, draw, first, time):
    """Columns of other widths and codings, several sources, many rows, none, none that is whole."""
    assert app.run(nasty(app.name, 0, time=time, odd_types=True), threads=2)[0] == first
    # another number of sources changes the order of equal times: what the reference is given changes, too
    table = nasty(app.name, 0, time=time)
    three, _ = app.run(table, sources=3)
    app.check(three, [table.take(list(range(k, table.num_rows, 3))) for k in range(3)])
    assert app.run(table, sources=3, **flags_of(draw))[0] == three
    rows = 5_000 if app.name == "declining" else 20_000  # its definition takes ten seconds for as many
    many = nasty(app.name, 3, rows=rows, time=time)
    content, _ = app.run(many, **flags_of(draw) | {"threads": 2})
    app.check(content, [many])
    for given in (table.slice(0, 0), untyped(table.slice(0, 0)), untyped(table)):
        content, report = app.run(given, threads=2, reconfigure="0%:1,100%:2")
        assert app.check(content, [given]) == [] and report["tuples_out"] == 0


def _times_that_are_null(app, table, row=100):
    """A row without an event time has no place in the stream: it is not dropped as one with another null is, but refused."""
    spoilt = with_null_times(table, {row})
    with pytest.raises(EventTimeError, match=f"'ts' is null at row {row}: fill it, or filter such rows out"):
        app.run(spoilt, threads=2)
    assert not Path(app.last_out).exists(), "a file of some of the results"
    with pytest.raises(EventTimeError, match=f"source 0, row {row}: event time None"):
        expected(app.name, [spoilt])
    with pytest.raises(EventTimeError, match=f"source 0, row {row}: event time None"):
        ordered(sources([spoilt]), [])


def with_null_times(table, rows):
    times = table["ts"]
    ts = pa.array([None if at in rows else time.as_py() for at, time in enumerate(times)], times.type)
    return table.set_column(table.column_names.index("ts"), "ts", ts)


def untyped(table):
    """All columns but the event time null, and without a type."""
    for place, column in enumerate(table.column_names):
        if column not in ("ts", "note"):
            table = table.set_column(place, column, pa.nulls(table.num_rows))
    return table


def _command(folder, table, right=CATEGORIES):
    """Arguments of a run of `declining` in a folder of its own."""
    folder.mkdir()
    given, out, other = (folder / f"{what}.parquet" for what in ("in", "out", "right"))
    pq.write_table(table, given)
    pq.write_table(right, other)
    return ["run", "declining", "--in", str(given), "--right", str(other), "--out", str(out), "--threads", "2"]


def _beyond_int64(folder, capfd):
    """The run ends with status 1 where the reference does, and leaves nothing."""
    day = 24 * HOUR
    cases = {
        "sum": [(0, MOST), (0, 1)],
        "x * y": [(0, 1), (3 * day, 2**62), (4 * day, 0)],
        "n * sxy": [(0, 1), (day, 2**62), (2 * day, 0)],
    }
    for number, (what, events) in enumerate(cases.items()):
        times = pa.array([ts for ts, _ in events], MS)
        table = pa.table({"ts": times, "item": [0] * len(events), "amount": [y for _, y in events]})
        with pytest.raises(OverflowError):
            expected("declining", [table])
        assert cli.main(_command(folder / f"beyond{number}", table)) == 1, what
        said = capfd.readouterr().err
        assert said.count("\n") == 1 and "int64" in said and "declining.py" in said, said
        assert sorted(path.name for path in (folder / f"beyond{number}").iterdir()) == ["in.parquet", "right.parquet"]
    wide = pa.table({"ts": [1], "item": [1], "amount": pa.array([2**63], pa.uint64())})
    assert cli.main(_command(folder / "wide", wide)) == 2
    assert "column 'amount' of uint64 does not fit int64" in capfd.readouterr().err


def _rounded_once(app):
    """Sums and products beyond 2**53: their quotient is the one that Python gives for integers."""
    days = {0: 8681534006414405, 1: -3, 2: 0, 5: -11528076721599536, 6: 0}
    times = pa.array([day * 24 * HOUR for day in days], MS)
    table = pa.table({"ts": times, "item": [0] * len(days), "amount": list(days.values())})
    content, _ = app.run(table)
    assert app.check(content, [table])[-1]["slope"] == -3710521298401958.0


@pytest.mark.parametrize("bits", [1, 20, 53, 54, 63])
def test_oracle_a_quotient_is_rounded_as_by_python(bits):
    draw = random.Random(bits)
    for _ in range(2_000):
        above, below = draw.randrange(-(2**bits), 2**bits), draw.randrange(1, 2 ** draw.randrange(1, 64))
        for number in (above, above // below * below, LEAST, MOST):
            assert quotient(number, below) == number / below, (number, below)


def _larger_batches_than_there_are(folder, capfd):
    """No error, as other applications take them, but said, and the report has what was used."""
    command = [*_command(folder / "batches", nasty("declining", 0, rows=10, time=UTC)), "--report", str(folder / "r.json")]
    for batch, used in ((256, 256), (257, 256), (2**31 - 1, 256)):
        assert cli.main([*command, "--batch", str(batch)]) == 0
        said = capfd.readouterr().err
        assert said == ("" if batch == used else f"headrace: --batch {batch}: {TOO_LARGE}\n")
        assert json.loads((folder / "r.json").read_text())["batch"] == used


def _categories_that_cannot_be(folder, capfd):
    table = nasty("declining", 0, rows=10, time=UTC)
    for number, (right, text) in enumerate(
        [
            (pa.table({"item": [1, 2, 1], "category": [1, 1, 1]}), "--right: item 1 occurs 2 times"),
            (pa.table({"item": [1, 2, 2, None], "category": [1, None, 3, 1]}), "--right: item 2 occurs 2 times"),
            (pa.table({"item": [1], "kind": [1]}), "no column 'category'"),
            (pa.table({"item": ["a"], "category": [1]}), "column 'item' is string"),
        ]
    ):
        assert cli.main(_command(folder / f"right{number}", table, right)) == 2
        said = capfd.readouterr().err
        assert said.count("\n") == 1 and text in said, said
    nobody = pa.table({"item": pa.nulls(2), "category": pa.nulls(2)})
    assert cli.main(_command(folder / "nobody", table, nobody)) == 0
    assert pq.read_metadata(folder / "nobody" / "out.parquet").num_rows == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in LIKE_OTHERS] + rarely(*LIKE_OTHERS))
def test_oracle_by_default(name, tmp_path):
    """Hours, days and time-outs as they are when nothing is said; times in milli- and microseconds, with zones."""
    other = ordered_tables.right(1)
    app, draw = Application(name, tmp_path, {}, other), random.Random(name)
    for seed in (1, 2, 3, 4):  # of one unit in the engine
        table = ordered_tables.nasty(name, seed)
        rows = ordered_tables.expected(name, [table], other if app.right else None)
        first, _ = app.run(table, threads=2)
        assert app.hold(first, [table], rows)
        flags = flags_of(draw)
        assert app.run(table, **flags)[0] == first, flags


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_oracle_real_samples(name, tmp_path):
    """Rows that nobody made up: nights without a click, thousands of sales at one time, a phone that rests."""
    table, other = sample(SAMPLE_OF[name]), sample("items") if APPS[name].has_right else None
    if name == "viewed_before":  # there are few views of products: any page counts
        kinds = pc.if_else(pc.equal(table["kind"], "buy"), "buy", "view")
        table = table.set_column(table.schema.get_field_index("kind"), "kind", kinds)
    table = table.set_column(0, "ts", table["ts"].cast(pa.timestamp("ms")))
    parameters = {"speed": 20.0} if name == "mobility" else {}  # nobody jumps there
    app, draw = Application(name, tmp_path, parameters, other), random.Random(name)
    first, _ = app.run(table, threads=2)
    rows = app.hold(first, [table], ordered_tables.expected(name, [table], other, **parameters))
    assert len(rows) > 50
    for _ in range(3):
        flags = flags_of(draw)
        assert app.run(table, **flags)[0] == first, flags
    _real_times_that_are_null(app, table)


def _real_times_that_are_null(app, table):
    """Some of the real sales have no time; of the other samples, each thousandth row is made like them."""
    if SAMPLE_OF[app.name] == "sales":
        spoilt = sample("sales, some without a time")
        spoilt = spoilt.set_column(0, "ts", spoilt["ts"].cast(pa.timestamp("ms")))
        assert spoilt["ts"].null_count > 1_000 and spoilt.filter(pc.is_valid(spoilt["ts"])) == table
    else:
        spoilt = with_null_times(table, range(100, table.num_rows, 1_000))
    first = pc.index(pc.is_null(spoilt["ts"]), True).as_py()
    with pytest.raises(EventTimeError, match=f"'ts' is null at row {first}: fill it, or filter such rows out"):
        app.run(spoilt, threads=2)
    assert not Path(app.last_out).exists()
    with pytest.raises(EventTimeError, match=f"source 0, row {first}: event time None"):
        ordered(sources([spoilt]), [])


@pytest.mark.slow
@pytest.mark.spark
def test_agree_both_inputs_through_spark(tmp_path, spark):
    """The table of categories too, nulls in it included."""
    other, table = ordered_tables.right(1), ordered_tables.nasty("declining", 2)
    app = Application("declining", tmp_path, {}, other)
    assert app.run(table, threads=2, spark=spark.sparkContext.master)[0] == app.run(table)[0]


@pytest.mark.slow
def test_oracle_only_one_area(tmp_path):
    """`--area` leaves out other areas before anything is known of their phones."""
    app, table = Application("mobility", tmp_path), nasty("mobility", 0, time=UTC)
    everywhere, _ = app.run(table)
    there, _ = app.run(table, {"area": -1}, threads=2)
    assert there != everywhere and app.check(there, [table], area=-1)


@pytest.mark.slow
def test_example_a_ranking_is_given_when_its_hour_is_over():
    """By the first later row, also by one that makes no pair: before the input goes on."""
    first_hour = pa.record_batch({"ts": [0, 1], "ticket": [5, 5], "item": [1, 2]})
    alone = pa.record_batch({"ts": [250], "ticket": [6], "item": [9]})
    shown, was_shown = threading.Event(), []

    def batches():
        yield first_hour
        yield alone
        was_shown.append(shown.wait(180))

    reader = pa.RecordBatchReader.from_batches(first_hour.schema, batches())
    app = APPS["sold_together"]
    query = app.build(hr.stream(reader, event_time="ts"), **app.parameters(PARAMETERS["sold_together"]))
    found = []

    def sink(batch):
        found.extend(batch.to_pylist())
        shown.set()

    with query.start(threads=2, sink=sink) as started:
        started.wait()
    assert was_shown == [True]
    assert found == [{"ts": 100, "rank": 1, "a": 1, "b": 2, "count": 1}]


@pytest.mark.parametrize("name", NAMES)
def test_example_the_stages_are_those_of_the_paper(name):
    kinds = {"partitioned": "PS", "stateful": "SF"}
    app = APPS[name]
    empty = hr.stream(nasty(name, 0, rows=0), event_time="ts")
    query = app.build(empty, *([CATEGORIES] if app.has_right else []), **app.parameters({}))
    assert " ".join(kinds.get(stage.kind, "SL") for stage in query._node.spec.stages) == app.stages


def test_example_defaults():
    """As the table of applications has them."""
    given = {name: {k: v for k, v in APPS[name].parameters({}).items() if k != "buckets"} for name in NAMES}
    assert given == {
        "sold_together": {"size": "1h", "top": 100},
        "viewed_together": {"size": "1d", "top": 30, "timeout": "60min"},
        "viewed_before": {"top": 30, "last": 5, "within": "10d"},
        "abandoned": {"timeout": "60min"},
        "declining": {},
        "mobility": {"size": "1h", "speed": 900.0},
    }
