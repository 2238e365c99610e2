"""The meaning of a query before anything runs: checked where it is written, and the same for every engine.

=============  ==================================================================================
``nodes``      sources, steps, unions, operators; `Spec`, all that a plan knows of an operator;
               `Branch` and `Query`, the input of a run
``steps``      stateless steps: filter, select, and user functions fused into one loop
``planning``   from a tree of nodes to operators in topological order, each with its branches
``checks``     columns that do not exist, or exist twice
=============  ==================================================================================

An engine, or an operator of your own, is used through a `Spec`: `headrace.Stream.through` appends it to
a stream, and a run asks it for its section. No module here knows which engines exist.
"""

from headrace.plan.nodes import Spec, StreamType

__all__ = ["Spec", "StreamType"]
