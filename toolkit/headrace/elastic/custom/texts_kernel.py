"""Keep strings in the state of sliding window instances from being recycled.

Included in the module of an operator with one instance per key whose state holds
strings. A tuple keeps its strings in use for a window's length from its event time.
State that outlives the window needs more: an instance that slides records the strings
it holds, with the left boundary of its window as their time, each time it has moved on
by a window's length. So every string that an instance at window l holds was recorded,
or arrived, less than `windows_of_size` windows before l, and `CompiledCustom.release`
frees its id only after that.
"""

# ruff: noqa: F821  (names of custom_kernel)

from headrace.kernel import kernel
from headrace.memory.held_texts_kernel import hold_entries, hold_text, hold_words


@kernel
def windows_of_size(l):
    """The length of a window in advances, rounded up."""
    return (l[SIZE] + l[ADVANCE] - 1) // l[ADVANCE]


__all__ = ["hold_entries", "hold_text", "hold_words", "windows_of_size"]
