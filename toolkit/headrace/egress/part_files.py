"""A file that appears under its name only when it is complete: until then it is a hidden one beside it.

State       ``.NAME.<32 hex digits>.part``, NAME being the target's; its writer keeps it locked (`flock`) until it has its
            name or is removed
Orphans     The system frees the locks of a process that ends, also of one that is killed. So a hidden file of the same
            target that can be locked has no writer, and whoever writes the target next removes it.
Races       Between making a file and locking it another writer may take it for an orphan. Then the lock is not to be had,
            or the file has no name any more once it is locked: the writer makes another file under another name. What is
            renamed while somebody looks at it is not found under its hidden name, which no file has twice.
Cannot see  writers of other machines, where a shared file system keeps locks to each of them
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import uuid
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

_unfinished: set[Path] = set()
"""Hidden files of this process that exist, or are about to."""


def remove_unfinished() -> None:
    """Remove incomplete files: for a process that is about to end, whatever its threads do."""
    for path in list(_unfinished):
        path.unlink(missing_ok=True)


class PartFile:
    """A hidden file beside the file that a path leads to, following links.

    Attributes
    ----------
    target : Path
        The file that it becomes.
    path : Path or None
        The hidden file, while there is one.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.target = Path(os.path.realpath(path))
        self.path: Path | None = None
        self._locked: int | None = None

    def create(self) -> None:
        """Create the hidden file, and remove those that no living process writes; raises OSError if it cannot be written."""
        _remove_orphans(self.target)
        while self.path is None:
            path = self.target.with_name(f".{self.target.name}.{uuid.uuid4().hex}.part")
            _unfinished.add(path)
            try:
                # Others who may write to the directory could have put a link there: it is not followed.
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except OSError:
                _unfinished.discard(path)
                raise
            if _is_kept(descriptor):
                self.path, self._locked = path, descriptor
            else:
                path.unlink(missing_ok=True)
                _unfinished.discard(path)
                os.close(descriptor)

    def open(self) -> BinaryIO:
        """Open the hidden file for writing; closing it leaves it locked."""
        assert self._locked is not None, "it is created first"
        return os.fdopen(os.dup(self._locked), "wb")

    def publish(self) -> None:
        """Give the complete file its name."""
        assert self.path is not None, "it is created first"
        os.replace(self.path, self.target)
        self._end()

    def remove(self) -> None:
        """Remove the hidden file, if there is one."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        self._end()

    def _end(self) -> None:
        if self.path is not None:
            _unfinished.discard(self.path)
        if self._locked is not None:
            os.close(self._locked)
        self.path = self._locked = None


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write text or bytes into a file at once: what was there stays until all is written; raises OSError if it cannot be.

    Where no regular file is (a pipe, a terminal), the content is written to what is there.
    """
    target, content = Path(path), content.encode() if isinstance(content, str) else content
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    part = PartFile(path)
    try:
        part.create()
        with part.open() as file:
            file.write(content)
        part.publish()
    finally:
        part.remove()


def _is_kept(descriptor: int) -> bool:
    """Lock a file that was just made; returns whether it is still there, and nobody else's to remove."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: nobody can lock the file to remove it, either
        return True
    return os.fstat(descriptor).st_nlink > 0


def _remove_orphans(target: Path) -> None:
    """Remove hidden files of a target whose writers have died. What cannot be listed, opened or removed stays."""
    is_ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{32}}\.part").fullmatch
    with suppress(OSError), os.scandir(target.parent) as entries:
        found = [entry.path for entry in entries if is_ours(entry.name)]
        for path in found:
            with suppress(OSError):
                _remove_if_orphan(path)


def _remove_if_orphan(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    finally:
        os.close(descriptor)
