"""A state in words of an arena as numbers and arrays, and back: exactly, whatever its containers were told by, and when.

A number is its word, a string its place among the strings of the checkpoint. A container is its elements or entries; where
they are in the arena, and the hashes that find them, are made anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.checkpoints.file_format import Contents
from headrace.checkpoints.placed_kernel import put_elements, put_entries
from headrace.codegen.kinds import Array, Kind, ListOf, cells_of
from headrace.codegen.placed import State, is_grown, offsets
from headrace.egress.containers import stride_of, text_words
from headrace.errors import OverflowInputError
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.memory.arena import COUNT, FIRST


class SavedTexts:
    """Strings as a checkpoint has them: each once, known by its place.

    Parameters
    ----------
    texts : OrderedTexts or None
        None where there are no strings.
    """

    def __init__(self, texts: OrderedTexts | None):
        self._texts = texts
        self._places: dict[int, int] = {}

    def places(self, ids: np.ndarray) -> np.ndarray:
        """int64[n]: places of strings that are known by these ids."""
        different, inverse = np.unique(ids, return_inverse=True)
        found = [self._places.setdefault(one, len(self._places)) for one in different.tolist()]
        return np.array(found, np.int64)[inverse.reshape(-1)]

    @property
    def strings(self) -> list[str]:
        """All of them, by place."""
        if not self._places:
            return []
        assert self._texts is not None
        (strings,) = self._texts.decode(np.array(list(self._places), np.int64))
        return strings.to_pylist()


def known_again(texts: OrderedTexts | None, strings: Sequence[str]) -> np.ndarray:
    """int64[n]: ids, in this run, of the strings of a checkpoint by their places."""
    if not strings:
        return np.zeros(0, np.int64)
    assert texts is not None
    return texts.keep(strings).astype(np.int64)


def save_state(state: State, arena: np.ndarray, place: int, texts: SavedTexts) -> Contents:
    """Copy a state; nobody may write to it meanwhile.

    Parameters
    ----------
    state : mapping of str to StateField
    arena : int64[n]
    place : int
        The state's first word.
    texts : SavedTexts
        Written: the strings it has.
    """
    found = Contents()
    for name, offset in offsets(state).items():
        kind, at = state[name].kind, place + offset
        if is_grown(kind):
            first, count = int(arena[at + FIRST]), int(arena[at + COUNT])
            words = arena[first : first + count * stride_of(kind)].reshape(-1, stride_of(kind)).copy()
        else:
            words = arena[at : at + cells_of(kind)].reshape(-1, 1).copy()
        for column in text_words(kind):
            words[:, column] = texts.places(words[:, column])
        found.arrays[name] = words
    return found


def restore_state(
    saved: Contents, state: State, free: np.ndarray, arena: np.ndarray, lists: int, place: int, ids: np.ndarray
) -> None:
    """Write a state that was saved, over one whose containers are empty.

    Parameters
    ----------
    saved : Contents
        Of `save_state`, for the same fields.
    free, arena, lists
        Whose blocks its containers are to have: see `headrace.memory.arena`.
    place : int
        Its first word.
    ids : int64[n]
        Of `known_again`.

    Raises
    ------
    OverflowInputError
        The arena is too small.
    """
    for name, offset in offsets(state).items():
        kind, at = state[name].kind, place + offset
        words = saved.arrays[name].copy()
        for column in text_words(kind):
            words[:, column] = ids[words[:, column]]
        if not is_grown(kind):
            arena[at : at + cells_of(kind)] = words.reshape(-1)
        elif _put(kind, free, arena, lists, at, words) < 0:
            raise OverflowInputError(
                f"state {name!r} of the checkpoint does not fit: it takes more than max_state= allows; pass a larger one"
            )


def _put(kind: Kind, free: np.ndarray, arena: np.ndarray, lists: int, at: int, words: np.ndarray) -> int:
    assert not isinstance(kind, str | Array)
    put = put_elements if isinstance(kind, ListOf) else put_entries
    return put(free, arena, lists, at, words)


__all__ = ["SavedTexts", "known_again", "restore_state", "save_state"]
