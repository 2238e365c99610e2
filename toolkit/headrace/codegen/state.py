"""Reading `state=` and `emits=`, for every engine: the kinds of values that user functions keep and emit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.codegen.kinds import Kind, MapOf, kinds_are, kinds_text, read_kind, scalar
from headrace.codegen.text import is_attribute, python_name
from headrace.errors import ParameterError

_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class StateField:
    """A field of a state: its kind, and its first value; None: an empty container."""

    kind: Kind
    first: int | float | bool | str | None


def read_state(given: Mapping[str, Any] | None, has_keyed_tags: bool = False) -> dict[str, StateField]:
    """Read ``state=``: name -> kind, or first value, which implies the kind.

    Parameters
    ----------
    given : mapping
    has_keyed_tags : bool
        Whether ``hr.map_of(..., by=)`` has a meaning.

    Raises
    ------
    ParameterError
        If a function could not use a name, or a value has no kind.

    Examples
    --------
    >>> read_state({"n": "int32", "least": 2.5})
    {'n': StateField(kind='int32', first=0), 'least': StateField(kind='float64', first=2.5)}
    """
    _check_mapping("state", given)
    read = {name: _state_field(name, value) for name, value in named_by_python("state", given).items()}
    for name, field in read.items():
        if not has_keyed_tags and isinstance(field.kind, MapOf) and field.kind.by is not None:
            raise ParameterError(f"state: {name}={field.kind!r}: by= is the key of a program's tags; leave it out here")
    return read


def read_emits(given: Mapping[str, Any] | None) -> dict[str, Kind]:
    """Read ``emits=``: name of a result column -> kind.

    Raises
    ------
    ParameterError
        If a function could not use a name, or there is no such kind.
    """
    _check_mapping("emits", given)
    columns = named_by_python("emits", given)
    read = {}
    for column, given_kind in columns.items():
        _check_name(column, "emits")
        kind = read_kind(f"emits: {column}", given_kind)
        if kind is None:
            raise ParameterError(f"emits: {column}={given_kind!r}: {kinds_are(given_kind, kinds_text())}")
        read[column] = kind
    return read


def named_by_python(label: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return names as Python reads them in a function; `ParameterError` if two become the same."""
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
    if not isinstance(name, str) or not is_attribute(name):
        raise ParameterError(f"{where}: {name!r} is not a Python name: a function cannot use it; rename it")


def _state_field(name: Any, value: Any) -> StateField:
    _check_name(name, "state")
    kind = read_kind(f"state: {name}", value)
    if kind is not None:
        known = scalar(kind)
        return StateField(kind, None if known is None else known.zero)
    if isinstance(value, str):
        raise ParameterError(f"state: {name}={value!r}: {kinds_are(value, kinds_text())}")
    if isinstance(value, bool):
        return StateField("bool", value)
    if isinstance(value, int) and value in _INT64:
        return StateField("int64", value)
    if isinstance(value, float):
        return StateField("float64", value)
    raise ParameterError(
        f"state: {name}={value!r}: give a kind or a first value (a whole number within int64, a float or a bool);"
        f" {kinds_are(value, kinds_text())}"
    )
