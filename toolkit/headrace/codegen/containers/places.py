"""Places of the containers of a user function, and the words that go into them and come out, as text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.codegen.bindings import ContainerBinding, HostKernel, Memory, Written
from headrace.codegen.capture import CapturedFunction
from headrace.codegen.inference import NUMBERS, TEXT_WORK, TEXTS, Inference, is_container, said, static_of
from headrace.codegen.kinds import Array, ListOf, MapOf, Record, SetOf, scalar, width_of
from headrace.codegen.trees import statements
from headrace.memory.lists_kernel import ORDER_FLOAT, ORDER_INT, ORDER_TEXT

NO_END = "np.int64(9223372036854775807)"
"""Stands for the end of a slice that has none."""


def seen_as(kind: str) -> str:
    """Return the type in which a function sees a scalar kind: a kind of number, or "string"."""
    known = scalar(kind)
    assert known is not None
    return known.in_functions


def is_float(kind: str) -> bool:
    return seen_as(kind).startswith("float")


@dataclass(frozen=True)
class Place:
    """The place of a container, as expressions; `at` may be evaluated only once."""

    kind: Any
    heads: str
    at: str
    lists: str
    role: str | None = None
    field: str | None = None
    is_local: bool = False
    """Whether `at` contains local names of this function, which change with each iteration of its loop."""


class Places(ast.NodeTransformer):
    """The basis for rewriting strings and containers; see `headrace.codegen.rewriting`."""

    captured: CapturedFunction
    host: HostKernel
    written: Written
    inference: Inference
    names: dict[str, str]
    roles: dict[str, str]
    places: dict[str, Place]
    given_places: frozenset[str]
    """Names in `places` that are parameters."""
    given_away: dict[int, ast.Attribute]
    """Containers that are assigned and not used again, of states that end with the call."""
    _is_message = False
    """Within ``raise``, where strings are messages."""

    # -- what subclasses provide

    def _text(self, text: str, node: ast.AST) -> ast.expr:
        raise NotImplementedError

    def _error(self, text: str, node: ast.AST) -> Exception:
        raise NotImplementedError

    def _temporary(self, prefix: str) -> str:
        raise NotImplementedError

    def _checked(self, kind: str, value: ast.expr) -> ast.expr:
        raise NotImplementedError

    def _number_call(self, function: Callable, arguments: list[ast.expr], node: ast.AST) -> ast.expr:
        raise NotImplementedError

    def _targets(self, targets: list[ast.expr]) -> tuple[list[ast.expr], list[ast.stmt]]:
        raise NotImplementedError

    def _block(self, block: list[ast.stmt]) -> list[ast.stmt]:
        raise NotImplementedError

    def _object_of(self, node: ast.AST) -> str | None:
        raise NotImplementedError

    # -- text of calls

    def _kept(self, name: str, *arguments: object) -> str:
        """Return a call of a kernel in `kernel`."""
        self.written.kept.add(f"kept_{name}")
        return f"kept_{name}({', '.join(map(str, arguments))})"

    @property
    def _memory(self) -> Memory:
        assert self.host.memory is not None
        return self.host.memory

    def _own(self, place: Place) -> str:
        """Return the arguments of kernels that take or free blocks."""
        return f"{self._memory.free}, {self._memory.arena}, {place.lists}, {place.heads}, {place.at}"

    def _seen(self, place: Place) -> str:
        """Return the arguments of kernels that only read."""
        return f"{self._memory.arena}, {place.heads}, {place.at}"

    def _order(self, kind: str) -> str:
        """Return the arguments of kernels that order values of a kind."""
        if seen_as(kind) == "string":
            assert self.host.texts is not None
            return f"{ORDER_TEXT}, {self.host.texts.order}"
        arena = self._memory.arena
        return f"{ORDER_FLOAT if is_float(kind) else ORDER_INT}, {arena}, {arena}, {arena}"

    def _statement(self, text: str, node: ast.AST) -> ast.stmt:
        (statement,) = statements(text, node)
        return statement

    # -- words

    def _expect(self, static: Any, node: ast.expr, where: str) -> None:
        given = self.inference.of(node)
        if given is not None and given != static:
            if isinstance(node, ast.BinOp):
                self._refuse_operation(node, [node.left, node.right])  # inference takes any operation for a number
            what = "no value" if isinstance(node, ast.Constant) and node.value is None else said(given)
            raise self._error(f"{ast.unparse(node)} is {what}: {where} takes {said(static)}", node)

    def _refuse_operation(self, node: ast.expr, parts: Sequence[ast.expr]) -> None:
        if self._is_message:
            return
        for part in parts:
            static = self.inference.of(part)
            if static == "string":
                able = "can be compared, kept and emitted here" if self.host.texts else "cannot be used here"
                raise self._error(
                    f"{ast.unparse(node)}: {ast.unparse(part)} is a string, which {able}; for other text work, {TEXT_WORK}",
                    node,
                )
            if is_container(static) or isinstance(static, Record | tuple) or static == TEXTS:
                raise self._error(f"{ast.unparse(node)}: {ast.unparse(part)} is {said(static)}; write a loop", node)
            if self.inference.is_numbers(part):
                raise self._error(f"{ast.unparse(node)}: {ast.unparse(part)} is a {NUMBERS}; write a loop", node)

    def _word(self, kind: str, node: ast.expr, where: str, is_key: bool = False) -> str:
        """Rewrite a user's expression as the word that a container keeps."""
        self._expect(static_of(kind), node, where)
        return self._as_word(kind, self.visit(node), is_key)

    def _as_word(self, kind: str, value: ast.expr, is_key: bool = False) -> str:
        seen = seen_as(kind)
        if seen == "string":
            return ast.unparse(value)
        checked = ast.unparse(self._checked(seen, value))
        if is_float(kind):
            return self._kept("key_bits" if is_key else "bits", checked)
        return checked if seen == "int64" else f"np.int64({checked})"

    def _value(self, kind: str, word: str) -> str:
        """Return the value that a function sees in a word."""
        if seen_as(kind) == "bool":
            return f"({word} != 0)"
        return self._kept("float", word) if is_float(kind) else word

    # -- places

    def _place(self, node: ast.AST) -> Place | None:
        """Return the place of the container that an expression stands for; None if it is not a container."""
        if isinstance(node, ast.Name):
            return self.places.get(node.id)
        role = self._object_of(node)
        if role is not None and isinstance(node, ast.Attribute):
            binding = self.host.objects[role].get(node.attr) if role in self.host.objects else None
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
            raise self._error(f"needs more than {memory.most} temporary lists: use fewer", node)
        at = memory.temporary_at.replace("{number}", str(number))
        return Place(ListOf(kind), memory.temporaries, at, memory.temporary_lists)

    def _made(self, node: ast.AST, into: Place | None) -> Place | None:
        """Return a list made by an expression: a slice, ``sorted``, ``list``, ``copy``; None for any other expression.

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
                (node.slice.lower, "0"), (node.slice.upper, NO_END)))  # fmt: skip
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
                self._own(target), source.heads, source.at, *size, "0", NO_END,
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
