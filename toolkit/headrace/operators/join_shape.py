"""What a join's kernels depend on, and the text that both ways of finding pairs share.

`join` compares every tuple with all stored ones, `indexed_join` with those in
the cells of an index that can match. Both define the same pairs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.codegen.text import in_templates, indent

GROUP = 64
"""Records that are processed together."""
FIRST_INDEX = 3
"""Arrays of the state before those of the index."""
INDEX_ARRAYS = 6


@dataclass(frozen=True)
class Band:
    """abs(left - right) <= width on columns `left` and `right` (indices) of one dtype.

    The width itself is data: another one needs no other kernel.
    """

    left: int
    right: int
    dtype: str
    is_wide: bool
    """The narrow type cannot hold the width: there is no quick test."""
    is_equal: bool = False
    """Floats that are to be equal, whatever the width: infinity is, though it has no distance from itself."""

    @staticmethod
    def is_too_wide(dtype: str, width: int | float) -> bool:
        """Whether a quick test in this type would overflow."""
        return (dtype == "int32" and width >= 2**31 - 1) or (dtype == "float32" and width >= 3e38)


@dataclass(frozen=True)
class UserPredicate:
    """A compiled function of the columns used on each side, as text defining `user_predicate`."""

    text: str
    left: tuple[int, ...]
    right: tuple[int, ...]
    may_raise: bool = False
    """It divides or calls: evaluated pair by pair, with the pair on record, never speculatively."""


@dataclass(frozen=True)
class Term:
    """One dimension of an index: equal keys, equal values of a band of width 0, or a band.

    Parameters
    ----------
    kind : {"keys", "equal", "band"}
    band : int
        Number of the band; -1 for keys.
    """

    kind: str
    band: int = -1


@dataclass(frozen=True)
class JoinShape:
    """What the generated text depends on."""

    bands: tuple[Band, ...]
    on_keys: bool
    user: UserPredicate | None
    left_dtypes: tuple[str, ...]
    right_dtypes: tuple[str, ...]
    index: tuple[Term, ...] = ()
    """What stored tuples are found by; empty: all are compared."""


VIEWS = {"int64": "view_i64", "int32": "view_i32", "float64": "view_f64", "float32": "view_f32", "uint8": "view_u8"}

_COMMON = '''
from headrace.gates.store import CHUNK, CHUNK_SHIFT, DIRECTORY_CHUNKS
from headrace.gates.merged_log_kernel import ROW_MASK, SOURCE_SHIFT
from headrace.memory.atomics import view_f32, view_f64, view_i32, view_i64, view_u8
from headrace.operators.membership import COMPARISONS, UPDATES
from headrace.operators.output import reserve_slot
from headrace.operators.ownership import BUCKET_MASK

GROUP = {group}
LEFT_WIDTH = {left_width}
RIGHT_WIDTH = {right_width}
SIZE, RUNS, LATER, EARLIER = FREE, FREE + 1, FREE + 2, FREE + 3
DIRECTORY_MASK = DIRECTORY_CHUNKS - 1


@kernel
def promise(l):
    return l[SEEN] - 1


@kernel
def hand_over(s, me, joiner):
    s[1][joiner] = s[1][me]
    s[2][joiner] = s[2][me]


@kernel
def entry(row, width):
    return ((row >> CHUNK_SHIFT) & DIRECTORY_MASK) * width


@kernel
def forget(me, x, s, horizon):
    """Move LOW past the rows with ts <= horizon, in every source (I1)."""
    sides = s[0]
    for source in range(sides.size):
        width = LEFT_WIDTH if sides[source] == 0 else RIGHT_WIDTH
        low = s[1][me, source]
        merged = s[2][me, source]
        while low < merged:
            ts = view_i64(x[source, entry(low, width)], CHUNK)
            at = low & (CHUNK - 1)
            stop = min(CHUNK, at + merged - low)
            if ts[stop - 1] <= horizon:
                low += stop - at
                continue
            while ts[at] <= horizon:
                at += 1
                low += 1
            break
        s[1][me, source] = low


@kernel
def advance_time(me, g, c, o, x, s, l, buffer, ts):
    forget(me, x, s, ts - l[SIZE])
    l[WATERMARK] = ts
    return 0


@kernel
def process(me, g, c, o, x, s, l, buffer, row, start, count):
    done = 0
    while done < count:
        n = min(GROUP, count - done)
        if process_group(me, g, c, o, x, s, l, buffer, row, start + done, l[SEEN] + done, n) < 0:
            return -1
        done += n
    t = g.out_ts[row, start + count - 1]
    forget(me, x, s, t - l[SIZE])
    l[WATERMARK] = t
    return 0


@kernel
def finish(me, g, c, o, x, s, l, buffer):
    return 0


@kernel
def emit(me, o, s, l, seq, at, ref, ts, other_ref, other_ts, is_right):
    slot = reserve_slot(o, me, l[HEAD])
    if slot < 0:
        return -1
    o.primary[me, slot] = seq
    o.a[me, slot] = ref
    o.b[me, slot] = other_ref
    o.c[me, slot] = other_ts
    o.at[me, slot] = at
    s[{first_output}][me, slot] = ts
    s[{second_output}][me, slot] = is_right
    l[HEAD] += 1
    return 0

'''


@dataclass
class Side:
    """Columns of one side, and where what a probe holds of them is in `buffer`."""

    name: str
    dtypes: tuple[str, ...]
    first_buffer: int
    width: int

    def buffer_of(self, column: int) -> int:
        return self.first_buffer + column


def sides_of(shape: JoinShape) -> tuple[Side, Side]:
    """Probe buffers: 0 runs, 1 and 2 record indices, then left keys and columns, right keys and columns."""
    left = Side("left", shape.left_dtypes, 4, 3 + 2 * len(shape.left_dtypes))
    right = Side("right", shape.right_dtypes, 5 + len(shape.left_dtypes), 3 + 2 * len(shape.right_dtypes))
    return left, right


def probe_buffers(shape: JoinShape) -> list[str]:
    """Dtypes of `buffer`: runs, left and right record indices, each side's keys and columns, lower ends of bands."""
    dtypes = ["int32", "int64", "int64", "int32", *shape.left_dtypes, "int32", *shape.right_dtypes]
    return dtypes + ["int32"] * (2 * len(shape.bands))


