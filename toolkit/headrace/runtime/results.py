"""The user's handle on one result of a run: the rows so far, and all rows in the end, in any form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.egress.sink import Sink
from headrace.egress.sinks import CollectSink
from headrace.errors import NotSupportedError
from headrace.plan.nodes import Output
from headrace.summary import Summarised


class Result(Summarised):
    """One of the results of a run: ``run.results["name"]``.

    Parameters
    ----------
    output : Output
    sink : Sink
    check_complete : callable
        Takes the name of the call, and raises an error unless the run has come to the end of its input.
    look : callable
        Called before the results so far are read.
    """

    def __init__(self, output: Output, sink: Sink, check_complete: Callable[[str], None], look: Callable[[], None]):
        self._output, self._sink, self._check_complete, self._look = output, sink, check_complete, look

    def _summary(self) -> list[tuple[str, str]]:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return [("name", self.name), ("columns", columns), ("goes to", type(self._sink).__name__)]

    @property
    def name(self) -> str:
        """Name of the result."""
        return self._output.name

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""
        return self._output.schema

    def to_arrow(self) -> pa.Table:
        """Return the results of a finished run as an Arrow table."""
        sink = self._collected()
        self._check_complete("to_arrow()")
        return sink.table()

    def to_pandas(self):
        """Return the results of a finished run as a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_spark(self, spark: Any):
        """Return the results of a finished run as a DataFrame, in deterministic order."""
        from headrace.spark.sink import to_dataframe

        return to_dataframe(spark, self.to_arrow())

    def snapshot(self) -> pa.Table:
        """Return the results released so far: a prefix of the table that `to_arrow` returns in the end."""
        self._look()
        return self._collected().table()

    def snapshot_to_spark(self, spark: Any):
        """Return the results released so far as a DataFrame, in deterministic order."""
        from headrace.spark.sink import to_dataframe

        return to_dataframe(spark, self.snapshot())

    def _collected(self) -> CollectSink:
        if not isinstance(self._sink, CollectSink):
            raise NotSupportedError("results went to the sink= given to start(); leave it out to collect them")
        return self._sink


__all__ = ["Result"]
