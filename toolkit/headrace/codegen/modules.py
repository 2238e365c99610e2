"""Generated source modules, named by their content, compiled once per machine.

Numba's cache never hits for a closure over another compiled function, because
its key contains the pickled cell (0.79 s per operator and process). It does hit
for a function in a module (0.008 s). So an operator's kernel is written to a
file whose name is a hash of everything its machine code depends on
(`headrace.caches.identity`): the source, what it reaches in the modules of
headrace it imports, the versions, the processor, and whether bounds are checked.
A module never changes its meaning, so nothing ever has to be invalidated.

The text executed is always the text that was requested, never the file
on disk; the file is for tracebacks and profiles. `headrace.caches` describes how
machine code is kept.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.util
import linecache
import os
import pathlib
import re
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy
from numba import njit
from numba.core.compiler_lock import global_compiler_lock

from headrace.caches import CacheWarning, cache_root, private_directory, warn_once
from headrace.caches.identity import source_identity
from headrace.caches.machine_code import MachineCodeCache, prune_sometimes, write_whole
from headrace.codegen import parts
from headrace.kernel import JIT

__all__ = [
    "CacheWarning",
    "cache_directory",
    "compiled",
    "compiled_borrowing",
    "compiled_user",
    "compiled_user_bounded",
    "compiled_user_within",
    "compiled_within",
    "load_module",
]

_MODULES_KEPT = 4000
"""Generated modules kept in the cache directory; the least recently used go."""

_DEBUG = "__headrace_debug__"
_ENTRY = "__headrace_entry__"
_ADDRESSED = "__headrace_addressed__"

_lock = threading.RLock()
_loaded: dict[str, types.ModuleType] = {}


def cache_directory() -> pathlib.Path:
    """The directory of generated modules: ``modules`` in `headrace.caches.cache_root`.

    Returns
    -------
    pathlib.Path
        It may not exist yet; `load_module` creates it with mode 0700.
    """
    return cache_root() / "modules"


def _kept(name: str, text: bytes) -> pathlib.Path | None:
    """Write a module's source to where tracebacks and profiles find it; None where nothing can be written."""
    try:
        path = private_directory("modules") / f"{name}.py"
        if path.exists() and path.read_bytes() == text:
            os.utime(path)
        else:
            prune_sometimes(path.parent, "op_*.py", _MODULES_KEPT)
            write_whole(path, text)
    except (OSError, RuntimeError) as error:
        warn_once(
            "directory",
            f"compiled code is not kept between runs, because {error}. Set XDG_CACHE_HOME to a "
            f"directory of your own; until then each run compiles again.",
        )
        return None
    return path


def _compile(
    function: Callable,
    error_model: str,
    inline: str,
    is_bounded: bool = False,
    borrows: bool = False,
    is_within: bool = False,
    is_seldom: bool = False,
) -> Callable:
    if not JIT:
        return function
    namespace = function.__globals__
    entry = namespace.get(_ENTRY)
    is_part = entry is not None and function.__name__ not in entry
    if error_model == "python":  # the user's functions
        alone, part = parts.USER_ALONE, parts.USER_WITHIN if is_within else parts.USER
    else:
        alone, part = {}, parts.WITHIN if is_within else parts.SELDOM if is_seldom else parts.PART
    dispatcher = njit(
        nogil=True,
        error_model=error_model,
        inline=inline,
        boundscheck=is_bounded or bool(namespace.get(_DEBUG, False)),
        **({"_nrt": False} if borrows or namespace.get(_ADDRESSED) else {}),
        **(alone if entry is None else part if is_part else parts.ADDRESSED if namespace[_ADDRESSED] else parts.ENTRY),
    )(function)
    if not is_part:
        # The module's name contains the identity of its contents.
        name = f"{function.__module__}.{function.__qualname__}"
        readable = f"{function.__module__.rpartition('_')[0]}.{function.__qualname__}"
        dispatcher._cache = MachineCodeCache(
            function, readable, lambda: hashlib.sha256(name.encode()).hexdigest()
        )
    return dispatcher


def compiled(
    function: Callable | None = None, *, inline: str | bool = "never", borrows: bool = False, seldom: bool = False
) -> Any:
    """Decorator of the package's own kernels in a generated source.

    Divisions follow NumPy (no check); bounds are checked only in the debug
    variant of the module.

    Parameters
    ----------
    function : callable
    inline : {"never", "always"} or bool
        Numba's inlining. LLVM inlines small functions either way.
    borrows, seldom : bool
        As in `headrace.kernel.kernel`, which this replaces in an included file.
    """
    if function is None:
        return functools.partial(compiled, inline=inline, borrows=borrows, seldom=seldom)
    how = inline if isinstance(inline, str) else "always" if inline else "never"
    return _compile(function, "numpy", how, borrows=borrows, is_seldom=seldom)


