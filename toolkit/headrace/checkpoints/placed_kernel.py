"""Kernels that refill containers from their saved contents."""

from headrace.kernel import kernel
from headrace.memory.lists_kernel import list_append
from headrace.memory.maps_kernel import map_add


@kernel
def put_elements(free, arena, lists, at, words):
    """Append the elements of a list, in order: int64[n, 1]. Returns 0, or -1 if there is no room."""
    for i in range(words.shape[0]):
        if list_append(free, arena, lists, arena, at, words[i, 0]) < 0:
            return -1
    return 0


@kernel
def put_entries(free, arena, lists, at, words):
    """Insert the entries of a map or set, with distinct keys: int64[n, 1 + words of a value]. Returns 0, or -1 without room."""
    width = words.shape[1] - 1
    for i in range(words.shape[0]):
        place = map_add(free, arena, lists, arena, at, words[i, 0], width)
        if place < 0:
            return -1
        for word in range(1, width + 1):
            arena[place + word] = words[i, word]
    return 0


__all__ = ["put_elements", "put_entries"]
