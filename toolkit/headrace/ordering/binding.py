"""What the names in the functions of a pipeline's stages stand for in the kernels, and the rewritten functions.

A stage reads records of its ring, one word for each column. The first stages, up to
and including the first that emits, read columns of the input, which may be null; only the
columns that are read are copied into the ring. What a stage emits is never null.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.codegen import placed
from headrace.codegen.bindings import (
    Binding,
    FieldBinding,
    Unreadable,
    event_time_binding,
    memory_of_workers,
    texts_in,
    unnamed,
)
from headrace.codegen.capture import capture
from headrace.codegen.functions import GeneratedFunction, specialise
from headrace.codegen.kinds import Kind, cannot_read
from headrace.codegen.text import attributes
from headrace.egress.containers import holds_text
from headrace.ingress.columns import is_scalar, is_text, plain_type, value_dtype
from headrace.memory.arena import CLASSES
from headrace.ordering.stages import OWN_TIME, Stage
from headrace.ordering.words import FIRST_COLUMN

KERNEL_WORDS = ("me", "c", "s", "l", "r", "k", "owner", "ts")
"""Parameters of every function: the record at `r`, the state at `k`, whose free lists begin at `owner`."""


@dataclass(frozen=True)
class Column:
    """A column of the records that a stage reads.

    Parameters
    ----------
    name : str
        As functions write it after ``t.``.
    column : str
        As the schema calls it.
    kind : str
        As `headrace.codegen.kinds` names it; for the input's columns int64, float64, bool or string.
    dtype : str
        In the store, for a column of the input.
    """

    name: str
    column: str
    kind: str
    dtype: str = "int64"

    @property
    def is_float(self) -> bool:
        return self.kind.startswith("float")


@dataclass
class BoundStage:
    """A stage, rewritten."""

    stage: Stage
    columns: tuple[Column, ...]
    """Of its input records, in order."""
    event_time: str
    nullable: bool
    """Whether they are the input's, which may be null."""
    function: GeneratedFunction
    end: GeneratedFunction | None

    @property
    def state_words(self) -> int:
        return placed.words_of(self.stage.state)

    @property
    def entry_words(self) -> int:
        """Words of a key's entry: its state and, where keys are forgotten, when it was last seen."""
        return self.state_words + (self.stage.forget is not None)

    @property
    def key(self) -> int:
        """Word of the key in a record."""
        return FIRST_COLUMN + [column.column for column in self.columns].index(self.stage.by)

    def explain(self) -> list[str]:
        """Say what the stage reads, keeps and emits, and how many workers it may have."""
        stage = self.stage
        parts = "ranges" if stage.ranges else "buckets"
        workers = {
            "partitioned": f"one worker at a time in each of {stage.buckets} {parts} of {stage.by}",
            "stateful": "one worker at a time, in order",
        }.get(stage.kind, "any number of workers at once")
        fields = self.function.reads.get("t", ())
        read = [name for name in fields if name not in (OWN_TIME, self.event_time)]
        if len(read) < len(fields):
            read.insert(0, self.event_time)
        lines = [f"{stage.name}: {stage.kind}; {workers}", f"  reads {', '.join(read) or 'no column'}"]
        if stage.is_kept:
            kept = ", ".join(f"{name}: {one.kind}" for name, one in stage.state.items())
            forgotten = "" if stage.forget is None else f"; as new when its key was not seen for {stage.forget}"
            size = f", {8 * self.entry_words} bytes a key{forgotten}" if stage.by else ""
            lines.append(f"  keeps {kept or 'nothing'}{size}")
        given = ", ".join(f"{column.name}: {column.kind}" for column in self.emitted)
        lines.append("  gives the tuples that it keeps" if stage.kind == "filter" else f"  gives {given}")
        return lines

    @property
    def stride(self) -> int:
        """Words of an input record."""
        return FIRST_COLUMN + len(self.columns)

    @property
    def emitted(self) -> tuple[Column, ...]:
        """Columns of its outputs."""
        if self.stage.kind == "filter":
            return self.columns
        return tuple(Column(name, name, str(kind)) for name, kind in self.stage.emits.items())


