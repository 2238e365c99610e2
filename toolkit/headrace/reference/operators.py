"""The generalized operator O+ (STRETCH section 4.2, Algorithm 2), for one instance that owns all keys.

Where Algorithm 2 is loose, this is what holds:

- a window expires when its right boundary is <= the watermark, not <: otherwise
  a tuple at the boundary would update the window it no longer lies in;
- with one window instance per key (WT=single), the instance is removed when,
  after sliding, no tuple of the key lies in it: the paper's "state is empty",
  said without asking what an empty user state is;
- what update emits is put in order of (event time, position of the tuple, key,
  emission), before what output emits for that event time. Lemma 2 claims that
  it is in order already, which overlapping windows break.

Windows, size 4 and advance 2, one key, tuples x at 1 and 3. WT=multi keeps
all the windows of a key at once; WT=single keeps the earliest and slides it::

    time        -2 -1  0  1  2  3  4  5
    tuples               x     x
    l = -1       [-----------)               multi: x1             single: x1
    l =  0             [-----------)         multi: x1 x3          slides: x1 x3
    l =  1                   [-----------    multi: x3             slides: x3 (purge x1)
"""

from __future__ import annotations

import heapq
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from headrace.errors import ParameterError
from headrace.progress import END_OF_TIME
from headrace.reference.containers import as_emitted, first_value, is_kind
from headrace.reference.days import to_time, to_units
from headrace.reference.keys import KeyFunction, key_set, no_key
from headrace.reference.order import Row, Source, key_order, merge
from headrace.windows import Window, earliest_index, latest_index, left_boundary, right_boundary

Emit = Callable[..., None]
BY_TUPLE, AT_EXPIRY = 0, 1  # for one event time, what update emits comes first


