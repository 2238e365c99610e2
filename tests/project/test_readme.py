"""README's examples: what is pasted runs, and gives what README shows.

Method: the blocks of Python are run one after the other in one process, as a reader pastes them; the first one's output
is compared with the block that follows it. Files that README links to are there.
Cannot see: the commands for the terminal, which take minutes.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
