"""Inference of which expressions of a user function are strings or containers; the rest are numbers, typed by the compiler.

A generated function represents a string by its id and a container by the place of its
head: both are integers there. So the permitted operations are decided here, before
the text is written, and others are refused with the user's line.

The *static kind* of an expression is one of

==================================  ====================================================
``"number"``                        an integer, float or bool
``"string"``
``"list of strings"``               a list column of a tuple: an array of ids
a kind of `headrace.codegen.kinds`  a container, or a record in a map
a tuple of static kinds             a tuple, such as what ``d.items()`` gives in a loop
==================================  ====================================================
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.codegen.bindings import (
    Binding,
    ContainerBinding,
    FieldBinding,
    HostKernel,
    ListBinding,
    Unreadable,
)
from headrace.codegen.capture import CapturedFunction
from headrace.codegen.kinds import Array, ListOf, MapOf, Record, SetOf, scalar
from headrace.codegen.reducers import UNDECIDED

Static = Any
TEXT_WORK = "do it before: in Spark, or in an expression, as in .select(..., part=hr.col(...))"
TEXTS = "list of strings"
"""The static kind of a list column of strings, and the kind of its binding. Functions can only read it."""
NUMBERS = "list of numbers"
"""The kind of the binding of a list column of numbers, which is an array."""
_CONTAINERS = (Array, ListOf, SetOf, MapOf)


def is_container(kind: Static) -> bool:
    return isinstance(kind, _CONTAINERS)


def static_of(kind: Any) -> Static:
    """Return the static kind of a value of a kind, as kept in a state or emitted."""
    known = scalar(kind)
    if kind == TEXTS:
        return kind
    if known is None:
        return kind if kind is not None and not isinstance(kind, str) else "number"
    return "string" if known.in_functions == "string" else "number"


def element_of(kind: Static) -> Static:
    """Return the static kind of what a loop over a container gives."""
    return static_of(kind.key if isinstance(kind, MapOf) else kind.kind)


def said(kind: Static) -> str:
    """Return a static kind as error texts name it."""
    if isinstance(kind, tuple):
        return "a tuple"
    return f"a {kind}" if isinstance(kind, str) else repr(kind)


class Inference:
    """The static kinds of the expressions of one function, as it is called.

    Parameters
    ----------
    captured : CapturedFunction
    roles : mapping of str to str
        Parameter -> its role.
    host : HostKernel
    given : mapping
        Parameters that stay parameters -> static kind of their arguments.
    returned : dict
        Static kinds that helpers are known to return, by how they are called; grows.
    """

    def __init__(
        self,
        captured: CapturedFunction,
        roles: Mapping[str, str],
        host: HostKernel,
        given: Mapping[str, Static],
        returned: dict[tuple, Static],
    ):
        self._captured, self._roles, self._host, self._known = captured, dict(roles), host, returned
        self.names: dict[str, Static] = dict(given)
        binding = [node for node in ast.walk(captured.node) if isinstance(node, ast.Assign | ast.AnnAssign | ast.For)]
        self._stored = self._loops_over_tuples(ast.walk(captured.node))
        for name, default in captured.defaults.items():
            if name not in self.names and name not in roles:
                self.names[name] = self.of(default)
        known = None
        while known != self.names:
            known = dict(self.names)
            for node in binding:
                self._bind(node)
        self._binding_nodes = binding
        self._number_lists: set[str] = set()
        self.note_numbers(())

    def note_numbers(self, given: Iterable[str]) -> None:
        """Find the names that stand for list columns of numbers; `given`: parameters that do."""
        pairs = [(target, node) for node in self._binding_nodes if isinstance(node, ast.Assign) for target in node.targets]
        names = {*given, *(target.id for target, _ in pairs if isinstance(target, ast.Name))}
        self._number_lists = set(given)
        count = -1
        while count != len(self._number_lists):
            count = len(self._number_lists)
            others = {
                name.id
                for target, node in pairs
                if not self.is_numbers(node.value)
                for name in ast.walk(target)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
            self._number_lists = names - others

    def is_numbers(self, node: ast.AST) -> bool:
        """Whether this is a list column of numbers, a slice of one, or a name for either: an array that is read in place."""
        if isinstance(node, ast.Name):
            return node.id in self._number_lists
        if isinstance(node, ast.IfExp):
            return self.is_numbers(node.body) and self.is_numbers(node.orelse)
        if isinstance(node, ast.BoolOp):
            return all(map(self.is_numbers, node.values))
        if isinstance(node, ast.Subscript):
            return isinstance(node.slice, ast.Slice) and self.is_numbers(node.value)
        binding = self._binding(node)
        return isinstance(binding, FieldBinding) and binding.kind == NUMBERS

    def _loops_over_tuples(self, nodes: Iterable[ast.AST]) -> dict[str, ListBinding]:
        found = {}
        for node in nodes:
            if isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name):
                binding = self._binding(node.iter)
                if isinstance(binding, ListBinding):
                    found[node.target.id] = binding
        return found

    def _binding(self, node: ast.AST) -> Binding | None:
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            return None
        role = self._roles.get(node.value.id)
        if role in self._host.objects:
            return self._host.objects[role].get(node.attr)
        stored = getattr(self, "_stored", {}).get(node.value.id)
        return None if stored is None else stored.fields.get(node.attr)

    def _is_no_field(self, node: ast.Attribute) -> bool:
        """Whether it is like a field of a parameter or a kept tuple, which has none of this name."""
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        has_fields = self._roles.get(name) in self._host.objects or name in getattr(self, "_stored", {})
        return has_fields and self._binding(node) is None

    # -- names

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, self.of(node.value), node)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assign(node.target, self.of(node.value), node)
        elif isinstance(node, ast.For) and not isinstance(self._binding(node.iter), ListBinding):
            self._assign(node.target, self.item_of(node.iter), node)

    def _assign(self, target: ast.expr, kind: Static, node: ast.AST) -> None:
        if kind is None:
            return
        if isinstance(target, ast.Tuple | ast.List):
            parts = kind if isinstance(kind, tuple) else [None if kind is None else "number"] * len(target.elts)
            if kind == "string":
                raise self._captured.error(f"{ast.unparse(target)}: a string cannot be taken apart; {TEXT_WORK}", node)
            for part, one in zip(target.elts, parts, strict=False):
                self._assign(part, one, node)
            return
        if not isinstance(target, ast.Name) or target.id in self._roles:
            return
        before = self.names.setdefault(target.id, kind)
        if before != kind:
            raise self._captured.error(
                f"{target.id!r} is {said(kind)} here and {said(before)} elsewhere: use two names", target
            )

    # -- expressions

    def of(self, node: ast.expr) -> Static:
        """Return the static kind of an expression; None if it depends on a name whose kind is not known yet."""
        method = getattr(self, f"_of_{type(node).__name__}", None)
        return "number" if method is None else method(node)

    def _of_Constant(self, node: ast.Constant) -> Static:
        if node.kind == UNDECIDED:
            return None
        return "string" if isinstance(node.value, str) else "number"

    def _of_JoinedStr(self, node: ast.JoinedStr) -> Static:
        return "string"

    def _of_Name(self, node: ast.Name) -> Static:
        role = self._roles.get(node.id)
        if role is not None:
            return self._host.kinds.get(role, "number")
        if node.id in self.names:
            return self.names[node.id]
        constant = self._captured.constants.get(node.id)
        if isinstance(constant, ast.Constant | ast.Tuple):
            return self.of(constant)
        return None if constant is None and node.id not in self._captured.helpers else "number"

    def _of_Attribute(self, node: ast.Attribute) -> Static:
        binding = self._binding(node)
        if isinstance(binding, ContainerBinding):
            return binding.kind
        if isinstance(binding, FieldBinding):
            return static_of(binding.kind)
        if isinstance(binding, Unreadable) or self._is_no_field(node):
            return None  # refused where it is rewritten
        of_value = self.of(node.value) if isinstance(node.value, ast.Subscript | ast.Name) else None
        if isinstance(of_value, Record):
            return static_of(dict(of_value.fields).get(node.attr))
        return "number"

    def _of_Tuple(self, node: ast.Tuple) -> Static:
        parts = tuple(map(self.of, node.elts))
        return None if None in parts else "number" if set(parts) <= {"number"} else parts

    def _of_IfExp(self, node: ast.IfExp) -> Static:
        return self._same(node.body, node.orelse, node)

    def _of_BoolOp(self, node: ast.BoolOp) -> Static:
        kinds = list(map(self.of, node.values))
        return None if None in kinds else "string" if set(kinds) == {"string"} else "number"

    def _same(self, one: ast.expr, other: ast.expr, node: ast.AST) -> Static:
        kinds = self.of(one), self.of(other)
        if None in kinds:
            return kinds[0] or kinds[1]
        if kinds[0] != kinds[1]:
            raise self._captured.error(f"{ast.unparse(node)}: {said(kinds[0])} or {said(kinds[1])}: give one kind", node)
        return kinds[0]

    def _of_Subscript(self, node: ast.Subscript) -> Static:
        kind = self.of(node.value)
        if isinstance(node.slice, ast.Slice):
            return ListOf(kind.kind) if isinstance(kind, ListOf | Array) else kind
        if isinstance(kind, ListOf | Array):
            return static_of(kind.kind)
        if isinstance(kind, MapOf):
            return static_of(kind.value)
        if kind == TEXTS:
            return "string"
        if isinstance(kind, tuple):
            place = node.slice
            if isinstance(place, ast.UnaryOp) and isinstance(place.op, ast.USub):
                place = place.operand
            at = place.value if isinstance(place, ast.Constant) and isinstance(place.value, int) else None
            if at is not None:
                index = at if place is node.slice else -at
                if not -len(kind) <= index < len(kind):
                    raise self._captured.error(
                        f"{ast.unparse(node)}: there is no such part; the last one is [{len(kind) - 1}]", node
                    )
                return kind[index]
            return kind[0] if len(set(kind)) == 1 else "number"
        return None if kind is None else "number"

    def _of_Call(self, node: ast.Call) -> Static:
        if isinstance(node.func, ast.Attribute):
            owner = self.of(node.func.value)
            if isinstance(owner, MapOf) and node.func.attr in ("get", "pop", "setdefault"):
                return static_of(owner.value)
            if isinstance(owner, ListOf) and node.func.attr == "pop":
                return static_of(owner.kind)
            if isinstance(owner, ListOf) and node.func.attr == "copy":
                return owner
            return "number"
        if not isinstance(node.func, ast.Name):
            return "number"
        helper = self._captured.helpers.get(node.func.id)
        if helper is not None:
            return self._returned(helper, node)
        name = ast.unparse(self._captured.constants.get(node.func.id, node.func))
        if name in ("sorted", "list") and node.args:
            kind = self.of(node.args[0])
            if is_container(kind) or self.is_view(node.args[0]):
                return ListOf(self.kept_by(node.args[0]))
        if name in ("min", "max") and len(node.args) > 1:
            kinds = [self.of(argument) for argument in node.args]
            return None if None in kinds else "string" if "string" in kinds else "number"
        if name in ("min", "max") and node.args:
            kind = self.of(node.args[0])
            if is_container(kind) or self.is_view(node.args[0]):
                return self.item_of(node.args[0])
        return "number"

    def _returned(self, helper: CapturedFunction, node: ast.Call) -> Static:
        roles, given = self.roles_of(helper, node), self.given_to(helper, node)
        key = id(helper), tuple(roles.items()), tuple(given.items())
        if key not in self._known:
            self._known[key] = self._find_returned(helper, roles, given)
        return self._known[key]

    def _find_returned(self, helper: CapturedFunction, roles: Mapping[str, str], given: Mapping[str, Static]) -> Static:
        inner = Inference(helper, roles, self._host, given, self._known)
        returns = [n.value for n in ast.walk(helper.node) if isinstance(n, ast.Return) and n.value is not None]
        kinds = {inner.of(value) for value in returns} - {None}
        if len(kinds) > 1:
            raise helper.error(f"returns {' or '.join(sorted(map(said, kinds)))}: give one kind")
        return next(iter(kinds), "number")

    def given_to(self, helper: CapturedFunction, node: ast.Call) -> dict[str, Static]:
        """Return the static kinds of the arguments of a call, by parameter."""
        given = dict(zip(helper.parameters, node.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
        roles = self.roles_of(helper, node)
        kinds = {name: self.of(value) for name, value in given.items() if name not in roles}
        return {name: kind for name, kind in kinds.items() if kind is not None}

    def roles_of(self, helper: CapturedFunction, node: ast.Call) -> dict[str, str]:
        """Return the parameters of a helper whose argument is a parameter with a role."""
        given = dict(zip(helper.parameters, node.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
        found = {}
        for name, value in given.items():
            role = self._roles.get(value.id) if isinstance(value, ast.Name) else None
            if role is not None and (role in self._host.objects or role == "emit"):
                found[name] = role
        return found

    # -- what loops give

    def item_of(self, node: ast.expr) -> Static:
        """Return the static kind of what a loop over an expression gives."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = ast.unparse(self._captured.constants.get(node.func.id, node.func))
            if name == "enumerate" and node.args:
                item = self.item_of(node.args[0])
                return None if item is None else ("number", item)
            if name == "zip":
                items = tuple(map(self.item_of, node.args))
                return None if None in items else items
            if name == "reversed" and node.args:
                return self.item_of(node.args[0])
        if self.is_view(node):
            assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            owner = self.of(node.func.value)
            key, value = static_of(owner.key), static_of(owner.value)
            return {"items": (key, value), "keys": key, "values": value}[node.func.attr]
        if isinstance(node, ast.Tuple | ast.List):
            kinds = {self.of(part) for part in node.elts} - {None}
            if len(kinds) > 1:
                raise self._captured.error(f"{ast.unparse(node)}: {' and '.join(sorted(map(said, kinds)))} mixed", node)
            return next(iter(kinds), "number")
        kind = self.of(node)
        if is_container(kind):
            return element_of(kind)
        if kind == TEXTS:
            return "string"
        if kind == "string":
            raise self._captured.error(f"{ast.unparse(node)}: a loop over a string; {TEXT_WORK}", node)
        if isinstance(kind, tuple):
            return kind[0] if len(set(kind)) == 1 else "number"
        return None if kind is None else "number"

    def kept_by(self, node: ast.expr) -> str:
        """Return the kind of the elements of a container, or of its keys or values."""
        if self.is_view(node):
            assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            owner = self.of(node.func.value)
            return owner.value if node.func.attr == "values" else owner.key
        kind = self.of(node)
        return kind.key if isinstance(kind, MapOf) else kind.kind

    def is_view(self, node: ast.AST) -> bool:
        """Whether this is the items, keys or values of a map."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("items", "keys", "values")
            and not node.args
            and isinstance(self.of(node.func.value), MapOf)
        )
