"""Tables of transactions: what they may be made of, a run's memory of them, and what comes out.

Property    a memory holds what the table said, under the keys it said, whatever the types, order and number of the
            data's rows; what kernels write by the texts they are given is what Python reads back, in the order of
            keys; a copy of a moment stays as it was; sums are exact; what cannot be meant is refused, with what is
            wrong and what to do
Oracle      `headrace.reference.transactions.Table`
Cannot see  keys put in by several threads (test_index.py); what functions do with tables
"""

import math
import random
import re
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.codegen.kinds import arrow_of
from headrace.errors import (
    ArgumentError,
    InputError,
    KeyNullError,
    NotSupportedError,
    ParameterError,
    SchemaError,
    UnknownNameError,
    UnsupportedTypeError,
)
from headrace.reference import transactions as reference
from headrace.transactions import content, index_kernel, layout, memory, table_data
from headrace.transactions.memory import TableMemory
from headrace.transactions.tables import reading
from planted_mistakes import fails, planted
from support.written_tables import (
    KINDS,
    TEXTS,
    VALUES,
    Written,
    bits,
    check_written,
    plain,
    random_run,
    texts,
)

INT64 = st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]) | st.integers(-50, 50)

# -- made of data


@st.composite
def drawn_data(draw):
    is_text = draw(st.booleans())
    keys = draw(st.lists(st.sampled_from(TEXTS) if is_text else INT64, unique=True, max_size=8))
    if not is_text and draw(st.booleans()):
        keys = draw(st.permutations(range(least := draw(st.integers(-3, 3)), least + len(keys))))
    columns = draw(st.lists(st.sampled_from(list(KINDS)), unique=True))
    rows = [{name: draw(VALUES[KINDS[name]]) for name in columns} for _ in keys]
    return is_text, list(keys), columns, rows


def arrow_key(keys, is_text, rng):
    if is_text:
        strings = pa.array(keys, pa.string())
        return rng.choice([strings, strings.cast(pa.large_string()), strings.dictionary_encode()])
    fits = [kind for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint64(), pa.int64()) if _fits(keys, kind)]
    return pa.array(keys, rng.choice(fits))


def _fits(keys, kind):
    bits = kind.bit_width - (not str(kind).startswith("u"))
    low = 0 if str(kind).startswith("u") else -(2**bits)
    return all(low <= key < 2**bits for key in keys)


@settings(max_examples=150)
@given(drawn_data(), st.sampled_from(["reject", "insert"]), st.randoms(use_true_random=False))
def test_oracle_rows_of_data(drawn, unknown, rng):
    is_text, keys, columns, rows = drawn
    key = arrow_key(keys, is_text, rng)
    values = {name: pa.array([row[name] for row in rows], arrow_of(KINDS[name])) for name in columns}
    if "t" in values:
        values["t"] = rng.choice([values["t"], values["t"].cast(pa.large_string()), values["t"].dictionary_encode()])
    data = pa.table({"k": key, **values} if rng.random() < 0.5 else {**values, "k": key})
    if len(keys) > 2 and rng.random() < 0.5:
        data = pa.concat_tables([data.slice(0, 1), data.slice(1)])
    table = hr.table("t", data=data, key="k", unknown=unknown)
    made = TableMemory([table], texts())
    order = [name for name in data.column_names if name != "k"]
    kinds = {name: KINDS[name] for name in order}
    expected = reference.Table("t", kinds, {k: {n: row[n] for n in order} for k, row in zip(keys, rows, strict=True)}, key="k")
    found = made.content(table)
    assert plain(found.to_pylist()) == plain(expected.content())
    assert [found.schema.field(name).type for name in order] == [arrow_of(kinds[name]) for name in order]
    assert found.schema.field("k").type == (pa.string() if is_text else pa.int64())
    written = Written(made)
    slots = [written.slot(0, k) for k in keys]
    assert sorted(slots) == list(range(len(keys)))
    assert [made.key_of(slot) for slot in slots] == [(table, k) for k in keys]
    absent = "not there" if is_text else 77
    if unknown == "reject":
        assert written.slot(0, absent) == index_kernel.ABSENT


