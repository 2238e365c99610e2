"""What the text of a custom operator's kernels depends on, and where its arrays lie in the operator's state.

Places are indices into the kernels' bundle `s`: PRESENT, TICK_OF, SIDES and
LATEST, then the state fields, then the kept tuples (if any), then the values of
the key that functions read, then the result columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FIELDS = {"int64": "int64", "int32": "int32", "float64": "float64", "float32": "float32", "bool": "uint8"}
"""Kind of a state or result field -> how it is stored."""

@dataclass(frozen=True)
class Column:
    """A column that `update` reads, as one input has it.

    Parameters
    ----------
    parameter : str
        Name of its value among `update`'s parameters; ``n_`` for the validity.
    index : int or None
        Among the store's value columns; None: this input lacks it, so it is null.
    dtype : str
        int64, float64 or uint8 in the store.
    kind : str
        int64, float64 or bool, as the function sees it.
    """

    parameter: str
    index: int | None
    dtype: str
    kind: str


@dataclass(frozen=True)
class Input:
    """One of the I inputs."""

    columns: tuple[Column, ...]
    value_columns: int
    multi_key: bool


@dataclass(frozen=True)
class Function:
    """A rewritten user function to paste.

    Parameters
    ----------
    text : str
        With its imports.
    may_emit : bool
        It needs the time of arrival of its tuple.
    saves : tuple of str
        State fields to save before each call: it may raise after changing them.
    """

    text: str
    may_emit: bool
    saves: tuple[str, ...]


LIST = (("first", "int64", 0), ("last", "int64", 0), ("count", "int64", 0))
"""State fields of a window instance that keeps its tuples."""


@dataclass(frozen=True)
class Stored:
    """What a kept tuple consists of, beside its event time.

    Parameters
    ----------
    columns : tuple of (str, str)
        (name, kind) of what `output` reads; a validity goes with each.
    with_input : bool
        Which input it came from: there are several.
    """

    columns: tuple[tuple[str, str], ...]
    with_input: bool

    def arrays(self) -> list[tuple[str, str]]:
        """(name, dtype) of the arrays by node."""
        pairs = [("ts", "int64"), *([("input", "int64")] if self.with_input else [])]
        for name, kind in self.columns:
            pairs += [(f"c_{name}", FIELDS[kind]), (f"n_{name}", "uint8")]
        return pairs

    @property
    def bytes_per_node(self) -> int:
        return 8 + sum(np.dtype(dtype).itemsize for _, dtype in self.arrays())


@dataclass(frozen=True)
class CustomShape:
    """What the generated text depends on; window sizes are not part of it."""

    state: tuple[tuple[str, str, object], ...]  # (name, kind, first value)
    emits: tuple[tuple[str, str], ...]
    inputs: tuple[Input, ...]
    slots: int
    is_single: bool
    update: Function | None
    output: Function | None
    slide: Function | None
    key_arrays: tuple[str, ...] = ()  # dtypes of key values that kernels read
    stored: Stored | None = None  # then `state` is `LIST` and there is no `update`

    @property
    def is_held_back(self) -> bool:
        """Whether a later tuple may emit for an earlier boundary."""
        return not self.is_single and self.slots > 1


# Places in the kernel's tuple `s`.
PRESENT, TICK_OF, SIDES, LATEST, FIRST_FIELD = range(5)


def field_places(shape: CustomShape) -> dict[str, int]:
    """Where in `s` the array of each state field is."""
    return {name: FIRST_FIELD + i for i, (name, _, _) in enumerate(shape.state)}


def key_place(shape: CustomShape, part: int) -> int:
    """Where in `s` the values of one part of the key are."""
    return FIRST_FIELD + len(shape.state) + _stored_arrays(shape) + part


STORED_FIRST = FIRST_FIELD + len(LIST)
FOLLOWING, BELOW, POOL, OWN, FIRST_OF_NODE = range(STORED_FIRST, STORED_FIRST + 5)
"""Where in `s` the arrays of kept tuples are."""


def node_places(stored_shape: Stored) -> dict[str, int]:
    """Where in `s` the array of each part of a kept tuple is."""
    return {name: FIRST_OF_NODE + i for i, (name, _) in enumerate(stored_shape.arrays())}


def _stored_arrays(shape: CustomShape) -> int:
    """How many arrays the kept tuples take in `s`."""
    return 0 if shape.stored is None else FIRST_OF_NODE - STORED_FIRST + len(shape.stored.arrays())


def first_output(shape: CustomShape) -> int:
    """Where in `s` the result columns begin: the boundary, then what is emitted."""
    return key_place(shape, len(shape.key_arrays))
