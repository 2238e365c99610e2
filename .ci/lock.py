"""Write requirements.lock: what pip resolves for each supported Python, in one file with environment markers.

    python .ci/lock.py python3.11 python3.12 python3.13

Each interpreter must be one of the supported series and have pip. Nothing is installed: pip only reports
what it would install for the project's dependencies with the extras ``java`` and ``dev``. The file names
versions, never where they came from.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
SERIES = ("3.11", "3.12", "3.13")

CONSTRAINTS = ("soupsieve<3",)  # 3.0 needs Python 3.11.5, and Debian 12 has 3.11.2
"""Of packages that others bring along."""

HEADER = """\
# Exact versions of everything headrace needs to run and to be checked, for Python 3.11 to 3.13.
# Written by .ci/lock.py from the bounds in pyproject.toml: do not edit by hand.
"""


def requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return project["dependencies"] + extras["java"] + extras["dev"]


def resolve(python: str) -> tuple[str, dict[str, str]]:
    """Ask pip under one interpreter: its series, and {package: version}."""
    series = subprocess.run(
        [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    if series not in SERIES:
        raise SystemExit(f"{python} is Python {series}; this project supports {', '.join(SERIES)}")
    with tempfile.TemporaryDirectory() as scratch:
        # An empty environment, so that what is already installed cannot hide a requirement.
        subprocess.run([python, "-m", "venv", f"{scratch}/venv"], check=True)
        report = f"{scratch}/report.json"
        constraints = Path(scratch, "constraints.txt")
        constraints.write_text("\n".join(CONSTRAINTS) + "\n")
        subprocess.run(
            [
                f"{scratch}/venv/bin/python",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--dry-run",
                "--report",
                report,
                "--constraint",
                str(constraints),
                *requirements(),
            ],
            check=True,
        )
        packages = json.loads(Path(report).read_text())["install"]
    return series, {p["metadata"]["name"]: p["metadata"]["version"] for p in packages}


def marker(where: set[str]) -> str:
    """Say in which of the supported series a line holds."""
    if where == set(SERIES):
        return ""
    known = sorted(where)
    if known == list(SERIES[: len(known)]):
        return f' ; python_version <= "{known[-1]}"'
    if known == list(SERIES[-len(known) :]):
        return f' ; python_version >= "{known[0]}"'
    return " ; " + " or ".join(f'python_version == "{s}"' for s in known)


def main(pythons: list[str]) -> None:
    resolved = dict(resolve(python) for python in pythons)
    if set(resolved) != set(SERIES):
        raise SystemExit(f"one interpreter for each of {', '.join(SERIES)} is needed, got {sorted(resolved)}")
    lines: dict[tuple[str, str], set[str]] = {}
    for series, packages in resolved.items():
        for name, version in packages.items():
            lines.setdefault((name, version), set()).add(series)
    body = [
        f"{name}=={version}{marker(where)}\n"
        for (name, version), where in sorted(lines.items(), key=lambda line: (line[0][0].lower(), line[0][1]))
    ]
    LOCK.write_text(HEADER + "".join(body))
    print(f"{LOCK.name}: {len(body)} lines")


if __name__ == "__main__":
    main(sys.argv[1:])
