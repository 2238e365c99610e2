"""Schedule exploration: the kernels' own text, run under every interleaving we choose.

One source, two executions. The same file that Numba compiles is read as text,
and each access to a shared cell becomes a point at which a thread may be
stopped: a kernel turns into a generator, an atomic into a ``yield`` followed by
the access, a call of another kernel into ``yield from``. A scheduler then
resumes the generators of several threads in an order of its choice.

Memory      `SC`   sequential consistency: an access is seen by all at once
            `TSO`  x86: a thread's stores wait in its buffer, first in first
                   out, and become visible to others later; the thread itself
                   sees them at once. A fence, a read-modify-write and a futex
                   call empty the buffer first. That a buffer gives its oldest
                   store to memory is a step of its own, which the scheduler
                   chooses: step ``n + t`` for thread t of n
Cuts        SC: before each atomic, and before each run of plain writes to a
            shared array, so that what is written after a publication is caught.
            TSO: before each load, read-modify-write and fence; see Reduction
Waiting     `futex_wait` sleeps until a wake reaches it (its timeout never
            fires, so a lost wake-up shows as a deadlock); after `pause` a
            thread goes on only when another one has written something, under
            TSO: when that has become visible
Schedules   `exhaustive` all of them, or all with at most so many preemptions
            (under TSO a buffer's step costs one, too, while any thread can run);
            `sampled` random and priority (PCT: random priorities, few change
            points) schedules by seed. Only executions that came to their end
            are counted.
Failing     raises `FailingSchedule`; its text names seed or choices and the
            schedule itself, which `replay` runs again
Blind spot  memory weaker than x86's (C11 relaxed, AArch64): the written
            argument, the test that reads the LLVM IR, the models in
            tests/headrace/memory/test_weak_memory.py, and tests/litmus

Reduction under TSO, and why no outcome is lost:
            R1  A store's entry into its buffer is not a step of its own. It
                touches what no other thread sees, so it may as well happen
                together with the access before it; its visibility is a step.
            R2  A fence or read-modify-write empties the whole buffer in one
                step, its own. Where others are to run between two stores, the
                buffer's steps come before it. A fence with nothing to empty is
                no step.
            R3  A run of plain writes to shared arrays becomes visible in one
                step, as in SC. Plain writes to all other arrays, which nobody
                else may read at that time, go with the store before them. Each
                such execution is one of the machine's, so nothing false is
                reported; what is left out is what SC leaves out, too.
            R4  Sleep sets (Godefroid 1996), where every schedule is run: after
                step a was explored in a state and then b, a is not tried behind
                b again if they commute, since that leads to the states behind
                a, b. Two steps commute when neither writes what the other one
                reads or writes. A thread's step writes nothing that others see
                unless it is a read-modify-write or empties the buffer; a plain
                read is not recorded, so a step is taken to read every plain
                cell. A buffer's step commutes with its own thread's loads: they
                see the value either way. Steps that sleep, wake or pause
                commute with none.
            tests/headrace/memory/test_explorer.py compares all this with a machine that has
            none of it. Programs must keep their notes apart, each in its own
            list: what threads do to one Python object is not seen by R4.

Arrays are lists here (a two-dimensional array a list of lists) and cells are
not padded: `CELL` is 1. That makes tens of thousands of schedules a second.
A buffer is a list of (array, index, value); while its thread runs, memory and
buffer have swapped those values, so that every load finds what the thread sees.
"""

from __future__ import annotations

import ast
import inspect
import os
import random
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

SC, TSO = "SC", "TSO"
"""The memory models."""

_WRITE, _PAUSE = 1, 2
_LOADS = {"load_acquire", "load_relaxed"}
_STORES = {"store_release", "store_relaxed"}
_UPDATES = {"fetch_add", "exchange", "compare_exchange"}
_WAITS = {"futex_wait", "futex_wake"}
_PAUSES = {"pause", "nanosleep"}
_PROVIDED = {"headrace.kernel", "headrace.memory.atomics", "headrace.memory.bundle"}

EXPLORED: Counter[str] = Counter()
"""Complete schedules so far, by structure."""

LEAST = 1_000_000
_IN_ANY_WHOLE_RUN = {"event count", "log", "ring", "scalegate", "stack"}


def are_too_few(explored: Counter[str]) -> bool:
    """Whether a run of the whole suite explored fewer schedules than it promises."""
    return set(explored) >= _IN_ANY_WHOLE_RUN and explored.total() < LEAST


SCALE = float(os.environ.get("HEADRACE_SCHEDULES", "1"))
"""Campaign: the number of schedules is multiplied by this."""


class FailingSchedule(AssertionError):
    """A schedule under which the kernels do what they must not.

    Attributes
    ----------
    reason : str
        What failed, without the schedule: the error's type and text.
    trace : list of int
        The thread that went on, at each step: an argument for `replay`.
    """

    def __init__(self, reason: str, schedule: str, trace: list[int]):
        super().__init__(f"{reason}\n  {schedule}")
        self.reason = reason
        self.trace = trace


