"""The kernels of an aggregate, A and A+: windows over keys, kept as dense shared arrays.

What all aggregates have in common is in `aggregate_kernel`. This module writes the
rest for one shape of aggregate: which results are emitted, and how tuples are
folded (`fold`; `count_kernel` where they are only counted).

Source      STRETCH, section 2.1 (A), Definition 5 (A+), Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.codegen.included import included
from headrace.codegen.text import indent
from headrace.elastic import local_days
from headrace.elastic.aggregate import (
    aggregate_kernel,
    count_kernel,
    distinct,
    ranked_kernel,
)
from headrace.elastic.aggregate.collected import EMIT_IMPORTS, give_text
from headrace.elastic.aggregate.fold import UNROLLED, fold_text, is_kept_xor, none_of
from headrace.elastic.aggregate.shape import AggregateShape, Layout, Output
from headrace.elastic.build import units_text
from headrace.ingress.key_ranks import KeyRanks
from headrace.ingress.sorting_kernel import BYTE, BYTES
from headrace.ingress.store import directory_width
from headrace.memory.arena import HEAD, allocate_arena
from headrace.memory.bundle import named
from headrace.memory.cells import reserved
from headrace.references import BUCKETS

_CONSTANTS = """
SLOTS = {slots}
DIRECTORY_WIDTH = {directory_width}
SEVERAL_KEYS = {several_keys}
IN_ORDER = {in_order}

"""

_EMIT = """
from headrace.egress.rings import reserve_slots, ring_slot
{imports}

@kernel
def emit(me, o, s, l, buckets, first, place, boundary):
    done = 0
    while done < buckets.size:
        room = reserve_slots(o, me, l[HEAD], buckets.size - done)
        if room < 0:
            return -1
        slot = ring_slot(o, l[HEAD])
        primary, at = o.primary[me, slot : slot + room], o.at[me, slot : slot + room]
        keys = o.a[me, slot : slot + room]
        arrival = l[ARRIVAL]
{views}
        for i in range(room):
            key = first + buckets[done + i]
            p = key * SLOTS + place
            primary[i] = boundary
            at[i] = arrival
            keys[i] = key
{results}
            s.counts[p] = 0
        l[HEAD] += room
        done += room
    return 0

"""

_BY_ID = """
emit_window = emit_by_id

"""

_BY_RANK = """
emit_window = emit_by_rank

"""

_NOTHING_TO_FORGET = """
@kernel
def forget(me, c, s, l, place):
    return

"""

_FORGET = """
from headrace.elastic.aggregate.distinct import forget_window
from headrace.elastic.ownership import owns


@kernel
def forget(me, c, s, l, place):
    for bucket in range(BUCKETS):
        if owns(bucket, l[LOW], l[WIDTH], l[SCATTERED] != 0, c.owner[l[IN_FORCE]], me):
            forget_window({sets}, SLOTS, {distinct}, bucket, place)

"""

_COUNT_KEYS = """
@kernel
def count_keys(counts, keys, earliest, latest):
    if latest - earliest + 1 == SLOTS:
        for i in range(keys.size):
            p = np.int64(keys[i]) * SLOTS
{all_slots}
    else:
        for i in range(keys.size):
            p = np.int64(keys[i]) * SLOTS
            for window in range(earliest, latest + 1):
                counts[p + window % SLOTS] += 1

"""


def generate(shape: AggregateShape) -> str:
    """Write the operator's part of the kernel module."""
    layout = Layout(shape)
    text = _CONSTANTS.format(
        slots=shape.slots,
        directory_width=directory_width(shape.value_columns),
        several_keys=shape.multi_key,
        in_order=shape.in_order,
    )
    text += units_text(shape.is_local) + included(aggregate_kernel) + _emit_text(shape, layout)
    text += included(ranked_kernel) + _BY_RANK if shape.by_rank else _BY_ID
    text += _FORGET.format(sets=layout.sets_text, distinct=len(layout.distinct)) if layout.sets else _NOTHING_TO_FORGET
    if layout.columns:
        return text + fold_text(shape, layout)
    return text + included(count_kernel) + _count_text(shape)


