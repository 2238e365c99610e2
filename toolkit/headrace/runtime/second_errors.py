"""What fails while a run ends because something else has failed: it is told beside that, which stays the one that is raised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import HeadraceError


@contextmanager
def told_beside(error: BaseException | None) -> Iterator[None]:
    """Have what fails in a block noted at the error that comes first; raised, if there is none."""
    try:
        yield
    except Exception as late:
        if error is None:
            raise
        error.add_note(f"headrace: {late}" if isinstance(late, HeadraceError) else f"headrace: {type(late).__name__}: {late}")
