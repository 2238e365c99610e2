"""The flags of ``headrace run`` and their ``--help``, for all applications or for one.

A command line is read with the flags of all applications, so that a flag of another application can be refused by name.
Help for one application has only what it takes: its inputs with their columns, what changes its result, and what does not.
"""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from headrace.apps import APPS
from headrace.apps.app import App, Option
from headrace.apps.engines import ENGINES, Engine
from headrace.apps.flag import one_of, whole
from headrace.control.mapping import MOST_INSTANCES
from headrace.errors import ParameterError
from headrace.ingress.readers import MOST_BATCH_ROWS
from headrace.names import closest

MOST_SOURCES = 1024
"""Each has arrays of its own in the gate."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("wordcount", "paircount", "longest", "forward"), ("tweets(n=200_000)",)),
    "scalejoin": ("joins(n=50_000)", "joins(n=50_000, side='right')"),
    "hedge": ("trades(n=50_000)",),
    "tolls": ("linear_road(n=200_000)",),
    **{name: (f"{name}(n=200_000)",) for name in ("gs", "sl", "ob", "tp")},
    "sold_together": ("store_sales(n=200_000)",),
    **dict.fromkeys(("viewed_together", "viewed_before", "abandoned"), ("clicks(n=200_000)",)),
    "declining": ("item_sales(n=200_000)", "item_categories()"),
    "mobility": ("calls(n=200_000)",),
    "eventwindow": ("eventwindow(n=200_000)", "eventwindow(n=20, side='right')"),
    "pageview": ("pageviews(n=200_000)", "pageviews(n=20, side='right')"),
    "modelfraud": ("frauds(n=200_000)", "frauds(n=20, side='right')"),
    "keycounter": ("keycounts(n=200_000)",),
    "outlier": ("connections(n=20_000)",),
    "smarthome": ("plugs(n=200_000)",),
}
"""By application, what of `headrace_datasets` makes input to try it on, the left and the right one."""

_NO_VALUE = re.compile(r"argument (--[\w-]+): expected one argument")
_MISSING = re.compile(r"the following arguments are required: (.*)")
_MOST_WIDE = 110


class Parser(argparse.ArgumentParser):
    """Reports a mistake on one line, with the fix, instead of the whole usage.

    Attributes
    ----------
    helped : str
        The command that gives more help.
    wanted : mapping of str to str
        For a required argument, what may be given.
    """

    def __init__(self, *arguments: Any, wanted: dict[str, str] | None = None, **options: Any):
        super().__init__(*arguments, allow_abbrev=False, **options)
        self.helped, self.wanted = f"{self.prog} --help", wanted or {}

    def error(self, message: str) -> NoReturn:
        if flag := _NO_VALUE.fullmatch(message):  # argparse reads a value such as -5s as a flag
            message += f", after '=' if it begins with '-': {flag[1]}=..."
        if missing := _MISSING.fullmatch(message):
            names = [f"{name} ({self.wanted[name]})" if name in self.wanted else name for name in missing[1].split(", ")]
            of = self.prog.partition(" ")[2]
            message = f"{of}{': ' if of else ''}required: {', '.join(names)}"
        raise ParameterError(f"{message}{'' if message.endswith('?') else ';'} see `{self.helped}`")

    def refuse(self, unknown: list[str]) -> NoReturn:
        """Refuse the first argument that nothing here takes, with a suggestion of what may have been meant."""
        flag = unknown[0].partition("=")[0]
        if not flag.startswith("-"):
            self.error(f"{unknown[0]!r} is one argument too many")
        near = closest(flag, [text for action in self._actions for text in action.option_strings])
        self.error(f"{flag}: {self.prog} has no such option" + (f"; did you mean {near}?" if near else ""))


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: give tuples per second, above 0")
    return rate


def _option(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def checked(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None

    return checked


def add_run(commands: Any, app: App | None = None) -> Parser:
    """Add ``run`` to the commands.

    Parameters
    ----------
    commands : what `argparse.ArgumentParser.add_subparsers` gives
    app : App, optional
        For help on this application only.
    """
    run: Parser = commands.add_parser(
        "run",
        help="run an application from a Parquet file to a Parquet file",
        usage=_wrapped(f"headrace run {'APP' if app is None else app.name} {_files_of(app)} [options]", len("usage: ")),
        description=_described(APPS.values()) if app is None else _wrapped(f"{app.name}: {app.help}."),
        epilog=_tried(app),
        formatter_class=argparse.RawDescriptionHelpFormatter,  # the other texts are wrapped all the same
        wanted={"APP": "the application, such as wordcount", "--out": "the file for the result"},
    )
    if app is None:
        more = "one of those above; `headrace run APP --help` has its columns and options"
        run.add_argument("app", type=one_of("application", APPS), metavar="APP", help=more)
    _add_files(run.add_argument_group("input and output"), app)
    _add_meaning(run.add_argument_group("what changes the result"), app)
    _add_running(run.add_argument_group("how it runs; the result is the same, byte for byte, whatever these options say"), app)
    for engine in _engines(app):
        if any(flag.place == "own" for flag in engine.flags):
            _add_flags(run.add_argument_group(_wrapped(_of(engine, app))), engine, "own")
    if app is None:
        _add_own(run.add_argument_group("options of one application, or of several"))
    return run


def own_options() -> dict[str, dict[str, Option]]:
    """Return the options of applications: name -> application -> option. All applications read a shared option alike."""
    found: dict[str, dict[str, Option]] = {}
    for app in APPS.values():
        for option in app.options:
            found.setdefault(option.name, {})[app.name] = option
    return found


# -- the groups


def _engines(app: App | None) -> list[type[Engine]]:
    """Return the engines whose flags are included."""
    return list(ENGINES.values()) if app is None else [ENGINES[app.engine]]


def _of(engine: type[Engine], app: App | None) -> str:
    """Return the title of the group of options that only the applications of one engine take."""
    if app is not None:
        return f"how it runs, too; options of {engine.title}"
    return f"options of {', '.join(each.name for each in APPS.values() if each.engine == engine.name)}"


def _add_flags(group: argparse._ArgumentGroup, engine: type[Engine], place: str, more: str = "") -> None:
    for flag in engine.flags:
        if flag.place == place:
            flag.add_to(group, more)


def _add_files(group: argparse._ArgumentGroup, app: App | None) -> None:
    left = "input, sorted by event time (optional for `flights`)"
    right = f"second input, of {_with_right()}"
    if app is not None:
        left = f"{_columns(app, 0)}; {'in any order' if app.prepare else 'sorted by ts'}"
        left += "; default: a built-in data set" if app.default_input else ""
        right = _columns(app, 1) + ("" if app.is_right_table else "; sorted by ts")
        right += "" if app.has_right else "; optional"
    group.add_argument("--in", dest="left", metavar="FILE.parquet", help=left)
    if app is None or app.has_right is not False:
        group.add_argument("--right", metavar="FILE.parquet", help=right)
    group.add_argument("--out", required=True, metavar="OUT.parquet", help="the result, written whole or not at all")
    group.add_argument("--report", metavar="REPORT.json", help="figures of the run, as JSON")
    for engine in _engines(app):
        _add_flags(group, engine, "files")
    group.add_argument("--spark", metavar="MASTER", help="read through a Spark session, such as local[2]")


def _add_meaning(group: argparse._ArgumentGroup, app: App | None) -> None:
    if app is None or app.size is not None:
        default = "" if app is None else f" (default {app.size})"
        group.add_argument("--size", metavar="D", help=f"window size WS, such as 1h{default}")
    if app is None or app.advance is not None:
        default = "" if app is None else f" (default {app.advance})"
        group.add_argument("--advance", metavar="D", help=f"window advance WA, such as 30min{default}")
    for option in () if app is None else app.options:
        if option.name != "buckets":  # which concerns how it runs
            group.add_argument(f"--{option.name}", type=_option(option.read), help=option.help)
    cut = "cut each input into S sources, row i to source i modulo S: rows of equal time are ordered by source"
    if app is None:
        cut += "".join(f"; {engine.runs}: {engine.sources}" for engine in ENGINES.values() if engine.sources)
    if app is None or not ENGINES[app.engine].sources:
        group.add_argument("--sources", type=whole("sources", MOST_SOURCES), metavar="S", help=cut)
    for engine in _engines(app):
        _add_flags(group, engine, "meaning")


def _add_running(group: argparse._ArgumentGroup, app: App | None) -> None:
    threads = whole("threads", MOST_INSTANCES)
    group.add_argument("--threads", type=threads, default=1, metavar="N", help="threads at the start (default 1)")
    group.add_argument("--max-threads", type=threads, metavar="M", help="most threads at any time (default: the largest N given)")
    group.add_argument("--reconfigure", metavar='"P%:N,..."', help='"10%%:4,50%%:1": 4 threads from 10 %% of the rows on')
    said = "rows given to the engine at a time"
    if app is None:
        said += "".join(f"; {engine.title}: {engine.batch}" for engine in ENGINES.values() if engine.batch)
    else:
        said = ENGINES[app.engine].batch or said
    group.add_argument("--batch", type=whole("rows", MOST_BATCH_ROWS), metavar="B", help=said)
    group.add_argument("--rate", type=_rate, metavar="R", help="tuples per second; default: as fast as possible")
    group.add_argument("--pin", action="store_true", help="keep each thread of the engine on a core of its own")
    for engine in _engines(app):
        others = ", ".join(other.runs for other in ENGINES.values() if other is not engine)
        _add_flags(group, engine, "running", f"; not of {others}" if app is None else "")
        if app is not None and engine.sources:
            group.add_argument("--sources", type=whole("sources", MOST_SOURCES), metavar="S", help=engine.sources)
    for option in () if app is None else app.options:
        if option.name == "buckets":
            group.add_argument("--buckets", type=_option(option.read), help=option.help)


def _add_own(group: argparse._ArgumentGroup) -> None:
    for name, options in own_options().items():
        apps_of: dict[str, list[str]] = {}
        for app, option in options.items():
            apps_of.setdefault(option.help, []).append(app)
        texts = (f"{', '.join(names)}: {text}" for text, names in apps_of.items())
        group.add_argument(f"--{name}", type=_option(next(iter(options.values())).read), help="; ".join(texts))


# -- the texts


def _width() -> int:
    return min(_MOST_WIDE, shutil.get_terminal_size().columns - 2)


def _wrapped(text: str, taken: int = 0) -> str:
    """Wrap a line that argparse prints as it is, not between a flag and its value; `taken` characters stand before it."""
    whole = re.sub(r"(--\w+) (?=[A-Z])", "\\1\xa0", text)
    filled = textwrap.fill(whole, _width() - taken, subsequent_indent=" " * (taken + 2), break_on_hyphens=False)
    return filled.replace("\xa0", " ")


def _files_of(app: App | None) -> str:
    left, right = "--in FILE.parquet", "--right FILE.parquet"
    if app is None:
        return f"{left} [{right}] --out OUT.parquet"
    files = [f"[{left}]" if app.default_input else left]
    if app.has_right is not False:
        files.append(right if app.has_right else f"[{right}]")
    return " ".join([*files, "--out OUT.parquet"])


def _columns(app: App, side: int) -> str:
    """Return the columns that an input must have, with their types."""
    columns = [f"{name} ({kind}{', optional' if name in app.may_lack else ''})" for name, kind in app.needs(side)]
    is_free = (app.right if side else app.left) is None
    return f"{'any columns, with' if is_free else 'columns'} {', '.join(columns)}"


def _described(apps: Iterable[App]) -> str:
    """Return a line for each application, with the columns that it reads."""
    apps = list(apps)
    indent = " " * (4 + max(len(app.name) for app in apps))
    width = _width()
    lines = ["Run an application. Each is listed with the columns of its left input:", ""]
    for app in apps:
        reads = "" if app.left is None else f" ({', '.join(column for column, _ in app.left)})"
        text = f"  {app.name:{len(indent) - 4}}  {app.help}{reads}"
        lines += textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(lines)


def _tried(app: App | None) -> str:
    """Return lines to paste that make input and run the application on it."""
    if app is None:
        return _wrapped("`headrace run APP --help` says what one application takes, and how to make input to try it on.")
    made = EXAMPLES.get(app.name, ())
    names = ("left.parquet", "right.parquet") if len(made) > 1 else ("in.parquet",)
    lines = ["to try it:"]
    for what, name in zip(made, names, strict=False):
        function = what.partition("(")[0]
        lines.append(f'  python -c "from headrace_datasets import {function}; {what}.to_parquet(\'{name}\')"')
    given = [f"--{flag} {name}" for flag, name, _ in zip(("in", "right"), names, made, strict=False)]
    lines.append(f"  headrace run {' '.join([app.name, *given])} --out out.parquet")
    return "\n".join(lines)


def _with_right() -> str:
    """Return the applications that have two inputs, or may have two."""
    *most, last = (app.name for app in APPS.values() if app.has_right is not False)
    return f"{', '.join(most)} and {last}"
