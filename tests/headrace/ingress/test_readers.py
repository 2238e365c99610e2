"""Readers: every kind of input gives the same batches, and bad ones one line of error.

Property    Rows and schema are those of the table, whatever holds it.
Oracle      The Arrow table itself.
Cannot see  Spark DataFrames: tests/headrace/spark/test_source_and_sink.py.
"""

import errno
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.errors import InputError, SchemaError, UnsupportedTypeError
from headrace.ingress import readers
from headrace.ingress.input_errors import translated_errors
from headrace.ingress.readers import open_input
from headrace_datasets import tweets

TABLE = pa.table(
    {
        "ts": pa.array([3, 1, 2, 1, 5], pa.int64()),
        "text": ["c", "a", None, "b", ""],
        "tags": [["x"], [], None, ["y", "z"], ["x"]],
    }
)


class Exporter:
    """Something of another library: it has the Arrow C stream and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.fixture
def sources(tmp_path):
    """Return the table in every form."""
    pq.write_table(TABLE, tmp_path / "t.parquet", row_group_size=2)
    with pa.ipc.new_file(tmp_path / "t.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE)
    (tmp_path / "folder").mkdir()
    pq.write_table(TABLE.slice(0, 2), tmp_path / "folder" / "a.parquet")
    pq.write_table(TABLE.slice(2), tmp_path / "folder" / "b.parquet")
    batches = TABLE.to_batches(max_chunksize=2)
    return {
        "path": tmp_path / "t.parquet",
        "string": str(tmp_path / "t.parquet"),
        "ipc": tmp_path / "t.arrow",
        "folder": tmp_path / "folder",
        "dataset": ds.dataset(tmp_path / "folder"),
        "table": TABLE,
        "batch": TABLE.combine_chunks().to_batches()[0],
        "reader": TABLE.to_reader(max_chunksize=2),
        "capsule": Exporter(TABLE),
        "list": batches,
        "generator": (batch for batch in batches),
        "pandas": TABLE.to_pandas(),
    }


FORMS = [
    "path",
    "string",
    "ipc",
    "folder",
    "dataset",
    "table",
    "batch",
    "reader",
    "capsule",
    "list",
    "generator",
    "pandas",
]


@pytest.mark.parametrize("form", FORMS)
def test_agree_every_form(sources, form):
    reader = open_input(sources[form], batch_rows=3)
    batches = list(reader)
    found = pa.Table.from_batches(batches, reader.schema).cast(TABLE.schema)
    assert found.equals(TABLE)
    assert all(0 < batch.num_rows <= 3 for batch in batches)
    assert reader.rows in (None, 5)
    if reader.is_replayable:
        assert sum(batch.num_rows for batch in reader) == 5
    else:
        with pytest.raises(InputError, match="is a stream and was read already"):
            iter(reader)


def test_example_the_names_of_folders_are_columns(tmp_path):
    """As Spark's `partitionBy` writes them: a column that is in no file."""
    for name, rows in (("day=1", TABLE.slice(0, 2)), ("day=2", TABLE.slice(2))):
        (tmp_path / name).mkdir()
        pq.write_table(rows, tmp_path / name / "part-0.parquet")
    reader = open_input(tmp_path)
    found = pa.Table.from_batches(reader, reader.schema)
    assert found.select(TABLE.column_names).cast(TABLE.schema).equals(TABLE)
    assert found["day"].to_pylist() == [1, 1, 2, 2, 2]
    (first, second) = reader.select(["day"])
    assert [*first["day"].to_pylist(), *second["day"].to_pylist()] == [1, 1, 2, 2, 2]


def test_example_columns_of_one_name_in_a_pandas_frame():
    frame = TABLE.select(["ts", "text"]).to_pandas()
    frame.columns = ["ts", "ts"]
    with pytest.raises(SchemaError, match=r"^source \(DataFrame\): several columns are called 'ts'; rename the others"):
        open_input(frame)


