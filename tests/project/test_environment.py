"""Method: the files that say what must be installed are read and compared with each other.

What this cannot see: whether conda resolves environment.yml, and whether the registry still has the
locked versions.
"""

import re
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
SERIES = ("3.11", "3.12", "3.13")
FULL = {"3.11": "3.11.0", "3.12": "3.12.0", "3.13": "3.13.0"}


def bounds(texts):
    """Read requirements as {package: bounds}."""
    found = [Requirement(text) for text in texts]
    return {canonicalize_name(one.name): one.specifier for one in found}


def locked(series):
    """Read what the lock file gives one Python on Linux: {package: version}."""
    where = {"python_version": series, "python_full_version": FULL[series], "sys_platform": "linux"}
    found = {}
    for line in LOCK.splitlines():
        if line.startswith("#"):
            continue
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


def test_example_the_lock_names_versions_and_nothing_else():
    line = re.compile(r'[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+( ; python_version (<=|>=|==) "3\.1[123]")?')
    bad = [text for text in LOCK.splitlines() if not text.startswith("#") and not line.fullmatch(text)]
    assert bad == []
    assert "://" not in LOCK


def test_example_the_lock_is_sorted():
    names = [text.split("==")[0].lower() for text in LOCK.splitlines() if not text.startswith("#")]
    assert names == sorted(names)


@pytest.mark.parametrize("series", SERIES)
def test_example_the_lock_satisfies_the_bounds(series):
    versions = locked(series)
    asked = bounds(PROJECT["dependencies"] + EXTRAS["java"] + EXTRAS["dev"])
    missing = sorted(asked.keys() - versions.keys())
    outside = {
        name: versions[name] for name in asked.keys() & versions.keys() if versions[name] not in asked[name]
    }
    assert (missing, outside) == ([], {})


def test_example_one_series_everywhere():
    classifiers = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if ":: 3." in text]
    assert tuple(classifiers) == SERIES
    supported = SpecifierSet(PROJECT["requires-python"])
    assert [series for series in ("3.10", *SERIES, "3.14") if f"{series}.1" in supported] == list(SERIES)


def test_example_the_house():
    """Each room holds one typed package and nothing else: a package `datasets` would shadow others."""
    for room in ("toolkit", "widgets", "datasets"):
        entries = [
            entry.name for entry in (ROOT / room).iterdir() if not entry.name.startswith((".", "__pycache__"))
        ]
        (package,) = entries
        assert package == {"toolkit": "headrace"}.get(room, f"headrace_{room}")
        assert (ROOT / room / package / "py.typed").is_file()
        assert (ROOT / room / package / "__init__.py").is_file()


def test_example_the_licence():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["license"] == "Apache-2.0"
