"""Strings in the state of window instances that slide, kept from being recycled while they are there.

Included in the module of an operator with one instance per key whose state holds
strings. A string that came with a tuple is kept for a window's length by the
tuple's event time. State that lives on needs more: an instance that slides notes
what it holds as of the left boundary of its window, and again when it has moved on
by a window's length. So of an instance at window l every string it holds was noted,
or came, less than `windows_of_size` windows before l, and `CustomProgram.release`
lets its id go only later.
"""

# ruff: noqa: F821  (names of custom_kernel)

from headrace.kernel import kernel
from headrace.memory.held_texts_kernel import hold_entries, hold_text, hold_words


@kernel
def windows_of_size(l):
    """How many advances a window is long."""
    return (l[SIZE] + l[ADVANCE] - 1) // l[ADVANCE]


__all__ = ["hold_entries", "hold_text", "hold_words", "windows_of_size"]
