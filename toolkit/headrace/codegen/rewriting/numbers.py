"""Rewriting operations on numbers that the compiler would treat otherwise than Python, into calls of `python_numbers`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from headrace.codegen.containers.loops import KeptValues
from headrace.codegen.python_numbers import (
    conversions,
    math_functions,
    pairs,
    powers,
    quotients,
    rounding,
    shifts,
    signs,
    sums,
)

_OPERATIONS = {
    ast.Pow: powers.checked_power,
    ast.LShift: shifts.checked_left,
    ast.RShift: shifts.checked_right,
    ast.FloorDiv: quotients.checked_floordiv,
}
_EXACT_OPERATIONS = _OPERATIONS | {
    ast.Pow: powers.checked_exact_power,
    ast.LShift: shifts.checked_exact_left,
    ast.Add: sums.checked_sum,
    ast.Sub: sums.checked_difference,
    ast.Mult: sums.checked_product,
}
"""The same with ``debug=True``."""
_FOLDED: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_MOST_BITS = 1024
"""Constants with a larger exponent or shift are not computed: they do not fit in 64 bits."""


class Numbers(KeptValues):
    """Rewriting of arithmetic."""

    @property
    def _operations(self) -> dict[type[ast.operator], Callable]:
        """Operation -> the function that checks it."""
        return _EXACT_OPERATIONS if self.host.debug else _OPERATIONS

    def _number_call(self, function: Callable, arguments: list[ast.expr], node: ast.AST) -> ast.expr:
        """Return a call of the function in `python_numbers` that replaces an operation."""
        self.written.number_checks.add(f"from {function.__module__} import {function.__name__}")
        return ast.copy_location(ast.Call(ast.Name(function.__name__, ast.Load()), arguments, []), node)

    def _constant(self, node: ast.AST) -> int | float | None:
        """Return the value in Python of an expression of constants; None for any other expression."""
        if isinstance(node, ast.Name) and node.id in self.captured.constants and node.id not in self.names:
            node = self.captured.constants[node.id]
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, int | float) else None
        if isinstance(node, ast.UnaryOp) and type(node.op) in _FOLDED:
            parts = [self._constant(node.operand)]
        elif isinstance(node, ast.BinOp) and type(node.op) in _FOLDED:
            parts = [self._constant(node.left), self._constant(node.right)]
        else:
            return None
        if None in parts:
            return None
        if isinstance(node.op, ast.Pow | ast.LShift) and isinstance(parts[1], int) and abs(parts[1]) > _MOST_BITS:
            raise self._error(f"{ast.unparse(node)}: does not fit in 64 bits", node)
        try:
            value = _FOLDED[type(node.op)](*parts)
        except (ArithmeticError, ValueError, TypeError):
            return None  # fails at run time, as in Python
        return None if isinstance(value, complex) else value

    def _folded(self, node: ast.expr) -> ast.expr | None:
        """Replace an expression of constants by its value."""
        value = self._constant(node)
        if value is None:
            return None
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise self._error(f"{ast.unparse(node)} = {value}: does not fit in 64 bits", node)
        return self._text(literal(value), node)

    def visit_Constant(self, node: ast.Constant):
        folded = self._folded(node) if type(node.value) is int and node.value >= 2**63 else None
        return super().visit_Constant(node) if folded is None else folded

    def visit_BinOp(self, node: ast.BinOp):
        folded = self._folded(node)
        if folded is not None:
            return folded
        self._refuse_operation(node, [node.left, node.right])
        right = self._constant(node.right)
        function = self._operations.get(type(node.op))
        if not self.host.debug and right is not None:
            # With these constants nothing can go wrong, except what the documentation of `operator` describes.
            if isinstance(node.op, ast.LShift | ast.RShift) and 0 <= right < 64:
                function = None
            elif isinstance(node.op, ast.FloorDiv) and right != -1:
                function = None
            elif isinstance(node.op, ast.Pow) and type(right) is int and right >= 0:
                function = None
        self.generic_visit(node)
        return node if function is None else self._number_call(function, [node.left, node.right], node)

    def visit_UnaryOp(self, node: ast.UnaryOp):
        folded = self._folded(node)
        if folded is not None:
            return folded
        if isinstance(node.op, ast.Not):
            return self._condition(node)
        self._refuse_operation(node, [node.operand])
        exact, is_narrow = self.host.debug, may_be_narrow(node.operand)
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and (exact or is_narrow):
            negative = signs.checked_exact_negative if exact else signs.checked_negative
            return self._number_call(negative, [node.operand], node)
        if isinstance(node.op, ast.Invert):
            return self._number_call(signs.checked_invert, [node.operand], node)
        return node

    def _checked_call(self, node: ast.Call, is_narrow: bool) -> ast.expr | None:
        """Replace a call of a builtin or of `math` that the compiler does not check by one that checks as Python does."""
        name = ast.unparse(node.func)
        named = {str(keyword.arg): keyword.value for keyword in node.keywords}
        if name == "math.isclose" and len(node.args) == 2 and named.keys() <= {"rel_tol", "abs_tol"}:
            tolerances = [named.get("rel_tol", ast.Constant(1e-9)), named.get("abs_tol", ast.Constant(0.0))]
            return self._number_call(rounding.checked_isclose, [*node.args, *tolerances], node)
        if name == "round" and len(node.args) == 1 and named.keys() == {"ndigits"}:
            return self._number_call(rounding.checked_round_to, [*node.args, named["ndigits"]], node)
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            return None
        if len(node.args) == 1 and name == "abs":
            exact = self.host.debug
            if not exact and not is_narrow:
                return None
            function = signs.checked_exact_magnitude if exact else signs.checked_magnitude
        elif len(node.args) == 1:
            function = conversions.CONVERSIONS.get(name) or math_functions.MATH.get(name)
        elif len(node.args) == 2:
            function = pairs.PAIRS.get(name)
            if function is powers.checked_power and self.host.debug:
                function = powers.checked_exact_power
        else:
            function = None
        return None if function is None else self._number_call(function, node.args, node)


def may_be_narrow(node: ast.expr) -> bool:
    """Whether this may be a 32-bit integer, whose negative needs 33 bits: results of arithmetic have 64."""
    return not isinstance(node, ast.Constant | ast.BinOp | ast.UnaryOp)


def literal(value: int | float) -> str:
    """Return the text of a number, which reads back as the same number."""
    if isinstance(value, float) and value != value:
        return "np.nan"
    if isinstance(value, float) and abs(value) == float("inf"):
        return "np.inf" if value > 0 else "-np.inf"
    return repr(value)
