"""Write requirements.lock: the versions for each supported Python and platform, with the hashes of their files.

    python .ci/lock.py [--keep]

Nothing is installed but uv, in a scratch environment: it resolves the project's dependencies with the extras ``java``
and ``dev`` for each Python and platform, whichever this one is. With ``--keep`` the versions that are locked now stay,
where the bounds allow it. The file names versions and hashes, never where they came from; the hashes are those of all
files of a version, so that every platform finds its own.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
UV = "uv==0.13.9"
SERIES = ("3.11", "3.12", "3.13")
PLATFORMS = {"x86_64-manylinux_2_28": "linux", "aarch64-manylinux_2_28": "linux", "aarch64-apple-darwin": "darwin"}
"""uv's name of a platform -> `sys.platform` there."""

CONSTRAINTS = ("soupsieve<3",)  # 3.0 needs Python 3.11.5, and Debian 12 has 3.11.2
"""Of packages that others bring along."""

HEADER = """\
# Exact versions of everything headrace needs to run and to be checked, for Python 3.11 to 3.13 on Linux (x86-64,
# aarch64) and macOS (arm64), with the hashes of their files: pip refuses any other file.
# Written by .ci/lock.py from the bounds in pyproject.toml: do not edit by hand.
"""

_LINE = re.compile(r"(?m)^(?P<name>[\w.-]+)==(?P<version>\S+)(?P<hashes>(?:\s+\\\n\s+--hash=sha256:[0-9a-f]{64})+)$")


def requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return project["dependencies"] + extras["java"] + extras["dev"]


def locked_now() -> list[str]:
    """Read the pins of the present file, without hashes."""
    pins = [line.removesuffix("\\").strip() for line in LOCK.read_text().splitlines()]
    return [pin for pin in pins if pin and not pin.startswith(("#", "--hash"))]


def resolve(uv: str, scratch: Path, series: str, platform: str) -> dict[tuple[str, str], set[str]]:
    """Ask uv for one Python and platform: {(package, version): hashes of its files}."""
    asked = ["--python-version", series, "--python-platform", platform, "--constraint", str(scratch / "constraints")]
    text = subprocess.run(
        [uv, "pip", "compile", *asked, "--generate-hashes", "--no-header", "--no-annotate", "--quiet", "--no-config",
         str(scratch / "requirements")],
        check=True, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip
    found = {
        (line["name"], line["version"]): set(re.findall(r"sha256:[0-9a-f]{64}", line["hashes"]))
        for line in _LINE.finditer(text)
    }
    bare = set(re.findall(r"(?m)^[\w.-]+", text)) - {name for name, _ in found}
    if bare:
        raise SystemExit(f"the index gives no sha256 hashes for {', '.join(sorted(bare))}")
    return found


def marker(where: set[tuple[str, str]]) -> str:
    """Say for which of the supported (series, platform) a line holds."""
    platforms = {PLATFORMS[platform] for _, platform in where}
    series = {one for one, _ in where}
    if where != {(s, p) for s in series for p in PLATFORMS if PLATFORMS[p] in platforms}:
        raise SystemExit(f"no simple marker says {sorted(where)}: teach it to .ci/lock.py")
    parts = [of_series(series)] + ([f'sys_platform == "{min(platforms)}"'] if len(platforms) == 1 else [])
    text = " and ".join(part for part in parts if part)
    return f" ; {text}" if text else ""


def of_series(where: set[str]) -> str:
    known = sorted(where)
    if known == list(SERIES):
        return ""
    if known == list(SERIES[: len(known)]):
        return f'python_version <= "{known[-1]}"'
    if known == list(SERIES[-len(known) :]):
        return f'python_version >= "{known[0]}"'
    if len(known) > 1:
        raise SystemExit(f"no simple marker says {known}: teach it to .ci/lock.py")
    return f'python_version == "{known[0]}"'


def main(arguments: list[str]) -> None:
    if arguments not in ([], ["--keep"]):
        raise SystemExit(__doc__)
    where: dict[tuple[str, str], set[tuple[str, str]]] = {}
    hashes: dict[tuple[str, str], set[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True)
        subprocess.run([scratch / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", UV], check=True)
        (scratch / "requirements").write_text("\n".join(requirements()))
        kept = locked_now() if arguments else []
        (scratch / "constraints").write_text("\n".join([*CONSTRAINTS, *kept]))
        for series in SERIES:
            for platform in PLATFORMS:
                for package, found in resolve(str(scratch / "venv" / "bin" / "uv"), scratch, series, platform).items():
                    where.setdefault(package, set()).add((series, platform))
                    hashes.setdefault(package, set()).update(found)
    blocks = [
        " \\\n    --hash=".join([f"{name}=={version}{marker(where[name, version])}", *sorted(hashes[name, version])])
        for name, version in sorted(where)
    ]
    LOCK.write_text(HEADER + "\n".join(blocks) + "\n")
    print(f"{LOCK.name}: {len(blocks)} packages")


if __name__ == "__main__":
    main(sys.argv[1:])
