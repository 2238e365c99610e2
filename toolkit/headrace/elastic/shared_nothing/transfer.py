"""How state moves at the barrier of a shared-nothing operator: the text of `transfer` for each kind of state.

The last arriver moves the state of every key that changes owner, while all members
wait: what they wrote is seen, and what is written here is seen by them, by the barrier of `headrace.elastic.epochs`.
See `transfer_kernel` for what is in `s` besides the operator's state.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from headrace.codegen.included import included
from headrace.codegen.text import indent
from headrace.elastic import instance_loop
from headrace.elastic.join import join_kernel
from headrace.elastic.join.shape import JoinShape, Side
from headrace.elastic.shared_nothing import stored_transfer_kernel, transfer_kernel

_VIEWS = {8: "view_i64", 4: "view_i32", 1: "view_u8"}

_KEYED = '''
from headrace.elastic.words import IDS
from headrace.memory.atomics import load_acquire, now_ns, view_i32, view_i64, view_u8
from headrace.references import BUCKETS
{imports}
PLACES_OF_KEY = {slots}


@kernel
def transfer(me, c, s, config, next_config, epoch):
    """Move the window instances of every key whose bucket changes owner, from one instance's state to another's."""
    begun = now_ns()
    rows = load_acquire(c.words, IDS)
    places = rows * BUCKETS * PLACES_OF_KEY
    moved = 0
    for bucket in range(BUCKETS):
        old = np.int64(c.owner[config, bucket])
        new = np.int64(c.owner[next_config, bucket])
        if old == new:
            continue
{views}
        for row in range(rows):
            first = (row * BUCKETS + bucket) * PLACES_OF_KEY
            for p in range(first, first + PLACES_OF_KEY):
                if from_{present}[p] != 0:
{moves}
                    moved += {bytes}
{sets}
{windows}
    note_transfer(s, epoch, moved, now_ns() - begun)

'''

_WINDOWS = """
# Only members that saw a tuple of a window know when it opened. For the others the latest of these times is right
# or close to it: their own entry belongs to a window closed long ago.
for place in range(PLACES_OF_KEY):
    latest = 0
    for r in range(c.member.shape[1]):
        if c.member[config, r] != 0:
            latest = max(latest, view_i64(s.all_{opened}[r], PLACES_OF_KEY)[place])
    for r in range(c.member.shape[1]):
        if c.member[next_config, r] != 0:
            view_i64(s.all_{opened}[r], PLACES_OF_KEY)[place] = latest
"""

_SETS_IMPORTS = """
from headrace.elastic.aggregate.distinct import TABLE_WORDS, move_bucket
from headrace.elastic.failures import AT_A_BARRIER, STATE_FULL
from headrace.memory.arena import ARENA_WORDS, CLASSES
from headrace.workers.worker_kernel import fail

DISTINCT_COLUMNS = {columns}
"""

_SETS = """
moved_sets = move_bucket(
    view_i64(s.all_{tables}[old], DISTINCT_COLUMNS * BUCKETS * PLACES_OF_KEY * TABLE_WORDS),
    view_i64(s.all_{free}[old], DISTINCT_COLUMNS * BUCKETS * CLASSES),
    view_i64(s.all_{arena}[old], ARENA_WORDS),
    view_i64(s.all_{tables}[new], DISTINCT_COLUMNS * BUCKETS * PLACES_OF_KEY * TABLE_WORDS),
    view_i64(s.all_{free}[new], DISTINCT_COLUMNS * BUCKETS * CLASSES),
    view_i64(s.all_{arena}[new], ARENA_WORDS),
    PLACES_OF_KEY, DISTINCT_COLUMNS, bucket,
)
if moved_sets < 0:
    fail(c, STATE_FULL, me, 0, AT_A_BARRIER, 0, 0)
moved += max(0, moved_sets)
"""

_CONTAINERS_IMPORTS = """
from headrace.elastic.failures import AT_A_BARRIER, STATE_FULL
from headrace.memory.arena import ARENA_WORDS, CLASSES
from headrace.memory.arena import HEAD as HEAD_WORDS
from headrace.memory.lists_kernel import list_move
from headrace.memory.maps_kernel import map_move
from headrace.workers.worker_kernel import fail
"""

_CONTAINERS_VIEWS = """
free_old = view_i64(s.all_{free}[old], BUCKETS * CLASSES)
free_new = view_i64(s.all_{free}[new], BUCKETS * CLASSES)
arena_old = view_i64(s.all_{arena}[old], ARENA_WORDS)
arena_new = view_i64(s.all_{arena}[new], ARENA_WORDS)
blocks = bucket * CLASSES
"""

_CONTAINER = """
moved_words = {kernel}(
    free_old, arena_old, blocks, from_{heads}, p * HEAD_WORDS, free_new, arena_new, blocks, to_{heads}, p * HEAD_WORDS{width}
)
if moved_words < 0:
    fail(c, STATE_FULL, me, 0, AT_A_BARRIER, 0, 0)
    return
