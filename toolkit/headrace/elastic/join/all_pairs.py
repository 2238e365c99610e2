"""The kernels of a join without an index that depend on its shape, for `all_pairs_kernel`.

Each kernel is written twice: left tuples probe the stored rows of right sources,
and right tuples those of left sources.
"""

from __future__ import annotations

from types import ModuleType

from headrace.codegen.text import indent
from headrace.elastic.join import all_pairs_kernel
from headrace.elastic.join.all_pairs_kernel import PROBES
from headrace.elastic.join.conditions import (
    column_view,
    exact,
    exact_band,
    in_order,
    load_text,
    user_call,
)
from headrace.elastic.join.shape import JoinShape, Side, exact_width, quick_width

_MATCH_PROBES = '''
@kernel
def match_probes(a, b, buffer):
    """Whether left tuple `a` matches right tuple `b`, both among those that probe."""
    return {condition}

'''

_PAD = '''
@kernel
def pad_{mine}(count, buffer):
    """Fill the last pass with copies of its last tuple."""
    while count > 0 and count % PROBES != 0:
{copies}
        count += 1

'''

_PROBE = '''
@kernel
def probe_{other}(me, c, o, x, s, l, buffer, source, probes, ts, refs, ats, first_position):
    """Compare `probes` {mine} tuples with the stored rows of one {other} source that this instance owns."""
    runs = buffer.runs
    row = s.low[me, source]
    high = s.high[me, source]
    passes = (probes + PROBES - 1) // PROBES
    compared = 0
    is_whole = l[RUNS] == 1 and runs[RUN_FIRST] == 0 and runs[RUN_STOP] == BUCKETS
    fetches = not is_whole and high - row >= FAR_ROWS
    while row < high:
        entry = entry_of(row, {other_width})
        at = place_of(row)
        chunk_first = row - at
        until = min(CHUNK, high - chunk_first)
{views}
        # The buckets of a thousand rows are the low bits of their numbers.
        while at < until:
            thousand_first = at & ~BUCKET_MASK
            thousand_stop = min(until, thousand_first + BUCKETS)
            if is_whole:
                thousand_stop = until  # this instance owns every row: no cuts
            for run in range(l[RUNS]):
                a = max(at, thousand_first + runs[RUN_WORDS * run + RUN_FIRST])
                z = min(thousand_stop, thousand_first + runs[RUN_WORDS * run + RUN_STOP])
                if thousand_stop - thousand_first > BUCKETS:
                    z = thousand_stop
                while a < z:
                    b = min(z, a + BLOCK)
                    compared += b - a
{blocks}
                    if fetches:
{fetches}
                    for n in range(passes):
                        q = n * PROBES
                        if not any_{other}({block_names}, q, buffer):
                            continue
                        for f in range(a, b, FINE):
                            t = min(b, f + FINE)
                            if any_{other}({fine_blocks}, q, buffer):
                                if (
                                    confirm_{other}(
                                        me, c, o, x, s, l, buffer, source, chunk_first, entry, f, t,
                                        q, min(probes, q + PROBES), ts, refs, ats, first_position,
                                    )
                                    < 0
                                ):
                                    return -1
                    a = b
            at = thousand_stop
        row = chunk_first + until
    c.meter[me, COMPARISONS] += compared * probes
    c.meter[me, UPDATES] += compared
    return 0

'''

_ANY = '''
@kernel
def any_{other}({block_names}, q, buffer):
    """Whether any of the {mine} tuples from number `q` on may match any of a block's rows: narrow types, one pass."""
{probes}
    found = False
    for i in range({first_block}.size):
        found = found | {condition}
    return found

'''

_CONFIRM = '''
@kernel
def confirm_{other}(
    me, c, o, x, s, l, buffer, source, chunk_first, entry, a, b, first, last, ts, refs, ats, first_position
):
    """Evaluate the exact condition pair by pair, and emit."""
    row_ts = view_i64(x[source, entry + TS], CHUNK)
{views}
    for q in range(first, last):
        k = buffer.{mine_members}[q]
        oldest = ts[k] - l[SIZE]
        for i in range(a, b):
{record}
            if row_ts[i] > oldest and {condition}:
                if (
                    emit(
                        me, o, s, l, first_position + k, ats[k], refs[k], ts[k],
                        (source << SOURCE_SHIFT) | (chunk_first + i), row_ts[i], {mine_is_right},
                    )
                    < 0
                ):
                    return -1
    return 0

'''

_RECORD = """
l[LATER] = refs[k]
l[EARLIER] = (source << SOURCE_SHIFT) | (chunk_first + i)
"""


def pieces(shape: JoinShape) -> tuple[ModuleType, str]:
    """Return the kernels of a join without an index, and the text of those that depend on its shape."""
    left, right = shape.sides
    text = _match_probes(shape, left, right)
    for mine, other in ((left, right), (right, left)):
        text += load_text(mine, _lower_ends(shape, mine)) + _pad_text(shape, mine)
        text += _direction(shape, mine, other)
    return all_pairs_kernel, text


def _match_probes(shape: JoinShape, left: Side, right: Side) -> str:
    values = (lambda i: f"buffer.{left.values(i)}[a]"), (lambda i: f"buffer.{right.values(i)}[b]")
    return _MATCH_PROBES.format(condition=exact(shape, values, (f"buffer.{left.keys}[a]", f"buffer.{right.keys}[b]")))


