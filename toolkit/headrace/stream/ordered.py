"""A stream as an ordered pipeline: stages whose outputs come in the order of one worker, however many run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from headrace.names import explains_arguments
from headrace.ordering.specification import OrderedSpec
from headrace.ordering.stages import Stage, make_stage
from headrace.plan.nodes import Node, check_result, operator_node
from headrace.windows import Duration


def pipeline_node(origin: Node, stages: tuple[Stage, ...]) -> Node:
    """The node of a pipeline: what it begins with, while it has no stage."""
    if not stages:
        return origin
    node = operator_node(OrderedSpec(stages), (origin,))
    check_result(node, f"{stages[-1].kind}()")
    return node


class Staged:
    """The stages of a stream; each call adds one."""

    _origin: Node
    _stages: tuple[Stage, ...]

    def __init__(self, origin: Node, stages: tuple[Stage, ...] = ()):
        raise NotImplementedError

    def _and(self, kind: str, function: Any, **given: Any) -> Self:
        names = [stage.name for stage in self._stages]
        return type(self)(self._origin, (*self._stages, make_stage(kind, function, names, **given)))

    def ordered(self) -> Self:
        """The stream itself: it is ordered already."""
        return self

    @explains_arguments()
    def filter(self, condition: Callable, name: str | None = None) -> Self:
        """Keep tuples for which ``f(t)`` is true: a stateless stage.

        Parameters
        ----------
        condition : function (t)
            As functions of `hr.operator` see a tuple.
        name : str, optional
            Of the stage; by default the function's.
        """
        return self._and("filter", condition, name=name)

    @explains_arguments()
    def map(self, function: Callable, emits: Mapping[str, Any] | None = None, name: str | None = None) -> Self:
        """Make one tuple of each: a stateless stage.

        Parameters
        ----------
        function : function (t, emit)
            Calls ``emit(column=value, ...)`` once.
        emits : dict
            Name -> kind of the columns of the results, which have the event time besides, and nothing else.
        name : str, optional
            Of the stage.
        """
        return self._and("map", function, emits=emits, name=name)

    @explains_arguments()
    def flat_map(self, function: Callable, emits: Mapping[str, Any] | None = None, name: str | None = None) -> Self:
        """Make none, one or many tuples of each: a stateless stage. Parameters as of `map`."""
        return self._and("flat_map", function, emits=emits, name=name)

    @explains_arguments()
    def partitioned(
        self,
        function: Callable,
        *,
        by: str,
        state: Mapping[str, Any],
        emits: Mapping[str, Any],
        buckets: int | None = None,
        ranges: Sequence[int] | None = None,
        forget: Duration | None = None,
        name: str | None = None,
    ) -> Self:
        """Keep a state for each key: a partitioned stateful stage.

        Parameters
        ----------
        function : function (state, t, emit)
            Called for each tuple, in order within a key.
        by : str
            The column that is the key: integers, bools or strings, no nulls.
        state : dict
            Fields of the state of one key, as of `hr.operator`.
        emits : dict
            Columns of the results beside the event time; any number for each tuple. ``emit(ts=...)`` gives another event
            time than the tuple's. In a pipeline with such a stage, or an `end`, an operator behind goes by the times of its
            results, which must not go back, and not by how far the input has come: windows close when a later result comes.
        buckets : int
            Keys are hashed into so many, 100 by default; as many workers may be at the stage.
        ranges : sequence of int, optional
            In place of hashed buckets, ranges of integer keys, each run by one worker at a time: boundaries that rise, each
            the first key of a range; keys below the first of them are a range, too. `hr.ranges_of` takes them from a sample.
        forget : duration, optional
            A key that was not seen for longer than this, in event time, is as new, and what it held is given back. Times
            must not go back before such a stage.
        name : str, optional
            Of the stage.
        """
        return self._and(
            "partitioned", function, by=by, state=state, emits=emits, buckets=buckets, ranges=ranges, forget=forget, name=name
        )

    @explains_arguments()
    def stateful(
        self,
        function: Callable,
        *,
        state: Mapping[str, Any],
        emits: Mapping[str, Any],
        end: Callable | None = None,
        name: str | None = None,
    ) -> Self:
        """Keep one state for all tuples: a stateful stage, of one worker at a time.

        Parameters
        ----------
        function : function (state, t, emit)
            Called for each tuple, in order.
        state, emits : dict
            As of `partitioned`.
        end : function (state, emit), optional
            Called when the input has ended, also an empty one; what it emits says its time, ``emit(ts=...)``, and passes the
            stages behind before their own end. Not called after a stop or a failure. Since its times may be any that are not
            before those of the results so far, an operator behind goes by the results: in a `union` with the stream that the
            pipeline reads, where this can be read once only, they may lag by no more than 64 batches.
        name : str, optional
            Of the stage.
        """
        return self._and("stateful", function, state=state, emits=emits, end=end, name=name)


__all__ = ["Staged", "pipeline_node"]