# -- the kernels' text as generators -----------------------------------------------------------------


def _fetch_add(_, array, index, value):
    old = array[index]
    array[index] = old + value
    return old


def _exchange(_, array, index, value):
    old = array[index]
    array[index] = value
    return old


def _compare_exchange(_, array, index, expected, desired):
    if array[index] != expected:
        return False
    array[index] = desired
    return True


def _futex_wait(event, index, expected, timeout_ns):
    yield None
    if event[index] == expected:  # compared and put to sleep in one step, as the kernel does
        yield (True, id(event), index)
    return 0


def _futex_wake(event, index, count):
    yield _WRITE
    yield (False, id(event), index)
    return 0


# Under TSO: `_running.buffer` is the buffer of the thread that runs, None while a test builds its state.
# An entry is [array, index, value, whether a step of the buffer ends with it, whether it is a plain write].

_running: Any = None


def _store(array, index, value):
    """Put an atomic store into the buffer: a step of its own."""
    buffer = _running.buffer
    if buffer is not None:
        if buffer:
            buffer[-1][3] = True
        buffer.append([array, index, array[index], True, False])
    array[index] = value


def _store_shared(value, array, index):
    """Put a plain write to a shared array into the buffer: one step with those it stands beside."""
    buffer = _running.buffer
    if buffer is not None:
        buffer.append([array, index, array[index], False, True])
    array[index] = value


def _store_own(value, array, index):
    """Put any other plain write into the buffer: visible with what comes before it, or at once."""
    buffer = _running.buffer
    if buffer:
        last = buffer[-1]
        buffer.append([array, index, array[index], last[3], id(array) in _running.common])
        last[3] = False
    elif buffer is not None and id(array) in _running.common:
        _running.wrote_plainly = True
    array[index] = value


def _end_step():
    """Begin a run of plain writes to shared arrays."""
    buffer = _running.buffer
    if buffer:
        buffer[-1][3] = True


def _holds() -> bool:
    return bool(_running.buffer)


def _fence(_=None):
    if _running.buffer:
        _running.drain()


def _fetch_add_drained(_, array, index, value):
    _running.update(array, index)
    old = array[index]
    array[index] = old + value
    return old


def _exchange_drained(_, array, index, value):
    _running.update(array, index)
    old = array[index]
    array[index] = value
    return old


def _compare_exchange_drained(_, array, index, expected, desired):
    _running.update(array, index)
    if array[index] != expected:
        return False
    array[index] = desired
    return True


def _futex_wait_drained(event, index, expected, timeout_ns):
    yield _WRITE
    _fence()
    if event[index] == expected:
        yield (True, id(event), index)
    return 0


def _futex_wake_drained(event, index, count):
    yield _WRITE
    _fence()
    yield (False, id(event), index)
    return 0


_NUMPY = SimpleNamespace(
    int64=np.int64,
    ndarray=np.ndarray,
    iinfo=np.iinfo,
    empty=lambda count, dtype=None: [0] * count,
    zeros=lambda count, dtype=None: [0] * count,
)


def _yields(node: ast.AST) -> bool:
    return any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in ast.walk(node))


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


class _Cut(ast.NodeTransformer):
    """Rewrite one kernel; `generators` are the names that must be called with `yield from`."""

    def __init__(self, generators: set[str], shared: set[str]):
        self.generators = generators
        self.shared = shared

    def rewrite(self, function: ast.FunctionDef) -> ast.AST:
        function.body = self.cut_plain_writes(function.body)
        yields = function.name in self.generators
        function = self.visit(function)
        if yields and not _yields(function):  # callers iterate over it all the same
            function.body.append(ast.If(ast.Constant(False), [ast.Expr(ast.Yield(None))], []))
        return function

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _LOADS | _UPDATES and any(_yields(argument) for argument in node.args):
            raise SyntaxError(f"line {node.lineno}: an atomic inside the arguments of {name}; split the expression")
        if name in _LOADS:
            return self.load(*node.args)
        if name in _UPDATES:
            return _call(f"_{name}", ast.Yield(ast.Constant(_WRITE)), *node.args)
        if name == "fence":
            return self.fence()
        if name in _PAUSES:
            return ast.Yield(ast.Constant(_PAUSE))
        if name == "cut":
            return ast.Yield(None)
        if name in self.generators | _WAITS:
            if name in _WAITS:
                node.func = ast.Name(f"_{name}", ast.Load())
            return ast.YieldFrom(node)
        return node

    def fence(self) -> ast.AST:
        return ast.Constant(None)

    def load(self, array: ast.expr, index: ast.expr) -> ast.AST:
        return ast.BoolOp(ast.Or(), [ast.Yield(None), ast.Subscript(array, index, ast.Load())])

    def visit_Expr(self, node: ast.Expr) -> Any:
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _STORES:
            array, index, value = (self.visit(argument) for argument in call.args)
            before: list[ast.stmt] = []
            if _yields(value):
                before = [ast.Assign([ast.Name("_value", ast.Store())], value)]
                value = ast.Name("_value", ast.Load())
            target = ast.Subscript(array, index, ast.Store())
            return [*before, ast.Expr(ast.Yield(ast.Constant(_WRITE))), ast.Assign([target], value)]
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
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

    def _is_plain_write(self, node: ast.stmt) -> bool:
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
            plain = self._is_plain_write(node)
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
        return ast.Yield(ast.Constant(_WRITE))


