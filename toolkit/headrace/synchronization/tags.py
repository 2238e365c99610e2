"""Tags of events: by name, by key, by stream; and the sets of them that a fork sees.

A *tag* says what an event is to a program, ``value`` or ``barrier``. A keyed tag stands for one tag for each part of its
keys, so that events of different keys can be independent. The streams of one tag are distinguished, too: an
*implementation tag* (the paper's section 3.1) is a tag, a part and a stream, and is what nodes of a plan own. Events of a
*periodic* tag come from no input: event time makes them (`every`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.arguments import is_whole_number
from headrace.errors import ParameterError, UnknownNameError
from headrace.names import explains_arguments, instead
from headrace.synchronization import parts_kernel
from headrace.windows import Duration, parse_duration

PARTS = 64
"""Default number of parts of a keyed tag."""
MOST_PARTS = 1 << 16


@dataclass(frozen=True)
class Tag:
    """The name of events of one kind, and what they carry.

    Attributes
    ----------
    name : str
    by : str or None
        Its key column.
    parts : int
        Number of parts its keys are hashed into; 1 if it has no key.
    columns : mapping of str to kind
        Columns of its payload; empty until a program sets them.
    every : duration or None
        For a periodic tag, the least time between two of its events.
    """

    name: str
    by: str | None = None
    parts: int = 1
    columns: Mapping[str, str] = field(default_factory=dict)
    every: Duration | None = None

    def __hash__(self) -> int:
        return hash(self.name)  # so that `depends` finds a tag in a set of tags: see `reading.TagPart`

    def __str__(self) -> str:
        if self.every is not None:
            return f"{self.name} every {self.every}"
        columns = ", ".join(f"{name}: {kind}" for name, kind in self.columns.items())
        by = "" if self.by is None else f" by {self.by} in {self.parts}"
        return f"{self.name}({columns}){by}"


@explains_arguments(key="by", buckets="parts", partitions="parts")
def tag(name: str, *, by: str | None = None, parts: int | None = None) -> Tag:
    """Make a keyed tag for `hr.program`.

    If `depends` names two tags with keys, their events in different parts are independent. An event's part is a stable hash
    of its key, modulo `parts`.

    Parameters
    ----------
    name : str
    by : str, optional
        The column of its payload that is its key; without a key, the name alone would do.
    parts : int, optional
        Number of parts, from 1 to 65,536; by default 64. Tags that depend on each other within a part have
        the same number.

    Returns
    -------
    Tag

    Raises
    ------
    ParameterError
        The name is not a Python name, `parts` is given without `by`, or it is out of its range.

    Examples
    --------
    >>> print(tag("inc", by="key", parts=8))
    inc() by key in 8
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ParameterError(f"tag({name!r}): give a name, as Python has them")
    if by is None:
        if parts is not None:
            raise ParameterError(f"tag({name!r}, parts={parts!r}): parts are of a key; give by= too, a column of its payload")
        return Tag(name)
    if not isinstance(by, str):
        raise ParameterError(f"tag({name!r}, by={by!r}): give the name of one column of its payload")
    parts = PARTS if parts is None else parts
    if not is_whole_number(parts) or not 1 <= parts <= MOST_PARTS:
        raise ParameterError(f"tag({name!r}, parts={parts!r}): give a whole number from 1 to {MOST_PARTS:,}")
    return Tag(name, by, int(parts))


@dataclass(frozen=True)
class Every:
    """What `every` returns."""

    duration: Duration


