"""Nulls in a transaction's function: rejects the event where Python would find a row by None, or loop over one.

A kernel's variable cannot be null; a column of the event can. So a name that is only another name of a column is
replaced by the column, which is checked where a row is found. A kernel knows how many elements of a list are null, but
not which: a loop over a list that has any rejects where it begins.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection


def nulls_of(column: str) -> str:
    """The field of an event that has the number of null elements of a list column."""
    return f"None in {column}"


def with_columns_named(statements: list[ast.stmt], event: str, constants: Collection[str]) -> list[ast.stmt]:
    """Replace names of columns by the columns: ``k = e.source`` may be null, which no variable can be.

    This is done where that is the name's only value, and all uses follow in the same block; likewise where the value is one
    of two columns, under a condition on others.
    """
    statements = copy.deepcopy(statements)
    nodes = [node for statement in statements for node in ast.walk(statement)]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    stored = [node.id for node in names if not isinstance(node.ctx, ast.Load)]
    stored += [node.arg for node in nodes if isinstance(node, ast.arg)]
    for block in [block for node in [ast.Module(statements, []), *nodes] for block in _blocks(node)]:
        for at, node in enumerate(list(block)):
            if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
                continue
            name = node.targets[0].id
            behind = {id(each) for statement in block[at + 1 :] for each in ast.walk(statement)}
            uses = [each for each in names if each.id == name and each is not node.targets[0]]
            if stored.count(name) == 1 and _is_of_columns(node.value, event, constants) and all(id(u) in behind for u in uses):
                block[at] = ast.copy_location(ast.Pass(), node)
                for statement in block[at + 1 :]:
                    _Replaced(name, node.value).visit(statement)
    return statements


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    blocks = [getattr(node, name, None) for name in ("body", "orelse")]
    return [block for block in blocks if isinstance(block, list)]


def _is_of_columns(value: ast.expr, event: str, constants: Collection[str]) -> bool:
    """Whether a value is a column of the event, or one of several, chosen by others."""
    if isinstance(value, ast.IfExp):
        names = [node.id for node in ast.walk(value.test) if isinstance(node, ast.Name)]
        both = (_is_of_columns(each, event, constants) for each in (value.body, value.orelse))
        return all(name == event or name in constants for name in names) and all(both)
    return is_column(value, event)


def is_column(node: ast.AST, event: str) -> bool:
    """Whether it is ``e.column``."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == event


def lists_asked(test: ast.expr) -> set[str]:
    """The lists that have no nulls where a condition does not hold."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return set().union(*map(lists_asked, test.values))
    is_asked = isinstance(test, ast.Compare) and isinstance(test.left, ast.Attribute) and isinstance(test.ops[0], ast.NotEq)
    return {test.left.attr} if is_asked and test.left.attr == nulls_of(test.left.attr.removeprefix(nulls_of(""))) else set()


def guarded_loop(node: ast.AST) -> ast.For | None:
    """The loop over whole lists, if a node is one with the conditions around it."""
    if not (isinstance(node, ast.If) and len(node.body) == 1 and len(node.orelse) == 1 and isinstance(node.test, ast.Compare)):
        return None
    left, end = node.test.left, node.orelse[0]
    is_guard = isinstance(left, ast.Attribute) and left.attr.startswith(nulls_of("")) and isinstance(node.test.ops[0], ast.Eq)
    if not (is_guard and isinstance(end, ast.Return)):
        return None
    inner = node.body[0]
    return inner if isinstance(inner, ast.For) else guarded_loop(inner)


class _Replaced(ast.NodeTransformer):
    """Puts an expression in the place of a name."""

    def __init__(self, name: str, value: ast.expr):
        self._name, self._value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name."""
        return ast.copy_location(copy.deepcopy(self._value), node) if node.id == self._name else node
