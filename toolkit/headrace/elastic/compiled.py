"""The base class of an operator as the engine runs it: kernel text, columns, state, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.elastic.failures import AT_A_BARRIER
from headrace.elastic.instance_loop import PRIVATE_WORDS
from headrace.elastic.words import UPDATES
from headrace.errors import HeadraceError, RunFailedError
from headrace.ingress.key_ranks import KeyRanks
from headrace.ingress.key_sources import KeySource
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.store import Store
from headrace.ingress.times import time_text
from headrace.memory.own_words import own_words
from headrace.plan.nodes import OperatorNode
from headrace.progress import MIN_TIME
from headrace.references import BUCKETS
from headrace.workers import worker_kernel


class Exact(NamedTuple):
    """A result that the next operator can read where it was written."""

    value: str
    """State field of the values."""
    known: str = ""
    """State field of the number of values behind each result: 0 where it is null; "" if it is never null."""
    skips_nan: bool = False
    """Whether NaN means null, too: all values were NaN."""
    is_wide: bool = True
    """Whether it lies in 64 bits, as kernels read it; otherwise a filter on the way may compare it, and nothing else reads it."""


class Compiled:
    """Base of all operators as compiled for a run, with what most have in common. One object per operator and run."""

    node: OperatorNode
    dictionary: KeyDictionary | None = None
    key_names: Sequence[str] = ()
    """Names of the columns that the dictionary gives for a key."""
    multi_key = False
    value_columns = 0
    retention = 0
    """For how much event time a stored tuple is still needed after it was processed."""
    window_size = 0
    nulls = "error"
    id_capacity = BUCKETS
    result_fields: Sequence[str] = ()
    """State fields that are columns of the results: one row for each instance, its ring."""
    list_fields: Sequence[tuple[str, str]] = ()
    """Pairs of these fields that hold lists: positions, as `words_ring.write_words` gives them, and numbers of words."""
    lead = 0
    """If not 0, tuples of several sources come in order of arrival, each at most this far ahead of the watermark."""
    order_matters = "it gives its results in the order of its input"
    """Why tuples have to come in order; "" if they need not."""
    bound_ns = 400_000
    """How much work its gate holds at most, in nanoseconds, unless `start(bound_ns=)` says otherwise. A change of a saturated run
    waits for that work, and so do results; but a source that finds its gate full sleeps, and readers wait where it is woken
    late. On two cores, with 0.25, 0.4, 0.5 and 1 ms, two threads of an operator that takes 85 ns a tuple processed 15.8, 17.9,
    18.9 and 19.9 M tuples/s; a change of word count from one thread to two took 0.45, 0.6 and 0.7 ms, and with 1 ms more
    (``headrace bench reconfigure``, ``api``)."""
    first_promise = MIN_TIME
    load_meter = UPDATES
    """The counter that measures an instance's load."""
    load_by_key = True
    """Whether load falls to the buckets of the tuples' keys; otherwise to all buckets in turn."""
    places_per_key = 0
    """Window instances a key may have at once; the first field of the state is non-zero where one is."""
    latest_is_ready = False
    """Whether the tuple that makes a result ready is the latest one in it."""
    time_field = ""
    """State field with the event times of results; "" if that is the rings' `primary`."""
    ahead = 0
    """By how much event time a result may be ahead of the watermark when it is written."""
    time_value = ""
    """Name of the value column that is the event time in the stream's unit, if kernels read that."""

    ranks: KeyRanks | None = None
    """What orders keys as their values do; None unless it gives its results in that order."""
    order_shows = ""
    """Why its results show the order of tuples of different keys, too; "" if of those of one key at most."""

    @property
    def why_not_ranked(self) -> str:
        """Why it cannot give the results of one event time in order of content; "" if it can, by `give_by_rank`."""
        return "it may give several results of one time and key"

    def give_by_rank(self, state: Any) -> Any:
        """Give the results of one event time in order of content, from each instance. Returns the state with what that takes."""
        raise NotImplementedError

    @property
    def why_collected(self) -> str:
        """Why its results need a collector; "" if each instance writes its own in order of event time, each in one row."""
        return "it is neither an aggregate nor a custom operator"

    @property
    def why_encoded(self) -> str:
        """Why its input has to be encoded from columns; "" if it can read rows where another operator wrote them."""
        return "it is neither an aggregate nor a custom operator"

    def exact_results(self) -> dict[str, Exact]:
        """The results that the next operator can read where they were written, by name."""
        return {}

    def keys_of(self, side: int) -> Sequence[KeySource]:
        """What the keys of the tuples of an input are made of."""
        return ()

    def equal_columns_of(self, side: int) -> Sequence[str]:
        """Columns that a join requires to be equal, whether kernels know them by id or by value."""
        return ()

    def values_of(self, side: int) -> Sequence[str]:
        """Columns that kernels read in 64 bits, or as bools."""
        return ()

    def narrow_values_of(self, side: int) -> Sequence[str]:
        """Columns that kernels read in a narrower type."""
        return ()

    def counted_of(self, side: int) -> Sequence[str]:
        """Columns of any type of which kernels know only whether a value is null."""
        return ()

    def texts_of(self, side: int) -> Mapping[str, KeyDictionary]:
        """Text columns whose strings kernels know by id: name -> dictionary of the strings."""
        return {}

    def forms_of(self, side: int) -> Mapping[str, tuple[str, int]]:
        """Values derived from a column: name -> (column, divisor); a value that is not divisible gives null."""
        return {}

    def carried_of(self, side: int) -> Sequence[str]:
        """Columns that are kept as they are, to be looked up by row: for results, or to show a tuple in an error."""
        return ()

    def columns_of(self, side: int) -> dict[str, np.dtype]:
        """All columns that kernels read, and their dtypes in the store."""
        return {}

    def multi_key_of(self, side: int) -> bool:
        """Whether a tuple of this input may have any number of keys."""
        return self.multi_key

    def note_keys(self, ids: np.ndarray) -> None:
        """Note the keys of tuples that are about to be published."""

    def text(self) -> str:
        """The operator's part of the kernel module: what `instance_loop` calls."""
        raise NotImplementedError

    def allocate(self, instances: int, capacity: int) -> Any:
        """Allocate the state: a bundle with the names that kernels use, first the fields they keep, then the results."""
        raise NotImplementedError

    def finisher(self, stores: list[Store]) -> Any:
        """What makes result rows of records: an `egress.collector.Finisher`."""
        raise NotImplementedError

    def private(self, worker: int) -> np.ndarray:
        """The instance's own words, all 0, on cache lines of their own."""
        return own_words(PRIVATE_WORDS)

    def scratch(self) -> Any:
        """The instance's own scratch memory, as its kernels expect it."""
        return np.empty(1 << 14, np.int32)

    def state_bytes(self, id_limit: int) -> int:
        """Estimated bytes of the window instances of key ids below `id_limit`."""
        return 0

    def arena_bytes(self, state: Any) -> int:
        """Bytes that the lists, sets and maps of a state take."""
        return 0

    def stored_tuples(self, state: Any, member: int) -> int:
        """Tuples that an instance stores, where it has no windows."""
        return 0

    def release(self, watermark: int) -> None:
        """Free what is needed no longer: all windows that end at or before `watermark` are closed, and their results built."""

    def explain_compile_error(self, error: BaseException, module: Any) -> HeadraceError | None:
        """Explain a compiler's error in the generated module; None if it is not a user function's."""
        return None

    def explain_exception(
        self, error: BaseException, words: np.ndarray, stores: list[Store]
    ) -> HeadraceError | None:
        """Explain an exception in a kernel; None if it is not a user function's."""
        return None

    def time_text(self, ts: int) -> str:
        """Return an event time of a result as error messages show it."""
        return time_text(ts, self.node.schema.field(self.node.event_time).type)

    def windows_text(self, failure: np.ndarray) -> str:
        """Return which windows a worker's failure is about."""
        ts = int(failure[worker_kernel.FAILURE_TS])
        if ts == AT_A_BARRIER:
            return "the windows that moved to another instance"
        return f"the windows open at event time {self.time_text(ts)}"

    def explain(self, failure: np.ndarray, stores: list[Store], state: Any) -> HeadraceError:
        """Turn a worker's failure record into an error."""
        code = int(failure[worker_kernel.FAILURE_CODE])
        return RunFailedError(f"an instance failed with code {code}; please report this")