@explains_arguments(period="duration", interval="duration", size="duration")
def every(duration: Duration) -> Every:
    """Let event time make a tag's events; given in place of the tag's columns in `hr.program`.

    Time is cut into slices ``[k * duration, (k + 1) * duration)``, k any integer. A slice in which any input has an event
    ends with one event of the tag, a *tick*, whose ``ts`` is the slice's right boundary and whose ``every`` is the duration,
    in the inputs' time unit. It comes after all events of the slice, and before all others of that ts; the last tick comes
    when the inputs have ended. An empty slice has no tick, so a gap of years costs nothing: what a program would do at each
    boundary it can do at the next tick, which knows its time.

    Parameters
    ----------
    duration : str, timedelta or int
        Such as ``"1h"``; an integer is in the inputs' time unit.

    Returns
    -------
    Every

    Raises
    ------
    ParameterError
        The duration is invalid or not above 0; or, in `Program.start`, it is not whole in the inputs' time unit.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> def add(state, e, emit):
    ...     state.sum += e.x
    >>> def close(state, e, emit):
    ...     emit(sum=state.sum)
    ...     state.sum = 0
    >>> hourly = hr.program(
    ...     tags={"value": {"x": "int64"}, "tick": hr.every(10)}, depends=[("tick", "tick"), ("tick", "value")],
    ...     state={"sum": "int64"}, emits={"sum": "int64"}, update={"value": add, "tick": close})
    >>> with hourly.start({"value": pa.table({"ts": [1, 9, 10, 57], "x": [1, 2, 4, 8]})}) as run:
    ...     done = run.wait()
    ...     rows = run.to_arrow().to_pylist()
    >>> rows
    [{'ts': 10, 'sum': 3}, {'ts': 20, 'sum': 4}, {'ts': 60, 'sum': 8}]
    """
    # In the finest unit: whether it is whole in the unit of the inputs is only known once there are inputs.
    if parse_duration(duration, "ns", "every") == 0:
        raise ParameterError(f"every({duration!r}): give a duration above 0, such as '1h'")
    return Every(duration)


PERIODIC = {"every": "int64"}
"""What a tick carries beside its time."""


class ImplementationTag(NamedTuple):
    """A part of a tag, in one of its streams.

    Attributes
    ----------
    tag : str
    part : int
        0 if the tag has no key.
    stream : int
        Which of the tag's streams, from 0.
    """

    tag: str
    part: int
    stream: int


def part_of(keys: Any, parts: int) -> Any:
    """Find the part of a key, or of each of an array.

    Parameters
    ----------
    keys : int, bool, str, or numpy array of them
        A time is given as an integer in its unit.
    parts : int

    Returns
    -------
    int, or int64[n]
        From 0; the same in every process and on every machine.

    Examples
    --------
    >>> part_of(7, 64), part_of("seven", 64)
    (8, 18)
    >>> part_of(np.array([7, 7, 8]), 64)
    array([ 8,  8, 41])
    """
    if not isinstance(keys, np.ndarray):
        return int(part_of(np.array([keys]), parts)[0])
    found = np.empty(keys.size, np.int64)
    with np.errstate(over="ignore"):  # in plain Python (NUMBA_DISABLE_JIT=1) the hash's wrap-around would warn
        if keys.dtype.kind in "bi":
            parts_kernel.parts_of_words(keys.astype(np.int64), parts, found)
        elif keys.dtype.kind in "UOT" and all(isinstance(key, str) for key in keys):
            _, offsets, data = pa.array(keys, pa.large_string()).buffers()
            # Strings that are all empty have no bytes, and an Arrow buffer may be absent then.
            texts = np.frombuffer(data or b"\0", np.uint8)
            parts_kernel.parts_of_texts(texts, np.frombuffer(offsets, np.int64)[: keys.size + 1], parts, found)
        else:
            raise ParameterError(f"part_of: keys {keys[:1]}: a key is an integer within int64, a bool or a string; cast it")
    return found


class TagSet:
    """Which events a wire may process, as `fork` tests: ``"barrier" in tags``, ``("inc", key) in tags``.

    Parameters
    ----------
    tags : mapping of str to Tag
        Tags of the program.
    held : iterable of ImplementationTag
        Members of the set.

    Examples
    --------
    >>> tags = {"inc": tag("inc", by="key", parts=2), "stop": tag("stop")}
    >>> left = TagSet(tags, [ImplementationTag("inc", part_of(7, 2), 0)])
    >>> "inc" in left, ("inc", 7) in left, "stop" in left
    (True, True, False)
    """

    def __init__(self, tags: Mapping[str, Tag], held: Iterable[ImplementationTag]):
        self._tags = tags
        self._parts: dict[str, set[int]] = {}
        for one in held:
            self._parts.setdefault(one.tag, set()).add(one.part)

    def __contains__(self, asked: Any) -> bool:
        name, *key = asked if isinstance(asked, tuple) else (asked,)
        if name not in self._tags:
            raise UnknownNameError(f"{name!r} in tags: there is no such tag; {instead(name, self._tags, 'the tags')}")
        if not key:
            return name in self._parts
        known = self._tags[name]
        if known.by is None:
            raise ParameterError(f"{asked!r} in tags: {name!r} has no key; ask {name!r} in tags")
        (value,) = key
        return name in self._parts and part_of(value, known.parts) in self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        held = (name if self._tags[name].by is None else f"{name}{sorted(parts)}" for name, parts in self._parts.items())
        return f"{{{', '.join(held)}}}"
