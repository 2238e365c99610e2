"""Method: the files that say what must be installed are read and compared with each other.

What this cannot see: whether conda resolves environment.yml, and whether the registry still has the
locked versions.
"""

import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCK = (ROOT / "requirements.lock").read_text()
PINS = [
    (lines[0], [line.strip() for line in lines[1:]])
    for lines in (block.split(" \\\n") for block in re.split(r"\n(?! )", LOCK.rstrip()) if not block.startswith("#"))
]
"""Each package with its version, as `Requirement` reads it, and the options that follow."""
SERIES = ("3.11", "3.12", "3.13")
FULL = {"3.11": "3.11.0", "3.12": "3.12.0", "3.13": "3.13.0"}


def bounds(texts):
    """Read requirements as {package: bounds}."""
    found = [Requirement(text) for text in texts]
    return {canonicalize_name(one.name): one.specifier for one in found}


def locked(series, platform):
    """Read what the lock file gives one Python: {package: version}."""
    where = {"python_version": series, "python_full_version": FULL[series], "sys_platform": platform}
    found = {}
    for line, _ in PINS:
        one = Requirement(line)
        if one.marker is None or one.marker.evaluate(where):
            assert canonicalize_name(one.name) not in found, f"{one.name} is there twice for {series}"
            found[canonicalize_name(one.name)] = str(one.specifier).removeprefix("==")
    return found


def test_example_conda_has_the_bounds_of_pyproject():
    entries = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pip,) = [entry["pip"] for entry in entries if isinstance(entry, dict)]
    conda = bounds([entry for entry in entries if isinstance(entry, str)])
    from_pip = bounds([entry for entry in pip if not entry.startswith("-")])
    assert conda.pop("python") == SpecifierSet(PROJECT["requires-python"])
    assert conda.pop("openjdk") == SpecifierSet(">=17")
    assert conda.pop("pip") == SpecifierSet("")
    assert conda | from_pip == bounds(PROJECT["dependencies"])
    assert not conda.keys() & from_pip.keys()
    assert "--no-deps --editable ." in pip


def test_example_the_lock_names_versions_with_hashes_and_nothing_else():
    """With --require-hashes pip refuses a file that is not named here, and a package without hashes."""
    line = re.compile(
        r'[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+( ; python_version (<=|>=|==) "3\.1[123]"| ; sys_platform == "(linux|darwin)")?'
    )
    assert [text for text, _ in PINS if not line.fullmatch(text)] == []
    wrong = {
        text: options
        for text, options in PINS
        if not options or [one for one in options if not re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one)]
    }
    assert wrong == {}
    assert "://" not in LOCK
    assert "install --quiet --require-hashes --requirement requirements.lock" in (ROOT / "Makefile").read_text()


def test_example_the_lock_is_sorted():
    names = [text.split("==")[0].lower() for text, _ in PINS]
    assert names == sorted(names)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("series", SERIES)
def test_example_the_lock_satisfies_the_bounds(series, platform):
    versions = locked(series, platform)
    asked = bounds(PROJECT["dependencies"] + EXTRAS["java"] + EXTRAS["dev"])
    missing = sorted(asked.keys() - versions.keys())
    outside = {
        name: versions[name] for name in asked.keys() & versions.keys() if versions[name] not in asked[name]
    }
    assert (missing, outside) == ([], {})


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="not a platform of the lock file")
def test_example_the_lock_has_all_that_is_needed_here():
    """With --require-hashes pip takes nothing that is not in the file, so nothing may be missing from it.

    What other platforms need is known to .ci/lock.py alone.
    """
    versions = locked(f"{sys.version_info.major}.{sys.version_info.minor}", sys.platform)
    missing = {}
    for name in versions:
        try:
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for one in map(Requirement, needed):
            if (one.marker is None or one.marker.evaluate({"extra": ""})) and canonicalize_name(one.name) not in versions:
                missing[one.name] = name
    assert missing == {}


def test_example_one_series_everywhere():
    classifiers = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if ":: 3." in text]
    assert tuple(classifiers) == SERIES
    supported = SpecifierSet(PROJECT["requires-python"])
    assert [series for series in ("3.10", *SERIES, "3.14") if f"{series}.1" in supported] == list(SERIES)


def test_example_the_house():
    """Each folder holds typed packages and nothing else: a package `datasets` would shadow others."""
    houses = {"toolkit": {"headrace", "headrace_bench"}, "widgets": {"headrace_widgets"}, "datasets": {"headrace_datasets"}}
    for room, packages in houses.items():
        entries = [
            entry.name for entry in (ROOT / room).iterdir() if not entry.name.startswith((".", "__pycache__"))
        ]
        assert set(entries) == packages
        for package in packages:
            assert (ROOT / room / package / "py.typed").is_file()
            assert (ROOT / room / package / "__init__.py").is_file()


def test_example_the_licence():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["license"] == "Apache-2.0"
