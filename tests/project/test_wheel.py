"""Method: build the wheel as a release would, and look inside. Nothing is installed."""

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("headrace", "headrace_widgets", "headrace_datasets")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as opened:
        yield opened


def test_example_three_packages_and_no_benchmarks(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_example_typed(wheel, package):
    assert f"{package}/py.typed" in wheel.namelist()
    assert f"{package}/__init__.py" in wheel.namelist()


def test_example_every_file_of_the_rooms_is_there(wheel):
    """Not only Python: Spark's logging settings too."""
    for room, package in zip(("toolkit", "widgets", "datasets"), PACKAGES, strict=True):
        for file in (ROOT / room / package).rglob("*"):
            if file.suffix in (".py", ".properties", ".css", ".js", ".java"):
                assert file.relative_to(ROOT / room).as_posix() in wheel.namelist()


def test_example_no_compiled_files(wheel):
    assert [name for name in wheel.namelist() if name.endswith((".pyc", ".nbi", ".nbc"))] == []


def test_example_metadata(wheel):
    (place,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = Parser().parsestr(wheel.read(place).decode())
    assert metadata["Name"] == "headrace"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == "<3.14,>=3.11"
    assert set(metadata.get_all("Provides-Extra")) == {"dev", "java", "prometheus"}
    (scripts,) = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    assert "headrace = headrace.cli:main" in wheel.read(scripts).decode()
    assert any(name.endswith("/licenses/LICENSE") for name in wheel.namelist())
