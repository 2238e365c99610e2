"""Python environments for the peers, made on demand, and the Java compiler for Flink."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.caches import cache_root, check_private, private_directory
from headrace_bench.peers.contest import NotRun

OLDEST_JAVA = 17
INSTALL_S = 900.0


def cache_folder(make: bool = False) -> Path:
    """The folder of the environments: ``$XDG_CACHE_HOME/headrace/peers``, or below ``~/.cache``.

    Programs in it are executed, so only the user may be able to change it; see `headrace.caches`.

    Parameters
    ----------
    make : bool
        Whether to create the folder if it does not exist.

    Raises
    ------
    NotRun
        If other users can change its contents.
    """
    folder = cache_root() / "peers"
    try:
        if make:
            return private_directory("peers")
        check_private(folder)
    except PermissionError as error:
        raise NotRun(f"others could change its programs in {folder}: {error}") from None
    return folder


def environment(name: str, requirements: Sequence[str], may_install: bool) -> Path:
    """Return the Python of an environment that has these packages; create the environment if needed.

    Parameters
    ----------
    name : str
    requirements : sequence of str
        Exact versions; they are part of the folder's name, so another version gets another environment.
        Their dependencies are not installed.
    may_install : bool

    Raises
    ------
    NotRun
        If the environment does not exist and must not, or cannot, be created.
    """
    told = "-".join(re.sub(r"[^\w.]+", "-", each) for each in requirements)
    folder = cache_folder() / f"{name}-{told}"
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if ready.exists():
        return python
    if not may_install:
        raise NotRun(f"needs an environment with {', '.join(requirements)}; `headrace bench peers` makes it")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        cache_folder(make=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", *requirements])
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        shutil.rmtree(folder, ignore_errors=True)
        last = (str(error).strip().splitlines() or [""])[-1]
        raise NotRun(f"its environment could not be made: {last[:160]}") from error
    ready.touch()
    return python


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
    if done.returncode:
        raise RuntimeError(done.stderr or done.stdout or f"{command[0]} failed")


def find_javac() -> Path:
    """Find a Java compiler: in ``JAVA_HOME``, then on the PATH.

    Raises
    ------
    NotRun
        If there is no compiler of Java 17 or later.
    """
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "javac")] if home else []
    candidates += [found for found in [shutil.which("javac")] if found]
    for candidate in candidates:
        try:
            said = subprocess.run([candidate, "-version"], capture_output=True, text=True, timeout=60)
        except OSError:
            continue
        version = re.search(r"javac (\d+)", said.stdout + said.stderr)
        if version and int(version[1]) >= OLDEST_JAVA:
            return Path(candidate)
    raise NotRun(f"needs javac of Java {OLDEST_JAVA} or later: apt install openjdk-17-jdk-headless")
