"""Two runs of the same stream side by side: one set of controls, and the cost of each change for each run."""

from __future__ import annotations

import html
import math
from functools import partial
from typing import Any

import ipywidgets as w
import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, NumeralTickFormatter, Range1d, TickFormatter
from bokeh.plotting import figure

from headrace.errors import RunStoppedError
from headrace.names import explains_arguments
from headrace.summary import counted
from headrace_widgets.connection import Connection
from headrace_widgets.controls import make_controls
from headrace_widgets.controls.burst import BurstControl
from headrace_widgets.controls.rate import RateControl
from headrace_widgets.controls.shown import Shown
from headrace_widgets.feed import Feed, check_is_run
from headrace_widgets.layouts import LAYOUTS
from headrace_widgets.live_plot import LiveFigure, LivePlot
from headrace_widgets.live_view import LiveView, Page
from headrace_widgets.markers import markers_of_two
from headrace_widgets.messages import Messages
from headrace_widgets.pair import PairTarget
from headrace_widgets.palette import RUNS
from headrace_widgets.panels.panel import Scene, compact_legend, plain, plays_events, round_up, time_figure
from headrace_widgets.plots import MOST_MARKERS, MOST_POINTS
from headrace_widgets.pressure import Pressure
from headrace_widgets.status import discarded, over
from headrace_widgets.turns import SELDOM_S
from headrace_widgets.units import amount, axis_formatter, milliseconds
from headrace_widgets.watchdog import Watchdog

SPAN_S = 60.0
SERIES = ["t", "tuples_per_s", "lag_s"]
CHANGES = ["place", "ms", "moved", "t"]
MOST_CHANGES = 12


