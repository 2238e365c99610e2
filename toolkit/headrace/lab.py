"""``headrace lab``: JupyterLab on the user's own copy of the notebooks.

It is a copy because running a notebook changes its file, and those of the checkout are under version control. The copy is
brought up to date at each start. A file that the user has changed (running a cell and saving is a change) is never
overwritten: a newer notebook of ours is put beside it, under a free name. A list in the copy records which version of each
file was given, and so tells the user's changes from ours.

``python -m headrace.lab`` is that JupyterLab, unchanged except that two kinds of messages are kept quiet (`be_quiet`).
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from headrace.egress.part_files import write_whole
from headrace.errors import OutputError

GIVEN = ".headrace-given.json"
"""In the copy: the hash of each file as it was given last."""
FIRST = "00_first_stream.ipynb"
"""What is shown to a first-time user; later JupyterLab shows what was open before."""


@dataclass
class Copied:
    """What was done with each file, by its name relative to the folder."""

    new: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    """Changed by the user, and newer here: the name under which the newer one was put beside it."""

    def describe(self) -> Iterator[str]:
        """Describe in lines what was done; no lines if nothing was."""
        if self.new:
            yield f"copied: {_names(self.new)}"
        if self.updated:
            yield f"updated (you had not changed them): {_names(self.updated)}"
        for name, beside in self.kept.items():
            yield f"{name}: you changed it, so yours stays; the newer version is beside it, in {beside}"


def main(folder: Path | None = None, here: bool = False, port: int | None = None, browser: bool = True) -> None:
    """Become JupyterLab, on loopback.

    Parameters
    ----------
    folder : Path, optional
        Where the copy is; by default ``headrace-notebooks`` in the home directory.
    here : bool
        Use the checkout's own notebooks, not a copy.
    port : int, optional
        Port on loopback; 0: any free one. By default, or if the port is taken, the next free one from 8888 on.
    browser : bool
        Whether to open a browser.

    Raises
    ------
    OutputError
        The copy cannot be written.
    """
    from headrace.loopback import become_jupyter

    source, options = shipped(), []
    if source is None or here:
        opened = source or users()
        print(f"JupyterLab on {opened}, for this machine only; the address below carries its token.", flush=True)
    else:
        opened = (folder or Path.home() / "headrace-notebooks").expanduser().absolute()
        if opened.resolve() == source.resolve():
            raise OutputError(f"--folder {str(folder)!r}: these are the checkout's own; open them with --here instead")
        done = copy(source, opened)
        print(f"JupyterLab on your own copy of the notebooks, {opened}")
        for line in done.describe():
            print(f"  {line}")
        if FIRST in done.new:
            options = [f"--LabApp.default_url=/lab/tree/{FIRST}"]
        print("For this machine only; the address below carries its token.", flush=True)
    if port is not None:
        options.append(f"--ServerApp.port={port}")
    if not browser:
        options.append("--no-browser")
    become_jupyter("headrace.lab", opened, options)


def be_quiet() -> None:
    """Keep messages from the terminal about which its reader can do nothing, and no others.

    Voila asks the server for its token by an old name, and has filters of its own for warnings; the extension for language
    servers lists those that are not installed, in a line of a kilobyte.
    """
    show = warnings.showwarning

    def show_others(message: Warning | str, *about: Any) -> None:
        if not str(message).startswith("ServerApp.token config is deprecated"):
            show(message, *about)

    warnings.showwarning = show_others
    logging.getLogger("ServerApp").addFilter(lambda record: not record.getMessage().startswith("Skipped non-installed server"))


def shipped() -> Path | None:
    """Find the notebooks of the checkout; None if headrace was installed from a wheel, which has none."""
    folder = Path(__file__).resolve().parents[2] / "notebooks"
    return folder if folder.is_dir() else None


def users() -> Path:
    """The folder to use if there are no notebooks of ours: ``notebooks`` in the working directory, else that directory."""
    own = Path("notebooks").absolute()
    return own if own.is_dir() else Path.cwd()


def copy(source: Path, target: Path) -> Copied:
    """Make or update the copy of a folder without losing what its user changed.

    Raises
    ------
    OutputError
        The copy cannot be read or written.
    """
    done = Copied()
    try:
        target.mkdir(parents=True, exist_ok=True)
        given = _given(target)
        for file in sorted(source.rglob("*")):
            name = file.relative_to(source)
            if file.is_file() and not any(part.startswith(".") for part in name.parts):
                _bring(file, target, name.as_posix(), given, done)
        _write(target / GIVEN, json.dumps(given, indent=1).encode())
    except OSError as error:
        raise OutputError(
            f"the copy of the notebooks, {str(target)!r}, cannot be written ({error.strerror}); name another folder"
            f" with --folder, or open the checkout's own with --here"
        ) from None
    return done


def _bring(file: Path, target: Path, name: str, given: dict[str, str], done: Copied) -> None:
    ours, place = file.read_bytes(), target / name
    newest = sha256(ours).hexdigest()
    theirs = sha256(place.read_bytes()).hexdigest() if place.exists() else None
    if theirs is None:
        done.new.append(name)
        _write(place, ours)
    elif theirs not in (newest, given.get(name)):
        if given.get(name) != newest:
            beside = _free(place)
            done.kept[name] = beside.name
            _write(beside, ours)
    elif theirs != newest:
        done.updated.append(name)
        _write(place, ours)
    given[name] = newest


def _given(target: Path) -> dict[str, str]:
    try:
        found = json.loads((target / GIVEN).read_text())
    except (FileNotFoundError, ValueError):
        return {}  # then every difference counts as a change by the user
    return found if isinstance(found, dict) else {}


def _free(place: Path) -> Path:
    """A free name beside the file."""
    number = 1
    while True:
        beside = place.with_name(f"{place.stem}.new{number if number > 1 else ''}{place.suffix}")
        if not beside.exists():
            return beside
        number += 1


def _write(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    write_whole(place, content)


def _names(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} files"


if __name__ == "__main__":
    from jupyterlab.labapp import main as jupyterlab

    be_quiet()
    jupyterlab()
