"""Shared-nothing parallelism: the same operators, with a private queue, store and state for each instance.

The baseline that shows what VSN saves. An operator's own kernels run unchanged;
around them other text takes the place of what sharing gave for nothing:

    input      a queue for each pair of source and instance (`instance_queues`)
               that the source's router copies tuples into (`router_kernel`),
               instead of one log that all read
    position   comes with each record, since an instance sees only its tuples
    state      an array set per instance; at the barrier of a reconfiguration
               the last arriver moves the state of every key that changes owner

State moves while all members wait, so no key is updated meanwhile. Bytes and
nanoseconds are noted for each epoch.

Two things differ from a distributed engine, both in its favour: columns carried
by reference (strings) are not copied, and results meet in the same output gate.

Source      STRETCH, section 2.2, Algorithms 1 and 2, Corollary 1.
"""

from __future__ import annotations

import dataclasses
import inspect
from types import ModuleType

import numpy as np

from headrace.codegen.modules import load_module
from headrace.codegen.text import in_templates, indent
from headrace.operators import build, custom, router_kernel
from headrace.operators.custom_shape import CustomShape
from headrace.operators.join_shape import JoinShape
from headrace.operators.membership import EPOCH_RING

TOTAL = EPOCH_RING
"""Row of the table of transfers that sums up all epochs."""

_VIEWS = {8: "view_i64", 4: "view_i32", 1: "view_u8"}

_KEYED = """
@kernel
def transfer(me, c, s, config, next_config, epoch):
    \"\"\"Move the window instances of every key whose bucket changes owner, from array set to array set.\"\"\"
    begun = now_ns()
    arrays = s[{table}]
    rows = load_acquire(c.words, IDS)
    places = rows * BUCKETS * {slots}
    moved = 0
    for bucket in range(BUCKETS):
        old = np.int64(c.owner[config, bucket])
        new = np.int64(c.owner[next_config, bucket])
        if old == new:
            continue
{views}
        for row in range(rows):
            first = (row * BUCKETS + bucket) * {slots}
            for p in range(first, first + {slots}):
                if a_0[p] != 0:
{copies}
                    moved += {bytes}
{sets}
{windows}
    note_transfer(s, epoch, moved, now_ns() - begun)

"""

_WINDOWS = """
# When a window opened is known to whoever saw a tuple of it. The latest is right or
# close to it for every member that did not: its own entry belongs to a window long closed.
for place in range({slots}):
    latest = 0
    for r in range(c.member.shape[1]):
        if c.member[config, r] != 0:
            latest = max(latest, view_i64(arrays[r, {opened}], {slots})[place])
    for r in range(c.member.shape[1]):
        if c.member[next_config, r] != 0:
            view_i64(arrays[r, {opened}], {slots})[place] = latest
"""

_SETS_IMPORTS = """
from headrace.operators.distinct import (
    ARENA_WORDS, CLASSES, DISTINCT_FULL, TABLE_WORDS, move_bucket
)
from headrace.operators.membership import fail

"""

_SETS = """
moved_sets = move_bucket(
    view_i64(arrays[old, {sets}], {distinct} * BUCKETS * {slots} * TABLE_WORDS),
    view_i64(arrays[old, {sets} + 1], {distinct} * BUCKETS * CLASSES),
    view_i64(arrays[old, {sets} + 2], ARENA_WORDS),
    view_i64(arrays[new, {sets}], {distinct} * BUCKETS * {slots} * TABLE_WORDS),
    view_i64(arrays[new, {sets} + 1], {distinct} * BUCKETS * CLASSES),
    view_i64(arrays[new, {sets} + 2], ARENA_WORDS),
    {slots}, {distinct}, bucket,
)
if moved_sets < 0:
    fail(c, DISTINCT_FULL, me, 0, 0, 0, 0)
moved += max(0, moved_sets)
"""

_LISTS_IMPORTS = """
from headrace.operators.membership import fail
from headrace.operators.stored import STORED_FULL, TOP, give_chain, take_node

POOL_WORDS = 3 * (TOP + CELL)
NODES = 1 << 33  # views need a size; the arrays are as long as the limit says

"""

