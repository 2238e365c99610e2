"""Sinks: what arrives is what was sent, however it was cut; nothing half-written stays.

Property    the same rows give the same file, byte for byte, whatever the batches
            were; a sink is closed or aborted once, and never while it writes
Oracle      Arrow reading it back
"""

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.egress import sinks
from headrace.errors import OutputError
from headrace.runtime.consumers import SinkConsumer
from headrace.runtime.feeding import Stopped
from support.workloads import HANG_S, Steered, eventually

TABLE = pa.table({"ts": range(1_000), "k": [i % 10 for i in range(1_000)]})


def write_cut(sink, size, table=TABLE):
    sink.open(table.schema)
    for batch in table.to_batches(max_chunksize=size):
        sink.write(batch)
    sink.close()


def test_example_collect_keeps_order():
    sink = sinks.CollectSink()
    write_cut(sink, 7)
    assert sink.table().equals(TABLE)


@pytest.mark.parametrize("size", [1, 13, 1_000])
def test_agree_collect_spilling_to_disk(size):
    sink = sinks.CollectSink(spill_bytes=500)
    write_cut(sink, size)
    read = sink.table()
    assert read.combine_chunks().equals(TABLE.combine_chunks())
    status = os.fstat(file := sink._file)
    assert (status.st_nlink, status.st_mode & 0o077) == (0, 0) and status.st_size > 500
    del sink
    with pytest.raises(OSError):
        os.fstat(file)
    assert read.combine_chunks().equals(TABLE.combine_chunks())  # what was read stays


def test_example_a_process_that_is_killed_leaves_no_file(tmp_path):
    """Nobody is told of SIGKILL; a name that is gone from the beginning needs nobody."""
    program = """
        import os, signal
        import pyarrow as pa
        from headrace.egress import sinks

        sink = sinks.CollectSink(spill_bytes=100)
        batch = pa.record_batch({"n": range(1_000)})
        sink.open(batch.schema)
        for _ in range(3):
            sink.write(batch)
        assert sum(batch.num_rows for batch in sink.batches()) == 3_000
        os.kill(os.getpid(), signal.SIGKILL)
    """
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environ = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environ, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


def test_example_collect_nothing():
    sink = sinks.CollectSink()
    sink.open(TABLE.schema)
    sink.close()
    assert sink.table().equals(TABLE.slice(0, 0))


@pytest.mark.parametrize("way", ["same", "link", "sorted", "second", "directory", "dataset", "join"])
def test_output_onto_an_input_is_refused(tmp_path, monkeypatch, way):
    monkeypatch.chdir(tmp_path)
    other, path = tmp_path / "other.parquet", tmp_path / "in" / "in.parquet"
    path.parent.mkdir()
    pq.write_table(TABLE, path)
    pq.write_table(TABLE, other)
    before = path.read_bytes()
    (tmp_path / "link.parquet").symlink_to(path)
    out = {"same": "in/../in/in.parquet", "link": "link.parquet"}.get(way, path)
    source = {"second": [other, path], "directory": path.parent, "dataset": pa.dataset.dataset(path)}.get(way, path)
    stream = hr.stream(source, event_time="ts", sort=way == "sorted")
    if way == "join":
        stream = hr.stream(other, event_time="ts").join(stream, 2, where=hr.band("k", "k", 1), prefixes=("l_", "r_"))
    with pytest.raises(OutputError, match="in.*is an input of the query, which it would replace; give another file"):
        stream.forward().start(sink=hr.parquet(out))
    assert path.read_bytes() == before and sorted(os.listdir(path.parent)) == ["in.parquet"]


def test_output_onto_an_arrow_file_that_is_read_is_refused(tmp_path):
    path = tmp_path / "in.arrow"
    with pa.ipc.new_file(path, TABLE.schema) as writer:
        writer.write_table(TABLE)
    before = path.read_bytes()
    with pytest.raises(OutputError, match="in.*is an input of the query, which it would replace; give another file"):
        hr.stream(path, event_time="ts").forward().start(sink=hr.parquet(path))
    assert path.read_bytes() == before


def test_agree_parquet_bytes_do_not_depend_on_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "ROW_GROUP", 64)  # so that row groups end inside batches
    files = []
    for size in (1, 63, 64, 65, 300, 1_000):
        path = tmp_path / f"{size}.parquet"
        write_cut(hr.parquet(path), size)
        files.append(path.read_bytes())
    assert len(set(files)) == 1
    assert pq.read_table(tmp_path / "1.parquet").equals(TABLE)


@pytest.mark.logic
def test_agree_parquet_bytes_of_runs(tmp_path):
    """Threads, batches, gate and reconfigurations do not show in the file."""
    files = set()
    for i, options in enumerate(
        [
            {"threads": 1},
            {"threads": 8, "gate": "scalegate"},
            {"threads": 2, "mode": "sn"},
            {"threads": 3, "max_threads": 4, "capacity": 16, "reconfigure": [(50, 1), (500, 4)]},
        ]
    ):
        path = tmp_path / f"{i}.parquet"
        query = hr.stream(TABLE, event_time="ts", batch_rows=10 + 90 * i).key_by("k").window(20, 10)
        with query.aggregate(n=hr.count()).start(sink=hr.parquet(path), **options) as run:
            assert run.wait(180)
        files.add(path.read_bytes())
    assert len(files) == 1


