"""gs, sl, ob, tp from file to file: the reference's rows and tables, and the same bytes whatever the flags.

Property    OUT and the files of --state have what the serial definition says,
            and not a byte differs under any flags
Oracle      `headrace.reference.transaction_apps`, on events with all in them
            that is easily got wrong (support.transaction_tables)
Cannot see  long streams and hard shapes (tests/headrace/transactions), the
            way through --spark, and mistakes that the reference shares

An application compiles for ten seconds and more: one test has all that is asked of it, which the campaign asks for longer.
"""

import errno
import itertools
import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import cli
from headrace.apps import state as state_files
from headrace.apps.command import run
from headrace.apps.compare import first_difference
from headrace_datasets import position_reports
from support import transaction_tables
from support.campaign import rarely
from support.command_line import asked
from support.transaction_tables import RECORDS, SHAPES, expected, nasty, overflowing

NO_VERSIONS = (
    "headrace: --scheme speculative: tp was run by chains, as sets, such as the vehicles of a segment, have no versions\n"
)
SCHEMES = ["chains", "lock", "mvlk", "partition", "serial", "speculative"]
PUNCTUATIONS = [1, 7, 500, 100_000]

COLUMNS = {
    "gs": {"sum": "int64"},
    "sl": {"balance": "int64", "quantity": "int64"},
    "ob": {"quantity": "int64"},
    "tp": {"vehicle": "int64", "segment": "int64", "average": "double", "vehicles": "int64", "toll": "int64"},
}
TABLES = {
    "gs": {"records": ["key", "value"]},
    "sl": {"accounts": ["id", "balance"], "assets": ["id", "quantity"]},
    "ob": {"items": ["id", "price", "quantity"]},
    "tp": {"segments": ["segment", "sum", "number", "vehicles"]},
}


class Application:
    """Runs one application on tables, each from a file to files, and holds them against the reference."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder / name
        self.folder.mkdir()
        self._count = itertools.count()

    def run(self, table, records=None, **flags):
        """Return the bytes of the result and of each table's file, and the report."""
        number = next(self._count)
        given, out, state = (str(self.folder / f"{what}{number}") for what in ("in", "out", "state"))
        pq.write_table(table, given)
        records = RECORDS[self.name] if records is None else records
        report = run(asked(self.name, out, left=given, state=state, options={"records": records}, **flags))
        written = {path.stem: path.read_bytes() for path in Path(state).iterdir()}
        assert written.keys() == TABLES[self.name].keys()
        return {"": Path(out).read_bytes()} | written, report

    def check(self, files, tables, records=None):
        """Assert that files hold what the reference says of these sources."""
        rows, content = expected(self.name, tables, records)
        result = pq.read_table(pa.BufferReader(files[""]))
        time = tables[0].schema.field("ts").type
        wanted = {"ts": str(time), **COLUMNS[self.name], "rejected": "bool"}
        assert {field.name: str(field.type) for field in result.schema} == wanted
        assert result.column_names == list(wanted)
        assert first_difference(result, rows) is None, "other results"
        for name, columns in TABLES[self.name].items():
            table = pq.read_table(pa.BufferReader(files[name]))
            assert table.schema == pa.schema([(column, pa.int64()) for column in columns])
            assert table.to_pylist() == content[name], f"table {name} differs"
        return rows


def flags_of(draw, name):
    """Any flags that leave the files as they are."""
    flags = {
        "threads": draw.choice([1, 2, 3]),
        "scheme": draw.choice(SCHEMES),
        "punctuation": draw.choice(PUNCTUATIONS),
        "sharing": draw.choice(["nothing", "everything", "socket"]),
        "chains": draw.choice(["radix", "skiplist"] if name != "sl" else [None]),  # its transactions run whole
        "batch": draw.choice([None, 1, 13, 100]),
        "max_threads": draw.choice([None, 4]),
    }
    if draw.random() < 0.5:
        flags["reconfigure"] = draw.choice(["0%:3,10%:1,33.3%:2,100%:1", "50%:2", "1%:1,2%:3,3%:1,97%:2"])
        flags["max_threads"] = draw.choice([None, 5])
    return flags


