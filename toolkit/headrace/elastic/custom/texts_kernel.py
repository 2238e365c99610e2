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
from headrace.memory.arena import COUNT, FIRST
from headrace.memory.atomics import compare_exchange, load_relaxed


@kernel
def windows_of_size(l):
    """How many advances a window is long."""
    return (l[SIZE] + l[ADVANCE] - 1) // l[ADVANCE]


@kernel
def hold_text(held, text, ts):
    """A state holds this string at `ts`; instances that are ahead of this one may have said more."""
    while True:
        before = load_relaxed(held, text)
        if before >= ts or compare_exchange(held, text, before, ts):
            return


@kernel
def hold_words(held, words, first, step, count, ts):
    """A state holds the strings of these words: that at `first`, and every `step`-th one after it."""
    for i in range(count):
        hold_text(held, words[first + i * step], ts)


@kernel
def hold_entries(held, arena, heads, at, word, stride, ts):
    """A state holds the strings that are this word of each element or entry of a container."""
    hold_words(held, arena, heads[at + FIRST] + word, stride, heads[at + COUNT], ts)
