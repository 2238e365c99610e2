"""The applications of synchronization plans from file to file: the reference's rows, and the same bytes whatever the flags.

Property    OUT has what the plain definition says, and not a byte differs under any plan, of our making or written by
            hand, number of leaves, streams and threads, heartbeat and change of threads
Oracle      `headrace.reference.synchronization_apps`, which knows of no program, on rows with all in them that is easily
            got wrong (support.program_applications)
Cannot see  hard interleavings (tests/headrace/synchronization), and mistakes that the reference shares

An application compiles for five seconds and more: one test has most of what is asked of it, which the campaign asks for
longer. `smarthome` compiles once more for event times that are integers, which it has in the campaign alone.
"""

import itertools
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
import headrace_datasets
from headrace import cli
from headrace.apps import APPS
from headrace.apps.command import run
from headrace.apps.compare import first_difference
from headrace.apps.dealing import Deal
from support.campaign import rarely
from support.command_line import asked, left_behind
from support.program_applications import COLUMNS, MOST, NAMES, PLANS, STREAMS, expected, nasty

UTC, MS = pa.timestamp("us", tz="UTC"), pa.timestamp("ms", tz="Europe/Rome")


class Application:
    """Runs one application on tables, each from a file to a file, and holds it against the reference."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self._count = itertools.count()

    def run(self, tables, **flags):
        """Return the bytes of the result, and the report."""
        number = next(self._count)
        left, right, out = (str(self.folder / f"{what}{number}.parquet") for what in ("left", "right", "out"))
        for table, path in zip(tables, (left, right), strict=False):
            pq.write_table(table, path)
        report = run(asked(self.name, out, left=left, right=right if len(tables) == 2 else None, **flags))
        return Path(out).read_bytes(), report

    def check(self, content, tables):
        """Assert that a file has the reference's rows, in the columns that the application promises."""
        rows = expected(self.name, tables)
        result = pq.read_table(pa.BufferReader(content))
        wanted = COLUMNS[self.name] | {"ts": str(tables[0].schema.field("ts").type)}
        assert {field.name: str(field.type) for field in result.schema} == wanted
        assert result.column_names == list(wanted) and all(field.nullable for field in result.schema)
        assert first_difference(result, rows) is None, "other results"
        return rows


def flags_of(draw, plans=()):
    """Any flags that leave the file as it is."""
    flags = {
        "threads": draw.randint(1, 4),
        "max_threads": draw.choice([None, 8]),
        "plan": draw.choice([None, "auto", "chain", "flat", *plans]),
        "leaves": draw.choice([None, 1, 2, 3, 8, 64]),
        "heartbeat": draw.choice([None, 1, 2, 7, 65536, "off"]),
        "sources": draw.choice([None, 1, 2, 5]),
        "batch": draw.choice([None, 1, 7, 100_000]),
    }
    if draw.random() < 0.5:
        flags["reconfigure"] = draw.choice(["0%:3,10%:1,33.3%:2,100%:1", "50%:2", "1%:1,2%:8,3%:1,97%:2"])
        flags["max_threads"] = 8
    return flags


@pytest.mark.slow
@pytest.mark.parametrize("is_long", [False, *rarely(True)])
@pytest.mark.parametrize("name", NAMES)
def test_oracle_all_of_an_application(name, is_long, tmp_path):
    """In one test, since it takes one compilation."""
    app, draw = Application(name, tmp_path), random.Random(name)
    integers = UTC if name == "smarthome" and not is_long else pa.int64()
    plans = []
    for number, plan in enumerate(PLANS[name]):
        plans.append(str(tmp_path / f"plan{number}.json"))
        Path(plans[-1]).write_text(json.dumps(plan))
    firsts = []
    for seed, time in enumerate([integers, integers, UTC, MS]):
        tables = nasty(name, seed, time=time)
        first, report = app.run(tables)
        rows = app.check(first, tables)
        assert len(rows) > 5, "a test without results shows little"
        firsts.append(first)
        assert (report["tuples_in"], report["tuples_out"]) == (sum(table.num_rows for table in tables), len(rows))
        assert (report["plan"], report["leaves"], report["heartbeat"]) == ("auto", 1, 1024)
        by_plan = [{"plan": plan, "threads": 2} for plan in (plans if is_long else plans[seed::2])] if seed < 2 else []
        for flags in [*by_plan, *(flags_of(draw, plans) for _ in range((5 if seed < 2 else 2) if is_long else 1))]:
            again, report = app.run(tables, **flags)
            assert again == first, flags
            asked = [int(entry.split(":")[1]) for entry in (flags.get("reconfigure") or "").split(",") if entry]
            assert [change["to"] for change in report["reconfigurations"]] == asked
    # a difference would be seen
    with pytest.raises(AssertionError, match="other results"):
        app.check(firsts[1], nasty(name, 0, time=integers))
    _other_inputs(app, draw, firsts[0], integers, is_long)


