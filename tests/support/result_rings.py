"""What interleavings have an instance do with its ring of results, whichever way they take from there."""

# ruff: noqa: F821  (the names are the explored kernels')


def write(o, me, primaries, head):
    """Write results one by one, each promised at once. How many there are, with `head` before; -1 when stopped."""
    for p in primaries:
        slot = reserve_slot(o, me, head)
        if slot < 0:
            return -1
        o.primary[me, slot] = p
        head += 1
        publish(o, me, head, p, p)
    return head