@dataclass
class Bound:
    """The stages of a pipeline, rewritten for its kernels."""

    stages: list[BoundStage]
    literals: list[str] = field(default_factory=list)
    has_texts: bool = False

    @property
    def generated(self) -> list[GeneratedFunction]:
        """All functions, for errors of the compiler."""
        return [f for one in self.stages for f in (one.function, one.end) if f is not None]

    @property
    def passes_input(self) -> bool:
        """Whether the results are rows of the input: all stages are filters."""
        return all(one.stage.kind == "filter" for one in self.stages)

    @property
    def gives_times(self) -> bool:
        """Whether an output may have a different time from its tuple; the input's progress then says nothing about it."""
        return any(one.end is not None or OWN_TIME in one.function.writes.get("emit", ()) for one in self.stages)

    @property
    def buckets(self) -> int:
        """Number of buckets of all stages."""
        return sum(one.stage.buckets for one in self.stages)


def bind(stages: Sequence[Stage], schema: pa.Schema, event_time: str, debug: bool = False) -> Bound:
    """Rewrite the functions of a pipeline.

    Raises
    ------
    FunctionError
        With the line of what cannot be compiled.
    """
    texts, memory = texts_in("s"), memory_of_workers(f"(s.owners[{len(stages)}] + me) * {CLASSES}")
    # Integer overflow ends the run, with or without `debug`: no result is silently wrong.
    writing = _Writing(event_time, {"poll": "stopped(c)", "debug": True, "texts": texts, "memory": memory})
    readable, fields = _input_fields(schema, event_time)
    # The stages that see the input's columns: all up to the first that emits. They share one layout.
    first = next((i for i, stage in enumerate(stages) if stage.kind != "filter"), len(stages) - 1)
    prefix = stages[: first + 1]
    read: set[str] = set()
    for number, stage in enumerate(prefix):
        read.update(writing.function(number, stage, tuple(readable.values()), fields).reads.get("t", ()))
    by = [stage.by for stage in prefix if stage.by]
    columns = tuple(one for one in readable.values() if one.name in read or one.column in by)
    unnamed = [name for name in by if name not in [one.column for one in columns]]
    columns += tuple(_key_column(schema, name) for name in unnamed)
    found: list[BoundStage] = []
    nullable = True
    for number, stage in enumerate(stages):
        if number > first:
            fields, nullable = _emitted_fields(columns, event_time), False
        function = writing.function(number, stage, columns, fields)
        end = writing.end(number, stage) if stage.end is not None else None
        one = BoundStage(stage, columns, event_time, nullable, function, end)
        found.append(one)
        columns = one.emitted
    kinds: list[Kind] = [column.kind for one in found for column in (*one.columns, *one.emitted)]
    kinds += [field.kind for stage in stages for field in stage.state.values()]
    has_texts = len(texts.literals) > 1 or any(map(holds_text, kinds))
    return Bound(found, list(texts.literals) if has_texts else [], has_texts)


def _key_column(schema: pa.Schema, name: str) -> Column:
    """A key that no function reads, and whose name need not be a Python name."""
    kind = schema.field(name).type
    return Column(f"key_{name.encode().hex()}", name, "string" if is_text(plain_type(kind)) else "int64", value_of(kind))


def value_of(kind: pa.DataType) -> str:
    """The dtype of a column in the store."""
    return "int64" if is_text(plain_type(kind)) else value_dtype(kind).name


def _input_fields(schema: pa.Schema, event_time: str) -> tuple[dict[str, Column], dict[str, Binding]]:
    """The fields of ``t`` at a stage that sees the input: columns that may be read, and the binding of every name."""
    readable: dict[str, Column] = {}
    fields: dict[str, Binding] = {}
    for name, column in attributes(schema.names).items():
        kind = plain_type(schema.field(column).type)
        if column == event_time:
            fields[name] = FieldBinding("ts")
        elif is_text(kind) or is_scalar(kind):
            dtype = value_of(schema.field(column).type)
            what = "string" if is_text(kind) else "bool" if dtype == "uint8" else dtype
            readable[name] = Column(name, column, what, dtype)
            fields[name] = FieldBinding(f"c_{name}", kind="string" if what == "string" else None, valid=f"n_{name}")
        else:
            fields[name] = Unreadable(cannot_read(kind))
    fields |= unnamed(schema.names, event_time) | {"ts": event_time_binding((schema.names, event_time))}
    readable.pop("ts", None)
    return readable, fields


