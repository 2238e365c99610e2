"""The memory of a run's tables, for kernels and for readers in Python.

All single values of all tables are in one int64 array, `table_rows`, of reserved
memory; `table_reals` is the same memory as float64 (`layout` writes the texts that kernels find things by)::

    word base[T] + slot * stride(T)     where the row of table T with this slot begins
         present                        0 or 1; only where unknown keys are inserted
         a word for each column         an integer as it is, a bool as 0 or 1; a float of either width in `table_reals`

Behind the tables there is room for versions of rows, a stamp and a row each; before the
versions lies a stamp that always exists (`versions_kernel`).

A list, set, map or array has a head (`memory.arena`), or its words, in an array of
its column. Which slot a key has: `index_kernel`. Each row of a run has a number
among all rows, its *record*: ``first[T] + slot``.

Blocks of containers belong to the executor that works on a row, not to the row's
bucket: except for chains with one owner for each bucket, two executors may work on rows of one
bucket at the same time, and a free list serves one executor at a time.

State       table_rows, heads   a row's words: the executor that has the record at the time; a version's: see `versions_kernel`
            table_index_T, table_keys_T     see `index_kernel`
            table_arena_free    the lists of executor `me` begin at me * CLASSES
Invariants  I1  a row that was never present is zero
            I2  Python reads while executors rest: at a punctuation, or when the run is over
            I3  ids of strings that are keys are never recycled. Where columns hold strings (`has_texts`), the run
                recycles none
            I4  the empty string has the id 0: so a row of zeros has empty strings
Checked     tests/headrace/transactions/test_tables.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.codegen.kinds import Array, Container, cells_of
from headrace.egress.containers import as_object, holds_text, stride_of
from headrace.errors import OverflowInputError, ParameterError
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.memory.arena import ARENA_WORDS, COUNT, FIRST, allocate_arena, used_bytes
from headrace.memory.atomics import CELL
from headrace.memory.cells import reserved
from headrace.progress import NEVER
from headrace.reference.containers import first_value
from headrace.transactions import index_kernel, layout
from headrace.transactions.content import Held, HeldTable, TablesAt, exact_sum
from headrace.transactions.tables import Table

COPY_WORDS = 1 << 21
"""Words that each executor has for the copies of rows that it makes in a batch."""

@dataclass(frozen=True)
class Total:
    """A column whose sum is to be conserved."""

    column: str
    first: int
    now: int


class TableMemory:
    """The tables of one run.

    Parameters
    ----------
    tables : sequence of Table
    texts : OrderedTexts, optional
        The run's strings; needed if keys are strings, or columns hold some.
    executors : int
        The most there may be.
    max_state : int
        Bytes that containers may take.
    versions : int
        How many versions of rows there is room for. A container has one version only, so where there are containers, so
        has every row.

    Attributes
    ----------
    base, first : int64[tables]
        See above.
    places : int64[tables + 1, 3]
        By table its first record, where its rows begin, words of a row; the last row is that of the versions. No rows
        where there are no versions.
    records : int
        Of all tables.
    copies : range
        Words of `rows` behind the tables, where copies of rows are made.
    has_arena : bool
        There are lists, sets or maps.
    has_texts : bool
        Columns hold strings, themselves or in containers.

    Examples
    --------
    >>> from headrace import table
    >>> accounts = table("accounts", columns={"balance": "int64"}, rows=3, first={"balance": 10})
    >>> memory = TableMemory([accounts])
    >>> memory.rows[int(memory.base[0]) + 2] += 5
    >>> memory.content(accounts).to_pylist()
    [{'id': 0, 'balance': 10}, {'id': 1, 'balance': 10}, {'id': 2, 'balance': 15}]
    """

    def __init__(
        self,
        tables: Sequence[Table],
        texts: OrderedTexts | None = None,
        *,
        executors: int = 1,
        max_state: int = 8 * ARENA_WORDS,
        versions: int = 0,
    ):
        self.tables, self.texts = list(tables), texts
        names = [table.name for table in self.tables]
        for name in names:
            if names.count(name) > 1:
                raise ParameterError(f"two tables of one query are called {name!r}: give them different names")
        bases, firsts, words, records = [], [], 0, 0
        for table in self.tables:
            bases.append(words)
            firsts.append(records)
            words += -(-table.capacity * layout.stride(table) // CELL) * CELL
            records += table.capacity
        self.records = records
        self.base, self.first = np.array(bases, np.int64), np.array(firsts, np.int64)
        sizes, width = [layout.stride(table) for table in self.tables], layout.version_words(self.tables)
        self.places = np.zeros((0, 3), np.int64)
        first = words + width
        if versions and layout.has_versions(self.tables):
            self.places = np.array([*zip(firsts, bases, sizes, strict=True), (records, first, width)], np.int64)
            words = first + versions * width
        try:
            self._allocate(words, executors, max_state)
        except OSError:
            raise OverflowInputError(
                f"tables of {records:,} rows take {8 * words:,} bytes, more than this machine gives: use fewer rows=, or a"
                f" smaller max_rows="
            ) from None
        if len(self.places):
            self.rows[first - width] = NEVER
        for number in range(len(self.tables)):
            self._fill(number)
        self._first_totals = self._totals()

    def _allocate(self, words: int, executors: int, max_state: int) -> None:
        self.copies = range(words, words + executors * COPY_WORDS)
        self.rows = reserved(self.copies.stop, np.int64)
        self.reals = self.rows.view(np.float64)
        self.index: list[np.ndarray | None] = []
        self.keys: list[np.ndarray | None] = []
        """By slot; None where keys are a range of numbers."""
        self.heads: list[dict[str, np.ndarray]] = []
        count = len(self.tables)
        self.least, self.last = np.zeros(count, np.int64), np.full(count, -1, np.int64)
        for number, table in enumerate(self.tables):
            is_direct = layout.is_range(table)
            if is_direct and table.rows.count:
                self.least[number] = least = 0 if table.rows.keys is None else int(table.rows.keys[0])
                self.last[number] = least + table.rows.count - 1
            self.index.append(None if is_direct else index_kernel.allocate_index(table.capacity))
            self.keys.append(None if is_direct else reserved(table.capacity, np.int64))
            columns = table.containers
            self.heads.append({name: reserved(table.capacity * cells_of(kind), np.int64) for name, kind in columns.items()})
        kinds = [kind for table in self.tables for kind in table.containers.values()]
        self.has_texts = any(holds_text(kind) for table in self.tables for kind in table.columns.values())
        assert self.texts is not None or not (self.has_texts or any(table.is_text for table in self.tables))
        if self.texts is not None and int(self.texts.keep([""])[0]) != 0:
            raise ValueError("the empty string has to be the first one that is known: I4")
        self.has_arena = any(not isinstance(kind, Array) for kind in kinds)
        self.free = self.arena = np.zeros(0, np.int64)
        if self.has_arena:
            self.free, self.arena = allocate_arena(executors, max(1, max_state // 8))

    def _fill(self, number: int) -> None:
        """Write the initial rows of a table; what is zero is not touched."""
        table, count = self.tables[number], self.tables[number].rows.count
        rows = self._rows_of(number, count)
        if table.unknown == "insert":
            rows[:, layout.PRESENT] = 1
        for name, words in table.rows.words.items():
            if isinstance(words, str):
                words = pa.array([words])
            if isinstance(words, pa.Array):
                words = self.encode(words)
            if isinstance(words, np.ndarray) or words != 0:
                rows[:, layout.word(table, name)] = words
        index, keys = self.index[number], self.keys[number]
        if index is None or keys is None:
            return
        given: Any = table.rows.keys
        if table.is_text:
            given = self.encode(given)
        elif given is None:
            given = np.arange(count, dtype=np.int64)
        with np.errstate(over="ignore"):
            index_kernel.insert_all(index, keys, np.array(given, np.int64))

    def _rows_of(self, number: int, count: int) -> np.ndarray:
        """The first `count` rows of a table, as a view int64[count, stride]."""
        first, stride = int(self.base[number]), layout.stride(self.tables[number])
        return self.rows[first : first + count * stride].reshape(count, stride)

    def fields(self) -> dict[str, np.ndarray]:
        """Return the arrays of the kernels' bundle by name."""
        found = {
            "table_rows": self.rows, "table_reals": self.reals, "table_base": self.base, "table_first": self.first,
            "table_least": self.least, "table_last": self.last,
        }  # fmt: skip
        for number, (index, keys) in enumerate(zip(self.index, self.keys, strict=True)):
            if index is not None and keys is not None:
                found |= {f"table_index_{number}": index, f"table_keys_{number}": keys}
            for place, heads in enumerate(self.heads[number].values()):
                found[layout.heads_field(number, place)] = heads
        if self.has_arena:
            found |= {"table_arena": self.arena, "table_arena_free": self.free}
        return found

    def encode(self, strings: pa.Array) -> np.ndarray:
        """Return the ids of strings, which stay known as long as the run: int64[n]."""
        assert self.texts is not None
        with self.texts.lock:
            ids = self.texts.encode(strings.cast(pa.string()) if len(strings) else pa.array([], pa.string()))
            self.texts.held[ids] = index_kernel.UNTOUCHED
            return ids.astype(np.int64)

    # -- for Python, while executors rest

    def used(self, number: int) -> int:
        """Return how many slots of a table have keys."""
        index = self.index[number]
        return self.tables[number].rows.count if index is None else index_kernel.used_slots(index)

    def content(self, table: Table) -> pa.Table:
        """Return the rows of a table, in the order of their keys."""
        return self._held(self.tables.index(table)).to_arrow()

    def at(self, position: int | None) -> TablesAt:
        """Copy all tables, as of a position in the input."""
        return TablesAt(position, {table.name: self._held(i) for i, table in enumerate(self.tables)})

    def _held(self, number: int) -> HeldTable:
        table, count = self.tables[number], self.used(number)
        keys = self.keys[number]
        containers = {}
        for name, kind in table.containers.items():
            heads = self.heads[number][name][: count * cells_of(kind)].reshape(count, cells_of(kind))
            containers[name] = self._words(heads, kind)
        held = Held(
            self._rows_of(number, count).copy(),
            int(self.least[number]) if keys is None else keys[:count].copy(),
            containers,
        )
        return HeldTable(table, held, {name: layout.word(table, name) for name in table.scalars}, self.texts)

    def _words(self, heads: np.ndarray, kind: Container) -> tuple[np.ndarray, np.ndarray]:
        """Copy the words of a column's containers, one after another, and where each begins: words, offsets."""
        if isinstance(kind, Array):
            return heads.reshape(-1).copy(), np.arange(len(heads) + 1, dtype=np.int64) * kind.size
        counts = heads[:, COUNT] * stride_of(kind)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        places = np.repeat(heads[:, FIRST] - offsets[:-1], counts) + np.arange(offsets[-1])
        return self.arena[places], offsets

    def totals(self) -> dict[str, Total]:
        """Return the sums of conserved columns by table, exact: at the start, and now."""
        now = self._totals()
        return {
            table.name: Total(str(table.conserve), self._first_totals[table.name], now[table.name])
            for table in self.tables
            if table.conserve is not None
        }

    def _totals(self) -> dict[str, int]:
        found = {}
        for number, table in enumerate(self.tables):
            if table.conserve is not None:
                rows = self._rows_of(number, self.used(number))
                column = rows[:, layout.word(table, table.conserve)]
                found[table.name] = exact_sum(column if table.unknown != "insert" else column[rows[:, layout.PRESENT] != 0])
        return found

    @property
    def nbytes(self) -> int:
        """Bytes that rows in use take, containers included."""
        rows = sum(
            8 * self.used(i) * (layout.stride(table) + sum(cells_of(kind) for kind in table.containers.values()))
            for i, table in enumerate(self.tables)
        )
        return rows + self.arena_bytes

    @property
    def arena_bytes(self) -> int:
        """Bytes that lists, sets and maps take; may be read while executors work."""
        return used_bytes(self.free, self.arena) if self.has_arena else 0

    def key_of(self, record: int) -> tuple[Table, Any]:
        """Return the table and the key of a record.

        Examples
        --------
        >>> from headrace import table
        >>> TableMemory([table("a", columns={"x": "int64"}, rows=3), table("b", columns={"x": "int64"}, rows=3)]).key_of(4)
        (<Table 'b': 3 rows at first, key id: int64; x: int64>, 1)
        """
        number = int(np.searchsorted(self.first, record, "right")) - 1
        while self.tables[number].capacity == 0:  # an empty table begins where the next one does
            number -= 1
        table, slot, keys = self.tables[number], record - int(self.first[number]), self.keys[number]
        if keys is None:
            return table, int(self.least[number]) + slot
        return table, self.text_of(keys[slot]) if table.is_text else int(keys[slot])

    def text_of(self, word: int) -> str:
        """Return the string with an id."""
        assert self.texts is not None
        (strings,) = self.texts.decode(np.array([word]))
        return strings[0].as_py()

    def slot_of(self, number: int, key: Any, seen: Mapping[int, int] | None = None) -> int | None:
        """Return the slot of a row that exists, or existed in the version that `row` would read; None if this key has none."""
        table, index = self.tables[number], self.index[number]
        if table.is_text:
            if not isinstance(key, str):
                return None
            key = int(self.encode(pa.array([key]))[0])
        elif not isinstance(key, int | np.integer) or not -(2**63) <= key < 2**63:
            return None
        if index is None:
            slot = index_kernel.find_direct(key, int(self.least[number]), int(self.last[number]))
        else:
            with np.errstate(over="ignore"):
                slot = index_kernel.find_hashed(index, key)
        if slot < 0 or (table.unknown == "insert" and self._words_of(number, int(slot), seen)[layout.PRESENT] == 0):
            return None
        return int(slot)

    def read(self, table: Table, seen: Mapping[int, int] | None = None) -> RowsRead:
        """Return the rows of a table for `tables.reading`: each is copied when it is asked for, and private to the reader.

        Parameters
        ----------
        table : Table
        seen : mapping of int to int, optional
            Record -> the word where its row begins for the reader, if that is not the table's.
        """
        number = self.tables.index(table)
        self.slot_of(number, "" if table.is_text else 0)  # compiled now, not where lines are counted (`call_plain`)
        return RowsRead(self, number, seen)

    def _words_of(self, number: int, slot: int, seen: Mapping[int, int] | None) -> np.ndarray:
        """The words of a row, or of the version of it that is seen."""
        place = (seen or {}).get(int(self.first[number]) + slot)
        if place is None:
            return self._rows_of(number, slot + 1)[slot]
        return self.rows[place : place + layout.stride(self.tables[number])]

    def row(self, number: int, slot: int, seen: Mapping[int, int] | None = None) -> dict[str, Any]:
        """Return the columns of a row, as plain Python has them; `seen` as of `read`."""
        table = self.tables[number]
        row = self._words_of(number, slot, seen)
        found: dict[str, Any] = {}
        for name, kind in table.columns.items():
            if not isinstance(kind, str):
                continue
            word = row[layout.word(table, name)]
            if kind == "string":
                found[name] = self.text_of(word)
                continue
            found[name] = float(word.view(np.float64)) if kind.startswith("float") else int(word)
            if kind == "bool":
                found[name] = bool(found[name])
        for name, kind in table.containers.items():
            cells = cells_of(kind)
            words, _ = self._words(self.heads[number][name][slot * cells : (slot + 1) * cells].reshape(1, cells), kind)
            found[name] = as_object(words, kind, self.texts) if words.size else first_value(kind)
        return {name: found[name] for name in table.columns}


class RowsRead(dict):
    """Rows by key, each read from the memory when it is first asked for."""

    def __init__(self, memory: TableMemory, number: int, seen: Mapping[int, int] | None = None):
        super().__init__()
        self._memory, self._number, self._seen = memory, number, seen

    def __contains__(self, key: Any) -> bool:
        return super().__contains__(key) or self._memory.slot_of(self._number, key, self._seen) is not None

    def __missing__(self, key: Any) -> dict[str, Any]:
        slot = self._memory.slot_of(self._number, key, self._seen)
        if slot is None:
            raise KeyError(key)
        self[key] = self._memory.row(self._number, slot, self._seen)
        return self[key]
