"""Containers that a custom operator emits: copied for the results when the function names them.

Included in the module of an operator whose results have lists, sets or maps. The
words of each are written to the instance's ring of words (`egress.words_ring`)
before its record is, and where they are is kept in words of the instance until
`emit_row` makes the record::

    STAGED      how many words follow that are in use
    STAGED + 1  position and number of words of the first container of the record,
                and so on

After a stop nothing is written any more, and `emit_row` gives up.
"""

# ruff: noqa: F821  (STAGED is the template's, HALTED that of custom_kernel)

from headrace.egress.words_ring import write_words
from headrace.kernel import kernel
from headrace.memory.arena import COUNT, FIRST


@kernel
def stage(me, o, s, l, heads, at, width):
    """Copy a container for the record that is about to be made; which of its containers it is, times two."""
    words = heads[at + COUNT] * (width + 1)
    position = np.int64(0)
    if l[HALTED] == 0:
        position = write_words(o, me, s.arena, heads[at + FIRST], words, 1)
        if position < 0:
            l[HALTED] = 1
    place = l[STAGED]
    l[STAGED + 1 + place] = position
    l[STAGED + 2 + place] = words
    l[STAGED] = place + 2
    return place
