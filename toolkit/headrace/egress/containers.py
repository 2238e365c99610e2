"""Lists, sets, maps and arrays of user functions outside kernels: converted to result columns or to Python objects.

To a kernel they are words of 64 bits: an integer as it is, a float as its bits, a
string as its id. The elements of a list, and the entries of a set or map (a key,
then the words of its value), lie one after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.codegen.kinds import Array, Container, Kind, MapOf, Record, SetOf, arrow_of, cells_of, scalar
from headrace.codegen.placed import offsets
from headrace.codegen.state import StateField
from headrace.errors import OverflowInputError
from headrace.expressions.rows import cast
from headrace.ingress.columns import as_arrow
from headrace.ingress.keys import KeyDictionary
from headrace.memory.arena import COUNT, FIRST
from headrace.reference.containers import first_value

MOST_ELEMENTS = 2**31 - 1
"""Of a column of lists: Arrow counts them in 32 bits."""


def stride_of(kind: Kind) -> int:
    """Number of words of an element or entry."""
    return 1 + kind.width if isinstance(kind, MapOf) else 1


def text_words(kind: Kind) -> list[int]:
    """Which words of an element or entry are string ids."""
    if not isinstance(kind, MapOf):
        return [0] if (kind if isinstance(kind, str) else kind.kind) == "string" else []
    value = kind.value
    if isinstance(value, Array):
        parts = [value.kind] * value.size
    else:
        parts = [value] if isinstance(value, str) else [part for _, part in value.fields]
    return [i for i, part in enumerate((kind.key, *parts)) if part == "string"]


def holds_text(kind: Kind) -> bool:
    """Whether values of this kind are strings or contain strings."""
    return bool(text_words(kind))


def as_column(words: np.ndarray, offsets: np.ndarray, kind: Container, texts: KeyDictionary | None) -> pa.Array:
    """Make a column of emitted values.

    Parameters
    ----------
    words : int64[]
    offsets : int64[n + 1]
        Value i is ``words[offsets[i] : offsets[i + 1]]``.
    kind : ListOf, SetOf, MapOf or Array
    texts : KeyDictionary, optional
        Holds the strings, if there are any.
    """
    stride = stride_of(kind)
    bounds = offsets // stride
    if bounds[-1] > MOST_ELEMENTS:
        raise OverflowInputError(
            f"results that are ready at one time have {bounds[-1]:,} elements of {kind!r} in one column, more than the"
            f" {MOST_ELEMENTS:,} that a column of Arrow holds: emit shorter ones, or use smaller windows"
        )
    bounds = pa.array(bounds.astype(np.int32))
    entries = words.reshape(-1, stride)
    if not isinstance(kind, MapOf):
        return pa.ListArray.from_arrays(bounds, _values(words, kind.kind, texts))
    keys = _values(entries[:, 0], kind.key, texts)
    column = pa.MapArray.from_arrays(bounds, keys, _parts(entries[:, 1:], kind.value, texts))
    return column if column.type.equals(kind.arrow) else column.cast(kind.arrow)


def _parts(words: np.ndarray, kind: str | Array | Record, texts: KeyDictionary | None) -> pa.Array:
    """The values of a map, one for each row of words."""
    if isinstance(kind, str):
        return _values(words[:, 0], kind, texts)
    if isinstance(kind, Array):
        bounds = np.arange(len(words) + 1, dtype=np.int32) * kind.size
        return pa.ListArray.from_arrays(pa.array(bounds), _values(words.reshape(-1), kind.kind, texts))
    fields = [pa.field(name, arrow_of(part)) for name, part in kind.fields]
    columns = [_values(words[:, i], part, texts) for i, (_, part) in enumerate(kind.fields)]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _values(words: np.ndarray, kind: str, texts: KeyDictionary | None) -> pa.Array:
    known = scalar(kind)
    assert known is not None
    words = np.ascontiguousarray(words)
    if kind == "string":
        assert texts is not None
        (strings,) = texts.decode(words)
        return cast(strings, known.arrow)
    if kind == "bool":
        return pa.array(words != 0)
    numbers = words.view(np.float64) if known.in_functions.startswith("float") else words
    return as_arrow(numbers.astype(known.dtype, copy=False), known.arrow)


def as_object(words: np.ndarray, kind: Container, texts: KeyDictionary | None) -> Any:
    """Turn the words of one container into what plain Python functions work on (`headrace.reference.containers`)."""
    made = first_value(kind)
    if not isinstance(kind, MapOf):
        values = _shown(words, kind.kind, texts)
        if isinstance(kind, SetOf):
            made.update(values)
        else:
            made[:] = values
        return made
    for entry in words.reshape(-1, stride_of(kind)):
        (key,) = _shown(entry[:1], kind.key, texts)
        if isinstance(kind.value, Array):
            made[key] = _shown(entry[1:], kind.value.kind, texts)
        elif isinstance(kind.value, Record):
            value = first_value(kind.value)
            for (name, part), word in zip(kind.value.fields, entry[1:], strict=True):
                setattr(value, name, _shown(np.array([word]), part, texts)[0])
            made[key] = value
        else:
            (made[key],) = _shown(entry[1:], kind.value, texts)
    return made


def _shown(words: np.ndarray, kind: str, texts: KeyDictionary | None) -> list[Any]:
    """Return values as functions see them: times as integers of their unit."""
    known = scalar(kind)
    assert known is not None
    return words.tolist() if pa.types.is_temporal(known.arrow) else _values(words, kind, texts).to_pylist()


def word_object(word: np.ndarray, kind: str, texts: KeyDictionary | None) -> Any:
    """Return a word as a Python object, with the value that functions see.

    Parameters
    ----------
    word : int64[1], float64[1] or uint8[1]
    kind : str
        The type that functions see: "int64", "float64", "bool" or "string".
    texts : KeyDictionary or None
        Of strings, if there are any.
    """
    if kind == "string":
        assert texts is not None
        (strings,) = texts.decode(word.astype(np.int64))
        return strings[0].as_py()
    if kind.startswith("float"):
        return float(word.view(np.float64)[0])
    return bool(word[0]) if kind == "bool" else int(word[0])


def state_objects(state: Mapping[str, StateField], arena: np.ndarray, place: int, texts: KeyDictionary | None) -> dict[str, Any]:
    """Return the fields of a state that lies in words of an arena (`codegen.placed`), as Python objects."""
    fields: dict[str, Any] = {}
    for name, offset in offsets(state).items():
        kind, at = state[name].kind, place + offset
        if isinstance(kind, Array):
            fields[name] = as_object(arena[at : at + cells_of(kind)], kind, texts)
        elif not isinstance(kind, str):
            start, count = int(arena[at + FIRST]), int(arena[at + COUNT])
            fields[name] = as_object(arena[start : start + count * stride_of(kind)], kind, texts)
        else:
            known = scalar(kind)
            assert known is not None
            if known.in_functions == "float32":
                fields[name] = float(arena.view(np.float32)[2 * at])
            else:
                fields[name] = word_object(arena[at : at + 1], known.in_functions, texts)
    return fields
