"""Rewriting `any`, `all`, `sum`, `min`, `max`, `len` and `next` of a comprehension as loops in functions of their own.

``any(x > t.v for x in state.items)`` becomes a call of a function that is treated as if the user had written it::

    def ...(t, state):
        for x in state.items:
            if x > t.v:
                return True
        return False

So it is evaluated when Python would evaluate it and ends as early, and it can loop over anything that a loop can.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence, Set

from headrace.codegen.trees import names_in, statements

__all__ = ["ALWAYS", "UNDECIDED", "reduce_comprehensions"]

ALWAYS = frozenset({"all", "any", "next"})
"""Builtins that can be compiled in no other way."""
UNDECIDED = "undecided"
"""`kind` of a constant whose value is never read. `Inference` does not derive from it that a name is a number: elsewhere
the name may be a string, which is an id in compiled code."""
_REDUCERS = ALWAYS | {"len", "max", "min", "sum"}
_Comprehension = ast.GeneratorExp | ast.ListComp


def reduce_comprehensions(
    body: list[ast.stmt],
    local: Set[str],
    is_builtin: Callable[[ast.Name], bool],
    is_left: Callable[[ast.Name], bool],
) -> list[ast.FunctionDef]:
    """Rewrite calls in the statements of a function, in place; returns the new functions that are called instead.

    Their parameters are the locals that they use, by the same names, and the default for an empty comprehension. Their
    own names differ from those of the function around them. A function comes after those that it calls.

    Parameters
    ----------
    body : list of ast.stmt
    local : set of str
        Parameters and all names that are assigned.
    is_builtin : callable
        Whether a name that is not a local means the builtin of that name.
    is_left : callable
        Whether a name that is not a local means something that cannot be passed to a function of its own.
    """
    rewriting = _Rewriting(local, is_builtin, is_left)
    body[:] = [rewriting.visit(statement) for statement in body]
    return rewriting.made


class _Rewriting(ast.NodeTransformer):
    def __init__(self, local: Set[str], is_builtin, is_left):
        self._local, self._is_builtin, self._is_left = local, is_builtin, is_left
        self.made: list[ast.FunctionDef] = []

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)  # inner calls first
        if not isinstance(node.func, ast.Name) or node.func.id not in _REDUCERS or node.func.id in self._local:
            return node
        found = _taken_apart(node)
        if found is None or not self._is_builtin(node.func) or self._names_what_is_left(node):
            return node
        over, otherwise = found
        return self._call(node, node.func.id, over, otherwise)

    def _names_what_is_left(self, node: ast.Call) -> bool:
        known = self._local | {one.name for one in self.made}
        return any(self._is_left(name) for name in names_in(node) if name.id not in known)

    def _call(self, node: ast.Call, what: str, over: _Comprehension, otherwise: ast.expr | None) -> ast.expr:
        names = names_in(over)
        inside = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        parameters = [*dict.fromkeys(name.id for name in names if name.id in self._local - inside)]
        arguments: list[ast.expr] = [ast.copy_location(ast.Name(name, ast.Load()), node) for name in parameters]
        fresh = _Fresh({name.id for name in names} | self._local)
        given = None
        if otherwise is not None:
            given = fresh("otherwise")
            parameters.append(given)
            arguments.append(otherwise)
        name = fresh(f"{what}_{len(self.made) + 1}_")
        (definition,) = statements(f"def {name}({', '.join(parameters)}): pass", node)
        assert isinstance(definition, ast.FunctionDef)
        definition.body = _BODIES[what](over, fresh, given)
        self.made.append(definition)
        function = ast.copy_location(ast.Name(name, ast.Load()), node)
        return ast.copy_location(ast.Call(function, arguments, []), node)


def _taken_apart(node: ast.Call) -> tuple[_Comprehension, ast.expr | None] | None:
    """Return the comprehension, and the start or default; None if the function is called in another way."""
    what = node.func.id if isinstance(node.func, ast.Name) else ""
    if not node.args or any(isinstance(argument, ast.Starred) for argument in node.args):
        return None
    over, *more = node.args
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if what in ("min", "max"):
        if more or set(given) - {"default"}:
            return None
        otherwise = given.get("default")
        if otherwise is not None and not isinstance(over, _Comprehension):
            over = _each_of(over)
    elif what in ("next", "sum"):
        if len(more) > 1 or given or (what == "next" and not (more and isinstance(over, ast.GeneratorExp))):
            return None
        otherwise = more[0] if more else None
    elif more or given:
        return None
    else:
        otherwise = None
    if isinstance(otherwise, ast.Constant) and otherwise.value is None:
        return None
    if what in ("any", "all") and not isinstance(over, _Comprehension | ast.SetComp | ast.DictComp):
        return _each_of(over), None
    if not isinstance(over, _Comprehension) or any(part.is_async for part in over.generators):
        return None
    return (over, otherwise) if what != "len" or isinstance(over, ast.ListComp) else None


def _each_of(over: ast.expr) -> ast.GeneratorExp:
    """``x for x in over``."""
    part = ast.comprehension(ast.Name("each_one", ast.Store()), over, [], 0)
    made = ast.GeneratorExp(ast.Name("each_one", ast.Load()), [part])
    for each in (part.target, made, made.elt):
        ast.copy_location(each, over)
    return made


class _Fresh:
    """Makes names that are not used yet."""

    def __init__(self, used: set[str]):
        self._used = used

    def __call__(self, name: str) -> str:
        while name in self._used:
            name += "_"
        self._used.add(name)
        return name


# -- bodies: what a reducer does with each element


def _loop(over: _Comprehension, inner: Sequence[ast.stmt]) -> ast.stmt:
    body = list(inner)
    for part in reversed(over.generators):
        for condition in reversed(part.ifs):
            body = [ast.copy_location(ast.If(condition, body, []), condition)]
        body = [ast.copy_location(ast.For(part.target, part.iter, body, []), part.iter)]
    return body[0]


def _written(text: str, at: ast.AST, **parts: ast.expr) -> list[ast.stmt]:
    """Return statements from their text, with names replaced by expressions, on the line of `at`."""
    return [_Putting(parts).visit(statement) for statement in statements(text, at)]


class _Putting(ast.NodeTransformer):
    def __init__(self, parts: dict[str, ast.expr]):
        self._parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._parts.get(node.id, node)


def _truth(over: _Comprehension, fresh: _Fresh, given: str | None, *, found: bool) -> list[ast.stmt]:
    element = over.elt
    test = element if found else ast.copy_location(ast.UnaryOp(ast.Not(), element), element)
    if isinstance(over, ast.GeneratorExp):
        inner = _written(f"if ELEMENT: return {found}", element, ELEMENT=test)
        return [_loop(over, inner), *_written(f"return {not found}", over)]
    answer = fresh("answer")  # a list comprehension is evaluated completely before its elements are tested
    inner = _written(f"if ELEMENT: {answer} = {found}", element, ELEMENT=test)
    return [*_written(f"{answer} = {not found}", over), _loop(over, inner), *_written(f"return {answer}", over)]


def _next(over: _Comprehension, fresh: _Fresh, given: str | None) -> list[ast.stmt]:
    inner = _written("return ELEMENT", over.elt, ELEMENT=over.elt)
    return [_loop(over, inner), *_written(f"return {given}", over)]


def _sum(over: _Comprehension, fresh: _Fresh, given: str | None) -> list[ast.stmt]:
    total = fresh("total")
    inner = _written(f"{total} = {total} + ELEMENT", over.elt, ELEMENT=over.elt)
    return [*_written(f"{total} = {given or 0}", over), _loop(over, inner), *_written(f"return {total}", over)]


def _len(over: _Comprehension, fresh: _Fresh, given: str | None) -> list[ast.stmt]:
    count = fresh("count")
    inner = _written(f"{count} = {count} + 1", over.elt)
    return [*_written(f"{count} = 0", over), _loop(over, inner), *_written(f"return {count}", over)]


def _most(over: _Comprehension, fresh: _Fresh, given: str | None, *, what: str) -> list[ast.stmt]:
    best, value, seen = fresh(f"{what}_or_default" if given else what), fresh("value"), fresh("seen")
    sign = ">" if what == "max" else "<"
    text = f"{value} = ELEMENT\nif not {seen} or {value} {sign} {best}:\n    {best} = {value}\n    {seen} = True"
    inner = _written(text, over.elt, ELEMENT=over.elt)
    empty = f"return {given}" if given else f"raise ValueError('{what}() of no elements: give a default=')"
    nothing = ast.copy_location(ast.Constant(0, kind=UNDECIDED), over)
    first: ast.expr = ast.copy_location(ast.Name(given, ast.Load()), over) if given else nothing
    return [
        *_written(f"{best} = FIRST\n{seen} = False", over, FIRST=first), _loop(over, inner),
        *_written(f"if not {seen}:\n    {empty}\nreturn {best}", over),
    ]  # fmt: skip


_BODIES: dict[str, Callable[[_Comprehension, _Fresh, str | None], list[ast.stmt]]] = {
    "all": functools.partial(_truth, found=False), "any": functools.partial(_truth, found=True),
    "len": _len, "next": _next, "sum": _sum,
    "max": functools.partial(_most, what="max"), "min": functools.partial(_most, what="min"),
}  # fmt: skip
