"""What begins with an underscore is used by its own room only.

Property    `thing._name`, `from headrace.room.file import _name` and `getattr(thing, "_name")` stand only in a room that
            defines `_name` itself. A room is a folder or file directly in a package: `headrace.gates`, `headrace.tour`;
            of the other packages, the whole package.
Cannot see  a name that two rooms define, used across them; a name put together while the program runs.
"""

import ast
import itertools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("toolkit/headrace", "toolkit/headrace_bench", "widgets/headrace_widgets", "datasets/headrace_datasets")

PUBLIC = {"_asdict", "_attributes", "_exit", "_fields", "_getframe", "_replace"}
"""Documented by Python, whatever they look like."""
PYSPARK = {"_activeSession", "_active_spark_context", "_gateway", "_instantiatedSession", "_jvm"}
"""PySpark's: code that ends a dead session assigns to them, which does not make them that room's."""


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def rooms_of(root):
    """Room -> its files, parsed."""
    rooms = {}
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            first = file.relative_to(root / package).parts[0]
            name = f"headrace.{first.removesuffix('.py')}" if package == "toolkit/headrace" else Path(package).name
            rooms.setdefault(name, []).append((file.relative_to(root), ast.parse(file.read_text())))
    return rooms


def defined_in(tree):
    """Private names that a file gives to something, members included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def used_in(tree):
    """Line and name of what a file takes from something else."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str):
                yield node.lineno, node.args[1].value


def strangers(root):
    """Uses of a private name of another room, as ``file:line name``."""
    rooms = rooms_of(root)
    names = {room: itertools.chain(*(defined_in(tree) for _, tree in files)) for room, files in rooms.items()}
    defined = {room: set(filter(is_private, given)) for room, given in names.items()}
    ours = set().union(*defined.values()) - PUBLIC - PYSPARK
    return [
        f"{file}:{line} {name}"
        for room, files in rooms.items()
        for file, tree in files
        for line, name in used_in(tree)
        if name in ours and name not in defined[room]
    ]


def test_example_no_room_uses_what_is_private_to_another():
    assert strangers(ROOT) == []


@pytest.mark.parametrize(
    "use",
    ["thing._owners\n", "from headrace.gates.log import _owners\n", "getattr(thing, '_owners', None)\n"],
    ids=["attribute", "import", "getattr"],
)
def test_planted_a_use_from_another_room_is_seen(tmp_path, use):
    for package in PACKAGES:
        (tmp_path / package).mkdir(parents=True)
    house = tmp_path / "toolkit/headrace"
    (house / "gates").mkdir()
    (house / "gates/log.py").write_text("class Log:\n    def __init__(self):\n        self._owners = 1\n")
    (house / "gates/reader.py").write_text("def read(log):\n    return log._owners\n")
    assert strangers(tmp_path) == []
    (house / "report.py").write_text(use)
    assert strangers(tmp_path) == ["toolkit/headrace/report.py:1 _owners"]