def test_example_a_frame_a_batch_and_a_file(tmp_path):
    frame = pd.DataFrame({"price": [2.5, 1.5], "id": [4, 2], "n": np.array([1, 2], np.int32)}, index=[7, 8])
    data = pa.Table.from_pandas(frame, preserve_index=False)
    pa.parquet.write_table(data, tmp_path / "t.parquet")
    wanted = {"id": [2, 4], "price": [1.5, 2.5], "n": [2, 1]}
    for form in (frame, data, data.to_batches()[0], tmp_path / "t.parquet", iter(data.to_batches())):
        table = hr.table("t", data=form)
        assert TableMemory([table]).content(table).to_pydict() == wanted
        assert dict(table.columns) == {"price": "float64", "n": "int32"}
    frame.loc[7, "n"] = 9  # a table never changes
    assert TableMemory([table]).content(table).to_pydict() == wanted


def test_example_kinds_that_are_asked_for():
    numbers = {"a": pa.array([1, 2], pa.int8()), "b": pa.array([1, 2**63 - 1], pa.uint64())}
    data = pa.table({"id": [1, 0], **numbers, "c": [0.5, 0.1], "d": ["x", None]})
    kinds = {"b": "int64", "a": "float32", "new": "int32", "seen": hr.set_of("int64"), "who": pa.large_string()}
    table = hr.table("t", data=data, columns=kinds, first={"new": -1, "who": "me"})
    assert TableMemory([table], texts()).content(table).to_pylist() == [
        {"id": 0, "b": 2**63 - 1, "a": 2.0, "new": -1, "seen": [], "who": "me"},
        {"id": 1, "b": 1, "a": 1.0, "new": -1, "seen": [], "who": "me"},
    ]


def test_example_rows_begin_at_their_first_values():
    kinds = {"i": "int64", "x": "float32", "b": "bool", "z": "float64", "t": "string", "u": "string"}
    table = hr.table("t", columns=kinds, rows=2, first={"i": -5, "x": 0.1, "b": True, "t": "é"})
    assert TableMemory([table], texts()).content(table).to_pylist() == [
        {"id": key, "i": -5, "x": float(np.float32(0.1)), "b": True, "z": 0.0, "t": "é", "u": ""} for key in range(2)
    ]
    none = hr.table("none", columns={"i": "int64"}, rows=0)
    only = hr.table("only", columns={"s": hr.set_of("int64")}, rows=2)
    made = TableMemory([none, only, table], texts())
    assert made.content(none).num_rows == 0 and made.content(none).schema.names == ["id", "i"]
    assert made.content(only).to_pylist() == [{"id": 0, "s": []}, {"id": 1, "s": []}]
    assert [made.key_of(record)[0].name for record in range(made.records)] == ["only"] * 2 + ["t"] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="reads what the process holds from /proc")
def test_example_a_huge_table_takes_what_is_used():
    def held():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    before = held()
    table = hr.table("t", columns={"i": "int64"}, rows=2**31 - 1)
    made = TableMemory([table])
    written = Written(made)
    for key in (0, 2**30, 2**31 - 2):
        written.write(0, key, "i", key)
        assert made.row(0, written.slot(0, key)) == {"i": key}
    assert held() - before < 50e6
    assert [written.slot(0, key) for key in (-1, 2**31 - 1)] == [index_kernel.ABSENT] * 2


# -- written by kernels


@pytest.mark.parametrize("seed", range(4))
def test_oracle_what_kernels_write(seed):
    made, expected = random_run(seed)
    check_written(made, expected)


# -- moments, sums, plain Python


