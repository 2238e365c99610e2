"""The growing directory and snapshots: what others may read while a run writes.

Property    the files, in the order of their names, are always a prefix of the
            results, and all of them in the end; a snapshot is such a prefix too
Oracle      the collected result
Cannot see  a file system whose rename is not atomic
"""

import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.egress.directory import DirectorySink
from headrace.egress.sinks import CollectSink
from headrace.errors import NotSupportedError, OutputError, ParameterError
from support.workloads import Steered, eventually

TABLE = pa.table({"ts": range(1_000), "k": [i % 10 for i in range(1_000)]})


def counts(source=TABLE):
    return hr.stream(source, event_time="ts").key_by("k").window(10).aggregate(n=hr.count())


def files_of(folder):
    return sorted(
        path for path in folder.iterdir() if path.suffix == ".parquet" and not path.name.startswith(".")
    )


def read(folder):
    tables = [pq.read_table(path) for path in files_of(folder)]
    return pa.concat_tables(tables) if tables else None


def published(folder):
    return sum(pq.read_metadata(path).num_rows for path in files_of(folder))


@pytest.mark.parametrize("rows", [50, 70, 1_000_000])
def test_agree_with_the_collected_result(tmp_path, rows):
    folder = tmp_path / "out"
    with counts().start(threads=2, sink=hr.parquet_directory(folder, every_s=60, rows_per_file=rows)) as run:
        assert run.wait(180)
    assert read(folder).equals(counts().to_arrow().combine_chunks())
    sizes = [pq.read_metadata(path).num_rows for path in files_of(folder)]
    assert sizes == [min(rows, 1000 - first) for first in range(0, 1000, rows)]
    assert (folder / "_SUCCESS").exists() and not list(folder.glob(".*"))


def test_agree_with_the_order_of_names_however_many_files_there_are(tmp_path):
    """Beyond a million files, too: the millionth is number 999,999."""
    sink, schema = DirectorySink(tmp_path / "out", every_s=60, rows_per_file=1), pa.schema([("n", pa.int64())])
    sink.open(schema)
    sink.files = 999_998
    sink.write(pa.record_batch([range(4)], schema))
    sink.close()
    assert read(tmp_path / "out")["n"].to_pylist() == [0, 1, 2, 3]


def test_a_column_that_parquet_has_no_type_for_is_said_at_once(tmp_path):
    schema = pa.schema([("ts", pa.int64()), ("v", pa.month_day_nano_interval())])
    with pytest.raises(OutputError, match="column 'v' of month_day_nano_interval cannot be written to Parquet"):
        hr.parquet_directory(tmp_path / "out").open(schema)
    assert not (tmp_path / "out").exists()


def test_no_link_is_written_through(tmp_path):
    """Where others can write to the directory too, they may have put one where ours would be."""
    folder, theirs = tmp_path / "out", tmp_path / "theirs"
    theirs.write_text("theirs")
    before = theirs.stat().st_mtime_ns
    sink = hr.parquet_directory(folder, every_s=60, rows_per_file=100)
    schema = pa.schema([("n", pa.int64())])
    sink.open(schema)
    for name in (".part-000000000.parquet", "_SUCCESS"):
        (folder / name).symlink_to(theirs)
    sink.write(pa.record_batch([range(100)], schema))
    sink.close()
    assert theirs.read_text() == "theirs" and theirs.stat().st_mtime_ns == before
    assert read(folder).num_rows == 100 and not (folder / "_SUCCESS").is_symlink()
    assert {path.name for path in folder.iterdir()} == {".part-000000000.parquet", "part-000000000.parquet", "_SUCCESS"}


def test_agree_a_prefix_is_there_while_the_run_goes_on(tmp_path):
    """No row comes after the 500th, yet what was released is published within `every_s`."""
    source, folder = Steered(TABLE, [500]), tmp_path / "out"
    expected = counts().to_arrow()
    with counts(source).start(sink=hr.parquet_directory(folder, every_s=0.02)) as run:
        source.let()
        eventually(lambda: published(folder) == run.metrics().tuples_out > 0)
        part = read(folder)
        assert 0 < part.num_rows < expected.num_rows
        assert part.combine_chunks().equals(expected.slice(0, part.num_rows).combine_chunks())
        assert not (folder / "_SUCCESS").exists()
        source.let_all()
        assert run.wait(180)
    assert read(folder).combine_chunks().equals(expected.combine_chunks())