_LISTS_VIEWS = """
following = view_i64(arrays[old, {following}], NODES)
following_new = view_i64(arrays[new, {following}], NODES)
below = view_i64(arrays[old, {following} + 1], NODES)
below_new = view_i64(arrays[new, {following} + 1], NODES)
pool = view_i64(arrays[old, {following} + 2], POOL_WORDS)
pool_new = view_i64(arrays[new, {following} + 2], POOL_WORDS)
own_new = view_i64(arrays[new, {following} + 3], c.member.shape[1] * CELL)
"""

_LISTS = """
node = b_{first}[p]
last = 0
while node != 0:
    copy = take_node(following_new, below_new, pool_new, own_new, new)
    if copy == 0:
        fail(c, STORED_FULL, me, 0, 0, 0, 0)
        return
{copies}
    if last == 0:
        b_{first}[p] = copy
    else:
        following_new[last] = copy
    last = copy
    moved += {bytes}
    node = following[node]
b_{last}[p] = last
"""

_STATELESS = """
@kernel
def transfer(me, c, s, config, next_config, epoch):
    note_transfer(s, epoch, 0, 0)

"""

_NOTE = """
from headrace.memory.atomics import load_acquire, now_ns, view_i32, view_i64, view_u8
from headrace.operators.membership import BUCKETS, EPOCH_RING, IDS


@kernel
def note_transfer(s, epoch, moved, ns):
    noted = s[{noted}]
    noted[epoch % EPOCH_RING, 0] = moved
    noted[epoch % EPOCH_RING, 1] = ns
    noted[{total}, 0] += moved
    noted[{total}, 1] += ns

"""

_STORED = """
@kernel
def transfer(me, c, s, config, next_config, epoch):
    \"\"\"Copy stored tuples to the new owners of their buckets, and all event times to joiners.

    An instance has every tuple that arrived while it was a member, and owns
    those of its buckets; times it needs of all, to know which are too old.
    \"\"\"
    begun = now_ns()
    arrays, stores = s[{table}], s[{stores}]
    sides, lows, highs = s[0], s[1], s[2]
    moved = 0
    for source in range(sides.size):
        low = lows[me, source]
        high = highs[me, source]
        for r in range(c.member.shape[1]):
            if c.member[next_config, r] != 0 and c.member[config, r] == 0:
                at = r * sides.size + source
                view_i64(arrays[r, 1], at + 1)[at] = low
                view_i64(arrays[r, 2], at + 1)[at] = high
                moved += copy_times(stores, source, LEFT_WIDTH if sides[source] == 0 else RIGHT_WIDTH, low, high, me, r)
        for row in range(low, high):
            bucket = row & (BUCKETS - 1)
            old = c.owner[config, bucket]
            new = c.owner[next_config, bucket]
            if old != new:
                if sides[source] == 0:
                    moved += copy_left(stores, source, row, old, new)
                else:
                    moved += copy_right(stores, source, row, old, new)
    note_transfer(s, epoch, moved, now_ns() - begun)


@kernel
def copy_times(stores, source, width, low, high, me, r):
    row = low
    while row < high:
        at = row & (CHUNK - 1)
        stop = min(CHUNK, at + high - row)
        here = view_i64(stores[me, source, entry(row, width)], CHUNK)
        there = view_i64(stores[r, source, entry(row, width)], CHUNK)
        for i in range(at, stop):
            there[i] = here[i]
        row += stop - at
    return 8 * (high - low)

"""

_COPY_ROW = """
@kernel
def copy_{side}(stores, source, row, old, new):
    base = entry(row, {side_width})
    i = row & (CHUNK - 1)
    moved = 0
{copies}
    return moved

"""

_ROUTED = """
@kernel
def process_routed(me, g, c, o, x, s, l, buffer, row, start, count):
    \"\"\"Process records run by run: within a run their positions in the merged input follow each other.\"\"\"
    seen = g.out_seen[row, start : start + count]
    i = 0
    while i < count:
        until = i + 1
        while until < count and seen[until] - seen[i] == until - i:
            until += 1
        l[SEEN] = seen[i]
{ticks}
        if process(me, g, c, o, x, s, l, buffer, row, start + i, until - i) < 0:
            return -1
        i = until
    l[SEEN] = seen[count - 1] + 1 - count
    return 0

"""