def _other_inputs(app, draw, first, time, is_long):
    """Streams that are dealt out; columns of other widths and codings; many rows, and none."""
    assert app.run(nasty(app.name, 0, time=time, odd_types=True), threads=2)[0] == first
    without = nasty(app.name, 0, time=time, has_stream=False)
    for _ in range(4 if is_long else 2):
        flags = flags_of(draw)
        assert app.run(without, **flags)[0] == first, flags
    tables = nasty(app.name, 0, time=time)
    for numbers in ([-1, 5], [0, 1 << 40], [3, 63], [0, 64]):
        column = pa.array([draw.choice(numbers) for _ in range(tables[0].num_rows)], pa.int64())
        place = tables[0].column_names.index("stream")
        assert app.run([tables[0].set_column(place, "stream", column), *tables[1:]], leaves=3, threads=2)[0] == first
    many = nasty(app.name, 3, rows=20_000, time=time)
    content, report = app.run(many, threads=2, leaves=2)
    app.check(content, many)
    assert report["leaves"] == 2
    assert (report["joins"] > 0) == (app.name not in ("pageview", "keycounter"))  # of the others, each leaf has its own keys
    for given in itertools.product(*([table, table.slice(0, 0)] for table in tables)):
        content, _ = app.run(given, threads=2, leaves=3, reconfigure="0%:1,100%:2")
        app.check(content, given)


@pytest.mark.slow
def test_example_equal_times_left_comes_before_right(tmp_path):
    """Whatever stream a value is of, and wherever its leaf is.

    value    1 (ts 1)   2 (ts 5)   4 (ts 5)   8 (ts 5)
    barrier                                            (ts 5)   (ts 5)   (ts 9)
    """
    values = pa.table({"ts": [1, 5, 5, 5], "x": [1, 2, 4, 8], "stream": [0, 2, 0, 1]})
    barriers = pa.table({"ts": [5, 5, 9]})
    app = Application("eventwindow", tmp_path)
    for flags in ({}, {"leaves": 3, "threads": 3, "plan": "flat"}, {"leaves": 3, "plan": "chain", "heartbeat": 1}):
        content, _ = app.run([values, barriers], **flags)
        rows = pq.read_table(pa.BufferReader(content)).to_pylist()
        assert rows == [{"ts": 5, "sum": 15}, {"ts": 5, "sum": 0}, {"ts": 9, "sum": 0}]


@pytest.mark.slow
@pytest.mark.spark
def test_agree_both_inputs_through_spark(tmp_path, spark):
    app, tables = Application("pageview", tmp_path), nasty("pageview", 1)
    assert app.run(tables, threads=2, leaves=2, spark=spark.sparkContext.master)[0] == app.run(tables)[0]


def given_to_spark(name):
    """Rows at times of their own, whose order Spark does not decide; and the slices that they are cut into."""
    if name == "outlier":
        table = headrace_datasets.connections(n=4_000).to_arrow()
        return table.append_column("row", pa.array(range(table.num_rows))), "10min"
    return headrace_datasets.plugs(n=4_000, rate=1.0, houses=3).to_arrow(), "15min"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", ["outlier", "smarthome"])
