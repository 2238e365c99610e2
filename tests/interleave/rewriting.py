"""A kernel's text as a generator: it may be stopped wherever it touches what other threads see."""

from __future__ import annotations

import ast
from typing import Any

from interleave.models import PAUSE, WRITE

LOADS = {"load_acquire", "load_relaxed"}
STORES = {"store_release", "store_relaxed"}
UPDATES = {"fetch_add", "exchange", "compare_exchange"}
WAITS = {"futex_wait", "futex_wake"}
PAUSES = {"pause", "nanosleep", "yield_core"}


def _yields(node: ast.AST) -> bool:
    return any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in ast.walk(node))


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


class WordByWord(ast.NodeTransformer):
    """`copy_words` as the loop of plain writes that it stands for."""

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        call = node.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "copy_words"):
            return node
        to, at, source, place, count = call.args
        word = ast.Name("_word", ast.Load())
        target = ast.Subscript(to, ast.BinOp(at, ast.Add(), word), ast.Store())
        read = ast.Subscript(source, ast.BinOp(place, ast.Add(), word), ast.Load())
        return ast.For(ast.Name("_word", ast.Store()), _call("range", count), [ast.Assign([target], read)], [])


class Cut(ast.NodeTransformer):
    """Rewrite one kernel; `generators` are the names that must be called with `yield from`."""

    def __init__(self, generators: set[str], shared: set[str]):
        self.generators = generators
        self.shared = shared

    def rewrite(self, function: ast.FunctionDef) -> ast.AST:
        function = WordByWord().visit(function)
        function.body = self.cut_plain_writes(function.body)
        yields = function.name in self.generators
        function = self.visit(function)
        if yields and not _yields(function):  # callers iterate over it even so
            function.body.append(ast.If(ast.Constant(False), [ast.Expr(ast.Yield(None))], []))
        return function

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in LOADS | UPDATES and any(_yields(argument) for argument in node.args):
            raise SyntaxError(f"line {node.lineno}: an atomic inside the arguments of {name}; split the expression")
        if name in LOADS:
            return self.load(*node.args)
        if name in UPDATES:
            return _call(f"_{name}", ast.Yield(ast.Constant(WRITE)), *node.args)
        if name == "fence":
            return self.fence()
        if name in PAUSES:
            return ast.Yield(ast.Constant(PAUSE))
        if name == "cut":
            return ast.Yield(None)
        if name in self.generators | WAITS:
            if name in WAITS:
                node.func = ast.Name(f"_{name}", ast.Load())
            return ast.YieldFrom(node)
        return node

    def fence(self) -> ast.AST:
        return ast.Constant(None)

    def load(self, array: ast.expr, index: ast.expr) -> ast.AST:
        return ast.BoolOp(ast.Or(), [ast.Yield(None), ast.Subscript(array, index, ast.Load())])

    def visit_Expr(self, node: ast.Expr) -> Any:
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in STORES:
            array, index, value = (self.visit(argument) for argument in call.args)
            before: list[ast.stmt] = []
            if _yields(value):
                before = [ast.Assign([ast.Name("_value", ast.Store())], value)]
                value = ast.Name("_value", ast.Load())
            target = ast.Subscript(array, index, ast.Store())
            return [*before, ast.Expr(ast.Yield(ast.Constant(WRITE))), ast.Assign([target], value)]
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        is_size = isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
        if is_size and isinstance(node.slice, ast.Constant):  # otherwise it is an array named `shape`
            array = self.visit(node.value.value)
            for _ in range(node.slice.value):
                array = ast.Subscript(array, ast.Constant(0), ast.Load())
            return ast.Call(ast.Name("len", ast.Load()), [array], [])
        self.generic_visit(node)
        if isinstance(node.slice, ast.Tuple):
            value = node.value
            for index in node.slice.elts[:-1]:
                value = ast.Subscript(value, index, ast.Load())
            return ast.Subscript(value, node.slice.elts[-1], node.ctx)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "size":
            return ast.Call(ast.Name("len", ast.Load()), [node.value], [])
        return node

    def is_plain_write(self, node: ast.stmt) -> bool:
        if not isinstance(node, (ast.Assign, ast.AugAssign)):
            return False
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if not isinstance(target, ast.Subscript):
            return False
        base = target.value
        while isinstance(base, ast.Subscript):
            base = base.value
        if isinstance(base, ast.Attribute):
            return base.attr in self.shared
        return isinstance(base, ast.Name) and base.id in self.shared

    def cut_plain_writes(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Put a point before each run of plain writes to shared arrays."""
        result: list[ast.stmt] = []
        previous = False
        for node in body:
            plain = self.is_plain_write(node)
            if plain and not previous:
                result.append(ast.Expr(self.before_plain_writes()))
            previous = plain
            for field in ("body", "orelse"):
                inner = getattr(node, field, None)
                if inner:
                    setattr(node, field, self.cut_plain_writes(inner))
            result.append(node)
        return result

    def before_plain_writes(self) -> ast.expr:
        return ast.Yield(ast.Constant(WRITE))


class BufferedCut(Cut):
    """The same for TSO: every write goes into its thread's buffer, and none is a point to stop at."""

    def fence(self) -> ast.AST:
        stop = ast.IfExp(_call("_holds"), ast.Yield(None), ast.Constant(None))
        return _call("_fence", stop)

    def load(self, array: ast.expr, index: ast.expr) -> ast.AST:
        """Yield the cell, for R4, then read it."""
        cell = [ast.NamedExpr(ast.Name(n, ast.Store()), v) for n, v in (("_array", array), ("_index", index))]
        found = ast.Subscript(ast.Name("_array", ast.Load()), ast.Name("_index", ast.Load()), ast.Load())
        return ast.BoolOp(ast.Or(), [ast.Yield(ast.Tuple(cell, ast.Load())), found])

    def before_plain_writes(self) -> ast.expr:
        return _call("_end_step")

    def visit_Expr(self, node: ast.Expr) -> Any:
        self.generic_visit(node)
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in STORES:
            call.func.id = "_store"
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        is_shared = self.is_plain_write(node)
        self.generic_visit(node)
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Subscript):
            return self._write(target, node.value, is_shared)
        if isinstance(target, ast.Tuple) and any(isinstance(to, ast.Subscript) for to in target.elts):
            values = [ast.Name(f"_value_{i}", ast.Store()) for i in range(len(target.elts))]
            result: list[ast.stmt] = [ast.Assign([ast.Tuple(values, ast.Store())], node.value)]
            for to, value in zip(target.elts, values, strict=True):
                read = ast.Name(value.id, ast.Load())
                result.append(self._write(to, read, False) if isinstance(to, ast.Subscript) else ast.Assign([to], read))
            return result
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        is_shared = self.is_plain_write(node)
        self.generic_visit(node)
        if not isinstance(node.target, ast.Subscript):
            return node
        before = ast.Subscript(node.target.value, node.target.slice, ast.Load())
        return self._write(node.target, ast.BinOp(before, node.op, node.value), is_shared)

    def _write(self, target: ast.Subscript, value: ast.expr, is_shared: bool) -> ast.stmt:
        name = "_store_shared" if is_shared else "_store_own"
        return ast.Expr(_call(name, value, target.value, target.slice))
