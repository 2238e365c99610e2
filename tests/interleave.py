"""Schedule exploration: the kernels' own text, run under every interleaving we choose.

One source, two executions. The same file that Numba compiles is read as text,
and each access to a shared cell becomes a point at which a thread may be
stopped: a kernel turns into a generator, an atomic into a ``yield`` followed by
the access, a call of another kernel into ``yield from``. A scheduler then
resumes the generators of several threads in an order of its choice.

Cuts        before each atomic, and before each run of plain writes to a shared
            array, so that what is written after a publication is caught
Waiting     `futex_wait` sleeps until a wake reaches it (its timeout never
            fires, so a lost wake-up shows as a deadlock); after `pause` a
            thread goes on only when another one has written something
Schedules   `Exhaustive` all of them, or all with at most so many preemptions;
            `Random` and `Priority` (PCT: random priorities, few change points)
            by seed. Only executions that came to their end are counted.
Failing     raises `FailingSchedule`; its text names seed or choices and the
            schedule itself, which `replay` runs again
Blind spot  sequential consistency only: what a missing fence or a wrong
            ordering does is left to the written argument, to the test that
            reads the LLVM IR, and to tests/litmus

Arrays are lists here (a two-dimensional array a list of lists) and cells are
not padded: `CELL` is 1. That makes tens of thousands of schedules a second.
"""

from __future__ import annotations

