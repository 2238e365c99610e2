"""Text that collects values and computes results of them: lists, sets, quantiles, the most frequent value, the k best.

Aggregates of one column share a container: a list of all its values
(`collect_list`, `quantile`), or a map of its distinct values (`collect_set`, `mode`).
`top` has a heap of its own. Each window instance has its own container of
`headrace.memory`, in blocks of the bucket's owner, given back when the window ends.

A value is kept as one word: an integer, the bits of a float (in maps the same bits
for equal floats), or the id of a string.
"""

from __future__ import annotations

from headrace.elastic.aggregate.collected_kernel import PAIR_WORDS
from headrace.elastic.aggregate.shape import AggregateColumn, AggregateShape, Layout, dtype_of
from headrace.memory.maps_kernel import VALUE

FOLD_IMPORTS = """
from headrace.elastic.aggregate.collected_kernel import keep_best
from headrace.elastic.failures import STATE_FULL
from headrace.memory.arena import CLASSES
from headrace.memory.arena import HEAD as HEAD_WORDS
from headrace.memory.lists_kernel import list_append
from headrace.memory.maps_kernel import VALUE, map_put
from headrace.references import BUCKETS
"""

EMIT_IMPORTS = """
from headrace.egress.words_ring import write_words
from headrace.elastic.aggregate.collected_kernel import (
    PAIR_SHIFT,
    most_frequent,
    order_best,
    quantile_of_floats,
    quantile_of_integers,
    quantile_of_times,
    rank_floats,
)
from headrace.memory.arena import CLASSES, COUNT, FIRST, release
from headrace.memory.arena import HEAD as HEAD_WORDS
from headrace.memory.lists_kernel import ORDER_FLOAT, ORDER_INT, ORDER_TEXT
from headrace.memory.maps_kernel import map_order
from headrace.references import BUCKETS
"""

OWNER = "owner = (key & (BUCKETS - 1)) * CLASSES"

_BLOCKS = "s.kept_free, s.kept_arena, owner"


def word_of(shape: AggregateShape, column: int) -> str:
    """Write the word of a column's value in row `r`, unchanged."""
    return f"bits_{column}[r]" if dtype_of(shape, column) == "float64" else f"column_{column}[r]"


def order_text(layout: Layout, column: int, dtype: str, is_text: bool) -> str:
    """Write the four arguments by which words of a column are compared."""
    names = layout.texts[column] if is_text else (layout.no_texts,) * 3
    order = "ORDER_TEXT" if is_text else "ORDER_FLOAT" if dtype == "float64" else "ORDER_INT"
    return ", ".join([order, *(f"s.{name}" for name in names)])


def _orders(layout: Layout, top: AggregateColumn) -> str:
    assert top.column is not None and top.by is not None
    own = order_text(layout, top.column, top.dtype, top.is_text)
    return f"{own}, {order_text(layout, top.by, top.by_dtype, top.by_is_text)}"


def keep_text(shape: AggregateShape, layout: Layout, column: int) -> list[list[str]]:
    """Write the statements that keep a column's value in place `p`, one block for each container."""
    blocks = []
    if column in layout.collected:
        heads = f"s.{layout.collected[column]}"
        blocks.append([
            f"if list_append({_BLOCKS}, {heads}, np.int64(p) * HEAD_WORDS, {word_of(shape, column)}) < 0:",
            "    full = STATE_FULL",
        ])
    if column in layout.counted:
        heads, width = f"s.{layout.counted[column]}", layout.width(column)
        key = f"value_{column}"
        if dtype_of(shape, column) == "float64":
            key = f"float_bits({key}, {word_of(shape, column)})"
        block = [
            f"entry_{column} = map_put({_BLOCKS}, {heads}, np.int64(p) * HEAD_WORDS, {key}, {width})",
            f"if entry_{column} < 0:",
            "    full = STATE_FULL",
        ]
        if width:
            block += ["else:", f"    s.kept_arena[entry_{column} + VALUE] += 1"]
        blocks.append(block)
    return blocks


