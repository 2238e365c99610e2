"""Record how much state moved at a barrier of a shared-nothing operator, and how long that took.

Included in the module of a shared-nothing instance, with the `transfer` that its
state needs (`transfer`). The last arriver runs it while all members wait, so no state
is updated meanwhile.

State       in `s`  all_NAME[r], for each field NAME of the state: its address in the
            state of instance r; transfers[e % EPOCH_RING], bytes and nanoseconds of
            epoch e, and row EPOCH_RING, their totals; stores[r, s], the directory of
            instance r's store of source s
"""

from headrace.kernel import kernel

MOVED_BYTES, MOVED_NS = range(2)
EPOCH_RING = 256
"""Number of epochs whose transfers are kept until they are read."""
ALL_EPOCHS = EPOCH_RING


@kernel
def note_transfer(s, epoch, moved, ns):
    """Record the bytes that moved at an epoch, and the time it took."""
    noted = s.transfers
    noted[epoch % EPOCH_RING, MOVED_BYTES] = moved
    noted[epoch % EPOCH_RING, MOVED_NS] = ns
    noted[ALL_EPOCHS, MOVED_BYTES] += moved
    noted[ALL_EPOCHS, MOVED_NS] += ns
