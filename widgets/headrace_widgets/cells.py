"""Which notebook cell made which dashboard: a cell that is run again replaces its own."""

from __future__ import annotations

import sys
import threading
from typing import Any

_lock = threading.Lock()
_by_cell: dict[object, Any] = {}


def shell() -> Any:
    """The IPython shell; None outside."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    return get_ipython()


def this_cell() -> object:
    """Identify the cell that runs now; None outside notebooks."""
    here = shell()
    parent = getattr(here, "get_parent", dict)() if here is not None else {}
    return (parent.get("metadata") or {}).get("cellId")


def replace(cell: object, dashboard: Any) -> Any:
    """Remember a cell's dashboard and return the one it had, if any."""
    if cell is None:
        return None
    with _lock:
        previous = _by_cell.get(cell)
        _by_cell[cell] = dashboard
        return previous


def forget(dashboard: Any) -> None:
    """A dashboard was closed."""
    with _lock:
        for cell in [cell for cell, one in _by_cell.items() if one is dashboard]:
            del _by_cell[cell]
