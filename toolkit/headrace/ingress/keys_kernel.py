"""Kernels of the key dictionary: an open-addressing table from key values to dense ids.

State of one table (`TableArrays`), all of it owned by the handle in `keys.py`:

slots       two uint64 for each place, in one cache line: WORD, and ENTRY,
            ``length << 32 | id + 1`` (0: empty). Linear probing from the low
            bits of the seeded hash; at most half of the places are taken.
            Places are emptied by shifting back, so there are no tombstones.
WORD        What is compared first. It is the whole key if that has at most
            eight bytes (short strings, numbers, pairs of ids); otherwise the
            seeded hash, and the bytes or parts are compared too.
id          ``slot << bucket_bits | bucket``. Each bucket counts its own slots
            and keeps a list of freed ids, linked through `lengths`.
by id       `homes` (the low bits of the seeded hash); `stored` (the word, or
            where a long string starts in `arena`); `lengths` (bytes of a
            string); `uses` (two int64, in one cache line: LAST_USE, the event
            time of the last use, `UNTOUCHED` before any, `FREE` if the id is not in
            use; and LAST_ROW, the last row with the key, counted over all batches, which
            finds repetitions within a row); `hashes`, the stable ones, only in
            the inner tables of tuples, whose own hashes are made of them.

direct      id + 1 of each whole number from `base` on, 0 for none; empty for other
            keys. A number in this range has no place among the slots, so
            dense numbers are found without a hash and, with AVX, several at a
            time (0.6 ns a key instead of 4.5).

Two hashes: the stable one determines the bucket, is computed when a key is new, and
could be made to collide by a choice of keys; the seeded one determines the
place. With it no entry lies far from its home: of 2**31 keys in a table half
full the farthest lies some 100 places on. An entry beyond `PROBE_LIMIT` means that
an attacker knows the seed; it is refused rather than searched for.

With many keys the table is larger than the caches, so the place of a
key is prefetched some keys ahead of its look-up (pairs of words, 2 M keys: 15
instead of 25 ns a pair; 110,000 words: 10 instead of 12).

A kernel that needs more room returns how far it came and what it needs; the
handle grows that array and calls again. Nothing here allocates or raises.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.ingress.hashing import (
    SHORT,
    bucket_of,
    combine,
    hash_long,
    is_equal,
    load_short,
    load_word,
    mix,
    prefetch,
    seeded_bytes,
    store_word,
)
from headrace.kernel import kernel
from headrace.memory.seeded import Seed, seeded
from headrace.memory.words import copy_bytes

DONE, NEED_PLACES, NEED_IDS, NEED_ARENA, OVER_LIMIT, TOO_LONG, CROWDED = 0, 1, 2, 3, 4, 5, 6
LIVE, ARENA_USED, ARENA_DEAD, PLACED, COUNTS = 0, 1, 2, 3, 4
DIRECT_SIZE = 1 << 20
"""Whole numbers that are looked up directly."""
PROBE_LIMIT = 1024
"""Maximum distance of an entry from its home, in places."""
WORD, ENTRY, PLACE_WORDS = range(3)
"""Words of a place in `slots`, and how many it has."""
LAST_USE, LAST_ROW, USE_WORDS = range(3)
"""Words of an id in `uses`, and how many it has."""
WORDS, HOMES, SCRATCH_ROWS = range(3)
"""Rows of `scratch`, and how many there are."""
FREE = -(2**63)
UNTOUCHED = 2**63 - 1
LONGEST_STRING = 2**31 - 64
AHEAD = 16
"""How many keys before its look-up the place of a key is prefetched."""
BLOCK = 32
"""Strings that are hashed, and whose places are prefetched, before the first of them is looked up."""

_LENGTH_SHIFT = np.uint64(32)
_ID_MASK = np.uint64(0xFFFFFFFF)
_HOME_MASK = np.uint64(0xFFFFFFFF)
_EMPTY = np.uint64(0)


class TableArrays(NamedTuple):
    """What a kernel sees of one table."""

    slots: np.ndarray  # uint64[PLACE_WORDS * places], places a power of two
    homes: np.ndarray  # uint32[ids]
    hashes: np.ndarray  # uint64[ids] of an inner table, else one entry without meaning
    stored: np.ndarray  # uint64[ids]
    lengths: np.ndarray  # int32[ids]
    uses: np.ndarray  # int64[USE_WORDS * ids]
    bucket_next: np.ndarray  # int32[buckets], next slot never used
    bucket_free: np.ndarray  # int32[buckets], first freed id or -1
    arena: np.ndarray  # uint8[...]
    direct: np.ndarray  # int32[DIRECT_SIZE], or none
    counts: np.ndarray  # int64[COUNTS]
    scratch: np.ndarray  # uint64[SCRATCH_ROWS, BLOCK], by string of a block
    seed: Seed
    base: np.uint64
    bucket_bits: int
    limit: int


@kernel
def find_room(g, bucket, arena_bytes, distance):
    """Return a status: whether one more key, `distance` places from its home, fits. Called before anything is written for it."""
    if g.counts[LIVE] >= g.limit:
        return OVER_LIMIT
    if distance > PROBE_LIMIT:
        return CROWDED
    if 2 * PLACE_WORDS * (g.counts[PLACED] + 1) > g.slots.size:
        return NEED_PLACES
    if g.bucket_free[bucket] < 0 and (np.int64(g.bucket_next[bucket]) + 1) << g.bucket_bits > g.stored.size:
        return NEED_IDS
    if g.counts[ARENA_USED] + arena_bytes > g.arena.size:
        return NEED_ARENA
    return DONE


@kernel
def take_id(g, bucket, h, home, length):
    """Take a free id of a bucket; `find_room` must have found one."""
    identity = np.int64(g.bucket_free[bucket])
    if identity >= 0:
        g.bucket_free[bucket] = g.lengths[identity]
    else:
        identity = (np.int64(g.bucket_next[bucket]) << g.bucket_bits) | bucket
        g.bucket_next[bucket] += 1
    # Branch-free: the compiler turned a branch into a masked store, which took 140 ns.
    g.hashes[min(identity, g.hashes.size - 1)] = h
    g.homes[identity] = np.uint32(home & _HOME_MASK)
    g.lengths[identity] = length
    g.uses[USE_WORDS * identity + LAST_USE] = UNTOUCHED
    g.uses[USE_WORDS * identity + LAST_ROW] = 0
    g.counts[LIVE] += 1
    return identity


@kernel
def encode_strings(g, data, starts, ends, ids, first):
    """Write the id of each string ``data[starts[i]:ends[i]]`` from `first` on; new ones get ids.

    Returns
    -------
    position, status : int
        Strings before `position` are done; `status` says what the next one needs.
    """
    mask = np.int64(g.slots.size // PLACE_WORDS - 1)
    count = starts.size
    words, homes = g.scratch[WORDS], g.scratch[HOMES]
    for block in range(first, count, BLOCK):
        block_end = min(block + BLOCK, count)
        for i in range(block, block_end):
            start = np.int64(starts[i])
            length = np.int64(ends[i]) - start
            if length <= SHORT:
                word = load_short(data, start, length)
                home = seeded(word, g.seed)
            else:
                home = seeded_bytes(data, start, length, g.seed)
                word = home
            prefetch(g.slots, PLACE_WORDS * np.int64(home & np.uint64(mask)))
            words[i - block] = word
            homes[i - block] = home
        for i in range(block, block_end):
            word, home = words[i - block], homes[i - block]
            start = np.int64(starts[i])
            length = np.int64(ends[i]) - start
            tag = np.uint64(length) << _LENGTH_SHIFT
            first_place = np.int64(home & np.uint64(mask))
            place = first_place
            while True:
                entry = g.slots[PLACE_WORDS * place + ENTRY]
                if entry == _EMPTY:
                    if length > LONGEST_STRING:
                        return i, TOO_LONG
                    h = mix(word, length) if length <= SHORT else hash_long(data, start, length)
                    bucket = bucket_of(h, g.bucket_bits)
                    arena_bytes = 0 if length <= SHORT else length
                    status = find_room(g, bucket, arena_bytes, (place - first_place) & mask)
                    if status != DONE:
                        return i, status
                    identity = take_id(g, bucket, h, home, length)
                    if length <= SHORT:
                        g.stored[identity] = word
                    else:
                        at = g.counts[ARENA_USED]
                        copy_bytes(g.arena, at, data, start, length)
                        g.stored[identity] = np.uint64(at)
                        g.counts[ARENA_USED] = at + length
                    g.slots[PLACE_WORDS * place + WORD] = word
                    g.slots[PLACE_WORDS * place + ENTRY] = tag | np.uint64(identity + 1)
                    g.counts[PLACED] += 1
                    ids[i] = identity
                    break
                if g.slots[PLACE_WORDS * place + WORD] == word and entry & ~_ID_MASK == tag:
                    identity = np.int64(entry & _ID_MASK) - 1
                    if length <= SHORT or is_equal(
                        data, start, g.arena, np.int64(g.stored[identity]), length
                    ):
                        ids[i] = identity
                        break
                place = (place + 1) & mask
    return count, DONE


@kernel(often=True)
def encode_word(g, word, home):
    """Return the id of an 8-byte value, whose seeded hash is `home`, and a status; a new value gets an id if there is room."""
    mask = np.int64(g.slots.size // PLACE_WORDS - 1)
    first_place = np.int64(home & np.uint64(mask))
    place = first_place
    while True:
        entry = g.slots[PLACE_WORDS * place + ENTRY]
        if entry == _EMPTY:
            h = mix(word, SHORT)
            bucket = bucket_of(h, g.bucket_bits)
            status = find_room(g, bucket, 0, (place - first_place) & mask)
            if status != DONE:
                return np.int64(-1), status
            identity = take_id(g, bucket, h, home, SHORT)
            g.stored[identity] = word
            g.slots[PLACE_WORDS * place + WORD] = word
            g.slots[PLACE_WORDS * place + ENTRY] = np.uint64(identity + 1)
            g.counts[PLACED] += 1
            return identity, DONE
        if g.slots[PLACE_WORDS * place + WORD] == word:
            return np.int64(entry & _ID_MASK) - 1, DONE
        place = (place + 1) & mask


@kernel
def encode_words(g, words, ids, first):
    """Write the id of each 8-byte value, given as uint64; as `encode_strings`."""
    mask = np.uint64(g.slots.size // PLACE_WORDS - 1)
    count = words.size
    for i in range(first, count):
        ahead = seeded(words[min(i + AHEAD, count - 1)], g.seed)
        prefetch(g.slots, PLACE_WORDS * np.int64(ahead & mask))
        identity, status = encode_word(g, words[i], seeded(words[i], g.seed))
        if status != DONE:
            return i, status
        ids[i] = identity
    return count, DONE


@kernel
def find_direct(direct, base, words, ids):
    """Write the id of each number that has one in the direct table, -1 for others; returns whether all have.

    Numbers and ids as for `encode_words`.
    """
    size = np.uint64(direct.size)
    least = np.int32(0)
    for i in range(words.size):
        at = words[i] - base
        found = direct[at if at < size else np.uint64(0)] - np.int32(1)
        found = found if at < size else np.int32(-1)
        ids[i] = found
        least = min(least, found)
    return least == 0


@kernel
def encode_direct(g, words, ids, first):
    """Write the ids that `find_direct` did not find; numbers in its range get a place in the direct table."""
    size = np.uint64(g.direct.size)
    mask = np.uint64(g.slots.size // PLACE_WORDS - 1)
    count = words.size
    for i in range(first, count):
        ahead = words[min(i + AHEAD, count - 1)]
        if ahead - g.base >= size:
            prefetch(g.slots, PLACE_WORDS * np.int64(seeded(ahead, g.seed) & mask))
        if ids[i] >= 0:
            continue
        at = words[i] - g.base
        if at >= size:
            identity, status = encode_word(g, words[i], seeded(words[i], g.seed))
            if status != DONE:
                return i, status
            ids[i] = identity
            continue
        identity = np.int64(g.direct[at]) - 1
        if identity < 0:  # nor was it added earlier in this batch
            bucket = bucket_of(mix(words[i], SHORT), g.bucket_bits)
            status = find_room(g, bucket, 0, 0)
            if status != DONE:
                return i, status
            identity = take_id(g, bucket, mix(words[i], SHORT), np.uint64(0), SHORT)
            g.stored[identity] = words[i]
            g.direct[at] = identity + 1
        ids[i] = identity
    return count, DONE


@kernel
def hash_parts(hashes, ids, row_hashes, count):
    """Fold the hashes of one column's ids into the hashes of tuples of `count` parts so far."""
    for i in range(ids.size):
        part = hashes[ids[i]]
        row_hashes[i] = part if count == 1 else combine(row_hashes[i], part, count)


