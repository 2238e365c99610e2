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
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from headrace import __version__
from headrace.errors import HeadraceError, InputError, NotSupportedError, OutputError, ParameterError
from headrace.names import instead

if TYPE_CHECKING:
    from headrace.apps.app import App
    from headrace.apps.arguments import Parser

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
GRACE_S = 0.7
"""After Ctrl-C, how long the orderly way out may take."""


def parser(app: App | None = None) -> Parser:
    """Make the parser of the whole command line; with an application, the one for its help."""
    from headrace.apps.arguments import Parser, add_run

    names = "demo, tour, run, bench, lab, doctor"
    top = Parser(
        prog="headrace",
        description="Elastic, deterministic, stateful stream processing on a multicore machine.",
        wanted={"COMMAND": names},
    )
    top.add_argument("--version", action="version", version=f"headrace {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser, required=True)

    demo = commands.add_parser("demo", help="real data, end to end; writes results and an HTML report")
    demo.add_argument("--fast", action="store_true", help="smaller inputs")
    demo.add_argument("--transactions", action="store_true", help="run a ledger instead: transactions over shared tables")
    demo.add_argument("--out", default="headrace-demo", metavar="FOLDER", help="where results go (default: %(default)s)")

    add_run(commands, app)

    bench = commands.add_parser("bench", help="measure the parts, repeat the papers' experiments")
    bench.add_argument("name", metavar="NAME|all", help="see `headrace bench list`")
    bench.add_argument("--full", action="store_true", help="large sizes")
    bench.add_argument("--json", metavar="FILE", help="write the figures as JSON")
    bench.add_argument(
        "--out", metavar="FOLDER", default="out/bench", help="where experiments put their reports (default: %(default)s)"
    )

    tour = commands.add_parser("tour", help="two minutes: overload, one thread more, the same results")
    tour.add_argument("--no-browser", action="store_true", help="end without opening the dashboard")

    lab = commands.add_parser("lab", help="JupyterLab on your copy of the notebooks, loopback only, with its token")
    lab.add_argument("--folder", type=Path, metavar="FOLDER", help="where your copy is (default: ~/headrace-notebooks)")
    lab.add_argument("--here", action="store_true", help="open the checkout's own notebooks, not a copy")
    lab.add_argument("--no-browser", action="store_true", help="only print the address")
    lab.add_argument("--port", type=int, metavar="N", help="on 127.0.0.1; 0: any free port (default: the first from 8888 on)")

    doctor = commands.add_parser("doctor", help="what works on this machine, and what to install")
    doctor.add_argument("--spark", action="store_true", help="start Spark as well")
    return top


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. The command to which an unknown argument was given refuses it."""
    from headrace.apps import APPS

    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    app = next((APPS[text] for text in arguments if text in APPS), None) if arguments[:1] == ["run"] else None
    is_helping = not {"-h", "--help"}.isdisjoint(arguments)
    top = parser(app if is_helping else None)
    commands: dict[str, Parser] = next(action.choices for action in top._actions if action.dest == "command")
    if app is not None and is_helping:
        commands["run"].print_help()
        raise SystemExit(DONE)
    if app is not None:
        commands["run"].helped = f"headrace run {app.name} --help"
    first = arguments[0] if arguments else ""
    if first.startswith("-") and first not in top._option_string_actions:
        top.refuse([first])
    if first and not first.startswith("-") and first not in commands:
        top.error(f"{first!r}: there is no such command; {instead(first, commands, 'the commands', '{}')}")
    asked, unknown = top.parse_known_args(arguments)
    if unknown:
        commands[asked.command].refuse(unknown)
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    _open_what_is_closed()
    try:
        with _answering_interrupts():
            asked = _parsed(sys.argv[1:] if arguments is None else arguments)
            return _COMMANDS[asked.command](asked)
    except SystemExit as end:  # --help and --version
        return int(end.code or 0)
    except KeyboardInterrupt:
        return _said("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone, as with `headrace doctor | head`; nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (InputError, OutputError, NotSupportedError) as error:
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


def _open_what_is_closed() -> None:
    """Give what is printed somewhere to go where the shell has closed it, as by ``2>&-``: Python has None there, and the
    next file to be opened would get its number, and with it what libraries print."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # for as long as the process lives


_OUT_OF_MEMORY = (
    "memory ran out; use fewer --max-threads or --sources, a smaller --size or --batch, or a larger machine"
)


def _is_memory(error: BaseException | None) -> bool:
    """Whether memory ran out; where address space is reserved, the system reports that."""
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

    Python's own handler waits until the interpreter runs again, and a compilation can keep it busy
    for seconds. The C handler writes to the wake-up descriptor at once: a thread reads it, gives the
    orderly way `GRACE_S` to end, and then ends the process itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    over = threading.Event()

    def watch() -> None:
        while signum := os.read(reading, 1):
            if signum[0] in (signal.SIGINT, *handled) and not over.wait(GRACE_S):
                _end_now(INTERRUPTED if signum[0] == signal.SIGINT else 128 + signum[0])

    def terminate(signum, frame):
        raise SystemExit(128 + signum)

    # py4j logs an interrupt with a traceback to the root logger; our own message is one line.
    logging.getLogger().addHandler(logging.NullHandler())
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)
    # A closed terminal sends SIGHUP; under nohup it is ignored, and stays ignored.
    ending = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]
    handled = {one: signal.signal(one, terminate) for one in ending}
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
        for one, handler in handled.items():
            signal.signal(one, handler)
        os.close(writing)
        watcher.join(1)
        os.close(reading)


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Repeat a Ctrl-C that came in a ``__del__``, of which compiling has many: it would be printed and forgotten.

    One that came in a constructor is raised as usual, but the ``__del__`` of what was half made fails.
    """
    if issubclass(lost.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, _thread.interrupt_main).start()  # raised in this call it would be swallowed, too
    elif lost.exc_type is not AttributeError or not str(getattr(lost.object, "__module__", "")).startswith("llvmlite."):
        sys.__unraisablehook__(lost)


def _end_now(status: int) -> NoReturn:
    if (part_files := sys.modules.get("headrace.egress.part_files")) is not None:
        part_files.remove_unfinished()  # also of a run that is still being compiled
    sys.stderr.write("headrace: interrupted\n")
    sys.stderr.flush()
    os._exit(status)


# -- the commands


def _demo(asked: argparse.Namespace) -> int:
    from headrace.demo import main as demo

    return demo(fast=asked.fast, folder=asked.out, transactions=asked.transactions)


def _run(asked: argparse.Namespace) -> int:
    from headrace.apps import APPS
    from headrace.apps.arguments import own_options
    from headrace.apps.asked import Asked
    from headrace.apps.command import run
    from headrace.apps.engines import ENGINES

    names = {name for name in vars(Asked(asked.app, asked.out)) if name not in ("options", "flags", "app", "out")}
    own = {option.name for option in APPS[asked.app].options}
    names -= own
    for name, options in own_options().items():
        if name not in own and getattr(asked, name) is not None:
            raise ParameterError(f"--{name} is an option of {', '.join(options)}, not of {asked.app}; leave it out")
    for name in ("size", "advance"):
        if getattr(asked, name) is not None and getattr(APPS[asked.app], name) is None:
            raise ParameterError(f"--{name}: {asked.app} has no window {name}; leave it out")
    report = run(
        Asked(
            app=asked.app,
            out=asked.out,
            options={name: getattr(asked, name) for name in own},
            flags={flag.name: getattr(asked, flag.name) for engine in ENGINES.values() for flag in engine.flags},
            **{name: getattr(asked, name) for name in names},
        )
    )
    if sys.stderr.isatty():  # for a person; a script reads the exit status
        counts = f"{report['tuples_in']:,} rows in, {report['tuples_out']:,} rows out"
        print(f"headrace: {asked.app}: {counts}, in {report['seconds']:.2f} s; written: {asked.out}", file=sys.stderr)
    return DONE


def _bench(asked: argparse.Namespace) -> int:
    if find_spec("headrace_bench") is None:
        raise NotSupportedError(
            "headrace bench: the benchmarks are part of the source tree, not of the installed package; clone the"
            " repository, run `make setup` there, and then .venv/bin/headrace bench"
        )
    from headrace_bench import NAMES, PEERS, subjects
    from headrace_bench import main as bench

    names = (*NAMES, PEERS, "all")

    if asked.name == "list":
        width = max(map(len, names))
        print("\n".join(f"{name:{width}}  {subject}".rstrip() for name, subject in subjects((*NAMES, PEERS)).items()))
        print(f"{'all':{width}}  all of these but {PEERS}")
        return DONE
    if asked.name not in names:
        there = instead(asked.name, names, "the benchmarks", "{}")
        raise ParameterError(f"bench {asked.name!r}: there is no such benchmark; {there}")
    return bench(asked.name, asked.full, asked.json, asked.out)


def _tour(asked: argparse.Namespace) -> int:
    from headrace.tour import main as tour

    return tour(browser=not asked.no_browser)


def _lab(asked: argparse.Namespace) -> int:
    from headrace.lab import main as lab

    if asked.here and asked.folder is not None:
        raise ParameterError(
            f"--folder {str(asked.folder)!r} and --here: one opens a copy, the other the checkout's own notebooks; leave one out"
        )
    if asked.port is not None and not 0 <= asked.port < 1 << 16:
        raise ParameterError(f"--port {asked.port}: give a number from 0 to 65535")
    lab(asked.folder, asked.here, asked.port, browser=not asked.no_browser)
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
