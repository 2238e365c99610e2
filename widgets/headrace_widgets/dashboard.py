"""`Dashboard(run)`: watch a run and steer it from a notebook.

A daemon thread refreshes the view, so it moves while a cell is busy. Widget
callbacks run on the kernel's main thread and never wait for the engine: requests
return at once. One lock keeps the two apart.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ipywidgets as w
import numpy as np

from headrace.counters import Metrics
from headrace_widgets import cells
from headrace_widgets.changes_table import ChangesTable
from headrace_widgets.controller_panel import ControllerPanel
from headrace_widgets.controls import RateControl, Shown, ThreadsControl
from headrace_widgets.feed import Feed
from headrace_widgets.history_controls import HistoryControls
from headrace_widgets.mapping_panel import MappingPanel
from headrace_widgets.messages import Messages
from headrace_widgets.plots import Figures, Plots, TimeView
from headrace_widgets.saved_page import save_page
from headrace_widgets.status import Status, verdict_of
from headrace_widgets.target import Target
from headrace_widgets.watchdog import Watchdog

SELDOM_S = 1.0
"""How often what is read rather than watched is shown: each text makes the browser lay the page out anew."""
_MOST_OF_NAME = 60
"""Characters of an operator's name in that of a file, which may have 255 bytes in all."""
_ROW = {"width": "100%", "flex_flow": "row wrap", "align_items": "center"}


