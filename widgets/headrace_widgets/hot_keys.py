"""The keys behind hot buckets, by name."""

from __future__ import annotations

import html
from typing import Any

import ipywidgets as w

from headrace_widgets.messages import Messages
from headrace_widgets.target import Target

MOST = 10
_OWN = ("share", "bucket", "thread")
"""Columns of `hot_keys` after those of the key."""


class HotKeys:
    """A button and a table of the most frequent keys of recent rows; shown where the engine names them."""

    def __init__(self, target: Target, messages: Messages):
        self._target, self._messages = target, messages
        self.is_there = hasattr(target.handle, "hot_keys")
        self.button = w.Button(
            description="Hot keys", tooltip=f"Name the {MOST} most frequent keys of the rows that came last",
            layout=w.Layout(width="100px"),
        )  # fmt: skip
        self.button.on_click(messages.guard(lambda _: self._name()))
        self.words = w.HTML()
        self._named: Any = None
        """The frame that is shown; None until the button is pressed."""
        self.widget = w.VBox([self.button, self.words]).add_class("headrace-hot")

    def _name(self) -> None:
        # On request only: it counts a whole batch of rows.
        self._messages.echo(f"{self._target.handle_code}.hot_keys({MOST})")
        self._named = self._target.handle.hot_keys(MOST)
        self.words.value = table(self._named)

    def update(self) -> None:
        """Update the owners of the listed keys, which change after the keys were named."""
        mapping = getattr(self._target.handle, "mapping", None) if self._named is not None else None
        if mapping is None:
            return
        owners = [mapping.owners[bucket] for bucket in self._named["bucket"]]
        if owners != self._named["thread"].to_list():
            self._named = self._named.assign(thread=owners)
            self.words.value = table(self._named)


def table(frame: Any) -> str:
    """Return the frame of `hot_keys` as HTML."""
    if not len(frame):
        return "No key has come yet."
    names = [column for column in frame.columns if column not in _OWN]
    head = "".join(f"<th>{html.escape(word)}</th>" for word in (*names, "share of the latest rows' keys", "bucket", "thread"))
    rows = "".join(
        "<tr>"
        + "".join(f"<td>{html.escape(str(row[name]))}</td>" for name in names)
        + f"<td>{row['share']:.1%}</td><td>{row['bucket']}</td><td>{row['thread']}</td></tr>"
        for row in frame.to_dict("records")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
