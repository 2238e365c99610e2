"""Rewrite a captured user function so that it works on plain arrays.

``state.chars`` becomes ``s_chars[slot]``, ``emit(chars=x)`` the statement the
kernel's template has for it, a helper is copied in with the same treatment.
The result is text: functions of arrays and integers, each line marked with the
line of the user's function that it comes from, as in ``# user_update:3``. Lines
are counted from the ``def``, so that moving a function in its file does not
change the text, hence not its hash, hence compiles nothing.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headrace.codegen import python_numbers
from headrace.codegen.assigned import check_assigned
from headrace.codegen.bindings import (
    Binding,
    ContainerBinding,
    FieldBinding,
    ListBinding,
    Opened,
    Plan,
    Unreadable,
    Written,
)
from headrace.codegen.capture import CapturedFunction
from headrace.codegen.containers.loops import KeptValues
from headrace.codegen.containers.places import Place
from headrace.codegen.inference import Inference, is_container
from headrace.codegen.kinds import scalar
from headrace.codegen.uses import given_away
from headrace.names import closest, instead

_OPERATIONS = {
    ast.Pow: python_numbers.checked_power,
    ast.LShift: python_numbers.checked_left,
    ast.RShift: python_numbers.checked_right,
    ast.FloorDiv: python_numbers.checked_floordiv,
}
_EXACT_OPERATIONS = _OPERATIONS | {
    ast.Pow: python_numbers.checked_exact_power,
    ast.LShift: python_numbers.checked_exact_left,
    ast.Add: python_numbers.checked_sum,
    ast.Sub: python_numbers.checked_difference,
    ast.Mult: python_numbers.checked_product,
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

_OURS = re.compile(r"(checked|kept)_|(emit|store|node|at|turn|begun|entry|place|value)_\d+$")
"""Names that a local must not have."""

_SHORT_LOOP = 1024
"""A loop over ``range`` of a constant up to this is not polled: it ends soon."""


def rewrite(captured: CapturedFunction, roles: tuple[str, ...], plan: Plan) -> Written:
    """Rewrite a function and its helpers.

    Parameters
    ----------
    captured : CapturedFunction
    roles : tuple of str
        What its parameters are, by position: keys of the plan's objects and
        values, or "emit".
    plan : Plan

    Raises
    ------
    FunctionError
        With the line of what cannot be compiled.
    """
    written = Written(plan)
    # A parameter with a default is a constant; emit may be left out by who does not emit.
    given = [name for name in captured.parameters if name not in captured.defaults]
    needed = len(roles) - (roles[-1:] == ("emit",))
    if not needed <= len(given) <= len(roles):
        raise captured.error(f"takes {len(given)} parameters: it is called with ({', '.join(roles)})")
    check_assigned(captured)
    bound = dict(zip(given, roles, strict=False))
    bound |= {name: row.role for name, row in plan.rows.items()} | dict(plan.named)
    _Function(captured, bound, (), plan.name, plan.returns, written, {}, {}).write()
    return written


class _Function(KeptValues):
    """One function being rewritten: the user's, or a helper for one way it is called."""

    def __init__(self, captured, roles, own, name, returns, written, given, places):
        self.captured: CapturedFunction = captured
        self.roles: dict[str, str] = roles
        self.own: tuple[str, ...] = own  # parameters that stay parameters
        self.name: str = name
        self.returns: str | None = returns
        self.written: Written = written
        self.plan: Plan = written.plan
        self.objects: dict[str, Mapping[str, Binding]] = dict(written.plan.objects)
        self.temporaries: Counter[str] = Counter()
        self.places: dict[str, Place] = dict(places)
        self.inference = Inference(captured, roles, self.plan, given)
        # A helper does not see what its caller does with a state afterwards.
        is_helper = self.name != self.plan.name
        self.given_away = {} if is_helper else given_away(captured.node.body, roles, self.plan.ends)
        loops = [node for node in ast.walk(captured.node) if isinstance(node, ast.For)]
        # Variables of loops over stored tuples: they stand for a tuple inside the loop, and for nothing outside.
        self.loop_variables = {
            node.target.id
            for node in loops
            if isinstance(node.target, ast.Name) and self._list_of(node.iter) is not None
        }
        # Before templates put their own, which are within bounds.
        self.has_indices = any(isinstance(node, ast.Subscript) for node in ast.walk(captured.node))
        self._operations = _EXACT_OPERATIONS if self.plan.debug else _OPERATIONS
        names = [node for node in ast.walk(captured.node) if isinstance(node, ast.Name)]
        stored = {name.id for name in names if isinstance(name.ctx, ast.Store)} - set(self.plan.rows)
        taken = self.plan.words() | set(captured.constants)
        self.names: dict[str, str] = {}
        for local in sorted(stored | set(own)):
            free = local
            while free in taken or _OURS.match(free):
                free += "_"
            taken.add(free)
            self.names[local] = free
        self.passes = self.plan.parameters if self._needs_arrays() else ()

    def _needs_arrays(self) -> bool:
        """Whether this function works on more than its own parameters."""
        if self.name == self.plan.name or self.roles or self.captured.helpers or self.places:
            return True
        if any(kind != "number" for kind in self.inference.names.values()) or any(
            isinstance(node, ast.Constant) and isinstance(node.value, str) for node in ast.walk(self.captured.node)
        ):
            return self.plan.texts is not None
        loops = any(isinstance(node, ast.While | ast.For) for node in ast.walk(self.captured.node))
        return loops and self.plan.poll is not None

    # -- writing

    def write(self) -> None:
        body = self._block(self.captured.node.body)
        if self.returns not in (None, "helper") and not _always_returns(body):
            raise self.captured.error("must return a value on every path")
        if self.name != self.plan.name:
            # A helper is passed what it uses alone: Numba knows no calls of more than 30 arguments.
            used = {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}
            self.passes = tuple(name for name in self.passes if name in used)
        parameters = [*self.passes, *(self.names[p] for p in self.own)]
        definition = ast.parse(f"def {self.name}({', '.join(parameters)}): pass").body[0]
        assert isinstance(definition, ast.FunctionDef)
        for parameter, default in self.captured.defaults.items():
            if parameter in self.names and parameter not in self.own:
                # The function assigns to it: a local that starts with its default.
                value = self._text(ast.unparse(default), self.captured.node)
                body.insert(0, ast.Assign([ast.Name(self.names[parameter], ast.Store())], value))
        definition.body = body or [ast.Pass()]
        first = definition.body[0]
        if self.name == self.plan.name and isinstance(first, ast.Return) and first.value is not None:
            self.written.expression = ast.unparse(first.value)
        self._append(definition)

    def _append(self, definition: ast.FunctionDef) -> None:
        text = ast.unparse(ast.fix_missing_locations(definition))
        # The text parses to the same statements: walking both pairs new lines with old ones.
        again = ast.parse(text).body
        origin: dict[int, int] = {}
        for new, old in zip(_statements(again), _statements([definition]), strict=True):
            origin[new.lineno] = old.lineno
        written = self.written
        decorator = self.plan.decorator
        if decorator.startswith("compiled_user") and self.has_indices:
            decorator = "compiled_user_bounded"
        elif decorator == "compiled_user_within" and self.name != self.plan.name:
            decorator = "compiled_user"  # a helper may have several callers
        lines = [f"@{decorator}"] if decorator else []
        written.lines += [None] * len(lines)
        for number, line in enumerate(text.split("\n"), start=1):
            line_of_user = max(origin.get(number, 0), self.captured.line)
            lines.append(f"{line}  # {self.name}:{line_of_user - self.captured.line + 1}")
            written.lines.append((self.captured, line_of_user))
        written.lines += [None, None]
        written.chunks.append("\n".join(lines))
        written.markers[self.name] = self.captured

    def _error(self, text: str, node: ast.AST):
        return self.captured.error(text, node)

    def _temporary(self, prefix: str) -> str:
        self.temporaries[prefix] += 1
        return f"{prefix}_{self.temporaries[prefix]}"

    # -- statements

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            new = self.visit(statement)
            for each in new if isinstance(new, list) else [new]:
                # What was inserted belongs to the line it was inserted for.
                for node in ast.walk(each):
                    if "lineno" in node._attributes and not hasattr(node, "lineno"):
                        ast.copy_location(node, statement)
                result.append(each)
        return result

    def visit_Expr(self, node: ast.Expr):
        if isinstance(node.value, ast.Constant):
            return []  # a docstring
        if self._is_emit(node.value):
            return self._emit(node.value)
        return self.generic_visit(node)

    def visit_Return(self, node: ast.Return):
        if node.value is not None and self._is_emit(node.value):
            if self.returns not in (None, "helper"):
                raise self._error("must return a value, not emit", node)
            return [*self._emit(node.value), ast.copy_location(ast.Return(None), node)]
        nothing = node.value is None or _is_none(node.value)
        if self.returns is None:
            if nothing:
                return ast.copy_location(ast.Return(None), node)
            if isinstance(self.captured.node.body[-1], ast.Return) and self.captured.name == "<lambda>":
                raise self._error("the value of this lambda is not used: it must call emit", node)
            raise self._error("returns a value, which is not used: assign to state or call emit", node)
        if self.returns == "helper":
            if node.value is not None and self.inference.of(node.value) != "string":
                self._refuse(node.value, "what is returned: return a value")
            return self.generic_visit(node)
        if nothing:
            raise self._error("returns nothing here: a value is needed", node)
        assert node.value is not None
        is_truth = self.returns == "truth" and self.plan.texts is not None
        if self.returns == "string":
            self._expect("string", node.value, "what is returned")
        elif not is_truth:
            self._refuse(node.value, "what is returned: return a number")
        value = self._condition(node.value) if is_truth else self.visit(node.value)
        if self.returns != "any":
            value = self._checked(self.returns, value)
        return ast.copy_location(ast.Return(value), node)

    def visit_Assign(self, node: ast.Assign):
        first = node.targets[0]
        if isinstance(first, ast.Name) and first.id in self.plan.rows:
            return self._open(self.plan.rows[first.id], first, node)
        kept = self._kept_assign(node)
        if kept is not None:
            return kept
        static, written = self.inference.of(node.value), copy.copy(node)
        value = self.visit(node.value)
        self._check_fields(written, static)
        targets, after = self._targets(node.targets)
        if len(node.targets) == 1 and len(after) == 1 and self._object_of(node.targets[0]) is not None:
            store = after[0]
            assert isinstance(store, ast.Assign)
            _replace_name(store, targets[0], value)
            return [store]
        return [ast.copy_location(ast.Assign(targets, value), node), *after]

    def _open(self, row: Opened, name: ast.Name, node: ast.Assign) -> list[ast.stmt]:
        """Find the row that a name stands for from here on."""
        if row.key == "string":
            self._expect("string", node.value, f"the key of {name.id}")
        else:
            self._refuse(node.value, f"the key of {name.id}: give a whole number")
        found = self.visit(node.value)
        key = ast.unparse(found if row.key == "string" else self._checked("int64", found))
        statements = ast.parse(row.text.replace("{key}", key)).body
        for statement in statements:
            for each in ast.walk(statement):
                if "lineno" in each._attributes:
                    ast.copy_location(each, node)
        return list(statements)

    def visit_AnnAssign(self, node: ast.AnnAssign):
        if node.value is None:
            return []
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_AugAssign(self, node: ast.AugAssign):
        kept = self._kept_aug_assign(node)
        if kept is not None:
            return kept
        target = node.target
        if not isinstance(target, ast.Attribute):
            self._refuse_parameter(target)
            if type(node.op) not in self._operations:
                return self.generic_visit(node)
            current = copy.deepcopy(target)
            current.ctx = ast.Load()
        else:
            current = ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
        combined = ast.copy_location(ast.BinOp(current, node.op, node.value), node)
        return self.visit(ast.copy_location(ast.Assign([node.target], combined), node))

    def visit_For(self, node: ast.For):
        stored = self._list_of(node.iter)
        if stored is not None:
            return self._for_each(node, stored)
        kept = self._kept_loop(node)
        if kept is not None:
            return kept
        iterable = self.visit(node.iter)
        targets, after = self._targets([node.target])
        poll = [] if _is_short(iterable) else self._poll(node)
        body = [*poll, *after, *self._block(node.body)] or [ast.Pass()]
        return ast.copy_location(ast.For(targets[0], iterable, body, self._block(node.orelse)), node)

    def _for_each(self, node: ast.For, stored: ListBinding) -> list[ast.stmt]:
        """Walk a list of stored tuples: the variable stands for the tuple at a node."""
        if not isinstance(node.target, ast.Name):
            raise self._error(f"{ast.unparse(node.target)}: a stored tuple needs one name, as in for t in ...", node)
        name = node.target.id
        if name in self.roles:
            raise self._error(f"{name!r} is used for another tuple already: use another name", node.target)
        at, here = self._temporary("node"), self._temporary("node")
        self.objects[here] = stored.of(here)
        self.written.reads.setdefault(stored.role, set())
        self.roles[name] = here
        body = self._block(node.body)
        del self.roles[name]
        self.written.reads[stored.role] |= self.written.reads.pop(here, set())
        # The next node is taken first, so that `continue` goes on to it.
        step = f"    {here} = {at}\n    {at} = {stored.following.replace('{node}', here)}"
        walk = ast.parse(f"{at} = {stored.first}\nwhile {at} != 0:\n{step}").body
        for statement in walk:
            for each in ast.walk(statement):
                ast.copy_location(each, node)
        loop = walk[1]
        assert isinstance(loop, ast.While)
        loop.body = [*self._poll(node), *loop.body, *body]
        loop.orelse = self._block(node.orelse)
        return walk

    def visit_While(self, node: ast.While):
        body = [*self._poll(node), *self._block(node.body)] or [ast.Pass()]
        return ast.copy_location(ast.While(self._condition(node.test), body, self._block(node.orelse)), node)

    def visit_If(self, node: ast.If):
        body = self._block(node.body) or [ast.copy_location(ast.Pass(), node)]
        return ast.copy_location(ast.If(self._condition(node.test), body, self._block(node.orelse)), node)

    def _poll(self, node: ast.stmt) -> list[ast.stmt]:
        """Leave the loop for good once the run is stopped."""
        if self.plan.poll is None:
            return []
        # A value would have to be invented, so a function with one raises instead.
        valued = any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(self.captured.node))
        leave = "raise RuntimeError('stopped')" if valued and self.returns is not None else "return"
        statements = ast.parse(f"if {self.plan.poll}:\n    {leave}").body
        for statement in statements:
            for each in ast.walk(statement):
                ast.copy_location(each, node)
        return list(statements)

    # -- assignment to fields

    def _refuse_parameter(self, target: ast.AST) -> None:
        if isinstance(target, ast.Name) and target.id in self.roles:
            raise self._error(f"{target.id!r} is assigned: use another name for a local variable", target)

    def _targets(self, targets: list[ast.expr]) -> tuple[list[ast.expr], list[ast.stmt]]:
        """Replace fields among the targets by temporaries, stored by the statements that follow."""
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
        if role is None:
            return self.visit(target)
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
        store = ast.parse(f"{binding.write} = 0").body[0]
        assert isinstance(store, ast.Assign)
        store.value = value
        for each in ast.walk(store):
            ast.copy_location(each, target)
        after.append(store)
        return ast.copy_location(ast.Name(name, ast.Store()), target)

    # -- expressions

    def _checked(self, kind: str, value: ast.expr) -> ast.expr:
        if kind in ("truth", "bool") and _is_condition(value):
            return value  # so that a predicate stays an expression that vectorises
        known = scalar(kind)
        kind = kind if known is None else known.in_functions
        if kind == "string":
            return value  # an id: what gives one is known before anything runs
        self.written.checks.add(f"checked_{kind}")
        call = ast.Call(ast.Name(f"checked_{kind}", ast.Load()), [value], [])
        return ast.copy_location(call, value) if hasattr(value, "lineno") else call

    def _text(self, text: str, node: ast.AST) -> ast.expr:
        expression = ast.parse(text, mode="eval").body
        for each in ast.walk(expression):
            ast.copy_location(each, node)
        return expression

    def _object_of(self, node: ast.AST) -> str | None:
        """The role of x in ``x.field``, if x is a parameter with fields."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            role = self.roles.get(node.value.id)
            if role in self.objects:
                return role
        return None

    def _list_of(self, node: ast.AST) -> ListBinding | None:
        """The binding of ``x.field``, if that holds tuples."""
        role = self._object_of(node)
        binding = self.objects[role].get(node.attr) if role and isinstance(node, ast.Attribute) else None
        return binding if isinstance(binding, ListBinding) else None

    def _called(self, role: str) -> str:
        """A role in messages."""
        return role if role in self.plan.objects else "a stored tuple"

    def _binding(self, node: ast.Attribute, role: str) -> FieldBinding:
        fields = self.objects[role]
        binding = fields.get(node.attr)
        if binding is None:
            near, names = closest(node.attr, fields), ", ".join(fields) or "none"
            meant = f"did you mean {node.value.id}.{near}? " if near and isinstance(node.value, ast.Name) else ""
            what = self._called(role)
            raise self._error(f"{ast.unparse(node)}: {what} has no field {node.attr!r}; {meant}it has {names}", node)
        if isinstance(binding, Unreadable):
            raise self._error(f"{ast.unparse(node)}: {binding.reason}", node)
        if isinstance(binding, ListBinding):
            text = ast.unparse(node)
            raise self._error(f"{text} can only be used as `for t in {text}:` and `len({text})`", node)
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

    # -- numbers

    def _number_call(self, function: Callable, arguments: list[ast.expr], node: ast.AST) -> ast.expr:
        """Call what `python_numbers` has in place of an operation."""
        self.written.number_checks.add(function.__name__)
        return ast.copy_location(ast.Call(ast.Name(function.__name__, ast.Load()), arguments, []), node)

    def _constant(self, node: ast.AST) -> int | float | None:
        """The number that an expression of constants is in Python; None for any other."""
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
            return None  # it fails when it is called, as in Python
        return None if isinstance(value, complex) else value

    def _folded(self, node: ast.expr) -> ast.expr | None:
        """An expression of constants as its value."""
        value = self._constant(node)
        if value is None:
            return None
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise self._error(f"{ast.unparse(node)} = {value}: does not fit in 64 bits", node)
        return self._text(_literal(value), node)

    def visit_Constant(self, node: ast.Constant):
        folded = self._folded(node) if type(node.value) is int and node.value >= 2**63 else None
        return super().visit_Constant(node) if folded is None else folded

    def visit_Subscript(self, node: ast.Subscript):
        return self._kept_subscript(node) or self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp):
        folded = self._folded(node)
        if folded is not None:
            return folded
        self._refuse_operation(node, [node.left, node.right])
        right = self._constant(node.right)
        function = self._operations.get(type(node.op))
        if not self.plan.debug and right is not None:
            # By a constant nothing can go wrong, or what can is in the documentation of `operator`.
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
        exact, is_narrow = self.plan.debug, _may_be_narrow(node.operand)
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and (exact or is_narrow):
            negative = python_numbers.checked_exact_negative if exact else python_numbers.checked_negative
            return self._number_call(negative, [node.operand], node)
        if isinstance(node.op, ast.Invert):
            return self._number_call(python_numbers.checked_invert, [node.operand], node)
        return node

    def _checked_call(self, node: ast.Call, is_narrow: bool) -> ast.expr | None:
        """A call of a builtin or of `math` that Python checks, in place of one that the compiler does not."""
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            return None
        name = ast.unparse(node.func)
        if len(node.args) == 1 and name == "abs":
            exact = self.plan.debug
            if not exact and not is_narrow:
                return None
            function = python_numbers.checked_exact_magnitude if exact else python_numbers.checked_magnitude
        elif len(node.args) == 1:
            function = python_numbers.CONVERSIONS.get(name) or python_numbers.MATH.get(name)
        elif len(node.args) == 2:
            function = python_numbers.PAIRS.get(name)
            if function is python_numbers.checked_power and self.plan.debug:
                function = python_numbers.checked_exact_power
        else:
            function = None
        return None if function is None else self._number_call(function, node.args, node)

    def visit_Compare(self, node: ast.Compare):
        for op, other in zip(node.ops, node.comparators, strict=True):
            is_identity = isinstance(op, ast.Is | ast.IsNot)
            is_singleton = isinstance(other, ast.Constant) and (other.value is None or isinstance(other.value, bool))
            if is_identity and not is_singleton:
                raise self._error(f"{ast.unparse(node)}: numbers have no identity; write == or !=", node)
        if len(node.ops) == 1 and _is_none(node.comparators[0]):
            role = self._object_of(node.left)
            if role is not None and isinstance(node.ops[0], ast.Is | ast.IsNot):
                assert isinstance(node.left, ast.Attribute)
                binding = self._binding(node.left, role)
                self.written.reads.setdefault(role, set()).add(node.left.attr)
                absent = isinstance(node.ops[0], ast.Is)
                if binding.valid is None:
                    return ast.copy_location(ast.Constant(not absent), node)
                return self._text(f"not ({binding.valid})" if absent else f"({binding.valid})", node)
            if role is not None:
                raise self._error(f"{ast.unparse(node)}: write `is None` or `is not None`", node)
        return self._kept_compare(node) or self.generic_visit(node)

    def visit_Name(self, node: ast.Name):
        name = node.id
        if name in self.roles:
            role = self.roles[name]
            if role in self.objects:
                names = ", ".join(self.objects[role]) or "none"
                raise self._error(f"{name!r} can only be used as {name}.field: it has {names}", node)
            if role == "emit":
                raise self._error(f"{name!r} can only be called, as a statement of its own", node)
            value = self.plan.values[role]
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

    # -- calls

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
        kept = self._kept_call(node)
        if kept is not None:
            return kept
        is_narrow = len(node.args) == 1 and _may_be_narrow(node.args[0])
        self.generic_visit(node)
        return self._checked_call(node, is_narrow) or node

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
            if role is not None and role in self.objects and role not in self.plan.objects:
                text = ast.unparse(argument)
                raise self._error(f"{text!r} is a stored tuple: give {helper.name} its values, as in {text}.ts", node)
            if role is not None and (role in self.plan.objects or role == "emit"):
                roles[parameter] = role
        kinds = self.inference.given_to(helper, node)
        places = {p: self._given_place(given[p], node) for p, kind in kinds.items() if is_container(kind)}
        own = tuple(p for p in helper.parameters if p in given and p not in roles and p not in places)
        # The same text, not the same object: functions of one name and line may differ in what they freeze.
        frozen = tuple(sorted((name, ast.dump(value)) for name, value in helper.constants.items()))
        key = (helper.file, helper.line, helper.node.col_offset, frozen, tuple(roles.items()), own)
        key = (*key, tuple(kinds.items()), tuple(places.items()))
        if key not in self.written.helpers:
            plain = re.sub(r"\W", "", helper.name) or "helper"
            name = f"{self.plan.name}_{plain}"
            while name in self.written.markers:
                name += "_"
            # It is rewritten in place, and another function may call it as well.
            own_copy = dataclasses.replace(helper, node=copy.deepcopy(helper.node))
            called = _Function(own_copy, roles, own, name, "helper", self.written, kinds, places)
            called.write()
            self.written.helpers[key] = name, called.passes
        name, passes = self.written.helpers[key]
        arguments: list[ast.expr] = [ast.Name(p, ast.Load()) for p in passes]
        arguments += [self.visit(given[p]) for p in own]
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), arguments, []), node)

    def _given_place(self, argument: ast.expr, node: ast.Call) -> Place:
        """The container that a helper is given: one with a name, which the helper then works on."""
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
        fields = self.plan.emits
        name = ast.unparse(node.func)
        if fields is None:
            raise self._error(f"{name} is not available here", node)
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise self._error(f"{name}(*...) or {name}(**...): give each output field by name", node)
        in_place = [field_ for field_ in fields if field_ not in self.plan.left_out]
        names = ", ".join(in_place)
        if len(node.args) > len(in_place):
            raise self._error(f"{name} gives {len(node.args)} values: the output fields are {names}", node)
        given: dict[str, ast.expr] = dict(zip(fields, node.args, strict=False))
        for keyword in node.keywords:
            if keyword.arg not in fields:
                raise self._error(
                    f"{name}({keyword.arg}=...): there is no such output field;"
                    f" {instead(keyword.arg, fields, 'the output fields', '{}')}",
                    keyword.value,
                )
            if keyword.arg in given:
                raise self._error(f"{name}({keyword.arg}=...): the field is given twice", keyword.value)
            given[keyword.arg] = keyword.value
        missing = [field_ for field_ in in_place if field_ not in given]
        if missing:
            absent = ", ".join(missing)
            raise self._error(f"{name}(...): {absent} is missing; the output fields are {names}", node)
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
        in_order = [values[field_] if field_ in given else self.plan.left_out[field_] for field_ in fields]
        values |= {field_: self.plan.left_out[field_] for field_ in fields if field_ not in given}
        text = self.plan.emit.format(*in_order, **(values | {"values": ", ".join(in_order)}))
        statements += ast.parse(text).body
        for statement in statements:
            for each in ast.walk(statement):
                if "lineno" in each._attributes:
                    ast.copy_location(each, node)
        return statements


def _replace_name(store: ast.Assign, target: ast.expr, value: ast.expr) -> None:
    """Put `value` where the temporary `target` is read in ``field = checked(temporary)``."""
    assert isinstance(target, ast.Name)
    if isinstance(store.value, ast.Name) and store.value.id == target.id:
        store.value = value
    else:
        assert isinstance(store.value, ast.Call)
        store.value.args = [value]


def _may_be_narrow(node: ast.expr) -> bool:
    """Whether it may be an integer of 32 bits, whose negative needs 33: what is computed has 64."""
    return isinstance(node, ast.Attribute | ast.Name)


def _is_condition(node: ast.expr) -> bool:
    """Whether it can only give a bool."""
    if isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return True
    if isinstance(node, ast.BoolOp):
        return all(map(_is_condition, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor):
        return _is_condition(node.left) and _is_condition(node.right)
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _literal(value: int | float) -> str:
    """Write a number so that it is read as the same."""
    if isinstance(value, float) and value != value:
        return "np.nan"
    if isinstance(value, float) and abs(value) == float("inf"):
        return "np.inf" if value > 0 else "-np.inf"
    return repr(value)


def _is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_short(iterable: ast.expr) -> bool:
    if isinstance(iterable, ast.Tuple | ast.List):
        return True
    if not (isinstance(iterable, ast.Call) and ast.unparse(iterable.func) == "range"):
        return False
    bounds = [a.value for a in iterable.args if isinstance(a, ast.Constant) and isinstance(a.value, int)]
    return len(bounds) == len(iterable.args) and 0 not in bounds[2:] and len(range(*bounds)) <= _SHORT_LOOP


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for part in ("body", "orelse"):
            yield from _statements(getattr(statement, part, []))


def _always_returns(body: list[ast.stmt]) -> bool:
    for statement in body:
        if isinstance(statement, ast.Return | ast.Raise):
            return True
        if isinstance(statement, ast.If) and statement.orelse:
            if _always_returns(statement.body) and _always_returns(statement.orelse):
                return True
        if isinstance(statement, ast.While) and ast.unparse(statement.test) in ("True", "1"):
            if not any(isinstance(inner, ast.Break) for inner in ast.walk(statement)):
                return True
    return False
