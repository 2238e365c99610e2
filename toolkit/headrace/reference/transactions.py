"""Transactions over shared tables: one event after another, which is what every scheme must be equal to.

An event runs its functions in the order given; each is a transaction: all of it
happens, or, where it is rejected, nothing of it. A transaction reads its own
writes, and everything that earlier ones wrote (TStream, definitions 1 and 2; a
timestamp is the event's place in the input, see the errata of algorithm 2).

>>> accounts = Table("accounts", {"balance": "int64"}, {0: {"balance": 10}, 1: {}})
>>> def transfer(e, t):
...     if accounts[e.source].balance < e.amount:
...         t.reject()
...     accounts[e.source].balance -= e.amount
...     accounts[e.target].balance += e.amount
...     t.emit(balance=accounts[e.target].balance)
>>> events = [(1, {"source": 0, "target": 1, "amount": 4}), (2, {"source": 1, "target": 0, "amount": 5})]
>>> for row in transact([events], [transfer], [accounts], {"balance"}):
...     print(row)
{'ts': 1, 'balance': 4, 'rejected': False}
{'ts': 2, 'balance': None, 'rejected': True}
>>> accounts.content()
[{'key': 0, 'balance': 6}, {'key': 1, 'balance': 4}]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

from headrace.reference.containers import as_emitted, copied, first_value
from headrace.reference.order import Payload, Source, key_order, merge

BITS = {"int64": 64, "int32": 32}
"""Bits of the kinds of columns whose values are in a range."""
UNKNOWN = ("reject", "error", "insert")


class Rejected(Exception):
    """A transaction ends here, and nothing of it happens."""


class Table:
    """Rows of typed columns by key.

    Parameters
    ----------
    name : str
    columns : mapping of str to kind
        As for the state of an operator.
    rows : mapping
        Key -> values; columns that are left out begin at zero.
    key : str
        Name of the key's column.
    unknown : {"reject", "error", "insert"}
        What an unknown key does. A null is never known, and is not inserted.
    least : mapping of str to number, optional
        Column -> the least value it may be given: a transaction that gives it less is rejected.
    """

    def __init__(
        self,
        name: str,
        columns: Mapping[str, Any],
        rows: Mapping[Any, Payload],
        *,
        key: str = "key",
        unknown: str = "reject",
        least: Mapping[str, float] | None = None,
    ):
        assert unknown in UNKNOWN, unknown
        self.name, self.key, self.columns, self.unknown = name, key, dict(columns), unknown
        self.least = dict(least or {})
        self._rows = {k: self._zeros() | values for k, values in rows.items()}
        self._before: dict[Any, Payload | None] = {}
        """Each row that the current transaction has touched, as it was before; None: it was not there."""

    def _zeros(self) -> Payload:
        return {column: first_value(kind) for column, kind in self.columns.items()}

    def __getitem__(self, key: Any) -> Row:
        if key is None or (key not in self._rows and self.unknown == "reject"):
            raise Rejected
        if key not in self._rows and self.unknown == "error":
            raise KeyError(f"{self.name} has no key {key!r}")
        if key not in self._before:
            row = self._rows.get(key)
            self._before[key] = None if row is None else {column: copied(value) for column, value in row.items()}
        if key not in self._rows:
            self._rows[key] = self._zeros()
        return Row(self, self._rows[key])

    def begin(self) -> None:
        """Begin a transaction: what earlier ones did stays."""
        self._before.clear()

    def undo(self) -> None:
        """Make everything as it was when the transaction began."""
        for key, row in self._before.items():
            if row is None:
                del self._rows[key]
            else:
                self._rows[key] = row
        self._before.clear()

    def content(self) -> list[Payload]:
        """All rows, in the order of their keys."""
        return [
            {self.key: key} | {column: as_emitted(value) for column, value in self._rows[key].items()}
            for key in sorted(self._rows, key=key_order)
        ]


class Row:
    """A row as a function sees it.

    Parameters
    ----------
    table : Table
        Or whatever has a name, the kinds of its `columns`, and the `least` values of some.
    values : dict
        Column -> value; what a function assigns goes there.
    """

    __slots__ = ("__table", "__values")

    def __init__(self, table: Any, values: MutableMapping[str, Any]):
        object.__setattr__(self, "_Row__table", table)
        object.__setattr__(self, "_Row__values", values)

    def __getattr__(self, column: str) -> Any:
        if column not in self.__values:
            raise AttributeError(f"{self.__table.name} has no column {column!r}")
        return self.__values[column]

    def __setattr__(self, column: str, value: Any) -> None:
        table = self.__table
        if column not in self.__values:
            raise AttributeError(f"{table.name} has no column {column!r} that can be written")
        kind = table.columns[column]
        if isinstance(kind, str) and kind in BITS:
            check_range(value, f"{table.name}.{column}", BITS[kind])
        if column in table.least and value < table.least[column]:
            raise Rejected
        self.__values[column] = value


def check_range(value: Any, where: str, bits: int = 64) -> None:
    """Raise OverflowError if an integer needs more bits."""
    # Not `in range(...)`: for a subclass of int, as failures are explained with, that tries one number after another.
    if isinstance(value, int) and not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise OverflowError(f"{where}: {value} is beyond int{bits}")


class Lacking(list):
    """A list with null elements: as a null names no row, it can be asked about, and not looped over."""

    def __iter__(self) -> NoReturn:
        raise Rejected


def _as_read(value: Any) -> Any:
    return Lacking(value) if isinstance(value, list) and None in value else value


class Transaction:
    """What a function may do besides reading and writing: reject, and emit."""

    def __init__(self, emits: Collection[str] | Mapping[str, Any]):
        self._emits = emits
        self._bits = {name: BITS.get(kind, 64) for name, kind in emits.items()} if isinstance(emits, Mapping) else {}
        self.emitted: Payload | None = None

    def reject(self) -> NoReturn:
        """End the function; nothing of it happens."""
        raise Rejected

    def emit(self, **values: Any) -> None:
        """Give the event's row values."""
        if self.emitted is not None:
            raise ValueError("emit was called before: an event has one row")
        if unknown := sorted(values.keys() - set(self._emits)):
            raise ValueError(f"emit({unknown[0]}=...): the columns are {', '.join(self._emits)}")
        for name, value in values.items():
            check_range(value, name, self._bits.get(name, 64))
        self.emitted = values