def test_example_a_copy_of_a_moment_stays():
    table = hr.table("t", columns={"i": "int64", "s": hr.set_of("int64")}, rows=2)
    made = TableMemory([table])
    written = Written(made)
    written.add(0, 1, "s", 5)
    before = made.at(10)
    written.write(0, 1, "i", 7)
    written.add(0, 1, "s", 4)
    assert before["t"].to_arrow().to_pylist() == [{"id": 0, "i": 0, "s": []}, {"id": 1, "i": 0, "s": [5]}]
    assert made.at(None)["t"].to_pandas()["i"].tolist() == [0, 7]
    assert made.content(table)["s"].to_pylist() == [[], [4, 5]]
    assert before.position == 10 and list(before) == ["t"] and "t" in before
    assert repr(before) == "<tables after 10 events: t (2 rows)>"
    assert repr(before["t"]) == "<t: 2 rows of id, i, s; to_arrow(), to_pandas(), to_spark(spark)>"
    with pytest.raises(UnknownNameError, match="there is no table 'u': the tables are 't'"):
        before["u"]


def test_example_rows_that_were_not_put_in_are_not_there():
    """A slot is given to a key when it is looked up; whether the row is there is another question."""
    table = hr.table("t", columns={"i": "int64"}, rows=1, unknown="insert", max_rows=3)
    made = TableMemory([table])
    written = Written(made)
    slots = [written.slot(0, key) for key in (9, 5, 7, 5)]
    assert slots == [1, 2, index_kernel.FULL, 2]
    written.appear(0, 5)
    assert made.content(table).to_pylist() == [{"id": 0, "i": 0}, {"id": 5, "i": 0}]
    assert made.slot_of(0, 9) is None and made.slot_of(0, 5) == 2


COUNTED = pa.schema({"id": pa.int64(), "i": pa.int64()})


def test_example_strings_that_are_keys_stay():
    check_strings_stay()


def check_strings_stay():
    """Of the others those are forgotten that no event has had for long."""
    dictionary = texts()
    table = hr.table("t", data=pa.table({"id": ["old"], "i": [1]}), unknown="insert", max_rows=4)
    made = TableMemory([table], dictionary)
    ids = dictionary.encode(pa.array(["old", "new", "rest"]))
    dictionary.touch(ids, np.array([5, 5, 5]))
    with np.errstate(over="ignore"):
        index_kernel.insert_text(made.index[0], made.keys[0], dictionary.held, np.int64(ids[1]))
    assert dictionary.recycle(9) == 1, "strings that are let go"
    Written(made).appear(0, "new")
    assert made.content(table).to_pylist() == [{"id": "new", "i": 0}, {"id": "old", "i": 1}]
    assert not made.has_texts


def check_total(numbers):
    keys = range(len(numbers))
    table = hr.table("t", data=pa.table({"id": range(len(numbers)), "i": numbers}, COUNTED), conserve="i")
    made = TableMemory([table])
    for key in keys[:2]:
        Written(made).write(0, key, "i", 2**63 - 1)
    total = made.totals()["t"]
    assert (total.column, total.first) == ("i", sum(numbers)), "another sum"
    assert total.now == sum(numbers[2:]) + len(keys[:2]) * (2**63 - 1)


def test_oracle_sums_are_exact():
    rng = random.Random(1)
    for count in (0, 1, 2, 100):
        check_total([rng.choice([2**63 - 1, -(2**63), rng.randrange(-9, 9)]) for _ in range(count)])
    only = hr.table("u", columns={"i": "int64"}, rows=2, first={"i": 3}, unknown="insert", conserve="i")
    made = TableMemory([only, hr.table("v", columns={"i": "int64"}, rows=2)])
    Written(made).slot(0, 77)
    assert made.totals() == {"u": memory.Total("i", 6, 6)}