@pytest.mark.slow
@pytest.mark.parametrize("takes", [1, *rarely(3)])
@pytest.mark.parametrize("name", ["gs", "sl", "ob", "tp"])
def test_oracle_all_of_an_application(name, takes, tmp_path, capfd, monkeypatch):
    """In one test, since it takes one compilation: ten seconds and more."""
    app, draw = Application(name, tmp_path), random.Random(name)
    _the_same_files_whatever_the_flags(app, draw, takes)
    _empty_and_all_rejected(app)
    capfd.readouterr()  # what schemes were replaced
    _beyond_int64(name, tmp_path / "beyond", capfd)
    _no_room_for_the_state(name, tmp_path / "room", capfd, monkeypatch)
    _wrong_on_request(name, tmp_path / "wrong", capfd)
    _speculative(app, tmp_path / "speculative", capfd)
    if name == "tp":
        _beyond_int64_in_the_input(name, tmp_path / "wide", capfd)


REPORTS = Path(os.environ.get("HEADRACE_DATA", ""), "lrb-data-small-ht.txt.gz")
CHANGED = {"threads": 1, "max_threads": 3, "reconfigure": "30%:3,60%:2", "scheme": "mvlk", "punctuation": 37}


@pytest.mark.slow
@pytest.mark.logic
@pytest.mark.skipif(not REPORTS.is_file(), reason=f"needs {REPORTS.name} in the folder that HEADRACE_DATA names")
def test_oracle_tolls_of_the_real_reports(tmp_path):
    """Linear Road's sample, which is not ours to hand on."""
    table, app = position_reports(REPORTS).to_arrow(), Application("tp", tmp_path)
    first, _ = app.run(table, records=100, scheme="serial")
    rows = app.check(first, [table], records=100)
    assert len(rows) > 16_000 and len({row["average"] for row in rows}) > 1_000
    for flags in ({"threads": 2}, CHANGED):
        assert app.run(table, records=100, **flags)[0] == first, flags


def _the_same_files_whatever_the_flags(app, draw, takes):
    """The first ones under each scheme in turn, the others under any."""
    firsts = []
    in_turn = itertools.cycle(scheme for scheme in SCHEMES if scheme != "serial")
    for seed, time in enumerate(transaction_tables.TIMES):
        table = nasty(app.name, seed)
        assert table.schema.field("ts").type == time
        first, report = app.run(table, scheme="serial")
        rows = app.check(first, [table])
        firsts.append(first)
        rejected = sum(row["rejected"] for row in rows)
        assert 0 < rejected < len(rows), "a test without either shows little"
        assert (report["tuples_in"], report["tuples_out"], report["rejected"]) == (600, 600, rejected)
        assert (report["scheme"], report["punctuation"]) == ("serial", 500) and report["transactions_per_s"] > 0
        for take in range(takes):
            flags = flags_of(draw, app.name) | ({"scheme": next(in_turn)} if take == 0 else {})
            again, report = app.run(table, **flags)
            assert again == first, flags
            asked = [int(entry.split(":")[1]) for entry in flags.get("reconfigure", "").split(",") if entry]
            assert [change["to"] for change in report["reconfigurations"]] == asked
            assert report["rejected"] == rejected
    # columns of other widths and codings
    assert app.run(nasty(app.name, 0, odd_types=True), threads=2)[0] == firsts[0]
    # another number of sources changes the order of equal times: what the reference is given changes, too
    table = nasty(app.name, 0)
    three, _ = app.run(table, sources=3)
    app.check(three, [table.take(list(range(k, table.num_rows, 3))) for k in range(3)])
    assert app.run(table, sources=3, **flags_of(draw, app.name))[0] == three
    # and a difference would be seen
    for name in TABLES[app.name]:
        with pytest.raises(AssertionError, match=f"table {name} differs"):
            app.check({**firsts[0], name: firsts[1][name]}, [table])


