"""What moved at a barrier, and how long it took: the last arriver's, for a shared-nothing operator.

Included in the module of a shared-nothing instance, with the `transfer` that its
state needs (`transfer`). All members wait meanwhile, so nothing is updated.

State       in `s`  all_NAME[r], for a field NAME of the state: its address in that of
            instance r; transfers[e % EPOCH_RING], bytes and nanoseconds of epoch
            e, and in row EPOCH_RING of all together; stores[r, s], the directory
            of instance r's store of source s
"""

from headrace.kernel import kernel

MOVED_BYTES, MOVED_NS = range(2)
EPOCH_RING = 256
"""Epochs of which what moved is remembered until somebody takes note."""
ALL_EPOCHS = EPOCH_RING


@kernel
def note_transfer(s, epoch, moved, ns):
    """Note the bytes that moved at an epoch, and the time it took."""
    noted = s.transfers
    noted[epoch % EPOCH_RING, MOVED_BYTES] = moved
    noted[epoch % EPOCH_RING, MOVED_NS] = ns
    noted[ALL_EPOCHS, MOVED_BYTES] += moved
    noted[ALL_EPOCHS, MOVED_NS] += ns
