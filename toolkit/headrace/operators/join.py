"""Join, J and J+, after ScaleJoin: each instance compares every tuple with its share of the other side.

The stored tuples of a side are its sources' stores themselves; storing is
publishing. Tuple number `row` of a source belongs to bucket row % 1024, so the
key mapping divides the stored tuples among the instances, and a
reconfiguration moves none of them. An arriving tuple is compared, by each
instance, with the rows the instance owns in the window of the other side.

Records are processed in groups of `GROUP`. Of a group, all tuples of one side
probe the rows that were there before the group: block by block of `BLOCK` rows
in the first-level cache, four probes a pass, with a vectorised test in narrow
types that may accept too much and never too little. Where it finds anything it is
repeated for `FINE` rows at a time, and where that does the exact condition is
evaluated pair by pair: at one match in a thousand pairs, as hedges of trades have,
nearly every block holds one. Pairs within the group are evaluated exactly at once.

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

from headrace.codegen.text import indent
from headrace.operators.join_shape import (
    VIEWS,
    Band,
    JoinShape,
    Side,
    common_text,
    exact,
    exact_band,
    load_tuple,
    numbered_fields,
    sides_of,
    width_of,
)

BLOCK = 256
FINE = 32
PROBES = 4


_BEGIN = '''
BLOCK = {block}
FINE = {fine}


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

'''

_PROCESS = '''
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
                        if not any_{other}({slice_names}, q * {probe_lanes}, buffer):
                            continue
                        for f in range(a, b, FINE):
                            t = min(b, f + FINE)
                            if any_{other}({fine_slices}, q * {probe_lanes}, buffer):
                                if (
                                    confirm_{other}(
                                        me, c, o, x, s, l, buffer, source, chunk_first, base, f, t,
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
def pad_{mine}(count, buffer):
    """Fill the last group of probes with copies of its last one."""
    while count > 0 and count % {probe_lanes} != 0:
{pad}
        count += 1

'''


def _lower_end(shape: JoinShape, band_number: int, mine_is_right: bool) -> int:
    """Probe buffer of a band's lower end, probe - width, modulo 2**32: kept, or LLVM subtracts twice a row."""
    return 5 + len(shape.left_dtypes) + len(shape.right_dtypes) + 2 * band_number + int(mine_is_right)


def generate(shape: JoinShape) -> str:
    """Write the operator's part of the kernel module."""
    left, right = sides_of(shape)
    text = common_text(shape) + _BEGIN.format(block=BLOCK, fine=FINE)
    text += _match_probes(shape, left, right)
    text += _direction(shape, left, right, mine_is_right=False)
    text += _direction(shape, right, left, mine_is_right=True)
    return numbered_fields(text + _PROCESS)


def _match_probes(shape: JoinShape, left: Side, right: Side) -> str:
    condition = exact(
        shape,
        lambda i: f"buffer[{left.buffer_of(i)}][a]",
        lambda i: f"buffer[{right.buffer_of(i)}][b]",
        f"buffer[{left.first_buffer - 1}][a]",
        f"buffer[{right.first_buffer - 1}][b]",
    )
    return f"\n@kernel\ndef match_probes(a, b, buffer):\n    return {condition}\n\n"


