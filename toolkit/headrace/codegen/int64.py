"""Python integers that behave like those of compiled functions with ``debug=True``: results beyond 64 bits raise."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any


class Int64(int):
    """An integer whose sums, products and so on raise where they do not fit in 64 bits, as with ``debug=True``."""

    @classmethod
    def operation(cls, name: str, symbol: str) -> Callable:
        original = getattr(int, name)

        def apply(self, *other):
            result = original(self, *other)
            if type(result) is not int:
                return result
            if not -(2**63) <= result < 2**63:
                pair = (other[0], self) if name.startswith("__r") and name != "__rshift__" else (self, *other)
                text = f" {symbol} ".join(str(int(part)) for part in pair) if other else f"{symbol} {int(self)}"
                raise OverflowError(f"{text} leaves the range of int64")
            return cls(result)

        return apply


for _name, _symbol in {
    "add": "+", "sub": "-", "mul": "*", "pow": "**", "lshift": "<<", "floordiv": "//", "rshift": ">>", "mod": "%",
}.items():  # fmt: skip
    for _side in ("", "r"):
        setattr(Int64, f"__{_side}{_name}__", Int64.operation(f"__{_side}{_name}__", _symbol))
for _name, _symbol in {"neg": "-", "abs": "abs"}.items():
    setattr(Int64, f"__{_name}__", Int64.operation(f"__{_name}__", _symbol))


def bounded(value: Any) -> Any:
    """Return a tuple or state, a key, a value, a list or the values of a map with its integers bounded."""
    if isinstance(value, list):
        made = copy.copy(value)
        made[:] = map(bounded, value)
        return made
    if isinstance(value, dict) and type(value) is not dict:
        kept = copy.copy(value)
        for key, part in value.items():
            kept[key] = bounded(part)
        return kept
    if isinstance(value, Mapping):
        return {name: bounded(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(bounded, value))
    return Int64(value) if type(value) is int else value
