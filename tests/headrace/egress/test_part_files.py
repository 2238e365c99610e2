"""Hidden files that become outputs: what a killed process leaves is removed by the next, what a living one writes is not.

Property    a file that some process still writes stays; one that none writes is gone when its target is written next
Method      processes that are killed; the two steps of making a file, with somebody looking for orphans between them
Cannot see  file systems without locks, and those of other machines
"""

import os
import signal
import subprocess
import sys
import uuid

import pytest

import headrace as hr
from headrace.egress import part_files
from headrace.errors import OutputError
from support.command_line import ENVIRONMENT

WRITER = """
import sys
import pyarrow as pa
import headrace as hr

sink = hr.parquet(sys.argv[1])
sink.open(pa.schema([("x", pa.int64())]))
print("open", flush=True)
sys.stdin.read()
"""


class Writer:
    """A process that has begun to write a file."""

    def __init__(self, path):
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], env=ENVIRONMENT, stdin=pipe, stdout=pipe, text=True
        )
        assert self._process.stdout.readline() == "open\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=180)


def hidden(folder):
    return {name for name in os.listdir(folder) if name.endswith(".part")}


def write(path):
    """Write a file, as a run does."""
    part = part_files.PartFile(path)
    part.create()
    with part.open() as file:
        file.write(b"whole")
    part.publish()


@pytest.mark.slow
def test_property_only_what_nobody_writes_is_removed(tmp_path):
    out = tmp_path / "out.parquet"
    with Writer(out) as first:
        (ours,) = hidden(tmp_path)
        with Writer(out) as second:
            theirs = hidden(tmp_path) - {ours}
            write(out)
            assert hidden(tmp_path) == {ours, *theirs} and len(theirs) == 1, "both are alive"
            first.kill()
            assert hidden(tmp_path) == {ours, *theirs}
            write(tmp_path / "out.parquet.2")
            write(tmp_path / "parquet")
            assert hidden(tmp_path) == {ours, *theirs}, "files of other names"
            write(out)
            assert hidden(tmp_path) == theirs
            second.kill()
    hr.parquet(out).check()
    assert hidden(tmp_path) == set()
    assert out.read_bytes() == b"whole"


def test_property_a_file_is_kept_until_it_has_its_name(tmp_path):
    """Closing it, long before, does not give it away."""
    part = part_files.PartFile(tmp_path / "out")
    part.create()
    part.open().close()
    for _ in range(2):
        other = part_files.PartFile(tmp_path / "out")
        other.create()
        assert hidden(tmp_path) == {part.path.name, other.path.name}
        other.remove()
    part.publish()
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "about to be removed"])
def test_interleave_an_orphan_that_is_none(tmp_path, monkeypatch, is_removed):
    """Another process takes a file that was made, and is not locked yet, for an orphan."""
    kept, taken = part_files._is_kept, []

    def seen_by_another(descriptor):
        if not taken:
            (name,) = hidden(tmp_path)
            taken.append(name)
            if is_removed:
                part_files._remove_orphans(tmp_path / "out")
            else:
                taken.append(os.open(tmp_path / name, os.O_RDONLY))
                part_files.fcntl.flock(taken[1], part_files.fcntl.LOCK_EX)
        return kept(descriptor)

    monkeypatch.setattr(part_files, "_is_kept", seen_by_another)
    part = part_files.PartFile(tmp_path / "out")
    part.create()
    assert part.path.name not in taken
    assert hidden(tmp_path) == {part.path.name} and part_files._unfinished >= {part.path}
    part.remove()
    assert os.listdir(tmp_path) == [] and part.path is None
    for descriptor in taken[1:]:
        os.close(descriptor)


def test_example_what_is_no_file_of_ours_stays(tmp_path):
    """A link, a folder, a pipe and a file with a name of another kind."""
    names = [f".out.{uuid.uuid4().hex}.part" for _ in range(3)]
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / names[0]).symlink_to(tmp_path / "theirs")
    (tmp_path / names[1]).mkdir()
    os.mkfifo(tmp_path / names[2])
    others = [".out.part", ".out.12.part", f".out.{uuid.uuid4()}.part", f".put.{uuid.uuid4().hex}.part"]
    for other in others:
        (tmp_path / other).touch()
    before = sorted(os.listdir(tmp_path))
    write(tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "out"])
    assert (tmp_path / "theirs").read_text() == "theirs"


def test_example_a_folder_that_cannot_be_listed(tmp_path, monkeypatch):
    """It can be written all the same."""

    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refused)
    write(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"whole"


def test_example_no_link_is_followed(tmp_path, monkeypatch):
    """Where somebody has guessed the hidden name."""
    (tmp_path / "theirs").write_text("theirs")
    known = uuid.UUID(int=1)
    monkeypatch.setattr(uuid, "uuid4", lambda: known)
    (tmp_path / f".out.parquet.{known.hex}.part").symlink_to(tmp_path / "theirs")
    with pytest.raises(OutputError, match=r"out.parquet' cannot be written \(File exists\); give a file"):
        hr.parquet(tmp_path / "out.parquet").check()
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert tmp_path / f".out.parquet.{known.hex}.part" not in part_files._unfinished


def test_example_a_text_is_written_wholly_or_not_at_all(tmp_path):
    target = tmp_path / "report.html"
    part_files.write_whole(target, "before")
    with pytest.raises(UnicodeEncodeError):
        part_files.write_whole(target, "after \ud800")
    assert (target.read_text(), hidden(tmp_path)) == ("before", set())
    part_files.write_whole(target, "after")
    assert (target.read_text(), hidden(tmp_path)) == ("after", set())
    part_files.write_whole("/dev/null", "a device stays one")
    assert not os.path.isfile("/dev/null")
