"""What an instance does with its ring of results in the interleavings, whichever way results are taken."""

# ruff: noqa: F821  (the names are the explored kernels')


def write(o, me, primaries, head):
    """Write results one by one, each promised at once. Returns how many there are, with the `head` before; -1 if stopped."""
    for p in primaries:
        slot = reserve_slot(o, me, head)
        if slot < 0:
            return -1
        o.primary[me, slot] = p
        head += 1
        publish(o, me, head, p, p)
    return head
