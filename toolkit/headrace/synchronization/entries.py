"""The text of kernels that move single entries of keyed maps up and down the tree, where the whole state is by key.

An event of a keyed tag, at an inner node, needs only the entry of its own key. So the states below stay
where they are: in leaves, and in inner nodes that have JOINED (`tree_kernel`, I2). Each node has a second state, of one
entry, in which that entry goes up the tree and down again::

    up      out of the states that hold one; at a node between, the entries of both sides are joined by the program's
            join, or the only one goes on
    update  on the entry
    down    at a node between, the entry is forked by the program's fork if both sides may process that key, else it goes
            to the side that may; at the end it goes back into the state it belongs to

Entries move by an exchange of heads, so the next event uses the same blocks of memory. Fields of the bundle ``s``, beside
those of `template`::

    entry_places    by node, the first word of its second state
    roles           by node, its role for the node above that is run: only the thread that runs that one writes and reads it

Ordering    Nothing here is shared: the thread that runs a node has all below it to itself (`tree_kernel`, I1 and I4).
"""

from __future__ import annotations

from headrace.codegen.kinds import MapOf
from headrace.codegen.placed import offsets, words_of
from headrace.codegen.text import indent
from headrace.memory.arena import CLASSES
from headrace.synchronization.binding import Bound, BoundTag, part_text
from headrace.synchronization.pieces import rows_text

IMPORTS = """
from headrace.memory.atomics import CELL
from headrace.memory.maps_kernel import VALUE, map_find, map_put, map_remove
from headrace.synchronization.words import BELOW, JOINED, LEFT, NODE_CELLS, RIGHT

"""

_MOVES = """
ASIDE, HOLDS, BETWEEN = 0, 1, 2


@kernel
def entry_owner(s, n):
    return (s.nodes[0] + s.temporaries.size // {temporaries} + n) * {classes}


@kernel
def has_entry(s, k):
    return {has}


@kernel
def move_entry(s, k, owner, k_to, owner_to, key):
    moved = np.int64(0)
{moves}
    return moved


@kernel
def exchange_entries(s, k, k_to):
    for word in range({words}):
        kept = s.arena[k + word]
        s.arena[k + word] = s.arena[k_to + word]
        s.arena[k_to + word] = kept


@kernel
def may_process(s, n, key):
    return {may}


@kernel
def take_roles(c, s, n):
    # Returns the bytes that a join of everything would move.
    total = np.int64(0)
    for m in range(c.tree[n, BELOW], n):
        s.roles[m] = ASIDE
    s.roles[n] = BETWEEN
    m = n - 1
    while m >= c.tree[n, BELOW]:
        if c.tree[m, LEFT] < 0 or c.node[m * (NODE_CELLS * CELL) + JOINED] != 0:
            s.roles[m] = HOLDS
            total += state_bytes_of(s, s.places[m])
            m = c.tree[m, BELOW] - 1
        else:
            s.roles[m] = BETWEEN
            m -= 1
    return total


@kernel
def entry_up(me, c, s, l, n, key):
    moved = np.int64(0)
    for m in range(c.tree[n, BELOW], n + 1):
        k, owner = s.entry_places[m], entry_owner(s, m)
        if s.roles[m] == HOLDS:
            moved += move_entry(s, s.places[m], m * {classes}, k, owner, key)
        elif s.roles[m] == BETWEEN:
            left, right = s.entry_places[c.tree[m, LEFT]], s.entry_places[c.tree[m, RIGHT]]
            has_right = has_entry(s, right)
            if has_right and not has_entry(s, left):
                exchange_entries(s, right, k)
            else:
                exchange_entries(s, left, k)
                if has_right:
                    owner_right = entry_owner(s, c.tree[m, RIGHT])
                    user_join(me, c, s, l, k, owner, right, owner_right)
                    end_state(s, owner_right, right)
    return moved


@kernel
def entry_down(me, c, s, l, n, key):
    moved = np.int64(0)
    m = n
    while m >= c.tree[n, BELOW]:
        k, owner = s.entry_places[m], entry_owner(s, m)
        if has_entry(s, k):
            if s.roles[m] == HOLDS:
                moved += move_entry(s, k, owner, s.places[m], m * {classes}, key)
            elif s.roles[m] == BETWEEN:
                left, right = c.tree[m, LEFT], c.tree[m, RIGHT]
                k_left, k_right = s.entry_places[left], s.entry_places[right]
                to_left, to_right = may_process(s, left, key), may_process(s, right, key)
                if to_left and to_right:
                    user_fork(
                        me, c, s, l, k, owner, k_left, entry_owner(s, left), k_right, entry_owner(s, right), left, right
                    )
                    end_state(s, owner, k)
                elif to_right:
                    exchange_entries(s, k, k_right)
                else:
                    exchange_entries(s, k, k_left)
        m -= 1
    return moved

"""

