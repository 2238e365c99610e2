"""Compiled functions kept on disk: a file for each function, signature and identity.

A file is named by a hash of everything its machine code was made from, so it
never goes stale, two processes never write different content under one name,
and nothing has to be invalidated. It starts with a checksum, because machine
code with a flipped bit crashes, and holds its signature in full. A directory
that is unwritable, damaged or open to others costs one warning and the time to
compile; it never shows in results.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import pathlib
import pickle
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

from numba import types
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult, compile_result
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature

from headrace.caches.directory import private_directory, warn_once
from headrace.caches.identity import function_identity
from headrace.linkable import LinkableLibrary

__all__ = ["KernelCache", "MachineCodeCache", "prune_sometimes", "write_whole"]

_DIRECTORY = "machine-code"
_FILES_KEPT = 16_000
"""Machine code kept, about 40 kB each; what was used least recently goes. One round of the project's own tests makes 4,100:
where fewer are kept than a round of work needs, the next round finds none of them."""
_SAVES = 64
"""Files saved by a process, from one look at how many there are to the next."""


class MachineCodeCache(_Cache):
    """The cache that Numba asks before it compiles a function, and to which it gives what it has compiled.

    Parameters
    ----------
    function : callable
        The Python function.
    name : str
        Readable part of its files' names.
    identify : callable
        Returns the identity, a hash, or None if the code cannot be kept; called when code is first needed.
    """

    def __init__(self, function: Callable, name: str, identify: Callable[[], str | None]):
        self._function, self._name, self._identify = function, name, identify
        self._enabled = True
        self._place: tuple[pathlib.Path, str] | None = None

    @property
    def cache_path(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]: Numba gives no type
        place = self._where()
        return "" if place is None else str(place[0])

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        """Remove what is kept for this function."""
        place = self._where()
        if place is not None:
            for path in place[0].glob(f"{place[1]}.*"):
                path.unlink(missing_ok=True)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        path = self._path(sig, target_context.codegen())
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._damaged(path, error)
        try:
            if hashlib.sha256(content[32:]).digest() != content[:32]:
                raise ValueError("its checksum is wrong")
            # Written by this user's own process into a directory that only this user can write to.
            kept_sig, payload = pickle.loads(content[32:])
            if kept_sig != sig:
                return None
            target_context.refresh()
            loaded = _rebuilt(target_context, *payload)
        except Exception as error:  # unpickling damaged bytes raises anything
            return self._damaged(path, error)
        with contextlib.suppress(OSError):
            os.utime(path)
        return loaded

    def save_overload(self, sig: Any, data: Any) -> None:
        path = self._path(sig, data.codegen)
        if path is None or data.lifted or data.library.has_dynamic_globals:
            return
        try:
            content = dumps((sig, data._reduce()))
            prune_sometimes(path.parent, "*.nbc", _FILES_KEPT)
            write_whole(path, hashlib.sha256(content).digest() + content)
        except Exception as error:  # the disk may be full, a type not picklable
            warn_once(
                "unwritable",
                f"compiled code cannot be kept in {path.parent} ({type(error).__name__}: {error}); "
                f"each run compiles it again.",
            )

    def _damaged(self, path: pathlib.Path, error: Exception) -> None:
        warn_once(
            "damaged",
            f"compiled code in {path} cannot be read ({type(error).__name__}: {error}); compiling it again.",
        )
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)

    def _path(self, sig: Any, codegen: Any) -> pathlib.Path | None:
        place = self._where() if self._enabled else None
        if place is None:
            return None
        directory, stem = place
        arguments, _ = normalize_signature(sig)
        key = repr((tuple(_spelled(each) for each in arguments), codegen.magic_tuple()))
        return directory / f"{stem}.{hashlib.sha256(key.encode()).hexdigest()[:24]}.nbc"

    def _where(self) -> tuple[pathlib.Path, str] | None:
        if self._place is None and self._enabled:
            try:
                identity = self._identify()
                if identity is not None:
                    self._place = private_directory(_DIRECTORY), f"{self._name[:80]}-{identity[:40]}"
            except (OSError, RuntimeError) as error:
                warn_once(
                    "directory",
                    f"compiled code is not kept between runs, because {error}. Set XDG_CACHE_HOME to a "
                    f"directory of your own; until then each run compiles again.",
                )
            self._enabled = self._place is not None
        return self._place


class KernelCache(MachineCodeCache):
    """The cache of a function in a source file: of the code that Python calls, or of that linked into its callers."""

    def __init__(self, function: Callable, is_linked: bool = False):
        name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        super().__init__(function, f"linked.{name}" if is_linked else name, lambda: function_identity(function))


def _rebuilt(context: Any, library: tuple[str, str, Any], *rest: Any) -> Any:
    """Rebuild Numba's compile result from the parts that were kept."""
    name, kind, content = library
    if kind != "linkable":
        return CompileResult._rebuild(context, library, *rest)
    description, environment, signature, objectmode, lifted, annotation, reload_init, environments = rest
    linkable = LinkableLibrary.from_bitcode(context.codegen(), name, content)
    return compile_result(
        target_context=context,
        typing_context=context.typing_context,
        library=linkable,
        environment=environment,
        entry_point=context.get_executable(linkable, description, environment),
        fndesc=description,
        type_annotation=annotation,
        signature=signature,
        objectmode=objectmode,
        lifted=lifted,
        reload_init=reload_init,
        referenced_envs=environments,
    )


def _spelled(type_: types.Type) -> str:
    """Spell a type so that different layouts are spelled differently: named tuples with their fields."""
    if isinstance(type_, types.BaseNamedTuple):
        fields = ", ".join(
            f"{name}: {_spelled(each)}" for name, each in zip(type_.fields, type_.types, strict=True)
        )
        return f"{type_.instance_class.__module__}.{type_.instance_class.__qualname__}({fields})"
    if isinstance(type_, types.BaseTuple):
        return f"({', '.join(_spelled(each) for each in type_.types)})"
    return str(type_)


def write_whole(path: pathlib.Path, content: bytes) -> None:
    """Make `path` hold `content`; concurrent readers see all or nothing."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


_saved: Counter[str] = Counter()


def prune_sometimes(directory: pathlib.Path, pattern: str, kept: int) -> None:
    """Delete the least recently used files above `kept`, in one of many calls; another process may be doing the same."""
    _saved[pattern] += 1
    if (_saved[pattern] - 1) % _SAVES:
        return
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if fnmatch.fnmatchcase(entry.name, pattern):
                with contextlib.suppress(FileNotFoundError):
                    found.append((entry.stat().st_mtime_ns, entry.path))
    for _, path in sorted(found)[: max(0, len(found) - kept)]:
        pathlib.Path(path).unlink(missing_ok=True)