@kernel
def seed_parts(row_parts, seed, row_homes):
    """Write the seeded hash of each tuple of inner ids; a tuple of two is hashed as one word."""
    columns = row_parts.shape[1]
    for i in range(row_parts.shape[0]):
        h = (np.uint64(row_parts[i, 0]) << _LENGTH_SHIFT) | np.uint64(row_parts[i, 1])
        for k in range(2, columns):
            h = seeded(h, seed) ^ np.uint64(row_parts[i, k])
        row_homes[i] = seeded(h, seed)


@kernel
def encode_parts(g, parts, row_parts, row_hashes, row_homes, ids, first):
    """Write the id of each tuple of inner ids; as `encode_strings`.

    Parameters
    ----------
    parts : int32[ids, columns]
        Inner ids by id of the tuple; written for new ones.
    row_parts : int32[n, columns]
    row_hashes : uint64[n]
        Stable: of the values, not of the inner ids.
    row_homes : uint64[n]
        See `seed_parts`.
    """
    mask = np.int64(g.slots.size // PLACE_WORDS - 1)
    columns = row_parts.shape[1]
    rows = row_parts.shape[0]
    for i in range(first, rows):
        ahead = row_homes[min(i + AHEAD, rows - 1)]
        prefetch(g.slots, PLACE_WORDS * np.int64(ahead & np.uint64(mask)))
        home = row_homes[i]
        word = home
        if columns == 2:
            word = (np.uint64(row_parts[i, 0]) << _LENGTH_SHIFT) | np.uint64(row_parts[i, 1])
        first_place = np.int64(home & np.uint64(mask))
        place = first_place
        while True:
            entry = g.slots[PLACE_WORDS * place + ENTRY]
            if entry == _EMPTY:
                h = row_hashes[i]
                bucket = bucket_of(h, g.bucket_bits)
                status = find_room(g, bucket, 0, (place - first_place) & mask)
                if status != DONE:
                    return i, status
                identity = take_id(g, bucket, h, home, SHORT)
                for k in range(columns):
                    parts[identity, k] = row_parts[i, k]
                g.slots[PLACE_WORDS * place + WORD] = word
                g.slots[PLACE_WORDS * place + ENTRY] = np.uint64(identity + 1)
                g.counts[PLACED] += 1
                ids[i] = identity
                break
            if g.slots[PLACE_WORDS * place + WORD] == word:
                identity = np.int64(entry & _ID_MASK) - 1
                is_same = True
                if columns != 2:
                    for k in range(columns):
                        is_same &= parts[identity, k] == row_parts[i, k]
                if is_same:
                    ids[i] = identity
                    break
            place = (place + 1) & mask
    return row_parts.shape[0], DONE


@kernel
def rehash(slots, wider, homes):
    """Move every entry of a table into an empty, larger one."""
    mask = np.int64(wider.size // PLACE_WORDS - 1)
    last = slots.size // PLACE_WORDS - 1
    for old in range(last + 1):
        # Entries go to a few places that advance with `old`, but their homes lie by id, anywhere.
        ahead = slots[PLACE_WORDS * min(old + 2 * AHEAD, last) + ENTRY]
        prefetch(homes, max(np.int64(ahead & _ID_MASK) - 1, 0))
        entry = slots[PLACE_WORDS * old + ENTRY]
        if entry == _EMPTY:
            continue
        place = np.int64(homes[np.int64(entry & _ID_MASK) - 1]) & mask
        while wider[PLACE_WORDS * place + ENTRY] != _EMPTY:
            place = (place + 1) & mask
        wider[PLACE_WORDS * place + WORD] = slots[PLACE_WORDS * old + WORD]
        wider[PLACE_WORDS * place + ENTRY] = entry


@kernel
def empty_place(g, identity, mask):
    """Take an id out of the slots."""
    place = np.int64(g.homes[identity]) & mask
    while np.int64(g.slots[PLACE_WORDS * place + ENTRY] & _ID_MASK) != identity + 1:
        place = (place + 1) & mask
    # Shift back: an entry after the hole may fill it unless the entry's home lies after the hole.
    hole = place
    while True:
        place = (place + 1) & mask
        entry = g.slots[PLACE_WORDS * place + ENTRY]
        if entry == _EMPTY:
            break
        home = np.int64(g.homes[np.int64(entry & _ID_MASK) - 1]) & mask
        if ((place - home) & mask) >= ((place - hole) & mask):
            g.slots[PLACE_WORDS * hole + WORD] = g.slots[PLACE_WORDS * place + WORD]
            g.slots[PLACE_WORDS * hole + ENTRY] = entry
            hole = place
    g.slots[PLACE_WORDS * hole + ENTRY] = _EMPTY
    g.counts[PLACED] -= 1


@kernel
def free_ids(g, ids, is_string):
    """Take these live ids out of the table and put them on their buckets' free lists."""
    mask = np.int64(g.slots.size // PLACE_WORDS - 1)
    bucket_mask = (np.int64(1) << g.bucket_bits) - 1
    last = ids.size - 1
    for i in range(ids.size):
        # Ids that are freed ascend, but their places lie anywhere. (A number that is looked up directly has home 0.)
        prefetch(g.slots, PLACE_WORDS * (np.int64(g.homes[ids[min(i + AHEAD, last)]]) & mask))
        identity = np.int64(ids[i])
        at = g.stored[identity] - g.base
        if at < np.uint64(g.direct.size):
            g.direct[at] = 0
        else:
            empty_place(g, identity, mask)
        if is_string and g.lengths[identity] > SHORT:
            g.counts[ARENA_DEAD] += g.lengths[identity]
        bucket = identity & bucket_mask
        g.lengths[identity] = g.bucket_free[bucket]
        g.bucket_free[bucket] = identity
        g.uses[USE_WORDS * identity + LAST_USE] = FREE
        g.counts[LIVE] -= 1


@kernel
def compact_arena(g, arena):
    """Copy the bytes of live long strings to a new arena and record their places; returns the bytes used."""
    used = 0
    for identity in range(g.stored.size):
        if g.uses[USE_WORDS * identity + LAST_USE] == FREE or g.lengths[identity] <= SHORT:
            continue
        length = np.int64(g.lengths[identity])
        start = np.int64(g.stored[identity])
        copy_bytes(arena, used, g.arena, start, length)
        g.stored[identity] = np.uint64(used)
        used += length
    return used


@kernel
def find_used(indices, places, used, back):
    """List the entries of a dictionary that occur, each once, and where each index finds its entry.

    Parameters
    ----------
    indices : int64[n]
    places : int32[entries]
        All -1. Written.
    used : int64[at most n]
        Written.
    back : int32[n]
        ``used[back[i]] == indices[i]``. Written.

    Returns
    -------
    int
        Number of entries that occur.
    """
    count = 0
    for i in range(indices.size):
        place = places[indices[i]]
        if place < 0:
            place = np.int32(count)
            places[indices[i]] = place
            used[count] = indices[i]
            count += 1
        back[i] = place
    return count


@kernel
def touch(uses, ids, ts, latest):
    """Note the last use of each id; a time before `latest` counts as that. Returns the last time noted.

    It stores without reading the previous time, so times must not fall, from call to
    call either, and `latest` is what the previous call returned. (So a key that several
    sources use is kept longer by no more than the sources are apart in time.)

    Parameters
    ----------
    uses : int64[USE_WORDS * ids]
        Of `TableArrays`. Written.
    ids : int32[n]
    ts : int64[n]
        Event times, sorted.
    """
    for i in range(ids.size):
        uses[USE_WORDS * np.int64(ids[i]) + LAST_USE] = max(latest, ts[i])
    return max(latest, ts[ids.size - 1]) if ids.size else latest


@kernel
def use_rows(uses, ids, offsets, ts, is_tracked, latest, stamp, kept, kept_offsets):
    """Keep the first occurrence of each id in a row, and note its use; returns the last time noted (see `touch`).

    Parameters
    ----------
    uses : int64[USE_WORDS * ids]
        Of `TableArrays`. Written.
    ids, offsets : int32[k], int[n + 1]
        Row i has ``ids[offsets[i]:offsets[i + 1]]``.
    ts : int64[n]
        Event times of the rows, sorted; not read unless `is_tracked`.
    stamp : int
        Number of rows before this batch, plus 1.
    kept, kept_offsets : int32[k + 1], int32[n + 1]
        Written, as `ids` and `offsets`.
    """
    used = 0
    count = ids.size
    kept_offsets[0] = 0
    for i in range(offsets.size - 1):
        latest = max(latest, ts[i]) if is_tracked else latest
        for j in range(offsets[i], offsets[i + 1]):
            prefetch(uses, USE_WORDS * np.int64(ids[min(j + AHEAD, count - 1)]))
            at = USE_WORDS * np.int64(ids[j])
            # Branch-free: whether a word repeats is not predictable.
            kept[used] = ids[j]
            used += uses[at + LAST_ROW] != stamp + i
            uses[at + LAST_ROW] = stamp + i
            if is_tracked:
                uses[at + LAST_USE] = latest
        kept_offsets[i + 1] = used
    return latest


@kernel
def mark_parts(parts, uses, column, marks):
    """Mark the inner ids that live tuples have in a column."""
    for identity in range(parts.shape[0]):
        if uses[USE_WORDS * identity + LAST_USE] != FREE:
            marks[parts[identity, column]] = 1


@kernel
def measure_strings(lengths, ids, offsets):
    """Write the byte offsets of the strings of `ids`, laid out one after the other."""
    offsets[0] = 0
    for i in range(ids.size):
        offsets[i + 1] = offsets[i] + lengths[ids[i]]


@kernel
def gather_strings(g, ids, offsets, data):
    """Copy the bytes of each id's string to ``data[offsets[i]:]``; `data` has 8 bytes to spare."""
    for i in range(ids.size):
        identity = ids[i]
        length = np.int64(g.lengths[identity])
        if length <= SHORT:
            # All eight bytes: those past the end are overwritten by the next string.
            store_word(data, offsets[i], g.stored[identity])
        else:
            start = np.int64(g.stored[identity])
            copy_bytes(data, offsets[i], g.arena, start, length)


@kernel(often=True)
def word_at(stored, lengths, arena, identity, at):
    """Return bytes `at` to `at` + 8 of an id's string, little-endian, zero padded."""
    length = np.int64(lengths[identity])
    if at >= length:
        return _EMPTY
    if length <= SHORT:
        return stored[identity] >> np.uint64(8 * at)
    start = np.int64(stored[identity]) + at
    return load_word(arena, start) if at + 8 <= length else load_short(arena, start, length - at)


@kernel
def gather_words(stored, lengths, arena, ids, at, words):
    """Write bytes `at` to `at` + 8 of each id's string, as `word_at`; returns how many of these bytes all strings have alike.

    The arrays are those of `TableArrays`. More than are alike are returned where strings end in NULs, or before byte `at` + 8.
    """
    differs = _EMPTY
    for i in range(ids.size):
        words[i] = word_at(stored, lengths, arena, ids[i], at)
        differs |= words[i] ^ words[0]
    alike = 0
    while alike < SHORT and (differs >> np.uint64(8 * alike)) & np.uint64(0xFF) == _EMPTY:
        alike += 1
    return alike
