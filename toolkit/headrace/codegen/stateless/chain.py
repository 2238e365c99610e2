"""Applying steps to batches of one schema: functions in compiled loops, and column conditions by Arrow between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.codegen.stateless.columns import as_column
from headrace.codegen.stateless.loop import Loop
from headrace.codegen.stateless.steps import Filter, FlatMap, Map
from headrace.errors import SchemaError
from headrace.expressions import Expression
from headrace.expressions.rows import check_movable
from headrace.memory.atomics import CELL
from headrace.names import instead


class StatelessChain:
    """Steps applied to batches of one schema.

    Parameters
    ----------
    steps : list of Filter, Map, FlatMap
    schema : pa.Schema
        Schema of the batches.
    event_time : str
        Carried unchanged; seen by functions as an integer, for a timestamp in
        microseconds.
    debug : bool
        Check bounds, and integers that leave the range of int64.
    is_compiled : bool
        False: check what can be checked without the compiler, which `compile`
        or the first batch runs.

    Attributes
    ----------
    schema : pa.Schema
        Schema of the results.
    stop : int64[CELL]
        A function that does not return by itself returns soon after word 0 is set to 1.
        May be replaced by a run's own stop word before the first batch.

    Raises
    ------
    FunctionError
        A function cannot be compiled for these columns.

    Examples
    --------
    >>> def halves(t, emit):
    ...     emit(part=t.x // 2)
    ...     emit(part=t.x - t.x // 2)
    >>> schema = pa.schema({"ts": pa.int64(), "x": pa.int64(), "name": pa.string()})
    >>> chain = StatelessChain([Filter(lambda t: t.x > 1), FlatMap(halves, {"part": "int64"})], schema, "ts")
    >>> chain.apply(pa.record_batch([[1, 2], [1, 5], ["a", "b"]], schema=schema)).to_pylist()
    [{'ts': 2, 'x': 5, 'name': 'b', 'part': 2}, {'ts': 2, 'x': 5, 'name': 'b', 'part': 3}]
    """

    def __init__(
        self,
        steps: Sequence[Filter | Map | FlatMap],
        schema: pa.Schema,
        event_time: str,
        debug: bool = False,
        is_compiled: bool = True,
    ):
        if event_time not in schema.names:
            raise SchemaError(f"column {event_time!r} does not exist: {instead(event_time, schema.names, 'the columns', '{}')}")
        self.stop = np.zeros(CELL, np.int64)
        self._parts: list[Expression | Loop] = []
        for step in steps:
            if isinstance(step, Filter) and isinstance(step.condition, Expression):
                step.condition.value_type(schema)  # raises for a wrong column
                self._parts.append(step.condition)
                continue
            if not self._parts or not isinstance(self._parts[-1], Loop):
                self._parts.append(Loop(schema, event_time, debug))
            loop = self._parts[-1]
            assert isinstance(loop, Loop)
            loop.add(step)
            schema = loop.result_schema
        self.schema = schema
        check_movable(schema, "map(), filter() or flat_map()")
        for part in self._parts:
            if isinstance(part, Loop):
                part.check()
        if is_compiled:
            self.compile()

    def compile(self) -> None:
        """Compile the loops that are not compiled yet, for columns without nulls."""
        for part in self._parts:
            if isinstance(part, Loop):
                part.compile(nullable=False)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Apply the steps.

        Raises
        ------
        FunctionError
            A function failed; the error has its line and the tuple.
        RunStoppedError
            `stop` was set.
        """
        for part in self._parts:
            batch = part.filter(batch) if isinstance(part, Expression) else part.apply(batch, self.stop)
        return batch

    def lists(self, batch: pa.RecordBatch) -> pa.LargeListArray:
        """Return what a chain of one flat_map with one column emits, as a list for each row.

        Raises
        ------
        FunctionError, RunStoppedError
            As in `apply`.
        """
        (loop,) = self._parts
        assert isinstance(loop, Loop)
        (source, values), texts = loop.run(batch, self.stop)
        (kind,) = loop.computed.values()
        ends = np.searchsorted(source, np.arange(batch.num_rows + 1))  # results are in the order of their rows
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), as_column(values, kind, texts))