def best_text(shape: AggregateShape, layout: Layout, number: int) -> list[str]:
    """Write the statements by which `top` keeps the values of a row in place `p`."""
    top = shape.aggregates[number]
    assert top.column is not None and top.by is not None
    most = f"s.{layout.most}[{layout.tops.index(number)}]"
    heads = f"s.{layout.best[number]}, np.int64(p) * HEAD_WORDS"
    words = f"{word_of(shape, top.column)}, {word_of(shape, top.by)}"
    return [
        f"if keep_best({_BLOCKS}, {heads}, {most}, {words}, {_orders(layout, top)}) < 0:",
        "    full = STATE_FULL",
    ]


def give_text(shape: AggregateShape, layout: Layout) -> list[str]:
    """Write the statements that compute the results of place `p` and give its blocks back."""
    lines = [OWNER, "head = p * HEAD_WORDS"] if layout.heads else []
    for column, name in layout.collected.items():
        lines += _give_values(shape, layout, column, f"s.{name}")
    for column, name in layout.counted.items():
        lines += _give_different(shape, layout, column, f"s.{name}")
    for number, name in layout.best.items():
        heads = f"s.{name}"
        lines.append(f"order_best(s.kept_arena, {heads}, head, {_orders(layout, shape.aggregates[number])})")
        lines += _write(layout, number, f"{heads}[head + FIRST]", f"{heads}[head + COUNT] >> PAIR_SHIFT", PAIR_WORDS)
        lines.append(f"release({_BLOCKS}, {heads}, head)")
    return lines


def _of(shape: AggregateShape, column: int, kind: str) -> list[tuple[int, AggregateColumn]]:
    return [(i, a) for i, a in enumerate(shape.aggregates) if a.column == column and a.kind == kind]


def _write(layout: Layout, number: int, first: str, count: str, step: int) -> list[str]:
    """Write the statements that put a list into the instance's ring of words."""
    return [
        f"words = {count}",
        f"position = write_words(o, me, s.kept_arena, {first}, words, {step})",
        "if position < 0:",
        "    return -1",
        f"{layout.out_value[number]}[i] = position",
        f"{layout.out_count[number]}[i] = words",
    ]


def _give_values(shape: AggregateShape, layout: Layout, column: int, heads: str) -> list[str]:
    """Write the results of a column's list: lists first, because the selection of quantiles reorders the values."""
    lines = [f"block, held = {heads}[head + FIRST], {heads}[head + COUNT]"]
    for number, _ in _of(shape, column, "collect_list"):
        lines += _write(layout, number, "block", "held", 1)
    quantiles = _of(shape, column, "quantile")
    is_float = dtype_of(shape, column) == "float64"
    if quantiles and is_float:
        lines.append("numbers = rank_floats(s.kept_arena, block, held)")
    for number, aggregate in quantiles:
        fraction = f"s.{layout.fractions}[{layout.quantiles.index(number)}]"
        if is_float:
            found = f"quantile_of_floats(s.kept_arena, block, held, numbers, {fraction}, {aggregate.ignore_nan})"
        else:
            step = aggregate.time_step
            found = f"quantile_of_integers(s.kept_arena, block, held, {fraction})"
            if step:
                found = f"quantile_of_times(s.kept_arena, block, held, {fraction}, {step})"
        lines.append(f"{layout.out_value[number]}[i] = {found}")
    return [*lines, f"release({_BLOCKS}, {heads}, head)"]


def _give_different(shape: AggregateShape, layout: Layout, column: int, heads: str) -> list[str]:
    dtype, is_text = dtype_of(shape, column), any(a.is_text for a in shape.aggregates if a.column == column)
    order, width = order_text(layout, column, dtype, is_text), layout.width(column)
    lines = []
    for number, _ in _of(shape, column, "mode"):
        found = f"most_frequent(s.kept_arena, {heads}, head, {order})"
        if dtype == "float64":
            found = f"np.int64({found}).view(np.float64)"
        lines.append(f"{layout.out_value[number]}[i] = {found}")
    sets = _of(shape, column, "collect_set")
    if sets:
        lines.append(f"map_order(s.kept_arena, {heads}, head, {width}, {order})")
    for number, _ in sets:
        lines += _write(layout, number, f"{heads}[head + FIRST]", f"{heads}[head + COUNT]", VALUE + width)
    return [*lines, f"release({_BLOCKS}, {heads}, head)"]