class _BufferedCut(_Cut):
    """The same for TSO: every write goes into the buffer of its thread, none is a point to stop at."""

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
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _STORES:
            call.func.id = "_store"
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        is_shared = self._is_plain_write(node)
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
        is_shared = self._is_plain_write(node)
        self.generic_visit(node)
        if not isinstance(node.target, ast.Subscript):
            return node
        before = ast.Subscript(node.target.value, node.target.slice, ast.Load())
        return self._write(node.target, ast.BinOp(before, node.op, node.value), is_shared)

    def _write(self, target: ast.Subscript, value: ast.expr, is_shared: bool) -> ast.stmt:
        name = "_store_shared" if is_shared else "_store_own"
        return ast.Expr(_call(name, value, target.value, target.slice))


_ATOMICS: dict[str, dict[str, Any]] = {
    SC: {
        "_fetch_add": _fetch_add,
        "_exchange": _exchange,
        "_compare_exchange": _compare_exchange,
        "_futex_wait": _futex_wait,
        "_futex_wake": _futex_wake,
    },
    TSO: {
        "_fence": _fence,
        "_holds": _holds,
        "_fetch_add": _fetch_add_drained,
        "_exchange": _exchange_drained,
        "_compare_exchange": _compare_exchange_drained,
        "_futex_wait": _futex_wait_drained,
        "_futex_wake": _futex_wake_drained,
        "_store": _store,
        "_store_shared": _store_shared,
        "_store_own": _store_own,
        "_end_step": _end_step,
    },
}

_memory = SC
"""The model under which a schedule is being run."""


class Kernels:
    """The functions of some kernel files as generators, by name, for the memory model that is explored.

    Parameters
    ----------
    modules : str
        Dotted names; what they import of each other is loaded along.
    taken : iterable of (str, str)
        Single functions of further files: module, name.
    programs : iterable of function
        What the threads of a test do, written like kernels, with the kernels'
        names; ``cut()`` is a point where the thread may be stopped.
    replacing : dict
        Programs by the name of another one, whose place they take.
    shared : iterable of str
        Names of arrays whose plain writes are points too.
    planted : iterable of (str, str, str)
        Bugs: module, the text to replace (it must occur exactly once), the new text.
    constants : dict
        Module constants to override, so that small cases reach large sizes' edges.
    given : dict
        Names that single functions need besides.
    """

    def __init__(
        self,
        *modules: str,
        taken: Iterable[tuple[str, str]] = (),
        programs: Iterable[Callable] = (),
        replacing: dict[str, Callable] | None = None,
        shared: Iterable[str] = (),
        planted: Iterable[tuple[str, str, str]] = (),
        constants: dict[str, Any] | None = None,
        given: dict[str, Any] | None = None,
    ):
        named = {program.__name__: program for program in programs} | (replacing or {})
        self._of = (modules, list(taken), named, set(shared), list(planted), constants or {}, given or {})
        self._loaded = {SC: _Loaded(SC, *self._of).space}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if _memory not in self._loaded:
            self._loaded[_memory] = _Loaded(_memory, *self._of).space
        try:
            return self._loaded[_memory][name]
        except KeyError:
            raise AttributeError(f"no kernel, program or constant {name!r}") from None


