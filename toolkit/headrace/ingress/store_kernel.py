"""Finding the columns of a tuple in kernels; `store`'s functions of a row number are compiled here as well.

A source's part of the directory, ``x[source]``, has an entry for each chunk: as
many addresses as `store.directory_width` says. A kernel finds the entry and the
place within the chunk once for a run of tuples, and views what it needs there::

    source, entry, first = locate(ref, width)
    ts = view_i64(x[source, entry + TS], CHUNK)
    ts[first]  # the event time of the tuple; those of the same chunk follow

A list column is three consecutive columns (`lists.names_of`): addresses, sizes, nulls; a row's elements are
``view_i64(address, size)``, or view_f64 for floats, and must not be written.

See `store` for why these reads are safe.
"""

import numpy as np

from headrace.ingress.store import CHUNK, DIRECTORY_CHUNKS, FIRST_VALUE, OFFSETS
from headrace.ingress.store import chunk_of as _chunk_of
from headrace.ingress.store import place_of as _place_of
from headrace.kernel import kernel
from headrace.memory.atomics import view_i32
from headrace.references import ROW_MASK, SOURCE_SHIFT

chunk_of, place_of = kernel(_chunk_of), kernel(_place_of)
"""In a tuple's reference, too: it splits into source and chunk, and the place within the chunk."""


@kernel
def entry_of(row, width):
    """Return where the entry of a row's chunk begins, in a directory of `width` addresses per chunk."""
    return (chunk_of(row) & (DIRECTORY_CHUNKS - 1)) * width


@kernel
def locate(ref, width):
    """Locate a tuple: its source, the entry of its chunk, its place there."""
    row = ref & ROW_MASK
    return ref >> SOURCE_SHIFT, entry_of(row, width), place_of(row)


@kernel
def values_at(column):
    """Return the place within an entry of the address of a column's values."""
    return FIRST_VALUE + 2 * column


@kernel
def validity_at(column):
    """Return the place within an entry of the address of a column's validity; the address is 0 where all values are valid."""
    return FIRST_VALUE + 2 * column + 1


@kernel
def rest_of_chunk(row):
    """Return the number of rows from a row to the end of its chunk."""
    return CHUNK - place_of(row)


@kernel
def keys_between(x, source, entry, first, last):
    """Return where the keys of the tuples from place `first` to before `last` begin and end, where tuples have several."""
    offsets = view_i32(x[source, entry + OFFSETS], CHUNK + 1)
    return np.int64(offsets[first]), np.int64(offsets[last])