def test_example_a_file_of_a_folder_that_has_something_else_is_refused(tmp_path):
    """Arrow would read the text "5" as a number, and fill a missing column with nulls."""
    first, more = pa.table({"ts": [1], "v": pa.array([5], pa.int32())}), pa.table({"ts": [2], "w": [1]})
    later = tmp_path / "b.parquet"
    pq.write_table(first, tmp_path / "a.parquet")
    for column, said in ((pa.array(["5"]), "'v' is string in '.*b.parquet', int32 in the first file: cast it"),
                         (pa.array([True]), "'v' is bool in"), (None, "'v' is missing in '.*b.parquet': add it")):  # fmt: skip
        pq.write_table(more if column is None else more.append_column("v", column), later)
        with pytest.raises(SchemaError, match=f"^input '{tmp_path}': column {said}"):
            list(open_input(tmp_path))
        assert sum(batch.num_rows for batch in open_input(tmp_path, columns=["ts"])) == 2
    for kind in (pa.int64(), pa.float64(), pa.null()):
        pq.write_table(more.append_column("v", pa.nulls(1, kind)), later)
        assert pa.Table.from_batches(open_input(tmp_path))["v"].to_pylist() == [5, None]
    assert sum(batch.num_rows for batch in open_input(ds.dataset(tmp_path))) == 2


@pytest.mark.parametrize("form", FORMS)
def test_agree_projection_and_sort(sources, form):
    reader = open_input(sources[form], columns=["text", "ts"], sort_by="ts")
    assert reader.schema.names == ["text", "ts"]
    (batch,) = reader
    assert batch["ts"].to_pylist() == [1, 1, 2, 3, 5]
    assert batch["text"].to_pylist() == ["a", "b", None, "c", ""]  # equal times in their order


@pytest.mark.parametrize("form", FORMS)
def test_agree_selection_afterwards(sources, form):
    reader = open_input(sources[form], sort_by="ts").select(["tags", "text"])
    (batch,) = reader
    assert batch.schema.names == reader.schema.names == ["tags", "text"]
    assert batch["text"].to_pylist() == ["a", "b", None, "c", ""]
    with pytest.raises(SchemaError, match="'user' does not exist"):
        reader.select(["user"])


def test_example_empty_inputs(tmp_path):
    pq.write_table(TABLE.slice(0, 0), tmp_path / "empty.parquet")
    for source in (tmp_path / "empty.parquet", TABLE.slice(0, 0), TABLE.slice(0, 0).to_pandas()):
        reader = open_input(source, sort_by="ts")
        assert list(reader) == [] and reader.schema.names == TABLE.schema.names and reader.rows == 0
    assert list(open_input([], schema=TABLE.schema)) == []
    assert next(iter(open_input([TABLE.slice(0, 0), TABLE.slice(0, 1)])))["ts"].to_pylist() == [3]


def test_example_pandas_frames():
    frame = pd.DataFrame({"ts": pd.to_datetime(["2020-01-01", None]), "x": [1, 2]}, index=[7, 8])
    reader = open_input(frame)
    assert reader.schema.names == ["ts", "x"] and reader.schema.metadata is None
    assert next(iter(reader))["ts"].null_count == 1
    zones = [pd.Timestamp("2020-01-01 12:00", tz="Europe/Paris"), pd.Timestamp("2020-01-01 12:00", tz="UTC")]
    (batch,) = open_input(pd.DataFrame({"ts": pd.Series(zones, dtype=object)}))
    assert [time.timestamp() for time in batch["ts"].to_pylist()] == [zone.timestamp() for zone in zones]


def test_example_data_sets_again_and_again():
    """They are tables to whatever reads Arrow's streams, and begin anew for each run."""
    data = tweets(n=20_000, rate=10.0)
    counts = hr.stream(data, event_time="ts").key_by("user").window("1h").aggregate(n=hr.count())
    of_table = hr.stream(data.to_arrow(), event_time="ts").key_by("user").window("1h").aggregate(n=hr.count()).to_arrow()
    assert of_table.num_rows > 0
    for _ in range(2):
        assert counts.to_arrow().equals(of_table)


def test_example_missing_columns(sources):
    for form in FORMS:
        with pytest.raises(
            SchemaError, match=r"'user' does not exist in (input|source) .*: the columns are ts, text, tags"
        ):
            open_input(sources[form], columns=["user"])
    with pytest.raises(SchemaError, match="occurs 2 times"):
        open_input(pa.table([[1], [2]], names=["a", "a"]), columns=["a"])
    with pytest.raises(UnsupportedTypeError, match="cannot be sorted by"):
        list(open_input(TABLE, sort_by="tags"))


