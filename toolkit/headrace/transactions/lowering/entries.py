"""Entries that reading creates: the first read of a key in a map of arrays or records puts zeros there.

Where ``e.vehicle in seen.m`` is true, reading ``seen.m[e.vehicle]`` creates nothing: such conditions are followed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Entry(NamedTuple):
    """A key that a map has: both as they are written, and the names in them."""

    place: str
    key: str
    names: frozenset[str]


_PLAIN = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)


class Entries:
    """Which entries reading creates, and what conditions say of them.

    Parameters
    ----------
    is_map : callable
        Whether an expression is a column that is such a map.
    event : str
        The event's name: its columns stay what they are.
    """

    def __init__(self, is_map: Callable[[ast.AST], bool], event: str):
        self._is_map, self._event = is_map, event

    def made(self, node: ast.AST, there: frozenset[Entry]) -> ast.Subscript | None:
        """The first entry that evaluating an expression may create; `there`: those that are known to exist."""
        if isinstance(node, ast.BoolOp):
            says = self.says if isinstance(node.op, ast.And) else self.denies
            for value in node.values:
                if (found := self.made(value, there)) is not None:
                    return found
                there |= says(value)
            return None
        if isinstance(node, ast.IfExp):
            ways = (node.test, there), (node.body, there | self.says(node.test)), (node.orelse, there | self.denies(node.test))
            return next((found for part, known in ways if (found := self.made(part, known)) is not None), None)
        if isinstance(node, ast.Subscript) and self._is_map(node.value):
            if _entry(node.value, node.slice) not in there:
                return node
        return next((found for part in ast.iter_child_nodes(node) if (found := self.made(part, there)) is not None), None)

    def says(self, test: ast.expr) -> frozenset[Entry]:
        """The entries known to exist where a condition holds."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.denies(test.operand)
        return frozenset(self._of(test, ast.In, ast.And))

    def denies(self, test: ast.expr) -> frozenset[Entry]:
        """The entries known to exist where a condition does not hold."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.says(test.operand)
        return frozenset(self._of(test, ast.NotIn, ast.Or))

    def _of(self, test: ast.expr, asked: type[ast.cmpop], joined: type[ast.boolop]) -> Iterator[Entry]:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, joined):
            for value in test.values:
                yield from self.says(value) if joined is ast.And else self.denies(value)
        elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], asked):
            (place,) = test.comparators
            if self._is_map(place) and self._stays(test.left):
                yield _entry(place, test.left)

    def _stays(self, key: ast.AST) -> bool:
        """Whether a key can change only by an assignment to a name."""
        if isinstance(key, ast.Attribute):
            return isinstance(key.value, ast.Name) and key.value.id == self._event
        return isinstance(key, _PLAIN) and all(map(self._stays, ast.iter_child_nodes(key)))


def without(there: frozenset[Entry], names: set[str]) -> frozenset[Entry]:
    """What is still known when these names have been assigned."""
    return frozenset(entry for entry in there if not names & entry.names)


def _entry(place: ast.expr, key: ast.expr) -> Entry:
    names = {node.id for part in (place, key) for node in ast.walk(part) if isinstance(node, ast.Name)}
    return Entry(ast.unparse(place), ast.unparse(key), frozenset(names))


__all__ = ["Entries", "Entry", "without"]
