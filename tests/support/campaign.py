"""Cases that only `make campaign` runs, not the everyday tests."""

from typing import Any

import pytest


def rarely(*cases: Any) -> list[Any]:
    """Give cases for `parametrize` that only the campaign runs; a tuple is one case of several parameters."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.campaign) for case in cases]