def test_oracle_case_studies_from_a_dataframe_to_a_dataframe(name, tmp_path, spark):
    app, (table, width) = APPS[name], given_to_spark(name)
    pq.write_table(table, tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    query = app.build(Deal(2), hr.stream(frame, event_time="ts"), slice=width)
    found = query.to_spark(spark, leaves=2, threads=2).toArrow()
    found = found.set_column(0, "ts", found["ts"].cast(UTC).cast(pa.int64()))
    times = table["ts"].cast(UTC).cast(pa.int64()).to_pylist()
    source = list(zip(times, table.drop_columns("ts").to_pylist(), strict=True))
    wanted = app.reference([source], slice=width, unit="us")
    assert len(wanted) > 5 and found.to_pylist() == wanted


# -- what cannot be meant, and what does not fit


def _command(name, tables, *flags):
    """Write the files of a run, and return its arguments."""
    arguments = ["run", name, "--out", "out.parquet", *flags]
    for table, flag, path in zip(tables, ("--in", "--right"), ("in.parquet", "right.parquet"), strict=False):
        pq.write_table(table, path)
        arguments += [flag, path]
    return arguments


@pytest.fixture
def refused(tmp_path, monkeypatch, capfd):
    """Run a command; assert its status, one line on stderr, and that it leaves nothing; return the line."""
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments, status=2):
        assert cli.main([str(argument) for argument in arguments]) == status
        said = capfd.readouterr().err
        assert said.startswith("headrace: ") and said.count("\n") == 1, said
        assert not [name for name in left_behind(".") if "out" in name]
        return said

    return run_command


VALUES, BARRIERS = pa.table({"ts": [1, 2, 3], "x": [1, 2, 3], "stream": [0, 1, 2]}), pa.table({"ts": [2, 5]})


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_example_a_null_is_refused_by_name_and_row(name, refused):
    """In every column of both inputs, but in none that nobody asks for."""
    tables = nasty(name, 0, rows=40)
    for side, table in enumerate(tables):
        for column, _ in APPS[name].needs(side):
            place = table.column_names.index(column)
            values = table.column(place).to_pylist()
            values[3] = None
            spoilt = table.set_column(place, column, pa.array(values, table.schema.field(place).type))
            said = refused(*_command(name, [spoilt if k == side else each for k, each in enumerate(tables)]))
            assert column in said and "null" in said and "row 3" in said, said
            assert ("right.parquet" if side else "in.parquet") in said


@pytest.mark.slow
def test_example_streams_that_nobody_lists_may_be_anything(tmp_path):
    app, tables = Application("keycounter", tmp_path), nasty("keycounter", 0, rows=40)
    first, _ = app.run(tables)
    place = tables[0].column_names.index("stream")
    for column in (pa.nulls(40), pa.nulls(40, pa.int64()), pa.array(["x"] * 40), pa.array([2**64 - 1] * 40, pa.uint64())):
        assert app.run([tables[0].set_column(place, "stream", column)], leaves=2, threads=2)[0] == first


@pytest.mark.parametrize(
    ("name", "tables", "text"),
    [
        ("keycounter", [pa.table({"ts": [1, 2], "key": [1, 2], "kind": ["inc", "set"]})], "kind = 'set' in row 1"),
        ("keycounter", [pa.table({"ts": [1], "key": [1], "kind": [""]})], "kind = '' in row 0"),
        ("keycounter", [pa.table({"ts": [1], "key": ["a"], "kind": ["inc"]})], "column 'key' is string"),
        ("keycounter", [pa.table({"ts": [1], "key": [1]})], "no column 'kind'"),
        ("eventwindow", [pa.table({"ts": [1], "x": [1.5]}), BARRIERS], "column 'x' is double"),
        ("eventwindow", [pa.table({"ts": [1], "x": [1], "stream": ["a"]}), BARRIERS], "column 'stream' is string"),
        ("eventwindow", [pa.table({"ts": [1], "x": pa.array([2**63], pa.uint64())}), BARRIERS], "does not fit int64"),
        ("eventwindow", [VALUES, pa.table({"time": [1]})], "no column 'ts'"),
        ("eventwindow", [VALUES, pa.table({"ts": [2, 1]})], "sort the file by ts"),
        ("eventwindow", [VALUES, pa.table({"ts": pa.array([1], UTC)})], "event times are in"),
        ("pageview", [pa.table({"ts": [1], "page": [1], "user": [1]}), pa.table({"ts": [1], "page": [1]})], "no column 'info'"),
        ("modelfraud", [pa.table({"ts": [1], "value": [1]})], "--right FILE.parquet"),
    ],
)
def test_example_inputs_that_cannot_be(name, tables, text, refused):
    assert text in refused(*_command(name, tables))


