"""The results of a run for its user: those so far, and all of them in the end."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.errors import NotSupportedError
from headrace.runtime import registry
from headrace.runtime.life import RunLife
from headrace.runtime.results import Result
from headrace.runtime.sources import with_most_late


class RunResults(RunLife):
    """A run whose results can be taken."""

    @property
    def late(self) -> pa.Table | None:
        """Rows set aside as late, in order of arrival; may be empty. None if no source has ``late="side"``."""
        tables = [table for source in with_most_late(self._execution.sources) for table in source.late_tables]
        return pa.concat_tables(tables, promote_options="permissive") if tables else None

    def snapshot(self) -> Any:
        """Return the results released so far: a prefix of the table that `to_arrow` returns in the end.

        If the run has failed or was stopped, these are the results emitted before. A run of transactions returns all its
        tables as of one punctuation instead (and `snapshot_to_spark` its results so far); if several operators have
        tables, ``run[name].snapshot()`` returns those of one. For a query of several results use `results`.
        """
        registry.check_process(self._execution.pid)
        extras = [operator.section.extras() for operator in self._execution.operators.values()]
        of_tables = [found["snapshot"] for found in extras if "snapshot" in found]
        return of_tables[0]() if len(of_tables) == 1 else self._result("snapshot").snapshot()

    @property
    def results(self) -> dict[str, Result]:
        """Each result of the query by its name; a query's only result has the name of its last operator.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> table = hr.stream(pa.table({"ts": [1, 2], "a": [5, 6]}), event_time="ts")
        >>> with hr.together(all=table, large=table.filter(hr.col("a") > 5)).start() as run:
        ...     done = run.wait()
        ...     rows = {name: result.to_arrow().num_rows for name, result in run.results.items()}
        >>> rows
        {'all': 2, 'large': 1}
        """
        registry.check_process(self._execution.pid)
        sinks = self._execution.sinks
        return {
            output.name: Result(output, sinks[output.name], self._check_complete, self._look_at_results)
            for output in self._execution.query.outputs
        }

    def _result(self, call: str) -> Result:
        """The only result."""
        found = self.results
        if len(found) > 1:
            each = " or ".join(f"run.results[{name!r}].{call}()" for name in found)
            raise NotSupportedError(f"{call}(): the run has {len(found)} results; write {each}")
        return next(iter(found.values()))

    def _look_at_results(self) -> None:
        if self._execution.over.is_set():
            self._warn_of_late_rows()

    def snapshot_to_spark(self, spark: Any):
        """Return the results released so far as a DataFrame, in deterministic order."""
        return self._result("snapshot_to_spark").snapshot_to_spark(spark)

    def to_arrow(self) -> pa.Table:
        """Return the results of a finished run as an Arrow table."""
        return self._result("to_arrow").to_arrow()

    def to_pandas(self):
        """Return the results of a finished run as a pandas frame."""
        return self._result("to_pandas").to_pandas()

    def to_spark(self, spark: Any):
        """Return the results of a finished run as a DataFrame, in deterministic order."""
        return self._result("to_spark").to_spark(spark)
