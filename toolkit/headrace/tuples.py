"""What a tuple carries: named fields of the kinds the engine knows.

Numbers reach the kernels, strings and timestamps beside the event time are
carried by reference. A list kind is allowed as a key (multi key-by) only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.errors import SchemaError, UnsupportedTypeError

NUMERIC_KINDS = ("int64", "int32", "float64", "float32", "bool")
"""Kinds a kernel can read; bool is held as uint8."""

CARRIED_KINDS = ("string", "timestamp")
"""Kinds carried by reference: keys, and columns of the output."""

LIST_KINDS = ("list<string>", "list<int64>")
"""Kinds of a multi key-by column."""

KINDS = NUMERIC_KINDS + CARRIED_KINDS + LIST_KINDS


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its name and one of `KINDS`."""

    name: str
    kind: str

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError(f"column name {self.name!r}: must be a non-empty string; rename the column")
        if self.kind not in KINDS:
            raise UnsupportedTypeError(
                f"column {self.name!r} has kind {self.kind!r}: cast it to one of {', '.join(KINDS)}"
            )

    @property
    def is_numeric(self) -> bool:
        """Whether kernels can read it."""
        return self.kind in NUMERIC_KINDS


@dataclass(frozen=True, slots=True)
class Schema:
    """Fields in order, each name once.

    Examples
    --------
    >>> schema = Schema.of(x="int64", y="float32")
    >>> schema.names, schema["y"].kind, schema.index("y"), "z" in schema
    (('x', 'y'), 'float32', 1, False)
    """

    fields: tuple[Field, ...]

    def __post_init__(self):
        object.__setattr__(self, "fields", tuple(self.fields))
        seen: set[str] = set()
        for field in self.fields:
            if field.name in seen:
                raise SchemaError(f"column {field.name!r} occurs twice: rename one of them")
            seen.add(field.name)

    @classmethod
    def of(cls, **kinds: str) -> Schema:
        """Make a schema of keywords ``name="kind"``."""
        return cls(tuple(Field(name, kind) for name, kind in kinds.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names in order."""
        return tuple(field.name for field in self.fields)

    def index(self, name: str) -> int:
        """Return the position of a column, or raise `SchemaError` with the names there are."""
        for index, field in enumerate(self.fields):
            if field.name == name:
                return index
        names = ", ".join(self.names) or "none"
        raise SchemaError(f"column {name!r} does not exist: the columns are {names}")

    def select(self, names: Iterable[str]) -> Schema:
        """Return the schema of these columns, in the order given."""
        return Schema(tuple(self[name] for name in names))

    def __getitem__(self, name: str) -> Field:
        return self.fields[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return any(field.name == name for field in self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)