def one_line(error):
    text = str(error.value)
    assert "\n" not in text and text.strip() == text and len(text) < 400
    return text


@pytest.mark.parametrize(
    ("first", "later", "said"),
    [
        (pa.array([5], pa.int32()), pa.array([2**40]), r"int64 in .*, but read as int32, .* \(Integer value 10995"),
        (pa.array([5]), pa.array([7.5]), r"double in .*, but read as int64, .* \(Float value 7.5"),
        (pa.array([5], pa.timestamp("us")), pa.array([7], pa.timestamp("ns")), r"timestamp\[ns\] in .* lose data: 7"),
    ],
)
def test_example_a_file_of_a_folder_with_values_too_large_for_the_first_is_named(tmp_path, first, later, said):
    pq.write_table(pa.table({"ts": [1], "v": first}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"ts": [2], "v": later}), tmp_path / "b.parquet")
    for source in (tmp_path, ds.dataset(tmp_path)):
        with pytest.raises(SchemaError, match=f"column 'v' is {said}.*cast it in one") as error:
            list(open_input(source))
        assert str(tmp_path / "b.parquet") in one_line(error)
    assert sum(batch.num_rows for batch in open_input(tmp_path, columns=["ts"])) == 2


def test_example_folders_that_are_none_of_parquet_files(tmp_path):
    pq.write_table(TABLE, tmp_path / "b.parquet")
    pq.write_table(TABLE, tmp_path / "_notes.parquet")
    (tmp_path / "_notes.txt").write_text("passed over")
    assert open_input(tmp_path).rows == 5
    for name in ("a/first.csv", "last.csv"):  # Arrow finds the first one at once, the other when it counts rows
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("ts,text")
        with pytest.raises(InputError, match=f"is a folder with '{tmp_path / name}' in it, which is no Parquet file"):
            open_input(tmp_path)
        (tmp_path / name).unlink()


def test_example_the_file_of_a_folder_that_may_not_be_read_is_named():
    said = r"^input 'days': 'days/3.parquet' may not be read by this user; check its permissions$"
    with pytest.raises(InputError, match=said), translated_errors("days"):
        raise PermissionError(errno.EACCES, "Permission denied", "days/3.parquet")


@pytest.mark.parametrize(
    ("path", "fix"),
    [
        ("", "the path '' is empty; give the path"),
        ("/nowhere/x.parquet", "check the path"),
        ("/dev/null/x.parquet", "check the path"),
        ("~/x.parquet", r"give os.path.expanduser\('~/x.parquet'\)"),
        ("s3://bucket/x.parquet", r"give a path, not an address, or pyarrow.dataset.dataset\('s3://bucket/x.parquet'\)"),
        ("part-*.parquet", "give a folder, or pyarrow.dataset.dataset"),
    ],
)
def test_example_paths_at_which_nothing_is(path, fix):
    with pytest.raises(InputError, match=fix) as error:
        open_input(path)
    assert repr(path) in one_line(error) and (not path or "there is no such file" in one_line(error))


def test_example_bad_files(tmp_path):
    good = tmp_path / "good.parquet"
    pq.write_table(
        pa.table({"ts": np.arange(10_000), "s": [f"text {i}" for i in range(10_000)]}),
        good,
        write_page_checksum=True,
    )
    data = good.read_bytes()
    footer = int.from_bytes(data[-8:-4], "little")
    cases = {
        "missing.parquet": None,
        "empty.parquet": b"",
        "text.parquet": b"ts,text\n1,a\n",
        "magic.parquet": b"PAR1",
        "nothing.parquet": b"",
        "short.parquet": data[: len(data) // 2],
        "footer.parquet": data[: -8 - footer] + bytes(footer) + data[-8:],
        "flipped.parquet": data[:2000] + bytes(byte ^ 0xFF for byte in data[2000:2400]) + data[2400:],
    }
    for name, content in cases.items():
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError) as error:
            list(open_input(path))
        assert name in one_line(error)
    with pytest.raises(InputError, match=r"nothing.parquet' is empty; write it again"):
        open_input(tmp_path / "nothing.parquet")
    for name, reader in (
        ("a.csv", "pandas.read_csv("),
        ("a.csv.gz", "pandas.read_csv("),
        ("a.jsonl", "pandas.read_json("),
        ("a.txt", "convert it"),
    ):
        (tmp_path / name).write_bytes(b"ts,text\n1,a\n")
        with pytest.raises(InputError, match=rf"neither a Parquet nor an Arrow file: .*{re.escape(reader)}"):
            list(open_input(tmp_path / name))


