"""Ordered pipelines: one worker, one tuple after another, which is what every schedule must be equal to.

A chain of stages over a stream whose order means something. Each tuple passes all stages before the next one enters the
first, so a stage sees its input in the order that the stage before it gave it (Prasaad, Ramalingam, Rajan, sections 2.1
and 5: an execution is ordered, Definition 5.1, if it gives the outputs of this one).

When the input ends, `end` is called: that of the first stateful stage that has one; when what it emits has passed the
later stages, that of the next one, and so on; on empty input too.

>>> calls = [(0, {"phone": 1, "km": 0}), (1, {"phone": 2, "km": 5}), (2, {"phone": 1, "km": 9})]
>>> def moved(state, t, emit):
...     if state.calls > 0:
...         emit(phone=t.phone, km=t.km - state.km)
...     state.km, state.calls = t.km, state.calls + 1
>>> def add(state, t, emit):
...     state.km, state.ts = state.km + t.km, t.ts
>>> def total(state, emit):
...     emit(ts=state.ts + 1, km=state.km)
>>> ordered(
...     [calls],
...     [
...         Filter(lambda t: t.km >= 0),
...         Partitioned(moved, by="phone", state={"km": "int64", "calls": "int64"}, emits=["phone", "km"]),
...         Stateful(add, state={"km": "int64", "ts": "int64"}, emits=["km"], end=total),
...     ],
... )
[{'ts': 3, 'km': 9}]
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

from headrace.errors import DisorderError, EventTimeError, ParameterError
from headrace.reference.containers import as_emitted, first_value, is_kind
from headrace.reference.keys import column, columns, key_set
from headrace.reference.order import Payload, Source, merge
from headrace.reference.transactions import check_range

Emit = Callable[..., None]
Emits = Collection[str] | Mapping[str, Any]
"""Names of what a stage emits, in order; where kinds are given, numbers are of these kinds."""
StateOf = Mapping[str, Any]
"""Name -> kind, or first value."""
Timed = tuple[int, Payload]


class Stage(Protocol):
    """One operator of the chain: an iterator of tuples for an iterator of tuples."""

    def run(self, tuples: Iterable[Timed]) -> Iterator[Timed]: ...


def ordered(sources: Sequence[Source], stages: Iterable[Stage]) -> list[Payload]:
    """Run a chain of stages over a stream.

    Parameters
    ----------
    sources : sequence of Source
        Merged in the order of every engine.
    stages : iterable of Stage
        `Filter`, `Map`, `FlatMap`, `Partitioned`, `Stateful`, in the order of the chain.

    Returns
    -------
    list of dict
        What leaves the last stage: ts and columns, in order. Event times may go back where a function emits them so.

    Raises
    ------
    DisorderError
        If an event time goes back before a stage that needs time.

    Notes
    -----
    Prasaad, Ramalingam, Rajan, section 2: what any execution has to give, the outputs in the order of one worker.

    Examples
    --------
    >>> def counted(state, t, emit):
    ...     state.n += 1
    ...     emit(n=state.n)
    >>> source = [(1, {"k": "a"}), (2, {"k": "b"}), (3, {"k": "a"})]
    >>> ordered([source], [Partitioned(counted, "k", {"n": "int64"}, emits=["n"], carry=["k"])])
    [{'ts': 1, 'k': 'a', 'n': 1}, {'ts': 2, 'k': 'b', 'n': 1}, {'ts': 3, 'k': 'a', 'n': 2}]
    """
    # Iterators that pull from each other: a tuple passes all stages before the next one is pulled, and the `end` of a stage
    # is called only when the stage before has ended, and all that the `end` of that stage emitted has passed.
    flow: Iterable[Timed] = ((t.ts, t.payload) for t in merge(sources))
    for stage in stages:
        flow = stage.run(flow)
    return [{"ts": ts} | payload | {"ts": ts} for ts, payload in flow]


# -- stateless ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filter:
    """Keep the tuples for which a function of a tuple is true; null is not."""

    function: Callable[[Any], bool | None]

    def run(self, tuples: Iterable[Timed]) -> Iterator[Timed]:
        return ((ts, payload) for ts, payload in tuples if self.function(_view(ts, payload)))


@dataclass(frozen=True)
class FlatMap:
    """Make zero, one or many tuples of each.

    Parameters
    ----------
    function : callable
        ``f(t, emit)``.
    emits : names, or mapping of names to kinds
        Of what it emits; what a call of `emit` leaves out is null.
    carry : names, or None
        Of columns of the tuple that its outputs keep, before those; None: all.
    """

    function: Callable[[Any, Emit], None]
    emits: Emits
    carry: Collection[str] | None = ()

    def run(self, tuples: Iterable[Timed]) -> Iterator[Timed]:
        for ts, payload in tuples:
            out = Emitter(self.emits, ts, _carried(payload, self.carry))
            self.function(_view(ts, payload), out.emit)
            yield from out.emitted


@dataclass(frozen=True)
class Map:
    """Make one tuple of each.

    Parameters
    ----------
    function : callable
        ``f(t, emit)`` that emits once, or ``f(t)`` that returns the value of the only column.
    emits, carry
        As of `FlatMap`.
    """

    function: Callable[..., Any]
    emits: Emits
    carry: Collection[str] | None = ()

    def run(self, tuples: Iterable[Timed]) -> Iterator[Timed]:
        takes_emit = len(inspect.signature(self.function).parameters) > 1
        for ts, payload in tuples:
            out = Emitter(self.emits, ts, _carried(payload, self.carry))
            if takes_emit:
                self.function(_view(ts, payload), out.emit)
            else:
                (name,) = self.emits
                out.emit(**{name: self.function(_view(ts, payload))})
            if len(out.emitted) != 1:
                raise ParameterError(f"map: emit was called {len(out.emitted)} times; a map emits once, a flat_map as it likes")
            yield from out.emitted


# -- stateful -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Partitioned:
    """Keep a state for each key.

    Parameters
    ----------
    function : callable
        ``f(state, t, emit)``: `state` is that of the tuple's key.
    by : str or several
        Columns that are the key.
    state : mapping
        Name -> kind, or first value.
    emits, carry
        As of `FlatMap`.
    null_keys : {"error", "drop"}
        What a tuple with a null key does.
    forget : int, optional
        In the unit of event times: a key whose last tuple is more than that earlier is as new. The stage then needs time.
    """

    function: Callable[[Any, Any, Emit], None]
    by: str | Sequence[str]
    state: StateOf
    emits: Emits
    carry: Collection[str] | None = ()
    null_keys: str = "error"
    forget: int | None = None

    def run(self, tuples: Iterable[Timed]) -> Iterator[Timed]:
        key_of = column(self.by) if isinstance(self.by, str) else columns(*map(column, self.by))
        states: dict[Any, State] = {}
        seen: dict[Any, int] = {}
        for ts, payload in tuples if self.forget is None else _forward_in_time(tuples):
            for key in key_set(key_of, payload, self.null_keys):  # one, or none where a null one is dropped
                if key not in states or (self.forget is not None and ts - seen[key] > self.forget):
                    states[key] = State(self.state)
                seen[key] = ts
                out = Emitter(self.emits, ts, _carried(payload, self.carry))
                self.function(states[key], _view(ts, payload), out.emit)
                yield from out.emitted


@dataclass(frozen=True)
class Stateful:
    """Keep one state.

    Parameters
    ----------
    function : callable
        ``f(state, t, emit)``.
    state, emits, carry
        As of `Partitioned`. What `end` emits has nulls for what is carried.
    end : callable, optional
        ``end(state, emit)``, once when the input has ended. There is no tuple, so it says ``emit(ts=...)``.
    """

    function: Callable[[Any, Any, Emit], None]
    state: StateOf
    emits: Emits
    carry: Collection[str] | None = ()
    end: Callable[[Any, Emit], None] | None = None

    def run(self, tuples: Iterable[Timed]) -> Iterator[Timed]:
        state = State(self.state)
        for ts, payload in tuples:
            out = Emitter(self.emits, ts, _carried(payload, self.carry))
            self.function(state, _view(ts, payload), out.emit)
            yield from out.emitted
        if self.end is not None:
            out = Emitter(self.emits, None, dict.fromkeys(self.carry or ()))
            self.end(state, out.emit)
            yield from out.emitted


class State:
    """What a function keeps: fields with values of their kinds.

    Parameters
    ----------
    fields : mapping
        Name -> kind (zero, "" or empty at first), or first value.
    """

    __slots__ = ("__kinds", "__values")

    def __init__(self, fields: StateOf):
        kinds = {name: field if is_kind(field) else _kind_of(field) for name, field in fields.items()}
        first = {name: first_value(field) if is_kind(field) else field for name, field in fields.items()}
        object.__setattr__(self, "_State__kinds", kinds)
        object.__setattr__(self, "_State__values", first)

    def __getattr__(self, name: str) -> Any:
        if name not in self.__values:
            raise AttributeError(f"the state has no field {name!r}; it has {', '.join(self.__values)}")
        return self.__values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__values:
            raise AttributeError(f"the state has no field {name!r}; it has {', '.join(self.__values)}")
        self.__values[name] = as_kind(self.__kinds[name], value, name)


class Emitter:
    """Gathers what one call of a function emits.

    Parameters
    ----------
    emits : names, or mapping of names to kinds
    ts : int or None
        Event time of the tuple; None: there is no tuple.
    carried : dict
        What each output begins with.
    """

    def __init__(self, emits: Emits, ts: int | None, carried: Payload):
        self._emits, self._ts, self._carried = emits, ts, carried
        self._kinds = emits if isinstance(emits, Mapping) else dict.fromkeys(emits)
        self.emitted: list[Timed] = []

    def emit(self, **values: Any) -> None:
        """Give an output; its event time is the tuple's unless there is a `ts`."""
        ts = values.pop("ts", self._ts)
        if ts is None and self._ts is None:
            raise EventTimeError("emit() without ts= where the input has ended: there is no tuple whose event time it could have")
        if isinstance(ts, bool) or not isinstance(ts, int):
            raise EventTimeError(f"emit(ts={ts!r}): an event time is an integer")
        check_range(ts, "ts")
        if unknown := sorted(values.keys() - self._kinds.keys()):
            raise ParameterError(f"emit({unknown[0]}=...): the columns are {', '.join(self._emits)}")
        given = {name: _as_number(self._kinds[name], as_emitted(value), name) for name, value in values.items()}
        self.emitted.append((ts, self._carried | dict.fromkeys(self._emits) | given))


