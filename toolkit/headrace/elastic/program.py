"""What an operator of a plan is to the engine: kernel text, columns, state, results. Base of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.elastic.failures import AT_A_BARRIER
from headrace.elastic.instance_loop import PRIVATE_WORDS
from headrace.elastic.words import UPDATES
from headrace.errors import HeadraceError, RunFailedError
from headrace.ingress.key_sources import KeySource
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.store import Store
from headrace.ingress.times import time_text
from headrace.plan.nodes import OperatorNode
from headrace.progress import MIN_TIME
from headrace.references import BUCKETS
from headrace.workers import worker_kernel


class Program:
    """Base of what is the same for most operators. One per operator and run."""

    node: OperatorNode
    dictionary: KeyDictionary | None = None
    key_names: Sequence[str] = ()
    """Of the columns that the dictionary gives for a key."""
    multi_key = False
    value_columns = 0
    retention = 0
    """Event time a stored tuple is still needed after it was processed."""
    window_size = 0
    nulls = "error"
    id_capacity = BUCKETS
    result_fields: Sequence[str] = ()
    """Fields of the state that are columns of the results, one ring of each instance in a row."""
    list_fields: Sequence[tuple[str, str]] = ()
    """Pairs of them that hold lists: positions, as of `words_ring.write_words`, and numbers of words."""
    lead = 0
    """Not 0: tuples of several sources come as they come, each at most so far ahead of the watermark."""
    order_matters = "it gives its results in the order of its input"
    """Why tuples have to come in order; "" if they have not."""
    first_promise = MIN_TIME
    load_meter = UPDATES
    """Counter that says how much an instance has had to do."""
    load_by_key = True
    """It is for the buckets of the tuples' keys, not for all buckets in turn."""
    places_per_key = 0
    """Window instances a key may have at once; the first field of the state is non-zero where one is."""
    latest_is_ready = False
    """The tuple that makes a result ready is the latest one in it."""
    time_value = ""
    """Name of the value column that is the event time in the stream's unit, where kernels read it."""

    def keys_of(self, side: int) -> Sequence[KeySource]:
        return ()

    def equal_columns_of(self, side: int) -> Sequence[str]:
        """Columns that a join wants equal, whether kernels know them by id or by value."""
        return ()

    def values_of(self, side: int) -> Sequence[str]:
        return ()

    def narrow_values_of(self, side: int) -> Sequence[str]:
        return ()

    def counted_of(self, side: int) -> Sequence[str]:
        """Values of which kernels know nothing but whether they are null, whatever their type."""
        return ()

    def texts_of(self, side: int) -> Mapping[str, KeyDictionary]:
        """Text columns whose strings kernels know by id: name -> what knows them."""
        return {}

    def forms_of(self, side: int) -> Mapping[str, tuple[str, int]]:
        """Values that are no columns: name -> (column, divisor); what is not divisible is null."""
        return {}

    def carried_of(self, side: int) -> Sequence[str]:
        return ()

    def columns_of(self, side: int) -> dict[str, np.dtype]:
        return {}

    def multi_key_of(self, side: int) -> bool:
        """Whether a tuple of this input has any number of keys."""
        return self.multi_key

    def note_keys(self, ids: np.ndarray) -> None:
        """Keys of tuples that are about to be published."""

    def text(self) -> str:
        raise NotImplementedError

    def allocate(self, instances: int, capacity: int) -> Any:
        """Allocate the state, a bundle by the names that the kernels write: what they keep, then the results."""
        raise NotImplementedError

    def finisher(self, stores: list[Store]) -> Any:
        raise NotImplementedError

    def private(self, worker: int) -> np.ndarray:
        """The instance's own words."""
        return np.zeros(PRIVATE_WORDS, np.int64)

    def scratch(self) -> Any:
        """The instance's own scratch memory, as its kernels expect it."""
        return np.empty(1 << 14, np.int32)

    def state_bytes(self, id_limit: int) -> int:
        return 0

    def arena_bytes(self, state: Any) -> int:
        """Memory that lists, sets and maps of a state take."""
        return 0

    def stored_tuples(self, state: Any, member: int) -> int:
        """Tuples an instance keeps, where it keeps no windows."""
        return 0

    def release(self, watermark: int) -> None:
        """No window that ends at or before `watermark` is open, and its results were built."""

    def explain_compile_error(self, error: BaseException, module: Any) -> HeadraceError | None:
        """Say what a compiler's error in the generated module means; None if it is not a user function's."""
        return None

    def explain_exception(
        self, error: BaseException, words: np.ndarray, stores: list[Store]
    ) -> HeadraceError | None:
        """Say what a user function's exception in a kernel means; None if it was none."""
        return None

    def time_text(self, ts: int) -> str:
        """Return an event time of a result as an error shows it."""
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
