"""Copy a tuple's columns, with the keys that an owner has, into the owner's private store.

Included in the router's module. Python opens, enlarges and frees the chunks.
"""

from headrace.elastic.shared_nothing.queueing_kernel import put
from headrace.elastic.shared_nothing.router import (
    BUDGET,
    CONFIG,
    COPIES,
    DIRECTORY_WIDTH,
    KEYS_NEEDED,
    SOURCE,
)
from headrace.ingress.store import CHUNK, KEYS, OFFSETS, TS
from headrace.ingress.store_kernel import chunk_of, entry_of, keys_between, place_of, validity_at, values_at
from headrace.kernel import kernel
from headrace.memory.atomics import view_i32, view_i64, view_u8
from headrace.progress import NEVER
from headrace.references import BUCKET_MASK, SOURCE_SHIFT


@kernel
def note_origin(t, row, r, to):
    """Record which row a private row is a copy of, so that a failure can show the user the tuple itself."""
    view_i64(t.origin[r, chunk_of(to) & 1], CHUNK)[place_of(to)] = row


@kernel
def copy_columns(x, p, t, row, r, to):
    """Copy the time and the values of an input row to row `to` of instance `r`."""
    source = t.words[SOURCE]
    width = t.words[DIRECTORY_WIDTH]
    a = entry_of(row, width)
    b = entry_of(to, width)
    i = place_of(row)
    j = place_of(to)
    view_i64(p[r, source, b + TS], CHUNK)[j] = view_i64(x[source, a + TS], CHUNK)[i]
    for column in range(t.item.size):
        here = x[source, a + values_at(column)]
        there = p[r, source, b + values_at(column)]
        size = t.item[column]
        if size == 8:
            view_i64(there, CHUNK)[j] = view_i64(here, CHUNK)[i]
        elif size == 4:
            view_i32(there, CHUNK)[j] = view_i32(here, CHUNK)[i]
        else:
            view_u8(there, CHUNK)[j] = view_u8(here, CHUNK)[i]
        if t.masked[column] != 0:
            mask = x[source, a + validity_at(column)]
            view_u8(p[r, source, b + validity_at(column)], CHUNK)[j] = view_u8(mask, CHUNK)[i] if mask != 0 else 1


@kernel
def masks_missing(x, t, row):
    """Note the columns that have a validity mask in the input, but not yet in the copies."""
    source = t.words[SOURCE]
    entry = entry_of(row, t.words[DIRECTORY_WIDTH])
    missing = False
    for column in range(t.item.size):
        if t.masked[column] == 0 and x[source, entry + validity_at(column)] != 0:
            t.masked[column] = 1
            missing = True
    return missing


@kernel
def count_keys_room(c, t):
    """Set the budget: how many keys fit, whichever member gets them."""
    member = c.member[t.words[CONFIG]]
    least = NEVER
    for r in range(member.size):
        if member[r] != 0:
            chunk = chunk_of(t.rows[r])
            least = min(least, t.keys_room[r, chunk & 1] - t.used[r])
    t.words[BUDGET] = least


@kernel
def send_to_owners(c, q, x, p, t, row, ts, at, seen):
    """Copy a tuple with several keys to each of their owners. False: a key buffer is too small."""
    w = t.words
    source = w[SOURCE]
    width = w[DIRECTORY_WIDTH]
    entry = entry_of(row, width)
    place = place_of(row)
    first, last = keys_between(x, source, entry, place, place + 1)
    if last - first > w[BUDGET]:
        count_keys_room(c, t)
        if last - first > w[BUDGET]:
            w[KEYS_NEEDED] = last - first
            return False
    w[BUDGET] -= last - first
    keys = view_i32(x[source, entry + KEYS], last)
    owner = c.owner[w[CONFIG]]
    for k in range(first, last):
        key = keys[k]
        r = owner[key & BUCKET_MASK]
        to = t.rows[r]
        there = entry_of(to, width)
        if t.touched[r] != seen:
            t.touched[r] = seen
            copy_columns(x, p, t, row, r, to)
            note_origin(t, row, r, to)
            put(q, t, r, ts, (source << SOURCE_SHIFT) | to, at, seen)
            w[COPIES] += 1
        used = t.used[r]
        view_i32(p[r, source, there + KEYS], used + 1)[used] = key
        t.used[r] = used + 1
    for k in range(first, last):
        r = owner[keys[k] & BUCKET_MASK]
        if t.touched[r] == seen:
            t.touched[r] = -1
            to = t.rows[r]
            view_i32(p[r, source, entry_of(to, width) + OFFSETS], CHUNK + 1)[place_of(to) + 1] = t.used[r]
            t.rows[r] = to + 1
            if place_of(to + 1) == 0:
                t.used[r] = 0
                w[BUDGET] = 0
    return True


@kernel
def send_to_owner(c, q, x, p, t, row, ts, at, seen):
    """Copy a tuple with one key to its owner."""
    source = t.words[SOURCE]
    width = t.words[DIRECTORY_WIDTH]
    key = view_i32(x[source, entry_of(row, width) + KEYS], CHUNK)[place_of(row)]
    r = c.owner[t.words[CONFIG], key & BUCKET_MASK]
    to = t.rows[r]
    copy_columns(x, p, t, row, r, to)
    note_origin(t, row, r, to)
    view_i32(p[r, source, entry_of(to, width) + KEYS], CHUNK)[place_of(to)] = key
    t.rows[r] = to + 1
    put(q, t, r, ts, (source << SOURCE_SHIFT) | to, at, seen)
    t.words[COPIES] += 1


@kernel
def send_to_all(c, q, x, p, t, row, ts, ref, at, seen):
    """Copy a tuple to every member, at its own row number."""
    source = t.words[SOURCE]
    member = c.member[t.words[CONFIG]]
    entry = entry_of(row, t.words[DIRECTORY_WIDTH])
    i = place_of(row)
    key = view_i32(x[source, entry + KEYS], CHUNK)[i]
    for r in range(member.size):
        if member[r] != 0:
            copy_columns(x, p, t, row, r, row)
            view_i32(p[r, source, entry + KEYS], CHUNK)[i] = key
            t.rows[r] = row + 1
            put(q, t, r, ts, ref, at, seen)
            t.words[COPIES] += 1
