"""A hash of everything that a compiled function was made from.

Machine code holds the code of everything it calls, so a cache that watches only
the file of the caller (as Numba's own does) runs stale code after an edit of a
called function. The identity of a function is a hash of every definition it can
reach: its own, those of the names it uses, in its module or imported, those of
the names that these use, and so on. Docstrings, comments, and definitions that it
does not reach are left out, so that most edits leave most machine code valid.

What is reached is read from the source text, not from live objects: a name
counts as used wherever it appears, in a nested function or as a local that
shadows it. So the set can be too large, but never too small. Two things are not
reached by name and are added: registrations (definitions decorated by Numba's
extension points, which act by existing) of each module that is reached, and
those of `IMPLICIT`, which give types to arguments.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import os
import pathlib
import platform
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import llvmlite
import llvmlite.binding
import numba
import numpy
from numba.core import config

__all__ = ["function_identity", "source_identity"]

IMPLICIT = ("headrace.memory.bundle", "headrace.memory.own_words")
"""Modules whose Numba types reach a kernel as arguments, without being named in it."""

_WHOLE = "*"
"""In place of a definition's name: all of its module."""


@functools.cache
def platform_identity() -> str:
    """What machine code depends on beside its source: versions, processor, compiler switches."""
    return "\n".join(
        (
            "3",  # raise it when the meaning of a cached file changes
            platform.system(),
            platform.machine(),
            sys.version,
            sysconfig.get_config_var("SOABI") or "",
            numpy.__version__,
            numba.__version__,
            llvmlite.__version__,
            str(config.CPU_NAME or llvmlite.binding.get_host_cpu_name()),
            str(config.CPU_FEATURES or llvmlite.binding.get_host_cpu_features().flatten()),
            f"jit={not config.DISABLE_JIT} bounds={config.BOUNDSCHECK} opt={config.OPT}",
            f"vectorize={config.LOOP_VECTORIZE},{config.SLP_VECTORIZE}",
        )
    )


@dataclass
class _Module:
    """One source file: its top-level definitions, and the origins of its imported names."""

    package: str
    definitions: dict[str, list[ast.AST]] = field(default_factory=lambda: defaultdict(list))
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    registrations: list[ast.AST] = field(default_factory=list)


def _read(text: str, package: str) -> _Module:
    module = _Module(package)

    def note(statements: Iterable[ast.stmt], conditions: tuple[ast.AST, ...]) -> None:
        for node in statements:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    module.imports[name] = (alias.name if alias.asname else name, None)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    base = importlib.util.resolve_name("." * node.level + base, package)
                for alias in node.names:
                    module.imports[alias.asname or alias.name] = (base, alias.name)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                module.definitions[node.name] += [node, *conditions]
                if any(_registers(each, module) for each in node.decorator_list):
                    module.registrations.append(node)
            elif isinstance(node, ast.If):
                note([*node.body, *node.orelse], (*conditions, node.test))
            elif isinstance(node, ast.Try):
                note([*node.body, *(s for h in node.handlers for s in h.body), *node.orelse, *node.finalbody], conditions)
            elif isinstance(node, ast.With | ast.For | ast.While):
                for name in _targets(node):
                    module.definitions[name] += [node, *conditions]
            else:
                for name in _targets(node):
                    module.definitions[name] += [node, *conditions]

    note(ast.parse(text).body, ())
    return module


def _registers(decorator: ast.expr, module: _Module) -> bool:
    """Whether a decorator is an extension point of Numba: a definition with it acts by existing."""
    while isinstance(decorator, ast.Call | ast.Attribute):
        decorator = decorator.func if isinstance(decorator, ast.Call) else decorator.value
    if not isinstance(decorator, ast.Name):
        return False
    origin = module.imports.get(decorator.id, ("", None))[0]
    return origin.partition(".")[0] == "numba" and decorator.id not in ("njit", "jit", "intrinsic")


def _targets(node: ast.AST) -> Iterator[str]:
    """Names that a statement binds or changes at the top level of a module."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id
        elif isinstance(each, ast.Subscript | ast.Attribute) and isinstance(each.ctx, ast.Store):
            base: ast.expr = each
            while isinstance(base, ast.Subscript | ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name):
                yield base.id


def _without_docstrings(node: ast.AST) -> ast.AST:
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.ClassDef):
            first = each.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                each.body[0] = ast.Pass()
    return node


@functools.cache
def _file_of(name: str) -> str | None:
    """The source file of a module whose text counts: ours and tests, but not packages identified by their versions."""
    loaded = sys.modules.get(name)
    spec = getattr(loaded, "__spec__", None)
    if spec is None:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, AttributeError, ValueError):
            return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    if not name.startswith("headrace") and spec.origin.startswith(_installed()):
        return None
    if name.startswith("headrace.caches"):
        return None  # how code is cached is no part of it: `platform_identity` has a number for that
    return spec.origin


@functools.cache
def _installed() -> tuple[str, ...]:
    return tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@functools.cache
def _module(name: str) -> _Module | None:
    path = _file_of(name)
    if path is None:
        return None
    is_package = pathlib.Path(path).name == "__init__.py"
    return _read(pathlib.Path(path).read_text(encoding="utf-8"), name if is_package else name.rpartition(".")[0])


_Place = tuple[str, str]
"""A module's name, and the name of a definition in it."""


