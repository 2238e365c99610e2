"""README's examples: what is pasted runs, and gives what README shows.

Method: the blocks of Python of each section are run one after the other, as they are pasted by a reader who has read no other
section; the first one's output is compared with the block that follows it. The commands for the terminal are read as a
shell and the command line read them: each is one that there is, and what it reads, a line before it makes. Files and
headings that README links to are there, and so is what its text names of a run, a stream and the package.
Cannot see: what the commands for the terminal do, which takes minutes.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import headrace as hr
from headrace import cli
from headrace.apps import APPS
from headrace.runtime.handle import QueryRun
from headrace.stream import Stream

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def pasted(code, folder, seconds, *arguments):
    (folder / "pasted.py").write_text(code)  # compiled functions need a file or a cell
    done = subprocess.run([sys.executable, "pasted.py", *arguments], cwd=folder, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_example_the_first_example_shows_its_output(tmp_path):
    shown = re.search(r"```python\n.*?```\n\n```\n(.*?)```", README, flags=re.DOTALL)[1]
    assert pasted(PYTHON[0], tmp_path, 400) == shown


SECTIONS = {}
for section in re.split(r"^## ", README, flags=re.MULTILINE):
    title, _, text = section.partition("\n")
    if code := re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        SECTIONS[title] = "\n".join(code)

AT_THE_END = """
if "run" in globals() and run.state == "running":
    run.stop()
import headrace, sys
if "pyspark" in sys.modules:
    headrace.spark.session().stop()
"""
SAID = {"In Python": r"threads 1 → 4 in \d+\.\d\d ms", "Transactions": r"^100000000$"}  # the balances
"""Of what a section prints."""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("title", SECTIONS)
def test_example_each_section_can_be_pasted_by_itself(title, tmp_path):
    said = pasted(SECTIONS[title] + AT_THE_END, tmp_path, 400)
    assert re.search(SAID.get(title, ""), said, flags=re.MULTILINE)


def test_example_these_sections_have_examples():
    assert list(SECTIONS) == ["In Python", "Transactions", "Ordered pipelines", "Synchronization plans", "Watch and steer"]


def test_example_the_commands_for_the_terminal_can_be_pasted():
    text = README.partition("## On the command line")[2].partition("```\n")[2].partition("```")[0]
    lines = [shlex.split(line, comments=True) for line in text.splitlines() if line.strip()]
    made, ran = set(), set()
    for command, *arguments in lines:
        if command == "python":
            assert arguments[0] == "-c"
            compile(arguments[1], "line", "exec")
            made |= set(re.findall(r"to_parquet\('([^']+)'\)", arguments[1]))
        elif command == "headrace":
            asked = cli._parsed(arguments)
            ran.add(asked.command)
            if asked.command == "run":
                assert asked.left is not None or APPS[asked.app].default_input is not None
                assert {name for name in (asked.left, asked.right) if name} <= made, arguments
        else:
            assert command == "source"
    assert ran >= {"tour", "run", "bench", "doctor"} and len(made) >= 5


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_example_links_lead_somewhere(link):
    assert (ROOT / link).exists()


def test_example_headings_that_are_linked_are_there():
    headings = re.findall(r"^#+ (.*)$", README, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}  # as GitHub makes them
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) - anchors == set()


@pytest.mark.parametrize(("word", "of"), [("hr", hr), ("run", QueryRun), ("stream", Stream), ("query", Stream)])
def test_example_what_the_text_names_is_there(word, of):
    text = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    code = " ".join(re.findall(r"`([^`]+)`", text))
    names = set(re.findall(rf"(?<![\w.]){word}\.(\w+)", code))
    # What an engine adds to its own runs alone is not in the class of all runs.
    assert {name for name in names if not hasattr(of, name)} <= {"snapshots", "checkpoint"}
    assert names
