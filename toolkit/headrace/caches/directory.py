"""A private directory of the user for code that is executed from disk.

Anyone who can write there can run code as this user. So each directory belongs to
the user and is closed to everybody else (0700), and others cannot change any
directory above it: a user who may rename a parent may put another directory in its
place. ssh requires the same of ``~/.ssh``. A path that passes these checks cannot be
replaced between the check and its use.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import stat
import warnings

__all__ = ["CacheWarning", "cache_root", "check_private", "private_directory", "warn_once"]

_warned: set[str] = set()


class CacheWarning(RuntimeWarning):
    """Compiled code cannot be kept between runs; results do not change."""


def warn_once(topic: str, text: str) -> None:
    """Issue a `CacheWarning`, once per process and topic."""
    if topic not in _warned:
        _warned.add(topic)
        warnings.warn(text, CacheWarning, stacklevel=4)


def cache_root() -> pathlib.Path:
    """``$XDG_CACHE_HOME/headrace``, else ``~/.cache/headrace``; it may not exist yet.

    A relative ``XDG_CACHE_HOME`` is ignored, as its specification requires: it
    would depend on the working directory of the process.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = pathlib.Path(base) if os.path.isabs(base) else pathlib.Path("~/.cache").expanduser()
    return root / "headrace"


def private_directory(*names: str) -> pathlib.Path:
    """Create ``cache_root()/names[0]/...``, check who can write to it, and return it.

    Parameters
    ----------
    *names : str
        Names of directories, each inside the one before it.

    Returns
    -------
    pathlib.Path
        With mode 0700, as each directory from `cache_root` down to it.

    Raises
    ------
    PermissionError
        If somebody else owns one of these directories, could write to it, or
        could replace a directory above it. The text names the directory and
        the fix.
    OSError
        If it cannot be created.

    Examples
    --------
    >>> private_directory("modules").name
    'modules'
    """
    directory = cache_root()
    directory.parent.mkdir(parents=True, exist_ok=True)
    _check_ancestors(directory.parent)
    _make_private(directory)
    for name in names:
        directory /= name
        _make_private(directory)
    return directory


def check_private(directory: pathlib.Path) -> None:
    """Raise PermissionError, with the reason, unless only this user can change what `directory` holds.

    Nothing is created or changed; a directory that does not exist yet passes if it can be created safely.
    """
    _check_ancestors(directory.parent)
    if os.path.lexists(directory):
        _check_own(directory)


def _make_private(directory: pathlib.Path) -> None:
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    mode = _check_own(directory)
    if mode & 0o077:  # others may have read what is there, not changed it
        directory.chmod(0o700)


def _check_own(directory: pathlib.Path) -> int:
    status = os.lstat(directory)  # of a link itself: another user's link could lead elsewhere later
    if not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{directory} is not a directory; remove it")
    if status.st_uid != os.getuid():
        raise PermissionError(f"{directory} belongs to another user (uid {status.st_uid})")
    if _written_by_others(status):
        raise PermissionError(f"{directory} can be written by others; remove it with what it holds")
    return stat.S_IMODE(status.st_mode)


def _check_ancestors(directory: pathlib.Path) -> None:
    """Check the real directories from `directory` up to the root, with symbolic links resolved."""
    path = directory.resolve()
    for each in (path, *path.parents):
        try:
            status = os.lstat(each)
        except FileNotFoundError:
            continue
        if status.st_uid not in (0, os.getuid()):
            raise PermissionError(f"{each} belongs to another user (uid {status.st_uid})")
        # With the sticky bit, as on /tmp, others cannot rename or remove what they do not own.
        if _written_by_others(status) and not status.st_mode & stat.S_ISVTX:
            raise PermissionError(f"{each} can be written by others: chmod go-w {each}")


def _written_by_others(status: os.stat_result) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_private_group(status.st_gid)


def _is_private_group(gid: int) -> bool:
    """Whether the user is the only member of the group, as on systems where each user has a group of the same name."""
    if gid == 0:
        return True  # it is root's
    try:
        import grp
        import pwd

        user = pwd.getpwuid(os.getuid()).pw_name
        group = grp.getgrgid(gid)
    except (ImportError, KeyError):
        return False
    return group.gr_name == user and set(group.gr_mem) <= {user}
