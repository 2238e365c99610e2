"""Converting a state in words of an arena to numbers and arrays, and back without loss.

A number is saved as its word, a string as its place among the strings of the checkpoint, a container as its elements or
entries; their places in the arena, and the hashes that find them, are made anew.
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
    """The strings of a checkpoint: each is saved once and referred to by its place.

    Parameters
    ----------
    texts : OrderedTexts or None
        None where there are no strings.
    """

    def __init__(self, texts: OrderedTexts | None):
        self._texts = texts
        self._places: dict[int, int] = {}

    def places(self, ids: np.ndarray) -> np.ndarray:
        """Return int64[n]: the places of the strings with these ids."""
        different, inverse = np.unique(ids, return_inverse=True)
        found = [self._places.setdefault(one, len(self._places)) for one in different.tolist()]
        return np.array(found, np.int64)[inverse.reshape(-1)]

    @property
    def strings(self) -> list[str]:
        """All strings, by place."""
        if not self._places:
            return []
        assert self._texts is not None
        (strings,) = self._texts.decode(np.array(list(self._places), np.int64))
        return strings.to_pylist()


def known_again(texts: OrderedTexts | None, strings: Sequence[str]) -> np.ndarray:
    """Return int64[n]: the ids in this run of the strings of a checkpoint, by their places."""
    if not strings:
        return np.zeros(0, np.int64)
    assert texts is not None
    return texts.keep(strings).astype(np.int64)


def save_state(state: State, arena: np.ndarray, place: int, texts: SavedTexts) -> Contents:
    """Copy a state, to which no thread may write meanwhile.

    Parameters
    ----------
    state : mapping of str to StateField
    arena : int64[n]
    place : int
        The state's first word.
    texts : SavedTexts
        Takes the strings that the state has.
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
    """Restore a saved state into one whose containers are empty.

    Parameters
    ----------
    saved : Contents
        From `save_state`, for the same fields.
    free, arena, lists
        From which its containers take their blocks: see `headrace.memory.arena`.
    place : int
        The state's first word.
    ids : int64[n]
        From `known_again`.

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
