"""`Dashboard(run)`: watch a run and steer it from a notebook.

A daemon thread refreshes the view, so it moves even while a cell is busy. Widget
callbacks run on the kernel's main thread and never wait for the engine: requests
return at once. One lock serialises the two threads.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ipywidgets as w
import numpy as np

from headrace.names import explains_arguments
from headrace_widgets.changes_table import ChangesTable
from headrace_widgets.connection import Connection
from headrace_widgets.controller_panel import ControllerPanel, with_clock
from headrace_widgets.controls.rate import RateControl
from headrace_widgets.controls.setting import Setting
from headrace_widgets.controls.shown import Shown
from headrace_widgets.feed import Feed, check_is_run
from headrace_widgets.graph_widget import Graph
from headrace_widgets.history_controls import HistoryControls
from headrace_widgets.layouts import LAYOUTS
from headrace_widgets.live_view import LiveView, Page
from headrace_widgets.mapping_panel import MappingPanel
from headrace_widgets.messages import Messages
from headrace_widgets.operator_view import OperatorView
from headrace_widgets.panels import is_drawn
from headrace_widgets.plots import Plots, TimeView
from headrace_widgets.pressure import Pressure
from headrace_widgets.saved_page import save_page
from headrace_widgets.status import Status, verdict_of
from headrace_widgets.turns import Part, Turns
from headrace_widgets.watchdog import Watchdog

_MOST_OF_NAME = 60
"""Most characters of an operator's name in a file name, which may have 255 bytes in all."""