def test_example_plain_python_reads_and_writes_what_it_is_given():
    accounts = hr.table("accounts", columns={"balance": hr.column("int64", least=0), "seen": hr.set_of("int64")}, rows=3)
    other = hr.table("other", columns={"x": "float64"}, rows=3, unknown="error")
    grows = hr.table("grows", columns={"x": "float64"}, rows=0, unknown="insert")
    rows = {1: {"balance": 5, "seen": {1}}}
    with reading({accounts: rows, other: {}, grows: (put := {})}):
        accounts[1].balance -= 5
        accounts[1].seen.add(2)
        for key in (2, None):
            with pytest.raises(reference.Rejected):
                accounts[key]
        with pytest.raises(reference.Rejected):
            accounts[1].balance -= 1
        with pytest.raises(KeyError, match="other has no key 5"):
            other[5]
        with pytest.raises(AttributeError, match="accounts has no column 'balanse' that can be written"):
            accounts[1].balanse = 3
        with pytest.raises(OverflowError):
            accounts[1].balance = 2**63
        grows[4].x = 1.5
    assert rows == {1: {"balance": 0, "seen": {1, 2}}} and put == {4: {"x": 1.5}}
    with pytest.raises(NotSupportedError, match=r"accounts\[1\]: a table is read and written by functions of .transact"):
        accounts[1]
    with pytest.raises(NotSupportedError, match="cannot be looped over"):
        list(accounts)


@pytest.mark.spark
def test_example_from_spark_and_to_spark(spark):
    frame = spark.createDataFrame([("b", 2, 0.5, "é"), ("a", 1, 1.5, "")], "name string, n int, x double, word string")
    table = hr.table("t", data=frame, key="name")
    there = TableMemory([table], texts()).at(None)["t"].to_spark(spark)
    assert [tuple(row) for row in there.collect()] == [("a", 1, 1.5, ""), ("b", 2, 0.5, "é")]
    with pytest.raises(ParameterError, match="data= is a stream, which has no end"):
        hr.table("t", data=spark.readStream.format("rate").load(), key="value")


# -- what cannot be meant

COLUMNS = {"columns": {"i": "int64"}}
FRAME = pa.table({"id": [1, 2, 1], "i": [1, 2, 3]})


def of(**columns):
    return {"data": pa.table({"id": [5, 6], **columns})}


