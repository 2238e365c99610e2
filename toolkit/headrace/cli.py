"""The command ``headrace``: demo, tour, run, bench, lab, doctor.

Exit status: 0 done; 1 failure while running; 2 usage, input or output error, with one line on
stderr that names the fault and the fix; 130 after Ctrl-C. Set HEADRACE_TRACEBACK=1 to see where an
error came from. What a command needs is imported when it runs.
"""

from __future__ import annotations

import _thread
import argparse
import errno
import logging
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from headrace import __version__
from headrace.errors import HeadraceError, InputError, NotSupportedError, OutputError
from headrace.names import instead

if TYPE_CHECKING:
    from headrace.apps.app import App, Option

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
MOST_SOURCES = 1024
"""Each has arrays of its own in the gate."""
MOST_EVERY = 10**15
GRACE_S = 0.7
"""After Ctrl-C, how long the orderly way out may take."""

_NO_VALUE = re.compile(r"argument (--[\w-]+): expected one argument")


class _Usage(Exception):
    """A command line that cannot be understood."""


class _Parser(argparse.ArgumentParser):
    """Reports a mistake on one line, with the fix, instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        flag = _NO_VALUE.fullmatch(message)
        if flag:  # argparse takes a value such as -5s for a flag
            message += f", after '=' if it begins with '-': {flag[1]}=..."
        raise _Usage(f"{message}; see `{self.prog} --help`")


def _one_of(what: str, names: Collection[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            there = instead(text, names, f"the {what}s", "{}")
            raise argparse.ArgumentTypeError(f"{text!r}: there is no such {what}; {there}")
        return text

    return read


def _whole(name: str, most: int) -> Callable[[str], int]:
    from headrace.apps.app import read_whole

    def read(text: str) -> int:
        number = read_whole(text, most)
        if number is None:
            raise argparse.ArgumentTypeError(f"{text!r}: give a whole number of {name} from 1 to {most}")
        return number

    return read


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


def parser() -> argparse.ArgumentParser:
    """Make the parser of the whole command line."""
    from headrace.apps import APPS
    from headrace.apps.command import DEFAULT_EVERY
    from headrace.control.mapping import MOST_INSTANCES
    from headrace.ingress.readers import MOST_BATCH_ROWS
    from headrace.ordering.control import QUEUE_KINDS, REORDERS, SCHEDULES
    from headrace.ordering.options import DEFAULT_SCHEDULE
    from headrace.ordering.words import MOST_BATCH
    from headrace.synchronization.options import DEFAULT_HEARTBEAT, MOST_HEARTBEAT
    from headrace.synchronization.plans import MOST_LEAVES
    from headrace.transactions.control import CHAIN_KINDS, SCHEMES, SHARINGS
    from headrace.transactions.options import ADAPTIVE, DEFAULT_PUNCTUATION, DEFAULT_SCHEME, MOST_PUNCTUATION

    top = _Parser(
        prog="headrace",
        description="Elastic, deterministic, stateful stream processing on a multicore machine.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"headrace {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser, required=True)

    demo = commands.add_parser("demo", help="real data, end to end; writes results and an HTML report", allow_abbrev=False)
    demo.add_argument("--fast", action="store_true", help="smaller inputs")
    demo.add_argument("--transactions", action="store_true", help="a ledger instead: transactions over shared tables")
    demo.add_argument("--out", default="headrace-demo", metavar="FOLDER", help="where results go (default: %(default)s)")

    run = commands.add_parser(
        "run",
        help="run an application from a Parquet file to a Parquet file",
        description=_described(APPS.values()),
        epilog="Input to try them on: headrace_datasets, as in tweets(n=200_000, seed=7).to_parquet('tweets.parquet').",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # the other texts are wrapped all the same
        allow_abbrev=False,
    )
    run.add_argument("app", type=_one_of("application", APPS), metavar="APP", help="one of those above")
    run.add_argument("--in", dest="left", metavar="FILE.parquet", help="input, sorted by event time (`flights` has its own)")
    run.add_argument("--right", metavar="FILE.parquet", help=f"second input, of {_with_right()}")
    run.add_argument("--out", required=True, metavar="OUT.parquet", help="result; the same bytes whatever the flags below")
    run.add_argument("--report", metavar="REPORT.json", help="figures of the run")
    threads, sources = _whole("threads", MOST_INSTANCES), _whole("sources", MOST_SOURCES)
    run.add_argument("--threads", type=threads, default=1, metavar="N", help="at the start (default 1)")
    run.add_argument("--max-threads", type=threads, metavar="M", help="default: the largest N named")
    run.add_argument("--reconfigure", metavar='"P%:N,..."', help='"10%%:4,50%%:1": 4 threads from 10 %% of the rows on')
    run.add_argument("--mode", choices=("vsn", "sn"), help="virtual or plain shared-nothing (default vsn)")
    run.add_argument("--gate", choices=("log", "scalegate"), help="tuple buffer (default log)")
    cut = "cut each input into S sources; programs: streams of the left input, unless its column `stream` says them"
    run.add_argument("--sources", type=sources, metavar="S", help=cut)
    batch = f"rows given to the engine at a time; ordered pipelines: tuples that a worker claims at a time, up to {MOST_BATCH}"
    run.add_argument("--batch", type=_whole("rows", MOST_BATCH_ROWS), metavar="B", help=batch)
    run.add_argument("--rate", type=_rate, metavar="R", help="tuples per second; default: as fast as possible")
    run.add_argument("--pin", action="store_true", help="keep each thread of the engine on a core of its own")
    run.add_argument("--advance", metavar="D", help="window advance WA, such as 30min")
    run.add_argument("--size", metavar="D", help="window size WS, such as 1h")
    run.add_argument("--spark", metavar="MASTER", help="read through a Spark session, such as local[2]")
    of_tables = run.add_argument_group(f"options of {', '.join(app.name for app in APPS.values() if app.tables)}")
    of_tables.add_argument(
        "--scheme", type=_one_of("scheme", (*SCHEMES, ADAPTIVE)), metavar="NAME",
        help=f"{', '.join(SCHEMES)}, or {ADAPTIVE}: tries them (default {DEFAULT_SCHEME})",
    )
    events = f"events of a batch (default {DEFAULT_PUNCTUATION})"
    of_tables.add_argument("--punctuation", type=_whole("events", MOST_PUNCTUATION), metavar="N", help=events)
    of_tables.add_argument("--sharing", choices=SHARINGS, help="what executors take of each other's work (default nothing)")
    made = "how operation chains are made, where there are such (default radix); skiplist: as in the paper"
    of_tables.add_argument("--chains", choices=CHAIN_KINDS, help=made)
    of_tables.add_argument("--unsafe", action="store_true", default=None, help="allow --scheme none, whose results are wrong")
    of_tables.add_argument("--state", metavar="DIR", help="write the tables after the last event, DIR/NAME.parquet each")
    of_stages = run.add_argument_group(f"options of {', '.join(app.name for app in APPS.values() if app.stages)}")
    which = f"which stage a worker takes next: {', '.join(SCHEDULES)} (default {DEFAULT_SCHEDULE})"
    of_stages.add_argument("--schedule", type=_one_of("schedule", SCHEDULES), metavar="NAME", help=which)
    shares = "how workers share a partitioned stage (default hybrid)"
    of_stages.add_argument("--queues", choices=tuple(QUEUE_KINDS), help=shares)
    comes = "how outputs come into order (default nonblocking)"
    of_stages.add_argument("--reorder", choices=tuple(REORDERS), help=comes)
    of_tags = run.add_argument_group(f"options of {', '.join(app.name for app in APPS.values() if app.tags)}")
    who = "who processes what: auto (default), chain, flat, or the file of a plan as JSON"
    of_tags.add_argument("--plan", metavar="auto|chain|flat|FILE.json", help=who)
    most = f"the most that a plan which is made here has, up to {MOST_LEAVES} (default: --max-threads)"
    of_tags.add_argument("--leaves", type=_whole("leaves", MOST_LEAVES), metavar="N", help=most)
    between = f"events between two moments at which an input says how far it is (default {DEFAULT_HEARTBEAT})"
    of_tags.add_argument("--heartbeat", type=_whole("events", MOST_HEARTBEAT), metavar="N", help=between)
    kept = "keep checkpoints, and the results up to each, in a folder"
    of_tags.add_argument("--checkpoint", metavar="DIR", help=kept)
    often = f"events between two checkpoints (default {DEFAULT_EVERY})"
    of_tags.add_argument("--every", type=_whole("events", MOST_EVERY), metavar="N", help=often)
    after = "go on from the newest checkpoint in a folder; the result is that of a run that nothing happened to"
    of_tags.add_argument("--resume", metavar="DIR", help=after)
    own = run.add_argument_group("options of one application, or of several")
    for name, options in _own_options().items():
        apps_of: dict[str, list[str]] = {}
        for app, option in options.items():
            apps_of.setdefault(option.help, []).append(app)
        texts = (f"{', '.join(names)}: {text}" for text, names in apps_of.items())
        own.add_argument(f"--{name}", type=_option(next(iter(options.values())).read), help="; ".join(texts))

    bench = commands.add_parser("bench", help="measure the parts, repeat the papers' experiments", allow_abbrev=False)
    bench.add_argument("name", metavar="NAME|all", help="see `headrace bench list`")
    bench.add_argument("--full", action="store_true", help="large sizes")
    bench.add_argument("--json", metavar="FILE", help="write the figures as JSON")
    bench.add_argument(
        "--out", metavar="FOLDER", default="out/bench", help="where experiments put their reports (default: %(default)s)"
    )

    tour = commands.add_parser("tour", help="two minutes: overload, one thread more, the same results", allow_abbrev=False)
    tour.add_argument("--no-browser", action="store_true", help="end without the page of the dashboard")

    lab = commands.add_parser(
        "lab", help="JupyterLab on your copy of the notebooks, loopback only, with its token", allow_abbrev=False
    )
    lab.add_argument("--folder", type=Path, metavar="FOLDER", help="where your copy is (default: ~/headrace-notebooks)")
    lab.add_argument("--here", action="store_true", help="no copy: the checkout's own notebooks")

    doctor = commands.add_parser("doctor", help="what works on this machine, and what to install", allow_abbrev=False)
    doctor.add_argument("--spark", action="store_true", help="start Spark as well")
    return top


def _described(apps: Iterable[App]) -> str:
    """Each application on a line of its own, with the columns that it reads."""
    apps = list(apps)
    indent = " " * (4 + max(len(app.name) for app in apps))
    width = min(110, shutil.get_terminal_size().columns - 2)
    lines = ["Run an application. They are, with the columns that the left input must have:", ""]
    for app in apps:
        reads = "" if app.left is None else f" ({', '.join(column for column, _ in app.left)})"
        text = f"  {app.name:{len(indent) - 4}}  {app.help}{reads}"
        lines += textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(lines)


def _with_right() -> str:
    """The applications that have two inputs, or may have."""
    from headrace.apps import APPS

    *most, last = (app.name for app in APPS.values() if app.has_right is not False)
    return f"{', '.join(most)} and {last}"


def _own_options() -> dict[str, dict[str, Option]]:
    """Options of applications: name -> application -> option. What several have, all read alike."""
    from headrace.apps import APPS

    found: dict[str, dict[str, Option]] = {}
    for app in APPS.values():
        for option in app.options:
            found.setdefault(option.name, {})[app.name] = option
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    try:
        with _answering_interrupts():
            asked = parser().parse_args(arguments)
            return _COMMANDS[asked.command](asked)
    except SystemExit as end:  # --help and --version
        return int(end.code or 0)
    except KeyboardInterrupt:
        return _said("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has gone, as `headrace doctor | head` does; nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (_Usage, InputError, OutputError, NotSupportedError) as error:
        return _said(error, WRONG)
    except HeadraceError as error:
        return _said(_OUT_OF_MEMORY if _is_memory(error.__cause__) else error, FAILED, error)
    except (OSError, MemoryError) as error:
        if _is_memory(error):
            return _said(_OUT_OF_MEMORY, FAILED, error)
        return _said(f"{error}; check the path, its permissions and the space left", WRONG, error)
    except ImportError as error:
        return _said(f"{error}; install what is missing (`headrace doctor` lists it)", WRONG)
    except Exception as error:
        return _said(
            f"{type(error).__name__}: {error}; this should not happen: please report it, with what"
            " HEADRACE_TRACEBACK=1 shows",
            FAILED,
            error,
        )


_OUT_OF_MEMORY = (
    "memory ran out; use fewer --max-threads or --sources, a smaller --size or --batch, or a larger machine"
)


def _is_memory(error: BaseException | None) -> bool:
    """Whether memory ran out: where address space is reserved it is the system that says so."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def _said(fault: object, status: int, cause: BaseException | None = None) -> int:
    cause = cause or (fault if isinstance(fault, BaseException) else None)
    if os.environ.get("HEADRACE_TRACEBACK") == "1" and cause is not None:
        traceback.print_exception(cause)
    print("headrace: " + " ".join(str(fault).split()), file=sys.stderr, flush=True)
    return status


