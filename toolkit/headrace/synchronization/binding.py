"""What names in a program's functions stand for, and the functions rewritten for its kernels.

An update reads its event in the input's store. Forks and joins work on states in
words of an arena (`codegen.placed`); each node of the plan has a state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.codegen.bindings import (
    Binding,
    FieldBinding,
    Membership,
    memory_of_workers,
    texts_in,
)
from headrace.codegen.capture import CapturedFunction, capture
from headrace.codegen.containers.places import seen_as
from headrace.codegen.functions import GeneratedFunction, specialise
from headrace.codegen.kinds import Kind, is_exact
from headrace.codegen.placed import bindings, word_kinds, words_of
from headrace.codegen.state import StateField
from headrace.egress.containers import holds_text
from headrace.memory.arena import CLASSES
from headrace.synchronization.definition import Definition
from headrace.synchronization.emissions import completed, emits_nothing, fields_left_out, flag_of
from headrace.synchronization.tags import Tag

EVENT_WORDS = ("me", "c", "o", "s", "l", "out", "a", "a_f", "a_h", "k", "owner", "i", "row", "at", "ts")
"""Possible parameters of an update, which has those that it uses: columns of results in `out` (`template`), the state at `k`,
its numbers in the words of `a`, which `a_f` and `a_h` have as float64 and as float32, its containers in those of ``s.arena``,
whose free lists begin at `owner`; row `row` of input `i`, at `at` of its chunk."""
MOST_LOCAL_WORDS = 64
"""Words of a state up to which its numbers may be kept in locals."""
FORK_WORDS = ("me", "c", "s", "l", "k", "owner", "k_left", "owner_left", "k_right", "owner_right", "left", "right")
JOIN_WORDS = ("me", "c", "s", "l", "k", "owner", "k_other", "owner_other")
TYPED_JOIN_WORDS = FORK_WORDS[:-2]
"""With several types of state: the state at `k` is a new one."""


@dataclass(frozen=True)
class Column:
    """A column of a tag that its update reads.

    Parameters
    ----------
    name : str
    kind : str
        As functions see it: int64, float64, bool or string.
    """

    name: str
    kind: str

    @property
    def dtype(self) -> str:
        """The dtype in the store."""
        return {"float64": "float64", "bool": "uint8"}.get(self.kind, "int64")


@dataclass
class BoundTag:
    """A tag, and its rewritten updates, by the number of the type of state; only types that may process the tag have one.

    Parameters
    ----------
    tag : Tag
    updates : dict
    columns : tuple of Column
        That updates read.
    in_numbers : dict
        By the number of the state's type: the fields of an update that changes only numbers of the state, so that it can be
        done again from the same numbers.
    """

    tag: Tag
    updates: dict[int, GeneratedFunction]
    columns: tuple[Column, ...]
    in_numbers: dict[int, tuple[str, ...]]


@dataclass
class BoundFork:
    """A fork and a join, rewritten, and the numbers of the types of state they are for: above, left, right."""

    types: tuple[int, int, int]
    fork: GeneratedFunction
    join: GeneratedFunction


@dataclass
class Bound:
    """A program, rewritten for its kernels."""

    program: Definition
    tags: list[BoundTag]
    forks: list[BoundFork]
    optional: tuple[str, ...] = ()
    """Outputs that some emission leaves out; each has a flag, in a column after those of all outputs."""
    literals: list[str] = field(default_factory=list)
    has_texts: bool = False

    @property
    def may_stay_joined(self) -> bool:
        """Whether events of leaves may be processed on a joined state: its type takes all tags, and results are bit-identical.

        A consistent program gives the same results whenever states are joined. One that adds floats does so up to rounding,
        and one that iterates over a map in insertion order does so up to an order. As long as these are joined exactly where
        the plan says, runs of one plan give the same bits.
        """
        types = list(self.program.types.values())
        return len(types) == 1 and all(is_exact(one.kind) for one in types[0].values())

    @property
    def by_entry(self) -> list[str]:
        """Tags whose events, at an inner node, take only the entries of their own key."""
        return [one.tag.name for one in self.tags if self.forks and self.program.is_by_entry(one.tag.name)]

    @property
    def emits(self) -> dict[str, Kind]:
        """The columns of results: outputs, then flags."""
        return emitted_columns(self.program, self.optional)

    @property
    def generated(self) -> list[GeneratedFunction]:
        """All functions, for errors of the compiler."""
        updates = [function for one in self.tags for function in one.updates.values()]
        return [*updates, *(function for one in self.forks for function in (one.fork, one.join))]

    def columns_at(self, number: int) -> int:
        """Where the columns of a tag begin among those of all."""
        return sum(len(one.columns) for one in self.tags[:number])

    def parts_at(self, name: str) -> int:
        """Where the parts of a tag begin among those of all."""
        total = 0
        for one in self.tags:
            if one.tag.name == name:
                return total
            total += one.tag.parts
        raise KeyError(name)


def bind(program: Definition, debug: bool = False) -> Bound:
    """Rewrite the functions of a program.

    Raises
    ------
    FunctionError
        With the line of what cannot be compiled.
    """
    texts, memory = texts_in("s"), memory_of_workers(f"(s.nodes[0] + me) * {CLASSES}")
    # An integer that leaves its range ends the run, with or without `debug`: no result is silently wrong.
    options = {"poll": "stopped(c)", "debug": True, "texts": texts, "memory": memory}
    updates = {
        name: {
            number: capture(program.update_of(name, of))
            for number, of in enumerate(program.types)
            if program.may_process(of, [name])
        }
        for name in program.tags
    }
    optional = fields_left_out([one for each in updates.values() for one in each.values()], program.emits)
    emits = emitted_columns(program, optional)
    tags = [
        _bind_tag(
            program, number, one, {of: completed(update, program.emits, optional) for of, update in updates[one.name].items()},
            emits, options,
        )
        for number, one in enumerate(program.tags.values())
    ]  # fmt: skip
    forks = _bind_forks(program, options)
    kinds: list[Kind] = [kind for one in program.tags.values() for kind in one.columns.values()]
    kinds += [*program.emits.values(), *(one.kind for fields in program.types.values() for one in fields.values())]
    has_texts = len(texts.literals) > 1 or any(map(holds_text, kinds))
    return Bound(program, tags, forks, optional, list(texts.literals) if has_texts else [], has_texts)


def _bind_forks(program: Definition, options: Mapping[str, Any]) -> list[BoundFork]:
    """Rewrite forks and joins, by the types of state they are for."""
    if program.fork is not None and program.join is not None:
        fork = _bind_fork(program, "user_fork", program.fork, (program.state,) * 3, options)
        join = specialise(
            program.join,
            name="user_join",
            arguments=("state", "state_other"),
            bindings={"state": bindings(program.state), "state_other": bindings(program.state, "k_other", "owner_other")},
            parameters=JOIN_WORDS,
            ends=("state_other",),
            **options,
        )
        return [BoundFork((0, 0, 0), fork, join)]
    numbers, found = list(program.types), []
    for number, (signature, function) in enumerate(program.forks.items()):
        above, left, right = fields = tuple(program.types[of] for of in signature)
        join = specialise(
            program.joins[signature],
            name=f"user_join_{number}",
            arguments=("state", "state_left", "state_right"),
            bindings={
                "state": bindings(above),
                "state_left": bindings(left, "k_left", "owner_left"),
                "state_right": bindings(right, "k_right", "owner_right"),
            },
            parameters=TYPED_JOIN_WORDS,
            ends=("state_left", "state_right"),
            **options,
        )
        fork = _bind_fork(program, f"user_fork_{number}", function, fields, options)
        found.append(BoundFork(tuple(numbers.index(of) for of in signature), fork, join))
    return found


def _bind_fork(
    program: Definition, name: str, function: Callable, fields: Sequence[Mapping[str, StateField]], options: Mapping[str, Any]
) -> GeneratedFunction:
    return specialise(
        function,
        name=name,
        arguments=("state", "state_left", "state_right", "tags_left", "tags_right"),
        bindings={
            "state": bindings(fields[0]),
            "state_left": bindings(fields[1], "k_left", "owner_left"),
            "state_right": bindings(fields[2], "k_right", "owner_right"),
            "tags_left": _membership(program, "left"),
            "tags_right": _membership(program, "right"),
        },
        parameters=FORK_WORDS,
        ends=("state",),
        **options,
    )


def emitted_columns(program: Definition, optional: Sequence[str]) -> dict[str, Kind]:
    """Outputs and their kinds, then the flags of those that may be left out."""
    return {**program.emits, **{flag_of(name): "bool" for name in optional}}


def _bind_tag(
    program: Definition, number: int, tag: Tag, updates: Mapping[int, CapturedFunction], emits: Mapping[str, Kind],
    options: Mapping[str, Any],
) -> BoundTag:  # fmt: skip
    columns = [Column(name, seen_as(kind)) for name, kind in tag.columns.items()]
    fields: dict[str, Binding] = {"ts": FieldBinding("ts")}
    for column in columns:
        read = f"c_{column.name}[at]"
        valid = f"(m_{column.name} == 0 or view_u8(m_{column.name}, CHUNK)[at] != 0)"
        kind = column.kind if column.kind == "string" else None
        fields[column.name] = FieldBinding(f"{read} != 0" if column.kind == "bool" else read, kind=kind, valid=valid)
    places = "".join(f", {{{place}}}" for place in range(len(emits)))

    types = list(program.types.values())
    written = {
        of: specialise(
            update,
            name=f"user_{number}" if len(types) == 1 else f"user_{number}_{of}",
            arguments=("state", "e", "emit"),
            bindings={"state": bindings(types[of], arena="a"), "e": fields},
            parameters=(*EVENT_WORDS, *(f"{part}_{column.name}" for column in columns for part in ("c", "m"))),
            only_used=True,
            emits=emits,
            emit=f"give(me, o, l, out, i, row, ts{places})",
            # An update that emits is too large for LLVM to inline into the loop over rows by itself, and the call, with all
            # that an event may need, would cost more than most updates do.
            decorator="compiled_user_within",
            **options,
        )
        for of, update in updates.items()
    }
    read = {name for one in written.values() for name in one.reads.get("e", ())}
    if program.is_by_entry(tag.name):
        read.add(tag.by or "")
    used = tuple(column for column in columns if column.name in read)
    in_numbers = {
        of: own for of, one in written.items() if (own := _numbers_of(types[of], one, updates[of])) is not None
    }
    return BoundTag(tag, written, used, in_numbers)


def _numbers_of(
    state: Mapping[str, StateField], function: GeneratedFunction, update: CapturedFunction
) -> tuple[str, ...] | None:
    """The fields that an update reads or assigns. None unless they are numbers, it changes nothing else, and a second call
    with the same numbers does the same."""
    fields = {*function.reads.get("state", ()), *function.writes.get("state", ())}
    if function.impure or function.uses_containers or words_of(state) > MOST_LOCAL_WORDS:
        return None
    return tuple(sorted(fields)) if fields <= {*word_kinds(state)} and emits_nothing(update) else None


def part_text(tag: Tag, key: str) -> str:
    """The text for the part of a keyed tag that a key belongs to."""
    is_text = tag.columns[tag.by or ""] == "string"
    return f"part_of_id(s, {key}, {tag.parts})" if is_text else f"part_of_word({key}, {tag.parts})"


def _membership(program: Definition, side: str) -> Membership:
    """What a fork may ask of the tags of one side."""
    names = {name: f"s.tags_below[{side}, {number}] != 0" for number, name in enumerate(program.tags)}
    keyed, first = {}, 0
    for name, tag in program.tags.items():
        if tag.by is not None:
            kind = "string" if tag.columns[tag.by] == "string" else "number"
            keyed[name] = (kind, f"s.parts_below[{side}, {first} + {part_text(tag, '{key}')}] != 0")
        first += tag.parts
    return Membership(names, keyed, "the tags")
