"""Rewriting calls: methods of lists, sets and maps, and builtins that take them or strings."""

from __future__ import annotations

import ast

from headrace.codegen.containers.expressions import Expressions
from headrace.codegen.containers.places import Place, is_float
from headrace.codegen.inference import TEXT_WORK, TEXTS, is_container, said, static_of
from headrace.codegen.kinds import Array, ListOf, MapOf, SetOf, width_of

_PLAIN_CALLS = ("print", "isinstance")
_OF_LISTS = ("len", "zip", "enumerate", "reversed")
"""Builtins that take list columns of strings: they do not look at the elements."""


class Calls(Expressions):
    """Rewriting of methods and builtins. A method ``name`` of a list is rewritten by ``_do_list_name``, and so on."""

    def _kept_call(self, node: ast.Call) -> ast.expr | None:
        """Rewrite a call that involves strings or containers; None if it does not."""
        if isinstance(node.func, ast.Attribute):
            static = self.inference.of(node.func.value)
            if static == "string":
                raise self._error(f"{ast.unparse(node)}: text work; {TEXT_WORK}", node)
            if static == TEXTS:
                raise self._bare(node.func.value, static)
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
            if name == "reversed" and self.inference.is_numbers(argument):
                return self._text(f"{ast.unparse(self.visit(argument))}[::-1]", node)
            if name in ("sorted", "list") and self.inference.is_numbers(argument):
                raise self._error(
                    f"{ast.unparse(node)}: a column of lists is read in place and cannot be copied; sort it beforehand, in Spark",
                    node,
                )
            if name == "len" and not is_view and (static == "string" or is_container(static)):
                return self._text(self._length(argument), node)
            if name == "len" and is_view:
                return self._text(self._length(argument.func.value), node)  # type: ignore[attr-defined]
            if is_view or is_container(static):
                if name in ("min", "max", "sum"):
                    return self._summed(node, name, argument, is_view)
                if name in ("sorted", "list"):
                    raise self._error(
                        f"{ast.unparse(node)}: use it in a loop, in emit, give it a name, or assign it to a list", node
                    )
        if name in ("min", "max") and node.keywords:
            option = node.keywords[0].arg
            if option is None:
                raise self._error(f"{ast.unparse(node)}: give the arguments one by one", node)
            advice = "write if and else" if len(node.args) > 1 else "write a loop"
            if option == "default" and len(node.args) > 1:
                advice = f"{name} of several values needs none: leave it out"
            raise self._error(f"{ast.unparse(node)}: {option}= cannot be compiled; {advice}", node)
        if name in ("min", "max") and len(node.args) > 1 and self.inference.of(node) == "string":
            for argument in node.args:
                self._expect("string", argument, ast.unparse(node))
            assert self.host.texts is not None
            text = ast.unparse(self.visit(node.args[0]))
            for argument in node.args[1:]:
                call = "lesser" if name == "min" else "greater"
                text = self._kept(call, self.host.texts.order, text, ast.unparse(self.visit(argument)))
            return self._text(text, node)
        if name not in _PLAIN_CALLS and not self._is_message:
            self._refuse_unknown(*node.args)
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                what = ast.unparse(node.func)
                if name in _OF_LISTS and self.inference.of(argument) == TEXTS:
                    continue
                text = ast.unparse(argument)
                advice = f"for text work, {TEXT_WORK}"
                if name in ("min", "max") and self.inference.of(argument) == TEXTS:
                    advice = f"for the {'least' if name == 'min' else 'greatest'} text, write {name}(each for each in {text})"
                self._refuse(argument, f"{what}(...), which takes numbers; {advice}")
        return None

    def _summed(self, node: ast.Call, name: str, argument: ast.expr, is_view: bool) -> ast.expr:
        """Rewrite ``min``, ``max`` and ``sum`` of a container, or of the keys or values of a map."""
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
            call = "float_sum" if is_float(kind) else "exact_sum" if self.host.debug else "sum"
            return self._text(self._kept(call, span), node)
        word = self._kept("extreme", span, 1 if name == "max" else -1, self._order(kind))
        return self._text(self._value(kind, word), node)

    def _method(self, node: ast.Call, function: ast.Attribute) -> ast.expr:
        place = self._need(function.value)
        family = {ListOf: "list", SetOf: "set", MapOf: "map", Array: "array"}[type(place.kind)]
        write = getattr(self, f"_do_{family}_{function.attr}", None)
        known = sorted(
            name.removeprefix(f"_do_{family}_") for name in dir(self) if name.startswith(f"_do_{family}_")
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

    def _do_list_append(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("append", self._own(place), self._word(place.kind.kind, node.args[0], where))

    def _do_list_extend(self, place: Place, node: ast.Call, where: str) -> str:
        source = self._place(node.args[0])
        if source is None or source.kind != place.kind:
            raise self._error(f"{ast.unparse(node)}: give a {place.kind!r}", node)
        return self._kept("extend", self._own(place), source.heads, source.at)

    def _do_list_insert(self, place: Place, node: ast.Call, where: str) -> str:
        index = self._word("int64", node.args[0], where)
        return self._kept("insert", self._own(place), index, self._word(place.kind.kind, node.args[1], where))

    def _do_list_pop(self, place: Place, node: ast.Call, where: str) -> str:
        index = self._word("int64", node.args[0], where) if node.args else "-1"
        return self._value(place.kind.kind, self._kept("take", self._own(place), index))

    def _do_list_remove(self, place: Place, node: ast.Call, where: str) -> str:
        word = self._word(place.kind.kind, node.args[0], where)
        return self._kept("remove", self._own(place), word, is_float(place.kind.kind))

    def _do_list_index(self, place: Place, node: ast.Call, where: str) -> str:
        word = self._word(place.kind.kind, node.args[0], where)
        return self._kept("index", self._seen(place), word, is_float(place.kind.kind))

    def _do_list_count(self, place: Place, node: ast.Call, where: str) -> str:
        word = self._word(place.kind.kind, node.args[0], where)
        return self._kept("times", self._seen(place), word, is_float(place.kind.kind))

    def _do_list_clear(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("clear", self._own(place))

    def _do_list_reverse(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("reverse", self._seen(place))

    def _do_list_sort(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("sort", self._own(place), self._reverse(node, allowed=True), self._order(place.kind.kind))

    def _do_set_add(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("add", self._own(place), self._word(place.kind.kind, node.args[0], where, is_key=True))

    def _do_set_discard(self, place: Place, node: ast.Call, where: str) -> str:
        word = self._word(place.kind.kind, node.args[0], where, is_key=True)
        return self._kept("discard", self._own(place), word, 0)

    def _do_set_remove(self, place: Place, node: ast.Call, where: str) -> str:
        word = self._word(place.kind.kind, node.args[0], where, is_key=True)
        return self._kept("drop", self._own(place), word, 0)

    def _do_set_clear(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("clear_keys", self._own(place))

    def _do_map_clear(self, place: Place, node: ast.Call, where: str) -> str:
        return self._kept("clear_keys", self._own(place))

    def _do_map_get(self, place: Place, node: ast.Call, where: str) -> str:
        kind = self._single(place, node)
        key = self._word(place.kind.key, node.args[0], where, is_key=True)
        return self._value(kind, self._kept("or", self._seen(place), key, 1, self._word(kind, node.args[1], where)))

    def _do_map_setdefault(self, place: Place, node: ast.Call, where: str) -> str:
        kind = self._single(place, node)
        key = self._word(place.kind.key, node.args[0], where, is_key=True)
        return self._value(kind, self._kept("first", self._own(place), key, 1, self._word(kind, node.args[1], where)))

    def _do_map_pop(self, place: Place, node: ast.Call, where: str) -> str:
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