def _lower_ends(shape: JoinShape, mine: Side) -> list[str]:
    """Write the lower ends of the bands around probing tuple `k`."""
    return [
        f"buffer.{mine.lower_ends(n)}[k] = np.int32(buffer.{mine.values(band.column(mine))}[k] - buffer.{exact_width(n)}[0])"
        for n, band in enumerate(shape.bands)
        if band.has_lower_end
    ]


def _pad_text(shape: JoinShape, mine: Side) -> str:
    """Write the kernel that pads the last pass."""
    fields = [mine.keys, *(mine.values(column) for column in range(len(mine.dtypes)))]
    fields += [mine.lower_ends(n) for n, band in enumerate(shape.bands) if band.has_lower_end]
    copies = [f"buffer.{field}[count] = buffer.{field}[count - 1]" for field in fields]
    return _PAD.format(mine=mine.name, copies=indent(copies, 2))


def _direction(shape: JoinShape, mine: Side, other: Side) -> str:
    """Write the kernels in which tuples of `mine` probe the stored rows of `other`."""
    used = sorted({band.column(other) for band in shape.bands})
    if shape.user is not None:
        used = sorted({*used, *shape.user.columns(other)})
    views = {f"column_{column}": column_view(other, column) for column in used}
    blocks = {f"block_{column}": f"column_{column}" for column in used}
    if shape.on_keys:
        views = {"keys": "view_i32(x[source, entry + KEYS], CHUNK)", **views}
        blocks = {"key_block": "keys", **blocks}
    if not blocks:  # the predicate reads no stored column: the rows' times give a block its length
        views = {"times": "view_i64(x[source, entry + TS], CHUNK)"}
        blocks = {"block_times": "times"}
    names = {
        "mine": mine.name,
        "other": other.name,
        "other_width": other.width,
        "block_names": ", ".join(blocks),
        "first_block": next(iter(blocks)),
    }
    view_lines = [f"{name} = {view}" for name, view in views.items()]
    text = _PROBE.format(
        views=indent(view_lines, 2),
        blocks=indent([f"{block} = {column}[a:b]" for block, column in blocks.items()], 5),
        fetches=indent([f"fetch_ahead({column}, a + BUCKETS, min(until, b + BUCKETS))" for column in blocks.values()], 6),
        fine_blocks=", ".join(f"{column}[f:t]" for column in blocks.values()),
        **names,
    )
    probes, condition = _quick_test(shape, mine, other)
    text += _ANY.format(probes=indent(probes, 1), condition=condition, **names)
    return text + _confirm_text(shape, mine, other, used, view_lines)


def _quick_test(shape: JoinShape, mine: Side, other: Side) -> tuple[list[str], str]:
    """Write the loads of a pass's tuples, done once for all rows, and the quick test on row `i` of a block."""
    # Loaded into registers, so that the loop over a block reads nothing else.
    setup = [
        f"w{number} = buffer.{exact_width(number) if band.is_wide else quick_width(number)}[0]"
        for number, band in enumerate(shape.bands)
    ]
    tests = []
    for k in range(PROBES):
        conditions = []
        if shape.on_keys:
            setup.append(f"key_{k} = buffer.{mine.keys}[q + {k}]")
            conditions.append(f"(key_block[i] == key_{k})")
        for number, band in enumerate(shape.bands):
            name, block = f"p{number}_{k}", f"block_{band.column(other)}[i]"
            field = mine.lower_ends(number) if band.has_lower_end else mine.values(band.column(mine))
            setup.append(f"{name} = buffer.{field}[q + {k}]")
            if band.has_lower_end:
                # One comparison: within [p - w, p + w] as an unsigned distance from the lower end.
                conditions.append(f"(np.uint32({block} - {name}) <= w{number})")
            elif band.dtype == "float32" and not band.is_wide and not band.is_equal:
                conditions.append(f"(abs({block} - {name}) <= w{number})")
            else:
                conditions.append(f"({exact_band(band, block, name, f'w{number}')})")
        if shape.user is not None and not shape.user.may_raise:
            setup += [f"u{column}_{k} = buffer.{mine.values(column)}[q + {k}]" for column in shape.user.columns(mine)]
            values = in_order(mine, lambda i, k=k: f"u{i}_{k}", lambda i: f"block_{i}[i]")
            conditions.append(user_call(shape, values))
        tests.append("(" + (" & ".join(conditions) or "True") + ")")
    return setup, "(" + " | ".join(tests) + ")"


def _confirm_text(shape: JoinShape, mine: Side, other: Side, used: list[int], views: list[str]) -> str:
    """Write the kernel that evaluates pairs one by one."""
    valid = []
    views = list(views)
    for column in used:
        views += [
            f"valid_{column} = x[source, entry + validity_at({column})]",
            f"mask_{column} = view_u8(valid_{column} if valid_{column} != 0 else x[source, entry], CHUNK)",
        ]
        valid.append(f"(valid_{column} == 0 or mask_{column}[i] != 0)")
    values = in_order(mine, lambda i: f"buffer.{mine.values(i)}[q]", lambda i: f"column_{i}[i]")
    condition = exact(shape, values, in_order(mine, f"buffer.{mine.keys}[q]", "keys[i]"))
    may_raise = shape.user is not None and shape.user.may_raise
    return _CONFIRM.format(
        other=other.name,
        mine_members=mine.members,
        mine_is_right=int(mine.name == "right"),
        views=indent(views, 1),
        record=indent(_RECORD, 3) if may_raise else "",
        condition=" and ".join([*valid, condition]),
    )


__all__ = ["PROBES", "pieces"]