import ast
import inspect
import os
import random
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

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
    trace : list of int
        The thread that went on, at each step: an argument for `replay`.
    """

    def __init__(self, text: str, trace: list[int]):
        super().__init__(text)
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


_NUMPY = SimpleNamespace(
    int64=np.int64,
    ndarray=np.ndarray,
    iinfo=np.iinfo,
    empty=lambda count, dtype=None: [0] * count,
    zeros=lambda count, dtype=None: [0] * count,
)


def _yields(node: ast.AST) -> bool:
    return any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in ast.walk(node))


class _Cut(ast.NodeTransformer):
    """Rewrite one kernel; `generators` are the names that must be called with `yield from`."""

    def __init__(self, generators: set[str], shared: set[str]):
        self.generators = generators
        self.shared = shared

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _LOADS | _UPDATES and any(_yields(argument) for argument in node.args):
            raise SyntaxError(f"line {node.lineno}: an atomic inside the arguments of {name}; split the expression")
        if name in _LOADS:
            array, index = node.args
            return ast.BoolOp(ast.Or(), [ast.Yield(None), ast.Subscript(array, index, ast.Load())])
        if name in _UPDATES:
            first = ast.Yield(ast.Constant(_WRITE))
            return ast.Call(ast.Name(f"_{name}", ast.Load()), [first, *node.args], [])
        if name in _PAUSES:
            return ast.Yield(ast.Constant(_PAUSE))
        if name == "cut":
            return ast.Yield(None)
        if name in self.generators | _WAITS:
            if name in _WAITS:
                node.func = ast.Name(f"_{name}", ast.Load())
            return ast.YieldFrom(node)
        return node

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
                result.append(ast.Expr(ast.Yield(ast.Constant(_WRITE))))
            previous = plain
            for field in ("body", "orelse"):
                inner = getattr(node, field, None)
                if inner:
                    setattr(node, field, self.cut_plain_writes(inner))
            result.append(node)
        return result


class Kernels:
    """The functions of some kernel files as generators, by name.

    Parameters
    ----------
    modules : str
        Dotted names; what they import of each other is loaded along.
    taken : iterable of (str, str)
        Single functions of further files: module, name.
    programs : iterable of function
        What the threads of a test do, written like kernels, with the kernels'
        names; ``cut()`` is a point where the thread may be stopped.
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
        shared: Iterable[str] = (),
        planted: Iterable[tuple[str, str, str]] = (),
        constants: dict[str, Any] | None = None,
        given: dict[str, Any] | None = None,
    ):
        self._shared = set(shared)
        self._planted = list(planted)
        self._used: set[int] = set()
        self._constants = constants or {}
        self._generators: dict[str, bool] = {}
        self._space: dict[str, Any] = {
            "np": _NUMPY,
            "CELL": 1,
            "kernel": lambda function: function,
            "by_reference": lambda fields: fields,
            "fence": lambda: None,
            "prefetch": lambda array, index: None,
            "prefetch_for_write": lambda array, index: None,
            "now_ns": lambda: 0,
            "_fetch_add": _fetch_add,
            "_exchange": _exchange,
            "_compare_exchange": _compare_exchange,
            "_futex_wait": _futex_wait,
            "_futex_wake": _futex_wake,
            **(given or {}),
        }
        self._loaded: set[str] = set()
        for module in modules:
            self._load(module)
        for module, name in taken:
            self._load(module, only=name)
        if programs:
            text = "\n\n".join(textwrap.dedent(inspect.getsource(program)) for program in programs)
            free = {}
            for program in programs:
                free.update({k: v for k, v in program.__globals__.items() if isinstance(v, (int, str))})
            self._space = {**free, **self._space}
            self._execute(text, "<programs>", every=True)
        if len(self._used) != len(self._planted):
            raise AssertionError("a planted bug names a module that was not loaded")
        self.__dict__.update({k: v for k, v in self._space.items() if not k.startswith("__")})

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
        cut = _Cut({n for n, yielding in self._generators.items() if yielding}, self._shared)
        for node in functions:
            node.body = cut.cut_plain_writes(node.body)
        tree.body = [cut.visit(node) if node in functions else node for node in body]
        ast.fix_missing_locations(tree)
        exec(compile(tree, name, "exec"), self._space)  # our own files, in a test
        self._space.update({k: v for k, v in self._constants.items() if k in self._space})

    def _find_generators(self, functions: list[ast.FunctionDef]) -> None:
        atoms = _LOADS | _STORES | _UPDATES | _WAITS | _PAUSES | {"cut"}
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
    """The threads of one execution and who of them can go on."""

    __slots__ = (
        "asleep",
        "check",
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


class _Random:
    """Random threads for random stretches; short ones and long ones, by seed."""

    def __init__(self, seed: int):
        self.seed = seed

    def run(self, x: _Execution, longest: int) -> bool:
        draw = random.Random(self.seed)
        bits = draw.getrandbits
        stretch = (1, 2, 4, 12)[bits(2)]
        runnable = x.runnable
        while runnable:
            if x.steps > longest:
                return False
            thread = runnable[0] if len(runnable) == 1 else runnable[bits(16) % len(runnable)]
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
        order = list(range(len(x.threads)))
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


def _explore(structure: str, build, strategy, limit: int, longest: int) -> int:
    complete = 0
    tried = 0
    while complete < limit:
        tried += 1
        x = _Execution(build, None)
        try:
            if strategy.run(x, longest):
                x.finish()
                complete += 1
        except Exception as error:
            trace: list[int] = []
            again = _Execution(build, trace)
            try:
                if strategy.run(again, longest):
                    again.finish()
            except Exception:
                pass
            text = f"{structure}: {error}\n  schedule {tried}: {strategy}\n  replay(build, unpacked({packed(trace)!r}))"
            raise FailingSchedule(text, trace) from error
        if not strategy.following():
            break
        if tried > 4 * limit + 1000:
            raise AssertionError(f"{structure}: only {complete} of {tried} executions come to an end")
    EXPLORED[structure] += complete
    return complete


def exhaustive(structure: str, build, *, preemptions: int | None = None, limit: int = 1_000_000, longest=3000) -> int:
    """Run every schedule (with at most so many preemptions). Returns how many there are.

    Parameters
    ----------
    structure : str
        Name for the count.
    build : callable
        ``() -> (list of generators, check)``: a fresh state; `check` is called at the end.
    limit : int
        It must end before so many, so that nobody takes a part for the whole.
    """
    count = _explore(structure, build, _Exhaustive(preemptions), limit, longest)
    assert count < limit, f"{structure}: more than {limit} schedules; the case is too large to be exhaustive"
    return count


def sampled(structure: str, build, count: int, *, seed: int = 0, longest: int = 3000, length: int = 120) -> int:
    """Run `count` schedules, half of them random, half by random priorities."""
    count = int(count * SCALE)
    done = _explore(structure, build, _Random(seed), count - count // 2, longest)
    for changes in (1, 2, 3, 5):
        done += _explore(structure, build, _Priority(seed, changes, length), count // 8, longest)
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


def replay(build, trace: list[int]) -> None:
    """Run one schedule again, e.g. under a debugger."""
    x = _Execution(build, [])
    for thread in trace[len(x.trace) :]:
        if thread in x.runnable:
            x.go(thread, 1)
    x.finish()


def find_failure(structure: str, build, *, count: int = 20_000, preemptions: int = 2, longest=3000) -> FailingSchedule:
    """Look for a schedule that fails, as a planted bug must make happen."""
    try:
        _explore(f"{structure} (planted)", build, _Exhaustive(1), 1000, longest)
        sampled(f"{structure} (planted)", build, count, longest=longest)
        _explore(f"{structure} (planted)", build, _Exhaustive(preemptions), count, longest)
    except FailingSchedule as failure:
        return failure
    finally:
        EXPLORED.pop(f"{structure} (planted)", None)
    raise AssertionError(f"{structure}: the planted bug survived")


def copied(arrays):
    """A fresh copy of a NamedTuple of lists (or lists of lists)."""
    return type(arrays)(
        *[[row[:] for row in a] if a and isinstance(a[0], list) else a[:] for a in arrays]
    )
