"""How an aggregate folds tuples into windows: the kernel `update_run`, as text.

First it is found where in a run of tuples the keys are that this instance owns,
without a branch on it, which with n instances nobody could predict. Then each
of them is folded into its windows. Nothing in that depends on whether a window
is new: counts and sums begin at 0, and the least or greatest integer is kept
XOR the value that means none, so that zeroed memory is nothing yet.

With more than `UNROLLED` windows a tuple, each aggregate has a loop of its own
over them, which LLVM turns into vectors.
"""

from __future__ import annotations

from headrace.codegen.text import indent
from headrace.operators.aggregate_shape import AggregateColumn, AggregateShape, Layout

UNROLLED = 4

_FOLD = """
@kernel
def update_run(me, c, x, s, l, buffer, ref, rows, earliest, latest):
    source = ref >> SOURCE_SHIFT
    first_row = ref & ROW_MASK
    base = ((first_row >> CHUNK_SHIFT) & (DIRECTORY_CHUNKS - 1)) * WIDTH_COLUMNS
    at = first_row & (CHUNK - 1)
{bind}
{keys}
    windows = latest - earliest + 1
{ring}
    overflow = np.int64(0)
    full = False
    piece = buffer.size - LANES
    while a < e:
        until = min(e, a + piece)
        if l[SCATTERED] == 0:
            used = places_in_range(keys, a, until, buffer, l[LOW], l[WIDTH])
        else:
            used = places_in_table(keys, a, until, buffer, c.owner[l[IN_FORCE]], me)
        for i in range(used):
            q = np.uint64(buffer[i])
            key = np.int64(keys[q])
{row}
{update}
        c.meter[me, UPDATES] += used * windows
        a = until
    if full:
        return -2
    return -1 if overflow < 0 else 0

"""

# A tuple's windows are neighbours in a ring of SLOTS places: one piece of it, or two.
_RING = """
lead = earliest % SLOTS if windows < SLOTS else 0
stop = min(SLOTS, lead + windows)
around = lead + windows - SLOTS
pieces = 2 if around > 0 else 1
"""


def fold_text(shape: AggregateShape, layout: Layout) -> str:
    """Write `update_run` for an aggregate that reads values."""
    if shape.multi_key:
        keys = (
            "offsets = view_i32(x[source, base + 1], CHUNK + 1)\n"
            "a = np.int64(offsets[at])\n"
            "e = np.int64(offsets[at + rows])\n"
            "keys = view_i32(x[source, base + 2], e)\n"
            "r = at"
        )
        row = "while offsets[r + 1] <= q:\n    r += 1"
    else:
        keys = "a = at\ne = at + rows\nkeys = view_i32(x[source, base + 2], e)"
        row = "r = q"
    return _FOLD.format(
        bind=indent(_bind_columns(shape, layout), 1).rstrip("\n"),
        keys=indent(keys, 1).rstrip("\n"),
        ring=indent(_RING, 1).rstrip("\n") if shape.slots > 1 else "",
        row=indent(row, 3).rstrip("\n"),
        update=indent(_update_text(shape, layout), 3).rstrip("\n"),
    )


def none_of(kind: str) -> str:
    """The integer that a least or greatest one begins with, as text."""
    return "NO_LEAST" if kind == "min" else "NO_GREATEST"


def is_kept_xor(aggregate: AggregateColumn) -> bool:
    """Whether the state is the value XOR `none_of`."""
    return aggregate.kind in ("min", "max") and aggregate.dtype == "int64" and not aggregate.is_text


def _update_text(shape: AggregateShape, layout: Layout) -> str:
    """Statements that fold key `key` of row `r` into its windows."""
    lines = _over_windows(shape, [["s[0][p] += 1"]])
    for column in layout.columns:
        blocks = [
            _block(aggregate, number, at, layout)
            for number, (aggregate, at) in enumerate(zip(shape.aggregates, layout.value, strict=True))
            if aggregate.column == column and at >= 0
        ]
        lines.append(f"if not masked_{column} or valid_{column}[r] != 0:")
        lines += ["    " + line for line in [f"value_{column} = column_{column}[r]", *_over_windows(shape, blocks)]]
        lines.append("else:")
        lines += ["    " + line for line in _over_windows(shape, [[f"s[{layout.nulls[column]}][p] += 1"]])]
    if shape.slots == 1:
        return "p = np.uint64(key)\n" + "\n".join(lines)
    pieces = ["first = key * SLOTS", "for piece_number in range(pieces):"]
    pieces += ["    low = lead if piece_number == 0 else 0", "    high = stop if piece_number == 0 else around"]
    return "\n".join(pieces + ["    " + line for line in lines])


