"""Finding the source of a user's function, and everything it refers to.

The function may come from a file, a notebook cell, a doctest or ``exec`` with
registered source; it may be one of several lambdas on a line, which are distinguished
by the columns in their bytecode. The source found is compared with the code
that is loaded: after an edit without a reload, the wrong text would be compiled.

Names that are not local are frozen: numbers, strings, bools and tuples of them
become constants, functions are captured in turn, and math, numpy and random stay.
Anything else is an error that names the variable.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import linecache
import math
import random
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

from headrace.codegen.reducers import ALWAYS, reduce_comprehensions
from headrace.codegen.trees import copied, names_in
from headrace.errors import FunctionError
from headrace.names import closest

__all__ = ["CapturedFunction", "capture"]

_MODULES = {math: "math", np: "np", random: "random"}

_BUILTINS = frozenset(
    {abs, bool, dict, divmod, enumerate, float, int, isinstance, len, list, max, min, pow, print, range, reversed}
    | {round, set, sorted, sum, tuple, zip}
)

_UNSEEN = dict.fromkeys(map(ord, "\u200b\u200c"))
"""Invisible marks by which transactions tell apart names that read the same; they are not in the user's text."""
_INSTEAD = dict.fromkeys(("filter", "iter", "map"), "write a loop")
_INSTEAD |= dict.fromkeys(ALWAYS, "write a loop, or a comprehension that reads no table, as in any(x > 1 for x in state.items)")
_INSTEAD |= {"next": "give it a comprehension and a default, as in next((x for x in state.items if x > 1), 0), or write a loop"}
_INSTEAD |= dict.fromkeys(("bytes", "chr", "format", "ord", "repr", "str"), "do it before, in Spark or in an expression")
_INSTEAD |= dict.fromkeys(
    ("getattr", "setattr"), "write t.name; a column whose name Python cannot read is renamed before, as in select(..., x='class')"
)
_INSTEAD |= {
    "breakpoint": "print(...) shows numbers while it runs; to stop in a debugger call the function yourself, which is plain"
    " Python if it uses no hr.table(...), with a types.SimpleNamespace(...) for a tuple; help(hr.program) says how to run a"
    " whole program that way",
    "input": "a run cannot wait for an answer; ask before it starts, and give the answer as a constant or in a column",
    "open": "read the file beforehand, and give its content as a constant or as a source (hr.stream takes Parquet and Arrow"
    " files); results go into files by sink=",
}
"""What to do in place of builtins that cannot be compiled."""

_DEBUGGERS = ("pdb", "ipdb", "pudb")

_REFUSED: dict[type[ast.AST], str] = {
    ast.FunctionDef: "defines a function inside: define it outside",
    ast.AsyncFunctionDef: "defines a coroutine inside: it cannot be compiled",
    ast.Lambda: "has a lambda inside: define a function outside",
    ast.ClassDef: "defines a class inside: it cannot be compiled",
    ast.Try: "uses try: test for the case before it fails",
    ast.With: "uses with: it cannot be compiled; read files beforehand, and give their content as a constant or as a source",
    ast.AsyncWith: "uses async with: it cannot be compiled",
    ast.AsyncFor: "uses async for: it cannot be compiled",
    ast.Await: "uses await: it cannot be compiled",
    ast.Yield: "uses yield: call emit for each result",
    ast.YieldFrom: "uses yield from: call emit for each result",
    ast.Import: "imports inside: import at the top of the file or cell",
    ast.ImportFrom: "imports inside: import at the top of the file or cell",
    ast.Global: "uses global: keep the value in state",
    ast.Nonlocal: "uses nonlocal: keep the value in state",
    ast.Delete: "uses del: write pop() for an element of a list or map, a slice for part of a list",
    ast.NamedExpr: "uses :=, which does not always compile: assign in a statement before",
    ast.Match: "uses match: write if and elif",
    ast.TryStar: "uses try: test for the case before it fails",
}


