"""What `key_by` takes: columns and key specifications, read into names and sources of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.errors import ParameterError
from headrace.expressions import Each, Hashtags, Keys, Pairs, Words
from headrace.ingress.key_sources import KeySource
from headrace.plan.checks import as_arguments, check_columns
from headrace.plan.nodes import Node, StepNode
from headrace.plan.steps import KeysStep


def read_keys(
    schema: pa.Schema, columns: Sequence[Any], named: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[KeySource, ...]]:
    """Return the names of a stream's key columns, and where the keys come from.

    Raises
    ------
    ParameterError
        There is no key, or something that specifies none.
    SchemaError
        A column does not exist.
    """
    parts = [(None, c) for c in columns] + list(named.items())
    if not parts:
        raise ParameterError("key_by(): name at least one column")
    keys, names = [], []
    for name, part in parts:
        if isinstance(part, list) and part and all(isinstance(column, str) for column in part):
            together = as_arguments("key_by()", part)
            if name is not None:
                each = ", ".join(f'"{column}"' for column in part) + ("," if len(part) == 1 else "")
                raise ParameterError(
                    f"key_by({name}={part!r}): give a tuple for one key of each of the columns, key_by({name}=({each})), or write"
                    f" {together} for a key of all of them together"
                )
            raise ParameterError(f"key_by({part!r}): give the columns one after the other: {together}")
        source, own = _key_source(part)
        for column in source.columns:
            check_columns(schema, [column], "key_by()")
        source.key_type(schema)
        keys.append(source)
        if source.width == 2:
            names += ["first", "second"] if name is None else [f"{name}_first", f"{name}_second"]
        else:
            names.append(name or own)
    return tuple(names), tuple(keys)


def with_key_columns(
    node: Node, columns: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Node, list[Any], dict[str, Any]]:
    """Compute keys that functions emit as list columns: return the node with these columns, and the keys that read them."""
    parts = [(None, part) for part in columns] + list(named.items())
    for at, (name, part) in enumerate(parts):
        if not isinstance(part, Keys):
            continue
        if name is None:
            raise ParameterError(f"key_by({part!r}): give the key a name, as in key_by(place=hr.keys(...))")
        column = f"{name} by {getattr(part.function, '__name__', 'a function')}"
        while column in node.schema.names:
            column += "'"
        step = KeysStep(part.function, part.kind, column, node.schema, node.event_time)
        node = StepNode(node, step, step.result_schema(node.schema), node.event_time, node.unit)
        parts[at] = name, Each(column)
    return node, [part for name, part in parts if name is None], {name: part for name, part in parts if name is not None}


def _key_source(part: Any) -> tuple[KeySource, str]:
    if isinstance(part, str):
        return KeySource((part,)), part
    if isinstance(part, tuple):
        return KeySource(part, "any"), part[0]
    if isinstance(part, Each):
        return KeySource((part.column,), "each"), part.column
    if isinstance(part, Words):
        return KeySource((part.column,), "words"), "word"
    if isinstance(part, Hashtags):
        return KeySource((part.column,), "hashtags"), "hashtag"
    if isinstance(part, Pairs):
        return KeySource((part.column,), "pairs", part.distance), "pair"
    if callable(part):
        name = getattr(part, "__name__", "f")
        raise ParameterError(
            f'key_by({name}): for keys that a function emits, give hr.keys({name}, "string"), with the kind of the keys'
        )
    raise ParameterError(
        f"key_by({part!r}): give a column name, a tuple of names, hr.each, hr.words, hr.hashtags, hr.pairs or hr.keys"
    )