def _direction(shape: JoinShape, mine: Side, other: Side, mine_is_right: bool) -> str:
    """Write the kernels in which `mine` probes the stored rows of `other`."""

    def mine_column(band: Band) -> int:
        return band.right if mine_is_right else band.left

    def other_column(band: Band) -> int:
        return band.left if mine_is_right else band.right

    used = sorted({other_column(band) for band in shape.bands})
    if shape.user is not None:
        used = sorted({*used, *(shape.user.left if mine_is_right else shape.user.right)})
    views, slices, names, sliced = [], [], [], []
    if shape.on_keys:
        views.append("keys = view_i32(x[source, base + 2], CHUNK)")
        slices.append("key_block = keys[a:b]")
        names.append("key_block")
        sliced.append("keys")
    for column in used:
        view = VIEWS[other.dtypes[column]]
        views.append(f"column_{column} = {view}(x[source, base + {3 + 2 * column}], CHUNK)")
        slices.append(f"block_{column} = column_{column}[a:b]")
        names.append(f"block_{column}")
        sliced.append(f"column_{column}")
    if not names:  # a predicate that reads the other side only: a block is as long as its times
        views.append("times = view_i64(x[source, base], CHUNK)")
        slices.append("block_times = times[a:b]")
        names.append("block_times")
        sliced.append("times")
    setup, conditions = [], [[] for _ in range(PROBES)]
    for number, band in enumerate(shape.bands):
        # In registers: the blocks' loop reads nothing but the blocks.
        setup.append(f"w{number} = {width_of(shape, number, is_exact=band.is_wide)}")
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
            elif band.dtype == "float32" and not band.is_wide and not band.is_equal:
                setup.append(f"{name} = {probe}")
                conditions[k].append(f"(abs({block} - {name}) <= w{number})")
            else:
                setup.append(f"{name} = {probe}")
                conditions[k].append(f"({exact_band(band, block, name, f'w{number}')})")
        if shape.user is not None and not shape.user.may_raise:
            own = shape.user.right if mine_is_right else shape.user.left
            others = shape.user.left if mine_is_right else shape.user.right
            setup += [f"u{column}_{k} = buffer[{mine.buffer_of(column)}][q + {k}]" for column in own]
            own_values = [f"u{column}_{k}" for column in own]
            other_values = [f"block_{column}[i]" for column in others]
            arguments = other_values + own_values if mine_is_right else own_values + other_values
            conditions[k].append(f"user_predicate({', '.join(arguments)})")
    more, pad = [], [f"buffer[{mine.first_buffer - 1}][count] = buffer[{mine.first_buffer - 1}][count - 1]"]
    for column in range(len(mine.dtypes)):
        place = f"buffer[{mine.buffer_of(column)}]"
        pad.append(f"{place}[count] = {place}[count - 1]")
    for number, band in enumerate(shape.bands):
        if band.dtype == "int32" and not band.is_wide:
            low = f"buffer[{_lower_end(shape, number, mine_is_right)}]"
            width = width_of(shape, number, is_exact=True)
            more.append(f"{low}[k] = np.int32(buffer[{mine.buffer_of(mine_column(band))}][k] - {width})")
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
        condition = exact(shape, other_value, mine_value, other_key, mine_key)
    else:
        condition = exact(shape, mine_value, other_value, mine_key, other_key)
    return load_tuple(mine, more) + _PROBE.format(
        mine=mine.name,
        other=other.name,
        width=f"{other.name.upper()}_WIDTH",
        probe_lanes=PROBES,
        views=indent("\n".join(views), 2).rstrip("\n"),
        confirm_views=indent("\n".join(views), 1).rstrip("\n"),
        slices=indent("\n".join(slices), 5).rstrip("\n"),
        slice_names=", ".join(names),
        first_slice=names[0],
        fine_slices=", ".join(f"{slice_of}[f:t]" for slice_of in sliced),
        any_setup=indent("\n".join(setup), 1).rstrip("\n"),
        any_condition="(" + " | ".join("(" + (" & ".join(c) or "True") + ")" for c in conditions) + ")",
        valid_views=indent("\n".join(valid_views) or "pass", 1).rstrip("\n"),
        valid_condition="".join(valid_conditions),
        exact_condition=condition,
        record=indent(
            "l[LATER] = refs[k]\nl[EARLIER] = (source << SOURCE_SHIFT) | (chunk_first + i)", 3
        )
        if shape.user is not None and shape.user.may_raise
        else "",
        mine_index=2 if mine_is_right else 1,
        mine_is_right=int(mine_is_right),
        pad=indent("\n".join(pad), 2).rstrip("\n"),
    )
