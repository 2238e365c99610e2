"""The registry of the dashboard that each notebook cell made: a cell that is run again replaces its own."""

from __future__ import annotations

import sys
import threading
from typing import Any

_lock = threading.Lock()
_by_cell: dict[object, Any] = {}


def shell() -> Any:
    """Return the IPython shell; None outside IPython."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    return get_ipython()


def this_cell() -> object:
    """Identify the cell that runs now; None outside notebooks."""
    here = shell()
    parent = getattr(here, "get_parent", dict)() if here is not None else {}
    return (parent.get("metadata") or {}).get("cellId")


def execution() -> object:
    """Identify the present execution of a cell; None outside a kernel."""
    here = shell()
    return None if here is None or not hasattr(here, "kernel") else here.execution_count


def take_over(dashboard: Any) -> None:
    """Register this cell's dashboard; close the one it had, if any, and stop the runs that only that one shows."""
    cell = this_cell()
    if cell is None:
        return
    with _lock:
        previous = _by_cell.get(cell)
        _by_cell[cell] = dashboard
    if previous is not None:
        previous.close()
        for run in previous.runs:
            if not any(run is one for one in dashboard.runs):
                run.stop()


def forget(dashboard: Any) -> None:
    """Remove a dashboard that was closed."""
    with _lock:
        for cell in [cell for cell, one in _by_cell.items() if one is dashboard]:
            del _by_cell[cell]