ONES = [1, 1, 1]
LOADS = pa.table({"ts": [-1, 0, 3_600_000], "house": ONES, "household": ONES, "plug": ONES, "load": [1.5, 2.5, 4.0]})


@pytest.mark.parametrize(
    ("name", "flags", "text"),
    [
        ("smarthome", ["--slice", "7h"], "give one that divides a day"),
        ("smarthome", ["--slice", "2d"], "give one that divides a day"),
        ("smarthome", ["--slice", "0"], "give one that divides a day"),
        ("smarthome", ["--slice", "-1h"], "--slice"),
        ("smarthome", ["--slice", "often"], "not a duration"),
        ("smarthome", ["--slice", "1us"], "--slice"),
        ("outlier", ["--every", "1h"], "whole number of events"),
        ("smarthome", ["--size", "1h"], "smarthome has no window size"),
        ("eventwindow", ["--slice", "1h"], "an option of"),
        ("outlier", ["--slice", "0"], "above 0"),
        ("outlier", ["--slice", "1us"], "slice"),
    ],
)
def test_example_slices_that_cannot_be(name, flags, text, refused):
    tables = {"smarthome": [LOADS], "eventwindow": [VALUES, BARRIERS], "outlier": nasty("outlier", 0, rows=5)}[name]
    assert text in refused(*_command(name, tables, *flags))


@pytest.mark.parametrize(
    ("column", "values", "text"),
    [
        ("load", ["1.5", "2", "3"], "column 'load' is string"),
        ("house", [1.0, 1.0, 1.0], "column 'house' is double"),
        ("plug", pa.array([1, 2, 2**63], pa.uint64()), "does not fit int64"),
        ("ts", [1, 0, 2], "sort the file by ts"),
        ("ts", [1, None, 2], "ts"),
        ("ts", [1, 2, 2**62], "input 'in.parquet', event_time column 'ts' is 4611686018427387904 at row 2: |event time| + "),
    ],
)
@pytest.mark.slow
def test_example_loads_that_cannot_be(column, values, text, refused):
    place = LOADS.column_names.index(column)
    assert text in refused(*_command("smarthome", [LOADS.set_column(place, column, pa.array(values))]))


def test_example_a_time_out_of_range_names_its_file_and_no_window_where_there_is_none(refused):
    events = pa.table({"ts": [1, 2**62], "key": [1, 1], "kind": ["inc", "reset"]})
    said = refused(*_command("keycounter", [events]))
    assert "input 'in.parquet', event_time column 'ts' is 4611686018427387904 at row 1: |event time| must be below 2**62" in said


