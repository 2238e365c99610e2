"""Texts of a Parquet file that are keys come as codes of a dictionary, where that costs less.

Agree       what is read, in codes and as texts; counts of keys, by DuckDB.
Planted     another dictionary of as many entries taken for the last one.
Cannot see  how much it saves: `headrace bench api` has rows of files with text keys.
"""

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.errors import SchemaError
from headrace.ingress import keys as key_dictionaries
from headrace.ingress import parquet
from headrace.ingress.encode import Encoder
from headrace.ingress.key_sources import KeySource
from headrace.ingress.readers import open_input


def read(path, codes, **options):
    """Whether each batch has codes, and the table that they make."""
    reader = open_input(path, **options).with_codes(codes)
    kind = reader.schema.field("text").type
    batches = list(reader)
    plain = [batch.set_column(1, "text", parquet._decoded(batch.column("text"), kind)) for batch in batches]
    return [pa.types.is_dictionary(batch.column("text").type) for batch in batches], pa.Table.from_batches(plain)


@pytest.mark.parametrize(
    ("file", "batch_rows", "is_coded"),
    [
        ({}, 20_000, True),
        ({}, 800, True),
        ({}, 799, False),  # a dictionary of 100 would be built for each of them
        ({"entries": 20_000}, 20_000, False),
        ({"row_group_size": 10_000}, 20_000, False),  # too few rows to look
        ({"use_dictionary": False}, 20_000, False),
        ({"dictionary_pagesize_limit": 200, "write_batch_size": 10}, 20_000, False),  # begun with codes, gone on with texts
        ({"kind": pa.large_string()}, 20_000, False),  # codes would be of another type
        ({"kind": pa.binary()}, 20_000, True),
    ],
)
def test_agree_codes_and_texts(tmp_path, file, batch_rows, is_coded):
    path, entries, kind = tmp_path / "texts.parquet", file.pop("entries", 100), file.pop("kind", pa.string())
    texts = pa.array([None if i % 7 == 3 else f"text {i % entries}" for i in range(40_000)], kind)
    table = pa.table({"n": pa.array(range(40_000)), "text": texts})
    pq.write_table(table, path, **{"row_group_size": 20_000, **file})
    coded, found = read(path, ("text",), batch_rows=batch_rows)
    assert found.equals(table) and set(coded) == {is_coded}
    coded, found = read(path, (), batch_rows=batch_rows)
    assert found.equals(table) and not any(coded)


def mixed(path):
    """A file whose groups have small dictionaries and a large one, and its batches' rows."""
    sizes = 50, 20_000, 70, 70, 60
    parts = [pa.array([f"{part % 4} {i % size}" for i in range(30_000)]) for part, size in enumerate(sizes)]
    table = pa.table({"n": pa.array(range(150_000)), "text": pa.chunked_array(parts)})
    pq.write_table(table, path, row_group_size=30_000)
    return table, 15_000


def counts_of(path, batch_rows):
    """Rows by text, in windows of 50,000 rows."""
    stream = hr.stream(str(path), event_time="n", batch_rows=batch_rows)
    return stream.key_by("text").window(50_000).aggregate(rows=hr.count()).to_arrow(threads=2)


def expected(table):
    """The same by SQL."""
    query = "select (n // 50000 + 1) * 50000 as n, text, count(*) as rows from given group by all order by all"
    with duckdb.connect() as connection:
        connection.register("given", table)
        return connection.sql(query).to_arrow_table()


@pytest.mark.slow
def test_agree_groups_in_codes_and_groups_in_texts(tmp_path):
    """Which of them come changes within a file, and so does the dictionary."""
    path = tmp_path / "mixed.parquet"
    table, batch_rows = mixed(path)
    coded, found = read(path, ("text",), batch_rows=batch_rows)
    assert found.equals(table.cast(found.schema)) and coded == [True, True, False, False, *[True] * 6]
    counts = counts_of(path, batch_rows)
    assert counts.equals(expected(table).cast(counts.schema))


def test_planted_the_last_dictionary_is_taken_for_this_one(tmp_path, monkeypatch):
    path = tmp_path / "mixed.parquet"
    table, batch_rows = mixed(path)
    monkeypatch.setattr(key_dictionaries, "_is_same", lambda known, dictionary: len(known) == len(dictionary))
    monkeypatch.setattr(key_dictionaries, "_LEAST_RECYCLED", 1 << 20)  # recycling, at some time, forgets the last one
    counts = counts_of(path, batch_rows)
    assert not counts.equals(expected(table).cast(counts.schema))


def test_example_what_is_read_otherwise_comes_as_texts():
    """A text that is kept, a value, one that words are made of, or one that pairs must have equal."""
    schema = pa.schema({"ts": pa.int64(), "a": pa.string(), "b": pa.string()})
    both = (KeySource(("a",)), KeySource(("b",)))
    assert Encoder(schema, "ts", both).codable == ["a", "b"]
    assert Encoder(schema, "ts", (KeySource(("a", "b"), "any"),)).codable == []
    assert Encoder(schema, "ts", (KeySource(("a",), "words"),)).codable == []
    assert Encoder(schema, "ts", both, carry=("a",)).codable == ["b"]
    assert Encoder(schema, "ts", both, equal_columns=("b",)).codable == ["a"]
    assert Encoder(schema, "ts").codable == []


def test_example_codes_where_they_are_not_wanted_are_refused():
    schema = pa.schema({"ts": pa.int64(), "a": pa.string()})
    batch = pa.RecordBatch.from_pydict({"ts": [1, 2], "a": pa.array(["x", "y"]).dictionary_encode()})
    (encoded,) = Encoder(schema, "ts", (KeySource(("a",)),)).encode(batch)
    assert len(set(encoded.keys.tolist())) == 2
    full = pa.schema([batch.schema.field("ts"), batch.schema.field("a").with_nullable(False)])  # another schema, the same types
    (encoded,) = Encoder(batch.schema, "ts", (KeySource(("a",)),)).encode(pa.RecordBatch.from_arrays(batch.columns, schema=full))
    assert len(set(encoded.keys.tolist())) == 2
    with pytest.raises(SchemaError, match=r"column 'a' has type dictionary.* in a later batch, string in the schema: cast it"):
        list(Encoder(schema, "ts", (KeySource(("a",)),), carry=("a",)).encode(batch))
