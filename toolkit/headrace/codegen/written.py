"""What the user wrote, as a checksum: of functions, and of all that they refer to.

It is that of the text, without comments, line numbers and places of files, and of the values that its names are frozen to: the
same in another process, another file, after another version of this package has made other kernels of it.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator, Mapping

from headrace.codegen.capture import CapturedFunction, capture


def checksum(functions: Mapping[str, Callable], *said: object) -> str:
    """Return the checksum of functions, by name, and of whatever else was said, by its `repr`.

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


def _texts(name: str, function: CapturedFunction) -> Iterator[str]:
    yield name
    yield repr(function.parameters)
    yield ast.dump(function.node)
    for named in (function.defaults, function.constants):
        for each, value in sorted(named.items()):
            yield f"{each} = {ast.dump(value)}"
    for each, helper in sorted(function.helpers.items()):
        yield from _texts(each, helper)


__all__ = ["checksum"]
