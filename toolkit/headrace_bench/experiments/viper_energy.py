"""Energy counters of the processor (RAPL), where the kernel shows them."""

from __future__ import annotations

from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


class EnergyCounters:
    """The counters of processor packages, ``intel-rapl:N`` (also on AMD); domains within a package are already part of it.

    Parameters
    ----------
    folder : Path

    Attributes
    ----------
    available : bool
        Whether there is a counter that can be read.
    """

    def __init__(self, folder: Path = POWERCAP):
        self._domains = []
        for domain in sorted(folder.glob("intel-rapl:*")):
            if domain.name.count(":") == 1 and _number(domain / "energy_uj") is not None:
                self._domains.append(domain)

    @property
    def available(self) -> bool:
        return bool(self._domains)

    def read(self) -> list[int]:
        """The counter of each package in microjoules; it wraps around at the end of its range."""
        return [_number(domain / "energy_uj") or 0 for domain in self._domains]

    def joules_since(self, before: list[int]) -> float:
        """Joules of all packages since `before`, a result of `read`; NaN without counters."""
        if not self._domains:
            return float("nan")
        total = 0
        for domain, was, now in zip(self._domains, before, self.read(), strict=True):
            around = (_number(domain / "max_energy_range_uj") or 0) if now < was else 0
            total += now - was + around
        return total / 1e6


def _number(path: Path) -> int | None:
    """The number in the file; None if there is no such file, or only root may read it."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