BAD = [
    ({}, ParameterError, "table 't': give rows=, the number of rows, or data=, a table of them; neither is given"),
    ({"rows": 1, "data": FRAME}, ParameterError, "both are given"),
    ({"rows": 1}, ParameterError, 'give columns=, a dict of names and kinds, as in {"balance": "int64"}'),
    ({"rows": -1, **COLUMNS}, ParameterError, "rows=-1: give a number of rows from 0 to 2,147,483,647"),
    ({"rows": 2**31, **COLUMNS}, ParameterError, "rows=2147483648: give a number of rows from 0"),
    ({"rows": 1.5, **COLUMNS}, ParameterError, "rows=1.5: give a whole number"),
    ({"rows": True, **COLUMNS}, ParameterError, "rows=True: give a whole number"),
    ({"name": "my table", "rows": 1, **COLUMNS}, ParameterError, "name='my table' is not a Python name"),
    ({"name": "class", "rows": 1, **COLUMNS}, ParameterError, "name='class' is not a Python name"),
    ({"key": "", "rows": 1, **COLUMNS}, ParameterError, "key='': give the name of the key's column"),
    ({"rows": 1, "columns": {"a b": "int64"}}, ParameterError, "column 'a b' is not a Python name"),
    ({"rows": 1, "columns": {"id": "int64"}}, ParameterError, "column 'id' is the key"),
    ({"rows": 1, "columns": ["i"]}, ParameterError, "columns=['i']: give a dict"),
    ({"rows": 1, "columns": {"\N{MICRO SIGN}": "int64", "\N{GREEK SMALL LETTER MU}": "int64"}}, ParameterError, "rename one"),
    ({"rows": 1, "columns": {"i": "int16"}}, ParameterError, "columns: i: 'int16' is not a kind; the kinds are int64, int32"),
    ({"rows": 1, "columns": {"i": "string"}, "first": {"i": 3}}, ParameterError, "first: i=3: give a string, as the kind is"),
    ({"rows": 1, **COLUMNS, "first": {"i": "a"}}, ParameterError, "first: i='a': give a whole number"),
    ({"rows": 1, "columns": {"i": "timestamp[us]"}}, ParameterError, "use int64, in its unit"),
    ({"rows": 1, "columns": {"i": hr.record(n="int64")}}, ParameterError, "record(n='int64') is not a kind; the kinds are int64"),
    ({"rows": 1, "columns": {"i": 5}}, ParameterError, "columns: i: 5 is not a kind; the kinds are int64"),
    ({"rows": 1, "columns": {"i": float}}, ParameterError, "'float'> is not a kind; did you mean 'float64'?"),
    ({"rows": 1, "first": {"j": 1}, **COLUMNS}, ParameterError, "first: there is no column 'j'; the columns are 'i'"),
    ({"rows": 1, "first": {"i": 1.0}, **COLUMNS}, ParameterError, "first: i=1.0: give a whole number, as the kind is int64"),
    ({"rows": 1, "first": {"i": True}, **COLUMNS}, ParameterError, "first: i=True: give a whole number"),
    ({"rows": 1, "first": {"i": 2**63}, **COLUMNS}, ParameterError, "fit in int64; give a number from -9223372036854775808"),
    ({"rows": 1, "first": 5, **COLUMNS}, ParameterError, "first=5: give a dict"),
    ({"rows": 1, "columns": {"x": "float32"}, "first": {"x": 1e39}}, ParameterError, "x=1e+39: it does not fit in float32; give"),
    ({"rows": 1, "columns": {"b": "bool"}, "first": {"b": 1}}, ParameterError, "first: b=1: give True or False"),
    ({"rows": 1, "columns": {"s": hr.set_of("int64")}, "first": {"s": {1}}}, ParameterError, "is empty at first; leave it out"),
    ({"rows": 1, "conserve": "j", **COLUMNS}, ParameterError, "conserve='j': there is no such column; the columns are 'i'"),
    ({"rows": 1, "conserve": "x", "columns": {"x": "float64"}}, ParameterError, "conserve='x' is of kind 'float64': only"),
    ({"rows": 1, "unknown": "add", **COLUMNS}, ParameterError, "unknown='add': the policies are 'reject', 'error', 'insert'"),
    ({"rows": 1, "max_rows": 5, **COLUMNS}, ParameterError, "max_rows=5 goes with unknown='insert'"),
    ({"rows": 9, "max_rows": 5, "unknown": "insert", **COLUMNS}, ParameterError, "max_rows=5: give a number of rows from 9 to"),
    ({"rows": 1, "columns": {"i": hr.column("int64", least=1)}}, ParameterError, "column 'i' is 0 at first, below least=1"),
    ({"row": 1, **COLUMNS}, ArgumentError, "did you mean rows=?"),
    ({"data": FRAME, "key": "Id"}, SchemaError, "the data has no column 'Id': key= names the column of keys; did you mean 'id'?"),
    ({"data": pd.DataFrame({"i": [1]}).rename_axis("id")}, SchemaError, "it is the frame's index, which is not read"),
    ({"data": FRAME}, SchemaError, "key column 'id' has 1 twice, at rows 0 and 2: a table has one row per key"),
    ({"data": pa.table({"id": ["b", "a", "b", "b"]})}, SchemaError, "has 'b' twice, at rows 0 and 2 (2 such pairs)"),
    ({"data": pa.table({"id": [1, None]})}, KeyNullError, "key column 'id' is null at row 1: fill it or filter it out"),
    ({"data": pa.table({"id": ["a", None]})}, KeyNullError, "key column 'id' is null at row 1"),
    ({"data": pa.table({"id": [0.5]})}, UnsupportedTypeError, "key column 'id' has type double, not int64 or string: cast it"),
    ({"data": pa.table({"id": [True]})}, UnsupportedTypeError, "key column 'id' has type bool, not int64 or string"),
    ({"data": pa.table({"id": pa.array([2**63], pa.uint64())})}, InputError, "9223372036854775808 is above the range of int64"),
    (of(i=[1, None]), SchemaError, "column 'i' is null at row 1: a table has no nulls; fill it"),
    (of(i=pa.array([1, 2], pa.int16())), UnsupportedTypeError, "column 'i' has type int16; a table has int64, int32"),
    (of(i=["a", None]), SchemaError, """column 'i' is null at row 1: a table has no nulls; fill it, with "" say"""),
    (of(i=["a", "b"]) | {"columns": COLUMNS["columns"]}, UnsupportedTypeError, "column 'i' has type string, not int64: cast it"),
    (of(i=[1, 2]) | {"columns": {"i": "string"}}, UnsupportedTypeError, "column 'i' has type int64, not string: cast it"),
    (of(i=[b"a", b"b"]), UnsupportedTypeError, "column 'i' has type binary; a table has"),
    (of(i=[[1], [2]]), UnsupportedTypeError, "lists, sets and maps are empty at first"),
    (of(i=pa.array([1, 2], pa.timestamp("us"))), UnsupportedTypeError, "has type timestamp[us]; a table has"),
    (of(**{"a b": [1, 2]}), ParameterError, "column 'a b' is not a Python name"),
    (of(i=[1, 2]) | {"first": {"i": 3}}, ParameterError, "first: 'i' is a column of the data"),
    (of(i=[1, 2]) | {"columns": {"j": "int64"}}, SchemaError, "the data has no column 'j': give first={'j': ...}"),
    (of(i=[[1], [2]]) | {"columns": {"i": hr.list_of("int64")}}, SchemaError, "lists cannot be read from data yet"),
    (of(i=[1, 2**31]) | {"columns": {"i": "int32"}}, SchemaError, "column 'i', row 1: 2147483648 does not fit in int32"),
    (of(i=[1, 2**53 + 1]) | {"columns": {"i": "float64"}}, SchemaError, "row 1: 9007199254740993 does not fit in float64"),
    (of(i=[1, 2**63 - 1]) | {"columns": {"i": "float64"}}, SchemaError, "row 1: 9223372036854775807 does not fit in float64"),
    (of(i=[0.5, 0.1]) | {"columns": {"i": "float32"}}, SchemaError, "row 1: 0.1 does not fit in float32"),
    (of(i=[0.5, 1.0]) | {"columns": {"i": "int64"}}, SchemaError, "column 'i' has type double, not int64: cast it"),
    (of(i=[1, 2]) | {"columns": {"i": "bool"}}, SchemaError, "column 'i' has type int64, not bool"),
    (of(i=[1, -2]) | {"columns": {"i": hr.column("int64", least=0)}}, ParameterError, "column 'i' is -2 at key 6 at first"),
    ({"data": 5}, InputError, "give a Parquet path, an Arrow table"),
    ({"data": "nowhere.parquet"}, InputError, "input 'nowhere.parquet': there is no such file; check the path"),
]  # fmt: skip