def as_kind(kind: Any, value: Any, where: str) -> Any:
    """Return a value as a field of a kind holds it: a number of the kind, or a container of its own with the same content.

    Examples
    --------
    >>> as_kind("float64", 2**53 + 1, "x"), as_kind("int64", None, "x")
    (9007199254740992.0, None)
    """
    if isinstance(kind, str) or not isinstance(value, list | set | dict):
        return _as_number(kind, value, where)
    held = first_value(kind)
    if isinstance(held, list):
        held[:] = value
    else:
        held.update(value)
    return held


def _as_number(kind: Any, value: Any, where: str) -> Any:
    """Return integers within int64, and floats where floats are meant; all else as it is."""
    if kind in ("float64", "float32") and isinstance(value, int):
        return float(value)
    check_range(value, where)
    return value


def _kind_of(value: Any) -> str | None:
    # bool before int, since every bool is an int
    return next((kind for of, kind in ((bool, "bool"), (int, "int64"), (float, "float64")) if isinstance(value, of)), None)


def _view(ts: int, payload: Payload) -> SimpleNamespace:
    return SimpleNamespace(**payload | {"ts": ts})


def _carried(payload: Payload, carry: Collection[str] | None) -> Payload:
    return payload if carry is None else {name: payload[name] for name in carry}


def _forward_in_time(tuples: Iterable[Timed]) -> Iterator[Timed]:
    previous = None
    for ts, payload in tuples:
        if previous is not None and ts < previous:
            raise DisorderError(f"event time {ts} after {previous}: emit(ts=...) went back before a stage that needs time")
        previous = ts
        yield ts, payload
