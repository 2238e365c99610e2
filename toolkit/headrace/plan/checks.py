"""Checks for columns that are missing or occur twice, so that the error appears where the query is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from headrace.errors import ParameterError, SchemaError
from headrace.names import instead


def check_columns(schema: pa.Schema, names: Sequence[str], use: str) -> None:
    """Raise `SchemaError` for the first column that is missing or occurs more than once."""
    for name in names:
        if isinstance(name, list | tuple) and use.endswith("()"):
            raise SchemaError(f"{use}: {name!r} is not a name; give one after the other: {as_arguments(use, name)}")
        if name not in schema.names:
            raise SchemaError(f"{use}: there is no column {name!r}; {instead(name, schema.names, 'the columns')}")
        if schema.names.count(name) > 1:
            raise SchemaError(f"{use}: {schema.names.count(name)} columns are called {name!r}; rename the others")


def as_arguments(use: str, names: Iterable[Any]) -> str:
    """Say how names are given that came in a list.

    Examples
    --------
    >>> as_arguments("key_by()", ["user", "day"])
    'key_by("user", "day")'
    """
    return use.removesuffix(")") + ", ".join(f'"{name}"' for name in names) + ")"


def check_output_names(names: Sequence[str], use: str) -> None:
    """Raise `ParameterError` if a result column would appear twice."""
    seen = set()
    for name in names:
        if name in seen:
            raise ParameterError(f"{use}: two result columns would be called {name!r}; rename one")
        seen.add(name)
