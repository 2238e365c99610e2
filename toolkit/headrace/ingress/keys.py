"""The key dictionary: key values to dense integer ids, and back.

Inside the engine a key is an int32. Its low bits are its bucket, a stable hash
of the value (`hashing.py` defines it), so the ownership test is arithmetic on
the id; its other bits count the keys of that bucket, so state is a dense array.
An id whose key's last window has expired is recycled: live ids, and with them
the state, grow with the live keys and not with the stream.

Anybody can find keys that are all of one bucket. One instance then does all the
work, as for one hot key, and no mapping of buckets helps; and ids are as sparse as
there are buckets, until `id_capacity` refuses more of them. The tables themselves
cannot be flooded: their places come from a hash with a random seed.

A tuple of several columns is encoded by column first; the tuple of inner ids is
then the key of a second table, hashed by the values' hashes. Of a column that is
dictionary-encoded each entry is looked up once, while the dictionary stays the same.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.errors import (
    KeyNullError,
    OverflowInputError,
    ParameterError,
    SchemaError,
    UnsupportedTypeError,
)
from headrace.ingress import columns, keys_kernel
from headrace.ingress.keys_kernel import ARENA_DEAD, ARENA_USED, FREE, LIVE, TableArrays
from headrace.ingress.sorting import argsort, distinct, group_starts, ranks
from headrace.ingress.validation import is_same_memory
from headrace.memory.seeded import draw_seed
from headrace.references import BUCKETS

KINDS = ("string", "int", "float")
DEFAULT_LIMIT = 2**24
_LARGEST_ID_COUNT = 2**31
_SMALLEST_ARENA = 1 << 16
_NAN_BITS = np.int64(0x7FF8000000000000)


def id_capacity(max_keys: int, buckets: int = BUCKETS) -> int:
    """Return how far ids may reach: twice the keys that may be live, for buckets are not quite even.

    Ids count the keys of the fullest bucket, times the buckets. So this bounds the
    memory of keys that somebody chose to be of one bucket, too.
    """
    return max(64 * buckets, 2 * max_keys)


def key_kind(kind: pa.DataType) -> str | None:
    """Return which of `KINDS` a column type is as a key, or None if it cannot be one."""
    kind = columns.plain_type(kind)
    if columns.is_string(kind):
        return "string"
    if columns.is_whole(kind):
        return "int"
    return "float" if pa.types.is_floating(kind) else None


class KeyLimitError(OverflowInputError):
    """No more keys can be live; it may pass when some expire. What was encoded stays, and is found again."""


class _Table:
    """The arrays of one table and their growth; what a word means is the subclass's."""

    is_string = False

    def __init__(self, bucket_bits: int, limit: int, is_inner: bool = False):
        self.bucket_bits, self.limit = bucket_bits, limit
        self.seed = draw_seed()
        ids = max(1 << bucket_bits, 64)
        self.slots = np.zeros(2 * 256, np.uint64)
        self.homes = np.zeros(ids, np.uint32)
        self.hashes = np.zeros(ids if is_inner else 1, np.uint64)
        self.stored = np.zeros(ids, np.uint64)
        self.lengths = np.zeros(ids, np.int32)
        self.uses = np.full(2 * ids, FREE, np.int64)
        self.bucket_next = np.zeros(1 << bucket_bits, np.int32)
        self.bucket_free = np.full(1 << bucket_bits, -1, np.int32)
        self.arena = np.zeros(_SMALLEST_ARENA if self.is_string else 0, np.uint8)
        self.direct, self.base = np.zeros(0, np.int32), np.uint64(0)
        self.counts = np.zeros(keys_kernel.COUNTS, np.int64)
        self.scratch = np.zeros(2 * keys_kernel.BLOCK, np.uint64)

    @property
    def arrays(self) -> TableArrays:
        return TableArrays(
            self.slots, self.homes, self.hashes, self.stored, self.lengths, self.uses, self.bucket_next,
            self.bucket_free, self.arena, self.direct, self.counts, self.scratch, self.seed, self.base,
            self.bucket_bits, self.limit,
        )  # fmt: skip

    @property
    def last(self) -> np.ndarray:
        """Event time of the last use by id, a view."""
        return self.uses[::2]

    @property
    def live(self) -> int:
        return int(self.counts[LIVE])

    @property
    def id_limit(self) -> int:
        return int(self.bucket_next.max()) << self.bucket_bits

    @property
    def nbytes(self) -> int:
        held = (self.direct, self.slots, self.homes, self.hashes, self.stored, self.lengths, self.uses, self.arena)
        return sum(array.nbytes for array in held)

    def run(self, count: int, encode, *inputs, ids: np.ndarray | None = None) -> np.ndarray:
        """Call an encoding kernel until it is through, growing what it asks for."""
        ids = np.empty(count, np.int32) if ids is None else ids
        position = 0
        while True:
            # In plain Python (NUMBA_DISABLE_JIT=1) the hash's wrap-around would warn.
            with np.errstate(over="ignore"):
                position, status = encode(self.arrays, *inputs, ids, position)
            if status == keys_kernel.DONE:
                return ids
            self.grow(status, position, inputs)

    def grow(self, status: int, position: int, inputs) -> None:
        if status == keys_kernel.NEED_PLACES:
            wider = np.zeros(4 * self.slots.size, np.uint64)
            keys_kernel.rehash(self.slots, wider, self.homes)
            self.slots = wider
        elif status == keys_kernel.NEED_IDS:
            self.grow_ids(2 * self.stored.size)
        elif status == keys_kernel.NEED_ARENA:
            _, starts, ends = inputs
            needed = int(ends[position]) - int(starts[position])
            wider = np.zeros(max(2 * self.arena.size, int(self.counts[ARENA_USED]) + needed), np.uint8)
            wider[: self.arena.size] = self.arena
            self.arena = wider
        elif status == keys_kernel.OVER_LIMIT:
            raise KeyLimitError(
                f"more than max_keys = {self.limit} keys are live at one time: raise max_keys, or use a"
                f" smaller window or a coarser key"
            )
        elif status == keys_kernel.CROWDED:
            raise OverflowInputError(
                f"a key collides with more than {keys_kernel.PROBE_LIMIT} others in a table of {self.live} keys, which does not"
                f" happen by chance: the input was made by somebody who knows the random seed of this process; start the"
                f" process again"
            )
        else:
            raise OverflowInputError(
                f"a key string is longer than {keys_kernel.LONGEST_STRING} bytes: shorten it before the stream"
            )

    def grow_ids(self, count: int) -> None:
        most = min(_LARGEST_ID_COUNT, id_capacity(self.limit, self.bucket_next.size))
        if self.stored.size >= most:
            fullest = int(np.argmax(self.bucket_next))
            raise KeyLimitError(
                f"{int(self.bucket_next[fullest])} of {self.live} live keys fall into bucket {fullest} of"
                f" {self.bucket_next.size}, more than the memory that max_keys = {self.limit} allows for keys that are spread so"
                f" unevenly; raise max_keys, or use a coarser key"
            )
        count = min(count, most)
        before = self.stored.size
        for name in ("homes", "hashes", "stored", "lengths", "uses"):
            array = getattr(self, name)
            if array.size < before:
                continue  # `hashes`, where they are not kept
            wider = np.zeros(array.size // before * count, array.dtype)
            wider[: array.size] = array
            if name == "uses":
                wider[array.size :] = FREE
            setattr(self, name, wider)

    def free(self, ids: np.ndarray) -> None:
        keys_kernel.free_ids(self.arrays, ids, self.is_string)

    def values(self, ids: np.ndarray) -> np.ndarray:
        return self.stored[ids].view(np.int64)

    def compile_results(self) -> None:
        """Compile what `argsort` and `decode` use; here that is NumPy's."""


class _StringTable(_Table):
    is_string = True

    def encode(self, array: pa.Array) -> np.ndarray:
        return self.encode_spans(*columns.string_spans(array))

    def encode_spans(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        return self.run(starts.size, keys_kernel.encode_strings, data, starts, ends)

    def free(self, ids: np.ndarray) -> None:
        super().free(ids)
        dead, used = int(self.counts[ARENA_DEAD]), int(self.counts[ARENA_USED])
        if 2 * dead > used and used > _SMALLEST_ARENA:
            arena = np.zeros(max(2 * (used - dead), _SMALLEST_ARENA), np.uint8)
            self.counts[ARENA_USED] = keys_kernel.compact_arena(self.arrays, arena)
            self.counts[ARENA_DEAD] = 0
            self.arena = arena

    def compile_results(self) -> None:
        nothing = np.empty(0, np.int32)
        keys_kernel.gather_words(self.arrays, nothing, 0, np.empty(0, np.uint64))
        self.decode(nothing, pa.string())

    def decode(self, ids: np.ndarray, kind: pa.DataType) -> pa.Array:
        offsets = np.empty(ids.size + 1, np.int64)
        keys_kernel.measure_strings(self.lengths, ids, offsets)
        # Strings are written eight bytes at a time, the last one past its end.
        data = np.empty(int(offsets[-1]) + 8, np.uint8)
        keys_kernel.gather_strings(self.arrays, ids, offsets, data)
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        narrow = (pa.types.is_string(kind) or pa.types.is_binary(kind)) and offsets[-1] < 2**31
        if narrow:
            bounds, layout = offsets.astype(np.int32), pa.string() if is_text else pa.binary()
        else:
            bounds, layout = offsets, pa.large_string() if is_text else pa.large_binary()
        out = pa.Array.from_buffers(layout, ids.size, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
        return out.cast(kind) if pa.types.is_string_view(kind) else out

    def argsort(self, ids: np.ndarray) -> np.ndarray:
        """Order by UTF-8 bytes, eight at a time; only what is still tied is looked at again."""
        words = np.empty(ids.size, np.uint64)
        keys_kernel.gather_words(self.arrays, ids, 0, words)
        words.byteswap(inplace=True)
        order = argsort(words)
        words = words[order]
        # group[i]: first position whose first 8*depth bytes equal those at i, in the present order.
        group = group_starts(words[1:] != words[:-1])
        depth = 1
        while True:
            tied = _tied(group, ids[order])
            if tied.size == 0:
                return order
            chosen = ids[order[tied]]
            longest = int(self.lengths[chosen].max())
            more = np.empty(tied.size, np.uint64)
            if 8 * depth < longest:
                keys_kernel.gather_words(self.arrays, chosen, depth, more)
                more.byteswap(inplace=True)
            else:
                # The same bytes but for NULs at the end: the shorter one is less.
                more[:] = self.lengths[chosen]
            within = np.lexsort((more, group[tied]))
            order[tied] = order[tied][within]
            more, old = more[within], group[tied][within]
            is_new = (more[1:] != more[:-1]) | (old[1:] != old[:-1])
            group[tied] = tied[group_starts(is_new)]
            if 8 * depth >= longest:
                return order
            depth += 1


def _tied(group: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the positions in groups that hold more than one id."""
    differs = np.zeros(ids.size, np.bool_)
    differs[1:] = (group[1:] == group[:-1]) & (ids[1:] != ids[:-1])
    if not differs.any():
        return np.zeros(0, np.int64)
    is_open = np.zeros(ids.size, np.bool_)
    is_open[group[differs]] = True
    return np.flatnonzero(is_open[group])


class _IntTable(_Table):
    """Whole numbers. The first ones decide which range of them is looked up directly, if they are near each other."""

    is_range_known = False

    def encode(self, array: pa.Array) -> np.ndarray:
        numbers = columns.integers(array, "key")
        if not self.is_range_known and numbers.size:
            self._choose_range(int(numbers.min()), int(numbers.max()))
        words = numbers.view(np.uint64)
        if not self.direct.size:
            return self.run(words.size, keys_kernel.encode_words, words)
        ids = np.empty(words.size, np.int32)
        if keys_kernel.find_direct(self.direct, self.base, words, ids):
            return ids
        return self.run(words.size, keys_kernel.encode_direct, words, ids=ids)

    def _choose_range(self, low: int, high: int) -> None:
        self.is_range_known = True
        room = keys_kernel.DIRECT_SIZE - 1 - (high - low)
        if room < 0:
            return
        base = 0 if 0 <= low and high < keys_kernel.DIRECT_SIZE else low - room // 2
        self.direct, self.base = np.zeros(keys_kernel.DIRECT_SIZE, np.int32), np.uint64(base % 2**64)

    def decode(self, ids: np.ndarray, kind: pa.DataType) -> pa.Array:
        return self.column(self.values(ids), kind)

    @staticmethod
    def column(values: np.ndarray, kind: pa.DataType) -> pa.Array:
        """Return numbers as keys of this kind."""
        if pa.types.is_boolean(kind):
            return pa.array(values.astype(np.bool_))
        if pa.types.is_integer(kind):
            return columns.as_arrow(values.astype(kind.to_pandas_dtype(), copy=False), kind)
        return columns.as_arrow(values.astype(np.int32) if kind.bit_width == 32 else values, kind)

    def argsort(self, ids: np.ndarray) -> np.ndarray:
        return argsort(self.values(ids))


class _FloatTable(_Table):
    def encode(self, array: pa.Array) -> np.ndarray:
        values = columns.floats(array).astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
        bits = values.view(np.int64)
        return self.run(
            len(array), keys_kernel.encode_words, np.where(np.isnan(values), _NAN_BITS, bits).view(np.uint64)
        )

    def decode(self, ids: np.ndarray, kind: pa.DataType) -> pa.Array:
        return pa.array(self.values(ids).view(np.float64)).cast(kind, safe=False)

    def argsort(self, ids: np.ndarray) -> np.ndarray:
        return argsort(self.values(ids).view(np.float64))  # NaN comes last


_TABLES = {"string": _StringTable, "int": _IntTable, "float": _FloatTable}


class _TupleTable(_Table):
    """Tuples of inner ids."""

    def __init__(self, bucket_bits: int, limit: int, inner: Sequence[_Table]):
        super().__init__(bucket_bits, limit)
        self.inner = inner
        self.parts = np.zeros((self.stored.size, len(inner)), np.int32)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.parts.nbytes + sum(table.nbytes for table in set(self.inner))

    def grow_ids(self, count: int) -> None:
        super().grow_ids(count)
        wider = np.zeros((count, self.parts.shape[1]), np.int32)
        wider[: self.parts.shape[0]] = self.parts
        self.parts = wider

    def encode_parts(self, row_parts: np.ndarray) -> np.ndarray:
        row_hashes, row_homes = np.empty(row_parts.shape[0], np.uint64), np.empty(row_parts.shape[0], np.uint64)
        with np.errstate(over="ignore"):
            keys_kernel.seed_parts(row_parts, self.seed, row_homes)
            for column, table in enumerate(self.inner):
                keys_kernel.hash_parts(table.hashes, row_parts[:, column], row_hashes, column + 1)

        def encode(arrays, row_parts, row_hashes, row_homes, ids, position):
            # `parts` grows with the ids, so it is looked up for each call.
            return keys_kernel.encode_parts(arrays, self.parts, row_parts, row_hashes, row_homes, ids, position)

        return self.run(row_parts.shape[0], encode, row_parts, row_hashes, row_homes)

    def free(self, ids: np.ndarray) -> None:
        super().free(ids)
        for table in set(self.inner):
            marks = np.zeros(table.last.size, np.uint8)
            for column, owner in enumerate(self.inner):
                if owner is table:
                    keys_kernel.mark_parts(self.parts, self.uses, column, marks)
            table.free(np.flatnonzero((marks == 0) & (table.last != FREE)).astype(np.int32))

    def argsort(self, ids: np.ndarray) -> np.ndarray:
        parts = self.parts[ids]
        if len(set(self.inner)) == 1:  # as of the two words of a pair: different ones are sorted once
            return argsort(*ranks(parts.ravel(), self.inner[0].argsort).reshape(parts.shape).T)
        return argsort(*(ranks(parts[:, column], table.argsort) for column, table in enumerate(self.inner)))


class KeyDictionary:
    """Dense ids for key values, with the bucket in the low bits, recycled when unused.

    Parameters
    ----------
    kinds : tuple of str
        For each key column "string", "int" (integers of any width, bool, date,
        time, timestamp) or "float" (NaN keys are one key; -0.0 is 0.0).
    buckets : int
        A power of two. Bucket of an id: ``id & (buckets - 1)``.
    limit : int
        Keys that may be live at one time (``max_keys``).
    shared : bool
        All columns (of one kind) use one inner table, as the two words of a
        pair do.

    Notes
    -----
    Any thread may call any method: `lock` is held during each call. Between the
    encoding of a key and its `touch` a `recycle` could free its id: whoever
    shares a dictionary with a recycling thread holds `lock` over both.

    Examples
    --------
    >>> dictionary = KeyDictionary(("string",))
    >>> ids = dictionary.encode(pa.array(["b", "a", "b"]))
    >>> int(ids[0] == ids[2]), dictionary.decode(ids)[0].to_pylist(), dictionary.size
    (1, ['b', 'a', 'b'], 2)
    >>> dictionary.touch(ids[:1], np.array([5])), dictionary.touch(ids[1:2], np.array([7])), dictionary.recycle(7)
    (None, None, 1)
    """

    def __init__(
        self,
        kinds: Sequence[str],
        buckets: int = BUCKETS,
        limit: int = DEFAULT_LIMIT,
        shared: bool = False,
    ):
        self.kinds = tuple(kinds)
        if not self.kinds or any(kind not in KINDS for kind in self.kinds):
            raise ParameterError(f"kinds = {kinds!r}: give one or more of {', '.join(KINDS)}")
        if buckets < 1 or buckets & (buckets - 1) or buckets > 2**20:
            raise ParameterError(f"buckets = {buckets}: must be a power of two from 1 to 2**20")
        if limit < 1:
            raise ParameterError(f"max_keys = {limit}: must be at least 1")
        if shared and len(set(self.kinds)) > 1:
            raise ParameterError(f"kinds = {kinds!r}: columns share a table only if they are of one kind")
        self.buckets, self.limit = buckets, limit
        self.bucket_bits = buckets.bit_length() - 1
        self.types: list[pa.DataType | None] = [None] * len(self.kinds)
        self.lock = threading.RLock()
        # Of each column the last dictionary of its values, and by code the id + 1 of those that came.
        self._codes: list[tuple[pa.Array, np.ndarray] | None] = [None] * len(self.kinds)
        self.horizon = _BEFORE_ALL
        """Ids whose last use is before it may be recycled; whoever knows says so."""
        self._recycle_at = _LEAST_RECYCLED
        self._stamp = 1
        self._latest = _BEFORE_ALL  # the last time noted
        if len(self.kinds) == 1:
            self._table: _Table = _TABLES[self.kinds[0]](self.bucket_bits, limit)
            self._inner: list[_Table] = [self._table]
        else:
            # Inner ids need no buckets; only tuples count towards the limit.
            inner = [_TABLES[kind](0, _LARGEST_ID_COUNT, is_inner=True) for kind in self.kinds]
            self._inner = [inner[0]] * len(inner) if shared else inner
            self._table = _TupleTable(self.bucket_bits, limit, self._inner)

    @property
    def size(self) -> int:
        """Keys that have an id at present."""
        return self._table.live

    @property
    def id_limit(self) -> int:
        """All ids given so far are below it, a multiple of `buckets`: the size for dense state."""
        with self.lock:
            return self._table.id_limit

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        with self.lock:
            return self._table.nbytes

    def compile_results(self) -> None:
        """Compile what `argsort` and `decode` use, so that a run's first results do not wait for the compiler."""
        with self.lock:
            for table in self._inner:
                table.compile_results()

    def set_types(self, types: Sequence[pa.DataType]) -> None:
        """Declare the column types that `decode` returns; else the first array encoded sets them."""
        for column, kind in enumerate(types):
            self._note_type(column, kind)

    def encode(self, *arrays: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Return the id of each key, new keys getting new ids.

        Parameters
        ----------
        arrays : pa.Array
            One for each key column, all of one length, without nulls. Strings
            of any layout, integers and times, floats, or dictionary-encoded.

        Returns
        -------
        int32[n]

        Raises
        ------
        KeyNullError, OverflowInputError, SchemaError, UnsupportedTypeError
        """
        if len(arrays) != len(self.kinds):
            raise ParameterError(f"{len(arrays)} key columns given: this dictionary has {len(self.kinds)}")
        with self.lock:
            if len(arrays) == 1:
                return self._encode_column(0, columns.combine(arrays[0]))
            parts = [
                self._encode_column(column, columns.combine(array)) for column, array in enumerate(arrays)
            ]
            return self._table.encode_parts(np.column_stack(parts))

    def encode_column(self, column: int, array: pa.Array) -> np.ndarray:
        """Return inner ids of one key column's values (the ids themselves if there is one column)."""
        with self.lock:
            return self._encode_column(column, array)

    def encode_spans(self, column: int, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return inner ids of the strings ``data[starts[i]:ends[i]]`` of one key column."""
        with self.lock:
            if self.types[column] is None:
                self._note_type(column, pa.string())
            return self._inner[column].encode_spans(data, starts, ends)

    def encode_parts(self, parts: np.ndarray) -> np.ndarray:
        """Return the id of each tuple of inner ids, int32[n, columns]."""
        with self.lock:
            return self._table.encode_parts(parts)

    def _encode_column(self, column: int, array: pa.Array) -> np.ndarray:
        self._note_type(column, array.type)
        if array.null_count:
            raise KeyNullError(
                f"key column {column} is null at row {columns.first_null(array)}: fill it, filter it out, or"
                f" set nulls='drop'"
            )
        if pa.types.is_dictionary(array.type):
            return self._encode_dictionary(column, array)
        return self._inner[column].encode(array)

    def _encode_dictionary(self, column: int, array: pa.DictionaryArray) -> np.ndarray:
        # Only values that occur get an id: an unused one would never be touched, so never be recycled.
        indices, dictionary = columns.integers(array.indices, "key"), array.dictionary
        known = self._codes[column]
        if known is None or not is_same_memory(known[0], dictionary):
            # It is kept: its memory is not used for another one meanwhile.
            known = self._codes[column] = dictionary, np.zeros(len(dictionary) + 1, np.int32)
        direct, words, ids = known[1], indices.view(np.uint64), np.empty(indices.size, np.int32)
        if keys_kernel.find_direct(direct, _CODES_FROM, words, ids):
            return ids
        missing = indices[ids < 0]
        if len(dictionary) > SPARSE * missing.size:
            used = distinct(missing)
        else:
            places, back = np.full(len(dictionary), -1, np.int32), np.empty(missing.size, np.int32)
            used = np.empty(min(places.size, missing.size), np.int64)
            used = used[: keys_kernel.find_used(missing, places, used, back)]
        direct[used] = self._encode_column(column, columns.take(dictionary, used)) + 1
        keys_kernel.find_direct(direct, _CODES_FROM, words, ids)
        return ids

    def _note_type(self, column: int, kind: pa.DataType) -> None:
        kind = columns.plain_type(kind)
        known = self.types[column]
        if known is not None and known.equals(kind):
            return
        if key_kind(kind) is None:
            raise UnsupportedTypeError(f"a key cannot have type {kind}: {columns.cast_hint(kind)}")
        if key_kind(kind) != self.kinds[column]:
            raise SchemaError(f"key column {column} has type {kind}, not {self.kinds[column]}: cast it")
        if known is None:
            self.types[column] = kind
        elif pa.types.is_integer(known) and pa.types.is_integer(kind):
            self.types[column] = pa.int64()
        elif pa.types.is_floating(known) and pa.types.is_floating(kind):
            self.types[column] = pa.float64()
        elif not (columns.is_string(known) and columns.is_text(known) == columns.is_text(kind)):
            raise SchemaError(
                f"key column {column} has type {known} in one source and {kind} in another: cast one"
            )

    def touch(self, ids: np.ndarray, ts: np.ndarray) -> None:
        """Note that the key of each id was used at an event time; a recycled id must not be touched.

        Parameters
        ----------
        ids : int32[n]
        ts : int64[n]
            Sorted. A time before that of an earlier call counts as the latter.
        """
        with self.lock:
            self._latest = keys_kernel.touch(self._table.uses, ids, ts, self._latest)

    def last_use(self, ids: np.ndarray) -> int:
        """Return the latest event time at which any of these ids was used, as `touch` noted it."""
        with self.lock:
            return int(self._table.last[ids].max())

    def use_rows(
        self, ids: np.ndarray, offsets: np.ndarray, ts: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Keep the first occurrence of each id in each row; `touch` them with the rows' times if given.

        Parameters
        ----------
        ids, offsets : int32[k], int[n + 1]
            Row i has ``ids[offsets[i]:offsets[i + 1]]``.
        ts : int64[n], optional

        Returns
        -------
        ids, offsets : int32[k'], int32[n + 1]
        """
        kept, kept_offsets = np.empty(ids.size + 1, np.int32), np.empty(offsets.size, np.int32)
        with self.lock:
            times = _NO_TIMES if ts is None else ts
            self._latest = keys_kernel.use_rows(
                self._table.uses, ids, offsets, times, ts is not None, self._latest, self._stamp, kept, kept_offsets
            )
            self._stamp += offsets.size - 1
        return kept[: kept_offsets[-1]], kept_offsets

    def expire(self, horizon_ts: int) -> None:
        """Note that ids whose last use is before an event time may be recycled, and do it once there may be many."""
        self.horizon = horizon_ts
        if self.size > self._recycle_at:
            self.recycle(horizon_ts)
            self._recycle_at = max(_LEAST_RECYCLED, 2 * self.size)

    def recycle(self, horizon_ts: int) -> int:
        """Free the ids whose last use is before an event time, and return how many.

        A freed id is given to the next new key of its bucket: no state, tuple
        or result may refer to it any more. Ids never touched stay.
        """
        with self.lock:
            table = self._table
            old = np.flatnonzero((table.last < horizon_ts) & (table.last != FREE)).astype(np.int32)
            if old.size:
                table.free(old)
                self._codes = [None] * len(self.kinds)
            return int(old.size)

    def decode(self, ids: np.ndarray) -> list[pa.Array]:
        """Return the key values of ids, one array for each key column, in the type they came in."""
        ids = np.ascontiguousarray(ids, np.int32)
        with self.lock:
            return [
                table.decode(part, kind if kind is not None else _DEFAULT_TYPES[name])
                for table, part, kind, name in zip(self._inner, self._parts(ids), self.types, self.kinds, strict=True)
            ]

    def _parts(self, ids: np.ndarray) -> list[np.ndarray]:
        """The inner ids of each key column."""
        if not isinstance(self._table, _TupleTable):
            return [ids]
        return [np.ascontiguousarray(self._table.parts[ids, k]) for k in range(len(self.kinds))]

    def numbers(self, ids: np.ndarray) -> list[np.ndarray] | None:
        """Return int64[n] for each key column, which order like the keys, if all keys are whole numbers, else None."""
        if any(name != "int" for name in self.kinds):
            return None
        ids = np.ascontiguousarray(ids, np.int32)
        with self.lock:
            return [table.values(part) for table, part in zip(self._inner, self._parts(ids), strict=True)]

    def from_numbers(self, numbers: Sequence[np.ndarray]) -> list[pa.Array]:
        """Return what `numbers` gave as key columns, in the type they came in."""
        return [
            _IntTable.column(values, pa.int64() if kind is None else kind)
            for values, kind in zip(numbers, self.types, strict=True)
        ]

    def argsort(self, ids: np.ndarray) -> np.ndarray:
        """Return the positions that sort ids by key: strings by code point, numbers by value (NaN last),
        tuples lexicographically; equal ids keep their order."""
        ids = np.ascontiguousarray(ids, np.int32)
        with self.lock:
            return self._table.argsort(ids)


SPARSE = 16
"""A dictionary with more entries for each new value of a batch is not looked through."""

_CODES_FROM = np.uint64(0)

_LEAST_RECYCLED = 1 << 14
"""Fewer ids are not worth recycling."""
_BEFORE_ALL = FREE + 1
_NO_TIMES = np.zeros(0, np.int64)
_DEFAULT_TYPES = {"string": pa.string(), "int": pa.int64(), "float": pa.float64()}
