"""From Arrow record batches to arrays that the engine reads.

An `Encoder` belongs to one source. It checks event times (type, nulls, range,
order), turns keys into dense ids, a set of them for each row, and lays out the
columns that kernels need as contiguous arrays. Everything else stays in
Arrow and travels by reference as the batch's payload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import (
    KeyNullError,
    OverflowInputError,
    ParameterError,
    SchemaError,
)
from headrace.expressions.rows import check_movable, filter_rows
from headrace.ingress import columns, encode_kernel, lists, tokeniser
from headrace.ingress.key_sources import NULL_FIX, KeySource, check_nulls, make_dictionary
from headrace.ingress.key_tables import KeyLimitError
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.times import check_event_time, check_sorted, event_times, field_type, time_unit_of
from headrace.progress import MIN_TIME
from headrace.windows import DEFAULT_TIME_UNIT

_USUAL_SHARE = dict.fromkeys(("words", "hashtags", "pairs"), 1 / 3)
"""How many words a text has, beside the bound that takes each to have one letter."""


@dataclass(slots=True)
class EncodedBatch:
    """Rows of one source as the engine reads them.

    Parameters
    ----------
    ts : int64[n]
        Sorted, in the stream's unit.
    keys : int32[k]
        Dense ids, no id twice in a row. Zeros if the stream has no keys.
    offsets : int32[n + 1] or None
        Row i has ``keys[offsets[i]:offsets[i + 1]]``; None: row i has ``keys[i]``.
    columns : dict
        Name -> (values, valid): values are contiguous; valid is uint8[n], or None if none is null.
    payload : pa.RecordBatch
        The columns carried by reference.
    first_row : int
        Row number, in its source, of the first row.
    elements : tuple of ndarray
        The memory that addresses among `columns` point into; it must live as long as the rows are read.
    """

    ts: np.ndarray
    keys: np.ndarray
    offsets: np.ndarray | None
    columns: dict[str, tuple[np.ndarray, np.ndarray | None]]
    payload: pa.RecordBatch
    first_row: int = 0
    elements: tuple[np.ndarray, ...] = ()

    def __len__(self) -> int:
        return self.ts.size


@dataclass(slots=True)
class EncoderCounters:
    """What an encoder has seen and set aside."""

    rows: int = 0
    keys: int = 0
    null_keys: int = 0


@dataclass
class Encoder:
    """Encode the record batches of one source.

    Parameters
    ----------
    schema : pa.Schema
        Of every batch.
    event_time : str
    keys : sequence of KeySource
        The parts of the key; the keys of a row are the product of its parts' sets.
    dictionary : KeyDictionary
        Shared by the sources of a stream; see `make_dictionary`.
    values, narrow_values : sequence of str
        Columns that kernels read, as int64, float64 or bool; narrow ones keep
        int32 and float32.
    forms : dict of str to (str, int)
        Names among `values` that stand for a column (of whole numbers) divided
        by a number: where a remainder is left, the value is null.
    counted : sequence of str
        Columns among `values`, of any type, of which kernels only read whether there is a value.
    texts : dict of str to KeyDictionary
        Text columns among `values`, and lists of strings among `lists`: kernels read the ids of their strings.
    lists : sequence of str
        List columns that kernels read: each becomes the columns that `lists.names_of` names.
    carry : sequence of str
        Columns of the payload.
    time_unit : str
        Unit of an integer event time.
    window_size : int
        In the stream's unit, for the check of the range.
    nulls : {"error", "drop"}
        How null keys and elements are treated; dropped ones are counted, and their row stays.
    max_rows : int
        Most rows of an encoded batch; larger input is split.
    max_tuple_keys : int
        Most keys of one row; more are an error.
    max_batch_keys : int
        Keys (or words) of an encoded batch beyond which it is split, by an upper bound.
    usual_batch_keys : int
        The same by what texts usually have. Larger batches miss the caches, and results wait longer for the dictionary: a
        pair count with 27 keys a row took 0.85 times as long with batches of 2**17 keys as with those of 2**22.
    equal_columns : tuple of str
        For a join: columns in which a null is a null key, whether they are in `keys`
        or not. A tuple with a dropped key stays and has `no_key` instead.
    no_key : int
        Negative, so that no other key is equal to it.
    is_tracked : bool
        Record the rows' times as uses of the dictionary's ids (`touch`).
    source : str
        Name for error texts.
    time_value : str
        The one of `values` under which kernels read the event time in the stream's unit, if any.
    await_keys : callable, optional
        Called when the keys of not even one more row fit, with the horizon at which each
        dictionary was tried: waits until a horizon has moved, or returns False
        if none will move before more rows are taken.

    Examples
    --------
    >>> batch = pa.record_batch({"ts": [1, 2], "tags": [["a", "b", "a"], []], "n": [7, 8]})
    >>> keys = (KeySource(("tags",), "each"),)
    >>> encoder = Encoder(batch.schema, "ts", keys, make_dictionary(batch.schema, keys), values=("n",))
    >>> (encoded,) = encoder.encode(batch)
    >>> encoded.ts.tolist(), encoded.offsets.tolist(), encoded.columns["n"][0].tolist()
    ([1, 2], [0, 2, 2], [7, 8])
    """

    schema: pa.Schema
    event_time: str
    keys: Sequence[KeySource] = ()
    dictionary: KeyDictionary | None = None
    values: Sequence[str] = ()
    narrow_values: Sequence[str] = ()
    forms: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    counted: Sequence[str] = ()
    texts: Mapping[str, KeyDictionary] = field(default_factory=dict)
    lists: Sequence[str] = ()
    carry: Sequence[str] = ()
    time_unit: str = DEFAULT_TIME_UNIT
    window_size: int = 0
    nulls: str = "error"
    equal_columns: Sequence[str] = ()
    no_key: int = -1
    max_rows: int = 1 << 17
    max_tuple_keys: int = 1 << 20
    max_batch_keys: int = 1 << 22
    usual_batch_keys: int = 1 << 17
    is_tracked: bool = True
    source: str = ""
    time_value: str = ""
    await_keys: Callable[[list[int]], bool] | None = None
    counters: EncoderCounters = field(default_factory=EncoderCounters, init=False)

    def __post_init__(self):
        check_nulls(self.nulls)
        for name in ("max_rows", "max_tuple_keys", "max_batch_keys", "usual_batch_keys"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} = {getattr(self, name)}: must be at least 1")
        self.time_type = check_event_time(self.schema, self.event_time)
        self.unit = time_unit_of(self.time_type, self.time_unit)
        for name in (*self.values, *self.narrow_values):
            if name in self.counted:
                field_type(self.schema, name, "value")
            elif name not in self.texts and name != self.time_value:
                column, _ = self.forms.get(name, (name, 1))
                columns.check_value_type(column, field_type(self.schema, column, "value"))
        self._check_lists()
        for name in self.carry:
            field_type(self.schema, name, "carried")
        check_movable(pa.schema([self.schema.field(name) for name in self.carry]), self.source or "the operator")
        for key in self.keys:
            key.key_type(self.schema)
        if self.keys and self.dictionary is None:
            self.dictionary = make_dictionary(self.schema, self.keys)
        self.is_single = (self.nulls == "error" or bool(self.equal_columns)) and all(
            key.is_single for key in self.keys
        )
        self._last_ts = MIN_TIME

    def _check_lists(self) -> None:
        taken = {*self.values, *self.narrow_values}
        for name in self.lists:
            lists.check_list_type(name, field_type(self.schema, name, "list"), name in self.texts)
            for each in lists.names_of(name):
                if each in taken:
                    raise SchemaError(
                        f"list column {name!r}: kernels read a column {each!r} beside it, a name that it needs itself;"
                        f" rename one of them"
                    )
                taken.add(each)

    @property
    def last_ts(self) -> int:
        """Event time of the last row; `MIN_TIME` before the first."""
        return self._last_ts

    def encode(self, batch: pa.RecordBatch, ts: np.ndarray | None = None) -> Iterator[EncodedBatch]:
        """Yield the rows of a batch, in order, as one or more encoded batches.

        Parameters
        ----------
        batch : pa.RecordBatch
            Valid; see `readers.Reader` for data from files.
        ts : int64[n], optional
            Its event times, if they are known already.

        Raises
        ------
        InputError
            One of its subclasses, naming column, row and value. Rows before the bad
            one may have been yielded.
        """
        if not batch.schema.equals(self.schema):
            self._check_schema(batch.schema)
        for start in range(0, batch.num_rows, self.max_rows):
            piece = batch.slice(start, self.max_rows)
            piece_ts = None if ts is None else ts[start : start + self.max_rows]
            yield from self._encode_piece(piece, piece_ts)

    def _check_schema(self, schema: pa.Schema) -> None:
        codable = self.codable
        for name in self.columns_used:
            expected, found = self.schema.field(name).type, field_type(schema, name, "batch")
            is_coded = name in codable and columns.plain_type(found).equals(expected)
            if not is_coded and not expected.equals(found):
                raise SchemaError(
                    f"column {name!r} has type {found} in a later batch, {expected} in the schema: cast it"
                )

    @property
    def columns_used(self) -> list[str]:
        """Names of the columns that encoding reads, each once."""
        return list(dict.fromkeys([*self._read_beside_keys, *(column for key in self.keys for column in key.columns)]))

    @property
    def codable(self) -> list[str]:
        """Those of `columns_used` that are only looked up as keys, so that dictionary codes can replace their values."""
        otherwise = {*self._read_beside_keys, *(column for key in self.keys if key.how != "value" for column in key.columns)}
        return [column for column in self.columns_used if column not in otherwise]

    @property
    def _read_beside_keys(self) -> list[str]:
        values = [name for name in (*self.values, *self.narrow_values) if name != self.time_value]
        read = [self.forms.get(name, (name, 1))[0] for name in values]
        return [self.event_time, *read, *self.lists, *self.carry, *self.equal_columns]

    def _encode_piece(self, batch: pa.RecordBatch, ts: np.ndarray | None) -> Iterator[EncodedBatch]:
        first_row = self.counters.rows
        if ts is None:
            ts = event_times(self._column(batch, self.event_time), self.event_time, first_row)
        check_sorted(ts, self.event_time, self._last_ts, self.window_size, first_row, self.time_type)
        if ts.size == 0:
            return
        for start, stop in self._cuts(batch):
            whole = stop - start == batch.num_rows
            rows = batch if whole else batch.slice(start, stop - start)
            times = ts if whole else ts[start:stop]
            yield from self._encode_fitting(rows, times, first_row + start)

    def _encode_fitting(self, rows: pa.RecordBatch, ts: np.ndarray, first_row: int) -> Iterator[EncodedBatch]:
        """Encode all rows at once or, if their keys do not all fit, as many rows at a time as fit."""
        start = 0
        while start < ts.size:
            stop = ts.size
            while True:
                null_keys = self.counters.null_keys
                piece = rows if stop - start == ts.size else rows.slice(start, stop - start)
                try:
                    encoded = self._encode_rows(piece, ts[start:stop], first_row + start)
                    break
                except KeyLimitError:
                    self.counters.null_keys = null_keys
                    horizons = [dictionary.horizon for dictionary in self.dictionaries]
                    if sum(dictionary.recycle(dictionary.horizon) for dictionary in self.dictionaries):
                        continue
                    if stop - start > 1:  # once the rows before have gone on, their keys may expire
                        stop = start + (stop - start) // 2
                    elif self.await_keys is None or not self.await_keys(horizons):
                        raise
            yield encoded
            self.counters.rows = first_row + stop
            self._last_ts = int(ts[stop - 1])
            start = stop

    @property
    def dictionaries(self) -> list[KeyDictionary]:
        """The dictionary of keys, if there is one, and the dictionaries of texts."""
        return [*([] if self.dictionary is None else [self.dictionary]), *dict.fromkeys(self.texts.values())]

    def _cuts(self, batch: pa.RecordBatch) -> list[tuple[int, int]]:
        """Split rows so that no piece makes more than `max_batch_keys` keys, or usually more than `usual_batch_keys`."""
        rows = batch.num_rows
        if self.is_single or not self.keys:
            return [(0, rows)]
        bound, usual = np.ones(rows, np.int64), 1.0
        for key in self.keys:
            bound *= np.maximum(self._bound(batch, key), 1)
            usual *= _USUAL_SHARE.get(key.how, 1.0) ** (2 if key.how == "pairs" and key.distance is None else 1)
        total, most = np.cumsum(bound), int(min(self.max_batch_keys, self.usual_batch_keys / usual))
        if total[-1] <= most:
            return [(0, rows)]
        cuts, start = [], 0
        while start < rows:
            before = int(total[start - 1]) if start else 0
            stop = int(np.searchsorted(total, before + most, side="right"))
            stop = max(stop, start + 1)  # a single row may exceed the bound
            cuts.append((start, stop))
            start = stop
        return cuts

    def _bound(self, batch: pa.RecordBatch, key: KeySource) -> np.ndarray:
        """Return an upper bound of the number of keys of each row."""
        if key.how in ("value", "any"):
            return np.full(batch.num_rows, len(key.columns), np.int64)
        array = columns.plain(self._column(batch, key.columns[0]))
        if key.how == "each":
            return columns.list_lengths(array)
        _, starts, ends = columns.string_spans(array)
        # A word takes at least two bytes: one of its own and a space.
        tokens = (ends.astype(np.int64) - starts + 1) // 2
        if key.how != "pairs":
            return tokens
        return tokens * (tokens - 1) // 2 if key.distance is None else tokens * np.minimum(tokens, key.distance)

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        return batch.column(batch.schema.get_field_index(name))

    def _encode_rows(self, batch: pa.RecordBatch, ts: np.ndarray, first_row: int) -> EncodedBatch:
        complete = self._complete(batch, first_row)
        if complete is None:
            keys, offsets = self._encode_keys(batch, ts, first_row)
        else:
            keys, offsets = np.full(ts.size, self.no_key, np.int32), None
            keys[complete] = self._encode_keys(filter_rows(batch, complete), ts[complete], first_row)[0]
        arrays = {}
        for names, narrow in ((self.values, False), (self.narrow_values, True)):
            for name in names:
                if name == self.time_value:
                    arrays[name] = (ts, None)
                    continue
                if name in self.counted:
                    arrays[name] = (np.zeros(ts.size, np.int64), columns.presence(self._column(batch, name)))
                    continue
                column, divisor = self.forms.get(name, (name, 1))
                array = columns.plain(self._column(batch, column))
                if divisor > 1:
                    arrays[name] = _divided(columns.values(array, column), columns.validity(array), divisor)
                    continue
                if name in self.texts:
                    arrays[name] = (lists.text_ids(self.texts[name], array, ts), columns.validity(array))
                    continue
                arrays[name] = (columns.values(array, column, narrow, first_row), columns.validity(array))
        elements = []
        for name in self.lists:
            array = self._column(batch, name)
            if name in self.texts:
                found = lists.text_lists(self.texts[name], array, ts)
            else:
                found = lists.number_lists(array, name, first_row)
            address, size, nulls = lists.names_of(name)
            arrays |= {address: (found.addresses, found.valid), size: (found.sizes, None), nulls: (found.nulls, None)}
            elements.append(found.elements)
        payload = batch.select([batch.schema.get_field_index(name) for name in self.carry])
        self.counters.keys += keys.size
        return EncodedBatch(ts, keys, offsets, arrays, payload, first_row, tuple(elements))

    def _complete(self, batch: pa.RecordBatch, first_row: int) -> np.ndarray | None:
        """Apply the policy to null keys of a join: None if there are none, else bool[n], False at nulls."""
        complete = None
        for name in self.equal_columns:
            array = columns.plain(self._column(batch, name))
            if array.null_count == 0:
                continue
            if self.nulls == "error":
                raise _null_key(name, first_row + columns.first_null(array), "is null")
            valid = columns.validity(array).view(np.bool_)
            complete = valid if complete is None else complete & valid
        if complete is not None:
            self.counters.null_keys += int(complete.size - complete.sum())
        return complete

    def _encode_keys(
        self, batch: pa.RecordBatch, ts: np.ndarray, first_row: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if not self.keys:
            return np.zeros(ts.size, np.int32), None
        dictionary = self.dictionary
        # The lock spans encoding and touching: no thread may recycle ids between them.
        with dictionary.lock:
            keys, offsets = self._key_sets(batch, first_row)
            if self.is_single:
                if self.is_tracked:
                    dictionary.touch(keys, ts)
                return keys, None
            if offsets is None:
                offsets = np.arange(ts.size + 1, dtype=np.int32)
            return dictionary.use_rows(keys, offsets, ts if self.is_tracked else None)

    def _key_sets(self, batch: pa.RecordBatch, first_row: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return ids and offsets of the rows' keys; a row may still have a key twice."""
        dictionary = self.dictionary
        parts, offsets = self._part(batch, self.keys[0], 0, first_row)
        for key in self.keys[1:]:
            more, more_offsets = self._part(batch, key, parts.shape[1], first_row)
            if offsets is None and more_offsets is None:
                parts = np.column_stack((parts, more))
            else:
                parts, offsets = self._product(parts, offsets, more, more_offsets, first_row)
        ids = dictionary.encode_parts(parts) if len(dictionary.kinds) > 1 else parts[:, 0]
        return ids, offsets

    def _product(self, left, left_offsets, right, right_offsets, first_row):
        rows = left.shape[0] if left_offsets is None else left_offsets.size - 1
        every = np.arange(rows + 1, dtype=np.int64)
        left_offsets = every if left_offsets is None else left_offsets.astype(np.int64)
        right_offsets = every if right_offsets is None else right_offsets.astype(np.int64)
        offsets = np.empty(rows + 1, np.int64)
        self._check_counts(np.diff(left_offsets) * np.diff(right_offsets), first_row)
        count = encode_kernel.count_products(left_offsets, right_offsets, offsets)
        products = np.empty((count, left.shape[1] + right.shape[1]), np.int32)
        encode_kernel.fill_products(left, left_offsets, right, right_offsets, products)
        return products, offsets

    def _check_counts(self, counts: np.ndarray, first_row: int) -> None:
        if counts.size and int(counts.max()) > self.max_tuple_keys:
            row = int(np.argmax(counts > self.max_tuple_keys))
            raise OverflowInputError(
                "row ",
                first_row + row,
                f" has {counts[row]:,} keys, more than the {self.max_tuple_keys:,} that a row may have: split it into"
                f" several rows",
            )

    def _part(
        self, batch: pa.RecordBatch, key: KeySource, position: int, first_row: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return int32[k, width] inner ids of one part of the key, and offsets; offsets are None if each row has one."""
        arrays = [columns.codes(self._column(batch, name)) for name in key.columns]
        if key.how == "value":
            ids, valid = self._value_ids(arrays[0], key.columns[0], position, first_row)
            if valid is None:
                return ids[:, None], None
            return ids[valid][:, None], _offsets_of(valid)
        if key.how == "any":
            return self._ids_of_any(arrays, key.columns, position, first_row)
        if key.how == "each":
            ids, offsets = self._element_ids(arrays[0], key.columns[0], position, first_row)
            return ids[:, None], offsets
        text = columns.plain(arrays[0])
        self._meet_nulls(text, key.columns[0], first_row)
        data, starts, ends, offsets = tokeniser.find_spans(text, only_hashtags=key.how == "hashtags")
        ids = self.dictionary.encode_spans(position, data, starts, ends)
        if key.how != "pairs":
            self._check_counts(np.diff(offsets), first_row)
            return ids[:, None], offsets
        counts = np.diff(offsets).astype(np.int64)
        reach = np.minimum(counts if key.distance is None else key.distance, np.maximum(counts - 1, 0))
        self._check_counts(reach * (counts - reach) + reach * (reach - 1) // 2, first_row)
        return tokeniser.pairs(ids, offsets, key.distance)

    def _value_ids(self, array, name, position, first_row) -> tuple[np.ndarray, np.ndarray | None]:
        """Return int32[n] inner ids, and bool[n] where there are nulls (whose id means nothing)."""
        valid = self._meet_nulls(array, name, first_row)
        _check_width(array, name, first_row)
        if valid is None:
            return self.dictionary.encode_column(position, array), None
        ids = np.zeros(len(array), np.int32)
        ids[valid] = self.dictionary.encode_column(position, columns.drop_null(array))
        return ids, valid

    def _ids_of_any(self, arrays, names, position, first_row) -> tuple[np.ndarray, np.ndarray]:
        ids = np.empty((len(arrays[0]), len(arrays)), np.int32)
        kept = np.ones(ids.shape, np.bool_)
        for column, (array, name) in enumerate(zip(arrays, names, strict=True)):
            ids[:, column], valid = self._value_ids(array, name, position, first_row)
            if valid is not None:
                kept[:, column] = valid
        offsets = np.zeros(ids.shape[0] + 1, np.int32)
        np.cumsum(kept.sum(axis=1), out=offsets[1:])
        return ids[kept][:, None], offsets

    def _element_ids(self, array, name, position, first_row) -> tuple[np.ndarray, np.ndarray]:
        self._meet_nulls(array, name, first_row)
        self._check_counts(columns.list_lengths(array), first_row)
        elements, offsets = columns.list_parts(array)
        elements = columns.codes(elements)
        if elements.null_count:
            if self.nulls == "error":
                row = int(np.searchsorted(offsets, columns.first_null(elements), side="right")) - 1
                raise _null_key(name, first_row + row, "has a null element")
            self.counters.null_keys += elements.null_count
            kept = np.concatenate(([0], np.cumsum(columns.validity(elements), dtype=np.int64)))
            elements, offsets = columns.drop_null(elements), kept[offsets]
        _check_width(elements, name, first_row, offsets)
        return self.dictionary.encode_column(position, elements), offsets

    def _meet_nulls(self, array: pa.Array, name: str, first_row: int) -> np.ndarray | None:
        """Apply the policy to null keys: None if there are none, else bool[n], False at nulls."""
        if array.null_count == 0:
            return None
        if self.nulls == "error":
            raise _null_key(name, first_row + columns.first_null(array), "is null")
        self.counters.null_keys += array.null_count
        return columns.validity(array).view(np.bool_)


def _divided(values: np.ndarray, valid: np.ndarray | None, divisor: int) -> tuple[np.ndarray, np.ndarray]:
    """Return int64[n] quotients, and uint8[n]: 0 where there is a remainder, or was no value."""
    quotients = values // divisor
    is_whole = quotients * divisor == values
    return quotients, (is_whole if valid is None else is_whole & valid.view(np.bool_)).view(np.uint8)


def _check_width(array: pa.Array, name: str, first_row: int, offsets: np.ndarray | None = None) -> None:
    """Raise `OverflowInputError` with column and row for an integer beyond int64, which only a uint64 can be."""
    if not pa.types.is_uint64(array.type):
        return
    try:
        columns.integers(array, name)
    except OverflowInputError:
        too_large = pc.greater(array, pa.scalar(2**63 - 1, pa.uint64())).fill_null(False)
        index = pc.index(too_large, True).as_py()
        row = index if offsets is None else int(np.searchsorted(offsets, index, side="right")) - 1
        raise OverflowInputError(
            f"key column {name!r} is {array[index]} at row ",
            first_row + row,
            ", above the range of int64; cast the column to string or float64",
        ) from None


def _null_key(name: str, row: int, what: str) -> KeyNullError:
    return KeyNullError(f"key column {name!r} {what} at row ", row, f": {NULL_FIX}")


def _offsets_of(kept: np.ndarray) -> np.ndarray:
    offsets = np.zeros(kept.size + 1, np.int32)
    np.cumsum(kept, out=offsets[1:])
    return offsets
