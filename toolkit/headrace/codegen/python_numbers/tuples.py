"""Tuples of numbers, which may be of several types: ``x in (a, b)``, ``for x in (a, b)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from headrace.codegen.python_numbers.values import is_number


def checked_among(x, items):
    """``x in items``, of a tuple."""
    return x in items


@overload(checked_among)
def _checked_among(x, items):
    if not isinstance(items, types.BaseTuple):
        return None
    kinds = list(items)
    if not kinds:
        return lambda x, items: False
    if is_number(x, *kinds) and len(set(kinds)) > 1:
        # Compared one by one: the compiler's own `in` needs a tuple of one type.
        return _written("x, items", " or ".join(f"x == items[{place}]" for place in range(len(kinds))))
    return lambda x, items: x in items


def checked_alike(items):
    """Return a tuple to loop over: integers become floats if there are floats among them."""
    return items


@overload(checked_alike)
def _checked_alike(items):
    kinds = [types.unliteral(kind) for kind in getattr(items, "types", ())]  # empty if this is no tuple
    if not is_number(*kinds) or len(set(kinds)) < 2:
        return lambda items: items
    of = "np.float64" if any(isinstance(kind, types.Float) for kind in kinds) else "np.int64"
    return _written("items", f"({', '.join(f'{of}(items[{place}])' for place in range(len(kinds)))})")


def _written(parameters: str, result: str) -> Callable:
    space: dict[str, Any] = {"np": np}
    exec(f"def written({parameters}):\n    return {result}\n", space)
    return space["written"]


__all__ = ["checked_alike", "checked_among"]