def width_arrays(shape: JoinShape, widths: Sequence[int | float]) -> list[np.ndarray]:
    """What follows the probe buffers: for each band, its width as the quick and as the exact test need it."""
    arrays = []
    for band, width in zip(shape.bands, widths, strict=True):
        if band.dtype == "int32":
            values = (np.uint32(0 if band.is_wide else 2 * int(width)), np.int64(min(int(width), 2**63 - 1)))
        elif band.dtype == "int64":
            values = (np.uint64(min(int(width), 2**64 - 1)),) * 2
        elif band.dtype == "float32":
            values = (np.float32(0) if band.is_wide else _float32_above(width), np.float64(width))
        else:
            values = (np.float64(width),) * 2
        arrays += [np.array([value]) for value in values]
    return arrays


def width_of(shape: JoinShape, band_number: int, is_exact: bool) -> str:
    """Where a band's width is."""
    first = 5 + len(shape.left_dtypes) + len(shape.right_dtypes) + 2 * len(shape.bands)
    return f"buffer[{first + 2 * band_number + int(is_exact)}][0]"


def first_output(shape: JoinShape) -> int:
    """Index in the state of the first column of results; what an index needs lies before them."""
    return FIRST_INDEX + (INDEX_ARRAYS if shape.index else 0)


def common_text(shape: JoinShape) -> str:
    """Write what both kinds of join begin with: constants, expiry, emission, the user's predicate."""
    left, right = sides_of(shape)
    first = first_output(shape)
    text = _COMMON.format(
        group=GROUP, left_width=left.width, right_width=right.width, first_output=first, second_output=first + 1
    )
    return text if shape.user is None else text + shape.user.text + "\n"


def numbered_fields(text: str) -> str:
    """Write scratch memory, ``buffer[3]`` in templates, as the fields of the bundle it is passed as."""
    return in_templates(text, lambda line: re.sub(r"\bbuffer\[(\d+)\]", r"buffer.f\1", line))


_LOAD = '''
@kernel
def load_{mine}(x, ref, k, buffer):
    """Copy a {mine} tuple's columns into the probe buffers; False if one is null: it cannot match."""
    source = ref >> SOURCE_SHIFT
    row = ref & ROW_MASK
    base = entry(row, {width})
    at = row & (CHUNK - 1)
{load}
    return True

'''


def load_tuple(mine: Side, more: list[str]) -> str:
    """Write the kernel that fetches a tuple of this side; `more` lines end it."""
    lines = [f"buffer[{mine.first_buffer - 1}][k] = view_i32(x[source, base + 2], CHUNK)[at]"]
    for column, dtype in enumerate(mine.dtypes):
        lines += [
            f"valid = x[source, base + {4 + 2 * column}]",
            "if valid != 0 and view_u8(valid, CHUNK)[at] == 0:",
            "    return False",
            f"buffer[{mine.buffer_of(column)}][k] = {VIEWS[dtype]}(x[source, base + {3 + 2 * column}], CHUNK)[at]",
        ]
    load = indent("\n".join(lines + more), 1).rstrip("\n")
    return _LOAD.format(mine=mine.name, width=f"{mine.name.upper()}_WIDTH", load=load)


def exact_band(band: Band, x: str, y: str, width: str) -> str:
    """Write the condition of a band on two values, without overflow or rounding."""
    if band.is_equal:
        return f"{x} == {y}"
    if band.dtype.startswith("float"):
        return f"abs(np.float64({x}) - np.float64({y})) <= {width}"
    if band.dtype == "int64":
        # No overflow: the difference of two int64, larger minus smaller, fits uint64.
        difference = f"(np.uint64({x}) - np.uint64({y}) if {x} >= {y} else np.uint64({y}) - np.uint64({x}))"
        return f"{difference} <= {width}"
    return f"abs(np.int64({x}) - np.int64({y})) <= {width}"


def exact(shape: JoinShape, left_value, right_value, left_key: str, right_key: str) -> str:
    """Write the whole condition of a pair."""
    parts = []
    if shape.on_keys:
        parts.append(f"{left_key} == {right_key}")
    parts += [
        exact_band(band, left_value(band.left), right_value(band.right), width_of(shape, number, is_exact=True))
        for number, band in enumerate(shape.bands)
    ]
    if shape.user is not None:
        arguments = [left_value(i) for i in shape.user.left] + [right_value(i) for i in shape.user.right]
        parts.append(f"user_predicate({', '.join(arguments)})")
    return " and ".join(f"({part})" for part in parts)


def _float32_above(width: float) -> np.float32:
    """A float32 bound that no rounding of a float32 difference within `width` exceeds."""
    bound = np.float32(width) * np.float32(1 + 2**-22)
    return np.nextafter(bound, np.float32(np.inf))