@dataclass(frozen=True)
class CapturedFunction:
    """A user function as text, which no longer refers to live objects.

    Attributes
    ----------
    name : str
        As the user wrote it; ``<lambda>`` for a lambda.
    file, line : str, int
        Position of its ``def`` or ``lambda``.
    node : ast.FunctionDef
        Line numbers are those of `file`. A lambda has become a body of one ``return``.
    parameters : tuple of str
    constants : dict
        Name -> expression that a frozen name, or a parameter with a default, stands for.
    helpers : dict
        Name -> the user function it is bound to.
    objects : dict
        Name -> the object it is bound to, of a type that the caller of `capture` accepts.
    assigned : frozenset of str
        Locals that an earlier rewriting knows to be bound where they are read.
    """

    name: str
    file: str
    line: int
    node: ast.FunctionDef
    parameters: tuple[str, ...]
    defaults: dict[str, ast.expr] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    helpers: dict[str, CapturedFunction] = field(default_factory=dict)
    objects: dict[str, Any] = field(default_factory=dict)
    assigned: frozenset[str] = frozenset()

    def error(self, text: str, node: ast.AST | None = None) -> FunctionError:
        """Return an error at a node of this function."""
        line = getattr(node, "lineno", self.line)
        return FunctionError(text.translate(_UNSEEN), function=self.name, file=self.file, line=line)


def capture(function: Callable, accepts: tuple[type, ...] = ()) -> CapturedFunction:
    """Capture a plain Python function.

    Parameters
    ----------
    function : callable
        A ``def`` or lambda, or one decorated with ``numba.njit``.
    accepts : tuple of type
        Types of further objects that it may refer to, which the caller handles.

    Raises
    ------
    FunctionError
        The function has no source, or uses something that cannot be compiled.

    Examples
    --------
    >>> limit = 3
    >>> captured = capture(lambda t: t.chars > limit)
    >>> ast.unparse(captured.node.body[0]), ast.unparse(captured.constants["limit"])
    ('return t.chars > limit', '3')
    """
    return _capture(function, (), accepts)


def _capture(function: Any, callers: tuple[types.CodeType, ...], accepts: tuple[type, ...]) -> CapturedFunction:
    if isinstance(function, Dispatcher):
        function = function.py_func
    if not isinstance(function, types.FunctionType):
        name = getattr(function, "__name__", type(function).__name__)
        raise FunctionError(
            f"{function!r} is a {type(function).__name__}, not a function written in Python: "
            f"wrap it in one, as in lambda t: {name}(t.x)",
            function=name,
        )
    code = function.__code__
    if code in callers:
        raise FunctionError(
            f"{code.co_name} calls itself: a compiled function cannot; use a loop",
            code.co_name,
            code.co_filename,
            code.co_firstlineno,
        )
    node = _find(function)
    body = _as_function(node)
    captured = CapturedFunction(
        name=code.co_name,
        file=code.co_filename,
        line=node.lineno,
        node=body,
        parameters=tuple(argument.arg for argument in (*body.args.posonlyargs, *body.args.args)),
    )
    _check_parameters(captured, function)
    _check_statements(captured)
    local = set(captured.parameters) | {name.id for name in names_in(*body.body) if not isinstance(name.ctx, ast.Load)}
    made = reduce_comprehensions(
        body.body,
        local,
        is_builtin=lambda name: _lookup(captured, function, name) is getattr(builtins, name.id),
        is_left=lambda name: isinstance(_lookup(captured, function, name), accepts),
    )
    local |= {one.name for one in made}
    for part in (body, *made):
        names = names_in(*part.body)
        own = local.union(_parameter_names(part.args)) | {n.id for n in names if isinstance(n.ctx, ast.Store)}
        for name in names:
            if name.id not in own:
                _resolve(captured, function, name, (*callers, code), accepts)
    for one in made:
        captured.helpers[one.name] = _made(captured, one)
    write_texts(body, captured.constants)
    return captured