def operator(
    inputs: Sequence[Sequence[Source]],
    window: Window,
    keys: KeyFunction | Sequence[KeyFunction] = no_key,
    *,
    instances: str = "multi",
    state: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
    update: Callable[..., None] | None = None,
    output: Callable[[Any, Any, Emit], None] | None = None,
    slide: Callable[[Any, Any, int], None] | None = None,
    keep_tuples: bool = False,
    purge: bool = True,
    null_keys: str = "error",
) -> list[Row]:
    """Run O+ over I inputs.

    Parameters
    ----------
    inputs : list of list of Source
        I inputs, each of one or more sources; earlier inputs precede later ones.
    window : Window
        WS and WA.
    keys : function, or one for each input
        f_MK.
    instances : str
        WT: ``"multi"``, or ``"single"``.
    state : dict or function (), optional
        Name -> kind (starts at zero, or empty) or first value; a function makes the
        dict anew for each window. Without it, the state is ``tuples``, a list, and
        Table I's defaults hold: `store`, `nothing`, `purge_stale`.
    update : function (state, t, emit) or (key, state, t, emit), optional
        f_U. ``t`` has the columns, ``ts``, and ``input`` (the index of its input).
    output : function (key, state, emit), optional
        f_O, called when a window expires.
    slide : function (key, state, left), optional
        f_S, called in WT=single when the window has moved on to begin at ``left``.
    keep_tuples : bool
        The state has ``tuples`` in any case, and Table I's defaults hold besides: `store` behind ``update``,
        and `purge_stale` behind ``slide``.
    purge : bool
        False: without `purge_stale`; `slide` takes out tuples, or none leave before their window instance ends.
    null_keys : str
        ``"error"`` or ``"drop"``.

    Returns
    -------
    list of Row
        What ``emit(name=value, ...)`` was given, at the right boundary of its window;
        of containers what they held then, as lists (of pairs, for a map).

    Raises
    ------
    ParameterError
        `instances` is neither.
    KeyNullError
        A key is null, and `null_keys` is "error".

    Examples
    --------
    The largest value of each key in windows of 10:

    >>> def update(state, t, emit):
    ...     state.most = max(state.most, t.x)
    >>> def output(key, state, emit):
    ...     emit(most=state.most)
    >>> source = [(1, {"k": "a", "x": 3}), (4, {"k": "a", "x": 7}), (12, {"k": "a", "x": 5})]
    >>> window, by = Window(10, 10), lambda t: [t["k"]]
    >>> rows = operator([[source]], window, by, state={"most": "int64"}, update=update, output=output)
    >>> [(row.ts, row.key, row.values) for row in rows]
    [(10, 'a', {'most': 7}), (20, 'a', {'most': 5})]
    """
    if instances not in ("multi", "single"):
        raise ParameterError(f"instances = {instances!r}: give 'multi' or 'single'")
    stores = keep_tuples or (state is None and update is None)
    purges = purge and (keep_tuples or (state is None and slide is None))
    reads_key = update is not None and len(inspect.signature(update).parameters) == 4
    update, output, slide = update or nothing, output or nothing, slide or nothing
    key_functions = [keys] * len(inputs) if callable(keys) else keys
    input_of_source = [index for index, sources in enumerate(inputs) for _ in sources]

    windows: dict[tuple[int, Any], SimpleNamespace] = {}  # (window index, key) -> what it holds
    expiry: list[tuple[int, Any, Any]] = []  # heap of (window index, order of the key, key)
    emitted: list[tuple[Any, Row]] = []  # (place in the output, row)

    def add(index: int, key: Any, held: SimpleNamespace) -> None:
        windows[index, key] = held
        heapq.heappush(expiry, (index, key_order(key), key))

    def ends(index: int) -> int:
        return to_time(window, right_boundary(index, window.size, window.advance))

    def emitter(index: int, key: Any, cause: tuple[int, ...]) -> Emit:
        ts = ends(index)

        def emit(**values: Any) -> None:
            copied = {name: as_emitted(value) for name, value in values.items()}
            emitted.append(((ts, cause, key_order(key), len(emitted)), Row(ts, key, copied)))

        return emit

    def expire(watermark: int) -> None:
        while expiry and ends(expiry[0][0]) <= watermark:
            index, _, key = heapq.heappop(expiry)
            held = windows.pop((index, key))
            output(key, held.state, emitter(index, key, (AT_EXPIRY,)))
            left = to_time(window, left_boundary(index + 1, window.advance))
            if instances == "single" and held.latest_ts >= left:
                slide(key, held.state, left)
                if purges:
                    purge_stale(key, held.state, left)
                add(index + 1, key, held)

    for t in merge([source for sources in inputs for source in sources]):
        expire(t.ts)
        units = to_units(window, t.ts)
        earliest = earliest_index(units, window.size, window.advance)
        latest = earliest if instances == "single" else latest_index(units, window.advance)
        source_input = input_of_source[t.source]
        view = SimpleNamespace(**({"input": source_input} | t.payload | {"ts": t.ts}))
        for index in range(earliest, latest + 1):
            for key in key_set(key_functions[source_input], t.payload, null_keys):
                if (index, key) not in windows:
                    add(index, key, SimpleNamespace(state=_first_state(state, keep_tuples), latest_ts=t.ts))
                held = windows[index, key]
                held.latest_ts = t.ts
                update(*[key] * reads_key, held.state, view, emitter(index, key, (BY_TUPLE, t.position)))
                if stores:
                    store(held.state, view)
    expire(END_OF_TIME)
    return [row for _, row in sorted(emitted, key=lambda entry: entry[0])]


def nothing(*arguments: Any) -> None:
    """Default of output: emit nothing."""


def store(state: Any, t: Any) -> None:
    """Default of update: store the tuple. Its ``input`` tells it from those of other inputs."""
    state.tuples.append(t)


def purge_stale(key: Any, state: Any, left: int) -> None:
    """Default of slide: purge the tuples that lie before the window."""
    state.tuples[:] = [t for t in state.tuples if t.ts >= left]


def _first_state(state: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None, keeps: bool) -> SimpleNamespace:
    first = (state() if callable(state) else state) or {}
    fields = {name: first_value(v) if is_kind(v) else v for name, v in first.items()}
    return SimpleNamespace(**fields | ({"tuples": []} if state is None or keeps else {}))
