"""Rewrite what a user function does with strings, lists, sets, maps and arrays into calls of `kept_kernel`.

``state.count[t.word] += 1`` becomes, for a map of strings to integers::

    place_1 = kept_value(s.arena, s.state_count, p * HEAD, c_word, 1)
    s.arena[place_1] = s.arena[place_1] + 1

A string is its id: equal ones have equal ids, so ``==`` stays as it is, and only
what asks for order or length becomes a call. `inference` says which expressions are
strings and containers. Nothing but what is rewritten here may take one: an id that
went on as a number would be a wrong result.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.codegen.bindings import ContainerBinding, Memory, Plan, Written
from headrace.codegen.capture import CapturedFunction
from headrace.codegen.inference import TEXT_WORK, Inference, element_of, is_container, said, static_of
from headrace.codegen.kinds import Array, ListOf, MapOf, Record, SetOf, scalar, width_of

_COMPARED = {ast.Lt: "{a}, {b}", ast.Gt: "{b}, {a}", ast.LtE: "{b}, {a}", ast.GtE: "{a}, {b}"}
_NEGATED = (ast.LtE, ast.GtE)
_PLAIN_CALLS = ("print", "isinstance")


@dataclass(frozen=True)
class Place:
    """Where a container is: expressions; `at` may be evaluated once only."""

    kind: Any
    heads: str
    at: str
    lists: str
    role: str | None = None
    field: str | None = None


class KeptValues(ast.NodeTransformer):
    """The part of rewriting a function that is about strings and containers; see `headrace.codegen.rewrite`."""

    captured: CapturedFunction
    plan: Plan
    written: Written
    inference: Inference
    names: dict[str, str]
    roles: dict[str, str]
    places: dict[str, Place]
    _is_message = False
    """Within ``raise``: strings are texts for people."""

    # -- what it needs of the rest

    def _text(self, text: str, node: ast.AST) -> ast.expr:
        raise NotImplementedError

    def _error(self, text: str, node: ast.AST) -> Exception:
        raise NotImplementedError

    def _temporary(self, prefix: str) -> str:
        raise NotImplementedError

    def _checked(self, kind: str, value: ast.expr) -> ast.expr:
        raise NotImplementedError

    def _targets(self, targets: list[ast.expr]) -> tuple[list[ast.expr], list[ast.stmt]]:
        raise NotImplementedError

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        raise NotImplementedError

    def _poll(self, node: ast.stmt) -> list[ast.stmt]:
        raise NotImplementedError

    def _object_of(self, node: ast.AST) -> str | None:
        raise NotImplementedError

    # -- text of calls

    def _kept(self, name: str, *arguments: object) -> str:
        """Write a call of a kernel of `kept_kernel`."""
        self.written.kept.add(f"kept_{name}")
        return f"kept_{name}({', '.join(map(str, arguments))})"

    @property
    def _memory(self) -> Memory:
        assert self.plan.memory is not None
        return self.plan.memory

    def _own(self, place: Place) -> str:
        """Arguments of what takes or gives blocks."""
        return f"{self._memory.free}, {self._memory.arena}, {place.lists}, {place.heads}, {place.at}"

    def _seen(self, place: Place) -> str:
        """Arguments of what only looks."""
        return f"{self._memory.arena}, {place.heads}, {place.at}"

    def _order(self, kind: str) -> str:
        """Arguments of what orders values of a kind."""
        known = scalar(kind)
        assert known is not None
        if known.in_functions == "string":
            assert self.plan.texts is not None
            return f"2, {self.plan.texts.order}"
        arena = self._memory.arena
        return f"{int(known.in_functions.startswith('float'))}, {arena}, {arena}, {arena}"

    def _statement(self, text: str, node: ast.AST) -> ast.stmt:
        (statement,) = ast.parse(text).body
        for each in ast.walk(statement):
            if "lineno" in getattr(each, "_attributes", ()):
                ast.copy_location(each, node)
        return statement

    # -- words

    def _expect(self, static: Any, node: ast.expr, where: str) -> None:
        given = self.inference.of(node)
        if given is not None and given != static:
            raise self._error(f"{ast.unparse(node)} is {said(given)}: {where} takes {said(static)}", node)

    def _word(self, kind: str, node: ast.expr, where: str, is_key: bool = False) -> str:
        """A user's expression as the word that a container keeps."""
        self._expect(static_of(kind), node, where)
        return self._as_word(kind, self.visit(node), is_key)

    def _as_word(self, kind: str, value: ast.expr, is_key: bool = False) -> str:
        known = scalar(kind)
        assert known is not None
        if known.in_functions == "string":
            return ast.unparse(value)
        checked = ast.unparse(self._checked(known.in_functions, value))
        if known.in_functions.startswith("float"):
            return self._kept("key_bits" if is_key else "bits", checked)
        return checked if known.in_functions == "int64" else f"np.int64({checked})"

    def _value(self, kind: str, word: str) -> str:
        """What a function sees of a word."""
        known = scalar(kind)
        assert known is not None
        if known.in_functions == "bool":
            return f"({word} != 0)"
        return self._kept("float", word) if known.in_functions.startswith("float") else word

    # -- places

    def _place(self, node: ast.AST) -> Place | None:
        """Where the container is that an expression stands for; None if it is none."""
        if isinstance(node, ast.Name):
            return self.places.get(node.id)
        role = self._object_of(node)
        if role is not None and isinstance(node, ast.Attribute):
            binding = self.plan.objects[role].get(node.attr) if role in self.plan.objects else None
            if not isinstance(binding, ContainerBinding):
                return None
            self.written.reads.setdefault(role, set()).add(node.attr)
            return Place(binding.kind, binding.heads, binding.at, binding.lists, role, node.attr)
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
            owner = self._place(node.value)
            if owner is not None and isinstance(owner.kind, MapOf) and not isinstance(owner.kind.value, str):
                self._note_write(owner)
                key = self._word(owner.kind.key, node.slice, f"{ast.unparse(node.value)}[...]", is_key=True)
                return Place(
                    owner.kind.value,
                    self._memory.arena,
                    self._kept("made", self._own(owner), key, owner.kind.width),
                    owner.lists,
                )
            return None
        return self._made(node, None)

    def _need(self, node: ast.AST) -> Place:
        place = self._place(node)
        if place is None:
            raise self._error(
                f"{ast.unparse(node)}: only a container with a name, a field of the state for one, can be used here", node
            )
        return place

    def _note_write(self, place: Place) -> None:
        if place.role is not None and place.field is not None:
            self.written.writes.setdefault(place.role, set()).add(place.field)

    def _temporary_place(self, kind: str, node: ast.AST) -> Place:
        memory = self._memory
        number = self.written.temporaries
        self.written.temporaries += 1
        if number >= memory.most:
            raise self._error(f"needs more than {memory.most} lists that are made in passing: use fewer", node)
        at = memory.temporary_at.replace("{number}", str(number))
        return Place(ListOf(kind), memory.temporaries, at, memory.temporary_lists)

    def _made(self, node: ast.AST, into: Place | None) -> Place | None:
        """A list made by an expression: a slice, ``sorted``, ``list``, ``copy``; None for any other expression.

        Its `at` is the call that makes it, in `into` or in a temporary.
        """
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            source = self._place(node.value)
            if source is None:
                return None
            if not isinstance(source.kind, ListOf | Array):
                raise self._error(f"{ast.unparse(node)}: only lists and arrays have slices", node)
            if node.slice.step is not None:
                raise self._error(f"{ast.unparse(node)}: a slice with a step; write a loop", node)
            start, stop = (self._bound(part, default) for part, default in (
                (node.slice.lower, "0"), (node.slice.upper, "np.int64(9223372036854775807)")))  # fmt: skip
            target = into or self._temporary_place(source.kind.kind, node)
            if isinstance(source.kind, Array):
                call = self._kept(
                    "array_slice", self._own(target), source.heads, source.at, source.kind.size, start, stop
                )
            else:
                call = self._kept("slice", self._own(target), source.heads, source.at, start, stop)
            return replace(target, kind=ListOf(source.kind.kind), at=call)
        if not isinstance(node, ast.Call):
            return None
        if isinstance(node.func, ast.Attribute) and node.func.attr == "copy" and not node.args:
            whole = ast.Subscript(node.func.value, ast.Slice(None, None, None), ast.Load())
            return self._made(ast.copy_location(whole, node), into)
        name = self._builtin(node)
        if name not in ("sorted", "list") or len(node.args) != 1:
            return None
        is_view = self.inference.is_view(node.args[0])
        if not is_view and not is_container(self.inference.of(node.args[0])):
            return None
        reverse = self._reverse(node, allowed=name == "sorted")
        kind = self.inference.kept_by(node.args[0])
        if not isinstance(kind, str) or (is_view and node.args[0].func.attr == "items"):  # type: ignore[attr-defined]
            raise self._error(f"{ast.unparse(node)}: only single values can be listed; write a loop", node)
        target = into or self._temporary_place(kind, node)
        owner = node.args[0].func.value if is_view else node.args[0]  # type: ignore[attr-defined]
        source = self._need(owner)
        if isinstance(source.kind, SetOf | MapOf):
            offset = int(is_view and node.args[0].func.attr == "values")  # type: ignore[attr-defined]
            key = source.kind.key if isinstance(source.kind, MapOf) else source.kind.kind
            call = self._kept(
                "listed", self._own(target), source.heads, source.at, width_of(source.kind), offset, self._order(key)
            )
            is_sorted = offset == 0
        else:
            size = [source.kind.size] if isinstance(source.kind, Array) else []
            call = self._kept(
                "array_slice" if size else "slice",
                self._own(target), source.heads, source.at, *size, "0", "np.int64(9223372036854775807)",
            )  # fmt: skip
            is_sorted = False
        if name == "sorted" and not (is_sorted and reverse == "False"):
            call = self._kept("sort", self._own(replace(target, at=call)), reverse, self._order(kind))
        return replace(target, kind=ListOf(kind), at=call)

    def _bound(self, node: ast.expr | None, default: str) -> str:
        if node is None:
            return default
        self._expect("number", node, "a slice")
        return ast.unparse(self._checked("int64", self.visit(node)))

    def _reverse(self, node: ast.Call, allowed: bool) -> str:
        for keyword in node.keywords:
            if keyword.arg != "reverse" or not allowed:
                advice = "; keep what to sort by in a list or map of its own" if keyword.arg == "key" else ""
                raise self._error(f"{ast.unparse(node)}: {keyword.arg}= cannot be compiled{advice}", node)
            self._expect("number", keyword.value, "reverse=")
            return ast.unparse(self._checked("truth", self.visit(keyword.value)))
        return "False"

    def _builtin(self, node: ast.Call) -> str | None:
        if not isinstance(node.func, ast.Name) or node.func.id in self.captured.helpers:
            return None
        known = self.captured.constants.get(node.func.id)
        return known.id if isinstance(known, ast.Name) else None

    # -- conditions

    def _condition(self, node: ast.expr) -> ast.expr:
        """An expression whose truth is asked for."""
        if isinstance(node, ast.BoolOp):
            return ast.copy_location(ast.BoolOp(node.op, [self._condition(value) for value in node.values]), node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ast.copy_location(ast.UnaryOp(ast.Not(), self._condition(node.operand)), node)
        static = self.inference.of(node)
        if static == "string" or is_container(static):
            return self._text(f"{self._length(node, node)} != 0", node)
        return self.visit(node)

    def _length(self, node: ast.expr, whole: ast.AST) -> str:
        static = self.inference.of(node)
        if static == "string":
            assert self.plan.texts is not None
            return f"{self.plan.texts.points}[{ast.unparse(self.visit(node))}]"
        if isinstance(static, Array):
            return str(static.size)
        place = self._need(node)
        return self._kept("count", place.heads, place.at)

    # -- expressions

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str) and self.plan.texts is not None and not self._is_message:
            number = self.plan.texts.number_of(node.value)
            return self._text(self.plan.texts.literal.replace("{number}", str(number)), node)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        if self.plan.texts is None or self._is_message:
            return node
        raise self._error(f"{ast.unparse(node)}: strings cannot be put together here; {TEXT_WORK}", node)

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        self._is_message = True
        result = self.generic_visit(node)
        self._is_message = False
        assert isinstance(result, ast.stmt)
        return result

    def visit_List(self, node: ast.List) -> ast.expr:
        return self._display(node)

    def visit_Set(self, node: ast.Set) -> ast.expr:
        return self._display(node)

    def _display(self, node: ast.List | ast.Set) -> ast.expr:
        for part in node.elts:
            self._refuse(part, "a list or set that is not of the state; use a tuple, or keep it in the state")
        result = self.generic_visit(node)
        assert isinstance(result, ast.expr)
        return result

    def _refuse(self, node: ast.expr, what: str) -> None:
        """Raise if a string or container is given to what takes none."""
        if isinstance(node, ast.Starred | ast.Slice):
            return
        static = self.inference.of(node)
        if static == "string":
            raise self._error(f"{ast.unparse(node)} is a string, in {what}", node)
        if is_container(static) or isinstance(static, Record):
            raise self._error(f"{ast.unparse(node)} is {said(static)}, in {what}", node)

    def _refuse_operation(self, node: ast.expr, parts: Sequence[ast.expr]) -> None:
        if self._is_message:
            return
        for part in parts:
            static = self.inference.of(part)
            if static == "string":
                raise self._error(
                    f"{ast.unparse(node)}: {ast.unparse(part)} is a string, which can be compared, kept and emitted"
                    f" here; for other text work, {TEXT_WORK}",
                    node,
                )
            if is_container(static) or isinstance(static, Record | tuple):
                raise self._error(f"{ast.unparse(node)}: {ast.unparse(part)} is {said(static)}; write a loop", node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        for part in node.values:
            self._refuse(part, f"{ast.unparse(node)}: write a condition, as in a if a else b")
        result = self.generic_visit(node)
        assert isinstance(result, ast.expr)
        return result

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        for part in (node.body, node.orelse):
            if is_container(self.inference.of(part)):
                self._refuse(part, f"{ast.unparse(node)}: write if and else")
        return ast.copy_location(
            ast.IfExp(self._condition(node.test), self.visit(node.body), self.visit(node.orelse)), node
        )

    def _kept_subscript(self, node: ast.Subscript) -> ast.expr | None:
        """An element of a container; None if it is none."""
        static = self.inference.of(node.value)
        if static == "string":
            raise self._error(f"{ast.unparse(node)}: a part of a string; {TEXT_WORK}", node)
        if not is_container(static):
            if isinstance(static, tuple) and not isinstance(node.slice, ast.Constant | ast.UnaryOp):
                raise self._error(f"{ast.unparse(node)}: give a number, as in {ast.unparse(node.value)}[0]", node)
            self._refuse(node.slice, f"{ast.unparse(node)}: it cannot be an index")
            return None
        if isinstance(node.slice, ast.Slice):
            raise self._error(
                f"{ast.unparse(node)}: use it in a loop, in len, in emit, or give it a name or to a list", node
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
        """The word of a field of a record in a map, and its kind; None if it is none."""
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
            f"{text} is {said(static)}: here it can only be used by what it can do, such as len({text}), a loop or `in`",
            node,
        )

    def _kept_compare(self, node: ast.Compare) -> ast.expr | None:
        """A comparison of strings, or `in` a container; None if it is neither."""
        operands = [node.left, *node.comparators]
        statics = [self.inference.of(operand) for operand in operands]
        displays = [isinstance(operand, ast.Tuple | ast.List | ast.Set) for operand in operands]
        if all(static in ("number", None) for static in statics) and not any(displays):
            if not any(self.inference.is_view(operand) for operand in operands):
                return None
        for middle in operands[1:-1]:
            if any(self._changes(inner) for inner in ast.walk(middle)):
                raise self._error(f"{ast.unparse(node)}: give {ast.unparse(middle)} a name in a statement before", node)
        # What stands in the middle of a chain is written twice, and rewriting changes what it is given.
        chain = zip(operands, node.ops, map(copy.deepcopy, operands[1:]), strict=False)
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
            if is_container(static) or isinstance(static, Record):
                raise self._bare(side, static)
        if "string" in statics and None not in statics and statics[0] != statics[1]:
            raise self._error(
                f"{ast.unparse(node)}: {said(statics[0])} and {said(statics[1])} are compared, and never equal", node
            )
        if "string" not in statics or isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
            if isinstance(statics[0], tuple) and not isinstance(op, ast.Eq | ast.NotEq):
                raise self._error(f"{ast.unparse(node)}: compare the parts of a tuple with strings one by one", node)
            return ast.copy_location(ast.Compare(self.visit(left), [op], [self.visit(right)]), node)
        assert self.plan.texts is not None
        a, b = (ast.unparse(self.visit(side)) for side in (left, right))
        less = self._kept("less", self.plan.texts.order, _COMPARED[type(op)].format(a=a, b=b))
        return self._text(f"not {less}" if isinstance(op, _NEGATED) else less, node)

    def _is_in(self, left: ast.expr, right: ast.expr, node: ast.Compare) -> ast.expr:
        if self.inference.of(right) == "string":
            raise self._error(f"{ast.unparse(node)}: looks into a string; {TEXT_WORK}", node)
        if isinstance(right, ast.Tuple | ast.List | ast.Set):
            for part in right.elts:
                self._expect(self.inference.of(left), part, ast.unparse(node))
            parts = ast.Tuple([self.visit(part) for part in right.elts], ast.Load())
            return ast.copy_location(ast.Compare(self.visit(left), [ast.In()], [parts]), node)
        view = None
        owner = right
        if self.inference.is_view(right):
            assert isinstance(right, ast.Call) and isinstance(right.func, ast.Attribute)
            view, owner = right.func.attr, right.func.value
        static = self.inference.of(owner)
        if not is_container(static):
            self._refuse(left, ast.unparse(node))
            return ast.copy_location(ast.Compare(self.visit(left), [ast.In()], [self.visit(right)]), node)
        if view in ("items", "values"):
            raise self._error(f"{ast.unparse(node)}: only keys can be looked up; write a loop", node)
        place = self._need(owner)
        where = ast.unparse(right)
        if isinstance(place.kind, SetOf | MapOf):
            key = place.kind.key if isinstance(place.kind, MapOf) else place.kind.kind
            word = self._word(key, left, where, is_key=True)
            return self._text(self._kept("has", self._seen(place), word, width_of(place.kind)), node)
        word, is_float = self._word(place.kind.kind, left, where), self._is_float(place.kind.kind)
        if isinstance(place.kind, Array):
            call = self._kept("array_find", place.heads, place.at, place.kind.size, word, is_float)
        else:
            call = self._kept("find", self._seen(place), word, is_float)
        return self._text(f"{call} >= 0", node)

    def _is_float(self, kind: str) -> bool:
        known = scalar(kind)
        assert known is not None
        return known.in_functions.startswith("float")

    # -- calls

    def _kept_call(self, node: ast.Call) -> ast.expr | None:
        """A call that is about strings or containers; None if it is none."""
        if isinstance(node.func, ast.Attribute):
            static = self.inference.of(node.func.value)
            if static == "string":
                raise self._error(f"{ast.unparse(node)}: text work; {TEXT_WORK}", node)
            if is_container(static):
                return self._method(node, node.func)
        name = self._builtin(node)
        if name in ("set", "dict"):
            raise self._error(
                f"{ast.unparse(node)}: a set or map is a field of the state; {name}() alone, given to one, empties it",
                node,
            )
        if len(node.args) == 1 and name is not None:
            argument = node.args[0]
            static = self.inference.of(argument)
            is_view = self.inference.is_view(argument)
            if name == "len" and not is_view and (static == "string" or is_container(static)):
                return self._text(self._length(argument, node), node)
            if name == "len" and is_view:
                return self._text(self._length(argument.func.value, node), node)  # type: ignore[attr-defined]
            if is_view or is_container(static):
                if name in ("min", "max", "sum"):
                    return self._summed(node, name, argument, is_view)
                if name in ("sorted", "list"):
                    raise self._error(
                        f"{ast.unparse(node)}: use it in a loop, in emit, or give it a name or to a list", node
                    )
        if name in ("min", "max") and len(node.args) > 1 and self.inference.of(node) == "string":
            for argument in node.args:
                self._expect("string", argument, ast.unparse(node))
            assert self.plan.texts is not None
            text = ast.unparse(self.visit(node.args[0]))
            for argument in node.args[1:]:
                call = "lesser" if name == "min" else "greater"
                text = self._kept(call, self.plan.texts.order, text, ast.unparse(self.visit(argument)))
            return self._text(text, node)
        if name not in _PLAIN_CALLS and not self._is_message:
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                what = ast.unparse(node.func)
                self._refuse(argument, f"{what}(...), which takes numbers; for text work, {TEXT_WORK}")
        return None

    def _summed(self, node: ast.Call, name: str, argument: ast.expr, is_view: bool) -> ast.expr:
        """``min``, ``max`` and ``sum`` of a container, or of the keys or values of a map."""
        if node.keywords:
            raise self._error(f"{ast.unparse(node)}: {node.keywords[0].arg}= cannot be compiled; write a loop", node)
        kind = self.inference.kept_by(argument)
        if not isinstance(kind, str) or (is_view and argument.func.attr == "items"):  # type: ignore[attr-defined]
            raise self._error(f"{ast.unparse(node)}: write a loop", node)
        owner = argument.func.value if is_view else argument  # type: ignore[attr-defined]
        place = self._need(owner)
        if isinstance(place.kind, Array):
            span = f"{place.heads}, {place.at}, 1, {place.kind.size}"
        elif place.at.startswith("kept_"):
            raise self._error(f"{ast.unparse(node)}: give {ast.unparse(argument)} a name in a statement before", node)
        elif isinstance(place.kind, ListOf):
            first = self._kept("first_element", place.heads, place.at)
            span = f"{self._memory.arena}, {first}, 1, {self._kept('count', place.heads, place.at)}"
        else:
            width = width_of(place.kind)
            offset = int(is_view and argument.func.attr == "values")  # type: ignore[attr-defined]
            key = place.kind.key if isinstance(place.kind, MapOf) else place.kind.kind
            at = place.at
            if name == "sum":  # floats are added in the order of the loop
                at = self._kept("in_order", self._memory.arena, place.heads, place.at, width, self._order(key))
            first = f"{self._kept('first_entry', place.heads, at, width)} + {offset}"
            span = f"{self._memory.arena}, {first}, {width + 1}, {self._kept('count', place.heads, place.at)}"
        if name == "sum":
            if static_of(kind) == "string":
                raise self._error(f"{ast.unparse(node)}: strings cannot be put together here; {TEXT_WORK}", node)
            return self._text(self._kept("float_sum" if self._is_float(kind) else "sum", span), node)
        word = self._kept("extreme", span, 1 if name == "max" else -1, self._order(kind))
        return self._text(self._value(kind, word), node)

    def _method(self, node: ast.Call, function: ast.Attribute) -> ast.expr:
        place = self._need(function.value)
        family = {ListOf: "list", SetOf: "set", MapOf: "map", Array: "array"}[type(place.kind)]
        write = getattr(self, f"_{family}_{function.attr}", None)
        known = sorted(
            name.removeprefix(f"_{family}_") for name in dir(self) if name.startswith(f"_{family}_")
        )
        if write is None:
            has = f"it has {', '.join(known)}" if known else "it has no methods"
            raise self._error(f"{ast.unparse(node)}: {said(place.kind)} has no {function.attr}() here; {has}", node)
        if node.keywords and function.attr != "sort":
            raise self._error(f"{ast.unparse(node)}: give its arguments without names", node)
        least, most = {
            "append": (1, 1), "extend": (1, 1), "insert": (2, 2), "remove": (1, 1), "index": (1, 1), "count": (1, 1),
            "add": (1, 1), "discard": (1, 1), "get": (2, 2), "setdefault": (2, 2), "update": (1, 1),
            "pop": (1, 2) if family == "map" else (0, 1),
        }.get(function.attr, (0, 0))  # fmt: skip
        if not least <= len(node.args) <= most:
            advice = ": without a default there may be no value" if function.attr == "get" else ""
            wanted = f"{least}" if least == most else f"{least} or {most}"
            raise self._error(
                f"{ast.unparse(node)}: takes {wanted} arguments here, and {len(node.args)} are given{advice}", node
            )
        if function.attr not in ("get", "index", "count"):
            self._note_write(place)
        where = f"{ast.unparse(function)}(...)"
        return self._text(write(place, node, where), node)

    def _list_append(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("append", self._own(place), self._word(place.kind.kind, node.args[0], where))

    def _list_extend(self, place: Place, node: ast.Call, where: str) -> str:
        source = self._place(node.args[0])
        if source is None or source.kind != place.kind:
            raise self._error(f"{ast.unparse(node)}: give a {place.kind!r}", node)
        return self._kept("extend", self._own(place), source.heads, source.at)

    def _list_insert(self, place: Place, node: ast.Call, where: str) -> str:
        index = self._word("int64", node.args[0], where)
        return self._kept("insert", self._own(place), index, self._word(place.kind.kind, node.args[1], where))

    def _list_pop(self, place: Place, node: ast.Call, where: str) -> str:
        index = self._word("int64", node.args[0], where) if node.args else "-1"
        return self._value(place.kind.kind, self._kept("take", self._own(place), index))

    def _list_remove(self, place: Place, node: ast.Call, where: str) -> str:
        word = self._word(place.kind.kind, node.args[0], where)
        return self._kept("remove", self._own(place), word, self._is_float(place.kind.kind))

    def _list_index(self, place: Place, node: ast.Call, where: str) -> str:
        word = self._word(place.kind.kind, node.args[0], where)
        return self._kept("index", self._seen(place), word, self._is_float(place.kind.kind))

    def _list_count(self, place: Place, node: ast.Call, where: str) -> str:
        word = self._word(place.kind.kind, node.args[0], where)
        return self._kept("times", self._seen(place), word, self._is_float(place.kind.kind))

    def _list_clear(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("clear", self._own(place))

    def _list_reverse(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("reverse", self._seen(place))

    def _list_sort(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("sort", self._own(place), self._reverse(node, allowed=True), self._order(place.kind.kind))

    def _set_add(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("add", self._own(place), self._word(place.kind.kind, node.args[0], where, is_key=True))

    def _set_discard(self, place: Place, node: ast.Call, where: str) -> str:
        word = self._word(place.kind.kind, node.args[0], where, is_key=True)
        return self._kept("discard", self._own(place), word, 0)

    def _set_remove(self, place: Place, node: ast.Call, where: str) -> str:
        word = self._word(place.kind.kind, node.args[0], where, is_key=True)
        return self._kept("drop", self._own(place), word, 0)

    def _set_clear(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("clear_keys", self._own(place))

    def _map_clear(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("clear_keys", self._own(place))

    def _map_get(self, place: Place, node: ast.Call, where: str) -> str:
        kind = self._single(place, node)
        key = self._word(place.kind.key, node.args[0], where, is_key=True)
        return self._value(kind, self._kept("or", self._seen(place), key, 1, self._word(kind, node.args[1], where)))

    def _map_setdefault(self, place: Place, node: ast.Call, where: str) -> str:
        kind = self._single(place, node)
        key = self._word(place.kind.key, node.args[0], where, is_key=True)
        return self._value(kind, self._kept("first", self._own(place), key, 1, self._word(kind, node.args[1], where)))

    def _map_pop(self, place: Place, node: ast.Call, where: str) -> str:
        key = self._word(place.kind.key, node.args[0], where, is_key=True)
        if not isinstance(place.kind.value, str):
            if len(node.args) > 1:
                raise self._error(f"{ast.unparse(node)}: test with `in` before; there is no default", node)
            return self._kept("drop", self._own(place), key, place.kind.width)
        if len(node.args) == 1:
            return self._value(place.kind.value, self._kept("pop", self._own(place), key, 1))
        default = self._word(place.kind.value, node.args[1], where)
        return self._value(place.kind.value, self._kept("pop_or", self._own(place), key, 1, default))

    def _single(self, place: Place, node: ast.Call) -> str:
        if not isinstance(place.kind.value, str):
            raise self._error(
                f"{ast.unparse(node)}: its values are {place.kind.value!r}, of zeros for a key that is new:"
                f" write [...] in place of it",
                node,
            )
        return place.kind.value

    # -- assignment

    def _kept_assign(self, node: ast.Assign) -> list[ast.stmt] | None:
        """An assignment of a container; None if it is none."""
        static = self.inference.of(node.value)
        targets = [self.inference.of(target) for target in node.targets]
        if isinstance(static, Record):
            raise self._error(f"{ast.unparse(node.value)} is {said(static)}: use its fields, or a loop's variable", node)
        if not is_container(static) and not any(map(is_container, targets)):
            return None
        if len(node.targets) > 1:
            raise self._error(f"{ast.unparse(node)}: assign a container to one name or field", node)
        target = node.targets[0]
        place = self._place(target) if not isinstance(target, ast.Name) else None
        if isinstance(target, ast.Name):
            return self._name_container(target, node)
        if place is None:
            raise self._error(f"{ast.unparse(node)}: a container can only be given to a name or a field", node)
        self._note_write(place)
        if _is_empty(node.value, self._builtin, place.kind):
            call = self._kept("clear" if isinstance(place.kind, ListOf) else "clear_keys", self._own(place))
            return [self._statement(call, node)]
        if not isinstance(place.kind, ListOf) or static != place.kind:
            if isinstance(node.value, ast.BinOp):
                self._refuse_operation(node.value, [node.value.left, node.value.right])
            what = "an empty one or a list of that kind" if isinstance(place.kind, ListOf) else "an empty one"
            raise self._error(f"{ast.unparse(node)}: give {said(place.kind)} {what}", node)
        whole = ast.copy_location(
            ast.Subscript(node.value, ast.Slice(None, None, None), ast.Load()), node
        )
        is_whole = isinstance(node.value, ast.Attribute | ast.Name)
        made = self._made(whole if is_whole else node.value, None if self._sorts(node.value) else place)
        assert made is not None
        if self._sorts(node.value):
            call = self._kept("slice", self._own(place), made.heads, made.at, "0", "np.int64(9223372036854775807)")
            return [self._statement(call, node)]
        return [self._statement(made.at, node)]

    def _sorts(self, node: ast.expr) -> bool:
        """Whether a list is made in several steps, of which all but the last need a list of their own."""
        return isinstance(node, ast.Call)

    def _name_container(self, target: ast.Name, node: ast.Assign) -> list[ast.stmt]:
        if isinstance(node.value, ast.Attribute | ast.Name):
            place = self._need(node.value)
            if self.places.setdefault(target.id, place) != place:
                raise self._error(f"{target.id!r} stands for another container elsewhere: use two names", target)
            return []
        if target.id not in self.places:
            kind = self.inference.of(node.value)
            if not isinstance(kind, ListOf):
                raise self._error(f"{ast.unparse(node.value)} has no name of its own: use it by its key each time", node)
            self.places[target.id] = self._temporary_place(kind.kind, node)
        own = self.places[target.id]
        if own.role is not None:
            raise self._error(f"{target.id!r} stands for another container elsewhere: use two names", target)
        made = self._made(node.value, None)
        assert made is not None
        call = self._kept("slice", self._own(own), made.heads, made.at, "0", "np.int64(9223372036854775807)")
        return [self._statement(call, node)]

    def _check_fields(self, node: ast.Assign, static: Any) -> None:
        """Raise where a number is given to a field of strings, or the other way round."""
        for target in node.targets:
            if isinstance(target, ast.Attribute) and static is not None and not isinstance(static, tuple):
                wanted = self.inference.of(target)
                if wanted in ("string", "number") and wanted != static:
                    raise self._error(
                        f"{ast.unparse(node)}: {ast.unparse(node.value)} is {said(static)}, and the field is"
                        f" {said(wanted)}",
                        node,
                    )
            if isinstance(target, ast.Tuple | ast.List):
                parts = node.value.elts if isinstance(node.value, ast.Tuple | ast.List) else []
                for one, value in zip(target.elts, parts, strict=False):
                    self._check_fields(ast.copy_location(ast.Assign([one], value), node), self.inference.of(value))

    def _kept_target(self, target: ast.expr, name: str) -> list[ast.stmt] | None:
        """The statement that stores the local `name` in an element of a container; None if the target is none."""
        if isinstance(target, ast.Attribute):
            found = self._record_word(target)
            if found is None:
                return None
            word, kind = found
            value = self._as_word(kind, ast.Name(name, ast.Load()))
            return [self._statement(f"{word} = {value}", target)]
        if not isinstance(target, ast.Subscript):
            return None
        static = self.inference.of(target.value)
        if not is_container(static):
            return None
        text = ast.unparse(target)
        if isinstance(target.slice, ast.Slice):
            raise self._error(f"{text} is assigned: a slice cannot be; write a loop", target)
        if isinstance(static, SetOf) or (isinstance(static, MapOf) and not isinstance(static.value, str)):
            raise self._error(f"{text} is assigned: {said(static)} takes no such assignment", target)
        place = self._need(target.value)
        self._note_write(place)
        where = f"{ast.unparse(target.value)}[...]"
        if isinstance(place.kind, MapOf):
            key = self._word(place.kind.key, target.slice, where, is_key=True)
            at = self._kept("made", self._own(place), key, 1)
            kind = place.kind.value
            # The map may move to another block: its place is found before anything is written.
            here = self._temporary("place")
            value = self._as_word(kind, ast.Name(name, ast.Load()))
            return [
                self._statement(f"{here} = {at}", target),
                self._statement(f"{self._memory.arena}[{here}] = {value}", target),
            ]
        index = self._word("int64", target.slice, where)
        kind = place.kind.kind
        value = self._as_word(kind, ast.Name(name, ast.Load()))
        if isinstance(place.kind, Array):
            word = f"{place.heads}[{self._kept('at', place.at, place.kind.size, index)}]"
        else:
            word = f"{self._memory.arena}[{self._kept('place', place.heads, place.at, index)}]"
        return [self._statement(f"{word} = {value}", target)]

    def _kept_aug_assign(self, node: ast.AugAssign) -> list[ast.stmt] | None:
        """``d[k] += 1``, with one search; None if the target is no element of a container."""
        target, place, key = node.target, None, ""
        if isinstance(target, ast.Name | ast.Attribute) and is_container(self.inference.of(target)):
            raise self._error(f"{ast.unparse(node)}: use append, extend, add or update", node)
        self._refuse_operation(target, [target, node.value])
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Subscript | ast.Name):
            if not isinstance(self.inference.of(target.value), Record):
                return None
            found = self._record_word(target)
            assert found is not None
            word, kind = found
            array, _, rest = word.partition("[")
            at = rest[:-1]
        elif isinstance(target, ast.Subscript) and is_container(self.inference.of(target.value)):
            static = self.inference.of(target.value)
            if isinstance(target.slice, ast.Slice) or isinstance(static, SetOf):
                raise self._error(f"{ast.unparse(node)}: cannot be compiled; write a loop", node)
            if isinstance(static, MapOf) and not isinstance(static.value, str):
                raise self._error(f"{ast.unparse(node)}: its values are {static.value!r}; use their elements", node)
            place = self._need(target.value)
            self._note_write(place)
            where = f"{ast.unparse(target.value)}[...]"
            array = self._memory.arena
            if isinstance(place.kind, MapOf):
                kind = place.kind.value
                key = self._word(place.kind.key, target.slice, where, is_key=True)
                at = self._kept("value", self._seen(place), key, 1)
            else:
                kind = place.kind.kind
                index = self._word("int64", target.slice, where)
                if isinstance(place.kind, Array):
                    array, at = place.heads, self._kept("at", place.at, place.kind.size, index)
                else:
                    at = self._kept("place", place.heads, place.at, index)
        else:
            return None
        here, now = self._temporary("place"), self._temporary("value")
        self.names[now] = now
        self.inference.names[now] = "number"
        combined = ast.BinOp(ast.copy_location(ast.Name(now, ast.Load()), node), node.op, node.value)
        result = self._as_word(kind, self.visit(ast.copy_location(combined, node)))
        load = [
            self._statement(f"{here} = {at}", node),
            self._statement(f"{now} = {self._value(kind, f'{array}[{here}]')}", node),
        ]
        if not any(isinstance(inner, ast.Call) for inner in ast.walk(node.value)):
            return [*load, self._statement(f"{array}[{here}] = {result}", node)]
        # A call may change the container, as in d[k] += d.pop(j): the place is asked for again.
        if any(self._changes(inner) for inner in ast.walk(target)):
            raise self._error(f"{ast.unparse(node)}: give {ast.unparse(target)} its key by a name", node)
        word = self._temporary("value")
        if place is not None and isinstance(place.kind, MapOf):
            at = self._kept("made", self._own(place), key, 1)
        return [
            *load,
            self._statement(f"{word} = {result}", node),
            self._statement(f"{here} = {at}", node),
            self._statement(f"{array}[{here}] = {word}", node),
        ]

    def _changes(self, node: ast.AST) -> bool:
        """Whether it is a call that may change a container."""
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute):
            return node.func.attr in ("pop", "setdefault")
        return isinstance(node.func, ast.Name) and node.func.id in self.captured.helpers

    # -- loops

    def _kept_loop(self, node: ast.For) -> list[ast.stmt] | None:
        """A loop over a container; None if it is over something else."""
        iterable, target = node.iter, node.target
        counter: ast.expr | None = None
        start = "0"
        is_reversed = False
        name = self._builtin(iterable) if isinstance(iterable, ast.Call) else None
        if name in ("enumerate", "reversed") and isinstance(iterable, ast.Call) and iterable.args:
            inner = iterable.args[0]
            if self.inference.is_view(inner) or is_container(self.inference.of(inner)):
                if name == "reversed":
                    is_reversed = True
                else:
                    if not (isinstance(target, ast.Tuple) and len(target.elts) == 2):
                        raise self._error(f"{ast.unparse(target)}: write for i, x in enumerate(...)", node)
                    given = [*iterable.args[1:], *(keyword.value for keyword in iterable.keywords)]
                    start = ast.unparse(self.visit(given[0])) if given else "0"
                    counter, target = target.elts
                iterable = inner
        view = None
        owner = iterable
        if self.inference.is_view(iterable):
            assert isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute)
            view, owner = iterable.func.attr, iterable.func.value
        static = self.inference.of(owner)
        if not is_container(static):
            if name == "zip" and isinstance(iterable, ast.Call):
                for argument in iterable.args:
                    self._refuse(argument, "zip: write a loop over one with enumerate")
            return None
        place = self._need(owner)
        if is_reversed and not isinstance(place.kind, ListOf | Array):
            raise self._error(f"{ast.unparse(node.iter)}: loop over sorted(..., reverse=True)", node)
        at, turn = self._temporary("at"), self._temporary("turn")
        here = replace(place, at=at)
        before = [self._statement(f"{at} = {place.at}", node)]
        if isinstance(place.kind, ListOf | Array):
            return self._list_loop(node, here, before, turn, target, counter, start, is_reversed)
        return self._map_loop(node, here, before, turn, target, counter, start, view)

    def _list_loop(self, node, place, before, turn, target, counter, start, is_reversed) -> list[ast.stmt]:
        is_array = isinstance(place.kind, Array)
        count = str(place.kind.size) if is_array else self._kept("count", place.heads, place.at)
        begin, step, test = ("0", "+", f"{turn} < {count}")
        if is_reversed:
            begin, step, test = (f"{count} - 1", "-", f"{turn} >= 0")
        if is_array:
            word = f"{place.heads}[{place.at} + {turn}]"
        else:
            word = self._kept("element", self._seen(place), turn)
        taken = self._take(target, [self._text(self._value(place.kind.kind, word), node)], node)
        counted = [] if counter is None else self._take(counter, [self._text(f"{turn} + {start}", node)], node)
        return self._while(node, [*before, self._statement(f"{turn} = {begin}", node)], test, turn, step, [*counted, *taken])

    def _map_loop(self, node, place, before, turn, target, counter, start, view) -> list[ast.stmt]:
        width = width_of(place.kind)
        key_kind = place.kind.key if isinstance(place.kind, MapOf) else place.kind.kind
        begun = self._temporary("begun")
        begin = self._kept("begin", self._seen(place), width, self._order(key_kind))
        entry = self._temporary("entry")
        arena = self._memory.arena
        at_entry = self._kept("entry", place.heads, place.at, turn, width)
        key = self._text(self._value(key_kind, f"{arena}[{entry}]"), node)
        is_nested = isinstance(place.kind, MapOf) and not isinstance(place.kind.value, str)
        values: list[ast.expr | None] = [key]
        if view in ("items", "values"):
            value = None
            if not is_nested:
                value = self._text(self._value(place.kind.value, f"{arena}[{entry} + 1]"), node)
            values = [key, value] if view == "items" else [value]
        if is_nested and view in ("items", "values"):
            named = target if view == "values" else getattr(target, "elts", [None, None])[1]
            if not isinstance(named, ast.Name):
                raise self._error(f"{ast.unparse(node.target)}: give a name to each {place.kind.value!r}", node)
            self.places[named.id] = Place(place.kind.value, arena, f"({at_entry} + 1)", place.lists)
        taken = self._take(target, values, node)
        counted = [] if counter is None else self._take(counter, [self._text(f"{turn} + {start}", node)], node)
        before = [
            *before,
            self._statement(f"{begun} = {begin}", node),
            self._statement(f"{turn} = 0", node),
        ]
        body = [self._statement(f"{entry} = {at_entry}", node), *counted, *taken]
        if is_nested and view in ("items", "values"):
            # The place of a value is asked for by its number each time: the number must stay that of this turn.
            return self._while(node, before, self._kept("more", place.heads, place.at, turn, begun), turn, "+", body, True)
        return self._while(node, before, self._kept("more", place.heads, place.at, turn, begun), turn, "+", body)

    def _while(self, node, before, test, turn, step, taken, is_late=False) -> list[ast.stmt]:
        advance = self._statement(f"{turn} = {turn} {step} 1", node)
        loop = ast.copy_location(ast.While(self._text(test, node), [], []), node)
        if is_late:
            # One turn ahead of what the body sees, as `continue` must go on to the next.
            begin = before.pop()
            assert isinstance(begin, ast.Assign)
            before.append(self._statement(f"{turn} = -1", node))
            loop.test = self._text(test.replace(f", {turn}, ", f", {turn} + 1, "), node)
            loop.body = [*self._poll(node), advance, *taken, *self._block(node.body)]
        else:
            loop.body = [*self._poll(node), *taken, advance, *self._block(node.body)]
        loop.orelse = self._block(node.orelse)
        return [*before, loop]

    def _take(self, target: ast.expr, values: Sequence[ast.expr | None], node: ast.AST) -> list[ast.stmt]:
        """Assign what a turn of a loop gives; None: a container, which has a place."""
        if len(values) == 1:
            pairs = [(target, values[0])]
        elif isinstance(target, ast.Tuple | ast.List) and len(target.elts) == len(values):
            pairs = list(zip(target.elts, values, strict=True))
        elif isinstance(target, ast.Name) and None not in values:
            pairs = [(target, ast.Tuple([value for value in values if value is not None], ast.Load()))]
        else:
            raise self._error(f"{ast.unparse(target)}: {len(values)} values are given in each turn", target)
        statements: list[ast.stmt] = []
        for one, value in pairs:
            if value is not None:
                targets, after = self._targets([one])
                statements += [ast.Assign(targets, value), *after]
        for statement in statements:
            ast.copy_location(statement, node)
        return statements

    # -- emitting

    def _emitted(self, kind: Any, node: ast.expr, where: str) -> ast.expr | None:
        """A container as a value of a result; None if the field is a single value, which is checked to be of its kind."""
        static = self.inference.of(node)
        if isinstance(kind, str) or kind is None:
            if is_container(static) or isinstance(static, Record):
                raise self._error(f"{ast.unparse(node)} is {said(static)}: {where} takes {said(kind or 'number')}", node)
            if kind is not None:
                self._expect(static_of(kind), node, where)
            elif static == "string":
                raise self._error(f"{ast.unparse(node)} is a string: {where} takes numbers", node)
            return None
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
                "np.int64(9223372036854775807)",
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


def _is_empty(node: ast.expr, builtin: Any, kind: Any) -> bool:
    """Whether it is ``[]``, ``{}``, ``set()``, ``list()`` or ``dict()``, for a container of this kind."""
    if isinstance(node, ast.List):
        return not node.elts and isinstance(kind, ListOf)
    if isinstance(node, ast.Dict):
        return not node.keys and isinstance(kind, MapOf)
    if isinstance(node, ast.Call) and not node.args:
        name = builtin(node)
        return {"list": ListOf, "set": SetOf, "dict": MapOf}.get(name or "") is type(kind)
    return False


__all__ = ["KeptValues", "Place", "element_of"]
