"""Repeating the reconfigurations of one run on another."""

from __future__ import annotations

import json
import reprlib
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.errors import RunStoppedError

_POLL_S = 0.02


def replay(changes: str | Path | list[dict[str, Any]], run: Any) -> threading.Thread:
    """Request the same changes from another run, at the same positions of its stream.

    Parameters
    ----------
    changes : path or list of dict
        A JSON file that the dashboard exported, or `Dashboard.changes.records()`.
    run : Run
        A run of the same query; operators are found by name.

    Returns
    -------
    Thread
        It ends when all changes have been requested or the run is over.

    Raises
    ------
    ValueError
        A file that holds something else, or changes of another query's operators; nothing is requested then.

    Notes
    -----
    A change is requested when as many tuples have been added as in the first run; it takes effect a moment later. Where
    the exact tuple matters, plan it: ``start(reconfigure=[(tuples, threads), ...])``.

    Examples
    --------
    >>> dashboard.export("changes.json")  # doctest: +SKIP
    >>> with stream.start(threads=1, max_threads=4) as again:  # doctest: +SKIP
    ...     replay("changes.json", again)
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
    for place, record in enumerate(done):
        if wrong := _wrong(record, run):
            raise ValueError(f"replay: change {place + 1} of those done has {wrong}; export the file again")
    thread = threading.Thread(target=_play, args=(done, run), name="headrace-replay", daemon=True)
    thread.start()
    return thread


def _wrong(record: dict[str, Any], run: Any) -> str:
    """Say what in a record cannot be requested; a file may hold anything, so nothing in it is expanded before."""
    names = run.metrics().operators
    if not isinstance(record["operator"], str) or record["operator"] not in names:
        return f"operator {reprlib.repr(record['operator'])}, and this run has {', '.join(map(repr, names))}"
    if not _is_count(record["tuples"]):
        return f"tuples {reprlib.repr(record['tuples'])}: not a whole number from 0"
    controls, settings = run[record["operator"]].controls, record.get("settings", {})
    if not isinstance(settings, dict) or not settings.keys() <= controls.keys():
        return f"settings {reprlib.repr(settings)}: not values of {', '.join(controls)}"
    lists_members = "mapping" in controls or record["members"] != []
    if lists_members and not _are_counts(record["members"]):
        return f"members {reprlib.repr(record['members'])}: not a list of thread numbers"
    return _wrong_owners(record["owners"], run[record["operator"]].mapping) if "mapping" in controls else ""


def _wrong_owners(runs: Any, mapping: Any) -> str:
    buckets = len(mapping.to_list())
    if not isinstance(runs, list) or not all(_are_counts(one) and len(one) == 2 for one in runs):
        return f"owners {reprlib.repr(runs)}: not a list of [thread, how many buckets]"
    if (total := sum(count for _, count in runs)) != buckets:
        return f"owners of {total:,} buckets, and there are {buckets:,}"
    return ""


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(map(_is_count, values))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _play(records: list[dict[str, Any]], run: Any) -> None:
    for record in sorted(records, key=lambda one: one["tuples"]):
        name = record["operator"]
        while run.metrics().operators[name].values["added"] < record["tuples"]:
            if run.state != "running":
                return
            time.sleep(_POLL_S)
        handle = run[name]
        controls: dict[str, Any] = dict(record.get("settings", {}))
        if record["members"]:
            # Without a mapping, only the number of threads can be requested.
            controls["threads"] = record["members"] if "mapping" in handle.controls else len(record["members"])
        if "mapping" in handle.controls:
            owners = [owner for owner, count in record["owners"] for _ in range(count)]
            controls["mapping"] = type(handle.mapping)(owners)
        with suppress(RunStoppedError):  # the run may end at this very moment
            handle.reconfigure(**controls, reason="replay").wait()