def _made(captured: CapturedFunction, node: ast.FunctionDef) -> CapturedFunction:
    """Return the function made from a comprehension as if captured, with the constants and helpers that it uses."""
    used = {name.id for name in names_in(*node.body)}
    constants = {name: value for name, value in captured.constants.items() if name in used}
    helpers = {name: value for name, value in captured.helpers.items() if name in used}
    write_texts(node, constants)
    parameters = _parameter_names(node.args)
    return dataclasses.replace(
        captured, node=node, line=node.lineno, parameters=parameters, defaults={}, constants=constants, helpers=helpers
    )


def write_texts(node: ast.FunctionDef, values: Mapping[str, ast.expr]) -> None:
    """Replace names of constant strings, or tuples with strings, by their values: the rewriting depends on these."""
    texts = {name: value for name, value in values.items() if _holds_text(value)}
    if texts:
        node.body = [_WithTexts(texts).visit(statement) for statement in node.body]


def _holds_text(value: ast.expr) -> bool:
    return any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in ast.walk(value))


class _WithTexts(ast.NodeTransformer):
    def __init__(self, texts: Mapping[str, ast.expr]):
        self._texts = texts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copied(self._texts[node.id], node) if node.id in self._texts else node


# ------------------------------------------------------------------- source


@dataclass(frozen=True)
class _Source:
    functions: tuple[ast.FunctionDef, ...]
    lambdas: tuple[ast.Lambda, ...]
    codes: frozenset[tuple]
    """Fingerprints of the code objects compiled from it."""


def _nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested_codes(constant)


@functools.lru_cache(maxsize=64)
def _parse(text: str, file: str) -> _Source | None:
    try:
        # A notebook cell may await at top level.
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(text, file, "exec", flags, dont_inherit=True)
        # IPython compiles the statements of a cell one by one, which can give other bytecode: `math.sqrt(x)`
        # is compiled differently if `import math` is in the same unit.
        units = [tree, *(ast.Module([statement], []) for statement in tree.body)]
        codes = [compile(unit, file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True) for unit in units]
    except (SyntaxError, ValueError):
        return None
    nodes = list(ast.walk(tree))
    return _Source(
        tuple(node for node in nodes if isinstance(node, ast.FunctionDef)),
        tuple(node for node in nodes if isinstance(node, ast.Lambda)),
        frozenset(_fingerprint(nested) for code in codes for nested in _nested_codes(code)),
    )


def _find(function: types.FunctionType) -> ast.FunctionDef | ast.Lambda:
    code = function.__code__
    for refresh in (False, True):
        # Cached lines first: they may be those of the loaded function although the file has changed.
        if refresh:
            linecache.checkcache(code.co_filename)
        lines = linecache.getlines(code.co_filename, function.__globals__)
        source = _parse("".join(lines), code.co_filename) if lines else None
        if source is not None:
            nodes = _matching(source, code)
            if len(nodes) == 1 and _is_loaded(source, nodes[0], code):
                return nodes[0]
            if len(nodes) > 1:
                raise FunctionError(
                    "several lambdas with the same parameters are on this line and the interpreter "
                    "keeps no columns: write it as a def",
                    code.co_name,
                    code.co_filename,
                    code.co_firstlineno,
                )
    # From Python 3.13 on, "<string>" has the lines of `python -c`; text passed to exec() has the same file name.
    if source is None or code.co_filename == "<string>":
        text = "its source is not available: define it in a file or a notebook cell, as a def"
    else:
        text = "its source was edited after it was loaded: run its cell or import its module again"
    raise FunctionError(text, code.co_name, code.co_filename, code.co_firstlineno)


def _parameter_names(arguments: ast.arguments) -> tuple[str, ...]:
    return tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


