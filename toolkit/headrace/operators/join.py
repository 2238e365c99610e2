"""Join, J and J+, after ScaleJoin: each instance compares every tuple with its share of the other side.

The stored tuples of a side are its sources' stores themselves; storing is
publishing. Tuple number `row` of a source belongs to bucket row % 1024, so the
key mapping divides the stored tuples among the instances, and a
reconfiguration moves none of them. An arriving tuple is compared, by each
instance, with the rows the instance owns in the window of the other side.

Records are processed in groups of `GROUP`. Of a group, all tuples of one side
probe the rows that were there before the group: block by block of `BLOCK` rows
in the first-level cache, four probes a pass, with a vectorised test in narrow
types that may accept too much and never too little. Where it finds anything the
exact condition is evaluated pair by pair. Pairs within the group are evaluated
exactly at once.

State       per worker and source, in `s`: LOW[r, s] first row that can still
            match, MERGED[r, s] rows of source s before this worker's position
Invariants  I1  a worker that has published watermark W reads no row with
                ts <= W - WS: LOW is moved past them before W is published, so
                the collector may free them
            I2  a joiner starts with the LOW and MERGED of the last arriver

Source      STRETCH, Operator 10 and section 8.3; ScaleJoin. Differs: position
            modulo 1024 counts from 0 in each source, so that no tuple is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.operators.aggregate import indent

GROUP = 64
BLOCK = 256
PROBES = 4


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
class JoinShape:
    """What the generated text depends on."""

    bands: tuple[Band, ...]
    on_keys: bool
    user: UserPredicate | None
    left_dtypes: tuple[str, ...]
    right_dtypes: tuple[str, ...]


_VIEWS = {"int64": "view_i64", "int32": "view_i32", "float64": "view_f64", "float32": "view_f32", "uint8": "view_u8"}

_HEADER = '''
from headrace.gates.store import CHUNK, CHUNK_SHIFT, DIRECTORY_CHUNKS
from headrace.gates.merged_log_kernel import ROW_MASK, SOURCE_SHIFT
from headrace.memory.atomics import view_f32, view_f64, view_i32, view_i64, view_u8
from headrace.operators.membership import COMPARISONS, UPDATES
from headrace.operators.output import reserve_slot
from headrace.operators.ownership import BUCKET_MASK

GROUP = {group}
BLOCK = {block}
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
def begin(c, l, s, buffer):
    """Note the runs of buckets this instance owns."""
    runs = buffer[0]
    owner = c.owner[l[IN_FORCE]]
    count = 0
    b = 0
    while b <= BUCKET_MASK:
        if owner[b] == l[ME]:
            first = b
            while b <= BUCKET_MASK and owner[b] == l[ME]:
                b += 1
            runs[2 * count] = first
            runs[2 * count + 1] = b
            count += 1
        else:
            b += 1
    l[RUNS] = count


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
    s[3][me, slot] = ts
    s[4][me, slot] = is_right
    l[HEAD] += 1
    return 0

'''

_PROCESS = '''
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
def process_group(me, g, c, o, x, s, l, buffer, row, start, first_seq, n):
    sides, lows, merged = s[0], s[1], s[2]
    ts = g.out_ts[row, start : start + n]
    refs = g.out_ref[row, start : start + n]
    ats = g.out_at[row, start : start + n]
    oldest = ts[0] - l[SIZE]
    forget(me, x, s, oldest)
    lefts, rights = buffer[1], buffer[2]
    left_count = 0
    right_count = 0
    for i in range(n):
        source = refs[i] >> SOURCE_SHIFT
        if sides[source] == 0:
            if load_left(x, refs[i], left_count, buffer):
                lefts[left_count] = i
                left_count += 1
        elif load_right(x, refs[i], right_count, buffer):
            rights[right_count] = i
            right_count += 1
    pad_left(left_count, buffer)
    pad_right(right_count, buffer)
    for source in range(sides.size):
        if sides[source] == 1 and left_count > 0:
            if probe_right(me, c, o, x, s, l, buffer, source, left_count, ts, refs, ats, first_seq) < 0:
                return -1
        elif sides[source] == 0 and right_count > 0:
            if probe_left(me, c, o, x, s, l, buffer, source, right_count, ts, refs, ats, first_seq) < 0:
                return -1
    # Pairs within the group: the earlier one's owner has them.
    owner = c.owner[l[IN_FORCE]]
    pairs = 0
    for a in range(left_count):
        i = lefts[a]
        for b in range(right_count):
            j = rights[b]
            earlier = min(i, j)
            if owner[refs[earlier] & BUCKET_MASK] != me:
                continue
            pairs += 1
            l[LATER] = refs[max(i, j)]
            l[EARLIER] = refs[earlier]
            if abs(ts[i] - ts[j]) < l[SIZE] and match_probes(a, b, buffer):
                later = max(i, j)
                if (
                    emit(
                        me, o, s, l, first_seq + later, ats[later], refs[later], ts[later],
                        refs[earlier], ts[earlier], 1 if later == j else 0,
                    )
                    < 0
                ):
                    return -1
    c.meter[me, COMPARISONS] += pairs
    for i in range(n):
        merged[me, refs[i] >> SOURCE_SHIFT] = (refs[i] & ROW_MASK) + 1
    return 0

'''

_PROBE = '''
@kernel
def probe_{other}(me, c, o, x, s, l, buffer, source, probes, ts, refs, ats, first_seq):
    """Compare `probes` {mine} tuples with the stored rows of one {other} source."""
    runs = buffer[0]
    low = s[1][me, source]
    high = s[2][me, source]
    groups = (probes + {probe_lanes} - 1) // {probe_lanes}
    compared = 0
    row = low
    while row < high:
        base = entry(row, {width})
        chunk_first = row & ~(CHUNK - 1)
        at = row - chunk_first
        until = min(CHUNK, high - chunk_first)
{views}
        # The buckets of a thousand rows are the low bits of their numbers.
        while at < until:
            block_first = at & ~BUCKET_MASK
            block_stop = min(until, block_first + BUCKET_MASK + 1)
            if l[RUNS] == 1 and runs[0] == 0 and runs[1] == BUCKET_MASK + 1:
                block_stop = until  # everything is owned: no cuts
            for run in range(l[RUNS]):
                a = max(at, block_first + runs[2 * run])
                z = min(block_stop, block_first + runs[2 * run + 1])
                if block_stop - block_first > BUCKET_MASK + 1:
                    z = block_stop
                while a < z:
                    b = min(z, a + BLOCK)
                    compared += b - a
{slices}
                    for q in range(groups):
                        if any_{other}({slice_names}, q * {probe_lanes}, buffer):
                            if (
                                confirm_{other}(
                                    me, c, o, x, s, l, buffer, source, chunk_first, base, a, b,
                                    q * {probe_lanes}, min(probes, (q + 1) * {probe_lanes}),
                                    ts, refs, ats, first_seq,
                                )
                                < 0
                            ):
                                return -1
                    a = b
            at = block_stop
        row = chunk_first + until
    c.meter[me, COMPARISONS] += compared * probes
    c.meter[me, UPDATES] += compared
    return 0


@kernel
def any_{other}({slice_names}, q, buffer):
    """Whether any of four probes may match any of a block's rows: narrow types, one pass."""
{any_setup}
    found = False
    for i in range({first_slice}.size):
        found = found | {any_condition}
    return found


