"""Method: the contracts hold for the project, and each one is broken by an import it is there to forbid.

The second part builds a house of empty rooms, with wrong imports, under the project's own contracts. The third
compares the house as it stands with what the contracts and the docstrings say of it.
"""

import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import headrace as hr

ROOT = Path(__file__).resolve().parents[2]
HOUSE = ROOT / "toolkit" / "headrace"
ROOMS = [
    "apps", "report", "stream", "elastic", "transactions", "ordering", "synchronization", "runtime", "control", "spark",
    "checkpoints", "egress", "gates", "plan", "ingress", "workers", "metrics", "codegen", "memory", "expressions", "reference",
    "caches",
]  # fmt: skip
FILES = [
    "__main__",
    "cli", "demo", "doctor", "lab", "lesson", "tour", "counterfactual", "controllers", "prometheus", "kernel",
    "arguments", "callers", "changes", "cores", "errors", "indexing", "linkable", "loopback", "names", "newest", "progress",
    "rates", "references", "remembering", "summary", "terminal", "windows",
]  # fmt: skip

ROOM_ORDER = "a room imports only rooms below it"
CYCLES = "no two files import each other"
REFERENCE = "the reference imports leaves only"
DATASETS_USERS = "only apps, headrace_bench, demo and lesson import the datasets"
DATASETS = "the datasets import no engine"
BELOW_DASHBOARD = "nothing below the dashboard imports it"
DASHBOARD = "the dashboard sees metrics and public names only"

FORBIDDEN = [
    ("headrace.memory", "headrace.runtime", ROOM_ORDER),
    ("headrace.errors", "headrace.expressions", ROOM_ORDER),
    ("headrace.errors", "headrace.names", ROOM_ORDER),
    ("headrace.lesson", "headrace.tour", ROOM_ORDER),
    ("headrace.report", "headrace.apps", ROOM_ORDER),
    ("headrace.expressions", "headrace.memory", ROOM_ORDER),
    ("headrace.metrics", "headrace.workers", ROOM_ORDER),
    ("headrace.codegen", "headrace.gates", ROOM_ORDER),
    ("headrace.codegen", "headrace.workers", ROOM_ORDER),
    ("headrace.gates", "headrace.elastic", ROOM_ORDER),
    ("headrace.egress", "headrace.elastic", ROOM_ORDER),
    ("headrace.checkpoints", "headrace.runtime", ROOM_ORDER),
    ("headrace.control", "headrace.elastic", ROOM_ORDER),
    ("headrace.runtime", "headrace.elastic", ROOM_ORDER),
    ("headrace.plan", "headrace.elastic", ROOM_ORDER),
    ("headrace.metrics", "headrace.ingress", ROOM_ORDER),
    ("headrace.ingress", "headrace.spark", ROOM_ORDER),
    ("headrace.ingress", "headrace.gates", ROOM_ORDER),
    ("headrace.runtime", "headrace.stream", ROOM_ORDER),
    ("headrace.spark", "headrace.apps", ROOM_ORDER),
    ("headrace.ordering", "headrace.transactions", ROOM_ORDER),
    ("headrace.elastic", "headrace.ordering", ROOM_ORDER),
    ("headrace.synchronization", "headrace.elastic", ROOM_ORDER),
    ("headrace.reference", "headrace.plan", ROOM_ORDER),
    ("headrace.reference", "headrace.kernel", REFERENCE),
    ("headrace.reference", "numpy", REFERENCE),
    ("headrace.spark", "headrace_datasets", DATASETS_USERS),
    ("headrace.memory", "headrace_datasets", DATASETS_USERS),
    ("headrace.cli", "headrace_datasets", DATASETS_USERS),
    ("headrace.tour", "headrace_datasets", DATASETS_USERS),
    ("headrace_widgets", "headrace_datasets", DATASETS_USERS),
    ("headrace_datasets", "headrace.gates", DATASETS),
    ("headrace_datasets", "headrace_bench", DATASETS),
    ("headrace.runtime", "headrace_widgets", BELOW_DASHBOARD),
    ("headrace_bench", "headrace_widgets", BELOW_DASHBOARD),
    ("headrace_widgets", "headrace.runtime", DASHBOARD),
    ("headrace_widgets", "headrace_datasets", DASHBOARD),
]