def test_example_an_arrow_stream_is_given_opened(tmp_path):
    """As a file it is refused: one that is cut off between two batches looks whole."""
    path = tmp_path / "t.arrows"
    with pa.ipc.new_stream(path, TABLE.schema) as writer:
        writer.write_table(TABLE)
    with pytest.raises(InputError, match="t.arrows' is an Arrow stream, .* by pyarrow.ipc.new_file") as error:
        open_input(path)
    opened = eval(one_line(error).partition("or give ")[2].removesuffix(" in Python"), {"pyarrow": pa})
    assert pa.Table.from_batches(open_input(opened)).equals(TABLE)


@pytest.mark.slow
@pytest.mark.parametrize("other", [pa.table({"ts": [1]}), pa.table({"ts": [7], "w": [8]})], ids=["column gone", "column retyped"])
def test_example_a_file_that_is_replaced(tmp_path, other):
    """While it is read, the file that was opened is read to its end; before, the error names it. Long texts are read twice."""
    path = tmp_path / "t.parquet"

    def write(table):
        pq.write_table(table, tmp_path / "new", row_group_size=100)
        (tmp_path / "new").replace(path)

    long = ["a" + "x" * 700_000, "b"]
    texts = pa.table({"ts": range(400), "w": long * 200})
    write(texts)
    reader = open_input(str(path), batch_rows=100)
    found = iter(reader)
    first = next(found)
    write(other)
    assert pa.Table.from_batches([first, *found])["ts"].to_pylist() == list(range(400))
    said = r"t\.parquet' was replaced: its column 'w' is (not there any more|int64 now, and was string); make the query"
    with pytest.raises(InputError, match=said):
        list(reader)
    write(texts)
    counts = hr.stream(str(path), event_time="ts").window(1000).aggregate(w=hr.last("w"))
    write(other)
    with pytest.raises(InputError, match=said):
        counts.to_arrow()


def test_example_an_arrow_file_that_is_replaced(tmp_path):
    path = tmp_path / "t.arrow"
    for name, table in (("t.arrow", {"ts": [1], "w": ["a"], "x": [2]}), ("new", {"ts": [7], "w": [8], "x": [9]})):
        table = pa.table(table)
        with pa.ipc.new_file(tmp_path / name, table.schema) as writer:
            writer.write_table(table)
    counts = hr.stream(str(path), event_time="ts").window(1000).aggregate(w=hr.last("w"))
    (tmp_path / "new").replace(path)
    with pytest.raises(InputError, match=r"t\.arrow' was replaced: its column 'w' is int64 now, and was string; make the query"):
        counts.to_arrow()


def test_example_arrow_that_is_not_valid():
    bad_offsets = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 500, 3], np.int32)), pa.py_buffer(b"abc")]
    )
    bad_text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    bad_list = pa.Array.from_buffers(
        pa.list_(pa.int64()),
        3,
        [None, pa.py_buffer(np.array([0, 9, 1, 1], np.int32))],
        children=[pa.array([1])],
    )
    bad_codes = pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array(["a"]), safe=False)
    for column in (bad_offsets, bad_text, bad_list, bad_codes):
        good = pa.record_batch({"x": column.slice(0, 0)})
        bad = pa.RecordBatch.from_arrays([column], names=["x"])
        with pytest.raises(InputError, match="rows from 0: not valid Arrow data") as error:
            list(open_input([good, bad]))
        one_line(error)
        with pytest.raises(InputError, match="not valid Arrow data"):
            list(open_input(pa.Table.from_batches([bad])))


