"""What an instance does with its ring of results in the interleavings, whichever way results are taken."""

# ruff: noqa: F821  (the names are the explored kernels')

from headrace.progress import END_OF_TIME


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


def change_instances(o, before, after, promised):
    """Let instances that join begin at a promised time, and those that leave hold nobody back."""
    for r in range(len(o.head)):
        if r in after and r not in before:
            start_mark(o, r, promised, promised)
        elif r in before and r not in after:
            start_mark(o, r, END_OF_TIME, END_OF_TIME)
