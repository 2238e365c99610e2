"""Method: the contracts hold for the project, and each one is broken by an import it is there to forbid.

The second part builds a house of empty rooms, with one wrong import, under the project's own contracts.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import headrace as hr

ROOT = Path(__file__).resolve().parents[2]
ROOMS = [
    "apps", "bench", "spark", "egress", "elasticity", "operators", "gates", "ordering", "transactions",
    "synchronization", "ingress", "runtime", "codegen", "caches", "memory", "reference",
]  # fmt: skip
FILES = [
    "cli", "controllers", "counterfactual", "demo", "doctor", "history", "prometheus", "report", "stream", "query", "functions",
    "engine", "expressions", "counters", "errors", "kernel", "loopback", "progress", "rates", "tuples", "windows",
]  # fmt: skip

ROOM_ORDER = "a room imports only rooms below it"
DATASETS_USERS = "only apps, bench and cli import the datasets"

FORBIDDEN = [
    ("headrace.memory", "headrace.runtime", ROOM_ORDER),
    ("headrace.errors", "headrace.expressions", ROOM_ORDER),
    ("headrace.codegen", "headrace.gates", ROOM_ORDER),
    ("headrace.codegen", "headrace.runtime", ROOM_ORDER),
    ("headrace.gates", "headrace.operators", ROOM_ORDER),
    ("headrace.operators", "headrace.elasticity", ROOM_ORDER),
    ("headrace.ingress", "headrace.gates", ROOM_ORDER),
    ("headrace.egress", "headrace.engine", ROOM_ORDER),
    ("headrace.stream", "headrace.spark", ROOM_ORDER),
    ("headrace.spark", "headrace.apps", ROOM_ORDER),
    ("headrace.ordering", "headrace.transactions", ROOM_ORDER),
    ("headrace.elasticity", "headrace.ordering", "the engines do not import each other: elasticity"),
    ("headrace.operators", "headrace.synchronization", "the engines do not import each other: operators"),
    ("headrace.transactions", "headrace.gates", "the engines do not import each other: gates"),
    ("headrace.reference", "headrace.memory", "the reference imports leaves only"),
    ("headrace.reference", "headrace.query", "the reference imports leaves only"),
    ("headrace.spark", "headrace_datasets", DATASETS_USERS),
    ("headrace.memory", "headrace_datasets", DATASETS_USERS),
    ("headrace_datasets", "headrace.gates", "the datasets import no engine"),
    ("headrace.engine", "headrace_widgets", "nothing below the dashboard imports it"),
    ("headrace_widgets", "headrace.engine", "the dashboard sees counters and public names only"),
    ("headrace_widgets", "headrace_datasets", "the dashboard sees counters and public names only"),
]

ALLOWED = [
    ("headrace.apps", "headrace_datasets"),
    ("headrace.cli", "headrace_datasets"),
    ("headrace.reference", "headrace.windows"),
    ("headrace.elasticity", "headrace.operators"),
    ("headrace.operators", "headrace.gates"),
    ("headrace.ordering", "headrace.ingress"),
    ("headrace.spark", "headrace.stream"),
    ("headrace_widgets", "headrace.runtime"),
    ("headrace_datasets", "headrace.errors"),
]


def lint(folder, path):
    """Run the contracts in a folder: exit status, and the names of the broken ones."""
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()",
        "--no-cache"], cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)),
        "NO_COLOR": "1"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    broken = [line.rsplit(" ", 1)[0] for line in done.stdout.splitlines() if line.endswith(" BROKEN")]
    return done.returncode, broken, done.stdout + done.stderr


@pytest.fixture
def house(tmp_path):
    """Build every room, empty, under the project's contracts."""
    for room in ROOMS:
        (tmp_path / "headrace" / room).mkdir(parents=True)
        (tmp_path / "headrace" / room / "__init__.py").write_text("")
    for name in FILES:
        (tmp_path / "headrace" / f"{name}.py").write_text("")
    for package in ("headrace", "headrace_widgets", "headrace_datasets"):
        (tmp_path / package).mkdir(exist_ok=True)
        (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    return tmp_path


def add_import(house, importer, imported):
    place = house / importer.replace(".", "/")
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    # Inside a function, where an import is easily overlooked.
    file.write_text(f"def later():\n    import {imported}\n")


def test_example_the_project_keeps_its_contracts():
    status, broken, text = lint(ROOT, [ROOT / "toolkit", ROOT / "widgets", ROOT / "datasets"])
    assert (status, broken) == (0, []), text


def test_example_what_is_allowed(house):
    for importer, imported in ALLOWED:
        add_import(house, importer, imported)
    status, broken, text = lint(house, [house])
    assert (status, broken) == (0, []), text


@pytest.mark.parametrize(("importer", "imported", "contract"), FORBIDDEN)
def test_example_what_is_forbidden(house, importer, imported, contract):
    add_import(house, importer, imported)
    status, broken, text = lint(house, [house])
    assert status == 1, text
    assert contract in broken, text


@pytest.mark.parametrize("name", [n for n in hr.__all__ if isinstance(getattr(hr, n), ModuleType)])
def test_example_what_is_a_module_of_hr_can_be_imported_by_that_name(name):
    module = importlib.import_module(f"headrace.{name}")
    assert getattr(hr, name) is module
    assert all(hasattr(module, public) for public in getattr(module, "__all__", ()))


def test_example_rooms_are_known_to_the_contracts():
    """A new room or file of the toolkit must be given its place in the contracts above, and here."""
    present = {
        entry.stem
        for entry in (ROOT / "toolkit" / "headrace").iterdir()
        if (entry.is_dir() and any(entry.glob("*.py"))) or entry.suffix == ".py"
    } - {"__init__", "__main__"}
    assert present - set(ROOMS) - set(FILES) == set()
