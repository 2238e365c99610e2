"""README's examples: what is pasted runs, and gives what README shows.

Method: the blocks of Python are run one after the other in one process, as a reader pastes them; the first one's output
is compared with the block that follows it. Files and headings that README links to are there, and so is what its
text names of a run, a stream and the package.
Cannot see: the commands for the terminal, which take minutes.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import headrace as hr
from headrace.runtime.handle import QueryRun
from headrace.stream import Stream

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def pasted(code, folder, seconds):
    (folder / "pasted.py").write_text(code)  # compiled functions need a file or a cell
    done = subprocess.run([sys.executable, "pasted.py"], cwd=folder, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_example_the_first_example_shows_its_output(tmp_path):
    shown = re.search(r"```python\n.*?```\n\n```\n(.*?)```", README, flags=re.DOTALL)[1]
    assert pasted(PYTHON[0], tmp_path, 120) == shown


@pytest.mark.slow
@pytest.mark.spark
def test_example_all_of_it_runs(tmp_path):
    said = pasted("\n".join([*PYTHON, "run.stop(); spark.stop()"]), tmp_path, 400)
    assert re.search(r"threads 1 → 4 in \d+\.\d\d ms", said)


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
