"""The key dictionary: key values to dense integer ids, and back.

Inside the engine a key is an int32. Its low bits are its bucket, from a stable hash
of the value (`hashing.py` defines it), so the ownership test is arithmetic on
the id; its other bits count the keys of that bucket, so state is a dense array.
An id whose key's last window has expired is recycled: live ids, and with them
the state, grow with the live keys and not with the stream.

Anyone can find keys that all fall into one bucket. One instance then does all the
work, as for one hot key, and no mapping of buckets helps. With n buckets, only one id in n
is then used, until `id_capacity` refuses more. The tables themselves
cannot be flooded: their places come from a hash with a random seed.

A tuple of several columns is encoded column by column; the tuple of inner ids is
then the key of a second table, hashed by the values' hashes. In a dictionary-encoded
column each entry is looked up once as long as the dictionary stays the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from headrace.errors import KeyNullError, ParameterError, SchemaError, UnsupportedTypeError
from headrace.ingress import columns, keys_kernel
from headrace.ingress.key_tables import LARGEST_ID_COUNT, KeyTable
from headrace.ingress.keys_kernel import FREE
from headrace.ingress.number_keys import FloatTable, IntTable
from headrace.ingress.sorting import distinct
from headrace.ingress.string_keys import StringTable
from headrace.ingress.tuple_keys import TupleTable
from headrace.ingress.validation import is_same_memory
from headrace.references import BUCKETS

KINDS = ("string", "int", "float")
DEFAULT_LIMIT = 2**24
SPARSE = 16
"""If a dictionary has more entries than this for each new value in a batch, no array of its length is made to find them."""
_CODES_FROM = np.uint64(0)
_LEAST_RECYCLED = 1 << 14
"""Fewer ids than this are not worth recycling."""
_BEFORE_ALL = FREE + 1
_NO_TIMES = np.zeros(0, np.int64)
_DEFAULT_TYPES = {"string": pa.string(), "int": pa.int64(), "float": pa.float64()}
_TABLES = {"string": StringTable, "int": IntTable, "float": FloatTable}


def _is_same(known: pa.Array, dictionary: pa.Array) -> bool:
    """Whether two dictionaries have the same entries; one from a file is built anew for each batch. (Equal floats may differ.)"""
    return is_same_memory(known, dictionary) or (columns.is_string(dictionary.type) and known.equals(dictionary))


def key_kind(kind: pa.DataType) -> str | None:
    """Return which of `KINDS` a column type is as a key, or None if it cannot be a key."""
    kind = columns.plain_type(kind)
    if columns.is_string(kind):
        return "string"
    if columns.is_whole(kind):
        return "int"
    return "float" if pa.types.is_floating(kind) else None


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
    operators : int
        Number of operators that share the ids: that many times `limit` keys may be live.

    Notes
    -----
    Any thread may call any method: `lock` is held during each call. Between the
    encoding of a key and its `touch` a `recycle` could free its id, so a thread that
    shares a dictionary with a recycling thread must hold `lock` over both.

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
        operators: int = 1,
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
        self.buckets, self.limit = buckets, operators * limit
        self.bucket_bits = buckets.bit_length() - 1
        self.types: list[pa.DataType | None] = [None] * len(self.kinds)
        self.lock = threading.RLock()
        # For each column: the last dictionary of its values, and by code the id + 1, or 0 if the code has not occurred.
        self._codes: list[tuple[pa.Array, np.ndarray] | None] = [None] * len(self.kinds)
        self.horizon = _BEFORE_ALL
        """Ids last used before this event time may be recycled; set by the owner of the dictionary."""
        self.when_recycled: list[Callable[[np.ndarray], None]] = []
        """Functions called with the ids that have been freed, int32[n], while `lock` is held."""
        self._recycle_at = _LEAST_RECYCLED
        self._stamp = 1
        self._latest = _BEFORE_ALL  # the last time noted
        if len(self.kinds) == 1:
            self._table: KeyTable = _TABLES[self.kinds[0]](self.bucket_bits, self.limit)
            self._inner: list[KeyTable] = [self._table]
        else:
            # Inner ids need no buckets; only tuples count towards the limit.
            inner = [_TABLES[kind](0, LARGEST_ID_COUNT, is_inner=True) for kind in self.kinds]
            self._inner = [inner[0]] * len(inner) if shared else inner
            self._table = TupleTable(self.bucket_bits, self.limit, self._inner)
        self._table.operators = operators

    @property
    def size(self) -> int:
        """Keys that have an id at present."""
        return self._table.live

    @property
    def id_limit(self) -> int:
        """A multiple of `buckets` above all ids given so far: the size for dense state."""
        with self.lock:
            return self._table.id_limit

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        with self.lock:
            return self._table.nbytes

    def compile_results(self) -> None:
        """Compile the kernels that `argsort` and `decode` use, so that a run's first results do not wait for the compiler."""
        with self.lock:
            for table in self._inner:
                table.compile_results()

    def set_types(self, types: Sequence[pa.DataType]) -> None:
        """Declare the column types that `decode` returns; otherwise the first array encoded sets them."""
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
        if known is None or not _is_same(known[0], dictionary):
            # The reference keeps its memory from being reused for another dictionary.
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
        """Note that ids last used before an event time may be recycled; recycle them once there may be many."""
        self.horizon = horizon_ts
        if self.size > self._recycle_at:
            self.recycle(horizon_ts)
            # Rarely enough for a scan of all ids; often enough that state by id, and so the memory to fault in, stays small.
            self._recycle_at = max(_LEAST_RECYCLED, self.size + self.size // 2)

    def recycle(self, horizon_ts: int) -> int:
        """Free the ids last used before an event time, and return how many there were.

        A freed id is given to the next new key of its bucket: no state, tuple
        or result may refer to it any more. Ids never touched stay.
        """
        with self.lock:
            table = self._table
            old = np.flatnonzero((table.last < horizon_ts) & (table.last != FREE)).astype(np.int32)
            if old.size:
                table.free(old)
                self._codes = [None] * len(self.kinds)
                for tell in self.when_recycled:
                    tell(old)
            return int(old.size)

    def decode(self, ids: np.ndarray) -> list[pa.Array]:
        """Return the key values of ids, one array for each key column, in the type they came in."""
        with self.lock:
            return [self.decode_column(column, ids) for column in range(len(self.kinds))]

    def decode_column(self, column: int, ids: np.ndarray) -> pa.Array:
        """Return the values of ids in one key column, in the type they came in."""
        ids = np.ascontiguousarray(ids, np.int32)
        with self.lock:
            kind = self.types[column]
            return self._inner[column].decode(
                self._part(column, ids), kind if kind is not None else _DEFAULT_TYPES[self.kinds[column]]
            )

    def _part(self, column: int, ids: np.ndarray) -> np.ndarray:
        """Return the inner ids of one key column."""
        return np.ascontiguousarray(self._table.parts[ids, column]) if isinstance(self._table, TupleTable) else ids

    def numbers(self, ids: np.ndarray) -> list[np.ndarray] | None:
        """Return int64[n] for each key column, ordered like the keys, if all columns are whole numbers, else None."""
        if any(name != "int" for name in self.kinds):
            return None
        with self.lock:
            return [self.words(column, ids) for column in range(len(self.kinds))]

    def words(self, column: int, ids: np.ndarray) -> np.ndarray:
        """Return int64[n] of a key column that is no string: its numbers, or the bits of floats."""
        ids = np.ascontiguousarray(ids, np.int32)
        with self.lock:
            return self._inner[column].values(self._part(column, ids))

    def from_numbers(self, numbers: Sequence[np.ndarray]) -> list[pa.Array]:
        """Return what `numbers` gave as key columns, in the type they came in."""
        return [
            IntTable.column(values, pa.int64() if kind is None else kind)
            for values, kind in zip(numbers, self.types, strict=True)
        ]

    def argsort(self, ids: np.ndarray) -> np.ndarray:
        """Return the positions that sort ids by key: strings by code point, numbers by value (NaN last),
        tuples lexicographically; equal ids keep their order."""
        ids = np.ascontiguousarray(ids, np.int32)
        with self.lock:
            return self._table.argsort(ids)


__all__ = ["DEFAULT_LIMIT", "KINDS", "KeyDictionary", "key_kind"]