class _Loaded:
    """The text of some kernel files, rewritten for one memory model: see `Kernels`."""

    def __init__(self, memory, modules, taken, programs, shared, planted, constants, given):
        self._cut = _Cut if memory == SC else _BufferedCut
        self._shared = shared
        self._planted = planted
        self._used: set[int] = set()
        self._constants = constants
        self._generators: dict[str, bool] = {}
        self.space: dict[str, Any] = {
            "np": _NUMPY,
            "CELL": 1,
            "kernel": lambda function: function,
            "by_reference": lambda fields: fields,
            "prefetch": lambda array, index: None,
            "prefetch_for_write": lambda array, index: None,
            "now_ns": lambda: 0,
            **_ATOMICS[memory],
            **given,
        }
        self._loaded: set[str] = set()
        for module in modules:
            self._load(module)
        for module, name in taken:
            self._load(module, only=name)
        if programs:
            text = "\n\n".join(
                textwrap.dedent(inspect.getsource(program)).replace(f"def {program.__name__}(", f"def {name}(", 1)
                for name, program in programs.items()
            )
            free = {}
            for program in programs.values():
                free.update({k: v for k, v in program.__globals__.items() if isinstance(v, (int, str))})
            self.space = {**free, **self.space}
            self._execute(text, "<programs>", every=True)
        if len(self._used) != len(self._planted):
            raise AssertionError("a planted bug names a module that was not loaded")

    def _load(self, module: str, only: str = "") -> None:
        if module in self._loaded:
            return
        self._loaded.add(module)
        spec = find_spec(module)
        assert spec is not None and spec.origin is not None
        text = Path(spec.origin).read_text()
        for number, (where, old, new) in enumerate(self._planted):
            if where == module:
                if text.count(old) != 1:
                    raise AssertionError(f"the planted bug matches {text.count(old)} times in {module}: {old!r}")
                text = text.replace(old, new)
                self._used.add(number)
        if only:
            functions = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == only]
            text = ast.unparse(functions[0])
        self._execute(text, spec.origin)

    def _execute(self, text: str, name: str, every: bool = False) -> None:
        tree = ast.parse(text)
        body: list[ast.stmt] = []
        functions: list[ast.FunctionDef] = []
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headrace"):
                if node.module in _PROVIDED:
                    continue
                if node.module == "headrace.progress":
                    body.append(node)
                else:
                    self._load(node.module)
                continue
            if isinstance(node, ast.Import) and node.names[0].name == "numpy":
                continue
            if isinstance(node, ast.FunctionDef) and (every or node.decorator_list):
                node.decorator_list = []
                node.returns = None
                functions.append(node)
            body.append(node)
        self._find_generators(functions)
        cut = self._cut({n for n, yielding in self._generators.items() if yielding}, self._shared)
        tree.body = [cut.rewrite(node) if node in functions else node for node in body]
        ast.fix_missing_locations(tree)
        exec(compile(tree, name, "exec"), self.space)  # our own files, in a test
        self.space.update({k: v for k, v in self._constants.items() if k in self.space})

    def _find_generators(self, functions: list[ast.FunctionDef]) -> None:
        atoms = _LOADS | _STORES | _UPDATES | _WAITS | _PAUSES | {"cut", "fence"}
        calls = {}
        for node in functions:
            names = {
                c.func.id for c in ast.walk(node) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)
            }
            calls[node.name] = names
            own = _Cut(set(), self._shared)
            plain = any(isinstance(n, ast.stmt) and own._is_plain_write(n) for n in ast.walk(node))
            self._generators[node.name] = plain or bool(names & atoms)
        changed = True
        while changed:
            changed = False
            for name, names in calls.items():
                if not self._generators[name] and any(self._generators.get(n) for n in names):
                    self._generators[name] = changed = True


# -- one execution -----------------------------------------------------------------------------------


class _Stuck(AssertionError):
    pass


