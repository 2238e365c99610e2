"""Copying syntax trees, and making expressions and statements from text at the line of a node."""

from __future__ import annotations

import ast
import functools
from typing import TypeVar

T = TypeVar("T", bound=ast.AST)
_PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")


def copied(tree: T, at: ast.AST | None = None) -> T:
    """Copy a tree; with `at`, all of the copy has the position of that node.

    Functions are rewritten in place, at every start of a run: `copy.deepcopy` took a sixth of that time.

    Examples
    --------
    >>> there = ast.parse("x\\n\\nx + y").body[1].value
    >>> again = copied(there, there.right)
    >>> again is there, ast.unparse(again), again.lineno, again.col_offset
    (False, 'x + y', 3, 4)
    """
    place = {} if at is None else {name: getattr(at, name) for name in _PLACE if hasattr(at, name)}
    return _copied(tree, place)


def _copied(node, place: dict[str, int]):
    kind = type(node)
    made = kind.__new__(kind)
    own = made.__dict__
    for name, value in node.__dict__.items():
        if isinstance(value, ast.AST):
            value = _copied(value, place)
        elif isinstance(value, list):
            value = [_copied(one, place) if isinstance(one, ast.AST) else one for one in value]
        own[name] = value
    if place and kind._attributes:
        own.update(place)
    return made


@functools.lru_cache(4096)
def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@functools.lru_cache(4096)
def _statements(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def expression(text: str, at: ast.AST) -> ast.expr:
    """Return an expression from its text, at a node."""
    return copied(_expression(text), at)


def statements(text: str, at: ast.AST) -> list[ast.stmt]:
    """Return statements from their text, at a node."""
    return [copied(one, at) for one in _statements(text)]


def names_in(*nodes: ast.AST) -> list[ast.Name]:
    """Return all names in nodes, whether read or assigned."""
    return [each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)]


__all__ = ["copied", "expression", "names_in", "statements"]