def _emitted_fields(columns: Sequence[Column], event_time: str) -> dict[str, Binding]:
    """The fields of ``t`` after a stage that emits."""
    fields: dict[str, Binding] = {
        one.name: FieldBinding(f"c_{one.name}", kind="string" if one.kind == "string" else None) for one in columns
    }
    return fields | {event_time: FieldBinding("ts"), "ts": FieldBinding("ts")}


POLICY_FIELDS = {
    "backlog": "worklist(c, stage)",
    "behind": "(worklist(c, stage + 1) if stage + 1 < c.form.shape[0] else 0)",
    "cost": "cost(c, stage)",
    "selectivity": "selectivity(c, stage)",
    "workers": "workers_at(c, stage)",
    "most": "c.form[stage, MOST]",
    "position": "stage",
    "count": "c.form.shape[0]",
}
"""What the user's own schedule can read of a stage."""


def bind_policy(function: Callable, debug: bool = False) -> GeneratedFunction:
    """Rewrite the user's own schedule: a function that returns a stage's urgency."""
    captured = capture(function)
    if not any(isinstance(node, ast.Return) for node in ast.walk(captured.node)):
        # A function that only raises has no return type, and the compiler's error would not name the function.
        raise captured.error("must return a number, how urgent a stage is")
    return specialise(
        captured,
        name="user_policy",
        arguments=("stage",),
        bindings={"stage": POLICY_FIELDS},
        parameters=("me", "c", "s", "l", "stage"),
        returns="float64",
        poll="stopped(c)",
        debug=debug,
    )


class _Writing:
    """Rewrites the functions of one pipeline."""

    def __init__(self, event_time: str, options: Mapping[str, Any]):
        self._event_time, self._options = event_time, options

    def function(
        self, number: int, stage: Stage, columns: Sequence[Column], fields: Mapping[str, Binding]
    ) -> GeneratedFunction:
        """What a stage does with a record."""
        bindings: dict[str, Any] = {"t": fields} | ({"state": placed.bindings(stage.state)} if stage.is_kept else {})
        values = [f"{part}_{one.name}" for one in columns for part in ("c", "n")]
        emits: dict[str, Any] = {}
        if stage.kind == "filter":
            emits["returns"] = "truth"
        else:
            emits |= _emission(number, stage, self._event_time)
        return specialise(
            stage.function,
            name=f"user_{number}",
            arguments=stage.roles,
            bindings=bindings,
            parameters=(*KERNEL_WORDS, *values),
            decorator="compiled_user_within",  # a call that passes all of a tuple costs more than most functions do
            **emits,
            **self._options,
        )

    def end(self, number: int, stage: Stage) -> GeneratedFunction:
        """What a stage does at the end of the stream."""
        assert stage.end is not None
        return specialise(
            stage.end,
            name=f"end_{number}",
            arguments=("state", "emit"),
            bindings={"state": placed.bindings(stage.state)},
            parameters=KERNEL_WORDS,
            **_emission(number, stage, self._event_time, is_end=True),
            **self._options,
        )


def _emission(number: int, stage: Stage, event_time: str, is_end: bool = False) -> dict[str, Any]:
    """What ``emit`` becomes: fields by position, then the time, by default the tuple's; at the end it must be given."""
    emits: dict[str, Any] = dict(stage.emits) | {OWN_TIME: "int64"}
    places = "".join(f", {{{place}}}" for place in range(len(stage.emits)))
    example = ", ".join(f"{name}=..." for name in (OWN_TIME, *stage.emits))
    given = f"the event time of an output, its column {event_time!r}, is given as {OWN_TIME}, as in emit({example})"
    hints = {} if event_time == OWN_TIME else {event_time: given}
    if is_end:
        hints[OWN_TIME] = f"{given}: when the input has ended, there is no tuple whose time it could have"
    return {
        "emits": emits, "emit": f"give_{number}(c, l, r, {{{len(stage.emits)}}}{places})",
        "left_out": {} if is_end else {OWN_TIME: "ts"}, "hints": hints,
    }  # fmt: skip