class _Execution:
    """The threads of one execution and who of them can go on. Numbers from `count` on are buffers' steps."""

    __slots__ = (
        "asleep",
        "check",
        "count",
        "own",
        "paused",
        "pending",
        "resume",
        "runnable",
        "seen",
        "steps",
        "threads",
        "trace",
        "writes",
    )

    def __init__(self, build, trace: list[int] | None):
        self.threads, self.check = build()
        self.count = len(self.threads)
        self.resume = [thread.__next__ for thread in self.threads]
        self.trace = trace
        self.steps = 0
        self.paused: list[int] = []
        self.asleep: dict[int, tuple[int, int]] = {}
        self.pending = [False] * len(self.threads)
        self.writes = 0
        self.own = [0] * len(self.threads)
        self.seen = [0] * len(self.threads)
        self.runnable = list(range(len(self.threads)))
        for thread in tuple(self.runnable):  # up to its first access: nothing shared is touched
            self.go(thread, 1)

    def go(self, thread: int, most: int) -> bool:
        """Let a thread do up to `most` steps. False if it ended or must wait before that."""
        writing = self.pending[thread]
        trace = self.trace
        left = most
        for what in self.threads[thread]:
            if trace is not None:
                trace.append(thread)
            if writing:
                self._wrote(thread)
            writing = what is _WRITE
            if what is _PAUSE:
                if self._pauses(thread):
                    self.pending[thread] = False
                    self.steps += most - left + 1
                    return False
            elif what is not None and not writing:
                sleeping, event, index = what
                if sleeping:
                    self.pending[thread] = False
                    self.runnable.remove(thread)
                    self.asleep[thread] = (event, index)
                    self.steps += most - left + 1
                    return False
                for other in [t for t, key in self.asleep.items() if key == (event, index)]:
                    del self.asleep[other]
                    self.runnable.append(other)
                if trace is not None:
                    trace.pop()  # a wake is part of the step before it
                continue
            left -= 1
            if left == 0:
                self.pending[thread] = writing
                self.steps += most
                return True
        if trace is not None:
            trace.append(thread)
        if writing:
            self._wrote(thread)
        self.runnable.remove(thread)
        self.steps += most - left + 1
        return False

    def _wrote(self, thread: int) -> None:
        """`thread` has written: who paused looks again."""
        self.writes += 1
        self.own[thread] += 1
        if self.paused:
            for other in self.paused:
                self.seen[other] = self.writes - self.own[other]
            self.runnable += self.paused
            self.paused.clear()

    def _pauses(self, thread: int) -> bool:
        """Whether nobody else has written since `thread` looked last: then it waits for that."""
        written = self.writes - self.own[thread]
        if written != self.seen[thread]:
            self.seen[thread] = written
            return False
        self.runnable.remove(thread)
        self.paused.append(thread)
        return True

    def step(self, thread: int) -> None:
        """Let a thread do one step; `go` for one, but faster."""
        if self.trace is not None:
            self.go(thread, 1)
            return
        self.steps += 1
        pending = self.pending
        try:
            what = self.resume[thread]()
            while type(what) is tuple:
                sleeping, event, index = what
                if sleeping:
                    self.runnable.remove(thread)
                    self.asleep[thread] = (event, index)
                    break
                for other in [t for t, key in self.asleep.items() if key == (event, index)]:
                    del self.asleep[other]
                    self.runnable.append(other)
                what = self.resume[thread]()
        except StopIteration:
            self.runnable.remove(thread)
            what = None
        if pending[thread]:
            self._wrote(thread)
        if what is _WRITE:
            pending[thread] = True
        else:
            pending[thread] = False
            if what is _PAUSE:
                self._pauses(thread)

    def finish(self) -> None:
        if self.paused or self.asleep:
            raise _Stuck(f"deadlock: threads {sorted(self.paused)} wait, {sorted(self.asleep)} sleep for ever")
        self.check()


def _name_arrays(value: Any, of: dict[int, list], arrays: dict[int, int]) -> None:
    """Number the lists that `value` leads to, in an order that is the same in every execution."""
    if isinstance(value, list):
        if id(value) in of:
            return
        of[id(value)] = value
        arrays.setdefault(id(value), len(arrays))
    elif isinstance(value, tuple):
        value = list(value)
    elif hasattr(value, "__dict__") and not callable(value) and not isinstance(value, Kernels):
        value = list(vars(value).values())
    else:
        return
    for part in value:
        if not isinstance(part, (int, str)):
            _name_arrays(part, of, arrays)


