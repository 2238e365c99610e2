"""Rewriting calls of helpers, which are copied in, of builtins, and of emit."""

from __future__ import annotations

import ast
import dataclasses
import re

from headrace.codegen.capture import CapturedFunction
from headrace.codegen.containers.places import Place
from headrace.codegen.inference import is_container, said
from headrace.codegen.kinds import Record
from headrace.codegen.printing import PLACE, checked_print
from headrace.codegen.rewriting.fields import Fields
from headrace.codegen.rewriting.lines import placed_at
from headrace.codegen.rewriting.numbers import literal, may_be_narrow
from headrace.codegen.trees import copied
from headrace.codegen.trees import statements as from_text
from headrace.names import instead


class Calls(Fields):
    """Rewriting of calls."""

    passes: tuple[str, ...]
    """What a helper is passed beside its own parameters."""
    handed: tuple[str, ...] = ()
    """Parameters of a helper that hold the places of containers passed to it."""

    def __init__(self, captured, roles, own, name, returns, written, given, places):
        raise NotImplementedError

    def write(self) -> None:
        raise NotImplementedError

    def visit_Call(self, node: ast.Call):
        if self._is_emit(node):
            name = node.func.id if isinstance(node.func, ast.Name) else "emit"
            raise self._error(f"{name}(...) gives nothing: call it as a statement of its own", node)
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                raise self._error(f"{ast.unparse(argument)} in a call: give the arguments one by one", node)
        if isinstance(node.func, ast.Name) and node.func.id in self.captured.helpers:
            return self._call_helper(node, self.captured.helpers[node.func.id])
        stored = self._list_of(node.args[0]) if len(node.args) == 1 and not node.keywords else None
        if stored is not None and isinstance(node.func, ast.Name) and self._means(node.func.id, "len"):
            self.written.reads.setdefault(stored.role, set())
            return self._text(stored.count, node)
        written = self._written_float(node)
        if written is not None:
            return written
        if isinstance(node.func, ast.Name) and self._means(node.func.id, "print"):
            return self._printed(node)
        kept = self._kept_call(node)
        if kept is not None:
            return kept
        if len(node.args) == 3 and isinstance(node.func, ast.Name) and self._means(node.func.id, "pow"):
            base, exponent, modulus = map(ast.unparse, node.args)
            advice = f"write {base} ** {exponent} % {modulus} where the power fits in 64 bits, else a loop with remainders"
            raise self._error(f"{ast.unparse(node)} cannot be compiled: {advice}", node)
        is_narrow = len(node.args) == 1 and may_be_narrow(node.args[0])
        self.generic_visit(node)
        return self._checked_call(node, is_narrow) or node

    def _written_float(self, node: ast.Call) -> ast.expr | None:
        """Return the number that ``float("inf")`` and the like mean; None for any other call."""
        text = node.args[0].value if len(node.args) == 1 and isinstance(node.args[0], ast.Constant) else None
        if not (isinstance(text, str) and isinstance(node.func, ast.Name) and self._means(node.func.id, "float")):
            return None
        try:
            return self._text(literal(float(text)), node)
        except ValueError:
            return None  # refused like any other string

    def _printed(self, node: ast.Call) -> ast.expr:
        """Rewrite ``print`` of numbers, and of text literals in the call."""
        if node.keywords:
            raise self._error(f"{ast.unparse(node)}: {node.keywords[0].arg}= of print cannot be compiled; leave it out", node)
        line: list[str] = []
        values: list[ast.expr] = []
        for argument in node.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                line.append(argument.value)
                continue
            kind = self.inference.of(argument)
            if kind != "number":
                advice = "print numbers, and texts that stand in the call"
                raise self._error(f"{ast.unparse(node)}: {ast.unparse(argument)} is {said(kind)}; {advice}", node)
            line.append(PLACE)
            values.append(self.visit(argument))
        given = [ast.Constant(" ".join(line)), ast.Tuple(values, ast.Load())]
        return ast.fix_missing_locations(self._number_call(checked_print, given, node))

    def _means(self, name: str, builtin: str) -> bool:
        """Whether a name, as captured, is this builtin."""
        constant = self.captured.constants.get(name)
        return isinstance(constant, ast.Name) and constant.id == builtin

    def _call_helper(self, node: ast.Call, helper: CapturedFunction) -> ast.expr:
        given: dict[str, ast.expr] = {}
        if len(node.args) > len(helper.parameters):
            raise self._error(f"{helper.name} takes {len(helper.parameters)} parameters", node)
        given.update(zip(helper.parameters, node.args, strict=False))
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg not in helper.parameters or keyword.arg in given:
                raise self._error(f"{ast.unparse(node)}: {helper.name} has no such parameter to give", node)
            given[str(keyword.arg)] = keyword.value
        missing = [p for p in helper.parameters if p not in given and p not in helper.defaults]
        if missing:
            raise self._error(f"{ast.unparse(node)}: {', '.join(missing)} is not given", node)
        roles = {}
        for parameter, argument in given.items():
            role = self.roles.get(argument.id) if isinstance(argument, ast.Name) else None
            if role is not None and role in self.objects and role not in self.host.objects:
                text = ast.unparse(argument)
                raise self._error(f"{text!r} is a stored tuple: give {helper.name} its values, as in {text}.ts", node)
            if role is not None and (role in self.host.objects or role == "emit"):
                roles[parameter] = role
        kinds = self.inference.given_to(helper, node)
        for parameter, kind in kinds.items():
            if isinstance(kind, Record):
                text = ast.unparse(given[parameter])
                advice = f"give {helper.name} its fields, as in {text}.{kind.fields[0][0]}"
                raise self._error(f"{ast.unparse(node)}: {text} is {said(kind)}: {advice}", node)
        places = {p: self._given_place(given[p], node) for p, kind in kinds.items() if is_container(kind)}
        # A place that depends on a loop of this function is passed to the helper as a number.
        handed = {p: f"handed_{number}" for number, p in enumerate(places) if places[p].is_local}
        where = [from_text(f"_ = {places[p].at}", node)[0].value for p in handed]  # type: ignore[attr-defined]
        places |= {p: dataclasses.replace(places[p], at=name) for p, name in handed.items()}
        own = tuple(p for p in helper.parameters if p in given and p not in roles and p not in places)
        # Compared by text, not by identity: functions of one name and line may differ in their frozen values.
        frozen = tuple(sorted((name, ast.dump(value)) for name, value in helper.constants.items()))
        key = (helper.file, helper.line, helper.node.col_offset, frozen, tuple(roles.items()), own)
        numbers = tuple(p for p in own if self.inference.is_numbers(given[p]))
        key = (*key, tuple(kinds.items()), tuple(places.items()), numbers)
        if key not in self.written.helpers:
            plain = re.sub(r"\W", "", helper.name) or "helper"
            name = f"{self.host.name}_{plain}"
            while name in self.written.markers:
                name += "_"
            # A copy: a helper is rewritten in place, and another function may call it as well.
            own_copy = dataclasses.replace(helper, node=copied(helper.node))
            called = type(self)(own_copy, roles, own, name, "helper", self.written, kinds, places)
            called.handed = tuple(handed.values())
            called.inference.note_numbers(numbers)
            self.written.markers[name] = own_copy  # reserves the name, while the helpers that it calls are named
            called.write()
            self.written.helpers[key] = name, called.passes
        name, passes = self.written.helpers[key]
        arguments: list[ast.expr] = [*(ast.Name(p, ast.Load()) for p in passes), *where]
        arguments += [self.visit(given[p]) for p in own]
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), arguments, []), node)

    def _given_place(self, argument: ast.expr, node: ast.Call) -> Place:
        """Return the container passed to a helper: one with a name, on which the helper then works."""
        place = self._place(argument) if isinstance(argument, ast.Name | ast.Attribute) else None
        if place is None:
            raise self._error(f"{ast.unparse(node)}: give {ast.unparse(argument)} a name in a statement before", node)
        self._note_write(place)
        return place

    # -- emit

    def _is_emit(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and self.roles.get(node.func.id) == "emit"
        )

    def _emit(self, node: ast.expr) -> list[ast.stmt]:
        assert isinstance(node, ast.Call)
        fields = self.host.emits
        name = ast.unparse(node.func)
        if fields is None:
            raise self._error(f"{name} is not available here", node)
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise self._error(f"{name}(*...) or {name}(**...): give each output field by name", node)
        in_place = [field_ for field_ in fields if field_ not in self.host.left_out]
        names = ", ".join(in_place)
        if len(node.args) > len(in_place):
            raise self._error(f"{name} gives {len(node.args)} values: the output fields are {names}", node)
        given: dict[str, ast.expr] = dict(zip(fields, node.args, strict=False))
        for keyword in node.keywords:
            if keyword.arg not in fields:
                known = instead(keyword.arg, fields, "the output fields", "{}")
                hint = self.host.hints.get(keyword.arg, f"there is no such output field; {known}")
                raise self._error(f"{name}({keyword.arg}=...): {hint}", keyword.value)
            if keyword.arg in given:
                raise self._error(f"{name}({keyword.arg}=...): the field is given twice", keyword.value)
            given[keyword.arg] = keyword.value
        missing = [field_ for field_ in in_place if field_ not in given]
        if missing:
            absent = ", ".join(missing)
            hint = "".join(f"; {self.host.hints[field_]}" for field_ in missing if field_ in self.host.hints)
            raise self._error(f"{name}(...): {absent} is missing; the output fields are {names}{hint}", node)
        self.written.writes.setdefault("emit", set()).update(given)
        statements: list[ast.stmt] = []
        values: dict[str, str] = {}
        # In the order written, as Python evaluates them.
        for field_, argument in given.items():
            kind = fields[field_]
            value = self._emitted(kind, argument, f"{name}({field_}=...)")
            if value is None:
                value = self.visit(argument)
                if kind is not None:
                    value = self._checked(kind, value)
            values[field_] = self._temporary("emit")
            statements.append(ast.Assign([ast.Name(values[field_], ast.Store())], value))
        in_order = [values[field_] if field_ in given else self.host.left_out[field_] for field_ in fields]
        values |= {field_: self.host.left_out[field_] for field_ in fields if field_ not in given}
        text = self.host.emit.format(*in_order, **(values | {"values": ", ".join(in_order)}))
        return [*placed_at(statements, node), *from_text(text, node)]