def test_example_drift_between_batches():
    first = pa.record_batch({"a": pa.array([1], pa.int64()), "b": ["x"]})
    wider = pa.record_batch({"b": ["y"], "more": [1], "a": pa.array([2], pa.int32())})
    assert pa.Table.from_batches(open_input([first, wider])).to_pydict() == {"a": [1, 2], "b": ["x", "y"]}
    with pytest.raises(SchemaError, match="'b' is missing in a later batch"):
        list(open_input([first, first.select(["a"])]))
    with pytest.raises(SchemaError, match="'a' is string in a later batch, int64 before"):
        list(open_input([first, pa.record_batch({"a": ["one"], "b": ["x"]})]))


ALIKE = [
    (pa.array([2], pa.int64()), pa.array([7], pa.uint8())),
    (pa.array([2], pa.int64()), pa.array([7.0])),
    (pa.array([2], pa.int64()), pa.nulls(1)),
    (pa.array([2], pa.timestamp("us")), pa.array([7], pa.timestamp("s"))),
    (pa.array(["a"]), pa.array(["b"]).dictionary_encode()),
    (pa.array([["a"]]), pa.array([["b"]], pa.large_list(pa.large_string()))),
    (pa.array([["a"]]), pa.array([[None]])),
    (pa.array([{"x": 2}]), pa.array([{"x": 7.0}])),
]
OTHERS = [
    (pa.array([2], pa.int64()), pa.array(["7"])),
    (pa.array([2], pa.int64()), pa.array(["7"]).dictionary_encode()),
    (pa.array([2], pa.int64()), pa.array([True])),
    (pa.array([2], pa.int64()), pa.array([7.5])),
    (pa.array([True]), pa.array([7])),
    (pa.array(["a"]), pa.array([7])),
    (pa.array([2], pa.timestamp("us")), pa.array([7])),
    (pa.array([2], pa.int64()), pa.array([7], pa.timestamp("ms"))),
    (pa.array([2], pa.int64()), pa.array([7], pa.duration("ms"))),
    (pa.array([[2]]), pa.array([["7"]])),
    (pa.array([{"x": 2}]), pa.array([{"x": "7"}])),
    (pa.array([{"x": 2}]), pa.array([{"y": 7}])),
    (pa.array([[{"x": 2}]]), pa.array([[{"x": "7"}]])),
    (pa.array([[(2, 1)]], pa.map_(pa.int64(), pa.int64())), pa.array([[("7", 1)]], pa.map_(pa.string(), pa.int64()))),
]


@pytest.mark.parametrize(("first", "later"), ALIKE)
def test_example_a_later_batch_may_have_other_widths_units_and_layouts(first, later):
    batches = [pa.record_batch({"a": values}) for values in (first, later)]
    assert pa.Table.from_batches(open_input(batches))["a"].to_pylist() == [first[0].as_py(), later[0].as_py()]


@pytest.mark.parametrize(("first", "later"), OTHERS)
def test_example_values_of_a_later_batch_are_never_made_into_others(first, later):
    """Arrow would read the text "7" as a number, and the number 7 as a time, in whatever unit."""
    with pytest.raises(SchemaError, match="'a' is .* in a later batch, .* before: cast it"):
        list(open_input([pa.record_batch({"a": values}) for values in (first, later)]))


def test_example_not_an_input():
    for source in (7, {"ts": [1]}, b"data", [1], [], object()):
        with pytest.raises(InputError) as error:
            list(open_input(source))
        one_line(error)
    for source, remedy in (({"ts": [1]}, "pyarrow.table(columns)"), ([{"ts": 1}], "pyarrow.RecordBatch.from_pylist(")):
        with pytest.raises(InputError, match=re.escape(remedy)):
            list(open_input(source))


def test_example_an_error_of_the_source_itself_passes():
    def failing():
        yield pa.record_batch({"ts": [1]})
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(open_input(failing()))


