"""What an input of a program brings: one or several tags, one or several streams; and which of them a row has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.codegen.containers.places import seen_as
from headrace.errors import SchemaError
from headrace.ingress.columns import is_scalar, is_text, plain_type, value_dtype
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.names import instead
from headrace.plan.checks import check_columns
from headrace.synchronization.binding import Bound, Column
from headrace.synchronization.definition import Definition
from headrace.synchronization.tags import ImplementationTag, Tag, part_of


@dataclass(frozen=True)
class Input:
    """One input of a program.

    Parameters
    ----------
    tags : tuple of str
        Those its rows may have.
    tag_column : str or None
        The column that says a row's tag, where there are several.
    streams : int
        Of each tag, in this input.
    stream_column : str or None
        The column that says a row's stream, an integer modulo `streams`; None: rows are dealt out in turn.
    first_stream : tuple of int
        By tag, the number of the input's first stream among all of the tag's.
    names_streams : bool
        The stream's column has strings: each of the first `streams` names has a stream of its own, others share these.
    """

    tags: tuple[str, ...]
    tag_column: str | None = None
    streams: int = 1
    stream_column: str | None = None
    first_stream: tuple[int, ...] = (0,)
    names_streams: bool = False

    def implementation_tags(self, program: Definition) -> list[ImplementationTag]:
        """All implementation tags that its rows may have: by tag, part and stream."""
        return [
            ImplementationTag(name, part, first + stream)
            for name, first in zip(self.tags, self.first_stream, strict=True)
            for part in range(program.tags[name].parts)
            for stream in range(self.streams)
        ]

    def is_single(self, program: Definition) -> bool:
        """Whether all its rows are of one implementation tag."""
        return len(self.tags) == 1 and program.tags[self.tags[0]].by is None and self.streams == 1

    def columns(self, bound: Bound) -> dict[str, Column]:
        """The columns that its store keeps: those that updates read, and those that decide a row's implementation tag."""
        found = {column.name: column for one in bound.tags if one.tag.name in self.tags for column in one.columns}
        for name in self.tags:
            tag = bound.program.tags[name]
            if tag.by is not None:
                found.setdefault(tag.by, Column(tag.by, seen_as(tag.columns[tag.by])))
        if self.tag_column is not None:
            found.setdefault(self.tag_column, Column(self.tag_column, "string"))
        if self.stream_column is not None:
            kind = "string" if self.names_streams else "int64"
            found.setdefault(self.stream_column, Column(self.stream_column, kind))
        return found

    def check(self, program: Definition, schema: pa.Schema, use: str) -> None:
        """Raise `SchemaError` for columns that are missing, or of another kind than the program says."""
        for name in self.tags:
            for column, kind in program.tags[name].columns.items():
                check_columns(schema, [column], f"{use}, of tag {name!r}")
                given = plain_type(schema.field(column).type)
                wanted = seen_as(kind)
                has = "string" if is_text(given) else _number_kind(given)
                if has != wanted:
                    raise SchemaError(
                        f"{use}: column {column!r} is {schema.field(column).type}, and tag {name!r} of the program has {kind};"
                        f" cast one, or declare the tag's column as it is"
                    )
        for what, column in (("tag", self.tag_column), ("stream", self.stream_column)):
            if column is None:
                continue
            check_columns(schema, [column], f"{use}, {what}")
            given = plain_type(schema.field(column).type)
            if not is_text(given) and (what == "tag" or _number_kind(given) != "int64"):
                kind = "a string" if what == "tag" else "an integer or a string"
                raise SchemaError(f"{use}: column {column!r} is {given}, and says which {what} a row is of: it has to be {kind}")


def _number_kind(kind: pa.DataType) -> str:
    if not is_scalar(kind):
        return "nothing a function can read"
    dtype = value_dtype(kind)
    return "bool" if dtype == np.uint8 else "float64" if dtype.kind == "f" else "int64"


