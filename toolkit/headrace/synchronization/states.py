"""The memory of a program in one run: a state for each node of the plan, strings; and why a call of a function failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.codegen.bindings import LITERALS, TEMPORARIES, TEXT_FIELDS
from headrace.codegen.functions import NOT_IN_PYTHON, explain_failure, translate_error
from headrace.codegen.placed import words_of, write_first_values
from headrace.egress.containers import state_objects, word_object
from headrace.errors import FunctionError, HeadraceError
from headrace.ingress.ordered_texts import MAX_TEXTS, OrderedTexts
from headrace.ingress.store import Store
from headrace.memory.arena import HANDED_OUT, HEAD, allocate_arena, used_bytes
from headrace.memory.atomics import CELL
from headrace.memory.bundle import named
from headrace.memory.own_words import own_words
from headrace.synchronization import words
from headrace.synchronization.arrays import MOST_NODES
from headrace.synchronization.binding import Bound
from headrace.synchronization.layout import Layout, Place
from headrace.synchronization.tags import TagSet

_NULL_USED = "a null value is used"
"""Errors of compiled code begin with this: see `headrace.codegen.checked`. Plain Python has a TypeError, or goes on."""
_LEFT = "the state that the failed call left, which it may have changed before"


class States:
    """The memory on which the workers of one program work.

    Parameters
    ----------
    bound : Bound
    workers : int
        The most there may be.
    columns : sequence of sequence of str
        Of each input's store.
    tags : sequence of sequence of str
        Of each input.
    max_state : int
        Bytes that states may take.
    asks_texts : bool
        Whether an input has strings that no function reads.
    """

    def __init__(
        self, bound: Bound, workers: int, columns: Sequence[Sequence[str]], tags: Sequence[Sequence[str]], max_state: int,
        asks_texts: bool,
    ):  # fmt: skip
        self.bound, self.workers = bound, workers
        self.texts = OrderedTexts(MAX_TEXTS) if bound.has_texts or asks_texts else None
        if self.texts is not None:
            self.texts.set_types([pa.string()])
            self.texts.keep(bound.literals)
        self._types = list(bound.program.types.values())
        free, arena = allocate_arena(2 * MOST_NODES + workers, max_state // 8)
        stride = max(CELL, -(-max(map(words_of, self._types)) // CELL) * CELL)
        first = int(arena[HANDED_OUT]) + CELL
        arena[HANDED_OUT] += 2 * MOST_NODES * stride
        parts = sum(one.tag.parts for one in bound.tags)
        fields = {
            "arena": arena,
            "arena_f": arena.view(np.float64),
            "arena_h": arena.view(np.float32),
            "arena_free": free,
            "nodes": np.array([MOST_NODES], np.int64),
            "places": first + stride * np.arange(MOST_NODES, dtype=np.int64),
            "entry_places": first + stride * (MOST_NODES + np.arange(MOST_NODES, dtype=np.int64)),
            "roles": np.zeros(MOST_NODES, np.int64),
            "types": np.zeros(MOST_NODES, np.int64),
            "tags_below": np.zeros((MOST_NODES, len(bound.tags)), np.int64),
            "parts_below": np.zeros((MOST_NODES, parts), np.int64),
            "column_at": self._columns_at(columns, tags),
            "temporaries": np.zeros(workers * TEMPORARIES * HEAD, np.int64),
        }
        if self.texts is not None and bound.has_texts:
            fields |= zip(TEXT_FIELDS, (*self.texts.arrays, self.texts.points), strict=True)
            fields[LITERALS] = self.texts.keep(bound.literals).astype(np.int64)
        self.bundle = named(**fields)

    def _columns_at(self, columns: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> np.ndarray:
        """By input and column of all tags: where the column is in the input's store."""
        found = np.zeros((len(columns), max(1, self.bound.columns_at(len(self.bound.tags)))), np.int64)
        for number, (own, of) in enumerate(zip(columns, tags, strict=True)):
            for index, one in enumerate(self.bound.tags):
                if one.tag.name in of:
                    first = self.bound.columns_at(index)
                    found[number, first : first + len(one.columns)] = [list(own).index(c.name) for c in one.columns]
        return found

    def begin(self, layout: Layout) -> None:
        """Write the first state, at the root of a plan."""
        write_first_values(self.bound.program.state, self.bundle.arena, int(self.bundle.places[len(layout.places) - 1]))

    def move(self, before: int, after: int) -> None:
        """Move the state of one node to another one, which has none."""
        if before == after:
            return
        arena, count = self.bundle.arena, words_of(self._types[0])
        here, there = int(self.bundle.places[before]), int(self.bundle.places[after])
        arena[there : there + count] = arena[here : here + count]
        arena[here : here + count] = 0

    def write_plan(self, layout: Layout) -> None:
        """Write which tags each node and those below it have."""
        s, tags = self.bundle, list(self.bound.program.tags)
        s.tags_below[:], s.parts_below[:] = 0, 0
        for node, place in enumerate(layout.places):
            s.types[node] = place.state
            for one in layout.tags_below(node):
                s.tags_below[node, tags.index(one.tag)] = 1
                s.parts_below[node, self.bound.parts_at(one.tag) + one.part] = 1

    def private(self) -> np.ndarray:
        """A worker's own words."""
        return own_words(words.PRIVATE_WORDS)

    def state_bytes(self) -> int:
        """Bytes of the states."""
        return used_bytes(self.bundle.arena_free, self.bundle.arena)

    # -- failures

    def explain_compile_error(self, error: BaseException, module: ModuleType) -> HeadraceError | None:
        """Say in the user's words why the kernels do not compile."""
        return translate_error(error, self.bound.generated, module)

    def explain_exception(
        self, error: Exception, private: np.ndarray, layout: Layout, stores: Sequence[Store]
    ) -> HeadraceError | None:
        """A user function raised: call it again in plain Python, on the event and the states as it left them.

        The states before the call are not kept, which would cost a copy for each event. So the second call may do
        something else; where it does, the message says so.
        """
        kind, number, program = int(private[words.KIND]), int(private[words.NUMBER]), self.bound.program
        function: Callable | None
        event: dict[str, Any] = {}
        if kind == words.UPDATE:
            one = self.bound.tags[number]
            source, row = int(private[words.SOURCE]), int(private[words.POSITION])
            at = int(private[words.AT_NODE])
            name, function, roles = one.tag.name, self._update_at(one.tag.name, at), ("state", "e", "emit")
            event = self._event(one.columns, stores[source], row)

            def given() -> dict[str, Any]:
                return {"state": self._state_of(at), "e": dict(event)}

        elif kind == words.FORK:
            place = layout.places[number]
            name, function, roles = "fork", program.fork, ("state", "left", "right", "tags_left", "tags_right")
            if program.forks:
                function = program.forks[self._signature(layout, place)]

            def given() -> dict[str, Any]:
                sides = [TagSet(program.tags, layout.tags_below(side)) for side in (place.left, place.right)]
                states = [self._state_of(node) for node in (number, place.left, place.right)]
                return dict(zip(roles, (*states, *sides), strict=True))

        elif kind == words.JOIN:
            place = layout.places[number]
            name, function, roles = "join", program.join, ("into", "other")
            nodes = (number, place.right)
            if program.joins:
                function, roles = program.joins[self._signature(layout, place)], ("into", "left", "right")
                nodes = (number, place.left, place.right)

            def given() -> dict[str, Any]:
                return dict(zip(roles, map(self._state_of, nodes), strict=True))

        else:
            return None
        assert function is not None
        explained = explain_failure(function, roles, given(), list(program.emits) if kind == words.UPDATE else None, error, given)
        text, raised = str(explained.args[0]).removeprefix(f"{name}: "), type(error).__name__
        nulls = _nulls_text(event) if isinstance(error, ValueError) and str(error).startswith(_NULL_USED) else ""
        if nulls and text.startswith((NOT_IN_PYTHON, "TypeError")):
            text = nulls
        elif text.startswith(NOT_IN_PYTHON):
            text += f". That call in plain Python was on {_LEFT}"
        elif not text.startswith(raised):
            text = f"{nulls or raised}; called again in plain Python, on {_LEFT}, it has another error: {text}"
        return FunctionError(f"{name}: {text}", explained.function, explained.file, explained.line, explained.tuple)

    def _update_at(self, tag: str, node: int) -> Callable:
        """The function of a tag for the state of a node."""
        return self.bound.program.update_of(tag, list(self.bound.program.types)[int(self.bundle.types[node])])

    def _signature(self, layout: Layout, place: Place) -> tuple[str, str, str]:
        """The types of a node's state and of its children's."""
        types = list(self.bound.program.types)
        return types[place.state], types[layout.places[place.left].state], types[layout.places[place.right].state]

    def _event(self, columns: Sequence[Any], store: Store, row: int) -> dict[str, Any]:
        """An event as plain Python has it."""
        at = np.array([row])
        event: dict[str, Any] = {"ts": store.ts_of(row)}
        for column in columns:
            values, valid = store.column(column.name, at)
            event[column.name] = None if valid is not None and not valid[0] else word_object(values, column.kind, self.texts)
        return event

    def _state_of(self, node: int) -> dict[str, Any]:
        """A state as it is in memory: a failed call may have changed some of it."""
        s = self.bundle
        return state_objects(self._types[int(s.types[node])], s.arena, int(s.places[node]), self.texts)


def _nulls_text(event: Mapping[str, Any]) -> str:
    """Say which columns of an event are null, and what to do; "" if none is. It may be that not all of them were used."""
    nulls = [repr(name) for name, value in event.items() if value is None]
    if not nulls:
        return ""
    what = f"columns {' and '.join(nulls)} are null, and one" if len(nulls) > 1 else f"column {nulls[0]} is null, and it"
    return f"{what} is used: fill it or filter such rows before, or test it with `is None` first"


__all__ = ["States"]
