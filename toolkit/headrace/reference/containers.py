"""What lists, sets and maps of a state mean, in plain Python.

They are Python's own, except where a result would depend on chance or on how the work is distributed:

- sets and maps iterate in the order of their keys: numbers by value, NaN last, strings by code point;
- floats as keys and elements of sets are one if they are equal, -0.0 with 0.0, and NaN is one key;
- in a list of floats NaN equals nothing, whichever object it is, and is sorted last;
- a loop over a set or map whose keys changed since it began raises RuntimeError at its next step, at the last
  one too, even if there are as many keys as before;
- a map of arrays or records has zeros for a key that it does not have, from the moment the key is first read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from types import SimpleNamespace
from typing import Any

from headrace.reference.order import key_order

ZERO: dict[str, Any] = {"int64": 0, "int32": 0, "float64": 0.0, "float32": 0.0, "bool": False, "string": ""}
"""The zero of each scalar kind, except timestamps and durations, which are whole numbers."""

NAN = math.nan


def canonical(key: Any) -> Any:
    """Return the one object that stands for a key and all its equals."""
    if isinstance(key, float):
        return NAN if key != key else key + 0.0
    return key


def is_kind(value: Any) -> bool:
    """Whether it is a kind, and no value."""
    return isinstance(value, str) or type(value).__name__ in ("ListOf", "SetOf", "MapOf", "Array", "Record")


def first_value(kind: Any) -> Any:
    """Return what a field of this kind is at first: a zero, or a container of its own.

    Parameters
    ----------
    kind : str or kind
        As `headrace.codegen.kinds` defines them; told apart by name, since that module is not imported here.

    Examples
    --------
    >>> first_value("float64"), first_value("timestamp[us]")
    (0.0, 0)
    """
    if isinstance(kind, str):
        return ZERO.get(kind, 0)
    name = type(kind).__name__
    if name == "ListOf":
        return FloatList() if kind.kind.startswith("float") else []
    if name == "SetOf":
        return KeyOrderedSet()
    if name == "Array":
        return [first_value(kind.kind)] * kind.size
    if name == "Record":
        return SimpleNamespace(**{field: first_value(value) for field, value in kind.fields})
    assert name == "MapOf", kind
    return KeyOrderedMap(None if isinstance(kind.value, str) else lambda: first_value(kind.value))


def as_emitted(value: Any) -> Any:
    """Copy a container as a result has it: lists and sets as lists, maps as lists of pairs, in order; records as dicts.

    Examples
    --------
    >>> counts = KeyOrderedMap()
    >>> counts["b"] = 1; counts["a"] = [2]
    >>> as_emitted(counts)
    [('a', [2]), ('b', 1)]
    """
    if isinstance(value, KeyOrderedMap):
        return [(key, as_emitted(part)) for key, part in value.items()]
    if isinstance(value, SimpleNamespace):
        return dict(vars(value))
    return list(value) if isinstance(value, list | set) else value


def copied(value: Any) -> Any:
    """Copy what a field holds, so that what is done to the one is not done to the other; `copy.deepcopy`, but faster.

    Examples
    --------
    >>> kept = KeyOrderedMap(list)
    >>> kept["a"].append(1)
    >>> other = copied(kept)
    >>> other["a"].append(2); other["b"].append(3)
    >>> kept, other
    ({'a': [1]}, {'a': [1, 2], 'b': [3]})
    """
    if isinstance(value, KeyOrderedMap):
        parts = KeyOrderedMap(value.make)
        dict.update(parts, [(key, copied(part)) for key, part in dict.items(value)])
        return parts
    if isinstance(value, KeyOrderedSet):
        elements = KeyOrderedSet()
        set.update(elements, set.__iter__(value))
        return elements
    if isinstance(value, SimpleNamespace):
        return SimpleNamespace(**{field: copied(part) for field, part in vars(value).items()})
    return value[:] if isinstance(value, list) else value


class FloatList(list):
    """A list in which NaN equals nothing."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return FloatList(found) if isinstance(index, slice) else found

    def __contains__(self, value: Any) -> bool:
        return any(held == value for held in self)

    def count(self, value: Any) -> int:
        return sum(held == value for held in self)

    def index(self, value: Any, start: Any = 0, stop: Any = None) -> int:
        for i in range(*slice(start, stop).indices(len(self))):
            if self[i] == value:
                return i
        raise ValueError(f"{value!r} is not in list")

    def remove(self, value: Any) -> None:
        del self[self.index(value)]

    def sort(self, *, key: Callable | None = None, reverse: bool = False) -> None:
        if key is None:
            super().sort(key=lambda value: (value != value, value if value == value else 0.0), reverse=reverse)
        else:
            super().sort(key=key, reverse=reverse)


