"""A state whose fields lie side by side in words of an arena: the place of each field, and text that works on all of them.

In a kernel such a state is at word ``k`` of ``s.arena``, of which ``s.arena_f`` and ``s.arena_h`` are views as float64 and
float32; the free lists of its owner begin at word ``owner`` of ``s.arena_free`` (`headrace.memory.arena`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headrace.codegen.bindings import Binding, ContainerBinding, FieldBinding
from headrace.codegen.kinds import Array, Kind, cells_of, scalar
from headrace.codegen.state import StateField

State = Mapping[str, StateField]


def offsets(state: State) -> dict[str, int]:
    """Return field -> its first word, relative to that of the state.

    Examples
    --------
    >>> offsets({"n": StateField("int64", 0), "last": StateField("float64", 0.0)})
    {'n': 0, 'last': 1}
    """
    found, at = {}, 0
    for name, field in state.items():
        found[name] = at
        at += cells_of(field.kind)
    return found


def words_of(state: State) -> int:
    """Return how many words a state has."""
    return sum(cells_of(field.kind) for field in state.values())


def cell(kind: str, place: str, arena: str = "s.arena") -> str:
    """Return the text of a word, in the array that has its type.

    Examples
    --------
    >>> cell("float64", "k + 1")
    's.arena_f[k + 1]'
    """
    if kind == "float64":
        return f"{arena}_f[{place}]"
    return f"{arena}_h[2 * ({place})]" if kind == "float32" else f"{arena}[{place}]"


def bindings(state: State, k: str = "k", owner: str = "owner", arena: str = "s.arena") -> dict[str, Binding]:
    """Return what the fields of a state stand for in a function, given the names of its place and its owner's free lists.

    Its numbers are in the words of `arena`, for which a kernel may use an array of its own; containers are in the words
    of ``s.arena``.
    """
    fields: dict[str, Binding] = {}
    for name, offset in offsets(state).items():
        kind = state[name].kind
        if not isinstance(kind, str):
            fields[name] = ContainerBinding(kind, "s.arena", f"{k} + {offset}", owner)
            continue
        known = scalar(kind)
        assert known is not None
        seen = known.in_functions
        place = cell(seen, f"{k} + {offset}", arena)
        value = f"{place} != 0" if seen == "bool" else f"np.float64({place})" if seen == "float32" else place
        fields[name] = FieldBinding(value, place, kind if kind in ("string", "bool") or seen == kind else seen)
    return fields


def beginning(state: State) -> list[str]:
    """Return the statements that turn zeros into first values."""
    lines = []
    for name, offset in offsets(state).items():
        kind, first = state[name].kind, state[name].first
        if not isinstance(kind, str) or kind == "string" or not first:
            continue
        value = float(first)
        text = repr(first)
        if value != value:
            text = "np.nan"
        elif value in (float("inf"), float("-inf")):
            text = "np.inf" if value > 0 else "-np.inf"
        elif kind == "bool":
            text = "1"
        lines.append(f"{cell(kind, f'k + {offset}')} = {text}")
    return lines


def write_first_values(state: State, arena: np.ndarray, place: int) -> None:
    """Turn zeros into first values, in the arena itself.

    Parameters
    ----------
    state : mapping of str to StateField
    arena : int64[n]
    place : int
        The state's first word.
    """
    for name, offset in offsets(state).items():
        kind, first = state[name].kind, state[name].first
        if not isinstance(kind, str) or kind == "string":
            continue
        if kind == "float64":
            arena.view(np.float64)[place + offset] = first
        elif kind == "float32":
            arena.view(np.float32)[2 * (place + offset)] = first
        else:
            arena[place + offset] = int(first or 0)


def ending(state: State, k: str = "k", owner: str = "owner") -> list[str]:
    """Return the statements that free what the containers of a state hold, and set the state to zeros."""
    lines = [
        f"release(s.arena_free, s.arena, {owner}, s.arena, {k} + {offset})"
        for name, offset in offsets(state).items()
        if is_grown(state[name].kind)
    ]
    return [*lines, f"for word in range({k}, {k} + {words_of(state)}):", "    s.arena[word] = 0"]


def word_kinds(state: State) -> dict[str, str]:
    """Return field -> type of its word (int64, float64 or float32), for fields that are not containers.

    Examples
    --------
    >>> word_kinds({"n": StateField("bool", False), "last": StateField("float64", 0.0)})
    {'n': 'int64', 'last': 'float64'}
    """
    found = {}
    for name, field in state.items():
        known = scalar(field.kind) if isinstance(field.kind, str) else None
        if known is not None:
            found[name] = known.in_functions if known.in_functions in ("float64", "float32") else "int64"
    return found


def is_grown(kind: Kind) -> bool:
    """Whether this is a container that takes memory of its own as it grows."""
    return not isinstance(kind, str | Array)
