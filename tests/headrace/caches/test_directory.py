"""A directory whose content is executed is the user's alone, and so is the way to it.

Method      Real directories, modes and links; another user is made by telling
            the check that we are somebody else, or by giving a directory away
            where the tests run as root.
Cannot see  File systems whose owners and modes mean nothing.
"""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys
import uuid

import pytest

from headrace.caches import cache_root, check_private, machine_code, private_directory

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may give a directory away")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "base" / "cache"))
    return tmp_path / "base" / "cache"


def mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_example_made_for_this_user_alone(cache):
    made = private_directory("a", "b")
    assert made == cache / "headrace" / "a" / "b"
    assert [mode(each) for each in (made, made.parent, made.parent.parent)] == [0o700] * 3
    assert private_directory("a", "b") == made


def test_example_relative_base_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert cache_root() == tmp_path / ".cache" / "headrace"


def test_example_readable_directory_is_closed(cache):
    (cache / "headrace").mkdir(parents=True)
    (cache / "headrace").chmod(0o755)
    private_directory("a")
    assert mode(cache / "headrace") == 0o700


@pytest.mark.parametrize("at", ["headrace", "headrace/a"])
def test_example_directory_others_could_write_to_is_refused(cache, at):
    """What lies in it may be theirs already: closing it now would be too late."""
    (cache / at).mkdir(parents=True)
    (cache / at).chmod(0o777)
    with pytest.raises(PermissionError, match="can be written by others; remove it"):
        private_directory("a")


def test_example_parent_others_could_write_to_is_refused(cache):
    cache.mkdir(parents=True)
    cache.parent.chmod(0o777)
    with pytest.raises(PermissionError, match=f"chmod go-w {cache.parent}"):
        private_directory("a")
    with pytest.raises(PermissionError, match="can be written by others"):
        check_private(cache / "headrace")
    cache.parent.chmod(0o1777)  # as /tmp: others cannot rename what is ours
    assert private_directory("a").is_dir()


def test_example_linked_directory_is_refused(cache, tmp_path):
    cache.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (cache / "headrace").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="not a directory"):
        private_directory("a")


def test_example_link_above_is_followed_and_checked(tmp_path, monkeypatch):
    """~/.cache may lead to another disk; what counts is who can change the place it leads to."""
    (tmp_path / "disk" / "cache").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    assert private_directory("a").is_dir()
    (tmp_path / "disk").chmod(0o777)
    with pytest.raises(PermissionError, match="disk can be written by others"):
        private_directory("a")


def test_example_another_users_directory_is_refused(cache, monkeypatch):
    private_directory("a")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="belongs to another user"):
        private_directory("a")


@as_root
def test_example_parent_of_another_user_is_refused(cache):
    cache.mkdir(parents=True)
    os.chown(cache.parent, 12345, 12345)
    with pytest.raises(PermissionError, match=r"base belongs to another user \(uid 12345\)"):
        private_directory("a")


def test_example_what_is_kept_is_written_through_no_link(tmp_path, monkeypatch):
    """The name of a file that is not complete yet cannot be guessed; where it is there all the same, it is not written to."""
    names = iter([uuid.UUID(int=1), uuid.UUID(int=2)])
    monkeypatch.setattr(machine_code.uuid, "uuid4", lambda: next(names))
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / f".kept.{uuid.UUID(int=1).hex}").symlink_to(tmp_path / "theirs")
    with pytest.raises(FileExistsError):
        machine_code.write_whole(tmp_path / "kept", b"ours")
    assert (tmp_path / "theirs").read_text() == "theirs" and not (tmp_path / "kept").exists()
    machine_code.write_whole(tmp_path / "kept", b"ours")
    assert (tmp_path / "kept").read_bytes() == b"ours" and mode(tmp_path / "kept") == 0o600


PLANTED = """
import pickle, sys
class Bomb:
    def __reduce__(self):
        return (print, ("EXECUTED",))
print(pickle.dumps(Bomb()).hex())
"""

QUERY = """
import pyarrow as pa, headrace as hr
t = pa.table({"ts": [0, 1], "k": [1, 2]})
print(hr.stream(t, event_time="ts").key_by("k").window(size=2).aggregate(n=hr.count()).to_arrow(threads=1).num_rows)
"""


@pytest.mark.slow
def test_example_code_planted_for_numbas_own_cache_is_never_read(tmp_path):
    """Numba reads ``NUMBA_CACHE_DIR`` unchecked; a query must read nothing there, and write nothing."""
    bomb = bytes.fromhex(subprocess.run([sys.executable, "-c", PLANTED], capture_output=True, text=True).stdout)
    shared = tmp_path / "shared"
    shared.mkdir()
    environment = os.environ | {"NUMBA_CACHE_DIR": str(shared), "NUMBA_DEBUG_CACHE": "1"}
    first = subprocess.run([sys.executable, "-c", QUERY], capture_output=True, text=True, env=environment, timeout=300)
    assert first.stdout.splitlines()[-1] == "2", first.stderr
    for path in shared.rglob("*"):
        if path.is_file():
            path.write_bytes(bomb)
    second = subprocess.run([sys.executable, "-c", QUERY], capture_output=True, text=True, env=environment, timeout=300)
    assert "EXECUTED" not in second.stdout
    assert not list(shared.rglob("*")), "something of ours was kept where others may write"
