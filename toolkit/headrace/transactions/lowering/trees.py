"""Pieces of syntax trees that make up a lowered function, and questions about given ones."""

from __future__ import annotations

import ast
from typing import Any

from headrace.transactions.lowering.lowered import EMITTED

_CHANGES = {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "add", "discard", "setdefault", "update"}
"""Methods that change a container."""


def written_place(node: ast.AST) -> ast.expr | None:
    """The attribute that a node writes to: by assignment, to an element, or by a method."""
    place: ast.AST | None = None
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
        place = node
    elif isinstance(node, ast.AugAssign):
        place = node.target
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        place = node.func.value
    while isinstance(place, ast.Subscript) or (isinstance(place, ast.Attribute) and not isinstance(place.value, ast.Name)):
        place = place.value
    return place if isinstance(place, ast.expr) else None


def loaded(node: ast.AST) -> set[str]:
    """Names that are read, anywhere inside."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def may_be_none(node: ast.expr) -> bool:
    """Whether a value is written as None, or as None under a condition."""
    return is_none(node) or (isinstance(node, ast.IfExp) and (may_be_none(node.body) or may_be_none(node.orelse)))


def emitted(column: str, value: ast.expr, node: ast.AST) -> ast.stmt:
    return located(ast.Assign([ast.Attribute(ast.Name(EMITTED, ast.Load()), column, ast.Store())], value), node)


def returning(value: int, node: ast.AST) -> ast.stmt:
    return located(ast.Return(ast.Constant(value)), node)


def located(made: Any, node: ast.AST) -> Any:
    """Give new nodes that have no place in the source yet the place of another node."""
    for each in ast.walk(made):
        if "lineno" in each._attributes and not hasattr(each, "lineno"):
            ast.copy_location(each, node)
    return made


__all__ = ["emitted", "is_none", "loaded", "located", "may_be_none", "returning", "written_place"]
