"""The head of the dashboard: state of the run, and whether its books balance."""

from __future__ import annotations

import html

import ipywidgets as w

from headrace.metrics.snapshot import Metrics
from headrace_widgets.feed import Feed
from headrace_widgets.units import amount

_SIGNS = {"running": "▶", "finished": "■", "stopped": "■", "failed": "✖"}


class Status:
    """State, time, counts; and the correctness badge."""

    def __init__(self):
        self.widget = w.HTML()
        self.badge = w.HTML()
        self.failure = w.HTML()
        self.over = w.HTML()
        """Says that the run is over, and what can be done then."""

    def show_state(self, metrics: Metrics) -> None:
        """Show the state and counts of the run."""
        lost = metrics.dropped + metrics.set_aside
        late = (
            f", {amount(metrics.dropped)} late rows dropped, {amount(metrics.set_aside)} set aside"
            if lost
            else ""
        )
        self._set(
            self.widget,
            f'<div class="headrace-status headrace-{html.escape(metrics.state)}"><b>headrace</b>'
            f' <span class="headrace-state">{_SIGNS.get(metrics.state, "")} {html.escape(metrics.state)}</span>'
            f" {metrics.seconds:,.0f} s<span class=\"headrace-counts\">, {amount(metrics.tuples_in)} tuples in,"
            f" {amount(metrics.tuples_out)} results{late}</span></div>",
        )

    def show_end(self, state: str) -> None:
        """Show that the run is over."""
        left = "You can still look at the plots and save them; controls that change the run are off."
        self._set(self.over, over(state, "another run", left))

    def show_badge(self, metrics: Metrics, feed: Feed) -> None:
        """Show whether the books balance."""
        good, verdict, why = verdict_of(metrics, feed)
        sign, kind = ("✔", "good") if good else ("✖", "error")
        self._set(
            self.badge,
            f'<div class="headrace-badge headrace-{kind}" role="status" title="{html.escape(why)}">{sign}'
            f" {verdict}<span>{html.escape(why)}</span></div>",
        )

    def show_failure(self, error: BaseException) -> None:
        """Show what made the run fail; it stays visible."""
        text = f"{type(error).__name__}: {error}"
        self._set(
            self.failure,
            '<div class="headrace-message headrace-error" role="alert"><b>✖ The run failed:</b>'
            f" {html.escape(text)}</div>",
        )

    @staticmethod
    def _set(widget: w.HTML, value: str) -> None:
        if widget.value != value:
            widget.value = value


def over(state: str, again: str, what_is_left: str) -> str:
    """Return that all is over, how it ended, and what can be done then, as HTML."""
    title = html.escape(state[:1].upper() + state[1:])
    return (
        f'<div class="headrace-message" role="status"><b>■ {title}:</b> run the cell again for {again}; where there is no'
        f" cell, load the page again. {what_is_left}</div>"
    )


def verdict_of(metrics: Metrics, feed: Feed) -> tuple[bool, str, str]:
    """Return whether all is well, a few words that say so, and each operator's books.

    Books balance if every row is accounted for; order is kept if the output's watermark only rose.
    """
    parts = [f"{name}: {one.balance}" for name, one in metrics.operators.items() if one.balance is not None]
    if not feed.watermarks_rose:
        parts.append("an output watermark went back")
    books = "; ".join(parts)
    if not (metrics.holds and feed.watermarks_rose):
        return False, "The books do not balance", books
    if metrics.state == "failed":
        return False, "Ended by an error; until then nothing lost, order kept", books
    if lost := discarded(metrics):
        return True, f"Stopped: {lost:,} tuples discarded; until then nothing lost, order kept", books
    return True, "Nothing lost, order kept", books


def discarded(metrics: Metrics) -> int | None:
    """Return the rows that were read but not processed when a run ended before its input; None for any other run."""
    if metrics.state not in ("stopped", "failed"):
        return None
    return sum(
        one.in_flight if one.balance is None else one.balance.discarded.rows for one in metrics.operators.values()
    )
