"""The first rows of a table, read from data and checked, in key order."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.arguments import is_number, is_whole_number
from headrace.codegen.kinds import NUMBERS, SCALAR_NAMES, Kind
from headrace.codegen.text import attributes, is_attribute
from headrace.errors import KeyNullError, ParameterError, SchemaError, UnsupportedTypeError
from headrace.expressions.rows import plain
from headrace.ingress import columns
from headrace.ingress.columns import is_text, plain_type
from headrace.ingress.readers import open_input
from headrace.names import instead

_RANGES = {"int64": range(-(2**63), 2**63), "int32": range(-(2**31), 2**31)}


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in key order.

    Attributes
    ----------
    count : int
    keys : int64[count], strings, or None
        None: 0, 1, 2 and so on.
    words : mapping of str to int64[count], strings, int or str
        Column -> its values as words (a float as the bits of a float64), or one word for all rows; a column that
        is left out is zero. Strings stay strings, as each run assigns its own ids.
    """

    count: int
    keys: np.ndarray | pa.Array | None
    words: Mapping[str, np.ndarray | pa.Array | int | str]


def word_of(label: str, kind: str, value: Any) -> int | str:
    """Return one value as a word, but a string as it is; raise `ParameterError` if it is not of the kind.

    Examples
    --------
    >>> word_of("first", "int64", -1), hex(word_of("first", "float64", 1))
    (-1, '0x3ff0000000000000')
    """
    if kind == "string":
        if not isinstance(value, str):
            raise ParameterError(f"{label}={value!r}: give a string, as the kind is string")
        return str(value)
    if kind in _RANGES:
        if not is_whole_number(value):
            raise ParameterError(f"{label}={value!r}: give a whole number, as the kind is {kind}")
        if int(value) not in _RANGES[kind]:
            held = _RANGES[kind]
            raise ParameterError(f"{label}={value}: it does not fit in {kind}; give a number from {held[0]} to {held[-1]}")
        return int(value)
    if kind == "bool":
        if not isinstance(value, bool | np.bool_):
            raise ParameterError(f"{label}={value!r}: give True or False, as the kind is bool")
        return int(value)
    if not is_number(value):
        raise ParameterError(f"{label}={value!r}: give a number, as the kind is {kind}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if kind == "float32":
        with np.errstate(over="ignore"):
            number = float(np.float32(number))
    if math.isinf(number) and not (isinstance(value, float | np.floating) and math.isinf(value)):
        fix = "give a smaller number" + (", or make the column float64" if kind == "float32" else "")
        raise ParameterError(f"{label}={value}: it does not fit in {kind}; {fix}")
    return struct.unpack("<q", struct.pack("<d", number))[0]


def value_of(kind: str, words: np.ndarray) -> np.ndarray:
    """Return words as the values that they stand for: int64, float64 or bool."""
    if kind.startswith("float"):
        return np.ascontiguousarray(words).view(np.float64)
    return words != 0 if kind == "bool" else words


def check_name(where: str, name: Any) -> None:
    """Raise `ParameterError` for a name that a function could not write, as in ``row.name``."""
    if not isinstance(name, str) or not is_attribute(name):
        raise ParameterError(f"{where}: column {name!r} is not a Python name: a function cannot use it; rename it")


def check_least(where: str, rows: Rows, kinds: Mapping[str, Any], least: Mapping[str, int | float]) -> None:
    """Raise `ParameterError` if the first value of a row is below a constraint."""
    for name, bound in least.items():
        words = rows.words.get(name, 0)
        values = value_of(kinds[name], words if isinstance(words, np.ndarray) else np.array([words][: rows.count], np.int64))
        below = np.flatnonzero(values < bound)
        if below.size:
            at = int(below[0])
            one = f"at key {key_at(rows, at)!r} " if isinstance(words, np.ndarray) else ""
            raise ParameterError(
                f"{where}: column {name!r} is {values[at]} {one}at first, below least={bound}: give first={{{name!r}: ...}},"
                f" correct the data, or choose another least="
            )


def key_at(rows: Rows, at: int) -> Any:
    """Return the key of a row."""
    if rows.keys is None:
        return at
    return rows.keys[at].as_py() if isinstance(rows.keys, pa.Array) else int(rows.keys[at])


def read(
    where: str,
    data: Any,
    key: str,
    kinds: Mapping[str, Kind] | None,
    first: Callable[[Mapping[str, Kind]], Iterable[tuple[str, str, Any]]],
) -> tuple[Rows, Mapping[str, Kind]]:
    """Read all rows.

    Parameters
    ----------
    where : str
        Name of the table, for error texts.
    data : whatever `open_input` reads
    key : str
    kinds : mapping, optional
        Kinds of the columns to read; by default those of the data.
    first : callable
        Takes the kinds, and returns (name, kind, value) for the first values of columns that the user gives.

    Returns
    -------
    rows, kinds
    """
    if getattr(data, "isStreaming", False) or hasattr(data, "open_reader"):
        raise ParameterError(f"{where}: data= is a stream, which has no end: give a table, and stream what changes it")
    is_path = isinstance(data, (str, os.PathLike))
    reader = open_input(data, name=os.fspath(data) if is_path else f"data of {where}")
    schema = reader.schema
    if key not in schema.names:
        there = instead(key, schema.names, "the columns")
        if key in getattr(getattr(data, "index", None), "names", ()):
            there = "it is the frame's index, which is not read: give frame.reset_index()"
        raise SchemaError(f"{where}: the data has no column {key!r}: key= names the column of keys; {there}")
    named = _named(where, schema, key, kinds)
    if kinds is None:
        kinds = {name: _kind_of(where, column, schema.field(column).type) for name, column in named.items()}
    given = {name: word_of(f"{where}: first: {name}", kind, value) for name, kind, value in first(kinds)}
    for name, kind in kinds.items():
        if name in named and name in given:
            raise ParameterError(
                f"{where}: first: {name!r} is a column of the data, which says what it is at first; leave it out"
            )
        if name not in named and name not in given and isinstance(kind, str):
            raise SchemaError(
                f"{where}: the data has no column {name!r}: give first={{{name!r}: ...}} if it is to be computed;"
                f" {instead(name, schema.names, 'the columns')}"
            )
        if name in named and not isinstance(kind, str):
            raise SchemaError(
                f"{where}: column {name!r} of the data: {kind!r} is empty at first; lists cannot be read from data yet, leave"
                f" the column out of the data or name it otherwise"
            )
    wanted = reader.select([key, *named.values()])
    table = pa.Table.from_batches(list(wanted.rows_alone("a table has no event time, leave it out")), wanted.schema)
    keys, order = _keys(where, key, columns.combine(table[key]))
    words: dict[str, np.ndarray | pa.Array | int | str] = dict(given)
    for name, column in named.items():
        array = columns.combine(table[column])
        if kinds[name] == "string":
            strings = _strings(where, column, array)
            words[name] = strings if order is None else strings.take(pa.array(order))
            continue
        found = _words(where, column, str(kinds[name]), array)
        words[name] = found = found[order] if order is not None else found.copy()
        found.flags.writeable = False
    return Rows(table.num_rows, keys, words), kinds


def _named(where: str, schema: pa.Schema, key: str, kinds: Mapping[str, Kind] | None) -> dict[str, str]:
    """Name of a column in functions -> its name in the data."""
    if schema.names.count(key) > 1:
        raise SchemaError(f"{where}: several columns of the data are called {key!r}; rename the others")
    others = [name for name in schema.names if name != key]
    if kinds is None:
        for name in others:
            check_name(where, name)
        return attributes(others)
    return {name: column for name, column in attributes(others).items() if name in kinds}


def _kind_of(where: str, column: str, kind: pa.DataType) -> str:
    for name, known in NUMBERS.items():
        if known.arrow.equals(kind):
            return name
    plain_kind = plain_type(kind)
    if is_text(plain_kind):
        return "string"
    if columns.is_list(kind) or pa.types.is_map(kind):
        fix = "leave it out; lists, sets and maps are empty at first, and begin by columns={...: hr.list_of(...)}"
    elif columns.is_whole(plain_kind):
        fix = "cast it to int64"
    elif pa.types.is_floating(plain_kind):
        fix = "cast it to float64"
    else:
        fix = columns.cast_hint(kind)
    raise UnsupportedTypeError(f"{where}: column {column!r} has type {kind}; a table has {', '.join(SCALAR_NAMES)}: {fix}")


def _keys(where: str, name: str, array: pa.Array) -> tuple[np.ndarray | pa.Array | None, np.ndarray | None]:
    """The keys in order, None if they are 0, 1, 2 and so on; and the permutation that sorts the rows, None if sorted."""
    kind = plain_type(array.type)
    is_string = is_text(kind)
    if not is_string and not pa.types.is_integer(kind):
        fix = "cast it to int64" if columns.is_whole(kind) or pa.types.is_floating(kind) else "cast it to int64 or string"
        raise UnsupportedTypeError(f"{where}: key column {name!r} has type {array.type}, not int64 or string: {fix}")
    array = plain(array)
    if array.null_count:
        row = columns.first_null(array)
        raise KeyNullError(f"{where}: key column {name!r} is null at row ", row, ": fill it or filter it out")
    if not is_string:
        keys = columns.integers(array, name, fix="use a string key")
        order = None if (keys[1:] >= keys[:-1]).all() else np.argsort(keys, kind="stable")
        keys = keys.copy() if order is None else keys[order]
        _check_different(where, name, keys[1:] == keys[:-1], order, lambda at: int(keys[at]))
        keys.flags.writeable = False
        is_counted = keys.size == 0 or (keys[0] == 0 and keys[-1] == keys.size - 1)
        return None if is_counted else keys, order
    strings = array.cast(pa.large_string())
    order = pc.sort_indices(strings).to_numpy()  # by bytes, which is by code point; stable
    strings = strings.take(pa.array(order))
    same = pc.equal(strings[1:], strings[:-1]).to_numpy(zero_copy_only=False) if len(strings) > 1 else np.zeros(0, bool)
    _check_different(where, name, same, order, lambda at: strings[at].as_py())
    return strings, order


def _check_different(
    where: str, name: str, same: np.ndarray, order: np.ndarray | None, key_of: Callable[[int], Any]
) -> None:
    if not same.any():
        return
    at = int(np.argmax(same))
    rows = (at, at + 1) if order is None else (int(order[at]), int(order[at + 1]))
    raise SchemaError(
        f"{where}: key column {name!r} has {key_of(at)!r} twice, at rows {rows[0]} and {rows[1]}"
        f"{f' ({int(same.sum()):,} such pairs)' if same.sum() > 1 else ''}: a table has one row per key; drop or merge the others"
    )


def _check_whole(where: str, name: str, array: pa.Array, instead_of_null: str) -> None:
    if array.null_count:
        row = columns.first_null(array)
        raise SchemaError(f"{where}: column {name!r} is null at row ", row, f": a table has no nulls; fill it, {instead_of_null}")


def _strings(where: str, name: str, array: pa.Array) -> pa.Array:
    """A column of the data as strings; an error if a value is null or no string."""
    array = plain(array)
    if not is_text(array.type):
        fix = "cast it, or change its kind in columns="
        raise UnsupportedTypeError(f"{where}: column {name!r} has type {array.type}, not string: {fix}")
    _check_whole(where, name, array, 'with "" say')
    return array.cast(pa.large_string())


def _words(where: str, name: str, kind: str, array: pa.Array) -> np.ndarray:
    """A column of the data as words of a kind; `SchemaError` if a value is null or would be changed."""
    array = plain(array)
    if not columns.is_number(array.type) or pa.types.is_temporal(array.type):
        raise UnsupportedTypeError(f"{where}: column {name!r} has type {array.type}, not {kind}: {columns.cast_hint(array.type)}")
    _check_whole(where, name, array, "with 0 say")
    if pa.types.is_boolean(array.type) != (kind == "bool") or (pa.types.is_floating(array.type) and kind in _RANGES):
        raise SchemaError(f"{where}: column {name!r} has type {array.type}, not {kind}: cast it, or change its kind in columns=")
    values = columns.values(array, name)
    if kind == "int32":
        changed = values != values.astype(np.int32)
    elif kind.startswith("float"):
        # In float64 the largest int64 values are 2**63, which would convert back to the least one.
        with np.errstate(over="ignore", invalid="ignore"):
            numbers = values.astype(np.float64)
            narrow = numbers.astype(kind).astype(np.float64)
            back = narrow if values.dtype.kind == "f" else narrow.astype(np.int64)
        changed = (back != values) & ~((back != back) & (values != values)) | ((narrow == 2.0**63) & (values.dtype.kind != "f"))
        values = narrow.view(np.int64)
    else:
        changed = np.zeros(values.size, bool)
    if changed.any():
        row = int(np.argmax(changed))
        found = array[row].as_py()
        raise SchemaError(f"{where}: column {name!r}, row ", row, f": {found!r} does not fit in {kind}; take a wider kind")
    return values.astype(np.int64)