@kernel
def confirm_{other}(
    me, c, o, x, s, l, buffer, source, chunk_first, base, a, b, first, last, ts, refs, ats, first_seq
):
    """Evaluate the exact condition pair by pair and emit."""
    row_ts = view_i64(x[source, base], CHUNK)
{confirm_views}
{valid_views}
    mine = buffer[{mine_index}]
    for q in range(first, last):
        k = mine[q]
        oldest = ts[k] - l[SIZE]
        for i in range(a, b):
{record}            if row_ts[i] > oldest and {valid_condition}{exact_condition}:
                if (
                    emit(
                        me, o, s, l, first_seq + k, ats[k], refs[k], ts[k],
                        (source << SOURCE_SHIFT) | (chunk_first + i), row_ts[i], {mine_is_right},
                    )
                    < 0
                ):
                    return -1
    return 0


@kernel
def load_{mine}(x, ref, k, buffer):
    """Copy a {mine} tuple's columns into the probe buffers; False if one is null: it cannot match."""
    source = ref >> SOURCE_SHIFT
    row = ref & ROW_MASK
    base = entry(row, {mine_width})
    at = row & (CHUNK - 1)
{load}
    return True


@kernel
def pad_{mine}(count, buffer):
    """Fill the last group of probes with copies of its last one."""
    while count > 0 and count % {probe_lanes} != 0:
{pad}
        count += 1

