"""Kinds of values that a user function may keep: numbers, strings, lists, sets, maps, arrays, records.

A scalar kind is a name, such as ``"int64"`` or ``"string"``. A container names the kinds of its contents:

>>> list_of("string"), map_of("string", "int64")
(list_of('string'), map_of('string', 'int64'))

Containers hold scalars. Maps may also hold arrays and records, whose size is fixed; anything deeper is refused, because
an element of a container is a fixed number of words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from headrace.arguments import is_whole_number
from headrace.errors import ParameterError
from headrace.memory.arena import HEAD


@dataclass(frozen=True)
class Scalar:
    """One kind of single value.

    Parameters
    ----------
    dtype : str
        Type of the arrays in which kernels keep such values.
    arrow : pa.DataType
        Type of a column of them.
    zero : int, float, bool or str
        Default first value of a field of a state.
    in_functions : str
        The type that a function sees: a kind of number, or "string".
    """

    dtype: str
    arrow: pa.DataType
    zero: int | float | bool | str
    in_functions: str


NUMBERS: dict[str, Scalar] = {
    "int64": Scalar("int64", pa.int64(), 0, "int64"),
    "int32": Scalar("int32", pa.int32(), 0, "int32"),
    "float64": Scalar("float64", pa.float64(), 0.0, "float64"),
    "float32": Scalar("float32", pa.float32(), 0.0, "float32"),
    "bool": Scalar("uint8", pa.bool_(), False, "bool"),
}
STRING = Scalar("int64", pa.string(), "", "string")
SCALAR_NAMES = (*NUMBERS, "string")
_TIMES_TEXT = "timestamp[us] and duration[us], or in s, ms, ns"
SCALARS_TEXT = f"{', '.join(SCALAR_NAMES)}, {_TIMES_TEXT}"
"""All kinds without containers, for errors."""
_TIME = re.compile(r"(timestamp|duration)\[(s|ms|us|ns)(?:, tz=([\w/+:-]+))?\]$")


def scalar(kind: object) -> Scalar | None:
    """Return the description of a scalar kind; None if there is no such kind.

    Beside `SCALAR_NAMES` there are timestamps and durations, by their Arrow names: integers of their unit in functions.

    Examples
    --------
    >>> scalar("timestamp[us]").arrow, scalar("timestamp[us]").in_functions
    (TimestampType(timestamp[us]), 'int64')
    """
    if not isinstance(kind, str):
        return None
    if kind in NUMBERS:
        return NUMBERS[kind]
    if kind == "string":
        return STRING
    time = _TIME.match(kind)
    if time is None or (time[1] == "duration" and time[3]):
        return None
    arrow = pa.duration(time[2]) if time[1] == "duration" else pa.timestamp(time[2], time[3])
    return Scalar("int64", arrow, 0, "int64")


@dataclass(frozen=True, repr=False)
class Array:
    """A fixed number of values, zeros at first; see `array`."""

    kind: str
    size: int

    def __repr__(self) -> str:
        return f"array({self.kind!r}, {self.size})"

    @property
    def width(self) -> int:
        """Words that it takes within a map."""
        return self.size

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(arrow_of(self.kind))


@dataclass(frozen=True, repr=False)
class Record:
    """Named fields; see `record`."""

    fields: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"record({', '.join(f'{name}={kind!r}' for name, kind in self.fields)})"

    @cached_property
    def width(self) -> int:
        """Words that it takes within a map."""
        return len(self.fields)

    @property
    def arrow(self) -> pa.DataType:
        return pa.struct([pa.field(name, arrow_of(kind)) for name, kind in self.fields])


def is_exact(kind: Kind) -> bool:
    """Whether a value has a fixed size, and sums of such values do not depend on their order.

    Examples
    --------
    >>> is_exact("int64"), is_exact(array("bool", 3)), is_exact("float64"), is_exact(list_of("int64"))
    (True, True, False, False)
    """
    if isinstance(kind, Record):
        return all(is_exact(one) for _, one in kind.fields)
    if isinstance(kind, Array):
        return is_exact(kind.kind)
    return isinstance(kind, str) and not kind.startswith("float")


@dataclass(frozen=True, repr=False)
class ListOf:
    """A growing list; see `list_of`."""

    kind: str

    def __repr__(self) -> str:
        return f"list_of({self.kind!r})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(arrow_of(self.kind))


@dataclass(frozen=True, repr=False)
class SetOf:
    """A set; see `set_of`."""

    kind: str

    def __repr__(self) -> str:
        return f"set_of({self.kind!r})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(arrow_of(self.kind))


@dataclass(frozen=True, repr=False)
class MapOf:
    """A map; see `map_of`."""

    key: str
    value: str | Array | Record
    by: str | None = None

    def __repr__(self) -> str:
        by = "" if self.by is None else f", by={self.by!r}"
        return f"map_of({self.key!r}, {self.value!r}{by})"

    @property
    def width(self) -> int:
        """Words that a value takes."""
        return 1 if isinstance(self.value, str) else self.value.width

    @property
    def arrow(self) -> pa.DataType:
        return pa.map_(arrow_of(self.key), arrow_of(self.value))


Container = Array | ListOf | SetOf | MapOf
Kind = str | Container | Record


def arrow_of(kind: Kind) -> pa.DataType:
    """Return the type of a result column of this kind."""
    if not isinstance(kind, str):
        return kind.arrow
    known = scalar(kind)
    assert known is not None
    return known.arrow


def cells_of(kind: Kind) -> int:
    """Return how many words a field of a state takes: one, those of a container's head, or those of an array."""
    if isinstance(kind, Array):
        return kind.size
    return 1 if isinstance(kind, str) else HEAD


