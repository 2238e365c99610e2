"""Check numbers that users give, Python's or NumPy's, and paths; an error says what to give instead."""

from __future__ import annotations

import math
import numbers
import os
from pathlib import Path
from typing import Any

from headrace.errors import ParameterError

_MOST_SHOWN = 160


def is_whole_number(value: Any) -> bool:
    """Whether the value is a whole number, Python's or NumPy's; a bool is not.

    Examples
    --------
    >>> is_whole_number(3), is_whole_number(3.0), is_whole_number(True)
    (True, False, False)
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether the value is a real number, Python's or NumPy's, including infinity and NaN; a bool is not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """Return what an error shows of a value: its repr, or only its type where that takes several lines or many.

    Examples
    --------
    >>> shown("ts"), shown({"a": range(3)}), shown("x" * 200)
    ("'ts'", "{'a': range(0, 3)}", '<str>')
    """
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN and "\n" not in text else f"<{type(value).__name__}>"


def whole(name: str, value: Any, least: int, most: int, instead: str = "") -> int:
    """Return a whole number within bounds, or raise `ParameterError`.

    Examples
    --------
    >>> whole("batch", 10, 1, 256)
    10
    """
    if not is_whole_number(value) or not least <= value <= most:
        raise ParameterError(f"{name}={value!r}: give a whole number from {least:,} to {most:,}{instead}")
    return int(value)


def path_of(use: str, path: Any) -> Path:
    """Return a path that a user gives, or raise `ParameterError`.

    Examples
    --------
    >>> path_of("parquet", "out.parquet").name
    'out.parquet'
    """
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise ParameterError(f"{use}({shown(path)}): give a path, as in {use}('results')")
    return Path(path)


def check_seconds(name: str, seconds: Any, least: float = 0.0) -> None:
    """Raise `ParameterError` unless the value is a finite number of seconds, and at least `least`."""
    if not is_number(seconds) or not least <= seconds < math.inf:
        raise ParameterError(f"{name}={seconds!r}: give seconds, from {least:g}")


def timeout_of(timeout: Any) -> float | None:
    """Return the most seconds to wait; None, also for an infinite number, means as long as it takes.

    Examples
    --------
    >>> timeout_of(2), timeout_of(-0.1), timeout_of(float("inf")), timeout_of(None)
    (2.0, 0.0, None, None)
    """
    if timeout is None:
        return None
    if not is_number(timeout) or math.isnan(timeout):
        raise ParameterError(f"timeout={timeout!r}: give seconds, or None to wait for as long as it takes")
    return None if timeout == math.inf else max(0.0, float(timeout))


__all__ = ["check_seconds", "is_number", "is_whole_number", "timeout_of", "whole"]