def test_example_parquet_is_there_only_when_complete(tmp_path):
    path = tmp_path / "out.parquet"
    source = Steered(TABLE, [500])
    run = hr.stream(source, event_time="ts").forward().start(sink=hr.parquet(path))
    source.let()
    eventually(lambda: run.metrics().tuples_out == 500)
    assert not path.exists()
    run.stop()
    source.let_all()
    assert list(tmp_path.iterdir()) == []
    with hr.stream(TABLE, event_time="ts").forward().start(sink=hr.parquet(path)) as run:
        assert run.wait(180)
        assert [p.name for p in tmp_path.iterdir()] == ["out.parquet"]
    assert pq.read_table(path).equals(TABLE)


def test_example_parquet_replaces_an_old_file_only_at_the_end(tmp_path):
    path = tmp_path / "out.parquet"
    path.write_text("the old one")
    sink = hr.parquet(path)
    sink.open(TABLE.schema)
    sink.write(TABLE.to_batches()[0])
    assert path.read_text() == "the old one"
    sink.abort()
    assert path.read_text() == "the old one" and len(list(tmp_path.iterdir())) == 1


def test_example_parquet_follows_a_link(tmp_path):
    real, link = tmp_path / "there" / "real.parquet", tmp_path / "link.parquet"
    real.parent.mkdir()
    link.symlink_to(real)
    for _ in range(2):  # a link that leads nowhere yet, then to the file of the first time
        write_cut(hr.parquet(link), 100)
        assert link.is_symlink() and [p.name for p in real.parent.iterdir()] == ["real.parquet"]
        assert pq.read_table(real).equals(TABLE)


def test_example_parquet_takes_no_pipe_or_device_for_a_file(tmp_path):
    pipe, looped = tmp_path / "pipe", tmp_path / "looped"
    os.mkfifo(pipe)
    looped.symlink_to(looped)
    for path, what in ((pipe, "it is a pipe"), ("/dev/null", "it is a device"), (looped, "symbolic links")):
        with pytest.raises(OutputError, match=f"{path}.*{what}.*give a file"):
            hr.parquet(path).open(TABLE.schema)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["looped", "pipe"] and pipe.is_fifo() and looped.is_symlink()


def test_example_discard_counts():
    sink = hr.discard()
    write_cut(sink, 7)
    assert sink.rows == 1_000


def test_example_function_gets_batches_in_order():
    seen = []
    with hr.stream(TABLE, event_time="ts").forward().start(sink=seen.append, threads=4) as run:
        assert run.wait(180)
    assert pa.Table.from_batches(seen).equals(TABLE)


def test_no_temporary_file_is_left_by_a_run_that_spills(monkeypatch):
    monkeypatch.setattr(sinks.CollectSink.__init__, "__defaults__", (1_000,))
    before = set(Path(tempfile.gettempdir()).glob("headrace-*.arrow"))
    run = hr.stream(TABLE, event_time="ts").forward().start()
    assert run.wait(180)
    assert run.to_arrow().equals(TABLE)
    run.stop()
    del run
    import gc

    gc.collect()
    assert set(Path(tempfile.gettempdir()).glob("headrace-*.arrow")) <= before


@contextmanager
def no_file_above(size):
    """A disk that is full: a file that reaches so many bytes cannot grow."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def test_a_disk_that_is_full_ends_the_run_and_leaves_what_had_come_out():
    query = hr.stream(TABLE, event_time="ts").key_by("k").window(10).aggregate(n=hr.count())
    expected = query.to_arrow()
    with no_file_above(2_000), query.start(sink=sinks.CollectSink(spill_bytes=100)) as run:
        where = f"kept in a file in '{tempfile.gettempdir()}', which cannot be written (File too large); make room there"
        with pytest.raises(OutputError, match=re.escape(where)):
            run.wait(HANG_S)
        seen = run.snapshot()
    assert 0 < seen.num_rows and seen.equals(expected.slice(0, seen.num_rows))


def test_a_disk_that_is_full_leaves_no_part_of_a_file(tmp_path):
    query = hr.stream(TABLE, event_time="ts").forward()
    query.to_arrow()
    with no_file_above(2_000), query.start(sink=hr.parquet(tmp_path / "out.parquet")) as run, \
            pytest.raises(OutputError, match=r"out.parquet' cannot be written \(File too large\); make room there"):  # fmt: skip
        run.wait(HANG_S)
    assert list(tmp_path.iterdir()) == []


class Slow:
    """A sink that notices when it is used twice at once, or after its end."""

    def __init__(self):
        self.inside = threading.Event()
        self.go_on = threading.Event()
        self.busy = False
        self.calls = []

    def write(self, batch):
        self.busy = True
        self.inside.set()
        assert self.go_on.wait(180)
        self.busy = False
        self.calls.append("write")

    def close(self):
        self.calls.append("close")

    def abort(self):
        assert not self.busy
        self.calls.append("abort")


def test_a_sink_is_never_aborted_while_it_writes():
    sink = Slow()
    consumer = SinkConsumer(sink, [], lambda: None)
    writer = threading.Thread(target=consumer.write, args=(TABLE.to_batches()[0],), daemon=True)
    writer.start()
    assert sink.inside.wait(180)
    consumer.abort()  # returns at once
    assert sink.calls == []
    sink.go_on.set()
    writer.join(180)
    consumer.abort()
    assert sink.calls == ["write", "abort"]
    with pytest.raises(Stopped):
        consumer.write(TABLE.to_batches()[0])
    with pytest.raises(Stopped):
        consumer.close()
    assert sink.calls == ["write", "abort"]


def test_a_sink_that_is_closed_is_not_aborted():
    sink = Slow()
    consumer = SinkConsumer(sink, [], lambda: None)
    consumer.close()
    consumer.abort()
    assert sink.calls == ["close"]