def _over_windows(shape: AggregateShape, blocks: list[list[str]]) -> list[str]:
    """Repeat statements for each place `p` of the windows from `low` to `high`."""
    if shape.slots == 1:
        return [line for block in blocks for line in block]
    if shape.slots <= UNROLLED:
        blocks = [[line for block in blocks for line in block]]
    lines = []
    for block in blocks:
        if block:
            lines.append("for j in range(low, high):")
            # Unsigned: a signed index might count from the end, which keeps LLVM from making vectors.
            lines += ["    " + line for line in ["p = np.uint64(first + j)", *block]]
    return lines


def _block(aggregate: AggregateColumn, number: int, at: int, layout: Layout) -> list[str]:
    """Statements that fold the value into place `p` of one aggregate."""
    assert aggregate.column is not None
    value, state = f"value_{aggregate.column}", f"s[{at}][p]"
    # The tuple itself is counted already.
    is_first = f"s[0][p] - 1 == s[{layout.nulls[aggregate.column]}][p]"
    if aggregate.kind == "mean" and aggregate.dtype == "int64":
        # In 128 bits: an overflow goes up or down as the value's sign says.
        return [
            f"old_{number} = {state}",
            f"total_{number} = old_{number} + {value}",
            f"over_{number} = ((total_{number} ^ old_{number}) & (total_{number} ^ {value})) >> 63",
            f"s[{layout.high[number]}][p] += over_{number} & (({value} >> 63) | 1)",
            f"{state} = total_{number}",
        ]
    if aggregate.kind == "sum" and aggregate.dtype == "int64":
        return [
            f"old_{number} = {state}",
            f"total_{number} = old_{number} + {value}",
            f"overflow |= (total_{number} ^ old_{number}) & (total_{number} ^ {value})",
            f"{state} = total_{number}",
        ]
    if aggregate.kind in ("sum", "mean"):
        return [f"{state} += {value}"]
    if is_kept_xor(aggregate):
        none = none_of(aggregate.kind)
        return [f"{state} = {aggregate.kind}({state} ^ {none}, {value}) ^ {none}"]
    if aggregate.kind in ("min", "max"):
        return [f"if {is_first} or {_is_better(aggregate, at, value, layout)}:", f"    {state} = {value}"]
    if aggregate.kind == "first":
        return [f"if {is_first}:", f"    {state} = {value}"]
    if aggregate.kind == "last":
        return [f"{state} = {value}"]
    assert aggregate.kind == "count_distinct"
    if aggregate.dtype == "float64":
        value = f"float_bits({value}, bits_{aggregate.column}[r])"
    slot = "j" if layout.slots > 1 else "0"
    return [
        f"new_{number} = add_value({layout.sets_text}, SLOTS, {layout.distinct.index(number)}, key, {slot}, {value})",
        f"if new_{number} < 0:",
        "    full = True",
        "else:",
        f"    {state} += new_{number}",
    ]


def _is_better(aggregate: AggregateColumn, at: int, value: str, layout: Layout) -> str:
    """Whether a string or a float is to replace what is kept."""
    kept = f"s[{at}][p]"
    if aggregate.is_text:
        assert aggregate.column is not None
        by = ", ".join(f"s[{layout.texts[aggregate.column] + i}]" for i in range(3))
        pair = f"{value}, {kept}" if aggregate.kind == "min" else f"{kept}, {value}"
        return f"text_less({by}, {pair})"
    better = f"{value} {'<' if aggregate.kind == 'min' else '>'} {kept}"
    if aggregate.ignore_nan:  # NaN only while nothing else was met
        return f"{better} or {kept} != {kept}"
    return f"{better} or {value} != {value}"


def _bind_columns(shape: AggregateShape, layout: Layout) -> str:
    """Statements that find each column of the chunk, and which of its values are null."""
    lines = []
    for column in layout.columns:
        dtype = next(a.dtype for a in shape.aggregates if a.column == column)
        address = f"x[source, base + {3 + 2 * column}]"
        lines += [
            f"valid_address = x[source, base + {3 + 2 * column + 1}]",
            f"masked_{column} = valid_address != 0",
            f"valid_{column} = view_u8(valid_address if masked_{column} else x[source, base], CHUNK)",
            f"column_{column} = {'view_i64' if dtype == 'int64' else 'view_f64'}({address}, CHUNK)",
        ]
        if dtype == "float64" and layout.distinct:
            lines.append(f"bits_{column} = view_i64({address}, CHUNK)")
    return "\n".join(lines)
