"""Schemes for whole transactions: which event an executor may run next, and what may go on when it ends.

One loop serves all schemes (`whole_kernel`). They differ in what they make of the key
sets, in `take` and in `let_go`; which one runs is chosen by data. `flow_kernel`, `locks_kernel`,
`versions_kernel` and `partition_kernel` say why their schemes are right; `serial` is one
executor that runs all events, `none` runs each slice as if there were no other.
"""

from headrace.kernel import kernel
from headrace.memory.atomics import load_relaxed, now_ns
from headrace.transactions.flow_kernel import (
    deal_to_owners,
    link_owned,
    release_followers,
    take_ready,
)
from headrace.transactions.locks_kernel import take_locked, unlock
from headrace.transactions.partition_kernel import (
    leave_partitions,
    number_slice,
    start_slices,
    take_in_partition,
)
from headrace.transactions.phases_kernel import meet
from headrace.transactions.stealing_kernel import offer_one
from headrace.transactions.versions_kernel import publish_versions, take_versioned, write_back
from headrace.transactions.words import (
    CHAINS,
    COUNT,
    DEPTH,
    FIT,
    LAST,
    LOCK,
    MVLK,
    NEXT,
    NONE,
    PART,
    PARTITION,
    PREPARE_NS,
    SCHEME,
    SERIAL,
    SHARED_NOTHING,
    SHARING,
    SLICE_FIRST,
    THREADS,
    VERSIONED,
)


@kernel
def has_sets(c, config):
    """Whether key sets are needed: one executor alone runs events in their order, whatever the scheme."""
    scheme = c.rows[config, SCHEME]
    return c.rows[config, THREADS] > 1 and scheme != SERIAL and scheme != NONE


@kernel
def arrange_slice(me, c, l, config, fit):
    """Arrange the key sets of an executor's slice, of which those before event `fit` exist."""
    scheme = c.rows[config, SCHEME]
    if scheme == CHAINS:
        deal_to_owners(me, c, config, False)
    elif scheme == PARTITION:
        number_slice(me, c, config, l[SLICE_FIRST], fit)


@kernel
def arrange_batch(me, c, l, config):
    """Arrange all key sets together. False when the run stops."""
    scheme = c.rows[config, SCHEME]
    if scheme == CHAINS:
        begun = now_ns()
        link_owned(me, c, config)
        c.meter[me, PREPARE_NS] += now_ns() - begun
        return meet(me, c, l)
    if scheme == PARTITION:
        start_slices(me, c, config)
    return True


@kernel
def begin_taking(me, c, l, config):
    """Set the events that only this executor may take: with `serial` all, for one executor; else a slice, or none yet."""
    scheme, threads = c.rows[config, SCHEME], c.rows[config, THREADS]
    executed = load_relaxed(c.words, FIT)
    l[DEPTH] = 0
    l[PART] = -1
    l[NEXT] = 0
    l[LAST] = 0
    # An event that is alone in its batch may have keys that could not be named (`template`).
    is_alone = load_relaxed(c.words, COUNT) == 1
    l[VERSIONED] = 1 if scheme == MVLK and threads > 1 and not is_alone else 0
    if scheme == SERIAL or threads == 1 or (scheme == MVLK and is_alone):
        l[LAST] = executed if me == 0 else 0
    elif scheme == NONE or (scheme == CHAINS and c.rows[config, SHARING] == SHARED_NOTHING):
        l[NEXT] = executed * me // threads
        l[LAST] = executed * (me + 1) // threads


@kernel
def is_free(c, l, config):
    """Whether the executor runs the events that only it may take without looking at any other executor."""
    scheme = c.rows[config, SCHEME]
    is_alone = scheme == MVLK and l[VERSIONED] == 0
    return c.rows[config, THREADS] == 1 or scheme == SERIAL or scheme == NONE or is_alone


@kernel
def take(me, c, l, config, executed):
    """Take an event that may run now, waiting for one if need be; OUT_OF_EVENTS, or STOP_SEEN."""
    scheme = c.rows[config, SCHEME]
    if l[VERSIONED] != 0:
        return take_versioned(me, c, l, executed)
    if scheme == CHAINS:
        return take_ready(me, c, l, config, executed)
    if scheme == LOCK:
        return take_locked(me, c, l, executed)
    return take_in_partition(me, c, l, config, executed)


@kernel
def let_go(me, c, l, config, i):
    """Event `i` is over: let the events that waited for it go on."""
    scheme = c.rows[config, SCHEME]
    if scheme == CHAINS:
        release_followers(me, c, l, i)
        offer_one(me, c, l, config)
    elif scheme == LOCK:
        unlock(c, i)
    elif l[VERSIONED] != 0:
        publish_versions(c, i)
    elif scheme == PARTITION:
        leave_partitions(c, config, i)


@kernel
def settle_slice(c, l, first, last):
    """Do what events `first` to `last - 1` left to do: all events of the batch are over, and no other has begun."""
    if l[VERSIONED] != 0:
        write_back(c, first, last)
        l[VERSIONED] = 0


__all__ = ["arrange_batch", "arrange_slice", "begin_taking", "has_sets", "is_free", "let_go", "settle_slice", "take"]