@contextmanager
def _answering_interrupts() -> Iterator[None]:
    """Answer Ctrl-C within a second, even while the main thread is in compiled code.

    Python's own handler waits for the interpreter to get its turn, and a compilation can keep it
    for seconds. The wake-up descriptor is written by the C handler at once: a thread reads it and
    gives the orderly way `GRACE_S` to end, then ends the process itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    over = threading.Event()

    def watch() -> None:
        while signum := os.read(reading, 1):
            if signum[0] in (signal.SIGINT, signal.SIGTERM) and not over.wait(GRACE_S):
                _end_now(INTERRUPTED if signum[0] == signal.SIGINT else 128 + signal.SIGTERM)

    def terminate(signum, frame):
        raise SystemExit(128 + signum)

    # py4j tells the root logger of an interrupt, with a traceback; what we say of it is one line.
    logging.getLogger().addHandler(logging.NullHandler())
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)
    terminated = signal.signal(signal.SIGTERM, terminate)
    watcher = threading.Thread(target=watch, name="headrace-interrupts", daemon=True)
    watcher.start()
    hook, sys.unraisablehook = sys.unraisablehook, _interrupt_again
    try:
        yield
    finally:
        over.set()
        sys.unraisablehook = hook
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, interrupted)
        signal.signal(signal.SIGTERM, terminated)
        os.close(writing)
        watcher.join(1)
        os.close(reading)


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Ctrl-C in a ``__del__``, of which compiling has many, would be printed and forgotten: it comes once more."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, _thread.interrupt_main).start()  # here it would be raised in this call, and forgotten too
    else:
        sys.__unraisablehook__(lost)


def _end_now(status: int) -> NoReturn:
    if (sinks := sys.modules.get("headrace.egress.sinks")) is not None:
        sinks.remove_unfinished()  # also of a run that is still being compiled
    sys.stderr.write("headrace: interrupted\n")
    sys.stderr.flush()
    os._exit(status)


# -- the commands


def _demo(asked: argparse.Namespace) -> int:
    from headrace.demo import main as demo

    return demo(fast=asked.fast, folder=asked.out, transactions=asked.transactions)


def _run(asked: argparse.Namespace) -> int:
    from headrace.apps import APPS
    from headrace.apps.command import Asked, run

    names = {name for name in vars(Asked(asked.app, asked.out)) if name not in ("options", "app", "out")}
    own = {option.name for option in APPS[asked.app].options}
    names -= own
    for name, options in _own_options().items():
        if name not in own and getattr(asked, name) is not None:
            raise _Usage(f"--{name} is an option of {', '.join(options)}, not of {asked.app}; leave it out")
    for name in ("size", "advance"):
        if getattr(asked, name) is not None and getattr(APPS[asked.app], name) is None:
            raise _Usage(f"--{name}: {asked.app} has no window {name}; leave it out")
    run(
        Asked(
            app=asked.app,
            out=asked.out,
            options={name: getattr(asked, name) for name in own},
            **{name: getattr(asked, name) for name in names},
        )
    )
    return DONE


def _bench(asked: argparse.Namespace) -> int:
    if find_spec("headrace_bench") is None:
        raise NotSupportedError(
            "headrace bench: the benchmarks are part of the source tree, not of the installed package; clone the"
            " repository, run `make setup` there, and then .venv/bin/headrace bench"
        )
    from headrace_bench import NAMES, PEERS
    from headrace_bench import main as bench

    names = (*NAMES, PEERS, "all")

    if asked.name == "list":
        print("\n".join(names))
        return DONE
    if asked.name not in names:
        raise _Usage(f"bench {asked.name!r}: there is no such benchmark; {instead(asked.name, names, 'they', '{}')}")
    return bench(asked.name, asked.full, asked.json, asked.out)


def _tour(asked: argparse.Namespace) -> int:
    from headrace.tour import main as tour

    return tour(browser=not asked.no_browser)


def _lab(asked: argparse.Namespace) -> int:
    from headrace.lab import main as lab

    if asked.here and asked.folder is not None:
        raise _Usage(f"--folder {str(asked.folder)!r} and --here: a copy, or the checkout's own; leave one out")
    lab(asked.folder, asked.here)
    return DONE


def _doctor(asked: argparse.Namespace) -> int:
    from headrace.doctor import main as doctor

    return doctor(spark=asked.spark)


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "demo": _demo,
    "run": _run,
    "bench": _bench,
    "tour": _tour,
    "lab": _lab,
    "doctor": _doctor,
}

if __name__ == "__main__":
    sys.exit(main())
