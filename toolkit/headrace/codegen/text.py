"""Helpers for writing kernels as text."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Iterable

from headrace.errors import SchemaError


def python_name(name: str) -> str:
    """Return a name as Python reads it in a program: "ﬁ" is "fi", and the micro sign is the Greek letter.

    Examples
    --------
    >>> python_name("\N{MICRO SIGN}s") == "\N{GREEK SMALL LETTER MU}s"
    True
    """
    return unicodedata.normalize("NFKC", name)


def is_attribute(name: str) -> bool:
    """Whether a function can write a name after a dot, as in ``t.name``.

    Examples
    --------
    >>> is_attribute("kind"), is_attribute("class"), is_attribute("a b")
    (True, False, False)
    """
    return name.isidentifier() and not keyword.iskeyword(name)


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
        if not is_attribute(name):
            continue
        if found.get(name) == column:
            raise SchemaError(f"several columns are called {column!r}; rename the others")
        if name in found:
            raise SchemaError(
                f"columns {found[name]!r} and {column!r} have the same name in Python, {name!r}, so a function cannot"
                f" tell them apart; rename one"
            )
        found[name] = column
    return found


def indent(text: str | Iterable[str], levels: int) -> str:
    """Indent a text, or lines, by `levels` of four spaces; no line break ends the result.

    Examples
    --------
    >>> indent(["if x:", "    y = 1"], 1)
    '    if x:\\n        y = 1'
    """
    lines = (text if isinstance(text, str) else "\n".join(text)).strip("\n").split("\n")
    return "\n".join("    " * levels + line if line else "" for line in lines)
