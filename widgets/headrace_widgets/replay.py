"""Make the reconfigurations of one run again on another."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.errors import RunStoppedError

_POLL_S = 0.02


def replay(changes: str | Path | list[dict[str, Any]], run: Any) -> threading.Thread:
    """Ask another run for the same threads and mappings, at the same places of its stream.

    Parameters
    ----------
    changes : path or list of dict
        What the dashboard exported as JSON, or `Dashboard.changes.records()`.
    run : Run
        Of the same query; operators are found by name.

    Returns
    -------
    Thread
        It ends when all have been asked for or the run is over.

    Raises
    ------
    ValueError
        A file that holds something else.

    Notes
    -----
    A change is asked for when as many tuples have been added as before; it takes effect a moment later. Where
    the very tuple matters, plan it: ``start(reconfigure=[(tuples, threads), ...])``.
    """
    records = json.loads(Path(changes).read_text()) if isinstance(changes, (str, Path)) else changes
    needed = {"operator", "members", "owners", "tuples", "outcome"}
    if not isinstance(records, list) or not all(
        isinstance(one, dict) and needed <= one.keys() for one in records
    ):
        raise ValueError(
            f"replay({changes!r}): not a list of changes; export one from the dashboard as changes.json"
        )
    done = [one for one in records if one["outcome"] == "done" and one["tuples"] is not None]
    thread = threading.Thread(target=_play, args=(done, run), name="headrace-replay", daemon=True)
    thread.start()
    return thread


def _play(records: list[dict[str, Any]], run: Any) -> None:
    several = len(getattr(run, "operators", ())) > 1
    for record in sorted(records, key=lambda one: one["tuples"]):
        name = record["operator"]
        while run.metrics().operators[name].added < record["tuples"]:
            if run.state != "running":
                return
            time.sleep(_POLL_S)
        handle = run[name] if several else run
        owners = [owner for owner, count in record["owners"] for _ in range(count)]
        with suppress(RunStoppedError):  # it may end this very moment
            handle.reconfigure(
                threads=record["members"], mapping=type(handle.mapping)(owners), reason="replay"
            ).wait()
