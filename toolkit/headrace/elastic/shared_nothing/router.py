"""The state of a router between two calls of `route`, and what Python tells it about the private stores of its source."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.gates.membership_kernel import SOURCES_WAITING
from headrace.memory.bundle import by_reference
from headrace.progress import MIN_TIME

ROUTERS_WAITING = SOURCES_WAITING
"""Cell of a queue's words: routers are to the queues what sources are to a gate."""

# What `route` returns.
OVER, NEEDS_MEMORY, SWITCHES = range(3)

# Which members get a tuple: the owners of its keys, all, or the owner of its position.
TO_OWNERS, TO_ALL, BY_POSITION = range(3)

# Words of a router.
(
    SOURCE,  # whose tuples it copies; also which reader of the gate it is
    RECIPIENTS,  # which members get a tuple
    SEVERAL_KEYS,  # its tuples may have any number of keys
    BY_COUNT,  # instances promise by position: they are kept up to date in count, too
    POSITION,  # in the gate, of the next record
    SEEN,  # tuples of the merged input before it
    SWITCHED,  # configurations put in force so far
    PLANNED,  # planned changes among these
    CONFIG,  # the configuration in force
    NEXT_CONFIG,  # the configuration that Python is to prepare (SWITCHES)
    PREPARED,  # the one that it has prepared; -1: none
    TIME,  # event time reached
    ARRIVAL,  # of the record that brought TIME there
    COPIES,  # sent so far
    BUDGET,  # keys that fit, whichever member gets them
    KEYS_NEEDED,  # by the tuple that did not fit (NEEDS_MEMORY)
    DIRECTORY_WIDTH,  # addresses of a chunk in the directories
    WORD_COUNT,
) = range(18)

BATCH_TUPLES = 1024
"""Tuples a router forwards at once, at most."""


@by_reference
class RouterArrays(NamedTuple):
    """A router's own state, and what Python tells it about the private stores of its source."""

    words: np.ndarray
    end: np.ndarray  # int64[instances]: records written
    last_ts: np.ndarray  # int64[instances]: event time the instance has reached once its queue is empty
    last_seen: np.ndarray  # the same for tuples of the merged input
    rows: np.ndarray  # int64[instances]: rows written to the private store
    room: np.ndarray  # int64[instances]: rows its chunks have room for
    used: np.ndarray  # int64[instances]: keys in the chunk of the next row
    keys_room: np.ndarray  # int64[instances, 2]: keys that fit the even and the odd chunk in use
    touched: np.ndarray  # int64[instances]: the tuple being copied, once it has a row there; else -1
    origin: np.ndarray  # int64[instances, 2]: address of an int64 for each row of that chunk: its row in the source
    item: np.ndarray  # int64[columns]: bytes of a value
    masked: np.ndarray  # int64[columns]: 1 if private chunks have a validity mask


def allocate(
    source: int, recipients: int, by_count: bool, instances: int, several_keys: bool, width: int, items: list[int]
) -> RouterArrays:
    """Allocate the router of a source, at the start of the input.

    Parameters
    ----------
    source : int
        The source whose tuples it copies; also which reader of the gate it is.
    recipients : int
        Which members get a tuple: TO_OWNERS, TO_ALL or BY_POSITION.
    by_count : bool
        Instances promise by position: keep them up to date in count too.
    instances : int
    several_keys : bool
        Its tuples may have any number of keys.
    width : int
        Addresses that a chunk has in the directories.
    items : list of int
        Bytes of a value, for each column.
    """
    words = np.zeros(WORD_COUNT, np.int64)
    words[SOURCE] = source
    words[RECIPIENTS] = recipients
    words[SEVERAL_KEYS] = several_keys
    words[BY_COUNT] = by_count
    words[DIRECTORY_WIDTH] = width
    words[TIME] = MIN_TIME
    words[PREPARED] = -1
    return RouterArrays(
        words=words,
        end=np.zeros(instances, np.int64),
        last_ts=np.full(instances, MIN_TIME),
        last_seen=np.zeros(instances, np.int64),
        rows=np.zeros(instances, np.int64),
        room=np.zeros(instances, np.int64),
        used=np.zeros(instances, np.int64),
        keys_room=np.zeros((instances, 2), np.int64),
        touched=np.full(instances, -1, np.int64),
        origin=np.zeros((instances, 2), np.int64),
        item=np.array(items, np.int64),
        masked=np.zeros(len(items), np.int64),
    )