def _matching(source: _Source, code: types.CodeType) -> Sequence[ast.FunctionDef | ast.Lambda]:
    if code.co_name != "<lambda>":
        return [
            node
            for node in source.functions
            if node.name == code.co_name
            and min([node.lineno, *(d.lineno for d in node.decorator_list)]) == code.co_firstlineno
        ]
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    candidates = [
        node
        for node in source.lambdas
        if node.lineno == code.co_firstlineno
        and _parameter_names(node.args) == parameters
    ]
    places = {
        (first, first_column, last, last_column)
        for first, last, first_column, last_column in code.co_positions()
        if None not in (first, last, first_column, last_column)
        and (first, first_column) != (last, last_column)
    }
    if not places:
        return candidates
    around = [
        node
        for node in candidates
        if all(
            (node.body.lineno, node.body.col_offset) <= place[:2]
            and place[2:] <= (node.body.end_lineno, node.body.end_col_offset)
            for place in places
        )
    ]
    # The bytecode of an inner lambda also lies within the outer one, so the innermost is the right one.
    return sorted(around, key=lambda node: (node.body.lineno, node.body.col_offset))[-1:]


def _fingerprint(code: types.CodeType) -> tuple:
    constants = [constant for constant in code.co_consts if not isinstance(constant, types.CodeType)]
    return code.co_name, code.co_firstlineno, code.co_code, code.co_names, code.co_varnames, repr(constants)


def _is_loaded(source: _Source, node: ast.AST, code: types.CodeType) -> bool:
    if any(isinstance(inner, ast.Assert) for inner in ast.walk(node)):
        return True  # pytest rewrites assert, so the code differs where the source does not
    return _fingerprint(code) in source.codes