@pytest.mark.parametrize("bad", [[0, 1, 1000], [0, 1000, 2]], ids=["last", "inner"])
@pytest.mark.parametrize("sort_by", [None, "ts"])
def test_example_offsets_beyond_the_buffer(bad, sort_by):
    """They were right when Arrow looked; a sort must not read by them first."""
    offsets = np.array([0, 1, 2], np.int32)
    texts = pa.StringArray.from_buffers(2, pa.py_buffer(offsets), pa.py_buffer(b"ab"))
    batch = pa.record_batch({"ts": pa.array([2, 1]), "k": texts})
    offsets[:] = bad
    with pytest.raises(InputError, match=r"rows from 0: not valid Arrow data \(.*offset"):
        list(open_input(batch, sort_by=sort_by))


def test_example_columns_of_one_name_in_a_file(tmp_path):
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["ts", "x", "x"]), path)
    with pytest.raises(SchemaError, match=r"column 'x' occurs 2 times in input .*the columns are ts, x, x"):
        list(open_input(path))
    assert [batch.to_pydict() for batch in open_input(path, columns=["ts"])] == [{"ts": [1]}]


class Frame:
    """A frame of a library that this room does not know."""

    def __init__(self, table):
        self.table = table


def test_example_a_room_above_registers_how_a_librarys_frames_are_opened(monkeypatch):
    """As `headrace.spark` does for DataFrames. What is registered is for that package's types and no others."""
    monkeypatch.setattr(readers, "_openers", {})
    table = pa.table({"ts": [2, 1], "x": [3, 4]})
    with pytest.raises(InputError, match=r"source \(Frame\): give a Parquet path"):
        open_input(Frame(table))
    asked = []

    def open_frame(frame, **options):
        asked.append(options)
        return open_input(frame.table, **options)

    readers.register(Frame.__module__.partition(".")[0], open_frame)
    reader = open_input(Frame(table), columns=["x"], sort_by="ts", batch_rows=1, name="frames")
    assert [batch.to_pydict() for batch in reader] == [{"x": [4]}, {"x": [3]}]
    assert asked == [{"columns": ["x"], "sort_by": "ts", "batch_rows": 1, "name": "frames", "validate": True}]
    assert open_input(table).rows == 2
    assert len(asked) == 1


def test_example_spark_has_registered_its_frames():
    from headrace.spark.source import open_dataframe

    assert readers._openers["pyspark"] is open_dataframe


def test_a_column_alone_is_no_table():
    values = pd.Series([1, 2])
    for column in (values, pa.chunked_array([[1, 2]])):
        with pytest.raises(InputError, match="is a single column: give a table that has times"):
            open_input(column)


@pytest.mark.parametrize("values", [[1, "a"], ["a", 1], [1j, 2j]], ids=["number and text", "text first", "complex"])
def test_example_columns_of_a_frame_that_arrow_does_not_have(values):
    said = r"source \(DataFrame\) cannot be read: Conversion failed for column v .*: .*; give its values another type$"
    with pytest.raises(InputError, match=said) as error:
        open_input(pd.DataFrame({"ts": [1, 2], "v": values}))
    assert one_line(error)


def test_sparse_columns_of_a_frame_are_refused_in_one_line():
    with pytest.raises(InputError, match=r"source \(DataFrame\) cannot be read: Sparse pandas data \(column v\)"):
        open_input(pd.DataFrame({"ts": [1, 2], "v": pd.arrays.SparseArray([0, 1])}))


def test_a_producer_that_fails_is_the_cause():
    """Where the error alone is shown there is nothing above it: it says where the producer's own error is."""
    gone = OSError("the network is gone")

    def rows():
        yield pa.record_batch({"ts": [1]})
        raise gone

    said = r"^source \(generator\) cannot be read: the network is gone; .* failed: see this error's __cause__$"
    with pytest.raises(InputError, match=said) as failed:
        list(open_input(rows()))
    assert failed.value.__cause__ is gone


def test_a_query_is_no_table():
    with pytest.raises(InputError, match=re.escape("of a query or a run its results, .to_arrow()")):
        hr.stream(hr.stream(TABLE, event_time="ts"), event_time="ts")


def test_no_batch_at_all_says_what_to_give():
    with pytest.raises(InputError, match=re.escape("give an empty batch, as in [table.slice(0, 0)]")):
        hr.stream([[]], event_time="ts")
    assert hr.stream([[TABLE.slice(0, 0)]], event_time="ts").to_arrow().num_rows == 0
