"""Rewriting assignments of containers, assignments to their elements, and ``d[k] += 1`` with a single search."""

from __future__ import annotations

import ast
from typing import Any

from headrace.codegen.containers.calls import Calls
from headrace.codegen.containers.expressions import is_empty
from headrace.codegen.containers.places import NO_END, Place
from headrace.codegen.inference import TEXTS, is_container, said
from headrace.codegen.kinds import Array, ListOf, MapOf, Record, SetOf
from headrace.codegen.trees import copied


class Assignment(Calls):
    """Rewriting of assignments that involve containers."""

    def _kept_assign(self, node: ast.Assign) -> list[ast.stmt] | None:
        """Rewrite an assignment that involves a container; None if it does not."""
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
        if is_empty(node.value, self._builtin, place.kind):
            call = self._kept("clear" if isinstance(place.kind, ListOf) else "clear_keys", self._own(place))
            return [self._statement(call, node)]
        given = self._handed_over(node.value, place)
        if given is not None:
            return [self._statement(self._kept("hand_over", self._own(place), given.heads, given.at), node)]
        if not isinstance(place.kind, ListOf) or static != place.kind:
            self._refuse_comprehension(node.value, ast.unparse(target))
            if isinstance(node.value, ast.BinOp):
                self._refuse_operation(node.value, [node.value.left, node.value.right])
            what = "an empty one or a list of that kind" if isinstance(place.kind, ListOf) else "an empty one"
            raise self._error(f"{ast.unparse(node)}: give {said(place.kind)} {what}", node)
        whole = ast.copy_location(
            ast.Subscript(node.value, ast.Slice(None, None, None), ast.Load()), node
        )
        is_whole = isinstance(node.value, ast.Attribute | ast.Name)
        # A call such as sorted(...) may take several steps in a temporary list, from which the last one copies.
        is_call = isinstance(node.value, ast.Call)
        made = self._made(whole if is_whole else node.value, None if is_call else place)
        if made is None:
            raise self._error(f"{ast.unparse(node)}: write if and else, or a loop", node)
        if is_call:
            call = self._kept("slice", self._own(place), made.heads, made.at, "0", NO_END)
            return [self._statement(call, node)]
        return [self._statement(made.at, node)]

    def _handed_over(self, value: ast.expr, target: Place) -> Place | None:
        """Return the container if it can be handed over: its state ends with the call, and it is not used again."""
        source = self._place(value) if isinstance(value, ast.Attribute) else None
        if source is None or source.role not in self.host.ends or source.kind != target.kind or isinstance(source.kind, Array):
            return None
        if id(value) not in self.given_away:
            if isinstance(source.kind, ListOf):
                return None  # copied, as in any other assignment
            text = ast.unparse(value)
            raise self._error(f"{text} would be moved, but it is used elsewhere as well; copy it in a loop", value)
        self._note_write(source)
        return source

    def _name_container(self, target: ast.Name, node: ast.Assign) -> list[ast.stmt]:
        if target.id in self.given_places:
            raise self._error(f"{target.id!r} is a container that {self.captured.name} is given: use another name", target)
        if isinstance(node.value, ast.Attribute | ast.Name):
            place = self._need(node.value)
            if self.places.setdefault(target.id, place) != place:
                raise self._error(f"{target.id!r} stands for another container elsewhere: use two names", target)
            return []
        if target.id not in self.places:
            kind = self.inference.of(node.value)
            if isinstance(node.value, ast.IfExp):
                raise self._error(f"{ast.unparse(node)}: a name stands for one container; write if and else", node)
            if not isinstance(kind, ListOf):
                raise self._error(f"{ast.unparse(node.value)} has no name of its own: use it by its key each time", node)
            self.places[target.id] = self._temporary_place(kind.kind, node)
        own = self.places[target.id]
        if own.role is not None:
            raise self._error(f"{target.id!r} stands for another container elsewhere: use two names", target)
        made = self._made(node.value, None)
        if made is None:
            raise self._error(f"{ast.unparse(node)}: {target.id!r} stands for a list elsewhere; use two names", node)
        call = self._kept("slice", self._own(own), made.heads, made.at, "0", NO_END)
        return [self._statement(call, node)]

    def _check_fields(self, node: ast.Assign, static: Any) -> None:
        """Raise where a number is assigned to a string field, or the other way round."""
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
        """Return statements that store the local `name` in an element of a container; None if the target is not one."""
        if isinstance(target, ast.Attribute):
            found = self._record_word(target)
            if found is None:
                return None
            word, kind = found
            value = self._as_word(kind, ast.Name(name, ast.Load()))
            return [self._statement(f"{word} = {value}", target)]
        if not isinstance(target, ast.Subscript):
            return None
        self._refuse_column(target)
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
            # Inserting may move the map to another block, so the place is found before anything is written.
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

    def _refuse_column(self, target: ast.Subscript) -> None:
        if self.inference.is_numbers(target.value) or self.inference.of(target.value) == TEXTS:
            text = ast.unparse(target.value)
            raise self._error(f"{ast.unparse(target)} is assigned: {text} is a column of lists, which cannot be changed", target)

    def _kept_aug_assign(self, node: ast.AugAssign) -> list[ast.stmt] | None:
        """Rewrite ``d[k] += 1`` with one search; None if the target is not an element of a container."""
        target, place, key = node.target, None, ""
        if isinstance(target, ast.Subscript):
            self._refuse_column(target)
        if isinstance(target, ast.Name | ast.Attribute) and is_container(self.inference.of(target)):
            raise self._error(f"{ast.unparse(node)}: use append, extend, add or update", node)
        self._refuse_operation(target, [target, node.value])
        found_first: list[ast.stmt] = []
        may_move = any(self._may_move(inner) for inner in ast.walk(node.value))
        if may_move:
            # The place is looked up twice, but its key is evaluated once, as in state.xs[state.n] += f(state).
            target, found_first = self._with_keys_found(target)
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
        if not may_move:
            return [*load, self._statement(f"{array}[{here}] = {result}", node)]
        # The container may change, as in d[k] += d.pop(j), so the place is looked up again.
        word = self._temporary("value")
        if place is not None and isinstance(place.kind, MapOf):
            at = self._kept("made", self._own(place), key, 1)
        return [
            *found_first,
            *load,
            self._statement(f"{word} = {result}", node),
            self._statement(f"{here} = {at}", node),
            self._statement(f"{array}[{here}] = {word}", node),
        ]

    def _with_keys_found(self, target: ast.expr) -> tuple[ast.expr, list[ast.stmt]]:
        """Replace the keys and indices of a target by names; returns the target and the assignments of these names."""
        if isinstance(target, ast.Attribute):
            owner, before = self._with_keys_found(target.value)
            return ast.copy_location(ast.Attribute(owner, target.attr, target.ctx), target), before
        if not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Slice):
            return target, []
        owner, before = self._with_keys_found(target.value)
        key = target.slice
        if not isinstance(key, ast.Constant):
            name = self._temporary("key")
            self.names[name] = name
            self.inference.names[name] = self.inference.of(key)
            before.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], self.visit(copied(key))), target))
            key = ast.copy_location(ast.Name(name, ast.Load()), key)
        return ast.copy_location(ast.Subscript(owner, key, target.ctx), target), before

    def _may_move(self, node: ast.AST) -> bool:
        """Whether this is a call, or a read from a map of arrays or records, which inserts one where the key is new."""
        if isinstance(node, ast.Subscript):
            static = self.inference.of(node.value)
            return isinstance(static, MapOf) and not isinstance(static.value, str)
        return isinstance(node, ast.Call)

    def _changes(self, node: ast.AST) -> bool:
        """Whether this is a call that may change a container."""
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute):
            return node.func.attr in ("pop", "setdefault")
        return isinstance(node.func, ast.Name) and node.func.id in self.captured.helpers
