"""Several results of one run: streams that share sources and operators, each with a sink of its own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.arguments import shown
from headrace.elastic.specs import ForwardSpec
from headrace.errors import ParameterError
from headrace.names import explains_arguments
from headrace.plan.nodes import Query
from headrace.plan.planning import plan
from headrace.stream.described import describe
from headrace.stream.streams import Stream
from headrace.summary import Summarised


class Together(Summarised):
    """Several streams that run as one query; what `together` returns."""

    def __init__(self, streams: dict[str, Stream]):
        self._streams = streams

    def _summary(self) -> list[tuple[str, str]]:
        described = dict(describe(*(stream._node for stream in self._streams.values())))
        columns = [(f"columns of {name}", ", ".join(stream.schema.names)) for name, stream in self._streams.items()]
        return [*columns, *((label, text) for label, text in described.items() if not label.startswith("columns"))]

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the operators, upstream first, as `threads=` and `controller=` of `start` take them."""
        return tuple(node.name for node in self.plan().operators)

    def plan(self) -> Query:
        """Return the validated query (`headrace.plan`)."""
        return plan({name: stream._node for name, stream in self._streams.items()}, ForwardSpec())

    def start(self, **options: Any):
        """Start all streams as one run; see `Stream.start`.

        Parameters
        ----------
        sink : dict of name to sink, optional
            Where each result goes; results left out are collected, for ``run.results[name].to_arrow()``.
        **options
            Those of `Stream.start`.
        """
        from headrace.runtime.handle import start

        return start(self.plan(), **options)

    def to_arrow(self, **options: Any) -> dict[str, pa.Table]:
        """Run to the end and return each result as an Arrow table, in deterministic order.

        Parameters
        ----------
        **options
            Those of `start`.

        Returns
        -------
        dict of str to pyarrow.Table
            Name of the result -> its rows.
        """
        from headrace.runtime.life import wait_for_results

        with self.start(**options) as run:
            wait_for_results(run)
            return {name: result.to_arrow() for name, result in run.results.items()}

    def to_pandas(self, **options: Any) -> dict[str, Any]:
        """Run to the end and return each result as a pandas frame, in deterministic order.

        Parameters
        ----------
        **options
            Those of `start`.

        Returns
        -------
        dict of str to DataFrame
            Name of the result -> its rows.
        """
        return {name: table.to_pandas() for name, table in self.to_arrow(**options).items()}

    def to_spark(self, spark: Any, **options: Any) -> dict[str, Any]:
        """Run to the end and return each result as a DataFrame of a Spark session, in deterministic order.

        Parameters
        ----------
        spark : SparkSession
        **options
            Those of `start`.

        Returns
        -------
        dict of str to pyspark.sql.DataFrame
            Name of the result -> its rows.
        """
        from headrace.runtime.life import wait_for_results

        with self.start(**options) as run:
            wait_for_results(run)
            return {name: result.to_spark(spark) for name, result in run.results.items()}


@explains_arguments(streams="give streams by name, as in together(counts=..., posts=...)")
def together(**streams: Stream) -> Together:
    """Run several streams as one query, with a result for each.

    Operators that they share run once. A source that can be read only once (a generator, a live Spark stream) is read
    once, and feeds every operator that follows it.

    Parameters
    ----------
    **streams : Stream
        Name of each result -> the stream.

    Returns
    -------
    Together
        It has `start`, and `to_arrow`, `to_pandas` and `to_spark`, which return a dict of results.

    Raises
    ------
    ParameterError
        Nothing is given, or something that is no stream.

    Notes
    -----
    STRETCH (Gulisano et al.), section 2.1: a query is a directed acyclic graph of operators.

    Files of several results (`parquet`) get their names together, once all results have ended; so does ``_SUCCESS`` of
    `parquet_directory`. A run that fails or is stopped leaves no such file, and its error says which results are
    complete: those whose sink has neither a file nor ``complete`` and ``publish``, and was closed when its own had ended.

    If two paths from one source meet again in a join and one of them delays its results (by a window of an
    hour), the other would have to hold an hour of tuples. Buffers hold some dozens of batches, so such a query is better
    written with a source for each path.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> posts = hr.stream(pa.table({"ts": [1, 2, 61], "user": ["a", "b", "a"]}), event_time="ts")
    >>> counts = posts.key_by("user").window(60).aggregate("counts", n=hr.count())
    >>> found = hr.together(counts=counts, often=counts.filter(hr.col("n") > 1), posts=posts).to_arrow(threads=2)
    >>> {name: table.num_rows for name, table in found.items()}
    {'counts': 3, 'often': 0, 'posts': 3}
    """
    if not streams:
        raise ParameterError("together(): give streams by name, as in together(counts=..., posts=...)")
    for name, stream in streams.items():
        if not isinstance(stream, Stream):
            raise ParameterError(f"together({name}={shown(stream)}): give what hr.stream(...) and its methods return")
    return Together(streams)


__all__ = ["Together", "together"]