def width_of(kind: Kind) -> int:
    """Return how many words an element of a container takes, in a set or map beside its key."""
    if isinstance(kind, MapOf):
        return kind.width
    return 0 if isinstance(kind, SetOf) else 1


def array(kind: str, size: int) -> Array:
    """Declare an array of a fixed size, zeros at first, as a field of a state or as the values of a map.

    Parameters
    ----------
    kind : str
        Kind of its elements: "int64", "int32", "float64", "float32", "bool" or "string".
    size : int
        From 1 to 65,536.

    Raises
    ------
    ParameterError
        It is another kind or size.

    Examples
    --------
    >>> array("float64", 24)
    array('float64', 24)
    """
    if not is_whole_number(size) or not 1 <= size <= 1 << 16:
        raise ParameterError(f"array: size={size!r}: give a whole number from 1 to 65,536, or use list_of")
    return Array(_scalar("array", "kind", kind), int(size))


def record(**fields: str) -> Record:
    """Declare a record of a few named values, zeros at first, as the values of a map.

    Parameters
    ----------
    **fields : str
        Name -> scalar kind.

    Raises
    ------
    ParameterError
        There is no field, or a kind is not scalar.

    Examples
    --------
    >>> map_of("string", record(count="int64", total="float64"))
    map_of('string', record(count='int64', total='float64'))
    """
    if not fields:
        raise ParameterError('record(): give at least one field, as in record(count="int64")')
    return Record(tuple((name, _scalar("record", name, kind)) for name, kind in fields.items()))


def list_of(kind: str) -> ListOf:
    """Declare a growing list as a field of a state, empty at first.

    Parameters
    ----------
    kind : str
        Kind of its elements: a scalar kind, such as "int64" or "string".

    Raises
    ------
    ParameterError
        It is another kind.

    Examples
    --------
    >>> list_of("string")
    list_of('string')
    """
    return ListOf(_scalar("list_of", "kind", kind))


def set_of(kind: str) -> SetOf:
    """Declare a set as a field of a state, empty at first; a loop over it follows the order of its elements.

    Parameters
    ----------
    kind : str
        Kind of its elements: a scalar kind, such as "int64" or "string".

    Raises
    ------
    ParameterError
        It is another kind.

    Examples
    --------
    >>> set_of("int64")
    set_of('int64')
    """
    return SetOf(_scalar("set_of", "kind", kind))


