"""Method: notebooks made to fail are run as `make notebooks` runs them, by papermill; and the real ones are read.

A cell raises, and (in the campaign) a cell never ends, while a live run has threads and Spark a process of its own. Afterwards
nothing may be left of them. The real notebooks are run by `make check-notebooks`.

What this cannot see: whether a notebook teaches anything.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace as hr
from support.workloads import eventually

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

LIVE_RUN = """
import itertools, os, threading, time
import pyarrow as pa
import headrace as hr

def endless():
    for second in itertools.count():
        time.sleep(0.05)
        yield pa.record_batch({"ts": pa.array([second]), "k": pa.array(["a"])})

source = pa.RecordBatchReader.from_batches(pa.schema({"ts": pa.int64(), "k": pa.string()}), endless())
run = hr.stream(source, event_time="ts").key_by("k").window(10).aggregate(n=hr.count()).start(threads=2)
while run.metrics().tuples_in < 3:
    time.sleep(0.05)
threading.Thread(target=time.sleep, args=(10_000,)).start()   # no daemon: a process that ends by itself waits for it
pids = [os.getpid()]
"""
SPARK = """
spark = hr.spark.session(memory="512m")
pids.append(spark.sparkContext._gateway.proc.pid)
"""
NOTE_PIDS = 'open("pids.part", "w").write(" ".join(map(str, pids))); os.rename("pids.part", "pids")'


def papermill(folder, *cells, timeout_s=600):
    """Run cells as `make notebooks` does. Returns the exit status, what it wrote, the output file, the processes."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(notebook, folder / "planted.ipynb")
    command = [sys.executable, "-m", "papermill", "--kernel", "python3", "--cwd", str(folder), "--no-progress-bar"]
    command += ["--log-level", "ERROR", "--execution-timeout", str(timeout_s)]
    done = subprocess.run(
        [*command, str(folder / "planted.ipynb"), str(folder / "out.ipynb")],
        cwd=folder, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    return done.returncode, done.stderr, nbformat.read(folder / "out.ipynb", 4), pids


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    # A process that has ended and that nobody has waited for yet does nothing any more.
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")


def nothing_is_left(pids):
    try:
        eventually(lambda: not any(map(is_alive, pids)), 180)
    finally:
        for pid in filter(is_alive, pids):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.campaign
@pytest.mark.spark
def test_example_a_failing_cell_fails_the_run_and_leaves_nothing(tmp_path):
    status, said, out, pids = papermill(
        tmp_path, LIVE_RUN, SPARK, NOTE_PIDS, "raise ValueError('planted')", "open('reached', 'w')"
    )
    assert status != 0 and "planted" in said
    assert len(pids) == 2
    nothing_is_left(pids)
    assert not (tmp_path / "reached").exists()
    assert any("An Exception was encountered" in cell.source for cell in out.cells)


@pytest.mark.campaign  # a minute and a half, nearly all of it waiting
def test_example_a_cell_that_never_ends_fails_within_its_time(tmp_path):
    hr.stream(pa.table({"ts": [0], "k": ["a"]}), event_time="ts").key_by("k").window(10).aggregate(n=hr.count()).to_arrow()
    begun = time.monotonic()  # what the first cell starts is compiled
    status, said, _, pids = papermill(tmp_path, LIVE_RUN, NOTE_PIDS, "run.wait()", timeout_s=30)
    assert status != 0 and "Timeout" in said
    assert time.monotonic() - begun > 30  # it is the third cell that the time is up for
    nothing_is_left(pids)


@pytest.mark.slow
def test_example_make_stops_at_a_notebook_that_fails(tmp_path):
    """The Makefile's own lines, with an environment that is there already; the HTML of the one before is written."""
    if shutil.which("make") is None:
        pytest.skip("run without make")
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    for name in ("papermill", "jupyter"):
        (binaries / name).symlink_to(Path(sys.executable).parent / name)
    (tmp_path / ".venv" / ".installed").touch()
    for name, cell in (("1_good", "print(6 * n)"), ("2_bad", "1 / 0"), ("3_unseen", "print()")):
        parameters = nbformat.v4.new_code_cell("n = 1", metadata={"tags": ["parameters"]})
        notebook = nbformat.v4.new_notebook(cells=[parameters, nbformat.v4.new_code_cell(cell)])
        notebook.metadata.kernelspec = {"name": "python3", "language": "python", "display_name": "Python 3"}
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "notebooks", "NOTEBOOKS=1_good.ipynb 2_bad.ipynb 3_unseen.ipynb", "ARGS=-p n 7"],
        cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode != 0 and "ZeroDivisionError" in done.stderr
    written = {path.name for path in (tmp_path / "build" / "notebooks").iterdir()}
    assert written == {"1_good.ipynb", "1_good.html", "2_bad.ipynb"}
    assert "42" in (tmp_path / "build" / "notebooks" / "1_good.html").read_text()


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_example_a_notebook_keeps_to_the_rules(file):
    """Parameters first, public names, Bokeh without a network, exercises, links that lead somewhere."""
    notebook = nbformat.read(file, 4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert code[0].metadata.get("tags") == ["parameters"]
    assert (notebook.metadata.kernelspec.name, notebook.metadata.kernelspec.language) == ("python3", "python")
    assert notebook.cells[0].source.startswith("# ") and notebook.cells[0].source.splitlines()[0].endswith("?")
    assert "## Exercises" in text
    for cell in code:
        assert cell.outputs == [] and cell.execution_count is None
        for name in re.findall(r"^\s*(?:from|import) (headrace[\w.]*)", cell.source, flags=re.MULTILINE):
            assert name in PUBLIC, f"{name} is not public"
        if "output_notebook(" in cell.source:
            assert "output_notebook(INLINE" in cell.source
    for link in re.findall(r"\]\(([^)#]+\.ipynb)\)", text):
        assert (file.parent / link).exists(), link


WIDEST = 100
"""Characters in a line of code. What is beyond them is cut on a projector, in a narrow window and in HTML."""


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_example_no_line_of_code_is_cut_where_it_is_shown(file):
    code = [cell.source for cell in nbformat.read(file, 4).cells if cell.cell_type == "code"]
    assert [line for source in code for line in source.splitlines() if len(line) > WIDEST] == []


WIDEST_IN_TEXT = 84
"""Characters in a line between fences in a text, where letters are larger: JupyterLab breaks longer ones at 1,000 pixels."""


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_example_no_line_between_fences_is_broken(file):
    texts = [cell.source for cell in nbformat.read(file, 4).cells if cell.cell_type == "markdown"]
    fenced = [found for text in texts for found in re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]
    assert [line for block in fenced for line in block.splitlines() if len(line) > WIDEST_IN_TEXT] == []


LESSONS = [file for file in NOTEBOOKS if file.stem[:2] in ("00", "10", "20", "40", "70", "75")]
ELASTIC = ROOT / "notebooks" / "30_elastic_reconfiguration.ipynb"


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_example_a_notebook_ends_with_five_questions_with_folded_answers(file):
    asked = nbformat.read(file, 4).cells[-1].source.partition("## Five questions")[2].partition("\n## ")[0]
    questions = re.findall(r"<details><summary>(\d)\. ([^\n]+)</summary>\n\n(.+?)\n\n</details>", asked, flags=re.DOTALL)
    assert [number for number, _, _ in questions] == list("12345")
    assert all("?" in question and len(answer.split()) >= 20 for _, question, answer in questions)


@pytest.mark.parametrize("file", LESSONS, ids=lambda file: file.stem)
def test_example_a_lesson_draws_what_it_explains(file):
    """A drawing is there as a picture too, with words, for places that show no outputs."""
    notebook = nbformat.read(file, 4)
    cells = [(cell.cell_type, cell.source) for cell in notebook.cells]
    shown = [place for place, (kind, text) in enumerate(cells) if re.fullmatch(r"diagrams\.\w+\(\)", text)]
    assert shown
    for place in shown:
        name = re.fullmatch(r"diagrams\.(\w+)\(\)", cells[place][1])[1]
        picture = re.search(rf"!\[(.+)\]\(images/{name}\.svg\)", cells[place + 1][1])
        assert picture and len(picture[1].split()) >= 20, f"{name}: a picture with words, behind the cell that steps"
        assert (file.parent / "images" / f"{name}.svg").exists()


EXPLAINED = {
    "00": ["event time", "window", "operator", "buffer", "owner", "key mapping", "epoch", "barrier"],
    "10": ["tuples", "gate", "watermark"],
    "30": ["lag", "latency", "delay of results", "pool", "back-pressure", "bottleneck"],
}


@pytest.mark.parametrize(("number", "word"), [(number, word) for number, words in EXPLAINED.items() for word in words])
def test_example_a_word_is_explained_where_it_comes_first(number, word):
    """It is in italics there. Titles, tables and links say what is to come."""
    (file,) = (file for file in LESSONS + [ELASTIC] if file.stem.startswith(number))
    cells = nbformat.read(file, 4).cells
    lines = [line for cell in cells if cell.cell_type == "markdown" for line in cell.source.splitlines()]
    lines = [line for line in lines if not line.startswith(("#", "|", "!"))]
    first = next(found for line in lines if (found := re.search(rf"\*?\b{word}\b\*?", line)))
    assert first[0] == f"*{word}*", first.string


def test_example_reading_order():
    """Each notebook names those beside it, and the first one and README list them all, in order."""
    stems = [file.stem for file in NOTEBOOKS]
    texts = [" ".join(cell.source for cell in nbformat.read(file, 4).cells[:1]) for file in NOTEBOOKS]
    listed = re.findall(r"^\| (?:\*\*|\[)(\d\d) ", texts[0], flags=re.MULTILINE)
    assert listed == [stem[:2] for stem in stems]
    readme = (ROOT / "README.md").read_text()
    assert re.findall(r"^\| \[(\d\d_\w+)\]\(notebooks/\1\.ipynb\) \|", readme, flags=re.MULTILINE) == stems
    for place, text in list(enumerate(texts))[1:]:
        before = re.search(r"Before: \[[^]]+\]\((\w+)\.ipynb\)", text)
        assert before and before[1] == stems[place - 1], stems[place]
        after = re.search(r"Next: \[[^]]+\]\((\w+)\.ipynb\)", text)
        assert (after[1] if after else None) == (stems[place + 1] if place + 1 < len(stems) else None), stems[place]


LIES = {
    "Overload: the lag grows": ("overload", {"to": 0.0}),
    "and the thread is busy for more than half of the time": ("overload", {"idle": 0.6}),
    "Relief: the lag drains": ("relief", {"to": 1.9}),
    "Imbalance: one thread has the work": ("imbalance", {"shares": (0.5, 0.5)}),
    "and the lag grows, with two threads": ("imbalance", {"to": 0.0}),
    "Repair: the work is shared": ("repair", {"shares": (0.9, 0.1)}),
    "and the lag drains": ("repair", {"to": 1.9}),
}
"""What a sentence of the notebook says -> the figure that makes it false."""


def told(lie=None, moved=0, shortest=8.0):
    """Run the cell in which the notebook checks its sentences, on figures that are right but for one."""
    (cell,) = [c.source for c in nbformat.read(ELASTIC, 4).cells if c.cell_type == "code" and "held = [" in c.source]
    seen = {
        "calm": {"from": 0.0, "to": 0.0, "shares": (1.0, 0.0), "idle": 0.4},
        "overload": {"from": 0.0, "to": 2.0, "shares": (1.0, 0.0), "idle": 0.01},
        "relief": {"from": 2.0, "to": 0.05, "shares": (0.5, 0.5), "idle": 0.1},
        "imbalance": {"from": 0.0, "to": 2.0, "shares": (0.94, 0.06), "idle": 0.4},
        "repair": {"from": 2.0, "to": 0.05, "shares": (0.5, 0.5), "idle": 0.1},
    }
    seen = {step: figures | {"at": ""} for step, figures in seen.items()}
    if lie is not None:
        step, figures = lie
        seen[step] |= figures
    columns = ["mode", "live keys", "shortest (ms)", "moved at most (MB)"]
    rows = [("vsn", 10_000, 0.1, 0), ("sn", 10_000, 0.6, 0.12), ("vsn", 100_000, 0.1, 0), ("sn", 100_000, shortest, 1.2)]
    names = {
        "pd": pd, "sizes": [10_000, 100_000], "most_keys": 100_000, "plays": True, "watched": seen,
        "measured": pd.DataFrame(rows, columns=columns), "relief": SimpleNamespace(transferred_bytes=moved),
    }  # fmt: skip
    exec(cell, names)
    return names["held"]


def test_example_the_lesson_checks_each_of_its_sentences():
    sentences = [what for what, *_ in told()]
    assert set(LIES) | {"and no state is moved", "Moving it takes longer than moving nothing"} < set(sentences)
    for what, lie in LIES.items():
        with pytest.raises(AssertionError, match=rf"not so here, at the moment: {what} \([^;]+\)$"):
            told(lie)
    said = {what: how for what, how, _ in told(("relief", {"at": ", at 3,000 posts/s"}))}
    assert said["Relief: the lag drains"].endswith(", at 3,000 posts/s") and said["and the lag drains"].endswith("0.1 s")
    with pytest.raises(AssertionError, match="moment: and no state is moved"):
        told(moved=8)
    with pytest.raises(AssertionError, match="moment: Moving it takes longer"):
        told(shortest=0.1)


def test_example_the_lesson_checks_its_sentences_last():
    """One that does not hold, which may happen where the machine has other work, must not keep what follows from being shown."""
    code = [cell.source for cell in nbformat.read(ELASTIC, 4).cells if cell.cell_type == "code"]
    assert "assert all(so for *_, so in held)" in code[-1]
    assert any("side_by_side(*runs" in source for source in code[:-1])


class Played:
    """What the played lesson asks of a run, of one that is over at once. Each change comes with clicks before and after it."""

    state, threads, rate, mapping = "running", 1, 100.0, hr.Mapping.even(1)

    def __init__(self, outcome="done"):
        self.changes, self.outcome, self.looked = [], outcome, 0

    def reconfigure(self, threads=None, mapping=None, reason=""):
        self.threads, self.mapping = threads or self.threads, mapping or self.mapping
        for why, how in (("by hand", "refused"), (reason, self.outcome), ("", "done")):
            self.changes.append(SimpleNamespace(reason=why, outcome=how, ms=0.2))
        return SimpleNamespace(wait=lambda: self.changes[-2])

    def __getitem__(self, operator):
        return self

    def metrics(self):
        self.looked += 1
        each = [self.looked] * 2
        return SimpleNamespace(
            seconds=0.0, lag_s=0.0, holds=True, load=each, idle_ns=each, busy_ns=each, bucket_load=np.ones(1_024, np.int64)
        )

    def wait(self, seconds):
        return True

    def bottleneck(self):
        return SimpleNamespace(sentence="")


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_example_the_lesson_counts_its_own_changes_and_not_those_of_clicks(outcome):
    (cell,) = [c.source for c in nbformat.read(ELASTIC, 4).cells if c.cell_type == "code" and "lesson: relief" in c.source]
    names = {"hr": hr, "np": np, "run": Played(outcome), "plays": True, "overload": 100.0, "calm": 60.0}
    if outcome == "done":
        exec(cell, names)
        assert list(names["watched"]) == ["calm", "overload", "relief", "imbalance", "repair"]
    else:
        with pytest.raises(AssertionError, match=r"the lesson's changes: \['failed', 'failed', 'failed', 'failed'\]"):
            exec(cell, names)


def test_example_the_solution_names_the_buckets_that_change_their_owner():
    even = [hr.Mapping.even(n) for n in (1, 2, 3, 4)]
    first, second, third = (a.differing(b) for a, b in pairwise(even))
    text = (ROOT / "notebooks" / "30_elastic_reconfiguration.ipynb").read_text()
    assert f"1. {first} buckets, then {second}, then {third}." in text


PUBLIC = {
    "headrace",
    "headrace_bench",
    "headrace.gates",
    "headrace.memory.atomics",
    "headrace.reference",
    "headrace.reference.apps",
    "headrace.windows",
    "headrace_datasets",
    "headrace_widgets",
}
