"""Tables for transaction functions: with numbers, with containers, with keys inserted on use, with strings."""

import pyarrow as pa

import headrace as hr

A = hr.table("A", columns={"b": "int64", "c": "int64"}, rows=10, first={"b": 5})
B = hr.table(
    "B", columns={"n": hr.column("int64", least=0), "v": hr.set_of("int64"), "l": hr.list_of("int64")}, rows=10, first={"n": 3}
)
I = hr.table("I", columns={"b": "int64"}, rows=2, unknown="insert", max_rows=100)
S = hr.table("S", data=pa.table({"key": ["a", "b"], "w": [1, 2]}), key="key")
LIMIT, NAME = 3, "a"
