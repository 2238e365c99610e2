"""Windows that keep their tuples, the paper's defaults: f_U puts a tuple at the end of a list, f_S purges the stale.

Included in the module of such an operator, before its functions, which may take
tuples out; it supplies what a node consists of. The list of a window instance is its first and last node, and how many
(`shape.LIST_FIELDS`); the nodes come from a pool that all instances share (`memory.stored`).
"""

from headrace.kernel import kernel
from headrace.memory.stored import give_chain, purge, take_node


@kernel
def append_node(me, s, p):
    """Put a node at the end of the list of window instance `p`: the node, or 0 if none is left."""
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
    """Take a node, which is behind `before`, out of the list of window instance `p`, and put it before `dropped`.

    The caller gives the chain of nodes that were taken out back with `give_chain`. Returns its first node, which is `node`.
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
    """f_S: the tuples before `left` are no longer in the window."""
    first, count = purge(s.following, s.below, s.pool, s.kept_ts, s.list_first[p], left)
    s.list_first[p] = first
    s.list_count[p] -= count


@kernel
def forget_tuples(s, p):
    """The window instance ends."""
    if s.list_count[p] != 0:
        give_chain(s.below, s.pool, s.list_first[p])
