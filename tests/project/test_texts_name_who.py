"""Texts name what acts: "wakes the waiting workers", since a bare "who" may be a worker, a caller or a user.

Property    in Python files, pages and notebooks no "who" without a noun follows a preposition or a verb, or begins a sentence
            about what a thread does
Cannot see  other places of a sentence, a sentence that goes on in the next line, questions ("at who owns which key" is one)
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("toolkit", "widgets", "datasets", "tests", "notebooks")
ENDINGS = (".py", ".md", ".ipynb")
NEITHER = r"(?! in\b| owns\b|,)"
"""A loop's variable, or a question."""
FOLLOWS = rf"\b(?:by|of|to|from|for|at|with|wakes?|woken|tells?|told) who\b{NEITHER}"
BEGINS = r"[.;:] who (?:finds|waits|sleeps|parks|wakes|runs|sees|drains|claims|recycles)\b(?! for whom)(?!.*\?)"
WORDS = re.compile(f"{FOLLOWS}|{BEGINS}", re.IGNORECASE)


def unnamed(root):
    """Lines that say who does something without naming it, with the files that have them."""
    files = [*root.glob("*.md"), *(file for folder in FOLDERS for file in (root / folder).rglob("*") if file.suffix in ENDINGS)]
    return {
        (file.relative_to(root).as_posix(), line.strip())
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
        if "who" in line.lower() and WORDS.search(line)
    }


def test_example_no_text_leaves_it_open():
    assert unnamed(ROOT) == set()


TEXTS = ["written by {} runs it", "to wake {} waits", "None waits: {} finds none looks", "It ends. {} sleeps"]


@pytest.mark.parametrize("name", ["toolkit/kernel.py", "PAGE.md", "notebooks/00.ipynb"])
@pytest.mark.parametrize("text", TEXTS)
def test_planted_text_that_does_is_seen(text, name, tmp_path):
    line = text.format("Who")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(f"A question: who waits for whom? A table of who owns what.\n{line}\n")
    assert unnamed(tmp_path) == {(name, line)}
