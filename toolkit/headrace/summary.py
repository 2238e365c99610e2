"""Summaries of objects: a line for `repr`, and a small table in notebooks, with the same parts."""

from __future__ import annotations

import html

from headrace.windows import NANOSECONDS

_MOST = 300
_CELL = "text-align: left; vertical-align: top; padding: 1px 8px; white-space: normal; overflow-wrap: anywhere"


class Summarised:
    """Base class that gives `repr` and the notebook view; a class returns the parts in `_summary`."""

    def _summary(self) -> list[tuple[str, str]]:
        """Return the label and text of each part, without waiting and without taking a lock."""
        raise NotImplementedError

    def _parts(self) -> list[tuple[str, str]]:
        # A user who looks at a half-made or broken object is looking for what broke it.
        try:
            return [(label, _shortened(text)) for label, text in self._summary() if text]
        except Exception as error:
            return [("cannot be described", _shortened(f"{type(error).__name__}: {error}"))]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'; '.join(f'{label} {text}'.strip() for label, text in self._parts())}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="{_CELL}">{html.escape(label)}</th><td style="{_CELL}">{html.escape(text)}</td></tr>'
            for label, text in self._parts()
        )
        # No colours of its own: the page may be light or dark.
        caption = f'<caption style="text-align: left; padding: 1px 8px"><b>{type(self).__name__}</b></caption>'
        return f'<table class="headrace-summary" style="margin: 0">{caption}<tbody>{rows}</tbody></table>'


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"


def counted(count: int, noun: str) -> str:
    """Write a number of things, in the singular or plural.

    Examples
    --------
    >>> counted(1, "thread"), counted(1_024, "bucket"), counted(0, "core")
    ('1 thread', '1,024 buckets', '0 cores')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration_text(count: int, unit: str) -> str:
    """Write a duration as `headrace.windows.parse_duration` reads it, in the largest unit in which it is whole.

    Examples
    --------
    >>> duration_text(1_800_000_000, "us"), duration_text(90, "s"), duration_text(7, "")
    ('30min', '90s', '7')
    """
    if unit not in NANOSECONDS:
        return str(count)
    whole = count * NANOSECONDS[unit]
    larger = [one for one, nanoseconds in NANOSECONDS.items() if whole % nanoseconds == 0 and nanoseconds <= whole]
    chosen = larger[-1] if larger else unit
    return f"{whole // NANOSECONDS[chosen]}{chosen}"
