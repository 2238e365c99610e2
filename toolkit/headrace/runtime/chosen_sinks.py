"""Choosing and opening the sinks of a run: none replaces a file in use, and all open or none does."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from headrace.egress.sink import Sink
from headrace.egress.sinks import CollectSink, FunctionSink
from headrace.errors import HeadraceError, OutputError, RunFailedError
from headrace.plan.nodes import Output, Query, SourceNode
from headrace.runtime.second_errors import told_beside


def chosen_sinks(query: Query, given: Any) -> dict[str, Sink]:
    """Return the sink of each output by its name, from what was given as `start(sink=)`.

    Raises
    ------
    OutputError
        If a sink would replace a file that the query reads, or that another one writes.
    """
    sinks = {output.name: _sink_of(output, given) for output in query.outputs}
    _check_sinks(sinks, query)
    return sinks


def open_sinks(query: Query, sinks: Mapping[str, Sink]) -> None:
    """Open the sink of each output; if one fails, those opened before it are aborted."""
    opened: list[Sink] = []
    for output in query.outputs:
        sink = sinks[output.name]
        try:
            sink.open(output.schema)
        except BaseException as error:
            with told_beside(error), ExitStack() as aborting:
                for other in opened:
                    aborting.callback(other.abort)
            if isinstance(error, HeadraceError) or not isinstance(error, Exception):
                raise
            name = type(sink).__name__
            raise RunFailedError(f"the sink ({name}) cannot be opened: {type(error).__name__}: {error}") from error
        opened.append(sink)


def _sink_of(output: Output, given: Any) -> Sink:
    """The sink of one result: the entry of its name if a dict was given."""
    chosen: Any = given.get(output.name) if isinstance(given, dict) else given
    if chosen is None:
        return CollectSink()
    sink: Sink = FunctionSink(chosen) if callable(chosen) and not hasattr(chosen, "write") else chosen
    return sink


def _check_sinks(sinks: dict[str, Sink], query: Query) -> None:
    """Raise `OutputError` if a sink would replace a file that the query reads, or that another one writes."""
    paths: dict[str, str] = {}
    for name, sink in sinks.items():
        _check_output(sink, query)
        path = getattr(sink, "path", None)
        if isinstance(path, (str, os.PathLike)):
            other = paths.setdefault(os.path.realpath(path), name)
            if other != name:
                raise OutputError(f"sink={{{name!r}: ...}}: {os.fspath(path)!r} is written by {other!r}, too; give another file")


def _check_output(sink: Sink, query: Query) -> None:
    """Raise `OutputError` if the sink would replace a file that the query reads."""
    path = getattr(sink, "path", None)
    if not isinstance(path, (str, os.PathLike)):
        return
    origins = [branch.origin for branches in query.branches.values() for branch in branches]
    for origin in origins:
        for reader in origin.readers if isinstance(origin, SourceNode) else ():
            for file in reader().files:
                if os.path.exists(path) and os.path.exists(file) and os.path.samefile(path, file):
                    raise OutputError(
                        f"output {os.fspath(path)!r} is an input of the query, which it would replace; give another file"
                    )
