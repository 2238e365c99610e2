"""Errors raised while a run ends because of an earlier error: they become notes on the earlier one, which is raised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import HeadraceError


@contextmanager
def told_beside(error: BaseException | None) -> Iterator[None]:
    """Add an exception of the block to `error` as a note; without an earlier error, raise it."""
    try:
        yield
    except Exception as late:
        if error is None:
            raise
        error.add_note(f"headrace: {late}" if isinstance(late, HeadraceError) else f"headrace: {type(late).__name__}: {late}")
