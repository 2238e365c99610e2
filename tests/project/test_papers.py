"""The page that says where each part of the papers is: every file is there, every name resolves, no part is left out."""

import re
from pathlib import Path

import pytest

import headrace
import headrace as hr
import headrace.gates
from headrace.apps import APPS
from headrace.stream import Program
from headrace_bench import NAMES, PEERS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "notebooks" / "papers.md").read_text(encoding="utf-8")
QUOTED = sorted(set(re.findall(r"`([^`]+)`", PAGE)))

PARTS = {
    "STRETCH": {
        "Definition": range(1, 7), "Lemma": range(1, 4), "Theorem": range(1, 5), "Corollary": [1], "Observation": [1, 2],
        "Trace": [16], "Appendix": list("ABCDEF"),
        "Algorithm": [1, 2, 3, 4, 5, 6, 7, 11, 13], "Operator": [8, 9, 10, 12, 14, 15],
        "Table": ["I", "II", "III", "IV"], "Figure": range(1, 20),
    },
    "Viper": {"Definition": [1], "Table": [1], "Figure": range(1, 5)},
    "Ordered pipelines": {"Figure": range(1, 15), "Theorem": ["3.1", "4.1", "5.2"], "Definition": ["5.1"], "Table": [1]},
    "Dependency-guided synchronization": {
        "Definition": ["2.1", "2.2", "2.3", "3.1", "3.2", "3.3", "3.4", "C.1"], "Theorem": ["2.4", "3.5"],
        "Lemma": ["C.2", "C.3"], "Example": ["B.1"], "Appendix": list("ABCDEFG"), "Table": [1], "Figure": range(1, 14),
    },
    "TStream": {"Definition": [1, 2], "Algorithm": range(1, 5), "Table": ["I", "II"], "Figure": range(1, 15)},
}  # fmt: skip
"""What the papers number."""


def section(paper):
    return PAGE.split(f"\n## {paper}\n")[1].split("\n## ")[0]


def numbered(text):
    """(kind, number) of all that the first column of a paper's tables names, "Figure 8 to Figure 14" spelled out."""
    found = set()
    for row in re.findall(r"^\| ([^|]+) \|", text, re.M):
        for kind, first, last in re.findall(r"(\w+?)s? ([\dIVXA-G.]+)(?: to (?:\w+ )?(\d+))?", row):
            is_range = last and first.isdigit()
            numbers = range(int(first), int(last) + 1) if is_range else [first.rstrip(".")]
            found.update((kind, str(number)) for number in numbers)
    return found


@pytest.mark.parametrize("paper", PARTS)
def test_every_part_of_a_paper_has_a_row(paper):
    wanted = {(kind, str(number)) for kind, numbers in PARTS[paper].items() for number in numbers}
    assert wanted - numbered(section(paper)) == set()


SECTIONS = {
    "STRETCH": "2.1 2.2 2.3 2.4 2.5 3 4.1 4.2 5 6 7 8.1 8.2 8.3 8.4 8.5 8.6",
    "Viper": "2.1 2.2 3.1 3.2 3.3 4.1 4.2 4.3",
    "Ordered pipelines": "2.1 2.2 3.1 3.2 4.1 4.2 4.3 5 6.1 6.2 6.3 6.4 7 7.1 7.2 7.3",
    "Dependency-guided synchronization": (
        "2.1 2.2 2.3 3.1 3.2 3.3 3.4 3.5 4.1 4.2 4.3 4.4 4.5 A.1 A.2 D.1 D.2 G.1 G.2 G.3"
    ),
    "TStream": (
        "II-A II-B II-C III IV-A IV-B IV-C IV-D IV-E IV-F V VI-A VI-B VI-C VI-D VI-E VI-F VI-G"
    ),
}  # fmt: skip
"""From the preliminaries to the evaluation, and of the appendices what has numbers."""


def sections_named(text):
    """The sections that the first column of a paper's tables names, "sections 4.1 to 4.3" spelled out."""
    found = set()
    for row in re.findall(r"^\| ([^|]+) \|", text, re.M):
        for first, last in re.findall(r"[Ss]ections? ([IV]+(?:-[A-G])?|[A-G\d](?:\.\d)?)(?: to ([A-G\d]\.\d))?", row):
            whole, _, part = first.rpartition(".")
            found |= {f"{whole}.{i}" for i in range(int(part), int(last[-1]) + 1)} if last else {first}
    return found


@pytest.mark.parametrize("paper", SECTIONS)
def test_every_section_of_a_paper_has_a_row(paper):
    assert set(SECTIONS[paper].split()) - sections_named(section(paper)) == set()


def test_a_section_that_is_missing_is_noticed():
    without = section("TStream").replace("Section IV-D", "Part IV-D")
    assert "IV-D" not in sections_named(without)
    assert sections_named(section("Viper")) >= {"4.1", "4.2", "4.3"} and "4.4" not in sections_named(section("Viper"))


@pytest.mark.parametrize("quoted", QUOTED)
def test_what_the_page_names_is_there(quoted):
    if "/" in quoted or quoted.endswith(".py"):
        assert (ROOT / quoted).exists() or (ROOT / "toolkit" / "headrace" / quoted).exists()
    elif quoted.startswith("headrace bench "):
        assert quoted.removeprefix("headrace bench ") in (*NAMES, PEERS)
    elif quoted.startswith("headrace run "):
        assert quoted.removeprefix("headrace run ") in APPS
    elif quoted.startswith(("hr.", "headrace.")):
        found = hr if quoted.startswith("hr.") else headrace
        for name in quoted.split(".")[1:]:
            found = getattr(found, name)
    elif quoted.startswith("start("):
        option = quoted[6:].split("=")[0]
        assert re.search(rf"\b{option}\b", hr.Stream.start.__doc__ + Program.start.__doc__)
    else:
        assert quoted in {"<=", "test_agree", "depends", "update", "get", "join"}, f"nothing says what {quoted!r} is"


def test_a_part_that_is_missing_is_noticed():
    without = section("STRETCH").replace("Lemma 2", "A lemma")
    assert ("Lemma", "2") not in numbered(without) and ("Lemma", "2") in numbered(section("STRETCH"))
