"""What the text of a custom operator's kernels depends on, and the names of its state.

Fields of the kernels' bundle `s`::

    present[place]      whether there is a window instance
    latest[key]         event time of its latest tuple, with one instance per key
    tick_of[instance]   its ticks
    input_of[source]    the operator's input that a source belongs to
    state_x[place]      the user's field x: for a string its id, for a container the
                        HEAD words of its head, for an array its words
    list_first[place], list_last[place], list_count[place]
                        the list of tuples that a window instance keeps: first node, last node, number
    following ... own   the pool of nodes, where windows keep their tuples (`memory.stored`)
    kept_ts[node], kept_input[node], kept_c_x[node], kept_n_x[node]
                        a kept tuple's time, its input, the value of column x, and whether that is not null
    key_0[key], ...     the parts of the key, where functions read it
    text_prefixes, text_addresses, text_lengths, text_points, text_held
                        by id of a string, where there are any: `OrderedTexts`
    text_literals[n]    the id of a literal of the functions; the empty string has id 0
    arena, arena_free   the arena of containers (`memory.arena`), where there are any; a key's
                        bucket is their owner
    temporaries         for each instance, heads of containers that last for one call
    counts_x            columns of the results: the number of words of an emitted container
    boundary, out_x     columns of the results
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.codegen.kinds import Array, Container, Kind, scalar


def dtype_of(kind: Kind) -> str:
    """Dtype of a field of the state or of the results; containers are stored as words."""
    known = scalar(kind)
    return "int64" if known is None else known.dtype


@dataclass(frozen=True)
class Column:
    """A column that `update` reads, as it is in one input.

    Parameters
    ----------
    parameter : str
        Name of its value among `update`'s parameters; the validity has ``n_`` as prefix.
    index : int or None
        Its index among the store's value columns; None: this input lacks it, so it is null.
    dtype : str
        In the store: int64, float64 or uint8.
    kind : str
        int64, float64, bool or string, as the function sees it.
    """

    parameter: str
    index: int | None
    dtype: str
    kind: str


@dataclass(frozen=True)
class Input:
    """One of the operator's I inputs."""

    columns: tuple[Column, ...]
    value_columns: int
    multi_key: bool


@dataclass(frozen=True)
class Function:
    """A rewritten user function, to be pasted into the module.

    Parameters
    ----------
    text : str
        Its text, with its imports.
    may_emit : bool
        It may emit, so it needs the arrival time of its tuple.
    saves : tuple of str
        State fields to save before each call: it may raise after changing them.
    """

    text: str
    may_emit: bool
    saves: tuple[str, ...]


@dataclass(frozen=True)
class Stored:
    """The fields of a kept tuple, beside its event time.

    Parameters
    ----------
    columns : tuple of (str, str)
        (name, kind) of the columns that functions read; each has a validity.
    with_input : bool
        It also has the number of its input, because there are several.
    """

    columns: tuple[tuple[str, str], ...]
    with_input: bool

    def arrays(self) -> list[tuple[str, str]]:
        """(name, dtype) of the arrays by node."""
        pairs = [("ts", "int64"), *([("input", "int64")] if self.with_input else [])]
        for name, kind in self.columns:
            pairs += [(f"c_{name}", dtype_of(kind)), (f"n_{name}", "uint8")]
        return pairs

    @property
    def bytes_per_node(self) -> int:
        return 8 + sum(np.dtype(dtype).itemsize for _, dtype in self.arrays())


@dataclass(frozen=True)
class CustomShape:
    """What the generated text depends on; window sizes are not part of it."""

    state: tuple[tuple[str, Kind, object], ...]  # (name, kind, first value)
    emits: tuple[tuple[str, Kind], ...]
    inputs: tuple[Input, ...]
    slots: int
    is_single: bool
    update: Function | None
    output: Function | None
    slide: Function | None
    key_arrays: tuple[str, ...] = ()  # dtypes of key values that kernels read
    stored: Stored | None = None  # what is kept of a tuple, after the call of `update` if there is one
    purges: bool = True  # kept tuples that lie before the window are removed automatically
    is_local: bool = False  # windows are of days of a time zone
    holds_texts: bool = False  # state that outlives the windows of its tuples may hold strings
    has_arena: bool = False  # there are containers in the state, or functions make some

    @property
    def results(self) -> dict[str, str]:
        """Fields of `s` that are columns of the results, and their dtypes."""
        values = {out_field(name): dtype_of(kind) for name, kind in self.emits}
        return {"boundary": "int64"} | values | {counts_field(name): "int64" for name, _ in self.lists}

    @property
    def lists(self) -> list[tuple[str, Container]]:
        """Emitted columns of variable length: lists, sets and maps, and arrays, which become lists."""
        return [(name, kind) for name, kind in self.emits if isinstance(kind, Container)]

    @property
    def containers(self) -> list[tuple[str, Container]]:
        """Fields of the state that are containers with a head."""
        return [(name, kind) for name, kind, _ in self.state if isinstance(kind, Container) and not isinstance(kind, Array)]

    @property
    def emits_on_tuple(self) -> bool:
        """Whether `update` may emit."""
        return self.update is not None and self.update.may_emit

    @property
    def is_held_back(self) -> bool:
        """Whether a result waits until event time has passed its boundary.

        It has to if a later tuple may emit for an earlier boundary; elsewhere an instance's results are in order of event time
        as it writes them, and can be passed on (`elastic.ways`). It may as well if only `output` emits, which is called then.
        """
        return (not self.is_single and self.slots > 1) or not self.emits_on_tuple


LIST_FIELDS = ("list_first", "list_last", "list_count")
"""Fields of the list of a window instance that keeps its tuples."""

POOL_FIELDS = ("following", "below", "pool", "own")
"""The arrays of `memory.stored`."""

ARENA_FIELDS = ("arena_free", "arena")
"""The arrays of `memory.arena`."""


def state_field(name: str) -> str:
    """Field of `s` that holds a field of the window instances."""
    return f"state_{name}"


def key_field(part: int) -> str:
    """Field of `s` that holds a part of the key, by key id."""
    return f"key_{part}"


def node_field(name: str) -> str:
    """Field of `s` that holds, by node, a part of a kept tuple, as `Stored.arrays` calls it."""
    return f"kept_{name}"


def out_field(name: str) -> str:
    """Field of `s` that is a column of the results."""
    return f"out_{name}"


def counts_field(name: str) -> str:
    """Field of `s` that is a column of the results: the number of words of an emitted container."""
    return f"counts_{name}"


def fields_by_key(shape: CustomShape) -> list[str]:
    """Fields of `s` with an element per key and window slot; `present` first."""
    latest = ["latest"] if shape.is_single else []
    kept = LIST_FIELDS if shape.stored is not None else ()
    return ["present", *latest, *kept, *(state_field(name) for name, kind, _ in shape.state if isinstance(kind, str))]


def node_fields(stored: Stored) -> list[str]:
    """Fields of `s` with an element per node, beside the pool's own."""
    return [node_field(name) for name, _ in stored.arrays()]