moved += moved_words
"""

_ARRAY = """
for word in range(p * {size}, (p + 1) * {size}):
    to_{name}[word] = from_{name}[word]
moved += {bytes}
"""

_LISTS_IMPORTS = """
from headrace.workers.worker_kernel import fail
from headrace.elastic.failures import AT_A_BARRIER, STORED_FULL
from headrace.memory.stored import TOP, give_chain, take_node

POOL_WORDS = 3 * (TOP + CELL)
NODES = 1 << 33  # a view needs a size; the arrays are as long as the limit allows
"""

_LISTS_VIEWS = """
following_old = view_i64(s.all_{following}[old], NODES)
following_new = view_i64(s.all_{following}[new], NODES)
below_old = view_i64(s.all_{below}[old], NODES)
below_new = view_i64(s.all_{below}[new], NODES)
pool_old = view_i64(s.all_{pool}[old], POOL_WORDS)
pool_new = view_i64(s.all_{pool}[new], POOL_WORDS)
own_new = view_i64(s.all_{own}[new], c.member.shape[1] * CELL)
"""

_LISTS = """
node = to_{first}[p]
last = 0
while node != 0:
    copy = take_node(following_new, below_new, pool_new, own_new, new)
    if copy == 0:
        fail(c, STORED_FULL, me, 0, AT_A_BARRIER, 0, 0)
        return
{copies}
    if last == 0:
        to_{first}[p] = copy
    else:
        following_new[last] = copy
    last = copy
    moved += {bytes}
    node = following_old[node]
to_{last}[p] = last
if first_node != 0:
    give_chain(below_old, pool_old, first_node)
"""

_NOTHING = """
@kernel
def transfer(me, c, s, config, next_config, epoch):
    note_transfer(s, epoch, 0, 0)

