"""What an engine adds to ``headrace run``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from headrace.apps.app import App
from headrace.apps.asked import Asked
from headrace.apps.flag import Flag


class Engine:
    """An engine, as the command line sees it: what it declares, and, made for one command, what that comes to.

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
        What its applications are, in one word, and what its flags are options of: plurals.
    flags : sequence of Flag
        Which its applications take, and those of other engines do not.
    refusal : str
        Why an application of another engine has no use for these, after that one's name; "": that engine says so, in `lacks`.
    lacking : str
        What its applications are, after the name of one and before what `lacks` says.
    lacks : mapping
        Flag of another engine -> why there is no such thing here.
    batch, sources : str
        What ``--batch`` and ``--sources`` are to it, where that is something else than to the others.
    as_flags : sequence of (str, str)
        Texts of errors that name parameters, and what to say on a command line.
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
        """What was given for one of its flags; None: nothing."""
        return self.asked.flags.get(flag)

    def check(self) -> None:
        """Raise `ParameterError` where its flags do not go together."""

    @property
    def files_read(self) -> list[str]:
        """Files that its flags name, and that are read."""
        return []

    def check_paths(self, others: Sequence[str]) -> None:
        """Raise an error if a folder that its flags name cannot be meant; `others` are the files of the command."""

    def read_files(self) -> None:
        """Read what its flags name."""

    @property
    def rows_at_a_time(self) -> int | None:
        """Rows of a batch that a source gives; None: as many as without a command line."""
        return self.asked.batch

    def dealing(self) -> Any:
        """What says of which streams the rows of inputs are, as `open_inputs` takes it; None: inputs have sources."""
        return None

    @contextmanager
    def around(self) -> Iterator[Callable[[Any], None]]:
        """What has to be in order for as long as the command takes; gives what is to be done with the run when it is over."""
        yield lambda run: None

    def start_options(self) -> dict[str, Any]:
        """What `start` takes beside what it takes for every engine."""
        return {flag.name: value for flag in self.flags if flag.is_option and (value := self.given(flag.name)) is not None}

    @property
    def compares(self) -> bool:
        """Whether the application's operator counts comparisons."""
        return False

    def figures(self, run: Any, operator: Any, seconds: float) -> dict[str, Any]:
        """What the report has besides; `operator` is what was measured of the last one."""
        return {}