'''


@dataclass
class _Side:
    """Columns of one side, and where their probe buffers are in `buffer`."""

    name: str
    dtypes: tuple[str, ...]
    first_buffer: int
    width: int

    def buffer_of(self, column: int) -> int:
        return self.first_buffer + column


def _sides(shape: JoinShape) -> tuple[_Side, _Side]:
    """Probe buffers: 0 runs, 1 and 2 record indices, then left keys and columns, right keys and columns."""
    left = _Side("left", shape.left_dtypes, 4, 3 + 2 * len(shape.left_dtypes))
    right = _Side("right", shape.right_dtypes, 5 + len(shape.left_dtypes), 3 + 2 * len(shape.right_dtypes))
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


def _width(shape: JoinShape, band_number: int, exact: bool) -> str:
    """Where a band's width is."""
    first = 5 + len(shape.left_dtypes) + len(shape.right_dtypes) + 2 * len(shape.bands)
    return f"buffer[{first + 2 * band_number + int(exact)}][0]"


def _lower_end(shape: JoinShape, band_number: int, mine_is_right: bool) -> int:
    """Probe buffer of a band's lower end, probe - width, modulo 2**32: kept, or LLVM subtracts twice a row."""
    return 5 + len(shape.left_dtypes) + len(shape.right_dtypes) + 2 * band_number + int(mine_is_right)


def generate(shape: JoinShape) -> str:
    """Write the operator's part of the kernel module."""
    left, right = _sides(shape)
    text = _HEADER.format(group=GROUP, block=BLOCK, left_width=left.width, right_width=right.width)
    if shape.user is not None:
        text += shape.user.text + "\n"
    text += _match_probes(shape, left, right)
    text += _direction(shape, left, right, mine_is_right=False)
    text += _direction(shape, right, left, mine_is_right=True)
    return re.sub(r"\bbuffer\[(\d+)\]", r"buffer.f\1", text + _PROCESS)


def _exact_band(band: Band, x: str, y: str, width: str) -> str:
    if band.dtype.startswith("float"):
        return f"abs(np.float64({x}) - np.float64({y})) <= {width}"
    if band.dtype == "int64":
        # No overflow: the difference of two int64, larger minus smaller, fits uint64.
        difference = f"(np.uint64({x}) - np.uint64({y}) if {x} >= {y} else np.uint64({y}) - np.uint64({x}))"
        return f"{difference} <= {width}"
    return f"abs(np.int64({x}) - np.int64({y})) <= {width}"


def _exact(shape: JoinShape, left_value, right_value, left_key: str, right_key: str) -> str:
    parts = []
    if shape.on_keys:
        parts.append(f"{left_key} == {right_key}")
    parts += [
        _exact_band(band, left_value(band.left), right_value(band.right), _width(shape, number, exact=True))
        for number, band in enumerate(shape.bands)
    ]
    if shape.user is not None:
        arguments = [left_value(i) for i in shape.user.left] + [right_value(i) for i in shape.user.right]
        parts.append(f"user_predicate({', '.join(arguments)})")
    return " and ".join(f"({part})" for part in parts)


def _match_probes(shape: JoinShape, left: _Side, right: _Side) -> str:
    condition = _exact(
        shape,
        lambda i: f"buffer[{left.buffer_of(i)}][a]",
        lambda i: f"buffer[{right.buffer_of(i)}][b]",
        f"buffer[{left.first_buffer - 1}][a]",
        f"buffer[{right.first_buffer - 1}][b]",
    )
    return f"\n@kernel\ndef match_probes(a, b, buffer):\n    return {condition}\n\n"


def _direction(shape: JoinShape, mine: _Side, other: _Side, mine_is_right: bool) -> str:
    """Write the kernels in which `mine` probes the stored rows of `other`."""

    def mine_column(band: Band) -> int:
        return band.right if mine_is_right else band.left

    def other_column(band: Band) -> int:
        return band.left if mine_is_right else band.right

    used = sorted({other_column(band) for band in shape.bands})
    if shape.user is not None:
        used = sorted({*used, *(shape.user.left if mine_is_right else shape.user.right)})
    views, slices, names = [], [], []
    if shape.on_keys:
        views.append("keys = view_i32(x[source, base + 2], CHUNK)")
        slices.append("key_block = keys[a:b]")
        names.append("key_block")
    for column in used:
        view = _VIEWS[other.dtypes[column]]
        views.append(f"column_{column} = {view}(x[source, base + {3 + 2 * column}], CHUNK)")
        slices.append(f"block_{column} = column_{column}[a:b]")
        names.append(f"block_{column}")
    setup, conditions = [], [[] for _ in range(PROBES)]
    for number, band in enumerate(shape.bands):
        # In registers: the blocks' loop reads nothing but the blocks.
        setup.append(f"w{number} = {_width(shape, number, exact=band.is_wide)}")
    for k in range(PROBES):
        if shape.on_keys:
            setup.append(f"key_{k} = buffer[{mine.first_buffer - 1}][q + {k}]")
            conditions[k].append(f"(key_block[i] == key_{k})")
        for number, band in enumerate(shape.bands):
            probe = f"buffer[{mine.buffer_of(mine_column(band))}][q + {k}]"
            name = f"p{number}_{k}"
            block = f"block_{other_column(band)}[i]"
            if band.dtype == "int32" and not band.is_wide:
                # One comparison: within [p - w, p + w] as an unsigned distance from the lower end.
                setup.append(f"{name} = buffer[{_lower_end(shape, number, mine_is_right)}][q + {k}]")
                conditions[k].append(f"(np.uint32({block} - {name}) <= w{number})")
            elif band.dtype == "float32" and not band.is_wide:
                setup.append(f"{name} = {probe}")
                conditions[k].append(f"(abs({block} - {name}) <= w{number})")
            else:
                setup.append(f"{name} = {probe}")
                conditions[k].append(f"({_exact_band(band, block, name, f'w{number}')})")
        if shape.user is not None and not shape.user.may_raise:
            own = shape.user.right if mine_is_right else shape.user.left
            others = shape.user.left if mine_is_right else shape.user.right
            setup += [f"u{column}_{k} = buffer[{mine.buffer_of(column)}][q + {k}]" for column in own]
            own_values = [f"u{column}_{k}" for column in own]
            other_values = [f"block_{column}[i]" for column in others]
            arguments = other_values + own_values if mine_is_right else own_values + other_values
            conditions[k].append(f"user_predicate({', '.join(arguments)})")
    load = [f"buffer[{mine.first_buffer - 1}][k] = view_i32(x[source, base + 2], CHUNK)[at]"]
    pad = [f"buffer[{mine.first_buffer - 1}][count] = buffer[{mine.first_buffer - 1}][count - 1]"]
    for column, dtype in enumerate(mine.dtypes):
        place = f"buffer[{mine.buffer_of(column)}]"
        load += [
            f"valid = x[source, base + {4 + 2 * column}]",
            "if valid != 0 and view_u8(valid, CHUNK)[at] == 0:",
            "    return False",
            f"{place}[k] = {_VIEWS[dtype]}(x[source, base + {3 + 2 * column}], CHUNK)[at]",
        ]
        pad.append(f"{place}[count] = {place}[count - 1]")
    for number, band in enumerate(shape.bands):
        if band.dtype == "int32" and not band.is_wide:
            low = f"buffer[{_lower_end(shape, number, mine_is_right)}]"
            width = _width(shape, number, exact=True)
            load.append(f"{low}[k] = np.int32(buffer[{mine.buffer_of(mine_column(band))}][k] - {width})")
            pad.append(f"{low}[count] = {low}[count - 1]")
    valid_views, valid_conditions = [], []
    for column in used:
        valid_views += [
            f"valid_{column} = x[source, base + {4 + 2 * column}]",
            f"mask_{column} = view_u8(valid_{column} if valid_{column} != 0 else x[source, base], CHUNK)",
        ]
        valid_conditions.append(f"(valid_{column} == 0 or mask_{column}[i] != 0) and ")

    def other_value(column: int) -> str:
        return f"column_{column}[i]"

    def mine_value(column: int) -> str:
        return f"buffer[{mine.buffer_of(column)}][q]"

    mine_key, other_key = f"buffer[{mine.first_buffer - 1}][q]", "keys[i]"
    if mine_is_right:
        exact = _exact(shape, other_value, mine_value, other_key, mine_key)
    else:
        exact = _exact(shape, mine_value, other_value, mine_key, other_key)
    return _PROBE.format(
        mine=mine.name,
        other=other.name,
        width=f"{other.name.upper()}_WIDTH",
        mine_width=f"{mine.name.upper()}_WIDTH",
        probe_lanes=PROBES,
        views=indent("\n".join(views), 2).rstrip("\n"),
        confirm_views=indent("\n".join(views), 1).rstrip("\n"),
        slices=indent("\n".join(slices), 5).rstrip("\n"),
        slice_names=", ".join(names),
        first_slice=names[0],
        any_setup=indent("\n".join(setup), 1).rstrip("\n"),
        any_condition="(" + " | ".join("(" + (" & ".join(c) or "True") + ")" for c in conditions) + ")",
        valid_views=indent("\n".join(valid_views) or "pass", 1).rstrip("\n"),
        valid_condition="".join(valid_conditions),
        exact_condition=exact,
        record=indent(
            "l[LATER] = refs[k]\nl[EARLIER] = (source << SOURCE_SHIFT) | (chunk_first + i)", 3
        )
        if shape.user is not None and shape.user.may_raise
        else "",
        mine_index=2 if mine_is_right else 1,
        mine_is_right=int(mine_is_right),
        load=indent("\n".join(load), 1).rstrip("\n"),
        pad=indent("\n".join(pad), 2).rstrip("\n"),
    )


def _float32_above(width: float) -> np.float32:
    """A float32 bound that no rounding of a float32 difference within `width` exceeds."""
    bound = np.float32(width) * np.float32(1 + 2**-22)
    return np.nextafter(bound, np.float32(np.inf))
