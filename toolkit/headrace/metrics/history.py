"""A run's counters over time, for reports, dashboards and controllers.

Counters only grow, so a rate is a difference between two samples. Latency is
kept as a histogram, and the difference of two histograms is the latency of the
results between them.

Every run keeps a history, `run.history`, filled by its own sampling thread; this
costs less than a thousandth of the run (`headrace bench metrics`).
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.errors import UnknownNameError
from headrace.metrics.intervals import Columns
from headrace.metrics.snapshot import Metrics, OperatorMetrics
from headrace.names import instead

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_EVERY_S = 0.1
DEFAULT_LIMIT = 1_000


@dataclass(frozen=True)
class Sample:
    """The counters of a run at one moment."""

    at_ns: int
    metrics: Metrics


class History:
    """Samples of a run, oldest first, up to a limit.

    Parameters
    ----------
    take : callable
        Returns the run's metrics.
    every_s : float
        Time between samples.
    limit : int
        Most samples kept, of some 20 kB for each operator. When there are more, every second one of the older
        half is dropped, so a long run has a coarse beginning, while its last minute is always fine.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": range(1000), "k": ["a", "b"] * 500})
    >>> with hr.stream(table, event_time="ts").key_by("k").window(10).aggregate(n=hr.count()).start() as run:
    ...     done = run.wait()
    ...     frame = run.history.to_pandas()
    >>> int(frame["processed"].iloc[-1])
    1000
    """

    def __init__(
        self,
        take: Callable[[], Metrics],
        every_s: float = DEFAULT_EVERY_S,
        limit: int = DEFAULT_LIMIT,
    ):
        self._take = take
        self.every_s, self.limit = every_s, max(2, limit)
        self.failure: Exception | None = None
        """Why sampling ended before the run did; this never ends the run."""
        self._samples: list[Sample] = []
        self._is_complete = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._samples)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self):,} samples, one every {self.every_s:g} s>"

    @property
    def samples(self) -> list[Sample]:
        """A copy of the list of samples."""
        with self._lock:
            return list(self._samples)

    @property
    def origin_ns(self) -> int:
        """Monotonic time at which the first tuple was added, which is time 0 in `to_pandas`."""
        with self._lock:
            last = self._samples[-1] if self._samples else None
        return last.at_ns - round(last.metrics.seconds * 1e9) if last else 0

    def since(self, at_ns: int) -> list[Sample]:
        """Return the samples taken after a monotonic time, such as that of the last sample seen."""
        with self._lock:
            first = bisect.bisect_right(self._samples, at_ns, key=lambda sample: sample.at_ns)
            return self._samples[first:]

    def seconds_of(self, at_ns: int) -> float:
        """Convert a monotonic time, such as a change's `completed_ns`, to seconds since the first tuple."""
        return (at_ns - self.origin_ns) / 1e9

    # -- taking samples

    def sample(self) -> Metrics:
        """Take one sample now."""
        with self._lock:
            return self._sample()

    def _sample(self) -> Metrics:
        metrics = self._take()
        if self._samples and self._samples[-1].at_ns >= metrics.at_ns:
            self._samples.pop()  # taken at the same moment, the end of the run
        self._samples.append(Sample(metrics.at_ns, metrics))
        if len(self._samples) > self.limit:
            del self._samples[1 : max(2, len(self._samples) // 2) : 2]
        return metrics

    def follow(self, over: threading.Event) -> None:
        """Take samples until the event is set, and then a last one. Body of the run's sampling thread."""
        try:
            while not over.wait(self.every_s):
                self.sample()
            self.complete()
        except Exception as error:
            self.failure = error

    def complete(self) -> None:
        """Take the last sample of a run that is over, unless it was taken already."""
        with self._lock:
            if not self._is_complete:
                self._is_complete = True
                self._sample()

    # -- what they say

    def to_pandas(self, operator: str | None = None) -> pd.DataFrame:
        """Return the history of one operator, by default the first: one row for each sample.

        Returns
        -------
        DataFrame
            For every operator: seconds since the first tuple; totals: tuples_in, tuples_out, added, processed, dropped,
            set_aside; present values: depth_tuples, threads, rate (NaN: full speed), behind and lag_s (tuples that are due
            and were not taken, and how long the oldest has been due, in seconds), balance_holds. The other columns are
            the measures of its engine (`OperatorMetrics.measures`): the growth per second of a counter, or its
            total if it has no rate; p50, p99 and max of what a histogram gained since the row before, in
            milliseconds (NaN if nothing came); by worker a column for each.

            For windows and joins: totals: filtered, null_keys, lost_wakeups; present values: depth_ms, live_keys,
            live_windows, state_bytes, holds_back, gap_<source> (watermark gap); since the row before: tuples_per_s
            (processed), input_per_s (added), output_per_s, updates_per_s, comparisons_per_s, latency_p50_ms, _p99_ms,
            _max_ms, imbalance_cv (a fraction) and imbalance_max_mean of the active workers, and for each worker i
            load_i (per second), busy_i, idle_i and blocked_i (shares of the time it was active).
        """
        import pandas as pd

        self._check(operator)
        rows, before, columns = [], None, None
        origin_ns = self.origin_ns
        for sample in self.samples:
            name = operator or next(iter(sample.metrics.operators), None)
            if name is None or not sample.metrics.operators[name].added:
                continue
            interval_s = (sample.at_ns - (before.at_ns if before is not None else origin_ns)) / 1e9
            if interval_s > 0:
                now = sample.metrics.operators[name]
                then = None if before is None else before.metrics.operators[name]
                columns = columns or Columns(now.measures)
                rows.append(columns.row(sample.metrics, now, then, (sample.at_ns - origin_ns) / 1e9, interval_s))
                before = sample
        return pd.DataFrame(rows, columns=None if rows else self._names(operator))

    def _check(self, operator: str | None) -> None:
        """Raise `UnknownNameError` for an operator that has no history."""
        last = self._samples[-1:]
        names = last[0].metrics.operators if last else ()
        if operator is not None and names and operator not in names:
            raise UnknownNameError(f"operator={operator!r}: {instead(operator, names, 'the operators', '{}')}")

    def _names(self, operator: str | None) -> list[str]:
        """Return the columns of a history without rows."""
        with self._lock:
            metrics = self._samples[-1].metrics if self._samples else self._take()
        measured = metrics.operators.get(operator or next(iter(metrics.operators), ""))
        return list(Columns(measured.measures if measured is not None else ()).names)

    def bucket_loads(self, operator: str | None = None) -> pd.DataFrame:
        """Return the load of each of the 1,024 buckets between each sample and the one before.

        Returns
        -------
        DataFrame
            int64; the index is seconds since the first tuple, and there is a column for each bucket; none for an operator
            without buckets.
        """
        import pandas as pd

        self._check(operator)
        origin_ns, samples = self.origin_ns, self.samples
        operators = [s.metrics.operators[operator or next(iter(s.metrics.operators))] for s in samples]
        loads = [np.array(_bucket_load(measured)) for measured in operators]
        seconds = [(sample.at_ns - origin_ns) / 1e9 for sample in samples]
        table = np.diff(np.array(loads), axis=0, prepend=0) if loads else np.zeros((0, 0), np.int64)
        return pd.DataFrame(table, index=pd.Index(seconds, name="seconds"))


def _bucket_load(metrics: OperatorMetrics) -> Sequence[int]:
    """What is counted by bucket; nothing of an operator that has none."""
    names = [measure.name for measure in metrics.measures if measure.by == "bucket"]
    return metrics.values[names[0]] if names else ()