@pytest.mark.parametrize("time", [pa.timestamp("ms"), *rarely(pa.int64(), pa.int32())], ids=str)
@pytest.mark.slow
def test_example_loads_of_other_types(time, tmp_path):
    """Integers are loads too; times before 1970, of other widths."""
    app = Application("smarthome", tmp_path)
    loads = LOADS.set_column(0, "ts", LOADS["ts"].cast(time))
    for table in (loads, loads.set_column(4, "load", pa.array([1, 2, 4]))):
        content, _ = app.run([table])
        assert len(app.check(content, [table])) == 9


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        ("", "this is not JSON"),
        ("[]", "give an object with roots"),
        ('{"roots": []}', "roots"),
        (b"\xff\xfe", "it is not UTF-8"),
        ('{"roots": [{"tags": [{"tag": "value", "streams": "0-2"}]}]}', "no node owns barrier"),
        ('{"roots": [{"tags": [{"tag": "value", "streams": "0-1"}, {"tag": "barrier"}]}]}', "no node owns value (stream 2)"),
        (
            '{"roots": [{"tags": [{"tag": "value", "streams": "0-2"}, {"tag": "barrier"}],'
            ' "children": [{"tags": [{"tag": "value"}]}, {"tags": []}]}]}',
            "leaf 0 owns value (stream 0), and so does node 0",
        ),
        (
            '{"roots": [{"tags": [{"tag": "value", "streams": "0-2"}]}, {"tags": [{"tag": "barrier"}]}]}',
            "depend on each other",
        ),
        ('{"roots": [{"tags": [{"tag": "value", "streams": "0-2"}, {"tag": "barrier"}, {"tag": "b"}]}]}', "no tag of event"),
        ('{"roots": [{"tags": [], "children": [{"tags": []}]}]}', "1 in children"),
        ('{"roots": [{"tags": [{"tag": "value", "streams": -1}]}]}', "streams='-1'"),
    ],
)
def test_example_plans_that_cannot_be(plan, text, refused):
    Path("plan.json").write_bytes(plan if isinstance(plan, bytes) else plan.encode())
    assert text in refused(*_command("eventwindow", [VALUES, BARRIERS], "--plan", "plan.json"))


def test_example_a_plan_may_name_streams_that_have_no_rows(tmp_path):
    """A plan that was written for all streams can be used on any of their files."""
    (tmp_path / "plan.json").write_text(json.dumps(PLANS["eventwindow"][2]))
    app, few = Application("eventwindow", tmp_path), VALUES.slice(0, 1)
    for table in (few, few.slice(1), few.drop_columns(["stream"])):
        tables = [table, BARRIERS]
        content, report = app.run(tables, plan=str(tmp_path / "plan.json"))
        app.check(content, tables)
        assert report["leaves"] == STREAMS


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--plan", "atuo"], "--plan 'atuo' cannot be read (No such file or directory)"),
        (["--plan", "."], "--plan '.' cannot be read (Is a directory)"),
        (["--leaves", "0"], "of leaves from 1 to 64"),
        (["--leaves", "65"], "of leaves from 1 to 64"),
        (["--heartbeat", "0"], "of events from 1 to 65536, or off"),
        (["--every", "10"], "--every 10: where are checkpoints to be kept? Give --checkpoint DIR"),
        (["--checkpoint", "kept", "--every", "0"], "give a whole number of events from 1"),
        (["--checkpoint", ""], "--checkpoint '': an empty path; give the path of a folder"),
        (["--checkpoint", "in.parquet"], "--checkpoint 'in.parquet' cannot be written (File exists)"),
        (["--resume", "nowhere"], "--resume 'nowhere': there is no such folder or file; give the folder that a run had as"),
        (["--resume", "in.parquet"], "is not a checkpoint of this version; give the folder of a run, or one of its checkpoints"),
        (["--sources", "0"], "from 1 to 1024"),
        (["--mode", "sn"], "--mode sn: eventwindow runs by a plan: leaves have states of their own"),
        (["--gate", "log"], "--gate log: eventwindow runs by a plan: inputs of a program are not merged"),
        (["--advance", "1h"], "eventwindow has no window advance"),
        (["--size", "1h"], "eventwindow has no window size"),
        (["--scheme", "lock"], "eventwindow runs no transactions"),
        (["--punctuation", "5"], "eventwindow runs no transactions"),
        (["--sharing", "socket"], "eventwindow runs no transactions"),
        (["--unsafe"], "eventwindow runs no transactions"),
        (["--state", "s"], "eventwindow runs no transactions, and has no tables"),
        (["--schedule", "ct"], "eventwindow is not an ordered pipeline"),
        (["--queues", "shared"], "eventwindow is not an ordered pipeline"),
        (["--reorder", "lock"], "eventwindow is not an ordered pipeline"),
        (["--buckets", "3"], "an option of sold_together"),
        (["--records", "3"], "an option of gs, sl, ob, tp"),
    ],
)
def test_example_options_that_it_lacks(flags, text, refused):
    assert text in refused(*_command("eventwindow", [VALUES, BARRIERS], *flags))