def _as_function(node: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef:
    # A copy: the captured function is rewritten in place, and the parsed file is kept for later captures.
    node = copied(node)
    if isinstance(node, ast.FunctionDef):
        for inner in ast.walk(node):
            if isinstance(inner, ast.AnnAssign):
                inner.annotation = ast.Constant(None)  # may name types that mean nothing here
        return node
    body = ast.copy_location(ast.Return(node.body), node.body)
    definition = ast.parse("def f(): pass").body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.args, definition.body = node.args, [body]
    return ast.copy_location(definition, node)


def _check_parameters(captured: CapturedFunction, function: types.FunctionType) -> None:
    arguments = captured.node.args
    if arguments.vararg or arguments.kwarg:
        raise captured.error("takes *args or **kwargs: name its parameters")
    if arguments.kwonlyargs:
        raise captured.error("has keyword-only parameters: make them ordinary parameters")
    for decorator in captured.node.decorator_list:
        text = ast.unparse(decorator)
        if "jit" not in text:
            raise captured.error(f"is decorated with @{text}: give the undecorated function", decorator)
    values = function.__defaults__ or ()
    last = captured.parameters[len(captured.parameters) - len(values) :]
    for name, value in zip(last, values, strict=True):
        frozen = _freeze(value)
        if frozen is None:
            raise captured.error(
                f"the default of {name!r} is a {type(value).__name__}: only numbers, strings, bools and "
                f"tuples of them can be compiled in"
            )
        captured.defaults[name] = frozen


def _check_statements(captured: CapturedFunction) -> None:
    nodes = ast.walk(ast.Module(captured.node.body, []))
    found = (node for node in nodes if isinstance(node, ast.stmt | ast.expr))
    refused = [node for node in found if type(node) in _REFUSED or _takes_the_rest(node)]
    for node in sorted(refused, key=lambda node: (node.lineno, node.col_offset))[:1]:
        raise captured.error(_REFUSED.get(type(node), f"{ast.unparse(node)} cannot be compiled: name each value"), node)


def _takes_the_rest(node: ast.AST) -> bool:
    """Whether this is ``*rest`` among the targets of an assignment or a loop."""
    return isinstance(node, ast.Starred) and isinstance(node.ctx, ast.Store)


# -------------------------------------------------------------------- names


def _freeze(value: Any) -> ast.expr | None:
    """Return an expression for a value, or None."""
    if value is None or isinstance(value, bool | str):
        return ast.Constant(value)
    if type(value) is int and -(2**63) <= value < 2**63:
        return ast.Constant(value)
    if type(value) is float:
        if math.isfinite(value):
            return ast.Constant(value)
        return _expression("np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf")
    if isinstance(value, np.bool_):
        return ast.Constant(bool(value))
    if isinstance(value, np.integer):
        return _expression(f"np.{value.dtype.name}({int(value)})")
    if isinstance(value, np.float32 | np.float64):
        inner = _freeze(float(value))
        assert inner is not None
        return _expression(f"np.{value.dtype.name}({ast.unparse(inner)})")
    if type(value) is tuple:
        if {type(part) for part in value} == {int, float}:
            # Compiled code indexes and iterates tuples of one type only.
            value = tuple(map(float, value))
        parts = [_freeze(part) for part in value]
        if all(part is not None for part in parts):
            return ast.Tuple([part for part in parts if part is not None], ast.Load())
    return None


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _lookup(captured: CapturedFunction, function: types.FunctionType, node: ast.Name) -> Any:
    name = node.id
    code = function.__code__
    if name in code.co_freevars:
        assert function.__closure__ is not None
        try:
            return function.__closure__[code.co_freevars.index(name)].cell_contents
        except ValueError:
            raise captured.error(f"{name!r} is used before it has a value", node) from None
    if name in function.__globals__:
        return function.__globals__[name]
    if hasattr(builtins, name):
        return getattr(builtins, name)
    near = closest(name, [*function.__globals__, *code.co_freevars])
    meant = f"did you mean {near}?" if near else "define it before the function is used"
    raise captured.error(f"{name!r} is not defined; {meant}", node)


def _resolve(
    captured: CapturedFunction,
    function: types.FunctionType,
    node: ast.Name,
    callers: tuple[types.CodeType, ...],
    accepts: tuple[type, ...],
) -> None:
    name = node.id
    if name in captured.constants or name in captured.helpers or name in captured.objects:
        return
    value = _lookup(captured, function, node)
    frozen = _freeze(value)
    if isinstance(value, accepts):
        captured.objects[name] = value
    elif frozen is not None:
        captured.constants[name] = frozen
    elif isinstance(value, types.ModuleType):
        if value.__name__ in _DEBUGGERS:
            raise captured.error(f"{name!r} is the debugger {value.__name__}: {_INSTEAD['breakpoint']}", node)
        if value not in _MODULES:
            raise captured.error(
                f"{name!r} is the module {value.__name__}: of modules only math, numpy and random can be compiled; compute"
                f" what needs it as a column beforehand (in Spark, pandas or Arrow), or import from it by name a number or a"
                f" function that can be compiled",
                node,
            )
        captured.constants[name] = _expression(_MODULES[value])
    elif (known := _library_name(value)) is not None:
        captured.constants[name] = _expression(known)
    elif isinstance(value, types.FunctionType | Dispatcher):
        captured.helpers[name] = _capture(value, callers, accepts)
    elif isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == "builtins":
        captured.constants[name] = _expression(value.__name__)
    elif isinstance(value, Hashable) and value in _BUILTINS:
        captured.constants[name] = _expression(value.__name__)
    elif isinstance(value, int):
        raise captured.error(f"{name!r} = {value}: does not fit in 64 bits", node)
    elif name in _INSTEAD and value is getattr(builtins, name):
        raise captured.error(f"{name}(...) cannot be compiled: {_INSTEAD[name]}", node)
    else:
        raise captured.error(
            f"{name!r} is a {type(value).__name__}: a compiled function can use numbers, strings, bools and "
            f"tuples of them, other functions, math, numpy and random; pass anything else as a column",
            node,
        )


def _library_name(value: Any) -> str | None:
    """Return the name of a function, type or number type of math, numpy or random."""
    name = getattr(value, "__name__", None)
    if not isinstance(name, str) or isinstance(value, types.ModuleType):
        return None
    for module, prefix in _MODULES.items():
        # vars, not getattr: numpy warns about names that it has removed.
        if vars(module).get(name) is value and getattr(builtins, name, None) is not value:
            return f"{prefix}.{name}"
    return None
