"""Containers that a custom operator emits: copied when the function names them, before the record is made.

Included in the module of an operator whose results have lists, sets or maps. The
words of each go to the instance's ring of words (`egress.words_ring`), and the
record holds their position and number. Once the run has stopped nothing is
written, and `emit_row` gives up.
"""

# ruff: noqa: F821  (names of custom_kernel)

from headrace.egress.words_ring import write_words
from headrace.kernel import kernel
from headrace.memory.arena import COUNT, FIRST


@kernel
def stage(me, o, s, l, heads, at, width):
    """Copy a container for the record about to be made. Returns the position and number of its words."""
    words = heads[at + COUNT] * (width + 1)
    position = np.int64(0)
    if l[HALTED] == 0:
        position = write_words(o, me, s.arena, heads[at + FIRST], words, 1)
        if position < 0:
            l[HALTED] = 1
    return position, words
