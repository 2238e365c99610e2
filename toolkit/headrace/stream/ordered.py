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
    """The node of a pipeline; the node it begins with, while it has no stage."""
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
        """Return the stream itself: it is ordered already."""
        return self

    @explains_arguments()
    def filter(self, condition: Callable, name: str | None = None) -> Self:
        """Keep tuples for which ``f(t)`` is true: a stateless stage.

        Parameters
        ----------
        condition : function (t)
            Sees a tuple as functions of `hr.operator` do.
        name : str, optional
            Name of the stage; by default that of the function.
        """
        return self._and("filter", condition, name=name)

    @explains_arguments()
    def map(self, function: Callable, emits: Mapping[str, Any] | None = None, name: str | None = None) -> Self:
        """Make one tuple from each tuple: a stateless stage.

        Parameters
        ----------
        function : function (t, emit)
            Calls ``emit(column=value, ...)`` once.
        emits : dict
            Columns of the results: name -> kind. The results have these and the event time, and nothing else.
        name : str, optional
            Name of the stage.
        """
        return self._and("map", function, emits=emits, name=name)

    @explains_arguments()
    def flat_map(self, function: Callable, emits: Mapping[str, Any] | None = None, name: str | None = None) -> Self:
        """Make zero, one or many tuples from each tuple: a stateless stage. Its parameters are those of `map`."""
        return self._and("flat_map", function, emits=emits, name=name)

    @explains_arguments(key="by", keys="by")
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
            The key column: integers, bools or strings, without nulls.
        state : dict
            Fields of the state of one key, as for `hr.operator`.
        emits : dict
            Columns of the results beside the event time; a tuple may have any number of results. ``emit(ts=...)`` gives a
            result another event time than the tuple's. Behind a pipeline with such a stage, or with an `end`, an operator
            takes event time from the pipeline's results, which must not go back, and not from the progress of the input:
            windows close when a later result comes.
        buckets : int
            Number of buckets that keys are hashed into, 100 by default; as many workers may be at the stage.
        ranges : sequence of int, optional
            Ranges of integer keys in place of hashed buckets, each run by one worker at a time: rising boundaries, each
            the first key of a range; keys below the first one are a range, too. `hr.ranges_of` finds boundaries from a sample.
        forget : duration, optional
            A key not seen for longer than this, in event time, starts anew, and its memory is freed. Event times
            must not go back before such a stage.
        name : str, optional
            Name of the stage.
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
        """Keep one state for all tuples: a stateful stage, run by one worker at a time.

        Parameters
        ----------
        function : function (state, t, emit)
            Called for each tuple, in order.
        state, emits : dict
            As for `partitioned`.
        end : function (state, emit), optional
            Called when the input has ended, even if it was empty; not after a stop or a failure. Its results give their
            time, ``emit(ts=...)``, and pass the stages behind before the `end` of those. As these times may be any that are
            not before the results so far, an operator behind takes event time from the results. In a `union` of the pipeline
            with the stream it reads, if that can be read only once, the results may lag by no more than 64 batches.
        name : str, optional
            Name of the stage.
        """
        return self._and("stateful", function, state=state, emits=emits, end=end, name=name)


__all__ = ["Staged", "pipeline_node"]
