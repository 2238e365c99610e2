"""Rewrites an assignment to several names as one to each, since the other passes look at one name at a time.

``a, b = x, y`` becomes ``a = x`` and ``b = y``, and ``a = b = x`` becomes ``a = x`` and ``b = a``. Python evaluates all
values before it assigns the first: where that makes a difference, they are first given names of their own.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection

from headrace.codegen.assigned import stored_inside
from headrace.transactions.lowering.trees import loaded, located


def one_by_one(statements: list[ast.stmt], tables: Collection[str]) -> list[ast.stmt]:
    """Write assignments of several names as one of each.

    Parameters
    ----------
    statements : list of ast.stmt
        Of one function, all of them. Changed in place, too.
    tables : collection of str
        Names of tables: a row of one has no value to be kept.
    """
    parting = _Parting({n.id for each in statements for n in ast.walk(each) if isinstance(n, ast.Name)}, tables)
    return [one for statement in statements for one in parting.parted(statement)]


class _Parting(ast.NodeTransformer):
    def __init__(self, names: set[str], tables: Collection[str]):
        self._names, self._tables = names, tables

    def parted(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements that stand for one."""
        found = self.visit(statement)
        return found if isinstance(found, list) else [found]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        """The statements of a nested function are not the function's own."""
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        """An assignment."""
        target, *more = node.targets
        if more:
            if not isinstance(target, ast.Name):
                return node
            others = [ast.Assign([each], ast.Name(target.id, ast.Load())) for each in more]
            return [located(one, node) for one in (ast.Assign([target], node.value), *others)]
        pairs = _pairs(target, node.value)
        if len(pairs) == 1:
            return node
        parts = self._named(pairs) if _is_seen(pairs) else pairs
        return node if parts is None else [located(ast.Assign([to], value), node) for to, value in parts]

    def _is_row(self, value: ast.expr) -> bool:
        if isinstance(value, ast.IfExp):
            return self._is_row(value.body) and self._is_row(value.orelse)
        return isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) and value.value.id in self._tables

    def _named(self, pairs: list[tuple[ast.expr, ast.expr]]) -> list[tuple[ast.expr, ast.expr]] | None:
        """The values under names of their own, then the assignments; None if one is a row that another value reads."""
        kept: list[tuple[ast.expr, ast.expr]] = []
        given: list[tuple[ast.expr, ast.expr]] = []
        for to, value in pairs:
            if isinstance(value, ast.Constant):
                given.append((to, value))
            elif self._is_row(value):
                if not isinstance(to, ast.Name) or any(to.id in loaded(other) for _, other in pairs):
                    return None
                kept.append((to, value))
            else:
                name = next(name for number in itertools.count(1) if (name := f"given_{number}") not in self._names)
                self._names.add(name)
                kept.append((ast.Name(name, ast.Store()), value))
                given.append((to, ast.Name(name, ast.Load())))
        return [*kept, *given]


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Pairs of target and value, where both are written out."""
    both = (ast.Tuple, ast.List)
    if not (isinstance(target, both) and isinstance(value, both) and len(target.elts) == len(value.elts)):
        return [(target, value)]
    if any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts)):
        return [(target, value)]
    return [pair for one, given in zip(target.elts, value.elts, strict=True) for pair in _pairs(one, given)]


def _is_seen(pairs: list[tuple[ast.expr, ast.expr]]) -> bool:
    """Whether an earlier assignment, if made first, may change a later value."""
    stored: set[str] = set()
    is_place = False
    for to, value in pairs:
        if (is_place and not isinstance(value, ast.Constant)) or stored & loaded(value):
            return True
        is_place |= not isinstance(to, ast.Name)
        stored |= stored_inside(to)
    return False
