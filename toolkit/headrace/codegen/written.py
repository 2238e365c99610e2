"""What the user wrote: a checksum of functions and of everything they refer to, and the values in their text.

The checksum covers the text, without comments, line numbers and file locations, and the values that its names are frozen
to. So it is the same in another process, in another file, and after another version of this package has generated other
kernels.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator, Mapping

from headrace.codegen.capture import CapturedFunction, capture


def checksum(functions: Mapping[str, Callable], *said: object) -> str:
    """Return the checksum of functions, by name, and of any further arguments, by their `repr`.

    Examples
    --------
    >>> one = checksum({"f": lambda t: t.x > 1}, "int64")
    >>> same = checksum({"f": lambda t: t.x  > 1 }, "int64")
    >>> other = checksum({"f": lambda t: t.x > 2}, "int64")
    >>> one == same, one == other
    (True, False)
    """
    digest = hashlib.sha256()
    for name, function in functions.items():
        for text in _texts(name, capture(function)):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    for one in said:
        digest.update(repr(one).encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def values_written(function: Callable) -> Iterator[int | float | str]:
    """Give the numbers and texts in a function's text, in what its names are frozen to, and in functions that it calls.

    Examples
    --------
    >>> limit = 3
    >>> list(values_written(lambda t: t.x > limit or t.kind == "cart"))
    ['cart', 3]
    """
    yield from _values(capture(function))


def _values(function: CapturedFunction) -> Iterator[int | float | str]:
    for root in (function.node, *function.defaults.values(), *function.constants.values()):
        for node in ast.walk(root):
            if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
                yield node.value
    for helper in function.helpers.values():
        yield from _values(helper)


def _texts(name: str, function: CapturedFunction) -> Iterator[str]:
    yield name
    yield repr(function.parameters)
    yield ast.dump(function.node)
    for named in (function.defaults, function.constants):
        for each, value in sorted(named.items()):
            yield f"{each} = {ast.dump(value)}"
    for each, helper in sorted(function.helpers.items()):
        yield from _texts(each, helper)


__all__ = ["checksum", "values_written"]