class SideBySide(LiveView):
    """Throughput and lag of two runs, and the pause and the state moved of each change. See `side_by_side`."""

    called = "both"

    def __init__(self, runs: tuple[Any, Any], names: tuple[str, str], stop_unwatched_after: float | None, refresh_s: float):
        self.runs, self._names, self._refresh_s = runs, names, refresh_s
        for run in runs:
            check_is_run(run)
        first = list(runs[0].operators)
        if first != list(runs[1].operators):
            raise ValueError(f"side_by_side: operators are {first} and {list(runs[1].operators)}; give two runs of one query")
        if len(names) != 2 or names[0] == names[1]:
            raise ValueError(f"names={names!r}: give two different names")
        if any(run.state == "stopped" for run in runs):
            raise ValueError(
                "side_by_side: a run was stopped already; give runs that are started in one notebook cell a name each,"
                " start(name=...), or the second takes the place of the first"
            )
        self.operator = first[0]
        self.feeds = [Feed(run, lambda measure: measure.name == "processed") for run in runs]
        self.pressures = [Pressure() for _ in runs]
        self.messages = Messages()
        self.connection = Connection(self.called)
        self._target = target = PairTarget(runs, self.operator)
        self.settings = make_controls(target, self.messages)
        self.settings = {name: one for name, one in self.settings.items() if all(name in r[self.operator].controls for r in runs)}
        self.rate = RateControl(target, self.messages)
        self.burst = BurstControl(target, self.messages, self.rate)
        self.stop = w.Button(description="Stop runs", tooltip="End both runs now", layout=w.Layout(width="auto"))
        self.stop.on_click(self.messages.guard(lambda _: self._stop()))
        self.presented = w.ToggleButton(
            description="Present", tooltip="Four large plots, to be read from the last row", layout=w.Layout(width="auto"),
        )  # fmt: skip
        self._shown = Shown()
        presented = self.messages.guard(lambda change: self._present(change["new"]))
        self.presented.observe(lambda change: None if self._shown.is_now else presented(change), "value")
        self.plot = LivePlot(self._figures(), {
            name: columns for i in range(2) for name, columns in ((f"series{i}", SERIES), (f"changes{i}", CHANGES))
        })  # fmt: skip
        self._marked: tuple = ()
        """For each run, the number of its marked changes, the last of them, and the origin of its time."""
        self.words = w.HTML()
        self.over = w.HTML()
        """Says that both runs are over, and what can be done then."""
        self._is_over = self._is_presented = False
        steering = [*(one.widget for one in self.settings.values()), self.rate.widget]
        buttons = w.HBox([self.presented, self.stop]).add_class("headrace-buttons")
        head = w.Box([self.words, buttons]).add_class("headrace-head")
        bar = w.Box(steering).add_class("headrace-steering")
        said = [self.messages.problem, self.connection.view, self.messages.code]
        self.widget = Page([head, self.over, bar, *said, self.plot.view])
        self.widget.add_class("headrace-dashboard").add_class("headrace-both")
        self._seldom_at = 0
        self.watchdog = Watchdog(stop_unwatched_after, lambda: self.connection.seen_at, self._unwatched)
        self.watchdog.watch_cells()
        self._begin("headrace-side-by-side")

    # -- building

    def _figures(self) -> list[LiveFigure]:
        self._series = [ColumnDataSource({name: [math.nan] for name in SERIES}, name=f"series{i}") for i in range(2)]
        self._changes = [ColumnDataSource({name: [math.nan] for name in CHANGES}, name=f"changes{i}") for i in range(2)]
        scene = Scene(self.feeds[0].columns[self.operator], 1)
        return [
            LiveFigure("throughput", "Throughput", self._lines("throughput", "tuples/s", "tuples_per_s", scene)),
            LiveFigure("lag", "Lag behind the rate", self._lines("lag", "s", "lag_s", scene)),
            LiveFigure(
                "pause", "How long each change took", self._bars("pause", "ms", "ms", NumeralTickFormatter(format="0,0.[0]")),
                "From the moment all threads are told until the last has taken it up",
            ),
            LiveFigure("moved", "State that each change moved", self._bars("moved", "bytes", "moved", axis_formatter("bytes"))),
        ]  # fmt: skip

    def _lines(self, key: str, unit: str, column: str, scene: Scene) -> figure:
        made = time_figure(scene, key, unit)
        made.yaxis.formatter = axis_formatter(unit)
        for i, name in enumerate(self._names):
            line = made.line("t", column, source=self._series[i], color=RUNS[i], width=2, legend_label=name)
            # Each run is sampled at its own times, so each has its own box, on opposite sides: neither hides the other.
            made.add_tools(HoverTool(
                renderers=[line], mode="vline", line_policy="nearest", attachment=("left", "right")[i],
                tooltips=[("time", "@t{0,0.0} s"), (name, f"@{column}{{0,0.[00]}} {unit}")],
            ))  # fmt: skip
        compact_legend(made)
        return made

    def _bars(self, key: str, unit: str, column: str, formatter: TickFormatter) -> figure:
        made = plain(key, unit, x_range=Range1d(0.4, MOST_CHANGES + 0.6), x_axis_label="change, the newest on the right")
        made.yaxis.formatter = formatter
        more = [("moved", "@moved{0,0} bytes"), ("time", "@t{0,0.0} s")]
        for i, name in enumerate(self._names):
            bars = made.vbar("place", 0.36, column, source=self._changes[i], color=RUNS[i], legend_label=name)
            made.add_tools(HoverTool(renderers=[bars], tooltips=[(name, "@ms{0,0.00} ms"), *more]))
        compact_legend(made)
        made.legend.click_policy = "none"
        return made

    # -- living

    def update(self) -> None:
        """Show the present state; the view's own thread calls this."""
        with self.messages.lock:
            for feed in self.feeds:
                feed.poll()
            is_turn = self._seldom_at == 0
            self._seldom_at = (self._seldom_at + 1) % max(1, round(SELDOM_S / self._refresh_s))
            later, done = self._later(), [self._done(run) for run in self.runs]
            now_s = max(feed.newest_s + by for feed, by in zip(self.feeds, later, strict=True))
            start = max(0.0, now_s - SPAN_S)
            blocks, tops = {}, {"throughput": 10.0, "lag": 0.1, "pause": 1.0, "moved": 1_000.0}
            for i, feed in enumerate(self.feeds):
                table = feed.tables[self.operator]
                columns = ["t", feed.columns[self.operator].of["processed"][0], "lag_s"]
                block = table.block(table.places(columns), start - later[i], now_s - later[i], MOST_POINTS).copy()
                block[0] += later[i]
                blocks[f"series{i}"] = block
                bars = blocks[f"changes{i}"] = self._bars_of(i, done, later[i])
                for key, row in (("throughput", block[1]), ("lag", block[2]), ("pause", bars[1]), ("moved", bars[2])):
                    tops[key] = float(np.fmax.reduce(row, initial=tops[key]))
            self._mark(done, later)
            ranges = {key: (0.0, round_up(1.15 * top)) for key, top in tops.items()}
            texts = None
            if is_turn:
                self._show_words()
                self.rate.show(self.rate.playing)
                self.burst.show()
                configuration = self._target.configuration
                for name, setting in self.settings.items():
                    setting.show(configuration[name])
                texts = self._texts(done)
            self.plot.push(blocks, {"x": (start, start + SPAN_S), **ranges}, texts)
            states = [feed.metrics.state for feed in self.feeds if feed.metrics is not None]
            if not self._is_over and len(states) == len(self.feeds) and "running" not in states:
                self._end(states)

    def _later(self) -> list[float]:
        """Seconds from the first tuple of both runs to the first of each, since a click applies to both at one time."""
        origins = [feed.origin_ns for feed in self.feeds]
        first = min((at_ns for at_ns in origins if at_ns is not None), default=0)
        return [0.0 if at_ns is None else (at_ns - first) / 1e9 for at_ns in origins]

    def _end(self, states: list[str]) -> None:
        """Disable everything that would change the runs."""
        self._is_over = True
        for one in (*self.settings.values(), self.rate):
            one.end()
        self.burst.show()
        self.stop.disabled = True
        for name, run in zip(self._names, self.runs, strict=True):
            try:
                run.wait(0)
            except RunStoppedError:
                continue
            except Exception as error:
                self.messages.fail(f"{name}: {type(error).__name__}: {error}")
        how = states[0] if len({*states}) == 1 else ", ".join(map("{} {}".format, self._names, states))
        self.over.value = over(how, "two others", "Controls that change the runs are off.")

    def _done(self, run: Any) -> list[Any]:
        return [change for change in run.changes if change.outcome == "done" and change.operator == self.operator]

    def _mark(self, done: list[list[Any]], later: list[float]) -> None:
        """Mark the changes of both on the time axis; if there are many, the newest."""
        marked = tuple((len(of_run), of_run[-1:], feed.origin_ns) for of_run, feed in zip(done, self.feeds, strict=True))
        if marked == self._marked or not any(done):
            return
        self._marked = marked
        clocks = [partial(self._second_of, i, later[i]) for i in range(2)]
        self.plot.labels = {"changes": markers_of_two([of_run[-MOST_MARKERS:] for of_run in done], self._names, clocks)}

    def _second_of(self, i: int, later: float, at_ns: int) -> float:
        """Convert a monotonic time to seconds since the first tuple of both runs."""
        return self.feeds[i].seconds_of(at_ns) + later

    def _bars_of(self, i: int, done: list[list[Any]], later: float) -> np.ndarray:
        """Return float64[4, changes]: place, milliseconds, bytes moved and second of the last changes; runs side by side."""
        shown = done[i][-MOST_CHANGES:]
        if not shown:
            return np.full((len(CHANGES), 1), math.nan)
        last = min(MOST_CHANGES, max(map(len, done)))
        places = [last - len(shown) + 1 + number + (i - 0.5) * 0.4 for number in range(len(shown))]
        begun = [self._second_of(i, later, change.started_ns or change.completed_ns) for change in shown]
        return np.array([places, [change.ms for change in shown], [change.transferred_bytes for change in shown], begun])

    def _texts(self, done: list[list[Any]]) -> dict[str, str]:
        last = [feed.tables[self.operator].last for feed in self.feeds]
        said: dict[str, list[str]] = {key: [] for key in ("throughput", "lag", "pause", "moved")}
        for name, changes, row, feed in zip(self._names, done, last, self.feeds, strict=True):
            columns = feed.columns[self.operator]
            if row:
                said["throughput"].append(f"{name}: {amount(row[columns.of['processed'][0]])} tuples/s")
                due = "" if plays_events(row) else f", {amount(row['behind'])} due"
                said["lag"].append(f"{name}: {milliseconds(row['lag_s'] * 1e3)}{due}")
            if changes:
                values = feed.metrics.operators[self.operator].values if feed.metrics else {}
                waits = sum(values.get("barrier_ns", ())) / 1e6
                took = f"{name}: {milliseconds(changes[-1].ms)}, the longest {milliseconds(max(one.ms for one in changes))}"
                waited = f"; its threads have waited {milliseconds(waits)} for one another"
                said["pause"].append(took if self._is_presented else took + waited)
                moved = amount(sum(one.transferred_bytes for one in changes), "B")
                said["moved"].append(f"{name}: {moved} in {counted(len(changes), 'change')}")
        return {key: "; ".join(parts) + "." if parts else "Nothing yet." for key, parts in said.items()}

    def _show_words(self) -> None:
        lines = []
        for name, pressure, feed in zip(self._names, self.pressures, self.feeds, strict=True):
            if feed.metrics is not None:
                pressure.look(feed.metrics)
                state = f" {feed.metrics.state}" if pressure.found is None and feed.metrics.state != "running" else ""
                lost = discarded(feed.metrics)
                end = f" {lost:,} tuples discarded." if lost else ""
                lines.append(f'<div class="headrace-pressure"><b>{html.escape(name)}</b>{state} {pressure.text()}{end}</div>')
        text = "".join(lines)
        if self.words.value != text:
            self.words.value = text

    def _present(self, is_on: bool) -> None:
        self.messages.echo(f"both.present({'' if is_on else 'False'})")
        self._lay_out(is_on)

    def _lay_out(self, is_on: bool) -> None:
        self._is_presented = is_on
        change_class = self.widget.add_class if is_on else self.widget.remove_class
        change_class("headrace-present")
        self.plot.look = LAYOUTS["present" if is_on else "full"].look

    # -- for the user

    def present(self, is_on: bool = True) -> None:
        """Show the plots large enough to be read from the last row of a lecture hall, or in their former size."""
        with self.messages.lock, self._shown.now():
            self.presented.value = is_on
            self._lay_out(is_on)

    def _stop(self) -> None:
        self.messages.echo("for run in runs: run.stop()")
        self._stop_runs()

    def _stop_runs(self) -> None:
        for run in self.runs:
            run.stop()

    def _unwatched(self) -> None:
        self.messages.refuse("nobody watched for a while, so the runs were stopped; see side_by_side(stop_unwatched_after=)")
        self._stop_runs()


