"""A stream with keys, and cut into windows: the way to an aggregate or a custom operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import pyarrow as pa

from headrace.elastic.custom.operator import CustomOperator
from headrace.elastic.specs import AggregateSpec, ApplySpec, keys_text, window_text
from headrace.errors import ParameterError
from headrace.expressions import Aggregate
from headrace.ingress.key_sources import KeySource
from headrace.names import explains_arguments, missing_attribute
from headrace.plan.checks import check_columns, check_output_names
from headrace.plan.nodes import Node, operator_node
from headrace.stream.described import describe
from headrace.stream.hints import (
    AGGREGATES,
    OTHER_NAMES,
    RUNNING,
    WINDOW_NAMES,
    WINDOW_WORDS,
    warn_of_microseconds,
)
from headrace.summary import Summarised
from headrace.windows import Duration, Window

S = TypeVar("S")
"""The class of streams that results are."""


class KeyedStream(Summarised, Generic[S]):
    """A stream whose tuples have keys."""

    def __init__(
        self, stream_of: Callable[[Node], S], node: Node, names: tuple[str, ...], keys: tuple[KeySource, ...], nulls: str
    ):
        self._stream_of, self._node, self._names, self._keys, self._nulls = stream_of, node, names, keys, nulls

    def _summary(self) -> list[tuple[str, str]]:
        return [("key", keys_text(self._names, self._keys)), *describe(self._node)]

    def __getattr__(self, name: str) -> Any:
        stateful = {
            "aggregate": ".window(...).aggregate(...)",
            "agg": ".window(...).aggregate(...)",
            "apply": ".window(...).apply(...)",
        }
        stateful |= {name: f".window(...).aggregate({name}=hr.{name}(...))" for name in AGGREGATES}
        first = dict.fromkeys([*RUNNING, *OTHER_NAMES], ".window(...).aggregate(...) first")
        raise missing_attribute(self, name, stateful | WINDOW_NAMES | first)

    @explains_arguments(**WINDOW_WORDS)
    def window(
        self, size: Duration, advance: Duration | None = None, instances: str = "multi", zone: str | None = None
    ) -> WindowedStream[S]:
        """Cut each key's tuples into windows [l * advance, l * advance + size).

        Parameters
        ----------
        size, advance : duration
            The paper's WS and WA: a text such as ``"30min"`` or ``"1 hour"``, a timedelta
            (Python's, pandas' or NumPy's), or an integer in the unit of the event time.
            Without `advance` windows do not overlap.
        instances : {"multi", "single"}
            The paper's WT: "multi" keeps a state for each window, "single" one for each key, which slides.
        zone : str, optional
            Make windows of whole days in this time zone, from midnight to midnight;
            a day has 23 or 25 hours when clocks change. The event time must be
            a timestamp; its own zone, or the lack of one, makes no difference.

        Raises
        ------
        ParameterError
            A duration is invalid, not above 0, or not whole in the event time's unit; `advance` is above `size`;
            the zone is unknown, or windows in it are not whole days.
        OverflowInputError
            More than 4,096 windows would be open at a time.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa, datetime as dt
        >>> hours = pa.array([dt.datetime(2026, 3, 29, hour) for hour in range(24)], pa.timestamp("us", "UTC"))
        >>> days = hr.stream(pa.table({"ts": hours}), event_time="ts").window("1d", zone="Europe/Paris")
        >>> [(str(row["ts"]), row["n"]) for row in days.aggregate(n=hr.count()).to_arrow().to_pylist()]
        [('2026-03-29 22:00:00+00:00', 22), ('2026-03-30 22:00:00+00:00', 2)]
        """
        if instances not in ("multi", "single"):
            raise ParameterError(f'instances={instances!r}: give "multi" or "single"')
        kind = self._node.schema.field(self._node.event_time).type
        if zone is not None and not pa.types.is_timestamp(kind):
            raise ParameterError(f"zone={zone!r}: the event time {self._node.event_time!r} is {kind}; cast it to timestamp")
        window = Window.parse(size, advance, self._node.unit, zone)
        warn_of_microseconds("size", size, kind)
        if instances == "multi":
            window.check_open()
        return WindowedStream(self, window, instances)


class WindowedStream(Summarised, Generic[S]):
    """A keyed stream cut into windows."""

    def __init__(self, keyed: KeyedStream[S], window: Window, instances: str):
        self._keyed, self._window, self._instances = keyed, window, instances

    def _summary(self) -> list[tuple[str, str]]:
        window = window_text(self._window, self._keyed._node.unit, self._instances)
        return [("window", window), *self._keyed._summary()]

    def __getattr__(self, name: str) -> Any:
        hints = dict.fromkeys([*RUNNING, *OTHER_NAMES], ".aggregate(...) or .apply(...) first")
        hints |= {"key_by": ".key_by(...) before .window(...)", "agg": ".aggregate(name=hr.count(), ...)"}
        hints |= {name: f".aggregate({name}=hr.{name}(...))" for name in AGGREGATES}
        raise missing_attribute(self, name, hints)

    def aggregate(self, name: str = "aggregate", **aggregates: Aggregate) -> S:
        """Compute aggregates of each window of each key: A and A+.

        Parameters
        ----------
        name : str
            Name of the operator in the query.
        **aggregates : Aggregate
            Name of each result -> its aggregate: ``n=hr.count()``, ``most=hr.max("price")``, ...

        Returns
        -------
        Stream
            Columns: event time (the end of the window), keys, then the aggregates.

        Raises
        ------
        ParameterError
            There is no aggregate, or two results have one name.
        SchemaError
            There is no such column.
        UnsupportedTypeError
            The column's type has no such aggregate.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> table = pa.table({"ts": [1, 2, 61], "tags": [["a", "b"], ["a"], []]})
        >>> tags = hr.stream(table, event_time="ts").key_by(tag=hr.each("tags")).window(60)
        >>> tags.aggregate(n=hr.count()).to_arrow().to_pydict()
        {'ts': [60, 60], 'tag': ['a', 'b'], 'n': [2, 1]}
        """
        keyed, node = self._keyed, self._keyed._node
        if not isinstance(name, str):
            raise ParameterError(f"aggregate({name!r}): give each result a name, as in aggregate(n=hr.count(), most=hr.max('v'))")
        if not aggregates:
            raise ParameterError("aggregate(): give at least one, as in aggregate(n=hr.count())")
        for result, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise ParameterError(f"aggregate({result}={aggregate!r}): give hr.count(), hr.max(column), ...")
            check_columns(node.schema, aggregate.columns, f"aggregate({result}={aggregate!r})")
        check_output_names([node.event_time, *keyed._names, *aggregates], "aggregate()")
        self._window.check_open()
        spec = AggregateSpec(
            keyed._names, keyed._keys, self._window, tuple(aggregates.items()), keyed._nulls, self._instances
        )
        return keyed._stream_of(operator_node(spec, (node,), name))

    def apply(self, operator: Any, name: str | None = None) -> S:
        """Run a custom operator on each window of each key: O+.

        Parameters
        ----------
        operator : CustomOperator
            What `headrace.operator` returns; its documentation has examples.
        name : str, optional
            Name of the operator in the query; by default that of its function.

        Raises
        ------
        ParameterError
            `operator` was not made by `headrace.operator`.
        """
        return applied((self._keyed,), self._window, self._instances, operator, name)


def applied(
    keyed: Sequence[KeyedStream[S]], window: Window, instances: str, operator: Any, name: str | None
) -> S:
    """Run a custom operator on each window of each key of one or several inputs."""
    if not isinstance(operator, CustomOperator):
        raise ParameterError(f"apply({operator!r}): give what hr.operator(...) returns")
    first = keyed[0]
    spec = ApplySpec(first._names, tuple(k._keys for k in keyed), window, operator, first._nulls, instances)
    return first._stream_of(operator_node(spec, [k._node for k in keyed], name))
