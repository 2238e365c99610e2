"""Windows that keep their tuples, the paper's defaults: f_U appends a tuple to a list, f_S purges stale tuples.

Included in the module of such an operator, before its functions, which may remove
tuples. The module supplies the fields of a node. The list of a window instance is given by its first node, its last node
and their number (`shape.LIST_FIELDS`); nodes come from a pool that all instances share (`memory.stored`).
"""

from headrace.kernel import kernel
from headrace.memory.stored import give_chain, purge, take_node


@kernel
def append_node(me, s, p):
    """Append a node to the list of window instance `p`. Returns the node, or 0 if none is left."""
    node = take_node(s.following, s.below, s.pool, s.own, me)
    if node == 0:
        return 0
    if s.list_count[p] == 0:
        s.list_first[p] = node
    else:
        s.following[s.list_last[p]] = node
    s.list_last[p] = node
    s.list_count[p] += 1
    return node


@kernel
def drop_node(s, p, before, node, dropped):
    """Take `node`, which follows `before`, out of the list of window instance `p`, and link it in front of `dropped`.

    Returns `node`, the head of the chain of nodes taken out, which the caller gives back with `give_chain`.
    """
    if before == 0:
        s.list_first[p] = s.following[node]
    else:
        s.following[before] = s.following[node]
    if s.list_last[p] == node:
        s.list_last[p] = before
    s.list_count[p] -= 1
    s.following[node] = dropped
    return node


@kernel
def purge_tuples(s, p, left):
    """f_S: remove the tuples before `left`, which are no longer in the window."""
    first, count = purge(s.following, s.below, s.pool, s.kept_ts, s.list_first[p], left)
    s.list_first[p] = first
    s.list_count[p] -= count


@kernel
def forget_tuples(s, p):
    """Give back the nodes of a window instance that ends."""
    if s.list_count[p] != 0:
        give_chain(s.below, s.pool, s.list_first[p])
