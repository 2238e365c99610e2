"""Statements of a rewritten function, and the lines of the user's function that they come from."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence


def placed_at(statements: Sequence[ast.stmt], node: ast.AST) -> list[ast.stmt]:
    """Set the line of inserted statements to that of a node."""
    for statement in statements:
        for each in ast.walk(statement):
            ast.copy_location(each, node)
    return list(statements)


def statements_of(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Return all statements, nested ones included, in the order of their lines."""
    for statement in body:
        yield statement
        for part in ("body", "orelse"):
            yield from statements_of(getattr(statement, part, []))


def always_returns(body: Sequence[ast.stmt]) -> bool:
    """Whether every path through these statements returns or raises."""
    for statement in body:
        if isinstance(statement, ast.Return | ast.Raise):
            return True
        if isinstance(statement, ast.If) and statement.orelse:
            if always_returns(statement.body) and always_returns(statement.orelse):
                return True
        if isinstance(statement, ast.While) and ast.unparse(statement.test) in ("True", "1"):
            if not any(isinstance(inner, ast.Break) for inner in ast.walk(statement)):
                return True
    return False