def _resolve(module: str, name: str) -> _Place | None:
    """Where `name`, as `module` knows it, is defined; None if that is in a package identified by its version."""
    found = _module(module)
    if found is None:
        return None
    if name == _WHOLE or name in found.definitions:
        return module, name
    return _imported(found, name) or _submodule(module, name)


def _imported(found: _Module, name: str) -> _Place | None:
    if name not in found.imports:
        return None
    origin, attribute = found.imports[name]
    if attribute is None:
        return _resolve(origin, _WHOLE)
    return _resolve(origin, attribute)


def _submodule(package: str, name: str) -> _Place | None:
    inner = f"{package}.{name}"
    return (inner, _WHOLE) if _module(inner) is not None else None


def _uses(node: ast.AST, found: _Module, module: str) -> Iterator[_Place]:
    """Iterate over the definitions that a piece of source names."""

    def resolve(name: str) -> _Place | None:
        return (module, name) if name in found.definitions else _imported(found, name)

    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            # An attribute of an imported module stands for that definition, not for the whole module.
            base = resolve(each.value.id)
            if base is not None and base[1] == _WHOLE and (place := _resolve(base[0], each.attr)) is not None:
                yield place
                continue
        if isinstance(each, ast.Name) and (place := resolve(each.id)) is not None:
            yield place
        waiting.extend(ast.iter_child_nodes(each))


@functools.cache
def _described(place: _Place) -> tuple[str, frozenset[_Place]]:
    """The hash of a definition, and the definitions it names."""
    module, name = place
    found = _module(module)
    assert found is not None
    nodes = [n for many in found.definitions.values() for n in many] if name == _WHOLE else found.definitions[name]
    return _describe(nodes, found, module)


@functools.cache
def _registered(module: str) -> tuple[str, frozenset[_Place]]:
    found = _module(module)
    return _describe(found.registrations, found, module) if found is not None else ("", frozenset())


def _describe(nodes: list[ast.AST], found: _Module, module: str) -> tuple[str, frozenset[_Place]]:
    digest = hashlib.sha256()
    used: set[_Place] = set()
    for node in nodes:
        used.update(_uses(node, found, module))
        digest.update(ast.dump(_without_docstrings(node)).encode())
    return digest.hexdigest(), frozenset(used)


def _reached(first: Iterable[_Place]) -> list[tuple[_Place, str]]:
    """Everything that can be reached from these definitions, with the hash of each, in a stable order."""
    hashes: dict[_Place, str] = {}
    waiting = list(first)
    waiting += [(module, "") for module in IMPLICIT]
    while waiting:
        place = waiting.pop()
        if place in hashes:
            continue
        hashes[place], used = _described(place) if place[1] else _registered(place[0])
        waiting += used
        waiting.append((place[0], ""))
    return sorted(hashes.items())


def _digest(own: str, first: Iterable[_Place]) -> str:
    digest = hashlib.sha256(platform_identity().encode())
    digest.update(own.encode())
    for (module, name), described in _reached(first):
        digest.update(f"\n{module}.{name} {described}".encode())
    return digest.hexdigest()


@functools.lru_cache(maxsize=512)
def source_identity(source: str, own: str = "") -> str:
    """Identify a generated source by its text and by all the definitions it reaches in imported modules.

    Parameters
    ----------
    source : str
        Text of a module. If it has user functions (``compiled_user``), every character counts, because errors
        name their lines; otherwise comments and docstrings do not count.
    own : str
        Anything else on which its machine code depends.
    """
    found = _read(source, "")
    tree = ast.parse(source)
    used = {place for place in _uses(tree, found, "") if place[0]}
    text = source if "compiled_user" in source else ast.dump(_without_docstrings(tree))
    return _digest(f"{own}\n{text}", used)


def function_identity(function: Callable) -> str | None:
    """Identify a function in a source file by all the definitions it reaches, itself included.

    Returns
    -------
    str or None
        None if its source cannot be found: a function defined at a prompt, or inside another function.
    """
    module, name = function.__module__, function.__qualname__
    found = _module(module)
    if found is None or name not in found.definitions:
        return None
    return _digest("", [(module, name)])