def map_of(key: str, value: str | Array | Record, by: str | None = None) -> MapOf:
    """Declare a map as a field of a state, empty at first; a loop over it follows the order of its keys.

    Parameters
    ----------
    key : str
        Kind of its keys: a scalar kind, such as "int64" or "string".
    value : str, Array or Record
        Kind of its values. With a scalar kind a missing key raises KeyError, as in a dict; an array or a record
        of zeros is created when ``state.m[key]`` first reads it, as in a defaultdict.
    by : str, optional
        In a program (`hr.program`): the key column of its tags. An event of such a tag needs only the entry of
        its own key, so that entries are handed over one by one, and those of other keys stay where they are.

    Raises
    ------
    ParameterError
        It is another kind, or `by` is no name.

    Examples
    --------
    >>> map_of("string", "int64")
    map_of('string', 'int64')
    """
    key = _scalar("map_of", "key", key)
    if not isinstance(value, Array | Record):
        value = _scalar("map_of", "value", value)
    if by is not None and (not isinstance(by, str) or not by.isidentifier()):
        raise ParameterError(f"map_of: by={by!r}: give the name of a column, the key of a program's tags")
    return MapOf(key, value, by)


def _scalar(maker: str, label: str, kind: Any) -> str:
    if isinstance(kind, pa.DataType):
        kind = "string" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else str(kind)
    if scalar(kind) is not None:
        return kind
    reason = ""
    if isinstance(kind, Array | Record | ListOf | SetOf | MapOf):
        reason = (
            f": {kind!r} within another container would not have a fixed size; only the values of a map can be arrays"
            f" or records"
        )
    raise ParameterError(f"{maker}: {label}={kind!r}{reason}; {kinds_are(kind, SCALARS_TEXT)}")


def read_kind(label: str, given: Any) -> Kind | None:
    """Read a kind as users write it; None if this is not a kind.

    Raises
    ------
    ParameterError
        It is a record, which only maps hold.
    """
    if isinstance(given, pa.DataType):
        given = "string" if pa.types.is_string(given) or pa.types.is_large_string(given) else str(given)
    if isinstance(given, Record):
        raise ParameterError(f"{label}={given!r}: give its fields one by one, or a map of records")
    if isinstance(given, Array | ListOf | SetOf | MapOf) or scalar(given) is not None:
        return given
    return None


_MEANT = dict.fromkeys(("int", "integer", "long", "bigint", "Int64"), "int64") | {
    "short": "int32", "float": "float64", "double": "float64", "real": "float64", "Float64": "float64", "boolean": "bool",
    "str": "string", "text": "string", "varchar": "string", "large_string": "string", "datetime": "timestamp[us]",
    "datetime64": "timestamp[us]", "timestamp": "timestamp[us]", "Timestamp": "timestamp[us]", "duration": "duration[us]",
    "timedelta": "duration[us]", "timedelta64": "duration[us]", "Timedelta": "duration[us]",
}  # fmt: skip
"""What a kind is called in Python, Spark, pandas and NumPy -> its name here."""


def kinds_are(given: object, kinds: str) -> str:
    """Say which kinds there are, and which of them other libraries call what was given.

    Examples
    --------
    >>> kinds_are(float, "int64, float64"), kinds_are("bigint", "int64"), kinds_are("vector", "int64")
    ("did you mean 'float64'? the kinds are int64, float64", "did you mean 'int64'? the kinds are int64", 'the kinds are int64')
    """
    called = given.__name__ if isinstance(given, type) else str(given)
    near = _MEANT.get(called, called if isinstance(given, type) else "-")
    return f"did you mean {near!r}? the kinds are {kinds}" if near in kinds else f"the kinds are {kinds}"


def cannot_read(kind: pa.DataType) -> str:
    """Why a compiled function cannot read a column of this type, and what to cast it to.

    Examples
    --------
    >>> cannot_read(pa.date32())
    'a column of type date32[day], which a compiled function cannot read; cast it to timestamp before'
    """
    if pa.types.is_date(kind):
        cast = "timestamp"
    elif pa.types.is_decimal(kind):
        cast = "float64, or scale it and cast it to int64,"
    else:
        cast = "int64 or float64"
    return f"a column of type {kind}, which a compiled function cannot read; cast it to {cast} before"


def kinds_text() -> str:
    """Return the kinds as a text for errors."""
    return ", ".join([*SCALAR_NAMES, "list_of(...), set_of(...), map_of(...), array(...)", _TIMES_TEXT])