def test_example_a_stopped_run_keeps_what_was_published(tmp_path):
    source, folder = Steered(TABLE, [500]), tmp_path / "out"
    with counts(source).start(sink=hr.parquet_directory(folder, every_s=0.02)):
        source.let()
        eventually(lambda: files_of(folder))
    assert files_of(folder) and not (folder / "_SUCCESS").exists()
    assert not [t for t in threading.enumerate() if t.name == "headrace-directory"]
    source.let_all()


def test_example_bad_parameters(tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    with pytest.raises(OutputError, match="used.*not empty"):
        counts().start(sink=hr.parquet_directory(tmp_path / "used"))
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        counts().start(sink=hr.parquet_directory(tmp_path / "file" / "below"))
    for arguments in ({"every_s": 0}, {"rows_per_file": 0}, {"rows_per_file": True}):
        with pytest.raises(ParameterError, match=next(iter(arguments))):
            DirectorySink(tmp_path / "new", **arguments)


def test_example_a_full_disk_is_reported_by_the_next_write(tmp_path):
    sink = DirectorySink(tmp_path / "out", every_s=0.01)
    sink.open(TABLE.schema)
    (tmp_path / "out").rmdir()  # as good as a full disk: the file cannot be made
    sink.write(TABLE.to_batches()[0])
    eventually(lambda: sink._error is not None)
    with pytest.raises(OutputError, match=r"part-000000000.*cannot be written"):
        sink.write(TABLE.to_batches()[0])
    sink.abort()


def test_example_a_directory_that_is_gone_at_the_end_is_reported(tmp_path):
    sink = DirectorySink(tmp_path / "out", every_s=60)
    sink.open(TABLE.schema)
    sink.complete()
    (tmp_path / "out").rmdir()
    with pytest.raises(OutputError, match="_SUCCESS' cannot be written .No such file or directory"):
        sink.publish()


def test_nothing_is_left_of_a_file_that_cannot_be_made(tmp_path, monkeypatch):
    def refuse(table, file):
        file.write(b"PAR1")
        raise pa.ArrowNotImplementedError("not now")

    monkeypatch.setattr(pq, "write_table", refuse)
    sink = DirectorySink(tmp_path / "out", every_s=60)
    sink._schema = TABLE.schema
    (tmp_path / "out").mkdir()
    sink.write(TABLE.to_batches()[0])
    with pytest.raises(pa.ArrowNotImplementedError):
        sink.complete()
    assert not list((tmp_path / "out").iterdir())


# -- snapshots -------------------------------------------------------------------------------------


@pytest.mark.parametrize("spill_bytes", [1 << 30, 500])
def test_agree_a_snapshot_is_a_prefix(spill_bytes):
    source = Steered(TABLE, [300, 700])
    expected = counts().to_arrow()
    with counts(source).start(threads=2, sink=CollectSink(spill_bytes)) as run:
        assert run.snapshot().num_rows == 0
        for least in (100, 500):
            source.let()
            eventually(lambda least=least: run.snapshot().num_rows > least)
            part = run.snapshot()
            assert part.combine_chunks().equals(expected.slice(0, part.num_rows).combine_chunks())
        source.let_all()
        assert run.wait(180)
        assert run.snapshot().equals(run.to_arrow()) and run.to_arrow().num_rows == expected.num_rows


def test_example_no_snapshot_of_a_sink():
    with counts().start(sink=hr.discard()) as run, pytest.raises(NotSupportedError, match="sink="):
        run.snapshot()


@pytest.mark.parametrize("make", [hr.parquet, hr.parquet_directory])
@pytest.mark.parametrize("path", [3, None, "", b"out"])
def test_what_is_no_path_is_said_at_once(make, path):
    with pytest.raises(ParameterError, match=rf"^{make.__name__}\({path!r}\): give a path"):
        make(path)
