"""The values read from the command line of ``headrace run``."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from headrace.apps.app import read_whole
from headrace.control.mapping import MOST_INSTANCES
from headrace.errors import ParameterError


@dataclass
class Asked:
    """The values of the flags, under the flags' names. None: not given.

    Parameters
    ----------
    options : dict, optional
        Options of the application.
    flags : dict
        Flags that an engine declares (`headrace.apps.engines`), of any engine.
    """

    app: str
    out: str
    left: str | None = None
    right: str | None = None
    report: str | None = None
    threads: int = 1
    max_threads: int | None = None
    reconfigure: str | None = None
    sources: int | None = None
    batch: int | None = None
    rate: float | None = None
    advance: str | int | None = None
    size: str | int | None = None
    spark: str | None = None
    pin: bool = False
    options: dict[str, Any] | None = None
    flags: dict[str, Any] = field(default_factory=dict)


def parse_schedule(text: str | None) -> list[tuple[Fraction, int]]:
    """Read ``"10%:4,50%:1"``: shares of the input, strictly rising, and the threads from there on.

    Examples
    --------
    >>> parse_schedule("10%:4, 50.5%:1")
    [(Fraction(1, 10), 4), (Fraction(101, 200), 1)]
    """
    schedule: list[tuple[Fraction, int]] = []
    if text is None:
        return schedule
    for entry in text.split(","):
        share_text, _, threads_text = entry.strip().partition(":")
        number, sign, rest = share_text.strip().partition("%")
        fix = 'write shares and threads as in "10%:4,50%:1"'
        if not sign or rest or not _is_decimal(number):
            raise ParameterError(f"--reconfigure {text!r}: {entry.strip()!r} has no percentage; {fix}")
        threads = read_whole(threads_text.strip(), MOST_INSTANCES)
        if threads is None:
            raise ParameterError(
                f"--reconfigure {text!r}: {entry.strip()!r} has no number of threads from 1 to {MOST_INSTANCES}; {fix}"
            )
        share = Fraction(number) / 100
        if not 0 <= share <= 1:
            raise ParameterError(f"--reconfigure {text!r}: {share_text} is not between 0% and 100%; {fix}")
        if schedule and share <= schedule[-1][0]:
            raise ParameterError(
                f"--reconfigure {text!r}: percentages must rise, and {share_text} does not; put them in order"
            )
        schedule.append((share, threads))
    return schedule


def _is_decimal(text: str) -> bool:
    whole, _, decimals = text.strip().partition(".")
    digits = whole + decimals
    return digits.isascii() and digits.isdecimal() and bool(whole)
