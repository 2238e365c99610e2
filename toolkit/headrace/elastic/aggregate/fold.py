"""How an aggregate folds tuples into windows: the text of the kernel `update_run`.

The kernel first finds the keys in a run of tuples that this instance owns, without
a branch on ownership, which with several instances would be unpredictable. Then it
folds each of them into its windows. Folding does not depend on whether a window
is new: counts and sums begin at 0, and the least or greatest integer is kept
XOR the value that means none, so that zeroed memory means no value yet.

With more than `UNROLLED` windows per tuple, each aggregate has its own loop over
them, which LLVM vectorises.
"""

from __future__ import annotations

from headrace.codegen.text import indent
from headrace.elastic.aggregate.collected import FOLD_IMPORTS, OWNER, best_text, keep_text
from headrace.elastic.aggregate.shape import AggregateColumn, AggregateShape, Layout, dtype_of

UNROLLED = 4

_FOLD = """
from headrace.elastic.aggregate.distinct import add_value
from headrace.elastic.failures import STATE_FULL, SUM_OVERFLOW
from headrace.elastic.ownership import LANES, places_in_range, places_in_table
from headrace.elastic.words import UPDATES
from headrace.ingress.store import CHUNK, KEYS, OFFSETS, TS
from headrace.ingress.store_kernel import keys_between, locate, validity_at, values_at
from headrace.memory.atomics import view_f64, view_i32, view_i64, view_u8
from headrace.memory.text_order import text_less
from headrace.memory.words import float_bits
from headrace.memory.wrapped import wrapped_sum
{imports}
NO_LEAST, NO_GREATEST = 2**63 - 1, -(2**63)


@kernel
def update_run(me, c, x, s, l, buffer, ref, rows, earliest, latest):
    source, entry, k = locate(ref, DIRECTORY_WIDTH)
    end = k + rows
{columns}
{keys}
    windows = latest - earliest + 1
{ring}
    overflow = np.int64(0)
    full = 0
    piece = buffer.size - LANES
    while k < end:
        until = min(end, k + piece)
        if l[SCATTERED] == 0:
            used = places_in_range(keys, k, until, buffer, l[LOW], l[WIDTH])
        else:
            used = places_in_table(keys, k, until, buffer, c.owner[l[IN_FORCE]], me)
        for i in range(used):
            q = np.uint64(buffer[i])
            key = np.int64(keys[q])
{row}
{update}
        c.meter[me, UPDATES] += used * windows
        k = until
    if full != 0:
        return full
    return SUM_OVERFLOW if overflow < 0 else 0

"""

# A tuple's windows are neighbours in a ring of SLOTS places, so they make one piece or two.
_RING = """
lead = earliest % SLOTS if windows < SLOTS else 0
stop = min(SLOTS, lead + windows)
around = lead + windows - SLOTS
pieces = 2 if around > 0 else 1
"""

_ONE_KEY = """
keys = view_i32(x[source, entry + KEYS], end)
"""

_SEVERAL_KEYS = """
r = k
offsets = view_i32(x[source, entry + OFFSETS], CHUNK + 1)
k, end = keys_between(x, source, entry, k, end)
keys = view_i32(x[source, entry + KEYS], end)
"""

_COLUMN = """
validity = x[source, entry + validity_at({column})]
masked_{column} = validity != 0
valid_{column} = view_u8(validity if masked_{column} else x[source, entry + TS], CHUNK)
column_{column} = {view}(x[source, entry + values_at({column})], CHUNK)
"""

_BITS = """
bits_{column} = view_i64(x[source, entry + values_at({column})], CHUNK)
"""


def fold_text(shape: AggregateShape, layout: Layout) -> str:
    """Write `update_run` for an aggregate that reads values."""
    row = "while offsets[r + 1] <= q:\n    r += 1" if shape.multi_key else "r = q"
    return _FOLD.format(
        columns=indent(_columns_text(shape, layout), 1),
        keys=indent(_SEVERAL_KEYS if shape.multi_key else _ONE_KEY, 1),
        ring=indent(_RING, 1) if shape.slots > 1 else "",
        row=indent(row, 3),
        update=indent(_update_text(shape, layout), 3),
        imports=FOLD_IMPORTS if layout.heads else "",
    )


def _columns_text(shape: AggregateShape, layout: Layout) -> str:
    """Write the views of the chunk's columns and of their validity."""
    text = ""
    for column in layout.columns:
        dtype = dtype_of(shape, column)
        text += _COLUMN.format(column=column, view="view_i64" if dtype == "int64" else "view_f64")
        if dtype == "float64" and (layout.distinct or layout.heads):
            text += _BITS.format(column=column)
    return text.replace("\n\n", "\n")


def none_of(kind: str) -> str:
    """The text of the integer that min or max begins with."""
    return "NO_LEAST" if kind == "min" else "NO_GREATEST"


def is_kept_xor(aggregate: AggregateColumn) -> bool:
    """Whether the state holds the value XOR `none_of`."""
    return aggregate.kind in ("min", "max") and aggregate.dtype == "int64" and not aggregate.is_text


