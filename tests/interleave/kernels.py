"""The functions of kernel files as generators, with bugs planted where a test wants them."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import numpy as np

from interleave import models
from interleave.models import ATOMICS, SC
from interleave.rewriting import LOADS, PAUSES, STORES, UPDATES, WAITS, BufferedCut, Cut

_PROVIDED = {
    "headrace.kernel", "headrace.codegen.called", "headrace.memory.atomics", "headrace.memory.bundle", "headrace.memory.words",
    "headrace.memory.wrapped",
}  # fmt: skip
_CONSTANTS = {"headrace.progress", "headrace.references", "headrace.ingress.store"}
"""Kernels import only constants and plain Python functions from these modules."""


_NUMPY = SimpleNamespace(
    int64=np.int64,
    ndarray=np.ndarray,
    iinfo=np.iinfo,
    empty=lambda count, dtype=None: [0] * count,
    zeros=lambda count, dtype=None: [0] * count,
)


class Kernels:
    """The functions of some kernel files as generators, by name, for the memory model that is explored.

    Parameters
    ----------
    modules : str
        Dotted names; what they import from each other is loaded, too.
    taken : iterable of (str, str)
        Single functions of further files: module, name.
    programs : iterable of function
        What the threads of a test do, written like kernels, with access to the kernels'
        names; ``cut()`` is a point where the thread may be stopped.
    replacing : dict
        Programs, by the name of the function that each replaces.
    shared : iterable of str
        Names of arrays whose plain writes are points, too.
    planted : iterable of (str, str, str)
        Bugs: module, the text to replace (it must occur exactly once), the new text.
    constants : dict
        Module constants to override, so that small cases reach large sizes' edges.
    given : dict
        Further names that single functions need.
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
        if models.current not in self._loaded:
            self._loaded[models.current] = _Loaded(models.current, *self._of).space
        try:
            return self._loaded[models.current][name]
        except KeyError:
            raise AttributeError(f"no kernel, program or constant {name!r}") from None


class _Loaded:
    """The text of some kernel files, rewritten for one memory model: see `Kernels`."""

    def __init__(self, memory, modules, taken, programs, shared, planted, constants, given):
        self._cut = Cut if memory == SC else BufferedCut
        self._shared = shared
        self._planted = planted
        self._used: set[int] = set()
        self._constants = constants
        self._generators = {"call": True}
        self.space: dict[str, Any] = {
            "np": _NUMPY,
            "CELL": 1,
            "EVENT_CELL": 32,
            "kernel": lambda function: function,
            "by_reference": lambda fields: fields,
            "borrowed": lambda array: array,
            "prefetch": lambda array, index: None,
            "prefetch_for_write": lambda array, index: None,
            "now_ns": lambda: 0,
            "wrapped_sum": lambda a, b: (int(a) + int(b) + 2**63) % 2**64 - 2**63,
            "wrapped_product": lambda a, b: (int(a) * int(b) + 2**63) % 2**64 - 2**63,
            "call": self._call,
            **ATOMICS[memory],
            **given,
        }
        self._loaded: set[tuple[str, str]] = set()
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

    def _call(self, address: str, arguments: tuple) -> Any:
        """Call a kernel by its address, as `headrace.codegen.called` does: here the address is its name."""
        found = self.space[address](*arguments)
        return (yield from found) if self._generators[address] else found

    def _load(self, module: str, only: str = "") -> None:
        if (module, only) in self._loaded:
            return
        self._loaded.add((module, only))
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
        for module in _imported(text):
            self._load(module)
        known = frozenset(self._generators.items())
        code, generators = _as_generators(text, name, every, self._cut, frozenset(self._shared), known)
        self._generators.update(generators)
        exec(code, self.space)  # our own files, in a test
        self.space.update({k: v for k, v in self._constants.items() if k in self.space})


# Cached: most of what a test loads, earlier tests have loaded already, as a planted bug changes one file of several.


@functools.cache
def _imported(text: str) -> tuple[str, ...]:
    """The modules whose kernels a text calls, in order."""
    named = (node.module or "" for node in ast.parse(text).body if isinstance(node, ast.ImportFrom))
    return tuple(name for name in named if name.startswith("headrace") and name not in _PROVIDED | _CONSTANTS)


@functools.cache
def _as_generators(
    text: str, name: str, every: bool, cut: type[Cut], shared: frozenset[str], known: frozenset[tuple[str, bool]]
) -> tuple[CodeType, dict[str, bool]]:
    """Rewrite a text, given which `known` functions yield. Returns its code, and which of its own functions yield."""
    tree = ast.parse(text)
    body: list[ast.stmt] = []
    functions: list[ast.FunctionDef] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headrace"):
            if node.module in _CONSTANTS:
                body.append(node)
            continue
        if isinstance(node, ast.Import) and node.names[0].name == "numpy":
            continue
        if isinstance(node, ast.FunctionDef) and (every or node.decorator_list):
            node.decorator_list = []
            node.returns = None
            functions.append(node)
        body.append(node)
    generators = _generators(functions, set(shared), dict(known))
    yielding = {n for n, yields in (dict(known) | generators).items() if yields}
    rewriting = cut(yielding, set(shared))
    tree.body = [rewriting.rewrite(node) if node in functions else node for node in body]
    ast.fix_missing_locations(tree)
    return compile(tree, name, "exec"), generators


def _generators(functions: list[ast.FunctionDef], shared: set[str], known: dict[str, bool]) -> dict[str, bool]:
    """Which of these functions yield, by name."""
    atoms = LOADS | STORES | UPDATES | WAITS | PAUSES | {"cut", "fence"}
    calls, found = {}, {}
    for node in functions:
        names = {
            c.func.id for c in ast.walk(node) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)
        }
        calls[node.name] = names
        own = Cut(set(), shared)
        plain = any(isinstance(n, ast.stmt) and own.is_plain_write(n) for n in ast.walk(node))
        found[node.name] = plain or bool(names & atoms)
    changed = True
    while changed:
        changed = False
        for name, names in calls.items():
            if not found[name] and any(found.get(n, known.get(n)) for n in names):
                found[name] = changed = True
    return found


def copied(arrays):
    """A fresh copy of a NamedTuple of lists (or lists of lists, or such tuples)."""
    return type(arrays)(*[copied(a) if hasattr(a, "_fields") else _copied_list(a) for a in arrays])


def _copied_list(values):
    return [row[:] for row in values] if values and isinstance(values[0], list) else values[:]
