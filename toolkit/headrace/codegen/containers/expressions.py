"""Rewriting conditions, comparisons, elements and values of results that involve strings or containers."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from headrace.codegen.bindings import Membership, rename_before
from headrace.codegen.containers.places import NO_END, Places, is_float
from headrace.codegen.inference import NUMBERS, TEXT_WORK, TEXTS, is_container, said, static_of
from headrace.codegen.kinds import Array, ListOf, MapOf, Record, SetOf, width_of
from headrace.codegen.python_numbers import tuples
from headrace.codegen.text import is_attribute
from headrace.codegen.trees import copied
from headrace.names import instead

_COMPARED = {ast.Lt: "less", ast.Gt: "follows", ast.LtE: "follows", ast.GtE: "less"}
_NEGATED = (ast.LtE, ast.GtE)


class Expressions(Places):
    """Rewriting of expressions of strings and containers."""

    def _condition(self, node: ast.expr) -> ast.expr:
        """Rewrite an expression that is used as a condition."""
        if isinstance(node, ast.BoolOp):
            return ast.copy_location(ast.BoolOp(node.op, [self._condition(value) for value in node.values]), node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ast.copy_location(ast.UnaryOp(ast.Not(), self._condition(node.operand)), node)
        static = self.inference.of(node)
        if static == "string" or is_container(static):
            return self._text(f"{self._length(node)} != 0", node)
        if static == TEXTS or self.inference.is_numbers(node):
            return self._text(f"len({ast.unparse(self.visit(node))}) != 0", node)
        return self.visit(node)

    def _length(self, node: ast.expr) -> str:
        static = self.inference.of(node)
        if static == "string":
            assert self.host.texts is not None
            return f"{self.host.texts.points}[{ast.unparse(self.visit(node))}]"
        if isinstance(static, Array):
            return str(static.size)
        place = self._need(node)
        return self._kept("count", place.heads, place.at)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str) and self.host.texts is not None and not self._is_message:
            number = self.host.texts.number_of(node.value)
            return self._text(self.host.texts.literal.replace("{number}", str(number)), node)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        if self._is_message:
            self.generic_visit(node)  # what it shows may be fields
            return node
        if self.host.texts is None:
            for part in node.values:
                if isinstance(part, ast.FormattedValue) and (part.format_spec is not None or part.conversion != -1):
                    advice = "leave what follows : or ! out"
                    raise self._error(f"{ast.unparse(node)}: formats cannot be compiled; {advice}", part.value)
            self.generic_visit(node)  # what it shows may be fields
            return node
        raise self._error(f"{ast.unparse(node)}: strings cannot be put together here; {TEXT_WORK}", node)

    def _message(self, node: ast.expr | None) -> ast.expr | None:
        """Rewrite what is raised, or its message: strings in it stay Python strings, and values are only named.

        A kernel cannot put texts together. The message with its values, which the user sees, is that of a second call, in Python.
        """
        if node is None:
            return None
        shown = [_as_written(each) for each in node.args] if isinstance(node, ast.Call) else [_as_written(node)]
        self._is_message = True
        result = self.visit(node)  # fields in it are checked, and known to be read
        self._is_message = False
        if isinstance(result, ast.Call):
            result.args = shown
            return result
        return result if isinstance(result, ast.Name) else shown[0]

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        node.exc, node.cause = self._message(node.exc), self._message(node.cause)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        node.test, node.msg = self._condition(node.test), self._message(node.msg)
        return node

    def visit_List(self, node: ast.List) -> ast.expr:
        return self._display(node)

    def visit_Set(self, node: ast.Set) -> ast.expr:
        return self._display(node)

    def _display(self, node: ast.List | ast.Set) -> ast.expr:
        for part in node.elts:
            self._refuse(part, "a list or set outside the state; use a tuple, or keep it in the state")
        result = self.generic_visit(node)
        assert isinstance(result, ast.expr)
        return result

    def _refuse(self, node: ast.expr, what: str) -> None:
        """Raise if a string or container is passed to something that takes none."""
        if isinstance(node, ast.Starred | ast.Slice):
            return
        static = self.inference.of(node)
        if static == "string":
            raise self._error(f"{ast.unparse(node)} is a string, in {what}", node)
        if is_container(static) or isinstance(static, Record) or static == TEXTS:
            raise self._error(f"{ast.unparse(node)} is {said(static)}, in {what}", node)

    def _refuse_unknown(self, *parts: ast.expr) -> None:
        """Raise if one is a field that is not there or cannot be used, before anything is said of the others' kinds."""
        for part in parts:
            if isinstance(part, ast.Attribute) and self.inference.of(part) is None:
                self.visit(copied(part))

    def _refuse_comprehension(self, node: ast.expr, where: str) -> None:
        """Raise if a comprehension is passed where a container is expected: it would make a Python object."""
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            advice = "write a for loop that fills a container of the state"
            raise self._error(f"{ast.unparse(node)}: a comprehension, in {where}; {advice}", node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        if self.inference.of(node) == "string":
            return self._chosen_string(node)
        self._refuse_unknown(*node.values)
        for part in node.values:
            self._refuse(part, f"{ast.unparse(node)}: write a condition, as in a if a else b")
        result = self.generic_visit(node)
        assert isinstance(result, ast.expr)
        return result

    def _chosen_string(self, node: ast.BoolOp) -> ast.expr:
        """Rewrite ``a or b`` and ``a and b`` of strings: the first that is not empty, or the first that is."""
        *firsts, chosen = [self.visit(copied(value)) for value in node.values]
        for value, first in zip(reversed(node.values[:-1]), reversed(firsts), strict=True):
            if any(self._changes(inner) for inner in ast.walk(value)):  # it is written twice
                raise self._error(f"{ast.unparse(node)}: give {ast.unparse(value)} a name in a statement before", node)
            test = self._condition(copied(value))
            body, orelse = (chosen, first) if isinstance(node.op, ast.And) else (first, chosen)
            chosen = ast.copy_location(ast.IfExp(test, body, orelse), node)
        return chosen

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        static = self.inference.of(node.iter)
        if static == TEXTS or is_container(static):
            raise self._error(f"{ast.unparse(node.iter)} is {said(static)}: write a for loop over it", node.iter)
        result = self.generic_visit(node)
        assert isinstance(result, ast.comprehension)
        return result

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        for part in (node.body, node.orelse):
            if is_container(self.inference.of(part)):
                self._refuse(part, f"{ast.unparse(node)}: write if and else")
        return ast.copy_location(
            ast.IfExp(self._condition(node.test), self.visit(node.body), self.visit(node.orelse)), node
        )

    def _kept_subscript(self, node: ast.Subscript) -> ast.expr | None:
        """Rewrite an element of a container; None if it is not one."""
        static = self.inference.of(node.value)
        if static == "string":
            raise self._error(f"{ast.unparse(node)}: a part of a string; {TEXT_WORK}", node)
        if not is_container(static):
            is_mixed = isinstance(static, tuple) and len(set(static)) > 1
            if is_mixed and not isinstance(node.slice, ast.Constant | ast.UnaryOp):
                raise self._error(f"{ast.unparse(node)}: give a number, as in {ast.unparse(node.value)}[0]", node)
            named = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if isinstance(named, str) and isinstance(node.value, ast.Name) and self.roles.get(node.value.id) in self.objects:
                raise self._error(f"{ast.unparse(node)}: {_field_in_words(node.value.id, named)}", node)
            self._refuse(node.slice, f"{ast.unparse(node)}: it cannot be an index")
            return None
        if isinstance(node.slice, ast.Slice):
            raise self._error(
                f"{ast.unparse(node)}: use it in a loop, in len, in emit, give it a name, or assign it to a list", node
            )
        if isinstance(static, MapOf) and not isinstance(static.value, str):
            raise self._error(f"{ast.unparse(node)} is {said(static.value)}: use its elements", node)
        if isinstance(static, SetOf):
            raise self._error(f"{ast.unparse(node)}: a set has no elements by number; use `in` or a loop", node)
        place = self._need(node.value)
        where = f"{ast.unparse(node.value)}[...]"
        if isinstance(place.kind, MapOf):
            key = self._word(place.kind.key, node.slice, where, is_key=True)
            at = self._kept("value", self._seen(place), key, 1)
            return self._text(self._value(place.kind.value, f"{self._memory.arena}[{at}]"), node)
        index = self._word("int64", node.slice, where)
        if isinstance(place.kind, Array):
            word = f"{place.heads}[{self._kept('at', place.at, place.kind.size, index)}]"
        else:
            word = self._kept("element", self._seen(place), index)
        return self._text(self._value(place.kind.kind, word), node)

    def _record_word(self, node: ast.Attribute) -> tuple[str, str] | None:
        """Return the word of a field of a record in a map, and its kind; None if it is not such a field."""
        if not isinstance(node.value, ast.Subscript | ast.Name):
            return None
        static = self.inference.of(node.value)
        if not isinstance(static, Record):
            return None
        names = [name for name, _ in static.fields]
        if node.attr not in names:
            raise self._error(f"{ast.unparse(node)}: it has {', '.join(names)}", node)
        place = self._need(node.value)
        return f"{place.heads}[{place.at} + {names.index(node.attr)}]", dict(static.fields)[node.attr]

    def _kept_attribute(self, node: ast.Attribute) -> ast.expr | None:
        found = self._record_word(node)
        if found is not None:
            return self._text(self._value(found[1], found[0]), node)
        static = self.inference.of(node)
        if is_container(static):
            raise self._bare(node, static)
        return None

    def _bare(self, node: ast.expr, static: Any) -> Exception:
        text = ast.unparse(node)
        return self._error(
            f"{text} is {said(static)}: here only its operations can be used, such as len({text}), a loop or `in`",
            node,
        )

    def _kept_compare(self, node: ast.Compare) -> ast.expr | None:
        """Rewrite a comparison of strings, or `in` with a container; None if it is neither."""
        operands = [node.left, *node.comparators]
        statics = [self.inference.of(operand) for operand in operands]
        for side, op in zip(operands, [None, *node.ops], strict=True):
            if self.inference.is_numbers(side) and not isinstance(op, ast.In | ast.NotIn):
                raise self._error(
                    f"{ast.unparse(node)}: {ast.unparse(side)} is a {NUMBERS}; compare its elements in a loop", node
                )
        displays = [isinstance(operand, ast.Tuple | ast.List | ast.Set) for operand in operands]
        if all(static in ("number", None) for static in statics) and not any(displays):
            if not any(self.inference.is_view(operand) for operand in operands):
                return None
        for middle in operands[1:-1]:
            if any(self._changes(inner) for inner in ast.walk(middle)):
                raise self._error(f"{ast.unparse(node)}: give {ast.unparse(middle)} a name in a statement before", node)
        # The middle operands of a chain are written twice, and rewriting changes a tree in place: hence the copies.
        chain = zip(operands, node.ops, map(copied, operands[1:]), strict=False)
        pairs = [self._pair(left, op, right, node) for left, op, right in chain]
        if len(pairs) == 1:
            return pairs[0]
        return ast.copy_location(ast.BoolOp(ast.And(), pairs), node)

    def _pair(self, left: ast.expr, op: ast.cmpop, right: ast.expr, node: ast.Compare) -> ast.expr:
        if isinstance(op, ast.In | ast.NotIn):
            found = self._is_in(left, right, node)
            return found if isinstance(op, ast.In) else ast.copy_location(ast.UnaryOp(ast.Not(), found), node)
        statics = self.inference.of(left), self.inference.of(right)
        for side, static in zip((left, right), statics, strict=True):
            if is_container(static) or isinstance(static, Record) or static == TEXTS:
                raise self._bare(side, static)
        if "string" in statics and None not in statics and statics[0] != statics[1]:
            for side in (left, right):
                self.visit(copied(side))  # an operation that no string has is reported first
            raise self._error(
                f"{ast.unparse(node)}: {said(statics[0])} and {said(statics[1])} are compared, and never equal", node
            )
        if "string" not in statics or isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
            if isinstance(statics[0], tuple) and not isinstance(op, ast.Eq | ast.NotEq):
                raise self._error(f"{ast.unparse(node)}: compare the parts of a tuple with strings one by one", node)
            return ast.copy_location(ast.Compare(self.visit(left), [op], [self.visit(right)]), node)
        assert self.host.texts is not None
        a, b = (ast.unparse(self.visit(side)) for side in (left, right))
        text = self._kept(_COMPARED[type(op)], self.host.texts.order, a, b)
        return self._text(f"not {text}" if isinstance(op, _NEGATED) else text, node)

    def _is_among(self, left: ast.expr, asked: Membership, node: ast.Compare) -> ast.expr:
        """Rewrite the test whether a name, or a name and a key, is in a parameter with a `Membership` binding."""
        name, *key = left.elts if isinstance(left, ast.Tuple) else [left]
        if not isinstance(name, ast.Constant) or name.value not in asked.names or len(key) > 1:
            known = instead(name.value if isinstance(name, ast.Constant) else ast.unparse(name), asked.names, asked.what)
            raise self._error(f"{ast.unparse(node)}: {known}", node)
        if not key:
            return self._text(asked.names[name.value], node)
        if name.value not in asked.keyed:
            raise self._error(f"{ast.unparse(node)}: {name.value!r} has no key; ask {name.value!r} alone", node)
        kind, text = asked.keyed[name.value]
        self._expect(kind, key[0], ast.unparse(node))
        return self._text(text.replace("{key}", ast.unparse(self.visit(key[0]))), node)

    def _is_in(self, left: ast.expr, right: ast.expr, node: ast.Compare) -> ast.expr:
        asked = self.host.asked.get(self.roles.get(right.id, "")) if isinstance(right, ast.Name) else None
        if asked is not None:
            return self._is_among(left, asked, node)
        if self.inference.of(right) == "string":
            raise self._error(f"{ast.unparse(node)}: looks into a string; {TEXT_WORK}", node)
        if isinstance(right, ast.Tuple | ast.List | ast.Set):
            for part in right.elts:
                self._expect(self.inference.of(left), part, ast.unparse(node))
            parts = ast.Tuple([self.visit(part) for part in right.elts], ast.Load())
            return self._among(self.inference.of(left), self.visit(left), parts, node)
        view = None
        owner = right
        if self.inference.is_view(right):
            assert isinstance(right, ast.Call) and isinstance(right.func, ast.Attribute)
            view, owner = right.func.attr, right.func.value
        static = self.inference.of(owner)
        if static == TEXTS:
            self._expect("string", left, ast.unparse(node))
            return ast.copy_location(ast.Compare(self.visit(left), [ast.In()], [self.visit(right)]), node)
        if not is_container(static):
            self._refuse(left, ast.unparse(node))
            return self._among("number", self.visit(left), self.visit(right), node)
        if view in ("items", "values"):
            raise self._error(f"{ast.unparse(node)}: only keys can be looked up; write a loop", node)
        place = self._need(owner)
        where = ast.unparse(right)
        if isinstance(place.kind, SetOf | MapOf):
            key = place.kind.key if isinstance(place.kind, MapOf) else place.kind.kind
            word = self._word(key, left, where, is_key=True)
            return self._text(self._kept("has", self._seen(place), word, width_of(place.kind)), node)
        word, floats = self._word(place.kind.kind, left, where), is_float(place.kind.kind)
        if isinstance(place.kind, Array):
            call = self._kept("array_find", place.heads, place.at, place.kind.size, word, floats)
        else:
            call = self._kept("find", self._seen(place), word, floats)
        return self._text(f"{call} >= 0", node)

    def _among(self, static: Any, left: ast.expr, right: ast.expr, node: ast.AST) -> ast.expr:
        """Rewrite ``left in right``, both sides already rewritten, where `right` is not a container of the state."""
        if static == "number" and isinstance(right, ast.Tuple):
            return self._number_call(tuples.checked_among, [left, right], node)
        return ast.copy_location(ast.Compare(left, [ast.In()], [right]), node)

    def _emitted(self, kind: Any, node: ast.expr, where: str) -> ast.expr | None:
        """Rewrite a container as a value of a result; None if the field is a single value, whose kind is checked."""
        static = self.inference.of(node)
        if isinstance(kind, str) or kind is None:
            if is_container(static) or isinstance(static, Record):
                raise self._error(f"{ast.unparse(node)} is {said(static)}: {where} takes {said(kind or 'number')}", node)
            if kind is not None:
                self._expect(static_of(kind), node, where)
            elif static == "string":
                raise self._error(f"{ast.unparse(node)} is a string: {where} takes numbers", node)
            return None
        self._refuse_comprehension(node, where)
        if isinstance(kind, ListOf) and is_empty(node, self._builtin, kind):
            into = self._temporary_place(kind.kind, node)
            nothing = self._kept("slice", self._own(into), into.heads, into.at, "0", "0")
            return self._text(self._memory.staged.format(heads=into.heads, at=nothing, width=0), node)
        self._refuse_unknown(node)
        is_made = isinstance(node, ast.Call) and self._builtin(node) in ("set", "dict", "tuple") and not node.args
        if is_made or isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
            fit = "[], or a list of the state" if isinstance(kind, ListOf) else "one of the state"
            raise self._error(f"{ast.unparse(node)}: {where} takes {said(kind)}; give it {fit}", node)
        is_fit = static == kind or (
            isinstance(kind, ListOf | SetOf)
            and isinstance(static, ListOf | SetOf | Array)
            and static.kind == kind.kind
            and (isinstance(kind, ListOf) or isinstance(static, SetOf))
        )
        if self.inference.is_view(node):
            is_fit, wanted = False, f"write list({ast.unparse(node)})"
        else:
            wanted = f"{where} takes {said(kind)}"
        if not is_fit:
            raise self._error(f"{ast.unparse(node)} is {said(static)}: {wanted}", node)
        place = self._need(node)
        if isinstance(place.kind, Array):
            into = self._temporary_place(place.kind.kind, node)
            call = self._kept(
                "array_slice", self._own(into), place.heads, place.at, place.kind.size, "0",
                NO_END,
            )  # fmt: skip
            place = replace(into, at=call)
        width = 0
        if isinstance(place.kind, SetOf | MapOf):
            width = width_of(place.kind)
            key = place.kind.key if isinstance(place.kind, MapOf) else place.kind.kind
            at = self._kept("in_order", self._seen(place), width, self._order(key))
            place = replace(place, at=at)
        staged = self._memory.staged.format(heads=place.heads, at=place.at, width=width)
        return self._text(staged, node)


def is_empty(node: ast.expr, builtin: Any, kind: Any) -> bool:
    """Whether this is ``[]``, ``{}``, ``set()``, ``list()`` or ``dict()``, as fits a container of this kind."""
    if isinstance(node, ast.List):
        return not node.elts and isinstance(kind, ListOf)
    if isinstance(node, ast.Dict):
        return not node.keys and isinstance(kind, MapOf)
    if isinstance(node, ast.Call) and not node.args:
        name = builtin(node)
        return {"list": ListOf, "set": SetOf, "dict": MapOf}.get(name or "") is type(kind)
    return False


def _as_written(node: ast.expr) -> ast.expr:
    """The constant that stands for a part of a message: its text, with the source of each value in braces."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [
        str(part.value) if isinstance(part, ast.Constant)
        else f"{{{ast.unparse(part.value if isinstance(part, ast.FormattedValue) else part)}}}"
        for part in parts
    ]
    return ast.copy_location(ast.Constant("".join(texts)), node)


def _field_in_words(variable: str, name: str) -> str:
    """Say what to write instead of ``t["name"]``."""
    if is_attribute(name):
        return f"write {variable}.{name}"
    return f"columns are read as {variable}.name, and {name!r} is no name in Python; {rename_before(name)}"
