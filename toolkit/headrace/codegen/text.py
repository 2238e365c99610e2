"""Writing kernels as text."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Callable, Iterable

from headrace.errors import SchemaError

_USER_LINE = re.compile(r"  # \w+:\d+$")
"""The marker that `rewrite` puts behind each line of a user function."""


def python_name(name: str) -> str:
    """Return a name as Python reads it in a program: "ﬁ" is "fi", and the micro sign is the Greek letter.

    Examples
    --------
    >>> python_name("\N{MICRO SIGN}s") == "\N{GREEK SMALL LETTER MU}s"
    True
    """
    return unicodedata.normalize("NFKC", name)


def attributes(columns: Iterable[str]) -> dict[str, str]:
    """Map the attributes that a function may write, as in ``t.name``, to the columns that they stand for.

    Raises
    ------
    SchemaError
        If Python takes the names of two columns for one.
    """
    found: dict[str, str] = {}
    for column in columns:
        name = python_name(column)
        if not name.isidentifier() or keyword.iskeyword(name):
            continue
        if found.get(name) == column:
            raise SchemaError(f"several columns are called {column!r}; rename the others")
        if name in found:
            raise SchemaError(
                f"columns {found[name]!r} and {column!r} have one name in Python, {name!r}, so that a function could not"
                f" tell them apart; rename one"
            )
        found[name] = column
    return found


def in_templates(text: str, change: Callable[[str], str]) -> str:
    """Change the lines of a kernel that are ours, and leave those of user functions as they are.

    Examples
    --------
    >>> print(in_templates("s[0] = 1\\ns[0] = 2  # user_update:3", lambda line: line.replace("s[0]", "s.f0")))
    s.f0 = 1
    s[0] = 2  # user_update:3
    """
    return "\n".join(line if _USER_LINE.search(line) else change(line) for line in text.split("\n"))


def indent(text: str, levels: int) -> str:
    """Indent lines by `levels` of four spaces."""
    return "".join("    " * levels + line + "\n" for line in text.strip("\n").split("\n"))
