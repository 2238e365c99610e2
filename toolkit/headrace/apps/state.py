"""``headrace run --state DIR``: the tables of a transactional application after the last event, a file each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.egress.sinks import ParquetSink
from headrace.errors import OutputError
from headrace.ingress.input_errors import no_file_at


def check_folder(folder: str, tables: Sequence[str], others: Sequence[str]) -> None:
    """Raise `OutputError` if a folder cannot be used for the tables.

    Parameters
    ----------
    tables : sequence of str
        Tables whose files it will have.
    others : sequence of str
        Paths of the other files of the command.
    """
    if not folder:
        raise OutputError("--state '': an empty path; give the path of a folder")
    kind = no_file_at(folder) or ("a file" if os.path.exists(folder) else "a directory")
    if kind != "a directory":
        raise OutputError(f"--state {folder!r} is {kind}; give the path of a folder")
    taken = {os.path.realpath(path): path for path in others}
    for name in tables:
        path = _path(folder, name)
        if os.path.realpath(path) in taken:
            raise OutputError(
                f"--state {folder!r}: {str(path)!r} is also {taken[os.path.realpath(path)]!r}, another file of this command;"
                f" give another folder"
            )
        if kind := no_file_at(path):
            raise OutputError(f"--state {folder!r}: {str(path)!r} is {kind}; give another folder, or remove it")


@contextmanager
def state_files(folder: str | None, tables: Sequence[str]) -> Iterator[Callable[[Any], None]]:
    """Create the folder, and check now whether the files can be written.

    Yields a function that takes the finished run and completes the files. They get their names at the end, all of them
    or, if something fails, none, and then the folder is as it was.
    """
    if folder is None:
        yield lambda run: None
        return
    with ExitStack() as undo:
        for made in _make(folder):
            undo.callback(_remove, made)
        sinks = {name: ParquetSink(_path(folder, name)) for name in tables}
        for sink in sinks.values():
            undo.callback(sink.abort)
            sink.check()

        def write(run: Any) -> None:
            for name, sink in sinks.items():
                content = numbers(run.tables[name].to_arrow())
                sink.open(content.schema)
                for batch in content.to_batches():
                    sink.write(batch)
                sink.complete()

        yield write
        for sink in sinks.values():
            sink.publish()
        undo.pop_all()


def numbers(content: pa.Table) -> pa.Table:
    """Convert a table's content to int64, with sizes in place of lists and sets.

    Examples
    --------
    >>> numbers(pa.table({"segment": [0, 1], "vehicles": [[7, 9], []]})).to_pydict()
    {'segment': [0, 1], 'vehicles': [2, 0]}
    """
    columns = [pc.list_value_length(column) if pa.types.is_list(column.type) else column for column in content.columns]
    return pa.table([column.cast(pa.int64()) for column in columns], names=content.column_names)


def _path(folder: str, table: str) -> Path:
    return Path(folder) / f"{table}.parquet"


def _make(folder: str) -> list[Path]:
    """Create a folder and its parents; returns those created, the outermost first."""
    missing = [path for path in (Path(folder), *Path(folder).parents) if not path.exists()]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        for path in missing:
            _remove(path)
        raise OutputError(
            f"--state {folder!r} cannot be made ({error.strerror}); give a folder in a directory that is writable"
        ) from None
    return missing[::-1]


def _remove(folder: Path) -> None:
    with suppress(OSError):  # another process may have put something there
        folder.rmdir()
