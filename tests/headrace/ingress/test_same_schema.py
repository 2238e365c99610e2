"""Sources that agree in all but which columns may be null, and the layout of texts, are one stream, whatever holds them.

Oracle      The same rows, all of which may be null, with texts of one layout.
Cannot see  A later batch of another type: tests/headrace/ingress/test_encode.py, tests/headrace/test_bad_input.py.
"""

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.cli import main
from headrace.errors import SchemaError
from headrace.ingress.batch_bytes import BATCH_BYTES
from headrace.ingress.readers import open_input
from headrace.ingress.same_schema import read_as, shared_schema

FIELDS = [("ts", pa.int64()), ("k", pa.string()), ("n", pa.int64())]
MAYBE = pa.schema(FIELDS)
NEVER = pa.schema([pa.field(name, kind, nullable=False) for name, kind in FIELDS])
WHOLE = pa.table({"ts": range(0, 600, 2), "k": [f"k{i % 7}" for i in range(300)], "n": range(300)}, schema=NEVER)
NUMBERS = [None if i % 3 else i for i in range(300)]
HOLES = pa.table({"ts": range(1, 601, 2), "k": [f"k{i % 5}" for i in range(300)], "n": NUMBERS}, schema=MAYBE)


def in_a_file(table, folder):
    path = folder / f"{table.schema.field(0).nullable}.parquet"
    pq.write_table(table, path)
    return str(path)


HOLDERS = {
    "table": lambda table, folder: table,
    "file": in_a_file,
    "batches": lambda table, folder: iter(table.to_batches(max_chunksize=64)),
    "watermarks": lambda table, folder: iter([*table.to_batches(), hr.Watermark(700)]),
}


def summed(stream):
    windows = stream.filter(hr.col("ts") >= 10).key_by("k").window(100)
    return windows.aggregate(n=hr.sum("n"), rows=hr.count()).to_arrow(threads=2)


@pytest.mark.parametrize("holder", HOLDERS)
def test_oracle_sources(holder, tmp_path):
    expected = summed(hr.stream([WHOLE.cast(MAYBE), HOLES], event_time="ts"))
    for one, other in itertools.permutations([WHOLE, HOLES]):
        sources = [HOLDERS[holder](table, tmp_path) for table in (one, other)]
        assert summed(hr.stream(sources, event_time="ts")).equals(expected)


def test_oracle_unions():
    a, b = (hr.stream(table, event_time="ts") for table in (WHOLE, HOLES))
    expected = summed(hr.stream([WHOLE.cast(MAYBE), HOLES], event_time="ts"))
    for both in (a.union(b), b.union(a), a.union(b, hr.stream(WHOLE.slice(0, 0), event_time="ts"))):
        assert both.schema.equals(MAYBE)
        assert summed(both).equals(expected)
    assert a.union(a).schema.equals(NEVER)
    assert a.select("ts", "k", n=hr.col("n") * 2).union(a).to_arrow().num_rows == 600


TEXTS = {
    "large": pa.large_string(), "view": pa.string_view(), "coded": pa.dictionary(pa.int8(), pa.string()),
}  # fmt: skip


def with_texts(table, kind):
    return table.set_column(1, table.schema.field("k").with_type(kind), table["k"].cast(kind))


@pytest.mark.parametrize("kind", TEXTS.values(), ids=TEXTS)
def test_oracle_texts_of_any_layout(kind, tmp_path):
    """pandas gives other texts than Parquet and Spark do."""
    expected = summed(hr.stream([WHOLE.cast(MAYBE), HOLES], event_time="ts"))
    for one, other in ((with_texts(WHOLE, kind), HOLES), (WHOLE, with_texts(HOLES, kind))):
        for holder, made in HOLDERS.items():
            if holder == "file" and pa.types.is_string_view(kind):
                continue  # Parquet has no views
            found = hr.stream([made(one, tmp_path), made(other, tmp_path)], event_time="ts")
            assert summed(found).to_pylist() == expected.to_pylist()
        a, b = (hr.stream(table, event_time="ts") for table in (one, other))
        assert summed(a.union(b)).to_pylist() == expected.to_pylist()
        windows = hr.inputs(a.filter(hr.col("ts") >= 10).key_by("k"), b.filter(hr.col("ts") >= 10).key_by("k")).window(100)
        counted = windows.apply(hr.operator(state={"rows": "int64"}, emits={"rows": "int64"}, update=count, output=give))
        assert counted.to_arrow(threads=2).to_pylist() == expected.drop_columns("n").to_pylist()


def count(state, t, emit):
    state.rows += 1


def give(key, state, emit):
    emit(rows=state.rows)


def test_example_a_text_is_still_no_number():
    assert shared_schema(NEVER, NEVER.set(1, pa.field("k", pa.binary()))) is None
    assert shared_schema(NEVER, NEVER.set(1, pa.field("k", pa.dictionary(pa.int8(), pa.int64())))) is None
    with pytest.raises(hr.HeadraceError, match="keys k: int64 and k: string differ"):
        hr.inputs(*(hr.stream(WHOLE, event_time="ts").key_by(k=name) for name in ("n", "k")))


def test_example_only_the_columns_that_differ_are_named():
    other = with_texts(HOLES, pa.large_string()).set_column(2, "n", HOLES["n"].cast(pa.float64()))
    with pytest.raises(SchemaError, match=r"^source 2 \(Table\) has the columns n: double, the first one n: int64; cast them"):
        hr.stream([HOLES, other], event_time="ts")
    with pytest.raises(SchemaError, match="^union: the columns n: int64 and n: double differ; select"):
        hr.stream(HOLES, event_time="ts").union(hr.stream(other, event_time="ts"))


def test_example_dictionaries_are_cut_before_they_are_decoded():
    """Two hundred rows of a text of a megabyte are not decoded in one piece."""
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 200, pa.int8()), pa.array(["x" * (1 << 20)]))
    reader = read_as(open_input(pa.table({"k": long})), pa.schema([("k", pa.large_string())]))
    assert max(batch.nbytes for batch in reader) <= BATCH_BYTES + 1000


def test_example_only_what_differs_may_be_null():
    half = NEVER.set(2, MAYBE.field(2))
    assert shared_schema(NEVER, half).equals(half)
    assert shared_schema(half, NEVER).equals(half)
    assert shared_schema(NEVER, NEVER.remove(2)) is None
    assert shared_schema(NEVER, NEVER.set(2, pa.field("n", pa.int32()))) is None
    assert hr.stream([WHOLE, WHOLE.cast(half)], event_time="ts").schema.equals(half)


def test_example_columns_are_still_chosen_where_they_are_read(tmp_path):
    """Selection goes down to the file, and texts may still come as codes: there are so many that this pays."""
    many = pa.concat_tables([WHOLE] * 100)
    reader = read_as(open_input(in_a_file(many, tmp_path)), MAYBE)
    assert reader.select(["k"]).schema.equals(pa.schema([MAYBE.field("k")]))
    (batch,) = reader.select(["k"]).with_codes(["k"])
    assert pa.types.is_dictionary(batch.schema.field("k").type)
    assert batch.column("k").cast(pa.string()).equals(many.column("k").combine_chunks())


def test_example_two_files_of_the_command_line(tmp_path):
    files = [in_a_file(table, tmp_path) for table in (WHOLE, HOLES)]
    out = tmp_path / "out.parquet"
    assert main(["run", "forward", "--in", files[0], "--right", files[1], "--out", str(out)]) == 0
    assert pq.read_table(out).num_rows == 600
