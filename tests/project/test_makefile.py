"""Method: make is run in a scratch folder, with what it would install taken away.

What this cannot see: a real installation. `make test` itself is one.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ["demo", "test", "check", "lab", "bench", "fresh", "help", "doctor", "dashboard", "notebooks"]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="run without make")


def make(folder, *arguments, **environ):
    # What an outer make hands to an inner one would change what is seen here.
    handed = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "PYTHON")
    clean = {name: value for name, value in os.environ.items() if name not in handed}
    return subprocess.run(
        [shutil.which("make"), *arguments], cwd=folder, env={**clean, **environ}, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip


@pytest.fixture
def scratch(tmp_path):
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_example_help_is_the_default_and_installs_nothing(scratch):
    done = make(scratch)
    assert done.returncode == 0
    for target in TARGETS:
        assert f"  {target} " in done.stdout
    assert done.stdout == make(scratch, "help").stdout
    assert not (scratch / ".venv").exists()


def test_example_a_second_run_installs_nothing(scratch):
    stamp = scratch / ".venv" / ".installed"
    assert make(scratch, "-q", "setup").returncode == 1
    stamp.parent.mkdir()
    stamp.touch()
    assert make(scratch, "-q", "setup").returncode == 0
    newer = stamp.stat().st_mtime + 5
    os.utime(scratch / "requirements.lock", (newer, newer))
    assert make(scratch, "-q", "setup").returncode == 1


def test_example_no_python_says_what_to_do(scratch):
    programs = scratch / "programs"
    programs.mkdir()
    for name in ("bash", "sh", "rm", "mkdir"):
        (programs / name).symlink_to(shutil.which(name))
    old = programs / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = make(scratch, "setup", PATH=str(programs))
    assert done.returncode != 0
    assert "No Python 3.11, 3.12 or 3.13 with venv was found" in done.stderr
    assert "apt install python3 python3-venv" in done.stderr
    assert not (scratch / ".venv").exists()


def test_example_every_stage_says_its_name():
    text = (ROOT / "Makefile").read_text()
    for stage in ("lint", "types", "imports", "project", "unit", "litmus", "datasets", "widgets", "browser", "notebooks"):
        assert f"check-{stage}: $(STAMP)" in text
        assert f"== {stage}:" in text or f"$(call stage,{stage}," in text


def test_example_check_runs_the_quick_tests_of_the_same_folders():
    text = (ROOT / "Makefile").read_text()
    quick = re.search(r"\$\(call stage,quick,([^,]+),(.*)\)", text)
    assert quick is not None and '"not slow and not campaign"' in quick[2]
    assert {folder.removeprefix("tests/") for folder in quick[1].split()} == {
        "project", "headrace", "headrace_bench", "datasets", "widgets"
    }


def test_example_every_test_is_in_a_stage():
    stages = re.findall(r"\$\(call stage,(?!quick)\w+,([^,)]+)", (ROOT / "Makefile").read_text())
    staged = set(re.findall(r"tests/(\w+)", " ".join(stages)))
    present = {file.relative_to(ROOT / "tests").parts[0] for file in (ROOT / "tests").rglob("test_*.py")}
    assert present - staged == set()


def test_example_fresh_removes_the_environment(scratch):
    for room in ("toolkit", "widgets", "datasets", "tests"):
        (scratch / room / "__pycache__").mkdir(parents=True)
    (scratch / ".venv").mkdir()
    assert make(scratch, "fresh").returncode == 0
    assert not (scratch / ".venv").exists()
    assert list(scratch.rglob("__pycache__")) == []


def test_example_ci_is_a_sound_script():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    assert "set -euo pipefail" in script.read_text()


def test_example_what_is_started_keeps_its_bytecode(scratch):
    shown = make(scratch, "--eval=show: ; @echo kept=$${PYTHONDONTWRITEBYTECODE-yes}", "show", PYTHONDONTWRITEBYTECODE="1")
    assert shown.stdout == "kept=yes\n"
