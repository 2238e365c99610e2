"""Rewriting statements: assignments, loops, conditions, returns."""

from __future__ import annotations

import ast

from headrace.codegen.bindings import ListBinding, Opened
from headrace.codegen.python_numbers import tuples
from headrace.codegen.rewriting.calls import Calls
from headrace.codegen.rewriting.fields import is_none
from headrace.codegen.rewriting.lines import statements_of
from headrace.codegen.trees import copied, statements


class Statements(Calls):
    """Rewriting of statements."""

    returns: str | None
    """What the function returns: see `headrace.codegen.functions.specialise`; "helper": whatever it returns."""

    asked: tuple[str, ...] = ()
    """The roles of the user's parameters; none of a helper."""

    walks: int
    """How many loops over stored tuples enclose the current statement."""

    def _block(self, block: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in block:
            new = self.visit(statement)
            for each in new if isinstance(new, list) else [new]:
                # Inserted nodes belong to the line that they were inserted for.
                for node in statements_of([each]):
                    if not hasattr(node, "lineno"):
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
        nothing = node.value is None or is_none(node.value)
        if self.returns is None:
            if nothing:
                return ast.copy_location(ast.Return(None), node)
            if "emit" in self.asked and "emit" not in self.roles.values():
                raise self._error(
                    f"returns a value, which is not used: results are given by emit(...), a parameter that it lacks: it is called"
                    f" with ({', '.join(self.asked)})", node,
                )  # fmt: skip
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
        is_truth = self.returns == "truth" and self.host.texts is not None
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
        if isinstance(first, ast.Name) and first.id in self.host.rows:
            return self._open(self.host.rows[first.id], first, node)
        for target in node.targets:
            stored = self._list_of(target)
            if stored is not None:
                return self._filter(node, ast.unparse(target), stored)
        kept = self._kept_assign(node)
        if kept is not None:
            return kept
        static, written = self.inference.of(node.value), copied(node)
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
        """Return statements that find the row a name stands for from here on."""
        role = self._object_of(node.value)
        if role is not None and isinstance(node.value, ast.Attribute):
            self._binding(node.value, role)  # a column that does not exist is no number
        if row.key == "string":
            self._expect("string", node.value, f"the key of {name.id}")
        else:
            self._refuse(node.value, f"the key of {name.id}: give a whole number")
        found = self.visit(node.value)
        key = ast.unparse(found if row.key == "string" else self._checked("int64", found))
        return statements(row.text.replace("{key}", key), node)

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
            current = copied(target)
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
        iterable = self._looped(node.iter)
        targets, after = self._targets([node.target])
        body = [*after, *self._block(node.body)] or [ast.Pass()]
        return ast.copy_location(ast.For(targets[0], iterable, body, self._block(node.orelse)), node)

    def _looped(self, node: ast.expr) -> ast.expr:
        """Rewrite the iterable of a loop: numbers listed in it may be of several types."""
        if not isinstance(node, ast.Tuple | ast.List) or not node.elts:
            return self.visit(node)
        if any(isinstance(one, ast.Starred) or self.inference.of(one) != "number" for one in node.elts):
            return self.visit(node)
        if all(isinstance(one, ast.Constant) and type(one.value) is int for one in node.elts):
            return self.visit(ast.copy_location(ast.Tuple(node.elts, ast.Load()), node))
        items = ast.copy_location(ast.Tuple([self.visit(one) for one in node.elts], ast.Load()), node)
        return self._number_call(tuples.checked_alike, [items], node)

    def _for_each(self, node: ast.For, stored: ListBinding) -> list[ast.stmt]:
        """Rewrite a loop over a list of stored tuples: the variable stands for the tuple at a node."""
        if not isinstance(node.target, ast.Name):
            raise self._error(f"{ast.unparse(node.target)}: a stored tuple needs one name, as in for t in ...", node)
        name = node.target.id
        if name in self.roles:
            raise self._error(f"{name!r} is used for another tuple already: use another name", node.target)
        at, here = self._temporary("node"), self._temporary("node")
        self.objects[here] = stored.of(here)
        self.written.reads.setdefault(stored.role, set())
        self.roles[name] = here
        self.walks += 1
        body = self._block(node.body)
        self.walks -= 1
        del self.roles[name]
        self.written.reads[stored.role] |= self.written.reads.pop(here, set())
        # The next node is read before the body, so that `continue` goes on to it.
        step = f"    {here} = {at}\n    {at} = {stored.following.replace('{node}', here)}"
        walk = statements(f"{at} = {stored.first}\nwhile {at} != 0:\n{step}", node)
        loop = walk[1]
        assert isinstance(loop, ast.While)
        loop.body = [*loop.body, *body]
        loop.orelse = self._block(node.orelse)
        return walk

    def _filter(self, node: ast.Assign, target: str, stored: ListBinding) -> list[ast.stmt]:
        """Rewrite the removal of the tuples for which a condition is false from a list of stored tuples, `target`."""
        part = node.value.generators[0] if isinstance(node.value, ast.ListComp) else None
        is_filter = (
            isinstance(node.value, ast.ListComp)
            and part is not None
            and len(node.targets) == len(node.value.generators) == 1
            and isinstance(part.target, ast.Name)
            and ast.unparse(node.value.elt) == part.target.id
            and ast.unparse(part.iter) == target
            and bool(part.ifs)
        )
        if not is_filter:
            raise self._error(
                f"{ast.unparse(node)}: a window can only drop some of its tuples,"
                f" as in {target} = [t for t in {target} if ...]",
                node,
            )
        assert part is not None and isinstance(part.target, ast.Name)
        if self.walks:
            raise self._error(f"{ast.unparse(node)}: inside a loop over {target}; write it after the loop", node)
        name = part.target.id
        if name in self.roles:
            raise self._error(f"{name!r} is used for another tuple already: use another name", part.target)
        at, here, before, dropped = (self._temporary("node") for _ in range(4))
        self.objects[here] = stored.of(here)
        self.written.reads.setdefault(stored.role, set())
        self.roles[name] = here
        test = part.ifs[0] if len(part.ifs) == 1 else ast.copy_location(ast.BoolOp(ast.And(), part.ifs), node)
        condition = self._condition(test)
        del self.roles[name]
        self.written.reads[stored.role] |= self.written.reads.pop(here, set())
        following = stored.following.replace("{node}", here)
        drop = stored.drop.replace("{node}", here).replace("{before}", before).replace("{dropped}", dropped)
        result = statements(
            f"{before} = 0\n{dropped} = 0\n{at} = {stored.first}\n"
            f"while {at} != 0:\n    {here} = {at}\n    {at} = {following}\n"
            f"    if True:\n        {before} = {here}\n    else:\n        {dropped} = {drop}\n"
            f"if {dropped} != 0:\n    {stored.give.replace('{dropped}', dropped)}",
            node,
        )
        (choice,) = (part for part in ast.walk(result[3]) if isinstance(part, ast.If))
        choice.test = condition
        return result

    def visit_While(self, node: ast.While):
        body = self._block(node.body) or [ast.Pass()]
        return ast.copy_location(ast.While(self._condition(node.test), body, self._block(node.orelse)), node)

    def visit_If(self, node: ast.If):
        body = self._block(node.body) or [ast.copy_location(ast.Pass(), node)]
        return ast.copy_location(ast.If(self._condition(node.test), body, self._block(node.orelse)), node)


def _replace_name(store: ast.Assign, target: ast.expr, value: ast.expr) -> None:
    """Replace the temporary `target` by `value` where it is read in ``field = checked(temporary)``."""
    assert isinstance(target, ast.Name)
    if isinstance(store.value, ast.Name) and store.value.id == target.id:
        store.value = value
    else:
        assert isinstance(store.value, ast.Call)
        store.value.args = [value]