"""

_COPY_ROW = '''
@kernel
def copy_{side}(stores, source, row, old, new):
    """Copy a {side} tuple to the store of its new owner. Returns the bytes."""
    entry = entry_of(row, {width})
    at = place_of(row)
    moved = {bytes}
{copies}
    return moved

'''

Field = tuple[str, int]
"""A field of the state, and the bytes of an element."""


@dataclasses.dataclass(frozen=True)
class Lists:
    """Kept tuples of window instances, as `transfer` copies them from pool to pool.

    Parameters
    ----------
    first, last : str
        Fields of the state that hold a list's ends.
    pool : tuple of str
        Fields of the four arrays of `memory.stored`.
    nodes : tuple of Field
        The arrays by node.
    """

    first: str
    last: str
    pool: tuple[str, str, str, str]
    nodes: tuple[Field, ...]


@dataclasses.dataclass(frozen=True)
class Sets:
    """Sets of distinct values: the fields of the three arrays of `aggregate.distinct`, and how many counts there are."""

    tables: str
    free: str
    arena: str
    columns: int


@dataclasses.dataclass(frozen=True)
class Containers:
    """Lists and maps of window instances, in an arena whose owners are the buckets; and arrays.

    Parameters
    ----------
    free, arena : str
        Fields of the two arrays of `memory.arena`.
    heads : dict of str to int or None
        Fields of the containers' heads, with the words of a value for maps and None for lists.
    arrays : dict of str to int
        Fields of arrays, with the number of words per place.
    """

    free: str
    arena: str
    heads: dict[str, int | None]
    arrays: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class KeyedState:
    """State by key id and window slot, as `transfer` moves it.

    Parameters
    ----------
    slots : int
        Places of a key.
    by_place : tuple of Field
        The first one is non-zero where a window instance is.
    opened : str, optional
        Field of the array that says when each window opened.
    sets : Sets, optional
    lists : Lists, optional
    containers : Containers, optional
    """

    slots: int
    by_place: tuple[Field, ...]
    opened: str | None = None
    sets: Sets | None = None
    lists: Lists | None = None
    containers: Containers | None = None


def keyed_transfer(state: KeyedState) -> str:
    """Write `transfer` for state by key."""
    present = state.by_place[0][0]
    views, moves, imports = [], [], ""
    for name, size in state.by_place:
        views += _both(name, size, "places")
        moves += [f"to_{name}[p] = from_{name}[p]", f"from_{name}[p] = 0"]
    # The first field tells which places are in use: it is cleared last.
    moves = [*moves[2:], *moves[:2]]
    if state.lists is not None:
        moves = [f"first_node = from_{state.lists.first}[p]", *moves, *_lists_text(state.lists, views)]
        imports += _LISTS_IMPORTS
    if state.containers is not None:
        moves = [*_containers_text(state.containers, views), *moves]
        imports += _CONTAINERS_IMPORTS
    if state.sets is not None:
        imports += _SETS_IMPORTS.format(columns=state.sets.columns)
    text = _KEYED.format(
        imports=imports,
        slots=state.slots,
        present=present,
        views=indent(views, 2),
        moves=indent(moves, 5),
        bytes=sum(size for _, size in state.by_place),
        sets="" if state.sets is None else indent(_SETS.format(**dataclasses.asdict(state.sets)), 2),
        windows="" if state.opened is None else indent(_WINDOWS.format(opened=state.opened), 1),
    )
    return included(transfer_kernel) + text


def _lists_text(lists: Lists, views: list[str]) -> list[str]:
    """Write how the list of a window instance is copied; the views that this needs are added to `views`."""
    names = dict(zip(("following", "below", "pool", "own"), lists.pool, strict=True))
    views += _LISTS_VIEWS.strip().format(**names).split("\n")
    copies = []
    for name, size in lists.nodes:
        views += _both(name, size, "NODES")
        copies.append(f"to_{name}[copy] = from_{name}[node]")
    return _LISTS.strip().format(
        first=lists.first,
        last=lists.last,
        copies=indent(copies, 1),
        bytes=sum(size for _, size in lists.nodes),
    ).split("\n")


def _containers_text(containers: Containers, views: list[str]) -> list[str]:
    """Write how the containers of a window instance move from arena to arena; the views needed are added to `views`."""
    if containers.heads:
        views += _CONTAINERS_VIEWS.strip().format(free=containers.free, arena=containers.arena).split("\n")
    moves = []
    for name, width in containers.heads.items():
        views += _both(name, 8, "places * HEAD_WORDS")
        kernel, value = ("list_move", "") if width is None else ("map_move", f", {width}")
        moves += _CONTAINER.strip().format(kernel=kernel, heads=name, width=value).split("\n")
    for name, size in containers.arrays.items():
        views += _both(name, 8, f"places * {size}")
        moves += _ARRAY.strip().format(name=name, size=size, bytes=8 * size).split("\n")
    return moves


def _both(name: str, size: int, count: str) -> list[str]:
    """Write the views of a field in the state of the old owner and of the new one."""
    return [f"{which}_{name} = {_VIEWS[size]}(s.all_{name}[{who}], {count})" for which, who in (("from", "old"), ("to", "new"))]


def stored_transfer(shape: JoinShape) -> str:
    """Write `transfer` for a join: its state is the tuples stored."""
    given = dict.fromkeys((instance_loop.__name__, join_kernel.__name__, transfer_kernel.__name__), "")
    text = included(transfer_kernel) + included(stored_transfer_kernel, given)
    return text + "".join(_copy_text(side, shape.on_keys) for side in shape.sides)


def _copy_text(side: Side, on_keys: bool) -> str:
    """Write the kernel that copies a row of one side."""
    columns = [("TS", 8), *((f"values_at({i})", np.dtype(dtype).itemsize) for i, dtype in enumerate(side.dtypes))]
    if on_keys:
        columns.append(("KEYS", 4))
    copies = []
    for place, size in columns:
        there, here = (f"{_VIEWS[size]}(stores[{who}, source, entry + {place}], CHUNK)[at]" for who in ("new", "old"))
        copies.append(f"{there} = {here}")
    for i in range(len(side.dtypes)):
        there, here = (f"stores[{who}, source, entry + validity_at({i})]" for who in ("new", "old"))
        copies += [
            f"if {here} != 0 and {there} != 0:",
            f"    view_u8({there}, CHUNK)[at] = view_u8({here}, CHUNK)[at]",
            "    moved += 1",
        ]
    return _COPY_ROW.format(
        side=side.name, width=side.width, bytes=sum(size for _, size in columns), copies=indent(copies, 1)
    )


def no_transfer() -> str:
    """Write `transfer` where there is nothing to move."""
    return included(transfer_kernel) + _NOTHING
