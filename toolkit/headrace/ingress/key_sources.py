"""The columns that make up the key of a stream, and the dictionary for such keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.errors import ParameterError, SchemaError, UnsupportedTypeError
from headrace.ingress import columns
from headrace.ingress.keys import DEFAULT_LIMIT, KeyDictionary, key_kind
from headrace.ingress.times import field_type
from headrace.references import BUCKETS

HOW = ("value", "each", "any", "words", "hashtags", "pairs")
_NULLS = ("error", "drop")
NULL_FIX = "fill it, filter it out, or set nulls='drop'"
"""Advice on a null key; the command line, which has no such parameter, gives other advice."""


def check_nulls(nulls: str) -> None:
    """Raise `ParameterError` if this is no policy for null keys."""
    if nulls not in _NULLS:
        raise ParameterError(f"nulls={nulls!r}: give one of {', '.join(_NULLS)}")


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where one part of the key comes from.

    Parameters
    ----------
    columns : tuple of str
        One column; several for "any".
    how : str
        "value": the column's value; "each": every element of a list column;
        "any": the value of each of the columns; "words", "hashtags": of a text,
        see `tokeniser`; "pairs": ordered pairs of words, two key columns.
    distance : int or None
        For "pairs": the largest distance between the words; None for any distance.
    """

    columns: tuple[str, ...]
    how: str = "value"
    distance: int | None = None

    def __post_init__(self):
        if self.how not in HOW:
            raise ParameterError(f"how = {self.how!r}: give one of {', '.join(HOW)}")
        if len(self.columns) < 1 or (len(self.columns) > 1 and self.how != "any"):
            raise ParameterError(f"columns = {self.columns!r}: {self.how!r} takes one column")
        if self.distance is not None and self.distance < 1:
            raise ParameterError(f"distance = {self.distance}: must be at least 1, or None for any distance")

    @property
    def width(self) -> int:
        """Number of key columns it makes."""
        return 2 if self.how == "pairs" else 1

    @property
    def is_single(self) -> bool:
        """Whether it makes exactly one key for a row that is not null."""
        return self.how == "value"

    def key_type(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of its key columns, or raise with the reason why they cannot be a key."""
        kinds = [field_type(schema, column, "key") for column in self.columns]
        kind = kinds[0]
        if any(not other.equals(kind) for other in kinds):
            raise SchemaError(
                f"key columns {', '.join(self.columns)} have types {', '.join(map(str, kinds))}:"
                f" cast them to one"
            )
        name = self.columns[0]
        if columns.is_list(kind) and columns.is_list(kind.value_type):
            raise UnsupportedTypeError(f"key column {name!r} has type {kind}: flatten the lists, or explode them first")
        if self.how == "each":
            if not columns.is_list(kind):
                raise SchemaError(f"key column {name!r} has type {kind}, not a list: give the column's name, without hr.each()")
            kind = kind.value_type
        elif self.how in ("words", "hashtags", "pairs"):
            if not columns.is_text(columns.plain_type(kind)):
                raise SchemaError(f"text column {name!r} has type {kind}, not string: cast it")
            kind = columns.plain_type(kind)
        elif columns.is_list(kind):
            raise SchemaError(
                f"key column {name!r} is a list ({kind}): write hr.each({name!r}) for one key per element"
            )
        if key_kind(kind) is None:
            raise UnsupportedTypeError(f"key column {name!r} has type {kind}: {columns.cast_hint(kind)}")
        return columns.plain_type(kind)


def make_dictionary(
    schema: pa.Schema,
    keys: Sequence[KeySource],
    buckets: int = BUCKETS,
    limit: int = DEFAULT_LIMIT,
    operators: int = 1,
) -> KeyDictionary | None:
    """Return an empty dictionary for keys of these sources, with room for the keys of each operator; None without keys."""
    if not keys:
        return None
    types = [kind for key in keys for kind in [key.key_type(schema)] * key.width]
    dictionary = KeyDictionary(
        tuple(key_kind(kind) or "" for kind in types),
        buckets,
        limit,
        shared=[key.how for key in keys] == ["pairs"],
        operators=operators,
    )
    dictionary.set_types(types)
    return dictionary