_ROUTED_AT_ONCE = """
@kernel
def process_routed(me, g, c, o, x, s, l, buffer, row, start, count):
    # Nothing depends on the position of a single tuple.
    return process(me, g, c, o, x, s, l, buffer, row, start, count)

"""


@dataclasses.dataclass(frozen=True)
class Lists:
    """Kept tuples of window instances, as `transfer` copies them from pool to pool.

    Parameters
    ----------
    first, last : int
        Which of the state's arrays hold a list's ends.
    following : int
        Index in the state of the first of the four arrays of `stored`.
    arrays : tuple of (int, int)
        Index in the state and bytes of an element, by node.
    """

    first: int
    last: int
    following: int
    arrays: tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class KeyedState:
    """State by key id and window slot, as `transfer` moves it.

    Parameters
    ----------
    slots : int
        Places of a key.
    arrays : tuple of (int, int)
        Index in the state and bytes of an element; the first one is non-zero where a window instance is.
    opened : int or None
        Index of the array that says when each window opened.
    sets : int or None
        Index of the first of the three arrays of sets of distinct values.
    distinct : int
        How many distinct counts there are.
    lists : Lists or None
        Of kept tuples.
    """

    slots: int
    arrays: tuple[tuple[int, int], ...]
    opened: int | None = None
    sets: int | None = None
    distinct: int = 0
    lists: Lists | None = None


class _HeldBack(CustomShape):
    """A custom operator that releases emissions when their boundary passes, always.

    Promises by position need every instance to read every tuple. The order of
    the results is the same, since it never depends on promises.
    """

    @property
    def is_held_back(self) -> bool:
        return True


def custom_text(shape: CustomShape) -> str:
    """Write a custom operator's kernels for instances that see only their own tuples."""
    fields = {field.name: getattr(shape, field.name) for field in dataclasses.fields(shape)}
    return custom.generate(_HeldBack(**fields))


def keyed_transfer(state: KeyedState, table: int) -> str:
    """Write `transfer` for state by key. `table` is the place of the address table in `s`."""
    views, copies = [], []
    for number, (place, size) in enumerate(state.arrays):
        view = _VIEWS[size]
        views += [
            f"a_{number} = {view}(arrays[old, {place}], places)",
            f"b_{number} = {view}(arrays[new, {place}], places)",
        ]
        copies += [f"b_{number}[p] = a_{number}[p]", f"a_{number}[p] = 0"]
    # The first array says what is there: it is cleared last.
    copies = [*copies[2:], *copies[:2]]
    if state.lists is not None:
        views += _LISTS_VIEWS.format(following=state.lists.following).strip().split("\n")
        nodes = []
        for number, (place, size) in enumerate(state.lists.arrays):
            for who, name in (("old", "v"), ("new", "w")):
                views.append(f"{name}_{number} = {_VIEWS[size]}(arrays[{who}, {place}], NODES)")
            nodes.append(f"w_{number}[copy] = v_{number}[node]")
        lists = _LISTS.format(
            first=state.lists.first,
            last=state.lists.last,
            copies=indent("\n".join(nodes), 1).rstrip("\n"),
            bytes=sum(size for _, size in state.lists.arrays),
        )
        copies = [
            f"old_first = a_{state.lists.first}[p]",
            *copies,
            *lists.strip().split("\n"),
            "if old_first != 0:",
            "    give_chain(below, pool, old_first)",
        ]
    windows = "" if state.opened is None else _WINDOWS.format(slots=state.slots, opened=state.opened)
    text = _KEYED.format(
        table=table,
        slots=state.slots,
        views=indent("\n".join(views), 2).rstrip("\n"),
        copies=indent("\n".join(copies), 5).rstrip("\n"),
        bytes=sum(size for _, size in state.arrays),
        sets=""
        if state.sets is None
        else indent(_SETS.format(sets=state.sets, distinct=state.distinct, slots=state.slots), 2).rstrip("\n"),
        windows=indent(windows, 1).rstrip("\n") if windows else "",
    )
    imports = "" if state.sets is None else _SETS_IMPORTS
    if state.lists is not None:
        imports += _LISTS_IMPORTS
    return _note(table) + imports + text


