"""Rewriting names and attributes: what a parameter, a field, a local variable or a constant stands for."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping

from headrace.codegen.bindings import (
    Binding,
    ContainerBinding,
    FieldBinding,
    ListBinding,
    Unreadable,
    rename_before,
)
from headrace.codegen.kinds import scalar
from headrace.codegen.python_numbers.tuples import checked_among
from headrace.codegen.rewriting.lines import placed_at
from headrace.codegen.rewriting.numbers import Numbers
from headrace.codegen.text import is_attribute
from headrace.codegen.trees import statements
from headrace.names import closest, listed

_OF_TIMES = frozenset((
    "year", "month", "day", "hour", "minute", "second", "microsecond", "weekday", "dayofweek", "date", "time", "timestamp",
    "days", "seconds", "total_seconds", "dt",
))  # fmt: skip
"""What datetimes and timedeltas have in Python and pandas."""


class Fields(Numbers):
    """Rewriting of reads and assignments."""

    objects: dict[str, Mapping[str, Binding]]
    """Role -> its fields. The stored tuple that a loop is at has a role, too."""
    loop_variables: set[str]
    """Variables of loops over stored tuples: they stand for a tuple inside the loop, and for nothing outside."""
    temporaries: Counter[str]
    """Prefix -> how many temporaries have it."""

    def _object_of(self, node: ast.AST) -> str | None:
        """Return the role of x in ``x.field``, if x is a parameter with fields."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            role = self.roles.get(node.value.id)
            if role in self.objects:
                return role
        return None

    def _list_of(self, node: ast.AST) -> ListBinding | None:
        """Return the binding of ``x.field``, if that holds tuples."""
        role = self._object_of(node)
        binding = self.objects[role].get(node.attr) if role and isinstance(node, ast.Attribute) else None
        return binding if isinstance(binding, ListBinding) else None

    def _called(self, role: str) -> str:
        """Return a role as messages name it."""
        return role if role in self.host.objects else "a stored tuple"

    @staticmethod
    def _named(fields: Mapping[str, Binding]) -> str:
        """Return the names of the fields that are there."""
        return ", ".join(name for name, one in fields.items() if not (isinstance(one, Unreadable) and one.is_absent)) or "none"

    def _binding(self, node: ast.Attribute, role: str) -> FieldBinding:
        fields = self.objects[role]
        binding = fields.get(node.attr)
        if binding is None:
            unnamed = [name for name, one in fields.items() if isinstance(one, Unreadable) and not is_attribute(name)]
            near, names = closest(node.attr, [name for name in fields if name not in unnamed]), self._named(fields)
            if unnamed:
                one = rename_before(closest(node.attr, unnamed) or unnamed[0], "it" if len(unnamed) == 1 else "one")
                names += f"; {listed([*map(repr, unnamed)])} cannot be written after a dot: {one}"
            meant = f"did you mean {node.value.id}.{near}? " if near and isinstance(node.value, ast.Name) else ""
            what = self._called(role)
            raise self._error(f"{ast.unparse(node)}: {what} has no field {node.attr!r}; {meant}it has {names}", node)
        if isinstance(binding, Unreadable):
            raise self._error(f"{ast.unparse(node)}: {binding.reason}", node)
        if isinstance(binding, ListBinding):
            text = ast.unparse(node)
            keep = f"{text} = [t for t in {text} if ...]"
            raise self._error(f"{text} can only be used as `for t in {text}:`, `len({text})` and `{keep}`", node)
        if isinstance(binding, ContainerBinding):
            raise self._bare(node, binding.kind)
        return binding

    def visit_Attribute(self, node: ast.Attribute):
        role = self._object_of(node)
        if role is None:
            if isinstance(node.value, ast.Name) and self.roles.get(node.value.id) is not None:
                raise self._error(f"{ast.unparse(node)}: {node.value.id} is a value without fields", node)
            if isinstance(node.value, ast.Name) and node.value.id in self.captured.helpers:
                raise self._error(f"{ast.unparse(node)}: attributes of functions cannot be compiled", node)
            kept = self._kept_attribute(node)
            if kept is not None:
                return kept
            if node.attr in _OF_TIMES and self._object_of(node.value) is not None:
                field = ast.unparse(node.value)
                raise self._error(
                    f"{ast.unparse(node)}: times are integers here, in the unit of their column; of microseconds"
                    f" {field} // 3_600_000_000 % 24 is the hour, in UTC", node,
                )  # fmt: skip
            result = self.generic_visit(node)
            dotted = ast.unparse(result)
            if dotted.startswith(("np.random.", "random.")):
                self.written.impure.add(dotted)
            return result
        binding = self._binding(node, role)
        self.written.reads.setdefault(role, set()).add(node.attr)
        value = self._text(binding.read, node)
        if binding.valid is not None:
            self.written.checks.add("checked_present")
            present = ast.Name("checked_present", ast.Load())
            return ast.copy_location(ast.Call(present, [value, self._text(binding.valid, node)], []), node)
        return value

    def visit_Name(self, node: ast.Name):
        name = node.id
        if name in self.roles:
            role = self.roles[name]
            if role in self.objects:
                raise self._error(f"{name!r} can only be used as {name}.field: it has {self._named(self.objects[role])}", node)
            if role == "emit":
                raise self._error(f"{name!r} can only be called, as a statement of its own", node)
            value = self.host.values[role]
            if isinstance(value, Unreadable):
                raise self._error(f"{name}: {value.reason}", node)
            return self._text(value, node)
        if name in self.loop_variables:
            raise self._error(f"{name!r} is known only inside its loop over stored tuples", node)
        if name in self.places:
            raise self._bare(node, self.places[name].kind)
        if name in self.names:
            return ast.copy_location(ast.Name(self.names[name], node.ctx), node)
        if name in self.captured.constants:
            text = ast.unparse(self.captured.constants[name])
            if text.startswith(("np.random.", "random.")):
                self.written.impure.add(text)  # as in: from random import gauss
            return self._text(text, node)
        if name in self.captured.helpers:
            raise self._error(f"{name!r} is a function and can only be called", node)
        # What is left is a parameter with a default.
        return self._text(ast.unparse(self.captured.defaults[name]), node)

    def visit_Compare(self, node: ast.Compare):
        for op, other in zip(node.ops, node.comparators, strict=True):
            is_identity = isinstance(op, ast.Is | ast.IsNot)
            is_singleton = isinstance(other, ast.Constant) and (other.value is None or isinstance(other.value, bool))
            if is_identity and not is_singleton:
                raise self._error(f"{ast.unparse(node)}: numbers have no identity; write == or !=", node)
        if len(node.ops) == 1 and is_none(node.comparators[0]):
            role = self._object_of(node.left)
            if role is not None and isinstance(node.ops[0], ast.Is | ast.IsNot):
                assert isinstance(node.left, ast.Attribute)
                binding = self._binding(node.left, role)
                self.written.reads.setdefault(role, set()).add(node.left.attr)
                if binding.unasked is not None:
                    raise self._error(f"{ast.unparse(node)}: {binding.unasked}", node)
                absent = isinstance(node.ops[0], ast.Is)
                if binding.valid is None:
                    return ast.copy_location(ast.Constant(not absent), node)
                return self._text(f"not ({binding.valid})" if absent else f"({binding.valid})", node)
            if role is not None:
                raise self._error(f"{ast.unparse(node)}: write `is None` or `is not None`", node)
        return self._kept_compare(node) or self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript):
        kept = self._kept_subscript(node)
        if kept is not None:
            return kept
        value = self.captured.constants.get(node.value.id) if isinstance(node.value, ast.Name) else node.value
        is_whole = isinstance(node.slice, ast.Slice | ast.BinOp) or self._constant(node.slice) is not None
        self.generic_visit(node)
        if isinstance(value, ast.Tuple) and not is_whole:
            # The index may be a bool, which the compiler does not accept for a tuple.
            node.slice = ast.copy_location(ast.BinOp(node.slice, ast.Mult(), self._text("1", node)), node.slice)
        return node

    # -- assignment

    def _refuse_parameter(self, target: ast.AST) -> None:
        if isinstance(target, ast.Name) and target.id in self.roles:
            raise self._error(f"{target.id!r} is assigned: use another name for a local variable", target)

    def _targets(self, targets: list[ast.expr]) -> tuple[list[ast.expr], list[ast.stmt]]:
        """Replace fields, and all targets after the first field, by temporaries that the returned statements store."""
        after: list[ast.stmt] = []
        return [self._target(target, after) for target in targets], after

    def _target(self, target: ast.expr, after: list[ast.stmt]) -> ast.expr:
        if isinstance(target, ast.Tuple | ast.List):
            return ast.copy_location(
                type(target)([self._target(each, after) for each in target.elts], ast.Store()), target
            )
        self._refuse_parameter(target)
        if isinstance(target, ast.Name) and target.id in self.loop_variables:
            raise self._error(f"{target.id!r} is a stored tuple elsewhere: use another name", target)
        if isinstance(target, ast.Subscript | ast.Attribute):
            name = self._temporary("store")
            kept = self._kept_target(target, name)
            if kept is not None:
                after += kept
                return ast.copy_location(ast.Name(name, ast.Store()), target)
            self.temporaries["store"] -= 1
        role = self._object_of(target)
        if role is None and not after:
            return self.visit(target)
        if role is None:  # in the order written: state.xs[i], i = t.x, i + 1 stores at the old `i`
            name = self._temporary("store")
            after += placed_at([ast.Assign([self.visit(target)], ast.Name(name, ast.Load()))], target)
            return ast.copy_location(ast.Name(name, ast.Store()), target)
        assert isinstance(target, ast.Attribute)
        binding = self._binding(target, role)
        if binding.write is None:
            raise self._error(
                f"{ast.unparse(target)} is assigned: {self._called(role)} cannot be changed; use a local variable",
                target,
            )
        self.written.writes.setdefault(role, set()).add(target.attr)
        name = self._temporary("store")
        value: ast.expr = ast.Name(name, ast.Load())
        if binding.kind is not None:
            value = self._checked(binding.kind, value)
        (store,) = statements(f"{binding.write} = 0", target)
        assert isinstance(store, ast.Assign)
        store.value = value
        after += placed_at([store], target)
        return ast.copy_location(ast.Name(name, ast.Store()), target)

    def _checked(self, kind: str, value: ast.expr) -> ast.expr:
        if kind in ("truth", "bool") and _is_condition(value):
            return value  # so that a predicate stays an expression that vectorises
        known = scalar(kind)
        kind = kind if known is None else known.in_functions
        if kind == "string":
            return value  # an id: `inference` decides what is a string
        self.written.checks.add(f"checked_{kind}")
        call = ast.Call(ast.Name(f"checked_{kind}", ast.Load()), [value], [])
        return ast.copy_location(call, value) if hasattr(value, "lineno") else call


def _is_condition(node: ast.expr) -> bool:
    """Whether this expression always gives a bool."""
    if isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return True
    if isinstance(node, ast.BoolOp):
        return all(map(_is_condition, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor):
        return _is_condition(node.left) and _is_condition(node.right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == checked_among.__name__
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
