"""Results from one operator to the next without a thread in between: what replaces the collector, where `ways` decides so.

Each instance is a source of the next operator's gate, whose readers read the rows where they were written (`passing_kernel`).
The operator before has a `Passed` in place of a collector. The next one has a `PassedInlet` in place of an inlet, with
`PassedBooks`, which the instances keep, and a `PassedRows` for each instance in place of a store.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from headrace.codegen.called import Bound
from headrace.egress.rings import ELSEWHERE, OutArrays
from headrace.elastic.compiled import Exact
from headrace.elastic.kept_rows_kernel import (
    BEGINS,
    CONSTANT,
    HOLDS,
    KEPT_AS,
    KINDS,
    OTHER,
    OTHER_VALID,
    VALID,
    VALUES,
    WORDS,
)
from headrace.elastic.passed_steps import Between
from headrace.elastic.passing_kernel import PassingArrays
from headrace.gates.membership_kernel import NOTHING
from headrace.ingress.store import CHUNK, FIRST_VALUE, KEYS, OFFSETS, TS, directory_width
from headrace.memory.atomics import CELL
from headrace.memory.cells import padded_cells, publish_cell, read_cells, reserved
from headrace.metrics.latency import BINS, LatencyHistogram
from headrace.plan.nodes import Branch
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.runtime.inlets import Books
from headrace.workers import worker_kernel

_LATEST = 1 << 12
"""How many of an instance's latest keys `hot_keys` looks at."""
_NO_RANKS = np.zeros((0, 0), np.int64)