@pytest.mark.parametrize("bad, kind, text", BAD, ids=[text[:40] for _, _, text in BAD])
def test_example_what_cannot_be_meant(bad, kind, text):
    with pytest.raises(kind, match=re.escape(text)) as caught:
        hr.table(**({"name": "t"} | bad))
    assert "\n" not in str(caught.value)


def test_example_constraints_that_cannot_be_meant():
    for kind, least, text in [
        ("int64", 0.5, "column: least=0.5: give a whole number"),
        ("int32", 2**31, "column: least=2147483648: it does not fit in int32"),
        ("bool", True, "column: least=True of 'bool': only columns of numbers"),
        (hr.set_of("int64"), 0, "only columns of numbers have a least value; leave least= out"),
        ("string", "a", "column: least='a' of 'string': only columns of numbers"),
        ("number", 0, "column: 'number' is not a kind"),
    ]:
        with pytest.raises(ParameterError, match=re.escape(text)):
            hr.column(kind, least=least)
    one, other = (hr.table("t", columns={"i": "int64"}, rows=1) for _ in range(2))
    with pytest.raises(ParameterError, match="two tables of one query are called 't'"):
        TableMemory([one, other])


# -- planted mistakes


def check_gap():
    """Keys with a gap, so that a slot is no distance."""
    table = hr.table("t", data=pa.table({"id": [1, 2, 9], "i": [1, 2, 9]}))
    made = TableMemory([table])
    slots = [Written(made).slot(0, key) for key in (9, 1, 2, 3)]
    assert slots == [2, 0, 1, index_kernel.ABSENT], "other slots"
    assert [made.row(0, slot)["i"] for slot in slots[:3]] == [9, 1, 2]