class Router:
    """Finds out which of an input's implementation tags each of its rows has.

    Parameters
    ----------
    given : Input
    bound : Bound
    texts : OrderedTexts or None
    name : str
        Of the input, for messages.
    """

    def __init__(self, given: Input, bound: Bound, texts: OrderedTexts | None, name: str):
        self._given, self._texts, self._name = given, texts, name
        self._tags = [bound.program.tags[tag] for tag in given.tags]
        self._firsts = np.cumsum([0, *(tag.parts * given.streams for tag in self._tags)])
        self._is_single = given.is_single(bound.program)
        self._rows = 0
        self._names: dict[str, int] = {}

    @property
    def tags(self) -> int:
        """How many implementation tags there are."""
        return int(self._firsts[-1])

    def route(self, columns: Mapping[str, tuple[np.ndarray, np.ndarray | None]], count: int) -> np.ndarray:
        """int64[n]: for each row its number among the input's implementation tags.

        Raises
        ------
        SchemaError
            A row whose tag is none of them, or with a null where the tag, key or stream should be.
        """
        if self._is_single:
            return np.zeros(count, np.int64)
        which = self._tag_numbers(columns, count)
        found = self._firsts[which]
        for number, tag in enumerate(self._tags):
            if tag.by is not None:
                rows = np.flatnonzero(which == number)
                found[rows] += self._parts(columns, tag, rows) * self._given.streams
        if self._given.streams > 1:
            found += self._streams(columns, count)
        self._rows += count
        return found

    def _tag_numbers(self, columns: Mapping[str, tuple], count: int) -> np.ndarray:
        name = self._given.tag_column
        if name is None:
            return np.zeros(count, np.int64)
        ids = self._present(columns, name, np.arange(count))
        assert self._texts is not None
        known = self._texts.keep(self._given.tags)
        which = np.full(count, -1)
        for number, text in enumerate(known):
            which[ids == text] = number
        if (which < 0).any():
            (value,) = self._texts.decode(ids[which < 0][:1].astype(np.int64))
            raise SchemaError(
                f"{self._name}: {name} = {value[0].as_py()!r} in row {self._rows + int(np.argmax(which < 0)):,}:"
                f" {instead(value[0].as_py(), self._given.tags, 'the tags')}"
            )
        return which

    def _parts(self, columns: Mapping[str, tuple], tag: Tag, rows: np.ndarray) -> np.ndarray:
        assert tag.by is not None
        values = self._present(columns, tag.by, rows)
        if tag.columns[tag.by] != "string":
            return part_of(np.ascontiguousarray(values).astype(np.int64), tag.parts)
        assert self._texts is not None
        ids, places = np.unique(values, return_inverse=True)
        (texts,) = self._texts.decode(ids.astype(np.int64))
        return part_of(np.array(texts.to_pylist(), dtype=str), tag.parts)[places]

    def _streams(self, columns: Mapping[str, tuple], count: int) -> np.ndarray:
        name, streams = self._given.stream_column, self._given.streams
        if name is None:
            return (self._rows + np.arange(count)) % streams
        values = self._present(columns, name, np.arange(count))
        return self._named(values) if self._given.names_streams else values % streams

    def _named(self, values: np.ndarray) -> np.ndarray:
        """Streams by name: a resumed run reads its rows from the first one, and so finds the same streams."""
        assert self._texts is not None
        ids, first, places = np.unique(values, return_index=True, return_inverse=True)
        names = self._texts.decode(ids.astype(np.int64))[0].to_pylist()
        for number in np.argsort(first)[: self._given.streams].tolist():
            if len(self._names) < self._given.streams:
                self._names.setdefault(names[number], len(self._names))
        shared = part_of(np.array(names, dtype=str), self._given.streams).tolist()
        found = [self._names.get(name, other) for name, other in zip(names, shared, strict=True)]
        return np.array(found, np.int64)[places]

    def _present(self, columns: Mapping[str, tuple], name: str, rows: np.ndarray) -> np.ndarray:
        """The values of a column in these rows, of which none may be null."""
        values, valid = columns[name]
        if valid is not None and not valid[rows].all():
            row = int(rows[np.argmin(valid[rows])])
            raise SchemaError(
                f"{self._name}: {name} is null in row {self._rows + row:,}, and says which events depend on it; filter such rows"
                f" before"
            )
        return values[rows]


def tick_inputs(program: Definition) -> list[Input]:
    """The inputs that bring ticks: one for each periodic tag, before all others in the order of events."""
    return [Input((name,)) for name in program.periodic]


def read_streams(inputs: Sequence[Input], program: Definition) -> dict[str, int]:
    """How many streams each tag has."""
    streams = dict.fromkeys(program.tags, 0)
    for one in (*tick_inputs(program), *inputs):
        for name, first in zip(one.tags, one.first_stream, strict=True):
            streams[name] = max(streams[name], first + one.streams)
    return streams


__all__ = ["Input", "Router", "read_streams", "tick_inputs"]