class _Buffered(_Execution):
    """The same under TSO: thread t's buffer is the runnable `count` + t while something is in it.

    `recording`: keep the footprint of the last step, for `_Reduced`.
    """

    __slots__ = (
        "arrays",
        "buffer",
        "buffers",
        "common",
        "footprint",
        "looking",
        "recording",
        "updated",
        "wrote_plainly",
    )

    def __init__(self, build, trace: list[int] | None, recording: bool = False):
        global _running
        _running = self
        self.buffer = None
        self.common: set[int] = set()
        self.arrays: dict[int, int] = {}
        self.looking = -1
        self.recording = recording
        self.updated: list = []
        self.wrote_plainly = False
        self.footprint: Any = None
        threads, self.check = build()
        self.threads, self.count = threads, len(threads)
        self.resume = [thread.__next__ for thread in threads]
        self.buffers: list[list] = [[] for _ in threads]
        self.trace = trace
        self.steps = 0
        self.paused = []
        self.asleep = {}
        self.pending = [None] * len(threads)
        self.writes = 0
        self.own = [0] * len(threads)
        self.seen = [0] * len(threads)
        if recording:
            self._find_arrays()
        self.runnable = list(range(len(threads)))
        for thread in range(len(threads)):
            self.step(thread)

    def _find_arrays(self) -> None:
        met: set[int] = set()
        for thread in self.threads:
            found: dict[int, list] = {}
            _name_arrays(list(thread.gi_frame.f_locals.values()), found, self.arrays)
            self.common |= met & found.keys()
            met |= found.keys()

    # -- memory

    def look(self, thread: int) -> None:
        """Let memory be what `thread` sees; -1: what is there."""
        if self.looking >= 0:
            for entry in reversed(self.buffers[self.looking]):
                array, index = entry[0], entry[1]
                array[index], entry[2] = entry[2], array[index]
        if thread >= 0:
            for entry in self.buffers[thread]:
                array, index = entry[0], entry[1]
                array[index], entry[2] = entry[2], array[index]
        self.looking = thread

    def drain(self) -> None:
        """Empty the buffer of the thread that runs."""
        if self.recording:
            self.updated += self.buffer
        self.buffer.clear()
        if self.count + self.looking in self.runnable:
            self.runnable.remove(self.count + self.looking)
        self._wrote(self.looking)

    def update(self, array: list, index: int) -> None:
        """A read-modify-write is about to happen."""
        if self.buffer:
            self.drain()
        else:
            self._wrote(self.looking)
        if self.recording:
            self.updated.append([array, index, 0, True, False])

    def _flush(self, thread: int) -> None:
        """Make the oldest store of `thread`, or its oldest run of plain writes, visible."""
        if self.looking != thread:
            self.look(-1)
        buffer = self.buffers[thread]
        count = next((i for i, entry in enumerate(buffer) if entry[3]), len(buffer) - 1) + 1
        if self.looking != thread:
            for array, index, value, _, _ in buffer[:count]:
                array[index] = value
        if self.recording:
            self._note(thread, buffer[:count], (), not buffer[count - 1][3], False)
        del buffer[:count]
        if not buffer:
            self.runnable.remove(self.count + thread)
        self._wrote(thread)

    # -- steps

    def step(self, thread: int) -> None:
        self.steps += 1
        if self.trace is not None:
            self.trace.append(thread)
        if thread >= self.count:
            self._flush(thread - self.count)
            return
        if self.looking != thread:
            self.look(thread)
        self.buffer = buffer = self.buffers[thread]
        reads = self.pending[thread]
        commutes = True
        try:
            what = self.resume[thread]()
            while type(what) is tuple and len(what) == 3:
                sleeping, event, index = what
                commutes = False
                if sleeping:
                    self.runnable.remove(thread)
                    self.asleep[thread] = (event, index)
                    break
                for other in [t for t, key in self.asleep.items() if key == (event, index)]:
                    del self.asleep[other]
                    self.runnable.append(other)
                what = self.resume[thread]()
        except StopIteration:
            self.runnable.remove(thread)
            what = None
        if buffer and self.count + thread not in self.runnable:
            self.runnable.append(self.count + thread)
        self.pending[thread] = what if type(what) is tuple else None
        if what is _PAUSE:
            commutes = False
            self._pauses(thread)
        if self.recording:
            cells = (reads,) if reads and len(reads) == 2 else ()
            self._note(thread, self.updated, cells, not commutes, True)
            self.updated = []
            self.wrote_plainly = False

    def go(self, thread: int, most: int) -> bool:
        runnable = self.runnable
        while most > 0 and thread in runnable:
            self.step(thread)
            most -= 1
        return thread in runnable

    def _note(self, thread: int, written, read, is_loud: bool, is_thread: bool) -> None:
        arrays = self.arrays
        writes = {(arrays[id(e[0])], e[1]) for e in written if id(e[0]) in arrays}
        reads = {(arrays[id(array)], index) for array, index in read if id(array) in arrays}
        plain = any(e[4] for e in written) or (is_thread and self.wrote_plainly)
        self.footprint = (thread, is_thread, writes, reads | writes, plain, is_loud)


def _commute(a, b) -> bool:
    """Whether two steps lead to the same state in either order, and neither hinders the other: R4."""
    thread, is_thread, writes, touches, plain, loud = a
    other, other_is_thread, other_writes, other_touches, other_plain, other_loud = b
    if loud or other_loud:
        return False
    if thread == other:  # one is the buffer's: it commutes with whatever does not empty the buffer
        return not (writes if is_thread else other_writes)
    if (plain and other_is_thread) or (other_plain and is_thread):
        return False
    return not (writes & other_touches or other_writes & touches)


_FOR_EVER = 1 << 60


class _Exhaustive:
    """Depth first over the choices; a choice exists where more than one thread may go on."""

    def __init__(self, preemptions: int | None):
        self.preemptions = preemptions
        self.path: list[list[int]] = []

    def run(self, x: _Execution, longest: int) -> bool:
        path = self.path
        known = len(path)
        depth = 0
        current = -1
        left = _FOR_EVER if self.preemptions is None else self.preemptions
        runnable = x.runnable
        step = x.step
        while runnable:
            count = len(runnable)
            if count == 1:
                current = runnable[0]
            else:
                going = current in runnable
                if going and left == 0:
                    x.go(current, longest)
                    if x.steps > longest:
                        return False
                    continue
                if depth < known:
                    chosen = path[depth][0]
                else:
                    path.append([0, count])
                    chosen = 0
                depth += 1
                if not going:
                    current = sorted(runnable)[chosen]
                elif chosen:  # 0 is to go on
                    left -= 1
                    current = sorted(t for t in runnable if t != current)[chosen - 1]
            if x.steps > longest:
                return False
            step(current)
        return True

    def following(self) -> bool:
        path = self.path
        while path and path[-1][0] + 1 == path[-1][1]:
            path.pop()
        if not path:
            return False
        path[-1][0] += 1
        return True

    def __str__(self) -> str:
        return f"exhaustive, choices {packed([c for c, _ in self.path])}"


