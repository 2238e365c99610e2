"""``headrace tour``: overload, one more thread, the same results; in the terminal and then in the browser.

Nothing needs to be known before: each step says what it shows, and prints the line of Python that did it. Without a
terminal (in a log, on a test machine) the tour asks for nothing and opens no page.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator
from importlib.util import find_spec

import pyarrow as pa

from headrace import lab, lesson
from headrace.apps.compare import first_difference
from headrace.cores import usable_cores
from headrace.runtime.handle import QueryRun
from headrace.summary import counted
from headrace.terminal import fitted, width

BEHIND_S = 2.5
"""A lag of this many seconds is large enough to be seen."""
DRAINED_S = 0.1
LONGEST_S = 30.0
"""Seconds that each part of the stream lasts at most, whatever the machine does meanwhile."""
PATIENCE = 5
"""Seconds without a lag after which more posts come: the machine can process more than was measured."""
MORE = 1.3
"""The factor by which the rate rises then."""
WORTH_IT = 1.15
"""If two threads do less than this many times the work of one, no second core is free for them."""
_BAR_S = 0.1
_LONGEST_BAR = 40


class Tap:
    """The posts, until the tap is closed.

    Parameters
    ----------
    batches : iterable of pa.RecordBatch

    Attributes
    ----------
    given : list of pa.RecordBatch
        The batches that have come out so far: the input of the reference.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]):
        self._batches = batches
        self._closed = threading.Event()
        self.given: list[pa.RecordBatch] = []

    def close(self) -> None:
        """End the stream after the batches that have come out."""
        self._closed.set()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if self._closed.is_set():
                return
            self.given.append(batch)
            yield batch


def main(browser: bool = True, behind_s: float = BEHIND_S) -> int:
    """Take the tour; return 0, or 1 if a result differs from the reference.

    Parameters
    ----------
    browser : bool
        End with the dashboard's page, if there is a terminal.
    behind_s : float
        How far the stream falls behind before a thread is added.
    """
    is_asking = sys.stdin.isatty() and sys.stdout.isatty()
    _say("headrace tour: a minute or two; Ctrl-C ends it.\n")
    one, two = _capacities()
    rate = round((one * max(two, WORTH_IT * one)) ** 0.5, -1)
    tap = Tap(lesson.posts())
    with lesson.scored(tap).start(threads=1, max_threads=2, rate=rate) as run:
        _overload(run, rate / one, behind_s, is_asking)
        _relief(run, 0.6 * one)
        tap.close()
        status = _compare(run, tap)
    opens = status == 0 and browser and is_asking and bool(find_spec("voila") and find_spec("headrace_widgets"))
    _point_on(opens)
    if opens:
        input("   [Enter opens it] ")
        os.execv(sys.executable, [sys.executable, "-m", "headrace_widgets.serve"])
    return status


def _capacities() -> tuple[float, float]:
    cores = usable_cores()
    _say(
        "1. A stream and its operator\n\n"
        "   Made-up posts come one after another, without end. Each word has a score, and each update of a score\n"
        "   computes for about 20 microseconds, as a model or a parser would. Every two seconds of event time the\n"
        "   scores come out. Each word is owned by one thread; all threads share the input and the scores.\n\n"
        "   The operator is compiled now, which takes ten to thirty seconds the first time. Then the tour measures\n"
        "   how many posts a second this machine can process.\n"
    )
    one, two = lesson.capacity(1), lesson.capacity(2)
    _say(f"      1 thread   {one:8,.0f} posts/s")
    _say(f"      2 threads  {two:8,.0f} posts/s, {two / one:.1f} times as many, on {counted(cores, 'core')}\n")
    if two < WORTH_IT * one:
        why = "this machine has one core" if cores == 1 else "other programs use this machine's cores just now"
        _say(f"   Two threads could process nearly twice as many, but {why}:\n   a second thread may bring little here.\n")
    return one, two


def _overload(run: QueryRun, load: float, behind_s: float, is_asking: bool) -> None:
    _say(
        f"2. Too much for one thread\n\n"
        f"   Now {run.rate:,.0f} posts a second come, {load:.1f} times what one thread can process:\n\n"
        f"      run = query.start(threads=1, max_threads=2, rate={run.rate:_.0f})\n"
    )
    if is_asking:
        _say(f"   Press Enter to add a thread; otherwise it is added when the stream is {behind_s:g} s behind.\n")
    _say(_HEAD)
    for second, behind in enumerate(_watched(run), 1):
        if behind >= behind_s or (is_asking and _has_entered()):
            break
        if second % PATIENCE == 0 and behind < DRAINED_S:
            run.rate = round(MORE * run.rate, -1)
            _say(f"      The machine can process that many just now. More: run.rate = {run.rate:_.0f}")
    _say(
        f"\n   `behind` is the lag: how long the oldest post that is due, but not yet admitted, has been waiting. It\n"
        f"   grows while more posts come than are processed. No post is dropped: those not yet admitted wait at the\n"
        f"   source. What holds them up?\n\n"
        f"      run.bottleneck().sentence       # {run.bottleneck().sentence}\n"
    )


