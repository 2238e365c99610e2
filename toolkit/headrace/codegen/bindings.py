"""What the names in a user function stand for in the kernel it becomes part of, and the functions rewritten so far."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.codegen.capture import CapturedFunction
from headrace.codegen.kinds import Container, Kind
from headrace.codegen.text import attributes, is_attribute, python_name
from headrace.memory.arena import HEAD


def widened(text: str, kind: str) -> str:
    """Return an expression that widens a 32-bit number to 64 bits; any other as it is."""
    wide = {"int32": "np.int64", "float32": "np.float64"}.get(kind)
    return text if wide is None else f"{wide}({text})"


@dataclass(frozen=True)
class FieldBinding:
    """What an attribute of a parameter stands for.

    Attributes
    ----------
    read : str
        Expression for its value, such as ``"c_flag[row] != 0"``.
    write : str or None
        Target of an assignment, such as ``"s_chars[slot]"``; None: read-only.
    kind : str or None
        int64, int32, float64, float32 or bool: assigned values are checked. "string", "list of strings" or "list of numbers".
    valid : str or None
        Condition, for values that may be null: ``t.x is None`` becomes its
        negation, and using a null value raises.
    unasked : str or None
        Why the function may not test whether it is null.
    """

    read: str
    write: str | None = None
    kind: str | None = None
    valid: str | None = None
    unasked: str | None = None


@dataclass(frozen=True)
class Unreadable:
    """An attribute or parameter that cannot be used, and the reason."""

    reason: str
    is_absent: bool = False
    """It is not there, and the reason says how to have it; otherwise it exists."""


def unnamed(columns: Iterable[str], event_time: str) -> dict[str, Unreadable]:
    """Return the columns that no attribute can stand for, such as ``class``: errors say to rename them.

    The event time is none of them, as functions can read it as ``t.ts``.
    """
    names = [name for name in columns if name != event_time and not is_attribute(python_name(name))]
    return {name: Unreadable(f"no name in Python; {rename_before(name)}", is_absent=True) for name in names}


def rename_before(column: str, which: str = "it") -> str:
    """Say how to rename a column whose name functions cannot write."""
    return f"rename {which} before, as in select(..., x={column!r})"


def event_time_binding(*inputs: tuple[Iterable[str], str]) -> FieldBinding | Unreadable:
    """Return what ``t.ts`` stands for: the event time, unless an input has a column of this name that is not its event time.

    Parameters
    ----------
    inputs : (columns, event time) of each input
    """
    for columns, event_time in inputs:
        named = attributes(columns)
        if named.get("ts", event_time) != event_time:
            own = "".join(f"read the event time as .{name}, or " for name, column in named.items() if column == event_time)
            return Unreadable(f"it could be the event time, {event_time!r}, or the column 'ts': {own}rename the column before")
    return FieldBinding("ts")


@dataclass(frozen=True)
class ListBinding:
    """What an attribute that holds tuples stands for: a linked list of nodes.

    ``for t in state.tuples`` walks it, ``len(state.tuples)`` counts it, and
    ``state.tuples = [t for t in state.tuples if ...]`` removes tuples from it. In
    `following`, `drop` and in the texts of `fields`, ``{node}`` stands for the node.

    Attributes
    ----------
    role : str
        Role under which the fields read are recorded.
    first : str
        Expression for the first node; 0: there is none.
    following : str
        Expression for the next node.
    count : str
        Expression for the number of nodes.
    drop : str
        Expression that removes the node after ``{before}`` (0: none) and puts it in front of ``{dropped}``, the list of
        removed nodes; its value is the new first node of that list.
    give : str
        Statement for ``{dropped}`` when no more nodes are removed.
    fields : dict
        Field of a tuple -> binding.
    """

    role: str
    first: str
    following: str
    count: str
    drop: str
    give: str
    fields: Mapping[str, FieldBinding | Unreadable]

    def texts(self) -> list[str]:
        """Return all its expressions."""
        fields = [field for field in self.fields.values() if isinstance(field, FieldBinding)]
        own = [self.first, self.following, self.count, self.drop, self.give]
        return [*own, *(f.read for f in fields), *(f.valid or "" for f in fields)]

    def of(self, node: str) -> dict[str, FieldBinding | Unreadable]:
        """Return the fields of the tuple at a node."""
        return {
            name: field
            if isinstance(field, Unreadable)
            else FieldBinding(
                field.read.replace("{node}", node), valid=field.valid and field.valid.replace("{node}", node)
            )
            for name, field in self.fields.items()
        }


@dataclass(frozen=True)
class ContainerBinding:
    """What an attribute that holds a list, a set, a map or an array stands for.

    Attributes
    ----------
    kind : ListOf, SetOf, MapOf or Array
    heads : str
        The int64 array with the container's head (`headrace.memory.lists_kernel`); for an array, with its words.
    at : str
        Position in it of the head, or of the array's first word.
    lists : str
        Position of its owner's free lists in the arena.
    """

    kind: Container
    heads: str
    at: str
    lists: str


@dataclass(frozen=True)
class Memory:
    """The memory in which the containers of a kernel live, as expressions.

    Attributes
    ----------
    arena, free : str
        The arena's words, and its free lists (`headrace.memory.arena`).
    temporaries : str
        Heads of containers that last for one call, such as ``sorted(state.words)``.
    temporary_at : str
        Position of one of them; ``{number}`` stands for its number, below `most`.
    temporary_lists : str
        Position of their owner's free lists.
    staged : str
        An int64 expression of ``{heads}``, ``{at}`` and ``{width}`` that takes a container into a result.
    most : int
    """

    arena: str
    free: str
    temporaries: str
    temporary_at: str
    temporary_lists: str
    staged: str
    most: int


TEXT_FIELDS = ("text_prefixes", "text_addresses", "text_lengths", "text_points")
"""Fields of a bundle with the arrays of an `OrderedTexts`, by id of a string."""
HELD_FIELD = "text_held"
"""The field that kernels write: when a state last held each string."""
LITERALS = "text_literals"
"""The field with the ids of the literals in functions."""
NO_TEXT = ""
"""The first literal, so its id is 0: a string field that begins as zero is an empty string."""
TEMPORARIES = 32
"""How many temporary containers a function may make."""


@dataclass(frozen=True)
class Texts:
    """How a kernel represents strings: by ids, which are equal for equal strings.

    Attributes
    ----------
    prefixes, addresses, lengths : str
        The arrays by which `text_less` orders ids.
    points : str
        The array of their lengths in code points.
    literal : str
        Expression for the id of a literal; ``{number}`` stands for its place in `literals`.
    literals : list of str
        Literals that functions use; the list grows while they are rewritten.
    """

    prefixes: str
    addresses: str
    lengths: str
    points: str
    literal: str
    literals: list[str] = field(default_factory=list)

    @property
    def order(self) -> str:
        """Arguments for kernels that compare the order of ids."""
        return f"{self.prefixes}, {self.addresses}, {self.lengths}"

    def number_of(self, text: str) -> int:
        """Return the place of a literal."""
        if text not in self.literals:
            self.literals.append(text)
        return self.literals.index(text)


def texts_in(bundle: str) -> Texts:
    """Return how kernels represent strings whose arrays and literals are in a bundle; `NO_TEXT` is the first literal.

    Examples
    --------
    >>> texts_in("s").order
    's.text_prefixes, s.text_addresses, s.text_lengths'
    """
    arrays = (f"{bundle}.{name}" for name in TEXT_FIELDS)
    return Texts(*arrays, literal=f"{bundle}.{LITERALS}[{{number}}]", literals=[NO_TEXT])


def memory_of_workers(lists: str, arena: str = "s.arena", staged: str = "np.int64(0)") -> Memory:
    """Return the memory of containers where workers share an arena and each worker `me` has temporaries of its own.

    Parameters
    ----------
    lists : str
        Position of the free lists for a worker's temporaries.
    arena, staged : str
        As in `Memory`; the free lists are beside the arena.
    """
    return Memory(
        arena=arena,
        free=f"{arena}_free",
        temporaries="s.temporaries",
        temporary_at=f"(me * {TEMPORARIES} + {{number}}) * {HEAD}",
        temporary_lists=lists,
        staged=staged,
        most=TEMPORARIES,
    )


@dataclass(frozen=True)
class Membership:
    """What ``name in parameter`` and ``(name, key) in parameter`` stand for: the parameter has no other use.

    Attributes
    ----------
    names : dict
        Name, a string literal -> condition.
    keyed : dict
        Name -> the kind of its keys, "string" or "number", and the condition, in which ``{key}`` stands for the key.
    what : str
        Description of the parameter for messages: "the tags".
    """

    names: Mapping[str, str]
    keyed: Mapping[str, tuple[str, str]]
    what: str

    def texts(self) -> list[str]:
        """Return all its conditions."""
        return [*self.names.values(), *(text for _, text in self.keyed.values())]


Binding = FieldBinding | ListBinding | ContainerBinding | Unreadable


@dataclass(frozen=True)
class Opened:
    """A name that stands for a row of a table: assigning a key to the name opens the row.

    Attributes
    ----------
    role : str
        Role of its fields: a key of the host's objects. If it begins with "state", they can be written.
    text : str
        Statements that find the row; ``{key}`` stands for the key.
    key : str
        "string" or "number".
    """

    role: str
    text: str
    key: str = "number"


@dataclass(frozen=True)
class HostKernel:
    """Everything that the rewriting of a user function needs to know of the kernel around it."""

    name: str
    objects: Mapping[str, Mapping[str, Binding]]
    values: Mapping[str, str | Unreadable]
    emits: Mapping[str, Kind | None] | None
    emit: str
    left_out: Mapping[str, str]
    """The last fields of an emission, which are given by name only -> the expression for one that is left out."""
    hints: Mapping[str, str]
    """Fields of an emission, existing or not -> advice where one is missing, or given."""
    parameters: tuple[str, ...]
    poll: str | None
    returns: str | None
    decorator: str
    debug: bool = False
    memory: Memory | None = None
    texts: Texts | None = None
    kinds: Mapping[str, Any] = field(default_factory=dict)
    """Role of a single value -> its kind, if it is a string or a tuple that contains one."""
    rows: Mapping[str, Opened] = field(default_factory=dict)
    """Names in the function that stand for rows of tables."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Names in the function, beside its parameters, that stand for an object with fields -> role."""
    asked: Mapping[str, Membership] = field(default_factory=dict)
    """Role of a parameter that is used only in ``in`` tests -> what they mean."""
    ends: tuple[str, ...] = ()
    """Roles of states that end with the call, whose containers may be handed over."""
    only_used: bool = False
    """Leave out parameters that the function does not use."""

    def taken_names(self) -> set[str]:
        """Names that locals must not take."""
        texts = [*self.parameters, self.emit, self.poll or "", "np math random", self.name]
        for bindings in self.objects.values():
            for binding in bindings.values():
                if isinstance(binding, FieldBinding):
                    texts += [binding.read, binding.write or "", binding.valid or ""]
                elif isinstance(binding, ListBinding):
                    texts += binding.texts()
                elif isinstance(binding, ContainerBinding):
                    texts += [binding.heads, binding.at, binding.lists]
        texts += [text for text in self.values.values() if isinstance(text, str)]
        texts += [row.text for row in self.rows.values()]
        texts += [text for one in self.asked.values() for text in one.texts()]
        for part in (self.memory, self.texts):
            texts += [] if part is None else [text for text in vars(part).values() if isinstance(text, str)]
        return set(re.findall(r"[A-Za-z_]\w*", " ".join(texts)))


@dataclass
class Written:
    """The functions written so far, helpers before those that call them."""

    host: HostKernel
    parameters: tuple[str, ...] = ()
    """Parameters of the generated function."""
    chunks: list[str] = field(default_factory=list)
    lines: list[tuple[CapturedFunction, int] | None] = field(default_factory=list)
    markers: dict[str, CapturedFunction] = field(default_factory=dict)
    helpers: dict[tuple, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    reads: dict[str, set[str]] = field(default_factory=dict)
    writes: dict[str, set[str]] = field(default_factory=dict)
    checks: set[str] = field(default_factory=set)
    number_checks: set[str] = field(default_factory=set)
    """Imports of the functions that replace operations on numbers."""
    kept: set[str] = field(default_factory=set)
    """Kernels of `headrace.codegen.containers.kernel` that are called."""
    turns: dict[str, int] = field(default_factory=dict)
    """Name of a function -> loop iterations without a poll in a call of it, as `rewriting.polls` counts them."""
    temporaries: int = 0
    """Number of temporary lists."""
    returned: dict[tuple, Any] = field(default_factory=dict)
    """Static kinds that helpers return, by how they are called; `Inference` fills it."""
    impure: set[str] = field(default_factory=set)
    expression: str | None = None