@pytest.mark.parametrize("name", ["wordcount", "sl", "abandoned"])
@pytest.mark.parametrize(("flag", "value"), [("--plan", "chain"), ("--leaves", "2"), ("--heartbeat", "5")])
def test_example_other_applications_have_no_plan(name, flag, value, refused):
    said = refused("run", name, "--in", "in.parquet", "--out", "out.parquet", flag, value)
    why = "is not a program of dependency-guided synchronization, so it has no plan; leave it out"
    assert f"{flag} {value}: {name} {why}" in said


@pytest.mark.parametrize("name", ["wordcount", "sl", "abandoned"])
@pytest.mark.parametrize(("flag", "value"), [("--checkpoint", "kept"), ("--every", "5"), ("--resume", "kept")])
def test_example_other_applications_take_no_checkpoints(name, flag, value, refused):
    said = refused("run", name, "--in", "in.parquet", "--out", "out.parquet", flag, value)
    assert f"{flag} {value}: {name} is not a program of dependency-guided synchronization, so it takes no checkpoints" in said


def test_example_checkpoints_of_another_program_or_run_are_refused(refused, tmp_path, capfd):
    (tmp_path / "files").mkdir()
    app = Application("eventwindow", tmp_path / "files")
    tables = [pa.table({"ts": range(500), "x": range(500)}), pa.table({"ts": range(0, 500, 50)})]
    kept = str(tmp_path / "kept")
    content, report = app.run(tables, checkpoint=kept, every=100)
    assert report["checkpoints"] >= 3
    arguments = _command("modelfraud", [tables[0].rename_columns(["ts", "value"]), tables[0].rename_columns(["ts", "value"])])
    said = refused(*arguments, "--resume", kept)
    assert "is of a program with checksum" in said and said.startswith(f"headrace: --resume '{kept}'")
    said = refused(*_command("eventwindow", tables), "--checkpoint", kept)
    assert "there are checkpoints of another run; resume from them" in said
    other = [tables[0].set_column(1, "x", pa.array([7, *range(1, 500)])), tables[1]]
    said = refused(*_command("eventwindow", other), "--resume", kept)
    assert "rows are not those that were read before the checkpoint" in said and "start it without --resume" in said
    assert app.run(tables, resume=kept)[0] == content
    older = min(Path(kept).glob("checkpoint-*"))  # one of them, by its file
    content_again, report = app.run(tables, resume=str(older), every=50)
    assert content_again == content and report["checkpoints"] >= 1
    empty = tmp_path / "empty"
    empty.mkdir()
    capfd.readouterr()
    assert app.run(tables, resume=str(empty), checkpoint=str(empty))[0] == content
    assert "over, or killed, before its first checkpoint" in capfd.readouterr().err


def test_example_the_plan_is_not_overwritten(refused):
    Path("out.json").write_text(json.dumps(PLANS["eventwindow"][0]))
    arguments = _command("eventwindow", [VALUES, BARRIERS], "--plan", "out.json")
    arguments[arguments.index("--out") + 1] = "out.json"
    assert cli.main(arguments) == 2
    assert json.loads(Path("out.json").read_text()) == PLANS["eventwindow"][0]


@pytest.mark.parametrize(("name", "column"), [("eventwindow", "x"), ("modelfraud", "value")])
def test_example_sums_beyond_int64(name, column, refused):
    """They end the run where the sum does not fit, and not where only what one leaf adds does not."""
    right = BARRIERS if name == "eventwindow" else pa.table({"ts": [2, 5], "value": [0, 0]})

    def given(values):
        count = len(values)
        return [pa.table({"ts": [1] * count, column: values, "stream": [k * 2 // count for k in range(count)]}), right]

    for flags in ([], ["--leaves", "2", "--threads", "2"]):
        assert "int64" in refused(*_command(name, given([MOST, 1]), *flags), status=1)
        assert cli.main(_command(name, given([MOST, MOST, -MOST, -MOST, 5, 0]), *flags)) == 0
        sums = pq.read_table("out.parquet")["sum" if name == "eventwindow" else "value"].to_pylist()
        assert sums[-2:] == [5, 0]
        Path("out.parquet").unlink()