def compiled_borrowing(function: Callable) -> Any:
    """Decorator of kernels without reference counts for their arrays, which would keep LLVM from inlining them.

    They make no arrays and return none. All functions of a module whose entries are called by address are such kernels.
    """
    return _compile(function, "numpy", "never", borrows=True)


def compiled_within(function: Callable) -> Any:
    """Decorator of kernels that LLVM must inline into their callers whatever their size: work done for each row."""
    return _compile(function, "numpy", "never", is_within=True)


def compiled_user(function: Callable) -> Any:
    """Decorator of user functions in a generated source: dividing by zero raises, as in Python."""
    if JIT:
        return _compile(function, "python", "never")

    @functools.wraps(function)
    def interpreted(*arguments):
        # Numbers read from arrays are NumPy's, whose division by zero only warns.
        try:
            with numpy.errstate(divide="raise"):
                return function(*arguments)
        except FloatingPointError as error:
            raise ZeroDivisionError("division by zero") from error

    return interpreted


def compiled_user_within(function: Callable) -> Any:
    """The same for a function with one caller, into which LLVM must inline it whatever its size."""
    return _compile(function, "python", "never", is_within=True) if JIT else compiled_user(function)


def compiled_user_bounded(function: Callable) -> Any:
    """The same for a function that indexes arrays of its own: an index out of bounds raises, as in Python."""
    return _compile(function, "python", "never", is_bounded=True) if JIT else compiled_user(function)


# ------------------------------------------------------------------ loading


def load_module(
    source: str, name_hint: str = "kernel", debug: bool = False, entry: str | tuple[str, ...] | None = None
) -> types.ModuleType:
    """Import a generated source so that its compiled code is found by every later process.

    The source decorates its functions with `compiled` or `compiled_user`,
    imported from here. Its line n is line n of the file, so that errors can be
    traced back.

    Parameters
    ----------
    source : str
        Python text. It must be the same, character for character, for the same
        operator: no addresses, no temporary names, no order of a set.
    name_hint : str
        Goes into the file's name, for readers of profiles and tracebacks.
    debug : bool
        Compile with bounds checks. It is another module with another name.
    entry : str or tuple of str, optional
        The function that Python calls, or the functions that are called by their addresses (`headrace.codegen.called`);
        the others become their parts (`headrace.codegen.parts`). Without it Python can call every function.

    Returns
    -------
    types.ModuleType
        The same object for the same text, within a process.

    Examples
    --------
    >>> text = '''
    ... from headrace.codegen.modules import compiled
    ... @compiled
    ... def double(x):
    ...     return 2 * x
    ... '''
    >>> load_module(text, "double").double(21)
    42
    """
    addressed = isinstance(entry, tuple)
    entry = (entry,) if isinstance(entry, str) else entry
    hint = re.sub(r"[^A-Za-z0-9]+", "_", name_hint).strip("_")[:32] or "kernel"
    name = f"op_{hint}_{source_identity(source, f'debug={debug} entry={entry} addressed={addressed}')}"
    with _lock:
        if name not in _loaded:
            _loaded[name] = _import(source, name, debug, entry, addressed)
        return _loaded[name]


def _import(source: str, name: str, debug: bool, entry: tuple[str, ...] | None, addressed: bool) -> types.ModuleType:
    path = _kept(name, source.encode("utf-8"))
    if path is None:
        # There is no file: tracebacks and Numba's messages read the source from `linecache`.
        origin = f"<headrace {name}>"
        linecache.cache[origin] = (len(source), None, source.splitlines(keepends=True), origin)
        spec = importlib.machinery.ModuleSpec(name, None, origin=origin)
    else:
        origin = str(path)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__[_DEBUG] = debug
    module.__dict__[_ENTRY] = entry
    module.__dict__[_ADDRESSED] = addressed
    # Numba's cache pickles types defined here by module name.
    sys.modules[name] = module
    try:
        # Not through the loader, which would trust a bytecode file instead of the source.
        exec(compile(source, origin, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


# Without this, a child forked while another thread compiles would inherit locks that nothing in it releases.


def _before_fork() -> None:
    _lock.acquire()
    global_compiler_lock.acquire()


def _after_fork() -> None:
    global_compiler_lock.release()
    _lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
