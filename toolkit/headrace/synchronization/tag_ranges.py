"""Implementation tags in words and in ranges: ``inc (parts 0-31; streams 0-3)`` in place of 128 of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headrace.synchronization.tags import ImplementationTag

_MOST_RANGES = 4
"""Of numbers, in words."""


class TagRange(NamedTuple):
    """Implementation tags of one name: each of these parts in each of these streams.

    Attributes
    ----------
    tag : str
    parts, streams : tuple of int
        Rising.
    """

    tag: str
    parts: tuple[int, ...]
    streams: tuple[int, ...]


def in_ranges(tags: Iterable[ImplementationTag]) -> list[TagRange]:
    """Write implementation tags in ranges, in the order of names.

    Examples
    --------
    >>> in_ranges([ImplementationTag("inc", part, stream) for part in (0, 1) for stream in (0, 1)])
    [TagRange(tag='inc', parts=(0, 1), streams=(0, 1))]
    """
    parts_of: dict[tuple[str, int], list[int]] = {}
    for tag in tags:
        parts_of.setdefault((tag.tag, tag.stream), []).append(tag.part)
    streams_of: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for (name, stream), parts in parts_of.items():
        streams_of.setdefault((name, tuple(sorted(parts))), []).append(stream)
    return sorted(TagRange(name, parts, tuple(sorted(streams))) for (name, parts), streams in streams_of.items())


def numbers_text(numbers: Sequence[int], most: int | None = None) -> str:
    """Write rising numbers as ranges; where there are more than `most`, the first ones and how many numbers there are.

    Examples
    --------
    >>> numbers_text([0, 1, 2, 5]), numbers_text([0, 1, 2, 5, 9, 12], most=2)
    ('0-2, 5', '0-2, 5, … 6 of them')
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    said = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    if most is not None and len(said) > most:
        said[most:] = [f"… {len(numbers):,} of them"]
    return ", ".join(said)


def tags_text(tags: Iterable[ImplementationTag], among: Iterable[ImplementationTag] = (), most: int = 4) -> str:
    """Say which implementation tags these are.

    Parameters
    ----------
    tags : iterable of ImplementationTag
    among : iterable of ImplementationTag
        All there are: where a name has all its parts, or streams, they are not written.
    most : int
        At most so many ranges; then how many more there are.

    Examples
    --------
    >>> tags = [ImplementationTag("value", 0, 0), ImplementationTag("value", 0, 1), ImplementationTag("barrier", 0, 0)]
    >>> tags_text(tags[1:], among=tags)
    'barrier, value (stream 1)'
    """
    whole = {one.tag: one for one in in_ranges(among)}
    names: dict[str, list[str]] = {}
    for one in in_ranges(tags):
        names.setdefault(_details(one, whole.get(one.tag)), []).append(one.tag)
    said = [", ".join(alike) + details for details, alike in names.items()]
    rest = f" and {len(said) - most} more" if len(said) > most else ""
    return ", ".join(said[:most]) + rest or "nothing"


def _details(one: TagRange, whole: TagRange | None) -> str:
    """Which parts and streams, in brackets; nothing where it has all of them."""
    parts, streams = ((0,), None) if whole is None else (whole.parts, whole.streams)
    said = [
        f"{label}{'s' if len(numbers) > 1 else ''} {numbers_text(numbers, _MOST_RANGES)}"
        for label, numbers, without_saying in (("part", one.parts, parts), ("stream", one.streams, streams))
        if numbers != without_saying
    ]
    return f" ({'; '.join(said)})" if said else ""
