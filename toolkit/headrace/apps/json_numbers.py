"""Numbers of a report in JSON, which has no NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping


def finite(value: float | None) -> float | None:
    """Return the number, or None if it is not finite.

    Examples
    --------
    >>> finite(1.5), finite(math.nan)
    (1.5, None)
    """
    return value if value is not None and math.isfinite(value) else None


def quantiles(found: Mapping[str, float]) -> dict[str, float | None]:
    """Return the quantiles of a histogram that a report has; None where there were no observations.

    Examples
    --------
    >>> quantiles({"p50": 1.0, "p90": 2.0, "p99": 3.0, "max": 3.5})
    {'p50': 1.0, 'p99': 3.0, 'max': 3.5}
    """
    return {name: finite(found.get(name)) for name in ("p50", "p99", "max")}
