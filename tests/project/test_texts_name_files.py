"""Test files that docstrings and pages send a reader to are there.

Property    a path such as tests/headrace/memory/..., written out in a Python file or a page, is one of a file; a page whose name
            is in capitals, such as README.md, is there, also where one of its sections is named
Cannot see  names without their folder; whether the file checks what is said of it
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("toolkit", "widgets", "datasets", "tests")
NAMED = re.compile(r"\btests/[a-z_/]+\.py\b")
PAGE = re.compile(r"\b(?!STRETCH |NAME|PAGE)([A-Z]{4,})(?:\.md\b| section \d)")
"""STRETCH is a paper; NAME and PAGE stand for names."""


def named_and_missing(root):
    """What is named and is not there, with the files that name it."""
    files = [*root.glob("*.md"), *(file for folder in FOLDERS for file in (root / folder).rglob("*.py"))]
    texts = {file.relative_to(root).as_posix(): file.read_text(encoding="utf-8") for file in files}
    named = {(name, file) for file, text in texts.items() for name in NAMED.findall(text)}
    named |= {(f"{page}.md", file) for file, text in texts.items() for page in PAGE.findall(text)}
    return {(name, file) for name, file in named if not (root / name).exists()}


def test_example_they_are_there():
    assert named_and_missing(ROOT) == set()


def test_planted_a_file_that_has_moved_is_seen(tmp_path):
    (tmp_path / "toolkit").mkdir()
    name = "/".join(["tests", "gone.py"])
    (tmp_path / "toolkit/kernel.py").write_text(f"Checked     {name}\n")
    assert named_and_missing(tmp_path) == {(name, "toolkit/kernel.py")}


@pytest.mark.parametrize("text", ["as {} section 4 says", "see {}.md"])
def test_planted_a_page_that_is_not_there_is_seen(text, tmp_path):
    (tmp_path / "tests").mkdir()
    name = "".join(["EN", "GINES"])
    (tmp_path / "tests" / "case.py").write_text(f'"""{text.format(name)}; {text.format("README")}."""\n')
    (tmp_path / "README.md").write_text("A page.\n")
    assert named_and_missing(tmp_path) == {(f"{name}.md", "/".join(["tests", "case.py"]))}