class _Watched:
    """Counts changes of its keys, so that a loop over them can tell."""

    changes = 0

    def _steps(self, keys: Iterable[Any]) -> Iterator[Any]:
        begun = self.changes
        for key in sorted(keys, key=key_order):
            yield key
            if self.changes != begun:
                what = "dictionary keys" if isinstance(self, dict) else "set"
                raise RuntimeError(f"{what} changed during iteration")


class KeyOrderedMap(_Watched, dict):
    """A dict that iterates in the order of its keys.

    Parameters
    ----------
    make : callable, optional
        Makes the value of an absent key that is read; without it, `KeyError`.

    Examples
    --------
    >>> counts = KeyOrderedMap()
    >>> counts["b"] = 1; counts["a"] = 2
    >>> counts, [key for key in counts]
    ({'a': 2, 'b': 1}, ['a', 'b'])
    """

    def __init__(self, make: Callable[[], Any] | None = None):
        super().__init__()
        self.make = make

    def __contains__(self, key: Any) -> bool:
        return super().__contains__(canonical(key))

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(canonical(key))

    def __missing__(self, key: Any) -> Any:
        if self.make is None:
            raise KeyError(key)
        self[key] = self.make()
        return self[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.changes += key not in self
        super().__setitem__(canonical(key), value)

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(canonical(key))
        self.changes += 1

    def __iter__(self) -> Iterator[Any]:
        return self._steps(super().__iter__())

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {value!r}" for key, value in self.items()) + "}"

    def keys(self) -> Any:
        return KeysView(self)

    def values(self) -> Any:
        return ValuesView(self)

    def items(self) -> Any:
        return ItemsView(self)

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(canonical(key), default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: Any, *default: Any) -> Any:
        self.changes += key in self
        return super().pop(canonical(key), *default)

    def clear(self) -> None:
        self.changes += len(self) != 0
        super().clear()

    def update(self, *others: Any, **named: Any) -> None:
        for key, value in dict(*others, **named).items():
            self[key] = value


class KeyOrderedSet(_Watched, set):
    """A set that iterates in the order of its elements.

    Examples
    --------
    >>> seen = KeyOrderedSet()
    >>> seen.add(3); seen.add(-1)
    >>> list(seen)
    [-1, 3]
    """

    def __contains__(self, value: Any) -> bool:
        return super().__contains__(canonical(value))

    def __iter__(self) -> Iterator[Any]:
        return self._steps(super().__iter__())

    def __repr__(self) -> str:
        return "{" + ", ".join(map(repr, self)) + "}" if self else "set()"

    def add(self, value: Any) -> None:
        self.changes += value not in self
        super().add(canonical(value))

    def discard(self, value: Any) -> None:
        self.changes += value in self
        super().discard(canonical(value))

    def remove(self, value: Any) -> None:
        super().remove(canonical(value))
        self.changes += 1

    def clear(self) -> None:
        self.changes += len(self) != 0
        super().clear()

    def update(self, *others: Iterable[Any]) -> None:
        for other in others:
            for value in other:
                self.add(value)