def stored_transfer(shape: JoinShape, table: int) -> str:
    """Write `transfer` for a join: its state is the tuples stored."""
    text = _note(table) + _STORED.format(table=table, stores=table + 2)
    for side, dtypes in (("left", shape.left_dtypes), ("right", shape.right_dtypes)):
        copies = []
        entries = [
            ("base", 8),
            *((f"base + {3 + 2 * i}", np.dtype(d).itemsize) for i, d in enumerate(dtypes)),
        ]
        if shape.on_keys:
            entries.append(("base + 2", 4))
        for at, size in entries:
            view = _VIEWS[size]
            copies.append(
                f"{view}(stores[new, source, {at}], CHUNK)[i] = {view}(stores[old, source, {at}], CHUNK)[i]"
            )
        copies.append(f"moved += {sum(size for _, size in entries)}")
        for i in range(len(dtypes)):
            at = f"base + {4 + 2 * i}"
            copies += [
                f"if stores[old, source, {at}] != 0 and stores[new, source, {at}] != 0:",
                f"    view_u8(stores[new, source, {at}], CHUNK)[i] = view_u8(stores[old, source, {at}], CHUNK)[i]",
                "    moved += 1",
            ]
        text += _COPY_ROW.format(
            side=side, side_width=f"{side.upper()}_WIDTH", copies=indent("\n".join(copies), 1).rstrip("\n")
        )
    return text


def stateless_transfer(table: int) -> str:
    """Write `transfer` where there is nothing to move."""
    return _note(table) + _STATELESS


def _note(table: int) -> str:
    return _NOTE.format(noted=table + 1, total=TOTAL)


def assemble(operator_text: str, transfer_text: str, positions: str) -> str:
    """Return the source of a shared-nothing instance.

    Parameters
    ----------
    operator_text : str
        The operator's kernels.
    transfer_text : str
        Defines `transfer`, in place of the one that moves nothing.
    positions : {"none", "seen", "ticks"}
        What the operator's kernels derive from a tuple's position.
    """
    if positions == "none":
        routed = _ROUTED_AT_ONCE
    else:
        routed = _ROUTED.format(ticks="        l[TICKS] = seen[i]" if positions == "ticks" else "")
    text = build.assemble(operator_text + transfer_text + routed, "log")
    gate, queues = "headrace.gates.merged_log_kernel", "headrace.operators.instance_queues"
    text = in_templates(text, lambda line: line.replace(gate, queues))
    for before, after in (
        (
            "        begun = turn(c.meter, me, BUSY_NS)\n",
            "        begun = turn(c.meter, me, BUSY_NS)\n        l[SEEN] = g.out_seen[row, start]\n",
        ),
        ("            if process(me, g,", "            if process_routed(me, g,"),
    ):
        head, found, tail = text.rpartition(before)
        assert found, f"the instance loop has no line {before.strip()!r} any more"
        text = head + after + tail
    return text


def build_instance(
    operator_text: str, transfer_text: str, positions: str, name: str, debug: bool = False
) -> ModuleType:
    """Compile the module whose `run_instance` is a shared-nothing instance."""
    return load_module(assemble(operator_text, transfer_text, positions), name, debug=debug, entry="run_instance")


def build_router(gate: str, debug: bool = False) -> ModuleType:
    """Compile the module whose `route` reads this kind of gate."""
    imports, _, kernels = inspect.getsource(router_kernel).split(build.CUT)
    text = imports.split('"""', 2)[2] + kernels
    text = text.replace(
        "from headrace.kernel import kernel", "from headrace.codegen.modules import compiled as kernel"
    )
    return load_module(text.replace("merged_log_kernel", build.GATES[gate]), "router", debug=debug, entry="route")
