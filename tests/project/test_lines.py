"""No file is longer than a reader takes in as one idea.

Property    a Python file of the toolkit, the widgets, the datasets and the tests has at most 600 lines
Cannot see  lines that are too full, several ideas in a short file
"""

from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("toolkit", "widgets", "datasets", "tests")
MOST = 600

EXCEPTIONS: dict[str, str] = {}
"""File -> the reason why it may be longer."""


def too_long(root):
    """Files above the bound, with their lines."""
    files = (file for folder in FOLDERS for file in sorted((root / folder).rglob("*.py")))
    lines = {file.relative_to(root).as_posix(): len(file.read_bytes().splitlines()) for file in files}
    return {name: count for name, count in lines.items() if count > MOST}


def test_example_no_file_is_too_long():
    assert too_long(ROOT).keys() - EXCEPTIONS.keys() == set()


def test_example_an_excepted_file_needs_it_and_says_why():
    assert EXCEPTIONS.keys() <= too_long(ROOT).keys()
    assert all(EXCEPTIONS.values())


def test_planted_a_file_that_is_too_long_is_seen(tmp_path):
    for folder in FOLDERS:
        (tmp_path / folder / "room").mkdir(parents=True)
        (tmp_path / folder / "room/just.py").write_text("x = 1\n" * MOST)
    assert too_long(tmp_path) == {}
    for folder in FOLDERS:
        (tmp_path / folder / "room/above.py").write_text("x = 1\n" * (MOST + 1))
    assert too_long(tmp_path) == {f"{folder}/room/above.py": MOST + 1 for folder in FOLDERS}
