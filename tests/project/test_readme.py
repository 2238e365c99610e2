"""README's examples: what is pasted runs, and gives what README shows. Its page of figures: links, names, and what README quotes.

Method: the blocks of Python of each section are run one after the other, as they are pasted by a reader who has read no other
section; the first one's output is compared with the block that follows it. The commands for the terminal are read as a
shell and the command line read them: each is one that there is, and what it reads, a line before it makes. Files and
headings that README and BENCHMARKS.md link to are there, and so are what their text names of a run, a stream and the package,
and the benchmarks that they name. Decimals that README quotes are in the section of BENCHMARKS.md to which it links there.
Cannot see: what the commands for the terminal do, which takes minutes; whether a figure is still what would be measured.
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
from headrace_bench import NAMES, PEERS, experiments

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
FIGURES = (ROOT / "BENCHMARKS.md").read_text()
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


def linked(text):
    """(page, heading) of every link to a place in this repository; "" is the page itself, or its beginning."""
    return set(re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", text))


def anchors(text):
    """What a heading is called in a link, as GitHub makes it."""
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ["README.md", "BENCHMARKS.md"])
def test_example_links_lead_somewhere(page):
    links = linked((ROOT / page).read_text())
    assert {name for name, _ in links if not (ROOT / name).exists()} == set()
    headed = {(name or page, heading) for name, heading in links if heading}
    assert headed
    assert {(name, heading) for name, heading in headed if heading not in anchors((ROOT / name).read_text())} == set()


def misquoted(readme, figures):
    """(decimal, heading) of README's paragraphs with a link to a heading of BENCHMARKS.md whose section lacks the decimal."""
    sections = {}
    for section in re.split(r"^## ", figures, flags=re.MULTILINE)[1:]:
        (anchor,) = anchors("# " + section.partition("\n")[0])
        sections[anchor] = set(re.findall(r"\d+\.\d+", section))
    quoted = [
        (decimal, heading)
        for paragraph in readme.split("\n\n")
        for heading in re.findall(r"\]\(BENCHMARKS\.md#([^)]+)\)", paragraph)
        for decimal in re.findall(r"\d+\.\d+", paragraph)
    ]
    assert quoted
    return {(decimal, heading) for decimal, heading in quoted if decimal not in sections[heading]}


def test_example_figures_in_readme_are_those_of_the_page_that_it_links_to():
    assert misquoted(README, FIGURES) == set()


def test_planted_a_figure_that_was_measured_anew_on_one_page_only_is_seen():
    (first, *_) = re.findall(r"(\d+\.\d+) times as many events", README)
    heading = "transactions-what-a-second-thread-brings"
    assert misquoted(README.replace(f"{first} times as many events", "7.77 times as many events"), FIGURES) == {("7.77", heading)}


def test_example_benchmarks_that_are_named_are_there():
    named = set(re.findall(r"headrace bench (\w+)", README + FIGURES))
    assert named - {*NAMES, PEERS, "all", "list", "NAME"} == set()
    assert re.findall(r"^\| `(\w+)` \| [^|]+ \| [^|]+\? \|$", FIGURES, flags=re.MULTILINE) == list(experiments.NAMES)


@pytest.mark.parametrize(("word", "of"), [("hr", hr), ("run", QueryRun), ("stream", Stream), ("query", Stream)])
def test_example_what_the_text_names_is_there(word, of):
    text = re.sub(r"```.*?```", "", README + FIGURES, flags=re.DOTALL)
    code = " ".join(re.findall(r"`([^`]+)`", text))
    names = set(re.findall(rf"(?<![\w.]){word}\.(\w+)", code))
    # What an engine adds to its own runs alone is not in the class of all runs.
    assert {name for name in names if not hasattr(of, name)} <= {"snapshots", "checkpoint"}
    assert names