class _Lazy(_Exhaustive):
    """The same under TSO. A buffer's step costs a preemption, too, unless every thread must wait for one."""

    def run(self, x: _Execution, longest: int) -> bool:
        path = self.path
        depth = 0
        current = -1
        left = _FOR_EVER if self.preemptions is None else self.preemptions
        runnable, count = x.runnable, x.count
        while runnable:
            if x.steps > longest:
                return False
            threads = [t for t in runnable if t < count]
            going = current in threads
            if going and left == 0:
                x.go(current, longest)
                continue
            options = [current] if going else sorted(threads)
            if left > 0 or not threads:
                options += sorted(t for t in runnable if t not in options)
            if len(options) == 1:
                who = options[0]
            else:
                if depth == len(path):
                    path.append([0, len(options)])
                who = options[path[depth][0]]
                depth += 1
            if who < count:
                left -= going and who != current
                current = who
            else:
                left -= bool(threads)
            x.step(who)
        return True


class _Reduced:
    """Depth first over all schedules under TSO but those that R4 finds to be repetitions."""

    def __init__(self):
        self.path: list[list] = []
        """By step: who may go, which of them goes, who sleeps with which footprint, the footprints of who went."""

    def run(self, x: _Buffered, longest: int) -> bool:
        path = self.path
        depth = 0
        asleep: dict[int, Any] = {}
        runnable = x.runnable
        while runnable:
            if x.steps > longest:
                return False
            if depth == len(path):
                options = [who for who in sorted(runnable) if who not in asleep]
                if not options:
                    return False  # every way on was gone before
                path.append([options, 0, asleep, {}])
            options, chosen, asleep, done = path[depth]
            who = options[chosen]
            x.step(who)
            done[who] = mine = x.footprint
            before = {**asleep, **{other: done[other] for other in options[:chosen]}}
            asleep = {other: its for other, its in before.items() if _commute(its, mine)}
            depth += 1
        return True

    def following(self) -> bool:
        path = self.path
        while path and path[-1][1] + 1 == len(path[-1][0]):
            path.pop()
        if not path:
            return False
        path[-1][1] += 1
        return True

    def __str__(self) -> str:
        return f"exhaustive, reduced, choices {packed([node[0][node[1]] for node in self.path])}"


class _Random:
    """Random threads for random stretches; short ones and long ones, by seed. Buffers more or less lazy."""

    def __init__(self, seed: int):
        self.seed = seed

    def run(self, x: _Execution, longest: int) -> bool:
        draw = random.Random(self.seed)
        bits = draw.getrandbits
        stretch = (1, 2, 4, 12)[bits(2)]
        lazy = 0 if type(x) is _Execution else bits(2)
        runnable = x.runnable
        count = x.count
        while runnable:
            if x.steps > longest:
                return False
            thread = runnable[0] if len(runnable) == 1 else runnable[bits(16) % len(runnable)]
            if lazy and thread >= count and bits(2) < lazy and min(runnable) < count:
                continue
            x.go(thread, 1 + bits(16) % stretch)
        return True

    def following(self) -> bool:
        self.seed += 1
        return True

    def __str__(self) -> str:
        return f"random, seed {self.seed}"


class _Priority(_Random):
    """PCT: the thread of the highest priority goes on; at few random steps it falls to the lowest."""

    def __init__(self, seed: int, changes: int, length: int):
        super().__init__(seed)
        self.changes = changes
        self.length = length

    def run(self, x: _Execution, longest: int) -> bool:
        draw = random.Random(self.seed)
        order = list(range(x.count if type(x) is _Execution else 2 * x.count))
        draw.shuffle(order)
        stops = sorted(draw.randrange(self.length) for _ in range(self.changes))
        runnable = x.runnable
        while runnable:
            thread = next(t for t in order if t in runnable)
            if x.steps > longest:
                return False
            if stops and stops[0] <= x.steps:
                stops.pop(0)
                order.remove(thread)
                order.append(thread)
                continue
            # Who only spins while a lower thread could help would never stop: let it fall in the end.
            most = stops[0] - x.steps if stops else self.length
            if x.go(thread, most) and not stops:
                order.remove(thread)
                order.append(thread)
        return True

    def __str__(self) -> str:
        return f"PCT, {self.changes} changes over {self.length} steps, seed {self.seed}"


def _explore(structure: str, build, strategy, limit: int, longest: int, memory: str) -> int:
    global _memory
    _memory = memory
    try:
        return _explored(structure, build, strategy, limit, longest)
    finally:
        _memory = SC


def _execution(build, trace: list[int] | None, strategy) -> _Execution:
    if _memory == SC:
        return _Execution(build, trace)
    return _Buffered(build, trace, isinstance(strategy, _Reduced))


