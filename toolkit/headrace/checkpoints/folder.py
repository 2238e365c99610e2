"""The checkpoints of one run, in a folder of its own: each is complete or does not exist.

Order       W1 all is written to a hidden file, W2 that file is on disk (fsync), W3 it gets its name (rename), W4 the name is
            on disk (fsync of the folder), W5 surplus checkpoints are removed
                    a process that dies before W3 leaves the earlier checkpoints and a hidden file, which
                    the next one overwrites; after W3 there is one more checkpoint, which is whole by W2. The results that
                    a checkpoint refers to (`results_log`) are on disk before W1
Alone       One run writes into a folder: it holds a lock on it, which the system releases when the process ends.
Checked     tests/headrace/checkpoints
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import IO, Any

from headrace.checkpoints.file_format import Contents, pieces, read
from headrace.errors import CheckpointError, OutputError

KEPT = 2
"""The newest one, and the one before it."""
_PREFIX, _DIGITS = "checkpoint-", 8


class Folder:
    """The folder in which a run keeps its checkpoints.

    Parameters
    ----------
    path : path
        Created when something is written.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self._lock: int | None = None

    # -- reading

    def numbers(self) -> list[int]:
        """Numbers of the existing checkpoints, in rising order."""
        try:
            names = os.listdir(self.path)
        except OSError:
            return []
        found = [name[len(_PREFIX) :] for name in names if name.startswith(_PREFIX)]
        return sorted(int(digits) for digits in found if digits.isascii() and digits.isdecimal())

    def path_of(self, number: int) -> Path:
        """Return the file of a checkpoint."""
        return self.path / f"{_PREFIX}{number:0{_DIGITS}d}"

    @staticmethod
    def find(given: str | os.PathLike[str]) -> Path:
        """Return the file of a checkpoint: the file given, or the newest in the folder given.

        Raises
        ------
        CheckpointError
            There is none.
        """
        path, asked = Path(given), f"resume={os.fspath(given)!r}"
        if path.is_dir():
            folder = Folder(path)
            numbers = folder.numbers()
            if not numbers:
                raise CheckpointError(
                    f"{asked}: there is no checkpoint in this folder; give the one that a run had as checkpoint=,"
                    f" or start without resume to begin again"
                )
            return folder.path_of(numbers[-1])
        if not path.exists():
            raise CheckpointError(
                f"{asked}: there is no such folder or file; give the one that a run had as checkpoint=, which keeps the newest"
                f" {KEPT} checkpoints"
            )
        return path

    # -- writing

    def begin(self, goes_on: bool) -> None:
        """Create the folder, and lock it for this run.

        Parameters
        ----------
        goes_on : bool
            Existing checkpoints are this run's own.

        Raises
        ------
        OutputError
            The folder cannot be created or written, another run writes there, or it has checkpoints of another run.
        """
        said = f"checkpoint={str(self.path)!r}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Only with the lock: another run that holds it may be writing this file.
            with open(self._hidden, "wb"):  # only writing shows whether it may be written
                pass
            self._hidden.unlink()
        except BlockingIOError:
            self.end()
            raise OutputError(f"{said}: another run keeps its checkpoints there; stop it, or give another folder") from None
        except OSError as error:
            self.end()
            raise OutputError(f"{said} cannot be written ({error.strerror}); give a folder that is writable") from None
        if not goes_on and self.numbers():
            self.end()
            raise OutputError(
                f"{said}: there are checkpoints of another run; resume from them, remove the folder, or give another one"
            )

    def end(self) -> None:
        """Release the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, number: int, contents: Contents) -> Path:
        """Write a checkpoint; it is on disk when this returns.

        Raises
        ------
        OutputError
            The disk is full, for example; earlier checkpoints are kept.
        """
        target = self.path_of(number)
        try:
            with open(self._hidden, "wb") as file:
                self._fill(file, contents)  # W1
                self._flush(file)  # W2
            self._rename(self._hidden, target)  # W3
            self._flush_folder()  # W4
        except OSError as error:
            self._hidden.unlink(missing_ok=True)
            raise cannot_write(target, error) from error
        for old in self.numbers()[:-KEPT]:  # W5
            self.path_of(old).unlink(missing_ok=True)
        return target

    def forget_after(self, number: int) -> None:
        """Remove newer checkpoints, when a run goes on from an older one: the results they refer to will be overwritten."""
        for other in self.numbers():
            if other > number:
                self.path_of(other).unlink(missing_ok=True)
        self._flush_folder()

    @property
    def _hidden(self) -> Path:
        return self.path / f".{_PREFIX}part"

    # -- the steps: tests end the process between and in them

    def _fill(self, file: IO[bytes], contents: Contents) -> None:
        for piece in pieces(contents):
            file.write(piece)

    def _flush(self, file: Any) -> None:
        file.flush()
        os.fsync(file.fileno())

    def _rename(self, hidden: Path, target: Path) -> None:
        os.replace(hidden, target)

    def _flush_folder(self) -> None:
        assert self._lock is not None
        os.fsync(self._lock)


def cannot_write(path: Path, error: OSError) -> OutputError:
    """Return the error that a checkpoint, or results that belong to one, cannot be written."""
    fix = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else "restore the folder, or repair it"
    return OutputError(
        f"checkpoint {str(path)!r} cannot be written ({error.strerror or error}); {fix}, and resume from the one before it"
    )


def read_checkpoint(given: str | os.PathLike[str]) -> tuple[Path, Contents]:
    """Read a checkpoint: the file given, or the newest in the folder given."""
    path = Folder.find(given)
    return path, read(path)


__all__ = ["Folder", "cannot_write", "read_checkpoint"]
