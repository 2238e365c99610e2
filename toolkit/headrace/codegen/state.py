"""Kinds of values that user functions keep and emit, and how `state=` and `emits=` are read, for every engine."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.codegen.text import python_name
from headrace.errors import ParameterError

_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Kind:
    """One kind of value.

    Parameters
    ----------
    dtype : str
        Of the arrays that kernels keep such values in.
    arrow : pa.DataType
        Of a column of them.
    zero : int, float or bool
        What a field of a state is at first, if nothing else is said.
    """

    dtype: str
    arrow: pa.DataType
    zero: int | float | bool


KINDS: dict[str, Kind] = {
    "int64": Kind("int64", pa.int64(), 0),
    "int32": Kind("int32", pa.int32(), 0),
    "float64": Kind("float64", pa.float64(), 0.0),
    "float32": Kind("float32", pa.float32(), 0.0),
    "bool": Kind("uint8", pa.bool_(), False),
}
"""Name, as users write it -> kind."""


@dataclass(frozen=True)
class StateField:
    """A field of a state: its kind, and its value when the state comes to be."""

    kind: str
    first: int | float | bool


def read_state(given: Mapping[str, Any] | None) -> dict[str, StateField]:
    """Read ``state=``: name -> kind, or first value, which says the kind too.

    Raises
    ------
    ParameterError
        If a function could not use a name, or a value is of no kind.

    Examples
    --------
    >>> read_state({"n": "int32", "least": 2.5})
    {'n': StateField(kind='int32', first=0), 'least': StateField(kind='float64', first=2.5)}
    """
    _check_mapping("state", given)
    return {name: _state_field(name, value) for name, value in named_by_python("state", given).items()}


def read_emits(given: Mapping[str, str] | None) -> dict[str, str]:
    """Read ``emits=``: name of a result column -> kind.

    Raises
    ------
    ParameterError
        If a function could not use a name, or there is no such kind.
    """
    _check_mapping("emits", given)
    columns = named_by_python("emits", given)
    for column, kind in columns.items():
        _check_name(column, "emits")
        if kind not in KINDS:
            raise ParameterError(f"emits: {column}={kind!r}: the kinds are {', '.join(KINDS)}")
    return columns


def named_by_python(label: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return names as Python reads them in a function; `ParameterError` if two of them are one."""
    names: dict[Any, Any] = {}
    for name, value in (given or {}).items():
        called = python_name(name) if isinstance(name, str) else name
        if called in names:
            raise ParameterError(f"{label}: {name!r} becomes {called!r} in Python, and that name is taken; rename one")
        names[called] = value
    return names


def _check_mapping(label: str, given: Any) -> None:
    if given is not None and not isinstance(given, Mapping):
        raise ParameterError(f'{label}={given!r}: give a dict of names and kinds, as in {{"chars": "int64"}}')


def _check_name(name: Any, where: str) -> None:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ParameterError(f"{where}: {name!r} is not a Python name: a function cannot use it")


def _state_field(name: Any, value: Any) -> StateField:
    _check_name(name, "state")
    if isinstance(value, str):
        if value not in KINDS:
            raise ParameterError(f"state: {name}={value!r}: the kinds are {', '.join(KINDS)}")
        return StateField(value, KINDS[value].zero)
    if isinstance(value, bool):
        return StateField("bool", value)
    if isinstance(value, int) and value in _INT64:
        return StateField("int64", value)
    if isinstance(value, float):
        return StateField("float64", value)
    raise ParameterError(
        f"state: {name}={value!r}: give a kind ({', '.join(KINDS)}) or a first value (a whole number within"
        f" int64, a float or a bool)"
    )