def _explored(structure: str, build, strategy, limit: int, longest: int) -> int:
    complete = 0
    tried = 0
    while complete < limit:
        tried += 1
        x = _execution(build, None, strategy)
        try:
            if strategy.run(x, longest):
                x.finish()
                complete += 1
        except Exception as error:
            trace: list[int] = []
            again = _execution(build, trace, strategy)
            try:
                if strategy.run(again, longest):
                    again.finish()
            except Exception:
                pass
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            raise FailingSchedule(
                f"{structure}: {kind}{error}",
                f"schedule {tried}: {strategy}\n  replay(build, unpacked({packed(trace)!r}), {_memory!r})",
                trace,
            ) from error
        if not strategy.following():
            break
        if tried > 4 * limit + 1000:
            raise AssertionError(f"{structure}: only {complete} of {tried} executions come to an end")
    EXPLORED[structure if _memory == SC else f"{structure} {_memory}"] += complete
    return complete


def _bounded(preemptions: int | None, memory: str) -> _Exhaustive:
    return (_Exhaustive if memory == SC else _Lazy)(preemptions)


def exhaustive(
    structure: str,
    build,
    *,
    preemptions: int | None = None,
    limit: int = 1_000_000,
    longest: int = 3000,
    memory: str = SC,
    reduced: bool = True,
) -> int:
    """Run every schedule (with at most so many preemptions). Returns how many there are.

    Parameters
    ----------
    structure : str
        Name for the count.
    build : callable
        ``() -> (list of generators, check)``: a fresh state; `check` is called at the end.
    limit : int
        It must end before so many, so that nobody takes a part for the whole.
    memory : str
        `SC` or `TSO`.
    reduced : bool
        Leave out repetitions (R4): under TSO and without a bound on preemptions.
    """
    reduces = memory == TSO and preemptions is None and reduced
    strategy = _Reduced() if reduces else _bounded(preemptions, memory)
    count = _explore(structure, build, strategy, limit, longest, memory)
    assert count < limit, f"{structure}: more than {limit} schedules; the case is too large to be exhaustive"
    return count


def sampled(
    structure: str, build, count: int, *, seed: int = 0, longest: int = 3000, length: int = 120, memory: str = ""
) -> int:
    """Run `count` schedules, half of them random, half by random priorities.

    Without a `memory`, a fifth of them under TSO: each may be one of SC's, too, if its buffers are quick.
    """
    if memory == "":
        buffered = count // 5
        rest = {"seed": seed, "longest": longest, "length": length}
        done = sampled(structure, build, count - buffered, **rest, memory=SC)
        return done + sampled(structure, build, buffered, **rest, memory=TSO)
    count = int(count * SCALE)
    done = _explore(structure, build, _Random(seed), count - 4 * (count // 8), longest, memory)
    for changes in (1, 2, 3, 5):
        done += _explore(structure, build, _Priority(seed, changes, length), count // 8, longest, memory)
    return done


def packed(numbers: list[int]) -> str:
    """Runs of equal numbers as ``number x length``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][0] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return " ".join(f"{number}x{length}" for number, length in runs)


def unpacked(text: str) -> list[int]:
    """What `packed` was given."""
    numbers: list[int] = []
    for run in text.split():
        number, length = run.split("x")
        numbers += [int(number)] * int(length)
    return numbers


def replay(build, trace: list[int], memory: str = SC) -> None:
    """Run one schedule again, e.g. under a debugger."""
    global _memory
    _memory = memory
    try:
        x = _execution(build, [], None)
        for thread in trace[len(x.trace) :]:
            if thread in x.runnable:
                x.go(thread, 1)
        x.finish()
    finally:
        _memory = SC


def find_failure(
    structure: str,
    build,
    expected: str,
    *,
    count: int = 20_000,
    preemptions: int = 2,
    longest: int = 3000,
    memory: str = SC,
) -> FailingSchedule:
    """Look for a schedule that fails, as a planted bug must make happen.

    Parameters
    ----------
    expected : str
        Regular expression: what must fail. Another failure is none that was looked for.
    """
    name = f"{structure} (planted)"
    try:
        _explore(name, build, _bounded(1, memory), 1000, longest, memory)
        sampled(name, build, count, longest=longest, memory=memory)
        _explore(name, build, _bounded(preemptions, memory), count, longest, memory)
    except FailingSchedule as failure:
        if re.search(expected, failure.reason) is None:
            raise AssertionError(f"expected {expected!r}, and the planted bug failed with:\n{failure}") from failure
        return failure
    finally:
        for explored in (name, f"{name} {TSO}"):
            EXPLORED.pop(explored, None)
    raise AssertionError(f"{structure}: the planted bug survived")


def copied(arrays):
    """A fresh copy of a NamedTuple of lists (or lists of lists)."""
    return type(arrays)(
        *[[row[:] for row in a] if a and isinstance(a[0], list) else a[:] for a in arrays]
    )