class PassedRows:
    """The rows that one instance of the operator before passes on, as the store of a source.

    Parameters
    ----------
    columns : dict of str to dtype
        The columns that kernels read.
    directory : ndarray
        This source's part of the directory, which `lie_in` writes.
    """

    multi_key = False
    held_bytes = 0
    payload = ()

    def __init__(self, columns: dict[str, np.dtype], directory: np.ndarray):
        self.names, self.width = list(columns), directory_width(len(columns))
        self._directory = directory
        self._ts = np.zeros(0, np.int64)
        self._values: list[tuple[np.ndarray, np.ndarray | None]] = []

    def lie_in(self, ts: np.ndarray, keys: np.ndarray, values: list[tuple[np.ndarray, np.ndarray | None]]) -> None:
        """Set where the rows are: arrays as long as the ring; `keys` may be a single chunk that stands for all."""
        self._ts, self._values = ts, values
        for number in range(len(ts) // CHUNK):
            at, first = number * self.width, number * CHUNK
            entry = self._directory[at : at + self.width]
            entry[TS], entry[OFFSETS] = ts[first:].ctypes.data, 0
            entry[KEYS] = (keys if len(keys) == CHUNK else keys[first:]).ctypes.data
            for i, (column, valid) in enumerate(values):
                entry[FIRST_VALUE + 2 * i] = column[first:].ctypes.data
                entry[FIRST_VALUE + 2 * i + 1] = 0 if valid is None else valid[first:].ctypes.data

    def ts_of(self, row: int) -> int:
        """The event time of a row that some reader has not passed."""
        return int(self._ts[row])

    def column(self, name: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The values of such rows in a column that kernels read, and which are not null, if some are."""
        values, valid = self._values[self.names.index(name)]
        return values[rows], None if valid is None else valid[rows]

    def release(self, horizon: int) -> None:
        """Nothing to do: a row is free once all readers have passed it."""


class PassedBooks(Books):
    """Counts of the input, kept by the instances of the operator before."""

    def __init__(self, passed: Passed):
        self._passed = passed
        super().__init__()

    @property
    def added(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._passed.kept

    @added.setter
    def added(self, rows: int) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Ignored: the instances count."""

    @property
    def adding(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        left_out = self._passed.left_out  # first: `added` + `adding` must not be less than what the gate has been given
        return max(0, self._passed.rows - left_out - self._passed.kept)

    @adding.setter
    def adding(self, rows: int) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Ignored: the instances count."""

    @property
    def filtered(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._passed.left_out

    @filtered.setter
    def filtered(self, rows: int) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Ignored: the instances count."""


class PassedInlet:
    """The inlet for results that another operator passes on: a `headrace.runtime.inlets.Inlet` that no thread feeds."""

    number = 0
    null_keys = 0
    columns_used = ()
    codable = ()
    retention = 0

    def __init__(self, branch: Branch, passed: Passed):
        self.branch, self._passed = branch, passed
        self.books = PassedBooks(passed)

    @property
    def latest_keys(self) -> np.ndarray:
        """int32[k]: keys of the latest rows."""
        return self._passed.latest_keys()

    @property
    def mark(self) -> int:
        """The promise in force."""
        return self._passed.watermark

    def compile(self) -> None:
        """Nothing to do: the instances of the operator before add its input."""

    def let_go(self) -> None:
        """Remove the references back to it."""
        vars(self.books).clear()

    def encode(self, batch: Any, ts: Any = None) -> Any:
        raise NotImplementedError("results are passed on by the operator's instances")

    hold = offer = promise = close = encode


def _why_null(field: Exact) -> tuple[str, str]:
    """The state fields that tell where a result is null: its count of values, and its values if NaN is null too, else ""."""
    return field.known, field.value if field.skips_nan else ""


def _comparisons(section: Any, middle: Between, nulls: list[tuple[str, str]]) -> np.ndarray:
    """int64[comparisons, WORDS]: the conditions of a filter, as `kept_rows_kernel` reads them; `nulls`: rows of `valid`."""
    exact, found = section.compiled.exact_results(), np.zeros((len(middle.conditions), WORDS), np.int64)
    for words, condition in zip(found, middle.conditions, strict=True):
        words[OTHER_VALID] = -1
        for name, (address, known) in zip(condition.columns, ((VALUES, VALID), (OTHER, OTHER_VALID)), strict=False):
            field = exact[name]
            values = getattr(section.state, field.value)
            assert (values.dtype.kind == "f") == condition.is_float, f"{name!r} is kept as {values.dtype}"
            words[address], words[KEPT_AS] = values.ctypes.data, KINDS[values.dtype.name]  # two of one type are kept alike
            words[known] = nulls.index(_why_null(field)) if field.known else -1
        words[HOLDS], words[CONSTANT] = condition.holds, condition.constant
        words[BEGINS] = condition.begins
    return found


def take_over(rings: OutArrays, takes: Bound) -> None:
    """Have the rings' kernels call this one in a collector's place."""
    kernel, arrays = takes.addresses
    publish_cell(rings.words, ELSEWHERE + 1, arrays)
    publish_cell(rings.words, ELSEWHERE, kernel)


class Passed:
    """What a section that passes its results on has in place of a collector: counts, latency and watermark.

    Parameters
    ----------
    section : ElasticSection
        Whose results are passed on.
    following : ElasticSection
        The operator that takes them; its gate has a source for each instance.
    rings : OutArrays
        The section's rings; where it has several takers, with a `tail` for this one.
    """

    def __init__(self, section: Any, following: Any, rings: OutArrays):
        out, gate, state, ranks = rings, following.gate, section.state, section.compiled.ranks
        instances, capacity = out.primary.shape
        reads_keys = following.dictionary is not None
        exact, middle = section.compiled.exact_results(), following.way.between
        fields = [exact[middle.names[name]] for name in following.compiled.values_of(0)]
        looked_at = [*fields, *(exact[name] for condition in middle.conditions for name in condition.columns)]
        nulls = list(dict.fromkeys(_why_null(field) for field in looked_at if field.known))
        told = padded_cells(instances)
        told[:] = MIN_TIME
        self._has_gaps = bool(middle.conditions)
        self.arrays = PassingArrays(
            gate=gate,
            rings=out,
            row_times=getattr(state, section.compiled.time_field) if section.compiled.time_field else out.primary,
            sent=padded_cells(instances),
            kept_count=padded_cells(instances),
            left_count=padded_cells(instances),
            kept_row=reserved(instances * capacity * self._has_gaps, np.int64).reshape(instances, -1),
            comparisons=_comparisons(section, middle, nulls),
            told=told,
            keys=following.passed_keys(instances, capacity),
            ids=np.zeros(0, np.int32) if following.key_ids is None else following.key_ids.ids,
            ranks=_NO_RANKS if ranks is None else ranks.by_id,
            row_ranks=gate.rank if following.way.by_content else _NO_RANKS,
            known=np.array([getattr(state, known).ctypes.data for known, _ in nulls], np.int64),
            numbers=np.array([getattr(state, value).ctypes.data if value else 0 for _, value in nulls], np.int64),
            valid=np.zeros((len(nulls), instances * capacity), np.uint8),
            latency=np.zeros((instances, BINS), np.int64),
            longest=padded_cells(instances),
            stop=section.arrays.words[worker_kernel.STOP :],
        )
        self._taker = following.taker
        self._no_keys = np.zeros(CHUNK, np.int32)
        for r, rows in enumerate(following.stores):
            values = []
            for field in fields:
                valid = None
                if field.known:
                    valid = self.arrays.valid[nulls.index(_why_null(field)), r * capacity : (r + 1) * capacity]
                values.append((getattr(state, field.value)[r], valid))
            rows.lie_in(self.arrays.row_times[r], self.arrays.keys[r] if reads_keys else self._no_keys, values)
        self.finished = threading.Event()
        self._takes: Bound | None = None

    def compile(self) -> None:
        """Compile the kernel that takes the results, and have the rings' kernels call it from now on."""
        self._takes = Bound(self._taker, self.arrays, (0, 0, 0, 0))
        take_over(self.arrays.rings, self._takes)

    def begin(self, members: tuple[int, ...]) -> None:
        """Make these members the only sources of the gate; called before anything runs."""
        gate = self.arrays.gate
        for r in range(len(gate.feeding) // CELL):
            if r not in members:
                publish_cell(gate.feeding, r * CELL, 0)
                publish_cell(gate.mark, r * CELL, NOTHING)

    @property
    def rows(self) -> int:
        """Results so far."""
        return int(read_cells(self.arrays.rings.head).sum())

    @property
    def sent(self) -> int:
        """Of these, those that the gate has taken or a filter has left out."""
        return int(read_cells(self.arrays.sent).sum())

    @property
    def kept(self) -> int:
        """Of these, those that the gate has taken."""
        return int(read_cells(self.arrays.kept_count).sum()) if self._has_gaps else self.sent

    @property
    def left_out(self) -> int:
        """Of these, those that a filter has left out."""
        return int(read_cells(self.arrays.left_count).sum())

    @property
    def unreleased(self) -> int:
        """Results that the gate has not taken yet."""
        sent = self.sent
        return max(0, self.rows - sent)

    @property
    def latency(self) -> LatencyHistogram:
        """From the arrival of the tuple that made a result ready until the next operator had it."""
        return LatencyHistogram(read_cells(self.arrays.latency, 1).sum(axis=0), int(read_cells(self.arrays.longest).max()))

    @property
    def watermark(self) -> int:
        """Event time up to which all results have been passed on."""
        gate = self.arrays.gate
        told, feeding = read_cells(self.arrays.told), read_cells(gate.feeding)
        marks = read_cells(gate.mark)
        if len(marks) > 1 and (marks > END_OF_TIME).all():
            return END_OF_TIME
        return int(told[feeding != 0].min(initial=END_OF_TIME))

    def latest_keys(self) -> np.ndarray:
        """int32[k]: keys of each instance's latest rows."""
        keys, capacity = self.arrays.keys, self.arrays.rings.primary.shape[1]
        if not keys.size:
            return np.zeros(0, np.int32)
        ends = read_cells(self.arrays.kept_count if self._has_gaps else self.arrays.sent).tolist()
        places = [np.arange(max(0, end - _LATEST), end) & (capacity - 1) for end in ends]
        if self._has_gaps:
            numbers = read_cells(self.arrays.kept_row, 1)
            places = [numbers[r, at] & (capacity - 1) for r, at in enumerate(places)]
        return np.concatenate([keys[r, at] for r, at in enumerate(places)])


__all__ = ["Passed", "PassedInlet", "PassedRows", "take_over"]
