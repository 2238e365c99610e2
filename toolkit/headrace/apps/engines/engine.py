"""The interface of what an engine adds to ``headrace run``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from headrace.apps.app import App
from headrace.apps.asked import Asked
from headrace.apps.flag import Flag


class Engine:
    """An engine as the command line sees it: its declarations, and, as an instance for one command, their effects.

    Parameters
    ----------
    app : App
        One of its applications.
    asked : Asked
    max_threads : int

    Attributes
    ----------
    name : str
        As of `App.engine`.
    runs, title : str
        One word for its applications, and what its flags are options of; both plural.
    flags : sequence of Flag
        Flags that its applications take and those of other engines do not.
    refusal : str
        Why an application of another engine cannot use these, to follow that one's name; "": that engine says so in `lacks`.
    lacking : str
        What its applications are, to stand between the name of one and the text from `lacks`.
    lacks : mapping
        Flag of another engine -> why this engine has no such thing.
    batch, sources : str
        The meaning of ``--batch`` and ``--sources`` for it, where that differs from their meaning for the others.
    as_flags : sequence of (str, str)
        Texts of errors that name parameters, and their replacements for a command line.
    """

    name: ClassVar[str]
    runs: ClassVar[str]
    title: ClassVar[str]
    flags: ClassVar[Sequence[Flag]] = ()
    refusal: ClassVar[str] = ""
    lacking: ClassVar[str] = ""
    lacks: ClassVar[Mapping[str, str]] = {}
    batch: ClassVar[str] = ""
    sources: ClassVar[str] = ""
    as_flags: ClassVar[Sequence[tuple[str, str]]] = ()

    def __init__(self, app: App, asked: Asked, max_threads: int):
        self.app, self.asked, self.max_threads = app, asked, max_threads

    def given(self, flag: str) -> Any:
        """Return the value given for one of its flags; None if none was given."""
        return self.asked.flags.get(flag)

    def check(self) -> None:
        """Raise `ParameterError` where its flags do not fit together."""

    @property
    def files_read(self) -> list[str]:
        """Return the files that its flags name for reading."""
        return []

    def check_paths(self, others: Sequence[str]) -> None:
        """Raise an error if a folder that its flags name cannot be used; `others` are the files of the command."""

    def read_files(self) -> None:
        """Read the files that its flags name."""

    @property
    def rows_at_a_time(self) -> int | None:
        """Return the rows of a batch that a source gives; None: the default."""
        return self.asked.batch

    def dealing(self) -> Any:
        """Return the `dealing` for `open_inputs`, which assigns rows to streams; None: inputs are cut into sources."""
        return None

    @contextmanager
    def around(self) -> Iterator[Callable[[Any], None]]:
        """A context for the duration of the command; it yields a function to be called with the run when it is over."""
        yield lambda run: None

    def start_options(self) -> dict[str, Any]:
        """Return the options of `start` beside those for every engine."""
        return {flag.name: value for flag in self.flags if flag.is_option and (value := self.given(flag.name)) is not None}

    @property
    def compares(self) -> bool:
        """Whether the application's operator counts comparisons."""
        return False

    def figures(self, run: Any, operator: Any, seconds: float) -> dict[str, Any]:
        """Return further figures for the report; `operator` has the metrics of the last operator."""
        return {}