class Dashboard(LiveView):
    """Plots and controls of a run, shown in the cell that creates the dashboard.

    When the cell is run again, the new dashboard replaces the old one and stops the run that it showed. Every manual action is
    printed as the equivalent line of Python, with the names `run`, `dashboard` and `hr` (``import headrace as hr``).

    Parameters
    ----------
    run : Run
        A started run, of any engine. The measures of its operators are drawn, and whatever can be changed has a control;
        the last line says why other controls are absent.
    operator : str, optional
        Which operator of a query is shown at first; by default the first.
    layout : {"full", "compact", "present"}
        How the page is laid out at first: "full" has everything; "compact" has threads, load and key mapping on one screen;
        "present" has four large plots (for a program, the tree of its plan and two plots) and one bar of controls, for a
        lecture hall.
    refresh_s : float
        Time between updates of the view, in seconds.
    imbalance_limit : float
        Imbalance (coefficient of variation, a fraction) above which it is marked as too high.
    stop_unwatched_after : float or None
        Seconds without a page that shows the dashboard after which the run is stopped; None: never.
        They count from the last time a page showed it, so a notebook without a browser is left alone. Drawing
        stops as soon as no page shows it, and goes on, with everything missed, when a page does again.
    controllers : dict of str to controller, optional
        Controllers of your own, offered in addition to those of `headrace.controllers`; the names are those of
        your variables.

    Raises
    ------
    ValueError
        What is given is not a run, a parameter is outside its range, or there is no such operator or layout.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": range(1000), "k": ["a", "b"] * 500})
    >>> run = hr.stream(table, event_time="ts").key_by("k").window(10).aggregate(n=hr.count()).start(max_threads=4)
    >>> dashboard = Dashboard(run)
    >>> dashboard.close()
    """

    @explains_arguments()
    def __init__(
        self,
        run: Any,
        operator: str | None = None,
        *,
        layout: str = "full",
        refresh_s: float = 0.17,
        imbalance_limit: float = 0.2,
        stop_unwatched_after: float | None = 300.0,
        controllers: Mapping[str, Any] | None = None,
    ):
        if not refresh_s > 0 or not imbalance_limit > 0:
            raise ValueError(
                f"refresh_s={refresh_s!r}, imbalance_limit={imbalance_limit!r}: give numbers above 0"
            )
        _check_layout(layout)
        check_is_run(run)
        self.run = run
        self.feed = Feed(run, is_drawn)
        names = list(self.feed.tables)
        if operator is not None and operator not in names:
            raise ValueError(f"operator={operator!r}: the operators of this run are {', '.join(names)}")
        self._refresh_s, self._limit, self._own = refresh_s, imbalance_limit, controllers
        self.costs_ms: deque[float] = deque(maxlen=1_000)
        """Processor time of each of the last updates, in milliseconds."""
        self.view = TimeView()
        self.messages = Messages()
        self.connection = Connection(self.called)
        self.status = Status()
        self.pressure = Pressure()
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
        self.graph = Graph(run, self.messages.guard(self._clicked))
        self.layouts = w.ToggleButtons(
            options=[(one.title, name) for name, one in LAYOUTS.items()], value=layout,
            tooltips=[one.about for one in LAYOUTS.values()], style={"button_width": "auto"},
        )  # fmt: skip
        laid_out = self.messages.guard(lambda change: self._lay_out(change["new"]))
        self.layouts.observe(lambda change: None if self._shown.is_now else laid_out(change), "value")
        self.stop = w.Button(
            description="Stop run",
            tooltip="End the run now; results not yet released are lost",
            layout=w.Layout(width="auto"),
        )
        self.stop.on_click(self.messages.guard(lambda _: self._stop()))
        several = [self.choice] if len(names) > 1 else []
        buttons = w.HBox([self.layouts, self.stop]).add_class("headrace-buttons")
        head = w.Box([self.status.widget, *several, buttons]).add_class("headrace-head")
        notes = w.Box([self.status.badge, self.pressure.widget]).add_class("headrace-notes")
        self._body = w.VBox().add_class("headrace-body")
        self.widget = Page([head, notes, self.status.over, self.status.failure, self.graph.widget.view, self._body])
        self.widget.add_class("headrace-dashboard").add_class(f"headrace-{layout}")
        self._is_over = False
        self.watchdog = Watchdog(stop_unwatched_after, lambda: self.connection.seen_at, self._unwatched)
        self.watchdog.watch_cells()
        self._show_operator(self.choice.value)
        self._begin("headrace-dashboard")

    # -- building

    def _show_operator(self, name: str) -> None:
        """Build the plots and controls of one operator."""
        self.operator = name
        self.operator_view = one = OperatorView(
            self.run, self.feed, name, self._limit, self.view, self.messages, self._own
        )
        shared: list[Part] = [
            lambda metrics, _: self.status.show_state(metrics),
            lambda metrics, _: self.status.show_badge(metrics, self.feed),
            lambda _, changes: self.changes.show(changes),
            lambda metrics, _: self.pressure.show(metrics),
            lambda *_: self.graph.show(self.pressure),
        ]
        self.graph.widget.chosen = name
        self._turns = Turns([*shared, *one.seldom], self._refresh_s)
        old = self._body.children
        self._body.children = one.widgets(self.history.widget, self.changes, self.messages, self.connection)
        one.arrange(LAYOUTS[self.layouts.value])
        if self._is_over:
            one.end()
        for part in old:
            if part not in self._body.children:
                part.close()

    def __repr__(self) -> str:
        return f"<Dashboard of {self.run!r}; a notebook shows it as the last value of a cell>"

    @property
    def runs(self) -> tuple[Any]:
        """The runs that it shows: only one."""
        return (self.run,)

    @property
    def plots(self) -> Plots:
        """The panels of the operator shown."""
        return self.operator_view.plots

    @property
    def settings(self) -> dict[str, Setting]:
        """The controls of the operator shown that have a value, by name: "threads", and others of its engine."""
        return self.operator_view.settings

    @property
    def threads(self) -> Setting | None:
        """The control of the threads; None if they cannot be changed."""
        return self.settings.get("threads")

    @property
    def mapping(self) -> MappingPanel | None:
        """The heat map of the key mapping; None if it cannot be changed."""
        return self.operator_view.mapping

    @property
    def rate(self) -> RateControl:
        """The control of the rate of the sources."""
        return self.operator_view.rate

    @property
    def controller(self) -> ControllerPanel:
        """The panel in which a controller is chosen, attached and released."""
        return self.operator_view.controller

    # -- living

    def update(self) -> None:
        """Show the present state; the dashboard's own thread calls this."""
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
            self.operator_view.update(changes)
            self.history.show(self.plots.newest_s or 0.0)
            self._turns.show(metrics, changes)
            if metrics.state != "running" and not self._is_over:
                self._end(metrics.state)
        self.costs_ms.append((time.thread_time_ns() - start) / 1e6)

    def _end(self, state: str) -> None:
        """Disable everything that would change the run."""
        self._is_over = True
        self.operator_view.end()
        self.stop.disabled = True
        self.status.show_end(state)  # last, so that what it says is true by the time it is shown

    def _show_failure(self) -> None:
        if not self.status.failure.value:
            try:
                self.run.wait(0)
            except Exception as error:
                self.status.show_failure(error)

    def _choose(self, operator: str) -> None:
        self.messages.echo(f"dashboard.show_operator({operator!r})")
        self._show_operator(operator)

    def _clicked(self, operator: str) -> None:
        """Handle a click in the graph: the same as choosing the operator from the list."""
        if operator in self.choice.options:
            self.choice.value = operator

    def _lay_out(self, layout: str) -> None:
        self.messages.echo("dashboard.present()" if layout == "present" else f"dashboard.arrange({layout!r})")
        self._arrange(layout)

    def _arrange(self, layout: str) -> None:
        for name in LAYOUTS:
            self.widget.remove_class(f"headrace-{name}")
        self.widget.add_class(f"headrace-{layout}")
        self.operator_view.arrange(LAYOUTS[layout])

    def _stop(self) -> None:
        self.messages.echo("run.stop()")
        self.run.stop()

    def _unwatched(self) -> None:
        self.messages.refuse(
            "nobody watched for a while, so the run was stopped; see Dashboard(stop_unwatched_after=)"
        )
        self.run.stop()

    # -- for the user

    def arrange(self, layout: str) -> None:
        """Change the layout of the page.

        Parameters
        ----------
        layout : {"full", "compact", "present"}
            Everything; threads, load and key mapping on one screen; or four large plots (for a program, the tree of its
            plan and two plots) and one bar of controls.

        Raises
        ------
        ValueError
            There is no such layout.
        """
        _check_layout(layout)
        with self.messages.lock, self._shown.now():
            self.layouts.value = layout
            self._arrange(layout)

    def present(self) -> None:
        """Show four large plots that can be read from the last row, and one bar of controls; `arrange` undoes this.

        For a program there are the tree of its plan and two plots; in a narrow page the tree alone.
        """
        self.arrange("present")

    def pause(self, end_s: float | None = None) -> None:
        """Hold the plots still; the stream goes on.

        Parameters
        ----------
        end_s : float, optional
            The time at which the plots end, in seconds since the first tuple; by default now.

        Raises
        ------
        ValueError
            The moment is before the first tuple.
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
            It is not above 0.
        """
        with self.messages.lock:
            self.history.show_last(seconds)

    def fit(self) -> None:
        """Fit the axes to what is shown."""
        with self.messages.lock:
            self.plots.fit()

    def show_operator(self, name: str) -> None:
        """Show and steer another operator of the query.

        Raises
        ------
        ValueError
            There is no operator of this name.
        """
        if name not in self.feed.tables:
            raise ValueError(f"{name!r}: the operators of this run are {', '.join(self.feed.tables)}")
        with self.messages.lock, self._shown.now():
            self.choice.value = name
            self._show_operator(name)

    def show_timeline(self, is_on: bool = True) -> None:
        """Show what each thread of the operator did in the last second, or hide this again.

        Parameters
        ----------
        is_on : bool
            False hides it.

        Raises
        ------
        ValueError
            The operator's engine keeps no timeline.
        """
        timeline = self.operator_view.timeline
        if not timeline.is_there:
            raise ValueError(f"show_timeline(): the engine of {self.operator!r} keeps no timeline")
        with self.messages.lock:
            timeline.set(is_on)

    @property
    def bucket_loads(self) -> np.ndarray:
        """int64[1024]: load of each key bucket of the operator shown in the last seconds; see `Mapping.balanced`.

        Raises
        ------
        ValueError
            The operator has no key mapping that can be changed.
        """
        if self.mapping is None:
            raise ValueError(f"bucket_loads: the key mapping of {self.operator!r} cannot be changed")
        return self.mapping.bucket_loads

    def export(self, path: str | Path) -> Path:
        """Write the table of reconfigurations into a file: CSV, or JSON, which `replay` reads.

        Parameters
        ----------
        path : str or path
            A name that ends in .csv or .json.

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
            By default ``headrace-<operator>-<time>.html`` in the working directory; characters of the operator's name
            other than letters, digits, ``_``, ``.`` and ``-`` become hyphens.
        """
        if path is None:
            operator = re.sub(r"[^\w.-]+", "-", self.operator)[:_MOST_OF_NAME]
            path = Path(f"headrace-{operator}-{time.strftime('%Y%m%d-%H%M%S')}.html")
        decisions = with_clock(list(getattr(self.run, "decisions", ())), self.feed)
        changes = list(getattr(self.run, "changes", ()))
        _, verdict, books = verdict_of(self.run.metrics(), self.feed)
        summary = f"Saved by dashboard.save() at {time.strftime('%Y-%m-%d %H:%M:%S')}; nothing here is live. {verdict}: {books}."
        title, table = f"headrace: {self.operator}", self.changes.html(self.changes.records())
        with self.messages.lock:  # plots and what is said of them are of one moment
            picture = self.operator_view.picture()
            return save_page(path, title, summary, self.operator_view.figures(), changes, table, decisions, picture)


def _check_layout(layout: str) -> None:
    if layout not in LAYOUTS:
        raise ValueError(f"layout={layout!r}: give one of {', '.join(map(repr, LAYOUTS))}")