def _emit_text(shape: AggregateShape, layout: Layout) -> str:
    """Write the kernel that emits window instances as results, and resets them to zero."""
    lines = []
    for number, aggregate in enumerate(shape.aggregates):
        out, kept = f"{layout.out_value[number]}[i]", f"s.{layout.value[number]}[p]"
        if aggregate.kind == "count" and aggregate.column is None:
            lines.append(f"{out} = s.counts[p]")
        elif aggregate.kind == "count":
            lines.append(f"{out} = s.counts[p] - s.{layout.nulls[aggregate.column]}[p]")
        elif not layout.value[number]:
            continue
        elif is_kept_xor(aggregate):
            lines += [f"{out} = {kept} ^ {none_of(aggregate.kind)}", f"{kept} = 0"]
        else:
            lines += [f"{out} = {kept}", f"{kept} = 0"]
        if number in layout.high:
            high = f"s.{layout.high[number]}[p]"
            lines += [f"{layout.out_high[number]}[i] = {high}", f"{high} = 0"]
    lines += give_text(shape, layout)
    for column, nulls in layout.nulls.items():
        lines += [f"{layout.out_known[column]}[i] = s.counts[p] - s.{nulls}[p]", f"s.{nulls}[p] = 0"]
    views = [f"{name} = s.{name}[me, slot : slot + room]" for name in layout.results]
    return _EMIT.format(
        views=indent(views, 2),
        results=indent(lines, 3),
        imports=EMIT_IMPORTS if layout.heads else "",
    )


def _count_text(shape: AggregateShape) -> str:
    """Write the kernel that counts keys; its loop over windows is unrolled if there are few."""
    lines = ["for j in range(SLOTS):", "    counts[p + j] += 1"]
    if shape.slots <= UNROLLED:
        lines = [f"counts[p + {j}] += 1" for j in range(shape.slots)]
    return _COUNT_KEYS.format(all_slots=indent(lines, 3))


def allocate_state(
    shape: AggregateShape,
    max_keys: int,
    instances: int,
    capacity: int,
    *,
    texts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]],
    zone: str | None,
    fractions: Sequence[float],
    most: Sequence[int],
    arena_words: int,
):
    """Allocate the bundle `s`: state by key and slot, then the columns of the results.

    Parameters
    ----------
    shape : AggregateShape
    max_keys : int
        Key ids are below it.
    instances, capacity : int
        Number and capacity of the output rings.
    texts : sequence of three ndarray
        The arrays of `memory.text_order`, for each column of `compared_texts`.
    zone : str, optional
        The time zone, if windows are of its days.
    fractions : sequence of float
        The q of each quantile.
    most : sequence of int
        The k of each top.
    arena_words : int
        Limit of the arena for collected and distinct values.
    """
    layout = Layout(shape)
    places = (max_keys // BUCKETS + 1) * BUCKETS * shape.slots
    fields = {name: reserved(places, dtype, huge_pages=True) for name, dtype in layout.by_key.items()}
    fields[layout.opened] = np.zeros(shape.slots, np.int64)
    fields |= local_days.state_of(zone)
    if layout.heads:
        fields |= {name: reserved(places * HEAD, np.int64, huge_pages=True) for name in layout.heads}
        fields[layout.fractions], fields[layout.most] = np.array([*fractions, 0.0]), np.array([*most, 0], np.int64)
        fields[layout.no_texts] = np.zeros(1, np.int64)
    if layout.sets:
        # Containers of a bucket share its free blocks with the sets of the first distinct count: one instance owns both.
        fields |= zip(layout.sets, distinct.allocate(len(layout.distinct), shape.slots, arena_words), strict=True)
    elif layout.heads:
        fields |= zip(layout.arena, allocate_arena(BUCKETS, arena_words), strict=True)
    for names, arrays in zip(layout.texts.values(), texts, strict=True):
        fields |= zip(names, arrays, strict=True)
    for name, dtype in layout.results.items():
        fields[name] = reserved(instances * capacity, dtype).reshape(instances, capacity)
    return named(**fields)


def with_ranks(state: Any, ranks: KeyRanks, instances: int, most_keys: int) -> Any:
    """Add to the bundle `s` the ranks of keys, and for each instance what it takes to sort so many keys by them."""
    row = most_keys + 1
    return named(
        **state._asdict(),
        ranks=ranks.by_id,
        rank_layout=np.array(ranks.layout, np.int64),
        sorted_ids=reserved(2 * instances * row, np.int32).reshape(-1, row),
        sorted_words=reserved(2 * instances * row, np.uint64).reshape(-1, row),
        sorted_counts=np.zeros((instances, BYTES, BYTE), np.int64),
    )


def outputs_of(shape: AggregateShape) -> list[Output]:
    """Return each aggregate with its columns of the results."""
    layout = Layout(shape)
    names = list(layout.results)

    def column(name: str | None) -> int | None:
        return None if name is None else names.index(name)

    return [
        Output(
            aggregate,
            names.index(layout.out_value[number]),
            known=None if aggregate.column is None else column(layout.out_known[aggregate.column]),
            high=column(layout.out_high.get(number)),
            length=column(layout.out_count.get(number)),
        )
        for number, aggregate in enumerate(shape.aggregates)
    ]


def bytes_per_place(shape: AggregateShape) -> int:
    """Bytes of state of one window instance."""
    layout = Layout(shape)
    return sum(np.dtype(dtype).itemsize for dtype in layout.by_key.values()) + 8 * HEAD * len(layout.heads)
