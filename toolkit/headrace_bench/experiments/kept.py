"""Figures of an earlier run, kept with the source, with the run's date, size and machine.

A notebook can thus show an experiment's figures without running it for minutes. `python -m headrace_bench.experiments SIZE`
measures them anew.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace_bench.experiments.experiment import Experiment, Paper
from headrace_bench.experiments.figure import Box, Figure, Line
from headrace_bench.rows import Row

FOLDER = Path(__file__).parent / "figures"
_DIGITS = 5
"""Digits kept of each number: more than the measurement has."""


@dataclass(frozen=True)
class Kept:
    """A finished experiment, and the run that its figures come from.

    Parameters
    ----------
    experiment : Experiment
    size : {"tiny", "small", "full"}
    date : str
        When the run ended.
    machine : str
        Processor, system, cores, versions.
    load : float
        Other work on the machine before the run began: the mean number of other threads that wanted a core.
    two_threads, line_ns : tuple of float
        As in `headrace_bench.machine.Machine`, before the run began; empty if not measured.
    """

    experiment: Experiment
    size: str
    date: str
    machine: str
    load: float
    two_threads: tuple[float, ...] = ()
    line_ns: tuple[float, ...] = ()

    def __str__(self) -> str:
        others = "was quiet" if self.load < 0.5 else f"had other work too, a load of {self.load:.1f} before this began"
        seen = ""
        if self.two_threads:
            seen = f"; two independent threads did {_range(self.two_threads, '.1f')} times what one did"
        if self.line_ns:
            seen += f", and a cache line took {_range(self.line_ns, '.0f')} ns from one core to the other"
        return f"{self.size} size, measured on {self.date}; {self.machine}. The machine {others}{seen}"


def _range(values: Sequence[float], form: str) -> str:
    return f"{values[0]:{form}} to {values[-1]:{form}}"


def keep(
    experiment: Experiment, size: str, load: float, folder: Path = FOLDER, seen: Mapping[str, Sequence[float]] | None = None
) -> Path:
    """Write an experiment's figures into a small file; `seen` has the fields of a `headrace_bench.machine.Machine`."""
    from headrace.report import about

    fields: dict[str, Any] = asdict(experiment)
    del fields["markdown"]
    now = datetime.now(UTC).strftime("%Y-%m-%d")
    whole = {"size": size, "date": now, "machine": f"{_processor()}, {about()}", "load": load, "experiment": fields}
    whole |= {name: values for name, values in (seen or {}).items() if not math.isnan(values[0])}
    folder.mkdir(exist_ok=True)
    path = folder / f"{experiment.name}.json"
    path.write_text(json.dumps(_short(whole), separators=(",", ":"), allow_nan=False) + "\n")
    return path


def other_work(looks: int = 40, every_s: float = 0.05) -> float:
    """Sample for two seconds how many threads other than this one want a core, and return the mean.

    If the system does not report that, return its load over the last minute, which includes this process.
    """
    wanting = []
    for _ in range(looks):
        time.sleep(every_s)
        try:
            wanting.append(int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1)
        except OSError:
            return os.getloadavg()[0]
    return statistics.fmean(wanting)


def kept(name: str, folder: Path = FOLDER) -> Kept:
    """Read the figures that `keep` has written.

    Parameters
    ----------
    name : str
        One of `headrace_bench.experiments.NAMES`.

    Examples
    --------
    >>> from headrace_bench import kept
    >>> kept("q2").experiment.name
    'q2'
    """
    whole = json.loads((folder / f"{name}.json").read_text())
    fields = whole.pop("experiment")
    fields["paper"] = Paper(**fields["paper"])
    fields["rows"] = [Row(**_with_nan(row, "value")) for row in fields["rows"]]
    for figure in fields["figures"]:
        figure["lines"] = [Line(**_with_nan(line, "x", "y")) for line in figure["lines"]]
        figure["boxes"] = [Box(**box) for box in figure.get("boxes", ())]
    fields["figures"] = [Figure(**figure) for figure in fields["figures"]]
    whole |= {name: tuple(whole.get(name, ())) for name in ("two_threads", "line_ns")}
    return Kept(experiment=Experiment(**fields), **whole)


def _short(value: Any) -> Any:
    """Numbers in few digits, in JSON's terms: NaN and infinity as null."""
    if isinstance(value, dict):
        return {name: _short(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else _short(value.item())  # a NumPy scalar


def _with_nan(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        value = fields[name]
        fields[name] = [_number(each) for each in value] if isinstance(value, list) else _number(value)
    return fields


def _number(value: Any) -> Any:
    return math.nan if value is None else value


def _processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        told = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unnamed processor"
    names = [line.partition(":")[2].strip() for line in told.splitlines() if line.startswith("model name")]
    return names[0] if names else "unnamed processor"
