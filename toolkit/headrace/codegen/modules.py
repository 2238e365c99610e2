"""Generated source modules, named by their content, compiled once per machine.

Numba's cache never hits for a closure over another compiled function, because
its key contains the pickled cell (0.79 s per operator and process). It does hit
for a function in a source file (0.008 s). So an operator's kernel is written to
a file whose name is the hash of everything its machine code depends on: the
source, the modules of headrace it imports, the versions of Python, NumPy, Numba
and llvmlite, the processor, and whether bounds are checked. A file never
changes its meaning, and nothing has to be invalidated.

The directory is the user's alone (0700): Numba's cache files are pickles and
machine code, hence as trusted as this program. The text that is executed is
always the text that was asked for, never what lies on disk; the compiled code
carries a checksum. A cache that is unwritable, damaged or someone else's costs
one warning and the time to compile.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import linecache
import os
import pathlib
import pickle
import re
import stat
import sys
import sysconfig
import threading
import types
import uuid
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import llvmlite
import llvmlite.binding
import numba
import numpy
from numba import njit
from numba.core import config
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
)
from numba.core.compiler_lock import global_compiler_lock

from headrace.codegen import parts
from headrace.kernel import JIT

__all__ = ["cache_directory", "compiled", "compiled_user", "load_module"]

_MODULES_KEPT = 1000
"""Generated modules kept in the cache directory; the least recently used go."""

_DEBUG = "__headrace_debug__"
_CACHED = "__headrace_cached__"
_ENTRY = "__headrace_entry__"

_lock = threading.RLock()
_loaded: dict[str, types.ModuleType] = {}
_warned: set[str] = set()


class CacheWarning(RuntimeWarning):
    """The cache of compiled operators cannot be used; results do not change."""


def _warn_once(topic: str, text: str) -> None:
    if topic not in _warned:
        _warned.add(topic)
        warnings.warn(text, CacheWarning, stacklevel=4)


# ---------------------------------------------------------------- directory


def cache_directory() -> pathlib.Path:
    """The directory of generated modules: ``$XDG_CACHE_HOME/headrace/modules``.

    Returns
    -------
    pathlib.Path
        It may not exist yet; `load_module` creates it with mode 0700.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = pathlib.Path(base) if os.path.isabs(base) else pathlib.Path("~/.cache").expanduser()
    return root / "headrace" / "modules"


def _private(directory: pathlib.Path) -> None:
    """Create `directory` for this user alone, or raise PermissionError."""
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700, parents=True)
    # lstat: whoever may write the parent could have planted a link.
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{directory} is not a directory")
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        raise PermissionError(f"{directory} belongs to another user (uid {status.st_uid})")
    if status.st_mode & 0o077:
        directory.chmod(0o700)


def _prepare_directory() -> pathlib.Path | None:
    directory = cache_directory()
    try:
        for each in (directory.parent, directory, directory / "__pycache__"):
            _private(each)
    except (OSError, RuntimeError) as error:
        _warn_once(
            "directory",
            f"compiled operators are not kept between runs, because {error}. Set XDG_CACHE_HOME to a "
            f"directory of your own; until then each run compiles again.",
        )
        return None
    return directory


def _prune(directory: pathlib.Path) -> None:
    """Delete the least recently used modules above `_MODULES_KEPT`."""
    files = sorted(directory.glob("op_*.py"), key=lambda path: path.stat().st_mtime)
    for path in files[: max(0, len(files) - _MODULES_KEPT)]:
        for compiled_file in (directory / "__pycache__").glob(path.stem + ".*"):
            compiled_file.unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def _write(path: pathlib.Path, text: bytes) -> None:
    """Make `path` hold `text`; whoever reads it meanwhile sees all or nothing."""
    try:
        if path.read_bytes() == text:
            os.utime(path)
            return
    except FileNotFoundError:
        _prune(path.parent)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


# ----------------------------------------------------------------- identity


def _package_version() -> str:
    try:
        return importlib.metadata.version("headrace")
    except importlib.metadata.PackageNotFoundError:
        return "source"


@functools.cache
def _platform_identity() -> str:
    """What machine code depends on besides its source."""
    return "\n".join(
        (
            "1",  # raise it when the meaning of a generated source changes
            _package_version(),
            sys.version,
            sysconfig.get_config_var("SOABI") or "",
            numpy.__version__,
            numba.__version__,
            llvmlite.__version__,
            str(config.CPU_NAME or llvmlite.binding.get_host_cpu_name()),
            str(config.CPU_FEATURES or llvmlite.binding.get_host_cpu_features().flatten()),
            f"jit={JIT} bounds={config.BOUNDSCHECK} opt={config.OPT}",
            f"vectorize={config.LOOP_VECTORIZE},{config.SLP_VECTORIZE}",
        )
    )


def _imports(source: str, package: str) -> set[str]:
    """Names of the headrace modules that `source` imports where kernels can see them: at its top level."""
    found = set()
    waiting: list[ast.stmt] = list(ast.parse(source).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.If, ast.Try)):
            waiting += [*node.body, *node.orelse]
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = importlib.util.resolve_name("." * node.level + base, package)
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return {name for name in found if name.split(".")[0] == "headrace"}


