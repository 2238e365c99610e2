"""Rewriting loops over containers: sets and maps in the order of their keys."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from headrace.codegen.containers.assignment import Assignment
from headrace.codegen.containers.places import Place
from headrace.codegen.inference import TEXTS, is_container
from headrace.codegen.kinds import Array, ListOf, MapOf, width_of


class KeptValues(Assignment):
    """All rewriting of strings and containers."""

    def _kept_loop(self, node: ast.For) -> list[ast.stmt] | None:
        """Rewrite a loop over a container; None if it is over something else."""
        iterable, target = node.iter, node.target
        counter: ast.expr | None = None
        start: ast.expr = ast.Constant(0)
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
                    start = self.visit(given[0]) if given else start
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
                    if self.inference.of(argument) == TEXTS:
                        continue
                    self._refuse(argument, "zip: write a loop over one with enumerate")
            return None
        place = self._need(owner)
        if is_reversed and not isinstance(place.kind, ListOf | Array):
            raise self._error(f"{ast.unparse(node.iter)}: loop over sorted(..., reverse=True)", node)
        at, turn = self._temporary("at"), self._temporary("turn")
        here = replace(place, at=at)
        before = [self._statement(f"{at} = {place.at}", node)]
        begin = ast.unparse(start)
        if not isinstance(start, ast.Constant):  # its value when the loop begins
            begin = self._temporary("begin")
            before.insert(0, self._statement(f"{begin} = {ast.unparse(start)}", node))
        if isinstance(place.kind, ListOf | Array):
            return self._loop_over_list(node, here, before, turn, target, counter, begin, is_reversed)
        return self._loop_over_map(node, here, before, turn, target, counter, begin, view)

    def _loop_over_list(self, node, place, before, turn, target, counter, start, is_reversed) -> list[ast.stmt]:
        is_array = isinstance(place.kind, Array)
        count = str(place.kind.size) if is_array else self._kept("count", place.heads, place.at)
        begin, step, test = ("0", "+", f"{turn} < {count}")
        if is_reversed:
            begin, step, test = (f"{count} - 1", "-", f"0 <= {turn} < {count}")  # a list that shrinks to `turn` ends it
        if is_array:
            word = f"{place.heads}[{place.at} + {turn}]"
        else:
            word = self._kept("element", self._seen(place), turn)
        taken = self._take(target, [self._text(self._value(place.kind.kind, word), node)], node)
        counted = [] if counter is None else self._take(counter, [self._text(f"{turn} + {start}", node)], node)
        return self._while(node, [*before, self._statement(f"{turn} = {begin}", node)], test, turn, step, [*counted, *taken])

    def _loop_over_map(self, node, place, before, turn, target, counter, start, view) -> list[ast.stmt]:
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
            self.places[named.id] = Place(place.kind.value, arena, f"({at_entry} + 1)", place.lists, is_local=True)
        taken = self._take(target, values, node)
        counted = [] if counter is None else self._take(counter, [self._text(f"{turn} + {start}", node)], node)
        # Each use of a value looks up its place by the number `turn`, which must not change during the iteration.
        # So `turn` advances at the beginning of an iteration, and the test looks one ahead.
        is_late = is_nested and view in ("items", "values")
        first, following = ("-1", f"{turn} + 1") if is_late else ("0", turn)
        before = [
            *before,
            self._statement(f"{begun} = {begin}", node),
            self._statement(f"{turn} = {first}", node),
        ]
        body = [self._statement(f"{entry} = {at_entry}", node), *counted, *taken]
        test = self._kept("more", place.heads, place.at, following, begun)
        return self._while(node, before, test, turn, "+", body, is_late)

    def _while(self, node, before, test, turn, step, taken, is_late=False) -> list[ast.stmt]:
        """Write the loop; `is_late`: `turn` advances before the element is taken, so `continue` must not advance it."""
        advance = self._statement(f"{turn} = {turn} {step} 1", node)
        loop = ast.copy_location(ast.While(self._text(test, node), [], []), node)
        if is_late:
            loop.body = [advance, *taken, *self._block(node.body)]
        else:
            loop.body = [*taken, advance, *self._block(node.body)]
        loop.orelse = self._block(node.orelse)
        return [*before, loop]

    def _take(self, target: ast.expr, values: Sequence[ast.expr | None], node: ast.AST) -> list[ast.stmt]:
        """Assign the values of an iteration to the target; None: a container, whose name stands for its place."""
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