def _relief(run: QueryRun, low: float) -> None:
    change = run.reconfigure(threads=2, reason="tour").wait()
    _say(
        f"3. One thread more, while it runs\n\n"
        f"      run.reconfigure(threads=2)      # took {change.ms:.2f} ms\n\n"
        f"   Nothing stopped, and no score was moved: at the same post of the stream both threads switched to the\n"
        f"   new key mapping, the table of which thread owns which words.\n"
    )
    _say(_HEAD)
    if not _drains(run):
        _say(
            f"\n   The lag does not drain: no second core is free for the second thread here. So fewer posts come:\n\n"
            f"      run.rate = {low:_.0f}\n"
        )
        run.rate = low
        _say(_HEAD)
        if not _drains(run):
            _say("\n   Nor does it drain now: other programs keep this machine busy. The results are compared all the same.\n")
            return
    _say("\n   The lag is gone: every post is admitted as it comes.\n")


def _drains(run: QueryRun) -> bool:
    """Watch until the lag is gone; False if that takes too long."""
    return any(behind < DRAINED_S for behind in _watched(run))


def _compare(run: QueryRun, tap: Tap) -> int:
    run.wait()
    result = run.to_arrow()
    rows = pa.Table.from_batches(tap.given)
    _say(
        f"4. Are the results the same?\n\n"
        f"   The stream ends here, after {rows.num_rows:,} posts. The reference computes the same in plain Python, one\n"
        f"   post at a time, without threads. That takes some seconds.\n"
    )
    difference = first_difference(result, lesson.expected(rows))
    if difference is not None:
        _say(f"   WRONG: {difference}\n")
        return 1
    _say(f"   {result.num_rows:,} results: the same rows, in the same order, to the last bit.\n")
    return 0


def _point_on(opens: bool = False) -> None:
    """Name what comes next; `opens`: the dashboard's page does."""
    is_checkout = lab.shipped() is not None  # what is installed from a wheel has neither Makefile nor notebooks
    # `make tour` leaves the environment's commands off the PATH.
    call = "make" if is_checkout and not shutil.which("headrace") else "headrace"
    about = "notebooks, in your own copy; 30_elastic_reconfiguration is this tour, in full"
    _say("5. Where to go from here\n")
    _say(f"   {call + ' lab':20}  {about if is_checkout else 'JupyterLab, on the notebooks of this folder'}")
    _say(f"   {call + ' demo':20}  real flights, from a Spark DataFrame and back into one")
    if opens:
        _say("   Now the dashboard: such a stream in your browser, with a + that adds a thread. Ctrl-C here ends it.\n")
    elif is_checkout:
        _say("   make dashboard        such a stream in your browser, with a + that adds a thread")
    else:
        _say("   In a notebook, headrace_widgets.Dashboard(run) shows a run as it goes, with a + that adds a thread.")


# -- the terminal

_HEAD = "      time   threads   posts/s   behind"


def _watched(run: QueryRun, every_s: float = 1.0) -> Iterator[float]:
    """Print a line each second, and yield how many seconds the stream is behind."""
    begun, before = run.metrics().seconds, run.metrics()
    while before.seconds - begun < LONGEST_S and not run.wait(every_s):
        now = run.metrics()
        taken = now.operators["score"].processed - before.operators["score"].processed
        behind = now.lag_s
        bar = "█" * min(_LONGEST_BAR, round(behind / _BAR_S))
        _say(
            f"    {now.seconds:4.0f} s  {run.threads:7d}  {taken / (now.seconds - before.seconds):8,.0f}  {behind:5.1f} s  {bar}"
        )
        before = now
        yield behind


def _has_entered() -> bool:
    """Whether Enter was pressed meanwhile."""
    if not select.select([sys.stdin], [], [], 0)[0]:
        return False
    sys.stdin.readline()
    return True


def _say(text: str) -> None:
    print(fitted(text, width()), flush=True)