@functools.cache
def _module_identity(name: str) -> tuple[str, frozenset[str]]:
    """Hash of a headrace module's text, and the headrace modules it imports."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, AttributeError, ValueError):
        spec = None  # a name imported from a module, not a module
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return "", frozenset()
    text = pathlib.Path(spec.origin).read_text(encoding="utf-8")
    package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    return hashlib.sha256(text.encode()).hexdigest(), frozenset(_imports(text, package))


@functools.lru_cache(maxsize=256)
def _identity(source: str, debug: bool, entry: str | None = None) -> str:
    """The content hash. A changed kernel of ours must reach its callers' machine code,
    which Numba's own cache does not notice, so what is imported is part of it."""
    digest = hashlib.sha256()
    digest.update(_platform_identity().encode())
    digest.update(f"\ndebug={debug} entry={entry}\n".encode())
    digest.update(source.encode())
    reached: set[str] = set()
    waiting = _imports(source, "")
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting |= _module_identity(name)[1]
    for name in sorted(reached):
        digest.update(f"\n{name} {_module_identity(name)[0]}".encode())
    return digest.hexdigest()


# ----------------------------------------------------------- compiled code


class _Locator(InTreeCacheLocator):
    """Compiled code lies beside the module, whatever NUMBA_CACHE_DIR says:
    that may be a shared directory, and code read from it is executed."""


class _CacheFormat(CompileResultCacheImpl):
    _locator_classes: ClassVar[list] = [_Locator]


class _CheckedFile(IndexDataCacheFile):
    """Data files with a checksum in front: machine code with a flipped bit crashes."""

    def _save_data(self, name, data):
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(content).digest())
            file.write(content)

    def _load_data(self, name):
        content = pathlib.Path(self._data_path(name)).read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            raise ValueError(f"{name} is damaged")
        # Written by this user's own process into a directory only this user can write.
        return pickle.loads(content[32:])


class _ModuleCache(FunctionCache):
    """Numba's function cache, for which a bad file is a miss and not an error."""

    _impl_class = _CacheFormat

    def __init__(self, py_func):
        super().__init__(py_func)
        self._cache_file = _CheckedFile(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=self._impl.locator.get_source_stamp(),
        )

    def load_overload(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # unpickling damaged bytes raises anything
            _warn_once(
                "damaged",
                f"a compiled operator in {self.cache_path} cannot be read ({type(error).__name__}: {error}); "
                f"compiling it again.",
            )
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except Exception as error:  # the index may be damaged, the disk full
            _warn_once(
                "unwritable",
                f"a compiled operator cannot be kept in {self.cache_path} "
                f"({type(error).__name__}: {error}); each run compiles it again.",
            )


def _compile(function: Callable, error_model: str, inline: str) -> Callable:
    if not JIT:
        return function
    namespace = function.__globals__
    entry = namespace.get(_ENTRY)
    is_part = entry not in (None, function.__name__)
    dispatcher = njit(
        nogil=True,
        error_model=error_model,
        inline=inline,
        boundscheck=bool(namespace.get(_DEBUG, False)),
        **({} if entry is None else parts.PART if is_part else parts.ENTRY),
    )(function)
    if namespace.get(_CACHED, False) and not is_part:
        try:
            dispatcher._cache = _ModuleCache(function)
        except Exception as error:  # the file may have been deleted just now
            _warn_once("unwritable", f"compiled operators are not kept between runs: {error}")
    return dispatcher


def compiled(function: Callable | None = None, *, inline: str = "never") -> Any:
    """Decorator of our kernels in a generated source.

    Divisions follow NumPy (no check); bounds are checked only in the debug
    variant of the module.

    Parameters
    ----------
    function : callable
    inline : {"never", "always"}
        Numba's inlining. LLVM inlines small functions either way.
    """
    if function is None:
        return functools.partial(compiled, inline=inline)
    return _compile(function, "numpy", inline)


def compiled_user(function: Callable) -> Any:
    """Decorator of user functions in a generated source: dividing by zero raises, as in Python."""
    if JIT:
        return _compile(function, "python", "never")

    @functools.wraps(function)
    def interpreted(*arguments):
        # Numbers from arrays are NumPy's, which would only warn.
        try:
            with numpy.errstate(divide="raise"):
                return function(*arguments)
        except FloatingPointError as error:
            raise ZeroDivisionError("division by zero") from error

    return interpreted


# ------------------------------------------------------------------ loading


def load_module(
    source: str, name_hint: str = "kernel", debug: bool = False, entry: str | None = None
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
    entry : str, optional
        The only function that Python calls: the others become its parts, see
        `headrace.codegen.parts`. Without it every function can be called.

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
    hint = re.sub(r"[^A-Za-z0-9]+", "_", name_hint).strip("_")[:32] or "kernel"
    name = f"op_{hint}_{_identity(source, debug, entry)}"
    with _lock:
        if name not in _loaded:
            _loaded[name] = _import(source, name, debug, entry)
        return _loaded[name]


def _import(source: str, name: str, debug: bool, entry: str | None) -> types.ModuleType:
    directory = _prepare_directory()
    path = None
    if directory is not None:
        path = directory / f"{name}.py"
        try:
            _write(path, source.encode("utf-8"))
        except OSError as error:
            _warn_once("unwritable", f"compiled operators cannot be kept in {directory}: {error}")
            path = None
    if path is None:
        # Not a file: tracebacks and Numba's messages read it from here.
        origin = f"<headrace {name}>"
        linecache.cache[origin] = (len(source), None, source.splitlines(keepends=True), origin)
        spec = importlib.machinery.ModuleSpec(name, None, origin=origin)
    else:
        origin = str(path)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__[_DEBUG] = debug
    module.__dict__[_CACHED] = path is not None
    module.__dict__[_ENTRY] = entry
    # Numba's cache pickles types defined here by module name.
    sys.modules[name] = module
    try:
        # Not through the loader: it would take the bytecode file's word for the source.
        exec(compile(source, origin, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


# A child forked while another thread compiles would find the locks held by a thread it does not have.


def _before_fork() -> None:
    _lock.acquire()
    global_compiler_lock.acquire()


def _after_fork() -> None:
    global_compiler_lock.release()
    _lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
