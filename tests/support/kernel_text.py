"""A changed text of the elastic engine's kernels, for mistakes that are planted in it."""

from __future__ import annotations

from collections.abc import Callable

from headrace.elastic import build

_BETWEEN = "\n# what the loop calls\n"


def change_kernels(monkeypatch, change: Callable[[str], str]) -> None:
    """Have `change` rewrite the text of the loop followed by that of an operator, before it is compiled."""
    whole = build.sources

    def changed(*arguments):
        loop, program = change(_BETWEEN.join(whole(*arguments))).split(_BETWEEN)
        return loop, program

    monkeypatch.setattr(build, "sources", changed)