def _empty_and_all_rejected(app):
    table = nasty(app.name, 1)
    for given in (table.slice(0, 0), untyped(table.slice(0, 0)), untyped(table)):
        files, report = app.run(given, threads=2, reconfigure="0%:1,100%:2")
        app.check(files, [given])
        assert report["rejected"] == given.num_rows
    shape, records = SHAPES["all rejected"]
    table = shape(app.name, 1, 2_000)
    files, _ = app.run(table, records, threads=2)
    assert all(row["rejected"] for row in app.check(files, [table], records))


def untyped(table):
    """All columns but the event time null, and without a type."""
    for place, column in enumerate(table.column_names):
        if column not in ("ts", "note"):
            table = table.set_column(place, column, pa.nulls(table.num_rows))
    return table


def _speculative(app, folder, capfd):
    """Any application takes any scheme. What speculation cannot run is run by chains, which is said, in the report, too."""
    report = folder / "report.json"
    arguments, _ = _command(app.name, folder, nasty(app.name, 0, rows=10))
    assert cli.main([*arguments, "--scheme", "speculative"]) == 0
    used, said = json.loads(report.read_text())["scheme"], capfd.readouterr().err
    assert (used, said) == (("chains", NO_VERSIONS) if app.name == "tp" else ("speculative", ""))


def _beyond_int64(name, folder, capfd):
    """The run ends with status 1 and leaves nothing new; what an earlier run left stays as it was."""
    arguments, state = _command(name, folder, overflowing(name))
    assert cli.main(arguments) == 1
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "int64" in said and f"{name}.py" in said, said
    assert [path.name for path in folder.iterdir()] == ["in.parquet"]
    state.mkdir(parents=True)
    table = next(iter(TABLES[name]))
    (state / f"{table}.parquet").write_text("an older one")
    assert cli.main(arguments) == 1
    assert [(path.name, path.read_text()) for path in state.iterdir()] == [(f"{table}.parquet", "an older one")]


def _no_room_for_the_state(name, folder, capfd, monkeypatch):
    """If the tables cannot be written, there is no result either."""
    arguments, _ = _command(name, folder, nasty(name, 0, rows=10))

    def no_room(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(state_files, "numbers", no_room)
    capfd.readouterr()
    assert cli.main(arguments) == 2
    assert "space left" in capfd.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["in.parquet"]
    monkeypatch.undo()
    assert cli.main(arguments) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["in.parquet", "new", "out.parquet", "report.json"]


def _wrong_on_request(name, folder, capfd):
    """Without any order the results may be wrong, which is said; there are as many."""
    arguments, _ = _command(name, folder, nasty(name, 0))
    assert cli.main([*arguments, "--scheme", "none", "--unsafe"]) == 0
    assert "THE RESULTS ARE WRONG" in capfd.readouterr().err
    assert pq.read_metadata(folder / "out.parquet").num_rows == 600


def _beyond_int64_in_the_input(name, folder, capfd):
    table = pa.table({"ts": [1], "vehicle": [1], "segment": [0], "speed": pa.array([2**63], pa.uint64())})
    arguments, _ = _command(name, folder, table)
    capfd.readouterr()
    assert cli.main(arguments) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "column 'speed' of uint64 does not fit int64" in said, said
    assert [path.name for path in folder.iterdir()] == ["in.parquet"]


def _command(name, folder, table):
    """Arguments of a run that writes all it can, and the folder of its tables."""
    folder.mkdir()
    given, out, state, report = (folder / what for what in ("in.parquet", "out.parquet", "new/state", "report.json"))
    pq.write_table(table, given)
    arguments = ["run", name, "--in", given, "--out", out, "--state", state, "--report", report, "--threads", 2]
    arguments += ["--records", RECORDS[name]]
    return [str(argument) for argument in arguments], state