ALLOWED = [
    ("headrace.apps", "headrace_datasets"),
    ("headrace.demo", "headrace_datasets"),
    ("headrace.lesson", "headrace_datasets"),
    ("headrace_bench", "headrace_datasets"),
    ("headrace_bench", "headrace.elastic"),
    ("headrace.reference", "headrace.windows"),
    ("headrace.stream", "headrace.elastic"),
    ("headrace.elastic", "headrace.runtime"),
    ("headrace.elastic", "headrace.gates"),
    ("headrace.ordering", "headrace.ingress"),
    ("headrace.transactions", "headrace.control"),
    ("headrace.runtime", "headrace.spark"),
    ("headrace_widgets", "headrace.metrics"),
    ("headrace_widgets", "headrace"),
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
    for package in ("headrace", "headrace_bench", "headrace_widgets", "headrace_datasets"):
        (tmp_path / package).mkdir(exist_ok=True)
        (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    return tmp_path


def add_import(house, importer, imported):
    place = house / importer.replace(".", "/")
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    # Inside a function, where an import is easily overlooked.
    file.write_text(file.read_text() + f"def later():\n    import {imported}\n")


def test_example_the_project_keeps_its_contracts():
    status, broken, text = lint(ROOT, [ROOT / "toolkit", ROOT / "widgets", ROOT / "datasets"])
    assert (status, broken) == (0, []), text


def test_example_what_is_allowed(house):
    for importer, imported in ALLOWED:
        add_import(house, importer, imported)
    status, broken, text = lint(house, [house])
    assert (status, broken) == (0, []), text


@pytest.mark.slow
@pytest.mark.parametrize(("importer", "imported", "contract"), FORBIDDEN)
def test_example_what_is_forbidden(house, importer, imported, contract):
    add_import(house, importer, imported)
    status, broken, text = lint(house, [house])
    assert status == 1, text
    assert contract in broken, text


def test_example_two_files_of_a_room_must_not_import_each_other(house):
    for name, other in (("one", "another"), ("another", "one")):
        (house / "headrace" / "gates" / f"{name}.py").write_text(f"def later():\n    import headrace.gates.{other}\n")
    status, broken, text = lint(house, [house])
    assert (status, broken) == (1, [CYCLES]), text


def test_example_each_room_is_forbidden_to_the_reference_and_to_the_dashboard(house):
    """Rooms are listed by name in these two contracts: a new one must not be forgotten."""
    rooms = set(ROOMS)
    for room in rooms - {"reference"}:
        add_import(house, "headrace.reference", f"headrace.{room}")
    for room in rooms - {"metrics"}:
        add_import(house, "headrace_widgets", f"headrace.{room}")
    _, broken, text = lint(house, [house])
    assert {REFERENCE, DASHBOARD} <= set(broken), text
    for contract, importer, seen in (
        (REFERENCE, "headrace.reference", "reference"),
        (DASHBOARD, "headrace_widgets", "metrics"),
    ):
        # What is said under the heading of this contract: the order of rooms says some of it too.
        said = text.partition(f"{contract}\n{'-' * len(contract)}\n")[2].partition("\n---")[0]
        missing = {room for room in rooms - {seen} if f"{importer} is not allowed to import headrace.{room}:" not in said}
        assert missing == set(), said


@pytest.mark.parametrize("name", [n for n in hr.__all__ if isinstance(getattr(hr, n), ModuleType)])
def test_example_what_is_a_module_of_hr_can_be_imported_by_that_name(name):
    module = importlib.import_module(f"headrace.{name}")
    assert getattr(hr, name) is module
    assert all(hasattr(module, public) for public in getattr(module, "__all__", ()))


def members(room):
    """Names of the files and rooms in a room."""
    return {
        entry.stem
        for entry in room.iterdir()
        if (entry.is_dir() and any(entry.glob("*.py"))) or entry.suffix == ".py"
    } - {"__init__", "__main__"}


def test_example_rooms_are_known_to_the_contracts():
    """A new room or file of the toolkit must be given its place in the contracts above, and here."""
    assert members(HOUSE) == set(ROOMS) | set(FILES) - {"__main__"}  # which is `cli`, by another name


def test_example_the_map_of_the_house_shows_every_room():
    """`help(headrace)` names what there is."""
    _, _, after = hr.__doc__.partition("The packages and modules of the source")
    drawn = set(re.findall(r"\w+", after.partition("Two more packages")[0]))
    assert members(HOUSE) - drawn == set()


def drawn_levels(page):
    """The levels of the house that CONTRIBUTING draws, from above, as the contracts spell them; last the leaves."""
    drawing = page.partition("\nThe house, ")[2].split("```")[1]
    names = [re.split(" {3,}", line)[0] for line in drawing.strip().splitlines()]
    return [" ".join(level.split()) for line in names for level in line.split(">")]


def contract(name):
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = [contract for contract in contracts if contract["name"] == name]
    return found


def contract_levels():
    """The levels of the contract, from above; what lies below the reference is one level, the leaves."""
    layers = contract(ROOM_ORDER)["layers"]
    leaves = layers.index("reference") + 1
    return [*layers[:leaves], " ".join(layers[leaves:]).replace("|", " ")]


def test_example_the_drawing_of_the_house_is_that_of_the_contracts():
    *drawn, leaves = drawn_levels((ROOT / "CONTRIBUTING.md").read_text())
    main, *above, all_leaves = contract_levels()
    assert main == "__main__"
    assert drawn == above
    assert set(leaves.removesuffix(" ...").split()) < set(all_leaves.split())


def test_example_every_allowed_importer_of_the_datasets_imports_them():
    """No contract has an exception that nothing uses."""
    for importer in contract(DATASETS_USERS)["allowed_importers"]:
        place = ROOT / "toolkit" / importer.replace(".", "/")
        files = [*place.rglob("*.py")] or [place.with_suffix(".py")]
        assert any(re.search(r"^ *(from|import) headrace_datasets\b", file.read_text(), re.MULTILINE) for file in files), importer


@pytest.mark.parametrize(
    ("right", "wrong"), [("runtime > control", "control > runtime"), ("elastic |", "elastic"), ("plan > ", "")]
)
def test_planted_another_drawing_is_seen(right, wrong):
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert page.count(right) == 1
    assert drawn_levels(page.replace(right, wrong))[:-1] != contract_levels()[1:-1]


@pytest.mark.parametrize("engine", ["elastic", "transactions", "ordering", "synchronization"])
def test_example_what_all_engines_have_is_in_files_of_the_same_names(engine):
    sentence = (ROOT / "CONTRIBUTING.md").read_text().partition("in files of the same names: ")[2].partition(".\n")[0]
    names = set(re.findall(r"`(\w+)`", sentence))
    assert {"arrays", "configuration"} < names <= members(HOUSE / engine)


ROOMS_WITH_TABLE = [init.parent for init in sorted(HOUSE.rglob("__init__.py")) if init.parent.name not in ("headrace", "apps")]


@pytest.mark.parametrize("room", ROOMS_WITH_TABLE, ids=lambda room: str(room.relative_to(HOUSE)))
def test_example_the_table_of_a_room_names_its_files(room):
    table = (room / "__init__.py").read_text()
    assert set(re.findall(r"^``(\w+)``  ", table, re.MULTILINE)) <= members(room)
    assert members(room) <= set(re.findall(r"``(\w+)``", table))
