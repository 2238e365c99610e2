"""Random queries and inputs, with few compiled shapes: what the oracle and the schedules run.

A `Shape` is what an operator compiles to: aggregates, windows per tuple, one key
or a set of them for each tuple. Everything else is drawn anew for each `Workload`:
rows (negative times, ties, nulls, NaN, empty key lists), sources, window sizes,
which columns are the key. `expected` is what `headrace.reference` makes of it.
"""

from __future__ import annotations

import contextlib
import math
import random
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings

import headrace as hr
from headrace import reference
from headrace.errors import RunStoppedError
from headrace.kernel import JIT
from headrace.references import BUCKETS
from headrace.windows import Window

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("k", pa.string()),
        ("n", pa.int32()),
        ("f", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("nums", pa.list_(pa.int64())),
        ("home", pa.string()),
        ("away", pa.string()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float32()),
        ("flag", pa.bool_()),
    ]
)

SINGLE_KEYS = ("none", "text", "number", "float", "composite")
MULTI_KEYS = ("tags", "numbers", "any", "product", "droppable")

_TEXTS = ["", "a", "b", "B", "ab", "é", "日本", "z" * 11, "z" * 11 + "a", "\U0001f600"]


SEEDED = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
"""For tests that draw a seed: a smaller seed is no smaller example, so nothing is shrunk."""


