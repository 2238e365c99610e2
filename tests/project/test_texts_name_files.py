"""Test files that docstrings and pages send a reader to are there.

Property    a path such as tests/headrace/memory/..., written out in a Python file or a page, is one of a file
Cannot see  names without their folder; whether the file checks what is said of it
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("toolkit", "widgets", "datasets", "tests")
NAMED = re.compile(r"\btests/[a-z_/]+\.py\b")


def named_and_missing(root):
    """What is named and is not there, with the files that name it."""
    files = [*root.glob("*.md"), *(file for folder in FOLDERS for file in (root / folder).rglob("*.py"))]
    return {
        (name, file.relative_to(root).as_posix())
        for file in files
        for name in NAMED.findall(file.read_text(encoding="utf-8"))
        if not (root / name).exists()
    }


def test_example_they_are_there():
    assert named_and_missing(ROOT) == set()


def test_planted_a_file_that_has_moved_is_seen(tmp_path):
    (tmp_path / "toolkit").mkdir()
    name = "/".join(["tests", "gone.py"])
    (tmp_path / "toolkit/kernel.py").write_text(f"Checked     {name}\n")
    assert named_and_missing(tmp_path) == {(name, "toolkit/kernel.py")}
