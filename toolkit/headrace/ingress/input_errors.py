"""What is wrong with an input, in one line: what its source is called, and what Arrow or the file system said."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from headrace.errors import HeadraceError, InputError

_UNNAMED = re.compile(r"source (\d+ )?\(([\w ]+)\)")


def numbered(name: str, number: int) -> str:
    """Add a number to the name of an unnamed source; return any other name as it is.

    Examples
    --------
    >>> numbered("source (Table)", 2), numbered("trades.parquet", 2)
    ('source 2 (Table)', 'trades.parquet')
    """
    unnamed = _UNNAMED.fullmatch(name)
    return name if unnamed is None else f"source {number} ({unnamed[2]})"


def display_name(name: str) -> str:
    """Return the name of a source as error texts give it.

    Examples
    --------
    >>> display_name("trades.parquet"), display_name("source 1 (generator)")
    ("input 'trades.parquet'", 'source 1 (generator)')
    """
    return name if _UNNAMED.fullmatch(name) else f"input {name!r}"


def first_line(error: BaseException) -> str:
    """Return an error's text as one line, without the dots at its end."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(". ") if lines else type(error).__name__


def no_file_at(path: str | os.PathLike[str]) -> str:
    """Say what a path, with links followed, leads to if that exists and is not a file; else ""."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    kinds = {stat.S_IFREG: "", stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


@contextmanager
def translated_errors(name: str) -> Iterator[None]:
    """Turn exceptions of Arrow and the file system into an `InputError` of one line."""
    try:
        yield
    except (HeadraceError, GeneratorExit, MemoryError):
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            raise  # no fault of the file's
        if isinstance(error, FileNotFoundError) and name in str(error):  # otherwise the name is not a path
            raise InputError(f"{display_name(name)}: there is no such file; check the path") from error
        if isinstance(error, PermissionError):
            inner = f": {error.filename!r}" if error.filename not in (None, name) else ""  # a file of a folder
            raise InputError(f"{display_name(name)}{inner} may not be read by this user; check its permissions") from error
        is_file = not _UNNAMED.fullmatch(name)
        fix = "check the file or write it again" if is_file else "the producer of its rows failed: see this error's __cause__"
        raise InputError(f"{display_name(name)} cannot be read: {first_line(error)}; {fix}") from error


__all__ = ["display_name", "first_line", "no_file_at", "numbered", "translated_errors"]