class Dashboard:
    """Plots and controls of a run, shown where it is made.

    Run again, the cell replaces its dashboard and stops the run that one showed. What is done by hand is printed as
    the line of Python that does the same, with `run`, `dashboard` and `hr` (``import headrace as hr``) for names.

    Parameters
    ----------
    run : Run
        Started; of any engine. What it cannot do (`run.capabilities`) has no control.
    operator : str, optional
        Which operator of a query is shown at first; the first by default.
    refresh_s : float
        Time between updates of the view, in seconds.
    imbalance_limit : float
        Imbalance (coefficient of variation, a fraction) that is marked as too much.
    stop_unwatched_after : float or None
        Seconds after which the run is stopped when no page shows the dashboard any more; None: never.
        Counts from the last time a page showed it: a notebook without a browser is left alone. Nothing is
        drawn as soon as no page shows it, and drawing goes on, with all that was missed, when one does again.
    controllers : dict of str to controller, optional
        Controllers of your own, offered beside those of `headrace.controllers`; the names are those of
        your variables.

    Raises
    ------
    ValueError
        A parameter outside its range, or an operator that is not there.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": range(1000), "k": ["a", "b"] * 500})
    >>> run = hr.stream(table, event_time="ts").key_by("k").window(10).aggregate(n=hr.count()).start(max_threads=4)
    >>> dashboard = Dashboard(run)
    >>> dashboard.close()
    """

    def __init__(
        self,
        run: Any,
        operator: str | None = None,
        *,
        refresh_s: float = 0.17,
        imbalance_limit: float = 0.2,
        stop_unwatched_after: float | None = 300.0,
        controllers: Mapping[str, Any] | None = None,
    ):
        if not refresh_s > 0 or not imbalance_limit > 0:
            raise ValueError(
                f"refresh_s={refresh_s!r}, imbalance_limit={imbalance_limit!r}: give numbers above 0"
            )
        self.run = run
        self.feed = Feed(run)
        names = list(self.feed.tables)
        if operator is not None and operator not in names:
            raise ValueError(f"operator={operator!r}: the operators of this run are {', '.join(names)}")
        self._refresh_s, self._limit, self._own = refresh_s, imbalance_limit, controllers
        self._turns = max(1, round(SELDOM_S / refresh_s))
        self._turn: int | None = None
        self._state = ""
        self.costs_ms: deque[float] = deque(maxlen=1_000)
        """Processor time of the last updates, in milliseconds each."""
        self.view = TimeView()
        self.messages = Messages()
        self.status = Status()
        self.changes = ChangesTable(run, self.feed)
        self.history = HistoryControls(self.view, self.messages, self.fit, self.save)
        self.choice = w.Dropdown(
            options=names,
            value=operator or names[0],
            description="Operator",
            tooltip="The operator shown and steered",
        )
        self._shown = Shown()
        chosen = self.messages.guard(lambda change: self._choose(change["new"]))
        self.choice.observe(lambda change: None if self._shown.is_now else chosen(change), "value")
        self.stop = w.Button(
            description="Stop run",
            tooltip="End the run now; results not yet released are lost",
            layout=w.Layout(width="90px"),
        )
        self.stop.on_click(self.messages.guard(lambda _: self._stop()))
        head = [self.status.widget, *([self.choice] if len(names) > 1 else []), self.stop, self.status.badge]
        self._body = w.VBox(layout=w.Layout(width="100%"))
        self.widget = w.VBox(
            [w.HBox(head, layout=w.Layout(**_ROW)), self.status.failure, self._body],
            layout=w.Layout(width="100%"),
        )
        self.widget.add_class("headrace-dashboard")
        self.watchdog = Watchdog(stop_unwatched_after, self._seen_at, self._unwatched)
        self.watchdog.watch_cells()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="headrace-dashboard", daemon=True)
        self._show_operator(self.choice.value)
        previous = cells.replace(cells.this_cell(), self)
        if previous is not None:
            previous.close()
            if previous.run is not run:
                previous.run.stop()
        self.update()
        self._thread.start()
        self._shown_in = _execution()
        if self._shown_in is not None:
            self._display()

    # -- building

    def _show_operator(self, name: str) -> None:
        """Build the plots and controls of one operator."""
        self._turn = None
        metrics = self.run.metrics().operators[name]
        can = getattr(self.run, "capabilities", frozenset())
        self._target = target = Target(self.run, name)
        self.operator = name
        self.plots = Plots(self._figures(), self.view)
        self.threads = (
            ThreadsControl(target, metrics.max_threads, self.messages) if "threads" in can else None
        )
        self.mapping = MappingPanel(target, metrics.max_threads, self.messages) if "mapping" in can else None
        self.rate = RateControl(target, self.messages)
        self.controller = ControllerPanel(target, self.messages, self._own)
        steering = [self.threads.widget] if self.threads else []
        steering += [self.rate.widget] if self.rate.is_there else []
        self._seldom: list[Callable[[Metrics, list[Any]], None]] = [
            lambda metrics, _: self.status.show_state(metrics),
            lambda metrics, _: self.status.show_badge(metrics, self.feed),
            lambda *_: self.controller.update(),
            lambda _, changes: self.changes.show(changes),
            lambda *_: self.rate.show(self.rate.playing),
        ]
        if mapping := self.mapping:
            self._seldom.append(lambda metrics, _: mapping.update(metrics.operators[name]))
        old = self._body.children
        self._body.children = [
            w.HBox(steering, layout=w.Layout(**_ROW)),
            *([self.controller.widget] if self.controller.is_there else []),
            self.messages.problem,
            self.messages.code,
            self.history.widget,
            self.plots.widget,
            *([self.mapping.widget] if self.mapping else []),
            self.changes.widget,
        ]
        for part in old:
            if part not in self._body.children:
                part.close()

    def _figures(self) -> Figures:
        unit = getattr(self.run, "time_unit", "time units")
        most = self.run.metrics().operators[self.operator].max_threads
        return Figures(self.feed, self.operator, most, self._limit, unit)

    # -- living

    def _refresh(self) -> None:
        while not self._closed.wait(self._refresh_s):
            try:
                if not self.watchdog.is_resting:
                    self.update()
                self.watchdog.check()
            except Exception as error:  # a thread's exception is otherwise seen by nobody
                if not self._closed.is_set():
                    self.messages.fail(f"while updating the view: {type(error).__name__}: {error}")

    def update(self) -> None:
        """Show what there is now; the dashboard's own thread calls this."""
        start = time.thread_time_ns()
        with self.messages.lock:
            self.feed.poll()
            metrics = self.feed.metrics
            if metrics is None:
                return
            changes = list(getattr(self.run, "changes", ()))
            self.changes.note(changes)
            if metrics.state == "failed":
                self._show_failure()
            if self.threads:
                self.threads.show(self._target.threads)
            self.plots.mark(changes)
            self.plots.update()
            self.history.show(self.plots.newest_s or 0.0)
            self._show_seldom(metrics, changes)
        self.costs_ms.append((time.thread_time_ns() - start) / 1e6)

    def _show_seldom(self, metrics: Metrics, changes: list[Any]) -> None:
        """Show what is due of the parts that are shown seldom: all at first, then each in its turn.

        Each sends a message of its own, which is half of what an update costs: their turns are spread.
        """
        all_of_it = self._turn is None or metrics.state != self._state
        self._state = metrics.state
        self._turn = 0 if self._turn is None else (self._turn + 1) % self._turns
        for i, part in enumerate(self._seldom):
            if all_of_it or i * self._turns // len(self._seldom) == self._turn:
                part(metrics, changes)

    def _show_failure(self) -> None:
        if not self.status.failure.value:
            try:
                self.run.wait(0)
            except Exception as error:
                self.status.show_failure(error)

    def _choose(self, operator: str) -> None:
        self.messages.echo(f"dashboard.show_operator({operator!r})")
        self._show_operator(operator)

    def _stop(self) -> None:
        self.messages.echo("run.stop()")
        self.run.stop()

    def _seen_at(self) -> float | None:
        return self.plots.widget.seen_at

    def _unwatched(self) -> None:
        self.messages.refuse(
            "nobody watched for a while, so the run was stopped; see Dashboard(stop_unwatched_after=)"
        )
        self.run.stop()

    # -- for the user

    def pause(self, end_s: float | None = None) -> None:
        """Hold the plots still; the stream goes on.

        Parameters
        ----------
        end_s : float, optional
            The moment at which the plots end, in seconds since the first tuple; by default now.

        Raises
        ------
        ValueError
            A moment before the first tuple.
        """
        with self.messages.lock:
            self.history.hold(end_s)

    def go_on(self) -> None:
        """Let the plots follow the stream again after `pause`."""
        with self.messages.lock:
            self.history.go_on()

    def show_last(self, seconds: float | None) -> None:
        """Choose how much time the plots show, in seconds; None: all since the first tuple.

        Raises
        ------
        ValueError
            Not above 0.
        """
        with self.messages.lock:
            self.history.show_last(seconds)

    def fit(self) -> None:
        """Let the axes begin anew from what is shown."""
        with self.messages.lock:
            self.plots.fit()

    def show_operator(self, name: str) -> None:
        """Show and steer another operator of the query.

        Raises
        ------
        ValueError
            There is none of this name.
        """
        if name not in self.feed.tables:
            raise ValueError(f"{name!r}: the operators of this run are {', '.join(self.feed.tables)}")
        with self.messages.lock, self._shown.now():
            self.choice.value = name
            self._show_operator(name)

    @property
    def bucket_loads(self) -> np.ndarray:
        """int64[1024]: what each key bucket of the operator shown cost in the last seconds; see `Mapping.balanced`."""
        if self.mapping is None:
            raise ValueError("bucket_loads: the key mapping of this run cannot be changed")
        return self.mapping.bucket_loads

    def export(self, path: str | Path) -> Path:
        """Write the table of reconfigurations into a file: CSV, or JSON, which `replay` reads.

        Raises
        ------
        ValueError
            The name ends neither in .csv nor in .json.
        """
        file = Path(path)
        if file.suffix not in (".csv", ".json"):
            raise ValueError(f"export({str(path)!r}): give a name that ends in .csv or .json")
        with self.messages.lock:
            text = self.changes.to_csv() if file.suffix == ".csv" else self.changes.to_json()
        file.write_text(text, encoding="utf-8", newline="")
        return file

    def save(self, path: str | Path | None = None) -> Path:
        """Write the history so far into one HTML file that needs no network.

        Parameters
        ----------
        path : path, optional
            By default ``headrace-<operator>-<time>.html`` in the working directory, with hyphens for what of the
            operator's name is no letter, digit, ``_``, ``.`` or ``-``.
        """
        if path is None:
            operator = re.sub(r"[^\w.-]+", "-", self.operator)[:_MOST_OF_NAME]
            path = Path(f"headrace-{operator}-{time.strftime('%Y%m%d-%H%M%S')}.html")
        decisions = list(getattr(self.run, "decisions", ()))
        changes = list(getattr(self.run, "changes", ()))
        _, verdict, books = verdict_of(self.run.metrics(), self.feed)
        summary = f"{time.strftime('%Y-%m-%d %H:%M:%S')}. {verdict}: {books}."
        title, records = f"headrace: {self.operator}", self.changes.records()
        return save_page(path, title, summary, self._figures(), changes, records, decisions)

    def close(self) -> None:
        """Stop updating and remove the widgets; the run goes on."""
        self._closed.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(2.0)
        self.watchdog.close()
        cells.forget(self)
        self.widget.close()

    def _display(self) -> None:
        from IPython.display import display

        display(self.widget)

    def _ipython_display_(self) -> None:
        # As the last line of its own cell it is there already.
        if self._shown_in is None or self._shown_in != _execution():
            self._display()


def _execution() -> object:
    """Which execution of a cell this is; None outside a kernel."""
    shell = cells.shell()
    return None if shell is None or not hasattr(shell, "kernel") else shell.execution_count