@explains_arguments(labels="names")
def side_by_side(
    run_a: Any, run_b: Any, names: tuple[str, str] = ("VSN", "SN"), *,
    stop_unwatched_after: float | None = 300.0, refresh_s: float = 0.17,
) -> SideBySide:
    """Show two runs of the same stream side by side, with one set of controls for both.

    Parameters
    ----------
    run_a, run_b : Run
        Started runs of the same query, such as with ``mode="vsn"`` and ``mode="sn"``. Of several operators the first is
        shown. In one notebook cell each run needs a name of its own, ``start(name=...)``; otherwise the second replaces the
        first.
    names : tuple of str
        Names of the runs.
    stop_unwatched_after : float or None
        Seconds after which both are stopped when no page shows them any more; None: never.
    refresh_s : float
        Time between updates, in seconds.

    Returns
    -------
    SideBySide
        Shown where it is made; when it is run again, the cell replaces it and stops its runs. Clicks are printed as Python,
        with ``runs = (run_a, run_b)``.

    Raises
    ------
    ValueError
        What is given is not a run, runs have different operators, one was stopped, or names are equal.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": range(1000), "k": ["a", "b"] * 500})
    >>> counts = hr.stream(table, event_time="ts").key_by("k").window(10).aggregate(n=hr.count())
    >>> runs = counts.start(max_threads=4), counts.start(max_threads=4, mode="sn")
    >>> both = side_by_side(*runs)
    >>> both.close()
    """
    return SideBySide((run_a, run_b), names, stop_unwatched_after, refresh_s)