_MOVE = """at = map_find(s.arena, s.arena, k + {offset}, key, {width})
if at >= 0:
    to = map_put(s.arena_free, s.arena, owner_to, s.arena, k_to + {offset}, key, {width})
    if to < 0:
        raise MemoryError
    for word in range({width}):
        s.arena[to + VALUE + word] = s.arena[at + VALUE + word]
    map_remove(s.arena_free, s.arena, owner, s.arena, k + {offset}, key, {width})
    moved += {bytes}"""

_ALONE = """if s.arena[k + {offset} + ENTRIES] > 1:
    raise LookupError
if s.arena[k + {offset} + ENTRIES] == 1 and map_find(s.arena, s.arena, k + {offset}, key, {width}) < 0:
    raise LookupError"""

_RUN = """
@kernel
def run_entry_{number}(me, c, o, x, s, l, n, i, pieces):
    k, owner = s.entry_places[n], entry_owner(s, n)
    a, a_f, a_h = s.arena, s.arena_f, s.arena_h
{out}    together = take_roles(c, s, n)
    moved = np.int64(0)
{rows}    c.work[n, COPIED] += moved
    c.work[n, SPARED] += max(0, 2 * together - moved)
    return np.int64(0)

"""

_EACH = """key = np.int64(c_{by}[at])
moved += entry_up(me, c, s, l, n, key)
user_{number}({arguments})
{alone}
moved += entry_down(me, c, s, l, n, key)"""


def entries_text(bound: Bound, temporaries: int) -> str:
    """Write the kernels that move entries, for a program whose state is by key."""
    program = bound.program
    fields = _fields(bound)
    tests = []
    for number, (name, tag) in enumerate(program.tags.items()):
        if program.is_by_entry(name):
            tests.append(f"s.parts_below[n, {bound.parts_at(name)} + {part_text(tag, 'key')}] != 0")
        else:
            tests.append(f"s.tags_below[n, {number}] != 0")
    moves = [_MOVE.format(offset=offset, width=width, bytes=8 * (1 + width)) for offset, width in fields]
    return _MOVES.format(
        temporaries=temporaries,
        classes=CLASSES,
        words=words_of(program.state),
        has=" or ".join(f"s.arena[k + {offset} + ENTRIES] != 0" for offset, _ in fields),
        moves=indent(moves, 1),
        may=" or ".join(tests),
    )


def run_entry_text(bound: Bound, number: int, one: BoundTag, columns: str, rings: str) -> str:
    """Write the loop over events of a tag that take the entries of their own key; `rings` says where results go."""
    alone = "\n".join(_ALONE.format(offset=offset, width=width) for offset, width in _fields(bound))
    each = _EACH.format(number=number, by=one.tag.by, arguments=", ".join(one.updates[0].parameters), alone=alone)
    out = rings if "out" in one.updates[0].parameters else ""
    return _RUN.format(number=number, out=out, rows=rows_text(columns, each))


def _fields(bound: Bound) -> list[tuple[int, int]]:
    """For each map, its first word and the number of words of a value."""
    state = bound.program.state
    return [(at, kind.width) for name, at in offsets(state).items() if isinstance(kind := state[name].kind, MapOf)]


__all__ = ["IMPORTS", "entries_text", "run_entry_text"]