def check_twice():
    with pytest.raises(SchemaError, match="'b' twice"):
        hr.table("t", data=pa.table({"id": ["b", "a", "b"]}))


def check_strings_of_data():
    table = hr.table("t", data=pa.table({"id": [1, 0], "s": ["b", "a"]}), columns={"s": "string", "u": "string"}, first={"u": ""})
    found = TableMemory([table], texts()).content(table).to_pydict()
    assert found == {"id": [0, 1], "s": ["a", "b"], "u": ["", ""]}, "strings of data"
    insert = hr.table("t", columns={"s": "string"}, rows=0, unknown="insert", max_rows=2)
    made = TableMemory([insert], texts())
    made.encode(pa.array(["first"]))
    Written(made).appear(0, 5)
    assert made.content(insert).to_pydict() == {"id": [5], "s": [""]}, "no string"


def check_run():
    check_written(*random_run(1, 150))


def check_floats():
    table = hr.table("t", columns={"f": hr.set_of("float64")}, rows=1)
    made = TableMemory([table])
    for value in (math.nan, -1.5, 0.5, -math.inf, -0.5):
        Written(made).add(0, 0, "f", bits(value))
    assert made.content(table)["f"].to_pylist()[0][:-1] == [-math.inf, -1.5, -0.5, 0.5], "other entries"


OTHER_ROWS = "AssertionError: other rows"
MISTAKES = {
    "a sum in 64 bits": (content, "(int((numbers >> 32).sum()) << 32) + int((numbers & _LOW_BITS).sum())", "int(numbers.sum())",
                         lambda: check_total([2**63 - 1] * 3), "AssertionError: another sum"),
    "entries in no order": (content, "entries[np.lexsort((ranks, owners))]", "entries", check_run, OTHER_ROWS),
    "entries by the bits of floats": (content, "ranks = ranks.view(np.float64)", "ranks = ranks", check_floats,
                                      "AssertionError: other entries"),
    "strings by their ids": (content, "ranks = order[back]", "ranks = ranks", check_run, OTHER_ROWS),
    "a gap taken for none": (layout, "== table.rows.count - 1", ">= table.rows.count - 1", check_gap,
                             "AssertionError: other slots"),
    "a key's string let go": (index_kernel, "store_relaxed(held, key, UNTOUCHED)", "pass", check_strings_stay,
                              "AssertionError: strings that are let go"),
    "strings of data in its order": (table_data, "strings if order is None else strings.take(pa.array(order))", "strings",
                                     check_strings_of_data, "AssertionError: strings of data"),
    "zeros for no string": (memory, 'self.texts.keep([""])[0]', 'self.texts.keep(["x"])[0]', check_strings_of_data,
                            "AssertionError: no string"),
    "strings as they come": (table_data, "strings = strings.take(pa.array(order))", "strings = strings", check_twice,
                             "Failed: DID NOT RAISE"),
}  # fmt: skip


def test_example_what_planted_mistakes_break():
    check_gap()
    check_twice()
    check_strings_of_data()
    check_floats()


@pytest.mark.interpreted
@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_are_found(mistake):
    module, text, wrong, check, expected = MISTAKES[mistake]
    with planted(module, text, wrong), fails(expected):
        check()