def _update_text(shape: AggregateShape, layout: Layout) -> str:
    """Write the statements that fold key `key` of row `r` into its windows."""
    lines = _over_windows(shape, [["s.counts[p] += 1"]])
    for column in layout.columns:
        blocks = [
            _block(aggregate, number, layout)
            for number, aggregate in enumerate(shape.aggregates)
            if aggregate.column == column and layout.value[number]
        ]
        blocks += keep_text(shape, layout, column)
        lines.append(f"if not masked_{column} or valid_{column}[r] != 0:")
        lines += ["    " + line for line in [f"value_{column} = column_{column}[r]", *_over_windows(shape, blocks)]]
        lines.append("else:")
        lines += ["    " + line for line in _over_windows(shape, [[f"s.{layout.nulls[column]}[p] += 1"]])]
    for number in layout.tops:
        columns = shape.aggregates[number].columns
        lines.append(f"if {' and '.join(f'(not masked_{c} or valid_{c}[r] != 0)' for c in columns)}:")
        lines += ["    " + line for line in _over_windows(shape, [best_text(shape, layout, number)])]
    owner = [OWNER] if layout.heads else []
    if shape.slots == 1:
        return "\n".join(["p = np.uint64(key)", *owner, *lines])
    pieces = [*owner, "first = key * SLOTS", "for piece_number in range(pieces):"]
    pieces += ["    low = lead if piece_number == 0 else 0", "    high = stop if piece_number == 0 else around"]
    return "\n".join(pieces + ["    " + line for line in lines])


def _over_windows(shape: AggregateShape, blocks: list[list[str]]) -> list[str]:
    """Write loops that run the statements for each place `p` of the windows from `low` to `high`."""
    if shape.slots == 1:
        return [line for block in blocks for line in block]
    if shape.slots <= UNROLLED:
        blocks = [[line for block in blocks for line in block]]
    lines = []
    for block in blocks:
        if block:
            lines.append("for j in range(low, high):")
            # Unsigned: a signed index might count from the end, which would keep LLVM from vectorising.
            lines += ["    " + line for line in ["p = np.uint64(first + j)", *block]]
    return lines


def _block(aggregate: AggregateColumn, number: int, layout: Layout) -> list[str]:
    """Write the statements that fold the value into place `p` of one aggregate."""
    assert aggregate.column is not None
    value, kept = f"value_{aggregate.column}", f"s.{layout.value[number]}[p]"
    # `counts` already includes this tuple.
    is_first = f"s.counts[p] - 1 == s.{layout.nulls[aggregate.column]}[p]"
    if number in layout.high:
        # In 128 bits: the sign of the value says whether an overflow carries or borrows.
        return [
            f"old_{number} = {kept}",
            f"total_{number} = wrapped_sum(old_{number}, {value})",
            f"over_{number} = ((total_{number} ^ old_{number}) & (total_{number} ^ {value})) >> 63",
            f"s.{layout.high[number]}[p] += over_{number} & (({value} >> 63) | 1)",
            f"{kept} = total_{number}",
        ]
    if aggregate.kind == "sum" and aggregate.dtype == "int64":
        return [
            f"old_{number} = {kept}",
            f"total_{number} = wrapped_sum(old_{number}, {value})",
            f"overflow |= (total_{number} ^ old_{number}) & (total_{number} ^ {value})",
            f"{kept} = total_{number}",
        ]
    if aggregate.kind in ("sum", "mean"):
        return [f"{kept} += {value}"]
    if is_kept_xor(aggregate):
        none = none_of(aggregate.kind)
        return [f"{kept} = {aggregate.kind}({kept} ^ {none}, {value}) ^ {none}"]
    if aggregate.kind in ("min", "max"):
        return [f"if {is_first} or {_is_better(aggregate, kept, value, layout)}:", f"    {kept} = {value}"]
    if aggregate.kind == "first":
        return [f"if {is_first}:", f"    {kept} = {value}"]
    if aggregate.kind == "last":
        return [f"{kept} = {value}"]
    assert aggregate.kind == "count_distinct"
    if aggregate.dtype == "float64":
        value = f"float_bits({value}, bits_{aggregate.column}[r])"
    slot = "j" if layout.slots > 1 else "0"
    return [
        f"new_{number} = add_value({layout.sets_text}, SLOTS, {layout.distinct.index(number)}, key, {slot}, {value})",
        f"if new_{number} < 0:",
        "    full = STATE_FULL",
        "else:",
        f"    {kept} += new_{number}",
    ]


def _is_better(aggregate: AggregateColumn, kept: str, value: str, layout: Layout) -> str:
    """Write the condition that a string or a float replaces the value kept."""
    if aggregate.is_text:
        assert aggregate.column is not None
        by = ", ".join(f"s.{name}" for name in layout.texts[aggregate.column])
        pair = f"{value}, {kept}" if aggregate.kind == "min" else f"{kept}, {value}"
        return f"text_less({by}, {pair})"
    better = f"{value} {'<' if aggregate.kind == 'min' else '>'} {kept}"
    if aggregate.ignore_nan:  # NaN is kept only until another value comes
        return f"{better} or {kept} != {kept}"
    return f"{better} or {value} != {value}"
