"""The checkpoints of one run, in a folder of its own: each is there wholly, or not at all.

Order       W1 all is written to a hidden file, W2 that file is on disk (fsync), W3 it gets its name (rename), W4 the name is
            on disk (fsync of the folder), W5 checkpoints that are too many go
                    a process that dies before W3 leaves the checkpoints that were there before, and a hidden file that
                    the next one writes over; after W3 there is one more, which is whole by W2. What a checkpoint refers to
                    (`results_log`) is on disk before W1
Alone       One run writes into a folder: it holds a lock on it, which the system takes back when the process ends.
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
    """Where a run keeps its checkpoints.

    Parameters
    ----------
    path : path
        Made when something is written.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self._lock: int | None = None

    # -- reading

    def numbers(self) -> list[int]:
        """Numbers of the checkpoints that are there, rising."""
        try:
            names = os.listdir(self.path)
        except OSError:
            return []
        found = [name[len(_PREFIX) :] for name in names if name.startswith(_PREFIX)]
        return sorted(int(digits) for digits in found if digits.isascii() and digits.isdecimal())

    def path_of(self, number: int) -> Path:
        """The file of a checkpoint."""
        return self.path / f"{_PREFIX}{number:0{_DIGITS}d}"

    @staticmethod
    def find(given: str | os.PathLike[str]) -> Path:
        """Return the file of a checkpoint: the one that was named, or the newest of a folder.

        Raises
        ------
        CheckpointError
            There is none.
        """
        path = Path(given)
        if path.is_dir():
            folder = Folder(path)
            numbers = folder.numbers()
            if not numbers:
                raise CheckpointError(
                    f"resume={str(given)!r}: there is no checkpoint in this folder; give the one that a run had as checkpoint=,"
                    f" or start without resume to begin again"
                )
            return folder.path_of(numbers[-1])
        if not path.exists():
            raise CheckpointError(
                f"resume={str(given)!r}: there is no such folder or file; give the one that a run had as checkpoint="
            )
        return path

    # -- writing

    def begin(self, goes_on: bool) -> None:
        """Make the folder, and have it for this run alone.

        Parameters
        ----------
        goes_on : bool
            Checkpoints that are there are this run's own.

        Raises
        ------
        OutputError
            It cannot be made or written, another run writes there, or there are checkpoints of another run.
        """
        said = f"checkpoint={str(self.path)!r}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Behind the lock: a run that has it may be writing this file.
            with open(self._hidden, "wb"):  # whether it may be written is known by writing
                pass
            self._hidden.unlink()
        except BlockingIOError:
            self.end()
            raise OutputError(f"{said}: another run keeps its checkpoints there; stop it, or give another folder") from None
        except OSError as error:
            self.end()
            raise OutputError(f"{said} cannot be written ({error.strerror}); give a folder that may be") from None
        if not goes_on and self.numbers():
            self.end()
            raise OutputError(
                f"{said}: there are checkpoints of another run; resume from them, remove the folder, or give another one"
            )

    def end(self) -> None:
        """Give the folder back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, number: int, contents: Contents) -> Path:
        """Write a checkpoint; it is on disk when this returns.

        Raises
        ------
        OutputError
            The disk is full, say; the checkpoints that were there before still are.
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
        """Remove checkpoints that are newer: a run goes on from an older one, and what they refer to will be written over."""
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
    """Say that a checkpoint, or results that belong to one, cannot be written."""
    fix = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else "give the folder back, or mend it"
    return OutputError(
        f"checkpoint {str(path)!r} cannot be written ({error.strerror or error}); {fix}, and resume from the one before it"
    )


def read_checkpoint(given: str | os.PathLike[str]) -> tuple[Path, Contents]:
    """Read a checkpoint: that file, or the newest of a folder."""
    path = Folder.find(given)
    return path, read(path)


__all__ = ["Folder", "cannot_write", "read_checkpoint"]