def transact(
    sources: Sequence[Source],
    functions: Iterable[Callable[[Any, Transaction], None]],
    tables: Iterable[Table],
    emits: Collection[str] = (),
    carry: Collection[str] = (),
) -> list[Payload]:
    """Run every event's transactions, one after another.

    Parameters
    ----------
    sources : sequence of (ts, payload)
        Merged in the order of every engine.
    functions : callables
        ``f(e, t)``: `e` has the event's columns and `ts`. A null key rejects, and so does a loop over a list with null
        elements.
    tables : all that functions use
    emits, carry : names
        Of computed columns, in order, and of those of the event that its row keeps.

    Returns
    -------
    list of dict
        A row for each event: ts, carried columns, emitted ones (None if nothing was emitted by a function that was not
        rejected), and whether any of its functions was rejected. Tables hold what is in them after the last one.

    Raises
    ------
    ValueError
        Several functions emit for one event.
    KeyError
        A function names a key that a table with unknown="error" does not have.

    Notes
    -----
    TStream (Zhang et al.), Definition 2: the schedule in the order of timestamps that every scheme has to be equal to.

    Examples
    --------
    >>> accounts = Table("accounts", {"balance": "int64"}, {"a": {"balance": 5}, "b": {}})
    >>> def transfer(e, t):
    ...     if accounts[e.source].balance < e.amount:
    ...         t.reject()
    ...     accounts[e.source].balance -= e.amount
    ...     accounts[e.to].balance += e.amount
    >>> events = [(1, {"source": "a", "to": "b", "amount": 4}), (2, {"source": "a", "to": "b", "amount": 4})]
    >>> [row["rejected"] for row in transact([events], [transfer], [accounts])]
    [False, True]
    >>> accounts.content()
    [{'key': 'a', 'balance': 1}, {'key': 'b', 'balance': 4}]
    """
    functions, tables = list(functions), list(tables)
    rows = []
    for event in merge(sources):
        e = SimpleNamespace(**{name: _as_read(value) for name, value in event.payload.items()} | {"ts": event.ts})
        given: Payload = dict.fromkeys(emits)
        is_rejected = has_emitted = False
        for function in functions:
            for table in tables:
                table.begin()
            t = Transaction(emits)
            try:
                function(e, t)
            except Rejected:
                is_rejected = True
                for table in tables:
                    table.undo()
                continue
            if t.emitted is not None:
                if has_emitted:
                    raise ValueError("several functions emit for one event, which has one row")
                has_emitted = True
                given |= t.emitted
        kept = {name: event.payload[name] for name in carry}
        rows.append({"ts": event.ts} | kept | given | {"rejected": is_rejected})
    return rows
