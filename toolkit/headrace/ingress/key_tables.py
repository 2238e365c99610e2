"""The hash table from key values to ids: its arrays and their growth."""

from __future__ import annotations

import numpy as np

from headrace.errors import OverflowInputError
from headrace.ingress import keys_kernel
from headrace.ingress.keys_kernel import ARENA_USED, FREE, LAST_USE, LIVE, PLACE_WORDS, USE_WORDS, TableArrays
from headrace.memory.seeded import draw_seed
from headrace.references import BUCKETS

LARGEST_ID_COUNT = 2**31
SMALLEST_ARENA = 1 << 16
"""Initial size of a table's arena for strings, in bytes."""
_LARGE = 1 << 20
"""From this size on, `slots` doubles and does not quadruple: new pages take time, and a table nearly empty misses caches more."""


def id_capacity(max_keys: int, buckets: int = BUCKETS) -> int:
    """Return the limit of ids: twice the keys that may be live, because buckets are not quite even.

    Ids reach up to the keys of the fullest bucket times the number of buckets, so this also
    bounds the memory of keys that were chosen to fall into one bucket.
    """
    return max(64 * buckets, 2 * max_keys)


class KeyLimitError(OverflowInputError):
    """No more keys can be live until some expire. Keys encoded before the error stay in the table and are found again."""


class KeyTable:
    """The arrays of one table and their growth; the subclass defines what a word means."""

    is_string = False
    operators = 1
    """Number of operators that share the ids; `limit` is that many times `max_keys`."""

    def __init__(self, bucket_bits: int, limit: int, is_inner: bool = False):
        self.bucket_bits, self.limit = bucket_bits, limit
        self.seed = draw_seed()
        ids = max(1 << bucket_bits, 64)
        self.slots = np.zeros(PLACE_WORDS * 256, np.uint64)
        self.homes = np.zeros(ids, np.uint32)
        self.hashes = np.zeros(ids if is_inner else 1, np.uint64)
        self.stored = np.zeros(ids, np.uint64)
        self.lengths = np.zeros(ids, np.int32)
        self.uses = np.full(USE_WORDS * ids, FREE, np.int64)
        self.bucket_next = np.zeros(1 << bucket_bits, np.int32)
        self.bucket_free = np.full(1 << bucket_bits, -1, np.int32)
        self.arena = np.zeros(SMALLEST_ARENA if self.is_string else 0, np.uint8)
        self.direct, self.base = np.zeros(0, np.int32), np.uint64(0)
        self.counts = np.zeros(keys_kernel.COUNTS, np.int64)
        self.scratch = np.zeros((keys_kernel.SCRATCH_ROWS, keys_kernel.BLOCK), np.uint64)

    @property
    def arrays(self) -> TableArrays:
        return TableArrays(
            self.slots, self.homes, self.hashes, self.stored, self.lengths, self.uses, self.bucket_next,
            self.bucket_free, self.arena, self.direct, self.counts, self.scratch, self.seed, self.base,
            self.bucket_bits, self.limit,
        )  # fmt: skip

    @property
    def last(self) -> np.ndarray:
        """Event time of the last use, by id; a view."""
        return self.uses[LAST_USE::USE_WORDS]

    @property
    def live(self) -> int:
        return int(self.counts[LIVE])

    @property
    def id_limit(self) -> int:
        return int(self.bucket_next.max()) << self.bucket_bits

    @property
    def nbytes(self) -> int:
        held = (self.direct, self.slots, self.homes, self.hashes, self.stored, self.lengths, self.uses, self.arena)
        return sum(array.nbytes for array in held)

    def run(self, count: int, encode, *inputs, ids: np.ndarray | None = None) -> np.ndarray:
        """Call an encoding kernel until it is done, growing the arrays it asks for."""
        ids = np.empty(count, np.int32) if ids is None else ids
        position = 0
        while True:
            # In plain Python (NUMBA_DISABLE_JIT=1) the hash's wrap-around would warn.
            with np.errstate(over="ignore"):
                position, status = encode(self.arrays, *inputs, ids, position)
            if status == keys_kernel.DONE:
                return ids
            self.grow(status, position, inputs)

    def grow(self, status: int, position: int, inputs) -> None:
        if status == keys_kernel.NEED_PLACES:
            times = 4 if self.slots.size < _LARGE else 2
            wider = np.zeros(times * self.slots.size, np.uint64)
            keys_kernel.rehash(self.slots, wider, self.homes)
            self.slots = wider
        elif status == keys_kernel.NEED_IDS:
            self.grow_ids(2 * self.stored.size)
        elif status == keys_kernel.NEED_ARENA:
            _, starts, ends = inputs
            needed = int(ends[position]) - int(starts[position])
            wider = np.zeros(max(2 * self.arena.size, int(self.counts[ARENA_USED]) + needed), np.uint8)
            wider[: self.arena.size] = self.arena
            self.arena = wider
        elif status == keys_kernel.OVER_LIMIT:
            raise KeyLimitError(
                f"more than {self._allowed} keys are live at one time: raise max_keys, or use a"
                f" smaller window or a coarser key"
            )
        elif status == keys_kernel.CROWDED:
            raise OverflowInputError(
                f"a key collides with more than {keys_kernel.PROBE_LIMIT} others in a table of {self.live} keys, which does not"
                f" happen by chance: the input was made by somebody who knows the random seed of this process; start the"
                f" process again"
            )
        else:
            raise OverflowInputError(
                f"a key string is longer than {keys_kernel.LONGEST_STRING} bytes: shorten it before the stream"
            )

    @property
    def _allowed(self) -> str:
        """Text that says how many keys may be live."""
        if self.operators == 1:
            return f"max_keys = {self.limit}"
        return f"{self.operators} * max_keys = {self.limit} (of {self.operators} operators that share them)"

    def grow_ids(self, count: int) -> None:
        most = min(LARGEST_ID_COUNT, id_capacity(self.limit, self.bucket_next.size))
        if self.stored.size >= most:
            fullest = int(np.argmax(self.bucket_next))
            raise KeyLimitError(
                f"{int(self.bucket_next[fullest])} of {self.live} live keys fall into bucket {fullest} of"
                f" {self.bucket_next.size}, more than the memory that {self._allowed} allows for keys that are spread so"
                f" unevenly; raise max_keys, or use a coarser key"
            )
        count = min(count, most)
        before = self.stored.size
        for name in ("homes", "hashes", "stored", "lengths", "uses"):
            array = getattr(self, name)
            if array.size < before:
                continue  # `hashes`, if this table keeps none
            wider = np.zeros(array.size // before * count, array.dtype)
            wider[: array.size] = array
            if name == "uses":
                wider[array.size :] = FREE
            setattr(self, name, wider)

    def free(self, ids: np.ndarray) -> None:
        keys_kernel.free_ids(self.arrays, ids, self.is_string)

    def values(self, ids: np.ndarray) -> np.ndarray:
        return self.stored[ids].view(np.int64)

    def compile_results(self) -> None:
        """Compile the kernels that `argsort` and `decode` use; here they use NumPy, so there are none."""


__all__ = ["LARGEST_ID_COUNT", "SMALLEST_ARENA", "KeyLimitError", "KeyTable", "id_capacity"]