def examples(count: int) -> int:
    """How many examples a property gets: a third in plain Python, which is slow; `make campaign` compiles `logic` tests."""
    return count if JIT else -(-count // 3)


@dataclass(frozen=True)
class Shape:
    """What is compiled of a query.

    Parameters
    ----------
    name : str
    aggregates : dict
        Result name -> (kind, column or None), as the reference takes them.
    slots : int
        Windows a tuple can fall into: ceil(WS / WA).
    multi : bool
        A tuple has a set of keys.
    gate : str
    ignore_nan : bool
        For min and max.
    mode : str
    """

    name: str
    aggregates: dict[str, tuple[str, str | None]]
    slots: int
    multi: bool
    gate: str = "log"
    ignore_nan: bool = False
    mode: str = "vsn"
    input_order: str = "merged"

    def __str__(self) -> str:
        return self.name

    def built(self) -> dict[str, Any]:
        """The aggregates as the public interface takes them."""
        made = {}
        for name, (kind, column) in self.aggregates.items():
            function = getattr(hr, kind)
            if column is None:
                made[name] = function()
            elif kind in ("min", "max"):
                made[name] = function(column, ignore_nan=self.ignore_nan)
            else:
                made[name] = function(column)
        return made


def _every(column: str) -> dict[str, tuple[str, str | None]]:
    kinds = ("count", "sum", "min", "max", "mean", "first", "last")
    return {f"{kind}_{column}": (kind, column) for kind in kinds}


COUNT: dict[str, tuple[str, str | None]] = {"n_tuples": ("count", None)}

IN_ANY_ORDER: dict[str, tuple[str, str | None]] = {
    **{name: how for name, how in _every("v").items() if how[0] not in ("first", "last")},
    **COUNT,
    "known": ("count", "x"),
    "yes": ("sum", "flag"),
}
"""The aggregates that `start(input_order="arrival")` accepts."""

SHAPES = (
    Shape("count, one window", COUNT, 1, False),
    Shape("count, two windows, sets of keys", COUNT, 2, True),
    Shape("count, seven windows", COUNT, 7, False),
    Shape("count, seven windows, sets of keys", COUNT, 7, True),
    Shape("integers, two windows", {**COUNT, **_every("v")}, 2, False),
    Shape("floats, three windows, sets of keys", {**_every("x"), **COUNT}, 3, True),
    Shape("floats without NaN, one window", _every("x"), 1, False, ignore_nan=True),
    Shape(
        "mixed columns, two windows, sets of keys",
        {"top": ("max", "v"), "total": ("sum", "y"), **COUNT, "least": ("min", "x"), "yes": ("sum", "flag")},
        2,
        True,
    ),
    Shape("count, two windows, sets of keys, skip list", COUNT, 2, True, gate="scalegate"),
    Shape("floats, three windows, sets of keys, skip list", {**_every("x"), **COUNT}, 3, True, gate="scalegate"),
    Shape("count, two windows, sets of keys, shared nothing", COUNT, 2, True, mode="sn"),
    Shape("integers, two windows, shared nothing", {**COUNT, **_every("v")}, 2, False, mode="sn"),
    Shape("integers, two windows, sets of keys, as they come", IN_ANY_ORDER, 2, True, input_order="arrival"),
    Shape("count, seven windows, as they come", COUNT, 7, False, input_order="arrival"),
    Shape("integers, one window, as they come", IN_ANY_ORDER, 1, False, input_order="arrival"),
)
IN_PLAIN_PYTHON = (
    "count, seven windows, sets of keys",
    "floats without NaN, one window",
    "count, seven windows",
    "count, two windows, sets of keys, skip list",
    "floats, three windows, sets of keys, skip list",
    "integers, two windows, shared nothing",
    "count, seven windows, as they come",
    "integers, one window, as they come",
)
"""Shapes that differ from others only in the gate, the mode, the input order, NaN or the number of windows."""
SHAPE_CASES = [pytest.param(shape, marks=pytest.mark.logic if shape.name in IN_PLAIN_PYTHON else ()) for shape in SHAPES]


@dataclass
class Workload:
    """One input and one query."""

    shape: Shape
    seed: int
    sources: list[list[dict[str, Any]]]
    window: Window
    keys: str
    _expected: list[tuple] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        rows = [len(source) for source in self.sources]
        return f"Workload({self.shape.name!r}, seed={self.seed}, rows={rows}, {self.window}, keys={self.keys!r})"

    @property
    def rows(self) -> int:
        return sum(len(source) for source in self.sources)

    def tables(self) -> list[pa.Table]:
        """One table for each source."""
        return [pa.Table.from_pylist(source, SCHEMA) for source in self.sources]

    def query(self, inputs: list[Any] | None = None, **options: Any) -> hr.Stream:
        """The query over these inputs (the workload's own tables by default)."""
        stream = hr.stream(self.tables() if inputs is None else inputs, event_time="ts", **options)
        return _keyed(stream, self.keys).window(self.window.size, self.window.advance).aggregate(
            **self.shape.built()
        )

    @property
    def options(self) -> dict[str, Any]:
        """Options of `start` with which this shape is compiled."""
        return {"gate": self.shape.gate, "mode": self.shape.mode, "input_order": self.shape.input_order}

    def expected(self) -> list[tuple]:
        """The reference's rows, as `bits`."""
        if self._expected is None:
            keys, null_keys = _reference_keys(self.keys)
            rows = reference.aggregate(
                [[(row["ts"], row) for row in source] for source in self.sources],
                self.window,
                keys,
                self.shape.aggregates,
                null_keys=null_keys,
                ignore_nan=self.shape.ignore_nan,
            )
            self._expected = [
                bits([row.ts, *_parts(row.key), *row.values.values()]) for row in rows
            ]
        return self._expected

    def assert_right(self, result: pa.Table) -> None:
        """Assert that a result is the reference's, bit for bit and in its order."""
        assert_same(rows_of(result), self.expected(), str(self))


def _keyed(stream: hr.Stream, keys: str) -> Any:
    if keys == "none":
        return stream
    if keys == "text":
        return stream.key_by("k")
    if keys == "number":
        return stream.key_by("n")
    if keys == "float":
        return stream.key_by("f")
    if keys == "composite":
        return stream.key_by("k", "n")
    if keys == "tags":
        return stream.key_by(tag=hr.each("tags"))
    if keys == "numbers":
        return stream.key_by(num=hr.each("nums"))
    if keys == "any":
        return stream.key_by(place=("home", "away"))
    if keys == "product":
        return stream.key_by("n", tag=hr.each("tags"))
    assert keys == "droppable"
    return stream.key_by("home", nulls="drop")


def _reference_keys(keys: str) -> tuple[Any, str]:
    r = reference
    functions = {
        "none": r.no_key,
        "text": r.column("k"),
        "number": r.column("n"),
        "float": r.column("f"),
        "composite": r.columns(r.column("k"), r.column("n")),
        "tags": r.each("tags"),
        "numbers": r.each("nums"),
        "any": lambda payload: [payload["home"] or "", payload["away"]],
        "product": r.columns(r.column("n"), r.each("tags")),
        "droppable": r.column("home"),
    }
    return functions[keys], "drop" if keys == "droppable" else "error"


def _parts(key: Any) -> tuple:
    return key if isinstance(key, tuple) else (key,)


# -- drawing


def draw_workload(
    shape: Shape, seed: int, most_rows: int = 60, most_sources: int = 4, span: int | None = None
) -> Workload:
    """Draw rows, window and keys for a shape; the same seed gives the same workload."""
    draw = random.Random(f"{shape.name} {seed}")
    advance = draw.choice([1, 2, 3, 5, 10, 1000])
    # ceil(size / advance) must equal the shape's slots; the size is a multiple of the advance only now and then.
    size = shape.slots * advance - (draw.choice([0, draw.randrange(advance)]) if shape.slots > 1 else 0)
    window = Window(size, advance)
    keys = draw.choice(MULTI_KEYS if shape.multi else SINGLE_KEYS)
    span = span if span is not None else draw.choice([1, 8, 40, 3 * size, 20 * size])
    start = draw.choice([0, -span // 2, -span, -(10**15), 10**15])
    sources = []
    for _ in range(draw.randint(1, most_sources)):
        count = draw.choice([0, 1, 2, draw.randint(0, most_rows), draw.randint(0, most_rows)])
        times = sorted(start + draw.randint(0, span) for _ in range(count))
        sources.append([_draw_row(draw, ts, keys) for ts in times])
    return Workload(shape, seed, sources, window, keys)


def _draw_row(draw: random.Random, ts: int, keys: str) -> dict[str, Any]:
    def maybe(value: Any, share: float = 0.2) -> Any:
        return None if draw.random() < share else value

    floats = [0.1, -0.0, 0.0, 1e300, -1e300, math.nan, math.inf, -math.inf, 1.5, draw.uniform(-1, 1)]
    return {
        "ts": ts,
        "k": draw.choice(_TEXTS),
        "n": draw.choice([-3, 0, 1, 7, 2**31 - 1]),
        "f": draw.choice([-0.0, 0.0, math.nan, 0.5, -math.inf]),
        "tags": [draw.choice(_TEXTS) for _ in range(draw.choice([0, 0, 1, 2, 5]))],
        "nums": [draw.randint(-4, 40) for _ in range(draw.choice([0, 1, 3, 9]))],
        "home": maybe(draw.choice(_TEXTS), 0.3 if keys == "droppable" else 0.0),
        "away": draw.choice(_TEXTS),
        "v": maybe(draw.randint(-(10**12), 10**12)),
        "x": maybe(draw.choice(floats)),
        "y": maybe(struct.unpack("f", struct.pack("f", draw.uniform(-100, 100)))[0]),
        "flag": maybe(draw.random() < 0.5),
    }


# -- comparing


def bits(row: list[Any]) -> tuple:
    """A row with floats as their bits: NaN equals NaN, -0.0 does not equal 0.0."""
    return tuple(_bit(value) for value in row)


def _bit(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return "nan" if value != value else struct.pack("<d", value)
    return value


def rows_of(table: pa.Table) -> list[tuple]:
    """The rows of a result, as `bits`."""
    columns = [column.to_pylist() for column in table.columns]
    return [bits(list(row)) for row in zip(*columns, strict=True)]


def assert_same(got: list[tuple], wanted: list[tuple], about: str) -> None:
    """Assert equality, and show the first difference only."""
    if got == wanted:
        return
    for i, (a, b) in enumerate(zip(got, wanted, strict=False)):
        if a != b:
            raise AssertionError(f"{about}: row {i} is {a}, must be {b} ({len(got)} rows, must be {len(wanted)})")
    raise AssertionError(
        f"{about}: {len(got)} rows, must be {len(wanted)}; too many {got[len(wanted) :][:3]},"
        f" missing {wanted[len(got) :][:3]}"
    )


# -- who owns what


def scattered(draw: random.Random, threads: int, most: int = 8) -> dict[str, Any]:
    """Options of `start` under which a few rows meet many instances.

    A stored row's bucket is its number, so under an even mapping the first 128
    rows of every source are all instance 0's.
    """
    members = sorted(draw.sample(range(most), threads))
    mapping = hr.Mapping([draw.choice(members) for _ in range(BUCKETS)])
    return {"threads": members, "max_threads": most, "mapping": mapping}


def worked(run: Any, name: str) -> int:
    """How many instances of an operator have had something to do."""
    return sum(load > 0 for load in run.metrics().operators[name].load)


# -- inputs whose arrival a test controls


class Steered:
    """Record batches of one source, each of which comes when the test lets it.

    Parameters
    ----------
    table : Table
    sizes : sequence of int
        Rows of each batch; the remaining rows come as one more.

    `let(n)` lets `n` more batches through, `let_all()` all; the end of input
    counts as a batch. After a test all are let through, so that none of its
    readers is left for the next test.
    """

    made: ClassVar[weakref.WeakSet[Steered]] = weakref.WeakSet()

    def __init__(self, table: pa.Table, sizes: list[int] | None = None):
        self.table, self.sizes = table, list(sizes or [])
        self._allowed = threading.Semaphore(0)
        self._open = False
        Steered.made.add(self)

    @property
    def batches(self) -> int:
        """How many batches there are, including the end of input."""
        return len(list(self._cut())) + 1

    def _cut(self) -> Iterator[pa.RecordBatch]:
        at = 0
        for size in [*self.sizes, self.table.num_rows]:
            part = self.table.slice(at, size).combine_chunks()
            at += part.num_rows
            if part.num_rows:
                yield part.to_batches()[0]

    def let(self, count: int = 1) -> None:
        self._allowed.release(count)

    def let_all(self) -> None:
        self._open = True
        self._allowed.release(1_000)  # several operators may each read it and wait

    def _wait(self) -> None:
        # A daemon thread of the run waits here; a failing test must not leave it waiting for ever. The timeout is longer
        # than any test waits: what a test waits for must not end because its source gave up.
        if not self._open and not self._allowed.acquire(timeout=600):
            raise TimeoutError("the test let no batch through for ten minutes")

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([], f.type) for f in self.table.schema], schema=self.table.schema)
        for batch in self._cut():
            self._wait()
            yield batch
        self._wait()


def is_stuck(run: Any, name: str = "forward") -> bool:
    """Whether an instance is blocked on a full output ring, rather than its gate being full for a moment.

    It is looked at many times: during one long pause, this whole process may have stood still.
    """
    import time

    before = run.metrics().operators[name]
    for _ in range(30):
        time.sleep(0.01)
        if run.metrics().operators[name].processed != before.processed:
            return False
    return before.depth_tuples >= 64 and before.processed > 0


def steer(run: Any, **controls: Any) -> Any:
    """Ask for a reconfiguration; None if the run has finished its input, which a test may not know."""
    try:
        return run.reconfigure(**controls)
    except RunStoppedError:
        return None


HANG_S = 180.0
"""What has not happened after this time hangs; a shorter limit would be an assertion about the machine."""


def eventually(condition: Callable[[], Any], seconds: float | None = None) -> Any:
    """Wait until a condition holds and return its value; fail after `seconds`, by default `HANG_S`."""
    import time

    seconds = HANG_S if seconds is None else seconds
    end = time.monotonic() + seconds
    pause = 50e-6
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"still not so after {seconds} s: {condition}")
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def processed(run: Any, count: int, name: str | None = None) -> Callable[[], bool]:
    """A condition: every active instance of the operator has read at least `count` tuples."""
    operator = run.operators[-1] if name is None else name
    return lambda: run.metrics().operators[operator].processed >= count


@contextlib.contextmanager
def given_meanwhile(inputs: Sequence[Steered], draw: random.Random) -> Iterator[None]:
    """Let sources give batches, some at a time, while the block lasts; then all the rest."""
    done = threading.Event()

    def give() -> None:
        while not done.is_set():
            for source in inputs:
                source.let(draw.choice([1, 2, 9]))
            done.wait(0.002)
        for source in inputs:
            source.let_all()

    giver = threading.Thread(target=give, daemon=True)
    giver.start()
    try:
        yield
    finally:
        done.set()
        giver.join()
