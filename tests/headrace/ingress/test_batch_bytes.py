"""Batches are bounded in bytes, whatever few bytes of input stand for.

Property    slices of a batch are its rows in order; each takes at most the bytes
            asked for when nothing is shared, or is one row. A Parquet file and a
            folder of them are decoded within the same bound.
Oracle      the values, encoded by Python; the peak of Arrow's memory pool.
Cannot see  what a library below Arrow takes (decompression); values of fixed
            width inside of structs that are null.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ingress import batch_bytes, parquet
from headrace.ingress.batch_bytes import pieces
from headrace.ingress.readers import open_input

TEXTS = ["", "b", "cc" * 10, "d" * 50, "e" * 300]
LAYOUTS = {
    "string": lambda codes: pa.array([TEXTS[c] for c in codes], pa.string()),
    "large string": lambda codes: pa.array([TEXTS[c] for c in codes], pa.large_string()),
    "string view": lambda codes: pa.array([TEXTS[c] for c in codes], pa.string_view()),
    "dictionary": lambda codes: pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(TEXTS)),
    "dictionary with nulls": lambda codes: pa.DictionaryArray.from_arrays(
        pa.array([c or None for c in codes], pa.int8()), pa.array(TEXTS)
    ),
    "runs": lambda codes: pa.RunEndEncodedArray.from_arrays(
        pa.array(range(1, len(codes) + 1), pa.int32()), pa.array([TEXTS[c] for c in codes])
    ),
    "list": lambda codes: pa.array([[TEXTS[c]] * (c % 3) for c in codes], pa.list_(pa.string())),
    "list of dictionary": lambda codes: pa.ListArray.from_arrays(
        pa.array(range(0, 2 * len(codes) + 1, 2), pa.int32()), LAYOUTS["dictionary"]([c for c in codes for _ in "ab"])
    ),
    "list view": lambda codes: pa.ListViewArray.from_arrays(
        pa.array([c % 3 for c in codes], pa.int32()), pa.array([c % 2 + 1 for c in codes], pa.int32()), pa.array(TEXTS)
    ),
    "fixed list": lambda codes: pa.array([[TEXTS[c], None] for c in codes], pa.list_(pa.string(), 2)),
    "struct": lambda codes: pa.array([{"a": TEXTS[c]} for c in codes], pa.struct({"a": pa.string()})),
    "map": lambda codes: pa.array([[(TEXTS[c], "x")] for c in codes], pa.map_(pa.string(), pa.string())),
    "number": lambda codes: pa.array(codes, pa.int64()),
}


def size_of(value):
    """Bytes of the texts in a value; 8 for a number."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, (list, tuple, dict)):
        return sum(map(size_of, value.values() if isinstance(value, dict) else value))
    return 8 if isinstance(value, int) else 0


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=30), st.integers(0, 4), st.integers(1, 20), st.sampled_from([1, 60, 900]))
def test_property_slices_are_bounded(layout, codes, start, rows, most):
    batch = pa.record_batch({"x": LAYOUTS[layout](codes)}).slice(start)
    found = list(pieces(batch, rows, most))
    # pandas' and Arrow's views of slices differ for runs: what is read is what counts.
    assert [row for piece in found for row in piece.column(0).to_pylist()] == batch.column(0).to_pylist()
    for piece in found:
        assert 1 <= piece.num_rows <= rows
        assert piece.num_rows == 1 or size_of(piece.column(0).to_pylist()) <= most


def test_example_ordinary_batches_are_not_cut():
    table = pa.table({"ts": range(200_000), "k": [f"user {n}" for n in range(200_000)]})
    names = table["k"].slice(0, 100).combine_chunks().dictionary_encode()
    table = table.append_column("d", names.take(pa.array(np.arange(200_000) % 100)))
    assert [batch.num_rows for batch in open_input(table)] == [131_072, 68_928]


MEGABYTE = 1 << 20
POOLS = []
"""They outlive what was allocated from them."""


def peak_of(reader) -> tuple[int, int]:
    """Read all. Returns the rows, and how much memory Arrow held at most for them."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        rows = 0
        for batch in reader:
            rows += batch.num_rows
            # The memory itself: a batch could be a slice of more, which another pool holds.
            assert sum(buffer.size for buffer in batch["k"].buffers() if buffer) < 2 * batch_bytes.BATCH_BYTES
        return rows, pool.max_memory()
    finally:
        pa.set_memory_pool(before)


@pytest.mark.parametrize(
    ("form", "kind"),
    [("file", pa.string()), ("file", pa.large_string()), ("folder", pa.string()), ("folder", pa.string_view())],
    ids=str,
)
def test_example_one_long_entry_under_many_rows(tmp_path, form, kind):
    """60 KB that stand for 400 MB; the next row group is ordinary."""
    text = "x" * 1_000_000  # a longer one would be more than a dictionary page holds
    path = tmp_path / "long.parquet"
    schema = pa.schema({"ts": pa.int64(), "k": kind})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for values, count in ((text, 400), ("short", 20_000)):
            codes = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100, np.int32)), pa.array([values]))
            piece = pa.table({"ts": range(100), "k": codes.cast(pa.string()).cast(kind)})
            writer.write_table(pa.concat_tables([piece] * (count // 100)).cast(schema), row_group_size=count)
    assert path.stat().st_size < 200_000
    reader = open_input(tmp_path if form == "folder" else path)
    assert reader.schema.types == [pa.int64(), kind]
    rows, peak = peak_of(reader)
    assert rows == 20_400
    assert MEGABYTE < peak < 4 * batch_bytes.BATCH_BYTES


def test_example_views_of_one_long_value():
    """A table takes little, and each of its batches too once what it refers to is copied."""
    text = pa.array(["x" * MEGABYTE])
    codes = pa.array(np.zeros(20_000, np.int32))
    table = pa.table({"k": pa.DictionaryArray.from_arrays(codes, text)})
    assert max(batch.num_rows for batch in open_input(table)) == 64
    lists = pa.ListViewArray.from_arrays(codes, pa.array(np.ones(20_000, np.int32)), text)
    assert max(batch.num_rows for batch in open_input(pa.table({"k": lists}))) == 64


def test_example_pages_that_compress_well(tmp_path):
    """Different texts of 64 KB each, 100 MB of them in a small file: fewer rows at a time."""
    path = tmp_path / "packed.parquet"
    texts = [f"{n:08d}" + "x" * 65_528 for n in range(1600)]
    pq.write_table(pa.table({"k": texts}), path, use_dictionary=False, compression="zstd")
    assert path.stat().st_size < MEGABYTE
    assert [batch.num_rows for batch in open_input(path)][:1] == [1023]


def test_example_dictionaries_of_short_texts_are_read_as_texts(tmp_path, monkeypatch):
    """What is no danger is read as fast as before; nested ones too, but where the first list is empty."""
    path = tmp_path / "short.parquet"
    rows = 3000
    columns = {
        "k": [f"user {n % 50}" for n in range(rows)],
        "tags": [[f"tag {n % 99}", "b"] for n in range(rows)],
        "late": [[], *([f"c{n % 500}"] for n in range(1, rows))],
    }
    table = pa.table(columns)
    pq.write_table(table, path)
    opened = []
    real = parquet._opened

    def noted(source, file, coded):
        opened.append(list(coded))
        return real(source, file, coded)

    monkeypatch.setattr(parquet, "_opened", noted)
    found = pa.Table.from_batches(list(open_input(path)))
    assert found.to_pydict() == table.to_pydict()
    assert opened == [["k", "tags.list.element", "late.list.element"], ["late.list.element"]]
